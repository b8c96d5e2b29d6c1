/* >>net/lower    lowering: a model as lines, from its outputs back */
#include "net/low.h"

/* A loss, or what stands for one: the output is the sum or mean of all there is. */
static int vram__low_is_loss(const vram_node *n) {
  return (n->flags & VRAM__LOSS) || ((vram__op_traits(n) & VRAM__OP_TOTAL) && !n->out[0].d->ndim);
}

static void vram__low_need(vram__low *l) {
  enum { NEED = 1, KEPT = 2, LOSS = 4 };
  const vram_graph *g = l->g;
  const vram_node *n;
  uint32_t i;
  for (n = g->first; n; n = n->next) {
    uint8_t loss = vram__low_is_loss(n) ? LOSS : 0;
    for (i = 0; i < n->nin && !loss; i++)
      loss |= l->value[n->in[i]->index].need & LOSS;
    for (i = 0; i < n->nout; i++)
      l->value[n->out[i].index].need =
          (uint8_t)(loss |
                    ((n->out[i].flags & VRAM__OUTPUT) || &n->out[i] == g->root ? NEED | KEPT : 0));
  }
  for (n = g->last; n; n = n->prev) {
    uint8_t need = 0;
    for (i = 0; i < n->nout; i++)
      need |= l->value[n->out[i].index].need;
    if (!(need & NEED) || n->op >= VRAM_OP_COUNT)
      continue;
    for (i = 0; i < n->nin; i++) {
      vram__low_value *v = l->value + n->in[i]->index;
      if (!(need & LOSS) || (v->need & LOSS)) /* on to the losses that one is made of */
        v->need |= NEED;
      else if (vram__low_is_loss(n) && !i)
        v->need |= NEED | KEPT;
    }
    for (i = 0; i < n->nout && (need & LOSS); i++)
      l->value[n->out[i].index].need &= (uint8_t)~NEED;
  }
  for (i = 0; i < g->nvalue; i++) { /* 1: needed, 3: an output */
    const uint8_t need = l->value[i].need;
    l->value[i].need = need & LOSS ? 0 : need & (NEED | KEPT);
  }
}

/* The first node that reads v, or what pointwise nodes made of it, and cares for its axes; else the
   last of those; NULL: nobody reads it. */
static const vram_node *vram__low_reader(vram__low *l, const vram_value *v) {
  const vram_node *n, *found = NULL;
  uint32_t i, k;
  l->value[v->index].like_input = 1;
  for (n = l->g->first; n; n = n->next) {
    int reads = 0, needed = 0;
    for (i = 0; i < n->nin; i++)
      reads |= l->value[n->in[i]->index].like_input;
    for (k = 0; k < n->nout; k++)
      needed |= l->value[n->out[k].index].need;
    if (!reads || !needed)
      continue;
    found = n;
    if (!(vram__op_traits(n) & VRAM__OP_ANY_LAYOUT))
      break;
    l->value[n->out[0].index].like_input = 1;
  }
  return found;
}

static int vram__low_input(vram__low *l) {
  const vram_value *v = NULL;
  const vram_node *n;
  const vram_dims *d;
  vram__low_value *x;
  vram__low_step s;
  uint32_t order[VRAM_MAX_AXES], i, batch = 0, last;
  int has_batch, recurrent;
  uint32_t lower;
  int64_t h = 1, w = 1, c;
  for (i = 0; i < l->g->ninput; i++) {
    if (!l->value[l->g->input[i]->index].need)
      continue;
    if (v) {
      char name[100];
      uint32_t len = 0;
      vram__text_put(name, sizeof name, &len, l->g->input[i]->name, l->g->input[i]->name_len);
      vram__low_fail(l, NULL, VRAM_ERR_UNSUPPORTED, "a second input, ");
      vram__chain_say(l->err, name);
      vram__chain_say(l->err, ": a network of lines has one");
      return 0;
    }
    v = l->g->input[i];
  }
  if (!v)
    return vram__low_fail(l, NULL, VRAM_ERR_UNSUPPORTED, "nothing of the model needs its input");
  n = vram__low_reader(l, v);
  d = v->d;
  if (!d->ndim || !d->numel || !n)
    return vram__low_fail(l, n, VRAM_ERR_UNSUPPORTED,
                          "the input has no axes, no elements or no reader");
  lower = vram__op_at(n->op)->lower;
  recurrent = (vram__op_traits(n) & VRAM__OP_FLAT) || lower == VRAM__LOWER_MHA;
  last = d->ndim - 1u;
  has_batch = d->ndim > 1;
  for (i = 0; i < d->ndim; i++)
    order[i] = i;
  if (lower == VRAM__LOWER_CONV && d->ndim == vram__op_axes(n) + 1) {
    has_batch = 0;
    for (i = 0; i < last; i++)
      order[i] = i + 1;
    order[last] = 0;
  } else if (d->ndim == 2 && recurrent)
    has_batch = 0;
  else if (d->ndim == 4 ||
           (d->ndim == 3 && (lower == VRAM__LOWER_CONV || n->op == VRAM_OP_batch_norm ||
                             lower == VRAM__LOWER_INTERPOLATE || lower == VRAM__LOWER_MAX_POOL ||
                             lower == VRAM__LOWER_AVG_POOL))) {
    for (i = 1; i < last; i++)
      order[i] = i + 1;
    order[last] = 1;
  } else if (d->ndim == 3 && recurrent && !VRAM__INT(n, batch_first, 0)) {
    batch = 1;
    order[0] = 1, order[1] = 0;
  }
  l->n = has_batch ? d->v[batch] : 1;
  vram__memory_zero(&s, sizeof s);
  s.line.kind = l->o.align == 16 && l->o.kernels == VRAM_KERNELS_NONE ? VRAM_LINE_BEGIN
                                                                      : VRAM_LINE_BEGIN_WITH;
  s.line.format = l->o.format;
  if (vram__kind_rank(v->dtype) == 1) {
    const uint32_t bytes = vram__dtype_rows[v->dtype].block_bytes;
    s.line.format = bytes == 1   ? VRAM_FORMAT_IDS8
                    : bytes == 2 ? VRAM_FORMAT_IDS16
                                 : VRAM_FORMAT_IDS32;
    h = (int64_t)d->numel / l->n, c = 1;
  } else if (vram__kind_rank(v->dtype) != 2)
    return vram__low_fail(l, n, VRAM_ERR_UNSUPPORTED,
                          "the input is neither floating point nor ids");
  else {
    c = d->v[order[last]];
    i = d->ndim > 1 && has_batch;
    if (d->ndim - i == 3)
      h = d->v[order[i]], w = d->v[order[i + 1]];
    else
      h = (int64_t)d->numel / l->n / c;
  }
  x = l->value + v->index;
  x->kind = VRAM__LOW_TENSOR;
  x->at = vram__low_tensor_new(l, h, w, c);
  l->tensor[x->at].step = VRAM__LOW_NO;
  vram__layout_make(&x->lay, d, order, batch, has_batch);
  s.line.arg[0] = l->n, s.line.arg[1] = h, s.line.arg[2] = w, s.line.arg[3] = c;
  s.line.arg[4] = (int64_t)l->o.align;
  s.line.kernels = l->o.kernels;
  s.line.y = "input";
  l->net->line[0] = s.line;
  l->net->nline = 1;
  l->current = x->at;
  l->h = h, l->w = w, l->c = c;
  return 1;
}

/* ---- batch norms into the layer before them, activations behind it ---- */

static uint32_t vram__low_bias(vram_line_kind kind) { /* which argument it is; 0: it has none */
  switch (kind) {
  case VRAM_LINE_CONV2D:
  case VRAM_LINE_DEPTHWISE_CONV2D:
    return 5;
  case VRAM_LINE_CONV2D_FULL:
    return 8;
  case VRAM_LINE_DEPTHWISE_CONV2D_FULL:
  case VRAM_LINE_CONV_TRANSPOSE2D:
    return 7;
  case VRAM_LINE_LINEAR:
    return 1;
  default:
    return 0;
  }
}

static void vram__low_fuse(vram__low *l) {
  uint32_t i;
  for (i = 0; i < l->nstep; i++) {
    vram__low_step *s = l->step + i, *p;
    const vram__low_tensor *t = s->count == 1 ? l->tensor + l->in[s->first].tensor : NULL;
    if (!t || t->uses != 1 || t->output || t->step == VRAM__LOW_NO)
      continue;
    p = l->step + t->step;
    if (p->behind != VRAM__LOW_NO)
      continue;
    if (s->line.kind == VRAM_LINE_BATCH_NORM && !l->o.no_fold && !p->fused &&
        vram__low_bias(p->line.kind) && l->in[s->first].c == t->c) {
      p->line.arg[vram__low_bias(p->line.kind)] = 1;
      s->line.kind = VRAM_LINE_BATCH_NORM_FOLDED;
    } else if (s->line.kind == VRAM_LINE_ACTIVATION && !l->o.no_fuse && s->node &&
               (s->node->op == VRAM_OP_relu || s->node->op == VRAM_OP_relu6 ||
                s->node->op == VRAM_OP_hardtanh || s->node->op == VRAM_OP_clamp) &&
               (vram__low_bias(p->line.kind) || p->line.kind == VRAM_LINE_ADD ||
                p->line.kind == VRAM_LINE_BATCH_NORM ||
                p->line.kind == VRAM_LINE_BATCH_NORM_FOLDED ||
                p->line.kind == VRAM_LINE_MAX_POOL2D || p->line.kind == VRAM_LINE_AVG_POOL2D))
      s->line.kind = VRAM_LINE_ACTIVATION_FUSED;
    else
      continue;
    s->fused = 1;
    p->behind = i;
  }
}

static uint64_t vram__low_inputs(const vram_graph *g) {
  const vram_node *n;
  uint64_t sum = UINT64_C(4) * VRAM_MAX_NET_LINES;
  for (n = g->first; n; n = n->next)
    sum += n->nin;
  return sum;
}

/* Shares out the memory; in NULL only counts. */
static uint64_t vram__low_share(vram__low *l, const vram_graph *g, uint8_t *mem) {
  const uint64_t value = (uint64_t)g->nvalue * sizeof(vram__low_value),
                 in = vram__low_inputs(g) * sizeof(vram__low_in), lines = VRAM_MAX_NET_LINES;
  uint64_t at = 0;
#define VRAM__LOW_PART(field, type, bytes)                                                         \
  do {                                                                                             \
    if (l)                                                                                         \
      l->field = (type *)(void *)(mem + at);                                                       \
    at += ((bytes) + 15) & ~(uint64_t)15;                                                          \
  } while (0)
  if (value / sizeof(vram__low_value) != g->nvalue)
    return VRAM_OVERFLOW;
  VRAM__LOW_PART(value, vram__low_value, value);
  VRAM__LOW_PART(claimed, uint8_t, (uint64_t)g->nparam);
  VRAM__LOW_PART(tensor, vram__low_tensor, (lines + 1) * sizeof(vram__low_tensor));
  VRAM__LOW_PART(step, vram__low_step, lines * sizeof(vram__low_step));
  VRAM__LOW_PART(in, vram__low_in, in);
  VRAM__LOW_PART(hash, uint32_t, lines * sizeof(uint32_t));
  if (l) {
    vram__memory_zero(l->value, value);
    vram__memory_zero(l->claimed, g->nparam);
    l->net->line = (vram_net_line *)(void *)(mem + at);
  }
#undef VRAM__LOW_PART
  return at + lines * (sizeof(vram_net_line) + VRAM__LOW_TEXT);
}

VRAM_API uint64_t vram_net_lower_bytes(const vram_graph *g) {
  return vram__low_share(NULL, g, NULL) + 16;
}

VRAM_API vram_result vram_net_lower(const vram_graph *g, const vram_net_lower_options *o, void *mem,
                                    uint64_t bytes, vram_net *net, vram_error *err) {
  vram__low l;
  const vram_node *n;
  vram_error own;
  uint64_t all = vram_net_lower_bytes(g);
  uint8_t *base = (uint8_t *)mem;
  uint32_t i, k;
  vram__memory_zero(&l, sizeof l);
  vram__memory_zero(net, sizeof *net);
  err = err ? err : &own;
  vram__memory_zero(err, sizeof *err);
  l.g = g;
  l.net = net;
  l.err = err;
  if (o)
    l.o = *o;
  l.o.align = l.o.align ? l.o.align : 16;
  if (bytes < all || all < 16)
    return vram__chain_error(err, VRAM_ERR_MEMORY, 0, "the memory given is too small");
  base += (16 - ((uintptr_t)base & 15)) & 15;
  vram__low_share(&l, g, base);
  l.max_in = (uint32_t)vram__low_inputs(g);
  l.mem = base + (all - 16 - VRAM_MAX_NET_LINES * (uint64_t)VRAM__LOW_TEXT); /* names come last */
  l.cap = VRAM_MAX_NET_LINES * (uint64_t)VRAM__LOW_TEXT;
  net->name = l.o.name;
  vram__low_need(&l);
  if (!vram__low_input(&l))
    return err->code;
  for (n = g->first; n; n = n->next) {
    int need = 0;
    for (i = 0; i < n->nout; i++)
      need |= l.value[n->out[i].index].need;
    if (!need || n->op >= VRAM_OP_COUNT)
      continue;
    if (!vram__low_node(&l, n))
      return err->code;
    if (n->flags & VRAM__INPLACE) { /* who reads the old value reads the new one */
      vram__low_value *x = vram__low_of(&l, n->in[0]), *y = l.value + n->out[0].index;
      if (x->kind == VRAM__LOW_TENSOR && y->kind == VRAM__LOW_TENSOR && x->at != y->at)
        l.tensor[x->at].instead = y->at;
    }
  }
  for (n = g->first; n; n = n->next)
    for (i = 0; i < n->nout; i++)
      if (l.value[n->out[i].index].need > 1) {
        const vram__low_value *y = vram__low_of(&l, n->out + i);
        if (y->kind != VRAM__LOW_TENSOR || l.tensor[y->at].step == VRAM__LOW_NO) {
          vram__low_refuse(&l, n, "the output is the input: no line makes it");
          return err->code;
        }
        l.tensor[y->at].output = 1;
      }
  vram__low_fuse(&l);
  for (k = 0; k < l.nstep; k++)
    if (!l.step[k].fused && !vram__low_write(&l, l.step + k))
      return err->code;
  if (!vram__low_line(&l, VRAM_LINE_END, "", ""))
    return err->code;
  return VRAM_OK;
}
