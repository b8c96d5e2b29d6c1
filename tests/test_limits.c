/* The limits of the library, each at its last good and its first bad value; texts that are cut,
   damaged or no texts at all.
   usage: test_limits TEXT... */
#include "play.h"

/* A text that is put together from repeated pieces; @ is the number of the piece. */
typedef struct text {
  char *at;
  size_t len, cap;
} text;

static void add(text *t, const char *piece, unsigned long times) {
  unsigned long i;
  const char *c;
  for (i = 0; i < times; i++)
    for (c = piece; *c; c++) {
      if (t->cap - t->len < 32) {
        t->at = (char *)realloc(t->at, t->cap = 2 * t->cap + 4096);
        if (!t->at)
          abort();
      }
      if (*c == '@')
        t->len += (size_t)sprintf(t->at + t->len, "%lu", i);
      else
        t->at[t->len++] = *c;
      t->at[t->len] = 0;
    }
}

static char seen[300];

/* What reading the text gives: "ok", or line, column and message. Frees it. */
static const char *result(text *t) {
  play p;
  vram_result r;
  memset(&p, 0, sizeof p);
  r = play_parse(&p, t->at, t->len, NULL, 0);
  if (r)
    snprintf(seen, sizeof seen, "%lu:%lu: %s", (unsigned long)p.error.line,
             (unsigned long)p.error.column, p.error.text);
  else
    snprintf(seen, sizeof seen, "ok");
  if (!r) { /* and the step takes it or says why not */
    vram_step_options o;
    memset(&o, 0, sizeof o);
    r = play_step(&p, &o);
    if (r)
      snprintf(seen, sizeof seen, "step: %s", p.error.text);
  }
  play_end(&p);
  free(t->at);
  memset(t, 0, sizeof *t);
  return seen;
}

#define BEYOND "a size does not fit into 63 bits"

static void limits(void) {
  text t = {NULL, 0, 0};
  uint64_t i;
  /* 64 dims */
  add(&t, "dim d@=1\n", 64), add(&t, "input x f32 [d63]\nrelu y x\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "dim d@=1\n", 65), add(&t, "input x f32 [d63]\nrelu y x\n", 1);
  TEXT(result(&t), "65:5: more than 64 dims");
  /* 8 axes */
  add(&t, "input x f32 [2", 1), add(&t, ",2", 7), add(&t, "]\nrelu y x\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [2", 1), add(&t, ",2", 8), add(&t, "]\nrelu y x\n", 1);
  TEXT(result(&t), "1:13: too many values (found [2,2,2,2,2,2,2,2,2])");
  /* 255 bytes a name */
  add(&t, "input x f32 [2]\nrelu ", 1), add(&t, "n", 255), add(&t, " x\nrelu y ", 1);
  add(&t, "n", 255);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [2]\nrelu ", 1), add(&t, "n", 256), add(&t, " x\n", 1);
  CHECK(!strncmp(result(&t), "2:6: not a name", 15));
  /* 16 loops */
  add(&t, "input x f32 [2]\n", 1), add(&t, "loop 1 h=x\n", 16), add(&t, "relu r h\n", 1);
  add(&t, "next h=r\n", 1), add(&t, "next h=h\n", 15), add(&t, "relu y h\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [2]\n", 1), add(&t, "loop 1 h=x\n", 17);
  TEXT(result(&t), "18:1: more than 16 loops inside one another");
  /* inputs of one node */
  add(&t, "input x f32 [2]\ncat y", 1), add(&t, " x", 4096), add(&t, " dim=0\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [2]\ncat y", 1), add(&t, " x", 4097), add(&t, " dim=0\n", 1);
  CHECK(strstr(result(&t), "more than 4096 inputs"));
  /* 63 bits in any total */
  add(&t, "input x u8 [9223372036854775807]\nrelu y x\n", 1);
  CHECK(strcmp(result(&t), "ok")); /* input and output together */
  add(&t, "input x f32 [288230376151711744]\nreshape y x shape=[-1,2]\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [1152921504606846976]\nrelu y x\n", 1);
  CHECK(strcmp(result(&t), "ok"));
  add(&t, "input x f32 [2305843009213693952]\nreshape y x shape=[-1,2]\n", 1);
  CHECK(strstr(result(&t), "2^63-1 bytes"));
  add(&t, "input x f32 [1048576,1048576]\nlinear y x out_features=1099511627776\n", 1);
  CHECK(strcmp(result(&t), "ok"));
  /* a step whose parts fit and whose sum does not: what is kept, what is brief, and the optimizer
   */
  add(&t, "input x u8 [576460752303423487] \nrelu y0 x\n", 1);
  add(&t, "input z@ u8 [576460752303423487]\n", 14), add(&t, "sort v,i z0\n", 1);
  TEXT(result(&t), "step: " BEYOND);
  add(&t, "input z@ u8 [576460752303423487]\n", 15),
      add(&t, "input l u8 [576460752302423487]\n", 1);
  add(&t, "input a f32 [8,8]\nmm y a a\n", 1);
  TEXT(result(&t), "step: " BEYOND);
  add(&t, "parameter p@ shape=[576460752303423487]\n", 3), add(&t, "mean y p0\n", 1);
  {
    static const vram_optimizer optim[] = {VRAM_OPTIM_adamw, VRAM_OPTIM_adamw_amsgrad,
                                           VRAM_OPTIM_adagrad, VRAM_OPTIM_lamb};
    play p;
    memset(&p, 0, sizeof p);
    if (NEED(play_parse(&p, t.at, t.len, NULL, 0) == VRAM_OK))
      for (i = 0; i < 2 * sizeof optim / sizeof *optim; i++) {
        vram_step_options o;
        vram_result r;
        memset(&o, 0, sizeof o);
        o.train = 1;
        o.optimizer = optim[i / 2];
        o.first_step = (int)(i & 1);
        r = play_step(&p, &o);
        EQUAL(r, VRAM_ERR_OVERFLOW);
        TEXT(p.error.text, BEYOND);
      }
    play_end(&p);
    free(t.at);
    memset(&t, 0, sizeof t);
  }
  /* what PyTorch refuses only when it runs */
  for (i = 0; i < 2; i++) {
    add(&t, "input q f16 [2,4,8,8]\ninput k f32 [2,4,8,8]\nscaled_dot_product_attention y q ", 1);
    add(&t, i ? "q k\n" : "k q\n", 1);
    TEXT(result(&t), "step: query, key and value of different dtypes (node y)");
  }
  /* every position of one overflowing factor in a shape */
  for (i = 0; i < 8; i++) {
    unsigned k;
    add(&t, "input x f32 [", 1);
    for (k = 0; k < 8; k++)
      add(&t, k == i ? "4611686018427387904" : "2", 1), add(&t, k < 7 ? "," : "]\n", 1);
    add(&t, "relu y x\n", 1);
    CHECK(strstr(result(&t), "2^63-1 bytes"));
  }
  /* a zero beside a huge size: no bytes, and PyTorch takes it */
  add(&t, "input x f32 [0,4611686018427387904]\nrelu y x\n", 1);
  result(&t);
  /* long lines, deep nesting of brackets, many words */
  add(&t, "input x f32 ", 1), add(&t, "[", 100000), add(&t, "2]\n", 1);
  CHECK(strcmp(result(&t), "ok"));
  add(&t, "#", 1), add(&t, "comment ", 100000), add(&t, "\ninput x f32 [2]\nrelu y x", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [2]\nrelu y x ", 1), add(&t, "inplace=1 ", 1000);
  TEXT(result(&t), "2:20: a key given twice (found inplace)");
  add(&t, "input x f32 [2]\nreshape y x shape=[2", 1), add(&t, ",1", 70000), add(&t, "]\n", 1);
  CHECK(strcmp(result(&t), "ok"));
  add(&t, "input x f32 [2]\npermute y x dims=0", 1), add(&t, ",0", 70000), add(&t, "\n", 1);
  CHECK(strcmp(result(&t), "ok"));
  /* numbers */
  add(&t, "input x f32 [2]\ndropout y x p=0.", 1), add(&t, "5", 10000), add(&t, "\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [2]\ndropout y x p=1e-", 1), add(&t, "9", 1000), add(&t, "\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [", 1), add(&t, "1*", 5000), add(&t, "2]\nrelu y x\n", 1);
  TEXT(result(&t), "ok");
  add(&t, "input x f32 [", 1), add(&t, "2*", 64), add(&t, "1]\nrelu y x\n", 1);
  CHECK(strstr(result(&t), "a product of more than 63 bits"));
}

/* 2^24 nodes: the last good and the first bad graph take a gigabyte, so the builder's counter is
   tried on a graph that says it has them. */
static void nodes(void) {
  static uint64_t mem[8192];
  const int64_t size[1] = {4};
  vram_graph g;
  vram_value *x;
  vram_graph_init(&g, mem, sizeof mem);
  x = vram_graph_input(&g, "x", VRAM_F32, 1, size, 0);
  CHECK(x && vram_graph_apply(&g, VRAM_OP_relu, "a", &x, 1, NULL));
  g.nnode = VRAM_MAX_NODES - 1;
  CHECK(vram_graph_apply(&g, VRAM_OP_relu, "b", &x, 1, NULL));
  CHECK(!vram_graph_apply(&g, VRAM_OP_relu, "c", &x, 1, NULL));
  EQUAL(g.error.code, VRAM_ERR_LIMIT);
  TEXT(g.error.text, "more than 2^24 nodes");
}

/* Every prefix of a text, every byte of it replaced: no crash, an error or a graph. */
static void damaged(const char *path) {
  size_t len = 0, i, step;
  char *whole = play_file(path, &len), *part;
  static const char bytes[] = {0, '\n', ' ', '#', '=', ',', '[', ']', '-', '9', 'x', (char)0xff};
  play p;
  if (!NEED(whole != NULL))
    return;
  part = (char *)malloc(len + 1);
  if (!part)
    abort();
  memset(&p, 0, sizeof p);
  step = len / 2000 + 1;
  for (i = 0; i < len; i += step) {
    /* in memory of exactly its size, so that a look beyond the end is seen */
    char *exact = (char *)malloc(i ? i : 1);
    vram_result r;
    if (!exact)
      abort();
    memcpy(exact, whole, i);
    r = play_parse(&p, exact, i, NULL, 0);
    if (r && (!p.error.text[0] || p.error.code != r || strchr(p.error.text, '\n')))
      FAIL("a prefix gives one proper error");
    if (!r) {
      vram_step_options o;
      memset(&o, 0, sizeof o);
      o.train = (int)(i & 1);
      play_step(&p, &o);
    }
    test_passed++;
    free(exact);
  }
  for (i = 0; i < len; i += step) {
    vram_result r;
    memcpy(part, whole, len);
    part[i] = bytes[(i / step) % sizeof bytes];
    r = play_parse(&p, part, len, NULL, 0);
    if (r && (!p.error.text[0] || p.error.code != r || strchr(p.error.text, '\n')))
      FAIL("a damaged text gives one proper error");
    test_passed++;
  }
  play_end(&p);
  free(part);
  free(whole);
}

/* The same model with other line ends, spaces and comments. */
static void spelling(const char *path) {
  size_t len = 0, i;
  char *whole = play_file(path, &len);
  play p, q;
  text t = {NULL, 0, 0};
  vram_step_options o;
  int variant;
  if (!NEED(whole != NULL))
    return;
  memset(&p, 0, sizeof p);
  memset(&q, 0, sizeof q);
  play_mode("train_fp32_adamw", &o);
  if (!NEED(play_parse(&p, whole, len, NULL, 0) == VRAM_OK && play_step(&p, &o) == VRAM_OK)) {
    play_end(&p);
    free(whole);
    return;
  }
  for (variant = 0; variant < 4; variant++) {
    for (i = 0; i < len; i++) {
      char one[2] = {0, 0};
      one[0] = whole[i];
      if (whole[i] == '\n')
        add(&t, variant == 0 ? "\r\n" : variant == 1 ? " \t # end\n\n# line\n" : "\n", 1);
      else if (whole[i] == ' ')
        add(&t, variant == 2 ? " \t  " : " ", 1);
      else
        add(&t, one, 1);
    }
    if (variant == 3 && t.len && t.at[t.len - 1] == '\n')
      t.at[--t.len] = 0; /* no newline at the end */
    CHECK(play_parse(&q, t.at, t.len, NULL, 0) == VRAM_OK && play_step(&q, &o) == VRAM_OK &&
          play_hash(&p) == play_hash(&q));
    free(t.at);
    memset(&t, 0, sizeof t);
  }
  play_end(&p);
  play_end(&q);
  free(whole);
}

/* Bytes of a generator: no texts at all. */
static void junk(void) {
  uint64_t x = UINT64_C(0x9E3779B97F4A7C15);
  int i;
  play p;
  memset(&p, 0, sizeof p);
  for (i = 0; i < 2000; i++) {
    char bytes[257];
    size_t n = 0, len;
    for (; n < sizeof bytes; n++) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      bytes[n] = (char)(i & 1 ? x >> 32 : (uint8_t) " \n=,[]#-x09dimploopnext"[x % 23]);
    }
    len = (size_t)(x % sizeof bytes);
    play_parse(&p, bytes, len, NULL, 0);
    if (p.error.code == VRAM_OK)
      test_passed++;
    else
      CHECK(p.error.line <= 258 && p.error.column <= 258);
  }
  play_end(&p);
}

/* Dims from outside. */
static void dims(void) {
  static const char model[] = "dim N=2 K=3\ninput x f32 [N,K]\nrelu y x\n";
  static const struct {
    vram_dim set[2];
    uint32_t n;
    const char *want;
  } rows[] = {{{{"N", 5}, {"K", 7}}, 2, "ok"},
              {{{NULL, 5}, {"K", 7}}, 2, "ok"},
              {{{"K", 7}, {NULL, 5}}, 2, "ok"},
              {{{"M", 7}, {NULL, 5}}, 1, "the model has no dim M (expected N, K)"},
              {{{"N", -1}, {NULL, 5}}, 1, "a dim below 0 (found N=2)"},
              {{{"N", INT64_MAX}, {NULL, 5}}, 1, "a tensor of more than 2^63-1 bytes"},
              {{{"", 1}, {NULL, 5}}, 1, "the model has no dim  (expected N, K)"}};
  size_t i;
  play p;
  memset(&p, 0, sizeof p);
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    vram_result r = play_parse(&p, model, sizeof model - 1, rows[i].set, rows[i].n);
    TEXT(r ? p.error.text : "ok", rows[i].want);
    if (!r)
      EQUAL(p.graph.first->out[0].d->numel, 35);
  }
  {
    static const char none[] = "input x f32 [2]\nrelu y x\n";
    vram_dim batch = {NULL, 5};
    EQUAL(play_parse(&p, none, sizeof none - 1, &batch, 1), VRAM_ERR_NAME);
    TEXT(p.error.text, "the model has no dim (batch)");
  }
  play_end(&p);
}

int main(int argc, char **argv) {
  int i;
  limits();
  nodes();
  junk();
  dims();
  for (i = 1; i < argc; i++) {
    snprintf(test_where, sizeof test_where, "%s", argv[i]);
    damaged(argv[i]);
    spelling(argv[i]);
  }
  *test_where = 0;
  return test_done("test_limits");
}
