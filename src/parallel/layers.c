/* >>parallel/layers    layers that are alike: those in the middle are counted, not played
   A model is a few nodes, then a layer again and again, then a few nodes. Where two layers one
   after the other add the same to all that a step counts, so do those behind them, which begin in
   the same state. What they hold grows or shrinks from layer to layer by the same bytes, so that no
   point inside them is higher than the same point of the first or the last of them, which are
   played. */
#include "parallel/fsdp.h"

/* Layers that are played at the beginning, and as many at the end: the first and the last may
   differ from the others, of two more each it is seen that they add the same. */
enum { VRAM__LAYERS_PLAYED = 3 };

/* ---- which layers are alike */

static int vram__layer_keys_alike(const int64_t *a, const int64_t *b) {
  while (a && b && a != b && *a == *b && *a) {
    uint32_t n = (uint32_t)(*a >> 8) & 0xffffu;
    while (n && *++a == *++b)
      n--;
    if (n)
      return 0;
    a++;
    b++;
  }
  return a == b || (a && b && !*a && !*b);
}

static int vram__layer_dims_alike(const vram_dims *a, const vram_dims *b) {
  uint32_t i;
  if (a == b)
    return 1;
  for (i = 0; a->ndim == b->ndim && i < 2u * a->ndim && a->v[i] == b->v[i]; i++)
    ;
  return a->ndim == b->ndim && a->flags == b->flags && i == 2u * a->ndim;
}

/* What a layer uses is its own or the layer's before, so that the next one uses what lies as far
   behind; or both use the same, from before all of them. begin: of the first of both. */
static int vram__layer_values_alike(const vram__layers *y, uint32_t begin, const vram_value *a,
                                    const vram_value *b) {
  if (a == b)
    return !a->node || a->node->index < y->edge[0]->index;
  return a->node && a->node->index + y->shift_nodes >= begin &&
         b->index - a->index == y->shift_values;
}

static int vram__layer_params_alike(const vram__layers *y, const vram_node *n, const vram_node *m,
                                    uint32_t i) {
  const vram_param *p = n->param[i], *q = m->param[i];
  if (!p || !q)
    return p == q;
  return p->node == n && q->node == m && q->index - p->index == y->shift_params &&
         vram__layer_dims_alike(p->d, q->d) && p->kind == q->kind && p->dtype == q->dtype &&
         p->is_value == q->is_value && p->is_moved == q->is_moved && p->is_expert == q->is_expert &&
         p->is_dtensor == q->is_dtensor && p->is_partial == q->is_partial &&
         p->is_model == q->is_model;
}

static int vram__layer_nodes_alike(const vram__layers *y, uint32_t begin, const vram_node *n,
                                   const vram_node *m) {
  uint32_t i;
  if (n->op != m->op || n->nin != m->nin || n->nout != m->nout || n->nparam != m->nparam ||
      n->flags != m->flags || n->autocast != m->autocast || n->block || m->block ||
      !vram__layer_keys_alike(n->attr, m->attr))
    return 0;
  for (i = 0; i < n->nin; i++)
    if (!vram__layer_values_alike(y, begin, n->in[i], m->in[i]))
      return 0;
  for (i = 0; i < n->nout; i++) {
    const vram_value *v = n->out + i, *w = m->out + i;
    if (!vram__layer_dims_alike(v->d, w->d) || v->dtype != w->dtype || v->flags != w->flags ||
        (v->flags & VRAM__OUTPUT) || w->index - v->index != y->shift_values ||
        w->last - v->last != y->shift_nodes)
      return 0;
  }
  for (i = 0; i < n->nparam; i++)
    if (!vram__layer_params_alike(y, n, m, i))
      return 0;
  return 1;
}

/* The first value and parameter that a layer makes: where they are numbered from. */
static void vram__layer_numbers(const vram_node *n, const vram_node *end, uint32_t *value,
                                uint32_t *param) {
  *value = *param = UINT32_MAX;
  for (; n != end; n = n->next) {
    uint32_t i;
    if (n->nout && *value == UINT32_MAX)
      *value = n->out->index;
    for (i = 0; i < n->nparam; i++)
      if (n->param[i] && n->param[i]->node == n && n->param[i]->index < *param)
        *param = n->param[i]->index;
  }
}

/* The layers from a up to b, and from b up to c. */
static int vram__layers_alike(vram__layers *y, const vram_node *a, const vram_node *b,
                              const vram_node *c) {
  const vram_node *n, *m;
  uint32_t v[2], p[2];
  vram__layer_numbers(a, b, v, p);
  vram__layer_numbers(b, c, v + 1, p + 1);
  y->shift_nodes = b->index - a->index;
  y->shift_values = v[1] - v[0];
  y->shift_params = p[1] - p[0];
  if (c->index - b->index != y->shift_nodes)
    return 0;
  for (n = a, m = b; n != b; n = n->next, m = m->next)
    if (!vram__layer_nodes_alike(y, a->index, n, m))
      return 0;
  return 1;
}

/* Of each layer one part is checkpointed, which begins with it, or nothing of any. */
static int vram__layers_ranges(const vram__layers *y, const vram_step_options *o) {
  const vram_node *n = y->edge[0];
  uint32_t i = 0, layer;
  while (i < o->ncheckpoint && o->checkpoint[i].first->index < n->index)
    i++;
  if (i == o->ncheckpoint || o->checkpoint[i].first->index >= y->edge[5]->index)
    return 1;
  for (layer = 0; layer + 2 < y->count; layer++, i++) {
    const uint32_t first = n->index + layer * y->shift_nodes;
    if (i == o->ncheckpoint || o->checkpoint[i].first->index != first ||
        o->checkpoint[i].last->index >= first + y->shift_nodes)
      return 0;
  }
  return i == o->ncheckpoint || o->checkpoint[i].first->index >= y->edge[5]->index;
}

static int vram__layers_known(const vram_graph *g, const vram_step_options *o) {
  const vram_parallel *p = o->parallel;
  if (!o->train || o->replay || o->event || o->nodes || o->amp == VRAM_F16 || o->last_batch ||
      o->evaluation || o->dry_run || o->checkpoint_segments > 1 || o->reentrant ||
      o->optimizer_in_backward || o->ema || o->cudnn == VRAM_CUDNN_BENCHMARK)
    return 0;
  if (g->ncheckpoint || g->nkept || g->nmade || g->ncache || g->nbackward || g->nzero_grad ||
      g->nstep || g->nfrozen || g->holds || g->autocast_own || g->rnn_dropout || g->adapt)
    return 0;
  if (!p || !p->wrapper)
    return 1;
  if (p->pp > 1)
    return 0;
  if (p->wrapper == VRAM_WRAPPER_FSDP2)
    return !p->prefetch && !p->cpu_offload;
  return (p->wrapper == VRAM_WRAPPER_DDP || p->wrapper == VRAM_WRAPPER_ZERO1) &&
         !p->gradient_as_bucket_view && !p->static_graph && !p->find_unused_parameters && !p->hook;
}

/* Looks for a run of layers that are alike, so long that some of them need not be played. */
VRAM__FN int vram__layers_find(vram__layers *y, const vram_graph *g, const vram_step_options *o) {
  const vram_words units = {NULL, 0};
  const vram_node *n = g->first, *last[3] = {NULL, NULL, NULL};
  vram__layers of, best;
  uint32_t nodes = 0, values = 0, params = 0; /* shifts of the run */
  int ended = 0;
  vram__memory_zero(&of, sizeof of);
  vram__memory_zero(&best, sizeof best);
  if (!vram__layers_known(g, o))
    return 0;
  while (!ended) {
    const vram__unit_run run = vram__units_run(g, o->parallel ? o->parallel->units : units, n);
    ended = !run.last->next;
    n = run.last->next;
    if (!run.is_unit && !ended)
      continue;
    if (run.is_unit) {
      last[0] = last[1];
      last[1] = last[2];
      last[2] = run.first;
      of.count++;
      if (of.count <= 4 && of.count > 1)
        of.edge[of.count - 2] = run.first;
      if (of.count < 4)
        continue;
      /* the layers that end here and before */
      if (vram__layers_alike(&of, last[0], last[1], last[2]) &&
          (of.count == 4 ||
           (of.shift_nodes == nodes && of.shift_values == values && of.shift_params == params))) {
        nodes = of.shift_nodes;
        values = of.shift_values;
        params = of.shift_params;
        of.edge[3] = last[0];
        of.edge[4] = last[1];
        of.edge[5] = last[2];
        if (of.count > best.count)
          best = of;
        continue;
      }
    }
    of.count = 2; /* another run may begin with the last two */
    of.edge[0] = last[2];
  }
  *y = best;
  if (y->count < 2 * VRAM__LAYERS_PLAYED + 2)
    return 0;
  y->left = y->count - 2 * VRAM__LAYERS_PLAYED;
  return vram__layers_ranges(y, o);
}

/* ---- what a layer adds */

VRAM__FN vram__layer_count vram__layer_now(const vram__step *s) {
  const vram__layers *y = s->layers;
  vram__layer_count c;
  uint32_t i;
  c.requested = s->count.requested;
  c.blocks = s->count.blocks;
  c.extra = s->count.extra;
  c.ids = s->count.next_id;
  c.frees = s->count.frees;
  c.custom = s->count.custom;
  c.saved = s->r->saved_bytes;
  c.held = s->nheld;
  c.again = s->r->recomputed_flops;
  c.category = s->count.category;
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++) {
    c.calls[i] = s->r->communication[i].calls - (y ? y->own[i].calls : 0);
    c.bytes[i] = s->r->communication[i].bytes - (y ? y->own[i].bytes : 0);
    c.sent[i] = s->r->communication[i].sent - (y ? y->own[i].sent : 0);
  }
  return c;
}

/* All of them are counts of 64 bits, without padding between. */
enum { VRAM__LAYER_COUNTS = sizeof(vram__layer_count) / sizeof(uint64_t) };

VRAM__FN vram__layer_count vram__layer_less(const vram__layer_count *a,
                                            const vram__layer_count *b) {
  vram__layer_count c = *a;
  uint64_t *const of = (uint64_t *)(void *)&c;
  const uint64_t *const less = (const uint64_t *)(const void *)b;
  uint32_t i;
  for (i = 0; i < VRAM__LAYER_COUNTS; i++)
    of[i] -= less[i];
  return c;
}

VRAM__FN int vram__layer_counts_same(const vram__layer_count *a, const vram__layer_count *b) {
  const uint64_t *const x = (const uint64_t *)(const void *)a;
  const uint64_t *const z = (const uint64_t *)(const void *)b;
  uint32_t i;
  for (i = 0; i < VRAM__LAYER_COUNTS && x[i] == z[i]; i++)
    ;
  return i == VRAM__LAYER_COUNTS;
}

/* What is sent, or runs again, `times` times more; it never shrinks. */
static uint64_t vram__layer_sent(uint64_t sum, uint64_t each, uint64_t times) {
  return vram__sum_or_overflow(sum, vram__product_or_overflow(each, times));
}

/* `times` layers more, each of which adds that; what shrinks is a number below 0 in 64 bits. */
VRAM__FN void vram__layer_add(vram__step *s, const vram__layer_count *c, uint64_t times) {
  uint32_t i;
  if (s->count.at_peak)
    vram__peak_note(s);
  s->count.requested += c->requested * times;
  s->count.blocks += c->blocks * times;
  s->count.extra += c->extra * times;
  s->count.next_id += c->ids * times;
  s->count.frees += c->frees * times;
  s->count.custom += c->custom * times;
  s->r->saved_bytes += c->saved * times;
  s->r->recomputed_flops = vram__layer_sent(s->r->recomputed_flops, c->again, times);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    s->count.category.of[i] += c->category.of[i] * times;
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++) {
    s->r->communication[i].calls += c->calls[i] * times;
    s->r->communication[i].bytes =
        vram__layer_sent(s->r->communication[i].bytes, c->bytes[i], times);
    s->r->communication[i].sent = vram__layer_sent(s->r->communication[i].sent, c->sent[i], times);
  }
  if (s->count.requested >> 63)
    s->failed = VRAM_ERR_OVERFLOW;
}

/* ---- forward */

/* A micro-batch begins. */
VRAM__FN void vram__layers_begin(vram__step *s) {
  vram__layers *y = s->layers;
  y->seen = y->back = y->jumped = 0;
  vram__memory_zero(y->own, sizeof y->own);
}

/* The leaves of the layer from n up to end, in the order of its nodes, at most so many; how many.
 */
static uint32_t vram__layer_leaves(const vram__step *s, const vram_node *n, const vram_node *end,
                                   uint32_t *to, uint32_t most) {
  uint32_t i, count = 0;
  for (; n != end; n = n->next)
    for (i = 0; i < n->nparam; i++) {
      const vram_param *p = n->param[i];
      const uint32_t leaf =
          p && p->kind == VRAM__PARAM ? vram__tensor_fn(s, s->param[p->index]) : 0;
      if ((leaf & VRAM__LEAF) && count++ < most)
        to[count - 1] = leaf & ~VRAM__LEAF;
    }
  return count;
}

/* The number of a leaf in its layer; `leaves`: it is none of it. */
static uint32_t vram__layer_leaf_number(const vram__layers *y, const uint32_t *of, uint32_t leaf) {
  uint32_t k;
  for (k = 0; k < y->leaves && of[k] != leaf;)
    k++;
  return k;
}

/* What the last two layers that were played have named is what the last two that were not would
   have; what they handed on of nodes before them stays what it is. */
static void vram__layers_move(vram__step *s) {
  const vram__layers *y = s->layers;
  const uint32_t shift = y->shift_values * y->left, room = 2 * y->shift_values;
  uint32_t from, none, i;
  vram__layer_numbers(y->edge[0], y->edge[1], &from, &none);
  for (i = from + room; i-- > from;) {
    const uint32_t at = s->name_of[i];
    s->name_of[i + shift] = at - from < room ? at + shift : at;
    s->variable[i + shift] = s->variable[i];
    s->variable[i].refs = 0;
  }
}

/* Where the leaves of layers are: as far from each other from one layer to the next. 0: they are
   not. */
static int vram__layers_leaves(vram__step *s) {
  vram__layers *y = s->layers;
  const uint32_t n = vram__layer_leaves(s, y->edge[1], y->edge[2], NULL, 0);
  uint32_t k;
  y->leaf = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap,
                                          (4 * (uint64_t)n + 1) * sizeof *y->leaf);
  if (!y->leaf) {
    s->failed = VRAM_ERR_MEMORY;
    return 0;
  }
  y->leaf_last = y->leaf + n;
  y->leaf_shift = y->leaf_last + n;
  y->order = y->leaf_shift + n;
  y->leaves = n;
  y->norder = 0;
  vram__layer_leaves(s, y->edge[1], y->edge[2], y->leaf, n);
  if (vram__layer_leaves(s, y->edge[3], y->edge[4], y->leaf_last, n) != n)
    return 0;
  for (k = 0; k < n; k++) {
    const uint32_t between = y->leaf_last[k] - y->leaf[k];
    y->leaf_shift[k] = between / (y->left + 1);
    if (y->leaf_last[k] < y->leaf[k] || between % (y->left + 1))
      return 0;
  }
  return 1;
}

/* Node n is about to run; gives the one that runs in its place: n, or that behind the layers that
   are not played. */
VRAM__APART VRAM__FN const vram_node *vram__layers_forward(vram__step *s, const vram_node *n) {
  vram__layers *y = s->layers;
  vram__layer_count now, one, two;
  if (y->seen >= VRAM__LAYERS_PLAYED || n != y->edge[y->seen] || s->phase != VRAM_PHASE_FORWARD)
    return n;
  now = vram__layer_now(s);
  if (y->seen++ < 2) {
    y->then[y->seen - 1] = now;
    return n;
  }
  one = vram__layer_less(&y->then[1], &y->then[0]);
  two = vram__layer_less(&now, &y->then[1]);
  if (!vram__layer_counts_same(&one, &two) || two.held || !vram__layers_leaves(s))
    return n;
  vram__layers_move(s);
  vram__layer_add(s, &two, y->left);
  y->jumped = 1;
  return y->edge[3];
}

/* Autocast's context ends: what its cache has of a layer goes for those that were not played, too.
   Gives the bytes. */
VRAM__FN uint64_t vram__layers_casts(vram__step *s) {
  vram__layers *y = s->layers;
  const vram__layer_count then = vram__layer_now(s);
  vram__layer_count now;
  uint32_t *at = &s->leaf.first_cast;
  uint64_t n = 0;
  if (!y->jumped)
    return 0;
  while (*at) {
    const uint32_t leaf = *at - 1;
    vram__cast *c = s->leaf.cast + leaf;
    if (vram__layer_leaf_number(y, y->leaf, leaf) == y->leaves) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    n += vram__dims_bytes_of(c->t.d, c->t.dt);
    vram__tensor_release(s, c->t);
    c->t.d = NULL;
  }
  now = vram__layer_now(s);
  now = vram__layer_less(&now, &then);
  vram__layer_add(s, &now, y->left);
  return n * (y->left + 1);
}

/* ---- backward */

/* A gradient has been accumulated: what the wrapper sends then belongs to no layer, as its buckets
   do not end where layers do. */
static void vram__layers_accumulated(vram__step *s, vram__leaf *l) {
  vram__layers *y = s->layers;
  vram_communication before[VRAM_COLLECTIVE_COUNT];
  uint32_t i;
  vram__memory_copy(before, s->r->communication, sizeof before);
  y->accumulated(s, l);
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++) {
    y->own[i].calls += s->r->communication[i].calls - before[i].calls;
    y->own[i].bytes += s->r->communication[i].bytes - before[i].bytes;
    y->own[i].sent += s->r->communication[i].sent - before[i].sent;
  }
  i = vram__layer_leaf_number(y, y->leaf_last, (uint32_t)(l - s->leaf.at));
  if (y->back == 2 && i < y->leaves && y->norder < y->leaves)
    y->order[y->norder++] = i;
}

/* A storage like that of slot `like`; uncounted, as the layer's bytes have it. */
static uint32_t vram__layer_storage(vram__step *s, uint32_t like) {
  const vram__storage b = *vram__owner_at(s, like);
  uint32_t slot;
  s->stream = b.stream;
  slot = vram__buffer_existing(s, b.bytes, b.cat, 0);
  s->stream = 0;
  return slot;
}

/* Leaf l is left as `like` was, which is the same of another layer. */
static void vram__layer_leaf(vram__step *s, vram__leaf *l, const vram__leaf *like) {
  l->deps = 0;
  l->grad_dt = like->grad_dt;
  l->let_go = like->let_go;
  if (!like->grad.d && l->grad.d) {
    vram__tensor_release(s, l->grad);
    l->grad = vram__tensor_none();
  }
  if (!like->grad.d || l->grad.d)
    return;
  l->grad = like->grad;
  l->grad.st = like->grad.st ? vram__layer_storage(s, like->grad.st) : 0;
}

/* The same of a group of fully_shard. */
static void vram__layer_group(vram__step *s, uint32_t k, uint32_t like) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  const vram__fsdp_group *h = d->group + like;
  uint32_t i;
  g->state = h->state;
  g->training = h->training;
  g->at = 0;
  if (h->grad && !g->grad)
    g->grad = vram__layer_storage(s, h->grad);
  g->grad_bytes = h->grad_bytes;
  if (h->reduced && !g->reduced)
    g->reduced = vram__layer_storage(s, h->reduced);
  for (i = 0; i < g->end - g->first; i++)
    d->param[g->first + i].had = d->param[h->first + i].had;
}

/* The group of fully_shard that is the last layer but two; 0: the layers are none. */
static uint32_t vram__layers_group(const vram__step *s) {
  const vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = d->ngroup - 1; k && d->group[k].run.first != s->layers->edge[3];)
    k--;
  return k;
}

/* Backward has come to the layers that were not played. */
static void vram__layers_jump_back(vram__step *s, const vram__layer_count *each) {
  vram__layers *y = s->layers;
  const int units = s->wrapper && s->o->parallel->wrapper == VRAM_WRAPPER_FSDP2;
  const uint32_t group = units ? vram__layers_group(s) : 0;
  vram__counts count;
  uint32_t i, k;
  if (s->count.at_peak)
    vram__peak_note(s);
  count = s->count;
  for (i = 1; i <= y->left && !s->failed; i++) {
    for (k = 0; k < y->leaves; k++) {
      vram__leaf *const like = s->leaf.at + y->leaf_last[k];
      vram__layer_leaf(s, like - (uint64_t)i * y->leaf_shift[k], like);
    }
    if (group)
      vram__layer_group(s, group - i, group);
    for (k = 0; k < y->norder && y->accumulated; k++)
      y->accumulated(s, s->leaf.at + y->leaf_last[y->order[k]] -
                            (uint64_t)i * y->leaf_shift[y->order[k]]);
  }
  s->count = count;
  vram__layer_add(s, each, y->left);
}

/* A record of node n is about to run backward. */
VRAM__APART VRAM__FN void vram__layers_backward(vram__step *s, const vram_node *n) {
  vram__layers *y = s->layers;
  vram__layer_count now, one, two;
  while (y->jumped && y->back < VRAM__LAYERS_PLAYED && !s->failed &&
         n->index < y->edge[5 - y->back]->index) {
    now = vram__layer_now(s);
    if (y->back++ < 2) {
      y->then[y->back - 1] = now;
      if (y->back == 1) {
        y->accumulated = s->leaf.accumulated;
        s->leaf.accumulated = y->accumulated ? vram__layers_accumulated : NULL;
      }
      continue;
    }
    s->leaf.accumulated = y->accumulated;
    one = vram__layer_less(&y->then[1], &y->then[0]);
    two = vram__layer_less(&now, &y->then[1]);
    if (vram__layer_counts_same(&one, &two))
      vram__layers_jump_back(s, &two);
    else {
      y->differ = 1; /* than forward has found: the step is played once more, every layer */
      s->failed = VRAM_ERR_LIMIT;
    }
  }
}
