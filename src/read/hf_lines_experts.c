/* >>read/hf_lines_experts    lines of decoders with experts (integrations/moe.py): their parts, and
   of which ones the families consist */
#include "read/read.h"

/* clang-format off */
static const vram__hf_part vram__hf_expert_parts[] = {
  /* a router: of Qwen, of Mixtral */
  {"router",
    "view @mlp.view %m shape=[N*S,$h]\n"
    "reshape @mlp.gate.reshape @mlp.view shape=[N*S,$h]\n"
    "linear @mlp.gate.linear @mlp.gate.reshape out_features=$e bias=0\n"
    "softmax @mlp.gate.softmax @mlp.gate.linear dim=-1 dtype=f32\n"
    "topk @mlp.gate.topk,@mlp.gate.topk.i @mlp.gate.softmax k=$t dim=-1\n"
    "{Ksum @mlp.gate.sum @mlp.gate.topk dim=-1 keepdim=1\n"
    "div @mlp.gate.div @mlp.gate.topk @mlp.gate.sum inplace=1\n}"
    "type_as @mlp.gate.to {K@mlp.gate.div}{!K@mlp.gate.topk} @mlp.gate.linear\n"
    "drop @mlp.gate.reshape @mlp.gate.softmax{K @mlp.gate.topk}\n"
    "reshape @mlp.experts.reshape @mlp.gate.to shape=[N*S*$t]\n",
    NULL},
  {"mixtral_router",
    "view @mlp.view %m shape=[N*S,$h]\n"
    "reshape @mlp.gate.reshape @mlp.view shape=[N*S,$h]\n"
    "linear @mlp.gate.linear @mlp.gate.reshape out_features=$e bias=0\n"
    "to @mlp.gate.to @mlp.gate.linear dtype=f32\n"
    "softmax @mlp.gate.softmax @mlp.gate.to dim=-1\n"
    "topk @mlp.gate.topk,@mlp.gate.topk.i @mlp.gate.softmax k=$t dim=-1\n"
    "sum @mlp.gate.sum @mlp.gate.topk dim=-1 keepdim=1\n"
    "div @mlp.gate.div @mlp.gate.topk @mlp.gate.sum inplace=1\n"
    "drop @mlp.gate.reshape @mlp.gate.softmax\n"
    "reshape @mlp.experts.reshape @mlp.gate.div shape=[N*S*$t]\n",
    NULL},
  /* grouped_mm_experts_forward, and the rest of the layer */
  {"experts",
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
    "drop{l %x} @mlp.experts.to_3\n"
    "~x|@add_1\n",
    NULL},
  /* the same of a few tokens: batched_mm_experts_forward, to which generate() changes */
  {"experts_one",
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
    "drop{l %x} @mlp.experts.to_3\n"
    "~x|@add_1\n",
    NULL},
};

/* flags as in hf_lines.c; X Mixtral's router; E in a layer: it has experts */
static const vram__hf_lines vram__hf_expert_rows[] = {
  {"qwen3_moe", "q", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2>{E<router>{1<experts_one>}{!1<experts>}}{!E<gated><end>}", "<last_norm>", 1, 8},
  {"mixtral", "X", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><mixtral_router>{1<experts_one>}{!1<experts>}", "<last_norm>", 1, 2},
};
/* clang-format on */

VRAM__FN vram__hf_book vram__hf_expert_decoders(void) {
  vram__hf_book b;
  b.part = vram__hf_expert_parts;
  b.parts = sizeof vram__hf_expert_parts / sizeof *vram__hf_expert_parts;
  b.row = vram__hf_expert_rows;
  b.rows = sizeof vram__hf_expert_rows / sizeof *vram__hf_expert_rows;
  return b;
}
