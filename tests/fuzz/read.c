/* Bytes -> the header of a file of a model, from memory and by ranges, in memory that the last byte
   chooses -> what llama.cpp allocates for it; an ONNX model's text is read.
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

static vram_result read_all(vram_file *f, void *memory, uint64_t bytes, const vram_file_source *s) {
  vram_error e;
  vram_result r;
  vram_file_init(f, memory, bytes);
  r = vram_file_read(f, s, &e);
  if (!r)
    r = vram_file_finish(f, &e);
  MUST(!r || (e.code == r && *e.text && (!e.has_offset || e.offset <= s->bytes)));
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

/* The text of a graph is one that the parser takes. */
static void convert(const vram_file *f, unsigned choice) {
  const vram_dim set[] = {{"seq", 4 + (choice & 7)}, {"h", 32}, {"w", 64}};
  const uint64_t bytes = choice & 64 ? (uint64_t)MEMORY : choice * UINT64_C(4096);
  void *memory = malloc((size_t)bytes + 1);
  vram_sink sink;
  vram_error e;
  vram_result r;
  text t = {NULL, 0};
  MUST(memory);
  sink.write = keep;
  sink.user = &t;
  r = vram_graph_of_file(f, choice & 8 ? set : set + 1,
                      choice & 8    ? 1
                      : choice & 16 ? 2
                                    : 0,
                      memory, bytes, &sink, &e);
  MUST(!r || (e.code == r && *e.text && !t.n));
  if (!r) {
    const uint64_t need = vram_graph_parse_bytes(t.bytes, t.n, NULL, 0);
    void *const mem = need && need < 1 << 26 ? malloc((size_t)need) : NULL;
    vram_graph g;
    if (mem) {
      vram_graph_init(&g, mem, need);
      MUST(!vram_graph_parse(&g, t.bytes, t.n, NULL, 0, &e));
    }
    free(mem);
  }
  free(t.bytes);
  free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const unsigned choice = size ? data[size - 1] : 0;
  const uint64_t small = choice & 64 ? (uint64_t)MEMORY : choice * UINT64_C(64);
  uint8_t *exact = (uint8_t *)malloc(size + !size), *memory = (uint8_t *)malloc(MEMORY);
  vram_file_source s = VRAM_ZERO_INIT, ranges = VRAM_ZERO_INIT;
  vram_file f;
  vram_result r, again;
  MUST(exact && memory);
  memcpy(exact, data, size);
  s.data = exact;
  s.bytes = ranges.bytes = size;
  ranges.read = give;
  ranges.user = &s;
  again = read_all(&f, memory, MEMORY, &ranges);
  r = read_all(&f, memory, small, &s);
  if (r == VRAM_ERR_MEMORY)
    r = read_all(&f, memory, MEMORY, &s);
  MUST(r == again || again == VRAM_ERR_MEMORY);
  if (!r) {
    check_file(&f);
    if (f.format == VRAM_FILE_GGUF)
      run(&f, choice);
    else if (f.format == VRAM_FILE_ONNX)
      convert(&f, choice);
  }
  free(memory);
  free(exact);
  return 0;
}
