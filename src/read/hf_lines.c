/* >>read/hf_lines    lines of decoders: their parts, and of which ones the families consist, as
   transformers 5.23 runs them under torch 2.15 (models/TYPE/modeling_TYPE.py, masking_utils.py,
   loss_utils.py); hf_pen.c explains the letters */
#include "read/read.h"

/* clang-format off */
static const vram__hf_part vram__hf_decoder_parts[] = {
  /* ---- norms ---- */
  {"rms",
    "to %p.to %i dtype=f32\n"
    "pow %p.pow %p.to scalar=1\n"
    "mean %p.mean %p.pow dim=-1 keepdim=1\n"
    "add %p.add %p.mean scalar=1\n"
    "rsqrt %p.rsqrt %p.add\n"
    "mul %p.mul %p.to %p.rsqrt\n"
    "{dtype_as %p.to_1 %p.mul %i}{!dto %p.to_1 %p.mul dtype=model}\n"
    "parameter %p.weight shape=[$z]\n"
    "mul %p.mul_1 %p.weight %p.to_1\n"
    "drop{d %d}{f %d %x} %p.mean %p.mul\n",
    "%p.mul_1"},
  {"gemma",
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
    "{ddrop %d\n}{fdrop %d\n}",
    "%p.type_as"},
  /* ---- before the layers ---- */
  {"inputs",
    "input input_ids i64 [N,S]\n"
    "input labels i64 [N,S]\n",
    NULL},
  {"embedding",
    "embedding %Bembed_tokens %I num_embeddings=$v embedding_dim=$h\n"
    "~t|%Bembed_tokens\n~e|%t\n~x|%e\n",
    NULL},
  {"scaled_embedding",
    "embedding %Bembed_tokens.embedding %I num_embeddings=$v embedding_dim=$h\n"
    "buffer %Bembed_tokens.embed_scale shape=[]\n"
    "to %Bembed_tokens.to %Bembed_tokens.embed_scale dtype=model\n"
    "mul %Bembed_tokens.mul %Bembed_tokens.embedding %Bembed_tokens.to\n"
    "~t|%Bembed_tokens.embedding\n~e|%Bembed_tokens.mul\n~x|%e\n",
    NULL},
  {"multiplied_embedding",
    "embedding %Bembed_tokens %I num_embeddings=$v embedding_dim=$h\n"
    "mul %Bmul %Bembed_tokens scalar=1\n"
    "~t|%Bembed_tokens\n~e|%Bmul\n~x|%e\n",
    NULL},
  {"positions",
    "arange %Barange shape=[S] dtype=i64\n"
    "add %Badd %Barange scalar=1\n"
    "unsqueeze %Bunsqueeze %Badd dim=0\n",
    NULL},
  /* find_packed_sequence_indices: are there several sequences in a row? */
  {"packed",
    "expand %pexpand %i shape=[N,S]\n"
    "slice %pslice %pexpand dim=0 colon=1\n"
    "slice %pslice_1 %pslice dim=1 end=1\n"
    "sub %psub %pslice_1 scalar=1\n"
    "cat %pcat %psub %pexpand dim=-1\n"
    "slice %pslice_2 %pcat dim=-1 end=S\n"
    "slice %pslice_3 %pcat dim=-1 start=1\n"
    "sub %psub_1 %pslice_3 %pslice_2\n"
    "drop %pcat\n"
    "ne %pne %psub_1 scalar=1\n"
    "cumsum %pcumsum %pne dim=-1\n"
    "slice %pslice_4 %pcumsum dim=0 colon=1\n"
    "select %pselect %pslice_4 dim=1 index=-1\n"
    "eq %peq %pselect scalar=1\n"
    "amax %pany %peq\n"
    "drop %pexpand %psub %psub_1 %pcumsum\n",
    NULL},
  /* sdpa_mask of a sliding window that is shorter than the sequence */
  {"mask",
    "arange %parange_1 shape=[N] dtype=i64\n"
    "arange %parange_2 shape=[1] dtype=i64\n"
    "arange %parange_3 shape=[S] dtype=i64\n"
    "add %padd_1 %parange_3 scalar=1\n"
    "arange %parange_4 shape=[S] dtype=i64\n"
    "add %padd_2 %parange_4 scalar=1\n"
    "slice %pslice_10 %parange_1 dim=0 colon=1\n"
    "unsqueeze %punsqueeze_1 %pslice_10 dim=1\n"
    "unsqueeze %punsqueeze_2 %punsqueeze_1 dim=2\n"
    "unsqueeze %punsqueeze_3 %punsqueeze_2 dim=3\n"
    "unsqueeze %punsqueeze_4 %parange_2 dim=0\n"
    "slice %pslice_11 %punsqueeze_4 dim=1 colon=1\n"
    "unsqueeze %punsqueeze_5 %pslice_11 dim=2\n"
    "unsqueeze %punsqueeze_6 %punsqueeze_5 dim=3\n"
    "unsqueeze %punsqueeze_7 %padd_1 dim=0\n"
    "unsqueeze %punsqueeze_8 %punsqueeze_7 dim=1\n"
    "slice %pslice_12 %punsqueeze_8 dim=2 colon=1\n"
    "unsqueeze %punsqueeze_9 %pslice_12 dim=3\n"
    "unsqueeze %punsqueeze_10 %padd_2 dim=0\n"
    "unsqueeze %punsqueeze_11 %punsqueeze_10 dim=1\n"
    "unsqueeze %punsqueeze_12 %punsqueeze_11 dim=2\n"
    "slice %pslice_13 %punsqueeze_12 dim=3 colon=1\n"
    "ones %pones shape=[] dtype=bool\n"
    "sub %psub_4 %punsqueeze_9 scalar=1\n"
    "gt %pgt %pslice_13 %psub_4\n"
    "view %pto %pgt shape=[1,1,S,S]\n"
    "logical_and %plogical_and %pones %pto\n"
    "le %ple %pslice_13 %punsqueeze_9\n"
    "view %pto_1 %ple shape=[1,1,S,S]\n"
    "logical_and %plogical_and_1 %plogical_and %pto_1\n"
    "drop %punsqueeze_3 %punsqueeze_6 %punsqueeze_9 %pslice_13\n"
    "expand %pmask %plogical_and_1 shape=[N,1,S,S]\n"
    "drop %parange_1 %parange_2 %padd_1 %padd_2\n",
    NULL},
  /* which masks there are: none where a window is no shorter than the sequence
     (create_causal_mask and its kin). F, O: layers of full attention, such that slide; W: its window
     is short */
  {"masks",
    "<positions>~i|%Bunsqueeze\n"
    "{F~p|%B\n<packed>}"
    "{O~p|%Bsliding.\n<packed>{W<mask>}~s|%Bsliding.mask\n}",
    NULL},
  /* cos and sin of each token */
  {"rope",
    "~p|%Brotary_emb\n<angles>{R~p|%Brotary_emb_local\n<angles>}",
    NULL},
  {"angles",
    "unsqueeze %p.unsqueeze %Bunsqueeze dim=2\n"
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
    "drop %p.mul %p.cat %p.mul_1\n",
    NULL},
  /* ---- attention ---- */
  {"rotary",
    "<qkv><rotate><cache><repeat><attend>",
    NULL},
  {"norm_1",
    "&@input_layernorm|%x|n|h|\n",
    NULL},
  {"qkv",
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
    "&@self_attn.k_norm|@self_attn.transpose_1|c|d|@self_attn.k_proj @self_attn.view_1\n}",
    NULL},
  /* apply_rotary_pos_emb; %r: the module of cos and sin */
  {"rotate",
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
    " @self_attn.unsqueeze @self_attn.unsqueeze_1\n}",
    NULL},
  /* repeat_kv of keys and values, where there is a mask; pack_gqa of one query */
  {"repeat",
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
    "drop @self_attn.slice_11\n}}}",
    NULL},
  {"attend",
    "scaled_dot_product_attention @self_attn.sdpa "
    "{w{g{1@self_attn.packed %K %V}{!1@self_attn.add @self_attn.keys @self_attn.values}}"
    "{!g@self_attn.add %K %V} %s}"
    "{!w{P@self_attn.transpose}{!P@self_attn.add} %K %V}{D dropout_p=%D}{!w{!1 is_causal=1}{g enable_gqa=1}}\n"
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
    "{!k @self_attn.add_1}}\n",
    NULL},
  /* ---- what stands between, and behind ---- */
  {"norm_2",
    "{Ymul @mul @self_attn.o_proj scalar=1\n}"
    "add @add %x {Y@mul}{!Y@self_attn.o_proj}\n"
    "{Ydrop @self_attn.o_proj\n}"
    "&@post_attention_layernorm|@add|m|h|\n",
    NULL},
  {"gated",
    "linear @mlp.gate_proj %m out_features=$i{!u bias=0}\n"
    "^@mlp.act_fn|@mlp.gate_proj|a\n"
    "linear @mlp.up_proj %m out_features=$i{!u bias=0}\n"
    "mul @mlp.mul %a @mlp.up_proj\n"
    "linear @mlp.down_proj @mlp.mul out_features=$h{!u bias=0}\n",
    NULL},
  {"plain",
    "linear @mlp.up_proj %m out_features=$i{!u bias=0}\n"
    "^@mlp.act_fn|@mlp.up_proj|a\n"
    "linear @mlp.down_proj %a out_features=$h{!u bias=0}\n",
    NULL},
  {"end",
    "order @input_layernorm.weight @post_attention_layernorm.weight\n"
    "drop %m\n"
    "{Ymul @mul_1 @mlp.down_proj scalar=1\n}"
    "add @add_1 @add {Y@mul_1}{!Y@mlp.down_proj}\n"
    "{Ydrop{l %x} @mlp.down_proj\n}"
    "{!Y{ldrop %x\n}}"
    "~x|@add_1\n",
    NULL},
  /* norms of what attention and the MLP give, and before both (Gemma) */
  {"norm_2_3",
    "&@post_attention_layernorm|@self_attn.o_proj|y|h|\n"
    "add @add %x %y\n"
    "&@pre_feedforward_layernorm|@add|m|h|\n",
    NULL},
  {"end_4",
    "order @input_layernorm.weight @post_attention_layernorm.weight "
    "@pre_feedforward_layernorm.weight\n"
    "drop %m\n"
    "&@post_feedforward_layernorm|@mlp.down_proj|y|h|\n"
    "add @add_1 @add %y\n"
    "{ldrop %x\n}"
    "~x|@add_1\n",
    NULL},
  {"last_norm",
    "&%Bnorm|%x|n|h|+%e{!G %Badd %Bunsqueeze{W %Bsliding.logical_and_1 "
    "%Bsliding.mask}}{G%Z} %Brotary_emb.to_2 %Brotary_emb.to_3"
    "{R %Brotary_emb_local.to_2 %Brotary_emb_local.to_3}\n",
    NULL},
  /* the head, and ForCausalLMLoss */
  {"loss",
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
    "buffer %Brotary_emb.original_inv_freq shape=[$r] dtype=f32\n"
    "{Rbuffer %Brotary_emb_local.original_inv_freq shape=[$r] dtype=f32\n}"
    "output loss\n"
    "infer {Mlogits}{Ylogits}{!M{!Ylm_head}}\n",
    NULL},
};

/* flags: q norms of heads before they become an axis, Q behind it; R other angles where windows
   slide; L gelu means the default; Y sums of what is multiplied; N layers that do not rotate */
static const vram__hf_lines vram__hf_decoder_rows[] = {
  {"llama", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", 1, 0},
  {"smollm3", "N", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", 0, 0},
  {"granite", "Y", "hidden_act", "silu", "rms", "<multiplied_embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", 0, 0},
  {"mistral", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", 1, 0},
  {"qwen2", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", 1, 0},
  {"qwen3", "q", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", 1, 0},
  {"arcee", "", "hidden_act", "relu2", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><plain><end>", 1, 0},
  {"gemma", "L", "hidden_act", "gelu_pytorch_tanh", "gemma", "<scaled_embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", 1, 0},
  {"gemma3_text", "QR", "hidden_activation", "gelu_pytorch_tanh", "gemma",
    "<scaled_embedding><masks><rope>",
    "<norm_1><rotary><norm_2_3><gated><end_4>", 1, 0},
};
/* clang-format on */

VRAM__FN vram__hf_book vram__hf_decoders(void) {
  vram__hf_book b;
  b.part = vram__hf_decoder_parts;
  b.parts = sizeof vram__hf_decoder_parts / sizeof *vram__hf_decoder_parts;
  b.row = vram__hf_decoder_rows;
  b.rows = sizeof vram__hf_decoder_rows / sizeof *vram__hf_decoder_rows;
  return b;
}
