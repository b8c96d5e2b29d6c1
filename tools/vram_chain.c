#include "vram_chain.h"

int exact_parse(const char *s, size_t n, exact *to) {
  size_t i = 0, digits = 0;
  int point = 0, e = 0, sign = 1, more = 0;
  uint64_t v = 0;
  for (; i < n && ((s[i] >= '0' && s[i] <= '9') || (s[i] == '.' && !point)); i++) {
    if (s[i] == '.')
      point = 1;
    else {
      digits++;
      if (v > (UINT64_MAX - 9) / 10)
        more = 1;
      else
        v = v * 10 + (uint64_t)(s[i] - '0');
      e -= point;
    }
  }
  if (!digits)
    return 0;
  if (i < n && (s[i] | 32) == 'e') {
    int k = 0;
    i++;
    if (i < n && (s[i] == '-' || s[i] == '+'))
      sign = s[i++] == '-' ? -1 : 1;
    if (i == n)
      return 0;
    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++)
      k = k < 1000 ? k * 10 + (s[i] - '0') : k;
    e += sign * k;
  }
  if (i < n)
    return 0;
  for (; v && v % 10 == 0; v /= 10)
    e++;
  to->digits = v;
  to->exponent = v ? e : 0;
  return more ? -1 : 1;
}

int exact_scaled(exact d, int exponent, uint64_t *to) {
  int e = d.exponent - exponent;
  if (e < 0)
    return 0;
  for (; e && d.digits; e--) {
    if (d.digits > (uint64_t)INT64_MAX / 10)
      return 0;
    d.digits *= 10;
  }
  *to = d.digits;
  return d.digits <= (uint64_t)INT64_MAX;
}

const char *chain_cost_text(const plan_chain *c, uint64_t cost) {
  static char text[4][64];
  static int at;
  char *t = text[at++ & 3], digits[32];
  const int n = snprintf(digits, sizeof digits, "%" PRIu64, cost), after = -c->exponent;
  int used;
  if (!after)
    return memcpy(t, digits, (size_t)n + 1), t;
  used = n > after ? snprintf(t, 64, "%.*s.%s", n - after, digits, digits + n - after)
                   : snprintf(t, 64, "0.%0*d%s", after - n, 0, digits);
  if (n == after)
    used = snprintf(t, 64, "0.%s", digits);
  while (t[used - 1] == '0')
    t[--used] = 0;
  if (t[used - 1] == '.')
    t[used - 1] = 0;
  return t;
}

enum { FW, BW, X, XBAR, FTMP, BTMP, NAME, COLUMN_COUNT };
static const char *const column_name[] = {"fw", "bw", "x", "xbar", "ftmp", "btmp", "name"};

typedef struct chain_file { /* a place in it */
  const char *path;
  char *at, *end, *begin; /* begin: of the line */
  uint64_t line;
} chain_file;

static int chain_bad(const chain_file *f, const char *at, const char *what, field found,
                     const char *expected) {
  const char *shown = cmd_shown(found.s, found.s ? found.n : 0);
  const unsigned long column = (unsigned long)(at - f->begin) + 1;
  if (!found.s)
    cmd_say("%s:%" PRIu64 ":%lu: %s%s", f->path, f->line, column, what, cmd_expected(expected));
  else if (expected)
    cmd_say("%s:%" PRIu64 ":%lu: %s (found '%s', expected %s)", f->path, f->line, column, what,
            shown, expected);
  else
    cmd_say("%s:%" PRIu64 ":%lu: %s (found '%s')", f->path, f->line, column, what, shown);
  return USAGE;
}

/* The next line that is not blank; 0: there is none. */
static int chain_line(chain_file *f) {
  while (f->at < f->end) {
    char *s = f->at;
    f->begin = s;
    f->line++;
    while (s < f->end && (*s == ' ' || *s == '\t' || *s == '\r'))
      s++;
    if (s < f->end && *s != '\n')
      return 1;
    f->at = s + (s < f->end);
  }
  return 0;
}

/* The next field of the line, without blanks and quotes around it; 0: there is none. */
static int chain_next(chain_file *f, field *to) {
  char *s = f->at, *end;
  if (s >= f->end || (s > f->begin && s[-1] == '\n'))
    return 0;
  while (s < f->end && (*s == ' ' || *s == '\t'))
    s++;
  if (s < f->end && *s == '"') {
    to->s = ++s;
    while (s < f->end && *s != '"' && *s != '\n')
      s++;
    to->n = (size_t)(s - to->s);
    while (s < f->end && *s != ',' && *s != '\n')
      s++;
  } else {
    to->s = s;
    while (s < f->end && *s != ',' && *s != '\n')
      s++;
    for (end = s; end > to->s && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r');)
      end--;
    to->n = (size_t)(end - to->s);
  }
  /* behind a comma there is one more field, even at the end of the line */
  f->at = s + (s < f->end);
  return 1;
}

int chain_is(const char *path, char *text, size_t len) {
  const size_t n = strlen(path);
  chain_file f;
  field here;
  int i;
  memset(&f, 0, sizeof f);
  f.at = text;
  f.end = text + len;
  if (n > 4 && !strcmp(path + n - 4, ".csv"))
    return 1;
  if (chain_line(&f))
    while (chain_next(&f, &here))
      for (i = 0; i < NAME; i++)
        if (cmd_field_is(&here, column_name[i]))
          return 1;
  return 0;
}

void chain_end(plan_chain *p) {
  free(p->stage);
  free(p->way);
  free(p->names);
}

/* The columns in their order; -1: message printed. */
static int chain_columns(chain_file *f, int *column, int most) {
  char missing[64] = "";
  field here = {NULL, 0}, none = {NULL, 0};
  int n = 0, i, k;
  if (!chain_line(f)) {
    f->begin = f->at;
    f->line += !f->line;
    return chain_bad(f, f->at, "an empty file", none, "the header fw,bw,x,xbar,ftmp,btmp"), -1;
  }
  while (chain_next(f, &here)) {
    for (i = 0; i < COLUMN_COUNT && !cmd_field_is(&here, column_name[i]); i++)
      ;
    if (i == COLUMN_COUNT)
      return chain_bad(f, here.s, "an unknown column", here, "fw, bw, x, xbar, ftmp, btmp, name"),
             -1;
    for (k = 0; k < n; k++)
      if (column[k] == i)
        return chain_bad(f, here.s, "a second column of that name", here, NULL), -1;
    if (n < most)
      column[n++] = i;
  }
  for (i = 0; i < NAME; i++) {
    for (k = 0; k < n && column[k] != i; k++)
      ;
    if (k == n)
      snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s",
               *missing ? ", " : "", column_name[i]);
  }
  if (*missing)
    return chain_bad(f, f->begin, "columns are missing", none, missing), -1;
  return n;
}

typedef struct chain_row {
  exact cost[2];
  uint64_t bytes[4]; /* x, xbar, ftmp, btmp */
  chain_file place;
  field at[COLUMN_COUNT];
} chain_row;

/* One field of a row; not FITS: message printed. */
static int chain_value(chain_file *f, chain_row *r, int column, field here) {
  const field none = {NULL, 0};
  char text[64];
  r->at[column] = here;
  if (column == NAME)
    return FITS;
  if (!here.n)
    return chain_bad(f, here.s, "an empty field", none, column_name[column]);
  if (*here.s == '-')
    return chain_bad(f, here.s, "a negative number", here, "0 or more");
  if (column <= BW) {
    const int is = exact_parse(here.s, here.n, &r->cost[column]);
    if (is < 0)
      return chain_bad(f, here.s, "a cost of too many digits", here, "at most 18");
    if (!is)
      return chain_bad(f, here.s, "not a cost", here, "a decimal number");
    return FITS;
  }
  snprintf(text, sizeof text, "%.*s", (int)(here.n < sizeof text ? here.n : 0), here.s);
  if (here.n >= sizeof text || !cmd_parse_size(text, &r->bytes[column - X]) ||
      (strchr(text, '.') && text[here.n - 1] != 'B'))
    return chain_bad(f, here.s, "not a size", here,
                     "bytes below 2^63, or a number with KB MiB ...");
  return FITS;
}

/* The stages of all rows; not FITS: message printed. */
static int chain_stages(const chain_row *row, uint32_t n, plan_chain *p) {
  size_t names = 0;
  uint32_t i, k;
  for (i = 0; i < n; i++) {
    names += row[i].at[NAME].n + 1;
    for (k = 0; k < 2; k++)
      if (row[i].cost[k].exponent < p->exponent)
        p->exponent = row[i].cost[k].exponent;
  }
  p->stage = (vram_stage *)calloc(n + 1u, sizeof *p->stage);
  p->way = (vram_way *)calloc(n + 1u, sizeof *p->way);
  p->names = (char *)calloc(names + 1, 1);
  if (!p->stage || !p->way || !p->names)
    return cmd_no_memory();
  for (names = 0, i = 0; i < n; i++) {
    const chain_row *r = &row[i];
    vram_way *w = &p->way[i];
    const field name = r->at[NAME];
    uint64_t cost[2];
    for (k = 0; k < 2; k++)
      if (!exact_scaled(r->cost[k], p->exponent, &cost[k]))
        return chain_bad(&r->place, r->at[k].s, "a cost that has no exact sum with the others",
                         r->at[k], "at most 18 digits from the largest to the smallest");
    if (r->bytes[1] < r->bytes[0])
      return chain_bad(&r->place, r->at[XBAR].s, "xbar is less than x, which is a part of it",
                       r->at[XBAR], "x or more");
    w->forward_cost = p->stage[i].forward_cost = cost[0];
    w->backward_cost = cost[1];
    w->forward_temp_bytes = p->stage[i].forward_temp_bytes = r->bytes[2];
    w->backward_temp_bytes = r->bytes[3];
    w->saved_bytes = i + 1 < n ? r[1].bytes[1] : 0;
    p->stage[i].output_bytes = i + 1 < n ? r[1].bytes[0] : 0;
    p->stage[i].way = w;
    p->stage[i].nway = 1;
    if (name.n) {
      p->stage[i].name = p->names + names;
      memcpy(p->names + names, name.s, name.n);
      names += name.n + 1;
    }
  }
  p->c.stage = p->stage;
  p->c.nstage = n;
  p->c.input_bytes = p->c.input_gradient_bytes = row[0].bytes[0];
  return FITS;
}

int chain_read(const char *path, char *text, size_t len, plan_chain *p) {
  int column[COLUMN_COUNT], ncolumn, status = FITS;
  chain_row *row = NULL;
  uint32_t n = 0, cap = 0;
  const field none = {NULL, 0};
  field here = {NULL, 0};
  chain_file f;
  memset(&f, 0, sizeof f);
  memset(p, 0, sizeof *p);
  f.path = path;
  f.at = text;
  f.end = text + len;
  if (len >= 3 && !memcmp(text, "\357\273\277", 3)) /* a mark of the byte order */
    f.at += 3;
  ncolumn = chain_columns(&f, column, COLUMN_COUNT);
  if (ncolumn < 0)
    return USAGE;
  while (!status && chain_line(&f)) {
    int k;
    if (n == cap) {
      chain_row *more;
      cap = cap ? 2 * cap : 64;
      more = (chain_row *)realloc(row, cap * sizeof *row);
      if (!more) {
        status = cmd_no_memory();
        break;
      }
      row = more;
    }
    memset(&row[n], 0, sizeof *row);
    row[n].place = f;
    for (k = 0; !status && chain_next(&f, &here); k++)
      if (k < ncolumn)
        status = chain_value(&row[n].place, &row[n], column[k], here);
      else
        status = chain_bad(&row[n].place, here.s, "more fields than the header has", here, NULL);
    if (!status && k < ncolumn)
      status = chain_bad(&row[n].place, here.s + here.n, "the row ends too early", none,
                         column_name[column[k]]);
    n++;
  }
  if (!status && !n)
    status = chain_bad(&f, f.begin, "no stages below the header", none,
                       "a row for each stage, the loss last");
  if (!status)
    status = chain_stages(row, n, p);
  free(row);
  return status;
}
