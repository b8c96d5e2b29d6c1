/* >>plan/bind    a schedule bound to an arena
   A binding plays the moves once: every tensor that comes to be is a buffer, which ends with the
   move that gives it up. */
#include "plan/plan.h"

VRAM_API const char *vram_hold_name(uint32_t hold) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_HOLDS(VRAM__X)
#undef VRAM__X
  };
  return hold < VRAM_HOLD_COUNT ? name[hold] : "?";
}

#define VRAM__EMPTY UINT32_MAX /* a tensor of no bytes that is there */

/* of stage i and xi: 1 + which buffer it is now, VRAM__EMPTY, 0: not there */
typedef struct vram__bind_stage {
  uint32_t x, saved, gradient;
  uint32_t x_host, saved_host;
  uint32_t x_fetch, saved_fetch; /* 1 + the FETCH that brings it, as long as nobody waited */
  uint32_t runs, again;
  uint8_t way, kept; /* kept: SAVE is over, BACKWARD is not; x(i+1) is its */
} vram__bind_stage;

typedef struct vram__bind {
  const vram_chain *c;
  vram_bound_move *move;
  vram__bind_stage *stage; /* nstage + 1 */
  vram_buffer *buffer, *host;
  vram_holding *holding, *host_holding;
  uint8_t *replay;
  uint32_t nmove, at, nbuffer, nhost, noffload, nfetch, nagain;
} vram__bind;

/* A tensor that begins with this move: 1 + its buffer. */
static uint32_t vram__bind_new(vram__bind *q, vram_hold hold, uint32_t stage, uint64_t bytes) {
  vram_buffer *b = q->buffer + q->nbuffer;
  if (!bytes)
    return VRAM__EMPTY;
  b->bytes = vram__chain_align(q->c, bytes);
  b->begin = q->at;
  b->align = q->c->align;
  q->holding[q->nbuffer].hold = (uint8_t)hold;
  q->holding[q->nbuffer].stage = stage;
  return ++q->nbuffer;
}

/* It ends with this move. */
static void vram__bind_end(vram__bind *q, uint32_t *which) {
  if (*which != VRAM__EMPTY) {
    q->buffer[*which - 1].end = (uint64_t)q->at + 1;
    q->holding[*which - 1].next = q->move[q->at].free;
    q->move[q->at].free = *which;
  }
  *which = 0;
}

static void vram__bind_temp(vram__bind *q, uint32_t stage, uint64_t bytes) {
  uint32_t temp = vram__bind_new(q, VRAM_HOLD_TEMPORARY, stage, bytes);
  q->move[q->at].temp = temp;
  vram__bind_end(q, &temp);
}

/* Until they have offsets, the fields of a bound move are what vram__bind_new gave. Reading one
   waits for the copy that brings it. */
static uint32_t vram__bind_read(vram__bind *q, uint32_t which, uint32_t *fetch) {
  if (*fetch > q->move[q->at].fetches)
    q->move[q->at].fetches = *fetch;
  *fetch = 0;
  return which;
}

static void vram__bind_forward(vram__bind *q, vram_bound_move *b) {
  const uint32_t i = b->move.stage;
  const vram_stage *stage = q->c->stage + i;
  vram__bind_stage *s = q->stage + i;
  uint64_t temp = stage->forward_temp_bytes;
  b->run = s->runs++;
  b->in = vram__bind_read(q, s->x, &s->x_fetch);
  b->out = s[1].x = vram__bind_new(q, VRAM_HOLD_ACTIVATION, i + 1, stage->output_bytes);
  if (b->move.kind == VRAM_MOVE_SAVE) {
    const vram_way *way = stage->way + b->move.way;
    b->saved = s->saved =
        vram__bind_new(q, VRAM_HOLD_SAVED, i, way->saved_bytes - stage->output_bytes);
    temp = way->forward_temp_bytes;
    s->way = b->move.way;
    s->kept = 1;
  }
  vram__bind_temp(q, i, temp);
  if (b->move.kind == VRAM_MOVE_DROP && !(i && s[-1].kept))
    vram__bind_end(q, &s->x);
}

static void vram__bind_backward(vram__bind *q, vram_bound_move *b) {
  const uint32_t i = b->move.stage;
  vram__bind_stage *s = q->stage + i;
  b->move.way = s->way;
  b->in = vram__bind_read(q, s->x, &s->x_fetch);
  b->out = vram__bind_read(q, s[1].x, &s[1].x_fetch);
  b->saved = vram__bind_read(q, s->saved, &s->saved_fetch);
  b->grad_out = s[1].gradient;
  b->grad_in = s->gradient = vram__bind_new(
      q, VRAM_HOLD_GRADIENT, i, i ? q->c->stage[i - 1].output_bytes : q->c->input_gradient_bytes);
  vram__bind_temp(q, i, q->c->stage[i].way[s->way].backward_temp_bytes);
  vram__bind_end(q, &s[1].gradient);
  vram__bind_end(q, &s->saved);
  vram__bind_end(q, &s[1].x);
  if (!(i && s[-1].kept))
    vram__bind_end(q, &s->x);
  s->kept = 0;
}

VRAM__FN int vram__bind_is_offload(const vram_move *m) {
  return m->kind == VRAM_MOVE_OFFLOAD || m->kind == VRAM_MOVE_OFFLOAD_SAVED;
}

VRAM__FN int vram__bind_of_saved(const vram_move *m) {
  return m->kind == VRAM_MOVE_OFFLOAD_SAVED || m->kind == VRAM_MOVE_FETCH_SAVED;
}

static void vram__bind_copy(vram__bind *q, vram_bound_move *b) {
  const uint32_t i = b->move.stage;
  const int saved = vram__bind_of_saved(&b->move);
  vram__bind_stage *s = q->stage + i;
  uint32_t *device = saved ? &s->saved : &s->x, *host = saved ? &s->saved_host : &s->x_host;
  uint32_t *fetch = saved ? &s->saved_fetch : &s->x_fetch;
  uint64_t *place = saved ? &b->saved : &b->in;
  b->bytes = saved ? q->c->stage[i].way[s->way].saved_bytes - q->c->stage[i].output_bytes
             : i   ? q->c->stage[i - 1].output_bytes
                   : q->c->input_bytes;
  if (vram__bind_is_offload(&b->move)) {
    *host = VRAM__EMPTY;
    if (b->bytes) {
      q->host[q->nhost] = q->buffer[*device - 1];
      q->host[q->nhost].begin = q->at;
      q->host_holding[q->nhost] = q->holding[*device - 1];
      *host = ++q->nhost;
      b->copy = q->noffload++;
    }
    b->host = *host;
    *place = vram__bind_read(q, *device, fetch);
    vram__bind_end(q, device);
  } else {
    *device = vram__bind_new(q,
                             saved ? VRAM_HOLD_SAVED
                             : i   ? VRAM_HOLD_ACTIVATION
                                   : VRAM_HOLD_INPUT,
                             i, b->bytes);
    if (b->bytes) {
      q->host[*host - 1].end = (uint64_t)q->at + 1;
      b->copy = q->nfetch++;
      *fetch = q->nfetch;
    }
    b->host = *host;
    *place = *device;
    *host = 0;
  }
}

static void vram__bind_play(vram__bind *q, const vram_move *move) {
  uint32_t i;
  q->stage[0].x = vram__bind_new(q, VRAM_HOLD_INPUT, 0, q->c->input_bytes);
  q->stage[q->c->nstage].gradient = VRAM__EMPTY; /* the loss's */
  for (q->at = 0; q->at < q->nmove; q->at++) {
    vram_bound_move *b = q->move + q->at;
    b->move = move[q->at];
    if (b->move.kind < VRAM_MOVE_BACKWARD)
      vram__bind_forward(q, b);
    else if (b->move.kind == VRAM_MOVE_BACKWARD)
      vram__bind_backward(q, b);
    else
      vram__bind_copy(q, b);
  }
  q->at = q->nmove - 1;
  vram__bind_end(q, &q->stage[0].gradient); /* lives to the end */
  for (i = 0; i < q->nmove; i++) {
    vram_bound_move *b = q->move + i;
    vram__bind_stage *s = q->stage + b->move.stage;
    if (b->move.kind >= VRAM_MOVE_BACKWARD)
      continue;
    b->runs = s->runs;
    if (s->runs > 1 && !s->again)
      s->again = ++q->nagain;
    b->again = s->again;
  }
}

static uint64_t vram__bind_place(const vram_buffer *b, uint64_t which) {
  return which && which != VRAM__EMPTY ? b[which - 1].offset : VRAM_NOWHERE;
}

static int vram__bind_bytes_meet(const vram_buffer *a, const vram_buffer *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The first function that writes into an OFFLOAD's bytes waits for it. */
static void vram__bind_after_offload(vram__bind *q, const vram_bound_move *o, uint32_t at,
                                     const vram_buffer *from) {
  uint32_t low = 0, high = q->nbuffer;
  while (low < high) { /* the first that begins behind it */
    const uint32_t k = low + (high - low) / 2;
    if (q->buffer[k].begin > at)
      high = k;
    else
      low = k + 1;
  }
  for (; low < q->nbuffer; low++) {
    vram_bound_move *m = q->move + q->buffer[low].begin;
    if (m->move.kind > VRAM_MOVE_BACKWARD || !vram__bind_bytes_meet(from, q->buffer + low))
      continue;
    m->offloads = o->copy + 1;
    return;
  }
}

/* A FETCH may begin when its copy is on the host and nobody uses its bytes any more, neither a
   function nor a copy to the host; not before those that are needed sooner. */
static void vram__bind_early(vram__bind *q, vram_bound_move *f, uint32_t to, uint32_t before) {
  const uint64_t begin = q->host[f->host - 1].begin;
  uint32_t k;
  f->early = begin > before ? (uint32_t)begin : before;
  f->offloads = q->move[begin].copy + 1;
  for (k = 0; k < to; k++) {
    const vram_bound_move *last = q->move + (q->buffer[k].end - 1);
    if (!vram__bind_bytes_meet(q->buffer + to, q->buffer + k))
      continue;
    if (q->buffer[k].end - 1 > f->early)
      f->early = (uint32_t)(q->buffer[k].end - 1);
    if (vram__bind_is_offload(&last->move) && f->offloads <= last->copy)
      f->offloads = last->copy + 1;
  }
}

static void vram__bind_copies(vram__bind *q) {
  uint32_t i, k, before = 0;
  for (i = 0; i < q->nmove; i++) {
    vram_bound_move *b = q->move + i;
    const uint32_t device = (uint32_t)(vram__bind_of_saved(&b->move) ? b->saved : b->in) - 1;
    if (!b->bytes)
      continue;
    if (vram__bind_is_offload(&b->move)) {
      vram__bind_after_offload(q, b, i, q->buffer + device);
      for (k = 0; k + 1 < b->host; k++) { /* host bytes that a FETCH still reads */
        const vram_bound_move *f = q->move + (q->host[k].end - 1);
        if (q->host[k].end <= i && b->fetches <= f->copy &&
            vram__bind_bytes_meet(q->host + k, q->host + b->host - 1))
          b->fetches = f->copy + 1;
      }
    } else {
      vram__bind_early(q, b, device, before);
      before = b->early;
    }
  }
}

static void vram__bind_offsets(vram__bind *q) {
  uint32_t i;
  for (i = 0; i < q->nmove; i++) {
    vram_bound_move *b = q->move + i;
    b->in = vram__bind_place(q->buffer, b->in);
    b->out = vram__bind_place(q->buffer, b->out);
    b->saved = vram__bind_place(q->buffer, b->saved);
    b->grad_out = vram__bind_place(q->buffer, b->grad_out);
    b->grad_in = vram__bind_place(q->buffer, b->grad_in);
    b->temp = vram__bind_place(q->buffer, b->temp);
    b->host = vram__bind_place(q->host, b->host);
    if (b->bytes && b->move.kind >= VRAM_MOVE_FETCH)
      b->copy += q->noffload;
  }
}

/* Parts of the scratch; p NULL: only how many bytes. */
static uint64_t vram__bind_parts(vram__bind *q, uint8_t *p, const vram_chain *c, uint32_t nmove) {
  const uint64_t device = (uint64_t)nmove * 3 + 1;
  uint64_t n = 0;
#define VRAM__PARTS(X)                                                                             \
  X(move, vram_bound_move, nmove)                                                                  \
  X(buffer, vram_buffer, device)                                                                   \
  X(host, vram_buffer, nmove)                                                                      \
  X(holding, vram_holding, device)                                                                 \
  X(host_holding, vram_holding, nmove)                                                             \
  X(stage, vram__bind_stage, (uint64_t)c->nstage + 1)                                              \
  X(replay, uint8_t, vram_schedule_verify_bytes(c))
#define VRAM__X(field, type, count)                                                                \
  if (p)                                                                                           \
    q->field = (type *)(void *)(p + n);                                                            \
  n += ((count) * sizeof(type) + 15) / 16 * 16;
  VRAM__PARTS(VRAM__X)
#undef VRAM__X
#undef VRAM__PARTS
  return n;
}

VRAM_API uint64_t vram_schedule_bind_bytes(const vram_chain *c, uint32_t nmove,
                                           const vram_arena_options *o) {
  uint64_t arena;
  if (nmove > (UINT32_MAX - 2) / 3)
    return VRAM_OVERFLOW;
  arena = vram_arena_bytes(nmove * 3 + 1, o);
  return vram__sum_or_overflow(vram__bind_parts(NULL, NULL, c, nmove) + 15, arena);
}

/* What the caller gets of what was bound. */
static void vram__bind_result(const vram__bind *q, vram_binding *binding) {
  uint32_t i;
  binding->move = q->move;
  binding->nmove = q->nmove;
  binding->arena_bytes = binding->arena.height_bytes;
  binding->input = q->c->input_bytes ? q->buffer[0].offset : VRAM_NOWHERE;
  for (i = 0; i < q->nmove; i++)
    if (q->move[i].move.kind == VRAM_MOVE_BACKWARD && !q->move[i].move.stage)
      binding->input_gradient = q->move[i].grad_in;
  binding->buffer = q->buffer;
  binding->holding = q->holding;
  binding->nbuffer = q->nbuffer;
  binding->host = q->host;
  binding->host_holding = q->host_holding;
  binding->nhost = q->nhost;
  binding->noffload = q->noffload;
  binding->nfetch = q->nfetch;
  binding->nagain = q->nagain;
}

VRAM_API vram_result vram_schedule_bind(const vram_chain *c, const vram_move *move, uint32_t nmove,
                                        const vram_arena_options *o, void *scratch,
                                        uint64_t scratch_bytes, vram_binding *binding,
                                        vram_error *err) {
  const uint64_t need = vram_schedule_bind_bytes(c, nmove, o);
  uint8_t *p = (uint8_t *)scratch;
  uint64_t parts, rest;
  vram_arena_options options, host_options;
  vram_arena host;
  vram_schedule_count count;
  vram__bind q;
  vram_result r;
  vram__memory_zero(&options, sizeof options);
  vram__memory_zero(&q, sizeof q);
  vram__memory_zero(binding, sizeof *binding);
  vram__error_clear(err);
  if (o)
    options = *o;
  if (options.nbank > 1)
    return vram__error_begin(err, VRAM_ERR_UNSUPPORTED, 0, "a schedule runs in one bank");
  if (need == VRAM_OVERFLOW)
    return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "too many moves");
  if (!scratch || scratch_bytes < need)
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0,
                             "the scratch is too small (expected vram_schedule_bind_bytes)");
  p += (16 - ((uintptr_t)p & 15)) & 15;
  parts = vram__bind_parts(&q, p, c, nmove);
  vram__memory_zero(p, parts);
  rest = scratch_bytes - 15 - parts;
  q.c = c;
  q.nmove = nmove;
  r = vram_schedule_verify(c, move, nmove, q.replay, vram_schedule_verify_bytes(c), &count, err);
  if (r)
    return r;
  vram__bind_play(&q, move);
  vram__memory_zero(&host, sizeof host);
  host_options = options;
  vram__memory_zero(host_options.capacity, sizeof host_options.capacity);
  host_options.enough_bytes = 0;
  r = vram_arena_plan(q.buffer, q.nbuffer, &options, p + parts, rest, &binding->arena, err);
  if (!r && q.nhost)
    r = vram_arena_plan(q.host, q.nhost, &host_options, p + parts, rest, &host, err);
  if (r)
    return r;
  vram__bind_copies(&q);
  vram__bind_offsets(&q);
  vram__bind_result(&q, binding);
  binding->peak_bytes = count.peak_bytes - c->static_bytes;
  binding->host_bytes = host.height_bytes;
  return VRAM_OK;
}

static void vram__binding_event(const vram_chain *c, const vram_buffer *b, const vram_holding *h,
                                uint64_t base, vram_event *e) {
  static const vram_category category[] = {VRAM_CATEGORY_INPUTS, VRAM_CATEGORY_ACTIVATIONS,
                                           VRAM_CATEGORY_ACTIVATIONS, VRAM_CATEGORY_TEMPORARIES,
                                           VRAM_CATEGORY_WORKSPACE};
  const uint32_t made = h->hold == VRAM_HOLD_ACTIVATION ? h->stage - 1 : h->stage;
  e->category = e->was = category[h->hold];
  e->bytes = b->bytes;
  e->address = base ? base + b->offset : 0;
  e->node = c->stage[made].first;
}

VRAM_API void vram_binding_events(const vram_chain *c, const vram_binding *b, uint64_t arena,
                                  uint64_t host, void (*event)(void *user, const vram_event *e),
                                  void *user) {
  uint32_t i, k = 0, j, at_host = 0;
  vram_event e;
  vram__memory_zero(&e, sizeof e);
  e.phase = VRAM_PHASE_FORWARD;
  for (i = 0; i < b->nmove; i++) {
    const vram_bound_move *m = b->move + i;
    if (m->move.kind == VRAM_MOVE_BACKWARD)
      e.phase = VRAM_PHASE_BACKWARD;
    e.action = VRAM_ACTION_ALLOC;
    for (; k < b->nbuffer && b->buffer[k].begin == i; k++) {
      vram__binding_event(c, b->buffer + k, b->holding + k, arena, &e);
      e.id = k;
      event(user, &e);
    }
    e.device = (uint8_t)VRAM_DEVICE_HOST;
    for (; at_host < b->nhost && b->host[at_host].begin == i; at_host++) {
      vram__binding_event(c, b->host + at_host, b->host_holding + at_host, host, &e);
      e.id = (int64_t)b->nbuffer + at_host;
      event(user, &e);
    }
    e.action = VRAM_ACTION_FREE;
    for (j = 0; m->move.kind >= VRAM_MOVE_FETCH && j < b->nhost; j++)
      if (b->host[j].end == (uint64_t)i + 1) {
        vram__binding_event(c, b->host + j, b->host_holding + j, host, &e);
        e.id = (int64_t)b->nbuffer + j;
        event(user, &e);
      }
    e.device = 0;
    for (j = m->free; j; j = b->holding[j - 1].next) {
      vram__binding_event(c, b->buffer + j - 1, b->holding + j - 1, arena, &e);
      e.id = (int64_t)j - 1;
      event(user, &e);
    }
  }
}
