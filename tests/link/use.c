/* A user of the header: parses a model, plays a step, returns its peak. FUNCTION names it. */
#include "vram.h"

#ifdef __cplusplus
extern "C"
#endif
    uint64_t
    FUNCTION(void);

uint64_t FUNCTION(void) {
  static const char text[] = "dim N=4\ninput x f32 [N,10]\nlinear y x out_features=5\n"
                             "relu r y\nmean loss r\n";
  static uint64_t memory[4096], scratch[16384];
  vram_dim batch = {"N", 8};
  vram_graph g;
  vram_report r;
  vram_error e;
  vram_step_options o = VRAM_ZERO_INIT;
  o.train = 1;
  vram_graph_init(&g, memory, sizeof memory);
  if (vram_graph_parse(&g, text, sizeof text - 1, &batch, 1, &e) ||
      vram_step_bytes(&g, &o) > sizeof scratch ||
      vram_step(&g, &o, scratch, sizeof scratch, &r, &e))
    return 0;
  return r.peak_requested_bytes;
}
