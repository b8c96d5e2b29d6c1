/* >>llama/beside    what a device holds beside llama.cpp's buffers: bounds
   Its own breakdown calls it "unaccounted". From ggml-cuda (rules of 0c1e57098): ggml_cuda_pool_vmm
   is a stack, mapped in steps of 2 MiB and never given back, so it grows to the op that needs most
   (ggml-cuda.cu); mmq.cu, mmq.cuh (activations as q8_1, numbers of experts' rows, fixup),
   ggml_cuda_mul_mat_cublas and ggml_cuda_mul_mat_id (copies as f16, rows sorted by expert),
   fattn-common.cuh (parts of a result), common.cuh (cuBLAS's workspace).
   Copies of quantised caches that flash attention needs are in the compute buffer. */
#include "llama/llama.h"

/* ggml-cuda's code for one architecture is 97 MiB, instructions, constants and tables (sm_75 in two
   published builds of 2026, cyllama-cuda12 0.2.18 and inferna-cuda12 0.7.0: 6,537 kernels and more,
   whose stacks take 272 bytes at most, so that local memory stays as it is), and with cuBLAS's as
   many as a step has of them. They are loaded one by one, so that this is an upper bound from CUDA
   12.2 on, where that is the default. */
#define VRAM__BESIDE_CODE ((UINT64_C(97) << 20) + VRAM__CONTEXT_LAZY_KERNELS)
/* One graph of all nodes; published of vLLM: 1.62 GiB for 67 graphs, 25 MiB each. */
#define VRAM__BESIDE_GRAPHS (UINT64_C(64) << 20)
#define VRAM__BESIDE_STEP (UINT64_C(1) << 21) /* cuMemGetAllocationGranularity */
#define VRAM__BESIDE_SM 192                   /* multiprocessors: no device has more */
/* Host memory that is pinned has an entry of 8 bytes for each 4 KiB in every device's page tables:
   346,468 MiB of weights took 678 MiB more of each of four devices than the same file mapped
   (--no-mmap, published of GLM-5.2). */
#define VRAM__BESIDE_PINNED 512

/* One device and its pool. */
typedef struct vram__beside {
  const vram__llama *l;
  int32_t device;
  uint32_t cc, sm; /* sm: at most */
  uint64_t low, high;
  uint8_t uses_cublas;
} vram__beside;

static uint64_t vram__beside_times(uint64_t a, uint64_t b, uint64_t c) {
  return vram__product_or_overflow(vram__product_or_overflow(a, b), c);
}

/* ggml_cuda_should_use_mmq, from Turing on. */
static int vram__beside_is_mmq(vram_dtype t) {
  return vram__llama_is_quantised(t) && t != VRAM_IQ1_M && t != VRAM_TQ1_0 && t != VRAM_TQ2_0;
}

/* Rows of a multiplication as 4 numbers of scales behind 128 of a byte; half as wide where a device
   takes FP4 as it is. */
static void vram__beside_quantised(vram__beside *s, const vram_file_tensor *t, uint64_t rows,
                                   uint64_t columns, uint64_t experts, int is_here) {
  const int is_fp4 = t->dtype == VRAM_MXFP4 || t->dtype == VRAM_NVFP4;
  const uint64_t padded = vram__round_up_u64(columns, 512),
                 bytes = vram__beside_times(rows, padded / 128, 144),
                 ids = vram__product_or_overflow(vram__sum_or_overflow(rows, experts), 8),
                 tiles = UINT64_C(128) * 144 + UINT64_C(128) * 128 * 4 * s->sm;
  const uint64_t high = vram__sum_or_overflow(bytes, vram__sum_or_overflow(ids, tiles));
  if (is_here && (is_fp4 ? bytes / 2 : bytes) > s->low)
    s->low = is_fp4 ? bytes / 2 : bytes;
  if (high > s->high)
    s->high = high;
}

/* cuBLAS: the weight, rows and the result as f16, and rows sorted by expert before and behind. */
static void vram__beside_converted(vram__beside *s, const vram_file_tensor *t, uint64_t rows,
                                   uint64_t columns, uint64_t width, int is_expert) {
  const uint64_t copies = vram__beside_times(rows, columns + width, is_expert ? 6 : 2),
                 weight = t->dtype == VRAM_F16 || t->dtype == VRAM_BF16
                              ? 0
                              : vram__product_or_overflow(t->numel, t->dtype == VRAM_F32 ? 4 : 2);
  const uint64_t high = vram__sum_or_overflow(copies, weight);
  if (high > s->high)
    s->high = high;
}

static void vram__beside_matrix(vram__beside *s, const vram_file_tensor *t) {
  const vram__llama *const l = s->l;
  const uint64_t columns = (uint64_t)t->size[t->ndim - 1];
  const uint64_t experts = t->ndim > 2 ? (uint64_t)t->size[0] : 0;
  const int is_expert = experts > 1 && l->n_expert_used > 0;
  const uint64_t rows = vram__product_or_overflow(l->n_ubatch, is_expert ? l->n_expert_used : 1);
  int32_t device = -1;
  int is_here;
  if (!columns || (vram__llama_holds(t, "embd") && !l->is_tied) ||
      vram__llama_device(l, t, &device, NULL))
    return;
  is_here = device == s->device;
  if (vram__llama_holds(t, "output.weight") && !vram__llama_holds(t, "attn_output"))
    is_here = 0; /* rows of logits may be few */
  if (vram__beside_is_mmq(t->dtype))
    vram__beside_quantised(s, t, rows, columns, experts, is_here);
  else {
    vram__beside_converted(s, t, rows, columns, (uint64_t)t->size[t->ndim - 2], is_expert);
    s->uses_cublas |= (uint8_t)is_here;
  }
}

/* Flash attention: parts of the results of 4 blocks of 64 rows on each multiprocessor. Without it:
   queries, keys and scores of a layer once more. */
static uint64_t vram__beside_attention(const vram__beside *s, const vram__llama_layer *y) {
  const vram__llama *const l = s->l;
  uint64_t keys;
  if (l->flash_attention)
    return vram__beside_times((uint64_t)s->sm * 4 * 64, (uint64_t)y->head_v + 4, 4);
  keys = vram__beside_times((uint64_t)y->head_k * y->n_head_kv, l->n_ctx, 4);
  return vram__sum_or_overflow(
      keys,
      vram__beside_times(l->n_ubatch, y->n_head, 4 * (uint64_t)y->head_k + 2 * (uint64_t)l->n_ctx));
}

/* States: what a scan of a batch keeps (ssm-scan.cu), each at most as wide as the state. */
static uint64_t vram__beside_states(const vram__llama *l) {
  return vram__beside_times(l->n_embd_s, l->n_seq, 16);
}

static void vram__beside_pool(vram__beside *s) {
  const vram_file_tensor *t;
  uint32_t i;
  for (t = s->l->file->tensor_first; t; t = t->next)
    if (t->ndim >= 2)
      vram__beside_matrix(s, t);
  for (i = 0; i < s->l->n_layer; i++) {
    const uint64_t bytes = vram__beside_attention(s, s->l->layer + i);
    s->high = bytes > s->high ? bytes : s->high;
  }
  s->high = vram__sum_or_overflow(s->high, vram__beside_states(s->l));
}

/* Entries of page tables for what the host pins: always its compute and output buffers, and the
   weights unless they are mapped. */
static void vram__beside_pinned(const vram_llama_report *r, uint64_t *always, uint64_t *most) {
  uint32_t i;
  *always = r->output_bytes;
  *most = 0;
  for (i = 0; i < r->nbuffer; i++)
    if (r->buffer[i].device < 0) {
      *always = vram__sum_or_overflow(*always, r->buffer[i].compute_bytes);
      *most = vram__sum_or_overflow(*most, r->buffer[i].model_bytes);
    }
  *most = vram__sum_or_overflow(*most, *always) / VRAM__BESIDE_PINNED;
  *always /= VRAM__BESIDE_PINNED;
}

/* The context of a device of which only the capability is known: of any multiprocessors. */
static vram_bounds vram__beside_context(const vram__beside *s, const vram_gpu *gpu) {
  vram_bounds c = vram__context_bare(s->cc, gpu ? gpu->sm : vram__device_usual_sm(s->cc));
  if (!gpu) {
    c.lower = vram__context_bare(s->cc, 0).lower;
    c.upper = vram__context_bare(s->cc, s->sm).upper;
  }
  return c;
}

static void vram__beside_device(const vram__llama *l, uint32_t i, vram_llama_report *r) {
  const vram_llama_options *const o = l->options;
  const vram_gpu *const gpu = o->gpu[1] ? o->gpu[i] : o->gpu[0];
  uint64_t workspace, pinned, pinned_most;
  vram_bounds c;
  vram__beside s;
  vram__memory_zero(&s, sizeof s);
  s.l = l;
  s.device = (int32_t)i;
  s.cc = gpu ? gpu->cc : o->cc ? o->cc : 89;
  s.sm = gpu ? gpu->sm : VRAM__BESIDE_SM;
  s.uses_cublas = !l->flash_attention;
  vram__beside_pool(&s);
  vram__beside_pinned(r, &pinned, &pinned_most);
  workspace = UINT64_C(1) << (s.cc >= 90 ? 25 : 22);
  c = vram__beside_context(&s, gpu);
  r->context_bare[i] = c;
  c.expected += VRAM__CONTEXT_LAZY_KERNELS + pinned + (s.uses_cublas ? workspace : 0);
  c.upper += VRAM__BESIDE_CODE + VRAM__BESIDE_GRAPHS + VRAM__BESIDE_STEP + workspace + pinned_most;
  r->beside[i].lower = vram__sum_or_overflow(c.lower, s.low);
  r->beside[i].expected = vram__sum_or_overflow(c.expected, s.low);
  r->beside[i].upper = vram__sum_or_overflow(c.upper, s.high);
}

VRAM__FN void vram__llama_beside(const vram__llama *l, vram_llama_report *r) {
  uint32_t i;
  for (i = 0; i < l->ndevice; i++)
    vram__beside_device(l, i, r);
}
