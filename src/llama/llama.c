/* >>llama/llama    what llama.cpp allocates for a GGUF file */
#include "llama/graph.h"

enum {
  VRAM__LLAMA_ROW_PADDING = 512, /* ggml-cuda/common.cuh: MATRIX_ROW_PADDING */
  VRAM__LLAMA_GPU_ALIGNMENT = 128,
  VRAM__LLAMA_HOST_ALIGNMENT = 32
};

/* Bytes of a tensor of so many bytes in a buffer: on a GPU the last row of a quantised type is
   padded (ggml_backend_cuda_buffer_type_get_alloc_size). VRAM_OVERFLOW: too many. */
VRAM__FN uint64_t vram__llama_padded(vram_dtype type, uint64_t columns, uint64_t bytes,
                                     int is_on_gpu) {
  const vram_dtype_info *const d = vram_dtype_get_info(type);
  const uint64_t over = columns % VRAM__LLAMA_ROW_PADDING;
  const uint64_t alignment = is_on_gpu ? VRAM__LLAMA_GPU_ALIGNMENT : VRAM__LLAMA_HOST_ALIGNMENT;
  uint64_t padding = 0;
  if (is_on_gpu && d->block_elements > 1 && over)
    vram_dtype_rows_bytes(type, 1, VRAM__LLAMA_ROW_PADDING - over, &padding);
  bytes = vram__sum_or_overflow(bytes, padding);
  return bytes > (uint64_t)VRAM_MAX_BYTES ? VRAM_OVERFLOW : vram__round_up_u64(bytes, alignment);
}

VRAM__FN uint64_t vram__llama_tensor_bytes(vram_dtype type, uint64_t rows, uint64_t columns,
                                           int is_on_gpu) {
  uint64_t bytes;
  return vram_dtype_rows_bytes(type, rows, columns, &bytes)
             ? VRAM_OVERFLOW
             : vram__llama_padded(type, columns, bytes, is_on_gpu);
}

/* The buffer of a device, or the host's of that name; begun when it is asked for. There is room:
   the host has at most four. */
VRAM__FN vram_llama_buffer *vram__llama_buffer(vram_llama_report *r, const char *name,
                                               int32_t device) {
  vram_llama_buffer *b = r->buffer;
  uint32_t n = 0;
  for (; b < r->buffer + r->nbuffer; b++)
    if (b->device == device && (device >= 0 || vram__text_is(name, vram__text_len(name), b->name)))
      return b;
  VRAM_ASSERT(r->nbuffer < VRAM_LLAMA_MAX_BUFFERS);
  r->nbuffer++;
  vram__text_puts(b->name, sizeof b->name, &n, name);
  if (device >= 0)
    vram__text_putu(b->name, sizeof b->name, &n, (uint64_t)device);
  b->device = device;
  return b;
}

static vram_result vram__llama_check(const vram_file *f, const vram_llama_options *o,
                                     vram_error *e) {
  uint32_t i;
  if (f->format != VRAM_FILE_GGUF)
    return vram__error_begin(e, VRAM_ERR_UNSUPPORTED, 0, "no GGUF file");
  if (o->split == VRAM_LLAMA_SPLIT_ROW)
    return vram__error_begin(e, VRAM_ERR_UNSUPPORTED, 0,
                             "rows of a matrix on several devices are not counted");
  if (o->devices > VRAM_LLAMA_MAX_DEVICES || o->ntensor_split > VRAM_LLAMA_MAX_DEVICES)
    return vram__error_begin(e, VRAM_ERR_LIMIT, 0, "more than 16 devices");
  if (!o->is_cpu && o->main_gpu >= (o->devices ? o->devices : 1))
    return vram__error_begin(e, VRAM_ERR_VALUE, 0, "main_gpu is none of the devices");
  for (i = 0; i < o->ntensor_split; i++)
    if (!(o->tensor_split[i] >= 0) || o->tensor_split[i] > 1e30)
      return vram__error_begin(e, VRAM_ERR_VALUE, 0, "a share of tensor_split is out of range");
  for (i = 0; i < o->noverride_tensor; i++)
    if (o->override_tensor[i].device >= 0 &&
        (o->is_cpu || (uint32_t)o->override_tensor[i].device >= (o->devices ? o->devices : 1)))
      return vram__error_begin(e, VRAM_ERR_VALUE, 0, "a device of override_tensor is none of them");
  return VRAM_OK;
}

static vram_result vram__llama_total(const vram__llama *l, vram_llama_report *r, vram_error *e) {
  uint32_t i;
  r->host_bytes = r->output_bytes;
  for (i = 0; i < r->nbuffer; i++) {
    const vram_llama_buffer *const b = r->buffer + i;
    uint64_t *const to = b->device < 0 ? &r->host_bytes : r->device_bytes + b->device;
    const uint64_t sum = vram__sum_or_overflow(
        vram__sum_or_overflow(b->model_bytes, b->context_bytes), b->compute_bytes);
    *to = vram__sum_or_overflow(*to, sum);
    r->model_bytes = vram__sum_or_overflow(r->model_bytes, b->model_bytes);
    r->context_bytes = vram__sum_or_overflow(r->context_bytes, b->context_bytes);
    r->compute_bytes = vram__sum_or_overflow(r->compute_bytes, b->compute_bytes);
  }
  r->total_bytes = r->host_bytes;
  for (i = 0; i < l->ndevice; i++)
    r->total_bytes = vram__sum_or_overflow(r->total_bytes, r->device_bytes[i]);
  if (r->total_bytes > (uint64_t)VRAM_MAX_BYTES)
    return vram__error_begin(e, VRAM_ERR_OVERFLOW, 0, "more than 2^63-1 bytes in all");
  return VRAM_OK;
}

/* The memory behind l is that of the graph. */
static vram_result vram__llama_count(vram__llama *l, uint64_t bytes, vram_llama_report *r,
                                     vram_error *e) {
  vram_result code;
  uint32_t i;
  if (vram__llama_count_extra(l, r))
    return vram__llama_total(l, r, e);
  code = vram__llama_read(l, e);
  if (code)
    return code;
  vram__llama_place(l);
  code = vram__llama_settle(l, e);
  if (code)
    return code;
  for (i = 0; i < l->ndevice; i++)
    if (l->options->split == VRAM_LLAMA_SPLIT_LAYER || i == l->options->main_gpu)
      vram__llama_buffer(r, "CUDA", (int32_t)i);
  code = vram__llama_weights(l, r, e);
  if (!code)
    code = vram__llama_context(l, r, e);
  if (code)
    return code;
  if (!l->options->without_compute) {
    vram__llama_resolve(l, l + 1, bytes - sizeof *l);
    vram__llama_compute(l, l + 1, bytes - sizeof *l, r);
    vram__llama_beside(l, r);
  }
  r->n_ctx = l->n_ctx;
  r->n_ctx_seq = l->n_ctx_seq;
  r->n_batch = l->n_batch;
  r->n_ubatch = l->n_ubatch;
  r->slots = l->n_seq;
  r->ndevice = l->ndevice;
  r->flash_attention = l->flash_attention;
  r->architecture_is_known = l->is_known;
  return vram__llama_total(l, r, e);
}

VRAM_API vram_result vram_llama(const vram_file *f, const vram_llama_options *o, void *memory,
                                uint64_t bytes, vram_llama_report *r, vram_error *e) {
  const uint64_t off = (8 - ((uintptr_t)memory & 7)) & 7;
  vram_result code;
  vram__llama *l;
  vram__memory_zero(r, sizeof *r);
  vram__error_clear(e);
  code = vram__llama_check(f, o, e);
  if (code)
    return code;
  if (!memory || bytes < off + sizeof *l)
    return vram__error_begin(e, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
  l = (vram__llama *)(void *)((uint8_t *)memory + off);
  vram__memory_zero(l, sizeof *l);
  l->file = f;
  l->options = o;
  code = vram__llama_count(l, bytes - off, r, e);
  if (code)
    vram__memory_zero(r, sizeof *r);
  return code;
}
