/* >>view (Implementation) ---------------------------------------------------------------------- */

VRAM_API void vram_cuda_memory_stats(vram_cuda_tracker *t, uint32_t device,
                                     vram_memory_stats *stats) {
  t = vram__cuda_of(t);
  memset(stats, 0, sizeof *stats);
  if (!vram__cuda_open(t))
    return;
  vram_cuda_on_pool_read(t, 0);
  vram_ledger_stats(&t->ledger, device, stats);
}

VRAM_API uint64_t vram_cuda_memory_allocated(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.allocated_bytes[VRAM_POOL_ALL].current;
}

VRAM_API uint64_t vram_cuda_max_memory_allocated(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.allocated_bytes[VRAM_POOL_ALL].peak;
}

VRAM_API uint64_t vram_cuda_memory_reserved(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.reserved_bytes[VRAM_POOL_ALL].current;
}

VRAM_API uint64_t vram_cuda_max_memory_reserved(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.reserved_bytes[VRAM_POOL_ALL].peak;
}

VRAM_API void vram_cuda_reset_peak_memory_stats(vram_cuda_tracker *t) {
  t = vram__cuda_of(t);
  if (vram__cuda_open(t))
    vram_ledger_reset_peak(&t->ledger);
}

/* NVML is asked for the first time: 1: it answers */
static int vram__nvml_begin(vram_cuda_tracker *t) {
  uint32_t none = __atomic_load_n(&t->nvml, __ATOMIC_ACQUIRE), begun = vram__cuda_process;
  if (none == begun)
    return 1;
  if (!t->api->nvml_Init || t->api->nvml_Init())
    return 0;
  if (!__atomic_compare_exchange_n(&t->nvml, &none, begun, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
      t->api->nvml_Shutdown)
    (void)t->api->nvml_Shutdown(); /* another thread was faster: NVML counts */
  return 1;
}

/* One more process; the lists of compute and graphics may both have it. */
static void vram__cuda_process_add(vram_process *list, uint32_t *n, uint32_t cap, uint32_t pid,
                                   uint64_t bytes) {
  uint32_t i;
  for (i = 0; i < *n; i++)
    if (list[i].pid == pid) {
      if (list[i].bytes == VRAM_UNKNOWN || (bytes != VRAM_UNKNOWN && bytes > list[i].bytes))
        list[i].bytes = bytes;
      return;
    }
  if (*n == cap)
    return;
  list[*n].pid = pid;
  list[*n].name = NULL;
  list[(*n)++].bytes = bytes;
}

#define VRAM__NVML_PROCESSES 256

/* The processes on a device: 0: NVML does not tell them all. */
static int vram__nvml_processes(const vram_cuda_api *api, void *device, vram_process *list,
                                uint32_t *count) {
  vram_nvml_process p[VRAM__NVML_PROCESSES];
  vram_nvml_process1 *old = (vram_nvml_process1 *)(void *)p; /* each no larger */
  int (*newer[2])(void *, unsigned *, vram_nvml_process *);
  int (*older[2])(void *, unsigned *, vram_nvml_process1 *);
  int kind, failed = 0;
  unsigned i, n;
  newer[0] = api->nvml_DeviceGetComputeRunningProcesses3
                 ? api->nvml_DeviceGetComputeRunningProcesses3
                 : api->nvml_DeviceGetComputeRunningProcesses2;
  newer[1] = api->nvml_DeviceGetGraphicsRunningProcesses3
                 ? api->nvml_DeviceGetGraphicsRunningProcesses3
                 : api->nvml_DeviceGetGraphicsRunningProcesses2;
  older[0] = api->nvml_DeviceGetComputeRunningProcesses1;
  older[1] = api->nvml_DeviceGetGraphicsRunningProcesses1;
  *count = 0;
  for (kind = 0; kind < 2; kind++) {
    int result = 1;
    n = VRAM__NVML_PROCESSES;
    /* as many as there is room for at once: the list may grow between two questions */
    if (newer[kind])
      result = newer[kind](device, &n, p);
    else if (older[kind])
      result = older[kind](device, &n, old);
    if (result) { /* graphics: many devices have none */
      failed |= kind == 0 || result == 7;
      continue;
    }
    for (i = 0; i < n && i < VRAM__NVML_PROCESSES; i++)
      vram__cuda_process_add(list, count, VRAM__NVML_PROCESSES, newer[kind] ? p[i].pid : old[i].pid,
                             newer[kind] ? p[i].bytes : old[i].bytes);
  }
  return !failed;
}

/* whose memory it is, from what NVML says */
static void vram__cuda_view_processes(vram_cuda_view *v, vram_process *list, uint32_t n) {
  const uint32_t pid = (uint32_t)getpid();
  uint32_t i, k;
  int all = 1;
  uint64_t others = 0;
  for (i = 0; i < n; i++) {
    vram_process x = list[i];
    if (x.pid == pid) {
      v->process = x.bytes;
      continue;
    }
    if (x.bytes == VRAM_UNKNOWN)
      all = 0;
    else
      others += x.bytes;
    for (k = v->nother < VRAM_CUDA_PROCESSES ? v->nother++ : VRAM_CUDA_PROCESSES - 1;
         k && (v->other[k - 1].bytes == VRAM_UNKNOWN ||
               (v->other[k - 1].bytes < x.bytes && x.bytes != VRAM_UNKNOWN));
         k--)
      v->other[k] = v->other[k - 1];
    v->other[k] = x;
  }
  if (all)
    v->others = others;
  /* a driver that sees other numbers of processes (containers) does not know this one */
  if (v->process == VRAM_UNKNOWN && all && v->total != VRAM_UNKNOWN &&
      v->total - v->free >= others && v->total - v->free - others >= v->reserved) {
    v->process = v->total - v->free - others;
    v->derived = 1;
  }
}

/* Makes a device current; what was, for vram__cuda_device_back: -1: nothing is to be done, -2: it
   cannot be made current. */
static int vram__cuda_device_set(const vram_cuda_api *api, uint32_t device) {
  int was = -1;
  if (!api->cuda_GetDevice || VRAM__CUDA_TWICE(api->cuda_GetDevice(&was)))
    return -2;
  if (was == (int)device)
    return -1;
  return !api->cuda_SetDevice || VRAM__CUDA_TWICE(api->cuda_SetDevice((int)device)) ? -2 : was;
}

static void vram__cuda_device_back(const vram_cuda_api *api, int was) {
  if (was >= 0)
    (void)VRAM__CUDA_TWICE(api->cuda_SetDevice(was));
}

VRAM_API vram_result vram_cuda_view_of(vram_cuda_tracker *t, uint32_t device, vram_cuda_view *v) {
  vram_process list[VRAM__NVML_PROCESSES];
  const vram_cuda_api *api;
  vram_memory_stats s;
  char id[32];
  uint32_t n = 0;
  size_t left = 0, total = 0;
  void *handle = NULL;
  int was, answered;
  t = vram__cuda_of(t);
  api = t->api;
  memset(v, 0, sizeof *v);
  v->total = v->free = v->process = v->untracked = v->others = VRAM_UNKNOWN;
  if (device >= (uint32_t)VRAM_DEVICE_HOST ||
      (api->devices > 0 && device >= (uint32_t)api->devices))
    return VRAM_ERR_VALUE;
  vram_cuda_memory_stats(t, device, &s);
  v->allocated = s.allocated_bytes[VRAM_POOL_ALL].current;
  v->reserved = s.reserved_bytes[VRAM_POOL_ALL].current;
  was = api->cuda_MemGetInfo ? vram__cuda_device_set(api, device) : -2;
  if (was == -2)
    return VRAM_ERR_UNSUPPORTED;
  answered = !api->cuda_MemGetInfo(&left, &total);
  vram__cuda_device_back(api, was);
  if (!answered)
    return VRAM_ERR_UNSUPPORTED;
  v->total = total;
  v->free = left;
  /* CUDA and NVML number devices differently: the place on the bus is the same */
  memset(id, 0, sizeof id);
  if (api->cuda_DeviceGetPCIBusId && !api->cuda_DeviceGetPCIBusId(id, sizeof id, (int)device) &&
      api->nvml_DeviceGetHandleByPciBusId && vram__nvml_begin(t) &&
      !api->nvml_DeviceGetHandleByPciBusId(id, &handle) &&
      vram__nvml_processes(api, handle, list, &n))
    vram__cuda_view_processes(v, list, n);
  if (v->process != VRAM_UNKNOWN && v->process >= v->reserved)
    v->untracked = v->process - v->reserved;
  return VRAM_OK;
}

/* What vram_write_oom can know; v has the processes. */
static vram_oom vram__cuda_oom(vram_cuda_tracker *t, vram_cuda_view *v, uint32_t device,
                               uint64_t bytes, uint64_t stream, uint32_t owner) {
  vram_oom o = VRAM_ZERO_INIT;
  o.bytes = bytes;
  o.stream = stream;
  o.device = device;
  o.owner = owner;
  o.has_view = vram_cuda_view_of(t, device, v) == VRAM_OK;
  if (!o.has_view)
    return o;
  o.total_bytes = v->total;
  o.free_bytes = v->free;
  o.process_bytes = v->process;
  o.process = v->other;
  o.nprocess = v->nother;
  return o;
}

VRAM_API void vram_cuda_on_oom(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                               uint64_t bytes, uint64_t stream, uint32_t owner) {
  vram_cuda_view view;
  vram_sink sink;
  vram_event e;
  vram_oom o;
  if (!vram__cuda_open(t))
    return;
  sink = vram__cuda_sink(t);
  o = vram__cuda_oom(t, &view, device, bytes, stream, owner);
  o.call = vram_cuda_kind_name((uint32_t)kind);
  e = vram__cuda_event(VRAM_ACTION_OOM, device, bytes);
  e.stream = stream;
  e.owner = owner;
  e.kind = (uint8_t)kind;
  e.device_free = o.has_view ? o.free_bytes : 0;
  vram_ledger_event(&t->ledger, &e);
  if (!t->options.quiet)
    (void)vram_write_oom(&t->ledger, &o, &sink);
}
