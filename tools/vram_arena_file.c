/* vram arena of a TFLite or ONNX file: the values between its operators, as they lie in it, each
   from the operator that makes it to the last that reads it. */
#include "vram_arena.h"
#include "vram_model.h"

typedef struct file_value { /* that no operator's weights are */
  const char *name;
  const vram_file_operand *said;
  const vram_file_operand *kept; /* of a handle: what its variable holds */
  uint64_t begin, end;
  uint32_t len;
  uint8_t is_used;
} file_value;

typedef struct file_values { /* sorted by name */
  file_value *v;
  uint64_t n;
} file_values;

/* The order of names, which are not terminated. */
static int name_order(const char *a, uint32_t alen, const char *b, uint32_t blen) {
  const int d = memcmp(a, b, alen < blen ? alen : blen);
  return d ? d : alen < blen ? -1 : alen > blen;
}

static int by_name(const void *a, const void *b) {
  const file_value *const x = (const file_value *)a, *const y = (const file_value *)b;
  return name_order(x->name, x->len, y->name, y->len);
}

static file_value *value_of(const file_values *all, const char *name, uint32_t len) {
  uint64_t low = 0, high = all->n;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    file_value *const v = all->v + middle;
    const int d = name_order(name, len, v->name, v->len);
    if (!d)
      return v;
    if (d < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

/* What the file says of its values, once each: an output that is an input too stands there twice.
   0: no memory. */
static int values_said(const vram_file *f, file_values *all) {
  const vram_file_operand *o;
  uint64_t i, n = 0;
  all->n = 0;
  all->v = f->noperand < SIZE_MAX / sizeof *all->v
               ? (file_value *)calloc((size_t)f->noperand + 1, sizeof *all->v)
               : NULL;
  if (!all->v)
    return 0;
  for (o = f->operand_first; o; o = o->next) {
    file_value *const v = all->v + all->n;
    if (vram_file_find(f, o->name, o->name_len))
      continue;
    v->name = o->name;
    v->len = o->name_len;
    v->said = o;
    all->n++;
  }
  qsort(all->v, (size_t)all->n, sizeof *all->v, by_name);
  for (i = 0; i < all->n; i++)
    if (n && !by_name(all->v + n - 1, all->v + i)) {
      if (all->v[n - 1].said->role == VRAM_OPERAND_BETWEEN)
        all->v[n - 1].said = all->v[i].said;
    } else
      all->v[n++] = all->v[i];
  all->n = n;
  return 1;
}

/* An inner graph may read any value, and says nowhere which. */
static int has_inner_graph(const vram_file_node *n) {
  const vram_file_attribute *a;
  int found = 0;
  for (a = n->attribute; a; a = a->next)
    found |= a->kind == VRAM_ATTRIBUTE_OTHER;
  return found;
}

/* The values among an operator's inputs or outputs, at the time `now`; 0: one that the file does
   not describe. */
static int names_live(const vram_file *f, file_values *all, const vram_file_name *x, uint64_t now,
                      int is_made) {
  for (; x; x = x->next) {
    file_value *const v = x->len ? value_of(all, x->name, x->len) : NULL;
    if (x->len && !v && !vram_file_find(f, x->name, x->len))
      return 0;
    if (!v)
      continue;
    if (is_made && !v->is_used)
      v->begin = now;
    v->is_used = 1;
    v->end = now + 1;
  }
  return 1;
}

static int is_text(const char *z, const char *name, uint32_t len) {
  return strlen(z) == len && !memcmp(z, name, len);
}

/* READ_VARIABLE and ASSIGN_VARIABLE say how large the variable of a handle is. */
static void variable_held(const file_values *all, const vram_file_node *n) {
  const vram_file_name *const handle = n->input, *held = NULL;
  file_value *v, *what;
  if (handle && is_text("READ_VARIABLE", n->op, n->op_len))
    held = n->output;
  else if (handle && is_text("ASSIGN_VARIABLE", n->op, n->op_len))
    held = handle->next;
  if (!held)
    return;
  v = value_of(all, handle->name, handle->len);
  what = value_of(all, held->name, held->len);
  if (v && what)
    v->kept = what->said;
}

/* Lifetimes: operator i runs at the time i; inputs are there before the first, outputs after the
   last, variables always. 0: a value that the file does not describe, or none can tell who reads
   it. */
static int values_live(const vram_file *f, file_values *all) {
  const vram_file_operand *o;
  const vram_file_node *n;
  uint64_t now = 0, i;
  for (n = f->node_first; n; n = n->next, now++) {
    if ((f->format == VRAM_FILE_ONNX && has_inner_graph(n)) ||
        !names_live(f, all, n->output, now, 1) || !names_live(f, all, n->input, now, 0))
      return 0;
    if (f->format == VRAM_FILE_TFLITE)
      variable_held(all, n);
  }
  for (o = f->operand_first; o; o = o->next) {
    file_value *const v = value_of(all, o->name, o->name_len);
    if (v && o->role == VRAM_OPERAND_OUTPUT)
      v->end = now;
  }
  for (i = 0; i < all->n; i++) {
    file_value *const v = all->v + i;
    const int is_variable = v->said->role == VRAM_OPERAND_STATE || v->kept;
    v->is_used |= v->said->role != VRAM_OPERAND_BETWEEN;
    if (is_variable || v->said->role == VRAM_OPERAND_INPUT)
      v->begin = 0;
    if (is_variable)
      v->end = now;
    v->end += v->end <= v->begin;
  }
  return 1;
}

/* What the command line says of a size's name, or of the first open size of the file (name NULL);
   0: nothing. */
static int64_t dim_asked(const job *j, const char *name, uint32_t len) {
  int64_t value = 0;
  uint32_t i;
  for (i = 0; i < j->ndims; i++) {
    const char *const asked = j->dims[i].name;
    if (asked && name ? is_text(asked, name, len) : asked == name)
      value = j->dims[i].value;
  }
  return value;
}

/* What --dim names must be there; not FITS: message printed. */
static int dims_known(const model_file *m, const job *j) {
  const vram_file_operand *o;
  uint32_t i, axis;
  for (i = 0; i < j->ndims; i++) {
    const char *const asked = j->dims[i].name;
    int found = 0;
    if (!asked)
      continue;
    for (o = m->f.operand_first; o && !found; o = o->next)
      for (axis = 0; axis < o->ndim; axis++)
        found |= o->symbol[axis] && is_text(asked, o->symbol[axis], o->symbol_len[axis]);
    if (!found) {
      cmd_say("%s: no size is open under the name%s", m->path, cmd_found(asked, strlen(asked)));
      return USAGE;
    }
  }
  return FITS;
}

/* The size of an axis; -1: not known. An open first axis is 1 where nothing says otherwise, and so
   are all of TFLite, which stores 1 for an open size, and no name. */
static int64_t axis_size(const vram_file *f, const vram_file_operand *o, uint32_t axis,
                         const job *j) {
  const char *const name = o->symbol[axis];
  int64_t size = o->size[axis];
  if (size >= 0)
    return size;
  size = name ? dim_asked(j, name, o->symbol_len[axis]) : 0;
  if (!size && !axis)
    size = dim_asked(j, NULL, 0);
  if (size)
    return size;
  return f->format == VRAM_FILE_TFLITE || (name && !axis) ? 1 : -1;
}

/* Bytes of a value as the file has it; 0: not known, or not of a fixed size (texts). */
static uint64_t value_bytes(const vram_file *f, const vram_file_operand *o, const job *j) {
  uint64_t n = 1, bytes;
  uint32_t i;
  if (!o->dtype || !o->has_shape)
    return 0;
  for (i = 0; i < o->ndim; i++) {
    const int64_t size = axis_size(f, o, i, j);
    if (size < 0 || (size && n > UINT64_MAX / (uint64_t)size))
      return 0;
    n *= (uint64_t)size;
  }
  return vram_dtype_bytes(o->dtype, n, &bytes) ? 0 : bytes;
}

static int by_number(const void *a, const void *b) {
  const uint64_t x = ((const file_value *)a)->said->number,
                 y = ((const file_value *)b)->said->number;
  return x < y ? -1 : x > y;
}

/* Buffers in the order in which the file numbers its values: of two that are equal a greedy planner
   takes the first. */
static int values_add(arena_set *s, const vram_file *f, const file_values *all, const job *j,
                      int *is_open) {
  uint64_t i;
  uint32_t k;
  if (all->v)
    qsort(all->v, (size_t)all->n, sizeof *all->v, by_number);
  for (i = 0; i < all->n; i++) {
    const file_value *const v = all->v + i;
    const uint64_t bytes = v->is_used ? value_bytes(f, v->kept ? v->kept : v->said, j) : 0;
    vram_buffer *b;
    if (v->is_used && !bytes && f->format == VRAM_FILE_ONNX)
      return CMD_ABSENT;
    if (!bytes)
      continue;
    b = arena_set_add(s, v->name, v->len);
    if (!b)
      return cmd_no_memory();
    for (k = 0; k < v->said->ndim; k++)
      *is_open |= v->said->size[k] < 0;
    b->bytes = bytes;
    b->begin = v->begin;
    b->end = v->end;
  }
  return FITS;
}

int arena_of_file(arena_set *s, const job *j, uint64_t *graphs, int *is_open) {
  const vram_file_value *count;
  file_values all = {NULL, 0};
  model_file m;
  int status = model_file_open(&m, s->path);
  if (!status)
    status = dims_known(&m, j);
  if (!status && !values_said(&m.f, &all))
    status = cmd_no_memory();
  if (!status && !values_live(&m.f, &all))
    status = CMD_ABSENT;
  if (!status)
    status = values_add(s, &m.f, &all, j, is_open);
  if (!status) {
    count = vram_file_get(&m.f, "subgraphs", 9);
    *graphs = count && count->kind == VRAM_VALUE_UINT ? count->number.u : 1;
  }
  while (status == CMD_ABSENT && s->n)
    free(s->name[--s->n]);
  free(all.v);
  model_file_close(&m);
  return status;
}
