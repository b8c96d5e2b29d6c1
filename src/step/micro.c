/* >>step/micro    micro-batches: forward, loss scaling, backward; those that are like others
   A micro-batch that begins in the state in which an earlier one began goes as that one went, and
   so on: one round of them is played, and what it counts is multiplied. */
#include "step/step.h"

/* After the forward pass: autocast's cache goes with its context; a training loop lets go of what
   is not the loss, inference wanted all of it. */
static void vram__forward_leave(vram__step *s) {
  const vram_node *n;
  uint32_t i;
  s->r->autocast_cache_bytes = s->layers ? vram__layers_casts(s) : 0;
  s->r->autocast_cache_bytes += vram__autocast_leave(s);
  if (s->train && s->g->noutput > 1)
    for (n = s->g->first; n; n = n->next)
      for (i = 0; i < n->nout; i++)
        if ((n->out[i].flags & VRAM__OUTPUT) && &n->out[i] != s->root)
          vram__variable_unname(s, &n->out[i]);
}

/* GradScaler.scale(loss).backward(): the loss times the scale, which the first call makes together
   with the growth tracker. */
VRAM__FN void vram__scaled_backward(vram__step *s, vram__tensor loss) {
  vram__tensor in[2], y;
  vram__grad_fn *f;
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

/* Parameters and buffers that calls of checkpoint() used again lose their names. */
static void vram__captured_leave(vram__step *s) {
  const vram_node *n;
  for (n = s->call.nrange ? s->g->first : NULL; n; n = n->next)
    if (n->nout == 1 && vram__step_is_captured(n->out))
      vram__variable_unname(s, n->out);
}

/* A graph with `keep` lines says itself which variables hold something from now on: what an
   inference gives, or a loss that they name, does so no longer. */
static void vram__micro_batch_end(vram__step *s, vram__tensor *loss) {
  const vram_node *n;
  uint32_t i;
  if (s->failed)
    return;
  if (s->leaf.nmade)
    vram__leaves_settle(s);
  vram__captured_leave(s);
  if (!s->g->nkept)
    return;
  for (n = s->train ? NULL : s->g->first; n; n = n->next)
    for (i = 0; i < n->nout; i++)
      if ((n->out[i].flags & VRAM__OUTPUT) && &n->out[i] != s->root)
        vram__variable_unname(s, &n->out[i]);
  if (s->keep.root || !s->train) {
    if (s->root->node)
      vram__tensor_release(s, *loss);
    loss->d = NULL;
  }
  vram__keep_settle(s);
}

/* One micro-batch after zero_grad or the one before, whose loss `loss` holds until it has a new
 * one.
 */
static void vram__micro_batch(vram__step *s, vram__tensor *loss) {
  const uint32_t held = s->nheld;
  vram__tensor old = *loss;
  s->phase = VRAM_PHASE_FORWARD;
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  s->grad = s->train;
  s->r->saved_bytes = 0;
  if (s->g->context) {
    vram__context_leave(s);
    if (!s->first_batch)
      vram__context_inputs(s);
    vram__context_enter(s);
  }
  VRAM__WRAPPER_DO(s, forward_begin);
  vram__forward(s);
  if (s->failed)
    return;
  vram__forward_leave(s);
  if (s->grad)
    vram__history_refresh(s, &s->variable[s->name_of[s->root->index]].t);
  *loss = s->variable[s->name_of[s->root->index]].t;
  if (old.d) { /* the variable `loss` takes its new value */
    vram__held_release(s, 0, held);
    vram__tensor_release(s, old);
  }
  s->grad = 0;
  if (s->train && s->g->nbackward) {
    vram__training_end(s);
    vram__micro_batch_end(s, loss);
    return;
  }
  vram__phase_end(s, VRAM_PHASE_BACKWARD);
  if (s->o->zero_grad_late && s->first_batch)
    vram__zero_grad_now(s);
  s->cat = VRAM_CATEGORY_TEMPORARIES;
  s->gin = vram__backward_room(s);
  if (s->failed)
    return;
  s->node = s->scaler ? s->root->node : NULL;
  if (s->scaler)
    vram__scaled_backward(s, *loss);
  else if (s->wrapper && s->wrapper->backward)
    s->wrapper->backward(s, *loss);
  else if (s->train)
    vram__backward(s, *loss);
  vram__in_backward_end(s);
  vram__phase_end(s, VRAM_PHASE_FORWARD);
  vram__micro_batch_end(s, loss);
}

/* The tape, which grew from there, has been played and goes. */
VRAM__FN void vram__micro_batch_forget(vram__step *s, uint64_t tape, vram__tensor *loss) {
  uint32_t i;
  s->used = tape;
  s->tape.last = 0;
  for (i = 0; i < 64; i++)
    s->dims_cache[i] = s->g->cache[i];
  s->vec = NULL;
  for (i = 0; i < s->nslot; i++) {
    vram__storage *st = vram__slot_at(s, vram__slot_number(s, i));
    if (vram__is_grad_fn(st->fn))
      st->fn = st->req = 0;
  }
  for (i = 0; i < s->g->ninput; i++) {
    vram__variable *in = &s->variable[s->g->input[i]->index];
    in->refs = 1;
    if (in->t.st)
      vram__slot_at(s, in->t.st)->writes = 0;
  }
  for (i = 0; i < s->g->nparam; i++)
    if (s->param[i].st)
      vram__slot_at(s, vram__tensor_slot(s->param[i]))->writes = 0;
  if (s->rnn_dropout.st)
    vram__slot_at(s, s->rnn_dropout.st)->saved = 0;
  if (loss->d)
    loss->d = s->scalar;
}

/* ---- the state between two micro-batches as a number; which slot is which does not matter */

static inline uint64_t vram__state_mix(uint64_t state, uint64_t x) {
  return vram__mix(state * UINT64_C(0x9e3779b97f4a7c15) + x);
}

static uint64_t vram__state_of_slot(const vram__step *s, uint32_t i) {
  const vram__storage *st = vram__slot_at(s, i), *b = vram__slot_at(s, st->base);
  uint64_t x = vram__state_mix(st->base == i, st->refs);
  /* a view has no references to a storage, category, mark or record of writes of its own */
  x = vram__state_mix(x, b->cat | (uint64_t)b->saved << 8 | (uint64_t)st->req << 9 |
                             (uint64_t)b->shown << 10 | (uint64_t)(st->of != 0) << 11);
  x = vram__state_mix(x, st->fn | (uint64_t)b->writes << 32);
  x = vram__state_mix(x, b->bytes);
  x = vram__state_mix(x, b->refs | (uint64_t)b->srefs << 32);
  return s->replay ? vram__state_mix(x, s->replay->pool.block[b->block].address) : x;
}

static int vram__state_add_piece(void *user, const vram_piece *piece) {
  uint64_t x = vram__state_mix(piece->segment, piece->segment_bytes);
  x = vram__state_mix(x, piece->address);
  x = vram__state_mix(x, piece->bytes);
  x = vram__state_mix(x, piece->requested * 2 + (piece->state != 0));
  *(uint64_t *)user += x;
  return 0;
}

static uint64_t vram__state_now(const vram__step *s) {
  uint64_t state = s->used, slots = 0, pieces = 0;
  uint32_t i;
  for (i = 0; i < s->nslot; i++) {
    const uint32_t slot = vram__slot_number(s, i);
    const vram__storage *st = vram__slot_at(s, slot);
    if (st->refs || (st->base == slot && st->srefs))
      slots += vram__state_of_slot(s, slot);
  }
  state = vram__state_mix(vram__state_mix(state, slots), s->nslot);
  for (i = 0; i < s->leaf.count; i++)
    if (s->leaf.at[i].grad.d)
      state =
          vram__state_mix(vram__state_mix(state, i), vram__state_of_slot(s, s->leaf.at[i].grad.st));
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    state = vram__state_mix(state, s->count.category.of[i]);
  state = vram__state_mix(vram__state_mix(state, s->count.blocks), s->count.extra);
  state = vram__state_mix(vram__state_mix(state, s->leaf.taken), s->scale.st);
  state = vram__state_mix(state, s->rnn_dropout.st | (uint64_t)s->rnn_reset << 32 |
                                     (uint64_t)s->tape.stale << 33);
  if (s->replay) {
    vram_pool_walk(&s->replay->pool, vram__state_add_piece, &pieces);
    state = vram__state_mix(state, pieces);
    state = vram__state_mix(state, s->replay->full | (uint64_t)s->replay->oom << 1);
  }
  return state;
}

/* ---- */

enum { VRAM__ROUND_MOST = 8 }; /* micro-batches of a round */

/* What had been counted after a micro-batch, and the state then. */
typedef struct vram__milestone {
  uint64_t state, ids, frees, custom, retries, again;
  vram_communication communication[VRAM_COLLECTIVE_COUNT];
} vram__milestone;

static vram__milestone vram__milestone_now(const vram__step *s) {
  vram__milestone m;
  m.state = vram__state_now(s);
  m.ids = s->count.next_id;
  m.frees = s->count.frees;
  m.custom = s->count.custom;
  m.again = s->r->recomputed_flops;
  m.retries = s->replay ? s->replay->pool.stats.num_alloc_retries : 0;
  vram__memory_copy(m.communication, s->r->communication, sizeof m.communication);
  return m;
}

/* Nobody hears of each micro-batch, and what comes depends on nothing but the state. */
static int vram__micro_batches_foldable(const vram__step *s) {
  const vram__replay *run = s->replay;
  if (s->o->event || s->cuts)
    return 0;
  return !run ||
         (!run->taping && !run->pool.options.event && run->pool.options.policy == VRAM_POOL_TORCH &&
          !run->pool.options.garbage_collection_threshold);
}

/* So many more rounds are like the one from `then` to `now`. */
static void vram__rounds_count(vram__step *s, const vram__milestone *then,
                               const vram__milestone *now, uint64_t rounds) {
  const uint64_t custom = vram__product_or_overflow(now->custom - then->custom, rounds);
  uint32_t i;
  s->count.next_id += (now->ids - then->ids) * rounds;
  s->count.frees += (now->frees - then->frees) * rounds;
  s->count.custom = vram__sum_or_overflow(s->count.custom, custom);
  s->r->recomputed_flops = vram__sum_or_overflow(
      s->r->recomputed_flops, vram__product_or_overflow(now->again - then->again, rounds));
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++) {
    const vram_communication *a = then->communication + i, *b = now->communication + i;
    vram_communication *c = s->r->communication + i;
    c->calls += (b->calls - a->calls) * rounds;
    c->bytes += (b->bytes - a->bytes) * rounds;
    c->sent += (b->sent - a->sent) * rounds;
  }
  if (s->replay)
    s->replay->pool.stats.num_alloc_retries += (now->retries - then->retries) * rounds;
}

/* last: the graph of the last one, NULL: it is one of the others. */
VRAM__FN void vram__micro_batches(vram__step *s, const vram_graph *last) {
  const uint32_t all = s->train && s->o->accumulate > 1 ? s->o->accumulate : 1;
  const uint32_t count = all - (last != NULL);
  const uint64_t tape = s->tape.begin = s->used;
  int fold = count > 3 && vram__micro_batches_foldable(s);
  vram__milestone past[VRAM__ROUND_MOST + 1];
  vram__tensor loss = vram__tensor_none();
  uint32_t k, i, left, known = 0;
  for (k = 0; k < count && !s->failed; k++) {
    if (k)
      vram__micro_batch_forget(s, tape, &loss);
    s->first_batch = k == 0;
    s->last_batch = k + 1 == all;
    vram__micro_batch(s, &loss);
    if (!fold || s->failed || k + 1 == count)
      continue;
    for (i = known; i; i--) /* past[0] is now */
      past[i] = past[i - 1];
    past[0] = vram__milestone_now(s);
    for (i = 1; i <= known && past[i].state != past[0].state;)
      i++;
    if (i <= known) {
      /* those lines are run, and a wrapper synchronizes, in the last one only */
      left = count - 1 - k - (s->g->nstep != 0 || s->wrapper);
      vram__rounds_count(s, &past[i], &past[0], left / i);
      k += left / i * i;
      fold = 0;
    } else if (known < VRAM__ROUND_MOST)
      known++;
  }
  if (last && !s->failed) {
    if (count)
      vram__micro_batch_forget(s, tape, &loss);
    vram__epoch_batch(s, last);
    s->first_batch = !count;
    s->last_batch = 1;
    if (!s->failed)
      vram__micro_batch(s, &loss);
  }
  s->loss = loss;
}
