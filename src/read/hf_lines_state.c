/* >>read/hf_lines_state    lines of decoders with state spaces and short convolutions, as
   transformers 5.23 runs them without mamba_ssm and causal_conv1d: their parts, and of which ones
   the families consist */
#include "read/read.h"

/* clang-format off */
static const vram__hf_part vram__hf_state_parts[] = {
  /* ---- Mamba-2. %M: the path of a mixer, %g: what goes into its parts ---- */
  {"mamba2_decay",
    "parameter %MA_log shape=[$H]\n"
    "to %Mto %MA_log dtype=f32\n"
    "exp %Mexp %Mto\n"
    "neg %Mneg %Mexp\n"
    "parameter %Mconv1d.weight shape=[$C,1,$L]\n"
    "squeeze %Msqueeze %Mconv1d.weight dim=1\n",
    NULL},
  {"mamba2_conv",
    "split %Msplit.0,%Msplit.1,%Msplit.2 %g split_size_or_sections=$I,$C,$H dim=-1\n"
    "transpose %Mtranspose %Msplit.1 dim0=1 dim1=2\n"
    "squeeze %Msqueeze_1 %Mconv1d.weight dim=1\n"
    "to %Mto_1 %Mtranspose dtype=model\n"
    "unsqueeze %Munsqueeze %Msqueeze_1 dim=1\n"
    "{!'cparameter %Mconv1d.bias shape=[$C]\n}"
    "conv1d %Mconv1d %Mto_1 %Munsqueeze{!'c %Mconv1d.bias} out_channels=$C kernel_size=$L padding=$P "
    "groups=$C\n"
    "slice %Mslice %Mconv1d dim=0 colon=1\n"
    "slice %Mslice_1 %Mslice dim=1 colon=1\n"
    "slice %Mslice_2 %Mslice_1 dim=2 end=S\n"
    "silu %Msilu %Mslice_2\n"
    "drop %Mconv1d\n"
    "{'hto %Mto_2 %Msilu dtype=model\ndrop %Msplit.1 %Mtranspose %Msqueeze_1\n}"
    "{!'htype_as %Mto_2 %Msilu %Mtranspose\ndrop %Msplit.1 %Msqueeze_1\n}"
    "transpose %Mtranspose_1 %Mto_2 dim0=1 dim1=2\n"
    "split %Msplit.0_1,%Msplit.1_1,%Msplit.2_1 %Mtranspose_1 split_size_or_sections=$I,$x,$x "
    "dim=-1\n",
    NULL},
  /* mamba2_chunk_scan: c chunks of A tokens; %o: what comes of it */
  {"chunk_scan",
    "view %Mview %Msplit.0_1 shape=[N,S,$H,$D]\n"
    "view %Mview_1 %Msplit.1_1 shape=[N,S,$u,$o]\n"
    "view %Mview_2 %Msplit.2_1 shape=[N,S,$u,$o]\n"
    "parameter %Mdt_bias shape=[$H]\n"
    "{'hto %Mto_3 %Mdt_bias dtype=model\n}"
    "{!'horder %MA_log\ntype_as %Mto_3 %Mdt_bias %Msplit.2\n}"
    "add %Madd %Msplit.2 %Mto_3\n"
    "softplus %Msoftplus %Madd\n"
    "clamp %Mclamp %Msoftplus min=0.0 max=65504\n"
    "to %Mto_4 %Mview dtype=f32\n"
    "to %Mto_5 %Mview_1 dtype=f32\n"
    "repeat_interleave %Mrepeat_interleave %Mto_5 repeats=$q dim=2\n"
    "to %Mto_6 %Mview_2 dtype=f32\n"
    "repeat_interleave %Mrepeat_interleave_1 %Mto_6 repeats=$q dim=2\n"
    "parameter %MD shape=[$H]\n"
    "{!'horder %Mconv1d.weight{!'c %Mconv1d.bias} %Min_proj\n}"
    "unsqueeze %Munsqueeze_1 %MD dim=1\n"
    "pad %Mpad %Mto_4 pad=0,0,0,0,0,$z,0,0\n"
    "mul %Mmul %Munsqueeze_1 %Mpad\n"
    "unsqueeze %Munsqueeze_2 %Mclamp dim=3\n"
    "to %Mto_7 %Munsqueeze_2 dtype=f32\n"
    "mul %Mmul_1 %Mto_4 %Mto_7\n"
    "to %Mto_8 %Mneg dtype=f32\n"
    "to %Mto_9 %Mclamp dtype=f32\n"
    "mul %Mmul_2 %Mto_8 %Mto_9\n"
    "pad %Mpad_1 %Mmul_1 pad=0,0,0,0,0,$z,0,0\n"
    "reshape %Mreshape %Mpad_1 shape=[N,$c,$A,$H,$D]\n"
    "pad %Mpad_2 %Mmul_2 pad=0,0,0,$z,0,0\n"
    "reshape %Mreshape_1 %Mpad_2 shape=[N,$c,$A,$H]\n"
    "pad %Mpad_3 %Mrepeat_interleave pad=0,0,0,0,0,$z,0,0\n"
    "reshape %Mreshape_2 %Mpad_3 shape=[N,$c,$A,$H,$o]\n"
    "pad %Mpad_4 %Mrepeat_interleave_1 pad=0,0,0,0,0,$z,0,0\n"
    "reshape %Mreshape_3 %Mpad_4 shape=[N,$c,$A,$H,$o]\n"
    "drop %Mrepeat_interleave %Mrepeat_interleave_1 %Mmul_1 %Mmul_2\n"
    "permute %Mpermute %Mreshape_1 dims=0,3,1,2\n"
    "cumsum %Mcumsum %Mpermute dim=-1\n"
    "unsqueeze %Munsqueeze_3 %Mpermute dim=4\n"
    "expand %Mexpand %Munsqueeze_3 shape=[N,$H,$c,$A,$A]\n"
    "ones %Mones shape=[$A,$A] dtype=bool\n"
    "tril %Mtril %Mones diagonal=-1\n"
    "logical_not %Mlogical_not %Mtril\n"
    "masked_fill %Mmasked_fill %Mexpand %Mlogical_not\n"
    "drop %Munsqueeze_3\n"
    "cumsum %Mcumsum_1 %Mmasked_fill dim=-2\n"
    "ones %Mones_1 shape=[$A,$A] dtype=bool\n"
    "tril %Mtril_1 %Mones_1\n"
    "drop %Mtril\n"
    "logical_not %Mlogical_not_1 %Mtril_1\n"
    "masked_fill %Mmasked_fill_1 %Mcumsum_1 %Mlogical_not_1\n"
    "drop %Mmasked_fill %Mtril_1\n"
    "exp %Mexp_1 %Mmasked_fill_1\n"
    "einsum %Meinsum %Mreshape_3 %Mreshape_2 equation=bclhn,bcshn->bclsh\n"
    "permute %Mpermute_1 %Mexp_1 dims=0,2,3,4,1\n"
    "mul %Mmul_3 %Meinsum %Mpermute_1\n"
    "einsum %Meinsum_1 %Mmul_3 %Mreshape equation=bclsh,bcshp->bclhp\n"
    "<chunk_states>",
    NULL},
  {"chunk_states",
    "slice %Mslice_3 %Mcumsum dim=0 colon=1\n"
    "slice %Mslice_4 %Mslice_3 dim=1 colon=1\n"
    "slice %Mslice_5 %Mslice_4 dim=2 colon=1\n"
    "slice %Mslice_6 %Mslice_5 dim=3 start=$X\n"
    "sub %Msub %Mslice_6 %Mcumsum\n"
    "exp %Mexp_2 %Msub\n"
    "permute %Mpermute_2 %Mexp_2 dims=0,-2,-1,1\n"
    "unsqueeze %Munsqueeze_4 %Mpermute_2 dim=4\n"
    "mul %Mmul_4 %Mreshape_2 %Munsqueeze_4\n"
    "drop %Mpermute_2\n"
    "einsum %Meinsum_2 %Mmul_4 %Mreshape equation=bclhn,bclhp->bchpn\n"
    "slice %Mslice_7 %Meinsum_2 dim=0 colon=1\n"
    "{'sexpand %Mslice_8 %Mslice_7 shape=[N,1,$H,$D,$o]\n}{!'sslice %Mslice_8 %Mslice_7 dim=1 end=1\n}"
    "zeros %Mzeros %Mslice_8 shape=[N,1,$H,$D,$o]\n"
    "cat %Mcat %Mzeros %Meinsum_2 dim=1\n"
    "slice %Mslice_9 %Mcumsum dim=0 colon=1\n"
    "slice %Mslice_10 %Mslice_9 dim=1 colon=1\n"
    "slice %Mslice_11 %Mslice_10 dim=2 colon=1\n"
    "select %Mselect %Mslice_11 dim=3 index=-1\n"
    "pad %Mpad_5 %Mselect pad=1,0\n"
    "unsqueeze %Munsqueeze_5 %Mpad_5 dim=3\n"
    "expand %Mexpand_1 %Munsqueeze_5 shape=[N,$H,$y,$y]\n"
    "ones %Mones_2 shape=[$y,$y] dtype=bool\n"
    "tril %Mtril_2 %Mones_2 diagonal=-1\n"
    "logical_not %Mlogical_not_2 %Mtril_2\n"
    "masked_fill %Mmasked_fill_2 %Mexpand_1 %Mlogical_not_2\n"
    "drop %Mpad_5 %Munsqueeze_5\n"
    "cumsum %Mcumsum_2 %Mmasked_fill_2 dim=-2\n"
    "ones %Mones_3 shape=[$y,$y] dtype=bool\n"
    "tril %Mtril_3 %Mones_3\n"
    "drop %Mtril_2\n"
    "logical_not %Mlogical_not_3 %Mtril_3\n"
    "masked_fill %Mmasked_fill_3 %Mcumsum_2 %Mlogical_not_3\n"
    "drop %Mmasked_fill_2 %Mtril_3\n"
    "exp %Mexp_3 %Mmasked_fill_3\n"
    "transpose %Mtranspose_2 %Mexp_3 dim0=1 dim1=3\n"
    "einsum %Meinsum_3 %Mtranspose_2 %Mcat equation=bzch,bzhpn->bchpn\n"
    "slice %Mslice_12 %Meinsum_3 dim=0 colon=1\n"
    "slice %Mslice_13 %Mslice_12 dim=1 end=$c\n"
    "slice %Mslice_14 %Meinsum_3 dim=0 colon=1\n"
    "select %Mselect_1 %Mslice_14 dim=1 index=-1\n"
    "drop %Mcat\n"
    "exp %Mexp_4 %Mcumsum\n"
    "einsum %Meinsum_4 %Mreshape_3 %Mslice_13 equation=bclhn,bchpn->bclhp\n"
    "permute %Mpermute_3 %Mexp_4 dims=0,2,3,1\n"
    "unsqueeze %Munsqueeze_6 %Mpermute_3 dim=4\n"
    "mul %Mmul_5 %Meinsum_4 %Munsqueeze_6\n"
    "drop %Mpermute_3\n"
    "add %Madd_1 %Meinsum_1 %Mmul_5\n"
    "contiguous %Mcontiguous %Madd_1\n"
    "reshape %Mreshape_4 %Mcontiguous shape=[N,$Z,$H,$D]\n"
    "add %Madd_2 %Mreshape_4 %Mmul\n"
    "{'vdrop %Mcontiguous\n"
    "slice %Mslice_15 %Madd_2 dim=0 colon=1\n"
    "slice %Mslice_16 %Mslice_15 dim=1 end=S\n}"
    "drop %Mview %Mview_1 %Mview_2 %Mclamp{'v %Mmul} %Mpad_1 %Mreshape %Mpad_2 %Mreshape_1 "
    "%Mpad_3 %Mreshape_2 %Mpad_4 %Mreshape_3 %Mpermute %Mcumsum %Mexp_1 %Meinsum %Mmul_3 "
    "%Meinsum_1 %Mexp_2 %Mmul_4 %Mzeros %Mexp_3 %Mtranspose_2 %Meinsum_3 %Mslice_13 %Mselect_1 "
    "%Mexp_4 %Meinsum_4 %Mmul_5{!'v %Mcontiguous}\n"
    "{'v~o|%Mslice_16\n}{!'v~o|%Madd_2\n}",
    NULL},
  {"mamba2_norm",
    "to %Mnorm.to %Mreshape_5 dtype=f32\n"
    "to %Mnorm.to_1 %Msplit.0 dtype=f32\n"
    "silu %Mnorm.silu %Mnorm.to_1\n"
    "mul %Mnorm.mul %Mnorm.to %Mnorm.silu\n"
    "view %Mnorm.view %Mnorm.mul shape=[N,S,$u,$w]\n"
    "pow %Mnorm.pow %Mnorm.view scalar=1\n"
    "mean %Mnorm.mean %Mnorm.pow dim=-1 keepdim=1\n"
    "add %Mnorm.add %Mnorm.mean scalar=1\n"
    "rsqrt %Mnorm.rsqrt %Mnorm.add\n"
    "mul %Mnorm.mul_1 %Mnorm.view %Mnorm.rsqrt\n"
    "view %Mnorm.view_1 %Mnorm.mul_1 shape=[N,S,$I]\n"
    "drop %Mnorm.mul\n"
    "to %Mnorm.to_2 %Mnorm.view_1 dtype=f32\n"
    "parameter %Mnorm.weight shape=[$I]\n"
    "mul %Mnorm.mul_2 %Mnorm.weight %Mnorm.to_2\n"
    "drop %Mreshape_5 %Mnorm.mean %Mnorm.mul_1 %Mnorm.view_1\n",
    NULL},
  {"mamba2_embedding",
    "~B|backbone.\n~N|%Blayers.\n"
    "embedding %Bembeddings %I num_embeddings=$v embedding_dim=$h\n"
    "~t|%Bembeddings\n~e|%t\n~x|%e\n",
    NULL},
  {"mamba2_layer",
    "~M|@mixer.\n"
    "to @to %x dtype=model\n"
    "&@norm|@to|n|$h|=@to\n"
    "{'rto @to_1 %x dtype=f32\n}"
    "linear %Min_proj %n out_features=$l{!'b bias=0}\n~g|%Min_proj\n"
    "<mamba2_decay><mamba2_conv><chunk_scan>"
    "reshape %Mreshape_5 %o shape=[N,S,$I]\n"
    "<mamba2_norm>"
    "to %Mto_10 %Mnorm.mul_2 dtype=model\n"
    "linear %Mout_proj %Mto_10 out_features=$h{!'o bias=0}\n"
    "drop %n %Min_proj %Mneg %Msplit.0 %Msplit.2 %Mto_2 %Mtranspose_1 %Msplit.0_1 %Msplit.1_1 "
    "%Msplit.2_1 %Madd_2{'v %o} %Mnorm.mul_2\n"
    "add @add {'r@to_1}{!'r%x} %Mout_proj\n"
    "{'r{ldrop %x\n}}"
    "~x|@add\n",
    NULL},
  /* ---- Falcon-H1: attention and a mixer side by side ---- */
  {"h1_mixer",
    "~M|@mamba.\n"
    "mul %Mscaled %n scalar=1\n"
    "linear %Min_proj %Mscaled out_features=$l{!'b bias=0}\n"
    "buffer %Mmup_vector shape=[1,1,$l]\n"
    "mul %Mprojected %Min_proj %Mmup_vector\n~g|%Mprojected\n"
    "<mamba2_decay><mamba2_conv>drop %Mscaled\n<chunk_scan>"
    "view %Mview_3 %o shape=[N,S,$I]\n"
    "{'n<h1_norm>}"
    "{!'nsilu %Msilu_1 %Msplit.0\nmul %Mgated %Mview_3 %Msilu_1\n}"
    "to %Mto_10 %Mgated dtype=model\n"
    "linear %Mout_proj %Mto_10 out_features=$h{!'o bias=0}\n"
    "drop %g %Mneg %Msplit.0 %Msplit.2 %Mto_2 %Mtranspose_1 %Msplit.0_1 %Msplit.1_1 "
    "%Msplit.2_1 %Madd_2{'v %o} %Mgated\n",
    NULL},
  /* FalconH1RMSNormGated; 'p: before the gate */
  {"h1_norm",
    "{!'p<h1_gate>to %Mnorm.to %Mnorm.gated dtype=f32\n}"
    "{'pto %Mnorm.to %Mview_3 dtype=f32\n}"
    "view %Mnorm.view %Mnorm.to shape=[N,S,$u,$w]\n"
    "pow %Mnorm.pow %Mnorm.view scalar=1\n"
    "mean %Mnorm.mean %Mnorm.pow dim=-1 keepdim=1\n"
    "add %Mnorm.add %Mnorm.mean scalar=1\n"
    "rsqrt %Mnorm.rsqrt %Mnorm.add\n"
    "mul %Mnorm.mul %Mnorm.view %Mnorm.rsqrt\n"
    "drop %Mnorm.to\n"
    "parameter %Mnorm.weight shape=[$I]\n"
    "view %Mnorm.view_1 %Mnorm.weight shape=[$u,$w]\n"
    "mul %Mnorm.mul_1 %Mnorm.view_1 %Mnorm.mul\n"
    "view %Mnorm.view_2 %Mnorm.mul_1 shape=[N,S,$I]\n"
    "{'p<h1_gate>drop %Mnorm.mul_1\n}"
    "to %Mgated %Mnorm.{'pgated}{!'pview_2} dtype=f32\n"
    "drop %Mview_3 %Mnorm.mean{!'p %Mnorm.mul_1}\n",
    NULL},
  {"h1_gate",
    "to %Mnorm.gate %Msplit.0 dtype=f32\n"
    "silu %Mnorm.silu %Mnorm.gate\n"
    "mul %Mnorm.gated %M{'pnorm.view_2}{!'pview_3} %Mnorm.silu\n",
    NULL},
  {"h1_attention",
    "linear %Aq_proj %n out_features=$Q{!b bias=0}\n"
    "view %Aview %Aq_proj shape=[N,S,$n,$d]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "linear %Ak_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_1 %Ak_proj shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_1 %Aview_1 dim0=1 dim1=2\n"
    "mul %Ascaled %Atranspose_1 scalar=1\n"
    "drop %Ak_proj %Aview_1\n"
    "linear %Av_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_2 %Av_proj shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "<angles_of>~j|%Atranspose\n<turn>~q|%f\n~j|%Ascaled\n~g|_1\n<turn>~k|%f\n"
    "drop %Aq_proj %Aview %Atranspose %Ascaled %Acos %Asin\n"
    "~v|%Atranspose_2\n~l|%Av_proj %Aview_2 %Atranspose_2\n"
    "<cached><repeat><attend><o_proj>",
    NULL},
  {"h1_layer",
    "<norm_1><h1_mixer>"
    "mul @mul %Mout_proj scalar=1\n"
    "mul @mul_1 %n scalar=1\n~y|%n\n~n|@mul_1\n"
    "<h1_attention>"
    "mul @mul_2 %Ao_proj scalar=1\n"
    "add @add @mul @mul_2\n"
    "drop %y\n"
    "add @add_1 %x @add\n"
    "&@pre_ff_layernorm|@add_1|m|$h|\n"
    "linear @feed_forward.up_proj %m out_features=$i{!u bias=0}\n"
    "linear @feed_forward.gate_proj %m out_features=$i{!u bias=0}\n"
    "order @feed_forward.up_proj\n"
    "mul @feed_forward.mul @feed_forward.gate_proj scalar=1\n"
    "^@feed_forward.act_fn|@feed_forward.mul|a\n"
    "mul @feed_forward.mul_1 @feed_forward.up_proj %a\n"
    "linear @feed_forward.down_proj @feed_forward.mul_1 out_features=$h{!u bias=0}\n"
    "order %Mdt_bias %MA_log %MD %Mconv1d.weight{!'c %Mconv1d.bias} %Min_proj{'n %Mnorm.weight} "
    "%Mout_proj %Aq_proj %Ak_proj %Av_proj %Ao_proj @input_layernorm.weight "
    "@pre_ff_layernorm.weight\n"
    "mul @feed_forward.mul_2 @feed_forward.down_proj scalar=1\n"
    "drop %m @feed_forward.mul_1\n"
    "add @add_2 @add_1 @feed_forward.mul_2\n"
    "drop{l %x} @mul @mul_2\n"
    "~x|@add_2\n",
    NULL},
  /* ---- Mamba. 'j: Jamba's norms of what x_proj gives, 'f: Falcon-Mamba's, without weights ---- */
  {"mamba_mixer",
    "linear %Min_proj %n out_features=$l{!'b bias=0}\n"
    "transpose %Mtranspose %Min_proj dim0=1 dim1=2\n"
    "parameter %MA_log shape=[$I,$o]\n"
    "to %Mto %MA_log dtype=f32\n"
    "exp %Mexp %Mto\n"
    "neg %Mneg %Mexp\n"
    "{!'j{'bparameter %Mout_proj.bias shape=[$h]\n"
    "to %Mto_o %Mout_proj.bias dtype=f32\n}"
    "parameter %MD shape=[$I]\n"
    "to %Mto_d %MD dtype=f32\n"
    "parameter %Mdt_proj.bias shape=[$I]\n"
    "to %Mto_dt %Mdt_proj.bias dtype=f32\n"
    "drop{'b %Mto_o} %Mto_d\n}"
    "chunk %Mchunk.0,%Mchunk.1 %Mtranspose chunks=2 dim=1\n"
    "parameter %Mconv1d.weight shape=[$I,1,$L]\n"
    "{!'j{'corder %Min_proj\n}}"
    "squeeze %Msqueeze %Mconv1d.weight dim=1\n"
    "to %Mto_1 %Mchunk.0 dtype=model\n"
    "unsqueeze %Munsqueeze %Msqueeze dim=1\n"
    "{!'cparameter %Mconv1d.bias shape=[$I]\n{!'jorder %Min_proj\n}}"
    "conv1d %Mconv1d %Mto_1 %Munsqueeze{!'c %Mconv1d.bias} out_channels=$I kernel_size=$L "
    "padding=$P groups=$I\n"
    "slice %Mslice %Mconv1d dim=0 colon=1\n"
    "slice %Mslice_1 %Mslice dim=1 colon=1\n"
    "slice %Mslice_2 %Mslice_1 dim=2 end=S\n"
    "silu %Msilu %Mslice_2\n"
    "drop %Mconv1d\n"
    "type_as %Mto_2 %Msilu %Mchunk.0\n"
    "drop %Msqueeze\n"
    "transpose %Mtranspose_1 %Mto_2 dim0=1 dim1=2\n"
    "linear %Mx_proj %Mtranspose_1 out_features=$x bias=0\n"
    "split %Mdt,%MB,%MC %Mx_proj split_size_or_sections=$*,$o,$o dim=-1\n"
    "~a|%Mdt\n~b|%MB\n~c|%MC\n"
    "{'j&%Mdt_layernorm|%Mdt|a|$*|%Mdt\n&%Mb_layernorm|%MB|b|$o|%MB\n"
    "&%Mc_layernorm|%MC|c|$o|%Mx_proj %MC\n}"
    "{'f~p|%Mdt_layernorm\n~i|%Mdt\n<rms_plain>~p|%Mb_layernorm\n~i|%MB\n<rms_plain>"
    "~p|%Mc_layernorm\n~i|%MC\n<rms_plain>drop %Mx_proj\n"
    "~a|%Mdt_layernorm.type_as\n~b|%Mb_layernorm.type_as\n~c|%Mc_layernorm.type_as\n}"
    "transpose %Mtranspose_2 %a dim0=1 dim1=2\n"
    "parameter %Mdt_proj.weight shape=[$I,$*]\n"
    "{!'jorder %Mdt_proj.bias\n}"
    "matmul %Mmatmul %Mdt_proj.weight %Mtranspose_2\n"
    "drop %a\n"
    "{'jparameter %Mdt_proj.bias shape=[$I]\n}"
    "to %Mto_3 %Mdt_proj.bias dtype=f32\n"
    "transpose %Mtranspose_3 %Mtranspose_1 dim0=1 dim1=2\n"
    "transpose %Mtranspose_4 %b dim0=1 dim1=2\n"
    "transpose %Mtranspose_5 %c dim0=1 dim1=2\n"
    "{'jparameter %MD shape=[$I]\n"
    "order %Mconv1d.weight{!'c %Mconv1d.bias} %Min_proj %Mx_proj %Mdt_proj.weight %Mdt_proj.bias\n}"
    "to %Mto_4 %MD dtype=f32\n"
    "type_as %Mto_5 %Mto_3 %Mmatmul\n"
    "unsqueeze %Munsqueeze_1 %Mto_5 dim=1\n"
    "add %Madd %Mmatmul %Munsqueeze_1\n"
    "drop %Mto_5\n"
    "<selective_scan>"
    "transpose %Mtranspose_8 %Mgated dim0=1 dim1=2\n"
    "to %Mto_10 %Mtranspose_8 dtype=model\n"
    "{!'j{'bparameter %Mout_proj.weight shape=[$h,$I]\n"
    "order %Mout_proj.bias\n"
    "linear %Mout_proj %Mto_10 %Mout_proj.weight %Mout_proj.bias out_features=$h\n}"
    "{!'blinear %Mout_proj %Mto_10 out_features=$h bias=0\n}}"
    "{'jlinear %Mout_proj %Mto_10 out_features=$h{!'b bias=0}\n}"
    "{'jorder %Mdt_layernorm.weight %Mb_layernorm.weight %Mc_layernorm.weight\n}"
    "drop %n %Min_proj %Mtranspose %Mneg %Mchunk.1 %Mto_2 %Mtranspose_1{!'j{!'f %Mx_proj}} %b %c "
    "%Mmatmul %Mto_3 %Mgated\n",
    NULL},
  /* rms_forward, without a weight */
  {"rms_plain",
    "to %p.to %i dtype=f32\n"
    "pow %p.pow %p.to scalar=1\n"
    "mean %p.mean %p.pow dim=-1 keepdim=1\n"
    "add %p.add %p.mean scalar=1\n"
    "rsqrt %p.rsqrt %p.add\n"
    "mul %p.mul %p.to %p.rsqrt\n"
    "type_as %p.type_as %p.mul %i\n",
    NULL},
  /* mamba_selective_scan: a round for each token */
  {"selective_scan",
    "softplus %Msoftplus %Madd\n"
    "transpose %Mtranspose_6 %Mtranspose_4 dim0=1 dim1=2\n"
    "transpose %Mtranspose_7 %Mtranspose_5 dim0=1 dim1=2\n"
    "unsqueeze %Munsqueeze_2 %Mneg dim=0\n"
    "slice %Mslice_3 %Munsqueeze_2 dim=1 colon=1\n"
    "unsqueeze %Munsqueeze_3 %Mslice_3 dim=2\n"
    "slice %Mslice_4 %Munsqueeze_3 dim=3 colon=1\n"
    "slice %Mslice_5 %Msoftplus dim=0 colon=1\n"
    "slice %Mslice_6 %Mslice_5 dim=1 colon=1\n"
    "slice %Mslice_7 %Mslice_6 dim=2 colon=1\n"
    "unsqueeze %Munsqueeze_4 %Mslice_7 dim=3\n"
    "mul %Mmul %Mslice_4 %Munsqueeze_4\n"
    "exp %Mexp_1 %Mmul\n"
    "slice %Mslice_8 %Msoftplus dim=0 colon=1\n"
    "slice %Mslice_9 %Mslice_8 dim=1 colon=1\n"
    "slice %Mslice_10 %Mslice_9 dim=2 colon=1\n"
    "unsqueeze %Munsqueeze_5 %Mslice_10 dim=3\n"
    "slice %Mslice_11 %Mtranspose_6 dim=0 colon=1\n"
    "unsqueeze %Munsqueeze_6 %Mslice_11 dim=1\n"
    "slice %Mslice_12 %Munsqueeze_6 dim=2 colon=1\n"
    "slice %Mslice_13 %Mslice_12 dim=3 colon=1\n"
    "to %Mto_6 %Mslice_13 dtype=f32\n"
    "mul %Mmul_1 %Munsqueeze_5 %Mto_6\n"
    "slice %Mslice_14 %Mtranspose_3 dim=0 colon=1\n"
    "slice %Mslice_15 %Mslice_14 dim=1 colon=1\n"
    "slice %Mslice_16 %Mslice_15 dim=2 colon=1\n"
    "unsqueeze %Munsqueeze_7 %Mslice_16 dim=3\n"
    "to %Mto_7 %Munsqueeze_7 dtype=f32\n"
    "mul %Mmul_2 %Mmul_1 %Mto_7\n"
    "zeros %Mzeros %Mmatmul shape=[N,$I,$o]\n~s|%Mzeros\n"
    "<*scan_round>"
    "stack %Mstack<*scan_output> dim=-1\n"
    "unsqueeze %Munsqueeze_8 %Mto_4 dim=0\n"
    "slice %Mslice_17 %Munsqueeze_8 dim=1 colon=1\n"
    "unsqueeze %Munsqueeze_9 %Mslice_17 dim=2\n"
    "mul %Mmul_3 %Mtranspose_3 %Munsqueeze_9\n"
    "add %Madd_1 %Mstack %Mmul_3\n"
    "silu %Msilu_1 %Mchunk.1\n"
    "mul %Mgated %Madd_1 %Msilu_1\n"
    "drop %Mtranspose_3 %Mtranspose_4 %Mtranspose_5 %Mto_4 %Msoftplus %Mtranspose_6 "
    "%Mtranspose_7 %Mexp_1 %Mmul_1 %Mmul_2<*scan_kept>\n",
    NULL},
  {"scan_round",
    "slice %Ma$#.0 %Mexp_1 dim=0 colon=1\n"
    "slice %Ma$#.1 %Ma$#.0 dim=1 colon=1\n"
    "select %Ma$# %Ma$#.1 dim=2 index=$#\n"
    "mul %Ms$#.0 %Ma$# %s\n"
    "slice %Mx$#.0 %Mmul_2 dim=0 colon=1\n"
    "slice %Mx$#.1 %Mx$#.0 dim=1 colon=1\n"
    "select %Mx$# %Mx$#.1 dim=2 index=$#\n"
    "add %Ms$# %Ms$#.0 %Mx$#\n"
    "drop %s\n~s|%Ms$#\n"
    "type_as %Mt$# %s %Mmatmul\n"
    "slice %Mc$#.0 %Mtranspose_7 dim=0 colon=1\n"
    "select %Mc$#.1 %Mc$#.0 dim=1 index=$#\n"
    "slice %Mc$#.2 %Mc$#.1 dim=1 colon=1\n"
    "unsqueeze %Mc$# %Mc$#.2 dim=-1\n"
    "matmul %Mm$# %Mt$# %Mc$#\n"
    "drop %Mc$#.2\n"
    "slice %My$#.0 %Mm$# dim=0 colon=1\n"
    "slice %My$#.1 %My$#.0 dim=1 colon=1\n"
    "select %My$# %My$#.1 dim=2 index=0\n",
    NULL},
  {"scan_output", " %My$#", NULL},
  {"scan_kept", "{'a %s} %Mm$# %My$#{'d{!'a\ndrop}}", NULL},
  {"falcon_mamba_buffers",
    "buffer %N$#.mixer.dt_layernorm.weight shape=[$I]\n"
    "buffer %N$#.mixer.b_layernorm.weight shape=[$o]\n"
    "buffer %N$#.mixer.c_layernorm.weight shape=[$o]\n",
    NULL},
  {"mamba_layer",
    "~M|@mixer.\n"
    "to @to %x dtype=model\n"
    "&@norm|@to|n|$h|=@to\n"
    "{'rto @to_1 %x dtype=f32\n}"
    "<mamba_mixer>"
    "add @add {'r@to_1}{!'r%x} %Mout_proj\n"
    "{'r{ldrop %x\n}}"
    "~x|@add\n",
    NULL},
  /* ---- Jamba ---- */
  {"jamba_layer",
    "<norm_1>{'m~M|@mamba.\n<mamba_mixer>add @add %x %Mout_proj\n}"
    "{!'m<qkv><cached><repeat><attend><o_proj>add @add %x %Ao_proj\n}"
    "&@pre_ff_layernorm|@add|m|$h|\n"
    "{8<jamba_experts>}{!8<jamba_mlp>}"
    "~x|@add_1\n",
    NULL},
  {"jamba_mlp",
    "linear @feed_forward.gate_proj %m out_features=$i bias=0\n"
    "^@feed_forward.act_fn|@feed_forward.gate_proj|a\n"
    "linear @feed_forward.up_proj %m out_features=$i bias=0\n"
    "mul @feed_forward.mul %a @feed_forward.up_proj\n"
    "linear @feed_forward.down_proj @feed_forward.mul out_features=$h bias=0\n"
    "order @input_layernorm.weight @pre_ff_layernorm.weight\n"
    "drop %m\n"
    "add @add_1 @add @feed_forward.down_proj\n"
    "{ldrop %x\n}",
    NULL},
  {"jamba_experts",
    "~M|@feed_forward.\n~v|%Mview\n~C|%Mrouter.topk.i\n"
    "view %Mview %m shape=[N*S,$h]\n"
    "linear %Mrouter.linear %Mview out_features=$e bias=0\n"
    "softmax %Mrouter.softmax %Mrouter.linear dim=-1 dtype=f32\n"
    "topk %Mrouter.topk,%Mrouter.topk.i %Mrouter.softmax k=$t dim=-1\n"
    "to %Mrouter.to %Mrouter.topk dtype=model\n"
    "drop %Mrouter.softmax\n"
    "reshape %Mexperts.reshape %Mrouter.to shape=[N*S*$t]\n"
    "<grouped><grouped_up>order @input_layernorm.weight @pre_ff_layernorm.weight\n"
    "<grouped_down><grouped_sum>"
    "reshape %Mreshape %o shape=[N,S,$h]\n"
    "drop %m %Mrouter.linear %C %Mrouter.to\n"
    "add @add_1 @add %Mreshape\n"
    "drop{l %x} %o\n",
    NULL},
  /* ---- LFM2 ---- */
  {"short_conv",
    "linear @conv.in_proj %n out_features=$l{!'u bias=0}\n"
    "transpose @conv.transpose @conv.in_proj dim0=-1 dim1=-2\n"
    "chunk @conv.chunk.0,@conv.chunk.1,@conv.chunk.2 @conv.transpose chunks=3 dim=-2\n"
    "mul @conv.mul @conv.chunk.0 @conv.chunk.2\n"
    "parameter @conv.conv.weight shape=[$h,1,$L]\n"
    "{!'uorder @conv.in_proj\n}"
    "squeeze @conv.squeeze @conv.conv.weight dim=1\n"
    "to @conv.to @conv.mul dtype=model\n"
    "unsqueeze @conv.unsqueeze @conv.squeeze dim=1\n"
    "{'uparameter @conv.conv.bias shape=[$h]\norder @conv.in_proj\n}"
    "conv1d @conv.conv1d @conv.to @conv.unsqueeze{'u @conv.conv.bias} out_channels=$h "
    "kernel_size=$L padding=$P groups=$h\n"
    "slice @conv.slice @conv.conv1d dim=0 colon=1\n"
    "slice @conv.slice_1 @conv.slice dim=1 colon=1\n"
    "slice @conv.slice_2 @conv.slice_1 dim=2 end=S\n"
    "type_as @conv.to_1 @conv.slice_2 @conv.mul\n"
    "drop @conv.squeeze @conv.conv1d\n"
    "mul @conv.mul_1 @conv.chunk.1 @conv.to_1\n"
    "transpose @conv.transpose_1 @conv.mul_1 dim0=-1 dim1=-2\n"
    "contiguous @conv.contiguous @conv.transpose_1\n"
    "drop @conv.mul_1\n"
    "linear @conv.out_proj @conv.contiguous out_features=$h{!'u bias=0}\n"
    "drop %n @conv.in_proj @conv.transpose @conv.chunk.0 @conv.chunk.1 @conv.chunk.2 @conv.to_1\n",
    NULL},
  {"lfm2_layer",
    "&@operator_norm|%x|n|$h|\n"
    "{'m<short_conv>add @add @conv.out_proj %x\n}"
    "{!'m<rotary>add @add %Ao_proj %x\n}"
    "&@ffn_norm|@add|m|$h|\n"
    "linear @feed_forward.w1 %m out_features=$i bias=0\n"
    "silu @feed_forward.silu @feed_forward.w1\n"
    "linear @feed_forward.w3 %m out_features=$i bias=0\n"
    "mul @feed_forward.mul @feed_forward.silu @feed_forward.w3\n"
    "linear @feed_forward.w2 @feed_forward.mul out_features=$h bias=0\n"
    "order @operator_norm.weight @ffn_norm.weight\n"
    "drop %m\n"
    "add @add_1 @add @feed_forward.w2\n"
    "{ldrop %x\n}"
    "~x|@add_1\n",
    NULL},
};

static const vram__hf_lines vram__hf_state_rows[] = {
  {"mamba2", "n'tl", "hidden_act", "silu", "rms", "<mamba2_embedding>", "<mamba2_layer>",
    "{'r~T|f32\n}&%Bnorm_f|%x|n|$h|+%e\n", 0, 0},
  {"mamba", "n'tl", "hidden_act", "silu", "rms", "<mamba2_embedding>", "<mamba_layer>",
    "{'r~T|f32\n}&%Bnorm_f|%x|n|$h|+%e\n", 0, 0},
  {"falcon_mamba", "n'tlf", "hidden_act", "silu", "rms", "<mamba2_embedding>", "<mamba_layer>",
    "{'r~T|f32\n}&%Bnorm_f|%x|n|$h|+%e\n", 0, 0},
  {"falcon_h1", "M'th", "hidden_act", "silu", "rms", "<multiplied_embedding><masks><rope>",
    "<h1_layer>",
    "&%Bfinal_layernorm|%x|n|$h|+%e %Badd %Bunsqueeze %Brotary_emb.to_2 %Brotary_emb.to_3\n", 0,
    0},
  {"jamba", "nX'tj", "hidden_act", "silu", "rms", "<embedding><masks>", "<jamba_layer>",
    "&%Bfinal_layernorm|%x|n|$h|+%e %Badd %Bunsqueeze\n", 0, 2},
  {"lfm2", "q", "hidden_act", "silu", "rms", "<embedding><masks><rope>", "<lfm2_layer>",
    "&%Bembedding_norm|%x|n|$h|+%e %Badd %Bunsqueeze %Brotary_emb.to_2 %Brotary_emb.to_3\n", 0, 0},
};
/* clang-format on */

VRAM__FN vram__hf_book vram__hf_state_decoders(void) {
  vram__hf_book b;
  b.part = vram__hf_state_parts;
  b.parts = sizeof vram__hf_state_parts / sizeof *vram__hf_state_parts;
  b.row = vram__hf_state_rows;
  b.rows = sizeof vram__hf_state_rows / sizeof *vram__hf_state_rows;
  return b;
}
