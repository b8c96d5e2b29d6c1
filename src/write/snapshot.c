/* >>write/snapshot    the memory snapshot */
#include "write/write.h"

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
    (void)vram__node_text(node, name, sizeof name);
    vram__value_open(v, 1);
    vram__value_key(v, VRAM__WORD_name);
    vram__value_text(v, vram__op_text(node->op));
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
  if (s->device == VRAM_DEVICE_HOST) { /* -1 */
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
    if ((s->device == VRAM_DEVICE_HOST) == host)
      (void)vram_pool_walk(s->o->pool[i], vram__snapshot_piece, s);
    vram__snapshot_segment_end(s);
  }
  for (i = 0; i <= l->live_mask; i++) {
    const vram_allocation *a = l->live + i;
    if (!a->address || (a->device == VRAM_DEVICE_HOST) != host || !a->block_bytes ||
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
      if (e->action == VRAM_ACTION_OOM)
        vram__snapshot_entry(s, e, time, VRAM__WORD_oom, e->bytes);
      else if (e->action >= VRAM_ACTION_SEGMENT_ALLOC && e->action <= VRAM_ACTION_SEGMENT_UNMAP &&
               pooled && e->address)
        vram__snapshot_entry(s, e, time,
                             e->action == VRAM_ACTION_SEGMENT_ALLOC  ? VRAM__WORD_segment_alloc
                             : e->action == VRAM_ACTION_SEGMENT_FREE ? VRAM__WORD_segment_free
                             : e->action == VRAM_ACTION_SEGMENT_MAP  ? VRAM__WORD_segment_map
                                                                     : VRAM__WORD_segment_unmap,
                             e->bytes);
      continue;
    }
    if (!block)
      continue;
    if (e->action == VRAM_ACTION_ALLOC) {
      if (!pooled)
        vram__snapshot_entry(s, e, time, VRAM__WORD_segment_alloc, block);
      vram__snapshot_entry(s, e, time, VRAM__WORD_alloc, e->bytes);
    }
    if (e->action == VRAM_ACTION_FREE_REQUESTED || (e->action == VRAM_ACTION_FREE && !e->waited))
      vram__snapshot_entry(s, e, time, VRAM__WORD_free_requested, e->bytes);
    if (e->action == VRAM_ACTION_FREE) {
      vram__snapshot_entry(s, e, time, VRAM__WORD_free_completed, e->bytes);
      if (!pooled)
        vram__snapshot_entry(s, e, time, VRAM__WORD_segment_free, block);
    }
  }
  if (s->items) { /* one entry without a category: else some versions of the page stop */
    vram__memory_zero(&last, sizeof last);
    last.id = -1;
    vram__snapshot_entry(s, &last, time, VRAM__WORD_snapshot, m->active_bytes[0].current);
  }
  vram__value_close(&s->v, 0);
}

static void vram__config_put(char *to, uint32_t cap, uint32_t *n, const char *name, uint64_t v) {
  vram__text_puts(to, cap, n, *n ? "," : "");
  vram__text_puts(to, cap, n, name);
  vram__text_putu(to, cap, n, v);
}

/* Resolved options as vram_pool_config reads them: what is not the default. */
static void vram__config_text(const vram_pool_options *o, char *to, uint32_t cap) {
  const uint64_t usual = UINT64_C(20) << 20;
  uint32_t n = 0, i, used = 0, place, rest = o->garbage_collection_threshold;
  vram__text_puts(to, cap, &n, o->expandable_segments ? "expandable_segments:True" : "");
  if (o->max_split_size != UINT64_MAX)
    vram__config_put(to, cap, &n, "max_split_size_mb:", o->max_split_size >> 20);
  if (o->max_non_split_rounding != usual)
    vram__config_put(to, cap, &n, "max_non_split_rounding_mb:", o->max_non_split_rounding >> 20);
  if (o->large_segment_size != usual)
    vram__config_put(to, cap, &n, "large_segment_size_mb:", o->large_segment_size >> 20);
  if (rest) {
    vram__config_put(to, cap, &n, "garbage_collection_threshold:", 0);
    vram__text_puts(to, cap, &n, ".");
    for (place = 100000; place; place /= 10) {
      vram__text_putu(to, cap, &n, rest / place);
      rest %= place;
    }
  }
  for (i = 0; i < 16; i++)
    used |= o->roundup_power2_divisions[i];
  for (i = 0; used && i < 16; i++) {
    if (!i) {
      vram__text_puts(to, cap, &n, n ? "," : "");
      vram__text_puts(to, cap, &n, "roundup_power2_divisions:[");
    }
    vram__text_puts(to, cap, &n, i ? "," : "");
    vram__text_putu(to, cap, &n, UINT64_C(1) << i);
    vram__text_puts(to, cap, &n, ":");
    vram__text_putu(to, cap, &n, o->roundup_power2_divisions[i]);
  }
  vram__text_puts(to, cap, &n, used ? "]" : "");
}

VRAM_API vram_result vram_write_snapshot(vram_ledger *l, const vram_snapshot_options *options,
                                         const vram_sink *sink) {
  vram_snapshot_options none;
  vram__snapshot snapshot, *s = &snapshot;
  vram__values *v = &s->v;
  char conf[400];
  uint32_t i, n = 0;
  uint64_t k;
  vram__memory_zero(&none, sizeof none);
  vram__memory_zero(s, sizeof *s);
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
    if (l->trace[k].device != VRAM_DEVICE_HOST && l->trace[k].device >= n)
      n = l->trace[k].device + 1u;
  for (i = 0; i <= l->live_mask; i++)
    if (l->live[i].address && l->live[i].device != VRAM_DEVICE_HOST && l->live[i].device >= n)
      n = l->live[i].device + 1u;
  for (i = 0; i < s->o->npool; i++)
    if (s->o->pool[i]->options.device != VRAM_DEVICE_HOST && s->o->pool[i]->options.device >= n)
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
  vram__snapshot_trace(s, VRAM_DEVICE_HOST);
  vram__value_close(v, 1);
  vram__pen_puts(&v->pen, v->json ? "\n" : ".");
  vram__ledger_unlock(l);
  return vram__pen_end(&v->pen);
}
