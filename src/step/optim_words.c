/* >>step/optim_words    an optimizer's recipe: words become instructions
   The language stands in optimizers.c. Recipes are the library's own, checked by
   tests/test_recipes.c; one that is not understood sets `bad`, which makes the step fail. */
#include "step/optim.h"

/* Goes on to the next word, number, "+=" or other sign; a length of 0 is the end. */
static void vram__optim_words_next(vram__optim_code *c) {
  const char *s = c->word + c->length;
  while (*s == ' ')
    s++;
  c->word = s;
  while (vram__name_start(*s) || vram__digit(*s))
    s++;
  if (s == c->word && *s)
    s += s[0] == '+' && s[1] == '=' ? 2 : 1;
  c->length = (uint32_t)(s - c->word);
}

static inline int vram__optim_words_is(const vram__optim_code *c, const char *word) {
  return *c->word == *word && vram__text_is(c->word, c->length, word);
}

/* If this is the word, it is read. */
static int vram__optim_words_take(vram__optim_code *c, const char *word) {
  if (!vram__optim_words_is(c, word))
    return 0;
  vram__optim_words_next(c);
  return 1;
}

static void vram__optim_words_need(vram__optim_code *c, const char *word) {
  if (!vram__optim_words_take(c, word))
    c->bad = 1;
}

/* Reads one word of the list, which ends with NULL; its index. */
static uint8_t vram__optim_words_one_of(vram__optim_code *c, const char *const *list) {
  uint8_t i = 0;
  while (list[i] && !vram__optim_words_is(c, list[i]))
    i++;
  if (!list[i])
    c->bad = 1;
  vram__optim_words_next(c);
  return i;
}

static vram__optim_instruction *vram__optim_words_emit(vram__optim_code *c, uint8_t op, uint8_t a,
                                                       uint8_t b) {
  vram__optim_instruction *i = &c->at[c->count];
  if (c->count + 1 < VRAM__OPTIM_INSTRUCTIONS)
    c->count++;
  else
    c->bad = 1;
  i->op = op;
  i->a = a;
  i->b = b;
  i->c = 0;
  return i;
}

/* Reads a variable's name; its number. */
static uint8_t vram__optim_words_variable(vram__optim_code *c) {
  uint32_t i = c->first_name;
  while (i < c->names &&
         !(c->name_length[i] == c->length && vram__text_equal(c->name[i], c->word, c->length)))
    i++;
  if (i == c->names) {
    if (i == VRAM__OPTIM_NAMES || !vram__name_start(*c->word)) {
      c->bad = 1;
      return 0;
    }
    c->name[i] = c->word;
    c->name_length[i] = c->length;
    c->names++;
  }
  vram__optim_words_next(c);
  return (uint8_t)i;
}

/* NAME, ...: what they hold is freed. */
static void vram__optim_words_free(vram__optim_code *c) {
  do
    vram__optim_words_emit(c, VRAM__OPTIM_FREE, vram__optim_words_variable(c), 0);
  while (vram__optim_words_take(c, ",") && !c->bad);
}

/* NAME, ...: they have been named. */
static void vram__optim_words_local(vram__optim_code *c) {
  do
    vram__optim_words_variable(c);
  while (vram__optim_words_take(c, ",") && !c->bad);
}

/* (SIZE) */
static uint8_t vram__optim_words_size(vram__optim_code *c) {
  static const char *const type[] = {
#define VRAM__X(id, word, bytes) word,
      VRAM__OPTIM_TYPES(VRAM__X) NULL
#undef VRAM__X
  };
  static const char *const count[] = {
#define VRAM__X(id, word) word,
      VRAM__OPTIM_COUNTS(VRAM__X) NULL
#undef VRAM__X
  };
  uint8_t size = VRAM__OPTIM_PARAM;
  vram__optim_words_need(c, "(");
  if (!vram__optim_words_take(c, "param")) {
    size = (uint8_t)(vram__optim_words_one_of(c, type) << 4);
    if (vram__optim_words_take(c, "[")) {
      size |= vram__optim_words_one_of(c, count);
      vram__optim_words_need(c, "]");
    }
  }
  vram__optim_words_need(c, ")");
  return size;
}

/* Behind `new`: (SIZE) [using WORKSPACE] [from NAME, ...], into the variable `to`. */
static void vram__optim_words_new(vram__optim_code *c, uint8_t to) {
  static const char *const workspace[] = {
#define VRAM__X(id, word) word,
      VRAM__OPTIM_WORKSPACES(VRAM__X) NULL
#undef VRAM__X
  };
  vram__optim_instruction *i = vram__optim_words_emit(c, VRAM__OPTIM_NEW, to, 0);
  i->b = vram__optim_words_size(c);
  if (vram__optim_words_take(c, "using"))
    i->c = (uint8_t)(1 + vram__optim_words_one_of(c, workspace));
  if (vram__optim_words_take(c, "from"))
    vram__optim_words_free(c);
}

/* NAME = or += something */
static void vram__optim_words_assign(vram__optim_code *c) {
  uint8_t to = vram__optim_words_variable(c);
  if (vram__optim_words_take(c, "+=")) {
    vram__optim_words_need(c, "new");
    vram__optim_words_new(c, to);
    return;
  }
  vram__optim_words_need(c, "=");
  if (vram__optim_words_take(c, "new")) {
    vram__optim_words_new(c, VRAM__OPTIM_VALUE);
    vram__optim_words_emit(c, VRAM__OPTIM_MOVE, to, VRAM__OPTIM_VALUE);
  } else if (vram__optim_words_take(c, "state")) {
    vram__optim_words_emit(c, VRAM__OPTIM_STATE, 0, vram__optim_words_size(c));
  } else {
    uint8_t op = vram__optim_words_take(c, "last") ? VRAM__OPTIM_LAST : VRAM__OPTIM_MOVE;
    if (op == VRAM__OPTIM_MOVE)
      vram__optim_words_need(c, "move");
    vram__optim_words_need(c, "(");
    vram__optim_words_emit(c, op, to, vram__optim_words_variable(c));
    vram__optim_words_need(c, ")");
  }
}

/* A block that the step's options exclude: only its braces are read. */
static void vram__optim_words_skip(vram__optim_code *c) {
  uint32_t depth = 0;
  c->bad |= *c->word != '{';
  do {
    const char *s = c->word + c->length;
    depth += *c->word == '{';
    depth -= *c->word == '}';
    while (depth && *s && *s != '{' && *s != '}')
      s++;
    c->word = s;
    c->length = 0;
    vram__optim_words_next(c);
  } while (depth && c->length);
}

static void vram__optim_words_block(vram__optim_code *c, uint32_t depth);

/* A block that the step's options want or exclude. */
static void vram__optim_words_choose(vram__optim_code *c, uint32_t depth, int wanted) {
  if (wanted)
    vram__optim_words_block(c, depth);
  else
    vram__optim_words_skip(c);
}

/* The instruction jumps to here. */
static void vram__optim_words_land(vram__optim_code *c, uint32_t from) {
  const uint32_t distance = c->count - from;
  c->at[from].c = (uint8_t)distance;
  c->bad |= distance > UINT8_MAX;
}

/* Behind `if`: [not] CONDITION [or CONDITION] { } [else { }] */
static void vram__optim_words_if(vram__optim_code *c, uint32_t depth) {
  static const char *const condition[] = {
#define VRAM__X(id, bit, word) word,
      VRAM__OPTIM_CONDITIONS(VRAM__X) NULL
#undef VRAM__X
  };
  const int negated = vram__optim_words_take(c, "not");
  uint32_t asked = 0, from;
  do
    asked |= 1u << vram__optim_words_one_of(c, condition);
  while (vram__optim_words_take(c, "or") && !c->bad);
  if (asked < VRAM__OPTIM_IF_MATRIX) { /* the step answers it */
    const int wanted = ((c->options & asked) != 0) != negated;
    vram__optim_words_choose(c, depth, wanted);
    if (vram__optim_words_take(c, "else"))
      vram__optim_words_choose(c, depth, !wanted);
    return;
  }
  c->asks_parameter = 1;
  from = c->count;
  vram__optim_words_emit(c, VRAM__OPTIM_IF, (uint8_t)(asked / VRAM__OPTIM_IF_MATRIX),
                         (uint8_t)negated);
  vram__optim_words_block(c, depth);
  if (vram__optim_words_take(c, "else")) {
    const uint32_t over = c->count;
    vram__optim_words_emit(c, VRAM__OPTIM_JUMP, 0, 0);
    vram__optim_words_land(c, from);
    vram__optim_words_block(c, depth);
    vram__optim_words_land(c, over);
  } else
    vram__optim_words_land(c, from);
}

static void vram__optim_words_statement(vram__optim_code *c, uint32_t depth) {
  const uint32_t from = c->count;
  if (vram__optim_words_take(c, "if")) {
    vram__optim_words_if(c, depth);
    return;
  }
  if (vram__optim_words_take(c, "for")) {
    vram__optim_words_need(c, "each");
    vram__optim_words_need(c, "parameter");
    vram__optim_words_emit(c, VRAM__OPTIM_EACH, 0, 0);
    vram__optim_words_block(c, depth);
    vram__optim_words_land(c, from);
    return;
  }
  if (vram__optim_words_take(c, "free"))
    vram__optim_words_free(c);
  else if (vram__optim_words_take(c, "local"))
    vram__optim_words_local(c);
  else if (vram__optim_words_take(c, "new"))
    vram__optim_words_emit(c, VRAM__OPTIM_BRIEF, 0, vram__optim_words_size(c));
  else
    vram__optim_words_assign(c);
  vram__optim_words_need(c, ";");
}

/* { statements } */
static void vram__optim_words_block(vram__optim_code *c, uint32_t depth) {
  vram__optim_words_need(c, "{");
  c->bad |= depth == VRAM__OPTIM_DEPTH;
  while (!c->bad && !vram__optim_words_take(c, "}"))
    vram__optim_words_statement(c, depth + 1);
}

/* Appends the instructions of a recipe, whose variables come behind those that are there; the index
   of the first. */
VRAM__FN uint32_t vram__optim_compile(vram__optim_code *c, const char *recipe) {
  const uint32_t first = c->count;
  c->first_name = c->names;
  c->word = recipe;
  c->length = 0;
  c->asks_parameter = 0;
  vram__optim_words_next(c);
  while (c->length && !c->bad)
    vram__optim_words_statement(c, 0);
  return first;
}
