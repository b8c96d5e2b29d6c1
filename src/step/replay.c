/* >>step/replay    a whole run through the caching allocator, repeated steps from a tape */
#include "step/step.h"

/* A run that comes after the one that s played. */
static uint32_t vram__run_after(const vram__step *s) {
  return VRAM__RUN_PAST_KNOWN | (s->rnn_reset ? VRAM__RUN_RNN_RESET : 0) |
         (s->rnn_cudnn ? 0 : VRAM__RUN_RNN_CELLS) |
         s->blas_workspaces * (uint32_t)VRAM__RUN_WORKSPACES;
}

/* Workspaces of products stay from one step to the next. */
static int vram__blas_workspaces_stay(const vram_graph *g, const vram_step_options *o) {
  return vram__rules_of_torch(vram_step_rules(g, o))->cublas.kept;
}

/* What a steady step begins with, beside gradients that go at once, must be known then. */
static int vram__step_needs_past(const vram_graph *g, const vram_step_options *o) {
  return g->nkept ||
         (o->train && (o->parallel || o->keep_grads || o->zero_grad_late || o->zero_grad_end ||
                       o->last_batch || o->evaluation || g->nbackward));
}

/* Which leaves get a gradient, and which workspaces stay, decides what a steady step begins with.
   Where that must be known at the beginning, a step that nobody sees finds it out. */
VRAM__FN vram_result vram__replay_play(const vram_graph *g, const vram_step_options *o,
                                       void *scratch, uint64_t scratch_bytes, vram_report *report,
                                       vram__step *s) {
  vram_step_options quiet;
  vram_live *live = s->count.live;
  uint64_t stop_at = s->count.stop_at;
  const int past = vram__step_needs_past(g, o);
  const int lasting = o->train || vram__blas_workspaces_stay(g, o);
  const uint32_t before = vram__steps_before(o);
  vram__wrapper w;
  vram_result r;
  uint32_t i;
  if (o->first_step || !(past || (lasting && (o->event || stop_at)))) {
    r = vram__step_run(g, o, scratch, scratch_bytes, report, s,
                       vram__blas_workspaces_stay(g, o) ? VRAM__RUN_AGAIN : 0);
    if (r || o->first_step ||
        !(s->blas_workspaces ||
          (o->train && (s->leaf.missing || (s->rnn_reset && s->rnn_dropout.d)))))
      return r;
    s->count.live = live;
    s->count.stop_at = stop_at;
    return vram__step_run(g, o, scratch, scratch_bytes, report, s, vram__run_after(s));
  }
  quiet = *o;
  quiet.event = NULL;
  quiet.nodes = NULL;
  if (o->parallel)
    quiet.first_step = 1;
  else
    quiet.keep_grads = 0;
  if (!o->parallel || s->layers) /* which leaves get one shows in one micro-batch */
    quiet.accumulate = 1;
  s->count.stop_at = 0;
  r = vram__step_run(g, &quiet, scratch, scratch_bytes, report, s, VRAM__RUN_AGAIN);
  quiet.first_step = 0;
  for (i = 2; i <= before && !r && vram__wrapper_of(o, &w) && w.every; i++)
    r = vram__step_run(g, &quiet, scratch, scratch_bytes, report, s,
                       VRAM__RUN_AGAIN | vram__run_after(s) | i * (uint32_t)VRAM__RUN_NTH);
  s->count.live = live;
  s->count.stop_at = stop_at;
  return r ? r
           : vram__step_run(g, o, scratch, scratch_bytes, report, s,
                            vram__run_after(s) | (before + 1) * (uint32_t)VRAM__RUN_NTH);
}

/* One step more has been played: whose blocks stay. A forward pass's results go. */
static void vram__step_play_kept(vram__step *s) {
  uint32_t i;
  for (i = 0; i < s->nslot && !s->train && !s->g->nkept; i++) {
    const uint32_t slot = vram__slot_number(s, i);
    const vram__storage *st = vram__slot_at(s, slot);
    if (st->base == slot && st->srefs && st->id != UINT32_MAX && st->cat != VRAM_CATEGORY_WORKSPACE)
      vram__replay_put(s->replay, st->block);
  }
  for (i = 0; i < s->leaf.count && i < s->g->nparam + s->g->ninput; i++) {
    const uint32_t st = s->leaf.at[i].grad.st;
    s->replay->gradient[i] = st ? vram__owner_at(s, st)->block : 0;
  }
  for (i = 0; s->g->context && i < s->g->ninput; i++) {
    const uint32_t st = s->variable[s->name_of[s->g->input[i]->index]].t.st;
    s->replay->input[i] = st ? vram__owner_at(s, st)->block : 0;
  }
  VRAM__WRAPPER_DO(s, lasts);
  s->replay->rnn_dropout = s->rnn_dropout.st ? vram__slot_at(s, s->rnn_dropout.st)->block : 0;
  s->replay->fresh = 0;
}

static void vram__replay_tape_part(vram__step *s, uint32_t from, uint32_t to, uint32_t *id,
                                   vram_phase_report *phase) {
  vram__replay *run = s->replay;
  uint32_t i;
  for (i = from; i < to; i++) {
    const uint64_t value = run->tape[i] >> VRAM__TAPE_BITS;
    const uint32_t stream = (uint32_t)(run->tape[i] >> VRAM__TAPE_STREAM) & (VRAM__STREAMS - 1);
    switch (run->tape[i] & ((1u << VRAM__TAPE_STREAM) - 1)) {
    case VRAM__TAPE_ALLOC:
      run->block[(*id)++] = vram__replay_get(s, value, stream);
      break;
    case VRAM__TAPE_FREE:
      vram__replay_put(run, run->block[value]);
      break;
    case VRAM__TAPE_OWN:
      vram__replay_get(s, value, stream);
      break;
    case VRAM__TAPE_SEARCH:
      if (run->fresh)
        vram__replay_get_briefly(run, value);
      break;
    case VRAM__TAPE_BRIEF:
      vram__replay_get_briefly(run, value);
      break;
    default:
      vram__replay_phase(run, phase + value);
    }
  }
}

/* What the step leaves behind and the next one frees: gradients, inputs first, or the results of
   inference. Their ids go to run->gradient; how many. */
static uint32_t vram__replay_find_left(vram__step *s, uint32_t room) {
  vram__replay *run = s->replay;
  uint32_t i, k, n = 0;
  for (k = 0; s->o->train && k < s->leaf.count; k++) {
    const uint32_t at = k + s->leaf.parameters;
    const vram__leaf *l = s->leaf.at + (at < s->leaf.count ? at : at - s->leaf.count);
    const uint32_t st = l->grad.st;
    run->untold |= s->leaf.shared | (st && n == room);
    if (st && n < room)
      run->gradient[n++] = vram__owner_at(s, st)->id;
  }
  for (i = 0; !s->o->train && i < s->nslot; i++) {
    const uint32_t slot = vram__slot_number(s, i);
    const vram__storage *st = vram__slot_at(s, slot);
    if (st->base != slot || !st->srefs || st->id == UINT32_MAX)
      continue;
    run->untold |= n == room;
    if (n < room)
      run->gradient[n++] = st->id;
  }
  return n;
}

/* The optimizer's first step behind a steady one, for the tape; the report stays as it is. */
static void vram__replay_tape_first(vram__step *s, vram_report *report) {
  const vram_step_options *o = s->o;
  const uint64_t optimizer_bytes = report->optimizer_bytes;
  vram_step_options first = *o;
  first.first_step = 1;
  s->o = &first;
  vram__optim_now(s);
  s->o = o;
  report->optimizer_bytes = optimizer_bytes;
  s->replay->untold |= s->failed != 0;
}

/* Micro-batches that a tape is made of. Of more of them most are not played (step/micro), but only
   where it is known what the pool does. */
#define VRAM__TAPE_MICRO 4

/* Steps of a run are alike but for zero_grad and the optimizer's first: one step is played onto a
   tape, and the tape into the pool, which takes less than playing every step. run->untold: this
   model's steps are not so much alike. */
static vram_result vram__replay_play_tape(const vram_graph *g, const vram_step_options *o,
                                          void *scratch, uint64_t scratch_bytes,
                                          vram_report *report, vram__step *s) {
  const uint32_t steps = o->train ? 3 : 2, room = g->nparam + g->ninput;
  vram__replay *run = s->replay;
  vram_phase_report before[VRAM_PHASE_COUNT];
  uint32_t i, k, n, end, id = 0, first_id;
  vram_result r;
  vram__memory_zero(before, sizeof before);
  run->taping = 1;
  r = vram__step_run(g, o, scratch, scratch_bytes, report, s, 0);
  run->untold |= s->leaf.missing | s->rnn_reset;
  end = run->ntape;
  first_id = run->ids;
  if (r || run->untold) {
    run->taping = 0;
    return r;
  }
  n = vram__replay_find_left(s, room);
  if (o->train)
    vram__replay_tape_first(s, report);
  for (k = 0; k < n; k++)
    run->untold |= run->gradient[k] >= run->ids;
  run->taping = 0;
  if (run->untold)
    return VRAM_OK;
  s->failed = VRAM_OK;
  vram__replay_tape_part(s, 0, run->body, &id, NULL);
  for (i = 0; i < steps && !s->failed; i++) {
    vram_phase_report *phase = i + 1 < steps ? before : report->phase;
    for (k = 0; k < VRAM_PHASE_COUNT; k++)
      phase[k].allocated_peak_bytes = phase[k].reserved_peak_bytes = 0;
    for (k = 0; k < n && i; k++)
      vram__replay_put(run, run->block[run->gradient[k]]);
    id = 0;
    vram__replay_tape_part(s, run->body, run->optim, &id, phase);
    if (!i && o->train)
      vram__replay_tape_part(s, end, run->ntape, &first_id, phase);
    else
      vram__replay_tape_part(s, run->optim, run->after, &id, phase);
    vram__replay_tape_part(s, run->after, end, &id, phase);
    run->fresh = 0;
  }
  vram__report_blocks_known(report, o, run);
  return VRAM_OK;
}

/* What comes before the first step; bits of VRAM__RUN_ for that. */
static uint32_t vram__replay_play_dry_run(vram_step_options quiet, void *scratch,
                                          uint64_t scratch_bytes, vram_report *report,
                                          vram__step *s, vram_result *r) {
  const vram_graph *g = quiet.dry_run;
  quiet.first_step = 1;
  quiet.amp = (vram_dtype)0;
  quiet.prefetch = 0;
  quiet.ema = VRAM_EMA_NONE;
  *r = vram__step_run(g, &quiet, scratch, scratch_bytes, report, s, VRAM__RUN_DRY);
  s->replay->fresh = 1;
  return s->blas_workspaces * (uint32_t)VRAM__RUN_WORKSPACES;
}

/* A device with so much room and nothing on it; `at`: memory of its allocator, which gets *options.
 */
VRAM__FN vram_result vram__replay_device(vram__replay *run, vram_pool_options *options,
                                         uint64_t room, uint32_t streams, void *at,
                                         uint64_t pool_bytes) {
  vram_backend device;
  vram_result r;
  vram__memory_zero(run, sizeof *run);
  vram__memory_zero(&device, sizeof device);
  device.alloc = vram__replay_alloc, device.free = vram__replay_free;
  device.reserve = vram__replay_reserve, device.unreserve = vram__replay_unreserve;
  device.map = vram__replay_map, device.unmap = vram__replay_unmap;
  device.user = run;
  run->room = room;
  run->next = VRAM__LARGE_SEGMENT;
  run->fresh = 2;
  options->streams = streams;
  if (!options->total_bytes)
    options->total_bytes = UINT64_C(1) << 40;
  r = vram_pool_init(&run->pool, options, &device, at, pool_bytes, NULL);
  run->pool.terse = 1;
  return r;
}

/* The whole run on a device with so much room. */
static vram_result vram__replay_play_on(const vram_graph *g, const vram_step_options *o,
                                        uint64_t room, int tight, void *scratch,
                                        uint64_t scratch_bytes, vram_report *report,
                                        vram__step *s) {
  const uint64_t pool_bytes = vram_pool_bytes(vram__replay_blocks(g, o), vram__replay_streams(o));
  vram_pool_options options = *o->replay;
  vram_step_options quiet = *o;
  uint32_t before = vram__steps_before(o);
  vram__replay run;
  vram_result r;
  uint32_t i, left = 0;
  uint8_t *at = (uint8_t *)scratch + scratch_bytes;
  at += (8 - (uint64_t)(uintptr_t)at % 8) % 8;
  if (tight)
    options.event = NULL;
  r = vram__replay_device(&run, &options, room, vram__replay_streams(o), at, pool_bytes);
  if (r)
    return r;
  run.tape = (uint64_t *)(void *)(at + (pool_bytes + 7) / 8 * 8);
  run.tape_cap = vram__replay_tape_events(g);
  run.block = (uint32_t *)(void *)(run.tape + run.tape_cap);
  run.gradient = run.block + run.tape_cap;
  vram__memory_zero(run.gradient, ((uint64_t)g->nparam + g->ninput) * sizeof *run.gradient);
  run.input = run.gradient + g->nparam + g->ninput;
  run.tight = tight != 0;
  s->replay = &run;
  run.untold = o->parallel || (o->train && o->accumulate > VRAM__TAPE_MICRO) || o->event ||
               options.event || o->first_step || vram__in_backward_is(o) || (o->train && o->ema) ||
               vram__step_needs_past(g, o) || g->rnn_dropout || vram__blas_workspaces_stay(g, o) ||
               (o->train && (o->amp == VRAM_F16 || o->dry_run));
  if (!run.untold)
    r = vram__replay_play_tape(g, o, scratch, scratch_bytes, report, s);
  if (!run.untold || r)
    before = 0;
  quiet.event = NULL;
  quiet.nodes = NULL;
  quiet.first_step = 1;
  if (!r && o->train && o->dry_run)
    left = vram__replay_play_dry_run(quiet, scratch, scratch_bytes, report, s, &r);
  for (i = 0; i < before && !r; i++) {
    r = vram__step_run(g, &quiet, scratch, scratch_bytes, report, s,
                       VRAM__RUN_AGAIN | (i ? vram__run_after(s) : left) |
                           (i + 1) * (uint32_t)VRAM__RUN_NTH);
    if (!r)
      vram__step_play_kept(s);
    quiet.first_step = 0;
  }
  if (!r && run.untold)
    r = vram__step_run(g, o, scratch, scratch_bytes, report, s,
                       (before ? vram__run_after(s) : left) |
                           (before + 1) * (uint32_t)VRAM__RUN_NTH);
  s->replay = NULL;
  if (tight && run.oom)
    report->num_ooms = 1; /* the report is not complete */
  return tight && run.oom ? VRAM_OK : r;
}

/* 1: the whole run finds its memory in so much room; *r is what it takes there. */
VRAM__FN int vram__replay_runs_within(const vram_graph *g, const vram_step_options *o,
                                      uint64_t room, void *scratch, uint64_t scratch_bytes,
                                      vram__step *s, vram_report *r) {
  vram_step_options quiet = *o;
  quiet.event = NULL;
  quiet.nodes = NULL;
  return !vram__replay_play_on(g, &quiet, room, 1, scratch, scratch_bytes, r, s) && r->replayed &&
         !r->num_ooms;
}

/* What a run reserves that only just finds its memory: a workspace that would be more is not taken.
 */
static void vram__report_take_tight(vram_report *report, const vram_report *tight) {
  uint32_t i;
  report->num_alloc_retries = tight->num_alloc_retries;
  report->peak_reserved_bytes = tight->peak_reserved_bytes;
  report->device_bytes.expected = tight->device_bytes.expected;
  if (report->peak_allocated_bytes.expected > tight->peak_reserved_bytes)
    report->peak_allocated_bytes.expected = tight->peak_reserved_bytes;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    report->phase[i].reserved_peak_bytes = tight->phase[i].reserved_peak_bytes;
}

/* vram__replay_play with o->replay. */
VRAM__FN vram_result vram__replay_play_run(const vram_graph *g, const vram_step_options *o,
                                           void *scratch, uint64_t scratch_bytes,
                                           vram_report *report, vram__step *s) {
  const uint64_t room = o->replay->total_bytes;
  vram_report tight;
  uint64_t beside;
  vram_result r;
  if (scratch_bytes < vram__replay_bytes(g, o))
    return VRAM_ERR_MEMORY;
  scratch_bytes -= vram__replay_bytes(g, o);
  r = vram__replay_play_on(g, o, room ? room : (uint64_t)VRAM_MAX_BYTES, 0, scratch, scratch_bytes,
                           report, s);
  if (!r && (!report->replayed || (report->num_ooms && !room))) /* beyond all addresses */
    r = vram__replay_play(g, o, scratch, scratch_bytes, report, s);
  report->scratch_used += vram__replay_bytes(g, o);
  beside = vram__report_beside(report);
  if (r || report->fits || !report->replayed || o->budget_bytes <= beside ||
      report->peak_allocated_bytes.lower > o->budget_bytes - beside)
    return r;
  report->fits =
      vram__replay_runs_within(g, o, o->budget_bytes - beside, scratch, scratch_bytes, s, &tight);
  if (report->fits)
    vram__report_take_tight(report, &tight);
  return r;
}
