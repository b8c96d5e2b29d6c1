/* Budgets of serving engines: groups, bytes of a block, blocks, tokens and concurrency of random
   models against vLLM's own planning (tests/golden/serve_vllm.txt: made by
   tests/measured/serve_vllm.py from kv_cache_planning.py and kv_cache_utils.py of 0.33.0, run
   without torch's devices), published logs, and the budget. usage: test_serve FILE */
#include "../vram.h"

#include "test.h"

static const struct {
  const char *name;
  vram_kv_kind kind;
} kinds[] = {{"full", VRAM_KV_FULL},
             {"sliding", VRAM_KV_SLIDING},
             {"chunked", VRAM_KV_CHUNKED},
             {"latent", VRAM_KV_LATENT},
             {"state", VRAM_KV_STATE}};

/* KIND,COUNT,HEADS,K,V,DTYPE,WINDOW[,ELEMENTS,DTYPE]... */
static void read_row(const char *at, vram_kv_layer *l) {
  char kind[16], dtype[16];
  unsigned long long count, heads, k, v, window;
  int used = 0, more;
  size_t i;
  memset(l, 0, sizeof *l);
  if (sscanf(at, "%15[a-z],%llu,%llu,%llu,%llu,%15[a-z0-9],%llu%n", kind, &count, &heads, &k, &v,
             dtype, &window, &used) != 7)
    FAIL("a row");
  for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kind, kinds[i].name))
      l->kind = kinds[i].kind;
  l->count = (uint32_t)count;
  l->heads = (uint32_t)heads;
  l->k_dim = (uint32_t)k;
  l->v_dim = (uint32_t)v;
  l->k = l->v = vram_dtype_from_name(dtype);
  l->window = window;
  for (at += used; sscanf(at, ",%llu,%15[a-z0-9]%n", &k, dtype, &more) == 2; at += more) {
    l->state_elements[l->nstate] = k;
    l->state[l->nstate++] = vram_dtype_from_name(dtype);
  }
}

static void compare(const char *line) {
  vram_kv_layer layer[8];
  vram_kv kv;
  vram_serve_options o;
  vram_serve_report r;
  unsigned long long block, len, batched, batches, tp, bytes, groups, block_bytes, need, blocks,
      tokens;
  int no_hybrid, align;
  double concurrency;
  const char *rest = strchr(line, ' '), *result = strchr(line, '=');
  vram_error e;
  vram_result code;
  memset(&o, 0, sizeof o);
  memset(&kv, 0, sizeof kv);
  kv.layer = layer;
  snprintf(test_where, sizeof test_where, "%.180s", line);
  if (!NEED(rest && result) ||
      !NEED(sscanf(rest, "%llu %llu %llu %llu %llu %llu %d %d", &block, &len, &batched, &batches,
                   &tp, &bytes, &no_hybrid, &align) == 8))
    return;
  while (line < rest && kv.nlayer < 8) {
    read_row(line, &layer[kv.nlayer++]);
    line += strcspn(line, "; ") + 1;
  }
  o.kv_bytes = bytes;
  o.max_model_len = len;
  o.batched_tokens = batched;
  o.batches = (uint32_t)batches;
  o.tp = (uint32_t)tp;
  o.block = (uint32_t)block;
  o.no_hybrid = (uint8_t)no_hybrid;
  o.prefix_states = (uint8_t)align;
  o.no_prefix = !align;
  o.hybrid_chunks = 1;
  code = vram_serve(&kv, &o, &r, &e);
  if (sscanf(result, "= %llu %llu %llu %llu %llu %lf", &groups, &block_bytes, &need, &blocks,
             &tokens, &concurrency) != 6) {
    EQUAL(code, VRAM_ERR_UNSUPPORTED);
    return;
  }
  EQUAL(code, VRAM_OK);
  EQUAL(r.groups, groups);
  EQUAL(r.block_bytes, block_bytes);
  EQUAL(r.blocks_per_request, need);
  EQUAL(r.low.blocks, blocks);
  EQUAL(r.low.tokens, tokens);
  EQUAL(r.high.tokens, tokens);
  CHECK(r.low.concurrency - concurrency < 1e-6 && concurrency - r.low.concurrency < 1e-6);
}

static void test_golden(const char *path) {
  char line[1000];
  FILE *f = fopen(path, "r");
  int n = 0;
  NEED(f);
  for (; f && fgets(line, sizeof line, f); n++)
    if (*line != '#')
      compare(line);
  if (f)
    fclose(f);
  *test_where = 0;
  CHECK(n > 200);
}

static vram_kv_layer llama(void) {
  vram_kv_layer l;
  memset(&l, 0, sizeof l);
  l.kind = VRAM_KV_FULL;
  l.count = 32;
  l.heads = 8;
  l.k_dim = l.v_dim = 128;
  l.k = l.v = VRAM_BF16;
  return l;
}

static void test_budget(void) {
  vram_kv_layer l = llama();
  vram_kv kv;
  vram_serve_options o;
  vram_serve_report r;
  vram_error e;
  memset(&o, 0, sizeof o);
  memset(&kv, 0, sizeof kv);
  kv.layer = &l;
  kv.nlayer = 1;
  o.device_bytes = UINT64_C(85017755648); /* H100 80 GB */
  o.weights_bytes = UINT64_C(16060522496);
  o.max_model_len = 32768;
  o.hidden = 4096;
  o.intermediate = 14336;
  o.vocab = 128256;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.requested_bytes, UINT64_C(78216335197)); /* math.ceil(85017755648 * 0.92) */
  EQUAL(r.block_bytes, 16 * 131072);
  CHECK(r.low.kv_bytes < r.high.kv_bytes && r.low.blocks < r.high.blocks);
  EQUAL(r.batched_tokens, 8192);
  EQUAL(r.low.kv_bytes + r.term[0].high + r.term[1].high + r.term[2].high + o.weights_bytes,
        r.requested_bytes);
  o.eager = 1;
  o.tp = 16; /* more ranks than heads: one head each */
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.term[VRAM_SERVE_GRAPHS].high, 0);
  EQUAL(r.block_bytes, 16 * 131072 / 8);
  o.weights_bytes = o.device_bytes; /* nothing is left */
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.high.blocks, 0);
  CHECK(!r.high.serves_one);
}

static void test_refused(void) {
  vram_kv_layer l = llama();
  vram_kv kv;
  vram_serve_options o;
  vram_serve_report r;
  vram_error e;
  memset(&o, 0, sizeof o);
  memset(&kv, 0, sizeof kv);
  kv.layer = &l;
  kv.nlayer = 1;
  o.kv_bytes = 1 << 30;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "vllm: max_model_len is 1 to 2^31 tokens");
  o.max_model_len = 4096;
  o.utilization = 1.5;
  EQUAL(vram_serve(&kv, &o, &r, NULL), VRAM_ERR_VALUE);
  o.utilization = 0.5;
  o.rules = "0.1";
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_ERR_UNSUPPORTED);
  o.rules = "0.19.0";
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.low.tokens, 512 * 16);
  l.k = VRAM_Q8_0;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_ERR_DTYPE);
  l.k = VRAM_BF16;
  l.heads = UINT32_MAX;
  l.k_dim = UINT32_MAX;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_ERR_OVERFLOW);
  l.count = UINT32_MAX;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_ERR_LIMIT);
  l.count = 0; /* nothing is kept */
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.low.blocks, 1);
  o.engine = VRAM_ENGINE_COUNT;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_ERR_VALUE);
}

static void test_sglang(void) {
  vram_kv_layer l[2];
  vram_kv kv;
  vram_serve_options o;
  vram_serve_report r;
  vram_error e;
  memset(&o, 0, sizeof o);
  memset(&kv, 0, sizeof kv);
  l[0] = l[1] = llama();
  kv.layer = l;
  kv.nlayer = 1;
  o.engine = VRAM_ENGINE_SGLANG;
  o.max_model_len = 8192;
  o.block = 64;
  o.kv_bytes = UINT64_C(1000000) * 131072 + 100000; /* 1,000,000 tokens, 15,625 pages */
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.low.tokens, 1000000);
  kv.nlayer = 2; /* as many layers with a window: 1.8 cells */
  l[1].kind = VRAM_KV_SLIDING;
  l[1].window = 1024;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.low.tokens, 555555 / 64 * 64);
}

/* What the engine does with a kind of layer by itself. */
static void test_kinds(void) {
  vram_kv_layer l[2];
  vram_kv kv;
  vram_serve_options o;
  vram_serve_report r;
  vram_error e;
  memset(&o, 0, sizeof o);
  memset(&kv, 0, sizeof kv);
  memset(l, 0, sizeof l);
  kv.layer = l;
  kv.nlayer = 2;
  l[0] = llama(); /* Qwen3.5-27B: 16 layers of 64 attend, 48 keep the state of a delta net */
  l[0].count = 16;
  l[0].heads = 4;
  l[0].k_dim = l[0].v_dim = 256;
  l[1].kind = VRAM_KV_STATE;
  l[1].count = 48;
  l[1].nstate = 2;
  l[1].state[0] = VRAM_BF16;
  l[1].state_elements[0] = UINT64_C(3) * 10240;
  l[1].state[1] = VRAM_F32;
  l[1].state_elements[1] = UINT64_C(48) * 128 * 128;
  o.max_model_len = o.batched_tokens = 8192;
  o.rules = "0.26.0";
  o.kv_bytes = UINT64_C(33543694745); /* 31.24 GiB, as a log of 652 blocks prints them */
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.low.blocks, 652);
  EQUAL(r.low.tokens, 314187);
  EQUAL(r.blocks_per_request, 17); /* 11 of attention, two states in each of three groups */
  o.no_prefix = 1;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.blocks_per_request, 14);
  o.no_prefix = 0;
  o.rules = NULL;
  o.delta_states = 1; /* Hopper: a state more in each group, blocks of 64 tokens */
  o.cc = 90;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.blocks_per_request, 19);
  o.cc = 89;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.blocks_per_request, 17);

  l[1] = l[0]; /* chunks: as full layers, one group */
  l[1].kind = VRAM_KV_CHUNKED;
  l[1].window = 1024;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.groups, 1);
  EQUAL(r.blocks_per_request, 512);
  o.hybrid_chunks = 1;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.groups, 2);

  kv.nlayer = 1; /* a latent row */
  l[0].kind = VRAM_KV_LATENT;
  l[0].k_dim = 576;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.group[0].block, 16);
  o.cc = 100;
  EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
  EQUAL(r.group[0].block, 32);
}

/* Peaks of the trial run that logs print, in 1/100 GiB, lie between the bounds. */
static void test_peaks(void) {
  static const struct {
    const char *rules;
    uint32_t tp, hidden, intermediate, vocab;
    uint64_t tokens, hundredths;
  } row[] = {{"0.10.0", 1, 3584, 18944, 152064, 4200, 142},
             {"0.10.0", 1, 1536, 8960, 151936, 32768, 202},
             {"0.10.0", 4, 4096, 12288, 151936, 8192, 145},
             {"0.10.0", 1, 4096, 14336, 128256, 2048, 119},
             {"0.26.0", 1, 4096, 14336, 128256, 2048, 144}};
  vram_kv_layer l = llama();
  size_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++) {
    vram_kv kv;
    vram_serve_options o;
    vram_serve_report r;
    vram_error e;
    const uint64_t peak = (row[i].hundredths << 30) / 100;
    memset(&o, 0, sizeof o);
    memset(&kv, 0, sizeof kv);
    kv.layer = &l;
    kv.nlayer = 1;
    o.rules = row[i].rules;
    o.tp = row[i].tp;
    o.hidden = row[i].hidden;
    o.intermediate = row[i].intermediate;
    o.vocab = row[i].vocab;
    o.batched_tokens = o.max_model_len = row[i].tokens;
    o.sequences = 256;
    o.device_bytes = UINT64_C(80) << 30;
    EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
    CHECK(r.term[VRAM_SERVE_ACTIVATIONS].low < peak && peak < r.term[VRAM_SERVE_ACTIVATIONS].high);
    o.vocab = UINT32_C(1) << 31; /* nobody's: bounds that do not wrap */
    o.sequences = UINT64_C(1) << 31;
    EQUAL(vram_serve(&kv, &o, &r, &e), VRAM_OK);
    CHECK(r.term[VRAM_SERVE_ACTIVATIONS].low > peak);
  }
}

int main(int argc, char **argv) {
  if (argc > 1)
    test_golden(argv[1]);
  test_budget();
  test_refused();
  test_kinds();
  test_peaks();
  test_sglang();
  return test_done("test_serve");
}
