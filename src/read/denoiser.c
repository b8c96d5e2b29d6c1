/* >>read/denoiser    transformers of diffusers and their text encoders as a model in the text form:
   a row for each class, with what its config.json calls its numbers, and its lines: as diffusers
   0.42 and transformers 5.23 run under torch 2.15 in eval mode (models/transformers,
   embeddings.py, normalization.py, attention.py, attention_processor.py; transformers/models/t5).
 */
#include "read/read.h"

/* What is put in, beside what hf_pen.c and diffusers.c say of it: numbers as the row of a class
   names them (h and w are sizes of the latents, S tokens of the text, f what a feed-forward gives,
   2, 3, 6, 9 so many times the width); %x the image, %y the text, %e the embedding of the timestep;
   {l...} in the last block only. */

/* clang-format off */

/* ---- parts ---- */

/* Timesteps with flip_sin_to_cos: path, of what, what else is let go of */
static const char vram__denoiser_time[] =
  "arange %1.arange shape=[$r]\n"
  "mul %1.mul %1.arange scalar=1\n"
  "div %1.div %1.mul scalar=1\n"
  "exp %1.exp %1.div\n"
  "slice %1.slice %2 dim=0 colon=1\n"
  "unsqueeze %1.unsqueeze %1.slice dim=1\n"
  "to %1.to %1.unsqueeze dtype=f32\n"
  "unsqueeze %1.unsqueeze_1 %1.exp dim=0\n"
  "slice %1.slice_1 %1.unsqueeze_1 dim=1 colon=1\n"
  "mul %1.mul_1 %1.to %1.slice_1\n"
  "drop %1.exp\n"
  "mul %1.mul_2 %1.mul_1 scalar=1\n"
  "sin %1.sin %1.mul_2\n"
  "cos %1.cos %1.mul_2\n"
  "cat %1.cat %1.sin %1.cos dim=-1\n"
  "drop %1.mul_2\n"
  "slice %1.slice_2 %1.cat dim=0 colon=1\n"
  "slice %1.slice_3 %1.slice_2 dim=1 start=$r\n"
  "slice %1.slice_4 %1.cat dim=0 colon=1\n"
  "slice %1.slice_5 %1.slice_4 dim=1 end=$r\n"
  "cat %1.cat_1 %1.slice_3 %1.slice_5 dim=-1\n"
  "drop%3 %1.div %1.cat\n";

/* TimestepEmbedding: path, of what, width */
static const char vram__denoiser_embedder[] =
  "linear %1.linear_1 %2 out_features=%3\n"
  "silu %1.act %1.linear_1\n"
  "linear %1.linear_2 %1.act out_features=%3\n";

/* AdaLayerNormZero up to its result: path, of what, chunks, width of all, names of more chunks */
static const char vram__denoiser_zero[] =
  "silu %1.silu %e\n"
  "linear %1.linear %1.silu out_features=%4\n"
  "chunk %1.chunk.0,%1.chunk.1,%1.chunk.2%5 %1.linear chunks=%3 dim=1\n"
  "layer_norm %1.norm %2 normalized_shape=$c elementwise_affine=0\n"
  "slice %1.slice %1.chunk.1 dim=0 colon=1\n"
  "unsqueeze %1.unsqueeze %1.slice dim=1\n"
  "add %1.add %1.unsqueeze scalar=1\n"
  "mul %1.mul %1.norm %1.add\n"
  "slice %1.slice_1 %1.chunk.0 dim=0 colon=1\n"
  "unsqueeze %1.unsqueeze_1 %1.slice_1 dim=1\n"
  "add %1.add_1 %1.mul %1.unsqueeze_1\n";

/* AdaLayerNormContinuous: path, of what, what it lets go of */
static const char vram__denoiser_continuous[] =
  "silu %1.silu %e\n"
  "type_as %1.to %1.silu %2\n"
  "linear %1.linear %1.to out_features=$2\n"
  "chunk %1.chunk.0,%1.chunk.1 %1.linear chunks=2 dim=1\n"
  "layer_norm %1.norm %2 normalized_shape=$c elementwise_affine=0\n"
  "add %1.add %1.chunk.0 scalar=1\n"
  "slice %1.slice %1.add dim=0 colon=1\n"
  "unsqueeze %1.unsqueeze %1.slice dim=1\n"
  "slice %1.slice_1 %1.unsqueeze dim=2 colon=1\n"
  "mul %1.mul %1.norm %1.slice_1\n"
  "drop %1.add\n"
  "slice %1.slice_2 %1.chunk.1 dim=0 colon=1\n"
  "unsqueeze %1.unsqueeze_1 %1.slice_2 dim=1\n"
  "slice %1.slice_3 %1.unsqueeze_1 dim=2 colon=1\n"
  "add %1.add_1 %1.mul %1.slice_3\n"
  "drop%3 %1.linear %1.chunk.0 %1.chunk.1\n";

/* What RMSNorms begin with: path, of what */
static const char vram__denoiser_mean_square[] =
  "to %1.to %2 dtype=f32\n"
  "pow %1.pow %1.to scalar=1\n"
  "mean %1.mean %1.pow dim=-1 keepdim=1\n"
  "add %1.add %1.mean scalar=1\n"
  "rsqrt %1.rsqrt %1.add\n"
  "mul %1.mul %2 %1.rsqrt\n";

/* RMSNorm of diffusers: path, of what, size, what is let go of, a line before its end */
static const char vram__denoiser_rms[] =
  "<mean_square|%1|%2>"
  "to %1.to_1 %1.mul dtype=model\n"
  "parameter %1.weight shape=[%3]\n"
  "%5"
  "mul %1.mul_1 %1.to_1 %1.weight\n"
  "drop%4 %1.mean\n";

/* T5LayerNorm: path, of what */
static const char vram__denoiser_t5_norm[] =
  "<mean_square|%1|%2>"
  "to %1.to_1 %1.mul dtype=model\n"
  "parameter %1.weight shape=[$c]\n"
  "mul %1.mul_1 %1.weight %1.to_1\n";

/* Three linear layers: path, names, of what */
static const char vram__denoiser_three[] =
  "linear %1.%2 %5 out_features=$c\n"
  "linear %1.%3 %5 out_features=$c\n"
  "linear %1.%4 %5 out_features=$c\n";

/* Heads of queries, keys and values, behind each other: path, names of the layers, tokens, what
   the names of the heads begin with */
static const char vram__denoiser_heads[] =
  "view %1.%6view %1.%2 shape=[N,%5,$n,$d]\n"
  "transpose %1.%6transpose %1.%6view dim0=1 dim1=2\n"
  "view %1.%6view_1 %1.%3 shape=[N,%5,$n,$d]\n"
  "transpose %1.%6transpose_1 %1.%6view_1 dim0=1 dim1=2\n"
  "view %1.%6view_2 %1.%4 shape=[N,%5,$n,$d]\n"
  "transpose %1.%6transpose_2 %1.%6view_2 dim0=1 dim1=2\n";

/* Attention of a BasicTransformerBlock: path, of what, keys of what, their tokens, a mask */
static const char vram__denoiser_basic[] =
  "linear %1.to_q %2 out_features=$c\n"
  "linear %1.to_k %3 out_features=$c\n"
  "linear %1.to_v %3 out_features=$c\n"
  "view %1.view_q %1.to_q shape=[N,$p,$n,$d]\n"
  "transpose %1.transpose %1.view_q dim0=1 dim1=2\n"
  "view %1.view_k %1.to_k shape=[N,%4,$n,$d]\n"
  "transpose %1.transpose_1 %1.view_k dim0=1 dim1=2\n"
  "view %1.view_v %1.to_v shape=[N,%4,$n,$d]\n"
  "transpose %1.transpose_2 %1.view_v dim0=1 dim1=2\n"
  "scaled_dot_product_attention %1.sdpa %1.transpose %1.transpose_1 %1.transpose_2%5\n"
  "transpose %1.transpose_3 %1.sdpa dim0=1 dim1=2\n"
  "reshape %1.reshape %1.transpose_3 shape=[N,$p,$c]\n"
  "drop %1.sdpa\n"
  "type_as %1.to %1.reshape %1.transpose\n"
  "linear %1.to_out.0 %1.to out_features=$c\n"
  "div %1.div %1.to_out.0 scalar=1\n";

static const char vram__denoiser_basic_end[] =
  " %1.to_q %1.to_k %1.to_v %1.view_q %1.transpose %1.view_k %1.transpose_1 %1.view_v"
  " %1.transpose_2\n";

/* A norm with scale and shift of AdaLayerNormZero: norm, of what, the first norm, what the names
   begin with */
static const char vram__denoiser_modulate[] =
  "layer_norm %1 %2 normalized_shape=$c elementwise_affine=0\n"
  "drop %3.add_1\n"
  "slice %4slice %3.chunk.4 dim=0 colon=1\n"
  "unsqueeze %4unsqueeze_1 %4slice dim=1\n"
  "add %4add_1 %4unsqueeze_1 scalar=1\n"
  "mul %4mul_1 %1 %4add_1\n"
  "slice %4slice_1 %3.chunk.3 dim=0 colon=1\n"
  "unsqueeze %4unsqueeze_2 %4slice_1 dim=1\n"
  "add %4add_2 %4mul_1 %4unsqueeze_2\n"
  "drop %1\n";

/* FeedForward, gelu-approximate: path, of what */
static const char vram__denoiser_forward[] =
  "linear %1.net.0.proj %2 out_features=$f\n"
  "gelu %1.net.0.gelu %1.net.0.proj approximate=tanh\n"
  "linear %1.net.2 %1.net.0.gelu out_features=$c\n";

/* Heads with an RMSNorm, rotated by pairs (apply_rotary_emb): name of the result, of what */
static const char vram__denoiser_rotate[] =
  "unsqueeze @attn.%1.unsqueeze pos_embed.to_7 dim=0\n"
  "slice @attn.%1.slice @attn.%1.unsqueeze dim=1 colon=1\n"
  "unsqueeze @attn.%1.unsqueeze_1 @attn.%1.slice dim=2\n"
  "slice @attn.%1.slice_1 @attn.%1.unsqueeze_1 dim=3 colon=1\n"
  "unsqueeze @attn.%1.unsqueeze_2 pos_embed.to_8 dim=0\n"
  "slice @attn.%1.slice_2 @attn.%1.unsqueeze_2 dim=1 colon=1\n"
  "unsqueeze @attn.%1.unsqueeze_3 @attn.%1.slice_2 dim=2\n"
  "slice @attn.%1.slice_3 @attn.%1.unsqueeze_3 dim=3 colon=1\n"
  "view @attn.%1.cos @attn.%1.slice_1 shape=[1,$t,1,$d]\n"
  "view @attn.%1.sin @attn.%1.slice_3 shape=[1,$t,1,$d]\n"
  "drop @attn.%1.slice_1\n"
  "reshape @attn.%1.reshape %2 shape=[N,$t,$n,$b,2]\n"
  "unbind @attn.%1.unbind.0,@attn.%1.unbind.1 @attn.%1.reshape dim=-1\n"
  "neg @attn.%1.neg @attn.%1.unbind.1\n"
  "stack @attn.%1.stack @attn.%1.neg @attn.%1.unbind.0 dim=-1\n"
  "flatten @attn.%1.flatten @attn.%1.stack start_dim=3\n"
  "to @attn.%1.to %2 dtype=f32\n"
  "mul @attn.%1.mul @attn.%1.to @attn.%1.cos\n"
  "to @attn.%1.to_1 @attn.%1.flatten dtype=f32\n"
  "mul @attn.%1.mul_1 @attn.%1.to_1 @attn.%1.sin\n"
  "add @attn.%1.add @attn.%1.mul @attn.%1.mul_1\n"
  "to @attn.%1 @attn.%1.add dtype=model\n"
  "drop %2 @attn.%1.cos @attn.%1.sin @attn.%1.reshape @attn.%1.unbind.0 @attn.%1.unbind.1"
  " @attn.%1.stack @attn.%1.flatten\n";

/* Heads rotated as complex numbers: name of the result, of what, tokens, angles */
static const char vram__denoiser_complex[] =
  "to @attn.%1.to %2 dtype=f32\n"
  "reshape @attn.%1.reshape @attn.%1.to shape=[N,%3,$n,$b,2]\n"
  "view_as_complex @attn.%1.complex @attn.%1.reshape\n"
  "unsqueeze @attn.%1.unsqueeze %4 dim=1\n"
  "mul @attn.%1.mul @attn.%1.complex @attn.%1.unsqueeze\n"
  "view_as_real @attn.%1.real @attn.%1.mul\n"
  "flatten @attn.%1.flatten @attn.%1.real start_dim=3\n"
  "type_as @attn.%1 @attn.%1.flatten %2\n"
  "drop @attn.%1.to @attn.%1.reshape @attn.%1.complex @attn.%1.unsqueeze @attn.%1.mul"
  " @attn.%1.real\n";

/* Angles of one axis (get_1d_rotary_pos_embed in f64): number, half of its width */
static const char vram__denoiser_axis[] =
  "slice pos_embed.slice_%1 pos_embed.to dim=0 colon=1\n"
  "select pos_embed.select_%1 pos_embed.slice_%1 dim=1 index=%1\n"
  "arange pos_embed.arange_%1 shape=[%2] dtype=f64\n"
  "div pos_embed.div_%1 pos_embed.arange_%1 scalar=1\n"
  "rpow pos_embed.pow_%1 pos_embed.div_%1\n"
  "reciprocal pos_embed.reciprocal_%1 pos_embed.pow_%1\n"
  "mul pos_embed.scaled_%1 pos_embed.reciprocal_%1 scalar=1\n"
  "drop pos_embed.pow_%1\n"
  "div pos_embed.freqs_%1 pos_embed.scaled_%1 scalar=1\n"
  "view pos_embed.view_%1 pos_embed.select_%1 shape=[$t,1]\n"
  "mul pos_embed.outer_%1 pos_embed.view_%1 pos_embed.freqs_%1\n"
  "cos pos_embed.cos_%1 pos_embed.outer_%1\n"
  "repeat_interleave pos_embed.cosines_%1 pos_embed.cos_%1 repeats=2 dim=1\n"
  "to pos_embed.to_cos_%1 pos_embed.cosines_%1 dtype=f32\n"
  "sin pos_embed.sin_%1 pos_embed.outer_%1\n"
  "repeat_interleave pos_embed.sines_%1 pos_embed.sin_%1 repeats=2 dim=1\n"
  "to pos_embed.to_sin_%1 pos_embed.sines_%1 dtype=f32\n"
  "drop pos_embed.select_%1 pos_embed.outer_%1\n";

/* One half of get_2d_sincos_pos_embed: number */
static const char vram__denoiser_sincos[] =
  "select pos_embed.select_%1 pos_embed.grid dim=0 index=%1\n"
  "arange pos_embed.omega_%1 shape=[$q] dtype=f64\n"
  "div pos_embed.omega_div_%1 pos_embed.omega_%1 inplace=1 scalar=1\n"
  "rpow pos_embed.pow_%1 pos_embed.omega_div_%1\n"
  "reciprocal pos_embed.reciprocal_%1 pos_embed.pow_%1\n"
  "mul pos_embed.scaled_%1 pos_embed.reciprocal_%1 scalar=1\n"
  "drop pos_embed.omega_%1 pos_embed.omega_div_%1 pos_embed.pow_%1\n"
  "reshape pos_embed.row_%1 pos_embed.select_%1 shape=[$p]\n"
  "view pos_embed.column_%1 pos_embed.row_%1 shape=[$p,1]\n"
  "mul pos_embed.outer_%1 pos_embed.column_%1 pos_embed.scaled_%1\n"
  "sin pos_embed.sin_%1 pos_embed.outer_%1\n"
  "cos pos_embed.cos_%1 pos_embed.outer_%1\n"
  "cat pos_embed.cat_%1 pos_embed.sin_%1 pos_embed.cos_%1 dim=1\n"
  "drop pos_embed.select_%1 pos_embed.scaled_%1 pos_embed.row_%1 pos_embed.outer_%1\n";

/* Patches of an image */
static const char vram__denoiser_patches[] =
  "conv2d pos_embed.proj hidden_states out_channels=$c kernel_size=$P stride=$P\n"
  "flatten pos_embed.flatten pos_embed.proj start_dim=2\n"
  "transpose pos_embed.transpose pos_embed.flatten dim0=1 dim1=2\n";

/* Patches put together again: of what */
static const char vram__denoiser_image[] =
  "reshape image.reshape %1 shape=[N,$u,$v,$P,$P,$o]\n"
  "einsum einsum image.reshape equation=nhwpqc->nchpwq\n"
  "reshape image einsum shape=[N,$o,$h,$w]\n";

/* A norm, its shift, scale and gate: path, of what, chunk of three */
static const char vram__denoiser_shift[] =
  "layer_norm %1 %2 normalized_shape=$c elementwise_affine=0\n"
  "chunk %1.chunk.0,%1.chunk.1,%1.chunk.2 %3 chunks=3 dim=-1\n"
  "unsqueeze %1.unsqueeze %1.chunk.0 dim=1\n"
  "unsqueeze %1.unsqueeze_1 %1.chunk.1 dim=1\n"
  "unsqueeze %1.unsqueeze_2 %1.chunk.2 dim=1\n"
  "add %1.add %1.unsqueeze_1 scalar=1\n"
  "mul %1.mul %1 %1.add\n"
  "add %1.add_1 %1.mul %1.unsqueeze\n"
  "drop %1.chunk.0 %1.chunk.1 %1.unsqueeze_1\n";

/* attn2 of SD 3.5 medium: the image alone */
static const char vram__sd3_second[] =
  "<three_linear|@attn2|to_q|to_k|to_v|@norm1.add_3>"
  "<stream_heads|@attn2|to_q|to_k|to_v|$p|>"
  "{q<rms_norm|@attn2.norm_q|@attn2.transpose|$d| @attn2.to_q @attn2.view @attn2.transpose|>"
  "<rms_norm|@attn2.norm_k|@attn2.transpose_1|$d| @attn2.to_k @attn2.view_1 @attn2.transpose_1|"
  "order @attn2.to_q @attn2.to_k @attn2.to_v\n>}"
  "scaled_dot_product_attention @attn2.sdpa {q@attn2.norm_q.mul_1 @attn2.norm_k.mul_1}"
  "{!q@attn2.transpose @attn2.transpose_1} @attn2.transpose_2\n"
  "transpose @attn2.transpose_3 @attn2.sdpa dim0=1 dim1=2\n"
  "reshape @attn2.reshape @attn2.transpose_3 shape=[N,$p,$c]\n"
  "drop @attn2.sdpa\n"
  "{qto @attn2.to @attn2.reshape dtype=model\n}"
  "{!qtype_as @attn2.to @attn2.reshape @attn2.transpose\n}"
  "linear @attn2.to_out.0 @attn2.to out_features=$c\n"
  "drop{!q @attn2.to_q @attn2.to_k} @attn2.to_v"
  "{!q @attn2.view @attn2.transpose @attn2.view_1 @attn2.transpose_1} @attn2.view_2"
  " @attn2.transpose_2{q @attn2.norm_q.mul_1 @attn2.norm_k.mul_1}\n"
  "unsqueeze @attn2.unsqueeze @norm1.chunk.8 dim=1\n"
  "mul @attn2.mul @attn2.unsqueeze @attn2.to_out.0\n"
  "add @attn2.add @add @attn2.mul\n";

static const vram__hf_part vram__denoiser_parts[] = {
{"timesteps", vram__denoiser_time, NULL},        {"embedder", vram__denoiser_embedder, NULL},   {"ada_zero", vram__denoiser_zero, NULL},
      {"ada_continuous", vram__denoiser_continuous, NULL},   {"mean_square", vram__denoiser_mean_square, NULL}, {"rms_norm", vram__denoiser_rms, NULL},       {"t5_norm", vram__denoiser_t5_norm, NULL},
      {"three_linear", vram__denoiser_three, NULL},       {"stream_heads", vram__denoiser_heads, NULL},      {"basic_attention", vram__denoiser_basic, NULL},
      {"basic_end", vram__denoiser_basic_end, NULL},   {"modulate", vram__denoiser_modulate, NULL},   {"gelu_mlp", vram__denoiser_forward, NULL},
      {"rotate_pairs", vram__denoiser_rotate, NULL},      {"rotate_complex", vram__denoiser_complex, NULL},    {"axis", vram__denoiser_axis, NULL},
      {"sincos", vram__denoiser_sincos, NULL},      {"patches", vram__denoiser_patches, NULL},    {"image", vram__denoiser_image, NULL},
      {"shift", vram__denoiser_shift, NULL},       {"sd3_second", vram__sd3_second, NULL}};

/* ---- SD3Transformer2DModel ---- */

static const char vram__sd3_head[] =
  "input hidden_states model [N,$i,$h,$w]\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "input pooled_projections model [N,$x]\n"
  "input timestep model [N]\n"
  "<patches>"
  "buffer pos_embed.pos_embed shape=[1,$M,$c]\n"
  "reshape pos_embed.reshape pos_embed.pos_embed shape=[1,$m,$m,$c]\n"
  "slice pos_embed.slice pos_embed.reshape dim=0 colon=1\n"
  "slice pos_embed.slice_1 pos_embed.slice dim=1 start=$a end=$A\n"
  "slice pos_embed.slice_2 pos_embed.slice_1 dim=2 start=$b end=$B\n"
  "slice pos_embed.slice_3 pos_embed.slice_2 dim=3 colon=1\n"
  "reshape pos_embed.reshape_1 pos_embed.slice_3 shape=[1,$p,$c]\n"
  "drop pos_embed.reshape\n"
  "add pos_embed.add pos_embed.transpose pos_embed.reshape_1\n"
  "type_as pos_embed.to pos_embed.add pos_embed.transpose\n"
  "drop pos_embed.proj pos_embed.flatten pos_embed.reshape_1\n"
  "contiguous contiguous pos_embed.to\n"
  "<timesteps|time_text_embed.time_proj|timestep|>"
  "to time_text_embed.to time_text_embed.time_proj.cat_1 dtype=model\n"
  "<embedder|time_text_embed.timestep_embedder|time_text_embed.to|$c>"
  "drop time_text_embed.to\n"
  "<embedder|time_text_embed.text_embedder|pooled_projections|$c>"
  "add time_text_embed.add time_text_embed.timestep_embedder.linear_2 "
  "time_text_embed.text_embedder.linear_2\n"
  "drop time_text_embed.time_proj.cat_1\n"
  "linear context_embedder encoder_hidden_states out_features=$c\n";

static const char vram__sd3_norms[] =
  "{D<ada_zero|@norm1|%x|9|$9|,@norm1.chunk.3,@norm1.chunk.4,@norm1.chunk.5,@norm1.chunk.6,@norm1.chunk.7,"
  "@norm1.chunk.8>"
  "slice @norm1.slice_2 @norm1.chunk.7 dim=0 colon=1\n"
  "unsqueeze @norm1.unsqueeze_2 @norm1.slice_2 dim=1\n"
  "add @norm1.add_2 @norm1.unsqueeze_2 scalar=1\n"
  "mul @norm1.mul_1 @norm1.norm @norm1.add_2\n"
  "slice @norm1.slice_3 @norm1.chunk.6 dim=0 colon=1\n"
  "unsqueeze @norm1.unsqueeze_3 @norm1.slice_3 dim=1\n"
  "add @norm1.add_3 @norm1.mul_1 @norm1.unsqueeze_3\n"
  "drop @norm1.chunk.0 @norm1.chunk.1 @norm1.chunk.6 @norm1.chunk.7 @norm1.norm\n}"
  "{!D<ada_zero|@norm1|%x|6|$6|,@norm1.chunk.3,@norm1.chunk.4,@norm1.chunk.5>"
  "drop @norm1.chunk.0 @norm1.chunk.1\n}"
  "{l<ada_continuous|@norm1_context|%y|>}"
  "{!l<ada_zero|@norm1_context|%y|6|$6|,@norm1_context.chunk.3,@norm1_context.chunk.4,"
  "@norm1_context.chunk.5>"
  "drop @norm1_context.chunk.0 @norm1_context.chunk.1\n}";

static const char vram__sd3_attention[] =
  "<three_linear|@attn|to_q|to_k|to_v|@norm1.add_1>"
  "<stream_heads|@attn|to_q|to_k|to_v|$p|>"
  "{q<rms_norm|@attn.norm_q|@attn.transpose|$d| @attn.to_q @attn.view @attn.transpose|>"
  "<rms_norm|@attn.norm_k|@attn.transpose_1|$d| @attn.to_k @attn.view_1 @attn.transpose_1|"
  "order @attn.to_q @attn.to_k @attn.to_v\n>}"
  "<three_linear|@attn|add_q_proj|add_k_proj|add_v_proj|@norm1_context.add_1>"
  "order @attn.add_q_proj\n"
  "<stream_heads|@attn|add_q_proj|add_k_proj|add_v_proj|$S|text_>"
  "{q<rms_norm|@attn.norm_added_q|@attn.text_transpose|$d| @attn.add_q_proj @attn.text_view"
  " @attn.text_transpose|>"
  "<rms_norm|@attn.norm_added_k|@attn.text_transpose_1|$d| @attn.add_k_proj @attn.text_view_1"
  " @attn.text_transpose_1|>}"
  "cat @attn.cat {q@attn.norm_q.mul_1 @attn.norm_added_q.mul_1}"
  "{!q@attn.transpose @attn.text_transpose} dim=2\n"
  "{!qdrop @attn.to_q @attn.view\n}"
  "cat @attn.cat_1 {q@attn.norm_k.mul_1 @attn.norm_added_k.mul_1}"
  "{!q@attn.transpose_1 @attn.text_transpose_1} dim=2\n"
  "{!qdrop @attn.to_k @attn.view_1\n}"
  "cat @attn.cat_2 @attn.transpose_2 @attn.text_transpose_2 dim=2\n"
  "drop @attn.to_v @attn.view_2\n"
  "scaled_dot_product_attention @attn.sdpa @attn.cat @attn.cat_1 @attn.cat_2\n"
  "transpose @attn.transpose_6 @attn.sdpa dim0=1 dim1=2\n"
  "reshape @attn.reshape @attn.transpose_6 shape=[N,$t,$c]\n"
  "drop @attn.sdpa\n"
  "{qto @attn.to @attn.reshape dtype=model\n}"
  "{!qtype_as @attn.to @attn.reshape @attn.cat\n}"
  "slice @attn.slice @attn.to dim=0 colon=1\n"
  "slice @attn.slice_1 @attn.slice dim=1 end=$p\n"
  "slice @attn.slice_2 @attn.to dim=0 colon=1\n"
  "slice @attn.slice_3 @attn.slice_2 dim=1 start=$p\n"
  "{!llinear @attn.to_add_out @attn.slice_3 out_features=$c\n}"
  "linear @attn.to_out.0 @attn.slice_1 out_features=$c\n"
  "{!lorder @attn.to_add_out{q @attn.norm_added_q.weight @attn.norm_added_k.weight}\n}"
  "{l{qorder @attn.norm_added_q.weight @attn.norm_added_k.weight\n}}"
  "drop{!q @attn.add_q_proj @attn.add_k_proj} @attn.add_v_proj"
  "{!q @attn.text_view @attn.text_transpose @attn.text_view_1 @attn.text_transpose_1}"
  " @attn.text_view_2 @attn.text_transpose_2{q @attn.norm_added_q.mul_1 @attn.norm_added_k.mul_1}"
  " @attn.cat @attn.cat_1 @attn.cat_2{!l @attn.to}\n"
  "unsqueeze @unsqueeze @norm1.chunk.2 dim=1\n"
  "mul @mul @unsqueeze @attn.to_out.0\n"
  "add @add %x @mul\n";

static const char vram__sd3_middle[] = "{D<sd3_second>}";

static const char vram__sd3_forward[] =
  "<modulate|@norm2|{D@attn2.add}{!D@add}|@norm1|@>"
  "<gelu_mlp|@ff|@add_2>"
  "unsqueeze @unsqueeze_3 @norm1.chunk.5 dim=1\n"
  "mul @mul_2 @unsqueeze_3 @ff.net.2\n"
  "add @add_3 {D@attn2.add}{!D@add} @mul_2\n"
  "{!lunsqueeze @context.unsqueeze @norm1_context.chunk.2 dim=1\n"
  "mul @context.mul @context.unsqueeze @attn.to_add_out\n"
  "add @context.add %y @context.mul\n"
  "<modulate|@norm2_context|@context.add|@norm1_context|@context.>"
  "<gelu_mlp|@ff_context|@context.add_2>"
  "unsqueeze @context.unsqueeze_3 @norm1_context.chunk.5 dim=1\n"
  "mul @context.mul_2 @context.unsqueeze_3 @ff_context.net.2\n"
  "add @context.add_3 @context.add @context.mul_2\n}"
  "drop %x %y @norm1.linear @norm1.chunk.2 @norm1.chunk.3 @norm1.chunk.4 @norm1.chunk.5"
  "{D @norm1.chunk.8 @norm1.add_3}"
  "{l @norm1_context.add_1 @attn.to @attn.slice_3}"
  "{!l @norm1_context.linear @norm1_context.chunk.2 @norm1_context.chunk.3 @norm1_context.chunk.4"
  " @norm1_context.chunk.5}{s @attn.to_out.0 @attn.to_add_out} @mul{D @attn2.mul} @add_2"
  "{!l @mul_2 @context.mul @context.add_2 @ff_context.net.2}\n";

static const char vram__sd3_end[] =
  "<ada_continuous|norm_out|%x| %x>"
  "linear proj_out norm_out.add_1 out_features=$O\n"
  "<image|proj_out>"
  "drop %e proj_out image.reshape\n"
  "output image\n";

/* ---- FluxTransformer2DModel ---- */

static const char vram__flux_head[] =
  "input hidden_states model [N,$p,$i]\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "input pooled_projections model [N,$x]\n"
  "input timestep model [N]\n"
  "input img_ids model [$p,3]\n"
  "input txt_ids model [$S,3]\n"
  "{ginput guidance model [N]\n}"
  "linear x_embedder hidden_states out_features=$c\n"
  "type_as to timestep x_embedder\n"
  "mul mul to scalar=1\n"
  "{gtype_as to_1 guidance x_embedder\n"
  "mul mul_1 to_1 scalar=1\n}"
  "<timesteps|time_text_embed.time_proj|mul|>"
  "to time_text_embed.to time_text_embed.time_proj.cat_1 dtype=model\n"
  "<embedder|time_text_embed.timestep_embedder|time_text_embed.to|$c>"
  "drop time_text_embed.to\n"
  "{g<timesteps|time_text_embed.guidance_proj|mul_1|>"
  "to time_text_embed.to_1 time_text_embed.guidance_proj.cat_1 dtype=model\n"
  "<embedder|time_text_embed.guidance_embedder|time_text_embed.to_1|$c>"
  "drop time_text_embed.to_1\n"
  "add time_text_embed.guided time_text_embed.timestep_embedder.linear_2 "
  "time_text_embed.guidance_embedder.linear_2\n}"
  "<embedder|time_text_embed.text_embedder|pooled_projections|$c>"
  "add time_text_embed.add "
  "{gtime_text_embed.guided}{!gtime_text_embed.timestep_embedder.linear_2} "
  "time_text_embed.text_embedder.linear_2\n"
  "drop time_text_embed.time_proj.cat_1{g time_text_embed.timestep_embedder.linear_2"
  " time_text_embed.guidance_proj.cat_1 time_text_embed.guidance_embedder.linear_2}\n"
  "linear context_embedder encoder_hidden_states out_features=$c\n"
  "order x_embedder\n"
  "cat cat txt_ids img_ids\n"
  "to pos_embed.to cat dtype=f32\n"
  "<axis|0|$g><axis|1|$j><axis|2|$l>"
  "cat pos_embed.cat pos_embed.to_cos_0 pos_embed.to_cos_1 pos_embed.to_cos_2 dim=-1\n"
  "view pos_embed.to_7 pos_embed.cat shape=[$t,$d]\n"
  "cat pos_embed.cat_1 pos_embed.to_sin_0 pos_embed.to_sin_1 pos_embed.to_sin_2 dim=-1\n"
  "view pos_embed.to_8 pos_embed.cat_1 shape=[$t,$d]\n"
  "drop pos_embed.to pos_embed.to_cos_0 pos_embed.to_sin_0 pos_embed.to_cos_1 pos_embed.to_sin_1"
  " pos_embed.to_cos_2 pos_embed.to_sin_2\n";

static const char vram__flux_attention[] =
  "<ada_zero|@norm1|%x|6|$6|,@norm1.chunk.3,@norm1.chunk.4,@norm1.chunk.5>"
  "drop @norm1.chunk.0 @norm1.chunk.1\n"
  "<ada_zero|@norm1_context|%y|6|$6|,@norm1_context.chunk.3,@norm1_context.chunk.4,@norm1_context.chunk.5>"
  "drop @norm1_context.chunk.0 @norm1_context.chunk.1\n"
  "<three_linear|@attn|to_q|to_k|to_v|@norm1.add_1>"
  "<three_linear|@attn|add_q_proj|add_k_proj|add_v_proj|@norm1_context.add_1>"
  "unflatten @attn.unflatten @attn.to_q dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_1 @attn.to_k dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_2 @attn.to_v dim=-1 sizes=$n,$d\n"
  "rms_norm @attn.norm_q @attn.unflatten normalized_shape=$d\n"
  "drop @attn.to_q\n"
  "rms_norm @attn.norm_k @attn.unflatten_1 normalized_shape=$d\n"
  "order @attn.to_q @attn.to_k @attn.to_v\n"
  "drop @attn.to_k\n"
  "unflatten @attn.unflatten_3 @attn.add_q_proj dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_4 @attn.add_k_proj dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_5 @attn.add_v_proj dim=-1 sizes=$n,$d\n"
  "rms_norm @attn.norm_added_q @attn.unflatten_3 normalized_shape=$d\n"
  "drop @attn.add_q_proj\n"
  "rms_norm @attn.norm_added_k @attn.unflatten_4 normalized_shape=$d\n"
  "drop @attn.add_k_proj\n"
  "cat @attn.cat @attn.norm_added_q @attn.norm_q dim=1\n"
  "cat @attn.cat_1 @attn.norm_added_k @attn.norm_k dim=1\n"
  "cat @attn.cat_2 @attn.unflatten_5 @attn.unflatten_2 dim=1\n"
  "drop @attn.to_v\n"
  "<rotate_pairs|query|@attn.cat><rotate_pairs|key|@attn.cat_1>"
  "permute @attn.permute @attn.query dims=0,2,1,3\n"
  "permute @attn.permute_1 @attn.key dims=0,2,1,3\n"
  "permute @attn.permute_2 @attn.cat_2 dims=0,2,1,3\n"
  "scaled_dot_product_attention @attn.sdpa @attn.permute @attn.permute_1 @attn.permute_2\n"
  "permute @attn.permute_3 @attn.sdpa dims=0,2,1,3\n"
  "drop @attn.permute @attn.permute_1 @attn.permute_2\n"
  "flatten @attn.flatten @attn.permute_3 start_dim=2 end_dim=3\n"
  "drop @attn.sdpa\n"
  "to @attn.to @attn.flatten dtype=model\n"
  "split @attn.split.0,@attn.split.1 @attn.to split_size_or_sections=$S,$p dim=1\n"
  "contiguous @attn.contiguous @attn.split.1\n"
  "linear @attn.to_out.0 @attn.contiguous out_features=$c\n"
  "order @attn.norm_added_q @attn.norm_added_k @attn.add_q_proj @attn.add_k_proj"
  " @attn.add_v_proj\n"
  "drop @attn.split.1\n"
  "contiguous @attn.contiguous_1 @attn.split.0\n"
  "linear @attn.to_add_out @attn.contiguous_1 out_features=$c\n"
  "drop @attn.add_v_proj @attn.unflatten_5 @attn.norm_added_q @attn.norm_added_k @attn.cat_2"
  " @attn.query @attn.key @attn.to @attn.split.0\n"
  "unsqueeze @unsqueeze @norm1.chunk.2 dim=1\n"
  "mul @mul @unsqueeze @attn.to_out.0\n"
  "add @add %x @mul\n";

static const char vram__flux_single[] =
  "cat @cat %y %x dim=1\n"
  "<ada_zero|@norm|@cat|3|$3|>"
  "drop @norm.chunk.0 @norm.chunk.1\n"
  "linear @proj_mlp @norm.add_1 out_features=$f\n"
  "gelu @act_mlp @proj_mlp approximate=tanh\n"
  "<three_linear|@attn|to_q|to_k|to_v|@norm.add_1>"
  "unflatten @attn.unflatten @attn.to_q dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_1 @attn.to_k dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_2 @attn.to_v dim=-1 sizes=$n,$d\n"
  "rms_norm @attn.norm_q @attn.unflatten normalized_shape=$d\n"
  "drop @attn.to_q\n"
  "rms_norm @attn.norm_k @attn.unflatten_1 normalized_shape=$d\n"
  "drop @attn.to_k\n"
  "<rotate_pairs|query|@attn.norm_q><rotate_pairs|key|@attn.norm_k>"
  "permute @attn.permute @attn.query dims=0,2,1,3\n"
  "permute @attn.permute_1 @attn.key dims=0,2,1,3\n"
  "permute @attn.permute_2 @attn.unflatten_2 dims=0,2,1,3\n"
  "scaled_dot_product_attention @attn.sdpa @attn.permute @attn.permute_1 @attn.permute_2\n"
  "permute @attn.permute_3 @attn.sdpa dims=0,2,1,3\n"
  "drop @attn.permute @attn.permute_1 @attn.permute_2\n"
  "flatten @attn.flatten @attn.permute_3 start_dim=2 end_dim=3\n"
  "drop @attn.sdpa\n"
  "to @attn.to @attn.flatten dtype=model\n"
  "drop @attn.to_v @attn.unflatten_2 @attn.query @attn.key\n"
  "cat @cat_1 @attn.to @act_mlp dim=2\n"
  "unsqueeze @unsqueeze @norm.chunk.2 dim=1\n"
  "linear @proj_out @cat_1 out_features=$c\n"
  "order @attn.norm_q @attn.norm_k @attn.to_q @attn.to_k @attn.to_v\n"
  "mul @mul @unsqueeze @proj_out\n"
  "drop @cat_1\n"
  "add @add @cat @mul\n"
  "slice @slice @add dim=0 colon=1\n"
  "slice @slice_1 @slice dim=1 end=$S\n"
  "slice @slice_2 @add dim=0 colon=1\n"
  "slice @slice_3 @slice_2 dim=1 start=$S\n"
  "drop{f %x %y}{!f %z %y %x} @cat @norm.linear @norm.chunk.2 @norm.add_1 @act_mlp @attn.to @unsqueeze\n";

static const char vram__flux_end[] =
  "<ada_continuous|norm_out|%x| %x>"
  "linear proj_out norm_out.add_1 out_features=$O\n"
  "drop mul{g mul_1} %e cat pos_embed.to_7 pos_embed.to_8 %z %y\n"
  "output proj_out\n";

/* ---- PixArtTransformer2DModel ---- */

static const char vram__pixart_head[] =
  "input hidden_states model [N,$i,$h,$w]\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "input timestep i64 [N]\n"
  "input encoder_attention_mask model [N,$S]\n"
  "{Ainput resolution model [N,2]\n"
  "input aspect_ratio model [N,1]\n}"
  "to to encoder_attention_mask dtype=model\n"
  "mul rsub to scalar=1\n"
  "mul mul rsub scalar=1\n"
  "unsqueeze unsqueeze mul dim=1\n"
  "<patches>"
  "{!Ubuffer pos_embed.pos_embed shape=[1,$M,$c]\n"
  "add pos_embed.add pos_embed.transpose pos_embed.pos_embed\n}"
  "{Uarange pos_embed.arange shape=[$u]\n"
  "div pos_embed.div pos_embed.arange scalar=1\n"
  "div pos_embed.div_1 pos_embed.div scalar=1\n"
  "arange pos_embed.arange_1 shape=[$v]\n"
  "div pos_embed.div_2 pos_embed.arange_1 scalar=1\n"
  "div pos_embed.div_3 pos_embed.div_2 scalar=1\n"
  "view pos_embed.view pos_embed.div_3 shape=[1,$v]\n"
  "expand pos_embed.expand pos_embed.view shape=[$u,$v]\n"
  "view pos_embed.view_1 pos_embed.div_1 shape=[$u,1]\n"
  "expand pos_embed.expand_1 pos_embed.view_1 shape=[$u,$v]\n"
  "stack pos_embed.stack pos_embed.expand pos_embed.expand_1\n"
  "reshape pos_embed.grid pos_embed.stack shape=[2,1,$v,$u]\n"
  "<sincos|0><sincos|1>"
  "cat pos_embed.cat pos_embed.cat_0 pos_embed.cat_1 dim=1\n"
  "drop pos_embed.div_1 pos_embed.div_3 pos_embed.stack pos_embed.grid\n"
  "to pos_embed.to pos_embed.cat dtype=f32\n"
  "unsqueeze pos_embed.unsqueeze pos_embed.to dim=0\n"
  "drop pos_embed.cat\n"
  "add pos_embed.add pos_embed.transpose pos_embed.unsqueeze\n}"
  "type_as pos_embed.to_1 pos_embed.add pos_embed.transpose\n"
  "drop pos_embed.proj pos_embed.flatten{U pos_embed.to pos_embed.unsqueeze}\n";

static const char vram__pixart_time[] =
  "<timesteps|adaln_single.emb.time_proj|timestep|>"
  "type_as adaln_single.emb.to adaln_single.emb.time_proj.cat_1 pos_embed.to_1\n"
  "<embedder|adaln_single.emb.timestep_embedder|adaln_single.emb.to|$c>"
  "{!Adrop adaln_single.emb.time_proj.cat_1 adaln_single.emb.to\n}"
  "{Adrop adaln_single.emb.to\n"
  "flatten adaln_single.emb.flatten resolution\n"
  "<timesteps|adaln_single.emb.resolution_proj|adaln_single.emb.flatten| adaln_single.emb.flatten>"
  "type_as adaln_single.emb.to_1 adaln_single.emb.resolution_proj.cat_1 pos_embed.to_1\n"
  "<embedder|adaln_single.emb.resolution_embedder|adaln_single.emb.to_1|$s>"
  "reshape adaln_single.emb.reshape adaln_single.emb.resolution_embedder.linear_2 shape=[N,$z]\n"
  "drop adaln_single.emb.to_1\n"
  "flatten adaln_single.emb.flatten_1 aspect_ratio\n"
  "<timesteps|adaln_single.emb.ratio_proj|adaln_single.emb.flatten_1| adaln_single.emb.flatten_1>"
  "type_as adaln_single.emb.to_2 adaln_single.emb.ratio_proj.cat_1 pos_embed.to_1\n"
  "<embedder|adaln_single.emb.aspect_ratio_embedder|adaln_single.emb.to_2|$s>"
  "reshape adaln_single.emb.reshape_1 adaln_single.emb.aspect_ratio_embedder.linear_2 shape=[N,$s]\n"
  "drop adaln_single.emb.to_2\n"
  "cat adaln_single.emb.cat adaln_single.emb.reshape adaln_single.emb.reshape_1 dim=1\n"
  "add adaln_single.emb.add adaln_single.emb.timestep_embedder.linear_2 adaln_single.emb.cat\n"
  "drop adaln_single.emb.time_proj.cat_1 adaln_single.emb.resolution_embedder.linear_2"
  " adaln_single.emb.reshape adaln_single.emb.aspect_ratio_embedder.linear_2"
  " adaln_single.emb.reshape_1\n}"
  "silu adaln_single.silu %e\n"
  "linear adaln_single.linear adaln_single.silu out_features=$6\n"
  "linear caption_projection.linear_1 encoder_hidden_states out_features=$c\n"
  "gelu caption_projection.act_1 caption_projection.linear_1 approximate=tanh\n"
  "linear caption_projection.linear_2 caption_projection.act_1 out_features=$c\n"
  "view view caption_projection.linear_2 shape=[N,$S,$c]\n";

static const char vram__pixart_block[] =
  "parameter @scale_shift_table shape=[6,$c]\n"
  "unsqueeze @unsqueeze @scale_shift_table dim=0\n"
  "reshape @reshape adaln_single.linear shape=[N,6,$c]\n"
  "add @add @unsqueeze @reshape\n"
  "chunk @chunk.0,@chunk.1,@chunk.2,@chunk.3,@chunk.4,@chunk.5 @add chunks=6 dim=1\n"
  "layer_norm @norm1 %x normalized_shape=$c elementwise_affine=0\n"
  "add @add_1 @chunk.1 scalar=1\n"
  "mul @mul @norm1 @add_1\n"
  "add @add_2 @mul @chunk.0\n"
  "drop @norm1\n"
  "<basic_attention|@attn1|@add_2|@add_2|$p|>"
  "drop<basic_end|@attn1>"
  "mul @mul_1 @chunk.2 @attn1.div\n"
  "add @add_3 @mul_1 %x\n"
  "drop @add_2\n"
  "repeat_interleave @attn2.repeat_interleave unsqueeze repeats=$n dim=0\n"
  "view @attn2.view @attn2.repeat_interleave shape=[N,$n,1,$S]\n"
  "<basic_attention|@attn2|@add_3|view|$S| @attn2.view>"
  "drop @mul_1 @attn2.repeat_interleave @attn2.view<basic_end|@attn2>"
  "add @add_4 @attn2.div @add_3\n"
  "layer_norm @norm2 @add_4 normalized_shape=$c elementwise_affine=0\n"
  "drop @add_3\n"
  "add @add_5 @chunk.4 scalar=1\n"
  "mul @mul_2 @norm2 @add_5\n"
  "add @add_6 @mul_2 @chunk.3\n"
  "drop @norm2\n"
  "<gelu_mlp|@ff|@add_6>"
  "mul @mul_3 @chunk.5 @ff.net.2\n"
  "add @add_7 @mul_3 @add_4\n"
  "drop %x @add @chunk.0 @chunk.1 @chunk.2 @chunk.3 @chunk.4 @chunk.5 @attn2.div @add_6\n";

static const char vram__pixart_end[] =
  "parameter scale_shift_table shape=[2,$c]\n"
  "order pos_embed.proj";

static const char vram__pixart_each[] =
  " @scale_shift_table @attn1.to_q @attn1.to_k @attn1.to_v @attn1.to_out.0 @attn2.to_q @attn2.to_k"
  " @attn2.to_v @attn2.to_out.0 @ff.net.0.proj @ff.net.2";

static const char vram__pixart_out[] =
  "\n"
  "unsqueeze unsqueeze_1 scale_shift_table dim=0\n"
  "slice slice %e dim=0 colon=1\n"
  "unsqueeze unsqueeze_2 slice dim=1\n"
  "view to_1 unsqueeze_2 shape=[N,1,$c]\n"
  "add add unsqueeze_1 to_1\n"
  "chunk chunk.0,chunk.1 add chunks=2 dim=1\n"
  "layer_norm norm_out %x normalized_shape=$c elementwise_affine=0\n"
  "view to_2 chunk.1 shape=[N,1,$c]\n"
  "add add_1 to_2 scalar=1\n"
  "mul mul_1 norm_out add_1\n"
  "view to_3 chunk.0 shape=[N,1,$c]\n"
  "add add_2 mul_1 to_3\n"
  "drop norm_out\n"
  "linear proj_out add_2 out_features=$O\n"
  "order adaln_single.emb.timestep_embedder.linear_1 adaln_single.emb.timestep_embedder.linear_2"
  "{A adaln_single.emb.resolution_embedder.linear_1 adaln_single.emb.resolution_embedder.linear_2"
  " adaln_single.emb.aspect_ratio_embedder.linear_1 adaln_single.emb.aspect_ratio_embedder.linear_2}"
  " adaln_single.linear caption_projection.linear_1 caption_projection.linear_2\n"
  "squeeze squeeze proj_out dim=1\n"
  "<image|squeeze>"
  "drop mul unsqueeze %e adaln_single.linear caption_projection.linear_2 view add chunk.0 chunk.1"
  " proj_out squeeze image.reshape\n"
  "{Ubuffer pos_embed.pos_embed shape=[1,$M,$c]\n}"
  "output image\n";

/* ---- DiTTransformer2DModel ---- */

static const char vram__dit_head[] =
  "input hidden_states model [N,$i,$h,$w]\n"
  "input timestep i64 [N]\n"
  "input class_labels i64 [N]\n"
  "<patches>"
  "buffer pos_embed.pos_embed shape=[1,$M,$c]\n"
  "add pos_embed.add pos_embed.transpose pos_embed.pos_embed\n"
  "type_as pos_embed.to pos_embed.add pos_embed.transpose\n"
  "drop pos_embed.proj pos_embed.flatten\n";

static const char vram__dit_block[] =
  "<timesteps|@norm1.emb.time_proj|timestep|>"
  "type_as @norm1.emb.to @norm1.emb.time_proj.cat_1 %x\n"
  "<embedder|@norm1.emb.timestep_embedder|@norm1.emb.to|$c>"
  "drop @norm1.emb.to\n"
  "embedding @norm1.emb.class_embedder class_labels num_embeddings=$k embedding_dim=$c\n"
  "add @norm1.emb.add @norm1.emb.timestep_embedder.linear_2 @norm1.emb.class_embedder\n"
  "drop @norm1.emb.time_proj.cat_1\n"
  "silu @norm1.silu @norm1.emb.add\n"
  "linear @norm1.linear @norm1.silu out_features=$6\n"
  "drop @norm1.emb.add\n"
  "chunk @norm1.chunk.0,@norm1.chunk.1,@norm1.chunk.2,@norm1.chunk.3,@norm1.chunk.4,@norm1.chunk.5"
  " @norm1.linear chunks=6 dim=1\n"
  "layer_norm @norm1.norm %x normalized_shape=$c elementwise_affine=0\n"
  "slice @norm1.slice @norm1.chunk.1 dim=0 colon=1\n"
  "unsqueeze @norm1.unsqueeze @norm1.slice dim=1\n"
  "add @norm1.add @norm1.unsqueeze scalar=1\n"
  "mul @norm1.mul @norm1.norm @norm1.add\n"
  "slice @norm1.slice_1 @norm1.chunk.0 dim=0 colon=1\n"
  "unsqueeze @norm1.unsqueeze_1 @norm1.slice_1 dim=1\n"
  "add @norm1.add_1 @norm1.mul @norm1.unsqueeze_1\n"
  "drop @norm1.chunk.0 @norm1.chunk.1\n"
  "<basic_attention|@attn1|@norm1.add_1|@norm1.add_1|$p|>"
  "drop<basic_end|@attn1>"
  "unsqueeze @unsqueeze @norm1.chunk.2 dim=1\n"
  "mul @mul @unsqueeze @attn1.div\n"
  "add @add @mul %x\n"
  "<modulate|@norm3|@add|@norm1|@>"
  "<gelu_mlp|@ff|@add_2>"
  "unsqueeze @unsqueeze_3 @norm1.chunk.5 dim=1\n"
  "mul @mul_2 @unsqueeze_3 @ff.net.2\n"
  "add @add_3 @mul_2 @add\n"
  "drop %x @norm1.linear @norm1.chunk.2 @norm1.chunk.3 @norm1.chunk.4 @norm1.chunk.5 @mul @add_2\n";

/* the first block's embedding once more, with its weights */
static const char vram__dit_end[] =
  "<timesteps|time_proj|timestep|>"
  "type_as to time_proj.cat_1 %x\n"
  "linear linear_1 to out_features=$c weights=%e.timestep_embedder.linear_1\n"
  "silu act linear_1\n"
  "linear linear_2 act out_features=$c weights=%e.timestep_embedder.linear_2\n"
  "drop to\n"
  "embedding class_embedder class_labels num_embeddings=$k embedding_dim=$c"
  " weights=%e.class_embedder\n"
  "add conditioning linear_2 class_embedder\n"
  "drop time_proj.cat_1\n"
  "silu silu conditioning\n"
  "linear proj_out_1 silu out_features=$2\n"
  "chunk chunk.0,chunk.1 proj_out_1 chunks=2 dim=1\n"
  "layer_norm norm_out %x normalized_shape=$c elementwise_affine=0\n"
  "slice slice chunk.1 dim=0 colon=1\n"
  "unsqueeze unsqueeze slice dim=1\n"
  "add add unsqueeze scalar=1\n"
  "mul mul norm_out add\n"
  "slice slice_1 chunk.0 dim=0 colon=1\n"
  "unsqueeze unsqueeze_1 slice_1 dim=1\n"
  "add add_1 mul unsqueeze_1\n"
  "drop %x\n"
  "linear proj_out_2 add_1 out_features=$O\n"
  "<image|proj_out_2>"
  "drop conditioning proj_out_1 chunk.0 chunk.1 proj_out_2 image.reshape\n"
  "output image\n";

/* ---- QwenImageTransformer2DModel ---- */

static const char vram__qwen_head[] =
  "input hidden_states model [N,$p,$i]\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "input encoder_hidden_states_mask i64 [N,$S]\n"
  "input timestep model [N]\n"
  "linear img_in hidden_states out_features=$c\n"
  "type_as to timestep img_in\n"
  "<rms_norm|txt_norm|encoder_hidden_states|$k||>"
  "linear txt_in txt_norm.mul_1 out_features=$c\n"
  "to to_1 encoder_hidden_states_mask dtype=bool\n"
  "arange arange shape=[$S] dtype=i64\n"
  "zeros zeros shape=[] dtype=i64\n"
  "where where to_1 arange zeros\n"
  "amax any to_1 dim=1\n"
  "max max,max.i where dim=1\n"
  "add add max scalar=1\n"
  "empty empty shape=[] dtype=i64\n"
  "where where_1 any add empty\n"
  "drop arange where\n"
  "<timesteps|time_text_embed.time_proj|to|>"
  "type_as time_text_embed.to time_text_embed.time_proj.cat_1 img_in\n"
  "<embedder|time_text_embed.timestep_embedder|time_text_embed.to|$c>"
  "order txt_norm.weight img_in txt_in\n"
  "drop time_text_embed.time_proj.cat_1 time_text_embed.to\n"
  "buffer pos_embed.pos_freqs shape=[4096,$b] dtype=c64\n"
  "slice pos_embed.slice pos_embed.pos_freqs dim=0 start=$a end=$A\n"
  "buffer pos_embed.image shape=[$p,$b] dtype=c64\n"
  "cat pos_embed.cat pos_embed.image\n";

static const char vram__qwen_norms[] =
  "silu @img_mod.0 %e\n"
  "linear @img_mod.1 @img_mod.0 out_features=$6\n"
  "silu @txt_mod.0 %e\n"
  "linear @txt_mod.1 @txt_mod.0 out_features=$6\n"
  "chunk @img_mod.c0,@img_mod.c1 @img_mod.1 chunks=2 dim=-1\n"
  "chunk @txt_mod.c0,@txt_mod.c1 @txt_mod.1 chunks=2 dim=-1\n"
  "<shift|@img_norm1|%x|@img_mod.c0>"
  "<shift|@txt_norm1|%y|@txt_mod.c0>"
  "ones @attn.ones shape=[N,$p] dtype=bool\n"
  "cat @attn.mask to_1 @attn.ones dim=1\n"
  "slice @attn.slice @attn.mask dim=0 colon=1\n"
  "unsqueeze @attn.unsqueeze @attn.slice dim=1\n"
  "unsqueeze @attn.unsqueeze_1 @attn.unsqueeze dim=2\n"
  "slice @attn.slice_1 @attn.unsqueeze_1 dim=3 colon=1\n";

static const char vram__qwen_attention[] =
  "<three_linear|@attn|to_q|to_k|to_v|@img_norm1.add_1>"
  "<three_linear|@attn|add_q_proj|add_k_proj|add_v_proj|@txt_norm1.add_1>"
  "unflatten @attn.unflatten @attn.to_q dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_1 @attn.to_k dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_2 @attn.to_v dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_3 @attn.add_q_proj dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_4 @attn.add_k_proj dim=-1 sizes=$n,$d\n"
  "unflatten @attn.unflatten_5 @attn.add_v_proj dim=-1 sizes=$n,$d\n"
  "<rms_norm|@attn.norm_q|@attn.unflatten|$d| @attn.to_q @attn.unflatten|>"
  "<rms_norm|@attn.norm_k|@attn.unflatten_1|$d| @attn.to_k @attn.unflatten_1|"
  "order @attn.to_q @attn.to_k @attn.to_v @attn.add_k_proj @attn.add_v_proj @attn.add_q_proj\n>"
  "<rms_norm|@attn.norm_added_q|@attn.unflatten_3|$d| @attn.add_q_proj @attn.unflatten_3|>"
  "<rms_norm|@attn.norm_added_k|@attn.unflatten_4|$d| @attn.add_k_proj @attn.unflatten_4|>"
  "<rotate_complex|query|@attn.norm_q.mul_1|$p|pos_embed.cat>"
  "<rotate_complex|key|@attn.norm_k.mul_1|$p|pos_embed.cat>"
  "<rotate_complex|text_query|@attn.norm_added_q.mul_1|$S|pos_embed.slice>"
  "<rotate_complex|text_key|@attn.norm_added_k.mul_1|$S|pos_embed.slice>"
  "cat @attn.cat_1 @attn.text_query @attn.query dim=1\n"
  "cat @attn.cat_2 @attn.text_key @attn.key dim=1\n"
  "cat @attn.cat_3 @attn.unflatten_5 @attn.unflatten_2 dim=1\n"
  "permute @attn.permute @attn.cat_1 dims=0,2,1,3\n"
  "permute @attn.permute_1 @attn.cat_2 dims=0,2,1,3\n"
  "permute @attn.permute_2 @attn.cat_3 dims=0,2,1,3\n"
  "scaled_dot_product_attention @attn.sdpa @attn.permute @attn.permute_1 @attn.permute_2"
  " @attn.slice_1\n"
  "permute @attn.permute_3 @attn.sdpa dims=0,2,1,3\n"
  "drop @attn.permute @attn.permute_1 @attn.permute_2\n"
  "flatten @attn.flatten @attn.permute_3 start_dim=2 end_dim=3\n"
  "drop @attn.sdpa\n"
  "to @attn.to @attn.flatten dtype=model\n"
  "slice @attn.slice_2 @attn.to dim=0 colon=1\n"
  "slice @attn.slice_3 @attn.slice_2 dim=1 end=$S\n"
  "slice @attn.slice_4 @attn.slice_3 dim=2 colon=1\n"
  "slice @attn.slice_5 @attn.to dim=0 colon=1\n"
  "slice @attn.slice_6 @attn.slice_5 dim=1 start=$S\n"
  "slice @attn.slice_7 @attn.slice_6 dim=2 colon=1\n"
  "contiguous @attn.contiguous @attn.slice_7\n"
  "linear @attn.to_out.0 @attn.contiguous out_features=$c\n"
  "drop @attn.slice_7\n"
  "contiguous @attn.contiguous_1 @attn.slice_4\n"
  "linear @attn.to_add_out @attn.contiguous_1 out_features=$c\n"
  "order @attn.norm_added_q.weight @attn.norm_added_k.weight\n"
  "drop @attn.ones @attn.mask @attn.slice_1 @attn.to_v @attn.add_v_proj @attn.unflatten_2"
  " @attn.unflatten_5 @attn.query @attn.key @attn.text_query @attn.text_key @attn.cat_1"
  " @attn.cat_2 @attn.cat_3 @attn.to @attn.slice_4\n";

static const char vram__qwen_forward[] =
  "mul @mul_2 @img_norm1.unsqueeze_2 @attn.to_out.0\n"
  "add @add_4 %x @mul_2\n"
  "mul @mul_3 @txt_norm1.unsqueeze_2 @attn.to_add_out\n"
  "add @add_5 %y @mul_3\n"
  "<shift|@img_norm2|@add_4|@img_mod.c1>"
  "<gelu_mlp|@img_mlp|@img_norm2.add_1>"
  "order @txt_mod.1\n"
  "mul @mul_5 @img_norm2.unsqueeze_2 @img_mlp.net.2\n"
  "add @add_8 @add_4 @mul_5\n"
  "<shift|@txt_norm2|@add_5|@txt_mod.c1>"
  "<gelu_mlp|@txt_mlp|@txt_norm2.add_1>"
  "mul @mul_7 @txt_norm2.unsqueeze_2 @txt_mlp.net.2\n"
  "add @add_11 @add_5 @mul_7\n"
  "drop %x %y @img_mod.1 @txt_mod.1 @img_mod.c0 @img_mod.c1 @txt_mod.c0 @txt_mod.c1"
  " @img_norm1 @img_norm1.chunk.2 @img_norm1.unsqueeze_2 @img_norm1.add_1"
  " @txt_norm1 @txt_norm1.chunk.2 @txt_norm1.unsqueeze_2 @txt_norm1.add_1"
  " @attn.to_out.0 @attn.to_add_out"
  " @img_norm2 @img_norm2.chunk.2 @img_norm2.unsqueeze_2 @img_norm2.add_1 @img_mlp.net.2"
  " @txt_norm2 @txt_norm2.chunk.2 @txt_norm2.unsqueeze_2 @txt_norm2.add_1 @txt_mlp.net.2\n";

static const char vram__qwen_end[] =
  "<ada_continuous|norm_out|%x| %x>"
  "linear proj_out norm_out.add_1 out_features=$O\n"
  "drop to to_1 where_1 %e pos_embed.slice pos_embed.cat %y\n"
  "output proj_out\n";

/* ---- T5EncoderModel ---- */

static const char vram__t5_head[] =
  "input input_ids i64 [N,$S]\n"
  "embedding encoder.embed_tokens input_ids num_embeddings=$v embedding_dim=$c\n";

static const char vram__t5_attention[] =
  "<t5_norm|@layer.0.layer_norm|%x>"
  "drop @layer.0.layer_norm.mean\n"
  "linear %a.q @layer.0.layer_norm.mul_1 out_features=$i bias=0\n"
  "view %a.view %a.q shape=[N,$S,$n,$d]\n"
  "transpose %a.transpose %a.view dim0=1 dim1=2\n"
  "linear %a.k @layer.0.layer_norm.mul_1 out_features=$i bias=0\n"
  "{ulinear %a.v @layer.0.layer_norm.mul_1 out_features=$i bias=0\n}"
  "view %a.view_1 %a.k shape=[N,$S,$n,$d]\n"
  "transpose %a.transpose_1 %a.view_1 dim0=1 dim1=2\n"
  "{!ulinear %a.v @layer.0.layer_norm.mul_1 out_features=$i bias=0\n}"
  "view %a.view_2 %a.v shape=[N,$S,$n,$d]\n"
  "transpose %a.transpose_2 %a.view_2 dim0=1 dim1=2\n";

/* compute_bias: of T5 in the first block alone */
static const char vram__t5_bias[] =
  "{Barange %a.arange shape=[$S] dtype=i64\n"
  "slice %a.slice %a.arange dim=0 colon=1\n"
  "unsqueeze %a.unsqueeze %a.slice dim=1\n"
  "add %a.add %a.unsqueeze scalar=1\n"
  "drop %a.arange\n"
  "arange %a.arange_1 shape=[$S] dtype=i64\n"
  "unsqueeze %a.unsqueeze_1 %a.arange_1 dim=0\n"
  "slice %a.slice_1 %a.unsqueeze_1 dim=1 colon=1\n"
  "sub %a.sub %a.slice_1 %a.add\n"
  "gt %a.gt %a.sub scalar=1\n"
  "to %a.to %a.gt dtype=i64\n"
  "mul %a.mul %a.to scalar=1\n"
  "add %a.add_1 %a.mul scalar=1\n"
  "abs %a.abs %a.sub\n"
  "lt %a.lt %a.abs scalar=1\n"
  "to %a.to_1 %a.abs dtype=f32\n"
  "div %a.div %a.to_1 scalar=1\n"
  "log %a.log %a.div\n"
  "div %a.div_1 %a.log scalar=1\n"
  "mul %a.mul_1 %a.div_1 scalar=1\n"
  "to %a.to_2 %a.mul_1 dtype=i64\n"
  "add %a.add_2 %a.to_2 scalar=1\n"
  "full %a.full shape=[$S,$S] dtype=i64\n"
  "minimum %a.minimum %a.add_2 %a.full\n"
  "where %a.where %a.lt %a.abs %a.minimum\n"
  "add %a.add_3 %a.add_1 %a.where inplace=1\n"
  "drop %a.abs %a.lt{u %a.mul_1} %a.minimum\n"
  "embedding %a.relative_attention_bias %a.add_3 num_embeddings=$b embedding_dim=$n\n"
  "permute %a.permute %a.relative_attention_bias dims=2,0,1\n"
  "unsqueeze %a.unsqueeze_2 %a.permute dim=0\n"
  "drop %a.add %a.arange_1 %a.slice_1 %a.sub %a.add_1 %a.add_3\n}";

static const char vram__t5_attend[] =
  "contiguous %a.contiguous {u%a}{!uencoder.block.0.layer.0.SelfAttention}.unsqueeze_2\n"
  "scaled_dot_product_attention %a.sdpa %a.transpose %a.transpose_1 %a.transpose_2"
  " %a.contiguous\n"
  "reshape %a.reshape %a.sdpa shape=[N,$n,$S,$d]\n"
  "transpose %a.transpose_3 %a.reshape dim0=1 dim1=2\n"
  "contiguous %a.contiguous_1 %a.transpose_3\n"
  "drop %a.contiguous %a.sdpa %a.reshape\n"
  "reshape %a.reshape_1 %a.contiguous_1 shape=[N,$S,$i]\n"
  "contiguous %a.contiguous_2 %a.reshape_1\n"
  "drop %a.contiguous_1\n"
  "linear %a.o %a.contiguous_2 out_features=$c bias=0\n"
  "order{B %a.relative_attention_bias} @layer.0.layer_norm.weight\n"
  "drop %a.q %a.view %a.transpose %a.k{u %a.v} %a.view_1 %a.transpose_1{!u %a.v} %a.view_2"
  " %a.transpose_2{u %a.relative_attention_bias %a.permute %a.unsqueeze_2}\n"
  "add @layer.0.add %x %a.o\n"
  "drop @layer.0.layer_norm.mul_1\n";

/* T5DenseActDense and its gated kin with gelu_new, silu, relu or gelu */
static const char vram__t5_forward[] =
  "<t5_norm|@layer.1.layer_norm|@layer.0.add>"
  "drop @layer.1.layer_norm.mean\n"
  "{glinear %f.wi_0 @layer.1.layer_norm.mul_1 out_features=$f bias=0\n"
  "mul %f.act.mul %f.wi_0 scalar=1\n"
  "pow %f.act.pow %f.wi_0 scalar=1\n"
  "mul %f.act.mul_1 %f.act.pow scalar=1\n"
  "add %f.act.add %f.wi_0 %f.act.mul_1\n"
  "mul %f.act.mul_2 %f.act.add scalar=1\n"
  "tanh %f.act.tanh %f.act.mul_2\n"
  "add %f.act.add_1 %f.act.tanh scalar=1\n"
  "mul %f.act.mul_3 %f.act.mul %f.act.add_1\n"
  "drop %f.wi_0\n"
  "linear %f.wi_1 @layer.1.layer_norm.mul_1 out_features=$f bias=0\n"
  "mul %f.mul %f.act.mul_3 %f.wi_1\n"
  "linear %f.wo %f.mul out_features=$c bias=0\n"
  "order @layer.1.layer_norm.weight\n"
  "drop @layer.1.layer_norm.mul_1 %f.act.mul_3 %f.wi_1\n}"
  "{!glinear %f.wi @layer.1.layer_norm.mul_1 out_features=$f bias=0\n"
  "relu %f.act %f.wi\n"
  "to %f.to %f.act dtype=model\n"
  "linear %f.wo %f.to out_features=$c bias=0\n"
  "order @layer.1.layer_norm.weight\n"
  "drop @layer.1.layer_norm.mul_1\n}"
  "add @layer.1.add @layer.0.add %f.wo\n"
  "{!fdrop %x\n}";

static const char vram__t5_end[] =
  "<t5_norm|encoder.final_layer_norm|%x>"
  "drop encoder.embed_tokens"
  "{!u encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
  " encoder.block.0.layer.0.SelfAttention.permute encoder.block.0.layer.0.SelfAttention.unsqueeze_2}"
  " %x encoder.final_layer_norm.mean\n"
  "output encoder.final_layer_norm.mul_1\n";

/* clang-format on */

/* ---- classes ---- */

static uint64_t vram__denoiser_get(vram__hf_pen *w, char letter) {
  return *vram__hf_number_of(w, letter);
}

/* SD3: the middle of its positions; dual_attention_layers is a list of blocks. */
static void vram__sd3_begin(vram__hf_pen *w) {
  const vram_file_value *const norm = vram__hf_word(w, "qk_norm");
  const uint64_t most = vram__denoiser_get(w, 'm'), rows = vram__denoiser_get(w, 'u'),
                 columns = vram__denoiser_get(w, 'v');
  if (norm && !vram__hf_is_word(norm, "rms_norm"))
    vram__hf_refuse(w, "a setting whose lines are not known: ", "qk_norm");
  if (rows > most || columns > most)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "an image with more patches a side than ",
                  "pos_embed_max_size");
  if (vram__hf_number(&w->h, "caption_projection_dim", 1152) != vram__denoiser_get(w, 'c'))
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "not as wide as the heads: ", "caption_projection_dim");
  vram__diffusers_flag(w, 'q', norm != NULL);
  if (w->h.result)
    return;
  vram__diffusers_number(w, 'a', (most - rows) / 2);
  vram__diffusers_number(w, 'A', (most - rows) / 2 + rows);
  vram__diffusers_number(w, 'b', (most - columns) / 2);
  vram__diffusers_number(w, 'B', (most - columns) / 2 + columns);
}

static void vram__sd3_block(vram__hf_pen *w, uint64_t i) {
  const vram_file_value *const v = vram__hf_value(&w->h, "dual_attention_layers");
  uint64_t k;
  int is = 0;
  if (v && v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_UINT && v->array)
    for (k = 0; k < v->count; k++)
      is |= ((const uint64_t *)v->array)[k] == i;
  else if (v && v->kind != VRAM_VALUE_NULL && !(v->kind == VRAM_VALUE_ARRAY && !v->count))
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no list of numbers is the key ", "dual_attention_layers");
  vram__diffusers_flag(w, 'D', is);
}

static void vram__flux_begin(vram__hf_pen *w) {
  uint64_t all = 0, i;
  for (i = 0; i < 3; i++)
    all += 2 * vram__denoiser_get(w, "gjl"[i]);
  if (all != vram__denoiser_get(w, 'd'))
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no three axes as wide as a head: ", "axes_dims_rope");
}

/* PixArt: sizes other than those of its training have their positions computed; a model for
   1024 x 1024 takes sizes beside the timestep. */
static void vram__pixart_begin(vram__hf_pen *w) {
  const uint64_t side = vram__denoiser_get(w, 'y');
  vram__diffusers_flag(w, 'U',
                       vram__denoiser_get(w, 'u') != side || vram__denoiser_get(w, 'v') != side);
  vram__diffusers_flag(w, 'A',
                       vram__hf_bool(&w->h, "use_additional_conditions",
                                     vram__hf_number(&w->h, "sample_size", 128) == 128));
  if (vram__hf_number(&w->h, "cross_attention_dim", 1152) != vram__denoiser_get(w, 'c'))
    vram__hf_refuse(w, "a setting whose lines are not known: ", "cross_attention_dim");
}

static void vram__dit_begin(vram__hf_pen *w) {
  const uint64_t side = vram__denoiser_get(w, 'y');
  if (vram__denoiser_get(w, 'u') != side || vram__denoiser_get(w, 'v') != side)
    vram__hf_refuse(w, "its lines are known of images of its own size: ", "sample_size");
}

/* Qwen-Image: of 4,096 positions those behind the longer half of the image are the text's. */
static void vram__qwen_begin(vram__hf_pen *w) {
  const uint64_t rows = vram__denoiser_get(w, 'u') / 2, columns = vram__denoiser_get(w, 'v') / 2,
                 most = rows > columns ? rows : columns;
  vram__diffusers_number(w, 'a', most);
  vram__diffusers_number(w, 'A', most + vram__denoiser_get(w, 'S'));
}

/* T5: gelu_new with a gate, or relu without one. */
static void vram__t5_begin(vram__hf_pen *w) {
  const vram_file_value *const act = vram__hf_word(w, "feed_forward_proj");
  const int is_gated = act ? vram__hf_is_word(act, "gated-gelu") : *vram__hf_flag_of(w, 'G');
  if (act && !is_gated && !vram__hf_is_word(act, "relu"))
    vram__hf_refuse(w, "an activation whose lines are not known: ", "feed_forward_proj");
  vram__diffusers_flag(w, 'g', is_gated);
}

static void vram__t5_block(vram__hf_pen *w, uint64_t i) {
  vram__diffusers_flag(w, 'B', !i || *vram__hf_flag_of(w, 'u'));
  vram__hf_set(w, 'a', "@layer.0.SelfAttention");
  vram__hf_set(w, 'f', "@layer.1.DenseReluDense");
}

#define VRAM__T5_ROW(kind, flags, vocab, width, layers, heads)                                     \
  {                                                                                                \
    kind, flags,                                                                                   \
        "S~512 v=vocab_size:" vocab " c=d_model:512 d=d_kv:64 f=d_ff:" width " n=num_heads:" heads \
        " i=n*d b=relative_attention_num_buckets:32",                                              \
        "", vram__t5_begin, vram__t5_block, {vram__t5_head, NULL}, "encoder.embed_tokens", "", "", \
        {{"encoder.block.$Y.",                                                                     \
          "num_layers",                                                                            \
          layers,                                                                                  \
          {vram__t5_attention, vram__t5_bias, vram__t5_attend, vram__t5_forward},                  \
          "@layer.1.add",                                                                          \
          "",                                                                                      \
          ""},                                                                                     \
         {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},                                               \
        vram__t5_end, NULL, NULL                                                                   \
  }

static const vram__denoiser_row vram__denoiser_rows[] = {
    {"SD3Transformer2DModel",
     "",
     "P=patch_size:2 i=in_channels:16 o=out_channels:16 d=attention_head_dim:64 "
     "n=num_attention_heads:18 k=joint_attention_dim:4096 x=pooled_projection_dim:2048 "
     "m=pos_embed_max_size:96 S~333 h~sample_size:128 w~sample_size:128 c=n*d 2=c*2 6=c*6 9=c*9 "
     "f=c*4 u=h/P v=w/P p=u*v t=p+S M=m*m O=P*P*o r=128",
     "",
     vram__sd3_begin,
     vram__sd3_block,
     {vram__sd3_head, NULL},
     "contiguous",
     "context_embedder",
     "time_text_embed.add",
     {{"transformer_blocks.$Y.",
       "num_layers",
       18,
       {vram__sd3_norms, vram__sd3_attention, vram__sd3_middle, vram__sd3_forward},
       "@add_3",
       "@context.add_3",
       ""},
      {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},
     vram__sd3_end,
     NULL,
     NULL},
    {"FluxTransformer2DModel",
     "s",
     "i=in_channels:64 o=out_channels:i d=attention_head_dim:128 n=num_attention_heads:24 "
     "k=joint_attention_dim:4096 x=pooled_projection_dim:768 ?g=guidance_embeds:0 S~512 h~128 "
     "w~128 u=h/2 v=w/2 p=u*v t=S+p c=n*d 2=c*2 3=c*3 6=c*6 f=c*4 b=d/2 g=axes_dims_rope.0:16 "
     "g=g/2 j=axes_dims_rope.1:56 j=j/2 l=axes_dims_rope.2:56 l=l/2 O=o r=128",
     "patch_size=1",
     vram__flux_begin,
     NULL,
     {vram__flux_head, NULL},
     "x_embedder",
     "context_embedder",
     "time_text_embed.add",
     {{"transformer_blocks.$Y.",
       "num_layers",
       19,
       {vram__flux_attention, vram__sd3_forward, NULL, NULL},
       "@add_3",
       "@context.add_3",
       ""},
      {"single_transformer_blocks.$Y.",
       "num_single_layers",
       38,
       {vram__flux_single, NULL, NULL, NULL},
       "@slice_3",
       "@slice_1",
       "@add"}},
     vram__flux_end,
     NULL,
     NULL},
    {"PixArtTransformer2DModel",
     "",
     "P=patch_size:2 i=in_channels:4 o=out_channels:i d=attention_head_dim:72 "
     "n=num_attention_heads:16 k=caption_channels:0 S~120 y=sample_size:128 h~y w~y y=y/P M=y*y "
     "c=n*d 2=c*2 6=c*6 f=c*4 q=c/4 s=c/3 z=s*2 u=h/P v=w/P p=u*v O=P*P*o r=128",
     "norm_type=ada_norm_single activation_fn=gelu-approximate attention_type=default "
     "upcast_attention= norm_elementwise_affine= ",
     vram__pixart_begin,
     NULL,
     {vram__pixart_head, vram__pixart_time},
     "pos_embed.to_1",
     "",
     "{Aadaln_single.emb.add}{!Aadaln_single.emb.timestep_embedder.linear_2}",
     {{"transformer_blocks.$Y.",
       "num_layers",
       28,
       {vram__pixart_block, NULL, NULL, NULL},
       "@add_7",
       "",
       ""},
      {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},
     vram__pixart_end,
     vram__pixart_each,
     vram__pixart_out},
    {"DiTTransformer2DModel",
     "",
     "P=patch_size:2 i=in_channels:4 o=out_channels:i d=attention_head_dim:72 "
     "n=num_attention_heads:16 k=num_embeds_ada_norm:1000 k=k+1 y=sample_size:32 h~y w~y y=y/P "
     "M=y*y c=n*d 2=c*2 6=c*6 f=c*4 u=h/P v=w/P p=u*v O=P*P*o r=128",
     "norm_type=ada_norm_zero activation_fn=gelu-approximate upcast_attention= "
     "norm_elementwise_affine= ",
     vram__dit_begin,
     NULL,
     {vram__dit_head, NULL},
     "pos_embed.to",
     "",
     "transformer_blocks.0.norm1.emb",
     {{"transformer_blocks.$Y.",
       "num_layers",
       28,
       {vram__dit_block, NULL, NULL, NULL},
       "@add_3",
       "",
       ""},
      {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},
     vram__dit_end,
     NULL,
     NULL},
    {"QwenImageTransformer2DModel",
     "",
     "i=in_channels:64 o=out_channels:16 P=patch_size:2 d=attention_head_dim:128 "
     "n=num_attention_heads:24 k=joint_attention_dim:3584 S~512 h~128 w~128 u=h/2 v=w/2 p=u*v "
     "c=n*d 2=c*2 6=c*6 f=c*4 b=d/2 O=P*P*o r=128",
     "guidance_embeds= zero_cond_t= use_additional_t_cond= use_layer3d_rope=",
     vram__qwen_begin,
     NULL,
     {vram__qwen_head, NULL},
     "img_in",
     "txt_in",
     "time_text_embed.timestep_embedder.linear_2",
     {{"transformer_blocks.$Y.",
       "num_layers",
       60,
       {vram__qwen_norms, vram__qwen_attention, vram__qwen_forward, NULL},
       "@add_8",
       "@add_11",
       ""},
      {NULL, NULL, 0, {NULL}, NULL, NULL, NULL}},
     vram__qwen_end,
     NULL,
     NULL},
    VRAM__T5_ROW("T5EncoderModel", "", "32128", "2048", 6, "8"),
    VRAM__T5_ROW("MT5EncoderModel", "G", "250112", "1024", 8, "6"),
    VRAM__T5_ROW("UMT5EncoderModel", "Gu", "250112", "1024", 8, "6")};

/* ---- what the rows say ---- */

/* A word up to one of the letters in `ends`, behind it. */
static const char *vram__denoiser_word(const char *s, const char *ends, char *to, uint32_t cap) {
  uint32_t n = 0;
  while (*s && !vram__text_holds(ends, vram__text_len(ends), *s)) {
    if (n + 1 < cap)
      to[n++] = *s;
    s++;
  }
  to[n] = 0;
  return s;
}

/* A number, or what a letter stands for. */
static uint64_t vram__denoiser_operand(vram__hf_pen *w, const char **at) {
  const char *s = *at;
  uint64_t n = 0;
  if (*s >= '0' && *s <= '9') {
    for (; *s >= '0' && *s <= '9'; s++)
      n = n * 10 + (uint64_t)(*s - '0');
    *at = s;
    return n;
  }
  *at = s + 1;
  return vram__denoiser_get(w, *s);
}

/* An expression, from left to right: products are at most 2^40. */
static uint64_t vram__denoiser_expression(vram__hf_pen *w, const char *s) {
  const uint64_t most = UINT64_C(1) << 40;
  uint64_t n = vram__denoiser_operand(w, &s);
  while (*s && !w->h.result) {
    const char operation = *s++;
    const uint64_t by = vram__denoiser_operand(w, &s);
    if (operation == '/' && (!by || n % by))
      vram__hf_fail(&w->h, VRAM_ERR_VALUE, "widths or sides that cannot be divided", "");
    else if (operation == '*' && n && by > most / n)
      vram__hf_fail(&w->h, VRAM_ERR_OVERFLOW, "widths or sides that are too large", "");
    else
      n = operation == '/' ? n / by : operation == '*' ? n * by : n + by;
  }
  return n;
}

/* A key with what it is where it is missing, number i of a list behind a dot; or an expression. */
static uint64_t vram__denoiser_value(vram__hf_pen *w, const char *text) {
  char key[48], none[16];
  const char *behind = vram__denoiser_word(text, ":", key, sizeof key);
  uint32_t n = vram__text_len(key);
  if (!*behind)
    return vram__denoiser_expression(w, text);
  vram__denoiser_word(behind + 1, "", none, sizeof none);
  if (n > 2 && key[n - 2] == '.') {
    const uint64_t i = (uint64_t)(key[n - 1] - '0');
    key[n - 2] = 0;
    return vram__diffusers_each(w, key, i, vram__denoiser_expression(w, none));
  }
  return vram__hf_number(&w->h, key, vram__denoiser_expression(w, none));
}

static void vram__denoiser_numbers(vram__hf_pen *w, const char *s) {
  char text[64];
  while (*s && !w->h.result) {
    const int is_flag = *s == '?';
    const char letter = s[is_flag], how = s[is_flag + 1];
    s = vram__denoiser_word(s + is_flag + 2, " ", text, sizeof text);
    s += *s == ' ';
    if (is_flag) {
      text[vram__text_len(text) - 2] = 0; /* ":0" */
      vram__diffusers_flag(w, letter, vram__hf_bool(&w->h, text, 0));
    } else if (how == '=' || !vram__denoiser_get(w, letter))
      vram__diffusers_number(w, letter, vram__denoiser_value(w, text));
    if (!is_flag && !vram__denoiser_get(w, letter) && !w->h.result) {
      vram__denoiser_word(text, ":", text, sizeof text);
      vram__hf_fail(&w->h, VRAM_ERR_VALUE, "a width or side of 0: ", text);
    }
  }
}

static void vram__denoiser_plain(vram__hf_pen *w, const char *s) {
  char key[48], value[48];
  while (*s) {
    s = vram__denoiser_word(s, "=", key, sizeof key);
    s = vram__denoiser_word(s + 1, " ", value, sizeof value);
    s += *s == ' ';
    if (*value >= '0' && *value <= '9') {
      if (vram__hf_number(&w->h, key, (uint64_t)(*value - '0')) != (uint64_t)(*value - '0'))
        vram__hf_refuse(w, "a setting whose lines are not known: ", key);
    } else
      vram__diffusers_plain(w, key, value);
  }
}

static void vram__denoiser_stack(vram__hf_pen *w, const vram__denoiser_row *row,
                                 const vram__denoiser_blocks *b) {
  const uint64_t count = vram__hf_number(&w->h, b->count, b->none);
  uint64_t i, k;
  if (!count || count > VRAM__HF_MAX_LAYERS)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "not 1 to 4096 layers: ", b->count);
  for (i = 0; i < count && !w->h.result; i++) {
    vram__diffusers_number(w, 'Y', i);
    vram__diffusers_flag(w, 'f', !i);
    vram__diffusers_flag(w, 'l', i + 1 == count && b == row->blocks && !row->blocks[1].path);
    vram__diffusers_enter(w, b->path);
    if (row->block)
      row->block(w, i);
    for (k = 0; k < 4 && b->lines[k]; k++)
      vram__diffusers_lines(w, b->lines[k]);
    vram__hf_set(w, 'x', b->x);
    vram__hf_set(w, 'y', b->y);
    vram__hf_set(w, 'z', b->z);
  }
}

/* NULL: there is no row of the class. */
static const vram__denoiser_row *vram__denoiser_find(const vram_file_text *kind) {
  const uint32_t own = sizeof vram__denoiser_rows / sizeof *vram__denoiser_rows;
  uint32_t i;
  for (i = 0;; i++) {
    const vram__denoiser_row *const row =
        i < own ? vram__denoiser_rows + i : vram__video_row(i - own);
    if (!row || vram__text_is(kind->text, (uint32_t)kind->count, row->kind))
      return row;
  }
}

VRAM__FN vram__hf_book vram__hf_denoisers(void) {
  vram__hf_book b;
  b.part = vram__denoiser_parts;
  b.parts = sizeof vram__denoiser_parts / sizeof *vram__denoiser_parts;
  b.row = NULL;
  b.rows = 0;
  return b;
}

VRAM__FN int vram__denoiser_is(const vram_file_text *kind) {
  return vram__denoiser_find(kind) != NULL;
}

VRAM__FN void vram__denoiser_write(vram__hf_pen *w, const vram_file_text *kind,
                                   const vram_hf_sizes *sizes) {
  const vram__denoiser_row *const row = vram__denoiser_find(kind);
  uint64_t i;
  for (i = 0; row->flags[i]; i++)
    vram__diffusers_flag(w, row->flags[i], 1);
  vram__diffusers_number(w, 'S', sizes->tokens);
  vram__diffusers_number(w, 'h', sizes->height);
  vram__diffusers_number(w, 'w', sizes->width);
  vram__diffusers_number(w, 'F', sizes->frames);
  vram__denoiser_plain(w, row->plain);
  vram__denoiser_numbers(w, row->numbers);
  if (row->begin && !w->h.result)
    row->begin(w);
  if (w->h.result)
    return;
  vram__hf_set(w, 'e', row->e);
  for (i = 0; i < 2 && row->head[i]; i++)
    vram__diffusers_lines(w, row->head[i]);
  vram__hf_set(w, 'x', row->x);
  vram__hf_set(w, 'y', row->y);
  for (i = 0; i < 2 && row->blocks[i].path; i++)
    vram__denoiser_stack(w, row, row->blocks + i);
  vram__diffusers_lines(w, row->end);
  for (i = 0; row->each && i <= vram__denoiser_get(w, 'Y'); i++) {
    const uint64_t last = vram__denoiser_get(w, 'Y');
    vram__diffusers_number(w, 'Y', i);
    vram__diffusers_enter(w, row->blocks[0].path);
    vram__diffusers_lines(w, row->each);
    vram__diffusers_number(w, 'Y', last);
  }
  if (row->out)
    vram__diffusers_lines(w, row->out);
}
