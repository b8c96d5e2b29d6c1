/* Bytes -> a trace, whatever kind of file they are, packed or not -> both policies of the pool, the
   BFC allocator, the table of what is alive, under options that the last bytes choose.
   clang -g -O1 -fsanitize=fuzzer,address,undefined -Ibuild tests/fuzz/trace.c \
     build/fuzz/tool.a -o build/fuzz-trace -ldl
   build/fuzz-trace -close_fd_mask=3 build/corpus tests/fuzz/corpus/trace */
#include "../../tools/vram_replay.c"

#include "fuzz.h"

/* Ids count allocations, each is freed at most once, what was alive before comes first. */
static void check_trace(const trace *t) {
  uint8_t *state = (uint8_t *)calloc((size_t)t->ids + 1, 1);
  size_t i, calls = 0;
  MUST(state && t->before <= t->n);
  for (i = 0; i < t->n; i++) {
    const vram_event *e = t->event + i;
    calls += e->action == VRAM_ACTION_ALLOC || e->action == VRAM_ACTION_FREE ||
             e->action == VRAM_ACTION_MARK;
    MUST(t->note[i].node < t->ntext && t->note[i].phase < t->ntext &&
         t->note[i].category < t->ntext);
    MUST(i >= t->before || e->action == VRAM_ACTION_ALLOC);
    if (e->action > VRAM_ACTION_FREE_REQUESTED || e->action == VRAM_ACTION_BECOMES)
      continue;
    MUST(e->id >= 0 && e->id < t->ids);
    if (e->action == VRAM_ACTION_ALLOC)
      MUST(!state[e->id]);
    else
      MUST(state[e->id] == 1 || (state[e->id] == 2 && e->action == VRAM_ACTION_FREE));
    state[e->id] = e->action == VRAM_ACTION_ALLOC            ? 1
                   : e->action == VRAM_ACTION_FREE_REQUESTED ? 2
                                                             : 3;
  }
  MUST(calls == t->ncalls);
  free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const unsigned choice = size ? data[size - 1] : 0;
  char *copy = (char *)malloc(size + 1);
  trace t;
  if (!copy)
    return 0;
  memcpy(copy, data, size);
  if (trace_unpack("input", &copy, &size)) {
    free(copy);
    return 0;
  }
  if (!trace_from(&t, "input", copy, size, choice & 1 ? 1 : -1)) {
    replay r;
    replay_job out;
    played p;
    bfc_job bfc;
    int k, status;
    check_trace(&t);
    memset(&r, 0, sizeof r);
    memset(&out, 0, sizeof out);
    out.snapshot = "/dev/null";
    r.options.total_bytes = UINT64_C(1) << (20 + choice % 20);
    r.options.limit_bytes = choice & 2 ? r.options.total_bytes / 2 : 0;
    r.options.expandable_segments = (choice & 4) != 0;
    r.options.max_split_size = choice & 8 ? UINT64_C(32) << 20 : 0;
    r.options.garbage_collection_threshold = choice & 16 ? 500000 : 0;
    status = replay_begin(&r, &t);
    for (k = 0; k < 2 && !status; k++) {
      const vram_memory_stats *s = &p.stats;
      out.csv = k;
      status = play_all(&r, k ? VRAM_POOL_BEST : VRAM_POOL_TORCH, &out, &p);
      MUST(status || (s->requested_bytes[0].current <= s->active_bytes[0].current &&
                      s->allocated_bytes[0].current <= s->active_bytes[0].current &&
                      s->active_bytes[0].current <= s->reserved_bytes[0].current &&
                      s->reserved_bytes[0].peak <= r.options.total_bytes));
    }
    free(r.address);
    free(r.state);
    memset(&bfc, 0, sizeof bfc);
    bfc.total_bytes = r.options.total_bytes;
    bfc.conf = choice & 2 ? "preallocate:True" : choice & 4 ? "garbage_collection:True" : NULL;
    bfc.csv = (choice & 1) != 0;
    status = bfc_replay(&bfc, &t);
    MUST(status == FITS || status == TOO_LARGE);
    MUST(state_report(&t, choice & 1, choice) == FITS);
  }
  trace_end(&t);
  free(copy);
  return 0;
}
