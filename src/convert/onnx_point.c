/* >>convert/onnx_point    ONNX operators that go over elements: activations, arithmetic, reductions
 */
#include "convert/convert.h"

VRAM__FN int vram__onnx_map_unary(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_gelu(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, VRAM_OP_gelu);
  vram__draft_in(m->d, x);
  if (vram__onnx_attr_is(s, "approximate", "tanh"))
    vram__draft_word(m->d, "approximate", "tanh");
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_dropout(vram__onnx_job *m, vram__onnx_step *s) {
  if (s->nout > 1 && s->out[1] && s->out[1]->uses)
    return vram__onnx_refuse(m, "a mask that is used");
  return vram__onnx_map_unary(m, s);
}

/* The bounds where they are known. */
static void vram__onnx_bound(vram__onnx_job *m, const vram__onnx_step *s, const char *key,
                             uint32_t i) {
  const vram_file_attribute *const a = vram__onnx_attr(s, key);
  const vram__onnx_cell *const c = vram__onnx_in(s, i);
  if (a && a->kind == VRAM_ATTRIBUTE_FLOAT)
    vram__draft_real(m->d, key, (double)a->f);
  else if (c && c->tensor && c->tensor->reals)
    vram__draft_real(m->d, key, c->tensor->reals[0]);
}

VRAM__FN int vram__onnx_map_clip(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, VRAM_OP_clamp);
  vram__draft_in(m->d, x);
  vram__onnx_bound(m, s, "min", 1);
  vram__onnx_bound(m, s, "max", 2);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_prelu(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const w = vram__onnx_in(s, 1);
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x || !w)
    return 0;
  if (!vram__onnx_is_owned(w))
    return vram__onnx_refuse(m, "a slope that other nodes use, too");
  vram__draft_op(m->d, VRAM_OP_prelu);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "num_parameters", (int64_t)w->tensor->numel);
  return vram__onnx_put(m, s->out[0]);
}

/* ---- two tensors, or one and a number ---- */

/* Of two constants of one element the second is the number. A number in front of a power or of a
   comparison is another op in PyTorch, which takes as much. */
VRAM__FN int vram__onnx_map_binary(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const a = vram__onnx_in(s, 0), *const b = vram__onnx_in(s, 1);
  const int logical = s->row->op == VRAM_OP_logical_and || s->row->op == VRAM_OP_logical_or;
  const int number = !a || !b || logical       ? -1
                     : vram__onnx_is_single(b) ? 1
                     : vram__onnx_is_single(a) ? 0
                                               : -1;
  vram_value *x, *y = NULL;
  x = vram__onnx_take_in(m, s, number == 0);
  if (x && number < 0)
    y = vram__onnx_take_in(m, s, 1);
  if (!x || (number < 0 && !y))
    return 0;
  if (number == 0 && s->row->op == VRAM_OP_pow) {
    vram__draft_op(m->d, VRAM_OP_rpow);
    vram__draft_in(m->d, x);
    return vram__onnx_put(m, s->out[0]);
  }
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  if (y)
    vram__draft_in(m->d, y);
  else
    vram__draft_int(m->d, "scalar", 1);
  return vram__onnx_put(m, s->out[0]);
}

/* Of any number of inputs: two at a time. */
VRAM__FN int vram__onnx_map_variadic(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *sum = vram__onnx_take_in(m, s, 0), *x;
  uint32_t i;
  if (sum && s->nin == 1)
    return vram__onnx_pass(m, s, s->in[0]);
  for (i = 1; sum && i < s->nin; i++) {
    x = vram__onnx_take_in(m, s, i);
    if (!x)
      return 0;
    vram__draft_op(m->d, s->row->op);
    vram__draft_in(m->d, sum);
    vram__draft_in(m->d, x);
    if (i + 1 == s->nin)
      return vram__onnx_put(m, s->out[0]);
    sum = vram__onnx_between(m, s->out[0], "part");
  }
  return 0;
}

VRAM__FN int vram__onnx_map_where(vram__onnx_job *m, vram__onnx_step *s) {
  const vram__onnx_cell *const a = vram__onnx_in(s, 1), *const b = vram__onnx_in(s, 2);
  vram_value *in[3];
  uint32_t i, left = 0;
  if (!a || !b)
    return vram__onnx_refuse(m, "not three inputs");
  if (vram__onnx_is_single(b))
    left = 2;
  else if (vram__onnx_is_single(a))
    left = 1;
  for (i = 0; i < 3; i++) {
    in[i] = left && i == left ? NULL : vram__onnx_take_in(m, s, i);
    if (!in[i] && i != left)
      return 0;
  }
  if (!in[0])
    return 0;
  vram__draft_op(m->d, VRAM_OP_where);
  for (i = 0; i < 3; i++)
    if (in[i])
      vram__draft_in(m->d, in[i]);
  if (left)
    vram__draft_int(m->d, "scalar", 1);
  return vram__onnx_put(m, s->out[0]);
}

/* PyTorch's isnan(x) is x != x. */
VRAM__FN int vram__onnx_map_is_nan(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, VRAM_OP_ne);
  vram__draft_in(m->d, x);
  vram__draft_in(m->d, x);
  return vram__onnx_put(m, s->out[0]);
}

/* ---- dtypes ---- */

static int vram__onnx_to(vram__onnx_job *m, vram__onnx_step *s, vram_dtype to) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  if (to <= VRAM_DTYPE_NONE || to >= VRAM_DTYPE_COUNT)
    return vram__onnx_refuse(m, "a type without a size");
  vram__draft_op(m->d, VRAM_OP_to);
  vram__draft_in(m->d, x);
  vram__draft_word(m->d, "dtype", vram_dtype_name(to));
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_cast(vram__onnx_job *m, vram__onnx_step *s) {
  const vram__onnx_cell *const like = vram__onnx_in(s, 1);
  if (s->row->op == VRAM_OP_type_as)
    return vram__onnx_to(m, s, like ? vram__onnx_dtype(like) : VRAM_DTYPE_NONE);
  return vram__onnx_to(m, s, vram_dtype_from_onnx_id(vram__onnx_attr_int(s, "to", 0)));
}

/* To the zero point's type, from it to that of the scale. */
VRAM__FN int vram__onnx_map_quantize(vram__onnx_job *m, vram__onnx_step *s) {
  const int back = vram__text_is(s->node->op, s->node->op_len, "DequantizeLinear");
  const vram__onnx_cell *const scale = vram__onnx_in(s, 1), *const zero = vram__onnx_in(s, 2);
  const int64_t asked = vram__onnx_attr_int(s, "output_dtype", 0);
  if (back)
    return vram__onnx_to(m, s, scale ? vram__onnx_dtype(scale) : VRAM_DTYPE_NONE);
  if (asked)
    return vram__onnx_to(m, s, vram_dtype_from_onnx_id(asked));
  return vram__onnx_to(m, s, zero ? vram__onnx_dtype(zero) : VRAM_U8);
}

/* ---- reductions ---- */

VRAM__FN int vram__onnx_map_reduce(vram__onnx_job *m, vram__onnx_step *s) {
  uint32_t n, i;
  const int64_t *const axes = vram__onnx_list(m, s, "axes", 1, &n);
  const int keeps = vram__onnx_attr_int(s, "keepdims", 1) != 0;
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  int64_t dim[VRAM_MAX_AXES];
  if (!x)
    return 0;
  if (m->unknown || n > VRAM_MAX_AXES)
    return vram__onnx_refuse(m, "axes that are not known");
  if (!n && vram__onnx_attr_int(s, "noop_with_empty_axes", 0))
    return vram__onnx_pass(m, s, s->in[0]);
  for (i = 0; i < n; i++)
    dim[i] = vram__onnx_axis(axes[i], x->d->ndim);
  if (!n)
    for (; n < x->d->ndim; n++)
      dim[n] = n;
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  if (n)
    vram__draft_ints(m->d, "dim", dim, n);
  if (keeps && n)
    vram__draft_int(m->d, "keepdim", 1);
  if (vram__text_is(s->node->op, s->node->op_len, "ReduceL1"))
    vram__draft_int(m->d, "p", 1);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_arg(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "dim", vram__onnx_attr_int(s, "axis", 0));
  if (vram__onnx_attr_int(s, "keepdims", 1))
    vram__draft_int(m->d, "keepdim", 1);
  return vram__onnx_put(m, s->out[0]);
}

/* Older opsets go over all axes from the one on; the result is as large. */
VRAM__FN int vram__onnx_map_softmax(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  vram__draft_int(
      m->d, "dim",
      vram__onnx_axis(vram__onnx_attr_int(s, "axis", m->opset < 13 ? 1 : -1), x->d->ndim));
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_cumsum(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  uint32_t n;
  const int64_t *const axis = vram__onnx_list(m, s, "", 1, &n);
  if (!x || !axis || n != 1)
    return vram__onnx_refuse(m, "an axis that is not known");
  vram__draft_op(m->d, VRAM_OP_cumsum);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "dim", *axis);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_topk(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  const char *const begin = "topk";
  char names[2 * VRAM_MAX_NAME + 2];
  uint32_t n, i, len = 0;
  const int64_t *const k = vram__onnx_list(m, s, "", 1, &n);
  const int64_t count = k && n == 1 ? *k : vram__onnx_attr_int(s, "k", -1);
  vram_node *node;
  if (!x)
    return 0;
  if (count < 0)
    return vram__onnx_refuse(m, "a count that is not known");
  for (i = 0; i < 2; i++) {
    vram__onnx_cell *const out = i < s->nout ? s->out[i] : NULL;
    const char *const label =
        out ? vram__draft_label(m->d, out->name, out->len) : vram__draft_label(m->d, begin, 4);
    if (!label)
      return 0;
    vram__text_puts(names, sizeof names, &len, i ? "," : "");
    vram__text_puts(names, sizeof names, &len, label);
  }
  vram__draft_op(m->d, VRAM_OP_topk);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "k", count);
  vram__draft_int(m->d, "dim", vram__onnx_attr_int(s, "axis", -1));
  node = vram__draft_node(m->d, names, NULL);
  for (i = 0; node && i < 2 && i < s->nout; i++)
    if (s->out[i])
      s->out[i]->value = vram_node_output(node, i);
  return node != NULL;
}

VRAM__FN int vram__onnx_map_trilu(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, vram__onnx_attr_int(s, "upper", 1) ? VRAM_OP_triu : VRAM_OP_tril);
  vram__draft_in(m->d, x);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_einsum(vram__onnx_job *m, vram__onnx_step *s) {
  const vram_file_attribute *const a = vram__onnx_attr(s, "equation");
  vram_value *in[8];
  char text[64];
  uint32_t i, n = 0;
  for (i = 0; i < s->nin && i < 8; i++)
    if (!(in[i] = vram__onnx_take_in(m, s, i)))
      return 0;
  if (!a || a->kind != VRAM_ATTRIBUTE_TEXT || s->nin > 8 || a->count > 60)
    return vram__onnx_refuse(m, "no equation, or a long one");
  for (i = 0; i < a->count; i++)
    if (a->text[i] != ' ')
      vram__text_put(text, sizeof text, &n, a->text + i, 1);
  text[n] = 0;
  vram__draft_op(m->d, VRAM_OP_einsum);
  for (i = 0; i < s->nin; i++)
    vram__draft_in(m->d, in[i]);
  vram__draft_word(m->d, "equation", text);
  return vram__onnx_put(m, s->out[0]);
}
