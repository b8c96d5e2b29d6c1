/* Networks of staged lines (DIR/nets.h, DIR/rows.inc by random_nets.py) counted twice: by the
   compiler, from the macros, and here, by vram_net_count(). Every figure of every line must be the
   same, and the offsets that the lines give themselves must be a plan: no two values that live at
   the same time overlap, none ends beyond the arena.
     cc -I DIR random_nets.c impl.o && ./a.out DIR */
#include "../../vram.h"
#include "nets.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINES 256
typedef struct row {
  const char *name;
  uint64_t figure[17];
} row;
typedef struct net {
  const char *name;
  uint64_t params, macs, weight_bytes, flash_bytes, state_bytes, live_bytes, pingpong_bytes;
  uint64_t arena_bytes;
  const uint64_t *offset;  /* of the input and of every line's value */
  const uint64_t *scratch; /* where its scratch is */
  void (*fill)(row *at);
} net;

#define FIGURES(X)                                                                                 \
  X(height)                                                                                        \
  X(width)                                                                                         \
  X(channels)                                                                                      \
  X(out_bytes)                                                                                     \
  X(params)                                                                                        \
  X(macs)                                                                                          \
  X(weight_bytes)                                                                                  \
  X(flash_bytes)                                                                                   \
  X(scratch_bytes)                                                                                 \
  X(state_bytes)                                                                                   \
  X(live_bytes)                                                                                    \
  X(total_params)                                                                                  \
  X(total_macs)                                                                                    \
  X(total_weight_bytes)                                                                            \
  X(total_flash_bytes)                                                                             \
  X(total_state_bytes)                                                                             \
  X(peak_live_bytes)
static const char *const figure_name[] = {
#define X(what) #what,
    FIGURES(X)
#undef X
};

static unsigned long passed, failed;
static void same(const char *net_name, const char *line, const char *what, uint64_t macro,
                 uint64_t function) {
  if (macro == function)
    passed++;
  else if (failed++ < 20)
    printf("FAIL %s %s %s: %" PRIu64 " by the compiler, %" PRIu64 " by vram_net_count\n", net_name,
           line, what, macro, function);
}

static char *whole(const char *folder, const char *name, size_t *len) {
  char path[4096], *text;
  FILE *f;
  snprintf(path, sizeof path, "%s/%s.h", folder, name);
  f = fopen(path, "rb");
  text = f ? (char *)malloc(1 << 20) : NULL;
  *len = text ? fread(text, 1, 1 << 20, f) : 0;
  if (f)
    fclose(f);
  return text;
}

static void compare(const char *folder, const net *m, unsigned *exact, double *worst) {
  static row rows[MAX_LINES];
  size_t len;
  char *text = whole(folder, m->name, &len);
  const uint64_t bytes = vram_net_read_bytes(text, len);
  void *mem = malloc((size_t)bytes), *scratch;
  vram_buffer *b;
  vram_arena arena;
  vram_arena_options o = VRAM_ZERO_INIT;
  vram_error e = VRAM_ZERO_INIT;
  vram_net t = VRAM_ZERO_INIT;
  uint64_t need;
  uint32_t i, k;
  if (vram_net_read(text, len, m->name, mem, bytes, &t, &e) || vram_net_count(&t, &e)) {
    failed++;
    printf("FAIL %s:%u: %s\n", m->name, e.line, e.text);
    goto end;
  }
  if (t.nline > MAX_LINES) {
    failed++;
    printf("FAIL %s has %u lines\n", m->name, t.nline);
    goto end;
  }
  m->fill(rows);
  for (i = 0; i + 2 < t.nline; i++) {
    const vram_net_line *l = &t.line[i + 1];
    const uint64_t figure[] = {
#define X(what) l->what,
        FIGURES(X)
#undef X
    };
    for (k = 0; k < sizeof figure / sizeof *figure; k++)
      same(m->name, l->y, figure_name[k], rows[i].figure[k], figure[k]);
  }
  same(m->name, "", "params", m->params, t.params);
  same(m->name, "", "macs", m->macs, t.macs);
  same(m->name, "", "weight_bytes", m->weight_bytes, t.weight_bytes);
  same(m->name, "", "flash_bytes", m->flash_bytes, t.flash_bytes);
  same(m->name, "", "state_bytes", m->state_bytes, t.state_bytes);
  same(m->name, "", "live_bytes", m->live_bytes, t.peak_live_bytes);
  same(m->name, "", "pingpong_bytes", m->pingpong_bytes, t.pingpong_bytes);

  o.greedy = 1;
  need = vram_net_plan_bytes(&t, &o);
  scratch = malloc((size_t)need);
  if (vram_net_plan(&t, &o, scratch, need, &e)) {
    failed++;
    printf("FAIL %s: %s\n", m->name, e.text);
  } else {
    /* what the plan places, where the lines say */
    uint32_t n = t.nbuffer;
    void *again;
    b = (vram_buffer *)malloc(sizeof *b * (n + 1));
    for (i = 0; i < n; i++) {
      int found = 0;
      b[i] = t.buffer[i];
      for (k = 0; k + 1 < t.nline; k++) {
        const vram_net_line *l = &t.line[k];
        if (l->buffer != i && l->scratch_buffer != i)
          continue;
        const uint64_t offset = l->buffer == i ? m->offset[k] : m->scratch[k];
        if (found && offset != b[i].offset)
          same(m->name, l->y, "offset of a value that stays", offset, b[i].offset);
        b[i].offset = offset, found = 1;
      }
      if (!found)
        same(m->name, "", "a buffer of no line", i, VRAM_NO_BUFFER);
    }
    o.align = 1;
    o.capacity[0] = m->arena_bytes;
    need = vram_arena_bytes(n, &o);
    again = malloc((size_t)need);
    if (vram_arena_verify(b, n, &o, again, need, &arena, &e)) {
      failed++;
      printf("FAIL %s: %s\n", m->name, e.text);
    } else
      passed++;
    if (m->arena_bytes < t.peak_live_bytes)
      same(m->name, "", "arena below what lives", m->arena_bytes, t.peak_live_bytes);
    *exact += m->arena_bytes == t.peak_live_bytes;
    if ((double)m->arena_bytes > *worst * (double)t.peak_live_bytes)
      *worst = (double)m->arena_bytes / (double)t.peak_live_bytes;
    free(again);
    free(b);
  }
  free(scratch);
end:
  free(mem);
  free(text);
}

#undef VRAM_NET_FIRST
#undef VRAM_NET_LINE
#undef VRAM_NET_LAST
#define VRAM_NET_FIRST(line, constants)
#define VRAM_NET_LAST(before, constants)
#define VRAM_NET_LINE(line, before, name_, op, arguments, checks, constants)                       \
  put(&at, name_, VRAM_NET_OF(line, height), VRAM_NET_OF(line, width),                             \
      VRAM_NET_OF(line, channels), VRAM_NET_OF(line, out_bytes), VRAM_NET_OF(line, params),        \
      VRAM_NET_OF(line, macs), VRAM_NET_OF(line, weight_bytes), VRAM_NET_OF(line, flash_bytes),    \
      VRAM_NET_OF(line, scratch_bytes), VRAM_NET_OF(line, state_bytes),                            \
      VRAM_NET_OF(line, live_bytes), VRAM_NET_OF(line, total_params),                              \
      VRAM_NET_OF(line, total_macs), VRAM_NET_OF(line, total_weight_bytes),                        \
      VRAM_NET_OF(line, total_flash_bytes), VRAM_NET_OF(line, total_state_bytes),                  \
      VRAM_NET_OF(line, peak_live_bytes))
#define NET(i)                                                                                     \
  {                                                                                                \
    "net" #i, VRAM_NET_PARAMS(net##i), VRAM_NET_MACS(net##i), VRAM_NET_WEIGHT_BYTES(net##i),       \
        VRAM_NET_FLASH_BYTES(net##i), VRAM_NET_STATE_BYTES(net##i), VRAM_NET_LIVE_BYTES(net##i),   \
        VRAM_NET_PINGPONG_BYTES(net##i), VRAM_NET_ARENA_BYTES(net##i), offset##i, scratch##i,      \
        fill##i                                                                                    \
  }
static void put(row **at, const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k,
                uint64_t l, uint64_t m, uint64_t n, uint64_t o, uint64_t p, uint64_t q) {
  const uint64_t figure[] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q};
  (*at)->name = name;
  memcpy((*at)->figure, figure, sizeof figure);
  ++*at;
}
#include "rows.inc"

int main(int argc, char **argv) {
  const unsigned n = sizeof nets / sizeof *nets;
  unsigned i, exact = 0;
  double worst = 1;
  if (argc != 2)
    return 2;
  for (i = 0; i < n; i++)
    compare(argv[1], &nets[i], &exact, &worst);
  printf("%u of %u arenas as low as can be, the worst %.0f %% over that\n", exact, n,
         100 * (worst - 1));
  printf("random_nets: %lu passed, %lu failed\n", passed, failed);
  return failed != 0;
}
