/* >>alloc/event    names of actions, categories and phases */
#include "alloc/alloc.h"

VRAM_API const char *vram_action_name(vram_action action) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_ACTIONS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)action < VRAM_ACTION_COUNT ? name[action] : "?";
}

VRAM_API const char *vram_category_name(vram_category category) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_CATEGORIES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)category < VRAM_CATEGORY_COUNT ? name[category] : "?";
}

VRAM_API const char *vram_phase_name(vram_phase phase) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_PHASES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)phase < VRAM_PHASE_COUNT ? name[phase] : "?";
}

VRAM__FN uint32_t vram__category_of(vram_category category) {
  return (uint32_t)category < VRAM_CATEGORY_COUNT ? (uint32_t)category
                                                  : (uint32_t)VRAM_CATEGORY_OTHER;
}
