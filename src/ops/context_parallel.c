/* >>ops/context_parallel    context_parallel: what of a step's inputs and of a module's buffers is
   cut along the sequence, in place (torch/distributed/tensor/experimental/_context_parallel) */
#include "ops/ops.h"

static int vram__shape_context_parallel(vram_graph *g, vram_node *n) {
  const int64_t ranks = VRAM__INT(n, ranks, 1);
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, k, a, count;
  const int64_t *dims = vram__node_list(n, VRAM__KEY_dims, &count);
  if (ranks < 1 || ranks > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "ranks is out of range");
  if (g->context)
    return vram__node_error(g, n, "a second context");
  if (count != n->nin || n->nout != n->nin)
    return vram__node_error(g, n, "dims must name an axis of each tensor, which has one output");
  for (i = 0; i < n->nin; i++) {
    const vram_dims *d = n->in[i]->d;
    if ((n->in[i]->node && n->in[i]->node->op != VRAM_OP_buffer) || (n->in[i]->flags & VRAM__GRAD))
      return vram__node_error(g, n, "a context cuts inputs without a gradient, and buffers");
    if (!vram__axis(g, dims[i], d->ndim, &a))
      return 0;
    if (!d->ndim || d->v[a] % (ranks * (VRAM__INT(n, load_balance, 0) ? 2 : 1)))
      return vram__node_error(g, n, "a sequence that the ranks do not divide");
    for (k = 0; k < d->ndim; k++)
      size[k] = k == a ? d->v[k] / ranks : d->v[k];
    if (!vram__node_out(g, n, i, d->ndim, size, n->in[i]->dtype))
      return 0;
  }
  g->context = n;
  g->extra += (n->nin * UINT64_C(3) + g->ninput) * sizeof(vram_dims);
  return 1;
}

#ifndef VRAM_NO_STEP

/* What a tensor is on the device: an input, or a buffer of the module. */
static vram__tensor vram__context_buffer(const vram__step *s, const vram_value *v) {
  return v->node ? s->param[v->node->param[0]->index] : s->variable[s->name_of[v->index]].t;
}

/* no_restore_buffers: the inputs of a step. */
static int vram__context_restores(const vram_value *v) { return v->node != NULL; }

/* _HeadTailLoadBalancer._generate_indices */
static vram__tensor vram__context_indices(vram__step *s, int64_t length, int64_t ranks) {
  const int64_t half = length / 2;
  const vram_dims *all = vram__dims_in(s, 1, &length, NULL),
                  *each = vram__dims_in(s, 1, &ranks, NULL),
                  *part = vram__dims_in(s, 1, &half, NULL);
  const vram__tensor indices = vram__tensor_empty(s, all, VRAM_I32),
                     head = vram__tensor_empty(s, each, VRAM_I64),
                     tail = vram__tensor_empty(s, each, VRAM_I64),
                     first = vram__tensor_empty(s, part, VRAM_I32),
                     second = vram__tensor_empty(s, part, VRAM_I32),
                     paired = vram__tensor_empty(s, all, VRAM_I32);
  vram__tensor_release(s, second);
  vram__tensor_release(s, first);
  vram__tensor_release(s, indices);
  vram__tensor_release(s, head);
  vram__tensor_release(s, tail);
  return paired;
}

/* with context_parallel(mesh, buffers=..): before the module is called. What its frame holds until
   its end goes in this order: copies of what is restored, shards, the last shard's clone, and the
   copy of the last buffer, which a loop has been at. */
VRAM__FN void vram__context_enter(vram__step *s) {
  const vram_node *n = s->g->context;
  const int balanced = VRAM__INT(n, load_balance, 0) != 0;
  const uint32_t count = n->nin, last = count - 1;
  vram__tensor indices = vram__tensor_none(), *held, t;
  uint32_t i, copies = 0, a;
  for (i = 0; i < last; i++)
    copies += (uint32_t)vram__context_restores(n->in[i]);
  held = s->context_held;
  for (i = 0; i < 2 * count + 1; i++)
    held[i] = vram__tensor_none();
  s->ncontext = copies + count + 2;
  for (i = 0, a = copies; i < count; i++)
    if (vram__context_restores(n->in[i])) {
      t = vram__context_buffer(s, n->in[i]);
      held[i == last ? s->ncontext - 1 : --a] =
          vram__tensor_empty(s, vram__dims_dense(s, t.d), t.dt);
    }
  vram__axis((vram_graph *)0, vram__node_list(n, VRAM__KEY_dims, NULL)[0], n->in[0]->d->ndim, &a);
  if (balanced)
    indices = vram__context_indices(s, n->in[0]->d->v[a], VRAM__INT(n, ranks, 1));
  for (i = 0; i < count; i++) { /* _context_parallel_buffers */
    vram__tensor whole = vram__tensor_none();
    t = vram__context_buffer(s, n->in[i]);
    if (balanced)
      whole = vram__tensor_empty(s, vram__dims_contiguous(s, t.d), t.dt);
    held[copies + last - i] = vram__tensor_empty(s, vram__dims_contiguous(s, n->out[i].d), t.dt);
    vram__tensor_release(s, whole);
  }
  vram__tensor_release(s, indices);
  for (i = 0; i < count; i++) {
    t = held[copies + last - i];
    vram__tensor_replace(s, &held[copies + count], vram__tensor_none());
    held[copies + count] = vram__tensor_empty(s, t.d, t.dt);
  }
}

/* What a parameter or buffer of the module is for now. */
VRAM__FN const vram_dims *vram__context_dims(const vram__step *s, const vram_param *p) {
  const vram_node *n = s->ncontext ? s->g->context : NULL;
  uint32_t i;
  for (i = 0; n && i < n->nin; i++)
    if (n->in[i]->node && n->in[i]->node->param[0] == p)
      return n->out[i].d;
  return p->d;
}

/* The context's end. */
VRAM__FN void vram__context_leave(vram__step *s) {
  uint32_t i;
  for (i = 0; i < s->ncontext; i++)
    vram__tensor_release(s, s->context_held[i]);
  s->ncontext = 0;
}

/* A batch that is cut in place is a new one each time: it is made before the one before goes. */
VRAM__FN void vram__context_inputs(vram__step *s) {
  const uint8_t old = s->cat;
  vram__tensor *const before = s->context_held;
  uint32_t i;
  s->cat = VRAM_CATEGORY_INPUTS;
  for (i = 0; i < s->g->ninput; i++) {
    vram__variable *v = s->variable + s->name_of[s->g->input[i]->index];
    before[i] = v->t;
    if (!(s->g->input[i]->flags & VRAM__GRAD))
      v->t = vram__tensor_empty(s, v->t.d, v->t.dt);
  }
  for (i = s->g->ninput; i-- > 0;)
    if (!(s->g->input[i]->flags & VRAM__GRAD))
      vram__tensor_release(s, before[i]);
  s->cat = old;
}

/* The tensors as they are inside: the first rows of their storages. */
static void vram__forward_context_parallel(vram__step *s, const vram_node *n, vram__tensor *x,
                                           vram__tensor *y) {
  uint32_t i;
  for (i = 0; i < n->nin; i++)
    y[i] = vram__tensor_view(s, x[i], n->out[i].d);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(context_parallel, "", 1, 4096, context_parallel, SAME, none, context_parallel, none, none,
         NONE, 0, VRAM__OP_ANY_DTYPE, "ranks! dims! load_balance");
