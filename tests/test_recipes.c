/* Recipes in words, read by somebody else than the library: every one that the library shows is
   understood and says nothing that cannot be, every word of the languages is used by some recipe,
   and bad recipes are found out. A language is a function that reads one recipe. First comes what
   languages share: words and complaints. The library's own reader of gradients is here, too: it
   must refuse what is malformed.
   usage: test_recipes */
#define VRAM_STATIC
#define VRAM_IMPLEMENTATION
#define VRAM_NO_KV
#define VRAM_NO_NET
#define VRAM_NO_PLAN
#define VRAM_NO_READ
#define VRAM_NO_WRITE
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

/* Words that recipes of the library have, each between spaces. */
static char used[4000];

static void use(const char *word) {
  char found[80];
  snprintf(found, sizeof found, " %s ", word);
  if (!strstr(used, found) && strlen(used) + strlen(found) < sizeof used)
    memcpy(used + strlen(used), found, strlen(found) + 1);
}

/* No list has a word that no recipe of the library uses. */
static void all_used(const char *const *list) {
  char found[80];
  for (; *list; list++) {
    snprintf(found, sizeof found, " %s ", *list);
    if (!strstr(used, found))
      FAIL(*list);
  }
}

static int accept(reader *r, const char *word) {
  const int found = !strcmp(r->word, word);
  if (found) {
    use(word);
    advance(r);
  }
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
  else
    use(list[i]);
  advance(r);
  return i < 0 ? 0 : i;
}

/* ---- optimizers: a recipe is read into statements, which run with every answer to its conditions
 */

enum { INIT, FOREACH, LOOP, FUSED };
enum { SET, APPEND, FREE, USE, MOVE, BRANCH, JUMP, EACH };

static const char *const types[] = {"own", "promoted", "bool", "u8", "bf16", "f32", "f64", NULL};
static const char *const counts[] = {"numel",  "rows",     "columns",  "matrices", "blocks",
                                     "gram",   "256",      "resident", "low",      "basis",
                                     "placed", "gradient", NULL};
static const char *const workspaces[] = {
    "cublas",      "cublaslt",       "cublaslt_transposed", "reduce_all", "reduce_all_bf16",
    "reduce_rows", "reduce_columns", "reduce_row_factors",  NULL};
static const char *const conditions[] = {"weight_decay", "first_step",    "fused",     "capturable",
                                         "denom",        "dtensor",       "matrix",    "large",
                                         "once",         "low_precision", "projected", NULL};
#define OF_THE_STEP 63 /* the first six */
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
  for (answers = 0; answers < 2048 && !*p.r.complaint; answers++) {
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
  /* what goes with any optimizer */
  static const struct {
    int how;
    const char *text;
  } beside[] = {{INIT, vram__optim_master},
                {FUSED, vram__optim_master_grads},
                {LOOP, vram__optim_scaler},
                {FUSED, vram__optim_scaler_fused}};
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
  for (i = 0; i < sizeof beside / sizeof *beside; i++) {
    reader r;
    read_optimizer(beside[i].text, beside[i].how, &r);
    TEXT(r.complaint, "");
  }
  all_used(types);
  all_used(counts);
  all_used(workspaces);
  all_used(conditions);
  all_used(reserved);
}

/* ---- keys of an op: NAME or NAME!, which is required */

static const char *const keys[] = {
#define X(name, kind) #name,
    VRAM_KEYS(X)
#undef X
        NULL};
enum { MOST_REQUIRED = 3 };

static void read_keys(const char *text, int how, reader *out) {
  char seen[60] = {0};
  int required = 0, i;
  reader r;
  (void)how;
  memset(&r, 0, sizeof r);
  r.at = text;
  advance(&r);
  while (*r.word) {
    i = find(r.word, keys);
    if (i >= 0 && memchr(seen, i + 1, sizeof seen))
      complain(&r, r.word, "a key twice");
    if (i >= 0)
      *(char *)memchr(seen, 0, sizeof seen) = (char)(i + 1);
    one_of(&r, keys, "key");
    required += accept(&r, "!");
  }
  if (required > MOST_REQUIRED)
    complain(&r, r.word, "too many required keys");
  *out = r;
}

/* ---- gradients of pointwise ops */

static const struct {
  const char *word;
  int arguments;
} gradient_words[] = {
    {"x0", 0},      {"x1", 0},      {"x2", 0},
    {"y", 0},       {"buffer", 0},  {"grad", 0},
    {"zero", 0},    {"zeros", 0},   {"neg", 1},
    {"exp", 1},     {"log", 1},     {"sin", 1},
    {"cos", 1},     {"sign", 1},    {"powered", 1},
    {"abs", 1},     {"rsqrt", 1},   {"sinh", 1},
    {"cosh", 1},    {"erfinv", 1},  {"digamma", 1},
    {"special", 1}, {"add", 2},     {"zeros_like", 1},
    {"scaled", 1},  {"shifted", 1}, {"compare_number", 1},
    {"cast", 1},    {"settled", 1}, {"mul", 2},
    {"div", 2},     {"sub", 2},     {"pow", 2},
    {"mul_rtl", 2}, {"div_rtl", 2}, {"compare", 2},
    {"then", 2},    {"where", 3},   {"where_rtl", 3},
    {"with", 2},    {"nothing", 0},
};
enum { GRADIENT_WORDS = sizeof gradient_words / sizeof *gradient_words };

/* How many inputs the op has at least and at most. */
#define INPUTS(least, most) ((int)(least)*10 + (int)(most))

typedef struct gradient {
  reader r;
  int least, most;
  char spaced[600]; /* the recipe as it must be spaced */
} gradient;

static void put(gradient *g, const char *text) {
  const size_t n = strlen(g->spaced);
  snprintf(g->spaced + n, sizeof g->spaced - n, "%s", text);
}

static void take(gradient *g, const char *word, const char *spaced) {
  expect(&g->r, word);
  put(g, spaced);
}

/* x0, x1 or x2: which one, -1: none of them. */
static int input_of(const char *word) {
  return word[0] == 'x' && word[1] >= '0' && word[1] <= '2' && !word[2] ? word[1] - '0' : -1;
}

static int kernel_of(const char *word) {
  const char *end = strstr(word, "_backward");
  return end && end != word && !end[strlen("_backward")];
}

/* `number`: a number may stand here. Which inputs and outputs it names goes to `named`. */
static void expression(gradient *g, int number, int depth) {
  const int input = input_of(g->r.word);
  char word[64];
  int i = 0, k, arguments;
  memcpy(word, g->r.word, sizeof word);
  while (i < GRADIENT_WORDS && strcmp(word, gradient_words[i].word) != 0)
    i++;
  if (i == GRADIENT_WORDS && !kernel_of(word))
    complain(&g->r, word, "unknown word");
  if (depth > 10)
    complain(&g->r, word, "words within words");
  if (input >= g->most)
    complain(&g->r, word, "the op has no such input");
  if (input >= g->least && !number)
    complain(&g->r, word, "may be a number, which has no shape");
  put(g, word);
  if (i < GRADIENT_WORDS)
    use(word);
  advance(&g->r);
  arguments = i < GRADIENT_WORDS ? gradient_words[i].arguments : 2;
  for (k = 0; k < arguments && !*g->r.complaint; k++) {
    take(g, k ? "," : "(", k ? ", " : "(");
    expression(g,
               (arguments == 1 && !strstr("cast settled", word)) || !strcmp(word, "mul") ||
                   !strcmp(word, "div") || !strcmp(word, "mul_rtl") || !strcmp(word, "div_rtl") ||
                   !strcmp(word, "sub") || !strcmp(word, "add") || !strcmp(word, "pow"),
               depth + 1);
  }
  if (arguments)
    take(g, ")", ")");
}

/* x1: EXPRESSION; x0: EXPRESSION, up to "; inplace" or the end. */
static void gradients(gradient *g) {
  int have[3] = {0}, input;
  do {
    input = input_of(g->r.word);
    if (input < 0 || input >= g->most)
      complain(&g->r, g->r.word, "expected an input of the op");
    else if (have[input]++)
      complain(&g->r, g->r.word, "has a gradient already");
    put(g, g->r.word);
    advance(&g->r);
    take(g, ":", ": ");
    expression(g, 0, 0);
    if (strcmp(g->r.word, ";") != 0)
      return;
    take(g, ";", "; ");
  } while (strcmp(g->r.word, "inplace") != 0);
}

static void read_gradient(const char *text, int how, reader *out) {
  static gradient g;
  memset(&g, 0, sizeof g);
  g.least = how / 10;
  g.most = how % 10;
  g.r.at = text;
  advance(&g.r);
  if (*g.r.word)
    gradients(&g);
  if (!strcmp(g.r.word, "inplace")) {
    take(&g, "inplace", "inplace ");
    gradients(&g);
  }
  if (*g.r.word)
    complain(&g.r, g.r.word, "expected the end");
  if (strcmp(g.spaced, text) != 0)
    complain(&g.r, text, "is spaced otherwise than '%s'", g.spaced);
  *out = g.r;
}

/* ---- ops written out to lines of the text form: OP NAME INPUTS KEY=VALUE; drop NAMES */

typedef struct lines {
  reader r;
  int inputs;
  char asked[10];       /* inputs that a line has */
  char live[80];        /* temporaries that are defined, and have not been dropped */
  char unused[80];      /* those that no line has taken */
  const char *own_keys; /* of the op itself */
} lines;

static vram_op op_called(const char *name) {
  int op = 0;
  while (op < VRAM_OP_COUNT && strcmp(vram_op_name((uint32_t)op), name) != 0)
    op++;
  return (vram_op)op;
}

static int has_key(const char *list, const char *key) {
  const size_t n = strlen(key);
  const char *at = list;
  while ((at = strstr(at, key)) != NULL && ((at > list && at[-1] != ' ') || letter(at[n])))
    at += n;
  return at != NULL;
}

static void remember(char *letters, char c) { letters[strlen(letters)] = c; }

static void forget(char *letters, char c) {
  char *at = strchr(letters, c);
  if (at)
    memmove(at, at + 1, strlen(at));
}

/* An input of a line. */
static void operand(lines *l) {
  const char *word = l->r.word;
  if (word[0] == 'x' && word[1]) {
    const int input = input_of(word);
    if (input < 0 || input >= l->inputs)
      complain(&l->r, word, "the op has no such input");
    else
      l->asked[input] = 1;
  } else if (word[1] || !strchr(l->live, word[0]))
    complain(&l->r, word, "unknown name");
  forget(l->unused, word[0]);
  advance(&l->r);
}

/* Behind KEY: its value, which is a number, or @ for the outer op's. */
static void key_value(lines *l, const char *key, const vram_op_info *o) {
  if (!has_key(o->keys, key))
    complain(&l->r, key, "%s has no such key", o->name);
  expect(&l->r, "=");
  if (!strcmp(l->r.word, "@") && !has_key(l->own_keys, key))
    complain(&l->r, key, "no key to hand on");
  if (strcmp(l->r.word, "@") != 0 && strspn(l->r.word, "0123456789") != strlen(l->r.word))
    complain(&l->r, l->r.word, "expected a number or @");
  advance(&l->r);
}

static void line(lines *l) {
  const vram_op op = op_called(l->r.word);
  unsigned inputs = 0;
  vram_op_info o;
  char name[64], key[64];
  if (op == VRAM_OP_COUNT) {
    complain(&l->r, l->r.word, "unknown op");
    return;
  }
  vram_op_get_info(op, &o);
  advance(&l->r);
  memcpy(name, l->r.word, sizeof name);
  if (!letter(*name) || name[1] || *name == 'x' || strchr(l->live, *name))
    complain(&l->r, name, "expected a new name of one letter");
  advance(&l->r);
  while (*l->r.word && strcmp(l->r.word, ";") != 0) {
    memcpy(key, l->r.word, sizeof key);
    if (find(key, keys) >= 0) {
      advance(&l->r);
      key_value(l, key, &o);
    } else {
      operand(l);
      inputs++;
    }
  }
  if (inputs < o.least || inputs > o.most)
    complain(&l->r, o.name, "takes another number of inputs");
  remember(l->live, *name);
  remember(l->unused, *name);
}

static void drop(lines *l) {
  do {
    if (l->r.word[1] || !strchr(l->live, *l->r.word) || *l->r.word == 'y')
      complain(&l->r, l->r.word, "expected a temporary");
    forget(l->live, *l->r.word);
    advance(&l->r);
  } while (*l->r.word && strcmp(l->r.word, ";") != 0);
}

/* The keys of the op whose lines are read. */
static const char *outer_keys = "";

static void read_lines(const char *text, int how, reader *out) {
  static lines l;
  int i;
  memset(&l, 0, sizeof l);
  l.inputs = how % 10;
  l.own_keys = outer_keys;
  l.r.at = text;
  advance(&l.r);
  do
    if (accept(&l.r, "drop"))
      drop(&l);
    else
      line(&l);
  while (accept(&l.r, ";"));
  if (*l.r.word)
    complain(&l.r, l.r.word, "expected ';'");
  if (strcmp(l.unused, "y") != 0)
    complain(&l.r, l.unused, "the last line makes y, and all other names are used");
  for (i = 0; i < l.inputs; i++)
    if (!l.asked[i])
      complain(&l.r, "an input", "no line has it");
  *out = l.r;
}

/* ---- what PyTorch calls an op: NAMES, or NAMES: ARGUMENTS (see the row in src/model/model.h) */

static void torch_argument(reader *r, int *tensors) {
  const int rest = accept(r, "*"), key = has_key(outer_keys, r->word);
  if (!letter(*r->word))
    complain(r, r->word, "expected an argument");
  if (rest && !key)
    complain(r, r->word, "a tensor that takes the rest");
  *tensors += !key;
  advance(r);
  if (accept(r, "?") && !key)
    complain(r, "?", "a tensor that may be left out");
  if (accept(r, ":"))
    expect(r, "axes");
}

static void read_torch(const char *text, int how, reader *out) {
  const int most = how % 10;
  int tensors = 0;
  reader r;
  memset(&r, 0, sizeof r);
  r.at = text;
  advance(&r);
  while (*r.word && strcmp(r.word, ":") != 0) {
    accept(&r, "~");
    if (!letter(*r.word))
      complain(&r, r.word, "expected a name");
    advance(&r);
    accept(&r, "!");
  }
  if (accept(&r, ":")) {
    do
      torch_argument(&r, &tensors);
    while (*r.word);
    if (tensors < how / 10 || (tensors > most && most))
      complain(&r, "the arguments", "another number of tensors than the op has inputs");
  }
  *out = r;
}

/* ---- all ops */

/* The library's reader gets the text alone, so that a sanitizer sees what is read behind it. */
static int library_reads(const char *text, int inplace) {
  const size_t n = strlen(text) + 1;
  char *alone = (char *)malloc(n);
  vram__recipe r;
  if (!alone)
    exit(2);
  memcpy(alone, text, n);
  vram__recipe_compile(&r, alone, inplace);
  free(alone);
  return r.count > 0 || !*text;
}

/* Every recipe that is damaged in one place: what the test accepts the library reads. */
static void damaged(const char *text) {
  static const char put_there[] = "x2y(),:; i_\x80";
  char wrong[600];
  const size_t n = strlen(text);
  size_t i, k;
  reader r;
  for (i = 0; i <= n; i++)
    for (k = 0; k <= sizeof put_there; k++) {
      memcpy(wrong, text, n + 1);
      if (k < sizeof put_there)
        wrong[i] = put_there[k]; /* the last of them ends the text */
      else
        memmove(wrong + i, wrong + i + (i < n), n - i);
      wrong[n + 1] = 0;
      snprintf(test_where, sizeof test_where, "%.250s", wrong);
      read_gradient(wrong, INPUTS(3, 3), &r);
      CHECK(library_reads(wrong, 0) >= !*r.complaint);
      library_reads(wrong, 1);
    }
}

static unsigned read_op(const char *name, const char *text, int inputs) {
  reader r;
  snprintf(test_where, sizeof test_where, "%s", name);
  read_gradient(text, inputs, &r);
  TEXT(r.complaint, "");
  CHECK(library_reads(text, 0) && library_reads(text, 1));
  return *text != 0;
}

static void ops(void) {
  static const struct {
    const char *name, *recipe;
  } variants[] = {
#define X(name, recipe) {#name, recipe},
      VRAM__VARIANTS(X)
#undef X
  };
  static const char *words[GRADIENT_WORDS + 1];
  static const char *const signs[] = {"inplace", "drop", "!", "*", "?", "~", "axes", NULL};
  unsigned read = 0, written_out = 0;
  size_t i;
  vram_op_info o;
  reader r;
  for (i = 0; i < VRAM_OP_COUNT; i++) {
    vram_op_get_info((vram_op)i, &o);
    snprintf(test_where, sizeof test_where, "%s", o.name);
    read_keys(o.keys, 0, &r);
    TEXT(r.complaint, "");
    outer_keys = o.keys;
    read_torch(o.torch, INPUTS(o.least, o.most > 9 ? 0 : o.most), &r);
    TEXT(r.complaint, "");
    if (vram__op_at((uint32_t)i)->lines) {
      read_lines(o.recipe, (int)o.most, &r);
      TEXT(r.complaint, "");
      written_out++;
    } else if (*o.recipe)
      read += read_op(o.name, o.recipe, INPUTS(o.least, o.most));
  }
  for (i = 0; i < sizeof variants / sizeof *variants; i++)
    read += read_op(variants[i].name, variants[i].recipe, INPUTS(3, 3));
  *test_where = 0;
  CHECK(read > 40);
  CHECK(written_out > 5);
  for (i = 0; i < GRADIENT_WORDS; i++)
    words[i] = gradient_words[i].word;
  all_used(words);
  all_used(keys);
  all_used(signs);
  for (i = 0; i < sizeof variants / sizeof *variants; i++)
    damaged(variants[i].recipe);
  damaged("x0: leaky_relu_backward(x0, grad); inplace x0: leaky_relu_backward(y, grad)");
  *test_where = 0;
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

    {read_keys, 0, "inplace dim! dtype", ""},
    {read_keys, 0, "inplase", "inplase: unknown key"},
    {read_keys, 0, "dim dtype dim", "dim: a key twice"},
    {read_keys, 0, "dim!!", "!: unknown key"},
    {read_keys, 0, "dim, dtype", ",: unknown key"},
    {read_keys, 0, "dim! p! k! eps!", "the end: too many required keys"},

    {read_gradient, INPUTS(1, 1), "", ""},
    {read_gradient, INPUTS(1, 1), "x0: grad", ""},
    {read_gradient, INPUTS(1, 1), "x0: neg(grad); inplace x0: any_backward(grad, y)", ""},
    {read_gradient, INPUTS(1, 1), "x: g q *", "x: expected an input of the op"},
    {read_gradient, INPUTS(1, 1), "x0: g q *", "g: unknown word"},
    {read_gradient, INPUTS(1, 1), "x0: grad y", "y: expected the end"},
    {read_gradient, INPUTS(1, 1), "x0: grad *", "*: expected the end"},
    {read_gradient, INPUTS(1, 1), "x0 grad", "grad: expected ':'"},
    {read_gradient, INPUTS(1, 1), "x0:", "the end: unknown word"},
    {read_gradient, INPUTS(1, 1), "grad", "grad: expected an input of the op"},
    {read_gradient, INPUTS(1, 1), "x1: grad", "x1: expected an input of the op"},
    {read_gradient, INPUTS(1, 1), "x3: grad", "x3: expected an input of the op"},
    {read_gradient, INPUTS(1, 1), "x0: mul(grad, x1)", "x1: the op has no such input"},
    {read_gradient, INPUTS(2, 2), "x0: grad; x0: grad", "x0: has a gradient already"},
    {read_gradient, INPUTS(2, 2), "x0: grad;", "the end: expected an input of the op"},
    {read_gradient, INPUTS(1, 1), "x0: negative(grad)", "negative: unknown word"},
    {read_gradient, INPUTS(1, 1), "x0: _backward(grad, y)", "_backward: unknown word"},
    {read_gradient, INPUTS(1, 1), "x0: relu_backwards(grad, y)", "relu_backwards: unknown word"},
    {read_gradient, INPUTS(1, 1), "x0: neg", "the end: expected '('"},
    {read_gradient, INPUTS(1, 1), "x0: neg()", "): unknown word"},
    {read_gradient, INPUTS(1, 1), "x0: neg(grad", "the end: expected ')'"},
    {read_gradient, INPUTS(1, 1), "x0: neg(grad))", "): expected the end"},
    {read_gradient, INPUTS(1, 1), "x0: neg(grad, y)", ",: expected ')'"},
    {read_gradient, INPUTS(1, 1), "x0: mul(grad)", "): expected ','"},
    {read_gradient, INPUTS(1, 1), "x0: mul(grad, y, x0)", ",: expected ')'"},
    {read_gradient, INPUTS(1, 1), "x0: mul(grad y)", "y: expected ','"},
    {read_gradient, INPUTS(1, 1), "x0: where(grad, y)", "): expected ','"},
    {read_gradient, INPUTS(1, 1), "x0: relu_backward(grad)", "): expected ','"},
    {read_gradient, INPUTS(1, 1), "x0: grad(y)", "(: expected the end"},
    {read_gradient, INPUTS(1, 1), "x0: mul(grad,y)",
     "x0: mul(grad,y): is spaced otherwise than 'x0: mul(grad, y)'"},
    {read_gradient, INPUTS(1, 1), " x0: grad", " x0: grad: is spaced otherwise than 'x0: grad'"},
    {read_gradient, INPUTS(1, 1), "x0: grad; inplace", "the end: expected an input of the op"},
    {read_gradient, INPUTS(1, 1), "x0: grad; inplace x0: grad; inplace x0: grad",
     "inplace: expected the end"},
    {read_gradient, INPUTS(1, 2), "x0: where(x1, grad, zero)",
     "x1: may be a number, which has no shape"},
    {read_gradient, INPUTS(1, 1), "x0: neg(neg(neg(neg(neg(neg(neg(neg(neg(neg(neg(grad)))))))))))",
     "grad: words within words"},

    {read_lines, 1, "abs a x0; neg b a; drop a; neg y b", ""},
    {read_lines, 1, "abs y", "abs: takes another number of inputs"},
    {read_lines, 1, "absolute y x0", "absolute: unknown op"},
    {read_lines, 1, "abs y x1", "x1: the op has no such input"},
    {read_lines, 1, "abs y a", "a: unknown name"},
    {read_lines, 1, "abs a x0; drop a; neg y a", "a: unknown name"},
    {read_lines, 1, "abs aa x0; neg y aa", "aa: expected a new name of one letter"},
    {read_lines, 1, "abs a x0; neg a a; neg y a", "a: expected a new name of one letter"},
    {read_lines, 1, "abs a x0; neg y x0 scalar=1", "scalar: neg has no such key"},
    {read_lines, 1, "add y x0 scalar=one", "one: expected a number or @"},
    {read_lines, 1, "softmax y x0 dim=@", "dim: no key to hand on"},
    {read_lines, 1, "softmax y x0 dim", "the end: expected '='"},
    {read_lines, 1, "abs a x0; neg y x0",
     "ay: the last line makes y, and all other names are used"},
    {read_lines, 1, "abs a x0", "a: the last line makes y, and all other names are used"},
    {read_lines, 1, "abs y x0; drop y", "y: expected a temporary"},
    {read_lines, 2, "abs y x0", "an input: no line has it"},

    {read_torch, INPUTS(1, 1), "", ""},
    {read_torch, INPUTS(1, 1), "abs absolute ~floor", ""},
    {read_torch, INPUTS(1, 1), "abs!: x", ""},
    {read_torch, INPUTS(1, 1), "abs,", ",: expected a name"},
    {read_torch, INPUTS(1, 1), "abs:", "the end: expected an argument"},
    {read_torch, INPUTS(1, 1), "abs: x dim",
     "the arguments: another number of tensors than the op has inputs"},
    {read_torch, INPUTS(1, 1), "abs: *x", "x: a tensor that takes the rest"},
    {read_torch, INPUTS(1, 1), "abs: x?", "?: a tensor that may be left out"},
    {read_torch, INPUTS(1, 1), "abs: x:list", "list: expected 'axes'"},
    {read_torch, INPUTS(1, 1), "abs: x (y)", "(: expected an argument"},
    {read_torch, INPUTS(1, 1), "abs: x y",
     "the arguments: another number of tensors than the op has inputs"},
};

static void bad_ones(void) {
  unsigned refused = 0;
  size_t i;
  outer_keys = "";
  for (i = 0; i < sizeof planted / sizeof *planted; i++) {
    reader r;
    snprintf(test_where, sizeof test_where, "%.200s", planted[i].text);
    planted[i].language(planted[i].text, planted[i].how, &r);
    TEXT(r.complaint, planted[i].complaint);
    if (planted[i].language == read_gradient && *r.complaint)
      refused += !library_reads(planted[i].text, 0) || !library_reads(planted[i].text, 1);
  }
  *test_where = 0;
  EQUAL(refused, 27); /* all whose words mean nothing */
}

int main(void) {
  optimizers();
  ops();
  bad_ones();
  return test_done("test_recipes");
}
