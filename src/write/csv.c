/* >>write/csv    events as CSV */
#include "write/write.h"

/* In quotes; inner ones are doubled. */
static void vram__pen_csv(vram__pen *p, const char *z) {
  uint32_t len = vram__text_len(z);
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
    vram__pen_puts(p,
                   e->action == VRAM_ACTION_FREE ? "free_completed" : vram_action_name(e->action));
    vram__pen_puts(p, ",");
    if (e->id >= 0)
      vram__pen_number(p, (uint64_t)e->id, 0);
    else if (!e->address && e->action <= VRAM_ACTION_FREE_REQUESTED)
      vram__pen_puts(p, "-1");
    vram__pen_f(p, ",%u,%u,", e->bytes, e->stream);
    if (e->address)
      vram__pen_hex(p, e->address);
    vram__pen_puts(p, ",");
    if (e->time)
      vram__pen_number(p, e->time, 0);
    if (e->device == VRAM_DEVICE_HOST)
      vram__pen_puts(p, ",host,");
    else
      vram__pen_f(p, ",%i,", (int)e->device);
    vram__pen_f(p, "%r,%r,", vram_category_name(e->category),
                e->phase || e->node ? vram_phase_name(e->phase) : "");
    if (e->node) {
      (void)vram__node_text(e->node, name, sizeof name);
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
