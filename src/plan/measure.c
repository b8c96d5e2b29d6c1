/* >>plan/measure    costs of stages by the clock */
#include "plan/plan.h"

/* The largest of what a stage has: x, what is saved beyond it, temporaries. */
typedef struct vram__largest {
  uint64_t x, saved, temp;
} vram__largest;

static void vram__largest_of(const vram_chain *c, vram__largest *l) {
  uint32_t i, k;
  l->x = vram__larger_u64(c->input_bytes, c->input_gradient_bytes), l->saved = l->temp = 0;
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

VRAM_API vram_result vram_chain_measure(const vram_chain *c, const vram_runner *r,
                                        uint64_t (*now)(void *user), uint32_t repeat, void *arena,
                                        void *scratch, uint64_t scratch_bytes, vram_chain *to,
                                        vram_error *err) {
  vram_stage *stage;
  vram_way *way;
  vram__largest l;
  vram_call call;
  vram_result result = vram__chain_check(c, err);
  uint8_t *p = (uint8_t *)scratch, *at = (uint8_t *)arena;
  uint32_t i, k, round;
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
  vram__largest_of(c, &l);
  for (i = 0; i < c->nstage; i++) {
    vram_stage *s = stage + i;
    uint64_t *cost = &s->forward_cost;
    *s = c->stage[i];
    vram__memory_copy(way, s->way, s->nway * (uint64_t)sizeof *way);
    s->way = way;
    vram__memory_zero(&call, sizeof call);
    call.stage = i;
    call.runs = 1;
    call.key = vram_chain_key(r->seed, i);
    call.stream = r->stream;
    call.in = at + (i & 1 ? l.x : 0);
    call.out = s->output_bytes ? at + (i & 1 ? 0 : l.x) : NULL;
    for (k = 0; k < 1 + 2 * s->nway; k++) { /* alone, then each way forward and backward */
      const uint32_t which = k ? (k - 1) / 2 : 0;
      const int backward = k && k % 2 == 0;
      const uint64_t saved = k ? s->way[which].saved_bytes - s->output_bytes : 0;
      const uint64_t temp = !k         ? s->forward_temp_bytes
                            : backward ? s->way[which].backward_temp_bytes
                                       : s->way[which].forward_temp_bytes;
      const uint64_t gradient = i ? stage[i - 1].output_bytes : c->input_gradient_bytes;
      if (k)
        cost = backward ? &way[which].backward_cost : &way[which].forward_cost;
      *cost = UINT64_MAX;
      call.way = which;
      call.save = k && !backward;
      call.grad_out = backward && s->output_bytes ? at + 2 * l.x : NULL;
      call.grad_in = backward && gradient ? at + 3 * l.x : NULL;
      call.saved = saved ? at + 4 * l.x : NULL;
      call.temp = temp ? at + 4 * l.x + l.saved : NULL;
      for (round = 0; round < (repeat ? repeat : 5); round++) {
        const uint64_t from = now(r->user);
        const int gave = backward ? r->backward(r->user, &call) : r->forward(r->user, &call);
        const uint64_t took = now(r->user) - from;
        if (gave)
          return vram__measure_fail(c, i, gave, err);
        if (took < *cost)
          *cost = took;
      }
    }
    way += s->nway;
  }
  *to = *c;
  to->stage = stage;
  return vram__chain_check(to, err);
}
