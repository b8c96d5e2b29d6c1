/* >>parallel/fsdp1    FullyShardedDataParallel: one flat parameter for each unit
   (torch/distributed/fsdp: _flat_param.py, _runtime_utils.py, to whose functions names here refer).
   Blocks that another stream used come back with the next allocation (record_stream). */
#include "parallel/fsdp.h"

/* Streams: unshard, post_backward; pre_unshard, which only mixed precision has. */
enum { VRAM__FSDP1_UNSHARD = 1, VRAM__FSDP1_REDUCE = 2, VRAM__FSDP1_PRE_UNSHARD = 3 };

static vram_dtype vram__fsdp1_stored(const vram__fsdp *d, const vram__fsdp_group *g) {
  return d->param[g->first].dtype;
}

static uint32_t vram__fsdp1_item(const vram__fsdp *d, const vram__fsdp_group *g) {
  return vram__dtype_size(d->mp ? d->mp : vram__fsdp1_stored(d, g));
}

static uint64_t vram__fsdp1_shard(const vram__fsdp *d, const vram__fsdp_group *g) {
  return g->numel / d->shards * vram__dtype_size(vram__fsdp1_stored(d, g));
}

/* With NO_SHARD, or parameters that are views of the flat one, gradients that zero_grad lets go of
   come back with the first allocation of the forward pass. */
static int vram__fsdp1_waits(const vram__step *s) {
  return s->o->parallel->use_orig_params || s->o->parallel->sharding == VRAM_SHARDING_NONE;
}

/* FlatParamHandle._init_flat_param_and_metadata: with use_orig_params each parameter begins at 16
   bytes; the ranks divide the whole. */
static void vram__fsdp1_measure(vram__step *s, vram__fsdp *d) {
  const int full = s->o->parallel->sharding == VRAM_SHARDING_FULL;
  uint32_t k, i;
  if (s->o->parallel->sharding == VRAM_SHARDING_NONE)
    d->shards = 1;
  for (k = 0; k < d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k;
    for (i = g->first; i < g->end; i++) {
      const vram__fsdp_param *f = d->param + i;
      if (s->o->parallel->use_orig_params)
        g->numel = vram__round_up_u64(g->numel, 16 / vram__dtype_size(f->dtype));
      g->numel += f->p->d->numel;
    }
    g->bare = g->numel;
    g->numel = vram__round_up_u64(g->numel, d->shards);
    g->reshard = k && full ? VRAM_RESHARD_ALWAYS : VRAM_RESHARD_NEVER;
  }
}

/* ---- construction */

static void vram__fsdp1_put(vram__step *s, vram__owned *o) {
  const vram__total none = {0, 0, 0, 0, 0};
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k, i;
  if (s->nth == 1) {
    vram__fsdp_make(s, s->g->first, NULL);
    d->flat = 1;
    vram__fsdp1_measure(s, d);
  }
  s->compute = d->mp;
  o->all[0] = o->all[1] = o->trainable = none;
  o->params_bytes = 0;
  for (i = 0; i < d->nparam; i++)
    d->param[i].whole = d->param[i].post = d->param[i].shard = d->param[i].had = 0;
  for (k = 0; k < d->ngroup; k++) {
    const vram__fsdp_group *g = d->group + k;
    if (g->first == g->end)
      continue;
    o->params_bytes += vram__fsdp1_shard(d, g);
    vram__total_add(&o->trainable, vram__fsdp1_shard(d, g));
    if (s->nth > 1)
      vram__total_add(o->all, vram__fsdp1_shard(d, g));
  }
  vram__fsdp_move(s, d, o);
}

static void vram__fsdp1_accumulated(vram__step *s, vram__leaf *l);

/* FlatParamHandle._get_shard: a copy of this rank's chunk, where it is shorter with padding. */
static void vram__fsdp1_get_shard(vram__step *s, const vram__fsdp_group *g) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const uint64_t part = g->numel / d->shards;
  const uint64_t from = part * vram__wrapper_rank(s->o->parallel);
  const uint64_t mine = from < g->bare ? g->bare - from : 0;
  const uint32_t item = vram__dtype_size(vram__fsdp1_stored(d, g));
  uint32_t chunk =
      vram__buffer_new_on(s, (mine < part ? mine : part) * item, VRAM_CATEGORY_PARAMS, 0);
  if (mine >= part)
    return;
  vram__buffer_new_on(s, part * item, VRAM_CATEGORY_PARAMS, 0);
  vram__buffer_free(s, &chunk);
}

/* FullyShardedDataParallel.__init__ of each unit, then of the root: the flat parameter, its shard;
   what it was made of goes. */
static void vram__fsdp1_construct(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k, i;
  for (k = 1; k <= d->ngroup; k++) {
    const vram__fsdp_group *g = d->group + k % d->ngroup;
    uint32_t flat;
    if (g->first == g->end)
      continue;
    flat = vram__buffer_new_on(s, g->bare * vram__dtype_size(vram__fsdp1_stored(d, g)),
                               VRAM_CATEGORY_PARAMS, 0);
    if (d->shards > 1) {
      vram__fsdp1_get_shard(s, g);
      vram__buffer_free(s, &flat);
    }
    for (i = g->end; i-- > g->first;)
      vram__buffer_free(s, &d->param[i].whole);
  }
  s->leaf.accumulated = vram__fsdp1_accumulated;
}

static void vram__fsdp1_restore(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  d->nhook = d->norder = d->late = 0;
  s->leaf.accumulated = vram__fsdp1_accumulated;
  for (k = 0; k < d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k;
    g->state = g->training = 0;
    g->gathered = g->grad = g->at = g->passes = 0;
    if (!g->grad_bytes)
      continue;
    s->stream = VRAM__FSDP1_REDUCE;
    g->grad = vram__buffer_existing(s, g->grad_bytes, VRAM_CATEGORY_GRADIENTS, g->grad_block);
    s->stream = 0;
  }
}

/* ---- forward, backward */

/* FlatParamHandle.unshard: with mixed precision a low-precision shard is gathered. */
VRAM__FN void vram__fsdp1_unshard(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t low = 0;
  if (d->mp && d->mp != vram__fsdp1_stored(d, g))
    low = vram__buffer_new_on(s, g->numel / d->shards * vram__fsdp1_item(d, g),
                              VRAM_CATEGORY_PARAMS, VRAM__FSDP1_PRE_UNSHARD);
  if (d->shards > 1)
    g->gathered = vram__buffer_new_on(s, g->numel * vram__fsdp1_item(d, g), VRAM_CATEGORY_PARAMS,
                                      VRAM__FSDP1_UNSHARD);
  vram__buffer_free(s, &low);
  g->state = VRAM__FSDP_WHOLE;
}

VRAM__FN void vram__fsdp1_reshard(vram__step *s, vram__fsdp_group *g) {
  vram__buffer_free(s, &g->gathered);
  g->state = VRAM__FSDP_SHARDED;
}

static void vram__fsdp1_backward_begin(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k, i;
  for (k = 0; k < d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k;
    for (i = g->first, g->left = 0; i < g->end; i++)
      g->left += s->leaf.at[d->param[i].leaf].deps != 0;
  }
}

/* The gradients of the group's parameters go; late: with the next allocation. */
static void vram__fsdp1_let_go(vram__step *s, const vram__fsdp_group *g, int late) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = g->first; i < g->end; i++) {
    vram__leaf *l = s->leaf.at + d->param[i].leaf;
    if (late)
      d->param[i].post = l->grad.st;
    else
      vram__tensor_release(s, l->grad);
    l->grad = vram__tensor_none();
    l->let_go = d->param[i].had = 1;
  }
}

static int vram__fsdp1_is_last(const vram__fsdp *d) {
  uint32_t k = 0;
  while (k < d->ngroup && !d->group[k].left)
    k++;
  return k == d->ngroup;
}

/* _reduce_grad: the flat gradient, in the dtype of the reduction, becomes a shard. */
static void vram__fsdp1_reduce(vram__step *s, vram__fsdp_group *g, vram_dtype own, uint32_t flat) {
  vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype stored = vram__fsdp1_stored(d, g), dt = d->reduce ? d->reduce : own;
  const uint64_t part = g->numel / d->shards;
  uint32_t cast = 0, low = 0, padded = 0;
  if (dt != own)
    cast = vram__buffer_new_on(s, g->bare * vram__dtype_size(dt), VRAM_CATEGORY_GRADIENTS,
                               VRAM__FSDP1_REDUCE);
  if (g->bare != g->numel)
    padded = vram__buffer_new_on(s, g->numel * vram__dtype_size(dt), VRAM_CATEGORY_GRADIENTS,
                                 VRAM__FSDP1_REDUCE);
  g->grad = vram__buffer_new_on(s, part * vram__dtype_size(dt), VRAM_CATEGORY_GRADIENTS,
                                VRAM__FSDP1_REDUCE);
  if (dt != stored) {
    low = g->grad;
    g->grad = vram__buffer_new_on(s, part * vram__dtype_size(stored), VRAM_CATEGORY_GRADIENTS,
                                  VRAM__FSDP1_REDUCE);
  }
  vram__buffer_free(s, &low);
  vram__buffer_free(s, &padded);
  vram__buffer_free(s, &cast);
  d->late = flat;
}

/* SplitWithSizesBackward makes the flat gradient, then _post_backward_hook. */
static void vram__fsdp1_post_backward(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype own = d->mp ? d->mp : vram__fsdp1_stored(d, g);
  uint32_t flat;
  vram__buffer_free(s, &d->late);
  flat = vram__buffer_new_on(s, g->bare * vram__dtype_size(own), VRAM_CATEGORY_GRADIENTS,
                             VRAM__FSDP1_UNSHARD);
  vram__fsdp1_let_go(s, g, d->shards == 1 && vram__fsdp1_is_last(d));
  g->training = VRAM__FSDP_POST_BACKWARD;
  vram__fsdp1_reshard(s, g);
  if (g->before && s->o->parallel->backward_prefetch == VRAM_PREFETCH_POST &&
      d->group[g->before - 1].training == VRAM__FSDP_IDLE)
    vram__fsdp_unshard(s, d->group + g->before - 1);
  if (d->shards > 1)
    vram__fsdp1_reduce(s, g, own, flat);
  else
    g->grad = flat; /* all_reduce in place */
  g->grad_bytes = vram__fsdp1_shard(d, g);
}

/* The last gradient of a flat parameter is there. */
static void vram__fsdp1_accumulated(vram__step *s, vram__leaf *l) {
  vram__fsdp *d = vram__fsdp_of(s);
  const uint32_t leaf = (uint32_t)(l - s->leaf.at);
  uint32_t k, i;
  for (k = 0; k < d->ngroup; k++)
    for (i = d->group[k].first; i < d->group[k].end; i++)
      if (d->param[i].leaf == leaf && d->group[k].left && !--d->group[k].left)
        vram__fsdp1_post_backward(s, d->group + k);
}

/* _post_backward_final_callback */
VRAM__FN void vram__fsdp1_end(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup; k++)
    vram__fsdp1_reshard(s, d->group + k);
}

static void vram__fsdp1_optimizing(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  vram__buffer_free(s, &d->late);
  for (i = 0; i < d->nparam; i++)
    vram__buffer_free(s, &d->param[i].post);
}

/* One flat shard of each group. */
static uint32_t vram__fsdp1_optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k, n = 0;
  (void)with_grad;
  for (k = 0; k < d->ngroup; k++) {
    const vram__fsdp_group *g = d->group + k;
    if (g->first == g->end)
      continue;
    d->param[g->first].size[0] = (int64_t)(g->numel / d->shards);
    p[n].numel = g->numel / d->shards;
    p[n].ndim = 1;
    p[n].size = d->param[g->first].size;
    p[n].dtype = vram__fsdp1_stored(d, g);
    p[n++].rank = 0;
  }
  return n;
}

static void vram__fsdp1_forget(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup; k++)
    vram__buffer_free(s, &d->group[k].grad);
}

static void vram__fsdp1_zero_grad(vram__step *s) {
  if (!vram__fsdp1_waits(s))
    vram__fsdp1_forget(s);
}

static void vram__fsdp1_forward_begin(vram__step *s) {
  vram__fsdp1_forget(s);
  vram__fsdp_forward_begin(s);
}

static void vram__fsdp1_optimized(vram__step *s) { s->r->gradients_bytes = s->r->params_bytes; }

static const char *vram__fsdp1_refuses(const vram_graph *g, const vram_step_options *o) {
  const vram_parallel *p = o->parallel;
  const vram_param *q;
  if (p->sharding == VRAM_SHARDING_HYBRID)
    return "FullyShardedDataParallel is not played with HYBRID_SHARD";
  if (vram__wrapper_ranks(p) < 2)
    return "FullyShardedDataParallel is played on two ranks or more";
  if (p->meta || o->accumulate > 1 || o->keep_grads || o->clip_grad_norm)
    return "FullyShardedDataParallel is played without init=meta, accumulation, kept gradients "
           "and clipping";
  for (q = g->param_first; q; q = q->next)
    if (q->kind != VRAM__BUFFER && q->kind != VRAM__PARAM)
      return "Must flatten tensors with uniform requires_grad when use_orig_params=False";
  return vram__fsdp_refuses(g, o);
}

VRAM__FN void vram__fsdp1_wrapper(vram__wrapper *w) {
  w->bytes = vram__fsdp_bytes;
  w->refuses = vram__fsdp1_refuses;
  w->put = vram__fsdp1_put;
  w->construct = vram__fsdp1_construct;
  w->restore = vram__fsdp1_restore;
  w->lasts = vram__fsdp_lasts;
  w->zero_grad = vram__fsdp1_zero_grad;
  w->forward_begin = vram__fsdp1_forward_begin;
  w->forward = vram__fsdp_forward;
  w->forward_end = vram__fsdp_forward_end;
  w->backward_begin = vram__fsdp1_backward_begin;
  w->record = vram__fsdp_pre_backward;
  w->backward_end = vram__fsdp_backward_end;
  w->optimizing = vram__fsdp1_optimizing;
  w->optim_params = vram__fsdp1_optim_params;
  w->optimized = vram__fsdp1_optimized;
}
