/* A trace from the log of the BFC allocator (bfc_allocator.cc of TensorFlow and XLA), written with
   TF_CPP_VMODULE=bfc_allocator=3 or 4. At 4 a free has its address. At 3 it has only its size: then
   of the blocks of this size that one is freed whose place is taken again first, which is the only
   one that can be where all others of the size are still needed. */
#include "vram_bfc_log.h"

typedef enum bfc_said { BFC_ALLOC, BFC_FREE, BFC_REGION } bfc_said;

typedef struct bfc_line { /* what a line says of the allocator that is looked for */
  uint64_t bytes, address;
  uint32_t line;
  uint32_t until; /* of an allocation: the line that takes its place again; of a free: its block */
  uint32_t below, beside; /* the heap of the live blocks of its size: the first block under it, and
                             the next one under the same */
  bfc_said what;
} bfc_line;

typedef struct bfc_place { /* the last block of a place, by ascending address */
  uint64_t from, to;
  uint32_t of;
} bfc_place;

typedef struct bfc_log {
  trace *t;
  const char *name;
  size_t len; /* of name */
  int has_addresses;
  bfc_line *line;
  bfc_place *place;
  uint32_t n, cap, nplace, place_cap;
} bfc_log;

static const char debug[] = "[mem-debug] ";

/* "AllocateRaw NAME  BYTES ADDRESS", of what was allocated */
static int is_alloc(cursor *c, const char **name, size_t *len, uint64_t *bytes, uint64_t *address) {
  if (!bfc_take(c, "AllocateRaw "))
    return 0;
  *len = bfc_take_name(c, name);
  return bfc_take(c, "  ") && bfc_take_number(c, 10, bytes) && bfc_take(c, " ") &&
         bfc_take_number(c, 10, address);
}

/* The allocator whose log it is, and whether its frees have addresses. */
static int find_allocator(bfc_log *b, const char *text, size_t len, int64_t device) {
  const char *at = text;
  char wanted[32];
  uint32_t line = 0;
  cursor c;
  snprintf(wanted, sizeof wanted, "GPU_%d_bfc", (int)device);
  while (bfc_next(&at, text + len, &line, &c)) {
    const char *name;
    size_t n;
    uint64_t bytes, address;
    if (bfc_take(&c, debug)) {
      b->has_addresses |= bfc_take(&c, "DeallocateRaw,");
      continue;
    }
    if (!is_alloc(&c, &name, &n, &bytes, &address))
      continue;
    if (device >= 0 ? n == strlen(wanted) && !memcmp(name, wanted, n)
                    : !b->len || (n > 4 && !memcmp(name, "GPU_", 4) && memcmp(b->name, "GPU_", 4)))
      b->name = name, b->len = n;
  }
  if (b->len)
    return FITS;
  if (trace_read_bfc_dump(b->t, text, len, device) != CMD_ABSENT)
    return CMD_ABSENT; /* of lines to read */
  return trace_bad(b->t, 1,
                   device < 0 ? "a log without an allocation: TF_CPP_VMODULE=bfc_allocator=3 or 4 "
                                "writes them"
                              : "no allocation of this allocator:",
                   device < 0 ? NULL : wanted, device < 0 ? 0 : strlen(wanted));
}

static int log_add(bfc_log *b, bfc_said what, uint32_t line, uint64_t bytes, uint64_t address) {
  bfc_line *l = (bfc_line *)cmd_room(b->line, b->n, &b->cap, sizeof *l);
  if (!l)
    return b->t->status = cmd_no_memory();
  b->line = l;
  if (bytes > (uint64_t)INT64_MAX / 4)
    return trace_bad(b->t, line, "more bytes than any device has", NULL, 0);
  l += b->n++;
  memset(l, 0, sizeof *l);
  l->what = what;
  l->line = line;
  l->bytes = bytes;
  l->address = address;
  l->until = l->below = l->beside = UINT32_MAX;
  return FITS;
}

static int is_own(const bfc_log *b, const char *name, size_t len) {
  return len == b->len && !memcmp(name, b->name, len);
}

static int read_lines(bfc_log *b, const char *text, size_t len) {
  const char *at = text, *name;
  uint32_t line = 0;
  int grows = 0; /* it is this allocator that asks for a region */
  size_t n;
  uint64_t bytes, address;
  cursor c;
  while (!b->t->status && bfc_next(&at, text + len, &line, &c)) {
    cursor again = c;
    if (is_alloc(&again, &name, &n, &bytes, &address)) {
      if (is_own(b, name, n))
        log_add(b, BFC_ALLOC, line, bytes, address);
      continue;
    }
    again = c;
    if (bfc_take(&again, "Extending allocation by ")) {
      const char *s = again.end;
      while (s > again.s && s[-1] != ' ')
        s--;
      n = (size_t)(again.end - s);
      grows = is_own(b, s, n && again.end[-1] == '.' ? n - 1 : n);
      continue;
    }
    if (bfc_take(&again, "New Peak memory usage of ")) {
      if (bfc_take_number(&again, 10, &bytes) && bfc_take(&again, " bytes for ") &&
          is_own(b, again.s, (size_t)(again.end - again.s)) && bytes > b->t->recorded_peak)
        b->t->recorded_peak = bytes;
      continue;
    }
    if (bfc_take(&again, "Allocated memory at ")) {
      uint64_t to;
      if (grows && bfc_take_number(&again, 10, &address) && bfc_take(&again, " to ") &&
          bfc_take_number(&again, 10, &to) && to > address)
        log_add(b, BFC_REGION, line, to - address, address);
      continue;
    }
    /* of 0 bytes: a null pointer, which nothing was allocated for */
    if (bfc_take(&again, b->has_addresses ? "[mem-debug] DeallocateRaw," : "DeallocateRaw ")) {
      n = bfc_take_name(&again, &name);
      address = 0;
      if (is_own(b, name, n) && again.s++ < again.end && bfc_take_number(&again, 10, &bytes) &&
          bytes &&
          (!b->has_addresses || (bfc_take(&again, ",") && bfc_take_number(&again, 10, &address))))
        log_add(b, BFC_FREE, line, bytes, address);
    }
  }
  return b->t->status;
}

/* ---- which block a free without an address means ---- */

/* Block i takes its place: those that had a part of it are gone by then. */
static int take_place(bfc_log *b, uint32_t i) {
  const bfc_line *const l = b->line + i;
  const uint64_t from = l->address, to = from + (l->bytes ? (l->bytes + 255) / 256 * 256 : 256);
  uint32_t low = 0, high = b->nplace, end;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (b->place[middle].to <= from)
      low = middle + 1;
    else
      high = middle;
  }
  for (end = low; end < b->nplace && b->place[end].from < to; end++)
    b->line[b->place[end].of].until = i;
  if (end == low) {
    bfc_place *const bigger =
        (bfc_place *)cmd_room(b->place, b->nplace, &b->place_cap, sizeof *bigger);
    if (!bigger)
      return b->t->status = cmd_no_memory();
    b->place = bigger;
    memmove(b->place + low + 1, b->place + low, (b->nplace - low) * sizeof *b->place);
    b->nplace++;
  } else {
    memmove(b->place + low + 1, b->place + end, (b->nplace - end) * sizeof *b->place);
    b->nplace -= end - low - 1;
  }
  b->place[low].from = from;
  b->place[low].to = to;
  b->place[low].of = i;
  return FITS;
}

/* Of two heaps one, whose top is the block that is taken again first, of equal ones the latest: a
   pairing heap, to which a block comes at once, and which it leaves in logarithmic time. */
static uint32_t meld(bfc_log *b, uint32_t x, uint32_t y) {
  bfc_line *const line = b->line;
  if (x == UINT32_MAX || y == UINT32_MAX)
    return x == UINT32_MAX ? y : x;
  if (line[y].until < line[x].until || (y > x && line[y].until == line[x].until)) {
    const uint32_t top = y;
    y = x;
    x = top;
  }
  line[y].beside = line[x].below;
  line[x].below = y;
  return x;
}

/* What is left of a heap without its top: neighbours in pairs, then all of these. */
static uint32_t meld_below(bfc_log *b, uint32_t top) {
  bfc_line *const line = b->line;
  uint32_t at = line[top].below, pairs = UINT32_MAX, left = UINT32_MAX;
  while (at != UINT32_MAX) {
    const uint32_t second = line[at].beside,
                   next = second == UINT32_MAX ? second : line[second].beside;
    uint32_t pair;
    line[at].beside = UINT32_MAX;
    if (second != UINT32_MAX)
      line[second].beside = UINT32_MAX;
    pair = meld(b, at, second);
    line[pair].beside = pairs;
    pairs = pair;
    at = next;
  }
  while (pairs != UINT32_MAX) {
    const uint32_t next = line[pairs].beside;
    line[pairs].beside = UINT32_MAX;
    left = meld(b, left, pairs);
    pairs = next;
  }
  return left;
}

/* For each free its block, in `until`. */
static int resolve(bfc_log *b) {
  trace sizes; /* of it only the table of keys: a size, and the heap of its live blocks */
  uint32_t i;
  for (i = 0; i < b->n; i++)
    if (b->line[i].what == BFC_ALLOC && b->line[i].address && take_place(b, i))
      return b->t->status;
  memset(&sizes, 0, sizeof sizes);
  for (i = 0; i < b->n && !b->t->status; i++) {
    bfc_line *const l = b->line + i;
    trace_key *k;
    if (l->what == BFC_REGION || (l->what == BFC_ALLOC && !l->address))
      continue;
    k = trace_find(&sizes, l->bytes, BY_ID);
    if (!k) {
      b->t->status = sizes.status;
      break;
    }
    if (!k->used) {
      sizes.nkey++;
      k->used = 1;
      k->id = UINT32_MAX;
    }
    if (l->what == BFC_ALLOC)
      k->id = meld(b, (uint32_t)k->id, i);
    else {
      l->until = (uint32_t)k->id;
      if (l->until != UINT32_MAX)
        k->id = meld_below(b, l->until);
    }
  }
  free(sizes.key);
  return b->t->status;
}

/* ---- events ---- */

static int add_events(bfc_log *b) {
  uint32_t i;
  for (i = 0; i < b->n && !b->t->status; i++) {
    const bfc_line *const l = b->line + i;
    uint64_t key = b->has_addresses ? l->address : i;
    trace_note note;
    vram_event e;
    memset(&note, 0, sizeof note);
    memset(&e, 0, sizeof e);
    note.line = l->line;
    e.category = VRAM_CATEGORY_OTHER;
    e.bytes = l->bytes;
    e.address = l->address;
    if (l->what == BFC_REGION)
      e.action = VRAM_ACTION_SEGMENT_ALLOC;
    else if (l->what == BFC_ALLOC) {
      if (!l->bytes)
        continue; /* nothing is allocated */
      e.action = VRAM_ACTION_ALLOC;
      e.kind = l->address ? 0 : FAILED;
      if (!l->address)
        key = UINT64_C(1) << 62 | i;
    } else {
      if (!b->has_addresses && l->until == UINT32_MAX) {
        b->t->unmatched++;
        continue;
      }
      e.action = VRAM_ACTION_FREE;
      e.bytes = 0;
      if (!b->has_addresses)
        key = l->until;
    }
    b->t->has_addresses |= e.action == VRAM_ACTION_ALLOC;
    trace_add(b->t, &e, &note, key, b->has_addresses ? BY_ADDRESS : BY_ID);
  }
  return b->t->status ? b->t->status : trace_order(b->t);
}

int trace_read_bfc(trace *t, const char *text, size_t len, int64_t device) {
  bfc_log b;
  memset(&b, 0, sizeof b);
  b.name = "";
  b.t = t;
  t->is_bfc = 1;
  if (!find_allocator(&b, text, len, device) && !read_lines(&b, text, len) &&
      (b.has_addresses || !resolve(&b)))
    add_events(&b);
  free(b.line);
  free(b.place);
  return t->status;
}
