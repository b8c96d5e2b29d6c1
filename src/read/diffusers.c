/* >>read/diffusers    config.json of diffusers and of its text encoders as a model in the text
   form: what a module's forward pass calls, in its order, and where Python lets go of values
   (`drop`): as diffusers 0.42 runs under torch 2.15 in eval mode
   (models/unets/unet_2d_condition.py, unet_2d_blocks.py, resnet.py, attention.py,
   autoencoders/vae.py, transformers/models/clip). */
#include "read/read.h"

/* What is put in, beside what hf_text.c says of $, %, {} and @ (the path of the module):
     $c   c channels, g groups of a norm, p tokens of an image (h*w), h and w its sizes, n heads, d
   of a head, f what a feed-forward gives, S tokens of a text %c   x a module's input, r what Python
   lets go of with a result, e the embedding of the timestep {t...} a ResNet block takes the
   timestep, {s...} it has a shortcut, {l...} linear projections  */

/* clang-format off */

static const char vram__diffusers_resnet[] =
  "group_norm @norm1 %x num_groups=$g\n"
  "silu @nonlinearity @norm1\n"
  "conv2d @conv1 @nonlinearity out_channels=$c kernel_size=3 padding=1\n"
  "{tsilu @nonlinearity_1 %e\n"
  "linear @time_emb_proj @nonlinearity_1 out_features=$c\n"
  "slice @slice @time_emb_proj dim=0 colon=1\n"
  "slice @slice_1 @slice dim=1 colon=1\n"
  "unsqueeze @unsqueeze @slice_1 dim=2\n"
  "unsqueeze @unsqueeze_1 @unsqueeze dim=3\n"
  "drop @nonlinearity_1\n"
  "add @add @conv1 @unsqueeze_1\n}"
  "group_norm @norm2 {t@add}{!t@conv1} num_groups=$g\n"
  "silu @nonlinearity_2 @norm2\n"
  "conv2d @conv2 @nonlinearity_2 out_channels=$c kernel_size=3 padding=1\n"
  "{sconv2d @conv_shortcut %x out_channels=$c kernel_size=1\n}"
  "add @add_1 {s@conv_shortcut}{!s%x} @conv2\n"
  "div @div @add_1 scalar=1\n"
  "drop%r{t @time_emb_proj @unsqueeze_1} @conv2{s @conv_shortcut}\n";

/* Transformer2DModel: a convolution or a linear layer before and behind the blocks */
static const char vram__diffusers_spatial[] =
  "group_norm @norm %x num_groups=$g\n"
  "{!lconv2d @proj_in @norm out_channels=$c kernel_size=1\n}"
  "permute @permute {l@norm}{!l@proj_in} dims=0,2,3,1\n"
  "reshape @reshape @permute shape=[N,$p,$c]\n"
  "{llinear @proj_in @reshape out_features=$c\n"
  "drop @norm @permute\n}";

static const char vram__diffusers_spatial_end[] =
  "{llinear @proj_out %x out_features=$c\n}"
  "reshape @reshape_1 {l@proj_out}{!l%x} shape=[N,$h,$w,$c]\n"
  "permute @permute_1 @reshape_1 dims=0,3,1,2\n"
  "contiguous @contiguous @permute_1\n"
  "drop{l @proj_out} @reshape_1\n"
  "{!lconv2d @proj_out @contiguous out_channels=$c kernel_size=1\n}"
  "add @add {l@contiguous}{!l@proj_out} %i\n"
  "drop%r %x\n";

/* BasicTransformerBlock; the names of what AttnProcessor2_0 makes begin with %a */
static const char vram__diffusers_attention[] =
  "linear %ato_q %m out_features=$c bias=0\n"
  "linear %ato_k %k out_features=$c bias=0\n"
  "linear %ato_v %k out_features=$c bias=0\n"
  "view %aview %ato_q shape=[N,$p,$n,$d]\n"
  "transpose %atranspose %aview dim0=1 dim1=2\n"
  "view %aview_1 %ato_k shape=[N,$t,$n,$d]\n"
  "transpose %atranspose_1 %aview_1 dim0=1 dim1=2\n"
  "view %aview_2 %ato_v shape=[N,$t,$n,$d]\n"
  "transpose %atranspose_2 %aview_2 dim0=1 dim1=2\n"
  "scaled_dot_product_attention %asdpa %atranspose %atranspose_1 %atranspose_2\n"
  "transpose %atranspose_3 %asdpa dim0=1 dim1=2\n"
  "reshape %areshape %atranspose_3 shape=[N,$p,$c]\n"
  "drop %asdpa\n"
  "type_as %ato %areshape %atranspose\n"
  "linear %ato_out.0 %ato out_features=$c\n"
  "div %adiv %ato_out.0 scalar=1\n"
  "drop%q %ato_q %ato_k %ato_v %aview %atranspose %aview_1 %atranspose_1 %aview_2 %atranspose_2\n";

static const char vram__diffusers_feed_forward[] =
  "layer_norm @norm3 @add_1 normalized_shape=$c\n"
  "drop @norm2\n"
  "linear @ff.net.0.proj @norm3 out_features=$f\n"
  "chunk @ff.net.0.chunk.0,@ff.net.0.chunk.1 @ff.net.0.proj chunks=2 dim=-1\n"
  "gelu @ff.net.0.gelu @ff.net.0.chunk.1\n"
  "mul @ff.net.0.mul @ff.net.0.chunk.0 @ff.net.0.gelu\n"
  "drop @ff.net.0.proj @ff.net.0.chunk.1\n"
  "linear @ff.net.2 @ff.net.0.mul out_features=$c\n"
  "add @add_2 @ff.net.2 @add_1\n";

/* get_timestep_embedding with flip_sin_to_cos, and TimestepEmbedding: of the timestep */
static const char vram__diffusers_time[] =
  "input sample model [N,$i,$h,$w]\n"
  "input timestep i64 []\n"
  "input encoder_hidden_states model [N,$S,$k]\n"
  "{Xinput text_embeds model [N,$x]\n"
  "input time_ids model [N,6]\n}"
  "unsqueeze unsqueeze timestep dim=0\n"
  "view to unsqueeze shape=[1]\n"
  "expand expand to shape=[N]\n"
  "arange time_proj.arange shape=[$r]\n"
  "mul time_proj.mul time_proj.arange scalar=1\n"
  "div time_proj.div time_proj.mul scalar=1\n"
  "exp time_proj.exp time_proj.div\n"
  "slice time_proj.slice expand dim=0 colon=1\n"
  "unsqueeze time_proj.unsqueeze time_proj.slice dim=1\n"
  "to time_proj.to time_proj.unsqueeze dtype=f32\n"
  "unsqueeze time_proj.unsqueeze_1 time_proj.exp dim=0\n"
  "slice time_proj.slice_1 time_proj.unsqueeze_1 dim=1 colon=1\n"
  "mul time_proj.mul_1 time_proj.to time_proj.slice_1\n"
  "drop time_proj.exp\n"
  "mul time_proj.mul_2 time_proj.mul_1 scalar=1\n"
  "sin time_proj.sin time_proj.mul_2\n"
  "cos time_proj.cos time_proj.mul_2\n"
  "cat time_proj.cat time_proj.sin time_proj.cos dim=-1\n"
  "drop time_proj.mul_2\n"
  "slice time_proj.slice_2 time_proj.cat dim=0 colon=1\n"
  "slice time_proj.slice_3 time_proj.slice_2 dim=1 start=$r\n"
  "slice time_proj.slice_4 time_proj.cat dim=0 colon=1\n"
  "slice time_proj.slice_5 time_proj.slice_4 dim=1 end=$r\n"
  "cat time_proj.cat_1 time_proj.slice_3 time_proj.slice_5 dim=-1\n"
  "drop time_proj.div time_proj.cat\n"
  "to to_1 time_proj.cat_1 dtype=model\n"
  "drop to expand\n"
  "linear time_embedding.linear_1 to_1 out_features=$T\n"
  "silu time_embedding.act time_embedding.linear_1\n"
  "linear time_embedding.linear_2 time_embedding.act out_features=$T\n";

/* text_time of SDXL: sizes and the pooled text beside the timestep */
static const char vram__diffusers_added[] =
  "flatten flatten time_ids\n"
  "arange add_time_proj.arange shape=[$z]\n"
  "mul add_time_proj.mul add_time_proj.arange scalar=1\n"
  "div add_time_proj.div add_time_proj.mul scalar=1\n"
  "exp add_time_proj.exp add_time_proj.div\n"
  "slice add_time_proj.slice flatten dim=0 colon=1\n"
  "unsqueeze add_time_proj.unsqueeze add_time_proj.slice dim=1\n"
  "to add_time_proj.to add_time_proj.unsqueeze dtype=f32\n"
  "unsqueeze add_time_proj.unsqueeze_1 add_time_proj.exp dim=0\n"
  "slice add_time_proj.slice_1 add_time_proj.unsqueeze_1 dim=1 colon=1\n"
  "mul add_time_proj.mul_1 add_time_proj.to add_time_proj.slice_1\n"
  "drop add_time_proj.exp\n"
  "mul add_time_proj.mul_2 add_time_proj.mul_1 scalar=1\n"
  "sin add_time_proj.sin add_time_proj.mul_2\n"
  "cos add_time_proj.cos add_time_proj.mul_2\n"
  "cat add_time_proj.cat add_time_proj.sin add_time_proj.cos dim=-1\n"
  "drop add_time_proj.mul_2\n"
  "slice add_time_proj.slice_2 add_time_proj.cat dim=0 colon=1\n"
  "slice add_time_proj.slice_3 add_time_proj.slice_2 dim=1 start=$z\n"
  "slice add_time_proj.slice_4 add_time_proj.cat dim=0 colon=1\n"
  "slice add_time_proj.slice_5 add_time_proj.slice_4 dim=1 end=$z\n"
  "cat add_time_proj.cat_1 add_time_proj.slice_3 add_time_proj.slice_5 dim=-1\n"
  "drop flatten add_time_proj.div add_time_proj.cat\n"
  "reshape reshape add_time_proj.cat_1 shape=[N,$y]\n"
  "cat cat text_embeds reshape dim=-1\n"
  "type_as to_2 cat time_embedding.linear_2\n"
  "linear add_embedding.linear_1 to_2 out_features=$T\n"
  "silu add_embedding.act add_embedding.linear_1\n"
  "linear add_embedding.linear_2 add_embedding.act out_features=$T\n"
  "drop add_time_proj.cat_1 reshape to_2\n"
  "add add time_embedding.linear_2 add_embedding.linear_2\n";

static const char vram__diffusers_unet_end[] =
  "group_norm conv_norm_out %x num_groups=$g\n"
  "silu conv_act conv_norm_out\n"
  "conv2d conv_out conv_act out_channels=$o kernel_size=3 padding=1\n"
  "drop to_1{X add_embedding.linear_2} %e";

/* Attention of a VAE's middle: one head */
static const char vram__diffusers_middle[] =
  "view @view %x shape=[N,$c,$p]\n"
  "transpose @transpose @view dim0=1 dim1=2\n"
  "transpose @transpose_1 @transpose dim0=1 dim1=2\n"
  "group_norm @group_norm @transpose_1 num_groups=$g\n"
  "transpose @transpose_2 @group_norm dim0=1 dim1=2\n"
  "drop @view @transpose\n"
  "linear @to_q @transpose_2 out_features=$c\n"
  "linear @to_k @transpose_2 out_features=$c\n"
  "linear @to_v @transpose_2 out_features=$c\n"
  "view @view_1 @to_q shape=[N,$p,1,$c]\n"
  "transpose @transpose_3 @view_1 dim0=1 dim1=2\n"
  "view @view_2 @to_k shape=[N,$p,1,$c]\n"
  "transpose @transpose_4 @view_2 dim0=1 dim1=2\n"
  "view @view_3 @to_v shape=[N,$p,1,$c]\n"
  "transpose @transpose_5 @view_3 dim0=1 dim1=2\n"
  "scaled_dot_product_attention @sdpa @transpose_3 @transpose_4 @transpose_5\n"
  "transpose @transpose_6 @sdpa dim0=1 dim1=2\n"
  "reshape @reshape @transpose_6 shape=[N,$p,$c]\n"
  "type_as @to @reshape @transpose_3\n"
  "drop @sdpa @transpose_6\n"
  "linear @to_out.0 @to out_features=$c\n"
  "transpose @transpose_7 @to_out.0 dim0=-1 dim1=-2\n"
  "reshape @reshape_1 @transpose_7 shape=[N,$c,$h,$w]\n"
  "add @add @reshape_1 %x\n"
  "drop @to_out.0 @transpose_7\n"
  "div @div @add scalar=1\n"
  "drop %x @group_norm @transpose_2 @to_q @to_k @to_v @view_1 @transpose_3 @view_2 @transpose_4 "
  "@view_3 @transpose_5\n";

/* CLIPTextModel: before the layers, a layer, behind them */
static const char vram__diffusers_clip[] =
  "input input_ids i64 [N,$S]\n"
  "view view input_ids shape=[N,$S]\n"
  "buffer embeddings.position_ids shape=[1,$m] dtype=i64\n"
  "slice embeddings.slice embeddings.position_ids dim=0 colon=1\n"
  "{mslice embeddings.slice_1 embeddings.slice dim=1 end=$S\n}"
  "expand embeddings.alias {membeddings.slice_1}{!membeddings.slice} shape=[1,$S]\n"
  "embedding embeddings.token_embedding view num_embeddings=$v embedding_dim=$c\n"
  "embedding embeddings.position_embedding embeddings.alias num_embeddings=$m embedding_dim=$c\n"
  "add embeddings.add embeddings.token_embedding embeddings.position_embedding\n"
  "drop embeddings.alias\n";

static const char vram__diffusers_clip_layer[] =
  "layer_norm @layer_norm1 %x normalized_shape=$c\n"
  "linear @self_attn.q_proj @layer_norm1 out_features=$c\n"
  "linear @self_attn.k_proj @layer_norm1 out_features=$c\n"
  "linear @self_attn.v_proj @layer_norm1 out_features=$c\n"
  "order @self_attn.q_proj\n"
  "view @self_attn.view @self_attn.q_proj shape=[N,$S,$n,$d]\n"
  "transpose @self_attn.transpose @self_attn.view dim0=1 dim1=2\n"
  "view @self_attn.view_1 @self_attn.k_proj shape=[N,$S,$n,$d]\n"
  "transpose @self_attn.transpose_1 @self_attn.view_1 dim0=1 dim1=2\n"
  "view @self_attn.view_2 @self_attn.v_proj shape=[N,$S,$n,$d]\n"
  "transpose @self_attn.transpose_2 @self_attn.view_2 dim0=1 dim1=2\n"
  "scaled_dot_product_attention @self_attn.sdpa @self_attn.transpose @self_attn.transpose_1 "
  "@self_attn.transpose_2 is_causal=1\n"
  "reshape @self_attn.reshape @self_attn.sdpa shape=[N,$n,$S,$d]\n"
  "transpose @self_attn.transpose_3 @self_attn.reshape dim0=1 dim1=2\n"
  "contiguous @self_attn.contiguous @self_attn.transpose_3\n"
  "drop @self_attn.sdpa @self_attn.reshape\n"
  "reshape @self_attn.reshape_1 @self_attn.contiguous shape=[N,$S,$c]\n"
  "contiguous @self_attn.contiguous_1 @self_attn.reshape_1\n"
  "drop @self_attn.contiguous\n"
  "linear @self_attn.out_proj @self_attn.contiguous_1 out_features=$c\n"
  "order @layer_norm1\n"
  "drop @layer_norm1 @self_attn.q_proj @self_attn.k_proj @self_attn.v_proj @self_attn.view "
  "@self_attn.transpose @self_attn.view_1 @self_attn.transpose_1 @self_attn.view_2 "
  "@self_attn.transpose_2\n"
  "add @add %x @self_attn.out_proj\n"
  "layer_norm @layer_norm2 @add normalized_shape=$c\n"
  "linear @mlp.fc1 @layer_norm2 out_features=$f\n"
  "{qmul @mlp.activation_fn.mul @mlp.fc1 scalar=1\n"
  "sigmoid @mlp.activation_fn.sigmoid @mlp.activation_fn.mul\n"
  "mul @mlp.activation_fn.mul_1 @mlp.fc1 @mlp.activation_fn.sigmoid\n}"
  "{!qgelu @mlp.activation_fn.gelu @mlp.fc1\n}"
  "linear @mlp.fc2 @mlp.activation_fn.{qmul_1}{!qgelu} out_features=$c\n"
  "order @layer_norm2\n"
  "drop @layer_norm2\n"
  "add @add_1 @add @mlp.fc2\n";

static const char vram__diffusers_clip_end[] =
  "layer_norm final_layer_norm %x normalized_shape=$c\n"
  "arange arange shape=[N] dtype=i64\n"
  "to to view dtype=i32\n"
  "{Eeq eq to scalar=1\n"
  "to to_1 eq dtype=i32\n}"
  "argmax argmax {Eto_1}{!Eto} dim=-1\n"
  "index index final_layer_norm arange argmax\n"
  "drop view embeddings.add %x\n"
  "{jlinear text_projection index out_features=$P bias=0\n}"
  "output final_layer_norm {jtext_projection}{!jindex}\n";
/* clang-format on */

/* ---- what a config.json says ---- */

/* Number i of a key that is one number for all blocks or a list of them. */
VRAM__FN uint64_t vram__diffusers_each(vram__hf_pen *w, const char *key, uint64_t i,
                                       uint64_t none) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  if (!v || v->kind != VRAM_VALUE_ARRAY)
    return vram__hf_number(&w->h, key, none);
  if (v->of == VRAM_VALUE_UINT && v->array && i < v->count) {
    const uint64_t n = ((const uint64_t *)v->array)[i];
    if (n && n <= UINT32_C(0xFFFFF))
      return n;
  }
  vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no list of a number for each block is the key ", key);
  return none;
}

/* How many blocks a list of types or channels has; 0: error. */
static uint64_t vram__diffusers_count(vram__hf_pen *w, const char *key) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  if (v && v->kind == VRAM_VALUE_ARRAY && v->array && v->count <= VRAM__DIFFUSERS_BLOCKS)
    return v->count;
  vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no list of at most 8 blocks is the key ", key);
  return 0;
}

/* Is block i of a type with attention? Neither that nor the plain one: error. */
static int vram__diffusers_attends(vram__hf_pen *w, const char *key, uint64_t i, const char *with,
                                   const char *without) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  if (v && v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_TEXT && v->array && i < v->count) {
    const vram_file_text *const t = (const vram_file_text *)v->array + i;
    if (*with && vram__text_is(t->text, (uint32_t)t->count, with))
      return 1;
    if (vram__text_is(t->text, (uint32_t)t->count, without))
      return 0;
  }
  vram__hf_refuse(w, "a block whose lines are not known: ", key);
  return 0;
}

/* A key must be missing, null, false, or say `plain`. */
VRAM__FN void vram__diffusers_plain(vram__hf_pen *w, const char *key, const char *plain) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  if (!v || v->kind == VRAM_VALUE_NULL || (v->kind == VRAM_VALUE_BOOL && !v->number.u) ||
      (v->kind == VRAM_VALUE_TEXT && vram__hf_is_word(v, plain)))
    return;
  vram__hf_refuse(w, "a setting whose lines are not known: ", key);
}

/* The path of the module that the next lines are of. */
VRAM__FN void vram__diffusers_enter(vram__hf_pen *w, const char *path) {
  vram__hf_target t;
  t.to = w->path;
  t.cap = sizeof w->path;
  t.n = 0;
  *t.to = 0;
  vram__hf_say(w, &t, path, "");
}

VRAM__FN void vram__diffusers_lines(vram__hf_pen *w, const char *lines) {
  vram__hf_say(w, NULL, lines, "");
}

VRAM__FN void vram__diffusers_number(vram__hf_pen *w, char name, uint64_t n) {
  *vram__hf_number_of(w, name) = n;
}

VRAM__FN void vram__diffusers_flag(vram__hf_pen *w, char name, int is) {
  *vram__hf_flag_of(w, name) = (uint8_t)is;
}

static void vram__diffusers_image(vram__hf_pen *w, uint64_t height, uint64_t width) {
  vram__diffusers_number(w, 'h', height);
  vram__diffusers_number(w, 'w', width);
  vram__diffusers_number(w, 'p', height * width);
}

/* ---- blocks ---- */

/* A ResNet block of %B; it takes %x and leaves its result there. */
static void vram__diffusers_resnet_write(vram__hf_pen *w, uint64_t j, uint64_t in, uint64_t out) {
  vram__diffusers_number(w, 'j', j);
  vram__diffusers_number(w, 'c', out);
  vram__diffusers_flag(w, 's', in != out);
  vram__diffusers_enter(w, "%B.resnets.$j.");
  vram__diffusers_lines(w, vram__diffusers_resnet);
  vram__hf_set(w, 'x', "@div");
  vram__hf_set(w, 'r', "");
}

static void vram__diffusers_attend(vram__hf_pen *w, const char *module, const char *keys,
                                   uint64_t tokens) {
  vram__hf_set(w, 'a', module);
  vram__hf_set(w, 'k', keys);
  vram__diffusers_number(w, 't', tokens);
  vram__diffusers_lines(w, vram__diffusers_attention);
}

/* A Transformer2DModel of %B with so many blocks, of %x. */
static void vram__diffusers_spatial_write(vram__hf_pen *w, uint64_t j, uint64_t blocks,
                                          uint64_t heads) {
  static const char module[] = "%B.attentions.$j.",
                    block[] = "%B.attentions.$j.transformer_blocks.$l.";
  const uint64_t c = *vram__hf_number_of(w, 'c');
  uint64_t i;
  if (!heads || c % heads) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE,
                  "channels that heads do not divide: ", "attention_head_dim");
    return;
  }
  vram__diffusers_number(w, 'j', j);
  vram__diffusers_number(w, 'n', heads);
  vram__diffusers_number(w, 'd', c / heads);
  vram__diffusers_number(w, 'f', 8 * c);
  vram__diffusers_enter(w, module);
  vram__hf_set(w, 'i', "%x");
  vram__diffusers_lines(w, vram__diffusers_spatial);
  vram__hf_set(w, 'x', "{l@proj_in}{!l@reshape}");
  for (i = 0; i < blocks && !w->h.result; i++) {
    vram__diffusers_number(w, 'l', i);
    vram__diffusers_enter(w, block);
    vram__diffusers_lines(w, "layer_norm @norm1 %x normalized_shape=$c\n");
    vram__hf_set(w, 'm', "@norm1");
    vram__hf_set(w, 'q', "");
    vram__diffusers_attend(w, "@attn1.", "@norm1", *vram__hf_number_of(w, 'p'));
    vram__diffusers_lines(w, "add @add @attn1.div %x\n"
                             "layer_norm @norm2 @add normalized_shape=$c\n"
                             "drop @norm1\n");
    vram__hf_set(w, 'm', "@norm2");
    vram__hf_set(w, 'q', " @attn1.div");
    vram__diffusers_attend(w, "@attn2.", "encoder_hidden_states", *vram__hf_number_of(w, 'S'));
    vram__diffusers_lines(w, "add @add_1 @attn2.div @add\n");
    vram__diffusers_lines(w, vram__diffusers_feed_forward);
    vram__diffusers_enter(w, module);
    vram__diffusers_lines(w, i ? "drop %x" : "drop @proj_in{!l @permute @reshape}");
    vram__diffusers_enter(w, block);
    vram__diffusers_lines(w, " @attn2.div @norm3\n");
    vram__hf_set(w, 'x', "@add_2");
  }
  vram__diffusers_enter(w, module);
  vram__diffusers_lines(w, vram__diffusers_spatial_end);
  vram__hf_set(w, 'x', "@add");
  vram__hf_set(w, 'r', "");
}

/* ---- UNet2DConditionModel ---- */

typedef struct vram__unet {
  vram__hf_pen *w;
  uint64_t blocks, skips;                       /* skips: what the way down leaves for the way up */
  uint64_t channels[VRAM__DIFFUSERS_SKIPS];     /* of each */
  uint64_t height[VRAM__DIFFUSERS_BLOCKS + 1u]; /* of each level */
  uint64_t width[VRAM__DIFFUSERS_BLOCKS + 1u];
} vram__unet;

static void vram__unet_push(vram__unet *u, uint64_t channels) {
  vram__hf_pen *const w = u->w;
  if (u->skips == VRAM__DIFFUSERS_SKIPS) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "too many layers in a block: ", "layers_per_block");
    return;
  }
  vram__memory_copy(w->skip[u->skips], vram__hf_name_of(w, 'x'), VRAM__HF_PATH);
  u->channels[u->skips++] = channels;
}

/* What the way down has left, from the last one on: `count` of them are let go of. */
static void vram__unet_drop(vram__unet *u, uint64_t count) {
  uint64_t i;
  for (i = 0; i < count; i++) {
    vram__hf_put(u->w, " ", 1);
    vram__hf_put(u->w, u->w->skip[u->skips + i], vram__text_len(u->w->skip[u->skips + i]));
  }
}

static uint64_t vram__unet_heads(vram__hf_pen *w, uint64_t i) {
  return vram__diffusers_each(w, "attention_head_dim", i, 8); /* it is their number */
}

static uint64_t vram__unet_depth(vram__hf_pen *w, uint64_t i) {
  const uint64_t depth = vram__diffusers_each(w, "transformer_layers_per_block", i, 1);
  if (!depth || depth > VRAM__DIFFUSERS_DEPTH)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE,
                  "no transformer of 1 to 64 blocks: ", "transformer_layers_per_block");
  return depth;
}

static void vram__unet_down(vram__unet *u) {
  vram__hf_pen *const w = u->w;
  uint64_t i, j, c = vram__diffusers_each(w, "block_out_channels", 0, 320);
  for (i = 0; i < u->blocks && !w->h.result; i++) {
    const int attends =
        vram__diffusers_attends(w, "down_block_types", i, "CrossAttnDownBlock2D", "DownBlock2D");
    const uint64_t out = vram__diffusers_each(w, "block_out_channels", i, 320),
                   layers = vram__diffusers_each(w, "layers_per_block", i, 2);
    if (!layers)
      vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no layers in a block: ", "layers_per_block");
    vram__diffusers_number(w, 'b', i);
    vram__hf_set(w, 'B', "down_blocks.$b");
    vram__diffusers_image(w, u->height[i], u->width[i]);
    for (j = 0; j < layers && !w->h.result; j++) {
      vram__diffusers_resnet_write(w, j, c, out);
      if (attends)
        vram__diffusers_spatial_write(w, j, vram__unet_depth(w, i), vram__unet_heads(w, i));
      vram__unet_push(u, c = out);
    }
    if (i + 1 == u->blocks)
      continue;
    vram__diffusers_lines(w, "conv2d %B.downsamplers.0.conv %x out_channels=$c kernel_size=3 "
                             "stride=2 padding=1\n");
    vram__hf_set(w, 'x', "%B.downsamplers.0.conv");
    vram__unet_push(u, c);
  }
}

static void vram__unet_middle(vram__unet *u) {
  vram__hf_pen *const w = u->w;
  const uint64_t last = u->blocks - 1, c = u->channels[u->skips - 1];
  vram__hf_set(w, 'B', "mid_block");
  vram__diffusers_resnet_write(w, 0, c, c);
  vram__diffusers_spatial_write(w, 0, vram__unet_depth(w, last), vram__unet_heads(w, last));
  vram__hf_set(w, 'r', " %x");
  vram__diffusers_resnet_write(w, 1, c, c);
}

/* Block i from the bottom: `sample` holds what it takes (%y) up to its end. */
static uint64_t vram__unet_up_block(vram__unet *u, uint64_t i, uint64_t c) {
  vram__hf_pen *const w = u->w;
  const uint64_t at = u->blocks - 1 - i, out = vram__diffusers_each(w, "block_out_channels", at, 0),
                 layers = vram__diffusers_each(w, "layers_per_block", at, 2) + 1;
  const int attends =
      vram__diffusers_attends(w, "up_block_types", i, "CrossAttnUpBlock2D", "UpBlock2D");
  uint64_t j;
  vram__diffusers_number(w, 'b', i);
  vram__hf_set(w, 'B', "up_blocks.$b");
  vram__hf_set(w, 'y', "%x");
  vram__diffusers_image(w, u->height[at], u->width[at]);
  for (j = 0; j < layers && u->skips && !w->h.result; j++) {
    const int ends = !at && j + 1 == layers;
    vram__diffusers_number(w, 'j', j);
    vram__diffusers_flag(w, 'j', j != 0);
    vram__memory_copy(vram__hf_name_of(w, 'k'), w->skip[--u->skips], VRAM__HF_PATH);
    vram__diffusers_lines(w, "cat %B.cat{j_$j} %x %k dim=1\n");
    vram__hf_set(w, 'x', "%B.cat{j_$j}");
    vram__hf_set(w, 'r', ends && !attends ? " %y %x" : " %x");
    vram__diffusers_resnet_write(w, j, c + u->channels[u->skips], out);
    vram__hf_set(w, 'r', ends ? " %y" : "");
    if (attends)
      vram__diffusers_spatial_write(w, j, vram__unet_depth(w, at), vram__unet_heads(w, at));
    c = out;
  }
  if (!at)
    return layers;
  vram__diffusers_image(w, u->height[at - 1], u->width[at - 1]);
  vram__diffusers_lines(w, "interpolate %B.upsamplers.0.interpolate %x size=$h,$w\n"
                           "conv2d %B.upsamplers.0.conv %B.upsamplers.0.interpolate "
                           "out_channels=$c kernel_size=3 padding=1\n"
                           "drop");
  vram__unet_drop(u, layers);
  vram__diffusers_lines(w, " %y %x\n");
  vram__hf_set(w, 'x', "%B.upsamplers.0.conv");
  return layers;
}

/* What no line above is of. */
static void vram__unet_check(vram__hf_pen *w) {
  static const char *const key[][2] = {{"class_embed_type", ""},
                                       {"num_class_embeds", ""},
                                       {"encoder_hid_dim", ""},
                                       {"num_attention_heads", ""},
                                       {"only_cross_attention", ""},
                                       {"dual_cross_attention", ""},
                                       {"encoder_hid_dim_type", ""},
                                       {"time_cond_proj_dim", ""},
                                       {"time_embedding_act_fn", ""},
                                       {"timestep_post_act", ""},
                                       {"cross_attention_norm", ""},
                                       {"resnet_skip_time_act", ""},
                                       {"center_input_sample", ""},
                                       {"reverse_transformer_layers_per_block", ""},
                                       {"resnet_time_scale_shift", "default"},
                                       {"time_embedding_type", "positional"},
                                       {"attention_type", "default"},
                                       {"act_fn", "silu"},
                                       {"mid_block_type", "UNetMidBlock2DCrossAttn"},
                                       {"addition_embed_type", "text_time"}};
  static const struct {
    const char *key;
    uint32_t size;
  } kernel[] = {{"conv_in_kernel", 3}, {"conv_out_kernel", 3}, {"downsample_padding", 1}};
  const vram_file_value *const middle = vram__hf_value(&w->h, "mid_block_type");
  size_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++)
    vram__diffusers_plain(w, key[i][0], key[i][1]);
  for (i = 0; i < sizeof kernel / sizeof *kernel; i++)
    if (vram__hf_number(&w->h, kernel[i].key, kernel[i].size) != kernel[i].size)
      vram__hf_refuse(w, "a setting whose lines are not known: ", kernel[i].key);
  if (middle && middle->kind == VRAM_VALUE_NULL) /* there is none */
    vram__hf_refuse(w, "a setting whose lines are not known: ", "mid_block_type");
  if (!vram__hf_bool(&w->h, "flip_sin_to_cos", 1))
    vram__hf_refuse(w, "a setting whose lines are not known: ", "flip_sin_to_cos");
}

/* Numbers before the first block. */
static void vram__unet_begin(vram__unet *u, const vram_hf_sizes *sizes) {
  vram__hf_pen *const w = u->w;
  vram__hf *const h = &w->h;
  const uint64_t c = vram__diffusers_each(w, "block_out_channels", 0, 320),
                 time = vram__hf_number(h, "time_embedding_dim", 0),
                 each = vram__hf_number(h, "addition_time_embed_dim", 0),
                 all = vram__hf_number(h, "projection_class_embeddings_input_dim", 0);
  const vram_file_value *const added = vram__hf_word(w, "addition_embed_type");
  uint64_t i;
  u->blocks = vram__diffusers_count(w, "down_block_types");
  vram__unet_check(w);
  if (!u->blocks || vram__diffusers_count(w, "block_out_channels") != u->blocks ||
      vram__diffusers_count(w, "up_block_types") != u->blocks)
    vram__hf_fail(h, VRAM_ERR_VALUE, "not as many blocks up as down: ", "up_block_types");
  if (!c || c % 2)
    vram__hf_fail(h, VRAM_ERR_VALUE, "no even number of channels first: ", "block_out_channels");
  u->height[0] = sizes->height ? sizes->height : vram__diffusers_each(w, "sample_size", 0, 64);
  u->width[0] = sizes->width ? sizes->width : vram__diffusers_each(w, "sample_size", 1, 64);
  for (i = 0; i < u->blocks; i++) {
    u->height[i + 1] = (u->height[i] + 1) / 2;
    u->width[i + 1] = (u->width[i] + 1) / 2;
  }
  if (!u->height[0] || !u->width[0] || u->height[0] > UINT32_C(0xFFFF) ||
      u->width[0] > UINT32_C(0xFFFF))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no image has so many ", "rows or columns");
  if (added && (all <= 6 * each || each % 2 || !each))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no widths of added embeddings: ", "addition_time_embed_dim");
  vram__diffusers_flag(w, 'X', added != NULL);
  vram__diffusers_flag(w, 't', 1);
  vram__diffusers_flag(w, 'l', vram__hf_bool(h, "use_linear_projection", 0));
  vram__diffusers_image(w, u->height[0], u->width[0]);
  vram__diffusers_number(w, 'i', vram__hf_number(h, "in_channels", 4));
  vram__diffusers_number(w, 'o', vram__hf_number(h, "out_channels", 4));
  vram__diffusers_number(w, 'k', vram__diffusers_each(w, "cross_attention_dim", 0, 1280));
  vram__diffusers_number(w, 'g', vram__hf_number(h, "norm_num_groups", 32));
  vram__diffusers_number(w, 'S', sizes->tokens ? sizes->tokens : 77);
  vram__diffusers_number(w, 'c', c);
  vram__diffusers_number(w, 'r', c / 2);
  vram__diffusers_number(w, 'T', time ? time : 4 * c);
  vram__diffusers_number(w, 'x', all - 6 * each);
  vram__diffusers_number(w, 'y', 6 * each);
  vram__diffusers_number(w, 'z', each / 2);
}

static void vram__unet_write(vram__hf_pen *w, const vram_hf_sizes *sizes) {
  vram__unet u;
  uint64_t i, left = 0, c;
  vram__memory_zero(&u, sizeof u);
  u.w = w;
  vram__unet_begin(&u, sizes);
  if (w->h.result)
    return;
  vram__diffusers_lines(w, vram__diffusers_time);
  if (*vram__hf_flag_of(w, 'X'))
    vram__diffusers_lines(w, vram__diffusers_added);
  vram__hf_set(w, 'e', "{Xadd}{!Xtime_embedding.linear_2}");
  vram__diffusers_lines(w, "conv2d conv_in sample out_channels=$c kernel_size=3 padding=1\n"
                           "order time_embedding.linear_1 time_embedding.linear_2"
                           "{X add_embedding.linear_1 add_embedding.linear_2}\n");
  vram__hf_set(w, 'x', "conv_in");
  vram__unet_push(&u, *vram__hf_number_of(w, 'c'));
  vram__unet_down(&u);
  if (!w->h.result)
    vram__unet_middle(&u);
  for (i = 0; i < u.blocks && !w->h.result; i++) {
    c = *vram__hf_number_of(w, 'c');
    left = vram__unet_up_block(&u, i, c);
  }
  if (u.skips)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "not as many blocks up as down: ", "up_block_types");
  if (w->h.result)
    return;
  vram__diffusers_lines(w, vram__diffusers_unet_end);
  vram__unet_drop(&u, left);
  vram__diffusers_lines(w, "\noutput conv_out\n");
}

/* ---- AutoencoderKL ---- */

/* %B of %x, which its caller holds (%y) up to its end; a sampler behind all but the last one. */
static void vram__vae_block(vram__hf_pen *w, uint64_t in, uint64_t layers, const char *sampler) {
  const uint64_t out = *vram__hf_number_of(w, 'c');
  uint64_t j;
  vram__hf_set(w, 'y', "%x");
  for (j = 0; j < layers && !w->h.result; j++) {
    vram__hf_set(w, 'r', *sampler || j + 1 < layers ? (j ? " %x" : "") : (j ? " %y %x" : " %x"));
    vram__diffusers_resnet_write(w, j, j ? out : in, out);
  }
  if (!*sampler)
    return;
  vram__diffusers_lines(w, sampler);
  vram__diffusers_lines(w, "drop %y %x\n");
  vram__hf_set(w, 'x', "%s");
}

static void vram__vae_middle(vram__hf_pen *w, uint64_t c) {
  vram__hf_set(w, 'y', "%x");
  vram__hf_set(w, 'r', "");
  vram__diffusers_resnet_write(w, 0, c, c);
  if (vram__hf_bool(&w->h, "mid_block_add_attention", 1)) {
    vram__diffusers_enter(w, "%B.attentions.0.");
    vram__diffusers_lines(w, vram__diffusers_middle);
    vram__hf_set(w, 'x', "@div");
  }
  vram__hf_set(w, 'r', " %y %x");
  vram__diffusers_resnet_write(w, 1, c, c);
}

/* encode() up to its parameters; channels: of each block. */
static void vram__vae_encode(vram__hf_pen *w, const uint64_t *channels, uint64_t blocks,
                             uint64_t layers) {
  uint64_t i, h = *vram__hf_number_of(w, 'h'), v = *vram__hf_number_of(w, 'w');
  vram__diffusers_number(w, 'c', channels[0]);
  vram__diffusers_lines(w, "input sample model [N,$I,$h,$w]\n"
                           "conv2d encoder.conv_in sample out_channels=$c kernel_size=3 "
                           "padding=1\n");
  vram__hf_set(w, 'x', "encoder.conv_in");
  for (i = 0; i < blocks && !w->h.result; i++) {
    vram__diffusers_number(w, 'b', i);
    vram__diffusers_number(w, 'c', channels[i]);
    vram__hf_set(w, 'B', "encoder.down_blocks.$b");
    vram__hf_set(w, 's', "%B.downsamplers.0.conv");
    vram__vae_block(w, channels[i ? i - 1 : 0], layers,
                    i + 1 < blocks ? "pad %B.downsamplers.0.pad %x pad=0,1,0,1\n"
                                     "conv2d %s %B.downsamplers.0.pad out_channels=$c "
                                     "kernel_size=3 stride=2\n"
                                   : "");
    h = i + 1 < blocks ? h / 2 : h;
    v = i + 1 < blocks ? v / 2 : v;
  }
  vram__diffusers_image(w, h, v);
  vram__hf_set(w, 'B', "encoder.mid_block");
  vram__vae_middle(w, channels[blocks - 1]);
  vram__diffusers_lines(w, "group_norm encoder.conv_norm_out %x num_groups=$g\n"
                           "silu encoder.conv_act encoder.conv_norm_out\n"
                           "conv2d encoder.conv_out encoder.conv_act out_channels=$2 "
                           "kernel_size=3 padding=1\n"
                           "{Qconv2d quant_conv encoder.conv_out out_channels=$2 "
                           "kernel_size=1\n}");
}

static void vram__vae_decode(vram__hf_pen *w, const uint64_t *channels, uint64_t blocks,
                             uint64_t layers) {
  uint64_t i;
  vram__diffusers_number(w, 'c', channels[blocks - 1]);
  vram__diffusers_lines(w, "input z model [N,$i,$h,$w]\n"
                           "{Pconv2d post_quant_conv z out_channels=$i kernel_size=1\n}"
                           "conv2d decoder.conv_in {Ppost_quant_conv}{!Pz} out_channels=$c "
                           "kernel_size=3 padding=1\n");
  vram__hf_set(w, 'x', "decoder.conv_in");
  vram__hf_set(w, 'B', "decoder.mid_block");
  vram__vae_middle(w, channels[blocks - 1]);
  for (i = 0; i < blocks && !w->h.result; i++) {
    const uint64_t at = blocks - 1 - i;
    vram__diffusers_number(w, 'b', i);
    vram__diffusers_number(w, 'c', channels[at]);
    vram__hf_set(w, 'B', "decoder.up_blocks.$b");
    vram__hf_set(w, 's', "%B.upsamplers.0.conv");
    if (at)
      vram__diffusers_image(w, 2 * *vram__hf_number_of(w, 'h'), 2 * *vram__hf_number_of(w, 'w'));
    vram__vae_block(w, channels[i ? at + 1 : at], layers + 1,
                    at ? "interpolate %B.upsamplers.0.interpolate %x size=$h,$w\n"
                         "conv2d %s %B.upsamplers.0.interpolate out_channels=$c kernel_size=3 "
                         "padding=1\n"
                       : "");
  }
  vram__diffusers_lines(w, "group_norm decoder.conv_norm_out %x num_groups=$g\n"
                           "silu decoder.conv_act decoder.conv_norm_out\n"
                           "conv2d decoder.conv_out decoder.conv_act out_channels=$O "
                           "kernel_size=3 padding=1\n"
                           "{Pdrop post_quant_conv\n}");
}

/* Both ways of an AutoencoderKL; inference is decode(), of which the encoder is only held. */
static void vram__vae_write(vram__hf_pen *w, const vram_hf_sizes *sizes) {
  vram__hf *const h = &w->h;
  const uint64_t blocks = vram__diffusers_count(w, "block_out_channels"),
                 layers = vram__hf_number(h, "layers_per_block", 1),
                 latents = vram__hf_number(h, "latent_channels", 4),
                 side = vram__hf_number(h, "sample_size", 32);
  uint64_t channels[VRAM__DIFFUSERS_BLOCKS], i, height, width;
  vram__diffusers_plain(w, "act_fn", "silu");
  for (i = 0; i < blocks; i++) {
    channels[i] = vram__diffusers_each(w, "block_out_channels", i, 64);
    vram__diffusers_attends(w, "down_block_types", i, "", "DownEncoderBlock2D");
    vram__diffusers_attends(w, "up_block_types", i, "", "UpDecoderBlock2D");
  }
  if (vram__diffusers_count(w, "down_block_types") != blocks ||
      vram__diffusers_count(w, "up_block_types") != blocks)
    vram__hf_fail(h, VRAM_ERR_VALUE, "not as many blocks as channels: ", "block_out_channels");
  if (!blocks || !layers || layers > 64)
    vram__hf_fail(h, VRAM_ERR_VALUE, "no blocks, or not of 1 to 64 layers: ", "layers_per_block");
  height = sizes->height ? sizes->height : blocks ? side >> (blocks - 1) : 0;
  width = sizes->width ? sizes->width : blocks ? side >> (blocks - 1) : 0;
  if (!height || !width || height > UINT32_C(0xFFFF) || width > UINT32_C(0xFFFF))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no latents have so many ", "rows or columns");
  if (h->result)
    return;
  vram__diffusers_flag(w, 'Q', vram__hf_bool(h, "use_quant_conv", 1));
  vram__diffusers_flag(w, 'P', vram__hf_bool(h, "use_post_quant_conv", 1));
  vram__diffusers_number(w, 'g', vram__hf_number(h, "norm_num_groups", 32));
  vram__diffusers_number(w, 'I', vram__hf_number(h, "in_channels", 3));
  vram__diffusers_number(w, 'O', vram__hf_number(h, "out_channels", 3));
  vram__diffusers_number(w, 'i', latents);
  vram__diffusers_number(w, '2', 2 * latents);
  vram__diffusers_image(w, height << (blocks - 1), width << (blocks - 1));
  vram__vae_encode(w, channels, blocks, layers);
  vram__diffusers_image(w, height, width);
  vram__vae_decode(w, channels, blocks, layers);
  vram__diffusers_lines(w, "infer decoder.conv_out\noutput {Qquant_conv}{!Qencoder.conv_out} "
                           "decoder.conv_out\n");
}

/* ---- CLIPTextModel ---- */

static void vram__clip_write(vram__hf_pen *w, const vram_hf_sizes *sizes) {
  vram__hf *const h = &w->h;
  const uint64_t c = vram__hf_number(h, "hidden_size", 512),
                 heads = vram__hf_number(h, "num_attention_heads", 8),
                 layers = vram__hf_number(h, "num_hidden_layers", 12),
                 most = vram__hf_number(h, "max_position_embeddings", 77);
  const vram_file_value *const act = vram__hf_word(w, "hidden_act");
  uint64_t i;
  if (act && !vram__hf_is_word(act, "gelu") && !vram__hf_is_word(act, "quick_gelu"))
    vram__hf_refuse(w, "an activation whose lines are not known: ", "hidden_act");
  if (!layers || layers > VRAM__HF_MAX_LAYERS)
    vram__hf_fail(h, VRAM_ERR_VALUE, "not 1 to 4096 layers: ", "num_hidden_layers");
  if (!c || !heads || c % heads)
    vram__hf_fail(h, VRAM_ERR_VALUE, "a width that heads do not divide: ", "num_attention_heads");
  if (sizes->tokens > most || !most)
    vram__hf_fail(h, VRAM_ERR_VALUE, "more tokens than ", "max_position_embeddings");
  if (h->result)
    return;
  vram__diffusers_number(w, 'c', c);
  vram__diffusers_number(w, 'n', heads);
  vram__diffusers_number(w, 'd', c / heads);
  vram__diffusers_number(w, 'f', vram__hf_number(h, "intermediate_size", 2048));
  vram__diffusers_number(w, 'v', vram__hf_number(h, "vocab_size", 49408));
  vram__diffusers_number(w, 'P', vram__hf_number(h, "projection_dim", 512));
  vram__diffusers_number(w, 'm', most);
  vram__diffusers_number(w, 'S', sizes->tokens ? sizes->tokens : most);
  vram__diffusers_flag(w, 'm', *vram__hf_number_of(w, 'S') < most);
  vram__diffusers_flag(w, 'q', !act || vram__hf_is_word(act, "quick_gelu"));
  vram__diffusers_flag(w, 'E', vram__hf_number(h, "eos_token_id", 49407) != 2);
  vram__diffusers_lines(w, vram__diffusers_clip);
  vram__hf_set(w, 'x', "embeddings.add");
  for (i = 0; i < layers && !h->result; i++) {
    vram__diffusers_number(w, 'b', i);
    vram__diffusers_enter(w, "encoder.layers.$b.");
    vram__diffusers_lines(w, vram__diffusers_clip_layer);
    vram__hf_set(w, 'x', "@add_1");
  }
  vram__diffusers_lines(w, vram__diffusers_clip_end);
}

/* ---- classes ---- */

typedef struct vram__diffusers_row {
  const char *kind, *flags;
  void (*write)(vram__hf_pen *w, const vram_hf_sizes *sizes);
} vram__diffusers_row;

static const vram__diffusers_row vram__diffusers_rows[] = {
    {"UNet2DConditionModel", "", vram__unet_write},
    {"AutoencoderKL", "", vram__vae_write},
    {"CLIPTextModel", "", vram__clip_write},
    {"CLIPTextModelWithProjection", "j", vram__clip_write}};

/* The class: of diffusers under _class_name, of transformers the first architecture. */
static vram_file_text vram__diffusers_class(const vram_file *f) {
  const vram_file_value *v = vram_file_get(f, "_class_name", 11);
  vram_file_text t = {NULL, 0};
  if (v && v->kind == VRAM_VALUE_TEXT) {
    t.text = v->text;
    t.count = v->count;
    return t;
  }
  v = vram_file_get(f, "architectures", 13);
  if (v && v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_TEXT && v->array && v->count)
    t = *(const vram_file_text *)v->array;
  return t;
}

/* The row of a class; NULL: none. */
static const vram__diffusers_row *vram__diffusers_find(const vram_file_text *kind) {
  uint32_t i;
  for (i = 0; i < sizeof vram__diffusers_rows / sizeof *vram__diffusers_rows; i++)
    if (vram__text_is(kind->text, (uint32_t)kind->count, vram__diffusers_rows[i].kind))
      return vram__diffusers_rows + i;
  return NULL;
}

VRAM__FN int vram__diffusers_write(vram__hf_pen *w, const vram_hf_sizes *sizes) {
  const vram_file_text kind = vram__diffusers_class(w->h.f);
  const vram__diffusers_row *const row = kind.text ? vram__diffusers_find(&kind) : NULL;
  uint32_t n;
  if (!row && !(kind.text && vram__denoiser_is(&kind))) {
    if (!vram_file_get(w->h.f, "_class_name", 11))
      return 0;
    vram__hf_refuse(w, "no lines of the text form are known of this class of diffusers", "");
    return 1;
  }
  for (n = 0; row && row->flags[n]; n++)
    vram__diffusers_flag(w, row->flags[n], 1);
  vram__diffusers_number(w, 'N', sizes->batch ? sizes->batch : 2);
  vram__diffusers_lines(w, "# config.json of diffusers or transformers, eval mode\nmodel ");
  vram__hf_put(w, kind.text, (uint32_t)kind.count);
  vram__diffusers_lines(w, " dtype=f32\nrules torch-2.15\ndim N=$N\n");
  if (sizes->cache)
    vram__hf_refuse(w, "no class that generates tokens", "");
  else if (row)
    row->write(w, sizes);
  else
    vram__denoiser_write(w, &kind, sizes);
  vram__hf_flush(w);
  return 1;
}
