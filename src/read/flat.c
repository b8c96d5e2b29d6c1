/* >>read/flat    tables of a flatbuffer: fields by number, vectors, texts, tables in tables
   Every offset is held against the size of the file before anything is read there. Tables may be
   shared, and a file may say so of each of them: what is copied or gone over is counted, and may
   not be more than the file has bytes. Nothing is recursive here. */
#include "read/read.h"

VRAM__FN void vram__flat_begin(vram__flat *b, vram_file *f, vram__reader *r) {
  vram__memory_zero(b, sizeof *b);
  b->f = f;
  b->r = r;
  b->left = r->source->bytes;
}

/* 0: an error, that so many bytes do not end within the file. */
static int vram__flat_has(vram__flat *b, uint64_t offset, uint64_t bytes, const char *what) {
  const uint64_t end = b->r->source->bytes;
  if (!b->r->result && (offset > end || bytes > end - offset)) {
    vram__reader_fail(b->r, VRAM_ERR_SYNTAX, offset, what);
    vram__error_number(b->r->error, " ends behind the file: ", bytes);
    vram__error_number(b->r->error, " bytes from here, the file has ", end);
  }
  return !b->r->result;
}

/* 0: an error, that more is gone over than there is. */
VRAM__FN int vram__flat_spend(vram__flat *b, uint64_t offset, uint64_t bytes) {
  if (!b->r->result && bytes > b->left)
    vram__reader_fail(b->r, VRAM_ERR_SYNTAX, offset, "tables that lie over each other");
  b->left -= bytes > b->left ? b->left : bytes;
  return !b->r->result;
}

static uint32_t vram__flat_u32(vram__flat *b, uint64_t offset, const char *what) {
  if (!vram__flat_has(b, offset, 4, what))
    return 0;
  vram__reader_seek(b->r, offset);
  return vram__reader_u32(b->r, what);
}

/* Where each field of such a table is. */
static const vram__flat_fields *vram__flat_fields_at(vram__flat *b, uint64_t offset) {
  vram__flat_fields *const v = b->seen + (offset >> 1) % VRAM__FLAT_SEEN;
  uint32_t i, n;
  if (v->offset == offset && v->bytes)
    return v;
  if (!vram__flat_has(b, offset, 4, "a vtable"))
    return NULL;
  vram__memory_zero(v, sizeof *v);
  vram__reader_seek(b->r, offset);
  i = vram__reader_u32(b->r, "a vtable");
  v->offset = offset;
  v->table_bytes = i >> 16;
  i &= 0xffff;
  if (!b->r->result && (i < 4 || i % 2 || v->table_bytes < 4)) {
    vram__reader_fail(b->r, VRAM_ERR_SYNTAX, offset, "a vtable of ");
    vram__error_number(b->r->error, "", i);
    vram__error_number(b->r->error, " bytes, of a table of ", v->table_bytes);
  }
  if (!vram__flat_has(b, offset, i, "a vtable"))
    return NULL;
  n = i / 2 - 2 < VRAM__FLAT_FIELDS ? i / 2 - 2 : (uint32_t)VRAM__FLAT_FIELDS;
  for (i = 0; i < n && vram__reader_has(b->r, 2, "a vtable"); i++, b->r->at += 2)
    v->field[i] = vram__bytes_u16(b->r->at);
  v->bytes = 4 + 2 * n;
  return b->r->result ? NULL : v;
}

VRAM__FN int vram__flat_table(vram__flat *b, uint64_t offset, vram__flat_at *t) {
  const uint32_t back = vram__flat_u32(b, offset, "a table");
  const vram__flat_fields *v;
  const int64_t at = (int64_t)offset - (int64_t)(int32_t)back;
  vram__memory_zero(t, sizeof *t);
  if (b->r->result)
    return 0;
  if (at < 0) {
    vram__reader_fail(b->r, VRAM_ERR_SYNTAX, offset, "a table whose vtable is before the file");
    return 0;
  }
  v = vram__flat_fields_at(b, (uint64_t)at);
  if (!v || !vram__flat_has(b, offset, v->table_bytes, "a table"))
    return 0;
  t->offset = offset;
  t->fields = *v;
  return 1;
}

/* Where the field is, which has so many bytes; 0: it is left out, or an error. */
static uint64_t vram__flat_field(vram__flat *b, const vram__flat_at *t, uint32_t i,
                                 uint32_t bytes) {
  const uint32_t at = i < VRAM__FLAT_FIELDS ? t->fields.field[i] : 0;
  if (!at || b->r->result)
    return 0;
  if (at < 4 || at + bytes > t->fields.table_bytes) {
    vram__reader_fail(b->r, VRAM_ERR_SYNTAX, t->offset, "field ");
    vram__error_number(b->r->error, "", i);
    vram__error_number(b->r->error, " is outside of its table: at ", at);
    vram__error_number(b->r->error, ", the table has ", t->fields.table_bytes);
    return 0;
  }
  return t->offset + at;
}

VRAM__FN uint64_t vram__flat_number(vram__flat *b, const vram__flat_at *t, uint32_t i,
                                    uint32_t bytes, uint64_t none) {
  const uint64_t at = vram__flat_field(b, t, i, bytes);
  uint64_t v = 0;
  uint32_t k;
  if (!at)
    return none;
  vram__reader_seek(b->r, at);
  if (!vram__reader_has(b->r, bytes, "a number"))
    return none;
  for (k = 0; k < bytes; k++)
    v |= (uint64_t)b->r->at[k] << 8 * k;
  return v;
}

/* Elements of `bytes` each. 0: it is left out, or an error. */
VRAM__FN int vram__flat_vector(vram__flat *b, const vram__flat_at *t, uint32_t i, uint32_t bytes,
                               vram__flat_list *v) {
  const uint64_t at = vram__flat_field(b, t, i, 4);
  v->offset = v->count = 0;
  if (!at)
    return 0;
  v->offset = at + vram__flat_u32(b, at, "a vector");
  v->count = vram__flat_u32(b, v->offset, "a vector");
  v->offset += 4;
  return vram__flat_has(b, v->offset, v->count * bytes, "a vector");
}

/* The table that a field refers to; 0: it is left out, or an error. */
VRAM__FN int vram__flat_inner(vram__flat *b, const vram__flat_at *t, uint32_t i,
                              vram__flat_at *to) {
  const uint64_t at = vram__flat_field(b, t, i, 4);
  vram__memory_zero(to, sizeof *to);
  return at && vram__flat_table(b, at + vram__flat_u32(b, at, "a table"), to);
}

/* Element i of a vector of tables. */
VRAM__FN int vram__flat_element(vram__flat *b, const vram__flat_list *v, uint64_t i,
                                vram__flat_at *to) {
  const uint64_t at = v->offset + 4 * i;
  vram__memory_zero(to, sizeof *to);
  return vram__flat_table(b, at + vram__flat_u32(b, at, "a table"), to);
}

/* Element i of a vector of numbers of 4 bytes. */
VRAM__FN int32_t vram__flat_int(vram__flat *b, const vram__flat_list *v, uint64_t i) {
  return (int32_t)vram__flat_u32(b, v->offset + 4 * i, "a number");
}

/* A copy; "" where it is left out or after an error. */
VRAM__FN const char *vram__flat_text(vram__flat *b, const vram__flat_at *t, uint32_t i,
                                     uint32_t *len) {
  vram__flat_list v;
  const char *text;
  *len = 0;
  if (!vram__flat_vector(b, t, i, 1, &v) || !vram__flat_spend(b, v.offset, v.count))
    return "";
  vram__reader_seek(b->r, v.offset);
  text = vram__file_text(b->f, b->r, v.count, "a text");
  *len = text ? (uint32_t)v.count : 0;
  return text ? text : "";
}
