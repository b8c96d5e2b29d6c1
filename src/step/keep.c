/* >>step/keep    what variables of the training loop hold from one step to the next
   A `keep` line stands where a variable takes a value: the one of the step before goes there. What
   goes with a value is found out when backward is through (views hold more than they show, a branch
   that the loss did not need holds what it saved), as storages, which outlive the tape. */
#include "step/step.h"

static uint32_t vram__keep_room(const vram_graph *g) {
  const uint64_t n = (uint64_t)g->nvalue + (uint64_t)g->nnode * 4 + 16;
  return n < UINT32_MAX / 64 ? (uint32_t)n : UINT32_MAX / 64;
}

VRAM__FN uint64_t vram__keep_bytes(const vram_graph *g) {
  if (!g->nkept)
    return 0;
  return ((uint64_t)vram__keep_room(g) + 1) * sizeof(vram__kept_storage) +
         (uint64_t)g->nkept * sizeof(vram__kept_value);
}

/* Takes the memory of both lists, where they were in a run before. 0: there is too little. */
VRAM__FN int vram__keep_take(vram__step *s) {
  vram__keeps *k = &s->keep;
  if (!s->g->nkept)
    return 1;
  k->room = vram__keep_room(s->g);
  k->old = (vram__kept_storage *)vram__memory_take(s->mem, &s->used, s->cap,
                                                   ((uint64_t)k->room + 1) * sizeof *k->old);
  k->now = (vram__kept_value *)vram__memory_take(s->mem, &s->used, s->cap,
                                                 (uint64_t)s->g->nkept * sizeof *k->now);
  return k->old && k->now;
}

/* What the run before left is there when this step begins. */
VRAM__FN void vram__keep_before(vram__step *s) {
  vram__keeps *k = &s->keep;
  uint32_t i;
  if (!k->old)
    return;
  if (!s->leaf.known)
    k->old[0].line = 0;
  for (i = 1; i <= k->old[0].line && !s->failed; i++) {
    vram__kept_storage *o = k->old + i;
    const int64_t size = (int64_t)o->bytes;
    o->slot = vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8, o->cat).st;
    if (s->replay && o->slot)
      vram__slot_at(s, o->slot)->block = o->block;
  }
}

/* Does a `keep` line before n name the value, too? Then that of n gives it up. */
static int vram__keep_before_line(const vram_graph *g, const vram_node *n, const vram_value *v) {
  const vram_node *m;
  uint32_t i;
  for (m = g->first; m != n; m = m->next)
    for (i = 0; m->op == VRAM__OP_keep && i < m->nin; i++)
      if (m->in[i] == v)
        return 1;
  return 0;
}

/* The variables of an evaluation are others, which go at its end. */
static void vram__keep_in_evaluation(vram__step *s, const vram_node *n) {
  uint32_t i;
  for (i = 0; i < n->nin; i++)
    if (s->name_of[n->in[i]->index] != s->g->nvalue) { /* not left out */
      vram__variable *v = s->variable + s->name_of[n->in[i]->index];
      if (i && vram__keep_before_line(s->g, n, n->in[i]))
        v->refs--;
      else
        v->refs++;
    }
}

/* The variable that took the value before in this step has now the one that was kept last. 0: none
   did. */
static int vram__keep_instead(vram__step *s, const vram_value *value) {
  vram__keeps *k = &s->keep;
  vram__kept_value *v = k->now, *const last = k->now + k->count - 1;
  while (v < last && v->value != value)
    v++;
  if (v == last)
    return 0;
  vram__tensor_release(s, v->t);
  v->t = last->t;
  v->value = last->value;
  v->root = last->root;
  k->count--;
  return 1;
}

/* A `keep` line: its variables take their values, and what they held goes. */
VRAM__FN void vram__keep_line(vram__step *s, const vram_node *n) {
  vram__keeps *k = &s->keep;
  uint32_t i, left = 0;
  if (s->phase == VRAM_PHASE_BACKWARD || s->call.again)
    return;
  if (s->phase == VRAM_PHASE_EVALUATION) {
    vram__keep_in_evaluation(s, n);
    return;
  }
  for (i = 0; i < n->nin; i++) {
    vram__kept_value *v = k->now + k->count;
    if (s->name_of[n->in[i]->index] == s->g->nvalue)
      continue; /* inference leaves it out */
    if (i && k->count && vram__keep_instead(s, n->in[i]))
      continue;
    k->count++;
    v->value = n->in[i];
    v->root = n->in[i] == s->root;
    k->root |= v->root;
    v->t = vram__tensor_retain(s, s->variable[s->name_of[n->in[i]->index]].t);
    v->line = n->index;
  }
  for (i = 1; i <= k->old[0].line; i++)
    if (k->old[i].line == n->index)
      vram__storage_release(s, k->old[i].slot);
    else
      k->old[++left] = k->old[i];
  k->old[0].line = left;
}

/* Storages that nothing but `keep` holds any more go at that line: gradients first, or all. */
static void vram__keep_find(vram__step *s, uint32_t line, int gradients) {
  vram__keeps *k = &s->keep;
  uint32_t i;
  for (i = 0; i < s->nslot; i++) {
    const uint32_t slot = vram__slot_number(s, i);
    vram__storage *st = vram__slot_at(s, slot);
    vram__kept_storage *o;
    if (st->base != slot || st->srefs != 1 || (gradients && st->cat != VRAM_CATEGORY_GRADIENTS))
      continue;
    if (k->old[0].line == k->room) {
      s->failed = VRAM_ERR_LIMIT;
      return;
    }
    st->srefs++; /* found */
    st->fn = st->req = 0;
    o = k->old + ++k->old[0].line;
    o->bytes = st->bytes;
    o->line = line;
    o->slot = slot;
    o->block = st->block;
    o->cat = st->cat;
  }
}

/* A tensor lets go of its graph before its own storage: of those from `first` on that one is last.
 */
static void vram__keep_last(vram__keeps *k, uint32_t first, uint32_t slot) {
  vram__kept_storage own;
  uint32_t i;
  for (i = first; i < k->old[0].line && k->old[i].slot != slot;)
    i++;
  if (i >= k->old[0].line)
    return;
  own = k->old[i];
  for (; i < k->old[0].line; i++)
    k->old[i] = k->old[i + 1];
  k->old[i] = own;
}

/* Backward is through: the values that variables hold become the storages that live because of
   them. Meanwhile each storage is held once more, so that none goes. */
VRAM__FN void vram__keep_settle(vram__step *s) {
  vram__keeps *k = &s->keep;
  uint32_t i;
  if (!k->old || s->failed)
    return;
  for (i = 0; i < s->nslot; i++) {
    vram__storage *st = vram__slot_at(s, vram__slot_number(s, i));
    st->srefs += st->base == vram__slot_number(s, i) && st->srefs;
  }
  for (i = 0; i < k->count && !s->failed; i++) {
    const vram__tensor t = k->now[i].t;
    const uint32_t own = t.st ? vram__slot_at(s, t.st)->base : 0, first = k->old[0].line + 1;
    if (k->now[i].root && s->nheld) { /* what its graph holds */
      vram__held_release(s, 0, s->nheld);
      vram__keep_find(s, k->now[i].line, 1);
      vram__keep_find(s, k->now[i].line, 0);
    }
    vram__tensor_release(s, t);
    vram__keep_find(s, k->now[i].line, 0);
    vram__keep_last(k, first, own);
  }
  k->count = 0;
  for (i = 0; i < s->nslot; i++) {
    vram__storage *st = vram__slot_at(s, vram__slot_number(s, i));
    st->srefs -= st->base == vram__slot_number(s, i) && st->srefs;
  }
}
