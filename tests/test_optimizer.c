/* Optimizers: what their step allocates against what torch.optim allocated, and what must hold for
   each of them with every option.
   usage: test_optimizer optimizers.txt */
#include "property.h"

/* One sum for each parameter, all of them added. */
static char *model(const char *const *shape, size_t n, int matrices) {
  char *text = (char *)malloc(n * 160 + 64);
  size_t len = 0, i, last = n;
  if (!text)
    abort();
  for (i = 0; i < n; i++) {
    const char *comma = strchr(shape[i], ',');
    if (matrices && (!comma || strchr(comma + 1, ',')))
      continue;
    len += (size_t)sprintf(text + len, "parameter p%u shape=[%s]\nsum s%u p%u\n", (unsigned)i,
                           shape[i], (unsigned)i, (unsigned)i);
    if (last == n)
      len += (size_t)sprintf(text + len, "clone t%u s%u\n", (unsigned)i, (unsigned)i);
    else
      len += (size_t)sprintf(text + len, "add t%u t%u s%u\n", (unsigned)i, (unsigned)last,
                             (unsigned)i);
    last = i;
  }
  return text;
}

static int impl_of(const char *name) {
  static const char *const names[] = {"default", "foreach", "loop", "fused"};
  static const vram_optim_impl impl[] = {(vram_optim_impl)0, VRAM_OPTIM_IMPL_FOREACH,
                                         VRAM_OPTIM_IMPL_LOOP, VRAM_OPTIM_IMPL_FUSED};
  size_t i;
  for (i = 0; i < 4; i++)
    if (!strcmp(name, names[i]))
      return (int)impl[i];
  return -1;
}

static void measured(const char *path) {
  static const char *const shape[] = {"1000,700", "700", "512,256,3,3", "512",
                                      "64,64",    "1",   "3000,1000",   "33,7"};
  char *file = play_file(path, NULL), *at, *end;
  play all, two;
  char *text;
  memset(&all, 0, sizeof all);
  memset(&two, 0, sizeof two);
  if (!NEED(file != NULL))
    return;
  text = model(shape, 8, 0);
  NEED(play_parse(&all, text, strlen(text), NULL, 0) == VRAM_OK);
  free(text);
  text = model(shape, 8, 1);
  NEED(play_parse(&two, text, strlen(text), NULL, 0) == VRAM_OK);
  free(text);
  for (at = file; *at; at = end) {
    char name[64], impl[16], peak[2][24], after[2][24];
    unsigned long long state;
    play *p;
    vram_step_options o;
    int first;
    end = at + strcspn(at, "\n");
    end += *end != 0;
    if (*at == '#')
      continue;
    if (!NEED(sscanf(at, "%63s %15s %llu %23s %23s %23s %23s", name, impl, &state, peak[0],
                     after[0], peak[1], after[1]) == 7))
      break;
    memset(&o, 0, sizeof o);
    o.train = 1;
    o.optimizer = vram_optimizer_from_name(name, &o.weight_decay);
    o.optim_impl = (vram_optim_impl)impl_of(impl);
    p = o.optimizer == VRAM_OPTIM_muon ? &two : &all;
    snprintf(test_where, sizeof test_where, "%s %s", name, impl);
    if (!NEED(o.optimizer != VRAM_OPTIM_COUNT))
      continue;
    for (first = 0; first < 2; first++) {
      uint64_t before;
      o.first_step = !first;
      if (!NEED(play_step(p, &o) == VRAM_OK)) {
        printf("  %s\n", p->error.text);
        break;
      }
      before = p->report.phase[VRAM_PHASE_BACKWARD].requested_bytes;
      if (*peak[first] != '-')
        EQUAL(p->report.phase[VRAM_PHASE_OPTIMIZER].requested_peak_bytes - before,
              strtoull(peak[first], NULL, 10));
      EQUAL(p->report.phase[VRAM_PHASE_OPTIMIZER].requested_bytes - before,
            strtoull(after[first], NULL, 10));
    }
    EQUAL(p->report.optimizer_bytes, state);
  }
  *test_where = 0;
  free(file);
  play_end(&all);
  play_end(&two);
}

/* Every optimizer with every option: the events agree with the report, with and without listener,
   or the combination is refused with a reason. */
static void every(void) {
  static const char *const shape[] = {
      "",      "1",       "7",         "5000",   "300000",    "64,64",    "1,5000", "5000,1",
      "33,7",  "7,33",    "3000,1000", "4,9000", "2,300000",  "300000,2", "50,600", "8,3,3,3",
      "16,48", "512,512", "6,130,17",  "1,1",    "100,20,10", "70000,3",  "3,70000"};
  static const int dtypes[] = {0, VRAM_BF16, VRAM_F16};
  static const uint32_t cc[] = {75, 90, 120};
  char *text = model(shape, sizeof shape / sizeof *shape, 0),
       *matrices = model(shape, sizeof shape / sizeof *shape, 1);
  play p, m;
  unsigned optim, impl, bits, ran = 0;
  memset(&p, 0, sizeof p);
  memset(&m, 0, sizeof m);
  if (!NEED(play_parse(&p, text, strlen(text), NULL, 0) == VRAM_OK) ||
      !NEED(play_parse(&m, matrices, strlen(matrices), NULL, 0) == VRAM_OK))
    return;
  for (optim = 0; optim < VRAM_OPTIM_COUNT; optim++)
    for (impl = 0; impl <= VRAM_OPTIM_IMPL_FUSED + 1u; impl++)
      for (bits = 0; bits < 2 * 2 * 2 * 3 * 2; bits++) {
        play *q = bits / 24 ? &m : &p;
        vram_step_options o;
        vram_result r;
        memset(&o, 0, sizeof o);
        o.train = 1;
        o.optimizer = (vram_optimizer)optim;
        o.optim_impl = (vram_optim_impl)impl;
        o.first_step = (int)(bits & 1);
        o.weight_decay = (int)(bits >> 1 & 1);
        o.master_weights = (int)(bits >> 2 & 1);
        o.dtype = dtypes[bits / 8 % 3];
        o.cc = cc[(optim + bits) % 3];
        if (o.dtype == VRAM_F16)
          o.amp = VRAM_F16;
        snprintf(test_where, sizeof test_where, "optimizer %u impl %u options %u", optim, impl,
                 bits);
        r = play_step(q, &o);
        if (r) {
          CHECK(q->error.text[0] && (r == VRAM_ERR_UNSUPPORTED || r == VRAM_ERR_VALUE));
          continue;
        }
        ran++;
        property_events(q, &o);
        property_again(q, &o);
      }
  *test_where = 0;
  CHECK(ran > 1000);
  free(text);
  free(matrices);
  play_end(&p);
  play_end(&m);
}

int main(int argc, char **argv) {
  if (argc > 1)
    measured(argv[1]);
  every();
  return test_done("test_optimizer");
}
