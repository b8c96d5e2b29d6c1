/* vram replay --policy bfc: a stream of allocations through the allocator of JAX and TensorFlow. */
#include "vram_bfc.h"

typedef struct bfc_play {
  const trace *t;
  bfc_stats stats;
  uint32_t *chunk; /* by id */
  uint64_t largest_free;
  size_t peak_at;  /* event: the first that reached the peak */
  size_t fails_at; /* event: the first that found no place; t->n: none */
  uint64_t fails_in_use, fails_free;
  size_t elsewhere_at; /* event: the first that lies elsewhere than recorded; t->n: none */
  uint64_t placed, elsewhere;
  uint64_t regions, other_regions; /* recorded; allocations that took another one, or none */
  uint64_t failed;  /* allocations of the log that failed when it was written, and are not played */
  size_t failed_at; /* event: the first of these */
} bfc_play;

static int yes_or_no(const char *s, size_t n, int *to) {
  *to = n == 4 && !memcmp(s, "True", 4);
  return *to || (n == 5 && !memcmp(s, "False", 5));
}

/* "preallocate:True,garbage_collection:False"; not FITS: message printed. */
static int bfc_conf(const char *conf, int *preallocate, int *garbage_collection) {
  static const char keys[] = "preallocate:True|False, garbage_collection:True|False";
  while (conf && *conf) {
    const char *const end = strchr(conf, ',');
    const size_t n = end ? (size_t)(end - conf) : strlen(conf);
    const char *const colon = (const char *)memchr(conf, ':', n);
    const size_t key = colon ? (size_t)(colon - conf) : n;
    int *const to = key == 11 && !memcmp(conf, "preallocate", 11)          ? preallocate
                    : key == 18 && !memcmp(conf, "garbage_collection", 18) ? garbage_collection
                                                                           : NULL;
    if (!to || !colon || !yes_or_no(colon + 1, n - key - 1, to))
      return cmd_bad("not an option of the BFC allocator", conf, keys);
    conf = end ? end + 1 : conf + n;
  }
  return FITS;
}

/* In a log of this allocator; another allocator's failure says nothing of this one. */
static int did_fail(const trace *t, const vram_event *e) { return t->is_bfc && e->kind == FAILED; }

static void play_alloc(bfc_play *p, bfc *b, size_t i) {
  const vram_event *const e = p->t->event + i;
  const uint64_t peak = b->stats.peak_bytes_in_use, recorded = b->hint ? b->hint_bytes : 0;
  uint32_t at;
  p->chunk[e->id] = BFC_NONE;
  if (did_fail(p->t, e)) { /* the program went on without it */
    if (!p->failed++)
      p->failed_at = i;
    return;
  }
  b->extended = 0;
  at = p->chunk[e->id] = e->bytes ? bfc_alloc(b, e->bytes) : BFC_NONE;
  b->hint = 0;
  p->other_regions += b->extended != recorded;
  if (b->stats.peak_bytes_in_use > peak)
    p->peak_at = i;
  if (at == BFC_NONE) {
    if (e->bytes && p->fails_at == p->t->n) {
      p->fails_at = i;
      p->fails_in_use = b->stats.bytes_in_use;
      p->fails_free = bfc_largest_free(b);
    }
    return;
  }
  if (e->kind == FAILED) { /* nobody will free it */
    bfc_free(b, at);
    p->chunk[e->id] = BFC_NONE;
    return;
  }
  if (!e->address || !p->regions)
    return;
  p->placed++;
  if (b->chunk[at].address != e->address) {
    p->elsewhere++;
    if (p->elsewhere_at == p->t->n)
      p->elsewhere_at = i;
  }
}

static void play_event(bfc_play *p, bfc *b, size_t i) {
  const vram_event *const e = p->t->event + i;
  switch (e->action) {
  case VRAM_ACTION_SEGMENT_ALLOC:
    if (p->t->is_bfc) {
      b->hint = e->address;
      b->hint_bytes = e->bytes;
      p->regions++;
    }
    break;
  case VRAM_ACTION_ALLOC:
    play_alloc(p, b, i);
    break;
  case VRAM_ACTION_FREE:
    if (p->chunk[e->id] != BFC_NONE)
      bfc_free(b, p->chunk[e->id]);
    p->chunk[e->id] = BFC_NONE;
    break;
  default:
    break;
  }
}

static void print_call(const bfc_play *p, const bfc *b, size_t i) {
  const vram_event *const e = p->t->event + i;
  if (e->action == VRAM_ACTION_ALLOC)
    printf("alloc,%" PRId64 ",%" PRIu64 ",%" PRIu64 ",%s", e->id, e->bytes, e->stream,
           did_fail(p->t, e)                                               ? "failed"
           : p->chunk[e->id] != BFC_NONE || e->kind == FAILED || !e->bytes ? "ok"
                                                                           : "oom");
  else if (e->action == VRAM_ACTION_FREE)
    printf("free,%" PRId64 ",,,ok", e->id);
  else
    return;
  printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", b->stats.bytes_in_use,
         b->stats.pool_bytes, b->stats.requested, b->stats.regions);
}

static int play(const bfc_job *j, bfc_play *p, uint64_t limit, int preallocate, int collects) {
  bfc b;
  size_t i;
  p->chunk = (uint32_t *)malloc(((size_t)p->t->ids + 1) * sizeof *p->chunk);
  if (!p->chunk)
    return cmd_no_memory();
  p->fails_at = p->elsewhere_at = p->t->n;
  bfc_begin(&b, limit, preallocate, collects);
  if (j->csv)
    printf("action,id,size,stream,result,allocated,reserved,requested,segments\n");
  for (i = 0; i < p->t->n && !b.no_memory; i++) {
    play_event(p, &b, i);
    if (j->csv)
      print_call(p, &b, i);
  }
  p->stats = b.stats;
  p->largest_free = bfc_largest_free(&b);
  i = (size_t)b.no_memory;
  bfc_end(&b);
  free(p->chunk);
  p->chunk = NULL;
  return i ? cmd_no_memory() : FITS;
}

static double unused(const bfc_stats *s) {
  return s->peak_pool_bytes ? 1 - (double)s->peak_bytes_in_use / (double)s->peak_pool_bytes : 0;
}

static const char *place(const trace *t, size_t i, char to[400]) {
  const trace_note *const n = t->note + i;
  snprintf(to, 400, "%s %" PRIu32 "%s%s", trace_unit(t), n->line, n->node ? ", " : "",
           t->text[n->node]);
  return to;
}

/* Which trace, and what of it was not there to be played. */
static void print_head(const bfc_play *p, int preallocate) {
  const trace *const t = p->t;
  char at[400], number[32];
  printf("%s%s%s  %s call%s", cmd_bold, t->path, cmd_plain, cmd_grouped(t->ncalls, number),
         t->ncalls == 1 ? "" : "s");
  printf(", BFC allocator of %s%s\n", cmd_human(p->stats.bytes_limit),
         preallocate ? ", all of it at once" : ", which grows");
  trace_print_notes(t);
  if (p->failed) {
    printf("%sfailed when recorded, and not played: %s", cmd_dim, cmd_grouped(p->failed, number));
    printf(", the first %s, an alloc of %s%s\n", place(t, p->failed_at, at),
           cmd_human(t->event[p->failed_at].bytes), cmd_plain);
  }
}

static void print_figures(const bfc_play *p) {
  const bfc_stats *const s = &p->stats;
  printf("\n%s%-16s %12s %12s%s\n", cmd_bold, "", "peak", "end", cmd_plain);
#define ROW(text, peak, end)                                                                       \
  printf("%-16s %12s", text, cmd_human(s->peak)), printf(" %12s\n", cmd_human(s->end))
  ROW("requested", peak_requested, requested);
  ROW("bytes_in_use", peak_bytes_in_use, bytes_in_use);
  ROW("pool_bytes", peak_pool_bytes, pool_bytes);
#undef ROW
  printf("%-16s %12" PRIu64 " %12" PRIu64 "\n", "regions", s->peak_regions, s->regions);
  printf("%-16s %11.1f%% %12s  %s1 - peak in use / peak of the pool%s\n", "not in use",
         100 * unused(s), "", cmd_dim, cmd_plain);
  printf("%-16s %12" PRIu64 "\n", "num_allocs", s->num_allocs);
  printf("%-16s %12s\n", "largest alloc", cmd_human(s->largest_alloc_size));
  printf("%-16s %12s %12s\n\n", "largest free", "", cmd_human(p->largest_free));
}

/* What the log says of the peak beside what was played; 0: it says nothing. */
static void print_peak(uint64_t recorded, uint64_t played) {
  char number[32];
  if (recorded && recorded == played)
    printf("as recorded: the peak of bytes in use\n");
  else if (recorded)
    printf("recorded peak of bytes in use: %s, %s bytes %s\n", cmd_human(recorded),
           cmd_grouped(recorded > played ? recorded - played : played - recorded, number),
           recorded > played ? "more" : "less");
}

static void print_text(const bfc_play *p, int preallocate) {
  const trace *const t = p->t;
  char at[400], number[32];
  print_head(p, preallocate);
  print_figures(p);
  if (p->stats.peak_bytes_in_use)
    printf("peak: an alloc of %s, %s\n", cmd_human(t->event[p->peak_at].bytes),
           place(t, p->peak_at, at));
  if (p->fails_at < t->n) {
    printf("%sDOES NOT FIT%s %s, an alloc of %s", cmd_bold, cmd_plain, place(t, p->fails_at, at),
           cmd_human(t->event[p->fails_at].bytes));
    printf(" with %s in use;", cmd_human(p->fails_in_use));
    printf(" the largest free chunk has %s\n", cmd_human(p->fails_free));
  }
  if (p->regions && p->other_regions)
    printf("%s allocation%s took other regions than in the recording\n",
           cmd_grouped(p->other_regions, number), p->other_regions == 1 ? "" : "s");
  else if (p->regions)
    printf("as recorded: all regions\n");
  print_peak(t->recorded_peak, p->stats.peak_bytes_in_use);
  if (p->placed && !p->elsewhere)
    printf("as recorded: the address of every block\n");
  else if (p->placed)
    printf("%s of %" PRIu64 " block%s elsewhere than in the recording, from %s on\n",
           cmd_grouped(p->elsewhere, number), p->placed, p->placed == 1 ? " lies" : "s lie",
           place(t, p->elsewhere_at, at));
}

static void print_json(const bfc_job *j, const bfc_play *p, int preallocate) {
  const trace *const t = p->t;
  const bfc_stats *const s = &p->stats;
  printf("{\"trace\":");
  cmd_json_text(stdout, t->path);
  printf(",\"policy\":\"bfc\",\"alloc_conf\":");
  cmd_json_text(stdout, j->conf ? j->conf : "");
  printf(",\"preallocate\":%s,\"host_bytes\":%" PRIu64 ",\"before\":%lu,\"ignored\":%" PRIu64
         ",\"unmatched\":%" PRIu64 ",\"failed_when_recorded\":%" PRIu64 ",\"events\":%lu",
         preallocate ? "true" : "false", t->host_bytes, (unsigned long)t->before, t->ignored,
         t->unmatched, p->failed, (unsigned long)t->ncalls);
#define NUMBER(key) printf(",\"" #key "\":%" PRIu64, s->key)
  NUMBER(num_allocs);
  NUMBER(bytes_in_use);
  NUMBER(peak_bytes_in_use);
  NUMBER(largest_alloc_size);
  NUMBER(bytes_limit);
  NUMBER(pool_bytes);
  NUMBER(peak_pool_bytes);
  NUMBER(regions);
  NUMBER(peak_regions);
#undef NUMBER
  printf(",\"largest_free_block_bytes\":%" PRIu64 ",\"requested_bytes\":%" PRIu64
         ",\"peak_requested_bytes\":%" PRIu64 ",\"num_ooms\":%" PRIu64 ",\"unused\":%.6f",
         p->largest_free, s->requested, s->peak_requested, s->failed, unused(s));
  if (s->peak_bytes_in_use) {
    const trace_note *const n = t->note + p->peak_at;
    printf(",\"peak_%s\":%" PRIu32 ",\"peak_node\":", trace_unit(t), n->line);
    cmd_json_text(stdout, t->text[n->node]);
  }
  if (t->recorded_peak)
    printf(",\"recorded_peak_bytes_in_use\":%" PRIu64, t->recorded_peak);
  if (p->placed || p->regions)
    printf(",\"as_recorded\":{\"regions\":%s,\"blocks\":%" PRIu64 ",\"elsewhere\":%" PRIu64 "}",
           p->other_regions ? "false" : "true", p->placed, p->elsewhere);
  printf(",\"fits\":%s}\n", p->fails_at == t->n ? "true" : "false");
}

int bfc_replay(const bfc_job *j, const trace *t) {
  int preallocate = 0, collects = 0, status = bfc_conf(j->conf, &preallocate, &collects);
  uint64_t limit = j->total_bytes;
  bfc_play p;
  if (status)
    return status;
  memset(&p, 0, sizeof p);
  p.t = t;
  if (j->fraction > 0)
    limit = (uint64_t)(j->fraction * (double)limit);
  status = play(j, &p, limit, preallocate, collects);
  if (status)
    return status;
  if (j->json)
    print_json(j, &p, preallocate);
  else if (!j->csv)
    print_text(&p, preallocate);
  return p.fails_at < t->n ? TOO_LARGE : FITS;
}
