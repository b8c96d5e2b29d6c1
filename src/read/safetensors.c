/* >>read/safetensors    safetensors (one file or a shard) and model.safetensors.index.json
   Refuses what the package safetensors 0.8.0 refuses, and doubled names and blanks before the
   header, which its description of the format forbids. */
#include "read/read.h"

#define VRAM__SAFETENSORS_MAX UINT64_C(100000000) /* MAX_HEADER_SIZE */

/* The fields of a tensor; each is there once. */
enum { VRAM__ST_DTYPE = 1, VRAM__ST_SHAPE = 2, VRAM__ST_OFFSETS = 4, VRAM__ST_ALL = 7 };

/* Fails at the token; the text goes on with the name of a tensor. */
static vram_result vram__st_fail(vram__json *j, vram_result code, const char *text,
                                 const vram_file_tensor *t) {
  if (!j->r->result) {
    vram__json_fail(j, code, text);
    vram__error_text(j->r->error, " '");
    vram__error_quote(j->r->error, t->name, t->name_len);
    vram__error_text(j->r->error, "'");
  }
  return j->r->result;
}

/* ---- a tensor ---- */

static vram_result vram__st_dtype(vram__json *j, vram_file_tensor *t) {
  int32_t i;
  if (vram__json_next(j) != VRAM__JSON_TEXT)
    return vram__st_fail(j, VRAM_ERR_SYNTAX, "a dtype that is no text, of tensor", t);
  for (i = VRAM_DTYPE_NONE + 1; i < VRAM_DTYPE_COUNT; i++) {
    const char *name = vram_dtype_get_info((vram_dtype)i)->safetensors_name;
    if (name && vram__text_is(j->text, (uint32_t)j->len, name)) {
      t->dtype = (vram_dtype)i;
      return VRAM_OK;
    }
  }
  vram__st_fail(j, VRAM_ERR_DTYPE, "no such dtype of safetensors, of tensor", t);
  vram__error_text(j->r->error, ": ");
  vram__error_quote(j->r->error, j->text, (uint32_t)j->len);
  return j->r->result;
}

/* The next element of an array of sizes or offsets; 0: its end, or an error. */
static int vram__st_number(vram__json *j, const vram_file_tensor *t, uint64_t *v) {
  const vram__json_kind kind = vram__json_next(j);
  if (kind == VRAM__JSON_ARRAY_END)
    return 0;
  if (kind != VRAM__JSON_NUMBER || !j->is_integer || j->is_negative) {
    vram__st_fail(j, VRAM_ERR_SYNTAX, "a size or offset that is no whole number, of tensor", t);
    return 0;
  }
  *v = j->integer;
  return 1;
}

static vram_result vram__st_shape(vram__json *j, vram_file_tensor *t) {
  uint64_t n;
  if (vram__json_next(j) != VRAM__JSON_ARRAY)
    return vram__st_fail(j, VRAM_ERR_SYNTAX, "a shape that is no array, of tensor", t);
  t->numel = 1;
  for (t->ndim = 0; vram__st_number(j, t, &n); t->ndim++) {
    if (t->ndim == VRAM_MAX_AXES)
      return vram__st_fail(j, VRAM_ERR_UNSUPPORTED, "too many axes of tensor", t);
    if (n > (uint64_t)INT64_MAX)
      return vram__st_fail(j, VRAM_ERR_OVERFLOW, "a size beyond 2^63-1 of tensor", t);
    t->size[t->ndim] = (int64_t)n;
    t->numel = vram__product_or_overflow(t->numel, n);
    if (t->numel > (uint64_t)INT64_MAX)
      return vram__st_fail(j, VRAM_ERR_OVERFLOW, "more than 2^63-1 elements in tensor", t);
  }
  return j->r->result;
}

/* From and to, in the data behind the header; `bytes` is their difference until it is checked. */
static vram_result vram__st_offsets(vram__json *j, vram_file_tensor *t) {
  uint64_t from = 0, to = 0, more;
  if (vram__json_next(j) != VRAM__JSON_ARRAY)
    return vram__st_fail(j, VRAM_ERR_SYNTAX, "data_offsets that are no array, of tensor", t);
  if (!vram__st_number(j, t, &from) || !vram__st_number(j, t, &to) ||
      vram__st_number(j, t, &more) || j->r->result)
    return vram__st_fail(j, VRAM_ERR_SYNTAX, "data_offsets that are not two, of tensor", t);
  if (to < from || to > (uint64_t)VRAM_MAX_BYTES)
    return vram__st_fail(j, VRAM_ERR_VALUE, "data_offsets that end before they begin, of tensor",
                         t);
  t->offset = from;
  t->bytes = to - from;
  return VRAM_OK;
}

static uint32_t vram__st_field(const vram__json *j) {
  return vram__text_is(j->text, (uint32_t)j->len, "dtype")          ? (uint32_t)VRAM__ST_DTYPE
         : vram__text_is(j->text, (uint32_t)j->len, "shape")        ? (uint32_t)VRAM__ST_SHAPE
         : vram__text_is(j->text, (uint32_t)j->len, "data_offsets") ? (uint32_t)VRAM__ST_OFFSETS
                                                                    : 0u;
}

/* The fields of a tensor; others are passed over. */
static vram_result vram__st_fields(vram__json *j, vram_file_tensor *t) {
  uint32_t seen = 0;
  if (vram__json_next(j) != VRAM__JSON_OBJECT)
    return vram__st_fail(j, VRAM_ERR_SYNTAX, "no object is tensor", t);
  while (vram__json_next(j) == VRAM__JSON_KEY) {
    const uint32_t field = vram__st_field(j);
    if (seen & field)
      return vram__st_fail(j, VRAM_ERR_NAME, "a field that is there twice, of tensor", t);
    seen |= field;
    if (field == VRAM__ST_DTYPE)
      vram__st_dtype(j, t);
    else if (field == VRAM__ST_SHAPE)
      vram__st_shape(j, t);
    else if (field == VRAM__ST_OFFSETS)
      vram__st_offsets(j, t);
    else {
      vram__json_next(j);
      vram__json_skip(j);
    }
  }
  if (!j->r->result && seen != VRAM__ST_ALL)
    vram__st_fail(j, VRAM_ERR_SYNTAX, "dtype, shape or data_offsets are missing, of tensor", t);
  return j->r->result;
}

/* Its bytes are those of its sizes. */
static vram_result vram__st_bytes(vram__json *j, const vram_file_tensor *t) {
  const vram_dtype_info *const info = vram_dtype_get_info(t->dtype);
  uint64_t bytes;
  if (vram_dtype_bytes(t->dtype, t->numel, &bytes) || bytes > (uint64_t)VRAM_MAX_BYTES) {
    if (t->numel % info->row_multiple)
      return vram__st_fail(j, VRAM_ERR_BLOCK, "elements that make no whole bytes, of tensor", t);
    return vram__st_fail(j, VRAM_ERR_OVERFLOW, "more than 2^63-1 bytes in tensor", t);
  }
  if (info->block_elements > 1 &&
      t->numel % info->block_elements * info->block_bytes % info->block_elements)
    return vram__st_fail(j, VRAM_ERR_BLOCK, "elements that make no whole bytes, of tensor", t);
  if (bytes != t->bytes) {
    vram__st_fail(j, VRAM_ERR_VALUE, "data_offsets and shape do not agree, of tensor", t);
    vram__error_number(j->r->error, ": ", t->bytes);
    vram__error_number(j->r->error, " bytes, expected ", bytes);
  }
  return j->r->result;
}

static vram_result vram__st_tensor(vram_file *f, vram__json *j, vram__names *names) {
  const char *const name = j->text;
  const uint32_t len = (uint32_t)j->len;
  vram_file_tensor *t;
  vram__json_keep(j);
  t = vram__file_tensor(f, j->r);
  if (!t)
    return j->r->result;
  t->name = name;
  t->name_len = len;
  if (!vram__names_add(f, j->r, names, name, len, t))
    return vram__st_fail(j, VRAM_ERR_NAME, "two tensors are called", t);
  return vram__st_fields(j, t) ? j->r->result : vram__st_bytes(j, t);
}

/* ---- the header ---- */

/* __metadata__: texts. Those of a second shard say the same again and are not kept. */
static vram_result vram__st_metadata(vram_file *f, vram__json *j, int is_kept) {
  vram__names names = {NULL, 0, 0};
  const vram__json_kind kind = vram__json_next(j);
  if (kind == VRAM__JSON_NULL)
    return VRAM_OK;
  if (kind != VRAM__JSON_OBJECT)
    return vram__json_fail(j, VRAM_ERR_SYNTAX, "__metadata__ that is no object");
  while (vram__json_next(j) == VRAM__JSON_KEY) {
    vram_file_value other, *v;
    const char *const name = j->text;
    const uint32_t len = (uint32_t)j->len;
    vram__json_keep(j);
    v = is_kept ? vram__file_value(f, j->r) : &other;
    if (!v)
      return j->r->result;
    vram__memory_zero(v, sizeof *v);
    v->name = name;
    v->name_len = len;
    if (!vram__names_add(f, j->r, &names, name, len, name))
      return vram__json_fail(j, VRAM_ERR_NAME, "a key of __metadata__ that is there twice");
    if (vram__json_next(j) != VRAM__JSON_TEXT)
      return vram__json_fail(j, VRAM_ERR_SYNTAX, "a value of __metadata__ that is no text");
    v->kind = VRAM_VALUE_TEXT;
    v->text = j->text;
    v->count = j->len;
    if (is_kept)
      vram__json_keep(j);
  }
  return j->r->result;
}

static int vram__st_is_before(const vram_file_tensor *a, const vram_file_tensor *b) {
  return a->offset != b->offset ? a->offset < b->offset : a->bytes <= b->bytes;
}

static vram_file_tensor *vram__st_merge(vram_file_tensor *a, vram_file_tensor *b) {
  vram_file_tensor *first = NULL, **end = &first;
  while (a && b) {
    vram_file_tensor **const least = vram__st_is_before(a, b) ? &a : &b;
    *end = *least;
    end = &(*least)->next;
    *least = *end;
  }
  *end = a ? a : b;
  return first;
}

/* By offset: a list of 2^i tensors waits at i for another one. */
static vram_file_tensor *vram__st_sort(vram_file_tensor *t) {
  vram_file_tensor *wait[32], *rest, *all = NULL;
  uint32_t i;
  vram__memory_zero(wait, sizeof wait);
  for (; t; t = rest) {
    rest = t->next;
    t->next = NULL;
    for (i = 0; i < 31 && wait[i]; i++) {
      t = vram__st_merge(wait[i], t);
      wait[i] = NULL;
    }
    wait[i] = wait[i] ? vram__st_merge(wait[i], t) : t;
  }
  for (i = 0; i < 32; i++)
    all = vram__st_merge(wait[i], all);
  return all;
}

/* The tensors of the part lie one behind the other from 0 on; offsets become those in the file. */
static vram_result vram__st_place(vram_file *f, vram__json *j, vram_file_part *part,
                                  vram_file_tensor *before) {
  vram_file_tensor **const list = before ? &before->next : &f->tensor_first, *t;
  uint64_t data = 0;
  *list = vram__st_sort(*list);
  for (t = *list; t; t = t->next) {
    if (t->offset != data) {
      vram__st_fail(j, VRAM_ERR_VALUE, "a hole or an overlap before tensor", t);
      vram__error_number(j->r->error, ": offset ", t->offset);
      vram__error_number(j->r->error, ", expected ", data);
      return j->r->result;
    }
    data += t->bytes; /* the end that data_offsets said: no overflow */
    t->offset += part->header_bytes;
    f->numel = vram__sum_or_overflow(f->numel, t->numel);
    part->ntensor++;
    f->tensor_last = t;
  }
  f->tensor_bytes = vram__sum_or_overflow(f->tensor_bytes, data);
  if (f->tensor_bytes > (uint64_t)VRAM_MAX_BYTES)
    return vram__json_fail(j, VRAM_ERR_OVERFLOW, "tensors of more than 2^63-1 bytes");
  part->expected_bytes = part->header_bytes + data;
  return VRAM_OK;
}

/* From here on the reader ends where the header does. */
static vram_result vram__st_limit(vram__reader *r) {
  const uint64_t n = vram__reader_u64(r, "the length of the header");
  if (r->result)
    return r->result;
  if (n > VRAM__SAFETENSORS_MAX) {
    vram__reader_fail(r, VRAM_ERR_SYNTAX, 0, "a header of more than 100,000,000 bytes:");
    vram__error_number(r->error, " ", n);
    return r->result;
  }
  if (n > vram__reader_left(r)) {
    vram__reader_fail(r, VRAM_ERR_SYNTAX, 0, "a header that is longer than the file:");
    vram__error_number(r->error, " ", n);
    return r->result;
  }
  r->head = *r->source;
  r->head.bytes = 8 + n;
  r->source = &r->head;
  if (r->end_offset > r->head.bytes) {
    r->end -= r->end_offset - r->head.bytes;
    r->end_offset = r->head.bytes;
  }
  return VRAM_OK;
}

static vram_result vram__st_entries(vram_file *f, vram__json *j, int is_first) {
  vram__names names = {NULL, 0, 0};
  int has_metadata = 0;
  if (vram__json_next(j) != VRAM__JSON_OBJECT)
    return vram__json_fail(j, VRAM_ERR_SYNTAX, "a header that is no object");
  while (vram__json_next(j) == VRAM__JSON_KEY) {
    if (!vram__text_is(j->text, (uint32_t)j->len, "__metadata__"))
      vram__st_tensor(f, j, &names);
    else if (has_metadata)
      vram__json_fail(j, VRAM_ERR_NAME, "__metadata__ that is there twice");
    else {
      has_metadata = 1;
      vram__st_metadata(f, j, is_first);
    }
  }
  return j->r->result ? j->r->result : vram__json_finish(j);
}

/* The place of a shard that an index names, in its order; a new one where there is no index. */
static vram_file_part *vram__st_part(vram_file *f, vram__reader *r, uint32_t *number) {
  vram_file_part *p = f->part_first;
  *number = f->npart;
  if (!f->index)
    return vram__file_part(f, r, NULL, 0);
  for (*number = 0; p && p->is_read; p = p->next)
    ++*number;
  if (!p)
    vram__reader_fail(r, VRAM_ERR_VALUE, 0, "more shards than the index names");
  return p;
}

VRAM__FN vram_result vram__safetensors_read(vram_file *f, vram__reader *r) {
  vram_file_tensor *const before = f->tensor_last;
  const uint64_t present = r->source->bytes;
  vram_file_tensor *t;
  vram_file_part *part;
  vram__json j;
  uint32_t number = 0;
  if (vram__st_limit(r))
    return r->result;
  part = vram__st_part(f, r, &number);
  if (!part)
    return r->result;
  part->is_read = 1;
  part->present_bytes = present;
  part->header_bytes = r->head.bytes;
  vram__json_begin(&j, r, f);
  if (vram__st_entries(f, &j, number == 0) || vram__st_place(f, &j, part, before))
    return r->result;
  for (t = before ? before->next : f->tensor_first; t; t = t->next)
    t->part = number;
  if (present != part->header_bytes && present != part->expected_bytes) {
    vram__reader_fail(r, VRAM_ERR_VALUE, part->header_bytes,
                      "data of other bytes than the header has:");
    vram__error_number(r->error, " ", present - part->header_bytes);
    vram__error_number(r->error, ", expected ", part->expected_bytes - part->header_bytes);
  }
  return r->result;
}

/* ---- model.safetensors.index.json ---- */

/* Where a tensor is, as the index says: its part. Files are found by their names. */
static vram_result vram__index_entry(vram_file *f, vram__json *j, vram__names *files) {
  const char *name = j->text;
  uint32_t len = (uint32_t)j->len;
  const void *part;
  vram__json_keep(j);
  if (vram__json_next(j) != VRAM__JSON_TEXT || !j->len || j->len > UINT32_MAX)
    return vram__json_fail(j, VRAM_ERR_SYNTAX, "the name of a file was expected");
  part = vram__names_find(files, j->text, (uint32_t)j->len);
  if (!part) {
    const char *const file = j->text;
    const uint32_t file_len = (uint32_t)j->len;
    vram__json_keep(j);
    part = vram__file_part(f, j->r, file, file_len);
    if (!part || !vram__names_add(f, j->r, files, file, file_len, part))
      return j->r->result;
  }
  if (!vram__names_add(f, j->r, f->index, name, len, part))
    return vram__json_fail(j, VRAM_ERR_NAME, "a tensor that is there twice in weight_map");
  return j->r->result;
}

static vram_result vram__index_map(vram_file *f, vram__json *j) {
  vram__names files = {NULL, 0, 0};
  if (f->index)
    return vram__json_fail(j, VRAM_ERR_NAME, "weight_map that is there twice");
  if (vram__json_next(j) != VRAM__JSON_OBJECT)
    return vram__json_fail(j, VRAM_ERR_SYNTAX, "weight_map that is no object");
  f->index = (vram__names *)vram__file_take(f, j->r, sizeof *f->index);
  if (!f->index)
    return j->r->result;
  vram__memory_zero(f->index, sizeof *f->index);
  while (vram__json_next(j) == VRAM__JSON_KEY)
    vram__index_entry(f, j, &files);
  return j->r->result;
}

VRAM__FN vram_result vram__index_read(vram_file *f, vram__reader *r) {
  static const vram__values_apart map = {"weight_map", vram__index_map};
  vram__names names = {NULL, 0, 0};
  vram__json j;
  vram__json_begin(&j, r, f);
  vram__values_read(f, &j, &names, &map);
  if (!vram__json_finish(&j) && !f->index)
    vram__json_fail(&j, VRAM_ERR_SYNTAX, "an index without weight_map");
  return r->result;
}

/* Every tensor is where the index says, and no other one. */
VRAM__FN vram_result vram__index_finish(const vram_file *f, vram_error *e) {
  const vram_file_part *p = f->part_first;
  const vram_file_tensor *t;
  uint32_t number = 0;
  for (; p; p = p->next)
    if (!p->is_read) {
      vram__error_begin(e, VRAM_ERR_VALUE, 0, "a shard that the index names is missing: ");
      vram__error_quote(e, p->name, p->name_len);
      return VRAM_ERR_VALUE;
    }
  for (t = f->tensor_first, p = f->part_first; t; t = t->next) {
    for (; number < t->part; number++)
      p = p->next;
    if (vram__names_find(f->index, t->name, t->name_len) != p) {
      vram__error_begin(e, VRAM_ERR_VALUE, 0, "a tensor that the index has elsewhere or not: ");
      vram__error_quote(e, t->name, t->name_len);
      return VRAM_ERR_VALUE;
    }
  }
  if (f->ntensor != f->index->count) {
    vram__error_begin(e, VRAM_ERR_VALUE, 0, "an index of ");
    vram__error_number(e, "", f->index->count);
    vram__error_number(e, " tensors, of which there are ", f->ntensor);
    return VRAM_ERR_VALUE;
  }
  return VRAM_OK;
}
