/* TFLite: models of TensorFlow's converter by what LiteRT says of their tensors (MODEL.tflite with
   MODEL.txt beside it, tests/tflite_check.py), from memory and by ranges; of a small one every
   prefix, every byte changed, memory of every size. MODEL.pte: programs of ExecuTorch, alike. */
#include "../vram.h"
#include "test.h"

enum { MEMORY = 1 << 22 };

static vram_file file;
static vram_error error;
static char *data, *memory;
static uint64_t bytes;

static vram_result give(void *user, uint64_t offset, void *to, uint64_t n) {
  memcpy(to, (const char *)user + offset, (size_t)n);
  return VRAM_OK;
}

/* The first n bytes, in exactly as many. */
static vram_result read_model(uint64_t n, int by_ranges, uint64_t room) {
  char *exact = (char *)malloc(n ? (size_t)n : 1);
  vram_file_source s;
  vram_result r;
  if (!exact)
    abort();
  memcpy(exact, data, (size_t)n);
  memset(&s, 0, sizeof s);
  s.bytes = n;
  s.data = by_ranges ? NULL : exact;
  s.read = give;
  s.user = exact;
  vram_file_init(&file, memory, room);
  r = vram_file_read(&file, &s, &error);
  if (!r)
    r = vram_file_finish(&file, &error);
  free(exact);
  return r;
}

static char *load(const char *path, uint64_t *n) {
  FILE *const f = fopen(path, "rb");
  char *to;
  long end;
  if (!f || fseek(f, 0, SEEK_END) || (end = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
    abort();
  to = (char *)malloc((size_t)end + 1);
  if (!to || fread(to, 1, (size_t)end, f) != (size_t)end)
    abort();
  fclose(f);
  to[end] = 0;
  *n = (uint64_t)end;
  return to;
}

static void shape_text(char *to, size_t cap, const int64_t *size, uint32_t ndim) {
  size_t n = (size_t)snprintf(to, cap, "[");
  uint32_t i;
  for (i = 0; i < ndim; i++)
    n += (size_t)snprintf(to + n, cap - n, i ? ",%lld" : "%lld", (long long)size[i]);
  snprintf(to + n, cap - n, "]");
}

static const vram_file_operand *operand(const char *name) {
  const vram_file_operand *o = file.operand_first;
  while (o && (o->name_len != strlen(name) || memcmp(o->name, name, o->name_len) != 0))
    o = o->next;
  return o;
}

/* A line: bytes (0: no constant), dtype, shape, scales, name, with tabs between. */
static void line(char *text) {
  char *field[5], shape[200];
  int i;
  for (i = 0; i < 5; i++) {
    field[i] = text;
    text = strchr(text, '\t');
    if (!text)
      break;
    *text++ = 0;
  }
  if (i == 1) {
    EQUAL(file.tensor_bytes, strtoull(field[0], NULL, 10));
    return;
  }
  if (!NEED(i == 4))
    return;
  if (*field[0] != '0') {
    const vram_file_tensor *const t = vram_file_find(&file, field[4], (uint32_t)strlen(field[4]));
    if (!NEED(t))
      return;
    EQUAL(t->bytes, strtoull(field[0], NULL, 10));
    EQUAL(t->scales, strtoull(field[3], NULL, 10));
    TEXT(vram_dtype_name(t->dtype), field[1]);
    shape_text(shape, sizeof shape, t->size, t->ndim);
  } else {
    const vram_file_operand *const o = operand(field[4]);
    if (!NEED(o))
      return;
    EQUAL(o->scales, strtoull(field[3], NULL, 10));
    TEXT(vram_dtype_name(o->dtype), field[1]);
    shape_text(shape, sizeof shape, o->size, o->ndim);
  }
  TEXT(shape, field[2]);
}

static void sound(const char *path, int by_ranges) {
  char name[300], *golden, *at, *end;
  uint64_t n, lines = 0;
  snprintf(name, sizeof name, "%.*s.txt", (int)(strlen(path) - strlen(".tflite")), path);
  golden = load(name, &n);
  EQUAL(read_model(bytes, by_ranges, MEMORY), VRAM_OK);
  for (at = golden; (end = strchr(at, '\n')); at = end + 1, lines++) {
    *end = 0;
    line(at);
  }
  CHECK(lines > 5 && lines - 1 <= file.ntensor + file.noperand);
  free(golden);
}

static int count_text(void *user, const char *text, size_t n) {
  (void)text;
  *(size_t *)user += n;
  return 0;
}

/* The graph as text, in so much memory; 0: it cannot be, and the error says why. */
static size_t write_text(uint64_t room) {
  void *const mem = malloc((size_t)room);
  size_t n = 0;
  vram_sink sink;
  vram_result r;
  if (!mem)
    abort();
  sink.write = count_text;
  sink.user = &n;
  r = vram_graph_of_file(&file, NULL, 0, mem, room, &sink, &error);
  CHECK(r ? *error.text && !n : n > 0);
  free(mem);
  return n;
}

/* TensorFlow Lite Micro's arena in exactly the memory that it needs; 0: refused, the error says
   why. */
static uint64_t arena(vram_tflm_target target, vram_net_kernels kernels) {
  const uint64_t need = vram_tflm_bytes(&file);
  void *const mem = test_scratch(need);
  vram_tflm_options o;
  vram_tflm t;
  vram_result r;
  memset(&o, 0, sizeof o);
  o.target = target;
  o.kernels = target == VRAM_TFLM_PYTHON ? VRAM_KERNELS_NONE : kernels;
  if (target == VRAM_TFLM_32_ARM) { /* of an older version TFLM's own kernels alone */
    o.kernels = VRAM_KERNELS_NONE;
    o.version = VRAM_TFLM_2024_11;
  }
  r = vram_tflm_plan(&file, &o, mem, need, &t, &error);
  CHECK(r ? *error.text : t.arena_bytes >= t.used_bytes && t.used_bytes > t.tail_bytes);
  if (!r)
    EQUAL(t.tail_bytes, t.object_bytes + t.tensor_bytes + t.node_bytes + t.option_bytes +
                            t.kernel_bytes + t.handle_bytes + t.variable_bytes + t.end_bytes);
  free(mem);
  return r ? 0 : t.arena_bytes;
}

static void damaged(void) {
  uint64_t i, good = 0;
  for (i = 0; i < bytes; i++)
    if (i < 4 || read_model(i, 0, MEMORY))
      CHECK(i < 4 || *error.text);
    else
      good++; /* the last bytes are of a table that nothing refers to */
  CHECK(good < 64);
  for (good = 0, i = 0; i < 2 * bytes; i++) { /* another model, or none; never a crash */
    const char was = data[i / 2];
    data[i / 2] = (char)(i % 2 ? was ^ 1 << i / 2 % 7 : ~was);
    if (!read_model(bytes, 0, MEMORY)) {
      good += write_text(MEMORY / 4) != 0;
      arena((vram_tflm_target)(i % VRAM_TFLM_TARGET_COUNT),
            (vram_net_kernels)(i / 7 % VRAM_KERNELS_COUNT));
    } else
      CHECK(*error.text);
    data[i / 2] = was;
  }
  CHECK(good > 100);
  for (i = 0; read_model(bytes, 0, i) == VRAM_ERR_MEMORY; i += 8)
    ;
  CHECK(i > 2000 && i < MEMORY && !read_model(bytes, 0, i));
}

/* Little endian, anywhere in the file. */
static uint32_t number_at(uint64_t at, uint32_t size) {
  uint32_t v = 0, i;
  for (i = 0; i < size; i++)
    v |= (uint32_t)(unsigned char)data[at + i] << 8 * i;
  return v;
}

static void number_to(uint64_t at, uint32_t v) {
  uint32_t i;
  for (i = 0; i < 4; i++)
    data[at + i] = (char)(v >> 8 * i & 255);
}

/* Where the first input (field 1) or output (2) of the operator at `table` stands. */
static uint64_t index_of(uint64_t table, uint32_t field) {
  const uint64_t fields = table - (uint64_t)(int64_t)(int32_t)number_at(table, 4),
                 at = table + number_at(fields + 4 + 2 * (uint64_t)field, 2);
  return at + number_at(at, 4) + 4;
}

/* Each operator with indices that are none of a tensor. */
static void attacked(void) {
  static const uint32_t outside[] = {UINT32_C(0xfffffffe), UINT32_C(0x80000000), 0x7fffffff, 1000};
  uint64_t operators[16];
  const vram_file_node *n;
  uint32_t i, k, field, count = 0;
  EQUAL(read_model(bytes, 0, MEMORY), VRAM_OK);
  for (n = file.node_first; n && count < 16; n = n->next)
    operators[count++] = n->offset;
  CHECK(count > 3);
  for (i = 0; i < count; i++) {
    const uint64_t input = index_of(operators[i], 1), output = index_of(operators[i], 2);
    const uint32_t was = number_at(input, 4), gives = number_at(output, 4);
    snprintf(test_where, sizeof test_where, "CVE-2020-15211: operator %u", (unsigned)i);
    for (field = 1; field <= 2; field++)
      for (k = 0; k < sizeof outside / sizeof *outside; k++) {
        number_to(field == 1 ? input : output, outside[k]);
        EQUAL(read_model(bytes, 0, MEMORY), VRAM_ERR_VALUE);
        number_to(input, was);
        number_to(output, gives);
      }
    snprintf(test_where, sizeof test_where, "CVE-2020-15209: operator %u without its input",
             (unsigned)i);
    number_to(input, UINT32_C(0xffffffff));
    EQUAL(read_model(bytes, 0, MEMORY), VRAM_OK);
    write_text(UINT64_C(4) * MEMORY);
    arena(VRAM_TFLM_64, VRAM_KERNELS_MVE);
    snprintf(test_where, sizeof test_where, "CVE-2020-15210: operator %u of its own output",
             (unsigned)i);
    number_to(input, gives);
    EQUAL(read_model(bytes, 0, MEMORY), VRAM_OK);
    write_text(UINT64_C(4) * MEMORY);
    number_to(input, was);
  }
}

/* ---- programs of ExecuTorch, which are flatbuffers, too ---- */

static vram_executorch program;

static vram_result read_program(uint64_t n, int by_ranges, uint64_t room) {
  char *exact = (char *)malloc(n ? (size_t)n : 1);
  vram_file_source s;
  vram_result r;
  if (!exact)
    abort();
  memcpy(exact, data, (size_t)n);
  memset(&s, 0, sizeof s);
  s.bytes = n;
  s.data = by_ranges ? NULL : exact;
  s.read = give;
  s.user = exact;
  vram_file_init(&file, memory, room);
  r = vram_executorch_read(&file, &s, &program, &error);
  CHECK(r ? *error.text && error.has_offset && error.offset <= n
          : program.largest_bytes <= program.planned_bytes && program.file_bytes == n);
  free(exact);
  return r;
}

static void program_damaged(void) {
  const uint64_t last = bytes > 8 ? bytes - 8 : 0;
  uint64_t i, good = 0;
  for (i = 0; i < bytes; i++) /* the last bytes are padding */
    CHECK(read_program(i, i % 2 == 1, MEMORY) || i > last);
  for (i = 0; i < 2 * bytes; i++) {
    const char was = data[i / 2];
    data[i / 2] = (char)(i % 2 ? was ^ 1 << i / 2 % 7 : ~was);
    good += !read_program(bytes, 0, MEMORY);
    data[i / 2] = was;
  }
  CHECK(good > 100 && good < 2 * bytes - 100);
  for (i = 0; read_program(bytes, 0, i) == VRAM_ERR_MEMORY; i += 8)
    ;
  CHECK(i > 50 && i < MEMORY && !read_program(bytes, 0, i));
}

/* A number of so many bytes at `at` instead of what is there: refused with these words. */
static void program_with(uint64_t at, uint32_t n, uint32_t v, const char *words) {
  char was[4];
  uint32_t i;
  memcpy(was, data + at, 4);
  for (i = 0; i < n; i++)
    data[at + i] = (char)(v >> 8 * i & 255);
  CHECK(read_program(bytes, 0, MEMORY));
  CHECK(strstr(error.text, words) != NULL);
  memcpy(data + at, was, 4);
}

static void program_vtables(void) {
  const uint64_t root = number_at(0, 4), fields = root - (uint64_t)number_at(root, 4),
                 plans = root + number_at(fields + 4 + 2, 2), list = plans + number_at(plans, 4);
  program_with(0, 4, UINT32_C(0xfffffff0), "a table ends behind the file");
  program_with(root, 4, (uint32_t)root + 1, "a table whose vtable is before the file");
  program_with(root, 4, UINT32_C(0x80000001), "a vtable ends behind the file");
  program_with(fields, 2, 3, "a vtable of 3 bytes");
  program_with(fields, 2, 0xffff, "a vtable of 65535 bytes");
  program_with(fields, 2, 0xfffe, "a vtable ends behind the file");
  program_with(fields + 2, 2, 3, "of a table of 3");
  program_with(fields + 2, 2, 0xffff, "a table ends behind the file");
  program_with(fields + 4 + 2, 2, 0xfff0, "field 1 is outside of its table");
  program_with(fields + 4 + 2, 2, 3, "field 1 is outside of its table: at 3");
  program_with(plans, 4, UINT32_C(0xfffffff0), "a vector ends behind the file");
  program_with(list, 4, UINT32_C(0xffffffff), "a vector ends behind the file");
  program_with(list, 4, (uint32_t)(bytes / 4), "a vector ends behind the file");
  program_with(list + 4, 4, UINT32_C(0x7fffffff), "a table ends behind the file");
  program_with(4, 1, 'X', "no program of ExecuTorch");
}

/* What ExecuTorch says (tests/golden/executorch/known.txt). */
static void program_sound(int by_ranges) {
  const vram_executorch_plan *p;
  EQUAL(read_program(bytes, by_ranges, MEMORY), VRAM_OK);
  p = program.plan_first;
  CHECK(p && p->next && !p->next->next);
  EQUAL(p->memories, 1);
  EQUAL(p->memory_bytes[0], 1744);
  CHECK(p->name_len == 6 && !memcmp(p->name, "decode", 6));
  EQUAL(p->next->bytes, 1264);
  EQUAL(program.largest_bytes, 1744);
  EQUAL(program.constants_bytes, 3284);
}

static void executorch(const char *path) {
  snprintf(test_where, sizeof test_where, "%s", path);
  data = load(path, &bytes);
  if (strstr(path, "methods")) {
    program_sound(0);
    program_sound(1);
  } else {
    program_vtables();
    program_damaged();
  }
  free(data);
}

int main(int argc, char **argv) {
  int i;
  memory = (char *)malloc(MEMORY);
  if (!memory)
    abort();
  for (i = 1; i < argc; i++) {
    if (strstr(argv[i], ".pte")) {
      executorch(argv[i]);
      continue;
    }
    snprintf(test_where, sizeof test_where, "%s", argv[i]);
    data = load(argv[i], &bytes);
    sound(argv[i], 0);
    sound(argv[i], 1);
    CHECK(write_text(UINT64_C(4) * MEMORY) > 100);
    if (strstr(argv[i], "tiny")) {
      attacked();
      damaged();
    }
    free(data);
  }
  free(memory);
  return test_done("test_tflite");
}
