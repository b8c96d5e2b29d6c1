/* >>ops/flops    floating-point operations of a node (torch/utils/flop_counter.py) */
#include "ops/shape.h"

static uint64_t vram__weights_of(const vram_node *n, uint32_t from) { /* elements of matrices */
  uint64_t all = 0;
  uint32_t i;
  for (i = from; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->d->ndim > 1)
      all = vram__sum_or_overflow(all, n->param[i]->d->numel);
  return all;
}

static uint64_t vram__attention_flops(const vram_dims *q, const vram_dims *k, const vram_dims *v) {
  const uint64_t keys = (uint64_t)(k->ndim > 1 ? k->v[k->ndim - 2] : 1);
  const uint64_t width = v->ndim ? (uint64_t)v->v[v->ndim - 1] : 1;
  const uint64_t depth = q->ndim ? (uint64_t)q->v[q->ndim - 1] : 1;
  const uint64_t rows = depth ? q->numel / depth : 0;
  return vram__product_or_overflow(
      vram__product_or_overflow(2, vram__product_or_overflow(rows, keys)),
      vram__sum_or_overflow(depth, width));
}

VRAM_API uint64_t vram_node_flops(const vram_node *n) {
  const vram_dims *x = n->nin ? n->in[0]->d : NULL, *w = NULL, *y;
  uint64_t flops, k;
  uint32_t i, first;
  if (n->op >= VRAM_OP_COUNT || !n->nout)
    return 0;
  y = n->out[0].d;
  switch (n->op) {
  case VRAM_OP_conv1d:
  case VRAM_OP_conv2d:
  case VRAM_OP_conv3d:
  case VRAM_OP_conv_transpose1d:
  case VRAM_OP_conv_transpose2d:
  case VRAM_OP_conv_transpose3d: {
    const vram_dims *over = n->op >= VRAM_OP_conv_transpose1d ? x : y;
    w = n->nin > 1 ? n->in[1]->d : n->param[0]->d;
    first = over->ndim + 2u - w->ndim; /* without a batch it has one axis less */
    flops = vram__product_or_overflow(2, w->numel);
    for (i = 0; i < over->ndim; i++)
      if (i + 1 != first)
        flops = vram__product_or_overflow(flops, (uint64_t)over->v[i]);
    return flops;
  }
  case VRAM_OP_linear:
    return vram__product_or_overflow(
        2, vram__product_or_overflow(y->numel, x->ndim ? (uint64_t)x->v[x->ndim - 1] : 1));
  case VRAM_OP_addmm:
  case VRAM_OP_baddbmm:
    x = n->in[1]->d;
    return vram__product_or_overflow(
        2, vram__product_or_overflow(y->numel, (uint64_t)x->v[x->ndim - 1]));
  case VRAM_OP_matmul:
  case VRAM_OP_bmm:
  case VRAM_OP_mm:
  case VRAM_OP_grouped_mm:
    return vram__product_or_overflow(
        2, vram__product_or_overflow(y->numel, x->ndim ? (uint64_t)x->v[x->ndim - 1] : 1));
  case VRAM_OP_einsum: {
    vram__labels l;
    const char *what;
    if (n->nin < 2 || !vram__label_all(&l, n, &what))
      return y->numel;
    for (flops = vram__product_or_overflow(2, n->nin - 1), i = 0; i < l.n; i++)
      flops = vram__product_or_overflow(flops, (uint64_t)l.size[i]);
    return flops;
  }
  case VRAM_OP_bilinear:
    return vram__product_or_overflow(
        vram__product_or_overflow(2, y->numel),
        n->param[0]->d->numel / (uint64_t)(n->param[0]->d->v[0] ? n->param[0]->d->v[0] : 1));
  case VRAM_OP_scaled_dot_product_attention:
    return vram__attention_flops(x, n->in[1]->d, n->in[2]->d);
  case VRAM_OP_multi_head_attention:
    k = x->ndim && x->v[x->ndim - 1] ? (uint64_t)x->v[x->ndim - 1] : 1;
    flops = vram__product_or_overflow(vram__product_or_overflow(2, x->numel / k),
                                      vram__weights_of(n, 0));
    return vram__sum_or_overflow(flops, vram__attention_flops(x, n->in[1]->d, n->in[2]->d));
  case VRAM_OP_lstm:
  case VRAM_OP_gru:
  case VRAM_OP_rnn:
  case VRAM_OP_lstm_cell:
  case VRAM_OP_gru_cell:
  case VRAM_OP_rnn_cell:
    k = x->ndim && x->v[x->ndim - 1] ? (uint64_t)x->v[x->ndim - 1] : 1;
    return vram__product_or_overflow(vram__product_or_overflow(2, x->numel / k),
                                     vram__weights_of(n, 0));
  case VRAM_OP_moe: {
    const uint64_t experts = (uint64_t)VRAM__INT(n, num_experts, 1);
    k = x->ndim && x->v[x->ndim - 1] ? (uint64_t)x->v[x->ndim - 1] : 1;
    flops = vram__weights_of(n, 0);
    for (i = 0; i < n->nparam; i++) { /* of the experts' stacked weights top_k are used */
      const vram_dims *d = n->param[i] ? n->param[i]->d : NULL;
      if (d && d->ndim == 3 && experts)
        flops -= d->numel - d->numel / experts * (uint64_t)VRAM__INT(n, top_k, 1);
    }
    return vram__product_or_overflow(vram__product_or_overflow(2, x->numel / k), flops);
  }
  default:
    break;
  }
  if (n->op == VRAM_OP_parameter || n->op == VRAM_OP_buffer ||
      (n->op >= VRAM_OP_reshape && n->op <= VRAM_OP_detach)) /* views */
    return 0;
  return y->numel;
}
