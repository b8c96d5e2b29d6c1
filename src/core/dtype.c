/* >>core/dtype    stored types at run time */
#include "core/core.h"

/* bytes of one element; 0: it comes in blocks */
static const uint8_t vram__item_bytes[VRAM_DTYPE_COUNT] = {0,
#define VRAM__X(token, name, kind, torch, safetensors, onnx, tflite, ggml, values)                 \
  (uint8_t)(VRAM__AT0(VRAM__DT_##token) == 1 ? VRAM__AT1(VRAM__DT_##token) : 0),
                                                           VRAM_DTYPES(VRAM__X)
#undef VRAM__X
};

static VRAM__COLD uint64_t vram__dims_packed_bytes(const vram_dims *d, vram_dtype dt) {
  const uint64_t row = d->ndim ? (uint64_t)d->v[d->ndim - 1] : 1;
  uint64_t bytes;
  vram_dtype_rows_bytes(dt, row ? d->numel / row : 0, row, &bytes);
  return bytes;
}

VRAM__FN uint64_t vram__dims_bytes_of(const vram_dims *d, vram_dtype dt) {
  return vram__item_bytes[dt] ? d->numel * vram__item_bytes[dt] : vram__dims_packed_bytes(d, dt);
}

typedef struct vram__dtype_alias {
  const char *name;
  vram_dtype dtype;
} vram__dtype_alias;

static const vram__dtype_alias vram__dtype_aliases[] = {
#define VRAM__X(name, token) {name, VRAM_##token},
    VRAM_DTYPE_ALIASES(VRAM__X)
#undef VRAM__X
};

VRAM_API const vram_dtype_info *vram_dtype_get_info(vram_dtype dtype) {
  if (dtype <= VRAM_DTYPE_NONE || dtype >= VRAM_DTYPE_COUNT)
    return NULL;
  return &vram__dtype_rows[dtype];
}

VRAM_API const char *vram_dtype_name(vram_dtype dtype) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  if (info)
    return info->name;
  return dtype == VRAM_DTYPE_NONE ? "none" : "?";
}

/* ASCII only: no locale */
static char vram__dtype_lower(char c) {
  static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
  unsigned i;
  for (i = 0; i < 26; i++)
    if (upper[i] == c)
      return lower[i];
  return c;
}

/* length of name if text (of length bytes) begins with it, else 0 */
static size_t vram__dtype_prefix(const char *text, size_t length, const char *name) {
  size_t i;
  for (i = 0; name[i]; i++)
    if (i == length || vram__dtype_lower(text[i]) != vram__dtype_lower(name[i]))
      return 0;
  return i;
}

static int vram__dtype_equal(const char *text, size_t length, const char *name) {
  return name && length && vram__dtype_prefix(text, length, name) == length;
}

/* by full name: rows first, then aliases */
static vram_dtype vram__dtype_find(const char *text, size_t length) {
  size_t i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++) {
    const vram_dtype_info *row = &vram__dtype_rows[i];
    if (vram__dtype_equal(text, length, row->name) ||
        vram__dtype_equal(text, length, row->torch_name) ||
        vram__dtype_equal(text, length, row->safetensors_name))
      return row->dtype;
  }
  for (i = 0; i < sizeof vram__dtype_aliases / sizeof vram__dtype_aliases[0]; i++)
    if (vram__dtype_equal(text, length, vram__dtype_aliases[i].name))
      return vram__dtype_aliases[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_dtype vram_dtype_from_name_n(const char *text, size_t length) {
  static const char *const prefixes[] = {"torch.", "tensorproto.", "tensortype.", "ggml_type_"};
  size_t i;
  vram_dtype dtype;
  if (!text)
    return VRAM_DTYPE_NONE;
  dtype = vram__dtype_find(text, length);
  for (i = 0; dtype == VRAM_DTYPE_NONE && i < sizeof prefixes / sizeof prefixes[0]; i++) {
    size_t skip = vram__dtype_prefix(text, length, prefixes[i]);
    if (skip)
      dtype = vram__dtype_find(text + skip, length - skip);
  }
  return dtype;
}

VRAM_API vram_dtype vram_dtype_from_name(const char *name) {
  size_t length = 0;
  if (!name)
    return VRAM_DTYPE_NONE;
  while (name[length])
    length++;
  return vram_dtype_from_name_n(name, length);
}

VRAM_API vram_dtype vram_dtype_from_onnx_id(int64_t id) {
  unsigned i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++)
    if (id >= 0 && vram__dtype_rows[i].onnx_id == id)
      return vram__dtype_rows[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_dtype vram_dtype_from_tflite_id(int64_t id) {
  unsigned i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++)
    if (id >= 0 && vram__dtype_rows[i].tflite_id == id)
      return vram__dtype_rows[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_dtype vram_dtype_from_ggml_id(int64_t id) {
  unsigned i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++)
    if (id >= 0 && vram__dtype_rows[i].ggml_id == id)
      return vram__dtype_rows[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_result vram_dtype_bytes(vram_dtype dtype, uint64_t elements, uint64_t *bytes) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  uint64_t blocks, tail;
  *bytes = VRAM_OVERFLOW;
  if (!info)
    return VRAM_ERR_DTYPE;
  if (elements % info->row_multiple)
    return VRAM_ERR_BLOCK;
  blocks = elements / info->block_elements;
  tail = elements % info->block_elements * info->block_bytes;
  tail = tail / info->block_elements + (tail % info->block_elements != 0);
  if (blocks > (VRAM_OVERFLOW - 1 - tail) / info->block_bytes)
    return VRAM_ERR_OVERFLOW;
  *bytes = blocks * info->block_bytes + tail;
  return VRAM_OK;
}

VRAM_API vram_result vram_dtype_rows_bytes(vram_dtype dtype, uint64_t rows, uint64_t columns,
                                           uint64_t *bytes) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  uint64_t row;
  vram_result result;
  *bytes = VRAM_OVERFLOW;
  if (!info)
    return VRAM_ERR_DTYPE;
  if (columns % info->row_multiple)
    return VRAM_ERR_BLOCK;
  if (rows == 0 || columns == 0) {
    *bytes = 0;
    return VRAM_OK;
  }
  if (!info->row_padded) {
    if (columns > UINT64_MAX / rows)
      return VRAM_ERR_OVERFLOW;
    return vram_dtype_bytes(dtype, rows * columns, bytes);
  }
  result = vram_dtype_bytes(dtype, columns, &row);
  if (result != VRAM_OK)
    return result;
  if (row > (VRAM_OVERFLOW - 1) / rows)
    return VRAM_ERR_OVERFLOW;
  *bytes = row * rows;
  return VRAM_OK;
}
