/* >>ops/quantised    linear layers on quantised weights, as bitsandbytes and transformers have them
 */
#include "ops/ops.h"

enum { VRAM__FP8_BLOCK = 128 }; /* rows and columns that share a scale (weight_block_size) */

/* The words of quant=; bits 0: fp8. */
static const struct {
  uint8_t word, bits;
} vram__quant_kinds[] = {
    {VRAM__IS_nf4, 4}, {VRAM__IS_fp4, 4}, {VRAM__IS_int8, 8}, {VRAM__IS_fp8, 0}};

/* What the keys of a linear line say of its weight; neither bits nor fp8: it is not quantised. */
VRAM__FN vram__quantised vram__node_quantised(const vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t *word = vram__node_list(n, VRAM__KEY_quant, NULL);
  vram__quantised q;
  uint32_t i;
  vram__memory_zero(&q, sizeof q);
  for (i = 0; word && i < sizeof vram__quant_kinds / sizeof *vram__quant_kinds; i++)
    if (*word == vram__quant_kinds[i].word) {
      q.bits = vram__quant_kinds[i].bits;
      q.fp8 = !q.bits;
    }
  q.out = VRAM__INT(n, out_features, 0);
  q.in = x->v[x->ndim - 1];
  q.nested = q.bits == 4 && VRAM__INT(n, double_quant, 1);
  q.from = (vram_dtype)VRAM__INT(n, dtype, VRAM_DTYPE_MODEL);
  q.compute = (vram_dtype)VRAM__INT(n, compute_dtype, VRAM_DTYPE_NONE);
  q.threshold = VRAM__INT(n, threshold, 0) != 0;
  return q;
}

/* Scales of a 4-bit weight (quantize_4bit, blocksize 64), and scales of those (256). */
static int64_t vram__quantised_scales(const vram__quantised *q) {
  return (q->out * q->in + 63) / 64;
}

static int vram__quantised_float(const vram_graph *g, vram_dtype dt) {
  dt = vram__graph_own_dtype(g, dt);
  return dt == VRAM_F32 || dt == VRAM_F16 || dt == VRAM_BF16;
}

static int vram__quantised_fits(vram_graph *g, const vram_node *n, const vram__quantised *q) {
  if (!vram__quantised_known(g, *vram__node_list(n, VRAM__KEY_quant, NULL)))
    return 0;
  if (!vram__quantised_float(g, q->from) || (q->compute && !vram__quantised_float(g, q->compute)))
    return vram__node_error(g, n,
                            "a quantised weight was f32, f16 or bf16, and so is what computes");
  if (q->bits != 4 && (vram__node_list(n, VRAM__KEY_compute_dtype, NULL) ||
                       vram__node_list(n, VRAM__KEY_double_quant, NULL)))
    return vram__node_error(g, n, "int8 and fp8 have no compute_dtype and no double_quant");
  if (q->bits != 8 && vram__node_list(n, VRAM__KEY_threshold, NULL))
    return vram__node_error(g, n, "threshold is int8's");
  if (q->fp8 && VRAM__INT(n, dora, 0))
    return vram__node_error(g, n, "dora asks for a weight that peft cannot dequantise");
  if (q->bits == 8 && (n->in[0]->d->ndim < 2 || n->in[0]->d->ndim > 3))
    return vram__node_error(g, n, "int8 multiplies tensors of two or three axes");
  return 1;
}

static int64_t vram__fp8_blocks(int64_t size) {
  return (size + VRAM__FP8_BLOCK - 1) / VRAM__FP8_BLOCK;
}

/* FP8Linear: both are parameters of the module */
static int vram__fp8_own(vram_graph *g, vram_node *n, const vram__quantised *q) {
  const uint8_t frozen = VRAM__FROZEN | VRAM__AS_IS;
  int64_t size[2], blocks[2];
  size[0] = q->out;
  size[1] = q->in;
  blocks[0] = vram__fp8_blocks(q->out);
  blocks[1] = vram__fp8_blocks(q->in);
  return vram__node_own(g, n, VRAM__LINEAR_WEIGHT, "weight", 2, size, VRAM_F8E4M3FN, frozen) &&
         vram__node_own(g, n, VRAM__LINEAR_SCALES, "weight_scale_inv", 2, blocks, VRAM_F32, frozen);
}

/* The weight as it is stored, and what says how to read it: it lies beside the parameters, which
   PyTorch's modules do not know of. */
VRAM__FN int vram__quantised_own(vram_graph *g, vram_node *n) {
  const vram__quantised kept = vram__node_quantised(n), *const q = &kept;
  const uint8_t weight = VRAM__FROZEN | VRAM__AS_IS, state = VRAM__BUFFER | VRAM__AS_IS;
  const int64_t scales = vram__quantised_scales(q), code = 16, nested_code = 256;
  int64_t size[2], nested;
  if (!vram__quantised_fits(g, n, q))
    return 0;
  size[0] = q->out;
  size[1] = q->in;
  g->holds += q->bits == 8;
  g->extra += 4096;
  if (q->fp8)
    return vram__fp8_own(g, n, q);
  if (q->bits == 8)
    return vram__node_own(g, n, VRAM__LINEAR_WEIGHT, "weight", 2, size, VRAM_I8, weight) &&
           vram__node_own(g, n, VRAM__LINEAR_SCALES, "SCB", 1, size, VRAM_F32, state);
  size[0] = (q->out * q->in + 1) / 2;
  size[1] = 1;
  if (!vram__node_own(g, n, VRAM__LINEAR_WEIGHT, "weight", 2, size, VRAM_U8, weight) ||
      !vram__node_own(g, n, VRAM__LINEAR_CODE, "code", 1, &code, VRAM_F32, state) ||
      !vram__node_own(g, n, VRAM__LINEAR_SCALES, "absmax", 1, &scales,
                      q->nested ? VRAM_U8 : VRAM_F32, state))
    return 0;
  if (!q->nested)
    return 1;
  nested = (scales + 255) / 256;
  if (!vram__node_own(g, n, VRAM__LINEAR_OFFSET, "offset", 0, size, VRAM_F32, state) ||
      !vram__node_own(g, n, VRAM__LINEAR_NESTED, "nested_absmax", 1, &nested, VRAM_F32, state) ||
      !vram__node_own(g, n, VRAM__LINEAR_NESTED_CODE, "nested_code", 1, &nested_code, VRAM_F32,
                      state))
    return 0;
  if (g->nested_map)
    return 1;
  g->nested_map = 1; /* functional.py, name2qmap["dynamic"]: made once, copied for each weight */
  return vram__node_own(g, n, VRAM__LINEAR_NESTED_MAP, "dynamic_map", 1, &nested_code, VRAM_F32,
                        state);
}

/* The bias of such a layer is in the dtype that computes since the first step. */
VRAM__FN int vram__quantised_own_bias(vram_graph *g, vram_node *n) {
  const vram__quantised q = vram__node_quantised(n);
  const uint8_t kind = vram__param_is_frozen(g, n) && !vram__adapt_learns_bias(g, n, "bias")
                           ? VRAM__FROZEN
                           : VRAM__PARAM;
  if (!vram__node_own(g, n, VRAM__LINEAR_BIAS, "bias", 1, &q.out,
                      q.compute                 ? q.compute
                      : vram__adapt_prepares(g) ? VRAM_DTYPE_MODEL
                                                : n->in[0]->dtype,
                      (uint8_t)(kind | VRAM__AS_IS)))
    return 0;
  if (q.compute == VRAM_DTYPE_MODEL)
    n->param[VRAM__LINEAR_BIAS]->is_model = 2;
  return 1;
}

#ifndef VRAM_NO_STEP

/* Is p a quantised weight, of so many elements, or what says how to read one (none)? */
VRAM__FN int vram__param_quantised(const vram_param *p, uint64_t *elements) {
  const vram_node *n = p->node;
  const int weight = n->op == VRAM_OP_linear && n->param[VRAM__LINEAR_WEIGHT] == p;
  *elements = 0;
  if (n->op != VRAM_OP_linear || (!weight && p->kind != VRAM__BUFFER))
    return 0;
  if (!vram__node_list(n, VRAM__KEY_quant, NULL))
    return 0;
  if (weight) {
    const vram__quantised q = vram__node_quantised(n);
    *elements = (uint64_t)q.out * (uint64_t)q.in;
  }
  return 1;
}

/* The model's dtype is here that which the weights were loaded in. */
static vram_dtype vram__quantised_dtype(const vram__step *s, vram_dtype dt) {
  return dt == VRAM_DTYPE_MODEL ? s->loaded : dt;
}

/* _dequant_linear_fallback: the scales and the weight for a moment, then F.linear */
static vram__tensor vram__gemm4_unfused(vram__step *s, const vram__quantised *q, vram__tensor x,
                                        vram__tensor b) {
  const vram_dims *scales = vram__dims_2d(s, 1, vram__quantised_scales(q));
  const uint8_t cat = s->cat;
  vram__tensor dequantised = vram__tensor_none(), sum = vram__tensor_none(), w, y;
  s->cat = VRAM_CATEGORY_TEMPORARIES;
  if (q->nested) {
    dequantised = vram__tensor_empty(s, scales, VRAM_F32);
    sum = vram__tensor_empty(s, scales, VRAM_F32);
  }
  w = vram__tensor_empty(s, vram__dims_2d(s, q->out, q->in), x.dt);
  s->cat = cat;
  y = vram__torch_linear(s, x, w, b);
  vram__tensor_release(s, sum);
  vram__tensor_release(s, dequantised);
  vram__tensor_release(s, w);
  return y;
}

/* MatMul4Bit.forward */
static vram__tensor vram__matmul_4bit(vram__step *s, const vram__quantised *q, vram__tensor x,
                                      vram__tensor b) {
  const int64_t rows = q->in ? (int64_t)(x.d->numel / (uint64_t)q->in) : 0;
  const uint8_t grad = s->grad;
  int64_t size[VRAM_MAX_AXES];
  vram__tensor in[2], y, a;
  vram__grad_fn *f;
  uint32_t i;
  in[0] = x;
  in[1] = b;
  f = vram__tape_record(s, VRAM__K_matmul_4bit, in, b.d ? 2 : 1, 1, 0);
  for (i = 0; i < x.d->ndim; i++)
    size[i] = x.d->v[i];
  size[i - 1] = q->out;
  s->grad = 0;
  if (rows && !vram__gemm4_is_fused(s, x.dt, rows, q->out, q->in))
    y = vram__gemm4_unfused(s, q, x, b);
  else {
    a = vram__tensor_contiguous(s, x);
    y = vram__tensor_empty(s, vram__dims_in(s, x.d->ndim, size, NULL), x.dt);
    vram__tensor_release(s, a);
  }
  s->grad = grad;
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* A function of Python has let go of its gradients before what it gives is looked at. */
static void vram__python_gradient_release(vram__step *s, vram__grad_fn *f) {
  vram__tensor *g = &VRAM__SLOTS(f)[0].g;
  vram__tensor_release(s, *g);
  g->d = NULL;
}

/* grad_output.sum(0, dtype): of the first axis alone, whatever there is; the rest is summed when
   it arrives. */
static void vram__quantised_bias_gradient(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram_dtype dt;
  if (f->nin < 2 || !vram__input_wanted(f, 1))
    return;
  vram__input_dims(s, f, 1, &dt);
  to[1] = vram__tensor_sum(s, VRAM__SLOTS(f)[0].g, 1, 0, dt);
}

/* dequantize_4bit: the weight in the dtype that it was quantised from */
static vram__tensor vram__dequantised(vram__step *s, const vram__quantised *q) {
  vram__tensor scales = vram__tensor_none(), w;
  if (q->nested && !s->ideal)
    scales = vram__tensor_empty(s, vram__dims_2d(s, 1, vram__quantised_scales(q)), VRAM_F32);
  w = vram__tensor_empty(s, vram__dims_2d(s, q->out, q->in), vram__quantised_dtype(s, q->from));
  vram__tensor_release(s, scales);
  return w;
}

VRAM__FN void vram__backward_matmul_4bit(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram__quantised q = vram__node_quantised(f->node);
  vram__tensor w, cast;
  vram__quantised_bias_gradient(s, f, to);
  if (vram__input_wanted(f, 0) && g.d->numel) {
    w = vram__dequantised(s, &q);
    cast = vram__tensor_to(s, w, g.dt);
    vram__tensor_release(s, w);
    to[0] = vram__torch_matmul(s, g, cast);
    vram__tensor_release(s, cast);
  } else if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, vram__input_dims(s, f, 0, NULL), g.dt);
  vram__python_gradient_release(s, f);
}

/* dequantize_bnb_weight; of int8 it is f32, times the scales and then a number */
VRAM__FN vram__tensor vram__node_dequantised(vram__step *s, const vram_node *n) {
  const vram__quantised q = vram__node_quantised(n);
  vram__tensor scaled, w;
  if (q.bits == 4)
    return vram__dequantised(s, &q);
  scaled = vram__tensor_empty(s, vram__dims_2d(s, q.out, q.in), VRAM_F32);
  w = vram__tensor_empty(s, scaled.d, VRAM_F32);
  vram__tensor_release(s, scaled);
  return w;
}

/* int8_linear_matmul: cublasLt has no products of rows that are no multiple of 4, they are
   multiplied in f32. */
static vram__tensor vram__int8_product(vram__step *s, const vram__quantised *q, vram__tensor a) {
  const vram_dims *d = vram__dims_2d(s, a.d->v[0], q->out);
  vram__tensor y = vram__tensor_empty(s, d, VRAM_I32), left, right, product;
  if (q->in % 4 == 0 || s->ideal)
    return y;
  left = vram__tensor_empty(s, a.d, VRAM_F32);
  right = vram__tensor_empty(s, vram__dims_2d(s, q->out, q->in), VRAM_F32);
  product = vram__blas_mm(s, left, vram__tensor_turned(s, right));
  vram__tensor_release(s, right);
  vram__tensor_release(s, left);
  vram__tensor_release(s, vram__tensor_empty(s, d, VRAM_I32));
  vram__tensor_release(s, product);
  return y;
}

/* Which columns have a value of at least the threshold is data: none, says what is expected. All of
   them: they and the weight's are multiplied once more in x's dtype, the weight's by way of f32. */
static void vram__int8_outliers(vram__step *s, const vram__quantised *q, vram__tensor half) {
  const uint64_t weight = (uint64_t)q->out * (uint64_t)q->in;
  vram__tensor size, large, any;
  if (s->ideal)
    return;
  size = vram__tensor_empty(s, half.d, VRAM_F16);
  large = vram__tensor_empty(s, half.d, VRAM_BOOL);
  vram__tensor_release(s, size);
  any = vram__tensor_empty(s, s->scalar, VRAM_BOOL);
  vram__reduce_scratch(s, large, 3, VRAM_BOOL, 1, 4);
  vram__tensor_release(s, any);
  vram__tensor_release(s, large);
  vram__upper_may_need(s, 2 * half.d->numel + 2 * weight + weight / 4);
}

/* int8_scaled_mm of rows in f16: their scales and what they are rounded to, the integer product,
   its f16, and that in x's dtype */
static vram__tensor vram__int8_scaled_mm(vram__step *s, const vram__quantised *q, vram__tensor x) {
  const uint8_t cat = s->cat;
  vram__tensor half, scales, rows, product, y, cast;
  s->cat = VRAM_CATEGORY_TEMPORARIES;
  half = vram__tensor_to(s, x, VRAM_F16);
  scales = vram__tensor_empty(s, vram__dims_in(s, 1, x.d->v, NULL), VRAM_F32);
  rows = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), VRAM_I8);
  if (q->threshold)
    vram__int8_outliers(s, q, half);
  vram__tensor_release(s, half);
  product = vram__int8_product(s, q, rows);
  if (x.dt == VRAM_F16)
    s->cat = cat;
  y = vram__tensor_empty(s, product.d, VRAM_F16);
  s->cat = cat;
  cast = vram__tensor_to(s, y, x.dt);
  vram__tensor_release(s, y);
  vram__tensor_release(s, product);
  vram__tensor_release(s, rows);
  vram__tensor_release(s, scales);
  return cast;
}

/* MatMul8bitLt.forward. What backward needs to know of x is an attribute of the function, no saved
   tensor: it lives as long as the graph. */
static vram__tensor vram__matmul_8bit(vram__step *s, const vram__quantised *q, vram__tensor x,
                                      vram__tensor b) {
  const uint8_t grad = s->grad;
  int64_t size[VRAM_MAX_AXES];
  vram__tensor in[2], a, y, flat;
  vram__grad_fn *f;
  uint32_t i;
  in[0] = x;
  in[1] = b;
  f = vram__tape_record(s, VRAM__K_matmul_8bit, in, b.d ? 2 : 1, 1, 0);
  for (i = 0; i < x.d->ndim; i++)
    size[i] = x.d->v[i];
  size[i - 1] = q->out;
  if (!x.d->numel)
    flat = vram__tensor_empty(s, vram__dims_in(s, x.d->ndim, size, NULL), x.dt);
  else {
    int64_t fold[2];
    fold[0] = (int64_t)(x.d->numel / (uint64_t)q->in);
    fold[1] = q->in;
    s->grad = 0;
    a = vram__tensor_reshape(s, x, 2, fold);
    flat = vram__int8_scaled_mm(s, q, a);
    if (f)
      vram__tensor_hold(s, f, a);
    vram__tensor_release(s, a);
    s->grad = grad;
  }
  y = vram__tensor_alias(s, flat, vram__dims_in(s, x.d->ndim, size, NULL));
  vram__tensor_release(s, flat);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* The gradient of x [d]: the weight in x's dtype, times its scales, which are made smaller by 127
   first. */
static vram__tensor vram__int8_gradient(vram__step *s, const vram__quantised *q, vram__tensor g,
                                        const vram_dims *d, vram_dtype dt) {
  vram__tensor rows = vram__tensor_retain(s, g), w, cast, to;
  int64_t fold[2];
  fold[0] = (int64_t)(g.d->numel / (uint64_t)q->out);
  fold[1] = q->out;
  if (g.d->ndim == 3) {
    vram__tensor_replace(s, &rows, vram__tensor_reshape(s, rows, 2, fold));
    vram__tensor_replace(s, &rows, vram__tensor_contiguous(s, rows));
  }
  w = vram__tensor_empty(s, vram__dims_2d(s, q->out, q->in), dt);
  vram__tensor_release(s, vram__tensor_empty(s, vram__dims_2d(s, q->out, 1), VRAM_F32));
  cast = vram__tensor_to(s, rows, dt);
  to = vram__blas_mm(s, cast, w);
  to.d = d;
  vram__tensor_release(s, cast);
  vram__tensor_release(s, w);
  vram__tensor_release(s, rows);
  return to;
}

VRAM__FN void vram__backward_matmul_8bit(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram__quantised q = vram__node_quantised(f->node);
  vram__quantised_bias_gradient(s, f, to);
  if (vram__input_wanted(f, 0)) {
    vram_dtype dt;
    const vram_dims *d = vram__input_dims(s, f, 0, &dt);
    to[0] = g.d->numel ? vram__int8_gradient(s, &q, g, d, dt) : vram__tensor_empty(s, d, dt);
    if (g.d->numel && to[0].st)
      vram__slot_at(s, to[0].st)->shown = 1;
  }
  vram__python_gradient_release(s, f);
}

/* fp8_linear: the Triton kernel rounds x as it goes. DeepGEMM, where it is installed, takes rounded
   rows and their scales, made of x with whole blocks, its absolute values and those in f32
   (per_token_cast_to_fp8). */
static vram__tensor vram__fp8_linear(vram__step *s, const vram_node *n, const vram__quantised *q,
                                     vram__tensor x) {
  const uint64_t rows = q->in ? x.d->numel / (uint64_t)q->in : 0;
  const uint64_t blocks = rows * (uint64_t)vram__fp8_blocks(q->in);
  const int rounds = x.dt == VRAM_BF16 || x.dt == VRAM_F16;
  int64_t size[VRAM_MAX_AXES];
  vram__grad_fn *f;
  vram__tensor y;
  uint32_t i;
  if (!(x.d->flags & VRAM__CONTIG)) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "fp8 of a tensor that is not contiguous: the kernel stops with an error");
    return vram__tensor_retain(s, x);
  }
  f = vram__tape_record(s, VRAM__K_fp8_linear, &x, 1, 1, 0);
  for (i = 0; i < x.d->ndim; i++)
    size[i] = x.d->v[i];
  size[i - 1] = q->out;
  if (rounds)
    vram__upper_may_need(s, blocks * (2 * VRAM__FP8_BLOCK + 8));
  y = vram__tensor_empty(s, vram__dims_in(s, x.d->ndim, size, NULL), x.dt);
  if (rounds)
    vram__upper_may_need(s, blocks * (VRAM__FP8_BLOCK / 4 + 2));
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* FP8LinearFunction.backward, _dequantize_fp8_weight: the weight and a scale for each block of its
   rows in the gradient's dtype */
VRAM__FN void vram__backward_fp8_linear(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram__quantised q = vram__node_quantised(f->node);
  vram__tensor scales, rows, w;
  if (!vram__input_wanted(f, 0))
    return;
  scales = vram__tensor_to(s, s->param[f->node->param[VRAM__LINEAR_SCALES]->index], g.dt);
  w = vram__tensor_empty(s, vram__dims_2d(s, q.out, q.in), g.dt);
  rows = vram__tensor_empty(
      s, vram__dims_2d(s, vram__fp8_blocks(q.out) * VRAM__FP8_BLOCK, vram__fp8_blocks(q.in)), g.dt);
  vram__tensor_release(s, scales);
  vram__tensor_release(s, rows);
  to[0] = vram__torch_matmul(s, g, w);
  vram__tensor_release(s, w);
  vram__python_gradient_release(s, f);
}

/* Linear4bit.forward: x in the dtype that computes, and back; Linear8bitLt.forward */
VRAM__FN vram__tensor vram__torch_quantised(vram__step *s, const vram_node *n, vram__tensor x,
                                            vram__tensor b) {
  const vram__quantised q = vram__node_quantised(n);
  vram__tensor a, y, cast;
  if (q.fp8) /* the bias is added in place */
    return vram__fp8_linear(s, n, &q, x);
  if (q.bits == 8)
    return vram__matmul_8bit(s, &q, x, b);
  a = q.compute ? vram__torch_cast(s, x, vram__quantised_dtype(s, q.compute))
                : vram__tensor_retain(s, x);
  y = vram__matmul_4bit(s, &q, a, b);
  cast = vram__torch_cast(s, y, x.dt);
  vram__tensor_release(s, y);
  vram__tensor_release(s, a);
  return cast;
}

#endif /* VRAM_NO_STEP */
