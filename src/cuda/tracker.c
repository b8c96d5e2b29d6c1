/* >>tracker (Implementation) ------------------------------------------------------------------- */

VRAM_API const char *vram_cuda_kind_name(uint32_t kind) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_CUDA_KINDS(VRAM__X)
#undef VRAM__X
  };
  return name[kind < (uint32_t)VRAM_CUDA_KIND_COUNT ? kind : 0];
}

VRAM_API uint64_t vram_cuda_clock(void *user) {
  struct timeval now;
  (void)user;
  gettimeofday(&now, NULL);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_usec;
}

/* Number of the process, counted over its forks: a lock that a thread of the parent held is free in
   the child, and what the parent has allocated is not the child's. */
static uint32_t vram__cuda_process = 1;
static uint32_t vram__cuda_forks; /* 1: registered */

static void vram__cuda_child(void) { vram__cuda_process++; }

/* NOLINTBEGIN(readability-non-const-parameter): atomic functions write */
static void vram__cuda_enter(uint32_t *lock) {
  uint32_t seen, n = 0;
  for (;;) {
    seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
    if (seen != vram__cuda_process &&
        __atomic_compare_exchange_n(lock, &seen, vram__cuda_process, 1, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return;
    if (++n > 100)
      sched_yield();
  }
}

static void vram__cuda_leave(uint32_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

static int vram__cuda_open(const vram_cuda_tracker *t) {
  return t && __atomic_load_n(&t->open, __ATOMIC_RELAXED);
}

static void vram__cuda_add(uint64_t *counter, uint64_t n) {
  __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
/* NOLINTEND(readability-non-const-parameter) */

static uint32_t vram__cuda_power(uint32_t n) { /* the power of 2 that is at least n */
  uint32_t p = 1;
  while (p < n && p < UINT32_C(1) << 31)
    p *= 2;
  return p;
}

/* what must be known is asked twice; what must be given back is tried twice */
#define VRAM__CUDA_TWICE(call) ((call) == 0 ? 0 : (call))

enum { VRAM__CUDA_HANDLE = 1, VRAM__CUDA_POOL, VRAM__CUDA_IPC };
enum { VRAM__CUDA_GOING = 1, VRAM__CUDA_GONE };      /* of a pool: being destroyed, destroyed */
#define VRAM__CUDA_FREEING 0xffffffffu               /* of a place in a pool */
#define VRAM__CUDA_FIRST_ADDRESS (UINT64_C(1) << 52) /* of handles: no device has memory there */

static void vram__cuda_lock_ledger(void *user);
static void vram__cuda_unlock_ledger(void *user);

static vram_cuda_options vram__cuda_resolve(const vram_cuda_options *o) {
  vram_cuda_options r = VRAM_ZERO_INIT;
  if (o)
    r = *o;
  r.ledger.devices = r.ledger.devices ? r.ledger.devices : 16;
  r.ledger.live = r.ledger.live ? r.ledger.live : 1024;
  r.objects = r.objects ? r.objects : 4096;
  r.places = r.places ? r.places : r.ledger.live;
  if (r.ledger.trace && !r.ledger.clock)
    r.ledger.clock = vram_cuda_clock;
  return r;
}

/* bytes of the tables behind the ledger's, which are aligned to 8 */
static uint64_t vram__cuda_tables(const vram_cuda_options *o) {
  return sizeof(vram__cuda_object) * ((uint64_t)o->objects + 1) +
         sizeof(vram__cuda_place) * ((uint64_t)o->places + 1) +
         4 * ((uint64_t)vram__cuda_power(o->objects) + vram__cuda_power(o->places)) + 8;
}

VRAM_API uint64_t vram_cuda_tracker_bytes(const vram_cuda_options *o) {
  vram_cuda_options r = vram__cuda_resolve(o);
  return ((vram_ledger_bytes(&r.ledger) + 7) & ~UINT64_C(7)) + vram__cuda_tables(&r);
}

static void vram__cuda_empty_tables(vram_cuda_tracker *t) {
  uint32_t i;
  memset(t->object_hash, 0, sizeof *t->object_hash * ((size_t)t->object_mask + 1));
  memset(t->place_hash, 0, sizeof *t->place_hash * ((size_t)t->place_mask + 1));
  for (i = 1; i <= t->options.objects; i++)
    t->object[i].next = i < t->options.objects ? i + 1 : 0, t->object[i].type = 0;
  for (i = 1; i <= t->options.places; i++)
    t->place[i].next = i < t->options.places ? i + 1 : 0, t->place[i].address = 0;
  t->object_free = t->place_free = 1;
  t->next_address = VRAM__CUDA_FIRST_ADDRESS;
  t->ipc_bytes = t->ipc_count = t->graph_nodes = t->graph_bytes = 0;
  t->lost = t->lost_bytes = t->unknown = 0;
  t->table_process = vram__cuda_process;
}

static vram_result vram__cuda_empty_ledger(vram_cuda_tracker *t, vram_error *err) {
  vram_ledger_options o = t->options.ledger;
  t->ledger_process = vram__cuda_process;
  o.lock = vram__cuda_lock_ledger;
  o.unlock = vram__cuda_unlock_ledger;
  o.user = t;
  return vram_ledger_init(&t->ledger, &o, t->memory, vram_ledger_bytes(&o), err);
}

static void vram__cuda_lock_ledger(void *user) {
  vram_cuda_tracker *t = (vram_cuda_tracker *)user;
  vram__cuda_enter(&t->ledger_lock);
  if (t->ledger_process != vram__cuda_process)
    (void)vram__cuda_empty_ledger(t, NULL);
}

static void vram__cuda_unlock_ledger(void *user) {
  vram__cuda_leave(&((vram_cuda_tracker *)user)->ledger_lock);
}

static void vram__cuda_lock(vram_cuda_tracker *t) {
  vram__cuda_enter(&t->table_lock);
  if (t->table_process != vram__cuda_process)
    vram__cuda_empty_tables(t);
}

static void vram__cuda_unlock(vram_cuda_tracker *t) { vram__cuda_leave(&t->table_lock); }

VRAM_API vram_result vram_cuda_tracker_init(vram_cuda_tracker *t, const vram_cuda_api *api,
                                            const vram_cuda_options *o, void *mem, uint64_t bytes,
                                            vram_error *err) {
  vram_result result;
  uint64_t ledger;
  char *at = (char *)mem;
  memset(t, 0, sizeof *t);
  if (!__atomic_exchange_n(&vram__cuda_forks, 1, __ATOMIC_RELAXED))
    (void)pthread_atfork(NULL, NULL, vram__cuda_child);
  t->api = api;
  t->options = vram__cuda_resolve(o);
  t->memory = mem;
  if (t->options.objects >> 30 || t->options.places >> 30 || !mem ||
      bytes < vram_cuda_tracker_bytes(o)) {
    int value = t->options.objects >> 30 || t->options.places >> 30;
    if (err) {
      memset(err, 0, sizeof *err);
      err->code = value ? VRAM_ERR_VALUE : VRAM_ERR_MEMORY;
      vram__cuda_put(err->text, err->text + sizeof err->text - 1,
                     value ? "objects and places: below 1073741824"
                           : "the tracker's memory is smaller than vram_cuda_tracker_bytes");
    }
    return value ? VRAM_ERR_VALUE : VRAM_ERR_MEMORY;
  }
  result = vram__cuda_empty_ledger(t, err);
  if (result)
    return result;
  ledger = (vram_ledger_bytes(&t->options.ledger) + 7) & ~UINT64_C(7);
  at += ledger;
  t->object = (vram__cuda_object *)(void *)at;
  at += sizeof *t->object * ((size_t)t->options.objects + 1);
  t->place = (vram__cuda_place *)(void *)at;
  at += sizeof *t->place * ((size_t)t->options.places + 1);
  t->object_mask = vram__cuda_power(t->options.objects) - 1;
  t->place_mask = vram__cuda_power(t->options.places) - 1;
  t->object_hash = (uint32_t *)(void *)at;
  t->place_hash = t->object_hash + t->object_mask + 1;
  vram__cuda_empty_tables(t);
  __atomic_store_n(&t->open, 1, __ATOMIC_RELEASE);
  return VRAM_OK;
}

VRAM_API void vram_cuda_tracker_end(vram_cuda_tracker *t) {
  __atomic_store_n(&t->open, 0, __ATOMIC_RELEASE);
  if (__atomic_exchange_n(&t->nvml, 0, __ATOMIC_ACQ_REL) == vram__cuda_process &&
      t->api->nvml_Shutdown)
    (void)t->api->nvml_Shutdown();
}

static uint32_t vram__cuda_hash(uint64_t key) {
  key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(key >> 32);
}

/* The tables are looked at under the table lock. 0: there is none. */
static uint32_t vram__cuda_object_at(const vram_cuda_tracker *t, uint64_t key, uint32_t type) {
  uint32_t i = t->object_hash[vram__cuda_hash(key) & t->object_mask];
  while (i && (t->object[i].key != key || t->object[i].type != type || t->object[i].gone))
    i = t->object[i].next;
  return i;
}

static void vram__cuda_object_link(vram_cuda_tracker *t, uint32_t i) {
  uint32_t *head = &t->object_hash[vram__cuda_hash(t->object[i].key) & t->object_mask];
  t->object[i].next = *head;
  *head = i;
}

static void vram__cuda_object_unlink(vram_cuda_tracker *t, uint32_t i) {
  uint32_t *p = &t->object_hash[vram__cuda_hash(t->object[i].key) & t->object_mask];
  while (*p && *p != i)
    p = &t->object[*p].next;
  if (*p)
    *p = t->object[i].next;
}

static uint32_t vram__cuda_object_new(vram_cuda_tracker *t, uint64_t key, uint32_t type,
                                      uint32_t device, uint64_t bytes) {
  uint32_t i = t->object_free;
  vram__cuda_object *o = &t->object[i];
  if (!i) {
    vram__cuda_add(&t->lost, 1);
    vram__cuda_add(&t->lost_bytes, bytes);
    return 0;
  }
  t->object_free = o->next;
  memset(o, 0, sizeof *o);
  o->key = key;
  o->type = (uint8_t)type;
  o->device = device;
  o->bytes = bytes;
  vram__cuda_object_link(t, i);
  return i;
}

/* takes an object out that is in no list */
static void vram__cuda_object_drop(vram_cuda_tracker *t, uint32_t i) {
  t->object[i].type = 0;
  t->object[i].next = t->object_free;
  t->object_free = i;
}

/* going 0: not being unmapped; else by that unmap */
static uint32_t vram__cuda_place_at(const vram_cuda_tracker *t, uint64_t address, uint32_t going) {
  uint32_t i = t->place_hash[vram__cuda_hash(address) & t->place_mask];
  while (i && (t->place[i].address != address || t->place[i].going != going))
    i = t->place[i].next;
  return i;
}

static void vram__cuda_place_new(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                                 uint32_t object) {
  uint32_t i = t->place_free, *head = &t->place_hash[vram__cuda_hash(address) & t->place_mask];
  vram__cuda_place *p = &t->place[i];
  if (!i) {
    vram__cuda_add(&t->lost, 1);
    vram__cuda_add(&t->lost_bytes, bytes);
    return;
  }
  t->place_free = p->next;
  p->address = address;
  p->bytes = bytes;
  p->object = object;
  p->going = 0;
  p->next = *head;
  *head = i;
  t->object[object].uses++;
}

static void vram__cuda_place_drop(vram_cuda_tracker *t, uint32_t i) {
  uint32_t *p = &t->place_hash[vram__cuda_hash(t->place[i].address) & t->place_mask];
  while (*p && *p != i)
    p = &t->place[*p].next;
  if (*p)
    *p = t->place[i].next;
  t->object[t->place[i].object].uses--;
  t->place[i].address = 0;
  t->place[i].next = t->place_free;
  t->place_free = i;
}

/* ---- events */

#define VRAM__CUDA_DEPTH 16

/* what this thread says about its allocations */
typedef struct vram__cuda_said {
  const char *tag[VRAM__CUDA_DEPTH];
  uint8_t category[VRAM__CUDA_DEPTH];
  uint32_t depth; /* may be more than there is room for: then the innermost are not heard */
} vram__cuda_said;

static VRAM__THREAD vram__cuda_said vram__cuda_thread;

static uint32_t vram__cuda_top(void) {
  uint32_t d = vram__cuda_thread.depth;
  return d > VRAM__CUDA_DEPTH ? VRAM__CUDA_DEPTH : d;
}

VRAM_API uint32_t vram_cuda_site(vram_cuda_tracker *t, const char *file, uint32_t line,
                                 const char *function) {
  uint32_t d = vram__cuda_top();
  return vram__cuda_open(t) ? vram_ledger_owner(&t->ledger, file, line, function,
                                                d ? vram__cuda_thread.tag[d - 1] : vram__nvtx_tag())
                            : 0;
}

static vram_event vram__cuda_event(vram_action action, uint32_t device, uint64_t bytes) {
  uint32_t d = vram__cuda_top();
  vram_event e;
  memset(&e, 0, sizeof e);
  e.action = action;
  e.phase = VRAM_PHASE_END;
  e.category = e.was = d ? (vram_category)vram__cuda_thread.category[d - 1] : VRAM_CATEGORY_OTHER;
  e.id = -1;
  e.bytes = bytes;
  e.device = (uint8_t)device;
  return e;
}

VRAM_API void vram_cuda_on_alloc(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                                 uint64_t address, uint64_t bytes, uint64_t block_bytes,
                                 uint32_t owner) {
  vram_event e;
  if (!address || !vram__cuda_open(t))
    return;
  e = vram__cuda_event(VRAM_ACTION_ALLOC, device, bytes);
  if (kind == VRAM_CUDA_PINNED || kind == VRAM_CUDA_REGISTERED) {
    e.stream = device; /* host memory has no stream: cudaDeviceReset wants to know */
    e.device = VRAM_DEVICE_HOST;
  }
  e.address = address;
  e.block_bytes = block_bytes ? block_bytes : bytes;
  e.small_pool = bytes <= VRAM_SMALL_POOL_BYTES;
  e.whole = kind != VRAM_CUDA_MANAGED && kind != VRAM_CUDA_ASYNC && kind != VRAM_CUDA_REGISTERED;
  e.kind = (uint8_t)kind;
  e.owner = owner;
  vram_ledger_event(&t->ledger, &e);
}

static void vram__cuda_reserved(vram_cuda_tracker *t, uint32_t device, uint64_t was, uint64_t now) {
  vram_event e = vram__cuda_event(now > was ? VRAM_ACTION_SEGMENT_MAP : VRAM_ACTION_SEGMENT_UNMAP,
                                  device, now > was ? now - was : was - now);
  if (now == was)
    return;
  e.kind = VRAM_CUDA_ASYNC;
  vram_ledger_event(&t->ledger, &e);
}

/* Reads one pool. The ticket is drawn before the reading: of two readings that overtake each other
   the one that began later counts, so that after the last event the last state is known. While a
   pool is read it is not destroyed: vram_cuda_on_pool_destroy waits for readers. */
static void vram__cuda_read(vram_cuda_tracker *t, uint32_t i) { /* under the lock, which it opens */
  vram__cuda_object *o = &t->object[i];
  uint64_t ticket = ++t->ticket, held = 0;
  void *pool = (void *)(uintptr_t)o->key;
  int failed;
  o->readers++;
  vram__cuda_unlock(t);
  if (t->api->cuda_MemPoolGetAttribute)
    failed = t->api->cuda_MemPoolGetAttribute(pool, 5, &held);
  else
    failed = t->api->cu_MemPoolGetAttribute ? t->api->cu_MemPoolGetAttribute(pool, 5, &held) : 801;
  vram__cuda_lock(t);
  if (!o->readers)
    return; /* in the child of a fork */
  o->readers--;
  if (failed || ticket < o->ticket)
    return;
  o->ticket = ticket;
  vram__cuda_reserved(t, o->device, o->bytes, held);
  o->bytes = held;
}

VRAM_API int vram_cuda_on_free(vram_cuda_tracker *t, uint64_t address, vram_cuda_record *r) {
  memset(r, 0, sizeof *r);
  if (!address || !vram__cuda_open(t) || !vram_ledger_take(&t->ledger, address, &r->was))
    return 0;
  if (r->was.kind == VRAM_CUDA_ASYNC) {
    vram__cuda_lock(t);
    r->place = vram__cuda_place_at(t, address, 0);
    if (r->place) /* out of sight: another thread may get the address */
      t->place[r->place].going = VRAM__CUDA_FREEING;
    vram__cuda_unlock(t);
  }
  return 1;
}

static void vram__cuda_back(vram_cuda_tracker *t, const vram_allocation *was) {
  vram_event e = vram__cuda_event(VRAM_ACTION_ALLOC, was->device, was->bytes);
  e.category = e.was = (vram_category)was->category;
  e.address = was->address;
  e.block_bytes = was->block_bytes;
  e.stream = was->stream;
  e.time = was->time;
  e.owner = was->owner;
  e.kind = was->kind;
  e.small_pool = was->flags & 1;
  e.whole = was->flags >> 1 & 1;
  vram_ledger_event(&t->ledger, &e);
}

VRAM_API void vram_cuda_on_freed(vram_cuda_tracker *t, const vram_cuda_record *r, int ok) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  if (!ok)
    vram__cuda_back(t, &r->was);
  if (!r->place)
    return;
  vram__cuda_lock(t);
  if (t->place[r->place].going != VRAM__CUDA_FREEING) /* in the child of a fork, after a reset */
    ;
  else if (!ok)
    t->place[r->place].going = 0;
  else {
    vram__cuda_object *o = &t->object[i = t->place[r->place].object];
    o->address -= t->place[r->place].bytes;
    vram__cuda_place_drop(t, r->place);
    if (!o->gone)
      vram__cuda_read(t, i);
    else if (o->gone == VRAM__CUDA_GONE) {
      vram__cuda_reserved(t, o->device, o->bytes, o->address);
      o->bytes = o->address;
      if (!o->uses)
        vram__cuda_object_drop(t, i);
    }
  }
  vram__cuda_unlock(t);
}

/* ---- memory pools */

VRAM_API void vram_cuda_on_pool(vram_cuda_tracker *t, uint64_t pool, uint32_t device) {
  if (!pool || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  if (!vram__cuda_object_at(t, pool, VRAM__CUDA_POOL))
    vram__cuda_object_new(t, pool, VRAM__CUDA_POOL, device, 0);
  vram__cuda_unlock(t);
}

VRAM_API void vram_cuda_on_pool_alloc(vram_cuda_tracker *t, uint64_t pool, uint32_t device,
                                      uint64_t stream, uint64_t address, uint64_t bytes,
                                      uint32_t owner) {
  uint32_t i;
  vram_event e;
  if (!address || !vram__cuda_open(t))
    return;
  vram_cuda_on_pool(t, pool, device);
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, pool, VRAM__CUDA_POOL);
  if (i) {
    device = t->object[i].device;
    vram__cuda_place_new(t, address, bytes, i);
    t->object[i].address += bytes;
  }
  vram__cuda_unlock(t);
  e = vram__cuda_event(VRAM_ACTION_ALLOC, device, bytes);
  e.address = address;
  e.stream = stream;
  e.small_pool = bytes <= VRAM_SMALL_POOL_BYTES;
  e.kind = VRAM_CUDA_ASYNC;
  e.owner = owner;
  vram_ledger_event(&t->ledger, &e);
  if (i)
    vram_cuda_on_pool_read(t, pool);
}

VRAM_API void vram_cuda_on_pool_read(vram_cuda_tracker *t, uint64_t pool) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  if (pool) {
    i = vram__cuda_object_at(t, pool, VRAM__CUDA_POOL);
    if (i)
      vram__cuda_read(t, i);
  } else
    for (i = 1; i <= t->options.objects; i++)
      if (t->object[i].type == VRAM__CUDA_POOL && !t->object[i].gone)
        vram__cuda_read(t, i);
  vram__cuda_unlock(t);
}

VRAM_API int vram_cuda_on_pool_destroy(vram_cuda_tracker *t, uint64_t pool) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, pool, VRAM__CUDA_POOL);
  if (i) {
    t->object[i].gone = VRAM__CUDA_GOING;
    while (t->object[i].readers) {
      vram__cuda_unlock(t);
      sched_yield();
      vram__cuda_lock(t);
    }
  } else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
  return i != 0;
}

VRAM_API void vram_cuda_on_pool_destroyed(vram_cuda_tracker *t, uint64_t pool, int ok) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = t->object_hash[vram__cuda_hash(pool) & t->object_mask];
  while (i && (t->object[i].key != pool || t->object[i].type != VRAM__CUDA_POOL ||
               t->object[i].gone != VRAM__CUDA_GOING))
    i = t->object[i].next; /* another may have been created at that place meanwhile */
  if (i && !ok)
    t->object[i].gone = 0;
  else if (i) {
    vram__cuda_object *o = &t->object[i];
    vram__cuda_object_unlink(t, i);
    o->gone = VRAM__CUDA_GONE;
    vram__cuda_reserved(t, o->device, o->bytes, o->address);
    o->bytes = o->address;
    if (!o->uses)
      vram__cuda_object_drop(t, i);
  }
  vram__cuda_unlock(t);
}

/* ---- physical memory and its mappings */

VRAM_API void vram_cuda_on_create(vram_cuda_tracker *t, uint64_t handle, uint32_t device,
                                  uint64_t bytes, uint32_t owner) {
  uint64_t address;
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_new(t, handle, VRAM__CUDA_HANDLE, device, bytes);
  address = t->next_address;
  if (i) {
    t->object[i].address = address;
    t->object[i].refs = 1;
    t->next_address += (bytes + 0x1fffff) & ~UINT64_C(0x1fffff);
  }
  vram__cuda_unlock(t);
  if (i) {
    vram_event e = vram__cuda_event(VRAM_ACTION_ALLOC, device, bytes);
    e.address = address;
    e.block_bytes = bytes;
    e.small_pool = bytes <= VRAM_SMALL_POOL_BYTES;
    e.whole = 1;
    e.kind = VRAM_CUDA_VMM;
    e.owner = owner;
    vram_ledger_event(&t->ledger, &e);
  }
}

/* the mapping that has this address in it */
static uint32_t vram__cuda_mapping(const vram_cuda_tracker *t, uint64_t address) {
  uint32_t i = vram__cuda_place_at(t, address, 0);
  if (i)
    return i;
  for (i = 1; i <= t->options.places; i++)
    if (t->place[i].address && address - t->place[i].address < t->place[i].bytes &&
        !t->place[i].going)
      return i;
  return 0;
}

VRAM_API void vram_cuda_on_retain(vram_cuda_tracker *t, uint64_t handle, uint64_t address) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, handle, VRAM__CUDA_HANDLE);
  if (!i && address) { /* released since, and a handle again */
    i = vram__cuda_mapping(t, address);
    i = i ? t->place[i].object : 0;
    i = t->object[i].type == VRAM__CUDA_HANDLE && !t->object[i].refs ? i : 0;
    if (i) {
      t->object[i].key = handle;
      vram__cuda_object_link(t, i);
    }
  }
  if (i)
    t->object[i].refs++;
  else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
}

/* nobody holds the object and it is mapped nowhere: the memory is the device's again, or another
   process's alone; under the lock */
static void vram__cuda_settle(vram_cuda_tracker *t, uint32_t i) {
  vram_allocation was;
  if (t->object[i].refs || t->object[i].uses || t->object[i].readers)
    return;
  if (t->object[i].type == VRAM__CUDA_IPC) {
    vram__cuda_add(&t->ipc_bytes, 0 - t->object[i].bytes);
    vram__cuda_add(&t->ipc_count, 0 - UINT64_C(1));
  } else
    (void)vram_ledger_take(&t->ledger, t->object[i].address, &was);
  vram__cuda_object_drop(t, i);
}

/* The last reference takes an object out of the table at once: another cuMemCreate may get the
   same handle. Until it is known whether the call has succeeded, `readers` keeps the object. */
static uint32_t vram__cuda_object_leave(vram_cuda_tracker *t, uint64_t key, uint8_t type) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, key, type);
  if (i) {
    t->object[i].readers++;
    if (!--t->object[i].refs)
      vram__cuda_object_unlink(t, i);
  } else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
  return i;
}

static void vram__cuda_object_left(vram_cuda_tracker *t, uint32_t object, uint8_t type, int ok) {
  vram__cuda_object *o;
  if (!object || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  o = &t->object[object];
  if (o->type == type && o->readers) { /* else: in the child of a fork, after a reset */
    o->readers--;
    if (!ok && !o->refs++)
      vram__cuda_object_link(t, object);
    vram__cuda_settle(t, object);
  }
  vram__cuda_unlock(t);
}

VRAM_API uint32_t vram_cuda_on_release(vram_cuda_tracker *t, uint64_t handle) {
  return vram__cuda_object_leave(t, handle, VRAM__CUDA_HANDLE);
}

VRAM_API void vram_cuda_on_released(vram_cuda_tracker *t, uint32_t object, int ok) {
  vram__cuda_object_left(t, object, VRAM__CUDA_HANDLE, ok);
}

VRAM_API void vram_cuda_on_map(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                               uint64_t handle) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, handle, VRAM__CUDA_HANDLE);
  if (i)
    vram__cuda_place_new(t, address, bytes, i);
  else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
}

/* The mappings in a range that the unmap `from` is taking (0: none is) become those of `to`, or
   with drop go. Mappings lie side by side, as a rule: they are found by their addresses. */
static uint32_t vram__cuda_range(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                                 uint32_t from, uint32_t to, int drop) {
  uint64_t at = address, end = address + bytes;
  uint32_t i, n = 0, k;
  for (;;) {
    i = at < end ? vram__cuda_place_at(t, at, from) : 0;
    if (!i)
      break;
    at += t->place[i].bytes;
    n++;
    t->place[i].going = to;
    if (drop) {
      k = t->place[i].object;
      vram__cuda_place_drop(t, i);
      vram__cuda_settle(t, k);
    }
  }
  for (i = 1; at < end && i <= t->options.places; i++)
    if (t->place[i].address >= at && t->place[i].address < end && t->place[i].going == from &&
        t->object[t->place[i].object].type == VRAM__CUDA_HANDLE) {
      n++;
      t->place[i].going = to;
      if (drop) {
        k = t->place[i].object;
        vram__cuda_place_drop(t, i);
        vram__cuda_settle(t, k);
      }
    }
  return n;
}

VRAM_API uint32_t vram_cuda_on_unmap(vram_cuda_tracker *t, uint64_t address, uint64_t bytes) {
  uint32_t going;
  if (!vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  if (++t->going == VRAM__CUDA_FREEING)
    t->going = 1;
  going = t->going;
  if (!vram__cuda_range(t, address, bytes, 0, going, 0)) {
    vram__cuda_add(&t->unknown, 1);
    going = 0;
  }
  vram__cuda_unlock(t);
  return going;
}

VRAM_API void vram_cuda_on_unmapped(vram_cuda_tracker *t, uint32_t unmap, uint64_t address,
                                    uint64_t bytes, int ok) {
  if (!unmap || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  (void)vram__cuda_range(t, address, bytes, unmap, 0, ok);
  vram__cuda_unlock(t);
}

/* ---- memory of other processes, graphs, resets */

VRAM_API void vram_cuda_on_open(vram_cuda_tracker *t, uint64_t address, uint64_t bytes) {
  uint32_t i;
  if (!address || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, address, VRAM__CUDA_IPC);
  if (i)
    t->object[i].refs++; /* CUDA gives the same address again */
  else {
    i = vram__cuda_object_new(t, address, VRAM__CUDA_IPC, 0, bytes);
    if (i) {
      t->object[i].refs = 1;
      vram__cuda_add(&t->ipc_bytes, bytes);
      vram__cuda_add(&t->ipc_count, 1);
    }
  }
  vram__cuda_unlock(t);
}

VRAM_API uint32_t vram_cuda_on_close(vram_cuda_tracker *t, uint64_t address) {
  return address ? vram__cuda_object_leave(t, address, VRAM__CUDA_IPC) : 0;
}

VRAM_API void vram_cuda_on_closed(vram_cuda_tracker *t, uint32_t object, int ok) {
  vram__cuda_object_left(t, object, VRAM__CUDA_IPC, ok);
}

VRAM_API void vram_cuda_on_graph(vram_cuda_tracker *t, uint64_t bytes) {
  if (!vram__cuda_open(t))
    return;
  vram__cuda_add(&t->graph_nodes, 1);
  vram__cuda_add(&t->graph_bytes, bytes);
}

VRAM_API int vram_cuda_capturing(const vram_cuda_api *api, void *stream) {
  int status = 0;
  if (api->cuda_StreamIsCapturing)
    return !VRAM__CUDA_TWICE(api->cuda_StreamIsCapturing(stream, &status)) && status != 0;
  return api->cu_StreamIsCapturing &&
         !VRAM__CUDA_TWICE(api->cu_StreamIsCapturing(stream, &status)) && status != 0;
}

VRAM_API void vram_cuda_on_reset(vram_cuda_tracker *t, uint32_t device) {
  uint64_t list[128];
  uint32_t i, n;
  if (!vram__cuda_open(t))
    return;
  do {
    n = 0;
    vram__cuda_lock_ledger(t);
    for (i = 0; i <= t->ledger.live_mask && n < sizeof list / sizeof *list; i++) {
      const vram_allocation *a = t->ledger.live + i;
      if (a->address && (a->device == VRAM_DEVICE_HOST ? a->stream : a->device) == device)
        list[n++] = a->address;
    }
    vram__cuda_unlock_ledger(t);
    for (i = 0; i < n; i++)
      (void)vram_ledger_take(&t->ledger, list[i], NULL);
  } while (n);
  vram__cuda_lock(t);
  for (i = 1; i <= t->options.places; i++)
    if (t->place[i].address && t->object[t->place[i].object].device == device)
      vram__cuda_place_drop(t, i);
  for (i = 1; i <= t->options.objects; i++)
    if (t->object[i].type && t->object[i].device == device) {
      if (t->object[i].type == VRAM__CUDA_POOL)
        vram__cuda_reserved(t, device, t->object[i].bytes, 0);
      if (t->object[i].type == VRAM__CUDA_IPC) {
        vram__cuda_add(&t->ipc_bytes, 0 - t->object[i].bytes);
        vram__cuda_add(&t->ipc_count, 0 - UINT64_C(1));
      }
      vram__cuda_object_unlink(t, i); /* one that is in no list: nothing */
      vram__cuda_object_drop(t, i);
    }
  vram__cuda_unlock(t);
}
