/* >>parallel/deepspeed3_gather    ZeRO stage 3: when parameters are gathered and released
   (deepspeed/runtime/zero/partitioned_param_coordinator.py, partition_parameters.py) */
#include "parallel/deepspeed3.h"

/* Parameters that modules use in the order of their numbers: the first of n's behind `after` - 1;
   VRAM__DS_NONE: none. */
VRAM__FN uint32_t vram__ds3_next(const vram__ds3 *d, const vram_node *n, uint32_t after) {
  uint32_t best = VRAM__DS_NONE, i;
  if (vram__ds3_is_line(n)) { /* it stands for a module of such lines */
    best = d->by_index[n->param[0]->index];
    while (best < after)
      best = d->at[best].next;
    return best;
  }
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->kind != VRAM__BUFFER) {
      const uint32_t k = d->by_index[n->param[i]->index];
      if (k >= after && k < best)
        best = k;
    }
  return best;
}

#define VRAM__DS3_EACH(d, n, k)                                                                    \
  for ((k) = vram__ds3_next((d), (n), 0); (k) != VRAM__DS_NONE;                                    \
       (k) = vram__ds3_next((d), (n), (k) + 1))

/* Modules without parameters around n that are not around `last`: parts of the name, but lists of
   modules, whose elements have numbers, are never called; and the root, if nothing came before. The
   line that stands for a module is inside it. */
static uint32_t vram__ds3_modules_between(const vram_node *n, const vram_node *last) {
  const vram__span a = vram__node_label(n);
  vram__span b = {NULL, 0};
  uint32_t i, same = 0, count = last == NULL;
  if (last && last->round == n->round)
    b = vram__node_label(last);
  for (i = 0; i < a.len && i < b.len && a.text[i] == b.text[i]; i++)
    if (a.text[i] == '.')
      same = i;
  for (i = same ? same + 1 : 0; i + 1 < a.len; i++)
    count += a.text[i] == '.' && !vram__digit(a.text[i + 1]);
  if (vram__ds3_is_line(n))
    count -= count != 0;
  return count;
}

static uint8_t vram__ds3_stream(const vram__ds3 *d) { return d->ds.overlap ? 1 : 0; }

static uint32_t vram__ds3_new(vram__step *s, uint64_t elements, uint8_t stream) {
  return vram__buffer_new_on(s, elements * vram__dtype_size(vram__ds_of(s)->dtype),
                             VRAM_CATEGORY_PARAMS, stream);
}

/* ---- all_gather_coalesced, of n parameters of d->list */

static void vram__ds3_upload(vram__step *s, uint32_t n) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t i;
  for (i = 0; i < n; i++)
    d->ds.norms[i] = vram__ds3_new(s, d->at[d->list[i]].part, vram__ds3_stream(d));
  while (n)
    vram__buffer_free(s, d->ds.norms + --n);
}

static void vram__ds3_gather_list(vram__step *s, uint32_t n) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint8_t stream = vram__ds3_stream(d);
  vram__ds3_gather *g = d->gather;
  uint64_t part = 0;
  uint32_t i;
  for (i = 0; i < n; i++) {
    part += d->at[d->list[i]].part;
    d->available += d->ds.param[d->list[i]].numel;
  }
  for (i = 0; i < n && d->ds.ranks == 1; i++)
    d->at[d->list[i]].available = 1; /* the shard is all of it */
  if (!n || d->ds.ranks == 1)
    return;
  while (g->left)
    g++;
  g->done = 0;
  g->left = n;
  g->flat = vram__ds3_new(s, part * d->ds.ranks, stream);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_GATHER,
                    part * d->ds.ranks * vram__dtype_size(d->ds.dtype), d->ds.ranks);
  g->upload = 0;
  if (s->o->parallel->offload_param && n == 1)
    g->upload = vram__ds3_new(s, part, stream);
  else if (s->o->parallel->offload_param)
    vram__ds3_upload(s, n);
  for (i = 0; i < n; i++) {
    d->at[d->list[i]].gather = (uint32_t)(g - d->gather) + 1;
    d->at[d->list[i]].stream = stream;
  }
  if (n == 1) {
    d->at[d->list[0]].whole = g->flat;
    g->flat = 0;
  }
}

/* AllGatherCoalescedHandle.wait: each parameter gets a storage of its own. */
static void vram__ds3_gather_end(vram__step *s, vram__ds3_gather *g) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t k;
  g->done = 1;
  vram__buffer_free(s, &g->upload);
  for (k = 0; k < d->ds.nparam; k++)
    if (d->at[k].gather == (uint32_t)(g - d->gather) + 1) {
      if (g->flat)
        d->at[k].whole = vram__ds3_new(s, d->ds.param[k].numel, d->at[k].stream);
      d->at[k].available = 1;
    }
}

static void vram__ds3_wait(vram__step *s, uint32_t k) {
  vram__ds3 *d = vram__ds3_of(s);
  vram__ds3_gather *g = d->gather + d->at[k].gather - 1;
  if (!d->at[k].gather)
    return;
  if (!g->done)
    vram__ds3_gather_end(s, g);
  d->at[k].gather = 0;
  if (!--g->left)
    vram__buffer_free(s, &g->flat);
}

/* __release_param */
VRAM__FN void vram__ds3_release(vram__step *s, uint32_t k) {
  vram__ds3 *d = vram__ds3_of(s);
  vram__ds3_param *p = d->at + k;
  if (!p->available || p->active)
    return;
  if (p->stream && p->whole)
    vram__undone_add(s, p->whole);
  vram__buffer_free(s, &p->whole);
  p->available = 0;
  d->available -= d->ds.param[k].numel;
}

/* ---- the trace */

/* The next parameter of __param_queue goes from it; VRAM__DS_NONE: it is empty. */
static uint32_t vram__ds3_pop(vram__ds3 *d, uint32_t *step) {
  uint32_t k;
  for (; d->queue < d->ncall; d->queue++, d->queue_param = 0) {
    k = vram__ds3_next(d, d->call[d->queue].n, d->queue_param);
    if (k == VRAM__DS_NONE)
      continue;
    d->queue_param = k + 1;
    *step = d->call[d->queue].step;
    return k;
  }
  return VRAM__DS_NONE;
}

/* Parameters that come next are gathered, as many as go into a bucket and may live. */
static void vram__ds3_prefetch(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const vram_parallel *o = s->o->parallel;
  const uint64_t live = o->stage3_max_live_parameters;
  const uint64_t left = live > d->available ? live - d->available : 0;
  const uint64_t most =
      left < o->stage3_prefetch_bucket_size ? left : o->stage3_prefetch_bucket_size;
  uint64_t numel = 0;
  uint32_t n = 0, step = 0, k, i;
  if (d->mode != VRAM__DS3_COMPLETE)
    return;
  while (numel < most && (k = vram__ds3_pop(d, &step)) != VRAM__DS_NONE) {
    vram__ds3_param *p = d->at + k;
    if (p->recent < (int64_t)step)
      p->recent = step;
    if (p->available || p->gather || p->listed)
      continue;
    p->listed = 1;
    d->list[n++] = k;
    numel += d->ds.param[k].numel;
  }
  for (i = 0; i < n; i++)
    d->at[d->list[i]].listed = 0;
  vram__ds3_gather_list(s, n);
}

static void vram__ds3_note_call(vram__step *s, const vram_node *n, uint32_t before) {
  vram__ds3 *d = vram__ds3_of(s);
  vram__ds3_call *c = d->call + d->ncall;
  if (d->mode != VRAM__DS3_RECORD)
    return;
  if (d->ncall == d->call_room) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  c->n = n;
  c->before = before;
  c->step = d->step + before;
  d->ncall++;
}

/* fetch_sub_module of n, and of the modules without parameters before it */
VRAM__FN void vram__ds3_fetch(vram__step *s, const vram_node *n) {
  vram__ds3 *d = vram__ds3_of(s);
  const int line = vram__ds3_is_line(n);
  uint32_t before = vram__ds3_modules_between(n, d->last), k, count = 0, fresh = 0, step = 0;
  d->last = n;
  vram__ds3_note_call(s, n, before);
  for (; before; before--) {
    vram__ds3_prefetch(s);
    d->step++;
  }
  VRAM__DS3_EACH(d, n, k) {
    if (!d->at[k].available && !d->at[k].gather)
      d->list[count++] = k;
  }
  vram__ds3_gather_list(s, count);
  VRAM__DS3_EACH(d, n, k) {
    d->at[k].active += !(line && d->at[k].active); /* a set of modules; a line has one */
    vram__ds3_wait(s, k);
    fresh += d->at[k].recent < (int64_t)d->step;
  }
  if (d->mode == VRAM__DS3_COMPLETE)
    for (; fresh && (k = vram__ds3_pop(d, &step)) != VRAM__DS_NONE; fresh--)
      d->at[k].recent = step;
  vram__ds3_prefetch(s);
  d->step++;
}

/* Is it used again by a module of the trace that comes soon? */
static int vram__ds3_is_reused(const vram__step *s, uint32_t k) {
  const vram__ds3 *d = vram__ds3_of(s);
  const uint64_t most = s->o->parallel->stage3_max_reuse_distance;
  uint64_t seen = 0;
  uint32_t lo = 0, hi = d->ncall, i;
  while (lo < hi) { /* the first call at this step or behind it */
    const uint32_t at = lo + (hi - lo) / 2;
    if (d->call[at].step < d->step)
      lo = at + 1;
    else
      hi = at;
  }
  for (; lo < d->ncall && seen < most; lo++)
    VRAM__DS3_EACH(d, d->call[lo].n, i) {
      if (i == k)
        return 1;
      seen += d->ds.param[i].numel;
    }
  return 0;
}

/* release_sub_module */
VRAM__FN void vram__ds3_end(vram__step *s, const vram_node *n) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t k;
  VRAM__DS3_EACH(d, n, k) {
    vram__ds3_param *p = d->at + k;
    if (p->active)
      p->active--;
    if (d->mode != VRAM__DS3_COMPLETE ||
        (!p->persists && p->recent <= (int64_t)d->step && !vram__ds3_is_reused(s, k)))
      vram__ds3_release(s, k);
  }
}

/* assert_ints_same_as_other_ranks */
static void vram__ds3_compare_ints(vram__step *s, uint64_t count) {
  vram__buffer_briefly(s, 8);
  vram__buffer_briefly(s, 8 * count);
}

/* reset_step: a forward pass begins. */
VRAM__FN void vram__ds3_reset(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  uint64_t modules = 0, params = 0;
  uint32_t i, k;
  for (k = 0; k < d->ds.nparam; k++)
    if (d->at[k].gather) {
      vram__ds3_wait(s, k);
      vram__ds3_release(s, k);
    }
  for (i = 0; i < d->ncall; i++) {
    modules += d->call[i].before + UINT64_C(1);
    VRAM__DS3_EACH(d, d->call[i].n, k) params++;
  }
  if (d->mode != VRAM__DS3_COMPLETE)
    vram__ds3_compare_ints(s, modules);
  if (d->mode == VRAM__DS3_RECORD) {
    vram__ds3_compare_ints(s, params);
    vram__ds3_compare_ints(s, params);
  }
  if (d->mode != VRAM__DS3_COMPLETE)
    d->mode++;
  for (k = 0; k < d->ds.nparam; k++) {
    d->at[k].recent = INT64_MIN;
    d->at[k].active = 0;
  }
  d->queue = d->queue_param = d->step = d->nactive = 0;
  d->available = 0;
  d->last = d->pending = NULL;
}

/* ---- hooks of modules */

/* A node that is a module with parameters of its own. */
static int vram__ds3_is_module(const vram__ds3 *d, const vram_node *n) {
  return n->nparam && !vram__ds3_is_line(n) && vram__ds3_next(d, n, 0) != VRAM__DS_NONE;
}

VRAM__FN void vram__ds3_node_begin(vram__step *s, const vram_node *n) {
  vram__ds3_modules_begin(s, n);
  if (vram__ds3_is_module(vram__ds3_of(s), n))
    vram__ds3_fetch(s, n);
}

static void vram__ds3_module_end(vram__step *s, const vram_node *n) {
  uint32_t fn;
  vram__ds3_end(s, n);
  if (!s->grad || !n->nout)
    return;
  fn = vram__tensor_fn(s, s->variable[s->name_of[n->out[0].index]].t);
  if (vram__is_grad_fn(fn))
    vram__grad_fn_at(s, fn)->hooked |= VRAM__DS3_HOOK_NODE;
}

VRAM__FN void vram__ds3_node_end(vram__step *s, const vram_node *n) {
  if (vram__ds3_is_module(vram__ds3_of(s), n))
    vram__ds3_module_end(s, n);
  vram__ds3_modules_end(s, n);
}

VRAM__FN void vram__ds3_backward_began(vram__step *s, const vram_node *n) {
  vram__ds3 *d = vram__ds3_of(s);
  if (d->nactive < d->active_room)
    d->active[d->nactive++] = n;
}

VRAM__FN void vram__ds3_post_backward(vram__step *s, const vram_node *n) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t i, k = 0;
  if (d->pending == n)
    d->pending = NULL;
  for (i = 0; i < d->nactive; i++)
    if (d->active[i] != n)
      d->active[k++] = d->active[i];
  d->nactive = k;
  vram__ds3_end(s, n);
}

/* pre_sub_module_backward_function */
VRAM__FN void vram__ds3_record(vram__step *s, uint32_t fn) {
  vram__ds3 *d = vram__ds3_of(s);
  const vram__grad_fn *f = vram__grad_fn_at(s, fn);
  if (f->hooked != VRAM__DS3_HOOK_IN && d->pending)
    vram__ds3_post_backward(s, d->pending);
  if (f->hooked & VRAM__DS3_HOOK_OUT)
    vram__ds3_modules_record(s, fn);
  if (!(f->hooked & VRAM__DS3_HOOK_NODE))
    return;
  vram__ds3_fetch(s, f->node);
  vram__ds3_backward_began(s, f->node);
}

/* A module that is called again sets ds_grads_remaining back: of its calls only the last one's end
   shows in backward. One that is recomputed is called once more before each. */
static int vram__ds3_is_called_again(const vram__ds3 *d, const vram__grad_fn *f) {
  const uint32_t k = vram__ds3_next(d, f->node, 0);
  const vram_node *last = k == VRAM__DS_NONE ? f->node : d->at[k].user;
  return last != f->node && last->op == f->node->op && !f->frame;
}

/* post_sub_module_backward_function: the gradient of the module's input is there, if it wants one.
   Where an op is several records, that shows when the next module begins. */
VRAM__FN void vram__ds3_recorded(vram__step *s, uint32_t fn) {
  vram__ds3 *d = vram__ds3_of(s);
  const vram__grad_fn *f = vram__grad_fn_at(s, fn);
  const vram__edge *edge = (const vram__edge *)(const void *)(f + 1);
  uint32_t i, leaves = 0, others = 0;
  for (i = 0; i < f->nin; i++) {
    leaves += edge[i].fn >> 31;
    others += vram__is_grad_fn(edge[i].fn) ? 1u : 0u;
  }
  if ((f->hooked & VRAM__DS3_HOOK_NODE) && !vram__ds3_is_called_again(d, f)) {
    if (leaves && others)
      vram__ds3_post_backward(s, f->node);
    else if (others)
      d->pending = f->node;
  }
  if (f->hooked & VRAM__DS3_HOOK_IN)
    vram__ds3_modules_recorded(s, fn);
}

/* release_backward_leftovers: modules whose input wants no gradient */
VRAM__FN void vram__ds3_leftovers(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t k;
  if (d->pending)
    vram__ds3_post_backward(s, d->pending);
  while (d->nactive) {
    const vram_node *n = d->active[--d->nactive];
    VRAM__DS3_EACH(d, n, k) {
      if (d->at[k].active)
        d->at[k].active--;
      if (!d->at[k].persists)
        vram__ds3_release(s, k);
    }
  }
}
