/* Bytes -> the header of a file of a model, from memory and by ranges, in memory that the last byte
   chooses -> what llama.cpp allocates for it; the text of an ONNX model, of a config.json is read.
   Behind an index and a byte 0 comes a shard, once for each that the index names.
   FUZZ_FORMAT=gguf, safetensors, ..., executorch: inputs of other formats are no part of the
   corpus.
   clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/read.c \
     build/fuzz/tool.a -ldl -o build/fuzz-read */
#include "../../vram.h"

#include "fuzz.h"

enum { MEMORY = 1 << 22 };

static vram_result give(void *user, uint64_t offset, void *to, uint64_t bytes) {
  const vram_file_source *all = (const vram_file_source *)user;
  MUST(offset <= all->bytes && bytes <= all->bytes - offset);
  memcpy(to, (const uint8_t *)all->data + offset, (size_t)bytes);
  return VRAM_OK;
}

/* What stands behind an index and a byte 0, which *size then does not count; else nothing. */
static vram_file_source shard_of(const uint8_t *data, size_t *size) {
  const uint8_t *const end = (const uint8_t *)memchr(data, 0, *size);
  vram_file_source index = VRAM_ZERO_INIT, shard = VRAM_ZERO_INIT;
  shard.data = data;
  if (!end)
    return shard;
  index.data = data;
  index.bytes = (uint64_t)(end - data);
  if (vram_file_sniff(&index) == VRAM_FILE_INDEX) {
    shard.data = end + 1;
    shard.bytes = *size - index.bytes - 1;
    *size = (size_t)index.bytes;
  }
  return shard;
}

static vram_result read_all(vram_file *f, void *memory, uint64_t bytes, const vram_file_source *s,
                            const vram_file_source *shard) {
  vram_error e;
  vram_result r;
  const vram_file_part *p;
  vram_file_init(f, memory, bytes);
  r = vram_file_read(f, s, &e);
  for (p = f->part_first; !r && f->index && shard->bytes && p; p = p->next)
    r = vram_file_read(f, shard, &e);
  if (!r)
    r = vram_file_finish(f, &e);
  MUST(!r || (e.code == r && *e.text &&
              (!e.has_offset || e.offset <= s->bytes || e.offset <= shard->bytes)));
  return r;
}

static void check_file(const vram_file *f) {
  const vram_file_tensor *t;
  const vram_file_value *v;
  uint64_t n = 0, bytes = 0;
  for (t = f->tensor_first; t; t = t->next, n++) {
    bytes += t->bytes;
    MUST(t->ndim <= VRAM_MAX_AXES && t->part < f->npart);
    MUST(vram_file_find(f, t->name, t->name_len) == t);
  }
  MUST(n == f->ntensor && bytes >= f->tensor_bytes); /* TFLite's tensors may share a buffer */
  MUST(bytes == f->tensor_bytes || f->format == VRAM_FILE_TFLITE);
  for (n = 0, v = f->value_first; v; v = v->next)
    n++;
  MUST(n == f->nvalue);
}

static void run(const vram_file *f, unsigned choice) {
  vram_llama_options o = VRAM_ZERO_INIT;
  vram_llama_report r;
  vram_error e;
  void *memory = malloc((size_t)VRAM_LLAMA_MEMORY);
  MUST(memory);
  o.n_ctx = choice & 1 ? 4096 : 0;
  o.slots = choice & 2 ? 4 : 1;
  o.devices = choice & 4 ? 2 : 1;
  o.is_cpu = (choice & 8) != 0;
  o.swa_full = (choice & 16) != 0;
  o.cache_k = o.cache_v = choice & 32 ? VRAM_Q8_0 : VRAM_F16;
  if (!vram_llama(f, &o, memory, VRAM_LLAMA_MEMORY, &r, &e)) {
    uint64_t sum = r.host_bytes;
    uint32_t i;
    for (i = 0; i < r.ndevice; i++)
      sum += r.device_bytes[i];
    MUST(sum == r.total_bytes && r.nbuffer <= VRAM_LLAMA_MAX_BUFFERS);
  } else
    MUST(*e.text);
  free(memory);
}

typedef struct text {
  char *bytes;
  size_t n;
} text;

static int keep(void *user, const char *bytes, size_t n) {
  text *const t = (text *)user;
  t->bytes = (char *)realloc(t->bytes, t->n + n + 1);
  MUST(t->bytes);
  memcpy(t->bytes + t->n, bytes, n);
  t->n += n;
  return 0;
}

/* The text of a graph or of a decoder is one that the parser takes. */
static void convert(const vram_file *f, unsigned choice) {
  const vram_dim set[] = {{"seq", 4 + (choice & 7)}, {"h", 32}, {"w", 64}};
  vram_hf_sizes sizes = VRAM_ZERO_INIT;
  const uint64_t bytes = choice & 64 ? (uint64_t)MEMORY : choice * UINT64_C(4096);
  const int is_config = f->format == VRAM_FILE_CONFIG;
  void *memory = malloc((size_t)bytes + 1);
  vram_sink sink;
  vram_error e;
  vram_result r;
  text t = {NULL, 0};
  MUST(memory);
  sizes.batch = choice & 3;
  sizes.tokens = choice & 8 ? 0 : UINT64_C(1) << (choice & 31);
  sink.write = keep;
  sink.user = &t;
  if (is_config)
    r = vram_hf_write(f, &sizes, memory, bytes, &sink, &e);
  else
    r = vram_graph_of_file(f, choice & 8 ? set : set + 1,
                           choice & 8    ? 1
                           : choice & 16 ? 2
                                         : 0,
                           memory, bytes, &sink, &e);
  MUST(!r || (e.code == r && *e.text && (is_config || !t.n)));
  if (!r) {
    const uint64_t need = vram_graph_parse_bytes(t.bytes, t.n, NULL, 0);
    void *const mem = need && need < 1 << 26 ? malloc((size_t)need) : NULL;
    vram_graph g;
    if (mem) {
      vram_graph_init(&g, mem, need);
      r = vram_graph_parse(&g, t.bytes, t.n, NULL, 0, &e);
      MUST(!r || (is_config && *e.text)); /* sizes of a configuration may be too large */
    }
    free(mem);
  }
  free(t.bytes);
  free(memory);
}

/* What a config.json says agrees with itself. */
static void describe(const vram_file *f, unsigned choice) {
  vram_hf_config c;
  vram_kv_layer row[VRAM_HF_KV_ROWS];
  vram_error e;
  const vram_result r = vram_hf_config_read(f, &c, &e);
  MUST(!r || (e.code == r && *e.text));
  if (r)
    return;
  MUST(c.text_params <= c.params && c.full_layers + c.sliding_layers + c.state_layers >= c.layers);
  MUST(vram_hf_kv_rows(&c, c.dtype, row) <= VRAM_HF_KV_ROWS);
  MUST(vram_hf_kv_cache_bytes(&c, 1 + choice, 1) <= vram_hf_kv_cache_bytes(&c, 2 + choice, 2));
}

/* A program of ExecuTorch, which is no file of a model's tensors. */
static int is_program(const uint8_t *data, size_t size) {
  return size >= 8 && !memcmp(data + 4, "ET12", 4);
}

static void read_program(const vram_file_source *s, void *memory, uint64_t bytes) {
  const vram_executorch_plan *p;
  vram_executorch program;
  vram_file f;
  vram_error e;
  vram_result r;
  uint64_t i, sum = 0;
  vram_file_init(&f, memory, bytes);
  r = vram_executorch_read(&f, s, &program, &e);
  MUST(!r || (e.code == r && *e.text && (!e.has_offset || e.offset <= s->bytes)));
  for (p = r ? NULL : program.plan_first; p; p = p->next)
    for (i = 0; i < p->memories; i++)
      sum += p->memory_bytes[i];
  MUST(r || (sum == program.planned_bytes && program.constants_bytes <= INT64_MAX));
}

/* The format that the corpus is of; VRAM_FILE_NONE: all of them. */
static vram_file_format format_wanted(const char *name) {
  int i = VRAM_FILE_NONE;
  if (name)
    for (i++; i < VRAM_FILE_COUNT && strcmp(vram_file_format_name((vram_file_format)i), name);)
      i++;
  MUST(i < VRAM_FILE_COUNT);
  return (vram_file_format)i;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *const name = getenv("FUZZ_FORMAT");
  const int programs = name && !strcmp(name, "executorch");
  const vram_file_format only = programs ? VRAM_FILE_NONE : format_wanted(name);
  const unsigned choice = size ? data[size - 1] : 0;
  const uint64_t small = choice & 64 ? (uint64_t)MEMORY : choice * UINT64_C(64);
  uint8_t *exact = (uint8_t *)malloc(size + !size), *memory = (uint8_t *)malloc(MEMORY);
  vram_file_source s = VRAM_ZERO_INIT, ranges = VRAM_ZERO_INIT, shard;
  vram_file f;
  vram_result r = VRAM_OK, again;
  int is_other;
  MUST(exact && memory);
  memcpy(exact, data, size);
  shard = shard_of(exact, &size);
  s.data = exact;
  s.bytes = ranges.bytes = size;
  ranges.read = give;
  ranges.user = &s;
  if (is_program(exact, size) && !only) {
    read_program(&s, memory, small);
    read_program(&ranges, memory, MEMORY);
  }
  is_other = programs ? !is_program(exact, size) : only && vram_file_sniff(&s) != only;
  if (!is_other) {
    again = read_all(&f, memory, MEMORY, &ranges, &shard);
    r = read_all(&f, memory, small, &s, &shard);
    if (r == VRAM_ERR_MEMORY)
      r = read_all(&f, memory, MEMORY, &s, &shard);
    MUST(r == again || again == VRAM_ERR_MEMORY);
  }
  if (!is_other && !r) {
    check_file(&f);
    if (f.format == VRAM_FILE_GGUF)
      run(&f, choice);
    else if (f.format == VRAM_FILE_ONNX || f.format == VRAM_FILE_TFLITE ||
             f.format == VRAM_FILE_CONFIG)
      convert(&f, choice);
    if (f.format == VRAM_FILE_CONFIG)
      describe(&f, choice);
  }
  free(memory);
  free(exact);
  return is_other ? -1 : 0;
}
