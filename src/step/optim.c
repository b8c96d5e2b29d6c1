/* >>step/optim    optimizers: plays what their recipes have become */
#include "step/optim.h"

#define VRAM__OPTIM_NIL UINT32_MAX

/* The tensors that a variable holds. With events they are a list in the caller's ids: pairs of the
   id of a tensor and the pair of the one before. */
typedef struct vram__optim_held {
  vram__total sum;
  uint32_t head; /* pair of the last tensor */
} vram__optim_held;

typedef struct vram__optim_run {
  const vram__optim_config *c;
  const vram__optim_row *row;
  const vram__optim_param *p;
  uint32_t n;
  uint8_t impl, flags, overflow;
  vram_dtype dtype;       /* of the group */
  uint8_t asked;          /* the condition `once` has held */
  uint8_t filter, matrix; /* the group that is played is a part of the parameters */
  uint32_t unused, fresh; /* pairs: given back (linked), and the first never used */
  vram__total now, state; /* allocated and not freed, and the part that stays */
  uint64_t peak, peak_state, peak_blocks, peak_upper; /* upper: a large block may be 1 MiB larger */
  vram__total all; /* of a list like all parameters, once it is known */
  uint8_t has_all;
  vram__optim_code code;
  vram__optim_held held[VRAM__OPTIM_NAMES]; /* by the number of the variable */
} vram__optim_run;

static uint8_t vram__optim_impl(const vram__optim_config *c, const vram__optim_row *row) {
  if (c->impl)
    return c->impl;
  if (row->by_default == VRAM_OPTIM_IMPL_FOREACH && (c->device->rules->does & VRAM__OPTIM_LOOPS))
    return VRAM_OPTIM_IMPL_LOOP;
  return row->by_default;
}

/* The recipe of one step; NULL: there is no such implementation. */
static const char *vram__optim_body(const vram__optim_row *row, uint8_t impl) {
  return impl <= VRAM_OPTIM_IMPL_FUSED ? row->body[impl - 1] : NULL;
}

/* No recipe holds more than ten lists like the parameters at once. */
static uint64_t vram__optim_pairs(uint32_t n) { return 10 * (uint64_t)n + 64; }

/* Numbers of c->ids for n parameters. */
VRAM__FN uint64_t vram__optim_ids(uint32_t n) { return 2 * vram__optim_pairs(n); }

/* Why this combination does not exist, or NULL. */
VRAM__FN const char *vram__optim_problem(const vram__optim_config *c) {
  const vram__optim_row *row = vram__optim_row_of(c->optim);
  uint8_t impl;
  if (!row)
    return "unknown optimizer";
  if (c->optim == VRAM_OPTIM_adafactor && !(c->device->rules->does & VRAM__ADAFACTOR))
    return "this version of PyTorch has no Adafactor (expected torch-2.5 or newer)";
  if (c->optim == VRAM_OPTIM_muon && !(c->device->rules->does & VRAM__MUON))
    return "this version of PyTorch has no Muon (expected torch-2.9 or newer)";
  impl = vram__optim_impl(c, row);
  if (!vram__optim_body(row, impl))
    return impl == VRAM_OPTIM_IMPL_FUSED     ? "this optimizer has no fused implementation"
           : impl == VRAM_OPTIM_IMPL_FOREACH ? "this optimizer has no foreach implementation"
                                             : "this optimizer has no for-loop implementation";
  if (c->capturable && !(row->flags & VRAM__OPTIM_CAPTURABLE))
    return "this optimizer has no option capturable";
  return NULL;
}

/* ---- sizes */

static vram_dtype vram__optim_dtype(const vram__optim_run *r, const vram__optim_param *p) {
  return r->c->master && vram__dtype_size(p->dtype) < 4 ? VRAM_F32 : p->dtype;
}

/* Length of the last axis (back 1) or the one before it (back 2). */
static uint64_t vram__optim_axis(const vram__optim_param *p, uint32_t back) {
  return back <= p->ndim ? (uint64_t)p->size[p->ndim - back] : 1;
}

/* Product of all axes but the last ones. */
static uint64_t vram__optim_batch(const vram__optim_param *p, uint32_t without) {
  uint64_t k = 1;
  uint32_t i;
  for (i = 0; i + without < p->ndim; i++)
    k *= (uint64_t)p->size[i];
  return k;
}

static uint64_t vram__optim_count(const vram__rules *rules, const vram__optim_param *p,
                                  uint8_t count) {
  uint64_t rows, columns;
  switch (count) {
  case VRAM__OPTIM_NUMEL:
    return p->numel;
  case VRAM__OPTIM_ROWS:
    return vram__optim_batch(p, 1);
  case VRAM__OPTIM_COLUMNS:
    return vram__optim_batch(p, 2) * vram__optim_axis(p, 1);
  case VRAM__OPTIM_MATRICES:
    return vram__optim_batch(p, 2);
  case VRAM__OPTIM_LOW:
    rows = vram__optim_axis(p, 2);
    columns = vram__optim_axis(p, 1);
    return p->rank * (rows > columns ? rows : columns);
  case VRAM__OPTIM_BASIS:
    rows = vram__optim_axis(p, 2);
    columns = vram__optim_axis(p, 1);
    return p->rank * (rows < columns ? rows : columns);
  case VRAM__OPTIM_RESIDENT:
    return p->numel < rules->eight_bit.paged ? p->numel : 0;
  case VRAM__OPTIM_BLOCKS:
    return vram__div_up_u64(p->numel, rules->eight_bit.block);
  case VRAM__OPTIM_GRAM:
    rows = vram__optim_axis(p, 2);
    columns = vram__optim_axis(p, 1);
    return rows < columns ? rows * rows : columns * columns;
  case VRAM__OPTIM_PLACED:
    return p->placed;
  case VRAM__OPTIM_GRADIENT:
    return p->gradient;
  case VRAM__OPTIM_256:
    return 256;
  default:
    return 1;
  }
}

/* Bytes of one tensor. No product overflows: a tensor of as many elements of 16 bytes would have
   less than 2^63 (vram__dims_fit). */
static uint64_t vram__optim_size(const vram__optim_run *r, uint32_t i, uint8_t size) {
  static const uint8_t bytes[] = {
#define VRAM__X(id, word, bytes) bytes,
      VRAM__OPTIM_TYPES(VRAM__X)
#undef VRAM__X
  };
  const vram__optim_param *p = &r->p[i];
  uint64_t each = bytes[size >> 4];
  if (!each) {
    each = vram__dtype_size(vram__optim_dtype(r, p));
    if (size >> 4 == VRAM__OPTIM_PROMOTED && r->c->capturable && each < 4 && !p->ndim)
      each = 4;
  }
  return each * vram__optim_count(r->c->device->rules, p, size & 15);
}

/* ---- what is allocated */

static void vram__optim_clear(vram__optim_held *h) {
  const vram__total none = {0, 0, 0, 0, 0};
  h->sum = none;
  h->head = VRAM__OPTIM_NIL;
}

/* One tensor more in a list; PyTorch allocates nothing for an empty one. */
static void vram__optim_add(vram__optim_run *r, vram__total *t, uint64_t bytes) {
  if (bytes > (uint64_t)VRAM_MAX_BYTES - t->bytes)
    r->overflow = 1;
  else
    vram__total_add(t, bytes);
}

/* A list joins another one. */
static void vram__optim_join(vram__optim_run *r, vram__total *to, const vram__total *t) {
  if (t->bytes > (uint64_t)VRAM_MAX_BYTES - to->bytes) {
    r->overflow = 1;
    return;
  }
  to->bytes += t->bytes;
  to->blocks += t->blocks;
  to->large += t->large;
  if (t->bytes)
    to->last = t->last;
}

static void vram__optim_leave(vram__total *from, const vram__total *t) {
  from->bytes -= t->bytes;
  from->blocks -= t->blocks;
  from->large -= t->large;
}

static void vram__optim_grow(vram__optim_run *r, const vram__total *t) {
  uint64_t upper;
  vram__optim_join(r, &r->now, t);
  upper = r->now.blocks + r->now.large * VRAM_SMALL_POOL_BYTES;
  if (r->now.bytes > r->peak) {
    r->peak = r->now.bytes;
    r->peak_state = r->state.bytes;
  }
  if (r->now.blocks > r->peak_blocks)
    r->peak_blocks = r->now.blocks;
  if (upper > r->peak_upper)
    r->peak_upper = upper;
}

/* One tensor more in a variable. */
static void vram__optim_push(vram__optim_run *r, vram__optim_held *h, uint64_t bytes) {
  vram__total t = {0, 0, 0, 0, 0};
  uint32_t *pair, node = r->unused;
  if (!bytes)
    return;
  vram__optim_add(r, &t, bytes);
  vram__optim_grow(r, &t);
  vram__optim_join(r, &h->sum, &t);
  if (!r->c->ids)
    return;
  if (node != VRAM__OPTIM_NIL)
    r->unused = r->c->ids[2 * (size_t)node + 1];
  else if (r->fresh < vram__optim_pairs(r->n))
    node = r->fresh++;
  else {
    r->overflow = 1; /* not reached */
    return;
  }
  pair = r->c->ids + 2 * (size_t)node;
  pair[0] = vram__optim_alloc(r->c->step, bytes, 0);
  pair[1] = h->head;
  h->head = node;
}

/* Frees what a variable holds, from a pair on. */
static void vram__optim_free_from(vram__optim_run *r, vram__optim_held *h, uint32_t node) {
  vram__optim_leave(&r->now, &h->sum);
  while (node != VRAM__OPTIM_NIL) {
    uint32_t *pair = r->c->ids + 2 * (size_t)node, before = pair[1];
    vram__optim_free(r->c->step, pair[0]);
    pair[1] = r->unused;
    r->unused = node;
    node = before;
  }
  vram__optim_clear(h);
}

static void vram__optim_release(vram__optim_run *r, vram__optim_held *h) {
  vram__optim_free_from(r, h, h->head);
}

/* Allocated and freed at once: first, then second, and back. */
static void vram__optim_alloc_briefly(vram__optim_run *r, uint64_t first, uint64_t second) {
  vram__optim_held h;
  vram__optim_clear(&h);
  vram__optim_push(r, &h, first);
  vram__optim_push(r, &h, second);
  vram__optim_release(r, &h);
}

/* ---- workspaces */

/* A reduction of `inputs` elements to each of `outputs` results, which are accumulated in `bytes`.
   `row`: 0 where the reduced elements are neighbours, else the length of the last axis, which is
   kept. */
typedef struct vram__optim_reduction {
  int64_t outputs, inputs, row;
  uint64_t bytes;
} vram__optim_reduction;

/* A result that is too much work for one thread block is split over several, each of which leaves
   its part in a buffer. Right up to 2 GiB per tensor (PyTorch splits larger ones first). */
static void vram__optim_reduce(vram__optim_run *r, const vram__optim_reduction *x) {
  const vram__rules *rules = r->c->device->rules;
  vram__reduce_config c = VRAM_ZERO_INIT;
  if (!x->outputs || !x->inputs)
    return;
  c.outputs = x->outputs;
  c.inputs = x->inputs;
  c.along = !x->row;
  c.output_vector = x->row ? rules->reduce.output_vector : 1;
  while (x->row % c.output_vector)
    c.output_vector /= 2;
  c.dim0 = (c.along ? c.inputs : c.outputs) / c.output_vector;
  c.dim1 = c.along ? c.outputs : c.inputs;
  if (c.along && c.dim0 >= rules->reduce.vectorized)
    c.dim0 /= rules->reduce.input_vector;
  if (vram__reduce_config_split(&c, r->c->device))
    vram__optim_alloc_briefly(r, vram__reduce_partial_bytes(&c, x->bytes), 4 * (uint64_t)c.grid);
}

static void vram__optim_product(vram__optim_run *r, const vram__optim_param *p, uint8_t kind) {
  const uint64_t columns = vram__optim_axis(p, 1), rows = vram__optim_axis(p, 2);
  const int blas = kind == VRAM__OPTIM_CUBLAS || columns == 1 || rows == 1 ||
                   (kind == VRAM__OPTIM_CUBLASLT_TRANSPOSED && rows > columns);
  const vram__device *device = r->c->device;
  const uint32_t library = blas ? VRAM__CUBLAS : VRAM__CUBLASLT;
  if (!device->rules->cublas.kept)
    vram__optim_alloc_briefly(r, device->workspace[library], 0);
  else if (r->c->step)
    vram__blas_workspace(r->c->step, library);
}

static void vram__optim_workspace(vram__optim_run *r, uint32_t i, uint8_t kind) {
  const vram__optim_param *p = &r->p[i];
  vram__optim_reduction x;
  x.outputs = (int64_t)vram__optim_batch(p, 2);
  x.inputs = (int64_t)vram__optim_axis(p, 2);
  x.row = 0;
  x.bytes = vram__dtype_size(vram__optim_dtype(r, p)) > 4 ? 8 : 4;
  switch (kind) {
  case VRAM__OPTIM_REDUCE_ALL_BF16:
    x.bytes = 4;
    /* fall through */
  case VRAM__OPTIM_REDUCE_ALL:
    x.outputs = 1;
    x.inputs = (int64_t)p->numel;
    break;
  case VRAM__OPTIM_REDUCE_ROWS:
    x.outputs = (int64_t)vram__optim_batch(p, 1);
    x.inputs = (int64_t)vram__optim_axis(p, 1);
    break;
  case VRAM__OPTIM_REDUCE_COLUMNS:
    x.row = (int64_t)vram__optim_axis(p, 1);
    x.outputs *= x.row;
    if (x.row == 1)
      x.row = 0;
    break;
  case VRAM__OPTIM_REDUCE_ROW_FACTORS:
    break;
  default:
    vram__optim_product(r, p, kind);
    return;
  }
  vram__optim_reduce(r, &x);
}

/* ---- instructions, played on a scope: the parameters [from, to) that match */

/* Does this parameter belong to the group that is played? */
static int vram__optim_match(const vram__optim_run *r, uint32_t i) {
  const vram__optim_param *p = &r->p[i];
  if ((r->flags & VRAM__OPTIM_MATRIX) && p->ndim != 2)
    return 0;
  if (!r->filter)
    return 1;
  return vram__optim_dtype(r, p) == r->dtype &&
         (!(r->flags & VRAM__OPTIM_SPLIT) || (p->ndim > 1) == r->matrix);
}

/* Adds up a list over the scope. Most lists are like all parameters. */
static void vram__optim_sum(vram__optim_run *r, uint8_t size, uint32_t from, uint32_t to,
                            vram__total *t) {
  const int all = size == VRAM__OPTIM_PARAM && !r->filter && from == 0 && to == r->n &&
                  !(r->flags & (VRAM__OPTIM_MATRIX | VRAM__OPTIM_SPLIT));
  const vram__total none = {0, 0, 0, 0, 0};
  uint32_t i;
  if (all && r->has_all) {
    *t = r->all;
    return;
  }
  *t = none;
  for (i = from; i < to; i++)
    if (vram__optim_match(r, i))
      vram__optim_add(r, t, vram__optim_size(r, i, size));
  if (all) {
    r->all = *t;
    r->has_all = 1;
  }
}

/* Gradients that are parts of a sum are summed along tp. */
static void vram__optim_reduce_parts(vram__optim_run *r, uint32_t from, uint32_t to) {
  uint32_t i;
  for (i = from; r->c->step && r->c->step->o->parallel && i < to; i++)
    if (vram__optim_match(r, i) && r->p[i].partial)
      vram__communicate(r->c->step, VRAM_COLLECTIVE_ALL_REDUCE,
                        vram__optim_size(r, i, VRAM__OPTIM_PLACED), r->c->step->o->parallel->tp);
}

static void vram__optim_new(vram__optim_run *r, const vram__optim_instruction *x, uint32_t from,
                            uint32_t to) {
  vram__optim_held *h = &r->held[x->a];
  vram__total t;
  uint32_t i;
  if (x->b == VRAM__OPTIM_PLACED)
    vram__optim_reduce_parts(r, from, to);
  if (!r->c->ids && !x->c && to - from > 1) {
    vram__optim_sum(r, x->b, from, to, &t);
    vram__optim_grow(r, &t);
    vram__optim_join(r, &h->sum, &t);
    return;
  }
  for (i = from; i < to; i++)
    if (vram__optim_match(r, i)) {
      vram__optim_push(r, h, vram__optim_size(r, i, x->b));
      if (x->c)
        vram__optim_workspace(r, i, (uint8_t)(x->c - 1));
    }
}

static void vram__optim_keep(vram__optim_run *r, uint8_t size, uint32_t from, uint32_t to) {
  vram__total t;
  uint32_t i;
  vram__optim_sum(r, size, from, to, &t);
  vram__optim_join(r, &r->state, &t);
  vram__optim_grow(r, &t);
  for (i = from; r->c->ids && i < to; i++)
    if (vram__optim_match(r, i) && vram__optim_size(r, i, size))
      vram__optim_alloc(r->c->step, vram__optim_size(r, i, size), 1);
}

static void vram__optim_move(vram__optim_run *r, vram__optim_held *to, vram__optim_held *from) {
  vram__optim_release(r, to);
  *to = *from;
  vram__optim_clear(from);
}

/* The last tensor of a list goes over, the others go. */
static void vram__optim_last(vram__optim_run *r, vram__optim_held *to, vram__optim_held *from) {
  const uint64_t bytes = from->sum.last;
  uint32_t node = from->head;
  vram__optim_release(r, to);
  vram__optim_add(r, &to->sum, bytes);
  vram__optim_leave(&from->sum, &to->sum);
  to->head = node;
  if (node != VRAM__OPTIM_NIL) {
    node = r->c->ids[2 * (size_t)node + 1];
    r->c->ids[2 * (size_t)to->head + 1] = VRAM__OPTIM_NIL;
  }
  vram__optim_free_from(r, from, node);
}

/* Does one of these conditions hold for a parameter? */
static int vram__optim_holds(vram__optim_run *r, uint32_t conditions, uint32_t i) {
  const vram__optim_param *p = &r->p[i];
  uint32_t hold = 0;
  if (p->ndim > 1)
    hold |= VRAM__OPTIM_IF_MATRIX;
  if (p->numel >= r->c->device->rules->eight_bit.least)
    hold |= VRAM__OPTIM_IF_LARGE;
  if (vram__dtype_size(p->dtype) < 4)
    hold |= VRAM__OPTIM_IF_LOW_PRECISION;
  if (p->rank)
    hold |= VRAM__OPTIM_IF_PROJECTED;
  if ((conditions & VRAM__OPTIM_IF_ONCE) && !r->asked) {
    hold |= VRAM__OPTIM_IF_ONCE;
    r->asked = 1;
  }
  return (conditions & hold) != 0;
}

/* Instructions from x up to end; `from` is the first parameter that matches. It calls itself no
   deeper than blocks are nested. */
static void vram__optim_play(vram__optim_run *r, const vram__optim_instruction *x,
                             const vram__optim_instruction *end, uint32_t from, uint32_t to) {
  uint32_t i;
  while (x < end) {
    uint32_t next = 1;
    switch (x->op) {
    case VRAM__OPTIM_NEW:
      vram__optim_new(r, x, from, to);
      break;
    case VRAM__OPTIM_FREE:
      vram__optim_release(r, &r->held[x->a]);
      break;
    case VRAM__OPTIM_MOVE:
      vram__optim_move(r, &r->held[x->a], &r->held[x->b]);
      break;
    case VRAM__OPTIM_LAST:
      vram__optim_last(r, &r->held[x->a], &r->held[x->b]);
      break;
    case VRAM__OPTIM_STATE:
      vram__optim_keep(r, x->b, from, to);
      break;
    case VRAM__OPTIM_BRIEF:
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_alloc_briefly(r, vram__optim_size(r, i, x->b), 0);
      break;
    case VRAM__OPTIM_IF:
      if (vram__optim_holds(r, (uint32_t)x->a * VRAM__OPTIM_IF_MATRIX, from) == x->b)
        next = x->c;
      break;
    case VRAM__OPTIM_JUMP:
      next = x->c;
      break;
    default: /* each; the parameter of an inner one is the same */
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_play(r, x + 1, x + x->c, i, i + 1);
      next = x->c;
      break;
    }
    x += next;
  }
}

/* ---- recipes */

/* A recipe while it runs. */
typedef struct vram__optim_call {
  const vram__optim_instruction *first, *end;
  uint32_t first_name;
} vram__optim_call;

/* Compiles a recipe; its variables hold nothing yet. */
static vram__optim_call vram__optim_enter(vram__optim_run *r, const char *recipe) {
  vram__optim_call call;
  uint32_t i;
  call.first = r->code.at + vram__optim_compile(&r->code, recipe);
  call.end = r->code.bad ? call.first : r->code.at + r->code.count;
  call.first_name = r->code.first_name;
  for (i = call.first_name; i < r->code.names; i++)
    vram__optim_clear(&r->held[i]);
  return call;
}

/* The function returns: its variables go, in their order. */
static void vram__optim_return(vram__optim_run *r, const vram__optim_call *call) {
  uint32_t i;
  for (i = call->first_name; i < r->code.names; i++)
    vram__optim_release(r, &r->held[i]);
  r->code.names = call->first_name;
  r->code.count = (uint32_t)(call->first - r->code.at);
}

/* On each parameter alone. */
static void vram__optim_play_each(vram__optim_run *r, const vram__optim_call *call) {
  uint32_t i;
  for (i = 0; i < r->n; i++)
    if (vram__optim_match(r, i))
      vram__optim_play(r, call->first, call->end, i, i + 1);
}

/* A recipe of what the parameters have one by one. */
static void vram__optim_play_init(vram__optim_run *r, const char *recipe) {
  const vram__optim_call call = vram__optim_enter(r, recipe);
  vram__optim_play_each(r, &call);
  vram__optim_return(r, &call);
}

/* The dtypes of the parameters in the order in which they are first seen; how many. */
static uint32_t vram__optim_dtypes(const vram__optim_run *r, vram_dtype *dtype) {
  uint32_t i, k, n = 0;
  for (i = 0; i < r->n; i++) {
    const vram_dtype d = vram__optim_dtype(r, &r->p[i]);
    if (n && d == dtype[n - 1])
      continue;
    for (k = 0; k < n && dtype[k] != d; k++) {
    }
    if (k == n)
      dtype[n++] = d;
  }
  return n;
}

/* foreach: once for each group of equal dtype, the dtype that was seen last comes first. A split
   group is played in two halves, the one of its first parameter first. */
static void vram__optim_play_groups(vram__optim_run *r, const vram__optim_call *call) {
  const int halves = r->flags & VRAM__OPTIM_SPLIT ? 2 : 1;
  vram_dtype dtype[VRAM_DTYPE_COUNT];
  const uint32_t dtypes = vram__optim_dtypes(r, dtype);
  uint32_t i, k;
  int half;
  for (k = dtypes; k-- > 0;) {
    r->dtype = dtype[k];
    for (half = 0; half < halves; half++) {
      for (i = 0; i < r->n; i++)
        if (vram__optim_dtype(r, &r->p[i]) == r->dtype &&
            (half == 0 || (r->p[i].ndim > 1) != r->matrix))
          break;
      if (i == r->n)
        continue;
      r->matrix = r->p[i].ndim > 1;
      r->filter = dtypes > 1 || halves > 1;
      vram__optim_play(r, call->first, call->end, i, r->n);
    }
  }
  r->filter = 0;
}

/* ---- clip_grad_norm_ (torch/nn/utils/clip_grad.py) */

/* torch._foreach_norm of a group (ForeachReduceOp.cu): where each tensor's chunks begin, a sum for
   each chunk, the norms. */
static void vram__optim_clip_foreach(vram__optim_run *r, vram__optim_held *norms) {
  vram__optim_held parts, sums, zero;
  uint64_t chunks = 0, tensors = 0, empty = 0;
  uint32_t i;
  for (i = 0; i < r->n; i++)
    if (vram__optim_match(r, i)) {
      chunks += vram__div_up_u64(r->c->dtensor ? r->p[i].gradient : r->p[i].numel,
                                 r->c->device->rules->foreach_chunk);
      tensors += r->p[i].numel != 0;
      empty += !r->p[i].numel;
    }
  vram__optim_clear(&parts);
  vram__optim_clear(&sums);
  vram__optim_clear(&zero);
  for (i = 0; r->c->dtensor && i < r->n; i++) /* those of other ranks count, too */
    if (vram__optim_match(r, i) && r->p[i].partial)
      vram__optim_push(r, &sums, vram__optim_size(r, i, VRAM__OPTIM_PARAM));
  if (r->c->dtensor)
    vram__optim_reduce_parts(r, 0, r->n);
  vram__optim_push(r, &parts, 8 * (tensors + 1));
  vram__optim_push(r, &parts, (vram__dtype_size(r->dtype) > 4 ? 8 : 4) * chunks);
  for (i = 0; i < tensors; i++)
    vram__optim_push(r, norms, vram__dtype_size(r->dtype));
  for (i = 0; i < empty; i++) { /* shards of ranks without rows */
    vram__optim_push(r, &zero, vram__dtype_size(r->dtype));
    vram__optim_push(r, norms, vram__dtype_size(r->dtype));
    vram__optim_release(r, &zero);
  }
  vram__optim_release(r, &parts);
  vram__optim_release(r, &sums);
}

static void vram__optim_clip_loop(vram__optim_run *r, vram__optim_held *norms) {
  uint32_t i;
  for (i = 0; i < r->n; i++)
    if (vram__optim_match(r, i)) {
      vram__optim_push(r, norms, vram__dtype_size(r->dtype));
      vram__optim_workspace(r, i, VRAM__OPTIM_REDUCE_ALL);
    }
}

/* Norms of whole gradients become this rank's share, as those of parts are (_math_ops.py,
   _NormPartial._partition_value); they go once all are in one tensor. */
static void vram__optim_clip_place(vram__optim_run *r, uint64_t each, vram__optim_held *shares) {
  uint32_t i;
  for (i = 0; i < r->n; i++)
    if (r->p[i].partial || r->p[i].gradient != r->p[i].numel)
      vram__optim_push(r, shares, each);
}

/* The norms of shards, which are partial, become those of whole gradients: squares are added up
   over the ranks (torch/distributed/tensor/_ops/_math_ops.py, _NormPartial). */
static void vram__optim_clip_reduce(vram__optim_run *r, vram__optim_held *rooted, uint64_t bytes) {
  vram__optim_held squares, sums;
  vram__step *s = r->c->step;
  if (s && s->o->parallel && r->c->sharded)
    vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, bytes,
                      vram__wrapper_ranks(s->o->parallel) / s->o->parallel->copies);
  if (s && s->o->parallel && r->c->dtensor)
    vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, bytes, s->o->parallel->tp);
  vram__optim_clear(&squares);
  vram__optim_clear(&sums);
  vram__optim_push(r, &squares, bytes);
  vram__optim_push(r, &sums, bytes);
  vram__optim_push(r, rooted, bytes);
  vram__optim_release(r, &squares);
  vram__optim_release(r, &sums);
}

/* The norms of all gradients, what they are divided by, of numbers of `each` bytes. */
static void vram__optim_clip_total(vram__optim_run *r, vram__optim_held *norms, uint64_t each) {
  vram__optim_held stack, rooted, total, sum, reciprocal, coefficient, clamped;
  vram__optim_reduction x = {1, 0, 0, 4};
  vram__optim_held *const held[] = {&stack,      &rooted,      &total,  &sum,
                                    &reciprocal, &coefficient, &clamped};
  uint32_t i;
  for (i = 0; i < sizeof held / sizeof *held; i++)
    vram__optim_clear(held[i]);
  x.inputs = (int64_t)r->n;
  x.bytes = each > 4 ? 8 : 4;
  if (r->c->dtensor)
    vram__optim_clip_place(r, each, &rooted);
  vram__optim_push(r, &stack, each * r->n);
  vram__optim_release(r, &rooted);
  if (r->c->sharded || r->c->dtensor)
    vram__optim_clip_reduce(r, &rooted, each * r->n);
  vram__optim_push(r, &total, each);
  vram__optim_reduce(r, &x);
  vram__optim_release(r, &rooted);
  vram__optim_release(r, &stack);
  vram__optim_release(r, norms);
  vram__optim_push(r, &sum, each);
  vram__optim_push(r, &reciprocal, each);
  vram__optim_push(r, &coefficient, each);
  vram__optim_release(r, &reciprocal);
  vram__optim_release(r, &sum);
  vram__optim_push(r, &clamped, each);
  vram__optim_release(r, &coefficient);
  vram__optim_release(r, &clamped);
  vram__optim_release(r, &total);
}

/* Groups of one dtype as the optimizer has them; numbers of f16 and bf16 together are f32. */
static void vram__optim_clip(vram__optim_run *r) {
  vram_dtype dtype[VRAM_DTYPE_COUNT];
  const uint32_t dtypes = vram__optim_dtypes(r, dtype);
  vram__optim_held norms;
  uint64_t each = 0;
  uint32_t k;
  vram__optim_clear(&norms);
  for (k = dtypes; k-- > 0;) {
    const uint64_t size = vram__dtype_size(dtype[k]);
    each = !each || size > each ? size : size == each && size < 4 ? 4 : each;
    r->dtype = dtype[k];
    r->filter = dtypes > 1;
    if (r->c->clip == VRAM_OPTIM_IMPL_LOOP)
      vram__optim_clip_loop(r, &norms);
    else
      vram__optim_clip_foreach(r, &norms);
  }
  r->filter = 0;
  vram__optim_clip_total(r, &norms, each);
}

static void vram__optim_play_body(vram__optim_run *r) {
  const vram__optim_call call = vram__optim_enter(r, vram__optim_body(r->row, r->impl));
  if (r->impl == VRAM_OPTIM_IMPL_FUSED)
    vram__optim_play(r, call.first, call.end, 0, r->n);
  else if (r->impl == VRAM_OPTIM_IMPL_LOOP)
    vram__optim_play_each(r, &call);
  else
    vram__optim_play_groups(r, &call);
  vram__optim_return(r, &call);
}

/* Weights of a lower precision beside ones in f32 (--master), and the copies of their gradients. */
static const char vram__optim_master[] = "if low_precision { master = state(f32[numel]); }";
static const char vram__optim_master_grads[] =
    "for each parameter { if low_precision { grads += new(f32[numel]); } }";

/* GradScaler: 1 / scale in f64 (fused: the scale), found_inf, a copy of each for the device. The
   copies stay until scaler.update(). */
static const char vram__optim_scaler[] =
    "double_scale = new(f64); double_inv_scale = new(f64) from double_scale;"
    "inv_scale = new(f32) from double_inv_scale;"
    "found_inf = new(f32); device_found_inf = new(f32); device_inv_scale = new(f32);"
    "free device_inv_scale, inv_scale, found_inf;";
static const char vram__optim_scaler_fused[] =
    "local device_found_inf, device_scale, found_inf;"
    "found_infs = new(f32); scale = new(f32); found_inf = new(f32); sum = new(f32);"
    "free sum, found_infs, scale;"
    "device_scale = new(f32); device_found_inf = new(f32);";

static const char *vram__optim_scaler_of(const vram__optim_run *r) {
  if (!r->c->scaler)
    return "";
  return r->impl == VRAM_OPTIM_IMPL_FUSED ? vram__optim_scaler_fused : vram__optim_scaler;
}

static void vram__optim_begin(vram__optim_run *r, const vram__optim_config *c,
                              const vram__optim_param *p, uint32_t n) {
  const vram__total none = {0, 0, 0, 0, 0};
  r->c = c;
  r->row = vram__optim_row_of(c->optim);
  r->p = p;
  r->n = n;
  r->impl = vram__optim_impl(c, r->row);
  r->flags = r->row->flags;
  r->filter = r->matrix = r->asked = r->overflow = 0;
  r->dtype = VRAM_DTYPE_NONE;
  r->now = r->state = none;
  r->peak = r->peak_state = r->peak_blocks = r->peak_upper = 0;
  r->has_all = c->all != NULL;
  if (c->all)
    r->all = *c->all;
  r->unused = VRAM__OPTIM_NIL;
  r->fresh = 0;
  r->code.count = 0;
  r->code.names = 1 + VRAM__OPTIM_VALUE;
  r->code.bad = 0;
  r->code.options = 0;
  if (c->weight_decay && !(r->flags & VRAM__OPTIM_DECOUPLED))
    r->code.options |= VRAM__OPTIM_IF_WEIGHT_DECAY;
  if (c->first_step)
    r->code.options |= VRAM__OPTIM_IF_FIRST_STEP;
  if (r->impl == VRAM_OPTIM_IMPL_FUSED)
    r->code.options |= VRAM__OPTIM_IF_FUSED;
  if (c->capturable)
    r->code.options |= VRAM__OPTIM_IF_CAPTURABLE;
  if (c->device->rules->does & VRAM__OPTIM_DENOM)
    r->code.options |= VRAM__OPTIM_IF_DENOM;
  if (c->dtensor)
    r->code.options |= VRAM__OPTIM_IF_DTENSOR;
  vram__optim_clear(&r->held[VRAM__OPTIM_VALUE]);
}

static void vram__optim_finish(const vram__optim_run *r, vram__optim_bytes *out) {
  out->state = r->state.bytes;
  out->peak = r->peak;
  out->end = r->now.bytes;
  out->state_blocks = r->state.blocks;
  out->peak_blocks = r->peak_blocks;
  out->end_blocks = r->now.blocks;
  out->peak_upper = r->peak_upper;
  out->state_large = r->state.large;
  out->peak_state = r->peak_state;
  if (r->overflow || r->code.bad)
    out->state = out->peak = out->end = VRAM_OVERFLOW;
}

/* What the constructor allocates: p are all parameters that the optimizer is given, used or not. */
VRAM__FN void vram__optim_construct(const vram__optim_config *c, const vram__optim_param *p,
                                    uint32_t n, vram__optim_bytes *out) {
  vram__optim_run r;
  vram__optim_begin(&r, c, p, n);
  if (c->master)
    vram__optim_play_init(&r, vram__optim_master);
  if (r.flags & VRAM__OPTIM_CTOR)
    vram__optim_play_init(&r, r.row->init);
  vram__optim_finish(&r, out);
}

/* What the first step adds to the state of these parameters, which have a gradient. */
VRAM__FN void vram__optim_kept(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                               vram__optim_bytes *out) {
  vram__optim_run r;
  vram__optim_begin(&r, c, p, n);
  if (!*r.row->init) { /* the step's recipe makes it */
    vram__optim_config first = *c;
    first.first_step = 1;
    vram__optim_step(&first, p, n, out);
    return;
  }
  if (n && !(r.flags & VRAM__OPTIM_CTOR)) {
    const vram__optim_call call = vram__optim_enter(&r, r.row->init);
    if (r.code.asks_parameter || (r.flags & VRAM__OPTIM_MATRIX))
      vram__optim_play_each(&r, &call);
    else
      vram__optim_play(&r, call.first, call.end, 0, n);
    vram__optim_return(&r, &call);
  }
  vram__optim_finish(&r, out);
}

/* What is left of a call's variables, the last one, stays. */
static uint32_t vram__optim_leave_last(vram__optim_run *r, const vram__optim_call *call) {
  uint32_t i = r->code.names;
  while (i > call->first_name) {
    vram__optim_held *h = &r->held[--i];
    if (h->head != VRAM__OPTIM_NIL) {
      const uint32_t storage = r->c->ids[2 * (size_t)h->head];
      vram__optim_clear(h);
      return storage;
    }
  }
  return 0;
}

/* One step: p are the parameters that have a gradient, in the optimizer's order. With several
   parameter groups: one call per group. */
VRAM__FN void vram__optim_step(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                               vram__optim_bytes *out) {
  vram__optim_run r;
  vram__optim_begin(&r, c, p, n);
  if (n && c->clips_only)
    vram__optim_clip(&r);
  else if (n) {
    const vram__optim_call grads = vram__optim_enter(&r, c->master ? vram__optim_master_grads : "");
    vram__optim_call scaler;
    vram__optim_play(&r, grads.first, grads.end, 0, n);
    scaler = vram__optim_enter(&r, vram__optim_scaler_of(&r));
    r.flags = 0; /* numbers do not ask for the parameter */
    vram__optim_play(&r, scaler.first, scaler.end, 0, 1);
    if (c->clip)
      vram__optim_clip(&r);
    r.flags = r.row->flags;
    if (c->first_step && !(r.flags & VRAM__OPTIM_CTOR))
      vram__optim_play_init(&r, r.row->init);
    vram__optim_play_body(&r);
    if (c->found_inf)
      *c->found_inf = vram__optim_leave_last(&r, &scaler);
    vram__optim_return(&r, &scaler);
    vram__optim_return(&r, &grads);
  }
  vram__optim_finish(&r, out);
}
