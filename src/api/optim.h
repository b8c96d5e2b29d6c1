#pragma once
#include "api/types.h"

/* -----------------------------------------------------------------------------------------------
   >>optim   optimizers by name; what each allocates is a recipe in words (vram_optimizer_info)
   ---------------------------------------------------------------------------------------------- */

typedef enum vram_optim_impl { /* the default: what PyTorch picks on CUDA */
                               VRAM_OPTIM_IMPL_DEFAULT,
                               VRAM_OPTIM_IMPL_FOREACH,
                               VRAM_OPTIM_IMPL_LOOP,
                               VRAM_OPTIM_IMPL_FUSED
} vram_optim_impl;

#define VRAM_OPTIMIZERS(X)                                                                         \
  X(sgd)                                                                                           \
  X(sgd_momentum)                                                                                  \
  X(sgd_nesterov)                                                                                  \
  X(adam)                                                                                          \
  X(adam_amsgrad)                                                                                  \
  X(adamw)                                                                                         \
  X(adamw_amsgrad)                                                                                 \
  X(adagrad)                                                                                       \
  X(rmsprop)                                                                                       \
  X(rmsprop_momentum)                                                                              \
  X(rmsprop_centered)                                                                              \
  X(rmsprop_centered_momentum)                                                                     \
  X(adadelta)                                                                                      \
  X(adamax)                                                                                        \
  X(nadam)                                                                                         \
  X(radam)                                                                                         \
  X(asgd)                                                                                          \
  X(rprop)                                                                                         \
  X(adafactor)                                                                                     \
  X(muon)                                                                                          \
  X(lion)                                                                                          \
  X(lamb)                                                                                          \
  X(adam_8bit)                                                                                     \
  X(adamw_8bit)                                                                                    \
  X(sgd_momentum_8bit)                                                                             \
  X(rmsprop_8bit)                                                                                  \
  X(adagrad_8bit)                                                                                  \
  X(lion_8bit)                                                                                     \
  X(paged_adam_8bit)                                                                               \
  X(paged_adamw_8bit)                                                                              \
  X(paged_lion_8bit)                                                                               \
  X(adamw_32bit)                                                                                   \
  X(lion_32bit)                                                                                    \
  X(paged_adamw_32bit)                                                                             \
  X(paged_lion_32bit)                                                                              \
  X(galore_adamw)                                                                                  \
  X(lomo)

typedef enum vram_optimizer {
#define VRAM__X(name) VRAM_OPTIM_##name,
  VRAM_OPTIMIZERS(VRAM__X)
#undef VRAM__X
      VRAM_OPTIM_COUNT
} vram_optimizer;

typedef struct vram_optimizer_info {
  const char *name;
  const char *state;           /* the names of its state tensors, as in PyTorch */
  const char *implementations; /* the first is the default */
  const char *init;            /* recipe of what makes the state of one parameter */
  const char *step[4];         /* recipes of one step by vram_optim_impl, [0] that of the default;
                                  "": allocates nothing, NULL: there is no such implementation */
} vram_optimizer_info;

#ifndef VRAM_NO_STEP
/* The row of an optimizer; 0: there is none. */
VRAM_API int vram_optimizer_get_info(uint32_t optimizer, vram_optimizer_info *info);

/* The optimizer of a name ("adamw"; a suffix "_wd" asks for L2 weight decay that is added to the
   gradient), VRAM_OPTIM_COUNT: there is none. *weight_decay, if not NULL, becomes 0 or 1. */
VRAM_API vram_optimizer vram_optimizer_from_name(const char *name, int *weight_decay);
#endif
