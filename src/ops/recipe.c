/* >>ops/recipe    what backward of a pointwise op computes, in words
   A recipe has an expression for each input that can get a gradient, in PyTorch's order
   (alphabetical in the names of its arguments):

     "x1: mul_rtl(neg(grad), div(div(x0, x1), x1)); x0: div(grad, x1)"

   x0 x1 x2  the inputs, which are saved for it     y       the output, saved
   buffer    an empty extra output, saved           grad    the gradient of the output
   zero      a number that is a tensor              zeros   zeros like grad, in the input's dtype
   nothing   zeros of the input's own sizes
   neg(a)    and its like: a new tensor from a kernel of a alone
   scaled(a) and its like: from a kernel of a and a number
   mul(a, b) and its like, NAME_backward(a, b): from a kernel of two, broadcast
   where(c, a, b)
   compare(a, b), compare_number(a): bools
   cast(a)   a in the dtype of both inputs; a itself where it has it
   with(a, b): b; a is saved or made for it
   then(a, b): a; b is made behind it
   settled(a): the temporaries below a go now, not at the end of this gradient

   Arguments are worked out from the first to the last; those of a word with _rtl from the last to
   the first, as g++ compiles the C++ of that gradient. `grad` alone is handed on, and nothing is
   allocated. Behind "; inplace " stands the gradient of the form that overwrites x0, where it
   differs. The second input may be a number: then nothing is saved or allocated for it.

   An input that only one gradient needs is saved if that gradient is wanted, one that several need
   always (gen_variable_type.py, guard_for). */
#include "ops/ops.h"

enum { /* what a recipe is compiled to, in the order in which it runs */
       VRAM__CODE_END,
       VRAM__CODE_X0, /* saved: the inputs, the output, the buffer */
       VRAM__CODE_X1,
       VRAM__CODE_X2,
       VRAM__CODE_Y,
       VRAM__CODE_BUFFER,
       VRAM__CODE_OF_X0, /* the gradient of that input begins, */
       VRAM__CODE_OF_X1,
       VRAM__CODE_OF_X2,
       VRAM__CODE_DONE, /* and ends */
       VRAM__CODE_GRAD,
       VRAM__CODE_HAND_ON,
       VRAM__CODE_ZERO,
       VRAM__CODE_ZEROS,
       VRAM__CODE_NOTHING,
       VRAM__CODE_ZEROS_LIKE,
       VRAM__CODE_UNARY,
       VRAM__CODE_NUMBER,
       VRAM__CODE_COMPARE_NUMBER,
       VRAM__CODE_CAST,
       VRAM__CODE_SETTLED,
       VRAM__CODE_BINARY,
       VRAM__CODE_BINARY_RTL,
       VRAM__CODE_COMPARE,
       VRAM__CODE_WHERE,
       VRAM__CODE_WHERE_RTL,
       VRAM__CODE_WITH,        /* between its arguments: the first is not needed any more */
       VRAM__CODE_THEN,        /* the last is not */
       VRAM__CODES = 64,       /* of one recipe at most */
       VRAM__RECIPE_DEPTH = 16 /* of words within words */
};

typedef struct vram__recipe {
  uint8_t code[VRAM__CODES];
  uint32_t count;
  uint8_t bad; /* it is not understood */
} vram__recipe;

typedef struct vram__recipe_word {
  const char *word;
  uint8_t code, arguments;
} vram__recipe_word;

static const vram__recipe_word vram__recipe_words[] = {
    {"x0", VRAM__CODE_X0, 0},
    {"x1", VRAM__CODE_X1, 0},
    {"x2", VRAM__CODE_X2, 0},
    {"y", VRAM__CODE_Y, 0},
    {"buffer", VRAM__CODE_BUFFER, 0},
    {"grad", VRAM__CODE_GRAD, 0},
    {"zero", VRAM__CODE_ZERO, 0},
    {"zeros", VRAM__CODE_ZEROS, 0},
    {"nothing", VRAM__CODE_NOTHING, 0},
    {"neg", VRAM__CODE_UNARY, 1},
    {"exp", VRAM__CODE_UNARY, 1},
    {"log", VRAM__CODE_UNARY, 1},
    {"sin", VRAM__CODE_UNARY, 1},
    {"cos", VRAM__CODE_UNARY, 1},
    {"sign", VRAM__CODE_UNARY, 1},
    {"powered", VRAM__CODE_UNARY, 1},
    {"abs", VRAM__CODE_UNARY, 1},
    {"rsqrt", VRAM__CODE_UNARY, 1},
    {"sinh", VRAM__CODE_UNARY, 1},
    {"cosh", VRAM__CODE_UNARY, 1},
    {"erfinv", VRAM__CODE_UNARY, 1},
    {"digamma", VRAM__CODE_UNARY, 1},
    {"special", VRAM__CODE_UNARY, 1},
    {"zeros_like", VRAM__CODE_ZEROS_LIKE, 1},
    {"scaled", VRAM__CODE_NUMBER, 1},
    {"shifted", VRAM__CODE_NUMBER, 1},
    {"compare_number", VRAM__CODE_COMPARE_NUMBER, 1},
    {"cast", VRAM__CODE_CAST, 1},
    {"settled", VRAM__CODE_SETTLED, 1},
    {"mul", VRAM__CODE_BINARY, 2},
    {"div", VRAM__CODE_BINARY, 2},
    {"add", VRAM__CODE_BINARY, 2},
    {"sub", VRAM__CODE_BINARY, 2},
    {"pow", VRAM__CODE_BINARY, 2},
    {"mul_rtl", VRAM__CODE_BINARY_RTL, 2},
    {"div_rtl", VRAM__CODE_BINARY_RTL, 2},
    {"compare", VRAM__CODE_COMPARE, 2},
    {"where", VRAM__CODE_WHERE, 3},
    {"where_rtl", VRAM__CODE_WHERE_RTL, 3},
    {"with", VRAM__CODE_WITH, 2},
    {"then", VRAM__CODE_THEN, 2},
};

static void vram__recipe_put(vram__recipe *r, uint32_t code) {
  if (r->count < VRAM__CODES - 1)
    r->code[r->count++] = (uint8_t)code;
  else
    r->bad = 1;
}

/* NULL: there is no such word. */
static const vram__recipe_word *vram__recipe_find(const char *word, uint32_t len) {
  static const vram__recipe_word kernel = {"NAME_backward", VRAM__CODE_BINARY, 2};
  const uint32_t end = (uint32_t)sizeof "_backward" - 1;
  uint32_t i;
  for (i = 0; i < sizeof vram__recipe_words / sizeof *vram__recipe_words; i++)
    if (vram__text_is(word, len, vram__recipe_words[i].word))
      return &vram__recipe_words[i];
  return len > end && vram__text_equal(word + len - end, "_backward", end) ? &kernel : NULL;
}

/* Behind `start` where the text at p begins with it, else NULL. */
static const char *vram__recipe_behind(const char *p, const char *start) {
  for (; *start; start++)
    if (*p++ != *start)
      return NULL;
  return p;
}

/* Behind the expression at p, at the comma, parenthesis or semicolon that ends it. */
static const char *vram__recipe_skip(const char *p) {
  uint32_t depth = 0;
  for (; *p && *p != ';' && (depth || (*p != ',' && *p != ')')); p++)
    depth += (uint32_t)(*p == '(') - (uint32_t)(*p == ')');
  return p;
}

/* The expression at p; gives what is behind it. What is not understood makes the recipe bad, and
   nothing behind the end of the text is read. */
static const char *vram__recipe_compile_expression(vram__recipe *r, const char *p, uint32_t depth) {
  const vram__recipe_word *w;
  const char *word = p, *arg[3] = {NULL, NULL, NULL};
  uint32_t i;
  while ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '_')
    p++;
  w = vram__recipe_find(word, (uint32_t)(p - word));
  if (!w || depth == VRAM__RECIPE_DEPTH) {
    r->bad = 1;
    return p;
  }
  for (i = 0; i < w->arguments; i++) {
    arg[i] = vram__recipe_behind(p, i ? ", " : "(");
    if (!arg[i]) {
      r->bad = 1;
      return p;
    }
    p = vram__recipe_skip(arg[i]);
  }
  for (i = 0; i < w->arguments && !r->bad; i++) {
    const int from_last = w->code == VRAM__CODE_BINARY_RTL || w->code == VRAM__CODE_WHERE_RTL;
    const uint32_t which = from_last ? w->arguments - 1 - i : i;
    const char *end = vram__recipe_compile_expression(r, arg[which], depth + 1);
    if (*end != (which + 1 < w->arguments ? ',' : ')'))
      r->bad = 1;
    if (w->code == VRAM__CODE_WITH && !i)
      vram__recipe_put(r, w->code);
  }
  if (w->code != VRAM__CODE_WITH)
    vram__recipe_put(r, w->code);
  return w->arguments && !r->bad ? p + 1 : p;
}

/* The recipe of an op or variant. */
static const char *vram__recipe_text(uint32_t kind) {
  static const struct {
    const char *recipe;
  } variant[] = {
#define VRAM__X(name, recipe) {recipe},
      VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
  };
  return kind < VRAM_OP_COUNT ? vram__op_at(kind)->recipe : variant[kind - VRAM__K_VARIANTS].recipe;
}

/* The gradient "x0: EXPRESSION" at p; gives what is behind it. */
static const char *vram__recipe_compile_gradient(vram__recipe *r, const char *p) {
  const uint32_t from = r->count;
  if (p[0] != 'x' || p[1] < '0' || p[1] > '2' || p[2] != ':' || p[3] != ' ') {
    r->bad = 1;
    return p;
  }
  vram__recipe_put(r, (uint32_t)(VRAM__CODE_OF_X0 + (p[1] - '0')));
  p = vram__recipe_compile_expression(r, p + 4, 0);
  if (r->count == from + 2 && r->code[from + 1] == VRAM__CODE_GRAD)
    vram__recipe_put(r, VRAM__CODE_HAND_ON);
  vram__recipe_put(r, VRAM__CODE_DONE);
  return p;
}

/* The part of a recipe that counts. A bad recipe has no gradient: tests/test_recipes.c finds it. */
static void vram__recipe_compile(vram__recipe *r, const char *text, int inplace) {
  const char *p = text, *end, *other = NULL;
  for (end = text; *end && !other; end++)
    other = vram__recipe_behind(end, "; inplace ");
  if (inplace && other)
    p = other;
  r->count = 0;
  r->bad = p == other && !*p;
  while (p && *p && !r->bad) {
    p = vram__recipe_compile_gradient(r, p);
    if (!*p || (other && p == other - 10))
      break;
    p = vram__recipe_behind(p, "; ");
    r->bad |= !p || !*p;
  }
  if (r->bad)
    r->count = 0;
  r->code[r->count] = VRAM__CODE_END;
}

/* Is it one kernel of grad and something that is saved? */
static uint32_t vram__recipe_product(const vram__recipe *r) {
  const uint8_t *c = r->code;
  const uint32_t first = c[1] == VRAM__CODE_GRAD;
  const uint32_t saved = c[first ? 2 : 1];
  if (r->count != 5 || c[0] != VRAM__CODE_OF_X0 || c[3] != VRAM__CODE_BINARY ||
      (c[1] == VRAM__CODE_GRAD) == (c[2] == VRAM__CODE_GRAD) ||
      (saved != VRAM__CODE_X0 && saved != VRAM__CODE_Y))
    return 0;
  return VRAM__PLAN_PRODUCT | (saved - VRAM__CODE_X0) << 24 | (first ? 0 : VRAM__PLAN_SWAP);
}

VRAM__COLD VRAM__FN uint32_t vram__recipe_plan_make(uint32_t kind, int inplace) {
  vram__recipe r;
  uint32_t plan = VRAM__PLAN_KNOWN, here = 0, seen = 0, at = 0, i, pass = 1;
  vram__recipe_compile(&r, vram__recipe_text(kind), inplace);
  if (r.count)
    plan |= VRAM__PLAN_GRADIENT;
  for (i = 0; i < r.count; i++) {
    const uint32_t c = r.code[i];
    if (c >= VRAM__CODE_OF_X0 && c <= VRAM__CODE_OF_X2) {
      at = c - VRAM__CODE_OF_X0;
      here = 0;
    } else if (c >= VRAM__CODE_X0 && c <= VRAM__CODE_BUFFER)
      here |= 1u << (c - VRAM__CODE_X0);
    else if (c == VRAM__CODE_DONE) {
      plan |= here << 5 * at | ((seen & here) | (here & 24)) << 15;
      pass &= r.code[i - 1] == VRAM__CODE_HAND_ON;
      seen |= here;
    }
  }
  plan |= pass ? VRAM__PLAN_PASS : vram__recipe_product(&r);
  for (i = 0; i < 5; i++)
    plan += (seen >> i & 1) << 28;
  return plan;
}

/* What f saves: x0 x1 x2 y buffer as bits 0..4. */
VRAM__FN uint32_t vram__recipe_letters(uint32_t plan, vram__grad_fn *f) {
  uint32_t need = plan >> 15, i;
  for (i = 0; i < f->nin; i++)
    if (vram__input_wanted(f, i))
      need |= plan >> 5 * i;
  return need & 31;
}

VRAM__FN void vram__recipe_save(vram__step *s, vram__grad_fn *f, uint32_t need,
                                const vram__tensor *in, uint32_t nin, vram__tensor y) {
  uint32_t k;
  vram__tensor m;
  f->aux = 0;
  for (k = need & 3 ? 0 : 2; k < 2 || need >> k; k++) {
    const uint32_t i = k < 2 ? 1 - k : k; /* `other` before `self`, as autograd's members */
    const vram__tensor *t = i < 3 ? in + i : i == 3 ? &y : &m;
    if (!(need >> i & 1) || (i < 3 && i >= nin))
      continue;
    if (i == 4) {
      const int64_t zero = 0;
      m = y;
      m.st = 0;
      m.d = vram__dims_in(s, 1, &zero, NULL);
    }
    f->aux |= (uint64_t)(f->nsaved + 1u) << (4 * i);
    vram__save_tensor(s, f, *t);
  }
}

/* A tensor of dims d: t itself if nobody else has it, else a fresh one. */
VRAM__FN vram__tensor vram__recipe_cast_over(vram__step *s, vram__tensor t, const vram_dims *d,
                                             vram_dtype dt) {
  if (t.st && t.dt == dt && t.d->numel == d->numel && vram__slot_at(s, t.st)->refs == 1 &&
      vram__owner_at(s, t.st)->srefs == 1)
    return vram__tensor_retain(s, t);
  return vram__tensor_empty(s, vram__dims_dense(s, d), dt);
}

/* A gradient that is being worked out. */
typedef struct vram__recipe_run {
  /* values; those that were made here. Each is of a code of its own */
  vram__tensor stack[VRAM__CODES], own[VRAM__CODES];
  uint32_t n, nown;
  uint32_t at; /* the input whose gradient it is */
} vram__recipe_run;

#define VRAM__IS_NUMBER VRAM_DTYPE_COUNT /* dtype of a value that is a number */

static void vram__recipe_push(vram__recipe_run *q, vram__tensor t) { q->stack[q->n++] = t; }

/* The top becomes t, which was made here. */
static void vram__recipe_replace(vram__recipe_run *q, vram__tensor t) {
  q->stack[q->n - 1] = q->own[q->nown++] = t;
}

/* Gradients take complex values conjugated, which makes a copy: kernels know no lazy conjugation.
   abs and sign take the sign of the value itself. */
static void vram__recipe_saved(vram__step *s, vram__recipe_run *q, vram__grad_fn *f,
                               uint32_t which) {
  const uint32_t k = (uint32_t)(f->aux >> (4 * which)) & 15;
  vram__tensor number = vram__tensor_none();
  number.dt = VRAM__IS_NUMBER;
  vram__recipe_push(q, k ? VRAM__SAVED(f)[k - 1] : number);
  if (k && vram__is_complex(q->stack[q->n - 1].dt) && f->kind != VRAM_OP_abs)
    vram__recipe_replace(q, vram__pointwise_empty1(s, q->stack[q->n - 1]));
}

/* handle_r_to_c: the gradient of what is not complex is the real part, a view. */
static vram__tensor vram__recipe_real(vram__step *s, vram__grad_fn *f, uint32_t i, vram__tensor t) {
  vram_dtype dt;
  vram__input_dims(s, f, i, &dt);
  return vram__is_complex(t.dt) && !vram__is_complex(dt) ? vram__complex_real(s, t) : t;
}

/* A kernel of the top alone, or of it and a number. */
static void vram__recipe_unary(vram__step *s, vram__recipe_run *q, uint32_t code) {
  vram__tensor t = q->stack[q->n - 1];
  if (t.dt == VRAM__IS_NUMBER)
    return;
  t.d = code == VRAM__CODE_UNARY ? vram__dims_pointwise1(s, t.d)
                                 : vram__dims_pointwise_number(s, t.d);
  vram__recipe_replace(
      q, vram__tensor_empty(s, t.d, code == VRAM__CODE_COMPARE_NUMBER ? VRAM_BOOL : t.dt));
}

static void vram__recipe_binary(vram__step *s, vram__recipe_run *q, uint32_t code) {
  vram__tensor b = q->stack[--q->n], a = q->stack[q->n - 1], t;
  const vram_dims *d[2];
  if (code == VRAM__CODE_BINARY_RTL) {
    t = a;
    a = b;
    b = t;
  }
  if (a.dt == VRAM__IS_NUMBER || b.dt == VRAM__IS_NUMBER)
    t = vram__pointwise_empty_number(s, b.dt == VRAM__IS_NUMBER ? a : b);
  else if (code != VRAM__CODE_COMPARE)
    t = vram__pointwise_empty2(s, a, b);
  else {
    d[0] = a.d;
    d[1] = b.d;
    t = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), VRAM_BOOL);
  }
  vram__recipe_replace(q, t);
}

static void vram__recipe_where(vram__step *s, vram__recipe_run *q, uint32_t code) {
  const vram__tensor *top = q->stack + (q->n -= 2) - 1;
  const uint32_t first = code == VRAM__CODE_WHERE_RTL ? 2 : 0;
  const vram__tensor *a = top + 1, *b = top + (2 - first);
  const vram_dtype dt = vram__promote_pair(*a, *b);
  /* at::where casts the other one */
  const vram__tensor cast_a = vram__tensor_to(s, *a, dt), cast_b = vram__tensor_to(s, *b, dt);
  const vram_dims *d[3];
  d[0] = top[first].d;
  d[1] = a->d;
  d[2] = b->d;
  vram__recipe_replace(q, vram__tensor_empty(s, vram__dims_pointwise(s, d, 3), dt));
  vram__tensor_release(s, cast_b);
  vram__tensor_release(s, cast_a);
}

/* A fresh tensor: a number, of the gradient's sizes in the input's dtype, of the input's sizes, of
   the sizes of what lies on top. */
static void vram__recipe_zeros(vram__step *s, vram__grad_fn *f, vram__recipe_run *q,
                               uint32_t code) {
  vram__tensor t = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = s->scalar;
  if (code == VRAM__CODE_ZEROS_LIKE)
    t = q->stack[q->n - 1];
  else
    q->n++;
  if (code == VRAM__CODE_ZEROS)
    vram__input_dims(s, f, q->at, &t.dt);
  else if (code == VRAM__CODE_NOTHING)
    t.d = vram__input_dims(s, f, q->at, &t.dt);
  if (code != VRAM__CODE_ZERO)
    d = vram__dims_dense(s, t.d);
  vram__recipe_replace(q, vram__tensor_empty(s, d, t.dt));
}

static void vram__recipe_run_code(vram__step *s, vram__grad_fn *f, vram__recipe_run *q,
                                  uint32_t code) {
  vram__tensor t = VRAM__SLOTS(f)[0].g;
  switch (code) {
  case VRAM__CODE_X0:
  case VRAM__CODE_X1:
  case VRAM__CODE_X2:
  case VRAM__CODE_Y:
  case VRAM__CODE_BUFFER:
    vram__recipe_saved(s, q, f, code - VRAM__CODE_X0);
    break;
  case VRAM__CODE_GRAD:
    vram__recipe_push(q, t);
    break;
  case VRAM__CODE_HAND_ON:
    q->own[q->nown++] = vram__tensor_retain(s, t);
    break;
  case VRAM__CODE_ZERO:
  case VRAM__CODE_ZEROS:
  case VRAM__CODE_NOTHING:
  case VRAM__CODE_ZEROS_LIKE:
    vram__recipe_zeros(s, f, q, code);
    break;
  case VRAM__CODE_CAST: /* the output's is another one if it overwrites the input */
    t = q->stack[q->n - 1];
    t.dt = vram__promote_pair(t, VRAM__SAVED(f)[((f->aux >> 4) & 15) - 1]);
    if (q->stack[q->n - 1].dt != t.dt)
      vram__recipe_replace(q, vram__tensor_to(s, q->stack[q->n - 1], t.dt));
    break;
  case VRAM__CODE_UNARY:
  case VRAM__CODE_NUMBER:
  case VRAM__CODE_COMPARE_NUMBER:
    vram__recipe_unary(s, q, code);
    break;
  case VRAM__CODE_BINARY:
  case VRAM__CODE_BINARY_RTL:
  case VRAM__CODE_COMPARE:
    vram__recipe_binary(s, q, code);
    break;
  case VRAM__CODE_WHERE:
  case VRAM__CODE_WHERE_RTL:
    vram__recipe_where(s, q, code);
    break;
  case VRAM__CODE_WITH:
    q->n--;
    break;
  case VRAM__CODE_THEN:
    q->n--;
    vram__tensor_release(s, q->own[--q->nown]);
    break;
  case VRAM__CODE_SETTLED:
    for (; q->nown > 1; q->nown--) {
      vram__tensor_release(s, q->own[q->nown - 2]);
      q->own[q->nown - 2] = q->own[q->nown - 1];
    }
    break;
  default:
    break;
  }
}

static void vram__backward_recipe(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram__recipe r;
  vram__recipe_run q;
  uint32_t i, wanted = 0;
  vram__recipe_compile(&r, vram__recipe_text(f->kind), (f->aux & VRAM__AUX_INPLACE) != 0);
  q.at = 0;
  for (i = 0; i < r.count; i++) {
    const uint32_t code = r.code[i];
    if (code >= VRAM__CODE_OF_X0 && code <= VRAM__CODE_OF_X2) {
      q.n = q.nown = 0;
      q.at = code - VRAM__CODE_OF_X0;
      wanted = q.at < f->nin && vram__input_wanted(f, q.at);
      s->registers = wanted && s->ideal;
    } else if (code != VRAM__CODE_DONE) {
      if (wanted)
        vram__recipe_run_code(s, f, &q, code);
    } else {
      s->registers = 0;
      if (!wanted || !q.nown)
        continue;
      to[q.at] = vram__recipe_real(s, f, q.at, q.own[--q.nown]);
      while (q.nown)
        vram__tensor_release(s, q.own[--q.nown]);
      if (s->ideal && !to[q.at].st) /* one kernel, which writes over g where it can */
        to[q.at] = vram__recipe_cast_over(s, g, to[q.at].d, to[q.at].dt);
    }
  }
}

VRAM__FN void vram__backward_pointwise(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const uint32_t plan = vram__recipe_plan(s, f->kind, (f->aux & VRAM__AUX_INPLACE) != 0);
  const vram__tensor *g = &VRAM__SLOTS(f)[0].g;
  uint32_t i;
  if (f->aux & VRAM__AUX_STALE) {
    vram__refuse_stale(s, f);
    return;
  }
  if (f->kind == VRAM_OP_floor_divide) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                      "floor_divide has no gradient: PyTorch stops with an error");
    return;
  }
  if ((plan & VRAM__PLAN_PRODUCT) && !s->ideal && !vram__is_complex(VRAM__SAVED(f)->dt)) {
    const vram__tensor *t = VRAM__SAVED(f); /* the only one */
    to[0] = plan & VRAM__PLAN_SWAP ? vram__pointwise_empty2(s, *t, *g)
                                   : vram__pointwise_empty2(s, *g, *t);
  } else if (plan & VRAM__PLAN_PASS) {
    for (i = f->nin; i-- > 0;)
      if (vram__input_wanted(f, i))
        to[i] = vram__tensor_retain(s, *g);
  } else
    vram__backward_recipe(s, f, to);
}
