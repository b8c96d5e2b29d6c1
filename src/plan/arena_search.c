/* >>plan/arena_search    the search for a lower arena
   Buffers are placed upwards: every next one at the lowest offset that what is placed below
   leaves it, never lower than the one before. Moffitt, "MiniMalloc: A Lightweight Memory
   Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023) shows that this loses no
   plan, when a choice is dominated, and that parts of time that nothing connects any more are
   solved apart. Here each section is a machine and its unplaced buffers are jobs with release
   times (their lowest offsets): doing them in the order of release gives the least height of
   that section. */
#include "plan/plan.h"

/* Ranks the items of a list: those first that live where most is left. */
static void vram__search_rank(vram__arena *a, uint32_t list, uint32_t n) {
  vram__loose *l = a->loose + list;
  uint32_t i, s, first = UINT32_MAX, last = 0;
  for (i = 0; i < n; i++) {
    const vram__item *t = a->item + l[i].item;
    first = first < t->first ? first : t->first;
    last = last > t->last ? last : t->last;
    a->key[i].key = l[i].item;
    a->key[i].at = i;
  }
  for (s = first; s < last; s++)
    a->level[s] = 0;
  for (i = 0; i < n; i++) {
    const vram__item *t = a->item + l[i].item;
    for (s = t->first; s < t->last; s++)
      a->level[s] += t->span;
  }
  vram__sort(a->key, a->spare, n);
  for (i = 0; i < n; i++) {
    const vram__item *t = a->item + l[a->key[i].at].item;
    uint64_t most = 0;
    for (s = t->first; s < t->last; s++)
      most = most > a->level[s] ? most : a->level[s];
    a->key[i].key = ~most;
  }
  vram__sort(a->key, a->spare, n);
  for (i = 0; i < n; i++)
    l[a->key[i].at].rank = (uint16_t)i;
}

/* The items of a->brick in an order. T (not t) first: ranked anew by load in every part. */
static void vram__search_begin(vram__arena *a, const char *letters) {
  const uint64_t unit = vram__arena_unit(a);
  uint32_t i;
  a->by_load = *letters == VRAM__BY_LOAD;
  vram__arena_order(a, letters + a->by_load);
  for (i = 0; i < a->n; i++)
    a->next[i] = VRAM__NONE;
  for (i = 0; i < a->sections; i++)
    a->cross[i] = 0;
  for (i = 0; i < a->n; i++) {
    const vram__brick *b = a->brick + a->key[i].at;
    vram__item *t = a->item + i;
    uint32_t s;
    t->bytes = b->bytes;
    t->span = vram__align_up(b->bytes, unit);
    t->align = b->align;
    t->at = b->pinned ? b->at : 0;
    t->first = b->first - a->section;
    t->last = b->last - a->section;
    t->brick = a->key[i].at;
    t->pinned = b->pinned;
    t->placed = 0;
    t->twin = a->next[b->group];
    a->next[b->group] = b->pinned ? VRAM__NONE : i;
    for (s = t->first; s + 1 < t->last; s++)
      a->cross[s]++;
  }
  for (i = 0; i < a->n; i++) {
    a->key[i].key = a->item[i].at;
    a->key[i].at = i;
  }
  vram__sort(a->key, a->spare, a->n);
  for (i = 0; i < a->n; i++) {
    a->loose[i].low = a->key[i].key;
    a->loose[i].item = a->loose[i].rank = (uint16_t)a->key[i].at;
  }
}

/* A choice from a list; anew: it is ranked for itself. */
static void vram__choice_begin(vram__arena *a, vram__choice *c, uint32_t list, uint32_t n,
                               uint32_t room, uint32_t parent, int anew) {
  const vram__choice *p = a->choice + parent;
  uint32_t i;
  anew &= a->by_load;
  c->list = list;
  c->n = n;
  c->room = room;
  c->parent = parent;
  c->at = parent == VRAM__NONE ? 0 : p->at;
  c->rank = anew || parent == VRAM__NONE ? 0 : p->rank;
  c->top = c->least = UINT64_MAX;
  c->alone = 0;
  if (anew)
    vram__search_rank(a, list, n);
  for (i = list; i < list + n; i++) {
    const vram__loose *l = a->loose + i;
    const uint64_t span = a->item[l->item].span;
    c->top = c->top < l->low + span ? c->top : l->low + span;
    c->least = c->least < span ? c->least : span;
  }
}

/* The next item to try; 0: there is none. */
static int vram__choice_next(vram__arena *a, vram__choice *c) {
  uint64_t at = UINT64_MAX;
  uint32_t i, item = 0, rank = 0;
  if (c->alone)
    return 0;
  for (i = c->list; i < c->list + c->n; i++) {
    const vram__loose *l = a->loose + i;
    const uint32_t twin = a->item[l->item].twin;
    if (l->low >= c->top || l->low > at)
      break;
    if (l->low < c->at || (l->low == c->at && l->rank < c->rank) ||
        (l->low == at && l->rank > rank) || (twin != VRAM__NONE && !a->item[twin].placed))
      continue;
    at = l->low;
    item = l->item;
    rank = l->rank;
  }
  if (at == UINT64_MAX)
    return 0;
  c->tried = item;
  c->at = at;
  c->rank = rank + 1;
  return 1;
}

static void vram__level_add(uint64_t *level, const vram__item *t, uint64_t low) {
  uint64_t *s, *end = level + t->last;
  const uint64_t bytes = t->span;
  for (s = level + t->first; s < end; s++)
    *s = (*s > low ? *s : low) + bytes;
}

/* The least height of what is left of a list, once its last tried item is placed. */
static uint64_t vram__search_least(vram__arena *a, const vram__choice *c, uint32_t first,
                                   uint32_t last) {
  const uint64_t above = c->at + c->least; /* what was passed over rests on another one */
  uint64_t most = 0;
  uint32_t i, k, skipped = 0;
  int done = 0;
  for (i = first; i < last; i++)
    a->level[i] = 0;
  for (i = c->room; i < c->end; i++) {
    const vram__loose *l = a->loose + i;
    if (l->low < c->at || (l->low == c->at && l->rank < c->rank)) {
      a->skipped[skipped++] = l->item;
      continue;
    }
    if (!done && l->low >= above) {
      for (k = 0; k < skipped; k++)
        vram__level_add(a->level, a->item + a->skipped[k], above);
      done = 1;
    }
    vram__level_add(a->level, a->item + l->item, l->low);
  }
  if (!done)
    for (k = 0; k < skipped; k++)
      vram__level_add(a->level, a->item + a->skipped[k], above);
  for (i = first; i < last; i++)
    most = most > a->level[i] ? most : a->level[i];
  return most > a->slack ? most - a->slack : 0;
}

/* Places what c tries, makes the list of what is left. 0: that cannot be. */
static int vram__search_place(vram__arena *a, vram__choice *c, uint64_t capacity) {
  vram__item *b = a->item + c->tried;
  const uint64_t at = c->at, end = at + b->bytes;
  uint32_t i, n = c->room, moved = 0, to, first = UINT32_MAX, last = 0;
  int alone = 1;
  if (end > capacity) {
    a->above = a->above < end ? a->above : end;
    return 0;
  }
  for (i = c->list; i < c->list + c->n; i++) {
    vram__loose l = a->loose[i];
    const vram__item *t = a->item + l.item;
    if (l.item == c->tried)
      continue;
    first = first < t->first ? first : t->first;
    last = last > t->last ? last : t->last;
    if (t->first < b->last && t->last > b->first) {
      alone = 0;
      if (l.low < end) {
        if (t->pinned)
          return 0;
        l.low = vram__align_up(end, t->align);
        for (to = moved++; to && a->moved[to - 1].low > l.low; to--)
          a->moved[to] = a->moved[to - 1];
        a->moved[to] = l;
        continue;
      }
    }
    if (t->pinned && (l.low < at || (l.low == at && l.rank < c->rank)))
      return 0;
    a->loose[n++] = l;
  }
  c->end = n + moved;
  for (to = c->end; moved; to--)
    if (n > c->room && a->loose[n - 1].low > a->moved[moved - 1].low)
      a->loose[to - 1] = a->loose[--n];
    else
      a->loose[to - 1] = a->moved[--moved];
  if (c->end > c->room) {
    const uint64_t least = vram__search_least(a, c, first, last);
    if (least > capacity) {
      a->above = a->above < least ? a->above : least;
      return 0;
    }
  }
  c->alone = alone;
  b->at = at;
  b->placed = 1;
  for (i = b->first; i + 1 < b->last; i++)
    a->cross[i]--;
  return 1;
}

static void vram__search_undo(vram__arena *a, const vram__choice *c) {
  vram__item *b = a->item + c->tried;
  uint32_t i;
  b->placed = 0;
  for (i = b->first; i + 1 < b->last; i++)
    a->cross[i]++;
}

/* The first part of a list that what is left of the rest does not touch, moved to its front. */
static uint32_t vram__search_part(vram__arena *a, uint32_t list, uint32_t end) {
  uint32_t first = a->item[a->loose[list].item].first, last = first, i, n = list, moved = 0;
  while (first && a->cross[first - 1])
    first--;
  while (a->cross[last])
    last++;
  for (i = list; i < end; i++) {
    const vram__item *t = a->item + a->loose[i].item;
    if (t->first >= first && t->first <= last)
      a->loose[n++] = a->loose[i];
    else
      a->moved[moved++] = a->loose[i];
  }
  for (i = 0; i < moved; i++)
    a->loose[n + i] = a->moved[i];
  return n - list;
}

/* Looks for a plan of that height at most. No moment parts the lifetimes of a->brick. */
VRAM__FN int vram__search(vram__arena *a, const char *letters, uint64_t capacity, uint64_t nodes) {
  uint32_t d = 0; /* the choice on top */
  vram__search_begin(a, letters);
  a->above = UINT64_MAX;
  vram__choice_begin(a, a->choice, 0, a->n, a->n, VRAM__NONE, 1);
  nodes += a->nodes;
  for (;;) {
    vram__choice *c = a->choice + d;
    uint32_t list, n;
    if (!vram__choice_next(a, c)) { /* back to the choice that this was a part of */
      const uint32_t parent = c->parent;
      if (parent == VRAM__NONE)
        return VRAM__REFUTED;
      while (d > parent)
        vram__search_undo(a, a->choice + --d);
      continue;
    }
    if (a->nodes >= nodes)
      return VRAM__UNKNOWN;
    a->nodes++;
    if ((a->nodes & 1023) == 0 && vram__arena_stop(a))
      return VRAM__UNKNOWN;
    if (!vram__search_place(a, c, capacity))
      continue;
    if (c->end > c->room) {
      n = vram__search_part(a, c->room, c->end);
      vram__choice_begin(a, c + 1, c->room, n, c->end, d, n < c->end - c->room);
      d++;
      continue;
    }
    for (;;) { /* a part is done: the next one */
      const uint32_t parent = c->parent;
      if (parent == VRAM__NONE)
        return VRAM__SOLVED;
      list = c->list + c->n;
      c = a->choice + parent;
      if (list < c->end) {
        n = vram__search_part(a, list, c->end);
        vram__choice_begin(a, a->choice + ++d, list, n, c->end, parent, 1);
        break;
      }
    }
  }
}
