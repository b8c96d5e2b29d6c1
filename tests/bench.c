/* Speed and working memory of parser and step, medians: make bench
   usage: bench MODEL.vram [bf16|replay]  one training step with AdamW, in microseconds; replay: a
                                     run through the caching allocator
          bench chain NODES loop|text   linear and relu in turn, from a loop or written out, in
                                        nanoseconds a node
          bench fit MODEL.vram          the largest batch of AdamW for 80 GiB, in milliseconds
          bench pool LIVE torch|best    a pool with so many blocks handed out: a random one goes,
                                        one of another size comes; nanoseconds a pair
          bench ledger LIVE counts|all  so many allocations of 1,000 call sites: a random one goes,
                                        another comes; nanoseconds an event. all: log and trace, too
          bench schedule STAGES SLOTS   the cheapest schedule of stages of all sizes in 60 % of the
                                        bytes that they take when nothing is computed twice
          bench files FOLDER            writes large.gguf, the golden header with 150,000 words in
                                        it, and an index of 1,000 shards with their headers
          bench read FILE               a header by ranges; of an index that file alone
   Prints: nodes, parse, step, bytes of graph a node, bytes of scratch a node; fit: values tried,
   milliseconds; pool: nanoseconds, segments from the device meanwhile; ledger: nanoseconds;
   schedule: milliseconds, MiB of scratch, percent that recomputing adds; read: milliseconds, bytes
   of the file, bytes of memory. */
#define _POSIX_C_SOURCE 199309L
#define VRAM_IMPLEMENTATION
#define VRAM_STATIC
#include "../vram.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* other processes do not count */
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void *take(uint64_t bytes) {
  void *p = bytes && bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  if (!p) {
    fprintf(stderr, "bench: no memory\n");
    exit(1);
  }
  return p;
}

static char *file(const char *path, size_t *len) {
  size_t cap = (size_t)1 << 24;
  char *text = (char *)take(cap);
  FILE *f = fopen(path, "rb");
  if (!f) {
    fprintf(stderr, "bench: cannot read %s\n", path);
    exit(1);
  }
  *len = fread(text, 1, cap, f);
  fclose(f);
  return text;
}

static char *chain(unsigned long nodes, int loop, size_t *len) {
  size_t cap = (size_t)256 + (loop ? 0 : (size_t)nodes * 40);
  char *text = (char *)take(cap);
  unsigned long i;
  size_t n = (size_t)snprintf(text, cap, "input x f32 [8,16]\n");
  if (loop)
    n += (size_t)snprintf(text + n, cap - n,
                          "loop %lu h=x\nlinear f h out_features=16\nrelu r f\nnext h=r\n"
                          "mean loss h\n",
                          nodes / 2);
  else {
    for (i = 0; i < nodes / 2; i++)
      n +=
          (size_t)snprintf(text + n, cap - n, "linear f%lu %s%lu out_features=16\nrelu r%lu f%lu\n",
                           i, i ? "r" : "x", i ? i - 1 : 0, i, i);
    /* the input has no number */
    if (nodes >= 2) {
      char *at = strstr(text, "f0 x0") + 4;
      memmove(at, at + 1, (size_t)(text + n - at));
      n--;
    }
    n += (size_t)snprintf(text + n, cap - n, "mean loss r%lu\n", nodes / 2 - 1);
  }
  *len = n;
  return text;
}

static void *heap_alloc(void *user, uint64_t bytes) {
  (void)user;
  return take(bytes);
}
static void heap_free(void *user, void *memory, uint64_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

/* As in a process of its own: nothing is kept from one search to the next. */
static int fit(const char *path) {
  static const vram_allocator heap = {heap_alloc, heap_free, NULL};
  vram_pool_options pool = VRAM_ZERO_INIT;
  vram_solve_options o;
  vram_solution s;
  vram_error e;
  double spent[21];
  size_t len;
  char *text = file(path, &len);
  int i;
  memset(&o, 0, sizeof o);
  o.budget_bytes = UINT64_C(80) << 30;
  o.step.train = 1;
  o.step.optimizer = VRAM_OPTIM_adamw;
  o.step.replay = &pool;
  for (i = 0; i < 21; i++) {
    double t = now();
    if (vram_solve(text, len, &o, &heap, &s, &e)) {
      fprintf(stderr, "bench: %s: %s\n", path, e.text);
      return 1;
    }
    spent[i] = now() - t;
  }
  qsort(spent, 21, sizeof *spent, by_value);
  printf("%" PRIu32 " %.3f\n", s.tried, spent[10] / 1e3);
  free(text);
  return 0;
}

static uint64_t device_next = UINT64_C(0x200000000000);
static uint64_t device_alloc(void *user, uint64_t bytes, uint64_t stream) {
  const uint64_t at = device_next;
  (void)user, (void)stream;
  device_next += bytes;
  return at;
}
static void device_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  (void)user, (void)address, (void)bytes, (void)stream;
}

static uint64_t random_state = UINT64_C(88172645463325252);
static uint64_t random_next(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

/* 512 bytes to 64 MiB, each doubling as often as the next */
static uint64_t random_size(void) {
  const uint64_t at = UINT64_C(512) << random_next() % 17;
  return at + random_next() % at;
}

/* What shared/nullgpu/bench_alloc.cpp asks of PyTorch's allocator. */
static int pool(uint32_t live, int best) {
  enum { ROUNDS = 400000, TIMES = 5 };
  vram_pool_options o;
  vram_backend b;
  vram_pool p;
  vram_error e;
  uint64_t bytes = vram_pool_bytes(live * 2 + 1000, 1), *at = (uint64_t *)take(live * UINT64_C(8));
  uint64_t *size = (uint64_t *)take(ROUNDS * UINT64_C(8)), calls = 0;
  uint32_t *which = (uint32_t *)take(ROUNDS * UINT64_C(4));
  void *mem = take(bytes);
  double spent[TIMES];
  uint32_t i;
  int round;
  memset(&o, 0, sizeof o);
  memset(&b, 0, sizeof b);
  o.streams = 1;
  o.policy = best ? VRAM_POOL_BEST : VRAM_POOL_TORCH;
  b.alloc = device_alloc;
  b.free = device_free;
  if (vram_pool_init(&p, &o, &b, mem, bytes, &e)) {
    fprintf(stderr, "bench: %s\n", e.text);
    exit(1);
  }
  for (i = 0; i < live; i++)
    vram_pool_alloc(&p, random_size(), 0, at + i);
  for (round = -(int)(live / 50000) - 1; round < TIMES; round++) { /* the first ones settle it */
    double t;
    for (i = 0; i < ROUNDS; i++) {
      which[i] = (uint32_t)((random_next() >> 32) * live >> 32);
      size[i] = random_size();
    }
    if (round == 0)
      calls = p.stats.num_device_alloc;
    t = now();
    for (i = 0; i < ROUNDS; i++) {
      vram_pool_free(&p, at[which[i]]);
      vram_pool_alloc(&p, size[i], 0, at + which[i]);
    }
    if (round >= 0)
      spent[round] = now() - t;
  }
  qsort(spent, TIMES, sizeof *spent, by_value);
  printf("%.1f %" PRIu64 "\n", spent[TIMES / 2] * 1e3 / ROUNDS, p.stats.num_device_alloc - calls);
  free(mem);
  free(which);
  free(size);
  free(at);
  return 0;
}

/* What a tracker does: it looks up the call site and counts; it takes out before the free. */
static int ledger(uint32_t live, int all) {
  enum { ROUNDS = 400000, TIMES = 5, SITES = 1000 };
  static const char file[] = "bench.c", function[] = "ledger";
  vram_ledger_options o;
  vram_ledger l;
  vram_event e;
  uint64_t *at = (uint64_t *)take(live * UINT64_C(8)), bytes;
  uint64_t *next = (uint64_t *)take(ROUNDS * UINT64_C(8));
  uint32_t *which = (uint32_t *)take(ROUNDS * UINT64_C(4)), i;
  double spent[TIMES];
  void *mem;
  int round;
  memset(&o, 0, sizeof o);
  memset(&e, 0, sizeof e);
  o.live = live;
  o.owners = SITES;
  if (all)
    o.trace = 100000, o.groups = live;
  bytes = vram_ledger_bytes(&o);
  mem = take(bytes);
  if (vram_ledger_init(&l, &o, mem, bytes, NULL))
    exit(2);
  for (i = 0; i < live; i++) {
    e.address = at[i] = random_next() % (UINT64_C(1) << 38) * 512 + 512;
    e.bytes = random_size();
    vram_ledger_event(&l, &e);
  }
  for (round = -1; round < TIMES; round++) {
    double t;
    for (i = 0; i < ROUNDS; i++) {
      which[i] = (uint32_t)(random_next() % live);
      next[i] = random_next() % (UINT64_C(1) << 38) * 512 + 512;
    }
    t = now();
    for (i = 0; i < ROUNDS; i++) {
      vram_allocation was;
      vram_ledger_take(&l, at[which[i]], &was);
      e.address = at[which[i]] = next[i];
      e.bytes = (next[i] >> 20 & 0xffff) * 512;
      e.owner = vram_ledger_owner(&l, file, (uint32_t)(next[i] >> 9) % SITES, function, NULL);
      vram_ledger_event(&l, &e);
    }
    if (round >= 0)
      spent[round] = now() - t;
  }
  qsort(spent, TIMES, sizeof *spent, by_value);
  printf("%.1f\n", spent[TIMES / 2] * 1e3 / (2 * ROUNDS));
  free(mem);
  free(which);
  free(next);
  free(at);
  return 0;
}

static int schedule(uint32_t stages, uint32_t slots) {
  enum { TIMES = 5 };
  vram_stage *stage = (vram_stage *)take(stages * (uint64_t)sizeof *stage);
  vram_way *way = (vram_way *)take(stages * (uint64_t)sizeof *way);
  vram_schedule_options o;
  vram_schedule s;
  vram_chain c;
  vram_error e;
  double spent[TIMES];
  uint64_t bytes, least;
  void *mem;
  uint32_t i;
  memset(stage, 0, stages * sizeof *stage);
  memset(way, 0, stages * sizeof *way);
  memset(&c, 0, sizeof c);
  memset(&o, 0, sizeof o);
  for (i = 0; i < stages; i++) {
    const uint64_t out = i + 1 < stages ? random_size() : 0;
    stage[i].way = way + i;
    stage[i].nway = 1;
    stage[i].output_bytes = out;
    stage[i].forward_cost = way[i].forward_cost = 1000000 + random_next() % 9000000;
    way[i].backward_cost = 2 * way[i].forward_cost;
    way[i].saved_bytes = out + (out ? random_next() % (3 * out) : 0);
    way[i].backward_temp_bytes = random_next() % (out + 1);
  }
  c.stage = stage;
  c.nstage = stages;
  c.input_bytes = random_size();
  o.planner = VRAM_PLANNER_PLAIN;
  bytes = vram_schedule_bytes(&c, &o);
  mem = take(bytes);
  if (vram_schedule_plan(&c, &o, mem, bytes, &s, &e)) {
    fprintf(stderr, "bench: %s\n", e.text);
    exit(1);
  }
  free(mem);
  least = s.cost;
  o.planner = VRAM_PLANNER_OPTIMAL;
  o.budget_bytes = s.peak_bytes / 5 * 3;
  o.slots = slots;
  bytes = vram_schedule_bytes(&c, &o);
  mem = take(bytes);
  memset(mem, 0, (size_t)bytes); /* the pages are there */
  for (i = 0; i < TIMES; i++) {
    const double t = now();
    if (vram_schedule_plan(&c, &o, mem, bytes, &s, &e) || !s.feasible) {
      fprintf(stderr, "bench: %s\n", e.text);
      exit(1);
    }
    spent[i] = now() - t;
  }
  free(mem);
  qsort(spent, TIMES, sizeof *spent, by_value);
  printf("%.2f %.1f %.2f\n", spent[TIMES / 2] / 1e3, (double)bytes / 1048576,
         (double)(s.cost - least) * 100 / (double)least);
  free(way);
  free(stage);
  return 0;
}

/* ---- files of models ---- */

static FILE *file_create(const char *folder, const char *name) {
  char path[600];
  FILE *f;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  f = fopen(path, "wb");
  if (!f) {
    fprintf(stderr, "bench: cannot write %s\n", path);
    exit(1);
  }
  return f;
}

static void put(FILE *f, uint64_t n, int bytes) { /* little endian */
  for (; bytes; bytes--, n >>= 8)
    fputc((int)(n & 255), f);
}

/* A key and the head of an array: type 5 is i32, 6 f32, 8 texts. */
static void put_array(FILE *f, const char *key, uint32_t type, uint64_t count) {
  put(f, strlen(key), 8);
  fputs(key, f);
  put(f, 9, 4);
  put(f, type, 4);
  put(f, count, 8);
}

static void put_words(FILE *f, const char *key, uint32_t count, uint32_t least, uint32_t more) {
  put_array(f, key, 8, count);
  for (; count; count--) {
    uint64_t letters = random_next();
    uint32_t n = least + (uint32_t)(random_next() % more);
    put(f, n, 8);
    for (; n; n--, letters = letters << 5 | letters >> 59)
      fputc('a' + (int)(letters % 26), f);
  }
}

/* The golden header with what a tokenizer of 150,000 words has in front of its keys. */
static void write_gguf(const char *folder) {
  enum { WORDS = 150000 };
  static const char golden[] = "tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf";
  size_t len;
  char *header = file(golden, &len);
  FILE *f = file_create(folder, "large.gguf");
  uint32_t i;
  header[16] = (char)(header[16] + 4); /* keys */
  fwrite(header, 1, 24, f);
  put_words(f, "tokenizer.ggml.tokens", WORDS, 1, 14);
  put_array(f, "tokenizer.ggml.scores", 6, WORDS);
  for (i = 0; i < WORDS; i++)
    put(f, 0xC0000000 + i, 4);
  put_array(f, "tokenizer.ggml.token_type", 5, WORDS);
  for (i = 0; i < WORDS; i++)
    put(f, 1, 4);
  put_words(f, "tokenizer.ggml.merges", 2 * WORDS, 5, 18);
  fwrite(header + 24, 1, len - 24, f);
  fclose(f);
  free(header);
}

/* An index of 1,000 shards with twelve tensors each, and their headers without data. */
static void write_shards(const char *folder) {
  enum { SHARDS = 1000 };
  static const char *const part[] = {"input_layernorm",  "post_attention_layernorm",
                                     "self_attn.q_proj", "self_attn.k_proj",
                                     "self_attn.v_proj", "self_attn.o_proj",
                                     "self_attn.q_norm", "self_attn.k_norm",
                                     "mlp.gate_proj",    "mlp.up_proj",
                                     "mlp.down_proj",    "mlp.router"};
  enum { PARTS = sizeof part / sizeof *part };
  FILE *index = file_create(folder, "model.safetensors.index.json");
  int i, k;
  fprintf(index, "{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n  \"weight_map\": {",
          SHARDS * PARTS * 512);
  for (i = 0; i < SHARDS; i++) {
    static char text[PARTS * 160];
    char name[64];
    size_t n = 0;
    FILE *f;
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i + 1, SHARDS);
    for (k = 0; k < PARTS; k++) {
      fprintf(index, "%s\n    \"model.layers.%d.%s.weight\": \"%s\"", i || k ? "," : "", i, part[k],
              name);
      n += (size_t)snprintf(text + n, sizeof text - n,
                            "%s\"model.layers.%d.%s.weight\":{\"dtype\":\"BF16\",\"shape\":[16,16],"
                            "\"data_offsets\":[%d,%d]}",
                            k ? "," : "{", i, part[k], 512 * k, 512 * k + 512);
    }
    f = file_create(folder, name);
    put(f, n + 1, 8);
    fwrite(text, 1, n, f);
    fputc('}', f);
    fclose(f);
  }
  fputs("\n  }\n}\n", index);
  fclose(index);
}

static vram_result read_range(void *user, uint64_t offset, void *to, uint64_t bytes) {
  FILE *const f = (FILE *)user;
  return fseek(f, (long)offset, SEEK_SET) || fread(to, 1, (size_t)bytes, f) != bytes ? VRAM_ERR_CALL
                                                                                     : VRAM_OK;
}

static int read_file(const char *path) {
  enum { TIMES = 21, MEMORY = 1 << 24 };
  FILE *f = fopen(path, "rb");
  void *mem = take(MEMORY);
  vram_file_source s = VRAM_ZERO_INIT;
  vram_file model;
  vram_error e;
  double spent[TIMES];
  int i;
  if (!f || fseek(f, 0, SEEK_END)) {
    fprintf(stderr, "bench: cannot read %s\n", path);
    exit(1);
  }
  setvbuf(f, NULL, _IONBF, 0);
  s.bytes = (uint64_t)ftell(f);
  s.read = read_range;
  s.user = f;
  for (i = 0; i < TIMES; i++) {
    const double t = now();
    vram_file_init(&model, mem, MEMORY);
    if (vram_file_read(&model, &s, &e)) {
      fprintf(stderr, "bench: %s: %s\n", path, e.text);
      exit(1);
    }
    spent[i] = now() - t;
  }
  qsort(spent, TIMES, sizeof *spent, by_value);
  printf("%.3f %" PRIu64 " %" PRIu64 "\n", spent[TIMES / 2] / 1e3, s.bytes, model.used);
  fclose(f);
  free(mem);
  return 0;
}

int main(int argc, char **argv) {
  int is_chain = argc > 3 && !strcmp(argv[1], "chain"), rounds = is_chain ? 5 : 201, i;
  double parse[201], step[201], per = 1.0;
  size_t len;
  char *text;
  uint64_t need, want;
  void *mem, *scratch;
  vram_graph g;
  vram_error e;
  vram_report r;
  vram_step_options o;
  vram_pool_options torch = VRAM_ZERO_INIT;
  uint32_t live;
  if (argc < 2)
    return 2;
  if (argc > 2 && !strcmp(argv[1], "fit"))
    return fit(argv[2]);
  if (argc > 2 && !strcmp(argv[1], "files")) {
    write_gguf(argv[2]);
    write_shards(argv[2]);
    return 0;
  }
  if (argc > 2 && !strcmp(argv[1], "read"))
    return read_file(argv[2]);
  live = argc > 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
  if (argc > 3 && !strcmp(argv[1], "pool"))
    return live ? pool(live, argv[3][0] == 'b') : 2;
  if (argc > 3 && !strcmp(argv[1], "ledger"))
    return live ? ledger(live, argv[3][0] == 'a') : 2;
  if (argc > 3 && !strcmp(argv[1], "schedule"))
    return live ? schedule(live, (uint32_t)strtoul(argv[3], NULL, 10)) : 2;
  text =
      is_chain ? chain(strtoul(argv[2], NULL, 10), argv[3][0] == 'l', &len) : file(argv[1], &len);
  memset(&o, 0, sizeof o);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  o.amp = argc == 3 && argv[2][0] == 'b' ? VRAM_BF16 : VRAM_DTYPE_NONE;
  o.replay = argc == 3 && argv[2][0] == 'r' ? &torch : NULL;
  need = vram_graph_parse_bytes(text, len, NULL, 0);
  mem = take(need);
  for (i = 0; i < rounds; i++) {
    double t = now();
    vram_graph_init(&g, mem, need);
    if (vram_graph_parse(&g, text, len, NULL, 0, &e)) {
      fprintf(stderr, "bench: %" PRIu32 ": %s\n", e.line, e.text);
      return 1;
    }
    parse[i] = now() - t;
  }
  want = vram_step_bytes(&g, &o);
  scratch = take(want);
  for (i = 0; i < rounds; i++) {
    double t = now();
    if (vram_step(&g, &o, scratch, want, &r, &e)) {
      fprintf(stderr, "bench: %s\n", e.text);
      return 1;
    }
    step[i] = now() - t;
  }
  qsort(parse, (size_t)rounds, sizeof *parse, by_value);
  qsort(step, (size_t)rounds, sizeof *step, by_value);
  if (is_chain)
    per = g.nnode / 1e3;
  printf("%" PRIu32 " %.2f %.2f %.0f %.0f\n", g.nnode, parse[rounds / 2] / per,
         step[rounds / 2] / per, (double)g.used / g.nnode, (double)r.scratch_used / g.nnode);
  free(scratch);
  free(mem);
  free(text);
  return 0;
}
