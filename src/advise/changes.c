/* >>advise/changes    what may be changed about a step, a row each */
#include "advise/advise.h"

enum {
  VRAM__OF_GRADIENTS,
  VRAM__OF_INPUTS,
  VRAM__OF_ALLOCATOR,
  VRAM__OF_CUDNN,
  VRAM__OF_MODULES,
  VRAM__OF_IMPL,
  VRAM__OF_HOOKS,
  VRAM__OF_BATCH,
  VRAM__OF_DEVICES,
  VRAM__OF_CHECKPOINTS,
  VRAM__OF_PRECISION,
  VRAM__OF_OPTIMIZER,
  VRAM__OF_ADAPTERS,
  VRAM__OF_ATTENTION,
  VRAM__OF_ACTIVATIONS,
  VRAM__OF_LOGITS,
  VRAM__OF_SIZES
};

enum { VRAM__DEVICES_MORE = 16 };

static void vram__change_word(vram_alternative *c, const char *text) {
  uint32_t n = vram__text_len(c->options);
  vram__text_puts(c->options, sizeof c->options, &n, text);
}

static void vram__change_number(vram_alternative *c, const char *text, int64_t v) {
  uint32_t n = vram__text_len(c->options);
  vram__text_puts(c->options, sizeof c->options, &n, text);
  vram__text_puti(c->options, sizeof c->options, &n, v);
}

static void vram__change_torch(vram_alternative *c, const char *before, int64_t v,
                               const char *behind) {
  uint32_t n = vram__text_len(c->torch);
  vram__text_puts(c->torch, sizeof c->torch, &n, before);
  vram__text_puti(c->torch, sizeof c->torch, &n, v);
  vram__text_puts(c->torch, sizeof c->torch, &n, behind);
}

/* In front of the lines of the row. */
static void vram__change_line_before(vram_alternative *c, const char *line) {
  char rest[sizeof c->torch];
  uint32_t n = 0;
  vram__memory_copy(rest, c->torch, sizeof rest);
  vram__text_puts(c->torch, sizeof c->torch, &n, line);
  vram__text_puts(c->torch, sizeof c->torch, &n, rest);
}

static void vram__change_lines(vram_alternative *c, const char *lines) {
  uint32_t n = 0;
  c->torch[0] = 0;
  vram__text_puts(c->torch, sizeof c->torch, &n, lines);
}

static const char vram__not_training[] = "nothing is trained";

/* ---- the same numbers ---- */

static const char *vram__change_set_to_none(const vram__advised_now *now, vram__advised *x,
                                            int64_t arg, vram_alternative *c) {
  static const char *const word[] = {"--keep-grads", "--zero-grad-late", "--zero-grad-end"};
  int *const flag[] = {&x->step.keep_grads, &x->step.zero_grad_late, &x->step.zero_grad_end};
  (void)now;
  if (!x->step.train)
    return vram__not_training;
  if (!*flag[arg])
    return arg ? "gradients go before the next forward pass already"
               : "zero_grad() sets gradients to None already";
  *flag[arg] = 0;
  if (c)
    c->without = word[arg];
  return NULL;
}

static const char *vram__change_prefetch(const vram__advised_now *now, vram__advised *x,
                                         int64_t arg, vram_alternative *c) {
  (void)now, (void)arg;
  if (!x->step.prefetch)
    return "no batches wait on the device";
  x->step.prefetch = 0;
  if (c)
    c->without = "--prefetch";
  return NULL;
}

static const char *vram__change_expandable(const vram__advised_now *now, vram__advised *x,
                                           int64_t arg, vram_alternative *c) {
  (void)now, (void)arg;
  if (!x->step.replay)
    return "no allocator is replayed";
  if (x->pool.expandable_segments)
    return "segments are expandable already";
  x->pool.expandable_segments = 1;
  if (c)
    vram__change_word(c, " --alloc-conf expandable_segments:True");
  return NULL;
}

static const char *vram__change_cudnn(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                      vram_alternative *c) {
  (void)now, (void)arg;
  if (x->step.cudnn != VRAM_CUDNN_BENCHMARK)
    return "cuDNN does not try its algorithms";
  x->step.cudnn = VRAM_CUDNN_EXPECTED;
  if (c)
    c->without = "--cudnn";
  return NULL;
}

static const char *vram__change_modules(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                        vram_alternative *c) {
  (void)now, (void)arg;
  if (!x->step.eager_modules)
    return "kernels are loaded when they first run already";
  x->step.eager_modules = 0;
  if (c)
    c->without = "--modules";
  return NULL;
}

/* The optimizer as PyTorch, bitsandbytes or timm make it; how: further arguments. */
static void vram__change_torch_optimizer(vram_alternative *c, const vram_step_options *o,
                                         const char *before, const char *what, const char *how) {
  static const struct {
    uint8_t optimizer;
    const char *call, *more;
  } rows[] = {{VRAM_OPTIM_sgd, "torch.optim.SGD", ", lr=lr"},
              {VRAM_OPTIM_sgd_momentum, "torch.optim.SGD", ", lr=lr, momentum=0.9"},
              {VRAM_OPTIM_sgd_nesterov, "torch.optim.SGD", ", lr=lr, momentum=0.9, nesterov=True"},
              {VRAM_OPTIM_adam, "torch.optim.Adam", ""},
              {VRAM_OPTIM_adam_amsgrad, "torch.optim.Adam", ", amsgrad=True"},
              {VRAM_OPTIM_adamw, "torch.optim.AdamW", ""},
              {VRAM_OPTIM_adamw_amsgrad, "torch.optim.AdamW", ", amsgrad=True"},
              {VRAM_OPTIM_adagrad, "torch.optim.Adagrad", ""},
              {VRAM_OPTIM_rmsprop, "torch.optim.RMSprop", ""},
              {VRAM_OPTIM_rmsprop_momentum, "torch.optim.RMSprop", ", momentum=0.9"},
              {VRAM_OPTIM_rmsprop_centered, "torch.optim.RMSprop", ", centered=True"},
              {VRAM_OPTIM_rmsprop_centered_momentum, "torch.optim.RMSprop",
               ", momentum=0.9, centered=True"},
              {VRAM_OPTIM_adadelta, "torch.optim.Adadelta", ""},
              {VRAM_OPTIM_adamax, "torch.optim.Adamax", ""},
              {VRAM_OPTIM_nadam, "torch.optim.NAdam", ""},
              {VRAM_OPTIM_radam, "torch.optim.RAdam", ""},
              {VRAM_OPTIM_asgd, "torch.optim.ASGD", ""},
              {VRAM_OPTIM_rprop, "torch.optim.Rprop", ""},
              {VRAM_OPTIM_adafactor, "torch.optim.Adafactor", ""},
              {VRAM_OPTIM_muon, "torch.optim.Muon", ""}};
  uint32_t i = 0, n = vram__text_len(c->torch);
  while (i < sizeof rows / sizeof *rows && rows[i].optimizer != (uint32_t)o->optimizer)
    i++;
  vram__text_puts(c->torch, sizeof c->torch, &n, before);
  vram__text_puts(c->torch, sizeof c->torch, &n,
                  i < sizeof rows / sizeof *rows ? rows[i].call : "your_optimizer");
  vram__text_puts(c->torch, sizeof c->torch, &n, "(");
  vram__text_puts(c->torch, sizeof c->torch, &n, what);
  vram__text_puts(c->torch, sizeof c->torch, &n,
                  i < sizeof rows / sizeof *rows ? rows[i].more : "");
  vram__text_puts(c->torch, sizeof c->torch, &n, how);
}

static const char *vram__change_impl(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                     vram_alternative *c) {
  const vram_optim_impl impl = (vram_optim_impl)arg;
  vram_optimizer_info info;
  if (!x->step.train)
    return vram__not_training;
  if (x->step.optimizer_in_backward)
    return "the optimizer runs in backward";
  if (x->step.optimizer != now->o->step.step.optimizer)
    return "the other optimizer runs as it does";
  if (!vram_optimizer_get_info(x->step.optimizer, &info) || !info.step[arg])
    return "the optimizer does not run so";
  if (x->step.optim_impl == impl)
    return "the optimizer runs so already";
  x->step.optim_impl = impl;
  if (c)
    vram__change_word(c,
                      impl == VRAM_OPTIM_IMPL_FUSED ? " --optim-impl fused" : " --optim-impl loop");
  if (c)
    vram__change_torch_optimizer(c, &x->step, "optimizer = ", "model.parameters()",
                                 impl == VRAM_OPTIM_IMPL_FUSED ? ", fused=True)"
                                                               : ", foreach=False)");
  return NULL;
}

static const char *vram__change_hooks(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                      vram_alternative *c) {
  (void)now, (void)arg;
  if (!x->step.train)
    return vram__not_training;
  if (x->step.optimizer_in_backward)
    return "the optimizer runs in backward already";
  if (x->step.accumulate > 1)
    return "gradients of several micro-batches are added up";
  if (x->step.clip_grad_norm)
    return "the norm of all gradients is wanted before the optimizer";
  x->step.optimizer_in_backward = 1;
  if (c)
    vram__change_word(c, " --optimizer-in-backward");
  if (c)
    vram__change_torch_optimizer(c, &x->step, "opt = {p: ", "[p]",
                                 ") for p in model.parameters() if p.requires_grad}\n"
                                 "def hook(p): opt[p].step(); opt[p].zero_grad()\n"
                                 "for p in opt: p.register_post_accumulate_grad_hook(hook)");
  return NULL;
}

static void vram__advised_set(const vram__advised_now *now, vram__advised *x, uint32_t dim,
                              int64_t value) {
  uint32_t i = 0;
  while (i < x->nset && (x->set[i].name ? !vram__text_is(now->g->dim[dim].name,
                                                         now->g->dim[dim].len, x->set[i].name)
                                        : dim != 0))
    i++;
  if (i == VRAM_MAX_DIMS)
    return;
  if (i == x->nset) {
    x->nset++;
    x->set[i].name = dim ? now->g->dim[dim].name : NULL;
  }
  x->set[i].value = value;
}

VRAM__FN int64_t vram__advised_batch(const vram__advised_now *now, const vram__advised *x) {
  uint32_t i = 0;
  if (!now->g->ndim)
    return 0;
  while (i < x->nset && x->set[i].name &&
         !vram__text_is(now->g->dim[0].name, now->g->dim[0].len, x->set[i].name))
    i++;
  return i < x->nset ? x->set[i].value : now->g->dim[0].value;
}

/* Where batch norm is, a smaller batch at once is another computation. */
static void vram__change_smaller_batch(const vram__advised_now *now, const vram__advised *x,
                                       vram_alternative *c) {
  if (!now->has_batch_norm || !x->step.train)
    return;
  c->effect = VRAM_EFFECT_TRAINING;
  c->cost = "batch norm sees a part of the batch: other statistics";
}

/* The batch in parts, one after the other. Without training there is nothing to add up. */
static const char *vram__change_batch(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                      vram_alternative *c) {
  const int64_t parts = x->step.accumulate > 1 ? (int64_t)x->step.accumulate : 1;
  const int64_t batch = vram__advised_batch(now, x);
  if (!now->g->ndim)
    return "the text has no dim for the batch";
  if (x->step.parallel && x->step.parallel->is_pipeline)
    return "a pipeline has micro-batches of its own: microbatches=";
  if (batch < arg || batch % arg)
    return "the batch does not divide so";
  if (parts * arg > 1000000)
    return "there would be more than 1000000 micro-batches";
  vram__advised_set(now, x, 0, batch / arg);
  if (x->step.train)
    x->step.accumulate = (uint32_t)(parts * arg);
  else
    x->parts = (uint32_t)arg;
  if (c) {
    vram__change_number(c, " --batch ", batch / arg);
    vram__change_torch(c, "for part in batch.split(len(batch) // ", arg, "):\n");
    if (x->step.train) {
      vram__change_number(c, " --accumulate ", parts * arg);
      vram__change_torch(c, "    (loss_of(part) / ", parts * arg, ").backward()\noptimizer.step()");
      vram__change_smaller_batch(now, x, c);
    } else
      vram__change_torch(c, "    model(part)  # ", arg, " times");
  }
  return NULL;
}

static const char *vram__change_inplace(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                        vram_alternative *c) {
  (void)now, (void)arg;
  if (x->inplace || x->is_planned)
    return x->inplace ? "activations are in place already" : "checkpoints are planned";
  x->inplace = 1;
  if (c)
    vram__change_word(c, " --inplace");
  return NULL;
}

static const char *vram__change_checkpoint(const vram__advised_now *now, vram__advised *x,
                                           int64_t arg, vram_alternative *c) {
  if (!x->step.train)
    return vram__not_training;
  if (x->nodes || x->is_planned || x->step.checkpoint_segments)
    return "checkpoints are there already";
  if (arg) { /* auto */
    if (x->inplace)
      return "activations are in place";
    if (!now->o->step.budget_bytes)
      return "without a budget nothing says how much has to be saved";
    x->is_planned = 1;
    x->step.by_keyword = 0;
  } else {
    x->nodes = "layers";
    x->step.by_keyword = 1;
  }
  if (c && now->has_batch_norm)
    c->cost = "operations, as shown; running averages of batch norm are moved twice";
  if (c)
    vram__change_word(c, arg ? " --checkpoint auto" : " --checkpoint layers");
  return NULL;
}

/* ---- fewer bits ---- */

static const char *vram__change_amp(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                    vram_alternative *c) {
  if (x->step.amp)
    return "autocast is there already";
  if (now->dtype != VRAM_F32)
    return "the model is not in fp32";
  if (x->quant)
    return "weights are quantised";
  x->step.amp = (vram_dtype)arg;
  if (c && !x->step.train) {
    vram__change_lines(c, arg == VRAM_BF16
                              ? "with torch.no_grad(), torch.autocast(\"cuda\", torch.bfloat16):\n"
                                "    y = model(x)"
                              : "with torch.no_grad(), torch.autocast(\"cuda\", torch.float16):\n"
                                "    y = model(x)");
    c->cost = arg == VRAM_BF16 ? "8 bits of mantissa in matrix products; weights stay fp32"
                               : "11 bits of mantissa, a small range; weights stay fp32";
  }
  if (c)
    vram__change_word(c, arg == VRAM_BF16 ? " --amp bf16" : " --amp fp16");
  return NULL;
}

static const char *vram__change_dtype(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                      vram_alternative *c) {
  if (now->dtype != VRAM_F32)
    return "the model is not in fp32";
  if (x->step.amp || x->quant)
    return x->step.amp ? "autocast is there already" : "weights are quantised";
  if (arg && !x->step.train)
    return vram__not_training;
  x->step.dtype = VRAM_BF16;
  x->step.master_weights = (int)arg;
  if (c && !x->step.train)
    c->cost = "8 bits of mantissa";
  if (c)
    vram__change_word(c, arg ? " --dtype bf16 --master-weights" : " --dtype bf16");
  return NULL;
}

/* It would turn checkpoints on by itself. */
#define VRAM__TORCH_KBIT                                                                           \
  "\nmodel = peft.prepare_model_for_kbit_training(model,\n"                                        \
  "    use_gradient_checkpointing=False)  # or as it is now"

static const char vram__torch_kbit[] = VRAM__TORCH_KBIT;

static const char *vram__change_quant(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                      vram_alternative *c) {
  (void)now;
  if (x->step.train && !x->lora)
    return "quantised weights do not learn: adapters do";
  if (x->quant)
    return "weights are quantised already";
  x->quant = arg ? "nf4" : "int8";
  if (c)
    vram__change_word(c, arg ? " --quant nf4" : " --quant int8");
  if (c && x->step.train) {
    uint32_t n = vram__text_len(c->torch);
    vram__text_puts(c->torch, sizeof c->torch, &n, vram__torch_kbit);
    vram__text_puts(c->torch, sizeof c->torch, &n, "\n# then get_peft_model, as before");
  }
  return NULL;
}

/* ---- other devices ---- */

/* How a step is divided among devices. */
static const struct {
  const char *spec, *more;
  int is_batch; /* each has a batch of its own */
} vram__devices[] = {{"ddp=", "", 1},
                     {"zero1=", "", 1},
                     {"fsdp2=", "", 1},
                     {"fsdp2=", ",cpu_offload=1", 1},
                     {"ds2=", ",offload_optimizer=cpu", 1},
                     {"tp=", "", 0},
                     {"pp=", "", 0}};

/* arg: a row of vram__devices; with VRAM__DEVICES_MORE each rank has the batch of now. */
static const char *vram__change_devices(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                        vram_alternative *c) {
  const uint32_t ranks = now->o->devices ? now->o->devices : 1;
  const int is_more = arg >= VRAM__DEVICES_MORE;
  const uint32_t way = (uint32_t)(is_more ? arg - VRAM__DEVICES_MORE : arg);
  const int64_t batch = vram__advised_batch(now, x);
  char spec[64];
  uint32_t n = 0;
  vram_error err;
  if (!x->step.train)
    return "of training: --parallel divides no inference here";
  if (now->o->step.step.parallel)
    return "it runs on many devices already";
  if (ranks < 2)
    return *vram__devices[way].more ? "of one device: not played"
                                    : "there is one device: --devices N";
  if (vram__devices[way].is_batch && !is_more) {
    if (!batch || batch % (int64_t)ranks)
      return batch ? "the batch does not divide among the devices"
                   : "the text has no dim for the batch";
    vram__advised_set(now, x, 0, batch / (int64_t)ranks);
  }
  if (!vram__devices[way].is_batch && x->step.accumulate > 1 && vram__devices[way].spec[0] == 'p')
    return "a pipeline has micro-batches of its own: microbatches=";
  vram__text_puts(spec, sizeof spec, &n, vram__devices[way].spec);
  vram__text_putu(spec, sizeof spec, &n, ranks);
  vram__text_puts(spec, sizeof spec, &n, vram__devices[way].more);
  if (vram_parallel_parse(spec, &x->parallel, &err))
    return "this library cannot read it";
  x->step.parallel = &x->parallel;
  if (c) {
    vram__change_word(c, " --parallel ");
    vram__change_word(c, spec);
    if (is_more)
      vram__change_line_before(c, "# each device has a batch as large as now: N times in all\n");
    else if (vram__devices[way].is_batch) {
      vram__change_number(c, " --batch ", batch / (int64_t)ranks);
      vram__change_line_before(c, "# each device has its part of the batch\n");
      vram__change_smaller_batch(now, x, c);
    }
  }
  return NULL;
}

/* ---- another training ---- */

/* What becomes of an implementation that was asked for: the new optimizer may have none. */
static const char *vram__change_optimizer_to(const vram__advised_now *now, vram__advised *x,
                                             vram_optimizer to, vram_alternative *c) {
  const vram_step_options *const was = &now->o->step.step;
  vram_optimizer_info info;
  if (!vram_optimizer_get_info((uint32_t)to, &info))
    return "this library does not have it";
  x->step.optimizer = to;
  x->step.weight_decay = 0;
  if (x->step.optim_impl != was->optim_impl)
    return "the other optimizer runs as it does";
  if (x->step.optim_impl) {
    x->step.optim_impl = VRAM_OPTIM_IMPL_DEFAULT;
    if (c)
      c->without = "--optim-impl";
  }
  if (c) {
    vram__change_word(c, " --train ");
    vram__change_word(c, info.name);
  }
  return NULL;
}

static const char *vram__change_optimizer(const vram__advised_now *now, vram__advised *x,
                                          int64_t arg, vram_alternative *c) {
  const vram_optimizer old = now->o->step.step.optimizer, to = (vram_optimizer)arg;
  if (!x->step.train)
    return vram__not_training;
  if (old == to)
    return "it is the optimizer already";
  if (to == VRAM_OPTIM_lion_8bit && old != VRAM_OPTIM_adam && old != VRAM_OPTIM_adamw)
    return old == VRAM_OPTIM_lion ? "its own state in 8 bits is another change"
                                  : "it takes the place of Adam and AdamW";
  return vram__change_optimizer_to(now, x, to, c);
}

/* The same optimizer with its state in 8 bits (bitsandbytes.optim). */
static const char *vram__change_bits(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                     vram_alternative *c) {
  static const struct {
    vram_optimizer old, to[2]; /* [1]: paged; as [0]: there is none */
    const char *name[2];
  } kin[] = {{VRAM_OPTIM_adam,
              {VRAM_OPTIM_adam_8bit, VRAM_OPTIM_paged_adam_8bit},
              {"Adam8bit", "PagedAdam8bit"}},
             {VRAM_OPTIM_adamw,
              {VRAM_OPTIM_adamw_8bit, VRAM_OPTIM_paged_adamw_8bit},
              {"AdamW8bit", "PagedAdamW8bit"}},
             {VRAM_OPTIM_lion,
              {VRAM_OPTIM_lion_8bit, VRAM_OPTIM_paged_lion_8bit},
              {"Lion8bit", "PagedLion8bit"}},
             {VRAM_OPTIM_sgd_momentum,
              {VRAM_OPTIM_sgd_momentum_8bit, VRAM_OPTIM_sgd_momentum_8bit},
              {"SGD8bit", NULL}},
             {VRAM_OPTIM_rmsprop,
              {VRAM_OPTIM_rmsprop_8bit, VRAM_OPTIM_rmsprop_8bit},
              {"RMSprop8bit", NULL}},
             {VRAM_OPTIM_adagrad,
              {VRAM_OPTIM_adagrad_8bit, VRAM_OPTIM_adagrad_8bit},
              {"Adagrad8bit", NULL}}};
  const uint32_t count = sizeof kin / sizeof *kin;
  uint32_t i = 0, n;
  if (!x->step.train)
    return vram__not_training;
  while (i < count && kin[i].old != now->o->step.step.optimizer)
    i++;
  if (i == count || !kin[i].name[arg])
    return "there is none of this optimizer";
  if (c) {
    n = vram__text_len(c->torch);
    vram__text_puts(c->torch, sizeof c->torch, &n, "optimizer = bitsandbytes.optim.");
    vram__text_puts(c->torch, sizeof c->torch, &n, kin[i].name[arg]);
    vram__text_puts(c->torch, sizeof c->torch, &n, "(model.parameters())  # with your settings");
  }
  return vram__change_optimizer_to(now, x, kin[i].to[arg], c);
}

static const char *vram__change_lora(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                     vram_alternative *c) {
  (void)now;
  if (!x->step.train)
    return vram__not_training;
  if (x->lora || x->quant)
    return x->lora ? "adapters are there already" : "weights are quantised already";
  x->lora = "r=16";
  x->quant = arg ? "nf4" : NULL;
  if (c)
    vram__change_word(c, arg ? " --lora r=16 --quant nf4" : " --lora r=16");
  return NULL;
}

/* The first half of the layers, or all of them, and what is before them. */
static const char *vram__change_freeze(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                       vram_alternative *c) {
  uint32_t layers = 0, n = 0;
  if (!x->step.train)
    return vram__not_training;
  if (x->freeze || x->lora)
    return x->lora ? "adapters learn, nothing else" : "layers are frozen already";
  if (vram_graph_ranges(now->g, "layers", NULL, 0, &layers, NULL) || layers < 2)
    return "no names or rounds of loops say which layers there are";
  layers = arg ? layers : layers / 2;
  vram__text_putu(x->frozen, sizeof x->frozen, &n, layers);
  x->freeze = x->frozen;
  if (c) {
    vram__change_number(c, " --freeze ", layers);
    vram__change_torch(c, "for part in (model.embeddings, *model.layers[:", layers,
                       "]):  # all up to there\n    part.requires_grad_(False)");
  }
  return NULL;
}

static const char *vram__change_attention(const vram__advised_now *now, vram__advised *x,
                                          int64_t arg, vram_alternative *c) {
  (void)now;
  if (x->step.attention)
    return "a kernel is asked for already";
  x->step.attention = (vram_attention)arg;
  if (c)
    vram__change_word(c, arg == VRAM_ATTENTION_FLASH       ? " --attention flash"
                         : arg == VRAM_ATTENTION_EFFICIENT ? " --attention efficient"
                                                           : " --attention cudnn");
  return NULL;
}

/* Half of a dim that inputs have: whether they have it shows when they are read so. */
static const char *vram__change_half(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                     vram_alternative *c) {
  const uint32_t dim = (uint32_t)arg;
  const int64_t value = now->g->dim[dim].value;
  if (c) {
    uint32_t n = vram__text_len(c->options);
    vram__text_puts(c->options, sizeof c->options, &n, " --dim ");
    vram__text_put(c->options, sizeof c->options, &n, now->g->dim[dim].name, now->g->dim[dim].len);
    vram__text_puts(c->options, sizeof c->options, &n, "=");
    vram__text_puti(c->options, sizeof c->options, &n, value / 2);
  }
  if (value < 2 || value % 2)
    return "it does not divide by two";
  vram__advised_set(now, x, dim, value / 2);
  if (c) {
    uint32_t n = 0;
    vram__text_puts(c->torch, sizeof c->torch, &n, "# inputs with ");
    vram__text_put(c->torch, sizeof c->torch, &n, now->g->dim[dim].name, now->g->dim[dim].len);
    vram__text_puts(c->torch, sizeof c->torch, &n, " = ");
    vram__text_puti(c->torch, sizeof c->torch, &n, value / 2);
  }
  return NULL;
}

static const char *vram__change_logits(const vram__advised_now *now, vram__advised *x, int64_t arg,
                                       vram_alternative *c) {
  (void)now;
  if (!x->step.train)
    return vram__not_training;
  if (x->step.parallel)
    return "the step is divided among devices: not played";
  if (x->is_planned)
    return "checkpoints are planned";
  x->chunks = (uint32_t)arg;
  if (c) {
    vram__change_number(c, " --logits-chunks ", arg);
    vram__change_torch(
        c,
        "def part(h, t):  # your head and your loss\n"
        "    return F.cross_entropy(model.lm_head(h).float(), t, reduction=\"sum\")\n"
        "h, t, loss = hidden.flatten(0, -2), targets.flatten(), 0\n"
        "for p in zip(h.chunk(",
        arg, "), t.chunk(");
    vram__change_torch(
        c, "", arg,
        ")):\n"
        "    loss = loss + torch.utils.checkpoint.checkpoint(part, *p, use_reentrant=False)\n"
        "loss = loss / (t != -100).sum()");
  }
  return NULL;
}

/* ---- the table ---- */

static const char vram__torch_amp[] = "with torch.autocast(\"cuda\", torch.bfloat16):\n"
                                      "    loss = loss_of(model(x))\n"
                                      "loss.backward()";
static const char vram__torch_amp16[] = "scaler = torch.amp.GradScaler()\n"
                                        "with torch.autocast(\"cuda\", torch.float16):\n"
                                        "    loss = loss_of(model(x))\n"
                                        "scaler.scale(loss).backward()\n"
                                        "scaler.step(optimizer); scaler.update()";
static const char vram__torch_zero1[] =
    "from torch.distributed.optim import ZeroRedundancyOptimizer\n"
    "model = torch.nn.parallel.DistributedDataParallel(model)\n"
    "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)  # yours";
static const char vram__torch_fsdp2[] = "from torch.distributed.fsdp import fully_shard\n"
                                        "for layer in model.layers: fully_shard(layer)\n"
                                        "fully_shard(model)";

/* peft's own targets are the query and the value of some models. */
#define VRAM__TORCH_LORA                                                                           \
  "lora = peft.LoraConfig(r=16, target_modules=\"all-linear\")  # own modules: their names\n"      \
  "model = peft.get_peft_model(model, lora)"
#define VRAM__TORCH_LOAD                                                                           \
  "model = AutoModelForCausalLM.from_pretrained(NAME,  # as you load it\n"                         \
  "    quantization_config=BitsAndBytesConfig("

#define VRAM__ROWS(name, effect, group, arg, apply, cost, torch)                                   \
  { name, VRAM_EFFECT_##effect, VRAM__OF_##group, arg, vram__change_##apply, cost, torch }

/* clang-format off */
static const vram__change_row vram__change_rows[] = {
    VRAM__ROWS("gradients to None", SAME, GRADIENTS, 0, set_to_none, "nothing",
      "optimizer.zero_grad(set_to_none=True)"),
    VRAM__ROWS("zero_grad before forward", SAME, GRADIENTS, 1, set_to_none, "nothing",
      "optimizer.zero_grad()  # before the forward pass"),
    VRAM__ROWS("zero_grad before forward", SAME, GRADIENTS, 2, set_to_none, "nothing",
      "optimizer.zero_grad()  # before the forward pass"),
    VRAM__ROWS("no prefetched batches", SAME, INPUTS, 0, prefetch,
      "copies of a batch wait for the step before it", "x = x.to(\"cuda\")  # in the loop"),
    VRAM__ROWS("expandable segments", SAME, ALLOCATOR, 0, expandable,
      "mapping memory takes time at first",
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # environment"),
    VRAM__ROWS("no trials of cuDNN", SAME, CUDNN, 0, cudnn, "convolutions may be slower",
      "torch.backends.cudnn.benchmark = False"),
    VRAM__ROWS("kernels loaded lazily", SAME, MODULES, 0, modules,
      "each kernel is loaded when it first runs", "CUDA_MODULE_LOADING=LAZY  # environment"),
    VRAM__ROWS("activations in place", SAME, ACTIVATIONS, 0, inplace, "nothing",
      "for name in in_place:  # vram estimate --json lists their names\n"
      "    model.get_submodule(name).inplace = True"),
    VRAM__ROWS("fused optimizer", SAME, IMPL, VRAM_OPTIM_IMPL_FUSED, impl, "nothing", NULL),
    VRAM__ROWS("optimizer as a loop", SAME, IMPL, VRAM_OPTIM_IMPL_LOOP, impl,
      "kernels for each parameter: slower", NULL),
    VRAM__ROWS("optimizer in backward", SAME, HOOKS, 0, hooks,
      "no clipping, no accumulation; kernels for each parameter", NULL),
    VRAM__ROWS("batch in 2 parts", SAME, BATCH, 2, batch,
      "smaller kernels", NULL),
    VRAM__ROWS("batch in 4 parts", SAME, BATCH, 4, batch,
      "smaller kernels", NULL),
    VRAM__ROWS("batch in 8 parts", SAME, BATCH, 8, batch,
      "smaller kernels", NULL),
    VRAM__ROWS("batch in 16 parts", SAME, BATCH, 16, batch,
      "smaller kernels", NULL),
    VRAM__ROWS("batch in 32 parts", SAME, BATCH, 32, batch,
      "smaller kernels", NULL),
    VRAM__ROWS("checkpointed layers", SAME, CHECKPOINTS, 0, checkpoint, "operations, as shown",
      "model.gradient_checkpointing_enable()  # transformers\n"
      "# else, around each layer:\n"
      "x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)"),
    VRAM__ROWS("planned checkpoints", SAME, CHECKPOINTS, 1, checkpoint, "operations, as shown",
      "# vram plan shows the calls, tools/checkpoint_torch.py makes them"),
    VRAM__ROWS("data parallel", SAME, DEVICES, 0, devices, "bytes sent, as shown",
      "model = torch.nn.parallel.DistributedDataParallel(model)"),
    VRAM__ROWS("optimizer's shards", SAME, DEVICES, 1, devices, "bytes sent, as shown",
      vram__torch_zero1),
    VRAM__ROWS("optimizer's shards, N times the batch", TRAINING, DEVICES, VRAM__DEVICES_MORE + 1, devices,
      "bytes sent, as shown; a larger batch: find its learning rate", vram__torch_zero1),
    VRAM__ROWS("fully sharded", SAME, DEVICES, 2, devices, "bytes sent, as shown", vram__torch_fsdp2),
    VRAM__ROWS("fully sharded, N times the batch", TRAINING, DEVICES, VRAM__DEVICES_MORE + 2, devices,
      "bytes sent, as shown; a larger batch: find its learning rate", vram__torch_fsdp2),
    VRAM__ROWS("fully sharded, offloaded", SAME, DEVICES, 3, devices,
      "bytes sent, as shown; parameters cross the bus, the optimizer runs on the host",
      "from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard\n"
      "for layer in model.layers: fully_shard(layer, offload_policy=CPUOffloadPolicy())\n"
      "fully_shard(model, offload_policy=CPUOffloadPolicy())"),
    VRAM__ROWS("ZeRO-Offload", SAME, DEVICES, 4, devices,
      "bytes sent, as shown; gradients cross the bus, the optimizer runs on the host",
      "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}"),
    VRAM__ROWS("tensor parallel", SAME, DEVICES, 5, devices,
      "bytes sent in each layer, as shown: devices in one machine",
      "# torch.distributed.tensor.parallel.parallelize_module(model, mesh, plan)"),
    VRAM__ROWS("pipeline", SAME, DEVICES, 6, devices,
      "stages wait for one another, the more the fewer micro-batches (microbatches=)",
      "# torch.distributed.pipelining: pipeline(), then ScheduleGPipe"),
    VRAM__ROWS("autocast bf16", ROUNDING, PRECISION, VRAM_BF16, amp,
      "8 bits of mantissa in matrix products; weights stay fp32", vram__torch_amp),
    VRAM__ROWS("autocast fp16", ROUNDING, PRECISION, VRAM_F16, amp,
      "11 bits of mantissa, a small range: losses are scaled", vram__torch_amp16),
    VRAM__ROWS("bf16, fp32 master weights", ROUNDING, PRECISION, 1, dtype,
      "8 bits of mantissa; the optimizer works in fp32",
      "model = model.to(torch.bfloat16)\n"
      "master = [p.detach().float() for p in model.parameters()]  # the optimizer's\n"
      "loss.backward()\n"
      "for m, p in zip(master, model.parameters()): m.grad = p.grad.float()\n"
      "optimizer.step()\n"
      "for m, p in zip(master, model.parameters()): p.data.copy_(m)"),
    VRAM__ROWS("bf16 weights", ROUNDING, PRECISION, 0, dtype,
      "8 bits of mantissa, of weights and the optimizer's state, too",
      "model = model.to(torch.bfloat16)"),
    VRAM__ROWS("weights in 8 bits", ROUNDING, ADAPTERS, 0, quant, "8 bits of linear weights",
      VRAM__TORCH_LOAD "load_in_8bit=True))"),
    VRAM__ROWS("weights in 4 bits", ROUNDING, ADAPTERS, 1, quant, "4 bits of linear weights",
      VRAM__TORCH_LOAD "load_in_4bit=True, bnb_4bit_quant_type=\"nf4\"))"),
    VRAM__ROWS("optimizer in 8 bits", ROUNDING, OPTIMIZER, 0, bits,
      "8 bits of the optimizer's state", NULL),
    VRAM__ROWS("optimizer in 8 bits, paged", ROUNDING, OPTIMIZER, 1, bits,
      "8 bits of the optimizer's state, which may move to the host", NULL),
    VRAM__ROWS("Adafactor", TRAINING, OPTIMIZER, VRAM_OPTIM_adafactor, optimizer,
      "another optimizer: find its learning rate",
      "optimizer = torch.optim.Adafactor(model.parameters())"),
    VRAM__ROWS("Lion", TRAINING, OPTIMIZER, VRAM_OPTIM_lion, optimizer,
      "another optimizer: find its learning rate",
      "optimizer = timm.optim.Lion(model.parameters())"),
    VRAM__ROWS("Lion, 8 bits", TRAINING, OPTIMIZER, VRAM_OPTIM_lion_8bit, optimizer,
      "another optimizer: find its learning rate",
      "optimizer = bitsandbytes.optim.Lion8bit(model.parameters())"),
    VRAM__ROWS("SGD", TRAINING, OPTIMIZER, VRAM_OPTIM_sgd, optimizer,
      "another optimizer: find its learning rate",
      "optimizer = torch.optim.SGD(model.parameters(), lr=lr)"),
    VRAM__ROWS("LoRA", TRAINING, ADAPTERS, 0, lora, "adapters of rank 16 on linear layers learn, nothing else",
      VRAM__TORCH_LORA),
    VRAM__ROWS("QLoRA", TRAINING, ADAPTERS, 1, lora,
      "adapters of rank 16 on linear layers learn, nothing else; 4 bits of their weights",
      VRAM__TORCH_LOAD "load_in_4bit=True, bnb_4bit_quant_type=\"nf4\"))" VRAM__TORCH_KBIT
      "\n" VRAM__TORCH_LORA),
    VRAM__ROWS("half of the layers frozen", TRAINING, ADAPTERS, 0, freeze,
      "the first layers stay as they are", NULL),
    VRAM__ROWS("all layers frozen", TRAINING, ADAPTERS, 1, freeze,
      "what is behind the layers learns, nothing else", NULL),
    VRAM__ROWS("flash attention", SAME, ATTENTION, VRAM_ATTENTION_FLASH, attention, "nothing",
      "with torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # around the step"),
    VRAM__ROWS("memory-efficient attention", SAME, ATTENTION, VRAM_ATTENTION_EFFICIENT, attention,
      "nothing",
      "with torch.nn.attention.sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):  # around the step"),
    VRAM__ROWS("cuDNN's attention", SAME, ATTENTION, VRAM_ATTENTION_CUDNN, attention, "nothing",
      "with torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION):  # around the step"),
    VRAM__ROWS("logits in 4 chunks", SAME, LOGITS, 4, logits, "operations, as shown", NULL),
    VRAM__ROWS("logits in 16 chunks", SAME, LOGITS, 16, logits, "operations, as shown", NULL)};
/* clang-format on */

static const vram__change_row vram__change_dim_row =
    VRAM__ROWS("half the size", TASK, SIZES, 0, half, "smaller inputs", NULL);

VRAM__FN int vram__change_is_parts(const vram__change_row *row) {
  return row->group == VRAM__OF_BATCH;
}

VRAM__FN int vram__change_has_floor(const vram__change_row *row) {
  return row->effect == VRAM_EFFECT_TASK || row->group == VRAM__OF_HOOKS ||
         row->group == VRAM__OF_DEVICES || row->group == VRAM__OF_PRECISION ||
         row->group == VRAM__OF_OPTIMIZER || row->group == VRAM__OF_ADAPTERS;
}

enum { VRAM__CHANGE_ROWS = sizeof vram__change_rows / sizeof *vram__change_rows };

VRAM__FN uint32_t vram__change_count(const vram_graph *g) {
  const uint32_t n = VRAM__CHANGE_ROWS + (g->ndim ? g->ndim - 1 : 0);
  return n < VRAM__CHANGES ? n : (uint32_t)VRAM__CHANGES;
}

VRAM__FN const vram__change_row *vram__change_at(const vram_graph *g, uint32_t i, int64_t *arg) {
  (void)g;
  if (i >= VRAM__CHANGE_ROWS) {
    *arg = (int64_t)i - (int64_t)VRAM__CHANGE_ROWS + 1;
    return &vram__change_dim_row;
  }
  *arg = vram__change_rows[i].arg;
  return vram__change_rows + i;
}
