/* >>write/log    what changed between two marks */
#include "write/write.h"

static void vram__log_change(vram__pen *p, const vram_ledger *l, const vram_change *c) {
  const uint64_t count = c->count < 0 ? 0 - (uint64_t)c->count : (uint64_t)c->count;
  const uint64_t sum = c->sum < 0 ? 0 - (uint64_t)c->sum : (uint64_t)c->sum;
  const int less = c->sum < 0 || (!c->sum && c->count < 0);
  vram__pen_puts(p, less ? "- | " : "+ | ");
  if (c->various) {
    vram__pen_spaces(p, 8);
    vram__pen_right(p, "various", 11);
  } else {
    vram__pen_number(p, count, 6);
    vram__pen_puts(p, " *");
    vram__pen_bytes(p, c->bytes, 11);
  }
  vram__pen_puts(p, " | ");
  vram__pen_bytes(p, sum, 10);
  vram__pen_puts(p, " | ");
  if (c->various)
    vram__pen_puts(p, "more places and sizes than vram_ledger_options.groups");
  else
    vram__pen_owner(p, l->owner + c->owner);
  if (!c->various && c->device == VRAM_DEVICE_HOST)
    vram__pen_puts(p, " (host)");
  else if (c->device) {
    vram__pen_puts(p, " (GPU ");
    vram__pen_number(p, c->device, 0);
    vram__pen_puts(p, ")");
  }
  vram__pen_puts(p, "\n");
}

VRAM_API vram_result vram_write_log(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, vram_change *list, uint32_t cap,
                                    const vram_sink *sink) {
  vram__pen pen, *p = &pen;
  vram__pen head;
  uint32_t i, n;
  uint64_t was;
  vram__pen_begin(p, sink);
  vram__pen_begin(&head, NULL);
  vram__ledger_lock(l);
  was = l->mark_bytes;
  n = vram__ledger_mark(l, list, cap);
  for (i = 0; i < 2; i++) { /* once to measure */
    vram__pen *q = i ? p : &head;
    vram__pen_puts(q, "At ");
    vram__pen_label(q, file ? file : "?");
    vram__pen_puts(q, " line ");
    vram__pen_number(q, line, 0);
    vram__pen_puts(q, ": ");
    vram__pen_label(q, function ? function : "?");
  }
  vram__pen_spaces(p, head.n < 49 ? 49 - head.n : 0);
  vram__pen_puts(p, " total ");
  vram__pen_bytes(p, l->bytes, 0);
  vram__pen_puts(p, l->bytes < was ? " (-" : " (+");
  vram__pen_bytes(p, l->bytes < was ? was - l->bytes : l->bytes - was, 0);
  vram__pen_puts(p, "), peak ");
  vram__pen_bytes(p, l->peak_bytes, 0);
  vram__pen_puts(p, "\n");
  for (i = 0; list && i < n && i < cap; i++)
    vram__log_change(p, l, list + i);
  if (n > i) {
    vram__pen_puts(p, "  | ");
    vram__pen_number(p, n - i, 6);
    vram__pen_puts(p, " smaller changes more\n");
  }
  vram__ledger_unlock(l);
  return vram__pen_end(p);
}
