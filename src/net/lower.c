/* >>net/lower    lowering: a model as lines, from its outputs back */
#include "net/low.h"

/* A loss, or what stands for one: the output is the sum or mean of all there is. */
static int vram__low_is_loss(const vram_node *n) {
  return (n->flags & VRAM__LOSS) || ((vram__op_traits(n) & VRAM__OP_TOTAL) && !n->out[0].d->ndim);
}

static int vram__low_is_output(const vram_graph *g, const vram_value *v) {
  return g->inferred ? (v->flags & VRAM__INFERRED) != 0 : (v->flags & VRAM__OUTPUT) || v == g->root;
}

static void vram__low_need(vram__low *l) {
  enum { NEED = 1, KEPT = 2, LOSS = 4 };
  const vram_graph *g = l->g;
  const vram_node *n;
  uint32_t i;
  for (n = g->first; n; n = n->next) {
    uint8_t loss = !g->inferred && vram__low_is_loss(n) ? LOSS : 0;
    for (i = 0; i < n->nin && !loss; i++)
      loss |= l->value[n->in[i]->index].need & LOSS;
    for (i = 0; i < n->nout; i++)
      l->value[n->out[i].index].need =
          (uint8_t)(loss | (vram__low_is_output(g, &n->out[i]) ? NEED | KEPT : 0));
  }
  for (n = g->last; n; n = vram__node_before(n)) {
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
  for (i = 0; i < l->g->nvalue; i++)
    l->value[i].like_input = 0;
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

/* ---- the inputs ---- */

/* How its first reader sees the input: the axes in the order of memory, and which is the batch. */
typedef struct vram__low_view {
  uint32_t order[VRAM_MAX_AXES];
  uint32_t batch;
  int has_batch;
} vram__low_view;

/* Of an input of three axes, or of five, the second is the channels, not the last. */
static int vram__low_reads_channels(const vram__op_row *row) {
  switch (row->lower) {
  case VRAM__LOWER_CONV:
  case VRAM__LOWER_INTERPOLATE:
  case VRAM__LOWER_MAX_POOL:
  case VRAM__LOWER_AVG_POOL:
    return 1;
  default:
    return row->lower == VRAM__LOWER_NORM && row->kind == VRAM__NORM_BATCH;
  }
}

static void vram__low_view_of(const vram_node *n, const vram_dims *d, vram__low_view *v) {
  const vram__op_row *row = vram__op_at(n->op);
  const int sequence = row->lower == VRAM__LOWER_RNN || row->lower == VRAM__LOWER_MHA;
  const uint32_t last = d->ndim - 1u;
  uint32_t i;
  v->batch = 0;
  v->has_batch = d->ndim > 1;
  for (i = 0; i < d->ndim; i++)
    v->order[i] = i;
  if (row->lower == VRAM__LOWER_CONV && d->ndim == vram__op_axes(n) + 1) {
    v->has_batch = 0;
    for (i = 0; i < last; i++)
      v->order[i] = i + 1;
    v->order[last] = 0;
  } else if (d->ndim == 2 && sequence)
    v->has_batch = 0;
  else if (d->ndim == 4 || ((d->ndim == 3 || d->ndim == 5) && vram__low_reads_channels(row))) {
    for (i = 1; i < last; i++)
      v->order[i] = i + 1;
    v->order[last] = 1;
  } else if (d->ndim == 3 && sequence && !VRAM__INT(n, batch_first, 0)) {
    v->batch = 1;
    v->order[0] = 1;
    v->order[1] = 0;
  }
}

static vram_net_format vram__low_input_format(const vram__low *l, const vram_value *v) {
  const uint32_t bytes = vram__dtype_rows[v->dtype].block_bytes;
  if (vram__kind_rank(v->dtype) == 2)
    return l->o.format;
  return bytes == 1 ? VRAM_FORMAT_IDS8 : bytes == 2 ? VRAM_FORMAT_IDS16 : VRAM_FORMAT_IDS32;
}

static vram__hwc vram__low_input_shape(const vram__low *l, const vram_value *v,
                                       const vram__low_view *view) {
  const vram_dims *d = v->d;
  const uint32_t first = d->ndim > 1 && view->has_batch;
  vram__hwc shape = vram__hwc_of((int64_t)d->numel / l->n, 1, 1);
  if (vram__kind_rank(v->dtype) == 1)
    return shape;
  shape.c = d->v[view->order[d->ndim - 1u]];
  shape.h /= shape.c;
  if (d->ndim - first == 3) {
    shape.h = d->v[view->order[first]];
    shape.w = d->v[view->order[first + 1]];
  } else if (d->ndim - first == 4) { /* planes one below the other */
    shape.w = d->v[view->order[first + 2]];
    shape.h /= shape.w;
  }
  return shape;
}

/* An error about an input, which is no node. */
static int vram__low_refuse_input(vram__low *l, const vram_value *v, const char *what) {
  char name[100];
  uint32_t len = 0;
  vram__text_puts(name, sizeof name, &len, "input ");
  vram__text_put(name, sizeof name, &len, v->name, v->name_len);
  vram__text_puts(name, sizeof name, &len, ": ");
  l->node = NULL;
  vram__low_fail(l, VRAM_ERR_UNSUPPORTED, name);
  vram__chain_say(l->err, what);
  return 0;
}

/* A tensor that no step makes. The first one's batch is the network's. */
static int vram__low_input(vram__low *l, const vram_value *v) {
  const uint32_t rank = vram__kind_rank(v->dtype);
  vram__low_value *x = l->value + v->index;
  vram__low_view view;
  int64_t n;
  l->node = vram__low_reader(l, v);
  if (!v->d->ndim || !v->d->numel || !l->node)
    return vram__low_refuse_input(l, v, "it has no axes, no elements or no reader");
  if (rank != 1 && rank != 2)
    return vram__low_refuse_input(l, v, "it is neither floating point nor ids");
  vram__low_view_of(l->node, v->d, &view);
  n = view.has_batch ? v->d->v[view.batch] : 1;
  if (l->ninput && n != l->n)
    return vram__low_refuse_input(l, v, "its batch is not that of the first input");
  l->n = n;
  x->kind = VRAM__LOW_TENSOR;
  x->at = vram__low_tensor_new(l, vram__low_input_shape(l, v, &view));
  l->tensor[x->at].step = VRAM__LOW_NO;
  vram__layout_make(&x->lay, v->d, view.order, view.batch, view.has_batch);
  l->ninput++;
  return 1;
}

/* Of all inputs that the outputs need: tensors 0, 1, ... */
static int vram__low_inputs(vram__low *l) {
  uint32_t i;
  for (i = 0; i < l->g->ninput; i++)
    if (l->value[l->g->input[i]->index].need && !vram__low_input(l, l->g->input[i]))
      return 0;
  return l->ninput
             ? 1
             : vram__low_fail(l, VRAM_ERR_UNSUPPORTED, "nothing of the model needs its input");
}

/* The line of input k, whose value is in hand then: BEGIN; INPUT behind those that wait. */
static int vram__low_input_line(vram__low *l, const vram_value *v, uint32_t k) {
  const vram__hwc shape = l->tensor[k].shape;
  vram_net_line *line = l->net->line;
  char name[VRAM_MAX_NAME + 1];
  uint32_t len = 0;
  if (l->ninput > 1 && !l->tensor[k].uses)
    return vram__low_refuse_input(l, v, "no line reads it");
  if (k) {
    vram__text_put(name, sizeof name, &len, v->name, v->name_len);
    if (!vram__low_keep(l, l->tensor[k - 1].uses))
      return 0;
    line = vram__low_line(l, VRAM_LINE_INPUT, name, "");
    if (!line)
      return 0;
    vram__low_shape_args(line, shape);
  } else {
    vram__memory_zero(line, sizeof *line);
    line->kind = l->o.align == 16 && l->o.kernels == VRAM_KERNELS_NONE ? VRAM_LINE_BEGIN
                                                                       : VRAM_LINE_BEGIN_WITH;
    line->y = "input";
    line->arg[0] = l->n;
    line->arg[1] = shape.h;
    line->arg[2] = shape.w;
    line->arg[3] = shape.c;
    line->arg[4] = (int64_t)l->o.align;
    line->kernels = l->o.kernels;
    l->net->nline = 1;
  }
  line->format = vram__low_input_format(l, v);
  l->current = k;
  l->hand = shape;
  l->tensor[k].line = l->net->nline - 1;
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
  case VRAM_LINE_CONV3D:
    return 9;
  case VRAM_LINE_DEPTHWISE_CONV2D_FULL:
  case VRAM_LINE_CONV_TRANSPOSE2D:
    return 7;
  case VRAM_LINE_LINEAR:
    return 1;
  default:
    return 0;
  }
}

/* A line that bounds its result at no cost: an activation behind it that is no more than that
   becomes a part of it. */
static int vram__low_has_bounds(vram_line_kind kind) {
  switch (kind) {
  case VRAM_LINE_ADD:
  case VRAM_LINE_BATCH_NORM:
  case VRAM_LINE_BATCH_NORM_FOLDED:
  case VRAM_LINE_MAX_POOL2D:
  case VRAM_LINE_AVG_POOL2D:
    return 1;
  default:
    return vram__low_bias(kind) != 0;
  }
}

/* Step s becomes a part of step p before it, if it can. */
static int vram__low_fuse_step(const vram__low *l, vram__low_step *s, vram__low_step *p) {
  const vram__low_in *in = l->in + s->first;
  const uint32_t bias = vram__low_bias(p->line.kind);
  if (s->line.kind == VRAM_LINE_BATCH_NORM && !l->o.no_fold && !p->fused && bias &&
      in->shape.c == l->tensor[in->tensor].shape.c) {
    p->line.arg[bias] = 1;
    s->line.kind = VRAM_LINE_BATCH_NORM_FOLDED;
    return 1;
  }
  if (s->line.kind == VRAM_LINE_ACTIVATION && !l->o.no_fuse && s->node &&
      vram__op_at(s->node->op)->lower == VRAM__LOWER_CLAMP && vram__low_has_bounds(p->line.kind)) {
    s->line.kind = VRAM_LINE_ACTIVATION_FUSED;
    return 1;
  }
  return 0;
}

static void vram__low_fuse(vram__low *l) {
  uint32_t i;
  for (i = 0; i < l->nstep; i++) {
    vram__low_step *s = l->step + i, *p;
    const vram__low_tensor *t = s->count == 1 ? l->tensor + l->in[s->first].tensor : NULL;
    if (!t || t->uses != 1 || t->output || t->step == VRAM__LOW_NO)
      continue;
    p = l->step + t->step;
    if (p->behind == VRAM__LOW_NO && vram__low_fuse_step(l, s, p)) {
      s->fused = 1;
      p->behind = i;
    }
  }
}

/* ---- memory ---- */

static uint64_t vram__low_reads(const vram_graph *g) {
  const vram_node *n;
  uint64_t sum = UINT64_C(4) * VRAM_MAX_NET_LINES;
  for (n = g->first; n; n = n->next)
    sum += n->nin;
  return sum;
}

/* Shares out the memory; in NULL only counts. */
static uint64_t vram__low_share(vram__low *l, const vram_graph *g, uint8_t *mem) {
  const uint64_t value = (uint64_t)g->nvalue * sizeof(vram__low_value),
                 in = vram__low_reads(g) * sizeof(vram__low_in), lines = VRAM_MAX_NET_LINES;
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
  VRAM__LOW_PART(tensor, vram__low_tensor, (lines + g->ninput) * sizeof(vram__low_tensor));
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

/* Every node that the outputs need becomes steps. */
static int vram__low_nodes(vram__low *l) {
  const vram_node *n;
  uint32_t i;
  for (n = l->g->first; n; n = n->next) {
    int need = 0;
    for (i = 0; i < n->nout; i++)
      need |= l->value[n->out[i].index].need;
    if (!need || n->op >= VRAM_OP_COUNT)
      continue;
    if (!vram__low_node(l, n))
      return 0;
    if (n->flags & VRAM__INPLACE) { /* who reads the old value reads the new one */
      const vram__low_value *x = vram__low_of(l, n->in[0]), *y = l->value + n->out[0].index;
      if (x->kind == VRAM__LOW_TENSOR && y->kind == VRAM__LOW_TENSOR && x->at != y->at)
        l->tensor[x->at].instead = y->at;
    }
  }
  return 1;
}

static int vram__low_outputs(vram__low *l) {
  uint32_t i;
  for (l->node = l->g->first; l->node; l->node = l->node->next)
    for (i = 0; i < l->node->nout; i++) {
      const vram_value *v = l->node->out + i;
      const vram__low_value *y;
      if (l->value[v->index].need <= 1)
        continue;
      y = vram__low_of(l, v);
      if (y->kind != VRAM__LOW_TENSOR || l->tensor[y->at].step == VRAM__LOW_NO)
        return vram__low_refuse(l, "the output is the input: no line makes it");
      l->tensor[y->at].output = 1;
    }
  return 1;
}

static int vram__low_lines(vram__low *l) {
  uint32_t i, k = 0;
  for (i = 0; i < l->g->ninput; i++)
    if (l->value[l->g->input[i]->index].need && !vram__low_input_line(l, l->g->input[i], k++))
      return 0;
  for (i = 0; i < l->nstep; i++)
    if (!l->step[i].fused && !vram__low_write(l, l->step + i))
      return 0;
  return vram__low_line(l, VRAM_LINE_END, "", "") != NULL;
}

VRAM_API vram_result vram_net_lower(const vram_graph *g, const vram_net_lower_options *o, void *mem,
                                    uint64_t bytes, vram_net *net, vram_error *err) {
  vram__low l;
  vram_error own;
  const uint64_t all = vram_net_lower_bytes(g);
  uint8_t *base = (uint8_t *)mem;
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
  l.max_in = (uint32_t)vram__low_reads(g);
  l.mem = base + (all - 16 - VRAM_MAX_NET_LINES * (uint64_t)VRAM__LOW_TEXT); /* names come last */
  l.cap = VRAM_MAX_NET_LINES * (uint64_t)VRAM__LOW_TEXT;
  net->name = l.o.name;
  vram__low_need(&l);
  if (!vram__low_inputs(&l) || !vram__low_nodes(&l) || !vram__low_outputs(&l))
    return err->code;
  vram__low_fuse(&l);
  return vram__low_lines(&l) ? VRAM_OK : err->code;
}
