/* >>net/low_rnn    lowering: recurrent layers, attention, embeddings */
#include "net/low.h"

/* ---- recurrent layers and cells ---- */

typedef struct vram__low_rnn {
  vram_line_kind kind;
  uint32_t time, last; /* axes; a cell has no time */
  int64_t steps, width, hidden;
  int cell, both, bias;
  int y, hn; /* these outputs are needed */
} vram__low_rnn;

static void vram__low_rnn_read(const vram__low *l, const vram_node *n, vram__low_rnn *r) {
  const vram__op_row *row = vram__op_at(n->op);
  const vram_dims *d = n->in[0]->d;
  r->kind = row->kind == VRAM__RNN_LSTM  ? VRAM_LINE_LSTM
            : row->kind == VRAM__RNN_GRU ? VRAM_LINE_GRU
                                         : VRAM_LINE_RNN;
  r->cell = row->lower == VRAM__LOWER_RNN_CELL;
  r->last = d->ndim - 1u;
  r->time = r->cell ? r->last : d->ndim == 3 && VRAM__INT(n, batch_first, 0);
  r->steps = r->cell ? 1 : d->v[r->time];
  r->width = d->v[r->last];
  r->hidden = VRAM__INT(n, hidden_size, 1);
  r->both = VRAM__INT(n, bidirectional, 0) != 0;
  r->bias = VRAM__INT(n, bias, 1) != 0;
  r->y = l->value[n->out[0].index].need;
  r->hn = !r->cell && n->nout > 1 && l->value[n->out[1].index].need;
}

/* What no line of a recurrent layer has. */
static int vram__low_rnn_check(vram__low *l, const vram_node *n, const vram__low_rnn *r) {
  const vram_dims *d = n->in[0]->d;
  const int batched = d->ndim == (r->cell ? 2 : 3);
  uint32_t i;
  if (VRAM__INT(n, proj_size, 0))
    return vram__low_refuse(l, "proj_size: no line has projections");
  if (n->nout > (r->cell ? 1 : 2) &&
      l->value[n->out[r->kind == VRAM_LINE_LSTM && !r->cell ? 2 : 1].index].need)
    return vram__low_refuse(l,
                            "its cell state is used (possible: the output, or the hidden state)");
  for (i = 1; i < n->nin; i++)
    if (!vram__low_constant(l, n->in[i]))
      return vram__low_refuse(l,
                              "its first state is computed (possible: the state stays by itself)");
  if (r->hn && (VRAM__INT(n, num_layers, 1) > 1 || r->both))
    return vram__low_refuse(l, "its hidden state is used (possible: of one layer and direction)");
  if (batched && d->v[r->cell || r->time ? 0 : 1] != l->n)
    return vram__low_refuse(l, "its batch axis is not the batch of the network");
  if (!vram__low_claim(l, n))
    return vram__low_refuse(l, "its weights are another node's: no line shares them");
  return 1;
}

/* One layer and direction: the sequence, or its last step. */
static vram__low_step *vram__low_rnn_layer(vram__low *l, const vram__low_rnn *r, uint32_t x,
                                           const char *suffix) {
  const int sequence = r->y && !r->cell;
  vram__low_step *s =
      vram__low_layer(l, r->kind, vram__hwc_of(sequence ? r->steps : 1, 1, r->hidden), x,
                      vram__hwc_of(r->steps, 1, r->width));
  if (!s)
    return NULL;
  s->suffix = suffix;
  s->line.arg[0] = r->hidden;
  s->line.arg[1] = r->bias ? 2 : 0;
  s->line.arg[2] = sequence;
  return s;
}

/* A layer in both directions, one behind the other in each step. */
static vram__low_step *vram__low_rnn_both(vram__low *l, const vram__low_rnn *r, uint32_t x) {
  const vram__hwc half = vram__hwc_of(r->steps, 1, r->hidden);
  const vram__low_step *forward = vram__low_rnn_layer(l, r, x, "_forward"), *back;
  vram__low_step *s;
  if (!forward)
    return NULL;
  back = vram__low_rnn_layer(l, r, x, "_backward");
  if (!back)
    return NULL;
  s = vram__low_layer(l, VRAM_LINE_CONCAT, vram__hwc_of(r->steps, 1, 2 * r->hidden), forward->out,
                      half);
  if (!s || !vram__low_read(l, s, back->out, half))
    return NULL;
  s->how = VRAM__LOW_JOIN;
  return s;
}

/* The hidden state: what the last layer gives, or the last step of it. */
static int vram__low_rnn_state(vram__low *l, const vram_node *n, const vram__low_rnn *r,
                               const vram__low_step *layer, const vram__layout *lay) {
  vram__layout h = *lay;
  vram__low_step *s;
  uint32_t i;
  vram__layout_resize(&h, r->time, 1);
  for (i = 0; i < h.n; i++)
    h.axis[i] = (uint8_t)(h.axis[i] == r->last ? n->out[1].d->ndim - 1u : 1u);
  vram__layout_number(&h);
  if (!r->y)
    return vram__low_gives(l, layer, n->out + 1, &h);
  s = vram__low_layer(l, VRAM_LINE_SLICE, vram__hwc_of(1, 1, r->hidden), layer->out,
                      vram__hwc_of(r->steps, 1, r->hidden));
  if (!s)
    return 0;
  s->suffix = "_last";
  vram__low_shape_args(&s->line, vram__hwc_of(1, 1, r->hidden));
  return vram__low_gives(l, s, n->out + 1, &h);
}

VRAM__FN int vram__lower_rnn(vram__low *l, const vram_node *n) {
  const int64_t layers = VRAM__INT(n, num_layers, 1);
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram__low_step *s = NULL;
  vram__low_rnn r;
  vram__layout lay;
  uint32_t axes[2], in;
  int64_t layer;
  if (l->first)
    return vram__low_refuse(l, "its input is a constant");
  vram__low_rnn_read(l, n, &r);
  if (!vram__low_rnn_check(l, n, &r))
    return 0;
  axes[0] = r.time;
  axes[1] = r.last;
  if (!vram__low_axes_order(l, x, axes + r.cell, r.cell ? 1 : 2, 1,
                            vram__hwc_of(r.steps, 1, r.width)))
    return 0;
  in = x->at;
  for (layer = 0; layer < layers; layer++) {
    s = r.both ? vram__low_rnn_both(l, &r, in) : vram__low_rnn_layer(l, &r, in, "");
    if (!s)
      return 0;
    in = s->out;
    r.width = r.both ? 2 * r.hidden : r.hidden;
  }
  lay = x->lay;
  lay.loose = 0;
  if (!vram__layout_inner(&lay, r.last, r.width))
    return vram__low_refuse(l, "too many axes");
  if (r.y)
    vram__low_gives(l, s, n->out, &lay);
  return !r.hn || vram__low_rnn_state(l, n, &r, s, &lay);
}

/* ---- attention ---- */

VRAM__FN int vram__lower_attention(vram__low *l, const vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d;
  const uint64_t keys = (uint64_t)k->v[k->ndim - 2u];
  const uint64_t rows = q->numel / (uint64_t)q->v[q->ndim - 1u];
  vram__low_cost cost = {0, 0, 0, 0};
  cost.macs = vram_node_flops(n) / 2;
  cost.scratch = vram__low_bytes(l, vram__product_or_overflow(rows, keys));
  return vram__low_any(l, n, &cost);
}

/* With keys or values of another sequence, or a mask: no line has them. */
static int vram__low_mha_custom(vram__low *l, const vram_node *n, int64_t heads, int64_t steps,
                                int64_t keys) {
  const vram_dims *q = n->in[0]->d;
  const int64_t e = q->v[q->ndim - 1];
  vram__low_cost cost = {0, 0, 0, 0};
  uint32_t i;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i]) {
      const uint64_t elements = n->param[i]->d->numel;
      cost.params += elements;
      cost.bytes += n->param[i]->d->ndim > 1 ? vram__low_weight_bytes(l, elements)
                                             : vram__low_bias_bytes(l, elements);
    }
  cost.bytes += vram__low_scale_bytes(l, 4, 0);
  cost.macs = vram_node_flops(n) / 2;
  cost.scratch = vram__low_bytes(
      l, (uint64_t)(l->n * e * (2 * steps + 2 * keys) + l->n * heads * steps * keys));
  return vram__low_any(l, n, &cost);
}

VRAM__FN int vram__lower_mha(vram__low *l, const vram_node *n) {
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram_dims *q = n->in[0]->d;
  const int batched = q->ndim == 3;
  const uint32_t time = batched && VRAM__INT(n, batch_first, 0) ? 1 : 0;
  const int64_t heads = VRAM__INT(n, num_heads, 1);
  const vram__hwc shape = vram__hwc_of(q->v[time], 1, q->v[q->ndim - 1]);
  uint32_t axes[2];
  vram__layout y;
  vram__low_step *s;
  if (n->nout > 1 && l->value[n->out[1].index].need)
    return vram__low_refuse(l, "its weights of attention are used");
  if (VRAM__INT(n, add_bias_kv, 0) || VRAM__INT(n, add_zero_attn, 0))
    return vram__low_refuse(l, "add_bias_kv, add_zero_attn: no line has such keys");
  if (batched && q->v[!time] != l->n)
    return vram__low_refuse(l, "its batch axis is not the batch of the network");
  axes[0] = time;
  axes[1] = q->ndim - 1u;
  if (x->kind == VRAM__LOW_TENSOR && !vram__low_axes_order(l, x, axes, 2, 0, shape))
    return 0;
  if (!vram__low_claim(l, n))
    return vram__low_refuse(l, "its weights are another node's: no line shares them");
  if (n->in[0] != n->in[1] || n->in[0] != n->in[2] || n->nin != 3)
    return vram__low_mha_custom(l, n, heads, shape.h, n->in[1]->d->v[time]);
  s = vram__low_layer(l, VRAM_LINE_SELF_ATTENTION, shape, x->at, shape);
  if (!s)
    return 0;
  s->line.arg[0] = heads;
  s->line.arg[1] = heads;
  s->line.arg[2] = shape.c / heads;
  s->line.arg[3] = VRAM__INT(n, bias, 1) != 0;
  y = x->lay;
  y.loose = 0;
  return vram__low_gives(l, s, n->out, &y);
}

/* ---- embeddings ---- */

VRAM__FN int vram__lower_embedding(vram__low *l, const vram_node *n) {
  const vram_dims *d = n->out[0].d;
  const int64_t width = d->v[d->ndim - 1];
  const int64_t rows = n->in[0]->d->ndim ? (int64_t)n->in[0]->d->numel / l->n : 1;
  const vram__low_value *x = vram__low_of(l, n->in[0]);
  vram__layout y = x->lay;
  vram__low_step *s;
  if (l->first)
    return vram__low_refuse(l, "its weight is computed from the input");
  if (n->nin > 1 ? !vram__low_take(l, n->in[1], n->in[1]->d->numel) : !vram__low_claim(l, n))
    return vram__low_refuse(l, "its weights are another node's: no line shares them");
  if (!vram__layout_inner(&y, d->ndim - 1u, width))
    return vram__low_refuse(l, "too many axes");
  s = vram__low_layer(l, VRAM_LINE_EMBEDDING, vram__hwc_of(rows, 1, width), x->at,
                      vram__hwc_of(rows, 1, 1));
  if (!s)
    return 0;
  s->line.arg[0] = n->nin > 1 ? n->in[1]->d->v[0] : VRAM__INT(n, num_embeddings, 1);
  s->line.arg[1] = width;
  return vram__low_gives(l, s, n->out, &y);
}
