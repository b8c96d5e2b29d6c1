/* >>convert/onnx_cell    values and attributes of an ONNX model: what is known of them */
#include "convert/convert.h"

VRAM__FN int vram__onnx_refuse(vram__onnx_job *m, const char *why) {
  uint32_t n = 0;
  vram__text_puts(m->d->why, sizeof m->d->why, &n, why);
  return 0;
}

/* ---- attributes ---- */

VRAM__FN const vram_file_attribute *vram__onnx_attr(const vram__onnx_step *s, const char *name) {
  const vram_file_attribute *a = s->node->attribute;
  while (a && !vram__text_is(a->name, a->name_len, name))
    a = a->next;
  return a;
}

VRAM__FN int64_t vram__onnx_attr_int(const vram__onnx_step *s, const char *name, int64_t def) {
  const vram_file_attribute *const a = vram__onnx_attr(s, name);
  return a && a->kind == VRAM_ATTRIBUTE_INT ? a->i : def;
}

VRAM__FN int vram__onnx_attr_is(const vram__onnx_step *s, const char *name, const char *word) {
  const vram_file_attribute *const a = vram__onnx_attr(s, name);
  return a && a->kind == VRAM_ATTRIBUTE_TEXT && vram__text_is(a->text, (uint32_t)a->count, word);
}

VRAM__FN const int64_t *vram__onnx_attr_ints(const vram__onnx_step *s, const char *name,
                                             uint32_t *n) {
  const vram_file_attribute *const a = vram__onnx_attr(s, name);
  const int is_list = a && a->kind == VRAM_ATTRIBUTE_INTS && a->ints;
  *n = is_list ? (uint32_t)a->count : 0;
  return is_list ? a->ints : NULL;
}

VRAM__FN vram__onnx_cell *vram__onnx_in(const vram__onnx_step *s, uint32_t i) {
  return i < s->nin ? s->in[i] : NULL;
}

/* A list that is an attribute of older opsets and an input of newer ones. NULL: left out, or
   (m->unknown) not known here. */
VRAM__FN const int64_t *vram__onnx_list(vram__onnx_job *m, const vram__onnx_step *s,
                                        const char *name, uint32_t i, uint32_t *n) {
  const vram__onnx_cell *const c = vram__onnx_in(s, i);
  const int64_t *v = vram__onnx_attr_ints(s, name, n);
  m->unknown = 0;
  if (v || !c)
    return v;
  v = vram__onnx_known(c, n);
  m->unknown = !v;
  return v;
}

/* -1 as the last axis; -1: there is no such axis. */
VRAM__FN int64_t vram__onnx_axis(int64_t axis, uint32_t ndim) {
  const int64_t n = (int64_t)ndim;
  return axis < -n || axis >= n ? -1 : axis < 0 ? axis + n : axis;
}

/* ---- values ---- */

/* Its integers, where they are known. */
VRAM__FN const int64_t *vram__onnx_known(const vram__onnx_cell *c, uint32_t *n) {
  if (c->tensor && c->tensor->ints) {
    *n = (uint32_t)c->tensor->numel;
    return c->tensor->ints;
  }
  *n = c->ints ? c->count : 0;
  return c->ints;
}

VRAM__FN void vram__onnx_know(vram__onnx_job *m, vram__onnx_cell *c, const int64_t *v, uint32_t n,
                              uint32_t ndim, vram_dtype dtype) {
  int64_t *const to = (int64_t *)vram__draft_take(m->d, 8 * (uint64_t)n + 8);
  if (!to)
    return;
  vram__memory_copy(to, v, 8 * (uint64_t)n);
  c->ints = to;
  c->count = n;
  c->ints_ndim = (uint8_t)ndim;
  c->ints_dtype = dtype;
}

/* 0: it is not known. */
VRAM__FN int vram__onnx_shape(const vram__onnx_cell *c, uint32_t *ndim, int64_t *size) {
  uint32_t i;
  if (c->value) {
    *ndim = c->value->d->ndim;
    for (i = 0; i < *ndim; i++)
      size[i] = c->value->d->v[i];
    return 1;
  }
  if (c->tensor) {
    *ndim = c->tensor->ndim;
    for (i = 0; i < *ndim; i++)
      size[i] = c->tensor->size[i];
    return 1;
  }
  *ndim = c->ints_ndim;
  size[0] = c->ints_ndim == 2 ? c->ints_rows : c->count;
  size[1] = c->ints_rows ? c->count / c->ints_rows : 0;
  return c->ints != NULL;
}

VRAM__FN vram_dtype vram__onnx_dtype(const vram__onnx_cell *c) {
  if (c->value)
    return c->value->dtype;
  return c->tensor ? c->tensor->dtype : c->ints ? c->ints_dtype : VRAM_DTYPE_NONE;
}

static int vram__onnx_is_float(vram_dtype t) {
  return t == VRAM_F32 || t == VRAM_F16 || t == VRAM_BF16 || t == VRAM_F64;
}

/* A quantised tensor is written as the numbers that it stands for, as is what TFLite stores in
   16 bits and computes with in 32. */
VRAM__FN vram_dtype vram__onnx_text_dtype(const vram__onnx_job *m, vram_dtype t, uint32_t scales) {
  return scales || (t == VRAM_F16 && m->f->format == VRAM_FILE_TFLITE) ? VRAM_F32 : t;
}

/* A weight that one node alone takes, so that the node's line owns it. */
VRAM__FN int vram__onnx_is_owned(const vram__onnx_cell *c) {
  if (!c || !c->tensor || c->value || c->first || c->is_output ||
      (!vram__onnx_is_float(c->tensor->dtype) && !c->tensor->scales))
    return 0;
  for (; c; c = c->same)
    if (c->uses != 1)
      return 0;
  return 1;
}

/* A constant of one element: a number for an op of two tensors. */
VRAM__FN int vram__onnx_is_single(const vram__onnx_cell *c) {
  if (c->tensor)
    return c->tensor->numel == 1;
  return c->ints && c->count == 1;
}

static const char *vram__onnx_label(vram__onnx_job *m, vram__onnx_cell *c) {
  if (!c->label)
    c->label = vram__draft_label(m->d, c->name, c->len);
  return c->label;
}

/* A line for what is constant. */
static vram_value *vram__onnx_constant(vram__onnx_job *m, vram__onnx_cell *c) {
  const vram_dtype dtype =
      vram__onnx_text_dtype(m, vram__onnx_dtype(c), c->tensor ? c->tensor->scales : 0);
  int64_t size[VRAM_MAX_AXES];
  const char *const label = vram__onnx_label(m, c);
  vram_node *n;
  uint32_t ndim;
  if (!label || !vram__onnx_shape(c, &ndim, size))
    return NULL;
  vram__draft_op(m->d, vram__onnx_is_float(dtype) ? VRAM_OP_parameter : VRAM_OP_buffer);
  vram__draft_shape(m->d, size, ndim);
  if (dtype != m->dtype)
    vram__draft_word(m->d, "dtype", vram_dtype_name(dtype));
  n = vram__draft_node(m->d, label, NULL);
  return vram_node_output(n, 0);
}

/* In the file's order, what is there channels first. */
static vram_value *vram__onnx_last(vram__onnx_job *m, const vram__onnx_cell *c) {
  static const int64_t order[] = {0, 2, 3, 1};
  vram__draft_op(m->d, VRAM_OP_permute);
  vram__draft_in(m->d, c->first);
  vram__draft_ints(m->d, "dims", order, 4);
  return vram__onnx_between(m, c, "last");
}

/* The value in the graph; NULL: nothing gives it, or an error. */
VRAM__FN vram_value *vram__onnx_value_of(vram__onnx_job *m, vram__onnx_cell *c) {
  if (!c)
    return NULL;
  if (!c->value && c->first && !c->tensor)
    c->value = vram__onnx_last(m, c);
  else if (!c->value && c->same)
    c->value = vram__onnx_value_of(m, c->same);
  else if (!c->value && (c->tensor || c->ints))
    c->value = vram__onnx_constant(m, c);
  return c->value;
}

/* `out` is c again, which must be known, so that no ring is made; not more than 64 times, so that
   who follows them soon arrives. 0: refused. */
VRAM__FN int vram__onnx_link(vram__onnx_job *m, vram__onnx_cell *out, vram__onnx_cell *c) {
  enum { AGAIN = 64 };
  if (out == c || c->again == AGAIN)
    return vram__onnx_refuse(m, "a value that is its own, or the same more than 64 times");
  out->same = c;
  out->again = (uint8_t)(c->again + 1);
  return 1;
}

/* The output is the cell itself: no line. */
VRAM__FN int vram__onnx_pass(vram__onnx_job *m, vram__onnx_step *s, vram__onnx_cell *c) {
  vram__onnx_cell *const out = s->nout ? s->out[0] : NULL;
  uint32_t n;
  const int64_t *v;
  if (!c || !out)
    return vram__onnx_refuse(m, "no input or no output");
  v = vram__onnx_known(c, &n);
  if (c->tensor) {
    if (!vram__onnx_link(m, out, c))
      return 0;
    out->tensor = c->tensor;
  } else if (v)
    vram__onnx_know(m, out, v, n, c->ints_ndim, c->ints_dtype);
  out->value = c->tensor ? NULL : vram__onnx_value_of(m, c);
  return out->value || out->tensor || out->ints;
}

/* ---- lines ---- */

/* Input i of the node, also as an input of the line; NULL: there is none. */
VRAM__FN vram_value *vram__onnx_take_in(vram__onnx_job *m, vram__onnx_step *s, uint32_t i) {
  vram_value *const v = vram__onnx_value_of(m, vram__onnx_in(s, i));
  if (!v && !m->d->r.result)
    vram__onnx_refuse(m, "an input that nothing gives");
  return v;
}

/* The line gives this value. */
VRAM__FN int vram__onnx_put(vram__onnx_job *m, vram__onnx_cell *out) {
  const char *const label = out ? vram__onnx_label(m, out) : NULL;
  if (!label)
    return vram__onnx_refuse(m, "no output");
  out->value = vram_node_output(vram__draft_node(m->d, label, NULL), 0);
  return out->value != NULL;
}

/* The line gives something on the way to `out`. */
VRAM__FN vram_value *vram__onnx_between(vram__onnx_job *m, const vram__onnx_cell *out,
                                        const char *what) {
  char text[VRAM_MAX_NAME];
  const char *label;
  uint32_t n = 0, len;
  if (!out)
    return vram__onnx_refuse(m, "no output"), (vram_value *)NULL;
  len = vram__draft_name_len(out->name, out->len);
  vram__text_put(text, sizeof text, &n, out->name, len < 200 ? len : 200);
  vram__text_puts(text, sizeof text, &n, ".");
  vram__text_puts(text, sizeof text, &n, what);
  label = vram__draft_label(m->d, text, n);
  return label ? vram_node_output(vram__draft_node(m->d, label, NULL), 0) : NULL;
}
