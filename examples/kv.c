/* cc -o kv examples/kv.c && ./kv
   full     2281701376 bytes,  69632 a token,         0 constant; of 4 requests  9126805504
   windows   853540864 bytes, 139264 a token,         0 constant; of 4 requests  3414163456
   latent   2302672896 bytes,  70272 a token,         0 constant; of 4 requests  9210691584
   hybrid   2301427712 bytes,  65536 a token, 153944064 constant; of 4 requests  9205710848

   KV caches of 32,768 tokens: sums that the compiler proves, and the same at run time from rows:
   a Llama 3.1 8B in q8_0, a Gemma 3 4B, a DeepSeek-V3 and a Qwen3.5 27B in bf16. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>

#define TOKENS 32768
/* keys and values of all tokens: 32 layers, 8 heads of 128 */
#define FULL VRAM_KV_CACHE_BYTES(Q8_0, 32, 8, 128, TOKENS, 1)
/* 5 layers of 34 see all, 29 hold a window of 1,024 tokens and a batch of 512, in pages of 256 */
#define WINDOW VRAM_KV_WINDOW_TOKENS(TOKENS, 1024, 512, 256)
#define WINDOWS                                                                                    \
  (VRAM_KV_CACHE_BYTES(BF16, 5, 4, 256, TOKENS, 1) +                                               \
   VRAM_KV_CACHE_BYTES(BF16, 29, 4, 256, WINDOW, 1))
/* one latent row of 512 + 64 a token, for all heads */
#define LATENT VRAM_MLA_CACHE_BYTES(BF16, 61, 512, 64, TOKENS, 1)
/* 16 layers attend; 48 hold a state: 3 columns of 10,240 channels, and 48 matrices of 128 x 128 */
#define STATE (VRAM_BYTES(BF16, 3 * 10240) + VRAM_BYTES(F32, 48 * 128 * 128))
#define HYBRID (VRAM_KV_CACHE_BYTES(BF16, 16, 4, 256, TOKENS, 1) + 48 * STATE)
VRAM_STATIC_ASSERT(FULL + HYBRID <= VRAM_GIB(5), two_requests_fit_into_5_gib);
VRAM_STATIC_ASSERT(WINDOW == 1536, a_window_is_six_pages);

static vram_kv_layer attends(vram_kv_kind kind, uint32_t count, uint32_t heads, uint32_t dim,
                             vram_dtype dtype) {
  vram_kv_layer row = VRAM_ZERO_INIT;
  row.kind = kind;
  row.count = count;
  row.heads = heads;
  row.k_dim = row.v_dim = dim;
  row.k = row.v = dtype;
  return row;
}

static int show(const char *name, const vram_kv_layer *row, uint32_t rows, uint64_t proved) {
  vram_kv kv = VRAM_ZERO_INIT;
  vram_kv_report one, four;
  vram_error e;
  kv.layer = row;
  kv.nlayer = rows;
  kv.block = 256; /* tokens of a page */
  kv.ahead = 512;
  if (vram_kv_bytes(&kv, TOKENS, 1, &one, &e) || vram_kv_bytes(&kv, TOKENS, 4, &four, &e))
    return printf("%s\n", e.text), 1;
  printf("%-8s %10llu bytes, %6llu a token, %9llu constant; of 4 requests %11llu\n", name,
         (unsigned long long)one.sequence_bytes, (unsigned long long)one.token_bytes,
         (unsigned long long)one.state_bytes, (unsigned long long)four.total_bytes);
  return one.sequence_bytes != proved;
}

int main(void) {
  vram_kv_layer full = attends(VRAM_KV_FULL, 32, 8, 128, VRAM_Q8_0), windows[2], latent, hybrid[2];
  windows[0] = attends(VRAM_KV_FULL, 5, 4, 256, VRAM_BF16);
  windows[1] = attends(VRAM_KV_SLIDING, 29, 4, 256, VRAM_BF16);
  windows[1].window = 1024;
  latent = attends(VRAM_KV_LATENT, 61, 1, 576, VRAM_BF16);
  hybrid[0] = attends(VRAM_KV_FULL, 16, 4, 256, VRAM_BF16);
  hybrid[1] = attends(VRAM_KV_STATE, 48, 0, 0, VRAM_BF16);
  hybrid[1].nstate = 2;
  hybrid[1].state[0] = VRAM_BF16;
  hybrid[1].state_elements[0] = 3 * 10240;
  hybrid[1].state[1] = VRAM_F32;
  hybrid[1].state_elements[1] = 48 * 128 * 128;
  return show("full", &full, 1, FULL) || show("windows", windows, 2, WINDOWS) ||
         show("latent", &latent, 1, LATENT) || show("hybrid", hybrid, 2, HYBRID);
}
