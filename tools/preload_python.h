/* Which line of a Python program this thread is in. */
#ifndef PRELOAD_PYTHON_H
#define PRELOAD_PYTHON_H

#include <stdint.h>

enum { PYTHON_FRAMES = 8 };

typedef struct python_frame {
  const void *code, *file, *name; /* objects of Python */
  int line;
} python_frame;

/* Looks for an interpreter among the libraries that are loaded. */
void find_python(void);

/* This thread's frames, innermost first, at most n: those of files that are neither in Python's own
   library nor in site-packages; if there is none, the innermost. 0: no Python runs here. */
uint32_t python_frames(python_frame *to, uint32_t n);

/* A text of Python in UTF-8, its end if it is too long; "": it is none. */
void python_text(const void *object, char *to, uint32_t cap);

#endif
