/* >>tflm/older    kernels of TensorFlow Lite Micro of November 2024 (c28b493d5)
   The interpreter's own structs are those of today; of the kernels those are here that were
   compared with the code of that time. */
#include "tflm/tflm.h"

/* Scales and zero points of int8 inputs, which are looked at once more. */
static VRAM__TFLM_RULE(concat_2024) {
  const vram_file_name *n;
  uint64_t count = 0;
  (void)y;
  if (x->dtype != VRAM_I8)
    return;
  for (n = r->node->input; n; n = n->next)
    count++;
  vram__tflm_channels(r, count);
  for (n = r->node->input; n; n = n->next)
    vram__tflm_look(r, n->len ? r->value + n->number : NULL);
}

/* clang-format off */
static const vram__tflm_kernel vram__tflm_older[] = {
    {"CONCATENATION", VRAM__TFLM_OF_Concatenation, vram__tflm_rule_concat_2024, {24, 24, 40, 0},
     "0a*a!"},
    {"MEAN", VRAM__TFLM_OF_Reducer, vram__tflm_rule_sums, {40, 40, 40, 0}, "0a1!01A"},
    {"SUM", VRAM__TFLM_OF_Reducer, vram__tflm_rule_sums, {40, 40, 40, 0}, "0a1!01A"},
    {"REDUCE_MAX", VRAM__TFLM_OF_Reducer, vram__tflm_rule_extreme, {40, 40, 40, 0}, "01A0a1!"},
};
/* clang-format on */

/* Not there yet. */
static const char *const vram__tflm_newer[] = {"DYNAMIC_UPDATE_SLICE", "REDUCE_ALL", "REDUCE_MIN",
                                               "REVERSE_V2"};

VRAM__FN const vram__tflm_kernel *vram__tflm_older_of(const char *name, uint32_t len) {
  uint32_t i;
  for (i = 0; i < sizeof vram__tflm_older / sizeof *vram__tflm_older; i++)
    if (vram__text_is(name, len, vram__tflm_older[i].name))
      return vram__tflm_older + i;
  for (i = 0; i < sizeof vram__tflm_newer / sizeof *vram__tflm_newer; i++)
    if (vram__text_is(name, len, vram__tflm_newer[i]))
      return NULL;
  return vram__tflm_kernel_of(name, len);
}
