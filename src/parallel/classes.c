/* >>parallel/classes    ranks that are equal by construction */
#include "parallel/parallel.h"

/* Where torch.chunk cuts along an axis, ranks have the same part from one boundary to the next: the
   first `size / part` a whole one, one the rest, those behind it nothing. */
typedef struct vram__bounds_of_ranks {
  uint32_t *at; /* where a class begins, in order; the first is 0 */
  uint32_t count, cap, ranks;
} vram__bounds_of_ranks;

static void vram__boundary_put(vram__bounds_of_ranks *b, uint64_t rank) {
  uint32_t i = b->count, k;
  if (rank >= b->ranks)
    return;
  while (i && b->at[i - 1] > rank)
    i--;
  if ((i && b->at[i - 1] == rank) || b->count == b->cap)
    return;
  VRAM_ASSERT(b->count < b->cap);
  for (k = b->count++; k > i; k--)
    b->at[k] = b->at[k - 1];
  b->at[i] = (uint32_t)rank;
}

static void vram__boundaries_of(vram__bounds_of_ranks *b, int64_t size) {
  const uint64_t n = size > 0 ? (uint64_t)size : 0;
  const uint64_t part = n ? vram__div_up_u64(n, b->ranks) : 1;
  if (n % b->ranks == 0)
    return;
  vram__boundary_put(b, n / part);
  vram__boundary_put(b, n / part + (n % part != 0));
}

static void vram__boundaries_begin(vram__bounds_of_ranks *b, uint32_t *at, uint32_t cap,
                                   uint32_t ranks) {
  b->at = at;
  b->cap = cap;
  b->count = 0;
  b->ranks = ranks ? ranks : 1;
  vram__boundary_put(b, 0);
}

static int vram__param_is_cut(const vram_param *p) { return p->kind != VRAM__BUFFER && p->d->ndim; }

/* Two for each parameter and axis that is looked at. */
static uint64_t vram__boundaries_room(const vram_graph *g) { return (uint64_t)g->nparam * 4 + 2; }

/* ---- ZeroRedundancyOptimizer ---- */

/* distributed/optim/zero_redundancy_optimizer.py: _partition_parameters gives whole parameters, the
   largest first, to the rank that has the fewest elements so far, the lowest of several. Ranks are
   in a heap of these two. */
typedef struct vram__partition {
  uint64_t elements, hash; /* hash: of what it has, in order */
  uint32_t rank;
} vram__partition;

static int vram__partition_before(const vram__partition *a, const vram__partition *b) {
  return a->elements != b->elements ? a->elements < b->elements : a->rank < b->rank;
}

static void vram__partition_sink(vram__partition *heap, uint32_t n) {
  const vram__partition moved = heap[0];
  uint32_t i = 0, k;
  for (; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && vram__partition_before(heap + k + 1, heap + k))
      k++;
    if (!vram__partition_before(heap + k, &moved))
      break;
    heap[i] = heap[k];
  }
  heap[i] = moved;
}

static uint64_t vram__param_hash(const vram_param *p, uint64_t before) {
  uint64_t h = vram__mix(before + p->dtype + UINT64_C(0x9e3779b97f4a7c15));
  uint32_t i;
  for (i = 0; i < p->d->ndim; i++)
    h = vram__mix(h + (uint64_t)p->d->v[i] + 1);
  return h;
}

/* Trainable parameters, largest first, those of a size in order; how many. */
static uint32_t vram__params_by_size(const vram_graph *g, const vram_param **list) {
  const vram_param *p;
  uint32_t n = 0, width, i;
  const vram_param **from = list, **to = list + g->nparam;
  for (p = g->param_first; p; p = p->next)
    if (p->kind == VRAM__PARAM)
      list[n++] = p;
  for (width = 1; width < n; width *= 2) { /* merge sort, which keeps the order of equal ones */
    const vram_param **swap = from;
    for (i = 0; i < n; i += 2 * width) {
      const uint32_t middle = i + width < n ? i + width : n,
                     end = middle + width < n ? middle + width : n;
      uint32_t a = i, b = middle, k;
      for (k = i; k < end; k++)
        to[k] = a < middle && (b >= end || from[a]->d->numel >= from[b]->d->numel) ? from[a++]
                                                                                   : from[b++];
    }
    from = to;
    to = swap;
  }
  for (i = 0; i < n && from != list; i++)
    list[i] = from[i];
  return n;
}

static uint64_t vram__partition_room(const vram_graph *g, uint32_t ranks) {
  return (uint64_t)g->nparam * 2 * sizeof(vram_param *) + ranks * (uint64_t)sizeof(vram__partition);
}

/* ---- */

/* Ranks of the wrapper of which each may differ, or only where rows end. */
typedef enum vram__differ {
  VRAM__ALL_EQUAL,
  VRAM__BY_ROWS,
  VRAM__BY_PARTITION, /* whole parameters */
  VRAM__BY_PLACE      /* of the parameters one behind the other the same part, wherever it ends */
} vram__differ;

static vram__differ vram__wrapper_differs(const vram_parallel *p) {
  return vram__wrapper_ranks(p) < 2                                         ? VRAM__ALL_EQUAL
         : p->wrapper == VRAM_WRAPPER_FSDP2                                 ? VRAM__BY_ROWS
         : p->wrapper == VRAM_WRAPPER_ZERO1                                 ? VRAM__BY_PARTITION
         : p->wrapper == VRAM_WRAPPER_DS1 || p->wrapper == VRAM_WRAPPER_DS2 ? VRAM__BY_PLACE
                                                                            : VRAM__ALL_EQUAL;
}

VRAM_API uint64_t vram_parallel_classes_bytes(const vram_graph *g, const vram_parallel *p) {
  uint64_t n = vram__boundaries_room(g) * sizeof(uint32_t) + 16;
  if (vram__wrapper_differs(p) >= VRAM__BY_PARTITION)
    n += vram__partition_room(g, vram__wrapper_ranks(p));
  return n;
}

/* The rank at the place of p->rank that is the wrapper's rank `shard` in the first copy. */
static uint32_t vram__rank_of_shard(const vram_parallel *p, uint32_t shard) {
  const vram_parallel_place at = vram_parallel_place_of(p);
  const uint32_t tp = p->tp ? p->tp : 1;
  return at.pp * ((p->copies ? p->copies : 1) * vram__wrapper_ranks(p) * tp) + shard * tp + at.tp;
}

/* Of the wrapper's ranks each cp-th is at the place along cp that p->rank has: the first of them
   from `from` on. */
static uint32_t vram__shard_at_place(const vram_parallel *p, uint32_t from) {
  const uint32_t cp = p->cp ? p->cp : 1, place = vram_parallel_place_of(p).cp;
  return from + (cp + place - from % cp) % cp;
}

typedef struct vram__class_list {
  vram_rank_class *at;
  uint32_t count, cap;
} vram__class_list;

static void vram__class_put(vram__class_list *list, uint32_t first, uint32_t last, uint64_t ranks,
                            uint64_t elements) {
  if (list->count < list->cap) {
    vram_rank_class *c = list->at + list->count;
    c->rank = first;
    c->last = last;
    c->ranks = ranks;
    c->elements = elements;
  }
  list->count++;
}

/* Elements of the rows that a rank has of all parameters. */
static uint64_t vram__elements_of(const vram_graph *g, const vram_parallel *p, uint32_t dp) {
  const vram_param *q;
  uint64_t sum = 0;
  for (q = g->param_first; q; q = q->next) {
    const uint64_t rows = q->d->ndim ? (uint64_t)q->d->v[0] : 1;
    const uint64_t part = vram__div_up_u64(rows, vram__wrapper_ranks(p)), before = part * dp;
    const uint64_t own = before >= rows ? 0 : rows - before < part ? rows - before : part;
    if (q->kind == VRAM__PARAM)
      sum += vram__wrapper_differs(p) == VRAM__BY_ROWS ? rows ? q->d->numel / rows * own : 0
                                                       : q->d->numel;
  }
  return sum;
}

static void vram__classes_by_rows(const vram_graph *g, const vram_parallel *p, uint32_t *at,
                                  uint64_t others, vram__class_list *list) {
  vram__bounds_of_ranks b;
  const vram_param *q;
  uint32_t i;
  vram__boundaries_begin(&b, at, (uint32_t)vram__boundaries_room(g), vram__wrapper_ranks(p));
  if (vram__wrapper_differs(p) == VRAM__BY_ROWS)
    for (q = g->param_first; q; q = q->next)
      if (vram__param_is_cut(q))
        vram__boundaries_of(&b, q->d->v[0]);
  for (i = 0; i < b.count; i++) {
    const uint32_t end = i + 1 < b.count ? b.at[i + 1] : b.ranks;
    const uint32_t first = vram__shard_at_place(p, b.at[i]), cp = p->cp ? p->cp : 1;
    if (first < end)
      vram__class_put(list, vram__rank_of_shard(p, first),
                      vram__rank_of_shard(p, first + (end - 1 - first) / cp * cp),
                      ((end - 1 - first) / cp + 1) * others, vram__elements_of(g, p, b.at[i]));
  }
}

static int vram__partitions_alike(const vram__partition *a, const vram__partition *b) {
  return a->hash == b->hash && a->elements == b->elements;
}

/* ZeroRedundancyOptimizer's partition, in order of ranks. */
static void vram__partition_params(const vram_graph *g, const vram_parallel *p,
                                   const vram_param **param, vram__partition *heap) {
  uint32_t n = vram__params_by_size(g, param), i;
  vram__partition t;
  for (i = 0; i < n; i++) {
    heap[0].elements += param[i]->d->numel;
    heap[0].hash = vram__param_hash(param[i], heap[0].hash);
    vram__partition_sink(heap, vram__wrapper_ranks(p));
  }
  for (i = 0; i < vram__wrapper_ranks(p); i++) /* in order of ranks again */
    while (heap[i].rank != i) {
      t = heap[heap[i].rank];
      heap[heap[i].rank] = heap[i];
      heap[i] = t;
    }
}

/* DeepSpeed's of flat parameters (stage_1_and_2.py: partition_info): what lies in a rank's part, of
   how many elements, and how much of that. */
static void vram__partition_place(const vram_graph *g, const vram_parallel *p,
                                  const vram_param **param, vram__partition *to) {
  const uint64_t align = 2 * (uint64_t)vram__wrapper_ranks(p); /* nccl_start_alignment_factor */
  const uint32_t every = p->round_robin_gradients ? vram__wrapper_ranks(p) : 1;
  uint64_t numel = 0, part, at = 0;
  uint32_t n = 0, first, i;
  const vram_param *q;
  for (q = g->param_first; q; q = q->next)
    if (q->kind == VRAM__PARAM) {
      param[n++] = q;
      numel += q->d->numel;
    }
  part = (numel + align - 1) / align * align / vram__wrapper_ranks(p);
  for (first = 0; first < every && first < n; first++)
    for (i = first; i < n; i += every) {
      const uint64_t end = at + param[i]->d->numel;
      for (; at < end && part; at = (at / part + 1) * part < end ? (at / part + 1) * part : end) {
        vram__partition *r = to + at / part;
        const uint64_t upto = (at / part + 1) * part < end ? (at / part + 1) * part : end;
        r->elements += upto - at;
        r->hash = vram__mix(r->hash + upto - at + vram__mix(param[i]->d->numel));
      }
    }
}

static void vram__classes_by_partition(const vram_graph *g, const vram_parallel *p, void *memory,
                                       uint64_t others, vram__class_list *list) {
  const vram_param **param = (const vram_param **)memory;
  vram__partition *heap = (vram__partition *)(void *)(param + (uint64_t)g->nparam * 2);
  const uint32_t ranks = vram__wrapper_ranks(p), cp = p->cp ? p->cp : 1;
  const uint32_t place = vram_parallel_place_of(p).cp;
  uint32_t i, k, first;
  for (i = 0; i < ranks; i++) {
    heap[i].elements = heap[i].hash = 0;
    heap[i].rank = i;
  }
  if (vram__wrapper_differs(p) == VRAM__BY_PLACE)
    vram__partition_place(g, p, param, heap);
  else
    vram__partition_params(g, p, param, heap);
  for (i = place; i < ranks; i += cp) {
    uint64_t alike = 0;
    uint32_t last = i;
    for (first = place; !vram__partitions_alike(heap + first, heap + i);)
      first += cp;
    if (first < i)
      continue;
    for (k = i; k < ranks; k += cp)
      if (vram__partitions_alike(heap + k, heap + i)) {
        alike++;
        last = k;
      }
    vram__class_put(list, vram__rank_of_shard(p, i), vram__rank_of_shard(p, last), alike * others,
                    heap[i].elements);
  }
}

VRAM_API vram_result vram_parallel_classes(const vram_graph *g, const vram_parallel *p,
                                           void *scratch, uint64_t bytes, vram_rank_class *list,
                                           uint32_t cap, uint32_t *count) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  const uint64_t others = (uint64_t)(p->copies ? p->copies : 1);
  vram__class_list to;
  *count = 0;
  if (bytes < vram_parallel_classes_bytes(g, p))
    return VRAM_ERR_MEMORY;
  if (vram_parallel_world(p) > UINT32_MAX)
    return VRAM_ERR_LIMIT;
  to.at = list;
  to.count = 0;
  to.cap = cap;
  scratch = (uint8_t *)scratch + skip;
  if (vram__wrapper_differs(p) >= VRAM__BY_PARTITION)
    vram__classes_by_partition(g, p, scratch, others, &to);
  else
    vram__classes_by_rows(g, p, (uint32_t *)scratch, others, &to);
  *count = to.count;
  return VRAM_OK;
}

/* Stages differ, ranks of tensor parallelism where an axis does not divide, and those of a context,
   whose rounds of attention are of other halves. */
VRAM_API vram_result vram_parallel_cut_classes(const vram_graph *whole, const vram_parallel *p,
                                               void *scratch, uint64_t bytes, vram_rank_class *list,
                                               uint32_t cap, uint32_t *count) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  const uint64_t world = vram_parallel_world(p);
  const uint32_t stages = p->pp ? p->pp : 1, cp = p->cp ? p->cp : 1;
  const vram_param *q;
  vram__bounds_of_ranks b;
  vram__class_list to;
  uint32_t i, k, stage;
  *count = 0;
  if (bytes < vram_parallel_classes_bytes(whole, p))
    return VRAM_ERR_MEMORY;
  if (world > UINT32_MAX)
    return VRAM_ERR_LIMIT;
  vram__boundaries_begin(&b, (uint32_t *)(void *)((uint8_t *)scratch + skip),
                         (uint32_t)vram__boundaries_room(whole), p->tp);
  for (q = whole->param_first; q; q = q->next)
    for (i = 0; vram__param_is_cut(q) && q->d->ndim > 1 && i < 2; i++)
      vram__boundaries_of(&b, q->d->v[i]);
  to.at = list;
  to.count = 0;
  to.cap = cap;
  for (stage = 0; stage < stages; stage++)
    for (k = 0; k < cp; k++)
      for (i = 0; i < b.count; i++) {
        const uint32_t end = i + 1 < b.count ? b.at[i + 1] : b.ranks;
        const uint32_t first = (uint32_t)(world / stages * stage) + k * b.ranks;
        vram__class_put(&to, first + b.at[i], first + end - 1, end - b.at[i], 0);
      }
  *count = to.count;
  return VRAM_OK;
}
