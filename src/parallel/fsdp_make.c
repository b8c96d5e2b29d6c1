/* >>parallel/fsdp_make    fully_shard is called: groups, shards, construction
   (torch/distributed/fsdp/_fully_shard: _fsdp_init.py, _fsdp_param.py) */
#include "parallel/fsdp.h"

static uint64_t vram__fsdp_rows(const vram_param *p, uint32_t shards) {
  return vram__div_up_u64((uint64_t)p->d->v[0], shards);
}

static uint64_t vram__fsdp_padded(const vram_param *p, uint32_t shards) {
  const uint64_t d0 = (uint64_t)p->d->v[0];
  return d0 ? p->d->numel / d0 * vram__fsdp_rows(p, shards) : 0;
}

/* torch.chunk along the first axis: the last ranks may have fewer rows, or none. */
static void vram__fsdp_shard(vram__fsdp_param *f, uint32_t shards, uint32_t rank) {
  const vram_dims *d = f->p->d;
  const uint64_t rows = vram__fsdp_rows(f->p, shards), d0 = (uint64_t)d->v[0];
  const uint64_t begin = rows * rank < d0 ? rows * rank : d0;
  const uint64_t mine = d0 - begin < rows ? d0 - begin : rows;
  uint32_t i;
  f->padded = vram__fsdp_padded(f->p, shards);
  f->local = d0 ? d->numel / d0 * mine : 0;
  for (i = 0; i < d->ndim; i++)
    f->size[i] = i ? d->v[i] : (int64_t)mine;
}

/* ---- which unit has which parameter */

/* The run of nodes from n on, which ends with the module. */
static vram__unit_run vram__fsdp_run(const vram_graph *g, vram_words units, const vram_node *n,
                                     const vram_node *end) {
  vram__unit_run run = vram__units_run(g, units, n);
  while (end && run.last->index >= end->index)
    run.last = vram__node_before(run.last);
  return run;
}

static uint32_t vram__fsdp_units(const vram_graph *g, vram_words units, const vram_node *n,
                                 const vram_node *end) {
  uint32_t count = 0;
  while (n != end) {
    const vram__unit_run run = vram__fsdp_run(g, units, n, end);
    count += run.is_unit;
    n = run.last->next;
  }
  return count;
}

/* Is it a parameter of the module that is wrapped? */
VRAM__FN int vram__fsdp_has(const vram__fsdp *d, const vram_param *p) {
  return p->node->index >= d->first->index && (!d->end || p->node->index < d->end->index);
}

static vram_words vram__fsdp_words(const vram_step_options *o) { return o->parallel->units; }

/* Bytes of scratch: groups, parameters, and for each unit what goes in and out. */
VRAM__FN uint64_t vram__fsdp_bytes(const vram_graph *g, const vram_step_options *o) {
  const uint64_t groups = 1 + (uint64_t)vram__fsdp_units(g, vram__fsdp_words(o), g->first, NULL);
  const vram_node *n;
  uint64_t in = g->ninput;
  for (n = g->first; n; n = n->next)
    in += n->nin;
  return sizeof(vram__fsdp) + 64 + groups * (sizeof(vram__fsdp_group) + sizeof(uint32_t)) +
         (uint64_t)g->nparam * (sizeof(vram__fsdp_param) + 3 * sizeof(uint32_t)) +
         (g->nvalue + UINT64_C(1)) * (sizeof(vram__fsdp_hook) + sizeof(uint32_t)) * 2 +
         in * (2 * sizeof(vram_value *) + sizeof(vram__tensor));
}

/* What comes one after the other in the wrapper's memory. */
static void *vram__fsdp_take(vram__step *s, uint64_t *used, uint64_t bytes) {
  uint8_t *at = (uint8_t *)s->wrapped + *used;
  *used += (bytes + 7) / 8 * 8;
  return at;
}

/* The unit that each parameter is used in, 0: several, or outside of them. */
static void vram__fsdp_owners(const vram__step *s, const vram__fsdp *d, uint32_t *owner) {
  const vram_node *n = d->first;
  uint32_t i, k = 1;
  for (i = 0; i < s->g->nparam; i++)
    owner[i] = VRAM__FSDP_NONE;
  for (; n != d->end; n = n->next) {
    const int inside = k < d->ngroup && n->index >= d->group[k].run.first->index;
    for (i = 0; i < n->nparam; i++) {
      uint32_t *to = n->param[i] ? owner + n->param[i]->index : NULL;
      if (to)
        *to = *to == VRAM__FSDP_NONE || *to == (inside ? k : 0) ? inside ? k : 0 : 0;
    }
    k += inside && n == d->group[k].run.last;
  }
}

/* The parameters in the order of Module.parameters(): the root's own, then those of each unit. */
static void vram__fsdp_put_params(vram__step *s, vram__fsdp *d, const uint32_t *owner) {
  const uint32_t rank = vram__wrapper_rank(s->o->parallel);
  uint32_t k, leaf;
  const vram_param *p;
  for (k = 0; k < d->ngroup; k++) {
    d->group[k].first = d->nparam;
    for (p = s->g->param_first, leaf = 0; p; leaf += p->kind == VRAM__PARAM, p = p->next) {
      vram__fsdp_param *f = d->param + d->nparam;
      if (p->kind == VRAM__BUFFER || !vram__fsdp_has(d, p) ||
          (owner[p->index] == VRAM__FSDP_NONE ? 0 : owner[p->index]) != k)
        continue;
      vram__memory_zero(f, sizeof *f);
      f->p = p;
      f->leaf = p->kind == VRAM__PARAM ? leaf : VRAM__FSDP_NONE;
      f->group = k;
      f->dtype = vram__param_dtype(s, p);
      vram__fsdp_shard(f, d->shards, rank);
      d->nparam++;
    }
    d->group[k].end = d->nparam;
  }
}

/* DTensors of tensor parallelism are on a mesh of two dims, others on one: an optimizer has them in
   groups of their own. at: room for as many numbers. */
static void vram__fsdp_order_meshes(vram__fsdp *d, uint32_t *at) {
  uint32_t i, pass, n = 0;
  for (i = 0; i < d->nparam; i++)
    at[i] = d->optim[i];
  for (pass = 0; pass < 2 && d->nparam; pass++)
    for (i = 0; i < d->nparam; i++)
      if ((d->param[at[i]].p->is_dtensor != d->param[at[0]].p->is_dtensor) == (pass == 1))
        d->optim[n++] = at[i];
}

/* A text has the root's own parameters first, as torch.nn.Module has what is its own; where modules
   are named, or it says what it was exported with, the list of parameters is that of a whole
   module. */
static void vram__fsdp_put_order(const vram__step *s, vram__fsdp *d, uint32_t *at) {
  uint32_t i, n = 0;
  const vram_param *p;
  for (i = 0; i < d->nparam; i++)
    at[d->param[i].p->index] = d->optim[i] = i;
  for (p = s->g->unit_first || s->g->rules ? s->g->param_first : NULL; p; p = p->next)
    if (p->kind != VRAM__BUFFER && vram__fsdp_has(d, p))
      d->optim[n++] = at[p->index];
  vram__fsdp_order_meshes(d, at);
  for (i = d->nparam; i-- > 0;) {
    vram__fsdp_param *f = d->param + d->optim[i];
    vram__fsdp_group *g = d->group + f->group;
    f->last = !g->at;
    g->at = 1;
  }
  for (i = 0; i < d->ngroup; i++)
    d->group[i].at = 0;
}

/* Does the module use this input? A stage's graph has those of other stages, too. */
static int vram__fsdp_uses(const vram__step *s, const vram_value *v) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const vram_node *n;
  uint32_t i;
  if (!vram__pipe_is(s->o))
    return 1;
  for (n = d->first; n != d->end; n = n->next)
    for (i = 0; i < n->nin; i++)
      if (n->in[i] == v)
        return 1;
  return 0;
}

/* The values from outside that the unit uses, and those whose last line is in it. */
static void vram__fsdp_put_values(vram__step *s, vram__fsdp *d, uint32_t k, uint32_t *seen,
                                  uint64_t *used) {
  vram__fsdp_group *g = d->group + k;
  const vram_node *n, *end = k ? g->run.last->next : NULL;
  const uint32_t from = k ? g->run.first->index : 0, to = k ? g->run.last->index : UINT32_MAX;
  const vram_value **at;
  uint32_t i, j, m;
  g->in = at = (const vram_value **)vram__fsdp_take(s, used, 0);
  for (i = 0; !k && i < s->g->ninput; i++)
    if (vram__fsdp_uses(s, s->g->input[i]))
      at[g->nin++] = s->g->input[i];
  for (n = k ? g->run.first : NULL; n != end; n = n->next)
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      const vram_value *v = n->in[i];
      if ((!v->node || v->node->index < from) && seen[v->index] != k && !vram__value_is_flight(v)) {
        seen[v->index] = k;
        at[g->nin++] = v;
      }
    }
  vram__fsdp_take(s, used, g->nin * sizeof *at);
  g->given = (vram__tensor *)vram__fsdp_take(s, used, g->nin * sizeof *g->given);
  g->dropped = at = (const vram_value **)vram__fsdp_take(s, used, 0);
  for (n = k ? g->run.first : NULL; n != end; n = n->next)
    for (i = 0; i < n->nin; i++) {
      const vram_value *v = n->in[i];
      if ((v->node && v->node->index >= from) || v->last != n->index || v->last > to ||
          vram__value_is_flight(v) || (s->call.nrange && vram__step_is_captured(v)))
        continue;
      for (j = g->ndropped; j && at[j - 1]->index > v->index; j--) /* in the order of the program */
        ;
      if (j && at[j - 1] == v)
        continue;
      for (m = g->ndropped++; m > j; m--)
        at[m] = at[m - 1];
      at[j] = v;
    }
  vram__fsdp_take(s, used, g->ndropped * sizeof *at);
}

/* FSDPParamGroup._init_mp_dtypes */
static void vram__fsdp_look_at_dtypes(vram__step *s, const vram__fsdp *d) {
  uint32_t k, i;
  for (k = 0; k < d->ngroup; k++) {
    const vram__fsdp_param *first = NULL;
    for (i = d->group[k].first; i < d->group[k].end; i++) {
      const vram__fsdp_param *f = d->param + i;
      if (f->leaf == VRAM__FSDP_NONE)
        continue;
      if (first && first->dtype != f->dtype)
        vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->p->node,
                          "FSDP expects uniform original parameter dtype in each unit");
      first = f;
    }
  }
}

/* Everything that stays as it is from one step to the next. */
VRAM__FN void vram__fsdp_make(vram__step *s, const vram_node *first, const vram_node *end) {
  vram__fsdp *d = vram__fsdp_of(s);
  const vram_parallel *p = s->o->parallel;
  const vram_words units = vram__fsdp_words(s->o);
  const vram_node *n = first;
  uint64_t used = (sizeof *d + 7) / 8 * 8;
  uint32_t *owner, k, i;
  vram__memory_zero(d, sizeof *d);
  d->first = first;
  d->end = end;
  d->shards = vram__wrapper_ranks(p);
  d->copies = p->copies ? p->copies : 1;
  d->post = p->reshard == VRAM_RESHARD_RANKS ? p->reshard_ranks : d->shards;
  d->mp = p->mp;
  d->reduce = p->reduce;
  d->offload = p->cpu_offload;
  d->ngroup = 1 + vram__fsdp_units(s->g, units, first, end);
  d->group = (vram__fsdp_group *)vram__fsdp_take(s, &used, d->ngroup * sizeof *d->group);
  d->param = (vram__fsdp_param *)vram__fsdp_take(s, &used, s->g->nparam * sizeof *d->param);
  d->optim = (uint32_t *)vram__fsdp_take(s, &used, s->g->nparam * sizeof *d->optim);
  d->order = (uint32_t *)vram__fsdp_take(s, &used, d->ngroup * sizeof *d->order);
  d->hook_room = 2 * s->g->nvalue;
  d->hook = (vram__fsdp_hook *)vram__fsdp_take(s, &used, d->hook_room * sizeof *d->hook);
  owner = (uint32_t *)vram__fsdp_take(s, &used, (s->g->nparam + s->g->nvalue) * sizeof *owner);
  vram__memory_zero(d->group, d->ngroup * sizeof *d->group);
  for (k = 1; n != end;) {
    const vram__unit_run run = vram__fsdp_run(s->g, units, n, end);
    if (run.is_unit)
      d->group[k++].run = run;
    n = run.last->next;
  }
  for (k = 0; k < d->ngroup; k++)
    d->group[k].reshard =
        (uint8_t)(p->reshard == VRAM_RESHARD_DEFAULT ? k ? VRAM_RESHARD_ALWAYS : VRAM_RESHARD_NEVER
                  : p->reshard == VRAM_RESHARD_RANKS && d->post == d->shards ? VRAM_RESHARD_ALWAYS
                                                                             : p->reshard);
  vram__fsdp_owners(s, d, owner);
  vram__fsdp_put_params(s, d, owner);
  vram__fsdp_put_order(s, d, owner);
  for (i = 0; i < s->g->nvalue; i++)
    owner[i] = 0;
  for (k = 0; k < d->ngroup; k++)
    vram__fsdp_put_values(s, d, k, owner, &used);
  vram__fsdp_look_at_dtypes(s, d);
}

/* ---- construction */

/* The whole parameter i, before the first step. */
static void vram__fsdp_move_param(vram__step *s, vram__fsdp *d, uint32_t i) {
  const vram__fsdp_param *f = d->param + i;
  const uint64_t padding = f->p->is_dtensor ? vram__param_padding(f->p) : 0; /* of tp's part */
  vram__replay *const run = s->replay;
  if (vram__step_distributes(s))
    s->replay = NULL; /* what is there is more than this rank's part */
  d->param[i].whole =
      vram__leaf_existing_gradient(
          s, padding ? vram__dims_2d(s, 1, (int64_t)(f->p->d->numel + padding)) : f->p->d, f->dtype,
          VRAM_CATEGORY_PARAMS)
          .st;
  if (run && !s->replay) {
    s->replay = run;
    run->gradient[f->p->index] = vram__replay_get(s, vram__distribute_whole(f->p, f->dtype), 0);
  }
}

static void vram__fsdp_move_buffer(vram__step *s, vram__owned *o, const vram_param *p) {
  const uint64_t bytes = vram__dims_bytes_of(p->d, vram__param_dtype(s, p));
  if (s->nth == 1 && s->o->parallel->meta)
    return; /* they come with to_empty */
  vram__total_add(o->all + 1, bytes);
  if (s->replay && s->replay->fresh == 2) {
    vram__replay_tell(s, VRAM_CATEGORY_BUFFERS, p->node);
    vram__replay_get(s, bytes, 0);
  }
}

/* module.to(device): as the modules are defined. A text has the root's own as torch.nn.Module has
   what is its own: it moves its children first. */
VRAM__FN void vram__fsdp_move(vram__step *s, vram__fsdp *d, vram__owned *o) {
  uint32_t *owner = (uint32_t *)(void *)(d->hook + d->hook_room), k, i;
  const int whole = s->nth == 1 && !s->o->parallel->meta, named = s->g->unit_first || s->g->rules;
  const vram_param *p;
  vram__fsdp_owners(s, d, owner);
  for (k = 1; k <= d->ngroup; k++) {
    const uint32_t at = k % d->ngroup;
    for (i = whole && !named ? d->group[at].first : d->group[at].end; i < d->group[at].end; i++)
      vram__fsdp_move_param(s, d, i);
    for (p = named ? NULL : s->g->param_first; p; p = p->next)
      if (p->kind == VRAM__BUFFER && vram__fsdp_has(d, p) &&
          (owner[p->index] == VRAM__FSDP_NONE ? 0 : owner[p->index]) == at)
        vram__fsdp_move_buffer(s, o, p);
  }
  for (p = named ? s->g->param_first : NULL; p; p = p->next) {
    const uint32_t at = owner[p->index] == VRAM__FSDP_NONE ? 0 : owner[p->index];
    if (p->kind == VRAM__BUFFER && vram__fsdp_has(d, p))
      vram__fsdp_move_buffer(s, o, p);
    for (i = whole && p->kind != VRAM__BUFFER ? d->group[at].first : d->group[at].end;
         i < d->group[at].end; i++)
      if (d->param[i].p == p)
        vram__fsdp_move_param(s, d, i);
  }
}

/* Each stage of a pipeline has streams of its own, behind those of the one before. */
static uint8_t vram__fsdp_first_stream(vram__step *s) {
  const uint32_t k = vram__staged_stage(s), copies = vram__fsdp_of(s)->copies > 1;
  const uint32_t first = k ? VRAM__FSDP_REDUCE + copies + (k - 1) * (2 + copies) : 0;
  if (first + 2 + copies >= VRAM__STREAMS)
    vram__step_refuse(s, VRAM_ERR_LIMIT, NULL,
                      "fully_shard around more stages of a rank than there are streams for");
  return (uint8_t)first;
}

/* What of the module is on the device: buffers, and whole parameters before the first step, shards
   later. */
static void vram__fsdp_put(vram__step *s, vram__owned *o) {
  const vram__total none = {0, 0, 0, 0, 0};
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  if (s->nth == 1) {
    const vram_node *first, *end;
    vram__staged_nodes(s, &first, &end);
    vram__fsdp_make(s, first, end);
    d->stream = vram__fsdp_first_stream(s);
  }
  s->unit_backward = vram__fsdp_post_backward;
  s->compute = d->mp;
  if (!vram__staged_stage(s)) {
    o->all[0] = o->all[1] = o->trainable = none;
    o->params_bytes = 0;
  }
  for (i = 0; i < d->nparam; i++) {
    vram__fsdp_param *f = d->param + i;
    const uint64_t bytes = f->padded * vram__dtype_size(f->dtype);
    f->whole = f->post = f->shard = f->had = 0;
    o->params_bytes += bytes;
    if (d->offload)
      continue;
    if (s->nth > 1)
      vram__total_add(o->all, bytes);
    if (f->leaf != VRAM__FSDP_NONE)
      vram__total_add(&o->trainable, f->local * vram__dtype_size(f->dtype));
  }
  vram__fsdp_move(s, d, o);
}

/* fully_shard of one group: FSDPParam._init_sharded_param; what was there before goes when the call
   returns. */
static void vram__fsdp_shard_group(vram__step *s, vram__fsdp *d, const vram__fsdp_group *g) {
  uint32_t i;
  for (i = g->first; i < g->end; i++) {
    vram__fsdp_param *f = d->param + i;
    s->node = f->p->node;
    f->shard =
        vram__buffer_new_on(s, f->padded * vram__dtype_size(f->dtype), VRAM_CATEGORY_PARAMS, 0);
    if (d->offload)
      vram__buffer_free(s, &f->shard);
  }
  for (i = g->first; i < g->end; i++)
    vram__buffer_free(s, &d->param[i].whole);
}

/* Is b, which has a's weights, a further call of a's module? Its name is that with _N. */
static int vram__fsdp_calls_again(const vram_node *a, const vram_node *b) {
  const vram__span first = vram__node_label(a), label = vram__node_label(b);
  uint32_t at = first.len + 1;
  if (a->op != b->op || label.len < first.len ||
      !vram__text_equal(first.text, label.text, first.len))
    return 0;
  if (label.len == first.len) /* in another round of a loop */
    return 1;
  if (label.text[first.len] != '_' || at == label.len)
    return 0;
  while (at < label.len && vram__digit(label.text[at]))
    at++;
  return at == label.len;
}

/* Is n the first call of a module that shares p with one before? */
static int vram__fsdp_shares(const vram_node *n, const vram_param *p) {
  const vram_node *m;
  uint32_t i;
  for (m = p->node; m != n; m = m->next)
    for (i = 0; i < m->nparam; i++)
      if (m->param[i] == p && vram__fsdp_calls_again(m, n))
        return 0;
  return 1;
}

/* torch.nn.Module._apply gives each module a tensor of its own of a weight that it shares, until
   the group has that of the last one on all of them (FSDPParam.reset_sharded_param). Returns how
   many are left to free: in d->hook, where nothing is yet. */
static uint32_t vram__fsdp_materialize_shared(vram__step *s, vram__fsdp *d,
                                              const vram__fsdp_group *g) {
  const vram_node *n;
  uint32_t i, k, count = 0;
  for (n = d->first; n != d->end && !d->offload; n = n->next)
    for (i = 0; i < n->nparam; i++) {
      const vram_param *p = n->param[i];
      if (!p || p->kind == VRAM__BUFFER || p->node->index >= n->index || !vram__fsdp_shares(n, p))
        continue;
      for (k = g->first; k < g->end && d->param[k].p != p;)
        k++;
      if (k == g->end)
        continue;
      if (count == d->hook_room) {
        vram__step_refuse(s, VRAM_ERR_LIMIT, n, "more shared weights than there is room for");
        return count;
      }
      s->node = n;
      d->hook[count].group = k;
      d->hook[count++].fn = d->param[k].shard;
      d->param[k].shard = vram__buffer_new_on(
          s, d->param[k].local * vram__dtype_size(d->param[k].dtype), VRAM_CATEGORY_PARAMS, 0);
    }
  return count;
}

/* module.to_empty(device) behind fully_shard on the meta device: rows without padding, buffers,
   then what lacks its padding once more with it (FSDPModule._apply, FSDPParam.reset_sharded_param).
 */
static void vram__fsdp_materialize(vram__step *s, vram__fsdp *d, uint32_t k) {
  const uint32_t *owner = (const uint32_t *)(const void *)(d->hook + d->hook_room);
  const vram__fsdp_group *g = d->group + k;
  const vram_param *p;
  uint32_t i, j, old, shared;
  for (i = g->first; i < g->end && !d->offload; i++) {
    vram__fsdp_param *f = d->param + i;
    s->node = f->p->node;
    f->shard =
        vram__buffer_new_on(s, f->local * vram__dtype_size(f->dtype), VRAM_CATEGORY_PARAMS, 0);
  }
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__BUFFER && vram__fsdp_has(d, p) &&
        (owner[p->index] == VRAM__FSDP_NONE ? 0 : owner[p->index]) == k) {
      s->node = p->node;
      vram__buffer_new_on(s, vram__dims_bytes_of(p->d, vram__param_dtype(s, p)),
                          VRAM_CATEGORY_BUFFERS, 0);
    }
  shared = vram__fsdp_materialize_shared(s, d, g);
  for (i = g->first; i < g->end && !d->offload; i++) {
    vram__fsdp_param *f = d->param + i;
    for (j = 0; j < shared; j++)
      if (d->hook[j].group == i)
        vram__buffer_free(s, &d->hook[j].fn);
    if (f->local == f->padded)
      continue;
    s->node = f->p->node;
    old = f->shard;
    f->shard =
        vram__buffer_new_on(s, f->padded * vram__dtype_size(f->dtype), VRAM_CATEGORY_PARAMS, 0);
    vram__buffer_free(s, &old);
  }
}

static void vram__fsdp_construct(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; vram__step_distributes(s) && s->replay && k < d->nparam; k++)
    if (d->param[k].whole) /* tensor parallelism has dealt them already */
      vram__slot_at(s, d->param[k].whole)->block = s->replay->gradient[d->param[k].p->index];
  for (k = 1; k <= d->ngroup; k++)
    if (s->o->parallel->meta)
      vram__fsdp_materialize(s, d, k % d->ngroup);
    else
      vram__fsdp_shard_group(s, d, d->group + k % d->ngroup);
  s->node = NULL;
}

/* What the step before left: a storage of gradients for each group that had some. */
static void vram__fsdp_restore(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  d->nhook = d->norder = d->kept = d->input = 0;
  for (k = 0; k < d->ngroup; k++) {
    vram__fsdp_group *g = d->group + k;
    g->state = g->training = 0;
    g->gathered = g->grad = g->reduced = g->at = g->passes = 0;
    g->async = 0;
    if (!g->grad_bytes)
      continue;
    s->stream = vram__fsdp_last_stream(d, d->param[g->first].dtype);
    g->grad = vram__buffer_existing(s, g->grad_bytes, VRAM_CATEGORY_GRADIENTS, g->grad_block);
    s->stream = 0;
  }
}

/* ---- what fully_shard refuses */

/* Weights in the policy's dtype beside running statistics in another one: the backward of batch
   norms stops there. */
static int vram__fsdp_mixes_statistics(const vram_graph *g, const vram_step_options *o) {
  const vram_dtype stored = o->dtype ? o->dtype : vram__graph_own_dtype(g, VRAM_DTYPE_MODEL);
  const vram_node *n;
  for (n = g->first; n && o->parallel->mp && o->parallel->mp != stored; n = n->next)
    if (n->op == VRAM_OP_batch_norm && n->nparam > 2 && n->param[0] && n->param[2])
      return 1;
  return 0;
}

/* Why a parameter cannot be sharded, or NULL. */
static const char *vram__fsdp_refuses_param(const vram_param *p) {
  uint64_t weight;
  return !p->d->ndim                         ? "Shard dim 0 is invalid for 0D tensor"
         : !(p->d->flags & VRAM__CONTIG)     ? "FSDP does not support non-contiguous parameters yet"
         : vram__param_quantised(p, &weight) ? "fully_shard of quantised weights is not played"
         : vram__op_traits(p->node) & VRAM__OP_FLAT
             ? "fully_shard of recurrent nets is not played: their weights are one tensor"
             : NULL;
}

static int vram__fsdp_fuses(vram_optimizer optimizer) {
  return optimizer == VRAM_OPTIM_adam || optimizer == VRAM_OPTIM_adamw ||
         optimizer == VRAM_OPTIM_adam_amsgrad || optimizer == VRAM_OPTIM_adamw_amsgrad;
}

VRAM__FN const char *vram__fsdp_refuses(const vram_graph *g, const vram_step_options *o) {
  const vram_parallel *p = o->parallel;
  const uint32_t shards = vram__wrapper_ranks(p);
  const vram_param *q;
  if (!o->train)
    return "fully_shard is played for training";
  if (g->nstep || g->nbackward || g->nzero_grad || o->zero_grad_late || o->zero_grad_end ||
      o->optimizer_in_backward || o->master_weights || o->ema)
    return "fully_shard is played with one zero_grad, backward and optimizer step";
  if (vram__optim_flags(o) & (VRAM__OPTIM_MATRIX | VRAM__OPTIM_PROJECTS | VRAM__OPTIM_IN_BACKWARD))
    return "fully_shard is played with optimizers that go through elements";
  if (o->amp == VRAM_F16 || g->nscaled)
    return "fully_shard is played without GradScaler: autocast in bf16";
  if (o->optim_impl == VRAM_OPTIM_IMPL_FUSED && !vram__fsdp_fuses(o->optimizer) &&
      !p->cpu_offload && p->wrapper != VRAM_WRAPPER_FSDP1)
    return "DTensors have fused steps of Adam and AdamW alone (the operator does not have a "
           "sharding strategy registered)";
  if (p->reshard == VRAM_RESHARD_RANKS && (p->reshard_ranks > shards || shards % p->reshard_ranks))
    return "If passing reshard_after_forward as an int, it should be a factor of the shards";
  if (vram__fsdp_mixes_statistics(g, o))
    return "Expected running_mean to have the type of the weights: leave mp out, or fully_shard "
           "batch norms without it";
  for (q = g->param_first; q; q = q->next)
    if (q->kind != VRAM__BUFFER && vram__fsdp_refuses_param(q))
      return vram__fsdp_refuses_param(q);
  return NULL;
}

VRAM__FN void vram__fsdp_wrapper(vram__wrapper *w) {
  w->bytes = vram__fsdp_bytes;
  w->refuses = vram__fsdp_refuses;
  w->put = vram__fsdp_put;
  w->construct = vram__fsdp_construct;
  w->restore = vram__fsdp_restore;
  w->lasts = vram__fsdp_lasts;
  w->zero_grad = vram__fsdp_zero_grad;
  w->forward_begin = vram__fsdp_forward_begin;
  w->forward = vram__fsdp_forward;
  w->forward_end = vram__fsdp_forward_end;
  w->record = vram__fsdp_pre_backward;
  w->backward_end = vram__fsdp_backward_end;
  w->optim_params = vram__fsdp_optim_params;
  w->optimized = vram__fsdp_optimized;
}
