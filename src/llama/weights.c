/* >>llama/weights    which tensor lies in which buffer
   From llama.cpp: llama-model.cpp (load_tensors), llama-model-loader.cpp (create_tensor),
   llama-arch.cpp (LLM_TENSOR_INFOS), common/arg.cpp (--n-cpu-moe), ggml: ggml-cuda.cu
   (get_alloc_size, supports_op), ggml-cpu/repack.cpp. */
#include "llama/llama.h"

/* ---- layers ---- */

/* Layer il, or the output behind the last one: from the first layer that is on a device on, the
   share of the layers before it says on which. In float, as llama.cpp divides. */
static int32_t vram__llama_device_of(const vram__llama *l, uint32_t il) {
  const vram_llama_options *const o = l->options;
  const uint32_t first = l->n_layer + 1 > l->n_gpu_layers ? l->n_layer + 1 - l->n_gpu_layers : 0;
  float share[VRAM_LLAMA_MAX_DEVICES], sum = 0, at;
  uint32_t i, any = 0;
  if (!l->ndevice || il < first)
    return -1;
  if (o->split == VRAM_LLAMA_SPLIT_NONE)
    return (int32_t)o->main_gpu;
  for (i = 0; i < l->ndevice; i++)
    any |= i < o->ntensor_split && o->tensor_split[i] > 0;
  for (i = 0; i < l->ndevice; i++) {
    sum += any ? (i < o->ntensor_split ? (float)o->tensor_split[i] : 0) : 1;
    share[i] = sum;
  }
  at = (float)(il - first) / (float)l->n_gpu_layers;
  for (i = 0; i + 1 < l->ndevice && !(at < share[i] / sum); i++)
    ;
  return (int32_t)i;
}

VRAM__FN void vram__llama_place(vram__llama *l) {
  const vram_llama_options *const o = l->options;
  uint32_t i;
  l->ndevice = o->is_cpu ? 0 : o->devices ? o->devices : 1;
  l->n_gpu_layers = o->has_layers && o->layers < l->n_layer + 1 ? o->layers : l->n_layer + 1;
  for (i = 0; i < l->n_layer; i++)
    l->layer[i].device = vram__llama_device_of(l, i);
  l->input_device = -1;
  l->output_device = vram__llama_device_of(l, l->n_layer);
}

/* ---- tensors ---- */

/* The innermost size; a tensor without axes has one column. */
VRAM__FN uint64_t vram__llama_columns(const vram_file_tensor *t) {
  return t->ndim ? (uint64_t)t->size[t->ndim - 1] : 1;
}

VRAM__FN int vram__llama_begins(const vram_file_tensor *t, const char *with) {
  const uint32_t n = t->name_len && *t->name == *with ? vram__text_len(with) : UINT32_MAX;
  return t->name_len >= n && vram__text_equal(t->name, with, n);
}

VRAM__FN int vram__llama_holds(const vram_file_tensor *t, const char *part) {
  const uint32_t n = vram__text_len(part);
  uint32_t i;
  for (i = 0; i + n <= t->name_len; i++)
    if (t->name[i] == *part && vram__text_equal(t->name + i, part, n))
      return 1;
  return 0;
}

/* N of "blk.N.", "enc.blk.N.", "dec.blk.N."; -1: none of these, or no such layer. */
static int32_t vram__llama_block_of(const vram__llama *l, const vram_file_tensor *t) {
  uint32_t i = 0, n = 0;
  if (vram__llama_begins(t, "enc.") || vram__llama_begins(t, "dec."))
    i = 4;
  if (t->name_len < i + 6 || !vram__text_equal(t->name + i, "blk.", 4) ||
      !vram__digit(t->name[i + 4]))
    return -1;
  for (i += 4; i < t->name_len && vram__digit(t->name[i]) && n < VRAM__LLAMA_LAYERS; i++)
    n = 10 * n + (uint32_t)(t->name[i] - '0');
  return n < l->n_layer ? (int32_t)n : -1;
}

static int vram__llama_is_input(const vram_file_tensor *t) {
  return vram__llama_begins(t, "token_embd.") || vram__llama_begins(t, "position_embd.") ||
         vram__llama_begins(t, "token_types.") || vram__llama_begins(t, "per_layer_token_embd.");
}

/* Of no layer by their name, and yet with layer 0 (LLM_TENSOR_LAYER_REPEATING). */
static int vram__llama_is_first(const vram__llama *l, const vram_file_tensor *t) {
  if (vram__llama_begins(t, "token_embd_norm."))
    return !(l->row->flags & VRAM__LLAMA_NORM_OUT);
  return vram__llama_begins(t, "per_layer_model_proj.") ||
         vram__llama_begins(t, "per_layer_proj_norm.");
}

static int vram__llama_is_rope(const vram_file_tensor *t) {
  return vram__llama_begins(t, "rope_freqs.") || vram__llama_begins(t, "rope_factors_");
}

/* ggml-cuda.cu: types of which it has no product with a matrix. */
VRAM__FN int vram__llama_is_multiplied(vram_dtype type) {
  return type != VRAM_TQ1_0 && type != VRAM_TQ2_0;
}

/* ggml-cuda.cu, supports_op: scans and convolutions of which it has no kernel. The state of a scan
   is 16 (mamba) or 96, 128 or 256 wide (mamba2), its heads come in 128s or are of 16s. */
static int vram__llama_is_scanned(const vram__llama *l, const vram_file_tensor *t) {
  const uint64_t columns = vram__llama_columns(t);
  const uint64_t rows = t->ndim > 1 ? (uint64_t)t->size[t->ndim - 2] : 1, state = l->ssm_d_state;
  if (vram__llama_holds(t, ".ssm_conv1d.weight") || vram__llama_holds(t, ".shortconv.conv."))
    return rows % 128 == 0;
  if (!vram__llama_holds(t, ".ssm_a") || (l->row->flags & VRAM__LLAMA_DELTA))
    return 1;
  if (columns == 1) /* mamba2 */
    return (state == 96 || state == 128 || state == 256) && rows && l->ssm_d_inner / rows % 16 == 0;
  return columns == 16 && rows % 128 == 0;
}

/* A weight of a product, not a norm, a bias or a table that rows are taken from. */
static int vram__llama_is_matrix(const vram_file_tensor *t) {
  return t->ndim >= 2 && !vram__llama_is_input(t) && !vram__llama_holds(t, ".bias");
}

/* ggml-cpu/repack.cpp with AVX2: which types, whose rows come in eights; a stack of matrices only
   for experts. */
static int vram__llama_is_repacked(const vram_file_tensor *t) {
  if (t->dtype != VRAM_Q4_0 && t->dtype != VRAM_Q4_K && t->dtype != VRAM_MXFP4 &&
      t->dtype != VRAM_IQ4_NL)
    return 0;
  if (t->ndim < 2) /* a table of words may be, and is taken for a matrix */
    return 0;
  if (t->ndim == 3 && !vram__llama_holds(t, "_exps.") && !vram__llama_holds(t, "_chexps."))
    return 0;
  return t->size[t->ndim - 2] % 8 == 0;
}

/* Has a device a kernel for what this weight is used in? */
VRAM__FN int vram__llama_is_run(const vram__llama *l, const vram_file_tensor *t) {
  if (vram__llama_is_input(t))
    return t->dtype != VRAM_IQ4_NL || vram__llama_columns(t) % 256 == 0;
  return (!vram__llama_is_matrix(t) || vram__llama_is_multiplied(t->dtype)) &&
         vram__llama_is_scanned(l, t);
}

static const char *vram__llama_host(const vram__llama *l, const vram_file_tensor *t,
                                    int is_matrix) {
  if (l->ndevice)
    return (is_matrix ? vram__llama_is_multiplied(t->dtype) : vram__llama_is_run(l, t)) &&
                   vram__llama_is_scanned(l, t)
               ? "CUDA_Host"
               : "CPU";
  return is_matrix && l->options->repack != VRAM_LLAMA_OFF && vram__llama_is_repacked(t)
             ? "CPU_REPACK"
             : "CPU";
}

/* Experts of the first layers: --n-cpu-moe N is a pattern for each of them. */
static int vram__llama_is_host_expert(const vram__llama *l, const vram_file_tensor *t) {
  const int32_t block = vram__llama_block_of(l, t);
  return block >= 0 && (uint32_t)block < l->options->n_cpu_moe &&
         (vram__llama_holds(t, ".ffn_up_") || vram__llama_holds(t, ".ffn_down_") ||
          vram__llama_holds(t, ".ffn_gate_")) &&
         (vram__llama_holds(t, "_exps") || vram__llama_holds(t, "_chexps"));
}

/* The device that a pattern of the options gives a tensor; *device stays where none does. */
VRAM__FN vram_result vram__llama_overridden(const vram__llama *l, const vram_file_tensor *t,
                                            int32_t *device, vram_error *e) {
  const vram_llama_options *const o = l->options;
  uint32_t i;
  if (vram__llama_is_host_expert(l, t))
    *device = -1;
  for (i = 0; i < o->noverride_tensor; i++) {
    int found = 0;
    if (vram__llama_pattern_find(o->override_tensor + i, t->name, t->name_len, &found)) {
      vram__error_begin(e, VRAM_ERR_SYNTAX, 0, "no regular expression that is read here: '");
      vram__error_quote(e, o->override_tensor[i].pattern, o->override_tensor[i].pattern_len);
      vram__error_text(e, "'");
      return VRAM_ERR_SYNTAX;
    }
    if (found) {
      *device = o->override_tensor[i].device;
      break;
    }
  }
  return VRAM_OK;
}

/* Adds a tensor to the buffer of a device, or of the host where the device cannot use it. */
VRAM__FN void vram__llama_weight(const vram__llama *l, vram_llama_report *r,
                                 const vram_file_tensor *t, int32_t device, int is_matrix) {
  const uint64_t columns = vram__llama_columns(t);
  vram_llama_buffer *const b =
      vram__llama_buffer(r, device >= 0 ? "CUDA" : vram__llama_host(l, t, is_matrix), device);
  b->model_bytes = vram__sum_or_overflow(
      b->model_bytes,
      vram__llama_tensor_bytes(t->dtype, columns ? t->numel / columns : 0, columns, device >= 0));
}

/* Rope factors: once for each buffer of a layer, or where a pattern puts them. */
static vram_result vram__llama_rope(const vram__llama *l, vram_llama_report *r,
                                    const vram_file_tensor *t, vram_error *e) {
  uint8_t has[VRAM_LLAMA_MAX_DEVICES + 1] = {0};
  uint32_t i;
  for (i = 0; i < l->n_layer - l->n_layer_nextn; i++) {
    int32_t device = l->layer[i].device;
    if (vram__llama_overridden(l, t, &device, e))
      return VRAM_ERR_SYNTAX;
    if (has[device + 1] || (l->layer[i].slides && (l->row->flags & VRAM__LLAMA_ROPE_DENSE)))
      continue;
    has[device + 1] = 1;
    vram__llama_weight(l, r, t, device, 0);
  }
  return VRAM_OK;
}

/* The device of the table of words where it is the output's matrix, too: a pattern that moves the
   one moves the other. */
VRAM__FN int32_t vram__llama_tied_device(const vram__llama *l, const vram_file_tensor *t) {
  int32_t device = l->output_device;
  vram_error e;
  if (vram__llama_overridden(l, t, &device, &e) || !vram__llama_is_multiplied(t->dtype))
    return -1; /* its patterns were read before */
  return device;
}

/* The table of words once more, as the output's matrix, unless it is in the same buffer; gemma3n
   and gemma4 make it first, and do not look for it then. */
static void vram__llama_tied(const vram__llama *l, vram_llama_report *r, const vram_file_tensor *t,
                             int32_t table) {
  const int32_t device = vram__llama_tied_device(l, t);
  const char *const of_output = vram__llama_host(l, t, 1), *const of_table =
                                                               vram__llama_host(l, t, 0);
  if (!(l->row->flags & VRAM__LLAMA_TWO_TABLES) && device == table &&
      (device >= 0 || vram__text_is(of_output, vram__text_len(of_output), of_table)))
    return;
  vram__llama_weight(l, r, t, device, 1);
}

/* Where a tensor lies, -1: on the host; not that of rope factors, of which there may be several. */
VRAM__FN vram_result vram__llama_device(const vram__llama *l, const vram_file_tensor *t,
                                        int32_t *device, vram_error *e) {
  const int32_t block = vram__llama_block_of(l, t);
  *device = l->output_device;
  if (block >= 0)
    *device = l->layer[block].device;
  else if (vram__llama_is_input(t))
    *device = l->input_device;
  else if (vram__llama_is_first(l, t))
    *device = l->layer[0].device;
  if (vram__llama_overridden(l, t, device, e))
    return VRAM_ERR_SYNTAX;
  if (!vram__llama_is_input(t) && !vram__llama_is_run(l, t))
    *device = -1;
  return VRAM_OK;
}

static vram_result vram__llama_tensor(const vram__llama *l, vram_llama_report *r,
                                      const vram_file_tensor *t, vram_error *e) {
  const int32_t block = vram__llama_block_of(l, t);
  int32_t device;
  if (block >= 0 && l->layer[block].is_nextn)
    return VRAM_OK;
  if (vram__llama_is_rope(t))
    return vram__llama_rope(l, r, t, e);
  if (vram__llama_device(l, t, &device, e))
    return VRAM_ERR_SYNTAX;
  vram__llama_weight(l, r, t, device, vram__llama_is_matrix(t));
  if (l->is_tied && vram__text_is(t->name, t->name_len, "token_embd.weight"))
    vram__llama_tied(l, r, t, device);
  return VRAM_OK;
}

VRAM__FN vram_result vram__llama_weights(const vram__llama *l, vram_llama_report *r,
                                         vram_error *e) {
  const vram_file_tensor *t;
  uint32_t i;
  for (t = l->file->tensor_first; t; t = t->next)
    if (vram__llama_tensor(l, r, t, e))
      return VRAM_ERR_SYNTAX;
  for (i = 0; i < r->nbuffer; i++)
    if (r->buffer[i].model_bytes > (uint64_t)VRAM_MAX_BYTES)
      return vram__error_begin(e, VRAM_ERR_OVERFLOW, 0, "weights of more than 2^63-1 bytes");
  return VRAM_OK;
}
