/* >>step/optim    optimizers: recipes of what they allocate */
#include "step/step.h"

static const vram__optim_row vram__optim_rows[VRAM_OPTIM_COUNT] = {
#define VRAM__OPTIM_ROW(name, state, def, flags, init, foreach, loop, fused)                       \
  {#name, state, VRAM_OPTIM_IMPL_##def, flags, init, {0, foreach, loop, fused}},
    VRAM_OPTIMIZERS(VRAM__OPTIM_ROW)
#undef VRAM__OPTIM_ROW
};

#define VRAM__OPTIM_NIL 0xffffffffu

typedef struct vram__optim_reg {
  vram__total sum;
  uint32_t head; /* its last one; linked to the one before */
} vram__optim_reg;

typedef struct vram__optim_run {
  const vram__optim_config *c;
  const vram__optim_param *p;
  uint32_t n, nodes;
  uint8_t impl, flags, first, late, filter, dtype, matrix, tables, overflow;
  uint32_t unused, fresh; /* nodes of c->ids: given back (linked), and the first never used */
  uint64_t now, peak, state, now_blocks, peak_blocks, state_blocks;
  uint64_t now_large, state_large, peak_upper; /* each large block may be 1 MiB larger */
  uint64_t peak_state;
  vram__total all; /* of a list like all parameters, once it is known */
  uint8_t has_all;
  vram__optim_reg reg[26];
} vram__optim_run;

VRAM__FN const vram__optim_row *vram__optim_row_of(const vram__optim_config *c) {
  return &vram__optim_rows[c->optim < VRAM_OPTIM_COUNT ? c->optim : 0];
}

static uint8_t vram__optim_impl(const vram__optim_config *c) {
  return c->impl ? c->impl : vram__optim_row_of(c)->def;
}

/* numbers of c->ids for n parameters */
VRAM__FN size_t vram__optim_ids(uint32_t n) { return 2 * (10 * (size_t)n + 64); }

/* the row of a name (a suffix _wd asks for weight decay), or -1 */
static int vram__optim_find(const char *name, size_t len, uint8_t *weight_decay) {
  int tail;
  for (tail = 0; tail < 2; tail++) {
    int row;
    if (tail) {
      if (len < 4 || name[len - 3] != '_' || name[len - 2] != 'w' || name[len - 1] != 'd')
        break;
      len -= 3;
    }
    for (row = 0; row < VRAM_OPTIM_COUNT; row++) {
      const char *s = vram__optim_rows[row].name;
      size_t i = 0;
      while (i < len && s[i] && s[i] == name[i])
        i++;
      if (i == len && !s[i]) {
        if (tail && weight_decay)
          *weight_decay = 1;
        return row;
      }
    }
  }
  return -1;
}

/* why this combination does not exist, or 0 */
VRAM__FN const char *vram__optim_problem(const vram__optim_config *c, const vram__optim_param *p,
                                         uint32_t n) {
  const vram__optim_row *row = vram__optim_row_of(c);
  uint8_t impl = vram__optim_impl(c);
  uint32_t i;
  if (c->optim >= VRAM_OPTIM_COUNT)
    return "unknown optimizer";
  if (impl > VRAM_OPTIM_IMPL_FUSED || !row->body[impl])
    return impl == VRAM_OPTIM_IMPL_FUSED     ? "this optimizer has no fused implementation"
           : impl == VRAM_OPTIM_IMPL_FOREACH ? "this optimizer has no foreach implementation"
                                             : "this optimizer has no for-loop implementation";
  if (c->capturable && !(row->flags & VRAM__OPTIM_CAPTURE))
    return "this optimizer has no option capturable";
  if (c->scaler && !c->master)
    for (i = 0; i < n; i++)
      if (vram__dtype_size(p[i].dtype) < 4)
        return "GradScaler cannot unscale gradients of fp16 or bf16";
  return 0;
}

static uint64_t vram__optim_add(vram__optim_run *r, uint64_t a, uint64_t b) {
  if (a + b < a)
    r->overflow = 1;
  return a + b;
}

static uint64_t vram__optim_mul(vram__optim_run *r, uint64_t a, uint64_t b) {
  if (b && a > UINT64_MAX / b)
    r->overflow = 1;
  return a * b;
}

static inline uint8_t vram__optim_dtype(const vram__optim_run *r, uint32_t i) {
  uint8_t d = r->p[i].dtype;
  return r->c->master && vram__dtype_size(d) < 4 ? (uint8_t)VRAM_F32 : d;
}

/* product of the sizes of axes [0, ndim - tail) */
static uint64_t vram__optim_batch(vram__optim_run *r, const vram__optim_param *p, uint32_t tail) {
  uint64_t k = 1;
  uint32_t i;
  for (i = 0; i + tail < p->ndim; i++)
    k = vram__optim_mul(r, k, (uint64_t)p->size[i]);
  return k;
}

static uint64_t vram__optim_axis(const vram__optim_param *p, uint32_t tail) {
  return tail <= p->ndim ? (uint64_t)p->size[p->ndim - tail] : 1;
}

static uint64_t vram__optim_size(vram__optim_run *r, uint32_t i, char code) {
  const vram__optim_param *p = &r->p[i];
  uint64_t e = vram__dtype_size(vram__optim_dtype(r, i)), k, block;
  switch (code) {
  case 'p':
    return vram__optim_mul(r, p->numel, e);
  case 'P':
    return r->c->capturable && e < 4 && !p->ndim ? 4 : vram__optim_mul(r, p->numel, e);
  case 'E':
    return r->c->capturable && e < 4 && !p->ndim ? 4 : e;
  case 'b':
    return p->numel;
  case 'h':
    return vram__optim_mul(r, p->numel, 2);
  case 'f':
    return vram__optim_mul(r, p->numel, 4);
  case 'F':
    return vram__dtype_size(p->dtype) < 4 ? vram__optim_mul(r, p->numel, 4) : 0;
  case 'e':
    return e;
  case 's':
    return 4;
  case 'n':
    return 2;
  case '1':
    return 1;
  case '8':
    return 8;
  case 'k':
    return 1024;
  case 'a':
    block = r->c->block ? r->c->block : 256;
    return 4 * (p->numel / block + (p->numel % block != 0));
  case 'r':
    return vram__optim_mul(r, vram__optim_batch(r, p, 1), e);
  case 'c':
    return vram__optim_mul(r, vram__optim_mul(r, vram__optim_batch(r, p, 2), e),
                           vram__optim_axis(p, 1));
  case 'o':
    return vram__optim_mul(r, vram__optim_batch(r, p, 2), e);
  case 'g':
    k = vram__optim_axis(p, 1) < vram__optim_axis(p, 2) ? vram__optim_axis(p, 1)
                                                        : vram__optim_axis(p, 2);
    return vram__optim_mul(r, vram__optim_mul(r, k, k), 2);
  default:
    return 0;
  }
}

static uint64_t vram__optim_blocks(uint64_t bytes) {
  return bytes > UINT64_MAX - 511 ? UINT64_MAX : (bytes + 511) & ~(uint64_t)511;
}

/* One tensor more in a list; PyTorch allocates nothing for an empty one. */
static void vram__optim_alloc_one(vram__optim_run *r, vram__total *t, uint64_t bytes) {
  if (!bytes)
    return;
  t->bytes = vram__optim_add(r, t->bytes, bytes);
  t->blocks = vram__optim_add(r, t->blocks, vram__optim_blocks(bytes));
  t->large += bytes > VRAM__SMALL;
  t->last = bytes;
}

static void vram__optim_grow(vram__optim_run *r, const vram__total *t) {
  r->now = vram__optim_add(r, r->now, t->bytes);
  r->now_blocks = vram__optim_add(r, r->now_blocks, t->blocks);
  r->now_large += t->large;
  if (r->now > r->peak)
    r->peak = r->now, r->peak_state = r->state;
  if (r->now_blocks > r->peak_blocks)
    r->peak_blocks = r->now_blocks;
  if (r->now_blocks + r->now_large * VRAM__SMALL > r->peak_upper)
    r->peak_upper = r->now_blocks + r->now_large * VRAM__SMALL;
}

static void vram__optim_shrink(vram__optim_run *r, const vram__total *t) {
  r->now -= t->bytes;
  r->now_blocks -= t->blocks;
  r->now_large -= t->large;
}

static void vram__optim_move(vram__optim_run *r, vram__total *to, const vram__total *t) {
  if (!t->bytes)
    return;
  to->bytes = vram__optim_add(r, to->bytes, t->bytes);
  to->blocks = vram__optim_add(r, to->blocks, t->blocks);
  to->large += t->large;
  to->last = t->last;
}

static void vram__optim_push(vram__optim_run *r, vram__optim_reg *g, uint64_t bytes) {
  vram__total t;
  if (!bytes)
    return;
  t.bytes = t.blocks = t.large = t.last = 0;
  vram__optim_alloc_one(r, &t, bytes);
  vram__optim_grow(r, &t);
  vram__optim_move(r, &g->sum, &t);
  if (r->c->events) {
    uint32_t *pair, id = vram__optim_alloc(r->c->ctx, bytes, 0), node = r->unused;
    if (node != VRAM__OPTIM_NIL)
      r->unused = r->c->ids[2 * (size_t)node + 1];
    else if (r->fresh < r->nodes)
      node = r->fresh++;
    else {
      r->overflow = 1; /* not reached: no recipe holds ten lists */
      return;
    }
    pair = r->c->ids + 2 * (size_t)node;
    pair[0] = id;
    pair[1] = g->head;
    g->head = node;
  }
}

static int vram__optim_match(const vram__optim_run *r, uint32_t i);

/* The list of this size code over parameters [from, to). Most lists are like the parameters. */
static void vram__optim_list(vram__optim_run *r, char code, uint32_t from, uint32_t to,
                             vram__total *t) {
  int all = code == 'p' && !r->filter && !(r->flags & (VRAM__OPTIM_MATRIX | VRAM__OPTIM_SPLIT)) &&
            from == 0 && to == r->n;
  uint32_t i;
  if (all && r->has_all) {
    *t = r->all;
    return;
  }
  t->bytes = t->blocks = t->large = t->last = 0;
  for (i = from; i < to; i++)
    if (vram__optim_match(r, i))
      vram__optim_alloc_one(r, t, vram__optim_size(r, i, code));
  if (all) {
    r->all = *t;
    r->has_all = 1;
  }
}

static void vram__optim_state(vram__optim_run *r, char code, uint32_t from, uint32_t to) {
  vram__total t;
  uint32_t i;
  vram__optim_list(r, code, from, to, &t);
  r->state = vram__optim_add(r, r->state, t.bytes);
  vram__optim_grow(r, &t);
  r->state_blocks = vram__optim_add(r, r->state_blocks, t.blocks);
  r->state_large += t.large;
  if (r->c->events)
    for (i = from; i < to; i++)
      if (vram__optim_match(r, i) && vram__optim_size(r, i, code))
        vram__optim_alloc(r->c->ctx, vram__optim_size(r, i, code), 1);
}

static void vram__optim_clear_registers(vram__optim_reg *g) {
  g->sum.bytes = g->sum.blocks = g->sum.large = g->sum.last = 0;
  g->head = VRAM__OPTIM_NIL;
}

/* frees what a register holds, from `node` on */
static void vram__optim_free_register(vram__optim_run *r, vram__optim_reg *g, uint32_t node) {
  vram__optim_shrink(r, &g->sum);
  while (node != VRAM__OPTIM_NIL) {
    uint32_t *pair = r->c->ids + 2 * (size_t)node, before = pair[1];
    vram__optim_free(r->c->ctx, pair[0]);
    pair[1] = r->unused;
    r->unused = node;
    node = before;
  }
  vram__optim_clear_registers(g);
}

/* allocated and freed at once: first, then second, and back */
static void vram__optim_alloc_briefly(vram__optim_run *r, uint64_t first, uint64_t second) {
  vram__optim_reg g;
  vram__optim_clear_registers(&g);
  vram__optim_push(r, &g, first);
  vram__optim_push(r, &g, second);
  vram__optim_free_register(r, &g, g.head);
}

static uint64_t vram__optim_pow2(uint64_t n) { /* the largest power of two up to n */
  uint64_t k = 1;
  while (k <= n / 2)
    k *= 2;
  return k;
}

static uint64_t vram__optim_round_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* Workspace of one of PyTorch's CUDA reductions: `inputs` elements to each of `outputs` results. A
   result that is too much work for one thread block is split over several, each of which leaves its
   part in a buffer. `row`: 0 where the reduced elements are neighbours, else the length of the last
   axis, which is kept. Right up to 2 GiB per tensor (PyTorch splits larger ones first). */
static void vram__optim_reduce(vram__optim_run *r, uint64_t outputs, uint64_t inputs, uint64_t row,
                               uint64_t bytes) {
  uint64_t sms = r->c->sms ? r->c->sms : 132;
  uint64_t sm_threads = r->c->sm_threads ? r->c->sm_threads : 2048;
  uint64_t vec = 1, d0 = row ? outputs : inputs, d1 = row ? inputs : outputs, most, width, height;
  uint64_t step_in = 1, step_out = 1, each, grid, parts, size;
  if (!outputs || !inputs)
    return;
  if (row) {
    for (vec = 4; row % vec; vec /= 2) {
    }
    d0 /= vec;
  } else if (d0 >= 128)
    d0 /= 4;
  most = 512 / vec;
  d0 = d0 < most ? vram__optim_pow2(d0) : most;
  d1 = d1 < most ? vram__optim_pow2(d1) : most;
  width = d0 < 32 ? d0 : 32;
  height = d1 < most / width ? d1 : most / width;
  width = d0 < most / height ? d0 : most / height;
  if (row)
    step_out = width;
  else
    step_in = width;
  each = vram__optim_round_up(inputs, step_in);
  if (each < (height * 16 < 256 ? height * 16 : 256))
    return; /* one warp does it */
  step_in *= height;
  each = vram__optim_round_up(inputs, step_in);
  grid = vram__optim_round_up(outputs / vec, step_out);
  sms *= sm_threads / (width * height);
  if (each < 256 || grid > sms)
    return;
  parts = vram__optim_round_up(sms, grid);
  if (parts > vram__optim_round_up(each, 16))
    parts = vram__optim_round_up(each, 16);
  if (parts < vram__optim_round_up(each, 256))
    parts = vram__optim_round_up(each, 256);
  if (parts < 2)
    return;
  size = vram__optim_mul(r, vram__optim_mul(r, outputs, parts), bytes);
  if (row)
    size = vram__optim_mul(r, size, width * vec);
  vram__optim_alloc_briefly(r, size, 4 * grid);
}

static void vram__optim_workspace(vram__optim_run *r, uint32_t i, char op, char code) {
  const vram__optim_param *p = &r->p[i];
  uint64_t bytes = vram__dtype_size(vram__optim_dtype(r, i)) > 4 ? 8 : 4;
  uint64_t cols = vram__optim_axis(p, 1), rows = vram__optim_axis(p, 2);
  if (op == '*') {
    if (code == 'w' || cols == 1 || rows == 1 || (code == 't' && rows > cols))
      vram__optim_alloc_briefly(r, r->c->blas_bytes ? r->c->blas_bytes : 33554432, 0);
    else
      vram__optim_alloc_briefly(r, r->c->blaslt_bytes ? r->c->blaslt_bytes : 1048576, 0);
    return;
  }
  switch (code) {
  case 'N':
    vram__optim_reduce(r, 1, p->numel, 0, bytes);
    break;
  case 'B':
    vram__optim_reduce(r, 1, p->numel, 0, 4);
    break;
  case 'R':
    vram__optim_reduce(r, vram__optim_batch(r, p, 1), cols, 0, bytes);
    break;
  case 'C':
    vram__optim_reduce(r, vram__optim_mul(r, vram__optim_batch(r, p, 2), cols), rows,
                       cols > 1 ? cols : 0, bytes);
    break;
  default:
    vram__optim_reduce(r, vram__optim_batch(r, p, 2), rows, 0, bytes);
    break;
  }
}

/* does parameter i take part in the current scope? */
static int vram__optim_match(const vram__optim_run *r, uint32_t i) {
  if ((r->flags & VRAM__OPTIM_MATRIX) && r->p[i].ndim != 2)
    return 0;
  if (!r->filter)
    return 1;
  if (vram__optim_dtype(r, i) != r->dtype)
    return 0;
  return !(r->flags & VRAM__OPTIM_SPLIT) || (r->p[i].ndim > 1) == r->matrix;
}

static int vram__optim_condition(vram__optim_run *r, char x, uint32_t i) {
  switch (x) {
  case 'W':
  case 'w':
    return (r->c->weight_decay && !(r->flags & VRAM__OPTIM_DECOUPLED)) == (x == 'W');
  case 'F':
    return r->first;
  case 'L':
    return r->late;
  case 'l':
    return !r->late;
  case 'C':
    return r->c->capturable != 0;
  case 'c':
    return r->c->capturable == 0;
  case 'D':
    return r->c->capturable || r->impl == VRAM_OPTIM_IMPL_FUSED;
  case '2':
    return r->p[i].ndim > 1;
  case '1':
    return r->p[i].ndim < 2;
  case 'B':
    return r->p[i].numel >= 4096;
  case 'b':
    return r->p[i].numel < 4096;
  case 'Q':
    return !r->tables++;
  default:
    return 0;
  }
}

/* behind the bracket that closes the one at s */
static const char *vram__optim_close(const char *s) {
  int depth = 0;
  do {
    if (*s == '[' || *s == '(')
      depth++;
    if (*s == ']' || *s == ')')
      depth--;
    s++;
  } while (depth);
  return s;
}

/* plays a recipe up to its end, '|' or ')' on the parameters [from, to) that match; `from` does */
static void vram__optim_play(vram__optim_run *r, const char *s, uint32_t from, uint32_t to) {
  while (*s && *s != '|' && *s != ')') {
    vram__optim_reg *g, *h;
    vram__total t;
    uint32_t i, node;
    char op = *s++;
    switch (op) {
    case ']':
      break;
    case '+':
      g = &r->reg[*s - 'a'];
      if (r->c->events || to - from == 1) {
        for (i = from; i < to; i++)
          if (vram__optim_match(r, i))
            vram__optim_push(r, g, vram__optim_size(r, i, s[1]));
      } else { /* a list in one piece */
        vram__optim_list(r, s[1], from, to, &t);
        vram__optim_grow(r, &t);
        vram__optim_move(r, &g->sum, &t);
      }
      s += 2;
      break;
    case '!':
      vram__optim_state(r, *s, from, to);
      s++;
      break;
    case '.':
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_alloc_briefly(r, vram__optim_size(r, i, *s), 0);
      s++;
      break;
    case '-':
      g = &r->reg[*s++ - 'a'];
      vram__optim_free_register(r, g, g->head);
      break;
    case '=':
      g = &r->reg[*s - 'a'];
      h = &r->reg[s[1] - 'a'];
      vram__optim_free_register(r, g, g->head);
      *g = *h;
      vram__optim_clear_registers(h);
      s += 2;
      break;
    case '^':
      g = &r->reg[*s - 'a'];
      h = &r->reg[s[1] - 'a'];
      s += 2;
      t.bytes = t.blocks = t.large = t.last = 0;
      vram__optim_alloc_one(r, &t, h->sum.last);
      g->sum = t;
      g->head = h->head;
      h->sum.bytes -= t.bytes;
      h->sum.blocks -= t.blocks;
      h->sum.large -= t.large;
      node = h->head;
      if (node != VRAM__OPTIM_NIL) {
        node = r->c->ids[2 * (size_t)node + 1];
        r->c->ids[2 * (size_t)g->head + 1] = VRAM__OPTIM_NIL;
      }
      vram__optim_free_register(r, h, node);
      break;
    case '*':
    case '%':
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_workspace(r, i, op, *s);
      s++;
      break;
    case '(':
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_play(r, s, i, i + 1);
      s = vram__optim_close(s - 1);
      break;
    default: /* X[ */
      s = vram__optim_condition(r, op, from) ? s + 1 : vram__optim_close(s);
      break;
    }
  }
}

/* the body on the scope's groups, or on each parameter, then its end */
static void vram__optim_body(vram__optim_run *r, const char *body) {
  uint8_t dtype[16], dtypes = 0, k;
  uint32_t i;
  if (r->impl == VRAM_OPTIM_IMPL_FUSED) {
    vram__optim_play(r, body, 0, r->n);
  } else if (r->impl == VRAM_OPTIM_IMPL_LOOP) {
    for (i = 0; i < r->n; i++)
      if (vram__optim_match(r, i))
        vram__optim_play(r, body, i, i + 1);
  } else {
    for (i = 0; i < r->n; i++) {
      uint8_t d = vram__optim_dtype(r, i);
      if (dtypes && d == dtype[dtypes - 1])
        continue;
      for (k = 0; k < dtypes && dtype[k] != d; k++) {
      }
      if (k == dtypes && k < 16)
        dtype[dtypes++] = d;
    }
    for (k = dtypes; k && k--;) {
      int half, halves = r->flags & VRAM__OPTIM_SPLIT ? 2 : 1, done = 2;
      r->dtype = dtype[k];
      for (half = 0; half < halves; half++) {
        r->filter = 0;
        for (i = 0; i < r->n; i++) /* the first of the group */
          if (vram__optim_dtype(r, i) == r->dtype && (r->p[i].ndim > 1) != done)
            break;
        if (i == r->n)
          continue;
        r->matrix = r->p[i].ndim > 1;
        done = r->matrix;
        r->filter = dtypes > 1 || halves > 1;
        vram__optim_play(r, body, i, r->n);
      }
    }
    r->filter = 0;
  }
  while (*body && *body != '|')
    body++;
  if (*body)
    vram__optim_play(r, body + 1, 0, 1);
}

static void vram__optim_begin(vram__optim_run *r, const vram__optim_config *c,
                              const vram__optim_param *p, uint32_t n) {
  uint8_t k;
  r->c = c;
  r->p = p;
  r->n = n;
  r->impl = vram__optim_impl(c);
  r->flags = vram__optim_row_of(c)->flags;
  r->first = c->step == 1;
  r->late = c->step == 0 || c->step > 5;
  r->filter = r->dtype = r->matrix = r->tables = r->overflow = 0;
  r->now = r->peak = r->state = r->now_blocks = r->peak_blocks = r->state_blocks = 0;
  r->now_large = r->state_large = r->peak_upper = r->peak_state = 0;
  for (k = 0; k < 26; k++)
    vram__optim_clear_registers(&r->reg[k]);
  r->has_all = c->all != NULL;
  if (c->all)
    r->all = *c->all;
  r->unused = VRAM__OPTIM_NIL;
  r->fresh = 0;
  r->nodes = 10 * n + 64;
}

static void vram__optim_finish(const vram__optim_run *r, vram__optim_bytes *out) {
  out->state = r->state, out->peak = r->peak, out->end = r->now;
  out->state_blocks = r->state_blocks, out->peak_blocks = r->peak_blocks;
  out->end_blocks = r->now_blocks, out->peak_upper = r->peak_upper;
  out->state_large = r->state_large, out->peak_state = r->peak_state;
  if (r->overflow) /* more than any device has: vram__bytes_grow_and_shrink refuses it */
    out->state = out->peak = out->end = UINT64_MAX;
}

/* What the constructor allocates: p are all parameters that the optimizer is given, used or not. */
VRAM__FN void vram__optim_construct(const vram__optim_config *c, const vram__optim_param *p,
                                    uint32_t n, vram__optim_bytes *out) {
  const vram__optim_row *row = vram__optim_row_of(c);
  vram__optim_run r;
  uint32_t i;
  vram__optim_begin(&r, c, p, n);
  if (c->master && n)
    vram__optim_play(&r, "!F", 0, n);
  if ((row->flags & VRAM__OPTIM_CTOR) && n)
    for (i = 0; i < n; i++)
      if (vram__optim_match(&r, i))
        vram__optim_play(&r, row->init, i, i + 1);
  vram__optim_finish(&r, out);
}

/* What the first step adds to the state of these parameters, which have a gradient. */
VRAM__FN void vram__optim_kept(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                               vram__optim_bytes *out) {
  const vram__optim_row *row = vram__optim_row_of(c);
  const char *q;
  vram__optim_run r;
  uint32_t i;
  int single = 0; /* the recipe asks about single parameters */
  vram__optim_begin(&r, c, p, n);
  for (q = row->init; *q; q++)
    if (q[1] == '[' && *q != 'C' && *q != 'c' && *q != 'D')
      single = 1;
  if (n && !(row->flags & VRAM__OPTIM_CTOR)) {
    if (!single && !(row->flags & (VRAM__OPTIM_MATRIX | VRAM__OPTIM_SPLIT)))
      vram__optim_play(&r, row->init, 0, n);
    else
      for (i = 0; i < n; i++)
        if (vram__optim_match(&r, i))
          vram__optim_play(&r, row->init, i, i + 1);
  }
  vram__optim_finish(&r, out);
}

/* One step: p are the parameters that have a gradient, in the optimizer's order. Nothing for n = 0.
   With several parameter groups: one call per group. */
VRAM__FN void vram__optim_step(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                               vram__optim_bytes *out) {
  const vram__optim_row *row = vram__optim_row_of(c);
  vram__optim_run r;
  uint32_t i;
  vram__optim_begin(&r, c, p, n);
  if (n && r.impl <= VRAM_OPTIM_IMPL_FUSED && row->body[r.impl]) {
    int fused = r.impl == VRAM_OPTIM_IMPL_FUSED;
    if (c->master)
      vram__optim_play(&r, "+hF", 0, n); /* gradients in f32 */
    r.flags = 0;
    if (c->scaler) /* 1 / scale in f64 (fused: the scale), found_inf, a copy of each for the device
                    */
      vram__optim_play(&r, fused ? "+xs+ys+os+zs-z-x-y+is+js" : "+x8+y8-x+zs-y+ws+os+xs-x-z-w", 0,
                       1);
    r.flags = row->flags;
    if (r.first && !(row->flags & VRAM__OPTIM_CTOR))
      for (i = 0; i < n; i++)
        if (vram__optim_match(&r, i))
          vram__optim_play(&r, row->init, i, i + 1);
    vram__optim_body(&r, row->body[r.impl]);
    vram__optim_play(&r, "-j-i-o-h", 0, 1); /* found_inf's copy goes in scaler.update() */
  }
  vram__optim_finish(&r, out);
}

VRAM_API int vram_optimizer_get_info(uint32_t optimizer, vram_optimizer_info *info) {
  static const char *const text[8] = {"",      "foreach",       "loop",       "foreach loop",
                                      "fused", "foreach fused", "loop fused", "foreach loop fused"};
  const vram__optim_row *r;
  uint32_t i, has = 0;
  if (optimizer >= VRAM_OPTIM_COUNT)
    return 0;
  r = &vram__optim_rows[optimizer];
  for (i = VRAM_OPTIM_IMPL_FOREACH; i <= VRAM_OPTIM_IMPL_FUSED; i++)
    if (r->body[i])
      has |= 1u << (i - 1);
  info->name = r->name;
  info->state = r->state;
  info->implementations = r->def == VRAM_OPTIM_IMPL_LOOP && has == 3   ? "loop foreach"
                          : r->def == VRAM_OPTIM_IMPL_LOOP && has == 7 ? "loop foreach fused"
                                                                       : text[has];
  return 1;
}

VRAM_API vram_optimizer vram_optimizer_from_name(const char *name, int *weight_decay) {
  uint8_t wd = 0;
  int i = vram__optim_find(name, vram__text_len(name), &wd);
  if (weight_decay)
    *weight_decay = wd;
  return i < 0 ? VRAM_OPTIM_COUNT : (vram_optimizer)i;
}
