/* >>step/begin    what is there before a step: parameters, buffers, inputs */
#include "step/step.h"

static void vram__replay_stat(vram_stat *all, uint64_t *end, uint64_t *peak) {
  *end = all->current;
  if (all->peak > *peak)
    *peak = all->peak;
  all->peak = all->current;
}

VRAM__FN void vram__replay_phase(vram__replay *run, vram_phase_report *r) {
  vram__replay_stat(run->pool.stats.allocated_bytes, &r->allocated_bytes, &r->allocated_peak_bytes);
  vram__replay_stat(run->pool.stats.reserved_bytes, &r->reserved_bytes, &r->reserved_peak_bytes);
}

/* Ends the running phase. Of micro-batches the last one's end counts and the highest peak. */
VRAM__FN void vram__phase_end(vram__step *s, vram_phase next) {
  vram_phase_report *r = &s->r->phase[s->phase];
  const uint64_t undone = vram__undone(s);
  r->requested_bytes = s->count.requested + undone;
  if (s->count.phase_peak_blocks > s->count.peak_blocks)
    s->count.peak_blocks = s->count.phase_peak_blocks;
  if (s->replay && !s->replay->taping)
    vram__replay_phase(s->replay, r);
  else {
    if (s->replay)
      vram__tape_put(s->replay, VRAM__TAPE_PHASE, (uint64_t)s->phase);
    r->allocated_bytes = s->count.blocks;
    if (s->count.phase_peak_blocks > r->allocated_peak_bytes)
      r->allocated_peak_bytes = s->count.phase_peak_blocks;
  }
  s->count.phase_peak_blocks = s->count.blocks;
  if (s->count.phase_peak > r->requested_peak_bytes)
    r->requested_peak_bytes = s->count.phase_peak;
  s->phase = next;
  s->count.phase_peak = s->count.requested + undone;
  s->node = NULL;
}

/* A part of the setup has ended. */
VRAM__FN void vram__setup_end(vram__step *s, vram_setup which) {
  vram_phase_report *r;
  if (!s->setup || s->failed)
    return;
  r = s->setup + which;
  r->requested_bytes = s->count.requested;
  r->requested_peak_bytes =
      s->count.phase_peak > s->count.requested ? s->count.phase_peak : s->count.requested;
  r->allocated_bytes = s->count.blocks;
  r->allocated_peak_bytes =
      s->count.phase_peak_blocks > s->count.blocks ? s->count.phase_peak_blocks : s->count.blocks;
  if (s->replay && !s->replay->taping) {
    r->allocated_peak_bytes = r->reserved_peak_bytes = 0;
    vram__replay_phase(s->replay, r);
  }
  s->count.phase_peak = s->count.requested;
  s->count.phase_peak_blocks = s->count.blocks;
}

/* t, which wants a gradient, becomes the next leaf; says which. */
static inline uint32_t vram__leaf_new(vram__step *s, const vram__tensor *t) {
  const uint32_t i = s->leaf.count++;
  vram__leaf_set(s, i, t->d, t->dt);
  return VRAM__LEAF | i;
}

/* The same of a weight that a module owns: the gradient of a DTensor may be all of it. */
static inline uint32_t vram__leaf_new_param(vram__step *s, const vram_param *p,
                                            const vram__tensor *t) {
  const uint32_t leaf = vram__leaf_new(s, t);
  if (vram__param_has_whole_gradient(p)) {
    int64_t size[2];
    size[0] = VRAM__INT(p->node, whole, 0);
    size[1] = p->d->v[1];
    s->leaf.at[leaf & ~VRAM__LEAF].d = vram__dims_in(s, 2, size, NULL);
  }
  return leaf;
}

/* The same of a value of the graph, which has a slot of its own. */
static void vram__leaf_new_value(vram__step *s, const vram__tensor *t) {
  const uint32_t leaf = vram__leaf_new(s, t);
  if (t->st) {
    vram__slot_at(s, t->st)->fn = leaf;
    vram__slot_at(s, t->st)->req = 1;
  }
}

/* A parameter's dtype in this run. */
VRAM__FN vram_dtype vram__param_dtype(const vram__step *s, const vram_param *p) {
  return p->is_model == 2 ? s->loaded
         : !p->is_model   ? p->dtype
                          : (vram_dtype)(p->kind == VRAM__BUFFER ? s->buffers : s->dtype);
}

/* Module.to(device): one tensor after the other; a recurrent net then lays its weights into one
   (flatten_parameters). */
static void vram__step_own(vram__step *s, const vram_param *p, vram_dtype dt) {
  vram__replay *run = s->replay;
  const vram_node *n = p->node;
  uint64_t flat = 0;
  uint32_t i, last = 0;
  if (run->taping) {
    vram__tape_put(run, VRAM__TAPE_OWN, vram__dims_bytes_of(p->d, dt));
    run->untold |= (vram__op_traits(n) & VRAM__OP_FLAT) != 0;
    return;
  }
  vram__replay_tell(s, p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS, n);
  run->gradient[p->index] = vram__replay_get(
      s, vram__step_distributes(s) ? vram__distribute_whole(p, dt) : vram__param_bytes(p, dt), 0);
  if (!(vram__op_traits(n) & VRAM__OP_FLAT))
    return;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n)
      last = i;
  if (n->param[last] != p)
    return;
  for (i = 0; i <= last; i++)
    if (n->param[i] && n->param[i]->node == n)
      flat += vram__dims_bytes_of(n->param[i]->d, vram__param_dtype(s, n->param[i]));
  vram__replay_get(s, flat, 0);
  for (i = 0; i <= last; i++)
    if (n->param[i] && n->param[i]->node == n)
      vram__replay_put(run, run->gradient[n->param[i]->index]);
}

/* A parameter's own storage goes: a wrapper's constructor has put it elsewhere. */
VRAM__FN void vram__param_leave(vram__step *s, const vram_param *p) {
  const vram__tensor t = s->param[p->index];
  vram__storage owned, *st = &owned;
  vram__memory_zero(&owned, sizeof owned);
  owned.bytes = vram__dims_bytes_of(p->d, t.dt);
  owned.id = UINT32_MAX;
  owned.node = p->node;
  owned.cat = p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS;
  if (p->is_value)
    st = vram__owner_at(s, t.st);
  else if (s->replay && s->replay->fresh == 2 && !s->replay->taping)
    owned.block = s->replay->gradient[p->index];
  if (!st->bytes)
    return;
  vram__storage_shrink(s, st);
  if (s->watched)
    vram__event_watch(s, VRAM_ACTION_FREE, st);
  st->bytes = 0;
  st->block = 0;
}

/* The sums of what modules own, in the dtypes of this run. 0: too much. */
static int vram__step_owned(vram__step *s, vram__owned *o) {
  const vram_dtype own = vram__graph_own_dtype(s->g, VRAM_DTYPE_MODEL);
  const vram_param *p;
  vram__memory_zero(o, sizeof *o);
  if (s->dtype != own || s->loaded != own)
    for (p = s->g->param_first; p; p = p->next)
      vram__owned_add(o, p, vram__param_bytes(p, vram__param_dtype(s, p)));
  else if (s->g->owned)
    *o = *s->g->owned;
  vram__owned_flat(o);
  if (o->params_bytes <= (uint64_t)VRAM_MAX_BYTES && o->buffers_bytes <= (uint64_t)VRAM_MAX_BYTES)
    return 1;
  s->failed = VRAM_ERR_OVERFLOW;
  return 0;
}

/* A parameter or buffer that is a value of the graph. */
static VRAM__APART void vram__step_put_value(vram__step *s, const vram_param *p, vram__tensor *t) {
  const uint8_t cat = p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS;
  if (s->wrapper && s->wrapper->put)
    *t = vram__tensor_empty_strided(s, p->d, t->dt, 0);
  else
    *t = vram__leaf_existing_gradient(s, p->d, t->dt, cat);
  if (p->kind == VRAM__PARAM)
    vram__leaf_new_value(s, t);
}

/* Parameters and buffers. What a module owns is never a value of the graph and stays to the end:
   all weights share one slot, and so do all buffers. */
static void vram__step_put_params(vram__step *s) {
  const int fresh = s->replay && s->replay->fresh == 2 && !(s->wrapper && s->wrapper->put);
  const vram_param *p;
  for (p = s->g->param_first; p; p = p->next) {
    vram__tensor *t = s->param + p->index;
    t->d = p->d;
    t->dt = vram__param_dtype(s, p);
    if (s->compute && p->kind != VRAM__BUFFER && vram__dtype_is_float(t->dt))
      t->dt = s->compute;
    if (p->is_value) {
      vram__step_put_value(s, p, t);
      continue;
    }
    if (fresh)
      vram__step_own(s, p, t->dt);
    else if (s->replay && !s->replay->taping && s->replay->fresh == 2 && !vram__step_distributes(s))
      s->replay->gradient[p->index] = 0; /* the wrapper has put it on the device */
    t->st = p->kind == VRAM__PARAM    ? vram__leaf_new_param(s, p, t)
            : p->kind == VRAM__BUFFER ? VRAM__OWN_BUFFERS
                                      : VRAM__OWN_WEIGHTS;
  }
}

/* What recurrent nets have beside their parameters. */
static void vram__step_put_recurrent(vram__step *s) {
  const vram_graph *g = s->g;
  const vram_dtype dt = s->dtype;
  const int64_t pad = (int64_t)g->flat_pad;
  if (pad && dt != VRAM_BF16)
    vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &pad, NULL), dt, VRAM_CATEGORY_PARAMS);
  if (g->rnn_dropout && s->train && !s->o->first_step && !s->rnn_cells) {
    s->rnn_dropout =
        vram__leaf_existing_gradient(s, vram__rnn_state_dims(s), VRAM_U8, VRAM_CATEGORY_WORKSPACE);
    vram__rnn_state_bound(s);
  }
  if (s->replay && s->rnn_dropout.st)
    vram__slot_at(s, s->rnn_dropout.st)->block = s->replay->rnn_dropout;
}

/* Those of products that the runs before have left. */
static void vram__step_put_blas_workspaces(vram__step *s) {
  uint32_t i;
  for (i = 0; i < 2 * VRAM__BLAS_COUNT; i++)
    if (s->blas_workspaces >> i & 1) {
      const int64_t bytes = (int64_t)s->device.workspace[i % VRAM__BLAS_COUNT];
      vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &bytes, NULL), VRAM_U8,
                                   VRAM_CATEGORY_WORKSPACE);
      if (s->r->workspace_bytes < (uint64_t)bytes)
        s->r->workspace_bytes = (uint64_t)bytes;
    }
}

VRAM__FN void vram__step_put_inputs(vram__step *s) {
  const vram_graph *g = s->g;
  uint32_t i, k;
  if (s->pipe) {
    vram__pipe_put_inputs(s);
    return;
  }
  for (i = 0; i < g->ninput; i++) {
    const vram_value *v = g->input[i];
    const vram_dtype dt = v->flags & VRAM__OF_MODEL ? s->dtype : v->dtype;
    vram__tensor t;
    if (s->skip && g->inferred && s->skip[g->nnode + i])
      continue;
    t = vram__leaf_existing_gradient(s, v->d, dt, VRAM_CATEGORY_INPUTS);
    s->r->inputs_bytes += vram__dims_bytes_of(v->d, dt);
    if (s->g->context && s->replay && !s->replay->fresh && t.st)
      vram__slot_at(s, t.st)->block = s->replay->input[i];
    for (k = 0; k < s->o->prefetch && !s->failed; k++)
      vram__leaf_existing_gradient(s, v->d, dt, VRAM_CATEGORY_INPUTS);
    if ((v->flags & VRAM__GRAD) && s->train)
      vram__leaf_new_value(s, &t);
    vram__variable_name(s, v, t);
  }
  for (i = 0; (s->leaf.cast || s->leaf.inner) && i < s->leaf.count; i++)
    vram__leaf_spread(s, i);
}

/* Parameters, buffers, and what libraries keep from a step before this one. */
VRAM__FN void vram__step_put_model(vram__step *s) {
  const int64_t none = 0;
  const vram_dims *nothing = vram__dims_in(s, 1, &none, NULL);
  vram__owned o;
  uint32_t i;
  for (i = 0; i < 2; i++)
    vram__leaf_existing_gradient(s, nothing, VRAM_F32,
                                 i ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS);
  if (!vram__step_owned(s, &o))
    return;
  if (s->wrapper && s->wrapper->put)
    s->wrapper->put(s, &o);
  vram__step_put_params(s);
  s->optim_all = o.trainable;
  s->r->params_bytes = o.params_bytes;
  s->r->buffers_bytes = o.buffers_bytes;
  for (i = 0; i < 2; i++)
    vram__bytes_grow_and_shrink(s, o.all[i].bytes, o.all[i].blocks, o.all[i].large,
                                i ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS);
  vram__step_put_recurrent(s);
  vram__step_put_blas_workspaces(s);
  s->leaf.parameters = s->leaf.count;
}
