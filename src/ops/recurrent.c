/* >>ops/recurrent    lstm, gru, rnn and their cells */
#include "ops/ops.h"

/* What nn.LSTM, nn.GRU and nn.RNN are made of. */
typedef struct vram__rnn {
  int64_t T, B, width, H,
      P;               /* steps, batch, input, hidden units, units that go on (proj_size or H) */
  int64_t L, D, gates; /* layers, directions */
  int lstm, bias, proj, first; /* first: the batch is the first axis */
  uint32_t params;             /* of one layer and direction */
} vram__rnn;

static void vram__rnn_of(const vram_node *n, const vram_dims *x, vram__rnn *r) {
  int batch = x->ndim == 3;
  r->lstm = n->op == VRAM_OP_lstm;
  r->gates = r->lstm ? 4 : n->op == VRAM_OP_gru ? 3 : 1;
  r->first = batch && VRAM__INT(n, batch_first, 0);
  r->T = x->v[r->first];
  r->B = batch ? x->v[!r->first] : 1;
  r->width = x->v[x->ndim - 1u];
  r->H = VRAM__INT(n, hidden_size, 0);
  r->P = VRAM__INT(n, proj_size, 0);
  r->proj = r->P > 0;
  if (!r->proj)
    r->P = r->H;
  r->L = VRAM__INT(n, num_layers, 1);
  r->D = VRAM__INT(n, bidirectional, 0) ? 2 : 1;
  r->bias = VRAM__INT(n, bias, 1) != 0;
  r->params = 2u + 2u * (uint32_t)r->bias + (uint32_t)r->proj;
}

/* "weight_ih_l0", "bias_hh_l1_reverse": the name of a parameter as torch.nn gives it */
static const char *vram__rnn_role(vram_graph *g, const char *what, int64_t layer, int reverse) {
  char t[64];
  uint32_t k = 0;
  t[0] = 0;
  vram__text_puts(t, sizeof t, &k, what);
  if (layer >= 0) {
    vram__text_puts(t, sizeof t, &k, "_l");
    vram__text_puti(t, sizeof t, &k, layer);
    if (reverse)
      vram__text_puts(t, sizeof t, &k, "_reverse");
  }
  return vram__graph_keep_text(g, t, k + 1);
}

/* The parameters of one layer and direction (layer -1: a cell) from slot `at` on. */
static int vram__rnn_own(vram_graph *g, vram_node *n, uint32_t at, const vram__rnn *r,
                         int64_t layer, int reverse, int64_t in) {
  static const char *const name[5] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
  int64_t size[2];
  uint32_t k;
  for (k = 0; k < 5; k++) {
    const char *role;
    if ((k == 2 || k == 3) && !r->bias)
      continue;
    if (k == 4 && !r->proj)
      continue;
    role = vram__rnn_role(g, name[k], layer, reverse);
    size[0] = k < 4 ? r->gates * r->H : r->P;
    size[1] = k == 0 ? in : k == 1 ? r->P : r->H;
    if (!role ||
        !vram__node_own(g, n, at++, role, k == 2 || k == 3 ? 1 : 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  return 1;
}

/* Input i, the state before the first step, has these sizes. */
static int vram__rnn_state(vram_graph *g, const vram_node *n, uint32_t i, uint32_t ndim,
                           const int64_t *size) {
  const vram_dims *d;
  uint32_t a;
  if (i >= n->nin)
    return 1;
  d = n->in[i]->d;
  for (a = 0; a < ndim; a++)
    if (d->ndim != ndim || d->v[a] != size[a])
      return vram__node_error(g, n, "a state of another shape");
  return 1;
}

static int vram__shape_rnn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  vram__rnn r;
  int64_t size[3], layer;
  uint32_t m, k, at = 0;
  uint8_t dt = n->in[0]->dtype;
  if (x->ndim != 2 && x->ndim != 3)
    return vram__node_error(g, n, "an input of other than two or three axes");
  vram__rnn_of(n, x, &r);
  if (r.H < 1 || r.H > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "hidden_size must be at least 1");
  if (VRAM__INT(n, proj_size, 0) < 0 || (r.proj && r.P >= r.H))
    return vram__node_error(g, n, "proj_size must be smaller than hidden_size");
  if (r.L < 1 || r.L > VRAM__MAX_RNN_LAYERS)
    return vram__node_error(g, n, "num_layers must be 1 to 4096");
  if (r.T < 1 || r.width < 1 || r.width > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "a sequence of no steps or no values");
  if (n->nin == 2 && r.lstm)
    return vram__node_error(g, n, "lstm with a hidden state and no cell state");
  if (VRAM__INT(n, dropout, 0) < 0 || VRAM__INT(n, dropout, 0) > VRAM__ONE)
    return vram__node_error(g, n, "dropout must be 0 to 1");
  if (!vram__node_params(g, n, (uint32_t)(r.L * r.D) * r.params))
    return 0;
  for (layer = 0; layer < r.L; layer++)
    for (k = 0; k < (uint32_t)r.D; k++, at += r.params)
      if (!vram__rnn_own(g, n, at, &r, layer, k == 1, layer ? r.P * r.D : r.width))
        return 0;
  if (!r.bias && !vram__node_list(n, VRAM__KEY_weights, NULL))
    g->flat_pad += (uint64_t)(2 * r.gates * r.H * r.L * r.D);
  if (VRAM__INT(n, dropout, 0))
    g->rnn_dropout++;
  g->extra += (uint64_t)n->nparam * 512 + 4096;
  m = 0;
  size[m++] = r.L * r.D;
  if (x->ndim == 3)
    size[m++] = r.B;
  size[m++] = r.P;
  if (!vram__rnn_state(g, n, 1, m, size))
    return 0;
  if (n->nout > 1 && !vram__node_out(g, n, 1, m, size, dt))
    return 0;
  size[m - 1] = r.H;
  if (!vram__rnn_state(g, n, 2, m, size))
    return 0;
  if (n->nout > 2 && r.lstm && !vram__node_out(g, n, 2, m, size, dt))
    return 0;
  for (m = 0; m + 1 < x->ndim; m++)
    size[m] = x->v[m];
  size[m] = r.P * r.D;
  return vram__node_out(g, n, 0, m + 1, size, dt);
}

static int vram__shape_rnn_cell(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  vram__rnn r;
  int64_t size[2];
  uint32_t m = 0;
  if (x->ndim != 1 && x->ndim != 2)
    return vram__node_error(g, n, "an input of other than one or two axes");
  vram__memory_zero(&r, sizeof r);
  r.width = x->v[x->ndim - 1];
  r.H = r.P = VRAM__INT(n, hidden_size, 0);
  r.gates = n->op == VRAM_OP_lstm_cell ? 4 : n->op == VRAM_OP_gru_cell ? 3 : 1;
  r.bias = VRAM__INT(n, bias, 1) != 0;
  r.params = r.bias ? 4 : 2;
  if (r.H < 1 || r.H > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "hidden_size must be at least 1");
  if (n->op == VRAM_OP_lstm_cell && n->nin == 2)
    return vram__node_error(g, n, "lstm_cell with a hidden state and no cell state");
  if (!vram__node_params(g, n, r.params) || !vram__rnn_own(g, n, 0, &r, -1, 0, r.width))
    return 0;
  if (x->ndim == 2)
    size[m++] = x->v[0];
  size[m++] = r.H;
  g->extra += 4096;
  if (!vram__rnn_state(g, n, 1, m, size) || !vram__rnn_state(g, n, 2, m, size))
    return 0;
  if (n->nout > 1 && n->op == VRAM_OP_lstm_cell &&
      !vram__node_out(g, n, 1, m, size, n->in[0]->dtype))
    return 0;
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

static uint64_t vram__flops_rnn(const vram_node *n) {
  return vram__product_or_overflow(vram__product_or_overflow(2, vram__input_rows(n)),
                                   vram__matrix_elements(n));
}

#ifndef VRAM_NO_STEP

/* Elements of the flat weights: cuDNN's has room for both biases in any case. */
static uint64_t vram__rnn_flat(const vram__rnn *r) {
  uint64_t g = (uint64_t)(r->gates * r->H), n = 0;
  n = g * (uint64_t)(r->width + r->P + 2) + (uint64_t)(r->proj ? r->P * r->H : 0);
  n += (uint64_t)(r->L - 1) *
       (g * (uint64_t)(r->P * r->D + r->P + 2) + (uint64_t)(r->proj ? r->P * r->H : 0));
  return n * (uint64_t)r->D;
}

/* ---- recurrent ---- */

VRAM__FN const vram_dims *vram__rnn_state_dims(vram__step *s) {
  int64_t bytes = VRAM__RNN_DROPOUT_STATE;
  return vram__dims_in(s, 1, &bytes, NULL);
}

/* Bytes of the workspace and, with reserve, of what one step keeps for backward: guesses, see the
   rules */
static uint64_t vram__rnn_bytes(const vram__rnn *r, uint8_t dt, int reserve) {
  uint64_t n = vram__product_or_overflow(
      vram__product_or_overflow((uint64_t)r->T, (uint64_t)r->B),
      vram__product_or_overflow((uint64_t)(r->H * r->D), vram__dtype_size(dt)));
  if (!reserve)
    return vram__product_or_overflow(n, (uint64_t)r->gates);
  return vram__product_or_overflow(vram__product_or_overflow(n, (uint64_t)r->L),
                                   r->lstm         ? VRAM__RNN_RESERVE_LSTM
                                   : r->gates == 3 ? VRAM__RNN_RESERVE_GRU
                                                   : VRAM__RNN_RESERVE_RNN);
}

/* dims of y: [T,B,D*P], by steps in memory also where the batch is the first axis */
static const vram_dims *vram__rnn_out(vram__step *s, const vram__rnn *r) {
  int64_t size[3];
  const vram_dims *d;
  size[0] = r->T, size[1] = r->B, size[2] = r->D * r->P;
  d = vram__dims_in(s, 3, size, NULL);
  return r->first ? vram__dims_swapped(s, d, 0, 1) : d;
}

/* RNN.cpp, _cudnn_rnn. Under autocast everything runs in f16, from weights that are copied into a
   new flat buffer; bf16 weights are no flat buffer to begin with. */
static void vram__forward_rnn(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__rnn r;
  vram__tensor in[3], own[2], out[3], flat = vram__tensor_none(), *w, c = vram__tensor_none(), t,
                                      reserve = c;
  const vram_dims *state[2];
  vram__grad_fn *f = NULL;
  int64_t size[3], *dims = size;
  uint32_t i, k, wants = 0, states;
  uint8_t dt = x[0].dt, cat = s->cat;
  int flat2 = x[0].d->ndim == 2, drop = s->train && VRAM__INT(n, dropout, 0) != 0;
  vram__rnn_of(n, x[0].d, &r);
  states = r.lstm ? 2 : 1;
  own[0] = own[1] = vram__tensor_none();
  size[0] = r.L * r.D, size[1] = r.B, size[2] = r.P;
  state[0] = vram__dims_in(s, 3, dims, NULL);
  size[2] = r.H;
  state[1] = vram__dims_in(s, 3, dims, NULL);
  in[0] = flat2 ? vram__torch_unsqueeze(s, x[0], 1) : vram__tensor_retain(s, x[0]);
  in[1] = in[2] = vram__tensor_none();
  for (i = 0; i < states; i++) /* zeros where the caller gives no state */
    if (n->nin == 1)
      own[i] = vram__tensor_empty(s, state[i], dt), in[1 + i] = vram__tensor_retain(s, own[i]);
    else
      in[1 + i] = flat2 ? vram__torch_unsqueeze(s, x[1 + i], 1) : vram__tensor_retain(s, x[1 + i]);
  /* RNN.cpp, get_dropout_state: made by the first call, from a random seed */
  if (drop && (!s->rnn_dropout.d || s->rnn_reset)) {
    vram__tensor old = s->rnn_dropout;
    vram__workspace_use(s, 8);
    s->cat = VRAM_CATEGORY_WORKSPACE;
    s->rnn_dropout = vram__tensor_empty(s, vram__rnn_state_dims(s), VRAM_U8);
    s->rnn_reset = 0;
    vram__tensor_release(s, old);
    s->cat = cat;
  }
  w = (vram__tensor *)vram__memory_take(s->mem, &s->used, s->cap, n->nparam * (uint64_t)sizeof *w);
  if (!w) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  size[0] = (int64_t)vram__rnn_flat(&r);
  for (i = 0; i < n->nparam; i++)
    w[i] = s->param[n->param[i]->index];
  if (s->amp) {
    dt = VRAM_F16;
    s->cat = VRAM_CATEGORY_AUTOCAST;
    flat = vram__tensor_empty(s, vram__dims_in(s, 1, size, NULL), dt);
    s->cat = cat;
    for (i = 0; i < n->nparam; i++) { /* copied one by one */
      vram__grad_fn *g = vram__tape_record(s, VRAM__K_cast, &w[i], 1, 1, 0);
      w[i] = vram__tensor_alias(s, flat, w[i].d);
      w[i].dt = dt;
      vram__grad_fn_set_output(s, g, 0, &w[i]);
    }
    for (k = 3; k-- > 0;) { /* cell state, state, input */
      i = k == 2 ? 2 : k == 1 ? 1 : 0;
      if (!in[i].d)
        continue;
      t = vram__torch_cast(s, in[i], dt);
      vram__tensor_release(s, in[i]);
      in[i] = t;
    }
  }
  for (i = 0; i < 3; i++)
    wants |= in[i].d && in[i].req;
  for (i = 0; i < n->nparam; i++)
    wants |= w[i].req;
  if (s->grad && wants)
    f = vram__tape_record_raw(s, n->op, 3 + n->nparam, 3, 7);
  if (f) {
    for (i = 0; i < 3; i++)
      vram__tape_edge(s, f, i, in[i].d && in[i].req ? in[i].fn : 0, in[i].d ? in[i].out : 0);
    for (i = 0; i < n->nparam; i++)
      vram__tape_edge(s, f, 3 + i, w[i].req ? w[i].fn : 0, w[i].out);
  }
  t = in[0];
  if (r.first)
    t.d = vram__dims_swapped(s, t.d, 0, 1);
  if (!(t.d->flags & VRAM__CONTIG))
    c = vram__tensor_contiguous(s, t);
  out[0] = vram__tensor_empty(s, vram__rnn_out(s, &r), dt);
  out[1] = vram__tensor_empty(s, state[0], dt);
  out[2] = r.lstm ? vram__tensor_empty(s, state[1], dt) : vram__tensor_none();
  if (!s->amp && w[0].dt == VRAM_BF16)
    flat = vram__tensor_empty(s, vram__dims_in(s, 1, size, NULL), dt);
  k = vram__cub_hold(s, vram__rnn_bytes(&r, dt, 0));
  if (s->train) {
    size[0] = (int64_t)vram__rnn_bytes(&r, VRAM_U8, 1);
    reserve.d = vram__dims_in(s, 1, size, NULL);
    reserve.dt = dt;
    reserve.st = vram__storage_new(s, vram__rnn_bytes(&r, dt, 1));
  }
  vram__cub_release(s, k);
  vram__tensor_release(s, c);
  if (f) {
    f->aux = (uint64_t)(in[2].d != NULL) | (uint64_t)(flat.d != NULL) << 1;
    if (in[2].d)
      vram__save_tensor(s, f, in[2]);
    vram__save_tensor(s, f, in[1]);
    vram__save_tensor(s, f, in[0]);
    vram__save_tensor(s, f, out[0]);
    vram__save_tensor(s, f, reserve);
    if (drop)
      vram__save_tensor(s, f, s->rnn_dropout);
    if (flat.d)
      vram__save_tensor(s, f, flat);
  }
  for (i = 0; i < 3; i++)
    if (out[i].d)
      vram__grad_fn_set_output(s, f, i, &out[i]);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, in[i]);
  vram__tensor_release(s, reserve);
  if (s->amp)
    for (i = 0; i < n->nparam; i++)
      vram__tensor_release(s, w[i]);
  vram__tensor_release(s, flat);
  for (i = 0; i < 2; i++)
    vram__tensor_release(s, own[i]);
  for (i = 3; i-- > 0;) {
    if (flat2 && out[i].d) {
      t = vram__torch_squeeze1(s, out[i], 1);
      vram__tensor_release(s, out[i]);
      out[i] = t;
    }
    if (i < n->nout)
      y[i] = out[i];
    else
      vram__tensor_release(s, out[i]);
  }
}

static void vram__backward_rnn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__rnn r;
  const vram_node *n = f->node;
  const vram__tensor *saved = VRAM__SAVED(f) + (f->aux & 1);
  vram__tensor cx = f->aux & 1 ? VRAM__SAVED(f)[0] : vram__tensor_none(), hx = saved[0],
               x = saved[1], g[3], zero[3], dense[3], c = vram__tensor_none(), d[3], flat;
  uint32_t i, wants = 0, work;
  uint8_t dt = x.dt;
  uint64_t ws;
  int64_t size;
  vram__rnn_of(n, x.d, &r);
  ws = vram__rnn_bytes(&r, dt, 0);
  for (i = 0; i < 3; i++) { /* zeros stand in for outputs that nothing came back for */
    g[i] = VRAM__SLOTS(f)[i].g;
    zero[i] = dense[i] = vram__tensor_none();
    if (!g[i].d && (i < 2 || cx.d))
      g[i] = zero[i] = vram__tensor_empty(s,
                                          i == 0   ? vram__dims_contiguous(s, vram__rnn_out(s, &r))
                                          : i == 1 ? hx.d
                                                   : cx.d,
                                          dt);
  }
  if (r.first)
    x.d = vram__dims_swapped(s, x.d, 0, 1), g[0].d = vram__dims_swapped(s, g[0].d, 0, 1);
  if (!(x.d->flags & VRAM__CONTIG))
    c = vram__tensor_contiguous(s, x);
  if (!(g[0].d->flags & VRAM__CONTIG))
    dense[0] = vram__tensor_contiguous(s, g[0]);
  d[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), dt);
  if (r.first)
    d[0].d = vram__dims_swapped(s, d[0].d, 0, 1);
  for (i = 1; i < 3; i++)
    if (g[i].d && !(g[i].d->flags & VRAM__CONTIG))
      dense[i] = vram__tensor_contiguous(s, g[i]);
  d[1] = vram__tensor_empty(s, hx.d, dt);
  d[2] = cx.d ? vram__tensor_empty(s, cx.d, dt) : vram__tensor_none();
  vram__workspace_use(s, ws);
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, dense[i]);
  vram__tensor_release(s, c);
  for (i = 3; i < f->nin; i++)
    wants |= (uint32_t)vram__input_wanted(f, i);
  if (wants) { /* gradients of the parameters are views of one buffer like the weights */
    c = vram__tensor_none();
    if (!(x.d->flags & VRAM__CONTIG))
      c = vram__tensor_contiguous(s, x);
    size = (int64_t)vram__rnn_flat(&r);
    flat = vram__tensor_empty(s, vram__dims_in(s, 1, &size, NULL), dt);
    work = vram__cub_hold(s, ws);
    for (i = 3; i < f->nin; i++)
      if (vram__input_wanted(f, i)) {
        const vram_dims *w = n->param[i - 3]->d;
        to[i] = r.bias ? vram__tensor_view(s, flat, w) : vram__tensor_empty(s, w, dt);
      }
    vram__cub_release(s, work);
    vram__tensor_release(s, flat);
    vram__tensor_release(s, c);
  }
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, zero[i]);
  for (i = 0; i < 3; i++)
    if (d[i].d && vram__input_wanted(f, i))
      to[i] = d[i];
    else
      vram__tensor_release(s, d[i]);
}

/* Weights of a cell: w_ih w_hh b_ih b_hh */
static void vram__rnn_cell_weights(const vram__step *s, const vram_node *n, vram__tensor *w) {
  uint32_t i;
  for (i = 0; i < 4; i++)
    w[i] = i < n->nparam ? s->param[n->param[i]->index] : vram__tensor_none();
}

/* x w^T (+ b), of matrices */
VRAM__FN vram__tensor vram__torch_linear2(vram__step *s, vram__tensor x, vram__tensor w,
                                          vram__tensor b) {
  vram__tensor wt = vram__torch_swap(s, w, 0, 1),
               y = b.d ? vram__torch_addmm(s, b, x, wt, 0)
                       : vram__torch_product(s, VRAM__K_mm, x, wt);
  vram__tensor_release(s, wt);
  return y;
}

/* RNN.cpp, RNN.cu: lstm_cell and gru_cell add two products in one kernel of their own, rnn_cell
   adds and applies its function */
static void vram__forward_rnn_cell(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__tensor w[4], in[3], hx, zero = vram__tensor_none(), a, b, ws, f_in[5], t;
  vram__grad_fn *f;
  int64_t H = VRAM__INT(n, hidden_size, 0), size[2];
  int lstm = n->op == VRAM_OP_lstm_cell, gru = n->op == VRAM_OP_gru_cell, one = x[0].d->ndim == 1;
  uint32_t i;
  vram__rnn_cell_weights(s, n, w);
  in[0] = one ? vram__torch_unsqueeze(s, x[0], 0) : vram__tensor_retain(s, x[0]);
  size[0] = in[0].d->v[0], size[1] = H;
  in[1] = in[2] = vram__tensor_none();
  if (n->nin == 1) {
    zero = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), x[0].dt);
    in[1] = vram__tensor_retain(s, zero);
    if (lstm)
      in[2] = vram__tensor_retain(s, zero);
  } else
    for (i = 1; i < n->nin; i++)
      in[i] = one ? vram__torch_unsqueeze(s, x[i], 0) : vram__tensor_retain(s, x[i]);
  for (i = 4; i-- > 0;)
    if (w[i].d)
      w[i] = s->amp ? vram__autocast_cast(s, w[i], s->amp) : vram__tensor_retain(s, w[i]);
  for (i = 1; s->amp && i <= 3; i++) { /* state, cell state, input */
    uint32_t k = i % 3;
    if (!in[k].d)
      continue;
    t = vram__autocast_cast(s, in[k], s->amp);
    vram__tensor_release(s, in[k]);
    in[k] = t;
  }
  hx = in[1];
  if (lstm || gru) {
    a = vram__torch_linear2(s, in[0], w[0], vram__tensor_none());
    b = vram__torch_linear2(s, hx, w[1], vram__tensor_none());
    f_in[0] = a, f_in[1] = b, f_in[2] = lstm ? in[2] : hx;
    f_in[3] = w[2].d ? w[2] : a, f_in[4] = w[2].d ? w[3] : a;
    f = vram__tape_record(s, lstm ? VRAM__K_lstm_gates : VRAM__K_gru_gates, f_in, w[2].d ? 5 : 3,
                          lstm ? 2 : 1, 7);
    size[1] = H * (lstm ? 4 : 5);
    ws = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
    size[1] = H;
    y[0] = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
    if (lstm)
      y[1] = vram__tensor_empty(s, y[0].d, a.dt);
    if (f) {
      if (lstm)
        vram__save_tensor(s, f, in[2]);
      if (w[2].d)
        vram__save_tensor(s, f, w[3]);
      vram__save_tensor(s, f, b);
      if (gru)
        vram__save_tensor(s, f, hx);
      if (w[2].d)
        vram__save_tensor(s, f, w[2]);
      vram__save_tensor(s, f, a);
      if (lstm)
        vram__save_tensor(s, f, y[1]);
      vram__save_tensor(s, f, ws);
    }
    vram__tensor_release(s, ws);
    vram__grad_fn_set_output(s, f, 0, &y[0]);
    if (lstm)
      vram__grad_fn_set_output(s, f, 1, &y[1]);
    vram__tensor_release(s, b);
    vram__tensor_release(s, a);
  } else {
    uint32_t kind =
        VRAM__INT(n, nonlinearity, 0) == VRAM__WORD("relu") ? VRAM_OP_relu : VRAM_OP_tanh;
    a = vram__torch_linear2(s, hx, w[1], w[3]);
    b = vram__torch_linear2(s, in[0], w[0], w[2]);
    vram__torch_add_(s, &a, b);
    f = vram__tape_record(s, kind, &a, 1, 1, 1);
    y[0] = vram__pointwise_empty1(s, a);
    if (f)
      vram__recipe_save(s, f, vram__recipe_letters(vram__recipe_plan(s, kind, 0), f), &a, 1, y[0]);
    vram__grad_fn_set_output(s, f, 0, &y[0]);
    vram__tensor_release(s, b);
    vram__tensor_release(s, a);
  }
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, in[i]);
  for (i = 0; i < 4; i++)
    vram__tensor_release(s, w[i]);
  vram__tensor_release(s, zero);
  for (i = 0; i < (lstm ? 2u : 1u); i++) {
    if (one) {
      t = vram__torch_squeeze1(s, y[i], 0);
      vram__tensor_release(s, y[i]);
      y[i] = t;
    }
    if (i >= n->nout)
      vram__tensor_release(s, y[i]);
  }
}

/* _thnn_fused_lstm_cell_backward_impl: one gradient for both products, one for both biases */
VRAM__FN void vram__backward_lstm_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor cx = VRAM__SAVED(f)[0], g, c, b = vram__tensor_none();
  uint32_t i;
  int64_t size[2];
  size[0] = cx.d->v[0], size[1] = 4 * cx.d->v[1];
  g = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), cx.dt);
  c = vram__tensor_empty(s, vram__dims_contiguous(s, cx.d), cx.dt);
  if (f->nin > 3)
    b = vram__tensor_sum(s, g, 1, 0, cx.dt);
  if (vram__input_wanted(f, 2))
    to[2] = c;
  else
    vram__tensor_release(s, c);
  for (i = 0; i < f->nin; i++)
    if (i != 2 && vram__input_wanted(f, i))
      to[i] = vram__tensor_retain(s, i < 2 ? g : b);
  vram__tensor_release(s, b);
  vram__tensor_release(s, g);
}

VRAM__FN void vram__backward_gru_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *d = VRAM__SLOTS(f)[0].d;
  vram__tensor t[5];
  uint32_t i;
  uint8_t dt = VRAM__SLOTS(f)[0].dt;
  int64_t size[2];
  size[0] = d->v[0], size[1] = 3 * d->v[1];
  for (i = 0; i < 2; i++)
    t[i] = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), dt);
  t[2] = vram__tensor_empty(s, d, dt);
  for (i = 3; i < f->nin; i++)
    t[i] = vram__tensor_sum(s, t[i - 3], 1, 0, dt);
  for (i = 0; i < f->nin; i++)
    if (vram__input_wanted(f, i))
      to[i] = t[i];
    else
      vram__tensor_release(s, t[i]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(lstm, 1, 3, rnn, SAME, none, rnn, rnn, rnn, RNN, 0, VRAM__OP_FLAT,
         "hidden_size! num_layers bias batch_first dropout bidirectional proj_size frozen weights "
         "dtype");
VRAM__OP(gru, 1, 2, rnn, SAME, none, rnn, rnn, rnn, RNN, 0, VRAM__OP_FLAT,
         "hidden_size! num_layers bias batch_first dropout bidirectional frozen weights dtype");
VRAM__OP(rnn, 1, 2, rnn, SAME, none, rnn, rnn, rnn, RNN, 0, VRAM__OP_FLAT,
         "hidden_size! num_layers nonlinearity bias batch_first dropout bidirectional frozen "
         "weights dtype");
VRAM__OP(lstm_cell, 1, 3, rnn_cell, SAME, none, rnn_cell, none, rnn, RNN, 0, 0,
         "hidden_size! bias frozen weights dtype");
VRAM__OP(gru_cell, 1, 2, rnn_cell, SAME, none, rnn_cell, none, rnn, RNN, 0, 0,
         "hidden_size! bias frozen weights dtype");
VRAM__OP(rnn_cell, 1, 2, rnn_cell, SAME, none, rnn_cell, none, rnn, RNN, 0, 0,
         "hidden_size! bias nonlinearity frozen weights dtype");
