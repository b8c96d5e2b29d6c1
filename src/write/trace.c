/* >>write/trace    the trace of a browser */
#include "write/write.h"

typedef struct vram__flow { /* of one device */
  uint64_t allocated, reserved, category[VRAM_CATEGORY_COUNT];
} vram__flow;

/* What an event adds (way 1) or, played backwards, takes (-1). */
static void vram__flow_by(vram__flow *f, const vram_event *e, int way) {
  const uint64_t block = e->block_bytes ? e->block_bytes : e->bytes;
  const int adds =
      (way > 0) == (e->action == VRAM_ACTION_ALLOC || e->action == VRAM_ACTION_SEGMENT_ALLOC ||
                    e->action == VRAM_ACTION_SEGMENT_MAP);
#define VRAM__BY(field, n) (f->field = adds ? f->field + (n) : f->field - (n))
  switch (e->action) {
  case VRAM_ACTION_ALLOC:
  case VRAM_ACTION_FREE:
    if (e->action == VRAM_ACTION_ALLOC || !e->waited)
      VRAM__BY(allocated, block);
    if (e->whole)
      VRAM__BY(reserved, block);
    VRAM__BY(category[e->category], e->bytes);
    break;
  case VRAM_ACTION_FREE_REQUESTED:
    VRAM__BY(allocated, block);
    break;
  case VRAM_ACTION_SEGMENT_ALLOC:
  case VRAM_ACTION_SEGMENT_MAP:
  case VRAM_ACTION_SEGMENT_FREE:
  case VRAM_ACTION_SEGMENT_UNMAP:
    VRAM__BY(reserved, e->bytes);
    break;
  case VRAM_ACTION_BECOMES:
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
  vram__memory_zero(&f, sizeof f);
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
    if (!device && a->device && a->device != VRAM_DEVICE_HOST) /* of device 0 is what is left */
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
    (void)vram__node_text(e->node, name, sizeof name);
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
  vram__tracer_line(t, e->action == VRAM_ACTION_ALLOC ? "b" : "e", e->device, time);
  vram__pen_puts(p, ",\"cat\":\"allocation\",\"id\":\"");
  vram__pen_number(p, (uint64_t)e->id, 0);
  vram__pen_puts(p, "\"");
  vram__tracer_name(t, e);
  if (e->action == VRAM_ACTION_ALLOC) {
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
    if (e->action == VRAM_ACTION_ALLOC && e->id >= 0)
      first = (uint64_t)e->id;
    if (e->action <= VRAM_ACTION_BECOMES)
      t->categories |= 1u << e->category | 1u << e->was;
    vram__flow_by(&f, e, -1);
  }
  if (!events)
    return;
  vram__tracer_line(t, "M", device, 0);
  vram__pen_puts(p, ",\"name\":\"process_name\",\"args\":{\"name\":\"");
  if (device == VRAM_DEVICE_HOST)
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
    if (e->action >= VRAM_ACTION_RETRY) {
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
        (e->action == VRAM_ACTION_ALLOC ||
         (e->action == VRAM_ACTION_FREE && (uint64_t)e->id >= first)))
      vram__tracer_span(t, e, time);
  }
}

VRAM_API vram_result vram_write_trace(vram_ledger *l, uint64_t least, const vram_sink *sink) {
  vram__tracer tracer, *t = &tracer;
  uint32_t i;
  vram__memory_zero(t, sizeof *t);
  t->l = l;
  vram__pen_begin(&t->pen, sink);
  vram__ledger_lock(l);
  vram__pen_puts(&t->pen, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (i = 0; i < l->options.devices; i++)
    vram__tracer_device(t, i, least);
  vram__tracer_device(t, VRAM_DEVICE_HOST, least);
  vram__pen_puts(&t->pen, "\n]}\n");
  vram__ledger_unlock(l);
  return vram__pen_end(&t->pen);
}
