/* >>read/onnx_tensor    TensorProto of ONNX (onnx.proto): its shape, and how many bytes it has
   where Values stay unread but for few integers, on which shapes depend. */
#include "read/read.h"

/* Fields of TensorProto that hold values. */
enum {
  VRAM__ONNX_FLOATS = 4,
  VRAM__ONNX_INT32S = 5,
  VRAM__ONNX_STRINGS = 6,
  VRAM__ONNX_INT64S = 7,
  VRAM__ONNX_RAW = 9,
  VRAM__ONNX_DOUBLES = 10,
  VRAM__ONNX_UINT64S = 11
};

/* What a tensor's fields say, in whichever order they come. */
typedef struct vram__onnx_data {
  vram__onnx_ints dims, typed;
  int64_t type;
  uint64_t offset, count; /* of the values: the first's offset; numbers, of raw data bytes */
  uint64_t file_offset, file_bytes; /* of external data */
  const char *location;
  uint32_t location_len;
  uint8_t raw[8 * VRAM__ONNX_KEPT];
  uint8_t field; /* that holds the values; 0: none */
  uint8_t is_external, has_file_bytes;
} vram__onnx_data;

static void vram__onnx_ints_put(vram__onnx_ints *n, uint64_t v) {
  if (n->count < VRAM__ONNX_KEPT)
    n->v[n->count] = (int64_t)v;
  n->count++;
}

/* One number, or a packed list of them. */
VRAM__FN void vram__onnx_ints_read(vram__onnx_ints *n, const vram__proto *p, vram__reader *r) {
  if ((p->tag & 7) == VRAM__PROTO_VARINT)
    vram__onnx_ints_put(n, p->value);
  else
    while (!r->result && vram__reader_offset(r) < p->behind)
      vram__onnx_ints_put(n, vram__proto_varint(r, p->behind));
}

/* A copy of them; NULL: too many, or an error. */
VRAM__FN const int64_t *vram__onnx_ints_keep(const vram__onnx_ints *n, vram_file *f,
                                             vram__reader *r) {
  int64_t *to;
  if (n->count > VRAM__ONNX_KEPT || r->result)
    return NULL;
  to = (int64_t *)vram__file_take(f, r, 8 * n->count);
  if (to)
    vram__memory_copy(to, n->v, 8 * n->count);
  return to;
}

static vram_result vram__onnx_tensor_fail(vram__reader *r, vram_result code, uint64_t offset,
                                          const vram_file_tensor *t, const char *text) {
  if (!r->result) {
    vram__reader_fail(r, code, offset, "tensor '");
    vram__error_quote(r->error, t->name, t->name_len);
    vram__error_text(r->error, "' ");
    vram__error_text(r->error, text);
  }
  return r->result;
}

/* ---- external data ---- */

/* A file below the model's folder: no absolute path, no '..', nothing that another system takes for
   one (CVE-2022-25882, CVE-2024-27318). */
static int vram__onnx_location_is_below(const char *s, uint32_t n) {
  uint32_t i, begin = 0;
  if (!n || s[0] == '/')
    return 0;
  for (i = 0; i <= n; i++) {
    if (i < n && (s[i] == '\\' || s[i] == ':' || s[i] == 0))
      return 0;
    if (i < n && s[i] != '/')
      continue;
    if (i - begin == 2 && s[begin] == '.' && s[begin + 1] == '.')
      return 0;
    begin = i + 1;
  }
  return s[n - 1] != '/';
}

/* Decimal digits; 0: something else, or too large. */
static int vram__onnx_number(const char *s, uint32_t n, uint64_t *v) {
  uint32_t i;
  *v = 0;
  for (i = 0; i < n; i++) {
    const uint64_t digit = (uint64_t)(s[i] - '0');
    if (!vram__digit(s[i]) || *v > (UINT64_C(1) << 60))
      return 0;
    *v = 10 * *v + digit;
  }
  return n > 0;
}

/* StringStringEntryProto: key 1, value 2. */
static void vram__onnx_external(vram_file *f, vram__reader *r, uint64_t end, vram__onnx_data *d) {
  const uint64_t offset = vram__reader_offset(r);
  const char *key = "", *value = "";
  uint32_t key_len = 0, value_len = 0;
  vram__proto p;
  int is_sound = 1;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r)) {
    if (p.tag == VRAM__PROTO_B(1))
      key = vram__proto_text(&p, f, r, &key_len);
    else if (p.tag == VRAM__PROTO_B(2))
      value = vram__proto_text(&p, f, r, &value_len);
  }
  if (r->result)
    return;
  if (vram__text_is(key, key_len, "location")) {
    is_sound = vram__onnx_location_is_below(value, value_len);
    d->location = value;
    d->location_len = value_len;
  } else if (vram__text_is(key, key_len, "offset"))
    is_sound = vram__onnx_number(value, value_len, &d->file_offset);
  else if (vram__text_is(key, key_len, "length")) {
    is_sound = vram__onnx_number(value, value_len, &d->file_bytes);
    d->has_file_bytes = 1;
  }
  if (!is_sound) {
    vram__reader_fail(r, VRAM_ERR_VALUE, offset, "external data with the ");
    vram__error_letters(r->error, key, key_len);
    vram__error_text(r->error, " '");
    vram__error_quote(r->error, value, value_len);
    vram__error_text(r->error, "', expected a file below the model's folder and decimal numbers");
  }
}

/* The part that a location names, the last one mostly. */
static vram_file_part *vram__onnx_part(vram_file *f, vram__reader *r, const vram__onnx_data *d,
                                       uint32_t *at) {
  vram_file_part *part;
  uint32_t i = 1;
  for (part = f->part_first->next; part; part = part->next, i++)
    if (part->name_len == d->location_len &&
        vram__text_equal(part->name, d->location, d->location_len))
      break;
  *at = i;
  if (!part && i > VRAM__ONNX_MAX_PARTS)
    vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, vram__reader_offset(r),
                      "external data in more than 4096 files");
  return part || r->result ? part : vram__file_part(f, r, d->location, d->location_len);
}

static void vram__onnx_tensor_external(vram_file *f, vram__reader *r, vram_file_tensor *t,
                                       const vram__onnx_data *d, uint64_t offset) {
  vram_file_part *part;
  if (!d->location)
    vram__onnx_tensor_fail(r, VRAM_ERR_VALUE, offset, t, "is external and has no location");
  else if (d->field)
    vram__onnx_tensor_fail(r, VRAM_ERR_VALUE, offset, t, "is external and has values here, too");
  else if (d->has_file_bytes && d->file_bytes != t->bytes)
    vram__onnx_tensor_fail(r, VRAM_ERR_VALUE, offset, t,
                           "has external data of another length than its shape's");
  else if (t->bytes > UINT64_MAX - d->file_offset)
    vram__onnx_tensor_fail(r, VRAM_ERR_OVERFLOW, offset, t, "ends too far out");
  if (r->result)
    return;
  part = vram__onnx_part(f, r, d, &t->part);
  if (!part)
    return;
  t->offset = d->file_offset;
  if (part->expected_bytes < t->offset + t->bytes)
    part->expected_bytes = t->offset + t->bytes;
  part->ntensor++;
}

/* ---- values in the file ---- */

static uint32_t vram__onnx_field_of(vram_dtype dtype) {
  switch (dtype) {
  case VRAM_F32:
  case VRAM_C64:
    return VRAM__ONNX_FLOATS;
  case VRAM_F64:
  case VRAM_C128:
    return VRAM__ONNX_DOUBLES;
  case VRAM_I64:
    return VRAM__ONNX_INT64S;
  case VRAM_U32:
  case VRAM_U64:
    return VRAM__ONNX_UINT64S;
  default:
    return VRAM__ONNX_INT32S;
  }
}

/* Numbers that the field for a dtype has: two for a complex one, one for a byte of several. */
static uint64_t vram__onnx_numbers(const vram_file_tensor *t) {
  if (t->dtype == VRAM_C64 || t->dtype == VRAM_C128)
    return 2 * t->numel;
  return vram_dtype_get_info(t->dtype)->block_elements > 1 ? t->bytes : t->numel;
}

static void vram__onnx_tensor_here(vram_file *f, vram__reader *r, vram_file_tensor *t,
                                   const vram__onnx_data *d, uint64_t offset) {
  uint64_t expected = vram__onnx_numbers(t);
  if (d->field == VRAM__ONNX_RAW)
    expected = t->bytes;
  else if (d->field && d->field != vram__onnx_field_of(t->dtype)) {
    vram__onnx_tensor_fail(r, VRAM_ERR_VALUE, offset, t, "has its values in another type's field");
    return;
  }
  if (d->count != expected) {
    vram__onnx_tensor_fail(r, VRAM_ERR_VALUE, offset, t,
                           d->field == VRAM__ONNX_RAW ? "has other data than its shape: bytes "
                                                      : "has other data than its shape: values ");
    vram__error_number(r->error, "", d->count);
    vram__error_number(r->error, ", expected ", expected);
    return;
  }
  t->offset = d->offset;
  f->part_first->ntensor++;
  if (d->field == VRAM__ONNX_RAW)
    f->part_first->header_bytes -= t->bytes;
}

VRAM__FN float vram__onnx_float(uint64_t bits) {
  union {
    uint32_t u;
    float f;
  } v;
  v.u = (uint32_t)bits;
  return v.f;
}

/* Scales and bounds. */
static void vram__onnx_tensor_reals(vram_file *f, vram__reader *r, vram_file_tensor *t,
                                    const vram__onnx_data *d) {
  double *to;
  uint64_t i;
  if (t->dtype != VRAM_F32 || t->numel > VRAM__ONNX_KEPT || d->is_external)
    return;
  to = (double *)vram__file_take(f, r, 8 * t->numel);
  for (i = 0; to && i < t->numel; i++)
    to[i] = (double)vram__onnx_float(d->field == VRAM__ONNX_RAW ? vram__bytes_u32(d->raw + 4 * i)
                                                                : (uint64_t)d->typed.v[i]);
  t->reals = to;
}

/* Integers that shapes depend on. */
static void vram__onnx_tensor_ints(vram_file *f, vram__reader *r, vram_file_tensor *t,
                                   vram__onnx_data *d) {
  const uint64_t n = t->numel;
  uint64_t i;
  if ((t->dtype != VRAM_I64 && t->dtype != VRAM_I32 && t->dtype != VRAM_BOOL) ||
      n > VRAM__ONNX_KEPT || d->is_external)
    return;
  if (d->field == VRAM__ONNX_RAW) {
    vram__onnx_ints *v = &d->typed;
    v->count = n;
    for (i = 0; i < n; i++)
      v->v[i] = t->dtype == VRAM_I64   ? (int64_t)vram__bytes_u64(d->raw + 8 * i)
                : t->dtype == VRAM_I32 ? (int64_t)(int32_t)vram__bytes_u32(d->raw + 4 * i)
                                       : d->raw[i];
  }
  t->ints = vram__onnx_ints_keep(&d->typed, f, r);
}

/* ---- a tensor ---- */

/* The bits of the first floats, one or a packed list. */
static void vram__onnx_floats(vram__reader *r, const vram__proto *p, vram__onnx_data *d) {
  uint64_t n = p->bytes / 4;
  if ((p->tag & 7) != VRAM__PROTO_BYTES)
    vram__onnx_ints_put(&d->typed, p->value);
  else
    for (; n && d->typed.count < VRAM__ONNX_KEPT && !r->result; n--)
      vram__onnx_ints_put(&d->typed, vram__reader_u32(r, "values"));
}

static void vram__onnx_typed(vram__reader *r, const vram__proto *p, vram__onnx_data *d,
                             uint32_t field) {
  const uint32_t wire = p->tag & 7;
  if (d->field && d->field != field) {
    vram__reader_fail(r, VRAM_ERR_VALUE, p->begin, "a tensor has values in two fields");
    return;
  }
  if (!d->field)
    d->offset = p->begin;
  d->field = (uint8_t)field;
  if (field == VRAM__ONNX_RAW) {
    d->count = p->bytes;
    if (p->bytes <= sizeof d->raw)
      vram__reader_copy(r, d->raw, p->bytes, "values");
  } else if (field == VRAM__ONNX_FLOATS || field == VRAM__ONNX_DOUBLES) {
    const uint64_t each = field == VRAM__ONNX_FLOATS ? 4 : 8;
    if (wire == VRAM__PROTO_BYTES && p->bytes % each)
      vram__reader_fail(r, VRAM_ERR_SYNTAX, p->begin, "a list of numbers that ends in one of them");
    if (field == VRAM__ONNX_FLOATS)
      vram__onnx_floats(r, p, d);
    d->count += wire == VRAM__PROTO_BYTES ? p->bytes / each : 1;
  } else {
    vram__onnx_ints_read(&d->typed, p, r);
    d->count = d->typed.count;
  }
}

static void vram__onnx_tensor_fields(vram_file *f, vram__reader *r, uint64_t end,
                                     vram_file_tensor *t, vram__onnx_data *d) {
  vram__proto p;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r))
    switch (p.tag) {
    case VRAM__PROTO_V(1):
    case VRAM__PROTO_B(1):
      vram__onnx_ints_read(&d->dims, &p, r);
      break;
    case VRAM__PROTO_V(2):
      d->type = (int64_t)p.value;
      break;
    case VRAM__PROTO_B(8):
      t->name = vram__proto_text(&p, f, r, &t->name_len);
      break;
    case VRAM__PROTO_B(13):
      vram__onnx_external(f, r, p.behind, d);
      break;
    case VRAM__PROTO_V(14):
      d->is_external = p.value == 1;
      break;
    case VRAM__PROTO_V(VRAM__ONNX_INT32S):
    case VRAM__PROTO_B(VRAM__ONNX_INT32S):
    case VRAM__PROTO_V(VRAM__ONNX_INT64S):
    case VRAM__PROTO_B(VRAM__ONNX_INT64S):
    case VRAM__PROTO_V(VRAM__ONNX_UINT64S):
    case VRAM__PROTO_B(VRAM__ONNX_UINT64S):
    case VRAM__PROTO_B(VRAM__ONNX_FLOATS):
    case VRAM__PROTO_TAG(VRAM__ONNX_FLOATS, VRAM__PROTO_FOUR):
    case VRAM__PROTO_B(VRAM__ONNX_DOUBLES):
    case VRAM__PROTO_TAG(VRAM__ONNX_DOUBLES, VRAM__PROTO_EIGHT):
    case VRAM__PROTO_B(VRAM__ONNX_RAW):
      vram__onnx_typed(r, &p, d, p.tag >> 3);
      break;
    default:
      break;
    }
}

/* Sizes, dtype and bytes. */
static void vram__onnx_tensor_shape(vram__reader *r, vram_file_tensor *t, const vram__onnx_data *d,
                                    uint64_t offset) {
  uint64_t i;
  if (d->dims.count > VRAM_MAX_AXES) {
    vram__onnx_tensor_fail(r, VRAM_ERR_UNSUPPORTED, offset, t, "has more than 8 axes");
    return;
  }
  t->dtype = vram_dtype_from_onnx_id(d->type);
  if (!t->dtype) {
    vram__onnx_tensor_fail(r, VRAM_ERR_DTYPE, offset, t,
                           "has a type without a size, its number is ");
    vram__error_integer(r->error, "", d->type);
    return;
  }
  t->ndim = (uint8_t)d->dims.count;
  t->numel = 1;
  for (i = 0; i < d->dims.count; i++) {
    t->size[i] = d->dims.v[i];
    if (t->size[i] < 0) {
      vram__onnx_tensor_fail(r, VRAM_ERR_VALUE, offset, t, "has a negative size");
      return;
    }
    t->numel = vram__product_or_overflow(t->numel, (uint64_t)t->size[i]);
  }
  if (t->numel > INT64_MAX || vram_dtype_bytes(t->dtype, t->numel, &t->bytes))
    vram__onnx_tensor_fail(r, VRAM_ERR_OVERFLOW, offset, t, "has too many elements");
}

/* The tensor between here and `end`. */
VRAM__FN vram_result vram__onnx_tensor(vram_file *f, vram__reader *r, uint64_t end,
                                       vram_file_tensor *t) {
  const uint64_t offset = vram__reader_offset(r);
  vram__onnx_data d;
  vram__memory_zero(&d, sizeof d);
  vram__onnx_tensor_fields(f, r, end, t, &d);
  if (!r->result)
    vram__onnx_tensor_shape(r, t, &d, offset);
  if (r->result)
    return r->result;
  if (d.is_external)
    vram__onnx_tensor_external(f, r, t, &d, offset);
  else
    vram__onnx_tensor_here(f, r, t, &d, offset);
  if (!r->result)
    vram__onnx_tensor_ints(f, r, t, &d);
  if (!r->result)
    vram__onnx_tensor_reals(f, r, t, &d);
  return r->result;
}
