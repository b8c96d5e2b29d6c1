/* >>write/values    values as JSON, or as a pickle of protocol 2
   Only opcodes that pytorch.org/memory_viz knows, at most 1,000 items in one of APPENDS: the
   page puts them on the stack. Words that come again are in the memo. */
#include "write/write.h"

static void vram__value_byte(vram__values *v, uint32_t byte) {
  const char c = (char)(uint8_t)byte;
  vram__pen_put(&v->pen, &c, 1);
}

/* The lowest n bytes, the lowest first. */
static void vram__value_bytes(vram__values *v, uint64_t bytes, uint32_t n) {
  while (n--) {
    vram__value_byte(v, (uint32_t)(bytes & 255));
    bytes >>= 8;
  }
}

VRAM__FN void vram__value_comma(vram__values *v) {
  if (v->json && v->comma)
    vram__pen_puts(&v->pen, ",");
  v->comma = 1;
}

VRAM__FN void vram__value_number(vram__values *v, uint64_t n) {
  vram__value_comma(v);
  if (v->json)
    vram__pen_number(&v->pen, n, 0);
  else if (n < UINT32_C(1) << 31) {
    const uint32_t bytes = n < 256 ? 1 : n < 65536 ? 2 : 4;
    vram__value_byte(v, bytes == 1 ? 'K' : bytes == 2 ? 'M' : 'J');
    vram__value_bytes(v, n, bytes);
  } else { /* two's complement */
    vram__value_byte(v, 0x8a);
    vram__value_byte(v, n >> 63 ? 9 : 8);
    vram__value_bytes(v, n, n >> 63 ? 9 : 8);
  }
}

VRAM__FN void vram__value_bool(vram__values *v, int truth) {
  vram__value_comma(v);
  if (v->json)
    vram__pen_puts(&v->pen, truth ? "true" : "false");
  else
    vram__value_byte(v, truth ? 0x88 : 0x89);
}

/* What is no character becomes '?', which is as long in bytes. */
VRAM__FN void vram__value_text(vram__values *v, const char *z) {
  vram__value_comma(v);
  if (v->json) {
    vram__pen_puts(&v->pen, "\"");
    vram__pen_json(&v->pen, z);
    vram__pen_puts(&v->pen, "\"");
  } else {
    vram__value_byte(v, 'X');
    vram__value_bytes(v, vram__text_len(z), 4);
    vram__pen_label(&v->pen, z);
  }
}

VRAM__FN void vram__value_word(vram__values *v, vram__file_word word) {
  static const char *const text[] = {
#define VRAM__X(id) #id,
      VRAM__WORDS(VRAM__X)
#undef VRAM__X
  };
  if (v->json || !v->known[word])
    vram__value_text(v, text[word]);
  if (v->json)
    return;
  vram__value_byte(v, v->known[word] ? 'h' : 'q');
  vram__value_byte(v, (uint32_t)word);
  v->known[word] = 1;
}

VRAM__FN void vram__value_key(vram__values *v, vram__file_word word) {
  vram__value_word(v, word);
  if (v->json)
    vram__pen_puts(&v->pen, ":");
  v->comma = 0;
}

VRAM__FN void vram__value_open(vram__values *v, int dict) {
  vram__value_comma(v);
  vram__pen_puts(&v->pen, v->json ? dict ? "{" : "[" : dict ? "}(" : "](");
  v->comma = 0;
}

VRAM__FN void vram__value_close(vram__values *v, int dict) {
  vram__pen_puts(&v->pen, v->json ? dict ? "}" : "]" : dict ? "u" : "e");
  v->comma = 1;
}

/* Before each item of a list that may be long; *n counts them. */
VRAM__FN void vram__value_item(vram__values *v, uint64_t *n) {
  if (++*n % 1000 == 0 && !v->json)
    vram__pen_puts(&v->pen, "e(");
}

VRAM__FN void vram__value_field(vram__values *v, vram__file_word word, uint64_t n) {
  vram__value_key(v, word);
  vram__value_number(v, n);
}

/* (0, 0): the pool that is not private. */
VRAM__FN void vram__value_pool_id(vram__values *v, vram__file_word word) {
  vram__value_key(v, word);
  vram__value_comma(v);
  vram__pen_puts(&v->pen, v->json ? "[0,0]" : "K");
  if (!v->json) {
    vram__value_byte(v, 0);
    vram__value_byte(v, 'K');
    vram__value_byte(v, 0);
    vram__value_byte(v, 0x86);
  }
}
