/* >>parallel/order    what a rank of a pipeline does, and in which order
   torch/distributed/pipelining/schedules.py: what each schedule computes
   (_calculate_single_rank_operations), and where the sends, receives and waits go in between
   (_add_unshard_reshard, _add_reduce_grad, _add_send_recv, _add_wait_send). */
#include "core/core.h"

enum { VRAM__STAGE_WITH_NEXT = 64 }; /* bit: the next action comes with it (OVERLAP_F_B) */

/* fully_shard's gathers and reductions take turns, with it or without. */
static int vram__stage_is_flow(uint32_t kind) {
  return (kind & (VRAM__STAGE_WITH_NEXT - 1u)) >= VRAM_STAGE_UNSHARD;
}

/* A pipeline as its schedule sees it. */
typedef struct vram__pipeline {
  uint32_t ranks, local, stages, microbatches;
  vram_pipeline schedule;
  uint32_t round;  /* microbatches of a round of an interleaved schedule */
  uint8_t v, zero; /* stages lie in a V; backward is split into input and weight part */
  uint8_t shards;  /* the stages are fully_shard's */
  uint32_t rounds;
} vram__pipeline;

/* A list that is only counted where it has no room. */
typedef struct vram__actions {
  vram_stage_action *at;
  uint32_t count, cap;
} vram__actions;

static void vram__actions_put(vram__actions *to, uint32_t kind, uint32_t stage, uint32_t mb) {
  if (to->count < to->cap) {
    vram_stage_action *a = to->at + to->count;
    a->stage = stage;
    a->microbatch = mb;
    a->kind = (uint8_t)kind;
  }
  to->count++;
}

static int vram__pipeline_is_single(vram_pipeline schedule) {
  return schedule == VRAM_PIPELINE_1F1B || schedule == VRAM_PIPELINE_GPIPE;
}

static void vram__pipeline_of(const vram_parallel *p, vram__pipeline *out) {
  vram__memory_zero(out, sizeof *out);
  out->schedule = p->schedule;
  out->ranks = p->pp ? p->pp : 1;
  out->local = p->stages ? p->stages : vram__pipeline_is_single(p->schedule) ? 1 : 2;
  out->stages = out->ranks * out->local;
  out->microbatches = p->microbatches;
  out->v = p->schedule == VRAM_PIPELINE_ZBV_ZERO_BUBBLE || p->schedule == VRAM_PIPELINE_DUAL_PIPE_V;
  out->zero = p->schedule == VRAM_PIPELINE_INTERLEAVED_ZERO_BUBBLE;
  out->shards = p->wrapper == VRAM_WRAPPER_FSDP2;
  out->rounds = p->microbatches / out->ranks;
  out->rounds += !out->rounds;
  out->round = p->microbatches / out->rounds;
}

/* The k-th stage of a rank (generate_stage_to_rank_mapping). */
static uint32_t vram__pipeline_stage(const vram__pipeline *p, uint32_t rank, uint32_t k) {
  return p->v && (k & 1) ? (k + 1) * p->ranks - 1 - rank : k * p->ranks + rank;
}

static uint32_t vram__pipeline_rank(const vram__pipeline *p, uint32_t stage) {
  const uint32_t k = stage / p->ranks, at = stage % p->ranks;
  return p->v && (k & 1) ? p->ranks - 1 - at : at;
}

/* ---- what a rank computes */

/* ScheduleGPipe, ScheduleLoopedBFS */
static void vram__order_breadth_first(const vram__pipeline *p, uint32_t rank, vram__actions *to) {
  const int looped = p->schedule == VRAM_PIPELINE_LOOPED_BFS;
  uint32_t k, m;
  for (k = 0; k < p->local; k++)
    for (m = 0; m < p->microbatches; m++)
      vram__actions_put(to, VRAM_STAGE_F, vram__pipeline_stage(p, rank, k), m);
  for (k = p->local; k--;)
    for (m = 0; m < p->microbatches; m++)
      vram__actions_put(to, VRAM_STAGE_B, vram__pipeline_stage(p, rank, k),
                        looped ? p->microbatches - 1 - m : m);
}

/* Schedule1F1B._step_microbatches: one more forward runs before the first backward than its table
   says. */
static void vram__order_1f1b(const vram__pipeline *p, uint32_t rank, vram__actions *to) {
  const uint32_t first = p->stages - rank < p->microbatches ? p->stages - rank : p->microbatches;
  uint32_t f, b = 0;
  for (f = 0; f < first; f++)
    vram__actions_put(to, VRAM_STAGE_F, rank, f);
  for (; b < p->microbatches; b++) {
    vram__actions_put(to, VRAM_STAGE_B, rank, b);
    if (f < p->microbatches)
      vram__actions_put(to, VRAM_STAGE_F, rank, f++);
  }
}

/* The microbatch that op `step` of an interleaved schedule works on: each stage takes `round` of
   them in a row, then the next stage does. */
static uint32_t vram__order_microbatch(const vram__pipeline *p, uint32_t step) {
  return step / (p->round * p->local) * p->round + step % p->round;
}

/* ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble (_get_1f1b_rank_ops) */
static void vram__order_interleaved(const vram__pipeline *p, uint32_t rank, vram__actions *to) {
  const uint32_t ops = p->local * p->microbatches;
  const uint32_t warm = (p->local - 1) * p->round + (p->zero ? 1u : 2u) * (p->ranks - 1 - rank);
  const uint32_t warmup = warm < ops ? warm : ops;
  uint32_t op, weight = 0;
  for (op = 0; op < ops + warmup || (p->zero && weight < ops); op++) {
    if (op < ops)
      vram__actions_put(to, VRAM_STAGE_F, vram__pipeline_stage(p, rank, op / p->round % p->local),
                        vram__order_microbatch(p, op));
    if (op >= warmup && op < ops + warmup) {
      const uint32_t step = op - warmup;
      vram__actions_put(to, p->zero ? VRAM_STAGE_I : VRAM_STAGE_B,
                        vram__pipeline_stage(p, rank, p->local - 1 - step / p->round % p->local),
                        vram__order_microbatch(p, step));
    }
    if (p->zero && op >= warmup && (op - warmup >= rank || op >= ops + warmup) && weight < ops) {
      vram__actions_put(to, VRAM_STAGE_W,
                        vram__pipeline_stage(p, rank, p->local - 1 - weight / p->round % p->local),
                        vram__order_microbatch(p, weight));
      weight++;
    }
  }
}

/* The counters of ScheduleZBVZeroBubble; microbatches that there are not are left out. */
typedef struct vram__order_v {
  const vram__pipeline *p;
  vram__actions *to;
  uint32_t stage[2], f[2], b[2], w[2];
} vram__order_v;

static void vram__order_v_put(vram__order_v *v, uint32_t kind, uint32_t k) {
  uint32_t *const count = kind == VRAM_STAGE_F ? v->f : kind == VRAM_STAGE_W ? v->w : v->b;
  if (count[k] < v->p->microbatches)
    vram__actions_put(v->to, kind, v->stage[k], count[k]);
  count[k]++;
}

static void vram__order_v_iw(vram__order_v *v, uint32_t k) {
  vram__order_v_put(v, VRAM_STAGE_I, k);
  vram__order_v_put(v, VRAM_STAGE_W, k);
}

/* ScheduleZBVZeroBubble */
static void vram__order_zbv(const vram__pipeline *p, uint32_t rank, vram__actions *to) {
  const uint32_t full = 2 * p->ranks - 1;
  const uint32_t n = full > p->microbatches ? full : p->microbatches;
  vram__order_v v;
  uint32_t i;
  vram__memory_zero(&v, sizeof v);
  v.p = p;
  v.to = to;
  for (i = 0; i < 2; i++)
    v.stage[i] = vram__pipeline_stage(p, rank, i);
  for (i = 0; i < 2 * (p->ranks - rank) - 1; i++)
    vram__order_v_put(&v, VRAM_STAGE_F, 0);
  for (i = 0; i < rank; i++) {
    vram__order_v_put(&v, VRAM_STAGE_F, 1);
    vram__order_v_put(&v, VRAM_STAGE_F, 0);
  }
  for (i = 0; i < p->ranks - rank; i++) {
    vram__order_v_put(&v, VRAM_STAGE_F, 1);
    vram__order_v_iw(&v, 1);
  }
  while (v.f[1] < v.f[0] || v.f[0] < n) {
    if (v.f[0] < n)
      vram__order_v_put(&v, VRAM_STAGE_F, 0);
    vram__order_v_iw(&v, 0);
    vram__order_v_put(&v, VRAM_STAGE_F, 1);
    vram__order_v_iw(&v, 1);
  }
  for (i = 0; i < rank; i++) {
    vram__order_v_put(&v, VRAM_STAGE_I, 0);
    vram__order_v_put(&v, VRAM_STAGE_I, 1);
  }
  for (i = 0; i < p->ranks - rank; i++)
    vram__order_v_iw(&v, 0);
  while (v.w[1] < v.b[1])
    vram__order_v_put(&v, VRAM_STAGE_W, 1);
  while (v.w[0] < v.b[0])
    vram__order_v_put(&v, VRAM_STAGE_W, 0);
}

/* The counters of ScheduleDualPipeV, and the weight parts that wait: at most as many as there are
   input parts on one rank, which follow one another on each stage. */
typedef struct vram__order_dual {
  vram__actions *to;
  uint32_t stage[2], f[2], b[2];
  uint32_t waiting, begun; /* weight parts: in all so far, of those that were taken */
  vram_stage_action *queue;
} vram__order_dual;

static void vram__order_dual_put(vram__order_dual *d, uint32_t kind, uint32_t k) {
  uint32_t *const count = kind == VRAM_STAGE_F ? d->f : d->b;
  if (kind == VRAM_STAGE_I && d->queue) {
    d->queue[d->waiting].stage = d->stage[k];
    d->queue[d->waiting].microbatch = count[k];
  }
  d->waiting += kind == VRAM_STAGE_I;
  vram__actions_put(d->to, kind, d->stage[k], count[k]++);
}

static void vram__order_dual_weight(vram__order_dual *d) {
  vram_stage_action a;
  if (d->begun == d->waiting)
    return;
  vram__memory_zero(&a, sizeof a);
  if (d->queue)
    a = d->queue[d->begun];
  d->begun++;
  vram__actions_put(d->to, VRAM_STAGE_W, a.stage, a.microbatch);
}

static void vram__order_dual_both(vram__order_dual *d, uint32_t f) {
  vram__order_dual_put(d, VRAM_STAGE_F, f);
  if (d->to->count <= d->to->cap)
    d->to->at[d->to->count - 1].kind |= VRAM__STAGE_WITH_NEXT;
  vram__order_dual_put(d, VRAM_STAGE_B, 1 - f);
}

/* ScheduleDualPipeV. queue: room for 2 * ranks, NULL where actions are only counted. */
static void vram__order_dual_pipe(const vram__pipeline *p, uint32_t rank, vram__actions *to,
                                  vram_stage_action *queue) {
  const uint32_t behind = p->ranks - rank - 1, last = rank + 1;
  const uint32_t main = p->microbatches + rank + 1 - 2 * p->ranks;
  uint32_t i, zero = VRAM_STAGE_B;
  vram__order_dual d;
  vram__memory_zero(&d, sizeof d);
  d.to = to;
  d.queue = queue;
  for (i = 0; i < 2; i++)
    d.stage[i] = vram__pipeline_stage(p, rank, i);
  for (i = 0; i < 2 * behind; i++)
    vram__order_dual_put(&d, VRAM_STAGE_F, 0);
  for (i = 0; i < last; i++) {
    vram__order_dual_put(&d, VRAM_STAGE_F, 0);
    vram__order_dual_put(&d, VRAM_STAGE_F, 1);
  }
  for (i = 0; i < behind; i++) {
    vram__order_dual_put(&d, VRAM_STAGE_I, 1);
    vram__order_dual_weight(&d);
    vram__order_dual_put(&d, VRAM_STAGE_F, 1);
  }
  for (i = 0; i < main; i++) {
    if (!i && !behind) {
      vram__order_dual_put(&d, VRAM_STAGE_F, 0);
      vram__order_dual_put(&d, VRAM_STAGE_B, 1);
    } else
      vram__order_dual_both(&d, 0);
    vram__order_dual_both(&d, 1);
  }
  for (i = 0; i < behind; i++) {
    vram__order_dual_put(&d, VRAM_STAGE_B, 1);
    vram__order_dual_both(&d, 1);
  }
  for (i = 0; i < last; i++) {
    if (i == last / 2 && rank % 2)
      zero = VRAM_STAGE_I;
    vram__order_dual_put(&d, zero, 1);
    if (i == last / 2 && !(rank % 2))
      zero = VRAM_STAGE_I;
    vram__order_dual_put(&d, zero, 0);
  }
  for (i = 0; i < behind; i++) {
    vram__order_dual_weight(&d);
    vram__order_dual_put(&d, zero, 0);
  }
  for (i = 0; i < last; i++)
    vram__order_dual_weight(&d);
}

static void vram__order_of(const vram__pipeline *p, uint32_t rank, vram__actions *to,
                           vram_stage_action *queue) {
  switch (p->schedule) {
  case VRAM_PIPELINE_1F1B:
    vram__order_1f1b(p, rank, to);
    break;
  case VRAM_PIPELINE_INTERLEAVED_1F1B:
  case VRAM_PIPELINE_INTERLEAVED_ZERO_BUBBLE:
    vram__order_interleaved(p, rank, to);
    break;
  case VRAM_PIPELINE_ZBV_ZERO_BUBBLE:
    vram__order_zbv(p, rank, to);
    break;
  case VRAM_PIPELINE_DUAL_PIPE_V:
    vram__order_dual_pipe(p, rank, to, queue);
    break;
  default:
    vram__order_breadth_first(p, rank, to);
  }
}

/* ---- turns that fully_shard's gathers and the reductions of gradients take; without it they do
   nothing, and are in no list, but receives come in other places */

enum { VRAM__STAGES_ACTIVE = 3, VRAM__STAGES_LOCAL = 64 };

/* Stages of a rank, and where in its actions each comes next. */
typedef struct vram__residence {
  const vram__pipeline *p;
  uint32_t rank;
  uint32_t next[VRAM__STAGES_LOCAL], done[VRAM__STAGES_LOCAL];
  uint32_t active[VRAM__STAGES_LOCAL], nactive; /* in the order in which they were gathered */
} vram__residence;

static uint32_t vram__residence_local(const vram__residence *f, uint32_t stage) {
  return stage / f->p->ranks;
}

/* The next stages that compute, VRAM__STAGES_ACTIVE of them or one more (both of an OVERLAP_F_B);
   how many. */
static uint32_t vram__residence_soon(vram__residence *f, const vram__actions *a, uint32_t at,
                                     uint32_t *to) {
  uint32_t k, n = 0, i;
  uint32_t seen = 0;
  for (k = 0; k < f->p->local; k++)
    while (f->next[k] < a->count &&
           (f->next[k] < at || vram__residence_local(f, a->at[f->next[k]].stage) != k))
      f->next[k]++;
  while (n < f->p->local) {
    uint32_t best = UINT32_MAX, which = 0;
    for (k = 0; k < f->p->local; k++) {
      for (i = 0; i < n && to[i] != k;)
        i++;
      if (i == n && f->next[k] < a->count && f->next[k] < best)
        best = f->next[k], which = k;
    }
    if (best == UINT32_MAX ||
        (n >= VRAM__STAGES_ACTIVE &&
         !(best && seen + 1 == best && (a->at[best - 1].kind & VRAM__STAGE_WITH_NEXT))))
      break;
    to[n++] = which;
    seen = best;
  }
  return n;
}

static void vram__residence_put(const vram__residence *f, uint32_t kind, uint32_t local,
                                vram__actions *to) {
  vram__actions_put(to, kind, vram__pipeline_stage(f->p, f->rank, local), 0);
}

/* Turns before action `at`: stages that are not needed soon go, those that are come. */
static void vram__residence_turns(vram__residence *f, const vram__actions *a, uint32_t at,
                                  vram__actions *to) {
  uint32_t soon[VRAM__STAGES_LOCAL], i, j, n = vram__residence_soon(f, a, at, soon), kept = 0;
  for (i = 0; i < f->nactive; i++) {
    for (j = 0; j < n && soon[j] != f->active[i];)
      j++;
    if (j == n)
      vram__residence_put(f, VRAM_STAGE_RESHARD, f->active[i], to);
    else
      f->active[kept++] = f->active[i];
  }
  f->nactive = kept;
  for (i = 0; i < n; i++) {
    for (j = 0; j < f->nactive && f->active[j] != soon[i];)
      j++;
    if (j < f->nactive)
      continue;
    f->active[f->nactive++] = soon[i];
    vram__residence_put(f, VRAM_STAGE_UNSHARD, soon[i], to);
  }
}

/* The last backward of a stage is followed by the reduction and its wait. */
static void vram__residence_reduce(vram__residence *f, const vram_stage_action *a,
                                   vram__actions *to) {
  const uint32_t kind = a->kind & (VRAM__STAGE_WITH_NEXT - 1);
  if ((kind != VRAM_STAGE_B && kind != VRAM_STAGE_W) ||
      ++f->done[vram__residence_local(f, a->stage)] != f->p->microbatches)
    return;
  vram__actions_put(to, VRAM_STAGE_REDUCE_GRAD, a->stage, 0);
  vram__actions_put(to, VRAM_STAGE_WAIT_REDUCE_GRAD, a->stage, 0);
}

/* All turns of a rank. */
static void vram__order_with_turns(const vram__pipeline *p, uint32_t rank, const vram__actions *a,
                                   vram__actions *to) {
  vram__residence f;
  uint32_t i;
  vram__memory_zero(&f, sizeof f);
  f.p = p;
  f.rank = rank;
  for (i = 0; i < a->count; i++) {
    vram__residence_turns(&f, a, i, to);
    vram__actions_put(to, a->at[i].kind, a->at[i].stage, a->at[i].microbatch);
    if (a->at[i].kind & VRAM__STAGE_WITH_NEXT) {
      i++;
      vram__actions_put(to, a->at[i].kind, a->at[i].stage, a->at[i].microbatch);
      vram__residence_reduce(&f, a->at + i - 1, to);
    }
    vram__residence_reduce(&f, a->at + i, to);
  }
  for (i = 0; i < f.nactive; i++)
    vram__residence_put(&f, VRAM_STAGE_RESHARD, f.active[i], to);
}

/* ---- sends, receives, waits */

enum { VRAM__READY_F = 1, VRAM__READY_B = 2, VRAM__SENT_F = 4 };

/* All ranks take turns; what one computes becomes ready on the rank of the next stage. */
typedef struct vram__exchange {
  const vram__pipeline *p;
  uint32_t rank;  /* whose actions are kept */
  uint8_t *ready; /* by stage and microbatch: its forward, its backward may run */
  vram__actions *to;
} vram__exchange;

static uint8_t *vram__exchange_at(const vram__exchange *x, uint32_t stage, uint32_t mb) {
  return x->ready + (uint64_t)stage * x->p->microbatches + mb;
}

static int vram__exchange_may(const vram__exchange *x, const vram_stage_action *a) {
  const uint32_t kind = a->kind & (VRAM__STAGE_WITH_NEXT - 1);
  if (kind == VRAM_STAGE_F)
    return !a->stage || (*vram__exchange_at(x, a->stage, a->microbatch) & VRAM__READY_F);
  if (kind == VRAM_STAGE_B || kind == VRAM_STAGE_I)
    return a->stage + 1 == x->p->stages ||
           (*vram__exchange_at(x, a->stage, a->microbatch) & VRAM__READY_B);
  return 1;
}

/* `rank` has computed a: what it gives goes to the next stage, or to the one before. */
static void vram__exchange_send(vram__exchange *x, uint32_t rank, const vram_stage_action *a) {
  const uint32_t kind = a->kind & (VRAM__STAGE_WITH_NEXT - 1);
  const int forward = kind == VRAM_STAGE_F;
  uint32_t next, to;
  if (!forward && kind != VRAM_STAGE_B && kind != VRAM_STAGE_I)
    return;
  if (forward ? a->stage + 1 == x->p->stages : !a->stage)
    return;
  next = forward ? a->stage + 1 : a->stage - 1;
  to = vram__pipeline_rank(x->p, next);
  *vram__exchange_at(x, next, a->microbatch) |= forward ? VRAM__READY_F : VRAM__READY_B;
  if (to == rank)
    return;
  if (rank == x->rank)
    vram__actions_put(x->to, forward ? VRAM_STAGE_SEND_F : VRAM_STAGE_SEND_B, a->stage,
                      a->microbatch);
  if (to == x->rank)
    vram__actions_put(x->to, forward ? VRAM_STAGE_RECV_F : VRAM_STAGE_RECV_B, next, a->microbatch);
}

/* One turn of a rank whose actions begin at a; gives where the next one begins. */
static const vram_stage_action *vram__exchange_turn(vram__exchange *x, uint32_t rank,
                                                    const vram_stage_action *a) {
  const uint32_t n = a->kind & VRAM__STAGE_WITH_NEXT ? 2 : 1;
  uint32_t i;
  for (i = 0; i < n; i++)
    if (!vram__stage_is_flow(a[i].kind) && !vram__exchange_may(x, a + i))
      return a;
  for (i = 0; rank == x->rank && i < n; i++)
    if (x->p->shards || !vram__stage_is_flow(a[i].kind))
      vram__actions_put(x->to, a[i].kind & (VRAM__STAGE_WITH_NEXT - 1u), a[i].stage,
                        a[i].microbatch);
  for (i = 0; i < n; i++)
    if (!vram__stage_is_flow(a[i].kind))
      vram__exchange_send(x, rank, a + i);
  return a + n;
}

/* Each send is waited for: of a forward behind the backward of its microbatch, of the others at the
   end (_add_wait_send). at: the rank's actions; sent: a byte for each stage and microbatch. */
static void vram__order_waits(const vram__pipeline *p, const vram__actions *at, uint8_t *sent,
                              vram__actions *to) {
  uint32_t i;
  vram__memory_zero(sent, (uint64_t)p->stages * p->microbatches);
  for (i = 0; i < at->count; i++) {
    const vram_stage_action *a = at->at + i;
    uint8_t *s = sent + (uint64_t)a->stage * p->microbatches + a->microbatch;
    vram__actions_put(to, a->kind, a->stage, a->microbatch);
    if (a->kind == VRAM_STAGE_SEND_F)
      *s |= VRAM__SENT_F;
    else if ((a->kind == VRAM_STAGE_B || a->kind == VRAM_STAGE_I) && (*s & VRAM__SENT_F)) {
      *s &= (uint8_t)~VRAM__SENT_F;
      vram__actions_put(to, VRAM_STAGE_WAIT_F, a->stage, a->microbatch);
    }
  }
  for (i = 0; i < at->count; i++) {
    const vram_stage_action *a = at->at + i;
    if (a->kind == VRAM_STAGE_SEND_B)
      vram__actions_put(to, VRAM_STAGE_WAIT_B, a->stage, a->microbatch);
  }
}

/* ---- */

static vram_result vram__order_refuse(vram_error *err, vram_result code, const char *what) {
  vram__error_begin(err, code, 0, what);
  return code;
}

static vram_result vram__order_refuse_number(vram_error *err, const char *what, uint64_t n,
                                             const char *then, uint64_t m, const char *end) {
  vram__error_begin(err, VRAM_ERR_VALUE, 0, "");
  vram__error_number(err, what, n);
  vram__error_number(err, then, m);
  vram__error_text(err, end);
  return VRAM_ERR_VALUE;
}

/* What the schedule's constructor refuses, in its words. */
static vram_result vram__order_problem(const vram__pipeline *p, vram_error *err) {
  if ((uint32_t)p->schedule >= VRAM_PIPELINE_COUNT)
    return vram__order_refuse(err, VRAM_ERR_VALUE, "unknown schedule");
  if (!p->microbatches || p->local > VRAM__STAGES_LOCAL ||
      (uint64_t)p->ranks * p->local * p->microbatches > UINT32_C(1) << 28)
    return vram__order_refuse(err, VRAM_ERR_LIMIT,
                              "microbatches or stages out of range (expected at least one, at most "
                              "64 stages of a rank, 2^28 stages times microbatches)");
  if (vram__pipeline_is_single(p->schedule) && p->local != 1)
    return vram__order_refuse(err, VRAM_ERR_VALUE, "stages: this schedule has one stage a rank");
  if (p->schedule == VRAM_PIPELINE_1F1B && p->microbatches < p->stages)
    return vram__order_refuse_number(err, "Number of microbatches (", p->microbatches,
                                     ") must be greater than or equal to the number of stages (",
                                     p->stages, ").");
  if ((p->schedule == VRAM_PIPELINE_INTERLEAVED_1F1B || p->zero) && p->microbatches % p->rounds)
    return vram__order_refuse_number(
        err,
        p->zero ? "Zero bubble requires the number of microbatches to be a multiple of the number "
                  "of rounds ("
                : "Interleaved 1F1B requires the number of microbatches to be a multiple of the "
                  "number of rounds (",
        p->rounds, "), but got ", p->microbatches, ".");
  if (p->v && p->local != 2)
    return vram__order_refuse_number(err, "ZBV requires exactly ", 2, " stages per rank, but got ",
                                     p->local, ".");
  if (p->schedule == VRAM_PIPELINE_DUAL_PIPE_V && p->microbatches < p->stages)
    return vram__order_refuse_number(
        err, "DualPipeV requires at least as many microbatches as stages, but got ",
        p->microbatches, " microbatches and ", p->stages, " stages.");
  return VRAM_OK;
}

/* Actions of a rank with all turns: forward, input and weight part, turns of gathers (at most one
   of a kind before each action), send, receive and wait for each. */
static uint64_t vram__order_room(const vram__pipeline *p) {
  return (uint64_t)p->local * p->microbatches * 12 + (uint64_t)p->local * 8 + 8;
}

VRAM_API uint64_t vram_pipeline_bytes(const vram_parallel *parallel) {
  vram__pipeline p;
  vram__pipeline_of(parallel, &p);
  if (vram__order_problem(&p, NULL))
    return 0;
  if (vram__pipeline_is_single(p.schedule))
    return 0;
  return ((uint64_t)p.ranks + 2) * vram__order_room(&p) * sizeof(vram_stage_action) +
         2 * ((uint64_t)p.stages * p.microbatches + 8) + (uint64_t)p.ranks * 16 + 64;
}

/* Where a rank is in its list. */
typedef struct vram__order_turns {
  const vram_stage_action *at, *end;
} vram__order_turns;

/* Memory of vram_pipeline_order, in parts. */
typedef struct vram__order_memory {
  vram_stage_action *plain, *rank, *own; /* a rank's without turns; all ranks'; the kept one's */
  vram__order_turns *turns;
  uint8_t *flags;
} vram__order_memory;

static void vram__order_take(const vram__pipeline *p, void *scratch, vram__order_memory *m) {
  const uint64_t room = vram__order_room(p);
  m->turns = (vram__order_turns *)scratch;
  m->plain = (vram_stage_action *)(void *)(m->turns + p->ranks);
  m->own = m->plain + room;
  m->rank = m->own + room;
  m->flags = (uint8_t *)(m->rank + p->ranks * room);
}

/* The lists of all ranks, with their turns. */
static void vram__order_all(const vram__pipeline *p, const vram__order_memory *m) {
  const uint64_t room = vram__order_room(p);
  uint32_t r;
  for (r = 0; r < p->ranks; r++) {
    vram__actions plain, with;
    plain.at = m->plain;
    plain.count = 0;
    plain.cap = (uint32_t)room;
    vram__order_of(p, r, &plain, m->own); /* not needed yet: room for what waits */
    with.at = m->rank + r * room;
    with.count = 0;
    with.cap = (uint32_t)room;
    vram__order_with_turns(p, r, &plain, &with);
    m->turns[r].at = with.at;
    m->turns[r].end = with.at + (with.count < with.cap ? with.count : with.cap);
  }
}

VRAM_API vram_result vram_pipeline_order(const vram_parallel *parallel, uint32_t rank,
                                         void *scratch, uint64_t bytes, vram_stage_action *list,
                                         uint32_t cap, uint32_t *count, vram_error *err) {
  vram__pipeline p;
  vram__order_memory m;
  vram__exchange x;
  vram__actions to, own;
  uint32_t r, moved = 1;
  vram_result bad;
  vram__error_clear(err);
  vram__pipeline_of(parallel, &p);
  *count = 0;
  bad = vram__order_problem(&p, err);
  if (bad)
    return bad;
  if (rank >= p.ranks)
    return vram__order_refuse(err, VRAM_ERR_VALUE, "a rank that the pipeline does not have");
  to.at = list;
  to.cap = list ? cap : 0;
  to.count = 0;
  if (vram__pipeline_is_single(p.schedule)) {
    vram__order_of(&p, rank, &to, NULL);
    *count = to.count;
    return VRAM_OK;
  }
  if (!scratch || bytes < vram_pipeline_bytes(parallel))
    return vram__order_refuse(err, VRAM_ERR_MEMORY, "the memory given for the order is too small");
  vram__order_take(&p, scratch, &m);
  vram__order_all(&p, &m);
  own.at = m.own;
  own.count = 0;
  own.cap = (uint32_t)vram__order_room(&p);
  x.p = &p;
  x.rank = rank;
  x.ready = m.flags;
  x.to = &own;
  vram__memory_zero(m.flags, (uint64_t)p.stages * p.microbatches);
  while (moved)
    for (r = moved = 0; r < p.ranks; r++)
      if (m.turns[r].at < m.turns[r].end) {
        const vram_stage_action *next = vram__exchange_turn(&x, r, m.turns[r].at);
        moved |= next != m.turns[r].at;
        m.turns[r].at = next;
      }
  for (r = 0; r < p.ranks; r++)
    if (m.turns[r].at < m.turns[r].end)
      return vram__order_refuse(err, VRAM_ERR_VALUE,
                                "Malformed compute schedule, can't schedule sends/recvs");
  vram__order_waits(&p, &own, m.flags, &to);
  *count = to.count;
  return VRAM_OK;
}

VRAM_API uint32_t vram_pipeline_stages(const vram_parallel *parallel) {
  vram__pipeline p;
  vram__pipeline_of(parallel, &p);
  return p.local;
}

VRAM_API uint32_t vram_pipeline_stage(const vram_parallel *parallel, uint32_t rank, uint32_t k) {
  vram__pipeline p;
  vram__pipeline_of(parallel, &p);
  return k < p.local ? vram__pipeline_stage(&p, rank, k) : p.stages;
}
