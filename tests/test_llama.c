/* llama.cpp's buffers: weights, caches, states and output of GGUF files against what llama.cpp
   itself said (tests/llama_truth.py makes the lines), rules that no record has, and what is
   refused. usage: test_llama FILE... */
#include "../vram.h"

#include "test.h"

enum { MEMORY = 1 << 23, HEADER = 1 << 20, LINE = 8192, WORDS = 1200 };

static uint8_t header[HEADER], memory[MEMORY], scratch[VRAM_LLAMA_MEMORY];
static uint64_t at;
static vram_file file;
static vram_error error;

/* ---- a header of keys and tensors ---- */

static void put(const void *from, uint64_t bytes) {
  if (at < sizeof header && bytes <= sizeof header - at)
    memcpy(header + at, from, (size_t)bytes);
  at += bytes;
}
static void put_number_of(uint64_t v, uint32_t bytes) { /* the lowest byte first */
  for (; bytes; bytes--, v >>= 8) {
    const uint8_t byte = (uint8_t)(v & 255);
    put(&byte, 1);
  }
}
static void put_u32(uint32_t v) { put_number_of(v, 4); }
static void put_u64(uint64_t v) { put_number_of(v, 8); }
static void put_text(const char *text) {
  put_u64(strlen(text));
  put(text, strlen(text));
}
static uint64_t ntensor, nkey, data;
static uint8_t table[HEADER / 2];
static uint64_t table_bytes;

static void begin(const char *arch) {
  at = 24;
  ntensor = data = table_bytes = 0;
  nkey = 1;
  put_text("general.architecture");
  put_u32(8);
  put_text(arch);
}

/* Of which type llama.cpp expects it: a flag, a float, or a number. */
static uint32_t type_of(const char *name) {
  static const char *const flags[] = {".attention.causal",    ".use_parallel_residual",
                                      ".swin_norm",           ".rope.scaling.finetuned",
                                      ".expert_weights_norm", ".ssm.dt_b_c_rms"};
  static const char *const floats[] = {".attention.max_alibi_bias",
                                       ".attention.clamp_kqv",
                                       ".attention.temperature_scale",
                                       ".attention.value_scale",
                                       ".attention.layer_norm_rms_epsilon",
                                       ".residual_scale",
                                       ".embedding_scale",
                                       ".expert_weights_scale",
                                       ".swiglu_clamp_exp",
                                       ".swiglu_clamp_shexp"};
  const char *const dot = strchr(name, '.');
  size_t i;
  for (i = 0; dot && i < sizeof flags / sizeof *flags; i++)
    if (!strcmp(dot, flags[i]))
      return 7;
  for (i = 0; dot && i < sizeof floats / sizeof *floats; i++)
    if (!strcmp(dot, floats[i]))
      return 6;
  return 10;
}

static void key(const char *name, uint64_t v) {
  const uint32_t type = type_of(name);
  const float real = (float)v;
  uint32_t bits;
  memcpy(&bits, &real, sizeof bits);
  put_text(name);
  put_u32(type);
  put_number_of(type == 6 ? bits : v, type == 7 ? 1 : type == 6 ? 4 : 8);
  nkey++;
}

/* Of another type. */
static void key_as(const char *name, uint32_t type, uint64_t v, uint32_t bytes) {
  put_text(name);
  put_u32(type);
  put_number_of(v, bytes);
  nkey++;
}

static void key_array(const char *name, const uint64_t *v, uint64_t count) {
  put_text(name);
  put_u32(9);
  put_u32(10);
  put_u64(count);
  while (count--)
    put_u64(*v++);
  nkey++;
}

/* Tensors go to a table of their own: keys come before them. */
static void tensor(const char *name, const char *type, const uint64_t *size, uint32_t ndim) {
  const uint64_t before = at;
  const vram_dtype dtype = vram_dtype_from_name(type);
  uint64_t bytes = 0, rows = 1;
  uint32_t i;
  put_text(name);
  put_u32(ndim);
  for (i = 0; i < ndim; i++) {
    put_u64(size[i]);
    rows *= i ? size[i] : 1;
  }
  put_u32((uint32_t)vram_dtype_get_info(dtype)->ggml_id);
  put_u64(data);
  CHECK(vram_dtype_rows_bytes(dtype, rows, size[0], &bytes) == VRAM_OK);
  data += (bytes + 31) / 32 * 32;
  memcpy(table + table_bytes, header + before, (size_t)(at - before));
  table_bytes += at - before;
  at = before;
  ntensor++;
}

static int read_header(const void *from, uint64_t bytes) {
  vram_file_source s;
  memset(&s, 0, sizeof s);
  s.data = from;
  s.bytes = bytes;
  vram_file_init(&file, memory, sizeof memory);
  return vram_file_read(&file, &s, &error) == VRAM_OK && vram_file_finish(&file, &error) == VRAM_OK;
}

static int finish(void) {
  uint64_t bytes;
  put(table, table_bytes);
  bytes = at;
  at = 0;
  put("GGUF\3\0\0\0", 8);
  put_u64(ntensor);
  put_u64(nkey);
  at = bytes - table_bytes;
  return read_header(header, bytes);
}

/* ---- lines of a golden ---- */

static char *word[WORDS];
static uint32_t nword;

static void split(char *line) {
  char *w = strtok(line, " \n");
  for (nword = 0; w && nword < WORDS; w = strtok(NULL, " \n"))
    word[nword++] = w;
}

static uint64_t number(const char *text) { return strtoull(text, NULL, 10); }

static void line_key(void) {
  static uint64_t v[WORDS];
  const uint32_t first = strcmp(word[2], "array") ? 2 : 3;
  uint32_t i;
  for (i = first; i < nword; i++)
    v[i - first] = number(word[i]);
  if (first == 2)
    key(word[1], v[0]);
  else
    key_array(word[1], v, nword - first);
}

/* f32, the lowest byte first */
static void line_real(void) {
  const float real = strtof(word[2], NULL);
  uint32_t bits;
  memcpy(&bits, &real, sizeof bits);
  put_text(word[1]);
  put_u32(6);
  put_u32(bits);
  nkey++;
}

/* tensor NAME TYPE LAYERS SIZE... */
static void line_tensor(void) {
  uint64_t size[4] = {0, 0, 0, 0};
  char name[64], *layer;
  uint32_t i;
  for (i = 4; i < nword; i++)
    size[i - 4] = number(word[i]);
  for (layer = strtok(word[3], ","); layer; layer = strtok(NULL, ",")) {
    snprintf(name, sizeof name, *layer == '-' ? "%.0s%s" : "blk.%s.%s", layer, word[1]);
    tensor(name, word[2], size, nword - 4);
  }
}

static double shares[VRAM_LLAMA_MAX_DEVICES];

/* The settings of a run, up to ':'. Returns the number of the word behind it. */
static uint32_t settings(vram_llama_options *o) {
  uint32_t i;
  memset(o, 0, sizeof *o);
  o->tensor_split = shares;
  for (i = 1; i < nword && strcmp(word[i], ":"); i++) {
    char *text = strchr(word[i], '=');
    const uint32_t v = (uint32_t)number(text + 1);
    *text++ = 0;
    if (!strcmp(word[i], "ctx"))
      o->n_ctx = v;
    else if (!strcmp(word[i], "batch"))
      o->n_batch = v;
    else if (!strcmp(word[i], "ubatch"))
      o->n_ubatch = v;
    else if (!strcmp(word[i], "seq"))
      o->slots = v;
    else if (!strcmp(word[i], "outputs"))
      o->outputs = v;
    else if (!strcmp(word[i], "unified"))
      o->unified = v != 0;
    else if (!strcmp(word[i], "swa_full"))
      o->swa_full = v != 0;
    else if (!strcmp(word[i], "devices")) {
      o->is_cpu = !v;
      o->devices = v;
    } else if (!strcmp(word[i], "ngl")) {
      o->has_layers = 1;
      o->layers = v;
    } else if (!strcmp(word[i], "fa"))
      o->flash_attention = v ? VRAM_LLAMA_ON : VRAM_LLAMA_OFF;
    else if (!strcmp(word[i], "extra"))
      o->repack = v ? VRAM_LLAMA_ON : VRAM_LLAMA_OFF;
    else if (!strcmp(word[i], "emb"))
      o->embeddings = v != 0;
    else if (!strcmp(word[i], "pooling"))
      o->pooling = (vram_llama_pooling)(VRAM_LLAMA_POOLING_NONE + v);
    else if (!strcmp(word[i], "ncmoe"))
      o->n_cpu_moe = v;
    else if (!strcmp(word[i], "split"))
      o->split = v ? VRAM_LLAMA_SPLIT_NONE : VRAM_LLAMA_SPLIT_LAYER;
    else if (!strcmp(word[i], "main"))
      o->main_gpu = v;
    else if (!strcmp(word[i], "kqv"))
      o->no_kv_offload = !v;
    else if (!strcmp(word[i], "k"))
      o->cache_k = vram_dtype_from_name(text);
    else if (!strcmp(word[i], "v"))
      o->cache_v = vram_dtype_from_name(text);
    else if (!strcmp(word[i], "ts"))
      for (; *text; text += *text == ',')
        shares[o->ntensor_split++] = strtod(text, &text);
    else
      FAIL(word[i]);
  }
  return i + 1;
}

/* A log has hundredths of a MiB. */
static int is_near(uint64_t bytes, const char *mib) {
  const double d = (double)bytes / 1048576.0 - strtod(mib, NULL);
  return d < 0.00501 && d > -0.00501;
}

static void near(uint64_t bytes, const char *mib, const char *what) {
  test_true(is_near(bytes, mib), what, __FILE__, __LINE__);
}

static uint32_t exact; /* compute buffers that are not only bounded */

static const vram_llama_buffer *buffer(const vram_llama_report *r, const char *name) {
  static const vram_llama_buffer none;
  uint32_t i;
  for (i = 0; i < r->nbuffer; i++)
    if (!strcmp(r->buffer[i].name, name))
      return r->buffer + i;
  return &none;
}

/* Is c's next of the same cells and layers, and c not the one that is meant? An indexer has its
   own. */
static int is_other(const vram_llama_report *r, const vram_llama_cache *c, const char *mib) {
  return c + 1 < r->cache + r->ncache && c[1].cells == c->cells && c[1].layers == c->layers &&
         !is_near(c->k_bytes, mib);
}

/* cache CELLS LAYERS STREAMS TYPE MIB TYPE MIB; one without layers is not ours. */
static void said_cache(const vram_llama_report *r, char **w) {
  const vram_llama_cache *c = r->cache;
  while (c < r->cache + r->ncache && c->layers &&
         (c->layers != number(w[1]) || c->cells != number(w[0]) || is_other(r, c, w[4])))
    c++;
  if (!NEED(c < r->cache + r->ncache))
    return;
  EQUAL(c->streams, number(w[2]));
  EQUAL(c->k_type, vram_dtype_from_name(w[3]));
  near(c->k_bytes, w[4], "K");
  near(c->v_bytes, w[6], "V");
}

/* Equal where a rule builds the graph; elsewhere what logits need, which is never too much. */
static void said_compute(const vram_llama_report *r, const char *name, const char *bytes) {
  const uint64_t ours = buffer(r, name)->compute_bytes;
  if (r->compute == VRAM_LLAMA_EXACT)
    EQUAL(ours, number(bytes));
  else
    CHECK(ours <= number(bytes));
  exact += r->compute == VRAM_LLAMA_EXACT;
}

static void said(const vram_llama_report *r, uint32_t i) {
  uint64_t model = 0, context = 0, caches = 0;
  for (; i < nword; i++) {
    if (!strcmp(word[i], "n_ctx"))
      EQUAL(r->n_ctx, number(word[i + 1]));
    else if (!strcmp(word[i], "output"))
      near(r->output_bytes, word[i + 1], "output");
    else if (!strcmp(word[i], "flash"))
      EQUAL(r->flash_attention, number(word[i + 1]));
    else if (!strcmp(word[i], "buffer")) {
      EQUAL(buffer(r, word[i + 1])->model_bytes, number(word[i + 2]));
      EQUAL(buffer(r, word[i + 1])->context_bytes, number(word[i + 3]));
      said_compute(r, word[i + 1], word[i + 4]);
      model += number(word[i + 2]);
      context += number(word[i + 3]);
    } else if (!strcmp(word[i], "cache")) {
      said_cache(r, word + i + 1);
      caches++;
    } else if (!strcmp(word[i], "states")) {
      near(r->r_bytes, word[i + 1], "R");
      near(r->s_bytes, word[i + 2], "S");
    }
  }
  EQUAL(r->ncache, caches);
  EQUAL(r->model_bytes, model); /* and nothing anywhere else */
  EQUAL(r->context_bytes, context);
}

static void line_run(void) {
  vram_llama_options o;
  vram_llama_report r;
  const uint32_t i = settings(&o);
  const vram_result code = vram_llama(&file, &o, scratch, sizeof scratch, &r, &error);
  if (i < nword && !strcmp(word[i], "refused"))
    EQUAL(code, VRAM_ERR_UNSUPPORTED);
  else if (!code)
    said(&r, i);
  else
    FAIL(error.text);
}

static void line_file(void) {
  static uint8_t bytes[HEADER * 16];
  FILE *f = fopen(word[1], "rb");
  CHECK(f && read_header(bytes, fread(bytes, 1, sizeof bytes, f)));
  if (f)
    fclose(f);
}

static void test_golden(const char *path) {
  static char line[LINE];
  FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
  uint32_t runs = 0;
  int is_open = 0;
  if (!NEED(f != NULL))
    return;
  while (fgets(line, sizeof line, f)) {
    if (!strncmp(line, "run ", 4))
      snprintf(test_where, sizeof test_where, "%.10s run %u, %.200s", path, ++runs, line);
    split(line);
    if (!nword || *word[0] == '#')
      continue;
    if (!strcmp(word[0], "arch"))
      begin(word[1]);
    else if (!strcmp(word[0], "key"))
      line_key();
    else if (!strcmp(word[0], "real"))
      line_real();
    else if (!strcmp(word[0], "tensor")) {
      line_tensor();
      is_open = 1;
    } else if (!strcmp(word[0], "file"))
      line_file();
    else if (!strcmp(word[0], "run")) {
      if (is_open)
        CHECK(finish());
      is_open = 0;
      line_run();
    }
  }
  CHECK(exact >= 334);
  if (f != stdin)
    fclose(f);
  CHECK(runs >= 100);
  *test_where = 0;
}

/* ---- rules that no record has ---- */

static vram_llama_report count(const vram_llama_options *o) {
  vram_llama_report r;
  if (vram_llama(&file, o, scratch, sizeof scratch, &r, &error))
    FAIL(error.text);
  return r;
}

/* Two layers of experts and nothing else: 64 x 32 x 4 elements of f32 each. */
static void experts(void) {
  static const uint64_t size[3] = {64, 32, 4}, norm[1] = {64};
  char name[64];
  int i;
  begin("llama");
  key("llama.block_count", 2);
  key("llama.embedding_length", 64);
  key("llama.context_length", 256);
  key("llama.attention.head_count", 2);
  key("llama.vocab_size", 10);
  for (i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "blk.%d.ffn_up_exps.weight", i);
    tensor(name, "f32", size, 3);
    snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
    tensor(name, "f32", norm, 1);
  }
  CHECK(finish());
}

static void test_overrides(void) {
  static const struct {
    const char *pattern;
    uint64_t moved; /* of 4 tensors, in bytes */
  } rows[] = {{"ffn_.*_exps", 65536},
              {"blk\\.1\\.ffn_(up|down)_exps", 32768},
              {"^blk\\.[0-9]+\\.attn", 512},
              {"attn_norm.weight$", 512},
              {"^attn", 0},
              {"blk\\.(0|1)\\.(ffn|attn)_.+", 66048},
              {"\\d{2}", 0},
              {"blk.\\d{1,2}.ffn", 65536},
              {"(?:up|gate)_(ch|)exps", 65536},
              {"[^a-z_.0]\\.attn", 256},
              {"ex?p?s+?\\.", 65536},
              {"b{1}l{0,3}k{1,}\\.0", 33024}};
  static const char *const wrong[] = {"(",      ")",     "[a",  "*",      "a{2",
                                      "a{3,2}", "(?=a)", "\\b", "a{256}", "\\1"};
  vram_llama_override p;
  vram_llama_options o;
  vram_llama_report r;
  size_t i;
  memset(&o, 0, sizeof o);
  experts();
  o.override_tensor = &p;
  o.noverride_tensor = 1;
  p.device = -1;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(test_where, sizeof test_where, "pattern %s", rows[i].pattern);
    p.pattern = rows[i].pattern;
    p.pattern_len = (uint32_t)strlen(p.pattern);
    r = count(&o);
    EQUAL(buffer(&r, "CUDA_Host")->model_bytes, rows[i].moved);
    EQUAL(buffer(&r, "CUDA0")->model_bytes, 66048 - rows[i].moved);
  }
  for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    snprintf(test_where, sizeof test_where, "pattern %s", wrong[i]);
    p.pattern = wrong[i];
    p.pattern_len = (uint32_t)strlen(p.pattern);
    EQUAL(vram_llama(&file, &o, scratch, sizeof scratch, &r, &error), VRAM_ERR_SYNTAX);
  }
  *test_where = 0;
  o.noverride_tensor = 0;
  o.n_cpu_moe = 1;
  r = count(&o);
  EQUAL(buffer(&r, "CUDA_Host")->model_bytes, 32768);
  o.n_cpu_moe = 0;
  o.devices = 2;
  o.main_gpu = 1;
  o.split = VRAM_LLAMA_SPLIT_NONE;
  r = count(&o);
  EQUAL(r.nbuffer, 1); /* no graph: a feed-forward without a norm */
  EQUAL(buffer(&r, "CUDA1")->model_bytes, 66048);
  EQUAL(r.device_bytes[1], r.total_bytes - r.host_bytes);
}

/* One matrix of 512 x 256 and 512 rows: as ggml-cuda copies them to its pool. */
static vram_llama_report beside(const char *dtype, uint32_t n_ubatch, uint32_t layers,
                                const vram_gpu *gpu) {
  static const uint64_t size[2] = {512, 256}, norm[1] = {512};
  vram_llama_options o = VRAM_ZERO_INIT;
  begin("llama");
  key("llama.block_count", 1);
  key("llama.embedding_length", 512);
  key("llama.context_length", 1024);
  key("llama.attention.head_count", 128);
  key("llama.vocab_size", 10);
  tensor("blk.0.ffn_up.weight", dtype, size, 2);
  tensor("blk.0.attn_norm.weight", "f32", norm, 1);
  CHECK(finish());
  o.n_ubatch = n_ubatch;
  o.layers = layers;
  o.has_layers = 1;
  o.gpu[0] = gpu;
  return count(&o);
}

static void test_beside(void) {
  static const vram_gpu ten = {"ten", 89, 10, 1, 1, "ten multiprocessors of 1,536 threads"};
  static const vram_gpu big = {"big", 90, 1, 1, 1, "one of 2,048, more workspace"};
  const uint64_t low = UINT64_C(10) * 1536 * 1536, mib = 1048576;
  /* stacks, registers and shared memory, the driver; ggml's code, cuBLAS's, graphs, a step of the
     pool, the workspace */
  const uint64_t high = UINT64_C(10) * 1536 * 2048 + UINT64_C(10) * 524288 + 31195136 + 9 * mib +
                        97 * mib + 31326208 + 64 * mib + 2 * mib + 4 * mib;
  vram_llama_report r = beside("q4_K", 512, 2, &ten);
  EQUAL(r.beside[0].lower, low + UINT64_C(512) * 512 * 9 / 8);
  EQUAL(r.beside[0].expected,
        UINT64_C(10) * 1536 * 1900 + 31195136 + 31326208 + 512 * 512 * 9 / 8 + r.host_bytes / 512);
  /* and numbers of 512 rows, a tile more, a tile of f32 for each multiprocessor; pinned pages */
  EQUAL(r.beside[0].upper, high + 294912 + 4096 + 18432 + 655360 + r.host_bytes / 512);
  EQUAL(r.context_bare[0].lower, low);
  EQUAL(beside("q4_K", 64, 2, &ten).beside[0].lower, low + UINT64_C(64) * 512 * 9 / 8);
  EQUAL(beside("q4_K", 512, 0, &ten).beside[0].lower, low);
  EQUAL(beside("mxfp4", 512, 2, &ten).beside[0].lower, low + UINT64_C(512) * 512 * 9 / 16);
  /* rows and results of a matrix in f16, of 512 and 256 columns */
  r = beside("f16", 512, 2, &ten);
  EQUAL(r.beside[0].lower, low);
  EQUAL(r.beside[0].upper, high + UINT64_C(2) * 512 * 768 + r.host_bytes / 512);
  /* parts of results of heads of 4: 4 blocks of 64 rows on each multiprocessor */
  r = beside("f16", 512, 2, NULL);
  EQUAL(r.beside[0].upper, r.context_bare[0].upper + (97 + 64 + 2 + 4) * mib + 31326208 +
                               UINT64_C(192) * 4 * 64 * 8 * 4 + r.host_bytes / 512);
  r = beside("q4_K", 512, 2, &big);
  EQUAL(r.context_bare[0].upper, 2048 * 2048 + 524288 + 31195136 + 9 * mib);
  /* nobody says what it is: any number of multiprocessors, 128 as an RTX 4090 */
  r = beside("q4_K", 512, 2, NULL);
  EQUAL(r.context_bare[0].lower, 0);
  EQUAL(r.context_bare[0].expected, UINT64_C(128) * 1536 * 1900 + 31195136);
  EQUAL(r.context_bare[0].upper, UINT64_C(192) * (1536 * 2048 + 524288) + 31195136 + 9 * mib);
}

/* Caches of architectures that no record has. Sizes by the rules of their source files. */
static void caches(const char *arch, uint32_t layers) {
  char name[96];
  static const char *const keys[] = {"block_count", "embedding_length", "context_length",
                                     "attention.head_count", "attention.head_count_kv"};
  const uint64_t v[] = {layers, 256, 4096, 4, 2};
  size_t i;
  begin(arch);
  key("tokenizer.ggml.x", 0);
  for (i = 0; i < 5; i++) {
    snprintf(name, sizeof name, "%s.%s", arch, keys[i]);
    key(name, v[i]);
  }
}

/* A pattern in the file, heads of their own for sliding layers, layers that share; rope factors
   only where a layer attends to everything. */
static void test_gemma4(void) {
  static const uint64_t pattern[4] = {1, 0, 1, 1}, size[1] = {64};
  static const double split[2] = {1, 3};
  vram_llama_options o;
  vram_llama_report r;
  memset(&o, 0, sizeof o);
  caches("gemma4", 4);
  key_array("gemma4.attention.sliding_window_pattern", pattern, 4);
  key("gemma4.attention.sliding_window", 512);
  key("gemma4.attention.shared_kv_layers", 1);
  key("gemma4.attention.key_length", 512);
  key("gemma4.attention.value_length", 512);
  key("gemma4.attention.key_length_swa", 256);
  key("gemma4.attention.value_length_swa", 256);
  tensor("rope_freqs.weight", "f32", size, 1);
  CHECK(finish());
  o.devices = 2;
  o.tensor_split = split;
  o.ntensor_split = 2;
  r = count(&o); /* layers 0 and 1 on the first device */
  EQUAL(r.cache[0].layers, 2);
  EQUAL(r.cache[0].k_bytes, 2 * 1024 * 512 * 2);
  EQUAL(r.cache[1].layers, 1);
  EQUAL(r.cache[1].k_bytes, 4096 * 1024 * 2);
  EQUAL(buffer(&r, "CUDA0")->model_bytes, 256);
  EQUAL(buffer(&r, "CUDA1")->model_bytes, 0);
}

static void test_architectures(void) {
  static const uint64_t recurrent[6] = {1, 1, 0, 1, 0, 1};
  vram_llama_options o;
  vram_llama_report r;
  memset(&o, 0, sizeof o);
  caches("cohere2", 8); /* 3 of 4 slide */
  key("cohere2.attention.sliding_window", 1000);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.ncache, 2);
  EQUAL(r.cache[0].layers, 6);
  EQUAL(r.cache[0].cells, 1536); /* 1000 + 512, to a multiple of 256 */
  EQUAL(r.cache[1].layers, 2);
  EQUAL(r.cache[1].k_bytes, 2 * 4096 * 128 * 2);
  caches("smallthinker", 8); /* the first of four attends to everything */
  key("smallthinker.attention.sliding_window", 1024);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.cache[0].cells, 4096);
  EQUAL(r.cache[1].layers, 6);
  caches("gemma3n", 30); /* 20 layers have a cache */
  key("gemma3n.attention.sliding_window", 512);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.cache[0].layers, 16);
  EQUAL(r.cache[1].layers, 4);
  caches("qwen3next", 8); /* every fourth attends; f32 states */
  key("qwen3next.ssm.conv_kernel", 4);
  key("qwen3next.ssm.inner_size", 512);
  key("qwen3next.ssm.state_size", 64);
  key("qwen3next.ssm.group_count", 2);
  CHECK(finish());
  o.slots = 3;
  r = count(&o);
  EQUAL(r.cache[0].layers, 2);
  EQUAL(r.r_bytes, 3 * 6 * 3 * (512 + 2 * 2 * 64) * 4);
  EQUAL(r.s_bytes, 3 * 6 * 64 * 512 * 4);
  EQUAL(r.n_ctx_seq, 1536); /* 4096 / 3, to a multiple of 256 */
  o.slots = 0;
  caches("qwen35", 6); /* which are recurrent, one by one; the last predicts ahead */
  key_array("qwen35.attention.recurrent_layers", recurrent, 6);
  key("qwen35.nextn_predict_layers", 1);
  key("qwen35.ssm.inner_size", 512);
  key("qwen35.ssm.state_size", 64);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.cache[0].layers, 2);
  EQUAL(r.s_bytes, 3 * 64 * 512 * 4);
  caches("falcon-h1", 4); /* both in every layer */
  key("falcon-h1.ssm.conv_kernel", 4);
  key("falcon-h1.ssm.inner_size", 512);
  key("falcon-h1.ssm.state_size", 64);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.cache[0].layers, 4);
  EQUAL(r.s_bytes, 4 * 64 * 512 * 4);
  caches("rwkv7", 4);
  key("rwkv7.wkv.head_size", 64);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.ncache, 0);
  EQUAL(r.r_bytes, 4 * 2 * 256 * 4);
  EQUAL(r.s_bytes, 4 * 256 * 64 * 4);
  caches("modern-bert", 4);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.context_bytes, 0);
  caches("llama4", 8); /* chunks of 8192, which are more than the context */
  CHECK(finish());
  r = count(&o);
  EQUAL(r.cache[0].layers, 6);
  EQUAL(r.cache[0].cells, 4096);
  test_gemma4();
  caches("a-new-one", 4);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.architecture_is_known, 0);
  EQUAL(r.cache[0].layers, 4);
}

/* One layer of an architecture, and a tensor more of a name. */
static vram_llama_known known(const char *arch, const char *more) {
  static const char *const weights[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                        "ffn_gate", "ffn_up", "ffn_down"};
  static const char *const norms[] = {"attn_norm", "ffn_norm"};
  static const uint64_t size[2] = {256, 256}, kv[2] = {256, 128}, words[2] = {256, 100};
  vram_llama_options o;
  char name[64];
  size_t i;
  memset(&o, 0, sizeof o);
  caches(arch, 1);
  tensor("token_embd.weight", "f32", words, 2);
  tensor("output_norm.weight", "f32", size, 1);
  for (i = 0; i < sizeof weights / sizeof *weights; i++) {
    snprintf(name, sizeof name, "blk.0.%s.weight", weights[i]);
    tensor(name, "f32", i == 1 || i == 2 ? kv : size, 2);
  }
  for (i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "blk.0.%s.weight", norms[i]);
    tensor(name, "f32", size, 1);
  }
  if (more)
    tensor(more, "f32", size, 1);
  CHECK(finish());
  return count(&o).compute;
}

/* Factors of rope lie where a pattern puts them, once (llama_model_loader::create_tensor). */
static void test_rope_moved(void) {
  const uint64_t size[] = {64};
  vram_llama_override p;
  vram_llama_options o;
  vram_llama_report r;
  uint64_t before;
  memset(&o, 0, sizeof o);
  memset(&p, 0, sizeof p);
  caches("llama", 4);
  tensor("rope_freqs.weight", "f32", size, 1);
  CHECK(finish());
  o.devices = 2;
  r = count(&o); /* on each device with a layer */
  before = buffer(&r, "CUDA0")->model_bytes;
  EQUAL(buffer(&r, "CUDA1")->model_bytes, 256);
  p.pattern = "rope_freqs";
  p.pattern_len = 10;
  p.device = 1;
  o.override_tensor = &p;
  o.noverride_tensor = 1;
  r = count(&o);
  EQUAL(buffer(&r, "CUDA0")->model_bytes, before - 256);
  EQUAL(buffer(&r, "CUDA1")->model_bytes, 256);
  p.device = -1;
  r = count(&o);
  EQUAL(buffer(&r, "CUDA1")->model_bytes, 0);
  EQUAL(buffer(&r, "CUDA_Host")->model_bytes, 256);
}

/* What is loaded beside a model: weights alone, where the layers are that they change. */
static void test_extra(void) {
  const uint64_t pair[] = {64, 8}, direction[] = {128}, patch[] = {14, 14, 3, 64};
  vram_llama_options o;
  vram_llama_report r;
  memset(&o, 0, sizeof o);
  o.has_layers = 1;
  o.layers = 3; /* of four and the output: the last two */
  begin("llama");
  put_text("general.type");
  put_u32(8);
  put_text("adapter");
  nkey++;
  tensor("blk.0.attn_q.weight.lora_a", "f32", pair, 2);
  tensor("blk.3.attn_q.weight.lora_a", "f16", pair, 2);
  tensor("output.weight.lora_a", "f32", pair, 2);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.extra, VRAM_LLAMA_ADAPTER);
  EQUAL(buffer(&r, "CUDA0")->model_bytes, 64 * 8 * 6);
  EQUAL(buffer(&r, "CUDA_Host")->model_bytes, 64 * 8 * 4);
  begin("controlvector");
  tensor("direction.1", "f32", direction, 1);
  tensor("direction.3", "f32", direction, 1);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.extra, VRAM_LLAMA_CONTROL_VECTOR);
  EQUAL(buffer(&r, "CUDA0")->model_bytes, 512);
  begin("clip");
  tensor("v.patch_embd.weight", "f16", patch, 4);
  CHECK(finish());
  r = count(&o);
  EQUAL(r.extra, VRAM_LLAMA_PROJECTOR);
  EQUAL(buffer(&r, "CUDA0")->model_bytes, 14 * 14 * 3 * 64 * 2);
  EQUAL(r.compute, VRAM_LLAMA_UNKNOWN);
}

/* A graph is built for what it has a place for, and for nothing else. */
static void test_known(void) {
  EQUAL(known("llama", NULL), VRAM_LLAMA_EXACT);
  EQUAL(known("granite", NULL), VRAM_LLAMA_EXACT);
  EQUAL(known("mistral3", "rope_freqs.weight"), VRAM_LLAMA_EXACT);
  EQUAL(known("llama", "blk.0.attn_q.scale"), VRAM_LLAMA_FLOOR);
  EQUAL(known("llama", "blk.0.attn_sinks.bias"), VRAM_LLAMA_FLOOR);
  EQUAL(known("llama", "output.scale"), VRAM_LLAMA_FLOOR);
  EQUAL(known("llama", "blk.0.time_mix_w0.weight"), VRAM_LLAMA_FLOOR); /* of another architecture */
  EQUAL(known("granite", "blk.0.ssm_a"), VRAM_LLAMA_FLOOR);
  EQUAL(known("qwen3", "blk.0.vis_gate.weight"), VRAM_LLAMA_FLOOR);
  EQUAL(known("llama", "blk.1.another.weight"),
        VRAM_LLAMA_EXACT); /* of no layer that is computed */
  EQUAL(known("llama", "blk.0.ffn_gate_inp.weight"), VRAM_LLAMA_FLOOR); /* without experts */
  EQUAL(known("gemma3n", NULL), VRAM_LLAMA_FLOOR); /* without embeddings of each layer */
  EQUAL(known("a-new-one", NULL), VRAM_LLAMA_FLOOR);
}

/* Files that lack a size which graphs divide by, or a part of a layer: no graph, and no crash. */
static void test_lacking(void) {
  static const uint64_t one[1] = {1}, words[1] = {256}, size[2] = {256, 256};
  static const struct {
    const char *arch, *key;
    uint64_t value;
    const char *weight[3];
  } files[] = {
      {"rwkv6", "ssm.state_size", 1, {"attn_norm.weight", NULL, NULL}},
      {"rwkv7", "rescale_every_n_layers", UINT64_C(1) << 30, {"time_mix_w0.weight", NULL, NULL}},
      {"chameleon", "swin_norm", 1, {NULL, NULL, NULL}},
      {"qwen3next", "ssm.time_step_rank", 4, {"attn_qkv.weight", "ssm_ba.weight", NULL}},
      {"falcon-h1", "attention.key_length", 0, {"attn_q.weight", NULL, NULL}},
      {"nemotron_h", "feed_forward_length", 9, {"attn_norm.weight", "attn_q.weight", NULL}},
      {"deepseek2",
       "attention.shared_kv_layers",
       1,
       {"attn_q.weight", "attn_kv_a_mqa.weight", "ffn_norm.weight"}},
      {"deepseek32",
       "attention.kv_lora_rank",
       8,
       {"attn_q_a.weight", "indexer.attn_q_b.weight", NULL}},
  };
  char name[64];
  size_t i, k;
  vram_llama_options o;
  vram_llama_report r;
  memset(&o, 0, sizeof o);
  for (i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(test_where, sizeof test_where, "%s %s", files[i].arch, files[i].key);
    caches(files[i].arch, 4);
    snprintf(name, sizeof name, "%s.%s", files[i].arch, files[i].key);
    key(name, files[i].value);
    if (strstr(files[i].arch, "deepseek")) {
      snprintf(name, sizeof name, "%s.attention.key_length_mla", files[i].arch);
      key(name, 64);
    }
    for (k = 0; k < 12; k++)
      if (files[i].weight[k / 4]) {
        snprintf(name, sizeof name, "blk.%d.%s", (int)(k % 4), files[i].weight[k / 4]);
        tensor(name, "f32", size, 2);
      }
    CHECK(finish());
    EQUAL(count(&o).compute, VRAM_LLAMA_FLOOR);
  }
  *test_where = 0;
  caches("llama", 1); /* a table of words of one axis, which is taken for a matrix */
  tensor("token_embd.weight", "q4_0", words, 1);
  CHECK(finish());
  o.is_cpu = 1;
  r = count(&o);
  EQUAL(buffer(&r, "CPU")->model_bytes, 160);
  o.is_cpu = 0;
  for (i = 0; i < 2; i++) { /* one layer, which has a state; weights without axes */
    begin(i ? "plamo2" : "kimi-linear");
    key(i ? "plamo2.block_count" : "kimi-linear.block_count", 1);
    key(i ? "plamo2.embedding_length" : "kimi-linear.embedding_length", 256);
    key(i ? "plamo2.context_length" : "kimi-linear.context_length", 4096);
    tensor(i ? "blk.0.ssm_dt.weight" : "blk.0.attn_q.weight", "f32", one, 0);
    tensor("per_layer_token_embd.weight", "f32", one, 0);
    CHECK(finish());
    EQUAL(count(&o).context_bytes, 0);
  }
}

static void refused(const vram_llama_options *o, vram_result code, const char *text) {
  vram_llama_report r;
  EQUAL(vram_llama(&file, o, scratch, sizeof scratch, &r, &error), code);
  test_true(strstr(error.text, text) != NULL, error.text, __FILE__, __LINE__);
  EQUAL(r.nbuffer, 0);
}

static void test_refused(void) {
  const uint64_t few = 9216; /* one number for two layers */
  static const double share[1] = {-1};
  vram_llama_options o;
  vram_llama_report r;
  memset(&o, 0, sizeof o);
  experts();
  EQUAL(vram_llama(&file, &o, scratch, 100, &r, &error), VRAM_ERR_MEMORY);
  o.split = VRAM_LLAMA_SPLIT_ROW;
  refused(&o, VRAM_ERR_UNSUPPORTED, "rows of a matrix");
  o.split = VRAM_LLAMA_SPLIT_LAYER;
  o.main_gpu = 1;
  refused(&o, VRAM_ERR_VALUE, "main_gpu");
  o.main_gpu = 0;
  o.devices = 17;
  refused(&o, VRAM_ERR_LIMIT, "16 devices");
  o.devices = 0;
  o.tensor_split = share;
  o.ntensor_split = 1;
  refused(&o, VRAM_ERR_VALUE, "tensor_split");
  o.ntensor_split = 0;
  o.slots = 257;
  refused(&o, VRAM_ERR_UNSUPPORTED, "256 sequences");
  o.slots = 0;
  o.cache_v = VRAM_Q8_0;
  o.flash_attention = VRAM_LLAMA_OFF;
  refused(&o, VRAM_ERR_UNSUPPORTED, "flash attention");
  o.cache_v = VRAM_Q4_K;
  refused(&o, VRAM_ERR_BLOCK, "blocks of 256");
  o.cache_v = VRAM_F8E4M3FN;
  refused(&o, VRAM_ERR_DTYPE, "no type of ggml");
  o.cache_v = VRAM_DTYPE_NONE;
  begin("llama");
  CHECK(finish());
  refused(&o, VRAM_ERR_VALUE, "llama.block_count");
  begin("llama");
  key("llama.block_count", 513);
  CHECK(finish());
  refused(&o, VRAM_ERR_VALUE, "512 layers");
  caches("llama", 2);
  key("llama.attention.key_length", UINT64_C(1) << 31);
  CHECK(finish());
  refused(&o, VRAM_ERR_VALUE, "attention.key_length");
  caches("gemma3", 2);
  key_array("gemma3.feed_forward_length", &few, 1);
  CHECK(finish());
  refused(&o, VRAM_ERR_VALUE, "a number for each layer");
}

/* Keys of another type than llama.cpp reads, at which it stops, too. */
static void test_kinds(void) {
  static const struct {
    const char *arch, *key;
    uint32_t type; /* 4: u32, 6: f32, 7: bool, 5: i32 */
    uint64_t value;
    uint32_t bytes;
    const char *text; /* NULL: none is wrong */
  } t[] = {
      {"bert", "attention.causal", 7, 0, 1, NULL},
      {"bert", "attention.causal", 4, 0, 4, "attention.causal': true or false"},
      {"bert", "attention.causal", 6, 0x3f800000, 4, "true or false"},
      {"gptneox", "use_parallel_residual", 4, 1, 4, "true or false"},
      {"chameleon", "swin_norm", 6, 0, 4, "true or false"},
      {"qwen3vl", "n_deepstack_layers", 6, 0x40400000, 4, "from 0 to 2^31-1"},
      {"qwen3vl", "n_deepstack_layers", 5, 0xffffffff, 4, "from 0 to 2^31-1"},
      {"qwen3vl", "n_deepstack_layers", 4, 3, 4, NULL},
      {"qwen3vl", "n_deepstack_layers", 5, 3, 4, NULL},
      {"rwkv7", "rescale_every_n_layers", 10, UINT64_C(1) << 32, 8, "from 0 to 2^31-1"},
      {"granite", "residual_scale", 4, 1, 4, "floating-point number is"},
      {"granite", "residual_scale", 6, 0x3f800000, 4, NULL},
      {"step35", "swiglu_clamp_exp", 4, 7, 4, "floating-point numbers are"},
      {"bert", "pooling_type", 7, 1, 1, "from 0 to 2^31-1"},
      {"llama", "expert_count", 7, 1, 1, "from 0 to 2^31-1"},
      {"llama", "attention.head_count_kv", 7, 1, 1, "numbers from 0 to"},
  };
  vram_llama_options o;
  vram_llama_report r;
  char name[96];
  size_t i;
  memset(&o, 0, sizeof o);
  for (i = 0; i < sizeof t / sizeof *t; i++) {
    const int is_kv = !strcmp(t[i].key, "attention.head_count_kv");
    caches(t[i].arch, 2);
    if (is_kv) { /* the last key once more, of another type */
      at -= 8 + strlen("llama.attention.head_count_kv") + 4 + 8;
      nkey--;
    }
    snprintf(name, sizeof name, "%s.%s", t[i].arch, t[i].key);
    key_as(name, t[i].type, t[i].value, t[i].bytes);
    CHECK(finish());
    if (t[i].text)
      refused(&o, VRAM_ERR_VALUE, t[i].text);
    else
      CHECK(vram_llama(&file, &o, scratch, sizeof scratch, &r, &error) == VRAM_OK);
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    test_golden(argv[i]);
  test_overrides();
  test_beside();
  test_architectures();
  test_rope_moved();
  test_extra();
  test_known();
  test_lacking();
  test_refused();
  test_kinds();
  return test_done("test_llama");
}
