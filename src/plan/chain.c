/* >>plan/chain    what a chain must be
   First what a chain must be, and the replay of moves: it shares nothing else with the planners. */
#include "plan/plan.h"

VRAM_API const char *vram_move_name(uint32_t kind) {
#define VRAM__X(id, text) text,
  static const char *const name[] = {VRAM_MOVES(VRAM__X) "?"};
#undef VRAM__X
  return name[kind < VRAM_MOVE_COUNT ? kind : (uint32_t)VRAM_MOVE_COUNT];
}

VRAM_API const char *vram_planner_name(uint32_t planner) {
#define VRAM__X(id, text) text,
  static const char *const name[] = {VRAM_PLANNERS(VRAM__X) "?"};
#undef VRAM__X
  return name[planner < VRAM_PLANNER_COUNT ? planner : (uint32_t)VRAM_PLANNER_COUNT];
}

VRAM__FN uint64_t vram__larger_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
VRAM__FN uint64_t vram__smaller_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
VRAM__FN uint64_t vram__less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

VRAM__FN uint64_t vram__chain_align(const vram_chain *c, uint64_t bytes) {
  const uint64_t a = c->align ? c->align - 1 : 0;
  return bytes > (uint64_t)VRAM_MAX_BYTES - a ? VRAM_OVERFLOW : (bytes + a) & ~a;
}

/* By these names net/low has them. */
VRAM__FN vram_result vram__chain_error(vram_error *err, vram_result code, uint64_t line,
                                       const char *what) {
  return vram__error_begin(err, code, line, what);
}

VRAM__FN void vram__chain_say(vram_error *err, const char *what) { vram__error_text(err, what); }

VRAM__FN void vram__error_stage(vram_error *err, const vram_chain *c, uint32_t i) {
  vram__error_number(err, "stage ", i);
  if (c->stage[i].name) {
    vram__error_text(err, " (");
    vram__error_text(err, c->stage[i].name);
    vram__error_text(err, ")");
  }
}

VRAM__FN vram_result vram__stage_error(vram_error *err, const vram_chain *c, uint32_t i,
                                       vram_result code, const char *what) {
  vram__error_begin(err, code, (uint64_t)i + 1, "");
  vram__error_stage(err, c, i);
  vram__error_text(err, ": ");
  vram__error_text(err, what);
  return code;
}

/* "move 7, save of stage 3 (conv): what" */
VRAM__FN vram_result vram__move_error(vram_error *err, vram_result code, const vram_chain *c,
                                      const vram_move *m, uint32_t at, const char *what) {
  vram__error_begin(err, code, (uint64_t)at + 1, "");
  vram__error_number(err, "move ", at);
  vram__error_text(err, ", ");
  vram__error_text(err, vram_move_name(m->kind));
  vram__error_text(err, " of ");
  if (m->stage < c->nstage)
    vram__error_stage(err, c, m->stage);
  else
    vram__error_number(err, "", m->stage);
  vram__error_text(err, ": ");
  vram__error_text(err, what);
  return code;
}

/* What one buffer's copy to the host or back costs, or VRAM_OVERFLOW. */
VRAM__FN uint64_t vram__chain_transfer(const vram_chain *c, uint64_t bytes) {
  const uint64_t per = c->transfer_bytes ? c->transfer_bytes : 1, rest = bytes % per;
  const uint64_t part = vram__product_or_overflow(rest, c->transfer_cost);
  return part == VRAM_OVERFLOW
             ? part
             : vram__sum_or_overflow(vram__product_or_overflow(bytes / per, c->transfer_cost),
                                     part / per + (part % per != 0));
}

/* What is said of the chain itself. */
static vram_result vram__chain_check_options(const vram_chain *c, vram_error *err) {
  if (!c->nstage || !c->stage)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0,
                             "a chain without stages (found 0, expected at least 1)");
  if (c->nstage > VRAM_MAX_STAGES) {
    vram__error_begin(err, VRAM_ERR_LIMIT, 0, "a chain of too many stages");
    vram__error_number(err, " (found ", c->nstage);
    vram__error_text(err, ", expected at most 4096)");
    return VRAM_ERR_LIMIT;
  }
  if (c->align & (c->align - 1)) {
    vram__error_begin(err, VRAM_ERR_VALUE, 0, "align is no power of two");
    vram__error_number(err, " (found ", c->align);
    vram__error_text(err, ")");
    return VRAM_ERR_VALUE;
  }
  if (c->input_gradient_bytes && c->input_gradient_bytes != c->input_bytes) {
    vram__error_begin(err, VRAM_ERR_VALUE, 1, "input_gradient_bytes");
    vram__error_number(err, " (found ", c->input_gradient_bytes);
    vram__error_number(err, ", expected 0 or input_bytes, ", c->input_bytes);
    vram__error_text(err, ")");
    return VRAM_ERR_VALUE;
  }
  return VRAM_OK;
}

/* What is said of a stage, but for how large its numbers are. */
static vram_result vram__chain_check_stage(const vram_chain *c, uint32_t i, vram_error *err) {
  const vram_stage *s = c->stage + i;
  uint32_t w;
  if (!s->nway || !s->way)
    return vram__stage_error(err, c, i, VRAM_ERR_VALUE,
                             "no way to save (found 0, expected at least 1)");
  if (s->nway > UINT8_MAX)
    return vram__stage_error(err, c, i, VRAM_ERR_LIMIT,
                             "too many ways to save (expected at most 255)");
  if (i + 1 == c->nstage && s->output_bytes)
    return vram__stage_error(err, c, i, VRAM_ERR_VALUE,
                             "the last stage, the loss, has output_bytes (expected 0)");
  for (w = 0; w < s->nway; w++)
    if (s->way[w].saved_bytes < s->output_bytes) {
      vram__stage_error(err, c, i, VRAM_ERR_VALUE, "way ");
      vram__error_number(err, "", w);
      vram__error_number(err, " has saved_bytes ", s->way[w].saved_bytes);
      vram__error_number(err, " (expected at least output_bytes, ", s->output_bytes);
      vram__error_text(err, ")");
      return VRAM_ERR_VALUE;
    }
  return VRAM_OK;
}

/* The most bytes that a stage of a checked chain may add, and the highest cost. */
static void vram__chain_most(const vram_chain *c, const vram_stage *s, uint64_t *bytes,
                             uint64_t *cost) {
  uint64_t most = vram__chain_align(c, s->forward_temp_bytes);
  uint32_t w;
  *cost = s->forward_cost;
  for (w = 0; w < s->nway; w++) {
    const vram_way *y = s->way + w;
    const uint64_t temp = vram__larger_u64(vram__chain_align(c, y->forward_temp_bytes),
                                           vram__chain_align(c, y->backward_temp_bytes));
    const uint64_t saved = vram__chain_align(c, y->saved_bytes - s->output_bytes);
    most = vram__larger_u64(most, vram__sum_or_overflow(saved, temp));
    *cost = vram__larger_u64(*cost, vram__sum_or_overflow(y->forward_cost, y->backward_cost));
  }
  /* every output twice: its gradient */
  *bytes = vram__sum_or_overflow(
      most, vram__product_or_overflow(vram__chain_align(c, s->output_bytes), 2));
}

VRAM__FN vram_result vram__chain_check(const vram_chain *c, vram_error *err) {
  uint64_t bytes, cost = 0, more, dear;
  uint32_t i;
  vram_result r = vram__chain_check_options(c, err);
  if (r)
    return r;
  bytes = vram__sum_or_overflow(
      c->static_bytes, vram__sum_or_overflow(vram__chain_align(c, c->input_bytes),
                                             vram__chain_align(c, c->input_gradient_bytes)));
  for (i = 0; i < c->nstage; i++) {
    r = vram__chain_check_stage(c, i, err);
    if (r)
      return r;
    vram__chain_most(c, c->stage + i, &more, &dear);
    bytes = vram__sum_or_overflow(bytes, more);
    cost = vram__sum_or_overflow(cost, dear);
    if (bytes > (uint64_t)VRAM_MAX_BYTES)
      return vram__stage_error(err, c, i, VRAM_ERR_OVERFLOW,
                               "the bytes up to here add up to more than 2^63-1");
    if (cost > (uint64_t)VRAM_MAX_BYTES)
      return vram__stage_error(err, c, i, VRAM_ERR_OVERFLOW,
                               "the costs up to here add up to more than 2^63-1");
  }
  if (vram__chain_transfer(c, bytes - c->static_bytes) > (uint64_t)VRAM_MAX_BYTES)
    return vram__error_begin(err, VRAM_ERR_OVERFLOW, 0,
                             "transfer_cost of the chain's bytes is more than 2^63-1");
  return VRAM_OK;
}
