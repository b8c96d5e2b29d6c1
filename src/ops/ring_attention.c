/* >>ops/ring_attention    scaled_dot_product_attention of ranks that have a part of the sequence
   each (torch/distributed/tensor/experimental/_context_parallel/_attention.py, whose functions and
   variables the names are) */
#include "ops/ops.h"

/* The halves of what the first of two chunks, or the second, is taken of: of load balancing. */
static int vram__ring_halves(const vram_node *n, int64_t i) {
  return i > 0 && VRAM__INT(n, is_causal, 0) && VRAM__INT(n, load_balance, 0);
}

enum {
  VRAM__RING_BYTES = 8192, /* of the step's scratch, for one */
  VRAM__RING_MOST = 4096   /* ranks, of which each has a round */
};

static int vram__shape_ring_attention(vram_graph *g, vram_node *n) {
  const int64_t ranks = VRAM__INT(n, ranks, 1), rank = VRAM__INT(n, rank, 0),
                rotate = VRAM__INT(n, rotate, VRAM__WORD(allgather));
  const int causal = VRAM__INT(n, is_causal, 0) != 0;
  if (ranks < 1 || ranks > VRAM__RING_MOST || rank < 0 || rank >= ranks)
    return vram__node_error(g, n, "a ring of 1 to 4096 ranks, and rank is one of them");
  if (rotate != VRAM__WORD(allgather) && rotate != VRAM__WORD(alltoall))
    return vram__node_error(g, n, "rotate must be allgather or alltoall");
  if (n->in[0]->d->ndim != 4)
    return vram__node_error(g, n, "query, key and value [batch, heads, sequence, width]");
  if (!vram__shape_sdpa(g, n))
    return 0;
  if (causal && n->in[0]->d->v[2] != n->in[1]->d->v[2])
    return vram__node_error(g, n, "is_causal requires the same query and context sequence lengths");
  if (!causal && VRAM__INT(n, load_balance, 0))
    return vram__node_error(g, n,
                            "Load balancing requires `is_causal=True`. (enable_load_balance=0 "
                            "leaves it out)");
  if (VRAM__INT(n, load_balance, 0) && n->in[0]->d->v[2] % 2)
    return vram__node_error(g, n, "load balancing of rows that 2 does not divide");
  g->extra += VRAM__RING_BYTES;
  return 1;
}

static uint64_t vram__flops_ring_attention(const vram_node *n) {
  const uint64_t each = vram__flops_sdpa(n);
  uint64_t sum;
  int64_t i;
  if (VRAM__INT(n, is_causal, 0) && !VRAM__INT(n, load_balance, 0))
    return vram__product_or_overflow(each, (uint64_t)VRAM__INT(n, rank, 0) + 1);
  i = VRAM__INT(n, ranks, 1) - 1;
  sum = vram__product_or_overflow(vram__ring_halves(n, 1) ? each / 2 : each, (uint64_t)i);
  return vram__sum_or_overflow(each, sum);
}

#ifndef VRAM_NO_STEP

/* ---- pieces ---- */

/* _is_causal_behavior: of a causal mask without load balancing, keys of ranks behind this one are
   left out. */
static int vram__ring_skips(const vram_node *n, int64_t i) {
  return VRAM__INT(n, is_causal, 0) && !VRAM__INT(n, load_balance, 0) && i > VRAM__INT(n, rank, 0);
}

/* x, in its own storage, with these dims: nothing inside has a history. */
static vram__tensor vram__ring_view(vram__step *s, vram__tensor x, const vram_dims *d,
                                    vram_dtype dt) {
  vram__tensor y = vram__tensor_retain(s, x);
  y.d = d;
  y.dt = dt;
  return y;
}

/* x.chunk(2, dim=2)[i] */
static vram__tensor vram__ring_half(vram__step *s, vram__tensor x) {
  int64_t size[4];
  uint32_t i;
  for (i = 0; i < 4; i++)
    size[i] = i == 2 ? x.d->v[2] / 2 : x.d->v[i];
  return vram__ring_view(s, x, vram__dims_in(s, 4, size, VRAM__STRIDE(x.d)), x.dt);
}

/* torch.cat of both chunks of x, of which one may be another tensor */
static vram__tensor vram__ring_cat(vram__step *s, vram__tensor x, const vram_dims *other) {
  const vram__tensor half = vram__ring_half(s, x);
  const int cl = vram__suggests_cl(half.d) && (!other || vram__suggests_cl(other));
  const vram__tensor y =
      vram__tensor_empty(s, vram__cat_dims(s, vram__dims_contiguous(s, x.d), cl), x.dt);
  vram__tensor_release(s, half);
  return y;
}

/* _create_rotater: what is rotated from rank to rank. */
typedef struct vram__rotater {
  vram__tensor buffer; /* that came last, or all that were gathered */
  vram__tensor flight; /* what a collective reads until the next one is waited for */
  int gathers;
} vram__rotater;

/* exchange_buffers; what is exchanged stays the caller's. */
static void vram__rotater_exchange(vram__step *s, vram__rotater *r, vram__tensor x, int64_t ranks) {
  const uint64_t bytes = vram__dims_bytes_of(x.d, x.dt);
  if (r->gathers && r->buffer.st)
    return;
  r->flight = vram__tensor_retain(s, x);
  if (r->gathers) {
    const uint64_t all = vram__product_or_overflow(bytes, (uint64_t)ranks);
    r->buffer = vram__tensor_raw(s, all);
    vram__communicate(s, VRAM_COLLECTIVE_ALL_GATHER, all, (uint64_t)ranks);
    return;
  }
  vram__tensor_replace(s, &r->buffer, vram__tensor_empty(s, x.d, x.dt));
  vram__communicate(s, VRAM_COLLECTIVE_ALL_TO_ALL, bytes, 0); /* all of it to one other */
}

/* next_buffer */
static vram__tensor vram__rotater_next(vram__step *s, vram__rotater *r) {
  vram__tensor_replace(s, &r->flight, vram__tensor_none());
  return vram__tensor_retain(s, r->buffer);
}

/* torch.cat([key.flatten(), value.flatten()]) */
static vram__tensor vram__ring_flat(vram__step *s, vram__tensor key, vram__tensor value) {
  const vram__tensor a = vram__tensor_contiguous(s, key), b = vram__tensor_contiguous(s, value);
  const int64_t size = (int64_t)(key.d->numel + value.d->numel);
  const vram__tensor y = vram__tensor_empty(s, vram__dims_in(s, 1, &size, NULL), key.dt);
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
  return y;
}

/* ---- forward ---- */

/* _SDPAMerger */
typedef struct vram__merger {
  vram__tensor out, lse;
} vram__merger;

/* PyTorch's words on what does not broadcast. */
static int vram__ring_lengths(vram__step *s, int64_t a, int64_t b) {
  static const char what[] = "of memory-efficient attention logsumexp has rows in multiples of 32: "
                             "The size of tensor a must match the size of tensor b at "
                             "non-singleton dimension 2";
  if (a != b && a != 1 && b != 1)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node, what);
  return !s->failed;
}

/* _merge_one, behind the first. Takes neither. */
static void vram__merger_add(vram__step *s, vram__merger *m, vram__tensor block_out,
                             vram__tensor block_lse, int partial) {
  vram__tensor lse = partial ? vram__ring_half(s, m->lse) : vram__tensor_retain(s, m->lse),
               out = partial ? vram__ring_half(s, m->out) : vram__tensor_retain(s, m->out), a, b;
  if (vram__ring_lengths(s, block_lse.d->v[2], lse.d->v[2]) &&
      vram__ring_lengths(s, lse.d->v[2], out.d->v[2])) {
    /* out - sigmoid(block_lse - lse) * (out - block_out) */
    a = vram__pointwise_empty2(s, block_lse, lse);
    vram__tensor_replace(s, &a, vram__pointwise_empty1(s, a));
    b = vram__pointwise_empty2(s, out, block_out);
    vram__tensor_replace(s, &a, vram__pointwise_empty2(s, a, b));
    vram__tensor_release(s, b);
    vram__tensor_replace(s, &out, vram__pointwise_empty2(s, out, a));
    vram__tensor_release(s, a);
    /* lse - logsigmoid(lse - block_lse) */
    a = vram__pointwise_empty2(s, lse, block_lse);
    vram__tensor_replace(s, &a, vram__pointwise_empty1(s, a));
    vram__tensor_replace(s, &lse, vram__pointwise_empty2(s, lse, a));
    vram__tensor_release(s, a);
    vram__tensor_replace(s, &m->lse,
                         partial ? vram__ring_cat(s, m->lse, lse.d) : vram__tensor_retain(s, lse));
    vram__tensor_replace(s, &m->out,
                         partial ? vram__ring_cat(s, m->out, out.d) : vram__tensor_retain(s, out));
  }
  vram__tensor_release(s, lse);
  vram__tensor_release(s, out);
}

static void vram__merger_step(vram__step *s, vram__merger *m, const vram__sdpa_made *made,
                              int partial) {
  const vram__tensor out = vram__tensor_to(s, made->y, VRAM_F32);
  if (m->out.d)
    vram__merger_add(s, m, out, made->lse, partial);
  else {
    m->out = vram__tensor_retain(s, out);
    m->lse = vram__tensor_retain(s, made->lse);
  }
  vram__tensor_release(s, out);
}

static void vram__ring_release(vram__step *s, vram__tensor *t, uint32_t n) {
  while (n--) {
    vram__tensor_release(s, *t);
    *t++ = vram__tensor_none();
  }
}

/* Variables of _templated_ring_attention. */
typedef struct vram__ring {
  vram__tensor key, value, next_kv;
  vram__tensor q, k, v;
  vram__rotater rotater;
} vram__ring;

static void vram__ring_begin(vram__step *s, vram__ring *r, const vram_node *n, vram__tensor key,
                             vram__tensor value) {
  vram__memory_zero(r, sizeof *r);
  r->rotater.gathers = VRAM__INT(n, rotate, VRAM__WORD(allgather)) == VRAM__WORD(allgather);
  r->key = vram__tensor_contiguous(s, key);
  r->value = vram__tensor_contiguous(s, value);
}

/* The keys and values of another rank. */
static void vram__ring_next(vram__step *s, vram__ring *r, vram__tensor buffer) {
  const vram_dims *key = r->key.d, *value = r->value.d;
  vram__tensor_replace(s, &r->key, vram__ring_view(s, buffer, key, r->key.dt));
  vram__tensor_replace(s, &r->value, vram__ring_view(s, buffer, value, r->value.dt));
}

/* q, k, v of round i; their variables are the ones before until then. */
static void vram__ring_choose(vram__step *s, vram__ring *r, const vram_node *n, int64_t i,
                              vram__tensor query) {
  const int halves = vram__ring_halves(n, i), partial = i > VRAM__INT(n, rank, 0);
  const vram__tensor q =
      halves && partial ? vram__ring_half(s, query) : vram__tensor_retain(s, query);
  const vram__tensor k =
      halves && !partial ? vram__ring_half(s, r->key) : vram__tensor_retain(s, r->key);
  const vram__tensor v =
      halves && !partial ? vram__ring_half(s, r->value) : vram__tensor_retain(s, r->value);
  vram__tensor_replace(s, &r->q, q);
  vram__tensor_replace(s, &r->k, k);
  vram__tensor_replace(s, &r->v, v);
}

/* The output of the kernel as the ring has it: logsumexp of four axes. */
static void vram__ring_kernel(vram__step *s, const vram__sdpa *p, int backend, vram__sdpa_made *m) {
  const vram_dims *q = p->in[0].d;
  vram__sdpa_fused_forward(s, p, backend, 1, m);
  m->lse.d = vram__dims_4d(s, q->v[0], q->v[1], m->rows, 1);
  m->lse.dt = VRAM_F32;
}

/* _templated_ring_attention: *m becomes what is returned, of the first kernel its random state. */
static void vram__ring_forward(vram__step *s, const vram_node *n, const vram__sdpa *p, int backend,
                               vram__sdpa_made *m) {
  const int64_t ranks = VRAM__INT(n, ranks, 1);
  vram__sdpa call = *p;
  vram__sdpa_made last, made;
  vram__merger merger;
  vram__ring r;
  int64_t i;
  vram__memory_zero(&last, sizeof last);
  vram__memory_zero(&merger, sizeof merger);
  vram__ring_begin(s, &r, n, p->in[1], p->in[2]);
  for (i = 0; i < ranks && !s->failed; i++) {
    if (i) {
      vram__tensor_replace(s, &r.next_kv, vram__rotater_next(s, &r.rotater));
      vram__ring_next(s, &r, r.next_kv);
    }
    if (i < ranks - 1) {
      vram__tensor_replace(s, &r.next_kv, vram__ring_flat(s, r.key, r.value));
      vram__rotater_exchange(s, &r.rotater, r.next_kv, ranks);
      vram__tensor_replace(s, &r.next_kv, vram__tensor_none());
    }
    if (vram__ring_skips(n, i))
      continue;
    vram__ring_choose(s, &r, n, i, p->in[0]);
    call.in[0] = r.q;
    call.in[1] = r.k;
    call.in[2] = r.v;
    vram__ring_kernel(s, &call, backend, &made);
    vram__ring_release(s, &last.y, 1);
    vram__ring_release(s, &last.lse, 1);
    if (!i) {
      m->rest[0] = vram__tensor_retain(s, made.rest[0]); /* saved_rest */
      m->rest[1] = vram__tensor_retain(s, made.rest[1]);
    }
    vram__ring_release(s, &last.rest[1], 1);
    vram__ring_release(s, &last.rest[0], 1);
    last = made;
    vram__merger_step(s, &merger, &made, vram__ring_halves(n, i) && i > VRAM__INT(n, rank, 0));
  }
  m->y = vram__tensor_to(s, merger.out.d ? merger.out : last.y, p->in[0].dt);
  m->lse = vram__tensor_retain(s, merger.lse);
  vram__ring_release(s, &r.key, 3);
  vram__ring_release(s, &merger.out, 2);
  vram__ring_release(s, &r.rotater.buffer, 2);
  vram__ring_release(s, &r.q, 3);
  vram__ring_release(s, &last.y, 2);
  vram__ring_release(s, &last.rest[1], 1);
  vram__ring_release(s, &last.rest[0], 1);
}

static void vram__forward_ring_attention(vram__step *s, const vram_node *n, vram__tensor *x,
                                         vram__tensor *y) {
  vram__sdpa p;
  vram__sdpa_made m;
  vram__tensor held[3];
  vram__grad_fn *f;
  int64_t width;
  uint32_t i;
  int backend;
  vram__sdpa_of_node(s, n, x, &p);
  for (i = 0; i < 3; i++)
    held[i] = vram__tensor_retain(s, p.in[i]);
  backend = vram__sdpa_backend(s, &p);
  if (backend == VRAM__SDPA_MATH)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "CP only supports flash attention and memory efficient attention now (and "
                      "cuDNN's), and none of them takes these tensors");
  vram__memory_zero(&m, sizeof m);
  width = p.in[0].d->v[3];
  if (backend == VRAM__SDPA_FLASH)
    vram__flash_pad(s, &p);
  f = vram__tape_record(s, n->op, p.in, 3, 1, 7);
  if (!s->failed)
    vram__ring_forward(s, n, &p, backend, &m);
  if (f) {
    f->aux = (uint64_t)backend << 8;
    vram__sdpa_fused_save(s, f, &p, backend, &m);
  }
  vram__tensor_release(s, m.lse);
  vram__tensor_release(s, m.rest[0]);
  vram__tensor_release(s, m.rest[1]);
  vram__grad_fn_set_output(s, f, 0, &m.y);
  if (p.in[0].d->v[3] != width && !s->failed)
    vram__tensor_replace(s, &m.y, vram__torch_narrow(s, m.y, 3, width));
  y[0] = m.y;
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, p.in[i]);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, held[i]);
}

/* ---- backward ---- */

/* Variables of _templated_ring_attention_backward. */
typedef struct vram__ring_gradients {
  vram__tensor next_grad_kv;
  vram__tensor of[3];  /* grad_query_, grad_key_, grad_value_: of a round */
  vram__tensor sum[3]; /* grad_query, grad_key, grad_value: in fp32 */
  vram__tensor buffer; /* of keys and values */
  vram__tensor out, dout, lse;
  vram__rotater rotater;
} vram__ring_gradients;

static vram__tensor vram__ring_zeros(vram__step *s, vram__tensor like) {
  return vram__tensor_empty(s, vram__dims_dense(s, like.d), VRAM_F32);
}

/* The kernel's backward of round i. */
static void vram__ring_kernel_backward(vram__step *s, vram__ring *r, vram__ring_gradients *g,
                                       const vram_node *n, int64_t i, int backend,
                                       const vram__sdpa_saved *x) {
  const int partial = vram__ring_halves(n, i) && i > VRAM__INT(n, rank, 0);
  vram__tensor out = partial ? vram__ring_half(s, x->y) : vram__tensor_retain(s, x->y),
               dout = partial ? vram__ring_half(s, x->g) : vram__tensor_retain(s, x->g),
               lse = vram__tensor_retain(s, x->lse), made[3];
  vram__sdpa_saved call = *x;
  uint32_t k;
  if (partial) {
    vram__tensor_replace(s, &lse, vram__ring_half(s, lse));
    vram__tensor_replace(s, &lse, vram__tensor_contiguous(s, lse));
  }
  vram__ring_choose(s, r, n, i, x->q);
  vram__tensor_replace(s, &g->out, out);
  vram__tensor_replace(s, &g->dout, dout);
  vram__tensor_replace(s, &g->lse, lse);
  call.q = r->q;
  call.k = r->k;
  call.v = r->v;
  call.y = g->out;
  call.g = g->dout;
  call.lse = g->lse;
  vram__sdpa_fused_backward(s, backend, &call, made);
  for (k = 0; k < 3; k++)
    vram__tensor_replace(s, &g->of[k], made[k]);
}

/* What the round gives is added to the sums, of which those of keys and values go to the next rank.
 */
static void vram__ring_add(vram__step *s, vram__ring_gradients *g, const vram_node *n, int64_t i) {
  const int halves = VRAM__INT(n, load_balance, 0) != 0, before = i <= VRAM__INT(n, rank, 0);
  uint32_t k;
  if (i) {
    const vram__tensor next = vram__rotater_next(s, &g->rotater);
    vram__tensor_replace(s, &g->next_grad_kv, next);
    for (k = 1; k < 3; k++)
      vram__tensor_replace(
          s, &g->sum[k], vram__ring_view(s, next, vram__dims_contiguous(s, g->sum[k].d), VRAM_F32));
    for (k = 1; k < 3 && before && halves; k++)
      vram__tensor_replace(s, &g->sum[k], vram__ring_cat(s, g->sum[k], NULL));
  }
  vram__tensor_replace(s, &g->next_grad_kv, vram__ring_flat(s, g->sum[1], g->sum[2]));
  vram__rotater_exchange(s, &g->rotater, g->next_grad_kv, VRAM__INT(n, ranks, 1));
  if (!before && halves)
    vram__tensor_replace(s, &g->sum[0], vram__ring_cat(s, g->sum[0], NULL));
}

/* What is returned, and the variables go. */
static void vram__ring_end(vram__step *s, vram__ring *r, vram__ring_gradients *g, vram_dtype dt,
                           vram__tensor *to) {
  const vram_dims *key = r->key.d, *value = r->value.d;
  vram__tensor next;
  vram__tensor_replace(s, &g->sum[0], vram__tensor_to(s, g->sum[0], dt));
  next = vram__rotater_next(s, &g->rotater);
  vram__tensor_replace(s, &next, vram__tensor_to(s, next, dt));
  vram__tensor_replace(s, &g->next_grad_kv, next);
  to[0] = vram__tensor_retain(s, g->sum[0]);
  to[1] = vram__tensor_view(s, next, vram__dims_contiguous(s, key));
  to[2] = vram__tensor_view(s, next, vram__dims_contiguous(s, value));
  vram__ring_release(s, &g->sum[1], 2);
  vram__ring_release(s, &r->key, 3);
  vram__ring_release(s, &g->next_grad_kv, 1);
  vram__ring_release(s, g->of, 3);
  vram__ring_release(s, g->sum, 1);
  vram__ring_release(s, &r->rotater.buffer, 2);
  vram__ring_release(s, &g->rotater.buffer, 2);
  vram__ring_release(s, &g->buffer, 1);
  vram__ring_release(s, &r->q, 3);
  vram__ring_release(s, &g->out, 3);
}

static void vram__backward_ring_attention(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_node *n = f->node;
  const int64_t ranks = VRAM__INT(n, ranks, 1);
  const vram__sdpa_saved x = vram__sdpa_saved_of(f);
  vram__ring_gradients g;
  vram__ring r;
  int64_t i;
  uint32_t k;
  vram__memory_zero(&g, sizeof g);
  g.sum[0] = vram__ring_zeros(s, x.q);
  g.sum[1] = vram__ring_zeros(s, x.k);
  g.sum[2] = vram__ring_zeros(s, x.v);
  vram__ring_begin(s, &r, n, x.k, x.v);
  for (i = 0; i < ranks; i++) {
    if (i) {
      vram__tensor_replace(s, &g.buffer, vram__rotater_next(s, &r.rotater));
      vram__ring_next(s, &r, g.buffer);
    }
    if (i < ranks - 1) {
      vram__tensor_replace(s, &r.next_kv, vram__ring_flat(s, r.key, r.value));
      vram__rotater_exchange(s, &r.rotater, r.next_kv, ranks);
    }
    if (!vram__ring_skips(n, i))
      vram__ring_kernel_backward(s, &r, &g, n, i, (int)(f->aux >> 8), &x);
    else
      for (k = 0; k < 3; k++)
        vram__tensor_replace(s, &g.of[k],
                             vram__ring_zeros(s, k == 0   ? x.q
                                                 : k == 1 ? r.key
                                                          : r.value));
    vram__ring_add(s, &g, n, i);
  }
  vram__ring_end(s, &r, &g, x.q.dt, to);
  vram__gradients_drop_unwanted(s, f, to);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(ring_attention, "", 3, 3, ring_attention, SAME, low, ring_attention, ring_attention,
         ring_attention, ATTENTION, 0, 0,
         "ranks! rank! rotate load_balance dropout_p is_causal enable_gqa backend scale");
