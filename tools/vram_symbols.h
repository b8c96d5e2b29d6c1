/* Names for addresses in programs and libraries: functions from the symbols of ELF files and of the
   files that hold what was stripped from them, lines from DWARF through addr2line or
   llvm-symbolizer where one of these is installed. */
#ifndef VRAM_SYMBOLS_H
#define VRAM_SYMBOLS_H

#include "vram_command.h"

/* A place in the source; what was inlined there comes before what it is in. */
typedef struct symbol {
  const char *function, *file; /* NULL: not known */
  uint32_t line;
  struct symbol *outer; /* NULL: the function that was called */
} symbol;

/* A file; texts and answers live as long as the process. */
typedef struct symbol_module symbol_module;

/* The file with that build id (0 bytes: whatever stands there); NULL: no memory. */
symbol_module *symbols_of(const char *path, const unsigned char *id, uint32_t id_bytes);

/* A report begins: lines are looked for in it for some seconds, those that are missing then in the
   next one. */
void symbols_begin(void);

/* What the call at that address of the file is, from where it returns to; NULL: nothing is known.
   After symbols_ask of all that is wanted, which asks once for many. name: as the module exports
   it, or NULL. */
void symbols_ask(symbol_module *m, uint64_t returns_to);
const symbol *symbols_at(symbol_module *m, uint64_t returns_to, const char *name);

/* Does the name of a function, of n bytes, say nothing about who asked for memory? PyTorch's
   caching allocator, what makes empty tensors (every allocation has them), what records stacks. */
int symbols_passing(const char *name, size_t n);

/* A copy that lives as long as the process; NULL: no memory. */
const char *symbols_keep(const char *text);

#endif
