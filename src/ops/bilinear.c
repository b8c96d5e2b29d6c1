/* >>ops/bilinear    the bilinear layer */
#include "ops/ops.h"

static int vram__shape_bilinear(vram_graph *g, vram_node *n) {
  const vram_dims *left = n->in[0]->d, *right = n->in[1]->d;
  const uint32_t last = left->ndim - 1u;
  int64_t size[VRAM_MAX_AXES], weight[3];
  uint32_t i;
  if (!left->ndim || right->ndim != left->ndim)
    return vram__node_error(g, n, "inputs of different numbers of axes");
  for (i = 0; i < last; i++) {
    size[i] = left->v[i];
    if (size[i] != right->v[i])
      return vram__node_error(g, n, "inputs that differ before their last axis");
  }
  weight[0] = VRAM__INT(n, out_features, 0);
  weight[1] = left->v[last];
  weight[2] = right->v[last];
  if (weight[0] < 1)
    return vram__node_error(g, n, "out_features must be at least 1");
  if (!weight[1] || !weight[2])
    return vram__node_error(g, n, "inputs without features");
  if (!vram__node_params(g, n, 2) ||
      !vram__node_own(g, n, 0, "weight", 3, weight, VRAM_DTYPE_MODEL, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) &&
      !vram__node_own(g, n, 1, "bias", 1, weight, VRAM_DTYPE_MODEL, VRAM__PARAM))
    return 0;
  size[last] = weight[0];
  return vram__node_out(g, n, 0, last + 1, size, n->in[0]->dtype);
}

static uint64_t vram__flops_bilinear(const vram_node *n) {
  const vram_dims *w = n->param[0]->d;
  return vram__product_or_overflow(vram__product_or_overflow(2, n->out[0].d->numel),
                                   w->numel / (uint64_t)(w->v[0] ? w->v[0] : 1));
}

#ifndef VRAM_NO_STEP

/* The positions of bilinear's tensors, and which of them each tensor lacks. */
enum { VRAM__BI_BATCH, VRAM__BI_OUTPUT, VRAM__BI_IN1, VRAM__BI_IN2, VRAM__BI_AXES };
enum {
  VRAM__BI_NOT_IN1 = 1 << VRAM__BI_OUTPUT | 1 << VRAM__BI_IN2,
  VRAM__BI_NOT_WEIGHT = 1 << VRAM__BI_BATCH,
  VRAM__BI_NOT_IN2 = 1 << VRAM__BI_OUTPUT | 1 << VRAM__BI_IN1,
  VRAM__BI_NOT_RESULT = 1 << VRAM__BI_IN1 | 1 << VRAM__BI_IN2
};

/* One round's part of a tensor: an axis for each position that it has, but for the output's, of
   which a round takes one index. full: the sizes of all positions. */
static vram__operand vram__trilinear_operand(vram__step *s, vram__tensor x, uint32_t without,
                                             int64_t *full) {
  const vram_dims *d = x.d;
  const int64_t *from = VRAM__STRIDE(d);
  int64_t size[VRAM__BI_AXES], stride[VRAM__BI_AXES];
  uint32_t at, axis = 0, ndim = 0;
  vram__operand o;
  for (at = 0; at < VRAM__BI_AXES; at++) {
    if (without >> at & 1) { /* unsqueeze */
      o.one[at] = axis < d->ndim ? d->v[axis] * from[axis] : 1;
      continue;
    }
    o.one[at] = from[axis];
    if (d->v[axis] != 1)
      full[at] = d->v[axis];
    if (d->v[axis] != 1 && at != VRAM__BI_OUTPUT) {
      size[ndim] = d->v[axis];
      stride[ndim] = from[axis];
      o.at[ndim++] = (uint8_t)at;
    }
    axis++;
  }
  o.t = x;
  o.t.d = vram__dims_in(s, ndim, size, stride);
  return o;
}

/* Sizes of tensors that are gone leave the step's memory, too. */
static void vram__dims_forget(vram__step *s, uint64_t used) {
  uint32_t i;
  for (i = 0; i < sizeof s->dims_cache / sizeof *s->dims_cache; i++) {
    const uint8_t *d = (const uint8_t *)s->dims_cache[i];
    if (d >= s->mem + used && d < s->mem + s->cap)
      s->dims_cache[i] = NULL;
  }
  s->used = used;
}

/* Linear.cpp, _trilinear: three tensors, multiplied and summed over the positions `sum`, one index
   of the output after the other. without: which positions each tensor lacks */
static vram__tensor vram__trilinear(vram__step *s, const vram__tensor *in, const uint32_t *without,
                                    uint32_t sum) {
  const uint64_t inner = sum & ~(1u << VRAM__BI_OUTPUT);
  vram__operand o[3], product;
  int64_t full[VRAM__BI_AXES], size[VRAM__BI_AXES], rounds;
  uint32_t i, ndim = 0;
  uint64_t used;
  vram__tensor y;
  for (i = 0; i < VRAM__BI_AXES; i++)
    full[i] = 1;
  for (i = 0; i < 3; i++)
    o[i] = vram__trilinear_operand(s, in[i], without[i], full);
  for (i = 0; i < VRAM__BI_AXES; i++)
    if (!(sum >> i & 1))
      size[ndim++] = full[i];
  y = vram__tensor_empty(s, vram__dims_in(s, ndim, size, NULL), in[0].dt);
  if (!in[0].d->numel || !in[1].d->numel || !in[2].d->numel) /* zeros */
    return y;
  used = s->used;
  for (rounds = full[VRAM__BI_OUTPUT]; rounds && !s->failed; rounds--) {
    for (i = 0; i < 3; i++)
      vram__tensor_retain(s, o[i].t);
    product = vram__einsum_pair(s, o[0], o[1], inner & without[2], VRAM__BI_AXES, VRAM__BI_AXES);
    product = vram__einsum_pair(s, product, o[2], inner & ~(uint64_t)without[2], VRAM__BI_AXES,
                                VRAM__BI_AXES);
    vram__tensor_release(s, product.t);
    vram__dims_forget(s, used);
  }
  return y;
}

/* Linear.cpp, bilinear: input1 and input2 as matrices */
static vram__tensor vram__bilinear_rows(vram__step *s, vram__tensor x) {
  const int64_t width = x.d->v[x.d->ndim - 1u];
  int64_t size[2];
  size[0] = width ? (int64_t)x.d->numel / width : 0;
  size[1] = width;
  return vram__torch_reshape(s, x, 2, size);
}

/* Each of the three is saved if one of the others wants a gradient; aux says where it is. */
static void vram__bilinear_save(vram__step *s, vram__grad_fn *f, const vram__tensor *in) {
  uint32_t i;
  for (i = 0; f && i < 3; i++)
    if (vram__input_wanted(f, (i + 1) % 3) || vram__input_wanted(f, (i + 2) % 3)) {
      f->aux |= (uint64_t)(f->nsaved + 1) << (4 * i);
      vram__save_tensor(s, f, in[i]);
    }
}

static void vram__bilinear_add_bias(vram__step *s, vram__tensor *y, vram__tensor bias) {
  vram__tensor in[2];
  vram__grad_fn *f;
  in[0] = *y;
  in[1] = bias;
  f = vram__tape_record(s, VRAM_OP_add, in, 2, 1, 0);
  *y = vram__pointwise_empty2(s, in[0], in[1]);
  vram__grad_fn_set_output(s, f, 0, y);
  vram__tensor_release(s, in[0]);
}

static void vram__forward_bilinear(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  static const uint32_t without[3] = {VRAM__BI_NOT_IN1, VRAM__BI_NOT_WEIGHT, VRAM__BI_NOT_IN2};
  const uint32_t count = n->param[1] ? 4 : 3;
  const vram_dtype amp = s->amp;
  const uint8_t grad = s->grad;
  vram__tensor args[4], in[3]; /* input1, input2, weight, bias; input1, weight, input2 */
  vram__grad_fn *f;
  uint32_t i, own;
  args[0] = x[0];
  args[1] = x[1];
  for (i = 2; i < count; i++)
    args[i] = s->param[n->param[i - 2]->index];
  own = vram__autocast_list(s, VRAM__AUTOCAST_widest, args, count);
  s->amp = VRAM_DTYPE_NONE; /* nothing is cast inside */
  in[0] = vram__bilinear_rows(s, args[0]);
  in[1] = args[2];
  in[2] = vram__bilinear_rows(s, args[1]);
  f = vram__tape_record(s, n->op, in, 3, 1, 3);
  vram__bilinear_save(s, f, in);
  s->grad = 0; /* nothing is recorded inside */
  y[0] = vram__trilinear(s, in, without, VRAM__BI_NOT_RESULT);
  s->grad = grad;
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_replace(s, &y[0], vram__torch_reshape(s, y[0], x[0].d->ndim, n->out[0].d->v));
  vram__tensor_release(s, in[0]);
  vram__tensor_release(s, in[2]);
  if (n->param[1])
    vram__bilinear_add_bias(s, &y[0], args[3]);
  s->amp = amp;
  vram__autocast_release(s, args, own);
}

/* derivatives.yaml, _trilinear: each gradient is one of the other two and of the one that arrives,
   which stands where its tensor stood. */
static void vram__backward_bilinear(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  static const uint32_t without[3] = {VRAM__BI_NOT_IN1, VRAM__BI_NOT_WEIGHT, VRAM__BI_NOT_IN2};
  uint32_t i, k, lacks[3];
  vram__tensor in[3];
  for (i = 0; i < 3; i++) {
    if (!vram__input_wanted(f, i))
      continue;
    for (k = 0; k < 3; k++) {
      lacks[k] = k == i ? (uint32_t)VRAM__BI_NOT_RESULT : without[k];
      in[k] = k == i ? VRAM__SLOTS(f)[0].g : VRAM__SAVED(f)[((f->aux >> (4 * k)) & 15) - 1];
    }
    to[i] = vram__trilinear(s, in, lacks, without[i]);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(bilinear, "", 2, 2, bilinear, SAME, none, bilinear, bilinear, bilinear, NONE, 0,
         VRAM__OP_FLOATS, "out_features! bias frozen weights dtype");
