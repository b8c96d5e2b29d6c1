/* What one call of each part of a diffusers pipeline takes: the part's graph, from its config.json.
 */
#include "vram_pipeline.h"

enum { IS_DENOISER = 1, IS_VAE, IS_TEXT };

/* Classes whose lines src/read/diffusers.c knows. */
static const struct {
  const char *kind;
  int role;
} classes[] = {{"UNet2DConditionModel", IS_DENOISER},
               {"AutoencoderKL", IS_VAE},
               {"CLIPTextModel", IS_TEXT},
               {"CLIPTextModelWithProjection", IS_TEXT},
               {"T5EncoderModel", IS_TEXT},
               {"MT5EncoderModel", IS_TEXT},
               {"UMT5EncoderModel", IS_TEXT},
               {"SD3Transformer2DModel", IS_DENOISER},
               {"FluxTransformer2DModel", IS_DENOISER},
               {"PixArtTransformer2DModel", IS_DENOISER},
               {"DiTTransformer2DModel", IS_DENOISER},
               {"QwenImageTransformer2DModel", IS_DENOISER},
               {"WanTransformer3DModel", IS_DENOISER},
               {"LTXVideoTransformer3DModel", IS_DENOISER},
               {"CogVideoXTransformer3DModel", IS_DENOISER}};

/* diffusers 0.42, pipelines: max_sequence_length of __call__, and whether latents are doubled
   there. SD3 has 77 tokens of CLIP in front of T5's; the text of Qwen-Image is as long as the
   prompt, at most so many tokens. */
static const pipeline_kind kinds[] = {{"StableDiffusion3", 1, 256, 77 + 256, 0, 0, 0, 0, 0},
                                      {"StableDiffusion", 1, 0, 77, 0, 0, 0, 0, 0},
                                      {"Flux", 0, 512, 512, 0, 0, 0, 0, 0},
                                      {"PixArtAlpha", 1, 120, 120, 0, 0, 0, 0, 0},
                                      {"PixArtSigma", 1, 300, 300, 0, 0, 0, 0, 0},
                                      {"DiT", 1, 0, 0, 0, 0, 0, 0, 0},
                                      {"QwenImage", 0, 0, 512, 0, 0, 0, 0, 0},
                                      {"Wan", 0, 512, 512, 8, 4, 81, 480, 832},
                                      {"CogVideoX", 1, 226, 226, 8, 4, 49, 480, 720},
                                      {"LTX", 1, 128, 128, 32, 8, 161, 512, 704}};

static void kind_set(pipeline *p) {
  size_t i;
  for (i = 0; i < sizeof kinds / sizeof *kinds && !p->call; i++)
    if (!strncmp(p->kind, kinds[i].name, strlen(kinds[i].name)))
      p->call = kinds + i;
}

static int doubles(const pipeline *p) { return p->guidance && (!p->call || p->call->doubles); }

/* Tokens of a part's text; 0: as its config.json says. */
static int64_t tokens_of(const pipeline *p, const pipeline_part *part, int role) {
  const int64_t own = p->call ? p->call->tokens : 0, joint = p->call ? p->call->joint : 0;
  if (role == IS_TEXT)
    return strstr(part->kind, "T5") ? p->tokens ? p->tokens : own : 0;
  return p->tokens && joint ? p->tokens + joint - (own ? own : joint) : joint;
}

static int role_of(const pipeline_part *part) {
  size_t i;
  for (i = 0; i < sizeof classes / sizeof *classes && part->is_model; i++)
    if (!strcmp(part->kind, classes[i].kind))
      return classes[i].role;
  return 0;
}

/* A key of a config.json: how many a list has, 0 where it is none; a number, or the first two of a
   list, at most 65536, 0 where there are none. Not FITS: message printed. */
static int config_numbers(const char *path, const char *key, int64_t *count, int64_t number[2]) {
  const uint64_t most = 65536;
  model_file m;
  const int status = model_file_open(&m, path);
  const vram_file_value *const v = status ? NULL : vram_file_get(&m.f, key, (uint32_t)strlen(key));
  const uint64_t *const list = v && v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_UINT
                                   ? (const uint64_t *)v->array
                                   : NULL;
  int i;
  *count = list && v->count <= most ? (int64_t)v->count : 0;
  for (i = 0; i < 2; i++) {
    const uint64_t n = list && i < *count                         ? list[i]
                       : !list && v && v->kind == VRAM_VALUE_UINT ? v->number.u
                                                                  : 0;
    number[i] = n <= most ? (int64_t)n : 0;
  }
  model_file_close(&m);
  return status;
}

/* StableDiffusionXLPipeline: a VAE in f16 with force_upcast decodes in f32, weights and all. */
static int is_upcast(const pipeline *p, const pipeline_part *part, const char *path) {
  static const char xl[] = "StableDiffusionXL";
  model_file m;
  int is = 1;
  if (part->loaded != VRAM_F16 || strncmp(p->kind, xl, sizeof xl - 1) != 0)
    return 0;
  if (!model_file_open(&m, path)) {
    const vram_file_value *const v = vram_file_get(&m.f, "force_upcast", 12);
    is = !v || v->kind != VRAM_VALUE_BOOL || v->number.u;
  }
  model_file_close(&m);
  return is;
}

/* The sides of images and latents: __call__'s defaults are the denoiser's sample_size. */
int pipeline_sizes(pipeline *p) {
  int64_t side[2] = {0, 0}, scale = 8, channels[2], count;
  uint32_t i;
  int status = FITS;
  kind_set(p);
  for (i = 0; i < p->nparts && !status; i++) {
    const int role = role_of(p->part + i);
    char *const path = role ? pipeline_config_path(p, p->part + i) : NULL;
    if (role && !path)
      return cmd_no_memory();
    if (role == IS_DENOISER)
      status = config_numbers(path, "sample_size", &count, side);
    else if (role == IS_VAE) {
      status = config_numbers(path, "block_out_channels", &count, channels);
      scale = count > 0 && count <= 8 ? INT64_C(1) << (count - 1) : 8;
    }
    free(path);
  }
  if (status)
    return status;
  if (p->call && p->call->ratio) {
    scale = p->call->scale;
    p->height = p->height ? p->height : p->call->height;
    p->width = p->width ? p->width : p->call->width;
    p->frames = p->frames ? p->frames : p->call->frames;
  }
  p->scale = scale;
  if (!p->height)
    p->height = side[0] * scale;
  if (!p->width)
    p->width = side[1] * scale;
  if (!p->height != !p->width) {
    cmd_say("%s: one side of the images is not known, expected --height and --width", p->model);
    return USAGE;
  }
  if (p->height % scale || p->width % scale) {
    cmd_say("%s: images of %" PRId64 " x %" PRId64 ", expected multiples of %" PRId64, p->model,
            p->height, p->width, scale);
    return USAGE;
  }
  return FITS;
}

static void dim_set(job *j, const char *name, int64_t value) {
  j->dims[j->ndims].name = name;
  j->dims[j->ndims++].value = value;
}

/* The most weights that one line of the graph owns. */
static uint64_t largest_node(const vram_graph *g, const vram_node_report *rep, vram_dtype dtype) {
  uint64_t most = 0;
  const vram_node *n;
  for (n = g->first; n; n = n->next)
    if (rep[n->index].params > most)
      most = rep[n->index].params;
  return most * vram_dtype_get_info(dtype)->block_bytes;
}

static uint64_t value_bytes(const vram_value *v, vram_dtype dtype) {
  const vram_dtype_info *const own = vram_dtype_get_info(v->dtype);
  return v->d->numel *
         (own->kind == VRAM_KIND_FLOAT ? vram_dtype_get_info(dtype) : own)->block_bytes;
}

/* What the pipeline has at hand for a call of the denoiser, and has from it. */
static void arguments_of(pipeline *p, const vram_graph *g, vram_dtype dtype) {
  uint32_t i;
  p->image_dtype = dtype;
  p->image_bytes = g->ninput ? value_bytes(g->input[0], dtype) : 0;
  p->noise_bytes = g->root ? value_bytes(g->root, dtype) : 0;
  p->text_bytes = 0;
  for (i = 1; i < g->ninput; i++)
    p->text_bytes += value_bytes(g->input[i], dtype);
}

/* AutoencoderKL.decode() with slices: of one image after the other, whose results it then puts
   together. `step`: of one image. */
static uint64_t sliced(uint64_t step, const vram_graph *g, vram_dtype dtype, uint64_t images) {
  const uint64_t latent = value_bytes(g->input[g->ninput - 1], dtype),
                 result = g->inferred ? value_bytes(g->inferred, dtype) : 0,
                 last = step + (images - 1) * (latent + result),
                 together = images * (latent + 2 * result);
  return last > together ? last : together;
}

/* Hidden states of all layers, and the first one's input. */
static uint64_t hidden_of(const vram_graph *g, vram_dtype dtype) {
  uint64_t layers = 1;
  const vram_node *n;
  for (n = g->first; n; n = n->next)
    layers += n->op == VRAM_OP_scaled_dot_product_attention;
  return g->root ? layers * value_bytes(g->root, dtype) : 0;
}

/* __call__ of diffusers 0.42, from the second step on. During a call of the denoiser: latents
   beside what they are doubled to, the negative prompt's half of the text, what the step before has
   predicted (of both halves, and guided). During decoding: all of the text, the last call's image
   and predictions. At most: copies of latents in f32 (up to four that a scheduler keeps, one before
   and one behind its step), the text once more, sigmas, timesteps and masks. */
uint64_t pipeline_held(const pipeline *p, const pipeline_part *part, int at_most) {
  const int role = role_of(part);
  const uint64_t twice = doubles(p) ? 1 : 0, image = p->image_bytes, noise = p->noise_bytes,
                 text = p->text_bytes, predicted = twice ? noise + noise / 2 : noise;
  uint64_t n = 0, latents;
  if (!p->call || !image) /* of no denoiser that is known */
    return 0;
  latents = (image >> twice) / vram_dtype_get_info(p->image_dtype)->block_bytes * 4;
  if (role == IS_DENOISER)
    n = predicted + (twice ? image / 2 + text / 2 : 0);
  else if (role == IS_VAE)
    n = predicted + text + (twice ? image + text / 2 : 0);
  if (at_most)
    n += part->hidden_bytes + 7 * latents + text + (UINT64_C(1) << 18);
  return n;
}

/* Buffers that are not among the weights: a file may hold some of them (SD3's positions). */
static uint64_t buffers_beside(const pipeline_part *part, uint64_t buffers, uint64_t params) {
  const uint64_t stored =
      part->has_weights && part->loaded_bytes > params ? part->loaded_bytes - params : 0;
  return stored < buffers ? buffers - stored : 0;
}

/* One step of the text, which is freed. */
static int text_step(pipeline *p, job *j, pipeline_part *part, char *text, size_t len) {
  const int role = role_of(part);
  vram_report r;
  loaded l;
  int status = model_load(&l, j, text, len);
  j->o.nodes = status ? NULL : (vram_node_report *)calloc(l.g.nnode + 1u, sizeof *j->o.nodes);
  if (!status && !j->o.nodes)
    status = cmd_no_memory();
  if (!status)
    status = model_step(&l, &j->o, &r);
  if (!status) {
    const uint64_t wide = j->o.dtype == part->loaded ? 0 : r.params_bytes / 2;
    vram_parameters sum;
    vram_step_parameters(&l.g, &j->o, &sum);
    if (role == IS_DENOISER)
      arguments_of(p, &l.g, (vram_dtype)j->o.dtype);
    else if (role == IS_TEXT)
      part->hidden_bytes = hidden_of(&l.g, (vram_dtype)j->o.dtype);
    part->buffers_bytes = r.buffers_bytes;
    part->beside_bytes = buffers_beside(part, r.buffers_bytes, r.params_bytes - wide);
    part->step_bytes = r.peak_requested_bytes - r.params_bytes - r.buffers_bytes + wide;
    if (role == IS_VAE && p->vae_slicing && p->batch > 1)
      part->step_bytes = sliced(part->step_bytes, &l.g, (vram_dtype)j->o.dtype, (uint64_t)p->batch);
    part->has_step = 1;
    if (!part->has_weights) {
      part->params = sum.trainable + sum.frozen;
      part->loaded_bytes = r.params_bytes - wide;
      part->largest_bytes = largest_node(&l.g, j->o.nodes, part->loaded);
    }
  }
  free(j->o.nodes);
  model_unload(&l);
  return status;
}

int pipeline_step(pipeline *p, pipeline_part *part) {
  const int role = role_of(part);
  const int64_t tokens = tokens_of(p, part, role);
  job j = p->j;
  char *path, *text = NULL;
  size_t len = 0;
  int status;
  if (!role)
    return FITS;
  if (!part->loaded)
    part->loaded = VRAM_F32;
  if (part->loaded != VRAM_F32 && part->loaded != VRAM_F16 && part->loaded != VRAM_BF16)
    return FITS; /* quantised: what its kernels take is not known */
  path = pipeline_config_path(p, part);
  if (!path)
    return cmd_no_memory();
  j.model = path;
  j.o.dtype = role == IS_VAE && is_upcast(p, part, path) ? VRAM_F32 : part->loaded;
  j.o.budget_bytes = 0;
  j.ndims = 0;
  dim_set(&j, "N",
          role == IS_TEXT || (role == IS_VAE && p->vae_slicing) ? 1
          : role == IS_VAE                                      ? p->batch
                                                                : p->batch * (1 + doubles(p)));
  if (role != IS_TEXT && p->height) {
    dim_set(&j, "H", p->height / p->scale);
    dim_set(&j, "W", p->width / p->scale);
  }
  if (role == IS_DENOISER && p->call && p->call->ratio)
    dim_set(&j, "F", (p->frames - 1) / p->call->ratio + 1);
  if (tokens && role != IS_VAE)
    dim_set(&j, "S", tokens);
  status = model_text(path, &j, &text, &len);
  j.ndims = 0;
  if (!status)
    status = text_step(p, &j, part, text, len);
  free(path);
  return status;
}
