/* >>parallel/pipe    a rank's step in a pipeline: parts of many microbatches, in the schedule's
   order */
#include "parallel/fsdp.h"
#include "parallel/run.h"

static int vram__pipe_keeps_outputs(const vram__pipe *p) {
  uint32_t k;
  for (k = 0; vram__pipe_returns(p) && k < p->local; k++)
    if (p->stage[k].is_last)
      return 1;
  return 0;
}

/* Slots of autocast's copies: of the cache, and of each microbatch. */
static int vram__pipe_run_casts(vram__pipe_run *r) {
  vram__step *const s = r->s;
  const vram__pipe *p = r->p;
  uint64_t n = 0;
  uint32_t k, mb, *at;
  for (k = 0; k < p->local; k++)
    n += (p->microbatches + UINT64_C(1)) * p->stage[k].ncast;
  r->cache = (uint32_t **)vram__memory_take(s->mem, &s->used, s->cap,
                                            p->local * (uint64_t)sizeof *r->cache);
  at = (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, (n + 1) * sizeof *at);
  if (!r->cache || !at) {
    s->failed = VRAM_ERR_MEMORY;
    return 0;
  }
  vram__memory_zero(at, n * sizeof *at);
  for (k = 0; k < p->local; k++) {
    const uint32_t each = p->stage[k].ncast;
    r->cache[k] = at;
    for (mb = 0; mb < p->microbatches; mb++)
      vram__pipe_micro_at(r, k, mb)->copy = at + (mb + (size_t)1) * each;
    at += (p->microbatches + (size_t)1) * each;
  }
  return 1;
}

/* Memory of a run. */
static int vram__pipe_run_take(vram__pipe_run *r) {
  vram__step *const s = r->s;
  const vram__pipe *p = r->p;
  const uint64_t micros = (uint64_t)p->local * p->microbatches;
  uint32_t k, mb, ids = 2 * p->local + 3;
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
  return !p->clears || vram__pipe_run_casts(r);
}

/* ---- buffers that stay from step to step */

static uint32_t vram__pipe_put(vram__step *s, uint64_t bytes, uint8_t cat) {
  const int64_t size = (int64_t)bytes;
  return vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8, cat).st;
}

/* Tensors that a microbatch's stages keep. */
static uint32_t vram__pipe_buffers_each(const vram__pipe *p) {
  uint32_t k, n = 0;
  for (k = 0; k < p->local; k++)
    n += 2 * p->stage[k].nin + p->stage[k].nout;
  return n;
}

/* Those of microbatch mb: slots of the run are put there, or come from there. */
static void vram__pipe_buffers_move(vram__pipe_run *r, uint32_t mb, int put) {
  const vram__pipe *p = r->p;
  vram__pipe_buffer *to = p->buffer + (uint64_t)mb * vram__pipe_buffers_each(p);
  uint32_t k, i, j;
  for (k = 0; k < p->local; k++) {
    const uint32_t nin = p->stage[k].nin, n = 2 * nin + p->stage[k].nout;
    vram__pipe_micro *m = vram__pipe_micro_at(r, k, mb);
    for (i = 0; i < n; i++, to++) {
      uint32_t *slot = i < nin       ? m->in + i
                       : i < 2 * nin ? m->held + i - nin
                                     : m->gout + i - (size_t)2 * nin;
      if (put)
        to->slot = *slot;
      else
        *slot = to->slot;
    }
  }
  to = p->buffer + (uint64_t)mb * vram__pipe_buffers_each(p);
  for (i = 0; put && i < vram__pipe_buffers_each(p); i++) {
    const vram__storage *st = to[i].slot ? vram__owner_at(r->s, to[i].slot) : NULL;
    to[i].bytes = st ? st->bytes : 0;
    to[i].block = st ? st->block : 0;
    for (j = 0; j < i && to[j].slot != to[i].slot;)
      j++;
    to[i].same = j < i && st ? j + 1 : 0;
  }
}

/* What the step before has left there is put on the device. */
static void vram__pipe_buffers_restore(vram__step *s) {
  vram__pipe *const p = s->pipe;
  const uint32_t each = vram__pipe_buffers_each(p);
  const uint64_t n = (uint64_t)each * p->microbatches;
  uint64_t i;
  s->count.extra += s->nth > 1 ? p->late : 0; /* the host does not wait for the device */
  p->late = 0;
  for (i = 0; p->buffer && i < n && !s->failed; i++) {
    vram__pipe_buffer *k = p->buffer + i;
    if (s->nth == 1)
      vram__memory_zero(k, sizeof *k);
    if (k->slot && k->same) {
      k->slot = p->buffer[i / each * each + k->same - 1].slot;
      vram__slot_retain(s, k->slot);
    } else if (k->slot) {
      k->slot = vram__pipe_put(s, k->bytes, VRAM_CATEGORY_OTHER);
      if (s->replay && k->slot)
        vram__slot_at(s, k->slot)->block = k->block;
    }
  }
}

/* _prepare_forward_infra and _prepare_backward_infra of the first step: buffers for all
   microbatches, of all outputs where every input wants a gradient. */
static void vram__pipe_buffers_make(vram__pipe_run *r) {
  const vram__pipe *p = r->p;
  uint32_t k, mb, i;
  for (k = 0; k < p->local; k++)
    for (mb = 0; mb < p->microbatches; mb++)
      for (i = 0; i < p->stage[k].nin && !r->s->failed; i++)
        vram__pipe_micro_at(r, k, mb)->in[i] =
            vram__pipe_alloc(r, vram__handover_bytes(p->stage[k].in + i), VRAM_CATEGORY_OTHER);
  for (k = 0; k < p->local; k++) {
    const uint32_t at = p->does & VRAM__PIPE_WANTS ? k : p->local - 1 - k;
    const vram__pipe_stage *stage = p->stage + at;
    for (mb = 0; mb < p->microbatches; mb++)
      for (i = 0; !stage->is_last && i < stage->nout && !r->s->failed; i++)
        if (stage->out[i].grad)
          vram__pipe_micro_at(r, at, mb)->gout[i] =
              vram__pipe_alloc(r, vram__handover_bytes(stage->out + i), VRAM_CATEGORY_OTHER);
  }
}

/* The schedule's first step: ranks agree on how sizes are known, and connect
   (_initialize_pipeline_distributed_state, _preconnect_shared_p2p_edges; up to 2.14 only the
   former, _warmup_p2p, up to 2.11 _get_init_p2p_neighbors_ops of each stage). */
static void vram__pipe_connect(vram__pipe_run *r) {
  const vram__pipe *p = r->p;
  uint32_t *token = r->own, n, i;
  if (r->s->nth != 1)
    return;
  n = p->ranks == 1 ? 0 : p->buffer ? 1 : 3;
  if (p->does & VRAM__PIPE_WANTS)
    n = 2 * p->local;
  for (i = 0; i < n && !r->s->failed; i++)
    token[i] = vram__pipe_alloc(r, 4, VRAM_CATEGORY_OTHER);
  if (!(p->does & VRAM__PIPE_WANTS)) {
    vram__slots_release(r->s, token + (n > 1), n > 1 ? n - 1 : n);
    vram__slots_release(r->s, token, n > 1);
  }
  if (p->buffer)
    vram__pipe_buffers_make(r);
  for (i = p->local; i-- && p->does & VRAM__PIPE_WANTS;) { /* of a list from its end */
    const uint32_t last = !p->stage[i].is_first;
    vram__slots_release(r->s, token + (size_t)2 * i + last, 1);
    vram__slots_release(r->s, token + (size_t)2 * i + !last, 1);
  }
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

/* clear_runtime_states: outputs of the step before go, and gradients of inputs that stay; those of
   this one get room. */
static void vram__pipe_clear(vram__pipe_run *r) {
  vram__pipe *const p = r->p;
  const uint64_t n = (uint64_t)p->microbatches * vram__pipe_kept(p);
  uint32_t k, mb;
  uint64_t i;
  r->chunk = vram__pipe_keeps_outputs(p) ? p->chunk : NULL;
  for (mb = 0; p->buffer && mb < p->microbatches; mb++)
    vram__pipe_buffers_move(r, mb, 0);
  for (k = 0; k < p->local; k++) {
    for (i = 0; r->chunk && p->stage[k].is_last && i < n && r->s->nth > 1; i++)
      if (r->chunk[i])
        vram__slot_release(r->s, r->chunk[i]);
    for (mb = 0; p->buffer && mb < p->microbatches; mb++)
      vram__slots_release(r->s, vram__pipe_micro_at(r, k, mb)->held, p->stage[k].nin);
  }
  if (r->chunk)
    vram__memory_zero(r->chunk, n * sizeof *r->chunk);
}

/* Is a stage one of this rank's? Then what goes to it is handed over. */
VRAM__FN int vram__pipe_is_here(const vram__pipe *p, uint32_t stage) {
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

/* What the parts have found, each played once, for the step. */
static void vram__pipe_report(vram__step *s, const vram__pipe *p) {
  vram_report *const r = s->r;
  r->saved_bytes = p->saved;
  r->autocast_cache_bytes = p->autocast;
  if (r->workspace_bytes < p->workspace)
    r->workspace_bytes = p->workspace;
  r->runs_cudnn |= p->runs_cudnn;
  if (r->cudnn_bytes.upper < p->cudnn)
    r->cudnn_bytes.upper = p->cudnn;
  /* at the peak cuDNN may have the most that it has in any part */
  s->count.peak_upper = vram__sum_or_overflow(s->count.peak_upper, p->cudnn);
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
  r.count = p->microbatches;
  s->node = NULL;
  slots =
      (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, 5 * (uint64_t)most * sizeof *slots);
  if (!slots || !vram__pipe_run_take(&r)) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__memory_zero(slots, 5 * (uint64_t)most * sizeof *slots);
  vram__pipe_clear(&r);
  vram__pipe_connect(&r);
  if (p->parallel->schedule == VRAM_PIPELINE_GPIPE)
    vram__pipe_gpipe(&r, slots, slots + most, slots + 2 * (size_t)most);
  else if (p->parallel->schedule == VRAM_PIPELINE_1F1B)
    vram__pipe_one_f_one_b(&r, slots);
  else
    vram__pipe_runtime(&r);
  vram__pipe_merge(&r);
  vram__pipe_communicate(s);
  if (!s->failed)
    vram__pipe_cache_empty(&r);
  for (k = 0; k < p->local && !s->failed; k++) {
    if (vram__pipe_micro_at(&r, k, 0)->live)
      vram__slots_release(s, vram__pipe_micro_at(&r, k, 0)->live,
                          vram__pipe_live_room(p->stage + k));
    for (i = 0; i < p->microbatches; i++) {
      vram__pipe_micro *m = vram__pipe_micro_at(&r, k, (uint32_t)i);
      const vram__layer_count before = vram__layer_now(s);
      vram__slots_release(s, m->cast, m->ncast);
      if (!p->buffer)
        vram__slots_release(s, m->in, p->stage[k].nin);
      vram__pipe_alike(&r, (uint32_t)i, &before);
    }
  }
  for (k = 0; p->buffer && k < p->microbatches && !s->failed; k++)
    vram__pipe_buffers_move(&r, k, 1);
  for (i = 0; p->blocks && r.chunk && i < (uint64_t)p->microbatches * vram__pipe_kept(p); i++)
    p->blocks[i] = r.chunk[i] ? vram__slot_at(s, r.chunk[i])->block : 0;
  vram__pipe_report(s, p);
  if (s->used > s->most_used)
    s->most_used = s->used;
  s->used = used;
}

VRAM__FN int vram__pipe_differs(const vram__step *s) { return s->pipe && s->pipe->differ; }

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
  vram__pipe_buffers_restore(s);
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
  s->problem_words = p->found;
  return p->failed;
}

/* What a version of PyTorch does not have, or NULL. */
static const char *vram__pipe_misses(const vram_parallel *p, vram_rules version) {
  if (version <= VRAM_RULES_IDEAL)
    return NULL;
  if (version < VRAM_RULES_TORCH_2_4)
    return "pp: torch.distributed.pipelining is there from PyTorch 2.4 on";
  if (p->schedule == VRAM_PIPELINE_INTERLEAVED_ZERO_BUBBLE && version < VRAM_RULES_TORCH_2_5)
    return "pp: schedule=InterleavedZeroBubble is there from PyTorch 2.5 on";
  if (p->schedule == VRAM_PIPELINE_ZBV_ZERO_BUBBLE && version < VRAM_RULES_TORCH_2_6)
    return "pp: schedule=ZBVZeroBubble is there from PyTorch 2.6 on";
  if (p->schedule == VRAM_PIPELINE_DUAL_PIPE_V && version < VRAM_RULES_TORCH_2_9)
    return "pp: schedule=DualPipeV is there from PyTorch 2.9 on";
  return NULL;
}

static void vram__pipe_take_over(vram__pipe *p, const vram_graph **g, void **scratch,
                                 uint64_t *bytes, vram__step *s) {
  *g = &p->g;
  s->pipe = p;
  *scratch = p->mem + p->used;
  *bytes = p->cap - p->used;
}

/* A wrapper that parts of a microbatch do not know of is as good as another one. */
static uint32_t vram__pipe_wrapped(const vram_parallel *p) {
  return p->wrapper == VRAM_WRAPPER_ZERO1 ? VRAM_WRAPPER_DDP : p->wrapper;
}

/* The stage that was played in this scratch is another one's, too, whose wrapper has other ranks.
 */
static vram_result vram__pipe_known(vram__pipe *p, const vram_graph *g, const vram_step_options *o,
                                    uint64_t bytes, vram__step *s) {
  const vram_parallel *const of = o->parallel;
  if (!p->played || p->whole != g || p->ranks != of->pp || p->microbatches != of->microbatches ||
      p->schedule != (uint32_t)of->schedule || p->local != vram_pipeline_stages(of) ||
      p->tp != of->tp || p->rank != vram_parallel_place_of(of).pp ||
      p->wrapped != vram__pipe_wrapped(of) || p->checkpoint != o->checkpoint ||
      p->ncheckpoint != o->ncheckpoint) {
    s->problem = "stage_known: another stage was played in this scratch";
    return VRAM_ERR_VALUE;
  }
  if (p->used > bytes)
    return VRAM_ERR_MEMORY;
  p->cap = bytes;
  p->parallel = o->parallel;
  p->alone = *o->parallel;
  p->alone.wrapper = VRAM_WRAPPER_NONE;
  return VRAM_OK;
}

/* What the options say of it, at the front of a scratch of so many bytes. */
static void vram__pipe_set_up(vram__pipe *p, const vram_graph *g, const vram_step_options *o,
                              uint64_t bytes) {
  const vram_parallel *const of = o->parallel;
  vram__memory_zero(p, sizeof *p);
  p->whole = g;
  p->parallel = of;
  p->checkpoint = o->checkpoint;
  p->ncheckpoint = o->ncheckpoint;
  p->alone = *of;
  p->alone.wrapper = VRAM_WRAPPER_NONE;
  p->wrapped = vram__pipe_wrapped(of);
  p->mem = (uint8_t *)p;
  p->used = sizeof *p;
  p->cap = bytes;
  p->ranks = of->pp;
  p->rank = vram_parallel_place_of(of).pp;
  p->local = vram_pipeline_stages(of);
  p->stages = p->ranks * p->local;
  p->microbatches = of->microbatches;
  p->schedule = (uint32_t)of->schedule;
  p->tp = of->tp;
  p->does = vram__rules_of_torch(vram_step_rules(g, o))->does;
}

/* Cuts it, and plays its parts. */
static int vram__pipe_make(vram__pipe *p, const vram_step_options *o) {
  const uint64_t unseen = p->cap / 2; /* for steps that nobody sees */
  uint8_t *scratch;
  p->cap -= unseen;
  scratch = p->mem + p->cap;
  if (!vram__pipe_cut(p, o) || !vram__pipe_look(p, o, scratch, unseen) || !vram__pipe_graph(p, o) ||
      !vram__pipe_parts(p, o, scratch, unseen))
    return 0;
  p->cap += unseen;
  return 1;
}

/* Room for what stays from step to step. */
static vram_result vram__pipe_take_kept(vram__pipe *p) {
  uint64_t n;
  if (p->does & VRAM__PIPE_KEEPS) {
    n = (uint64_t)p->microbatches * vram__pipe_buffers_each(p) + 1;
    p->buffer = (vram__pipe_buffer *)vram__pipe_take(p, n * sizeof *p->buffer);
    if (!p->buffer)
      return VRAM_ERR_MEMORY;
    vram__memory_zero(p->buffer, n * sizeof *p->buffer);
  }
  if (vram__pipe_keeps_outputs(p)) {
    n = (uint64_t)p->microbatches * vram__pipe_kept(p) + 1;
    p->chunk = (uint32_t *)vram__pipe_take(p, 2 * n * sizeof *p->chunk);
    if (!p->chunk)
      return VRAM_ERR_MEMORY;
    vram__memory_zero(p->chunk, 2 * n * sizeof *p->chunk);
    p->blocks = p->chunk + n;
  }
  return VRAM_OK;
}

/* The rank's graph in place of the whole model's, in front of the scratch that is left. */
VRAM__FN vram_result vram__pipe_begin(const vram_graph **g, const vram_step_options *o,
                                      void **scratch, uint64_t *bytes, vram__step *s) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)*scratch % 8) % 8;
  vram__pipe *p;
  vram_result r;
  s->pipe = NULL;
  s->problem = vram__pipe_misses(o->parallel, vram_step_rules(*g, o));
  if (s->problem)
    return VRAM_ERR_UNSUPPORTED;
  if (!*scratch || *bytes < skip + sizeof *p)
    return VRAM_ERR_MEMORY;
  p = (vram__pipe *)(void *)((uint8_t *)*scratch + skip);
  if (o->stage_known) {
    r = vram__pipe_known(p, *g, o, *bytes - skip, s);
    if (!r)
      vram__pipe_take_over(p, g, scratch, bytes, s);
    return r;
  }
  vram__pipe_set_up(p, *g, o, *bytes - skip);
  r = vram__pipe_order(p, s);
  if (r)
    return r;
  if (!vram__pipe_make(p, o))
    return vram__pipe_problem(p, s);
  if (vram__pipe_last(p)->is_last && !vram__pipe_last(p)->loss)
    p->target = 8 * (uint64_t)p->microbatches;
  r = vram__pipe_take_kept(p);
  if (r)
    return r;
  p->g.in_flight = vram__pipe_in_flight(p);
  p->used = (p->used + 7) & ~(uint64_t)7;
  p->played = 1;
  vram__pipe_take_over(p, g, scratch, bytes, s);
  return VRAM_OK;
}

/* Scratch for all of it, from the whole model. */
/* Does a node of the whole model lie in a stage of the rank whose step was played in this scratch?
 */
VRAM__FN int vram__pipe_runs(const void *scratch, const vram_node *n) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  const vram__pipe *const p = (const vram__pipe *)(const void *)((const uint8_t *)scratch + skip);
  uint32_t k;
  for (k = 0; k < p->local; k++)
    if (n->index >= p->stage[k].lo->index && (!p->stage[k].hi || n->index < p->stage[k].hi->index))
      return 1;
  return 0;
}

VRAM__FN uint64_t vram__pipe_bytes(const vram_graph *g, const vram_step_options *o,
                                   uint64_t graph_bytes) {
  const vram_parallel *p = o->parallel;
  const uint64_t local = vram_pipeline_stages(p), ranks = p->pp;
  const uint64_t each =
      (uint64_t)g->nnode * 5200 + (uint64_t)g->nparam * 2000 + (uint64_t)g->nvalue * 600 + g->used;
  const uint64_t micros = vram__product_or_overflow(local, p->microbatches);
  uint64_t n = 65536 + each + vram_pipeline_bytes(p);

  n = vram__sum_or_overflow(n, vram__product_or_overflow(micros, 512));
  n = vram__sum_or_overflow(n, graph_bytes);
  if (o->amp && o->ncheckpoint)
    n = vram__sum_or_overflow(n,
                              vram__product_or_overflow(micros + local, g->nparam * UINT64_C(8)));
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
