/* >>parallel/parts_play    which parts a stage has, and in which order they are played */
#include "parallel/parts.h"

/* Which part an action of local stage k is. had: the stage has gradients. */
static uint32_t vram__part_of(const vram__pipe *p, uint32_t k, const vram_stage_action *a,
                              int had) {
  const uint32_t later = vram__pipe_is_later(p, k, a->microbatch);
  switch (a->kind) {
  case VRAM_STAGE_F:
    return VRAM__PART_FORWARD + later;
  case VRAM_STAGE_B:
    return VRAM__PART_BACKWARD + vram__pipe_emptied(p, k, a->microbatch) + (had ? 2u : 0u) + later;
  case VRAM_STAGE_I:
    return VRAM__PART_INPUT + later;
  case VRAM_STAGE_W:
    return VRAM__PART_WEIGHT + (had ? 2u : 0u) + later;
  default:
    return VRAM__PARTS;
  }
}

typedef struct vram__part_need {
  uint32_t part, microbatch, kind;
} vram__part_need;

/* The actions of the stage that come first of their kind; how many. */
static uint32_t vram__part_needs(const vram__part_player *y, vram__part_need *need) {
  uint32_t i, n = 0, seen = 0;
  int had = 0;
  for (i = 0; i < y->p->naction; i++) {
    const vram_stage_action *a = y->p->action + i;
    uint32_t part;
    if (a->stage != y->s->stage)
      continue;
    part = vram__part_of(y->p, (uint32_t)(y->s - y->p->stage), a, had);
    if (part == VRAM__PARTS)
      continue;
    had |= a->kind == VRAM_STAGE_B || a->kind == VRAM_STAGE_W;
    if (seen >> part & 1)
      continue;
    seen |= 1u << part;
    need[n].part = part;
    need[n].microbatch = a->microbatch;
    need[n++].kind = a->kind;
  }
  return n;
}

/* Plays a part; one that is known already is played without being written down. */
static void vram__part_play(vram__part_player *y, uint32_t which, vram__part_incoming *in) {
  const uint64_t used = y->p->used;
  vram__played again, *part = y->s->part + which;
  const int known = part->known;
  uint32_t i;
  vram__memory_zero(&again, sizeof again);
  if (which >= VRAM__PART_BACKWARD)
    vram__part_casts_begin(y, which < VRAM__PART_EMPTY);
  if (known)
    part = &again;
  if (which < VRAM__PART_BACKWARD)
    vram__part_forward(y, part, which == VRAM__PART_FORWARD);
  else if (which < VRAM__PART_INPUT || which >= VRAM__PART_EMPTY ||
           (which >= VRAM__PART_WEIGHT && y->s->is_first))
    vram__part_backward(y, part, in);
  else if (which < VRAM__PART_WEIGHT)
    vram__part_input(y, part, in);
  else
    vram__part_weight(y, part);
  if (known)
    y->p->used = used;
  if (which < VRAM__PART_BACKWARD ||
      (which >= VRAM__PART_INPUT && which < VRAM__PART_EMPTY && !y->s->is_first))
    return; /* what came for an input part stays for its weight part */
  for (i = 0; i < y->s->nout && !y->t.failed; i++)
    if (in[i].at.d) {
      vram__tensor_release(&y->t, in[i].at); /* no part has it */
      in[i].at = vram__tensor_none();
    }
}

/* The microbatches that are needed, in order; how many. */
static uint32_t vram__part_micros(const vram__part_need *need, uint32_t n, vram__part_micro *to) {
  uint32_t i, j, count = 0;
  for (i = 0; i < n; i++) {
    for (j = 0; j < count && to[j].microbatch != need[i].microbatch;)
      j++;
    if (j < count)
      continue;
    for (j = count++; j && to[j - 1].microbatch > need[i].microbatch; j--)
      to[j].microbatch = to[j - 1].microbatch;
    to[j].microbatch = need[i].microbatch;
  }
  return count;
}

/* Numbers of what lives behind a part. */
static int vram__part_number_live(vram__pipe *p, vram__played *part) {
  uint32_t i;
  part->live_of = (uint32_t *)vram__pipe_take(p, (part->ids + UINT64_C(1)) * sizeof(uint32_t));
  if (!part->live_of)
    return 0;
  for (i = 0; i < part->ids; i++)
    part->live_of[i] = 0;
  for (i = 0; i < part->count; i++)
    if (part->event[i].kind == VRAM__PART_FREE && !VRAM__ID_KIND(part->event[i].id))
      part->live_of[part->event[i].id] = VRAM__ID_NONE;
  for (i = part->live = 0; i < part->ids; i++)
    if (part->live_of[i] != VRAM__ID_NONE)
      part->live_of[i] = part->live++;
  return 1;
}

/* The number of what lived behind another part of the microbatch. */
static uint32_t vram__part_live_id(const vram__pipe_stage *s, uint32_t which, uint32_t id) {
  const uint32_t later = VRAM__ID_KIND(id) == VRAM__ID_FIRST ? 0 : which & 1;
  const vram__played *f = s->part + VRAM__PART_FORWARD + later;
  const vram__played *i = s->part + VRAM__PART_INPUT + later;
  const uint32_t n = VRAM__ID_NUMBER(id);
  uint32_t live;
  if (id == VRAM__ID_NONE || !VRAM__ID_KIND(id) || VRAM__ID_KIND(id) == VRAM__ID_INPUT)
    return id;
  live = n < f->ids ? f->live_of[n] : i->known ? f->live + i->live_of[n - f->ids] : VRAM__ID_NONE;
  return live == VRAM__ID_NONE ? VRAM__ID_NONE : VRAM__ID_KIND(id) | live;
}

static int vram__part_settle(vram__pipe *p, vram__pipe_stage *s) {
  uint32_t k, i;
  for (k = 0; k < VRAM__PARTS; k++)
    if ((k < VRAM__PART_BACKWARD || (k & ~1u) == VRAM__PART_INPUT) && s->part[k].known &&
        !vram__part_number_live(p, s->part + k))
      return 0;
  for (k = VRAM__PART_BACKWARD; k < VRAM__PARTS; k++)
    for (i = 0; s->part[k].known && i < s->part[k].count; i++) {
      vram__part_event *e = s->part[k].event + i;
      if (e->kind != VRAM__PART_FREE)
        continue;
      e->id = vram__part_live_id(s, k, e->id);
      if (e->id == VRAM__ID_NONE)
        return vram__pipe_fail(p, VRAM_ERR_UNSUPPORTED, "a tensor that goes twice");
    }
  return 1;
}

/* The graph as a step of its own, before anything runs. */
VRAM__FN int vram__part_step(vram__step *t, vram__pipe *p, const vram_graph *g,
                             const vram_step_options *o, void *scratch, uint64_t bytes,
                             vram_report *report) {
  vram_result r;
  t->count.live = NULL;
  t->count.live_cap = 0;
  t->count.stop_at = 0;
  t->replay = NULL;
  t->cuts = NULL;
  t->caches = NULL;
  t->layers = NULL;
  t->inplace = NULL;
  t->pipe = NULL;
  r = vram__step_set_up(g, o, scratch, bytes, report, t, 0);
  if (!r) {
    if (p->parallel->wrapper == VRAM_WRAPPER_FSDP2)
      t->compute = p->parallel->mp;
    vram__step_put_model(t);
    vram__step_put_inputs(t);
    r = (vram_result)t->failed;
  }
  return r ? vram__pipe_fail(p, r, t->problem) : 1;
}

/* Options of a step that nobody listens to. */
VRAM__FN void vram__part_options(vram_step_options *quiet, const vram__pipe *p,
                                 const vram_step_options *o) {
  *quiet = *o;
  quiet->event = NULL;
  quiet->user = NULL;
  quiet->nodes = NULL;
  quiet->replay = NULL;
  quiet->parallel = &p->alone;
  quiet->checkpoint = p->nrange ? p->range : NULL; /* of the rank's graph, when that is there */
  quiet->ncheckpoint = p->nrange;
  quiet->first_step = 1;
  quiet->accumulate = 0;
  quiet->prefetch = 0;
}

static int vram__part_stage(vram__part_player *y, vram__part_incoming *in) {
  vram__step *const t = &y->t;
  vram__part_need need[VRAM__PARTS];
  vram__part_micro micro[VRAM__PARTS];
  const uint32_t k = (uint32_t)(y->s - y->p->stage);
  uint32_t i, j, n, count;
  vram__memory_zero(micro, sizeof micro);
  n = vram__part_needs(y, need);
  count = vram__part_micros(need, n, micro);
  y->first = NULL;
  y->pin = NULL;
  for (i = 0; i < count && !t->failed; i++) {
    y->micro = micro + i;
    y->micro->root = (vram__part_root *)vram__memory_take(
        t->mem, &t->used, t->cap, (y->s->nout + UINT64_C(1)) * sizeof *y->micro->root);
    if (!y->micro->root)
      return vram__pipe_fail(y->p, VRAM_ERR_MEMORY, NULL);
    if (!micro[i].microbatch)
      y->first = micro + i;
    vram__part_play(y, VRAM__PART_FORWARD + vram__pipe_is_later(y->p, k, micro[i].microbatch), in);
  }
  for (i = 0; i < n && !t->failed; i++) {
    for (j = 0; micro[j].microbatch != need[i].microbatch;)
      j++;
    y->micro = micro + j;
    if (need[i].kind == VRAM_STAGE_F || (need[i].kind == VRAM_STAGE_I && y->micro->begun))
      continue;
    if (need[i].kind == VRAM_STAGE_W && !y->micro->begun)
      vram__part_play(y, VRAM__PART_INPUT + (micro[j].microbatch != 0), in);
    if (!t->failed)
      vram__part_play(y, need[i].part, in);
  }
  y->micro = NULL;
  if (t->failed)
    return vram__pipe_fail(y->p, (vram_result)t->failed, t->problem);
  return y->p->failed ? 0 : vram__part_settle(y->p, y->s);
}

/* The stage is wrapped by fully_shard: forward and backward go through its units, and what these do
   to parameters is written down. */
static int vram__part_wrap(vram__part_player *y) {
  vram__step *const t = &y->t;
  vram__fsdp *d;
  const uint64_t bytes = vram__fsdp_bytes(t->g, t->o);
  t->wrapped = d = (vram__fsdp *)vram__pipe_take(y->p, bytes);
  if (!d)
    return 0;
  vram__memory_zero(d, bytes);
  vram__fsdp_make(t, y->s->first, y->s->end);
  d->tell = vram__part_tell;
  d->hook_room = t->g->nvalue * (uint32_t)VRAM__PARTS;
  d->hook = (vram__fsdp_hook *)vram__pipe_take(y->p, d->hook_room * (uint64_t)sizeof *d->hook);
  vram__memory_zero(&y->units, sizeof y->units);
  y->units.record = vram__fsdp_pre_backward;
  t->wrapper = &y->units;
  t->unit_backward = vram__fsdp_post_backward;
  return d->hook != NULL;
}

/* Plays every part of every local stage. */
VRAM__FN int vram__pipe_parts(vram__pipe *p, const vram_step_options *o, void *scratch,
                              uint64_t bytes) {
  vram__part_player y;
  vram_step_options quiet;
  vram_report report;
  vram__part_incoming *in;
  uint32_t k, most = 1;
  vram__memory_zero(&y, sizeof y);
  vram__part_options(&quiet, p, o);
  quiet.event = vram__part_hear;
  quiet.user = &y;
  y.p = p;
  for (k = 0; k < p->local; k++) {
    most = p->stage[k].nin > most ? p->stage[k].nin : most;
    most = p->stage[k].nout > most ? p->stage[k].nout : most;
  }
  y.had = (uint8_t *)vram__pipe_take(p, p->g.nparam + UINT64_C(1));
  y.given = (uint32_t *)vram__pipe_take(p, (most + UINT64_C(1)) * sizeof *y.given);
  in = (vram__part_incoming *)vram__pipe_take(p, most * (uint64_t)sizeof *in);
  y.others = (uint32_t *)vram__pipe_take(p, (p->g.nparam + UINT64_C(1)) * sizeof *y.others);
  y.holds = (uint8_t *)vram__pipe_take(p, p->g.nparam + UINT64_C(1));
  y.held = (uint32_t *)vram__pipe_take(p, (p->g.nparam + UINT64_C(1)) * sizeof *y.held);
  if (!y.had || !y.given || !in || !y.others || !y.holds || !y.held || !vram__pipe_casts_find(p))
    return 0;
  vram__memory_zero(y.had, p->g.nparam);
  vram__memory_zero(in, most * (uint64_t)sizeof *in);
  if (!vram__part_step(&y.t, p, &p->g, &quiet, scratch, bytes, &report))
    return 0;
  y.dtype = y.t.dtype;
  y.t.brief = vram__part_hear_brief;
  y.t.stays = vram__part_hear_stays;
  y.t.emptied = vram__part_hear_emptied;
  if (p->parallel->wrapper && p->parallel->wrapper != VRAM_WRAPPER_FSDP2)
    y.t.leaf.accumulated = vram__part_accumulated;
  if (vram__pipe_splits(p))
    y.t.tape.split = 1;
  for (k = 0; k < p->local; k++) {
    y.s = p->stage + k;
    y.s->is_cast = (uint8_t *)vram__pipe_take(p, y.s->nin + UINT64_C(1));
    if (!y.s->is_cast)
      return 0;
    vram__memory_zero(y.s->is_cast, y.s->nin + UINT64_C(1));
    if (p->parallel->wrapper == VRAM_WRAPPER_FSDP2 && !vram__part_wrap(&y))
      return 0;
    if (!vram__part_stage(&y, in))
      return 0;
  }
  p->saved = report.saved_bytes;
  p->workspace = report.workspace_bytes;
  p->cudnn = report.cudnn_bytes.upper;
  p->runs_cudnn = report.runs_cudnn;
  if (!p->clears)
    p->autocast = vram__autocast_leave(&y.t);
  return 1;
}
