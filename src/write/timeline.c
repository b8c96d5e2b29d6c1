/* >>write/timeline    a step's timeline
   All lengths in pictures are whole tenths of a unit; a picture is 500 units wide. */
#include "write/write.h"

VRAM_API uint32_t vram_bytes_text(uint64_t bytes, vram_units units, char *to, uint32_t cap) {
  static const char *const name[2][7] = {{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"},
                                         {"B", "KB", "MB", "GB", "TB", "PB", "EB"}};
  const uint64_t step = units == VRAM_UNITS_SI ? 1000 : 1024;
  uint64_t unit = 1, whole, rest, digits;
  uint32_t u = 0, n = 0, copied = 0, scale, place;
  char text[24];
  text[0] = 0;
  if (units != VRAM_UNITS_BYTES)
    for (; u < 6 && bytes / unit >= step; u++)
      unit *= step;
  whole = bytes / unit;
  rest = bytes % unit;
  scale = u && whole < 10 ? 100 : u && whole < 100 ? 10 : 1;
  for (; unit > UINT64_C(1) << 50; unit /= step)
    rest /= step;
  digits = whole * scale + rest * scale / unit;
  rest = rest * scale % unit;
  digits += 2 * rest > unit || (2 * rest == unit && (digits & 1)); /* half to even, as printf */
  vram__text_putu(text, sizeof text, &n, digits / scale);
  if (scale > 1)
    vram__text_puts(text, sizeof text, &n, ".");
  for (place = scale / 10; place; place /= 10)
    vram__text_putu(text, sizeof text, &n, digits / place % 10);
  if (units != VRAM_UNITS_BYTES) {
    vram__text_puts(text, sizeof text, &n, " ");
    vram__text_puts(text, sizeof text, &n, name[units == VRAM_UNITS_SI][u]);
  }
  if (cap)
    vram__text_put(to, cap, &copied, text, n);
  return n;
}

VRAM_API uint64_t vram_timeline_bytes(uint32_t columns) {
  return (uint64_t)columns * sizeof(vram_moment) + 7; /* 7: the memory may begin anywhere */
}

VRAM_API vram_result vram_timeline_init(vram_timeline *t, void *mem, uint64_t bytes,
                                        const uint64_t *before) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
  uint64_t room = mem && bytes > skip ? (bytes - skip) / sizeof *t->column : 0;
  uint32_t i;
  vram__memory_zero(t, sizeof *t);
  if (!room)
    return VRAM_ERR_MEMORY;
  t->column = (vram_moment *)(void *)((uint8_t *)mem + skip);
  t->cap = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
  for (i = 0; before && i < VRAM_CATEGORY_COUNT; i++) {
    t->now.bytes[i] = before[i];
    t->now.total = vram__sum_or_overflow(t->now.total, before[i]);
  }
  t->column[0] = t->peak = t->now;
  t->ncolumn = 1;
  t->width = 1;
  return VRAM_OK;
}

/* The phase of the next event. When there is no room for one more, the last two places are for
   phases behind backward; what else comes is part of the one before. */
static void vram__timeline_phase(vram_timeline *t, vram_phase phase) {
  vram_phase_span *last = t->nspan ? &t->span[t->nspan - 1] : NULL;
  const uint32_t room = VRAM_TIMELINE_SPANS - (phase <= VRAM_PHASE_BACKWARD ? 2 : 0);
  if (!last)
    t->now.phase = t->peak.phase = t->column[0].phase = phase;
  if (phase == VRAM_PHASE_FORWARD && (!last || t->now.phase != phase))
    t->forwards++;
  if (last && (last->phase == phase || t->nspan >= room))
    return;
  last = &t->span[t->nspan];
  last->phase = phase;
  last->first = t->nspan++ ? t->events + 1 : 0;
  last->peak_bytes = last->end_bytes = t->now.total;
}

VRAM_API void vram_timeline_add(void *timeline, const vram_event *e) {
  vram_timeline *t = (vram_timeline *)timeline;
  const vram_phase phase = (uint32_t)e->phase <= VRAM_PHASE_COUNT ? e->phase : VRAM_PHASE_END;
  const uint64_t at = t->events + 1;
  uint64_t *to = &t->now.bytes[vram__category_of(e->category)], *from = to, bytes = e->bytes;
  vram_phase_span *span;
  uint32_t i;
  if (!t->cap || e->device == VRAM_DEVICE_HOST || phase == VRAM_PHASE_WRAP ||
      (e->action != VRAM_ACTION_ALLOC && e->action != VRAM_ACTION_FREE &&
       e->action != VRAM_ACTION_BECOMES))
    return;
  if (e->action == VRAM_ACTION_BECOMES)
    from = &t->now.bytes[vram__category_of(e->was)];
  if (e->action == VRAM_ACTION_ALLOC && bytes > (uint64_t)VRAM_MAX_BYTES - t->now.total)
    bytes = (uint64_t)VRAM_MAX_BYTES - t->now.total;
  if (e->action != VRAM_ACTION_ALLOC && bytes > *from)
    bytes = *from;
  if (e->action == VRAM_ACTION_BECOMES) {
    *from -= bytes;
    *to += bytes;
    return;
  }
  vram__timeline_phase(t, phase);
  if (e->action == VRAM_ACTION_ALLOC) {
    *to += bytes;
    t->now.total += bytes;
  } else {
    *to -= bytes;
    t->now.total -= bytes;
  }
  t->now.event = t->events = at;
  t->now.node = e->node;
  t->now.phase = phase;
  span = &t->span[t->nspan - 1];
  span->end_bytes = t->now.total;
  if (t->now.total > span->peak_bytes)
    span->peak_bytes = t->now.total;
  if (t->now.total > t->peak.total)
    t->peak = t->now;
  while (at / t->width >= t->cap) { /* two columns become one */
    for (i = 0; i < t->ncolumn - i; i++) {
      const vram_moment *pair = t->column + i + i;
      t->column[i] = pair[i + i + 1 < t->ncolumn && pair[1].total > pair[0].total];
    }
    t->ncolumn = i;
    t->width *= 2;
  }
  i = (uint32_t)(at / t->width);
  if (i == t->ncolumn)
    t->column[t->ncolumn++] = t->now;
  else if (t->now.total > t->column[i].total)
    t->column[i] = t->now;
}

VRAM_API vram_result vram_timeline_ledger(vram_timeline *t, void *mem, uint64_t bytes,
                                          vram_ledger *l) {
  uint64_t before[VRAM_CATEGORY_COUNT], k, n;
  vram_result result;
  uint32_t c;
  int predicted = 0;
  vram_event e;
  vram__ledger_lock(l);
  for (c = 0; c < VRAM_CATEGORY_COUNT; c++)
    before[c] = l->category[c].current;
  n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  for (k = l->trace_count; k > l->trace_count - n; k--) { /* back to the first one */
    const vram_event *kept = l->trace + (k - 1) % l->options.trace;
    if (kept->device == VRAM_DEVICE_HOST)
      continue;
    predicted |= kept->node || kept->phase;
    if (kept->action == VRAM_ACTION_ALLOC || kept->action == VRAM_ACTION_BECOMES)
      before[kept->category] -= kept->bytes;
    if (kept->action == VRAM_ACTION_FREE || kept->action == VRAM_ACTION_BECOMES)
      before[kept->action == VRAM_ACTION_FREE ? kept->category : kept->was] += kept->bytes;
  }
  result = vram_timeline_init(t, mem, bytes, before);
  for (k = l->trace_count - n; !result && k < l->trace_count; k++) {
    e = l->trace[k % l->options.trace];
    if (!predicted)
      e.phase = VRAM_PHASE_COUNT;
    vram_timeline_add(t, &e);
  }
  vram__ledger_unlock(l);
  return result;
}

VRAM__FN const char *vram__span_name(vram_phase phase) {
  return phase == VRAM_PHASE_COUNT ? "observed" : vram_phase_name(phase);
}
