/* The library that `vram run` puts before a program (LD_PRELOAD): it stands before the CUDA runtime
   and the CUDA driver, passes every call on and counts those that give or take memory.

   A program reaches CUDA in one of these ways, and each leads through here:
     linked with it                  the functions below have CUDA's names and are found first
     dlopen and dlsym                dlsym and dlvsym are here, too
     cuGetProcAddress,               are among the functions below, and give out those below
     cudaGetDriverEntryPoint
     a static CUDA runtime           does the second, then the third
   A call counts once: what a function of CUDA calls inside is not looked at.

   It needs nothing but the C library, makes no call that waits for the device, prints nothing, and
   without VRAM_RUN in the environment does nothing. It may run before a sanitizer is ready
   (preload_libc.c), on the stack of a handler of signals, in a program that has closed 0, 1 and 2
   or cleared its environment, and after libraries were closed; those of CUDA stay loaded to the
   end.

   A fork has a part of the report of its own, as has what exec, posix_spawn or vfork start. Not
   seen, or seen in another way:
     a static program, one of 32 bits (the loader says so), one with more rights than who started
     it, one that is started without LD_PRELOAD or VRAM_RUN: nothing of it is seen;
     a program that changes its user or root before its first call: it cannot open the shared
     memory;
     a child by _Fork or clone that calls CUDA: counts in its parent's part;
     a handler of signals that interrupts a call of CUDA and makes one: waits for ever, as CUDA
     may. */
#if __SIZEOF_POINTER__ < 8
typedef int vram_run_needs_64_bit;
#else
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* tools/preload_libc.c */
#undef _FILE_OFFSET_BITS
#include "preload_core.h"
#include "preload_libc.h"
#include "preload_python.h"
#include "preload_route.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { FAILED_NO_FUNCTION = 801, SUCCESS = 0, OUT_OF_MEMORY = 2, SHUT_DOWN = 4 };
typedef unsigned long long devptr;
#define NUMBER(p) ((uint64_t)(uintptr_t)(p))

__thread int inside;
static __thread int asking; /* in one that looks for functions */

/* ---- the section of this process */

static run_file *file;
static char run_path[64];    /* from the beginning: the program may clear its environment */
static run_section *section; /* NULL: not yet, or none */
static pthread_mutex_t section_lock = PTHREAD_MUTEX_INITIALIZER;
static int counting; /* 0: not known yet, 1: in `section`, -1: no */
static vram_cuda_api api;
static int api_tries;
static int pools; /* memory pools were used */

static void append_report(const char *text, uint64_t n) {
  run_section *s = section;
  const uint32_t at = s->last;
  if (n > RUN_REPORT - 1 - at)
    n = RUN_REPORT - 1 - at;
  memcpy(s->report + at, text, n);
  s->report[at + n] = 0;
  s->last = at + (uint32_t)n;
}

/* For PyTorch's pluggable allocator. */
static __thread struct {
  char *text;
  uint32_t n, on;
} told;

void keep_told(int on) { told.on = (uint32_t)on; }

static void put_told(const char *text, uint64_t n) {
  void *at;
  if (!told.text) {
    at = mmap(NULL, TOLD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    told.text = at == MAP_FAILED ? NULL : (char *)at;
    told.n = 0;
  }
  if (!told.text)
    return;
  n = n < TOLD - 1 - told.n ? n : TOLD - 1 - told.n;
  memcpy(told.text + told.n, text, n);
  told.n += (uint32_t)n;
}

uint32_t take_told(char to[TOLD]) {
  const uint32_t n = told.text ? told.n : 0;
  if (!told.text)
    return 0;
  memcpy(to, told.text, n);
  to[n] = 0;
  munmap(told.text, TOLD);
  told.text = NULL;
  return n;
}

static int write_report(void *user, const char *text, uint64_t n) {
  (void)user;
  if (told.on)
    put_told(text, n);
  else
    append_report(text, n);
  return 0;
}
const vram_sink report_sink = {write_report, NULL};

void *find_real(void *user, vram_cuda_library lib, const char *symbol) {
  const dlsym_function find = real_dlsym();
  void *real = NULL;
  (void)user;
  if (find && lib != VRAM_CUDA_LIB_NVML)
    real = find(RTLD_NEXT, symbol);
  real = real ? real : find_anywhere(symbol);
  if (real)
    keep_loaded(real);
  return real;
}

/* The functions that the tracker calls, of libraries that the program has loaded. The runtime loads
   the driver at its first call. */
static void fill_api(void) {
  if (api.cu_StreamIsCapturing || api_tries > 8)
    return;
  api_tries++;
  vram_cuda_api_fill(&api, find_real, NULL, 1);
  /* the driver's leave cudaGetLastError alone */
  if (api.cu_StreamIsCapturing)
    api.cuda_StreamIsCapturing = NULL;
  if (api.cu_MemPoolGetAttribute)
    api.cuda_MemPoolGetAttribute = NULL;
  if (api.cu_MemGetInfo)
    api.cuda_MemGetInfo = api.cu_MemGetInfo;
}

/* The program may have closed 0, 1 or 2, and another of its threads may write there: what stands
   there meanwhile can be neither read nor written. A file that makes wait is not waited for. */
static int open_above(const char *path, int flags) {
  int held[3], n = 0, fd = open("/", O_PATH | O_CLOEXEC);
  for (; fd >= 0 && fd <= 2 && n < 3; fd = open("/", O_PATH | O_CLOEXEC))
    held[n++] = fd;
  if (fd >= 0)
    close(fd);
  fd = fd < 0 ? -1 : open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  while (n)
    close(held[--n]);
  return fd;
}

static void process_name(char *to, size_t cap) {
  const int fd = open_above("/proc/self/cmdline", O_RDONLY);
  ssize_t n = fd < 0 ? 0 : read(fd, to, cap - 1), i;
  if (fd >= 0)
    close(fd);
  n = n < 0 ? 0 : n;
  while (n && !to[n - 1])
    n--;
  for (i = 0; i < n; i++)
    if ((unsigned char)to[i] < 32)
      to[i] = ' ';
  to[n] = 0;
}

/* -1: there is none, or another file than `vram run` made: a mapping beyond its end would crash the
   program. The file is mapped by the first call. */
static int open_file(void) {
  const int fd = *run_path ? open_above(run_path, O_RDWR) : -1;
  run_file head;
  void *at;
  if (fd < 0)
    return -1;
  memset(&head, 0, sizeof head);
  if (lseek(fd, 0, SEEK_END) != (off_t)(RUN_HEAD + RUN_SECTIONS * RUN_SPAN) ||
      lseek(fd, 0, SEEK_SET) || read(fd, &head, sizeof head) != (ssize_t)sizeof head ||
      head.magic != RUN_MAGIC || head.layout != RUN_LAYOUT) {
    close(fd);
    return -1;
  }
  if (!file) {
    at = mmap(NULL, RUN_HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    file = at == MAP_FAILED ? NULL : (run_file *)at;
  }
  return fd;
}

/* Under section_lock; what `counting` becomes. */
static int open_section(void) {
  const int fd = open_file();
  uint32_t i = file ? __atomic_fetch_add(&file->section, 1, __ATOMIC_RELAXED) : RUN_SECTIONS;
  vram_cuda_options o;
  vram_error err;
  void *at;
  int result = -1;
  if (fd >= 0 && i < RUN_SECTIONS) {
    at = mmap((void *)(uintptr_t)(RUN_ADDRESS + i * RUN_SPAN), RUN_SPAN, PROT_READ | PROT_WRITE,
              MAP_SHARED, fd, (off_t)(RUN_HEAD + i * RUN_SPAN));
    if (at != MAP_FAILED) {
      run_section *s = (run_section *)at;
      s->address = NUMBER(at);
      s->pid = getpid();
      s->parent = getppid();
      process_name(s->command, sizeof s->command);
      o = run_options(file);
      o.log = &report_sink;
      section = s;
      fill_api();
      find_python();
      if (!vram_cuda_tracker_init(&s->tracker, &api, &o, (char *)at + run_tracker_at(),
                                  RUN_SPAN - run_tracker_at(), &err)) {
        s->magic = RUN_MAGIC;
        __atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
        result = 1;
      }
    }
  }
  if (fd >= 0)
    close(fd);
  return result;
}

vram_cuda_tracker *track(void) {
  if (!__atomic_load_n(&counting, __ATOMIC_ACQUIRE)) {
    pthread_mutex_lock(&section_lock);
    if (!counting) {
      inside++;
      __atomic_store_n(&counting, open_section(), __ATOMIC_RELEASE);
      inside--;
    }
    pthread_mutex_unlock(&section_lock);
  }
  return counting > 0 ? &section->tracker : NULL;
}

/* ---- who called */

static uint64_t gone; /* objects that were unloaded: an address means another place since then */

enum { SITES = 1 << 14, FRAMES = 32 + RUN_ALLOCATOR };
static struct {
  uint64_t key;
  uint32_t owner;
} site[SITES];
static pthread_mutex_t site_lock = PTHREAD_MUTEX_INITIALIZER;

/* A text in the section is made where it stays, under site_lock: the stack may be a small one. */
typedef struct making {
  char *text;
  uint32_t n, room;
} making;

static char *texts(void) { return (char *)section + run_texts_at(); }
static run_places *places(void) {
  return (run_places *)(void *)((char *)section + run_places_at());
}

static making make(uint32_t cap) {
  making m;
  m.text = texts() + section->texts;
  m.n = 0;
  m.room = RUN_TEXTS - section->texts;
  m.room = m.room < cap ? m.room : cap;
  return m;
}

static void put(making *m, const char *text) {
  while (*text && m->n + 1 < m->room)
    m->text[m->n++] = *text++;
}

static void put_hex(making *m, uintptr_t n) {
  char text[2 * sizeof n + 3], *at = text + sizeof text - 1;
  *at = 0;
  for (; n || !*at; n >>= 4)
    *--at = "0123456789abcdef"[n & 15];
  *--at = 'x';
  *--at = '0';
  put(m, at);
}

static void put_number(making *m, uint64_t n) {
  char text[24], *at = text + sizeof text - 1;
  *at = 0;
  for (; n || !*at; n /= 10)
    *--at = (char)('0' + n % 10);
  put(m, at);
}

/* Where texts are, + 1, by their hashes; those that found no slot are looked for one by one. */
enum { SLOTS = 1 << 15, SLOTS_TRIED = 64 };
static uint32_t text_slot[SLOTS];
static uint32_t texts_beside; /* where the first of those is, + 1 */

/* The text's place + 1, the same for the same text; 0: no room, or nothing was put. */
static uint32_t made(const making *m) {
  uint32_t hash = UINT32_C(2166136261), at, i, *slot = NULL; /* FNV-1a */
  if (!m->room || !m->n)
    return 0;
  m->text[m->n] = 0;
  for (i = 0; i < m->n; i++)
    hash = (hash ^ (unsigned char)m->text[i]) * UINT32_C(16777619);
  for (i = 0; i < SLOTS_TRIED; i++) {
    slot = &text_slot[((hash ^ hash >> 16) + i) % SLOTS];
    if (!*slot)
      break;
    if (!strcmp(texts() + *slot - 1, m->text))
      return *slot;
  }
  at = section->texts;
  if (i == SLOTS_TRIED && !texts_beside)
    texts_beside = at + 1;
  else if (i == SLOTS_TRIED)
    for (at = texts_beside - 1; at < section->texts; at += (uint32_t)strlen(texts() + at) + 1)
      if (!strcmp(texts() + at, m->text))
        return at + 1;
  section->texts += m->n + 1;
  if (i < SLOTS_TRIED)
    *slot = at + 1;
  return at + 1;
}

static const char *text_at(uint32_t at) { return at ? texts() + at - 1 : NULL; }

static uint32_t keep(const char *text) {
  making m = make(RUN_TEXTS);
  put(&m, text);
  return made(&m);
}

const char *text_of_section(const char *text) {
  uint32_t at;
  if (!track())
    return text;
  pthread_mutex_lock(&site_lock);
  at = keep(text);
  pthread_mutex_unlock(&site_lock);
  return text_at(at);
}

static uint32_t ranges_before;           /* names that the parent of this process lost */
static uint32_t range_text[RANGE_NAMES]; /* places of their names in the section, + 1 */

const char *tag_here(void) {
  uint32_t number, at;
  const char *name = track() ? range_now(&number) : NULL;
  if (section)
    section->names_lost = vram_cuda_nvtx_lost() - ranges_before;
  if (!name)
    return NULL;
  at = __atomic_load_n(&range_text[number], __ATOMIC_ACQUIRE);
  if (!at) {
    pthread_mutex_lock(&site_lock);
    at = keep(name);
    pthread_mutex_unlock(&site_lock);
    __atomic_store_n(&range_text[number], at, __ATOMIC_RELEASE);
  }
  return text_at(at);
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* ---- where it was called: what is looked for before site_lock is taken, since whoever loads a
   library may wait for that */
typedef struct native_frame {
  object_place in;
  const char *name; /* as the object exports it, or NULL */
  uintptr_t at;     /* in the object */
} native_frame;

static void look_at(const void *pc, native_frame *f) {
  const char *call = (const char *)pc - 1; /* not what follows it */
  Dl_info info;
  memset(f, 0, sizeof *f);
  f->at = (uintptr_t)pc;
  if (!place_in_object(&f->in, call))
    return;
  f->at -= f->in.base;
  if (dladdr(call, &info))
    f->name = info.dli_sname;
}

/* All that is below is under site_lock. */

/* The program's own is found through the kernel: nobody else knows how it was started. */
static uint32_t module_path(const char *path) {
  making m = make(4096);
  ssize_t n;
  if (*path)
    return keep(path);
  n = m.room < 2 ? 0 : readlink("/proc/self/exe", m.text, m.room - 1);
  m.n = n > 0 ? (uint32_t)n : 0;
  return made(&m);
}

/* The module's number; RUN_MODULES: there is no room. */
static uint32_t module_of(const object_place *in) {
  run_places *p = places();
  const uint32_t path = module_path(in->path),
                 bytes = in->id_bytes < RUN_ID ? in->id_bytes : RUN_ID;
  uint32_t i;
  for (i = 0; i < p->modules; i++)
    if (p->module[i].path == path && p->module[i].id_bytes == bytes &&
        !memcmp(p->module[i].id, in->id, bytes))
      return i;
  if (i == RUN_MODULES)
    return i;
  p->module[i].path = path;
  p->module[i].id_bytes = bytes;
  memcpy(p->module[i].id, in->id, bytes);
  p->modules++;
  return i;
}

static run_frame frame_of(const native_frame *f) {
  run_frame r;
  memset(&r, 0, sizeof r);
  r.at = f->at;
  r.name = f->name ? keep(f->name) : 0;
  r.module = f->in.path ? module_of(&f->in) : (uint32_t)RUN_MODULES;
  return r;
}

static run_frame frame_of_python(const python_frame *f) {
  char text[512];
  run_frame r;
  memset(&r, 0, sizeof r);
  r.module = RUN_PYTHON;
  r.at = (uint64_t)(f->line < 0 ? 0 : f->line);
  python_text(f->file, text, sizeof text);
  r.file = keep(text);
  python_text(f->name, text, sizeof text);
  r.name = keep(text);
  return r;
}

static const char *shown_part(const char *path, int exact) {
  return exact ? path : last_part(path);
}

/* train.py:41 or MODULE+0x12ab; exact: with the whole path */
static void put_place(making *m, const run_frame *f, int exact) {
  if (f->module == RUN_PYTHON) {
    put(m, f->file ? shown_part(text_at(f->file), exact) : "?");
    put(m, ":");
    put_number(m, f->at);
    return;
  }
  if (f->module < RUN_MODULES && places()->module[f->module].path) {
    put(m, shown_part(text_at(places()->module[f->module].path), exact));
    put(m, "+");
  }
  put_hex(m, (uintptr_t)f->at);
}

/* The frames that are shown: those of Python, or there are none. exact: with the place of each. */
static void put_callers(making *m, const run_frame *f, uint32_t n, int exact) {
  const int python = f->module == RUN_PYTHON;
  uint32_t i;
  if (f->name)
    put(m, text_at(f->name));
  for (i = 1; i < n && (f[i].module == RUN_PYTHON) == python; i++) {
    put(m, " < ");
    if (python || exact || !f[i].name) {
      put_place(m, &f[i], exact);
      put(m, f[i].name ? " " : "");
    }
    if (f[i].name)
      put(m, text_at(f[i].name));
  }
}

/* The owner that has this tag, and whose frames are the same as those that stand behind the last
   ones; UINT32_MAX: none. */
static uint32_t owner_at(const vram_ledger *l, uint32_t n, const char *tag) {
  const run_places *p = places();
  uint32_t i;
  for (i = 1; i <= RUN_OWNERS; i++)
    if (p->owner[i].n == n && l->owner[i].tag == tag &&
        !memcmp(&p->frame[p->owner[i].first], &p->frame[p->frames], n * sizeof p->frame[0]))
      return i;
  return UINT32_MAX;
}

static uint32_t new_owner(vram_ledger *l, uint32_t n, const char *tag) {
  enum { PLACE = 512, CALLERS = 2048 };
  run_places *p = places();
  const run_frame *f = &p->frame[p->frames];
  uint32_t owner = owner_at(l, n, tag), place, callers;
  int exact = 0;
  making m;
  if (owner == UINT32_MAX && tag && l->nowner > RUN_OWNERS / 2) { /* the rest is for callers */
    tag = NULL;
    section->tags_lost++;
    owner = owner_at(l, n, tag);
  }
  if (owner != UINT32_MAX)
    return owner;
  do { /* other frames may have the same text as far as it is short */
    m = make(PLACE);
    put_place(&m, f, exact);
    place = made(&m);
    m = make(CALLERS);
    put_callers(&m, f, n, exact);
    callers = made(&m);
    owner = place ? vram_ledger_owner(l, text_at(place), 0, text_at(callers), tag) : 0;
    if (!owner || owner > RUN_OWNERS) /* no room */
      return owner;
  } while (p->owner[owner].n && !exact++);
  if (p->owner[owner].n)
    return owner;
  p->owner[owner].first = p->frames;
  p->frames += n; /* first: whoever reads looks for them where they are */
  __atomic_store_n(&p->owner[owner].n, n, __ATOMIC_RELEASE);
  return owner;
}

/* Too large for a small stack beside the rest. */
__attribute__((noinline)) static uint32_t new_site(vram_cuda_tracker *t, void *const *frame,
                                                   uint32_t n, const python_frame *python,
                                                   uint32_t npython, const char *tag) {
  native_frame native[FRAMES];
  run_frame *f;
  uint32_t i, owner = 0;
  for (i = 0; i < n; i++)
    look_at(frame[i], &native[i]);
  pthread_mutex_lock(&site_lock);
  if (places()->frames + npython + n <= RUN_FRAMES) {
    f = &places()->frame[places()->frames];
    for (i = 0; i < npython; i++)
      f[i] = frame_of_python(&python[i]);
    for (i = 0; i < n; i++)
      f[npython + i] = frame_of(&native[i]);
    owner = new_owner(&t->ledger, npython + n, tag);
  }
  pthread_mutex_unlock(&site_lock);
  find_python(); /* it may have been loaded since */
  return owner;
}

static uint64_t mixed(uint64_t key, uint64_t n) { return (key ^ n) * UINT64_C(0x9e3779b97f4a7c15); }

static uint32_t
    runtime_is_linked; /* the runtime, statically: it calls the driver, and is no caller */

/* Does a function that is not optimised hand on what the call that returns there gives? So do the
   templates of CUDA's header, cudaMalloc<float>: who called those is meant. */
static int hands_on(const void *returns_to) {
#if defined(__x86_64__)
  const unsigned char *code = (const unsigned char *)returns_to;
  if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xc4) /* add rsp; pop rbp */
    return code[4] == 0x5d && code[5] == 0xc3;
  return code[0] == 0xc9 && code[1] == 0xc3; /* leave; ret */
#elif defined(__aarch64__)
  const uint32_t *code = (const uint32_t *)returns_to; /* ldp x29, x30, [sp], n; ret */
  return (code[0] & 0xffc07fffu) == 0xa8c07bfdu && code[1] == 0xd65f03c0u;
#else
  (void)returns_to;
  return 0;
#endif
}

/* Where PyTorch's allocator calls, a few places: who asked it is meant. Some are enough. */
static const void *allocator_call[16];
static uint32_t allocator_calls;

static int is_allocator(const void *caller) {
  const uint32_t n = __atomic_load_n(&allocator_calls, __ATOMIC_ACQUIRE);
  uint32_t i;
  for (i = 0; i < n; i++)
    if (allocator_call[i] == caller)
      return 1;
  return 0;
}

/* 1: a place that was not known yet */
static int note_allocator(const void *caller) {
  object_place in;
  int noted = 0;
  memset(&in, 0, sizeof in);
  if (!place_in_object(&in, (const char *)caller - 1) || !in.path ||
      strcmp(last_part(in.path), "libc10_cuda.so") != 0)
    return 0;
  pthread_mutex_lock(&site_lock);
  if (allocator_calls < 16 && !is_allocator(caller)) {
    allocator_call[allocator_calls] = caller;
    __atomic_store_n(&allocator_calls, allocator_calls + 1, __ATOMIC_RELEASE);
    noted = 1;
  }
  pthread_mutex_unlock(&site_lock);
  return noted;
}

/* The report leaves out what is no caller of these frames, and those that are too many. */
static uint32_t frames_wanted(const void *caller, int driver, uint32_t npython) {
  uint32_t more = (uint32_t)hands_on(caller);
  if (driver && __atomic_load_n(&runtime_is_linked, __ATOMIC_RELAXED))
    more = RUN_RUNTIME;
  else if (!npython && is_allocator(caller)) /* with a line of Python, that is shown */
    more = RUN_ALLOCATOR;
  return file->stack + more < FRAMES ? file->stack + more : (uint32_t)FRAMES;
}

static uint32_t owner_of(vram_cuda_tracker *t, void *caller, int driver) {
  python_frame python[PYTHON_FRAMES];
  const uint32_t wanted = file->stack < PYTHON_FRAMES ? file->stack : (uint32_t)PYTHON_FRAMES,
                 npython = python_frames(python, wanted);
  const char *tag = tag_here();
  void *frame[FRAMES + 8];
  const uint32_t most = frames_wanted(caller, driver, npython);
  uint32_t n = 1, i, k = 0;
  uint64_t key;
  frame[0] = caller;
  if (most > 1 && !on_small_stack()) {
    const int depth = backtrace(frame, FRAMES + 8);
    while (k < (uint32_t)depth && frame[k] != caller)
      k++; /* this library's own */
    if (k == (uint32_t)depth)
      frame[k = 0] = caller;
    else
      n = (uint32_t)depth - k < most ? (uint32_t)depth - k : most;
  }
  key = mixed(1 + __atomic_load_n(&gone, __ATOMIC_ACQUIRE), NUMBER(tag));
  for (i = 0; i < n; i++)
    key = mixed(key, NUMBER(frame[k + i]));
  for (i = 0; i < npython; i++)
    key = mixed(mixed(mixed(key, NUMBER(python[i].code)), NUMBER(python[i].file)),
                (uint64_t)python[i].line);
  key |= 1;
  for (i = 0; i < 16; i++) {
    const uint32_t at = ((uint32_t)(key >> 40) + i) % SITES;
    const uint64_t seen = __atomic_load_n(&site[at].key, __ATOMIC_ACQUIRE);
    uint32_t owner;
    if (seen == key)
      return site[at].owner;
    if (seen)
      continue;
    if (!npython && note_allocator(caller))
      return owner_of(t, caller, driver);
    owner = new_site(t, frame + k, n, python, npython, tag);
    pthread_mutex_lock(&site_lock);
    if (!site[at].key) {
      site[at].owner = owner;
      __atomic_store_n(&site[at].key, key, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&site_lock);
    return owner;
  }
  return new_site(t, frame + k, n, python, npython, tag);
}

/* ---- a call on its way */

typedef struct call {
  vram_cuda_tracker *t; /* NULL: it does not count */
  void *caller, *real;
  vram_cuda_record record;
  uint32_t object; /* as `before` of the tracker gave it */
  int known, device, driver;
} call;

static int enter(call *c, int which, void *caller) {
  c->caller = caller;
  c->real = real_of(which, caller);
  c->driver = name_of[which][2] != 'd';
  c->t = inside ? NULL : track();
  c->known = c->device = 0;
  c->object = 0;
  return c->real != NULL;
}

/* The device of this thread's context. */
static uint32_t device_of(const call *c) {
  static int (*driver)(int *);
  static int tries;
  int device = 0;
  void *found;
  if (!c->driver && api.cuda_GetDevice)
    return api.cuda_GetDevice(&device) ? 0 : (uint32_t)device;
  if (!driver && tries < 8) {
    tries++;
    found = find_real(NULL, VRAM_CUDA_LIB_DRIVER, "cuCtxGetDevice");
    memcpy(&driver, &found, sizeof found);
  }
  if (driver)
    return driver(&device) ? 0 : (uint32_t)device;
  return api.cuda_GetDevice && !api.cuda_GetDevice(&device) ? (uint32_t)device : 0;
}

/* The report of a failed allocation takes more stack than threads and handlers of signals may have:
   it has one of its own, on which no signal is taken. One at a time. */
enum { REPORT_STACK = 256 << 10, REPORT_GUARD = 64 << 10 };
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  vram_cuda_tracker *t;
  vram_cuda_kind kind;
  uint32_t device, owner;
  uint64_t bytes, stream;
} report;
static ucontext_t report_at, report_back;
static char *report_stack;

static void begin_report(void) {
  section->last = 0;
  section->report[0] = 0;
}

/* vram run looks at this number: the report is whole. */
static void end_report(void) { __atomic_fetch_add(&section->reports, 1, __ATOMIC_RELEASE); }

void set_report(const char *text) {
  if (!track())
    return;
  pthread_mutex_lock(&report_lock);
  begin_report();
  append_report(text, strlen(text));
  end_report();
  pthread_mutex_unlock(&report_lock);
}

static void make_report(void) {
  begin_report();
  vram_cuda_on_oom(report.t, report.kind, report.device, report.bytes, report.stream, report.owner);
  end_report();
}

/* 0: there is no memory for it. */
static int have_report_stack(void) {
  void *at;
  if (report_stack)
    return 1;
  at = mmap(NULL, REPORT_GUARD + REPORT_STACK, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED || mprotect((char *)at + REPORT_GUARD, REPORT_STACK, PROT_READ | PROT_WRITE))
    return 0;
  report_stack = (char *)at + REPORT_GUARD;
  return 1;
}

static void failed(const call *c, int status, vram_cuda_kind kind, uint64_t bytes,
                   const void *stream) {
  const int host = kind == VRAM_CUDA_PINNED || kind == VRAM_CUDA_REGISTERED;
  uint32_t device, owner;
  if (status != OUT_OF_MEMORY)
    return;
  device = host ? VRAM_DEVICE_HOST : device_of(c);
  owner = owner_of(c->t, c->caller, c->driver);
  pthread_mutex_lock(&report_lock);
  report.t = c->t;
  report.kind = kind;
  report.device = device;
  report.owner = owner;
  report.bytes = bytes;
  report.stream = NUMBER(stream);
  if (have_report_stack() && !getcontext(&report_at)) {
    report_at.uc_stack.ss_sp = report_stack;
    report_at.uc_stack.ss_size = REPORT_STACK;
    report_at.uc_link = &report_back;
    sigfillset(&report_at.uc_sigmask);
    makecontext(&report_at, make_report, 0);
    (void)swapcontext(&report_back, &report_at);
  } else
    make_report();
  pthread_mutex_unlock(&report_lock);
}

static void allocated(const call *c, int status, vram_cuda_kind kind, uint64_t address,
                      uint64_t bytes, uint64_t block) {
  fill_api();
  if (status)
    failed(c, status, kind, bytes, NULL);
  else
    vram_cuda_on_alloc(c->t, kind, device_of(c), address, bytes, block,
                       owner_of(c->t, c->caller, c->driver));
}

/* pool NULL: the current one of the device */
static void allocated_async(const call *c, int status, uint64_t address, uint64_t bytes, void *pool,
                            void *stream) {
  static int (*driver)(void **, int);
  const uint32_t device = device_of(c);
  void *found;
  fill_api();
  if (status) {
    failed(c, status, VRAM_CUDA_ASYNC, bytes, stream);
    return;
  }
  if (vram_cuda_capturing(&api, stream)) {
    vram_cuda_on_graph(c->t, bytes);
    return;
  }
  pools = 1;
  if (!pool && !driver) {
    found = find_real(NULL, VRAM_CUDA_LIB_DRIVER, "cuDeviceGetMemPool");
    memcpy(&driver, &found, sizeof found);
  }
  if (!pool && (!driver || driver(&pool, (int)device)) && api.cuda_DeviceGetMemPool)
    (void)api.cuda_DeviceGetMemPool(&pool, (int)device);
  vram_cuda_on_pool_alloc(c->t, NUMBER(pool), device, NUMBER(stream), address, bytes,
                          owner_of(c->t, c->caller, c->driver));
}

static void freeing(call *c, uint64_t address) {
  c->known = vram_cuda_on_free(c->t, address, &c->record);
}
/* after the end of CUDA in this process nothing is left, whatever the call says */
static int is_gone(int status) { return status == SUCCESS || status == SHUT_DOWN; }
static void freed(const call *c, int status) {
  if (c->known)
    vram_cuda_on_freed(c->t, &c->record, is_gone(status));
}

/* What is allocated in a context goes with it. */
typedef struct doomed {
  uint64_t bytes; /* of this list */
  uint32_t n;
  vram_cuda_record record[1];
} doomed;

static doomed *doom(const call *c, void *context) {
  static int (*ask)(void *, int, devptr);
  vram_allocation *list;
  doomed *d;
  uint32_t n = vram_ledger_live(&c->t->ledger, NULL, 0), i;
  uint64_t bytes;
  void *found, *at;
  if (!ask) {
    found = find_real(NULL, VRAM_CUDA_LIB_DRIVER, "cuPointerGetAttribute");
    memcpy(&ask, &found, sizeof found);
  }
  if (!ask || !n)
    return NULL;
  bytes = sizeof *d + (uint64_t)n * (sizeof *list + sizeof d->record[0]);
  at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return NULL;
  d = (doomed *)at;
  d->bytes = bytes;
  list = (vram_allocation *)(void *)&d->record[n];
  i = vram_ledger_live(&c->t->ledger, list, n);
  n = i < n ? i : n;
  for (i = 0; i < n; i++) {
    void *of = NULL;
    if (list[i].kind != VRAM_CUDA_VMM && !ask(&of, 1, list[i].address) && of == context &&
        vram_cuda_on_free(c->t, list[i].address, &d->record[d->n]))
      d->n++;
  }
  return d;
}

static void doomed_done(const call *c, doomed *d, int status) {
  uint32_t i;
  if (!d)
    return;
  for (i = 0; i < d->n; i++)
    vram_cuda_on_freed(c->t, &d->record[i], is_gone(status));
  munmap(d, d->bytes);
}

/* ---- the functions */

/* NOLINTBEGIN(bugprone-macro-parentheses): parameters of functions and statements are no
   expressions */
/* name, its parameters, the arguments for the real one, what is done before it and after it, with
   the call c and its status */
#define CALL(name, parameters, arguments, before, after)                                           \
  EXPORT int name parameters;                                                                      \
  EXPORT int name parameters {                                                                     \
    int(*real) parameters, status;                                                                 \
    call c;                                                                                        \
    if (!enter(&c, AT_##name, __builtin_return_address(0)))                                        \
      return FAILED_NO_FUNCTION;                                                                   \
    memcpy(&real, &c.real, sizeof real);                                                           \
    if (c.t) {                                                                                     \
      inside++;                                                                                    \
      before;                                                                                      \
      status = real arguments;                                                                     \
      after;                                                                                       \
      inside--;                                                                                    \
      return status;                                                                               \
    }                                                                                              \
    return real arguments;                                                                         \
  }
#define NOTHING (void)0
#define ALLOC_BLOCK(kind, address, bytes, block)                                                   \
  allocated(&c, status, kind, status ? 0 : NUMBER(address), bytes, status ? 0 : (block))
#define ALLOC(kind, address, bytes)                                                                \
  allocated(&c, status, kind, status ? 0 : NUMBER(address), bytes, 0)
#define FREE(name, type) CALL(name, (type p), (p), freeing(&c, NUMBER(p)), freed(&c, status))
#define FREE_ON(name, type)                                                                        \
  CALL(name, (type p, void *stream), (p, stream), freeing(&c, NUMBER(p)), freed(&c, status))
#define WAIT(name, parameters, arguments)                                                          \
  CALL(name, parameters, arguments, NOTHING, if (pools) vram_cuda_on_pool_read(c.t, 0))

CALL(cudaMalloc, (void **p, size_t n), (p, n), NOTHING, ALLOC(VRAM_CUDA_DEVICE, *p, n))
CALL(cudaMallocManaged, (void **p, size_t n, unsigned flags), (p, n, flags), NOTHING,
     ALLOC(VRAM_CUDA_MANAGED, *p, n))
CALL(cudaMallocPitch, (void **p, size_t *pitch, size_t width, size_t height),
     (p, pitch, width, height), NOTHING,
     ALLOC_BLOCK(VRAM_CUDA_PITCH, *p, (uint64_t)width *height, (uint64_t)*pitch *height))
CALL(cudaMalloc3D, (vram_cuda_pitched * p, vram_cuda_extent e), (p, e), NOTHING,
     ALLOC_BLOCK(VRAM_CUDA_PITCH, p->ptr, (uint64_t)e.width *e.height *e.depth,
                 (uint64_t)p->pitch *e.height *e.depth))
CALL(cudaMallocHost, (void **p, size_t n), (p, n), NOTHING, ALLOC(VRAM_CUDA_PINNED, *p, n))
CALL(cudaHostAlloc, (void **p, size_t n, unsigned flags), (p, n, flags), NOTHING,
     ALLOC(VRAM_CUDA_PINNED, *p, n))
CALL(cudaHostRegister, (void *p, size_t n, unsigned flags), (p, n, flags), NOTHING,
     ALLOC(VRAM_CUDA_REGISTERED, p, n))
FREE(cudaFree, void *)
FREE(cudaFreeHost, void *)
FREE(cudaFreeArray, void *)
FREE(cudaFreeMipmappedArray, void *)
FREE(cudaHostUnregister, void *)

/* Elements of all levels; an extent of 0 is one. */
static uint64_t elements(uint64_t width, uint64_t height, uint64_t depth, unsigned levels) {
  uint64_t sum = 0;
  width = width ? width : 1;
  height = height ? height : 1;
  depth = depth ? depth : 1;
  for (; levels; levels--) {
    sum += width * height * depth;
    width = width > 1 ? width / 2 : 1;
    height = height > 1 ? height / 2 : 1;
    depth = depth > 1 ? depth / 2 : 1;
  }
  return sum;
}
static uint64_t channel_bytes(const vram_cuda_channel *c) {
  return (uint64_t)(c->x + c->y + c->z + c->w) / 8;
}
/* sparse, or mapped later: cuMemCreate gives the memory */
#define NO_MEMORY_OF_ITS_OWN(flags) ((flags)&0xc0u)
#define ARRAY(count, each, flags)                                                                  \
  if (!NO_MEMORY_OF_ITS_OWN(flags))                                                                \
  ALLOC(VRAM_CUDA_ARRAY, *array, (count) * (each))
CALL(cudaMallocArray,
     (void **array, const vram_cuda_channel *channel, size_t width, size_t height, unsigned flags),
     (array, channel, width, height, flags), NOTHING,
     ARRAY(elements(width, height, 1, 1), channel_bytes(channel), flags))
CALL(cudaMalloc3DArray,
     (void **array, const vram_cuda_channel *channel, vram_cuda_extent e, unsigned flags),
     (array, channel, e, flags), NOTHING,
     ARRAY(elements(e.width, e.height, e.depth, 1), channel_bytes(channel), flags))
CALL(cudaMallocMipmappedArray,
     (void **array, const vram_cuda_channel *channel, vram_cuda_extent e, unsigned levels,
      unsigned flags),
     (array, channel, e, levels, flags), NOTHING,
     ARRAY(elements(e.width, e.height, e.depth, levels), channel_bytes(channel), flags))

#define ALLOC_ON(name, type)                                                                       \
  CALL(name, (type * p, size_t n, void *stream), (p, n, stream), NOTHING,                          \
       allocated_async(&c, status, status ? 0 : NUMBER(*p), n, NULL, stream))
#define ALLOC_FROM(name, type)                                                                     \
  CALL(name, (type * p, size_t n, void *pool, void *stream), (p, n, pool, stream), NOTHING,        \
       allocated_async(&c, status, status ? 0 : NUMBER(*p), n, pool, stream))
ALLOC_ON(cudaMallocAsync, void *)
ALLOC_ON(cudaMallocAsync_ptsz, void *)
ALLOC_FROM(cudaMallocFromPoolAsync, void *)
ALLOC_FROM(cudaMallocFromPoolAsync_ptsz, void *)
FREE_ON(cudaFreeAsync, void *)
FREE_ON(cudaFreeAsync_ptsz, void *)

#define POOL_CREATE(name)                                                                          \
  CALL(name, (void **pool, const vram_cuda_pool_prop *prop), (pool, prop), NOTHING,                \
       if (!status) vram_cuda_on_pool(c.t, NUMBER(*pool), (uint32_t)prop->location_id))
#define POOL_DESTROY(name)                                                                         \
  CALL(name, (void *pool), (pool), c.known = vram_cuda_on_pool_destroy(c.t, NUMBER(pool)),         \
       if (c.known) vram_cuda_on_pool_destroyed(c.t, NUMBER(pool), is_gone(status)))
#define POOL_TRIM(name)                                                                            \
  CALL(name, (void *pool, size_t keep), (pool, keep), NOTHING,                                     \
       vram_cuda_on_pool_read(c.t, NUMBER(pool)))
POOL_CREATE(cudaMemPoolCreate)
POOL_DESTROY(cudaMemPoolDestroy)
POOL_TRIM(cudaMemPoolTrimTo)
POOL_CREATE(cuMemPoolCreate)
POOL_DESTROY(cuMemPoolDestroy)
POOL_TRIM(cuMemPoolTrimTo)

/* memory pools give back what is above their threshold when the host waits */
WAIT(cudaDeviceSynchronize, (void), ())
WAIT(cudaStreamSynchronize, (void *stream), (stream))
WAIT(cudaStreamSynchronize_ptsz, (void *stream), (stream))
WAIT(cuCtxSynchronize, (void), ())
WAIT(cuCtxSynchronize_v2, (void *context), (context))
WAIT(cuStreamSynchronize, (void *stream), (stream))
WAIT(cuStreamSynchronize_ptsz, (void *stream), (stream))

static uint64_t range_of(uint64_t address) {
  devptr base = 0;
  size_t n = 0;
  return address && api.cu_MemGetAddressRange && !api.cu_MemGetAddressRange(&base, &n, address) ? n
                                                                                                : 0;
}
#define IPC_OPEN(name, type)                                                                       \
  CALL(name, (type * p, vram_cuda_ipc handle, unsigned flags), (p, handle, flags), NOTHING,        \
       if (!status) vram_cuda_on_open(c.t, NUMBER(*p), range_of(NUMBER(*p))))
#define IPC_CLOSE(name, type)                                                                      \
  CALL(name, (type p), (p), c.object = vram_cuda_on_close(c.t, NUMBER(p)),                         \
       vram_cuda_on_closed(c.t, c.object, is_gone(status)))
IPC_OPEN(cudaIpcOpenMemHandle, void *)
IPC_CLOSE(cudaIpcCloseMemHandle, void *)
IPC_OPEN(cuIpcOpenMemHandle, devptr)
IPC_OPEN(cuIpcOpenMemHandle_v2, devptr)
IPC_CLOSE(cuIpcCloseMemHandle, devptr)

CALL(cudaDeviceReset, (void), (), c.device = (int)device_of(&c),
     if (is_gone(status)) vram_cuda_on_reset(c.t, (uint32_t)c.device))
CALL(cuDevicePrimaryCtxReset, (int device), (device), NOTHING,
     if (is_gone(status)) vram_cuda_on_reset(c.t, (uint32_t)device))
CALL(cuDevicePrimaryCtxReset_v2, (int device), (device), NOTHING,
     if (is_gone(status)) vram_cuda_on_reset(c.t, (uint32_t)device))
CALL(cuCtxDestroy, (void *context), (context), doomed *d = doom(&c, context),
     doomed_done(&c, d, status))
CALL(cuCtxDestroy_v2, (void *context), (context), doomed *d = doom(&c, context),
     doomed_done(&c, d, status))

/* as cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS */
typedef struct alloc_node {
  char pool[88];
  const void *access;
  size_t naccess, bytes;
  void *p;
} alloc_node;
#define GRAPH_NODE(name)                                                                           \
  CALL(name, (void **node, void *graph, void *const *from, size_t nfrom, alloc_node *a),           \
       (node, graph, from, nfrom, a), NOTHING, if (!status) vram_cuda_on_graph(c.t, a->bytes))
GRAPH_NODE(cudaGraphAddMemAllocNode)
GRAPH_NODE(cuGraphAddMemAllocNode)

CALL(cuMemAlloc_v2, (devptr * p, size_t n), (p, n), NOTHING, ALLOC(VRAM_CUDA_DEVICE, *p, n))
CALL(cuMemAllocManaged, (devptr * p, size_t n, unsigned flags), (p, n, flags), NOTHING,
     ALLOC(VRAM_CUDA_MANAGED, *p, n))
CALL(cuMemAllocPitch_v2, (devptr * p, size_t *pitch, size_t width, size_t height, unsigned each),
     (p, pitch, width, height, each), NOTHING,
     ALLOC_BLOCK(VRAM_CUDA_PITCH, *p, (uint64_t)width *height, (uint64_t)*pitch *height))
CALL(cuMemHostAlloc, (void **p, size_t n, unsigned flags), (p, n, flags), NOTHING,
     ALLOC(VRAM_CUDA_PINNED, *p, n))
CALL(cuMemAllocHost_v2, (void **p, size_t n), (p, n), NOTHING, ALLOC(VRAM_CUDA_PINNED, *p, n))
CALL(cuMemHostRegister, (void *p, size_t n, unsigned flags), (p, n, flags), NOTHING,
     ALLOC(VRAM_CUDA_REGISTERED, p, n))
CALL(cuMemHostRegister_v2, (void *p, size_t n, unsigned flags), (p, n, flags), NOTHING,
     ALLOC(VRAM_CUDA_REGISTERED, p, n))
FREE(cuMemFree_v2, devptr)
FREE(cuMemFreeHost, void *)
FREE(cuMemHostUnregister, void *)
FREE(cuArrayDestroy, void *)
FREE(cuMipmappedArrayDestroy, void *)
ALLOC_ON(cuMemAllocAsync, devptr)
ALLOC_ON(cuMemAllocAsync_ptsz, devptr)
ALLOC_FROM(cuMemAllocFromPoolAsync, devptr)
ALLOC_FROM(cuMemAllocFromPoolAsync_ptsz, devptr)
FREE_ON(cuMemFreeAsync, devptr)
FREE_ON(cuMemFreeAsync_ptsz, devptr)

/* as CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR */
typedef struct array_2d {
  size_t width, height;
  int format;
  unsigned channels;
} array_2d;
typedef struct array_3d {
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
} array_3d;
static uint64_t format_bytes(int format, unsigned channels) {
  uint64_t each = 1; /* formats of pixels and blocks: about that */
  if (format == 2 || format == 9 || format == 16)
    each = 2;
  else if (format == 3 || format == 10 || format == 32)
    each = 4;
  return each * channels;
}
CALL(cuArrayCreate_v2, (void **array, const array_2d *a), (array, a), NOTHING,
     ARRAY(elements(a->width, a->height, 1, 1), format_bytes(a->format, a->channels), 0))
CALL(cuArray3DCreate_v2, (void **array, const array_3d *a), (array, a), NOTHING,
     ARRAY(elements(a->width, a->height, a->depth, 1), format_bytes(a->format, a->channels),
           a->flags))
CALL(cuMipmappedArrayCreate, (void **array, const array_3d *a, unsigned levels), (array, a, levels),
     NOTHING,
     ARRAY(elements(a->width, a->height, a->depth, levels), format_bytes(a->format, a->channels),
           a->flags))

static void created(const call *c, int status, uint64_t handle, uint64_t bytes,
                    const vram_cuda_prop *prop) {
  const uint32_t device = prop->location_type == 1 ? (uint32_t)prop->location_id : VRAM_DEVICE_HOST;
  fill_api();
  if (status)
    failed(c, status, VRAM_CUDA_VMM, bytes, NULL);
  else
    vram_cuda_on_create(c->t, handle, device, bytes, owner_of(c->t, c->caller, c->driver));
}
CALL(cuMemCreate, (devptr * handle, size_t n, const vram_cuda_prop *prop, devptr flags),
     (handle, n, prop, flags), NOTHING, created(&c, status, status ? 0 : *handle, n, prop))
CALL(cuMemRelease, (devptr handle), (handle), c.object = vram_cuda_on_release(c.t, handle),
     vram_cuda_on_released(c.t, c.object, is_gone(status)))
CALL(cuMemMap, (devptr p, size_t n, size_t offset, devptr handle, devptr flags),
     (p, n, offset, handle, flags), NOTHING, if (!status) vram_cuda_on_map(c.t, p, n, handle))
CALL(cuMemUnmap, (devptr p, size_t n), (p, n), c.object = vram_cuda_on_unmap(c.t, p, n),
     vram_cuda_on_unmapped(c.t, c.object, p, n, is_gone(status)))
CALL(cuMemRetainAllocationHandle, (devptr * handle, void *p), (handle, p), NOTHING,
     if (!status) vram_cuda_on_retain(c.t, *handle, NUMBER(p)))
CALL(cuMemImportFromShareableHandle, (devptr * handle, void *from, int type), (handle, from, type),
     NOTHING, if (!status) vram_cuda_on_retain(c.t, *handle, 0))

/* ---- the functions that give out functions */

static void *instead_of_driver(const char *name, int version, devptr flags, const void *caller,
                               void *real);

/* Looks for a function: what it finds by dlsym is not to be one of these. */
#define ASK(name, parameters, arguments, symbol, version, flags)                                   \
  EXPORT int name parameters;                                                                      \
  EXPORT int name parameters {                                                                     \
    void *caller = __builtin_return_address(0), *target_of = real_of(AT_##name, caller);           \
    int(*real) parameters, status;                                                                 \
    if (!target_of)                                                                                \
      return FAILED_NO_FUNCTION;                                                                   \
    memcpy(&real, &target_of, sizeof real);                                                        \
    asking++;                                                                                      \
    status = real arguments;                                                                       \
    asking--;                                                                                      \
    if (!status && found && file)                                                                  \
      *found = instead_of_driver(symbol, version, flags, caller, *found);                          \
    return status;                                                                                 \
  }
ASK(cuGetProcAddress, (const char *symbol, void **found, int version, devptr flags),
    (symbol, found, version, flags), symbol, version, flags)
ASK(cuGetProcAddress_v2, (const char *symbol, void **found, int version, devptr flags, int *result),
    (symbol, found, version, flags, result), symbol, version, flags)
/* before CUDA 12 without the last argument, which is passed on as it came */
ASK(cudaGetDriverEntryPoint, (const char *symbol, void **found, devptr flags, int *result),
    (symbol, found, flags, result), symbol, 99000, flags)
ASK(cudaGetDriverEntryPoint_ptsz, (const char *symbol, void **found, devptr flags, int *result),
    (symbol, found, flags, result), symbol, 99000, flags)
ASK(cudaGetDriverEntryPointByVersion,
    (const char *symbol, void **found, unsigned version, devptr flags, int *result),
    (symbol, found, version, flags, result), symbol, (int)version, flags)
ASK(cudaGetDriverEntryPointByVersion_ptsz,
    (const char *symbol, void **found, unsigned version, devptr flags, int *result),
    (symbol, found, version, flags, result), symbol, (int)version, flags)

/* NOLINTEND(bugprone-macro-parentheses) */

static const struct {
  void (*function)(void);
} here[] = {
#define X(name) {(void (*)(void))(name)},
    NAMES(X)
#undef X
};

/* Calls of that function by this caller go to `real`; what he calls instead. */
static void *instead(int which, const void *caller, void *real) {
  void *wrapper;
  memcpy(&wrapper, &here[which].function, sizeof wrapper);
  if (real != wrapper) /* it was not found here */
    set_route(which, caller, real);
  return wrapper;
}

static int is_shared_runtime(const char *path) {
  const char *name = last_part(path), *wanted = "libcudart.so";
  for (; *wanted && *name == *wanted; wanted++)
    name++;
  return !*wanted;
}

/* The driver's functions go by their first names, and the version says which form is meant: the
   second one since 3.2, or what stands here. */
static void *instead_of_driver(const char *name, int version, devptr flags, const void *caller,
                               void *real) {
  static const struct {
    const char *name;
    int since;
  } second[] = {{"cuMemHostRegister", 6050},
                {"cuIpcOpenMemHandle", 11000},
                {"cuDevicePrimaryCtxReset", 11000},
                {"cuCtxSynchronize", 13000}, /* which context */
                {"cuGetProcAddress", 12000}};
  int since = 3020, which = -1;
  object_place in;
  size_t i;
  if (!real || !name)
    return real;
  for (i = 0; i < sizeof second / sizeof *second; i++)
    if (!strcmp(name, second[i].name))
      since = second[i].since;
  if (flags & 2) /* the default stream is each thread's own */
    which = number_with(name, "_ptsz");
  if (which < 0 && version >= since)
    which = number_with(name, "_v2");
  if (which < 0)
    which = number_of(name);
  if (which < 0)
    return real;
  if (!runtime_is_linked && place_in_object(&in, caller) && !is_shared_runtime(in.path))
    __atomic_store_n(&runtime_is_linked, 1, __ATOMIC_RELAXED);
  return instead(which, caller, real);
}

/* 1: *found is what dlsym gives this caller for a function that is here, NULL if it is nowhere
   else; 0: the real one knows. */
static int looked_up(void *handle, const char *name, const char *version, const void *caller,
                     void **found) {
  const int which = !file || asking ? -1 : number_of(name);
  const dlsym_function find = real_dlsym();
  const dlvsym_function find_version = real_dlvsym();
  void *real;
  if (which < 0 || !find || is_ours(caller))
    return 0;
  /* RTLD_NEXT is what follows the caller: the program is before this library, others behind it */
  if (handle == RTLD_NEXT && !is_program(caller))
    return 0;
  if (handle == RTLD_NEXT)
    real = find(RTLD_NEXT, name);
  else
    real = version && find_version ? find_version(handle, name, version) : find(handle, name);
  if (is_ours(real))
    real = find(RTLD_NEXT, name);
  *found = real ? instead(which, caller, real) : NULL;
  return 1;
}

/* RTLD_NEXT in the real ones looks at who has called them: they must be jumped to, not called. */
#if defined(__clang__)
#define JUMP __attribute__((musttail))
#define JUMPS
#else
#define JUMP
#define JUMPS __attribute__((optimize("O2")))
#endif

EXPORT JUMPS void *dlsym(void *restrict handle, const char *restrict name) {
  dlsym_function real;
  void *found;
  if (looked_up(handle, name, NULL, __builtin_return_address(0), &found))
    return found;
  real = real_dlsym();
  JUMP return real(handle, name);
}

EXPORT JUMPS void *dlvsym(void *restrict handle, const char *restrict name,
                          const char *restrict version) {
  dlvsym_function real;
  void *found;
  if (looked_up(handle, name, version, __builtin_return_address(0), &found))
    return found;
  real = real_dlvsym();
  JUMP return real(handle, name, version);
}

/* ---- objects that go */

static int objects_gone(struct dl_phdr_info *info, size_t size, void *user) {
  if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
    *(uint64_t *)user = info->dlpi_subs;
  return 1;
}

EXPORT int dlclose(void *handle) {
  const int status = real_dlclose(handle);
  uint64_t now = 0;
  if (!file)
    return status;
  dl_iterate_phdr(objects_gone, &now);
  if (now != __atomic_exchange_n(&gone, now, __ATOMIC_ACQ_REL))
    forget_routes();
  return status;
}

/* ---- beginning and end */

/* The child of a fork has no CUDA of its parent's, and a section of its own. */
static void forked(void) {
  counting = 0;
  section = NULL;
  forget_lock();
  pthread_mutex_init(&section_lock, NULL);
  pthread_mutex_init(&site_lock, NULL);
  pthread_mutex_init(&report_lock, NULL);
  forget_range_lock();
  ranges_before = vram_cuda_nvtx_lost();
  memset(text_slot, 0, sizeof text_slot);
  texts_beside = 0;
  inside = asking = pools = 0;
  memset(site, 0, sizeof site);
  memset(range_text, 0, sizeof range_text);
}

__attribute__((constructor)) static void begin(void) {
  const char *path = secure_getenv(RUN_VARIABLE);
  int fd;
  if (!path || strlen(path) >= sizeof run_path)
    return;
  memcpy(run_path, path, strlen(path) + 1);
  fd = open_file();
  if (fd >= 0)
    close(fd);
  if (!file)
    return;
  __atomic_fetch_add(&file->loaded, 1, __ATOMIC_RELAXED);
  (void)pthread_atfork(NULL, NULL, forked);
}

__attribute__((destructor)) static void end(void) {
  if (section)
    section->ended = 1;
}

#endif
