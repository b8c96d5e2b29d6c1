/* >>torch/cuts    what lives between the cuts of a chain, counted while a step runs */
#include "torch/torch.h"

/* The stage that runs ends. */
VRAM__FN void vram__cuts_close_stage(vram__cuts *c) {
  vram__segment *q = c->cut + c->at;
  if (c->phase == VRAM_PHASE_FORWARD) {
    const uint64_t kept = c->plain ? q->output : c->now;
    const uint64_t temp = c->peak > kept ? c->peak - kept : 0;
    c->workspace_left += c->workspace;
    if (c->plain)
      q->plain_temp = temp;
    else {
      q->saved = c->now < q->output ? q->output : c->now;
      q->forward_temp = temp;
    }
  } else {
    const uint64_t in = c->at ? q[-1].output : 0, model = q->saved + q->output + in;
    q->backward_temp = c->peak > model ? c->peak - model : 0;
    c->carried = c->now > in ? c->now - in : 0;
    c->workspace_left += c->workspace;
  }
  c->workspace = 0;
}

/* Counts an allocation or free of a plain step, or of a forward in which no stage saves. */
VRAM__FN void vram__cuts_count_event(vram__step *s, int alloc, const vram__storage *st) {
  vram__cuts *c = s->cuts;
  const uint64_t bytes = vram__block_bytes(st->bytes);
  uint32_t stage = s->node ? c->stage_of[s->node->index] : c->at, i;
  if (s->phase != VRAM_PHASE_FORWARD && (s->phase != VRAM_PHASE_BACKWARD || c->plain))
    return;
  if (s->phase != c->phase || stage != c->at) {
    if (c->phase)
      vram__cuts_close_stage(c);
    if (s->phase == VRAM_PHASE_BACKWARD && c->phase != s->phase)
      c->backward_id = alloc ? st->id : (uint32_t)s->count.next_id;
    c->phase = (uint8_t)s->phase;
    c->at = stage;
    c->now = 0;
    c->first_id = alloc ? st->id : (uint32_t)s->count.next_id;
    if (s->phase == VRAM_PHASE_BACKWARD)
      c->now = c->cut[stage].saved - c->cut[stage].gone + c->cut[stage].output + c->carried;
    c->peak = c->now;
  }
  for (i = 0; i < c->nheld; i++)
    if (c->held[i] == st->id)
      return;
  if (!alloc && s->phase == VRAM_PHASE_FORWARD && !c->plain) /* nobody keeps it for backward */
    for (i = 0; i <= c->at; i++)
      if (c->cut[i].id == st->id)
        c->cut[i].bad = 1;
  if (st->cat == VRAM_CATEGORY_AUTOCAST) {
    c->autocast = alloc ? c->autocast + bytes : c->autocast - bytes;
    if (c->autocast > c->autocast_peak)
      c->autocast_peak = c->autocast;
  } else if (st->cat == VRAM_CATEGORY_WORKSPACE) {
    if (alloc)
      c->workspace += bytes;
    else if (c->workspace >= bytes)
      c->workspace -= bytes;
  } else if (alloc)
    c->now += bytes;
  else if (s->phase == VRAM_PHASE_FORWARD
               ? st->id >= c->first_id
               : st->id >= c->backward_id || !st->node || c->stage_of[st->node->index] == stage)
    c->now -= bytes < c->now ? bytes : c->now;
  else if (s->phase == VRAM_PHASE_BACKWARD && c->stage_of[st->node->index] < stage)
    c->cut[c->stage_of[st->node->index]].gone += bytes;
  if (c->now + c->workspace > c->peak)
    c->peak = c->now + c->workspace;
}

/* Node n of the forward pass has run. */
VRAM__FN void vram__cuts_count_node(vram__step *s, const vram_node *n) {
  vram__cuts *c = s->cuts;
  const uint32_t stage = c->stage_of[n->index];
  vram__segment *q = c->cut + stage;
  const vram__storage *b;
  uint32_t i, k;
  for (i = 0; i < n->nout; i++) {
    const vram_value *v = &n->out[i];
    const vram__tensor *t = &s->variable[s->name_of[v->index]].t;
    if (!c->side[v->index] || !t->st || c->last[v->index] <= q->last->index)
      continue;
    b = vram__owner_at(s, t->st);
    for (k = 0; k < c->nheld && c->held[k] != b->id;)
      k++;
    if (k < c->nheld || b->id == UINT32_MAX)
      continue;
    c->held[c->nheld++] = b->id;
    c->side_bytes += vram__block_bytes(b->bytes);
    c->now -= vram__block_bytes(b->bytes) < c->now ? vram__block_bytes(b->bytes) : c->now;
  }
  if (q->last != n || !q->value)
    return;
  b = vram__owner_at(s, s->variable[s->name_of[q->value->index]].t.st);
  q->id = s->variable[s->name_of[q->value->index]].t.st ? b->id : UINT32_MAX;
  q->output = q->id == UINT32_MAX ? 0 : vram__block_bytes(b->bytes);
}
