/* >>core/error    errors: a code, where it is, a text put together from pieces
   Every function takes NULL for an error that nobody wants to read. */
#include "core/core.h"

VRAM__FN void vram__error_clear(vram_error *e) {
  if (e)
    vram__memory_zero(e, sizeof *e);
}

/* Begins an error; what else there is to say is appended. Returns the code. */
VRAM__FN vram_result vram__error_begin(vram_error *e, vram_result code, uint64_t line,
                                       const char *text) {
  vram__error_clear(e);
  if (e) {
    e->code = code;
    e->line = (uint32_t)line;
    vram__error_text(e, text);
  }
  return code;
}

VRAM__FN void vram__error_letters(vram_error *e, const char *s, uint32_t len) {
  if (e) {
    uint32_t n = vram__text_len(e->text);
    vram__text_put(e->text, sizeof e->text, &n, s, len);
  }
}

VRAM__FN void vram__error_text(vram_error *e, const char *text) {
  vram__error_letters(e, text, vram__text_len(text));
}

/* A text and the number behind it. */
VRAM__FN void vram__error_number(vram_error *e, const char *before, uint64_t v) {
  vram__error_text(e, before);
  if (e) {
    uint32_t n = vram__text_len(e->text);
    vram__text_putu(e->text, sizeof e->text, &n, v);
  }
}

VRAM__FN void vram__error_integer(vram_error *e, const char *before, int64_t v) {
  vram__error_text(e, before);
  vram__error_number(e, v < 0 ? "-" : "", v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* What the caller wrote: up to 64 of its letters, ? for what cannot be printed. */
VRAM__FN void vram__error_quote(vram_error *e, const char *s, uint32_t len) {
  uint32_t i;
  for (i = 0; i < len && i < 64; i++) {
    const char letter = (char)(s[i] >= 32 && s[i] < 127 ? s[i] : '?');
    vram__error_letters(e, &letter, 1);
  }
}

/* Sizes: 32x32x3 */
VRAM__FN void vram__error_shape(vram_error *e, const uint64_t *size, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; i++)
    vram__error_number(e, i ? "x" : "", size[i]);
}
