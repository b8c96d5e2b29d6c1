/* Caches of keys and values: the functions against the macros in constant expressions, against a
   count of its own in two halves of 64 bits, against models and against what llama.cpp and
   transformers were measured to allocate. */
#include "../vram.h"

#include "test.h"

/* A constant expression is the same number. Grouped queries, two dtypes, latent rows, windows with
   what one batch adds, pages. */
enum {
  CT_LLAMA = VRAM_KV_CACHE_BYTES(BF16, 32, 8, 128, 1024, 1) / 1024,
  CT_Q8 = VRAM_KV_CACHE2_BYTES(Q8_0, Q4_0, 3, 8, 128, 64, 512, 2),
  CT_MLA = VRAM_MLA_CACHE_BYTES(F16, 61, 512, 64, 4096, 3) / 4096,
  CT_WINDOW = VRAM_KV_WINDOW_TOKENS(8192, 1024, 500, 256),
  CT_SHORT = VRAM_KV_WINDOW_TOKENS(700, 1024, 500, 16),
  CT_SLIDING = VRAM_KV_CACHE_BYTES(F16, 29, 4, 256, VRAM_KV_WINDOW_TOKENS(8192, 1024, 512, 256), 1),
  CT_PAGE = VRAM_KV_PAGE_BYTES(BF16, 16, VRAM_KV_RANK_HEADS(8, 4), 128, 128),
  CT_PAGE_COPY = VRAM_KV_PAGE_BYTES(F8E4M3FN, 32, VRAM_KV_RANK_HEADS(2, 8), 192, 128),
  CT_PAGES = VRAM_KV_PAGES(VRAM_U(1) << 30, 32, CT_PAGE)
};

static vram_kv_layer row_of(vram_kv_kind kind, uint32_t count, uint32_t heads, uint32_t k_dim,
                            uint32_t v_dim) {
  vram_kv_layer l;
  memset(&l, 0, sizeof l);
  l.kind = kind;
  l.count = count;
  l.heads = heads;
  l.k_dim = k_dim;
  l.v_dim = v_dim;
  l.k = l.v = VRAM_BF16;
  return l;
}

static uint64_t sequence(const vram_kv_layer *l, uint64_t block, uint64_t ahead, uint64_t tokens) {
  vram_kv kv;
  vram_kv_report r;
  kv.layer = l;
  kv.nlayer = 1;
  kv.block = block;
  kv.ahead = ahead;
  EQUAL(vram_kv_bytes(&kv, tokens, 1, &r, NULL), VRAM_OK);
  return r.sequence_bytes;
}

static void test_macros(void) {
  vram_kv_layer l = row_of(VRAM_KV_FULL, 32, 8, 128, 128);
  EQUAL(sequence(&l, 0, 0, 1), CT_LLAMA);
  l = row_of(VRAM_KV_FULL, 3, 8, 128, 64);
  l.k = VRAM_Q8_0;
  l.v = VRAM_Q4_0;
  EQUAL(2 * sequence(&l, 0, 0, 512), CT_Q8);
  l = row_of(VRAM_KV_LATENT, 61, 128, 576, 0);
  EQUAL(3 * sequence(&l, 0, 0, 1), CT_MLA);
  l = row_of(VRAM_KV_SLIDING, 29, 4, 256, 256);
  l.window = 1024;
  EQUAL(sequence(&l, 256, 512, 8192), CT_SLIDING);
  EQUAL(sequence(&l, 256, 500, 8192), UINT64_C(29) * CT_WINDOW * 4096);
  EQUAL(sequence(&l, 16, 500, 700), UINT64_C(29) * CT_SHORT * 4096);
  l = row_of(VRAM_KV_FULL, 1, 2, 128, 128);
  EQUAL(sequence(&l, 16, 0, 1), CT_PAGE);
  EQUAL(CT_PAGES, (UINT64_C(1) << 30) / (32 * sequence(&l, 16, 0, 16)));
  l = row_of(VRAM_KV_FULL, 1, 1, 192, 128);
  l.k = l.v = VRAM_F8E4M3FN;
  EQUAL(sequence(&l, 32, 0, 1), CT_PAGE_COPY);
}

/* 128 bits as two halves: what overflows is seen here without a check of ours. */
typedef struct wide {
  uint64_t high, low;
} wide;

static wide wide_times(wide a, uint64_t b) {
  const uint64_t l0 = (a.low & UINT32_MAX) * (b & UINT32_MAX),
                 l1 = (a.low >> 32) * (b & UINT32_MAX), l2 = (a.low & UINT32_MAX) * (b >> 32),
                 l3 = (a.low >> 32) * (b >> 32);
  const uint64_t middle = (l0 >> 32) + (l1 & UINT32_MAX) + (l2 & UINT32_MAX);
  wide r;
  r.low = middle << 32 | (l0 & UINT32_MAX);
  r.high = l3 + (l1 >> 32) + (l2 >> 32) + (middle >> 32) + a.high * b;
  return r;
}

static wide wide_plus(wide a, wide b) {
  wide r;
  r.low = a.low + b.low;
  r.high = a.high + b.high + (r.low < a.low);
  return r;
}

static uint64_t random_state = 16;
static uint64_t below(uint64_t n) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (random_state >> 33) % n;
}

typedef struct kind_of_type {
  vram_dtype dtype;
  uint64_t elements, bytes; /* of a block */
} kind_of_type;

static const kind_of_type types[] = {
    {VRAM_F32, 1, 4},    {VRAM_F16, 1, 2},    {VRAM_BF16, 1, 2},   {VRAM_F8E4M3FN, 1, 1},
    {VRAM_F8E5M2, 1, 1}, {VRAM_U8, 1, 1},     {VRAM_Q8_0, 32, 34}, {VRAM_Q4_0, 32, 18},
    {VRAM_Q4_1, 32, 20}, {VRAM_Q5_0, 32, 22}, {VRAM_Q5_1, 32, 24}, {VRAM_IQ4_NL, 32, 18}};
enum { NTYPE = sizeof types / sizeof *types };

/* Rows of any kind, small ones and some that overflow. */
static wide random_row(vram_kv_layer *l, const vram_kv *kv, uint64_t tokens) {
  const kind_of_type *k = types + below(NTYPE), *v = types + below(NTYPE);
  const uint64_t block = kv->block ? kv->block : 1;
  wide bytes = {0, 0}, held = {0, 0};
  uint32_t i;
  *l = row_of((vram_kv_kind)below(VRAM_KV_KIND_COUNT), (uint32_t)below(90), 1 + (uint32_t)below(64),
              32 * (1 + (uint32_t)below(20)), 32 * (uint32_t)below(20));
  l->k = k->dtype;
  l->v = v->dtype;
  l->window = below(9000);
  held.low = tokens;
  if ((l->kind == VRAM_KV_SLIDING || l->kind == VRAM_KV_CHUNKED) && tokens > l->window + kv->ahead)
    held.low = l->window + kv->ahead;
  if (held.low % block)
    held.low += block - held.low % block;
  if (l->kind == VRAM_KV_STATE) {
    l->nstate = (uint32_t)below(VRAM_KV_MAX_STATES + 1);
    for (i = 0; i < l->nstate; i++) {
      wide one = {0, 0};
      l->state[i] = below(2) ? VRAM_F32 : VRAM_BF16;
      one.low = l->state_elements[i] = below(1u << 30);
      bytes = wide_plus(bytes, wide_times(one, l->state[i] == VRAM_F32 ? 4 : 2));
    }
  } else if (l->kind == VRAM_KV_LATENT)
    bytes = wide_times(held, l->k_dim / k->elements * k->bytes);
  else if (l->kind != VRAM_KV_NONE)
    bytes = wide_plus(wide_times(held, l->heads * (uint64_t)l->k_dim / k->elements * k->bytes),
                      wide_times(held, l->heads * (uint64_t)l->v_dim / v->elements * v->bytes));
  return wide_times(bytes, l->count);
}

static void test_random(void) {
  vram_kv_layer layer[6];
  int i, good = 0, over = 0;
  for (i = 0; i < 20000; i++) {
    const uint64_t tokens = below(4) ? below(1u << 20) : below(1u << 31) << below(26);
    const uint64_t sequences = 1 + below(300);
    wide sum = {0, 0};
    vram_kv kv;
    vram_kv_report r;
    vram_error e;
    vram_result code;
    uint32_t j;
    kv.layer = layer;
    kv.nlayer = (uint32_t)below(7);
    kv.block = below(3) ? UINT64_C(16) << below(5) : below(300);
    kv.ahead = below(3) ? below(20000) : 0;
    for (j = 0; j < kv.nlayer; j++)
      sum = wide_plus(sum, random_row(layer + j, &kv, tokens));
    code = vram_kv_bytes(&kv, tokens, sequences, &r, &e);
    snprintf(test_where, sizeof test_where, "configuration %d", i);
    if (!code) {
      good++;
      EQUAL(sum.high, 0);
      EQUAL(r.sequence_bytes, sum.low);
      sum = wide_times(sum, sequences);
      EQUAL(sum.high, 0);
      EQUAL(r.total_bytes, sum.low);
    } else {
      over++;
      EQUAL(code, VRAM_ERR_OVERFLOW);
      EQUAL(r.total_bytes, VRAM_OVERFLOW);
      sum = wide_times(sum, sequences);
      CHECK(sum.high || sum.low > INT64_MAX / 2);
    }
  }
  *test_where = 0;
  CHECK(good > 10000 && over > 200);
}

/* Bytes of a token of all layers that attend, as transformers 5.23.0's classes keep them. */
typedef struct model_row {
  const char *name;
  uint32_t layers, heads, k_dim;
  vram_dtype dtype;
  uint64_t token_bytes;
} model_row;

static const model_row models[] = {{"llama-3.1-8b", 32, 8, 128, VRAM_BF16, 131072},
                                   {"llama-3.3-70b", 80, 8, 128, VRAM_BF16, 327680},
                                   {"llama-2-7b", 32, 32, 128, VRAM_F16, 524288},
                                   {"qwen3-30b-a3b", 48, 4, 128, VRAM_BF16, 98304},
                                   {"qwen2.5-7b", 28, 4, 128, VRAM_BF16, 57344},
                                   {"deepseek-v3", 61, 0, 576, VRAM_BF16, 70272},
                                   {"phi-4", 40, 10, 128, VRAM_BF16, 204800},
                                   {"command-r-35b", 40, 64, 128, VRAM_F16, 1310720},
                                   {"falcon-h1-1.5b", 24, 2, 128, VRAM_BF16, 24576},
                                   {"gpt2", 12, 12, 64, VRAM_F32, 73728}};

static void test_models(void) {
  size_t i;
  for (i = 0; i < sizeof models / sizeof *models; i++) {
    const model_row *m = models + i;
    vram_kv_layer l =
        row_of(m->heads ? VRAM_KV_FULL : VRAM_KV_LATENT, m->layers, m->heads, m->k_dim, m->k_dim);
    l.k = l.v = m->dtype;
    snprintf(test_where, sizeof test_where, "%s", m->name);
    EQUAL(sequence(&l, 0, 0, 1), m->token_bytes);
  }
  *test_where = 0;
}

static void test_refused(void) {
  vram_kv_layer l = row_of(VRAM_KV_FULL, 1, 1, 100, 128);
  vram_kv kv;
  vram_kv_report r;
  vram_error e;
  kv.layer = &l;
  kv.nlayer = 1;
  kv.block = kv.ahead = 0;
  l.k = VRAM_Q8_0;
  EQUAL(vram_kv_bytes(&kv, 1, 1, &r, &e), VRAM_ERR_BLOCK);
  EQUAL(r.total_bytes, VRAM_OVERFLOW);
  CHECK(!strcmp(e.text, "KV cache, row 1: a row that does not divide into blocks"));
  l.k = VRAM_DTYPE_NONE;
  EQUAL(vram_kv_bytes(&kv, 1, 1, &r, &e), VRAM_ERR_DTYPE);
  l.kind = VRAM_KV_KIND_COUNT;
  EQUAL(vram_kv_bytes(&kv, 1, 1, &r, &e), VRAM_ERR_VALUE);
  l.kind = VRAM_KV_STATE;
  l.nstate = VRAM_KV_MAX_STATES + 1;
  EQUAL(vram_kv_bytes(&kv, 1, 1, &r, NULL), VRAM_ERR_VALUE);
  l = row_of(VRAM_KV_FULL, 1, 1, 128, 128);
  kv.block = 4096;
  EQUAL(vram_kv_bytes(&kv, UINT64_MAX - 5, 1, &r, &e), VRAM_ERR_OVERFLOW);
}

int main(void) {
  test_macros();
  test_random();
  test_models();
  test_refused();
  return test_done("test_kv");
}
