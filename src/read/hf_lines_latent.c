/* >>read/hf_lines_latent    lines of decoders with latent attention (models/deepseek_v3): their
   parts, and of which ones the families consist */
#include "read/read.h"

/* clang-format off */
static const vram__hf_part vram__hf_latent_parts[] = {
  /* 'c: queries are compressed, too; 'p: pairs of neighbours are rotated */
  {"latent",
    "{'clinear @self_attn.q_a_proj %n out_features=$a{!b bias=0}\n"
    "&@self_attn.q_a_layernorm|@self_attn.q_a_proj|a|$a|@self_attn.q_a_proj\n"
    "linear @self_attn.q_b_proj %a out_features=$Q bias=0\n}"
    "{!'clinear @self_attn.q_proj %n out_features=$Q bias=0\n}"
    "view @self_attn.view @self_attn.{'cq_b_proj}{!'cq_proj} shape=[N,S,$n,$d]\n"
    "transpose @self_attn.transpose @self_attn.view dim0=1 dim1=2\n"
    "split @self_attn.q_pass,@self_attn.q_rot @self_attn.transpose "
    "split_size_or_sections=$y,$j dim=-1\n"
    "linear @self_attn.kv_a_proj_with_mqa %n out_features=$x{!b bias=0}\n"
    "split @self_attn.kv_nope,@self_attn.k_rot @self_attn.kv_a_proj_with_mqa "
    "split_size_or_sections=$c,$j dim=-1\n"
    "&@self_attn.kv_a_layernorm|@self_attn.kv_nope|c|$c|@self_attn.kv_nope\n"
    "view @self_attn.view_1 %c shape=[N,1,S,$c]\n"
    "view @self_attn.view_2 @self_attn.k_rot shape=[N,1,S,$j]\n"
    "{'p<latent_pairs>}{!'p<latent_halves>}"
    "~v|%k\n~k|@self_attn.view_1\n~l|%c %v\n"
    "<cached>cat @self_attn.query @self_attn.q_pass %q dim=-1\n",
    NULL},
  {"latent_pairs",
    "slice @self_attn.slice %r.to_2 dim=2 end=$r\n"
    "unsqueeze @self_attn.unsqueeze @self_attn.slice dim=1\n"
    "slice @self_attn.slice_1 %r.to_3 dim=2 end=$r\n"
    "unsqueeze @self_attn.unsqueeze_1 @self_attn.slice_1 dim=1\n"
    "slice @self_attn.slice_2 @self_attn.q_rot dim=3 step=2\n"
    "slice @self_attn.slice_3 @self_attn.q_rot dim=3 start=1 step=2\n"
    "slice @self_attn.slice_4 @self_attn.view_2 dim=3 step=2\n"
    "slice @self_attn.slice_5 @self_attn.view_2 dim=3 start=1 step=2\n"
    "mul @self_attn.mul @self_attn.slice_2 @self_attn.unsqueeze\n"
    "mul @self_attn.mul_1 @self_attn.slice_3 @self_attn.unsqueeze_1\n"
    "sub @self_attn.sub @self_attn.mul @self_attn.mul_1\n"
    "mul @self_attn.mul_2 @self_attn.slice_3 @self_attn.unsqueeze\n"
    "mul @self_attn.mul_3 @self_attn.slice_2 @self_attn.unsqueeze_1\n"
    "add @self_attn.add @self_attn.mul_2 @self_attn.mul_3\n"
    "cat @self_attn.cat @self_attn.sub @self_attn.add dim=-1\n"
    "mul @self_attn.mul_4 @self_attn.slice_4 @self_attn.unsqueeze\n"
    "mul @self_attn.mul_5 @self_attn.slice_5 @self_attn.unsqueeze_1\n"
    "sub @self_attn.sub_1 @self_attn.mul_4 @self_attn.mul_5\n"
    "mul @self_attn.mul_6 @self_attn.slice_5 @self_attn.unsqueeze\n"
    "mul @self_attn.mul_7 @self_attn.slice_4 @self_attn.unsqueeze_1\n"
    "add @self_attn.add_1 @self_attn.mul_6 @self_attn.mul_7\n"
    "cat @self_attn.cat_1 @self_attn.sub_1 @self_attn.add_1 dim=-1\n"
    "drop @self_attn.q_rot @self_attn.k_rot @self_attn.view_2 @self_attn.slice "
    "@self_attn.unsqueeze @self_attn.slice_1 @self_attn.unsqueeze_1 @self_attn.slice_2 "
    "@self_attn.slice_3 @self_attn.slice_4 @self_attn.slice_5\n"
    "~q|@self_attn.cat\n~k|@self_attn.cat_1\n",
    NULL},
  {"latent_halves",
    "unsqueeze @self_attn.unsqueeze %r.to_2 dim=1\n"
    "unsqueeze @self_attn.unsqueeze_1 %r.to_3 dim=1\n"
    "mul @self_attn.mul @self_attn.q_rot @self_attn.unsqueeze\n"
    "slice @self_attn.slice @self_attn.q_rot dim=3 end=$r\n"
    "slice @self_attn.slice_1 @self_attn.q_rot dim=3 start=$r\n"
    "neg @self_attn.neg @self_attn.slice_1\n"
    "cat @self_attn.cat @self_attn.neg @self_attn.slice dim=-1\n"
    "drop @self_attn.slice_1\n"
    "mul @self_attn.mul_1 @self_attn.cat @self_attn.unsqueeze_1\n"
    "add @self_attn.add @self_attn.mul @self_attn.mul_1\n"
    "mul @self_attn.mul_2 @self_attn.view_2 @self_attn.unsqueeze\n"
    "slice @self_attn.slice_2 @self_attn.view_2 dim=3 end=$r\n"
    "slice @self_attn.slice_3 @self_attn.view_2 dim=3 start=$r\n"
    "neg @self_attn.neg_1 @self_attn.slice_3\n"
    "cat @self_attn.cat_1 @self_attn.neg_1 @self_attn.slice_2 dim=-1\n"
    "drop @self_attn.slice_3\n"
    "mul @self_attn.mul_3 @self_attn.cat_1 @self_attn.unsqueeze_1\n"
    "add @self_attn.add_1 @self_attn.mul_2 @self_attn.mul_3\n"
    "drop @self_attn.q_rot @self_attn.k_rot @self_attn.view_2 @self_attn.unsqueeze "
    "@self_attn.unsqueeze_1\n"
    "~q|@self_attn.add\n~k|@self_attn.add_1\n",
    NULL},
  /* expand_kv, and attention */
  {"latent_attend",
    "linear @self_attn.kv_b_proj %K out_features=$B bias=0\n"
    "view @self_attn.view_3 @self_attn.kv_b_proj shape=[N,%L,$n,$b]\n"
    "transpose @self_attn.transpose_1 @self_attn.view_3 dim0=1 dim1=2\n"
    "split @self_attn.k_nope,@self_attn.value @self_attn.transpose_1 "
    "split_size_or_sections=$y,$f dim=-1\n"
    "expand @self_attn.expand %V shape=[N,$n,%L,$j]\n"
    "empty @self_attn.key @self_attn.transpose_1 shape=[N,$n,%L,$d]\n"
    "slice @self_attn.slice_6 @self_attn.key dim=3 end=$y\n"
    "add @self_attn.add_2 @self_attn.slice_6 @self_attn.k_nope inplace=1\n"
    "slice @self_attn.slice_7 @self_attn.key dim=3 start=$y\n"
    "sub @self_attn.sub_2 @self_attn.slice_7 @self_attn.expand inplace=1\n"
    "drop @self_attn.k_nope\n"
    "scaled_dot_product_attention @self_attn.sdpa @self_attn.query @self_attn.key "
    "@self_attn.value{w %s}{D dropout_p=%D}{!w{!1 is_causal=1}}\n"
    "reshape @self_attn.reshape @self_attn.sdpa shape=[N,$n,S,$f]\n"
    "transpose @self_attn.transpose_2 @self_attn.reshape dim0=1 dim1=2\n"
    "contiguous @self_attn.contiguous @self_attn.transpose_2\n"
    "drop @self_attn.sdpa @self_attn.reshape\n"
    "reshape @self_attn.reshape_1 @self_attn.contiguous shape=[N,S,$O]\n"
    "contiguous @self_attn.contiguous_1 @self_attn.reshape_1\n"
    "drop @self_attn.contiguous\n"
    "linear @self_attn.o_proj @self_attn.contiguous_1 out_features=$h{!o bias=0}\n"
    "drop %n @self_attn.{'cq_b_proj}{!'cq_proj} @self_attn.view @self_attn.transpose "
    "@self_attn.q_pass @self_attn.kv_a_proj_with_mqa{!k %c %k} %q{!k %v} @self_attn.query "
    "@self_attn.kv_b_proj @self_attn.view_3 @self_attn.transpose_1 @self_attn.value "
    "@self_attn.key{: %K %V}\n",
    NULL},
};

/* flags as in hf_lines_experts.c; K and 'p where their keys are missing */
static const vram__hf_lines vram__hf_latent_rows[] = {
  {"deepseek_v3", "K'p", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><latent><latent_attend><norm_2>{8<grouping_experts>}{!8<gated><end>}",
    "<last_norm>", 1, 8},
};
/* clang-format on */

VRAM__FN vram__hf_book vram__hf_latent_decoders(void) {
  vram__hf_book b;
  b.part = vram__hf_latent_parts;
  b.parts = sizeof vram__hf_latent_parts / sizeof *vram__hf_latent_parts;
  b.row = vram__hf_latent_rows;
  b.rows = sizeof vram__hf_latent_rows / sizeof *vram__hf_latent_rows;
  return b;
}
