/* >>plan/spans    a schedule as nested calls of checkpoint() */
#include "plan/plan.h"

/* Which span of `count`, the largest one inside `in` (count: the chain), begins or ends at i. */
static uint32_t vram__span_at(const vram_span *list, uint32_t count, uint32_t in, uint32_t i,
                              int ends) {
  uint32_t k, best = count;
  for (k = in == count ? 0 : in + 1; k < count; k++)
    if ((ends ? list[k].last : list[k].first) == i &&
        (in == count || (list[k].first >= list[in].first && list[k].last <= list[in].last)) &&
        (best == count || list[k].last - list[k].first > list[best].last - list[best].first))
      best = k;
  return best;
}

/* The span around another one; count: the chain. */
static uint32_t vram__span_up(const vram_span *list, uint32_t count, uint32_t of) {
  uint32_t k;
  for (k = of; k-- > 0;)
    if (list[k].first <= list[of].first && list[k].last >= list[of].last)
      return k;
  return count;
}

/* The next move of calls that nest: every span but those inside it runs as a whole when its last
   stage's backward needs it. */
typedef struct vram__call_walk {
  uint32_t in; /* span that runs; count: the chain */
  uint32_t at, skip;
  int back;
} vram__call_walk;

static vram_move vram__calls_next(vram__call_walk *r, const vram_chain *c, const vram_span *list,
                                  uint32_t count) {
  vram_move m = {0, VRAM_MOVE_SAVE, 0};
  uint32_t last = r->in == count ? c->nstage - 1 : list[r->in].last, k;
  if (!r->back && r->at > last) {
    r->back = 1;
    r->at = last;
  }
  while (r->back) {
    if (r->in != count && r->at + 1 == list[r->in].first) { /* the span is done */
      r->in = vram__span_up(list, count, r->in);
      continue;
    }
    k = vram__span_at(list, count, r->in, r->at, 1);
    if (k == count) {
      m.kind = VRAM_MOVE_BACKWARD;
      m.stage = r->at--;
      return m;
    }
    r->in = k;
    r->at = list[k].first;
    r->back = 0;
  }
  m.stage = r->at++;
  if (r->skip) {
    m.kind = VRAM_MOVE_DROP;
    r->skip--;
  } else if ((k = vram__span_at(list, count, r->in, m.stage, 0)) != count) {
    m.kind = VRAM_MOVE_CHECKPOINT;
    r->skip = list[k].last - list[k].first;
  }
  return m;
}

VRAM_API vram_result vram_schedule_spans(const vram_chain *c, const vram_move *move, uint32_t nmove,
                                         vram_span *list, uint32_t cap, uint32_t *count,
                                         vram_error *err) {
  const vram_result bad = vram__chain_check(c, err);
  uint32_t k, n = 0, i;
  vram__call_walk r;
  *count = 0;
  if (bad)
    return bad;
  for (k = 0; k < nmove; k++) {
    vram_span s;
    s.first = s.last = move[k].stage;
    if (move[k].kind != VRAM_MOVE_CHECKPOINT)
      continue;
    while (k + 1 < nmove && move[k + 1].kind == VRAM_MOVE_DROP && move[k + 1].stage == s.last + 1)
      s.last++, k++;
    if (n < cap) {
      for (i = n; i > 0 && (list[i - 1].first > s.first ||
                            (list[i - 1].first == s.first && list[i - 1].last < s.last));
           i--)
        list[i] = list[i - 1];
      list[i] = s;
    }
    n++;
  }
  *count = n;
  vram__error_clear(err);
  if (n > cap)
    return VRAM_OK;
  vram__memory_zero(&r, sizeof r);
  r.in = n;
  for (k = 0; k < nmove; k++) {
    vram_move m;
    if (r.back && r.at == UINT32_MAX) /* after the backward of stage 0 */
      break;
    m = vram__calls_next(&r, c, list, n);
    if (m.kind != move[k].kind || m.stage != move[k].stage)
      break;
  }
  if (k == nmove && r.back && r.at == UINT32_MAX)
    return VRAM_OK;
  *count = 0;
  vram__error_begin(err, VRAM_ERR_UNSUPPORTED, (uint64_t)k + 1, "");
  vram__error_number(err, "move ", k);
  vram__error_text(err, ": no nest of calls of torch.utils.checkpoint");
  return VRAM_ERR_UNSUPPORTED;
}
