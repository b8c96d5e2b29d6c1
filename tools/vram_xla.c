#include "vram_xla.h"

static const char assignment[] = "BufferAssignment:", total_used[] = "Total bytes used: ";
static const char *const beside[] = {"-buffer-assignment.txt", "-live-range.txt",
                                     "-buffer-assignment-values.txt"};

/* ---- lines ---- */

typedef struct xla_lines {
  const char *path;
  const char *at, *end; /* what is not read yet */
  const char *s;        /* the line, without its end */
  size_t n;
  uint32_t line;
} xla_lines;

static int next_line(xla_lines *l) {
  const char *to;
  if (l->at == l->end)
    return 0;
  to = (const char *)memchr(l->at, '\n', (size_t)(l->end - l->at));
  l->s = l->at;
  l->n = (size_t)((to ? to : l->end) - l->at);
  l->at = to ? to + 1 : l->end;
  l->n -= l->n && l->s[l->n - 1] == '\r';
  l->line++;
  return 1;
}

static xla_lines lines_of(const char *path, const char *text, size_t len) {
  xla_lines l;
  memset(&l, 0, sizeof l);
  l.path = path;
  l.at = l.s = text;
  l.end = text + len;
  return l;
}

/* What follows this text in n bytes; NULL: it is not in them. */
static const char *behind(const char *s, size_t n, const char *what) {
  const size_t len = strlen(what);
  size_t i;
  for (i = 0; i + len <= n; i++)
    if (s[i] == *what && !memcmp(s + i, what, len))
      return s + i + len;
  return NULL;
}

static int begins(const xla_lines *l, const char *what) {
  const size_t len = strlen(what);
  return l->n >= len && !memcmp(l->s, what, len);
}

/* A number, behind which *s points then; 0: there is none, or it is too large. */
static int number(const char **s, const char *end, uint64_t *to) {
  return cmd_digits(s, end, 10, (uint64_t)INT64_MAX / 4, to);
}

static int xla_bad(xla_program *x, const char *path, uint32_t line, const char *what,
                   const char *found, size_t n) {
  if (!x->status)
    cmd_say("%s:%" PRIu32 ": %s%s", path, line, what, cmd_found(found, n));
  return x->status = USAGE;
}

/* The same of the line that was read last. */
static int line_bad(xla_program *x, const xla_lines *l, const char *what) {
  return xla_bad(x, l->path, l->line, what, l->s, l->n);
}

/* XLA ends every line: what does not has been cut. */
static int whole(xla_program *x, const xla_lines *l) {
  if (l->at == l->end && l->at[-1] != '\n')
    return line_bad(x, l, "the text ends within a line:");
  return FITS;
}

/* A name without the mark of a value that a loop or a condition merges, and without the index of
   what is no tuple: "dot.1{} (phi)" is "dot.1". */
static uint32_t name_length(const char *s, size_t n) {
  static const char phi[] = " (phi)";
  const size_t mark = sizeof phi - 1;
  if (n >= mark && !memcmp(s + n - mark, phi, mark))
    n -= mark;
  if (n >= 2 && s[n - 2] == '{' && s[n - 1] == '}')
    n -= 2;
  return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* ---- the assignment ---- */

/* What an allocation is for, from what follows its size; shapes stand between bars. */
static xla_kind kind_of(const char *s, const char *end) {
  static const struct {
    const char *word;
    xla_kind kind;
  } words[] = {{", parameter ", XLA_PARAMETER},  {", constant", XLA_CONSTANT},
               {", thread-local", XLA_LOCAL},    {", preallocated-temp", XLA_TEMP},
               {", maybe-live-out", XLA_OUTPUT}, {", output shape", XLA_OUTPUT}};
  size_t i;
  for (i = 0; i < sizeof words / sizeof *words; i++) {
    const size_t n = strlen(words[i].word);
    const char *at;
    int in_shape = 0;
    for (at = s; at + n <= end; at++) {
      in_shape ^= *at == '|';
      if (!in_shape && *at == ',' && !memcmp(at, words[i].word, n))
        return words[i].kind;
    }
  }
  return XLA_TEMP;
}

enum { HOST_COLOR = 5 }; /* Layout::kHostMemorySpace; other colors are memory of the device */

/* "allocation 7: size 16, color 5, parameter 3, shape |f32[4]| at ShapeIndex {}:" */
static int add_allocation(xla_program *x, const xla_lines *l) {
  static const char color[] = ", color ";
  const size_t n = sizeof color - 1;
  const char *const end = l->s + l->n, *s = behind(l->s, l->n, ": size ");
  uint64_t of = 0;
  xla_allocation *a = (xla_allocation *)cmd_room(x->allocation, x->nallocation, &x->allocation_cap,
                                                 sizeof *x->allocation);
  if (!a)
    return x->status = cmd_no_memory();
  x->allocation = a;
  a += x->nallocation;
  memset(a, 0, sizeof *a);
  if (!s || !number(&s, end, &a->bytes))
    return line_bad(x, l, "an allocation without a size:");
  if ((size_t)(end - s) > n && !memcmp(s, color, n) && (s += n, !number(&s, end, &of)))
    return line_bad(x, l, "an allocation of no color:");
  a->kind = of == HOST_COLOR ? XLA_HOST : kind_of(s, end);
  a->line = l->line;
  x->nallocation++;
  return FITS;
}

/* " value: <666 dot.1{0} @0> (size=16,offset=0): f32[4]" */
static int add_value(xla_program *x, const xla_lines *l) {
  const char *const end = l->s + l->n, *s = behind(l->s, l->n, "value: <"), *to;
  xla_allocation *a;
  xla_value *v = (xla_value *)cmd_room(x->value, x->nvalue, &x->value_cap, sizeof *x->value);
  uint64_t id;
  if (!v)
    return x->status = cmd_no_memory();
  x->value = v;
  if (!x->nallocation)
    return xla_bad(x, l->path, l->line, "a value before the first allocation", NULL, 0);
  v += x->nvalue;
  memset(v, 0, sizeof *v);
  if (!s || !number(&s, end, &id) || s == end || *s != ' ' ||
      !(to = behind(s, (size_t)(end - s), " @")))
    return line_bad(x, l, "a value without a name:");
  v->name = s + 1;
  v->len = name_length(s + 1, to - 2 > s + 1 ? (size_t)(to - 2 - (s + 1)) : 0);
  s = behind(to, (size_t)(end - to), "(size=");
  if (!s || !number(&s, end, &v->bytes) || !(s = behind(s, (size_t)(end - s), "offset=")) ||
      !number(&s, end, &v->offset))
    return line_bad(x, l, "a value without size and offset:");
  a = x->allocation + x->nallocation - 1;
  if (v->offset > a->bytes || v->bytes > a->bytes - v->offset)
    return xla_bad(x, l->path, l->line, "a value that its allocation does not hold:", v->name,
                   v->len);
  if (!a->name) {
    a->name = v->name;
    a->len = v->len;
  }
  v->allocation = x->nallocation - 1;
  v->line = l->line;
  x->nvalue++;
  return FITS;
}

/* A line of the assignment. Values that found room in memory of another color are named a second
   time, without a size: " reused by buffers of a different color:", "  value: <...> (color=0)". */
static int add_line(xla_program *x, const xla_lines *l) {
  if (begins(l, "allocation "))
    return add_allocation(x, l);
  if (begins(l, " value: <"))
    return add_value(x, l);
  if (begins(l, " reused by ") || begins(l, "  value: <"))
    return FITS;
  return line_bad(x, l, "not a line of a buffer assignment:");
}

/* It ends at an empty line, or at one without a blank that names no allocation: what may follow in
   the same text has its own readers. */
static int read_assignment(xla_program *x, const char *text, size_t len) {
  xla_lines l = lines_of(x->path, text, len);
  enum { BEFORE, INSIDE, BEHIND } at = BEFORE;
  while (!x->status && next_line(&l))
    if (begins(&l, assignment)) {
      if (at != BEFORE)
        xla_bad(x, l.path, l.line, "a second program in the same text", NULL, 0);
      at = INSIDE;
    } else if (at == INSIDE) {
      if (!l.n || (*l.s != ' ' && !begins(&l, "allocation ")))
        at = BEHIND;
      else if (!whole(x, &l))
        add_line(x, &l);
    }
  if (!x->status && !x->nallocation)
    return xla_bad(x, l.path, 1, "a buffer assignment without an allocation", NULL, 0);
  return x->status;
}

/* ---- what stands beside it, by name ---- */

static int compare_names(const char *a, uint32_t alen, const char *b, uint32_t blen) {
  const int d = memcmp(a, b, alen < blen ? alen : blen);
  return d ? d : alen < blen ? -1 : alen > blen;
}

typedef struct xla_said { /* of a value (begin, end) or an instruction (op) */
  const char *name, *op;
  uint64_t begin, end;
  uint32_t len, op_len, line;
  int is_used; /* a value has that name */
} xla_said;

typedef struct xla_book {
  xla_said *said;
  uint32_t n, cap;
} xla_book;

static int by_said(const void *a, const void *b) {
  const xla_said *const x = (const xla_said *)a, *const y = (const xla_said *)b;
  return compare_names(x->name, x->len, y->name, y->len);
}

static xla_said *said_add(xla_program *x, xla_book *b) {
  xla_said *const said = (xla_said *)cmd_room(b->said, b->n, &b->cap, sizeof *b->said);
  if (!said) {
    x->status = cmd_no_memory();
    return NULL;
  }
  b->said = said;
  memset(said + b->n, 0, sizeof *said);
  return said + b->n++;
}

/* The first of that name; NULL: there is none. */
static xla_said *said_of(const xla_book *b, const char *name, uint32_t len) {
  uint32_t low = 0, high = b->n;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (compare_names(name, len, b->said[middle].name, b->said[middle].len) > 0)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == b->n || compare_names(name, len, b->said[low].name, b->said[low].len) != 0)
    return NULL;
  return b->said + low;
}

/* "    dot.1{0}:73-75" of the part BufferLiveRange; *moments: one behind the last. 0: bad. */
static int read_ranges(xla_program *x, xla_book *b, const char *path, const char *text,
                       size_t len) {
  xla_lines l = lines_of(path, text, len);
  int inside = 0;
  while (next_line(&l)) {
    const char *colon = l.s + l.n, *s;
    xla_said *said;
    if (begins(&l, "  BufferLiveRange:")) {
      inside = 1;
      continue;
    }
    if (inside && !begins(&l, "    "))
      inside = 0;
    if (!inside)
      continue;
    if (whole(x, &l))
      return 0;
    while (colon > l.s && *--colon != ':')
      ;
    said = said_add(x, b);
    if (!said)
      return 0;
    s = colon + 1;
    said->line = l.line;
    said->name = l.s + 4;
    said->len = name_length(l.s + 4, colon > l.s + 4 ? (size_t)(colon - l.s - 4) : 0);
    if (colon == l.s || !number(&s, l.s + l.n, &said->begin) || s == l.s + l.n || *s++ != '-' ||
        !number(&s, l.s + l.n, &said->end) || said->end < said->begin)
      return line_bad(x, &l, "not a live range:"), 0;
    said->end++; /* the last moment is one */
    x->moments = said->end > x->moments ? said->end : x->moments;
  }
  if (b->n)
    qsort(b->said, b->n, sizeof *b->said, by_said);
  return 1;
}

/* "Total bytes used: 88224 (86.2KiB)", of all allocations; 0: they are others. */
static int check_total(xla_program *x, const xla_lines *l) {
  const char *s = l->s + sizeof total_used - 1;
  uint64_t total, sum = 0;
  uint32_t i;
  for (i = 0; i < x->nallocation; i++)
    sum += x->allocation[i].bytes;
  if (number(&s, l->s + l->n, &total) && total == sum)
    return 1;
  return line_bad(x, l, "not the sum of the buffer assignment's allocations:"), 0;
}

/* "from instruction: %dot.1 = ..., metadata={op_name="jit(step)/dot" ..." */
static int read_ops(xla_program *x, xla_book *b, const char *path, const char *text, size_t len) {
  xla_lines l = lines_of(path, text, len);
  while (next_line(&l)) {
    const char *const name = behind(l.s, l.n < 64 ? l.n : 64, "from instruction: %");
    const char *const end = l.s + l.n;
    const char *op = name ? behind(name, (size_t)(end - name), "metadata={op_name=\"") : NULL, *to;
    xla_said *said;
    if (begins(&l, total_used) && !check_total(x, &l))
      return 0;
    if (!op)
      continue;
    said = said_add(x, b);
    if (!said)
      return 0;
    for (to = name; to < end && *to != ' '; to++)
      ;
    said->name = name;
    said->len = name_length(name, (size_t)(to - name));
    for (to = op; to < end && *to != '"'; to++)
      to += *to == '\\' && to + 1 < end;
    said->op = op;
    said->op_len = (uint32_t)(to - op);
  }
  if (b->n)
    qsort(b->said, b->n, sizeof *b->said, by_said);
  return 1;
}

static uint32_t instruction_length(const char *name, uint32_t len) {
  const char *const brace = (const char *)memchr(name, '{', len);
  return brace ? (uint32_t)(brace - name) : len;
}

static int is_of_heap(const xla_program *x, const xla_value *v) {
  return x->allocation[v->allocation].kind == XLA_TEMP;
}

/* Each live range is that of a value, but where a back end gives constants no memory: else the
   assignment has been cut. */
static int all_used(xla_program *x, const xla_book *ranges, const char *path) {
  const size_t constant = strlen("constant");
  uint32_t i;
  for (i = 0; i < ranges->n; i++) {
    const xla_said *const said = ranges->said + i;
    if (!said->is_used && (!i || by_said(said - 1, said)) &&
        (said->len < constant || memcmp(said->name, "constant", constant)))
      return xla_bad(x, path, said->line,
                     "a live range of what the buffer assignment lacks (has it been cut?):",
                     said->name, said->len);
  }
  return FITS;
}

static int name_values(xla_program *x, const xla_book *ranges, const xla_book *ops) {
  uint32_t i;
  for (i = 0; i < x->nvalue; i++) {
    xla_value *const v = x->value + i;
    xla_said *const range = said_of(ranges, v->name, v->len);
    const xla_said *const op = said_of(ops, v->name, instruction_length(v->name, v->len));
    if (!range && is_of_heap(x, v))
      return xla_bad(x, x->path, v->line, "a value without a live range:", v->name, v->len);
    if (range)
      range->is_used = 1;
    v->begin = range ? range->begin : 0;
    v->end = range ? range->end : x->moments;
    v->op = op ? op->op : NULL;
    v->op_len = op ? op->op_len : 0;
  }
  for (i = 0; i < x->nallocation; i++) {
    xla_allocation *const a = x->allocation + i;
    const xla_said *op = NULL;
    if (a->name)
      op = said_of(ops, a->name, instruction_length(a->name, a->len));
    a->op = op ? op->op : NULL;
    a->op_len = op ? op->op_len : 0;
  }
  return FITS;
}

/* The file beside this one of a dump, into x->text[k] and x->beside[k]; 0: there is none. */
static int read_beside(xla_program *x, int k) {
  const size_t n = strlen(x->path), own = strlen(beside[0]);
  char *path;
  int status;
  if (n < own || strcmp(x->path + n - own, beside[0]) != 0)
    return 0;
  path = x->beside[k] = (char *)malloc(n + strlen(beside[k]) + 1);
  if (!path) {
    x->status = cmd_no_memory();
    return 0;
  }
  memcpy(path, x->path, n - own);
  memcpy(path + n - own, beside[k], strlen(beside[k]) + 1);
  status = cmd_try_read(path, x->text + k, x->len + k);
  if (status && status != CMD_ABSENT)
    x->status = status;
  return !status;
}

int xla_is(const char *text, size_t len) {
  const size_t n = sizeof assignment - 1;
  return len >= n && !memcmp(text, assignment, n);
}

int xla_read(xla_program *x, const char *path, const char *text, size_t len) {
  xla_book ranges = {NULL, 0, 0}, ops = {NULL, 0, 0};
  int live = 0, values = 0; /* which text: 0 is the file itself */
  memset(x, 0, sizeof *x);
  x->path = strcmp(path, "-") ? path : "standard input";
  if (read_assignment(x, text, len))
    return x->status;
  if (!behind(text, len, "HloLiveRange")) {
    live = read_beside(x, 1);
    if (!live && !x->status)
      return xla_bad(x, x->path, 1,
                     "no live ranges: they are in ...-live-range.txt of the same dump", NULL, 0);
  }
  if (!x->status && !behind(text, len, "from instruction: %") && read_beside(x, 2))
    values = 2;
  if (!x->status &&
      read_ranges(x, &ranges, live ? x->beside[1] : x->path, live ? x->text[1] : text,
                  live ? x->len[1] : len) &&
      read_ops(x, &ops, values ? x->beside[2] : x->path, values ? x->text[2] : text,
               values ? x->len[2] : len) &&
      !name_values(x, &ranges, &ops))
    all_used(x, &ranges, live ? x->beside[1] : x->path);
  free(ranges.said);
  free(ops.said);
  return x->status;
}

void xla_end(xla_program *x) {
  int i;
  for (i = 0; i < 3; i++) {
    free(x->text[i]);
    free(x->beside[i]);
  }
  free(x->allocation);
  free(x->value);
  memset(x, 0, sizeof *x);
}

const char *xla_kind_name(xla_kind kind) {
  static const char *const name[] = {"argument", "constant", "output", "local", "temp", "host"};
  return name[kind];
}

/* ---- the heap ---- */

static int by_place(const void *a, const void *b) {
  const xla_value *const x = (const xla_value *)a, *const y = (const xla_value *)b;
  if (x->allocation != y->allocation)
    return x->allocation < y->allocation ? -1 : 1;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return x->line < y->line ? -1 : x->line > y->line;
}

void xla_heap(xla_program *x) {
  uint32_t i, n = 0;
  for (i = 0; i < x->nvalue; i++)
    if (is_of_heap(x, x->value + i) && x->value[i].bytes)
      x->value[n++] = x->value[i];
  x->nvalue = n;
  if (n)
    qsort(x->value, n, sizeof *x->value, by_place);
  for (i = 0, n = 0; i < x->nvalue; i++) {
    const xla_value *const v = x->value + i;
    xla_value *const last = n ? x->value + n - 1 : NULL;
    if (last && last->allocation == v->allocation && last->offset == v->offset &&
        v->begin < last->end) {
      last->end = v->end > last->end ? v->end : last->end;
      last->bytes = v->bytes > last->bytes ? v->bytes : last->bytes;
    } else
      x->value[n++] = *v;
  }
  x->nvalue = n;
}

uint64_t xla_alignment(const xla_program *x, uint32_t allocation) {
  uint64_t all = 4096;
  uint32_t i;
  for (i = 0; i < x->nvalue; i++)
    if (x->value[i].allocation == allocation)
      all |= x->value[i].offset;
  return all & (~all + 1);
}
