/* >>torch/storage    storages and tensors on them: what is allocated, and when it goes
   A small PyTorch without numbers: tensors are views of storages, ops allocate and free
   storages, autograd's nodes are records on a tape, backward walks the tape from its end. A
   storage goes when the last tensor, saved tensor or gradient that refers to it goes, as in
   PyTorch. */
#include "torch/torch.h"

VRAM__FN void vram__event_watch(vram__step *s, vram_action a, vram__storage *st) {
  if (s->replay && s->replay->taping)
    vram__tape_put_event(s->replay, a, st);
  else if (s->replay) {
    vram__replay_tell(s, st->cat, a == VRAM_ACTION_ALLOC ? s->node : st->node);
    if (a == VRAM_ACTION_ALLOC)
      st->block = vram__replay_get(s, st->bytes, st->stream);
    else
      vram__replay_put(s->replay, st->block);
  }
  if (s->o->event)
    vram__event_emit(s, a, st);
  if (s->cuts)
    vram__cuts_count_event(s, a == VRAM_ACTION_ALLOC, st);
  if (a == VRAM_ACTION_ALLOC && s->count.next_id + s->count.frees + 1 == s->count.stop_at)
    vram__live_collect(s);
}

/* So many bytes can be added up, or the step fails. VRAM_MAX_BYTES are 63 bits. */
static inline int vram__bytes_countable(vram__step *s, uint64_t bytes) {
  if (!((bytes | (bytes + s->count.requested)) >> 63))
    return 1;
  s->failed = VRAM_ERR_OVERFLOW;
  return 0;
}

/* A slot that nobody has used; 0: the scratch memory is used up. */
static uint32_t vram__slot_fresh(vram__step *s) {
  if (s->used + VRAM__SLOT_BYTES > s->cap) {
    s->failed = VRAM_ERR_MEMORY;
    return 0;
  }
  s->cap -= VRAM__SLOT_BYTES;
  return vram__slot_number(s, s->nslot++);
}

/* A slot that nobody uses; 0: the scratch memory is used up. */
VRAM__FN uint32_t vram__slot_new(vram__step *s) {
  const uint32_t i = s->free_slot;
  if (!i)
    return vram__slot_fresh(s);
  s->free_slot = vram__slot_at(s, i)->id;
  return i;
}

/* A tensor that is all of the storage that slot i owns. */
static inline vram__tensor vram__tensor_of_slot(const vram_dims *d, vram_dtype dt, uint32_t i) {
  vram__tensor t;
  t.d = d;
  t.st = i;
  t.dt = dt;
  return t;
}

/* Somebody hears of the allocation of slot i. */
static VRAM__COLD vram__tensor vram__tensor_watched(vram__step *s, vram_dtype dt, uint32_t i) {
  vram__event_watch(s, VRAM_ACTION_ALLOC, vram__slot_at(s, i));
  return vram__tensor_of_slot(vram__slot_at(s, i)->d, dt, i);
}

/* A fresh tensor in a new storage of so many bytes (of none PyTorch allocates nothing). */
static inline vram__tensor vram__tensor_make(vram__step *s, const vram_dims *d, vram_dtype dt,
                                             uint64_t bytes) {
  uint32_t i = s->free_slot;
  vram__storage *st = vram__slot_at(s, i);
  if (i)
    s->free_slot = st->id;
  else {
    i = vram__slot_fresh(s);
    if (!i)
      return vram__tensor_of_slot(d, dt, 0);
    st = vram__slot_at(s, i);
  }
  if (s->call.mute || !vram__bytes_countable(s, bytes))
    bytes = 0;
  st->bytes = bytes;
  st->refs = st->srefs = 1;
  st->base = i;
  st->node = s->node;
  st->cat = s->cat & 15u;
  st->stream = s->stream & (VRAM__STREAMS - 1u);
  st->saved = st->shown = st->req = st->filler = 0;
  st->off = 0;
  st->out = 0;
  st->block = 0;
  st->fn = st->of = st->ver = st->writes = 0;
  st->d = d;
  if (!bytes) {
    st->id = UINT32_MAX;
    return vram__tensor_of_slot(d, dt, i);
  }
  st->id = (uint32_t)s->count.next_id++;
  vram__bytes_grow(s, bytes, s->cat);
  return s->watched ? vram__tensor_watched(s, dt, i) : vram__tensor_of_slot(d, dt, i);
}

/* One that stays in registers, or whose dtype comes in blocks. */
static VRAM__COLD vram__tensor vram__tensor_unusual(vram__step *s, const vram_dims *d,
                                                    vram_dtype dt) {
  return s->registers ? vram__tensor_of_slot(d, dt, 0)
                      : vram__tensor_empty_strided(s, d, dt, vram__dims_bytes_of(d, dt));
}

/* A fresh tensor of dims d, which are dense. */
VRAM__FN vram__tensor vram__tensor_empty(vram__step *s, const vram_dims *d, vram_dtype dt) {
  const vram_dtype_info *const row = vram__dtype_rows + dt;
  if (s->registers || row->block_elements != 1)
    return vram__tensor_unusual(s, d, dt);
  return vram__tensor_make(s, d, dt, d->numel * row->block_bytes);
}

/* A fresh tensor of dims d in a storage of so many bytes (empty_strided, or resized). */
VRAM__FN vram__tensor vram__tensor_empty_strided(vram__step *s, const vram_dims *d, vram_dtype dt,
                                                 uint64_t bytes) {
  return vram__tensor_make(s, d, dt, bytes);
}

/* A storage whose shape nobody asks for. */
VRAM__FN uint32_t vram__storage_new(vram__step *s, uint64_t bytes) {
  return vram__tensor_empty_strided(s, NULL, VRAM_U8, bytes).st;
}

/* The storage of slot i is about to go, and another stream still uses it (record_stream): the
   allocator looks for such blocks when it is asked for the next one. */
VRAM__FN void vram__undone_add(vram__step *s, uint32_t i) {
  vram__undone_count(s, vram__owner_at(s, i)->bytes);
}

VRAM__FN void vram__undone_count(vram__step *s, uint64_t bytes) {
  if (s->count.undone_at != s->count.next_id)
    s->count.undone = 0;
  s->count.undone_at = s->count.next_id;
  s->count.undone += bytes;
}

/* vram__storage_free where somebody hears of it. */
VRAM__APART VRAM__FN void vram__storage_free_watched(vram__step *s, uint32_t i) {
  vram__storage *b = vram__slot_at(s, i);
  if (b->bytes) {
    vram__storage_shrink(s, b);
    vram__event_watch(s, VRAM_ACTION_FREE, b);
  }
  b->id = s->free_slot;
  s->free_slot = i;
}

/* The same of a tensor on another one's storage. What it is a view of (which is no view itself)
   goes before its own history does. */
static VRAM__COLD void vram__view_free(vram__step *s, uint32_t i) {
  vram__storage *st = vram__slot_at(s, i);
  const uint32_t base = st->base;
  if (st->of)
    vram__slot_release(s, st->of);
  vram__history_drop(s, st); /* does not come back here: records that go wait for one another */
  st->id = s->free_slot;
  st->base = i;
  st->srefs = 0;
  s->free_slot = i;
  vram__storage_release(s, base);
}

/* Nothing leads to the record that made the tensor of slot i any more. */
static VRAM__APART void vram__slot_free_made(vram__step *s, uint32_t i, uint32_t fn) {
  vram__grad_fn_free(s, fn);
  vram__storage_release(s, i);
}

/* The last handle of a tensor goes. */
VRAM__FN void vram__slot_free(vram__step *s, uint32_t i) {
  vram__storage *st = vram__slot_at(s, i);
  const uint32_t fn = st->fn;
  if (fn >= s->leaf.made)
    vram__leaf_gone(s, fn);
  if (st->base != i) {
    vram__view_free(s, i);
    return;
  }
  st->fn = 0;
  if (vram__is_grad_fn(fn) && --vram__grad_fn_at(s, fn)->refs == 0)
    vram__slot_free_made(s, i, fn);
  else
    vram__storage_release(s, i);
}

/* A workspace that a library chooses at run time: nothing derives it, so only the upper bound takes
   it in. Kernels that split a sum add up in fp32: at most once each tensor that takes part. */
VRAM__FN void vram__upper_may_need(vram__step *s, uint64_t elements) {
  uint64_t n =
      s->count.blocks + s->count.extra + VRAM_SMALL_POOL_BYTES + 4 * elements; /* below 2^64 */
  if (n > (uint64_t)VRAM_MAX_BYTES)
    n = (uint64_t)VRAM_MAX_BYTES;
  if (!s->ideal && n > s->count.peak_upper)
    s->count.peak_upper = n;
}

/* The bounds of the peak with what a library asks for now. */
static inline void vram__device_bound(vram__step *s, uint64_t most_asked) {
  const uint64_t most = (uint64_t)VRAM_MAX_BYTES;
  const uint64_t upper =
      vram__sum_or_overflow(s->count.blocks + s->count.extra + VRAM_SMALL_POOL_BYTES, most_asked);
  s->r->runs_cudnn = 1;
  if (most_asked > s->r->cudnn_bytes.upper)
    s->r->cudnn_bytes.upper = most_asked;
  if (upper > s->count.peak_upper)
    s->count.peak_upper = upper < most ? upper : most;
}

/* What a library asks for while it runs, beside the events that PyTorch's host code decides: it
   raises the bounds of the peak and goes through the replay's allocator. */
VRAM__FN void vram__device_workspace(vram__step *s, const vram_bounds *bytes) {
  const uint64_t most = (uint64_t)VRAM_MAX_BYTES;
  const uint64_t ask = bytes->expected < most / 4 ? bytes->expected : 0; /* nobody gets more */
  const uint64_t expected = s->count.blocks + vram__block_bytes(ask);
  if (s->ideal || s->call.mute || s->registers)
    return;
  vram__device_bound(s, bytes->upper);
  if (s->o->cudnn == VRAM_CUDNN_NONE)
    return;
  if (ask > s->r->cudnn_bytes.expected)
    s->r->cudnn_bytes.expected = ask;
  if (expected > s->count.peak_expected)
    s->count.peak_expected = expected < most ? expected : most;
  if (s->brief)
    s->brief(s, ask);
  if (s->replay && s->replay->taping)
    vram__tape_put(s->replay, VRAM__TAPE_BRIEF, ask);
  else if (s->replay) {
    vram__replay_tell(s, VRAM_CATEGORY_WORKSPACE, s->node);
    vram__replay_get_briefly(s->replay, ask);
  }
}

/* The first time that this run sees `of`. */
static int vram__search_is_new(vram__step *s, uint32_t of) {
  const uint32_t mask = s->searched_room - 1, hash = of ? of : 1;
  uint32_t i, k;
  for (i = hash & mask, k = 0; k <= mask / 4 * 3; i = (i + 1) & mask, k++) {
    if (s->searched[i] == hash)
      return 0;
    if (!s->searched[i]) {
      s->searched[i] = hash;
      return 1;
    }
  }
  return 1; /* no more room: as if they were all different */
}

/* What a library takes for the search that it makes once for each call of its kind: in the first
   step, whose segments stay. */
VRAM__FN void vram__device_search(vram__step *s, const vram_bounds *bytes, uint32_t of) {
  const uint64_t most = (uint64_t)VRAM_MAX_BYTES;
  const uint64_t ask = bytes->expected < most / 4 ? bytes->expected : 0;
  const uint64_t expected = s->count.blocks + vram__block_bytes(ask);
  vram__replay *run = s->replay;
  if (s->ideal || s->call.mute || s->registers)
    return;
  vram__device_bound(s, bytes->upper);
  if ((run ? !run->taping && !run->fresh : !s->o->first_step) || !vram__search_is_new(s, of))
    return;
  if (s->o->first_step && expected > s->count.peak_expected)
    s->count.peak_expected = expected < most ? expected : most;
  if (run && run->taping)
    vram__tape_put(run, VRAM__TAPE_SEARCH, ask);
  else if (run) {
    vram__replay_tell(s, VRAM_CATEGORY_WORKSPACE, s->node);
    vram__replay_get_briefly(run, ask);
  }
}

/* Bytes that are asked for and given back at once. */
static void vram__alloc_briefly(vram__step *s, uint64_t bytes) {
  if (s->watched)
    vram__slot_release(s, vram__storage_new(s, bytes));
  else if (bytes && !s->call.mute && vram__bytes_countable(s, bytes)) {
    s->count.next_id++;
    vram__bytes_grow(s, bytes, s->cat);
    s->count.frees++;
    vram__bytes_shrink(s, bytes, s->cat);
  }
}

VRAM__FN void vram__workspace_use(vram__step *s, uint64_t bytes) {
  const uint8_t cat = s->cat;
  if (s->ideal)
    return;
  if (bytes > s->r->workspace_bytes)
    s->r->workspace_bytes = bytes;
  s->cat = VRAM_CATEGORY_WORKSPACE;
  vram__alloc_briefly(s, bytes);
  s->cat = cat;
}

/* The same where the bytes stay for the runs that come. */
VRAM__FN void vram__workspace_keep(vram__step *s, uint64_t bytes) {
  const uint8_t cat = s->cat;
  if (bytes > s->r->workspace_bytes)
    s->r->workspace_bytes = bytes;
  s->cat = VRAM_CATEGORY_WORKSPACE;
  vram__storage_new(s, bytes);
  s->cat = cat;
}
