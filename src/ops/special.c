/* >>ops/special    further functions of one kernel: logarithms, angles, special functions */
#include "ops/ops.h"

enum { VRAM__BESSEL_FIRST, VRAM__BESSEL_SCALED, VRAM__BESSEL_SECOND }; /* kinds of rows */

static int vram__shape_mvlgamma(vram_graph *g, vram_node *n) {
  const int64_t p = VRAM__INT(n, p, 0);
  if (p < VRAM__ONE || p % VRAM__ONE || n->in[0]->d->ndim == VRAM_MAX_AXES)
    return vram__node_error(g, n,
                            "p must be a whole number from 1 on, of a tensor of at most 7 axes");
  return vram__shape_same(g, n);
}

#ifndef VRAM_NO_STEP

static void vram__forward_atan2(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__tensor in[2];
  vram__grad_fn *f;
  const vram_dims *d[2];
  vram_dtype dt;
  uint32_t own;
  in[0] = x[0];
  in[1] = x[1];
  own = vram__autocast_list(s, VRAM__AUTOCAST_widest, in, 2);
  dt = vram__promote_pair(in[0], in[1]);
  if (vram__kind_rank(dt) < 2)
    dt = vram__step_dtype(s, vram__graph_default_dtype(s->g));
  f = vram__tape_record(s, n->op, in, 2, 1, 2);
  if (f) {
    vram__save_tensor(s, f, in[1]);
    vram__save_tensor(s, f, in[0]);
  }
  d[0] = in[0].d;
  d[1] = in[1].d;
  y[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__autocast_release(s, in, own);
}

/* FunctionsManual.cpp, atan2_backward: one over the square of the radius, zero where that is zero.
   What is made on the way goes at the end. */
static void vram__backward_atan2(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, b = VRAM__SAVED(f)[0], a = VRAM__SAVED(f)[1];
  vram__tensor t[7];
  uint32_t n = 0;
  t[3] = vram__pointwise_empty2(s, b, b);
  t[4] = vram__pointwise_empty2(s, a, a);
  t[n++] = vram__pointwise_empty2(s, t[4], t[3]);
  vram__tensor_release(s, t[4]);
  vram__tensor_release(s, t[3]);
  t[n++] = vram__pointwise_empty1(s, t[0]);
  vram__tensor_release(s, vram__tensor_empty(s, vram__dims_pointwise_number(s, t[0].d), VRAM_BOOL));
  if (vram__input_wanted(f, 0)) {
    t[n++] = vram__pointwise_empty2(s, b, t[1]);
    to[0] = vram__pointwise_empty2(s, g, t[n - 1]);
  }
  if (vram__input_wanted(f, 1)) {
    t[n++] = vram__pointwise_empty1(s, a);
    t[n] = vram__pointwise_empty2(s, t[n - 1], t[1]);
    n++;
    to[1] = vram__pointwise_empty2(s, g, t[n - 1]);
  }
  while (n--)
    vram__tensor_release(s, t[n]);
}

static void vram__forward_heaviside(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 2, 1, 0);
  const vram_dims *d[2];
  vram__refuse_unlike(s, x, 2);
  d[0] = x[0].d;
  d[1] = x[1].d;
  y[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* derivatives.yaml: not_implemented */
static void vram__backward_heaviside(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  (void)to;
  vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                    "heaviside has no derivative: PyTorch stops with an error");
}

static void vram__forward_sinc(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  y[0] = vram__tensor_empty(s, vram__dims_pointwise1(s, x[0].d),
                            vram__kind_rank(x[0].dt) >= 2
                                ? x[0].dt
                                : vram__step_dtype(s, vram__graph_default_dtype(s->g)));
  if (f)
    vram__save_tensor(s, f, x[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* sinc_backward: grad (x cos x - sin x) / x^2 of pi times the input, 0 where that is 0 */
static void vram__backward_sinc(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  vram__tensor t[9];
  uint32_t n = 0;
  const vram__tensor once = vram__pointwise_empty_number(s, x);
  const vram__tensor square = vram__pointwise_empty2(s, x, x);
  const vram__tensor scaled = vram__pointwise_empty_number(s, square);
  vram__tensor zero, where;
  vram__tensor_release(s, square);
  for (n = 0; n < 5; n++) /* cos, its product, sin, the difference, the quotient */
    t[n] = vram__pointwise_empty1(s, x);
  t[n] = vram__pointwise_empty2(s, g, t[n - 1]);
  while (n--)
    vram__tensor_release(s, t[n]);
  zero = vram__tensor_empty(s, s->scalar, x.dt);
  where = vram__tensor_empty(s, vram__dims_pointwise_number(s, scaled.d), VRAM_BOOL);
  to[0] = vram__pointwise_empty2(s, scaled, t[5]);
  vram__tensor_release(s, where);
  vram__tensor_release(s, zero);
  vram__tensor_release(s, t[5]);
  vram__tensor_release(s, scaled);
  vram__tensor_release(s, once);
}

/* A function that keeps its input and its result. */
static void vram__forward_curve(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  y[0] = vram__tensor_empty(s, vram__dims_pointwise1(s, x[0].d),
                            vram__kind_rank(x[0].dt) >= 2
                                ? x[0].dt
                                : vram__step_dtype(s, vram__graph_default_dtype(s->g)));
  if (f) {
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* sgn_backward: of real numbers a tensor of zeros that has no memory */
static void vram__backward_sgn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__is_complex(VRAM__SAVED(f)[0].dt)) {
    to[0] = vram__pointwise_empty2(s, VRAM__SAVED(f)[0], g);
    return;
  }
  to[0] = vram__tensor_none();
  to[0].d = vram__dims_contiguous(s, VRAM__SAVED(f)[0].d);
  to[0].dt = g.dt;
}

/* FunctionsManual.cpp, i1_backward, i1e_backward, bessel_j1_backward, bessel_y1_backward: the
   function of order 0 less the result over the input; where the input is tiny, a number. Those of
   the second kind are infinite there, and are not asked. */
static void vram__backward_bessel(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  const int kind = vram__op_at(f->kind)->kind, second = kind == VRAM__BESSEL_SECOND;
  const uint32_t many = kind == VRAM__BESSEL_SCALED ? 5 : 3;
  vram__tensor safe = vram__tensor_none(), tiny = safe, t[6], number, slope;
  uint32_t n;
  if (!second) {
    const vram__tensor size = vram__pointwise_empty1(s, x);
    tiny = vram__tensor_empty(s, vram__dims_pointwise_number(s, x.d), VRAM_BOOL);
    vram__tensor_release(s, size);
    number = vram__tensor_empty(s, s->scalar, x.dt);
    safe = vram__pointwise_empty1(s, x);
    vram__tensor_release(s, number);
  }
  for (n = 0; n <= many; n++) /* that of order 0, [sign,] reciprocal, [their sum,] product, all */
    t[n] = vram__pointwise_empty1(s, x);
  slope = t[--n];
  while (n--)
    vram__tensor_release(s, t[n]);
  number = vram__tensor_empty(s, s->scalar, x.dt);
  if (second)
    tiny = vram__tensor_empty(s, vram__dims_pointwise_number(s, x.d), VRAM_BOOL);
  t[0] = vram__pointwise_empty1(s, slope);
  to[0] = vram__pointwise_empty2(s, g, t[0]);
  vram__tensor_release(s, t[0]);
  vram__tensor_release(s, number);
  vram__tensor_release(s, slope);
  vram__tensor_release(s, safe);
  vram__tensor_release(s, tiny);
}

/* mvlgamma: x and each of p numbers, with one axis more */
static vram__tensor vram__mvlgamma_sums(vram__step *s, const vram_node *n, vram__tensor x) {
  const int64_t p = VRAM__INT(n, p, VRAM__ONE) / VRAM__ONE;
  const vram__tensor numbers = vram__tensor_vector(s, p, x.dt);
  const vram__tensor u = vram__tensor_view(s, x, vram__dims_unsqueezed(s, x.d, x.d->ndim));
  const vram__tensor sums = vram__pointwise_empty2(s, numbers, u);
  vram__tensor_release(s, u);
  vram__tensor_release(s, numbers);
  return sums;
}

static void vram__forward_mvlgamma(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  const vram__tensor sums = vram__mvlgamma_sums(s, n, x[0]);
  y[0] = vram__tensor_sum(s, sums, 1u << x[0].d->ndim, 0, x[0].dt);
  vram__tensor_release(s, sums);
  if (f)
    vram__save_tensor(s, f, x[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_mvlgamma(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0], sums = vram__mvlgamma_sums(s, f->node, x);
  const vram__tensor slope = vram__tensor_sum(s, sums, 1u << x.d->ndim, 0, x.dt);
  to[0] = vram__pointwise_empty2(s, VRAM__SLOTS(f)[0].g, slope);
  vram__tensor_release(s, slope);
  vram__tensor_release(s, sums);
}

#endif /* VRAM_NO_STEP */

VRAM__OP_POINTWISE(log1p, "log1p", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: div(grad, shifted(x0))");
VRAM__OP_POINTWISE(log2, "log2 log10", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: div(grad, scaled(x0))");
VRAM__OP_POINTWISE(expm1, "expm1", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, shifted(y))");
VRAM__OP_POINTWISE(exp2, "exp2", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: scaled(mul(grad, y))");
VRAM__OP_POINTWISE(rpow, "", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "",
                   "x0: with(x0, mul(grad, scaled(y)))");
VRAM__OP_POINTWISE(reciprocal, "reciprocal", 1, 1, same, FLOAT, fp32, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT, "inplace", "x0: mul(neg(grad), mul(y, y))");
VRAM__OP_POINTWISE(sinh, "sinh", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, cosh(x0))");
VRAM__OP_POINTWISE(asin, "asin", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, rsqrt(shifted(mul(neg(x0), x0))))");
VRAM__OP_POINTWISE(acos, "acos", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, neg(rsqrt(shifted(mul(neg(x0), x0)))))");
VRAM__OP_POINTWISE(atan, "atan", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: div(grad, shifted(mul(x0, x0)))");
VRAM__OP(atan2, "atan2: x other", 2, 2, bcast, FLOAT, none, atan2, atan2, each, NONE, 0,
         VRAM__OP_REAL, "");
VRAM__OP_POINTWISE(cosh, "cosh", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, sinh(x0))");
VRAM__OP_POINTWISE(asinh, "asinh acosh", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, rsqrt(shifted(powered(x0))))");
VRAM__OP_POINTWISE(atanh, "atanh", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: div(scaled(grad), shifted(powered(x0)))");
VRAM__OP_POINTWISE(erfc, "erfc", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "inplace",
                   "x0: mul(scaled(exp(neg(powered(x0)))), grad)");
VRAM__OP_POINTWISE(erfinv, "erfinv", 1, 1, same, FLOAT, fp32, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "inplace",
                   "x0: mul(scaled(exp(powered(erfinv(x0)))), grad)");
VRAM__OP_POINTWISE(lgamma, "lgamma", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "inplace", "x0: mul(grad, digamma(x0))");
VRAM__OP_POINTWISE(logit, "logit", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "inplace", "x0: logit_backward(grad, x0)");
VRAM__OP_POINTWISE(frac, "frac", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL | VRAM__OP_FLOATS, "inplace", "x0: grad");
VRAM__OP_POINTWISE(deg2rad, "deg2rad rad2deg", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "inplace", "x0: scaled(grad)");
VRAM__OP_POINTWISE(nan_to_num, "nan_to_num", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT, "inplace",
                   "x0: mul(grad, settled(mul_rtl(compare(x0, x0), compare_number(abs(x0)))))");
VRAM__OP_POINTWISE(hypot, "hypot", 2, 2, bcast, SAME, none, NONE, VRAM__OP_REAL, "inplace",
                   "x1: div(mul(grad, x1), y); x0: div(mul(grad, x0), y)");
VRAM__OP_POINTWISE(remainder, "remainder fmod mod", 1, 2, bcast, NUMBER, none, ADD, VRAM__OP_REAL,
                   "scalar inplace", "x1: mul(neg(grad), div(x0, x1)); x0: grad");
VRAM__OP_POINTWISE(addcdiv, "addcdiv: x a b", 3, 3, bcast, SAME, widest, NONE, 0, "inplace",
                   "x0: grad; x1: mul(grad, scaled(x2)); x2: mul_rtl(neg(grad), "
                   "div_rtl(scaled(x1), mul(x2, x2)))");
VRAM__OP_POINTWISE(fmax, "fmax fmin", 2, 2, bcast, SAME, none, NONE, VRAM__OP_REAL, "",
                   "x1: with(compare(x0, x1), with(compare(x1, x1), where_rtl(compare(x0, x1), "
                   "scaled(grad), grad))); x0: with(compare(x0, x1), with(compare(x1, x1), "
                   "where_rtl(compare(x0, x1), scaled(grad), grad)))");
VRAM__OP(sinc, "sinc special_sinc: x", 1, 1, same, FLOAT, none, sinc, sinc, each, NONE, 0, 0, "");
VRAM__OP_POINTWISE(xlogy, "xlogy special_xlogy", 2, 2, bcast, FLOAT, none, NONE, 0, "",
                   "x1: div(mul(grad, x0), x1); x0: mul(mul(grad, x1), "
                   "compare(compare_number(x1), compare_number(x0)))");
VRAM__OP_POINTWISE(xlog1py, "special_xlog1py", 2, 2, bcast, FLOAT, none, NONE, 0, "",
                   "x1: div_rtl(mul(grad, x0), shifted(x1)); x0: mul(mul(grad, x1), "
                   "compare(compare_number(x1), compare_number(x0)))");
VRAM__OP_POINTWISE(copysign, "copysign", 2, 2, bcast, FLOAT, none, NONE, 0, "",
                   "x1: nothing; x0: mul(grad, then(div(y, x0), compare_number(x0)))");
VRAM__OP(heaviside, "heaviside: x values", 2, 2, bcast, SAME, none, heaviside, heaviside, each,
         NONE, 0, 0, "");
VRAM__OP_POINTWISE(i0, "i0 special_i0 special_modified_bessel_i0", 1, 1, same, FLOAT, none,
                   ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace", "x0: mul(grad, powered(x0))");
VRAM__OP_POINTWISE(digamma, "digamma special_digamma special_psi", 1, 1, same, FLOAT, none,
                   ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace", "x0: mul(grad, digamma(x0))");
VRAM__OP_POINTWISE(entr, "special_entr", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "", "x0: mul(grad, neg(shifted(log(x0))))");
VRAM__OP_POINTWISE(cross, "linalg_cross cross: x other dim", 2, 2, bcast, SAME, none, NONE, 0,
                   "dim", "x1: mul(grad, x0); x0: mul(x1, grad)");
VRAM__OP_POINTWISE(erfcx, "special_erfcx", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "",
                   "x0: mul(shifted(mul(scaled(x0), y)), grad)");
VRAM__OP_POINTWISE(i0e, "special_i0e", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "",
                   "x0: mul(grad, sub(special(x0), mul(sign(x0), y)))");
VRAM__OP_POINTWISE(ndtri, "special_ndtri", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "",
                   "x0: mul(scaled(grad), exp(scaled(powered(y))))");
VRAM__OP_POINTWISE(log_ndtr, "special_log_ndtr", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "",
                   "x0: mul(scaled(grad), exp(neg(add(y, scaled(powered(x0))))))");
VRAM__OP_POINTWISE(bessel_j0, "special_bessel_j0 special_bessel_y0 special_modified_bessel_k0", 1,
                   1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "",
                   "x0: mul(grad, neg(special(x0)))");
VRAM__OP_POINTWISE(modified_bessel_k1, "special_modified_bessel_k1", 1, 1, same, FLOAT, none,
                   ACTIVATION, VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "",
                   "x0: mul(grad, neg(add(special(x0), mul(y, special(x0)))))");
VRAM__OP(bessel_j1, "special_bessel_j1 special_i1 special_modified_bessel_i1", 1, 1, same, FLOAT,
         none, curve, bessel, each, NONE, VRAM__BESSEL_FIRST, VRAM__OP_REAL, "");
VRAM__OP(i1e, "special_i1e", 1, 1, same, FLOAT, none, curve, bessel, each, NONE,
         VRAM__BESSEL_SCALED, VRAM__OP_REAL, "");
VRAM__OP(bessel_y1, "special_bessel_y1", 1, 1, same, FLOAT, none, curve, bessel, each, NONE,
         VRAM__BESSEL_SECOND, VRAM__OP_REAL, "");
VRAM__OP(mvlgamma, "mvlgamma special_multigammaln: x p", 1, 1, mvlgamma, FLOAT, none, mvlgamma,
         mvlgamma, each, NONE, 0, VRAM__OP_REAL, "p!");
VRAM__OP_POINTWISE(nextafter, "nextafter", 2, 2, bcast, SAME, none, NONE, VRAM__OP_REAL, "inplace",
                   "x1: with(x1, nothing); x0: where(compare(x0, x1), grad, zero)");
VRAM__OP(sgn, "sgn", 1, 1, same, SAME, none, curve, sgn, each, NONE, 0, 0, "");
