/* Values of a file that a program wrote down: JSON, and Python's pickle of dict, list, tuple, str,
   int, float, bool and None. A pickle is read, never executed: what would import or call something
   is refused. Texts stay in the file's bytes, which are changed where they hold escapes. */
#ifndef VRAM_VALUES_H
#define VRAM_VALUES_H

#include "vram_command.h"

enum { V_NONE, V_BOOL, V_INT, V_HUGE, V_FLOAT, V_TEXT, V_LIST, V_DICT, V_MARK };

typedef struct datum {
  uint8_t type;
  uint32_t len; /* V_TEXT: bytes */
  union {
    int64_t i; /* V_BOOL, V_INT; of V_HUGE only is known that it does not fit */
    double f;
    const char *s;   /* V_TEXT: no 0 behind it */
    struct box *box; /* V_LIST (tuples, too), V_DICT */
  } as;
} datum;

typedef struct box { /* what a list holds; of a dict: key, value, key, value ... */
  datum *v;
  struct box *made_before;
  uint32_t n, cap;
  uint32_t known; /* what its reader keeps: a pickle may name a box many times; 0: nothing yet */
} box;

typedef struct document {
  const char *path;
  char *s;
  size_t len, at;
  size_t op; /* where the opcode of a pickle began */
  box *boxes;
  datum *stack, *memo;
  size_t nstack, stack_cap, nmemo, memo_cap;
  size_t line, begin; /* of JSON: the line, and where it begins; 0: positions are bytes */
  int status;
} document;

enum { MAX_ITEMS = 0x7fffffff };

/* The value of a whole file; not FITS: message printed. document_end() in any case. */
int document_read_json(document *d, datum *root);
int document_read_pickle(document *d, datum *root);
void document_end(document *d);

/* What a dict says of a key; NULL: nothing, or v is none. The last of equal keys counts. */
const datum *datum_get(const datum *v, const char *key);
/* v is this text; v may be NULL */
int datum_is(const datum *v, const char *text);
/* Item i of a list, NULL behind the last one and of what is none; how many there are. */
const datum *datum_item(const datum *list, uint32_t i);
uint32_t datum_items(const datum *list);
/* "an integer", "a list" */
const char *datum_kind(const datum *v);

#endif
