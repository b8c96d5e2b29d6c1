/* >>step/caches    what a step of a generation leaves for the next one: `cache` and `store` lines
   As storages, which outlive the step's tensors: a value may be a view of more than it shows. */
#include "step/step.h"

/* What the step before stored is there when this one begins. */
VRAM__FN void vram__caches_before(vram__step *s) {
  vram__caches *c = s->caches;
  uint32_t i;
  if (!c)
    return;
  c->begun = 0;
  for (i = 0; i < c->room && !s->failed; i++) {
    vram__cached *o = c->at + i;
    const int64_t size = (int64_t)o->bytes;
    vram__tensor t;
    o->node = NULL;
    o->slot = 0;
    if (!o->bytes)
      continue;
    if (o->same < i && c->at[o->same].slot) {
      t = vram__tensor_none();
      t.st = c->at[o->same].slot;
      t.d = vram__slot_at(s, t.st)->d;
      t.dt = VRAM_U8;
      o->slot = vram__tensor_alias(s, t, t.d).st;
      continue;
    }
    t = vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8,
                                     VRAM_CATEGORY_CACHE);
    o->slot = t.st;
    if (s->replay && o->slot)
      vram__slot_at(s, o->slot)->block = o->block;
  }
}

/* A `store` line: the caller's variable has the value to the end of the step, and beyond. */
VRAM__FN void vram__store_line(vram__step *s, const vram_node *n) {
  const uint32_t name = s->name_of[n->in[n->nin - 1]->index];
  uint32_t st;
  if (s->train || name == s->g->nvalue)
    return; /* left out */
  s->variable[name].refs++;
  st = s->variable[name].t.st;
  if (st)
    vram__cache_become(s, vram__slot_at(s, vram__slot_at(s, st)->base));
}

/* The entry of a cache that ran in this step; NULL: a step of no generation. */
static vram__cached *vram__cache_find(const vram__step *s, const vram_node *cache) {
  uint32_t i;
  for (i = 0; s->caches && i < s->caches->begun; i++)
    if (s->caches->at[i].node == cache)
      return s->caches->at + i;
  return NULL;
}

/* The storage of a `store` line's value; 0: it has none. */
static uint32_t vram__store_base(const vram__step *s, const vram_node *n) {
  const uint32_t name = s->name_of[n->in[n->nin - 1]->index];
  const uint32_t st = name == s->g->nvalue ? 0 : s->variable[name].t.st;
  return st ? vram__slot_at(s, st)->base : 0;
}

/* Where the step ends: what was stored, and its bytes. */
VRAM__FN void vram__caches_after(vram__step *s) {
  vram__caches *c = s->caches;
  const vram_node *n;
  uint32_t i, k;
  if (s->failed || s->train || !s->g->ncache)
    return;
  for (i = 0; c && i < c->room; i++)
    c->at[i].bytes = c->at[i].slot = 0;
  for (n = s->g->first; n; n = n->next) {
    const uint32_t base = n->op == VRAM__OP_store ? vram__store_base(s, n) : 0;
    vram__storage *st = vram__slot_at(s, base);
    vram__cached *o = base ? vram__cache_find(s, n->in[0]->node) : NULL;
    if (base && st->cat != VRAM_CATEGORY_COUNT) { /* once, where more values lie on it */
      s->r->kv_cache_bytes += st->bytes;
      st->cat = VRAM_CATEGORY_COUNT;
    }
    if (!o)
      continue;
    o->bytes = st->bytes;
    o->block = st->block;
    o->slot = base;
  }
  for (i = 0; c && i < c->room; i++) {
    for (k = 0; c->at[k].slot != c->at[i].slot;)
      k++;
    c->at[i].same = k;
  }
}
