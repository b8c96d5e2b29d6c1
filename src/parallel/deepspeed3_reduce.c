/* >>parallel/deepspeed3_reduce    ZeRO stage 3: gradients, and the optimizer's step
   (deepspeed/runtime/zero/stage3.py, runtime/comm/coalesced_collectives.py) */
#include "parallel/deepspeed3.h"

static uint32_t vram__ds3_each(const vram__ds3 *d) { return vram__dtype_size(d->ds.dtype); }

static uint32_t vram__ds3_new_gradient(vram__step *s, uint64_t bytes) {
  return vram__buffer_new(s, bytes, VRAM_CATEGORY_GRADIENTS);
}

/* .grad = None of what the reduction's stream has used */
static void vram__ds3_let_go(vram__step *s, vram__ds_param *f) {
  vram__ds *d = vram__ds_of(s);
  const uint32_t st = s->leaf.at[f->leaf].grad.st;
  if (d->overlap && st)
    vram__undone_add(s, st);
  vram__ds_let_go(s, f);
}

/* ---- reduce_scatter_coalesced */

/* Elements that ranks' parts of a gradient lack. */
static uint64_t vram__ds3_lacking(const vram__ds3 *d, uint32_t k) {
  return d->at[k].part * d->ds.ranks - d->ds.param[k].numel;
}

/* What fills them up: a tensor for each rank and gradient, as many as there is room for; then one
   for all others. How many. */
static uint32_t vram__ds3_pads(vram__step *s, uint32_t *slot, uint32_t room) {
  vram__ds3 *d = vram__ds3_of(s);
  uint64_t rest = 0;
  uint32_t i, n = 0;
  for (i = 0; i < d->ds.nmember; i++) {
    const uint32_t k = d->ds.member[i];
    uint64_t lacking = vram__ds3_lacking(d, k);
    for (; lacking && n + 1 < room; n++) {
      const uint64_t one = (lacking % d->at[k].part) != 0 ? lacking % d->at[k].part : d->at[k].part;
      slot[n] = vram__ds3_new_gradient(s, one * vram__ds3_each(d));
      lacking -= one;
    }
    rest += lacking;
  }
  if (rest)
    slot[n++] = vram__ds3_new_gradient(s, rest * vram__ds3_each(d));
  return n;
}

/* The parts of all gradients in one tensor, ordered by ranks; 0: a single gradient lies so. */
static uint32_t vram__ds3_interleave(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  uint64_t part = 0;
  uint32_t i, n, flat;
  for (i = 0; i < d->ds.nmember; i++)
    part += d->at[d->ds.member[i]].part;
  vram__communicate(s, VRAM_COLLECTIVE_REDUCE_SCATTER, part * d->ds.ranks * vram__ds3_each(d),
                    d->ds.ranks);
  if (d->ds.nmember == 1 && !vram__ds3_lacking(d, d->ds.member[0]))
    return 0;
  n = vram__ds3_pads(s, d->list, d->ds.nparam);
  flat = vram__ds3_new_gradient(s, part * d->ds.ranks * vram__ds3_each(d));
  while (n)
    vram__buffer_free(s, d->list + --n);
  return flat;
}

/* __avg_scatter_contiguous_grads: all_reduce of the bucket, a copy that is scaled by 1, and copies
   of parts that end before they are full. How many of these. */
static uint32_t vram__ds3_all_reduce(vram__step *s, uint32_t *flat) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t i, n = 0;
  *flat = vram__ds3_new_gradient(s, d->ds.elements * vram__ds3_each(d));
  for (i = 0; i < d->ds.nmember; i++) {
    const vram__ds3_param *p = d->at + d->ds.member[i];
    if (p->real < p->part)
      d->list[n++] = vram__ds3_new_gradient(s, p->part * vram__ds3_each(d));
  }
  return n;
}

/* _offload_grad_partition_at_boundary, and the gradient's way to the host. */
static void vram__ds3_offload_gradient(vram__step *s, uint32_t k) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint64_t real = d->at[k].real;
  vram__ds_scalars x;
  uint32_t mine = vram__ds3_new_gradient(s, real * vram__ds3_each(d));
  vram__memory_zero(&x, sizeof x);
  if (s->last_batch) {
    x.slot[0] = vram__ds_norm(s, real);
    vram__ds_say(s, &x, "b8 -a c8 -b");
    d->ds.norms[k] = x.slot['c' - 'a'];
    if (d->ds.dtype != VRAM_F32)
      vram__buffer_briefly(s, 4 * real);
  }
  vram__buffer_free(s, &mine);
}

/* ---- __reduce_and_partition_ipg_grads */

VRAM__FN void vram__ds3_reduce(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const vram_parallel *o = s->o->parallel;
  const uint8_t stream = s->stream;
  uint32_t i, n = 0, flat = 0;
  if (!d->ds.nmember)
    return;
  s->stream = d->ds.overlap ? 3 : 0;
  if (d->ds.contiguous && d->ds.elements <= o->reduce_bucket_size && !d->ds.scatter)
    n = vram__ds3_all_reduce(s, &flat);
  else
    flat = vram__ds3_interleave(s);
  for (i = 0; i < d->ds.nmember; i++) {
    const uint32_t k = d->ds.member[i];
    if (d->ds.offload && d->at[k].real)
      vram__ds3_offload_gradient(s, k);
    vram__ds3_let_go(s, d->ds.param + k);
  }
  while (n)
    vram__buffer_free(s, d->list + --n);
  vram__buffer_free(s, &flat);
  s->stream = stream;
  d->ds.nmember = 0;
  d->ds.elements = 0;
}

/* reduce_independent_p_g_buckets_and_remove_grads: the hook behind an accumulated gradient. */
VRAM__FN void vram__ds3_accumulated(vram__step *s, vram__leaf *l) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint64_t most = s->o->parallel->reduce_bucket_size;
  const uint32_t k = d->ds.by_leaf[l - s->leaf.at];
  vram__ds_param *f = d->ds.param + k;
  if (!l->grad.d)
    return;
  if (d->ds.elements + f->numel > most && d->ds.elements)
    vram__ds3_reduce(s);
  if (d->ds.contiguous && d->ds.elements + f->numel <= most)
    vram__ds3_let_go(s, f); /* it lies in the bucket from here on */
  d->ds.elements += f->numel;
  d->ds.member[d->ds.nmember++] = k;
}

/* ---- the optimizer's step */

/* get_grad_norm_direct of one group; its norm, of 8 bytes, stays. */
static uint32_t vram__ds3_group_norm(vram__step *s, vram__ds_scalars *x, uint32_t group) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t k, n = 0;
  for (k = 0; k < d->ds.nparam; k++)
    if (d->ds.param[k].leaf != VRAM__DS_NONE && d->at[k].group == group)
      d->ds.norms[n++] = vram__ds_norm(s, d->at[k].part);
  vram__ds_squares(s, x, n);
  vram__ds_say(s, x, "d8 a8 g1 -a h1 i1 j4 b8 e8 -b -d-c");
  while (n)
    vram__buffer_free(s, d->ds.norms + --n);
  vram__ds_say(s, x, "-g-h-i-j");
  k = x->slot['e' - 'a'];
  x->slot['e' - 'a'] = 0;
  return k;
}

/* _get_norm_groups, combine_grad_norm_groups, is_invalid_grad_norm */
static void vram__ds3_norms(vram__step *s, vram__ds_scalars *x) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t i;
  for (i = 0; i < d->ngroup; i++)
    d->list[i] = vram__ds3_group_norm(s, x, i);
  x->norm = 8 * (uint64_t)d->ngroup;
  vram__ds_say(s, x, "an bn");
  vram__ds_say(s, x, "c1 d1 f1 -d-c-b g1 -f h1 i1 -g-h j1 -i k8 l8 m8 -l-a-j-k");
  x->norm = 8;
  vram__ds_invalid(s, x);
}

/* _prepare_fp32_grad_for_sub_group, unscale_and_clip_grads, _optimizer_step */
static void vram__ds3_group_step(vram__step *s, vram__ds_scalars *x, uint32_t group) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint64_t part = (uint64_t)d->group_part[group];
  const int all = vram__ds3_each(d) == 4;
  uint32_t k, n = 0, flat = 0, single;
  for (k = 0; k < d->ds.nparam; k++)
    n += d->ds.param[k].leaf != VRAM__DS_NONE && d->at[k].group == group;
  if (n > 1)
    flat = vram__ds3_new_gradient(s, part * vram__ds3_each(d));
  single = all ? flat : vram__ds3_new_gradient(s, part * 4);
  if (!all)
    vram__buffer_free(s, &flat);
  vram__ds_say(s, x, "an bn -a cn -b dn -c fn gn hn -g-h-f-d");
  s->optim[0].numel = part;
  s->optim[0].ndim = 1;
  s->optim[0].size = d->group_part + group;
  s->optim[0].dtype = VRAM_F32;
  s->optim[0].rank = 0;
  vram__optim_step_now(s, 1, 0);
  vram__buffer_free(s, &single);
}

/* complete_grad_norm_calculation_for_cpu_offload: what there is of it on the device. */
static void vram__ds3_norm_of_host(vram__step *s, vram__ds_scalars *x) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t k, first = 1;
  for (k = 0; k < d->ds.nparam; k++)
    if (d->ds.norms[k]) {
      vram__ds_say(s, x, first ? "a8 b8 -a" : "a8 -a");
      first = 0;
    }
  vram__ds_say(s, x, "c4 d4 -b a4 g1 -a h1 i1 j4 -g-h-i-j -d-c");
  for (k = 0; k < d->ds.nparam; k++)
    vram__buffer_free(s, d->ds.norms + k);
}

/* _allgather_params_coalesced of parameters that persist, not on a stream of its own: shards that
   are on the host come first, all of them */
VRAM__FN void vram__ds3_gather_persistent(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const int uploads = s->o->parallel->offload_param && d->ds.ranks > 1;
  uint32_t k;
  for (k = 0; k < d->ds.nparam && uploads; k++)
    d->ds.norms[k] = d->at[k].persists ? vram__buffer_new(s, d->at[k].part * vram__ds3_each(d),
                                                          VRAM_CATEGORY_PARAMS)
                                       : 0;
  for (k = 0; k < d->ds.nparam; k++) {
    vram__ds3_param *p = d->at + k;
    if (!p->persists)
      continue;
    if (d->ds.ranks > 1) {
      p->whole =
          vram__buffer_new(s, p->part * d->ds.ranks * vram__ds3_each(d), VRAM_CATEGORY_PARAMS);
      vram__communicate(s, VRAM_COLLECTIVE_ALL_GATHER, p->part * d->ds.ranks * vram__ds3_each(d),
                        d->ds.ranks);
    }
    p->available = 1;
    p->stream = 0;
  }
  for (k = 0; k < d->ds.nparam && uploads; k++)
    vram__buffer_free(s, d->ds.norms + k);
}

/* has_overflow, with fp16: isinf(), which is abs() == inf, and isnan() of all gradients */
static void vram__ds3_check_overflow(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const uint64_t part = d->ds.offload ? 0 : d->groups_part;
  const uint8_t stream = s->stream;
  vram__ds_scalars x;
  uint32_t i, whole, is;
  vram__memory_zero(&x, sizeof x);
  if (d->ds.dtype != VRAM_F16)
    return;
  s->stream = d->ds.overlap ? 3 : 0;
  for (i = 0; i < 2 && part; i++) {
    whole = i ? 0 : vram__buffer_new(s, part * 2, VRAM_CATEGORY_TEMPORARIES);
    is = vram__buffer_new(s, part, VRAM_CATEGORY_TEMPORARIES);
    vram__buffer_free(s, &whole);
    vram__ds_say(s, &x, "a1");
    vram__reduction_briefly(s, part, VRAM_BOOL, 1);
    vram__buffer_free(s, &is);
    vram__ds_say(s, &x, "-a");
  }
  vram__ds_say(s, &x, "b1 c1 -b");
  s->stream = stream;
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, 1, d->ds.ranks);
  vram__ds_say(s, &x, "-c");
}

/* DeepSpeedZeroOptimizer_Stage3.step */
VRAM__FN void vram__ds3_optimize(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  vram__ds_scalars x;
  uint32_t k, before = d->ds.norm.slot;
  vram__memory_zero(&x, sizeof x);
  x.norm = 8;
  s->r->gradients_bytes = d->ds.offload ? 0 : d->groups_part * vram__ds3_each(d);
  for (k = 0; k < d->ds.nparam; k++) { /* _partition_all_parameters */
    d->at[k].active = 0;
    vram__ds3_release(s, k);
  }
  vram__ds3_check_overflow(s);
  if (d->ds.offload) {
    vram__ds3_norm_of_host(s, &x);
    vram__ds3_gather_persistent(s);
    return;
  }
  vram__ds3_norms(s, &x);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, 8, d->ds.ranks);
  d->ds.norm.bytes = 8;
  d->ds.norm.slot = vram__buffer_new(s, 8, VRAM_CATEGORY_OTHER);
  for (k = 0; k < d->ngroup && !s->failed; k++)
    vram__ds3_group_step(s, &x, k);
  s->cat = VRAM_CATEGORY_TEMPORARIES;
  vram__ds3_gather_persistent(s);
  vram__ds_say(s, &x, "-m");
  for (k = 0; k < d->ngroup; k++)
    vram__buffer_free(s, d->list + k);
  vram__buffer_free(s, &before);
  s->r->optimizer_bytes += d->groups_part * 4;
}
