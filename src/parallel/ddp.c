/* >>parallel/ddp    torch.nn.parallel.DistributedDataParallel
   nn/parallel/distributed.py and csrc/distributed/c10d/reducer.cpp, comm.cpp: gradients are copied
   into buckets, flat tensors that are summed over the ranks as soon as they are full. First there
   is one bucket of each dtype, later they follow the order in which gradients become ready. */
#include "parallel/parallel.h"

#define VRAM__DDP_BROADCAST (UINT64_C(250) << 20) /* broadcast_bucket_size */
#define VRAM__DDP_FIRST (UINT64_C(1) << 20)       /* _DEFAULT_FIRST_BUCKET_BYTES */
#define VRAM__DDP_CAP (UINT64_C(25) << 20)        /* _DEFAULT_BUCKET_CAP_MB */

enum { VRAM__DDP_UNUSED = 2 }; /* vram__ddp.ready: no gradient will come */

typedef struct vram__ddp_bucket {
  uint64_t bytes;
  uint32_t slot, block; /* of its storage, in this run and in the pool of the replay */
  uint32_t params, pending;
  uint32_t rank; /* among the buckets: while they are assigned */
  vram_dtype dtype;
} vram__ddp_bucket;

typedef struct vram__ddp {
  uint32_t n;   /* parameters that are trained: the leaves of these numbers, */
  uint32_t own; /* and without those of _ddp_params_and_buffers_to_ignore */
  uint32_t nbucket, next;
  uint32_t nready;    /* so many of `order` are known */
  uint32_t map;       /* local_used_map_dev_: its slot, 0: none, */
  uint32_t map_block; /* and its block */
  uint8_t rebuilt;    /* the buckets follow `order` */
  uint8_t expects;    /* expect_autograd_hooks_: this backward reduces */
  uint8_t marked;     /* has_marked_unused_parameters_ */
  uint8_t buffers;    /* require_forward_param_sync */
  uint8_t heard;      /* require_finalize_: some hook of this backward has run */
  uint8_t unfinished; /* a backward has left buckets that wait for gradients */
  uint32_t *order;    /* in which gradients became ready, */
  uint32_t *in;       /* the bucket of each parameter, */
  uint8_t *ready;     /* and whether its gradient is there; */
  uint8_t *ignored;   /* it is none of the wrapper's */
  vram__ddp_bucket *bucket;
} vram__ddp;

/* A chunk of tensors of one dtype; of a single one there is no flat copy. */
typedef struct vram__ddp_chunk {
  uint64_t bytes;
  uint32_t tensors;
} vram__ddp_chunk;

static vram__ddp *vram__ddp_of(const vram__step *s) { return (vram__ddp *)s->wrapped; }

static uint64_t vram__ddp_bytes(const vram_graph *g, const vram_step_options *o) {
  const uint64_t each = sizeof(vram__ddp_bucket) + 2 * sizeof(uint32_t) + 2 * sizeof(uint8_t);
  (void)o;
  return sizeof(vram__ddp) + 8 + g->nparam * each;
}

static uint32_t vram__ddp_outputs(const vram_graph *g, const vram_value **list);

/* Chunks, slots of buckets and of gradients in them, and of what the ranks say; outputs. */
static uint64_t vram__ddp_work(const vram_graph *g, const vram_step_options *o) {
  return (g->nparam + UINT64_C(8)) * (sizeof(vram__ddp_chunk) + 4 + 2 * VRAM__SLOT_BYTES) +
         (vram__ddp_outputs(g, NULL) + UINT64_C(2)) * (sizeof(vram__tensor) + 16) +
         vram__wrapper_ranks(o->parallel) * (VRAM__SLOT_BYTES + sizeof(uint32_t));
}

/* Experts that this rank alone has are ignored, and parameters of other stages: d->own, d->ignored.
 */
static void vram__ddp_ignore(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const vram_param *p;
  uint32_t i = 0;
  d->own = 0;
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__PARAM) {
      d->ignored[i] = p->is_expert || !vram__staged_has(s, p);
      d->own += !d->ignored[i++];
    }
}

static void vram__ddp_lay_out(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  uint8_t *at = (uint8_t *)(d + 1);
  d->n = s->leaf.parameters;
  d->bucket = (vram__ddp_bucket *)(void *)at;
  d->order = (uint32_t *)(void *)(d->bucket + s->g->nparam);
  d->in = d->order + s->g->nparam;
  d->ready = (uint8_t *)(d->in + s->g->nparam);
  d->ignored = d->ready + s->g->nparam;
  vram__ddp_ignore(s);
}

/* find_unused_parameters where the graph may change (dynamic_graph_find_unused). */
static int vram__ddp_finds_unused(const vram_parallel *p) {
  return p->find_unused_parameters && !p->static_graph;
}

/* The forward pass that rebuilds the buckets is that of step 2; with static_graph gradients count
   from the second backward on, and it is that of step 3. */
static uint32_t vram__ddp_rebuilds_at(const vram_parallel *p) {
  return p->static_graph ? 3 : vram__ddp_finds_unused(p) ? UINT32_MAX : 2;
}

static uint32_t vram__ddp_before(const vram_step_options *o) {
  return o->parallel->static_graph ? 3 : 2;
}

/* ---- compute_bucket_assignment_by_size */

typedef struct vram__ddp_assigning {
  uint64_t first, rest; /* limits: of the first bucket of a dtype, and of its others */
  uint32_t closed;
  uint32_t open[VRAM_DTYPE_COUNT]; /* the running bucket of each dtype, + 1 */
  uint8_t later[VRAM_DTYPE_COUNT]; /* it is not the first one */
  uint8_t seen[VRAM_DTYPE_COUNT];  /* dtypes in the order in which they came */
  uint32_t nseen;
} vram__ddp_assigning;

static void vram__ddp_assign_one(vram__step *s, vram__ddp_assigning *a, uint32_t i) {
  vram__ddp *d = vram__ddp_of(s);
  const vram__leaf *l = s->leaf.at + i;
  const vram_dtype dt = (vram_dtype)l->dt;
  vram__ddp_bucket *b;
  uint32_t k;
  if (!a->open[dt]) {
    for (k = 0; k < a->nseen && a->seen[k] != dt;)
      k++;
    if (k == a->nseen)
      a->seen[a->nseen++] = (uint8_t)dt;
    b = d->bucket + d->nbucket;
    b->bytes = 0;
    b->slot = b->block = b->params = 0;
    b->dtype = dt;
    a->open[dt] = ++d->nbucket;
  }
  b = d->bucket + a->open[dt] - 1;
  d->in[i] = a->open[dt] - 1;
  b->bytes += vram__dims_bytes_of(l->d, dt);
  b->params++;
  if (b->bytes >= (a->later[dt] ? a->rest : a->first)) {
    b->rank = a->closed++;
    a->open[dt] = 0;
    a->later[dt] = 1;
  }
}

/* The buckets get their places. */
static void vram__ddp_permute(vram__ddp *d) {
  uint32_t i;
  for (i = 0; i < d->n; i++)
    if (!d->ignored[i])
      d->in[i] = d->bucket[d->in[i]].rank;
  for (i = 0; i < d->nbucket; i++)
    while (d->bucket[i].rank != i) {
      const vram__ddp_bucket b = d->bucket[i];
      d->bucket[i] = d->bucket[b.rank];
      d->bucket[b.rank] = b;
    }
}

/* Buckets before anything is known of the order: the parameters' own, and the last bucket first. */
static void vram__ddp_assign_first(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const vram_parallel *p = s->o->parallel;
  const uint64_t cap = p->bucket_cap_bytes;
  vram__ddp_assigning a;
  uint32_t i;
  vram__memory_zero(&a, sizeof a);
  a.first = a.rest = UINT64_MAX;
  if (vram__ddp_finds_unused(p)) {
    a.first = cap ? cap : VRAM__DDP_FIRST;
    a.rest = cap ? cap : VRAM__DDP_CAP;
  }
  d->nbucket = 0;
  for (i = 0; i < d->n; i++)
    if (!d->ignored[i])
      vram__ddp_assign_one(s, &a, i);
  for (i = 0; i < d->nbucket; i++) /* sorted by their first parameters, as they were opened */
    d->bucket[i].rank = d->nbucket - 1 - i;
  vram__ddp_permute(d);
}

/* Buckets in the order in which they become full. What is left over comes last, in the order of a
   std::unordered_map: the dtype that was met last is its first. */
static void vram__ddp_assign_ordered(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const uint64_t cap = s->o->parallel->bucket_cap_bytes;
  vram__ddp_assigning a;
  uint32_t i;
  vram__memory_zero(&a, sizeof a);
  a.first = cap ? cap : VRAM__DDP_FIRST;
  a.rest = cap ? cap : VRAM__DDP_CAP;
  d->nbucket = 0;
  for (i = 0; i < d->own; i++)
    vram__ddp_assign_one(s, &a, d->order[i]);
  for (i = a.nseen; i--;)
    if (a.open[a.seen[i]])
      d->bucket[a.open[a.seen[i]] - 1].rank = a.closed++;
  vram__ddp_permute(d);
  d->rebuilt = 1;
}

/* ---- what is allocated */

static vram__tensor vram__ddp_tensor(const vram__step *s, uint32_t slot) {
  vram__tensor t;
  t.d = s->scalar;
  t.st = slot;
  t.dt = VRAM_U8;
  return t;
}

/* Gradients are views of the buckets, or lie beside them. */
static uint8_t vram__ddp_category(const vram__step *s) {
  return s->o->parallel->gradient_as_bucket_view ? VRAM_CATEGORY_GRADIENTS : VRAM_CATEGORY_OTHER;
}

/* The gradient of parameter i lies in its bucket from now on. */
static void vram__ddp_into_bucket(vram__step *s, uint32_t i) {
  const vram__ddp *d = vram__ddp_of(s);
  const vram__ddp_bucket *b = d->bucket + d->in[i];
  vram__leaf *l = s->leaf.at + i;
  const vram__tensor old = l->grad;
  l->grad = vram__tensor_alias(s, vram__ddp_tensor(s, b->slot), l->d);
  l->grad.dt = (vram_dtype)l->dt;
  if (old.d)
    vram__tensor_release(s, old);
}

/* Reducer::initialize_buckets: gradients that zero_grad has left move on. */
static void vram__ddp_initialize_buckets(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const int kept = s->o->keep_grads && s->o->parallel->gradient_as_bucket_view;
  uint32_t k, i;
  for (k = 0; k < d->nbucket && !s->failed; k++) {
    d->bucket[k].slot = vram__buffer_new(s, d->bucket[k].bytes, vram__ddp_category(s));
    for (i = 0; i < d->n && kept; i++)
      if (!d->ignored[i] && d->in[i] == k && s->leaf.at[i].grad.d)
        vram__ddp_into_bucket(s, i);
  }
}

static uint64_t vram__ddp_map_bytes(const vram__ddp *d) { return d->own * UINT64_C(4); }

/* Reducer::rebuild_buckets: the order comes from rank 0. The all_reduce of the step before has its
   bucket until the thread that watches the collectives comes by, every 100 ms
   (ProcessGroupNCCL.cpp, Watchdog::runLoop): old buckets may be there through this step. */
static void vram__ddp_rebuild(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const uint32_t old = d->nbucket;
  const uint64_t used = s->used;
  uint32_t *slot, indices, sizes, k;
  slot = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, (old + 1) * sizeof *slot);
  if (!slot) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (k = 0; k < old; k++)
    slot[k] = d->bucket[k].slot;
  vram__ddp_assign_ordered(s);
  indices = vram__buffer_new(s, (d->own + UINT64_C(1)) * 4, VRAM_CATEGORY_OTHER);
  sizes = vram__buffer_new(s, d->nbucket * UINT64_C(4), VRAM_CATEGORY_OTHER);
  vram__communicate(s, VRAM_COLLECTIVE_BROADCAST, (d->own + UINT64_C(1)) * 4,
                    vram__wrapper_ranks(s->o->parallel));
  vram__communicate(s, VRAM_COLLECTIVE_BROADCAST, d->nbucket * UINT64_C(4),
                    vram__wrapper_ranks(s->o->parallel));
  vram__slot_release(s, sizes);
  vram__slot_release(s, indices);
  for (k = 0; k < old; k++) {
    s->count.extra += vram__block_bytes(vram__slot_at(s, slot[k])->bytes);
    vram__slot_release(s, slot[k]);
  }
  s->used = used;
  vram__ddp_initialize_buckets(s);
}

/* ---- broadcast_coalesced */

typedef struct vram__ddp_chunks {
  vram__ddp_chunk *at;
  uint32_t count;
  uint32_t open[VRAM_DTYPE_COUNT]; /* the running chunk, + 1 */
} vram__ddp_chunks;

static void vram__ddp_chunk_add(const vram__step *s, vram__ddp_chunks *c, const vram_param *p) {
  const vram_dtype dt = s->param[p->index].dt;
  uint32_t *open = c->open + dt;
  vram__ddp_chunk *at;
  if (!*open) {
    *open = ++c->count;
    at = c->at + *open - 1;
    at->bytes = at->tensors = 0;
  }
  at = c->at + *open - 1;
  at->bytes = vram__sum_or_overflow(at->bytes, vram__dims_bytes_of(vram__context_dims(s, p), dt));
  at->tensors++;
  if (at->bytes >= VRAM__DDP_BROADCAST)
    *open = 0;
}

/* Parameters if `all`, then buffers: two chunks are on their way at a time. */
static void vram__ddp_broadcast(vram__step *s, int all, int buffers) {
  const uint64_t used = s->used;
  const vram_param *p;
  vram__ddp_chunks c;
  uint32_t flight[2] = {0, 0}, k;
  vram__memory_zero(&c, sizeof c);
  c.at = (vram__ddp_chunk *)vram__memory_take(s->mem, &s->used, s->cap,
                                              (s->g->nparam + 1) * sizeof *c.at);
  if (!c.at) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (p = all ? s->g->param_first : NULL; p; p = p->next)
    if (p->kind != VRAM__BUFFER && !p->is_expert && vram__staged_has(s, p))
      vram__ddp_chunk_add(s, &c, p);
  for (p = buffers ? s->g->param_first : NULL; p; p = p->next)
    if (p->kind == VRAM__BUFFER && vram__staged_has(s, p))
      vram__ddp_chunk_add(s, &c, p);
  for (k = 0; k < c.count && !s->failed; k++) {
    vram__communicate(s, VRAM_COLLECTIVE_BROADCAST, c.at[k].bytes,
                      vram__wrapper_ranks(s->o->parallel));
    vram__slot_release(s, flight[k & 1]);
    flight[k & 1] =
        c.at[k].tensors > 1 ? vram__buffer_new(s, c.at[k].bytes, VRAM_CATEGORY_OTHER) : 0;
  }
  vram__slot_release(s, flight[k & 1]);
  vram__slot_release(s, flight[(k + 1) & 1]);
  s->used = used;
}

/* ---- the reduction */

/* A communication hook casts the bucket; of what it casts to, the allocator hears at once that
   nobody needs it, and other streams still do until the next allocation. */
static void vram__ddp_reduce(vram__step *s, const vram__ddp_bucket *b) {
  const vram_dtype hook = s->o->parallel->hook ? s->o->parallel->hook : b->dtype;
  const uint64_t bytes = b->bytes / vram__dtype_size(b->dtype) * vram__dtype_size(hook);
  uint32_t slot;
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, bytes, vram__wrapper_ranks(s->o->parallel));
  if (hook == b->dtype)
    return;
  slot = vram__buffer_new(s, bytes, VRAM_CATEGORY_OTHER);
  s->r->waiting_bytes += bytes;
  vram__undone_add(s, slot);
  vram__slot_release(s, slot);
}

/* all_reduce_local_used_map, behind the last bucket */
static void vram__ddp_reduce_map(vram__step *s) {
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, vram__ddp_map_bytes(vram__ddp_of(s)),
                    vram__wrapper_ranks(s->o->parallel));
}

/* Reducer::mark_variable_ready */
static void vram__ddp_mark_ready(vram__step *s, uint32_t i) {
  vram__ddp *d = vram__ddp_of(s);
  if (d->ready[i]) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, NULL,
                      "DistributedDataParallel: expected to mark a variable ready only once: a "
                      "parameter is used in several reentrant backward passes (expected "
                      "static_graph=1)");
    return;
  }
  d->ready[i] = 1;
  if (s->o->parallel->gradient_as_bucket_view && s->leaf.at[i].grad.d)
    vram__ddp_into_bucket(s, i);
  d->bucket[d->in[i]].pending--;
  for (; d->next < d->nbucket && !d->bucket[d->next].pending; d->next++)
    vram__ddp_reduce(s, d->bucket + d->next);
  if (d->next == d->nbucket && vram__ddp_finds_unused(s->o->parallel))
    vram__ddp_reduce_map(s);
}

/* Those that no gradient can reach are ready when the first one is. */
static void vram__ddp_mark_unused(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  uint32_t i;
  d->marked = 1;
  for (i = 0; i < d->n && !s->failed; i++)
    if (d->ready[i] == VRAM__DDP_UNUSED) {
      d->ready[i] = 0;
      vram__ddp_mark_ready(s, i);
    }
}

/* The gradient of parameter i is the next in the order. */
static void vram__ddp_note(vram__ddp *d, uint32_t i) {
  if (d->nready < d->own)
    d->order[d->nready++] = i;
}

/* Reducer::autograd_hook, behind AccumulateGrad. */
static void vram__ddp_accumulated(vram__step *s, vram__leaf *l) {
  vram__ddp *d = vram__ddp_of(s);
  const vram_parallel *p = s->o->parallel;
  const uint32_t i = (uint32_t)(l - s->leaf.at);
  if (!d->expects || d->ignored[i])
    return;
  d->heard = 1;
  if (!d->rebuilt && !vram__ddp_finds_unused(p) && !d->ready[i])
    vram__ddp_note(d, i);
  if (p->static_graph && s->nth == 1) { /* static_graph_first_iteration */
    d->ready[i] = 1;
    return;
  }
  if (!d->marked)
    vram__ddp_mark_unused(s);
  vram__ddp_mark_ready(s, i);
}

/* Reducer::delay_all_reduce: all of the first step of a static graph. */
static void vram__ddp_reduce_all(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  uint32_t i;
  for (i = 0; i < d->n; i++) {
    if (d->ignored[i])
      continue;
    if (!d->ready[i] || d->ready[i] == VRAM__DDP_UNUSED)
      vram__ddp_note(d, i);
    if (s->o->parallel->gradient_as_bucket_view && s->leaf.at[i].grad.d)
      vram__ddp_into_bucket(s, i);
  }
  for (i = 0; i < d->nbucket; i++)
    vram__ddp_reduce(s, d->bucket + i);
  vram__ddp_reduce_map(s);
  d->next = d->nbucket;
}

/* ---- around a step */

/* DTensors do not go through the broadcast of its constructor: flat copies mix them with tensors,
   and one that is alone has no rule. */
static const char *vram__ddp_refuses_dtensors(const vram_graph *g) {
  const vram_param *p;
  uint32_t dtensors = 0, plain = 0;
  for (p = g->param_first; p; p = p->next) {
    dtensors += p->is_dtensor;
    plain += !p->is_dtensor;
  }
  return !dtensors ? NULL
         : plain
             ? "DistributedDataParallel of DTensors: aten.cat.default got mixed torch.Tensor and "
               "DTensor, need to convert all torch.Tensor to DTensor before calling distributed "
               "operators! (expected fsdp2)"
             : "DistributedDataParallel of DTensors: Operator c10d.broadcast_.default does not "
               "have a sharding strategy registered. (expected fsdp2)";
}

/* What PyTorch refuses, or NULL. */
static const char *vram__ddp_refuses(const vram_graph *g, const vram_step_options *o) {
  const vram_param *p = g->param_first;
  while (p && p->kind != VRAM__PARAM)
    p = p->next;
  if (vram__ddp_refuses_dtensors(g))
    return vram__ddp_refuses_dtensors(g);
  return !o->train ? "a wrapper of torch.distributed goes with training"
         : !p ? "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient"
         : g->nbackward || g->nstep || g->nzero_grad
             ? "a wrapper of torch.distributed goes with texts without backward and step lines"
         : vram__in_backward_is(o)
             ? "an optimizer in backward under DistributedDataParallel is not known"
         : o->parallel->hook == VRAM_F32 ? "there are hooks that compress to bf16 and fp16"
         : o->last_batch || o->evaluation || o->dry_run
             ? "a wrapper of torch.distributed goes with steps that are all alike"
         : o->parallel->static_graph && o->accumulate > 1
             ? "static_graph under no_sync: DistributedDataParallel's reducer stops with an error "
               "in "
               "the first backward"
             : NULL;
}

/* verify_params_across_processes: the number of parameters of each rank, and all sizes and
   strides. */
static void vram__ddp_verify(vram__step *s) {
  const uint64_t used = s->used, world = vram__wrapper_ranks(s->o->parallel);
  const vram__ddp *d = vram__ddp_of(s);
  uint64_t numbers = 0, k;
  uint32_t *slot, own, sizes, i;
  slot = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, (world + 1) * sizeof *slot);
  if (!slot) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (i = 0; i < d->n; i++)
    numbers += d->ignored[i] ? 0 : 2 * (uint64_t)s->leaf.at[i].d->ndim;
  own = vram__buffer_new(s, 8, VRAM_CATEGORY_OTHER);
  for (k = 0; k < world; k++)
    slot[k] = vram__buffer_new(s, 8, VRAM_CATEGORY_OTHER);
  sizes = vram__buffer_new(s, 8 * numbers, VRAM_CATEGORY_OTHER);
  vram__slot_release(s, sizes);
  for (k = 0; k < world; k++)
    vram__slot_release(s, slot[k]);
  vram__slot_release(s, own);
  s->used = used;
}

/* local_used_map_dev_ */
static void vram__ddp_make_map(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const uint32_t old = d->map;
  d->map = vram__buffer_new(s, vram__ddp_map_bytes(d), VRAM_CATEGORY_OTHER);
  vram__slot_release(s, old);
}

static void vram__ddp_construct(vram__step *s) {
  const vram_parallel *p = s->o->parallel;
  vram__ddp_lay_out(s);
  vram__ddp_verify(s);
  if (!s->failed)
    vram__ddp_broadcast(s, 1, p->broadcast_buffers);
  vram__ddp_assign_first(s);
  vram__ddp_initialize_buckets(s);
  if (p->find_unused_parameters)
    vram__ddp_make_map(s);
  if (p->static_graph)
    vram__ddp_make_map(s);
  vram__ddp_of(s)->buffers = 1;
  s->leaf.accumulated = vram__ddp_accumulated;
}

static void vram__ddp_restore(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  uint32_t i;
  if (d->unfinished) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, NULL,
                      "DistributedDataParallel: expected to have finished reduction in the prior "
                      "iteration before starting a new one: parameters were not used in producing "
                      "loss (expected find_unused_parameters=1 or static_graph=1)");
    return;
  }
  if (s->nth > vram__ddp_rebuilds_at(s->o->parallel) && !d->rebuilt && d->nready)
    vram__ddp_assign_ordered(s); /* in a step that was left out */
  for (i = 0; i < d->nbucket && !s->failed; i++)
    d->bucket[i].slot =
        vram__buffer_existing(s, d->bucket[i].bytes, vram__ddp_category(s), d->bucket[i].block);
  if (d->map)
    d->map = vram__buffer_existing(s, vram__ddp_map_bytes(d), VRAM_CATEGORY_OTHER, d->map_block);
  for (i = 0; i < d->n && !s->failed && s->o->parallel->gradient_as_bucket_view; i++)
    if (s->leaf.past[i].had && !d->ignored[i] && (!s->pipe || d->ready[i] == 1))
      vram__ddp_into_bucket(s, i);
  s->leaf.accumulated = vram__ddp_accumulated;
}

static void vram__ddp_lasts(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  uint32_t i;
  for (i = 0; i < d->nbucket; i++)
    d->bucket[i].block = vram__slot_at(s, d->bucket[i].slot)->block;
  if (d->map)
    d->map_block = vram__slot_at(s, d->map)->block;
}

/* DistributedDataParallel._pre_forward */
static void vram__ddp_forward_begin(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const vram_parallel *p = s->o->parallel;
  if (!d->rebuilt && s->nth >= vram__ddp_rebuilds_at(p) && d->nready)
    vram__ddp_rebuild(s);
  if (d->buffers && p->broadcast_buffers && !s->failed)
    vram__ddp_broadcast(s, 0, 1);
}

/* What the module returns, to `list` if it is there; how many. */
static uint32_t vram__ddp_outputs(const vram_graph *g, const vram_value **list) {
  const vram_node *n;
  uint32_t i, count = 0;
  for (i = 0; i < g->nresult; i++, count++)
    if (list)
      list[count] = g->result[i];
  for (n = g->returned ? NULL : g->first; n; n = n->next)
    for (i = 0; i < n->nout; i++)
      if (vram__module_returns(g, n->out + i)) {
        if (list)
          list[count] = n->out + i;
        count++;
      }
  return count;
}

/* _DDPSink clones all of them; what they are clones of goes when the wrapper returns, and the
   clones of those that no gradient comes to. Records of the clones lie behind the lists. */
static void vram__ddp_sink(vram__step *s) {
  const uint32_t count = vram__ddp_outputs(s->g, NULL);
  const vram_value **of;
  vram__tensor *other;
  uint32_t i;
  of = (const vram_value **)vram__memory_take(s->mem, &s->used, s->cap, count * sizeof *of);
  other = (vram__tensor *)vram__memory_take(s->mem, &s->used, s->cap, count * sizeof *other);
  if (!of || !other) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__ddp_outputs(s->g, of);
  s->node = NULL;
  for (i = 0; i < count && !s->failed; i++) {
    const vram__tensor t = s->variable[s->name_of[of[i]->index]].t;
    other[i] = vram__torch_clone(s, t, vram__dims_dense(s, t.d));
  }
  for (i = 0; i < count && !s->failed; i++) {
    vram__tensor *t = &s->variable[s->name_of[of[i]->index]].t, old = *t;
    if (vram__tensor_fn(s, old)) {
      *t = other[i];
      other[i] = old;
    }
    vram__tensor_release(s, other[i]);
  }
}

/* DistributedDataParallel._post_forward; all micro-batches but the last are under no_sync. */
static void vram__ddp_forward_end(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const vram_parallel *p = s->o->parallel;
  uint32_t i;
  d->buffers = d->expects = s->last_batch;
  if (d->expects) { /* prepare_for_backward */
    d->next = d->marked = d->heard = 0;
    for (i = 0; i < d->nbucket; i++)
      d->bucket[i].pending = d->bucket[i].params;
  }
  if (vram__ddp_finds_unused(p) || (p->static_graph && s->nth == 1))
    vram__ddp_sink(s);
}

/* What autograd leads to. */
static void vram__ddp_backward_begin(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  const vram_parallel *p = s->o->parallel;
  const int knows = p->find_unused_parameters || p->static_graph;
  uint32_t i;
  for (i = 0; i < d->n && d->expects; i++)
    d->ready[i] = !s->leaf.at[i].deps && knows && !d->ignored[i] ? VRAM__DDP_UNUSED : 0;
}

static void vram__ddp_backward_end(vram__step *s) {
  vram__ddp *d = vram__ddp_of(s);
  if (!d->expects)
    return;
  if (s->o->parallel->static_graph && s->nth == 1)
    vram__ddp_reduce_all(s);
  d->expects = 0;
  d->unfinished = d->heard && d->next < d->nbucket;
}

/* Of a stage of a pipeline (backward_maybe_with_nosync): every forward and backward is under
   no_sync, but for the last backward, which begins with prepare_for_backward. */
VRAM__FN void vram__ddp_last_backward(vram__step *s) {
  s->last_batch = 1;
  vram__ddp_forward_end(s);
  vram__ddp_of(s)->buffers = 0;
  vram__ddp_backward_begin(s);
}

VRAM__FN void vram__ddp_hooks_of_one(const vram_step_options *o, vram__wrapper *w) {
  w->every = o->parallel->hook != VRAM_DTYPE_NONE; /* what a hook leaves (vram__undone_add) */
  w->bytes = vram__ddp_bytes;
  w->work = vram__ddp_work;
  w->refuses = vram__ddp_refuses;
  w->before = vram__ddp_before;
  w->construct = vram__ddp_construct;
  w->restore = vram__ddp_restore;
  w->lasts = vram__ddp_lasts;
  w->forward_begin = vram__ddp_forward_begin;
  w->forward_end = vram__ddp_forward_end;
  w->backward_begin = vram__ddp_backward_begin;
  w->backward_end = vram__ddp_backward_end;
}

VRAM__FN void vram__ddp_hooks(const vram_step_options *o, vram__wrapper *w) {
  vram__ddp_hooks_of_one(o, w);
  if (vram__pipe_is(o))
    vram__staged_hooks(w);
}
