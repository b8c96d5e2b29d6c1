/* >>step/report    the report's terms and bounds */
#include "step/step.h"

VRAM_API int vram_report_term(const vram_report *report, uint32_t i, vram_term *term) {
  uint32_t k = 0;
#define VRAM__FIGURE(field, kind, text)                                                            \
  if (k++ == i) {                                                                                  \
    term->name = #field;                                                                           \
    term->source = VRAM_SOURCE_##kind;                                                             \
    term->from = text;                                                                             \
    term->bytes.lower = term->bytes.expected = term->bytes.upper = report->field;                  \
    return 1;                                                                                      \
  }
#define VRAM__FIGURES(field, kind, text)                                                           \
  if (k++ == i) {                                                                                  \
    term->name = #field;                                                                           \
    term->source = VRAM_SOURCE_##kind;                                                             \
    term->from = text;                                                                             \
    term->bytes = report->field;                                                                   \
    return 1;                                                                                      \
  }
  VRAM_TERMS(VRAM__FIGURE, VRAM__FIGURES)
#undef VRAM__FIGURE
#undef VRAM__FIGURES
  return 0;
}

VRAM_API const char *vram_source_name(vram_source source) {
  static const char *const text[VRAM_SOURCE_COUNT] = {
#define VRAM__X(id, what) what,
      VRAM_SOURCES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)source < VRAM_SOURCE_COUNT ? text[source] : "?";
}

VRAM_API const char *vram_setup_name(vram_setup setup) {
  static const char *const text[VRAM_SETUP_COUNT] = {
#define VRAM__X(id, what) what,
      VRAM_SETUPS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)setup < VRAM_SETUP_COUNT ? text[setup] : "?";
}

VRAM_API vram_bounds vram_context_bytes(const vram_step_options *o, int cudnn) {
  vram__device d;
  vram_bounds c;
  vram__device_of(&d, o, o->rules);
  c = vram__context_bare(d.cc, d.sm);
  c.upper = c.expected + d.rules->context.all_kernels;
  if (o->eager_modules == VRAM_EAGER_CUDA10) {
    c.lower += d.rules->context.cuda10_least;
    c.expected += d.rules->context.cuda10_kernels;
  } else if (o->eager_modules) {
    c.lower += d.rules->context.eager_least;
    c.expected += d.rules->context.eager_kernels[d.cc < 80 ? 0 : d.cc == 80 ? 1 : 2];
  } else
    c.expected += VRAM__CONTEXT_LAZY_KERNELS;
  if (o->eager_modules && cudnn)
    c.expected += d.rules->context.eager_cudnn;
  if (o->context_bytes)
    c.lower = c.expected = c.upper = o->context_bytes == VRAM_NO_CONTEXT ? 0 : o->context_bytes;
  return c;
}

/* cuBLAS has a workspace of its own for each thread that calls it, the caller's and backward's:
   64 MiB on Hopper and later ones (libcublas 13.1 on an H200). Older devices have 8 MiB, which what
   is said of their contexts includes. */
static uint64_t vram__report_blas_handles(const vram_report *r, const vram_step_options *o) {
  vram__device d;
  vram__device_of(&d, o, o->rules);
  if (o->context_bytes || d.cc < 90 || !r->workspace_bytes)
    return 0;
  return UINT64_C(2) * (o->train ? 2 : 1) * d.rules->cublas.workspace_sm90;
}

/* What is expected on the device beside the allocator's segments. */
VRAM__FN uint64_t vram__report_beside(const vram_report *r) {
  return vram__sum_or_overflow(r->context_bytes.expected, r->nccl_bytes.expected);
}

/* The caching allocator reserves whole segments, at least what is allocated. What it keeps of freed
   blocks nothing bounds but a replay: half of what is allocated and 32 MiB are more than in any of
   1,472 measured training steps (VGG-16: 44 %), and the segment of the largest workspace may lie
   idle. A wrapper's streams have pools of their own, in each of which a constructor's temporaries
   that no step plays may have left a small segment. */
VRAM__FN void vram__report_device_bounds(vram_report *r, const vram_step_options *o) {
  const uint64_t segment = VRAM__SMALL_SEGMENT;
  const uint64_t least = r->peak_allocated_bytes.lower, most = r->peak_allocated_bytes.upper;
  const uint64_t lower = (least + segment - 1) / segment * segment;
  const uint64_t whole = (most + segment - 1) / segment * segment;
  uint64_t upper = whole + whole / 2 + 16 * segment;
  const uint64_t handles = vram__report_blas_handles(r, o);
  vram_bounds c = vram_context_bytes(o, r->runs_cudnn);
  uint32_t i;
  c.expected += handles;
  c.upper += handles;
  r->peak_reserved_bytes = lower;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (r->phase[i].reserved_peak_bytes > r->peak_reserved_bytes)
      r->peak_reserved_bytes = r->phase[i].reserved_peak_bytes;
  if (o->parallel && o->parallel->wrapper &&
      upper < r->peak_reserved_bytes + VRAM__STREAMS * segment)
    upper = r->peak_reserved_bytes + VRAM__STREAMS * segment;
  if (upper < r->peak_reserved_bytes)
    upper = r->peak_reserved_bytes;
  upper = vram__sum_or_overflow(upper, r->cudnn_bytes.upper);
  upper = vram__sum_or_overflow(upper, r->waiting_bytes);
  r->context_bytes = c;
  r->nccl_bytes = vram_nccl_bytes(o);
  r->device_bytes.lower = vram__sum_or_overflow(lower, c.lower + r->nccl_bytes.lower);
  r->device_bytes.expected =
      vram__sum_or_overflow(r->replayed ? r->peak_reserved_bytes : whole, vram__report_beside(r));
  r->device_bytes.upper =
      vram__sum_or_overflow(upper, vram__sum_or_overflow(c.upper, r->nccl_bytes.upper));
  r->fits = r->device_bytes.expected <= o->budget_bytes && !r->num_ooms;
}
