/* GGUF files, sound and broken, with ggml's verdicts; every length and every damaged byte of a
   sound one, memory of every size, a source that fails; what parsers of GGUF were attacked with.
   usage: test_read [FOLDER of more files, with verdicts.json and ../index.json] */
#include "../vram.h"
#include "test.h"

enum { MEMORY = 1 << 22, LONGEST = 1 << 17 };

static vram_file file;
static vram_error error;
static char *mem;

/* ---- reading ---- */

typedef struct counted { /* a source that fails at some call */
  const char *data;
  uint64_t bytes;
  long left; /* calls that succeed; -1: all */
} counted;

static vram_result give(void *user, uint64_t offset, void *to, uint64_t bytes) {
  counted *const c = (counted *)user;
  CHECK(offset <= c->bytes && bytes <= c->bytes - offset);
  if (c->left >= 0 && c->left-- == 0)
    return VRAM_ERR_CALL;
  memcpy(to, c->data + offset, (size_t)bytes);
  return VRAM_OK;
}

/* The file alone, a part of more or not, from exactly as many bytes as it has. */
static vram_result read_one(const char *data, uint64_t bytes, int by_ranges, uint64_t memory) {
  char *exact = (char *)malloc(bytes ? (size_t)bytes : 1);
  vram_file_source s;
  counted c;
  vram_result r;
  if (!exact)
    abort();
  memcpy(exact, data, (size_t)bytes);
  memset(&s, 0, sizeof s);
  s.bytes = c.bytes = bytes;
  c.data = exact;
  c.left = -1;
  if (by_ranges) {
    s.read = give;
    s.user = &c;
  } else
    s.data = exact;
  vram_file_init(&file, mem, memory);
  r = vram_file_read(&file, &s, &error);
  file.split_count = 0;
  if (!r)
    r = vram_file_finish(&file, &error);
  free(exact); /* nothing of it is used any more */
  return r;
}

/* What is said of a file that was read agrees with itself. */
static void check_sums(uint64_t bytes) {
  const vram_file_tensor *t;
  const vram_file_part *const p = file.part_first;
  uint64_t n = 0, sum = 0, numel = 0;
  for (t = file.tensor_first; t; t = t->next, n++) {
    sum += t->bytes;
    numel += t->numel;
    CHECK(t->offset >= p->header_bytes && t->bytes <= p->expected_bytes - t->offset);
  }
  CHECK(n == file.ntensor && n == p->ntensor && sum == file.tensor_bytes && numel == file.numel);
  CHECK(p->expected_bytes >= p->header_bytes && p->present_bytes == bytes);
}

/* ---- verdicts ---- */

static const struct verdict {
  const char *name;
  int is_taken;
  uint64_t bytes, version, keys, tensors, alignment, data;
  const char *content;
} verdicts[] = {
#include "golden/gguf.inc"
};
enum { VERDICTS = sizeof verdicts / sizeof *verdicts };

static char content[LONGEST];

/* The bytes of a verdict's file. */
static void unpack(const struct verdict *v) {
  const char *s = v->content;
  uint64_t n = 0;
  while (*s && n < LONGEST) {
    const char two[3] = {s[0], s[1], 0};
    const char byte = (char)strtoul(two, NULL, 16);
    unsigned long times = 1;
    s += 2;
    if (*s == '*') {
      char *end;
      times = strtoul(s + 1, &end, 10);
      s = end + 1;
    }
    for (; times && n < LONGEST; times--)
      content[n++] = byte;
  }
  EQUAL(n, v->bytes);
}

static const struct verdict *verdict_of(const char *name) {
  size_t i = 0;
  while (i < VERDICTS && strcmp(verdicts[i].name, name) != 0)
    i++;
  if (i == VERDICTS) {
    FAIL("no such file among the verdicts");
    exit(1);
  }
  unpack(verdicts + i);
  return verdicts + i;
}

static void check_verdict(const struct verdict *v, const char *data) {
  int by_ranges;
  if (strstr(v->name, "split-00002")) /* ggml's reader knows no parts; see splits() */
    return;
  snprintf(test_where, sizeof test_where, "%s", v->name);
  for (by_ranges = 0; by_ranges < 2; by_ranges++) {
    /* what is refused is refused before memory is taken because a file claims much */
    const uint64_t memory = v->is_taken ? (uint64_t)MEMORY : VRAM_READ_WINDOW + 65536;
    const vram_result r = read_one(data, v->bytes, by_ranges, memory);
    EQUAL(r == VRAM_OK, v->is_taken);
    CHECK(r != VRAM_ERR_MEMORY);
    if (r) {
      CHECK(error.code == r && *error.text && (!error.has_offset || error.offset <= v->bytes));
      continue;
    }
    EQUAL(file.version, v->version);
    EQUAL(file.nvalue, v->keys);
    EQUAL(file.ntensor, v->tensors);
    EQUAL(file.alignment, v->alignment);
    EQUAL(file.part_first->header_bytes, v->data);
    check_sums(v->bytes);
  }
  *test_where = 0;
}

static void all_verdicts(void) {
  size_t i;
  for (i = 0; i < VERDICTS; i++) {
    unpack(verdicts + i);
    check_verdict(verdicts + i, content);
  }
}

/* The second part of a model follows the first, and the first does not stand alone. */
static void splits(void) {
  const char *const name[2] = {"split-00001-of-00002", "split-00002-of-00002"};
  vram_file_source s;
  uint64_t tensors = 0;
  int i;
  memset(&s, 0, sizeof s);
  vram_file_init(&file, mem, MEMORY);
  for (i = 0; i < 2; i++) {
    const struct verdict *v = verdict_of(name[i]);
    s.data = content;
    s.bytes = v->bytes;
    EQUAL(vram_file_read(&file, &s, &error), VRAM_OK);
    EQUAL(vram_file_finish(&file, &error), i ? VRAM_OK : VRAM_ERR_VALUE);
    tensors += v->tensors;
    EQUAL(file.part_last->header_bytes, v->data);
  }
  EQUAL(file.ntensor, tensors);
  EQUAL(read_one(content, s.bytes, 0, MEMORY), VRAM_ERR_SYNTAX);
}

/* ---- every length, every byte, every size of memory, every call ---- */

static void lengths(const char *name) {
  const struct verdict *v = verdict_of(name);
  uint64_t n, first = 0;
  int by_ranges;
  snprintf(test_where, sizeof test_where, "%s cut off", name);
  for (by_ranges = 0; by_ranges < 2; by_ranges++)
    for (n = 0; n <= v->bytes; n++) {
      const vram_result r = read_one(content, n, by_ranges, MEMORY);
      if (r) {
        CHECK(!first && r != VRAM_ERR_MEMORY && (!error.has_offset || error.offset <= n));
        continue;
      }
      if (!first) { /* the table is whole; what may be missing is padding and data */
        CHECK(n <= v->data && v->data - n < v->alignment);
        first = n;
      }
      EQUAL(file.ntensor, v->tensors);
      check_sums(n);
      if (n == v->bytes)
        first = 0;
    }
  *test_where = 0;
}

static void flips(const char *name) {
  static const unsigned char masks[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
  const struct verdict *v = verdict_of(name);
  uint64_t i;
  size_t k;
  unsigned long taken = 0;
  for (i = 0; i < v->data; i++)
    for (k = 0; k < sizeof masks; k++) {
      const char was = content[i];
      content[i] = (char)(was ^ (char)masks[k]);
      snprintf(test_where, sizeof test_where, "%s, byte %lu ^ %d", name, (unsigned long)i,
               masks[k]);
      if (!read_one(content, v->bytes, (int)(k & 1), MEMORY)) {
        taken++;
        if (file.format == VRAM_FILE_GGUF)
          check_sums(v->bytes);
      }
      content[i] = was;
    }
  CHECK(taken > 0); /* names and values may be others */
  *test_where = 0;
}

static void memories(const char *name) {
  const struct verdict *v = verdict_of(name);
  int by_ranges;
  snprintf(test_where, sizeof test_where, "%s, memory", name);
  for (by_ranges = 0; by_ranges < 2; by_ranges++) {
    uint64_t n = by_ranges ? VRAM_READ_WINDOW - 64 : 0;
    while (read_one(content, v->bytes, by_ranges, n) == VRAM_ERR_MEMORY)
      n++;
    CHECK(n > 300 && n < VRAM_READ_WINDOW + 16384);
    EQUAL(read_one(content, v->bytes, by_ranges, n), VRAM_OK);
    EQUAL(file.ntensor, v->tensors);
    EQUAL(read_one(content, v->bytes, by_ranges, n + 8), VRAM_OK);
  }
  *test_where = 0;
}

/* A header of several windows, from a source whose call number n fails. */
static void calls(void) {
  vram_file_source s;
  counted c;
  long n;
  uint64_t bytes = 24;
  uint32_t i;
  vram_result r = VRAM_ERR_CALL;
  memset(content, 0, sizeof content);
  memcpy(content, "GGUF\3", 6);
  content[16] = 100; /* keys of 1,000 bytes of text each */
  for (i = 0; i < 100; i++) {
    content[bytes] = 2;
    content[bytes + 8] = (char)('a' + i / 10);
    content[bytes + 9] = (char)('0' + i % 10);
    content[bytes + 10] = 8;
    content[bytes + 14] = (char)(1000 & 255);
    content[bytes + 15] = 1000 >> 8;
    bytes += 22 + 1000;
  }
  memset(&s, 0, sizeof s);
  s.bytes = c.bytes = bytes;
  c.data = content;
  s.read = give;
  s.user = &c;
  for (n = 0; n < 20 && r; n++) {
    c.left = n;
    vram_file_init(&file, mem, MEMORY);
    r = vram_file_read(&file, &s, &error);
    CHECK(!r || r == (n ? VRAM_ERR_CALL : VRAM_ERR_UNSUPPORTED)); /* 0: not even what it is */
  }
  CHECK(!r && n > 3);
  EQUAL(file.nvalue, 100);
  s.read = NULL; /* neither data nor a function */
  vram_file_init(&file, mem, MEMORY);
  CHECK(vram_file_read(&file, &s, &error));
}

/* ---- what parsers were attacked with ---- */

/* Little-endian numbers one behind the other in `content`. */
static uint64_t put_at;
static void put(uint64_t n, int bytes) {
  for (; bytes; bytes--, n >>= 8)
    content[put_at++] = (char)(unsigned char)(n & 255);
}
static void put_text(const char *s) {
  put(strlen(s), 8);
  while (*s)
    content[put_at++] = *s++;
}
static void put_head(uint64_t tensors, uint64_t keys) {
  put_at = 0;
  memset(content, 0, sizeof content);
  put(0x46554747, 4);
  put(3, 4);
  put(tensors, 8);
  put(keys, 8);
}

/* Refused in little memory, both ways, whatever stands behind. */
static void refused(const char *what) {
  int by_ranges;
  snprintf(test_where, sizeof test_where, "%s", what);
  for (by_ranges = 0; by_ranges < 2; by_ranges++) {
    const vram_result r = read_one(content, put_at, by_ranges, VRAM_READ_WINDOW + 65536);
    CHECK(r && r != VRAM_ERR_MEMORY && *error.text);
  }
  *test_where = 0;
}

static void attacks(void) {
  /* the class of a hole, and the files that try it */
  static const struct {
    const char *cve, *file;
  } rows[] = {{"CVE-2024-21802: product of sizes", "bad_ne_overflow"},
              {"CVE-2024-21802: product of sizes", "bad_ne_overflow4"},
              {"CVE-2024-21802: bytes of a type", "bad_ne_mul_wrap_bytes"},
              {"CVE-2024-21825: array of texts", "bad_arr_str_huge"},
              {"CVE-2024-21825: size of an element", "bad_arr_type"},
              {"CVE-2024-21836: number of tensors", "bad_ntensors_huge"},
              {"CVE-2024-21836, CVE-2026-27940: times a size", "bad_ntensors_wrap"},
              {"CVE-2024-23496: length of a text plus 1", "bad_key_len_maxu64"},
              {"CVE-2024-23496: length of a text", "bad_str_len_huge"},
              {"CVE-2024-23605: number of keys", "bad_nkv_huge"},
              {"CVE-2024-23605: negative", "bad_nkv_neg"},
              {"CVE-2024-32878: ends in a key", "bad_trunc_40"},
              {"CVE-2024-41130: ends in a tensor", "bad_trunc_100"},
              {"CVE-2024-39720: ends behind the magic", "bad_magic_only"},
              {"CVE-2024-12886, CVE-2025-0315: array of any length", "bad_arr_len_huge"},
              {"CVE-2025-0312: no such type", "bad_type_200"},
              {"CVE-2025-0317: alignment 0", "bad_align0"}};
  size_t i;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct verdict *v = verdict_of(rows[i].file);
    EQUAL(v->is_taken, 0);
    put_at = v->bytes;
    refused(rows[i].cve);
  }
  put_head(0, 1); /* a word of a vocabulary whose length is negative as int32 */
  put_text("tokenizer.ggml.tokens");
  put(9, 4);
  put(8, 4);
  put(2, 8);
  put_text("a");
  put(0x80000010, 8);
  put_at += 64;
  refused("CVE-2025-49847: length of a word");
  put_head(9, 0); /* each may be, all of them are more than 2^64 bytes */
  for (i = 0; i < 9; i++) {
    char name[2] = "a";
    name[0] = (char)('a' + i);
    put_text(name);
    put(1, 4);
    put((uint64_t)1 << 61, 8);
    put(24, 4); /* i8 */
    put((uint64_t)i << 61, 8);
  }
  refused("CVE-2025-53630, CVE-2026-27940: sum of tensors");
  put_head(0, 1); /* arrays in arrays */
  put_text("k");
  put(9, 4);
  for (i = 0; i < 2000; i++) {
    put(9, 4);
    put(1, 8);
  }
  refused("recursion");
  /* the values are missing, and nobody reads them */
  snprintf(test_where, sizeof test_where, "CVE-2026-7482: a shape larger than the file");
  i = (size_t)verdict_of("bad_data_short")->bytes;
  EQUAL(read_one(content, i, 0, MEMORY), VRAM_OK);
  CHECK(file.part_first->expected_bytes > file.part_first->present_bytes);
  *test_where = 0;
}

/* ---- headers of models ---- */

static char *slurp(const char *path, uint64_t *bytes) {
  FILE *f = fopen(path, "rb");
  char *to = (char *)malloc(MEMORY);
  if (!f || !to) {
    FAIL(path);
    exit(1);
  }
  *bytes = fread(to, 1, MEMORY - 1, f);
  to[*bytes] = 0;
  fclose(f);
  return to;
}

static void header(const char *path, const uint64_t want[5]) {
  uint64_t bytes;
  char *data = slurp(path, &bytes);
  int by_ranges;
  snprintf(test_where, sizeof test_where, "%s", path);
  for (by_ranges = 0; by_ranges < 2; by_ranges++) {
    EQUAL(read_one(data, bytes, by_ranges, MEMORY), VRAM_OK);
    EQUAL(file.ntensor, want[0]);
    EQUAL(file.numel, want[1]);
    EQUAL(file.tensor_bytes, want[2]);
    EQUAL(file.part_first->header_bytes, want[3]);
    EQUAL(file.part_first->expected_bytes, want[4]);
    CHECK(vram_file_find(&file, "token_embd.weight", 17) &&
          vram_file_get(&file, "general.architecture", 20));
    check_sums(bytes);
  }
  free(data);
  *test_where = 0;
}

/* CVE-2025-0317: numbers of layers, heads and experts that nobody may divide by, count to or take
   memory for, one key of a header after the other. */
static void numbers(const char *path) {
  static const uint64_t tried[] = {0, 1, 3, 513, UINT32_MAX, UINT64_MAX};
  uint64_t bytes;
  char *data = slurp(path, &bytes);
  void *const work = test_scratch(VRAM_LLAMA_MEMORY);
  vram_llama_options o;
  vram_llama_report r;
  vram_file_value *v;
  size_t i;
  memset(&o, 0, sizeof o);
  o.n_ctx = 512;
  EQUAL(read_one(data, bytes, 0, MEMORY), VRAM_OK);
  for (v = file.value_first; v; v = v->next) {
    const uint64_t was = v->number.u;
    if (v->kind != VRAM_VALUE_UINT)
      continue;
    for (i = 0; i < sizeof tried / sizeof *tried; i++) {
      snprintf(test_where, sizeof test_where, "CVE-2025-0317: %.*s = %lu", (int)v->name_len,
               v->name, (unsigned long)tried[i]);
      v->number.u = tried[i];
      if (vram_llama(&file, &o, work, VRAM_LLAMA_MEMORY, &r, &error))
        CHECK(*error.text);
      else
        EQUAL(r.total_bytes, r.host_bytes + r.device_bytes[0]);
    }
    v->number.u = was;
  }
  free(work);
  free(data);
  *test_where = 0;
}

/* The number behind "KEY": in what follows. */
static uint64_t number_of(const char *json, const char *key) {
  const char *at = strstr(json, key);
  return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* Everything in the folder, as its own JSON has it. */
static void folder(const char *path) {
  char name[400], *json, *at, *end;
  uint64_t bytes;
  unsigned long n = 0;
  snprintf(name, sizeof name, "%s/verdicts.json", path);
  json = slurp(name, &bytes);
  for (at = json; (at = strstr(at, ".gguf\": {")) != NULL; at += 5, n++) {
    struct verdict v = {"", 0, 0, 0, 0, 0, 0, 0, ""};
    char *data, *from = at;
    while (from[-1] != '"')
      from--;
    snprintf(name, sizeof name, "%s/%.*s.gguf", path, (int)(at - from), from);
    end = strstr(at, "\"ggml\": \"");
    v.name = name;
    v.is_taken = !strncmp(end + 9, "ok ", 3);
    v.version = number_of(end, "version=");
    v.keys = number_of(end, "kv=");
    v.tensors = number_of(end, "tensors=");
    v.alignment = number_of(end, "alignment=");
    v.data = number_of(end, "data=");
    data = slurp(name, &v.bytes);
    check_verdict(&v, data);
    free(data);
  }
  EQUAL(n, 79);
  free(json);
  snprintf(name, sizeof name, "%s/../index.json", path);
  json = slurp(name, &bytes);
  for (n = 0, at = json; (at = strstr(at, ".gguf\": {")) != NULL; at += 5, n++) {
    uint64_t want[5];
    char *from = at;
    while (from[-1] != '"')
      from--;
    snprintf(name, sizeof name, "%s/../%.*s.gguf", path, (int)(at - from), from);
    want[0] = number_of(at, "\"tensors\": ");
    want[1] = number_of(at, "\"parameters\": ");
    want[2] = number_of(at, "\"tensor_bytes\": ");
    want[3] = number_of(at, "\"header_bytes\": ");
    want[4] = number_of(at, "\"file_bytes\": ");
    header(name, want);
  }
  CHECK(n > 50);
  free(json);
}

int main(int argc, char **argv) {
  static const uint64_t llama[5] = {292, 8030261312, 4912898304, 17984, 4912916288};
  mem = (char *)test_scratch(MEMORY);
  all_verdicts();
  splits();
  lengths("ok_v3");
  lengths("ok_v2");
  flips("ok_4d");
  flips("ok_long_name63");
  memories("ok_v3");
  calls();
  attacks();
  header("tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf", llama);
  numbers("tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf");
  numbers("tests/golden/gguf/experts.gguf");
  if (argc > 1)
    folder(argv[1]);
  free(mem);
  return test_done("test_read");
}
