/* >>plan/verify    moves played without the planners' help */
#include "plan/plan.h"

enum { VRAM__GONE, VRAM__DEVICE, VRAM__HOST };

typedef struct vram__moves_replay {
  const vram_chain *c;
  uint8_t *x, *saved; /* where they are: xi, what stage i saved */
  uint8_t *way, *ran;
  uint64_t device, host;
  uint32_t back; /* stages before this have not run backward */
  vram_schedule_count count;
} vram__moves_replay;

/* What a move takes: bytes of the device while it runs, its cost, and which part of that a plan
   without a budget does not have. */
typedef struct vram__move_cost {
  uint64_t most, cost, again;
} vram__move_cost;

VRAM_API uint64_t vram_schedule_verify_bytes(const vram_chain *c) {
  return ((uint64_t)c->nstage + 1) * 4;
}

VRAM__FN uint64_t vram__x_bytes(const vram_chain *c, uint32_t i) {
  return vram__chain_align(c, i ? c->stage[i - 1].output_bytes : c->input_bytes);
}

VRAM__FN uint64_t vram__saved_bytes(const vram_chain *c, uint32_t i, uint32_t way) {
  return vram__chain_align(c, c->stage[i].way[way].saved_bytes - c->stage[i].output_bytes);
}

VRAM__FN uint64_t vram__gradient_bytes(const vram_chain *c, uint32_t i) {
  return i ? vram__x_bytes(c, i) : vram__chain_align(c, c->input_gradient_bytes);
}

/* xi goes, unless stage i - 1 saved it. */
static void vram__replay_drop(vram__moves_replay *r, uint32_t i) {
  if (!i || !r->saved[i - 1]) {
    r->x[i] = VRAM__GONE;
    r->device -= vram__x_bytes(r->c, i);
  }
}

static const char *vram__replay_lacks(const vram__moves_replay *r, const vram_move *m) {
  static const char *const input[] = {"its input is not there", "", "its input is on the host"};
  static const char *const saved[] = {"what it saves is not there", "",
                                      "what it saved is on the host"};
  const uint32_t i = m->stage;
  switch (m->kind) {
  case VRAM_MOVE_DROP:
  case VRAM_MOVE_CHECKPOINT:
  case VRAM_MOVE_SAVE:
    if (i >= r->back)
      return "it has run backward already";
    if (r->x[i] != VRAM__DEVICE)
      return input[r->x[i]];
    if (r->x[i + 1])
      return "its output is there already";
    return m->kind == VRAM_MOVE_SAVE && m->way >= r->c->stage[i].nway ? "it has no such way" : NULL;
  case VRAM_MOVE_BACKWARD:
    if (i + 1 != r->back)
      return i < r->back ? "the gradient of its output is not there" : "it has run already";
    if (r->x[i] != VRAM__DEVICE)
      return input[r->x[i]];
    if (r->saved[i] != VRAM__DEVICE)
      return saved[r->saved[i]];
    return r->x[i + 1] != VRAM__DEVICE ? "its output is on the host" : NULL;
  case VRAM_MOVE_OFFLOAD:
    return r->x[i] != VRAM__DEVICE ? input[r->x[i]] : NULL;
  case VRAM_MOVE_OFFLOAD_SAVED:
    return r->saved[i] != VRAM__DEVICE ? saved[r->saved[i]] : NULL;
  case VRAM_MOVE_FETCH:
    return r->x[i] != VRAM__HOST ? "its input is not on the host" : NULL;
  case VRAM_MOVE_FETCH_SAVED:
    return r->saved[i] != VRAM__HOST ? "what it saved is not on the host" : NULL;
  default:
    return "no such move";
  }
}

/* The input is on the device, nothing has run. */
static void vram__replay_begin(vram__moves_replay *r, const vram_chain *c, void *scratch) {
  const uint32_t n = c->nstage + 1;
  vram__memory_zero(r, sizeof *r);
  vram__memory_zero(scratch, vram_schedule_verify_bytes(c));
  r->c = c;
  r->x = (uint8_t *)scratch;
  r->saved = r->x + n;
  r->way = r->saved + n;
  r->ran = r->way + n;
  r->back = c->nstage;
  r->x[0] = VRAM__DEVICE;
  r->device = c->static_bytes + vram__x_bytes(c, 0);
  r->count.peak_bytes = r->device;
}

static vram__move_cost vram__replay_forward(vram__moves_replay *r, const vram_move *m) {
  const uint32_t i = m->stage;
  const vram_stage *s = r->c->stage + i;
  vram__move_cost took;
  r->device += vram__x_bytes(r->c, i + 1);
  took.most = r->device + vram__chain_align(r->c, s->forward_temp_bytes);
  took.cost = s->forward_cost;
  if (m->kind == VRAM_MOVE_SAVE) {
    r->device += vram__saved_bytes(r->c, i, m->way);
    took.most = r->device + vram__chain_align(r->c, s->way[m->way].forward_temp_bytes);
    took.cost = s->way[m->way].forward_cost;
    r->saved[i] = VRAM__DEVICE;
    r->way[i] = m->way;
  }
  took.again = r->ran[i] ? took.cost : 0;
  r->ran[i] = 1;
  r->x[i + 1] = VRAM__DEVICE;
  r->count.forwards++;
  if (m->kind == VRAM_MOVE_DROP)
    vram__replay_drop(r, i);
  return took;
}

static vram__move_cost vram__replay_backward(vram__moves_replay *r, uint32_t i) {
  const vram_way *w = r->c->stage[i].way + r->way[i];
  vram__move_cost took;
  r->device += vram__gradient_bytes(r->c, i);
  took.most = r->device + vram__chain_align(r->c, w->backward_temp_bytes);
  took.cost = w->backward_cost;
  took.again = 0;
  /* with its output goes the gradient of that */
  r->device -= 2 * vram__x_bytes(r->c, i + 1) + vram__saved_bytes(r->c, i, r->way[i]);
  r->saved[i] = r->x[i + 1] = VRAM__GONE;
  vram__replay_drop(r, i);
  r->back = i;
  return took;
}

/* To the host or back. */
static vram__move_cost vram__replay_copy(vram__moves_replay *r, const vram_move *m) {
  const uint32_t i = m->stage;
  const int saved = m->kind == VRAM_MOVE_OFFLOAD_SAVED || m->kind == VRAM_MOVE_FETCH_SAVED;
  const int out = m->kind == VRAM_MOVE_OFFLOAD || m->kind == VRAM_MOVE_OFFLOAD_SAVED;
  const uint64_t bytes = saved ? vram__saved_bytes(r->c, i, r->way[i]) : vram__x_bytes(r->c, i);
  vram__move_cost took;
  (saved ? r->saved : r->x)[i] = out ? VRAM__HOST : VRAM__DEVICE;
  r->device += out ? 0 - bytes : bytes;
  r->host += out ? bytes : 0 - bytes;
  r->count.host_bytes = vram__larger_u64(r->count.host_bytes, r->host);
  took.most = r->device;
  took.cost = took.again = vram__chain_transfer(r->c, bytes);
  return took;
}

VRAM_API vram_result vram_schedule_verify(const vram_chain *c, const vram_move *move,
                                          uint32_t nmove, void *scratch, uint64_t scratch_bytes,
                                          vram_schedule_count *count, vram_error *err) {
  vram__moves_replay r;
  uint32_t k;
  const vram_result bad = vram__chain_check(c, err);
  vram__memory_zero(count, sizeof *count);
  if (bad)
    return bad;
  if (!scratch || scratch_bytes < vram_schedule_verify_bytes(c))
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0,
                             "the scratch is too small (expected vram_schedule_verify_bytes)");
  vram__replay_begin(&r, c, scratch);
  for (k = 0; k < nmove; k++) {
    const vram_move *m = move + k;
    const char *lacks = m->stage < c->nstage ? vram__replay_lacks(&r, m) : "no such stage";
    vram__move_cost took;
    if (lacks)
      return vram__move_error(err, VRAM_ERR_VALUE, c, m, k, lacks);
    took = m->kind <= VRAM_MOVE_SAVE       ? vram__replay_forward(&r, m)
           : m->kind == VRAM_MOVE_BACKWARD ? vram__replay_backward(&r, m->stage)
                                           : vram__replay_copy(&r, m);
    if (took.most > r.count.peak_bytes) {
      r.count.peak_bytes = took.most;
      r.count.peak_move = k;
    }
    r.count.cost += took.cost;
    r.count.recomputed_cost += took.again;
    if (r.count.cost > (uint64_t)VRAM_MAX_BYTES)
      return vram__stage_error(err, c, m->stage, VRAM_ERR_OVERFLOW,
                               "the costs of the moves up to here add up to more than 2^63-1");
  }
  if (r.back)
    return vram__stage_error(err, c, r.back - 1, VRAM_ERR_VALUE,
                             "the moves end before it has run backward");
  vram__error_clear(err);
  *count = r.count;
  return VRAM_OK;
}
