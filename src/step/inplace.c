/* >>step/inplace    which activations may overwrite what they are given
   A step is played whose activations write in place wherever, at that moment, nobody else has their
   input: no record of autograd has saved it, no name or view leads to it, no line reads it later.
 */
#include "step/step.h"

struct vram__inplace {
  uint32_t *from; /* by node: the node that made its input, + 1, if it is in place now; else 0 */
  uint32_t *last; /* by value: the line that reads it last; UINT32_MAX: the caller does */
  vram_inplace *to;
};

/* That a variable still names a value (`drop`) is no reading of it. */
static void vram__inplace_last_reads(const vram_graph *g, uint32_t *last) {
  const vram_node *n;
  uint32_t i;
  vram__ranges_last_uses(g, last);
  for (n = g->first; n; n = n->next)
    for (i = 0;
         n->op >= VRAM_OP_COUNT && n->op != VRAM__OP_drop && n->op != VRAM__OP_end && i < n->nin;
         i++)
      last[n->in[i]->index] = UINT32_MAX;
}

/* Does a line behind n read v, or what has the same storage by another name? */
static int vram__inplace_is_read(const vram__step *s, const vram_node *n, const vram_value *v) {
  const uint32_t *const last = s->inplace->last, name = s->name_of[v->index];
  uint32_t i;
  if (last[v->index] != n->index)
    return 1;
  for (i = 0; s->variable[name].refs != 1 && i < n->out[0].index; i++)
    if (s->name_of[i] == name && last[i] > n->index)
      return 1;
  return 0;
}

/* Activations whose modules have `inplace`. */
static int vram__inplace_may(const vram_node *n) {
  switch (n->op) {
  case VRAM_OP_relu:
  case VRAM_OP_relu6:
  case VRAM_OP_hardtanh:
  case VRAM_OP_leaky_relu:
  case VRAM_OP_elu:
  case VRAM_OP_celu:
  case VRAM_OP_selu:
  case VRAM_OP_silu:
  case VRAM_OP_mish:
  case VRAM_OP_hardsigmoid:
  case VRAM_OP_hardswish:
  case VRAM_OP_threshold:
  case VRAM_OP_rrelu:
    return n->nin == 1;
  default:
    return 0;
  }
}

/* What autograd saves is the input as it was: a copy is made where it is overwritten. */
static int vram__inplace_copies(vram__step *s, const vram_node *n, vram__tensor x) {
  const uint32_t plan = n->op == VRAM_OP_rrelu ? 0 : vram__recipe_plan(s, n->op, 1);
  return s->grad && !(n->flags & VRAM__NO_GRAD) && vram__tensor_wants_grad(s, x) &&
         ((plan | plan >> 15) & 1);
}

/* n is about to run on x, which is not overwritten yet. */
VRAM__FN void vram__inplace_ask(vram__step *s, const vram_node *n, vram__tensor x) {
  struct vram__inplace *const p = s->inplace;
  vram_node *const own = (vram_node *)(uintptr_t)n; /* of the caller's graph */
  const vram_value *v = n->nin ? n->in[0] : NULL;
  const vram__storage *st = vram__slot_at(s, x.st & VRAM__LEAF ? 0 : x.st);
  vram_in_place why = VRAM_IN_PLACE_MADE;
  if (!vram__inplace_may(n) || p->from[n->index])
    return;
  if (n->flags & VRAM__INPLACE)
    why = VRAM_IN_PLACE_WAS;
  else if (!v->node || vram__step_is_captured(v) || !x.st || (x.st & VRAM__LEAF) ||
           x.st <= VRAM__OWN_BUFFERS || st->base != x.st || st->shown || !st->node)
    why = VRAM_IN_PLACE_VIEW;
  else if (vram__inplace_is_read(s, n, v))
    why = VRAM_IN_PLACE_READ;
  else if (st->saved || st->refs != 1 || st->srefs != 1)
    why = VRAM_IN_PLACE_SAVED;
  else if (vram__inplace_copies(s, n, x))
    why = VRAM_IN_PLACE_COPY;
  p->to->count[why]++;
  p->from[n->index] = why == VRAM_IN_PLACE_MADE ? st->node->index + 1 : UINT32_MAX;
  if (why == VRAM_IN_PLACE_MADE)
    own->flags |= VRAM__INPLACE | VRAM__WRITES | VRAM__MADE_INPLACE;
}

/* The call of checkpoint() around n begins with its input, which backward reads once more. */
static int vram__inplace_crosses(const vram__step *s, const vram_node *n, uint32_t maker) {
  uint32_t i;
  for (i = 0; i < s->call.nrange; i++)
    if (n->index >= s->call.range[i].first->index && n->index <= s->call.range[i].last->index &&
        maker < s->call.range[i].first->index)
      return 1;
  return 0;
}

static void vram__inplace_undo(vram_node *n) {
  if (vram_node_was_made_inplace(n))
    n->flags &= (uint8_t) ~(VRAM__INPLACE | VRAM__WRITES | VRAM__MADE_INPLACE);
}

static vram_result vram__inplace_bound(vram_graph *g, const vram_step_options *o, uint32_t *from,
                                       void *scratch, uint64_t bytes, vram_inplace *to) {
  vram__step s;
  vram_report report;
  vram_node *n;
  vram_result r;
  if (!o->train || (!o->ncheckpoint && o->checkpoint_segments < 2 && !g->ncheckpoint))
    return VRAM_OK;
  vram__memory_zero(&s, sizeof s);
  r = vram__step_set_up(g, o, scratch, bytes, &report, &s, 0);
  for (n = r ? NULL : g->first; n; n = n->next)
    if (vram_node_was_made_inplace(n) && vram__inplace_crosses(&s, n, from[n->index] - 1)) {
      vram__inplace_undo(n);
      to->count[VRAM_IN_PLACE_MADE]--;
      to->count[VRAM_IN_PLACE_READ]++;
    }
  return r;
}

/* What wrappers hand into modules are views of what they were given. */
static int vram__inplace_is_wrapped(const vram_step_options *o) {
  const vram_wrapper w = o->parallel ? o->parallel->wrapper : VRAM_WRAPPER_NONE;
  return vram__pipe_is(o) ||
         (w != VRAM_WRAPPER_NONE && w != VRAM_WRAPPER_DDP && w != VRAM_WRAPPER_ZERO1);
}

static uint64_t vram__inplace_own(const vram_graph *g) {
  return (((uint64_t)g->nnode + g->nvalue) * sizeof(uint32_t) + 15) / 8 * 8;
}

VRAM_API uint64_t vram_graph_inplace_bytes(const vram_graph *g, const vram_step_options *o) {
  return vram__sum_or_overflow(vram_step_bytes(g, o), 8 + vram__inplace_own(g));
}

VRAM_API vram_result vram_graph_inplace(vram_graph *g, const vram_step_options *o, void *scratch,
                                        uint64_t bytes, vram_inplace *to, vram_error *err) {
  const uint64_t own = vram__inplace_own(g);
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  uint8_t *rest;
  struct vram__inplace p;
  vram_step_options probe = *o;
  vram_graph flat = *g;
  vram_report report;
  vram__step s;
  vram_node *n;
  vram_result r = VRAM_OK;
  vram__memory_zero(&s, sizeof s);
  vram__memory_zero(to, sizeof *to);
  if (vram__inplace_is_wrapped(o))
    return vram__error_begin(err, VRAM_ERR_UNSUPPORTED, 0,
                             "activations in place are played on one device, under "
                             "DistributedDataParallel and ZeroRedundancyOptimizer");
  if (!scratch || bytes < skip + own)
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0, "scratch is too small");
  rest = (uint8_t *)scratch + skip + own;
  probe.checkpoint = NULL;
  probe.ncheckpoint = probe.checkpoint_segments = probe.accumulate = 0;
  probe.replay = NULL;
  probe.parallel = NULL;
  probe.nodes = NULL;
  probe.event = NULL;
  probe.ema = VRAM_EMA_NONE;
  probe.last_batch = probe.evaluation = probe.dry_run = NULL;
  flat.checkpoint_first = flat.checkpoint_last = NULL;
  flat.ncheckpoint = flat.checkpoint_nested = 0;
  s.problem = vram__step_misuse(&s, g, o, &r);
  p.from = (uint32_t *)(void *)((uint8_t *)scratch + skip);
  p.to = to;
  p.last = p.from + g->nnode;
  vram__memory_zero(p.from, own);
  vram__inplace_last_reads(g, p.last);
  s.inplace = &p;
  if (!s.problem)
    r = vram__step_run(&flat, &probe, rest, bytes - skip - own, &report, &s, 0);
  if (!r)
    r = vram__inplace_bound(g, o, p.from, rest, bytes - skip - own, to);
  for (n = r ? g->first : NULL; n; n = n->next)
    vram__inplace_undo(n);
  vram__step_error(&s, r, err);
  return r;
}

VRAM_API const char *vram_in_place_text(vram_in_place why) {
  static const char *const means[] = {
#define VRAM__X(id, name, text) text,
      VRAM_IN_PLACES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)why < VRAM_IN_PLACE_COUNT ? means[why] : "?";
}

VRAM_API const char *vram_in_place_name(vram_in_place why) {
  static const char *const name[] = {
#define VRAM__X(id, word, text) word,
      VRAM_IN_PLACES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)why < VRAM_IN_PLACE_COUNT ? name[why] : "?";
}

VRAM_API int vram_node_was_made_inplace(const vram_node *n) {
  return vram__inplace_may(n) && (n->flags & VRAM__MADE_INPLACE) != 0; /* convolutions share it */
}
