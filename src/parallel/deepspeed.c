/* >>parallel/deepspeed    deepspeed.initialize with ZeRO stages 1 and 2 (deepspeed 0.19.8:
   runtime/engine.py, runtime/zero/stage_1_and_2.py, to whose functions names here refer) */
#include "parallel/deepspeed.h"

/* ---- memory */

/* What lasts is made. */
static void vram__ds_keep(vram__step *s, vram__ds_kept *k, uint64_t bytes, uint8_t cat) {
  k->bytes = bytes;
  k->slot = vram__buffer_new(s, bytes, cat);
}

/* It was made before this step. */
VRAM__FN void vram__ds_keep_again(vram__step *s, vram__ds_kept *k, uint8_t cat) {
  k->slot = k->bytes ? vram__buffer_existing(s, k->bytes, cat, k->block) : 0;
}

VRAM__FN void vram__ds_keep_block(vram__step *s, vram__ds_kept *k) {
  k->block = k->slot ? vram__slot_at(s, k->slot)->block : 0;
  if (!k->slot)
    k->bytes = 0;
}

/* ---- before the run */

static uint64_t vram__ds_bytes(const vram_graph *g, const vram_step_options *o) {
  (void)o;
  return sizeof(vram__ds) + (uint64_t)g->nparam * (sizeof(vram__ds_param) + 3 * sizeof(uint32_t)) +
         64;
}

/* get_data_types: the model's; `own` with neither bf16 nor fp16 */
VRAM__FN vram_dtype vram__ds_dtype(const vram_step_options *o, vram_dtype own) {
  return o->parallel->fp16 ? VRAM_F16 : o->parallel->bf16 ? VRAM_BF16 : own;
}

/* Running statistics stay in the dtype that they had, beside weights in another one: the backward
   of batch norms stops there. */
static int vram__ds_mixes_statistics(const vram_graph *g, const vram_step_options *o) {
  const vram_dtype stored = o->dtype ? o->dtype : vram__graph_own_dtype(g, VRAM_DTYPE_MODEL);
  const vram_node *n;
  for (n = g->first; n && vram__ds_dtype(o, stored) != stored; n = n->next)
    if (n->op == VRAM_OP_batch_norm && n->nparam > 2 && n->param[0] && n->param[2])
      return 1;
  return 0;
}

VRAM__FN const char *vram__ds_refuses(const vram_graph *g, const vram_step_options *o) {
  const vram_param *p;
  for (p = g->param_first; p && p->kind != VRAM__PARAM;)
    p = p->next;
  return !o->train                 ? "DeepSpeed's ZeRO is for training"
         : !p                      ? "DeepSpeed's ZeRO without a trainable parameter"
         : vram__in_backward_is(o) ? "an optimizer in backward does not go with DeepSpeed"
         : o->amp == VRAM_F16      ? "DeepSpeed scales losses itself: fp16 autocast is not played"
         : vram__ds_mixes_statistics(g, o)
             ? "Expected running_mean to have the type of the weights: bf16=0, without fp16"
         : o->master_weights ? "DeepSpeed has master weights of its own"
         : g->nbackward || g->nstep || g->nzero_grad
             ? "DeepSpeed's engine makes backward and the step: not the text's lines"
         : o->parallel->wrapper != VRAM_WRAPPER_DS3 && o->parallel->overlap_comm &&
                 !o->parallel->contiguous_gradients
             ? "overlap_comm=1 with contiguous_gradients=0 is not played"
             : NULL;
}

/* _configure_distributed_model: parameters become bf16 or fp16, buffers stay as they are. */
VRAM__FN void vram__ds_options(vram__step *s) {
  if (s->o->parallel->bf16 || s->o->parallel->fp16)
    s->dtype = s->loaded = vram__ds_dtype(s->o, s->dtype);
}

/* The module is on the host until the engine moves it. */
VRAM__FN void vram__ds_put(vram__step *s, vram__owned *o) {
  const vram__total none = {0, 0, 0, 0, 0};
  (void)s;
  o->all[0] = o->all[1] = none;
}

/* ---- the partition */

/* Where parameters lie: one after the other, or every so manyth first (_round_robin_reorder). */
static void vram__ds_lay(vram__ds *d, uint32_t every) {
  uint64_t at = 0;
  uint32_t first, i;
  for (first = 0; first < every && first < d->nparam; first++)
    for (i = first; i < d->nparam; i += every) {
      d->param[i].at = at;
      at += d->param[i].numel;
    }
}

/* partition_info: what of the flat parameters is this rank's. */
static void vram__ds_partition(vram__ds *d) {
  const uint64_t begin = d->part * d->rank, end = begin + d->part;
  uint32_t i;
  d->nmine = 0;
  d->mine_numel = d->mine_end = 0;
  for (i = 0; i < d->nparam; i++) {
    vram__ds_param *f = d->param + i;
    f->mine = (f->at >= begin && f->at < end) || (f->at < begin && begin < f->at + f->numel);
    if (!f->mine)
      continue;
    d->nmine++;
    d->mine_numel += f->numel;
    if (f->at + f->numel < begin + d->mine_end)
      continue;
    d->mine_end = (f->at + f->numel < end ? f->at + f->numel : end) - begin;
  }
}

/* Parameters as they lie in the scratch of a wrapper. */
static void vram__ds_take(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  const vram_parallel *o = s->o->parallel;
  const vram_param *p;
  uint32_t leaf = 0;
  uint64_t align;
  d->param = (vram__ds_param *)(void *)(d + 1);
  d->by_leaf = (uint32_t *)(void *)(d->param + s->g->nparam);
  d->member = d->by_leaf + s->g->nparam;
  d->norms = d->member + s->g->nparam;
  d->stage = (uint32_t)(o->wrapper - VRAM_WRAPPER_DS1) + 1;
  d->ranks = vram__wrapper_ranks(o);
  d->rank = vram__wrapper_rank(o);
  d->dtype = s->dtype;
  d->comm = o->communication_data_type ? o->communication_data_type : d->dtype;
  d->overlap = o->overlap_comm;
  d->contiguous = o->contiguous_gradients || o->offload_optimizer;
  d->scatter = o->reduce_scatter;
  d->offload = o->offload_optimizer;
  d->nparam = 0;
  d->numel = 0;
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__PARAM) {
      vram__ds_param *f = d->param + d->nparam;
      f->p = p;
      f->leaf = leaf;
      f->numel = p->d->numel;
      f->used = f->reduced = 0;
      d->by_leaf[leaf++] = d->nparam++;
      d->numel += f->numel;
    }
  vram__ds_lay(d, o->round_robin_gradients ? d->ranks : 1);
  align = 2 * (uint64_t)d->ranks; /* nccl_start_alignment_factor */
  d->part = (d->numel + align - 1) / align * align / d->ranks;
  d->part_size = (int64_t)d->part;
  vram__ds_partition(d);
}

/* Behind the constructor and before each later step. */
static void vram__ds_begin(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  uint32_t i;
  for (i = 0; i < d->nparam; i++)
    d->param[i].zeros = 0;
  d->bucket[0] = d->bucket[1] = d->grads = d->grads_in = d->pad = 0;
  d->ready = 0;
  d->batches = 0;
  d->nmember = 0;
  d->elements = 0;
  d->extra = VRAM__DS_NONE;
  d->used[0] = d->used[1] = 0;
  if (d->offload && s->o->parallel->pin_memory) /* the partition, its gradient and bf16 copy;
                                                   temp_grad_buffer_for_cpu_offload */
    s->r->pinned_bytes += d->part * 8 + d->part * vram__dtype_size(d->dtype) + d->staging.bytes;
  s->leaf.accumulated = vram__ds_accumulated;
  s->r->params_bytes = d->flat.bytes;
}

/* Module.to(device), frozen parameters and buffers stay as they are. */
static void vram__ds_move(vram__step *s, uint32_t *slot) {
  vram__ds *d = vram__ds_of(s);
  const vram_param *p;
  uint32_t n = 0;
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__PARAM)
      slot[n++] = vram__buffer_new(s, vram__dims_bytes_of(p->d, d->dtype), VRAM_CATEGORY_PARAMS);
    else if (p->kind == VRAM__FROZEN)
      vram__buffer_new(s, vram__dims_bytes_of(p->d, vram__param_dtype(s, p)), VRAM_CATEGORY_PARAMS);
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__BUFFER)
      vram__buffer_new(s, vram__dims_bytes_of(p->d, vram__param_dtype(s, p)),
                       VRAM_CATEGORY_BUFFERS);
}

/* flatten_dense_tensors_aligned, and the partition in fp32, which the optimizer works on. */
static void vram__ds_flatten(vram__step *s, uint32_t *slot) {
  vram__ds *d = vram__ds_of(s);
  const uint64_t each = vram__dtype_size(d->dtype), pad = d->part * d->ranks - d->numel;
  uint32_t i, zeros = 0, copy;
  if (pad)
    zeros = vram__buffer_new(s, pad * each, VRAM_CATEGORY_TEMPORARIES);
  if (d->nparam > 1 || pad)
    vram__ds_keep(s, &d->flat, d->part * d->ranks * each, VRAM_CATEGORY_PARAMS);
  else { /* a single tensor is not copied */
    d->flat.slot = slot[0];
    d->flat.bytes = d->numel * each;
    slot[0] = 0;
  }
  vram__buffer_free(s, &zeros);
  for (i = 0; i < d->nparam; i++)
    vram__buffer_free(s, slot + i);
  copy = vram__buffer_new(s, d->part * each, VRAM_CATEGORY_OPTIMIZER);
  if (d->offload)
    vram__buffer_free(s, &copy);
  else if (each == 4) {
    d->master.slot = copy;
    d->master.bytes = d->part * 4;
  } else {
    vram__ds_keep(s, &d->master, d->part * 4, VRAM_CATEGORY_OPTIMIZER);
    vram__buffer_free(s, &copy);
  }
}

static void vram__ds_construct(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  const uint64_t each = vram__dtype_size(s->dtype);
  uint64_t most = 0;
  uint32_t i;
  vram__ds_take(s);
  vram__ds_move(s, d->norms);
  vram__ds_flatten(s, d->norms);
  if (d->offload) { /* temp_grad_buffer_for_gpu_offload */
    for (i = 0; i < d->nparam; i++)
      most = d->param[i].numel > most ? d->param[i].numel : most;
    vram__ds_keep(s, &d->staging, most * each, VRAM_CATEGORY_TEMPORARIES);
  } else /* initialize_optimizer_states */
    vram__buffer_briefly(s, d->part * 4);
  vram__ds_begin(s);
}

static void vram__ds_restore(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  const vram_param *p;
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind != VRAM__PARAM) {
      const uint64_t bytes = vram__dims_bytes_of(p->d, vram__param_dtype(s, p));
      vram__bytes_grow_and_shrink(s, bytes, vram__block_bytes(bytes), bytes > VRAM_SMALL_POOL_BYTES,
                                  p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS
                                                          : VRAM_CATEGORY_PARAMS);
    }
  vram__ds_keep_again(s, &d->flat, VRAM_CATEGORY_PARAMS);
  vram__ds_keep_again(s, &d->master, VRAM_CATEGORY_OPTIMIZER);
  vram__ds_keep_again(s, &d->norm, VRAM_CATEGORY_OTHER);
  vram__ds_keep_again(s, &d->staging, VRAM_CATEGORY_TEMPORARIES);
  vram__ds_begin(s);
}

static void vram__ds_lasts(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  vram__ds_keep_block(s, &d->flat);
  vram__ds_keep_block(s, &d->master);
  vram__ds_keep_block(s, &d->norm);
  vram__ds_keep_block(s, &d->staging);
}

/* ---- a step */

/* .grad = None */
VRAM__FN void vram__ds_let_go(vram__step *s, vram__ds_param *f) {
  vram__leaf *l = s->leaf.at + f->leaf;
  l->let_go = 1;
  if (f->used && l->grad.st)
    vram__undone_add(s, l->grad.st);
  f->used = 0;
  vram__tensor_release(s, l->grad);
  l->grad = vram__tensor_none();
  if (s->phase == VRAM_PHASE_OPTIMIZER) { /* it was noted behind backward */
    s->leaf.past[f->leaf].had = 0;
    s->leaf.past[f->leaf].let_go = 1;
  }
}

/* A number that is multiplied or divided by another one, which is no tensor. */
VRAM__FN vram__tensor vram__ds_scaled(vram__step *s, vram__tensor x) {
  vram__grad_fn *f;
  vram__tensor y;
  s->grad = 1;
  f = vram__tape_record(s, VRAM__K_scale, &x, 1, 1, 1);
  s->grad = 0;
  y = vram__pointwise_empty1(s, x);
  if (f) {
    vram__save_tensor(s, f, x); /* for its dtype: whoever calls holds it anyway */
    vram__grad_fn_set_output(s, f, 0, &y);
  }
  return y;
}

/* DeepSpeedEngine.backward: the loss is divided by the number of micro-batches, scaled (by 1), and
   behind backward gradients are reduced. */
static void vram__ds_backward(vram__step *s, vram__tensor loss) {
  vram__tensor part = vram__ds_scaled(s, loss), scaled = vram__ds_scaled(s, part);
  if (!s->failed)
    vram__backward(s, scaled);
  if (!s->failed)
    vram__ds_reduce_gradients(s);
  vram__tensor_release(s, scaled);
  vram__tensor_release(s, part);
}

static uint32_t vram__ds_optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  const vram__ds *d = vram__ds_of(s);
  (void)with_grad;
  if (d->offload)
    return 0;
  p->numel = d->part;
  p->ndim = 1;
  p->size = &d->part_size;
  p->dtype = VRAM_F32;
  p->rank = 0;
  return 1;
}

VRAM__FN void vram__ds_hooks(vram__wrapper *w) {
  w->bytes = vram__ds_bytes;
  w->refuses = vram__ds_refuses;
  w->options = vram__ds_options;
  w->put = vram__ds_put;
  w->construct = vram__ds_construct;
  w->restore = vram__ds_restore;
  w->lasts = vram__ds_lasts;
  w->backward = vram__ds_backward;
  w->optim_params = vram__ds_optim_params;
  w->optimizing = vram__ds_optimizing;
  w->clips = 1;
  w->optimized = vram__ds_optimized;
}
