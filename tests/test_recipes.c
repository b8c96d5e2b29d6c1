/* Recipes in words, read by somebody else than the library: every one that the library shows is
   understood and says nothing that cannot be, and bad ones are found out. A language is a function
   that reads one recipe. First comes what languages share: words and complaints.
   usage: test_recipes */
#include "../vram.h"
#include "test.h"

#include <stdarg.h>

/* ---- words and complaints */

typedef struct reader {
  const char *at;      /* behind the word */
  char word[64];       /* that is read now; "": the end */
  char complaint[200]; /* the first one; "": none */
} reader;

static void complain(reader *r, const char *word, const char *format, ...) {
  va_list a;
  int n;
  if (*r->complaint)
    return;
  n = snprintf(r->complaint, sizeof r->complaint, "%s: ", *word ? word : "the end");
  va_start(a, format);
  vsnprintf(r->complaint + n, sizeof r->complaint - (size_t)n, format, a);
  va_end(a);
}

static int letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Goes on to the next word: letters and figures, "+=", or another sign; after a complaint there is
   none any more. */
static void advance(reader *r) {
  size_t n = 0;
  while (*r->at == ' ')
    r->at++;
  while (letter(r->at[n]))
    n++;
  if (!n && *r->at)
    n = r->at[0] == '+' && r->at[1] == '=' ? 2 : 1;
  if (n >= sizeof r->word) {
    complain(r, "a word", "too long");
    n = 0;
  }
  if (*r->complaint)
    n = 0;
  memcpy(r->word, r->at, n);
  r->word[n] = 0;
  r->at += n;
}

static int accept(reader *r, const char *word) {
  const int found = !strcmp(r->word, word);
  if (found)
    advance(r);
  return found;
}

static void expect(reader *r, const char *word) {
  if (!accept(r, word))
    complain(r, r->word, "expected '%s'", word);
}

/* The index of a word in a list that ends with NULL; -1: it is not there. */
static int find(const char *word, const char *const *list) {
  int i;
  for (i = 0; list[i]; i++)
    if (!strcmp(word, list[i]))
      return i;
  return -1;
}

static int one_of(reader *r, const char *const *list, const char *what) {
  const int i = find(r->word, list);
  if (i < 0)
    complain(r, r->word, "unknown %s", what);
  advance(r);
  return i < 0 ? 0 : i;
}

/* ---- optimizers: a recipe is read into statements, which run with every answer to its conditions
 */

enum { INIT, FOREACH, LOOP, FUSED };
enum { SET, APPEND, FREE, USE, MOVE, BRANCH, JUMP, EACH };

static const char *const types[] = {"own", "promoted", "bool", "u8", "bf16", "f32", "f64", NULL};
static const char *const counts[] = {"numel",  "rows", "columns", "matrices",
                                     "blocks", "gram", "256",     NULL};
static const char *const workspaces[] = {
    "cublas",      "cublaslt",       "cublaslt_transposed", "reduce_all", "reduce_all_bf16",
    "reduce_rows", "reduce_columns", "reduce_row_factors",  NULL};
static const char *const conditions[] = {"weight_decay", "first_step",    "fused",
                                         "capturable",   "matrix",        "large",
                                         "once",         "low_precision", NULL};
#define OF_THE_STEP 15 /* the first four */
static const char *const reserved[] = {"if",   "else",  "not",   "or",        "for",   "each",
                                       "free", "new",   "move",  "last",      "state", "local",
                                       "from", "using", "param", "parameter", NULL};

typedef struct statement {
  int what, variable, from; /* MOVE: the other variable */
  int asked, negated, to;   /* BRANCH: conditions; to: the statement behind the block */
  int held;                 /* FREE: it has met something to free */
} statement;

typedef struct recipe {
  reader r;
  int how; /* INIT, ... */
  statement at[400];
  int count;
  char name[60][64]; /* of variables */
  int names;
  int set[60], local[60];
  int inside, depth; /* `for each parameter`; of blocks */
} recipe;

/* The names of the state tensors that recipes make, for a look at the table's column. */
static char made[400];

static statement *add(recipe *p, int what, int variable) {
  statement *s = &p->at[p->count];
  if (p->count + 1 < (int)(sizeof p->at / sizeof *p->at))
    p->count++;
  else
    complain(&p->r, p->r.word, "the recipe is too long");
  memset(s, 0, sizeof *s);
  s->what = what;
  s->variable = variable;
  if (what == SET || what == APPEND || what == MOVE)
    p->set[variable] = 1;
  return s;
}

static int variable(recipe *p) {
  const int most = (int)(sizeof p->name / sizeof *p->name) - 1;
  int i = 0;
  if (find(p->r.word, reserved) >= 0 || !letter(*p->r.word) || *p->r.word <= '9')
    complain(&p->r, p->r.word, "expected a statement or a name");
  while (i < p->names && strcmp(p->r.word, p->name[i]) != 0)
    i++;
  if (i == p->names && i < most)
    memcpy(p->name[p->names++], p->r.word, sizeof p->r.word);
  else if (i == p->names)
    complain(&p->r, p->r.word, "too many variables");
  advance(&p->r);
  return i;
}

/* (param), (TYPE) or (TYPE[COUNT]) */
static void size(recipe *p) {
  expect(&p->r, "(");
  if (!accept(&p->r, "param")) {
    one_of(&p->r, types, "type");
    if (accept(&p->r, "[")) {
      one_of(&p->r, counts, "count");
      expect(&p->r, "]");
    }
  }
  expect(&p->r, ")");
}

/* Behind `new`: what it takes, and what it uses up before the variable has the new value. */
static void new_tensor(recipe *p) {
  size(p);
  if (!strcmp(p->r.word, "using") && p->how != LOOP && !p->inside)
    complain(&p->r, p->r.word, "a workspace is of one parameter");
  if (accept(&p->r, "using"))
    one_of(&p->r, workspaces, "workspace");
  if (accept(&p->r, "from"))
    do
      add(p, USE, variable(p));
    while (accept(&p->r, ","));
}

/* NAME = or += something */
static void assign(recipe *p) {
  char name[64];
  int to;
  memcpy(name, p->r.word, sizeof name);
  to = variable(p);
  if (!strcmp(p->r.word, "+=")) {
    if (!p->inside)
      complain(&p->r, name, "grows outside of `for each parameter`");
    advance(&p->r);
    expect(&p->r, "new");
    new_tensor(p);
    add(p, APPEND, to);
    return;
  }
  expect(&p->r, "=");
  if (accept(&p->r, "new")) {
    new_tensor(p);
    add(p, SET, to);
  } else if (accept(&p->r, "state")) {
    size(p);
    snprintf(made + strlen(made), sizeof made - strlen(made), " %s ", name);
  } else if (accept(&p->r, "move") || accept(&p->r, "last")) {
    expect(&p->r, "(");
    add(p, MOVE, to)->from = variable(p);
    expect(&p->r, ")");
  } else
    complain(&p->r, p->r.word, "expected new, state, move or last");
}

static void statements(recipe *p, int depth);

static void block(recipe *p, int depth) {
  expect(&p->r, "{");
  if (depth == 4)
    complain(&p->r, p->r.word, "blocks within blocks within blocks");
  statements(p, depth + 1);
  expect(&p->r, "}");
}

/* Behind `if` */
static void condition(recipe *p, int depth) {
  const int negated = accept(&p->r, "not"), from = p->count;
  int asked = 0, over;
  do
    asked |= 1 << one_of(&p->r, conditions, "condition");
  while (accept(&p->r, "or"));
  if (asked > OF_THE_STEP && (asked & OF_THE_STEP))
    complain(&p->r, "or", "one condition is the step's, one the parameter's");
  add(p, BRANCH, 0)->asked = asked;
  p->at[from].negated = negated;
  block(p, depth);
  over = p->count;
  if (accept(&p->r, "else")) {
    add(p, JUMP, 0);
    p->at[from].to = p->count;
    block(p, depth);
    p->at[over].to = p->count;
  } else
    p->at[from].to = p->count;
}

/* Behind `for` */
static void each(recipe *p, int depth) {
  const int from = p->count;
  if (p->inside || p->how == LOOP || p->how == INIT)
    complain(&p->r, "for", "there is one parameter here");
  expect(&p->r, "each");
  expect(&p->r, "parameter");
  add(p, EACH, 0);
  p->inside = 1;
  block(p, depth);
  p->inside = 0;
  p->at[from].to = p->count;
}

/* Up to a brace that closes, or to the end. */
static void statements(recipe *p, int depth) {
  while (*p->r.word && strcmp(p->r.word, "}") != 0) {
    if (accept(&p->r, "if")) {
      condition(p, depth);
      continue;
    }
    if (accept(&p->r, "for")) {
      each(p, depth);
      continue;
    }
    if (accept(&p->r, "free"))
      do
        add(p, FREE, variable(p));
      while (accept(&p->r, ","));
    else if (accept(&p->r, "local"))
      do
        p->local[variable(p)] = 1;
      while (accept(&p->r, ","));
    else if (accept(&p->r, "new"))
      size(p);
    else
      assign(p);
    expect(&p->r, ";");
  }
}

/* Runs the statements [from, to) with these answers; `holds` says which variables hold something.
   A loop runs twice. */
static void run(recipe *p, int answers, int from, int to, char *holds) {
  int again;
  while (from < to) {
    statement *s = &p->at[from++];
    switch (s->what) {
    case SET:
    case APPEND:
      holds[s->variable] = 1;
      break;
    case FREE:
      s->held |= holds[s->variable];
      holds[s->variable] = 0;
      break;
    case USE:
    case MOVE:
      if (s->what == USE)
        s->from = s->variable;
      if (!holds[s->from])
        complain(&p->r, p->name[s->from], "is used before it is set");
      holds[s->from] = 0;
      holds[s->variable] = (char)(s->what == MOVE);
      break;
    case BRANCH:
      if (((answers & s->asked) != 0) == s->negated)
        from = s->to;
      break;
    case JUMP:
      from = s->to;
      break;
    default:
      for (again = 0; again < 2; again++)
        run(p, answers, from, s->to, holds);
      from = s->to;
      break;
    }
  }
}

static void read_optimizer(const char *text, int how, reader *out) {
  static recipe p;
  int i, answers, round;
  memset(&p, 0, sizeof p);
  p.how = how;
  p.r.at = text;
  advance(&p.r);
  statements(&p, 0);
  if (*p.r.word)
    complain(&p.r, p.r.word, "closes nothing");
  for (answers = 0; answers < 256 && !*p.r.complaint; answers++) {
    char holds[60] = {0};
    for (round = 0; round < (how == FUSED ? 1 : 2); round++)
      run(&p, answers, 0, p.count, holds);
  }
  for (i = 0; i < p.count; i++)
    if (p.at[i].what == FREE && !p.at[i].held)
      complain(&p.r, p.name[p.at[i].variable], "is freed, but can hold nothing");
  for (i = 0; i < p.names; i++)
    if (p.local[i] && !p.set[i])
      complain(&p.r, p.name[i], "is local, but nothing sets it");
  *out = p.r;
}

/* The table's column `state` names what recipes make, but for counters and code tables. */
static void states(const vram_optimizer_info *o) {
  static const char *const small[] = {"step", "mu_product", "qmap1", "qmap2", NULL};
  char column[100], missing[100], *word;
  snprintf(column, sizeof column, " %s ", o->state);
  memcpy(missing, column, sizeof missing);
  for (word = strtok(made, " "); word; word = strtok(NULL, " ")) {
    char found[80], *at;
    snprintf(found, sizeof found, " %s ", word);
    if (find(word, small) < 0 && !strstr(column, found))
      FAIL(word);
    at = strstr(missing, found);
    if (at)
      memset(at + 1, '.', strlen(found) - 2);
  }
  CHECK(strspn(missing, " .or") == strlen(missing)); /* "or" stands between two kinds of state */
}

static void optimizers(void) {
  static const char *const names[] = {
#define X(name) #name,
      VRAM_OPTIMIZERS(X)
#undef X
  };
  static const char *const hows[] = {"init", "foreach", "loop", "fused"};
  vram_optimizer_info o;
  unsigned i, read = 0;
  for (i = 0; vram_optimizer_get_info(i, &o); i++) {
    int how;
    TEXT(o.name, names[i]);
    *made = 0;
    for (how = INIT; how <= FUSED; how++) {
      const char *text = how == INIT ? o.init : o.step[how];
      reader r;
      snprintf(test_where, sizeof test_where, "%s %s", o.name, hows[how]);
      CHECK((text != NULL) == (how == INIT || strstr(o.implementations, hows[how]) != NULL));
      if (!text)
        continue;
      read_optimizer(text, how, &r);
      TEXT(r.complaint, "");
      read++;
      if (how != INIT && !strncmp(o.implementations, hows[how], strlen(hows[how])))
        TEXT(o.step[VRAM_OPTIM_IMPL_DEFAULT], text);
    }
    *test_where = 0;
    states(&o);
  }
  EQUAL(i, VRAM_OPTIM_COUNT);
  CHECK(read > 80);
}

/* ---- what must be found out */

static const struct planted {
  void (*language)(const char *text, int how, reader *out);
  int how;
  const char *text, *complaint;
} planted[] = {
    {read_optimizer, FOREACH, "", ""},
    {read_optimizer, FOREACH, "free grads; if weight_decay { grads = new(param); }", ""},
    {read_optimizer, FOREACH, "fre grads;", "grads: expected '='"},
    {read_optimizer, FOREACH, "x = old(param);", "old: expected new, state, move or last"},
    {read_optimizer, FOREACH, "x = new(parm);", "parm: unknown type"},
    {read_optimizer, FOREACH, "x = new(f16);", "f16: unknown type"},
    {read_optimizer, FOREACH, "x = new(f32[numbers]);", "numbers: unknown count"},
    {read_optimizer, FOREACH, "x = new(f32[128]);", "128: unknown count"},
    {read_optimizer, FOREACH, "x = new(param[numel]);", "[: expected ')'"},
    {read_optimizer, LOOP, "x = new(param) using gemm;", "gemm: unknown workspace"},
    {read_optimizer, FOREACH, "x = new(param) using cublas;",
     "using: a workspace is of one parameter"},
    {read_optimizer, FOREACH, "if weightdecay { }", "weightdecay: unknown condition"},
    {read_optimizer, FOREACH, "if fused or matrix { }",
     "or: one condition is the step's, one the parameter's"},
    {read_optimizer, FOREACH, "unless fused { }", "fused: expected '='"},
    {read_optimizer, FOREACH, "else { }", "else: expected a statement or a name"},
    {read_optimizer, FOREACH, "1x = new(param);", "1x: expected a statement or a name"},
    {read_optimizer, FOREACH, "+ = new(param);", "+: expected a statement or a name"},
    {read_optimizer, FOREACH, "x = new();", "): unknown type"},
    {read_optimizer, FOREACH, "x = new(param, param);", ",: expected ')'"},
    {read_optimizer, FOREACH, "x = new param;", "param: expected '('"},
    {read_optimizer, FOREACH, "x = new(param); y = move(x, x);", ",: expected ')'"},
    {read_optimizer, FOREACH, "y = move();", "): expected a statement or a name"},
    {read_optimizer, FOREACH, "free;", ";: expected a statement or a name"},
    {read_optimizer, FOREACH, "x = new(param); y = new(param) from x,;",
     ";: expected a statement or a name"},
    {read_optimizer, FOREACH, "x = new(param)", "the end: expected ';'"},
    {read_optimizer, FOREACH, "x = new(param); free x y;", "y: expected ';'"},
    {read_optimizer, FOREACH, "if fused { x = new(param);", "the end: expected '}'"},
    {read_optimizer, FOREACH, "if fused x = new(param);", "x: expected '{'"},
    {read_optimizer, FOREACH, "x = new(param); }", "}: closes nothing"},
    {read_optimizer, FOREACH, "if fused { } }", "}: closes nothing"},
    {read_optimizer, FOREACH, "if fused { if fused { if fused { if fused { if fused { } } } } }",
     "}: blocks within blocks within blocks"},
    {read_optimizer, FOREACH, "for every parameter { }", "every: expected 'each'"},
    {read_optimizer, LOOP, "for each parameter { }", "for: there is one parameter here"},
    {read_optimizer, FOREACH, "for each parameter { for each parameter { } }",
     "for: there is one parameter here"},
    {read_optimizer, FOREACH, "x += new(param);", "x: grows outside of `for each parameter`"},
    {read_optimizer, FOREACH, "free x;", "x: is freed, but can hold nothing"},
    {read_optimizer, FOREACH, "x = new(param); free x, x;", "x: is freed, but can hold nothing"},
    {read_optimizer, FUSED, "free x; x = new(param);", "x: is freed, but can hold nothing"},
    {read_optimizer, FOREACH, "x = new(param); y = move(x); free x;",
     "x: is freed, but can hold nothing"},
    {read_optimizer, FOREACH, "if fused { x = new(param); } else { free x; }",
     "x: is freed, but can hold nothing"},
    {read_optimizer, FOREACH, "y = move(x); x = new(param);", "x: is used before it is set"},
    {read_optimizer, FOREACH, "if fused { x = new(param); } y = new(param) from x;",
     "x: is used before it is set"},
    {read_optimizer, FOREACH, "x = new(param); y = new(param) from x, x;",
     "x: is used before it is set"},
    {read_optimizer, FOREACH, "x = new(param); free x; y = last(x);",
     "x: is used before it is set"},
    {read_optimizer, FOREACH, "local x; y = new(param);", "x: is local, but nothing sets it"},
};

static void bad_ones(void) {
  size_t i;
  for (i = 0; i < sizeof planted / sizeof *planted; i++) {
    reader r;
    snprintf(test_where, sizeof test_where, "%.200s", planted[i].text);
    planted[i].language(planted[i].text, planted[i].how, &r);
    TEXT(r.complaint, planted[i].complaint);
  }
  *test_where = 0;
}

int main(void) {
  optimizers();
  bad_ones();
  return test_done("test_recipes");
}
