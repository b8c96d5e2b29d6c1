/* ---- files: values as JSON, or as a pickle of protocol 2 ----
   Only opcodes that pytorch.org/memory_viz knows, at most 1,000 items in one of APPENDS: the page
   puts them on the stack. Words that come again are in the memo. */

#define VRAM__WORDS(X)                                                                             \
  X(segments)                                                                                      \
  X(device_traces)                                                                                 \
  X(allocator_settings)                                                                            \
  X(external_annotations)                                                                          \
  X(host_segments)                                                                                 \
  X(host_traces)                                                                                   \
  X(PYTORCH_CUDA_ALLOC_CONF)                                                                       \
  X(trace_alloc_max_entries)                                                                       \
  X(trace_alloc_overflowed)                                                                        \
  X(device)                                                                                        \
  X(address)                                                                                       \
  X(total_size)                                                                                    \
  X(allocated_size)                                                                                \
  X(active_size)                                                                                   \
  X(requested_size)                                                                                \
  X(stream)                                                                                        \
  X(segment_type)                                                                                  \
  X(large)                                                                                         \
  X(small)                                                                                         \
  X(segment_pool_id)                                                                               \
  X(is_expandable)                                                                                 \
  X(frames)                                                                                        \
  X(name)                                                                                          \
  X(filename)                                                                                      \
  X(line)                                                                                          \
  X(blocks)                                                                                        \
  X(size)                                                                                          \
  X(state)                                                                                         \
  X(active_allocated)                                                                              \
  X(active_pending_free)                                                                           \
  X(inactive)                                                                                      \
  X(action)                                                                                        \
  X(alloc)                                                                                         \
  X(free_requested)                                                                                \
  X(free_completed)                                                                                \
  X(segment_alloc)                                                                                 \
  X(segment_free)                                                                                  \
  X(segment_map)                                                                                   \
  X(segment_unmap)                                                                                 \
  X(oom)                                                                                           \
  X(snapshot)                                                                                      \
  X(addr)                                                                                          \
  X(device_free)                                                                                   \
  X(time_us)                                                                                       \
  X(pool_id)                                                                                       \
  X(category)                                                                                      \
  X(unknown)                                                                                       \
  X(user_metadata)

typedef enum vram__file_word {
#define VRAM__X(id) VRAM__WORD_##id,
  VRAM__WORDS(VRAM__X)
#undef VRAM__X
      VRAM__WORD_COUNT
} vram__file_word;

typedef struct vram__values {
  vram__pen pen;
  int json, comma;
  uint8_t known[VRAM__WORD_COUNT]; /* in the memo */
} vram__values;

static void vram__value_byte(vram__values *v, uint32_t byte) {
  const char c = (char)(uint8_t)byte;
  vram__pen_put(&v->pen, &c, 1);
}

/* The lowest n bytes, the lowest first. */
static void vram__value_bytes(vram__values *v, uint64_t bytes, uint32_t n) {
  while (n--) {
    vram__value_byte(v, (uint32_t)(bytes & 255));
    bytes >>= 8;
  }
}

static void vram__value_comma(vram__values *v) {
  if (v->json && v->comma)
    vram__pen_puts(&v->pen, ",");
  v->comma = 1;
}

static void vram__value_number(vram__values *v, uint64_t n) {
  vram__value_comma(v);
  if (v->json)
    vram__pen_number(&v->pen, n, 0);
  else if (n < UINT32_C(1) << 31) {
    const uint32_t bytes = n < 256 ? 1 : n < 65536 ? 2 : 4;
    vram__value_byte(v, bytes == 1 ? 'K' : bytes == 2 ? 'M' : 'J');
    vram__value_bytes(v, n, bytes);
  } else { /* two's complement */
    vram__value_byte(v, 0x8a);
    vram__value_byte(v, n >> 63 ? 9 : 8);
    vram__value_bytes(v, n, n >> 63 ? 9 : 8);
  }
}

static void vram__value_bool(vram__values *v, int truth) {
  vram__value_comma(v);
  if (v->json)
    vram__pen_puts(&v->pen, truth ? "true" : "false");
  else
    vram__value_byte(v, truth ? 0x88 : 0x89);
}

/* What is no character becomes '?', which is as long in bytes. */
static void vram__value_text(vram__values *v, const char *z) {
  vram__value_comma(v);
  if (v->json) {
    vram__pen_puts(&v->pen, "\"");
    vram__pen_json(&v->pen, z);
    vram__pen_puts(&v->pen, "\"");
  } else {
    vram__value_byte(v, 'X');
    vram__value_bytes(v, vram__len(z), 4);
    vram__pen_label(&v->pen, z);
  }
}

static void vram__value_word(vram__values *v, vram__file_word word) {
  static const char *const text[] = {
#define VRAM__X(id) #id,
      VRAM__WORDS(VRAM__X)
#undef VRAM__X
  };
  if (v->json || !v->known[word])
    vram__value_text(v, text[word]);
  if (v->json)
    return;
  vram__value_byte(v, v->known[word] ? 'h' : 'q');
  vram__value_byte(v, (uint32_t)word);
  v->known[word] = 1;
}

static void vram__value_key(vram__values *v, vram__file_word word) {
  vram__value_word(v, word);
  if (v->json)
    vram__pen_puts(&v->pen, ":");
  v->comma = 0;
}

static void vram__value_open(vram__values *v, int dict) {
  vram__value_comma(v);
  vram__pen_puts(&v->pen, v->json ? dict ? "{" : "[" : dict ? "}(" : "](");
  v->comma = 0;
}

static void vram__value_close(vram__values *v, int dict) {
  vram__pen_puts(&v->pen, v->json ? dict ? "}" : "]" : dict ? "u" : "e");
  v->comma = 1;
}

/* Before each item of a list that may be long; *n counts them. */
static void vram__value_item(vram__values *v, uint64_t *n) {
  if (++*n % 1000 == 0 && !v->json)
    vram__pen_puts(&v->pen, "e(");
}

static void vram__value_field(vram__values *v, vram__file_word word, uint64_t n) {
  vram__value_key(v, word);
  vram__value_number(v, n);
}

/* (0, 0): the pool that is not private. */
static void vram__value_pool_id(vram__values *v, vram__file_word word) {
  vram__value_key(v, word);
  vram__value_comma(v);
  vram__pen_puts(&v->pen, v->json ? "[0,0]" : "K");
  if (!v->json) {
    vram__value_byte(v, 0);
    vram__value_byte(v, 'K');
    vram__value_byte(v, 0);
    vram__value_byte(v, 0x86);
  }
}

/* ---- the memory snapshot */

typedef struct vram__snapshot {
  vram__values v;
  const vram_ledger *l;
  const vram_snapshot_options *o;
  uint64_t items, blocks; /* in the lists that are open */
  /* the segment that is open; 0: none */
  uint64_t segment, allocated, active, requested;
  uint8_t device;
} vram__snapshot;

/* What has no address has a place of its own all the same. */
static uint64_t vram__address_of(uint64_t address, uint64_t serial) {
  return address ? address : serial << 33;
}

/* The call site, and the node. */
static void vram__value_frames(vram__snapshot *s, uint32_t owner, const vram_node *node) {
  const vram_owner *w = s->l->owner + owner;
  vram__values *v = &s->v;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  vram__value_key(v, VRAM__WORD_frames);
  vram__value_open(v, 0);
  if (node) {
    (void)vram_node_name(node, name, sizeof name);
    vram__value_open(v, 1);
    vram__value_key(v, VRAM__WORD_name);
    vram__value_text(v, vram_op_name(node->op));
    vram__value_key(v, VRAM__WORD_filename);
    vram__value_text(v, name);
    vram__value_field(v, VRAM__WORD_line, node->line);
    vram__value_close(v, 1);
  }
  if (w->file || w->function || w->tag) {
    vram__value_open(v, 1);
    vram__value_key(v, VRAM__WORD_name);
    vram__value_text(v, w->function ? w->function : w->tag ? w->tag : "");
    vram__value_key(v, VRAM__WORD_filename);
    vram__value_text(v, w->file ? w->file : "");
    vram__value_field(v, VRAM__WORD_line, w->line);
    vram__value_close(v, 1);
  }
  vram__value_close(v, 0);
}

static void vram__snapshot_segment(vram__snapshot *s, uint64_t address, uint64_t bytes,
                                   uint64_t stream, int small_pool, int expandable) {
  vram__values *v = &s->v;
  vram__value_item(v, &s->items);
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_device);
  if (s->device == VRAM_HOST) { /* -1 */
    vram__value_comma(v);
    vram__pen_puts(&v->pen, v->json ? "-1" : "J\377\377\377\377");
  } else
    vram__value_number(v, s->device);
  vram__value_field(v, VRAM__WORD_address, address);
  vram__value_field(v, VRAM__WORD_total_size, bytes);
  vram__value_field(v, VRAM__WORD_stream, stream);
  vram__value_key(v, VRAM__WORD_segment_type);
  vram__value_word(v, small_pool ? VRAM__WORD_small : VRAM__WORD_large);
  vram__value_pool_id(v, VRAM__WORD_segment_pool_id);
  vram__value_key(v, VRAM__WORD_is_expandable);
  vram__value_bool(v, expandable);
  vram__value_frames(s, 0, NULL);
  vram__value_key(v, VRAM__WORD_blocks);
  vram__value_open(v, 0);
  s->blocks = 0;
  s->segment = address;
  s->allocated = s->active = s->requested = 0;
}

static void vram__snapshot_segment_end(vram__snapshot *s) {
  vram__values *v = &s->v;
  if (!s->segment)
    return;
  vram__value_close(v, 0);
  vram__value_field(v, VRAM__WORD_allocated_size, s->allocated);
  vram__value_field(v, VRAM__WORD_active_size, s->active);
  vram__value_field(v, VRAM__WORD_requested_size, s->requested);
  vram__value_close(v, 1);
  s->segment = 0;
}

/* state as vram_piece.state */
static void vram__snapshot_block(vram__snapshot *s, uint64_t address, uint64_t bytes,
                                 uint64_t requested, int state, const vram_allocation *a) {
  static const vram__file_word word[] = {VRAM__WORD_inactive, VRAM__WORD_active_allocated,
                                         VRAM__WORD_active_pending_free};
  vram__values *v = &s->v;
  vram__value_item(v, &s->blocks);
  vram__value_open(v, 1);
  vram__value_field(v, VRAM__WORD_address, address);
  vram__value_field(v, VRAM__WORD_size, bytes);
  vram__value_field(v, VRAM__WORD_requested_size, state ? requested : 0);
  vram__value_key(v, VRAM__WORD_state);
  vram__value_word(v, word[state]);
  vram__value_frames(s, a ? a->owner : 0, a ? a->node : NULL);
  if (a && s->l->owner[a->owner].tag) {
    vram__value_key(v, VRAM__WORD_user_metadata);
    vram__value_text(v, s->l->owner[a->owner].tag);
  }
  vram__value_close(v, 1);
  s->allocated += state == 1 ? bytes : 0;
  s->active += state ? bytes : 0;
  s->requested += state ? requested : 0;
}

static int vram__snapshot_piece(void *user, const vram_piece *piece) {
  vram__snapshot *s = (vram__snapshot *)user;
  const vram_allocation *a = s->l->live + vram__live_at(s->l, piece->address);
  if (piece->segment != s->segment) {
    vram__snapshot_segment_end(s);
    vram__snapshot_segment(s, piece->segment, piece->segment_bytes, piece->stream,
                           piece->small_pool, piece->expandable);
  }
  vram__snapshot_block(s, piece->address, piece->bytes, piece->requested, piece->state,
                       piece->state && a->address ? a : NULL);
  return 0;
}

/* Does it lie in a segment of one of the pools? */
static int vram__in_pool(const vram__snapshot *s, uint32_t device, int whole, uint32_t kind) {
  uint32_t i;
  for (i = 0; !whole && i < s->o->npool; i++)
    if (s->o->pool[i]->options.device == device)
      return !s->o->kinds || (s->o->kinds >> kind & 1);
  return 0;
}

/* All segments of devices, or of the host. */
static void vram__snapshot_segments(vram__snapshot *s, int host) {
  const vram_ledger *l = s->l;
  uint64_t address;
  uint32_t i;
  vram__value_open(&s->v, 0);
  s->items = 0;
  for (i = 0; i < s->o->npool; i++) {
    s->device = s->o->pool[i]->options.device;
    if ((s->device == VRAM_HOST) == host)
      (void)vram_pool_walk(s->o->pool[i], vram__snapshot_piece, s);
    vram__snapshot_segment_end(s);
  }
  for (i = 0; i <= l->live_mask; i++) {
    const vram_allocation *a = l->live + i;
    if (!a->address || (a->device == VRAM_HOST) != host || !a->block_bytes ||
        vram__in_pool(s, a->device, (a->flags & VRAM_LIVE_WHOLE) != 0, a->kind))
      continue;
    s->device = a->device;
    address = vram__address_of(a->flags & VRAM__LIVE_BY_ID ? 0 : a->address, a->serial);
    vram__snapshot_segment(s, address, a->block_bytes, a->stream, (a->flags & VRAM_LIVE_SMALL) != 0,
                           0);
    vram__snapshot_block(s, address, a->block_bytes, a->bytes, a->flags & VRAM_LIVE_WAITS ? 2 : 1,
                         a);
    vram__snapshot_segment_end(s);
  }
  vram__value_close(&s->v, 0);
}

static void vram__snapshot_entry(vram__snapshot *s, const vram_event *e, uint64_t time,
                                 vram__file_word action, uint64_t bytes) {
  vram__values *v = &s->v;
  vram__value_item(v, &s->items);
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_action);
  vram__value_word(v, action);
  if (action == VRAM__WORD_oom)
    vram__value_field(v, VRAM__WORD_device_free, e->device_free);
  else
    vram__value_field(v, VRAM__WORD_addr,
                      e->id < 0 ? e->address : vram__address_of(e->address, (uint64_t)e->id));
  vram__value_field(v, VRAM__WORD_size, bytes);
  vram__value_field(v, VRAM__WORD_stream, e->stream);
  vram__value_field(v, VRAM__WORD_time_us, time);
  vram__value_pool_id(v, VRAM__WORD_pool_id);
  vram__value_key(v, VRAM__WORD_category);
  if (e->category == VRAM_CATEGORY_OTHER || e->id < 0)
    vram__value_word(v, VRAM__WORD_unknown);
  else
    vram__value_text(v, vram_category_name(e->category));
  vram__value_key(v, VRAM__WORD_user_metadata);
  vram__value_text(v, s->l->owner[e->owner].tag ? s->l->owner[e->owner].tag : "");
  vram__value_frames(s, e->owner, e->node);
  vram__value_close(v, 1);
}

/* The events of a device. The page plays them backwards from the segments: what comes without a
   segment brings its own. */
static void vram__snapshot_trace(vram__snapshot *s, uint32_t device) {
  const vram_ledger *l = s->l;
  const uint64_t n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  const vram_memory_stats *m = vram__stats_of(l, device);
  uint64_t k, time = 0;
  vram_event last;
  vram__value_open(&s->v, 0);
  s->items = 0;
  for (k = l->trace_count - n; k < l->trace_count; k++) {
    const vram_event *e = l->trace + k % l->options.trace;
    const int pooled = vram__in_pool(s, e->device, e->whole, e->kind);
    const uint64_t block = e->block_bytes ? e->block_bytes : e->bytes;
    if (e->device != device)
      continue;
    time = e->time ? e->time : k;
    if (e->id < 0) { /* segments, and what is no allocation */
      if (e->action == VRAM_OOM)
        vram__snapshot_entry(s, e, time, VRAM__WORD_oom, e->bytes);
      else if (e->action >= VRAM_SEGMENT_ALLOC && e->action <= VRAM_SEGMENT_UNMAP && pooled &&
               e->address)
        vram__snapshot_entry(s, e, time,
                             e->action == VRAM_SEGMENT_ALLOC  ? VRAM__WORD_segment_alloc
                             : e->action == VRAM_SEGMENT_FREE ? VRAM__WORD_segment_free
                             : e->action == VRAM_SEGMENT_MAP  ? VRAM__WORD_segment_map
                                                              : VRAM__WORD_segment_unmap,
                             e->bytes);
      continue;
    }
    if (!block)
      continue;
    if (e->action == VRAM_ALLOC) {
      if (!pooled)
        vram__snapshot_entry(s, e, time, VRAM__WORD_segment_alloc, block);
      vram__snapshot_entry(s, e, time, VRAM__WORD_alloc, e->bytes);
    }
    if (e->action == VRAM_FREE_REQUESTED || (e->action == VRAM_FREE && !e->waited))
      vram__snapshot_entry(s, e, time, VRAM__WORD_free_requested, e->bytes);
    if (e->action == VRAM_FREE) {
      vram__snapshot_entry(s, e, time, VRAM__WORD_free_completed, e->bytes);
      if (!pooled)
        vram__snapshot_entry(s, e, time, VRAM__WORD_segment_free, block);
    }
  }
  if (s->items) { /* one entry without a category: else some versions of the page stop */
    vram__zero(&last, sizeof last);
    last.id = -1;
    vram__snapshot_entry(s, &last, time, VRAM__WORD_snapshot, m->active_bytes[0].current);
  }
  vram__value_close(&s->v, 0);
}

static void vram__config_put(char *to, uint32_t cap, uint32_t *n, const char *name, uint64_t v) {
  vram__puts(to, cap, n, *n ? "," : "");
  vram__puts(to, cap, n, name);
  vram__putu(to, cap, n, v);
}

/* Resolved options as vram_pool_config reads them: what is not the default. */
static void vram__config_text(const vram_pool_options *o, char *to, uint32_t cap) {
  const uint64_t usual = UINT64_C(20) << 20;
  uint32_t n = 0, i, used = 0, place, rest = o->garbage_collection_threshold;
  vram__puts(to, cap, &n, o->expandable_segments ? "expandable_segments:True" : "");
  if (o->max_split_size != UINT64_MAX)
    vram__config_put(to, cap, &n, "max_split_size_mb:", o->max_split_size >> 20);
  if (o->max_non_split_rounding != usual)
    vram__config_put(to, cap, &n, "max_non_split_rounding_mb:", o->max_non_split_rounding >> 20);
  if (o->large_segment_size != usual)
    vram__config_put(to, cap, &n, "large_segment_size_mb:", o->large_segment_size >> 20);
  if (rest) {
    vram__config_put(to, cap, &n, "garbage_collection_threshold:", 0);
    vram__puts(to, cap, &n, ".");
    for (place = 100000; place; place /= 10) {
      vram__putu(to, cap, &n, rest / place);
      rest %= place;
    }
  }
  for (i = 0; i < 16; i++)
    used |= o->roundup_power2_divisions[i];
  for (i = 0; used && i < 16; i++) {
    if (!i) {
      vram__puts(to, cap, &n, n ? "," : "");
      vram__puts(to, cap, &n, "roundup_power2_divisions:[");
    }
    vram__puts(to, cap, &n, i ? "," : "");
    vram__putu(to, cap, &n, UINT64_C(1) << i);
    vram__puts(to, cap, &n, ":");
    vram__putu(to, cap, &n, o->roundup_power2_divisions[i]);
  }
  vram__puts(to, cap, &n, used ? "]" : "");
}

VRAM_API vram_result vram_write_snapshot(vram_ledger *l, const vram_snapshot_options *options,
                                         const vram_sink *sink) {
  vram_snapshot_options none;
  vram__snapshot snapshot, *s = &snapshot;
  vram__values *v = &s->v;
  char conf[400];
  uint32_t i, n = 0;
  uint64_t k;
  vram__zero(&none, sizeof none);
  vram__zero(s, sizeof *s);
  s->o = options ? options : &none;
  s->l = l;
  v->json = s->o->json;
  vram__pen_begin(&v->pen, sink);
  conf[0] = 0;
  if (s->o->npool)
    vram__config_text(&s->o->pool[0]->options, conf, sizeof conf);
  vram__ledger_lock(l);
  if (!v->json)
    vram__pen_puts(&v->pen, "\200\002"); /* PROTO 2 */
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_segments);
  vram__snapshot_segments(s, 0);
  vram__value_key(v, VRAM__WORD_device_traces);
  vram__value_open(v, 0);
  for (k = 0; k < l->options.trace && k < l->trace_count; k++)
    if (l->trace[k].device != VRAM_HOST && l->trace[k].device >= n)
      n = l->trace[k].device + 1u;
  for (i = 0; i <= l->live_mask; i++)
    if (l->live[i].address && l->live[i].device != VRAM_HOST && l->live[i].device >= n)
      n = l->live[i].device + 1u;
  for (i = 0; i < s->o->npool; i++)
    if (s->o->pool[i]->options.device != VRAM_HOST && s->o->pool[i]->options.device >= n)
      n = s->o->pool[i]->options.device + 1u;
  for (i = 0; i < n; i++)
    vram__snapshot_trace(s, i);
  vram__value_close(v, 0);
  vram__value_key(v, VRAM__WORD_allocator_settings);
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_PYTORCH_CUDA_ALLOC_CONF);
  vram__value_text(v, conf);
  vram__value_field(v, VRAM__WORD_trace_alloc_max_entries, l->options.trace);
  vram__value_key(v, VRAM__WORD_trace_alloc_overflowed);
  vram__value_bool(v, l->trace_count > l->options.trace);
  vram__value_close(v, 1);
  vram__value_key(v, VRAM__WORD_external_annotations);
  vram__value_open(v, 0);
  vram__value_close(v, 0);
  vram__value_key(v, VRAM__WORD_host_segments);
  vram__snapshot_segments(s, 1);
  vram__value_key(v, VRAM__WORD_host_traces);
  vram__snapshot_trace(s, VRAM_HOST);
  vram__value_close(v, 1);
  vram__pen_puts(&v->pen, v->json ? "\n" : ".");
  vram__ledger_unlock(l);
  return vram__pen_end(&v->pen);
}

/* ---- the trace of a browser */

typedef struct vram__flow { /* of one device */
  uint64_t allocated, reserved, category[VRAM_CATEGORY_COUNT];
} vram__flow;

/* What an event adds (way 1) or, played backwards, takes (-1). */
static void vram__flow_by(vram__flow *f, const vram_event *e, int way) {
  const uint64_t block = e->block_bytes ? e->block_bytes : e->bytes;
  const int adds = (way > 0) == (e->action == VRAM_ALLOC || e->action == VRAM_SEGMENT_ALLOC ||
                                 e->action == VRAM_SEGMENT_MAP);
#define VRAM__BY(field, n) (f->field = adds ? f->field + (n) : f->field - (n))
  switch (e->action) {
  case VRAM_ALLOC:
  case VRAM_FREE:
    if (e->action == VRAM_ALLOC || !e->waited)
      VRAM__BY(allocated, block);
    if (e->whole)
      VRAM__BY(reserved, block);
    VRAM__BY(category[e->category], e->bytes);
    break;
  case VRAM_FREE_REQUESTED:
    VRAM__BY(allocated, block);
    break;
  case VRAM_SEGMENT_ALLOC:
  case VRAM_SEGMENT_MAP:
  case VRAM_SEGMENT_FREE:
  case VRAM_SEGMENT_UNMAP:
    VRAM__BY(reserved, e->bytes);
    break;
  case VRAM_BECOMES:
    f->category[way > 0 ? e->was : e->category] -= e->bytes;
    f->category[way > 0 ? e->category : e->was] += e->bytes;
    break;
  default:
    break;
  }
#undef VRAM__BY
}

/* As it is now, without what is lost: that is in no event. */
static vram__flow vram__flow_now(const vram_ledger *l, uint32_t device) {
  const vram_memory_stats *m = vram__stats_of(l, device);
  const vram__lost *lost = l->lost_of + (uint64_t)(m - l->device) * 4;
  vram__flow f;
  uint32_t i;
  vram__zero(&f, sizeof f);
  f.allocated = m->allocated_bytes[0].current;
  f.reserved = m->reserved_bytes[0].current;
  for (i = 0; i < 4; i++) {
    f.allocated -= lost[i].block_bytes;
    f.reserved -= i > 1 ? lost[i].block_bytes : 0;
  }
  for (i = 0; !device && i < VRAM_CATEGORY_COUNT; i++)
    f.category[i] = l->category[i].current;
  for (i = 0; i <= l->live_mask; i++) {
    const vram_allocation *a = l->live + i;
    if (!a->address)
      continue;
    if (device && a->device == device)
      f.category[a->category] += a->bytes;
    if (!device && a->device && a->device != VRAM_HOST) /* of device 0 is what is left */
      f.category[a->category] -= a->bytes;
  }
  return f;
}

typedef struct vram__tracer {
  vram__pen pen;
  const vram_ledger *l;
  uint64_t lines;
  uint32_t categories; /* which of them there are, a bit each */
} vram__tracer;

/* {"ph":...,"pid":...,"ts":... of one more line */
static void vram__tracer_line(vram__tracer *t, const char *ph, uint32_t device, uint64_t time) {
  vram__pen_f(&t->pen, "%r{\"ph\":\"%r\",\"pid\":%i,\"tid\":0,\"ts\":", t->lines++ ? ",\n" : "", ph,
              (int)device);
  vram__pen_number(&t->pen, time, 0);
}

static void vram__tracer_counters(vram__tracer *t, uint32_t device, uint64_t time,
                                  const vram__flow *f) {
  vram__pen *p = &t->pen;
  uint32_t i, k = 0;
  vram__tracer_line(t, "C", device, time);
  vram__pen_f(p, ",\"name\":\"memory\",\"args\":{\"allocated\":%u,\"reserved\":%u}}", f->allocated,
              f->reserved);
  if (!(t->categories & (t->categories - 1)))
    return;
  vram__tracer_line(t, "C", device, time);
  vram__pen_puts(p, ",\"name\":\"categories\",\"args\":{");
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (t->categories >> i & 1)
      vram__pen_f(p, "%r\"%r\":%u", k++ ? "," : "", vram_category_name((vram_category)i),
                  f->category[i]);
  vram__pen_puts(p, "}}");
}

static void vram__tracer_name(vram__tracer *t, const vram_event *e) {
  const vram_owner *w = t->l->owner + e->owner;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  vram__pen *p = &t->pen;
  vram__pen_puts(p, ",\"name\":\"");
  if (e->node) {
    (void)vram_node_name(e->node, name, sizeof name);
    vram__pen_json(p, name);
  } else if (w->tag)
    vram__pen_json(p, w->tag);
  else if (w->function)
    vram__pen_json(p, w->function);
  else
    vram__pen_puts(p, vram_category_name(e->category));
  vram__pen_puts(p, "\"");
}

/* The life of an allocation: begins with its ALLOC, ends with its FREE. */
static void vram__tracer_span(vram__tracer *t, const vram_event *e, uint64_t time) {
  const vram_owner *w = t->l->owner + e->owner;
  vram__pen *p = &t->pen;
  vram__tracer_line(t, e->action == VRAM_ALLOC ? "b" : "e", e->device, time);
  vram__pen_puts(p, ",\"cat\":\"allocation\",\"id\":\"");
  vram__pen_number(p, (uint64_t)e->id, 0);
  vram__pen_puts(p, "\"");
  vram__tracer_name(t, e);
  if (e->action == VRAM_ALLOC) {
    vram__pen_f(p, ",\"args\":{\"bytes\":%u,\"category\":\"%r\"", e->bytes,
                vram_category_name(e->category));
    if (w->file) {
      vram__pen_puts(p, ",\"place\":\"");
      vram__pen_json(p, w->file);
      vram__pen_line(p, w);
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, "}");
  }
  vram__pen_puts(p, "}");
}

static void vram__tracer_device(vram__tracer *t, uint32_t device, uint64_t least) {
  const vram_ledger *l = t->l;
  const uint64_t n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  uint64_t k, first = UINT64_MAX, events = 0;
  vram__flow f = vram__flow_now(l, device);
  vram__pen *p = &t->pen;
  uint32_t i;
  t->categories = 0;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    t->categories |= (f.category[i] ? 1u : 0u) << i;
  for (k = l->trace_count; k > l->trace_count - n; k--) { /* back to the first one */
    const vram_event *e = l->trace + (k - 1) % l->options.trace;
    if (e->device != device)
      continue;
    events++;
    if (e->action == VRAM_ALLOC && e->id >= 0)
      first = (uint64_t)e->id;
    if (e->action <= VRAM_BECOMES)
      t->categories |= 1u << e->category | 1u << e->was;
    vram__flow_by(&f, e, -1);
  }
  if (!events)
    return;
  vram__tracer_line(t, "M", device, 0);
  vram__pen_puts(p, ",\"name\":\"process_name\",\"args\":{\"name\":\"");
  if (device == VRAM_HOST)
    vram__pen_puts(p, "host memory");
  else
    vram__pen_f(p, "GPU %i", (int)device);
  vram__pen_puts(p, "\"}}");
  for (k = l->trace_count - n; k < l->trace_count; k++) {
    const vram_event *e = l->trace + k % l->options.trace;
    const uint64_t time = e->time ? e->time : k;
    if (e->device != device)
      continue;
    vram__flow_by(&f, e, 1);
    if (e->action >= VRAM_RETRY) {
      vram__tracer_line(t, "i", device, time);
      vram__pen_f(p, ",\"s\":\"p\",\"name\":\"%r", vram_action_name(e->action));
      if (l->owner[e->owner].tag) {
        vram__pen_puts(p, " ");
        vram__pen_json(p, l->owner[e->owner].tag);
      }
      vram__pen_puts(p, "\"}");
      continue;
    }
    vram__tracer_counters(t, device, time, &f);
    if (e->id >= 0 && e->bytes >= least &&
        (e->action == VRAM_ALLOC || (e->action == VRAM_FREE && (uint64_t)e->id >= first)))
      vram__tracer_span(t, e, time);
  }
}

VRAM_API vram_result vram_write_trace(vram_ledger *l, uint64_t least, const vram_sink *sink) {
  vram__tracer tracer, *t = &tracer;
  uint32_t i;
  vram__zero(t, sizeof *t);
  t->l = l;
  vram__pen_begin(&t->pen, sink);
  vram__ledger_lock(l);
  vram__pen_puts(&t->pen, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (i = 0; i < l->options.devices; i++)
    vram__tracer_device(t, i, least);
  vram__tracer_device(t, VRAM_HOST, least);
  vram__pen_puts(&t->pen, "\n]}\n");
  vram__ledger_unlock(l);
  return vram__pen_end(&t->pen);
}

/* ---- the events as CSV */

/* In quotes; inner ones are doubled. */
static void vram__pen_csv(vram__pen *p, const char *z) {
  uint32_t len = vram__len(z);
  while (len) {
    const uint32_t n = vram__utf8(z, len);
    if (*z == '"')
      vram__pen_puts(p, "\"");
    vram__pen_put(p, n ? z : "?", n ? n : 1);
    z += n ? n : 1;
    len -= n ? n : 1;
  }
}

VRAM_API vram_result vram_write_csv(vram_ledger *l, const vram_sink *sink) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  vram__pen pen, *p = &pen;
  uint64_t k, n;
  vram__pen_begin(p, sink);
  vram__ledger_lock(l);
  n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  vram__pen_puts(p, "action,id,size,stream,address,time_us,device,category,phase,node,owner,tag\n");
  for (k = l->trace_count - n; k < l->trace_count; k++) {
    const vram_event *e = l->trace + k % l->options.trace;
    const vram_owner *w = l->owner + e->owner;
    vram__pen_puts(p, e->action == VRAM_FREE ? "free_completed" : vram_action_name(e->action));
    vram__pen_puts(p, ",");
    if (e->id >= 0)
      vram__pen_number(p, (uint64_t)e->id, 0);
    else if (!e->address && e->action <= VRAM_FREE_REQUESTED)
      vram__pen_puts(p, "-1");
    vram__pen_f(p, ",%u,%u,", e->bytes, e->stream);
    if (e->address)
      vram__pen_hex(p, e->address);
    vram__pen_puts(p, ",");
    if (e->time)
      vram__pen_number(p, e->time, 0);
    if (e->device == VRAM_HOST)
      vram__pen_puts(p, ",host,");
    else
      vram__pen_f(p, ",%i,", (int)e->device);
    vram__pen_f(p, "%r,%r,", vram_category_name(e->category),
                e->phase || e->node ? vram_phase_name(e->phase) : "");
    if (e->node) {
      (void)vram_node_name(e->node, name, sizeof name);
      vram__pen_puts(p, "\"");
      vram__pen_csv(p, name);
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, ",");
    if (w->file || w->function) {
      vram__pen_puts(p, "\"");
      if (w->file) {
        vram__pen_csv(p, w->file);
        vram__pen_line(p, w);
      }
      vram__pen_puts(p, w->file && w->function ? " " : "");
      vram__pen_csv(p, w->function ? w->function : "");
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, ",");
    if (w->tag) {
      vram__pen_puts(p, "\"");
      vram__pen_csv(p, w->tag);
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, "\n");
  }
  vram__ledger_unlock(l);
  return vram__pen_end(p);
}

VRAM__ONCE_END

