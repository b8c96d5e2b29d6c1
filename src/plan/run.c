/* >>plan/run    a bound schedule, run with the caller's functions */
#include "plan/plan.h"

VRAM_API uint64_t vram_chain_key(uint64_t seed, uint32_t stage) {
  return vram__mix(vram__mix(seed) + UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)stage + 1));
}

VRAM_API int vram_chain_hash(void *user, const void *data, uint64_t bytes, uint64_t *hash) {
  const char *p = (const char *)data;
  uint64_t h = vram__mix(bytes + 1), last = 0, i;
  (void)user;
  for (; bytes >= 8; bytes -= 8, p += 8)
    h = (h ^ vram__mix(vram__text_eight(p) + h)) * UINT64_C(0x9e3779b97f4a7c15);
  for (i = 0; i < bytes; i++)
    last |= (uint64_t)(uint8_t)p[i] << 8 * i;
  *hash = vram__mix(h ^ vram__mix(last + h));
  return 0;
}

typedef struct vram__exec {
  const vram_chain *c;
  const vram_binding *b;
  const vram_runner *r;
  uint8_t *arena, *host;
  uint8_t *state;          /* random states of the stages that run again, and that of now */
  uint64_t *hash;          /* of their outputs */
  uint32_t noff, nfetched; /* copies that began */
  uint32_t off, fetched;   /* copies that the functions know to be done */
  uint32_t off_by_fetch, fetched_by_off; /* that the copies of a direction know */
  uint32_t next;                         /* the first FETCH that has not begun */
  vram_error *err;
} vram__exec;

static vram_result vram__runner_fail(const vram__exec *q, uint32_t at, const char *name, int gave) {
  vram__move_error(q->err, VRAM_ERR_CALL, q->c, &q->b->move[at].move, at, name);
  vram__error_integer(q->err, " gave ", gave);
  vram__error_text(q->err, " (expected 0)");
  return VRAM_ERR_CALL;
}

static uint8_t *vram__runner_at(const vram__exec *q, uint64_t offset) {
  return offset == VRAM_NOWHERE ? NULL : q->arena + offset;
}

/* The first `offloads` copies to the host and `fetches` back are done before copy `next`, or the
   next function. */
static int vram__runner_wait(const vram__exec *q, uint32_t *off, uint32_t offloads,
                             uint32_t *fetched, uint32_t fetches, uint32_t next) {
  int gave = 0;
  if (!q->r->wait)
    return 0;
  if (offloads > *off) {
    *off = offloads;
    gave = q->r->wait(q->r->copy_user, offloads - 1, next);
  }
  if (!gave && fetches > *fetched) {
    *fetched = fetches;
    gave = q->r->wait(q->r->copy_user, q->b->noffload + fetches - 1, next);
  }
  return gave;
}

static vram_result vram__runner_copy(vram__exec *q, uint32_t at) {
  const vram_bound_move *m = q->b->move + at;
  uint8_t *device = vram__runner_at(q, vram__bind_of_saved(&m->move) ? m->saved : m->in),
          *host = q->host + m->host;
  int gave;
  if (vram__bind_is_offload(&m->move)) {
    uint32_t off = UINT32_MAX;
    if (q->fetched_by_off < q->fetched)
      q->fetched_by_off = q->fetched;
    gave = vram__runner_wait(q, &off, 0, &q->fetched_by_off, m->fetches, m->copy);
    if (gave)
      return vram__runner_fail(q, at, "wait", gave);
    if (q->r->offload)
      gave = q->r->offload(q->r->copy_user, m->copy, host, device, m->bytes);
    else
      vram__memory_copy(host, device, m->bytes);
    if (gave)
      return vram__runner_fail(q, at, "offload", gave);
    q->noff++;
    return VRAM_OK;
  }
  if (q->off_by_fetch < q->off)
    q->off_by_fetch = q->off;
  gave = vram__runner_wait(q, &q->off_by_fetch, m->offloads, &q->fetched, 0, m->copy);
  if (gave)
    return vram__runner_fail(q, at, "wait", gave);
  if (q->r->fetch)
    gave = q->r->fetch(q->r->copy_user, m->copy, device, host, m->bytes);
  else
    vram__memory_copy(device, host, m->bytes);
  if (gave)
    return vram__runner_fail(q, at, "fetch", gave);
  q->nfetched++;
  return VRAM_OK;
}

/* Every FETCH whose time has come when move `at` is done. */
static vram_result vram__runner_fetches(vram__exec *q, uint32_t at) {
  for (; q->next < q->b->nmove; q->next++) {
    const vram_bound_move *m = q->b->move + q->next;
    vram_result r;
    if (m->move.kind < VRAM_MOVE_FETCH || !m->bytes)
      continue;
    if (m->early > at)
      break;
    r = vram__runner_copy(q, q->next);
    if (r) {
      q->next++;
      return r;
    }
  }
  return VRAM_OK;
}

static vram_result vram__runner_forward(vram__exec *q, uint32_t at, const vram_call *call) {
  const vram_bound_move *m = q->b->move + at;
  const vram_runner *r = q->r;
  uint8_t *state = m->again && r->random_get ? q->state + (m->again - 1) * r->random_bytes : NULL;
  uint8_t *now = q->state + q->b->nagain * r->random_bytes;
  int gave, back;
  if (!state)
    gave = r->forward(r->user, call);
  else if (!m->run) {
    gave = r->random_get(r->user, state);
    if (gave)
      return vram__runner_fail(q, at, "random_get", gave);
    gave = r->forward(r->user, call);
  } else {
    gave = r->random_get(r->user, now);
    if (gave)
      return vram__runner_fail(q, at, "random_get", gave);
    gave = r->random_set(r->user, state);
    if (gave)
      return vram__runner_fail(q, at, "random_set", gave);
    gave = r->forward(r->user, call);
    back = r->random_set(r->user, now);
    if (!gave && back)
      return vram__runner_fail(q, at, "random_set", back);
  }
  return gave ? vram__runner_fail(q, at, "forward", gave) : VRAM_OK;
}

static vram_result vram__runner_hash(const vram__exec *q, uint32_t at, const vram_call *call) {
  const vram_bound_move *m = q->b->move + at;
  const uint64_t bytes = q->c->stage[m->move.stage].output_bytes;
  uint64_t hash = 0;
  int gave;
  if (!q->r->hash || !m->again || !bytes)
    return VRAM_OK;
  gave = q->r->hash(q->r->user, call->out, bytes, &hash);
  if (gave)
    return vram__runner_fail(q, at, "hash", gave);
  if (!m->run)
    q->hash[m->again - 1] = hash;
  else if (q->hash[m->again - 1] != hash)
    return vram__move_error(q->err, VRAM_ERR_CALL, q->c, &m->move, at,
                            "the output differs from that of the stage's first run: forward does "
                            "not compute the same twice");
  return VRAM_OK;
}

static vram_result vram__runner_call(vram__exec *q, uint32_t at) {
  const vram_bound_move *m = q->b->move + at;
  const vram_runner *r = q->r;
  vram_call call;
  vram_result result;
  int gave = vram__runner_wait(q, &q->off, m->offloads, &q->fetched, m->fetches, VRAM_NO_COPY);
  if (gave)
    return vram__runner_fail(q, at, "wait", gave);
  vram__memory_zero(&call, sizeof call);
  call.stage = m->move.stage;
  call.way = m->move.way;
  call.save = m->move.kind == VRAM_MOVE_SAVE;
  call.run = m->run;
  call.runs = m->runs;
  call.key = vram_chain_key(r->seed, call.stage);
  call.in = vram__runner_at(q, m->in);
  call.out = vram__runner_at(q, m->out);
  call.saved = vram__runner_at(q, m->saved);
  call.temp = vram__runner_at(q, m->temp);
  call.grad_out = vram__runner_at(q, m->grad_out);
  call.grad_in = vram__runner_at(q, m->grad_in);
  call.stream = r->stream;
  if (m->move.kind == VRAM_MOVE_BACKWARD) {
    gave = r->backward(r->user, &call);
    return gave ? vram__runner_fail(q, at, "backward", gave) : VRAM_OK;
  }
  result = vram__runner_forward(q, at, &call);
  return result ? result : vram__runner_hash(q, at, &call);
}

VRAM_API uint64_t vram_chain_run_bytes(const vram_binding *b, const vram_runner *r) {
  uint64_t n =
      vram__product_or_overflow((uint64_t)b->nagain + 1, r->random_get ? r->random_bytes : 0);
  return vram__sum_or_overflow(n, (uint64_t)b->nagain * sizeof(uint64_t) + 7);
}

static const char *vram__runner_bad(const vram_chain *c, const vram_binding *b,
                                    const vram_runner *r, const void *arena, const void *host) {
  if (!r->forward || !r->backward)
    return "the runner needs forward and backward";
  if (!r->random_get != !r->random_set || (r->random_get && !r->random_bytes))
    return "the runner needs random_get, random_set and random_bytes, or none of them";
  if (!r->offload != !r->fetch || !r->offload != !r->wait)
    return "the runner needs offload, fetch and wait, or none of them";
  if (b->arena_bytes && !arena)
    return "no arena";
  if ((uintptr_t)arena & (c->align - (c->align > 0)))
    return "the arena is not aligned as the chain says";
  return b->host_bytes && !host ? "no host memory for what is offloaded" : NULL;
}

VRAM_API vram_result vram_chain_run(const vram_chain *c, const vram_binding *b,
                                    const vram_runner *r, void *arena, void *host, void *work,
                                    uint64_t work_bytes, vram_error *err) {
  const char *what = vram__runner_bad(c, b, r, arena, host);
  vram_result result = VRAM_OK;
  uint8_t *p = (uint8_t *)work;
  vram__exec q;
  uint32_t i;
  vram__memory_zero(&q, sizeof q);
  vram__error_clear(err);
  if (what)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, what);
  if (!work || work_bytes < vram_chain_run_bytes(b, r))
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0,
                             "the work memory is too small (expected vram_chain_run_bytes)");
  p += (8 - ((uintptr_t)p & 7)) & 7;
  q.c = c;
  q.b = b;
  q.r = r;
  q.arena = (uint8_t *)arena;
  q.host = (uint8_t *)host;
  q.hash = (uint64_t *)(void *)p;
  q.state = p + (uint64_t)b->nagain * sizeof(uint64_t);
  q.err = err;
  for (i = 0; i < b->nmove && !result; i++) {
    const vram_bound_move *m = b->move + i;
    if (m->move.kind <= VRAM_MOVE_BACKWARD)
      result = vram__runner_call(&q, i);
    else if (vram__bind_is_offload(&m->move) && m->bytes)
      result = vram__runner_copy(&q, i);
    if (!result)
      result = vram__runner_fetches(&q, i);
    if (!result && r->progress)
      r->progress(r->user, i + 1, b->nmove);
  }
  if (result) /* what goes on must not write into memory that the caller takes back */
    (void)vram__runner_wait(&q, &q.off, q.noff, &q.fetched, q.nfetched, VRAM_NO_COPY);
  return result;
}
