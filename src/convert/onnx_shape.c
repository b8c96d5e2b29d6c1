/* >>convert/onnx_shape    ONNX operators that move elements: views, slices, tables, sizes */
#include "convert/convert.h"

VRAM__FN int vram__onnx_map_identity(vram__onnx_job *m, vram__onnx_step *s) {
  return vram__onnx_pass(m, s, vram__onnx_in(s, 0));
}

static int vram__onnx_reshape(vram__onnx_job *m, vram__onnx_step *s, vram_value *x,
                              const int64_t *size, uint32_t n) {
  vram__draft_op(m->d, VRAM_OP_reshape);
  vram__draft_in(m->d, x);
  vram__draft_shape(m->d, size, n);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_reshape(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t size[VRAM_MAX_AXES];
  uint64_t rest = 1;
  uint32_t n, i, open = VRAM_MAX_AXES;
  const int64_t *const to = vram__onnx_list(m, s, "shape", 1, &n);
  if (!x)
    return 0;
  if (!to || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "a shape that is not known");
  for (i = 0; i < n; i++) {
    size[i] = to[i];
    if (!to[i] && !vram__onnx_attr_int(s, "allowzero", 0) && i < x->d->ndim)
      size[i] = x->d->v[i];
    if (size[i] == -1)
      open = i;
    else
      rest = vram__product_or_overflow(rest, size[i] < 0 ? 0 : (uint64_t)size[i]);
  }
  if (open < n && rest && rest != VRAM_OVERFLOW && x->d->numel % rest == 0)
    size[open] = (int64_t)(x->d->numel / rest);
  return vram__onnx_reshape(m, s, x, size, n);
}

VRAM__FN int vram__onnx_map_flatten(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t axis = vram__onnx_attr_int(s, "axis", 1), size[2] = {1, 1};
  uint32_t i;
  if (!x)
    return 0;
  axis += axis < 0 ? x->d->ndim : 0;
  for (i = 0; i < x->d->ndim; i++)
    size[(int64_t)i >= axis] *= x->d->v[i]; /* the whole fits, and so does each part */
  if (axis != 1 || x->d->ndim < 2)
    return vram__onnx_reshape(m, s, x, size, 2);
  vram__draft_op(m->d, VRAM_OP_flatten);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "start_dim", 1);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_transpose(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t order[VRAM_MAX_AXES];
  uint32_t n, i;
  const int64_t *const perm = vram__onnx_attr_ints(s, "perm", &n);
  if (!x)
    return 0;
  for (i = 0; i < x->d->ndim; i++)
    order[i] = x->d->ndim - 1 - i;
  vram__draft_op(m->d, VRAM_OP_permute);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "dims", perm ? perm : order, perm ? n : x->d->ndim);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_squeeze(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t axis[VRAM_MAX_AXES];
  uint32_t n, i;
  const int64_t *const axes = vram__onnx_list(m, s, "axes", 1, &n);
  if (!x)
    return 0;
  if (m->unknown || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "axes that are not known");
  for (i = 0; i < n; i++) {
    axis[i] = vram__onnx_axis(axes[i], x->d->ndim);
    if (axis[i] < 0)
      return vram__onnx_refuse(m, "an axis that is not there");
  }
  vram__draft_op(m->d, VRAM_OP_squeeze);
  vram__draft_in(m->d, x);
  if (n)
    vram__draft_ints(m->d, "dim", axis, n);
  return vram__onnx_put(m, s->out[0]);
}

/* One line for each axis, the lowest first. */
VRAM__FN int vram__onnx_map_unsqueeze(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *x = vram__onnx_take_in(m, s, 0);
  uint32_t n, i, k, wanted = 0;
  const int64_t *const axes = vram__onnx_list(m, s, "axes", 1, &n);
  if (!x)
    return 0;
  if (!axes || !n || n + x->d->ndim > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "axes that are not known, or too many");
  for (i = 0, k = n + x->d->ndim; i < n; i++) {
    const int64_t a = vram__onnx_axis(axes[i], k);
    if (a < 0 || wanted >> a & 1)
      return vram__onnx_refuse(m, "an axis that is not there, or twice");
    wanted |= 1u << a;
  }
  for (k = 0; x; k++) {
    if (!(wanted >> k & 1))
      continue;
    vram__draft_op(m->d, VRAM_OP_unsqueeze);
    vram__draft_in(m->d, x);
    vram__draft_int(m->d, "dim", k);
    if (!--n)
      return vram__onnx_put(m, s->out[0]);
    x = vram__onnx_between(m, s->out[0], "part");
  }
  return 0;
}

VRAM__FN int vram__onnx_map_concat(vram__onnx_job *m, vram__onnx_step *s) {
  uint32_t i;
  for (i = 0; i < s->nin; i++)
    if (!vram__onnx_take_in(m, s, i))
      return 0;
  vram__draft_op(m->d, VRAM_OP_cat);
  for (i = 0; i < s->nin; i++)
    vram__draft_in(m->d, s->in[i]->value);
  vram__draft_int(m->d, "dim", vram__onnx_attr_int(s, "axis", 1));
  return vram__onnx_put(m, s->out[0]);
}

/* The names of a node's outputs in d->names; 0: an error. */
VRAM__FN int vram__onnx_split_names(vram__onnx_job *m, vram__onnx_step *s, char *to, uint32_t cap) {
  uint32_t i, n = 0;
  for (i = 0; i < s->nout; i++) {
    vram__onnx_cell *const out = s->out[i];
    const char *const label =
        out ? vram__draft_label(m->d, out->name, out->len) : vram__draft_label(m->d, "unused", 6);
    if (!label || n + vram__text_len(label) + 2 > cap)
      return vram__onnx_refuse(m, "too many outputs");
    vram__text_puts(to, cap, &n, i ? "," : "");
    vram__text_puts(to, cap, &n, label);
  }
  return s->nout != 0;
}

VRAM__FN int vram__onnx_map_split(vram__onnx_job *m, vram__onnx_step *s) {
  enum { ROOM = 16384 };
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t size[VRAM__ONNX_KEPT], axis;
  uint32_t n, i;
  const int64_t *const split = vram__onnx_list(m, s, "split", 1, &n);
  char *names;
  vram_node *node;
  if (!x)
    return 0;
  axis = vram__onnx_axis(vram__onnx_attr_int(s, "axis", 0), x->d->ndim);
  if (axis < 0 || m->unknown || !s->nout || s->nout > VRAM__ONNX_KEPT || (split && n != s->nout))
    return vram__onnx_refuse(m, "parts that are not known, or more than 64");
  for (i = 0; i < s->nout; i++) {
    const int64_t each = vram__div_up(x->d->v[axis], s->nout), left = x->d->v[axis] - i * each;
    size[i] = split ? split[i] : left < each ? left : each;
  }
  names = (char *)vram__draft_take(m->d, ROOM);
  if (!names || !vram__onnx_split_names(m, s, names, ROOM))
    return 0;
  vram__draft_op(m->d, VRAM_OP_split);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "split_size_or_sections", size, s->nout);
  vram__draft_int(m->d, "dim", axis);
  node = vram__draft_node(m->d, names, NULL);
  for (i = 0; node && i < s->nout; i++)
    if (s->out[i])
      s->out[i]->value = vram_node_output(node, i);
  return node != NULL;
}

/* ---- slices ---- */

typedef struct vram__onnx_cuts { /* of a Slice */
  const int64_t *start, *end, *axis, *step;
  uint32_t n;
} vram__onnx_cuts;

static int vram__onnx_cuts_read(vram__onnx_job *m, vram__onnx_step *s, vram__onnx_cuts *c) {
  uint32_t ends, axes, steps, unknown;
  c->start = vram__onnx_list(m, s, "starts", 1, &c->n);
  c->end = vram__onnx_list(m, s, "ends", 2, &ends);
  c->axis = vram__onnx_list(m, s, "axes", 3, &axes);
  unknown = m->unknown;
  c->step = vram__onnx_list(m, s, "steps", 4, &steps);
  if (!c->start || !c->end || ends != c->n || (c->axis && axes != c->n) ||
      (c->step && steps != c->n) || unknown || m->unknown)
    return vram__onnx_refuse(m, "places that are not known");
  return 1;
}

/* A place within 0 and size, from the end if it is negative. */
VRAM__FN int64_t vram__onnx_place(int64_t at, int64_t size) {
  at = at < 0 ? (at < -size ? 0 : at + size) : at;
  return at > size ? size : at;
}

VRAM__FN int vram__onnx_map_slice(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *x = vram__onnx_take_in(m, s, 0);
  vram__onnx_cuts c;
  uint32_t i;
  if (!x || !vram__onnx_cuts_read(m, s, &c))
    return 0;
  if (!c.n)
    return vram__onnx_pass(m, s, s->in[0]);
  for (i = 0; x && i < c.n; i++) {
    const int64_t step = c.step ? c.step[i] : 1,
                  axis = vram__onnx_axis(c.axis ? c.axis[i] : i, x->d->ndim);
    int64_t size, start, end;
    if (axis < 0 || step < 1)
      return vram__onnx_refuse(m, "an axis that is not there, or a step backwards");
    size = x->d->v[axis];
    start = vram__onnx_place(c.start[i], size);
    end = vram__onnx_place(c.end[i], size);
    vram__draft_op(m->d, VRAM_OP_slice);
    vram__draft_in(m->d, x);
    vram__draft_int(m->d, "dim", axis);
    if (start)
      vram__draft_int(m->d, "start", start);
    if (end != size)
      vram__draft_int(m->d, "end", end);
    if (step != 1)
      vram__draft_int(m->d, "step", step);
    if (i + 1 == c.n)
      return vram__onnx_put(m, s->out[0]);
    x = vram__onnx_between(m, s->out[0], "part");
  }
  return 0;
}

/* ---- tables ---- */

/* A table of rows: embedding, which owns it, or takes it where other nodes use it, too. */
static int vram__onnx_embedding(vram__onnx_job *m, vram__onnx_step *s, vram_value *at) {
  vram__onnx_cell *const w = s->in[0];
  vram_value *const table = vram__onnx_is_owned(w) ? NULL : vram__onnx_take_in(m, s, 0);
  if (!table && !vram__onnx_is_owned(w))
    return 0;
  vram__draft_op(m->d, VRAM_OP_embedding);
  vram__draft_in(m->d, at);
  if (table)
    vram__draft_in(m->d, table);
  vram__draft_int(m->d, "num_embeddings", w->tensor->size[0]);
  vram__draft_int(m->d, "embedding_dim", w->tensor->size[1]);
  if (!table && w->tensor->dtype != m->dtype)
    vram__draft_word(m->d, "dtype", vram_dtype_name(w->tensor->dtype));
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_gather(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const w = vram__onnx_in(s, 0), *const i = vram__onnx_in(s, 1);
  const int64_t asked = vram__onnx_attr_int(s, "axis", 0), *k;
  int64_t size[VRAM_MAX_AXES], axis;
  vram_value *x, *at;
  uint32_t n, ndim;
  if (!w || !i || !vram__onnx_shape(w, &ndim, size))
    return vram__onnx_refuse(m, "no input");
  axis = vram__onnx_axis(asked, ndim);
  if (axis < 0)
    return vram__onnx_refuse(m, "an axis that is not there");
  k = vram__onnx_known(i, &n);
  if (k && !(i->tensor ? i->tensor->ndim : i->ints_ndim)) {
    x = vram__onnx_take_in(m, s, 0);
    if (!x)
      return 0;
    vram__draft_op(m->d, VRAM_OP_select);
    vram__draft_in(m->d, x);
    vram__draft_int(m->d, "dim", axis);
    vram__draft_int(m->d, "index", *k < 0 ? *k + size[axis] : *k);
    return vram__onnx_put(m, s->out[0]);
  }
  at = vram__onnx_take_in(m, s, 1);
  if (!at)
    return 0;
  if (!axis && w->tensor && ndim == 2 && vram__kind_rank(w->tensor->dtype) == 2)
    return vram__onnx_embedding(m, s, at);
  x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, at->d->ndim == 1 ? VRAM_OP_index_select : VRAM_OP_index);
  vram__draft_in(m->d, x);
  vram__draft_in(m->d, at);
  vram__draft_int(m->d, "dim", axis);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_gather_elements(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0), *const at = vram__onnx_take_in(m, s, 1);
  if (!x || !at)
    return 0;
  vram__draft_op(m->d, VRAM_OP_gather);
  vram__draft_in(m->d, x);
  vram__draft_in(m->d, at);
  vram__draft_int(m->d, "dim", vram__onnx_attr_int(s, "axis", 0));
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_scatter(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *in[3];
  uint32_t i;
  for (i = 0; i < 3; i++)
    if (!(in[i] = vram__onnx_take_in(m, s, i)))
      return 0;
  vram__draft_op(m->d, VRAM_OP_scatter);
  for (i = 0; i < 3; i++)
    vram__draft_in(m->d, in[i]);
  vram__draft_int(m->d, "dim", vram__onnx_attr_int(s, "axis", 0));
  return vram__onnx_put(m, s->out[0]);
}

/* As large as its first input, and a copy of it. */
VRAM__FN int vram__onnx_map_scatter_nd(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *in[3];
  uint32_t i;
  for (i = 0; i < 3; i++)
    if (!(in[i] = vram__onnx_take_in(m, s, i)))
      return 0;
  vram__draft_op(m->d, VRAM_OP_custom);
  for (i = 0; i < 3; i++)
    vram__draft_in(m->d, in[i]);
  vram__draft_shape(m->d, in[0]->d->v, in[0]->d->ndim);
  return vram__onnx_put(m, s->out[0]);
}

/* ---- sizes ---- */

VRAM__FN int vram__onnx_map_expand(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t size[VRAM_MAX_AXES];
  uint32_t n, i, ndim;
  const int64_t *const to = vram__onnx_list(m, s, "", 1, &n);
  if (!x)
    return 0;
  if (!to || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "a shape that is not known");
  ndim = n > x->d->ndim ? n : x->d->ndim;
  for (i = 1; i <= ndim; i++) { /* from the last axis on */
    const int64_t a = i <= x->d->ndim ? x->d->v[x->d->ndim - i] : 1, b = i <= n ? to[n - i] : 1;
    size[ndim - i] = b == 1 || b == -1 ? a : b;
  }
  vram__draft_op(m->d, VRAM_OP_expand);
  vram__draft_in(m->d, x);
  vram__draft_shape(m->d, size, ndim);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_tile(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  uint32_t n;
  const int64_t *const times = vram__onnx_list(m, s, "", 1, &n);
  if (!x)
    return 0;
  if (!times || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "repeats that are not known");
  vram__draft_op(m->d, VRAM_OP_repeat);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "repeats", times, n);
  return vram__onnx_put(m, s->out[0]);
}

/* F.pad names the last axis first, and leaves the first ones out. */
VRAM__FN int vram__onnx_map_pad(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t pad[2 * VRAM_MAX_AXES];
  uint32_t n, axes, i, k = 0;
  const int64_t *const v = vram__onnx_list(m, s, "pads", 1, &n), *const axis = vram__onnx_list(
                                                                     m, s, "axes", 3, &axes);
  if (!x)
    return 0;
  if (!v || m->unknown || n != 2 * (axis ? axes : x->d->ndim))
    return vram__onnx_refuse(m, "pads that are not known");
  vram__memory_zero(pad, sizeof pad);
  for (i = 0; i < n / 2; i++) {
    const int64_t a = vram__onnx_axis(axis ? axis[i] : i, x->d->ndim);
    uint32_t at;
    if (a < 0)
      return vram__onnx_refuse(m, "an axis that is not there");
    at = x->d->ndim - 1 - (uint32_t)a;
    pad[2 * (size_t)at] = v[i];
    pad[2 * (size_t)at + 1] = v[n / 2 + i];
    if ((v[i] || v[n / 2 + i]) && k < at + 1)
      k = at + 1;
  }
  if (!k)
    return vram__onnx_pass(m, s, s->in[0]);
  vram__draft_op(m->d, VRAM_OP_pad);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "pad", pad, 2 * k);
  if (vram__onnx_attr_is(s, "mode", "reflect"))
    vram__draft_word(m->d, "mode", "reflect");
  else if (vram__onnx_attr_is(s, "mode", "edge"))
    vram__draft_word(m->d, "mode", "replicate");
  else if (vram__onnx_attr_is(s, "mode", "wrap"))
    vram__draft_word(m->d, "mode", "circular");
  return vram__onnx_put(m, s->out[0]);
}

/* What a Resize gives: sizes, or scales of them. 0: neither is known. */
static int vram__onnx_resize_sizes(const vram__onnx_step *s, const vram_value *x, int64_t *size) {
  const int old = vram__text_is(s->node->op, s->node->op_len, "Upsample") || s->nin < 3;
  const vram__onnx_cell *const scales = vram__onnx_in(s, old ? 1 : 2), *const sizes =
                                                                           vram__onnx_in(s, 3);
  uint32_t n = 0, i;
  const int64_t *const to = sizes ? vram__onnx_known(sizes, &n) : NULL;
  if (vram__onnx_attr(s, "axes"))
    return 0;
  for (i = 0; i < x->d->ndim; i++) {
    if (to && n == x->d->ndim)
      size[i] = to[i];
    else if (scales && scales->tensor && scales->tensor->reals &&
             scales->tensor->numel == x->d->ndim && scales->tensor->reals[i] > 0 &&
             scales->tensor->reals[i] < 1e6 && x->d->v[i] < INT64_C(1) << 32)
      size[i] = (int64_t)((double)x->d->v[i] * scales->tensor->reals[i]);
    else
      return 0;
  }
  return 1;
}

VRAM__FN int vram__onnx_map_resize(vram__onnx_job *m, vram__onnx_step *s) {
  static const char *const mode[] = {"linear", "bilinear", "trilinear"};
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t size[VRAM_MAX_AXES];
  if (!x)
    return 0;
  if (x->d->ndim < 3 || x->d->ndim > 5 || !vram__onnx_resize_sizes(s, x, size) ||
      size[0] != x->d->v[0] || size[1] != x->d->v[1])
    return vram__onnx_refuse(m, "sizes that are not known, or of samples and channels");
  vram__draft_op(m->d, VRAM_OP_interpolate);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "size", size + 2, x->d->ndim - 2u);
  if (vram__onnx_attr_is(s, "mode", "linear"))
    vram__draft_word(m->d, "mode", mode[x->d->ndim - 3]);
  else if (vram__onnx_attr_is(s, "mode", "cubic"))
    vram__draft_word(m->d, "mode", "bicubic");
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_range(vram__onnx_job *m, vram__onnx_step *s) {
  int64_t at[3], count, step;
  uint32_t i, n;
  for (i = 0; i < 3; i++) {
    const vram__onnx_cell *const c = vram__onnx_in(s, i);
    const int64_t *const v = c ? vram__onnx_known(c, &n) : NULL;
    if (!v || n != 1 || *v < -(INT64_C(1) << 40) || *v > INT64_C(1) << 40)
      return vram__onnx_refuse(m, "bounds that are not known");
    at[i] = *v;
  }
  step = at[2] < 0 ? -at[2] : at[2];
  if (!step)
    return vram__onnx_refuse(m, "a step of 0");
  count = vram__div_up(at[2] < 0 ? at[0] - at[1] : at[1] - at[0], step);
  count = count < 0 ? 0 : count;
  vram__draft_op(m->d, VRAM_OP_arange);
  vram__draft_shape(m->d, &count, 1);
  vram__draft_word(m->d, "dtype", vram_dtype_name(vram__onnx_dtype(s->in[0])));
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_constant_of_shape(vram__onnx_job *m, vram__onnx_step *s) {
  const vram_file_attribute *const a = vram__onnx_attr(s, "value");
  uint32_t n;
  const int64_t *const size = vram__onnx_list(m, s, "", 0, &n);
  const vram_dtype dtype = a && a->tensor ? a->tensor->dtype : VRAM_F32;
  if (!size || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "a shape that is not known");
  vram__draft_op(m->d, VRAM_OP_full);
  vram__draft_shape(m->d, size, n);
  if (dtype != m->dtype)
    vram__draft_word(m->d, "dtype", vram_dtype_name(dtype));
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_shuffle(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, s->row->op == VRAM_OP_pixel_shuffle ? "upscale_factor" : "downscale_factor",
                  vram__onnx_attr_int(s, "blocksize", 0));
  return vram__onnx_put(m, s->out[0]);
}
