/* Checkpointing: what the options accept, what they refuse, what holds for every split. The
   measured streams are cases of test_step. */
#include "play.h"

static void chain(char *text, size_t cap, int layers) {
  size_t n = (size_t)snprintf(text, cap, "input x f32 [8,16]\n");
  int i;
  for (i = 0; i < layers; i++)
    n += (size_t)snprintf(text + n, cap - n, "linear f%d %s%d out_features=16\ntanh t%d f%d\n", i,
                          i ? "t" : "x", i ? i - 1 : 0, i, i);
  snprintf(text + n, cap - n, "mean loss t%d\n", layers - 1);
  if (layers) { /* the end and its 0 */
    char *at = strstr(text, "f0 x0") + 4;
    memmove(at, at + 1, (size_t)(text + strlen(text) - at));
  }
}

static void parse(play *p, const char *text) {
  memset(p, 0, sizeof *p);
  NEED(play_parse(p, text, strlen(text), NULL, 0) == VRAM_OK);
}

static void train(vram_step_options *o) {
  memset(o, 0, sizeof *o);
  o->train = 1;
}

/* What the step says to these options. */
static void refuse(const char *text, const char *nodes, uint32_t segments, int reentrant,
                   const char *why) {
  play p;
  vram_step_options o;
  vram_range r[8];
  vram_error e;
  vram_result result = VRAM_OK;
  parse(&p, text);
  train(&o);
  o.checkpoint_segments = segments;
  o.reentrant = reentrant;
  o.checkpoint = r;
  memset(&e, 0, sizeof e);
  if (nodes)
    result = vram_graph_ranges(&p.graph, nodes, r, 8, &o.ncheckpoint, &e);
  if (!result) {
    result = play_step(&p, &o);
    e = p.error;
  }
  CHECK(result != VRAM_OK);
  EQUAL(e.code, result);
  TEXT(e.text, why);
  play_end(&p);
}

static void errors(void) {
  static const char plain[] = "input x f32 [4,8]\nlinear a x out_features=8\ntanh b a\n"
                              "linear c b out_features=8\ntanh d c\nmean loss d\n";
  static const char loop[] = "input x f32 [4,8]\nloop 2 h=x\nlinear a h out_features=8\n"
                             "tanh b a\nnext h=b\nmean loss h\n";
  static const char begin[] = "input x f32 [4,8]\nlinear a x out_features=8\nrelu b a inplace=1\n"
                              "linear c b out_features=8\nmean loss c\n";
  static const char after[] = "input x f32 [4,8]\nlinear a x out_features=8\ntanh b a\n"
                              "add c a b inplace=1\nlinear d c out_features=8\nmean loss d\n";
  static const char view[] = "input x f32 [4,8]\nlinear a x out_features=8\ntanh b a\n"
                             "reshape c b shape=[32]\nrelu d c inplace=1\nmean loss d\n";
  static const char stopped[] = "input x f32 [4,8]\nlinear a x out_features=8\ndetach b a\n"
                                "linear c a out_features=8\nadd d b c\nmean loss d\n";
  refuse(plain, "a", 0, 0, "a range is A..B, names of nodes, found: a");
  refuse(plain, "a..", 0, 0, "a range is A..B, names of nodes, found: a..");
  refuse(plain, "..a", 0, 0, "a range is A..B, names of nodes, found: ..a");
  refuse(plain, "a..b,", 0, 0, "a range is A..B, names of nodes, found: ");
  refuse(plain, "q..b", 0, 0, "no node has the name q");
  refuse(plain, "a..b,c..q", 0, 0, "no node has the name q");
  refuse(plain, "x..b", 0, 0, "no node has the name x");
  refuse(plain, "b..a", 0, 0, "a range whose end is not behind its beginning: b..a");
  refuse(plain, "a..c,b..d", 0, 0,
         "a checkpointed range that begins inside another one and ends outside (node b)");
  refuse(plain, "a..b,b..c", 0, 0,
         "a checkpointed range that begins inside another one and ends outside (node b)");
  refuse(plain, "a[0]..b", 0, 0, "no node has the name a[0]");
  refuse(loop, "a[2]..b[2]", 0, 0, "no node has the name a[2]");
  refuse(loop, "a[0][0]..b", 0, 0, "no node has the name a[0][0]");
  refuse(loop, "a..loss", 0, 0, "a range begins once more before it ends: a..loss");
  refuse(plain, NULL, 5, 0, "more checkpoint segments than the chain has functions");
  refuse(plain, NULL, UINT32_MAX, 1, "more checkpoint segments than the chain has functions");
  refuse(plain, "a..b", 2, 0, "checkpointed segments and ranges exclude each other");
  refuse(begin, "b..c", 0, 0,
         "an in-place operation overwrites an input of a checkpointed part: PyTorch cannot "
         "recompute it (node b)");
  refuse(begin, "b..c", 0, 1,
         "an in-place operation overwrites an input of a checkpointed part: PyTorch cannot "
         "recompute it (node b)");
  refuse(after, "b..b", 0, 0,
         "an in-place operation overwrites an input of a checkpointed part: PyTorch cannot "
         "recompute it (node b)");
  refuse(view, "b..c", 0, 1,
         "an output of a reentrant checkpoint is a view that is overwritten in place: PyTorch "
         "stops with an error (node d)");
  refuse(stopped, "b..b", 0, 1,
         "no output of a checkpointed part requires a gradient: PyTorch stops with an error in "
         "the reentrant form (node b)");
}

/* Without checkpointing: norms over one value, views that cannot be. */
static void one_value(void) {
  static const char why[] =
      "a norm over one value: PyTorch stops with an error (expected more than 1 value) (node n)";
  refuse("input x f32 [1,3,1,1]\nbatch_norm n x\nmean l n\n", NULL, 0, 0, why);
  refuse("input x f32 [1,6,1]\ngroup_norm n x num_groups=6\nmean l n\n", NULL, 0, 0, why);
  refuse("input x f32 [4,3,1]\ninstance_norm n x\nmean l n\n", NULL, 0, 0, why);
  refuse("input x f32 [4,6]\nt a x\nview b a shape=[24]\nmean l b\n", NULL, 0, 0,
         "a view that the strides do not allow: PyTorch stops with an error (reshape copies) "
         "(node b)");
}

/* Without checkpointing: in-place operations on what backward needs, and those that may be. */
static void overwritten(void) {
  static const char why[] = "what backward needs was overwritten in place: PyTorch stops with an "
                            "error (modified by an inplace operation) (node b)";
  static const char *const bad[] = {
      "input x f32 [4] grad=1\nsin a x\nexp b a\nadd c b scalar=1 inplace=1\nmean l c\n",
      "input x f32 [4] grad=1\nsin a x\nsin b a\nrelu c a inplace=1\nadd d b c\nmean l d\n",
      "input x f32 [4] grad=1\ninput z f32 [4]\nmul b x z\nadd c z scalar=1 inplace=1\n"
      "mean l b\n",
      "input x f32 [4] grad=1\nsin a x\nrelu b a inplace=1\nexp c b inplace=1\nadd d c x\n"
      "mean l d\n",
      "input x f32 [4,2] grad=1\nsin a x\nexp b a\nselect v b dim=1 index=0\n"
      "mul w v scalar=1 inplace=1\nmean l b\n"};
  static const char *const good[] = {
      "input x f32 [4] grad=1\nsin a x\nadd b a scalar=1\nadd c b scalar=1 inplace=1\nmean l c\n",
      "input x f32 [4] grad=1\nsin a x\nrelu b a inplace=1\nadd d b x\nmean l d\n",
      "input x f32 [4] grad=1\nexp b x\nadd c b scalar=1 inplace=1\nmean l x\n",
      ("input x f32 [4] grad=1\ninput z f32 [4]\nadd c z scalar=1 inplace=1\nmul b x z\n"
       "mean l b\n")};
  play p;
  vram_step_options o;
  size_t i;
  for (i = 0; i < sizeof bad / sizeof *bad; i++)
    refuse(bad[i], NULL, 0, 0, why);
  refuse("input x f32 [4,3] grad=1\ninput i i64 [2,3]\nsin a x\nscatter b a i a dim=0\nmean l b\n",
         NULL, 0, 0,
         "scatter of a source that is larger than the index: PyTorch gives its gradient a wrong "
         "shape and stops with an error (node b)");
  for (i = 0; i < sizeof good / sizeof *good; i++) {
    parse(&p, good[i]);
    train(&o);
    o.accumulate = 3;
    snprintf(test_where, sizeof test_where, "text %u", (unsigned)i);
    EQUAL(play_step(&p, &o), VRAM_OK);
    play_end(&p);
  }
  test_where[0] = 0;
}

/* Without checkpointing: texts of whole training steps. */
static void training_steps(void) {
  static const char net[] = "input x f32 [4,8]\nlinear a x out_features=8\ntanh b a\nmean l b\n"
                            "mean m b\n%s";
  static const struct {
    const char *lines, *why;
  } bad[] = {
      {"backward l\nbackward m\n",
       "backward through a graph a second time: PyTorch stops with an error (expected retain=1 on "
       "the backward line before) (node b)"},
      {"backward l retain=1\nbackward m\nbackward l\n",
       "backward through a graph a second time: PyTorch stops with an error (expected retain=1 on "
       "the backward line before) (node b)"},
      {"backward l\nstep q\n", "a step line that names no trainable parameter"},
      {"zero_grad a q\nzero_grad q\nbackward l\n",
       "a zero_grad line that names no trainable parameter"},
      {"step\n", "step or zero_grad lines without a backward line"},
      {"backward l\nupdate\n", "an update line without a step line"},
      {"freeze q\nbackward l\n", "a freeze or unfreeze line that names no trainable parameter"},
      {"freeze a\nlinear c x out_features=8 weights=a\nmean d c\nbackward d\n",
       "backward of a value that needs no gradient: PyTorch stops with an error (node d)"},
      {"detach d m\nbackward d\n",
       "backward of a value that needs no gradient: PyTorch stops with an error (node d)"},
      {"checkpoint b\nexp e b\nend e\nmean f e\nbackward f retain=1\nbackward m\n",
       "retain=1 where backward runs through a checkpoint block (node e)"}};
  static const char *const good[] = {
      "backward l retain=1\nbackward m\nstep a\n",
      "zero_grad\nbackward l\nstep\n",
      "add n l m\nbackward n\n",
      "backward l scale=1\nstep\nupdate\n",
      "freeze\nbackward l\nunfreeze\nstep\n",
      "input z f32 [4] grad=1\nadd c z scalar=1\nmean n c\nmean o c\nbackward n\nbackward o\n"};
  char text[512];
  play p;
  vram_step_options o;
  size_t i;
  for (i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(text, sizeof text, net, bad[i].lines);
    refuse(text, NULL, 0, 0, bad[i].why);
  }
  snprintf(text, sizeof text, net, "backward l\n");
  refuse(text, "a..b", 0, 0,
         "checkpointed segments or ranges of a text that has backward lines (expected checkpoint "
         "blocks)");
  for (i = 0; i < sizeof good / sizeof *good; i++) {
    snprintf(text, sizeof text, net, good[i]);
    parse(&p, text);
    train(&o);
    snprintf(test_where, sizeof test_where, "text %u", (unsigned)i);
    EQUAL(play_step(&p, &o), VRAM_OK);
    o.accumulate = 3;
    EQUAL(play_step(&p, &o), VRAM_OK);
    play_end(&p);
  }
  test_where[0] = 0;
}

/* Without checkpointing: leaves that are written to, themselves or through a view. */
static void leaves_overwritten(void) {
  static const char why[] = "a parameter or input that needs a gradient is overwritten in place: "
                            "PyTorch refuses (node r)";
  refuse("input x f32 [4] grad=1\nrelu r x inplace=1\nmean l r\n", NULL, 0, 0, why);
  refuse("parameter w shape=[4,4]\nrelu r w inplace=1\nmean l r\n", NULL, 0, 0, why);
  refuse("input x f32 [4,2] grad=1\nview v x shape=[8]\nrelu r v inplace=1\nmean l r\n", NULL, 0, 0,
         why);
  refuse("parameter w shape=[4,4]\nselect v w dim=0 index=1\nrelu r v inplace=1\nmean l w\n", NULL,
         0, 0, why);
}

static void node_errors(void) {
  play p;
  vram_step_options o;
  vram_range r[2];
  const vram_node *n[6];
  int i, k;
  parse(&p, "input x f32 [4,8]\nlinear a x out_features=8\ntanh b a\nlinear c b out_features=8\n"
            "tanh d c\nmean loss d\n");
  n[0] = p.graph.first;
  for (i = 1; i < 5; i++)
    n[i] = n[i - 1]->next;
  n[5] = NULL;
  train(&o);
  o.checkpoint = r;
  for (i = 0; i < 6;
       i++) /* every pair: accepted if in order, and with n2..n3 before or around it */
    for (k = 0; k < 6; k++) {
      r[0].first = n[i], r[0].last = n[k];
      o.ncheckpoint = 1;
      EQUAL(play_step(&p, &o), i < 5 && k < 5 && i <= k ? VRAM_OK : VRAM_ERR_VALUE);
      r[1].first = n[2], r[1].last = n[3];
      o.ncheckpoint = 2;
      EQUAL(play_step(&p, &o),
            i < 5 && k < 5 && i <= k && (k < 2 || (i <= 2 && k >= 3)) ? VRAM_OK : VRAM_ERR_VALUE);
    }
  o.ncheckpoint = UINT32_MAX;
  EQUAL(play_step(&p, &o), VRAM_ERR_VALUE);
  o.train = 0; /* under no_grad nothing is checkpointed */
  EQUAL(play_step(&p, &o), VRAM_OK);
  play_end(&p);
}

static void names(void) {
  play p;
  vram_range r[8];
  uint32_t count;
  vram_error e;
  parse(&p, "input x f32 [4,8]\nlinear s x out_features=8\nloop 3 h=s\nlinear a h out_features=8\n"
            "softsign b a\nloop 2 q=b\nexp c q\nnext q=c\nnext h=q\nmean loss h\n");
  EQUAL(vram_graph_ranges(&p.graph, "a..b", r, 8, &count, &e), VRAM_OK);
  EQUAL(count, 3);
  CHECK(r[0].first->index < r[1].first->index && r[1].first->index < r[2].first->index);
  EQUAL(vram_graph_ranges(&p.graph, "a..b", r, 1, &count, NULL), VRAM_OK);
  EQUAL(count, 3);
  EQUAL(vram_graph_ranges(&p.graph, "a[1]..b[1],c[2][0]..c[2][1],s..s", r, 8, &count, &e), VRAM_OK);
  EQUAL(count, 3);
  EQUAL(r[0].first->index, 0);
  EQUAL(vram_graph_ranges(&p.graph, "c..c", r, 8, &count, &e), VRAM_OK);
  EQUAL(count, 6);
  EQUAL(vram_graph_ranges(&p.graph, "c[1][0]..c[1][0],a..b,s..c[2][1],s..s", r, 8, &count, &e),
        VRAM_OK);
  EQUAL(count, 6);
  CHECK(r[0].first == r[1].first && r[1].first == r[1].last); /* outer ones first */
  CHECK(r[0].last->index > r[5].last->index && r[4].first == r[4].last);
  play_end(&p);
}

/* A block by calls is the block of the text, and one that does not end is an error of the step. */
static void blocks(void) {
  static const char text[] =
      "input x f32 [4,8]\nlinear a x out_features=8\ncheckpoint a holds=x reentrant=1\n"
      "linear b a out_features=16\ntanh c b\nend c\nmean loss c\n";
  static uint64_t mem[4096];
  const int64_t size[2] = {4, 8};
  play p, q;
  vram_step_options o;
  vram_value *v[2], *c;
  parse(&p, text);
  train(&o);
  EQUAL(play_step(&p, &o), VRAM_OK);
  memset(&q, 0, sizeof q);
  vram_graph_init(&q.graph, mem, sizeof mem);
  v[1] = vram_graph_input(&q.graph, "x", VRAM_F32, 2, size, 0);
  v[0] = vram_node_output(
      vram_graph_apply(&q.graph, VRAM_OP_linear, "a", &v[1], 1, "out_features=8"), 0);
  EQUAL(vram_graph_checkpoint(&q.graph, v, 2, 1, "reentrant=1"), VRAM_OK);
  c = vram_node_output(vram_graph_apply(&q.graph, VRAM_OP_linear, "b", v, 1, "out_features=16"), 0);
  c = vram_node_output(vram_graph_apply(&q.graph, VRAM_OP_tanh, "c", &c, 1, NULL), 0);
  EQUAL(vram_node_recomputed(c->node), 1);
  EQUAL(play_step(&q, &o), VRAM_ERR_VALUE);
  TEXT(q.error.text, "a checkpoint block that has not ended");
  EQUAL(vram_graph_checkpoint_end(&q.graph, &c, 1), VRAM_OK);
  c = vram_node_output(vram_graph_apply(&q.graph, VRAM_OP_mean, "loss", &c, 1, NULL), 0);
  EQUAL(vram_node_recomputed(c->node), 0);
  EQUAL(play_step(&q, &o), VRAM_OK);
  EQUAL(q.report.peak_requested_bytes, p.report.peak_requested_bytes);
  EQUAL(q.report.saved_bytes, p.report.saved_bytes);
  EQUAL(q.report.events, p.report.events);
  EQUAL(vram_graph_checkpoint(&q.graph, v, 2, 3, NULL), VRAM_ERR_VALUE);
  q.graph.mem = NULL; /* it is not on the heap */
  play_end(&q);
  play_end(&p);
}

/* Ranges of the options beside blocks of the text: inside, around, and across, which is refused. */
static void blocks_and_ranges(void) {
  static const char text[] =
      "input x f32 [4,8]\nlinear a x out_features=8\ncheckpoint a\nlinear b a out_features=16\n"
      "tanh c b\nlinear d c out_features=8\nend d\ntanh e d\nlinear f e out_features=8\n"
      "mean loss f\n";
  static const char lost[] =
      "input x f32 [4,8]\nlinear a x out_features=8\nlinear g x out_features=8\n"
      "sigmoid h g\ncheckpoint a holds=h reentrant=1\nmul b a h\nend b\nmean loss b\n";
  static const char *const good[] = {"b..c", "a..e", "b..d", "e..f", "a..d,e..f"};
  play p, plain;
  vram_step_options o;
  vram_range r[8];
  vram_error e;
  size_t i;
  int form;
  parse(&p, text);
  train(&o);
  EQUAL(play_step(&p, &o), VRAM_OK);
  o.checkpoint = r;
  for (form = 0; form < 2; form++)
    for (i = 0; i < sizeof good / sizeof *good; i++) {
      o.reentrant = form;
      snprintf(test_where, sizeof test_where, "%s, form %d", good[i], form);
      EQUAL(vram_graph_ranges(&p.graph, good[i], r, 8, &o.ncheckpoint, &e), VRAM_OK);
      EQUAL(play_step(&p, &o), VRAM_OK);
    }
  *test_where = 0;
  refuse(text, "a..c", 0, 0,
         "a checkpointed range that begins inside another one and ends outside (node b)");
  refuse(lost, NULL, 0, 0,
         "a reentrant checkpoint whose function refers to a tensor that needs a gradient and is "
         "none of its arguments: PyTorch's backward inside backward goes on from it, and stops "
         "with an error when it comes twice (node b)");
  train(&o); /* segments end outside of blocks: a | block | e | f */
  o.checkpoint_segments = 4;
  EQUAL(play_step(&p, &o), VRAM_OK);
  o.checkpoint_segments = 5;
  EQUAL(play_step(&p, &o), VRAM_ERR_VALUE);
  parse(&plain, "input x f32 [4,8]\nlinear a x out_features=8\nlinear b a out_features=16\n"
                "tanh c b\nmean loss c\n");
  memset(&o, 0, sizeof o); /* blocks do nothing in inference */
  EQUAL(play_step(&p, &o), VRAM_OK);
  EQUAL(p.report.saved_bytes, 0);
  play_end(&plain);
  play_end(&p);
}

/* The function of a reentrant range may refer to what wants no gradient, which lives as long as the
   loss; what wants one is an argument. The block is as measured. */
static void range_refers(void) {
  static const char text[] = "input x f32 [4,8]\nlinear a x out_features=8\nsigmoid h x\n%s"
                             "mul b a h\ntanh c b\n%sdrop h\nmean loss c\n";
  char with[512], without[512];
  play block, range;
  play_phase a[VRAM_PHASE_COUNT], b[VRAM_PHASE_COUNT];
  vram_step_options o;
  vram_range r[1];
  vram_error e;
  snprintf(with, sizeof with, text, "checkpoint a holds=h reentrant=1\n", "end c\n");
  snprintf(without, sizeof without, text, "", "");
  parse(&block, with);
  parse(&range, without);
  train(&o);
  EQUAL(play_step(&block, &o), VRAM_OK);
  o.checkpoint = r;
  o.reentrant = o.by_keyword = 1;
  EQUAL(vram_graph_ranges(&range.graph, "b..c", r, 1, &o.ncheckpoint, &e), VRAM_OK);
  EQUAL(play_step(&range, &o), VRAM_OK);
  play_count(&block, a);
  play_count(&range, b);
  EQUAL(b[VRAM_PHASE_BACKWARD].end, a[VRAM_PHASE_BACKWARD].end);
  EQUAL(b[VRAM_PHASE_END].end, a[VRAM_PHASE_END].end);
  EQUAL(range.report.peak_requested_bytes, block.report.peak_requested_bytes);
  EQUAL(range.report.events, block.report.events);
  play_end(&block);
  play_end(&range);
}

/* Any number of segments: everything is freed but gradients; what is kept and the scratch do not
   grow with the number of recomputed parts. */
static void segments(void) {
  static char text[1 << 16];
  play p, plain;
  vram_step_options o;
  play_phase a[VRAM_PHASE_COUNT], b[VRAM_PHASE_COUNT];
  uint64_t scratch[2] = {0, 0};
  uint32_t k;
  int form;
  chain(text, sizeof text, 96);
  parse(&p, text);
  parse(&plain, text);
  train(&o);
  EQUAL(play_step(&plain, &o), VRAM_OK);
  play_count(&plain, a);
  for (form = 0; form < 2; form++)
    for (k = 1; k <= 192; k = k < 8 ? k + 1 : k * 2) {
      o.checkpoint_segments = k;
      o.reentrant = form;
      snprintf(test_where, sizeof test_where, "%u segments, form %d", (unsigned)k, form);
      if (!NEED(play_step(&p, &o) == VRAM_OK))
        break;
      play_count(&p, b);
      if (!form) {
        EQUAL(b[VRAM_PHASE_BACKWARD].end, a[VRAM_PHASE_BACKWARD].end);
        EQUAL(b[VRAM_PHASE_END].end, a[VRAM_PHASE_END].end);
        if (k <= 64) /* more than one function each */
          CHECK(p.report.saved_bytes <= plain.report.saved_bytes);
      }
      CHECK(p.report.scratch_used <= vram_step_bytes(&p.graph, &o));
      if (k == 2)
        scratch[form] = p.report.scratch_used;
      if (k > 2)
        CHECK(p.report.scratch_used < scratch[form] + (uint64_t)256 * k);
    }
  *test_where = 0;
  play_end(&p);
  play_end(&plain);
}

int main(void) {
  errors();
  one_value();
  overwritten();
  leaves_overwritten();
  training_steps();
  node_errors();
  names();
  blocks();
  blocks_and_ranges();
  range_refers();
  segments();
  return test_done("test_checkpoint");
}
