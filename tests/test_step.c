/* The step against what PyTorch did.
   usage: test_step GOLDEN_DIR [--known] [CASE.MODE.csv ...]
   GOLDEN_DIR holds streams.txt, versions.txt, known.txt and the texts; a case lies beside its text
   CASE.vram. known.txt: rows `name mode phase` that are known not to agree yet; one that agrees
   fails the test.
   --known: writes known.txt without the rows that agree now to standard output. */
#include "play.h"

typedef struct row {
  char name[96], mode[64], phase[16], count[24], hash[24], end[24], peak[24], saved[24];
} row;

static char *known_text; /* of known.txt: lines, each ended by \n */
static unsigned long known_rows;

/* The line of known.txt for a row, or NULL. */
static const char *known(const char *name, const char *mode, const char *phase) {
  char key[256];
  const char *at = known_text;
  snprintf(key, sizeof key, "\n%s %s %s:", name, mode, phase);
  at = at ? strstr(at, key) : NULL;
  return at ? at + 1 : NULL;
}

static const char *const phase_names[VRAM_PHASE_COUNT] = {
#define X(id, text) text,
    VRAM_PHASES(X)
#undef X
};

static int phase_of(const char *name) {
  int i;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (!strcmp(name, phase_names[i]))
      return i;
  return -1;
}

/* What differs, appended to `text`. */
static int short_reasons;
static int differs(char *text, size_t cap, const char *what, uint64_t want, uint64_t got) {
  size_t n = strlen(text);
  if (want == got)
    return 0;
  if (short_reasons || !strcmp(what, "order"))
    snprintf(text + n, cap - n, " %s", what);
  else
    snprintf(text + n, cap - n, " %s %llu, measured %llu (%+lld)", what, (unsigned long long)got,
             (unsigned long long)want, (long long)(got - want));
  return 1;
}

/* A field of a row; "-", not measured, is what was got. */
static uint64_t field(const char *text, int base, uint64_t got) {
  return strcmp(text, "-") ? (uint64_t)strtoull(text, NULL, base) : got;
}

static void verdict(const char *name, const char *mode, const char *phase, const char *difference,
                    int write_known) {
  const char *k = known(name, mode, phase);
  if (k)
    known_rows++;
  if (write_known) { /* rows go, none comes */
    if (*difference && k)
      printf("%.*s\n", (int)strcspn(k, "\n"), k);
    return;
  }
  snprintf(test_where, sizeof test_where, "%s %s %s", name, mode, phase);
  if (*difference && !k) {
    if (!test_result(0, __FILE__, __LINE__) && test_shown())
      printf("%s\n", difference + 1);
  } else if (!*difference && k) {
    if (!test_result(0, __FILE__, __LINE__) && test_shown())
      printf("agrees now: take its line out of known.txt (make known)\n");
  } else if (!k)
    test_passed++;
  *test_where = 0;
}

static void streams(const char *dir, const char *file, int write_known) {
  char path[600], last[600] = "", difference[512], *text, *at;
  play p;
  play_phase phase[VRAM_PHASE_COUNT];
  vram_result result = VRAM_OK;
  int parsed = 0;
  size_t i;
  memset(&p, 0, sizeof p);
  snprintf(path, sizeof path, "%s/%s", dir, file);
  text = play_file(path, NULL);
  if (!NEED(text != NULL))
    return;
  for (at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    row r;
    vram_step_options o;
    int k;
    if (*at == '#')
      continue;
    if (!NEED(sscanf(at, "%95s %63s %15s %23s %23s %23s %23s %23s", r.name, r.mode, r.phase,
                     r.count, r.hash, r.end, r.peak, r.saved) == 8))
      break;
    k = phase_of(r.phase);
    if (!NEED(k >= 0 && play_mode(r.mode, &o)))
      break;
    if (strncmp(last, r.name, strlen(r.name)) || last[strlen(r.name)] != ' ') {
      size_t len;
      char *model;
      play_end(&p);
      snprintf(path, sizeof path, "%s/%s.vram", dir, r.name);
      model = play_file(path, &len);
      if (!NEED(model != NULL))
        break;
      parsed = play_parse(&p, model, len, NULL, 0) == VRAM_OK;
      free(model);
    }
    snprintf(path, sizeof path, "%s %s", r.name, r.mode);
    if (strcmp(last, path)) {
      snprintf(last, sizeof last, "%s", path);
      if (parsed) {
        result = play_step(&p, &o);
        play_count(&p, phase);
      }
    }
    *difference = 0;
    if (!parsed || result)
      snprintf(difference, sizeof difference, " %s", short_reasons ? "error" : p.error.text);
    else {
      const vram_phase_report *t = p.report.phase + k;
      const struct {
        const char *what, *text;
        uint64_t got;
        int base;
      } f[] = {{"allocations", r.count, phase[k].allocations, 10},
               {"order", r.hash, phase[k].hash, 16},
               {"end", r.end, t->requested_bytes, 10},
               {"peak", r.peak, t->requested_peak_bytes, 10},
               {"saved", r.saved, p.report.saved_bytes, 10}};
      for (i = 0; i < sizeof f / sizeof *f; i++)
        differs(difference, sizeof difference, f[i].what, field(f[i].text, f[i].base, f[i].got),
                f[i].got);
    }
    verdict(r.name, r.mode, r.phase, difference, write_known);
  }
  free(text);
  play_end(&p);
}

/* One measured case: columns phase,action,id,size. */
static void one_case(const char *csv, int write_known) {
  char path[600], difference[512], mode[128], *text, *model, *at;
  const char *dot = strrchr(csv, '.'), *slash = strrchr(csv, '/'), *from;
  size_t len;
  play p, want;
  play_phase a[VRAM_PHASE_COUNT], b[VRAM_PHASE_COUNT];
  vram_step_options o;
  vram_range ranges[64];
  int k, failed;
  memset(&p, 0, sizeof p);
  memset(&want, 0, sizeof want);
  for (from = dot; from > csv && from[-1] != '.' && from[-1] != '/'; from--)
    ;
  if (!NEED(dot && from > csv && from[-1] == '.' && slash))
    return;
  while (slash > csv && slash[-1] != '/') /* its row is named FAMILY/CASE */
    slash--;
  snprintf(mode, sizeof mode, "%.*s", (int)(dot - from), from);
  snprintf(path, sizeof path, "%.*s.vram", (int)(from - 1 - csv), csv);
  snprintf(test_where, sizeof test_where, "%s", csv);
  model = play_file(path, &len);
  text = play_file(csv, NULL);
  if (!NEED(model && text && play_mode(mode, &o)))
    goto end;
  failed = (int)play_parse(&p, model, len, NULL, 0);
  if (!failed && NEED(play_options(model, &p.graph, &o, ranges, sizeof ranges / sizeof *ranges)))
    failed = play_step(&p, &o) != VRAM_OK;
  at = text;
  for (; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    char phase[16], action[16];
    long long id;
    unsigned long long size;
    vram_event e;
    if (sscanf(at, "%15[a-z_],%15[a-z_],%lld,%llu", phase, action, &id, &size) != 4)
      continue;
    if (phase_of(phase) < 0)
      continue;
    memset(&e, 0, sizeof e);
    e.phase = (vram_phase)phase_of(phase);
    e.action = strcmp(action, "alloc") ? VRAM_ACTION_FREE : VRAM_ACTION_ALLOC;
    e.id = id;
    e.bytes = size;
    play_record(&want, &e);
  }
  if (!NEED(want.count > 0))
    goto end;
  play_count(&p, a);
  play_count(&want, b);
  snprintf(path, sizeof path, "cases/%.*s", (int)(from - 1 - slash), slash);
  for (k = VRAM_PHASE_FORWARD; k <= VRAM_PHASE_OPTIMIZER; k++) {
    *difference = 0;
    a[k].end -= a[0].end, b[k].end -= b[0].end;
    a[k].peak -= a[0].end, b[k].peak -= b[0].end;
    if (failed)
      snprintf(difference, sizeof difference, " %s", short_reasons ? "error" : p.error.text);
    else {
      if (!differs(difference, sizeof difference, "allocations", b[k].allocations,
                   a[k].allocations))
        differs(difference, sizeof difference, "order", b[k].hash, a[k].hash);
      differs(difference, sizeof difference, "end", (uint64_t)b[k].end, (uint64_t)a[k].end);
      differs(difference, sizeof difference, "peak", (uint64_t)b[k].peak, (uint64_t)a[k].peak);
    }
    verdict(path, mode, phase_names[k], difference, write_known);
  }
end:
  *test_where = 0;
  free(model);
  free(text);
  play_end(&p);
  play_end(&want);
}

int main(int argc, char **argv) {
  char path[600];
  int i = 2, write_known = argc > 2 && !strcmp(argv[2], "--known");
  char *text;
  if (argc < 2)
    return 2;
  short_reasons = write_known;
  snprintf(path, sizeof path, "%s/known.txt", argv[1]);
  text = play_file(path, NULL);
  if (text) { /* a line begins after \n, the first too */
    size_t n = strlen(text);
    known_text = (char *)malloc(n + 2);
    if (!known_text)
      return 1;
    known_text[0] = '\n';
    memcpy(known_text + 1, text, n + 1);
    for (n = 0; write_known && text[n] == '#'; n += strcspn(text + n, "\n") + 1)
      printf("%.*s\n", (int)strcspn(text + n, "\n"), text + n);
    free(text);
  }
  streams(argv[1], "streams.txt", write_known);
  streams(argv[1], "versions.txt", write_known);
  for (i += write_known; i < argc; i++)
    one_case(argv[i], write_known);
  free(known_text);
  if (write_known)
    return 0;
  if (known_rows)
    printf("test_step: %lu rows are known not to agree (golden/known.txt)\n", known_rows);
  return test_done("test_step");
}
