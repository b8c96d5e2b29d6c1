/* >>step/train    zero_grad, the optimizer's place in a step */
#include "step/optim.h"

/* The parameters lose their gradients. */
VRAM__FN void vram__zero_grad_now(vram__step *s) {
  uint32_t i;
  for (i = 0; i < s->leaf.parameters && !s->o->keep_grads; i++) {
    vram__tensor_release(s, s->leaf.at[i].grad);
    s->leaf.at[i].grad = vram__tensor_none();
  }
}

/* Gradients go: of the caller's inputs, then of the parameters. */
VRAM__FN void vram__zero_grad_first(vram__step *s) {
  uint32_t i;
  for (i = s->leaf.parameters; i < s->leaf.count; i++) {
    vram__tensor_release(s, s->leaf.at[i].grad);
    s->leaf.at[i].grad = vram__tensor_none();
  }
  if (!s->o->zero_grad_late && !s->g->nzero_grad)
    vram__zero_grad_now(s);
}

/* zero_grad() behind the optimizer's step. */
VRAM__FN void vram__zero_grad_last(vram__step *s) {
  uint32_t i;
  vram__phase_end(s, VRAM_PHASE_ZERO_GRAD);
  for (i = 0; i < s->leaf.parameters; i++) {
    vram__leaf *l = s->leaf.at + i;
    if (!l->grad.d)
      continue;
    vram__tensor_release(s, l->grad);
    l->grad = vram__tensor_none();
    l->let_go = s->leaf.past[i].let_go = 1;
    s->leaf.past[i].had = 0;
  }
}

/* A steady step begins with the gradients of the step before. `had` says which leaves have one.
   Where nobody has said so yet, vram__gradients_had puts them in afterwards. */
VRAM__FN void vram__zero_grad(vram__step *s) {
  uint32_t i;
  if (!s->train || s->o->first_step) {
    if (s->g->context)
      vram__context_inputs(s);
    return;
  }
  for (i = 0; s->leaf.known && i < s->leaf.count; i++) {
    vram__leaf *l = &s->leaf.at[i];
    const vram__past past = s->leaf.past[i];
    int64_t size = (int64_t)past.bytes;
    if (l->grad.d) /* the wrapper has it */
      continue;
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
      vram__slot_at(s, l->grad.st)->block = s->replay->gradient[i];
  }
  s->r->before_category_bytes[VRAM_CATEGORY_GRADIENTS] =
      s->count.category.of[VRAM_CATEGORY_GRADIENTS];
  s->count.phase_peak = s->count.peak = s->count.requested + vram__undone(s);
  s->count.phase_peak_blocks = s->count.blocks;
  if (s->count.blocks + s->count.extra > s->count.peak_upper)
    s->count.peak_upper = s->count.blocks + s->count.extra;
  s->count.at_peak = 1;
  if (s->count.stop_at == s->count.before + 1)
    vram__live_collect(s);
  if (s->g->context)
    vram__context_inputs(s);
  if (s->leaf.known)
    vram__zero_grad_first(s);
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
  s->count.extra += large * VRAM_SMALL_POOL_BYTES;
}

VRAM__FN void vram__optim_config_of(vram__step *s, vram__optim_config *c) {
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
  c->dtensor = s->g->is_cut;
  c->clip = s->ideal || (s->wrapper && s->wrapper->clips) ? 0 : (uint8_t)s->o->clip_grad_norm;
  c->device = &s->device;
  c->sharded = s->wrapper && s->o->parallel->wrapper == VRAM_WRAPPER_FSDP2;
  c->step = s;
}

VRAM__FN void vram__optim_param_of(vram__optim_param *p, const vram__leaf *l) {
  p->numel = p->gradient = l->d->numel;
  p->ndim = l->d->ndim;
  p->size = l->d->v;
  p->dtype = l->dt;
  p->rank = 0;
  p->placed = 0;
  p->dtensor = p->mesh = p->partial = 0;
}

/* The same of this rank's part of a DTensor q. */
static void vram__optim_shard_of(vram__optim_param *p, const vram_param *q) {
  p->numel = q->d->numel;
  p->size = q->d->v;
  p->dtensor = p->mesh = q->is_dtensor;
  p->partial = q->is_partial;
  p->placed = vram__param_has_whole_gradient(q) || q->is_partial ? q->d->numel : 0;
}

/* No matrix has a rank beyond its smaller side. */
static uint64_t vram__optim_rank(const vram_dims *d, uint64_t rank) {
  const uint64_t rows = (uint64_t)d->v[0], columns = (uint64_t)d->v[1];
  const uint64_t most = rows < columns ? rows : columns;
  return rank < most ? rank : most;
}

/* The weight of a linear layer that is not the last one: galore_torch's examples take those of
   attention and of the MLPs. */
static int vram__optim_projects(const vram_param *p, const vram_node *head) {
  return p->node->op == VRAM_OP_linear && p->node != head && p->d->ndim == 2 &&
         p->node->param[0] == p;
}

static const vram_node *vram__optim_head(const vram__step *s) {
  const vram_param *p;
  const vram_node *head = NULL;
  for (p = s->g->param_first; p; p = p->next)
    if (p->node->op == VRAM_OP_linear && (!head || p->node->index > head->index))
      head = p->node;
  return head;
}

/* What the optimizer has is the wrapper's. */
static int vram__optim_is_apart(const vram__step *s) {
  return s->wrapper && s->wrapper->optim_params;
}

/* Those with a gradient (or all); of an optimizer that projects gradients first those of which it
   does not. */
static uint32_t vram__optim_params_all(vram__step *s, vram__optim_param *p, int with_grad) {
  const int projects = vram__optim_flags(s->o) & VRAM__OPTIM_PROJECTS;
  const vram_node *const head = projects ? vram__optim_head(s) : NULL;
  const uint32_t rank = s->o->galore_rank ? s->o->galore_rank : 128;
  uint32_t i, n = 0;
  const int last = projects ? 1 : 0;
  int pass;
  for (pass = 0; pass <= last; pass++) {
    const vram_param *q = s->g->param_first;
    for (i = 0; i < s->leaf.parameters; i++) {
      const vram__leaf *l = s->leaf.at + i;
      const vram__past *past = s->leaf.past + i;
      const int had = s->leaf.known && (s->g->nstep ? past->stepped : past->had || past->let_go);
      const vram_param *own = q;
      if (projects || s->g->is_cut) {
        while (q->kind != VRAM__PARAM)
          q = q->next;
        own = q;
        q = q->next;
      }
      if (projects && vram__optim_projects(own, head) != pass)
        continue;
      if (with_grad && !l->grad.d && !l->let_go && !had)
        continue;
      vram__optim_param_of(&p[n], l);
      if (s->g->is_cut)
        vram__optim_shard_of(&p[n], own);
      if (pass)
        p[n].rank = (uint32_t)vram__optim_rank(l->d, rank);
      n++;
    }
  }
  return n;
}

/* The group of the first parameter's mesh comes first, then that of the others. */
static void vram__optim_by_mesh(vram__step *s, vram__optim_param *p, uint32_t n) {
  const uint64_t used = s->used;
  vram__optim_param *others = (vram__optim_param *)vram__memory_take(s->mem, &s->used, s->cap,
                                                                     n * (uint64_t)sizeof *others);
  uint32_t i, first = 0, count = 0;
  if (!others) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (i = 0; i < n; i++)
    if (p[i].mesh == p[0].mesh)
      p[first++] = p[i];
    else
      others[count++] = p[i];
  for (i = 0; i < count; i++)
    p[first + i] = others[i];
  s->used = used;
}

static uint32_t vram__optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  const uint32_t n = vram__optim_is_apart(s) ? s->wrapper->optim_params(s, p, with_grad)
                                             : vram__optim_params_all(s, p, with_grad);
  if (s->g->is_cut)
    vram__optim_by_mesh(s, p, n);
  return n;
}

/* Memory for the ids of what the optimizer allocates, which is told event by event. */
VRAM__FN int vram__optim_ids_take(vram__step *s, vram__optim_config *c, uint32_t n) {
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
  for (n = 0; s->g->nstep && !s->leaf.known && n < s->leaf.parameters; n++)
    s->leaf.past[n].stepped = 0;
  vram__optim_config_of(s, &c);
  n = vram__optim_params(s, s->optim, 0);
  if (vram__optim_problem(&c)) {
    s->failed = VRAM_ERR_UNSUPPORTED;
    s->problem = vram__optim_problem(&c);
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
  c.all = n == s->leaf.parameters && !c.master && !vram__optim_is_apart(s) ? &s->optim_all : NULL;
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
  if (s->count.blocks + s->count.extra + b->peak_upper > s->count.peak_upper)
    s->count.peak_upper = s->count.blocks + s->count.extra + b->peak_upper;
  vram__bytes_grow_and_shrink(s, b->end, b->end_blocks, b->state_large, VRAM_CATEGORY_OPTIMIZER);
}

/* Each 200th step of GaLore decomposes gradients in f32: a copy, two factors of the largest, and as
   much again for what cuSOLVER takes, which is not known. */
static void vram__optim_may_decompose(vram__step *s, const vram__optim_param *p, uint32_t n) {
  uint64_t most = 0, bytes;
  uint32_t i;
  for (i = 0; i < n; i++) {
    const uint64_t rows = p[i].rank ? (uint64_t)p[i].size[0] : 0;
    const uint64_t columns = p[i].rank ? (uint64_t)p[i].size[1] : 0;
    const uint64_t side = rows < columns ? rows : columns;
    bytes = vram__product_or_overflow(8, 3 * p[i].numel * (p[i].rank != 0) + side * side);
    most = bytes > most ? bytes : most;
  }
  if (most)
    vram__upper_may_need(s, most);
}

/* The step on one of the optimizer's groups of parameters. */
static void vram__optim_group(vram__step *s, vram__optim_config *c, const vram__optim_param *p,
                              uint32_t n) {
  const uint64_t used = s->used;
  vram__optim_bytes b;
  if (s->watched && !vram__optim_ids_take(s, c, n))
    return;
  vram__optim_step(c, p, n, &b);
  s->used = used;
  if (b.end == VRAM_OVERFLOW)
    s->failed = VRAM_ERR_OVERFLOW;
  else if (!s->watched)
    vram__optim_count_step(s, &b);
  if (!s->failed && s->o->first_step)
    s->r->optimizer_bytes += b.state;
}

/* The optimizer's step on the first n of s->optim; all: they are all parameters. Of a rank's graph
   DTensors are a group of their own. */
VRAM__FN void vram__optim_step_now(vram__step *s, uint32_t n, int all) {
  vram__optim_config c;
  uint32_t i, to;
  if (s->ideal && !s->o->first_step) /* one kernel, no temporaries */
    return;
  vram__optim_config_of(s, &c);
  if (s->scaler && !n) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, NULL,
                      "no parameter has a gradient: GradScaler stops with an error (no inf checks "
                      "were recorded)");
    return;
  }
  for (i = 0; i < n && s->scaler && !c.master; i++)
    if (vram__dtype_size(s->optim[i].dtype) < 4) {
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, NULL,
                        "GradScaler cannot unscale gradients of fp16 or bf16");
      return;
    }
  c.first_step = s->o->first_step != 0;
  if (s->scaler && s->found_inf)
    c.found_inf = s->found_inf + s->nfound_inf++;
  vram__optim_may_decompose(s, s->optim, vram__optim_flags(s->o) & VRAM__OPTIM_PROJECTS ? n : 0);
  if (!s->g->is_cut) {
    c.all = all && !c.master && !vram__optim_is_apart(s) ? &s->optim_all : NULL;
    vram__optim_group(s, &c, s->optim, n);
    return;
  }
  for (i = 0; i < n && !s->failed; i = to) {
    for (to = i + 1; to < n && s->optim[to].mesh == s->optim[i].mesh;)
      to++;
    c.dtensor = s->optim[i].dtensor;
    vram__optim_group(s, &c, s->optim + i, to - i);
  }
}

/* clip_grad_norm_ of the whole module, where the optimizer has a part of its parameters. */
VRAM__FN void vram__optim_clip_all(vram__step *s) {
  const uint64_t used = s->used;
  vram__optim_config c;
  vram__optim_bytes b;
  uint32_t n;
  vram__optim_config_of(s, &c);
  c.clip = s->ideal ? 0 : (uint8_t)s->o->clip_grad_norm;
  if (!c.clip)
    return;
  c.clips_only = 1;
  c.sharded = 0;
  n = vram__optim_params_all(s, s->optim, 1);
  if (s->watched && !vram__optim_ids_take(s, &c, n))
    return;
  vram__optim_step(&c, s->optim, n, &b);
  s->used = used;
  if (!s->watched)
    vram__optim_count_step(s, &b);
}

VRAM__FN void vram__optim_now(vram__step *s) {
  uint32_t n;
  if (vram__in_backward_is(s->o))
    return;
  n = s->leaf.all_had && !vram__optim_is_apart(s) ? s->leaf.parameters
                                                  : vram__optim_params(s, s->optim, 1);
  vram__optim_step_now(s, n, n == s->leaf.parameters && !vram__optim_is_apart(s));
}
