/* >>write/summary    torch.cuda.memory_summary */
#include "write/write.h"

static void vram__pen_rule(vram__pen *p, const char *of) {
  uint32_t i;
  vram__pen_puts(p, "|");
  for (i = 0; i < 75; i++)
    vram__pen_puts(p, of);
  vram__pen_puts(p, "|\n");
}

/* The unit of a row follows from its first line. */
static void vram__summary_size(vram__pen *p, uint64_t v, uint64_t of) {
  static const char *const name[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
  uint32_t u = 0;
  while (u < 5 && of >> 10 * u >= 786432)
    u++;
  vram__pen_number(p, v >> 10 * u, 6);
  vram__pen_puts(p, " ");
  vram__pen_puts(p, name[u]);
}

static void vram__summary_count(vram__pen *p, uint64_t v, uint64_t of) {
  static const char *const name[] = {"  ", "K ", "M "};
  uint64_t unit = 1;
  uint32_t u = 0;
  for (; u < 2 && of / unit >= 750000; u++)
    unit *= 1000;
  vram__pen_number(p, v / unit, 7);
  vram__pen_puts(p, " ");
  vram__pen_puts(p, name[u]);
}

static void vram__summary_row(vram__pen *p, const char *name, const vram_stat *v,
                              const vram_stat *of,
                              void (*number)(vram__pen *p, uint64_t v, uint64_t of)) {
  vram__pen_puts(p, "| ");
  vram__pen_left(p, name, 21);
  vram__pen_puts(p, " | ");
  number(p, v->current, of->current);
  vram__pen_puts(p, " | ");
  number(p, v->peak, of->peak);
  vram__pen_puts(p, " | ");
  number(p, v->allocated, of->allocated);
  vram__pen_puts(p, " | ");
  number(p, v->freed, of->freed);
  vram__pen_puts(p, " |\n");
}

VRAM_API vram_result vram_write_summary(const vram_memory_stats *stats, uint32_t device,
                                        int abbreviated, const vram_sink *sink) {
  const struct {
    const char *name;
    const vram_stat *of;
    void (*number)(vram__pen *p, uint64_t v, uint64_t of);
  } row[] = {{"Allocated memory", stats->allocated_bytes, vram__summary_size},
             {"Active memory", stats->active_bytes, vram__summary_size},
             {"Requested memory", stats->requested_bytes, vram__summary_size},
             {"GPU reserved memory", stats->reserved_bytes, vram__summary_size},
             {"Non-releasable memory", stats->inactive_split_bytes, vram__summary_size},
             {"Allocations", stats->allocation, vram__summary_count},
             {"Active allocs", stats->active, vram__summary_count},
             {"GPU reserved segments", stats->segment, vram__summary_count},
             {"Non-releasable allocs", stats->inactive_split, vram__summary_count}};
  vram__pen pen, *p = &pen;
  char number[24];
  uint32_t i, n = 0;
  vram__pen_begin(p, sink);
  vram__pen_rule(p, "=");
  vram__pen_puts(p, "|                     vram memory summary, ");
  if (device == VRAM_DEVICE_HOST) {
    vram__text_puts(number, sizeof number, &n, "host");
  } else {
    vram__text_puts(number, sizeof number, &n, "device ID ");
    vram__text_puti(number, sizeof number, &n, device);
  }
  vram__pen_left(p, number, 32);
  vram__pen_puts(p, " |\n");
  vram__pen_rule(p, "-");
  vram__pen_puts(p, "|            CUDA OOMs: ");
  vram_bytes_text(stats->num_ooms, VRAM_UNITS_BYTES, number, sizeof number);
  vram__pen_left(p, number, 12);
  vram__pen_puts(p, " |        cudaMalloc retries: ");
  vram_bytes_text(stats->num_alloc_retries, VRAM_UNITS_BYTES, number, sizeof number);
  vram__pen_left(p, number, 8);
  vram__pen_puts(p, "  |\n");
  vram__pen_rule(p, "=");
  vram__pen_puts(p,
                 "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n");
  for (i = 0; i < sizeof row / sizeof *row; i++) {
    const vram_stat *of = row[i].of;
    vram__pen_rule(p, "-");
    vram__summary_row(p, row[i].name, of, of, row[i].number);
    if (abbreviated)
      continue;
    vram__summary_row(p, "      from large pool", of + VRAM_POOL_LARGE, of, row[i].number);
    vram__summary_row(p, "      from small pool", of + VRAM_POOL_SMALL, of, row[i].number);
  }
  vram__pen_rule(p, "-");
  vram__summary_row(p, "Oversize allocations", &stats->oversize_allocations,
                    &stats->oversize_allocations, vram__summary_count);
  vram__pen_rule(p, "-");
  vram__summary_row(p, "Oversize GPU segments", &stats->oversize_segments,
                    &stats->oversize_segments, vram__summary_count);
  vram__pen_rule(p, "=");
  return vram__pen_end(p);
}
