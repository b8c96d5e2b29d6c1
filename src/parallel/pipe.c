/* >>parallel/pipe    a rank's step in a pipeline: parts of many microbatches, in the schedule's
   order Who holds a tensor between parts follows from variables of schedules.py and stage.py: a
   receive's buffer is the stage's input up to its backward, an output lives until it was sent and
   its backward is over, a gradient of an input until the send of it was waited for. */
#include "parallel/pipe.h"
#include "parallel/fsdp.h"

/* A microbatch on a stage: slots of what is held for it, 0: nothing. */
typedef struct vram__pipe_micro {
  uint32_t *live;                  /* what lives behind its forward and input parts */
  uint32_t *in, *out, *gin, *gout; /* inputs, outputs, and their gradients */
  uint32_t *sent;                  /* outputs that are being sent */
  uint32_t *held;                  /* gradients of inputs, as .grad of the inputs */
  uint32_t loss;
  uint32_t *cast, ncast; /* what autocast's cache still has of it */
} vram__pipe_micro;

enum {
  VRAM__FLOW_GATHERS = 1, /* its parameters are being gathered, and somebody has to wait for them */
  VRAM__FLOW_REDUCED = 2  /* its gradients were reduced, and with that its parameters went */
};

typedef struct vram__pipe_run {
  vram__step *s;
  vram__pipe *p;
  vram__pipe_micro *micro; /* local stages times microbatches */
  uint32_t *own;           /* slots of the running part */
  uint32_t **table;        /* by local stage: tables that nobody uses; the first word leads on */
  uint8_t *taken;          /* by slot of the running part: some gradient lies in it */
  uint32_t *done;          /* by local stage: backward passes whose gradients are there */
  uint8_t *flow;           /* by local stage: of fully_shard, VRAM__FLOW_ */
  uint32_t *chunk;         /* outputs that the schedule keeps, by microbatch; NULL: none */
} vram__pipe_run;

/* ---- lists of slots, as Python variables hold them */

static void vram__slots_retain(vram__step *s, const uint32_t *slot, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    if (slot[i])
      vram__slot_retain(s, slot[i]);
}

static void vram__slots_release(vram__step *s, uint32_t *slot, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++) {
    if (slot[i])
      vram__slot_release(s, slot[i]);
    slot[i] = 0;
  }
}

/* A variable takes a new list; what it had goes then. */
static void vram__slots_set(vram__step *s, uint32_t *var, uint32_t nvar, const uint32_t *slot,
                            uint32_t n) {
  uint32_t i;
  vram__slots_retain(s, slot, n);
  vram__slots_release(s, var, nvar);
  for (i = 0; i < n; i++)
    var[i] = slot[i];
}

/* ---- parts */

static vram__pipe_micro *vram__pipe_micro_at(const vram__pipe_run *r, uint32_t k, uint32_t mb) {
  return r->micro + (uint64_t)k * r->p->microbatches + mb;
}

static uint32_t vram__pipe_live_room(const vram__pipe_stage *s) {
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

static uint32_t vram__pipe_alloc(vram__pipe_run *r, uint64_t bytes, uint8_t cat) {
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

static void vram__pipe_part_event(vram__pipe_run *r, uint32_t k, uint32_t mb,
                                  const vram__part_event *e) {
  vram__step *const s = r->s;
  vram_bounds brief;
  switch (e->kind) {
  case VRAM__PART_ALLOC:
    s->node = e->node;
    s->stream = e->stream;
    r->own[e->id] = vram__pipe_alloc(r, e->bytes, e->cat);
    if (e->kept && !s->failed)
      vram__slot_retain(s, r->own[e->id]);
    break;
  case VRAM__PART_FREE:
    vram__pipe_part_free(r, k, mb, e->id);
    break;
  case VRAM__PART_GRADIENT:
    vram__pipe_part_gradient(r, e);
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
  const vram__played *part = r->p->stage[k].part + which + (mb != 0);
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

/* One that makes gradients: the last of a stage is reduced. */
static const vram__played *vram__pipe_part_back(vram__pipe_run *r, uint32_t k, uint32_t mb,
                                                uint32_t which) {
  const vram__played *part;
  const int last = r->done[k] + 1 == r->p->microbatches;
  const int ddp = r->s->wrapper && r->p->parallel->wrapper != VRAM_WRAPPER_FSDP2;
  if (ddp && last)
    vram__ddp_last_backward(r->s);
  part = vram__pipe_part(r, k, mb, which + 2 * (uint32_t)(r->done[k] != 0));
  r->done[k]++;
  if (ddp && last)
    VRAM__WRAPPER_DO(r->s, backward_end);
  return part;
}

static const vram__pipe_stage *vram__pipe_last(const vram__pipe *p) {
  uint32_t k;
  for (k = 0; k + 1 < p->local && !p->stage[k].is_last; k++)
    ;
  return p->stage + k;
}

/* The outputs of the last stage are detached behind its backward, but for views: a DTensor's
   to_local() gives one, and with its history the inputs of the stage stay. */
static uint32_t vram__pipe_kept_inputs(const vram__pipe *p) {
  const vram__pipe_stage *last = vram__pipe_last(p);
  uint32_t i, views = 0;
  for (i = 0; i < last->nout; i++)
    views += last->out_value[i]->node && last->out_value[i]->node->op == VRAM_OP_all_gather;
  return views ? last->nin : 0;
}

/* Slots that the schedule keeps of each microbatch: outputs, then inputs. */
static uint32_t vram__pipe_kept(const vram__pipe *p) {
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
static void vram__pipe_flow(vram__pipe_run *r, uint32_t k, uint32_t kind) {
  vram__staged_at(r->s, k);
  if (kind == VRAM_STAGE_UNSHARD) {
    vram__fsdp_stage_unshard(r->s);
    r->flow[k] |= VRAM__FLOW_GATHERS;
  } else if (kind == VRAM_STAGE_REDUCE_GRAD) {
    vram__fsdp_stage_reduce(r->s);
    r->flow[k] |= VRAM__FLOW_REDUCED;
  } else if (kind == VRAM_STAGE_WAIT_REDUCE_GRAD)
    vram__fsdp_stage_end(r->s);
  else if (!(r->flow[k] & VRAM__FLOW_REDUCED))
    vram__fsdp_stage_reshard(r->s);
  vram__staged_at(r->s, 0);
}

/* ScheduleGPipe and Schedule1F1B do so at the end. */
static void vram__pipe_reduce(vram__pipe_run *r) {
  if (!r->s->wrapper || r->p->parallel->wrapper != VRAM_WRAPPER_FSDP2)
    return;
  vram__pipe_flow(r, 0, VRAM_STAGE_REDUCE_GRAD);
  vram__pipe_flow(r, 0, VRAM_STAGE_WAIT_REDUCE_GRAD);
}

static void vram__pipe_forward(vram__pipe_run *r, uint32_t k, uint32_t mb) {
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

/* The end of backward_one_chunk, or of the weight part: outputs, inputs, gradients of outputs go.
   With a loss_fn beside the module the loss still leads to the inputs, unless it was detached. */
static void vram__pipe_over(vram__pipe_run *r, uint32_t k, uint32_t mb, int detached) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  uint32_t i;
  vram__slots_release(r->s, m->out, stage->nout);
  for (i = 0; i < stage->nin; i++)
    if ((!stage->loss || detached) && !stage->is_cast[i])
      vram__slots_release(r->s, m->in + i, 1);
  vram__slots_release(r->s, m->gout, stage->nout);
  vram__pipe_table_over(r, k, mb);
}

static void vram__pipe_backward(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const vram__played *part;
  vram__pipe_enter(r, k);
  part = vram__pipe_part_back(r, k, mb, VRAM__PART_BACKWARD);
  vram__staged_at(r->s, 0);
  if (r->s->failed)
    return;
  vram__pipe_part_given(r, m, part->given, stage->nin, m->gin);
  vram__pipe_over(r, k, mb, 0);
}

/* Inputs keep their gradients to the end of the weight part. */
static void vram__pipe_input(vram__pipe_run *r, uint32_t k, uint32_t mb) {
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

static void vram__pipe_weight(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_enter(r, k);
  vram__pipe_part_back(r, k, mb, VRAM__PART_WEIGHT);
  vram__staged_at(r->s, 0);
  if (r->s->failed)
    return;
  vram__pipe_over(r, k, mb, 1);
  vram__slots_release(r->s, vram__pipe_micro_at(r, k, mb)->held, stage->nin);
}

/* ---- what comes from other ranks */

static uint64_t vram__handover_bytes(const vram__handover *c) {
  return vram__dims_bytes_of(c->d, c->dt);
}

static void vram__pipe_receive(vram__pipe_run *r, uint32_t k, uint32_t mb, int forward) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const vram__handover *c = forward ? stage->in : stage->out;
  const uint32_t n = forward ? stage->nin : stage->is_last ? 0 : stage->nout;
  uint32_t i;
  r->s->node = NULL;
  for (i = 0; i < n && !r->s->failed; i++)
    if (forward || c[i].grad)
      (forward ? m->in : m->gout)[i] =
          vram__pipe_alloc(r, vram__handover_bytes(c + i), VRAM_CATEGORY_OTHER);
}

/* Where a gradient did not come, zeros are sent. */
static void vram__pipe_zeros(vram__pipe_run *r, uint32_t k, uint32_t mb) {
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
    if (!r->p->stage[k].is_cast[i])
      vram__slots_release(r->s, m->in + i, 1);
  vram__slots_release(r->s, &m->loss, 1);
}

/* Losses are a list that goes from its end; the schedule's variable `loss` may hold the last. */
static void vram__pipe_losses(vram__pipe_run *r, uint32_t k, uint32_t count) {
  while (count--)
    vram__pipe_loss(r, k, count);
}

static void vram__pipe_loss_last(vram__pipe_run *r, uint32_t k) {
  vram__pipe_loss(r, k, r->p->microbatches - 1);
}

static int vram__pipe_keeps_sent(const vram__pipe_run *r) {
  return r->s->wrapper && r->p->parallel->wrapper != VRAM_WRAPPER_FSDP2;
}

/* release_fwd_send_outputs: DistributedDataParallel keeps them. */
static void vram__pipe_sent(vram__pipe_run *r, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage;
  if (!stage->is_last && !vram__pipe_keeps_sent(r))
    vram__slots_release(r->s, vram__pipe_micro_at(r, 0, mb)->out, stage->nout);
}

/* ---- ScheduleGPipe._step_microbatches */

/* A Work of a single send or receive holds the tensor as long as it is held itself: works of
   receives in the variable `work`, of sends of gradients in a list to the end. */
static void vram__pipe_gpipe(vram__pipe_run *r, uint32_t *ops, uint32_t *work) {
  const vram__pipe_stage *stage = r->p->stage;
  const uint32_t count = r->p->microbatches;
  const uint32_t most = stage->nin > stage->nout ? stage->nin : stage->nout;
  uint32_t i;
  for (i = 0; i < count && !r->s->failed; i++) {
    vram__pipe_receive(r, 0, i, 1);
    if (!stage->is_first)
      vram__slots_set(r->s, work, most, vram__pipe_micro_at(r, 0, i)->in, stage->nin);
    vram__pipe_forward(r, 0, i);
  }
  for (i = 0; i < count; i++)
    vram__pipe_sent(r, i);
  for (i = 0; i < count && !r->s->failed; i++) {
    vram__pipe_micro *m = vram__pipe_micro_at(r, 0, i);
    vram__pipe_receive(r, 0, i, 0);
    vram__slots_set(r->s, ops, most, m->gout, stage->nout);
    if (!stage->is_last)
      vram__slots_set(r->s, work, most, m->gout, stage->nout);
    vram__pipe_backward(r, 0, i);
    vram__pipe_zeros(r, 0, i);
    vram__slots_set(r->s, ops, most, m->gin, stage->nin);
  }
  if (!stage->is_first)
    vram__slots_release(r->s, work, most);
  if (stage->is_last)
    vram__pipe_losses(r, 0, count - 1);
  vram__pipe_reduce(r);
  vram__slots_release(r->s, ops, most);
  vram__slots_release(r->s, work, most);
  for (i = count; i--;)
    vram__slots_release(r->s, vram__pipe_micro_at(r, 0, i)->gin, stage->nin);
  if (stage->is_last)
    vram__pipe_loss_last(r, 0);
}

/* ---- Schedule1F1B._step_microbatches */

/* Its variables; `most` slots each. */
typedef struct vram__pipe_1f1b {
  uint32_t *fwd_sends, *fwd_recvs, *bwd_recvs, *bwd_sends;
  uint32_t most, sent; /* the microbatch of fwd_sends, + 1 */
} vram__pipe_1f1b;

static void vram__pipe_1f1b_forward(vram__pipe_run *r, vram__pipe_1f1b *v, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage;
  vram__pipe_receive(r, 0, mb, 1);
  vram__slots_set(r->s, v->fwd_recvs, v->most, vram__pipe_micro_at(r, 0, mb)->in, stage->nin);
  if (!r->s->failed)
    vram__pipe_forward(r, 0, mb);
}

/* _wait_and_release_fwd_send of what was sent last */
static void vram__pipe_1f1b_release(vram__pipe_run *r, vram__pipe_1f1b *v) {
  vram__slots_release(r->s, v->fwd_sends, v->most);
  if (v->sent)
    vram__pipe_sent(r, v->sent - 1);
  v->sent = 0;
}

static void vram__pipe_1f1b_send(vram__pipe_run *r, vram__pipe_1f1b *v, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage;
  if (!stage->is_last)
    vram__slots_set(r->s, v->fwd_sends, v->most, vram__pipe_micro_at(r, 0, mb)->out, stage->nout);
  v->sent = mb + 1;
}

static void vram__pipe_1f1b_backward(vram__pipe_run *r, vram__pipe_1f1b *v, uint32_t mb,
                                     int fused) {
  const vram__pipe_stage *stage = r->p->stage;
  vram__pipe_micro *m = vram__pipe_micro_at(r, 0, mb);
  vram__pipe_receive(r, 0, mb, 0);
  vram__slots_set(r->s, v->bwd_recvs, v->most, m->gout, stage->nout);
  if (fused) {
    vram__pipe_1f1b_release(r, v);
    vram__slots_release(r->s, v->bwd_recvs, v->most);
  }
  if (r->s->failed)
    return;
  vram__pipe_backward(r, 0, mb);
  vram__pipe_zeros(r, 0, mb);
  vram__slots_set(r->s, v->bwd_sends, v->most, m->gin, stage->nin);
  vram__slots_release(r->s, m->gin, stage->nin);
}

static void vram__pipe_one_f_one_b(vram__pipe_run *r, uint32_t *slots) {
  const vram__pipe_stage *stage = r->p->stage;
  const uint32_t count = r->p->microbatches, ahead = r->p->stages - stage->stage;
  const uint32_t warm = ahead < count ? ahead : count;
  vram__pipe_1f1b v;
  uint32_t f = 0, b = 0;
  v.most = stage->nin > stage->nout ? stage->nin : stage->nout;
  v.fwd_sends = slots;
  v.fwd_recvs = slots + v.most;
  v.bwd_recvs = slots + 2 * (size_t)v.most;
  v.bwd_sends = slots + 3 * (size_t)v.most;
  v.sent = 0;
  for (; f < warm && !r->s->failed; f++) {
    vram__pipe_1f1b_forward(r, &v, f);
    if (f)
      vram__pipe_1f1b_release(r, &v);
    vram__pipe_1f1b_send(r, &v, f);
  }
  while (!r->s->failed) {
    vram__pipe_1f1b_backward(r, &v, b++, 1);
    if (f == count)
      break;
    vram__pipe_1f1b_forward(r, &v, f);
    vram__pipe_1f1b_send(r, &v, f++);
  }
  while (b < count && !r->s->failed)
    vram__pipe_1f1b_backward(r, &v, b++, 0);
  if (stage->is_last)
    vram__pipe_losses(r, 0, count - 1);
  vram__pipe_reduce(r);
  vram__slots_release(r->s, v.fwd_sends, v.most);
  vram__slots_release(r->s, v.fwd_recvs, v.most);
  vram__slots_release(r->s, v.bwd_recvs, v.most);
  if (stage->is_last)
    vram__pipe_loss_last(r, 0);
  vram__slots_release(r->s, v.bwd_sends, v.most);
}

/* ---- _PipelineScheduleRuntime._step_microbatches */

static uint32_t vram__pipe_local(const vram__pipe_run *r, uint32_t stage) {
  uint32_t k;
  for (k = 0; k < r->p->local && r->p->stage[k].stage != stage; k++)
    ;
  return k;
}

/* set_local_fwd_input: the next stage is on this rank, too. */
static void vram__pipe_hand_on(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  const uint32_t next = vram__pipe_local(r, stage->stage + 1);
  if (next < r->p->local && !stage->is_last)
    vram__slots_set(r->s, vram__pipe_micro_at(r, next, mb)->in, r->p->stage[next].nin,
                    vram__pipe_micro_at(r, k, mb)->out, stage->nout);
}

/* set_local_bwd_input: the stage before is. */
static void vram__pipe_hand_back(vram__pipe_run *r, uint32_t k, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  const uint32_t before = stage->is_first ? r->p->local : vram__pipe_local(r, stage->stage - 1);
  if (before == r->p->local)
    return;
  vram__pipe_zeros(r, k, mb);
  vram__slots_set(r->s, vram__pipe_micro_at(r, before, mb)->gout, stage->nin, m->gin, stage->nin);
  vram__slots_release(r->s, m->gin, stage->nin);
}

static void vram__pipe_action(vram__pipe_run *r, const vram_stage_action *a) {
  const uint32_t k = vram__pipe_local(r, a->stage), mb = a->microbatch;
  const vram__pipe_stage *stage = r->p->stage + k;
  vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
  switch (a->kind) {
  case VRAM_STAGE_F:
    vram__pipe_forward(r, k, mb);
    vram__pipe_hand_on(r, k, mb);
    break;
  case VRAM_STAGE_B:
    vram__pipe_backward(r, k, mb);
    vram__pipe_hand_back(r, k, mb);
    break;
  case VRAM_STAGE_I:
    vram__pipe_input(r, k, mb);
    vram__slots_set(r->s, m->held, stage->nin, m->gin, stage->nin);
    vram__pipe_hand_back(r, k, mb);
    break;
  case VRAM_STAGE_W:
    vram__pipe_weight(r, k, mb);
    break;
  case VRAM_STAGE_SEND_F:
    vram__slots_set(r->s, m->sent, stage->nout, m->out, stage->nout);
    break;
  case VRAM_STAGE_SEND_B:
    vram__pipe_zeros(r, k, mb);
    break;
  case VRAM_STAGE_RECV_F:
  case VRAM_STAGE_RECV_B:
    vram__pipe_receive(r, k, mb, a->kind == VRAM_STAGE_RECV_F);
    break;
  case VRAM_STAGE_WAIT_F:
    vram__slots_release(r->s, m->sent, stage->nout);
    break;
  case VRAM_STAGE_WAIT_B:
    vram__slots_release(r->s, m->gin, stage->nin);
    break;
  default:
    vram__pipe_flow(r, k, a->kind);
  }
}

static void vram__pipe_runtime(vram__pipe_run *r) {
  uint32_t i;
  for (i = 0; i < r->p->naction && !r->s->failed; i++)
    vram__pipe_action(r, r->p->action + i);
  for (i = 0; i < r->p->local; i++)
    if (r->p->stage[i].is_last)
      vram__pipe_losses(r, i, r->p->microbatches);
}

/* ---- the step */

static int vram__pipe_keeps_outputs(const vram__pipe *p) {
  uint32_t k;
  for (k = 0; p->parallel->return_outputs && k < p->local; k++)
    if (p->stage[k].is_last)
      return 1;
  return 0;
}

/* Memory of a run. */
static int vram__pipe_run_take(vram__pipe_run *r) {
  vram__step *const s = r->s;
  const vram__pipe *p = r->p;
  const uint64_t micros = (uint64_t)p->local * p->microbatches;
  uint32_t k, mb, ids = 1;
  uint64_t slots = 0;
  uint32_t *at;
  for (k = 0; k < p->local; k++) {
    uint32_t i;
    slots += (uint64_t)p->microbatches * (3 * p->stage[k].nin + 3 * p->stage[k].nout);
    for (i = 0; i < VRAM__PARTS; i++)
      ids = p->stage[k].part[i].ids > ids ? p->stage[k].part[i].ids : ids;
  }
  r->micro =
      (vram__pipe_micro *)vram__memory_take(s->mem, &s->used, s->cap, micros * sizeof *r->micro);
  at = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, (slots + 1) * sizeof *at);
  r->own = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, ids * (uint64_t)sizeof *r->own);
  r->table = (uint32_t **)vram__memory_take(s->mem, &s->used, s->cap,
                                            p->local * (uint64_t)sizeof *r->table);
  r->done =
      (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, p->local * (uint64_t)sizeof *r->done);
  r->taken = (uint8_t *)vram__memory_take(s->mem, &s->used, s->cap, ids + UINT64_C(1));
  r->flow = (uint8_t *)vram__memory_take(s->mem, &s->used, s->cap, p->local);
  if (!r->micro || !at || !r->own || !r->table || !r->done || !r->taken || !r->flow) {
    s->failed = VRAM_ERR_MEMORY;
    return 0;
  }
  vram__memory_zero(r->micro, micros * sizeof *r->micro);
  vram__memory_zero(at, slots * sizeof *at);
  vram__memory_zero(r->table, p->local * (uint64_t)sizeof *r->table);
  vram__memory_zero(r->done, p->local * (uint64_t)sizeof *r->done);
  vram__memory_zero(r->flow, p->local);
  for (k = 0; k < p->local; k++)
    for (mb = 0; mb < p->microbatches; mb++) {
      vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
      m->in = at;
      m->gin = m->in + p->stage[k].nin;
      m->held = m->gin + p->stage[k].nin;
      m->out = m->held + p->stage[k].nin;
      m->gout = m->out + p->stage[k].nout;
      m->sent = m->gout + p->stage[k].nout;
      at = m->sent + p->stage[k].nout;
    }
  return 1;
}

/* The schedule's first step: ranks agree on how sizes are known, and connect
   (_initialize_pipeline_distributed_state, _preconnect_shared_p2p_edges). */
static void vram__pipe_connect(vram__pipe_run *r) {
  const int connects = r->s->nth == 1 && r->p->ranks > 1;
  uint32_t vote, token[2];
  if (!connects)
    return;
  vote = vram__pipe_alloc(r, 4, VRAM_CATEGORY_OTHER);
  token[0] = vram__pipe_alloc(r, 4, VRAM_CATEGORY_OTHER);
  token[1] = vram__pipe_alloc(r, 4, VRAM_CATEGORY_OTHER);
  vram__slots_release(r->s, token, 2);
  vram__slots_release(r->s, &vote, 1);
}

/* Bytes of the outputs of all microbatches, put into one tensor. */
static uint64_t vram__pipe_output_bytes(const vram__pipe *p, uint32_t i) {
  return vram__product_or_overflow(vram__handover_bytes(vram__pipe_last(p)->out + i),
                                   p->microbatches);
}

/* merge_chunks: the caller of schedule.step lets go of what it returns. */
static void vram__pipe_merge(vram__pipe_run *r) {
  const uint32_t n = vram__pipe_last(r->p)->nout;
  uint32_t *merged, i;
  if (!r->chunk || r->s->failed)
    return;
  merged = r->own;
  r->s->node = NULL;
  for (i = 0; i < n && !r->s->failed; i++)
    merged[i] = vram__pipe_alloc(r, vram__pipe_output_bytes(r->p, i), VRAM_CATEGORY_OTHER);
  if (!r->s->failed)
    vram__slots_release(r->s, merged, n);
}

/* clear_runtime_states: outputs of the step before go; those of this one get room. */
static void vram__pipe_clear(vram__pipe_run *r) {
  vram__pipe *const p = r->p;
  const uint64_t n = (uint64_t)p->microbatches * vram__pipe_kept(p);
  uint64_t i;
  if (!vram__pipe_keeps_outputs(p))
    return;
  r->chunk = p->chunk;
  for (i = 0; i < n && r->s->nth > 1; i++)
    if (r->chunk[i])
      vram__slot_release(r->s, r->chunk[i]);
  vram__memory_zero(r->chunk, n * sizeof *r->chunk);
}

/* Is a stage one of this rank's? Then what goes to it is handed over. */
static int vram__pipe_is_here(const vram__pipe *p, uint32_t stage) {
  uint32_t k = 0;
  while (k < p->local && p->stage[k].stage != stage)
    k++;
  return k < p->local;
}

/* One handover of each microbatch in forward, and of its gradient back. */
static void vram__pipe_sends(vram__step *s, const vram__handover *h, uint32_t n, int in) {
  const uint32_t there = in ? VRAM_COLLECTIVE_RECV : VRAM_COLLECTIVE_SEND,
                 back = in ? VRAM_COLLECTIVE_SEND : VRAM_COLLECTIVE_RECV;
  uint32_t i, mb;
  for (i = 0; i < n; i++)
    for (mb = 0; mb < s->pipe->microbatches; mb++) {
      const uint64_t bytes = vram__dims_bytes_of(h[i].d, h[i].dt);
      vram__communicate(s, (vram_collective)there, bytes, 2);
      if (h[i].grad)
        vram__communicate(s, (vram_collective)back, bytes, 2);
    }
}

static void vram__pipe_communicate(vram__step *s) {
  const vram__pipe *p = s->pipe;
  uint32_t k;
  for (k = 0; k < p->local; k++) {
    const vram__pipe_stage *q = p->stage + k;
    if (!q->is_first && !vram__pipe_is_here(p, q->stage - 1))
      vram__pipe_sends(s, q->in, q->nin, 1);
    if (!q->is_last && !vram__pipe_is_here(p, q->stage + 1))
      vram__pipe_sends(s, q->out, q->nout, 0);
  }
}

/* Forward and backward of all microbatches. */
VRAM__FN void vram__pipe_play(vram__step *s) {
  vram__pipe *const p = s->pipe;
  const uint64_t used = s->used;
  const uint32_t most = (p->stage->nin > p->stage->nout ? p->stage->nin : p->stage->nout) + 1;
  vram__pipe_run r;
  uint32_t *slots, k;
  uint64_t i;
  vram__memory_zero(&r, sizeof r);
  r.s = s;
  r.p = p;
  s->node = NULL;
  slots =
      (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, 4 * (uint64_t)most * sizeof *slots);
  if (!slots || !vram__pipe_run_take(&r)) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__memory_zero(slots, 4 * (uint64_t)most * sizeof *slots);
  vram__pipe_clear(&r);
  vram__pipe_connect(&r);
  if (p->parallel->schedule == VRAM_PIPELINE_GPIPE)
    vram__pipe_gpipe(&r, slots, slots + most);
  else if (p->parallel->schedule == VRAM_PIPELINE_1F1B)
    vram__pipe_one_f_one_b(&r, slots);
  else
    vram__pipe_runtime(&r);
  vram__pipe_merge(&r);
  vram__pipe_communicate(s);
  for (k = 0; k < p->local && !s->failed; k++) {
    if (vram__pipe_micro_at(&r, k, 0)->live)
      vram__slots_release(s, vram__pipe_micro_at(&r, k, 0)->live,
                          vram__pipe_live_room(p->stage + k));
    for (i = 0; i < p->microbatches; i++) {
      vram__pipe_micro *m = vram__pipe_micro_at(&r, k, (uint32_t)i);
      vram__slots_release(s, m->cast, m->ncast);
      vram__slots_release(s, m->in, p->stage[k].nin);
    }
  }
  for (i = 0; p->blocks && r.chunk && i < (uint64_t)p->microbatches * vram__pipe_kept(p); i++)
    p->blocks[i] = r.chunk[i] ? vram__slot_at(s, r.chunk[i])->block : 0;
  s->r->saved_bytes = p->saved;
  s->r->autocast_cache_bytes = p->autocast;
  if (s->used > s->most_used)
    s->most_used = s->used;
  s->used = used;
}

static uint32_t vram__pipe_put(vram__step *s, uint64_t bytes, uint8_t cat) {
  const int64_t size = (int64_t)bytes;
  return vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8, cat).st;
}

/* The batch: the inputs of all microbatches, of which each gets a view, and the target; then what
   the step before has left. */
VRAM__FN void vram__pipe_put_inputs(vram__step *s) {
  vram__pipe *const p = s->pipe;
  uint32_t i;
  uint64_t k, n;
  for (i = 0; i < p->ndata && !s->failed; i++) {
    const vram_value *v = p->g.input[i];
    const vram_dtype dt = v->flags & VRAM__OF_MODEL ? s->dtype : v->dtype;
    const uint64_t bytes =
        vram__product_or_overflow(vram__dims_bytes_of(v->d, dt), p->microbatches);
    if (bytes > (uint64_t)VRAM_MAX_BYTES)
      s->failed = VRAM_ERR_OVERFLOW;
    else
      vram__pipe_put(s, bytes, VRAM_CATEGORY_INPUTS);
    s->r->inputs_bytes += bytes;
  }
  if (p->target && !s->failed)
    vram__pipe_put(s, p->target, VRAM_CATEGORY_INPUTS);
  s->r->inputs_bytes += p->target;
  if (!vram__pipe_keeps_outputs(p) || s->nth == 1)
    return;
  n = vram__pipe_kept(p);
  for (k = 0; k < n * p->microbatches && !s->failed; k++) {
    const vram__pipe_stage *last = vram__pipe_last(p);
    const uint64_t which = k % n;
    p->chunk[k] =
        vram__pipe_put(s,
                       vram__handover_bytes(which < last->nout ? last->out + which
                                                               : last->in + (which - last->nout)),
                       VRAM_CATEGORY_OTHER);
    if (s->replay && p->blocks && p->chunk[k])
      vram__slot_at(s, p->chunk[k])->block = p->blocks[k];
  }
}

/* ---- setting it up */

VRAM__FN int vram__pipe_is(const vram_step_options *o) {
  return o && o->parallel && (o->parallel->pp > 1 || o->parallel->is_pipeline);
}

/* Storages that live at once beside those of one microbatch, at most. */
static uint64_t vram__pipe_in_flight(const vram__pipe *p) {
  uint64_t most = 0;
  uint32_t k, i;
  for (k = 0; k < p->local; k++) {
    const vram__pipe_stage *s = p->stage + k;
    uint32_t now = 0, alive = 0;

    for (i = 0; i < p->naction; i++) {
      const vram_stage_action *a = p->action + i;
      if (a->stage != s->stage)
        continue;

      now += a->kind == VRAM_STAGE_F;
      now -= now && (a->kind == VRAM_STAGE_B || a->kind == VRAM_STAGE_W);
      alive = now > alive ? now : alive;
    }
    most += (uint64_t)alive * vram__pipe_live_room(s) +
            (uint64_t)p->microbatches * (3 * (uint64_t)s->nin + 3 * (uint64_t)s->nout + 1);
  }
  return most;
}

static vram_result vram__pipe_order(vram__pipe *p, vram__step *s) {
  const uint64_t bytes = vram_pipeline_bytes(p->parallel);
  vram_result r;
  void *scratch = vram__pipe_take(p, bytes);
  if (!scratch)
    return VRAM_ERR_MEMORY;
  r = vram_pipeline_order(p->parallel, p->rank, scratch, bytes, NULL, 0, &p->naction, &p->refused);
  if (r) {
    s->problem = p->refused.text;
    return r;
  }
  p->action = (vram_stage_action *)vram__pipe_take(p, p->naction * (uint64_t)sizeof *p->action);
  if (!p->action)
    return VRAM_ERR_MEMORY;
  return vram_pipeline_order(p->parallel, p->rank, scratch, bytes, p->action, p->naction,
                             &p->naction, NULL);
}

static vram_result vram__pipe_problem(const vram__pipe *p, vram__step *s) {
  s->problem = p->problem;
  return p->failed;
}

/* The rank's graph in place of the whole model's, in front of the scratch that is left. */
VRAM__FN vram_result vram__pipe_begin(const vram_graph **g, const vram_step_options *o,
                                      void **scratch, uint64_t *bytes, vram__step *s) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)*scratch % 8) % 8;
  vram__pipe *p;
  uint64_t n;
  vram_result r;
  s->pipe = NULL;
  if (!*scratch || *bytes < skip + sizeof *p)
    return VRAM_ERR_MEMORY;
  p = (vram__pipe *)(void *)((uint8_t *)*scratch + skip);
  vram__memory_zero(p, sizeof *p);
  p->whole = *g;
  p->parallel = o->parallel;
  p->alone = *o->parallel;
  p->alone.wrapper = VRAM_WRAPPER_NONE;
  p->mem = (uint8_t *)p;
  p->used = sizeof *p;
  p->cap = *bytes - skip;
  p->ranks = o->parallel->pp;
  p->rank = vram_parallel_place_of(o->parallel).pp;
  p->local = vram_pipeline_stages(o->parallel);
  p->stages = p->ranks * p->local;
  p->microbatches = o->parallel->microbatches;
  r = vram__pipe_order(p, s);
  if (r)
    return r;
  n = p->cap / 2; /* the other half for steps that nobody sees */
  p->cap -= n;
  if (!vram__pipe_cut(p, o) || !vram__pipe_look(p, o, p->mem + p->cap, n) || !vram__pipe_graph(p) ||
      !vram__pipe_parts(p, o, p->mem + p->cap, n))
    return vram__pipe_problem(p, s);
  p->cap += n;
  if (vram__pipe_last(p)->is_last && !vram__pipe_last(p)->loss) {
    p->target = 8 * (uint64_t)p->microbatches;
    if (p->parallel->return_outputs) {
      s->problem = "return_outputs of a loss: zero-dimensional tensor (at position 0) cannot be "
                   "concatenated (expected loss_fn=NAME)";
      return VRAM_ERR_VALUE;
    }
  }
  if (vram__pipe_keeps_outputs(p)) {
    n = (uint64_t)p->microbatches * vram__pipe_kept(p) + 1;
    p->chunk = (uint32_t *)vram__pipe_take(p, 2 * n * sizeof *p->chunk);
    if (!p->chunk)
      return VRAM_ERR_MEMORY;
    vram__memory_zero(p->chunk, 2 * n * sizeof *p->chunk);
    p->blocks = p->chunk + n;
  }
  p->g.in_flight = vram__pipe_in_flight(p);
  *g = &p->g;
  s->pipe = p;
  p->used = (p->used + 7) & ~(uint64_t)7;
  *scratch = p->mem + p->used;
  *bytes = p->cap - p->used;
  return VRAM_OK;
}

/* Scratch for all of it, from the whole model. */
VRAM__FN uint64_t vram__pipe_bytes(const vram_graph *g, const vram_step_options *o,
                                   uint64_t graph_bytes) {
  const vram_parallel *p = o->parallel;
  const uint64_t local = vram_pipeline_stages(p), ranks = p->pp;
  const uint64_t each =
      (uint64_t)g->nnode * 5200 + (uint64_t)g->nparam * 2000 + (uint64_t)g->nvalue * 600 + g->used;
  const uint64_t micros = vram__product_or_overflow(local, p->microbatches);
  uint64_t n = 65536 + each + vram_pipeline_bytes(p);

  n = vram__sum_or_overflow(n, vram__product_or_overflow(micros, 256));
  n = vram__sum_or_overflow(n, graph_bytes);
  if (p->wrapper == VRAM_WRAPPER_FSDP2)
    n = vram__sum_or_overflow(
        n, vram__product_or_overflow(local, vram__fsdp_bytes(g, o) + g->nvalue *
                                                                         (uint64_t)VRAM__PARTS *
                                                                         sizeof(vram__fsdp_hook)));
  n = vram__sum_or_overflow(
      n, vram__product_or_overflow(vram__product_or_overflow(micros, VRAM__SLOT_BYTES * 4 + 16),
                                   (g->nnode / (ranks * local) + 1) * UINT64_C(3) + 64));
  return vram__product_or_overflow(n, 2);
}
