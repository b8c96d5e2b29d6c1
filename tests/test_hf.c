/* safetensors, its index and config.json: sound and broken files with the verdicts of the package
   safetensors, every prefix and single damages of a sound one, memory of every size, JSON in all
   its forms. */
#include "../vram.h"
#include "test.h"

enum { MEMORY = 1 << 20 };

static vram_file file;
static vram_error error;

/* The same bytes, a few at a time. */
static vram_result give(void *user, uint64_t offset, void *to, uint64_t bytes) {
  memcpy(to, (const char *)user + offset, (size_t)bytes);
  return VRAM_OK;
}

static vram_result read_part(char *data, uint64_t bytes, int by_ranges) {
  vram_file_source s;
  memset(&s, 0, sizeof s);
  s.bytes = bytes;
  if (by_ranges) {
    s.read = give;
    s.user = data;
  } else
    s.data = data;
  return vram_file_read(&file, &s, &error);
}

/* All of a file of one part, in exactly as many bytes as it has. */
static vram_result read_one(const char *data, uint64_t bytes, int by_ranges, uint64_t memory) {
  static char *mem;
  char *exact = (char *)malloc(bytes ? (size_t)bytes : 1);
  vram_result r;
  if (!mem)
    mem = (char *)test_scratch(MEMORY);
  if (!exact || !mem)
    abort();
  memcpy(exact, data, (size_t)bytes);
  vram_file_init(&file, mem, memory);
  r = read_part(exact, bytes, by_ranges);
  if (!r)
    r = vram_file_finish(&file, &error);
  free(exact); /* nothing of it is used any more */
  return r;
}

/* Length, header and zeros, as a file has them. */
static uint64_t compose(char *to, uint64_t length, const char *header, size_t n, size_t zeros) {
  size_t i;
  for (i = 0; i < 8; i++)
    to[i] = (char)(unsigned char)(length >> 8 * i & 255);
  memcpy(to + 8, header, n);
  memset(to + 8 + n, 0, zeros);
  return 8 + n + zeros;
}

/* ---- safetensors ---- */

static const struct verdict {
  const char *name;
  uint64_t length;
  const char *header;
  size_t bytes, zeros;
  int tensors;
} verdicts[] = {
#include "golden/safetensors.inc"
};

static void broken(void) {
  static char data[1 << 14];
  size_t i;
  for (i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
    const struct verdict *v = verdicts + i;
    const uint64_t n = compose(data, v->length, v->header, v->bytes, v->zeros);
    /* the format forbids them, the package takes them */
    const int is_refused =
        v->tensors < 0 || !strcmp(v->name, "bad_dup_key") || !strcmp(v->name, "bad_leading_space");
    int by_ranges;
    snprintf(test_where, sizeof test_where, "%s", v->name);
    for (by_ranges = 0; by_ranges < 2; by_ranges++) {
      const vram_result r = read_one(data, n, by_ranges, MEMORY);
      EQUAL(r != VRAM_OK, is_refused);
      CHECK(r == VRAM_OK || *error.text);
      if (r == VRAM_OK) {
        EQUAL(file.ntensor, v->tensors);
        EQUAL(file.tensor_bytes, v->zeros);
        EQUAL(file.part_first->expected_bytes, n);
      }
    }
  }
  snprintf(test_where, sizeof test_where, "short and deep");
  CHECK(read_one(data, 0, 0, MEMORY));
  compose(data, 2, "{}", 2, 0);
  CHECK(read_one(data, 7, 0, MEMORY));
  compose(data, 10006, "{\"a\":", 5, 0);
  memset(data + 13, '[', 10001);
  EQUAL(read_one(data, 10014, 0, MEMORY), VRAM_ERR_SYNTAX);
  *test_where = 0;
}

#define SOUND                                                                                      \
  "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],"                \
  "\"data_offsets\":[6,30]},\"a\\u00e9\":{\"shape\":[3],\"more\":[{\"x\":null}],"                  \
  "\"data_offsets\":[0,6],\"dtype\":\"BF16\"}}  "

/* Tensors lie in the order of their data; what is read does not refer to the source. */
static void sound(void) {
  static char data[1024];
  const size_t n = sizeof SOUND - 1;
  const vram_file_tensor *t;
  uint64_t bytes = compose(data, n, SOUND, n, 30), i;
  EQUAL(read_one(data, bytes, 1, MEMORY), VRAM_OK);
  t = file.tensor_first;
  CHECK(t->name_len == 3 && !memcmp(t->name, "a\303\251", 3) && t->dtype == VRAM_BF16);
  EQUAL(t->offset, 8 + n);
  t = vram_file_find(&file, "b", 1);
  if (NEED(t)) {
    EQUAL(t->offset, 8 + n + 6);
    EQUAL(t->bytes, 24);
    CHECK(t->ndim == 2 && t->size[0] == 2 && t->size[1] == 3 && t == file.tensor_last);
  }
  CHECK(vram_file_get(&file, "format", 6) && file.numel == 9);
  EQUAL(read_one(data, 8 + n, 0, MEMORY), VRAM_OK); /* without its data */
  EQUAL(file.part_first->expected_bytes, bytes);
  for (i = 0; i < bytes; i++)
    if (i != 8 + n)
      CHECK(read_one(data, i, 0, MEMORY) != VRAM_OK);
  for (i = 0; i < 8 * (8 + n); i++) { /* every bit: another file, or none; never a crash */
    data[i / 8] = (char)(data[i / 8] ^ 1 << i % 8);
    if (!read_one(data, bytes, 0, MEMORY))
      EQUAL(file.part_first->expected_bytes, bytes);
    data[i / 8] = (char)(data[i / 8] ^ 1 << i % 8);
  }
  for (i = 0; read_one(data, bytes, 0, i) == VRAM_ERR_MEMORY; i++)
    ;
  CHECK(i > 500 && i < 8192 && !read_one(data, bytes, 0, i));
}

/* ---- shards ---- */

#define SHARD(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
#define INDEX(a, b)                                                                                \
  "{\"metadata\":{\"total_size\":4},\"weight_map\":{\"" a "\":\"one\",\"" b "\":\"two\"}}"

/* An index and two shards of a tensor each; at last what vram_file_finish says. */
static vram_result shards(const char *index, const char *a, const char *b) {
  static char mem[1 << 16], data[256];
  char text[256];
  vram_result r;
  vram_file_init(&file, mem, sizeof mem);
  memcpy(text, index, strlen(index) + 1);
  r = read_part(text, strlen(index), 0);
  if (!r && a)
    r = read_part(data, compose(data, strlen(a), a, strlen(a), 2), 0);
  if (!r && b)
    r = read_part(data, compose(data, strlen(b), b, strlen(b), 2), 0);
  return r ? r : vram_file_finish(&file, &error);
}

static void shard(void) {
  EQUAL(shards(INDEX("x", "y"), SHARD("x"), SHARD("y")), VRAM_OK);
  CHECK(file.npart == 2 && file.format == VRAM_FILE_SAFETENSORS && file.tensor_bytes == 4);
  CHECK(file.part_first->name_len == 3 && !memcmp(file.part_first->name, "one", 3));
  CHECK(file.tensor_first->part == 0 && file.tensor_last->part == 1);
  CHECK(vram_file_get(&file, "metadata.total_size", 19)->number.u == 4);
  EQUAL(shards(INDEX("x", "y"), SHARD("y"), SHARD("x")), VRAM_ERR_VALUE);
  TEXT(error.text, "a tensor that the index has elsewhere or not: y");
  EQUAL(shards(INDEX("x", "y"), SHARD("x"), NULL), VRAM_ERR_VALUE);
  TEXT(error.text, "a shard that the index names is missing: two");
  EQUAL(shards(INDEX("x", "y"), SHARD("x"), SHARD("z")), VRAM_ERR_VALUE);
  EQUAL(shards(INDEX("x", "x"), SHARD("x"), SHARD("x")), VRAM_ERR_NAME);
  EQUAL(shards("{\"weight_map\":{\"x\":\"one\",\"y\":\"one\"}}", SHARD("x"), NULL), VRAM_ERR_VALUE);
  TEXT(error.text, "an index of 2 tensors, of which there are 1");
  EQUAL(shards("{\"weight_map\":{\"x\":\"one\"}}", SHARD("x"), SHARD("y")), VRAM_ERR_VALUE);
  TEXT(error.text, "more shards than the index names");
  EQUAL(shards("{\"weight_map\":{\"x\":1}}", NULL, NULL), VRAM_ERR_SYNTAX);
  EQUAL(shards("{\"weight_map\":[]}", NULL, NULL), VRAM_ERR_SYNTAX);
  EQUAL(shards("{\"weight_map\":{},\"weight_map\":{}}", NULL, NULL), VRAM_ERR_NAME);
}

/* ---- JSON ---- */

/* Values, and whether Python's json.loads takes them (bytes that are no UTF-8: not as a text). */
static const struct json {
  const char *text;
  int is_sound;
} jsons[] = {
    {"1", 1},
    {"-0", 1},
    {"0", 1},
    {"1.5e+3", 1},
    {"1E400", 1},
    {"-1e-400", 1},
    {"123456789012345678901234567890", 1},
    {"NaN", 1},
    {"Infinity", 1},
    {"-Infinity", 1},
    {"-NaN", 0},
    {"01", 0},
    {"-", 0},
    {"+1", 0},
    {"1.", 0},
    {".5", 0},
    {"1e", 0},
    {"1e+", 0},
    {"0x1", 0},
    {"1 2", 0},
    {"--1", 0},
    {"1.e1", 0},
    {"-01", 0},
    {"Inf", 0},
    {"nan", 0},
    {"true", 1},
    {"null", 1},
    {"True", 0},
    {"tru", 0},
    {"truex", 0},
    {"nul", 0},
    {"[]", 1},
    {"[ ]", 1},
    {"[1,]", 0},
    {"[,1]", 0},
    {"[1 2]", 0},
    {"[1,,2]", 0},
    {"[", 0},
    {"[1", 0},
    {"]", 0},
    {"[}", 0},
    {"{}", 1},
    {"{\"b\":1,}", 0},
    {"{,}", 0},
    {"{\"b\"}", 0},
    {"{\"b\":}", 0},
    {"{b:1}", 0},
    {"{1:1}", 0},
    {"{\"b\" 1}", 0},
    {"{\"b\":1 \"c\":2}", 0},
    {"{'b':1}", 0},
    {"[[[[]]]]", 1},
    {"[1,\"a\",null]", 1},
    {"\"\"", 1},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", 1},
    {"\"\\u0041\"", 1},
    {"\"\\uD834\\uDD1E\"", 1},
    {"\"\\u00\"", 0},
    {"\"\\u00g0\"", 0},
    {"\"\\x41\"", 0},
    {"\"\\a\"", 0},
    {"\"\\\"", 0},
    {"\"a", 0},
    {"\"\n\"", 0},
    {"\"\t\"", 0},
    {"\"\177\"", 1},
    {"\"\303\251\"", 1},
    {"\"\360\235\204\236\"", 1},
    {"\"\300\200\"", 0},
    {"\"\355\240\200\"", 0},
    {"\"\364\220\200\200\"", 0},
    {"\"\303\"", 0},
    {"\"\200\"", 0},
    {"\"\377\"", 0},
    {"\"\340\200\200\"", 0},
    {"'a'", 0},
    {"\f1", 0},
    {"\302\2401", 0},
    {"1 // a", 0},
    {"/**/1", 0},
    {"", 0},
    {"1\r\n\t ", 1},
    {"1}", 0},
};

static void json(void) {
  char text[512];
  int i, by_ranges;
  for (i = 0; i < (int)(sizeof jsons / sizeof *jsons); i++)
    for (by_ranges = 0; by_ranges < 2; by_ranges++) {
      const int n = snprintf(text, sizeof text, "{\"a\":%s}", jsons[i].text);
      snprintf(test_where, sizeof test_where, "%.200s", text);
      EQUAL(read_one(text, (uint64_t)n, by_ranges, MEMORY) == VRAM_OK, jsons[i].is_sound);
    }
  *test_where = 0;
  for (i = 127; i <= 129; i++) { /* arrays: the object around them is one more */
    memcpy(text, "{\"a\":", 6);
    memset(text + 5, '[', (size_t)i);
    memset(text + 5 + i, ']', (size_t)i);
    text[5 + 2 * i] = '}';
    EQUAL(read_one(text, (uint64_t)(6 + 2 * i), 0, MEMORY) == VRAM_OK, i <= 127);
  }
  CHECK(read_one("{\"a\":\"\\uD800\"}", 14, 0, MEMORY) == VRAM_ERR_SYNTAX); /* half a letter */
  CHECK(read_one("{\"a\":1}\0\0", 9, 0, MEMORY) == VRAM_ERR_SYNTAX);        /* bytes 0 are no end */
  CHECK(read_one("{\"a\":1}\0{", 9, 1, MEMORY) == VRAM_ERR_SYNTAX);
  CHECK(read_one("{\"a\":\0001}", 8, 0, MEMORY) == VRAM_ERR_SYNTAX);
  CHECK(read_one("{\"a\":1,\"a\":2}", 13, 0, MEMORY) == VRAM_ERR_NAME);
}

#define CONFIG                                                                                     \
  "{\"a\": {\"b\": 7, \"c\": {\"d\": \"x\\u00e9\", \"e\": {}}}, \"n\": null, \"f\": -2.5,\n"       \
  "\"u\": [1, 18446744073709551614], \"i\": [1, -2], \"d\": [1, -2, 0.5], \"t\": [\"p\", \"qr\"]," \
  "\"o\": [true, false], \"m\": [1, \"a\"], \"l\": [1, {\"z\": [2]}], \"z\": [],"                  \
  "\"w\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]}"

static const vram_file_value *value(const char *name) {
  static const vram_file_value none;
  const vram_file_value *v = vram_file_get(&file, name, (uint32_t)strlen(name));
  return NEED(v) ? v : &none;
}

/* Of an array of so many elements of a kind. */
static const void *array(const char *name, int of, uint64_t count) {
  const vram_file_value *v = value(name);
  CHECK(v->kind == VRAM_VALUE_ARRAY && v->of == of && v->count == count);
  return v->array;
}

static void values(void) {
  const vram_file_text *t;
  const double *d;
  uint64_t i;
  EQUAL(read_one(CONFIG, sizeof CONFIG - 1, 1, MEMORY), VRAM_OK);
  EQUAL(file.nvalue, 13);
  CHECK(value("a.b")->kind == VRAM_VALUE_UINT && value("a.b")->number.u == 7);
  CHECK(value("a.c.d")->count == 3 && !memcmp(value("a.c.d")->text, "x\303\251", 3));
  CHECK(value("n")->kind == VRAM_VALUE_NULL && value("f")->number.f < -2.4);
  CHECK(((const uint64_t *)array("u", VRAM_VALUE_UINT, 2))[1] == UINT64_MAX - 1);
  CHECK(((const int64_t *)array("i", VRAM_VALUE_INT, 2))[1] == -2);
  d = (const double *)array("d", VRAM_VALUE_FLOAT, 3);
  CHECK(d[0] > 0.9 && d[1] < -1.9 && d[2] > 0.4 && d[2] < 0.6);
  t = (const vram_file_text *)array("t", VRAM_VALUE_TEXT, 2);
  CHECK(t[0].count == 1 && *t[0].text == 'p' && t[1].count == 2 && !memcmp(t[1].text, "qr", 2));
  CHECK(((const uint64_t *)array("o", VRAM_VALUE_BOOL, 2))[0] == 1);
  CHECK(!array("m", VRAM_VALUE_NULL, 2) && !array("l", VRAM_VALUE_NULL, 2));
  CHECK(!array("z", VRAM_VALUE_UINT, 0));
  CHECK(((const uint64_t *)array("w", VRAM_VALUE_UINT, 18))[17] == 18);
  for (i = 0; read_one(CONFIG, sizeof CONFIG - 1, 0, i) == VRAM_ERR_MEMORY; i++)
    ;
  CHECK(i > 1000 && i < 16384 && !read_one(CONFIG, sizeof CONFIG - 1, 0, i));
  for (i = 0; i < sizeof CONFIG - 1; i++)
    CHECK(read_one(CONFIG, i, 0, MEMORY) != VRAM_OK);
}

/* ---- models ---- */

static const struct model {
  const char *config;
  int64_t params, text_params, tensors, full, sliding, kv_bytes;
} models[] = {
#include "golden/hf_config.inc"
};

static vram_result configure(const char *text, vram_hf_config *c) {
  const vram_result r = read_one(text, strlen(text), 0, MEMORY);
  return r ? r : vram_hf_config_read(&file, c, &error);
}

/* The cache row by row is the cache as a whole. */
static void rows_agree(const vram_hf_config *c) {
  vram_kv_layer row[VRAM_HF_KV_ROWS];
  vram_kv_report r;
  vram_kv kv = {row, 0, 0, 0};
  kv.nlayer = vram_hf_kv_rows(c, c->dtype, row);
  EQUAL(vram_kv_bytes(&kv, 1000, 3, &r, &error), VRAM_OK);
  EQUAL(r.total_bytes, vram_hf_kv_cache_bytes(c, 1000, 3) + 3 * c->state_bytes);
  EQUAL(r.token_bytes, c->kv_bytes_per_token);
}

static void model(void) {
  vram_hf_config c;
  size_t i;
  for (i = 0; i < sizeof models / sizeof *models; i++) {
    const struct model *m = models + i;
    snprintf(test_where, sizeof test_where, "%.290s", m->config);
    if (!NEED(configure(m->config, &c) == VRAM_OK))
      continue;
    EQUAL(c.params, m->params);
    EQUAL(c.text_params, m->text_params);
    EQUAL(c.state_tensors, m->tensors);
    EQUAL(c.params_bytes, c.params * vram_dtype_get_info(c.dtype)->block_bytes);
    if (m->full >= 0)
      EQUAL(c.full_layers, m->full);
    if (m->sliding >= 0)
      EQUAL(c.sliding_layers, m->sliding);
    if (m->kv_bytes >= 0)
      EQUAL(c.kv_bytes_per_token, m->kv_bytes);
    EQUAL(c.full_layers + c.sliding_layers + c.state_layers + c.encoder_layers, c.layers);
    rows_agree(&c);
  }
  *test_where = 0;
}

/* States in bytes, as transformers keeps them. */
static void states(void) {
  static const struct {
    const char *config;
    int64_t bytes;
  } kept[] = {
#include "golden/hf_states.inc"
  };
  vram_hf_config c;
  size_t i;
  for (i = 0; i < sizeof kept / sizeof *kept; i++) {
    snprintf(test_where, sizeof test_where, "%.290s", kept[i].config);
    if (NEED(configure(kept[i].config, &c) == VRAM_OK))
      EQUAL(c.state_bytes, kept[i].bytes);
  }
  *test_where = 0;
}

/* What cannot be so is said; every bit of a sound file gives a model or an error. */
static void refused(void) {
  static const char sound[] =
      "{\"model_type\":\"qwen3\",\"num_hidden_layers\":4,\"sliding_window\":100,"
      "\"use_sliding_window\":true,\"max_window_layers\":1,\"torch_dtype\":\"bfloat16\","
      "\"quantization_config\":{\"quant_method\":\"gptq\"}}";
  char text[sizeof sound];
  vram_hf_config c;
  size_t i;
  EQUAL(configure(sound, &c), VRAM_OK);
  EQUAL(c.kv_bytes_per_token_layer, 2 * 32 * 128 * 2);
  EQUAL(vram_hf_kv_cache_bytes(&c, 50, 1), 4 * 50 * 16384);
  EQUAL(vram_hf_kv_cache_bytes(&c, 1000, 3), (1000 + 3 * 100) * 3 * 16384);
  EQUAL(vram_hf_kv_cache_bytes(&c, UINT64_MAX / 2, 2), VRAM_OVERFLOW);
  CHECK(c.quantised_len == 4 && !memcmp(c.quantised, "gptq", 4));
  for (i = 0; i < 8 * (sizeof sound - 1); i++) {
    memcpy(text, sound, sizeof sound);
    text[i / 8] = (char)(text[i / 8] ^ 1 << i % 8);
    if (strlen(text) == sizeof sound - 1 && configure(text, &c))
      CHECK(*error.text);
  }
  EQUAL(configure("{}", &c), VRAM_ERR_UNSUPPORTED);
  TEXT(error.text, "no config.json with a key model_type");
  EQUAL(configure("{\"model_type\":\"nothing\"}", &c), VRAM_ERR_UNSUPPORTED);
  TEXT(error.text, "no family that is known is model_type nothing");
  /* StableLmAttention with heads of 4: cosines of 2 on 1 number; transformers' keys are 5 wide */
  EQUAL(configure("{\"model_type\":\"stablelm\",\"hidden_size\":16,\"num_attention_heads\":4}", &c),
        VRAM_ERR_UNSUPPORTED);
  EQUAL(configure("{\"model_type\":\"stablelm\",\"hidden_size\":16,\"num_attention_heads\":4,"
                  "\"partial_rotary_factor\":0.5}",
                  &c),
        VRAM_OK);
  EQUAL(configure("{\"model_type\":\"llama\",\"architectures\":[\"LlamaModel\"]}", &c),
        VRAM_ERR_UNSUPPORTED);
  TEXT(error.text, "no class that is known of this family: LlamaModel");
  EQUAL(configure("{\"model_type\":\"llama\",\"hidden_size\":-1}", &c), VRAM_ERR_VALUE);
  TEXT(error.text, "no whole number is the key hidden_size");
  EQUAL(configure("{\"model_type\":\"llama\",\"num_attention_heads\":0}", &c), VRAM_ERR_VALUE);
  EQUAL(configure("{\"model_type\":\"llama\",\"num_hidden_layers\":9999}", &c), VRAM_ERR_VALUE);
  EQUAL(configure("{\"model_type\":\"llama\",\"dtype\":\"f\"}", &c), VRAM_ERR_DTYPE);
  EQUAL(configure("{\"model_type\":\"qwen3\",\"layer_types\":[1],\"use_sliding_window\":true}", &c),
        VRAM_ERR_VALUE);
  EQUAL(configure("{\"model_type\":\"llama\",\"hidden_size\":1073741824,"
                  "\"vocab_size\":1073741824}",
                  &c),
        VRAM_ERR_OVERFLOW);
}

/* ---- texts ---- */

static const struct written {
  const char *config;
  int64_t lines;
  uint64_t digest;
} written[] = {
#include "golden/hf_text.inc"
};

static char text_of[1 << 22];
static size_t text_len;

static int text_add(void *user, const char *bytes, size_t n) {
  (void)user;
  if (n > sizeof text_of - 1 - text_len)
    return 1;
  memcpy(text_of + text_len, bytes, n);
  text_len += n;
  text_of[text_len] = 0;
  return 0;
}

static vram_result write_image_text(const char *config, uint64_t height, uint64_t width,
                                    uint64_t tokens, uint64_t frames) {
  static char memory[VRAM_HF_WRITE_MEMORY];
  vram_hf_sizes sizes;
  vram_sink sink;
  vram_result r = read_one(config, strlen(config), 0, MEMORY);
  memset(&sizes, 0, sizeof sizes);
  sizes.tokens = tokens;
  sizes.height = height;
  sizes.width = width;
  sizes.frames = frames;
  sink.write = text_add;
  sink.user = NULL;
  text_len = 0;
  return r ? r : vram_hf_write(&file, &sizes, memory, sizeof memory, &sink, &error);
}

static vram_result write_text(const char *config, uint64_t tokens) {
  return write_image_text(config, 0, 0, tokens, 0);
}

enum { MAX_VALUES = 1 << 16 };
static struct {
  const char *name;
  size_t len;
} values_of[MAX_VALUES];
static size_t nvalues;

/* The place of a value among those that are defined; nvalues: it is none. */
static size_t value_of(const char *name, size_t len) {
  size_t i = nvalues;
  while (i-- > 0)
    if (values_of[i].len == len && !memcmp(values_of[i].name, name, len))
      return i;
  return nvalues;
}

static uint64_t digest_add(uint64_t h, const char *s, size_t n) {
  while (n-- > 0)
    h = (h ^ (uint8_t)*s++) * UINT64_C(0x100000001b3);
  return h;
}

/* Names divided by commas, or one behind a key. */
static uint64_t digest_names(uint64_t h, const char *s, size_t n) {
  while (n) {
    const char *comma = (const char *)memchr(s, ',', n);
    const size_t len = comma ? (size_t)(comma - s) : n, i = value_of(s, len);
    char number[24];
    if (i < nvalues)
      h = digest_add(h, number, (size_t)snprintf(number, sizeof number, "v%u", (unsigned)i));
    else
      h = digest_add(h, s, len);
    h = comma ? digest_add(h, ",", 1) : h;
    n -= len + (comma != NULL);
    s += len + (comma != NULL);
  }
  return h;
}

static uint64_t digest_word(uint64_t h, const char *s, size_t n) {
  const char *equal = (const char *)memchr(s, '=', n);
  const size_t key = equal ? (size_t)(equal - s) + 1 : 0;
  h = digest_add(h, s, key);
  if (key && value_of(s + key, n - key) == nvalues)
    return digest_add(h, s + key, n - key);
  return digest_names(h, s + key, n - key);
}

static void define(const char *s, size_t n) {
  while (n && nvalues < MAX_VALUES) {
    const char *comma = (const char *)memchr(s, ',', n);
    values_of[nvalues].name = s;
    values_of[nvalues].len = comma ? (size_t)(comma - s) : n;
    n -= values_of[nvalues].len + (comma != NULL);
    s += values_of[nvalues++].len + (comma != NULL);
  }
}

/* As tests/measured/hf_text.py has it: values by the order in which they are defined. */
static uint64_t digest_text(int64_t *lines) {
  const char *line = text_of;
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  *lines = 0;
  nvalues = 0;
  for (; *line; line += strcspn(line, "\n") + 1) {
    const char *const end = line + strcspn(line, "\n"), *word;
    const size_t op = strcspn(line, " \n");
    if (*line == '#' || !strncmp(line, "model ", 6) || !strncmp(line, "dim ", 4) ||
        !strncmp(line, "rules ", 6))
      continue;
    ++*lines;
    h = digest_add(h, line, op);
    if (strncmp(line, "drop ", 5) && strncmp(line, "order ", 6) && strncmp(line, "output ", 7) &&
        strncmp(line, "infer ", 6) && strncmp(line, "autocast ", 9))
      define(line + op + 1, strcspn(line + op + 1, " \n"));
    for (word = line + op; word < end;) {
      const size_t n = strcspn(++word, " \n");
      h = digest_word(digest_add(h, " ", 1), word, n);
      word += n;
    }
    h = digest_add(h, "\n", 1);
  }
  return h;
}

/* The lines that the exporter writes of the same file, and as many parameters as the file has. */
static void texts(void) {
  static char memory[1 << 24];
  vram_hf_config c;
  vram_graph g;
  size_t i;
  for (i = 0; i < sizeof written / sizeof *written; i++) {
    const struct written *t = written + i;
    int64_t lines;
    uint64_t params = 0;
    const vram_param *p;
    snprintf(test_where, sizeof test_where, "%.290s", t->config);
    if (!NEED(write_text(t->config, 128) == VRAM_OK))
      continue;
    CHECK(digest_text(&lines) == t->digest);
    EQUAL(lines, t->lines);
    if (!NEED(!vram_graph_init(&g, memory, sizeof memory) &&
              !vram_graph_parse(&g, text_of, text_len, NULL, 0, &error)))
      continue;
    for (p = g.param_first; p; p = p->next)
      params += p->kind == 2 ? 0 : (uint64_t)p->d->numel;
    EQUAL(configure(t->config, &c), VRAM_OK);
    EQUAL(params, c.text_params);
  }
  *test_where = 0;
}

static const struct image {
  const char *config;
  uint64_t height, width, tokens, frames;
  int64_t lines;
  uint64_t digest;
} images_of[] = {
#include "golden/diffusers_text.inc"
};

/* The same of classes of diffusers and their text encoders. */
static void images(void) {
  static char memory[1 << 22];
  vram_graph g;
  size_t i;
  for (i = 0; i < sizeof images_of / sizeof *images_of; i++) {
    const struct image *const t = images_of + i;
    int64_t lines;
    snprintf(test_where, sizeof test_where, "%.290s", t->config);
    if (!NEED(write_image_text(t->config, t->height, t->width, t->tokens, t->frames) == VRAM_OK))
      continue;
    CHECK(digest_text(&lines) == t->digest);
    EQUAL(lines, t->lines);
    EQUAL(vram_graph_init(&g, memory, sizeof memory), VRAM_OK);
    EQUAL(vram_graph_parse(&g, text_of, text_len, NULL, 0, &error), VRAM_OK);
  }
  *test_where = 0;
}

static void unwritten(void) {
  static char small[16];
  const vram_hf_sizes sizes = {0, 0, 0, VRAM_HF_NO_CACHE, 0, 0, 0, 0, 0};
  vram_sink sink = {text_add, NULL};
  EQUAL(write_text("{\"model_type\":\"codegen\"}", 0), VRAM_ERR_UNSUPPORTED);
  TEXT(error.text, "no lines of the text form are known of model_type codegen");
  EQUAL(write_text("{\"model_type\":\"mamba\"}", UINT64_C(1) << 40), VRAM_ERR_LIMIT);
  TEXT(error.text, "more than 4096 tokens (S), which a scan takes one by one: mamba");
  EQUAL(write_text("{\"model_type\":\"jamba\"}", 4097), VRAM_ERR_LIMIT);
  EQUAL(write_text("{\"model_type\":\"mamba\",\"num_hidden_layers\":257}", 0), VRAM_ERR_LIMIT);
  TEXT(error.text, "more than 1048576 rounds of scans, tokens (S) times layers: mamba");
  EQUAL(write_text("{\"model_type\":\"llama\",\"hidden_act\":\"tanh\"}", 0), VRAM_ERR_UNSUPPORTED);
  EQUAL(write_text("{\"model_type\":\"llama\",\"attention_dropout\":1.5}", 0), VRAM_ERR_VALUE);
  EQUAL(write_text("{\"model_type\":\"gpt2\",\"reorder_and_upcast_attn\":true}", 0),
        VRAM_ERR_UNSUPPORTED);
  EQUAL(write_text("{\"model_type\":\"phi3\",\"partial_rotary_factor\":0.01}", 0), VRAM_ERR_VALUE);
  EQUAL(write_text("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"dynamic\"}}", 0),
        VRAM_ERR_UNSUPPORTED);
  EQUAL(write_text("{\"model_type\":\"llama\",\"partial_rotary_factor\":0.5}", 0),
        VRAM_ERR_UNSUPPORTED);
  EQUAL(write_text("{\"model_type\":\"llama\",\"num_key_value_heads\":5}", 0), VRAM_ERR_VALUE);
  EQUAL(write_text("{\"model_type\":\"mixtral\",\"num_experts_per_tok\":9}", 0), VRAM_ERR_VALUE);
  EQUAL(write_text("{\"model_type\":\"mixtral\"}", 0), VRAM_OK);
  CHECK(strstr(text_of, "dim N=2 S=4096\n") != NULL);
  EQUAL(vram_hf_write(&file, &sizes, small, sizeof small, &sink, &error), VRAM_ERR_MEMORY);
  text_len = sizeof text_of - 100;
  {
    static char memory[VRAM_HF_WRITE_MEMORY];
    EQUAL(vram_hf_write(&file, &sizes, memory, sizeof memory, &sink, &error), VRAM_ERR_WRITE);
  }
}

int main(void) {
  broken();
  sound();
  shard();
  json();
  values();
  model();
  states();
  refused();
  texts();
  images();
  unwritten();
  return test_done("test_hf");
}
