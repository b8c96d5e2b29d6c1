/* Which function a call goes on to: tools/preload_route.h. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* tools/preload_libc.c */
#undef _FILE_OFFSET_BITS
#include "preload_route.h"
#include "preload_libc.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

const char *const name_of[NAME_COUNT] = {
#define X(name) #name,
    NAMES(X)
#undef X
};

int number_with(const char *name, const char *end) {
  const char *whole, *n;
  int i;
  for (i = 0; i < NAME_COUNT; i++) {
    for (whole = name_of[i], n = name; *n && *n == *whole; n++, whole++)
      ;
    if (!*n && !strcmp(whole, end))
      return i;
  }
  return -1;
}
int number_of(const char *name) {
  return name && name[0] == 'c' && name[1] == 'u' ? number_with(name, "") : -1;
}

/* Calls from an object (its addresses) go on to `real`: two of them may use two runtimes. */
typedef struct route {
  uintptr_t from, to;
  void *real;
} route;
enum { ROUTES = 8 };
static struct {
  route route[ROUTES];
  uint32_t nroute;
  void *given; /* what dlsym or the like found last, for whom the pointer was handed on to */
} target[NAME_COUNT];
static pthread_mutex_t route_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct object {
  uintptr_t at, from, to, base; /* asked for; the object that has it */
  const char *path;             /* as long as it is loaded */
  const unsigned char *id;
  uint32_t id_bytes;
  int main, here;
} object;

/* The note of type 3 by GNU. */
static void find_id(object *o, const struct dl_phdr_info *info) {
  ElfW(Half) i;
  for (i = 0; i < info->dlpi_phnum && !o->id; i++) {
    const char *at = (const char *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    size_t left = info->dlpi_phdr[i].p_type == PT_NOTE ? info->dlpi_phdr[i].p_memsz : 0;
    while (left >= sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)(const void *)at;
      const size_t name = (n->n_namesz + 3u) & ~3u, text = (n->n_descsz + 3u) & ~3u;
      if (sizeof *n + name + text > left)
        break;
      if (n->n_type == 3 && n->n_namesz == 4 && !memcmp(at + sizeof *n, "GNU", 4)) {
        o->id = (const unsigned char *)at + sizeof *n + name;
        o->id_bytes = n->n_descsz;
        break;
      }
      at += sizeof *n + name + text;
      left -= sizeof *n + name + text;
    }
  }
}

static int is_here(const struct dl_phdr_info *o) {
  const ElfW(Addr) here = (ElfW(Addr))(uintptr_t)&is_here;
  ElfW(Half) i;
  for (i = 0; i < o->dlpi_phnum; i++)
    if (o->dlpi_phdr[i].p_type == PT_LOAD &&
        here - o->dlpi_addr - o->dlpi_phdr[i].p_vaddr < o->dlpi_phdr[i].p_memsz)
      return 1;
  return 0;
}

static int object_visit(struct dl_phdr_info *info, size_t size, void *user) {
  object *o = (object *)user;
  uintptr_t from = UINTPTR_MAX, to = 0;
  ElfW(Half) i;
  (void)size;
  for (i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD) {
      const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      from = start < from ? start : from;
      to = start + info->dlpi_phdr[i].p_memsz > to ? start + info->dlpi_phdr[i].p_memsz : to;
    }
  if (o->at >= from && o->at < to) {
    o->from = from;
    o->to = to;
    o->here = is_here(info);
    o->base = info->dlpi_addr;
    o->path = info->dlpi_name ? info->dlpi_name : "";
    find_id(o, info);
    return 1;
  }
  o->main = 0; /* the first one is the program */
  return 0;
}

static int object_of(object *o, const void *address) {
  memset(o, 0, sizeof *o);
  o->at = (uintptr_t)address;
  o->main = 1;
  return dl_iterate_phdr(object_visit, o);
}

int on_small_stack(void) {
  stack_t now;
  return !sigaltstack(NULL, &now) && now.ss_flags & SS_ONSTACK;
}

void keep_loaded(const void *function) {
  enum { OBJECTS = 16 };
  static struct { uintptr_t from, to; } kept[OBJECTS];
  static uint32_t nkept;
  const uint32_t n = __atomic_load_n(&nkept, __ATOMIC_ACQUIRE);
  const uintptr_t at = (uintptr_t)function;
  uint32_t i;
  object o;
  for (i = 0; i < n; i++)
    if (at >= kept[i].from && at < kept[i].to)
      return;
  if (on_small_stack() || !object_of(&o, function) || o.main ||
      !dlopen(o.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
    return;
  pthread_mutex_lock(&route_lock);
  if (nkept < OBJECTS) {
    kept[nkept].from = o.from;
    kept[nkept].to = o.to;
    __atomic_store_n(&nkept, nkept + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&route_lock);
}

static void add_route(int which, const object *o, void *real) {
  route *r = target[which].route;
  uint32_t i;
  pthread_mutex_lock(&route_lock);
  for (i = 0; i < target[which].nroute && r[i].to && r[i].from != o->from; i++)
    ;
  if (i < ROUTES) {
    r[i].real = real;
    r[i].from = o->from;
    __atomic_store_n(&r[i].to, o->to, __ATOMIC_RELEASE);
    if (i == target[which].nroute)
      __atomic_store_n(&target[which].nroute, i + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&route_lock);
}

void forget_routes(void) {
  uint32_t which, i;
  object o;
  for (which = 0; which < NAME_COUNT; which++)
    for (i = 0; i < __atomic_load_n(&target[which].nroute, __ATOMIC_ACQUIRE); i++) {
      route *r = &target[which].route[i];
      const uintptr_t from = r->from, to = __atomic_load_n(&r->to, __ATOMIC_ACQUIRE);
      if (!to || (object_of(&o, (const void *)from) && o.from == from && o.to == to))
        continue;
      pthread_mutex_lock(&route_lock);
      if (r->from == from)
        __atomic_store_n(&r->to, 0, __ATOMIC_RELEASE);
      pthread_mutex_unlock(&route_lock);
    }
}

typedef int (*dlclose_function)(void *handle);

int real_dlclose(void *handle) {
  static dlclose_function real;
  void *found;
  if (!real) {
    found = real_dlsym()(RTLD_NEXT, "dlclose");
    memcpy(&real, &found, sizeof found);
  }
  return real(handle);
}

int is_ours(const void *function) {
  object o;
  return function && object_of(&o, function) && o.here;
}

/* As the loader would bind it without this library: global names, then those of the caller's own
   libraries; then whatever there is. */
static void *resolve(int which, const void *caller) {
  const dlsym_function find = real_dlsym();
  const char *name = name_of[which];
  void *real = find ? find(RTLD_NEXT, name) : NULL, *handle;
  object o;
  const int known = object_of(&o, caller);
  if (!real && find && known && *o.path) {
    handle = dlopen(o.path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) {
      real = find(handle, name);
      real_dlclose(handle); /* it was open before */
    }
  }
  if (real && is_ours(real))
    real = NULL;
  if (!real)
    real = target[which].given ? target[which].given : find_anywhere(name);
  if (real)
    keep_loaded(real);
  if (real && known)
    add_route(which, &o, real);
  return real;
}

void *real_of(int which, const void *caller) {
  const uint32_t n = __atomic_load_n(&target[which].nroute, __ATOMIC_ACQUIRE);
  const uintptr_t at = (uintptr_t)caller;
  uint32_t i;
  for (i = 0; i < n; i++) {
    const route *r = &target[which].route[i];
    if (at < __atomic_load_n(&r->to, __ATOMIC_ACQUIRE) && at >= r->from)
      return r->real;
  }
  return resolve(which, caller);
}

void set_route(int which, const void *caller, void *real) {
  object o;
  keep_loaded(real);
  target[which].given = real;
  if (object_of(&o, caller))
    add_route(which, &o, real);
}

int place_in_object(object_place *to, const void *address) {
  object o;
  if (!object_of(&o, address))
    return 0;
  to->path = o.main ? "" : o.path;
  to->base = o.base;
  to->id = o.id;
  to->id_bytes = o.id_bytes;
  return 1;
}

int is_program(const void *address) {
  object o;
  return object_of(&o, address) && o.main;
}

void forget_lock(void) { pthread_mutex_init(&route_lock, NULL); }
