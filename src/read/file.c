/* >>read/file    tensors, values and parts of a file; what kind of file it is */
#include "read/read.h"

/* ---- memory ---- */

VRAM__FN void *vram__file_take(vram_file *f, vram__reader *r, uint64_t bytes) {
  void *const p = vram__memory_take(f->mem, &f->used, f->cap, bytes);
  if (!p)
    vram__reader_fail(r, VRAM_ERR_MEMORY, vram__reader_offset(r),
                      "the caller's memory is too small");
  return p;
}

/* A copy of the next bytes; NULL: an error. */
VRAM__FN const char *vram__file_text(vram_file *f, vram__reader *r, uint64_t bytes,
                                     const char *what) {
  char *to;
  if (bytes > vram__reader_left(r)) { /* before any memory is taken */
    vram__reader_skip(r, bytes, what);
    return NULL;
  }
  to = (char *)vram__file_take(f, r, bytes);
  return to && !vram__reader_copy(r, to, bytes, what) ? to : NULL;
}

VRAM__FN vram_file_part *vram__file_part(vram_file *f, vram__reader *r, const char *name,
                                         uint32_t len) {
  vram_file_part *const p = (vram_file_part *)vram__file_take(f, r, sizeof *p);
  if (!p)
    return NULL;
  vram__memory_zero(p, sizeof *p);
  p->name = name;
  p->name_len = len;
  if (f->part_last)
    f->part_last->next = p;
  else
    f->part_first = p;
  f->part_last = p;
  f->npart++;
  return p;
}

VRAM__FN vram_file_tensor *vram__file_tensor(vram_file *f, vram__reader *r) {
  vram_file_tensor *const t = (vram_file_tensor *)vram__file_take(f, r, sizeof *t);
  if (!t)
    return NULL;
  vram__memory_zero(t, sizeof *t);
  if (f->tensor_last)
    f->tensor_last->next = t;
  else
    f->tensor_first = t;
  f->tensor_last = t;
  f->ntensor++;
  return t;
}

VRAM__FN vram_file_value *vram__file_value(vram_file *f, vram__reader *r) {
  vram_file_value *const v = (vram_file_value *)vram__file_take(f, r, sizeof *v);
  if (!v)
    return NULL;
  vram__memory_zero(v, sizeof *v);
  if (f->value_last)
    f->value_last->next = v;
  else
    f->value_first = v;
  f->value_last = v;
  f->nvalue++;
  return v;
}

/* ---- names ---- */

static vram__name *vram__names_place(const vram__names *n, const char *name, uint32_t len,
                                     uint32_t hash) {
  uint64_t i = hash & (n->room - 1);
  while (n->place[i].what && !(n->place[i].hash == hash && n->place[i].len == len &&
                               vram__text_equal(n->place[i].name, name, len)))
    i = (i + 1) & (n->room - 1);
  return n->place + i;
}

VRAM__FN const void *vram__names_find(const vram__names *n, const char *name, uint32_t len) {
  return n->room ? vram__names_place(n, name, len, vram__hash(name, len))->what : NULL;
}

/* Twice as many places; what the old ones took is not given back, which is less than the new. */
static int vram__names_grow(vram_file *f, vram__reader *r, vram__names *n) {
  vram__names wide = *n;
  uint64_t i;
  wide.room = n->room ? 2 * n->room : 64;
  wide.place = (vram__name *)vram__file_take(f, r, wide.room * sizeof *wide.place);
  if (!wide.place)
    return 0;
  vram__memory_zero(wide.place, wide.room * sizeof *wide.place);
  for (i = 0; i < n->room; i++)
    if (n->place[i].what)
      *vram__names_place(&wide, n->place[i].name, n->place[i].len, n->place[i].hash) = n->place[i];
  *n = wide;
  return 1;
}

/* 0: an error, which is not told where the name is there already. */
VRAM__FN int vram__names_add(vram_file *f, vram__reader *r, vram__names *n, const char *name,
                             uint32_t len, const void *what) {
  const uint32_t hash = vram__hash(name, len);
  vram__name *place;
  if (4 * (n->count + 1) > 3 * n->room && !vram__names_grow(f, r, n))
    return 0;
  place = vram__names_place(n, name, len, hash);
  if (place->what)
    return 0;
  place->name = name;
  place->len = len;
  place->hash = hash;
  place->what = what;
  n->count++;
  return 1;
}

/* ---- files ---- */

VRAM_API void vram_file_init(vram_file *f, void *memory, uint64_t bytes) {
  const uint64_t off = (8 - ((uintptr_t)memory & 7)) & 7;
  vram__memory_zero(f, sizeof *f);
  if (bytes > off) {
    f->mem = (uint8_t *)memory + off;
    f->cap = bytes - off;
  }
  f->alignment = 1;
}

VRAM_API const vram_file_tensor *vram_file_find(const vram_file *f, const char *name,
                                                uint32_t len) {
  return f->names ? (const vram_file_tensor *)vram__names_find(f->names, name, len) : NULL;
}

VRAM_API const vram_file_value *vram_file_get(const vram_file *f, const char *name, uint32_t len) {
  const vram_file_value *v = f->value_first;
  if (f->values) { /* an object stands for the file */
    const void *const what = vram__names_find(f->values, name, len);
    return what == f ? NULL : (const vram_file_value *)what;
  }
  while (v && !(v->name_len == len && vram__text_equal(v->name, name, len)))
    v = v->next;
  return v;
}

/* ---- what kind of file ---- */

enum { VRAM__SNIFF_BYTES = 1024 };

/* Tags of ModelProto (onnx.proto) that may stand behind ir_version: producer_name and _version,
   domain, model_version, doc_string, graph, opset_import, metadata_props. */
static int vram__sniff_is_onnx(const uint8_t *b, uint64_t n) {
  return n >= 4 && b[0] == 0x08 && b[1] > 0 && b[1] < 0x40 &&
         (b[2] == 0x12 || b[2] == 0x1A || b[2] == 0x22 || b[2] == 0x28 || b[2] == 0x32 ||
          b[2] == 0x3A || b[2] == 0x42 || b[2] == 0x72);
}

/* {"weight_map": ..., or behind a small "metadata" */
static int vram__sniff_is_index(const uint8_t *b, uint64_t n) {
  static const char key[] = "\"weight_map\"";
  uint64_t i;
  for (i = 0; i + sizeof key - 1 <= n; i++)
    if (vram__text_equal((const char *)b + i, key, sizeof key - 1))
      return 1;
  return 0;
}

static vram_file_format vram__sniff(const uint8_t *b, uint64_t n) {
  uint64_t i = 0;
  if (n >= 4 && vram__text_equal((const char *)b, "GGUF", 4))
    return VRAM_FILE_GGUF;
  if (n >= 8 && vram__text_equal((const char *)b + 4, "TFL3", 4))
    return VRAM_FILE_TFLITE;
  if (n >= 9 && b[8] == '{' && vram__bytes_u64(b) < UINT64_C(1) << 40)
    return VRAM_FILE_SAFETENSORS;
  while (i < n && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t'))
    i++;
  if (i < n && b[i] == '{')
    return vram__sniff_is_index(b, n) ? VRAM_FILE_INDEX : VRAM_FILE_CONFIG;
  return vram__sniff_is_onnx(b, n) ? VRAM_FILE_ONNX : VRAM_FILE_NONE;
}

VRAM_API vram_file_format vram_file_sniff(const vram_file_source *s) {
  uint8_t some[VRAM__SNIFF_BYTES];
  const uint64_t n = s->bytes < VRAM__SNIFF_BYTES ? s->bytes : (uint64_t)VRAM__SNIFF_BYTES;
  if (s->data)
    return vram__sniff((const uint8_t *)s->data, n);
  if (!s->read || (n && s->read(s->user, 0, some, n)))
    return VRAM_FILE_NONE;
  return vram__sniff(some, n);
}

VRAM_API const char *vram_file_format_name(vram_file_format format) {
  static const char *const name[VRAM_FILE_COUNT] = {
      "?", "gguf", "safetensors", "safetensors index", "config.json", "onnx", "tflite"};
  return (uint32_t)format < VRAM_FILE_COUNT ? name[format] : name[0];
}

VRAM_API vram_result vram_file_read(vram_file *f, const vram_file_source *s, vram_error *e) {
  const vram_file_format format = vram_file_sniff(s);
  vram__reader r;
  if (vram__reader_begin(&r, f, s, e))
    return r.result;
  if (!f->mem)
    return vram__reader_fail(&r, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
  if ((f->format && f->format != format) || (format == VRAM_FILE_INDEX && f->index))
    return vram__reader_fail(&r, VRAM_ERR_UNSUPPORTED, 0, "a part of another format");
  if (format != VRAM_FILE_INDEX)
    f->format = format;
  switch (format) {
  case VRAM_FILE_GGUF:
    return vram__gguf_read(f, &r);
  case VRAM_FILE_SAFETENSORS:
    return vram__safetensors_read(f, &r);
  case VRAM_FILE_INDEX:
    return vram__index_read(f, &r);
  case VRAM_FILE_CONFIG:
    return vram__config_read(f, &r);
  case VRAM_FILE_ONNX:
    return vram__onnx_read(f, &r);
  case VRAM_FILE_TFLITE:
    return vram__tflite_read(f, &r);
  default:
    return vram__reader_fail(&r, VRAM_ERR_UNSUPPORTED, 0,
                             "no GGUF, safetensors, config.json, ONNX or TFLite file");
  }
}

/* The names of all tensors, each of which may be there once. */
VRAM_API vram_result vram_file_finish(vram_file *f, vram_error *e) {
  static const vram_file_source nothing = {"", 0, NULL, NULL};
  const vram_file_tensor *t;
  vram__reader r;
  if (vram__reader_begin(&r, f, &nothing, e))
    return r.result;
  if (f->format == VRAM_FILE_GGUF && vram__gguf_finish(f, e))
    return VRAM_ERR_VALUE;
  if (f->index && vram__index_finish(f, e))
    return VRAM_ERR_VALUE;
  f->names = (vram__names *)vram__file_take(f, &r, sizeof *f->names);
  if (!f->names)
    return r.result;
  vram__memory_zero(f->names, sizeof *f->names);
  for (t = f->tensor_first; t; t = t->next)
    if (!vram__names_add(f, &r, f->names, t->name, t->name_len, t)) {
      if (!r.result) {
        r.result = vram__error_begin(e, VRAM_ERR_NAME, 0, "two tensors are called ");
        vram__error_quote(e, t->name, t->name_len);
      }
      return r.result;
    }
  return VRAM_OK;
}
