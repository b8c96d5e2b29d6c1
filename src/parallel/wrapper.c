/* >>parallel/wrapper    which wrapper does what, and when */
#include "parallel/parallel.h"

/* A buffer of the wrapper's own: its slot. */
VRAM__FN uint32_t vram__buffer_new(vram__step *s, uint64_t bytes, uint8_t cat) {
  const uint8_t old = s->cat;
  uint32_t slot;
  s->cat = cat;
  slot = vram__storage_new(s, bytes);
  s->cat = old;
  return slot;
}

VRAM__FN uint32_t vram__buffer_new_on(vram__step *s, uint64_t bytes, uint8_t cat, uint8_t stream) {
  const uint8_t old = s->stream;
  uint32_t slot;
  s->stream = stream;
  slot = vram__buffer_new(s, bytes, cat);
  s->stream = old;
  return slot;
}

VRAM__FN void vram__buffer_free(vram__step *s, uint32_t *slot) {
  vram__slot_release(s, *slot);
  *slot = 0;
}

VRAM__FN void vram__buffer_briefly(vram__step *s, uint64_t bytes) {
  vram__slot_release(s, vram__buffer_new(s, bytes, VRAM_CATEGORY_TEMPORARIES));
}

/* Partial results of a reduction of all elements, accumulated in `acc` bytes. */
VRAM__FN void vram__reduction_briefly(vram__step *s, uint64_t numel, vram_dtype dtype,
                                      uint32_t acc) {
  const int64_t size = (int64_t)numel;
  vram__tensor x = vram__tensor_none();
  x.d = vram__dims_in(s, 1, &size, NULL);
  x.dt = dtype;
  s->cat = VRAM_CATEGORY_TEMPORARIES;
  vram__reduce_scratch(s, x, 1, dtype, acc, 4);
}

/* One that was there before the step; block: of the replay. */
VRAM__FN uint32_t vram__buffer_existing(vram__step *s, uint64_t bytes, uint8_t cat,
                                        uint32_t block) {
  const int64_t size = (int64_t)bytes;
  const uint32_t slot =
      vram__leaf_existing_gradient(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8, cat).st;
  if (slot && s->replay)
    vram__slot_at(s, slot)->block = block;
  return slot;
}

/* Fills in the hooks of the wrapper of these options; 0: there is none. */
VRAM__FN int vram__wrapper_of(const vram_step_options *o, vram__wrapper *w) {
  vram__memory_zero(w, sizeof *w);
  if (!o || !o->parallel)
    return 0;
  switch (o->parallel->wrapper) {
  case VRAM_WRAPPER_DDP:
    vram__ddp_hooks(o, w);
    return 1;
  case VRAM_WRAPPER_ZERO1:
    vram__zero_hooks(o, w);
    return 1;
  case VRAM_WRAPPER_DS1:
  case VRAM_WRAPPER_DS2:
    vram__ds_hooks(w);
    return 1;
  case VRAM_WRAPPER_DS3:
    vram__ds3_hooks(w);
    return 1;
  case VRAM_WRAPPER_FSDP1:
    vram__fsdp1_wrapper(o, w);
    return 1;
  case VRAM_WRAPPER_FSDP2:
    vram__fsdp_wrapper(w);
    if (vram__pipe_is(o))
      vram__staged_hooks(w);
    return 1;
  default:
    return o->parallel->wrapper != VRAM_WRAPPER_NONE;
  }
}

/* Why DTensors cannot have this optimizer, or NULL. */
static const char *vram__shard_refuses(const vram_graph *g, const vram_step_options *o) {
  static const uint8_t known[] = {VRAM_OPTIM_sgd,   VRAM_OPTIM_sgd_momentum,
                                  VRAM_OPTIM_adam,  VRAM_OPTIM_adam_amsgrad,
                                  VRAM_OPTIM_adamw, VRAM_OPTIM_adamw_amsgrad};
  const vram_param *p;
  uint32_t i = 0, plain = 0, all = 0;
  for (p = g->param_first; p; p = p->next)
    if (p->kind == VRAM__PARAM) {
      all++;
      plain += !p->is_dtensor;
    }
  if (!o->train || plain == all) /* experts are plain tensors */
    return NULL;
  while (i < sizeof known && known[i] != (uint8_t)o->optimizer)
    i++;
  if (i == sizeof known || (o->weight_decay && i < 4) || o->master_weights ||
      o->optimizer_in_backward || o->ema || o->amp == VRAM_F16)
    return "of DTensors the steps of sgd, adam and adamw are known, without weight decay in the "
           "gradient, --master-weights, --ema, --optimizer-in-backward and fp16 autocast";
  if (o->clip_grad_norm && plain)
    return "aten._foreach_norm.Scalar got mixed torch.Tensor and DTensor, need to convert all "
           "torch.Tensor to DTensor before calling distributed operators! (sp=1 has DTensors only)";
  if (o->clip_grad_norm == VRAM_OPTIM_IMPL_LOOP)
    return "clip_grad_norm_ of DTensors is known with foreach";
  return NULL;
}

/* What no rank can begin with, or NULL; *found: the words of that. */
VRAM__FN const char *vram__wrapper_refuses(const vram_graph *g, const vram_step_options *o,
                                           vram_words *found) {
  vram__wrapper w;
  if (g->is_cut && vram__shard_refuses(g, o))
    return vram__shard_refuses(g, o);
  if (!o->parallel)
    return NULL;
  if ((uint32_t)o->parallel->wrapper >= VRAM_WRAPPER_COUNT)
    return "unknown wrapper";
  if (o->parallel->rank >= vram_parallel_world(o->parallel))
    return "a rank that the world does not have";
  if ((o->parallel->units.text || o->parallel->wrapper == VRAM_WRAPPER_FSDP2 ||
       o->parallel->wrapper == VRAM_WRAPPER_FSDP1) &&
      !vram__units_known(g, o->parallel->units)) {
    *found = o->parallel->units;
    if (!found->text) {
      found->text = g->unit_first->text;
      found->len = g->unit_first->len;
    }
    return o->parallel->units.text ? "units: no name of this model begins so (expected auto, root, "
                                     "or a pattern of names: layers.\\d)"
                                   : "unit lines: no module of this model has one of these names";
  }
  if (o->parallel->tp > 1 && !g->is_cut)
    return "a whole graph with tensor parallelism (expected what vram_parallel_cut makes of it)";
  if (o->parallel->ep > 1 && !g->is_cut)
    return "a whole graph with expert parallelism (expected what vram_parallel_cut makes of it)";
  if (o->parallel->ep > 1 && (o->parallel->ep != o->parallel->dp || o->parallel->tp > 1 ||
                              o->parallel->wrapper != VRAM_WRAPPER_DDP))
    return "ep goes with ddp over the same ranks, without tp";
  if (o->parallel->cp > 1 && !g->context)
    return "a whole graph with context parallelism (expected what vram_parallel_cut makes of it)";
  if (o->parallel->cp > 1 && o->parallel->wrapper >= VRAM_WRAPPER_DS1)
    return "DeepSpeed inside context_parallel is not played yet";
  if (o->parallel->cp > 1 && (o->parallel->tp > 1 || o->parallel->pp > 1 || o->parallel->ep > 1))
    return VRAM__CONTEXT_ALONE;
  if (o->parallel->cp > 1 && vram_parallel_world(o->parallel) > UINT32_MAX)
    return "more than 2^32-1 ranks";
  if (!vram__wrapper_of(o, &w))
    return NULL;
  if (!w.construct)
    return "this wrapper is not played yet";
  return w.refuses ? w.refuses(g, o) : NULL;
}
