/* vram - bytes of neural networks from the command line; see `vram -h` */
#define VRAM_IMPLEMENTATION
#define VRAM_STATIC
#include "../vram.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FITS = 0, EXIT_OTHER = 1, EXIT_USAGE = 2, EXIT_TOO_LARGE = 3 };

static const char *const phase_name[] = {
#define X(id, text) text,
    VRAM_PHASES(X)
#undef X
};
static const char *const category_name[] = {
#define X(id, text) text,
    VRAM_CATEGORIES(X)
#undef X
};

static int usage(const char *what, const char *found) {
  fprintf(stderr, "vram: %s%s%s (vram -h)\n", what, found ? ": " : "", found ? found : "");
  return EXIT_USAGE;
}

/* A whole file, or standard input for "-"; NULL: message printed. */
static char *read_all(const char *path, size_t *len) {
  FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
  size_t cap = 1 << 16, n = 0;
  char *text = NULL;
  if (!f) {
    fprintf(stderr, "vram: cannot open %s\n", path);
    return NULL;
  }
  for (;;) {
    char *t = (char *)realloc(text, cap);
    if (!t) break;
    text = t;
    n += fread(text + n, 1, cap - n, f);
    if (n < cap) {
      if (f != stdin) fclose(f);
      *len = n;
      return text;
    }
    cap *= 2;
  }
  free(text);
  if (f != stdin) fclose(f);
  fprintf(stderr, "vram: out of memory\n");
  return NULL;
}

static void node_name(const vram_node *n, FILE *f) {
  const vram__round *r;
  uint32_t round[VRAM_MAX_LOOPS], k = 0;
  if (!n) return;
  fwrite(n->name, 1, n->name_len, f);
  for (r = n->round; r && k < VRAM_MAX_LOOPS; r = r->up) round[k++] = r->round;
  while (k) fprintf(f, "[%" PRIu32 "]", round[--k]);
}

static void event_line(void *user, const vram_event *e) {
  FILE *f = (FILE *)user;
  fprintf(f, "%s,%s,%" PRId64 ",%" PRIu64 ",%s,", phase_name[e->phase],
          e->action == VRAM_ALLOC ? "alloc" : "free", e->id, e->bytes, category_name[e->category]);
  node_name(e->node, f);
  fputc('\n', f);
}

static int estimate(int argc, char **argv) {
  vram_step_options o;
  vram_report r;
  vram_graph g;
  vram_error err;
  const char *model = NULL, *events = NULL;
  int i, json = 0;
  size_t len;
  char *text;
  void *mem, *scratch;
  uint64_t bytes;
  FILE *ev = NULL;
  memset(&o, 0, sizeof o);
  for (i = 0; i < argc; i++) {
    const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(a, "--infer")) o.train = 0;
    else if (!strcmp(a, "--train") && v) o.train = 1, i++;
    else if (!strcmp(a, "--amp") && v) o.amp = (int)vram_dtype_from_name(v), i++;
    else if (!strcmp(a, "--dtype") && v) o.dtype = (int)vram_dtype_from_name(v), i++;
    else if (!strcmp(a, "--events") && v) events = v, i++;
    else if (!strcmp(a, "--json")) json = 1;
    else if (a[0] == '-' && a[1]) return usage("unknown option", a);
    else if (model) return usage("a second model", a);
    else model = a;
  }
  if (!model) return usage("no model", NULL);
  text = read_all(model, &len);
  if (!text) return EXIT_USAGE;
  bytes = (uint64_t)1 << 30;
  mem = malloc((size_t)bytes);
  vram_graph_init(&g, mem, bytes);
  if (vram_parse(&g, text, len, NULL, 0, &err)) {
    fprintf(stderr, "%s:%" PRIu32 ":%" PRIu32 ": %s\n", model, err.line, err.column, err.text);
    return EXIT_USAGE;
  }
  bytes = vram_step_bytes(&g, &o);
  scratch = malloc((size_t)bytes);
  if (events) {
    ev = strcmp(events, "-") ? fopen(events, "w") : stdout;
    if (!ev) return usage("cannot write", events);
    fprintf(ev, "phase,action,id,size,category,node\n");
    o.event = event_line;
    o.user = ev;
  }
  if (vram_step(&g, &o, scratch, bytes, &r, &err)) {
    fprintf(stderr, "vram: %s\n", err.text);
    return EXIT_OTHER;
  }
  if (ev && ev != stdout) fclose(ev);
  if (json) {
    printf("{\"params_bytes\":%" PRIu64 ",\"buffers_bytes\":%" PRIu64 ",\"inputs_bytes\":%" PRIu64
           ",\"gradients_bytes\":%" PRIu64 ",\"optimizer_bytes\":%" PRIu64 ",\"saved_bytes\":%" PRIu64
           ",\"autocast_cache_bytes\":%" PRIu64 ",\"phases\":{",
           r.params_bytes, r.buffers_bytes, r.inputs_bytes, r.gradients_bytes, r.optimizer_bytes,
           r.saved_bytes, r.autocast_cache_bytes);
    for (i = VRAM_PHASE_FORWARD; i <= VRAM_PHASE_OPTIMIZER; i++)
      printf("%s\"%s\":{\"requested_bytes\":%" PRIu64 ",\"requested_peak_bytes\":%" PRIu64 "}",
             i > VRAM_PHASE_FORWARD ? "," : "", phase_name[i], r.phase[i].requested_bytes,
             r.phase[i].requested_peak_bytes);
    printf("}}\n");
  }
  free(scratch);
  free(mem);
  free(text);
  return EXIT_FITS;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "estimate")) return estimate(argc - 2, argv + 2);
  return usage("vram estimate MODEL", NULL);
}
