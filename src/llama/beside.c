/* >>llama/beside    what a device holds beside llama.cpp's buffers: bounds
   Its own breakdown calls it "unaccounted". From ggml-cuda (rules of 0c1e57098): ggml_cuda_pool_vmm
   is a stack, mapped in steps of 2 MiB and never given back, so it grows to the op that needs most
   (ggml-cuda.cu); mmq.cu, mmq.cuh (activations as q8_1, numbers of experts' rows, fixup),
   ggml_cuda_mul_mat_cublas and ggml_cuda_mul_mat_id (copies as f16, rows sorted by expert),
   fattn-common.cuh (parts of a result), common.cuh (cuBLAS's workspace).
   Copies of quantised caches that flash attention needs are in the compute buffer. */
#include "llama/llama.h"

/* CUDA context and loaded kernels, published: 100 MiB of a bare context and 170 with kernels
   (dogkeeper886/ollama37 issue 183); llama.cpp's "unaccounted", with pool and cuBLAS in it: 133 MiB
   on an RTX PRO 6000, 153 on 8 GB, 174 on a GTX 1080, 451 and 456 on RTX 4090 (llama.cpp pull
   15860). */
#define VRAM__BESIDE_CONTEXT_LOW (UINT64_C(100) << 20)
#define VRAM__BESIDE_CONTEXT_HIGH (UINT64_C(512) << 20)
/* One graph of all nodes; published of vLLM: 1.62 GiB for 67 graphs, 25 MiB each. */
#define VRAM__BESIDE_GRAPHS (UINT64_C(64) << 20)
#define VRAM__BESIDE_STEP (UINT64_C(1) << 21) /* cuMemGetAllocationGranularity */
#define VRAM__BESIDE_SM UINT64_C(192)         /* multiprocessors: no device has more */

typedef struct vram__beside {
  const vram__llama *l;
  uint64_t low[VRAM_LLAMA_MAX_DEVICES], high; /* of the pool */
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
                                   uint64_t columns, uint64_t experts, int32_t device) {
  const int is_fp4 = t->dtype == VRAM_MXFP4 || t->dtype == VRAM_NVFP4;
  const uint64_t padded = vram__round_up_u64(columns, 512),
                 bytes = vram__beside_times(rows, padded / 128, 144),
                 ids = vram__product_or_overflow(vram__sum_or_overflow(rows, experts), 8),
                 tiles = UINT64_C(128) * 144 + VRAM__BESIDE_SM * 128 * 128 * 4;
  const uint64_t high = vram__sum_or_overflow(bytes, vram__sum_or_overflow(ids, tiles));
  if (device >= 0 && (is_fp4 ? bytes / 2 : bytes) > s->low[device])
    s->low[device] = is_fp4 ? bytes / 2 : bytes;
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
  if (!columns || (vram__llama_holds(t, "embd") && !l->is_tied) ||
      vram__llama_device(l, t, &device, NULL))
    return;
  if (vram__llama_holds(t, "output.weight") && !vram__llama_holds(t, "attn_output"))
    device = -1; /* rows of logits may be few */
  if (vram__beside_is_mmq(t->dtype))
    vram__beside_quantised(s, t, rows, columns, experts, device);
  else
    vram__beside_converted(s, t, rows, columns, (uint64_t)t->size[t->ndim - 2], is_expert);
}

/* Flash attention: parts of the results of 4 blocks of 64 rows on each multiprocessor. Without it:
   queries, keys and scores of a layer once more. */
static uint64_t vram__beside_attention(const vram__llama *l, const vram__llama_layer *y) {
  uint64_t keys;
  if (l->flash_attention)
    return vram__beside_times(VRAM__BESIDE_SM * 4 * 64, (uint64_t)y->head_v + 4, 4);
  keys = vram__beside_times((uint64_t)y->head_k * y->n_head_kv, l->n_ctx, 4);
  return vram__sum_or_overflow(
      keys,
      vram__beside_times(l->n_ubatch, y->n_head, 4 * (uint64_t)y->head_k + 2 * (uint64_t)l->n_ctx));
}

/* States: what a scan of a batch keeps (ssm-scan.cu), each at most as wide as the state. */
static uint64_t vram__beside_states(const vram__llama *l) {
  return vram__beside_times(l->n_embd_s, l->n_seq, 16);
}

VRAM__FN void vram__llama_beside(const vram__llama *l, vram_llama_report *r) {
  const uint64_t workspace = UINT64_C(1) << (l->options->cc >= 90 ? 25 : 22); /* of cuBLAS */
  const vram_file_tensor *t;
  vram__beside s;
  uint32_t i;
  vram__memory_zero(&s, sizeof s);
  s.l = l;
  for (t = l->file->tensor_first; t; t = t->next)
    if (t->ndim >= 2)
      vram__beside_matrix(&s, t);
  for (i = 0; i < l->n_layer; i++) {
    const uint64_t bytes = vram__beside_attention(l, l->layer + i);
    s.high = bytes > s.high ? bytes : s.high;
  }
  s.high = vram__sum_or_overflow(s.high, vram__beside_states(l));
  for (i = 0; i < l->ndevice; i++) {
    r->beside_low[i] = vram__sum_or_overflow(VRAM__BESIDE_CONTEXT_LOW, s.low[i]);
    r->beside_high[i] = vram__sum_or_overflow(
        VRAM__BESIDE_CONTEXT_HIGH + VRAM__BESIDE_GRAPHS + VRAM__BESIDE_STEP + workspace, s.high);
  }
}
