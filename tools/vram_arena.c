/* vram arena: offsets for buffers whose lifetimes are known, from a file or from the step of a
   model. */

#include "vram_arena.h"
#include "vram_model.h"
#include "vram_xla.h"

#include <time.h>

cmd_text help_arena = {
    "vram arena LIFETIMES.csv | MODEL [options]     offsets in one arena\n"
    "\n"
    "LIFETIMES.csv           a line for every buffer; the first line names the\n"
    "                        columns: id (buffer, buffer_id), lower (start, begin),\n"
    "                        upper, size; if there: alignment, offset (where the\n"
    "                        buffer must be; empty: anywhere), bank. A buffer lives\n"
    "                        from lower to before upper; `end` instead of upper is\n"
    "                        its last moment. The format of MiniMalloc.\n"
    "MODEL                   what one step of it allocates, in the order of its\n"
    "                        events; without what stays from step to step\n"
    "                        (parameters, buffers, inputs, gradients, optimizer)\n"
    "MODEL.tflite, MODEL.onnx\n"
    "                        the values between its operators as the file has them,\n"
    "                        inputs, outputs and variables with them, without an\n"
    "                        option of steps\n"
    "FILE-buffer-assignment.txt\n"
    "                        of XLA, its -live-range.txt beside it: the temporary\n"
    "                        values of a compiled program, of several heaps those\n"
    "                        of the largest, and how high its own plan is\n"
    "-                       standard input\n"
    "\n"
    "arena\n"
    "  --capacity SIZE       does it fit? (exit status 3: no); or --budget. The\n"
    "                        search ends when it does\n"
    "  --least               the least height, though a larger one fits\n"
    "  --bank SIZE           a memory of that size; more than one: the fastest first.\n"
    "                        0: without a limit\n"
    "  --align N             of every offset, a power of two (default: 1 for a file,\n"
    "                        256 for a model, 16 for the values of a TFLite or ONNX\n"
    "                        file, what all of XLA's offsets have)\n"
    "  --enough SIZE         a height that is low enough (default: the least)\n"
    "  --greedy              no search\n"
    "  --order tflm|load|size|area|width|start|start_end|size_width|load_width\n"
    "                        one greedy order, no search; tflm: what TensorFlow Lite\n"
    "                        Micro plans; the others also with _best: into the\n"
    "                        smallest gap instead of the first\n"
    "  --nodes N             of the search (default: 2000000; with --time-limit: no\n"
    "                        limit)\n"
    "  --time-limit S        seconds (default: 10)\n"
    "model\n"
    "  --all                 with what stays from step to step\n"
    "  --infer, --train OPT, --amp, --dtype, --checkpoint, --batch, --dim, ...\n"
    "                        as vram estimate -h says\n"
    "output\n"
    "  --offsets             a line for every buffer; with --json: in it\n"
    "  --csv                 the buffers with their offsets as CSV, nothing else\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --emit-header FILE    a C header of sizes and offsets\n"
    "  --prefix NAME         of its macros (default: from the name of the input)\n"
    "  --svg FILE            a picture: time across, offsets up\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "FILE - is standard output.\n",
    NULL};

typedef enum arena_source { OF_LIFETIMES, OF_STEP, OF_FILE, OF_XLA } arena_source;

typedef struct arena_job {
  job j;
  arena_source source;
  uint64_t graphs; /* of a file */
  int is_open;     /* it leaves sizes open */
  const char *path, *header, *prefix, *svg;
  vram_arena_options o;
  uint64_t until; /* milliseconds */
  int has_capacity, has_nodes, has_time, has_align, least, all, offsets, csv;
  const char *model_option; /* one that means nothing for lifetimes */
  const char *step_option;  /* one of a step, beside --batch and --dim */
} arena_job;

void arena_set_end(arena_set *s) {
  uint32_t i;
  for (i = 0; i < s->n; i++)
    free(s->name[i]);
  free(s->name);
  free(s->stays);
  free(s->b);
}

vram_buffer *arena_set_add(arena_set *s, const char *name, size_t len) {
  if (s->n == s->cap) {
    const uint32_t cap = s->cap ? 2 * s->cap : 256;
    vram_buffer *b = (vram_buffer *)realloc(s->b, cap * sizeof *b);
    char **names;
    uint8_t *stays;
    if (b)
      s->b = b;
    names = b ? (char **)realloc(s->name, cap * sizeof *names) : NULL;
    if (names)
      s->name = names;
    stays = names ? (uint8_t *)realloc(s->stays, cap) : NULL;
    if (!stays)
      return NULL;
    s->stays = stays;
    s->cap = cap;
  }
  s->name[s->n] = (char *)malloc(len + 1);
  if (!s->name[s->n])
    return NULL;
  memcpy(s->name[s->n], name, len);
  s->name[s->n][len] = 0;
  memset(s->b + s->n, 0, sizeof *s->b);
  s->stays[s->n] = 0;
  return s->b + s->n++;
}

/* ---- lifetimes from a file ---- */

#define LIFETIME_COLUMNS(X)                                                                        \
  X(ID, "id buffer buffer_id")                                                                     \
  X(LOWER, "lower start begin")                                                                    \
  X(UPPER, "upper end")                                                                            \
  X(SIZE, "size")                                                                                  \
  X(ALIGNMENT, "alignment")                                                                        \
  X(OFFSET, "offset")                                                                              \
  X(BANK, "bank")
enum {
#define X(id, names) LIFETIME_##id,
  LIFETIME_COLUMNS(X)
#undef X
      LIFETIME_COUNT
};
static const char *const lifetime_names[] = {
#define X(id, names) names,
    LIFETIME_COLUMNS(X)
#undef X
};

static int lifetime_bad(const arena_set *s, uint64_t line, const char *what, const char *found,
                        size_t len, const char *expected) {
  cmd_say("%s:%" PRIu64 ": %s%s%s", s->path, line, what, cmd_found(found, len),
          cmd_expected(expected));
  return USAGE;
}

/* The next field of a line, blanks around it taken off; 0: there is no more. */
static int lifetime_field(const char **at, const char *end, const char **to, size_t *len) {
  const char *s = *at, *stop;
  if (!s)
    return 0;
  stop = (const char *)memchr(s, ',', (size_t)(end - s));
  *at = stop ? stop + 1 : NULL;
  stop = stop ? stop : end;
  while (s < stop && (*s == ' ' || *s == '\t'))
    s++;
  while (stop > s && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r'))
    stop--;
  *to = s;
  *len = (size_t)(stop - s);
  return 1;
}

/* 1: digits of a number below 2^64 */
static int lifetime_number(const char *s, size_t len, uint64_t *to) {
  uint64_t v = 0;
  size_t i;
  for (i = 0; i < len; i++) {
    const uint64_t digit = (uint64_t)(s[i] - '0');
    if (s[i] < '0' || s[i] > '9' || v > (UINT64_MAX - digit) / 10)
      return 0;
    v = v * 10 + digit;
  }
  *to = v;
  return len != 0;
}

/* Which column a name in the first line means; LIFETIME_COUNT: none. */
static int lifetime_column(const char *s, size_t len) {
  char name[16];
  int i;
  if (len >= sizeof name)
    return LIFETIME_COUNT;
  memcpy(name, s, len);
  name[len] = 0;
  for (i = 0; i < LIFETIME_COUNT && !cmd_in(name, lifetime_names[i]); i++)
    ;
  return i;
}

/* The first line: *column[i] says what field i is. */
static int lifetime_header(const arena_set *s, const char *at, const char *end, int *column,
                           int *fields, int *inclusive) {
  const char *f;
  size_t len;
  int i, have[LIFETIME_COUNT] = {0};
  for (*fields = 0; lifetime_field(&at, end, &f, &len); ++*fields) {
    const int k = lifetime_column(f, len);
    if (k == LIFETIME_COUNT)
      return lifetime_bad(s, 1, "a column that is not known:", f, len,
                          "id, lower, upper, size, alignment, offset or bank");
    if (have[k]++)
      return lifetime_bad(s, 1, "a second column for the same:", f, len, NULL);
    column[*fields] = k;
    if (k == LIFETIME_UPPER)
      *inclusive = *f == 'e';
  }
  for (i = 0; i <= LIFETIME_SIZE; i++)
    if (!have[i])
      return lifetime_bad(s, 1, "no column", lifetime_names[i], strcspn(lifetime_names[i], " "),
                          "id, lower, upper and size at least");
  return FITS;
}

/* One line behind the first. */
static int lifetime_line(arena_set *s, const char *at, const char *end, uint64_t line,
                         const int *column, int fields, int inclusive) {
  const char *f, *text[LIFETIME_COUNT] = {NULL};
  size_t len, length[LIFETIME_COUNT] = {0};
  uint64_t v[LIFETIME_COUNT] = {0};
  vram_buffer *b;
  int i, n = 0;
  while (lifetime_field(&at, end, &f, &len)) {
    if (n == fields)
      return lifetime_bad(s, line, "more fields than columns:", f, len, NULL);
    text[column[n]] = f;
    length[column[n++]] = len;
  }
  if (n < fields)
    return lifetime_bad(s, line, "fewer fields than columns", NULL, 0, NULL);
  for (i = LIFETIME_LOWER; i < LIFETIME_COUNT; i++)
    if (text[i] && (length[i] || i <= LIFETIME_SIZE) &&
        !lifetime_number(text[i], length[i], v + i)) {
      char what[64];
      snprintf(what, sizeof what, "no number for %.*s:", (int)strcspn(lifetime_names[i], " "),
               lifetime_names[i]);
      return lifetime_bad(s, line, what, text[i], length[i], "an integer from 0 to 2^64-1");
    }
  if (inclusive && ++v[LIFETIME_UPPER] == 0)
    return lifetime_bad(s, line, "an end beyond 2^64-2:", text[LIFETIME_UPPER],
                        length[LIFETIME_UPPER], NULL);
  if (length[LIFETIME_BANK] && v[LIFETIME_BANK] >= VRAM_ARENA_BANKS)
    return lifetime_bad(s, line, "no such bank:", text[LIFETIME_BANK], length[LIFETIME_BANK],
                        "0 to 7");
  if (length[LIFETIME_ALIGNMENT] && !v[LIFETIME_ALIGNMENT])
    return lifetime_bad(s, line, "no alignment:", text[LIFETIME_ALIGNMENT],
                        length[LIFETIME_ALIGNMENT], "a power of two");
  b = arena_set_add(s, text[LIFETIME_ID], length[LIFETIME_ID]);
  if (!b)
    return cmd_no_memory();
  b->begin = v[LIFETIME_LOWER];
  b->end = v[LIFETIME_UPPER];
  b->bytes = v[LIFETIME_SIZE];
  b->align = v[LIFETIME_ALIGNMENT];
  s->aligned |= b->align > 1;
  b->offset = v[LIFETIME_OFFSET];
  b->pinned = length[LIFETIME_OFFSET] != 0;
  if (length[LIFETIME_BANK]) {
    s->banked = 1;
    b->bank = (uint32_t)v[LIFETIME_BANK];
    b->banks = UINT32_C(1) << b->bank;
  }
  return FITS;
}

/* lines[i]: where buffer i stands. */
static int read_lifetimes(arena_set *s, const char *text, size_t len, uint32_t **lines) {
  const char *at = text, *stop = text + len;
  uint64_t line = 0;
  uint32_t cap = 0;
  int column[LIFETIME_COUNT], fields = 0, inclusive = 0, status = FITS;
  for (; at < stop && !status; at++) {
    const char *end = (const char *)memchr(at, '\n', (size_t)(stop - at));
    end = end ? end : stop;
    if (!line++)
      status = lifetime_header(s, at, end, column, &fields, &inclusive);
    else if (at < end && strspn(at, " \t\r") < (size_t)(end - at)) {
      if (line > UINT32_MAX)
        return lifetime_bad(s, line, "too many lines", NULL, 0, NULL);
      status = lifetime_line(s, at, end, line, column, fields, inclusive);
      if (s->cap > cap) {
        uint32_t *bigger = (uint32_t *)realloc(*lines, s->cap * sizeof **lines);
        if (!bigger)
          return cmd_no_memory();
        *lines = bigger;
        cap = s->cap;
      }
      if (!status)
        (*lines)[s->n - 1] = (uint32_t)line;
    }
    at = end;
  }
  if (!line)
    return lifetime_bad(s, 1, "an empty file", NULL, 0, "id,lower,upper,size");
  return status;
}

/* ---- lifetimes from a model ---- */

typedef struct arena_events {
  arena_set *s; /* its first buffers are the allocations by id: 0, 1, ... */
  uint64_t now; /* events so far: the time */
  int no_memory;
} arena_events;

static int stays(vram_category c) {
  return c == VRAM_CATEGORY_PARAMS || c == VRAM_CATEGORY_BUFFERS || c == VRAM_CATEGORY_INPUTS ||
         c == VRAM_CATEGORY_GRADIENTS || c == VRAM_CATEGORY_OPTIMIZER;
}

/* "conv1", or what kind it is where no node says more */
static vram_buffer *arena_events_add(arena_events *a, const vram_event *e, uint64_t bytes) {
  char name[MAX_NODE_NAME + 16];
  vram_buffer *b;
  vram_node_name(e->node, name, sizeof name - 16);
  if (!*name)
    snprintf(name, sizeof name, "%s", vram_category_name(e->category));
  b = arena_set_add(a->s, name, strlen(name));
  if (!b) {
    a->no_memory = 1;
    return NULL;
  }
  b->bytes = bytes;
  b->begin = a->now;
  return b;
}

static void arena_event(void *user, const vram_event *e) {
  arena_events *a = (arena_events *)user;
  const uint64_t id = (uint64_t)e->id;
  if (a->no_memory)
    return;
  if (e->action == VRAM_ACTION_ALLOC && id == a->s->n) {
    if (arena_events_add(a, e, e->bytes))
      a->s->stays[id] = (uint8_t)stays(e->category);
  } else if (e->action == VRAM_ACTION_BECOMES && id < a->s->n)
    a->s->stays[id] |= (uint8_t)stays(e->category);
  else if (e->action == VRAM_ACTION_FREE && id < a->s->n)
    a->s->b[id].end = a->now + 1;
  a->now++;
}

/* What lives before the step and all through it. */
static int arena_before(arena_events *a, const vram_report *r) {
  int i;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++) {
    const char *name = vram_category_name((vram_category)i);
    vram_buffer *b;
    if (!r->before_category_bytes[i])
      continue;
    b = arena_set_add(a->s, name, strlen(name));
    if (!b)
      return cmd_no_memory();
    b->bytes = r->before_category_bytes[i];
    b->end = a->now + 1;
  }
  return FITS;
}

static int model_lifetimes(arena_job *a, arena_set *s, char *text, size_t len) {
  arena_events e;
  vram_step_options o;
  vram_report r;
  loaded l;
  uint32_t i, n = 0;
  int status = model_load(&l, &a->j, text, len);
  memset(&e, 0, sizeof e);
  e.s = s;
  o = a->j.o;
  o.event = arena_event;
  o.user = &e;
  if (!status)
    status = model_step(&l, &o, &r);
  if (!status && e.no_memory)
    status = cmd_no_memory();
  for (i = 0; i < s->n && !status; i++) { /* what stays goes */
    if (s->stays[i] && !a->all) {
      free(s->name[i]);
      continue;
    }
    s->name[n] = s->name[i];
    s->b[n] = s->b[i];
    if (!s->b[n].end)
      s->b[n].end = e.now + 1;
    n++;
  }
  if (!status)
    s->n = n;
  if (!status && a->all)
    status = arena_before(&e, &r);
  model_unload(&l);
  return status;
}

/* ---- output ---- */

static uint64_t arena_naive(const arena_set *s) {
  uint64_t sum = 0;
  uint32_t i;
  for (i = 0; i < s->n; i++)
    sum += s->b[i].bytes;
  return sum;
}

static uint32_t arena_banks(const arena_job *a) { return a->o.nbank ? a->o.nbank : 1; }

/* The alignment of a buffer. */
static uint64_t arena_align(const arena_job *a, const vram_buffer *b) {
  return b->align ? b->align : a->o.align ? a->o.align : 1;
}

/* MiniMalloc's form, with `alignment` and `bank` only where there are any. */
static void arena_csv(const arena_job *a, const arena_set *s) {
  const int bank = arena_banks(a) > 1, align = s->aligned || a->o.align > 1;
  uint32_t i;
  printf("id,lower,upper,size%s%s,offset\n", align ? ",alignment" : "", bank ? ",bank" : "");
  for (i = 0; i < s->n; i++) {
    const vram_buffer *b = s->b + i;
    printf("%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64, s->name[i], b->begin, b->end, b->bytes);
    if (align)
      printf(",%" PRIu64, arena_align(a, b));
    if (bank)
      printf(",%" PRIu32, b->bank);
    printf(",%" PRIu64 "\n", b->offset);
  }
}

static void arena_json(const arena_job *a, const arena_set *s, const vram_arena *r, int fits,
                       double seconds) {
  uint32_t i;
  printf("{\"input\":");
  cmd_json_text(stdout, s->path);
  printf(",\"height_bytes\":%" PRIu64 ",\"lower_bound_bytes\":%" PRIu64 ",\"optimal\":%s"
         ",\"buffers\":%" PRIu32 ",\"naive_bytes\":%" PRIu64 ",\"fits\":%s,\"capacity_bytes\":",
         r->height_bytes, r->lower_bound_bytes, r->proven ? "true" : "false", s->n, arena_naive(s),
         fits ? "true" : "false");
  if (a->has_capacity)
    printf("%" PRIu64, a->o.capacity[0]);
  else
    printf("null");
  if (s->recorded)
    printf(",\"recorded_bytes\":%" PRIu64, s->recorded);
  if (a->source == OF_XLA)
    printf(",\"other_heaps\":%" PRIu32 ",\"other_heaps_bytes\":%" PRIu64, s->other_heaps,
           s->other_bytes);
  printf(",\"banks\":[");
  for (i = 0; i < arena_banks(a) && fits; i++)
    printf("%s{\"capacity_bytes\":%" PRIu64 ",\"height_bytes\":%" PRIu64 "}", i ? "," : "",
           a->o.capacity[i], r->bank_bytes[i]);
  printf("],\"order\":\"%s\",\"nodes\":%" PRIu64 ",\"seconds\":%.3f,\"stopped\":%s",
         vram_arena_order_name((uint32_t)a->o.order), r->nodes, seconds,
         cmd_stopped() ? "true" : "false");
  if (a->offsets && fits) {
    printf(",\"offsets\":[");
    for (i = 0; i < s->n; i++) {
      const vram_buffer *b = s->b + i;
      printf("%s{\"id\":", i ? "," : "");
      cmd_json_text(stdout, s->name[i]);
      printf(",\"lower\":%" PRIu64 ",\"upper\":%" PRIu64 ",\"size\":%" PRIu64 ",\"bank\":%" PRIu32
             ",\"offset\":%" PRIu64 "}",
             b->begin, b->end, b->bytes, b->bank, b->offset);
    }
    printf("]");
  }
  printf("}\n");
}

static void arena_text(const arena_job *a, const arena_set *s, const vram_arena *r, int fits,
                       double seconds) {
  const uint64_t naive = arena_naive(s), over = r->height_bytes - r->lower_bound_bytes;
  char mode[256];
  uint32_t i;
  printf("%s%s%s  %" PRIu32 " buffer%s", cmd_bold, s->path, cmd_plain, s->n, s->n == 1 ? "" : "s");
  if (a->source == OF_FILE) {
    printf("  values between its operators, as the file has them");
    if (a->graphs > 1)
      printf(", of the first of %" PRIu64 " graphs", a->graphs);
    if (a->is_open)
      printf(", open sizes as --batch and --dim say, or 1");
  }
  if (a->source == OF_XLA && !s->n) {
    printf("  no temporary values: XLA has nothing to place in this program\n");
    return;
  }
  if (a->source == OF_XLA)
    printf("  temporary values of XLA, offsets of %" PRIu64 " bytes", a->o.align);
  if (a->source == OF_STEP) {
    job_mode(&a->j, mode, sizeof mode);
    printf("  %s, one step%s", mode,
           a->all ? ""
                  : ", without what stays (parameters, buffers, inputs, gradients, optimizer)");
  }
  printf("\n\n%sheight%s       %12s  %" PRIu64 " bytes\n", cmd_bold, cmd_plain,
         cmd_human(r->height_bytes), r->height_bytes);
  printf("lower bound  %12s  %" PRIu64 " bytes", cmd_human(r->lower_bound_bytes),
         r->lower_bound_bytes);
  if (r->proven)
    printf("  the height is the least there is\n");
  else
    printf("  the height is at most %.2f %% above the least%s\n",
           r->lower_bound_bytes ? 100. * (double)over / (double)r->lower_bound_bytes : 0,
           a->has_capacity && a->o.enough_bytes >= r->height_bytes ? " (--least searches on)" : "");
  if (s->recorded) {
    printf("XLA's plan   %12s  %" PRIu64 " bytes", cmd_human(s->recorded), s->recorded);
    if (r->height_bytes)
      printf("  %.2f %% above the height",
             100. * ((double)s->recorded / (double)r->height_bytes - 1));
    printf("\n");
  }
  if (s->other_heaps)
    printf("not planned  %12s  %" PRIu64 " bytes  %" PRIu32 " other heap%s of XLA's plan\n",
           cmd_human(s->other_bytes), s->other_bytes, s->other_heaps,
           s->other_heaps == 1 ? "" : "s");
  printf("naive        %12s  %" PRIu64 " bytes  every buffer for itself", cmd_human(naive), naive);
  if (r->height_bytes)
    printf(": %.2f times as much", (double)naive / (double)r->height_bytes);
  printf("\n");
  if (arena_banks(a) > 1)
    for (i = 0; i < arena_banks(a) && fits; i++)
      printf("bank %" PRIu32 "       %12s  of %s\n", i, cmd_human(r->bank_bytes[i]),
             a->o.capacity[i] ? cmd_human(a->o.capacity[i]) : "any");
  printf("%s%" PRIu64 " nodes searched, %.3f s%s%s\n", cmd_dim, r->nodes, seconds, cmd_plain,
         cmd_stopped() ? "; stopped: a lower one may be there" : "");
  if (a->has_capacity)
    printf("\n%s%s%s a capacity of %s\n", cmd_bold, fits ? "fits" : "DOES NOT FIT", cmd_plain,
           cmd_human(a->o.capacity[0]));
  if (a->offsets && fits) {
    printf("\n%s%-32s %12s %12s %12s %4s %14s%s\n", cmd_bold, "id", "from", "until", "size", "bank",
           "offset", cmd_plain);
    for (i = 0; i < s->n; i++) {
      const vram_buffer *b = s->b + i;
      printf("%-32s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %4" PRIu32 " %14" PRIu64 "\n",
             s->name[i], b->begin, b->end, b->bytes, b->bank, b->offset);
    }
  }
}

/* ---- a C header ---- */

enum { MAX_WORD = 200 };

typedef struct header_name { /* a buffer's name in a header */
  char text[MAX_WORD + 24];
  uint32_t buffer;
} header_name;

static int by_word(const void *a, const void *b) {
  const header_name *x = (const header_name *)a, *y = (const header_name *)b;
  const int d = strcmp(x->text, y->text);
  return d ? d : x->buffer < y->buffer ? -1 : 1;
}

static int by_buffer(const void *a, const void *b) {
  const header_name *x = (const header_name *)a, *y = (const header_name *)b;
  return x->buffer < y->buffer ? -1 : 1;
}

/* Names that are the same get a number, until none are. */
static void words_apart(header_name *w, uint32_t n) {
  int again = 1;
  while (again) {
    uint32_t i, first = 0;
    again = 0;
    qsort(w, n, sizeof *w, by_word);
    for (i = 1; i < n; i++) {
      if (strcmp(w[i].text, w[first].text) != 0) {
        first = i;
        continue;
      }
      again = 1;
      snprintf(w[i].text + strlen(w[i].text), 12, "_%" PRIu32, i - first + 1);
    }
  }
  qsort(w, n, sizeof *w, by_buffer);
}

/* Of the macros: as asked for, or from the name of the input. */
static void arena_prefix(const arena_job *a, const arena_set *s, char to[64]) {
  const char *base = strrchr(s->path, '/');
  char *end, *c;
  cmd_identifier(a->prefix ? a->prefix : base ? base + 1 : s->path, to, 62);
  if (!a->prefix) {
    end = strstr(to, "_csv");
    if (end && !end[4])
      *end = 0;
    for (c = to; *c; c++)
      *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
  }
  if (!*to || (*to >= '0' && *to <= '9')) {
    memmove(to + 2, to, strlen(to) + 1);
    to[0] = 'A';
    to[1] = '_';
  }
}

/* The names of the buffers; NULL: no memory. */
static header_name *header_names(const arena_set *s) {
  header_name *w = (header_name *)malloc(((size_t)s->n + 1) * sizeof *w);
  char name[MAX_WORD];
  uint32_t i;
  for (i = 0; w && i < s->n; i++) {
    cmd_identifier(s->name[i], name, sizeof name);
    snprintf(w[i].text, sizeof w[i].text, "%s", *name ? name : "buffer");
    w[i].buffer = i;
  }
  if (w)
    words_apart(w, s->n);
  return w;
}

/* What the compiler is to look at. */
static void header_asserts(FILE *f, const char *prefix, const arena_set *s, const header_name *w,
                           int banks) {
  uint32_t i;
  fprintf(
      f,
      "\n#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311)\n"
      "#define %s_ASSERT(condition, name) static_assert((condition), #name)\n"
      "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112\n"
      "#define %s_ASSERT(condition, name) _Static_assert((condition), #name)\n"
      "#else\n"
      "#define %s_ASSERT(condition, name) \\\n"
      "  struct %s_##name { unsigned is_violated : (condition) ? 1 : -1; }\n"
      "#endif\n",
      prefix, prefix, prefix, prefix);
  fprintf(f,
          "#ifdef %s_ARENA_CAPACITY\n%s_ASSERT(%s_ARENA_BYTES <= %s_ARENA_CAPACITY, "
          "arena_fits_capacity);\n#endif\n",
          prefix, prefix, prefix, prefix);
  for (i = 0; i < s->n; i++) {
    const vram_buffer *b = s->b + i;
    char bytes[32] = "ARENA_BYTES";
    if (banks)
      snprintf(bytes, sizeof bytes, "BANK%" PRIu32 "_BYTES", b->bank);
    if (b->bytes) /* a difference: a sum of two numbers that each fit an int may not fit one */
      fprintf(f, "%s_ASSERT(%s_%s_OFFSET <= %s_%s - %s_%s_BYTES, %s_is_inside);\n", prefix, prefix,
              w[i].text, prefix, bytes, prefix, w[i].text, w[i].text);
  }
}

static int arena_header(FILE *f, const arena_job *a, const arena_set *s, const vram_arena *r) {
  const uint32_t nbank = arena_banks(a);
  header_name *w = header_names(s);
  char prefix[64];
  uint64_t align = 1;
  uint32_t i;
  if (!w)
    return cmd_no_memory();
  for (i = 0; i < s->n; i++)
    align = align > arena_align(a, s->b + i) ? align : arena_align(a, s->b + i);
  arena_prefix(a, s, prefix);
  fprintf(f,
          "/* Offsets of %" PRIu32 " buffers in one arena, made by `vram arena`. Define\n"
          "   %s_ARENA_CAPACITY before this: what is larger does not compile. */\n"
          "#ifndef %s_ARENA_H\n#define %s_ARENA_H\n\n",
          s->n, prefix, prefix, prefix);
  fprintf(f, "#define %s_ARENA_BYTES %" PRIu64 "\n#define %s_ARENA_ALIGN %" PRIu64 "\n", prefix,
          r->height_bytes, prefix, align);
  for (i = 0; i < nbank && nbank > 1; i++)
    fprintf(f, "#define %s_BANK%" PRIu32 "_BYTES %" PRIu64 "\n", prefix, i, r->bank_bytes[i]);
  fprintf(f, "\n");
  for (i = 0; i < s->n; i++) {
    fprintf(f, "#define %s_%s_OFFSET %" PRIu64 "\n#define %s_%s_BYTES %" PRIu64 "\n", prefix,
            w[i].text, s->b[i].offset, prefix, w[i].text, s->b[i].bytes);
    if (nbank > 1)
      fprintf(f, "#define %s_%s_BANK %" PRIu32 "\n", prefix, w[i].text, s->b[i].bank);
  }
  header_asserts(f, prefix, s, w, nbank > 1);
  fprintf(f, "\n#endif\n");
  free(w);
  return FITS;
}

/* ---- a picture ---- */

enum { PICTURE_WIDTH = 1000, PICTURE_HEIGHT = 420 };

static void svg_text(FILE *f, const char *s) {
  while (*s) {
    const unsigned c = cmd_next_char(&s);
    if (c < 32 || c == '<' || c == '>' || c == '&' || c == '"' || c > 126)
      fprintf(f, "&#%u;", c < 32 ? 32 : c);
    else
      putc((int)c, f);
  }
}

void arena_picture(FILE *f, const arena_set *s, const vram_arena *r, uint32_t nbank) {
  uint64_t first = UINT64_MAX, last = 0;
  uint32_t i, k;
  double x, y, wide, high, span;
  for (i = 0; i < s->n; i++) {
    first = first < s->b[i].begin ? first : s->b[i].begin;
    last = last > s->b[i].end ? last : s->b[i].end;
  }
  span = last > first ? (double)(last - first) : 1;
  fprintf(f,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
          "font-family=\"sans-serif\" font-size=\"12\">\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"10\" y=\"16\">",
          PICTURE_WIDTH + 20, 24 + (int)nbank * (PICTURE_HEIGHT + 40), PICTURE_WIDTH + 20);
  svg_text(f, s->path);
  fprintf(f, ": %" PRIu32 " buffers; time across, offsets up</text>\n", s->n);
  for (k = 0; k < nbank; k++) {
    const double top = 24 + k * (PICTURE_HEIGHT + 40.),
                 bytes = r->bank_bytes[k] ? (double)r->bank_bytes[k] : 1;
    fprintf(f,
            "<rect x=\"10\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"#f2f2f2\"/>\n"
            "<text x=\"10\" y=\"%.1f\">",
            top, PICTURE_WIDTH, PICTURE_HEIGHT, top + PICTURE_HEIGHT + 16);
    if (nbank > 1)
      fprintf(f, "bank %" PRIu32 ", ", k);
    fprintf(f, "%s (%" PRIu64 " bytes) from bottom to top</text>\n", cmd_human(r->bank_bytes[k]),
            r->bank_bytes[k]);
    for (i = 0; i < s->n; i++) {
      const vram_buffer *b = s->b + i;
      if (b->bank != k || !b->bytes)
        continue;
      x = 10 + PICTURE_WIDTH * (double)(b->begin - first) / span;
      wide = PICTURE_WIDTH * (double)(b->end - b->begin) / span;
      high = PICTURE_HEIGHT * (double)b->bytes / bytes;
      y = top + PICTURE_HEIGHT * (1 - (double)b->offset / bytes) - high;
      fprintf(
          f,
          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"hsl(%u,55%%,70%%)\""
          " stroke=\"#444\" stroke-width=\"%s\"><title>",
          x, y, wide, high, (unsigned)(i * UINT32_C(137) % 360), s->n > 2000 ? "0.05" : "0.4");
      svg_text(f, s->name[i]);
      fprintf(f, ": %" PRIu64 " bytes at %" PRIu64 ", %" PRIu64 " to %" PRIu64 "</title></rect>\n",
              b->bytes, b->offset, b->begin, b->end);
    }
  }
  fprintf(f, "</svg>\n");
}

/* ---- the command ---- */

static uint64_t arena_now(void) { /* milliseconds */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int arena_late(void *user) {
  return cmd_stopped() || arena_now() >= ((const arena_job *)user)->until;
}

static int arena_no_order(const char *found) {
  char names[512];
  uint32_t k, n = 0;
  for (k = 1; k < VRAM_ARENA_ORDER_COUNT; k++)
    n += (uint32_t)snprintf(names + n, sizeof names - n, "%s%s", k > 1 ? " " : "",
                            vram_arena_order_name(k));
  return cmd_bad("unknown order", found, names), 0;
}

/* ---- options with a value v behind them; 0: error printed ---- */

static int arena_enough(arena_job *a, const char *o, const char *v) {
  (void)o;
  return (cmd_parse_size(v, &a->o.enough_bytes) && a->o.enough_bytes) || (cmd_bad_size(v), 0);
}

static int arena_capacity(arena_job *a, const char *o,
                          const char *v) { /* --capacity, --budget, --bank */
  const int bank = !strcmp(o, "--bank");
  uint64_t size;
  if (!cmd_parse_size(v, &size) || (!bank && !size))
    return cmd_bad_size(v), 0;
  if (bank && a->o.nbank == VRAM_ARENA_BANKS)
    return cmd_bad("too many banks at", v, "8 at most"), 0;
  a->o.capacity[bank ? a->o.nbank++ : 0] = size;
  a->has_capacity |= !bank;
  return 1;
}

static int arena_alignment(arena_job *a, const char *o, const char *v) {
  int64_t n;
  (void)o;
  if (!cmd_parse_count(v, 1, INT64_C(1) << 40, &n) || (n & (n - 1)))
    return cmd_bad("not an alignment", v, "a power of two"), 0;
  a->o.align = (uint64_t)n;
  return a->has_align = 1;
}

static int arena_order(arena_job *a, const char *o, const char *v) {
  uint32_t k = 1;
  (void)o;
  while (k < VRAM_ARENA_ORDER_COUNT && strcmp(v, vram_arena_order_name(k)))
    k++;
  if (k == VRAM_ARENA_ORDER_COUNT)
    return arena_no_order(v);
  a->o.order = (vram_arena_order)k;
  return 1;
}

static int arena_nodes(arena_job *a, const char *o, const char *v) {
  int64_t n;
  (void)o;
  if (!cmd_parse_count(v, 1, INT64_MAX, &n))
    return cmd_bad("not a number of nodes", v, "1 or more"), 0;
  a->o.nodes = (uint64_t)n;
  return a->has_nodes = 1;
}

static int arena_time(arena_job *a, const char *o, const char *v) {
  char *end;
  const double s = strtod(v, &end);
  (void)o;
  if (*end || end == v || !(s >= 0 && s <= 1e9))
    return cmd_bad("not a number of seconds", v, "0 or more"), 0;
  a->until = (uint64_t)(s * 1000);
  return a->has_time = 1;
}

static int arena_named(arena_job *a, const char *o, const char *v) {
  size_t n = 0;
  (void)o;
  while (cmd_is_word(v[n]) || v[n] == '_')
    n++;
  if (v[n] || (*v >= '0' && *v <= '9') || !*v || *v == '_' || n > 60)
    return cmd_bad("not a prefix", v, "letters, digits and _"), 0;
  a->prefix = v;
  return 1;
}

static int arena_file(arena_job *a, const char *o, const char *v) { /* --emit-header, --svg */
  *(o[2] == 'e' ? &a->header : &a->svg) = v;
  return 1;
}

static int arena_units(arena_job *a, const char *o, const char *v) {
  (void)a, (void)o;
  return cmd_set_units(v);
}

/* One option; returns how many arguments it took, 0: error printed. */
static int arena_option(arena_job *a, const char *o, const char *v) {
  static const struct {
    const char *names;
    int (*set)(arena_job *a, const char *o, const char *v);
  } valued[] = {{"--capacity --budget --bank", arena_capacity},
                {"--enough", arena_enough},
                {"--align", arena_alignment},
                {"--order", arena_order},
                {"--nodes", arena_nodes},
                {"--time-limit", arena_time},
                {"--prefix", arena_named},
                {"--emit-header --svg", arena_file},
                {"--units", arena_units}};
  size_t i;
  if (!strcmp(o, "--greedy"))
    return a->o.greedy = 1;
  if (!strcmp(o, "--least"))
    return a->least = 1;
  if (!strcmp(o, "--all"))
    return a->model_option = a->step_option = o, a->all = 1;
  if (!strcmp(o, "--offsets"))
    return a->offsets = 1;
  if (!strcmp(o, "--csv"))
    return a->csv = 1;
  if (!strcmp(o, "--json"))
    return a->j.json = 1;
  if (cmd_in(o,
             "--infer --keep-grads --master-weights --capturable --reentrant --train --optim-impl "
             "--step "
             "--accumulate --amp --dtype --checkpoint --checkpoint-nodes --cc --rules"))
    return a->model_option = a->step_option = o, job_option(&a->j, o, v);
  if (cmd_in(o, "--batch --dim"))
    return a->model_option = o, job_option(&a->j, o, v);
  for (i = 0; i < sizeof valued / sizeof *valued && !cmd_in(o, valued[i].names); i++)
    ;
  if (i == sizeof valued / sizeof *valued)
    return job_unknown(&a->j, o);
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", o, NULL), 0;
  return valued[i].set(a, o, v) ? 2 : 0;
}

static int arena_arguments(arena_job *a, int argc, char **argv) {
  int i, n;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      a->path = NULL;
      return cmd_help(help_arena, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      n = arena_option(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!n)
        return USAGE;
      i += n;
    } else if (a->path)
      return cmd_bad("a second input", argv[i], "one");
    else
      a->path = argv[i++];
  }
  if (!a->path)
    return cmd_bad("no input", NULL, "vram arena LIFETIMES.csv or MODEL; vram arena -h");
  if (a->csv + a->j.json + cmd_is_output(a->header) + cmd_is_output(a->svg) > 1)
    return cmd_bad("standard output takes one of --json, --csv and one FILE -", NULL, NULL);
  if (a->has_capacity && a->o.nbank)
    return cmd_bad("--capacity is of one bank, not with", "--bank", NULL);
  if (a->prefix && !a->header)
    return cmd_bad("--prefix is for", "--emit-header", NULL);
  if ((a->o.greedy || a->o.order) && (a->has_nodes || a->has_time))
    return cmd_bad("no search, so no limit of it:", a->o.order ? "--order" : "--greedy", NULL);
  if (a->least && (a->o.greedy || a->o.order || a->o.enough_bytes))
    return cmd_bad("--least searches for the least, not with",
                   a->o.enough_bytes ? "--enough"
                   : a->o.order      ? "--order"
                                     : "--greedy",
                   NULL);
  return job_check(&a->j);
}

/* The first line has a comma before any blank: no model's has. */
static int is_lifetimes(const char *text, size_t len) {
  size_t i;
  for (i = 0; i < len && text[i] != '\n' && text[i] != ' ' && text[i] != '\t' && text[i] != '#';
       i++)
    if (text[i] == ',')
      return 1;
  return 0;
}

static int arena_write(const arena_job *a, const arena_set *s, const vram_arena *r) {
  cmd_output out;
  int status = a->header ? cmd_output_open(&out, a->header) : FITS;
  if (!status && a->header) {
    status = arena_header(out.file, a, s, r);
    if (status)
      cmd_output_drop(&out);
    else
      status = cmd_output_commit(&out, 0);
  }
  if (status || !a->svg)
    return status;
  status = cmd_output_open(&out, a->svg);
  if (status)
    return status;
  arena_picture(out.file, s, r, arena_banks(a));
  return cmd_output_commit(&out, 0);
}

/* What the planner says about buffer i. */
static int arena_error(const arena_set *s, const uint32_t *lines, const vram_error *e) {
  if (e->line && lines)
    cmd_say("%s:%" PRIu32 ": %s", s->path, lines[e->line - 1], e->text);
  else if (e->line)
    cmd_say("%s: buffer %" PRIu32 " (%s): %s", s->path, e->line - 1, s->name[e->line - 1], e->text);
  else
    cmd_say("%s: %s", s->path, e->text);
  return e->code == VRAM_ERR_MEMORY ? OTHER : e->code == VRAM_ERR_LIMIT ? TOO_LARGE : USAGE;
}

static int arena_plan(arena_job *a, arena_set *s, const uint32_t *lines) {
  vram_arena r;
  vram_error e;
  uint64_t bytes, from = arena_now();
  void *scratch;
  double seconds;
  int fits = 1, failed, status = FITS;
  if ((a->source == OF_STEP || a->source == OF_FILE) && !a->has_align)
    a->o.align = a->source == OF_STEP ? 256 : 16;
  if (!a->has_nodes)
    a->o.nodes = a->has_time ? UINT64_MAX / 2 : 2000000;
  a->until = from + (a->has_time ? a->until : 10000);
  if (a->has_capacity && !a->least && (!a->o.enough_bytes || a->o.enough_bytes > a->o.capacity[0]))
    a->o.enough_bytes = a->o.capacity[0];
  a->o.stop = arena_late;
  a->o.user = a;
  bytes = vram_arena_bytes(s->n, &a->o);
  scratch = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  if (!scratch)
    return cmd_no_memory();
  cmd_progress("vram arena: searching", a->until > from ? (a->until - from) / 1000 : 0);
  cmd_stoppable();
  failed = vram_arena_plan(s->b, s->n, &a->o, scratch, bytes, &r, &e) != VRAM_OK;
  cmd_progress_end();
  if (failed) {
    if (e.code != VRAM_ERR_LIMIT || e.line || !a->has_capacity)
      status = arena_error(s, lines, &e);
    fits = 0;
  } else if (vram_arena_verify(s->b, s->n, &a->o, scratch, bytes, NULL, &e))
    status = (arena_error(s, lines, &e), OTHER);
  free(scratch);
  if (status)
    return status;
  seconds = (double)(arena_now() - from) / 1000;
  if (fits)
    status = arena_write(a, s, &r);
  if (status)
    return status;
  if (a->j.json)
    arena_json(a, s, &r, fits, seconds);
  else if (a->csv && fits)
    arena_csv(a, s);
  else if (!fits || (!cmd_is_output(a->header) && !cmd_is_output(a->svg)))
    arena_text(a, s, &r, fits, seconds);
  return fits ? FITS : TOO_LARGE;
}

/* Buffers of what the command line names; *lines: where they stand. */
static int arena_read(arena_job *a, arena_set *s, uint32_t **lines) {
  char *text = NULL;
  size_t len = 0;
  int status;
  if (!a->step_option && model_is_graph(model_sniff(a->path))) {
    a->source = OF_FILE;
    status = arena_of_file(s, &a->j, &a->graphs, &a->is_open);
    if (status != CMD_ABSENT)
      return status;
  }
  a->source = OF_STEP;
  status = model_read(a->path, &a->j, &text, &len);
  if (status)
    return status;
  if (xla_is(text, len)) {
    uint64_t align = 1;
    a->source = OF_XLA;
    if (a->model_option)
      status = cmd_bad("an option of models, not of XLA's plan:", a->model_option, NULL);
    else
      status = arena_of_xla(s, text, len, &align);
    if (!a->has_align)
      a->o.align = align;
    free(text);
    return status;
  }
  if (!is_lifetimes(text, len) &&
      !(strlen(a->path) > 4 && !strcmp(a->path + strlen(a->path) - 4, ".csv")))
    return model_lifetimes(a, s, text, len); /* text is its */
  a->source = OF_LIFETIMES;
  if (a->model_option)
    status = cmd_bad("an option of models, not of lifetimes:", a->model_option, NULL);
  else
    status = read_lifetimes(s, text, len, lines);
  free(text);
  return status;
}

int arena_command(int argc, char **argv) {
  arena_job a;
  arena_set s;
  uint32_t *lines = NULL;
  int status;
  memset(&a, 0, sizeof a);
  a.j.command = "arena";
  memset(&s, 0, sizeof s);
  status = arena_arguments(&a, argc, argv);
  if (status || !a.path)
    return status;
  a.j.model = s.path = a.path;
  status = arena_read(&a, &s, &lines);
  if (!status)
    status = arena_plan(&a, &s, lines);
  free(lines);
  arena_set_end(&s);
  return status;
}
