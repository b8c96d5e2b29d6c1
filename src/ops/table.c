/* >>ops/table    the table of ops at run time */
#include "ops/ops.h"

/* The ops in the order of vram_op, then what stands in a graph without being an op. */
#ifdef VRAM__FN_EXTERN
#define VRAM__X(name) extern const vram__op_row vram__op_##name;
VRAM_OPS(VRAM__X)
#undef VRAM__X
#endif

static int vram__shape_none(vram_graph *g, vram_node *n) {
  (void)g, (void)n;
  return 1;
}

#define VRAM__NO_OP(name)                                                                          \
  {                                                                                                \
    name, "", "", vram__shape_none, vram__flops_none, 0, 0, 0, 0, 0, 0, 0,                         \
        0 VRAM__STEP_OF(NULL, NULL), ""                                                            \
  }
static const vram__op_row vram__no_ops[] = {
    VRAM__NO_OP("drop"),          VRAM__NO_OP("keep"),     VRAM__NO_OP("store"),
    VRAM__NO_OP("requires_grad"), VRAM__NO_OP("backward"), VRAM__NO_OP("backward"),
    VRAM__NO_OP("backward"),      VRAM__NO_OP("backward"), VRAM__NO_OP("zero_grad"),
    VRAM__NO_OP("update"),        VRAM__NO_OP("step"),     VRAM__NO_OP("freeze"),
    VRAM__NO_OP("unfreeze"),      VRAM__NO_OP("end")};

static const vram__op_row *const vram__op_rows[] = {
#define VRAM__X(name) &vram__op_##name,
    VRAM_OPS(VRAM__X)
#undef VRAM__X
        & vram__no_ops[0],
    vram__no_ops + 1,
    vram__no_ops + 2,
    vram__no_ops + 3,
    vram__no_ops + 4,
    vram__no_ops + 5,
    vram__no_ops + 6,
    vram__no_ops + 7,
    vram__no_ops + 8,
    vram__no_ops + 9,
    vram__no_ops + 10,
    vram__no_ops + 11,
    vram__no_ops + 12,
    vram__no_ops + 13};

VRAM__FN const vram__op_row *vram__op_at(uint32_t op) { return vram__op_rows[op]; }

VRAM__FN uint32_t vram__op_traits(const vram_node *n) { return vram__op_rows[n->op]->traits; }

/* The axes that an op is named after: 1 for conv1d, 3 for max_pool3d. */
VRAM__FN uint32_t vram__op_axes(const vram_node *n) { return vram__op_rows[n->op]->kind & 7; }

VRAM__FN int vram__op_is_transposed(const vram_node *n) {
  return vram__op_rows[n->op]->kind & VRAM__TRANSPOSED;
}

VRAM_API uint64_t vram_node_flops(const vram_node *n) {
  return n->nout ? vram__op_rows[n->op]->flops(n) : 0;
}

#ifndef VRAM_NO_STEP

/* The node has its op, flags and keys. */
static vram__tensor vram__op_call_node(vram__step *s, vram_node *n, const vram__tensor *in,
                                       const vram_dims *out) {
  vram_value v;
  vram__tensor x[3], y;
  uint32_t i;
  n->nout = 1;
  n->out = &v;
  vram__memory_zero(&v, sizeof v);
  v.d = out;
  for (i = 0; i < n->nin; i++)
    x[i] = in[i];
  vram__forward_op(s, n, x, &y);
  return y;
}

/* Another op of the table, as PyTorch's composite functions call it. out: the result's sizes, for
   ops that take them from the graph. */
VRAM__FN vram__tensor vram__op_call_n(vram__step *s, uint32_t op, const vram__tensor *in,
                                      uint32_t nin, const int64_t *attr, const vram_dims *out) {
  vram_node n;
  vram__memory_zero(&n, sizeof n);
  n.op = (uint16_t)op;
  n.nin = (uint16_t)nin;
  n.attr = attr;
  return vram__op_call_node(s, &n, in, out);
}

/* b.d NULL: a number */
VRAM__FN vram__tensor vram__op_call(vram__step *s, uint32_t op, vram__tensor a, vram__tensor b,
                                    const int64_t *attr) {
  vram__tensor in[2];
  in[0] = a;
  in[1] = b;
  return vram__op_call_n(s, op, in, b.d ? 2 : 1, attr, NULL);
}

/* The same in place. */
VRAM__FN void vram__op_call_in_place(vram__step *s, uint32_t op, vram__tensor *a, vram__tensor b) {
  vram__tensor in[2], y;
  vram_node n;
  vram__memory_zero(&n, sizeof n);
  n.op = (uint16_t)op;
  n.flags = VRAM__INPLACE;
  n.nin = b.d ? 2 : 1;
  in[0] = *a;
  in[1] = b;
  y = vram__op_call_node(s, &n, in, NULL);
  vram__tensor_release(s, *a);
  *a = y;
}

static void vram__backward_scale(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__pointwise_empty2(s, VRAM__SLOTS(f)[0].g, VRAM__SAVED(f)[0]);
}

static void vram__backward_checkpoint(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  s->call.backward(s, f, to);
}

/* ops made of other autograd nodes have no backward of their own */
VRAM__FN void vram__backward_none(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  (void)s, (void)f, (void)to;
}

VRAM__FN void vram__forward_op(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__op_rows[n->op]->forward(s, n, x, y);
}

/* What went into a unit of a wrapper: gradients that did not come are zeros; then the wrapper does
   its own, and they go on. */
VRAM__FN void vram__backward_unit(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t i;
  for (i = 0; i < f->nout; i++) {
    vram__slot *o = VRAM__SLOTS(f) + i;
    if (!o->g.d)
      o->g = vram__tensor_empty(s, vram__dims_contiguous(s, o->d), o->dt);
  }
  s->unit_backward(s, f);
  for (i = 0; i < f->nout; i++) {
    to[i] = VRAM__SLOTS(f)[i].g;
    VRAM__SLOTS(f)[i].g.d = NULL;
  }
}

/* Of records that are no op of the text form: primitives, then variants of pointwise ops. */
static const vram__backward_fn vram__backward_table[] = {
#define VRAM__X(name, backward) vram__backward_##backward,
    VRAM__PRIMITIVES(VRAM__X)
#undef VRAM__X
#define VRAM__X(name, recipe) vram__backward_pointwise,
        VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
};

/* A checkpointed call is recomputed when the first of its tensors is wanted. */
VRAM__FN void vram__saved_unpack(vram__step *s, vram__grad_fn *f) {
  if (f->frame && f->nsaved && !vram__frame_at(s, f->frame)->done)
    s->call.recompute(s, vram__frame_at(s, f->frame));
}

VRAM__FN void vram__refuse_stale(vram__step *s, const vram__grad_fn *f) {
  vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                    "what backward needs was overwritten in place: PyTorch stops with an error "
                    "(modified by an inplace operation)");
}

/* SavedVariable::unpack: has what f saved been overwritten since? */
static int vram__saved_is_stale(vram__step *s, vram__grad_fn *f) {
  const uint32_t at = vram__grad_fn_index(s, f);
  uint32_t i;
  if (f->frame || f->kind == VRAM__K_checkpoint) /* look themselves */
    return 0;
  for (i = 0; i < f->nsaved; i++)
    if (VRAM__SAVED(f)[i].st && vram__slot_at(s, VRAM__SAVED(f)[i].st)->writes > at) {
      vram__refuse_stale(s, f);
      return 1;
    }
  return 0;
}

static inline void vram__backward_run(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  if (f->kind < VRAM_OP_COUNT)
    vram__op_rows[f->kind]->backward(s, f, to);
  else
    vram__backward_table[f->kind - VRAM_OP_COUNT](s, f, to);
}

/* Does no gradient of f go anywhere? */
static int vram__backward_is_idle(vram__grad_fn *f) {
  uint32_t i = 0;
  while (i < f->nin && !VRAM__EDGES(f)[i].fn)
    i++;
  return f->nin && i == f->nin;
}

/* The same where what f saved may be overwritten, or is to be recomputed. */
static VRAM__APART void vram__backward_checked(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t i;
  if (s->tape.stale && vram__saved_is_stale(s, f))
    return;
  vram__saved_unpack(s, f);
  if (s->failed)
    return;
  if (!vram__backward_is_idle(f))
    vram__backward_run(s, f, to);
  /* recomputed tensors are variables of the record's function: they go when it has run, not when it
     is released, and from the last one to the first */
  for (i = f->frame ? f->nsaved : 0; i-- > 0;) {
    vram__tensor *const t = VRAM__SAVED(f) + (vram__saves_list(f) ? f->nsaved - 1 - i : i);
    if (t->st) {
      vram__storage_release(s, t->st);
      t->st = 0;
    }
  }
}

VRAM__FN void vram__backward_any(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  if (s->tape.stale || f->frame)
    vram__backward_checked(s, f, to);
  else
    vram__backward_run(s, f, to);
}

#endif /* VRAM_NO_STEP */

VRAM_API const char *vram_op_name(uint32_t op) {
  return op <= VRAM__OP_end ? vram__op_at(op)->name : "?";
}

VRAM_API void vram_op_get_info(vram_op op, vram_op_info *info) {
  static const char *const list[] = {"", "low", "fp32", "fp32", "widest"};
  const vram__op_row *r;
  vram__memory_zero(info, sizeof *info);
  if ((uint32_t)op >= VRAM_OP_COUNT)
    return;
  r = vram__op_at((uint32_t)op);
  info->name = r->name;
  info->torch = r->torch;
  info->keys = r->keys;
  info->recipe = r->recipe;
  info->autocast = list[r->autocast];
  info->least = r->least;
  info->most = r->most;
}
