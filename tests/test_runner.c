/* >>runner: gradients of scheduled runs equal those of plain runs bit for bit, whatever is dropped,
   computed again or copied to the host; every buffer keeps to its bytes and its time; whatever
   fails, fails cleanly. The plain run uses no part of the library. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include "../vram.h"
#include "moves.h"
#include "test.h"

/* ---- a net: dense layers with relu and dropout, at last a loss */

enum { WIDTH = 6, BATCH = 3, FLOATS = WIDTH * BATCH };

/* ways of a layer: keep the mask; keep nothing and draw it again; keep more than is needed */
enum { MASK, AGAIN, MORE, WAYS };

typedef struct net {
  vram_stage stage[STAGES];
  vram_way way[STAGES][WAYS];
  vram_chain chain;
  uint32_t n, batch, width[STAGES + 1];
  int stateful; /* random numbers from a generator with a state, not from the call's key */
  float weight[STAGES][WIDTH * WIDTH], gradient[STAGES][WIDTH * WIDTH];
  float x0[FLOATS], gradient_x0[FLOATS];
  uint64_t state;
} net;

static uint32_t floats(const net *t, uint32_t i) { return t->batch * t->width[i]; }

/* y = relu(W x) * mask; `sums` is W x */
static __attribute__((noinline)) void layer_forward(const net *t, uint32_t i, uint64_t *random,
                                                    const float *x, float *y, float *mask,
                                                    float *sums) {
  const uint32_t in = t->width[i], out = t->width[i + 1];
  uint32_t b, j, k;
  for (b = 0; b < t->batch; b++)
    for (j = 0; j < out; j++) {
      float sum = 0, m = splitmix(random) >> 62 ? 1.25f : 0;
      for (k = 0; k < in; k++)
        sum += t->weight[i][j * in + k] * x[b * in + k];
      sums[b * out + j] = sum;
      y[b * out + j] = sum > 0 ? sum * m : sum * m * 0.25f;
      if (mask)
        mask[b * out + j] = m;
    }
}

static __attribute__((noinline)) void layer_backward(const net *t, uint32_t i, const float *x,
                                                     const float *y, const float *mask,
                                                     const float *gy, float *gx, float *gs,
                                                     float *gw) {
  const uint32_t in = t->width[i], out = t->width[i + 1];
  uint32_t b, j, k;
  for (j = 0; j < floats(t, i + 1); j++)
    gs[j] = y[j] > 0 ? gy[j] * mask[j] : gy[j] * mask[j] * 0.25f;
  for (b = 0; b < t->batch; b++)
    for (j = 0; j < out; j++)
      for (k = 0; k < in; k++)
        gw[j * in + k] += gs[b * out + j] * x[b * in + k];
  for (b = 0; gx && b < t->batch; b++)
    for (k = 0; k < in; k++) {
      float sum = 0;
      for (j = 0; j < out; j++)
        sum += gs[b * out + j] * t->weight[i][j * in + k];
      gx[b * in + k] = sum;
    }
}

/* half the square of what is in excess of 1, saved as `excess` */
static __attribute__((noinline)) void loss_forward(uint32_t n, const float *x, float *excess) {
  uint32_t i;
  for (i = 0; i < n; i++)
    excess[i] = x[i] - 1;
}
static __attribute__((noinline)) void loss_backward(uint32_t n, const float *excess, float *gx) {
  uint32_t i;
  for (i = 0; i < n; i++)
    gx[i] = excess[i] * 0.5f;
}

static void make_net(net *t) {
  uint32_t i, k;
  memset(t, 0, sizeof *t);
  t->n = 1 + below(STAGES);
  t->batch = 1 + below(BATCH);
  t->stateful = below(2) == 0;
  t->state = splitmix(&seed);
  for (i = 0; i < t->n; i++)
    t->width[i] = 1 + below(WIDTH);
  for (i = 0; i < t->n; i++) {
    vram_stage *s = &t->stage[i];
    const uint64_t out = i + 1 < t->n ? (uint64_t)floats(t, i + 1) * 4 : 0;
    s->name = below(2) ? "layer" : NULL;
    s->output_bytes = out;
    s->forward_cost = 1 + below(9);
    s->forward_temp_bytes = out;
    s->way = t->way[i];
    s->nway = i + 1 < t->n ? (t->stateful ? 1 : 1 + below(WAYS)) : 1;
    for (k = 0; k < s->nway; k++) {
      vram_way *w = &t->way[i][k];
      w->saved_bytes = out + (k == MASK ? out : k == MORE ? out + 12 : 0);
      w->forward_temp_bytes = out;
      w->backward_temp_bytes = out * (k == AGAIN ? 2 : 1);
      w->forward_cost = s->forward_cost;
      w->backward_cost = 1 + below(19);
    }
    if (i + 1 == t->n) { /* the loss */
      t->way[i][0].saved_bytes = (uint64_t)floats(t, i) * 4;
      t->way[i][0].forward_temp_bytes = 4;
    }
    for (k = 0; k < WIDTH * WIDTH; k++)
      t->weight[i][k] = (float)((int)below(2001) - 1000) / 700;
  }
  for (k = 0; k < FLOATS; k++)
    t->x0[k] = (float)((int)below(2001) - 1000) / 500;
  t->chain.stage = t->stage;
  t->chain.nstage = t->n;
  t->chain.input_bytes = (uint64_t)floats(t, 0) * 4;
  t->chain.input_gradient_bytes = below(3) ? t->chain.input_bytes : 0;
  t->chain.static_bytes = below(1000);
  t->chain.align = UINT64_C(4) << 2 * below(4);
}

static uint64_t key_of(uint64_t run_seed, uint32_t stage) { /* as vram.h says it, written again */
  uint64_t x = run_seed, round;
  for (round = 0; round < 2; round++) {
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    x ^= x >> 33;
    if (!round)
      x += UINT64_C(0x9e3779b97f4a7c15) * (stage + 1);
  }
  return x;
}

/* Every tensor in memory of its own. */
static void run_plain(net *t, uint64_t run_seed) {
  float *x[STAGES + 1], *mask[STAGES + 1], *g[STAGES + 1], *temp = malloc(FLOATS * sizeof *temp);
  uint32_t i;
  for (i = 0; i <= t->n; i++) {
    x[i] = malloc(FLOATS * sizeof **x);
    mask[i] = malloc(FLOATS * sizeof **mask);
    g[i] = malloc(FLOATS * sizeof **g);
  }
  memcpy(x[0], t->x0, FLOATS * sizeof **x);
  memset(t->gradient, 0, sizeof t->gradient);
  for (i = 0; i + 1 < t->n; i++) {
    uint64_t key = key_of(run_seed, i);
    layer_forward(t, i, t->stateful ? &t->state : &key, x[i], x[i + 1], mask[i], temp);
  }
  loss_forward(floats(t, t->n - 1), x[t->n - 1], mask[t->n - 1]);
  loss_backward(floats(t, t->n - 1), mask[t->n - 1], g[t->n - 1]);
  for (i = t->n - 1; i--;)
    layer_backward(t, i, x[i], x[i + 1], mask[i], g[i + 1], g[i], temp, t->gradient[i]);
  memcpy(t->gradient_x0, g[0], floats(t, 0) * sizeof **g);
  for (i = 0; i <= t->n; i++) {
    free(x[i]);
    free(mask[i]);
    free(g[i]);
  }
  free(temp);
}

/* ---- copies that go on behind the program's back: each direction is a queue, and what a copy has
   to wait for is done before it. Lazy: only when somebody waits. Eager: as soon as they begin */

enum { LAZY, EAGER, MIXED };

typedef struct transfer {
  void *to;
  const void *from;
  uint64_t bytes;
  uint32_t after[2]; /* so many copies of each direction before it */
} transfer;

typedef struct queues {
  transfer copy[2][MOVES];
  uint32_t begun[2], done[2], noffload;
  uint32_t after[2], by; /* told for the copy that begins next */
  int mode;
} queues;

static void drain(queues *q, uint32_t direction, uint32_t to) {
  while (q->done[direction] < to) {
    const transfer *c = &q->copy[direction][q->done[direction]];
    drain(q, !direction, c->after[!direction]);
    memcpy(c->to, c->from, (size_t)c->bytes);
    q->done[direction]++;
  }
}

/* ---- a run */

typedef struct run {
  net *t;
  const vram_binding *b;
  queues queue;
  uint8_t *arena, *shadow;
  float gradient[STAGES][WIDTH * WIDTH];
  uint32_t calls, fail_at, after; /* calls so far; the one that fails; calls behind that */
  uint32_t done;
  uint64_t state, state_before; /* before the forward that runs now */
  uint32_t spoil;               /* this forward computes something else; 0: none */
  uint32_t forwards;
  int guard, failed, in_rerun;
} run;

static int count(run *r, int cleanup) {
  if (r->failed && !cleanup)
    r->after++;
  if (++r->calls != r->fail_at)
    return 0;
  r->failed = 1;
  return 1000 + (int)r->calls;
}

static int forward(void *user, const vram_call *c) {
  run *r = user;
  const net *t = r->t;
  uint64_t key = c->key;
  const int gave = count(r, 0);
  float *mask = c->save && c->way != AGAIN ? c->saved : NULL;
  r->forwards++;
  if (gave)
    return gave;
  if (c->stage + 1 == t->n) {
    if (c->save)
      loss_forward(floats(t, c->stage), c->in, c->saved);
    return 0;
  }
  layer_forward(t, c->stage, t->stateful ? &r->state : &key, c->in, c->out, mask, c->temp);
  if (c->save && c->way == MORE)
    memset((float *)c->saved + floats(t, c->stage + 1), 1, 12);
  if (r->forwards == r->spoil)
    *(float *)c->out += 1;
  return 0;
}

static int backward(void *user, const vram_call *c) {
  run *r = user;
  const net *t = r->t;
  const uint32_t n = floats(t, c->stage + 1);
  const float *mask = c->saved;
  float *temp = c->temp;
  const int gave = count(r, 0);
  uint64_t key = c->key;
  uint32_t i;
  if (gave)
    return gave;
  if (c->stage + 1 == t->n) {
    if (c->grad_in)
      loss_backward(floats(t, c->stage), c->saved, c->grad_in);
    return 0;
  }
  if (c->way == AGAIN) {
    for (i = 0; i < n; i++)
      temp[n + i] = splitmix(&key) >> 62 ? 1.25f : 0;
    mask = temp + n;
  }
  layer_backward(t, c->stage, c->in, c->out, mask, c->grad_out, c->grad_in, temp,
                 r->gradient[c->stage]);
  return 0;
}

static int random_get(void *user, void *state) {
  run *r = user;
  const int gave = count(r, 0);
  if (!gave)
    memcpy(state, &r->state, sizeof r->state);
  r->state_before = r->state;
  return gave;
}
static int random_set(void *user, const void *state) {
  run *r = user;
  const int gave = count(r, r->in_rerun);
  if (!gave) {
    memcpy(&r->state, state, sizeof r->state);
    r->in_rerun = !r->in_rerun;
  }
  return gave;
}

static int begin_copy(run *r, uint32_t direction, uint32_t number, void *to, const void *from,
                      uint64_t bytes) {
  queues *q = &r->queue;
  transfer *c = &q->copy[direction][q->begun[direction]];
  const int gave = count(r, 0);
  if (gave)
    return gave;
  CHECK(number == q->begun[direction] + (direction ? q->noffload : 0));
  memset(c, 0, sizeof *c);
  c->to = to;
  c->from = from;
  c->bytes = bytes;
  if (q->by == number)
    memcpy(c->after, q->after, sizeof c->after);
  else
    CHECK(q->by == VRAM_NO_COPY);
  memset(q->after, 0, sizeof q->after);
  q->by = VRAM_NO_COPY;
  q->begun[direction]++;
  if (q->mode == EAGER || (q->mode == MIXED && below(2)))
    drain(q, direction, q->begun[direction]);
  return 0;
}
static int offload(void *user, uint32_t copy, void *host, const void *device, uint64_t bytes) {
  return begin_copy(user, 0, copy, host, device, bytes);
}
static int fetch(void *user, uint32_t copy, void *device, const void *host, uint64_t bytes) {
  return begin_copy(user, 1, copy, device, host, bytes);
}
static int wait_for(void *user, uint32_t copy, uint32_t next) {
  run *r = user;
  queues *q = &r->queue;
  const int gave = count(r, r->failed);
  const uint32_t direction = copy >= q->noffload;
  const uint32_t to = copy - (direction ? q->noffload : 0) + 1;
  if (gave)
    return gave;
  CHECK(to <= q->begun[direction]);
  if (next == VRAM_NO_COPY)
    drain(q, direction, to);
  else {
    CHECK(q->by == VRAM_NO_COPY || q->by == next);
    q->by = next;
    q->after[direction] = to;
  }
  return 0;
}

static int hash(void *user, const void *data, uint64_t bytes, uint64_t *to) {
  const int gave = count(user, 0);
  return gave ? gave : vram_chain_hash(NULL, data, bytes, to);
}

/* Whose bytes may change with move k, and whose are alive when it is over. */
static int holds(const vram_binding *b, uint32_t k, uint32_t i) {
  const vram_buffer *p = &b->buffer[i];
  const vram_bound_move *m = &b->move[p->begin];
  return p->begin <= k ? p->end > k : m->move.kind >= VRAM_MOVE_FETCH && m->early <= k;
}
static int written(const vram_binding *b, uint32_t k, uint32_t i) {
  const vram_buffer *p = &b->buffer[i];
  const vram_bound_move *m = &b->move[p->begin];
  return m->move.kind >= VRAM_MOVE_FETCH ? m->early <= k && p->begin >= k : p->begin == k;
}

/* Nothing may have changed but what this move writes; what is dead gets a pattern. */
static void progress(void *user, uint32_t done, uint32_t moves) {
  run *r = user;
  const vram_binding *b = r->b;
  uint32_t i;
  uint64_t at;
  EQUAL(done, ++r->done);
  CHECK(moves == b->nmove);
  if (!r->guard)
    return;
  for (i = 0; i < b->nbuffer; i++) /* the shadow is what is to be */
    if (written(b, done - 1, i))
      memcpy(r->shadow + b->buffer[i].offset, r->arena + b->buffer[i].offset,
             (size_t)b->buffer[i].bytes);
  CHECK(!memcmp(r->shadow, r->arena, (size_t)b->arena_bytes));
  if (done == moves)
    return;
  memset(r->shadow, (int)(0xa0 + done % 16), (size_t)b->arena_bytes);
  for (i = 0; i < b->nbuffer; i++)
    if (holds(b, done, i) && (b->buffer[i].begin < done || holds(b, done - 1, i)))
      memcpy(r->shadow + b->buffer[i].offset, r->arena + b->buffer[i].offset,
             (size_t)b->buffer[i].bytes);
  for (at = 0; at < b->arena_bytes; at++)
    r->arena[at] = r->shadow[at];
}

enum { KEYED = 1, GUARD = 2, HASH = 4, QUEUES = 8, FORGET = 16 };

static uint64_t run_seed = 77;
static vram_error error;

static void runner_of(vram_runner *to, run *r, int how) {
  memset(to, 0, sizeof *to);
  to->forward = forward;
  to->backward = backward;
  to->progress = progress;
  to->user = to->copy_user = r;
  to->seed = run_seed;
  to->hash = how & HASH ? hash : NULL;
  if (r->t->stateful && !(how & FORGET)) {
    to->random_get = random_get;
    to->random_set = random_set;
    to->random_bytes = sizeof r->state;
  }
  if (how & QUEUES) {
    to->offload = offload;
    to->fetch = fetch;
    to->wait = wait_for;
  }
}

static void *memory(uint64_t bytes, uint64_t align) {
  void *p = NULL;
  return posix_memalign(&p, align < 8 ? 8 : (size_t)align, bytes ? (size_t)bytes : 1) ? NULL : p;
}

/* Runs the binding with an arena, host and work memory of exactly the bytes that it says. */
static vram_result run_it(run *r, int how, float *gradient_x0) {
  const vram_binding *b = r->b;
  net *t = r->t;
  vram_runner runner;
  uint8_t *host = memory(b->host_bytes, 8), *work, *shadow = memory(b->arena_bytes, 8);
  uint64_t n;
  vram_result result;
  runner_of(&runner, r, how);
  n = vram_chain_run_bytes(b, &runner);
  work = memory(n, 8);
  r->arena = memory(b->arena_bytes, t->chain.align);
  r->shadow = shadow;
  r->guard = !!(how & GUARD);
  r->state = t->state;
  r->queue.noffload = b->noffload;
  r->queue.by = VRAM_NO_COPY;
  memset(r->arena, 0x5a, (size_t)b->arena_bytes);
  memset(host, 0x5b, (size_t)b->host_bytes);
  if (r->guard) {
    memcpy(r->arena + b->input, t->x0, (size_t)t->chain.input_bytes);
    memcpy(shadow, r->arena, (size_t)b->arena_bytes);
  }
  memcpy(r->arena + b->input, t->x0, (size_t)t->chain.input_bytes);
  result = vram_chain_run(&t->chain, b, &runner, r->arena, host, work, n, &error);
  if (b->input_gradient != VRAM_NOWHERE)
    memcpy(gradient_x0, r->arena + b->input_gradient, (size_t)t->chain.input_gradient_bytes);
  free(r->arena);
  free(host);
  free(work);
  free(shadow);
  return result;
}

/* ---- what a binding has to be */

/* The largest sum of what lives at a move. */
static uint64_t peak_of(const net *t, uint64_t *host) {
  uint8_t scratch[1000];
  vram_schedule_count n;
  EQUAL(vram_schedule_verify(&t->chain, list, nlist, scratch, sizeof scratch, &n, &error), VRAM_OK);
  *host = n.host_bytes;
  return n.peak_bytes - t->chain.static_bytes;
}

static void check_apart(const vram_buffer *b, uint32_t n, uint64_t align, uint64_t height) {
  uint32_t i, k;
  for (i = 0; i < n; i++) {
    CHECK(b[i].offset % align == 0 && b[i].bytes % align == 0);
    CHECK(b[i].bytes && b[i].begin < b[i].end && b[i].offset + b[i].bytes <= height);
    for (k = 0; k < i; k++)
      CHECK(b[i].begin >= b[k].end || b[k].begin >= b[i].end ||
            b[i].offset >= b[k].offset + b[k].bytes || b[k].offset >= b[i].offset + b[i].bytes);
  }
}

static unsigned long planned[VRAM_PLANNER_COUNT], infeasible, bound, at_peak, with_copies,
    recomputed, different, hashes;

/* The binding of `list`, in memory of exactly its bytes. */
static void *bind(const net *t, vram_binding *b) {
  const uint64_t n = vram_schedule_bind_bytes(&t->chain, nlist, NULL);
  void *scratch = memory(n, 8);
  uint64_t peak, host;
  memset(scratch, 0x77, (size_t)n);
  if (!EQUAL(vram_schedule_bind(&t->chain, list, nlist, NULL, scratch, n, b, &error), VRAM_OK)) {
    if (test_shown())
      printf("%s\n", error.text);
    free(scratch);
    return NULL;
  }
  peak = peak_of(t, &host);
  EQUAL(b->peak_bytes, peak);
  CHECK(b->arena.lower_bound_bytes >= peak && b->arena_bytes >= b->arena.lower_bound_bytes);
  EQUAL(b->nmove, nlist);
  check_apart(b->buffer, b->nbuffer, t->chain.align, b->arena_bytes);
  check_apart(b->host, b->nhost, t->chain.align, b->host_bytes);
  CHECK(b->host_bytes >= host);
  bound++;
  at_peak += b->arena_bytes == peak;
  with_copies += b->noffload > 0;
  recomputed += b->nagain > 0;
  return scratch;
}

typedef struct replay {
  vram_ledger ledger;
  uint64_t live, peak, host, host_peak;
  uint32_t allocs, frees;
} replay;
static void on_event(void *user, const vram_event *e) {
  replay *p = user;
  uint64_t *live = e->device ? &p->host : &p->live, *peak = e->device ? &p->host_peak : &p->peak;
  CHECK(e->device == 0 || e->device == VRAM_DEVICE_HOST);
  if (e->action == VRAM_ACTION_ALLOC)
    *live += e->bytes, p->allocs++;
  else
    *live -= e->bytes, p->frees++;
  *peak = *live > *peak ? *live : *peak;
  vram_ledger_event(&p->ledger, e);
}

static void check_events(const net *t, const vram_binding *b) {
  uint64_t base;
  for (base = 0; base <= 4096; base += 4096) {
    replay p;
    vram_ledger_options o;
    uint64_t n, peak, host;
    void *mem;
    memset(&p, 0, sizeof p);
    memset(&o, 0, sizeof o);
    n = vram_ledger_bytes(&o);
    mem = test_scratch(n);
    vram_ledger_init(&p.ledger, &o, mem, n, NULL);
    vram_binding_events(&t->chain, b, base, base ? UINT64_C(1) << 40 : 0, on_event, &p);
    peak = peak_of(t, &host);
    EQUAL(p.peak, peak);
    EQUAL(p.host_peak, host);
    EQUAL(p.ledger.peak_bytes, peak);
    EQUAL(p.live + p.host, 0);
    EQUAL(p.allocs, b->nbuffer + b->nhost);
    EQUAL(p.frees, b->nbuffer + b->nhost);
    EQUAL(p.ledger.unknown_frees + p.ledger.missed_frees + p.ledger.lost, 0);
    EQUAL(p.ledger.nlive, 0);
    free(mem);
  }
}

static void check_gradients(const net *t, const run *r, const float *gradient_x0) {
  CHECK(same_bits(t->gradient, r->gradient, sizeof t->gradient));
  if (t->chain.input_gradient_bytes)
    CHECK(same_bits(t->gradient_x0, gradient_x0, floats(t, 0) * sizeof *gradient_x0));
}

static run r_now;
static run *fresh(net *t, const vram_binding *b, int mode) {
  memset(&r_now, 0, sizeof r_now);
  r_now.t = t;
  r_now.b = b;
  r_now.queue.mode = mode;
  return &r_now;
}

/* Every call of the run fails once. */
static void check_failures(net *t, const vram_binding *b, int how) {
  float gradient_x0[FLOATS];
  uint32_t k, calls;
  run *r = fresh(t, b, LAZY);
  EQUAL(run_it(r, how, gradient_x0), VRAM_OK);
  calls = r->calls;
  for (k = 1; k <= calls; k++) {
    const vram_bound_move *m;
    char number[40];
    r = fresh(t, b, LAZY);
    r->fail_at = k;
    EQUAL(run_it(r, how, gradient_x0), VRAM_ERR_CALL);
    EQUAL(error.code, VRAM_ERR_CALL);
    snprintf(number, sizeof number, " gave %u (expected 0)", 1000 + k);
    CHECK(strstr(error.text, number) != NULL);
    CHECK(error.line >= 1 && error.line <= b->nmove);
    EQUAL(r->after, 0);
    m = &b->move[error.line - 1];
    EQUAL(r->done, m->move.kind < VRAM_MOVE_FETCH ? error.line - 1 : m->early);
    if (!(r->in_rerun && strstr(error.text, "random_set gave")))
      EQUAL(r->in_rerun, 0); /* the state of before is there again */
    EQUAL(r->queue.done[0] + r->queue.done[1], how & QUEUES && !strstr(error.text, "wait gave")
                                                   ? r->queue.begun[0] + r->queue.begun[1]
                                                   : r->queue.done[0] + r->queue.done[1]);
  }
}

static int same_places(const vram_bound_move *a, const vram_bound_move *b) {
  return a->in == b->in && a->out == b->out && a->saved == b->saved && a->temp == b->temp &&
         a->grad_in == b->grad_in && a->grad_out == b->grad_out && a->host == b->host &&
         a->early == b->early && a->offloads == b->offloads && a->fetches == b->fetches;
}

/* Memory of every size that is too small; of exactly the right one at an odd address. */
static void check_memory(net *t, const vram_binding *b) {
  const uint64_t n = vram_schedule_bind_bytes(&t->chain, nlist, NULL);
  vram_runner runner;
  vram_binding again;
  run *r = fresh(t, b, 0);
  uint8_t *scratch = memory(n + 3, t->chain.align);
  uint64_t i, need;
  uint32_t k;
  for (i = 0; i < n; i += i < n / 2 ? 61 : 7)
    EQUAL(vram_schedule_bind(&t->chain, list, nlist, NULL, scratch, i, &again, &error),
          VRAM_ERR_MEMORY);
  EQUAL(vram_schedule_bind(&t->chain, list, nlist, NULL, NULL, n, &again, NULL), VRAM_ERR_MEMORY);
  EQUAL(vram_schedule_bind(&t->chain, list, nlist, NULL, scratch + 3, n, &again, &error), VRAM_OK);
  EQUAL(again.arena_bytes, b->arena_bytes);
  for (k = 0; k < nlist; k++) /* the same binding wherever it is */
    CHECK(same_places(&again.move[k], &b->move[k]));
  runner_of(&runner, r, HASH);
  need = vram_chain_run_bytes(b, &runner);
  for (i = 0; i < need; i++)
    EQUAL(vram_chain_run(&t->chain, b, &runner, scratch, scratch, scratch, i, &error),
          VRAM_ERR_MEMORY);
  EQUAL(r->calls, 0);
  free(scratch);
}

static int copied(void) {
  uint32_t i;
  for (i = 0; i < nlist && list[i].kind <= VRAM_MOVE_BACKWARD; i++)
    ;
  return i < nlist;
}

/* A schedule of one of the planners, for any budget. */
static void plan_moves(const net *t) {
  vram_schedule_options o;
  vram_schedule s;
  uint64_t n, plain = 0;
  void *scratch;
  uint32_t i;
  memset(&o, 0, sizeof o);
  for (i = 0; i < t->n; i++)
    plain += t->way[i][0].saved_bytes + 2 * t->stage[i].output_bytes + t->chain.align;
  o.planner = (vram_planner)below(VRAM_PLANNER_COUNT);
  o.budget_bytes = t->chain.static_bytes + t->chain.input_bytes + 1 + below((uint32_t)plain);
  o.offload = below(2) && o.planner == VRAM_PLANNER_OPTIMAL;
  n = vram_schedule_bytes(&t->chain, &o);
  scratch = memory(n, 8);
  if (NEED(vram_schedule_plan(&t->chain, &o, scratch, n, &s, &error) == VRAM_OK) &&
      NEED(s.nmove <= MOVES)) {
    nlist = s.nmove;
    memcpy(list, s.move, s.nmove * sizeof *list);
    planned[o.planner]++;
    infeasible += !s.feasible;
  } else if (test_shown())
    printf("%s, offload %d: %s\n", vram_planner_name(o.planner), o.offload, error.text);
  free(scratch);
}

static void one(uint32_t number) {
  net t;
  vram_binding b;
  float gradient_x0[FLOATS];
  uint64_t state;
  void *scratch;
  run *r;
  int mode;
  seed = number; /* the same chain whatever came before */
  make_net(&t);
  nlist = 0;
  snprintf(test_where, sizeof test_where, "chain %u", number);
  if (number % 2)
    plan_moves(&t);
  else
    make_moves(&t.chain, 0, t.n - 1, below(7), 0);
  if (number % 4 < 2 && !copied())
    add_copies(&t.chain, 1 + below(8));
  scratch = bind(&t, &b);
  if (!scratch)
    return;
  state = t.state;
  run_plain(&t, run_seed);
  t.state = state;
  r = fresh(&t, &b, 0);
  if (!EQUAL(run_it(r, GUARD | HASH, gradient_x0), VRAM_OK) && test_shown())
    printf("%s\n", error.text);
  check_gradients(&t, r, gradient_x0);
  EQUAL(r->done, nlist);
  if (b.noffload)
    for (mode = LAZY; mode <= MIXED; mode++) {
      r = fresh(&t, &b, mode);
      EQUAL(run_it(r, QUEUES | HASH, gradient_x0), VRAM_OK);
      EQUAL(r->queue.done[0], b.noffload);
      EQUAL(r->queue.done[1], b.nfetch);
      check_gradients(&t, r, gradient_x0);
    }
  if (b.nagain && t.stateful && t.n > 1) { /* random state that is not put back is seen */
    r = fresh(&t, &b, 0);
    EQUAL(run_it(r, FORGET, gradient_x0), VRAM_OK);
    different += !same_bits(t.gradient, r->gradient, sizeof t.gradient);
    r = fresh(&t, &b, 0);
    hashes += run_it(r, FORGET | HASH, gradient_x0) == VRAM_ERR_CALL;
  }
  if (number % 16 == 0) {
    check_failures(&t, &b, HASH | QUEUES);
    check_events(&t, &b);
    check_memory(&t, &b);
  }
  free(scratch);
}

/* ---- what is refused, and in what words */

static int fails(void *user, const vram_call *c) {
  (void)user, (void)c;
  return -3;
}
static int nothing(void *user, const vram_call *c) {
  (void)user, (void)c;
  return 0;
}

static void check_refusals(void) {
  enum { C = VRAM_MOVE_CHECKPOINT, S = VRAM_MOVE_SAVE, B = VRAM_MOVE_BACKWARD };
  static const vram_move m[] = {{0, S, 0}, {1, S, 0}, {2, S, 0}, {2, B, 0}, {1, B, 0}, {0, B, 0}};
  vram_way way = {24, 8, 8, 1, 1}, loss = {4, 0, 0, 1, 1};
  vram_stage stage[3];
  vram_chain c;
  vram_arena_options o;
  static uint64_t scratch[20000];
  static uint8_t arena[4096], *p = arena;
  vram_binding b;
  vram_runner r;
  uint32_t i;
  memset(stage, 0, sizeof stage);
  memset(&c, 0, sizeof c);
  memset(&o, 0, sizeof o);
  for (i = 0; i < 3; i++) {
    stage[i].output_bytes = i < 2 ? 12 : 0;
    stage[i].way = i < 2 ? &way : &loss;
    stage[i].nway = 1;
  }
  c.stage = stage;
  c.nstage = 3;
  c.input_bytes = c.input_gradient_bytes = 8;
#define BIND(chain, moves, n, options)                                                             \
  vram_schedule_bind(chain, moves, n, options, scratch, sizeof scratch, &b, &error)
  EQUAL(BIND(&c, m + 1, 5, NULL), VRAM_ERR_VALUE); /* what the replay says */
  TEXT(error.text, "move 0, save of stage 1: its input is not there");
  EQUAL(error.line, 1);
  EQUAL(b.nmove, 0);
  EQUAL(BIND(&c, m, 0, NULL), VRAM_ERR_VALUE);
  o.nbank = 2;
  EQUAL(BIND(&c, m, 6, &o), VRAM_ERR_UNSUPPORTED);
  TEXT(error.text, "a schedule runs in one bank");
  EQUAL(vram_schedule_bind_bytes(&c, UINT32_MAX / 2, NULL), VRAM_OVERFLOW);
  EQUAL(BIND(&c, m, UINT32_MAX / 2, NULL), VRAM_ERR_LIMIT);
  o.nbank = 0;
  o.capacity[0] = 87;
  EQUAL(BIND(&c, m, 6, &o), VRAM_ERR_LIMIT);
  EQUAL(b.nmove, 0);
  o.capacity[0] = 88;
  EQUAL(BIND(&c, m, 6, &o), VRAM_OK);
  /* backward of stage 1: x0, x1, x2, twice 12 saved, gradients of x2 and x1, a temporary */
  EQUAL(b.arena_bytes, 8 + 12 + 12 + 24 + 24 + 8);
  memset(&r, 0, sizeof r);
  CHECK(vram_chain_run_bytes(&b, &r) < 100);
#define REFUSED(what)                                                                              \
  EQUAL(vram_chain_run(&c, &b, &r, scratch, NULL, scratch, 200, &error), VRAM_ERR_VALUE);          \
  TEXT(error.text, what)
  REFUSED("the runner needs forward and backward");
  r.forward = nothing;
  REFUSED("the runner needs forward and backward");
  r.backward = fails;
  EQUAL(vram_chain_run(&c, &b, &r, arena, NULL, scratch, 200, NULL), VRAM_ERR_CALL);
  EQUAL(vram_chain_run(&c, &b, &r, arena, NULL, scratch, 200, &error), VRAM_ERR_CALL);
  TEXT(error.text, "move 3, backward of stage 2: backward gave -3 (expected 0)");
  EQUAL(error.line, 4);
  EQUAL(vram_chain_run(&c, &b, &r, arena, NULL, NULL, 200, NULL), VRAM_ERR_MEMORY);
  r.backward = nothing;
  r.random_get = random_get;
  REFUSED("the runner needs random_get, random_set and random_bytes, or none of them");
  r.random_set = random_set;
  REFUSED("the runner needs random_get, random_set and random_bytes, or none of them");
  r.random_bytes = UINT64_MAX;
  EQUAL(vram_chain_run_bytes(&b, &r), VRAM_OVERFLOW);
  r.random_bytes = 8;
  r.fetch = fetch;
  r.offload = offload;
  REFUSED("the runner needs offload, fetch and wait, or none of them");
  r.offload = NULL;
  REFUSED("the runner needs offload, fetch and wait, or none of them");
  r.fetch = NULL;
  c.align = 1024;
  p += 1024 - ((uintptr_t)p & 1023);
  EQUAL(vram_chain_run(&c, &b, &r, p, NULL, scratch, 200, &error), VRAM_OK);
  EQUAL(vram_chain_run(&c, &b, &r, p + 512, NULL, scratch, 200, &error), VRAM_ERR_VALUE);
  TEXT(error.text, "the arena is not aligned as the chain says");
  c.align = 0;
  EQUAL(vram_chain_run(&c, &b, &r, NULL, NULL, scratch, 200, &error), VRAM_ERR_VALUE);
  TEXT(error.text, "no arena");
  b.host_bytes = 1;
  REFUSED("no host memory for what is offloaded");
  TEXT(vram_hold_name(VRAM_HOLD_GRADIENT), "gradient");
  TEXT(vram_hold_name(VRAM_HOLD_COUNT), "?");
}

/* Moves that nobody would make: refused, or bound and run like any others. */
static void check_any_moves(void) {
  vram_way way[3] = {{24, 8, 8, 1, 1}, {12, 0, 0, 1, 1}, {0, 4, 4, 1, 1}};
  vram_stage stage[3];
  vram_chain c;
  vram_runner r;
  uint32_t i, k, fine = 0;
  memset(stage, 0, sizeof stage);
  memset(&c, 0, sizeof c);
  memset(&r, 0, sizeof r);
  r.forward = r.backward = nothing;
  for (i = 0; i < 3; i++) {
    stage[i].output_bytes = i < 2 ? 12 : 0;
    stage[i].way = &way[i];
    stage[i].nway = 1;
  }
  c.stage = stage;
  c.input_bytes = 8;
  for (i = 0; i < 10000; i++) {
    static uint64_t scratch[20000], arena[40], host[40], work[20];
    vram_binding b;
    seed = i;
    c.nstage = 1 + below(3);
    c.stage = stage + 3 - c.nstage;
    nlist = 0;
    make_moves(&c, 0, c.nstage - 1, 4, 0);
    add_copies(&c, 4);
    for (k = below(3); k--;) {
      const uint32_t at = below(nlist), other = below(nlist);
      const vram_move was = list[at];
      list[at] = list[other];
      if (below(2))
        list[other] = was;
      else if (below(2))
        list[at].stage += below(3) - 1;
      else
        list[at].kind = (uint8_t)below(VRAM_MOVE_COUNT + 1);
    }
    if (BIND(&c, list, nlist, NULL) == VRAM_OK) {
      fine++;
      check_apart(b.buffer, b.nbuffer, 1, sizeof arena);
      EQUAL(vram_chain_run(&c, &b, &r, arena, host, work, sizeof work, &error), VRAM_OK);
    } else
      CHECK(error.text[0]);
  }
  CHECK(fine > 3000 && fine < 7000);
}

static void check_hash(void) { /* each byte counts, and the length */
  uint8_t bytes[40] = {0};
  uint64_t first, other;
  uint32_t n, i;
  for (n = 0; n < sizeof bytes; n++) {
    vram_chain_hash(NULL, bytes, n, &first);
    vram_chain_hash(NULL, bytes, n + 1, &other);
    CHECK(first != other);
    for (i = 0; i < n * 8; i++) {
      bytes[i / 8] ^= (uint8_t)(1u << i % 8);
      vram_chain_hash(NULL, bytes, n, &other);
      CHECK(first != other);
      bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
  }
  for (i = 0; i < 40; i++)
    bytes[i] = (uint8_t)(i * 7);
  vram_chain_hash(NULL, bytes, 37, &first);
  EQUAL(first, UINT64_C(2414395829522692102)); /* the same on every machine */
}

int main(void) {
  uint32_t i;
  for (i = 0; i < 3000; i++)
    one(i);
  *test_where = 0;
  check_refusals();
  check_any_moves();
  check_hash();
  CHECK(bound == 3000 && at_peak == bound); /* the arena is as high as the peak */
  CHECK(with_copies > 1000 && recomputed > 1000);
  for (i = 0; i < VRAM_PLANNER_COUNT; i++)
    CHECK(planned[i] > 100);
  CHECK(infeasible > 100);
  CHECK(different > 500 && hashes >= different); /* random state that is not put back */
  return test_done("test_runner");
}
