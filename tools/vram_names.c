/* Names that a command line may hold: built-in models, optimizers, GPUs. */
#include "vram_command.h"

/* ---- built-in models: examples/models, made into lines of text when this is built ---- */

#include "models.h"

const char *const *cmd_built_in(const char *name) {
  size_t i;
  for (i = 0; i < sizeof model_table / sizeof *model_table; i++)
    if (!strcmp(model_table[i].name, name))
      return model_table[i].line;
  return NULL;
}

const char *cmd_name_at(const char *what, uint32_t i) {
  static vram_optimizer_info o;
  const vram_gpu *gpu;
  switch (*what) {
  case 'm':
    return i < sizeof model_table / sizeof *model_table ? model_table[i].name : NULL;
  case 'g':
    gpu = vram_gpu_at(i);
    return gpu ? gpu->name : NULL;
  default:
    return vram_optimizer_get_info(i, &o) ? o.name : NULL;
  }
}

/* Letters to change, add or remove to make one word of the other, which has 64 letters at most;
   none to add if the word begins it (resnet, a100), one if it is a part of it (4090). */
static size_t distance(const char *a, const char *b) {
  size_t row[65], i, j, n = strlen(b) < 64 ? strlen(b) : 64;
  for (i = 0; i < n && a[0]; i++) {
    for (j = 0; a[j] && cmd_lower(a[j]) == b[i + j];)
      j++;
    if (!a[j])
      return i > 0;
  }
  for (j = 0; j <= n; j++)
    row[j] = j;
  for (i = 0; a[i]; i++) {
    size_t corner = row[0]++;
    for (j = 0; j < n; j++) {
      const size_t change = corner + (cmd_lower(a[i]) != b[j]), add = row[j] + 1,
                   drop = row[j + 1] + 1;
      corner = row[j + 1];
      row[j + 1] = change < add ? change : add;
      row[j + 1] = row[j + 1] < drop ? row[j + 1] : drop;
    }
  }
  return row[n];
}

const char *cmd_nearest(const char *what, const char *name) {
  static char text[128];
  size_t least = strlen(name) / 2 + 1;
  const char *known;
  uint32_t i;
  snprintf(text, sizeof text, "one of vram list %s", what);
  for (i = 0; (known = cmd_name_at(what, i)) != NULL; i++)
    if (distance(name, known) < least) {
      least = distance(name, known);
      snprintf(text, sizeof text, "%s? vram list %s", known, what);
    }
  return text;
}

const vram_gpu *cmd_find_gpu(const char *name) {
  const vram_gpu *gpu;
  uint32_t i;
  size_t k;
  for (i = 0; (gpu = vram_gpu_at(i)) != NULL; i++) {
    for (k = 0; gpu->name[k] && (name[k] | 32) == (gpu->name[k] | 32); k++)
      ;
    if (!gpu->name[k] && !name[k])
      break;
  }
  return gpu;
}
