/* Steps with the last batch of an epoch, evaluations between steps and a dry run before them: what
   holds for every model, and what is refused. Rows of tests/golden/loops are what PyTorch was
   measured with. */
#include "play.h"

static const char text[] =
    "dim N=6\ninput x f32 [N,3,9,9] grad=1\ninput t i64 [N]\n"
    "conv2d c x out_channels=5 kernel_size=3\nbatch_norm b c\n"
    "relu r b inplace=1\nflatten f r start_dim=1\nlinear a f out_features=40\n"
    "dropout d a p=0.2\nlinear y d out_features=7\nkeep y\n"
    "cross_entropy loss y t\nkeep loss\n";

static void parse(play *p, const char *from, int64_t batch) {
  vram_dim dim;
  memset(p, 0, sizeof *p);
  dim.name = NULL;
  dim.value = batch;
  NEED(play_parse(p, from, strlen(from), &dim, batch > 0) == VRAM_OK);
}

/* A last batch as large as the others: three times the same step. */
static void three_steps(vram_step_options o) {
  play one, three, other;
  size_t i;
  parse(&one, text, 6);
  parse(&three, text, 6);
  parse(&other, text, 6);
  EQUAL(play_step(&one, &o), VRAM_OK);
  o.last_batch = &other.graph;
  EQUAL(play_step(&three, &o), VRAM_OK);
  if (!NEED(three.count == 3 * one.count))
    return;
  for (i = 0; i < three.count; i++) {
    const play_event *a = one.event + i % one.count, *b = three.event + i;
    CHECK(a->bytes == b->bytes && a->action == b->action && a->phase == b->phase);
  }
  EQUAL(three.report.peak_requested_bytes, one.report.peak_requested_bytes);
  EQUAL(three.report.phase[VRAM_PHASE_END].requested_bytes,
        one.report.phase[VRAM_PHASE_END].requested_bytes);
  play_end(&one);
  play_end(&three);
  play_end(&other);
}

/* An evaluation is inference between inputs that come and all that goes. */
static void evaluation(vram_step_options o, int64_t batch) {
  play train, infer, other;
  vram_live live[256];
  vram_step_options inference;
  uint64_t sum = 0;
  uint32_t n = 0, k;
  size_t i, at = 0;
  int64_t left = 0;
  memset(&inference, 0, sizeof inference);
  inference.amp = o.amp;
  parse(&train, text, 6);
  parse(&infer, text, batch);
  parse(&other, text, batch);
  o.evaluation = &other.graph;
  EQUAL(play_step(&infer, &inference), VRAM_OK);
  EQUAL(play_step(&train, &o), VRAM_OK);
  for (i = 0; i < train.count; i++) {
    const play_event *e = train.event + i;
    if (e->phase != VRAM_PHASE_EVALUATION)
      continue;
    left += e->action == VRAM_ACTION_ALLOC ? (int64_t)e->bytes : -(int64_t)e->bytes;
    if (e->action == VRAM_ACTION_ALLOC && e->category != VRAM_CATEGORY_INPUTS) {
      while (at < infer.count && infer.event[at].action != VRAM_ACTION_ALLOC)
        at++;
      if (!NEED(at < infer.count))
        return;
      EQUAL(e->bytes, infer.event[at++].bytes);
    }
  }
  CHECK(at);
  EQUAL(left, 0);
  EQUAL(train.report.phase[VRAM_PHASE_EVALUATION].requested_bytes,
        train.report.phase[VRAM_PHASE_END].requested_bytes);
  if (batch > 600)
    EQUAL(train.report.peak_phase, VRAM_PHASE_EVALUATION);
  EQUAL(vram_step_live(&train.graph, &o, train.scratch, train.scratch_bytes, &train.report, live,
                       256, &n),
        VRAM_OK);
  for (k = 0; k < n && k < 256; k++)
    sum += live[k].bytes;
  EQUAL(sum, train.report.peak_requested_bytes);
  play_end(&train);
  play_end(&infer);
  play_end(&other);
}

/* max_memory_reserved() of PyTorch 2.15 on a pretended H100 whose cuDNN takes no workspaces: four
   steps, and four behind a forward pass of two samples. */
static void dry_run(void) {
  static const char net[] =
      "dim N=12\ninput x f32 [N,3,108,108]\ninput t i64 [N]\n"
      "conv2d c0 x out_channels=40 kernel_size=3 padding=1\nbatch_norm b0 c0\ngelu g0 b0\n"
      "conv2d c1 g0 out_channels=61 kernel_size=3 padding=1\nbatch_norm b1 c1\ngelu g1 b1\n"
      "conv2d c2 g1 out_channels=95 kernel_size=3 padding=1\nbatch_norm b2 c2\ngelu g2 b2\n"
      "conv2d c3 g2 out_channels=148 kernel_size=3 padding=1\nbatch_norm b3 c3\ngelu g3 b3\n"
      "adaptive_avg_pool2d pool g3 output_size=1\nflatten flat pool start_dim=1\n"
      "linear fc flat out_features=104\nsoftmax s fc dim=1\ncross_entropy loss s t\n";
  static const uint64_t reserved[2] = {702545920, 788529152};
  vram_pool_options pool;
  vram_step_options o;
  play p, other;
  int i;
  memset(&pool, 0, sizeof pool);
  memset(&o, 0, sizeof o);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adam;
  o.cudnn = VRAM_CUDNN_NONE;
  o.replay = &pool;
  parse(&other, net, 2);
  for (i = 0; i < 2; i++) {
    o.dry_run = i ? &other.graph : NULL;
    parse(&p, net, 12);
    EQUAL(play_step(&p, &o), VRAM_OK);
    EQUAL(p.report.peak_reserved_bytes, reserved[i]);
    play_end(&p);
  }
  play_end(&other);
}

static void refuse(const vram_step_options *o, const char *why) {
  play p;
  parse(&p, text, 6);
  EQUAL(play_step(&p, o), VRAM_ERR_VALUE);
  TEXT(p.error.text, why);
  play_end(&p);
}

static void refusals(void) {
  const char *const wider = "input x f32 [5,3,9,9] grad=1\ninput t i64 [5]\nconv2d c x "
                            "out_channels=6 kernel_size=3\nmean loss c\n";
  play large, other;
  vram_step_options o;
  memset(&o, 0, sizeof o);
  o.train = 1;
  parse(&large, text, 7);
  parse(&other, wider, 0);
  o.last_batch = &large.graph;
  refuse(&o, "the last batch of an epoch is larger than the others");
  o.first_step = 1;
  refuse(&o, "a first step has no last batch of an epoch behind it (expected a steady step)");
  o.first_step = 0;
  o.last_batch = &other.graph;
  refuse(&o, "the last batch is not one of this model: its nodes or parameters differ");
  o.last_batch = NULL;
  o.evaluation = &other.graph;
  refuse(&o, "the model that is evaluated is not the one that is trained: its nodes or parameters "
             "differ");
  o.evaluation = NULL;
  o.dry_run = &large.graph;
  refuse(&o,
         "a dry run goes with no `keep` and no `backward` line and no recurrent net with dropout");
  o.dry_run = NULL;
  o.zero_grad_end = o.keep_grads = 1;
  refuse(&o, "zero_grad() behind the optimizer's step goes with no other zero_grad()");
  o.keep_grads = 0;
  o.optimizer_in_backward = 1;
  refuse(&o, "an optimizer in backward leaves no gradients to zero");
  play_end(&large);
  play_end(&other);
}

int main(void) {
  static const int64_t batches[] = {1, 6, 40000};
  vram_step_options o;
  uint32_t i;
  memset(&o, 0, sizeof o);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  for (i = 0; i < 12; i++) {
    o.amp = i & 1 ? VRAM_BF16 : VRAM_DTYPE_NONE;
    o.accumulate = i & 2 ? 3 : 0;
    o.zero_grad_late = i >= 4 && i < 8;
    o.zero_grad_end = i >= 8;
    three_steps(o);
    evaluation(o, batches[i % 3]);
  }
  dry_run();
  refusals();
  return test_done("test_epoch");
}
