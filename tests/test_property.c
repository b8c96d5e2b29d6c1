/* Properties of every step of every text: see property.h. Loops against the written-out text.
   usage: test_property TEXT... */
#include "property.h"

static const char *const modes[] = {"infer",
                                    "train_fp32_sgd",
                                    "train_fp32_adamw.first",
                                    "train_amp_bf16_adamw",
                                    "train_amp_fp16_adamw",
                                    "train_bf16_adamw_fused",
                                    "train_fp32_adamw_accumulate3",
                                    "train_fp32_adamw_keepgrads",
                                    "train_fp32_adamw_ideal"};

static void one_text(const char *path) {
  static uint32_t number; /* so that each count of micro-batches comes */
  size_t len = 0, k;
  char *text = play_file(path, &len);
  vram_range ranges[64];
  play p, q;
  int grown = 0;
  memset(&p, 0, sizeof p);
  memset(&q, 0, sizeof q);
  if (!NEED(text != NULL))
    return;
  if (play_parse(&p, text, len, NULL, 0)) { /* test_step says so */
    free(text);
    play_end(&p);
    return;
  }
  if (p.graph.ndim && p.graph.dim[0].name) {
    vram_dim batch;
    batch.name = NULL;
    batch.value = p.graph.dim[0].value + 1;
    grown = play_parse(&q, text, len, &batch, 1) == VRAM_OK;
  }
  for (k = 0; k < sizeof modes / sizeof *modes; k++) {
    vram_step_options o;
    snprintf(test_where, sizeof test_where, "%s %s", path, modes[k]);
    if (!NEED(play_mode(modes[k], &o)) || !NEED(play_options(text, &p.graph, &o, ranges, 64)))
      break;
    if (play_step(&p, &o))
      continue;
    property_events(&p, &o);
    property_again(&p, &o);
    property_replayed(&p, &o);
    if (o.train) {
      const uint32_t n = 4 + (number++) % 11;
      vram_pool_options torch = VRAM_ZERO_INIT;
      property_folded(&p, &o, n, NULL);
      property_folded(&p, &o, n, &torch);
    }
    if (grown && NEED(play_step(&q, &o) == VRAM_OK))
      property_grown(&p, &q);
  }
  *test_where = 0;
  free(text);
  play_end(&p);
  play_end(&q);
}

/* Two texts of the same model: the same events in every mode. */
static void same_model(const char *a, const char *b) {
  play p, q;
  size_t k;
  memset(&p, 0, sizeof p);
  memset(&q, 0, sizeof q);
  if ((play_parse(&p, a, strlen(a), NULL, 0) && !TEXT(p.error.text, "")) ||
      (play_parse(&q, b, strlen(b), NULL, 0) && !TEXT(q.error.text, "")))
    return;
  for (k = 0; k < sizeof modes / sizeof *modes; k++) {
    vram_step_options o;
    play_mode(modes[k], &o);
    if (NEED(play_step(&p, &o) == VRAM_OK) && NEED(play_step(&q, &o) == VRAM_OK)) {
      snprintf(test_where, sizeof test_where, "%s", modes[k]);
      EQUAL(play_hash(&p), play_hash(&q));
      EQUAL(p.report.params_bytes, q.report.params_bytes);
      EQUAL(p.report.saved_bytes, q.report.saved_bytes);
      EQUAL(p.report.peak_requested_bytes, q.report.peak_requested_bytes);
    }
  }
  *test_where = 0;
  play_end(&p);
  play_end(&q);
}

static void loops(void) {
  same_model("dim N=4 D=3\ninput x f32 [N,10]\nloop D h=x\nlinear fc h out_features=10\nrelu r fc\n"
             "next h=r\nlinear y h out_features=5\ncross_entropy loss y\n",
             "dim N=4\ninput x f32 [N,10]\nlinear f0 x out_features=10\nrelu r0 f0\n"
             "linear f1 r0 out_features=10\nrelu r1 f1\nlinear f2 r1 out_features=10\nrelu r2 f2\n"
             "linear y r2 out_features=5\ncross_entropy loss y\n");
  /* two carried names that change places; a shared layer */
  same_model("input x f32 [4,6]\nlinear s x out_features=6\nloop 3 a=x b=s\n"
             "linear f a out_features=6 weights=s\nadd g f b\nnext a=b b=g\nadd y a b\nmean l y\n",
             "input x f32 [4,6]\nlinear s x out_features=6\n"
             "linear f0 x out_features=6 weights=s\nadd g0 f0 s\n"
             "linear f1 s out_features=6 weights=s\nadd g1 f1 g0\n"
             "linear f2 g0 out_features=6 weights=s\nadd g2 f2 g1\nadd y g1 g2\nmean l y\n");
  /* loops inside one another */
  same_model("input x f32 [4,6]\nloop 2 h=x\nloop 2 k=h\nlinear f k out_features=6\nnext k=f\n"
             "gelu g k\nnext h=g\nmean l h\n",
             "input x f32 [4,6]\nlinear a x out_features=6\nlinear b a out_features=6\ngelu c b\n"
             "linear d c out_features=6\nlinear e d out_features=6\ngelu f e\nmean l f\n");
  /* no round at all, one round */
  same_model("dim D=0\ninput x f32 [4,6]\nloop D h=x\nlinear f h out_features=7\nnext h=f\n"
             "linear y h out_features=2\nmean l y\n",
             "input x f32 [4,6]\nlinear y x out_features=2\nmean l y\n");
  same_model("input x f32 [4,6]\nloop 1 h=x\nlinear f h out_features=7\nnext h=f\n"
             "linear y h out_features=2\nmean l y\n",
             "input x f32 [4,6]\nlinear f x out_features=7\nlinear y f out_features=2\nmean l y\n");
  /* the same model by calls */
  {
    static const char text[] = "input x f32 [4,3,8,8]\nconv2d c x out_channels=5 kernel_size=3\n"
                               "batch_norm b c\nrelu r b inplace=1\nflatten f r start_dim=1\n"
                               "linear y f out_features=2\nlinear z y out_features=2 weights=y2\n";
    const int64_t size[4] = {4, 3, 8, 8};
    static uint64_t mem[8192];
    play p;
    size_t k;
    vram_graph *g;
    vram_value *x;
    vram_node *n;
    char whole[400];
    memset(&p, 0, sizeof p);
    snprintf(whole, sizeof whole, "%.*smean l y\n", (int)(strstr(text, "linear z") - text), text);
    if (!NEED(play_parse(&p, whole, strlen(whole), NULL, 0) == VRAM_OK))
      return;
    for (k = 0; k < sizeof modes / sizeof *modes; k++) {
      vram_step_options o;
      play q;
      memset(&q, 0, sizeof q);
      play_mode(modes[k], &o);
      g = &q.graph;
      vram_graph_init(g, mem, sizeof mem);
      x = vram_graph_input(g, "x", VRAM_F32, 4, size, 0);
      n = vram_graph_apply(g, VRAM_OP_conv2d, "c", &x, 1, "out_channels=5 kernel_size=3");
      x = n ? &n->out[0] : NULL;
      n = vram_graph_apply(g, VRAM_OP_batch_norm, "b", &x, 1, NULL);
      x = n ? &n->out[0] : NULL;
      n = vram_graph_apply(g, VRAM_OP_relu, "r", &x, 1, "inplace=1");
      x = n ? &n->out[0] : NULL;
      n = vram_graph_apply(g, VRAM_OP_flatten, "f", &x, 1, "start_dim=1");
      x = n ? &n->out[0] : NULL;
      n = vram_graph_apply(g, VRAM_OP_linear, "y", &x, 1, "out_features=2");
      x = n ? &n->out[0] : NULL;
      n = vram_graph_apply(g, VRAM_OP_mean, "l", &x, 1, NULL);
      if (NEED(n != NULL) && NEED(play_step(&p, &o) == VRAM_OK) &&
          NEED(play_step(&q, &o) == VRAM_OK))
        EQUAL(play_hash(&p), play_hash(&q));
      q.mem = NULL;
      play_end(&q);
    }
    play_end(&p);
  }
}

/* einsum unsqueezes axes that an ellipsis lacks. */
static void ellipses(void) {
  static const char head[] = "input x f32 [1,3,1,2,7] grad=1\ninput u f32 [7,2,1] grad=1\n"
                             "transpose a u dim0=0 dim1=2\n";
  char lacks[400], full[400];
  snprintf(lacks, sizeof lacks, "%seinsum y x a equation=...b,...b\nmean l y\n", head);
  snprintf(full, sizeof full,
           "%sunsqueeze c a dim=0\nunsqueeze d c dim=0\neinsum y x d equation=...b,...b\n"
           "mean l y\n",
           head);
  same_model(lacks, full);
}

int main(int argc, char **argv) {
  int i;
  loops();
  ellipses();
  for (i = 1; i < argc; i++)
    one_text(argv[i]);
  return test_done("test_property");
}
