/* A trace from a memory snapshot of PyTorch. */
#include "vram_symbols.h"
#include "vram_trace.h"

static int64_t datum_int(const datum *v, int64_t otherwise) {
  return v && v->type == V_INT ? v->as.i : otherwise;
}

/* A number of bytes, an address; not FITS: message printed. */
static int number_of(trace *t, const datum *entry, const char *key, uint32_t line, uint64_t *to) {
  const datum *v = trace_get(t, entry, key);
  char what[120];
  if (v && v->type == V_INT && v->as.i >= 0) {
    *to = (uint64_t)v->as.i;
    return FITS;
  }
  snprintf(what, sizeof what, "%s '%s' (expected an integer of 0 or more, found %s)",
           v ? "a wrong" : "no", key, v ? v->type == V_INT ? "less" : datum_kind(v) : "nothing");
  return trace_bad(t, line, what, NULL, 0);
}

static int ends(const datum *text, const char *with) {
  const size_t n = strlen(with);
  return text && text->type == V_TEXT && text->len >= n &&
         !memcmp(text->as.s + text->len - n, with, n);
}

static int holds(const datum *text, const char *part) {
  const size_t n = strlen(part);
  uint32_t i;
  for (i = 0; text && text->type == V_TEXT && i + n <= text->len; i++)
    if (!memcmp(text->as.s + i, part, n))
      return 1;
  return 0;
}

enum { FRAME_OTHER = 1, FRAME_OWN, FRAME_PASSING }; /* box.known of a frame */

/* With stacks="all" the innermost frames are those that recorded them, the allocator's and those
   that make an empty tensor. Others have no name. */
static int is_passing(const datum *name) {
  return !name || name->type != V_TEXT || !name->len || datum_is(name, "??") ||
         symbols_passing(name->as.s, name->len);
}

/* A frame of a Python file outside of torch, one that says nothing, another; looked at once. */
static int frame_kind(trace *t, const datum *frame) {
  const datum *file, *name;
  int python;
  if (!frame || frame->type != V_DICT)
    return FRAME_PASSING;
  if (!frame->as.box->known) {
    file = trace_get(t, frame, "filename");
    name = trace_get(t, frame, "name");
    t->steps += (file ? file->len : 0) + 10 * (name && name->type == V_TEXT ? name->len : 0);
    python = ends(file, ".py");
    frame->as.box->known = python && !holds(file, "/torch/") ? FRAME_OWN
                           : !python && is_passing(name)     ? FRAME_PASSING
                                                             : FRAME_OTHER;
  }
  return (int)frame->as.box->known;
}

/* Bytes of a function's name without its parameters. */
static size_t name_len(const datum *name) {
  static const char anonymous[] = "(anonymous namespace)";
  const size_t skip = sizeof anonymous - 1;
  size_t i;
  for (i = 0; i < name->len; i++)
    if (name->as.s[i] == '(') {
      if (name->len - i < skip || memcmp(name->as.s + i, anonymous, skip) != 0)
        break;
      i += skip - 1;
    }
  return i ? i : name->len;
}

/* "train.py:26 main"; the function alone where no file is known, as in most frames of C++ */
static uint32_t frame_text(trace *t, const datum *frame) {
  const datum *file = trace_get(t, frame, "filename"), *name = trace_get(t, frame, "name");
  char text[300];
  size_t n = 0, skip;
  if (!file || file->type != V_TEXT)
    return 0;
  for (skip = file->len; skip && file->as.s[skip - 1] != '/';)
    skip--;
  t->steps += file->len - skip;
  if (file->len > skip && !datum_is(file, "??"))
    n = (size_t)snprintf(text, sizeof text, "%.*s:%" PRId64,
                         (int)(file->len - skip < 120 ? file->len - skip : 120), file->as.s + skip,
                         datum_int(trace_get(t, frame, "line"), 0));
  if (name && name->type == V_TEXT && name->len) {
    const size_t len = name_len(name);
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", n ? " " : "",
                          (int)(len < 120 ? len : 120), name->as.s);
  }
  return n ? trace_text(t, text, n) : 0;
}

/* Who asked: what user_metadata says, else the innermost frame of a Python file outside of torch,
   else the innermost that says something, else the innermost. */
static uint32_t snapshot_node(trace *t, const datum *entry, uint32_t line) {
  const datum *name = trace_get(t, entry, "user_metadata"), *frames = trace_get(t, entry, "frames"),
              *frame = datum_item(frames, 0);
  uint32_t i, node;
  int kind, said = 0;
  if (name && name->type == V_TEXT && name->len) {
    t->steps += name->len;
    return trace_text(t, name->as.s, name->len);
  }
  if (frames && frames->type == V_LIST && frames->as.box->known) /* 1 + the text */
    return frames->as.box->known - 1;
  for (i = 0; i < datum_items(frames) && !trace_enough(t, line); i++, t->steps++) {
    kind = frame_kind(t, datum_item(frames, i));
    if (kind == FRAME_OWN || (kind == FRAME_OTHER && !said)) {
      frame = datum_item(frames, i);
      said = 1;
    }
    if (kind == FRAME_OWN)
      break;
  }
  node = frame_text(t, frame);
  if (frames && frames->type == V_LIST)
    frames->as.box->known = node + 1;
  return node;
}

static void snapshot_settings(trace *t, const datum *settings) {
  const datum *v = datum_get(settings, "PYTORCH_CUDA_ALLOC_CONF");
  if (v && v->type == V_TEXT && v->len < sizeof t->conf) {
    memcpy(t->conf, v->as.s, v->len);
    t->conf[v->len] = 0;
  }
}

static int snapshot_entry(trace *t, const datum *entry, uint32_t line) {
  const datum *action = trace_get(t, entry, "action");
  vram_event e;
  trace_note note;
  int i;
  memset(&e, 0, sizeof e);
  memset(&note, 0, sizeof note);
  note.line = line;
  e.category = VRAM_CATEGORY_OTHER;
  if (datum_is(action, "free_completed"))
    e.action = VRAM_ACTION_FREE;
  else if (datum_is(action, "oom"))
    e.action = VRAM_ACTION_ALLOC, e.kind = FAILED;
  else {
    for (i = 0; i < VRAM_ACTION_COUNT && !datum_is(action, vram_action_name((vram_action)i)); i++)
      ;
    if (i > VRAM_ACTION_SEGMENT_UNMAP || i == VRAM_ACTION_FREE || i == VRAM_ACTION_BECOMES) {
      if (!action || action->type != V_TEXT)
        return trace_bad(t, line, "a trace entry without 'action'", NULL, 0);
      return t->ignored++, FITS;
    }
    e.action = (vram_action)i;
  }
  if (number_of(t, entry, "size", line, &e.bytes) ||
      (e.kind != FAILED && number_of(t, entry, "addr", line, &e.address)))
    return t->status;
  if (e.bytes > (uint64_t)INT64_MAX / 4)
    return trace_bad(t, line, "more bytes than any device has", NULL, 0);
  e.stream = (uint64_t)datum_int(trace_get(t, entry, "stream"), 0);
  e.time = (uint64_t)datum_int(trace_get(t, entry, "time_us"), 0);
  if (e.action == VRAM_ACTION_ALLOC)
    note.node = snapshot_node(t, entry, line);
  return t->status ? t->status
                   : trace_add(t, &e, &note,
                               e.kind == FAILED ? UINT64_C(1) << 63 | line : e.address, BY_ADDRESS);
}

/* Blocks that are in use at the end and that no entry allocated: there before. */
static int snapshot_blocks(trace *t, const datum *segment, uint32_t line) {
  const datum *blocks = trace_get(t, segment, "blocks");
  uint32_t i;
  uint64_t next = 0;
  if (datum_items(blocks) && number_of(t, segment, "address", line, &next))
    return t->status;
  for (i = 0; i < datum_items(blocks); i++) {
    const datum *b = datum_item(blocks, i), *state = trace_get(t, b, "state");
    vram_event e;
    trace_note note;
    trace_key *k;
    uint64_t size;
    int64_t id;
    memset(&e, 0, sizeof e);
    memset(&note, 0, sizeof note);
    note.line = line;
    if (trace_enough(t, line) || number_of(t, b, "size", line, &size))
      return t->status;
    if (size > (uint64_t)INT64_MAX / 4)
      return trace_bad(t, line, "more bytes than any device has", NULL, 0);
    e.address = next; /* older ones do not say where a block is: they lie side by side */
    if (trace_get(t, b, "address") && number_of(t, b, "address", line, &e.address))
      return t->status;
    next = e.address + size;
    if (datum_is(state, "inactive"))
      continue;
    k = trace_find(t, e.address, BY_ADDRESS);
    if (!k)
      return t->status;
    if (k->used && k->state != DEAD)
      continue;
    e.bytes = (uint64_t)datum_int(trace_get(t, b, "requested_size"), (int64_t)size);
    if (!e.bytes || e.bytes > size)
      e.bytes = size;
    e.category = VRAM_CATEGORY_OTHER;
    e.stream = (uint64_t)datum_int(trace_get(t, segment, "stream"), 0);
    note.node = snapshot_node(t, b, line);
    if (t->status || trace_before(t, &e, &note, &id))
      return t->status;
    t->nkey += !k->used;
    k->used = 1;
    k->state = ALIVE;
    k->id = id;
  }
  return FITS;
}

int trace_read_snapshot(trace *t, const datum *root, int64_t device) {
  const datum *traces = datum_get(root, "device_traces"),
              *segments = root->type == V_LIST ? root : datum_get(root, "segments"), *list;
  uint32_t i;
  t->is_snapshot = 1;
  if (!segments || segments->type != V_LIST || (traces && traces->type != V_LIST))
    return trace_bad(t, 0, "no memory snapshot: expected 'segments' and 'device_traces'", NULL, 0);
  if (device < 0) {
    for (i = 0; i < datum_items(traces) && device < 0; i++)
      if (datum_items(datum_item(traces, i)))
        device = i;
    if (device < 0)
      device = datum_int(datum_get(datum_item(segments, 0), "device"), 0);
  }
  list = device < MAX_ITEMS ? datum_item(traces, (uint32_t)device) : NULL;
  if (list && list->type != V_LIST)
    return trace_bad(t, 0, "a device's trace that is no list", NULL, 0);
  snapshot_settings(t, datum_get(root, "allocator_settings"));
  t->has_addresses = t->has_nodes = 1;
  for (i = 0; i < datum_items(list); i++)
    if (trace_enough(t, i) || snapshot_entry(t, datum_item(list, i), i))
      return t->status;
  for (i = 0; i < datum_items(segments); i++) {
    const datum *segment = datum_item(segments, i);
    uint64_t size;
    if (trace_enough(t, i))
      return t->status;
    if (datum_int(trace_get(t, segment, "device"), 0) != device)
      continue;
    if (number_of(t, segment, "total_size", i, &size) || snapshot_blocks(t, segment, i))
      return t->status;
    t->reserved_at_end += size;
  }
  return trace_order(t);
}
