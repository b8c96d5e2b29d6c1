/* >>read/gguf    GGUF (ggml: docs/gguf.md, src/gguf.cpp), versions 2 and 3
   Refuses what ggml refuses, and because of a count no more memory is taken or looked at than the
   file has bytes for. */
#include "read/read.h"

enum { /* types of values */
       VRAM__GGUF_U8,
       VRAM__GGUF_I8,
       VRAM__GGUF_U16,
       VRAM__GGUF_I16,
       VRAM__GGUF_U32,
       VRAM__GGUF_I32,
       VRAM__GGUF_F32,
       VRAM__GGUF_BOOL,
       VRAM__GGUF_TEXT,
       VRAM__GGUF_ARRAY,
       VRAM__GGUF_U64,
       VRAM__GGUF_I64,
       VRAM__GGUF_F64,
       VRAM__GGUF_TYPES
};

enum {
  VRAM__GGUF_MAX_NAME = 63,             /* GGML_MAX_NAME without its end */
  VRAM__GGUF_MAX_AXES = 4,              /* GGML_MAX_DIMS */
  VRAM__GGUF_LEAST_KEY = 8 + 1 + 4 + 1, /* bytes of the shortest key and value */
  VRAM__GGUF_LEAST_TENSOR = 8 + 4 + 4 + 8,
  VRAM__GGUF_KEPT = 1024,     /* an array of more elements is only counted: a number for each
                                 layer or expert is kept, one for each token is not */
  VRAM__GGUF_KEPT_TEXT = 4096 /* nor is a longer text: a template */
};
#define VRAM__GGUF_MAX_TEXT (UINT64_C(1) << 30)

static const uint8_t vram__gguf_bytes[VRAM__GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static const uint8_t vram__gguf_kind[VRAM__GGUF_TYPES] = {
    VRAM_VALUE_UINT, VRAM_VALUE_INT,   VRAM_VALUE_UINT, VRAM_VALUE_INT,  VRAM_VALUE_UINT,
    VRAM_VALUE_INT,  VRAM_VALUE_FLOAT, VRAM_VALUE_BOOL, VRAM_VALUE_TEXT, VRAM_VALUE_ARRAY,
    VRAM_VALUE_UINT, VRAM_VALUE_INT,   VRAM_VALUE_FLOAT};

/* Fails at an offset; the text goes on with a quoted name. */
static vram_result vram__gguf_fail(vram__reader *r, vram_result code, uint64_t offset,
                                   const char *text, const char *name, uint32_t len) {
  if (!r->result) {
    vram__reader_fail(r, code, offset, text);
    vram__error_text(r->error, " '");
    vram__error_quote(r->error, name, len);
    vram__error_text(r->error, "'");
  }
  return r->result;
}

static vram_result vram__gguf_refuse(vram__reader *r, uint64_t offset, const char *text,
                                     uint64_t v) {
  if (!r->result) {
    vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, text);
    vram__error_number(r->error, " ", v);
  }
  return r->result;
}

/* The length in front of a text, which is there. */
static uint64_t vram__gguf_length(vram__reader *r, const char *what) {
  const uint64_t offset = vram__reader_offset(r), n = vram__reader_u64(r, what);
  if (!r->result && n > VRAM__GGUF_MAX_TEXT)
    vram__gguf_refuse(r, offset, "a text of more than 1 GiB, its length is", n);
  else if (!r->result && n > vram__reader_left(r))
    vram__gguf_refuse(r, offset, "a text that is longer than the rest of the file, its length is",
                      n);
  return r->result ? 0 : n;
}

/* ---- values ---- */

static float vram__gguf_f32(uint32_t bits) {
  union {
    uint32_t u;
    float f;
  } v;
  v.u = bits;
  return v.f;
}

static double vram__gguf_f64(uint64_t bits) {
  union {
    uint64_t u;
    double f;
  } v;
  v.u = bits;
  return v.f;
}

/* The number of a type that stands at b, widened to eight bytes. */
static void vram__gguf_widen(const uint8_t *b, uint32_t type, void *to) {
  uint64_t u = 0;
  double d;
  uint32_t i;
  for (i = vram__gguf_bytes[type]; i-- > 0;)
    u = u << 8 | b[i];
  switch (type) {
  case VRAM__GGUF_I8:
    u = (uint64_t)(int64_t)(int8_t)(uint8_t)u;
    break;
  case VRAM__GGUF_I16:
    u = (uint64_t)(int64_t)(int16_t)(uint16_t)u;
    break;
  case VRAM__GGUF_I32:
    u = (uint64_t)(int64_t)(int32_t)(uint32_t)u;
    break;
  case VRAM__GGUF_BOOL:
    u = u != 0;
    break;
  default:
    break;
  }
  if (vram__gguf_kind[type] == VRAM_VALUE_FLOAT) {
    d = type == VRAM__GGUF_F32 ? (double)vram__gguf_f32((uint32_t)u) : vram__gguf_f64(u);
    vram__memory_copy(to, &d, 8);
  } else
    vram__memory_copy(to, &u, 8);
}

static vram_result vram__gguf_text(vram_file *f, vram__reader *r, vram_file_value *v) {
  v->count = vram__gguf_length(r, "a text");
  if (r->result || v->count > VRAM__GGUF_KEPT_TEXT)
    return vram__reader_skip(r, v->count, "a text");
  v->text = vram__file_text(f, r, v->count, "a text");
  return r->result;
}

static vram_result vram__gguf_numbers(vram_file *f, vram__reader *r, vram_file_value *v,
                                      uint32_t type) {
  const uint32_t bytes = vram__gguf_bytes[type];
  uint8_t *to;
  uint64_t i;
  if (v->count > vram__reader_left(r) / bytes)
    return vram__gguf_refuse(r, vram__reader_offset(r),
                             "an array that is longer than the rest of the file, its length is",
                             v->count);
  if (v->count > VRAM__GGUF_KEPT)
    return vram__reader_skip(r, v->count * bytes, "an array");
  to = (uint8_t *)vram__file_take(f, r, 8 * v->count);
  v->array = to;
  for (i = 0; to && i < v->count && vram__reader_has(r, bytes, "an array"); i++, r->at += bytes)
    vram__gguf_widen(r->at, type, to + 8 * i);
  return r->result;
}

/* Texts are skipped one after the other: a vocabulary has some 100,000. */
static vram_result vram__gguf_texts(vram__reader *r, uint64_t count) {
  if (count > vram__reader_left(r) / 8)
    return vram__gguf_refuse(r, vram__reader_offset(r),
                             "an array that is longer than the rest of the file, its length is",
                             count);
  for (; count && !r->result; count--) {
    const uint64_t n = vram__gguf_length(r, "an array of texts");
    if (n <= (uint64_t)(r->end - r->at))
      r->at += n;
    else
      vram__reader_skip(r, n, "an array of texts");
  }
  return r->result;
}

static vram_result vram__gguf_value(vram_file *f, vram__reader *r, vram_file_value *v) {
  const uint64_t offset = vram__reader_offset(r);
  uint32_t type = vram__reader_u32(r, "the type of a value");
  if (type == VRAM__GGUF_ARRAY) {
    type = vram__reader_u32(r, "the type of an array");
    v->kind = VRAM_VALUE_ARRAY;
    v->count = vram__reader_u64(r, "the length of an array");
    if (type == VRAM__GGUF_ARRAY)
      type = VRAM__GGUF_TYPES; /* no arrays of arrays */
  }
  if (r->result)
    return r->result;
  if (type >= VRAM__GGUF_TYPES)
    return vram__gguf_fail(r, VRAM_ERR_SYNTAX, offset, "no type of a value, at key", v->name,
                           v->name_len);
  v->type = (uint8_t)type;
  if (v->kind == VRAM_VALUE_ARRAY) {
    v->of = vram__gguf_kind[type];
    return type == VRAM__GGUF_TEXT ? vram__gguf_texts(r, v->count)
                                   : vram__gguf_numbers(f, r, v, type);
  }
  v->kind = vram__gguf_kind[type];
  if (type == VRAM__GGUF_TEXT)
    return vram__gguf_text(f, r, v);
  if (vram__reader_has(r, vram__gguf_bytes[type], "a value")) {
    vram__gguf_widen(r->at, type, &v->number);
    r->at += vram__gguf_bytes[type];
  }
  return r->result;
}

static int vram__gguf_is(const vram_file_value *v, const char *name) {
  return vram__text_is(v->name, v->name_len, name);
}

/* What a value says about the file itself. */
static vram_result vram__gguf_apply(vram_file *f, vram__reader *r, const vram_file_value *v,
                                    uint64_t offset) {
  if (vram__gguf_is(v, "general.alignment")) {
    f->alignment = v->number.u;
    if (v->kind != VRAM_VALUE_UINT || v->type != VRAM__GGUF_U32 || !f->alignment ||
        (f->alignment & (f->alignment - 1)))
      return vram__reader_fail(r, VRAM_ERR_VALUE, offset,
                               "general.alignment is no power of two of type u32");
  }
  if (v->kind == VRAM_VALUE_UINT && vram__gguf_is(v, "split.count"))
    f->split_count = v->number.u;
  if (v->kind == VRAM_VALUE_INT && vram__gguf_is(v, "split.tensors.count"))
    f->split_tensors = v->number.u;
  if (v->kind == VRAM_VALUE_UINT && vram__gguf_is(v, "split.no") && v->number.u != f->npart - 1u)
    return vram__gguf_refuse(
        r, offset, "another part of the model is expected here; this is split.no", v->number.u);
  return VRAM_OK;
}

/* Keys and values; those of a second part say again what the first one says, and are not kept. */
static vram_result vram__gguf_values(vram_file *f, vram__reader *r, uint64_t count) {
  vram__names names = {NULL, 0, 0};
  for (; count && !r->result; count--) {
    vram_file_value other, *v = f->npart == 1 ? vram__file_value(f, r) : &other;
    const uint64_t offset = vram__reader_offset(r), n = vram__gguf_length(r, "a key");
    if (!v || r->result)
      return r->result;
    vram__memory_zero(&other, sizeof other);
    if (!n || n > UINT32_MAX)
      return vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, "an empty key");
    v->name = vram__file_text(f, r, n, "a key");
    v->name_len = (uint32_t)n;
    if (!v->name)
      return r->result;
    if (!vram__names_add(f, r, &names, v->name, v->name_len, v->name))
      return vram__gguf_fail(r, VRAM_ERR_NAME, offset, "a key that is there twice:", v->name,
                             v->name_len);
    if (vram__gguf_value(f, r, v) || vram__gguf_apply(f, r, v, offset))
      return r->result;
  }
  return r->result;
}

/* ---- tensors ---- */

/* Sizes, which ggml has with the innermost first, and their product. */
static vram_result vram__gguf_sizes(vram__reader *r, vram_file_tensor *t, uint32_t ndim) {
  uint32_t i;
  t->ndim = (uint8_t)ndim;
  t->numel = 1;
  for (i = 0; i < ndim; i++) {
    const uint64_t offset = vram__reader_offset(r),
                   n = vram__reader_u64(r, "the sizes of a tensor");
    if (r->result)
      return r->result;
    if (n > (uint64_t)INT64_MAX)
      return vram__gguf_fail(r, VRAM_ERR_SHAPE, offset, "a negative size of tensor", t->name,
                             t->name_len);
    t->size[ndim - 1 - i] = (int64_t)n;
    t->numel = vram__product_or_overflow(t->numel, n);
  }
  if (t->numel >= (uint64_t)INT64_MAX)
    return vram__gguf_fail(r, VRAM_ERR_OVERFLOW, vram__reader_offset(r),
                           "more than 2^63-1 elements in tensor", t->name, t->name_len);
  return VRAM_OK;
}

static vram_result vram__gguf_type(vram__reader *r, vram_file_tensor *t) {
  const uint64_t offset = vram__reader_offset(r);
  const int32_t id = (int32_t)vram__reader_u32(r, "the type of a tensor");
  const uint64_t columns = t->ndim ? (uint64_t)t->size[t->ndim - 1] : 1;
  vram_result code;
  if (r->result)
    return r->result;
  t->dtype = vram_dtype_from_ggml_id(id);
  code = vram_dtype_rows_bytes(t->dtype, columns ? t->numel / columns : 0, columns, &t->bytes);
  if (code == VRAM_ERR_DTYPE) {
    vram__gguf_fail(r, code, offset, "no such type of ggml, or one that was removed, of tensor",
                    t->name, t->name_len);
    vram__error_integer(r->error, ": ", id);
  } else if (code == VRAM_ERR_BLOCK)
    vram__gguf_fail(r, code, offset, "a row that does not divide into blocks, of tensor", t->name,
                    t->name_len);
  else if (code || t->bytes > (uint64_t)VRAM_MAX_BYTES)
    vram__gguf_fail(r, VRAM_ERR_OVERFLOW, offset, "more than 2^63-1 bytes in tensor", t->name,
                    t->name_len);
  return r->result;
}

/* One line of the table. data: bytes of the tensors before it, padded. */
static vram_result vram__gguf_tensor(vram_file *f, vram__reader *r, uint64_t data) {
  vram_file_tensor *const t = vram__file_tensor(f, r);
  uint64_t offset = vram__reader_offset(r), n = vram__gguf_length(r, "the name of a tensor");
  uint32_t ndim;
  if (!t || r->result)
    return r->result;
  if (n > VRAM__GGUF_MAX_NAME)
    return vram__gguf_refuse(r, offset, "a name of a tensor of more than 63 bytes, its length is",
                             n);
  t->name = vram__file_text(f, r, n, "the name of a tensor");
  t->name_len = (uint32_t)n;
  t->part = f->npart - 1;
  offset = vram__reader_offset(r);
  ndim = vram__reader_u32(r, "the number of a tensor's axes");
  if (r->result)
    return r->result;
  if (ndim > VRAM__GGUF_MAX_AXES)
    return vram__gguf_fail(r, VRAM_ERR_SHAPE, offset, "more than 4 axes of tensor", t->name,
                           t->name_len);
  if (vram__gguf_sizes(r, t, ndim) || vram__gguf_type(r, t))
    return r->result;
  offset = vram__reader_offset(r);
  t->offset = vram__reader_u64(r, "the offset of a tensor");
  if (!r->result && t->offset != data) {
    vram__gguf_fail(r, VRAM_ERR_VALUE, offset, "a hole or an overlap before tensor", t->name,
                    t->name_len);
    vram__error_number(r->error, ": offset ", t->offset);
    vram__error_number(r->error, ", expected ", data);
  }
  return r->result;
}

/* The table; offsets become those in the file. */
static vram_result vram__gguf_tensors(vram_file *f, vram__reader *r, uint64_t count) {
  vram_file_part *const part = f->part_last;
  vram_file_tensor *const before = f->tensor_last, *t;
  uint64_t data = 0, i;
  for (i = 0; i < count; i++) {
    if (vram__gguf_tensor(f, r, data))
      return r->result;
    t = f->tensor_last;
    data = vram__sum_or_overflow(data, vram__round_up_u64(t->bytes, f->alignment));
    f->tensor_bytes = vram__sum_or_overflow(f->tensor_bytes, t->bytes);
    f->numel = vram__sum_or_overflow(f->numel, t->numel);
    if (data > (uint64_t)VRAM_MAX_BYTES || f->tensor_bytes > (uint64_t)VRAM_MAX_BYTES)
      return vram__reader_fail(r, VRAM_ERR_OVERFLOW, vram__reader_offset(r),
                               "tensors of more than 2^63-1 bytes");
  }
  part->ntensor = count;
  part->header_bytes = vram__reader_offset(r);
  if (count)
    part->header_bytes = vram__round_up_u64(part->header_bytes, f->alignment);
  part->expected_bytes = part->header_bytes + data;
  for (t = before ? before->next : f->tensor_first; t; t = t->next)
    t->offset += part->header_bytes;
  return VRAM_OK;
}

static vram_result vram__gguf_version(vram_file *f, vram__reader *r) {
  const uint64_t offset = vram__reader_offset(r);
  const uint32_t version = vram__reader_u32(r, "the version");
  if (r->result)
    return r->result;
  if (version && !(version & 0xFFFF))
    return vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, offset,
                             "a big-endian file, which ggml does not read on other machines");
  if (version != 2 && version != 3)
    return vram__gguf_refuse(r, offset, "only versions 2 and 3 are read; this is version", version);
  f->version = version;
  return VRAM_OK;
}

VRAM__FN vram_result vram__gguf_read(vram_file *f, vram__reader *r) {
  vram_file_part *part;
  uint64_t ntensor, nvalue, offset, left;
  if (vram__reader_skip(r, 4, "the magic") || vram__gguf_version(f, r))
    return r->result;
  offset = vram__reader_offset(r);
  ntensor = vram__reader_u64(r, "the number of tensors");
  nvalue = vram__reader_u64(r, "the number of keys");
  left = r->result ? 0 : vram__reader_left(r);
  if (!r->result && nvalue > left / VRAM__GGUF_LEAST_KEY)
    vram__gguf_refuse(r, offset + 8, "more keys than the file has bytes for:", nvalue);
  if (!r->result && ntensor > left / VRAM__GGUF_LEAST_TENSOR)
    vram__gguf_refuse(r, offset, "more tensors than the file has bytes for:", ntensor);
  part = r->result ? NULL : vram__file_part(f, r, NULL, 0);
  if (!part)
    return r->result;
  part->is_read = 1;
  part->present_bytes = r->source->bytes;
  f->alignment = 32;
  if (!vram__gguf_values(f, r, nvalue))
    vram__gguf_tensors(f, r, ntensor);
  return r->result;
}

/* All parts, and all tensors that the first one promises. */
VRAM__FN vram_result vram__gguf_finish(const vram_file *f, vram_error *e) {
  if (f->split_count && f->split_count != f->npart) {
    vram__error_begin(e, VRAM_ERR_VALUE, 0, "a model of ");
    vram__error_number(e, "", f->split_count);
    vram__error_number(e, " parts, of which there are ", f->npart);
    return VRAM_ERR_VALUE;
  }
  if (f->split_count && f->split_tensors && f->split_tensors != f->ntensor) {
    vram__error_begin(e, VRAM_ERR_VALUE, 0, "parts of ");
    vram__error_number(e, "", f->split_tensors);
    vram__error_number(e, " tensors, of which there are ", f->ntensor);
    return VRAM_ERR_VALUE;
  }
  return VRAM_OK;
}
