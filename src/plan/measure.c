/* >>plan/measure    costs of stages by the clock */
#include "plan/plan.h"

/* The largest of what a stage has: x, what is saved beyond it, temporaries. */
typedef struct vram__largest {
  uint64_t x, saved, temp;
} vram__largest;

static void vram__largest_of(const vram_chain *c, vram__largest *l) {
  uint32_t i, k;
  l->x = vram__larger_u64(c->input_bytes, c->input_gradient_bytes);
  l->saved = l->temp = 0;
  for (i = 0; i < c->nstage; i++) {
    const vram_stage *s = c->stage + i;
    l->x = vram__larger_u64(l->x, s->output_bytes);
    l->temp = vram__larger_u64(l->temp, s->forward_temp_bytes);
    for (k = 0; k < s->nway; k++) {
      l->saved = vram__larger_u64(l->saved, s->way[k].saved_bytes - s->output_bytes);
      l->temp = vram__larger_u64(l->temp, s->way[k].forward_temp_bytes);
      l->temp = vram__larger_u64(l->temp, s->way[k].backward_temp_bytes);
    }
  }
  l->x = vram__chain_align(c, l->x);
  l->saved = vram__chain_align(c, l->saved);
  l->temp = vram__chain_align(c, l->temp);
}

VRAM_API uint64_t vram_chain_measure_bytes(const vram_chain *c) {
  uint64_t n = 8;
  uint32_t i;
  if (vram__chain_check(c, NULL))
    return VRAM_OVERFLOW;
  for (i = 0; i < c->nstage; i++)
    n += sizeof(vram_stage) + c->stage[i].nway * (uint64_t)sizeof(vram_way);
  return n;
}

VRAM_API uint64_t vram_chain_measure_arena(const vram_chain *c) {
  vram__largest l;
  if (vram__chain_check(c, NULL))
    return VRAM_OVERFLOW;
  vram__largest_of(c, &l);
  return vram__sum_or_overflow(vram__product_or_overflow(4, l.x),
                               vram__sum_or_overflow(l.saved, l.temp));
}

static vram_result vram__measure_fail(const vram_chain *c, uint32_t stage, int gave,
                                      vram_error *err) {
  vram__error_begin(err, VRAM_ERR_CALL, (uint64_t)stage + 1, "");
  vram__error_stage(err, c, stage);
  vram__error_integer(err, ": a function gave ", gave);
  return VRAM_ERR_CALL;
}

typedef struct vram__measuring {
  const vram_chain *c;
  const vram_runner *r;
  uint64_t (*now)(void *user);
  uint32_t repeat;
  vram__largest largest;
  uint8_t *arena;
} vram__measuring;

/* One function of a stage, the fastest of its rounds. Not 0: what it gave. */
static int vram__measure_call(const vram__measuring *q, const vram_call *call, int backward,
                              uint64_t *cost) {
  uint32_t round;
  *cost = UINT64_MAX;
  for (round = 0; round < q->repeat; round++) {
    const uint64_t from = q->now(q->r->user);
    const int gave = backward ? q->r->backward(q->r->user, call) : q->r->forward(q->r->user, call);
    const uint64_t took = q->now(q->r->user) - from;
    if (gave)
      return gave;
    *cost = took < *cost ? took : *cost;
  }
  return 0;
}

/* Stage i: its forward alone, then each way forward and backward. s, way: their costs are set. */
static int vram__measure_stage(const vram__measuring *q, uint32_t i, vram_stage *s, vram_way *way) {
  const uint64_t x = q->largest.x;
  const uint64_t gradient = i ? q->c->stage[i - 1].output_bytes : q->c->input_gradient_bytes;
  uint8_t *saved = q->arena + 4 * x, *temp = saved + q->largest.saved;
  vram_call call;
  uint32_t w;
  int gave;
  vram__memory_zero(&call, sizeof call);
  call.stage = i;
  call.runs = 1;
  call.key = vram_chain_key(q->r->seed, i);
  call.stream = q->r->stream;
  call.in = q->arena + (i & 1 ? x : 0);
  call.out = s->output_bytes ? q->arena + (i & 1 ? 0 : x) : NULL;
  call.temp = s->forward_temp_bytes ? temp : NULL;
  gave = vram__measure_call(q, &call, 0, &s->forward_cost);
  for (w = 0; w < s->nway && !gave; w++) {
    call.way = w;
    call.save = 1;
    call.grad_out = call.grad_in = NULL;
    call.saved = way[w].saved_bytes != s->output_bytes ? saved : NULL;
    call.temp = way[w].forward_temp_bytes ? temp : NULL;
    gave = vram__measure_call(q, &call, 0, &way[w].forward_cost);
    if (gave)
      break;
    call.save = 0;
    call.grad_out = s->output_bytes ? q->arena + 2 * x : NULL;
    call.grad_in = gradient ? q->arena + 3 * x : NULL;
    call.temp = way[w].backward_temp_bytes ? temp : NULL;
    gave = vram__measure_call(q, &call, 1, &way[w].backward_cost);
  }
  return gave;
}

VRAM_API vram_result vram_chain_measure(const vram_chain *c, const vram_runner *r,
                                        uint64_t (*now)(void *user), uint32_t repeat, void *arena,
                                        void *scratch, uint64_t scratch_bytes, vram_chain *to,
                                        vram_error *err) {
  vram_stage *stage;
  vram_way *way;
  vram__measuring q;
  const vram_result result = vram__chain_check(c, err);
  uint8_t *p = (uint8_t *)scratch;
  uint32_t i;
  vram__memory_zero(to, sizeof *to);
  if (result)
    return result;
  if (!r->forward || !r->backward || !now || !arena)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0,
                             "forward, backward, a clock and an arena are needed");
  if ((uintptr_t)arena & (c->align - (c->align > 0)))
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "the arena is not aligned as the chain says");
  if (!scratch || scratch_bytes < vram_chain_measure_bytes(c))
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0, vram_result_text(VRAM_ERR_MEMORY));
  p += (8 - ((uintptr_t)p & 7)) & 7;
  stage = (vram_stage *)(void *)p;
  way = (vram_way *)(void *)(p + c->nstage * (uint64_t)sizeof *stage);
  q.c = c;
  q.r = r;
  q.now = now;
  q.repeat = repeat ? repeat : 5;
  q.arena = (uint8_t *)arena;
  vram__largest_of(c, &q.largest);
  for (i = 0; i < c->nstage; i++) {
    vram_stage *s = stage + i;
    int gave;
    *s = c->stage[i];
    vram__memory_copy(way, s->way, s->nway * (uint64_t)sizeof *way);
    s->way = way;
    gave = vram__measure_stage(&q, i, s, way);
    if (gave)
      return vram__measure_fail(c, i, gave, err);
    way += s->nway;
  }
  *to = *c;
  to->stage = stage;
  return vram__chain_check(to, err);
}
