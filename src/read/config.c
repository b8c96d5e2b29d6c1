/* >>read/config    JSON files as values, each named by its path: config.json of transformers */
#include "read/read.h"

enum {
  VRAM__CONFIG_FIRST = 16, /* elements for which an array gets room at first */
  VRAM__CONFIG_KEPT = 8192 /* a longer array is only counted */
};

/* A number, text or truth value as it was read, before all of an array are of one kind. */
typedef struct vram__values_item {
  vram_file_text text;
  union {
    uint64_t u;
    int64_t i;
    double f;
  } number;
  uint8_t kind;
} vram__values_item;

typedef struct vram__values_path {
  const char *text;
  uint32_t len;
} vram__values_path;

/* The value of a token; the text of a text stays. */
static void vram__values_scalar(vram__json *j, vram__values_item *v) {
  vram__memory_zero(v, sizeof *v);
  switch (j->kind) {
  case VRAM__JSON_TEXT:
    v->kind = VRAM_VALUE_TEXT;
    v->text.text = j->text;
    v->text.count = j->len;
    vram__json_keep(j);
    break;
  case VRAM__JSON_NUMBER:
    v->kind = VRAM_VALUE_FLOAT;
    v->number.f = j->number;
    if (j->is_integer && !j->is_negative) {
      v->kind = VRAM_VALUE_UINT;
      v->number.u = j->integer;
    } else if (j->is_integer && j->integer <= (uint64_t)INT64_MAX) {
      v->kind = VRAM_VALUE_INT;
      v->number.i = -(int64_t)j->integer;
    }
    break;
  case VRAM__JSON_TRUE:
  case VRAM__JSON_FALSE:
    v->kind = VRAM_VALUE_BOOL;
    v->number.u = j->kind == VRAM__JSON_TRUE;
    break;
  default:
    v->kind = VRAM_VALUE_NULL;
    break;
  }
}

/* ---- arrays ---- */

static int vram__values_is_number(uint32_t kind) {
  return kind == VRAM_VALUE_UINT || kind == VRAM_VALUE_INT || kind == VRAM_VALUE_FLOAT;
}

/* What elements of two kinds are together. */
static uint32_t vram__values_join(uint32_t a, uint32_t b) {
  if (a == b)
    return a;
  if (!vram__values_is_number(a) || !vram__values_is_number(b))
    return VRAM_VALUE_NULL;
  return a == VRAM_VALUE_FLOAT || b == VRAM_VALUE_FLOAT ? VRAM_VALUE_FLOAT : VRAM_VALUE_INT;
}

static double vram__values_float(const vram__values_item *v) {
  return v->kind == VRAM_VALUE_UINT  ? (double)v->number.u
         : v->kind == VRAM_VALUE_INT ? (double)v->number.i
                                     : v->number.f;
}

/* Items become elements of the array's kind, in their place: an element is no longer than an item.
   A number beyond 2^63-1 beside a negative one makes floats of all. */
static void vram__values_narrow(vram_file_value *v, vram__values_item *item) {
  uint64_t i;
  for (i = 0; i < v->count && v->of == VRAM_VALUE_INT; i++)
    if (item[i].kind == VRAM_VALUE_UINT && item[i].number.u > (uint64_t)INT64_MAX)
      v->of = VRAM_VALUE_FLOAT;
  for (i = 0; i < v->count; i++) {
    const vram__values_item one = item[i];
    const double d = vram__values_float(&one);
    if (v->of == VRAM_VALUE_TEXT)
      vram__memory_copy((vram_file_text *)(void *)item + i, &one.text, sizeof one.text);
    else if (v->of == VRAM_VALUE_FLOAT)
      vram__memory_copy((double *)(void *)item + i, &d, sizeof d);
    else
      vram__memory_copy((uint64_t *)(void *)item + i, &one.number.u, sizeof one.number.u);
  }
  v->array = item;
}

/* Room for one more item; NULL: there is none, or it is not to be kept. */
static vram__values_item *vram__values_room(vram_file *f, vram__json *j, vram__values_item *item,
                                            uint64_t count, uint64_t *room) {
  vram__values_item *wide;
  if (count < *room)
    return item;
  *room = *room ? 2 * *room : (uint64_t)VRAM__CONFIG_FIRST;
  wide = (vram__values_item *)vram__file_take(f, j->r, *room * sizeof *wide);
  if (wide && count)
    vram__memory_copy(wide, item, count * sizeof *wide);
  return wide;
}

/* The elements behind a bracket: kept if all are numbers, texts or truth values. */
static vram_result vram__values_array(vram_file *f, vram__json *j, vram_file_value *v) {
  vram__values_item *item = NULL, one;
  uint64_t room = 0;
  v->kind = VRAM_VALUE_ARRAY;
  while (vram__json_next(j) != VRAM__JSON_ARRAY_END && !j->r->result) {
    const int is_plain = j->kind != VRAM__JSON_ARRAY && j->kind != VRAM__JSON_OBJECT;
    if (is_plain)
      vram__values_scalar(j, &one);
    else if (vram__json_skip(j))
      break;
    v->of = (uint8_t)(!is_plain  ? (uint32_t)VRAM_VALUE_NULL
                      : v->count ? vram__values_join(v->of, one.kind)
                                 : one.kind);
    if (v->of != VRAM_VALUE_NULL && v->count < VRAM__CONFIG_KEPT) {
      item = vram__values_room(f, j, item, v->count, &room);
      if (item)
        item[v->count] = one;
    }
    v->count++;
  }
  if (!j->r->result && item && v->of != VRAM_VALUE_NULL && v->count <= VRAM__CONFIG_KEPT)
    vram__values_narrow(v, item);
  return j->r->result;
}

/* ---- values ---- */

/* The name of the key that was just read: the path to it, a dot, and itself. */
static int vram__values_name(vram_file *f, vram__json *j, const vram__values_path *above,
                             vram__values_path *name) {
  char *const to = (char *)f->mem + f->used;
  const uint64_t before = above->len ? (uint64_t)above->len + 1 : 0, len = before + j->len;
  uint64_t i;
  if (len > f->cap - f->used || len > UINT32_MAX) {
    vram__json_fail(j, VRAM_ERR_MEMORY, "the caller's memory is too small");
    return 0;
  }
  for (i = j->len; before && i-- > 0;)
    to[before + i] = to[i];
  if (before) {
    vram__memory_copy(to, above->text, above->len);
    to[before - 1] = '.';
  }
  f->used += len;
  name->text = to;
  name->len = (uint32_t)len;
  return 1;
}

/* The value whose first token this is; NULL: an error. Its text is kept before more memory is
   taken. */
static vram_file_value *vram__values_value(vram_file *f, vram__json *j,
                                           const vram__values_path *name) {
  vram__values_item one;
  vram_file_value *v;
  vram__values_scalar(j, &one);
  v = j->r->result ? NULL : vram__file_value(f, j->r);
  if (!v)
    return NULL;
  v->name = name->text;
  v->name_len = name->len;
  if (j->kind == VRAM__JSON_ARRAY)
    return vram__values_array(f, j, v) ? NULL : v;
  v->kind = one.kind;
  v->text = one.text.text;
  v->count = one.text.count;
  v->number.u = one.number.u;
  return v;
}

/* What stands outermost under the key `apart` (NULL: nothing) goes to `handle`. *what: the value,
   or the file for what is no value. */
static vram_result vram__values_entry(vram_file *f, vram__json *j, vram__values_path *path,
                                      const void **what, const vram__values_apart *apart) {
  const uint32_t depth = j->depth;
  vram__values_path name;
  *what = f;
  if (!vram__values_name(f, j, &path[depth], &name))
    return j->r->result;
  path[depth + 1] = name;
  if (depth == 1 && apart && vram__text_is(name.text, name.len, apart->key))
    apart->handle(f, j);
  else if (vram__json_next(j) != VRAM__JSON_OBJECT && !j->r->result)
    *what = vram__values_value(f, j, &name);
  return j->r->result;
}

/* All values of an object; names: what each path stands for. */
VRAM__FN vram_result vram__values_read(vram_file *f, vram__json *j, vram__names *names,
                                       const vram__values_apart *apart) {
  vram__values_path path[VRAM__JSON_DEPTH + 2];
  j->has_infinity = 1;
  if (vram__json_next(j) != VRAM__JSON_OBJECT)
    return vram__json_fail(j, VRAM_ERR_SYNTAX, "JSON that is no object");
  vram__memory_zero(path, sizeof path);
  while (j->depth && vram__json_next(j) != VRAM__JSON_END) {
    const uint32_t depth = j->depth;
    const void *what;
    if (j->kind == VRAM__JSON_OBJECT_END)
      continue;
    if (vram__values_entry(f, j, path, &what, apart))
      break;
    if (!vram__names_add(f, j->r, names, path[depth + 1].text, path[depth + 1].len, what))
      return vram__json_fail(j, VRAM_ERR_NAME, "a key that is there twice");
  }
  return j->r->result;
}

VRAM__FN vram_result vram__config_read(vram_file *f, vram__reader *r) {
  vram_file_part *part = vram__file_part(f, r, NULL, 0);
  vram__json j;
  if (!part || f->values)
    return vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, 0, "a config.json has no parts");
  part->is_read = 1;
  part->header_bytes = part->expected_bytes = part->present_bytes = r->source->bytes;
  f->values = (vram__names *)vram__file_take(f, r, sizeof *f->values);
  if (!f->values)
    return r->result;
  vram__memory_zero(f->values, sizeof *f->values);
  vram__json_begin(&j, r, f);
  return vram__values_read(f, &j, f->values, NULL) ? r->result : vram__json_finish(&j);
}
