/* >>parallel/parts_cast    autocast's cache in a pipeline where layers run again
   What runs again has an autocast context of its own inside the one around schedule.step, in a
   thread of backward, whose count of contexts begins at 0: when it ends the cache is emptied for
   all of them (torch/amp/autocast_mode.py: __exit__; aten/src/ATen/autocast_mode.cpp: nesting is
   thread_local, cached_casts is not). So a forward pass casts weights if a backward pass came since
   the stage's last one, and copies live as long as the cache or a microbatch's records hold them.
   The player pins each copy: it hears of no free, and says who holds it instead. */
#include "parallel/parts.h"

/* Whether the stage's forward passes cast, and backward passes find the cache filled: by
   microbatch, as the schedule has them. */
VRAM__FN int vram__pipe_casts_find(vram__pipe *p) {
  const uint32_t n = p->microbatches;
  uint32_t i, k;
  if (!p->clears)
    return 1;
  p->casts = (uint8_t *)vram__pipe_take(p, 2 * (uint64_t)p->local * n);
  if (!p->casts)
    return 0;
  p->full = p->casts + (uint64_t)p->local * n;
  vram__memory_zero(p->casts, 2 * (uint64_t)p->local * n);
  for (k = 0; k < p->local; k++)
    p->stage[k].is_cached = 0;
  for (i = 0; i < p->naction; i++) {
    const vram_stage_action *a = p->action + i;
    for (k = 0; k < p->local && p->stage[k].stage != a->stage;)
      k++;
    if (k == p->local)
      continue;
    if (a->kind == VRAM_STAGE_F) {
      p->casts[(uint64_t)k * n + a->microbatch] = !p->stage[k].is_cached;
      p->stage[k].is_cached = 1;
    } else if (a->kind == VRAM_STAGE_B) {
      p->full[(uint64_t)k * n + a->microbatch] = p->stage[k].is_cached;
      if (!p->stage[k].has_ranges)
        continue;
      for (k = 0; k < p->local; k++)
        p->stage[k].is_cached = 0;
    }
  }
  return 1;
}

/* Tensors and records that hold copy t, beside the cache. */
static uint32_t vram__part_cast_holds(const vram__part_player *y, const vram__part_pin *pin) {
  const vram__step *const t = &y->t;
  const vram__storage *st = vram__slot_at(t, pin->t.st);
  const vram__cast *c = t->leaf.cast + pin->leaf;
  return st->refs + st->srefs - (c->t.d && c->t.st == pin->t.st);
}

static void vram__part_cast_say(vram__part_player *y, uint32_t i, int holds) {
  vram__part_event *to;
  if (y->holds[i] == holds)
    return;
  y->holds[i] = (uint8_t)holds;
  to = vram__part_put(y, holds ? VRAM__PART_HOLD : VRAM__PART_DROP);
  if (to)
    to->id = i;
}

/* What the running part lets go, since it last allocated or freed. */
VRAM__FN void vram__part_casts_drop(vram__part_player *y) {
  uint32_t i, n = 0;
  for (i = 0; y->looks && i < y->nheld; i++) {
    const uint32_t at = y->held[i];
    vram__part_cast_say(y, at, vram__part_cast_holds(y, y->micro->pin + at) > y->others[at]);
    if (y->holds[at])
      y->held[n++] = at;
  }
  y->nheld = y->looks ? n : y->nheld;
}

/* The same with what it has come to hold. While the cache has a copy, too, it does not matter who
   else holds it, and none comes from an empty cache: one looks when it is emptied, and at the end.
 */
VRAM__FN void vram__part_casts_look(vram__part_player *y) {
  uint32_t i;
  if (!y->looks)
    return;
  for (i = y->nheld = 0; i < y->s->ncast; i++) {
    vram__part_cast_say(y, i, vram__part_cast_holds(y, y->micro->pin + i) > y->others[i]);
    if (y->holds[i])
      y->held[y->nheld++] = i;
  }
}

static void vram__part_cast_link(vram__part_player *y, uint32_t leaf, vram__tensor x) {
  vram__cast *c = y->t.leaf.cast + leaf;
  c->t = vram__tensor_retain(&y->t, x);
  c->next = y->t.leaf.first_cast;
  y->t.leaf.first_cast = leaf + 1;
}

/* The cache is as it is when the part begins: empty, or with the copies that its microbatch has. */
VRAM__FN void vram__part_casts_begin(vram__part_player *y, int full) {
  uint32_t i;
  y->looks = y->emptied = 0;
  y->nheld = 0;
  if (!y->p->clears)
    return;
  vram__autocast_leave(&y->t);
  for (i = 0; full && i < y->s->ncast; i++)
    vram__part_cast_link(y, y->micro->pin[i].leaf, y->micro->pin[i].t);
  for (i = 0; y->micro->pin && i < y->s->ncast; i++) {
    const uint32_t own = y->micro->held ? y->micro->held[i] : 0; /* none before it has run */
    y->others[i] = vram__part_cast_holds(y, y->micro->pin + i) - own;
    y->holds[i] = own != 0;
    if (own)
      y->held[y->nheld++] = i;
  }
}

static void *vram__part_cast_room(vram__part_player *y, uint64_t bytes) {
  void *to = vram__memory_take(y->t.mem, &y->t.used, y->t.cap, bytes);
  if (!to)
    y->t.failed = VRAM_ERR_MEMORY;
  return to;
}

static void vram__part_casts_refuse(vram__part_player *y) {
  vram__step_refuse(&y->t, VRAM_ERR_UNSUPPORTED, NULL,
                    "autocast's copy of what a stage receives, beside checkpointed nodes, is not "
                    "played");
}

/* The copies that a forward part has made are pinned. The first one tells how many there are. */
static void vram__part_casts_pin(vram__part_player *y) {
  vram__step *const t = &y->t;
  const int is_first = !y->pin;
  uint32_t at = t->leaf.first_cast, n = 0;
  y->pin = (vram__part_pin *)vram__part_cast_room(y, (y->made + UINT64_C(1)) * sizeof *y->pin);
  for (; at && y->pin; at = t->leaf.cast[at - 1].next) {
    vram__part_pin *to = y->pin + (y->made - 1 - n++);
    if (at > t->leaf.parameters || n > y->made || (!is_first && y->made != y->s->ncast)) {
      vram__part_casts_refuse(y);
      return;
    }
    to->leaf = at - 1;
    to->t = vram__tensor_retain(t, t->leaf.cast[at - 1].t);
    if (is_first)
      y->p->autocast += vram__dims_bytes_of(to->t.d, to->t.dt);
  }
  y->s->ncast = y->made;
  y->micro->pin = y->pin;
}

/* Behind the nodes of a forward part: what its microbatch holds. */
VRAM__FN void vram__part_casts_forward_end(vram__part_player *y, int made) {
  vram__step *const t = &y->t;
  uint32_t i;
  if (!y->p->clears || t->failed)
    return;
  if (made)
    vram__part_casts_pin(y);
  else if (y->made || !y->pin)
    vram__part_casts_refuse(y);
  y->micro->held =
      (uint32_t *)vram__part_cast_room(y, (y->s->ncast + UINT64_C(1)) * sizeof(uint32_t));
  for (i = 0; !t->failed && i < y->s->ncast; i++) {
    if (made) {
      y->others[i] = 2; /* the pin, and that there is one */
      y->holds[i] = 0;
    }
    y->micro->held[i] = vram__part_cast_holds(y, y->micro->pin + i) - y->others[i];
    vram__part_cast_say(y, i, y->micro->held[i] != 0);
  }
}

/* A context of what runs again ends: the first one empties the cache of all. */
VRAM__FN void vram__part_hear_emptied(vram__step *t) {
  vram__part_player *y = (vram__part_player *)t->o->user;
  if (!y->looks || y->emptied)
    return;
  vram__part_casts_look(y);
  vram__part_put(y, VRAM__PART_EMPTIED);
  y->emptied = 1;
}
