/* Schedules: against search over all states, other people's optima and numbers, a replay of its
   own; what must hold between planners and budgets; faults that a replay must find; errors. usage:
   test_schedule ROTOR_EXHAUSTIVE.txt REVOLVE.csv [CHAINS]   so many random chains more */
#include "schedule.h"

#include <stdio.h>

#include "test.h"

static uint8_t memory[1 << 26];
static vram_schedule got;
static vram_error error;

static vram_result plan(const chain *h, vram_planner planner, uint64_t budget,
                        const vram_schedule_options *more) {
  vram_schedule_options o;
  uint64_t n;
  memset(&o, 0, sizeof o);
  if (more)
    o = *more;
  o.planner = planner;
  o.budget_bytes = budget;
  n = vram_schedule_bytes(&h->c, &o);
  if (n != VRAM_OVERFLOW && n > sizeof memory) {
    FAIL("the scratch is too large");
    return VRAM_ERR_MEMORY;
  }
  if (n != VRAM_OVERFLOW)
    memset(memory, 0xbe, (size_t)n);
  return vram_schedule_plan(&h->c, &o, memory, n, &got, &error);
}

/* What both replays count of `got`, and that it is what the planner said. */
static void counted(const chain *h) {
  static uint8_t scratch[4 * (CHAIN_CAP + 1)];
  vram_schedule_count n;
  uint64_t peak, cost, host;
  NEED(vram_schedule_verify(&h->c, got.move, got.nmove, scratch, sizeof scratch, &n, &error) ==
       VRAM_OK);
  EQUAL(n.peak_bytes, got.peak_bytes);
  EQUAL(n.cost, got.cost);
  EQUAL(n.host_bytes, got.host_bytes);
  if (h->c.nstage <= 8) {
    if (!NEED(play_all(h, got.move, got.nmove, &peak, &cost, &host)))
      return;
    EQUAL(got.peak_bytes, peak);
    EQUAL(got.cost, cost);
    EQUAL(got.host_bytes, host);
  }
}

/* ---- the optimum */

static unsigned long searched, dropped, moved, not_best;

/* At every budget that makes a difference: the optimum, or that there is none. */
static void optimal(const chain *h, int offload, int every) {
  vram_schedule_options o;
  uint64_t least, full, b, best, step;
  memset(&o, 0, sizeof o);
  o.offload = offload;
  plan(h, VRAM_PLANNER_PLAIN, 0, NULL);
  full = got.peak_bytes;
  if (!NEED(plan(h, VRAM_PLANNER_OPTIMAL, 1, &o) == VRAM_OK))
    return;
  least = got.smallest_budget_bytes;
  EQUAL(got.feasible, least <= 1);
  counted(h);
  CHECK(got.peak_bytes <= least);
  if (!offload && least)
    EQUAL(search(h, least - 1, 1, 0), NO_WAY);
  step = every ? 1 : 1 + (full - least) / 3;
  for (b = least; b <= full + 1; b += step) {
    if (!NEED(plan(h, VRAM_PLANNER_OPTIMAL, b, &o) == VRAM_OK))
      return;
    EQUAL(got.feasible, 1);
    EQUAL(got.smallest_budget_bytes, least);
    CHECK(got.peak_bytes <= b);
    counted(h);
    best = search(h, b, 1, offload);
    searched++;
    if (offload) { /* not all that offloading could do, but nearly always */
      const uint64_t cost = got.cost;
      CHECK(cost >= best);
      moved++;
      not_best += cost > best;
      plan(h, VRAM_PLANNER_OPTIMAL, b, NULL);
      CHECK(!got.feasible || got.cost >= cost);
    } else
      EQUAL(got.cost, best);
    if (!offload && (searched % 7 == 0 || every)) { /* dropping checkpoints gains next to nothing */
      best = search(h, b, 0, 0);
      CHECK(best <= got.cost);
      dropped += best < got.cost;
    }
  }
}

static void random_chain(chain *h, uint32_t n, uint64_t size, int ways) {
  uint32_t i;
  chain_begin(h, n, 1 + chain_random(size));
  for (i = 0; i < n; i++) {
    const uint64_t out = 1 + chain_random(size), more = chain_random(2 * size);
    const uint64_t fore = chain_random(size / 2 + 1), back = chain_random(size / 2 + 1);
    const uint64_t cost = chain_random(9);
    chain_stage(h, i, out, more, fore, back, cost, chain_random(9));
    if (ways && chain_random(2)) {
      vram_way *w = h->way[i] + 1;
      *w = h->way[i][0];
      h->stage[i].nway = 2;
      w->saved_bytes = h->stage[i].output_bytes + chain_random(2 * size);
      w->forward_cost = chain_random(9);
      w->backward_cost = chain_random(9);
      w->forward_temp_bytes = chain_random(size / 2 + 1);
    }
    if (ways && chain_random(3) == 0)
      h->stage[i].forward_temp_bytes = chain_random(size);
    if (ways && chain_random(3) == 0)
      h->stage[i].forward_cost = chain_random(9);
  }
  if (chain_random(4) == 0)
    h->c.input_gradient_bytes = 0;
  if (chain_random(4) == 0)
    h->c.static_bytes = chain_random(100);
  if (chain_random(8) == 0)
    h->c.align = 4;
}

/* All of three to five stages and the loss, outputs of 1 and 2, saved beyond them 0 and 1,
   costs of 1 and 3. */
static void test_all_chains(uint32_t most) {
  chain h;
  uint32_t n, i, k;
  for (n = 3; n <= most; n++)
    for (i = 0; i >> (3 * n) == 0; i++) {
      chain_begin(&h, n + 1, 1);
      for (k = 0; k < n; k++) {
        const uint32_t d = i >> (3 * k);
        chain_stage(&h, k, 1 + (d & 1), d >> 1 & 1, 0, 0, d & 4 ? 3 : 1, 2);
      }
      chain_stage(&h, n, 0, 0, 0, 0, 0, 1);
      snprintf(test_where, sizeof test_where, "chain %u of %u stages", i, n);
      optimal(&h, 0, 0);
    }
  searched = dropped = 0; /* figures of random chains */
}

static void test_optimum(uint32_t count) {
  chain h;
  uint32_t i, k;
  /* all of two stages and the loss, sizes 1 and 2, saved 0 to 2, temporaries 0 and 2 */
  for (i = 0; i<2 * 3 * 2 * 2 * 2 * 3 * 2 * 2; i += count> 1000 ? 1 : 11) {
    uint32_t d = i;
    chain_begin(&h, 3, 2);
    for (k = 0; k < 2; k++) {
      const uint32_t out = 1 + d % 2, more = d / 2 % 3, fore = d / 6 % 2 * 2, back = d / 12 % 2 * 2;
      d /= 24;
      chain_stage(&h, k, out, more, fore, back, 1 + k, 2);
    }
    chain_stage(&h, 2, 0, 0, 0, 1, 0, 1);
    snprintf(test_where, sizeof test_where, "chain %u of two stages", i);
    optimal(&h, 0, 1);
  }
  for (i = 0; i < count; i++) {
    const uint32_t n = 1 + (uint32_t)chain_random(6);
    snprintf(test_where, sizeof test_where, "random chain %u", i);
    random_chain(&h, n, 1 + chain_random(12), i % 2 == 1);
    optimal(&h, 0, 0);
    if (n <= 3 || (n == 4 && i % 8 == 0)) {
      h.c.transfer_cost = chain_random(4);
      h.c.transfer_bytes = 1 + chain_random(5);
      optimal(&h, 1, 0);
    }
  }
  CHECK(dropped <= searched / 1000);
  CHECK(not_best <= moved / 100);
  *test_where = 0;
}

/* ---- what others found */

static uint32_t numbers(char **p, uint64_t *v, uint32_t cap) {
  uint32_t n = 0;
  for (;;) {
    char *end;
    const uint64_t x = strtoull(*p, &end, 10);
    if (end == *p || n == cap)
      break;
    v[n++] = x;
    *p = end;
  }
  while (**p == ' ' || **p == '|')
    (*p)++;
  return n;
}

static void test_rotor(const char *path) {
  FILE *f = fopen(path, "r");
  char line[512];
  uint32_t rows = 0, i;
  chain h;
  if (!f) {
    FAIL(path);
    return;
  }
  while (fgets(line, sizeof line, f)) {
    uint64_t head[2], fw[8] = {0}, bw[8], x[8], xbar[8], ftmp[8] = {0}, btmp[8];
    char *p = line;
    if (*line == '#')
      continue;
    numbers(&p, head, 2);
    numbers(&p, fw, 7);
    NEED(numbers(&p, bw, 8) == head[0] + 1);
    NEED(numbers(&p, x, 8) == head[0] + 1);
    numbers(&p, xbar, 8);
    numbers(&p, ftmp, 7);
    numbers(&p, btmp, 8);
    ftmp[head[0]] = fw[head[0]] = 0; /* the loss */
    chain_begin(&h, (uint32_t)head[0] + 1, x[0]);
    for (i = 0; i < h.c.nstage; i++)
      chain_stage(&h, i, i < head[0] ? x[i + 1] : 0, i < head[0] ? xbar[i + 1] - x[i + 1] : 0,
                  ftmp[i], btmp[i], fw[i], bw[i]);
    snprintf(test_where, sizeof test_where, "%s, row %u", path, ++rows);
    if (!NEED(plan(&h, VRAM_PLANNER_OPTIMAL, head[1], NULL) == VRAM_OK))
      continue;
    EQUAL(got.feasible, *p != 'i');
    if (got.feasible)
      EQUAL(got.cost, strtoull(p, NULL, 10));
    counted(&h);
  }
  fclose(f);
  *test_where = 0;
  EQUAL(rows, 277);
}

static void equal_steps(chain *h, uint32_t n) {
  uint32_t i;
  chain_begin(h, n, 1);
  for (i = 0; i < n; i++)
    chain_stage(h, i, 1, 0, 0, 0, 1, 0);
}

/* Equal steps: as many forwards as the binomial numbers say. */
static void test_revolve(const char *path) {
  FILE *f = fopen(path, "r");
  static uint32_t extra[61][61];
  char line[128];
  uint32_t rows = 0, n, s, i;
  vram_schedule_options o;
  static chain room;
  chain *h = &room;
  memset(&o, 0, sizeof o);
  if (!f) {
    FAIL(path);
    return;
  }
  while (fgets(line, sizeof line, f)) {
    uint32_t v[3], at = 0;
    char *p = line;
    if (*line < '0' || *line > '9')
      continue;
    for (at = 0; at < 3; at++, p++)
      v[at] = (uint32_t)strtoul(p, &p, 10);
    snprintf(test_where, sizeof test_where, "%s: %u steps, %u snapshots", path, v[0], v[1]);
    rows++;
    if (v[0] > CHAIN_CAP)
      continue;
    equal_steps(h, v[0]);
    o.snapshots = v[1];
    if (NEED(plan(h, VRAM_PLANNER_REVOLVE, 0, &o) == VRAM_OK))
      EQUAL(got.cost, v[2]);
  }
  fclose(f);
  EQUAL(rows, 150);
  for (s = 1; s <= 60; s++)
    for (n = 2; n <= 60; n++) {
      extra[n][s] = n * (n - 1) / 2;
      for (i = 1; s > 1 && i < n; i++)
        if (i + extra[i][s] + extra[n - i][s - 1] < extra[n][s])
          extra[n][s] = i + extra[i][s] + extra[n - i][s - 1];
      if (s >= n)
        continue;
      snprintf(test_where, sizeof test_where, "%u steps, %u snapshots", n, s);
      equal_steps(h, n);
      o.snapshots = s;
      if (NEED(plan(h, VRAM_PLANNER_REVOLVE, 0, &o) == VRAM_OK)) {
        const uint64_t peak = got.peak_bytes;
        EQUAL(got.cost, n + extra[n][s]);
        if (n % 9 == 0) {
          plan(h, VRAM_PLANNER_OPTIMAL, peak, NULL);
          CHECK(got.feasible && got.cost <= n + extra[n][s]);
        }
      }
    }
  *test_where = 0;
}

/* ---- planners against one another */

static void large_chain(chain *h, uint32_t n, int uniform) {
  uint32_t i;
  uint64_t out = 1000 + chain_random(900000000), more = chain_random(4 * out), fore, back, cost;
  chain_begin(h, n, out);
  for (i = 0; i < n; i++) {
    if (!uniform) {
      out = 1000 + chain_random(900000000);
      more = chain_random(4 * out);
    }
    fore = chain_random(out / 2); /* each in a line of its own: arguments have no order */
    back = chain_random(out / 2);
    cost = chain_random(UINT64_C(1) << 40);
    chain_stage(h, i, out, more, fore, back, uniform ? 12345678 : 1000 + cost,
                chain_random(1 << 30));
  }
  h->c.align = 512;
}

/* OPTIMAL is no worse than any other; more bytes never cost more; one byte less than the least is
   too little. */
static int stops_at;

static int stops(void *user) { return user == &stops_at && stops_at-- == 0; }

/* Stopped at any time: a schedule within the budget, no cheaper than the whole search's. */
static void stopped(const chain *h, vram_schedule_options o, uint64_t budget, uint64_t cost) {
  int after, end = 0;
  o.stop = stops;
  o.user = &stops_at;
  for (after = 0; !end && after < 40; after = after * 2 + 1) {
    stops_at = after;
    if (!NEED(plan(h, VRAM_PLANNER_OPTIMAL, budget, &o) == VRAM_OK))
      return;
    end = !got.stopped;
    CHECK(got.feasible && got.peak_bytes <= budget);
    CHECK(end ? got.cost == cost : got.cost >= cost);
    counted(h);
  }
}

static void test_planners(uint32_t count) {
  static chain room;
  chain *h = &room;
  vram_schedule_options o;
  uint32_t round, k, planner;
  for (round = 0; round < count; round++) {
    const uint32_t n = 2 + (uint32_t)chain_random(round % 4 == 3 ? 60 : 20);
    uint64_t least, full, last = UINT64_MAX, b;
    large_chain(h, n, round % 3 == 2);
    memset(&o, 0, sizeof o);
    o.slots = round % 2 ? 60 : 200; /* few, so that rounding matters */
    snprintf(test_where, sizeof test_where, "round %u, %u stages", round, n);
    plan(h, VRAM_PLANNER_PLAIN, 0, NULL);
    full = got.peak_bytes;
    counted(h);
    plan(h, VRAM_PLANNER_OPTIMAL, full, &o);
    CHECK(got.feasible && got.nmove == 2 * n);
    least = got.smallest_budget_bytes;
    plan(h, VRAM_PLANNER_OPTIMAL, least - 1, &o);
    EQUAL(got.feasible, 0);
    CHECK(got.peak_bytes == least);
    counted(h);
    for (b = least; b <= full; b += 1 + (full - least) / 23) {
      if (!NEED(plan(h, VRAM_PLANNER_OPTIMAL, b, &o) == VRAM_OK))
        break;
      CHECK(got.feasible && got.peak_bytes <= b);
      CHECK(got.cost <= last);
      counted(h);
      last = got.cost;
      if (round < 8) {
        stopped(h, o, b, last);
        plan(h, VRAM_PLANNER_OPTIMAL, b, &o);
      }
    }
    for (planner = VRAM_PLANNER_STAGES; planner < VRAM_PLANNER_COUNT; planner++)
      for (k = 1;
           k < (planner == VRAM_PLANNER_SEQUENTIAL || planner == VRAM_PLANNER_REVOLVE ? n : 2);
           k += 1 + k / 4) {
        vram_schedule_options other;
        uint64_t cost, peak;
        memset(&other, 0, sizeof other);
        other.segments = planner == VRAM_PLANNER_SEQUENTIAL ? k : 0;
        other.snapshots = planner == VRAM_PLANNER_REVOLVE ? k : 0;
        if (!NEED(plan(h, (vram_planner)planner, planner == VRAM_PLANNER_STAGES ? full / 2 : 0,
                       &other) == VRAM_OK))
          continue;
        counted(h);
        cost = got.cost;
        peak = got.peak_bytes;
        plan(h, VRAM_PLANNER_OPTIMAL, peak, &o);
        CHECK(got.feasible && got.cost <= cost);
      }
  }
  *test_where = 0;
}

/* Every choice of stages and ways, played. */
static void test_stages(uint32_t count) {
  chain h;
  uint32_t round, i;
  for (round = 0; round < count; round++) {
    const uint32_t n = 1 + (uint32_t)chain_random(5);
    uint64_t least = UINT64_MAX, best = UINT64_MAX, full, budget;
    uint32_t mask;
    random_chain(&h, n, 1 + chain_random(12), 1);
    plan(&h, VRAM_PLANNER_PLAIN, 0, NULL);
    full = got.peak_bytes;
    budget = 1 + full / 2 + chain_random(full / 2 + 1);
    for (mask = 0; mask < 1u << (2 * n); mask++) {
      vram_move m[32];
      uint32_t k = 0;
      uint64_t peak, cost, host;
      memset(m, 0, sizeof m);
      for (i = 0; i < n; i++) {
        m[k].stage = i;
        m[k].way = (uint8_t)(mask >> (2 * i) & 1);
        m[k++].kind = mask >> (2 * i + 1) & 1 ? VRAM_MOVE_CHECKPOINT : VRAM_MOVE_SAVE;
      }
      while (i-- > 0) {
        if (mask >> (2 * i + 1) & 1) {
          m[k].stage = i;
          m[k].way = (uint8_t)(mask >> (2 * i) & 1);
          m[k++].kind = VRAM_MOVE_SAVE;
        }
        m[k].stage = i;
        m[k++].kind = VRAM_MOVE_BACKWARD;
      }
      if (!play_all(&h, m, k, &peak, &cost, &host))
        continue;
      least = peak < least ? peak : least;
      best = peak <= budget && cost < best ? cost : best;
    }
    snprintf(test_where, sizeof test_where, "stages, round %u", round);
    if (!NEED(plan(&h, VRAM_PLANNER_STAGES, budget, NULL) == VRAM_OK))
      continue;
    counted(&h);
    EQUAL(got.smallest_budget_bytes, least);
    EQUAL(got.feasible, best != UINT64_MAX);
    if (got.feasible)
      EQUAL(got.cost, best);
  }
  *test_where = 0;
}

/* ---- checkpoint_sequential, spans */

static uint32_t nexpect;
static vram_move expect[4096];

static void forth(uint32_t kind, uint32_t stage) {
  expect[nexpect].stage = stage;
  expect[nexpect].kind = (uint8_t)kind;
  expect[nexpect++].way = 0;
}

/* What PyTorch does with nested calls: in [first, last], calls from `at` on. */
static uint32_t calls(const vram_span *list, uint32_t count, uint32_t at, uint32_t first,
                      uint32_t last) {
  uint32_t i, j, k, mine[64], nmine = 0;
  for (i = first; i <= last;) {
    if (at < count && list[at].first == i && list[at].last <= last) {
      mine[nmine++] = at;
      forth(VRAM_MOVE_CHECKPOINT, i);
      for (j = i + 1; j <= list[at].last; j++)
        forth(VRAM_MOVE_DROP, j);
      i = j;
      for (k = at + 1; k < count && list[k].last <= list[at].last; k++)
        ;
      at = k;
    } else
      forth(VRAM_MOVE_SAVE, i++);
  }
  for (i = last + 1; i-- > first;) {
    if (nmine && list[mine[nmine - 1]].last == i) {
      const uint32_t m = mine[--nmine];
      calls(list, count, m + 1, list[m].first, list[m].last);
      i = list[m].first;
    } else
      forth(VRAM_MOVE_BACKWARD, i);
  }
  return at;
}

static void test_spans(void) {
  static const struct {
    uint32_t functions, segments, count, at[8];
  } row[] = {{9, 5, 4, {0, 1, 2, 3}},
             {10, 3, 2, {0, 3}},
             {10, 2, 1, {0}},
             {4, 1, 0, {0}},
             {7, 7, 6, {0, 1, 2, 3, 4, 5}}};
  static chain h;
  vram_span list[64];
  vram_schedule_options o;
  vram_move few[2] = {{0, VRAM_MOVE_DROP, 0}, {0, VRAM_MOVE_SAVE, 0}};
  uint32_t r, i, n;
  memset(&o, 0, sizeof o);
  for (r = 0; r < sizeof row / sizeof *row; r++) {
    snprintf(test_where, sizeof test_where, "%u functions in %u segments", row[r].functions,
             row[r].segments);
    equal_steps(&h, row[r].functions + 1);
    o.segments = row[r].segments;
    plan(&h, VRAM_PLANNER_SEQUENTIAL, 0, &o);
    CHECK(vram_schedule_spans(&h.c, got.move, got.nmove, list, 64, &n, &error) == VRAM_OK);
    EQUAL(n, row[r].count);
    for (i = 0; i < n; i++) {
      EQUAL(list[i].first, row[r].at[i]);
      EQUAL(list[i].last, row[r].at[i] + row[r].functions / row[r].segments - 1);
    }
  }
  for (r = 0; r < 300; r++) {
    const uint32_t stages = 1 + (uint32_t)chain_random(r % 10 ? 8 : 40);
    snprintf(test_where, sizeof test_where, "spans, round %u", r);
    random_chain(&h, stages, 1 + chain_random(12), 0);
    plan(&h, VRAM_PLANNER_OPTIMAL, 0, NULL);
    plan(&h, VRAM_PLANNER_OPTIMAL,
         got.smallest_budget_bytes + chain_random(got.peak_bytes - got.smallest_budget_bytes + 1),
         NULL);
    if (!CHECK(vram_schedule_spans(&h.c, got.move, got.nmove, list, 64, &n, &error) == VRAM_OK))
      continue;
    nexpect = 0;
    calls(list, n, 0, 0, stages - 1);
    if (EQUAL(nexpect, got.nmove))
      for (i = 0; i < nexpect; i++)
        CHECK(expect[i].kind == got.move[i].kind && expect[i].stage == got.move[i].stage);
    vram_schedule_spans(&h.c, got.move, got.nmove, NULL, 0, &i, &error);
    EQUAL(i, n);
  }
  *test_where = 0;
  equal_steps(&h, 3);
  CHECK(vram_schedule_spans(&h.c, few, 2, list, 64, &n, &error) == VRAM_ERR_UNSUPPORTED);
  EQUAL(error.line, 1);
}

/* ---- faults */

/* Whatever is done to a schedule: both replays say the same of it. */
static void test_faults(uint32_t count) {
  static vram_move move[1024];
  uint8_t scratch[64];
  uint32_t round, i, found = 0, tried = 0;
  chain h;
  for (round = 0; round < count; round++) {
    vram_schedule_options o;
    memset(&o, 0, sizeof o);
    o.offload = round % 2 == 1;
    random_chain(&h, 1 + (uint32_t)chain_random(6), 1 + chain_random(12), 1);
    h.c.transfer_cost = 1;
    plan(&h, VRAM_PLANNER_OPTIMAL, 1, &o);
    if (!NEED(got.nmove + 1 < sizeof move / sizeof *move))
      return;
    for (i = 0; i < 40; i++) {
      const uint32_t at = (uint32_t)chain_random(got.nmove), to = (uint32_t)chain_random(got.nmove);
      uint32_t n = got.nmove;
      uint64_t peak, cost, host;
      vram_schedule_count c;
      vram_result r;
      int ok;
      memcpy(move, got.move, n * sizeof *move);
      switch (chain_random(5)) {
      case 0: /* one is missing */
        memmove(move + at, move + at + 1, (--n - at) * sizeof *move);
        break;
      case 1: /* one twice */
        memmove(move + at + 1, move + at, (n++ - at) * sizeof *move);
        break;
      case 2: { /* two in each other's place */
        const vram_move was = move[at];
        move[at] = move[to];
        move[to] = was;
        break;
      }
      case 3:
        move[at].kind = (uint8_t)chain_random(VRAM_MOVE_COUNT + 1);
        break;
      default:
        move[at].stage = (uint32_t)chain_random(h.c.nstage + 1);
        move[at].way = (uint8_t)chain_random(3);
      }
      ok = play_all(&h, move, n, &peak, &cost, &host);
      r = vram_schedule_verify(&h.c, move, n, scratch, sizeof scratch, &c, &error);
      snprintf(test_where, sizeof test_where, "fault %u of round %u: %s", i, round, error.text);
      tried++;
      found += !ok;
      if (!EQUAL(r == VRAM_OK, ok))
        continue;
      if (ok) {
        EQUAL(c.peak_bytes, peak);
        EQUAL(c.cost, cost);
        EQUAL(c.host_bytes, host);
      } else
        CHECK(r == VRAM_ERR_VALUE && error.line && *error.text);
    }
  }
  *test_where = 0;
  CHECK(found > tried / 3 && found < tried);
}

static void refused(const chain *h, const vram_schedule_options *o, vram_result code, uint32_t line,
                    const char *text) {
  static const vram_schedule_options zero;
  EQUAL(vram_schedule_plan(&h->c, o ? o : &zero, memory, sizeof memory, &got, &error), code);
  EQUAL(error.code, code);
  EQUAL(error.line, line);
  TEXT(error.text, text);
  CHECK(vram_schedule_bytes(&h->c, o) == VRAM_OVERFLOW);
}

static void moves_refused(const chain *h, const char *moves, uint32_t line, const char *text) {
  uint8_t scratch[64];
  vram_move m[64];
  vram_schedule_count c;
  uint32_t n = 0, k;
  for (; *moves; moves += 2 + (moves[2] == ' ')) {
    for (k = 0; "dcsboOfF?"[k] != moves[0]; k++)
      ;
    m[n].kind = (uint8_t)k;
    m[n].stage = (uint32_t)(moves[1] - '0');
    m[n++].way = 0;
  }
  if (line) {
    EQUAL(vram_schedule_verify(&h->c, m, n, scratch, sizeof scratch, &c, &error), VRAM_ERR_VALUE);
    EQUAL(error.line, line);
    TEXT(error.text, text);
  } else
    EQUAL(vram_schedule_verify(&h->c, m, n, scratch, sizeof scratch, &c, &error), VRAM_OK);
}

static void test_errors(void) {
  vram_schedule_options o;
  chain h;
  uint64_t n, k;
  equal_steps(&h, 4);
  h.stage[1].name = "block";
  moves_refused(&h, "s0 s1 s2 s3 b3 b2 b1 b0", 0, "");
  moves_refused(&h, "s0 s1 s2 s3 b3 b2 b1", 1, "stage 0: the moves end before it has run backward");
  moves_refused(&h, "", 4, "stage 3: the moves end before it has run backward");
  moves_refused(&h, "s0 s2", 2, "move 1, save of stage 2: its input is not there");
  moves_refused(&h, "d0 d1 d1", 3, "move 2, drop of stage 1 (block): its input is not there");
  moves_refused(&h, "c0 c0", 2, "move 1, checkpoint of stage 0: its output is there already");
  moves_refused(&h, "s0 s1 s2 s3 b2", 5,
                "move 4, backward of stage 2: the gradient of its output is not there");
  moves_refused(&h, "s0 s1 s2 s3 b3 b3", 6, "move 5, backward of stage 3: it has run already");
  moves_refused(&h, "s0 s1 s2 s3 b3 s3", 6, "move 5, save of stage 3: it has run backward already");
  moves_refused(&h, "s0 s1 c2 s3 b3 b2", 6,
                "move 5, backward of stage 2: what it saves is not there");
  moves_refused(&h, "s0 s1 o1 b1", 4,
                "move 3, backward of stage 1 (block): the gradient of its output is not there");
  moves_refused(&h, "s0 s1 s2 s3 o3 b3", 6,
                "move 5, backward of stage 3: its input is on the host");
  moves_refused(&h, "s0 s1 s2 s3 O3 b3", 6,
                "move 5, backward of stage 3: what it saved is on the host");
  moves_refused(&h, "o0 s0", 2, "move 1, save of stage 0: its input is on the host");
  moves_refused(&h, "f0", 1, "move 0, fetch of stage 0: its input is not on the host");
  moves_refused(&h, "F0", 1, "move 0, fetch_saved of stage 0: what it saved is not on the host");
  moves_refused(&h, "O0", 1, "move 0, offload_saved of stage 0: what it saves is not there");
  moves_refused(&h, "o1", 1, "move 0, offload of stage 1 (block): its input is not there");
  moves_refused(&h, "s7", 1, "move 0, save of 7: no such stage");
  moves_refused(&h, "?0", 1, "move 0, ? of stage 0: no such move");
  h.c.nstage = 0;
  refused(&h, NULL, VRAM_ERR_VALUE, 0, "a chain without stages (found 0, expected at least 1)");
  h.c.nstage = 4097;
  refused(&h, NULL, VRAM_ERR_LIMIT, 0,
          "a chain of too many stages (found 4097, expected at most 4096)");
  equal_steps(&h, 4);
  h.c.align = 24;
  refused(&h, NULL, VRAM_ERR_VALUE, 0, "align is no power of two (found 24)");
  h.c.align = 0;
  h.c.input_gradient_bytes = 7;
  refused(&h, NULL, VRAM_ERR_VALUE, 1,
          "input_gradient_bytes (found 7, expected 0 or input_bytes, 1)");
  equal_steps(&h, 4);
  h.stage[1].nway = 0;
  refused(&h, NULL, VRAM_ERR_VALUE, 2, "stage 1: no way to save (found 0, expected at least 1)");
  h.stage[1].nway = 300;
  refused(&h, NULL, VRAM_ERR_LIMIT, 2, "stage 1: too many ways to save (expected at most 255)");
  h.stage[1].nway = 1;
  h.stage[2].name = "head";
  h.way[2][0].saved_bytes = 0;
  refused(&h, NULL, VRAM_ERR_VALUE, 3,
          "stage 2 (head): way 0 has saved_bytes 0 (expected at least output_bytes, 1)");
  equal_steps(&h, 4);
  h.stage[3].output_bytes = h.way[3][0].saved_bytes = 8;
  refused(&h, NULL, VRAM_ERR_VALUE, 4,
          "stage 3: the last stage, the loss, has output_bytes (expected 0)");
  equal_steps(&h, 4);
  h.stage[0].output_bytes = h.way[0][0].saved_bytes = UINT64_C(1) << 62;
  refused(&h, NULL, VRAM_ERR_OVERFLOW, 1,
          "stage 0: the bytes up to here add up to more than 2^63-1");
  equal_steps(&h, 4);
  h.way[1][0].backward_temp_bytes = UINT64_MAX;
  refused(&h, NULL, VRAM_ERR_OVERFLOW, 2,
          "stage 1: the bytes up to here add up to more than 2^63-1");
  equal_steps(&h, 4);
  h.stage[1].forward_cost = UINT64_C(1) << 62;
  h.way[2][0].backward_cost = UINT64_C(1) << 62;
  refused(&h, NULL, VRAM_ERR_OVERFLOW, 3,
          "stage 2: the costs up to here add up to more than 2^63-1");
  equal_steps(&h, 4);
  h.c.transfer_cost = UINT64_C(1) << 62;
  refused(&h, NULL, VRAM_ERR_OVERFLOW, 0, "transfer_cost of the chain's bytes is more than 2^63-1");
  equal_steps(&h, 4);
  memset(&o, 0, sizeof o);
  o.planner = (vram_planner)9;
  refused(&h, &o, VRAM_ERR_VALUE, 0, "no such planner");
  o.planner = VRAM_PLANNER_PLAIN;
  o.segments = 2;
  refused(&h, &o, VRAM_ERR_VALUE, 0, "segments is for planner sequential (found plain)");
  o.planner = VRAM_PLANNER_SEQUENTIAL;
  o.segments = 4;
  refused(&h, &o, VRAM_ERR_VALUE, 0,
          "more segments than stages before the loss (found 4, expected at most 3)");
  o.segments = 0;
  o.snapshots = 1;
  refused(&h, &o, VRAM_ERR_VALUE, 0, "snapshots is for planner revolve (found sequential)");
  o.snapshots = 0;
  o.offload = 1;
  refused(&h, &o, VRAM_ERR_VALUE, 0, "offload is for planner optimal (found sequential)");
  /* forwards that are dear, and many of them */
  equal_steps(&h, 60);
  for (k = 0; k < 60; k++)
    h.stage[k].forward_cost = UINT64_C(1) << 57;
  EQUAL(plan(&h, VRAM_PLANNER_OPTIMAL, 1, NULL), VRAM_ERR_OVERFLOW);
  /* the largest that is allowed */
  equal_steps(&h, 3);
  h.stage[0].output_bytes = h.way[0][0].saved_bytes = UINT64_C(1) << 60;
  h.stage[0].forward_cost = h.way[0][0].forward_cost = UINT64_C(1) << 61;
  EQUAL(plan(&h, VRAM_PLANNER_OPTIMAL, 1, NULL), VRAM_OK);
  counted(&h);
  for (n = 0; n < VRAM_PLANNER_COUNT; n++) {
    uint64_t bytes, i;
    random_chain(&h, 5, 12, 1);
    memset(&o, 0, sizeof o);
    o.planner = (vram_planner)n;
    o.budget_bytes = 1;
    bytes = vram_schedule_bytes(&h.c, &o);
    for (i = 0; i < bytes; i += i < 64 || i + 64 > bytes ? 1 : 61) {
      EQUAL(vram_schedule_plan(&h.c, &o, memory, i, &got, &error), VRAM_ERR_MEMORY);
      CHECK(got.move == NULL && error.code == VRAM_ERR_MEMORY);
    }
    for (i = 0; i < 16; i++) { /* wherever it begins */
      void *m = test_scratch(bytes + i);
      if (NEED(m != NULL))
        EQUAL(vram_schedule_plan(&h.c, &o, (uint8_t *)m + i, bytes, &got, &error), VRAM_OK);
      free(m);
    }
  }
  for (k = 0; k < vram_schedule_verify_bytes(&h.c); k++) {
    vram_schedule_count c;
    EQUAL(vram_schedule_verify(&h.c, expect, 0, memory, k, &c, &error), VRAM_ERR_MEMORY);
  }
  TEXT(vram_move_name(VRAM_MOVE_FETCH_SAVED), "fetch_saved");
  TEXT(vram_move_name(99), "?");
  TEXT(vram_planner_name(VRAM_PLANNER_SEQUENTIAL), "sequential");
  TEXT(vram_planner_name(99), "?");
}

/* The same moves on every machine. */
static void test_same(void) {
  static const struct {
    uint32_t stages;
    int offload;
    uint64_t hash, cost;
  } row[] = {{12, 0, UINT64_C(4504893898215772588), UINT64_C(9909522423557)},
             {40, 0, UINT64_C(15578256392926183068), UINT64_C(33537726109434)},
             {60, 0, UINT64_C(16983873220222370782), UINT64_C(39976492796169)},
             {12, 1, UINT64_C(1578579664969295050), UINT64_C(10426824272020)}};
  static chain h;
  uint32_t r, i;
  chain_random_state = UINT64_C(88172645463325252);
  for (r = 0; r < sizeof row / sizeof *row; r++) {
    vram_schedule_options o;
    uint64_t hash = UINT64_C(14695981039346656037), full;
    memset(&o, 0, sizeof o);
    o.offload = row[r].offload;
    o.slots = 100;
    large_chain(&h, row[r].stages, 0);
    h.c.transfer_cost = 1000;
    plan(&h, VRAM_PLANNER_PLAIN, 0, NULL);
    full = got.peak_bytes;
    plan(&h, VRAM_PLANNER_OPTIMAL, full / 5 * 2, &o);
    for (i = 0; i < got.nmove; i++)
      hash = (hash ^ (got.move[i].stage * 8 + got.move[i].kind)) * UINT64_C(1099511628211);
    snprintf(test_where, sizeof test_where, "golden %u", r);
    EQUAL(hash, row[r].hash);
    EQUAL(got.cost, row[r].cost);
    CHECK(got.feasible);
  }
  *test_where = 0;
}

int main(int argc, char **argv) {
  const uint32_t count = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 100;
  if (argc < 3)
    return 2;
  test_same();
  test_rotor(argv[1]);
  test_revolve(argv[2]);
  if (count > 1000)
    test_all_chains(count < 10000 ? 4 : 5); /* five: two minutes */
  test_optimum(count);
  test_planners(count / 10);
  test_stages(count);
  test_spans();
  test_faults(count);
  test_errors();
  return test_done("test_schedule");
}
