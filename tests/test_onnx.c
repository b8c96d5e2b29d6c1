/* ONNX: a model that the package onnx made, by the values that onnx has for it; every prefix and
   every bit of it turned; memory of every size; messages written by hand that ask for too much. */
#include "../vram.h"
#include "test.h"

enum { MEMORY = 1 << 16 };

static vram_file file;
static vram_error error;

static const unsigned char small[] = {
#include "golden/onnx_small.inc"
};

/* The same bytes, a range at a time. */
static vram_result give(void *user, uint64_t offset, void *to, uint64_t bytes) {
  memcpy(to, (const char *)user + offset, (size_t)bytes);
  return VRAM_OK;
}

/* All of a model, in exactly as many bytes as it has. */
static vram_result read_model(const void *data, uint64_t bytes, int by_ranges, uint64_t memory) {
  static char *mem;
  char *exact = (char *)malloc(bytes ? (size_t)bytes : 1);
  vram_file_source s;
  vram_result r;
  if (!mem)
    mem = (char *)test_scratch((size_t)4 * MEMORY);
  if (!exact || !mem)
    abort();
  memcpy(exact, data, (size_t)bytes);
  memset(&s, 0, sizeof s);
  s.bytes = bytes;
  if (by_ranges) {
    s.read = give;
    s.user = exact;
  } else
    s.data = exact;
  vram_file_init(&file, mem, memory);
  r = vram_file_read(&file, &s, &error);
  if (!r)
    r = vram_file_finish(&file, &error);
  free(exact); /* nothing of it is used any more */
  return r;
}

/* ---- a sound model ---- */

static const struct expected {
  const char *name, *dtype;
  int ndim;
  uint64_t bytes;
  uint32_t part;
  int64_t first; /* of the integers that are kept; -9: none are */
} expected[] = {
    {"w", "f32", 4, 96, 0, -9}, {"b", "f32", 1, 8, 0, -9},  {"sh", "i64", 1, 16, 0, 0},
    {"sr", "i64", 1, 16, 0, 1}, {"h", "f16", 1, 6, 0, -9},  {"i4", "i4", 1, 2, 0, -9},
    {"c", "c64", 1, 8, 0, -9},  {"bl", "bool", 1, 2, 0, 1}, {"x_ext", "f32", 2, 64, 1, -9},
};

static void tensors(void) {
  const size_t n = sizeof expected / sizeof *expected;
  const vram_file_tensor *t = file.tensor_first;
  size_t i;
  EQUAL(file.ntensor, n);
  EQUAL(file.tensor_bytes, 218);
  EQUAL(file.numel, 55);
  for (i = 0; i < n && NEED(t); i++, t = t->next) {
    const struct expected *x = expected + i;
    CHECK(t->name_len == strlen(x->name) && !memcmp(t->name, x->name, t->name_len));
    TEXT(vram_dtype_name(t->dtype), x->dtype);
    EQUAL(t->ndim, x->ndim);
    EQUAL(t->bytes, x->bytes);
    EQUAL(t->part, x->part);
    EQUAL(t->ints ? t->ints[0] : -9, x->first);
  }
  t = vram_file_find(&file, "sr", 2);
  CHECK(t && t->ints && t->ints[1] == -1 && small[t->offset] == 1 && small[t->offset + 8] == 255);
  EQUAL(file.npart, 2);
  EQUAL(file.part_first->header_bytes, sizeof small - 96 - 16 - 16); /* raw: w, sr and a constant */
  CHECK(file.part_last->name_len == 13 && !memcmp(file.part_last->name, "d/weights.bin", 13));
  EQUAL(file.part_last->expected_bytes, 128); /* 64 bytes from 64 on */
}

static void sound(int by_ranges) {
  const vram_file_node *n;
  const vram_file_operand *o;
  const vram_file_value *v;
  EQUAL(read_model(small, sizeof small, by_ranges, MEMORY + VRAM_READ_WINDOW), VRAM_OK);
  tensors();
  EQUAL(file.nnode, 4);
  n = file.node_first;
  CHECK(n->op_len == 4 && !memcmp(n->op, "Conv", 4) && n->input->next->len == 1);
  CHECK(n->attribute->kind == VRAM_ATTRIBUTE_INTS && n->attribute->count == 4);
  CHECK(n->attribute->next->ints[1] == 2 && n->output->len == 2 && !n->output->next);
  n = n->next;
  CHECK(!n->input && n->attribute->kind == VRAM_ATTRIBUTE_TENSOR);
  CHECK(n->attribute->tensor->ints[1] == 8 && n->attribute->tensor->dtype == VRAM_I64);
  n = n->next;
  CHECK(n->attribute->kind == VRAM_ATTRIBUTE_FLOAT && n->attribute->f > 0.24f &&
        n->attribute->f < 0.26f);
  EQUAL(file.noperand, 3);
  o = file.operand_first;
  CHECK(o->role == VRAM_OPERAND_INPUT && o->ndim == 4 && o->size[0] == -1 && o->size[3] == 8);
  CHECK(o->symbol_len[0] == 5 && !memcmp(o->symbol[0], "batch", 5) && o->dtype == VRAM_F32);
  CHECK(o->next->role == VRAM_OPERAND_OUTPUT && o->next->size[1] == -1 && !o->next->symbol[1]);
  v = vram_file_get(&file, "opset_import.ai.onnx", 20);
  CHECK(v && v->number.i == 21 && file.version == 10);
}

/* ---- as text ---- */

static char text[1 << 16];
static size_t text_len;

static int keep(void *user, const char *bytes, size_t n) {
  (void)user;
  if (n > sizeof text - 1 - text_len)
    return 1;
  memcpy(text + text_len, bytes, n);
  text_len += n;
  text[text_len] = 0;
  return 0;
}

/* The text of the model that was read, in so many bytes exactly. */
static vram_result write_text(const vram_dim *set, uint32_t nset, uint64_t memory) {
  void *const mem = malloc(memory ? (size_t)memory : 1);
  vram_sink sink;
  vram_result r;
  if (!mem)
    abort();
  sink.write = keep;
  sink.user = NULL;
  text_len = 0;
  *text = 0;
  r = vram_graph_of_file(&file, set, nset, mem, memory, &sink, &error);
  free(mem);
  return r;
}

enum { TEXT_MEMORY = 1 << 20 };

static int refuse(void *user, const char *bytes, size_t n) {
  (void)user, (void)bytes, (void)n;
  return 1;
}

/* A model of three layers, from the package's own writer (tests/golden/onnx). */
static void as_text(void) {
  const vram_dim batch = {"batch", 7}, first = {NULL, 5}, unknown = {"x", 1}, negative = {NULL, -1};
  vram_sink sink;
  char *mem;
  uint64_t i;
  EQUAL(read_model(small, sizeof small, 0, MEMORY), VRAM_OK);
  EQUAL(write_text(&batch, 1, TEXT_MEMORY), VRAM_OK);
  CHECK(strstr(text, "dim batch=7\n") != NULL);
  CHECK(strstr(text, "[batch,") != NULL && strstr(text, "conv2d ") != NULL);
  EQUAL(write_text(&first, 1, TEXT_MEMORY), VRAM_OK);
  CHECK(strstr(text, "dim batch=5\n") != NULL);
  EQUAL(write_text(NULL, 0, TEXT_MEMORY), VRAM_OK);
  CHECK(strstr(text, "# batch is 1: the file leaves it open\n") != NULL);
  EQUAL(write_text(&unknown, 1, TEXT_MEMORY), VRAM_ERR_NAME);
  CHECK(write_text(&negative, 1, TEXT_MEMORY) != VRAM_OK && *error.text && !text_len);
  for (i = 0; write_text(NULL, 0, i) == VRAM_ERR_MEMORY; i += 509)
    CHECK(!text_len);
  CHECK(i < TEXT_MEMORY && strstr(text, "output ") != NULL);
  mem = (char *)malloc(TEXT_MEMORY);
  if (!mem)
    abort();
  sink.write = refuse;
  sink.user = NULL;
  EQUAL(vram_graph_of_file(&file, NULL, 0, mem, TEXT_MEMORY, &sink, NULL), VRAM_ERR_WRITE);
  free(mem);
}

/* ---- damaged ---- */

static void damaged(void) {
  static unsigned char data[sizeof small];
  uint64_t i, good = 0;
  memcpy(data, small, sizeof small);
  for (i = 0; i < sizeof small; i++)
    CHECK(read_model(small, i, 0, MEMORY) != VRAM_OK);
  for (i = 0; i < 8 * sizeof small; i++) { /* another model, or none; never a crash */
    data[i / 8] = (unsigned char)(data[i / 8] ^ 1 << i % 8);
    if (!read_model(data, sizeof data, 0, MEMORY)) {
      good++;
      CHECK(!write_text(NULL, 0, TEXT_MEMORY) || (*error.text && !text_len));
      CHECK(file.part_first->expected_bytes == sizeof data);
    } else
      CHECK(*error.text);
    data[i / 8] = (unsigned char)(data[i / 8] ^ 1 << i % 8);
  }
  CHECK(good > 100); /* letters of names and values of tensors */
  for (i = 0; read_model(small, sizeof small, 0, i) == VRAM_ERR_MEMORY; i++)
    ;
  CHECK(i > 2000 && i < MEMORY && !read_model(small, sizeof small, 0, i));
}

/* ---- by hand ---- */

/* Messages are written from the inside: tag, length, and what is there already. */
typedef struct message {
  unsigned char b[4096];
  size_t n;
} message;

static void put_varint(message *m, uint64_t v) {
  for (; v > 127; v >>= 7)
    m->b[m->n++] = (unsigned char)((v & 127) | 128);
  m->b[m->n++] = (unsigned char)v;
}

static void put_number(message *m, unsigned number, uint64_t v) {
  put_varint(m, number << 3);
  put_varint(m, v);
}

static void put_bytes(message *m, unsigned number, const void *bytes, size_t n) {
  put_varint(m, number << 3 | 2);
  put_varint(m, n);
  memcpy(m->b + m->n, bytes, n);
  m->n += n;
}

static void put_text(message *m, unsigned number, const char *word) {
  put_bytes(m, number, word, strlen(word));
}

/* A model with a graph of one field. */
static vram_result read_graph(unsigned number, const message *field) {
  static message graph, model, opset;
  graph.n = model.n = opset.n = 0;
  put_bytes(&graph, number, field->b, field->n);
  put_number(&opset, 2, 21);
  put_number(&model, 1, 10);
  put_bytes(&model, 7, graph.b, graph.n);
  put_bytes(&model, 8, opset.b, opset.n);
  return read_model(model.b, model.n, 0, MEMORY);
}

/* An initializer of f32 with these sizes and so many bytes of data. */
static vram_result read_sizes(const uint64_t *size, size_t n, size_t bytes) {
  static const char zeros[64] = {0};
  static message t;
  size_t i;
  t.n = 0;
  for (i = 0; i < n; i++)
    put_number(&t, 1, size[i]);
  put_number(&t, 2, 1);
  put_text(&t, 8, "w");
  put_bytes(&t, 9, zeros, bytes);
  return read_graph(5, &t);
}

static void sizes(void) {
  static const uint64_t fits[] = {2, 3}, negative[] = {2, UINT64_MAX},
                        large[] = {UINT64_C(1) << 32, UINT64_C(1) << 32},
                        wraps[] = {UINT64_C(1) << 62, 4}, many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  EQUAL(read_sizes(fits, 2, 24), VRAM_OK);
  EQUAL(read_sizes(fits, 2, 23), VRAM_ERR_VALUE); /* a shape larger than its data */
  TEXT(error.text, "tensor 'w' has other data than its shape: bytes 23, expected 24");
  EQUAL(read_sizes(fits, 2, 25), VRAM_ERR_VALUE);
  EQUAL(read_sizes(fits, 0, 4), VRAM_OK);
  EQUAL(read_sizes(negative, 2, 0), VRAM_ERR_VALUE);
  EQUAL(read_sizes(large, 2, 0), VRAM_ERR_OVERFLOW);
  EQUAL(read_sizes(wraps, 2, 0), VRAM_ERR_OVERFLOW);
  EQUAL(read_sizes(wraps, 1, 0), VRAM_ERR_OVERFLOW); /* 2^64 bytes */
  EQUAL(read_sizes(many, 8, 4), VRAM_OK);
  EQUAL(read_sizes(many, 9, 4), VRAM_ERR_UNSUPPORTED);
}

/* An external initializer of four floats; NULL: no such entry. */
static vram_result read_external(const char *location, const char *offset, const char *length) {
  const char *key[] = {"location", "offset", "length"}, *value[3];
  static message t, entry;
  int i;
  value[0] = location;
  value[1] = offset;
  value[2] = length;
  t.n = 0;
  put_number(&t, 1, 4);
  put_number(&t, 2, 1);
  put_text(&t, 8, "w");
  put_number(&t, 14, 1);
  for (i = 0; i < 3; i++)
    if (value[i]) {
      entry.n = 0;
      put_text(&entry, 1, key[i]);
      put_text(&entry, 2, value[i]);
      put_bytes(&t, 13, entry.b, entry.n);
    }
  return read_graph(5, &t);
}

static void external(void) {
  static const char *const outside[] = {"",     "/etc/passwd", "..",  "../w", "a/../../w",
                                        "a/..", "a\\..\\w",    "C:w", "a/",   "/"};
  size_t i;
  EQUAL(read_external("w", NULL, NULL), VRAM_OK);
  EQUAL(file.tensor_first->part, 1);
  EQUAL(read_external("a/b..c/..w", "4096", "16"), VRAM_OK);
  EQUAL(file.part_last->expected_bytes, 4112);
  for (i = 0; i < sizeof outside / sizeof *outside; i++) {
    snprintf(test_where, sizeof test_where, "CVE-2022-25882, CVE-2024-27318: %s", outside[i]);
    EQUAL(read_external(outside[i], NULL, NULL), VRAM_ERR_VALUE);
  }
  *test_where = 0;
  EQUAL(read_external(NULL, NULL, NULL), VRAM_ERR_VALUE);
  EQUAL(read_external("w", "0", "15"), VRAM_ERR_VALUE);
  EQUAL(read_external("w", "-1", NULL), VRAM_ERR_VALUE);
  EQUAL(read_external("w", "18446744073709551615", NULL), VRAM_ERR_VALUE);
}

static void messages(void) {
  static message m;
  int i;
  m.n = 0; /* a group, and a number of eleven bytes, where unknown fields stand */
  put_varint(&m, 100 << 3 | 3);
  EQUAL(read_graph(1, &m), VRAM_ERR_SYNTAX);
  TEXT(error.text, "a field of wire type 3");
  m.n = 0;
  put_varint(&m, 100 << 3);
  for (i = 0; i < 10; i++)
    m.b[m.n++] = 0x80;
  m.b[m.n++] = 0;
  EQUAL(read_graph(1, &m), VRAM_ERR_SYNTAX);
  TEXT(error.text, "a number of more than ten bytes");
  m.n = 0; /* a length that would wrap */
  put_varint(&m, 3 << 3 | 2);
  put_varint(&m, UINT64_MAX);
  EQUAL(read_graph(1, &m), VRAM_ERR_SYNTAX);
  m.n = 0; /* field number 0 */
  put_number(&m, 0, 1);
  EQUAL(read_graph(1, &m), VRAM_ERR_SYNTAX);
  m.n = 0; /* unknown fields of every kind are skipped */
  put_text(&m, 4, "Relu");
  put_number(&m, 100, UINT64_MAX);
  put_text(&m, 101, "more");
  put_varint(&m, 102 << 3 | 5);
  m.n += 4;
  put_varint(&m, 103 << 3 | 1);
  m.n += 8;
  EQUAL(read_graph(1, &m), VRAM_OK);
  EQUAL(file.nnode, 1);
  m.n = 0;
  EQUAL(read_graph(1, &m), VRAM_ERR_VALUE); /* a node without an op */
  EQUAL(read_graph(15, &m), VRAM_ERR_UNSUPPORTED);
  EQUAL(read_graph(5, &m), VRAM_ERR_DTYPE);
}

int main(void) {
  sound(0);
  sound(1);
  as_text();
  damaged();
  sizes();
  external();
  messages();
  return test_done("test_onnx");
}
