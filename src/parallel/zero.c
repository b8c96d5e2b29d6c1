/* >>parallel/zero    torch.distributed.optim.ZeroRedundancyOptimizer around DistributedDataParallel
   distributed/optim/zero_redundancy_optimizer.py: each rank has an optimizer of some of the
   parameters, whole ones, and sends them to the others after its step. */
#include "parallel/parallel.h"
#include "step/optim.h"

typedef struct vram__zero {
  uint32_t n;      /* parameters that are trained */
  uint32_t ranks;  /* so many have some of them at most */
  uint32_t *order; /* the leaves as they are handed out: the largest first; then by rank */
  uint32_t *begin; /* where those of each rank begin; of ranks + 1 */
} vram__zero;

static vram__wrapper vram__zero_ddp(const vram_step_options *o) {
  vram__wrapper w;
  vram__memory_zero(&w, sizeof w);
  vram__ddp_hooks(o, &w);
  return w;
}

static uint64_t vram__zero_bytes(const vram_graph *g, const vram_step_options *o) {
  const vram__wrapper ddp = vram__zero_ddp(o);
  return ddp.bytes(g, o) + 8 + sizeof(vram__zero) + (2 * (uint64_t)g->nparam + 2) * 4;
}

/* The elements and the rank are compared by heaps; buckets of parameters. */
static uint64_t vram__zero_work(const vram_graph *g, const vram_step_options *o) {
  const vram__wrapper ddp = vram__zero_ddp(o);
  return ddp.work(g, o) + (g->nparam + UINT64_C(1)) * 24 +
         (o->parallel->parameters_as_bucket_view
              ? vram__wrapper_ranks(o->parallel) * VRAM__SLOT_BYTES
              : 0);
}

/* Behind what DistributedDataParallel keeps. */
static vram__zero *vram__zero_of(const vram__step *s) {
  const vram__wrapper ddp = vram__zero_ddp(s->o);
  const uint64_t bytes = (ddp.bytes(s->g, s->o) + 7) / 8 * 8;
  return (vram__zero *)(void *)((uint8_t *)s->wrapped + bytes);
}

/* What PyTorch refuses, or NULL. */
static const char *vram__zero_refuses(const vram_graph *g, const vram_step_options *o) {
  const vram_param *p, *first = NULL;
  const vram_parallel *par = o->parallel;
  const vram__wrapper ddp = vram__zero_ddp(o);
  for (p = g->param_first; p; p = p->next) {
    if (p->kind != VRAM__PARAM)
      continue;
    if (!first)
      first = p;
    if (p->dtype != first->dtype && !(p->is_model && first->is_model))
      return "ZeroRedundancyOptimizer only supports using the same dense type for all parameters";
    if (par->parameters_as_bucket_view && (vram__op_traits(p->node) & VRAM__OP_FLAT))
      return "parameters_as_bucket_view of recurrent nets is not known";
  }
  return par->overlap_with_ddp ? "overlap_with_ddp=True is not known"
         : o->master_weights   ? "master weights under ZeroRedundancyOptimizer are not known"
         : vram__optim_flags(o) & VRAM__OPTIM_PROJECTS
             ? "projected gradients under ZeroRedundancyOptimizer are not known"
             : ddp.refuses(g, o);
}

/* ---- _partition_parameters */

/* order becomes the leaves by elements, the largest first, equal ones as they come; `other`: as
   much room. */
static void vram__zero_sort(const vram__step *s, uint32_t *order, uint32_t *other, uint32_t n) {
  uint32_t width, at, i, k, left, right, end;
  for (i = 0; i < n; i++)
    order[i] = i;
  for (width = 1; width < n; width *= 2) {
    for (at = 0; at < n; at = end) {
      left = at;
      right = n - at < width ? n : at + width;
      end = n - right < width ? n : right + width;
      i = right;
      for (k = at; k < end; k++)
        if (left < right &&
            (i == end || s->leaf.at[order[left]].d->numel >= s->leaf.at[order[i]].d->numel))
          other[k] = order[left++];
        else
          other[k] = order[i++];
    }
    for (i = 0; i < n; i++)
      order[i] = other[i];
  }
}

typedef struct vram__zero_load { /* of a rank */
  uint64_t elements;
  uint32_t rank;
} vram__zero_load;

static int vram__zero_lighter(const vram__zero_load *a, const vram__zero_load *b) {
  return a->elements != b->elements ? a->elements < b->elements : a->rank < b->rank;
}

/* The first of the heap has become heavier. */
static void vram__zero_sink(vram__zero_load *heap, uint32_t n) {
  const vram__zero_load it = heap[0];
  uint32_t i = 0, k;
  while ((k = 2 * i + 1) < n) {
    if (k + 1 < n && vram__zero_lighter(heap + k + 1, heap + k))
      k++;
    if (!vram__zero_lighter(heap + k, &it))
      break;
    heap[i] = heap[k];
    i = k;
  }
  heap[i] = it;
}

/* Each parameter goes to the rank that has the fewest elements so far. */
static void vram__zero_partition(vram__step *s) {
  vram__zero *z = vram__zero_of(s);
  const uint64_t used = s->used;
  vram__zero_load *heap;
  uint32_t *sorted, *rank, i;
  z->n = s->leaf.parameters;
  z->ranks =
      vram__wrapper_ranks(s->o->parallel) < z->n ? vram__wrapper_ranks(s->o->parallel) : z->n;
  z->order = (uint32_t *)(z + 1);
  z->begin = z->order + s->g->nparam;
  heap = (vram__zero_load *)vram__memory_take(s->mem, &s->used, s->cap, z->ranks * sizeof *heap);
  sorted = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, UINT64_C(8) * z->n);
  if (!heap || !sorted) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  rank = sorted + z->n;
  vram__zero_sort(s, sorted, rank, z->n);
  for (i = 0; i < z->ranks; i++) {
    heap[i].elements = 0;
    heap[i].rank = i;
  }
  for (i = 0; i <= z->ranks; i++)
    z->begin[i] = 0;
  for (i = 0; i < z->n; i++) {
    rank[i] = heap->rank;
    z->begin[heap->rank + 1]++;
    heap->elements += s->leaf.at[sorted[i]].d->numel;
    vram__zero_sink(heap, z->ranks);
  }
  for (i = 1; i <= z->ranks; i++)
    z->begin[i] += z->begin[i - 1];
  for (i = 0; i < z->n; i++)
    z->order[z->begin[rank[i]]++] = sorted[i];
  for (i = z->ranks; i; i--)
    z->begin[i] = z->begin[i - 1];
  z->begin[0] = 0;
  s->used = used;
}

/* The optimizer has those of this rank. */
static uint32_t vram__zero_optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  const vram__zero *z = vram__zero_of(s);
  const uint32_t rank = vram__wrapper_rank(s->o->parallel);
  uint32_t i, n = 0;
  for (i = rank < z->ranks ? z->begin[rank] : z->n; i < z->n && i < z->begin[rank + 1]; i++) {
    const uint32_t k = z->order[i];
    if (!with_grad || s->leaf.at[k].grad.d || (s->leaf.known && s->leaf.past[k].had))
      vram__optim_param_of(&p[n++], s->leaf.at + k);
  }
  return n;
}

/* ---- parameters_as_bucket_view */

/* _build_param_buckets: the parameters of each rank move into one tensor; a rank without any has
   one of one number. */
static void vram__zero_build_buckets(vram__step *s) {
  const vram__zero *z = vram__zero_of(s);
  const uint64_t used = s->used;
  const vram_param **of, *p;
  uint32_t r, i, n = 0;
  if (!s->o->parallel->parameters_as_bucket_view)
    return;
  of = (const vram_param **)vram__memory_take(s->mem, &s->used, s->cap, (z->n + 1) * sizeof *of);
  if (!of) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__PARAM)
      of[n++] = p;
  s->cat = VRAM_CATEGORY_PARAMS;
  for (r = 0; r < vram__wrapper_ranks(s->o->parallel) && !s->failed; r++) {
    uint64_t bytes = 0;
    for (i = r < z->ranks ? z->begin[r] : 0; i < (r < z->ranks ? z->begin[r + 1] : 0); i++)
      bytes += vram__dims_bytes_of(s->leaf.at[z->order[i]].d, s->leaf.at[z->order[i]].dt);
    vram__storage_new(s, bytes ? bytes : 4);
    for (i = r < z->ranks ? z->begin[r] : 0; i < (r < z->ranks ? z->begin[r + 1] : 0); i++)
      vram__param_leave(s, of[z->order[i]]);
  }
  s->used = used;
}

/* In a later step: that the buckets are there is known by the parameters in them. */
static void vram__zero_restore_buckets(vram__step *s) {
  const vram__zero *z = vram__zero_of(s);
  const int64_t one = 1;
  uint32_t r, i, k;
  if (!s->o->parallel->parameters_as_bucket_view)
    return;
  for (r = 0; r < z->ranks; r++) {
    uint64_t bytes = 0;
    for (i = z->begin[r]; i < z->begin[r + 1]; i++) {
      const vram__leaf *l = s->leaf.at + z->order[i];
      s->count.blocks -= vram__block_bytes(vram__dims_bytes_of(l->d, l->dt));
      bytes += vram__dims_bytes_of(l->d, l->dt);
    }
    s->count.blocks += vram__block_bytes(bytes);
  }
  for (k = z->ranks; k < vram__wrapper_ranks(s->o->parallel) && !s->failed; k++)
    vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &one, NULL), VRAM_F32,
                                 VRAM_CATEGORY_PARAMS);
}

/* ---- around a step */

static void vram__zero_construct(vram__step *s) {
  const vram__wrapper ddp = vram__zero_ddp(s->o);
  ddp.construct(s);
  if (!s->failed)
    vram__zero_partition(s);
}

static void vram__zero_restore(vram__step *s) {
  const vram__wrapper ddp = vram__zero_ddp(s->o);
  ddp.restore(s);
  vram__zero_restore_buckets(s);
}

/* _sync_params: each rank sends its parameters, or all of them at once. */
static void vram__zero_sync(vram__step *s) {
  const vram__zero *z = vram__zero_of(s);
  const vram_parallel *p = s->o->parallel;
  uint32_t r, i;
  for (r = 0; r < z->ranks; r++) {
    uint64_t bytes = 0;
    for (i = z->begin[r]; i < z->begin[r + 1]; i++) {
      const vram__leaf *l = s->leaf.at + z->order[i];
      bytes += vram__dims_bytes_of(l->d, l->dt);
      if (!p->parameters_as_bucket_view)
        vram__communicate(s, VRAM_COLLECTIVE_BROADCAST, vram__dims_bytes_of(l->d, l->dt),
                          vram__wrapper_ranks(p));
    }
    if (p->parameters_as_bucket_view)
      vram__communicate(s, VRAM_COLLECTIVE_BROADCAST, bytes, vram__wrapper_ranks(p));
  }
}

VRAM__FN void vram__zero_hooks(const vram_step_options *o, vram__wrapper *w) {
  vram__ddp_hooks(o, w);
  w->bytes = vram__zero_bytes;
  w->work = vram__zero_work;
  w->refuses = vram__zero_refuses;
  w->construct = vram__zero_construct;
  w->optimizer_made = vram__zero_build_buckets;
  w->restore = vram__zero_restore;
  w->optim_params = vram__zero_optim_params;
  w->optimizing = vram__optim_clip_all;
  w->clips = 1;
  w->optimized = vram__zero_sync;
}
