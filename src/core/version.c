/* >>core/version    names of rules */
#include "core/core.h"

VRAM_API const char *vram_rules_name(vram_rules rules) {
  static const char *const name[] = {"torch", "ideal",
#define VRAM__X(id, name) name,
                                     VRAM_TORCH_VERSIONS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)rules < VRAM_RULES_COUNT ? name[rules] : NULL;
}

VRAM_API vram_rules vram_rules_find(const char *name, uint32_t len) {
  uint32_t i = 0;
  while (i < VRAM_RULES_COUNT && !vram__text_is(name, len, vram_rules_name((vram_rules)i)))
    i++;
  return (vram_rules)i;
}
