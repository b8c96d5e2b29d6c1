/* >>plan/spill    which buffers lie in the fast memory, and which are spilled
   For one bank after the other, the fastest first: the set of buffers with the most accesses that
   fits. A branch and bound over the buffers, those with the most accesses for a byte first. What is
   out is at least, at every moment, what would be lost if buffers could be cut (the knapsack's
   bound). A set that no moment forbids is planned by the arena's own search. */
#include "plan/plan.h"

#define VRAM__SPILL_NODES UINT64_C(20000)
#define VRAM__SPILL_WORK UINT64_C(400000000)

typedef struct vram__spill {
  const vram_buffer *b;
  const uint64_t *accesses;
  uint64_t *size, *used, *moment, *offset; /* offset: of the best set */
  uint32_t *order, *first, *last, *from;   /* from: which buffer one of `some` is */
  uint8_t *is_in, *best, *bank;            /* bank: where it is; VRAM_ARENA_BANKS: nowhere yet */
  vram_buffer *some;
  void *plan;
  uint64_t plan_bytes, capacity, value, best_value, left; /* left: work that may yet be done */
  uint32_t n, count, nmoment;
  vram_arena_options o;
  int has_best, proven, is_last;
} vram__spill;

static uint64_t vram__spill_room(uint64_t n) { return (n + 15) & ~UINT64_C(15); }

VRAM_API uint64_t vram_arena_spill_bytes(uint32_t n, const vram_arena_options *o) {
  const uint64_t each = 4 * sizeof(uint64_t) + 4 * sizeof(uint32_t) + 3 + sizeof(vram_buffer);
  return vram__sum_or_overflow((uint64_t)n * each + UINT64_C(16) * 16, vram_arena_bytes(n, o));
}

/* More accesses for a byte; of equal ones the larger, then the earlier. */
static int vram__spill_before(const vram__spill *s, uint32_t i, uint32_t k) {
  const double x = (double)s->accesses[i] / (double)s->size[i],
               y = (double)s->accesses[k] / (double)s->size[k];
  if (x > y || y > x)
    return x > y;
  return s->size[i] != s->size[k] ? s->size[i] > s->size[k] : i < k;
}

/* Moments at which a buffer begins: what lives together does at one of those. */
static void vram__spill_moments(vram__spill *s) {
  uint32_t i, k, at, m = 0;
  for (i = 0; i < s->n; i++) {
    for (k = m; k && s->moment[k - 1] > s->b[i].begin; k--)
      ;
    if (k && s->moment[k - 1] == s->b[i].begin)
      continue;
    for (at = m++; at > k; at--)
      s->moment[at] = s->moment[at - 1];
    s->moment[k] = s->b[i].begin;
  }
  s->nmoment = m;
  for (i = 0; i < s->n; i++) {
    for (k = 0; s->moment[k] < s->b[i].begin; k++)
      ;
    s->first[i] = k;
    for (; k < m && s->moment[k] < s->b[i].end; k++)
      ;
    s->last[i] = k;
  }
}

/* The buffers that may be in this bank and are in none yet, in the order of the search. */
static void vram__spill_candidates(vram__spill *s, uint32_t bank) {
  uint32_t i, k;
  s->count = 0;
  for (i = 0; i < s->n; i++) {
    if (s->bank[i] != VRAM_ARENA_BANKS || !s->b[i].bytes ||
        (s->b[i].banks && !(s->b[i].banks >> bank & 1)) ||
        (s->capacity && s->size[i] > s->capacity))
      continue;
    for (k = s->count++; k && vram__spill_before(s, i, s->order[k - 1]); k--)
      s->order[k] = s->order[k - 1];
    s->order[k] = i;
  }
}

/* The least that is lost of the candidates from `at` on, whatever is chosen. */
static double vram__spill_loss(vram__spill *s, uint32_t at) {
  double most = 0;
  uint32_t m, k;
  for (m = 0; m < s->nmoment; m++) {
    uint64_t room = s->capacity - s->used[m];
    double loss = 0;
    for (k = at; k < s->count; k++) {
      const uint32_t i = s->order[k];
      if (m < s->first[i] || m >= s->last[i])
        continue;
      if (s->size[i] <= room)
        room -= s->size[i];
      else {
        loss += (double)s->accesses[i] * (double)(s->size[i] - room) / (double)s->size[i];
        room = 0;
      }
    }
    if (loss > most)
      most = loss;
  }
  return most;
}

/* Plans what is chosen; 0: it does not fit. */
static int vram__spill_plan(vram__spill *s, vram_arena *a, vram_error *err) {
  vram_arena_options o = s->o;
  uint32_t i, k, n = 0;
  for (k = 0; k < s->count; k++) {
    i = s->order[k];
    if (!s->is_in[i])
      continue;
    s->some[n] = s->b[i];
    s->some[n].banks = 0;
    s->some[n].bank = 0;
    s->from[n++] = i;
  }
  vram__memory_zero(a, sizeof *a);
  a->proven = !n;
  o.nbank = 1;
  o.capacity[0] = s->is_last ? s->capacity : 0;
  if (!s->is_last) { /* one that fits will do */
    o.enough_bytes = s->capacity;
    o.nodes = VRAM__SPILL_NODES;
  }
  if (n && vram_arena_plan(s->some, n, &o, s->plan, s->plan_bytes, a, err))
    return 0;
  return s->is_last || a->height_bytes <= s->capacity;
}

/* What is chosen, and has just been planned, is the best. */
static void vram__spill_keep(vram__spill *s) {
  uint32_t i, k;
  s->has_best = 1;
  s->best_value = s->value;
  for (i = 0; i < s->n; i++)
    s->best[i] = s->is_in[i];
  for (i = 0, k = 0; i < s->count; i++) /* `some` is in the order of the candidates */
    if (s->is_in[s->order[i]])
      s->offset[s->order[i]] = s->some[k++].offset;
}

static void vram__spill_leaf(vram__spill *s) {
  vram_arena a;
  if (s->has_best && s->value <= s->best_value)
    return;
  s->left -= s->left < VRAM__SPILL_NODES ? s->left : VRAM__SPILL_NODES;
  if (!vram__spill_plan(s, &a, NULL)) {
    s->proven &= a.proven || a.lower_bound_bytes > s->capacity; /* or its search has just ended */
    return;
  }
  vram__spill_keep(s);
}

/* Takes buffer i in or out; 0: there is no room for it. */
static int vram__spill_put(vram__spill *s, uint32_t i, int in) {
  uint32_t m;
  for (m = s->first[i]; in && m < s->last[i]; m++)
    if (s->size[i] > s->capacity - s->used[m])
      return 0;
  for (m = s->first[i]; m < s->last[i]; m++)
    s->used[m] = in ? s->used[m] + s->size[i] : s->used[m] - s->size[i];
  s->is_in[i] = (uint8_t)in;
  s->value = in ? s->value + s->accesses[i] : s->value - s->accesses[i];
  return 1;
}

/* Can the candidates from `at` on make more of it than the best has? */
static int vram__spill_hopes(vram__spill *s, uint32_t at) {
  const uint64_t work = (uint64_t)(s->count - at + 1) * (s->nmoment + 1);
  const double best = (double)s->best_value;
  double hope = (double)s->value;
  uint32_t k;
  if (s->left < work) {
    s->left = 0;
    s->proven = 0;
    return 0;
  }
  s->left -= work;
  if (!s->has_best)
    return 1;
  for (k = at; k < s->count; k++)
    hope += (double)s->accesses[s->order[k]];
  hope -= vram__spill_loss(s, at);
  if (best > 1e12 && hope > best * (1 - 1e-12)) /* one access more is less than the margin */
    s->proven = 0;
  return hope > best * (1 + 1e-12);
}

/* One after the other, where the arena's search packs it. */
static void vram__spill_greedy(vram__spill *s) {
  vram_arena a;
  uint32_t k;
  for (k = 0; k < s->count; k++)
    if (vram__spill_put(s, s->order[k], 1)) {
      if (vram__spill_plan(s, &a, NULL))
        vram__spill_keep(s);
      else
        vram__spill_put(s, s->order[k], 0);
    }
}

/* The best set of one bank: in first, then out, from the first candidate to the last and back. */
static void vram__spill_search(vram__spill *s) {
  uint32_t at = 0;
  int back = 0;
  vram__memory_zero(s->used, s->n * sizeof *s->used);
  vram__memory_zero(s->is_in, s->n);
  vram__memory_zero(s->best, s->n);
  s->value = s->best_value = 0;
  s->has_best = 0;
  for (;;) {
    if (!back && at == s->count) {
      vram__spill_leaf(s);
      back = 1;
    } else if (!back && !vram__spill_hopes(s, at))
      back = 1;
    else if (!back) {
      vram__spill_put(s, s->order[at], 1);
      at++;
    }
    while (back) {
      if (!at) {
        if (!s->has_best) /* its work ended before anything was packed */
          vram__spill_greedy(s);
        return;
      }
      at--;
      if (s->is_in[s->order[at]]) { /* now without it */
        vram__spill_put(s, s->order[at], 0);
        at++;
        back = 0;
      }
    }
  }
}

static void *vram__spill_take(uint8_t **at, uint64_t bytes) {
  void *const p = *at;
  *at += vram__spill_room(bytes);
  return p;
}

static vram_result vram__spill_begin(vram__spill *s, uint8_t *at, const uint8_t *end) {
  const uint32_t n = s->n;
  uint32_t i;
  s->some = (vram_buffer *)vram__spill_take(&at, n * sizeof *s->some);
  s->size = (uint64_t *)vram__spill_take(&at, n * sizeof *s->size);
  s->used = (uint64_t *)vram__spill_take(&at, n * sizeof *s->used);
  s->moment = (uint64_t *)vram__spill_take(&at, n * sizeof *s->moment);
  s->offset = (uint64_t *)vram__spill_take(&at, n * sizeof *s->offset);
  s->order = (uint32_t *)vram__spill_take(&at, n * sizeof *s->order);
  s->first = (uint32_t *)vram__spill_take(&at, n * sizeof *s->first);
  s->last = (uint32_t *)vram__spill_take(&at, n * sizeof *s->last);
  s->from = (uint32_t *)vram__spill_take(&at, n * sizeof *s->from);
  s->is_in = (uint8_t *)vram__spill_take(&at, n);
  s->best = (uint8_t *)vram__spill_take(&at, n);
  s->bank = (uint8_t *)vram__spill_take(&at, n);
  s->plan = at;
  s->plan_bytes = (uint64_t)(end - at);
  for (i = 0; i < n; i++) {
    const uint64_t align = s->b[i].align ? s->b[i].align : s->o.align ? s->o.align : 1;
    if (s->b[i].pinned || s->b[i].begin >= s->b[i].end || s->b[i].bytes > VRAM_MAX_BYTES / 2)
      return VRAM_ERR_VALUE;
    s->size[i] = (s->b[i].bytes + align - 1) & ~(align - 1);
    s->size[i] += !s->size[i];
    s->bank[i] = VRAM_ARENA_BANKS;
  }
  vram__spill_moments(s);
  return VRAM_OK;
}

/* All that may be in the last bank, or in one without a limit; *height: what it would take there.
 */
static vram_result vram__spill_rest(vram__spill *s, uint64_t *bound, uint64_t *height,
                                    vram_error *err) {
  vram_arena a;
  uint32_t i;
  vram__memory_zero(s->is_in, s->n);
  for (i = 0; i < s->count; i++)
    s->is_in[s->order[i]] = 1;
  if (!vram__spill_plan(s, &a, err)) {
    *height = a.height_bytes;
    return err && err->code ? err->code : VRAM_ERR_LIMIT;
  }
  vram__spill_keep(s);
  s->proven &= a.proven;
  *bound = a.lower_bound_bytes;
  return VRAM_OK;
}

/* What goes into this bank; how many buffers are in none yet. */
static uint32_t vram__spill_settle(vram__spill *s, uint32_t bank, vram_arena *arena) {
  uint32_t i, left = 0;
  for (i = 0; i < s->n; i++) {
    if (s->bank[i] != VRAM_ARENA_BANKS || !s->b[i].bytes)
      continue;
    if (!s->best[i]) {
      left++;
      continue;
    }
    s->bank[i] = (uint8_t)bank;
    if (s->offset[i] + s->b[i].bytes > arena->bank_bytes[bank])
      arena->bank_bytes[bank] = s->offset[i] + s->b[i].bytes;
  }
  return left;
}

VRAM_API vram_result vram_arena_spill(vram_buffer *b, const uint64_t *accesses, uint32_t n,
                                      const vram_arena_options *o, void *scratch,
                                      uint64_t scratch_bytes, vram_arena *arena, vram_error *err) {
  vram__spill s;
  vram_result bad;
  uint64_t bound = 0;
  uint32_t i, bank, left = 1;
  vram__error_clear(err);
  vram__memory_zero(&s, sizeof s);
  vram__memory_zero(arena, sizeof *arena);
  s.b = b;
  s.accesses = accesses;
  s.n = n;
  s.o = *o;
  s.proven = 1;
  if (!o->nbank || o->nbank > VRAM_ARENA_BANKS)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "no banks, or more than VRAM_ARENA_BANKS");
  if (scratch_bytes < vram_arena_spill_bytes(n, o) || !scratch)
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0, "scratch is too small");
  if (vram__spill_begin(&s, (uint8_t *)scratch, (uint8_t *)scratch + scratch_bytes))
    return vram__error_begin(err, VRAM_ERR_VALUE, 0,
                             "a buffer that is pinned, too large, or ends before it begins");
  for (bank = 0; bank < o->nbank && left; bank++) {
    s.capacity = o->capacity[bank];
    s.left = VRAM__SPILL_WORK;
    s.is_last = bank + 1 == o->nbank || !s.capacity;
    vram__spill_candidates(&s, bank);
    if (!s.is_last)
      vram__spill_search(&s);
    else if ((bad = vram__spill_rest(&s, &bound, arena->bank_bytes + bank, err)) != VRAM_OK)
      return bad;
    left = vram__spill_settle(&s, bank, arena);
  }
  for (i = 0; i < n; i++)
    if (b[i].bytes && s.bank[i] == VRAM_ARENA_BANKS)
      return vram__error_begin(err, VRAM_ERR_LIMIT, (uint64_t)i + 1, "a buffer fits no bank");
  for (i = 0; i < n; i++) {
    b[i].bank = b[i].bytes ? s.bank[i] : 0;
    b[i].offset = b[i].bytes ? s.offset[i] : 0;
  }
  arena->height_bytes = arena->bank_bytes[0];
  arena->lower_bound_bytes = bound;
  arena->proven = s.proven;
  return VRAM_OK;
}
