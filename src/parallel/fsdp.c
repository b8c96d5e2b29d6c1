/* >>parallel/fsdp    fully_shard: parameters are gathered for a unit at a time
   (torch/distributed/fsdp/_fully_shard: _fsdp_state.py, _fsdp_param_group.py, _fsdp_param.py,
   _fsdp_collectives.py, to whose functions names here refer) */
#include "parallel/fsdp.h"

/* Bytes of the parameter's elements while it is gathered. */
static uint32_t vram__fsdp_item(const vram__fsdp *d, const vram__fsdp_param *f) {
  return vram__dtype_size(d->mp ? d->mp : f->dtype);
}

/* What copies of parts need a table for: 2,048 bytes are one block's. */
static uint64_t vram__fsdp_blocks(uint64_t bytes, uint64_t each) {
  return vram__div_up_u64(bytes, 2048 * each);
}

/* ---- gathering */

/* Ranks that hold the group's parameters now. */
static uint32_t vram__fsdp_ranks(const vram__fsdp *d, const vram__fsdp_group *g) {
  return g->state == VRAM__FSDP_POST_FORWARD ? d->post : d->shards;
}

/* Elements of this rank's part of them. */
static uint64_t vram__fsdp_part(const vram__fsdp *d, const vram__fsdp_group *g,
                                const vram__fsdp_param *f) {
  return g->state == VRAM__FSDP_POST_FORWARD ? f->padded * d->shards / d->post : f->padded;
}

/* _get_param_all_gather_inputs with the shards on the host: one copy of each goes to the device,
   and is cast there. They go from the last to the first. */
static uint32_t vram__fsdp_upload(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = g->first; i < g->end; i++) {
    vram__fsdp_param *f = d->param + i;
    uint32_t stored =
        vram__buffer_new_on(s, f->padded * vram__dtype_size(f->dtype), VRAM_CATEGORY_PARAMS,
                            vram__fsdp_stream(d, VRAM__FSDP_GATHER));
    f->post = stored;
    if (d->mp && d->mp != f->dtype) {
      f->post = vram__buffer_new_on(s, f->padded * vram__dtype_size(d->mp), VRAM_CATEGORY_PARAMS,
                                    vram__fsdp_stream(d, VRAM__FSDP_GATHER));
      vram__buffer_free(s, &stored);
    }
  }
  return 0;
}

static int vram__fsdp_casts(const vram__fsdp *d, const vram__fsdp_group *g) {
  return d->mp && g->first < g->end && d->mp != d->param[g->first].dtype;
}

/* FSDPParamGroup.unshard, foreach_all_gather */
VRAM__FN void vram__fsdp_unshard(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  const uint8_t stream = g->async ? 0 : vram__fsdp_stream(d, VRAM__FSDP_GATHER);
  const uint32_t ranks = vram__fsdp_ranks(d, g);
  const int upload = d->offload && g->state == VRAM__FSDP_SHARDED;
  uint64_t bytes = 0;
  uint32_t i, flat = 0;
  if (g->gathered || g->state == VRAM__FSDP_WHOLE || g->first == g->end)
    return;
  if (d->flat) {
    vram__fsdp1_unshard(s, g);
    return;
  }
  if (ranks == 1) { /* nothing is gathered, wait_for_unshard copies */
    g->gathered = VRAM__OWN_WEIGHTS;
    return;
  }
  for (i = g->first; i < g->end; i++)
    bytes += vram__fsdp_part(d, g, d->param + i) * vram__fsdp_item(d, d->param + i);
  if (upload)
    vram__fsdp_upload(s, g);
  else if (vram__fsdp_casts(d, g) && !d->offload)
    flat = vram__buffer_new_on(s, bytes, VRAM_CATEGORY_PARAMS, stream);
  g->gathered = vram__buffer_new_on(s, bytes * ranks, VRAM_CATEGORY_PARAMS, stream);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_GATHER, bytes * ranks, ranks);
  vram__buffer_free(s, &flat);
  for (i = g->end; upload && i-- > g->first;)
    vram__buffer_free(s, &d->param[i].post);
}

/* The table of split_with_sizes_copy (aten/src/ATen/native/cuda/TensorShape.cu): tiles of 2,048
   bytes, at most twice as many blocks as the device runs at once; several tiles go to one block. */
static void vram__fsdp_split_table(vram__step *s, const vram__fsdp_group *g) {
  const vram__fsdp *d = vram__fsdp_of(s);
  const uint64_t ranks = vram__fsdp_ranks(d, g);
  const uint64_t most = (uint64_t)s->device.sm * s->device.threads / 128 * 2;
  uint64_t blocks = 0, each = 1, root;
  uint32_t i;
  for (i = g->first; i < g->end; i++)
    blocks += vram__fsdp_blocks(
        vram__fsdp_part(d, g, d->param + i) * vram__fsdp_item(d, d->param + i), 1);
  each = vram__div_up_u64(blocks * ranks, most);
  each += !each;
  for (root = 1; root * root < each && root < ranks;) /* tiles along the ranks, the others along */
    root++;                                           /* the part */
  each = vram__div_up_u64(each, root);
  for (blocks = 0, i = g->first; i < g->end; i++)
    blocks += vram__fsdp_blocks(
        vram__fsdp_part(d, g, d->param + i) * vram__fsdp_item(d, d->param + i), each);
  vram__buffer_briefly(s, 8 * (4 * (uint64_t)(g->end - g->first) + 1 + blocks));
}

/* FSDPParamGroup.wait_for_unshard */
VRAM__FN void vram__fsdp_wait(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  const uint32_t ranks = vram__fsdp_ranks(d, g);
  uint32_t i, cast = 0;
  if (!g->gathered || d->flat)
    return;
  if (g->training == VRAM__FSDP_FORWARD)
    vram__buffer_free(s, &d->kept);
  for (i = g->first; i < g->end; i++) {
    vram__fsdp_param *f = d->param + i;
    if (ranks == 1 && (d->offload || vram__fsdp_casts(d, g))) {
      uint32_t before = cast;
      cast = vram__buffer_new_on(s, f->padded * vram__fsdp_item(d, f), VRAM_CATEGORY_PARAMS, 0);
      vram__buffer_free(s, &before);
    }
    if (!f->whole)
      f->whole = vram__buffer_new_on(s, f->padded * d->shards * vram__fsdp_item(d, f),
                                     VRAM_CATEGORY_PARAMS, 0);
  }
  vram__buffer_free(s, &cast);
  if (ranks > 1)
    vram__fsdp_split_table(s, g);
  else
    g->gathered = 0;
  for (i = g->first; i < g->end; i++)
    vram__buffer_free(s, &d->param[i].post);
  g->state = VRAM__FSDP_WHOLE;
  if (g->training == VRAM__FSDP_FORWARD && ranks > 1 && !g->async) {
    d->kept = g->gathered;
    g->gathered = 0;
  } else
    vram__buffer_free(s, &g->gathered);
  g->async = 0;
}

/* FSDPParamGroup.reshard */
VRAM__FN void vram__fsdp_reshard(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  const int forward = g->training == VRAM__FSDP_FORWARD;
  const int post = forward && g->reshard == VRAM_RESHARD_RANKS;
  uint32_t i;
  if (d->flat) {
    vram__fsdp1_post_forward(s, g);
    return;
  }
  if ((forward && g->reshard == VRAM_RESHARD_NEVER) || g->state != VRAM__FSDP_WHOLE)
    return;
  for (i = g->first; i < g->end; i++) {
    vram__fsdp_param *f = d->param + i;
    if (post)
      f->post = vram__buffer_new_on(s, f->padded * d->shards / d->post * vram__fsdp_item(d, f),
                                    VRAM_CATEGORY_PARAMS, 0);
    vram__buffer_free(s, &f->whole);
  }
  g->state = post ? VRAM__FSDP_POST_FORWARD : VRAM__FSDP_SHARDED;
}

/* The units in front of unit k, or behind it, that are gathered ahead of time. */
static void vram__fsdp_prefetch(vram__step *s, uint32_t k, int forward) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = 1; i <= s->o->parallel->prefetch && k; i++) {
    if (forward ? k + i >= d->ngroup : i >= k)
      return;
    vram__fsdp_unshard(s, d->group + (forward ? k + i : k - i));
  }
}

/* Did the caller say which units are gathered ahead in backward? (FSDPState._pre_backward) */
static int vram__fsdp_prefetches(const vram__step *s, uint32_t k) {
  return s->o->parallel->prefetch && k > 1;
}

/* ---- forward */

/* A copy of x in the dtype of the parameters, where it is another one (_cast_forward_inputs). */
static int vram__fsdp_casts_input(const vram__step *s, vram__tensor x, uint32_t k) {
  const vram__fsdp *d = vram__fsdp_of(s);
  return d->mp && s->o->parallel->cast_forward_inputs && vram__dtype_is_float(x.dt) &&
         x.dt != d->mp && !(d->flat && k); /* of FullyShardedDataParallel only the root does */
}

/* What goes into the unit: cast, and behind RegisterPostBackwardFunction. The caller keeps what it
   had. */
static void vram__fsdp_take_inputs(vram__step *s, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  uint32_t i;
  for (i = 0; i < g->nin && !s->failed; i++) {
    vram__tensor *t = &s->variable[s->name_of[g->in[i]->index]].t;
    if (s->grad)
      vram__history_refresh(s, t);
    g->given[i] = *t;
    *t = vram__fsdp_casts_input(s, *t, k) ? vram__torch_cast(s, *t, d->mp)
                                          : vram__tensor_retain(s, *t);
  }
}

static void vram__fsdp_register(vram__step *s, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  vram__grad_fn *f;
  uint32_t i, n = 0;
  if (g->first == g->end || !s->grad)
    return;
  for (i = 0; i < g->nin; i++)
    n += vram__tensor_wants_grad(s, s->variable[s->name_of[g->in[i]->index]].t) != 0;
  if (!n || !(f = vram__tape_record_raw(s, VRAM__K_unit, n, n, 0)))
    return;
  f->aux = k;
  for (i = n = 0; i < g->nin; i++) {
    vram__tensor *t = &s->variable[s->name_of[g->in[i]->index]].t, y;
    if (!vram__tensor_wants_grad(s, *t))
      continue;
    vram__tape_edge_from(s, f, n, *t);
    y = vram__tensor_alias(s, *t, t->d);
    vram__grad_fn_set_output(s, f, n++, &y);
    vram__tensor_release(s, *t);
    *t = y;
  }
}

static void vram__fsdp_return_inputs(vram__step *s, uint32_t k) {
  vram__fsdp_group *g = vram__fsdp_of(s)->group + k;
  uint32_t i;
  for (i = g->nin; i-- > 0;) { /* a tuple lets go of its last one first */
    vram__tensor *t = &s->variable[s->name_of[g->in[i]->index]].t;
    vram__tensor_release(s, *t);
    *t = g->given[i];
  }
}

static void vram__fsdp_do(vram__step *s, uint32_t what, uint32_t k) {
  const vram__fsdp *d = vram__fsdp_of(s);
  if (d->tell)
    d->tell(s, what, k);
  else
    vram__fsdp_unit(s, what, k);
}

/* FSDPState._pre_forward */
static void vram__fsdp_pre_forward(vram__step *s, uint32_t k) {
  vram__fsdp_take_inputs(s, k);
  vram__fsdp_of(s)->group[k].training = VRAM__FSDP_FORWARD;
  if (vram__fsdp_of(s)->flat) {
    vram__fsdp1_pre_forward(s, k);
    return;
  }
  vram__fsdp_do(s, VRAM__UNIT_FORWARD, k);
  vram__fsdp_register(s, k);
}

/* An output's gradient begins the backward pass of the unit (_register_pre_backward_hook). */
VRAM__FN void vram__fsdp_hook_on(vram__step *s, const vram_value *v, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  const vram__tensor t = s->variable[s->name_of[v->index]].t;
  const uint32_t fn = s->grad ? vram__tensor_fn(s, t) : 0;
  if (!vram__is_grad_fn(fn))
    return;
  if (d->nhook == d->hook_room) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__grad_fn_at(s, fn)->hooked = 1;
  d->hook[d->nhook].fn = fn;
  d->hook[d->nhook++].group = k;
}

/* FSDPState._post_forward */
static void vram__fsdp_post_forward(vram__step *s, uint32_t k) {
  vram__fsdp_group *g = vram__fsdp_of(s)->group + k;
  if (g->first < g->end)
    vram__fsdp_do(s, VRAM__UNIT_FORWARD_END, k);
  g->training = VRAM__FSDP_IDLE;
}

/* The unit returns: its caller gets the outputs, and what ended in it ends now. */
static void vram__fsdp_unit_end(vram__step *s, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  const vram_value *last = NULL;
  const vram_node *n;
  uint32_t i;
  vram__fsdp_post_forward(s, k);
  for (n = g->run.first; n != g->run.last->next && !s->failed; n = n->next)
    for (i = 0; i < n->nout; i++)
      if (n->out[i].last > g->run.last->index && s->name_of[n->out[i].index] != s->g->nvalue) {
        last = &n->out[i];
        vram__fsdp_hook_on(s, last, k);
      }
  vram__fsdp_return_inputs(s, k);
  if (last && !s->g->unit_first) {
    const vram__tensor old = d->output;
    d->output = vram__tensor_retain(s, s->variable[s->name_of[last->index]].t);
    if (old.d)
      vram__tensor_release(s, old);
  }
  for (i = 0; i < g->ndropped; i++)
    vram__variable_unname(s, g->dropped[i]);
}

/* The module's forward: units are called, the root does what is between them. */
/* A checkpointed part lies in a unit, or between two: what begins from `at` on ends before `next`.
 */
static void vram__fsdp_check_ranges(vram__step *s, uint32_t at, uint32_t behind,
                                    const vram_node *next) {
  for (; at < behind && next; at = s->call.range[at].behind)
    if (s->call.range[at].last->index >= next->index) {
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->call.range[at].first,
                        "a checkpointed part that goes over units of fully_shard is not played "
                        "(expected parts inside units: --checkpoint layers)");
      return;
    }
}

VRAM__FN void vram__fsdp_forward(vram__step *s, const vram_node *end) {
  vram__fsdp *d = vram__fsdp_of(s);
  const vram_node *n = d->first, *next;
  uint32_t k, at = n ? vram__ranges_before(s, 0, n) : 0, behind;
  for (k = 1; n != end && !s->failed; n = next) {
    const vram_node *const from = n;
    int unit;
    if (s->layers && (n = vram__layers_forward(s, n)) != from) {
      k += s->layers->left;
      at += s->o->ncheckpoint ? s->layers->left : 0;
    }
    unit = k < d->ngroup && d->group[k].run.first == n;
    next = unit ? d->group[k].run.last->next : k < d->ngroup ? d->group[k].run.first : end;
    behind = vram__ranges_before(s, at, next);
    vram__fsdp_check_ranges(s, at, behind, next);
    if (s->failed)
      return;
    if (unit) {
      s->node = n;
      vram__fsdp_pre_forward(s, k);
      s->outside = n->index + 1;
      s->unit_end = s->g->unit_first ? UINT32_MAX : d->group[k].run.last->index;
    }
    if (!s->failed)
      vram__checkpoint_parts(s, n, next, at, behind);
    s->outside = 0;
    if (unit && !s->failed)
      vram__fsdp_unit_end(s, k++);
    at = behind;
  }
}

VRAM__FN void vram__fsdp_forward_begin(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup && !d->tell; k++) /* else others are on their way */
    d->group[k].at = d->group[k].passes = d->nhook = d->norder = 0;
  d->output.d = NULL;
  d->dtype = s->dtype;
  if (d->mp && s->g->dtype) /* what a text casts to the model's dtype is what x.dtype is then */
    s->dtype = d->mp;
  vram__fsdp_pre_forward(s, 0);
}

/* The root has run, */
VRAM__FN void vram__fsdp_module_end(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  if (d->output.d)
    vram__tensor_release(s, d->output);
  d->output.d = NULL;
  vram__fsdp_post_forward(s, 0);
}

/* and returns what has hooks then. */
VRAM__FN void vram__fsdp_module_over(vram__step *s) {
  vram__fsdp_do(s, VRAM__UNIT_FORWARD_OVER, 0);
  vram__fsdp_return_inputs(s, 0);
}

VRAM__FN void vram__fsdp_forward_end(vram__step *s) {
  const vram_node *n;
  uint32_t i;
  vram__fsdp_module_end(s);
  for (n = s->g->first; n && !s->failed; n = n->next)
    for (i = 0; i < n->nout; i++)
      if (vram__module_returns(s->g, n->out + i))
        vram__fsdp_hook_on(s, n->out + i, 0);
  vram__fsdp_module_over(s);
}

/* ---- backward */

/* Do gradients of this parameter wait in a wider dtype than they are made in
   (_fsdp_params_with_wider_grad_dtype)? */
static int vram__fsdp_widens(const vram__fsdp *d, const vram__fsdp_param *f) {
  const vram_dtype own = d->mp ? d->mp : f->dtype, wait = d->reduce ? d->reduce : f->dtype;
  return vram__dtype_size(wait) > vram__dtype_size(own) && !vram__param_is_replicated(f->p);
}

/* The dtype in which gradients arrive: that in which they are made, which a further one is added
   to, where they are reduced now; else that in which they wait (_set_unsharded_grad_dtypes), as
   those always do that may be summed along tp (may_reduce_grad_outside_dp). */
static void vram__fsdp_expect(vram__step *s, const vram__fsdp_group *g) {
  const vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = g->first; i < g->end; i++) {
    const vram__fsdp_param *f = d->param + i;
    const vram_dtype own = d->mp ? d->mp : f->dtype, wait = d->reduce ? d->reduce : f->dtype;
    vram__leaf *l = f->leaf == VRAM__FSDP_NONE ? NULL : s->leaf.at + f->leaf;
    const int made = vram__fsdp_widens(d, f) && l && (l->grad.d || s->last_batch);
    const vram_dtype dt = made ? own : wait;
    if (l)
      l->grad_dt = dt;
  }
}

/* FSDPParamGroup.pre_backward */
static void vram__fsdp_pre_backward_of(vram__step *s, uint32_t k) {
  vram__fsdp_group *g = vram__fsdp_of(s)->group + k;
  if (g->first == g->end || g->training == VRAM__FSDP_PRE_BACKWARD)
    return;
  g->training = VRAM__FSDP_PRE_BACKWARD;
  vram__fsdp_do(s, VRAM__UNIT_BACKWARD, k);
  if (vram__fsdp_of(s)->flat)
    vram__fsdp1_pre_backward_of(s, g);
  else
    vram__fsdp_expect(s, g);
}

/* _backward_prefetch: forward passes append to post_forward_order, which backward of the last
   step's end has emptied, and each goes through the groups in the same order. */
static void vram__fsdp_prefetch_before(vram__step *s, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  g->before = 0;
  if (!g->passes)
    return;
  g->passes--;
  g->before = g->at > 1 ? d->order[g->at - 2] + 1 : g->passes ? d->order[d->norder - 1] + 1 : 0;
  if (g->before && (d->flat ? s->o->parallel->backward_prefetch == VRAM_PREFETCH_PRE
                            : !vram__fsdp_prefetches(s, k)))
    vram__fsdp_unshard(s, d->group + g->before - 1);
}

/* The record fn, which made outputs of units, is about to run backward. */
VRAM__FN void vram__fsdp_pre_backward(vram__step *s, uint32_t fn) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = 0; i < d->nhook && !s->failed; i++)
    if (d->hook[i].fn == fn) {
      d->called = 1;
      vram__fsdp_pre_backward_of(s, d->hook[i].group);
      if (vram__fsdp_prefetches(s, d->hook[i].group))
        vram__fsdp_do(s, VRAM__UNIT_PREFETCH, d->hook[i].group);
    }
}

/* The gradients that wait for a later micro-batch do so in their own dtype. */
static void vram__fsdp_leave(vram__step *s, vram__fsdp_group *g) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = g->first; i < g->end; i++) {
    const vram__fsdp_param *f = d->param + i;
    const vram_dtype wait = d->reduce ? d->reduce : f->dtype;
    vram__leaf *l = f->leaf == VRAM__FSDP_NONE ? NULL : s->leaf.at + f->leaf;
    if (!l || !l->grad.d || l->grad.dt == wait || !vram__fsdp_widens(d, f))
      continue;
    {
      const vram__tensor old = l->grad;
      const uint8_t cat = s->cat;
      s->cat = VRAM_CATEGORY_GRADIENTS;
      l->grad = vram__tensor_empty(s, old.d, wait);
      s->cat = cat;
      vram__tensor_release(s, old);
    }
  }
  if (!d->tell) /* a stage's parameters stay (set_reshard_after_backward(False)) */
    vram__fsdp_reshard(s, g);
}

/* The leaf of parameter i; NULL: it has no gradient. */
static vram__leaf *vram__fsdp_leaf_with_grad(const vram__step *s, uint32_t i) {
  const vram__fsdp_param *f = vram__fsdp_of(s)->param + i;
  vram__leaf *l = f->leaf == VRAM__FSDP_NONE ? NULL : s->leaf.at + f->leaf;
  return l && l->grad.d ? l : NULL;
}

/* _chunk_cat of the n gradients: its kernel has a table of pointers, and converts bf16 to f32; else
   gradients that the ranks do not divide get their padding in copies, and each is copied by itself
   (aten/src/ATen/native/cuda/TensorShape.cu, aten/src/ATen/native/TensorShape.cpp) */
static void vram__fsdp_chunk_cat(vram__step *s, const vram__fsdp_group *g, uint32_t n,
                                 vram_dtype dt, uint64_t blocks) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i, simple = 1;
  for (i = g->first; i < g->end; i++) {
    const vram__leaf *l = vram__fsdp_leaf_with_grad(s, i);
    simple &= !l || l->grad.dt == dt || (l->grad.dt == VRAM_BF16 && dt == VRAM_F32);
  }
  if (simple)
    vram__buffer_briefly(s, 8 * (6 * (uint64_t)n + 2 + blocks));
  for (i = g->first; i < g->end && !simple; i++) {
    const vram__leaf *l = vram__fsdp_leaf_with_grad(s, i);
    const uint64_t whole = d->param[i].padded * d->shards;
    if (l && whole != l->d->numel)
      d->param[i].post = vram__buffer_new_on(s, whole * vram__dtype_size(l->grad.dt),
                                             VRAM_CATEGORY_TEMPORARIES, 0);
  }
  for (i = g->first; i < g->end; i++)
    vram__buffer_free(s, &d->param[i].post);
}

/* foreach_reduce: n gradients, of so many elements on this rank */
static void vram__fsdp_reduce(vram__step *s, vram__fsdp_group *g, uint32_t n, uint64_t elements,
                              uint64_t blocks) {
  vram__fsdp *d = vram__fsdp_of(s);
  const vram_dtype stored = d->param[g->first].dtype, dt = d->reduce ? d->reduce : stored;
  const uint8_t reduce = vram__fsdp_stream(d, VRAM__FSDP_REDUCE);
  const uint8_t last = vram__fsdp_last_stream(d, stored);
  const uint64_t bytes = elements * vram__dtype_size(dt);
  uint32_t i, out, grad;
  d->input = vram__buffer_new_on(s, bytes * d->shards, VRAM_CATEGORY_GRADIENTS, 0);
  vram__fsdp_chunk_cat(s, g, n, dt, blocks);
  for (i = g->end; i-- > g->first;) {
    vram__leaf *l = vram__fsdp_leaf_with_grad(s, i);
    if (l) {
      vram__tensor_release(s, l->grad);
      l->grad = vram__tensor_none();
      l->let_go = d->param[i].had = 1;
    }
  }
  grad = out = vram__buffer_new_on(s, bytes, VRAM_CATEGORY_GRADIENTS, reduce);
  if (d->shards > 1)
    vram__communicate(s, VRAM_COLLECTIVE_REDUCE_SCATTER, bytes * d->shards, d->shards);
  if (d->copies > 1)
    vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, bytes, d->copies);
  if (dt != stored) {
    grad =
        vram__buffer_new_on(s, elements * vram__dtype_size(stored), VRAM_CATEGORY_GRADIENTS, last);
    if (d->copies > 1)
      g->reduced = out;
    else
      vram__buffer_free(s, &out);
  }
  if (d->offload || g->grad) /* on the host, or added to what is there */
    vram__buffer_free(s, &grad);
  else {
    g->grad = grad;
    g->grad_bytes = elements * vram__dtype_size(stored);
  }
}

/* FSDPParam.unsharded_grad_data: gradients are laid out along tp as their parameters are. Of those
   that are parts of a sum the sum is made, of those that every rank has whole this rank's rows. */
static void vram__fsdp_lay_out(vram__step *s, const vram__fsdp_group *g) {
  uint32_t i;
  for (i = g->first; i < g->end && !s->failed; i++) {
    vram__leaf *l = vram__fsdp_leaf_with_grad(s, i);
    const vram_param *p = vram__fsdp_of(s)->param[i].p;
    vram__tensor now;
    if (!l || !(p->is_partial || vram__param_has_whole_gradient(p)))
      continue;
    now = p->is_partial ? vram__torch_all_reduce(s, l->grad, s->o->parallel->tp)
                        : vram__tensor_empty(s, vram__dims_contiguous(s, p->d), l->grad.dt);
    vram__tensor_release(s, l->grad);
    l->grad = now;
  }
}

/* FSDPParamGroup.post_backward */
VRAM__FN void vram__fsdp_post_backward_of(vram__step *s, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  uint64_t elements = 0, blocks = 0;
  uint32_t i, n = 0;
  if (g->first == g->end)
    return;
  g->training = VRAM__FSDP_POST_BACKWARD;
  if (!s->last_batch) {
    vram__fsdp_leave(s, g);
    return;
  }
  vram__fsdp_lay_out(s, g);
  vram__fsdp_reshard(s, g);
  vram__buffer_free(s, &d->input);
  for (i = g->first; i < g->end; i++) {
    const vram__fsdp_param *f = d->param + i;
    if (f->leaf == VRAM__FSDP_NONE || !s->leaf.at[f->leaf].grad.d)
      continue;
    n++;
    elements += f->padded;
    blocks += vram__fsdp_blocks(f->padded * vram__dtype_size(d->reduce ? d->reduce : f->dtype), 1);
  }
  if (!n)
    return;
  vram__buffer_free(s, &g->reduced);
  vram__fsdp_reduce(s, g, n, elements, blocks);
}

/* RegisterPostBackwardFunction.backward: the gradients of the unit's inputs are there. */
VRAM__FN void vram__fsdp_post_backward(vram__step *s, vram__grad_fn *f) {
  vram__fsdp_post_backward_of(s, (uint32_t)f->aux);
}

/* FSDPState._end_backward_iteration */
VRAM__FN void vram__fsdp_end(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup && !s->failed; k++) {
    vram__fsdp_group *g = d->group + k;
    vram__buffer_free(s, &g->reduced);
    if (!d->flat) /* under no_sync it may stay */
      vram__buffer_free(s, &g->gathered);
    g->at = g->passes = 0;
  }
  d->norder = 0;
  vram__buffer_free(s, &d->kept);
  vram__buffer_free(s, &d->input);
}

/* FSDPState._root_post_backward_final_callback */
VRAM__FN void vram__fsdp_backward_end(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  if (d->flat)
    vram__fsdp1_end(s);
  for (k = 0; k < d->ngroup && !s->failed; k++) {
    if (d->group[k].training != VRAM__FSDP_POST_BACKWARD && !d->flat)
      vram__fsdp_post_backward_of(s, k);
    d->group[k].training = VRAM__FSDP_IDLE;
  }
  vram__fsdp_end(s);
  s->dtype = d->dtype;
}

/* The same of a part: nothing is reduced yet. */
VRAM__FN void vram__fsdp_told_end(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  if (!d->called || s->failed)
    return;
  d->called = 0;
  for (k = 0; k < d->ngroup; k++) {
    if (d->group[k].training != VRAM__FSDP_POST_BACKWARD)
      vram__fsdp_post_backward_of(s, k);
    d->group[k].training = VRAM__FSDP_IDLE;
  }
  vram__fsdp_do(s, VRAM__UNIT_BACKWARD_OVER, 0);
}

VRAM__FN void vram__fsdp_unit(vram__step *s, uint32_t what, uint32_t k) {
  vram__fsdp *d = vram__fsdp_of(s);
  vram__fsdp_group *g = d->group + k;
  switch (what) {
  case VRAM__UNIT_FORWARD:
    g->training = VRAM__FSDP_FORWARD;
    vram__fsdp_unshard(s, g);
    vram__fsdp_wait(s, g);
    vram__fsdp_prefetch(s, k, 1);
    break;
  case VRAM__UNIT_FORWARD_END:
    vram__fsdp_reshard(s, g);
    if (!g->at) {
      d->order[d->norder++] = k;
      g->at = d->norder;
    }
    g->passes++;
    g->training = VRAM__FSDP_IDLE;
    break;
  case VRAM__UNIT_FORWARD_OVER:
    vram__buffer_free(s, &d->kept);
    break;
  case VRAM__UNIT_BACKWARD:
    g->training = VRAM__FSDP_PRE_BACKWARD;
    vram__fsdp_unshard(s, g);
    vram__fsdp_wait(s, g);
    vram__fsdp_prefetch_before(s, k);
    break;
  case VRAM__UNIT_PREFETCH:
    vram__fsdp_prefetch(s, k, 0);
    break;
  default: /* VRAM__UNIT_BACKWARD_OVER */
    for (k = 0; k < d->ngroup; k++)
      d->group[k].training = VRAM__FSDP_IDLE;
    vram__buffer_free(s, &d->kept);
  }
}

/* ---- the optimizer, and from step to step */

/* One parameter after the other: the storage of a group goes with the last. */
VRAM__FN void vram__fsdp_zero_grad(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  for (i = 0; i < d->nparam && !s->o->keep_grads; i++) {
    const vram__fsdp_param *f = d->param + d->optim[i];
    if (f->last)
      vram__buffer_free(s, &d->group[f->group].grad);
  }
}

/* The gradients stay to the next step. */
VRAM__FN void vram__fsdp_lasts(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup; k++)
    d->group[k].grad_block = d->group[k].grad ? vram__slot_at(s, d->group[k].grad)->block : 0;
}

VRAM__FN void vram__fsdp_optimized(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i;
  if (!vram__staged_stage(s))
    s->r->gradients_bytes = 0;
  for (i = 0; i < d->nparam; i++)
    if (d->param[i].had)
      s->r->gradients_bytes += d->param[i].local * vram__dtype_size(d->param[i].dtype);
  if (d->offload) /* CPUOffloadPolicy pins what lies on the host */
    s->r->pinned_bytes += s->r->params_bytes + s->r->gradients_bytes;
}

/* The local shards of DTensors, in the order of Module.parameters(). */
VRAM__FN uint32_t vram__fsdp_optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  const vram__fsdp *d = vram__fsdp_of(s);
  uint32_t i, n = 0;
  for (i = 0; i < d->nparam; i++) {
    const vram__fsdp_param *f = d->param + d->optim[i];
    if (f->leaf == VRAM__FSDP_NONE || d->offload)
      continue;
    if (with_grad && !s->leaf.at[f->leaf].let_go &&
        !(s->leaf.known && (s->leaf.past[f->leaf].let_go || s->leaf.past[f->leaf].had)))
      continue;
    vram__memory_zero(p + n, sizeof *p);
    p[n].numel = f->local;
    p[n].ndim = f->p->d->ndim;
    p[n].size = f->size;
    p[n].gradient = f->local;
    p[n].mesh = f->p->is_dtensor;
    p[n++].dtype = f->dtype;
  }
  return n;
}
