/* >>torch/device    the device that a run is replayed on, and who hears of its events
   The model goes to the device, then its inputs; two steps, and the one that is reported. What a
   step leaves behind keeps its block. */
#include "torch/torch.h"

VRAM__FN uint64_t vram__replay_alloc(void *user, uint64_t bytes, uint64_t stream) {
  vram__replay *run = (vram__replay *)user;
  const uint64_t at = run->next;
  (void)stream;
  if (bytes > run->room)
    return 0;
  run->room -= bytes;
  run->next += (bytes + VRAM__SMALL_SEGMENT - 1) / VRAM__SMALL_SEGMENT * VRAM__SMALL_SEGMENT;
  return at;
}

VRAM__FN void vram__replay_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  (void)address, (void)stream;
  ((vram__replay *)user)->room += bytes;
}

VRAM__FN uint64_t vram__replay_reserve(void *user, uint64_t bytes) {
  vram__replay *run = (vram__replay *)user;
  const uint64_t granule = VRAM__LARGE_SEGMENT;
  const uint64_t at = (run->next + granule - 1) / granule * granule;
  run->next = at + bytes;
  return at;
}

VRAM__FN void vram__replay_unreserve(void *user, uint64_t address, uint64_t bytes) {
  (void)user, (void)address, (void)bytes;
}

VRAM__FN int vram__replay_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  vram__replay *run = (vram__replay *)user;
  (void)address, (void)granule;
  if (bytes > run->room)
    return 0;
  run->room -= bytes;
  return 1;
}

VRAM__FN void vram__replay_unmap(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  (void)address, (void)granule;
  ((vram__replay *)user)->room += bytes;
}

VRAM__FN uint32_t vram__replay_get(vram__step *s, uint64_t bytes, uint32_t stream) {
  vram__replay *run = s->replay;
  uint32_t x = 0;
  vram_result r;
  if (!bytes || run->full || run->oom)
    return 0;
  r = vram__pool_get(&run->pool, bytes, stream, &x);
  run->full = r == VRAM_ERR_LIMIT;
  run->oom = r == VRAM_ERR_MEMORY;
  if (run->oom && run->tight)
    s->failed = VRAM_ERR_LIMIT; /* the quickest way out */
  return x;
}

/* Bytes that whoever asks for them can do without. */
VRAM__FN void vram__replay_get_briefly(vram__replay *run, uint64_t bytes) {
  uint32_t x = 0;
  if (!bytes || run->full || run->oom)
    return;
  if (!vram__pool_get(&run->pool, bytes, 0, &x))
    vram__pool_put(&run->pool, x);
}

VRAM__FN void vram__replay_put(vram__replay *run, uint32_t x) {
  if (x && !run->full && !run->oom)
    vram__pool_put(&run->pool, x);
}

VRAM__FN void vram__event_emit(vram__step *s, vram_action a, const vram__storage *st) {
  vram_event e;
  vram__memory_zero(&e, sizeof e);
  e.action = a;
  e.phase = s->phase;
  e.category = e.was = (vram_category)st->cat;
  e.id = st->id == UINT32_MAX ? -1 : (int64_t)st->id;
  e.bytes = st->bytes;
  e.stream = st->stream;
  e.node = a == VRAM_ACTION_ALLOC ? s->node : st->node;
  s->o->event(s->o->user, &e);
}

VRAM__FN void vram__peak_note(vram__step *s) {
  s->count.peak_category = s->count.category;
  s->count.at_peak = 0;
}

static void vram__live_add(vram__step *s, uint64_t bytes, uint8_t cat, const vram_node *node) {
  if (bytes && s->count.live_count < s->count.live_cap) {
    vram_live *l = s->count.live + s->count.live_count;
    l->bytes = bytes;
    l->category = (vram_category)cat;
    l->node = node;
  }
  s->count.live_count += bytes != 0;
}

/* What modules own: whole parameters and buffers, or what a wrapper has made of them, which is one
   entry of each category. left: what is allocated beside storages with a slot. */
static void vram__live_owned(vram__step *s, const uint64_t left[VRAM_CATEGORY_COUNT]) {
  uint64_t whole[2] = {0, 0};
  const vram_param *p;
  int i;
  for (p = s->g->param_first; p; p = p->next)
    if (!(vram__op_traits(p->node) & VRAM__OP_PARAM))
      whole[p->kind == VRAM__BUFFER] += vram__dims_bytes_of(p->d, s->param[p->index].dt);
  for (i = 0; i < 2; i++) {
    const uint8_t cat = i ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS;
    if (s->o->parallel && whole[i] != left[cat]) {
      vram__live_add(s, left[cat], cat, NULL);
      continue;
    }
    for (p = s->g->param_first; p; p = p->next)
      if (!(vram__op_traits(p->node) & VRAM__OP_PARAM) && (p->kind == VRAM__BUFFER) == i)
        vram__live_add(s, vram__dims_bytes_of(p->d, s->param[p->index].dt), cat, p->node);
  }
}

/* What is allocated now, for vram_step_live. */
VRAM__FN void vram__live_collect(vram__step *s) {
  uint64_t left[VRAM_CATEGORY_COUNT];
  uint32_t k;
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    left[k] = s->count.category.of[k];
  for (k = 0; k < s->nslot; k++) {
    const uint32_t i = vram__slot_number(s, k);
    const vram__storage *st = vram__slot_at(s, i);
    if (st->base == i && st->srefs)
      left[st->cat] -= st->bytes;
  }
  vram__live_owned(s, left);
  for (k = 0; k < s->nslot; k++) {
    const uint32_t i = vram__slot_number(s, k);
    const vram__storage *st = vram__slot_at(s, i);
    if (st->base == i && st->srefs)
      vram__live_add(s, st->bytes, st->cat, st->node);
  }
  if (!s->o->parallel)
    vram__live_add(s, s->optim_held, VRAM_CATEGORY_OPTIMIZER, NULL);
  for (k = VRAM_CATEGORY_BUFFERS + 1; s->o->parallel && k < VRAM_CATEGORY_COUNT; k++)
    vram__live_add(s, left[k], (uint8_t)k, NULL);
}
