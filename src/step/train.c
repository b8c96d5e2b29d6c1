/* >>step/train    zero_grad, loss scaling, micro-batches, the optimizer's place in a step */
#include "step/step.h"

/* A steady step begins with the gradients of the step before. `had` says which leaves have one.
   Where nobody has said so yet, vram__gradients_had puts them in afterwards. */
VRAM__FN void vram__zero_grad(vram__step *s) {
  uint32_t i;
  if (!s->train || s->o->first_step)
    return;
  for (i = 0; s->leaf.known && i < s->leaf.count; i++) {
    vram__leaf *l = &s->leaf.at[i];
    const vram__past past = s->leaf.past[i];
    int64_t size = (int64_t)past.bytes;
    if (past.had && past.with)
      l->grad = vram__tensor_alias(s, s->leaf.at[past.with - 1].grad, l->d);
    else if (past.had && past.bytes == vram__dims_bytes_of(l->d, l->dt))
      l->grad = vram__leaf_existing_gradient(s, l->d, l->dt, VRAM_CATEGORY_GRADIENTS);
    else if (past.had) {
      l->grad = vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8,
                                             VRAM_CATEGORY_GRADIENTS);
      l->grad.d = l->d;
      l->grad.dt = l->dt;
    }
    if (s->replay && past.had && !past.with && l->grad.st)
      (s->top - l->grad.st)->block = s->replay->gradient[i];
  }
  s->r->before_category_bytes[VRAM_CATEGORY_GRADIENTS] =
      s->count.category.of[VRAM_CATEGORY_GRADIENTS];
  s->count.phase_peak = s->count.peak = s->count.requested;
  s->count.phase_peak_blocks = s->count.blocks;
  if (s->count.upper > s->count.peak_upper)
    s->count.peak_upper = s->count.upper;
  s->count.at_peak = 1;
  if (s->count.stop_at == 1)
    vram__live_collect(s);
  if (!s->leaf.known)
    return;
  for (i = s->leaf.parameters; i < s->leaf.count; i++) { /* the caller's inputs lose theirs first */
    vram__tensor_release(s, s->leaf.at[i].grad);
    s->leaf.at[i].grad = vram__tensor_none();
  }
  for (i = 0; i < s->leaf.parameters && !s->o->keep_grads; i++) {
    vram__tensor_release(s, s->leaf.at[i].grad);
    s->leaf.at[i].grad = vram__tensor_none();
  }
}

/* After the forward pass: autocast's cache goes with its context; a training loop lets go of what
   is not the loss, inference wanted all of it. */
static void vram__forward_leave(vram__step *s) {
  const vram_node *n;
  uint32_t i;
  s->r->autocast_cache_bytes = vram__autocast_leave(s);
  if (s->train && s->g->noutput > 1)
    for (n = s->g->first; n; n = n->next)
      for (i = 0; i < n->nout; i++)
        if ((n->out[i].flags & VRAM__OUTPUT) && &n->out[i] != s->root)
          vram__variable_unname(s, &n->out[i]);
}

/* GradScaler.scale(loss).backward(): the loss times the scale, which the first call makes together
   with the growth tracker. */
static void vram__scaled_backward(vram__step *s, vram__tensor loss) {
  vram__tensor in[2], y;
  vram__grad_fn *f;
  s->node = s->root->node;
  if (!s->scale.d) {
    s->cat = VRAM_CATEGORY_OTHER;
    s->scale = vram__tensor_empty(s, s->scalar, VRAM_F32);
    vram__tensor_empty(s, s->scalar, VRAM_I32);
    s->cat = VRAM_CATEGORY_TEMPORARIES;
  }
  in[0] = loss;
  in[1] = s->scale;
  s->grad = 1;
  f = vram__tape_record(s, VRAM__K_scale, in, 2, 1, 1);
  s->grad = 0;
  y = vram__pointwise_empty2(s, loss, s->scale);
  if (f) {
    vram__save_tensor(s, f, s->scale);
    vram__grad_fn_set_output(s, f, 0, &y);
    vram__backward(s, y);
  }
  vram__tensor_release(s, y);
}

VRAM__FN void vram__micro_batches(vram__step *s) {
  uint32_t k, count = s->train && s->o->accumulate > 1 ? s->o->accumulate : 1, i;
  uint64_t tape = s->used;
  vram__tensor loss = vram__tensor_none();
  for (k = 0; k < count && !s->failed; k++) {
    vram__tensor old = loss;
    s->phase = VRAM_PHASE_FORWARD;
    s->cat = VRAM_CATEGORY_ACTIVATIONS;
    s->grad = s->train;
    if (k) {
      s->r->saved_bytes = 0;
      if (s->rnn_dropout.st)
        (s->top - s->rnn_dropout.st)->saved = 0;
    }
    vram__forward(s);
    if (s->failed)
      return;
    vram__forward_leave(s);
    if (s->grad)
      vram__history_refresh(s, &s->variable[s->name_of[s->root->index]].t);
    loss = s->variable[s->name_of[s->root->index]].t;
    if (old.d) { /* the variable `loss` takes its new value */
      old.fn = 0;
      vram__tensor_release(s, old);
    }
    s->grad = 0;
    vram__phase_end(s, VRAM_PHASE_BACKWARD);
    s->cat = VRAM_CATEGORY_TEMPORARIES;
    s->gin = vram__backward_room(s);
    if (s->failed)
      return;
    if (s->scaler)
      vram__scaled_backward(s, loss);
    else if (s->train)
      vram__backward(s, loss);
    vram__phase_end(s, VRAM_PHASE_FORWARD);
    if (k + 1 < count) { /* the tape has been played and can go */
      s->used = tape;
      s->tape.last = 0;
      for (i = 0; i < 64; i++)
        s->dims_cache[i] = s->g->cache[i];
      s->vec = NULL;
      for (i = 0; i < s->g->ninput; i++) {
        vram__variable *in = &s->variable[s->g->input[i]->index];
        vram__storage *st = s->top - in->t.st;
        in->refs = 1;
        if (!(in->t.fn & VRAM__LEAF))
          in->t.fn = in->t.req = 0;
        if (in->t.st)
          st->fn = st->held = 0, st->writes = 0;
      }
      for (i = 0; i < s->g->nparam; i++)
        if (s->param[i].st)
          (s->top - s->param[i].st)->writes = 0;
      loss.d = s->scalar;
    }
  }
  s->loss = loss;
}

VRAM__FN uint32_t vram__optim_alloc(vram__step *s, uint64_t bytes, int is_state) {
  s->cat = is_state ? VRAM_CATEGORY_OPTIMIZER : VRAM_CATEGORY_TEMPORARIES;
  return vram__storage_new(s, bytes);
}

VRAM__FN void vram__optim_free(vram__step *s, uint32_t id) {
  if (id)
    vram__slot_release(s, id);
}

/* Bytes that come and go without single events. */
VRAM__FN void vram__bytes_grow_and_shrink(vram__step *s, uint64_t bytes, uint64_t blocks,
                                          uint64_t large, uint8_t cat) {
  if (bytes > (uint64_t)VRAM_MAX_BYTES - s->count.requested) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  s->count.requested += bytes;
  s->count.category.of[cat] += bytes;
  s->count.blocks += blocks;
  s->count.upper += blocks + large * VRAM_SMALL_POOL_BYTES;
}

static void vram__optim_config_of(vram__step *s, vram__optim_config *c) {
  vram__memory_zero(c, sizeof *c);
  c->optim = (uint8_t)s->o->optimizer;
  c->impl = (uint8_t)s->o->optim_impl;
  c->capturable = s->o->capturable != 0;
  if (s->ideal) { /* no step counters on the device */
    c->impl = VRAM_OPTIM_IMPL_LOOP;
    c->capturable = 0;
  }
  c->weight_decay = s->o->weight_decay != 0;
  c->scaler = s->scaler;
  c->master = s->o->master_weights != 0;
  c->device = &s->device;
  c->step = s;
}

static uint32_t vram__optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  uint32_t i, n = 0;
  for (i = 0; i < s->leaf.parameters; i++) {
    const vram__leaf *l = s->leaf.at + i;
    if (with_grad && !l->grad.d && !(s->leaf.known && s->leaf.past[i].had))
      continue;
    p[n].numel = l->d->numel;
    p[n].ndim = l->d->ndim;
    p[n].size = l->d->v;
    p[n++].dtype = l->dt;
  }
  return n;
}

/* Memory for the ids of what the optimizer allocates, which is told event by event. */
static int vram__optim_ids_take(vram__step *s, vram__optim_config *c, uint32_t n) {
  c->ids =
      (uint32_t *)vram__memory_take(s->mem, &s->used, s->cap, vram__optim_ids(n) * sizeof *c->ids);
  if (!c->ids)
    s->failed = VRAM_ERR_MEMORY;
  return c->ids != NULL;
}

/* What the optimizer holds before the step: what its constructor made and, in a steady step, the
   state that the first step made. */
VRAM__FN void vram__optim_before(vram__step *s) {
  vram__optim_config c;
  vram__optim_bytes made, state;
  uint32_t n;
  if (!s->train)
    return;
  s->optim = (vram__optim_param *)vram__memory_take(
      s->mem, &s->used, s->cap, (s->leaf.parameters + 1) * (uint64_t)sizeof *s->optim);
  if (!s->optim) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__optim_config_of(s, &c);
  n = vram__optim_params(s, s->optim, 0);
  if (vram__optim_problem(&c, s->optim, n)) {
    s->failed = VRAM_ERR_UNSUPPORTED;
    s->problem = vram__optim_problem(&c, s->optim, n);
    return;
  }
  if (s->replay && s->replay->fresh && !s->replay->taping) {
    const uint64_t used = s->used;
    if (!vram__optim_ids_take(s, &c, n))
      return;
    vram__optim_construct(&c, s->optim, n, &made);
    s->used = used;
    s->r->optimizer_bytes = s->optim_held = made.end;
    return;
  }
  vram__optim_construct(&c, s->optim, n, &made);
  if (s->replay && made.end)
    s->replay->untold = 1;
  vram__bytes_grow_and_shrink(s, made.end, made.end_blocks, made.state_large,
                              VRAM_CATEGORY_OPTIMIZER);
  s->r->optimizer_bytes = s->optim_held = made.end;
  if (s->o->first_step)
    return;
  if (s->leaf.known) /* parameters that never get a gradient have no state */
    n = vram__optim_params(s, s->optim, 1);
  c.all = n == s->leaf.parameters && !c.master ? &s->optim_all : NULL;
  vram__optim_kept(&c, s->optim, n, &state);
  vram__bytes_grow_and_shrink(s, state.state, state.state_blocks, state.state_large,
                              VRAM_CATEGORY_OPTIMIZER);
  s->r->optimizer_bytes += state.state;
  s->optim_held = s->r->optimizer_bytes;
}

/* What a step that was only added up does to the counters. */
static void vram__optim_count_step(vram__step *s, const vram__optim_bytes *b) {
  if (b->peak > (uint64_t)VRAM_MAX_BYTES - s->count.requested) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  if (s->count.at_peak)
    vram__peak_note(s);
  if (s->count.requested + b->peak > s->count.phase_peak)
    s->count.phase_peak = s->count.requested + b->peak;
  if (s->count.phase_peak > s->count.peak) {
    s->count.peak = s->count.phase_peak;
    s->count.peak_node = NULL;
    s->count.peak_event = UINT64_MAX; /* somewhere in it: vram_step_live counts */
    s->count.peak_phase = VRAM_PHASE_OPTIMIZER;
    s->count.category.of[VRAM_CATEGORY_OPTIMIZER] += b->peak_state;
    s->count.category.of[VRAM_CATEGORY_TEMPORARIES] += b->peak - b->peak_state;
    vram__peak_note(s);
    s->count.category.of[VRAM_CATEGORY_OPTIMIZER] -= b->peak_state;
    s->count.category.of[VRAM_CATEGORY_TEMPORARIES] -= b->peak - b->peak_state;
  }
  if (s->count.blocks + b->peak_blocks > s->count.phase_peak_blocks)
    s->count.phase_peak_blocks = s->count.blocks + b->peak_blocks;
  if (s->count.upper + b->peak_upper > s->count.peak_upper)
    s->count.peak_upper = s->count.upper + b->peak_upper;
  vram__bytes_grow_and_shrink(s, b->end, b->end_blocks, b->state_large, VRAM_CATEGORY_OPTIMIZER);
}

VRAM__FN void vram__optim_now(vram__step *s) {
  vram__optim_config c;
  vram__optim_bytes b;
  const uint64_t used = s->used;
  uint32_t n;
  if (s->ideal && !s->o->first_step) /* one kernel, no temporaries */
    return;
  vram__optim_config_of(s, &c);
  n = s->leaf.all_had ? s->leaf.parameters : vram__optim_params(s, s->optim, 1);
  c.first_step = s->o->first_step != 0;
  c.all = n == s->leaf.parameters && !c.master ? &s->optim_all : NULL;
  if (s->watched && !vram__optim_ids_take(s, &c, n))
    return;
  vram__optim_step(&c, s->optim, n, &b);
  s->used = used;
  if (b.end == VRAM_OVERFLOW)
    s->failed = VRAM_ERR_OVERFLOW;
  else if (!s->watched)
    vram__optim_count_step(s, &b);
  if (!s->failed && s->o->first_step)
    s->r->optimizer_bytes += b.state;
}
