/* >>read/hf_key    keys of a config.json of transformers */
#include "read/read.h"

/* the product of two, and a few of them, fit into 64 bits */
#define VRAM__HF_MAX_NUMBER UINT64_C(1073741824)

VRAM__FN void vram__hf_fail(vram__hf *h, vram_result code, const char *text, const char *name) {
  if (h->result)
    return;
  h->result = vram__error_begin(h->e, code, 0, text);
  vram__error_text(h->e, name);
}

/* The value of a key below a prefix, which may be null; NULL: there is none. */
VRAM__FN const vram_file_value *vram__hf_at(const vram_file *f, const char *prefix,
                                            const char *key) {
  char name[96];
  uint32_t n = 0;
  vram__text_puts(name, sizeof name, &n, prefix);
  vram__text_puts(name, sizeof name, &n, key);
  return vram_file_get(f, name, n);
}

VRAM__FN const vram_file_value *vram__hf_value(const vram__hf *h, const char *key) {
  return vram__hf_at(h->f, h->prefix, key);
}

/* A whole number; `none` where the key is missing, `null` where it is null. */
VRAM__FN uint64_t vram__hf_number_or(vram__hf *h, const char *key, uint64_t none, uint64_t null) {
  const vram_file_value *const v = vram__hf_value(h, key);
  if (!v)
    return none;
  if (v->kind == VRAM_VALUE_NULL)
    return null;
  if (v->kind != VRAM_VALUE_UINT || v->number.u > VRAM__HF_MAX_NUMBER) {
    vram__hf_fail(h, VRAM_ERR_VALUE, "no whole number is the key ", key);
    return none;
  }
  return v->number.u;
}

VRAM__FN uint64_t vram__hf_number(vram__hf *h, const char *key, uint64_t none) {
  return vram__hf_number_or(h, key, none, none);
}

VRAM__FN int vram__hf_bool(vram__hf *h, const char *key, int none) {
  const vram_file_value *const v = vram__hf_value(h, key);
  if (!v || v->kind == VRAM_VALUE_NULL)
    return none;
  if (v->kind != VRAM_VALUE_BOOL)
    vram__hf_fail(h, VRAM_ERR_VALUE, "neither true nor false is the key ", key);
  return v->number.u != 0;
}

/* The first of several names of a key that is there; the first one if none is. */
VRAM__FN const char *vram__hf_name(const vram__hf *h, const char *a, const char *b, const char *c) {
  return vram__hf_value(h, a) ? a : vram__hf_value(h, b) ? b : c && vram__hf_value(h, c) ? c : a;
}
