/* Bytes -> a chain and a budget -> schedules of every planner, in scratch that is just enough and
   full of something -> their moves, played by tests/schedule.h and by the library; bound, run.
   clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/schedule.c \
     build/fuzz/tool.a -ldl -o build/fuzz-schedule
   build/fuzz-schedule -max_len=256 build/corpus tests/fuzz/corpus/schedule */
#include "../../vram.h"

#include "fuzz.h"

#include "../schedule.h"

enum { STAGES = 8, SIZES = 60 };

typedef struct input {
  const uint8_t *at;
  size_t left;
} input;

static unsigned pick(input *in, unsigned below) {
  if (!in->left)
    return 0;
  in->left--;
  return *in->at++ % below;
}

static void *filled(uint64_t bytes) {
  void *p = malloc(bytes ? (size_t)bytes : 1);
  MUST(p);
  memset(p, 0xbe, (size_t)bytes);
  return p;
}

static void pick_chain(input *in, chain *h) {
  const uint32_t n = 1 + pick(in, STAGES);
  uint32_t i;
  chain_begin(h, n, pick(in, SIZES));
  if (pick(in, 3) == 0)
    h->c.input_gradient_bytes = 0;
  h->c.static_bytes = pick(in, 100);
  h->c.align = pick(in, 2) ? 0 : UINT64_C(1) << pick(in, 5);
  h->c.transfer_cost = pick(in, 5);
  h->c.transfer_bytes = pick(in, 9);
  for (i = 0; i < n; i++) {
    vram_way *two = h->way[i] + 1;
    const uint64_t out = pick(in, SIZES), more = pick(in, SIZES);
    const unsigned kind = pick(in, 8);
    chain_stage(h, i, out, more, kind & 4 ? pick(in, SIZES) : 0, kind & 4 ? pick(in, SIZES) : 0,
                pick(in, 9), pick(in, 9));
    if (kind & 1) {
      *two = h->way[i][0];
      h->stage[i].nway = 2;
      two->saved_bytes = h->stage[i].output_bytes + pick(in, SIZES);
      two->forward_cost = pick(in, 9);
      two->backward_temp_bytes = pick(in, SIZES);
    }
    if (kind & 2)
      h->stage[i].forward_temp_bytes = pick(in, SIZES);
  }
}

/* ---- a run: every function fills what it writes */

typedef struct run_state {
  const uint8_t *arena;
  uint64_t bytes;
} run_state;

static int run_call(void *user, const vram_call *call) {
  const run_state *s = (const run_state *)user;
  uint8_t *const to[] = {(uint8_t *)call->out, (uint8_t *)call->saved, (uint8_t *)call->temp,
                         (uint8_t *)call->grad_in};
  uint32_t i;
  for (i = 0; i < 4; i++)
    if (to[i]) {
      MUST(to[i] >= s->arena && to[i] < s->arena + s->bytes);
      *to[i] = (uint8_t)(call->stage + i);
    }
  return 0;
}

static void run(const chain *h, const vram_binding *b) {
  vram_runner r;
  run_state s;
  vram_error e;
  uint8_t *arena = (uint8_t *)filled(b->arena_bytes + 64), *host = (uint8_t *)filled(b->host_bytes);
  void *work;
  memset(&r, 0, sizeof r);
  work = filled(vram_chain_run_bytes(b, &r));
  r.forward = r.backward = run_call;
  r.user = &s;
  s.arena = arena + (64 - (uintptr_t)arena % 64) % 64;
  s.bytes = b->arena_bytes;
  MUST(!vram_chain_run(&h->c, b, &r, arena + (s.arena - arena), host, work,
                       vram_chain_run_bytes(b, &r), &e));
  free(work);
  free(host);
  free(arena);
}

static void bind(const chain *h, const vram_schedule *s) {
  vram_arena_options o;
  vram_binding b;
  vram_error e;
  uint64_t bytes;
  void *scratch;
  memset(&o, 0, sizeof o);
  o.nodes = 200;
  bytes = vram_schedule_bind_bytes(&h->c, s->nmove, &o);
  scratch = filled(bytes);
  MUST(!vram_schedule_bind(&h->c, s->move, s->nmove, &o, scratch, bytes, &b, &e));
  MUST(b.peak_bytes == s->peak_bytes - h->c.static_bytes && b.arena_bytes >= b.peak_bytes);
  MUST(b.host_bytes >= s->host_bytes);
  run(h, &b);
  free(scratch);
}

/* ---- one planner within one budget */

/* Moves, replayed twice: what the library counts is what tests/schedule.h counts. */
static void check_moves(const chain *h, const vram_schedule *s) {
  const uint64_t bytes = vram_schedule_verify_bytes(&h->c);
  void *scratch = filled(bytes);
  vram_schedule_count n;
  vram_error e;
  uint64_t peak, cost, host;
  MUST(!vram_schedule_verify(&h->c, s->move, s->nmove, scratch, bytes, &n, &e));
  MUST(play_all(h, s->move, s->nmove, &peak, &cost, &host));
  MUST(n.peak_bytes == s->peak_bytes && n.cost == s->cost && n.host_bytes == s->host_bytes);
  MUST(peak == s->peak_bytes && cost == s->cost && host == s->host_bytes);
  if (s->nmove) { /* a move less is none */
    MUST(vram_schedule_verify(&h->c, s->move, s->nmove - 1, scratch, bytes, &n, &e) ==
         VRAM_ERR_VALUE);
    MUST(e.line && e.text[0]);
  }
  free(scratch);
}

static void check_spans(const chain *h, const vram_schedule *s) {
  vram_span span[STAGES];
  vram_error e;
  uint32_t count, i;
  const vram_result r = vram_schedule_spans(&h->c, s->move, s->nmove, span, STAGES, &count, &e);
  MUST(r == e.code && (!r || r == VRAM_ERR_UNSUPPORTED));
  for (i = 0; !r && i < count; i++)
    MUST(span[i].first <= span[i].last && span[i].last < h->c.nstage);
}

/* Returns the cost; NO_WAY: it does not fit. */
static uint64_t plan(const chain *h, const vram_schedule_options *o, int whole) {
  const uint64_t bytes = vram_schedule_bytes(&h->c, o);
  void *scratch = filled(bytes == VRAM_OVERFLOW ? 1 : bytes);
  vram_schedule s;
  vram_error e;
  const vram_result r = vram_schedule_plan(&h->c, o, scratch, bytes, &s, &e);
  uint64_t cost = NO_WAY;
  MUST(r == e.code && !e.text[0] == !r && (bytes == VRAM_OVERFLOW) == (r == VRAM_ERR_VALUE));
  if (!r) {
    MUST(s.feasible == (!o->budget_bytes || s.smallest_budget_bytes <= o->budget_bytes));
    MUST(!s.feasible || !o->budget_bytes || s.peak_bytes <= o->budget_bytes);
    check_moves(h, &s);
    if (whole) {
      check_spans(h, &s);
      bind(h, &s);
    }
    cost = s.feasible ? s.cost : NO_WAY;
  }
  free(scratch);
  return cost;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static chain h;
  vram_schedule_options o;
  input in;
  uint64_t optimal, more, cost;
  uint32_t k;
  in.at = data;
  in.left = size;
  memset(&o, 0, sizeof o);
  o.budget_bytes = pick(&in, 4) ? 1 + 2 * pick(&in, 250) : 0;
  o.offload = pick(&in, 3) == 0;
  o.slots = pick(&in, 3) ? 0 : 1 + pick(&in, 40);
  pick_chain(&in, &h);
  optimal = plan(&h, &o, 1);
  if (o.budget_bytes) { /* more bytes never cost more */
    o.budget_bytes += 1 + pick(&in, 20);
    more = plan(&h, &o, 0);
    MUST(optimal == NO_WAY || more <= optimal);
    o.budget_bytes -= 1;
  }
  optimal = plan(&h, &o, 0);
  if (!o.offload && !o.slots && h.c.nstage <= 3) {
    cost = search(&h, o.budget_bytes ? o.budget_bytes : UINT64_MAX - 1, 1, 0);
    MUST(cost == optimal);
  }
  o.offload = 0;
  for (k = VRAM_PLANNER_STAGES; k < VRAM_PLANNER_COUNT; k++) {
    o.planner = (vram_planner)k;
    o.segments = k == VRAM_PLANNER_SEQUENTIAL ? pick(&in, 4) : 0;
    o.snapshots = k == VRAM_PLANNER_REVOLVE ? pick(&in, 4) : 0;
    if (k != VRAM_PLANNER_STAGES)
      o.slots = 0;
    cost = plan(&h, &o, 1);
    MUST(optimal <= cost);
  }
  return 0;
}
