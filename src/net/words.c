/* >>net/words    the words of VRAM_NET_ lines */
#include "net/net.h"

VRAM_API const char *vram_line_name(uint32_t kind) {
#define VRAM__X(id, where, args) #id,
  static const char *const name[] = {VRAM_NET_LINES(VRAM__X) "?"};
#undef VRAM__X
  return name[kind < VRAM_LINE_COUNT ? kind : (uint32_t)VRAM_LINE_COUNT];
}

VRAM_API const char *vram_line_args(uint32_t kind) {
#define VRAM__X(id, where, args) args,
  static const char *const text[] = {VRAM_NET_LINES(VRAM__X) ""};
#undef VRAM__X
  return text[kind < VRAM_LINE_COUNT ? kind : (uint32_t)VRAM_LINE_COUNT];
}

VRAM_API const char *vram_format_name(uint32_t format) {
#define VRAM__X(id, activation, weight, bias_bytes, scales) #id,
  static const char *const name[] = {VRAM_NET_FORMATS(VRAM__X) "?"};
#undef VRAM__X
  return name[format < VRAM_FORMAT_COUNT ? format : (uint32_t)VRAM_FORMAT_COUNT];
}

VRAM_API const char *vram_padding_name(uint32_t padding) {
#define VRAM__X(id) #id,
  static const char *const name[] = {VRAM_NET_PADDINGS(VRAM__X) "?"};
#undef VRAM__X
  return name[padding < VRAM_PADDING_COUNT ? padding : (uint32_t)VRAM_PADDING_COUNT];
}

VRAM_API const char *vram_kernels_name(uint32_t kernels) {
#define VRAM__X(id) #id,
  static const char *const name[] = {VRAM_NET_KERNELS(VRAM__X) "?"};
#undef VRAM__X
  return name[kernels < VRAM_KERNELS_COUNT ? kernels : (uint32_t)VRAM_KERNELS_COUNT];
}

/* The next word of vram_line_args; 0: there is no more. */
VRAM__FN int vram__net_word(const char **at, const char **word, uint32_t *len) {
  while (**at == ' ')
    ++*at;
  *word = *at;
  while (**at && **at != ' ')
    ++*at;
  *len = (uint32_t)(*at - *word);
  return *len != 0;
}

VRAM__FN int vram__net_arg(const char *word, uint32_t len) {
  static const char *const names[] = {"y", "x", "kept", "format", "padding", "kernels"};
  int i;
  for (i = 0; i < VRAM__ARG_INTEGER; i++) {
    const uint32_t n = vram__text_len(names[i]);
    if (len >= n && vram__text_equal(word, names[i], n) &&
        (len == n || (i == VRAM__ARG_KEPT && len == n + 1)))
      break;
  }
  return i;
}
