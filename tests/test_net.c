/* Networks line by line: figures derived by hand, every error, random networks against a second
   model of what lives when, lines printed as text and read back. */
#include "test.h"

#include "../vram.h"

static void *need(uint64_t bytes) {
  void *p = test_scratch(bytes);
  if (!p)
    abort();
  return p;
}

static vram_net net;
static vram_error err;
static void *lines, *plan;

static void drop(void) {
  free(lines);
  free(plan);
  lines = plan = NULL;
}

/* Reads, counts and plans; what the first of them says that fails. The memory is just enough. */
static vram_result run(const char *text, const char *name) {
  const uint64_t n = strlen(text), bytes = vram_net_read_bytes(text, n);
  uint64_t more;
  vram_result r;
  drop();
  lines = need(bytes);
  r = vram_net_read(text, n, name, lines, bytes, &net, &err);
  if (!r)
    r = vram_net_count(&net, &err);
  if (r)
    return r;
  more = vram_net_plan_bytes(&net, NULL);
  plan = need(more);
  return vram_net_plan(&net, NULL, plan, more, &err);
}

/* ---- figures ---- */

typedef struct figures {
  const char *begin, *line; /* the line is named y and follows `input` */
  uint64_t h, w, c, out, params, macs, weights, flash, state, scratch, live;
} figures;

/* NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): small figures */
/* clang-format off */
static const figures table[] = {
  /* 16 filters of 3x3x3 and a bias: 16 * 28. SAME, stride 2: 5x3. MACs 15 * 16 * 27. 448 * 4 bytes.
     Live: 10*5*3*4 = 600 -> 608, and 240 * 4 = 960 */
  {"F32, 1, 10, 5, 3", "CONV2D(n, y, input, 16, 3, 3, 2, 2, SAME, 1)",
   5, 3, 16, 960, 448, 6480, 1792, 1792, 0, 0, 1568},
  /* VALID: floor((10-3)/2)+1 = 4, floor((5-3)/2)+1 = 2; no bias */
  {"F16, 1, 10, 5, 3", "CONV2D(n, y, input, 16, 3, 3, 2, 2, VALID, 0)",
   4, 2, 16, 256, 432, 3456, 864, 864, 0, 0, 304 + 256},
  /* weights 3*3*3*5 = 135 bytes, bias 20, scales 40; 135 takes 136 of flash */
  {"I8, 1, 4, 4, 3", "CONV2D(n, y, input, 5, 3, 3, 1, 1, PAD(1, 1), 1)",
   4, 4, 5, 80, 140, 2160, 195, 196, 0, 0, 48 + 80},
  {"I8_PER_TENSOR, 1, 4, 4, 3", "CONV2D(n, y, input, 5, 3, 3, 1, 1, PAD(1, 1), 1)",
   4, 4, 5, 80, 140, 2160, 135 + 20 + 8, 136 + 20 + 8, 0, 0, 48 + 80},
  /* 4-bit weights: 135 halves are 68 bytes; 4-bit activations: 80 halves are 40, 48 are 24 -> 32 */
  {"I8W4, 1, 4, 4, 3", "CONV2D(n, y, input, 5, 3, 3, 1, 1, PAD(1, 1), 1)",
   4, 4, 5, 80, 140, 2160, 68 + 20 + 40, 68 + 20 + 40, 0, 0, 48 + 80},
  {"I4, 1, 4, 4, 3", "CONV2D(n, y, input, 5, 3, 3, 1, 1, PAD(1, 1), 1)",
   4, 4, 5, 40, 140, 2160, 68 + 20 + 40, 68 + 20 + 40, 0, 0, 32 + 48},
  /* biases of 8 bytes, arrays from a multiple of 8 */
  {"I16, 1, 4, 4, 3", "CONV2D(n, y, input, 5, 3, 3, 1, 1, PAD(1, 1), 1)",
   4, 4, 5, 160, 140, 2160, 135 + 40 + 40, 136 + 40 + 40, 0, 0, 96 + 160},
  /* batch of 2; 2 groups of 2 channels; dilation 2: reach 5, (8+2-5)/1+1 = 6, (8+0-3)/3+1 = 2 */
  {"I8, 2, 8, 8, 4", "CONV2D_FULL(n, y, input, 6, 3, 2, 1, 3, 2, 2, PAD(1, 0), 2, 0)",
   6, 2, 6, 144, 72, 1728, 72 + 48, 72 + 48, 0, 0, 512 + 144},
  /* 3 outputs a channel: 12 filters of 3x3 and a bias */
  {"I8, 1, 8, 8, 4", "DEPTHWISE_CONV2D(n, y, input, 3, 3, 3, 2, 2, SAME, 1)",
   4, 4, 12, 192, 120, 1728, 108 + 48 + 96, 252, 0, 0, 256 + 192},
  {"F32, 1, 9, 9, 4", "DEPTHWISE_CONV2D_FULL(n, y, input, 1, 3, 3, 1, 1, 4, 2, VALID, 0)",
   1, 5, 4, 80, 36, 180, 144, 144, 0, 0, 1296 + 80},
  /* (4-1)*2 - 2 + 3 + 1 = 8; MACs of every input: 16*2 * 5*9 */
  {"I8, 1, 4, 4, 2", "CONV_TRANSPOSE2D(n, y, input, 5, 3, 3, 2, 2, PAD(1, 1), 1, 1, 1)",
   8, 8, 5, 320, 95, 1440, 90 + 20 + 40, 92 + 20 + 40, 0, 0, 32 + 320},
  {"F32, 1, 4, 4, 2", "CONV_TRANSPOSE2D(n, y, input, 5, 3, 2, 2, 3, VALID, 0, 0, 0)",
   9, 11, 5, 1980, 60, 960, 240, 240, 0, 0, 128 + 1984},
  {"F32, 1, 4, 4, 2", "CONV_TRANSPOSE2D(n, y, input, 1, 3, 3, 2, 3, SAME, 0, 0, 0)",
   8, 12, 1, 384, 18, 288, 72, 72, 0, 0, 128 + 384},
  {"I8, 1, 1, 1, 100", "LINEAR(n, y, input, 10, 1)",
   1, 1, 10, 10, 1010, 1000, 1000 + 40 + 8, 1048, 0, 0, 112 + 16},
  {"I8_PER_CHANNEL, 1, 1, 1, 100", "LINEAR(n, y, input, 10, 1)",
   1, 1, 10, 10, 1010, 1000, 1000 + 40 + 80, 1120, 0, 0, 112 + 16},
  {"I8, 2, 3, 4, 5", "LINEAR(n, y, input, 7, 0)",
   3, 4, 7, 168, 35, 840, 35 + 8, 36 + 8, 0, 0, 128 + 176},
  {"I8, 1, 8, 8, 4", "MAX_POOL2D(n, y, input, 3, 3, 2, 2, VALID)",
   3, 3, 4, 36, 0, 0, 0, 0, 0, 0, 256 + 48},
  /* ceil((8+2-3)/2)+1 = 5, its last window begins at 8 - 1 = 7, within the input */
  {"I8, 1, 8, 7, 4", "AVG_POOL2D(n, y, input, 3, 3, 2, 2, PAD_CEIL(1, 1))",
   5, 4, 4, 80, 0, 0, 0, 0, 0, 0, 224 + 80},
  /* ceil((4+2-2)/3)+1 = 3, but the third window would begin behind the input: 2 */
  {"I8, 1, 4, 4, 1", "MAX_POOL2D(n, y, input, 2, 2, 3, 3, PAD_CEIL(1, 1))",
   2, 2, 1, 4, 0, 0, 0, 0, 0, 0, 32},
  /* one window that is not full */
  {"I8, 1, 2, 2, 1", "MAX_POOL2D(n, y, input, 3, 3, 2, 2, PAD_CEIL(0, 0))",
   1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 32},
  {"F32, 1, 8, 8, 4", "GLOBAL_AVG_POOL2D(n, y, input)", 1, 1, 4, 16, 0, 0, 0, 0, 0, 0, 1040},
  {"F32, 1, 8, 8, 4", "GLOBAL_MAX_POOL2D(n, y, input)", 1, 1, 4, 16, 0, 0, 0, 0, 0, 0, 1040},
  {"I8, 1, 8, 8, 4", "UPSAMPLE2D(n, y, input, 2, 3)", 16, 24, 4, 1536, 0, 0, 0, 0, 0, 0, 1792},
  /* four figures a channel: of 4 bytes for int8, of 8 for int16, of 2 for half floats */
  {"I8, 1, 2, 2, 3", "BATCH_NORM(n, y, input)", 2, 2, 3, 12, 12, 0, 48, 48, 0, 0, 32},
  {"I16, 1, 2, 2, 3", "BATCH_NORM_INPLACE(n, y, input)", 2, 2, 3, 24, 12, 0, 96, 96, 0, 0, 32},
  {"F16, 1, 2, 2, 3", "LAYER_NORM(n, y, input)", 2, 2, 3, 24, 6, 0, 12, 12, 0, 0, 64},
  {"F32, 1, 2, 2, 3", "LAYER_NORM_INPLACE(n, y, input)", 2, 2, 3, 48, 6, 0, 24, 24, 0, 0, 48},
  {"F16, 1, 2, 2, 3", "RMS_NORM(n, y, input)", 2, 2, 3, 24, 3, 0, 6, 8, 0, 0, 64},
  {"F32, 1, 2, 2, 3", "RMS_NORM_INPLACE(n, y, input)", 2, 2, 3, 48, 3, 0, 12, 12, 0, 0, 48},
  {"I8, 1, 2, 2, 3", "ACTIVATION(n, y, input)", 2, 2, 3, 12, 0, 0, 0, 0, 0, 0, 32},
  {"I8, 1, 2, 2, 3", "ACTIVATION_INPLACE(n, y, input)", 2, 2, 3, 12, 0, 0, 0, 0, 0, 0, 16},
  {"I8, 1, 2, 2, 3", "ACTIVATION_FUSED(n, y, input)", 2, 2, 3, 12, 0, 0, 0, 0, 0, 0, 16},
  {"I8, 1, 2, 2, 3", "ACTIVATION_TABLE(n, y, input, 255)", 2, 2, 3, 12, 0, 0, 255, 256, 0, 0, 16},
  {"I8, 1, 2, 2, 3", "CONSTANTS(n, y, input, 255)", 2, 2, 3, 12, 0, 0, 255, 256, 0, 0, 16},
  {"I8, 1, 1, 1, 17", "SOFTMAX(n, y, input)", 1, 1, 17, 17, 0, 0, 0, 0, 0, 0, 64},
  {"I8, 1, 1, 1, 17", "SOFTMAX_INPLACE(n, y, input)", 1, 1, 17, 17, 0, 0, 0, 0, 0, 0, 32},
  {"I8, 1, 4, 5, 2", "PAD(n, y, input, 1, 2, 3, 0)", 7, 8, 2, 112, 0, 0, 0, 0, 0, 0, 48 + 112},
  {"I8, 1, 4, 5, 2", "SLICE(n, y, input, 4, 2, 1)", 4, 2, 1, 8, 0, 0, 0, 0, 0, 0, 48 + 16},
  {"I8, 1, 4, 5, 2", "RESHAPE(n, y, input, 1, 8, 5)", 1, 8, 5, 40, 0, 0, 0, 0, 0, 0, 48},
  {"I8, 1, 4, 5, 2", "FLATTEN(n, y, input)", 1, 1, 40, 40, 0, 0, 0, 0, 0, 0, 48},
  {"I8, 1, 4, 5, 2", "TRANSPOSE(n, y, input, 5, 4, 2)", 5, 4, 2, 40, 0, 0, 0, 0, 0, 0, 96},
  /* 4 gates of 6 hidden from 5 and 6 inputs, 2 biases; h 6 bytes, c 12; 4 sums of 12 bytes.
     Weights 120 and 144, biases 48 * 4, scales 8 * 8 */
  {"I8, 1, 7, 1, 5", "LSTM(n, y, input, 6, 2, 1)",
   7, 1, 6, 42, 312, 7 * 24 * 11, 120 + 144 + 192 + 64, 520, 32, 64, 48 + 48 + 64},
  {"F32, 1, 7, 1, 5", "LSTM(n, y, input, 6, 1, 0)",
   1, 1, 6, 24, 288, 7 * 24 * 11, 288 * 4, 288 * 4, 64, 128, 144 + 32 + 128},
  {"F16, 2, 7, 1, 5", "GRU(n, y, input, 6, 0, 1)",
   7, 1, 6, 168, 198, 2 * 7 * 18 * 11, 396, 396, 32, 96, 144 + 176 + 96},
  {"I16, 1, 7, 1, 5", "RNN(n, y, input, 6, 1, 0)",
   1, 1, 6, 12, 72, 7 * 6 * 11, 30 + 36 + 48 + 16, 32 + 40 + 48 + 16, 16, 16, 80 + 16 + 16},
  /* 4 heads of 8, 2 of them for keys; 10 tokens, 12 of context: q 32, kv 16; weights of 20 * 96;
     biases 32 + 32 + 20; cache 2*12*16; scratch 10*32 and 4*10*12 */
  {"I8, 1, 10, 1, 20", "ATTENTION(n, y, input, 4, 2, 8, 12, 1)",
   10, 1, 20, 200, 2004, 19200 + 2 * 4 * 10 * 12 * 8, 1920 + 336 + 32, 2288, 384, 320 + 480,
   208 + 208 + 800},
  {"I8_PER_TENSOR, 2, 10, 1, 20", "ATTENTION(n, y, input, 4, 4, 8, 12, 0)",
   10, 1, 20, 400, 2560, 2 * (25600 + 7680), 2560 + 32, 2592, 2 * 2 * 12 * 32, 640 + 960,
   400 + 400 + 1600},
  /* of its own tokens: nothing stays; queries 10*32, keys and values 2*10*16, scores 4*10*10 */
  {"I8, 1, 10, 1, 20", "SELF_ATTENTION(n, y, input, 4, 2, 8, 1)",
   10, 1, 20, 200, 2004, 19200 + 2 * 4 * 10 * 10 * 8, 1920 + 336 + 32, 2288, 0, 320 + 320 + 400,
   208 + 208 + 1040},
  /* weights and states of the LSTM above for each way; the sums of one way at a time */
  {"I8, 1, 7, 1, 5", "LSTM_BIDIRECTIONAL(n, y, input, 6, 2, 1)",
   7, 1, 12, 84, 624, 2 * 7 * 24 * 11, 1040, 1040, 64, 64, 48 + 96 + 64},
  {"F16, 2, 7, 1, 5", "GRU_BIDIRECTIONAL(n, y, input, 6, 1, 0)",
   1, 1, 12, 48, 432, 2 * 2 * 7 * 18 * 11, 864, 864, 64, 96, 144 + 48 + 96},
  {"F32, 1, 7, 1, 5", "RNN_BIDIRECTIONAL(n, y, input, 6, 0, 1)",
   7, 1, 12, 336, 132, 2 * 7 * 66, 528, 528, 64, 32, 144 + 336 + 32},
  /* three planes of four rows: 3 planes of 2 rows come out; 3 of 4; (3 + 2 - 3) / 2 + 1 = 2 of 4 */
  {"I8, 1, 12, 6, 3", "CONV3D(n, y, input, 3, 5, 2, 3, 3, 1, 2, 1, 0, SAME, 1)",
   6, 6, 5, 180, 275, 180 * 54, 270 + 20 + 40, 272 + 20 + 40, 0, 0, 224 + 192},
  {"F32, 1, 12, 6, 3", "CONV3D(n, y, input, 3, 5, 3, 3, 3, 1, 1, 2, 1, PAD(1, 0), 0)",
   12, 2, 5, 480, 405, 120 * 81, 1620, 1620, 0, 0, 864 + 480},
  {"I8, 1, 12, 6, 3", "CONV3D(n, y, input, 3, 2, 3, 1, 1, 2, 1, 1, 1, VALID, 0)",
   8, 6, 2, 96, 18, 96 * 9, 18 + 16, 20 + 16, 0, 0, 224 + 96},
  {"IDS16, 1, 9, 1, 1", "EMBEDDING(n, y, input, I8W4, 11, 3)",
   9, 1, 3, 27, 33, 0, 17, 20, 0, 0, 32 + 32},
  {"F32, 1, 2, 2, 3", "QUANTIZE(n, y, input, I8)", 2, 2, 3, 12, 0, 0, 0, 0, 0, 0, 48 + 16},
  {"I8, 1, 2, 2, 3", "CUSTOM(n, y, input, 1, 5, 1, 7, 9, 11, 13, 15)",
   1, 5, 1, 5, 7, 11, 9, 12, 16, 16, 16 + 16 + 16},
};

static const char *const with[] = { /* scratch of CMSIS-NN counts, buffers are rounded up */
  "I8, 1, 8, 8, 3, 1, DSP", "CONV2D(n, y, input, 16, 3, 3, 1, 1, SAME, 1)", "112", /* 2*2*28 */
  "I8, 1, 8, 8, 3, 32, DSP", "CONV2D(n, y, input, 16, 3, 3, 1, 1, SAME, 1)", "128",
  "I8, 1, 8, 8, 3, 1, NONE", "CONV2D(n, y, input, 16, 3, 3, 1, 1, SAME, 1)", "0",
  "F32, 1, 8, 8, 3, 1, DSP", "CONV2D(n, y, input, 16, 3, 3, 1, 1, SAME, 1)", "0",
  "I8, 1, 8, 8, 3, 1, MVE", "CONV2D(n, y, input, 16, 3, 3, 1, 1, SAME, 1)", "128", /* 4*32 */
  "I16, 1, 8, 8, 3, 1, PLAIN", "CONV2D(n, y, input, 16, 3, 3, 1, 1, SAME, 1)", "108", /* 2*2*27 */
  "I8, 1, 8, 8, 3, 1, DSP", "CONV2D(n, y, input, 16, 1, 1, 1, 1, SAME, 1)", "0",
  "I8, 1, 8, 8, 8, 1, DSP", "DEPTHWISE_CONV2D(n, y, input, 1, 5, 5, 1, 1, SAME, 1)", "400",
  "I8, 1, 8, 8, 8, 1, DSP", "DEPTHWISE_CONV2D(n, y, input, 1, 3, 3, 1, 1, SAME, 1)", "0",
  "I8, 1, 8, 8, 8, 1, DSP", "AVG_POOL2D(n, y, input, 2, 2, 2, 2, SAME)", "32",
  "I8, 1, 8, 8, 8, 1, DSP", "MAX_POOL2D(n, y, input, 2, 2, 2, 2, SAME)", "0",
  "I8, 1, 1, 1, 8, 1, MVE", "LINEAR(n, y, input, 5, 1)", "20",
  "I8, 1, 4, 4, 8, 1, PLAIN", /* a row of 3*3+3 columns, 3 rows, 2 outputs, 4 bytes */
  "CONV_TRANSPOSE2D(n, y, input, 2, 3, 3, 3, 3, VALID, 0, 0, 1)", "288",
};
/* clang-format on */
/* NOLINTEND(bugprone-implicit-widening-of-multiplication-result) */

static void one_line(void) {
  char text[512];
  size_t i;
  for (i = 0; i < sizeof table / sizeof *table; i++) {
    const figures *f = table + i;
    const vram_net_line *l;
    snprintf(text, sizeof text, "VRAM_NET_BEGIN(n, %s);\nVRAM_NET_%s;\nVRAM_NET_END(n, y);\n",
             f->begin, f->line);
    snprintf(test_where, sizeof test_where, "%s on %s", f->line, f->begin);
    if (!NEED(!run(text, NULL))) {
      printf("  %s\n", err.text);
      continue;
    }
    EQUAL(net.nline, 3);
    l = net.line + 1;
    EQUAL(l->height, f->h);
    EQUAL(l->width, f->w);
    EQUAL(l->channels, f->c);
    EQUAL(l->out_bytes, f->out);
    EQUAL(l->params, f->params);
    EQUAL(l->macs, f->macs);
    EQUAL(l->weight_bytes, f->weights);
    EQUAL(l->flash_bytes, f->flash);
    EQUAL(l->state_bytes, f->state);
    EQUAL(l->scratch_bytes, f->scratch);
    EQUAL(l->live_bytes, f->live);
    EQUAL(net.params, f->params);
    EQUAL(net.macs, f->macs);
    EQUAL(net.weight_bytes, f->weights);
    EQUAL(net.flash_bytes, f->flash);
    EQUAL(net.state_bytes, f->state);
    EQUAL(net.peak_live_bytes, f->live);
    EQUAL(net.pingpong_bytes, f->live); /* of one line */
    EQUAL(net.arena.height_bytes, f->live);
    EQUAL(net.arena.proven, 1);
  }
  for (i = 0; i < sizeof with / sizeof *with; i += 3) {
    snprintf(text, sizeof text, "VRAM_NET_BEGIN_WITH(n, %s);\nVRAM_NET_%s;\nVRAM_NET_END(n, y);\n",
             with[i], with[i + 1]);
    snprintf(test_where, sizeof test_where, "%s on %s", with[i + 1], with[i]);
    if (NEED(!run(text, NULL)))
      EQUAL(net.line[1].scratch_bytes, strtoul(with[i + 2], NULL, 10));
  }
  *test_where = 0;
}

/* ---- a network with everything that is kept ---- */

static void kept(void) {
  /* storages: input 64, a 128, b 32, c 128 (concat of a and b would differ) */
  static const char text[] = "VRAM_NET_BEGIN(m, I8, 1, 4, 4, 4)\n"                  /* 0: 64 */
                             "VRAM_NET_KEEP(m, k, input)\n"                         /* 1 */
                             "VRAM_NET_CUSTOM(m, a, k, 4, 4, 8, 0, 0, 0, 100, 0)\n" /* 2: 128 */
                             "VRAM_NET_OUTPUT(m, o, a)\n"                           /* 3 */
                             "VRAM_NET_KEEP(m, k2, o)\n"                            /* 4 */
                             "VRAM_NET_FROM(m, f, k2, k)\n"                         /* 5 */
                             "VRAM_NET_ACTIVATION_INPLACE(m, r, f)\n"               /* 6 */
                             "VRAM_NET_CONCAT(m, c, r, k2)\n"                       /* 7: 192 */
                             "VRAM_NET_SLICE(m, s, c, 4, 4, 1)\n"                   /* 8: 16 */
                             "VRAM_NET_END(m, s)\n";
  static const uint64_t live[] = {64,  64,  64 + 128 + 112, 192,     192, 192,
                                  192, 384, 128 + 192 + 16, 128 + 16};
  /* buffers: input 64 | 64 and 128, copies of k and o 192, f 64 in the first, c 192 in the second,
     s in the first; scratch 112 */
  static const uint64_t pingpong[] = {
      64,  128, 64 + 128 + 64 + 112, 64 + 128 + 192 + 112, 496, 496, 496, 64 + 192 + 192 + 112,
      560, 560};
  static const uint64_t ends[][2] = {{0, 7 + 1}, {2, 10}, {7, 9}, {8, 10}};
  static const uint32_t buffers[] = {0, 0, 1, 1, 1, 0, 0, 3, 4, 4};
  uint32_t i;
  if (!NEED(!run(text, "m"))) {
    printf("  %s\n", err.text);
    return;
  }
  EQUAL(net.nbuffer, 5);
  for (i = 0; i < net.nline; i++) {
    snprintf(test_where, sizeof test_where, "line %u", i);
    EQUAL(net.line[i].live_bytes, live[i]);
    EQUAL(net.line[i].pingpong_bytes, pingpong[i]);
    EQUAL(net.line[i].buffer, buffers[i]);
    EQUAL(net.line[i].offset, net.buffer[buffers[i]].offset);
    EQUAL(net.line[i].text_line, i + 1);
    EQUAL(net.line[i].text_column, 1);
  }
  *test_where = 0;
  for (i = 0; i < 4; i++) {
    EQUAL(net.buffer[i + (i > 1)].begin, ends[i][0]);
    EQUAL(net.buffer[i + (i > 1)].end, ends[i][1]);
  }
  EQUAL(net.line[2].scratch_buffer, 2);
  EQUAL(net.buffer[2].begin, 2);
  EQUAL(net.buffer[2].end, 3);
  EQUAL(net.line[2].scratch_offset, net.buffer[2].offset);
  EQUAL(net.line[1].scratch_offset, VRAM_NOWHERE);
  EQUAL(net.peak_line, 7);
  EQUAL(net.peak_live_bytes, 384);
  EQUAL(net.line[7].from[0], 4);
  TEXT(net.name, "m");
  TEXT(net.line[7].kept[0], "k2");
}

/* ---- errors ---- */

typedef struct wrong {
  const char *text;
  vram_result code;
  uint32_t line, column;
  const char *says;
} wrong;

#define B "VRAM_NET_BEGIN(n, I8, 1, 4, 6, 8)\n"
#define E "VRAM_NET_END(n, y)\n"
static const wrong errors[] = {
    /* reading */
    {"", VRAM_ERR_SYNTAX, 1, 1, "no network (expected VRAM_NET_BEGIN(...))"},
    {"/* VRAM_NET_BEGIN(n, I8, 1, 4, 6, 8) */", VRAM_ERR_SYNTAX, 1, 1,
     "no network (expected VRAM_NET_BEGIN(...))"},
    {"\n  /* no end", VRAM_ERR_SYNTAX, 2, 3, "a comment that does not end"},
    {"#define X /* no end", VRAM_ERR_SYNTAX, 1, 11, "a comment that does not end"},
    {B "VRAM_NET_CONV(n, y, input)", VRAM_ERR_NAME, 2, 1,
     "no such line (found VRAM_NET_CONV, expected VRAM_NET_CONV2D, ..., as vram.h has them)"},
    {B "  VRAM_NET_CONV\n (n, y, input)", VRAM_ERR_NAME, 2, 3,
     "no such line (found VRAM_NET_CONV, expected VRAM_NET_CONV2D, ..., as vram.h has them)"},
    {B "VRAM_NET_SOFTMAX(n, y)", VRAM_ERR_SYNTAX, 2, 22,
     "too few arguments (expected VRAM_NET_SOFTMAX(net, y, x))"},
    {B "VRAM_NET_SOFTMAX(n, y, input, 1)", VRAM_ERR_SYNTAX, 2, 29,
     "too many arguments (expected VRAM_NET_SOFTMAX(net, y, x))"},
    {B "VRAM_NET_SOFTMAX(n, y input)", VRAM_ERR_SYNTAX, 2, 23,
     "no comma (found input, expected a comma)"},
    {B "VRAM_NET_SOFTMAX(n, y, input", VRAM_ERR_SYNTAX, 2, 29,
     "a line that is not closed (found nothing, expected ))"},
    {B "VRAM_NET_SOFTMAX(n, , input)", VRAM_ERR_SYNTAX, 2, 21,
     "no name (found ,, expected a name for the line)"},
    {B "VRAM_NET_SOFTMAX(n, y, )", VRAM_ERR_SYNTAX, 2, 24,
     "no name (found ), expected the name of the line before)"},
    {B "VRAM_NET_ADD(n, y, input, 3)", VRAM_ERR_SYNTAX, 2, 27,
     "no name (found 3, expected the name of a KEEP line)"},
    {B "VRAM_NET_SOFTMAX(, y, input)", VRAM_ERR_SYNTAX, 2, 18,
     "no name (found ,, expected the name of the network)"},
    {"VRAM_NET_BEGIN(n, I9, 1, 4, 6, 8)", VRAM_ERR_NAME, 1, 19,
     "an unknown format (found I9, expected F32, F16, I8, I8_PER_TENSOR, I8_PER_CHANNEL, I8W4, "
     "I16, I4, IDS8, IDS16, IDS32)"},
    {"VRAM_NET_BEGIN_WITH(n, I8, 1, 4, 6, 8, 16, M4)", VRAM_ERR_NAME, 1, 44,
     "unknown kernels (found M4, expected NONE, PLAIN, DSP, MVE)"},
    {B "VRAM_NET_MAX_POOL2D(n, y, input, 2, 2, 2, 2, FULL)", VRAM_ERR_NAME, 2, 46,
     "an unknown padding (found FULL, expected VALID, SAME, PAD, PAD_CEIL)"},
    {B "VRAM_NET_MAX_POOL2D(n, y, input, 2, 2, 2, 2, PAD)", VRAM_ERR_SYNTAX, 2, 49,
     "padding without its sizes (found ), expected (top_and_bottom, left_and_right))"},
    {B "VRAM_NET_MAX_POOL2D(n, y, input, 2, 2, 2, 2, PAD(1))", VRAM_ERR_SYNTAX, 2, 51,
     "padding without its second size (found ), expected ,)"},
    {B "VRAM_NET_MAX_POOL2D(n, y, input, 2, 2, 2, 2, PAD(1, 1)", VRAM_ERR_SYNTAX, 2, 55,
     "a line that is not closed (found nothing, expected ))"},
    {B "VRAM_NET_MAX_POOL2D(n, y, input, 2, 2, 2, 2, PAD(1, 1", VRAM_ERR_SYNTAX, 2, 54,
     "padding that is not closed (found nothing, expected ))"},
    {B "VRAM_NET_LINEAR(n, y, input, K, 1)", VRAM_ERR_NAME, 2, 30,
     "an unknown name (found K, expected an integer: numbers, + - * / % ( ), names #defined as "
     "such)"},
    {"#define K f(3)\n" B "VRAM_NET_LINEAR(n, y, input, K, 1)", VRAM_ERR_NAME, 3, 30,
     "a name that is no integer (found K, expected an integer: numbers, + - * / % ( ), names "
     "#defined as such)"},
    {B "VRAM_NET_LINEAR(n, y, input, , 1)", VRAM_ERR_SYNTAX, 2, 30,
     "not an integer (found ,, expected an integer: numbers, + - * / % ( ), names #defined as "
     "such)"},
    {B "VRAM_NET_LINEAR(n, y, input, 9223372036854775808, 1)", VRAM_ERR_VALUE, 2, 30,
     "not an integer below 2^63 (found 9223372036854775808)"},
    {B "VRAM_NET_LINEAR(n, y, input, 089, 1)", VRAM_ERR_VALUE, 2, 30,
     "not an integer below 2^63 (found 089)"},
    {B "VRAM_NET_LINEAR(n, y, input, 0x, 1)", VRAM_ERR_VALUE, 2, 30,
     "not an integer below 2^63 (found 0x)"},
    {B "VRAM_NET_LINEAR(n, y, input, \x01, 1)", VRAM_ERR_SYNTAX, 2, 30,
     "not an integer (found ?, expected an integer: numbers, + - * / % ( ), names #defined as "
     "such)"},
    {B "VRAM_NET_LINEAR(n, y, input, 3 / (2 - 2), 1)", VRAM_ERR_VALUE, 2, 30,
     "not an integer below 2^63 (found 3 / (2 - 2))"},
    {B "VRAM_NET_LINEAR(n, y, input, 4294967296 * 4294967296, 1)", VRAM_ERR_VALUE, 2, 30,
     "not an integer below 2^63 (found 4294967296 * 4294967296)"},
    {B "VRAM_NET_LINEAR(n, y, input, (3 + 1, 1)", VRAM_ERR_SYNTAX, 2, 36,
     "a parenthesis that is not closed (found ,, expected ))"},
    {B "VRAM_NET_LINEAR(n, y, input, "
       "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1, 1)",
     VRAM_ERR_LIMIT, 2, 94, "an expression that is too deep"},
    {B "VRAM_NET_END(n, input)\nVRAM_NET_BEGIN(m, I8, 1, 1, 1, 1)", VRAM_ERR_NAME, 3, 16,
     "a second network (found m, expected to be told which one)"},
    /* order and names */
    {"VRAM_NET_SOFTMAX(n, y, input)\n", VRAM_ERR_VALUE, 1, 1,
     "SOFTMAX y: the network does not begin (expected BEGIN or BEGIN_WITH)"},
    {B B E, VRAM_ERR_VALUE, 2, 1, "BEGIN input: a second begin of the network (expected END)"},
    {B, VRAM_ERR_VALUE, 1, 1, "BEGIN input: the network does not end (expected END)"},
    {B "VRAM_NET_END(n, input)\nVRAM_NET_SOFTMAX(n, y, input)", VRAM_ERR_VALUE, 3, 1,
     "SOFTMAX y: a line behind the end of the network"},
    {B "VRAM_NET_SOFTMAX(n, y, x)\n" E, VRAM_ERR_NAME, 2, 1,
     "SOFTMAX y: an unknown line (found x, expected input)"},
    {B "VRAM_NET_SOFTMAX(n, a, input) VRAM_NET_SOFTMAX(n, y, input)" E, VRAM_ERR_NAME, 2, 31,
     "SOFTMAX y: a line does not go on from the one before it (found input, expected a)"},
    {B "VRAM_NET_SOFTMAX(n, input, input)\n" E, VRAM_ERR_NAME, 2, 1,
     "SOFTMAX input: a name that is used twice"},
    {B "VRAM_NET_SOFTMAX(n, y, input)\nVRAM_NET_END(n, input)", VRAM_ERR_NAME, 3, 1,
     "END: a line does not go on from the one before it (found input, expected y)"},
    {B "VRAM_NET_ADD(n, y, input, k)\n" E, VRAM_ERR_NAME, 2, 1,
     "ADD y: an unknown line (found k, expected the name of a KEEP line)"},
    {B "VRAM_NET_ADD(n, y, input, input)\n" E, VRAM_ERR_NAME, 2, 1,
     "ADD y: a value that is not kept (found input, expected the name of a KEEP line)"},
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_ADD(n, a, k, k)\nVRAM_NET_ADD(n, y, a, k)\n" E,
     VRAM_ERR_NAME, 4, 1,
     "ADD y: a kept value is taken twice (found k, expected one that no line before takes)"},
    {B "VRAM_NET_KEEP(n, y, input)\n" E, VRAM_ERR_NAME, 2, 1,
     "KEEP y: a kept value that no line takes"},
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_KEEP(n, y, k)\n" E, VRAM_ERR_VALUE, 3, 1,
     "KEEP y: a value that is kept already"},
    {B "VRAM_NET_OUTPUT(n, k, input)\nVRAM_NET_OUTPUT(n, y, k)\n" E, VRAM_ERR_VALUE, 3, 1,
     "OUTPUT y: a value that is an output already"},
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_SOFTMAX_INPLACE(n, y, k)\n" E, VRAM_ERR_VALUE, 3, 1,
     "SOFTMAX_INPLACE y: in place on a value that is kept (expected a line with an output of its "
     "own)"},
    {B "VRAM_NET_OUTPUT(n, k, input)\nVRAM_NET_ACTIVATION_FUSED(n, y, k)\n" E, VRAM_ERR_VALUE, 3, 1,
     "ACTIVATION_FUSED y: in place on a value that is an output (expected a line with an output "
     "of its own)"},
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_ADD_INPLACE(n, y, k, k)\n" E, VRAM_ERR_VALUE, 3, 1,
     "ADD_INPLACE y: in place on a value that is kept (expected a line with an output of its own)"},
    {B "VRAM_NET_BATCH_NORM_FOLDED(n, y, input)\n" E, VRAM_ERR_VALUE, 2, 1,
     "BATCH_NORM_FOLDED y: nothing to fold into (expected a layer with a bias before it)"},
    {B "VRAM_NET_LINEAR(n, a, input, 3, 0)\nVRAM_NET_BATCH_NORM_FOLDED(n, y, a)\n" E,
     VRAM_ERR_VALUE, 3, 1,
     "BATCH_NORM_FOLDED y: nothing to fold into (expected a layer with a bias before it)"},
    /* arguments */
    {"VRAM_NET_BEGIN(n, I8, 0, 4, 6, 8)\n" E, VRAM_ERR_VALUE, 1, 1,
     "BEGIN input: n is out of range (found 0, expected 1 to 2147483647)"},
    {"VRAM_NET_BEGIN_WITH(n, I8, 1, 4, 6, 8, 24, NONE)\n" E, VRAM_ERR_VALUE, 1, 1,
     "BEGIN_WITH input: an alignment that is no power of two: 24"},
    {B "VRAM_NET_LINEAR(n, y, input, -3, 1)\n" E, VRAM_ERR_VALUE, 2, 1,
     "LINEAR y: out_features is out of range (found -3, expected 1 to 2147483647)"},
    {B "VRAM_NET_LINEAR(n, y, input, 3, 2)\n" E, VRAM_ERR_VALUE, 2, 1,
     "LINEAR y: bias is out of range (found 2, expected 0 to 1)"},
    {B "VRAM_NET_LSTM(n, y, input, 3, 3, 0)\n" E, VRAM_ERR_VALUE, 2, 1,
     "LSTM y: biases is out of range (found 3, expected 0 to 2)"},
    {B "VRAM_NET_PAD(n, y, input, 0, 0, 0, -1)\n" E, VRAM_ERR_VALUE, 2, 1,
     "PAD y: right is out of range (found -1, expected 0 to 2147483647)"},
    {B "VRAM_NET_ACTIVATION_TABLE(n, y, input, -1)\n" E, VRAM_ERR_VALUE, 2, 1,
     "ACTIVATION_TABLE y: table_bytes is out of range (found -1, expected 0 to "
     "9223372036854775807)"},
    {B "VRAM_NET_MAX_POOL2D(n, y, input, 2, 2, 2, 2, PAD(0, -1))\n" E, VRAM_ERR_VALUE, 2, 1,
     "MAX_POOL2D y: padding is out of range (expected 0 to 2147483647)"},
    {B "VRAM_NET_CONV2D(n, y, input, 3, 2, 2, 1, 1, PAD_CEIL(0, 0), 1)\n" E, VRAM_ERR_VALUE, 2, 1,
     "CONV2D y: PAD_CEIL is for pools (expected SAME, VALID or PAD)"},
    {B "VRAM_NET_CONV_TRANSPOSE2D(n, y, input, 3, 2, 2, 1, 1, PAD_CEIL(0, 0), 0, 0, 1)\n" E,
     VRAM_ERR_VALUE, 2, 1,
     "CONV_TRANSPOSE2D y: PAD_CEIL is for pools (expected SAME, VALID or PAD)"},
    /* shapes */
    {B "VRAM_NET_CONV2D(n, y, input, 3, 5, 2, 1, 1, VALID, 1)\n" E, VRAM_ERR_SHAPE, 2, 1,
     "CONV2D y: a kernel larger than the padded input, height (found 5, expected at most 4)"},
    {B "VRAM_NET_CONV2D_FULL(n, y, input, 3, 1, 5, 1, 1, 1, 2, PAD(0, 1), 1, 1)\n" E,
     VRAM_ERR_SHAPE, 2, 1,
     "CONV2D_FULL y: a kernel larger than the padded input, width (found 9, expected at most 8)"},
    {B "VRAM_NET_MAX_POOL2D(n, y, input, 7, 2, 2, 2, PAD_CEIL(0, 0))\n" E, VRAM_ERR_SHAPE, 2, 1,
     "MAX_POOL2D y: a kernel larger than the padded input, height (found 7, expected at most 4)"},
    {B "VRAM_NET_AVG_POOL2D(n, y, input, 3, 3, 2, 2, PAD(1, 2))\n" E, VRAM_ERR_SHAPE, 2, 1,
     "AVG_POOL2D y: padding of more than half the kernel, width (found 2, expected at most half of "
     "3)"},
    {B "VRAM_NET_CONV2D_FULL(n, y, input, 9, 1, 1, 1, 1, 1, 1, SAME, 3, 1)\n" E, VRAM_ERR_SHAPE, 2,
     1, "CONV2D_FULL y: groups do not divide the channels (found 3 groups of 8)"},
    {B "VRAM_NET_CONV2D_FULL(n, y, input, 9, 1, 1, 1, 1, 1, 1, SAME, 4, 1)\n" E, VRAM_ERR_SHAPE, 2,
     1, "CONV2D_FULL y: groups do not divide out_channels (found 4 groups of 9)"},
    {B "VRAM_NET_CONV_TRANSPOSE2D(n, y, input, 3, 2, 2, 2, 2, VALID, 2, 0, 1)\n" E, VRAM_ERR_SHAPE,
     2, 1, "CONV_TRANSPOSE2D y: output_padding is not less than the stride, height"},
    {B "VRAM_NET_CONV_TRANSPOSE2D(n, y, input, 3, 2, 2, 2, 2, SAME, 0, 1, 1)\n" E, VRAM_ERR_SHAPE,
     2, 1, "CONV_TRANSPOSE2D y: output_padding with SAME, width"},
    {B "VRAM_NET_CONV_TRANSPOSE2D(n, y, input, 3, 2, 2, 1, 1, PAD(3, 0), 0, 0, 1)\n" E,
     VRAM_ERR_SHAPE, 2, 1, "CONV_TRANSPOSE2D y: padding takes all of the output, height"},
    {B "VRAM_NET_RESHAPE(n, y, input, 1, 1, 191)\n" E, VRAM_ERR_SHAPE, 2, 1,
     "RESHAPE y: another number of elements: 191 made of 4x6x8 = 192"},
    {B "VRAM_NET_SLICE(n, y, input, 4, 7, 1)\n" E, VRAM_ERR_SHAPE, 2, 1,
     "SLICE y: a slice larger than its input, 4x6x8"},
    {B "VRAM_NET_GRU(n, y, input, 3, 0, 0)\n" E, VRAM_ERR_SHAPE, 2, 1,
     "GRU y: time steps are the height (found 6, expected a width of 1)"},
    {B "VRAM_NET_ATTENTION(n, y, input, 2, 1, 4, 8, 0)\n" E, VRAM_ERR_SHAPE, 2, 1,
     "ATTENTION y: tokens are the height (found 6, expected a width of 1)"},
    {B "VRAM_NET_ATTENTION(n, y, input, 3, 2, 4, 8, 0)\n" E, VRAM_ERR_SHAPE, 2, 1,
     "ATTENTION y: num_kv_heads does not divide num_heads (found 2 of 3)"},
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_SLICE(n, s, k, 4, 5, 8)\nVRAM_NET_MUL(n, y, s, k)\n" E,
     VRAM_ERR_SHAPE, 4, 1,
     "MUL y: shapes that differ: 4x5x8 and 4x6x8 (expected equal sizes, or 1)"},
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_SLICE(n, s, k, 4, 1, 8)\n"
       "VRAM_NET_MUL_INPLACE(n, y, s, k)\n" E,
     VRAM_ERR_SHAPE, 4, 1,
     "MUL_INPLACE y: shapes that differ: 4x1x8 and 4x6x8 (expected the first, or 1)"},
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_SLICE(n, s, k, 1, 6, 8)\n"
       "VRAM_NET_CONCAT(n, y, s, k)\n" E,
     VRAM_ERR_SHAPE, 4, 1,
     "CONCAT y: shapes that differ: 1x6x8 and 4x6x8 (expected equal heights and widths)"},
    {B "VRAM_NET_CONV3D(n, y, input, 3, 1, 1, 1, 1, 1, 1, 1, 0, SAME, 0)\n" E, VRAM_ERR_SHAPE, 2, 1,
     "CONV3D y: depth does not divide the rows (found 3 planes of 4)"},
    {B "VRAM_NET_CONV3D(n, y, input, 2, 1, 3, 1, 1, 1, 1, 1, 1, SAME, 0)\n" E, VRAM_ERR_VALUE, 2, 1,
     "CONV3D y: padding of the depth with SAME (expected 0)"},
    {B "VRAM_NET_CONV3D(n, y, input, 2, 1, 3, 1, 1, 1, 1, 1, 0, VALID, 0)\n" E, VRAM_ERR_SHAPE, 2,
     1, "CONV3D y: a kernel larger than the padded input, depth (found 3, expected at most 2)"},
    {B "VRAM_NET_INPUT(n, y, input, I8, 1, 1, 1)\n" E, VRAM_ERR_VALUE, 2, 1,
     "INPUT y: an input behind a value that is not kept (expected KEEP before it, and no other "
     "line)"},
    {B "VRAM_NET_SOFTMAX(n, s, input)\nVRAM_NET_KEEP(n, k, s)\n"
       "VRAM_NET_INPUT(n, y, k, I8, 1, 1, 1)\n" E,
     VRAM_ERR_VALUE, 4, 1,
     "INPUT y: an input behind a value that is not kept (expected KEEP before it, and no other "
     "line)"},
    /* formats */
    {B "VRAM_NET_KEEP(n, k, input)\nVRAM_NET_QUANTIZE(n, q, k, F32)\nVRAM_NET_ADD(n, y, q, k)\n" E,
     VRAM_ERR_VALUE, 4, 1, "ADD y: values of two formats: F32 and I8"},
    {B "VRAM_NET_QUANTIZE(n, y, input, IDS8)\n" E, VRAM_ERR_VALUE, 2, 1,
     "QUANTIZE y: a format of ids (found IDS8, expected a format of values)"},
    {B "VRAM_NET_EMBEDDING(n, y, input, I8, 3, 3)\n" E, VRAM_ERR_VALUE, 2, 1,
     "EMBEDDING y: the input of an embedding is no ids (found I8, expected IDS8, IDS16 or IDS32)"},
    {"VRAM_NET_BEGIN(n, IDS8, 1, 4, 1, 1)\nVRAM_NET_QUANTIZE(n, y, input, I8)\n" E, VRAM_ERR_VALUE,
     2, 1,
     "QUANTIZE y: ids are no values to be quantized (found IDS8, expected a format of values)"},
    {"VRAM_NET_BEGIN(n, IDS8, 1, 4, 1, 2)\nVRAM_NET_EMBEDDING(n, y, input, I8, 3, 3)\n" E,
     VRAM_ERR_SHAPE, 2, 1,
     "EMBEDDING y: ids are the height, 4x1x2 has others (expected a width and channels of 1)"},
    {"VRAM_NET_BEGIN(n, IDS8, 1, 4, 1, 2)\nVRAM_NET_LINEAR(n, y, input, 3, 0)\n" E, VRAM_ERR_VALUE,
     2, 1, "LINEAR y: a layer with weights on ids (found IDS8, expected an EMBEDDING before it)"},
    /* sizes */
    {B "VRAM_NET_UPSAMPLE2D(n, y, input, 2147483647, 1)\n" E, VRAM_ERR_OVERFLOW, 2, 1,
     "UPSAMPLE2D y: the value has a height beyond 2147483647"},
    {"VRAM_NET_BEGIN(n, I8, 2147483647, 2147483647, 2147483647, 1)\n" E, VRAM_ERR_OVERFLOW, 1, 1,
     "BEGIN input: parameters, operations or bytes beyond 2^63-1"},
    {B "VRAM_NET_CUSTOM(n, y, input, 1, 1, 1, 0, 0, 0, 9223372036854775807, 0)\n" E,
     VRAM_ERR_OVERFLOW, 2, 1, "CUSTOM y: parameters, operations or bytes beyond 2^63-1"},
    {B "VRAM_NET_CUSTOM(n, a, input, 1, 1, 1, 0, 0, 9223372036854775807, 0, 0)\n"
       "VRAM_NET_LINEAR(n, y, a, 1, 0)\n" E,
     VRAM_ERR_OVERFLOW, 3, 1, "LINEAR y: parameters, operations or bytes beyond 2^63-1"},
    {B "VRAM_NET_LINEAR(n, a, input, 2147483647, 0)\nVRAM_NET_LINEAR(n, b, a, 2147483647, 0)\n"
       "VRAM_NET_LINEAR(n, y, b, 3, 0)\n" E,
     VRAM_ERR_OVERFLOW, 3, 1, "LINEAR b: parameters, operations or bytes beyond 2^63-1"},
};

static void all_errors(void) {
  size_t i;
  for (i = 0; i < sizeof errors / sizeof *errors; i++) {
    const wrong *w = errors + i;
    snprintf(test_where, sizeof test_where, "error %u: %s", (unsigned)i, w->says);
    EQUAL(run(w->text, NULL), w->code);
    TEXT(err.text, w->says);
    EQUAL(err.line, w->line);
    EQUAL(err.column, w->column);
  }
  *test_where = 0;
  EQUAL(run(B "VRAM_NET_END(n, input)", "m"), VRAM_ERR_NAME);
  TEXT(err.text, "no lines of that network (found m)");
  EQUAL(run(B "VRAM_NET_SOFTMAX(m, y, y) VRAM_NET_END(n, input)", "n"), VRAM_OK);
  EQUAL(net.nline, 2);
}

/* Lines that no text gives. */
static void by_hand(void) {
  vram_net_line l[3];
  vram_net n;
  uint32_t i;
  static vram_net_line many[VRAM_MAX_NET_LINES + 1];
  memset(l, 0, sizeof l);
  memset(&n, 0, sizeof n);
  n.line = l;
  EQUAL(vram_net_count(&n, &err), VRAM_ERR_VALUE);
  TEXT(err.text, "a network without lines (expected BEGIN)");
  EQUAL(vram_net_plan(&n, NULL, l, sizeof l, &err), VRAM_ERR_VALUE);
  TEXT(err.text, "the network was not counted");
  n.nline = 3;
  l[0].kind = VRAM_LINE_BEGIN;
  l[0].y = "input";
  l[0].format = VRAM_FORMAT_I8;
  for (i = 0; i < 4; i++)
    l[0].arg[i] = (int64_t)i + 1;
  l[1].kind = VRAM_LINE_SOFTMAX;
  l[1].y = "y"; /* x NULL: the line before */
  l[2].kind = VRAM_LINE_END;
  EQUAL(vram_net_count(&n, NULL), VRAM_OK);
  EQUAL(l[2].out_bytes, 24);
  EQUAL(n.peak_live_bytes, 64);
  EQUAL(vram_net_count(&n, &err), VRAM_OK); /* once more */
  EQUAL(n.peak_live_bytes, 64);
  EQUAL(n.align, 16);
  for (i = 0; i < 8; i++) {
    static const char *const says[] = {
        "SOFTMAX: a line without a name (found nothing, expected a C identifier)",
        "SOFTMAX 1y: a line without a name (found 1y, expected a C identifier)",
        "SOFTMAX a.b: a line without a name (found a.b, expected a C identifier)",
        "BEGIN x: the first line has another name (found x, expected input)",
        "BEGIN input: an unknown format",
        "MAX_POOL2D y: an unknown padding",
        "BEGIN_WITH input: unknown kernels",
        "? y: no kind of line"};
    vram_net_line was[3];
    memcpy(was, l, sizeof l);
    if (i < 3)
      l[1].y = i == 0 ? NULL : i == 1 ? "1y" : "a.b";
    else if (i == 3)
      l[0].y = "x";
    else if (i == 4)
      l[0].format = VRAM_FORMAT_COUNT;
    else if (i == 5) {
      l[1].kind = VRAM_LINE_MAX_POOL2D;
      l[1].padding = VRAM_PADDING_COUNT;
      l[1].arg[0] = l[1].arg[1] = l[1].arg[2] = l[1].arg[3] = 1;
    } else if (i == 6) {
      l[0].kind = VRAM_LINE_BEGIN_WITH;
      l[0].arg[4] = 1;
      l[0].kernels = VRAM_KERNELS_COUNT;
    } else
      l[1].kind = VRAM_LINE_COUNT;
    CHECK(vram_net_count(&n, &err) != VRAM_OK);
    TEXT(err.text, says[i]);
    EQUAL(err.line, i < 3 || i == 5 || i == 7 ? 2 : 1);
    EQUAL(err.column, 0);
    memcpy(l, was, sizeof l);
  }
  n.line = many;
  n.nline = VRAM_MAX_NET_LINES + 1;
  EQUAL(vram_net_count(&n, &err), VRAM_ERR_LIMIT);
  TEXT(vram_line_name(VRAM_LINE_CONV2D), "CONV2D");
  TEXT(vram_line_name(VRAM_LINE_COUNT), "?");
  TEXT(vram_line_args(VRAM_LINE_SOFTMAX), "y x");
  TEXT(vram_line_args(VRAM_LINE_COUNT), "");
  TEXT(vram_format_name(VRAM_FORMAT_I8W4), "I8W4");
  TEXT(vram_format_name(VRAM_FORMAT_COUNT), "?");
  TEXT(vram_padding_name(VRAM_PADDING_SAME), "SAME");
  TEXT(vram_padding_name(VRAM_PADDING_COUNT), "?");
  TEXT(vram_kernels_name(VRAM_KERNELS_MVE), "MVE");
  TEXT(vram_kernels_name(VRAM_KERNELS_COUNT), "?");
}

/* What C allows between the lines. */
static void texts(void) {
  static const char text[] =
      "/* VRAM_NET_SOFTMAX(n, no, input) */ // VRAM_NET_SOFTMAX(n, no, \\\n input)\n"
      "#ifndef VRAM_NET_H\n"
      "#define W (2 * 3) /* and */ // more\n"
      "#define W2 \\\n W - 5 % 3 + -(-2)\n"
      "  # define F(x) x\n"
      "#define TEXT \"/*\"\n"
      "#define SAY VRAM_NET_SOFTMAX(n, no, input)\n"
      "#define GONE 7\n#undef GONE\n#define GONE 0x1fUL\n"
      "#define LATE W2 W2\n"
      "static const char *s = \"VRAM_NET_SOFTMAX(n, no, \\\" input)\", c = '\"';\n"
      "int n = 1'000'000, m = 0x1p3;\n"
      "VRAM_NET_BEGIN(other, F32, 1, 1, 1, 1);\n"
      "VRAM_NET_BEGIN\n (n,I8 , 1,/* h */ W2, // w\n W, 010);\r\n"
      "enum { A = VRAM_NET_GET(n, input, macs), VRAM_NET_B };\n"
      "VRAM_STATIC_ASSERT(VRAM_NET_ARENA_BYTES(n) < 9, ok);\n"
      "\tVRAM_NET_MAX_POOL2D ( n , y , input , 2u,2L , +2, 0x2, PAD ( 4/3 , - - 1 ) ) ;\n"
      "VRAM_NET_LINEAR(n, z, y, GONE, 1); VRAM_NET_END(other, input) VRAM_NET_END(n, z)\n";
  if (!NEED(!run(text, "n"))) {
    printf("  %u:%u: %s\n", err.line, err.column, err.text);
    return;
  }
  EQUAL(net.nline, 4);
  EQUAL(net.line[0].arg[1], 6 - 2 + 2);
  EQUAL(net.line[0].arg[2], 6);
  EQUAL(net.line[0].arg[3], 8);
  EQUAL(net.line[0].text_line, 17);
  EQUAL(net.line[1].text_line, 22);
  EQUAL(net.line[1].text_column, 2);
  EQUAL(net.line[1].height, (6 + 2 - 2) / 2 + 1);
  EQUAL(net.line[1].pad_w, 1);
  EQUAL(net.line[2].channels, 31);
  EQUAL(run(text, "other"), VRAM_OK);
  EQUAL(net.nline, 2);
}

/* Memory that is too small, a text that is too long. */
static void memory(void) {
  static const char text[] = B "VRAM_NET_SOFTMAX(n, y, input)\n" E;
  const uint64_t bytes = vram_net_read_bytes(text, sizeof text - 1);
  uint64_t n;
  vram_net was;
  lines = need(bytes);
  for (n = 0; n < bytes; n += n < bytes - 20 ? 97 : 1)
    EQUAL(vram_net_read(text, sizeof text - 1, NULL, lines, n, &net, &err), VRAM_ERR_MEMORY);
  EQUAL(vram_net_read(text, sizeof text - 1, NULL, NULL, bytes, &net, &err), VRAM_ERR_MEMORY);
  snprintf(test_where, sizeof test_where, "the memory is too small (found 0 bytes, expected %lu)",
           (unsigned long)bytes);
  TEXT(err.text, test_where);
  *test_where = 0;
  EQUAL(vram_net_read_bytes(text, UINT64_C(1) << 40), VRAM_OVERFLOW);
  EQUAL(vram_net_read(text, UINT64_C(1) << 40, NULL, lines, bytes, &net, &err), VRAM_ERR_LIMIT);
  EQUAL(run(text, NULL), VRAM_OK);
  was = net;
  n = vram_net_plan_bytes(&net, NULL);
  EQUAL(vram_net_plan(&net, NULL, plan, n - 1, &err), VRAM_ERR_MEMORY);
  EQUAL(vram_net_plan(&net, NULL, NULL, n, NULL), VRAM_ERR_MEMORY);
  {
    vram_arena_options o;
    void *more;
    memset(&o, 0, sizeof o);
    o.nbank = 2;
    o.capacity[0] = 1; /* nothing fits the first */
    EQUAL(vram_net_plan(&net, &o, plan, n, &err), VRAM_ERR_MEMORY);
    more = test_scratch(vram_net_plan_bytes(&net, &o));
    EQUAL(vram_net_plan(&net, &o, more, vram_net_plan_bytes(&net, &o), &err), VRAM_OK);
    EQUAL(net.arena.bank_bytes[0], 0);
    EQUAL(net.arena.bank_bytes[1], was.arena.height_bytes);
    free(more);
    o.nbank = 1;
    o.capacity[0] = was.arena.height_bytes - 1;
    EQUAL(vram_net_plan(&net, &o, plan, n, &err), VRAM_ERR_LIMIT);
    o.capacity[0]++;
    EQUAL(vram_net_plan(&net, &o, plan, n, &err), VRAM_OK);
    EQUAL(net.arena.height_bytes, was.arena.height_bytes);
  }
}

/* ---- random networks ---- */

static uint64_t seed;
static uint32_t pick(uint32_t n) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((seed >> 33) % n);
}

enum { MOST = 60 };
static vram_net_line made[MOST];
static char names[MOST][8];
static uint32_t nmade;

/* Is the buffer of line i kept now, is it an output? By looking back. */
static uint32_t home(uint32_t i) { /* the line that wrote it */
  for (;;) {
    const vram_net_line *l = made + i;
    switch (l->kind) {
    case VRAM_LINE_FROM:
      for (i = 0; strcmp(names[i], l->kept[0]); i++)
        ;
      break;
    case VRAM_LINE_KEEP:
    case VRAM_LINE_OUTPUT:
    case VRAM_LINE_RESHAPE:
    case VRAM_LINE_ACTIVATION_INPLACE:
    case VRAM_LINE_ADD_INPLACE:
    case VRAM_LINE_END:
      i--;
      break;
    default:
      return i;
    }
  }
}

static uint32_t taker(uint32_t keep) { /* the line that takes it; nmade: none yet */
  uint32_t i, k;
  for (i = keep + 1; i < nmade; i++)
    for (k = 0; k < VRAM_NET_KEPT && made[i].kept[k]; k++)
      if (!strcmp(made[i].kept[k], names[keep]))
        return i;
  return nmade;
}

static int is_kept(uint32_t owner) {
  uint32_t i;
  for (i = 0; i < nmade; i++)
    if (made[i].kind == VRAM_LINE_KEEP && home(i) == owner && taker(i) == nmade)
      return 1;
  return 0;
}

static int is_output(uint32_t owner) {
  uint32_t i;
  for (i = 0; i < nmade; i++)
    if (made[i].kind == VRAM_LINE_OUTPUT && home(i) == owner)
      return 1;
  return 0;
}

static vram_net_line *add(vram_line_kind kind) {
  vram_net_line *l = made + nmade;
  memset(l, 0, sizeof *l);
  l->kind = kind;
  snprintf(names[nmade], sizeof names[nmade], nmade ? "l%u" : "input", nmade);
  l->y = names[nmade];
  l->x = nmade ? names[nmade - 1] : NULL;
  return l;
}

/* A KEEP that nobody has taken, not among those of this line already; nmade: none. */
static uint32_t open_keep(const vram_net_line *l, uint32_t taken) {
  uint32_t list[MOST], n = 0, i, k;
  for (i = 0; i < nmade; i++)
    if (made[i].kind == VRAM_LINE_KEEP && taker(i) == nmade) {
      for (k = 0; k < taken && strcmp(l->kept[k], names[i]); k++)
        ;
      if (k == taken)
        list[n++] = i;
    }
  return n ? list[pick(n)] : nmade;
}

/* All values have h = w = 1, or 2x1 by RESHAPE, and an even number of channels. */
static void random_net(void) {
  const uint32_t most = 2 + pick(MOST - 22);
  vram_net_line *l;
  uint32_t i, k;
  nmade = 0;
  l = add(VRAM_LINE_BEGIN_WITH);
  l->format = pick(2) ? VRAM_FORMAT_I8 : VRAM_FORMAT_I4;
  l->arg[0] = l->arg[1] = l->arg[2] = 1;
  l->arg[3] = 2 * (1 + (int64_t)pick(100));
  l->arg[4] = INT64_C(1) << pick(6);
  for (nmade = 1; nmade < MOST - 1;) {
    const uint32_t owner = home(nmade - 1);
    const int done = nmade >= most;
    i = pick(9);
    l = add(VRAM_LINE_CUSTOM);
    if (done || i == 0 || i == 1) { /* take what is kept */
      k = open_keep(l, 0);
      if (done && k == nmade)
        break;
      if (k == nmade)
        continue;
      l->kind = i == 0 && !done ? VRAM_LINE_CONCAT : VRAM_LINE_FROM;
      l->kept[0] = names[k];
      if (l->kind == VRAM_LINE_CONCAT && pick(2) && (k = open_keep(l, 1)) != nmade) {
        l->kind = VRAM_LINE_CONCAT3;
        l->kept[1] = names[k];
      }
    } else if (i == 2) {
      if (is_kept(owner) && !is_output(owner))
        continue;
      l->kind = VRAM_LINE_KEEP;
    } else if (i == 3) {
      if (pick(3) || is_kept(owner) || is_output(owner))
        continue;
      l->kind = VRAM_LINE_OUTPUT;
    } else if (i == 4) {
      if (is_kept(owner) || is_output(owner))
        continue;
      l->kind = VRAM_LINE_ACTIVATION_INPLACE;
    } else if (i == 5 && pick(2))
      l->kind = VRAM_LINE_SOFTMAX;
    else {
      l->arg[0] = l->arg[1] = 1;
      l->arg[2] = 2 * (1 + (int64_t)pick(100));
      l->arg[6] = pick(3) ? 0 : (int64_t)pick(300);
      l->arg[7] = pick(3) ? 0 : (int64_t)pick(300);
    }
    nmade++;
  }
  add(VRAM_LINE_END)->y = NULL;
  nmade++;
}

/* The second model: of every buffer when it is written and last needed, found by looking at all
   lines; channels, bytes and sums anew. */
static void against(const vram_net *n) {
  const uint64_t align = (uint64_t)made[0].arg[4], bits = made[0].format == VRAM_FORMAT_I4 ? 4 : 8;
  uint64_t channels[MOST], size[MOST], scratch[MOST], last[MOST], peak = 0, state = 0;
  uint64_t side[2] = {0, 0}, copies, most_copies = 0, most_scratch = 0;
  uint32_t i, k, at = 0;
  int now = 0;
  for (i = 0; i < nmade; i++) {
    const vram_net_line *l = made + i;
    channels[i] = l->kind == VRAM_LINE_BEGIN_WITH ? (uint64_t)l->arg[3]
                  : l->kind == VRAM_LINE_CUSTOM   ? (uint64_t)l->arg[2]
                                                  : channels[home(i) < i ? home(i) : i - 1];
    for (k = 0; l->kind != VRAM_LINE_FROM && k < VRAM_NET_KEPT && l->kept[k]; k++)
      channels[i] += channels[strtoul(l->kept[k] + 1, NULL, 10)];
    size[i] = ((channels[i] * bits + 7) / 8 + align - 1) / align * align;
    scratch[i] =
        ((uint64_t)(l->kind == VRAM_LINE_CUSTOM ? l->arg[6] : 0) + align - 1) / align * align;
    state += ((uint64_t)(l->kind == VRAM_LINE_CUSTOM ? l->arg[7] : 0) + align - 1) / align * align;
    last[i] = i;
  }
  for (i = 1; i < nmade; i++) {
    last[home(i - 1)] = last[home(i - 1)] > i ? last[home(i - 1)] : i;
    if (made[i].kind == VRAM_LINE_KEEP && last[home(i)] < taker(i))
      last[home(i)] = taker(i);
    if (made[i].kind == VRAM_LINE_OUTPUT)
      last[home(i)] = nmade - 1;
  }
  for (i = 0; i < nmade; i++) {
    uint64_t live = scratch[i];
    for (k = 0; k <= i; k++)
      if (home(k) == k && last[k] >= i)
        live += size[k];
    EQUAL(n->line[i].live_bytes, live);
    EQUAL(n->line[i].channels, channels[i]);
    EQUAL(n->line[i].scratch_bytes, scratch[i]);
    if (live > peak)
      peak = live, at = i;
    EQUAL(n->line[i].peak_live_bytes, peak);
    /* two buffers */
    now ^= i && (home(i) == i || made[i].kind == VRAM_LINE_FROM);
    side[now] = side[now] > size[home(i)] ? side[now] : size[home(i)];
    for (copies = 0, k = 0; k <= i; k++) {
      uint32_t o;
      if (made[k].kind == VRAM_LINE_OUTPUT)
        copies += size[home(k)];
      if (made[k].kind != VRAM_LINE_KEEP || taker(k) < i)
        continue;
      for (o = 0; o < k && !(made[o].kind == VRAM_LINE_OUTPUT && home(o) == home(k)); o++)
        ;
      copies += o == k ? size[home(k)] : 0;
    }
    most_copies = most_copies > copies ? most_copies : copies;
    most_scratch = most_scratch > scratch[i] ? most_scratch : scratch[i];
    EQUAL(n->line[i].pingpong_bytes, side[0] + side[1] + most_copies + most_scratch);
  }
  EQUAL(n->peak_line, at);
  EQUAL(n->state_bytes, state);
  /* the plan: buffers that live at one time do not overlap */
  CHECK(n->arena.height_bytes >= peak);
  CHECK(!n->arena.proven || n->arena.height_bytes >= n->arena.lower_bound_bytes);
  for (i = 0; i < nmade; i++) {
    const vram_net_line *a = n->line + i;
    if (home(i) != i)
      EQUAL(a->offset, n->line[home(i)].offset);
    CHECK(a->offset % align == 0 && a->offset + size[home(i)] <= n->arena.height_bytes);
    for (k = 0; k < i; k++)
      if (home(i) == i && home(k) == k && last[k] >= i)
        CHECK(a->offset >= n->line[k].offset + size[k] || n->line[k].offset >= a->offset + size[i]);
    for (k = 0; k <= i && scratch[i]; k++)
      if (home(k) == k && last[k] >= i)
        CHECK(a->scratch_offset >= n->line[k].offset + size[k] ||
              n->line[k].offset >= a->scratch_offset + scratch[i]);
  }
}

/* The lines as text, with what C allows between the pieces. */
static uint32_t blank(char *to) {
  static const char *const between[] = {"", "", " ", "\n", "/* , */", "// )\n", " \\\n\t"};
  return (uint32_t)sprintf(to, "%s", between[pick(7)]);
}

static uint32_t integer(char *to, int64_t v) {
  if (pick(3))
    return (uint32_t)sprintf(to, "%lld", (long long)v);
  if (pick(2))
    return (uint32_t)sprintf(to, "(%lld + SEVEN) - 7", (long long)v);
  return (uint32_t)sprintf(to, "0x%llx", (unsigned long long)v);
}

static void print(char *to) {
  uint32_t i, n = (uint32_t)sprintf(to, "#define SEVEN (14 / 2)\n");
  for (i = 0; i < nmade; i++) {
    const vram_net_line *l = made + i;
    const char *at = vram_line_args(l->kind);
    uint32_t integers = 0, kept_values = 0;
    n += (uint32_t)sprintf(to + n, "VRAM_NET_%s(", vram_line_name(l->kind));
    n += blank(to + n);
    n += (uint32_t)sprintf(to + n, "n");
    while (*at) {
      const size_t len = strcspn(at, " ");
      n += blank(to + n);
      to[n++] = ',';
      n += blank(to + n);
      if (len == 1 && *at == 'y')
        n += (uint32_t)sprintf(to + n, "%s", l->y);
      else if (len == 1 && *at == 'x')
        n += (uint32_t)sprintf(to + n, "%s", l->x);
      else if (!strncmp(at, "kept", 4))
        n += (uint32_t)sprintf(to + n, "%s", l->kept[kept_values++]);
      else if (!strncmp(at, "format", len))
        n += (uint32_t)sprintf(to + n, "%s", vram_format_name(l->format));
      else if (!strncmp(at, "kernels", len))
        n += (uint32_t)sprintf(to + n, "%s", vram_kernels_name(l->kernels));
      else if (!strncmp(at, "padding", len))
        n += (uint32_t)sprintf(to + n, l->padding < VRAM_PADDING_PAD ? "%s" : "%s(%d,%d)",
                               vram_padding_name(l->padding), (int)l->pad_h, (int)l->pad_w);
      else
        n += integer(to + n, l->arg[integers++]);
      at += len + (at[len] == ' ');
    }
    n += blank(to + n);
    n += (uint32_t)sprintf(to + n, ")%s\n", pick(2) ? ";" : "");
  }
}

static void random_nets(void) {
  static char text[MOST * 1000];
  static vram_net_line direct[MOST];
  uint32_t round;
  for (round = 0; round < 300; round++) {
    vram_net n;
    vram_result r;
    seed = round;
    snprintf(test_where, sizeof test_where, "random network %u", round);
    random_net();
    print(text);
    memcpy(direct, made, sizeof direct);
    memset(&n, 0, sizeof n);
    n.name = "n";
    n.line = direct;
    n.nline = nmade;
    r = vram_net_count(&n, &err);
    if (!NEED(!r)) {
      printf("  %s\n%s", err.text, text);
      break;
    }
    if (!NEED(!run(text, NULL))) {
      printf("  %u:%u: %s\n%s", err.line, err.column, err.text, text);
      break;
    }
    EQUAL(net.nline, nmade);
    EQUAL(net.peak_live_bytes, n.peak_live_bytes);
    against(&net);
  }
  *test_where = 0;
}

/* Every kind of line with random arguments: the text gives the same line, and what is wrong with
   it is the same. */
static void random_lines(void) {
  static char text[9000];
  uint32_t round, i;
  uint32_t fine = 0;
  for (round = 0; round < 3000; round++) {
    vram_net_line direct[4], *l;
    vram_net n;
    vram_result r;
    uint32_t k;
    seed = round;
    nmade = 0;
    snprintf(test_where, sizeof test_where, "random line %u", round);
    l = add(VRAM_LINE_BEGIN);
    l->format = (vram_net_format)pick(VRAM_FORMAT_COUNT);
    l->arg[0] = 1 + (int64_t)pick(2);
    for (k = 1; k < 4; k++)
      l->arg[k] = 1 + (int64_t)pick(12) * (int64_t)pick(2);
    nmade++;
    add(VRAM_LINE_KEEP);
    nmade++;
    l = add((vram_line_kind)(VRAM_LINE_CONV2D + pick(VRAM_LINE_END - VRAM_LINE_CONV2D)));
    for (k = 0; k < VRAM_NET_ARGS; k++)
      l->arg[k] = (int64_t)pick(5);
    l->format = (vram_net_format)pick(VRAM_FORMAT_COUNT);
    l->padding = (vram_net_padding)pick(VRAM_PADDING_COUNT);
    l->pad_h = (int64_t)pick(3);
    l->pad_w = (int64_t)pick(3);
    l->kept[0] = names[1];
    if (strstr(vram_line_args(l->kind), "kept2"))
      l->kept[1] = names[1];
    if (strstr(vram_line_args(l->kind), "kept3"))
      l->kept[2] = names[1];
    nmade++;
    add(VRAM_LINE_END)->y = NULL;
    nmade++;
    print(text);
    memcpy(direct, made, sizeof direct);
    memset(&n, 0, sizeof n);
    n.line = direct;
    n.nline = nmade;
    r = vram_net_count(&n, &err);
    if (r) {
      char says[sizeof err.text];
      snprintf(says, sizeof says, "%s", err.text);
      EQUAL(run(text, NULL), r);
      TEXT(err.text, says);
      continue;
    }
    fine++;
    EQUAL(run(text, NULL), VRAM_OK);
    for (i = 0; i < nmade; i++) {
      EQUAL(net.line[i].out_bytes, direct[i].out_bytes);
      EQUAL(net.line[i].macs, direct[i].macs);
      EQUAL(net.line[i].total_flash_bytes, direct[i].total_flash_bytes);
      EQUAL(net.line[i].live_bytes, direct[i].live_bytes);
      CHECK(net.line[i].weight_bytes <= net.line[i].flash_bytes);
      CHECK(net.line[i].live_bytes <= net.peak_live_bytes);
    }
    CHECK(net.pingpong_bytes >= net.line[0].live_bytes);
  }
  *test_where = 0;
  CHECK(fine > 100);
}

int main(void) {
  one_line();
  kept();
  all_errors();
  by_hand();
  texts();
  drop();
  memory();
  random_nets();
  random_lines();
  drop();
  return test_done("test_net");
}
