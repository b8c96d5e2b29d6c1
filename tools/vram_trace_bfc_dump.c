/* A state from what the BFC allocator prints when it finds no place for a request:
   "Next region of size N", "InUse at ADDRESS of size N [by op NAME ...] next N", "Free  at ...". */
#include "vram_bfc_log.h"

typedef struct dump {
  trace *t;
  const char *name; /* of the allocator */
  size_t len;
  uint32_t line; /* where its last dump begins */
} dump;

static int is_gpu(const char *name, size_t len) { return len > 4 && !memcmp(name, "GPU_", 4); }

/* The last dump of the allocator that is meant; 0: there is none. */
static int find_dump(dump *d, const char *text, size_t len, int64_t device) {
  const char *at = text;
  char wanted[32];
  uint32_t line = 0;
  cursor c;
  snprintf(wanted, sizeof wanted, "GPU_%d_bfc", (int)device);
  while (bfc_next(&at, text + len, &line, &c)) {
    const char *name;
    size_t n;
    if (!bfc_take(&c, "BFCAllocator dump for "))
      continue;
    n = bfc_take_name(&c, &name);
    if (device >= 0 ? n == strlen(wanted) && !memcmp(name, wanted, n)
                    : !d->len || (n == d->len && !memcmp(name, d->name, n)) ||
                          (is_gpu(name, n) && !is_gpu(d->name, d->len))) {
      d->name = name;
      d->len = n;
      d->line = line;
    }
  }
  return d->len > 0;
}

/* "Allocator (NAME) ran out of memory trying to allocate 32.00MiB (rounded to 33554432)requested by
   op NAME", before the dump */
static int is_request(const dump *d, cursor *c, uint64_t *bytes, const char **op, size_t *len) {
  static const char rounded[] = "(rounded to ", by[] = "requested by op ";
  if (!bfc_take(c, "Allocator (") || (size_t)(c->end - c->s) < d->len ||
      memcmp(c->s, d->name, d->len) != 0)
    return 0;
  while (c->s < c->end && !bfc_take(c, rounded))
    c->s++;
  if (!bfc_take_number(c, 10, bytes))
    return 0;
  while (c->s < c->end && !bfc_take(c, by))
    c->s++;
  *len = bfc_take_name(c, op);
  return 1;
}

static int add(dump *d, vram_event *e, uint32_t line, const char *node, size_t len, uint64_t key) {
  trace_note note;
  memset(&note, 0, sizeof note);
  note.line = line;
  note.node = trace_text(d->t, node, len);
  note.phase = trace_text(d->t, d->name, d->len);
  e->category = VRAM_CATEGORY_OTHER;
  if (e->bytes > (uint64_t)INT64_MAX / 4)
    return trace_bad(d->t, line, "more bytes than any device has", NULL, 0);
  return d->t->status ? d->t->status : trace_add(d->t, e, &note, key, BY_ID);
}

/* A chunk: who has it is known where the allocator was built to write it down; else its size is. */
static int add_chunk(dump *d, cursor *c, uint32_t line, int in_use) {
  const char *op = "";
  char text[40];
  size_t len = 0;
  vram_event e;
  memset(&e, 0, sizeof e);
  if (!bfc_take_number(c, 16, &e.address) || !bfc_take(c, " of size ") ||
      !bfc_take_number(c, 10, &e.bytes))
    return trace_bad(d->t, line, "a chunk without an address or a size", NULL, 0);
  if (!in_use) {
    d->t->free_bytes += e.bytes;
    d->t->free_chunks++;
    d->t->largest_free = e.bytes > d->t->largest_free ? e.bytes : d->t->largest_free;
    return FITS;
  }
  if (bfc_take(c, " by op "))
    len = bfc_take_name(c, &op);
  d->t->has_nodes |= len > 0;
  if (!len) {
    len = (size_t)snprintf(text, sizeof text, "%" PRIu64 " bytes each", e.bytes);
    op = text;
  }
  e.action = VRAM_ACTION_ALLOC;
  return add(d, &e, line, op, len, line);
}

int trace_read_bfc_dump(trace *t, const char *text, size_t len, int64_t device) {
  const char *at = text, *op = NULL;
  uint64_t request = 0;
  size_t op_len = 0;
  uint32_t line = 0, asked_at = 0;
  cursor c;
  dump d;
  memset(&d, 0, sizeof d);
  d.t = t;
  d.name = "";
  if (!find_dump(&d, text, len, device))
    return CMD_ABSENT;
  t->is_state = t->is_dump = 1;
  while (!t->status && bfc_next(&at, text + len, &line, &c)) {
    vram_event e;
    memset(&e, 0, sizeof e);
    if (line < d.line) {
      if (is_request(&d, &c, &request, &op, &op_len))
        asked_at = line;
    } else if (bfc_take(&c, "Next region of size ")) {
      e.action = VRAM_ACTION_SEGMENT_ALLOC;
      if (!bfc_take_number(&c, 10, &e.bytes))
        return trace_bad(t, line, "a region without a size", NULL, 0);
      t->pool_bytes += e.bytes;
      add(&d, &e, line, "", 0, 0);
    } else if (bfc_take(&c, "InUse at ") || bfc_take(&c, "Chunk at "))
      add_chunk(&d, &c, line, 1);
    else if (bfc_take(&c, "Free  at ") || bfc_take(&c, "Free at "))
      add_chunk(&d, &c, line, 0);
    else if (bfc_take(&c, "Sum Total of in-use chunks"))
      break;
  }
  if (!t->status && asked_at) {
    vram_event e;
    memset(&e, 0, sizeof e);
    e.action = VRAM_ACTION_ALLOC;
    e.kind = FAILED;
    e.bytes = request;
    add(&d, &e, asked_at, op, op_len, UINT64_C(1) << 62);
  }
  return t->status ? t->status : trace_order(t);
}
