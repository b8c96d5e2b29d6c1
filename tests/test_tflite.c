/* TFLite: models of TensorFlow's converter by what LiteRT says of their tensors (MODEL.tflite with
   MODEL.txt beside it, tests/tflite_check.py), from memory and by ranges; of a small one every
   prefix, every byte changed, memory of every size. */
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
    if (!read_model(bytes, 0, MEMORY))
      good++;
    else
      CHECK(*error.text);
    data[i / 2] = was;
  }
  CHECK(good > 100);
  for (i = 0; read_model(bytes, 0, i) == VRAM_ERR_MEMORY; i += 8)
    ;
  CHECK(i > 2000 && i < MEMORY && !read_model(bytes, 0, i));
}

int main(int argc, char **argv) {
  int i;
  memory = (char *)malloc(MEMORY);
  if (!memory)
    abort();
  for (i = 1; i < argc; i++) {
    snprintf(test_where, sizeof test_where, "%s", argv[i]);
    data = load(argv[i], &bytes);
    sound(argv[i], 0);
    sound(argv[i], 1);
    if (strstr(argv[i], "tiny"))
      damaged();
    free(data);
  }
  free(memory);
  return test_done("test_tflite");
}
