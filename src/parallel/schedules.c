/* >>parallel/schedules    what torch.distributed.pipelining.schedules does with microbatches */
#include "parallel/run.h"

/* Where buffers stay: a Work of one send holds the tensor, that of a batch (_batch_p2p, up to 2.11)
   does not. */
static int vram__pipe_work_holds(const vram__pipe_run *r) {
  return r->p->buffer && !(r->p->does & VRAM__PIPE_WANTS);
}

/* ---- ScheduleGPipe._step_microbatches */

/* A Work of a single send or receive holds the tensor as long as it is held itself: works of
   receives in the variable `work`, of sends of gradients in a list to the end. */
VRAM__FN void vram__pipe_gpipe(vram__pipe_run *r, uint32_t *ops, uint32_t *work, uint32_t *output) {
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
  for (i = 0; vram__pipe_work_holds(r) && !stage->is_last && i < count; i++) {
    vram__pipe_micro *m = vram__pipe_micro_at(r, 0, i);
    vram__slots_set(r->s, m->sent, stage->nout, m->out, stage->nout);
  }
  if (r->p->buffer) /* the variable `output` */
    vram__slots_set(r->s, output, most, vram__pipe_micro_at(r, 0, count - 1)->out, stage->nout);
  for (i = 0; i < count && !r->s->failed; i++) {
    vram__pipe_micro *m = vram__pipe_micro_at(r, 0, i);
    vram__pipe_receive(r, 0, i, 0);
    vram__slots_release_sent(r, ops, most);
    vram__slots_set(r->s, ops, most, m->gout, stage->nout);
    if (!stage->is_last)
      vram__slots_set(r->s, work, most, m->gout, stage->nout);
    vram__pipe_backward(r, 0, i);
    vram__pipe_zeros(r, 0, i);
    vram__slots_set(r->s, ops, most, m->gin, stage->nin);
    if (r->p->buffer && !vram__pipe_work_holds(r))
      vram__slots_release(r->s, m->gin, stage->nin);
  }
  if (!stage->is_first)
    vram__slots_release(r->s, work, most);
  if (stage->is_last)
    vram__pipe_losses(r, 0, count - 1);
  vram__pipe_reduce(r);
  for (i = count; i--;) /* a list goes from its end */
    vram__slots_release_sent(r, vram__pipe_micro_at(r, 0, i)->sent, stage->nout);
  vram__slots_release_sent(r, ops, most);
  vram__slots_release(r->s, work, most);
  if (stage->is_last)
    vram__slots_release(r->s, output, most);
  vram__slots_release_sent(r, output, most);
  for (i = count; i--;)
    vram__slots_release_sent(r, vram__pipe_micro_at(r, 0, i)->gin, stage->nin);
  if (stage->is_last)
    vram__pipe_loss_last(r, 0);
}

/* ---- Schedule1F1B._step_microbatches */

/* Its variables; `most` slots each. */
typedef struct vram__pipe_1f1b {
  uint32_t *fwd_sends, *fwd_recvs, *bwd_recvs, *bwd_sends, *send_work;
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
  if (r->p->buffer)
    return;
  vram__slots_release(r->s, v->fwd_sends, v->most);
  if (v->sent)
    vram__pipe_sent(r, v->sent - 1);
  v->sent = 0;
}

static void vram__pipe_1f1b_send(vram__pipe_run *r, vram__pipe_1f1b *v, uint32_t mb) {
  const vram__pipe_stage *stage = r->p->stage;
  if (!stage->is_last || r->p->buffer) /* then the variable `output` holds it, too */
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
  vram__slots_release_sent(r, v->bwd_sends, v->most);
  vram__slots_set(r->s, v->bwd_sends, v->most, m->gin, stage->nin);
  vram__slots_release(r->s, m->gin, stage->nin);
}

/* Passes of microbatches behind the first are alike: each plays the same parts, in a state that
   differs from the one before by what a pass adds. Some at the begin and at the end of the warmup,
   of the rounds of a backward and a forward, and of the cooldown are played, and those between are
   counted as what the last of the first ones has added, which is what the one before it did. The
   first pass of each kind may differ, and two are compared: another one behind them has the most
   that there is. */
enum { VRAM__WARM_PLAYED = 5, VRAM__ROUNDS_PLAYED = 4 }; /* the cooldown has one pass less */

/* Does a microbatch hold copies of autocast's cache behind its forward pass? Those of the warmup
   share theirs, which go with the last of them: rounds up to there are not like those behind it. */
static int vram__pipe_holds_copies(const vram__pipe_stage *stage) {
  uint32_t i, later;
  for (later = 0; later < 2; later++) {
    const vram__played *part = stage->part + VRAM__PART_FORWARD + later;
    for (i = 0; part->known && i < part->count; i++)
      if (part->event[i].kind == VRAM__PART_HOLD)
        return 1;
  }
  return 0;
}

static void vram__pipe_fold_begin(vram__pipe_run *r, uint32_t warm) {
  const vram__step *s = r->s;
  const uint32_t rounds = r->count - warm;
  if (!s->o->layers_once || s->replay || s->cuts || s->o->event || s->o->nodes ||
      s->count.stop_at || r->chunk || r->p->parallel->hook || r->p->differ || r->p->buffer ||
      (r->p->clears && warm > 1 && vram__pipe_holds_copies(r->p->stage)))
    return;
  r->fold.warm = warm > VRAM__WARM_PLAYED ? warm - VRAM__WARM_PLAYED : 0;
  r->fold.rounds = rounds > VRAM__ROUNDS_PLAYED ? rounds - VRAM__ROUNDS_PLAYED : 0;
  r->count -= r->fold.warm + r->fold.rounds;
}

/* Passes of another kind begin, of which so many are left out. */
static void vram__pipe_fold_next(vram__pipe_run *r, uint32_t left) {
  if (r->fold.left && !r->s->failed) { /* of those before: none were alike */
    r->p->differ = 1;
    r->s->failed = VRAM_ERR_LIMIT;
  }
  r->fold.left = left;
  r->fold.seen = 0;
}

/* Behind a pass. */
static void vram__pipe_fold_pass(vram__pipe_run *r) {
  vram__pipe_fold *f = &r->fold;
  vram__layer_count now, one, two;
  if (!f->left || r->s->failed)
    return;
  now = vram__layer_now(r->s);
  if (f->seen++ >= 2) {
    one = vram__layer_less(&f->then[1], &f->then[0]);
    two = vram__layer_less(&now, &f->then[1]);
    if (vram__layer_counts_same(&one, &two)) {
      vram__layer_add(r->s, &two, f->left);
      f->left = 0;
      return;
    }
  }
  f->then[0] = f->then[1];
  f->then[1] = now;
}

VRAM__FN void vram__pipe_one_f_one_b(vram__pipe_run *r, uint32_t *slots) {
  const vram__pipe_stage *stage = r->p->stage;
  const uint32_t ahead = r->p->stages - stage->stage;
  uint32_t warm = ahead < r->count ? ahead : r->count, count;
  vram__pipe_1f1b v;
  uint32_t f = 0, b = 0;
  vram__pipe_fold_begin(r, warm);
  warm -= r->fold.warm;
  count = r->count;
  v.most = stage->nin > stage->nout ? stage->nin : stage->nout;
  v.fwd_sends = slots;
  v.fwd_recvs = slots + v.most;
  v.bwd_recvs = slots + 2 * (size_t)v.most;
  v.bwd_sends = slots + 3 * (size_t)v.most;
  v.send_work = slots + 4 * (size_t)v.most;
  v.sent = 0;
  if (r->p->buffer && stage->is_last)
    r->output = v.fwd_sends;
  vram__pipe_fold_next(r, r->fold.warm);
  for (; f < warm && !r->s->failed; f++) {
    vram__pipe_1f1b_forward(r, &v, f);
    if (f)
      vram__pipe_1f1b_release(r, &v);
    vram__pipe_1f1b_send(r, &v, f);
    if (f + 1 < warm && vram__pipe_work_holds(r))
      vram__slots_set(r->s, v.send_work, v.most, vram__pipe_micro_at(r, 0, f)->out, stage->nout);
    vram__pipe_fold_pass(r);
  }
  vram__pipe_fold_next(r, r->fold.rounds);
  while (!r->s->failed) {
    vram__pipe_1f1b_backward(r, &v, b++, 1);
    if (f == count)
      break;
    vram__pipe_1f1b_forward(r, &v, f);
    vram__pipe_1f1b_send(r, &v, f++);
    vram__pipe_fold_pass(r);
  }
  vram__slots_release_sent(r, v.send_work, v.most);
  vram__pipe_fold_next(r, r->fold.warm);
  while (b < count && !r->s->failed) {
    vram__pipe_1f1b_backward(r, &v, b++, 0);
    vram__pipe_fold_pass(r);
  }
  vram__pipe_fold_next(r, 0);
  if (stage->is_last)
    vram__pipe_losses(r, 0, count - 1);
  vram__pipe_reduce(r);
  if (stage->is_last)
    vram__slots_release(r->s, v.fwd_sends, v.most);
  vram__slots_release_sent(r, v.fwd_sends, v.most);
  vram__slots_release(r->s, v.fwd_recvs, v.most);
  vram__slots_release(r->s, v.bwd_recvs, v.most);
  if (stage->is_last)
    vram__pipe_loss_last(r, 0);
  vram__slots_release_sent(r, v.bwd_sends, v.most);
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
    if (!r->p->buffer || vram__pipe_work_holds(r))
      vram__slots_set(r->s, m->sent, stage->nout, m->out, stage->nout);
    break;
  case VRAM_STAGE_SEND_B:
    vram__pipe_zeros(r, k, mb);
    if (r->p->buffer && !vram__pipe_work_holds(r))
      vram__slots_release_sent(r, m->gin, stage->nin);
    break;
  case VRAM_STAGE_RECV_F:
  case VRAM_STAGE_RECV_B:
    vram__pipe_receive(r, k, mb, a->kind == VRAM_STAGE_RECV_F);
    break;
  case VRAM_STAGE_WAIT_F:
    if (!r->p->buffer)
      vram__slots_release(r->s, m->sent, stage->nout);
    break;
  case VRAM_STAGE_WAIT_B:
    if (!r->p->buffer)
      vram__slots_release(r->s, m->gin, stage->nin);
    break;
  default:
    vram__pipe_flow(r, k, a->kind);
  }
}

VRAM__FN void vram__pipe_runtime(vram__pipe_run *r) {
  uint32_t i;
  for (i = 0; i < r->p->naction && !r->s->failed; i++)
    vram__pipe_action(r, r->p->action + i);
  for (i = r->p->naction; i-- && vram__pipe_work_holds(r) && !r->s->failed;) { /* send_ops.pop() */
    const vram_stage_action *a = r->p->action + i;
    const uint32_t k = vram__pipe_local(r, a->stage);
    vram__pipe_micro *m = vram__pipe_micro_at(r, k, a->microbatch);
    if (a->kind == VRAM_STAGE_SEND_F)
      vram__slots_release_sent(r, m->sent, r->p->stage[k].nout);
    else if (a->kind == VRAM_STAGE_SEND_B)
      vram__slots_release_sent(r, m->gin, r->p->stage[k].nin);
  }
  for (i = 0; i < r->p->local; i++)
    if (r->p->stage[i].is_last)
      vram__pipe_losses(r, i, r->p->microbatches);
}
