/* >>step/in_backward    optimizers whose steps are made in backward */
#include "step/optim.h"

/* p.grad = None */
static void vram__in_backward_zero_grad(vram__step *s, vram__leaf *l) {
  const uint64_t bytes = vram__dims_bytes_of(l->d, l->dt);
  if (s->leaf.largest < bytes)
    s->leaf.largest = bytes;
  l->let_go = 1;
  vram__tensor_release(s, l->grad);
  l->grad = vram__tensor_none();
}

/* The hook behind an accumulated gradient: the step of an optimizer of this parameter alone, and
   zero_grad(). */
static void vram__in_backward_step(vram__step *s, vram__leaf *l) {
  const uint64_t used = s->used;
  const uint8_t cat = s->cat;
  vram__optim_config c;
  vram__optim_param p;
  vram__optim_bytes b;
  vram__optim_config_of(s, &c);
  vram__optim_param_of(&p, l);
  c.first_step = s->o->first_step && !l->let_go;
  if (!(s->ideal && !c.first_step) && vram__optim_ids_take(s, &c, 1)) {
    vram__optim_step(&c, &p, 1, &b);
    if (b.end == VRAM_OVERFLOW)
      s->failed = VRAM_ERR_OVERFLOW;
    else
      s->r->optimizer_bytes += b.state;
  }
  s->used = used;
  s->cat = cat;
  vram__in_backward_zero_grad(s, l);
}

/* Lomo of lomo_optim 0.1.1: a weight in 16 bits and its gradient are added in f32. */
static void vram__in_backward_lomo(vram__step *s, vram__leaf *l) {
  const uint64_t bytes = 4 * l->d->numel;
  const uint8_t cat = s->cat;
  uint32_t grad, weight;
  if (vram__dtype_size(l->dt) >= 4 || s->ideal)
    vram__in_backward_zero_grad(s, l);
  else {
    grad = vram__optim_alloc(s, bytes, 0);
    vram__in_backward_zero_grad(s, l);
    weight = vram__optim_alloc(s, bytes, 0);
    vram__optim_free(s, grad);
    vram__optim_free(s, weight);
  }
  s->cat = cat;
}

/* Its hook looks for gradients before this one is there: it finds the one before. */
static void vram__in_backward_wait(vram__step *s, vram__leaf *l) {
  vram__in_backward_end(s);
  s->leaf.waiting = (uint32_t)(l - s->leaf.at) + 1;
}

/* Behind backward the last one is left. */
VRAM__FN void vram__in_backward_end(vram__step *s) {
  if (s->leaf.waiting)
    vram__in_backward_lomo(s, s->leaf.at + s->leaf.waiting - 1);
  s->leaf.waiting = 0;
}

VRAM__FN int vram__in_backward_is(const vram_step_options *o) {
  return o->train && (o->optimizer_in_backward || (vram__optim_flags(o) & VRAM__OPTIM_IN_BACKWARD));
}

/* Why these options do not go together, or NULL. */
VRAM__FN const char *vram__in_backward_problem(const vram_graph *g, const vram_step_options *o) {
  if ((uint32_t)o->clip_grad_norm > VRAM_OPTIM_IMPL_LOOP)
    return "clip_grad_norm is neither foreach nor a loop";
  if ((uint32_t)o->ema > VRAM_EMA_TIMM)
    return "unknown averaged weights";
  if (g->nstep &&
      (vram__in_backward_is(o) || o->ema || (vram__optim_flags(o) & VRAM__OPTIM_PROJECTS)))
    return "averaged weights, GaLore and an optimizer in backward go with texts without step lines";
  if (!vram__in_backward_is(o))
    return NULL;
  return o->clip_grad_norm    ? "an optimizer in backward leaves no gradients to clip"
         : o->master_weights  ? "an optimizer in backward has no master weights"
         : o->amp == VRAM_F16 ? "GradScaler steps once behind backward, not in it"
                              : NULL;
}

VRAM__FN void vram__in_backward_begin(vram__step *s) {
  const int lomo = vram__optim_flags(s->o) & VRAM__OPTIM_IN_BACKWARD;
  if (vram__in_backward_is(s->o))
    s->leaf.accumulated = lomo ? vram__in_backward_wait : vram__in_backward_step;
}
