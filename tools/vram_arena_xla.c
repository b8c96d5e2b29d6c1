/* vram arena of XLA's buffer assignment: the heap of temporary values of a compiled program. */
#include "vram_arena.h"
#include "vram_xla.h"

/* The allocation that is the largest heap; x->nallocation: there is none. */
static uint32_t largest_heap(const xla_program *x) {
  uint32_t i, found = x->nallocation;
  for (i = 0; i < x->nallocation; i++)
    if (x->allocation[i].kind == XLA_TEMP &&
        (found == x->nallocation || x->allocation[i].bytes > x->allocation[found].bytes))
      found = i;
  return found;
}

int arena_of_xla(arena_set *s, const char *text, size_t len, uint64_t *align) {
  xla_program x;
  uint32_t i, heap;
  int status = xla_read(&x, s->path, text, len);
  if (!status) {
    xla_heap(&x);
    heap = largest_heap(&x);
    for (i = 0; i < x.nvalue && !status; i++) {
      const xla_value *const v = x.value + i;
      vram_buffer *b;
      if (v->allocation != heap)
        continue;
      b = arena_set_add(s, v->name, v->len);
      if (!b) {
        status = cmd_no_memory();
        break;
      }
      b->bytes = v->bytes;
      b->begin = v->begin;
      b->end = v->end;
    }
    for (i = 0; i < x.nallocation; i++)
      if (x.allocation[i].kind == XLA_TEMP && i != heap) {
        s->other_heaps++;
        s->other_bytes += x.allocation[i].bytes;
      }
    if (!status && heap < x.nallocation) {
      s->recorded = x.allocation[heap].bytes;
      *align = xla_alignment(&x, heap);
    }
  }
  xla_end(&x);
  return status;
}
