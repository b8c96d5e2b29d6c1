/* >>read/hf_lines_experts    lines of decoders with experts (integrations/moe.py): their parts, and
   of which ones the families consist */
#include "read/read.h"

/* clang-format off */
static const vram__hf_part vram__hf_expert_parts[] = {
  /* a router: of Qwen, of Mixtral */
  {"router",
    "<moe_tokens><best_experts>",
    NULL},
  {"moe_tokens",
    "~M|@mlp.\n~v|@mlp.view\n"
    "view @mlp.view %m shape=[N*S,$h]\n",
    NULL},
  {"best_experts",
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
    "~M|@mlp.\n~v|@mlp.view\n"
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
  /* grouped_mm_experts_forward. %M: the path of the module; %v, %W, %C: tokens, what their experts
     weigh and which these are; %o: what comes of it. 'w: weights lie the other way, with biases */
  {"grouped",
    "reshape %Mexperts.reshape_1 %C shape=[N*S*$t]\n"
    "sort %Mexperts.sort,%Mexperts.sort.i %Mexperts.reshape_1\n"
    "floor_divide %Mexperts.floor_divide %Mexperts.sort.i scalar=1\n"
    "index %Mexperts.index %v %Mexperts.floor_divide\n"
    "index %Mexperts.index_1 %Mexperts.reshape %Mexperts.sort.i\n"
    "to %Mexperts.to %Mexperts.sort dtype=i32\n"
    "histc %Mexperts.histc %Mexperts.to bins=$e\n"
    "cumsum %Mexperts.cumsum %Mexperts.histc dim=0 dtype=i32\n",
    NULL},
  {"grouped_up",
    "parameter %Mexperts.gate_up_proj shape=[$e,$2,$h]\n"
    "transpose %Mexperts.transpose %Mexperts.gate_up_proj dim0=-2 dim1=-1\n"
    "to %Mexperts.to_1 %Mexperts.index dtype=model\n"
    "grouped_mm %Mexperts.grouped_mm %Mexperts.to_1 %Mexperts.transpose %Mexperts.cumsum\n"
    "chunk %Mexperts.chunk.0,%Mexperts.chunk.1 %Mexperts.grouped_mm chunks=2 dim=-1\n"
    "^%Mexperts.act_fn|%Mexperts.chunk.0|a\n"
    "mul %Mexperts.mul %a %Mexperts.chunk.1\n"
    "drop %Mexperts.grouped_mm %Mexperts.chunk.0\n"
    "parameter %Mexperts.down_proj shape=[$e,$h,$m]\n",
    NULL},
  {"grouped_down",
    "transpose %Mexperts.transpose_1 %Mexperts.down_proj dim0=-2 dim1=-1\n"
    "to %Mexperts.to_2 %Mexperts.mul dtype=model\n"
    "grouped_mm %Mexperts.grouped_mm_1 %Mexperts.to_2 %Mexperts.transpose_1 %Mexperts.cumsum\n"
    "drop %Mexperts.mul\n",
    NULL},
  {"grouped_sum",
    "unsqueeze %Mexperts.unsqueeze %Mexperts.index_1 dim=-1\n"
    "mul %Mexperts.mul_1 %Mexperts.{'wadd_2}{!'wgrouped_mm_1} %Mexperts.unsqueeze\n"
    "empty %Mexperts.empty shape=[N*S*$t] dtype=i64\n"
    "arange %Mexperts.arange shape=[N*S*$t] dtype=i64\n"
    "index_put %Mexperts.index_put %Mexperts.empty %Mexperts.sort.i %Mexperts.arange inplace=1\n"
    "index %Mexperts.index_2 %Mexperts.mul_1 %Mexperts.empty\n"
    "view %Mexperts.view %Mexperts.index_2 shape=[N*S,$t,$h]\n"
    "sum %Mexperts.sum %Mexperts.view dim=1\n"
    "to %Mexperts.to_3 %Mexperts.sum dtype=model\n"
    "drop{X %v} %Mexperts.reshape %Mexperts.reshape_1 %Mexperts.sort %Mexperts.sort.i "
    "%Mexperts.index %Mexperts.index_1 %Mexperts.to %Mexperts.histc %Mexperts.cumsum"
    "{'w %Mexperts.index_4} %Mexperts.grouped_mm_1{'w %Mexperts.add_2} %Mexperts.empty "
    "%Mexperts.index_2\n"
    "~o|%Mexperts.to_3\n",
    NULL},
  /* the same, and the rest of the layer */
  {"experts",
    "~C|@mlp.gate.topk.i\n"
    "<experts_up>"
    "order{!X{!'g @mlp.gate.linear}} @input_layernorm.weight @post_attention_layernorm.weight\n"
    "<experts_down>"
    "reshape @mlp.reshape %o shape=[N,S,$h]\n"
    "drop %m{!X @mlp.view} @mlp.gate.linear{X @mlp.gate.topk} @mlp.gate.topk.i "
    "{X@mlp.gate.div}{!X@mlp.gate.to}\n"
    "add @add_1 @add @mlp.reshape\n"
    "drop{l %x} %o\n"
    "~x|@add_1\n",
    NULL},
  /* the same of a few tokens: batched_mm_experts_forward, to which generate() changes */
  {"batched_up",
    "repeat_interleave %Mexperts.selected %v repeats=$t dim=0\n"
    "reshape %Mexperts.ids %C shape=[N*S*$t]\n"
    "parameter %Mexperts.gate_up_proj shape=[$e,$2,$h]\n"
    "index %Mexperts.up %Mexperts.gate_up_proj %Mexperts.ids\n"
    "unsqueeze %Mexperts.column %Mexperts.selected dim=-1\n"
    "bmm %Mexperts.bmm %Mexperts.up %Mexperts.column\n"
    "squeeze %Mexperts.squeeze %Mexperts.bmm dim=-1\n"
    "drop %Mexperts.column\n"
    "chunk %Mexperts.chunk.0,%Mexperts.chunk.1 %Mexperts.squeeze chunks=2 dim=-1\n"
    "^%Mexperts.act_fn|%Mexperts.chunk.0|a\n"
    "mul %Mexperts.mul %a %Mexperts.chunk.1\n"
    "drop %a %Mexperts.chunk.0 %Mexperts.chunk.1 %Mexperts.squeeze %Mexperts.bmm\n"
    "parameter %Mexperts.down_proj shape=[$e,$h,$m]\n",
    NULL},
  {"batched_down",
    "index %Mexperts.down %Mexperts.down_proj %Mexperts.ids\n"
    "drop %Mexperts.up\n"
    "unsqueeze %Mexperts.column_1 %Mexperts.mul dim=-1\n"
    "bmm %Mexperts.bmm_1 %Mexperts.down %Mexperts.column_1\n"
    "squeeze %Mexperts.squeeze_1 %Mexperts.bmm_1 dim=-1\n"
    "drop %Mexperts.mul %Mexperts.column_1\n"
    "unsqueeze %Mexperts.unsqueeze %Mexperts.reshape dim=-1\n"
    "mul %Mexperts.mul_1 %Mexperts.squeeze_1 %Mexperts.unsqueeze\n"
    "view %Mexperts.view %Mexperts.mul_1 shape=[N*S,$t,$h]\n"
    "sum %Mexperts.sum %Mexperts.view dim=1\n"
    "to %Mexperts.to_3 %Mexperts.sum dtype=model\n"
    "drop{X %v} %Mexperts.reshape %Mexperts.ids %Mexperts.selected %Mexperts.down"
    " %Mexperts.bmm_1 %Mexperts.squeeze_1 %Mexperts.mul_1\n"
    "~o|%Mexperts.to_3\n",
    NULL},
  {"experts_up",
    "{1<batched_up>}{!1<grouped><grouped_up>}",
    NULL},
  {"experts_down",
    "{1<batched_down>}{!1<grouped_down><grouped_sum>}",
    NULL},
  /* DeepseekV3TopkRouter: the best experts of the best groups. 6: one group */
  {"grouping_router",
    "~M|@mlp.\n~v|@mlp.view\n~W|@mlp.gate.mul\n~C|@mlp.gate.topk_2.i\n"
    "view @mlp.gate.view %m shape=[N*S,$h]\n"
    "to @mlp.gate.to @mlp.gate.view dtype=f32\n"
    "parameter @mlp.gate.weight shape=[$e,$h]\n"
    "to @mlp.gate.to_1 @mlp.gate.weight dtype=f32\n"
    "linear @mlp.gate.linear @mlp.gate.to @mlp.gate.to_1 out_features=$e\n"
    "sigmoid @mlp.gate.sigmoid @mlp.gate.linear\n"
    "buffer @mlp.gate.e_score_correction_bias shape=[$e] dtype=f32\n"
    "add @mlp.gate.add @mlp.gate.sigmoid @mlp.gate.e_score_correction_bias\n"
    "view @mlp.gate.view_1 @mlp.gate.add shape=[N*S,$G,$E]\n"
    "topk @mlp.gate.topk,@mlp.gate.topk.i @mlp.gate.view_1 k=2 dim=-1\n"
    "sum @mlp.gate.sum @mlp.gate.topk dim=-1\n"
    "topk @mlp.gate.topk_1,@mlp.gate.topk_1.i @mlp.gate.sum k=$U dim=-1\n"
    "zeros @mlp.gate.zeros @mlp.gate.sum shape=[N*S,$G]\n"
    "scatter @mlp.gate.scatter @mlp.gate.zeros @mlp.gate.topk_1.i dim=1 scalar=1 inplace=1\n"
    "unsqueeze @mlp.gate.unsqueeze @mlp.gate.scatter dim=-1\n"
    "expand @mlp.gate.expand @mlp.gate.unsqueeze shape=[N*S,$G,$E]\n"
    "reshape @mlp.gate.reshape @mlp.gate.expand shape=[N*S,$e]\n"
    "{!6drop @mlp.gate.unsqueeze\n}"
    "to @mlp.gate.to_2 @mlp.gate.reshape dtype=bool\n"
    "logical_not @mlp.gate.logical_not @mlp.gate.to_2\n"
    "masked_fill @mlp.gate.masked_fill @mlp.gate.add @mlp.gate.logical_not\n"
    "topk @mlp.gate.topk_2,@mlp.gate.topk_2.i @mlp.gate.masked_fill k=$t dim=-1\n"
    "gather @mlp.gate.gather @mlp.gate.sigmoid @mlp.gate.topk_2.i dim=1\n"
    "{Ksum @mlp.gate.sum_1 @mlp.gate.gather dim=-1 keepdim=1\n"
    "add @mlp.gate.add_1 @mlp.gate.sum_1 scalar=1\n"
    "div @mlp.gate.div @mlp.gate.gather @mlp.gate.add_1 inplace=1\n}"
    "mul @mlp.gate.mul @mlp.gate.{Kdiv}{!Kgather} scalar=1\n"
    "drop @mlp.gate.view @mlp.gate.sigmoid @mlp.gate.sum @mlp.gate.topk_1.i @mlp.gate.zeros "
    "@mlp.gate.scatter{6 @mlp.gate.unsqueeze @mlp.gate.expand} @mlp.gate.reshape "
    "@mlp.gate.masked_fill{K @mlp.gate.gather @mlp.gate.add_1}\n"
    "view @mlp.view %m shape=[N*S,$h]\n",
    NULL},
  /* a layer with experts, and with such that all tokens go through (DeepseekV3MoE) */
  {"shared_experts",
    "linear @mlp.shared_experts.gate_proj %m out_features=$s bias=0\n"
    "^@mlp.shared_experts.act_fn|@mlp.shared_experts.gate_proj|a\n"
    "linear @mlp.shared_experts.up_proj %m out_features=$s bias=0\n"
    "mul @mlp.shared_experts.mul %a @mlp.shared_experts.up_proj\n"
    "linear @mlp.shared_experts.down_proj @mlp.shared_experts.mul out_features=$h bias=0\n",
    NULL},
  {"grouping_experts",
    "<grouping_router>reshape @mlp.experts.reshape %W shape=[N*S*$t]\n"
    "<experts_up>order @mlp.gate.weight\n<experts_down>"
    "view @mlp.view_1 %o shape=[N,S,$h]\n"
    "drop @mlp.view\n"
    "<shared_experts>"
    "order @input_layernorm.weight @post_attention_layernorm.weight\n"
    "add @mlp.add @mlp.view_1 @mlp.shared_experts.down_proj\n"
    "drop %m @mlp.gate.linear %C %W %o\n"
    "add @add_1 @add @mlp.add\n"
    "{ldrop %x\n}"
    "~x|@add_1\n",
    NULL},
  /* ---- GLM-4.5: a part of a head is rotated ---- */
  {"glm4_moe_attention",
    "linear %Aq_proj %n out_features=$Q{!b bias=0}\n"
    "view %Aview %Aq_proj shape=[N,S,$n,$d]\n"
    "linear %Ak_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_1 %Ak_proj shape=[N,S,$k,$d]\n"
    "linear %Av_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_2 %Av_proj shape=[N,S,$k,$d]\n"
    "~q|%Aview\n~k|%Aview_1\n"
    "{q&%Aq_norm|%Aview|q|$d|%Aq_proj %Aview\n&%Ak_norm|%Aview_1|k|$d|%Ak_proj %Aview_1\n}"
    "~a|%q\n~c|%k\n"
    "transpose %Atranspose %q dim0=1 dim1=2\n"
    "transpose %Atranspose_1 %k dim0=1 dim1=2\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "~q|%Atranspose\n~k|%Atranspose_1\n~v|%Atranspose_2\n"
    "~l|%Av_proj %Aview_2 %Atranspose_2\n"
    "<angles_of><rotated>~j|%Arotated\n<turn>~u|%f\n~j|%Arotated_1\n~g|_1\n<turn>"
    "cat %Aall %u %Apassed dim=-1\n"
    "cat %Aall_1 %f %Apassed_1 dim=-1\n"
    "drop {q%a %c}{!q%Aq_proj %Aview %Ak_proj %Aview_1} %Atranspose %Atranspose_1 %Acos %Asin "
    "%Arotated %Apassed %Arotated_1\n"
    "~q|%Aall\n~k|%Aall_1\n"
    "<cached><repeat><attend><o_proj>",
    NULL},
  /* ---- gpt-oss: eager attention with a sink for each head ---- */
  {"oss_norm",
    "to %p.to %i dtype=f32\n"
    "pow %p.pow %p.to scalar=1\n"
    "mean %p.mean %p.pow dim=-1 keepdim=1\n"
    "add %p.add %p.mean scalar=1\n"
    "rsqrt %p.rsqrt %p.add\n"
    "mul %p.mul %p.to %p.rsqrt\n"
    "parameter %p.weight shape=[%z]\n"
    "mul %p.mul_1 %p.weight %p.mul\n"
    "to %p.to_1 %p.mul_1 dtype=model\n"
    "drop%d{f %x} %p.mean %p.mul\n",
    "%p.to_1"},
  {"oss_masks",
    "<positions>~p|%B\n<full_mask><mask_numbers>drop %ple\n"
    "~p|%Bsliding.\n<mask><mask_numbers>drop %plogical_and_1\n",
    NULL},
  {"oss_rope",
    "~p|%Brotary_emb\n"
    "unsqueeze %p.unsqueeze %Bunsqueeze dim=2\n"
    "to %p.to %p.unsqueeze dtype=f32\n"
    "buffer %p.inv_freq shape=[$r] dtype=f32\n"
    "to %p.to_1 %p.inv_freq dtype=f32\n"
    "mul %p.mul %p.to %p.to_1\n"
    "cos %p.cos %p.mul\n"
    "mul %p.mul_1 %p.cos scalar=1\n"
    "sin %p.sin %p.mul\n"
    "mul %p.mul_2 %p.sin scalar=1\n"
    "to %p.to_2 %p.mul_1 dtype=model\n"
    "to %p.to_3 %p.mul_2 dtype=model\n"
    "drop %p.mul %p.mul_1\n",
    NULL},
  {"oss_turn",
    "chunk %Afirst%g,%Asecond%g %j chunks=2 dim=-1\n"
    "mul %Amul%g %Afirst%g %Acos\n"
    "mul %Amul_s%g %Asecond%g %Asin\n"
    "sub %Asub%g %Amul%g %Amul_s%g\n"
    "mul %Amul_t%g %Asecond%g %Acos\n"
    "mul %Amul_u%g %Afirst%g %Asin\n"
    "add %Aadd%g %Amul_t%g %Amul_u%g\n"
    "cat %Aall%g %Asub%g %Aadd%g dim=-1\n"
    "~f|%Aall%g\n",
    NULL},
  {"oss_attention",
    "{y~s|%Bsliding.where\n}{!y~s|%Bwhere\n}"
    "<qkv><angles_of>~j|%q\n<oss_turn>drop %Afirst %Asecond\n~q|%f\n~j|%k\n~g|_1\n<oss_turn>"
    "~k|%f\n"
    "drop %Aq_proj %Aview %Atranspose %Ak_proj %Aview_1 %Atranspose_1 %Acos %Asin %Afirst_1 "
    "%Asecond_1\n"
    "<cached>{g<repeat_kv>~K|%Akeys\n~V|%Avalues\n}"
    "transpose %Akeys_turned %K dim0=2 dim1=3\n"
    "matmul %Ascores %q %Akeys_turned\n"
    "mul %Ascaled %Ascores scalar=1\n"
    "add %Amasked %Ascaled %s\n"
    "parameter %Asinks shape=[$n]\n"
    "order %Aq_proj %Ak_proj %Av_proj\n"
    "reshape %Asink %Asinks shape=[1,$n,1,1]\n"
    "expand %Asink_all %Asink shape=[N,$n,S,1]\n"
    "cat %Acat_2 %Amasked %Asink_all dim=-1\n"
    "max %Amax,%Amax.i %Acat_2 dim=-1 keepdim=1\n"
    "sub %Asub_2 %Acat_2 %Amax\n"
    "softmax %Asoftmax %Asub_2 dim=-1 dtype=model\n"
    "slice %Ascored %Asoftmax dim=3 end=S\n"
    "dropout %Adropout %Ascored p=%D\n"
    "type_as %Aweights %Adropout %V\n"
    "drop %Amasked\n"
    "matmul %Amatmul %Aweights %V\n"
    "transpose %Atranspose_4 %Amatmul dim0=1 dim1=2\n"
    "contiguous %Acontiguous %Atranspose_4\n"
    "drop{g %Akeys %Avalues} %Asink %Asink_all %Asub_2 %Asoftmax %Ascored %Adropout %Amatmul\n"
    "reshape %Areshape_1 %Acontiguous shape=[N,S,$Q]\n"
    "contiguous %Acontiguous_1 %Areshape_1\n"
    "drop %Acontiguous\n"
    "<o_proj>",
    NULL},
  {"oss_experts",
    "~M|@mlp.\n~v|%Mreshape\n~C|%Mrouter.topk.i\n"
    "reshape %Mreshape %m shape=[N*S,$h]\n"
    "linear %Mrouter.linear %Mreshape out_features=$e\n"
    "topk %Mrouter.topk,%Mrouter.topk.i %Mrouter.linear k=$t dim=-1\n"
    "softmax %Mrouter.softmax %Mrouter.topk %Mrouter.topk dim=1\n"
    "reshape %Mexperts.reshape %Mrouter.softmax shape=[N*S*$t]\n"
    "<grouped>"
    "parameter %Mexperts.gate_up_proj_bias shape=[$e,$2]\n"
    "index %Mexperts.index_3 %Mexperts.gate_up_proj_bias %Mexperts.sort\n"
    "to %Mexperts.to_1 %Mexperts.index dtype=model\n"
    "parameter %Mexperts.gate_up_proj shape=[$e,$h,$2]\n"
    "order %Mexperts.gate_up_proj_bias\n"
    "grouped_mm %Mexperts.grouped_mm %Mexperts.to_1 %Mexperts.gate_up_proj %Mexperts.cumsum\n"
    "add %Mexperts.add %Mexperts.grouped_mm %Mexperts.index_3 inplace=1\n"
    "slice %Mexperts.slice %Mexperts.add dim=1 step=2\n"
    "slice %Mexperts.slice_1 %Mexperts.add dim=1 start=1 step=2\n"
    "clamp %Mexperts.clamp %Mexperts.slice max=7.0\n"
    "clamp %Mexperts.clamp_1 %Mexperts.slice_1 min=-7.0 max=7.0\n"
    "mul %Mexperts.scaled %Mexperts.clamp scalar=1\n"
    "sigmoid %Mexperts.sigmoid %Mexperts.scaled\n"
    "mul %Mexperts.glu %Mexperts.clamp %Mexperts.sigmoid\n"
    "add %Mexperts.add_1 %Mexperts.clamp_1 scalar=1\n"
    "mul %Mexperts.mul %Mexperts.add_1 %Mexperts.glu\n"
    "drop %Mexperts.grouped_mm %Mexperts.add %Mexperts.clamp %Mexperts.clamp_1\n"
    "parameter %Mexperts.down_proj_bias shape=[$e,$h]\n"
    "index %Mexperts.index_4 %Mexperts.down_proj_bias %Mexperts.sort\n"
    "drop %Mexperts.index_3\n"
    "to %Mexperts.to_2 %Mexperts.mul dtype=model\n"
    "parameter %Mexperts.down_proj shape=[$e,$m,$h]\n"
    "order %Mexperts.down_proj_bias @input_layernorm.weight @post_attention_layernorm.weight\n"
    "grouped_mm %Mexperts.grouped_mm_1 %Mexperts.to_2 %Mexperts.down_proj %Mexperts.cumsum\n"
    "add %Mexperts.add_2 %Mexperts.grouped_mm_1 %Mexperts.index_4 inplace=1\n"
    "drop %Mexperts.mul\n"
    "<grouped_sum>"
    "reshape %Mreshape_1 %o shape=[N,S,$h]\n"
    "drop %Aweights %m %Mrouter.linear %C\n"
    "add @add_1 @add %Mreshape_1\n"
    "drop{l %x} %Mrouter.softmax %o\n"
    "~x|@add_1\n",
    NULL},
  /* ---- OLMoE: norms of all heads ---- */
  {"olmoe_attention",
    "linear %Aq_proj %n out_features=$Q{!b bias=0}\n"
    "&%Aq_norm|%Aq_proj|a|$Q|%Aq_proj\n"
    "linear %Ak_proj %n out_features=$K{!b bias=0}\n"
    "&%Ak_norm|%Ak_proj|c|$K|%Ak_proj\n"
    "linear %Av_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview %a shape=[N,S,$n,$d]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "view %Aview_1 %c shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_1 %Aview_1 dim0=1 dim1=2\n"
    "view %Aview_2 %Av_proj shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "<angles_of>~j|%Atranspose\n<turn>~q|%f\n~j|%Atranspose_1\n~g|_1\n<turn>~k|%f\n"
    "drop %a %c %Aview %Atranspose %Aview_1 %Atranspose_1 %Acos %Asin\n"
    "~v|%Atranspose_2\n~l|%Av_proj %Aview_2 %Atranspose_2\n"
    "<cached><repeat><attend><o_proj>",
    NULL},
  /* ---- Qwen 2: an expert that all tokens go through, behind a gate ---- */
  {"qwen2_experts",
    "<moe_tokens>"
    "linear @mlp.shared_expert.gate_proj %v out_features=$s bias=0\n"
    "^@mlp.shared_expert.act_fn|@mlp.shared_expert.gate_proj|a\n"
    "linear @mlp.shared_expert.up_proj %v out_features=$s bias=0\n"
    "mul @mlp.shared_expert.mul %a @mlp.shared_expert.up_proj\n"
    "linear @mlp.shared_expert.down_proj @mlp.shared_expert.mul out_features=$h bias=0\n"
    "<best_experts>~C|@mlp.gate.topk.i\n"
    "<experts_up>"
    "order @mlp.shared_expert.gate_proj @mlp.shared_expert.up_proj @mlp.shared_expert.down_proj\n"
    "<experts_down>"
    "linear @mlp.shared_expert_gate %v out_features=1 bias=0\n"
    "order @input_layernorm.weight @post_attention_layernorm.weight\n"
    "sigmoid @mlp.sigmoid @mlp.shared_expert_gate\n"
    "mul @mlp.mul @mlp.sigmoid @mlp.shared_expert.down_proj\n"
    "add @mlp.add %o @mlp.mul\n"
    "reshape @mlp.reshape @mlp.add shape=[N,S,$h]\n"
    "drop %m %v @mlp.gate.linear %C @mlp.gate.to @mlp.mul\n"
    "add @add_1 @add @mlp.reshape\n"
    "drop{l %x} @mlp.add\n"
    "~x|@add_1\n",
    NULL},
};

/* flags as in hf_lines.c; X Mixtral's router; 8 in a layer: it has experts; 'g the router stands before them,
   'k a mask of windows is made, of a window of 0 if there is none */
static const vram__hf_lines vram__hf_expert_rows[] = {
  {"qwen3_moe", "q", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2>{8<router><experts>}{!8<gated><end>}",
    "<last_norm>", 1, 8},
  {"mixtral", "X", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><mixtral_router><experts>",
    "<last_norm>", 1, 2},
  {"glm4_moe", "K7", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><glm4_moe_attention><norm_2>{8<grouping_experts>}{!8<gated><end>}",
    "<last_norm>", 1, 8},
  {"gpt_oss", "X'w", "hidden_act", "silu", "oss_norm", "<embedding><oss_masks><oss_rope>",
    "<norm_1><oss_attention><norm_2><oss_experts>",
    "&%Bnorm|%x|n|$h|+%e %Badd %Bunsqueeze %Bwhere %Bsliding.where %Brotary_emb.to_2 "
    "%Brotary_emb.to_3\n", 0, 4},
  {"dots1", "q", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2>{8<grouping_experts>}{!8<gated><end>}", "<last_norm>", 1, 0},
  {"olmoe", "q'g", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><olmoe_attention><norm_2><router><experts>", "<last_norm>", 1, 8},
  {"qwen2_moe", "'k", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2>{8<qwen2_experts>}{!8<gated><end>}", "<last_norm>", 1, 4},
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
