/* Frames of CPython: tools/preload_python.h.

   PyTorch gives the GIL back before it allocates, and may hold locks that whoever has the GIL waits
   for. So nothing here takes it, counts a reference or makes an object. It is not needed for the
   frames of one's own thread: they, their code and its texts stay as they are while the thread is
   in C. The public functions that are called only look: which thread state is this thread's, which
   line an instruction is of, which letter a text has.

   Where in a thread state its frame lies, in a frame its code and the one before it, in code its
   texts: the interpreter says so since 3.13 (_Py_DebugOffsets at the beginning of _PyRuntime, made
   for readers from outside); before, a version has its row here, from its headers. The first look
   of a process asks the kernel for every word, so that a frame that is laid out otherwise costs
   names, not the program. Other versions: no frames. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* tools/preload_libc.c */
#undef _FILE_OFFSET_BITS
#include "preload_python.h"
#include "preload_libc.h"
#include "preload_route.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Offsets in bytes. */
typedef struct layout {
  uint32_t minor;                       /* 3.minor */
  uint32_t indirect;                    /* 1: a thread state has a _PyCFrame, and that the frame */
  uint32_t current[2];                  /* of a thread state; of its _PyCFrame */
  uint32_t previous, code, instruction; /* of a frame */
  uint32_t file, name, bytes;           /* of code; its instructions */
} layout;
static const layout layouts[] = {{8, 0, {24, 0}, 24, 32, 0, 104, 112, 0},
                                 {9, 0, {24, 0}, 24, 32, 0, 104, 112, 0},
                                 {10, 0, {24, 0}, 24, 32, 0, 104, 112, 0},
                                 {11, 1, {56, 8}, 48, 32, 56, 112, 120, 184},
                                 {12, 1, {56, 0}, 8, 0, 56, 112, 120, 192}};

static struct {
  const layout *in;
  void *(*state)(void);
  int (*initialized)(void);
  int (*line_of_frame)(void *frame);             /* 3.8 to 3.10, and since 3.12 */
  int (*line_of_code)(const void *code, int at); /* 3.11 */
  intptr_t (*length)(const void *text);
  uint32_t (*letter)(const void *text, intptr_t at);
  const void *code_type, *text_type;
  int known; /* 1: all of this is there */
} python;
static layout said; /* by the interpreter itself */
static int trusted; /* frames were as they should be */

enum { TYPE_AT = 8, DEPTH = 256 };

/* 0: nobody may read it. */
static int read_word(uintptr_t address, uintptr_t *word) {
  struct iovec to, from;
  *word = 0;
  if (trusted) {
    *word = *(const uintptr_t *)address;
    return 1;
  }
  to.iov_base = word;
  from.iov_base = (void *)address;
  to.iov_len = from.iov_len = sizeof *word;
  return syscall(SYS_process_vm_readv, getpid(), &to, 1ul, &from, 1ul, 0ul) == (long)sizeof *word;
}

/* What stands there; 0: nobody may read it. */
static uintptr_t word_at(uintptr_t address) {
  uintptr_t word;
  return read_word(address, &word) ? word : 0;
}

/* Where in the table the offsets stand that are needed: every version has other fields between them
   (its Include/internal/pycore_debug_offsets.h, in 3.13 pycore_runtime.h). In builds without a lock
   of the interpreter (--disable-gil) the line of a frame may only be asked for by a thread that is
   attached to it, which one that allocates is not: no frames. */
static const layout *said_by(const uint64_t *runtime, uint32_t minor) {
  static const struct {
    uint32_t minor, current, previous, code, instruction, file, name;
  } words[] = {
      {13, 23, 29, 30, 31, 35, 36}, {14, 26, 32, 33, 34, 40, 41}, {15, 26, 40, 41, 42, 48, 49}};
  enum { FREE_THREADED = 2 };
  size_t i;
  if (!runtime || memcmp(runtime, "xdebugpy", 8) != 0 || runtime[FREE_THREADED])
    return NULL;
  for (i = 0; i < sizeof words / sizeof *words; i++)
    if (words[i].minor == minor && (runtime[1] >> 16 & 0xff) == minor) {
      said.minor = minor;
      said.current[0] = (uint32_t)runtime[words[i].current];
      said.previous = (uint32_t)runtime[words[i].previous];
      said.code = (uint32_t)runtime[words[i].code];
      said.instruction = (uint32_t)runtime[words[i].instruction];
      said.file = (uint32_t)runtime[words[i].file];
      said.name = (uint32_t)runtime[words[i].name];
      return &said;
    }
  return NULL;
}

static uint32_t minor_of(const char *version) { /* "3.11.7 (main, ..." */
  uint32_t n = 0;
  if (!version || version[0] != '3' || version[1] != '.')
    return 0;
  for (version += 2; *version >= '0' && *version <= '9' && n < 100; version++)
    n = 10 * n + (uint32_t)(*version - '0');
  return n;
}

void find_python(void) {
  const char *(*version)(void);
  const layout *in = NULL;
  uint32_t minor;
  size_t i;
  int lines;
  if (python.known || on_small_stack() || !find_function(&version, "Py_GetVersion"))
    return;
  minor = minor_of(version());
  for (i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (layouts[i].minor == minor)
      in = &layouts[i];
  if (!in)
    in = said_by((const uint64_t *)find_anywhere("_PyRuntime"), minor);
  if (minor == 11)
    lines = find_function(&python.line_of_code, "PyCode_Addr2Line");
  else
    lines =
        find_function(&python.line_of_frame,
                      minor < 11 ? "PyFrame_GetLineNumber" : "PyUnstable_InterpreterFrame_GetLine");
  python.in = in;
  python.code_type = find_anywhere("PyCode_Type");
  python.text_type = find_anywhere("PyUnicode_Type");
  if (in && lines && python.code_type && python.text_type &&
      find_function(&python.state, "PyGILState_GetThisThreadState") &&
      find_function(&python.initialized, "Py_IsInitialized") &&
      find_function(&python.length, "PyUnicode_GetLength") &&
      find_function(&python.letter, "PyUnicode_ReadChar")) {
    void *in_it; /* a program may close a Python that it has opened */
    memcpy(&in_it, &python.initialized, sizeof in_it);
    keep_loaded(in_it);
    __atomic_store_n(&python.known, 1, __ATOMIC_RELEASE);
  }
}

static int is_text(uintptr_t object) {
  return object && word_at(object + TYPE_AT) == (uintptr_t)python.text_type;
}

/* 0: it is not a frame of Python code, but what the interpreter puts between. */
static int look_into(uintptr_t frame, python_frame *to) {
  const uintptr_t code = word_at(frame + python.in->code) & ~(uintptr_t)7;
  uintptr_t file, name;
  if (!code || word_at(code + TYPE_AT) != (uintptr_t)python.code_type)
    return 0;
  file = word_at(code + python.in->file);
  name = word_at(code + python.in->name);
  if (!is_text(file) || !is_text(name))
    return 0;
  to->code = (const void *)code;
  to->file = (const void *)file;
  to->name = (const void *)name;
  to->line = 0;
  return 1;
}

static int line_of(uintptr_t frame, const python_frame *f) {
  int line = 0;
  if (python.line_of_frame)
    line = python.line_of_frame((void *)frame);
  else if (python.line_of_code)
    line = python.line_of_code(f->code, (int)(word_at(frame + python.in->instruction) -
                                              ((uintptr_t)f->code + python.in->bytes)));
  return line < 0 ? 0 : line;
}

void python_text(const void *object, char *to, uint32_t cap) {
  const intptr_t n = python.length(object);
  intptr_t i = n < (intptr_t)cap ? 0 : n - (intptr_t)cap + 1;
  uint32_t at = 0;
  for (; i < n && at + 4 < cap; i++) {
    const uint32_t c = python.letter(object, i);
    if (c < 0x80)
      to[at++] = (char)c;
    else if (c < 0x800) {
      to[at++] = (char)(0xc0 | c >> 6);
      to[at++] = (char)(0x80 | (c & 63));
    } else {
      if (c >= 0x10000)
        to[at++] = (char)(0xf0 | c >> 18);
      to[at++] = (char)(c < 0x10000 ? 0xe0 | c >> 12 : 0x80 | (c >> 12 & 63));
      to[at++] = (char)(0x80 | (c >> 6 & 63));
      to[at++] = (char)(0x80 | (c & 63));
    }
  }
  to[at] = 0;
}

static int holds(const char *text, const char *part) {
  size_t i;
  for (; *text; text++) {
    for (i = 0; part[i] && text[i] == part[i]; i++)
      ;
    if (!part[i])
      return 1;
  }
  return 0;
}

/* Is it a file of the program, or of a library? Asked once for each code, as a rule. */
static int is_own(const python_frame *f) {
  enum { KNOWN = 1024 };
  static struct {
    uintptr_t key;
    int own;
  } known[KNOWN];
  const uintptr_t key = ((uintptr_t)f->code ^ ((uintptr_t)f->file << 7)) | 1;
  const size_t at = (size_t)((uintptr_t)f->code >> 5) % KNOWN;
  char file[512];
  int own;
  if (__atomic_load_n(&known[at].key, __ATOMIC_ACQUIRE) == key)
    return known[at].own;
  python_text(f->file, file, sizeof file);
  own = !holds(file, "/lib/python3") && !holds(file, "/lib64/python3") &&
        !holds(file, "/site-packages/") && !holds(file, "/dist-packages/") &&
        !holds(file, "<frozen ") && !holds(file, "<shim>"); /* 3.12: where C calls Python */
  __atomic_store_n(&known[at].key, 0, __ATOMIC_RELEASE);
  known[at].own = own;
  __atomic_store_n(&known[at].key, key, __ATOMIC_RELEASE);
  return own;
}

uint32_t python_frames(python_frame *to, uint32_t n) {
  uintptr_t state, frame;
  python_frame f;
  uint32_t depth, k = 0, seen = 0;
  int is_read = 1;
  if (!__atomic_load_n(&python.known, __ATOMIC_ACQUIRE) || !n || !python.initialized())
    return 0;
  state = (uintptr_t)python.state();
  if (!state || on_small_stack())
    return 0;
  frame = word_at(state + python.in->current[0]);
  if (python.in->indirect && frame)
    frame = word_at(frame + python.in->current[1]);
  for (depth = 0; frame && k < n && depth < DEPTH; depth++) {
    if (look_into(frame, &f)) {
      if (!seen++) { /* if no other is the program's */
        to[0] = f;
        to[0].line = line_of(frame, &f);
      }
      if (is_own(&f)) {
        f.line = line_of(frame, &f);
        to[k++] = f;
      }
    }
    is_read = read_word(frame + python.in->previous, &frame);
  }
  if (seen && is_read && (!frame || k == n))
    trusted = 1;
  return k ? k : seen != 0;
}
