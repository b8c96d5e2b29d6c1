/* >>step/distribute    weights become a rank's part (torch/distributed/tensor, distribute_tensor)
 */
#include "step/step.h"

/* How a weight is dealt along an axis. */
typedef struct vram__dealt {
  int64_t whole, ranks;
  uint64_t rest;  /* elements of one position along the axis */
  uint8_t copies; /* parts are copied: the axis is not the first */
} vram__dealt;

/* 0: every rank has all of it. */
static int vram__distribute_dealt(const vram_param *p, vram__dealt *d) {
  const vram_node *n = p->node;
  const int64_t how = VRAM__INT(n, parallel, 0);
  const int64_t rows = p->d->ndim ? p->d->v[0] : 0;
  vram__memory_zero(d, sizeof *d);
  d->ranks = VRAM__INT(n, ranks, 1);
  if (!p->is_dtensor || p->is_partial || !rows || d->ranks < 2)
    return 0;
  if (how == VRAM__WORD(rowwise) || n->op == VRAM_OP_embedding) { /* the second axis */
    d->copies = 1;
    d->whole = p->d->ndim == 2 ? p->d->v[1] * d->ranks : 0;
    d->rest = (uint64_t)rows;
    return p->d->ndim == 2;
  }
  d->whole = VRAM__INT(n, whole, rows * d->ranks);
  d->rest = p->d->numel / (uint64_t)rows;
  return 1;
}

/* Has every rank all of this DTensor (Replicate)? */
VRAM__FN int vram__param_is_replicated(const vram_param *p) {
  vram__dealt d;
  return p->is_dtensor && !vram__distribute_dealt(p, &d);
}

/* The parameter that this one was before one of both was dealt; NULL: none. */
static const vram_param *vram__distribute_lender(const vram_param *p) {
  const int64_t *of = vram__node_list(p->node, VRAM__KEY_tied, NULL);
  const vram_node *n = of ? (const vram_node *)(uintptr_t)*of : NULL;
  return n && n->nparam && p == p->node->param[0] ? n->param[0] : NULL;
}

/* The weight before it was dealt. */
VRAM__FN uint64_t vram__distribute_whole(const vram_param *p, vram_dtype dt) {
  vram__dealt d;
  if (vram__distribute_lender(p))
    return 0;
  return vram__distribute_dealt(p, &d) ? (uint64_t)d.whole * d.rest * vram__dtype_size(dt)
                                       : vram__param_bytes(p, dt);
}

/* The model is on the device as a whole. */
VRAM__FN void vram__distribute_before(vram__step *s) {
  const vram_param *p;
  for (p = s->g->param_first; p; p = p->next) {
    const vram_dtype dt = vram__param_dtype(s, p);
    if (p->is_value)
      continue;
    vram__bytes_shrink(s, vram__param_bytes(p, dt), VRAM_CATEGORY_PARAMS);
    vram__bytes_grow(s, vram__distribute_whole(p, dt), VRAM_CATEGORY_PARAMS);
  }
}

/* Temporary copies of parts: all where the axis is not the first, else those that are padded. How
   many. */
static uint32_t vram__distribute_copies(vram__step *s, const vram__dealt *d, vram_dtype dt,
                                        uint32_t *last) {
  const int64_t each = (d->whole + d->ranks - 1) / d->ranks;
  uint32_t count = 0, i;
  int64_t from = 0;
  for (i = 0; i < (uint32_t)d->ranks; i++, from += each)
    if (d->copies || from + each > d->whole) {
      last[0] = vram__cub_hold(s, (uint64_t)each * d->rest * vram__dtype_size(dt));
      last++;
      count++;
      if (count == 64) /* more ranks: their copies lie side by side, too */
        break;
    }
  return count;
}

/* One parameter of a module: the copies of its parts, this rank's part. */
static void vram__distribute_param(vram__step *s, const vram_param *p, uint32_t *block) {
  const vram_dtype dt = vram__param_dtype(s, p);
  const uint64_t part = vram__param_bytes(p, dt);
  vram__dealt d;
  uint32_t copy[64], count;
  if (!vram__distribute_dealt(p, &d))
    return;
  count = vram__distribute_copies(s, &d, dt, copy);
  vram__bytes_grow(s, part, VRAM_CATEGORY_PARAMS);
  if (s->replay && !s->replay->taping)
    *block = vram__replay_get(s, part, 0);
  while (count)
    vram__cub_release(s, copy[--count]);
}

/* Another module still has it. */
static int vram__distribute_is_lent(const vram_param *first_lent, const vram_param *p) {
  while (first_lent && vram__distribute_lender(first_lent) != p)
    first_lent = first_lent->next;
  return first_lent != NULL;
}

static void vram__distribute_node(vram__step *s, const vram_node *n, const vram_param *first_lent) {
  uint32_t block[8] = {0, 0, 0, 0, 0, 0, 0, 0}; /* of parts, in the pool of the replay */
  vram__dealt d;
  uint32_t i;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n)
      vram__distribute_param(s, n->param[i], block + i % 8);
  for (i = 0; i < n->nparam; i++) {
    const vram_param *p = n->param[i];
    if (!p || p->node != n || !vram__distribute_dealt(p, &d) ||
        vram__distribute_is_lent(first_lent, p))
      continue;
    if (vram__distribute_lender(p))
      p = vram__distribute_lender(p);
    if (!p->is_dtensor) /* a module that is not cut keeps it */
      continue;
    vram__bytes_shrink(s, vram__distribute_whole(p, vram__param_dtype(s, p)), VRAM_CATEGORY_PARAMS);
    if (s->replay && !s->replay->taping) {
      vram__replay_put(s->replay, s->replay->gradient[p->index]);
      s->replay->gradient[p->index] = p->node == n ? block[i % 8] : 0;
    }
  }
}

/* Its name has no number, as those of layers have. */
static int vram__distribute_is_root(const vram_node *n) {
  const vram__span label = vram__node_label(n);
  uint32_t i = 0, digits;
  if (n->round)
    return 0;
  while (i < label.len) {
    for (digits = 0; i < label.len && label.text[i] != '.'; i++)
      digits =
          label.text[i] >= '0' && label.text[i] <= '9' && digits < UINT32_MAX ? digits : UINT32_MAX;
    if (digits == 0 && i && label.text[i - 1] != '.')
      return 0;
    i++;
  }
  return 1;
}

/* parallelize_module(): the plan of the root first, then those of the layers; of a pipeline one
   stage after the other. */
VRAM__FN void vram__distribute(vram__step *s) {
  const vram_param *p, *first, *first_lent = s->g->param_first;
  uint32_t pass, i;
  while (first_lent && !vram__distribute_lender(first_lent))
    first_lent = first_lent->next;
  for (pass = 0; pass < 2 * vram__pipe_local_stages(s); pass++)
    for (p = s->g->param_first; p && !s->failed; p = p->next) {
      if (vram__pipe_local_of(s, p) != pass / 2)
        continue;
      first = NULL;
      for (i = 0; i < p->node->nparam && !first; i++)
        if (p->node->param[i] && p->node->param[i]->node == p->node)
          first = p->node->param[i];
      if (p == first && p->is_dtensor && vram__distribute_is_root(p->node) == (pass % 2 == 0))
        vram__distribute_node(s, p->node, first_lent);
    }
}
