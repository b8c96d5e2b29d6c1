/* >>read/hf_text    config.json as a model in the text form: families of transformers as lines of
   the text form. What a module's forward pass calls, in its order, and where Python lets go of
   values (`drop`): as transformers 5.23 runs under torch 2.15 (models/TYPE/modeling_TYPE.py,
   masking_utils.py, loss_utils.py). */
#include "read/read.h"

/* What is put in:
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
     ^path|input|c             the activation
     <LETTER|argument|...>     a piece of lines, where %1, %2, ... are the arguments           */

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

/* ---- before the layers ---- */

static const char vram__hf_lines_inputs[] =
  "input input_ids i64 [N,S]\n"
  "input labels i64 [N,S]\n";

static const char vram__hf_lines_embedding[] =
  "embedding model.embed_tokens %I num_embeddings=$v embedding_dim=$h\n";

static const char vram__hf_lines_scaled_embedding[] =
  "embedding model.embed_tokens.embedding %I num_embeddings=$v embedding_dim=$h\n"
  "buffer model.embed_tokens.embed_scale shape=[]\n"
  "to model.embed_tokens.to model.embed_tokens.embed_scale dtype=model\n"
  "mul model.embed_tokens.mul model.embed_tokens.embedding model.embed_tokens.to\n";

static const char vram__hf_lines_multiplied_embedding[] =
  "embedding model.embed_tokens %I num_embeddings=$v embedding_dim=$h\n"
  "mul model.mul model.embed_tokens scalar=1\n";

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
  "{!Punsqueeze @self_attn.unsqueeze %r.to_2 dim=1\n"
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
  " @self_attn.unsqueeze @self_attn.unsqueeze_1\n}";

/* Where a generation has a layer's cache: hf_generate.c has its lines. */
static const char vram__hf_lines_cache[] = "";

/* repeat_kv of keys and values, where there is a mask; pack_gqa of one query */
static const char vram__hf_lines_repeat[] =
  "{w{g{1reshape @self_attn.packed @self_attn.add shape=[N,$k,$g,$d]\n}"
  "{!1slice @self_attn.slice_4 %K dim=0 colon=1\n"
  "slice @self_attn.slice_5 @self_attn.slice_4 dim=1 colon=1\n"
  "unsqueeze @self_attn.unsqueeze_2 @self_attn.slice_5 dim=2\n"
  "slice @self_attn.slice_6 @self_attn.unsqueeze_2 dim=3 colon=1\n"
  "slice @self_attn.slice_7 @self_attn.slice_6 dim=4 colon=1\n"
  "expand @self_attn.expand @self_attn.slice_7 shape=[N,$k,$g,%L,$d]\n"
  "reshape @self_attn.keys @self_attn.expand shape=[N,$n,%L,$d]\n"
  "drop @self_attn.slice_7\n"
  "slice @self_attn.slice_8 %V dim=0 colon=1\n"
  "slice @self_attn.slice_9 @self_attn.slice_8 dim=1 colon=1\n"
  "unsqueeze @self_attn.unsqueeze_3 @self_attn.slice_9 dim=2\n"
  "slice @self_attn.slice_10 @self_attn.unsqueeze_3 dim=3 colon=1\n"
  "slice @self_attn.slice_11 @self_attn.slice_10 dim=4 colon=1\n"
  "expand @self_attn.expand_1 @self_attn.slice_11 shape=[N,$k,$g,%L,$d]\n"
  "reshape @self_attn.values @self_attn.expand_1 shape=[N,$n,%L,$d]\n"
  "drop @self_attn.slice_11\n}}}";

static const char vram__hf_lines_attend[] =
  "scaled_dot_product_attention @self_attn.sdpa "
  "{w{g{1@self_attn.packed %K %V}{!1@self_attn.add @self_attn.keys @self_attn.values}}"
  "{!g@self_attn.add %K %V} %s}"
  "{!w{P@self_attn.transpose}{!P@self_attn.add} %K %V}{D dropout_p=#a}{!w{!1 is_causal=1}{g enable_gqa=1}}\n"
  "reshape @self_attn.reshape @self_attn.sdpa shape=[N,$n,S,$d]\n"
  "transpose @self_attn.transpose_3 @self_attn.reshape dim0=1 dim1=2\n"
  "contiguous @self_attn.contiguous @self_attn.transpose_3\n"
  "drop{w{g{!1 @self_attn.keys @self_attn.values}}} @self_attn.sdpa @self_attn.reshape\n"
  "reshape @self_attn.reshape_1 @self_attn.contiguous shape=[N,S,$Q]\n"
  "contiguous @self_attn.contiguous_1 @self_attn.reshape_1\n"
  "drop @self_attn.contiguous\n"
  "linear @self_attn.o_proj @self_attn.contiguous_1 out_features=$h{!o bias=0}\n"
  "{qorder @self_attn.q_norm.weight @self_attn.k_norm.weight\n}"
  "{Qorder @self_attn.q_norm.weight @self_attn.k_norm.weight\n}"
  "drop %n{P @self_attn.q_proj @self_attn.view @self_attn.transpose @self_attn.k_proj"
  " @self_attn.view_1 @self_attn.transpose_1}"
  "{!k @self_attn.v_proj @self_attn.view_2 @self_attn.transpose_2}{!P @self_attn.add"
  "{!k @self_attn.add_1}}\n";

/* ---- what stands between, and behind ---- */

static const char vram__hf_lines_norm_2[] =
  "{Ymul @mul @self_attn.o_proj scalar=1\n}"
  "add @add %x {Y@mul}{!Y@self_attn.o_proj}\n"
  "{Ydrop @self_attn.o_proj\n}"
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
  "{Ymul @mul_1 @mlp.down_proj scalar=1\n}"
  "add @add_1 @add {Y@mul_1}{!Y@mlp.down_proj}\n"
  "{Ydrop{l %x} @mlp.down_proj\n}"
  "{!Y{ldrop %x\n}}";

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

/* the same of a few tokens: batched_mm_experts_forward, to which generate() changes */
static const char vram__hf_lines_experts_one[] =
  "repeat_interleave @mlp.experts.selected @mlp.view repeats=$t dim=0\n"
  "reshape @mlp.experts.ids @mlp.gate.topk.i shape=[N*S*$t]\n"
  "parameter @mlp.experts.gate_up_proj shape=[$e,$2,$h]\n"
  "index @mlp.experts.up @mlp.experts.gate_up_proj @mlp.experts.ids\n"
  "unsqueeze @mlp.experts.column @mlp.experts.selected dim=-1\n"
  "bmm @mlp.experts.bmm @mlp.experts.up @mlp.experts.column\n"
  "squeeze @mlp.experts.squeeze @mlp.experts.bmm dim=-1\n"
  "drop @mlp.experts.column\n"
  "chunk @mlp.experts.chunk.0,@mlp.experts.chunk.1 @mlp.experts.squeeze chunks=2 dim=-1\n"
  "^@mlp.experts.act_fn|@mlp.experts.chunk.0|a\n"
  "mul @mlp.experts.mul %a @mlp.experts.chunk.1\n"
  "drop %a @mlp.experts.chunk.0 @mlp.experts.chunk.1 @mlp.experts.squeeze @mlp.experts.bmm\n"
  "parameter @mlp.experts.down_proj shape=[$e,$h,$m]\n"
  "order{!X @mlp.gate.linear} @input_layernorm.weight @post_attention_layernorm.weight\n"
  "index @mlp.experts.down @mlp.experts.down_proj @mlp.experts.ids\n"
  "drop @mlp.experts.up\n"
  "unsqueeze @mlp.experts.column_1 @mlp.experts.mul dim=-1\n"
  "bmm @mlp.experts.bmm_1 @mlp.experts.down @mlp.experts.column_1\n"
  "squeeze @mlp.experts.squeeze_1 @mlp.experts.bmm_1 dim=-1\n"
  "drop @mlp.experts.mul @mlp.experts.column_1\n"
  "unsqueeze @mlp.experts.unsqueeze @mlp.experts.reshape dim=-1\n"
  "mul @mlp.experts.mul_1 @mlp.experts.squeeze_1 @mlp.experts.unsqueeze\n"
  "view @mlp.experts.view @mlp.experts.mul_1 shape=[N*S,$t,$h]\n"
  "sum @mlp.experts.sum @mlp.experts.view dim=1\n"
  "to @mlp.experts.to_3 @mlp.experts.sum dtype=model\n"
  "drop{X @mlp.view} @mlp.experts.reshape @mlp.experts.ids @mlp.experts.selected"
  " @mlp.experts.down @mlp.experts.bmm_1 @mlp.experts.squeeze_1\n"
  "reshape @mlp.reshape @mlp.experts.to_3 shape=[N,S,$h]\n"
  "drop %m{!X @mlp.view} @mlp.gate.linear{X @mlp.gate.topk} @mlp.gate.topk.i "
  "{X@mlp.gate.div}{!X@mlp.gate.to}\n"
  "add @add_1 @add @mlp.reshape\n"
  "drop{l %x} @mlp.experts.to_3\n";

static const char vram__hf_lines_norm[] =
  "&model.norm|%x|n|h|+%e{!G model.add model.unsqueeze{W model.sliding.logical_and_1 "
  "model.sliding.mask}}{G%Z} model.rotary_emb.to_2 model.rotary_emb.to_3"
  "{R model.rotary_emb_local.to_2 model.rotary_emb_local.to_3}\n";

/* the head, and ForCausalLMLoss */
static const char vram__hf_lines_loss[] =
  "slice slice %n dim=0 colon=1\n"
  "slice slice_1 slice dim=1 colon=1\n"
  "slice slice_2 slice_1 dim=2 colon=1\n"
  "expand alias slice_2 shape=[N,S,$h]\n"
  "linear lm_head alias out_features=$v{T weights=%t}{!H bias=0}\n"
  "{Mmul logits lm_head scalar=1\n}{Ydiv logits lm_head scalar=1\n}"
  "to to {Mlogits}{Ylogits}{!M{!Ylm_head}} dtype=f32\n"
  "pad pad labels pad=0,1\n"
  "slice slice_3 pad dim=1 start=1\n"
  "contiguous contiguous slice_3\n"
  "view view to shape=[N*S,$v]\n"
  "view view_1 contiguous shape=[N*S]\n"
  "view to_1 view_1 shape=[N*S]\n"
  "drop contiguous\n"
  "cross_entropy loss view to_1\n"
  "drop %n alias {Mlogits}{Ylogits}{!M{!Ylm_head}} to pad\n"
  "buffer model.rotary_emb.original_inv_freq shape=[$r] dtype=f32\n"
  "{Rbuffer model.rotary_emb_local.original_inv_freq shape=[$r] dtype=f32\n}"
  "output loss\n"
  "infer {Mlogits}{Ylogits}{!M{!Ylm_head}}\n";

/* ---- families ---- */

#define VRAM__HF_ROTARY                                                                            \
  vram__hf_lines_norm_1, vram__hf_lines_qkv, vram__hf_lines_rotate, vram__hf_lines_cache,            \
      vram__hf_lines_repeat, vram__hf_lines_attend

/* flags: q norms of heads before they become an axis, Q behind it; X Mixtral's router; R other angles
   where windows slide; L gelu means the default; Y sums of what is multiplied; N layers that do
   not rotate */
static const vram__hf_lines vram__hf_line_rows[] = {
  {"llama", "", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end}, {0}, 0},
  {"smollm3", "N", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_embedding,
   {VRAM__HF_ROTARY, vram__hf_lines_norm_2, vram__hf_lines_gated, vram__hf_lines_end}, {0}, 0},
  {"granite", "Y", "hidden_act", "silu", vram__hf_lines_rms, vram__hf_lines_multiplied_embedding,
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

/* ---- letters ---- */

VRAM__FN void vram__hf_flush(vram__hf_pen *w) {
  if (w->used && !w->h.result && w->sink->write(w->sink->user, w->text, w->used))
    vram__hf_fail(&w->h, VRAM_ERR_WRITE, "the text could not be written", "");
  w->used = 0;
}

VRAM__FN void vram__hf_put(vram__hf_pen *w, const char *s, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++) {
    if (w->used == sizeof w->text)
      vram__hf_flush(w);
    w->text[w->used++] = s[i];
  }
}

static void vram__hf_letters(vram__hf_pen *w, vram__hf_target *t, const char *s) {
  if (t)
    vram__text_puts(t->to, t->cap, &t->n, s);
  else
    vram__hf_put(w, s, vram__text_len(s));
}

/* Behind a bracket: what its flag says, and where its text begins. */
static const char *vram__hf_condition(vram__hf_pen *w, const char *s) {
  const int is_not = *s == '!';
  uint32_t depth = 1;
  s += is_not;
  if ((*vram__hf_flag_of(w, *s) != 0) != is_not)
    return s + 1;
  for (s++; *s && depth; s++)
    depth += (uint32_t)(*s == '{') - (uint32_t)(*s == '}');
  return s;
}

static const char *vram__hf_call(vram__hf_pen *w, const char *s);

/* <LETTER|argument|...>: a piece, whose %1, %2, ... are the arguments; behind it. */
static const char *vram__hf_include(vram__hf_pen *w, vram__hf_target *t, const char *s) {
  const vram__hf_piece *piece = w->piece;
  vram__hf_called call;
  uint32_t n = 0;
  vram__memory_zero(&call, sizeof call);
  while (piece->lines && piece->letter != *s)
    piece++;
  for (s++; *s && *s != '>'; s++)
    if (*s == '|' && n < sizeof call.argument / sizeof *call.argument)
      call.argument[n++] = s + 1;
  if (piece->lines) {
    call.by = w->called;
    w->called = &call;
    vram__hf_say(w, t, piece->lines, "");
    w->called = call.by;
  }
  return s + (*s != 0);
}

/* An argument of the piece that is being said, with those of its caller put in. */
static void vram__hf_argument(vram__hf_pen *w, vram__hf_target *t, char number) {
  const vram__hf_called *const call = w->called;
  const char *const s = call ? call->argument[number - '1'] : NULL;
  if (!s)
    return;
  w->called = call->by;
  vram__hf_say(w, t, s, "|>");
  w->called = call;
}

/* The lines from s on up to one of the letters in `ends`, put in; where they end. */
VRAM__FN const char *vram__hf_say(vram__hf_pen *w, vram__hf_target *t, const char *s,
                                  const char *ends) {
  char digits[24], plain[2] = {0, 0};
  uint32_t n = 0;
  while (*s && !vram__text_holds(ends, vram__text_len(ends), *s)) {
    const char next = s[1];
    switch (*s) {
    case '{':
      s = vram__hf_condition(w, s + 1);
      continue;
    case '}':
      break;
    case '@':
      vram__hf_letters(w, t, w->path);
      break;
    case '<':
      s = vram__hf_include(w, t, s + 1);
      continue;
    case '%':
      if (next >= '1' && next <= '8')
        vram__hf_argument(w, t, next);
      else
        vram__hf_letters(w, t, next == 'd' ? w->drop : vram__hf_name_of(w, next));
      s++;
      break;
    case '$':
      n = 0;
      vram__text_putu(digits, sizeof digits, &n, *vram__hf_number_of(w, next));
      vram__hf_letters(w, t, digits);
      s++;
      break;
    case '&':
    case '^':
      s = vram__hf_call(w, s);
      continue;
    default:
      plain[0] = *s;
      vram__hf_letters(w, t, plain);
    }
    s++;
  }
  return s;
}

VRAM__FN void vram__hf_set(vram__hf_pen *w, char name, const char *lines) {
  vram__hf_target t;
  t.to = vram__hf_name_of(w, name);
  t.cap = VRAM__HF_PATH;
  t.n = 0;
  *t.to = 0;
  vram__hf_say(w, &t, lines, "");
}

/* ---- norms and activations ---- */

static const struct {
  const char *name, *lines, *output;
} vram__hf_activations[] = {
    {"silu", "silu %p.silu %i\n", "%p.silu"},
    {"swish", "silu %p.silu %i\n", "%p.silu"},
    {"gelu", "gelu %p.gelu %i\n", "%p.gelu"},
    {"gelu_pytorch_tanh", "gelu %p.gelu %i approximate=tanh\n", "%p.gelu"},
    {"relu", "relu %p.relu %i\n", "%p.relu"},
    {"relu2", "relu %p.relu %i\nsquare %p.square %p.relu\ndrop %i\n", "%p.square"},
};

/* One field of a call, up to a stroke or the end of the line; behind it. */
static const char *vram__hf_field(vram__hf_pen *w, const char *s, char *to, uint32_t cap) {
  vram__hf_target t;
  t.to = to;
  t.cap = cap;
  t.n = 0;
  *to = 0;
  s = vram__hf_say(w, &t, s, "|\n");
  return s + (*s != 0);
}

/* &path|input|c|size|drop, ^path|input|c */
static const char *vram__hf_call(vram__hf_pen *w, const char *s) {
  const int is_norm = *s == '&';
  const char *lines = w->row->norm, *output = NULL;
  char path[VRAM__HF_PATH], input[VRAM__HF_PATH], to[4], drop[sizeof w->drop];
  s = vram__hf_field(w, s + 1, path, sizeof path);
  s = vram__hf_field(w, s, input, sizeof input);
  s = vram__hf_field(w, s, to, sizeof to);
  if (is_norm) {
    char size[4];
    s = vram__hf_field(w, s, size, sizeof size);
    s = vram__hf_field(w, s, drop, sizeof drop);
    *vram__hf_number_of(w, 'z') = *vram__hf_number_of(w, *size);
    *vram__hf_flag_of(w, 'f') = *drop == '+';
    *vram__hf_flag_of(w, 'd') = *drop && *drop != '+';
    vram__memory_copy(w->drop, drop + *vram__hf_flag_of(w, 'f'), sizeof drop - 1);
    output = lines == vram__hf_lines_gemma ? "%p.type_as" : "%p.mul_1";
  } else {
    lines = vram__hf_activations[*vram__hf_number_of(w, 'A')].lines;
    output = vram__hf_activations[*vram__hf_number_of(w, 'A')].output;
  }
  vram__memory_copy(vram__hf_name_of(w, 'p'), path, sizeof path);
  vram__memory_copy(vram__hf_name_of(w, 'i'), input, sizeof input);
  vram__hf_say(w, NULL, lines, "");
  vram__hf_set(w, *to, output);
  return s;
}

/* ---- what a file says ---- */

VRAM__FN void vram__hf_refuse(vram__hf_pen *w, const char *text, const char *name) {
  vram__hf_fail(&w->h, VRAM_ERR_UNSUPPORTED, text, name);
}

/* A key that decides what is computed, as a text; NULL: it is not there. */
VRAM__FN const vram_file_value *vram__hf_word(vram__hf_pen *w, const char *key) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  if (!v || v->kind == VRAM_VALUE_NULL)
    return NULL;
  if (v->kind != VRAM_VALUE_TEXT || v->count > VRAM__HF_PATH) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no text is the key ", key);
    return NULL;
  }
  return v;
}

VRAM__FN int vram__hf_is_word(const vram_file_value *v, const char *word) {
  return vram__text_is(v->text, (uint32_t)v->count, word);
}

static void vram__hf_activation(vram__hf_pen *w) {
  const vram_file_value *v = vram__hf_word(w, w->row->act_key);
  uint32_t i;
  if (v && *vram__hf_flag_of(w, 'L') && vram__hf_is_word(v, "gelu"))
    v = NULL; /* GemmaConfig: a value of old files that means the default */
  for (i = 0; i < sizeof vram__hf_activations / sizeof *vram__hf_activations; i++)
    if (v ? vram__hf_is_word(v, vram__hf_activations[i].name)
          : vram__text_is(w->row->act, vram__text_len(w->row->act), vram__hf_activations[i].name)) {
      *vram__hf_number_of(w, 'A') = i;
      return;
    }
  vram__hf_refuse(w, "an activation whose lines are not known: ", w->row->act_key);
}

/* Angles that are known before the tokens are: no more lines than without scaling. */
static void vram__hf_rope(vram__hf_pen *w) {
  static const char *const key[] = {
      "rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type",
      "rope_parameters.full_attention.rope_type", "rope_parameters.sliding_attention.rope_type"};
  static const char *const share[] = {"partial_rotary_factor",
                                      "rope_parameters.partial_rotary_factor",
                                      "rope_scaling.partial_rotary_factor"};
  uint32_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++) {
    const vram_file_value *const v = vram__hf_word(w, key[i]);
    if (v && !vram__hf_is_word(v, "default") && !vram__hf_is_word(v, "linear") &&
        !vram__hf_is_word(v, "llama3") && !vram__hf_is_word(v, "yarn"))
      vram__hf_refuse(w, "angles that change with the tokens: ", key[i]);
  }
  for (i = 0; i < sizeof share / sizeof *share; i++) {
    const vram_file_value *const v = vram__hf_value(&w->h, share[i]);
    if (v && v->kind != VRAM_VALUE_NULL && !(v->kind == VRAM_VALUE_UINT && v->number.u == 1) &&
        !(v->kind == VRAM_VALUE_FLOAT && v->number.f >= 1 && v->number.f <= 1))
      vram__hf_refuse(w, "only a part of a head is rotated: ", share[i]);
  }
}

/* What lines leave out must not be there. */
static void vram__hf_no_dropout(vram__hf_pen *w) {
  static const char *const key[] = {"attention_dropout", "resid_pdrop",      "embd_pdrop",
                                    "hidden_dropout",    "residual_dropout", "embedding_dropout"};
  uint32_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++) {
    const vram_file_value *const v = vram__hf_value(&w->h, key[i]);
    if (v && v->kind != VRAM_VALUE_NULL && !(v->kind == VRAM_VALUE_UINT && !v->number.u) &&
        !(v->kind == VRAM_VALUE_FLOAT && v->number.f >= 0 && v->number.f <= 0))
      vram__hf_refuse(w, "dropout, whose lines are not known: ", key[i]);
  }
}

static void vram__hf_numbers(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  vram__hf *const h = &w->h;
  const int key = vram__hf_bias_key(h);
  const uint64_t used = vram__hf_number(h, "num_experts_per_tok", w->row->experts_used);
  const struct {
    char letter;
    uint64_t number;
  } row[] = {{'h', c->hidden},
             {'n', c->heads},
             {'k', c->kv_heads},
             {'d', c->head_dim},
             {'r', c->head_dim / 2},
             {'Q', c->heads * c->head_dim},
             {'K', c->kv_heads * c->head_dim},
             {'i', c->intermediate},
             {'v', c->vocab},
             {'g', c->kv_heads ? c->heads / c->kv_heads : 0},
             {'e', c->experts},
             {'m', c->expert_intermediate},
             {'2', 2 * c->expert_intermediate},
             {'t', used}};
  uint32_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++)
    *vram__hf_number_of(w, row[i].letter) = row[i].number;
  *vram__hf_flag_of(w, 'T') = c->is_tied;
  *vram__hf_flag_of(w, 'b') =
      vram__hf_has(h, VRAM__HF_QKV_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_QKV) && key);
  *vram__hf_flag_of(w, 'o') =
      vram__hf_has(h, VRAM__HF_O_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_O) && key);
  *vram__hf_flag_of(w, 'u') =
      vram__hf_has(h, VRAM__HF_MLP_BIAS) ||
      (vram__hf_has(h, VRAM__HF_MLP_KEY) && vram__hf_bool(h, "mlp_bias", 0));
  *vram__hf_flag_of(w, 'g') = c->kv_heads != c->heads;
  *vram__hf_flag_of(w, 'K') = (uint8_t)vram__hf_bool(h, "norm_topk_prob", 0);
  if (!c->kv_heads || c->heads % c->kv_heads)
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "heads of keys and values");
  if (!c->head_dim || c->head_dim % 2)
    vram__hf_fail(h, VRAM_ERR_VALUE, "a head that has no two halves: ", "head_dim");
  if (c->experts && (!used || used > c->experts))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "experts for a token");
}

/* ---- the model ---- */

static void vram__hf_path(vram__hf_pen *w, uint64_t layer) {
  uint32_t n = 0;
  *w->path = 0;
  vram__text_puts(w->path, sizeof w->path, &n, "model.layers.");
  vram__text_putu(w->path, sizeof w->path, &n, layer);
  vram__text_puts(w->path, sizeof w->path, &n, ".");
}

static void vram__hf_parts(vram__hf_pen *w, const char *const *part) {
  for (; *part; part++)
    if (*part == vram__hf_lines_experts && *vram__hf_flag_of(w, '1'))
      vram__hf_say(w, NULL, vram__hf_lines_experts_one, "");
    else
      vram__hf_say(w, NULL, *part == vram__hf_lines_cache && w->cache ? w->cache : *part, "");
}

/* Which masks there are (create_causal_mask and its kin make none where a window is no shorter than
   the sequence), and what says where tokens stand. */
static void vram__hf_masks(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  const int slides = c->sliding_layers && c->window <= *vram__hf_number_of(w, 'S'),
            both = c->sliding_layers && (c->full_layers || *vram__hf_flag_of(w, 'R'));
  vram__hf_say(w, NULL, vram__hf_lines_positions, "");
  vram__hf_set(w, 'i', "model.unsqueeze");
  vram__hf_set(w, 'p', "model");
  if (both || !c->sliding_layers)
    vram__hf_say(w, NULL, vram__hf_lines_packed, "");
  vram__hf_set(w, 'p', "model.sliding");
  if (c->sliding_layers)
    vram__hf_say(w, NULL, vram__hf_lines_packed, "");
  if (slides)
    vram__hf_say(w, NULL, vram__hf_lines_mask, "");
  *vram__hf_flag_of(w, 'W') = (uint8_t)slides;
  vram__hf_set(w, 's', "model.sliding.mask");
}

/* What comes before the layers. */
static void vram__hf_before(vram__hf_pen *w) {
  const int is_generation = *vram__hf_flag_of(w, 'G');
  if (!is_generation) {
    vram__hf_set(w, 'I', "input_ids");
    vram__hf_say(w, NULL, vram__hf_lines_inputs, "");
  }
  vram__hf_say(w, NULL, w->row->embedding, "");
  vram__hf_set(w, 'e',
               w->row->embedding == vram__hf_lines_embedding ? "model.embed_tokens"
               : w->row->embedding == vram__hf_lines_multiplied_embedding
                   ? "model.mul"
                   : "model.embed_tokens.mul");
  vram__hf_set(w, 't',
               w->row->embedding == vram__hf_lines_scaled_embedding ? "model.embed_tokens.embedding"
                                                                    : "model.embed_tokens");
  vram__hf_set(w, 'x', "%e");
  if (!is_generation)
    vram__hf_masks(w);
  else if (w->size.cache == VRAM_HF_DYNAMIC)
    vram__hf_part_masks(w);
  vram__hf_set(w, 'p', "model.rotary_emb");
  vram__hf_say(w, NULL, vram__hf_lines_rope, "");
  vram__hf_set(w, 'p', "model.rotary_emb_local");
  if (*vram__hf_flag_of(w, 'R'))
    vram__hf_say(w, NULL, vram__hf_lines_rope, "");
}

static void vram__hf_write_layer(vram__hf_pen *w, uint64_t i) {
  const int slides = vram__hf_slides(&w->h, i);
  vram__hf_path(w, i);
  *vram__hf_flag_of(w, 'P') = *vram__hf_flag_of(w, 'N') && !vram__hf_rotates(&w->h, i);
  if (*vram__hf_flag_of(w, 'G'))
    vram__hf_part_layer(w, slides);
  else {
    *vram__hf_flag_of(w, 'w') = slides && *vram__hf_flag_of(w, 'W');
    vram__hf_set(w, 'L', "S");
    vram__hf_set(w, 'K', *vram__hf_flag_of(w, 'P') ? "@self_attn.transpose_1" : "@self_attn.add_1");
    vram__hf_set(w, 'V', "@self_attn.transpose_2");
  }
  *vram__hf_flag_of(w, 'l') = i != 0;
  vram__hf_set(w, 'r',
               slides && *vram__hf_flag_of(w, 'R') ? "model.rotary_emb_local" : "model.rotary_emb");
  vram__hf_parts(w, vram__hf_is_moe(&w->h, i) ? w->row->moe : w->row->layer);
  vram__hf_set(w, 'x', "@add_1");
}

static uint64_t vram__hf_tokens(const vram_file *f) {
  static const char *const key[] = {"max_position_embeddings", "n_positions"};
  uint32_t i;
  for (i = 0; i < 2; i++) {
    const vram_file_value *const v = vram__hf_at(f, "", key[i]);
    if (v && v->kind == VRAM_VALUE_UINT && v->number.u && v->number.u < 4096)
      return v->number.u;
  }
  return 4096;
}

static void vram__hf_open(vram__hf_pen *w, const vram_file *f, const vram_hf_sizes *sizes,
                          vram_error *e) {
  uint32_t i;
  vram__hf_read(&w->h, f, &w->c, e);
  for (i = 0; !w->h.result && i < sizeof vram__hf_line_rows / sizeof *vram__hf_line_rows; i++)
    if (vram__text_is(w->c.family, vram__text_len(w->c.family), vram__hf_line_rows[i].type))
      w->row = vram__hf_line_rows + i;
  if (!w->row) {
    vram__hf_refuse(w, "no lines of the text form are known of model_type ", w->c.family);
    return;
  }
  for (i = 0; w->row->flags[i]; i++)
    *vram__hf_flag_of(w, w->row->flags[i]) = 1;
  vram__hf_activation(w);
  vram__hf_rope(w);
  vram__hf_no_dropout(w);
  w->size = *sizes;
  *vram__hf_number_of(w, 'N') = sizes->batch ? sizes->batch : sizes->cache ? 1 : 2;
  *vram__hf_number_of(w, 'S') = sizes->tokens ? sizes->tokens : vram__hf_tokens(f);
  w->size.tokens = *vram__hf_number_of(w, 'S');
  w->size.new_tokens += !w->size.new_tokens;
  vram__hf_numbers(w);
}

static int vram__hf_has_cache(const char *const *part) {
  while (*part && *part != vram__hf_lines_cache)
    part++;
  return *part != NULL;
}

/* What no generation can be written of. */
static void vram__hf_no_generation(vram__hf_pen *w) {
  const uint64_t most = UINT64_C(1) << 40;
  if ((!vram__hf_has_cache(w->row->layer) && !vram__hf_has_cache(w->row->moe)) ||
      *vram__hf_flag_of(w, 'Y') || *vram__hf_flag_of(w, 'N'))
    vram__hf_refuse(w, "no lines of its caches are known of model_type ", w->c.family);
  else if (w->size.tokens > most || w->size.new_tokens > most || w->c.window > most)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "a generation, or its window, ", "is too long");
  else if (w->c.sliding_layers && w->c.window < 2)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no model has so short a ", "sliding_window");
}

/* A generation: its parts one behind the other. */
static void vram__hf_write_parts(vram__hf_pen *w) {
  const char *const dtype =
      vram_dtype_name(w->c.dtype == VRAM_BF16 || w->c.dtype == VRAM_F16 ? w->c.dtype : VRAM_F32);
  uint32_t part;
  uint64_t i;
  vram__hf_set(w, 'J', w->c.family);
  vram__hf_set(w, 'D', dtype);
  vram__hf_say(w, NULL,
               "# config.json of transformers, attention sdpa, generate(), greedy\n"
               "model %J dtype=%D\n",
               "");
  for (part = 0; part < VRAM__HF_PARTS && !w->h.result; part++) {
    if (!vram__hf_part_is(w, part))
      continue;
    vram__hf_part_begin(w, part);
    vram__hf_before(w);
    for (i = 0; i < w->c.layers && !w->h.result; i++)
      vram__hf_write_layer(w, i);
    vram__hf_say(w, NULL, vram__hf_lines_norm, "");
    vram__hf_part_end(w);
  }
}

VRAM_API vram_result vram_hf_write(const vram_file *f, const vram_hf_sizes *sizes, void *memory,
                                   uint64_t bytes, const vram_sink *sink, vram_error *e) {
  vram__hf_pen *const w = (vram__hf_pen *)memory;
  uint64_t i;
  vram__error_clear(e);
  if (bytes < sizeof *w)
    return vram__error_begin(e, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
  vram__memory_zero(w, sizeof *w);
  w->sink = sink;
  w->h.f = f;
  w->h.e = e;
  w->h.prefix = "";
  if (vram__diffusers_write(w, sizes))
    return w->h.result;
  if (sizes->height || sizes->width)
    vram__hf_refuse(w, "H and W are sizes of images: no model of images", "");
  if (!w->h.result)
    vram__hf_open(w, f, sizes, e);
  if (w->h.result)
    return w->h.result;
  if (sizes->cache) {
    vram__hf_no_generation(w);
    if (!w->h.result)
      vram__hf_write_parts(w);
    vram__hf_flush(w);
    return w->h.result;
  }
  vram__hf_set(w, 'e', w->c.family);
  vram__hf_say(w, NULL,
               "# config.json of transformers, attention sdpa, train mode\n"
               "model %e dtype=f32\n"
               "dim N=$N S=$S\n",
               "");
  vram__hf_before(w);
  for (i = 0; i < w->c.layers && !w->h.result; i++)
    vram__hf_write_layer(w, i);
  vram__hf_say(w, NULL, vram__hf_lines_norm, "");
  vram__hf_say(w, NULL, vram__hf_lines_loss, "");
  vram__hf_flush(w);
  return w->h.result;
}
