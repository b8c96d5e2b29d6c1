/* >>convert/tflite_point    TFLite operators that go over elements or move them */
#include "convert/convert.h"

VRAM__FN int vram__tflite_map_unary(vram__onnx_job *m, vram__onnx_step *s) {
  int is_first;
  vram_value *const x = vram__tflite_any(m, vram__onnx_in(s, 0), &is_first);
  if (!x)
    return vram__onnx_refuse(m, "an input that nothing gives");
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  return vram__tflite_put(m, s, is_first);
}

/* A constant of one element is the number; else both in the same order. */
VRAM__FN int vram__tflite_map_binary(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const in[2] = {vram__onnx_in(s, 0), vram__onnx_in(s, 1)};
  /* ops that take no number in the text form */
  const int tensors = s->row->op == VRAM_OP_logical_and || s->row->op == VRAM_OP_logical_or ||
                      s->row->op == VRAM_OP_maximum || s->row->op == VRAM_OP_minimum;
  vram_value *v[2] = {NULL, NULL};
  int number, is_first;
  uint32_t i;
  if (!in[0] || !in[1])
    return vram__onnx_refuse(m, "not two inputs");
  number = tensors                                                             ? -1
           : vram__onnx_is_single(in[1])                                       ? 1
           : vram__onnx_is_single(in[0]) && s->row->op != VRAM_OP_floor_divide ? 0
                                                                               : -1;
  is_first = vram__tflite_is_first(in[0]) || vram__tflite_is_first(in[1]);
  for (i = 0; i < 2; i++) /* of fewer axes, and no constant: both as in the file */
    if (is_first && (int)i != number && !in[i]->tensor && !vram__tflite_is_first(in[i]) &&
        (!vram__onnx_value_of(m, in[i]) || in[i]->value->d->ndim != 4))
      is_first = 0;
  for (i = 0; i < 2; i++)
    if ((int)i != number) {
      v[i] = is_first ? vram__tflite_first(m, in[i]) : vram__onnx_value_of(m, in[i]);
      if (!v[i])
        return vram__onnx_refuse(m, "an input that nothing gives");
    }
  vram__draft_op(m->d, s->row->op);
  for (i = 0; i < 2; i++)
    if (v[i])
      vram__draft_in(m->d, v[i]);
  if (number >= 0)
    vram__draft_int(m->d, "scalar", 1);
  return vram__tflite_put(m, s, is_first);
}

/* From numbers to what stands for them and back is nothing in this text. */
VRAM__FN int vram__tflite_map_quantize(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const c = vram__onnx_in(s, 0), *const out = s->nout ? s->out[0] : NULL;
  if (!c || !out)
    return vram__onnx_refuse(m, "no input or no output");
  if (!vram__onnx_link(m, out, c))
    return 0;
  if (c->tensor)
    out->tensor = c->tensor;
  else if (vram__tflite_is_first(c))
    out->first = vram__tflite_first(m, c);
  else
    out->value = vram__onnx_value_of(m, c);
  if (out->tensor || out->first || out->value)
    return 1;
  out->same = NULL;
  return 0;
}

VRAM__FN int vram__tflite_map_cast(vram__onnx_job *m, vram__onnx_step *s) {
  int is_first;
  vram_value *const x = vram__tflite_any(m, vram__onnx_in(s, 0), &is_first);
  const vram_file_operand *const o = s->nout && s->out[0] ? s->out[0]->said : NULL;
  if (!x || !o || !o->dtype)
    return vram__onnx_refuse(m, "a type without a size");
  vram__draft_op(m->d, VRAM_OP_to);
  vram__draft_in(m->d, x);
  vram__draft_word(m->d, "dtype", vram_dtype_name(vram__onnx_text_dtype(m, o->dtype, o->scales)));
  return vram__tflite_put(m, s, is_first);
}

VRAM__FN int vram__tflite_map_softmax(vram__onnx_job *m, vram__onnx_step *s) {
  int is_first;
  vram_value *const x = vram__tflite_any(m, vram__onnx_in(s, 0), &is_first);
  if (!x || !x->d->ndim)
    return vram__onnx_refuse(m, "an input that nothing gives");
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "dim", is_first ? 1 : (int64_t)x->d->ndim - 1);
  return vram__tflite_put(m, s, is_first);
}

/* ---- axes ---- */

/* Over height and width, over channels, or with all axes kept the order does not matter. */
VRAM__FN int vram__tflite_map_reduce(vram__onnx_job *m, vram__onnx_step *s) {
  const int keeps = vram__onnx_attr_int(s, "keep_dims", 0) != 0;
  vram__onnx_cell *const c = vram__onnx_in(s, 0);
  uint32_t n, i, set = 0, count = 0;
  const int64_t *const axes = vram__onnx_list(m, s, "", 1, &n);
  int is_first = vram__tflite_is_first(c);
  int64_t dim[VRAM_MAX_AXES];
  vram_value *x;
  if (!c || !axes || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "axes that are not known");
  for (i = 0; i < n; i++)
    set |= axes[i] >= -4 && axes[i] < 4 ? 1u << (axes[i] & 3) : 0;
  if (is_first && !keeps && set != 6 && set != 8)
    is_first = 0;
  x = is_first ? vram__tflite_first(m, c) : vram__onnx_value_of(m, c);
  if (!x)
    return vram__onnx_refuse(m, "an input that nothing gives");
  for (i = 0; i < n; i++) {
    dim[count] = vram__tflite_axis(is_first, vram__onnx_axis(axes[i], x->d->ndim));
    if (dim[count++] < 0)
      return vram__onnx_refuse(m, "an axis that is not there");
  }
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  if (count)
    vram__draft_ints(m->d, "dim", dim, count);
  if (keeps && count)
    vram__draft_int(m->d, "keepdim", 1);
  return vram__tflite_put(m, s, is_first && keeps);
}

VRAM__FN int vram__tflite_map_concat(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *x[VRAM__ONNX_KEPT];
  int64_t axis = vram__onnx_attr_int(s, "axis", 0);
  int is_first = 0;
  uint32_t i;
  if (!s->nin || s->nin > VRAM__ONNX_KEPT)
    return vram__onnx_refuse(m, "more than 64 inputs");
  for (i = 0; i < s->nin; i++)
    is_first |= vram__tflite_is_first(s->in[i]);
  for (i = 0; i < s->nin; i++) {
    x[i] = is_first ? vram__tflite_first(m, s->in[i]) : vram__onnx_value_of(m, s->in[i]);
    if (!x[i])
      return vram__onnx_refuse(m, "an input that nothing gives");
  }
  axis = vram__tflite_axis(is_first, vram__onnx_axis(axis, x[0]->d->ndim));
  vram__draft_op(m->d, VRAM_OP_cat);
  for (i = 0; i < s->nin; i++)
    vram__draft_in(m->d, x[i]);
  vram__draft_int(m->d, "dim", axis);
  return vram__tflite_put(m, s, is_first);
}

/* Reshape, squeeze and more axes: to the shape that the file says, of which one size may be open.
 */
VRAM__FN int vram__tflite_map_reshape(vram__onnx_job *m, vram__onnx_step *s) {
  const vram_file_operand *const o = s->nout && s->out[0] ? s->out[0]->said : NULL;
  vram__onnx_cell *const c = vram__onnx_in(s, 0);
  vram_value *x = c && vram__tflite_is_first(c) ? vram__tflite_first(m, c) : NULL;
  int64_t size[VRAM_MAX_AXES];
  uint64_t rest = 1;
  uint32_t i, open = VRAM_MAX_AXES;
  if (x && x->d->v[1] != 1 && (x->d->v[2] != 1 || x->d->v[3] != 1))
    x = NULL; /* another order */
  x = x ? x : vram__onnx_value_of(m, c);
  if (!x || !o)
    return vram__onnx_refuse(m, "an input that nothing gives");
  for (i = 0; i < o->ndim; i++) {
    size[i] = o->size[i];
    if (size[i] < 0)
      open = i;
    else
      rest = vram__product_or_overflow(rest, (uint64_t)size[i]);
  }
  if (open < o->ndim && rest && rest != VRAM_OVERFLOW)
    size[open] = (int64_t)(x->d->numel / rest);
  vram__draft_op(m->d, VRAM_OP_reshape);
  vram__draft_in(m->d, x);
  vram__draft_shape(m->d, size, o->ndim);
  return vram__tflite_put(m, s, 0);
}

VRAM__FN int vram__tflite_map_transpose(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  uint32_t n;
  const int64_t *const order = vram__onnx_list(m, s, "", 1, &n);
  if (!x || !order)
    return vram__onnx_refuse(m, "an order that is not known");
  vram__draft_op(m->d, VRAM_OP_permute);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "dims", order, n);
  return vram__tflite_put(m, s, 0);
}

/* A table of two numbers for each axis; F.pad names the last axis first. */
VRAM__FN int vram__tflite_map_pad(vram__onnx_job *m, vram__onnx_step *s) {
  int is_first;
  vram_value *const x = vram__tflite_any(m, vram__onnx_in(s, 0), &is_first);
  int64_t pad[2 * VRAM_MAX_AXES];
  uint32_t n, i, k = 0;
  const int64_t *const v = vram__onnx_list(m, s, "", 1, &n);
  if (!x || !v || n != 2u * x->d->ndim)
    return vram__onnx_refuse(m, "pads that are not known");
  vram__memory_zero(pad, sizeof pad);
  for (i = 0; i < x->d->ndim; i++) {
    const uint32_t at = x->d->ndim - 1u - (uint32_t)vram__tflite_axis(is_first, i);
    pad[2 * (size_t)at] = v[2 * (size_t)i];
    pad[2 * (size_t)at + 1] = v[2 * (size_t)i + 1];
    if ((v[2 * (size_t)i] || v[2 * (size_t)i + 1]) && k < at + 1)
      k = at + 1;
  }
  if (!k)
    return vram__tflite_map_quantize(m, s); /* nothing is padded */
  vram__draft_op(m->d, VRAM_OP_pad);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "pad", pad, 2 * k);
  if (vram__text_is(s->node->op, s->node->op_len, "MIRROR_PAD"))
    vram__draft_word(m->d, "mode", "reflect");
  return vram__tflite_put(m, s, is_first);
}

/* ---- slices ---- */

typedef struct vram__tflite_cut { /* of an axis */
  int64_t start, end, step;
  int is_one; /* the axis goes */
} vram__tflite_cut;

/* SLICE: begins and sizes. STRIDED_SLICE: begins, ends, steps, and bits for axes. */
static int vram__tflite_cuts(vram__onnx_job *m, vram__onnx_step *s, const vram_value *x,
                             int is_first, vram__tflite_cut *c) {
  const int strided = vram__text_is(s->node->op, s->node->op_len, "STRIDED_SLICE");
  const int64_t begins = vram__onnx_attr_int(s, "begin_mask", 0),
                ends = vram__onnx_attr_int(s, "end_mask", 0),
                ones = vram__onnx_attr_int(s, "shrink_axis_mask", 0);
  const int64_t *list[3] = {NULL, NULL, NULL};
  uint32_t n[3] = {0, 0, 0}, i;
  for (i = 0; i < (strided ? 3u : 2u); i++) {
    list[i] = vram__onnx_list(m, s, "", i + 1, n + i);
    if (!list[i] || n[i] != n[0] || n[0] > x->d->ndim)
      return vram__onnx_refuse(m, "places that are not known");
  }
  if (vram__onnx_attr_int(s, "ellipsis_mask", 0) || vram__onnx_attr_int(s, "new_axis_mask", 0) ||
      vram__onnx_attr_int(s, "offset", 0))
    return vram__onnx_refuse(m, "axes that the mask adds");
  for (i = 0; i < x->d->ndim; i++) {
    const int64_t size = x->d->v[vram__tflite_axis(is_first, i)];
    c[i].start = i >= n[0] || begins >> i & 1 ? 0 : vram__onnx_place(list[0][i], size);
    c[i].end = size;
    c[i].step = strided && i < n[0] ? list[2][i] : 1;
    c[i].is_one = i < n[0] && ones >> i & 1;
    if (i < n[0] && strided && !(ends >> i & 1))
      c[i].end = vram__onnx_place(list[1][i], size);
    else if (i < n[0] && !strided && list[1][i] >= 0 && list[1][i] <= size - c[i].start)
      c[i].end = c[i].start + list[1][i];
    if (c[i].step < 1)
      return vram__onnx_refuse(m, "a step backwards");
  }
  return 1;
}

/* A line for each axis that is cut, the last axis first, so that the others keep their numbers. */
VRAM__FN int vram__tflite_map_slice(vram__onnx_job *m, vram__onnx_step *s) {
  const int ones = vram__onnx_attr_int(s, "shrink_axis_mask", 0) != 0;
  vram__onnx_cell *const c = vram__onnx_in(s, 0);
  const int is_first = vram__tflite_is_first(c) && !ones;
  vram__tflite_cut cut[VRAM_MAX_AXES];
  vram_value *x = is_first ? vram__tflite_first(m, c) : vram__onnx_value_of(m, c);
  uint32_t i, left = 0;
  if (!x || !vram__tflite_cuts(m, s, x, is_first, cut))
    return vram__onnx_refuse(m, "places that are not known");
  for (i = 0; i < x->d->ndim; i++) {
    const int64_t size = x->d->v[vram__tflite_axis(is_first, i)];
    left += cut[i].is_one || cut[i].start || cut[i].end != size || cut[i].step != 1;
  }
  if (!left)
    return vram__tflite_map_quantize(m, s);
  for (i = x->d->ndim; i--;) {
    const int64_t axis = vram__tflite_axis(is_first, i), size = x->d->v[axis];
    if (!cut[i].is_one && !cut[i].start && cut[i].end == size && cut[i].step == 1)
      continue;
    vram__draft_op(m->d, cut[i].is_one ? VRAM_OP_select : VRAM_OP_slice);
    vram__draft_in(m->d, x);
    vram__draft_int(m->d, "dim", axis);
    if (cut[i].is_one)
      vram__draft_int(m->d, "index", cut[i].start);
    if (!cut[i].is_one && cut[i].start)
      vram__draft_int(m->d, "start", cut[i].start);
    if (!cut[i].is_one && cut[i].end != size)
      vram__draft_int(m->d, "end", cut[i].end);
    if (!cut[i].is_one && cut[i].step != 1)
      vram__draft_int(m->d, "step", cut[i].step);
    if (!--left)
      return vram__tflite_put(m, s, is_first);
    x = vram__onnx_between(m, s->out[0], "part");
    if (!x)
      return 0;
  }
  return 0;
}

/* ---- several outputs or inputs ---- */

/* Outputs of the line that was begun. */
static int vram__tflite_puts(vram__onnx_job *m, vram__onnx_step *s, int is_first) {
  enum { ROOM = 16384 };
  char *const names = (char *)vram__draft_take(m->d, ROOM);
  vram_node *n;
  uint32_t i;
  if (!names || !vram__onnx_split_names(m, s, names, ROOM))
    return 0;
  n = vram__draft_node(m->d, names, NULL);
  for (i = 0; n && i < s->nout; i++)
    if (s->out[i] && is_first)
      s->out[i]->first = vram_node_output(n, i);
    else if (s->out[i])
      s->out[i]->value = vram_node_output(n, i);
  return n != NULL;
}

/* SPLIT: axis, x. SPLIT_V: x, sizes, axis. The file says what each part has. */
VRAM__FN int vram__tflite_map_split(vram__onnx_job *m, vram__onnx_step *s) {
  const int listed = vram__text_is(s->node->op, s->node->op_len, "SPLIT_V");
  int64_t size[VRAM__ONNX_KEPT], axis;
  int is_first;
  uint32_t n, i;
  const int64_t *const at = vram__onnx_list(m, s, "", listed ? 2 : 0, &n);
  vram_value *const x = vram__tflite_any(m, vram__onnx_in(s, listed ? 0 : 1), &is_first);
  if (!x || !at || n != 1 || !s->nout || s->nout > VRAM__ONNX_KEPT)
    return vram__onnx_refuse(m, "an axis that is not known, or more than 64 parts");
  axis = vram__onnx_axis(*at, x->d->ndim);
  for (i = 0; i < s->nout; i++) {
    const vram_file_operand *const o = s->out[i] ? s->out[i]->said : NULL;
    size[i] = axis >= 0 && o && o->ndim == x->d->ndim ? o->size[axis] : -1;
    if (size[i] < 0)
      return vram__onnx_refuse(m, "parts that are not known");
  }
  vram__draft_op(m->d, VRAM_OP_split);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "split_size_or_sections", size, s->nout);
  vram__draft_int(m->d, "dim", vram__tflite_axis(is_first, axis));
  return vram__tflite_puts(m, s, is_first);
}

VRAM__FN int vram__tflite_map_unpack(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, VRAM_OP_unbind);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "dim", vram__onnx_attr_int(s, "axis", 0));
  return vram__tflite_puts(m, s, 0);
}

VRAM__FN int vram__tflite_map_pack(vram__onnx_job *m, vram__onnx_step *s) {
  uint32_t i;
  for (i = 0; i < s->nin; i++)
    if (!vram__onnx_take_in(m, s, i))
      return 0;
  vram__draft_op(m->d, VRAM_OP_stack);
  for (i = 0; i < s->nin; i++)
    vram__draft_in(m->d, s->in[i]->value);
  vram__draft_int(m->d, "dim", vram__onnx_attr_int(s, "axis", 0));
  return vram__tflite_put(m, s, 0);
}

/* ---- tables ---- */

VRAM__FN int vram__tflite_map_gather(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const w = vram__onnx_in(s, 0);
  const int64_t axis = vram__onnx_attr_int(s, "axis", 0);
  vram_value *const at = vram__onnx_take_in(m, s, 1);
  vram_value *x;
  if (!w || !at || vram__onnx_attr_int(s, "batch_dims", 0))
    return vram__onnx_refuse(m, "no input, or one for each sample");
  if (!axis && vram__onnx_is_owned(w) && w->tensor->ndim == 2) {
    vram__draft_op(m->d, VRAM_OP_embedding);
    vram__draft_in(m->d, at);
    vram__draft_int(m->d, "num_embeddings", w->tensor->size[0]);
    vram__draft_int(m->d, "embedding_dim", w->tensor->size[1]);
    return vram__tflite_put(m, s, 0);
  }
  x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, at->d->ndim == 1 ? VRAM_OP_index_select : VRAM_OP_index);
  vram__draft_in(m->d, x);
  vram__draft_in(m->d, at);
  vram__draft_int(m->d, "dim", axis);
  return vram__tflite_put(m, s, 0);
}

VRAM__FN int vram__tflite_map_where(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *in[3];
  uint32_t i;
  for (i = 0; i < 3; i++)
    if (!(in[i] = vram__onnx_take_in(m, s, i)))
      return 0;
  vram__draft_op(m->d, VRAM_OP_where);
  for (i = 0; i < 3; i++)
    vram__draft_in(m->d, in[i]);
  return vram__tflite_put(m, s, 0);
}

VRAM__FN int vram__tflite_map_tile(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  uint32_t n;
  const int64_t *const times = vram__onnx_list(m, s, "", 1, &n);
  if (!x || !times || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "repeats that are not known");
  vram__draft_op(m->d, VRAM_OP_repeat);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "repeats", times, n);
  return vram__tflite_put(m, s, 0);
}
