/* >>write/oom    the report on too little memory */
#include "write/write.h"

/* What is free in the segments of a pool, seen from one request. */
typedef struct vram__holes {
  uint64_t stream, need;
  int small_pool;
  uint64_t all, waits;                  /* free in all; given back and in use by streams */
  uint64_t sum, pieces, largest;        /* of the request's stream and pool */
  uint64_t elsewhere, elsewhere_stream; /* largest of the pool, other streams */
  uint64_t other;                       /* largest in the other pool */
} vram__holes;

static int vram__hole(void *user, const vram_piece *piece) {
  vram__holes *h = (vram__holes *)user;
  if (piece->state == 2)
    h->waits += piece->bytes;
  if (piece->state)
    return 0;
  h->all += piece->bytes;
  if (!piece->small_pool != !h->small_pool) {
    if (piece->bytes > h->other)
      h->other = piece->bytes;
  } else if (piece->stream != h->stream) {
    if (piece->bytes > h->elsewhere) {
      h->elsewhere = piece->bytes;
      h->elsewhere_stream = piece->stream;
    }
  } else {
    h->sum += piece->bytes;
    h->pieces++;
    if (piece->bytes > h->largest)
      h->largest = piece->bytes;
  }
  return 0;
}

VRAM__FN void vram__pen_hex(vram__pen *p, uint64_t v) {
  char text[17];
  uint32_t n = sizeof text - 1;
  text[n] = 0;
  do {
    text[--n] = "0123456789abcdef"[v % 16];
    v /= 16;
  } while (v);
  vram__pen_puts(p, "0x");
  vram__pen_puts(p, text + n);
}

enum { VRAM__OOM_OWNERS = 8, VRAM__OOM_PROCESSES = 8 };

/* What the report is made of. */
typedef struct vram__oom_report {
  vram__pen pen;
  const vram_ledger *l;
  const vram_memory_stats *m;
  const vram_oom *o;
  uint64_t ask;    /* bytes that the device was asked for */
  uint64_t others; /* that other processes hold */
  vram__holes holes;
  vram_owner top[VRAM__OOM_OWNERS];
  uint32_t nowner; /* all of them */
  uint32_t helps;  /* what would help: so many lines are written */
} vram__oom_report;

static int vram__oom_total_known(const vram_oom *o) {
  return o->has_view && o->total_bytes && o->total_bytes != VRAM_UNKNOWN;
}

/* The first line, as PyTorch has it. */
static void vram__oom_head(vram__oom_report *r) {
  const vram_oom *o = r->o;
  vram__pen *p = &r->pen;
  vram__pen_puts(p, "CUDA out of memory. Tried to allocate ");
  vram__pen_size(p, r->ask);
  vram__pen_puts(p, ".");
  if (vram__oom_total_known(o)) {
    vram__pen_puts(p, " GPU ");
    vram__pen_number(p, o->device, 0);
    vram__pen_puts(p, " has a total capacity of ");
    vram__pen_size(p, o->total_bytes);
    if (o->free_bytes != VRAM_UNKNOWN) {
      vram__pen_puts(p, " of which ");
      vram__pen_size(p, o->free_bytes);
      vram__pen_puts(p, " is free");
    }
    vram__pen_puts(p, ".");
  }
  vram__pen_puts(p, "\n");
}

static void vram__oom_request(vram__oom_report *r) {
  const vram_oom *o = r->o;
  vram__pen *p = &r->pen;
  vram__pen_puts(p, "  asked: ");
  vram__pen_size(p, o->bytes);
  if (o->stream) {
    vram__pen_puts(p, " on stream ");
    vram__pen_hex(p, o->stream);
  }
  vram__pen_puts(p, ", by ");
  vram__pen_owner(p, r->l->owner + (o->owner < r->l->nowner ? o->owner : 0));
  if (o->call || r->ask != o->bytes) {
    vram__pen_puts(p, " (");
    vram__pen_label(p, o->call ? o->call : "the device");
    if (r->ask != o->bytes) {
      vram__pen_puts(p, " was asked for ");
      vram__pen_size(p, r->ask);
    }
    vram__pen_puts(p, ")");
  }
  vram__pen_puts(p, "\n");
}

/* What this process holds, as the ledger and as the driver sees it. */
static void vram__oom_ours(vram__oom_report *r) {
  const vram_memory_stats *m = r->m;
  const vram_ledger *l = r->l;
  const vram_oom *o = r->o;
  const uint64_t reserved = m->reserved_bytes[0].current, active = m->active_bytes[0].current,
                 ours = reserved > active ? reserved : active;
  vram__pen *p = &r->pen;
  vram__pen_puts(p, "  ours: ");
  vram__pen_size(p, ours);
  vram__pen_puts(p, " reserved in ");
  vram__pen_number(p, m->segment[0].current, 0);
  vram__pen_puts(p, " segments, ");
  vram__pen_size(p, m->allocated_bytes[0].current);
  vram__pen_puts(p, " of it allocated in ");
  vram__pen_number(p, m->allocation[0].current, 0);
  vram__pen_puts(p, " blocks (peak ");
  vram__pen_size(p, m->allocated_bytes[0].peak);
  vram__pen_puts(p, ")\n");
  if (l->lost) {
    vram__pen_puts(p, "  not told apart: ");
    vram__pen_size(p, l->lost_bytes);
    vram__pen_puts(p, " in ");
    vram__pen_number(p, l->lost, 0);
    vram__pen_puts(p, " allocations beyond vram_ledger_options.live\n");
  }
  if (o->has_view && o->process_bytes && o->process_bytes != VRAM_UNKNOWN) {
    vram__pen_puts(p, "  this process in all: ");
    vram__pen_size(p, o->process_bytes);
    if (o->process_bytes > ours) {
      vram__pen_puts(p, ", so ");
      vram__pen_size(p, o->process_bytes - ours);
      vram__pen_puts(p, " is CUDA's context, libraries, other allocators");
    }
    vram__pen_puts(p, "\n");
  }
}

static void vram__oom_process(vram__pen *p, const vram_process *q) {
  vram__pen_puts(p, "  process ");
  vram__pen_number(p, q->pid, 0);
  if (q->name) {
    vram__pen_puts(p, " (");
    vram__pen_label(p, q->name);
    vram__pen_puts(p, ")");
  }
  if (q->bytes != VRAM_UNKNOWN) {
    vram__pen_puts(p, ": ");
    vram__pen_size(p, q->bytes);
  } else
    vram__pen_puts(p, ": the driver does not say how much");
  vram__pen_puts(p, "\n");
}

/* What other processes hold. */
static void vram__oom_others(vram__oom_report *r) {
  const vram_oom *o = r->o;
  vram__pen *p = &r->pen;
  uint32_t i;
  for (i = 0; o->has_view && i < o->nprocess; i++) {
    const vram_process *q = o->process + i;
    if (q->bytes != VRAM_UNKNOWN && q->bytes <= VRAM_UNKNOWN - r->others)
      r->others += q->bytes;
    if (i < VRAM__OOM_PROCESSES)
      vram__oom_process(p, q);
  }
  if (i > VRAM__OOM_PROCESSES) {
    vram__pen_puts(p, "  and ");
    vram__pen_number(p, i - VRAM__OOM_PROCESSES, 0);
    vram__pen_puts(p, " more processes\n");
  }
}

static void vram__oom_holes(vram__pen *p, const vram__holes *h) {
  const uint64_t most = h->largest > h->elsewhere ? h->largest : h->elsewhere;
  const uint64_t all = most > h->other ? most : h->other;
  vram__pen_puts(p, "  largest free block: ");
  if (!h->all) {
    vram__pen_puts(p, "none, all segments are full\n");
    return;
  }
  vram__pen_size(p, all);
  vram__pen_puts(p, " of ");
  vram__pen_size(p, h->all);
  vram__pen_puts(p, " that is free in segments: ");
  if (h->largest >= h->need)
    vram__pen_puts(p, "free by now, or kept for larger requests (max_split_size_mb)");
  else if (h->elsewhere >= h->need) {
    vram__pen_size(p, h->elsewhere);
    vram__pen_puts(p, " would do, but belongs to stream ");
    vram__pen_hex(p, h->elsewhere_stream);
  } else if (h->other >= h->need) {
    vram__pen_size(p, h->other);
    vram__pen_puts(p, " would do, but is for requests ");
    vram__pen_puts(p, h->small_pool ? "above 1 MiB" : "up to 1 MiB");
  } else if (h->sum >= h->need) {
    vram__pen_puts(p, "fragmented, ");
    vram__pen_number(p, h->pieces, 0);
    vram__pen_puts(p, " pieces of this stream have ");
    vram__pen_size(p, h->sum);
    vram__pen_puts(p, ", the largest ");
    vram__pen_size(p, h->largest);
  } else
    vram__pen_puts(p, "too small");
  vram__pen_puts(p, "\n");
}

static void vram__oom_owners(vram__oom_report *r) {
  vram__pen *p = &r->pen;
  uint32_t i;
  for (i = 0; i < r->nowner && i < VRAM__OOM_OWNERS; i++) {
    const vram_owner *w = r->top + i;
    vram__pen_puts(p, i ? "    " : "  largest owners:\n    ");
    vram__pen_bytes(p, w->bytes.current, 10);
    vram__pen_puts(p, " in ");
    vram__pen_number(p, w->count.current, 0);
    vram__pen_puts(p, "  ");
    vram__pen_owner(p, w);
    vram__pen_puts(p, "\n");
  }
  if (r->nowner > i) {
    vram__pen_puts(p, "    and ");
    vram__pen_number(p, r->nowner - i, 0);
    vram__pen_puts(p, " more\n");
  }
}

/* ---- what would help here: nothing that is done already, nothing that would not be enough ---- */

static void vram__oom_dash(vram__oom_report *r, const char *what) {
  vram__pen_puts(&r->pen, r->helps++ ? "  - " : "  what would help:\n  - ");
  vram__pen_puts(&r->pen, what);
}

/* One more line of it: `bytes` stands before `end`; end NULL: neither. */
static void vram__oom_advice(vram__oom_report *r, const char *what, uint64_t bytes,
                             const char *end) {
  vram__pen *p = &r->pen;
  vram__oom_dash(r, what);
  if (end) {
    vram__pen_size(p, bytes);
    vram__pen_puts(p, end);
  }
  vram__pen_puts(p, "\n");
}

/* Of the pool: streams, and free blocks that are too small. */
static void vram__oom_help_pool(vram__oom_report *r) {
  const vram__holes *h = &r->holes;
  const vram_pool *pool = r->o->pool;
  if (h->waits)
    vram__oom_advice(r, "wait for the streams: ", h->waits,
                     " is given back and still in use by them");
  if (h->largest >= h->need)
    return;
  if (h->elsewhere >= h->need) {
    vram__oom_dash(r, "allocate on stream ");
    vram__pen_hex(&r->pen, h->elsewhere_stream);
    vram__pen_puts(&r->pen, ", or use fewer streams\n");
  }
  if (h->sum < h->need || pool->options.expandable_segments)
    return;
  if (pool->backend.map)
    vram__oom_advice(r, "expandable_segments:True, which joins free pieces", 0, NULL);
  if (pool->options.max_split_size == UINT64_MAX)
    vram__oom_advice(r, "max_split_size_mb, which keeps large segments in one piece", 0, NULL);
}

/* Of what lacks `missing` bytes. */
static void vram__oom_help_missing(vram__oom_report *r, uint64_t missing) {
  const uint64_t activations = r->l->category[VRAM_CATEGORY_ACTIVATIONS].current;
  vram__pen *p = &r->pen;
  if (r->others >= missing)
    vram__oom_advice(r, "another device, or the end of other processes: they hold ", r->others, "");
  if (activations >= missing)
    vram__oom_advice(r, "a smaller batch, or recomputation: activations hold ", activations, "");
  if (r->nowner && r->top->bytes.current >= missing) {
    vram__oom_dash(r, "less, or an earlier free, at ");
    vram__pen_owner(p, r->top);
    vram__pen_puts(p, ": it holds ");
    vram__pen_size(p, r->top->bytes.current);
    vram__pen_puts(p, "\n");
  }
}

static void vram__oom_help(vram__oom_report *r) {
  const vram_oom *o = r->o;
  const uint64_t ask = r->ask;
  const int known = o->has_view && o->free_bytes != VRAM_UNKNOWN;
  const uint64_t missing = !known ? ask : ask > o->free_bytes ? ask - o->free_bytes : 0;
  const int limited = o->limit_bytes && (o->limit_bytes < ask ||
                                         r->m->reserved_bytes[0].current > o->limit_bytes - ask);
  if (vram__oom_total_known(o) && ask > o->total_bytes)
    vram__oom_advice(r, "ask for less at once: the whole device has ", o->total_bytes, "");
  if (limited)
    vram__oom_advice(r, "raise the limit: ", o->limit_bytes, " allowed");
  if (o->pool)
    vram__oom_help_pool(r);
  if (missing)
    vram__oom_help_missing(r, missing);
  if (known && !missing && !limited)
    vram__oom_advice(r,
                     "smaller requests: the device has enough, but not in one piece, or another "
                     "process was faster",
                     0, NULL);
  if (!r->helps) {
    vram__pen_puts(&r->pen, "  what would help: ");
    vram__pen_size(&r->pen, missing);
    vram__pen_puts(&r->pen, " less\n");
  }
}

/* The free blocks of the pool that was asked, if there is one. */
static void vram__oom_look(vram__oom_report *r) {
  const vram_oom *o = r->o;
  vram__holes *h = &r->holes;
  h->stream = o->stream;
  h->need = o->bytes < VRAM_UNKNOWN - VRAM__MIN_BLOCK ? vram__block_bytes(o->bytes) : o->bytes;
  h->need = h->need ? h->need : 512;
  h->small_pool = h->need <= UINT64_C(1) << 20;
  if (o->pool)
    (void)vram_pool_walk(o->pool, vram__hole, h);
}

VRAM_API vram_result vram_write_oom(vram_ledger *l, const vram_oom *o, const vram_sink *sink) {
  vram_memory_stats none;
  vram__oom_report r;
  vram__memory_zero(&none, sizeof none);
  vram__memory_zero(&r, sizeof r);
  vram__pen_begin(&r.pen, sink);
  r.l = l;
  r.o = o;
  r.ask = o->device_bytes ? o->device_bytes : o->bytes;
  vram__oom_look(&r);
  vram__ledger_lock(l);
  r.m = vram__stats_of(l, o->device);
  if (!r.m)
    r.m = &none;
  vram__oom_head(&r);
  vram__oom_request(&r);
  vram__oom_ours(&r);
  vram__oom_others(&r);
  if (o->pool)
    vram__oom_holes(&r.pen, &r.holes);
  r.nowner = vram__ledger_owners(l, 0, r.top, VRAM__OOM_OWNERS);
  vram__oom_owners(&r);
  vram__oom_help(&r);
  vram__ledger_unlock(l);
  return vram__pen_end(&r.pen);
}
