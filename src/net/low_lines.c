/* >>net/low_lines    lowering: the text of the lines */
#include "net/low.h"

/* ---- names ---- */

static char vram__low_lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

static int vram__low_is_letter(char c) {
  return vram__low_lower(c) >= 'a' && vram__low_lower(c) <= 'z';
}

/* Where a name begins of which no more than its end is taken: with a word, if one does. */
static const char *vram__low_end(const char *from) {
  const uint32_t len = vram__text_len(from);
  const char *end = from + (len > VRAM__LOW_NAME ? len - VRAM__LOW_NAME : 0), *word;
  for (word = end; *word && end != from; word++)
    if (!vram__low_is_letter(word[-1]) && !vram__digit(word[-1]))
      return word;
  return end;
}

/* Letters, digits and _ of the end of a node's name. Returns the length. */
static uint32_t vram__low_identifier(const char *from, char *to) {
  uint32_t n = 0;
  for (from = vram__low_end(from); *from; from++) {
    const int digit = vram__digit(*from);
    if (digit && !n)
      to[n++] = 'n';
    if (digit || vram__low_is_letter(*from))
      to[n++] = *from;
    else if (n && to[n - 1] != '_')
      to[n++] = '_';
  }
  while (n && to[n - 1] == '_')
    n--;
  to[n] = 0;
  return n;
}

/* A word that a compiler or vram emit defines; the first nine also as the last word of a name:
   with c1 and c1_weight, C1_WEIGHT_BYTES would be two things. */
static int vram__low_is_taken(const char *name, uint32_t n) {
  static const char *const taken[] = {
      "weight", "flash", "state", "live", "arena", "sram", "pingpong", "scratch", "storage",
      "input",  "net",   "linux", "unix", "i386",  "mips", "sparc",    "vax",     "near",
      "far",    "small", "huge",  "min",  "max",   "sun",  NULL};
  uint32_t k;
  for (k = 0; taken[k]; k++) {
    const uint32_t len = vram__text_len(taken[k]);
    if (len <= n && vram__text_is(name + n - len, len, taken[k]) &&
        (len == n || (k < 9 && name[n - len - 1] == '_')))
      return 1;
  }
  return 0;
}

static uint32_t vram__low_hash(const char *name) { /* the same in whatever case */
  uint32_t hash = 5381;
  for (; *name; name++)
    hash = hash * 33 ^ (uint8_t)vram__low_lower(*name);
  return hash;
}

static int vram__low_same_name(const char *a, const char *b) { /* in whatever case */
  while (*a && vram__low_lower(*a) == vram__low_lower(*b)) {
    a++;
    b++;
  }
  return !*a && !*b;
}

/* 1: none of the lines before line i has that name; line 0 is the input. */
static int vram__low_is_new(const vram__low *l, uint32_t i, const char *name, uint32_t hash) {
  uint32_t k;
  for (k = 1; k < i; k++)
    if (l->hash[k] == hash && vram__low_same_name(name, l->net->line[k].y))
      return 0;
  return 1;
}

/* A name for line i: that of the node and the suffix, with a number where it is taken. */
static int vram__low_name(vram__low *l, uint32_t i, const char *from, const char *suffix) {
  char *to = (char *)vram__memory_take(l->mem, &l->used, l->cap, VRAM__LOW_TEXT);
  uint32_t n, end, hash, number = 1;
  if (!to)
    return vram__low_fail(l, VRAM_ERR_MEMORY, "the memory given is too small");
  n = vram__low_identifier(from, to);
  if (!n)
    vram__text_puts(to, VRAM__LOW_TEXT, &n, "line");
  vram__text_puts(to, VRAM__LOW_TEXT, &n, suffix);
  end = n;
  for (;;) {
    hash = vram__low_hash(to);
    if (!vram__low_is_taken(to, n) && vram__low_is_new(l, i, to, hash))
      break;
    n = end;
    vram__text_puts(to, VRAM__LOW_TEXT, &n, "_");
    vram__text_putu(to, VRAM__LOW_TEXT, &n, ++number);
  }
  l->hash[i] = hash;
  l->net->line[i].y = to;
  return 1;
}

/* ---- lines ---- */

/* A new line; its name is that of `from` and a suffix. NULL: an error. */
VRAM__FN vram_net_line *vram__low_line(vram__low *l, vram_line_kind kind, const char *from,
                                       const char *suffix) {
  const uint32_t i = l->net->nline;
  vram_net_line *line = l->net->line + i;
  if (i + 1 >= VRAM_MAX_NET_LINES) {
    vram__low_fail(l, VRAM_ERR_LIMIT, "more than 4096 lines");
    return NULL;
  }
  vram__memory_zero(line, sizeof *line);
  line->kind = kind;
  line->x = l->net->line[i - 1].y;
  if (!vram__low_name(l, i, from, suffix))
    return NULL;
  l->net->nline++;
  return line;
}

static const char *vram__low_name_of(const vram__low *l, uint32_t tensor) {
  return l->net->line[l->tensor[tensor].line].y;
}

/* The value in hand waits, if anybody wants it: `times` steps still do. */
VRAM__FN int vram__low_keep(vram__low *l, uint32_t times) {
  vram__low_tensor *t = l->tensor + l->current;
  if (t->kept || (!times && !t->output))
    return 1;
  if (!times)
    return vram__low_line(l, VRAM_LINE_OUTPUT, vram__low_name_of(l, l->current), "_output") != NULL;
  if (!vram__low_line(l, VRAM_LINE_KEEP, vram__low_name_of(l, l->current), "_kept"))
    return 0;
  t->kept = l->net->nline - 1;
  t->shape = l->hand;
  return 1;
}

/* Tensor t becomes the value in hand. */
static int vram__low_from(vram__low *l, uint32_t t) {
  vram_net_line *line;
  if (l->current == t && !l->tensor[t].kept)
    return 1;
  if (!vram__low_keep(l, l->tensor[l->current].uses))
    return 0;
  line = vram__low_line(l, VRAM_LINE_FROM, vram__low_name_of(l, t), "_back");
  if (!line)
    return 0;
  line->kept[0] = l->net->line[l->tensor[t].kept].y;
  l->tensor[t].kept = 0;
  l->current = t;
  l->hand = l->tensor[t].shape;
  return 1;
}

/* The value in hand in that shape. */
static int vram__low_shape(vram__low *l, vram__hwc shape) {
  vram_net_line *line;
  if (!shape.c || vram__hwc_equal(l->hand, shape))
    return 1;
  line = vram__low_line(l, shape.h == 1 && shape.w == 1 ? VRAM_LINE_FLATTEN : VRAM_LINE_RESHAPE,
                        vram__low_name_of(l, l->current), "_view");
  if (!line)
    return 0;
  if (line->kind == VRAM_LINE_RESHAPE)
    vram__low_shape_args(line, shape);
  l->hand = shape;
  return 1;
}

/* Tensor t waits, in that shape. */
static int vram__low_hold(vram__low *l, uint32_t t, vram__hwc shape) {
  const vram__low_tensor *x = l->tensor + t;
  if (x->kept && (!shape.c || vram__hwc_equal(x->shape, shape)))
    return 1;
  return vram__low_from(l, t) && vram__low_shape(l, shape) && vram__low_keep(l, 1);
}

/* ---- steps ---- */

/* Others read that input, too, or it is an output. */
static int vram__low_stays(const vram__low *l, const vram__low_in *in) {
  const vram__low_tensor *t = l->tensor + in->tensor;
  return t->uses > 1 || t->output;
}

/* A line takes all kept values but one: where more of them stay, it is CUSTOM. */
static void vram__low_settle(vram__low *l, vram__low_step *s) {
  uint32_t i, stay = 0;
  if (s->how == VRAM__LOW_ONE || s->how == VRAM__LOW_MANY)
    return;
  for (i = 0; i < s->count; i++)
    stay += vram__low_stays(l, l->in + s->first + i) != 0;
  if (stay < 2)
    return;
  for (i = 3; i < VRAM_NET_ARGS; i++)
    s->line.arg[i] = 0;
  vram__low_shape_args(&s->line, l->tensor[s->out].shape);
  s->line.kind = VRAM_LINE_CUSTOM;
  s->how = VRAM__LOW_MANY;
}

/* Which input is to be in hand: the one that stays, or is in hand already. */
static uint32_t vram__low_main(const vram__low *l, const vram__low_step *s) {
  const vram__low_in *in = l->in + s->first;
  uint32_t i, main = 0;
  if (s->how != VRAM__LOW_MANY)
    for (i = s->count; i-- > 0;)
      if (vram__low_stays(l, in + i))
        return i;
  if (s->how == VRAM__LOW_ONE)
    return 0;
  if (s->how == VRAM__LOW_BOTH) /* the one as large as the result, so that it is in place */
    return vram__hwc_equal(in[0].shape, in[1].shape) && in[1].tensor == l->current;
  for (i = 0; i < s->count; i++)
    if (in[i].tensor == l->current)
      main = i;
  return main;
}

/* The kind of line that overwrites its input. */
static vram_line_kind vram__low_in_place(vram_line_kind kind, int same_shape) {
  switch (kind) {
  case VRAM_LINE_ADD:
  case VRAM_LINE_MUL:
    if (!same_shape)
      return kind;
    break;
  case VRAM_LINE_ACTIVATION:
  case VRAM_LINE_SOFTMAX:
  case VRAM_LINE_BATCH_NORM:
  case VRAM_LINE_LAYER_NORM:
  case VRAM_LINE_RMS_NORM:
    break;
  default:
    return kind;
  }
  return (vram_line_kind)(kind + 1);
}

/* The line of a step, whose result is in hand then. NULL: an error. */
static vram_net_line *vram__low_step_line(vram__low *l, const vram__low_step *s, vram__hwc shape) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  vram_net_line *line;
  vram_node_name(s->node, name, sizeof name);
  line = vram__low_line(l, s->line.kind, name, s->suffix ? s->suffix : "");
  if (!line)
    return NULL;
  vram__memory_copy(line->arg, s->line.arg, sizeof line->arg);
  line->format = s->line.format;
  line->padding = s->line.padding;
  line->pad_h = s->line.pad_h;
  line->pad_w = s->line.pad_w;
  line->node = s->node;
  l->current = s->out;
  l->tensor[s->out].line = l->net->nline - 1;
  l->tensor[s->out].shape = shape;
  l->hand = shape;
  return line;
}

/* The step has read its inputs: the line takes those that it names. */
static void vram__low_has_read(vram__low *l, const vram__low_step *s, uint32_t main,
                               vram_net_line *line) {
  uint32_t i, k = 0;
  for (i = 0; i < s->count; i++) {
    vram__low_tensor *t = l->tensor + l->in[s->first + i].tensor;
    t->uses--;
    if (i == main || s->how == VRAM__LOW_MANY)
      continue;
    line->kept[k++] = l->net->line[t->kept].y;
    t->kept = 0;
  }
}

/* What a CUSTOM line read last, and no argument names, goes. */
static int vram__low_let_go(vram__low *l, const vram__low_step *s, uint32_t main) {
  uint32_t i;
  for (i = 0; i < s->count; i++) {
    const uint32_t t = l->in[s->first + i].tensor;
    if (i == main || l->tensor[t].uses)
      continue;
    if (l->current == s->out && !vram__low_keep(l, 1))
      return 0;
    if (!vram__low_from(l, t))
      return 0;
  }
  return vram__low_from(l, s->out);
}

/* A step as lines, and what is fused behind it. */
VRAM__FN int vram__low_write(vram__low *l, vram__low_step *s) {
  const vram__low_in *in = l->in + s->first;
  uint32_t i, main;
  vram_net_line *line;
  vram__hwc shape;
  int survives;
  vram__low_settle(l, s);
  main = vram__low_main(l, s);
  for (i = 0; i < s->count; i++)
    if (i != main &&
        !vram__low_hold(l, in[i].tensor,
                        s->how == VRAM__LOW_MANY ? vram__hwc_of(0, 0, 0) : in[i].shape))
      return 0;
  survives = vram__low_stays(l, in + main);
  if (!vram__low_from(l, in[main].tensor) ||
      !vram__low_keep(l, l->tensor[in[main].tensor].uses - 1) ||
      !vram__low_shape(l, in[main].shape))
    return 0;
  shape = l->tensor[s->out].shape;
  if (!in[main].shape.c && s->line.kind != VRAM_LINE_CUSTOM && s->line.kind != VRAM_LINE_TRANSPOSE)
    shape = l->hand;
  if (!survives)
    s->line.kind = vram__low_in_place(s->line.kind, vram__hwc_equal(l->hand, shape));
  line = vram__low_step_line(l, s, shape);
  if (!line)
    return 0;
  vram__low_has_read(l, s, main, line);
  if (s->how == VRAM__LOW_MANY)
    return vram__low_let_go(l, s, main);
  while (s->behind != VRAM__LOW_NO) {
    s = l->step + s->behind;
    if (!vram__low_step_line(l, s, shape))
      return 0;
  }
  return 1;
}
