/* >>parallel/fsdp1    FullyShardedDataParallel: one flat parameter for each unit
   (torch/distributed/fsdp: _flat_param.py, _runtime_utils.py, to whose functions names here refer).
   Blocks that another stream used come back with the next allocation (record_stream). */
#include "parallel/fsdp.h"

/* Streams: unshard, post_backward; pre_unshard, which only mixed precision has; all_reduce, of
   HYBRID_SHARD. */
enum {
  VRAM__FSDP1_UNSHARD = 1,
  VRAM__FSDP1_REDUCE = 2,
  VRAM__FSDP1_PRE_UNSHARD = 3,
  VRAM__FSDP1_ALL_REDUCE = 4
};

static vram_dtype vram__fsdp1_stored(const vram__fsdp *d, const vram__fsdp_group *g) {
  return d->param[g->first].dtype;
}

static uint32_t vram__fsdp1_item(const vram__fsdp *d, const vram__fsdp_group *g) {
  return vram__dtype_size(d->mp ? d->mp : vram__fsdp1_stored(d, g));
}

static uint64_t vram__fsdp1_shard(const vram__fsdp *d, const vram__fsdp_group *g) {
  return g->numel / d->shards * vram__dtype_size(vram__fsdp1_stored(d, g));
}

static vram_dtype vram__fsdp1_own(const vram__fsdp *d, const vram__fsdp_group *g) {
  return d->mp ? d->mp : vram__fsdp1_stored(d, g);
}

/* _is_sharded_strategy */
static int vram__fsdp1_is_sharded(const vram__step *s) {
  return s->o->parallel->sharding != VRAM_SHARDING_NONE;
}

/* RESHARD_AFTER_FORWARD_HANDLE_STRATEGIES */
static int vram__fsdp1_is_full(const vram__step *s) {
  return s->o->parallel->sharding == VRAM_SHARDING_FULL ||
         s->o->parallel->sharding == VRAM_SHARDING_HYBRID;
}

/* Another stream used the block (record_stream): it comes back when the allocator is asked for the
   next one. */
static void vram__fsdp1_free_later(vram__step *s, uint32_t *slot) {
  if (*slot)
    vram__undone_add(s, *slot);
  vram__buffer_free(s, slot);
}

/* FlatParamHandle._init_flat_param_and_metadata: with use_orig_params each parameter begins at 16
   bytes, and the whole has as many elements for each rank; else only its shards have. */
static void vram__fsdp1_measure(vram__step *s, vram__fsdp *d) {
  const vram_parallel *p = s->o->parallel;
  uint32_t k, i;
  if (p->sharding == VRAM_SHARDING_NONE)
    d->shards = 1;
  for (k = 0; k < d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k;
    g->frozen = 1;
    for (i = g->first; i < g->end; i++) {
      vram__fsdp_param *f = d->param + i;
      if (p->use_orig_params)
        g->numel = vram__round_up_u64(g->numel, 16 / vram__fsdp1_item(d, g));
      f->at = g->numel;
      g->numel += f->p->d->numel;
      g->frozen &= f->leaf == VRAM__FSDP_NONE;
    }
    g->bare = p->use_orig_params ? vram__round_up_u64(g->numel, vram__wrapper_ranks(p)) : g->numel;
    g->numel = vram__round_up_u64(g->bare, d->shards);
    g->reshard = k && vram__fsdp1_is_full(s) ? VRAM_RESHARD_ALWAYS : VRAM_RESHARD_NEVER;
  }
}

/* _validate_tensors_to_flatten. With use_orig_params frozen ones are views of a parameter that
   wants gradients, so that theirs are made, too. */
static void vram__fsdp1_validate(vram__step *s, const vram__fsdp *d) {
  uint32_t k, i;
  for (k = 0; k < d->ngroup; k++)
    for (i = d->group[k].first + 1; i < d->group[k].end; i++)
      if ((d->param[i].leaf == VRAM__FSDP_NONE) != (d->param[i - 1].leaf == VRAM__FSDP_NONE)) {
        vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, d->param[i].p->node,
                          s->o->parallel->use_orig_params
                              ? "trained and frozen parameters in one unit of "
                                "FullyShardedDataParallel are not played"
                              : "Must flatten tensors with uniform requires_grad when "
                                "use_orig_params=False");
        return;
      }
}

/* Elements of parameter f that lie in this rank's shard. */
static uint64_t vram__fsdp1_local(const vram__step *s, const vram__fsdp_param *f) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const uint64_t part = d->group[f->group].numel / d->shards;
  const uint64_t begin = d->shards > 1 ? part * vram__wrapper_rank(s->o->parallel) : 0;
  const uint64_t from = f->at > begin ? f->at : begin;
  const uint64_t end = f->at + f->p->d->numel, to = end < begin + part ? end : begin + part;
  return to > from ? to - from : 0;
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
    vram__fsdp1_validate(s, d);
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
    if (!g->frozen)
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
  uint32_t chunk = 0;
  if (mine)
    chunk = vram__buffer_new_on(s, (mine < part ? mine : part) * item, VRAM_CATEGORY_PARAMS, 0);
  if (mine >= part)
    return;
  vram__buffer_new_on(s, part * item, VRAM_CATEGORY_PARAMS, 0);
  vram__buffer_free(s, &chunk);
}

/* Elements between the parameter before i, or the last one, and what is behind. */
static uint64_t vram__fsdp1_gap(const vram__fsdp *d, const vram__fsdp_group *g, uint32_t i) {
  const vram__fsdp_param *before = d->param + i - 1;
  const uint64_t from = i == g->first ? 0 : before->at + before->p->d->numel;
  return (i < g->end ? d->param[i].at : g->bare) - from;
}

/* One by one: tensors of padding that the flat one is made of (_construct_padding_tensor). */
static void vram__fsdp1_pad(vram__step *s, vram__fsdp_group *g, uint32_t i) {
  vram__fsdp *d = vram__fsdp_of(s);
  const uint64_t bytes = vram__fsdp1_gap(d, g, i) * vram__dtype_size(vram__fsdp1_stored(d, g));
  uint32_t *to = i < g->end ? &d->param[i].post : &g->reduced, ones;
  if (!bytes)
    return;
  ones = vram__buffer_new_on(s, bytes, VRAM_CATEGORY_TEMPORARIES, 0);
  *to = vram__buffer_new_on(s, bytes, VRAM_CATEGORY_TEMPORARIES, 0);
  vram__buffer_free(s, &ones);
}

static void vram__fsdp1_unpad(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = g->first; i < g->end; i++)
    vram__buffer_free(s, &d->param[i].post);
  vram__buffer_free(s, &g->reduced);
}

/* FullyShardedDataParallel.__init__ of each unit, then of the root: the flat parameter, its shard;
   what it was made of goes. */
static void vram__fsdp1_construct(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k, i;
  for (k = 1; k <= d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k % d->ngroup;
    uint32_t flat;
    if (g->first == g->end)
      continue;
    for (i = g->first; i <= g->end; i++)
      vram__fsdp1_pad(s, g, i);
    flat = vram__buffer_new_on(s, g->bare * vram__dtype_size(vram__fsdp1_stored(d, g)),
                               VRAM_CATEGORY_PARAMS, 0);
    vram__fsdp1_unpad(s, g);
    if (d->shards > 1) {
      vram__fsdp1_get_shard(s, g);
      vram__buffer_free(s, &flat);
    }
    for (i = g->first; i < g->end; i++) /* parameters that become views go in their order */
      vram__buffer_free(
          s, &d->param[s->o->parallel->use_orig_params ? i : g->end - 1 - (i - g->first)].whole);
  }
  s->leaf.accumulated = vram__fsdp1_accumulated;
  s->leaf.views = VRAM__FSDP1_UNSHARD;
}

/* The stream of the gradients that the optimizer finds. */
static uint8_t vram__fsdp1_stream(const vram__step *s, const vram__fsdp_group *g) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype made = d->reduce ? d->reduce : vram__fsdp1_own(d, g);
  if (d->copies > 1 && made != vram__fsdp1_stored(d, g))
    return VRAM__FSDP1_ALL_REDUCE;
  return (uint8_t)(vram__fsdp1_is_sharded(s) || made != vram__fsdp1_own(d, g) ||
                           made != vram__fsdp1_stored(d, g)
                       ? VRAM__FSDP1_REDUCE
                       : VRAM__FSDP1_UNSHARD);
}

static void vram__fsdp1_restore(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  d->nhook = d->norder = 0;
  if (d->zero)
    d->zero = vram__buffer_existing(s, 4, VRAM_CATEGORY_OTHER, d->zero_block);
  s->leaf.accumulated = vram__fsdp1_accumulated;
  s->leaf.views = VRAM__FSDP1_UNSHARD;
  for (k = 0; k < d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k;
    g->state = g->training = 0;
    g->gathered = g->grad = g->at = g->passes = g->flat = 0;
    if (!g->grad_bytes)
      continue;
    s->stream = vram__fsdp1_stream(s, g);
    g->grad = vram__buffer_existing(s, g->grad_bytes, VRAM_CATEGORY_GRADIENTS, g->grad_block);
    s->stream = 0;
  }
}

/* ---- forward */

/* FlatParamHandle.unshard: with mixed precision a low-precision shard is gathered, and with
   NO_SHARD it is what is used. */
VRAM__FN void vram__fsdp1_unshard(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  const uint64_t bytes = g->numel * vram__fsdp1_item(d, g);
  uint32_t low = 0;
  if (d->mp && d->mp != vram__fsdp1_stored(d, g))
    low = vram__buffer_new_on(s, bytes / d->shards, VRAM_CATEGORY_PARAMS, VRAM__FSDP1_PRE_UNSHARD);
  g->state = VRAM__FSDP_WHOLE;
  if (!vram__fsdp1_is_sharded(s)) {
    g->gathered = low;
    return;
  }
  g->gathered = vram__buffer_new_on(s, bytes, VRAM_CATEGORY_PARAMS, VRAM__FSDP1_UNSHARD);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_GATHER, bytes, d->shards);
  vram__fsdp1_free_later(s, &low);
}

/* _reshard; a low-precision copy of all always goes. */
static void vram__fsdp1_reshard(vram__step *s, vram__fsdp_group *g, int frees) {
  if (frees || !vram__fsdp1_is_sharded(s)) {
    vram__fsdp1_free_later(s, &g->gathered);
    g->state = VRAM__FSDP_SHARDED;
  }
}

VRAM__FN void vram__fsdp1_post_forward(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp1_reshard(s, g, g->reshard == VRAM_RESHARD_ALWAYS);
}

/* _use_unsharded_views: the parameters of this forward pass are views of the flat one, so that
   its gradient is made by SplitWithSizesBackward: behind all that came later and before all that
   was there. A frozen one goes when the gradients of the unit's inputs are there
   (_post_backward_reshard_only_hook). */
static void vram__fsdp1_use_views(vram__step *s, uint32_t k) {
  vram__fsdp_group *g = vram__fsdp_of(s)->group + k;
  vram__grad_fn *f;
  uint32_t i, n = 0;
  g->split = 0;
  for (i = 0; i < g->nin && g->frozen; i++)
    n += vram__tensor_wants_grad(s, s->variable[s->name_of[g->in[i]->index]].t) != 0;
  if (g->first == g->end || !s->grad || (g->frozen && !n) ||
      !(f = vram__tape_record_raw(s, VRAM__K_unit, 0, 0, 0)))
    return;
  f->aux = k;
  f->hooked = 1;
  g->split = vram__grad_fn_index(s, f);
}

/* The group with parameters behind k, or the number of groups. */
static uint32_t vram__fsdp1_next(const vram__fsdp *d, uint32_t k) {
  do
    k++;
  while (k < d->ngroup && d->group[k].first == d->group[k].end);
  return k;
}

/* _pre_forward_unshard; which unit comes next is known from the first backward on. */
VRAM__FN void vram__fsdp1_pre_forward(vram__step *s, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  const uint32_t next = vram__fsdp1_next(d, k);
  if (!g->ahead) {
    vram__fsdp_unshard(s, g);
    vram__fsdp1_use_views(s, k);
  }
  g->ahead = 0;
  if (s->o->parallel->forward_prefetch && d->ran == 2 && g->first < g->end && next < d->ngroup) {
    vram__fsdp_unshard(s, d->group + next);
    vram__fsdp1_use_views(s, next);
    d->group[next].ahead = 1;
  }
}

/* ---- backward */

/* A gradient of one of the views. */
static void vram__fsdp1_accumulated(vram__step *s, vram__leaf *l) {
  vram__fsdp *d = vram__fsdp_of(s);
  const uint32_t leaf = (uint32_t)(l - s->leaf.at);
  uint32_t i = 0;
  while (i < d->nparam && d->param[i].leaf != leaf)
    i++;
  if (i < d->nparam && d->group[d->param[i].group].split)
    vram__grad_fn_at(s, d->group[d->param[i].group].split)->flag = 1;
}

/* The unit's pre-backward hook has run. */
VRAM__FN void vram__fsdp1_pre_backward_of(vram__step *s, vram__fsdp_group *g) {
  const vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = g->first; i < g->end; i++)
    if (d->param[i].leaf != VRAM__FSDP_NONE)
      s->leaf.at[d->param[i].leaf].grad_dt = vram__fsdp1_own(d, g);
  if (g->frozen && g->split)
    vram__grad_fn_at(s, g->split)->flag = 1;
}

/* split_with_sizes_backward: zeros for what has no gradient, padding, too. */
static void vram__fsdp1_zeros(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  const uint32_t item = vram__fsdp1_item(d, g);
  uint32_t i;
  for (i = g->first; i <= g->end; i++) {
    vram__fsdp_param *f = d->param + i;
    const uint64_t gap = vram__fsdp1_gap(d, g, i) * item;
    if (gap)
      *(i < g->end ? &f->post : &g->reduced) =
          vram__buffer_new_on(s, gap, VRAM_CATEGORY_TEMPORARIES, VRAM__FSDP1_UNSHARD);
    if (i < g->end && !f->whole && (f->leaf == VRAM__FSDP_NONE || !s->leaf.at[f->leaf].grad.d))
      f->shard = vram__buffer_new_on(s, f->p->d->numel * item, VRAM_CATEGORY_TEMPORARIES,
                                     VRAM__FSDP1_UNSHARD);
  }
}

/* The gradient of a view goes; it comes from another stream. */
static void vram__fsdp1_let_go(vram__step *s, vram__fsdp_param *f) {
  vram__leaf *l = f->leaf == VRAM__FSDP_NONE ? NULL : s->leaf.at + f->leaf;
  const uint64_t before = s->count.requested;
  int other;
  if (!l || !l->grad.d)
    return;
  other = l->grad.st && vram__owner_at(s, l->grad.st)->stream != VRAM__FSDP1_UNSHARD;
  vram__tensor_release(s, l->grad);
  if (other && s->count.requested < before)
    vram__undone_count(s, before - s->count.requested);
  l->grad = vram__tensor_none();
  l->let_go = f->had = 1;
}

/* ViewBackward, of the last parameter first: what is not contiguous is copied. */
static void vram__fsdp1_reshape(vram__step *s, const vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = g->end; i-- > g->first;) {
    vram__fsdp_param *f = d->param + i;
    const vram__leaf *l = f->leaf == VRAM__FSDP_NONE ? NULL : s->leaf.at + f->leaf;
    if (!l || !l->grad.d || !l->permuted)
      continue;
    f->whole = vram__buffer_new_on(s, f->p->d->numel * vram__fsdp1_item(d, g),
                                   VRAM_CATEGORY_GRADIENTS, VRAM__FSDP1_UNSHARD);
    vram__fsdp1_let_go(s, f);
  }
}

/* _reduce_grad: the flat gradient, in the dtype of the reduction, becomes a shard. */
static void vram__fsdp1_reduce(vram__step *s, vram__fsdp_group *g, vram_dtype own) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype stored = vram__fsdp1_stored(d, g), dt = d->reduce ? d->reduce : own;
  const uint64_t part = g->numel / d->shards, bytes = g->numel * vram__dtype_size(dt);
  uint32_t cast = 0, padded = 0, low, grad;
  if (dt != own)
    cast = vram__buffer_new_on(s, g->bare * vram__dtype_size(dt), VRAM_CATEGORY_GRADIENTS,
                               VRAM__FSDP1_REDUCE);
  if (g->bare != g->numel)
    padded = vram__buffer_new_on(s, bytes, VRAM_CATEGORY_GRADIENTS, VRAM__FSDP1_REDUCE);
  grad = vram__buffer_new_on(s, part * vram__dtype_size(dt), VRAM_CATEGORY_GRADIENTS,
                             VRAM__FSDP1_REDUCE);
  vram__communicate(s, VRAM_COLLECTIVE_REDUCE_SCATTER, bytes, d->shards);
  if (d->copies > 1)
    vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, bytes / d->shards, d->copies);
  if (dt != stored) {
    low = grad;
    grad = vram__buffer_new_on(s, part * vram__dtype_size(stored), VRAM_CATEGORY_GRADIENTS,
                               d->copies > 1 ? VRAM__FSDP1_ALL_REDUCE : VRAM__FSDP1_REDUCE);
    if (d->copies > 1)
      vram__fsdp1_free_later(s, &low);
    else
      vram__buffer_free(s, &low);
  }
  vram__buffer_free(s, &cast);
  vram__buffer_free(s, &padded);
  g->grad = grad;
}

/* _reduce_grad_no_shard: all_reduce in place. */
static void vram__fsdp1_reduce_no_shard(vram__step *s, vram__fsdp_group *g, vram_dtype own) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype stored = vram__fsdp1_stored(d, g), dt = d->reduce ? d->reduce : own;
  uint32_t cast = 0;
  if (dt != own)
    cast = vram__buffer_new_on(s, g->bare * vram__dtype_size(dt), VRAM_CATEGORY_GRADIENTS,
                               VRAM__FSDP1_REDUCE);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, g->bare * vram__dtype_size(dt),
                    vram__wrapper_ranks(s->o->parallel));
  g->grad = cast ? cast : g->flat;
  if (dt != stored) {
    g->grad = vram__buffer_new_on(s, g->bare * vram__dtype_size(stored), VRAM_CATEGORY_GRADIENTS,
                                  VRAM__FSDP1_REDUCE);
    vram__buffer_free(s, &cast);
  }
  if (g->grad == g->flat)
    g->flat = 0;
}

/* _use_unsharded_grad_views: gradients become views of the flat one, which waits; where a
   parameter has another shape or dtype than its view an empty gradient comes first. */
static void vram__fsdp1_use_gradient_views(vram__step *s, const vram__fsdp_group *g) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype stored = vram__fsdp1_stored(d, g);
  uint32_t i;
  for (i = g->first; i < g->end; i++) {
    const vram__fsdp_param *f = d->param + i;
    const uint64_t local = vram__fsdp1_local(s, f);
    uint32_t empty;
    const int is_alike = !vram__fsdp1_is_sharded(s) || /* its views have its shape */
                         (f->p->d->ndim == 1 && local == f->p->d->numel);
    if (!local || (is_alike && vram__fsdp1_own(d, g) == stored))
      continue;
    empty = vram__buffer_new_on(s, local * vram__dtype_size(stored), VRAM_CATEGORY_TEMPORARIES,
                                VRAM__FSDP1_UNSHARD);
    vram__buffer_free(s, &empty);
  }
}

/* _post_backward_hook */
static void vram__fsdp1_post_backward(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype own = vram__fsdp1_own(d, g);
  g->training = VRAM__FSDP_POST_BACKWARD;
  vram__fsdp1_reshard(s, g, s->last_batch || vram__fsdp1_is_full(s));
  if (g->before && s->o->parallel->backward_prefetch == VRAM_PREFETCH_POST &&
      d->group[g->before - 1].training == VRAM__FSDP_IDLE)
    vram__fsdp_unshard(s, d->group + g->before - 1);
  if (!s->last_batch || g->frozen)
    return;
  if (vram__fsdp1_is_sharded(s))
    vram__fsdp1_reduce(s, g, own);
  else
    vram__fsdp1_reduce_no_shard(s, g, own);
  g->grad_bytes = vram__fsdp1_shard(d, g);
  vram__fsdp1_free_later(s, &g->flat);
}

/* AccumulateGrad is on the stream on which it was first asked for. The constructor does so on the
   default one (_use_unsharded_views(as_params=False)), and the module's views keep it, but not
   where the parameters themselves are put back (use_orig_params), where the flat one is set to its
   shard, nor where its data become those of another dtype: there it is the views' stream. */
static int vram__fsdp1_accumulates_elsewhere(const vram__step *s, const vram__fsdp_group *g) {
  const vram__fsdp *d = vram__fsdp_of(s);
  return !vram__fsdp1_is_sharded(s) && !s->o->parallel->use_orig_params &&
         vram__fsdp1_own(d, g) == vram__fsdp1_stored(d, g);
}

/* SplitWithSizesBackward makes the flat gradient, which is added to one that is there. */
static void vram__fsdp1_split_backward(vram__step *s, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  uint32_t flat = 0, i;
  if (!g->frozen) {
    vram__fsdp1_reshape(s, g);
    vram__fsdp1_zeros(s, g);
    flat = vram__buffer_new_on(s, g->bare * vram__fsdp1_item(d, g), VRAM_CATEGORY_GRADIENTS,
                               VRAM__FSDP1_UNSHARD);
    for (i = g->first; i < g->end; i++) {
      vram__buffer_free(s, &d->param[i].post);
      vram__buffer_free(s, &d->param[i].shard);
    }
    vram__buffer_free(s, &g->reduced);
    for (i = g->first; i < g->end; i++) {
      vram__buffer_free(s, &d->param[i].whole);
      vram__fsdp1_let_go(s, d->param + i);
    }
    if (!g->flat) {
      g->flat = flat;
      flat = 0;
    }
  }
  vram__fsdp1_post_backward(s, g);
  if (s->o->parallel->use_orig_params && !s->last_batch && !flat)
    vram__fsdp1_use_gradient_views(s, g);
  if (vram__fsdp1_accumulates_elsewhere(s, g))
    vram__fsdp1_free_later(s, &flat);
  else
    vram__buffer_free(s, &flat);
}

static void vram__fsdp1_record(vram__step *s, uint32_t fn) {
  const vram__grad_fn *f = vram__grad_fn_at(s, fn);
  if (f->kind == VRAM__K_unit)
    vram__fsdp1_split_backward(s, (uint32_t)f->aux);
  else
    vram__fsdp_pre_backward(s, fn);
}

/* _post_backward_final_callback: what no hook has resharded. */
VRAM__FN void vram__fsdp1_end(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup; k++)
    if (d->group[k].training != VRAM__FSDP_POST_BACKWARD)
      vram__fsdp1_reshard(s, d->group + k, s->last_batch || vram__fsdp1_is_full(s));
  d->ran = 2;
}

/* ---- the optimizer */

/* One flat shard of each group, or what of each parameter lies in it. */
static uint32_t vram__fsdp1_optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  vram__fsdp *d = vram__fsdp_of(s);
  const int orig = s->o->parallel->use_orig_params;
  uint32_t i, n = 0;
  (void)with_grad;
  for (i = 0; i < d->nparam; i++) {
    vram__fsdp_param *f = d->param + (orig ? d->optim[i] : i);
    const vram__fsdp_group *g = d->group + f->group;
    const uint64_t numel = orig ? vram__fsdp1_local(s, f) : g->numel / d->shards;
    if (f->leaf == VRAM__FSDP_NONE || !numel || (!orig && i != g->first))
      continue;
    vram__memory_zero(p + n, sizeof *p);
    f->size[0] = (int64_t)numel;
    p[n].numel = numel;
    p[n].ndim = 1;
    p[n].size = f->size;
    p[n].gradient = numel;
    p[n++].dtype = vram__fsdp1_stored(d, g);
  }
  return n;
}

/* FullyShardedDataParallel.clip_grad_norm_: a norm in f32 of each gradient, of all of them, and of
   all ranks; each gradient times a number in its dtype. */
static void vram__fsdp1_clip(vram__step *s) {
  vram__optim_param *p;
  uint32_t i, n, stacked, norm, power, total, sum, inverse, coef, clamped, *norms;
  const uint64_t used = s->used, room = vram__fsdp_of(s)->nparam + UINT64_C(1);
  p = (vram__optim_param *)vram__memory_take(s->mem, &s->used, s->cap, room * sizeof *p);
  norms = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, room * sizeof *norms);
  if (!p || !norms) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  n = vram__fsdp1_optim_params(s, p, 1);
  for (i = 0; i < n; i++) {
    norms[i] = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
    vram__reduction_briefly(s, p[i].numel, p[i].dtype, 4);
  }
  stacked = vram__buffer_new(s, UINT64_C(4) * n, VRAM_CATEGORY_TEMPORARIES);
  for (i = n; i-- > 0;)
    vram__buffer_free(s, norms + i);
  norm = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
  vram__buffer_free(s, &stacked);
  power = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, 4, vram__wrapper_ranks(s->o->parallel));
  total = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
  vram__buffer_free(s, &power);
  sum = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
  inverse = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
  coef = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
  vram__buffer_free(s, &inverse);
  vram__buffer_free(s, &sum);
  clamped = vram__buffer_new(s, 4, VRAM_CATEGORY_TEMPORARIES);
  for (i = 0; i < n; i++)
    if (p[i].dtype != VRAM_F32)
      vram__buffer_briefly(s, vram__dtype_size(p[i].dtype));
  vram__buffer_free(s, &norm);
  vram__buffer_free(s, &coef);
  vram__buffer_free(s, &clamped);
  vram__buffer_free(s, &total);
  s->used = used;
}

static void vram__fsdp1_optimizing(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  if (!s->o->clip_grad_norm)
    return;
  if (!d->zero)
    d->zero = vram__buffer_new(s, 4, VRAM_CATEGORY_OTHER); /* _zero_scalar */
  if (vram__fsdp1_is_sharded(s))
    vram__fsdp1_clip(s);
}

/* ---- from step to step */

static void vram__fsdp1_forget(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k;
    const uint8_t made = g->grad ? vram__fsdp1_stream(s, g) : 0;
    if (vram__fsdp1_is_sharded(s) ? d->copies > 1 && made == VRAM__FSDP1_REDUCE
                                  : made == VRAM__FSDP1_UNSHARD)
      vram__fsdp1_free_later(s, &g->grad); /* another stream reduced it */
    else
      vram__buffer_free(s, &g->grad);
  }
}

/* Gradients of parameters that are views of the flat one are let go of before the next forward pass
   (_reset_flat_param_grad_info_if_needed). */
static void vram__fsdp1_zero_grad(vram__step *s) {
  if (!s->o->parallel->use_orig_params)
    vram__fsdp1_forget(s);
}

/* _lazy_init: FlatParamHandle.init_flat_param_attributes makes what is gathered, and frees it. */
static void vram__fsdp1_init(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  if (d->ran)
    return;
  for (k = 0; k < d->ngroup; k++) {
    const vram__fsdp_group *g = d->group + k;
    const int low = d->mp && g->first < g->end && d->mp != vram__fsdp1_stored(d, g);
    if (g->first == g->end)
      continue;
    if (low)
      vram__buffer_briefly(s, g->numel / d->shards * vram__fsdp1_item(d, g));
    if (vram__fsdp1_is_sharded(s))
      vram__buffer_briefly(s, g->numel * vram__fsdp1_item(d, g));
    if (low && vram__fsdp1_is_sharded(s))
      vram__buffer_briefly(s, g->numel * vram__dtype_size(vram__fsdp1_stored(d, g)));
  }
  d->ran = 1;
}

static void vram__fsdp1_forward_begin(vram__step *s) {
  vram__fsdp1_init(s);
  vram__fsdp1_forget(s);
  vram__fsdp_forward_begin(s);
}

static void vram__fsdp1_lasts(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  if (d->zero)
    d->zero_block = vram__slot_at(s, d->zero)->block;
  vram__fsdp_lasts(s);
}

/* What may wait for other streams at a time: gathered parameters, of which the rate limiter lets
   three be (limit_all_gathers: the host waits until the one before the last two is free), else all;
   low-precision shards; the flat gradients of a backward pass and what they were made of. */
static uint64_t vram__fsdp1_waiting(const vram__step *s) {
  const vram__fsdp *d = vram__fsdp_of(s);
  uint64_t all = 0, most = 0, gradients = 0;
  uint32_t k;
  for (k = 0; k < d->ngroup; k++) {
    const vram__fsdp_group *g = d->group + k;
    const uint64_t whole = g->first < g->end ? g->numel * vram__fsdp1_item(d, g) : 0;
    all += whole + (d->mp ? whole / d->shards : 0);
    most = whole > most ? whole : most;
    gradients += g->frozen ? 0 : 2 * whole;
  }
  return (s->o->parallel->limit_all_gathers && all > 3 * most
              ? 3 * most + (d->mp ? all / d->shards : 0)
              : all) +
         gradients;
}

static void vram__fsdp1_optimized(vram__step *s) {
  const vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  s->r->waiting_bytes = vram__fsdp1_waiting(s);
  s->r->gradients_bytes = 0;
  for (k = 0; k < d->ngroup && !s->o->parallel->use_orig_params; k++)
    s->r->gradients_bytes += d->group[k].grad_bytes;
  for (k = 0; k < d->nparam && s->o->parallel->use_orig_params; k++)
    if (d->param[k].leaf != VRAM__FSDP_NONE)
      s->r->gradients_bytes +=
          vram__fsdp1_local(s, d->param + k) * vram__dtype_size(d->param[k].dtype);
}

static const char *vram__fsdp1_refuses(const vram_graph *g, const vram_step_options *o) {
  const vram_parallel *p = o->parallel;
  const int hybrid =
      p->sharding == VRAM_SHARDING_HYBRID || p->sharding == VRAM_SHARDING_HYBRID_GRAD_OP;
  if (hybrid != (p->copies > 1))
    return "HYBRID_SHARD goes with copies and shards: fsdp1=COPIESxSHARDS,sharding=HYBRID_SHARD";
  if (vram__wrapper_ranks(p) < 2)
    return "FullyShardedDataParallel is played on two ranks or more";
  if (p->meta || o->keep_grads)
    return "FullyShardedDataParallel is played without init=meta and kept gradients";
  return vram__fsdp_refuses(g, o);
}

VRAM__FN void vram__fsdp1_wrapper(const vram_step_options *o, vram__wrapper *w) {
  w->every = 1; /* what waits for another stream at the end of a step (vram__undone_add) */
  w->clips = o->parallel->sharding != VRAM_SHARDING_NONE;
  w->bytes = vram__fsdp_bytes;
  w->refuses = vram__fsdp1_refuses;
  w->put = vram__fsdp1_put;
  w->construct = vram__fsdp1_construct;
  w->restore = vram__fsdp1_restore;
  w->lasts = vram__fsdp1_lasts;
  w->zero_grad = vram__fsdp1_zero_grad;
  w->forward_begin = vram__fsdp1_forward_begin;
  w->forward = vram__fsdp_forward;
  w->forward_end = vram__fsdp_forward_end;
  w->record = vram__fsdp1_record;
  w->backward_end = vram__fsdp_backward_end;
  w->optimizing = vram__fsdp1_optimizing;
  w->optim_params = vram__fsdp1_optim_params;
  w->optimized = vram__fsdp1_optimized;
}
