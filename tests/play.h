/* Reads texts, plays steps, counts their events independently of the library. */
#ifndef PLAY_H
#define PLAY_H

#include "../vram.h"
#include "test.h"

#include <stdlib.h>

#define PLAY_UNUSED __attribute__((unused))

/* A whole file, terminated; NULL: message printed. */
static PLAY_UNUSED char *play_file(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  size_t cap = 1 << 16, n = 0, got;
  char *text = (char *)malloc(cap);
  if (!f || !text) {
    printf("cannot read %s\n", path);
    free(text);
    if (f)
      fclose(f);
    return NULL;
  }
  while ((got = fread(text + n, 1, cap - n - 1, f)) > 0) {
    n += got;
    if (cap - n < 2)
      text = (char *)realloc(text, cap *= 2);
    if (!text)
      abort();
  }
  fclose(f);
  text[n] = 0;
  if (len)
    *len = n;
  return text;
}

/* One recorded event; the node is not kept. */
typedef struct play_event {
  uint64_t bytes;
  int64_t id;
  uint8_t action, phase, category;
} play_event;

typedef struct play {
  vram_graph graph;
  vram_report report;
  vram_error error;
  void *mem, *scratch;
  uint64_t scratch_bytes;
  play_event *event;
  size_t count, cap;
} play;

static PLAY_UNUSED void play_end(play *p) {
  free(p->mem);
  free(p->scratch);
  free(p->event);
  memset(p, 0, sizeof *p);
}

static void play_record(void *user, const vram_event *e) {
  play *p = (play *)user;
  play_event *to;
  if (e->action == VRAM_ACTION_BECOMES)
    return;
  if (p->count == p->cap) {
    p->cap = p->cap ? 2 * p->cap : 1024;
    p->event = (play_event *)realloc(p->event, p->cap * sizeof *p->event);
    if (!p->event)
      abort();
  }
  to = p->event + p->count++;
  to->bytes = e->bytes;
  to->id = e->id;
  to->action = (uint8_t)e->action;
  to->phase = (uint8_t)e->phase;
  to->category = (uint8_t)e->category;
}

/* In as much memory as vram_graph_parse_bytes asks for, which must be enough. */
static PLAY_UNUSED vram_result play_parse(play *p, const char *text, size_t len,
                                          const vram_dim *set, uint32_t nset) {
  uint64_t bytes = vram_graph_parse_bytes(text, len, set, nset), most = (uint64_t)1 << 28;
  vram_result r;
  int whole = bytes && bytes <= most;
  free(p->mem);
  p->mem = malloc((size_t)(whole ? bytes : most));
  if (!p->mem)
    abort();
  vram_graph_init(&p->graph, p->mem, whole ? bytes : most);
  r = vram_graph_parse(&p->graph, text, len, set, nset, &p->error);
  if (whole && r == VRAM_ERR_MEMORY)
    FAIL("vram_graph_parse_bytes is enough");
  return r;
}

/* One step with its events recorded. */
static PLAY_UNUSED vram_result play_step(play *p, const vram_step_options *options) {
  vram_step_options o = *options;
  uint64_t bytes = vram_step_bytes(&p->graph, &o);
  vram_result r;
  if (bytes > p->scratch_bytes) {
    free(p->scratch);
    p->scratch = malloc((size_t)bytes);
    if (!p->scratch)
      abort();
    p->scratch_bytes = bytes;
  }
  p->count = 0;
  o.event = play_record;
  o.user = p;
  r = vram_step(&p->graph, &o, p->scratch, bytes, &p->report, &p->error);
  if (r == VRAM_ERR_MEMORY)
    FAIL("vram_step_bytes is enough");
  return r;
}

static uint64_t play_fnv(uint64_t hash, uint64_t value) {
  int i;
  for (i = 0; i < 8; i++, value >>= 8)
    hash = (hash ^ (value & 255)) * UINT64_C(0x100000001b3);
  return hash;
}
#define PLAY_FNV UINT64_C(0xcbf29ce484222325)

/* What the events of a phase say: with several micro-batches the end of the last one, the highest
   peak, and the allocations of all. */
typedef struct play_phase {
  uint64_t allocations, hash;
  int64_t end, peak; /* bytes, against the beginning of the step */
} play_phase;

static PLAY_UNUSED void play_count(const play *p, play_phase phase[VRAM_PHASE_COUNT]) {
  int64_t now = 0;
  size_t i;
  int k, last = 0;
  for (k = 0; k < VRAM_PHASE_COUNT; k++) {
    phase[k].allocations = 0;
    phase[k].hash = PLAY_FNV;
    phase[k].peak = phase[k].end = INT64_MIN;
  }
  phase[0].peak = 0;
  for (i = 0; i <= p->count; i++) {
    int next = i < p->count ? p->event[i].phase : VRAM_PHASE_END;
    int forth = next > last ? 1 : next < last ? -1 : 0;
    for (; last != next; last += forth) { /* phases without events are there too */
      if (forth > 0 || last == VRAM_PHASE_BACKWARD)
        phase[last].end = now;
      if (now > phase[last + forth].peak)
        phase[last + forth].peak = now;
    }
    if (i == p->count)
      break;
    if (p->event[i].action == VRAM_ACTION_ALLOC) {
      now += (int64_t)p->event[i].bytes;
      phase[last].allocations++;
      phase[last].hash = play_fnv(phase[last].hash, p->event[i].bytes);
      if (now > phase[last].peak)
        phase[last].peak = now;
    } else
      now -= (int64_t)p->event[i].bytes;
  }
  phase[VRAM_PHASE_END].end = now;
}

/* Of everything that the events say. */
static PLAY_UNUSED uint64_t play_hash(const play *p) {
  play_phase phase[VRAM_PHASE_COUNT];
  uint64_t hash = PLAY_FNV;
  size_t i;
  play_count(p, phase);
  for (i = 0; i < p->count; i++) {
    hash = play_fnv(hash, p->event[i].bytes);
    hash = play_fnv(hash, (uint64_t)p->event[i].id);
    hash = play_fnv(hash, p->event[i].action * 16u + p->event[i].phase);
  }
  return play_fnv(hash, p->report.peak_requested_bytes);
}

/* Options from a mode's name: infer, train_[amp_]TYPE_OPTIMIZER[_fused|_forloop|_foreach
   |_keepgrads|_accumulateN|_ideal][.first][@RULES]. 0: a word that is not known. */
static PLAY_UNUSED int play_mode(const char *mode, vram_step_options *o) {
  char word[64];
  const char *rules = strchr(mode, '@');
  int amp = 0;
  memset(o, 0, sizeof *o);
  o->train = !strncmp(mode, "train_", 6);
  if (!o->train && strncmp(mode, "infer", 5))
    return 0;
  if (rules)
    o->rules = vram_rules_find(rules + 1, (uint32_t)strlen(rules + 1));
  if (o->rules == VRAM_RULES_COUNT)
    return 0;
  mode += o->train || mode[5] == '_' ? 6 : 5;
  while (*mode && mode != rules) {
    size_t n = strcspn(mode, "_.@");
    if (n >= sizeof word)
      return 0;
    memcpy(word, mode, n);
    word[n] = 0;
    if (!strcmp(word, "amp"))
      amp = 1;
    else if (!strcmp(word, "bf16") || !strcmp(word, "fp16"))
      *(amp ? &o->amp : &o->dtype) = word[0] == 'b' ? VRAM_BF16 : VRAM_F16;
    else if (!strcmp(word, "fused"))
      o->optim_impl = VRAM_OPTIM_IMPL_FUSED;
    else if (!strcmp(word, "forloop"))
      o->optim_impl = VRAM_OPTIM_IMPL_LOOP;
    else if (!strcmp(word, "foreach"))
      o->optim_impl = VRAM_OPTIM_IMPL_FOREACH;
    else if (!strcmp(word, "keepgrads"))
      o->keep_grads = 1;
    else if (!strncmp(word, "accumulate", 10))
      o->accumulate = (uint32_t)atoi(word + 10);
    else if (!strcmp(word, "first"))
      o->first_step = 1;
    else if (!strcmp(word, "ideal"))
      o->rules = VRAM_RULES_IDEAL;
    else if (!strcmp(word, "sgd")) /* measured with momentum */
      o->optimizer = vram_optimizer_from_name("sgd_momentum", &o->weight_decay);
    else if (strcmp(word, "fp32")) {
      o->optimizer = vram_optimizer_from_name(word, &o->weight_decay);
      if (o->optimizer == VRAM_OPTIM_COUNT)
        return 0;
    }
    mode += n + (mode[n] != 0 && mode[n] != '@');
  }
  return 1;
}

/* Options of the command that stand in a comment of the text: `# options: --checkpoint 3`. Ranges
   of nodes go to `ranges`. 0: an option that is not known. */
static PLAY_UNUSED int play_options(const char *text, const vram_graph *g, vram_step_options *o,
                                    vram_range *ranges, uint32_t cap) {
  const char *at = strstr(text, "# options:");
  char word[256], value[256];
  vram_error e;
  int n;
  if (!at)
    return 1;
  for (at += 10; *at == ' ';) {
    if (sscanf(at, " %255[^ \n]%n", word, &n) != 1)
      return 0;
    at += n;
    if (!strcmp(word, "--reentrant")) {
      o->reentrant = 1;
      continue;
    }
    if (!strcmp(word, "--keep-grads")) {
      o->keep_grads = 1;
      continue;
    }
    if (sscanf(at, " %255[^ \n]%n", value, &n) != 1)
      return 0;
    at += n;
    if (!strcmp(word, "--checkpoint"))
      o->checkpoint_segments = (uint32_t)atoi(value);
    else if (!strcmp(word, "--accumulate"))
      o->accumulate = (uint32_t)atoi(value);
    else if (!strcmp(word, "--cc"))
      o->cc =
          (uint32_t)(atoi(value) * 10 + (strchr(value, '.') ? atoi(strchr(value, '.') + 1) : 0));
    else if (!strcmp(word, "--dtype"))
      o->dtype = vram_dtype_from_name(value);
    else if (!strcmp(word, "--checkpoint-nodes")) {
      o->checkpoint = ranges;
      if (vram_graph_ranges(g, value, ranges, cap, &o->ncheckpoint, &e) || o->ncheckpoint > cap)
        return 0;
    } else
      return 0;
  }
  return 1;
}

#endif
