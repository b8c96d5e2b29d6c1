/* >>llama/extra    files that llama.cpp loads beside a model: adapters, control vectors, projectors
   From llama.cpp: llama-adapter.cpp (each pair of an adapter lies with the matrix that it changes,
   a direction with its layer), tools/mtmd/clip.cpp (a projector lies on the first device). What
   their graphs need is not counted. */
#include "llama/llama.h"

static int vram__extra_is(const vram_file *f, const char *key, const char *text) {
  const vram_file_value *v = vram_file_get(f, key, vram__text_len(key));
  return v && v->kind == VRAM_VALUE_TEXT && v->text && v->count <= 64 &&
         vram__text_is(v->text, (uint32_t)v->count, text);
}

static vram_llama_extra vram__extra_of(const vram_file *f) {
  if (vram__extra_is(f, "general.type", "adapter"))
    return VRAM_LLAMA_ADAPTER;
  if (vram__extra_is(f, "general.architecture", "controlvector"))
    return VRAM_LLAMA_CONTROL_VECTOR;
  return vram__extra_is(f, "general.architecture", "clip") ? VRAM_LLAMA_PROJECTOR
                                                           : VRAM_LLAMA_MODEL;
}

/* The layer of a tensor, "blk.N." or "direction.N"; -1: none. */
static int32_t vram__extra_layer(const vram_file_tensor *t) {
  static const char *const before[] = {"blk.", "direction."};
  for (uint32_t k = 0; k < 2; k++) {
    const uint32_t len = vram__text_len(before[k]);
    uint32_t i = len, n = 0;
    if (t->name_len <= len || !vram__text_equal(t->name, before[k], len))
      continue;
    for (; i < t->name_len && vram__digit(t->name[i]) && n < VRAM__LLAMA_LAYERS; i++)
      n = 10 * n + (uint32_t)(t->name[i] - '0');
    return i > len && n < VRAM__LLAMA_LAYERS ? (int32_t)n : -1;
  }
  return -1;
}

static int32_t vram__extra_device(const vram__llama *l, const vram_file_tensor *t,
                                  vram_llama_extra kind) {
  const int32_t layer = vram__extra_layer(t);
  if (kind == VRAM_LLAMA_PROJECTOR)
    return l->ndevice ? 0 : -1;
  if (layer >= 0)
    return l->layer[layer].device;
  return vram__llama_begins(t, "token_embd.") ? l->input_device : l->output_device;
}

/* 0: an ordinary model. Layers are as many as the file knows of. */
VRAM__FN int vram__llama_count_extra(vram__llama *l, vram_llama_report *r) {
  const vram_file_tensor *t;
  r->extra = vram__extra_of(l->file);
  if (r->extra == VRAM_LLAMA_MODEL)
    return 0;
  l->n_layer = 1;
  l->row = vram__llama_architecture_find("llama", 5);
  for (t = l->file->tensor_first; t; t = t->next)
    if (vram__extra_layer(t) >= (int32_t)l->n_layer)
      l->n_layer = (uint32_t)vram__extra_layer(t) + 1;
  vram__llama_place(l);
  for (t = l->file->tensor_first; t; t = t->next)
    vram__llama_weight(l, r, t, vram__extra_device(l, t, r->extra), 0);
  r->ndevice = l->ndevice;
  r->architecture_is_known = 1;
  return 1;
}
