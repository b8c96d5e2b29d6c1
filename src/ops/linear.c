/* >>ops/linear    the linear layer */
#include "ops/ops.h"

/* Its weight is not quantised, it has no adapter, and it is no Conv1D. */
static int vram__linear_is_plain(const vram_node *n) {
  return !vram__node_list(n, VRAM__KEY_quant, NULL) && !vram__node_list(n, VRAM__KEY_lora, NULL) &&
         !VRAM__INT(n, conv1d, 0);
}

/* The parameters of a layer with weight [w[0], w[1]]. */
static int vram__linear_own(vram_graph *g, vram_node *n, const int64_t *w) {
  const int quantised = vram__node_list(n, VRAM__KEY_quant, NULL) != NULL;
  if (!vram__linear_is_plain(n) && !vram__node_params(g, n, VRAM__LINEAR_PARAMS))
    return 0;
  const int64_t turned[2] = {w[1], w[0]}; /* Conv1D's weight is [in, out] */
  if (quantised
          ? !vram__quantised_own(g, n)
          : !vram__node_own(g, n, VRAM__LINEAR_WEIGHT, "weight", 2,
                            VRAM__INT(n, conv1d, 0) ? turned : w, VRAM_DTYPE_MODEL, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) && (quantised ? !vram__quantised_own_bias(g, n)
                                          : !vram__node_own(g, n, VRAM__LINEAR_BIAS, "bias", 1, w,
                                                            VRAM_DTYPE_MODEL, VRAM__PARAM)))
    return 0;
  return !vram__node_list(n, VRAM__KEY_lora, NULL) || vram__adapter_own(g, n, w[0], w[1]);
}

static int vram__shape_linear(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], w[2];
  uint32_t i;
  if (!x->ndim)
    return vram__node_error(g, n, "linear of a tensor without axes");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  w[1] = x->v[x->ndim - 1];
  w[0] = VRAM__INT(n, out_features, 0);
  if (n->nin > 1) {
    const vram_dims *d = n->in[1]->d;
    if (!vram__linear_is_plain(n))
      return vram__node_error(g, n,
                              "quant=, lora= and conv1d= are for a layer that has its own weight");
    if (d->ndim != 2 || d->v[1] != w[1])
      return vram__node_error(g, n, "a weight of another shape");
    if (vram__node_list(n, VRAM__KEY_out_features, NULL) && d->v[0] != w[0])
      return vram__node_error(g, n, "a weight of other out_features");
    w[0] = d->v[0];
  } else {
    if (w[0] < 1)
      return vram__node_error(g, n, "out_features must be at least 1");
    if (VRAM__INT(n, conv1d, 0) && !VRAM__INT(n, bias, 1))
      return vram__node_error(g, n, "conv1d has a bias");
    if (!vram__linear_own(g, n, w))
      return 0;
  }
  size[x->ndim - 1] = w[0];
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* The product, and those of its adapter. */
static uint64_t vram__flops_linear(const vram_node *n) {
  const int64_t rank = VRAM__INT(n, lora, 0);
  const vram_dims *x = n->in[0]->d, *y = n->out[0].d;
  return vram__sum_or_overflow(
      vram__flops_product(n),
      vram__product_or_overflow(2 * (uint64_t)rank, vram__sum_or_overflow(x->numel, y->numel)));
}

#ifndef VRAM_NO_STEP

/* Plain matrices of more than one row and column each: BLAS takes them as they are, and the views
   that F.linear and its backward make of them come to nothing. */
static int vram__linear_is_usual(const vram__step *s, const vram__tensor *x, const vram__tensor *w,
                                 const vram__tensor *b) {
  return (x->d->flags & w->d->flags & VRAM__PLAIN) && vram__tensor_wants_grad(s, *w) &&
         w->d->ndim == 2 && w->d->v[0] > 1 && w->d->v[1] > 1 &&
         x->d->numel > (uint64_t)w->d->v[1] && x->dt == w->dt && !s->ideal && !s->call.nrange &&
         (!b->d || ((b->d->flags & VRAM__PLAIN) && b->d->ndim == 1 && b->dt == x->dt &&
                    (x->d->ndim == 2 || !(s->device.rules->does & VRAM__LINEAR_VIEW))));
}

/* in: bias, x, weight; out: dims of the result */
static vram__tensor vram__linear(vram__step *s, const vram__tensor *in, const vram_dims *out) {
  const uint32_t x = in[0].d != NULL;
  vram__grad_fn *f = vram__tape_record(s, VRAM_OP_linear, in + 1 - x, 2 + x, 1, 2);
  vram__tensor y;
  vram__save_factors(s, f, in + 1 - x, x, !x);
  y = vram__tensor_empty(s, out, in[1].dt);
  vram__blas_workspace(s, x ? VRAM__CUBLASLT : VRAM__CUBLAS);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* g is no plain matrix: ViewBackward, AddmmBackward, TBackward */
static void vram__backward_linear_view(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const uint32_t x = f->nin - 2u;
  vram__tensor *g = &VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d;
  uint32_t i;
  const int64_t n = g->d->v[g->d->ndim - 1];
  int64_t fold[2];
  fold[0] = (int64_t)g->d->numel / n;
  fold[1] = n;
  if (g->d->ndim > 2) {
    t = vram__tensor_reshape(s, *g, 2, fold);
    vram__tensor_release(s, *g);
    *g = t;
  }
  for (i = 0; i < 2; i++) {
    const uint32_t k = x + (i == x);
    if (!vram__input_wanted(f, k))
      continue;
    d = vram__input_dims(s, f, k, NULL);
    if (k == x)
      t = vram__blas_mm(s, *g, vram__factor(f, 1));
    else {
      t = vram__factor(f, 0);
      fold[1] = d->v[1];
      t.d = vram__dims_in(s, 2, fold, NULL);
      t = vram__blas_mm(s, vram__tensor_turned(s, *g), t);
    }
    to[k] = k > x || d->ndim > 2 ? vram__tensor_view(s, t, d) : vram__tensor_retain(s, t);
    vram__tensor_release(s, t);
  }
  if (x && vram__input_wanted(f, 0)) {
    t = vram__tensor_sum(s, *g, 1, 0, vram__backward_sum_dtype(s, g->dt));
    to[0] = vram__tensor_view(s, t, t.d);
    vram__tensor_release(s, t);
  }
}

static inline void vram__backward_plain_linear(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const uint32_t x = f->nin - 2u;
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 0; i < 2;
       i++) { /* AddmmBackward begins with the first factor, MmBackward with the second */
    const uint32_t k = x + (i == x);
    if (vram__input_wanted(f, k)) {
      to[k] = vram__tensor_empty(s, vram__input_dims(s, f, k, NULL), g.dt);
      if (to[k].st)
        vram__slot_at(s, to[k].st)->shown = k > x || g.d->ndim > 2;
      vram__blas_workspace(s, VRAM__CUBLAS);
    }
  }
  if (x && vram__input_wanted(f, 0)) {
    if (g.d->ndim > 2) {
      int64_t fold[2];
      fold[1] = g.d->v[g.d->ndim - 1];
      fold[0] = (int64_t)g.d->numel / fold[1];
      g.d = vram__dims_in(s, 2, fold, NULL);
    }
    to[0] =
        vram__tensor_empty(s, vram__input_dims(s, f, 0, NULL), vram__backward_sum_dtype(s, g.dt));
    vram__reduce_scratch(s, g, 1, g.dt, g.dt == VRAM_F64 ? 8 : 4, 4);
    if (to[0].st)
      vram__slot_at(s, to[0].st)->shown = 1;
  }
}

static VRAM__COLD void vram__linear_shared(vram__step *s, vram__grad_fn *f, vram__tensor *to);

static void vram__backward_linear(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__edge *edge = VRAM__EDGES(f), *w = edge + f->nin - 1;
  if (VRAM__SLOTS(f)[0].g.d->flags & VRAM__PLAIN)
    vram__backward_plain_linear(s, f, to);
  else
    vram__backward_linear_view(s, f, to);
  if ((w->fn && vram__edge_end(s, *w)->d) ||
      (f->nin > 2 && edge->fn && vram__edge_end(s, *edge)->d))
    vram__linear_shared(s, f, to);
}

/* LinearFunctionForZeroStage3.forward (deepspeed/runtime/zero/linear.py); b.d NULL: without bias */
static vram__tensor vram__zero3_linear(vram__step *s, vram__tensor x, vram__tensor w,
                                       vram__tensor b) {
  const uint8_t grad = s->grad;
  vram__tensor in[3], wt, y;
  vram__grad_fn *f;
  in[0] = x;
  in[1] = w;
  in[2] = b;
  f = vram__tape_record(s, VRAM__K_zero3_linear, in, b.d ? 3 : 2, 1, 2);
  s->grad = 0;
  wt = vram__torch_swap(s, w, 0, 1);
  if (b.d && x.d->ndim == 2)
    y = vram__torch_addmm(s, b, x, wt, 0);
  else
    y = vram__torch_matmul(s, x, wt);
  vram__tensor_release(s, wt);
  s->grad = grad;
  if (f) {
    vram__save_tensor(s, f, x);
    vram__save_tensor(s, f, w);
  }
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* x as a matrix: a copy where it does not lie so. */
static vram__tensor vram__zero3_fold(vram__step *s, vram__tensor x) {
  int64_t fold[2];
  fold[1] = x.d->v[x.d->ndim - 1];
  fold[0] = (int64_t)x.d->numel / (fold[1] ? fold[1] : 1);
  return vram__tensor_reshape(s, x, 2, fold);
}

/* Its backward: the gradients of input, weight and bias, in this order. */
VRAM__FN void vram__backward_zero3_linear(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram__tensor a, b;
  uint32_t i;
  for (i = 0; i < 2; i++) {
    if (!vram__input_wanted(f, i))
      continue;
    a = vram__zero3_fold(s, g);
    b = i ? vram__zero3_fold(s, VRAM__SAVED(f)[0]) : vram__tensor_none();
    to[i] = vram__tensor_empty(s, vram__input_dims(s, f, i, NULL), g.dt);
    vram__blas_workspace(s, VRAM__CUBLAS);
    if (b.d)
      vram__tensor_release(s, b);
    vram__tensor_release(s, a);
  }
  if (f->nin > 2 && vram__input_wanted(f, 2)) {
    a = vram__zero3_fold(s, g);
    to[2] = vram__tensor_sum(s, a, 1, 0, g.dt);
    vram__tensor_release(s, a);
  }
}

/* Linear.cpp, linear; b.d NULL: without bias. shares: each rank adds its share of the bias
   (placement_types.py, Partial._partition_value). */
static vram__tensor vram__torch_linear_of(vram__step *s, vram__tensor x, vram__tensor w,
                                          vram__tensor b, int shares) {
  vram__tensor a[3], wt, p, y, share = vram__tensor_none();
  uint32_t i, k = x.d->ndim;
  int64_t fold[2], size[VRAM_MAX_AXES];
  if (s->zero3_linear && !s->amp)
    return vram__zero3_linear(s, x, w, b);
  a[0] = x;
  a[1] = w;
  a[2] = b;
  for (i = 3; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp ? vram__autocast_cast(s, a[i], s->amp) : vram__tensor_retain(s, a[i]);
  if (shares)
    share = vram__tensor_empty(s, a[2].d, a[2].dt);
  if (vram__linear_is_usual(s, &a[0], &a[1], &a[2])) {
    vram__tensor in[3];
    in[0] = a[2];
    in[1] = a[0];
    in[2] = a[1];
    for (i = 0; i + 1 < k; i++)
      size[i] = a[0].d->v[i];
    size[i] = a[1].d->v[0];
    y = vram__linear(s, in, vram__dims_in(s, k, size, NULL));
  } else if (a[2].d && k == 2) {
    wt = vram__torch_swap(s, a[1], 0, 1);
    y = vram__torch_addmm(s, a[2], a[0], wt, 0);
    vram__tensor_release(s, wt);
  } else if (a[2].d && (a[0].d->flags & VRAM__CONTIG)) {
    fold[0] = 1;
    fold[1] = a[0].d->v[k - 1];
    for (i = 0; i + 1 < k; i++)
      fold[0] *= size[i] = a[0].d->v[i];
    size[i] = a[1].d->v[0];
    p = vram__torch_reshape(s, a[0], 2, fold);
    wt = vram__torch_swap(s, a[1], 0, 1);
    y = vram__torch_addmm(s, a[2], p, wt, 0);
    vram__tensor_release(s, wt);
    if ((s->device.rules->does & VRAM__LINEAR_VIEW))
      vram__tensor_replace(s, &y, vram__torch_reshape(s, y, k, size));
    else
      y = vram__torch_unsafe_view(s, y, vram__dims_in(s, k, size, NULL));
    vram__tensor_release(s, p);
  } else {
    wt = vram__torch_swap(s, a[1], 0, 1);
    y = vram__torch_matmul(s, a[0], wt);
    vram__tensor_release(s, wt);
    if (a[2].d)
      vram__torch_add_(s, &y, a[2]);
  }
  vram__tensor_release(s, share);
  for (i = 0; i < 3; i++)
    if (a[i].d)
      vram__tensor_release(s, a[i]);
  return y;
}

VRAM__FN vram__tensor vram__torch_linear(vram__step *s, vram__tensor x, vram__tensor w,
                                         vram__tensor b) {
  return vram__torch_linear_of(s, x, w, b, 0);
}

/* transformers' Conv1D: addmm of x as a matrix and the weight as it lies */
static vram__tensor vram__conv1d(vram__step *s, const vram__tensor *in, const vram_dims *out) {
  vram__tensor a[3], y;
  int64_t size[VRAM_MAX_AXES];
  size[1] = in[2].d->v[0];
  size[0] = (int64_t)(in[1].d->numel / (uint64_t)size[1]);
  a[0] = in[0];
  a[1] = vram__torch_reshape(s, in[1], 2, size);
  a[2] = in[2];
  y = vram__op_call_n(s, VRAM_OP_addmm, a, 3, NULL, NULL);
  vram__tensor_release(s, a[1]);
  vram__tensor_replace(s, &y, vram__torch_reshape(s, y, out->ndim, out->v));
  return y;
}

static void vram__forward_linear(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__tensor in[3]; /* bias, input, weight */
  in[1] = x[0];
  vram__node_weights(s, n, &in[2], &in[0]);
  if (n->nparam > VRAM__LINEAR_LORA_A && n->param[VRAM__LINEAR_SCALES])
    y[0] = vram__torch_quantised(s, n, in[1], in[0]);
  else if (VRAM__INT(n, conv1d, 0))
    y[0] = vram__conv1d(s, in, n->out[0].d);
  else if (in[0].d && VRAM__INT(n, parallel, 0) == VRAM__WORD(rowwise))
    y[0] = vram__torch_linear_of(s, in[1], in[2], in[0], 1);
  else if (!s->amp && !s->zero3_linear && vram__linear_is_usual(s, &in[1], &in[2], &in[0]))
    y[0] = vram__linear(s, in, n->out[0].d);
  else
    y[0] = vram__torch_linear(s, in[1], in[2], in[0]);
  if (n->nparam > VRAM__LINEAR_LORA_A && n->param[VRAM__LINEAR_LORA_A])
    y[0] = vram__torch_adapter(s, n, x[0], y[0]);
}

/* A linear layer whose weight or bias has a gradient already: AddmmBackward hands on those of the
   bias and of x, TBackward that of the weight; folded axes of x are ViewBackward's, which is older
   than TBackward with a bias and younger without (Linear.cpp). What was added goes with each. */
static VRAM__COLD void vram__linear_shared(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__edge *edge = VRAM__EDGES(f);
  vram__tensor *g = &VRAM__SLOTS(f)[0].g;
  const uint32_t x = f->nin - 2u, folds = g->d->ndim > 2;
  uint32_t i, k, order[3];
  order[0] = 0;
  order[1] = x && folds ? 2 : 1;
  order[2] = 3 - order[1];
  for (i = 0; i < f->nin; i++)
    if (to[i].d)
      vram__gradient_fit(s, edge[i], to + i);
  vram__tensor_release(s, *g);
  g->d = NULL;
  vram__saved_release(s, f);
  for (k = 0; k < f->nin; k++) {
    vram__tensor *t = to + order[k];
    if (t->d)
      vram__gradient_arrive(s, vram__edge_end(s, edge[order[k]]), t);
    if (!k && x && !folds)
      continue; /* the bias goes with x */
    for (i = 0; i <= k; i++)
      if (to[order[i]].d) {
        vram__tensor_release(s, to[order[i]]);
        to[order[i]].d = NULL;
      }
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(linear, "", 1, 3, linear, SAME, low, linear, linear, linear, LINEAR, 0,
         VRAM__OP_OWNS | VRAM__OP_WEIGHT_INPUT | VRAM__OP_FLOATS,
         "out_features! bias frozen weights dtype quant double_quant compute_dtype threshold lora "
         "lora_dropout lora_bias lora_dtype dora rslora conv1d parallel ranks whole tied");
