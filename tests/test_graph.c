/* Texts and calls: what is read, and every error with line, column and message.
   usage: test_graph errors.txt [--write]
   errors.txt: blocks of `=== LINE:COLUMN: message`, then the text; `=== ok`: no error. */
#include "play.h"

/* {NNN*WORD} in a text stands for NNN times WORD, {NNN+LINE} for NNN lines of LINE, in both with #
   as the number 0, 1, ...; {xHH} for a byte. Returns the length. */
static size_t expand(const char *from, size_t n, char **to) {
  size_t cap = 4096, len = 0, i;
  char *text = (char *)malloc(cap);
  for (i = 0; i < n; i++) {
    unsigned long count = 0, k;
    char *end = NULL;
    const char *close = from[i] == '{' ? strchr(from + i, '}') : NULL;
    size_t body, j, room;
    if (close && from[i + 1] == 'x')
      count = strtoul(from + i + 2, &end, 16);
    else if (close)
      count = strtoul(from + i + 1, &end, 10);
    body = close ? (size_t)(close - from) : 0;
    room = len + 64 + (close ? count * (body - i + 8) : 0);
    if (room > cap)
      text = (char *)realloc(text, cap = 2 * room);
    if (!text)
      abort();
    if (!close || end == from + i + 1 || end == from + i + 2) {
      text[len++] = from[i];
      continue;
    }
    if (from[i + 1] == 'x')
      text[len++] = (char)count;
    else
      for (k = 0; k < count; k++) {
        for (j = (size_t)(end - from) + 1; j < body; j++)
          if (from[j] == '#')
            len += (size_t)sprintf(text + len, "%lu", k);
          else
            text[len++] = from[j];
        if (*end == '+' && k + 1 < count)
          text[len++] = '\n';
      }
    i = body;
  }
  text[len] = 0;
  *to = text;
  return len;
}

static void error_text(char *to, size_t cap, vram_result r, const vram_error *e) {
  if (!r)
    snprintf(to, cap, "ok");
  else if (e->line)
    snprintf(to, cap, "%lu:%lu: %s", (unsigned long)e->line, (unsigned long)e->column, e->text);
  else
    snprintf(to, cap, "%s", e->text);
}

/* The same text behind a loop that no memory is enough for: an error of its words is said first.
   What only shapes tell (fewer outputs than names, a node without a weight) stays unknown. */
static void behind_a_loop(const char *text, size_t len, const vram_error *alone) {
  static const char loop[] = "input zz.x f32 [2]\nloop 16777216 zz.l=zz.x\nrelu zz.y zz.l\n"
                             "next zz.l=zz.y\n";
  static uint64_t mem[1 << 16];
  const uint64_t room = sizeof mem;
  const int of_shapes = strstr(alone->text, "fewer outputs than names") ||
                        strstr(alone->text, "a node without a weight") ||
                        strstr(alone->text, "without nodes") || !alone->line;
  char *all = (char *)malloc(sizeof loop + len);
  vram_graph g;
  vram_error e;
  if (!all)
    abort();
  memcpy(all, loop, sizeof loop - 1);
  memcpy(all + sizeof loop - 1, text, len);
  vram_graph_init(&g, mem, room);
  CHECK(vram_graph_parse(&g, all, sizeof loop - 1 + len, NULL, 0, &e) != VRAM_OK);
  if ((alone->code == VRAM_ERR_SYNTAX || alone->code == VRAM_ERR_NAME) && !of_shapes) {
    TEXT(e.text, alone->text);
    EQUAL(e.line, alone->line + 4);
    EQUAL(e.column, alone->column);
  } else if (!alone->code)
    EQUAL(e.code, VRAM_ERR_MEMORY);
  free(all);
}

static void errors(const char *path, int write) {
  char *file = play_file(path, NULL), *at = file, got[400], want[400];
  unsigned line = 1;
  if (!NEED(file != NULL))
    return;
  while (*at) {
    size_t n = strcspn(at, "\n"), len;
    char *text, *body = at + n + (at[n] == '\n'), *end = strstr(at + 1, "\n===");
    play p;
    vram_result r;
    if (!end)
      end = body + strlen(body);
    else
      end++;
    if (strncmp(at, "===", 3)) { /* the head of the file */
      if (write)
        printf("%.*s", (int)(end - at), at);
    } else {
      memset(&p, 0, sizeof p);
      len = expand(body, (size_t)(end - body), &text);
      r = play_parse(&p, text, len, NULL, 0);
      error_text(got, sizeof got, r, &p.error);
      if (write)
        printf("=== %s\n%.*s", got, (int)(end - body), body);
      else {
        snprintf(want, sizeof want, "%.*s", (int)(n > 4 ? n - 4 : 0), at + 4);
        snprintf(test_where, sizeof test_where, "%s:%u", path, line);
        TEXT(got, want);
        if (r && (r != p.error.code || r != p.graph.error.code))
          FAIL("the codes agree");
        if (strlen(p.error.text) + 1 >= sizeof p.error.text)
          FAIL("the message fits");
        behind_a_loop(text, len, &p.error);
      }
      free(text);
      play_end(&p);
    }
    for (; at < end; at++)
      line += *at == '\n';
  }
  *test_where = 0;
  free(file);
}

/* Building by calls: the first error stays, later calls give NULL. */
static void calls(void) {
  static uint64_t mem[8192];
  static vram_value *many[4097];
  static const char *const rows[][3] = {
      /* op's keys, names, message; the input is x f32 [4,6] */
      {"out_features=3 bias", "y", "not a key (found bias, expected KEY=VALUE)"},
      {"out_features=", "y", "a key without a value (found nothing, expected key=value)"},
      {"", "y", "a required key is missing (expected out_features)"},
      {"out_features=3", "1y",
       "not a name (found 1y, expected letters, digits, _ . /, at most 255)"},
      {"out_features=3", "y,z", "the op has fewer outputs than names"},
      {"out_features=3 weights=q", "y",
       "an unknown node (found q, expected a node defined before)"},
  };
  const int64_t size[2] = {4, 6}, negative[1] = {-1};
  vram_graph g;
  vram_value *x, *y[70];
  vram_node *n;
  vram_report r;
  vram_error e;
  vram_step_options o;
  size_t i;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    vram_graph_init(&g, mem, sizeof mem);
    x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);
    snprintf(test_where, sizeof test_where, "%s", rows[i][0]);
    CHECK(!vram_graph_apply(&g, VRAM_OP_linear, rows[i][1], &x, 1, rows[i][0]));
    TEXT(g.error.text, rows[i][2]);
    CHECK(g.error.code != VRAM_OK);
    CHECK(!vram_graph_input(&g, "z", VRAM_F32, 2, size, 0));
    CHECK(!vram_graph_apply(&g, VRAM_OP_relu, "z", &x, 1, NULL));
    EQUAL(vram_graph_outputs(&g, &x, 1), g.error.code);
    EQUAL(vram_graph_drop(&g, &x, 1), g.error.code);
    TEXT(g.error.text, rows[i][2]);
  }
  *test_where = 0;
#define FRESH() vram_graph_init(&g, mem, sizeof mem)
#define FAILS(call, message)                                                                       \
  do {                                                                                             \
    FRESH();                                                                                       \
    x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);                                           \
    CHECK(x && !(call));                                                                           \
    TEXT(g.error.text, message);                                                                   \
  } while (0)
  FAILS(vram_graph_input(&g, "", VRAM_F32, 2, size, 0),
        "an input without a proper name, dtype or number of axes");
  FAILS(vram_graph_input(&g, "y", VRAM_DTYPE_NONE, 2, size, 0),
        "an input without a proper name, dtype or number of axes");
  FAILS(vram_graph_input(&g, "y", VRAM_DTYPE_COUNT, 2, size, 0),
        "an input without a proper name, dtype or number of axes");
  FAILS(vram_graph_input(&g, "y", VRAM_F32, 9, size, 0),
        "an input without a proper name, dtype or number of axes");
  FAILS(vram_graph_input(&g, "y", VRAM_F32, 1, negative, 0), "a size is negative");
  FAILS(vram_graph_input(&g, "y", VRAM_I64, 2, size, 1),
        "a gradient for an input that is not floating point");
  FAILS(vram_graph_apply(&g, VRAM_OP_COUNT, "y", &x, 1, NULL),
        "an unknown op, or more than 4096 inputs");
  FAILS(vram_graph_apply(&g, VRAM_OP_cat, "y", many, 4097, NULL),
        "an unknown op, or more than 4096 inputs");
  FAILS(vram_graph_apply(&g, VRAM_OP_cat, "y", many, 3, NULL), "an input that is NULL");
  FAILS(vram_graph_input(&g, NULL, VRAM_F32, 2, size, 0),
        "an input without a proper name, dtype or number of axes");
  FAILS(vram_graph_input(&g, "y", VRAM_Q4_0, 2, size, 0),
        "a row that does not divide into blocks of q4_0 (found 6, expected a multiple of 32)");
  FAILS(vram_graph_apply(&g, VRAM_OP_relu, NULL, &x, 1, NULL), "a node without a name");
  FAILS(vram_graph_outputs(&g, many, 1) == VRAM_OK, "an output that is NULL");
  FAILS(vram_graph_drop(&g, many, 1) == VRAM_OK, "a dropped value that is NULL");
  FAILS(vram_graph_requires_grad(&g, many, 1) == VRAM_OK,
        "a value that is to want a gradient is NULL");
  FAILS(vram_graph_backward(&g, NULL, 0) == VRAM_OK, "backward of a value that is NULL");
  FAILS(vram_graph_step(&g, "a 1") == VRAM_OK, "not the name of a module or parameter");
  FAILS(vram_graph_requires_grad(&g, &x, 1) == VRAM_OK,
        "requires_grad of an input (expected grad=1 behind it)");
  FAILS(vram_graph_apply(&g, VRAM_OP_relu, "y", &x, 0, NULL),
        "wrong number of inputs (found 0, expected 1)");
  FRESH();
  x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);
  EQUAL(vram_graph_outputs(&g, &x, 0), VRAM_ERR_VALUE);
  TEXT(g.error.text, "no output");
  FRESH();
  x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);
  EQUAL(vram_graph_outputs(&g, &x, 1), VRAM_OK);
  EQUAL(vram_graph_outputs(&g, &x, 1), VRAM_ERR_VALUE);
  TEXT(g.error.text, "outputs named twice");
  FRESH();
  CHECK(!vram_graph_input(&g, "x", VRAM_DTYPE_MODEL, 2, size, 0)); /* whose dtype nobody named */
  FRESH();
  EQUAL(vram_graph_dtype(&g, VRAM_I8), VRAM_ERR_VALUE);
  FRESH();
  EQUAL(vram_graph_dtype(&g, VRAM_BF16), VRAM_OK);
  x = vram_graph_input(&g, "x", VRAM_DTYPE_MODEL, 2, size, 0);
  EQUAL(x ? x->dtype : 0, VRAM_BF16);
  n = vram_graph_apply(&g, VRAM_OP_linear, "y", &x, 1, "out_features=4");
  EQUAL(n ? n->param[0]->dtype : 0, VRAM_BF16);
  n = vram_graph_apply(&g, VRAM_OP_to, "z", &x, 1, "dtype=f32");
  EQUAL(n ? n->out[0].dtype : 0, VRAM_F32);
  EQUAL(vram_graph_infer(&g, &x, 1), VRAM_OK);
  EQUAL(vram_graph_infer(&g, &x, 1), VRAM_ERR_VALUE);
  TEXT(g.error.text, "results of inference named twice");
  FRESH();
  vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);
  EQUAL(vram_graph_dtype(&g, VRAM_F16), VRAM_ERR_VALUE);
  TEXT(g.error.text, "the model's dtype behind inputs or nodes");
  /* many values are let go with one call; what is kept stays */
  FRESH();
  x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);
  for (i = 0; i < 70; i++) {
    n = vram_graph_apply(&g, VRAM_OP_relu, "y", &x, 1, NULL);
    y[i] = vram_node_output(n, 0);
    CHECK(y[i] && !vram_node_output(n, 1));
  }
  CHECK(!vram_node_output(NULL, 0));
  EQUAL(vram_graph_requires_grad(&g, y, 70), VRAM_OK);
  EQUAL(g.nmade, 70);
  EQUAL(vram_graph_zero_grad(&g, NULL), VRAM_OK);
  EQUAL(vram_graph_step(&g, "a.b  c"), VRAM_OK);
  EQUAL(g.last->nin, 2);
  EQUAL(vram_graph_backward(&g, y[0], 1), VRAM_OK);
  EQUAL(g.nzero_grad + g.nstep + g.nbackward, 3);
  EQUAL(vram_graph_freeze(&g, "a.b"), VRAM_OK);
  EQUAL(vram_graph_unfreeze(&g, NULL), VRAM_OK);
  EQUAL(g.last->nin, 0);
  EQUAL(g.nfrozen, 2);
  EQUAL(vram_graph_backward(&g, y[1], VRAM_BACKWARD_SCALE), VRAM_OK);
  EQUAL(vram_graph_update(&g), VRAM_OK);
  EQUAL(g.nscaled + g.nupdate, 2);
  EQUAL(vram_graph_drop(&g, y, 70), VRAM_OK);
  EQUAL(vram_graph_outputs(&g, &x, 1), VRAM_OK);
  memset(&o, 0, sizeof o);
  {
    uint64_t bytes = vram_step_bytes(&g, &o);
    void *scratch = malloc((size_t)bytes);
    EQUAL(vram_step(&g, &o, scratch, bytes, &r, &e), VRAM_OK);
    EQUAL(r.peak_requested_bytes, 71 * 96);
    EQUAL(r.phase[VRAM_PHASE_FORWARD].requested_bytes, 96);
    EQUAL(vram_step_bytes(&g, NULL), bytes); /* no options are zeros */
    EQUAL(vram_step(&g, NULL, scratch, bytes, &r, NULL), VRAM_OK);
    EQUAL(r.peak_requested_bytes, 71 * 96);
    EQUAL(vram_step(&g, NULL, scratch, 8, &r, NULL), VRAM_ERR_MEMORY);
    free(scratch);
  }
  /* a layer's weights, by the name of the latest node that has it */
  FRESH();
  x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 1);
  CHECK(vram_graph_apply(&g, VRAM_OP_linear, "a", &x, 1, "out_features=6"));
  CHECK(vram_graph_apply(&g, VRAM_OP_linear, "bb", &x, 1, "out_features=6"));
  CHECK(vram_graph_apply(&g, VRAM_OP_linear, "c", &x, 1, "out_features=6"));
  n = vram_graph_apply(&g, VRAM_OP_linear, "y", &x, 1, "out_features=6 weights=a");
  CHECK(n && n->param[0] == g.first->param[0]);
  CHECK(!vram_graph_apply(&g, VRAM_OP_linear, "z", &x, 1, "out_features=6 weights=d"));
  /* memory that ends inside a call */
  for (i = 0; i < 800; i += 8) {
    vram_graph_init(&g, mem, i);
    x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 1);
    n = x ? vram_graph_apply(&g, VRAM_OP_linear, "a", &x, 1, "out_features=6") : NULL;
    if (n)
      vram_graph_drop(&g, &x, 1);
    CHECK(g.error.code == VRAM_ERR_MEMORY || n);
  }
  /* bytes of a key that are no text */
  FAILS(vram_graph_apply(&g, VRAM_OP_relu, "y", &x, 1, "a\x80=1"),
        "the op has no such key (found a?, expected inplace)");
  /* dtypes of results, measured with torch.result_type */
  {
    static const struct {
      const char *a, *b, *want;
    } pairs[] = {{"c64 [2]", "f64 [2]", "c128"}, {"bf16 [2]", "c32 [2]", "c64"},
                 {"f32 [2]", "c32 [2]", "c64"},  {"f16 [2]", "c32 [2]", "c32"},
                 {"f64 [2]", "c32 [2]", "c128"}, {"c32 [2]", "c64 [2]", "c64"},
                 {"f32 [2]", "c128 []", "c64"},  {"f64 [2]", "c64 []", "c128"},
                 {"f16 [2]", "c128 []", "c32"},  {"bf16 [2]", "c64 []", "cb32"},
                 {"i64 [2]", "c128 []", "c128"}, {"c64 [2]", "c128 []", "c64"},
                 {"f16 [2]", "bf16 [2]", "f32"}, {"u8 [2]", "i8 [2]", "i16"},
                 {"u16 [2]", "f32 [2]", "f32"},  {"i64 [2]", "f64 []", "f64"},
                 {"bool [2]", "u8 [2]", "u8"},   {"cb32 [2]", "f32 [2]", "c64"}};
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
      char text[100];
      int len = snprintf(text, sizeof text, "input a %s\ninput b %s\nadd y a b\n", pairs[i].a,
                         pairs[i].b);
      FRESH();
      snprintf(test_where, sizeof test_where, "%s with %s", pairs[i].a, pairs[i].b);
      EQUAL(vram_graph_parse(&g, text, (uint64_t)len, NULL, 0, &e), VRAM_OK);
      EQUAL(g.first->out[0].dtype, vram_dtype_from_name(pairs[i].want));
    }
    *test_where = 0;
  }
  /* numbers that name nothing */
  TEXT(vram_result_text(VRAM_RESULT_COUNT), "?");
  {
    static const char text[] = "dim N=2\ninput x f32 [N]\nrelu y x\n";
    vram_dim set[65];
    for (i = 0; i < 65; i++)
      set[i].name = "N", set[i].value = 3;
    FRESH();
    EQUAL(vram_graph_parse(&g, text, sizeof text - 1, set, 64, NULL), VRAM_OK);
    CHECK(vram_graph_parse_bytes(text, sizeof text - 1, set, 65));
    FRESH();
    EQUAL(vram_graph_parse(&g, text, sizeof text - 1, set, 65, &e), VRAM_ERR_LIMIT);
    TEXT(e.text, "more than 64 dims");
    FRESH();
    EQUAL(vram_graph_parse(&g, "relu", 4, NULL, 0, NULL), VRAM_ERR_SYNTAX);
    /* no text: NULL is as good as any */
    EQUAL(vram_graph_parse_bytes(NULL, 0, NULL, 0), vram_graph_parse_bytes("", 0, NULL, 0));
    FRESH();
    EQUAL(vram_graph_parse(&g, NULL, 0, NULL, 0, &e), VRAM_ERR_SYNTAX);
    EQUAL(e.line, 1);
  }
}

/* Steps that cannot begin: the code, the text, an empty report. */
static void misuse(void) {
  static uint64_t mem[8192], scratch[16384];
  const int64_t size[2] = {4, 6};
  vram_graph g;
  vram_value *x;
  vram_report r;
  vram_error e;
  vram_step_options o, from[10];
  static const char *const text[] = {"unknown rules",
                                     "unknown optimizer",
                                     "unknown optimizer implementation",
                                     "amp is neither bf16 nor f16",
                                     "the model's dtype is neither f32 nor bf16 nor f16",
                                     "a compute capability out of range (expected 50 to 129: times "
                                     "ten)",
                                     "a compute capability out of range (expected 50 to 129: times "
                                     "ten)",
                                     "ncheckpoint without checkpoint",
                                     "unknown workspaces of cuDNN"};
  uint32_t count = 7;
  size_t i;
  memset(&o, 0, sizeof o);
  memset(from, 0, sizeof from);
  from[0].rules = VRAM_RULES_COUNT;
  from[1].optimizer = VRAM_OPTIM_COUNT;
  from[2].optim_impl = (vram_optim_impl)4;
  from[3].amp = VRAM_F32;
  from[4].dtype = VRAM_Q4_K;
  from[5].cc = 9;
  from[6].cc = 130;
  from[7].ncheckpoint = 1;
  from[8].cudnn = (vram_cudnn)3;
  vram_graph_init(&g, mem, sizeof mem);
  EQUAL(vram_step(&g, &o, scratch, sizeof scratch, &r, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "a model without nodes");
  EQUAL(vram_step_live(&g, &o, scratch, sizeof scratch, &r, NULL, 0, &count), VRAM_ERR_VALUE);
  EQUAL(count, 0);
  x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);
  x = vram_node_output(vram_graph_apply(&g, VRAM_OP_linear, "y", &x, 1, "out_features=2"), 0);
  for (i = 0; i < sizeof text / sizeof *text; i++) {
    from[i].train = 1;
    memset(&r, 1, sizeof r);
    EQUAL(vram_step(&g, from + i, scratch, sizeof scratch, &r, &e), VRAM_ERR_VALUE);
    TEXT(e.text, text[i]);
    EQUAL(e.code, VRAM_ERR_VALUE);
    EQUAL(r.peak_requested_bytes, 0);
  }
  o.dtype = VRAM_F32;
  o.context_bytes = VRAM_NO_CONTEXT;
  EQUAL(vram_step(&g, &o, scratch, sizeof scratch, &r, &e), VRAM_OK);
  EQUAL(r.device_bytes.lower, r.peak_reserved_bytes);
  o.context_bytes = UINT64_MAX - 1;
  EQUAL(vram_step(&g, &o, scratch, sizeof scratch, &r, &e), VRAM_OK);
  EQUAL(r.device_bytes.upper, VRAM_OVERFLOW);
  CHECK(!vram_graph_apply(&g, VRAM_OP_relu, "z", &x, 1, "k=1"));
  EQUAL(vram_step(&g, &o, scratch, sizeof scratch, &r, &e), g.error.code);
  TEXT(e.text, g.error.text);
}

/* Bytes of parameters, buffers and inputs, gradients of a text. */
static void bytes(const char *text, uint64_t params, uint64_t inputs, uint64_t gradients) {
  play p;
  vram_step_options o;
  vram_report r;
  vram_error e;
  memset(&p, 0, sizeof p);
  memset(&o, 0, sizeof o);
  o.train = 1;
  snprintf(test_where, sizeof test_where, "%.200s", text);
  if (NEED(play_parse(&p, text, strlen(text), NULL, 0) == VRAM_OK)) {
    uint64_t need = vram_step_bytes(&p.graph, &o);
    void *scratch = malloc((size_t)need);
    EQUAL(vram_step(&p.graph, &o, scratch, need, &r, &e), VRAM_OK);
    EQUAL(r.params_bytes, params);
    EQUAL(r.inputs_bytes, inputs);
    EQUAL(r.gradients_bytes, gradients);
    free(scratch);
  }
  play_end(&p);
  *test_where = 0;
}

/* What the convolution of a text asks cuDNN for, and what that does to the peak. */
static void workspace(const char *text, uint32_t cc, vram_dtype dtype, uint64_t expected,
                      uint64_t upper) {
  play p;
  vram_step_options o;
  vram_report r, none;
  vram_error e;
  memset(&p, 0, sizeof p);
  memset(&o, 0, sizeof o);
  o.cc = cc;
  o.dtype = dtype;
  snprintf(test_where, sizeof test_where, "cc %u %.200s", (unsigned)cc, text);
  if (NEED(play_parse(&p, text, strlen(text), NULL, 0) == VRAM_OK)) {
    uint64_t need = vram_step_bytes(&p.graph, &o);
    void *scratch = malloc((size_t)need);
    EQUAL(vram_step(&p.graph, &o, scratch, need, &r, &e), VRAM_OK);
    EQUAL(r.cudnn_bytes.lower, 0);
    EQUAL(r.cudnn_bytes.expected, expected);
    EQUAL(r.cudnn_bytes.upper, upper);
    o.cudnn = VRAM_CUDNN_NONE;
    EQUAL(vram_step(&p.graph, &o, scratch, need, &none, &e), VRAM_OK);
    EQUAL(none.cudnn_bytes.expected, 0);
    EQUAL(none.peak_allocated_bytes.expected, none.peak_blocks_bytes);
    EQUAL(r.peak_allocated_bytes.expected, r.peak_blocks_bytes + (expected + 511) / 512 * 512);
    EQUAL(r.events, none.events);
    EQUAL(r.peak_requested_bytes, none.peak_requested_bytes);
    free(scratch);
  }
  play_end(&p);
  *test_where = 0;
}

/* What cudnn.benchmark takes for that convolution in the first step, and no more behind it. */
static void search(const char *text, uint32_t cc, uint64_t expected) {
  play p;
  vram_step_options o;
  vram_report first, steady, plain;
  vram_error e;
  memset(&p, 0, sizeof p);
  memset(&o, 0, sizeof o);
  o.cc = cc;
  o.cudnn = VRAM_CUDNN_BENCHMARK;
  snprintf(test_where, sizeof test_where, "search, cc %u %.200s", (unsigned)cc, text);
  if (NEED(play_parse(&p, text, strlen(text), NULL, 0) == VRAM_OK)) {
    uint64_t need = vram_step_bytes(&p.graph, &o);
    void *scratch = malloc((size_t)need);
    o.first_step = 1;
    EQUAL(vram_step(&p.graph, &o, scratch, need, &first, &e), VRAM_OK);
    o.first_step = 0;
    EQUAL(vram_step(&p.graph, &o, scratch, need, &steady, &e), VRAM_OK);
    o.cudnn = VRAM_CUDNN_EXPECTED;
    EQUAL(vram_step(&p.graph, &o, scratch, need, &plain, &e), VRAM_OK);
    EQUAL(first.peak_allocated_bytes.expected,
          first.peak_blocks_bytes + (expected + 511) / 512 * 512);
    EQUAL(steady.peak_allocated_bytes.expected, plain.peak_allocated_bytes.expected);
    CHECK(steady.cudnn_bytes.upper >= expected &&
          steady.cudnn_bytes.upper > plain.cudnn_bytes.upper);
    EQUAL(steady.events, plain.events);
    free(scratch);
  }
  play_end(&p);
  *test_where = 0;
}

/* By hand: x and w where the result is written as it is stored, else all three, with channels in
   groups of 16 bytes; 36 values for each tile of 4x4 and each pair of channels; 32x17 complex ones
   for each tile of 30x30. cuDNN 9.26 itself asks for the copies and 16 bytes. */
static void workspaces(void) {
  static const char text[] =
      "dim N=4\ninput x f32 [N,64,32,32]\nconv2d y x out_channels=64 kernel_size=3 "
      "padding=1 bias=0\n";
  static const char strided[] =
      "dim N=4\ninput x f32 [N,64,32,32]\nconv2d y x out_channels=32 kernel_size=3 "
      "stride=2 bias=0\n";
  static const char few[] = "dim N=4\ninput x f32 [N,8,32,32]\nconv2d y x out_channels=8 "
                            "kernel_size=5 padding=2 bias=0\n";
  static const char odd[] = "dim N=4\ninput x f32 [N,126,32,32]\nconv2d y x out_channels=127 "
                            "kernel_size=3 stride=2 bias=0\n";
  static const char image[] = "dim N=4\ninput x f32 [N,3,32,32]\nconv2d y x out_channels=64 "
                              "kernel_size=3 padding=1 bias=0\n";
  static const char point[] =
      "dim N=4\ninput x f32 [N,64,32,32]\nconv2d y x out_channels=64 kernel_size=1 bias=0\n";
  static const char groups[] = "dim N=4\ninput x f32 [N,64,32,32]\nconv2d y x out_channels=64 "
                               "kernel_size=3 groups=4 bias=0\n";
  static const char line[] =
      "dim N=4\ninput x f32 [N,64,512]\nconv1d y x out_channels=64 kernel_size=1 bias=0\n";
  static const char solid[] = "dim N=4\ninput x f32 [N,64,8,8,8]\nconv3d y x out_channels=64 "
                              "kernel_size=3 bias=0\n";
  const uint64_t x = UINT64_C(4) * 64 * 1024;
  const uint64_t fft = UINT64_C(8) * 32 * 17 * (256 + 64);
  const uint64_t winograd = UINT64_C(144) * (UINT64_C(4) * 64 * 128 + 4096);
  const uint64_t copies = 4 * (x + 18432 + UINT64_C(4) * 32 * 225);
  const uint64_t even =
      UINT64_C(4) * (UINT64_C(4) * 128 * 1024 + UINT64_C(128) * 128 * 9 + UINT64_C(4) * 128 * 225);
  workspace(text, 90, VRAM_DTYPE_NONE, 4 * (2 * x + 36864), winograd);
  workspace(text, 80, VRAM_DTYPE_NONE, 4 * (x + 36864), winograd);
  workspace(text, 75, VRAM_DTYPE_NONE, UINT64_C(100) * 4096, winograd);
  workspace(text, 80, VRAM_BF16, 2 * (2 * x + 36864), winograd);
  search(text, 90, 4 * (3 * x + 36864));
  search(point, 80, 4 * (3 * x + 4096));
  search(point, 75, 4 * (2 * x + 4096));
  workspace(strided, 80, VRAM_DTYPE_NONE, 4 * (x + 18432), copies);
  workspace(strided, 90, VRAM_DTYPE_NONE, copies, copies);
  workspace(strided, 70, VRAM_DTYPE_NONE, 0, copies);
  workspace(few, 70, VRAM_DTYPE_NONE, 0, fft);
  workspace(odd, 80, VRAM_DTYPE_NONE, even, even);
  workspace(odd, 70, VRAM_DTYPE_NONE, 0, even);
  workspace(image, 70, VRAM_DTYPE_NONE, 0, UINT64_C(8) * 32 * 17 * (4 * 4 * 67 + 192));
  workspace(image, 80, VRAM_DTYPE_NONE, 0, UINT64_C(8) * 32 * 17 * (4 * 4 * 67 + 192));
  workspace(point, 80, VRAM_DTYPE_NONE, 4 * (x + 4096), 4 * (2 * x + 4096));
  workspace(point, 86, VRAM_DTYPE_NONE, 0, 4 * (2 * x + 4096));
  workspace(groups, 80, VRAM_BF16, 2 * (x + UINT64_C(4) * 64 * 900 + 9216),
            4 * (x + UINT64_C(4) * 64 * 900 + 9216));
  workspace(line, 90, VRAM_DTYPE_NONE, 4 * (x + 4096), 4 * (x + 4096));
  workspace(solid, 90, VRAM_DTYPE_NONE, UINT64_C(4) * (UINT64_C(4) * 64 * (512 + 216) + 110592),
            UINT64_C(4) * (UINT64_C(4) * 64 * (512 + 216) + 110592));
}

/* Bytes saved for backward and at the optimizer's peak, by rules. */
static void older(vram_rules rules, uint64_t saved, uint64_t optimizer) {
  static const char text[] = "input x f32 [8,64]\nlinear h x out_features=64 bias=0\n"
                             "softmax s h dim=1\nmean l s\n";
  play p;
  vram_step_options o;
  vram_report r;
  vram_error e;
  memset(&p, 0, sizeof p);
  memset(&o, 0, sizeof o);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adam;
  o.cc = 80;
  o.rules = rules;
  if (NEED(play_parse(&p, text, sizeof text - 1, NULL, 0) == VRAM_OK)) {
    uint64_t need = vram_step_bytes(&p.graph, &o);
    void *scratch = malloc((size_t)need);
    EQUAL(vram_step(&p.graph, &o, scratch, need, &r, &e), VRAM_OK);
    EQUAL(r.saved_bytes, saved);
    EQUAL(r.phase[VRAM_PHASE_OPTIMIZER].requested_peak_bytes -
              r.phase[VRAM_PHASE_OPTIMIZER].requested_bytes,
          optimizer);
    free(scratch);
  }
  play_end(&p);
}

/* By hand, 2,048 bytes an activation, 16,384 the weight: up to 1.10 softmax keeps its input beside
   its result; Adam runs in a loop, with sqrt and denom, up to 1.13, by lists of both in 2.0, by one
   since. */
static void olders(void) {
  older(VRAM_RULES_TORCH_1_10, 4096, 32768);
  older(VRAM_RULES_TORCH_1_11, 2048, 32768);
  older(VRAM_RULES_TORCH_1_13, 2048, 32768);
  older(VRAM_RULES_TORCH_2_0, 2048, 32768);
  older(VRAM_RULES_TORCH_2_1, 2048, 16384);
}

/* Names with rounds of loops, in buffers of every length. */
static void names(void) {
  static const char text[] =
      "input x f32 [2]\nloop 2 h=x\nloop 11 g=h\nrelu y g\nnext g=y\nnext h=g\n";
  static const char want[] = "y[1][10]";
  char name[16];
  uint32_t cap;
  play p;
  memset(&p, 0, sizeof p);
  if (NEED(play_parse(&p, text, sizeof text - 1, NULL, 0) == VRAM_OK))
    for (cap = 0; cap < sizeof name; cap++) {
      memset(name, 'z', sizeof name);
      EQUAL(vram_node_name(p.graph.last, name, cap), sizeof want - 1);
      if (!cap)
        EQUAL(name[0], 'z');
      else {
        size_t n = cap < sizeof want ? cap - 1 : sizeof want - 1;
        CHECK(!memcmp(name, want, n) && !name[n]);
      }
    }
  EQUAL(vram_node_name(NULL, name, sizeof name), 0);
  TEXT(name, "");
  play_end(&p);
}

/* Dtypes of less than a byte and blocks; integers want no gradient; many inputs. */
static void stored(void) {
  enum { INPUTS = 20000 };
  char *many = (char *)malloc((size_t)INPUTS * 24), *at = many;
  int i;
  bytes("input x quint4x2 [3,5]\ninput z f32 [2]\nlinear y z out_features=2\nsum s y\n", 24, 17,
        24);
  bytes("input x f32 [2,256]\nlinear y x out_features=4 dtype=q4_k\nmean l y\n", 4 * 144 + 16, 2048,
        16);
  bytes("input x f32 [2,4]\nlinear y x out_features=4 dtype=i8 bias=0\nmean l y\n", 16, 32, 0);
  bytes("input x f32 [2,4]\nlinear y x out_features=4 dtype=Float16 bias=0\nmean l y\n", 32, 32,
        32);
  for (i = 0; many && i < INPUTS; i++)
    at += sprintf(at, "input x%d f32 [2]\n", i);
  if (NEED(many != NULL)) {
    sprintf(at, "sum s x0\n");
    bytes(many, 0, (uint64_t)8 * INPUTS, 0);
  }
  free(many);
}

/* vram_graph_parse_bytes is enough (play_parse looks), also for lines that take much; and what
   stays of a text is no more than its nodes. */
static void memory(void) {
  static const struct {
    const char *text;
    uint32_t nodes,
        most; /* bytes a node, where pointers have 8: the node with an output 120, an input 8,
                 its name; of a linear layer half of two parameters and their keys; 0: any */
  } texts[] = {
      {"input x f32 [4,8,16]\nlstm y,h,c x hidden_size=8 num_layers=4096 bidirectional=1 "
       "proj_size=3\n",
       1, 0},
      {"dim L=900\ninput x f32 [4,8,16]\nloop 3\ngru y x hidden_size=8 num_layers=L*2\nnext\n", 3,
       0},
      {"input x f32 [2]\n{2000+loop 0 h=x\nnext h=h}\nrelu y h\n", 1, 0},
      {"input x f32 [1,4,9,9,9]\n{300+lp_pool3d y# x norm_type=2 kernel_size=2}\n", 4200, 0},
      {"input x f32 [9,2,3,4,5,6,7,8]\n{300+split a#,b#,c# x split_size_or_sections=2,3,4}\n", 300,
       0},
      {"input x f32 [8,16]\nloop 1000 h=x\nlinear f h out_features=16\nrelu r f\nnext h=r\n", 2000,
       186},
      {"input r f32 [8,16]\nlinear f r out_features=16\n{2000+relu r# f}\n", 2001, 137},
  };
  uint32_t i;
  for (i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *text;
    const size_t len = expand(texts[i].text, strlen(texts[i].text), &text);
    play p;
    memset(&p, 0, sizeof p);
    snprintf(test_where, sizeof test_where, "memory %d", (int)i);
    EQUAL(play_parse(&p, text, len, NULL, 0), VRAM_OK);
    EQUAL(p.graph.nnode, texts[i].nodes);
    if (texts[i].most && sizeof(void *) == 8)
      CHECK(p.graph.used <= (uint64_t)texts[i].most * texts[i].nodes);
    play_end(&p);
    free(text);
  }
  *test_where = 0;
}

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  if (argc > 2) {
    errors(argv[1], 1);
    return 0;
  }
  errors(argv[1], 0);
  calls();
  misuse();
  workspaces();
  olders();
  stored();
  names();
  memory();
  return test_done("test_graph");
}
