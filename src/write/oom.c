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
  do
    text[--n] = "0123456789abcdef"[v % 16], v /= 16;
  while (v);
  vram__pen_puts(p, "0x");
  vram__pen_puts(p, text + n);
}

static void vram__oom_request(vram__pen *p, const vram_ledger *l, const vram_oom *o, uint64_t ask) {
  vram__pen_puts(p, "  asked: ");
  vram__pen_size(p, o->bytes);
  if (o->stream) {
    vram__pen_puts(p, " on stream ");
    vram__pen_hex(p, o->stream);
  }
  vram__pen_puts(p, ", by ");
  vram__pen_owner(p, l->owner + (o->owner < l->nowner ? o->owner : 0));
  if (o->call || ask != o->bytes) {
    vram__pen_puts(p, " (");
    vram__pen_label(p, o->call ? o->call : "the device");
    if (ask != o->bytes) {
      vram__pen_puts(p, " was asked for ");
      vram__pen_size(p, ask);
    }
    vram__pen_puts(p, ")");
  }
  vram__pen_puts(p, "\n");
}

static void vram__oom_holders(vram__pen *p, const vram_memory_stats *m, const vram_ledger *l,
                              const vram_oom *o, uint64_t *others) {
  const uint64_t reserved = m->reserved_bytes[0].current, active = m->active_bytes[0].current,
                 ours = reserved > active ? reserved : active;
  uint32_t i, unknown = 0;
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
  *others = 0;
  if (!o->has_view)
    return;
  if (o->process_bytes && o->process_bytes != VRAM_UNKNOWN) {
    vram__pen_puts(p, "  this process in all: ");
    vram__pen_size(p, o->process_bytes);
    if (o->process_bytes > ours) {
      vram__pen_puts(p, ", so ");
      vram__pen_size(p, o->process_bytes - ours);
      vram__pen_puts(p, " is CUDA's context, libraries, other allocators");
    }
    vram__pen_puts(p, "\n");
  }
  for (i = 0; i < o->nprocess; i++) {
    const vram_process *q = o->process + i;
    const int known = q->bytes != VRAM_UNKNOWN;
    if (known && q->bytes <= VRAM_UNKNOWN - *others)
      *others += q->bytes;
    if (i >= 8) {
      unknown++;
      continue;
    }
    vram__pen_puts(p, "  process ");
    vram__pen_number(p, q->pid, 0);
    if (q->name) {
      vram__pen_puts(p, " (");
      vram__pen_label(p, q->name);
      vram__pen_puts(p, ")");
    }
    if (known) {
      vram__pen_puts(p, ": ");
      vram__pen_size(p, q->bytes);
    } else
      vram__pen_puts(p, ": the driver does not say how much");
    vram__pen_puts(p, "\n");
  }
  if (unknown) {
    vram__pen_puts(p, "  and ");
    vram__pen_number(p, unknown, 0);
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

#define VRAM__OOM_OWNERS 8

static void vram__oom_owners(vram__pen *p, const vram_owner *top, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n && i < VRAM__OOM_OWNERS; i++) {
    vram__pen_puts(p, i ? "    " : "  largest owners:\n    ");
    vram__pen_bytes(p, top[i].bytes.current, 10);
    vram__pen_puts(p, " in ");
    vram__pen_number(p, top[i].count.current, 0);
    vram__pen_puts(p, "  ");
    vram__pen_owner(p, top + i);
    vram__pen_puts(p, "\n");
  }
  if (n > i) {
    vram__pen_puts(p, "    and ");
    vram__pen_number(p, n - i, 0);
    vram__pen_puts(p, " more\n");
  }
}

/* What would help here: nothing that is done already, nothing that would not be enough. */
static void vram__oom_help(vram__pen *p, const vram_ledger *l, const vram_memory_stats *m,
                           const vram_oom *o, const vram__holes *h, uint64_t ask, uint64_t others,
                           const vram_owner *top, uint32_t n) {
  const int known = o->has_view && o->free_bytes != VRAM_UNKNOWN;
  const uint64_t missing = !known ? ask : ask > o->free_bytes ? ask - o->free_bytes : 0;
  const uint64_t activations = l->category[VRAM_CATEGORY_ACTIVATIONS].current;
  const int limited = o->limit_bytes &&
                      (o->limit_bytes < ask || m->reserved_bytes[0].current > o->limit_bytes - ask);
  uint32_t said = 0;
#define VRAM__HELP vram__pen_puts(p, said++ ? "  - " : "  what would help:\n  - ")
  if (o->has_view && o->total_bytes && o->total_bytes != VRAM_UNKNOWN && ask > o->total_bytes) {
    VRAM__HELP;
    vram__pen_puts(p, "ask for less at once: the whole device has ");
    vram__pen_size(p, o->total_bytes);
    vram__pen_puts(p, "\n");
  }
  if (limited) {
    VRAM__HELP;
    vram__pen_puts(p, "raise the limit: ");
    vram__pen_size(p, o->limit_bytes);
    vram__pen_puts(p, " allowed\n");
  }
  if (h && h->waits) {
    VRAM__HELP;
    vram__pen_puts(p, "wait for the streams: ");
    vram__pen_size(p, h->waits);
    vram__pen_puts(p, " is given back and still in use by them\n");
  }
  if (h && h->largest < h->need && h->elsewhere >= h->need) {
    VRAM__HELP;
    vram__pen_puts(p, "allocate on stream ");
    vram__pen_hex(p, h->elsewhere_stream);
    vram__pen_puts(p, ", or use fewer streams\n");
  }
  if (h && h->largest < h->need && h->sum >= h->need && !o->pool->options.expandable_segments &&
      o->pool->backend.map) {
    VRAM__HELP;
    vram__pen_puts(p, "expandable_segments:True, which joins free pieces\n");
  }
  if (h && h->largest < h->need && h->sum >= h->need && !o->pool->options.expandable_segments &&
      o->pool->options.max_split_size == UINT64_MAX) {
    VRAM__HELP;
    vram__pen_puts(p, "max_split_size_mb, which keeps large segments in one piece\n");
  }
  if (missing && others >= missing) {
    VRAM__HELP;
    vram__pen_puts(p, "another device, or the end of other processes: they hold ");
    vram__pen_size(p, others);
    vram__pen_puts(p, "\n");
  }
  if (missing && activations >= missing) {
    VRAM__HELP;
    vram__pen_puts(p, "a smaller batch, or recomputation: activations hold ");
    vram__pen_size(p, activations);
    vram__pen_puts(p, "\n");
  }
  if (missing && n && top->bytes.current >= missing) {
    VRAM__HELP;
    vram__pen_puts(p, "less, or an earlier free, at ");
    vram__pen_owner(p, top);
    vram__pen_puts(p, ": it holds ");
    vram__pen_size(p, top->bytes.current);
    vram__pen_puts(p, "\n");
  }
  if (known && !missing && !limited) {
    VRAM__HELP;
    vram__pen_puts(p, "smaller requests: the device has enough, but not in one piece, or another "
                      "process was faster\n");
  }
#undef VRAM__HELP
  if (!said) {
    vram__pen_puts(p, "  what would help: ");
    vram__pen_size(p, missing);
    vram__pen_puts(p, " less\n");
  }
}

VRAM_API vram_result vram_write_oom(vram_ledger *l, const vram_oom *o, const vram_sink *sink) {
  const uint64_t ask = o->device_bytes ? o->device_bytes : o->bytes;
  const vram_memory_stats *m;
  vram_memory_stats none;
  vram__holes holes;
  vram_owner top[VRAM__OOM_OWNERS];
  vram__pen pen, *p = &pen;
  uint64_t others;
  uint32_t n;
  vram__pen_begin(p, sink);
  vram__memory_zero(&holes, sizeof holes);
  holes.stream = o->stream;
  holes.need = o->bytes < VRAM_UNKNOWN - VRAM__MIN_BLOCK ? vram__block_bytes(o->bytes) : o->bytes;
  holes.need = holes.need ? holes.need : 512;
  holes.small_pool = holes.need <= UINT64_C(1) << 20;
  if (o->pool)
    (void)vram_pool_walk(o->pool, vram__hole, &holes);
  vram__ledger_lock(l);
  m = vram__stats_of(l, o->device);
  if (!m) {
    vram__memory_zero(&none, sizeof none);
    m = &none;
  }
  vram__pen_puts(p, "CUDA out of memory. Tried to allocate ");
  vram__pen_size(p, ask);
  vram__pen_puts(p, ".");
  if (o->has_view && o->total_bytes && o->total_bytes != VRAM_UNKNOWN) {
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
  vram__oom_request(p, l, o, ask);
  vram__oom_holders(p, m, l, o, &others);
  if (o->pool)
    vram__oom_holes(p, &holes);
  n = vram__ledger_owners(l, 0, top, VRAM__OOM_OWNERS);
  vram__oom_owners(p, top, n);
  vram__oom_help(p, l, m, o, o->pool ? &holes : NULL, ask, others, top, n);
  vram__ledger_unlock(l);
  return vram__pen_end(p);
}
