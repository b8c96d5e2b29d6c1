#pragma once
#include "api/types.h"
/* >>version ===================================================================================
   Whose memory a step is to have: a version of PyTorch, or only what the formulas need. */

/* The versions of PyTorch that there are rules for, oldest first. */
#define VRAM_TORCH_VERSIONS(X)                                                                     \
  X(1_10, "torch-1.10")                                                                            \
  X(1_11, "torch-1.11")                                                                            \
  X(1_12, "torch-1.12")                                                                            \
  X(1_13, "torch-1.13")                                                                            \
  X(2_0, "torch-2.0")                                                                              \
  X(2_1, "torch-2.1")                                                                              \
  X(2_2, "torch-2.2")                                                                              \
  X(2_3, "torch-2.3")                                                                              \
  X(2_4, "torch-2.4")                                                                              \
  X(2_5, "torch-2.5")                                                                              \
  X(2_6, "torch-2.6")                                                                              \
  X(2_7, "torch-2.7")                                                                              \
  X(2_8, "torch-2.8")                                                                              \
  X(2_9, "torch-2.9")                                                                              \
  X(2_10, "torch-2.10")                                                                            \
  X(2_11, "torch-2.11")                                                                            \
  X(2_12, "torch-2.12")                                                                            \
  X(2_13, "torch-2.13")                                                                            \
  X(2_14, "torch-2.14")                                                                            \
  X(2_15, "torch-2.15")

#define VRAM_TORCH_RANGE "torch-1.10 to torch-2.15"

typedef enum vram_rules {
  VRAM_RULES_TORCH, /* PyTorch eager: the version that the model's text names, else the newest */
  VRAM_RULES_IDEAL, /* a hand-written program: keeps what the formulas need and no dropout masks,
                       writes pointwise gradients over the ones that arrive, no workspaces, no
                       copies for layout, fused optimizer */
#define VRAM__X(id, name) VRAM_RULES_TORCH_##id,
  VRAM_TORCH_VERSIONS(VRAM__X) /* PyTorch eager of that version */
#undef VRAM__X
  VRAM_RULES_COUNT,
  VRAM_RULES_NEWEST = VRAM_RULES_COUNT - 1
} vram_rules;

/* "ideal", "torch-2.15"; VRAM_RULES_TORCH is "torch". NULL for what are none. */
VRAM_API const char *vram_rules_name(vram_rules rules);

/* The rules of that name; VRAM_RULES_COUNT: there are none. name: not NULL. */
VRAM_API vram_rules vram_rules_find(const char *name, uint32_t len);
