/* >>ops/adapter    low-rank adapters of a linear layer, as peft has them (tuners/lora) */
#include "ops/ops.h"

/* An adapter's dtype, in a run of the model in whatever dtype: where nothing is said peft keeps it
   in fp32 (autocast_adapter_dtype). */
static vram_dtype vram__adapter_dtype(const vram_graph *g, const vram_node *n) {
  return vram__graph_own_dtype(g, (vram_dtype)VRAM__INT(n, lora_dtype, VRAM_F32));
}

/* The adapter's parameters in the order of its module. */
VRAM__FN int vram__adapter_own(vram_graph *g, vram_node *n, int64_t out, int64_t in) {
  const uint8_t kind = VRAM__AS_IS; /* VRAM__PARAM */
  const int64_t rank = VRAM__INT(n, lora, 0), p = VRAM__INT(n, lora_dropout, 0);
  const vram_dtype dt = vram__adapter_dtype(g, n);
  int64_t size[2];
  if (rank < 1)
    return vram__node_error(g, n, "lora, the rank of the adapter, must be at least 1");
  if (p < 0 || p > VRAM__ONE)
    return vram__node_error(g, n, "lora_dropout must be 0 to 1");
  if (!vram__dtype_is_float(dt))
    return vram__node_error(g, n, "lora_dtype must be floating point");
  g->extra += 16384; /* its records, and once more where they run again */
  size[0] = rank;
  size[1] = in;
  if (!vram__node_own(g, n, VRAM__LINEAR_LORA_A, "lora_A.weight", 2, size, dt, kind))
    return 0;
  size[0] = out;
  size[1] = rank;
  if (!vram__node_own(g, n, VRAM__LINEAR_LORA_B, "lora_B.weight", 2, size, dt, kind))
    return 0;
  if (VRAM__INT(n, lora_bias, 0) &&
      !vram__node_own(g, n, VRAM__LINEAR_LORA_BIAS, "lora_B.bias", 1, size, dt, kind))
    return 0;
  return !VRAM__INT(n, dora, 0) ||
         vram__node_own(g, n, VRAM__LINEAR_MAGNITUDE, "lora_magnitude_vector", 1, size, dt, kind);
}

#ifndef VRAM_NO_STEP

/* An adapter in a call of its layer. */
typedef struct vram__adapter {
  vram__tensor a, b, bias, magnitude; /* bias, magnitude: d NULL: none */
  const vram_node *node;
  int bits;     /* of the values of a base that is quantised, 0: it is not */
  int converts; /* what goes in and comes out is converted */
} vram__adapter;

static vram__tensor vram__adapter_param(const vram__step *s, const vram_node *n, uint32_t slot) {
  return n->param[slot] ? s->param[n->param[slot]->index] : vram__tensor_none();
}

static vram__tensor vram__times_number(vram__step *s, vram__tensor x) {
  return vram__op_call_unary(s, VRAM_OP_mul, x);
}

/* a op b, both of which go */
static vram__tensor vram__take_binary(vram__step *s, uint32_t op, vram__tensor a, vram__tensor b) {
  const vram__tensor y = vram__op_call_binary(s, op, a, b);
  vram__tensor_release(s, a);
  vram__tensor_release(s, b);
  return y;
}

/* lora_B(lora_A(x)), and x goes behind the first */
static vram__tensor vram__adapter_product(vram__step *s, const vram__adapter *l, vram__tensor x) {
  const vram__tensor low = vram__torch_linear(s, x, l->a, vram__tensor_none());
  vram__tensor y;
  vram__tensor_release(s, x);
  y = vram__torch_linear(s, low, l->b, l->bias);
  vram__tensor_release(s, low);
  return y;
}

static vram__tensor vram__adapter_dropout(vram__step *s, const vram__adapter *l, vram__tensor x) {
  const int64_t p = VRAM__INT(l->node, lora_dropout, 0);
  return p ? vram__op_call_key(s, VRAM_OP_dropout, x, VRAM__KEY_p, p) : vram__tensor_retain(s, x);
}

/* dequantize_module_weight, in x's dtype */
static vram__tensor vram__adapter_base_weight(vram__step *s, const vram__adapter *l,
                                              vram_dtype dt) {
  vram__tensor w = vram__adapter_param(s, l->node, VRAM__LINEAR_WEIGHT), cast;
  if (l->bits)
    w = vram__node_dequantised(s, l->node);
  else if (VRAM__INT(l->node, conv1d, 0))
    w = vram__torch_swap(s, w, 0, 1);
  else
    vram__tensor_retain(s, w);
  cast = vram__torch_cast(s, w, dt);
  vram__tensor_release(s, w);
  return cast;
}

/* DoraLinearLayer.get_weight_norm: of the base and the adapter together, without a history */
static vram__tensor vram__dora_norm(vram__step *s, vram__tensor base, vram__tensor adapter) {
  const uint8_t grad = s->grad;
  vram__tensor scaled, sum, norm;
  s->grad = 0;
  scaled = vram__times_number(s, adapter);
  sum = vram__op_call_binary(s, VRAM_OP_add, base, scaled);
  vram__tensor_release(s, scaled);
  norm = vram__op_call_key(s, VRAM_OP_norm, sum, VRAM__KEY_dim, 1);
  vram__tensor_replace(s, &norm, vram__torch_cast(s, norm, sum.dt));
  vram__tensor_release(s, sum);
  s->grad = grad;
  return norm;
}

/* DoraLinearLayer.get_lora_weight: the adapter as a matrix, by way of the identity */
static vram__tensor vram__dora_matrix(vram__step *s, const vram__adapter *l, vram_dtype dt) {
  const int64_t in = l->a.d->v[1];
  const vram__tensor eye = vram__tensor_empty(s, vram__dims_2d(s, in, in), l->a.dt);
  const vram__tensor y = vram__adapter_product(s, l, vram__tensor_retain(s, eye));
  const vram__tensor turned = vram__torch_swap(s, y, 0, 1);
  const vram__tensor cast = vram__torch_cast(s, turned, dt);
  vram__tensor_release(s, eye);
  vram__tensor_release(s, y);
  vram__tensor_release(s, turned);
  return cast;
}

/* DoraLinearLayer.forward. base: the base layer's result, d NULL: made anew of x, which dropout
   has changed. */
static vram__tensor vram__dora(vram__step *s, const vram__adapter *l, vram__tensor x,
                               vram__tensor base) {
  const vram__tensor bias = vram__adapter_param(s, l->node, VRAM__LINEAR_BIAS);
  const vram__tensor none = vram__tensor_none();
  vram__tensor matrix = vram__dora_matrix(s, l, x.dt), weight, norm, ratio, scale, product, y;
  weight = vram__adapter_base_weight(s, l, x.dt);
  norm = vram__dora_norm(s, weight, matrix);
  ratio = vram__op_call_binary(s, VRAM_OP_div, l->magnitude, norm);
  scale = vram__torch_unsqueeze(s, ratio, 0);
  vram__tensor_release(s, ratio);
  product = vram__adapter_product(s, l, vram__tensor_retain(s, x));
  if (!base.d)
    base = vram__torch_linear(s, x, weight, none);
  else if (bias.d)
    base = vram__op_call_binary(s, VRAM_OP_sub, base, bias);
  else
    vram__tensor_retain(s, base);
  y = vram__op_call_unary(s, VRAM_OP_sub, scale);
  vram__tensor_replace(s, &y, vram__op_call_binary(s, VRAM_OP_mul, y, base));
  ratio = vram__op_call_binary(s, VRAM_OP_mul, scale, product);
  vram__tensor_replace(s, &ratio, vram__times_number(s, ratio));
  y = vram__take_binary(s, VRAM_OP_add, y, ratio);
  vram__tensor_release(s, base);
  vram__tensor_release(s, product);
  vram__tensor_release(s, scale);
  vram__tensor_release(s, norm);
  vram__tensor_release(s, weight);
  vram__tensor_release(s, matrix);
  return y;
}

/* What is added to the result of the base layer. */
static vram__tensor vram__adapter_delta(vram__step *s, const vram__adapter *l, vram__tensor x,
                                        vram__tensor result) {
  const int drops = s->train && VRAM__INT(l->node, lora_dropout, 0);
  const vram__tensor in = vram__adapter_dropout(s, l, x);
  vram__tensor product, y, cast;
  if (l->magnitude.d) {
    y = vram__dora(s, l, in, drops ? vram__tensor_none() : result);
    vram__tensor_release(s, in);
  } else {
    product = vram__adapter_product(s, l, in);
    y = vram__times_number(s, product);
    vram__tensor_release(s, product);
    if (l->bits && l->converts) {
      cast = vram__torch_cast(s, y, result.dt);
      vram__tensor_replace(s, &y, cast);
    }
  }
  return y;
}

/* The adapter of node n around the result of its base layer, which it takes (layer.py, Linear;
   bnb.py, Linear8bitLt and Linear4bit, which clone that result and convert nothing under autocast).
 */
VRAM__FN vram__tensor vram__torch_adapter(vram__step *s, const vram_node *n, vram__tensor x,
                                          vram__tensor result) {
  const vram_dtype dt = result.dt;
  vram__tensor in, delta;
  vram__adapter l;
  l.node = n;
  l.a = vram__adapter_param(s, n, VRAM__LINEAR_LORA_A);
  l.b = vram__adapter_param(s, n, VRAM__LINEAR_LORA_B);
  l.bias = vram__adapter_param(s, n, VRAM__LINEAR_LORA_BIAS);
  l.magnitude = vram__adapter_param(s, n, VRAM__LINEAR_MAGNITUDE);
  l.bits = vram__node_quantised(n).bits;
  l.converts = !l.bits || !s->amp;
  if (l.bits == 4)
    vram__tensor_replace(s, &result, vram__op_call_unary(s, VRAM_OP_clone, result));
  in = l.converts ? vram__torch_cast(s, x, l.a.dt) : vram__tensor_retain(s, x);
  delta = vram__adapter_delta(s, &l, in, result);
  result = vram__take_binary(s, VRAM_OP_add, result, delta);
  if (l.converts)
    vram__tensor_replace(s, &result, vram__torch_cast(s, result, dt));
  vram__tensor_release(s, in);
  return result;
}

#endif /* VRAM_NO_STEP */
