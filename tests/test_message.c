/* vram_message_read on messages that people posted: what is to be read of each stands in the file
   that is named on the command line, with the figures as the message has them. */
#include "../vram.h"

#include "test.h"

/* "10.84GiB" in bytes, by floating point: the reader counts in integers. */
static double figure(const char *s) {
  static const char unit[] = "KMGT";
  char *end;
  double v = strtod(s, &end);
  const char *u = *end ? strchr(unit, *end) : NULL;
  int i;
  for (i = 0; u && i <= (int)(u - unit); i++)
    v *= 1024;
  return v;
}

static int is_word(const char *word, size_t n, const char *name) {
  size_t i;
  for (i = 0; i < n && name[i]; i++) /* blanks are _ in the file */
    if (word[i] != (name[i] == ' ' ? '_' : name[i]))
      return 0;
  return i == n && (!name[n] || name[n] == ':');
}

static vram_message_field field_of(const char *word, size_t n) {
  int i = 0;
  while (i < VRAM_MESSAGE_FIELD_COUNT &&
         !is_word(word, n, vram_message_field_name((vram_message_field)i)))
    i++;
  return (vram_message_field)i;
}

/* "asked=1GiB" */
static void check_word(const vram_message *m, const char *word, size_t n) {
  const size_t key = strcspn(word, "=");
  const char *value = word + key + 1;
  const vram_message_field f = field_of(word, key);
  if (is_word(word, key, "cause"))
    CHECK(is_word(value, n - key - 1, vram_cause_name(m->cause)));
  else if (is_word(word, key, "device")) {
    CHECK(m->has_device);
    EQUAL(m->device, strtoul(value, NULL, 10));
  } else if (CHECK(f < VRAM_MESSAGE_FIELD_COUNT) && CHECK(m->known >> f & 1u)) {
    const double off = figure(value) - (double)m->bytes[f];
    CHECK(off < 1 && off > -1);
  }
}

static void check_message(const char *head, const char *text, size_t len) {
  vram_message m;
  const char *word = head;
  size_t n, i;
  snprintf(test_where, sizeof test_where, "%.60s", head);
  if (!CHECK(vram_message_read(text, len, &m)))
    return;
  word += strcspn(word, " \n");
  for (i = 0; *word == ' '; word += n, i++) {
    n = strcspn(++word, " \n");
    if (i)
      check_word(&m, word, n);
    else
      CHECK(is_word(word, n, vram_message_source_name(m.source)));
  }
  for (i = 0; i < len; i++) { /* no length makes it read further */
    char *part = (char *)malloc(i ? i : 1);
    if (!part)
      abort();
    memcpy(part, text, i);
    vram_message_read(part, i, &m);
    free(part);
  }
}

static char *read_all(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  char *text;
  long n;
  if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
    abort();
  text = (char *)malloc((size_t)n + 1);
  if (!text || fread(text, 1, (size_t)n, f) != (size_t)n)
    abort();
  fclose(f);
  text[n] = 0;
  *len = (size_t)n;
  return text;
}

static void check_none(const char *text) {
  vram_message m;
  snprintf(test_where, sizeof test_where, "%.60s", text);
  CHECK(!vram_message_read(text, strlen(text), &m));
}

int main(int argc, char **argv) {
  static const char bare[] = "CUDA error: out of memory\nCUDA error: out of memory\n"
                             "CUDA out of memory. Tried to allocate 2.00 GiB.";
  size_t len, i;
  for (i = 1; i < (size_t)argc; i++) {
    char *text = read_all(argv[i], &len), *at = strstr(text, "\n== ");
    while (at) {
      char *body = strchr(at + 1, '\n') + 1, *next = strstr(body - 1, "\n== ");
      check_message(at + 4, body, next ? (size_t)(next - body) : strlen(body));
      at = next;
    }
    free(text);
  }
  check_message("bare_ones PyTorch asked=2.00GiB cause=unknown\n", bare, sizeof bare - 1);
  check_none("");
  check_none("all went well: 4.00 GiB allocated, none out of memory");
  check_none("ran out of memory trying to allocate 1.25GiB with freed_by_count=0. The caller "
             "indicates that this is not a failure, but may mean");
  test_where[0] = 0;
  TEXT(vram_cause_name(VRAM_CAUSE_COUNT), "?");
  return test_done("test_message");
}
