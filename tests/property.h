/* What must hold for every model and every step, whatever the figures are. */
#ifndef PROPERTY_H
#define PROPERTY_H

#include "play.h"

/* Of a custom op it is not known when it takes its workspace: its step may need less than the
 * stream. */
static PLAY_UNUSED int property_custom(const play *p) {
  const vram_node *n;
  for (n = p->graph.first; n && n->op != VRAM_OP_custom;)
    n = n->next;
  return n != NULL;
}

/* The events, counted here, against the report: every id is allocated once and freed at most once
   with the same size, all sums agree, and what is left at the end belongs there. */
static PLAY_UNUSED void property_events(const play *p, const vram_step_options *o) {
  const vram_report *r = &p->report;
  play_phase phase[VRAM_PHASE_COUNT];
  uint64_t left = 0, before, gone = 0, sum = 0;
  int64_t *at, next = 0;
  size_t i;
  int k, bad_id = 0, bad_free = 0, bad_phase = 0, last = 0;
  at = (int64_t *)malloc((p->count + 1) * sizeof *at); /* id -> event + 1; 0: freed */
  if (!at)
    abort();
  for (i = 0; i < p->count; i++) {
    const play_event *e = p->event + i;
    bad_phase |= e->category >= VRAM_CATEGORY_COUNT ||
                 (e->phase < last && !(o->accumulate > 1 && e->phase == VRAM_PHASE_FORWARD &&
                                       last == VRAM_PHASE_BACKWARD));
    last = e->phase;
    if (e->action == VRAM_ACTION_ALLOC) {
      bad_id |= e->id != next || !e->bytes;
      at[next++] = (int64_t)i + 1;
    } else if (e->id < 0)
      gone += e->bytes;
    else if (e->id >= next || !at[e->id] || p->event[at[e->id] - 1].bytes != e->bytes)
      bad_free++;
    else
      at[e->id] = 0;
  }
  CHECK(!bad_phase); /* phases in order, categories that exist */
  CHECK(!bad_id);    /* ids 0, 1, ... and no empty allocation */
  EQUAL(bad_free, 0);
  for (i = 0; i < (size_t)next; i++)
    if (at[i])
      left += p->event[at[i] - 1].bytes;
  free(at);
  /* the report's phases are these events on top of what was there before */
  play_count(p, phase);
  before = r->phase[VRAM_PHASE_FORWARD].requested_bytes - (uint64_t)phase[VRAM_PHASE_FORWARD].end;
  CHECK(before >= r->params_bytes + r->buffers_bytes + r->inputs_bytes);
  for (k = o->train ? VRAM_PHASE_ZERO_GRAD : VRAM_PHASE_FORWARD; k <= VRAM_PHASE_END; k++) {
    if (!o->train && k > VRAM_PHASE_FORWARD)
      break;
    if (k == VRAM_PHASE_EVALUATION && !o->evaluation)
      continue;
    EQUAL(r->phase[k].requested_bytes, before + (uint64_t)phase[k].end);
    EQUAL(r->phase[k].requested_peak_bytes, before + (uint64_t)phase[k].peak);
    CHECK(r->phase[k].requested_bytes <= r->phase[k].requested_peak_bytes);
    CHECK(r->phase[k].allocated_peak_bytes >= r->phase[k].requested_peak_bytes);
    CHECK(r->peak_requested_bytes >= r->phase[k].requested_peak_bytes);
  }
  if (o->train) {
    EQUAL(r->phase[VRAM_PHASE_END].requested_bytes, before - gone + left);
    if (!o->first_step) { /* a steady step ends as it began */
      EQUAL(left, gone);
    }
  }
  CHECK(r->saved_bytes <= r->phase[VRAM_PHASE_FORWARD].requested_bytes);
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    sum += r->peak_category_bytes[k];
  EQUAL(sum, r->peak_requested_bytes);
  CHECK(r->peak_allocated_bytes.lower <= r->peak_allocated_bytes.expected &&
        r->peak_allocated_bytes.expected <= r->peak_allocated_bytes.upper);
  CHECK(r->peak_allocated_bytes.lower >= r->peak_requested_bytes || property_custom(p));
  CHECK(r->device_bytes.lower <= r->device_bytes.expected &&
        r->device_bytes.expected <= r->device_bytes.upper);
}

/* The same step without listener, once more with one, and the live set at its peak. */
static PLAY_UNUSED void property_again(play *p, const vram_step_options *options) {
  vram_report first = p->report;
  vram_step_options o = *options;
  uint64_t hash = play_hash(p), sum = 0;
  uint32_t count = 0, i;
  vram_live *live;
  if (!NEED(play_step(p, options) == VRAM_OK))
    return;
  EQUAL(play_hash(p), hash);
  o.event = NULL;
  if (!NEED(vram_step(&p->graph, &o, p->scratch, p->scratch_bytes, &p->report, &p->error) ==
            VRAM_OK))
    return;
  for (i = 0; i < VRAM_PHASE_COUNT; i++) {
    EQUAL(p->report.phase[i].requested_bytes, first.phase[i].requested_bytes);
    EQUAL(p->report.phase[i].requested_peak_bytes, first.phase[i].requested_peak_bytes);
    EQUAL(p->report.phase[i].allocated_bytes, first.phase[i].allocated_bytes);
    EQUAL(p->report.phase[i].allocated_peak_bytes, first.phase[i].allocated_peak_bytes);
  }
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    EQUAL(p->report.peak_category_bytes[i], first.peak_category_bytes[i]);
  EQUAL(p->report.saved_bytes, first.saved_bytes);
  EQUAL(p->report.optimizer_bytes, first.optimizer_bytes);
  EQUAL(p->report.gradients_bytes, first.gradients_bytes);
  EQUAL(p->report.peak_requested_bytes, first.peak_requested_bytes);
  live = (vram_live *)malloc(((size_t)first.events + p->graph.nparam + p->graph.ninput + 64) *
                             sizeof *live);
  if (!live)
    abort();
  if (NEED(vram_step_live(&p->graph, &o, p->scratch, p->scratch_bytes, &p->report, live,
                          (uint32_t)first.events + p->graph.nparam + p->graph.ninput + 64,
                          &count) == VRAM_OK)) {
    for (i = 0; i < count; i++)
      sum += live[i].bytes;
    EQUAL(sum, first.peak_requested_bytes);
  }
  free(live);
  p->report = first;
}

/* The same step in a replay: what is requested stays, blocks hold it, segments hold the blocks; on
   a device that has just as much nothing changes, on one with a little less than the blocks it
   ends. */
static PLAY_UNUSED void property_replayed(play *p, const vram_step_options *options) {
  const vram_report plain = p->report;
  const uint64_t hash = play_hash(p);
  vram_step_options o = *options;
  vram_pool_options pool;
  vram_report first;
  int i, peak = 0;
  memset(&pool, 0, sizeof pool);
  o.replay = &pool;
  if (!NEED(play_step(p, &o) == VRAM_OK))
    return;
  if (plain.peak_requested_bytes >= (uint64_t)1 << 59) { /* more than PyTorch asks a device for */
    p->report = plain;
    return;
  }
  if (!NEED(p->report.replayed))
    return;
  EQUAL(play_hash(p), hash);
  CHECK(p->report.scratch_used <= p->scratch_bytes);
  EQUAL(p->report.num_ooms, 0);
  EQUAL(p->report.num_alloc_retries, 0);
  EQUAL(p->report.saved_bytes, plain.saved_bytes);
  EQUAL(p->report.peak_requested_bytes, plain.peak_requested_bytes);
  EQUAL(p->report.peak_allocated_bytes.lower, plain.peak_allocated_bytes.lower);
  CHECK(p->report.peak_allocated_bytes.expected >= plain.peak_allocated_bytes.lower);
  CHECK(p->report.peak_reserved_bytes >= p->report.peak_allocated_bytes.expected);
  CHECK(p->report.device_bytes.expected <= p->report.device_bytes.upper);
  for (i = 0; i < VRAM_PHASE_COUNT; i++) {
    const vram_phase_report *a = &p->report.phase[i], *b = &plain.phase[i];
    EQUAL(a->requested_bytes, b->requested_bytes);
    EQUAL(a->requested_peak_bytes, b->requested_peak_bytes);
    if (i && (i == VRAM_PHASE_FORWARD || options->train)) {
      CHECK(a->allocated_bytes >= b->allocated_bytes && a->reserved_bytes >= a->allocated_bytes);
      CHECK(a->reserved_peak_bytes >= a->allocated_peak_bytes && a->reserved_bytes % 2097152 == 0);
    }
    if (a->allocated_peak_bytes > p->report.phase[peak].allocated_peak_bytes)
      peak = i;
  }
  EQUAL(p->report.peak_allocated_bytes.expected, p->report.phase[peak].allocated_peak_bytes);
  first = p->report;
  o.event = NULL; /* then one step on tape stands for all of them, if they are alike */
  EQUAL(vram_step(&p->graph, &o, p->scratch, p->scratch_bytes, &p->report, &p->error), VRAM_OK);
  EQUAL(p->report.peak_allocated_bytes.expected, first.peak_allocated_bytes.expected);
  EQUAL(p->report.peak_reserved_bytes, first.peak_reserved_bytes);
  EQUAL(p->report.saved_bytes, first.saved_bytes);
  EQUAL(p->report.optimizer_bytes, first.optimizer_bytes);
  EQUAL(p->report.gradients_bytes, first.gradients_bytes);
  EQUAL(p->report.events, first.events);
  for (i = 0; i < VRAM_PHASE_COUNT; i++) {
    const vram_phase_report *a = &p->report.phase[i], *b = &first.phase[i];
    EQUAL(a->requested_peak_bytes, b->requested_peak_bytes);
    EQUAL(a->allocated_bytes, b->allocated_bytes);
    EQUAL(a->allocated_peak_bytes, b->allocated_peak_bytes);
    EQUAL(a->reserved_bytes, b->reserved_bytes);
    EQUAL(a->reserved_peak_bytes, b->reserved_peak_bytes);
  }
  o.context_bytes = VRAM_NO_CONTEXT;
  o.budget_bytes = first.peak_reserved_bytes;
  CHECK(play_step(p, &o) == VRAM_OK && p->report.fits);
  EQUAL(p->report.num_alloc_retries, 0);
  EQUAL(p->report.peak_reserved_bytes, first.peak_reserved_bytes);
  o.budget_bytes = plain.peak_allocated_bytes.lower - 1;
  if (plain.peak_allocated_bytes.lower > 1)
    CHECK(play_step(p, &o) == VRAM_OK && !p->report.fits);
  p->report = plain;
}

/* Of reports, that vram_step fills with zeros first: what lies between their fields is equal, too.
 */
static PLAY_UNUSED int bytes_differ(const void *a, const void *b, size_t n) {
  return memcmp(a, b, n) != 0;
}

/* n micro-batches of which most are not played, without a listener, against all of them, with one.
   Without a listener or a replay the optimizer's events are not counted, whatever n is. */
static PLAY_UNUSED void property_folded(play *p, const vram_step_options *options, uint32_t n,
                                        const vram_pool_options *replay) {
  const vram_report plain = p->report;
  const uint32_t counts[2] = {1, n};
  vram_step_options o = *options;
  uint64_t uncounted = 0;
  int i;
  o.replay = replay;
  for (i = 0; i < 2; i++) {
    vram_report played;
    o.accumulate = counts[i];
    if (!NEED(play_step(p, &o) == VRAM_OK))
      break;
    played = p->report;
    EQUAL(played.events, p->count);
    o.event = NULL;
    if (!NEED(vram_step(&p->graph, &o, p->scratch, p->scratch_bytes, &p->report, &p->error) ==
              VRAM_OK))
      break;
    CHECK(p->report.scratch_used <= p->scratch_bytes);
    played.scratch_used = p->report.scratch_used;
    if (!i)
      uncounted = played.events - p->report.events;
    EQUAL(played.events - p->report.events, uncounted);
    played.events = p->report.events;
    if (p->report.peak_event == UINT64_MAX)
      played.peak_event = UINT64_MAX;
    EQUAL(p->report.peak_event, played.peak_event);
    EQUAL(p->report.peak_reserved_bytes, played.peak_reserved_bytes);
    CHECK(!bytes_differ(&p->report, &played, sizeof played));
  }
  p->report = plain;
}

/* b is the same model with a larger dim: no figure is lower. */
static PLAY_UNUSED void property_grown(const play *a, const play *b) {
  const vram_report *x = &a->report, *y = &b->report;
  int k;
  CHECK(x->params_bytes <= y->params_bytes);
  CHECK(x->buffers_bytes <= y->buffers_bytes);
  CHECK(x->inputs_bytes <= y->inputs_bytes);
  CHECK(x->gradients_bytes <= y->gradients_bytes);
  CHECK(x->optimizer_bytes <= y->optimizer_bytes);
  CHECK(x->saved_bytes <= y->saved_bytes);
  for (k = 0; k < VRAM_PHASE_COUNT; k++) {
    CHECK(x->phase[k].requested_bytes <= y->phase[k].requested_bytes);
    CHECK(x->phase[k].requested_peak_bytes <= y->phase[k].requested_peak_bytes);
  }
  CHECK(x->peak_requested_bytes <= y->peak_requested_bytes);
  CHECK(x->peak_allocated_bytes.upper <= y->peak_allocated_bytes.upper);
}

#endif
