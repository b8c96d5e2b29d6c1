/* >>step/gradients    gradients that the step before left */
#include "step/step.h"

VRAM__FN void vram__gradients_had(vram__step *s, const vram__category_bytes *before,
                                  uint64_t blocks, uint64_t upper) {
  vram_phase_report *z = s->r->phase + VRAM_PHASE_ZERO_GRAD;
  const uint64_t bytes = s->leaf.had.bytes;
  if (bytes > (uint64_t)VRAM_MAX_BYTES - z->requested_peak_bytes) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  blocks += s->leaf.had.blocks;
  upper += s->leaf.had.blocks + s->leaf.had.large * VRAM_SMALL_POOL_BYTES;
  s->count.frees += s->leaf.had.count;
  s->count.peak_event += s->leaf.had.count;
  z->requested_peak_bytes += bytes;
  s->r->before_category_bytes[VRAM_CATEGORY_GRADIENTS] += bytes;
  z->allocated_peak_bytes = blocks;
  if (upper > s->count.peak_upper)
    s->count.peak_upper = upper;
  if (z->requested_peak_bytes < s->count.peak)
    return;
  s->count.peak = z->requested_peak_bytes;
  s->count.peak_event = 0;
  s->count.peak_node = NULL;
  s->count.peak_phase = VRAM_PHASE_ZERO_GRAD;
  s->count.at_peak = 0;
  s->count.peak_category = *before;
  s->count.peak_category.of[VRAM_CATEGORY_GRADIENTS] += bytes;
}

/* Notes on what storage leaf i's gradient lies. A gradient may be a view of more than it shows, and
   others be views of the same: `writes`, which backward is through with, leads to the first. */
static void vram__leaf_had(vram__step *s, uint32_t i) {
  const vram__leaf *l = &s->leaf.at[i], *first;
  vram__past *past = s->leaf.past + i;
  vram__storage *b;
  past->had = 1;
  past->let_go = 0;
  past->bytes = 0;
  past->with = 0;
  if (!l->grad.st)
    return;
  b = vram__owner_at(s, l->grad.st);
  past->bytes = b->bytes;
  first = b->writes && b->writes <= i ? &s->leaf.at[b->writes - 1] : NULL;
  if (first && first->grad.st && vram__owner_at(s, first->grad.st) == b)
    past->with = b->writes;
  else
    b->writes = i + 1;
}

/* Looks at each leaf: some have no gradient, or one that was not simply taken over, or a further
   run wants to know what this one leaves. */
static void vram__gradients_look(vram__step *s) {
  const vram__total none = {0, 0, 0, 0, 0};
  uint32_t i, had = 0;
  s->leaf.had = none;
  for (i = 0; i < s->leaf.count; i++) {
    const vram__past *past = s->leaf.past + i;
    if (!s->leaf.at[i].grad.d) {
      if (!s->leaf.known)
        s->leaf.past[i].had = 0;
      s->leaf.past[i].let_go = s->leaf.at[i].let_go;
      had += s->leaf.at[i].let_go;
      continue;
    }
    had += i < s->leaf.parameters;
    vram__leaf_had(s, i);
    s->leaf.shared |= past->with != 0;
    if (!past->bytes || past->with)
      continue;
    if (past->bytes > (uint64_t)VRAM_MAX_BYTES - s->leaf.had.bytes) {
      s->failed = VRAM_ERR_OVERFLOW;
      return;
    }
    vram__total_add(&s->leaf.had, past->bytes);
  }
  s->leaf.all_had = had == s->leaf.parameters;
}

/* Which leaves have a gradient after backward, and what those take. */
VRAM__FN void vram__gradients_count(vram__step *s, int again) {
  uint32_t i;
  s->leaf.all_had = 1;
  if (s->leaf.taken != s->leaf.count || again || s->rnn_dropout.d)
    vram__gradients_look(s);
  if (s->failed)
    return;
  s->leaf.missing = !s->leaf.all_had && s->train && !s->o->first_step;
  if (vram__in_backward_is(s->o))
    s->r->gradients_bytes = s->leaf.largest;
  else if (s->leaf.all_had && !s->g->is_cut)
    s->r->gradients_bytes = s->optim_all.bytes;
  for (i = 0; (!s->leaf.all_had || s->g->is_cut) && i < s->leaf.parameters; i++)
    if (s->leaf.at[i].grad.d && !vram__in_backward_is(s->o))
      s->r->gradients_bytes += vram__dims_bytes_of(s->leaf.at[i].d, s->leaf.at[i].dt);
}
