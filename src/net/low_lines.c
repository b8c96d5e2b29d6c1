/* >>net/low_lines    lowering: the text of the lines */
#include "net/low.h"

static char vram__low_lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* A name for line i: letters, digits and _ of the node's name and the suffix, of no other line in
   whatever case. */
static int vram__low_name(vram__low *l, uint32_t i, const char *from, const char *suffix) {
  static const char *const taken[] = {
      "weight", "flash", "state", "live", "arena", "sram", "pingpong", "scratch", "storage",
      "input",  "net",   "linux", "unix", "i386",  "mips", "sparc",    "vax",     "near",
      "far",    "small", "huge",  "min",  "max",   "sun",  NULL};
  char *to = (char *)vram__memory_take(l->mem, &l->used, l->cap, VRAM__LOW_TEXT);
  uint32_t n = 0, k, hash, number = 1, end, last, skip = vram__text_len(from);
  if (!to)
    return vram__low_fail(l, NULL, VRAM_ERR_MEMORY, "the memory given is too small");
  for (skip = skip > VRAM__LOW_NAME ? skip - VRAM__LOW_NAME : 0; from[skip]; skip++) {
    const char c = from[skip];
    const int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'),
              digit = c >= '0' && c <= '9';
    if (letter || (n && digit))
      to[n++] = c;
    else if (digit)
      to[n++] = 'n', to[n++] = c;
    else if (n && to[n - 1] != '_')
      to[n++] = '_';
  }
  while (n && to[n - 1] == '_')
    n--;
  to[n] = 0;
  if (!n)
    vram__text_puts(to, VRAM__LOW_TEXT, &n, "line");
  vram__text_puts(to, VRAM__LOW_TEXT, &n, suffix);
  for (end = n;;) {
    for (k = 0, hash = 5381; to[k]; k++)
      hash = hash * 33 ^ (uint8_t)vram__low_lower(to[k]);
    for (k = 0; taken[k]; k++) /* as the last word, too: c1_weight, so that c1 has WEIGHT_BYTES */
      if ((last = vram__text_len(taken[k])) <= n && vram__text_is(to + n - last, last, taken[k]) &&
          (last == n || (k < 9 && to[n - last - 1] == '_')))
        break;
    if (!taken[k])
      for (k = i ? 1 : 0; k < i; k++) { /* line 0 is the input */
        uint32_t c = 0;
        if (l->hash[k] != hash)
          continue;
        while (to[c] && vram__low_lower(to[c]) == vram__low_lower(l->net->line[k].y[c]))
          c++;
        if (!to[c] && !l->net->line[k].y[c])
          break;
      }
    else
      k = VRAM_MAX_NET_LINES;
    if (k == i)
      break;
    n = end;
    vram__text_puts(to, VRAM__LOW_TEXT, &n, "_");
    vram__text_putu(to, VRAM__LOW_TEXT, &n, ++number);
  }
  l->hash[i] = hash;
  l->net->line[i].y = to;
  return 1;
}

/* A new line; its name is that of `from` and a suffix. NULL: an error. */
VRAM__FN vram_net_line *vram__low_line(vram__low *l, vram_line_kind kind, const char *from,
                                       const char *suffix) {
  const uint32_t i = l->net->nline;
  vram_net_line *line = l->net->line + i;
  if (i + 1 >= VRAM_MAX_NET_LINES) {
    vram__low_fail(l, NULL, VRAM_ERR_LIMIT, "more than 4096 lines");
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
static int vram__low_keep(vram__low *l, uint32_t times) {
  vram__low_tensor *t = l->tensor + l->current;
  if (t->kept || (!times && !t->output))
    return 1;
  if (times) {
    if (!vram__low_line(l, VRAM_LINE_KEEP, vram__low_name_of(l, l->current), "_kept"))
      return 0;
    t->kept = l->net->nline - 1;
    t->h = l->h, t->w = l->w, t->c = l->c;
  } else
    return vram__low_line(l, VRAM_LINE_OUTPUT, vram__low_name_of(l, l->current), "_output") != NULL;
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
  l->h = l->tensor[t].h, l->w = l->tensor[t].w, l->c = l->tensor[t].c;
  return 1;
}

/* The value in hand in that shape; c 0: as it is. */
static int vram__low_shape(vram__low *l, int64_t h, int64_t w, int64_t c) {
  vram_net_line *line;
  if (!c || (l->h == h && l->w == w && l->c == c))
    return 1;
  line = vram__low_line(l, h == 1 && w == 1 ? VRAM_LINE_FLATTEN : VRAM_LINE_RESHAPE,
                        vram__low_name_of(l, l->current), "_view");
  if (!line)
    return 0;
  if (line->kind == VRAM_LINE_RESHAPE)
    line->arg[0] = h, line->arg[1] = w, line->arg[2] = c;
  l->h = h, l->w = w, l->c = c;
  return 1;
}

/* Tensor t waits, in that shape. */
static int vram__low_hold(vram__low *l, uint32_t t, int64_t h, int64_t w, int64_t c) {
  const vram__low_tensor *x = l->tensor + t;
  if (x->kept && (!c || (x->h == h && x->w == w && x->c == c)))
    return 1;
  return vram__low_from(l, t) && vram__low_shape(l, h, w, c) && vram__low_keep(l, 1);
}

/* A step as lines. */
VRAM__FN int vram__low_write(vram__low *l, vram__low_step *s) {
  const vram__low_in *in = l->in + s->first;
  uint32_t i, main = 0, stay = 0, k = 0;
  vram_net_line *line;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  int64_t h, w, c;
  int survives;
#define VRAM__STAYS(i) (l->tensor[in[i].tensor].uses > 1 || l->tensor[in[i].tensor].output)
  for (i = 0; i < s->count; i++)
    if (VRAM__STAYS(i))
      stay++, main = i;
  if (s->how != VRAM__LOW_ONE && s->how != VRAM__LOW_MANY &&
      stay > 1) { /* a line takes all but one */
    int64_t size[3] = {0, 0, 0};
    size[0] = l->tensor[s->out].h, size[1] = l->tensor[s->out].w, size[2] = l->tensor[s->out].c;
    for (i = 0; i < VRAM_NET_ARGS; i++)
      s->line.arg[i] = i < 3 ? size[i] : 0;
    s->line.kind = VRAM_LINE_CUSTOM;
    s->how = VRAM__LOW_MANY;
  }
  if (s->how == VRAM__LOW_BOTH &&
      !stay) /* the one as large as the result, so that it is in place */
    main = in[0].c == in[1].c && in[0].h == in[1].h && in[0].w == in[1].w &&
           in[1].tensor == l->current;
  else if (s->how == VRAM__LOW_JOIN && !stay)
    for (i = 0; i < s->count; i++)
      main = in[i].tensor == l->current ? i : main;
  else if (s->how == VRAM__LOW_MANY)
    for (i = 0, main = 0; i < s->count; i++)
      main = in[i].tensor == l->current ? i : main;
  for (i = 0; i < s->count; i++)
    if (i != main && !vram__low_hold(l, in[i].tensor, s->how == VRAM__LOW_MANY ? 0 : in[i].h,
                                     s->how == VRAM__LOW_MANY ? 0 : in[i].w,
                                     s->how == VRAM__LOW_MANY ? 0 : in[i].c))
      return 0;
  survives = VRAM__STAYS(main);
  if (!vram__low_from(l, in[main].tensor) ||
      !vram__low_keep(l, l->tensor[in[main].tensor].uses - 1) ||
      !vram__low_shape(l, in[main].h, in[main].w, in[main].c))
    return 0;
#undef VRAM__STAYS
  h = l->tensor[s->out].h, w = l->tensor[s->out].w, c = l->tensor[s->out].c;
  if (!in[main].c && s->line.kind != VRAM_LINE_CUSTOM && s->line.kind != VRAM_LINE_TRANSPOSE)
    h = l->h, w = l->w, c = l->c;
  switch (s->line.kind) {
  case VRAM_LINE_ADD:
  case VRAM_LINE_MUL:
    if (!survives && l->h == h && l->w == w && l->c == c)
      s->line.kind = s->line.kind == VRAM_LINE_ADD ? VRAM_LINE_ADD_INPLACE : VRAM_LINE_MUL_INPLACE;
    break;
  case VRAM_LINE_ACTIVATION:
  case VRAM_LINE_SOFTMAX:
  case VRAM_LINE_BATCH_NORM:
  case VRAM_LINE_LAYER_NORM:
  case VRAM_LINE_RMS_NORM:
    if (!survives)
      s->line.kind = (vram_line_kind)(s->line.kind + 1);
    break;
  default:
    break;
  }
  vram_node_name(s->node, name, sizeof name);
  line = vram__low_line(l, s->line.kind, name, s->suffix ? s->suffix : "");
  if (!line)
    return 0;
  vram__memory_copy(line->arg, s->line.arg, sizeof line->arg);
  line->format = s->line.format;
  line->padding = s->line.padding;
  line->pad_h = s->line.pad_h, line->pad_w = s->line.pad_w;
  line->node = s->node;
  for (i = 0; i < s->count; i++) {
    vram__low_tensor *t = l->tensor + in[i].tensor;
    t->uses--;
    if (i == main || s->how == VRAM__LOW_MANY)
      continue;
    line->kept[k++] = l->net->line[t->kept].y;
    t->kept = 0;
  }
  l->current = s->out;
  l->tensor[s->out].line = l->net->nline - 1;
  l->tensor[s->out].h = l->h = h;
  l->tensor[s->out].w = l->w = w;
  l->tensor[s->out].c = l->c = c;
  /* what it read last, and no argument names, goes */
  if (s->how == VRAM__LOW_MANY) {
    const uint32_t out = s->out;
    for (i = 0; i < s->count; i++) {
      const uint32_t t = in[i].tensor;
      if (i == main || l->tensor[t].uses)
        continue;
      if (l->current == out && !vram__low_keep(l, 1))
        return 0;
      if (!vram__low_from(l, t))
        return 0;
    }
    return vram__low_from(l, out);
  }
  while (s->behind != VRAM__LOW_NO) {
    s = l->step + s->behind;
    vram_node_name(s->node, name, sizeof name);
    line = vram__low_line(l, s->line.kind, name, "");
    if (!line)
      return 0;
    line->node = s->node;
    l->tensor[s->out].line = l->net->nline - 1;
    l->tensor[s->out].h = h, l->tensor[s->out].w = w, l->tensor[s->out].c = c;
    l->current = s->out;
  }
  return 1;
}
