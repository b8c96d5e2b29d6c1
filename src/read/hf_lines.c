/* >>read/hf_lines    families of transformers as lines of the text form. What a module's forward
   pass calls, in its order, and where Python lets go of values (`drop`): as transformers 5.23 runs
   under torch 2.15 (models/TYPE/modeling_TYPE.py, masking_utils.py, loss_utils.py). */
#include "read/read.h"

/* Written by hf_text.c, which puts in:
     @       the path of the layer, "model.layers.3."
     $c      a number: h hidden, n heads, k heads of keys, d head_dim, r half of what is rotated,
             Q n*d, K k*d, i intermediate, v vocab, g n/k, e experts, t of them for a token,
             m their width, 2 twice it, p positions, y types of tokens, z size of a norm
     %c      a name: x a layer's input, n and m what its norms give, y what attention adds, p and i
             path and input of a norm or activation, e the embedding
     {c...}  only where flag c is set, {!c...} only where it is not
     &path|input|c|size|drop   a norm of so many elements; its output's name becomes %c. drop: what
                               goes with its input, which autocast gives another dtype; behind +:
                               at the end of the model
     ^path|input|c             the activation                                                  */

/* clang-format off */

/* ---- norms ---- */

static const char vram__hf_lines_rms[] =
  "to %p.to %i dtype=f32\n"
  "pow %p.pow %p.to scalar=1\n"
  "mean %p.mean %p.pow dim=-1 keepdim=1\n"
  "add %p.add %p.mean scalar=1\n"
  "rsqrt %p.rsqrt %p.add\n"
  "mul %p.mul %p.to %p.rsqrt\n"
  "{dtype_as %p.to_1 %p.mul %i}{!dto %p.to_1 %p.mul dtype=model}\n"
  "parameter %p.weight shape=[$z]\n"
  "mul %p.mul_1 %p.weight %p.to_1\n"
  "drop{d %d}{f %d %x} %p.mean %p.mul\n";

static const char vram__hf_lines_gemma[] =
  "to %p.to %i dtype=f32\n"
  "pow %p.pow %p.to scalar=1\n"
  "mean %p.mean %p.pow dim=-1 keepdim=1\n"
  "add %p.add %p.mean scalar=1\n"
  "rsqrt %p.rsqrt %p.add\n"
  "mul %p.mul %p.to %p.rsqrt\n"
  "parameter %p.weight shape=[$z]\n"
  "to %p.to_1 %p.weight dtype=f32\n"
  "add %p.add_1 %p.to_1 scalar=1\n"
  "mul %p.mul_1 %p.mul %p.add_1\n"
  "type_as %p.type_as %p.mul_1 %i\n"
  "{ddrop %d\n}{fdrop %d\n}";

static const char vram__hf_lines_layer_norm[] =
  "layer_norm %p %i normalized_shape=$z{B bias=0}\n"
  "{fdrop %d %x\n}";

/* ---- before the layers ---- */

static const char vram__hf_lines_inputs[] =
  "input input_ids i64 [N,S]\n"
  "input labels i64 [N,S]\n";

static const char vram__hf_lines_embedding[] =
  "embedding model.embed_tokens input_ids num_embeddings=$v embedding_dim=$h\n";

static const char vram__hf_lines_scaled_embedding[] =
  "embedding model.embed_tokens.embedding input_ids num_embeddings=$v embedding_dim=$h\n"
  "buffer model.embed_tokens.embed_scale shape=[]\n"
  "to model.embed_tokens.to model.embed_tokens.embed_scale dtype=model\n"
  "mul model.embed_tokens.mul model.embed_tokens.embedding model.embed_tokens.to\n";

static const char vram__hf_lines_positions[] =
  "arange model.arange shape=[S] dtype=i64\n"
  "add model.add model.arange scalar=1\n"
  "unsqueeze model.unsqueeze model.add dim=0\n";

/* find_packed_sequence_indices: are there several sequences in a row? */
static const char vram__hf_lines_packed[] =
  "expand %p.expand %i shape=[N,S]\n"
  "slice %p.slice %p.expand dim=0 colon=1\n"
  "slice %p.slice_1 %p.slice dim=1 end=1\n"
  "sub %p.sub %p.slice_1 scalar=1\n"
  "cat %p.cat %p.sub %p.expand dim=-1\n"
  "slice %p.slice_2 %p.cat dim=-1 end=S\n"
  "slice %p.slice_3 %p.cat dim=-1 start=1\n"
  "sub %p.sub_1 %p.slice_3 %p.slice_2\n"
  "drop %p.cat\n"
  "ne %p.ne %p.sub_1 scalar=1\n"
  "cumsum %p.cumsum %p.ne dim=-1\n"
  "slice %p.slice_4 %p.cumsum dim=0 colon=1\n"
  "select %p.select %p.slice_4 dim=1 index=-1\n"
  "eq %p.eq %p.select scalar=1\n"
  "amax %p.any %p.eq\n"
  "drop %p.expand %p.sub %p.sub_1 %p.cumsum\n";

/* sdpa_mask of a sliding window that is shorter than the sequence */
static const char vram__hf_lines_mask[] =
  "arange %p.arange_1 shape=[N] dtype=i64\n"
  "arange %p.arange_2 shape=[1] dtype=i64\n"
  "arange %p.arange_3 shape=[S] dtype=i64\n"
  "add %p.add_1 %p.arange_3 scalar=1\n"
  "arange %p.arange_4 shape=[S] dtype=i64\n"
  "add %p.add_2 %p.arange_4 scalar=1\n"
  "slice %p.slice_10 %p.arange_1 dim=0 colon=1\n"
  "unsqueeze %p.unsqueeze_1 %p.slice_10 dim=1\n"
  "unsqueeze %p.unsqueeze_2 %p.unsqueeze_1 dim=2\n"
  "unsqueeze %p.unsqueeze_3 %p.unsqueeze_2 dim=3\n"
  "unsqueeze %p.unsqueeze_4 %p.arange_2 dim=0\n"
  "slice %p.slice_11 %p.unsqueeze_4 dim=1 colon=1\n"
  "unsqueeze %p.unsqueeze_5 %p.slice_11 dim=2\n"
  "unsqueeze %p.unsqueeze_6 %p.unsqueeze_5 dim=3\n"
  "unsqueeze %p.unsqueeze_7 %p.add_1 dim=0\n"
  "unsqueeze %p.unsqueeze_8 %p.unsqueeze_7 dim=1\n"
  "slice %p.slice_12 %p.unsqueeze_8 dim=2 colon=1\n"
  "unsqueeze %p.unsqueeze_9 %p.slice_12 dim=3\n"
  "unsqueeze %p.unsqueeze_10 %p.add_2 dim=0\n"
  "unsqueeze %p.unsqueeze_11 %p.unsqueeze_10 dim=1\n"
  "unsqueeze %p.unsqueeze_12 %p.unsqueeze_11 dim=2\n"
  "slice %p.slice_13 %p.unsqueeze_12 dim=3 colon=1\n"
  "ones %p.ones shape=[] dtype=bool\n"
  "sub %p.sub_4 %p.unsqueeze_9 scalar=1\n"
  "gt %p.gt %p.slice_13 %p.sub_4\n"
  "view %p.to %p.gt shape=[1,1,S,S]\n"
  "logical_and %p.logical_and %p.ones %p.to\n"
  "le %p.le %p.slice_13 %p.unsqueeze_9\n"
  "view %p.to_1 %p.le shape=[1,1,S,S]\n"
  "logical_and %p.logical_and_1 %p.logical_and %p.to_1\n"
  "drop %p.unsqueeze_3 %p.unsqueeze_6 %p.unsqueeze_9 %p.slice_13\n"
  "expand %p.mask %p.logical_and_1 shape=[N,1,S,S]\n"
  "drop %p.arange_1 %p.arange_2 %p.add_1 %p.add_2\n";

/* cos and sin of each token */
static const char vram__hf_lines_rope[] =
  "unsqueeze %p.unsqueeze model.unsqueeze dim=2\n"
  "to %p.to %p.unsqueeze dtype=f32\n"
  "buffer %p.inv_freq shape=[$r] dtype=f32\n"
  "to %p.to_1 %p.inv_freq dtype=f32\n"
  "mul %p.mul %p.to %p.to_1\n"
  "cat %p.cat %p.mul %p.mul dim=-1\n"
  "cos %p.cos %p.cat\n"
  "mul %p.mul_1 %p.cos scalar=1\n"
  "sin %p.sin %p.cat\n"
  "mul %p.mul_2 %p.sin scalar=1\n"
  "to %p.to_2 %p.mul_1 dtype=model\n"
  "to %p.to_3 %p.mul_2 dtype=model\n"
  "drop %p.mul %p.cat %p.mul_1\n";

/* ---- attention ---- */

static const char vram__hf_lines_norm_1[] = "&@input_layernorm|%x|n|h|\n";

static const char vram__hf_lines_qkv[] =
  "linear @self_attn.q_proj %n out_features=$Q{!b bias=0}\n"
  "view @self_attn.view @self_attn.q_proj shape=[N,S,$n,$d]\n"
  "{q&@self_attn.q_norm|@self_attn.view|a|d|@self_attn.q_proj @self_attn.view\n}"
  "transpose @self_attn.transpose {q%a}{!q@self_attn.view} dim0=1 dim1=2\n"
  "linear @self_attn.k_proj %n out_features=$K{!b bias=0}\n"
  "view @self_attn.view_1 @self_attn.k_proj shape=[N,S,$k,$d]\n"
  "{q&@self_attn.k_norm|@self_attn.view_1|c|d|@self_attn.k_proj @self_attn.view_1\n}"
  "transpose @self_attn.transpose_1 {q%c}{!q@self_attn.view_1} dim0=1 dim1=2\n"
  "linear @self_attn.v_proj %n out_features=$K{!b bias=0}\n"
  "view @self_attn.view_2 @self_attn.v_proj shape=[N,S,$k,$d]\n"
  "transpose @self_attn.transpose_2 @self_attn.view_2 dim0=1 dim1=2\n"
  "{Q&@self_attn.q_norm|@self_attn.transpose|a|d|@self_attn.q_proj @self_attn.view\n"
  "&@self_attn.k_norm|@self_attn.transpose_1|c|d|@self_attn.k_proj @self_attn.view_1\n}";

/* apply_rotary_pos_emb; %r: the module of cos and sin */
static const char vram__hf_lines_rotate[] =
  "unsqueeze @self_attn.unsqueeze %r.to_2 dim=1\n"
  "unsqueeze @self_attn.unsqueeze_1 %r.to_3 dim=1\n"
  "mul @self_attn.mul {Q%a}{!Q@self_attn.transpose} @self_attn.unsqueeze\n"
  "slice @self_attn.slice {Q%a}{!Q@self_attn.transpose} dim=3 end=$r\n"
  "slice @self_attn.slice_1 {Q%a}{!Q@self_attn.transpose} dim=3 start=$r\n"
  "neg @self_attn.neg @self_attn.slice_1\n"
  "cat @self_attn.cat @self_attn.neg @self_attn.slice dim=-1\n"
  "drop @self_attn.slice_1\n"
  "mul @self_attn.mul_1 @self_attn.cat @self_attn.unsqueeze_1\n"
  "add @self_attn.add @self_attn.mul @self_attn.mul_1\n"
  "mul @self_attn.mul_2 {Q%c}{!Q@self_attn.transpose_1} @self_attn.unsqueeze\n"
  "slice @self_attn.slice_2 {Q%c}{!Q@self_attn.transpose_1} dim=3 end=$r\n"
  "slice @self_attn.slice_3 {Q%c}{!Q@self_attn.transpose_1} dim=3 start=$r\n"
  "neg @self_attn.neg_1 @self_attn.slice_3\n"
  "cat @self_attn.cat_1 @self_attn.neg_1 @self_attn.slice_2 dim=-1\n"
  "drop @self_attn.slice_3\n"
  "mul @self_attn.mul_3 @self_attn.cat_1 @self_attn.unsqueeze_1\n"
  "add @self_attn.add_1 @self_attn.mul_2 @self_attn.mul_3\n"
  "drop {Q%a %c}"
  "{!Q{q%a}{!q@self_attn.q_proj @self_attn.view} @self_attn.transpose"
  " {q%c}{!q@self_attn.k_proj @self_attn.view_1} @self_attn.transpose_1}"
  " @self_attn.unsqueeze @self_attn.unsqueeze_1\n";

/* repeat_kv of keys and values, where there is a mask */
static const char vram__hf_lines_repeat[] =
  "{w{gslice @self_attn.slice_4 @self_attn.add_1 dim=0 colon=1\n"
  "slice @self_attn.slice_5 @self_attn.slice_4 dim=1 colon=1\n"
  "unsqueeze @self_attn.unsqueeze_2 @self_attn.slice_5 dim=2\n"
  "slice @self_attn.slice_6 @self_attn.unsqueeze_2 dim=3 colon=1\n"
  "slice @self_attn.slice_7 @self_attn.slice_6 dim=4 colon=1\n"
  "expand @self_attn.expand @self_attn.slice_7 shape=[N,$k,$g,S,$d]\n"
  "reshape @self_attn.keys @self_attn.expand shape=[N,$n,S,$d]\n"
  "drop @self_attn.slice_7\n"
  "slice @self_attn.slice_8 @self_attn.transpose_2 dim=0 colon=1\n"
  "slice @self_attn.slice_9 @self_attn.slice_8 dim=1 colon=1\n"
  "unsqueeze @self_attn.unsqueeze_3 @self_attn.slice_9 dim=2\n"
  "slice @self_attn.slice_10 @self_attn.unsqueeze_3 dim=3 colon=1\n"
  "slice @self_attn.slice_11 @self_attn.slice_10 dim=4 colon=1\n"
  "expand @self_attn.expand_1 @self_attn.slice_11 shape=[N,$k,$g,S,$d]\n"
  "reshape @self_attn.values @self_attn.expand_1 shape=[N,$n,S,$d]\n"
  "drop @self_attn.slice_11\n}}";

static const char vram__hf_lines_attend[] =
  "scaled_dot_product_attention @self_attn.sdpa @self_attn.add "
  "{w{g@self_attn.keys @self_attn.values}{!g@self_attn.add_1 @self_attn.transpose_2} %s}"
  "{!w@self_attn.add_1 @self_attn.transpose_2}{D dropout_p=#a}{!w is_causal=1{g enable_gqa=1}}\n"
  "reshape @self_attn.reshape @self_attn.sdpa shape=[N,$n,S,$d]\n"
  "transpose @self_attn.transpose_3 @self_attn.reshape dim0=1 dim1=2\n"
  "contiguous @self_attn.contiguous @self_attn.transpose_3\n"
  "drop{w{g @self_attn.keys @self_attn.values}} @self_attn.sdpa @self_attn.reshape\n"
  "reshape @self_attn.reshape_1 @self_attn.contiguous shape=[N,S,$Q]\n"
  "contiguous @self_attn.contiguous_1 @self_attn.reshape_1\n"
  "drop @self_attn.contiguous\n"
  "linear @self_attn.o_proj @self_attn.contiguous_1 out_features=$h{!o bias=0}\n"
  "{qorder @self_attn.q_norm.weight @self_attn.k_norm.weight\n}"
  "{Qorder @self_attn.q_norm.weight @self_attn.k_norm.weight\n}"
  "drop %n @self_attn.v_proj @self_attn.view_2 @self_attn.transpose_2 @self_attn.add"
  " @self_attn.add_1\n";

/* ---- what stands between, and behind ---- */

static const char vram__hf_lines_norm_2[] =
  "add @add %x @self_attn.o_proj\n"
  "&@post_attention_layernorm|@add|m|h|\n";

static const char vram__hf_lines_gated[] =
  "linear @mlp.gate_proj %m out_features=$i{!u bias=0}\n"
  "^@mlp.act_fn|@mlp.gate_proj|a\n"
  "linear @mlp.up_proj %m out_features=$i{!u bias=0}\n"
  "mul @mlp.mul %a @mlp.up_proj\n"
  "linear @mlp.down_proj @mlp.mul out_features=$h{!u bias=0}\n";

static const char vram__hf_lines_plain[] =
  "linear @mlp.up_proj %m out_features=$i{!u bias=0}\n"
  "^@mlp.act_fn|@mlp.up_proj|a\n"
  "linear @mlp.down_proj %a out_features=$h{!u bias=0}\n";

static const char vram__hf_lines_end[] =
  "order @input_layernorm.weight @post_attention_layernorm.weight\n"
  "drop %m\n"
  "add @add_1 @add @mlp.down_proj\n"
  "{ldrop %x\n}";

/* norms of what attention and the MLP give, and before both (Gemma) */
static const char vram__hf_lines_norm_2_3[] =
  "&@post_attention_layernorm|@self_attn.o_proj|y|h|\n"
  "add @add %x %y\n"
  "&@pre_feedforward_layernorm|@add|m|h|\n";

static const char vram__hf_lines_end_4[] =
  "order @input_layernorm.weight @post_attention_layernorm.weight "
  "@pre_feedforward_layernorm.weight\n"
  "drop %m\n"
  "&@post_feedforward_layernorm|@mlp.down_proj|y|h|\n"
  "add @add_1 @add %y\n"
  "{ldrop %x\n}";

/* a router: of Qwen, of Mixtral */
static const char vram__hf_lines_router[] =
  "view @mlp.view %m shape=[N*S,$h]\n"
  "reshape @mlp.gate.reshape @mlp.view shape=[N*S,$h]\n"
  "linear @mlp.gate.linear @mlp.gate.reshape out_features=$e bias=0\n"
  "softmax @mlp.gate.softmax @mlp.gate.linear dim=-1 dtype=f32\n"
  "topk @mlp.gate.topk,@mlp.gate.topk.i @mlp.gate.softmax k=$t dim=-1\n"
  "{Ksum @mlp.gate.sum @mlp.gate.topk dim=-1 keepdim=1\n"
  "div @mlp.gate.div @mlp.gate.topk @mlp.gate.sum inplace=1\n}"
  "type_as @mlp.gate.to {K@mlp.gate.div}{!K@mlp.gate.topk} @mlp.gate.linear\n"
  "drop @mlp.gate.reshape @mlp.gate.softmax{K @mlp.gate.topk}\n"
  "reshape @mlp.experts.reshape @mlp.gate.to shape=[N*S*$t]\n";

static const char vram__hf_lines_mixtral_router[] =
  "view @mlp.view %m shape=[N*S,$h]\n"
  "reshape @mlp.gate.reshape @mlp.view shape=[N*S,$h]\n"
  "linear @mlp.gate.linear @mlp.gate.reshape out_features=$e bias=0\n"
  "to @mlp.gate.to @mlp.gate.linear dtype=f32\n"
  "softmax @mlp.gate.softmax @mlp.gate.to dim=-1\n"
  "topk @mlp.gate.topk,@mlp.gate.topk.i @mlp.gate.softmax k=$t dim=-1\n"
  "sum @mlp.gate.sum @mlp.gate.topk dim=-1 keepdim=1\n"
  "div @mlp.gate.div @mlp.gate.topk @mlp.gate.sum inplace=1\n"
  "drop @mlp.gate.reshape @mlp.gate.softmax\n"
  "reshape @mlp.experts.reshape @mlp.gate.div shape=[N*S*$t]\n";

/* grouped_mm_experts_forward, and the rest of the layer */
static const char vram__hf_lines_experts[] =
  "reshape @mlp.experts.reshape_1 @mlp.gate.topk.i shape=[N*S*$t]\n"
  "sort @mlp.experts.sort,@mlp.experts.sort.i @mlp.experts.reshape_1\n"
  "floor_divide @mlp.experts.floor_divide @mlp.experts.sort.i scalar=1\n"
  "index @mlp.experts.index @mlp.view @mlp.experts.floor_divide\n"
  "index @mlp.experts.index_1 @mlp.experts.reshape @mlp.experts.sort.i\n"
  "to @mlp.experts.to @mlp.experts.sort dtype=i32\n"
  "histc @mlp.experts.histc @mlp.experts.to bins=$e\n"
  "cumsum @mlp.experts.cumsum @mlp.experts.histc dim=0 dtype=i32\n"
  "parameter @mlp.experts.gate_up_proj shape=[$e,$2,$h]\n"
  "transpose @mlp.experts.transpose @mlp.experts.gate_up_proj dim0=-2 dim1=-1\n"
  "to @mlp.experts.to_1 @mlp.experts.index dtype=model\n"
  "grouped_mm @mlp.experts.grouped_mm @mlp.experts.to_1 @mlp.experts.transpose @mlp.experts.cumsum\n"
  "chunk @mlp.experts.chunk.0,@mlp.experts.chunk.1 @mlp.experts.grouped_mm chunks=2 dim=-1\n"
  "^@mlp.experts.act_fn|@mlp.experts.chunk.0|a\n"
  "mul @mlp.experts.mul %a @mlp.experts.chunk.1\n"
  "drop @mlp.experts.grouped_mm @mlp.experts.chunk.0\n"
  "parameter @mlp.experts.down_proj shape=[$e,$h,$m]\n"
  "order{!X @mlp.gate.linear} @input_layernorm.weight @post_attention_layernorm.weight\n"
  "transpose @mlp.experts.transpose_1 @mlp.experts.down_proj dim0=-2 dim1=-1\n"
  "to @mlp.experts.to_2 @mlp.experts.mul dtype=model\n"
  "grouped_mm @mlp.experts.grouped_mm_1 @mlp.experts.to_2 @mlp.experts.transpose_1 "
  "@mlp.experts.cumsum\n"
  "drop @mlp.experts.mul\n"
  "unsqueeze @mlp.experts.unsqueeze @mlp.experts.index_1 dim=-1\n"
  "mul @mlp.experts.mul_1 @mlp.experts.grouped_mm_1 @mlp.experts.unsqueeze\n"
  "empty @mlp.experts.empty shape=[N*S*$t] dtype=i64\n"
  "arange @mlp.experts.arange shape=[N*S*$t] dtype=i64\n"
  "index_put @mlp.experts.index_put @mlp.experts.empty @mlp.experts.sort.i @mlp.experts.arange "
  "inplace=1\n"
  "index @mlp.experts.index_2 @mlp.experts.mul_1 @mlp.experts.empty\n"
  "view @mlp.experts.view @mlp.experts.index_2 shape=[N*S,$t,$h]\n"
  "sum @mlp.experts.sum @mlp.experts.view dim=1\n"
  "to @mlp.experts.to_3 @mlp.experts.sum dtype=model\n"
  "drop{X @mlp.view} @mlp.experts.reshape @mlp.experts.reshape_1 @mlp.experts.sort "
  "@mlp.experts.sort.i @mlp.experts.index @mlp.experts.index_1 @mlp.experts.to @mlp.experts.histc "
  "@mlp.experts.cumsum @mlp.experts.grouped_mm_1 @mlp.experts.empty @mlp.experts.index_2\n"
  "reshape @mlp.reshape @mlp.experts.to_3 shape=[N,S,$h]\n"
  "drop %m{!X @mlp.view} @mlp.gate.linear{X @mlp.gate.topk} @mlp.gate.topk.i "
  "{X@mlp.gate.div}{!X@mlp.gate.to}\n"
  "add @add_1 @add @mlp.reshape\n"
  "drop{l %x} @mlp.experts.to_3\n";

static const char vram__hf_lines_norm[] =
  "&model.norm|%x|n|h|+%e model.add model.unsqueeze{W model.sliding.logical_and_1 "
  "model.sliding.mask} model.rotary_emb.to_2 model.rotary_emb.to_3"
  "{R model.rotary_emb_local.to_2 model.rotary_emb_local.to_3}\n";

/* the head, and ForCausalLMLoss */
static const char vram__hf_lines_loss[] =
  "slice slice %n dim=0 colon=1\n"
  "slice slice_1 slice dim=1 colon=1\n"
  "slice slice_2 slice_1 dim=2 colon=1\n"
  "expand alias slice_2 shape=[N,S,$h]\n"
  "linear lm_head alias out_features=$v{T weights=%t}{!H bias=0}\n"
  "{Mmul logits lm_head scalar=1\n}"
  "to to {Mlogits}{!Mlm_head} dtype=f32\n"
  "pad pad labels pad=0,1\n"
  "slice slice_3 pad dim=1 start=1\n"
  "contiguous contiguous slice_3\n"
  "view view to shape=[N*S,$v]\n"
  "view view_1 contiguous shape=[N*S]\n"
  "view to_1 view_1 shape=[N*S]\n"
  "drop contiguous\n"
  "cross_entropy loss view to_1\n"
  "drop %n alias {Mlogits}{!Mlm_head} to pad\n"
  "buffer model.rotary_emb.original_inv_freq shape=[$r] dtype=f32\n"
  "{Rbuffer model.rotary_emb_local.original_inv_freq shape=[$r] dtype=f32\n}"
  "output loss\n"
  "infer {Mlogits}{!Mlm_head}\n";

/* ---- families ---- */

#define VRAM__HF_ROTARY                                                                            \
  vram__hf_lines_norm_1, vram__hf_lines_qkv, vram__hf_lines_rotate, vram__hf_lines_repeat,                \
      vram__hf_lines_attend

/* flags: q norms of heads before they become an axis, Q behind it; X Mixtral's router; R other angles
   where windows slide; L gelu means the default */
static const vram__hf_lines vram__hf_line_rows[] = {
  {"llama", "", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end}, {0}, 0},
  {"mistral", "", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end}, {0}, 0},
  {"qwen2", "", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end}, {0}, 0},
  {"qwen3", "q", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end}, {0}, 0},
  {"arcee", "", "hidden_act", "relu2", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_plain, vram__hf_lines_end}, {0}, 0},
  {"gemma", "L", "hidden_act", "gelu_pytorch_tanh", vram__hf_lines_gemma, vram__hf_lines_scaled_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end}, {0}, 0},
  {"gemma3_text", "QR", "hidden_activation", "gelu_pytorch_tanh", vram__hf_lines_gemma, vram__hf_lines_scaled_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2_3, vram__hf_lines_gated, vram__hf_lines_end_4}, {0}, 0},
  {"qwen3_moe", "q", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end},
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_router, vram__hf_lines_experts}, 8},
  {"mixtral", "X", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {0},
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_mixtral_router, vram__hf_lines_experts}, 2},
};
/* clang-format on */
