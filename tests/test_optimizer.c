/* Optimizers: what their step allocates against what torch.optim allocated, and what must hold for
   each of them with every option.
   usage: test_optimizer optimizers.txt optimizer_steps.txt */
#include "property.h"

/* What a step's optimizer allocated and freed: a size after the other, that of a free with the
   number of the allocation. */
static uint64_t optimizer_hash(const play *p, uint64_t *count) {
  uint64_t hash = PLAY_FNV;
  int64_t first = INT64_MAX;
  size_t i;
  *count = 0;
  for (i = 0; i < p->count; i++) {
    const play_event *e = &p->event[i];
    if (e->phase != VRAM_PHASE_OPTIMIZER)
      continue;
    if (first == INT64_MAX)
      first = e->id;
    hash = play_fnv(hash, e->bytes);
    if (e->action != VRAM_ACTION_ALLOC)
      hash = play_fnv(hash, (uint64_t)(e->id - first + 1));
    ++*count;
  }
  return hash;
}

/* "f32[64,64] bf16[]": one sum for each parameter, all of them added. */
static char *typed_model(const char *words, int matrices) {
  char *text = (char *)malloc(strlen(words) * 30 + 64);
  size_t len = 0;
  int n = 0;
  if (!text)
    abort();
  while (*words) {
    const char *open = strchr(words, '['), *close = strchr(words, ']'), *comma = strchr(words, ',');
    int one = comma && comma < close && !memchr(comma + 1, ',', (size_t)(close - comma));
    if (one || !matrices) {
      len += (size_t)sprintf(text + len, "parameter p%d shape=%.*s dtype=%.*s\nsum s%d p%d\n", n,
                             (int)(close + 1 - open), open, (int)(open - words), words, n, n);
      if (n)
        len += (size_t)sprintf(text + len, "add t%d %c%d s%d\n", n, n > 1 ? 't' : 's', n - 1, n);
      n++;
    }
    words = close + 1 + (close[1] == ' ');
  }
  return text;
}

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

/* Figures and events of a first and of a later step against those that were measured. */
static void steps_row(play *p, vram_step_options *o, char *const *field) {
  int later;
  for (later = 0; later < 2; later++) {
    char *const *f = &field[5 + 4 * later];
    uint64_t before, count, hash;
    char shown[24];
    o->first_step = !later;
    if (!NEED(play_step(p, o) == VRAM_OK)) {
      printf("  %s\n", p->error.text);
      return;
    }
    before = p->report.phase[VRAM_PHASE_BACKWARD].requested_bytes;
    EQUAL(p->report.phase[VRAM_PHASE_OPTIMIZER].requested_peak_bytes - before,
          strtoull(f[0], NULL, 10));
    EQUAL(p->report.phase[VRAM_PHASE_OPTIMIZER].requested_bytes - before, strtoull(f[1], NULL, 10));
    hash = optimizer_hash(p, &count);
    EQUAL(count, strtoull(f[2], NULL, 10));
    snprintf(shown, sizeof shown, "%016llx", (unsigned long long)hash);
    TEXT(shown, f[3]);
  }
  EQUAL(p->report.optimizer_bytes, strtoull(field[4], NULL, 10));
}

static void steps(const char *path) {
  char *file = play_file(path, NULL), *line, *next;
  play sets[4]; /* f32, mixed, and the matrices of each */
  int i, rows = 0;
  memset(sets, 0, sizeof sets);
  if (!NEED(file != NULL))
    return;
  for (line = file; *line; line = next) {
    char *field[13], *word;
    vram_step_options o;
    play *p;
    next = line + strcspn(line, "\n");
    if (*next)
      *next++ = 0;
    if (*line == '#') { /* "#   f32: f32[1000,700] ..." */
      int mixed = !strncmp(line, "#   mixed: ", 11);
      for (i = 0; i < 2 && (mixed || !strncmp(line, "#   f32: ", 9)); i++) {
        char *text = typed_model(strchr(line, ':') + 2, i);
        NEED(play_parse(&sets[mixed + 2 * i], text, strlen(text), NULL, 0) == VRAM_OK);
        free(text);
      }
      continue;
    }
    snprintf(test_where, sizeof test_where, "%.60s", line);
    for (i = 0, word = strtok(line, " "); i < 13 && word; i++, word = strtok(NULL, " "))
      field[i] = word;
    if (!NEED(i == 13))
      break;
    memset(&o, 0, sizeof o);
    o.train = 1;
    o.optimizer = vram_optimizer_from_name(field[0], NULL);
    o.optim_impl = (vram_optim_impl)impl_of(field[1]);
    o.capturable = strstr(field[2], "capturable") != NULL;
    o.weight_decay = strstr(field[2], "wd") != NULL;
    o.clip_grad_norm = !strcmp(field[2], "clip")        ? VRAM_OPTIM_IMPL_FOREACH
                       : !strcmp(field[2], "clip_loop") ? VRAM_OPTIM_IMPL_LOOP
                                                        : VRAM_OPTIM_IMPL_DEFAULT;
    o.ema = !strcmp(field[2], "ema")        ? VRAM_EMA_FOREACH
            : !strcmp(field[2], "ema_loop") ? VRAM_EMA_LOOP
            : !strcmp(field[2], "ema_timm") ? VRAM_EMA_TIMM
                                            : VRAM_EMA_NONE;
    p = &sets[!strcmp(field[3], "mixed") + 2 * (o.optimizer == VRAM_OPTIM_muon)];
    if (!NEED(o.optimizer != VRAM_OPTIM_COUNT && p->mem))
      continue;
    steps_row(p, &o, field);
    rows++;
  }
  *test_where = 0;
  CHECK(rows > 250);
  free(file);
  for (i = 0; i < 4; i++)
    play_end(&sets[i]);
}

/* Every optimizer with every option: the events agree with the report, with and without listener,
   or the combination is refused with a reason. */
static void every(void) {
  static const char *const shape[] = {
      "",      "1",       "7",         "5000",   "300000",    "64,64",    "1,5000", "5000,1",
      "33,7",  "7,33",    "3000,1000", "4,9000", "2,300000",  "300000,2", "50,600", "8,3,3,3",
      "16,48", "512,512", "6,130,17",  "1,1",    "100,20,10", "70000,3",  "3,70000"};
  static const vram_dtype dtypes[] = {VRAM_DTYPE_NONE, VRAM_BF16, VRAM_F16};
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
      for (bits = 0; bits < 2 * 2 * 2 * 3 * 2 * 2; bits++) {
        play *q = bits / 24 % 2 ? &m : &p;
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
        o.capturable = bits >= 48;
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

/* An 8-bit optimizer has its two code tables once, however many parameters there are. */
static void code_tables(void) {
  static const unsigned counts[] = {1, 255, 256, 257, 600};
  size_t i;
  for (i = 0; i < sizeof counts / sizeof *counts; i++) {
    const char *shape[600];
    unsigned k;
    char *text;
    vram_step_options o;
    play p;
    for (k = 0; k < counts[i]; k++)
      shape[k] = "64,64";
    text = model(shape, counts[i], 0);
    memset(&p, 0, sizeof p);
    memset(&o, 0, sizeof o);
    o.train = 1;
    o.optimizer = VRAM_OPTIM_adam_8bit;
    for (o.first_step = 0; o.first_step < 2; o.first_step++)
      if (NEED(play_parse(&p, text, strlen(text), NULL, 0) == VRAM_OK) &&
          NEED(play_step(&p, &o) == VRAM_OK)) {
        EQUAL(p.report.optimizer_bytes, counts[i] * (2 * 4096 + 2 * 4 * 16) + 2 * 1024);
        play_end(&p);
      }
    free(text);
  }
}

int main(int argc, char **argv) {
  if (argc > 2) {
    measured(argv[1]);
    steps(argv[2]);
  }
  every();
  code_tables();
  return test_done("test_optimizer");
}
