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

/* Rules of the device: the smallest CUDA context seen (T4), the usual one and the largest with a
   recent runtime. The caching allocator reserves whole segments, at least what is allocated. What
   it keeps of freed blocks nothing bounds but a replay: half of what is allocated and 32 MiB are
   more than in any of 1,472 measured training steps (VGG-16: 44 %). */
#define VRAM__CONTEXT_LOWER UINT64_C(110100480)
#define VRAM__CONTEXT_USUAL UINT64_C(536870912)
#define VRAM__CONTEXT_UPPER UINT64_C(1073741824)

VRAM__FN void vram__report_device_bounds(vram_report *r, uint64_t context, uint64_t budget) {
  const uint64_t segment = VRAM__SMALL_SEGMENT;
  const uint64_t least = r->peak_allocated_bytes.lower, most = r->peak_allocated_bytes.upper;
  const uint64_t lower = (least + segment - 1) / segment * segment;
  const uint64_t usual = (most + segment - 1) / segment * segment;
  uint64_t c[3] = {VRAM__CONTEXT_LOWER, VRAM__CONTEXT_USUAL, VRAM__CONTEXT_UPPER};
  uint64_t upper = usual + usual / 2 + 16 * segment;
  uint32_t i;
  if (context)
    c[0] = c[1] = c[2] = context == VRAM_NO_CONTEXT ? 0 : context;
  r->peak_reserved_bytes = lower;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (r->phase[i].reserved_peak_bytes > r->peak_reserved_bytes)
      r->peak_reserved_bytes = r->phase[i].reserved_peak_bytes;
  if (upper < r->peak_reserved_bytes)
    upper = r->peak_reserved_bytes;
  r->context_bytes.lower = c[0], r->context_bytes.expected = c[1], r->context_bytes.upper = c[2];
  r->device_bytes.lower = vram__sum_or_overflow(lower, c[0]);
  r->device_bytes.expected =
      vram__sum_or_overflow(r->replayed ? r->peak_reserved_bytes : usual, c[1]);
  r->device_bytes.upper = vram__sum_or_overflow(upper, c[2]);
  r->fits = r->device_bytes.expected <= budget && !r->num_ooms;
}
