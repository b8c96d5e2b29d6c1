/* >>read/video    transformers of videos: rows as those of denoiser.c, whose engine and parts they
   use: as diffusers 0.42 runs them under torch 2.15 in eval mode, of weights in one dtype
   (models/transformers/transformer_wan.py, transformer_ltx.py, cogvideox_transformer_3d.py). */
#include "read/read.h"

/* clang-format off */

/* ---- parts ---- */

/* Wan's rotation of pairs in place: name of the result, of what */
static const char vram__video_rotate[] =
  "unflatten @attn1.%1.unflatten %2 dim=-1 sizes=$b,2\n"
  "unbind @attn1.%1.unbind.0,@attn1.%1.unbind.1 @attn1.%1.unflatten dim=-1\n"
  "slice @attn1.%1.cos rope.reshape dim=3 step=2\n"
  "slice @attn1.%1.sin rope.reshape_1 dim=3 start=1 step=2\n"
  "empty @attn1.%1.empty %2 shape=[N,$p,$n,$d]\n"
  "mul @attn1.%1.mul @attn1.%1.unbind.0 @attn1.%1.cos\n"
  "mul @attn1.%1.mul_1 @attn1.%1.unbind.1 @attn1.%1.sin\n"
  "sub @attn1.%1.sub @attn1.%1.mul @attn1.%1.mul_1\n"
  "slice @attn1.%1.slice @attn1.%1.empty dim=3 step=2\n"
  "add @attn1.%1.add @attn1.%1.slice @attn1.%1.sub inplace=1\n"
  "mul @attn1.%1.mul_2 @attn1.%1.unbind.0 @attn1.%1.sin\n"
  "mul @attn1.%1.mul_3 @attn1.%1.unbind.1 @attn1.%1.cos\n"
  "add @attn1.%1.add_1 @attn1.%1.mul_2 @attn1.%1.mul_3\n"
  "slice @attn1.%1.slice_1 @attn1.%1.empty dim=3 start=1 step=2\n"
  "add @attn1.%1.add_2 @attn1.%1.slice_1 @attn1.%1.add_1 inplace=1\n"
  "type_as @attn1.%1 @attn1.%1.empty %2\n"
  "drop %3 @attn1.%1.unflatten @attn1.%1.unbind.0 @attn1.%1.unbind.1 @attn1.%1.cos @attn1.%1.sin\n";

/* Queries, keys and values with norms over all heads: path, of what, keys of what */
static const char vram__video_projections[] =
  "linear %1.to_q %2 out_features=$c\n"
  "linear %1.to_k %3 out_features=$c\n"
  "linear %1.to_v %3 out_features=$c\n"
  "rms_norm %1.norm_q %1.to_q normalized_shape=$c\n"
  "rms_norm %1.norm_k %1.to_k normalized_shape=$c\n";

/* dispatch_attention_fn and the layer behind it: path, queries, keys, values, a mask, the line that
   gives the dtype back */
static const char vram__video_attend[] =
  "permute %1.permute %2 dims=0,2,1,3\n"
  "permute %1.permute_1 %3 dims=0,2,1,3\n"
  "permute %1.permute_2 %4 dims=0,2,1,3\n"
  "scaled_dot_product_attention %1.sdpa %1.permute %1.permute_1 %1.permute_2%5\n"
  "permute %1.permute_3 %1.sdpa dims=0,2,1,3\n"
  "drop %1.permute %1.permute_1 %1.permute_2\n"
  "flatten %1.flatten %1.permute_3 start_dim=2 end_dim=3\n"
  "drop %1.sdpa\n"
  "%6\n"
  "linear %1.to_out.0 %1.to out_features=$c\n";

/* FP32LayerNorm without weights: path, of what (which is f32 already) */
static const char vram__video_norm[] =
  "to %1.to %2 dtype=f32\n"
  "layer_norm %1.layer_norm %1.to normalized_shape=$c elementwise_affine=0\n"
  "to %1.to_1 %1.layer_norm dtype=f32\n"
  "drop %2\n";

/* RMSNorm of LTX without weights: path, of what, the line that gives the dtype back */
static const char vram__video_rms[] =
  "<mean_square|%1|%2>"
  "%3\n"
  "drop %1.mean\n";

/* LTX's coordinates of one axis, scaled in place: number, where it is */
static const char vram__video_scale[] =
  "slice rope.all_%1 rope.repeat dim=0 colon=1\n"
  "slice rope.one_%1 rope.all_%1 dim=1 %2\n"
  "mul rope.mul_%1 rope.one_%1 scalar=1\n"
  "mul rope.twice_%1 rope.mul_%1 scalar=1\n"
  "div rope.div_%1 rope.twice_%1 scalar=1\n"
  "slice rope.again_%1 rope.repeat dim=0 colon=1\n"
  "slice rope.to_%1 rope.again_%1 dim=1 %2\n"
  "add rope.scaled_%1 rope.to_%1 rope.div_%1 inplace=1\n";

/* LTX's rotation over all heads: name of the result, of what */
static const char vram__video_pairs[] =
  "unflatten @attn1.%1.unflatten %2 dim=2 sizes=$b,2\n"
  "unbind @attn1.%1.unbind.0,@attn1.%1.unbind.1 @attn1.%1.unflatten dim=-1\n"
  "neg @attn1.%1.neg @attn1.%1.unbind.1\n"
  "stack @attn1.%1.stack @attn1.%1.neg @attn1.%1.unbind.0 dim=-1\n"
  "flatten @attn1.%1.flatten @attn1.%1.stack start_dim=2\n"
  "to @attn1.%1.to %2 dtype=f32\n"
  "mul @attn1.%1.mul @attn1.%1.to %a\n"
  "to @attn1.%1.to_1 @attn1.%1.flatten dtype=f32\n"
  "mul @attn1.%1.mul_1 @attn1.%1.to_1 %b\n"
  "add @attn1.%1.add @attn1.%1.mul @attn1.%1.mul_1\n"
  "to @attn1.%1 @attn1.%1.add dtype=model\n"
  "drop %2 @attn1.%1.unflatten @attn1.%1.unbind.0 @attn1.%1.unbind.1 @attn1.%1.stack"
  " @attn1.%1.flatten\n";

/* CogVideoXLayerNormZero: path, of the video, of the text */
static const char vram__video_zero[] =
  "silu %1.silu %e\n"
  "linear %1.linear %1.silu out_features=$6\n"
  "chunk %1.chunk.0,%1.chunk.1,%1.chunk.2,%1.chunk.3,%1.chunk.4,%1.chunk.5 %1.linear chunks=6"
  " dim=1\n"
  "layer_norm %1.norm %2 normalized_shape=$c\n"
  "<video_shift|%1|%1.norm|%1.chunk.1|%1.chunk.0|video>"
  "layer_norm %1.norm_1 %3 normalized_shape=$c weights=%1.norm\n"
  "<video_shift|%1|%1.norm_1|%1.chunk.4|%1.chunk.3|text>"
  "slice %1.slice_8 %1.chunk.2 dim=0 colon=1\n"
  "unsqueeze %1.unsqueeze_4 %1.slice_8 dim=1\n"
  "slice %1.gate %1.unsqueeze_4 dim=2 colon=1\n"
  "slice %1.slice_10 %1.chunk.5 dim=0 colon=1\n"
  "unsqueeze %1.unsqueeze_5 %1.slice_10 dim=1\n"
  "slice %1.text_gate %1.unsqueeze_5 dim=2 colon=1\n";

/* Its scale and shift: path, of what, scale, shift, name */
static const char vram__video_shift[] =
  "add %1.%5.add %3 scalar=1\n"
  "slice %1.%5.slice %1.%5.add dim=0 colon=1\n"
  "unsqueeze %1.%5.unsqueeze %1.%5.slice dim=1\n"
  "slice %1.%5.slice_1 %1.%5.unsqueeze dim=2 colon=1\n"
  "mul %1.%5.mul %2 %1.%5.slice_1\n"
  "drop %1.%5.add\n"
  "slice %1.%5.slice_2 %4 dim=0 colon=1\n"
  "unsqueeze %1.%5.unsqueeze_1 %1.%5.slice_2 dim=1\n"
  "slice %1.%5.slice_3 %1.%5.unsqueeze_1 dim=2 colon=1\n"
  "add %1.%5 %1.%5.mul %1.%5.slice_3\n";

/* CogVideoX's rotation of the video's tokens in place: name, of what */
static const char vram__video_turn[] =
  "slice @attn1.%1.slice %2 dim=0 colon=1\n"
  "slice @attn1.%1.slice_1 @attn1.%1.slice dim=1 colon=1\n"
  "slice @attn1.%1.slice_2 @attn1.%1.slice_1 dim=2 start=$S\n"
  "unsqueeze @attn1.%1.unsqueeze cos dim=0\n"
  "unsqueeze @attn1.%1.unsqueeze_1 @attn1.%1.unsqueeze dim=1\n"
  "slice @attn1.%1.slice_3 @attn1.%1.unsqueeze_1 dim=2 colon=1\n"
  "slice @attn1.%1.slice_4 @attn1.%1.slice_3 dim=3 colon=1\n"
  "unsqueeze @attn1.%1.unsqueeze_2 sin dim=0\n"
  "unsqueeze @attn1.%1.unsqueeze_3 @attn1.%1.unsqueeze_2 dim=1\n"
  "slice @attn1.%1.slice_5 @attn1.%1.unsqueeze_3 dim=2 colon=1\n"
  "slice @attn1.%1.slice_6 @attn1.%1.slice_5 dim=3 colon=1\n"
  "view @attn1.%1.cos @attn1.%1.slice_4 shape=[1,1,$p,$d]\n"
  "view @attn1.%1.sin @attn1.%1.slice_6 shape=[1,1,$p,$d]\n"
  "drop @attn1.%1.slice_4\n"
  "reshape @attn1.%1.reshape @attn1.%1.slice_2 shape=[N,$n,$p,$b,2]\n"
  "unbind @attn1.%1.unbind.0,@attn1.%1.unbind.1 @attn1.%1.reshape dim=-1\n"
  "neg @attn1.%1.neg @attn1.%1.unbind.1\n"
  "stack @attn1.%1.stack @attn1.%1.neg @attn1.%1.unbind.0 dim=-1\n"
  "flatten @attn1.%1.flatten @attn1.%1.stack start_dim=3\n"
  "to @attn1.%1.to @attn1.%1.slice_2 dtype=f32\n"
  "mul @attn1.%1.mul @attn1.%1.to @attn1.%1.cos\n"
  "to @attn1.%1.to_1 @attn1.%1.flatten dtype=f32\n"
  "mul @attn1.%1.mul_1 @attn1.%1.to_1 @attn1.%1.sin\n"
  "add @attn1.%1.add @attn1.%1.mul @attn1.%1.mul_1\n"
  "to @attn1.%1.to_2 @attn1.%1.add dtype=model\n"
  "drop @attn1.%1.slice_2 @attn1.%1.cos @attn1.%1.sin @attn1.%1.reshape @attn1.%1.unbind.0"
  " @attn1.%1.unbind.1 @attn1.%1.stack @attn1.%1.flatten\n"
  "slice @attn1.%1.slice_7 %2 dim=0 colon=1\n"
  "slice @attn1.%1.slice_8 @attn1.%1.slice_7 dim=1 colon=1\n"
  "slice @attn1.%1.slice_9 @attn1.%1.slice_8 dim=2 start=$S\n"
  "add @attn1.%1.turned @attn1.%1.slice_9 @attn1.%1.to_2 inplace=1\n";

static const vram__hf_part vram__video_parts[] = {
  {"video_rotate", vram__video_rotate, NULL}, {"video_projections", vram__video_projections, NULL},
  {"video_attend", vram__video_attend, NULL}, {"video_norm", vram__video_norm, NULL},
  {"video_rms", vram__video_rms, NULL},       {"video_scale", vram__video_scale, NULL},
  {"video_pairs", vram__video_pairs, NULL},   {"video_zero", vram__video_zero, NULL},
  {"video_shift", vram__video_shift, NULL},   {"video_turn", vram__video_turn, NULL}};

/* ---- WanTransformer3DModel ---- */

static const char vram__wan_rope[] =
  "input hidden_states model [N,$i,$F,$h,$w]\n"
  "input timestep i64 [N]\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "buffer rope.freqs_cos shape=[$m,$d]\n"
  "split rope.cos_t,rope.cos_h,rope.cos_w rope.freqs_cos split_size_or_sections=$t,$g,$g dim=1\n"
  "buffer rope.freqs_sin shape=[$m,$d]\n"
  "split rope.sin_t,rope.sin_h,rope.sin_w rope.freqs_sin split_size_or_sections=$t,$g,$g dim=1\n"
  "slice rope.slice rope.cos_t dim=0 end=$F\n"
  "view rope.view rope.slice shape=[$F,1,1,$t]\n"
  "expand rope.expand rope.view shape=[$F,$u,$v,$t]\n"
  "slice rope.slice_1 rope.cos_h dim=0 end=$u\n"
  "view rope.view_1 rope.slice_1 shape=[1,$u,1,$g]\n"
  "expand rope.expand_1 rope.view_1 shape=[$F,$u,$v,$g]\n"
  "slice rope.slice_2 rope.cos_w dim=0 end=$v\n"
  "view rope.view_2 rope.slice_2 shape=[1,1,$v,$g]\n"
  "expand rope.expand_2 rope.view_2 shape=[$F,$u,$v,$g]\n"
  "slice rope.slice_3 rope.sin_t dim=0 end=$F\n"
  "view rope.view_3 rope.slice_3 shape=[$F,1,1,$t]\n"
  "expand rope.expand_3 rope.view_3 shape=[$F,$u,$v,$t]\n"
  "slice rope.slice_4 rope.sin_h dim=0 end=$u\n"
  "view rope.view_4 rope.slice_4 shape=[1,$u,1,$g]\n"
  "expand rope.expand_4 rope.view_4 shape=[$F,$u,$v,$g]\n"
  "slice rope.slice_5 rope.sin_w dim=0 end=$v\n"
  "view rope.view_5 rope.slice_5 shape=[1,1,$v,$g]\n"
  "expand rope.expand_5 rope.view_5 shape=[$F,$u,$v,$g]\n"
  "cat rope.cat rope.expand rope.expand_1 rope.expand_2 dim=-1\n"
  "reshape rope.reshape rope.cat shape=[1,$p,1,$d]\n"
  "cat rope.cat_1 rope.expand_3 rope.expand_4 rope.expand_5 dim=-1\n"
  "reshape rope.reshape_1 rope.cat_1 shape=[1,$p,1,$d]\n"
  "drop rope.cos_t rope.cos_h rope.cos_w rope.sin_t rope.sin_h rope.sin_w rope.slice rope.view"
  " rope.expand rope.slice_1 rope.view_1 rope.expand_1 rope.slice_2 rope.view_2 rope.expand_2"
  " rope.slice_3 rope.view_3 rope.expand_3 rope.slice_4 rope.view_4 rope.expand_4 rope.slice_5"
  " rope.view_5 rope.expand_5\n";

static const char vram__wan_head[] =
  "conv3d patch_embedding hidden_states out_channels=$c kernel_size=1,2,2 stride=1,2,2\n"
  "flatten flatten patch_embedding start_dim=2\n"
  "transpose transpose flatten dim0=1 dim1=2\n"
  "contiguous contiguous transpose\n"
  "drop patch_embedding flatten\n"
  "<timesteps|condition_embedder.timesteps_proj|timestep|>"
  "to condition_embedder.to condition_embedder.timesteps_proj.cat_1 dtype=model\n"
  "<embedder|condition_embedder.time_embedder|condition_embedder.to|$c>"
  "type_as condition_embedder.type_as condition_embedder.time_embedder.linear_2"
  " encoder_hidden_states\n"
  "silu condition_embedder.act_fn condition_embedder.type_as\n"
  "linear condition_embedder.time_proj condition_embedder.act_fn out_features=$6\n"
  "linear condition_embedder.text_embedder.linear_1 encoder_hidden_states out_features=$c\n"
  "gelu condition_embedder.text_embedder.act_1 condition_embedder.text_embedder.linear_1"
  " approximate=tanh\n"
  "linear condition_embedder.text_embedder.linear_2 condition_embedder.text_embedder.act_1"
  " out_features=$c\n"
  "drop condition_embedder.to\n"
  "unflatten unflatten condition_embedder.time_proj dim=1 sizes=6,$c\n";

static const char vram__wan_self[] =
  "to @to unflatten dtype=f32\n"
  "parameter @scale_shift_table shape=[1,6,$c]\n"
  "add @add @scale_shift_table @to\n"
  "chunk @chunk.0,@chunk.1,@chunk.2,@chunk.3,@chunk.4,@chunk.5 @add chunks=6 dim=1\n"
  "to @to_1 %x dtype=f32\n"
  "<video_norm|@norm1|@to_1>"
  "add @add_1 @chunk.1 scalar=1\n"
  "mul @mul @norm1.to_1 @add_1\n"
  "add @add_2 @mul @chunk.0\n"
  "type_as @type_as @add_2 %x\n"
  "<video_projections|@attn1|@type_as|@type_as>"
  "unflatten @attn1.unflatten @attn1.norm_q dim=2 sizes=$n,$d\n"
  "unflatten @attn1.unflatten_1 @attn1.norm_k dim=2 sizes=$n,$d\n"
  "unflatten @attn1.unflatten_2 @attn1.to_v dim=2 sizes=$n,$d\n"
  "<video_rotate|query|@attn1.unflatten|@attn1.norm_q>"
  "<video_rotate|key|@attn1.unflatten_1|@attn1.norm_k>"
  "<video_attend|@attn1|@attn1.query|@attn1.key|@attn1.unflatten_2||"
  "type_as @attn1.to @attn1.flatten @attn1.query>"
  "drop @attn1.to_v @attn1.unflatten_2 @attn1.query @attn1.key\n"
  "to @to_2 %x dtype=f32\n"
  "mul @mul_1 @attn1.to_out.0 @chunk.2\n"
  "add @add_3 @to_2 @mul_1\n"
  "type_as @type_as_1 @add_3 %x\n";

static const char vram__wan_cross[] =
  "to @to_3 @type_as_1 dtype=f32\n"
  "to @norm2.to @to_3 dtype=f32\n"
  "parameter @norm2.weight shape=[$c]\n"
  "to @norm2.to_1 @norm2.weight dtype=f32\n"
  "parameter @norm2.bias shape=[$c]\n"
  "to @norm2.to_2 @norm2.bias dtype=f32\n"
  "layer_norm @norm2.layer_norm @norm2.to @norm2.to_1 @norm2.to_2 normalized_shape=$c\n"
  "to @norm2.to_3 @norm2.layer_norm dtype=f32\n"
  "drop @to_3\n"
  "type_as @type_as_2 @norm2.to_3 @type_as_1\n"
  "drop @type_as\n"
  "<video_projections|@attn2|@type_as_2|condition_embedder.text_embedder.linear_2>"
  "unflatten @attn2.unflatten @attn2.norm_q dim=2 sizes=$n,$d\n"
  "unflatten @attn2.unflatten_1 @attn2.norm_k dim=2 sizes=$n,$d\n"
  "unflatten @attn2.unflatten_2 @attn2.to_v dim=2 sizes=$n,$d\n"
  "<video_attend|@attn2|@attn2.unflatten|@attn2.unflatten_1|@attn2.unflatten_2||"
  "type_as @attn2.to @attn2.flatten @attn2.unflatten>"
  "drop @attn1.to_out.0 @attn2.to_v @attn2.norm_q @attn2.norm_k @attn2.unflatten"
  " @attn2.unflatten_1 @attn2.unflatten_2\n"
  "add @add_4 @type_as_1 @attn2.to_out.0\n"
  "to @to_4 @add_4 dtype=f32\n"
  "<video_norm|@norm3|@to_4>"
  "add @add_5 @chunk.4 scalar=1\n"
  "mul @mul_2 @norm3.to_1 @add_5\n"
  "add @add_6 @mul_2 @chunk.3\n"
  "type_as @type_as_3 @add_6 @add_4\n"
  "drop @type_as_2\n"
  "<gelu_mlp|@ffn|@type_as_3>"
  "to @to_5 @add_4 dtype=f32\n"
  "to @to_6 @ffn.net.2 dtype=f32\n"
  "mul @mul_3 @to_6 @chunk.5\n"
  "add @add_7 @to_5 @mul_3\n"
  "type_as @type_as_4 @add_7 @add_4\n"
  "drop %x @add @chunk.0 @chunk.1 @chunk.2 @chunk.3 @chunk.4 @chunk.5 @attn2.to_out.0 @type_as_3"
  " @ffn.net.2\n";

static const char vram__wan_end[] =
  "parameter scale_shift_table shape=[1,2,$c]\n"
  "order patch_embedding condition_embedder.time_embedder.linear_1"
  " condition_embedder.time_embedder.linear_2 condition_embedder.time_proj"
  " condition_embedder.text_embedder.linear_1 condition_embedder.text_embedder.linear_2";

static const char vram__wan_each[] =
  " @scale_shift_table @attn1.to_q @attn1.to_k @attn1.to_v @attn1.to_out.0 @attn1.norm_q"
  " @attn1.norm_k @attn2.to_q @attn2.to_k @attn2.to_v @attn2.to_out.0 @attn2.norm_q @attn2.norm_k"
  " @norm2.weight @norm2.bias @ffn.net.0.proj @ffn.net.2";

static const char vram__wan_out[] =
  "\n"
  "view to scale_shift_table shape=[1,2,$c]\n"
  "unsqueeze unsqueeze condition_embedder.type_as dim=1\n"
  "add add to unsqueeze\n"
  "chunk chunk.0,chunk.1 add chunks=2 dim=1\n"
  "view to_1 chunk.0 shape=[N,1,$c]\n"
  "view to_2 chunk.1 shape=[N,1,$c]\n"
  "drop add\n"
  "to to_3 %x dtype=f32\n"
  "<video_norm|norm_out|to_3>"
  "add add_1 to_2 scalar=1\n"
  "mul mul norm_out.to_1 add_1\n"
  "add add_2 mul to_1\n"
  "type_as type_as add_2 %x\n"
  "linear proj_out type_as out_features=$O\n"
  "reshape reshape proj_out shape=[N,$F,$u,$v,1,2,2,$o]\n"
  "permute permute reshape dims=0,7,1,4,2,5,3,6\n"
  "flatten flatten_1 permute start_dim=6 end_dim=7\n"
  "flatten flatten_2 flatten_1 start_dim=4 end_dim=5\n"
  "flatten flatten_3 flatten_2 start_dim=2 end_dim=3\n"
  "drop rope.cat rope.reshape rope.cat_1 rope.reshape_1 condition_embedder.type_as"
  " condition_embedder.time_proj condition_embedder.text_embedder.linear_2 unflatten to_1 to_2"
  " proj_out reshape permute\n"
  "output flatten_3\n";

/* ---- LTXVideoTransformer3DModel ---- */

static const char vram__ltx_rope[] =
  "input hidden_states model [N,$p,$i]\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "input timestep i64 [N]\n"
  "input encoder_attention_mask model [N,$S]\n"
  "arange rope.arange shape=[$h]\n"
  "arange rope.arange_1 shape=[$w]\n"
  "arange rope.arange_2 shape=[$F]\n"
  "view rope.view rope.arange_2 shape=[$F,1,1]\n"
  "expand rope.expand rope.view shape=[$F,$h,$w]\n"
  "view rope.view_1 rope.arange shape=[1,$h,1]\n"
  "expand rope.expand_1 rope.view_1 shape=[$F,$h,$w]\n"
  "view rope.view_2 rope.arange_1 shape=[1,1,$w]\n"
  "expand rope.expand_2 rope.view_2 shape=[$F,$h,$w]\n"
  "stack rope.stack rope.expand rope.expand_1 rope.expand_2\n"
  "unsqueeze rope.unsqueeze rope.stack dim=0\n"
  "repeat rope.repeat rope.unsqueeze repeats=N,1,1,1,1\n"
  "drop rope.stack\n"
  "<video_scale|0|end=1><video_scale|1|start=1 end=2><video_scale|2|start=2>"
  "flatten rope.flatten rope.repeat start_dim=2 end_dim=4\n"
  "transpose rope.transpose rope.flatten dim0=1 dim1=2\n"
  "drop rope.arange rope.arange_1 rope.arange_2\n"
  "empty rope.empty shape=[$q]\n"
  "rpow rope.pow rope.empty\n"
  "mul rope.mul_6 rope.pow scalar=1\n"
  "div rope.div_3 rope.mul_6 scalar=1\n"
  "drop rope.pow\n"
  "unsqueeze rope.unsqueeze_1 rope.transpose dim=-1\n"
  "mul rope.mul_7 rope.unsqueeze_1 scalar=1\n"
  "sub rope.sub rope.mul_7 scalar=1\n"
  "mul rope.mul_8 rope.div_3 rope.sub\n"
  "transpose rope.transpose_1 rope.mul_8 dim0=-1 dim1=-2\n"
  "flatten rope.flatten_1 rope.transpose_1 start_dim=2\n"
  "drop rope.mul_8\n"
  "cos rope.cos rope.flatten_1\n"
  "repeat_interleave rope.cosines rope.cos repeats=2 dim=-1\n"
  "sin rope.sin rope.flatten_1\n"
  "repeat_interleave rope.sines rope.sin repeats=2 dim=-1\n"
  "{Rslice rope.slice_12 rope.cosines dim=0 colon=1\n"
  "slice rope.slice_13 rope.slice_12 dim=1 colon=1\n"
  "slice rope.slice_14 rope.slice_13 dim=2 end=$l\n"
  "ones rope.ones rope.slice_14 shape=[N,$p,$l]\n"
  "slice rope.slice_15 rope.cosines dim=0 colon=1\n"
  "slice rope.slice_16 rope.slice_15 dim=1 colon=1\n"
  "slice rope.slice_17 rope.slice_16 dim=2 end=$l\n"
  "zeros rope.zeros rope.slice_17 shape=[N,$p,$l]\n"
  "cat rope.cos_all rope.ones rope.cosines dim=-1\n"
  "cat rope.sin_all rope.zeros rope.sines dim=-1\n}"
  "drop rope.repeat rope.flatten rope.transpose rope.flatten_1{R rope.ones}\n";

static const char vram__ltx_head[] =
  "to to encoder_attention_mask dtype=model\n"
  "mul rsub to scalar=1\n"
  "mul mul rsub scalar=1\n"
  "unsqueeze unsqueeze mul dim=1\n"
  "linear proj_in hidden_states out_features=$c\n"
  "flatten flatten timestep\n"
  "<timesteps|time_embed.emb.time_proj|timestep|>"
  "type_as time_embed.emb.to time_embed.emb.time_proj.cat_1 proj_in\n"
  "<embedder|time_embed.emb.timestep_embedder|time_embed.emb.to|$c>"
  "drop time_embed.emb.time_proj.cat_1 time_embed.emb.to\n"
  "silu time_embed.silu time_embed.emb.timestep_embedder.linear_2\n"
  "linear time_embed.linear time_embed.silu out_features=$6\n"
  "view view time_embed.linear shape=[N,1,$6]\n"
  "view view_1 time_embed.emb.timestep_embedder.linear_2 shape=[N,1,$c]\n"
  "linear caption_projection.linear_1 encoder_hidden_states out_features=$c\n"
  "gelu caption_projection.act_1 caption_projection.linear_1 approximate=tanh\n"
  "linear caption_projection.linear_2 caption_projection.act_1 out_features=$c\n"
  "view view_2 caption_projection.linear_2 shape=[N,$S,$c]\n";

static const char vram__ltx_self[] =
  "<video_rms|@norm1|%x|{ftype_as @norm1.to_1 @norm1.mul %x}"
  "{!fto @norm1.to_1 @norm1.mul dtype=model}>"
  "parameter @scale_shift_table shape=[6,$c]\n"
  "unsqueeze @unsqueeze @scale_shift_table dim=0\n"
  "unsqueeze @unsqueeze_1 @unsqueeze dim=1\n"
  "view @to @unsqueeze_1 shape=[1,1,6,$c]\n"
  "reshape @reshape view shape=[N,1,6,$c]\n"
  "add @add @to @reshape\n"
  "unbind @unbind.0,@unbind.1,@unbind.2,@unbind.3,@unbind.4,@unbind.5 @add dim=2\n"
  "add @add_1 @unbind.1 scalar=1\n"
  "mul @mul @norm1.to_1 @add_1\n"
  "add @add_2 @mul @unbind.0\n"
  "drop @norm1.to_1\n"
  "<video_projections|@attn1|@add_2|@add_2>"
  "<video_pairs|query|@attn1.norm_q>"
  "<video_pairs|key|@attn1.norm_k>"
  "unflatten @attn1.unflatten_2 @attn1.query dim=2 sizes=$n,$d\n"
  "unflatten @attn1.unflatten_3 @attn1.key dim=2 sizes=$n,$d\n"
  "unflatten @attn1.unflatten_4 @attn1.to_v dim=2 sizes=$n,$d\n"
  "<video_attend|@attn1|@attn1.unflatten_2|@attn1.unflatten_3|@attn1.unflatten_4||"
  "to @attn1.to @attn1.flatten dtype=model>"
  "drop @attn1.to_v @attn1.query @attn1.key @attn1.unflatten_2 @attn1.unflatten_3"
  " @attn1.unflatten_4\n"
  "mul @mul_1 @attn1.to_out.0 @unbind.2\n"
  "add @add_3 %x @mul_1\n";

static const char vram__ltx_cross[] =
  "repeat_interleave @attn2.repeat_interleave unsqueeze repeats=$n dim=0\n"
  "view @attn2.view @attn2.repeat_interleave shape=[N,$n,1,$S]\n"
  "<video_projections|@attn2|@add_3|view_2>"
  "unflatten @attn2.unflatten @attn2.norm_q dim=2 sizes=$n,$d\n"
  "unflatten @attn2.unflatten_1 @attn2.norm_k dim=2 sizes=$n,$d\n"
  "unflatten @attn2.unflatten_2 @attn2.to_v dim=2 sizes=$n,$d\n"
  "<video_attend|@attn2|@attn2.unflatten|@attn2.unflatten_1|@attn2.unflatten_2| @attn2.view|"
  "to @attn2.to @attn2.flatten dtype=model>"
  "drop @attn1.to_out.0 @attn2.repeat_interleave @attn2.view @attn2.to_v @attn2.norm_q @attn2.norm_k"
  " @attn2.unflatten @attn2.unflatten_1 @attn2.unflatten_2\n"
  "add @add_4 @add_3 @attn2.to_out.0\n"
  "<video_rms|@norm2|@add_4|to @norm2.to_1 @norm2.mul dtype=model>"
  "add @add_5 @unbind.4 scalar=1\n"
  "mul @mul_2 @norm2.to_1 @add_5\n"
  "add @add_6 @mul_2 @unbind.3\n"
  "drop @add_2\n"
  "<gelu_mlp|@ff|@add_6>"
  "mul @mul_3 @ff.net.2 @unbind.5\n"
  "add @add_7 @add_4 @mul_3\n"
  "drop %x @add @unbind.0 @unbind.1 @unbind.2 @unbind.3 @unbind.4 @unbind.5 @attn2.to_out.0 @add_6"
  " @ff.net.2\n";

static const char vram__ltx_end[] =
  "parameter scale_shift_table shape=[2,$c]\n"
  "order proj_in time_embed.emb.timestep_embedder.linear_1"
  " time_embed.emb.timestep_embedder.linear_2 time_embed.linear caption_projection.linear_1"
  " caption_projection.linear_2";

static const char vram__ltx_each[] =
  " @scale_shift_table @attn1.norm_q @attn1.norm_k @attn1.to_q @attn1.to_k @attn1.to_v"
  " @attn1.to_out.0 @attn2.norm_q @attn2.norm_k @attn2.to_q @attn2.to_k @attn2.to_v @attn2.to_out.0"
  " @ff.net.0.proj @ff.net.2";

static const char vram__ltx_out[] =
  "\n"
  "unsqueeze unsqueeze_1 scale_shift_table dim=0\n"
  "unsqueeze unsqueeze_2 unsqueeze_1 dim=1\n"
  "slice slice view_1 dim=0 colon=1\n"
  "slice slice_1 slice dim=1 colon=1\n"
  "unsqueeze unsqueeze_3 slice_1 dim=2\n"
  "add add unsqueeze_2 unsqueeze_3\n"
  "slice slice_2 add dim=0 colon=1\n"
  "slice slice_3 slice_2 dim=1 colon=1\n"
  "select select slice_3 dim=2 index=0\n"
  "slice slice_4 add dim=0 colon=1\n"
  "slice slice_5 slice_4 dim=1 colon=1\n"
  "select select_1 slice_5 dim=2 index=1\n"
  "layer_norm norm_out %x normalized_shape=$c elementwise_affine=0\n"
  "add add_1 select_1 scalar=1\n"
  "mul mul_1 norm_out add_1\n"
  "add add_2 mul_1 select\n"
  "drop norm_out\n"
  "linear proj_out add_2 out_features=$o\n"
  "drop %a %b mul unsqueeze"
  " time_embed.emb.timestep_embedder.linear_2 time_embed.linear view view_1"
  " caption_projection.linear_2 view_2 add select select_1\n"
  "output proj_out\n";

/* ---- CogVideoXTransformer3DModel ---- */

static const char vram__cog_head[] =
  "input hidden_states model [N,$F,$i,$h,$w]\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "input timestep i64 [N]\n"
  "{Rinput cos model [$p,$d]\n"
  "input sin model [$p,$d]\n}"
  "<timesteps|time_proj|timestep|>"
  "to to time_proj.cat_1 dtype=model\n"
  "<embedder|time_embedding|to|$x>"
  "linear patch_embed.text_proj encoder_hidden_states out_features=$c\n"
  "reshape patch_embed.reshape hidden_states shape=[N*$F,$i,$h,$w]\n"
  "conv2d patch_embed.proj patch_embed.reshape out_channels=$c kernel_size=$P stride=$P\n"
  "order patch_embed.text_proj time_embedding.linear_1 time_embedding.linear_2\n"
  "view patch_embed.view patch_embed.proj shape=[N,$F,$c,$u,$v]\n"
  "flatten patch_embed.flatten patch_embed.view start_dim=3\n"
  "transpose patch_embed.transpose patch_embed.flatten dim0=2 dim1=3\n"
  "flatten patch_embed.flatten_1 patch_embed.transpose start_dim=1 end_dim=2\n"
  "drop patch_embed.proj patch_embed.view patch_embed.flatten\n"
  "cat patch_embed.cat patch_embed.text_proj patch_embed.flatten_1 dim=1\n"
  "contiguous patch_embed.contiguous patch_embed.cat\n"
  "{!Rbuffer patch_embed.pos_embedding shape=[1,$t,$c] dtype=f64\n"
  "type_as patch_embed.to patch_embed.pos_embedding patch_embed.contiguous\n"
  "add patch_embed.add patch_embed.contiguous patch_embed.to\n}"
  "drop patch_embed.text_proj patch_embed.flatten_1\n"
  "slice slice %z dim=0 colon=1\n"
  "slice slice_1 slice dim=1 end=$S\n"
  "slice slice_2 %z dim=0 colon=1\n"
  "slice slice_3 slice_2 dim=1 start=$S\n";

static const char vram__cog_norm[] =
  "<video_zero|@norm1|%x|%y>"
  "drop @norm1.chunk.0 @norm1.chunk.1 @norm1.chunk.3 @norm1.chunk.4\n"
  "cat @attn1.cat @norm1.text @norm1.video dim=1\n"
  "<three_linear|@attn1|to_q|to_k|to_v|@attn1.cat>"
  "<stream_heads|@attn1|to_q|to_k|to_v|$t|>"
  "layer_norm @attn1.norm_q @attn1.transpose normalized_shape=$d\n"
  "drop @attn1.to_q @attn1.view\n"
  "layer_norm @attn1.norm_k @attn1.transpose_1 normalized_shape=$d\n"
  "order @attn1.to_q @attn1.to_k @attn1.to_v\n"
  "drop @attn1.to_k @attn1.view_1\n"
  "{R<video_turn|query|@attn1.norm_q><video_turn|key|@attn1.norm_k>}";

static const char vram__cog_attend[] =
  "scaled_dot_product_attention @attn1.sdpa @attn1.norm_q @attn1.norm_k @attn1.transpose_2\n"
  "drop @attn1.cat\n"
  "transpose @attn1.transpose_3 @attn1.sdpa dim0=1 dim1=2\n"
  "reshape @attn1.reshape @attn1.transpose_3 shape=[N,$t,$c]\n"
  "drop @attn1.sdpa\n"
  "linear @attn1.to_out.0 @attn1.reshape out_features=$c\n"
  "split @attn1.split.0,@attn1.split.1 @attn1.to_out.0 split_size_or_sections=$S,$p dim=1\n"
  "drop @attn1.to_v @attn1.view_2 @attn1.transpose_2 @attn1.norm_q @attn1.norm_k\n"
  "mul @mul @norm1.gate @attn1.split.1\n"
  "add @add %x @mul\n"
  "mul @mul_1 @norm1.text_gate @attn1.split.0\n"
  "add @add_1 %y @mul_1\n"
  "<video_zero|@norm2|@add|@add_1>"
  "drop @norm1.video @norm1.text @norm2.chunk.0 @norm2.chunk.1 @norm2.chunk.3 @norm2.chunk.4\n"
  "cat @cat @norm2.text @norm2.video dim=1\n"
  "<gelu_mlp|@ff|@cat>"
  "slice @slice @ff.net.2 dim=0 colon=1\n"
  "slice @slice_1 @slice dim=1 start=$S\n"
  "mul @mul_2 @norm2.gate @slice_1\n"
  "add @add_2 @add @mul_2\n"
  "slice @slice_2 @ff.net.2 dim=0 colon=1\n"
  "slice @slice_3 @slice_2 dim=1 end=$S\n"
  "mul @mul_3 @norm2.text_gate @slice_3\n"
  "add @add_3 @add_1 @mul_3\n"
  "drop{f %z %y %x}{!f %x %y} @norm1.linear @norm1.chunk.2 @norm1.chunk.5"
  " @norm1.gate @norm1.text_gate @attn1.to_out.0 @attn1.split.0 @attn1.split.1 @norm2.linear"
  " @norm2.chunk.2 @norm2.chunk.5 @norm2.text @norm2.gate @norm2.text_gate @cat @ff.net.2\n";

static const char vram__cog_end[] =
  "layer_norm norm_final %x normalized_shape=$c\n"
  "silu norm_out.silu %e\n"
  "linear norm_out.linear norm_out.silu out_features=$2\n"
  "chunk norm_out.chunk.0,norm_out.chunk.1 norm_out.linear chunks=2 dim=1\n"
  "slice norm_out.slice norm_out.chunk.0 dim=0 colon=1\n"
  "unsqueeze norm_out.unsqueeze norm_out.slice dim=1\n"
  "slice norm_out.slice_1 norm_out.unsqueeze dim=2 colon=1\n"
  "slice norm_out.slice_2 norm_out.chunk.1 dim=0 colon=1\n"
  "unsqueeze norm_out.unsqueeze_1 norm_out.slice_2 dim=1\n"
  "slice norm_out.slice_3 norm_out.unsqueeze_1 dim=2 colon=1\n"
  "layer_norm norm_out.norm norm_final normalized_shape=$c\n"
  "add norm_out.add norm_out.slice_3 scalar=1\n"
  "mul norm_out.mul norm_out.norm norm_out.add\n"
  "add norm_out.add_1 norm_out.mul norm_out.slice_1\n"
  "drop norm_final norm_out.linear norm_out.chunk.0 norm_out.chunk.1 norm_out.slice_3\n"
  "linear proj_out norm_out.add_1 out_features=$O\n"
  "reshape reshape proj_out shape=[N,$F,$u,$v,$o,$P,$P]\n"
  "permute permute reshape dims=0,1,4,2,5,3,6\n"
  "flatten flatten permute start_dim=5 end_dim=6\n"
  "flatten flatten_1 flatten start_dim=3 end_dim=4\n"
  "drop to %e %y proj_out reshape\n"
  "output flatten_1\n";

/* clang-format on */

/* ---- classes ---- */

/* Wan: positions of the three axes are two parts of a head and what is left. */
static void vram__wan_begin(vram__hf_pen *w) {
  const vram_file_value *const norm = vram__hf_word(w, "qk_norm");
  const uint64_t d = *vram__hf_number_of(w, 'd');
  if ((norm && !vram__hf_is_word(norm, "rms_norm_across_heads")) ||
      !vram__hf_bool(&w->h, "cross_attn_norm", 1))
    vram__hf_refuse(w,
                    "a setting whose lines are not known: ", norm ? "qk_norm" : "cross_attn_norm");
  if (vram__diffusers_each(w, "patch_size", 0, 1) != 1 ||
      vram__diffusers_each(w, "patch_size", 1, 2) != 2 ||
      vram__diffusers_each(w, "patch_size", 2, 2) != 2)
    vram__hf_refuse(w, "a setting whose lines are not known: ", "patch_size");
  if (d < 6)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "heads without three axes: ", "attention_head_dim");
  vram__diffusers_number(w, 'g', d / 6 * 2);
  vram__diffusers_number(w, 't', d - d / 6 * 4);
  if (*vram__hf_number_of(w, 'F') > *vram__hf_number_of(w, 'm') ||
      *vram__hf_number_of(w, 'u') > *vram__hf_number_of(w, 'm') ||
      *vram__hf_number_of(w, 'v') > *vram__hf_number_of(w, 'm'))
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "more positions than ", "rope_max_seq_len");
}

/* LTX: a sixth of the width has angles of each axis; what is left over is not turned. */
static void vram__ltx_begin(vram__hf_pen *w) {
  const uint64_t c = *vram__hf_number_of(w, 'c');
  vram__diffusers_number(w, 'q', c / 6);
  vram__diffusers_number(w, 'l', c % 6);
  vram__diffusers_flag(w, 'R', c % 6 != 0);
  vram__hf_set(w, 'a', c % 6 ? "rope.cos_all" : "rope.cosines");
  vram__hf_set(w, 'b', c % 6 ? "rope.sin_all" : "rope.sines");
  if (c < 6)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "heads without three axes: ", "attention_head_dim");
  if (vram__hf_number(&w->h, "cross_attention_dim", 2048) != c)
    vram__hf_refuse(w, "a setting whose lines are not known: ", "cross_attention_dim");
}

/* CogVideoX: angles are given to it (5B), or positions lie in a buffer (2B), of one size of videos.
 */
static void vram__cog_begin(vram__hf_pen *w) {
  const int turns = *vram__hf_flag_of(w, 'R');
  const uint64_t frames = vram__hf_number(&w->h, "sample_frames", 49),
                 each = vram__hf_number(&w->h, "temporal_compression_ratio", 4);
  vram__hf_set(w, 'z', turns ? "patch_embed.contiguous" : "patch_embed.add");
  if (turns)
    return;
  if (*vram__hf_number_of(w, 'h') != vram__hf_number(&w->h, "sample_height", 60) ||
      *vram__hf_number_of(w, 'w') != vram__hf_number(&w->h, "sample_width", 90) || !each ||
      *vram__hf_number_of(w, 'F') != (frames - 1) / each + 1 ||
      *vram__hf_number_of(w, 'S') != vram__hf_number(&w->h, "max_text_seq_length", 226))
    vram__hf_refuse(w, "its lines are known of videos of its own size: ", "sample_height");
}

static const vram__denoiser_row vram__video_rows[] = {
    {"WanTransformer3DModel",
     "",
     "i=in_channels:16 o=out_channels:16 d=attention_head_dim:128 n=num_attention_heads:40 "
     "k=text_dim:4096 r=freq_dim:256 r=r/2 f=ffn_dim:13824 m=rope_max_seq_len:1024 S~512 F~21 h~60 "
     "w~104 P~2 u=h/P v=w/P p=F*u*v c=n*d 2=c*2 6=c*6 b=d/2 O=o*4",
     "image_dim= added_kv_proj_dim= pos_embed_seq_len=",
     vram__wan_begin,
     NULL,
     {vram__wan_rope, vram__wan_head},
     "contiguous",
     "",
     "",
     {{"blocks.$Y.",
       "num_layers",
       40,
       {vram__wan_self, vram__wan_cross, NULL, NULL},
       "@type_as_4",
       "",
       ""},
      {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},
     vram__wan_end,
     vram__wan_each,
     vram__wan_out},
    {"LTXVideoTransformer3DModel",
     "",
     "i=in_channels:128 o=out_channels:i d=attention_head_dim:64 n=num_attention_heads:32 "
     "k=caption_channels:4096 S~128 F~21 h~16 w~22 p=F*h*w c=n*d 2=c*2 6=c*6 f=c*4 b=c/2 r=128",
     "patch_size=1 patch_size_t=1 activation_fn=gelu-approximate qk_norm=rms_norm_across_heads "
     "norm_elementwise_affine=",
     vram__ltx_begin,
     NULL,
     {vram__ltx_rope, vram__ltx_head},
     "proj_in",
     "",
     "",
     {{"transformer_blocks.$Y.",
       "num_layers",
       28,
       {vram__ltx_self, vram__ltx_cross, NULL, NULL},
       "@add_7",
       "",
       ""},
      {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},
     vram__ltx_end,
     vram__ltx_each,
     vram__ltx_out},
    {"CogVideoXTransformer3DModel",
     "",
     "i=in_channels:16 o=out_channels:i d=attention_head_dim:64 n=num_attention_heads:30 "
     "k=text_embed_dim:4096 x=time_embed_dim:512 P=patch_size:2 "
     "?R=use_rotary_positional_embeddings:0 S~max_text_seq_length:226 F~13 h~sample_height:60 "
     "w~sample_width:90 u=h/P v=w/P p=F*u*v t=S+p c=n*d 2=c*2 6=c*6 f=c*4 b=d/2 r=c/2 O=P*P*o",
     "ofs_embed_dim= patch_size_t= use_learned_positional_embeddings= timestep_activation_fn=silu "
     "activation_fn=gelu-approximate",
     vram__cog_begin,
     NULL,
     {vram__cog_head, NULL},
     "slice_3",
     "slice_1",
     "time_embedding.linear_2",
     {{"transformer_blocks.$Y.",
       "num_layers",
       30,
       {vram__cog_norm, vram__cog_attend, NULL, NULL},
       "@add_2",
       "@add_3",
       ""},
      {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},
     vram__cog_end,
     NULL,
     NULL}};

VRAM__FN vram__hf_book vram__hf_videos(void) {
  vram__hf_book b;
  b.part = vram__video_parts;
  b.parts = sizeof vram__video_parts / sizeof *vram__video_parts;
  b.row = NULL;
  b.rows = 0;
  return b;
}

VRAM__FN const vram__denoiser_row *vram__video_row(uint32_t i) {
  return i < sizeof vram__video_rows / sizeof *vram__video_rows ? vram__video_rows + i : NULL;
}
