/* >>parallel/deepspeed3    deepspeed.initialize with ZeRO stage 3 (deepspeed 0.19.8:
   runtime/zero/stage3.py, partition_parameters.py, parameter_offload.py) */
#include "parallel/deepspeed3.h"

/* ---- before the run */

static uint32_t vram__ds3_calls_room(const vram_graph *g) {
  const vram_node *n;
  uint32_t room = 0;
  for (n = g->first; n; n = n->next)
    if (n->nparam)
      room += 2 + vram_node_recomputed(n);
  return room;
}

static uint64_t vram__ds3_bytes(const vram_graph *g, const vram_step_options *o) {
  const uint64_t each = sizeof(vram__ds_param) + sizeof(vram__ds3_param) +
                        sizeof(vram__ds3_gather) + sizeof(vram__ds3_module) + sizeof(int64_t) +
                        5 * sizeof(uint32_t);
  const uint64_t again = o->ncheckpoint ? 2 : 1;
  return sizeof(vram__ds3) + (uint64_t)g->nparam * each + 128 +
         vram__ds3_calls_room(g) * again * (sizeof(vram__ds3_call) + sizeof(vram_node *));
}

static const char *vram__ds3_refuses(const vram_graph *g, const vram_step_options *o) {
  const char *why = vram__ds_refuses(g, o);
  return why ? why
         : o->parallel->communication_data_type &&
                 o->parallel->communication_data_type != vram__ds_dtype(o, VRAM_F32)
             ? "communication_data_type other than the model's is not played in stage 3"
         : o->parallel->offload_param && !o->parallel->offload_optimizer
             ? "offload_param=cpu without offload_optimizer=cpu is not played"
         : vram__adapt_prepares(g) ? "quantised weights under ZeRO stage 3 are not played"
                                   : NULL;
}

static void vram__ds3_options(vram__step *s) {
  vram__ds_options(s);
  s->zero3_linear = 1; /* memory_efficient_linear */
}

/* Arrays behind the struct. */
static void vram__ds3_arrays(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint32_t n = s->g->nparam, again = s->o->ncheckpoint ? 2 : 1;
  d->call_room = d->active_room = vram__ds3_calls_room(s->g) * again;
  d->group_part = (int64_t *)(void *)(d + 1);
  d->ds.param = (vram__ds_param *)(void *)(d->group_part + n);
  d->at = (vram__ds3_param *)(void *)(d->ds.param + n);
  d->call = (vram__ds3_call *)(void *)(d->at + n);
  d->active = (const vram_node **)(void *)(d->call + d->call_room);
  d->module = (vram__ds3_module *)(void *)(d->active + d->active_room);
  d->gather = (vram__ds3_gather *)(void *)(d->module + n);
  d->by_index = (uint32_t *)(void *)(d->gather + n);
  d->list = d->by_index + n;
  d->ds.by_leaf = d->list + n;
  d->ds.member = d->ds.by_leaf + n;
  d->ds.norms = d->ds.member + n;
}

static void vram__ds3_take_param(vram__ds3 *d, const vram_param *p, uint32_t *leaf,
                                 uint64_t threshold) {
  vram__ds_param *f = d->ds.param + d->ds.nparam;
  vram__ds3_param *x = d->at + d->ds.nparam;
  const uint64_t ranks = d->ds.ranks;
  uint64_t begin;
  f->p = p;
  f->numel = p->d->numel;
  f->leaf = VRAM__DS_NONE;
  if (p->kind == VRAM__PARAM) {
    f->leaf = (*leaf)++;
    d->ds.by_leaf[f->leaf] = d->ds.nparam;
  }
  x->part = (f->numel + ranks - 1) / ranks;
  begin = x->part * d->ds.rank < f->numel ? x->part * d->ds.rank : f->numel;
  x->real = f->numel - begin < x->part ? f->numel - begin : x->part;
  x->persists = f->numel <= threshold;
  d->by_index[p->index] = d->ds.nparam++;
}

/* _create_fp16_sub_groups */
static void vram__ds3_groups(vram__ds3 *d, uint64_t most) {
  uint64_t part = 0;
  uint32_t k;
  d->ngroup = 0;
  for (k = 0; k < d->ds.nparam; k++)
    if (d->ds.param[k].leaf != VRAM__DS_NONE) {
      d->at[k].group = d->ngroup;
      part += d->at[k].part;
      d->groups_part += d->at[k].part;
      d->group_part[d->ngroup] = (int64_t)part;
      if (part >= most) {
        d->ngroup++;
        part = 0;
      }
    }
  d->ngroup += part != 0;
}

static void vram__ds3_take(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const vram_parallel *o = s->o->parallel;
  const vram_param *p;
  uint32_t leaf = 0;
  vram__ds3_arrays(s);
  d->ds.stage = 3;
  d->ds.ranks = vram__wrapper_ranks(o);
  d->ds.rank = vram__wrapper_rank(o);
  d->ds.dtype = s->dtype;
  d->ds.overlap = o->overlap_comm;
  d->ds.contiguous = o->contiguous_gradients;
  d->ds.scatter = o->reduce_scatter;
  d->ds.offload = o->offload_optimizer;
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind != VRAM__BUFFER)
      vram__ds3_take_param(d, p, &leaf, o->stage3_param_persistence_threshold);
  vram__ds3_take_modules(s);
  vram__ds3_groups(d, o->sub_group_size ? o->sub_group_size : 1);
}

/* What stays: shards, the optimizer's copy in fp32, the bucket, the gradients' parts, and what
   nobody sees. */
typedef struct vram__ds3_kept {
  uint64_t bytes;
  uint8_t cat;
} vram__ds3_kept;

enum { VRAM__DS3_KEPT = 6 };

static void vram__ds3_stays(const vram__step *s, vram__ds3_kept *k) {
  const vram__ds3 *d = vram__ds3_of(s);
  const uint64_t each = vram__dtype_size(d->ds.dtype), part = d->groups_part;
  const uint64_t bucket = vram__product_or_overflow(s->o->parallel->reduce_bucket_size, each);
  k[0].bytes = d->ds.offload ? 0 : 1; /* inf_or_nan_tracker */
  k[1].bytes = 4;                     /* what barriers reduce */
  k[2].bytes = s->o->parallel->offload_param ? 0 : part * each;
  k[3].bytes = d->ds.offload ? 0 : part * 4;
  k[4].bytes = d->ds.contiguous ? bucket : 0;
  k[5].bytes = d->ds.offload ? 0 : part * each;
  k[0].cat = k[1].cat = VRAM_CATEGORY_OTHER;
  k[2].cat = VRAM_CATEGORY_PARAMS;
  k[3].cat = VRAM_CATEGORY_OPTIMIZER;
  k[4].cat = k[5].cat = VRAM_CATEGORY_GRADIENTS;
}

static void vram__ds3_begin(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint64_t each = vram__dtype_size(d->ds.dtype);
  uint32_t k;
  for (k = 0; k < s->g->nparam; k++)
    d->gather[k].left = 0;
  for (k = 0; k < d->ds.nparam; k++) {
    d->at[k].gather = d->at[k].active = 0;
    d->ds.norms[k] = 0;
  }
  d->ds.nmember = 0;
  d->ds.elements = 0;
  s->leaf.accumulated = vram__ds3_accumulated;
  s->r->params_bytes = d->groups_part * each;
  if (!s->o->parallel->pin_memory)
    return;
  if (s->o->parallel->offload_optimizer)
    s->r->pinned_bytes += d->groups_part * (4 + each);
  if (s->o->parallel->offload_param)
    s->r->pinned_bytes += d->groups_part * each;
}

/* ---- the constructor */

static uint32_t vram__ds3_whole(vram__step *s, uint32_t k, int padded) {
  const vram__ds3 *d = vram__ds3_of(s);
  const uint64_t numel = padded ? d->at[k].part * d->ds.ranks : d->ds.param[k].numel;
  return vram__buffer_new(s, numel * vram__dtype_size(d->ds.dtype), VRAM_CATEGORY_PARAMS);
}

/* Module.to(device), and a shard of each parameter in its place */
static void vram__ds3_shard(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint64_t each = vram__dtype_size(d->ds.dtype);
  const int stay = !s->o->parallel->offload_param;
  const vram_param *p;
  uint32_t k;
  for (k = 0; k < d->ds.nparam; k++)
    d->ds.norms[k] = vram__ds3_whole(s, k, 0);
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__BUFFER)
      vram__buffer_new(s, vram__dims_bytes_of(p->d, vram__param_dtype(s, p)),
                       VRAM_CATEGORY_BUFFERS);
  for (k = 0; k < d->ds.nparam; k++) {
    d->list[k] = stay ? vram__buffer_new(s, d->at[k].part * each, VRAM_CATEGORY_PARAMS) : 0;
    vram__buffer_free(s, d->ds.norms + k);
  }
}

/* _create_fp32_partitions: each group's is cast, and copied. */
static void vram__ds3_masters(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t i, cast = 0;
  for (i = 0; i < d->ngroup; i++) {
    const uint64_t bytes = (uint64_t)d->group_part[i] * 4;
    if (d->ds.dtype != VRAM_F32)
      cast = vram__buffer_new(s, bytes, VRAM_CATEGORY_OPTIMIZER);
    vram__buffer_new(s, bytes, VRAM_CATEGORY_OPTIMIZER);
    vram__buffer_free(s, &cast);
  }
}

static void vram__ds3_construct(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  vram__ds3_kept kept[VRAM__DS3_KEPT];
  uint64_t most = 0;
  uint32_t i, k;
  vram__ds3_take(s);
  vram__ds3_stays(s, kept);
  vram__ds3_shard(s);
  if (kept[0].bytes)
    vram__buffer_new(s, kept[0].bytes, kept[0].cat);
  i = vram__buffer_new(s, 1, VRAM_CATEGORY_TEMPORARIES); /* of the first barrier */
  vram__buffer_new(s, kept[1].bytes, kept[1].cat);
  vram__buffer_free(s, &i);
  for (k = 0; k < d->ds.nparam; k++) /* defragment */
    if (d->ds.param[k].leaf != VRAM__DS_NONE)
      vram__buffer_free(s, d->list + k);
  if (s->replay && !s->replay->taping && kept[2].bytes)
    vram_pool_empty_cache(&s->replay->pool);
  vram__buffer_new(s, kept[2].bytes, kept[2].cat);
  if (!d->ds.offload) {
    vram__ds3_masters(s);
    for (i = 0; i < d->ngroup; i++)
      most = (uint64_t)d->group_part[i] > most ? (uint64_t)d->group_part[i] : most;
  }
  vram__buffer_briefly(s, 1); /* barriers, and between them the gradient of a group */
  if (most)
    vram__buffer_briefly(s, most * 4);
  vram__buffer_briefly(s, 1);
  vram__buffer_new(s, kept[4].bytes, kept[4].cat);
  vram__buffer_new(s, kept[5].bytes, kept[5].cat);
  for (k = 0; k < d->ds.nparam && d->ds.ranks > 1; k++) { /* create_reduce_and_remove_grad_hooks */
    uint32_t whole, mine = 0;
    if (d->ds.param[k].leaf == VRAM__DS_NONE)
      continue;
    whole = vram__ds3_whole(s, k, 1);
    if (!kept[2].bytes)
      mine =
          vram__buffer_new(s, d->at[k].part * vram__dtype_size(d->ds.dtype), VRAM_CATEGORY_PARAMS);
    vram__buffer_free(s, &mine);
    vram__buffer_free(s, &whole);
  }
  vram__ds3_begin(s);
}

/* Bytes that have been there since the constructor. */
static void vram__ds3_there(vram__step *s, uint64_t bytes, uint8_t cat) {
  vram__bytes_grow_and_shrink(s, bytes, vram__block_bytes(bytes), bytes > VRAM_SMALL_POOL_BYTES,
                              cat);
}

static void vram__ds3_restore(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  vram__ds3_kept kept[VRAM__DS3_KEPT];
  const uint64_t each = vram__dtype_size(d->ds.dtype);
  const vram_param *p;
  uint32_t i, k;
  vram__ds3_stays(s, kept);
  for (i = 0; i < VRAM__DS3_KEPT; i++)
    if (i != 3)
      vram__ds3_there(s, kept[i].bytes, kept[i].cat);
  for (i = 0; i < d->ngroup && kept[3].bytes; i++)
    vram__ds3_there(s, (uint64_t)d->group_part[i] * 4, kept[3].cat);
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__BUFFER)
      vram__ds3_there(s, vram__dims_bytes_of(p->d, vram__param_dtype(s, p)), VRAM_CATEGORY_BUFFERS);
  for (k = 0; k < d->ds.nparam; k++) {
    vram__ds3_param *x = d->at + k;
    vram__ds_kept again;
    if (d->ds.param[k].leaf == VRAM__DS_NONE && kept[2].bytes)
      vram__ds3_there(s, x->part * each, VRAM_CATEGORY_PARAMS);
    x->available = x->persists;
    x->whole = 0;
    if (!x->persists || d->ds.ranks == 1)
      continue;
    again.bytes = x->part * d->ds.ranks * each;
    again.block = x->block;
    vram__ds_keep_again(s, &again, VRAM_CATEGORY_PARAMS);
    x->whole = again.slot;
    x->stream = 0;
  }
  vram__ds_keep_again(s, &d->ds.norm, VRAM_CATEGORY_OTHER);
  vram__ds3_begin(s);
}

static void vram__ds3_lasts(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t k;
  for (k = 0; k < d->ds.nparam; k++)
    d->at[k].block = d->at[k].whole ? vram__slot_at(s, d->at[k].whole)->block : 0;
  vram__ds_keep_block(s, &d->ds.norm);
}

/* ---- a step */

static void vram__ds3_forward_end(vram__step *s) {
  vram__ds3_modules_end(s, NULL);
  vram__ds3_of(s)->last = NULL;
}

/* DeepSpeedEngine.backward: as in the other stages; gradients are reduced on the way. */
static void vram__ds3_backward(vram__step *s, vram__tensor loss) {
  vram__ds3 *d = vram__ds3_of(s);
  vram__tensor part = vram__ds_scaled(s, loss), scaled = vram__ds_scaled(s, part);
  if (!s->failed)
    vram__backward(s, scaled);
  if (!s->failed) {
    if (d->pending)
      vram__ds3_leftovers(s);
    vram__ds3_reduce(s);
    vram__ds3_leftovers(s);
  }
  vram__tensor_release(s, scaled);
  vram__tensor_release(s, part);
}

/* One for each group; their steps are made one after the other. */
static uint32_t vram__ds3_optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  const vram__ds3 *d = vram__ds3_of(s);
  uint32_t i;
  (void)with_grad;
  for (i = 0; i < d->ngroup && !d->ds.offload; i++) {
    p[i].numel = (uint64_t)d->group_part[i];
    p[i].ndim = 1;
    p[i].size = d->group_part + i;
    p[i].dtype = VRAM_F32;
    p[i].rank = 0;
  }
  return d->ds.offload ? 0 : d->ngroup;
}

VRAM__FN void vram__ds3_hooks(vram__wrapper *w) {
  w->bytes = vram__ds3_bytes;
  w->refuses = vram__ds3_refuses;
  w->options = vram__ds3_options;
  w->put = vram__ds_put;
  w->construct = vram__ds3_construct;
  w->restore = vram__ds3_restore;
  w->lasts = vram__ds3_lasts;
  w->forward_begin = vram__ds3_reset;
  w->forward_end = vram__ds3_forward_end;
  w->node_begin = vram__ds3_node_begin;
  w->node_end = vram__ds3_node_end;
  w->record = vram__ds3_record;
  w->recorded = vram__ds3_recorded;
  w->backward = vram__ds3_backward;
  w->optim_params = vram__ds3_optim_params;
  w->optimize = vram__ds3_optimize;
}
