/* >>ops/recurrent    lstm, gru, rnn and their cells */
#include "ops/ops.h"

/* What nn.LSTM, nn.GRU and nn.RNN, or a cell, are made of; names as in cudnn/RNN.cpp. */
typedef struct vram__rnn {
  int64_t seq_length, mini_batch, input_size, hidden_size;
  int64_t out_size; /* what goes on to the next step and layer: proj_size, or hidden_size */
  int64_t num_layers, num_directions, gates;
  int kind, bias, proj, batch_first;
  uint32_t params; /* of one layer and direction */
} vram__rnn;

/* What a net and a cell have in common. */
static void vram__rnn_units_of(const vram_node *n, vram__rnn *r) {
  static const uint8_t gates[] = {1, 4, 3};
  r->kind = vram__op_at(n->op)->kind;
  r->gates = gates[r->kind];
  r->hidden_size = VRAM__INT(n, hidden_size, 0);
  r->bias = VRAM__INT(n, bias, 1) != 0;
  r->proj = VRAM__INT(n, proj_size, 0) > 0;
  r->out_size = r->proj ? VRAM__INT(n, proj_size, 0) : r->hidden_size;
  r->params = 2u + 2u * (uint32_t)r->bias + (uint32_t)r->proj;
}

static void vram__rnn_of(const vram_node *n, const vram_dims *x, vram__rnn *r) {
  const int batched = x->ndim == 3;
  vram__rnn_units_of(n, r);
  r->batch_first = batched && VRAM__INT(n, batch_first, 0);
  r->seq_length = x->v[r->batch_first];
  r->mini_batch = batched ? x->v[!r->batch_first] : 1;
  r->input_size = x->v[x->ndim - 1u];
  r->num_layers = VRAM__INT(n, num_layers, 1);
  r->num_directions = VRAM__INT(n, bidirectional, 0) ? 2 : 1;
}

/* "weight_ih_l0", "bias_hh_l1_reverse": the name of a parameter as torch.nn gives it; layer -1: of
   a cell. */
static const char *vram__rnn_role(vram_graph *g, const char *what, int64_t layer, int reverse) {
  char text[64];
  uint32_t len = 0;
  text[0] = 0;
  vram__text_puts(text, sizeof text, &len, what);
  if (layer >= 0) {
    vram__text_puts(text, sizeof text, &len, "_l");
    vram__text_puti(text, sizeof text, &len, layer);
    if (reverse)
      vram__text_puts(text, sizeof text, &len, "_reverse");
  }
  return vram__graph_keep_text(g, text, len + 1);
}

/* The parameters of one layer and direction, or of a cell (layer -1). */
static int vram__rnn_own(vram_graph *g, vram_node *n, const vram__rnn *r, int64_t layer,
                         int reverse) {
  const int64_t units = r->gates * r->hidden_size;
  const int64_t in = layer > 0 ? r->out_size * r->num_directions : r->input_size;
  const struct {
    const char *name;
    int there;
    uint32_t ndim;
    int64_t size[2];
  } own[] = {{"weight_ih", 1, 2, {units, in}},
             {"weight_hh", 1, 2, {units, r->out_size}},
             {"bias_ih", r->bias, 1, {units, 0}},
             {"bias_hh", r->bias, 1, {units, 0}},
             {"weight_hr", r->proj, 2, {r->out_size, r->hidden_size}}};
  uint32_t i, slot = layer > 0 ? (uint32_t)(layer * r->num_directions) * r->params : 0;
  if (reverse)
    slot += r->params;
  for (i = 0; i < sizeof own / sizeof *own; i++) {
    const char *role;
    if (!own[i].there)
      continue;
    role = vram__rnn_role(g, own[i].name, layer, reverse);
    if (!role || !vram__node_own(g, n, slot++, role, own[i].ndim, own[i].size, VRAM_DTYPE_MODEL,
                                 VRAM__PARAM))
      return 0;
  }
  return 1;
}

/* Input i, the state before the first step, has these sizes. */
static int vram__rnn_state(vram_graph *g, const vram_node *n, uint32_t i, uint32_t ndim,
                           const int64_t *size) {
  const vram_dims *d;
  uint32_t axis;
  if (i >= n->nin)
    return 1;
  d = n->in[i]->d;
  for (axis = 0; axis < ndim; axis++)
    if (d->ndim != ndim || d->v[axis] != size[axis])
      return vram__node_error(g, n, "a state of another shape");
  return 1;
}

static int vram__rnn_check(vram_graph *g, vram_node *n, const vram__rnn *r) {
  const int64_t dropout = VRAM__INT(n, dropout, 0);
  if (r->hidden_size < 1 || r->hidden_size > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "hidden_size must be at least 1");
  if (VRAM__INT(n, proj_size, 0) < 0 || (r->proj && r->out_size >= r->hidden_size))
    return vram__node_error(g, n, "proj_size must be smaller than hidden_size");
  if (r->num_layers < 1 || r->num_layers > VRAM__MAX_RNN_LAYERS)
    return vram__node_error(g, n, "num_layers must be 1 to 4096");
  if (r->seq_length < 1 || r->input_size < 1 || r->input_size > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "a sequence of no steps or no values");
  if (n->nin == 2 && r->kind == VRAM__RNN_LSTM)
    return vram__node_error(g, n, "lstm with a hidden state and no cell state");
  if (dropout < 0 || dropout > VRAM__ONE)
    return vram__node_error(g, n, "dropout must be 0 to 1");
  return 1;
}

static int vram__shape_rnn_params(vram_graph *g, vram_node *n, const vram__rnn *r) {
  const int64_t nets = r->num_layers * r->num_directions;
  int64_t i;
  if (!vram__node_params(g, n, (uint32_t)nets * r->params))
    return 0;
  for (i = 0; i < nets; i++)
    if (!vram__rnn_own(g, n, r, i / r->num_directions, i % r->num_directions != 0))
      return 0;
  if (!r->bias && !vram__node_list(n, VRAM__KEY_weights, NULL))
    g->flat_pad += (uint64_t)(2 * r->gates * r->hidden_size * nets);
  if (VRAM__INT(n, dropout, 0))
    g->rnn_dropout++;
  g->extra += (uint64_t)n->nparam * 512 + 4096;
  return 1;
}

static int vram__shape_rnn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const vram_dtype dt = n->in[0]->dtype;
  vram__rnn r;
  int64_t size[3];
  uint32_t ndim = 0;
  if (x->ndim != 2 && x->ndim != 3)
    return vram__node_error(g, n, "an input of other than two or three axes");
  vram__rnn_of(n, x, &r);
  if (!vram__rnn_check(g, n, &r) || !vram__shape_rnn_params(g, n, &r))
    return 0;
  size[ndim++] = r.num_layers * r.num_directions;
  if (x->ndim == 3)
    size[ndim++] = r.mini_batch;
  size[ndim++] = r.out_size;
  if (!vram__rnn_state(g, n, 1, ndim, size))
    return 0;
  if (n->nout > 1 && !vram__node_out(g, n, 1, ndim, size, dt))
    return 0;
  size[ndim - 1] = r.hidden_size;
  if (!vram__rnn_state(g, n, 2, ndim, size))
    return 0;
  if (n->nout > 2 && r.kind == VRAM__RNN_LSTM && !vram__node_out(g, n, 2, ndim, size, dt))
    return 0;
  for (ndim = 0; ndim + 1 < x->ndim; ndim++)
    size[ndim] = x->v[ndim];
  size[ndim] = r.out_size * r.num_directions;
  return vram__node_out(g, n, 0, ndim + 1, size, dt);
}

/* Inputs of a cell: x, all states or none, and behind states also its weights and biases, where the
   program computes them. How many are weights; -1: not as said. */
static int vram__cell_weights_given(const vram_node *n, const vram__rnn *r) {
  const uint32_t states = r->kind == VRAM__RNN_LSTM ? 2 : 1;
  if (n->nin == 1 || n->nin == 1 + states)
    return 0;
  return n->nin == 1 + states + r->params ? (int)r->params : -1;
}

/* The weights are of the sizes that the cell's own would have. */
static int vram__cell_weights_fit(vram_graph *g, const vram_node *n, const vram__rnn *r) {
  const int64_t units = r->gates * r->hidden_size;
  uint32_t i;
  for (i = 0; i < r->params; i++) {
    const vram_dims *d = n->in[n->nin - r->params + i]->d;
    const int64_t in = i ? r->hidden_size : r->input_size;
    if (d->ndim != (i < 2 ? 2u : 1u) || d->v[0] != units || (i < 2 && d->v[1] != in))
      return vram__node_error(g, n, "a weight or bias of another shape");
  }
  return 1;
}

static int vram__shape_rnn_cell(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const vram_dtype dt = n->in[0]->dtype;
  vram__rnn r;
  int64_t size[2];
  uint32_t ndim = 0;
  int given;
  if (x->ndim != 1 && x->ndim != 2)
    return vram__node_error(g, n, "an input of other than one or two axes");
  vram__rnn_units_of(n, &r);
  r.input_size = x->v[x->ndim - 1];
  if (r.hidden_size < 1 || r.hidden_size > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "hidden_size must be at least 1");
  if (r.kind == VRAM__RNN_LSTM && n->nin == 2)
    return vram__node_error(g, n, "lstm_cell with a hidden state and no cell state");
  given = vram__cell_weights_given(n, &r);
  if (given < 0)
    return vram__node_error(g, n,
                            "wrong number of inputs (expected x, its states or none, and behind "
                            "states every weight and bias or none)");
  if (given ? !vram__cell_weights_fit(g, n, &r)
            : !vram__node_params(g, n, r.params) || !vram__rnn_own(g, n, &r, -1, 0))
    return 0;
  if (x->ndim == 2)
    size[ndim++] = x->v[0];
  size[ndim++] = r.hidden_size;
  g->extra += 4096;
  if (!vram__rnn_state(g, n, 1, ndim, size) ||
      (r.kind == VRAM__RNN_LSTM && !vram__rnn_state(g, n, 2, ndim, size)))
    return 0;
  if (n->nout > 1 && r.kind == VRAM__RNN_LSTM && !vram__node_out(g, n, 1, ndim, size, dt))
    return 0;
  return vram__node_out(g, n, 0, ndim, size, dt);
}

static uint64_t vram__flops_rnn(const vram_node *n) {
  return vram__product_or_overflow(vram__product_or_overflow(2, vram__input_rows(n)),
                                   vram__matrix_elements(n));
}

static uint64_t vram__flops_rnn_cell(const vram_node *n) {
  uint64_t elements = vram__matrix_elements(n);
  uint32_t i;
  vram__rnn r;
  vram__rnn_units_of(n, &r);
  for (i = 0; i < 2 && vram__cell_weights_given(n, &r) > 0; i++)
    elements = vram__sum_or_overflow(elements, n->in[n->nin - r.params + i]->d->numel);
  return vram__product_or_overflow(vram__product_or_overflow(2, vram__input_rows(n)), elements);
}

#ifndef VRAM_NO_STEP

/* ---- sizes of cuDNN's ---- */

/* Elements of the flat weights: there is room for both biases in any case. */
static uint64_t vram__rnn_flat_elements(const vram__rnn *r) {
  const uint64_t units = (uint64_t)(r->gates * r->hidden_size);
  const uint64_t proj = (uint64_t)(r->proj ? r->out_size * r->hidden_size : 0);
  const uint64_t first = units * (uint64_t)(r->input_size + r->out_size + 2) + proj;
  const uint64_t other =
      units * (uint64_t)(r->out_size * r->num_directions + r->out_size + 2) + proj;
  return (first + (uint64_t)(r->num_layers - 1) * other) * (uint64_t)r->num_directions;
}

/* Bytes of one value for each step, sample and unit of a layer. */
static uint64_t vram__rnn_layer_bytes(const vram__rnn *r, vram_dtype dt) {
  return vram__product4_or_overflow(r->seq_length, r->mini_batch,
                                    r->hidden_size * r->num_directions, vram__dtype_size(dt));
}

/* Bytes that cuDNN wants for a moment, and those that one step keeps for backward: guesses, see
   the rules. */
static uint64_t vram__rnn_workspace(const vram__rnn *r, vram_dtype dt) {
  return vram__product_or_overflow(vram__rnn_layer_bytes(r, dt), (uint64_t)r->gates);
}

static uint64_t vram__rnn_reserve(const vram__step *s, const vram__rnn *r, vram_dtype dt) {
  return vram__product_or_overflow(
      vram__product_or_overflow(vram__rnn_layer_bytes(r, dt), (uint64_t)r->num_layers),
      s->device.rules->recurrent.reserve[r->kind]);
}

static uint64_t vram__beyond(uint64_t bytes, uint64_t told) {
  return bytes > told ? bytes - told : 0;
}

/* What a device wants beyond these: 8 MiB for each layer and direction (a workspace of cuBLAS's for
   each of their streams), the weights once more, gates, and the input four times. Of 1,128 nets on
   an H200 (cuDNN 9.19; tests/golden/rnn_h200.csv) none took more beside the 8 MiB than weights
   twice and gates and input 13.3 times. */
static void vram__rnn_device_workspace(vram__step *s, const vram__rnn *r, vram_dtype dt) {
  const uint64_t told = vram__rnn_workspace(r, dt);
  const uint64_t streams =
      vram__product_or_overflow((uint64_t)(r->num_layers * r->num_directions), UINT64_C(8) << 20);
  const uint64_t weights =
      vram__product_or_overflow(vram__rnn_flat_elements(r), (uint64_t)vram__dtype_size(dt));
  const uint64_t gates = vram__product_or_overflow(told, (uint64_t)r->num_layers);
  const uint64_t input =
      vram__product4_or_overflow(r->seq_length, r->mini_batch, r->input_size, vram__dtype_size(dt));
  const uint64_t fixed = vram__sum_or_overflow(streams, weights);
  vram_bounds b = {0, 0, 0};
  b.expected = vram__sum_or_overflow(
      fixed, vram__sum_or_overflow(gates, vram__product_or_overflow(input, 4)));
  b.upper =
      vram__sum_or_overflow(vram__sum_or_overflow(fixed, weights),
                            vram__product_or_overflow(vram__sum_or_overflow(gates, input), 14));
  b.expected = vram__beyond(b.expected, told);
  b.upper = vram__beyond(b.upper, told);
  vram__device_workspace(s, &b);
}

/* What a device keeps beyond the reserve above, of the same nets to the byte: gates and states of
   each layer, the outputs between layers, the bits of dropout, in groups of 32 bytes, and 256. */
static uint64_t vram__rnn_reserve_beyond(const vram__step *s, const vram__rnn *r, vram_dtype dt,
                                         int dropout) {
  static const uint8_t values[3] = {1, 5, 6}; /* rnn, lstm, gru */
  const uint64_t layer = vram__rnn_layer_bytes(r, dt), layers = (uint64_t)r->num_layers;
  const uint64_t bits = vram__div_up_u64(vram__rnn_layer_bytes(r, VRAM_U8), 8);
  const uint64_t masks = vram__product_or_overflow(
      dropout ? (layers - 1) * (uint64_t)r->num_directions : 0, vram__round_up_u64(bits, 32));
  const uint64_t held = vram__round_up_u64(
      vram__product_or_overflow(vram__product_or_overflow(layer, layers), values[r->kind]), 32);
  const uint64_t between = vram__round_up_u64(vram__product_or_overflow(layer, layers - 1), 32);
  const uint64_t bytes = vram__sum_or_overflow(vram__sum_or_overflow(held, between), masks + 256);
  return bytes < (uint64_t)VRAM_MAX_BYTES ? vram__beyond(bytes, vram__rnn_reserve(s, r, dt)) : 0;
}

/* The dims of the output, [seq_length, mini_batch, ..]: steps come first in memory also where the
   batch is the first axis. */
static const vram_dims *vram__rnn_out_dims(vram__step *s, const vram__rnn *r) {
  const vram_dims *d =
      vram__dims_3d(s, r->seq_length, r->mini_batch, r->num_directions * r->out_size);
  return r->batch_first ? vram__dims_swapped(s, d, 0, 1) : d;
}

VRAM__FN const vram_dims *vram__rnn_state_dims(vram__step *s) {
  const int64_t bytes = s->device.rules->recurrent.dropout_state;
  return vram__dims_in(s, 1, &bytes, NULL);
}

/* A device has 24 bytes for each of its threads: 6,488,064 on an H200. */
VRAM__FN void vram__rnn_state_bound(vram__step *s) {
  const uint64_t threads = UINT64_C(1) * s->device.sm * vram__device_threads(s->device.cc);
  s->count.extra += vram__beyond(24 * threads, (uint64_t)s->device.rules->recurrent.dropout_state);
}

/* x.contiguous(), where that is a copy. */
static vram__tensor vram__rnn_contiguous_copy(vram__step *s, vram__tensor x) {
  return x.d->flags & VRAM__CONTIG ? vram__tensor_none() : vram__tensor_contiguous(s, x);
}

/* ---- forward of a net (cudnn/RNN.cpp) ---- */

typedef struct vram__rnn_call {
  vram__rnn r;
  const vram_node *n;
  vram__tensor in[3];    /* input, hx, cx */
  vram__tensor zeros[2]; /* hx and cx of the module's own */
  vram__tensor *w;
  vram__tensor flat; /* weight_buf, if it is none that the module has */
  vram__tensor out[3], reserve;
  const vram_dims *state[2]; /* dims of hx and cx */
  vram_dtype dt;
  int unbatched, dropout, cells; /* cells: one after the other, without cuDNN */
} vram__rnn_call;

/* torch.nn.LSTM.forward: a batch of one where there is none, zeros for a state that is not given.
 */
static void vram__rnn_inputs(vram__step *s, vram__rnn_call *c, const vram__tensor *x) {
  const uint32_t states = c->r.kind == VRAM__RNN_LSTM ? 2 : 1;
  const int64_t nets = c->r.num_layers * c->r.num_directions;
  uint32_t i;
  c->state[0] = vram__dims_3d(s, nets, c->r.mini_batch, c->r.out_size);
  c->state[1] = vram__dims_3d(s, nets, c->r.mini_batch, c->r.hidden_size);
  c->in[1] = c->in[2] = c->zeros[0] = c->zeros[1] = vram__tensor_none();
  for (i = 0; i <= states; i++)
    if (i && c->n->nin == 1) {
      c->zeros[i - 1] = vram__tensor_empty(s, c->state[i - 1], c->dt);
      c->in[i] = vram__tensor_retain(s, c->zeros[i - 1]);
    } else
      c->in[i] = c->unbatched ? vram__torch_unsqueeze(s, x[i], 1) : vram__tensor_retain(s, x[i]);
}

/* get_dropout_state: made by the first call, from a random seed. */
static void vram__rnn_dropout_state(vram__step *s) {
  const uint8_t category = s->cat;
  const vram__tensor old = s->rnn_dropout;
  s->rnn_cudnn = 1;
  if (old.d && !s->rnn_reset)
    return;
  vram__workspace_use(s, 8);
  s->cat = VRAM_CATEGORY_WORKSPACE;
  s->rnn_dropout = vram__tensor_empty(s, vram__rnn_state_dims(s), VRAM_U8);
  if (!old.d)
    vram__rnn_state_bound(s);
  s->rnn_reset = 0;
  vram__tensor_release(s, old);
  s->cat = category;
}

static vram__tensor vram__rnn_flat_empty(vram__step *s, const vram__rnn *r, vram_dtype dt) {
  const int64_t elements = (int64_t)vram__rnn_flat_elements(r);
  return vram__tensor_empty(s, vram__dims_in(s, 1, &elements, NULL), dt);
}

/* cudnn/AutocastRNN.cpp, _cudnn_rnn_cast_reflatten: under autocast everything runs in f16, from
   weights that are copied one by one into a new flat buffer. */
static void vram__rnn_cast_reflatten(vram__step *s, vram__rnn_call *c) {
  static const uint8_t order[] = {2, 1, 0}; /* cell state, state, input */
  const uint8_t category = s->cat;
  uint32_t i;
  c->dt = VRAM_F16;
  s->cat = VRAM_CATEGORY_AUTOCAST;
  c->flat = vram__rnn_flat_empty(s, &c->r, c->dt);
  s->cat = category;
  for (i = 0; i < c->n->nparam; i++) { /* copy_ of a view of each */
    const vram__tensor w = vram__torch_view_as(s, c->w[i], c->w[i].d, VRAM__K_view, 0);
    vram__grad_fn *f = vram__tape_record(s, VRAM__K_cast, &w, 1, 1, 0);
    vram__tensor_release(s, w);
    c->w[i] = vram__tensor_alias(s, c->flat, c->w[i].d);
    c->w[i].dt = c->dt;
    vram__grad_fn_set_output(s, f, 0, &c->w[i]);
  }
  for (i = 0; i < 3; i++) {
    vram__tensor *in = c->in + order[i];
    if (in->d)
      vram__tensor_replace(s, in, vram__autocast_cast(s, *in, c->dt));
  }
}

/* The record of _cudnn_rnn, which has an edge for each weight. NULL: no gradient is wanted. */
static vram__grad_fn *vram__rnn_record(vram__step *s, const vram__rnn_call *c) {
  const uint32_t nparam = c->n->nparam;
  vram__grad_fn *f;
  uint32_t i, wants = 0;
  for (i = 0; i < 3; i++)
    wants |= vram__tensor_wants_grad(s, c->in[i]) != 0;
  for (i = 0; i < nparam; i++)
    wants |= vram__tensor_wants_grad(s, c->w[i]) != 0;
  if (!s->grad || !wants)
    return NULL;
  f = vram__tape_record_raw(s, c->n->op, 3 + nparam, 3, 7);
  if (!f)
    return NULL;
  for (i = 0; i < 3; i++)
    vram__tape_edge_from(s, f, i, c->in[i]);
  for (i = 0; i < nparam; i++)
    vram__tape_edge_from(s, f, 3 + i, c->w[i]);
  return f;
}

/* _cudnn_rnn. Weights in bf16 are no flat buffer to begin with. */
static void vram__rnn_run(vram__step *s, vram__rnn_call *c) {
  const vram__rnn *r = &c->r;
  vram__tensor x = c->in[0], copy;
  int64_t values;
  uint32_t workspace;
  if (r->batch_first)
    x.d = vram__dims_swapped(s, x.d, 0, 1);
  copy = vram__rnn_contiguous_copy(s, x);
  c->out[0] = vram__tensor_empty(s, vram__rnn_out_dims(s, r), c->dt);
  c->out[1] = vram__tensor_empty(s, c->state[0], c->dt);
  c->out[2] =
      r->kind == VRAM__RNN_LSTM ? vram__tensor_empty(s, c->state[1], c->dt) : vram__tensor_none();
  if (!s->amp && c->w[0].dt == VRAM_BF16)
    c->flat = vram__rnn_flat_empty(s, r, c->dt);
  workspace = vram__cub_hold(s, vram__rnn_workspace(r, c->dt));
  vram__rnn_device_workspace(s, r, c->dt);
  if (s->train) {
    values = (int64_t)vram__rnn_reserve(s, r, VRAM_U8);
    c->reserve.d = vram__dims_in(s, 1, &values, NULL);
    c->reserve.dt = c->dt;
    c->reserve.st = vram__storage_new(s, vram__rnn_reserve(s, r, c->dt));
  }
  vram__cub_release(s, workspace);
  vram__tensor_release(s, copy);
}

/* aux of a net's record */
enum { VRAM__RNN_SAVED_CX = 1, VRAM__RNN_SAVED_FLAT = 2 };

static void vram__rnn_save(vram__step *s, vram__grad_fn *f, const vram__rnn_call *c) {
  if (!f)
    return;
  f->aux = (c->in[2].d ? VRAM__RNN_SAVED_CX : 0) | (c->flat.d ? VRAM__RNN_SAVED_FLAT : 0);
  if (c->in[2].d)
    vram__save_tensor(s, f, c->in[2]);
  vram__save_tensor(s, f, c->in[1]);
  vram__save_tensor(s, f, c->in[0]);
  vram__save_tensor(s, f, c->out[0]);
  vram__save_tensor(s, f, c->reserve);
  s->count.extra += vram__rnn_reserve_beyond(s, &c->r, c->dt, c->dropout);
  if (c->dropout)
    vram__save_tensor(s, f, s->rnn_dropout);
  if (c->flat.d)
    vram__save_tensor(s, f, c->flat);
}

static void vram__rnn_release(vram__step *s, vram__rnn_call *c) {
  uint32_t i;
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, c->in[i]);
  vram__tensor_release(s, c->reserve);
  for (i = 0; s->amp && !c->cells && i < c->n->nparam; i++)
    vram__tensor_release(s, c->w[i]);
  vram__tensor_release(s, c->flat);
  for (i = 0; i < 2; i++)
    vram__tensor_release(s, c->zeros[i]);
}

/* Room for so many handles; NULL: there is none. */
static vram__tensor *vram__tensors_take(vram__step *s, uint64_t count) {
  vram__tensor *t = (vram__tensor *)vram__memory_take(s->mem, &s->used, s->cap,
                                                      vram__product_or_overflow(count, sizeof *t));
  if (!t)
    s->failed = VRAM_ERR_MEMORY;
  return t;
}

static void vram__rnn_by_cudnn(vram__step *s, vram__rnn_call *c) {
  vram__grad_fn *f;
  uint32_t i;
  if (c->dropout)
    vram__rnn_dropout_state(s);
  if (s->amp)
    vram__rnn_cast_reflatten(s, c);
  f = vram__rnn_record(s, c);
  vram__rnn_run(s, c);
  vram__rnn_save(s, f, c);
  for (i = 0; i < 3; i++)
    if (c->out[i].d)
      vram__grad_fn_set_output(s, f, i, &c->out[i]);
}

static void vram__rnn_by_cells(vram__step *s, vram__rnn_call *c);

static void vram__forward_rnn(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__rnn_call c;
  vram__tensor in[2];
  uint32_t i;
  vram__rnn_of(n, x[0].d, &c.r);
  c.n = n;
  c.dt = x[0].dt;
  c.cells = c.dt == VRAM_BF16 && !(s->device.rules->does & VRAM__RNN_BF16);
  c.unbatched = x[0].d->ndim == 2;
  c.dropout = s->train && VRAM__INT(n, dropout, 0) != 0;
  c.flat = c.reserve = vram__tensor_none();
  vram__rnn_inputs(s, &c, x);
  c.w = vram__tensors_take(s, n->nparam);
  if (!c.w)
    return;
  for (i = 0; i < n->nparam; i++)
    c.w[i] = s->param[n->param[i]->index];
  in[0] = x[0];
  in[1] = c.w[0];
  if (!s->amp)
    vram__refuse_unlike(s, in, 2);
  if (c.cells)
    vram__rnn_by_cells(s, &c);
  else
    vram__rnn_by_cudnn(s, &c);
  vram__rnn_release(s, &c);
  for (i = 3; i-- > 0;) {
    if (c.unbatched && c.out[i].d)
      vram__tensor_replace(s, &c.out[i], vram__torch_squeeze1(s, c.out[i], 1));
    if (i < n->nout)
      y[i] = c.out[i];
    else
      vram__tensor_release(s, c.out[i]);
  }
}

/* ---- backward of a net (cudnn/RNN.cpp, _cudnn_rnn_backward) ---- */

typedef struct vram__rnn_backward {
  vram__rnn r;
  vram__tensor x, hx, cx;
  vram__tensor g[3]; /* of the output, of both states */
} vram__rnn_backward;

/* _cudnn_rnn_backward_input: the gradients of x, hx and cx */
static void vram__rnn_backward_input(vram__step *s, const vram__rnn_backward *b, vram__tensor *to) {
  const vram_dtype dt = b->x.dt;
  const vram__tensor x_copy = vram__rnn_contiguous_copy(s, b->x);
  vram__tensor g_copy[3];
  uint32_t i;
  g_copy[0] = vram__rnn_contiguous_copy(s, b->g[0]);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, b->x.d), dt);
  if (b->r.batch_first)
    to[0].d = vram__dims_swapped(s, to[0].d, 0, 1);
  for (i = 1; i < 3; i++)
    g_copy[i] = b->g[i].d ? vram__rnn_contiguous_copy(s, b->g[i]) : vram__tensor_none();
  to[1] = vram__tensor_empty(s, b->hx.d, dt);
  to[2] = b->cx.d ? vram__tensor_empty(s, b->cx.d, dt) : vram__tensor_none();
  vram__workspace_use(s, vram__rnn_workspace(&b->r, dt));
  vram__rnn_device_workspace(s, &b->r, dt);
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, g_copy[i]);
  vram__tensor_release(s, x_copy);
}

/* _cudnn_rnn_backward_weight: gradients of the parameters lie in one buffer, and none keeps it but
   as its storage: the last one that is left there is added to in place. */
static void vram__rnn_backward_weight(vram__step *s, const vram__rnn_backward *b, vram__grad_fn *f,
                                      vram__tensor *to) {
  const vram_dtype dt = b->x.dt;
  const vram__tensor x_copy = vram__rnn_contiguous_copy(s, b->x);
  const vram__tensor flat = vram__rnn_flat_empty(s, &b->r, dt);
  const uint32_t workspace = vram__cub_hold(s, vram__rnn_workspace(&b->r, dt));
  uint32_t i;
  vram__rnn_device_workspace(s, &b->r, dt);
  for (i = 3; i < f->nin; i++)
    if (vram__input_wanted(f, i)) {
      const vram_dims *w = f->node->param[i - 3]->d;
      to[i] = b->r.bias ? vram__tensor_alias(s, flat, w) : vram__tensor_empty(s, w, dt);
    }
  vram__cub_release(s, workspace);
  vram__tensor_release(s, flat);
  vram__tensor_release(s, x_copy);
}

/* Zeros stand in for outputs that no gradient came back for. */
static void vram__rnn_missing_gradients(vram__step *s, vram__rnn_backward *b, vram__tensor *zeros) {
  uint32_t i;
  for (i = 0; i < 3; i++) {
    const vram_dims *d = i == 1 ? b->hx.d : b->cx.d;
    zeros[i] = vram__tensor_none();
    if (b->g[i].d || (i == 2 && !b->cx.d))
      continue;
    if (!i)
      d = vram__dims_contiguous(s, vram__rnn_out_dims(s, &b->r));
    b->g[i] = zeros[i] = vram__tensor_empty(s, d, b->x.dt);
  }
}

static void vram__backward_rnn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor *saved = VRAM__SAVED(f) + (f->aux & VRAM__RNN_SAVED_CX);
  vram__rnn_backward b;
  vram__tensor zeros[3], d[3];
  uint32_t i, wants = 0;
  b.hx = saved[0];
  b.x = saved[1];
  b.cx = f->aux & VRAM__RNN_SAVED_CX ? VRAM__SAVED(f)[0] : vram__tensor_none();
  vram__rnn_of(f->node, b.x.d, &b.r);
  for (i = 0; i < 3; i++)
    b.g[i] = VRAM__SLOTS(f)[i].g;
  vram__rnn_missing_gradients(s, &b, zeros);
  if (b.r.batch_first) {
    b.x.d = vram__dims_swapped(s, b.x.d, 0, 1);
    b.g[0].d = vram__dims_swapped(s, b.g[0].d, 0, 1);
  }
  vram__rnn_backward_input(s, &b, d);
  for (i = 3; i < f->nin; i++)
    wants |= (uint32_t)vram__input_wanted(f, i);
  if (wants)
    vram__rnn_backward_weight(s, &b, f, to);
  s->count.extra -= vram__rnn_reserve_beyond(s, &b.r, b.x.dt, VRAM__INT(f->node, dropout, 0) != 0);
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, zeros[i]);
  for (i = 0; i < 3; i++)
    if (d[i].d && vram__input_wanted(f, i))
      to[i] = d[i];
    else
      vram__tensor_release(s, d[i]);
}

/* ---- cells (native/RNN.cpp, cuda/RNN.cu) ---- */

/* x w^T (+ b), of matrices */
VRAM__FN vram__tensor vram__torch_linear_2d(vram__step *s, vram__tensor x, vram__tensor w,
                                            vram__tensor b) {
  vram__tensor turned = vram__torch_swap(s, w, 0, 1),
               y = b.d ? vram__torch_addmm(s, b, x, turned, 0)
                       : vram__torch_product(s, VRAM__K_mm, x, turned);
  vram__tensor_release(s, turned);
  return y;
}

enum { VRAM__CELL_W_IH, VRAM__CELL_W_HH, VRAM__CELL_B_IH, VRAM__CELL_B_HH, VRAM__CELL_PARAMS };

typedef struct vram__rnn_cell {
  int kind, unbatched;
  int64_t hidden_size;
  uint32_t inputs;    /* beside weights */
  vram__tensor in[3]; /* input, hx, cx */
  vram__tensor zeros; /* the states, where none is given */
  vram__tensor w[VRAM__CELL_PARAMS];
} vram__rnn_cell;

/* torch.nn.LSTMCell.forward: a batch of one where there is none, zeros for states. */
static void vram__cell_inputs(vram__step *s, const vram__tensor *x, vram__rnn_cell *c) {
  uint32_t i;
  c->zeros = c->in[1] = c->in[2] = vram__tensor_none();
  for (i = 0; i < c->inputs; i++)
    c->in[i] = c->unbatched ? vram__torch_unsqueeze(s, x[i], 0) : vram__tensor_retain(s, x[i]);
  if (c->inputs > 1)
    return;
  c->zeros = vram__tensor_empty(s, vram__dims_2d(s, c->in[0].d->v[0], c->hidden_size), x[0].dt);
  c->in[1] = vram__tensor_retain(s, c->zeros);
  if (c->kind == VRAM__RNN_LSTM)
    c->in[2] = vram__tensor_retain(s, c->zeros);
}

/* Autocast's lower precision: the last argument is cast first, the states in their order. */
static void vram__cell_autocast(vram__step *s, vram__rnn_cell *c) {
  static const uint8_t order[] = {1, 2, 0}; /* state, cell state, input */
  uint32_t i;
  for (i = VRAM__CELL_PARAMS; i-- > 0;)
    if (c->w[i].d)
      c->w[i] = vram__autocast_low(s, c->w[i]);
  for (i = 0; s->amp && i < 3; i++) {
    vram__tensor *in = c->in + order[i];
    if (in->d)
      vram__tensor_replace(s, in, vram__autocast_cast(s, *in, s->amp));
  }
}

/* What the kernel of a fused cell saves, in the order of the arguments' names. */
static void vram__cell_save(vram__step *s, vram__grad_fn *f, const vram__rnn_cell *c,
                            const vram__tensor *gates, vram__tensor cy, vram__tensor workspace) {
  const int lstm = c->kind == VRAM__RNN_LSTM, bias = c->w[VRAM__CELL_B_IH].d != NULL;
  if (!f)
    return;
  if (lstm)
    vram__save_tensor(s, f, c->in[2]);
  if (bias)
    vram__save_tensor(s, f, c->w[VRAM__CELL_B_HH]);
  vram__save_tensor(s, f, gates[1]);
  if (!lstm)
    vram__save_tensor(s, f, c->in[1]);
  if (bias)
    vram__save_tensor(s, f, c->w[VRAM__CELL_B_IH]);
  vram__save_tensor(s, f, gates[0]);
  if (lstm)
    vram__save_tensor(s, f, cy);
  vram__save_tensor(s, f, workspace);
}

/* RNN.cu, _thnn_fused_lstm_cell and _thnn_fused_gru_cell: one kernel adds two products (in[0] and
   in[1]) and does the rest; its workspace has the gates of an lstm, five values for each unit of a
   gru. Gives the workspace. */
static vram__tensor vram__cell_gates(vram__step *s, const vram__rnn_cell *c, vram__tensor *in,
                                     vram__tensor *y) {
  const int lstm = c->kind == VRAM__RNN_LSTM, bias = c->w[VRAM__CELL_B_IH].d != NULL;
  const int64_t batch = c->in[0].d->v[0], hidden = c->hidden_size;
  const vram_dtype dt = in[0].dt;
  vram__tensor workspace;
  vram__grad_fn *f;
  in[2] = lstm ? c->in[2] : c->in[1];
  in[3] = c->w[VRAM__CELL_B_IH];
  in[4] = c->w[VRAM__CELL_B_HH];
  f = vram__tape_record(s, lstm ? VRAM__K_lstm_gates : VRAM__K_gru_gates, in, bias ? 5 : 3,
                        lstm ? 2 : 1, 7);
  workspace = vram__tensor_empty(s, vram__dims_2d(s, batch, hidden * (lstm ? 4 : 5)), dt);
  y[0] = vram__tensor_empty(s, vram__dims_2d(s, batch, hidden), dt);
  y[1] = lstm ? vram__tensor_empty(s, y[0].d, dt) : vram__tensor_none();
  vram__cell_save(s, f, c, in, y[1], workspace);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (lstm)
    vram__grad_fn_set_output(s, f, 1, &y[1]);
  return workspace;
}

static void vram__forward_fused_cell(vram__step *s, const vram__rnn_cell *c, vram__tensor *y) {
  vram__tensor in[5]; /* input gates, hidden gates, a state, both biases */
  in[0] = vram__torch_linear_2d(s, c->in[0], c->w[VRAM__CELL_W_IH], vram__tensor_none());
  in[1] = vram__torch_linear_2d(s, c->in[1], c->w[VRAM__CELL_W_HH], vram__tensor_none());
  vram__tensor_release(s, vram__cell_gates(s, c, in, y));
  vram__tensor_release(s, in[1]);
  vram__tensor_release(s, in[0]);
}

/* RNN.cpp, SimpleCell: tanh or relu of the sum of both products, which go. */
static vram__tensor vram__cell_sum(vram__step *s, uint32_t op, vram__tensor sum,
                                   vram__tensor from_input) {
  vram__grad_fn *f;
  vram__tensor y;
  vram__torch_add_(s, &sum, from_input);
  f = vram__tape_record(s, op, &sum, 1, 1, 1);
  y = vram__pointwise_empty1(s, sum);
  if (f)
    vram__recipe_save(s, f, vram__recipe_letters(vram__recipe_plan(s, op, 0), f), &sum, 1, y);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, from_input);
  vram__tensor_release(s, sum);
  return y;
}

static void vram__forward_simple_cell(vram__step *s, const vram__rnn_cell *c, uint32_t op,
                                      vram__tensor *y) {
  vram__tensor sum =
      vram__torch_linear_2d(s, c->in[1], c->w[VRAM__CELL_W_HH], c->w[VRAM__CELL_B_HH]);
  vram__tensor from_input =
      vram__torch_linear_2d(s, c->in[0], c->w[VRAM__CELL_W_IH], c->w[VRAM__CELL_B_IH]);
  y[0] = vram__cell_sum(s, op, sum, from_input);
  y[1] = vram__tensor_none();
}

static uint32_t vram__cell_nonlinearity(const vram_node *n) {
  return VRAM__INT(n, nonlinearity, 0) == VRAM__WORD(relu) ? VRAM_OP_relu : VRAM_OP_tanh;
}

static void vram__forward_rnn_cell(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__rnn_cell c;
  vram__rnn r;
  vram__tensor out[2];
  uint32_t i, given;
  c.kind = vram__op_at(n->op)->kind;
  c.unbatched = x[0].d->ndim == 1;
  c.hidden_size = VRAM__INT(n, hidden_size, 0);
  vram__rnn_units_of(n, &r);
  given = (uint32_t)vram__cell_weights_given(n, &r);
  c.inputs = n->nin - given;
  vram__cell_inputs(s, x, &c);
  for (i = 0; i < VRAM__CELL_PARAMS; i++)
    c.w[i] = i < given       ? x[c.inputs + i]
             : i < n->nparam ? s->param[n->param[i]->index]
                             : vram__tensor_none();
  vram__cell_autocast(s, &c);
  if (c.kind == VRAM__RNN_PLAIN)
    vram__forward_simple_cell(s, &c, vram__cell_nonlinearity(n), out);
  else
    vram__forward_fused_cell(s, &c, out);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, c.in[i]);
  for (i = 0; i < VRAM__CELL_PARAMS; i++)
    vram__tensor_release(s, c.w[i]);
  vram__tensor_release(s, c.zeros);
  for (i = 0; i < 2; i++) {
    if (c.unbatched && out[i].d)
      vram__tensor_replace(s, &out[i], vram__torch_squeeze1(s, out[i], 0));
    if (i < n->nout)
      y[i] = out[i];
    else
      vram__tensor_release(s, out[i]);
  }
}

/* RNN.cu, _thnn_fused_lstm_cell_backward_impl: one gradient for both products, one for both
   biases. */
VRAM__FN void vram__backward_lstm_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor cx = VRAM__SAVED(f)[0];
  vram__tensor gates, state, bias = vram__tensor_none();
  uint32_t i;
  gates = vram__tensor_empty(s, vram__dims_2d(s, cx.d->v[0], 4 * cx.d->v[1]), cx.dt);
  state = vram__tensor_empty(s, vram__dims_contiguous(s, cx.d), cx.dt);
  if (f->nin > 3)
    bias = vram__tensor_sum(s, gates, 1, 0, cx.dt);
  if (vram__input_wanted(f, 2))
    to[2] = state;
  else
    vram__tensor_release(s, state);
  for (i = 0; i < f->nin; i++)
    if (i != 2 && vram__input_wanted(f, i))
      to[i] = vram__tensor_retain(s, i < 2 ? gates : bias);
  vram__tensor_release(s, bias);
  vram__tensor_release(s, gates);
}

/* RNN.cu, _thnn_fused_gru_cell_backward_cuda */
VRAM__FN void vram__backward_gru_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *d = VRAM__SLOTS(f)[0].d;
  const vram_dtype dt = VRAM__SLOTS(f)[0].dt;
  vram__tensor all[5]; /* input gates, hidden gates, hx, both biases */
  uint32_t i;
  for (i = 0; i < 2; i++)
    all[i] = vram__tensor_empty(s, vram__dims_2d(s, d->v[0], 3 * d->v[1]), dt);
  all[2] = vram__tensor_empty(s, d, dt);
  for (i = 3; i < f->nin; i++)
    all[i] = vram__tensor_sum(s, all[i - 3], 1, 0, dt);
  for (i = 0; i < f->nin; i++)
    if (vram__input_wanted(f, i))
      to[i] = all[i];
    else
      vram__tensor_release(s, all[i]);
}

/* ---- a net cell by cell (native/RNN.cpp): PyTorch's own, for what cuDNN does not take ---- */

typedef struct vram__rnn_pass { /* over the steps of one layer and direction */
  const vram__rnn_call *call;
  const vram__tensor *w; /* its parameters */
  int reverse;
  vram__tensor *x, *y;   /* of each step */
  vram__tensor state[2]; /* hidden state, cell state */
} vram__rnn_pass;

VRAM__FN uint64_t vram__rnn_cells(const vram_node *n) {
  vram__rnn r;
  vram__rnn_of(n, n->in[0]->d, &r);
  return vram__product4_or_overflow(r.seq_length, r.num_layers, r.num_directions, 1);
}

/* CellParams::matmul_ih: what autocast casts is a view of the weight, anew at each step. */
static vram__tensor vram__rnn_matmul(vram__step *s, vram__tensor x, vram__tensor w) {
  vram__tensor turned = vram__torch_swap(s, w, 0, 1), y;
  vram__tensor_replace(s, &turned, vram__autocast_low(s, turned));
  x = vram__autocast_low(s, x);
  y = vram__torch_product(s, VRAM__K_mm, x, turned);
  vram__tensor_release(s, x);
  vram__tensor_release(s, turned);
  return y;
}

/* CellParams::linear_ih */
static vram__tensor vram__rnn_linear(vram__step *s, vram__tensor x, vram__tensor w,
                                     vram__tensor b) {
  vram__tensor y;
  if (b.d)
    b = vram__autocast_low(s, b);
  w = vram__autocast_low(s, w);
  x = vram__autocast_low(s, x);
  y = vram__torch_linear_2d(s, x, w, b);
  vram__tensor_release(s, x);
  vram__tensor_release(s, w);
  vram__tensor_release(s, b);
  return y;
}

/* RNN.cpp, LSTMCell and GRUCell */
static void vram__rnn_gated_step(vram__step *s, const vram__rnn_pass *p, vram__tensor x,
                                 vram__tensor *y) {
  const vram__rnn *r = &p->call->r;
  const int lstm = r->kind == VRAM__RNN_LSTM;
  vram__tensor in[5], workspace;
  vram__rnn_cell c;
  uint32_t i;
  c.kind = r->kind;
  c.hidden_size = r->hidden_size;
  in[0] = vram__rnn_matmul(s, x, p->w[VRAM__CELL_W_IH]);
  in[1] = vram__rnn_matmul(s, p->state[0], p->w[VRAM__CELL_W_HH]);
  for (i = VRAM__CELL_PARAMS; i-- > VRAM__CELL_B_IH;)
    c.w[i] = r->bias ? vram__autocast_low(s, p->w[i]) : vram__tensor_none();
  c.in[0] = x;
  c.in[1 + lstm] = vram__autocast_low(s, p->state[lstm]);
  workspace = vram__cell_gates(s, &c, in, y);
  vram__tensor_release(s, c.in[1 + lstm]);
  for (i = VRAM__CELL_B_IH; i < VRAM__CELL_PARAMS; i++)
    vram__tensor_release(s, c.w[i]);
  if (r->proj)
    vram__tensor_replace(s, &y[0], vram__rnn_matmul(s, y[0], p->w[r->params - 1]));
  vram__tensor_release(s, workspace);
  vram__tensor_release(s, in[1]);
  vram__tensor_release(s, in[0]);
}

/* FullLayer: gives p->y and the last state. */
static void vram__rnn_pass_run(vram__step *s, vram__rnn_pass *p) {
  const vram__rnn *r = &p->call->r;
  const uint32_t steps = (uint32_t)r->seq_length;
  const vram__tensor none = vram__tensor_none();
  uint32_t i;
  for (i = 0; i < steps && !s->failed; i++) {
    const uint32_t t = p->reverse ? steps - 1 - i : i;
    vram__tensor y[2];
    y[1] = none;
    if (r->kind == VRAM__RNN_PLAIN) {
      const vram__tensor sum = vram__rnn_linear(s, p->state[0], p->w[VRAM__CELL_W_HH],
                                                r->bias ? p->w[VRAM__CELL_B_HH] : none);
      y[0] = vram__cell_sum(s, vram__cell_nonlinearity(p->call->n), sum,
                            vram__rnn_linear(s, p->x[t], p->w[VRAM__CELL_W_IH],
                                             r->bias ? p->w[VRAM__CELL_B_IH] : none));
    } else
      vram__rnn_gated_step(s, p, p->x[t], y);
    vram__tensor_replace(s, &p->state[0], y[0]);
    if (y[1].d)
      vram__tensor_replace(s, &p->state[1], y[1]);
    p->y[t] = vram__tensor_retain(s, y[0]);
  }
}

static void vram__rnn_unbind(vram__step *s, vram__tensor x, vram__tensor *y, int64_t count) {
  vram_node n;
  vram__memory_zero(&n, sizeof n);
  n.op = VRAM_OP_unbind;
  n.nout = (uint16_t)count;
  vram__forward_op(s, &n, &x, y);
}

/* at::stack along a new first axis */
static vram__tensor vram__rnn_stack(vram__step *s, vram__tensor *x, int64_t count) {
  vram_node n;
  vram_value v;
  vram__tensor y;
  vram__memory_zero(&n, sizeof n);
  vram__memory_zero(&v, sizeof v);
  v.d = vram__dims_3d(s, count, x[0].d->v[0], x[0].d->v[1]);
  n.op = VRAM_OP_stack;
  n.nin = (uint16_t)count;
  n.nout = 1;
  n.out = &v;
  vram__forward_op(s, &n, x, &y);
  return y;
}

static void vram__rnn_release_all(vram__step *s, const vram__tensor *x, int64_t count) {
  int64_t i;
  for (i = 0; i < count; i++)
    vram__tensor_release(s, x[i]);
}

/* One layer: its output; states are replaced by the last ones. room: for 3 handles of each step */
static vram__tensor vram__rnn_layer(vram__step *s, const vram__rnn_call *c, int64_t layer,
                                    vram__tensor x, vram__tensor *states, vram__tensor *room) {
  static const int64_t last[] = {VRAM__KEY_dim | 1 << 8, -1, 0};
  const vram__rnn *r = &c->r;
  const int64_t steps = r->seq_length, nets = r->num_layers * r->num_directions;
  vram__tensor out[2], y;
  int64_t d;
  out[0] = out[1] = vram__tensor_none();
  vram__rnn_unbind(s, x, room, steps);
  for (d = 0; d < r->num_directions && !s->failed; d++) {
    const int64_t net = layer * r->num_directions + d;
    vram__rnn_pass p;
    p.call = c;
    p.w = c->w + net * r->params;
    p.reverse = d != 0;
    p.x = room;
    p.y = room + steps * (d + 1);
    p.state[0] = states[net];
    p.state[1] = states[nets + net];
    vram__rnn_pass_run(s, &p);
    states[net] = p.state[0];
    states[nets + net] = p.state[1];
    out[d] = s->failed ? vram__tensor_none() : vram__rnn_stack(s, p.y, steps);
  }
  if (s->failed)
    return vram__tensor_none();
  y = out[0];
  if (d == 2) {
    const vram_dims *to = vram__dims_3d(s, steps, r->mini_batch, 2 * r->out_size);
    y = vram__op_call_n(s, VRAM_OP_cat, out, 2, last, to);
    vram__tensor_release(s, out[1]);
    vram__rnn_release_all(s, room + 2 * steps, steps);
    vram__tensor_release(s, out[0]);
  }
  vram__rnn_release_all(s, room + steps, steps);
  vram__rnn_release_all(s, room, steps);
  return y;
}

/* lstm, gru and rnn of RNN.cpp without cuDNN: c->out */
static void vram__rnn_by_cells(vram__step *s, vram__rnn_call *c) {
  const vram__rnn *r = &c->r;
  const int64_t nets = r->num_layers * r->num_directions;
  const int lstm = r->kind == VRAM__RNN_LSTM;
  int64_t layer, drop[3];
  vram__tensor x, *states, *room;
  drop[0] = VRAM__KEY_p | 1 << 8;
  drop[1] = VRAM__INT(c->n, dropout, 0);
  drop[2] = 0;
  c->out[0] = c->out[1] = c->out[2] = vram__tensor_none();
  if (r->seq_length > UINT16_MAX) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, c->n,
                      "up to PyTorch 2.10 recurrent nets of bf16 run cell by cell (expected at "
                      "most 65535 steps, or rules of torch-2.11 or newer)");
    return;
  }
  states = vram__tensors_take(s, 2 * (uint64_t)nets);
  room = vram__tensors_take(s, 3 * (uint64_t)r->seq_length);
  if (s->failed)
    return;
  vram__memory_zero(states, 2 * (uint64_t)nets * sizeof *states);
  x = r->batch_first ? vram__torch_swap(s, c->in[0], 0, 1) : vram__tensor_retain(s, c->in[0]);
  vram__rnn_unbind(s, c->in[1], states, nets);
  if (lstm)
    vram__rnn_unbind(s, c->in[2], states + nets, nets);
  for (layer = 0; layer < r->num_layers && !s->failed; layer++) {
    vram__tensor_replace(s, &x, vram__rnn_layer(s, c, layer, x, states, room));
    if (c->dropout && layer + 1 < r->num_layers && !s->failed)
      vram__tensor_replace(s, &x, vram__op_call(s, VRAM_OP_dropout, x, vram__tensor_none(), drop));
  }
  if (s->failed)
    return;
  if (lstm)
    c->out[2] = vram__rnn_stack(s, states + nets, nets);
  c->out[1] = vram__rnn_stack(s, states, nets);
  vram__rnn_release_all(s, states + nets, nets); /* cy is declared behind hy */
  vram__rnn_release_all(s, states, nets);
  c->out[0] = r->batch_first ? vram__torch_swap(s, x, 0, 1) : vram__tensor_retain(s, x);
  vram__tensor_release(s, x);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(lstm, "", 1, 3, rnn, SAME, none, rnn, rnn, rnn, RNN, VRAM__RNN_LSTM,
         VRAM__OP_FLAT | VRAM__OP_FLOATS,
         "hidden_size! num_layers bias batch_first dropout bidirectional proj_size frozen weights "
         "dtype");
VRAM__OP(gru, "", 1, 2, rnn, SAME, none, rnn, rnn, rnn, RNN, VRAM__RNN_GRU,
         VRAM__OP_FLAT | VRAM__OP_FLOATS,
         "hidden_size! num_layers bias batch_first dropout bidirectional frozen weights dtype");
VRAM__OP(rnn, "", 1, 2, rnn, SAME, none, rnn, rnn, rnn, RNN, VRAM__RNN_PLAIN,
         VRAM__OP_FLAT | VRAM__OP_FLOATS,
         "hidden_size! num_layers nonlinearity bias batch_first dropout bidirectional frozen "
         "weights dtype");
VRAM__OP(lstm_cell, "", 1, 7, rnn_cell, SAME, none, rnn_cell, none, rnn_cell, RNN_CELL,
         VRAM__RNN_LSTM, VRAM__OP_FLOATS, "hidden_size! bias frozen weights dtype");
VRAM__OP(gru_cell, "", 1, 6, rnn_cell, SAME, none, rnn_cell, none, rnn_cell, RNN_CELL,
         VRAM__RNN_GRU, VRAM__OP_FLOATS, "hidden_size! bias frozen weights dtype");
VRAM__OP(rnn_cell, "", 1, 6, rnn_cell, SAME, none, rnn_cell, none, rnn_cell, RNN_CELL,
         VRAM__RNN_PLAIN, VRAM__OP_FLOATS, "hidden_size! bias nonlinearity frozen weights dtype");
