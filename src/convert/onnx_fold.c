/* >>convert/onnx_fold    what is computed of shapes and of constants: few integers */
#include "convert/convert.h"

typedef struct vram__onnx_few { /* integers: a scalar (ndim 0), a list, or a table (2) */
  int64_t v[VRAM__ONNX_KEPT];
  uint32_t count, ndim, rows; /* rows: of a table */
  vram_dtype dtype;
} vram__onnx_few;

/* Input i, if it is such. */
static int vram__onnx_few_any(const vram__onnx_step *s, uint32_t i, vram__onnx_few *to) {
  const vram__onnx_cell *const c = vram__onnx_in(s, i);
  const int64_t *v;
  if (!c)
    return 0;
  v = vram__onnx_known(c, &to->count);
  if (!v || to->count > VRAM__ONNX_KEPT)
    return 0;
  to->ndim = c->ints_ndim;
  to->rows = c->ints_rows;
  to->dtype = c->ints_dtype;
  if (c->tensor) {
    to->ndim = c->tensor->ndim;
    to->rows = (uint32_t)c->tensor->size[0]; /* at most 64 */
    to->dtype = c->tensor->dtype;
  }
  vram__memory_copy(to->v, v, 8 * (uint64_t)to->count);
  return to->ndim < 3;
}

static int vram__onnx_few_in(const vram__onnx_step *s, uint32_t i, vram__onnx_few *to) {
  return vram__onnx_few_any(s, i, to) && to->ndim < 2;
}

static int vram__onnx_few_out(vram__onnx_job *m, vram__onnx_step *s, const vram__onnx_few *f) {
  if (!s->nout || !s->out[0])
    return 0;
  vram__onnx_know(m, s->out[0], f->v, f->count, f->ndim, f->dtype);
  s->out[0]->ints_rows = f->ndim == 2 ? f->rows : 0;
  return 1;
}

/* ---- elementwise ---- */

static int vram__onnx_fits(int64_t v) { return v > -(INT64_C(1) << 31) && v < INT64_C(1) << 31; }

/* The ops of two, in the order of vram__onnx_two; from VRAM__ONNX_TRUTHS on they give bools. */
enum { VRAM__ONNX_TRUTHS = 7 };
static const char *const vram__onnx_twos[] = {"Add",  "Sub",     "Mul",         "Div",
                                              "Mod",  "Min",     "Max",         "Equal",
                                              "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
                                              "And",  "Or",      NULL};

/* 0: not defined, or too large. */
static int vram__onnx_two(uint32_t op, int64_t a, int64_t b, int64_t *to) {
  if (op < 5 && !(vram__onnx_fits(a) && vram__onnx_fits(b)))
    return 0;
  switch (op) {
  case 0:
    return *to = a + b, 1;
  case 1:
    return *to = a - b, 1;
  case 2:
    return *to = a * b, 1;
  case 3:
    return *to = b ? a / b : 0, b != 0;
  case 4:
    return *to = b ? (a % b + b) % b : 0, b != 0;
  case 5:
    return *to = a < b ? a : b, 1;
  case 6:
    return *to = a > b ? a : b, 1;
  case 7:
    return *to = a == b, 1;
  case 8:
    return *to = a < b, 1;
  case 9:
    return *to = a > b, 1;
  case 10:
    return *to = a <= b, 1;
  case 11:
    return *to = a >= b, 1;
  case 12:
    return *to = a && b, 1;
  case 13:
    return *to = a || b, 1;
  default:
    return 0;
  }
}

static int vram__onnx_fold_two(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_few a, b, y;
  uint32_t i, op = 0;
  if (s->nin != 2 || !vram__onnx_few_in(s, 0, &a) || !vram__onnx_few_in(s, 1, &b) ||
      (a.count != b.count && a.count != 1 && b.count != 1))
    return 0;
  y.count = a.count == 1 ? b.count : a.count;
  y.ndim = a.ndim > b.ndim ? a.ndim : b.ndim;
  while (vram__onnx_twos[op] && !vram__text_is(s->node->op, s->node->op_len, vram__onnx_twos[op]))
    op++;
  y.dtype = op < VRAM__ONNX_TRUTHS ? a.dtype : VRAM_BOOL;
  for (i = 0; i < y.count; i++)
    if (!vram__onnx_two(op, a.v[a.count == 1 ? 0 : i], b.v[b.count == 1 ? 0 : i], y.v + i))
      return 0;
  return vram__onnx_few_out(m, s, &y);
}

static int vram__onnx_fold_where(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_few c, a, b, y;
  uint32_t i;
  if (!vram__onnx_few_in(s, 0, &c) || !vram__onnx_few_in(s, 1, &a) || !vram__onnx_few_in(s, 2, &b))
    return 0;
  y = a;
  y.count = c.count > a.count ? c.count : a.count;
  y.count = b.count > y.count ? b.count : y.count;
  y.ndim = c.ndim | a.ndim | b.ndim;
  if ((c.count != 1 && c.count != y.count) || (a.count != 1 && a.count != y.count) ||
      (b.count != 1 && b.count != y.count))
    return 0;
  for (i = 0; i < y.count; i++)
    y.v[i] = c.v[c.count == 1 ? 0 : i] ? a.v[a.count == 1 ? 0 : i] : b.v[b.count == 1 ? 0 : i];
  return vram__onnx_few_out(m, s, &y);
}

static int vram__onnx_fold_one(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_few x;
  uint32_t i;
  if (!vram__onnx_few_in(s, 0, &x))
    return 0;
  for (i = 0; i < x.count; i++)
    if (vram__text_is(s->node->op, s->node->op_len, "Not"))
      x.v[i] = !x.v[i];
    else if (!vram__onnx_fits(x.v[i]))
      return 0;
    else if (vram__text_is(s->node->op, s->node->op_len, "Neg") || x.v[i] < 0)
      x.v[i] = -x.v[i];
  return vram__onnx_few_out(m, s, &x);
}

/* From integers to integers, the only ones there are here. */
static int vram__onnx_fold_cast(vram__onnx_job *m, vram__onnx_step *s) {
  const vram_dtype to = vram_dtype_from_onnx_id(vram__onnx_attr_int(s, "to", 0));
  vram__onnx_few x;
  uint32_t i;
  if ((to != VRAM_I64 && to != VRAM_I32 && to != VRAM_BOOL) || !vram__onnx_few_in(s, 0, &x))
    return 0;
  x.dtype = to;
  for (i = 0; to == VRAM_BOOL && i < x.count; i++)
    x.v[i] = x.v[i] != 0;
  return vram__onnx_few_out(m, s, &x);
}

/* ---- lists ---- */

static int vram__onnx_fold_shape(vram__onnx_job *m, vram__onnx_step *s) {
  const vram__onnx_cell *const c = vram__onnx_in(s, 0);
  int64_t size[VRAM_MAX_AXES], start, end;
  vram__onnx_few y;
  uint32_t ndim;
  if (!c || !vram__onnx_shape(c, &ndim, size))
    return 0;
  start = vram__onnx_attr_int(s, "start", 0);
  end = vram__onnx_attr_int(s, "end", ndim);
  start += start < 0 ? (int64_t)ndim : 0;
  end += end < 0 ? (int64_t)ndim : 0;
  start = start < 0 ? 0 : start;
  end = end > (int64_t)ndim ? (int64_t)ndim : end;
  y.count = end > start ? (uint32_t)(end - start) : 0;
  y.ndim = 1;
  y.dtype = VRAM_I64;
  vram__memory_copy(y.v, size + (start < (int64_t)ndim ? start : 0), 8 * (uint64_t)y.count);
  return vram__onnx_few_out(m, s, &y);
}

static int vram__onnx_fold_size(vram__onnx_job *m, vram__onnx_step *s) {
  const vram__onnx_cell *const c = vram__onnx_in(s, 0);
  int64_t size[VRAM_MAX_AXES];
  vram__onnx_few y;
  uint32_t ndim, i;
  uint64_t numel = 1;
  if (!c || !vram__onnx_shape(c, &ndim, size))
    return 0;
  for (i = 0; i < ndim; i++)
    numel = vram__product_or_overflow(numel, (uint64_t)size[i]);
  if (numel > INT64_MAX)
    return 0;
  y.v[0] = (int64_t)numel;
  y.count = 1;
  y.ndim = 0;
  y.dtype = VRAM_I64;
  return vram__onnx_few_out(m, s, &y);
}

static int vram__onnx_fold_concat(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_few x, y;
  uint32_t i;
  y.count = 0;
  y.ndim = 1;
  y.dtype = VRAM_I64;
  for (i = 0; i < s->nin; i++) {
    if (!vram__onnx_few_in(s, i, &x) || x.ndim != 1 || x.count > VRAM__ONNX_KEPT - y.count)
      return 0;
    vram__memory_copy(y.v + y.count, x.v, 8 * (uint64_t)x.count);
    y.count += x.count;
    y.dtype = x.dtype;
  }
  return s->nin && vram__onnx_few_out(m, s, &y);
}

static int vram__onnx_fold_gather(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_few x, at, y;
  uint32_t i;
  if (!vram__onnx_few_in(s, 0, &x) || !vram__onnx_few_in(s, 1, &at) || x.ndim != 1)
    return 0;
  y = at;
  y.dtype = x.dtype;
  for (i = 0; i < at.count; i++) {
    const int64_t k = vram__onnx_axis(at.v[i], x.count);
    if (k < 0)
      return 0;
    y.v[i] = x.v[k];
  }
  return vram__onnx_few_out(m, s, &y);
}

/* Of a list, or of the rows of a table. */
static int vram__onnx_fold_slice(vram__onnx_job *m, vram__onnx_step *s) {
  const int64_t *start, *end, *step, *axis;
  uint32_t ns, ne, nstep, naxis, wide;
  vram__onnx_few x, y;
  int64_t by, i, last, rows;
  if (!vram__onnx_few_any(s, 0, &x) || !x.ndim)
    return 0;
  axis = vram__onnx_list(m, s, "axes", 3, &naxis);
  start = vram__onnx_list(m, s, "starts", 1, &ns);
  end = vram__onnx_list(m, s, "ends", 2, &ne);
  step = vram__onnx_list(m, s, "steps", 4, &nstep);
  by = step && nstep == 1 ? *step : 1;
  if (!start || !end || ns != 1 || ne != 1 || m->unknown || (by != 1 && by != -1) ||
      (axis && (naxis != 1 || (x.ndim == 2 && *axis))))
    return 0;
  rows = x.ndim == 2 ? x.rows : x.count;
  wide = x.ndim == 2 && x.rows ? x.count / x.rows : 1;
  y.count = y.rows = 0;
  y.ndim = x.ndim;
  y.dtype = x.dtype;
  i = *start < 0 ? *start + rows : *start;
  last = *end < 0 && *end >= -rows ? *end + rows : *end;
  if (by > 0)
    i = i < 0 ? 0 : i;
  else
    i = i >= rows ? rows - 1 : i;
  for (; i >= 0 && i < rows && (by > 0 ? i < last : i > last); i += by) {
    vram__memory_copy(y.v + y.count, x.v + i * wide, 8 * (uint64_t)wide);
    y.count += wide;
    y.rows++;
  }
  return vram__onnx_few_out(m, s, &y);
}

static int vram__onnx_fold_transpose(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_few x, y;
  uint32_t i, columns;
  if (!vram__onnx_few_any(s, 0, &x) || x.ndim != 2 || !x.rows)
    return 0;
  y = x;
  columns = x.count / x.rows;
  for (i = 0; i < x.count; i++)
    y.v[i % columns * x.rows + i / columns] = x.v[i];
  y.rows = columns;
  return vram__onnx_few_out(m, s, &y);
}

/* A table of so many rows; 0: it is none. */
static int vram__onnx_few_table(vram__onnx_few *x, const vram__onnx_few *to) {
  const int64_t n = x->count;
  int64_t rows = to->v[0], columns = to->v[1];
  if (rows == -1 && columns > 0)
    rows = n / columns;
  if (columns == -1 && rows > 0)
    columns = n / rows;
  if (rows < 1 || columns < 1 || rows > n || columns > n || rows * columns != n)
    return 0;
  x->rows = (uint32_t)rows;
  x->ndim = 2;
  return 1;
}

/* Squeeze, Unsqueeze, Reshape between a number, a list and a table. */
static int vram__onnx_fold_view(vram__onnx_job *m, vram__onnx_step *s) {
  const char *const op = s->node->op;
  const uint32_t n = s->node->op_len;
  vram__onnx_few x, to;
  if (!vram__onnx_few_any(s, 0, &x))
    return 0;
  if (vram__text_is(op, n, "Reshape")) {
    if (!vram__onnx_few_in(s, 1, &to) || to.count > 2 || (!to.count && x.count != 1) ||
        (to.count == 2 && !vram__onnx_few_table(&x, &to)))
      return 0;
    x.ndim = to.count;
  } else if (x.ndim > 1 || (vram__text_is(op, n, "Unsqueeze") && x.ndim))
    return 0;
  else
    x.ndim = vram__text_is(op, n, "Unsqueeze") || x.count != 1;
  return vram__onnx_few_out(m, s, &x);
}

static int vram__onnx_fold_reduce(vram__onnx_job *m, vram__onnx_step *s) {
  const int product = vram__text_is(s->node->op, s->node->op_len, "ReduceProd");
  vram__onnx_few x;
  int64_t y = product;
  uint32_t i;
  if (!vram__onnx_few_in(s, 0, &x))
    return 0;
  for (i = 0; i < x.count; i++) {
    if (!vram__onnx_fits(x.v[i]) || !vram__onnx_fits(y))
      return 0;
    y = product ? y * x.v[i] : y + x.v[i];
  }
  x.v[0] = y;
  x.count = 1;
  x.ndim = x.ndim && vram__onnx_attr_int(s, "keepdims", 1);
  return vram__onnx_few_out(m, s, &x);
}

/* A list that long is one of axes; longer ones are values. */
static int vram__onnx_fold_fill(vram__onnx_job *m, vram__onnx_step *s) {
  const vram_file_attribute *const a = vram__onnx_attr(s, "value");
  const vram_file_tensor *const t = a ? a->tensor : NULL;
  vram__onnx_few x;
  uint32_t i, n;
  if (!vram__onnx_few_in(s, 0, &x) || x.count > 1 || !t || !t->ints || t->numel != 1)
    return 0;
  n = x.count ? (uint32_t)(x.v[0] < 0 || x.v[0] > VRAM__ONNX_FOLDED ? 0 : x.v[0]) : 1;
  if (!n)
    return 0;
  x.ndim = x.count;
  x.count = n;
  x.dtype = t->dtype;
  for (i = 0; i < n; i++)
    x.v[i] = t->ints[0];
  return vram__onnx_few_out(m, s, &x);
}

static const struct {
  const char *name;
  vram__onnx_map fold;
} vram__onnx_folds[] = {
    {"Add", vram__onnx_fold_two},
    {"Sub", vram__onnx_fold_two},
    {"Mul", vram__onnx_fold_two},
    {"Div", vram__onnx_fold_two},
    {"Mod", vram__onnx_fold_two},
    {"Min", vram__onnx_fold_two},
    {"Max", vram__onnx_fold_two},
    {"Equal", vram__onnx_fold_two},
    {"Less", vram__onnx_fold_two},
    {"Greater", vram__onnx_fold_two},
    {"LessOrEqual", vram__onnx_fold_two},
    {"GreaterOrEqual", vram__onnx_fold_two},
    {"And", vram__onnx_fold_two},
    {"Or", vram__onnx_fold_two},
    {"Where", vram__onnx_fold_where},
    {"Not", vram__onnx_fold_one},
    {"Neg", vram__onnx_fold_one},
    {"Abs", vram__onnx_fold_one},
    {"Cast", vram__onnx_fold_cast},
    {"Shape", vram__onnx_fold_shape},
    {"Size", vram__onnx_fold_size},
    {"Concat", vram__onnx_fold_concat},
    {"Gather", vram__onnx_fold_gather},
    {"Slice", vram__onnx_fold_slice},
    {"Squeeze", vram__onnx_fold_view},
    {"Transpose", vram__onnx_fold_transpose},
    {"Unsqueeze", vram__onnx_fold_view},
    {"Reshape", vram__onnx_fold_view},
    {"ReduceProd", vram__onnx_fold_reduce},
    {"ReduceSum", vram__onnx_fold_reduce},
    {"ConstantOfShape", vram__onnx_fold_fill},
};

/* 1: the node's result is known, and needs no line. */
VRAM__FN int vram__onnx_fold(vram__onnx_job *m, vram__onnx_step *s) {
  const size_t n = sizeof vram__onnx_folds / sizeof *vram__onnx_folds;
  size_t i;
  if (s->node->domain_len && !vram__text_is(s->node->domain, s->node->domain_len, "ai.onnx"))
    return 0;
  for (i = 0; i < n; i++)
    if (vram__text_is(s->node->op, s->node->op_len, vram__onnx_folds[i].name))
      return vram__onnx_folds[i].fold(m, s);
  return 0;
}
