/* >>parallel/micro    a microbatch on a stage of a rank: its parts, and who holds what between them
   Who holds a tensor follows from variables of schedules.py and stage.py: a receive's buffer is the
   stage's input up to its backward, an output lives until it was sent and its backward is over, a
   gradient of an input until the send of it was waited for. */
#include "parallel/fsdp.h"
#include "parallel/run.h"

/* ---- lists of slots, as Python variables hold them */

static void vram__slots_retain(vram__step *s, const uint32_t *slot, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    if (slot[i])
      vram__slot_retain(s, slot[i]);
}

VRAM__FN void vram__slots_release(vram__step *s, uint32_t *slot, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++) {
    if (slot[i])
      vram__slot_release(s, slot[i]);
    slot[i] = 0;
  }
}

/* The same of what was sent. Where buffers stay, another stream has used it (record_stream): it
   comes back when the allocator is asked for the next one, on a device when that stream has got
   there. */
VRAM__FN void vram__slots_release_sent(vram__pipe_run *r, uint32_t *slot, uint32_t n) {
  const uint64_t before = r->s->count.requested, blocks = r->s->count.blocks;
  vram__slots_release(r->s, slot, n);
  if (!r->p->buffer || r->s->count.requested == before)
    return;
  vram__undone_count(r->s, before - r->s->count.requested);
  r->p->late += blocks - r->s->count.blocks;
  r->s->count.extra += blocks - r->s->count.blocks;
}

/* A variable takes a new list; what it had goes then. */
VRAM__FN void vram__slots_set(vram__step *s, uint32_t *var, uint32_t nvar, const uint32_t *slot,
                              uint32_t n) {
  uint32_t i;
  vram__slots_retain(s, slot, n);
  vram__slots_release(s, var, nvar);
  for (i = 0; i < n; i++)
    var[i] = slot[i];
}

/* ---- parts */

VRAM__FN vram__pipe_micro *vram__pipe_micro_at(const vram__pipe_run *r, uint32_t k, uint32_t mb) {
  return r->micro + (uint64_t)k * r->p->microbatches + mb;
}

VRAM__FN uint32_t vram__pipe_live_room(const vram__pipe_stage *s) {
  uint32_t most = 1, later;
  for (later = 0; later < 2; later++) {
    const uint32_t n =
        s->part[VRAM__PART_FORWARD + later].live + s->part[VRAM__PART_INPUT + later].live;
    most = n > most ? n : most;
  }
  return most;
}

/* A table for what lives between the parts of a microbatch. */
static uint32_t *vram__pipe_table(vram__pipe_run *r, uint32_t k) {
  vram__step *const s = r->s;
  const uint64_t bytes =
      sizeof(uint32_t *) + vram__pipe_live_room(r->p->stage + k) * (uint64_t)sizeof(uint32_t);
  uint32_t *t = r->table[k];
  if (t)
    vram__memory_copy(&r->table[k], t, sizeof t);
  else
    t = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, bytes);
  if (!t)
    s->failed = VRAM_ERR_MEMORY;
  else
    vram__memory_zero(t, bytes);
  return t;
}

/* The parts of microbatch mb are over. What is left is in autocast's cache: of the first one casts
   of weights, whose places stay, of all of them casts of inputs. */
static void vram__pipe_table_over(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const uint32_t room = vram__pipe_live_room(r->p->stage + k);
  uint32_t i, n = 0;
  if (!mb || !m->live)
    return;
  for (i = 0; i < room; i++)
    n += m->live[i] != 0;
  if (n) {
    m->cast = (uint32_t *)vram__memory_take(r->s->mem, &r->s->used, r->s->cap,
                                            n * (uint64_t)sizeof *m->cast);
    if (!m->cast) {
      r->s->failed = VRAM_ERR_MEMORY;
      return;
    }
  }
  for (i = 0; i < room; i++)
    if (m->live[i])
      m->cast[m->ncast++] = m->live[i];
  vram__memory_copy(m->live, &r->table[k], sizeof r->table[k]);
  r->table[k] = m->live;
  m->live = NULL;
}

VRAM__FN uint32_t vram__pipe_alloc(vram__pipe_run *r, uint64_t bytes, uint8_t cat) {
  r->s->cat = cat;
  return vram__storage_new(r->s, bytes);
}

static void vram__pipe_part_free(vram__pipe_run *r, uint32_t k, uint32_t mb, uint32_t id) {
  const uint32_t kind = VRAM__ID_KIND(id), n = VRAM__ID_NUMBER(id);
  const uint32_t of = kind == VRAM__ID_FIRST ? 0 : mb;
  if (kind)
    vram__slots_release(r->s, vram__pipe_micro_at(r, k, of)->live + n, 1);
  else
    vram__slot_release(r->s, r->own[n]); /* what the part gives is still held */
}

/* A parameter has its first gradient, or more of it, of which a wrapper hears in the last backward
   of its stage. */
static void vram__pipe_part_gradient(vram__pipe_run *r, const vram__part_event *e) {
  vram__step *const s = r->s;
  vram__leaf *l = s->leaf.at + e->bytes;
  if (e->id != VRAM__ID_NONE && !VRAM__ID_KIND(e->id)) {
    if (r->taken[e->id]) /* several parameters in one storage */
      vram__slot_retain(s, r->own[e->id]);
    r->taken[e->id] = 1;
    l->grad.d = l->d;
    l->grad.dt = (vram_dtype)e->cat;
    l->grad.st = r->own[e->id];
  }
  if (e->kept && s->leaf.accumulated)
    s->leaf.accumulated(s, l);
}

/* Autocast's cache is emptied. */
VRAM__FN void vram__pipe_cache_empty(vram__pipe_run *r) {
  uint32_t k;
  for (k = 0; r->p->clears && k < r->p->local; k++)
    vram__slots_release(r->s, r->cache[k], r->p->stage[k].ncast);
}

static void vram__pipe_part_event(vram__pipe_run *r, uint32_t k, uint32_t mb,
                                  const vram__part_event *e) {
  vram__step *const s = r->s;
  vram_bounds brief;
  switch (e->kind) {
  case VRAM__PART_ALLOC:
    s->node = e->node;
    s->stream = e->stream;
    r->own[e->id] = vram__pipe_alloc(r, e->bytes, e->cat);
    if (e->cast) { /* the cache has it */
      r->cache[k][e->cast - 1] = r->own[e->id];
      r->own[e->id] = 0;
    } else if (e->kept && !s->failed)
      vram__slot_retain(s, r->own[e->id]);
    break;
  case VRAM__PART_FREE:
    vram__pipe_part_free(r, k, mb, e->id);
    break;
  case VRAM__PART_GRADIENT:
    vram__pipe_part_gradient(r, e);
    break;
  case VRAM__PART_STAYS:
    s->node = e->node;
    vram__blas_workspace_stays(s, e->id);
    break;
  case VRAM__PART_HOLD:
    vram__slots_set(s, &vram__pipe_micro_at(r, k, mb)->copy[e->id], 1, &r->cache[k][e->id], 1);
    break;
  case VRAM__PART_DROP:
    vram__slots_release(s, &vram__pipe_micro_at(r, k, mb)->copy[e->id], 1);
    break;
  case VRAM__PART_EMPTIED:
    vram__pipe_cache_empty(r);
    break;
  case VRAM__PART_RETURNS:
    if (r->output)
      vram__slots_release(s, r->output, r->p->stage[k].nout);
    break;
  case VRAM__PART_UNIT:
    vram__fsdp_unit(s, e->id, (uint32_t)e->bytes);
    break;
  default:
    brief.lower = brief.expected = brief.upper = e->bytes;
    vram__device_workspace(s, &brief);
  }
}

/* What a part gives: slots that whoever plays it holds. */
static void vram__pipe_part_given(vram__pipe_run *r, const vram__pipe_micro *m,
                                  const uint32_t *given, uint32_t n, uint32_t *to) {
  uint32_t i, j;
  for (i = 0; i < n; i++) {
    to[i] = 0;
    if (given[i] == VRAM__ID_NONE)
      continue;
    for (j = 0; j < i && given[j] != given[i];)
      j++;
    to[i] = VRAM__ID_KIND(given[i]) ? m->in[VRAM__ID_NUMBER(given[i])] : r->own[given[i]];
    if (to[i] && (VRAM__ID_KIND(given[i]) || j < i))
      vram__slot_retain(r->s, to[i]);
  }
}

/* What is sent in a part. */
static void vram__pipe_part_sends(vram__step *s, const vram__played *part) {
  uint32_t i;
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++) {
    vram_communication *to = s->r->communication + i;
    to->calls += part->communication[i].calls;
    to->bytes = vram__sum_or_overflow(to->bytes, part->communication[i].bytes);
    to->sent = vram__sum_or_overflow(to->sent, part->communication[i].sent);
  }
}

/* Plays a part of microbatch mb on local stage k. */
static const vram__played *vram__pipe_part(vram__pipe_run *r, uint32_t k, uint32_t mb,
                                           uint32_t which) {
  const vram__played *part =
      r->p->stage[k].part + which + vram__pipe_is_later(r->p, k, vram__pipe_like_forward(r, mb));
  vram__step *const s = r->s;
  uint32_t i;
  if (!part->known)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, NULL, "a part of a microbatch that was not played");
  vram__memory_zero(r->taken, part->ids);
  for (i = 0; i < part->count && !s->failed; i++)
    vram__pipe_part_event(r, k, mb, part->event + i);
  s->stream = 0;
  s->node = NULL;
  vram__pipe_part_sends(s, part);
  return part;
}

static int vram__pipe_is_ddp(const vram__pipe_run *r) {
  return r->s->wrapper && r->p->parallel->wrapper != VRAM_WRAPPER_FSDP2;
}

/* One that makes gradients: the last of a stage is reduced. */
static const vram__played *vram__pipe_part_back(vram__pipe_run *r, uint32_t k, uint32_t mb,
                                                uint32_t which) {
  const vram__played *part;
  const int last = r->done[k] + 1 == r->count;
  if (vram__pipe_is_ddp(r) && last)
    vram__ddp_last_backward(r->s);
  part = vram__pipe_part(r, k, mb,
                         which + vram__pipe_emptied(r->p, k, vram__pipe_like_backward(r, mb)) +
                             2 * (uint32_t)(r->done[k] != 0));
  r->done[k]++;
  if (vram__pipe_is_ddp(r) && last)
    VRAM__WRAPPER_DO(r->s, backward_end);
  return part;
}

VRAM__FN const vram__pipe_stage *vram__pipe_last(const vram__pipe *p) {
  uint32_t k;
  for (k = 0; k + 1 < p->local && !p->stage[k].is_last; k++)
    ;
  return p->stage + k;
}

/* The outputs of the last stage are detached behind its backward, but for views: a DTensor's
   to_local() gives one, and with its history the inputs of the stage stay. */
VRAM__FN uint32_t vram__pipe_kept_inputs(const vram__pipe *p) {
  const vram__pipe_stage *last = vram__pipe_last(p);
  uint32_t i, views = 0;
  if (p->buffer) /* they stay anyway */
    return 0;
  for (i = 0; i < last->nout; i++)
    views += last->out_value[i]->node && last->out_value[i]->node->op == VRAM_OP_all_gather;
  return views ? last->nin : 0;
}

/* Slots that the schedule keeps of each microbatch: outputs, then inputs. */
VRAM__FN uint32_t vram__pipe_kept(const vram__pipe *p) {
  return vram__pipe_last(p)->nout + vram__pipe_kept_inputs(p);
}

/* What lives behind the part gets its place in the microbatch's table. */
static void vram__pipe_part_lives(vram__pipe_run *r, vram__pipe_micro *m, const vram__played *part,
                                  uint32_t from) {
  uint32_t i;
  for (i = 0; i < part->ids && !r->s->failed; i++)
    if (part->live_of[i] != VRAM__ID_NONE)
      m->live[from + part->live_of[i]] = r->own[i];
}

/* The stage computes: what its wrapper keeps is s->wrapped, and what was gathered for it is waited
   for (_assert_unsharded). */
static void vram__pipe_enter(vram__pipe_run *r, uint32_t k) {
  vram__staged_at(r->s, k);
  if (r->flow[k] & VRAM__FLOW_GATHERS)
    vram__fsdp_stage_wait(r->s);
  r->flow[k] &= (uint8_t)~VRAM__FLOW_GATHERS;
}

/* What fully_shard does for a stage beside its forward and backward passes. */
VRAM__FN void vram__pipe_flow(vram__pipe_run *r, uint32_t k, uint32_t kind) {
  vram__staged_at(r->s, k);
  if (kind == VRAM_STAGE_UNSHARD) {
    vram__fsdp_stage_unshard(r->s);
    r->flow[k] |= VRAM__FLOW_GATHERS;
  } else if (kind == VRAM_STAGE_REDUCE_GRAD) {
    vram__fsdp_stage_reduce(r->s);
    r->flow[k] |= VRAM__FLOW_REDUCED;
  } else if (kind == VRAM_STAGE_WAIT_REDUCE_GRAD)
    vram__fsdp_end(r->s);
  else if (!(r->flow[k] & VRAM__FLOW_REDUCED))
    vram__fsdp_stage_reshard(r->s);
  vram__staged_at(r->s, 0);
}

/* ScheduleGPipe and Schedule1F1B do so at the end. */
VRAM__FN void vram__pipe_reduce(vram__pipe_run *r) {
  if (!r->s->wrapper || r->p->parallel->wrapper != VRAM_WRAPPER_FSDP2)
    return;
  vram__pipe_flow(r, 0, VRAM_STAGE_REDUCE_GRAD);
  vram__pipe_flow(r, 0, VRAM_STAGE_WAIT_REDUCE_GRAD);
}

VRAM__FN void vram__pipe_forward(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const vram__played *part;
  m->live = vram__pipe_table(r, k);
  r->s->node = NULL;
  r->s->last_batch = 0;
  vram__pipe_enter(r, k);
  VRAM__WRAPPER_DO(r->s, forward_begin);
  if (r->s->failed)
    return;
  part = vram__pipe_part(r, k, mb, VRAM__PART_FORWARD);
  VRAM__WRAPPER_DO(r->s, forward_end);
  vram__staged_at(r->s, 0);
  if (r->s->failed)
    return;
  vram__pipe_part_lives(r, m, part, 0);
  vram__pipe_part_given(r, m, part->given, stage->nout, m->out);
  vram__pipe_part_given(r, m, part->given + stage->nout, 1, &m->loss);
  if (r->chunk && stage->is_last) {
    const uint32_t inputs = vram__pipe_kept_inputs(r->p);
    uint32_t *const to = r->chunk + (uint64_t)mb * vram__pipe_kept(r->p);
    vram__slots_retain(r->s, m->out, stage->nout);
    vram__memory_copy(to, m->out, stage->nout * (uint64_t)sizeof *m->out);
    vram__slots_retain(r->s, m->in, inputs);
    vram__memory_copy(to + stage->nout, m->in, inputs * (uint64_t)sizeof *m->in);
  }
}

/* What goes out of a stage goes to another rank. */
static int vram__pipe_is_sent(const vram__pipe_run *r, uint32_t k, int forward) {
  const vram__pipe_stage *stage = r->p->stage + k;
  const uint32_t to = forward ? stage->stage + 1 : stage->stage - 1;
  return (forward ? !stage->is_last : !stage->is_first) && !vram__pipe_is_here(r->p, to);
}

/* The end of backward_one_chunk, or of the weight part: outputs, inputs, gradients of outputs go.
   With a loss_fn beside the module the loss still leads to the inputs, unless it was detached. */
static void vram__pipe_over(vram__pipe_run *r, uint32_t k, uint32_t mb, int detached) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  uint32_t i;
  if (vram__pipe_is_sent(r, k, 1))
    vram__slots_release_sent(r, m->out, stage->nout);
  else
    vram__slots_release(r->s, m->out, stage->nout);
  for (i = 0; i < stage->nin; i++)
    if ((!stage->loss || detached) && !stage->is_cast[i] && !r->p->buffer)
      vram__slots_release(r->s, m->in + i, 1);
  if (!r->p->buffer)
    vram__slots_release(r->s, m->gout, stage->nout);
  vram__pipe_table_over(r, k, mb);
}

VRAM__FN void vram__pipe_backward(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const vram__played *part;
  vram__pipe_enter(r, k);
  part = vram__pipe_part_back(r, k, mb, VRAM__PART_BACKWARD);
  vram__staged_at(r->s, 0);
  if (r->s->failed)
    return;
  vram__pipe_part_given(r, m, part->given, stage->nin, m->gin);
  if (r->p->does & VRAM__PIPE_RETURNS) /* as .grad of the inputs */
    vram__slots_set(r->s, m->held, stage->nin, m->gin, stage->nin);
  vram__pipe_over(r, k, mb, 0);
}

/* Inputs keep their gradients to the end of the weight part. */
VRAM__FN void vram__pipe_input(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const vram__played *part;
  vram__pipe_enter(r, k);
  part = vram__pipe_part(r, k, mb, VRAM__PART_INPUT);
  vram__staged_at(r->s, 0);
  if (r->s->failed)
    return;
  if (stage->is_first)
    return;
  vram__pipe_part_lives(r, m, part, stage->part[VRAM__PART_FORWARD + (mb != 0)].live);
  vram__pipe_part_given(r, m, part->given, stage->nin, m->gin);
  if (stage->is_last)
    vram__slots_release(r->s, m->out, stage->nout);
}

VRAM__FN void vram__pipe_weight(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_enter(r, k);
  vram__pipe_part_back(r, k, mb, VRAM__PART_WEIGHT);
  vram__staged_at(r->s, 0);
  if (r->s->failed)
    return;
  vram__pipe_over(r, k, mb, 1);
  if (!r->p->buffer)
    vram__slots_release(r->s, vram__pipe_micro_at(r, k, mb)->held, stage->nin);
}

/* ---- what comes from other ranks */

VRAM__FN uint64_t vram__handover_bytes(const vram__handover *c) {
  return vram__dims_bytes_of(c->d, c->dt);
}

VRAM__FN void vram__pipe_receive(vram__pipe_run *r, uint32_t k, uint32_t mb, int forward) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const vram__handover *c = forward ? stage->in : stage->out;
  const uint32_t n = forward ? stage->nin : stage->is_last ? 0 : stage->nout;
  uint32_t i;
  r->s->node = NULL;
  for (i = 0; i < n && !r->s->failed && !r->p->buffer; i++)
    if (forward || c[i].grad)
      (forward ? m->in : m->gout)[i] =
          vram__pipe_alloc(r, vram__handover_bytes(c + i), VRAM_CATEGORY_OTHER);
}

/* Where a gradient did not come, zeros are sent. */
VRAM__FN void vram__pipe_zeros(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  uint32_t i;
  for (i = 0; i < stage->nin && !r->s->failed; i++)
    if (!m->gin[i] && stage->in[i].grad)
      m->gin[i] = vram__pipe_alloc(r, vram__handover_bytes(stage->in + i), VRAM_CATEGORY_OTHER);
}

/* A loss goes, and the inputs to which its history leads. */
static void vram__pipe_loss(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  uint32_t i;
  for (i = 0; i < r->p->stage[k].nin; i++)
    if (!r->p->stage[k].is_cast[i] && !r->p->buffer)
      vram__slots_release(r->s, m->in + i, 1);
  vram__slots_release(r->s, &m->loss, 1);
}

/* What has been counted since `before` of microbatch mb is counted of those that are not played, if
   it is the one that they are like. */
VRAM__FN void vram__pipe_alike(vram__pipe_run *r, uint32_t mb, const vram__layer_count *before) {
  const uint32_t times = r->p->microbatches - r->count;
  vram__layer_count now;
  if (!times || mb != 1 || r->s->failed)
    return;
  now = vram__layer_now(r->s);
  now = vram__layer_less(&now, before);
  vram__layer_add(r->s, &now, times);
}

/* Losses are a list that goes from its end; the schedule's variable `loss` may hold the last. */
VRAM__FN void vram__pipe_losses(vram__pipe_run *r, uint32_t k, uint32_t count) {
  while (count--) {
    const vram__layer_count before = vram__layer_now(r->s);
    vram__pipe_loss(r, k, count);
    vram__pipe_alike(r, count, &before);
  }
}

VRAM__FN void vram__pipe_loss_last(vram__pipe_run *r, uint32_t k) {
  vram__pipe_loss(r, k, r->count - 1);
}

/* release_fwd_send_outputs: DistributedDataParallel keeps them, and so do older versions. */
VRAM__FN void vram__pipe_sent(vram__pipe_run *r, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage;
  if (!stage->is_last && !vram__pipe_is_ddp(r) && !r->p->buffer)
    vram__slots_release(r->s, vram__pipe_micro_at(r, 0, mb)->out, stage->nout);
}
