/* What programs do with CUDA: program MODE. Compiled with -DLINKED it is linked with the runtime
   and the driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long dptr;
enum { MIB = 1 << 20 };

#define CHECK(c)                                                                                   \
  do {                                                                                             \
    if (!(c)) {                                                                                    \
      fprintf(stderr, "program:%d: %s\n", __LINE__, #c);                                           \
      _exit(99);                                                                                   \
    }                                                                                              \
  } while (0)

static void *open_library(const char *name) {
  void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  CHECK(lib);
  return lib;
}
static void *find_in(void *lib, const char *name) {
  void *f = dlsym(lib, name);
  CHECK(f);
  return f;
}

#ifdef LINKED
int cudaMalloc(void **, size_t), cudaFree(void *),
    cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaMallocManaged(void **, size_t, unsigned), cudaMallocHost(void **, size_t);
int cudaHostAlloc(void **, size_t, unsigned), cudaFreeHost(void *);
int cudaHostRegister(void *, size_t, unsigned), cudaHostUnregister(void *);
int cudaMallocArray(void **, const int *, size_t, size_t, unsigned), cudaFreeArray(void *);
int cudaMallocAsync(void **, size_t, void *), cudaFreeAsync(void *, void *);
int cudaDeviceSynchronize(void), cudaDeviceReset(void), cudaMemGetInfo(size_t *, size_t *);
int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, dptr, int *);
int cuInit(unsigned), cuCtxCreate_v2(void **, unsigned, int), cuCtxDestroy_v2(void *);
int cuMemAlloc_v2(dptr *, size_t), cuMemFree_v2(dptr), cuMemHostAlloc(void **, size_t, unsigned);
int cuMemAddressReserve(dptr *, size_t, size_t, dptr, dptr), cuMemAddressFree(dptr, size_t);
int cuMemCreate(dptr *, size_t, const int *, dptr), cuMemRelease(dptr);
int cuMemMap(dptr, size_t, size_t, dptr, dptr), cuMemUnmap(dptr, size_t);
int cuMemSetAccess(dptr, size_t, const void *, size_t);

static void every_kind(void) {
  static char page[8192];
  const int channel[5] = {32, 0, 0, 0, 2};
  void *p[8];
  size_t pitch;
  CHECK(!cudaMalloc(&p[0], 100));
  CHECK(!cudaMalloc(&p[1], 3 * MIB));
  CHECK(!cudaFree(p[0]));
  CHECK(!cudaMalloc(&p[0], 50 * MIB)); /* the same address again */
  CHECK(!cudaMallocPitch(&p[2], &pitch, 1000, 7) && pitch == 1024);
  CHECK(!cudaMallocManaged(&p[3], 5 * MIB, 1));
  CHECK(!cudaMallocHost(&p[4], 4096));
  CHECK(!cudaHostAlloc(&p[5], 12288, 0));
  CHECK(!cudaHostRegister(page, sizeof page, 0));
  CHECK(!cudaMallocArray(&p[6], channel, 64, 16, 0));
  CHECK(!cudaFree(p[0]) && !cudaFree(NULL));
  CHECK(cudaFree(p[0]) != 0); /* twice: an error, and counted as nothing */
  CHECK(!cudaFreeHost(p[4]) && !cudaHostUnregister(page) && !cudaFreeArray(p[6]));
} /* left: p[1] 3 MiB, p[2] 7168, p[3] managed, p[5] 12288 of the host */

static void vmm(void) { /* a pool that grows, and releases each handle when it is mapped */
  int prop[8] = {1, 0, 1, 0}, i;
  dptr base, h;
  CHECK(!cuMemAddressReserve(&base, 64 * MIB, 0, 0, 0));
  for (i = 0; i < 4; i++) {
    CHECK(!cuMemCreate(&h, 4 * MIB, prop, 0));
    CHECK(!cuMemMap(base + (dptr)i * 4 * MIB, 4 * MIB, 0, h, 0));
    CHECK(!cuMemRelease(h));
    CHECK(!cuMemSetAccess(base + (dptr)i * 4 * MIB, 4 * MIB, prop, 1));
  }
  CHECK(!cuMemUnmap(base, 4 * MIB)); /* one, then two at once; one is left */
  CHECK(!cuMemUnmap(base + 4 * MIB, 8 * MIB));
}

static void stream_ordered(void) {
  void *a, *b;
  CHECK(!cudaMallocAsync(&a, 10 * MIB, NULL));
  CHECK(!cudaMallocAsync(&b, 30 * MIB, NULL));
  CHECK(!cudaFreeAsync(b, NULL));
  CHECK(!cudaDeviceSynchronize()); /* the pool gives back what is free */
}

static void *one_thread(void *arg) {
  void *p[16] = {NULL};
  unsigned i, k = (unsigned)(size_t)arg;
  for (i = 0; i < 2000; i++) {
    k = k * 1103515245 + 12345;
    CHECK(!cudaFree(p[k >> 16 & 15]));
    CHECK(!cudaMalloc(&p[k >> 16 & 15], 1 + (k >> 8) % 100000));
  }
  for (i = 0; i < 15; i++) /* the last one is left */
    CHECK(!cudaFree(p[i]));
  if (!p[15])
    CHECK(!cudaMalloc(&p[15], 1));
  return NULL;
}
static void threads(void) {
  pthread_t t[8];
  size_t i;
  for (i = 0; i < 8; i++)
    CHECK(!pthread_create(&t[i], NULL, one_thread, (void *)(i + 1)));
  for (i = 0; i < 8; i++)
    pthread_join(t[i], NULL);
}

static void forks(const char *self) {
  char *const words[] = {(char *)self, "one", NULL};
  void *p;
  int status;
  pid_t child;
  CHECK(!cudaMalloc(&p, 7 * MIB));
  child = fork();
  if (!child) { /* its own part of the report */
    CHECK(!cudaMalloc(&p, 9 * MIB));
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && !status);
  child = fork();
  if (!child) {
    execl(self, self, "one", (char *)NULL);
    _exit(98);
  }
  CHECK(waitpid(child, &status, 0) == child && !status);
  child = vfork();
  if (!child) {
    execl(self, self, "one", (char *)NULL);
    _exit(98);
  }
  CHECK(waitpid(child, &status, 0) == child && !status);
  CHECK(!posix_spawn(&child, self, NULL, NULL, words, environ));
  CHECK(waitpid(child, &status, 0) == child && !status);
}

static void contexts(void) {
  void *c;
  dptr p;
  CHECK(!cuInit(0) && !cuCtxCreate_v2(&c, 0, 0));
  CHECK(!cuMemAlloc_v2(&p, 6 * MIB) && !cuMemAlloc_v2(&p, 2 * MIB));
  CHECK(!cuCtxDestroy_v2(c)); /* both go with it */
  CHECK(!cuMemAlloc_v2(&p, MIB));
}

static void entry_point(void) {
  int prop[8] = {1, 0, 1, 0};
  int (*create)(dptr *, size_t, const int *, dptr);
  int (*release)(dptr);
  dptr h;
  CHECK(!cudaGetDriverEntryPointByVersion("cuMemCreate", (void **)&create, 12000, 0, NULL));
  CHECK(!cudaGetDriverEntryPointByVersion("cuMemRelease", (void **)&release, 12000, 0, NULL));
  CHECK(!create(&h, 8 * MIB, prop, 0) && !create(&h, 2 * MIB, prop, 0) && !release(h));
}

static void captured(void) { /* a stream that is being captured: a node of a graph */
  void *p;
  CHECK(!cudaMallocAsync(&p, 3 * MIB, (void *)77));
  CHECK(!cudaMallocAsync(&p, 2 * MIB, NULL));
}

static void out_of_memory(void) {
  void *p;
  CHECK(!cudaMalloc(&p, 1000 * MIB));
  CHECK(cudaMalloc(&p, 100 * MIB) == 2);
}
#endif

static void by_dlsym(void *lib) {
  int (*alloc)(void **, size_t), (*release)(void *);
  void *p;
  *(void **)&alloc = find_in(lib, "cudaMalloc");
  *(void **)&release = find_in(lib, "cudaFree");
  CHECK(!alloc(&p, 2 * MIB) && !alloc(&p, 11 * MIB) && !release(p));
}

static void by_version(void) {
  int (*alloc)(void **, size_t);
  void *p;
  *(void **)&alloc = dlvsym(open_library("libcudart.so.13"), "cudaMalloc", "libcudart.so.13");
  CHECK(alloc && !alloc(&p, 4 * MIB));
  CHECK(!dlvsym(open_library("libcudart.so.13"), "cudaMalloc", "libcudart.so.9"));
}

/* as a static runtime does: the driver's functions by cuGetProcAddress, and that by itself */
static void by_proc_address(void) {
  int (*find)(const char *, void **, int, dptr, int *), (*other)(const char *, void **, int, dptr);
  int (*alloc)(dptr *, size_t), (*release)(dptr), (*async)(dptr *, size_t, void *);
  int (*wait)(void), (*wait_for)(void *);
  dptr p, q;
  *(void **)&find = find_in(open_library("libcuda.so.1"), "cuGetProcAddress_v2");
  CHECK(!find("cuGetProcAddress", (void **)&find, 12000, 0, NULL));
  CHECK(!find("cuGetProcAddress", (void **)&other, 11030, 0, NULL));
  CHECK(!other("cuMemAlloc", (void **)&alloc, 3020, 0));
  CHECK(!find("cuMemFree", (void **)&release, 3020, 0, NULL));
  CHECK(!find("cuMemAllocAsync", (void **)&async, 11020, 2, NULL));
  CHECK(!find("cuCtxSynchronize", (void **)&wait, 12000, 0, NULL) && !wait());
  CHECK(!find("cuCtxSynchronize", (void **)&wait_for, 13000, 0, NULL) && !wait_for(NULL));
  CHECK(wait_for(&p) == 709);
  CHECK(find("cuNothing", (void **)&other, 11020, 0, NULL) == 500);
  CHECK(!alloc(&p, 5 * MIB) && !alloc(&q, 3 * MIB) && !release(p));
  CHECK(!async(&p, 7 * MIB, (void *)2));
}

/* two runtimes in one program: each gets the calls that are meant for it */
static void two_runtimes(void) {
  void *a = open_library("libcudart.so.13"), *b = open_library("./other/libcudart.so.12");
  int (*calls)(void);
  by_dlsym(a);
  *(void **)&calls = find_in(a, "cudart_calls");
  CHECK(calls() == 3);
  by_dlsym(b);
  CHECK(calls() == 3);
  *(void **)&calls = find_in(b, "cudart_calls");
  CHECK(calls() == 3);
}

/* A runtime that is closed and loaded again: its functions are elsewhere, if it was unloaded. */
static void reloaded(void) {
  void *lib = open_library("libcudart.so.13"), *first = find_in(lib, "cudart_calls");
  by_dlsym(lib);
  dlclose(lib);
  (void)mmap((void *)((size_t)first & ~(size_t)4095), 4096, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  by_dlsym(open_library("libcudart.so.13"));
}

/* A plugin comes to the place of another one and is linked with another runtime. */
static void plugins(void) {
  int (*take)(void **, size_t), (*calls)(void);
  void *stays = open_library("libcudart.so.13"), *first = open_library("./plugin_a.so");
  void *second, *p, *was;
  *(void **)&take = was = find_in(first, "take_a");
  CHECK(!take(&p, 2 * MIB));
  dlclose(first);
  second = open_library("./plugin_b.so");
  *(void **)&take = find_in(second, "take_b");
  if ((void *)take != was)
    fprintf(stderr, "program: the second plugin is not where the first one was\n");
  CHECK(!take(&p, 4 * MIB) && !take(&p, 8 * MIB));
  *(void **)&calls = find_in(open_library("./other/libcudart.so.12"), "cudart_calls");
  CHECK(calls() == 2);
  dlclose(stays);
}

/* What is mapped of the memory that vram run reads: the head, or this process's part. */
static unsigned char *shared(int part) {
  char line[512];
  FILE *f = fopen("/proc/self/maps", "r");
  unsigned long from, to;
  unsigned char *at = NULL;
  CHECK(f);
  while (fgets(line, sizeof line, f))
    if (strstr(line, "vram-run") && sscanf(line, "%lx-%lx", &from, &to) == 2 &&
        (to - from > MIB) == part)
      at = (unsigned char *)from;
  fclose(f);
  CHECK(at);
  return at;
}

static void overwrite(const char *how, int value) {
  unsigned char *at = shared(strcmp(how, "head") != 0);
  unsigned k = (unsigned)value, i, n;
  if (!strcmp(how, "fill"))
    memset(at, value, 40 * MIB);
  else if (!strcmp(how, "head"))
    memset(at, value, 4096);
  else if (!strcmp(how, "struct")) /* all but what says that it is one */
    memset(at + 64, value, 20000);
  else
    for (n = 8 * (k % 40 + 1), i = 0; i < n;
         i++) { /* some bits, most of them near the beginning or in the tables */
      k = k * 1103515245 + 12345;
      at[(k >> 4) % (i % 3 ? 20000 : 30 * MIB)] ^= (unsigned char)(1u << (k >> 29));
    }
}

static void cut(void) {
  int fd = open(getenv("VRAM_RUN"), O_RDWR);
  CHECK(fd >= 0);
  CHECK(ftruncate(fd, 4096) < 0); /* or all who have mapped it would crash */
  close(fd);
}

/* PyTorch's pluggable allocator, as PyTorch calls it: the library, then its functions */
static void pluggable(const char *library) {
  void *(*alloc)(size_t, int, void *);
  void (*release)(void *, size_t, int, void *), (*empty)(void), (*fraction)(double, int);
  void (*record)(void *, void *);
  long long (*stat)(int, const char *);
  void *cudart = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL), *lib = open_library(library);
  void *p, *q, *r;
  CHECK(cudart);
  *(void **)&alloc = find_in(lib, "vram_torch_malloc");
  *(void **)&release = find_in(lib, "vram_torch_free");
  *(void **)&empty = find_in(lib, "vram_torch_empty_cache");
  *(void **)&fraction = find_in(lib, "vram_torch_memory_fraction");
  *(void **)&record = find_in(lib, "vram_torch_record_stream");
  *(void **)&stat = find_in(lib, "vram_torch_stat");
  p = alloc(1000, 0, NULL);
  q = alloc(5 * MIB, 0, NULL);
  CHECK(p && q && stat(0, "reserved_bytes.all.current") == 22 * MIB);
  CHECK(stat(0, "allocated_bytes.all.current") == 1024 + 5 * MIB);
  CHECK(stat(0, "reserved_bytes.small_pool.peak") == 2 * MIB && stat(0, "nothing") == -1);
  record(q, (void *)8); /* a runtime without events: nothing happens */
  release(q, 5 * MIB, 0, NULL);
  CHECK(alloc(5 * MIB, 0, NULL) == q);
  fraction(30.0 / 1024, 0);
  r = alloc(40 * MIB, 0, NULL);
  CHECK(!r && stat(0, "num_ooms") == 1); /* and a report on standard error */
  CHECK(!alloc(8, 1, NULL));             /* there is one device */
  release(p, 1000, 0, NULL);
  release(p, 1000, 0, NULL); /* twice: nothing happens */
  empty();
  CHECK(stat(0, "segment.all.current") == 1);
}

#define MODE(name) (!strcmp(mode, name))

#ifdef LINKED
/* ---- ranges of NVTX, as its headers begin and make them: no header of it is needed */
static void (*nvtx_core[12])(void), (**nvtx_slot[12])(void);
static int nvtx_functions(int module, void (****table)(void), unsigned *size) {
  unsigned i;
  for (i = 0; i < 12; i++)
    nvtx_slot[i] = &nvtx_core[i];
  *table = nvtx_slot;
  *size = 12;
  return module == 1;
}
static struct {
  size_t bytes;
  int (*functions)(int module, void (****table)(void), unsigned *size);
} nvtx_callbacks = {sizeof nvtx_callbacks, nvtx_functions};
static const void *nvtx_table(unsigned id) { return id == 1 ? &nvtx_callbacks : NULL; }

static int (*range_push)(const char *), (*range_pop)(void);

__attribute__((noinline)) static void taking(const char *range, size_t bytes) {
  void *p;
  if (range)
    range_push(range);
  CHECK(!cudaMalloc(&p, bytes));
  if (range)
    range_pop();
}
static void *taking_elsewhere(void *arg) {
  (void)arg;
  taking(NULL, 3 * MIB);
  taking("elsewhere", 4 * MIB);
  return NULL;
}

__attribute__((noinline)) static void ranges(const char *pool, int waits) {
  void *lib = open_library(getenv("NVTX_INJECTION64_PATH")), *p;
  int (*begin)(const void *(*)(unsigned));
  void *(*alloc)(size_t, int, void *);
  pthread_t other;
  char name[16];
  int i;
  *(void **)&begin = find_in(lib, "InitializeInjectionNvtx2");
  CHECK(begin(nvtx_table));
  *(void **)&range_push = *(void **)&nvtx_core[9];
  *(void **)&range_pop = *(void **)&nvtx_core[11];
  taking(NULL, MIB);
  taking("two\nlines", 2 * MIB);
  range_push("step"); /* a thread's range is not another one's */
  CHECK(!pthread_create(&other, NULL, taking_elsewhere, NULL) && !pthread_join(other, NULL));
  taking(NULL, 5 * MIB);
  taking("inner", 6 * MIB);
  taking("inner", 6 * MIB);
  if (!fork()) { /* it has texts of its own */
    taking("child", 7 * MIB);
    _exit(0);
  }
  CHECK(wait(NULL) > 0);
  *(void **)&alloc = find_in(open_library(pool), "vram_torch_malloc");
  CHECK(alloc(30 * MIB, 0, NULL));
  range_pop();
  for (i = 0; i < 5000; i++) { /* more than there is room for: callers are known all the same */
    snprintf(name, sizeof name, "%014d", i);
    range_push(name);
    CHECK(!cudaMalloc(&p, 1) && !cudaFree(p));
    range_pop();
  }
  CHECK(!cudaMalloc(&p, 8 * MIB));
  if (waits) {
    puts("ready");
    fflush(stdout);
    pause();
  }
}

static int stop, spinning;

/* Whoever writes to a descriptor that this program has closed writes into no file. */
static void *watch_low(void *arg) {
  int fd, flags;
  (void)arg;
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
    for (fd = 0; fd < 3; fd++) {
      flags = fcntl(fd, F_GETFL);
      if (flags >= 0 && !(flags & O_PATH))
        _exit(96);
    }
    __atomic_store_n(&spinning, 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void closed(void) {
  int was[64], fd;
  pthread_t t;
  void *p;
  for (fd = 0; fd < 64; fd++)
    was[fd] = fcntl(fd, F_GETFD);
  if (was[0] >= 0 || was[1] >= 0 || was[2] >= 0)
    _exit(95);
  CHECK(!pthread_create(&t, NULL, watch_low, NULL));
  while (!__atomic_load_n(&spinning, __ATOMIC_ACQUIRE))
    ;
  CHECK(!cudaMalloc(&p, 13 * MIB));
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  pthread_join(t, NULL);
  for (fd = 0; fd < 64; fd++) /* nothing of the library is left */
    if (fcntl(fd, F_GETFD) != was[fd])
      _exit(94);
}

/* On 8 KiB, with a page behind them that nobody may touch: in a handler of signals, then on the
   stack of a thread, which cannot be smaller than 16. */
static void on_small(int number) {
  void *p;
  (void)number;
  CHECK(!cudaMalloc(&p, 13 * MIB));
  CHECK(cudaMalloc(&p, 2000ul * MIB) == 2);
  CHECK(!cudaFree(NULL));
}
static void *on_small_thread(void *arg) { return on_small(0), arg; }
static char *small_stack(size_t n) {
  char *at = mmap(NULL, n + 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED && !mprotect(at + 65536, n, PROT_READ | PROT_WRITE));
  return at + 65536;
}
static void small(void) {
  struct sigaction action;
  pthread_attr_t attr;
  pthread_t t;
  stack_t stack;
  size_t left, all;
  CHECK(!cudaMemGetInfo(&left, &all)); /* the runtime loads the driver: on the usual stack */
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = small_stack(8192);
  stack.ss_size = 8192;
  CHECK(!sigaltstack(&stack, NULL));
  memset(&action, 0, sizeof action);
  action.sa_handler = on_small;
  action.sa_flags = SA_ONSTACK;
  CHECK(!sigaction(SIGUSR1, &action, NULL) && !raise(SIGUSR1));
  pthread_attr_init(&attr);
  CHECK(!pthread_attr_setstack(&attr, small_stack(16384), 16384));
  CHECK(!pthread_create(&t, &attr, on_small_thread, NULL) && !pthread_join(t, NULL));
}

/* Ends of all sorts, with some memory allocated. */
static void end_by(const char *mode, int value) {
  struct sigaction now;
  void *p;
  CHECK(!cudaMalloc(&p, 13 * MIB));
  if (MODE("_exit"))
    _exit(value);
  else if (MODE("signal"))
    raise(value);
  else if (MODE("crash"))
    *(volatile int *)(size_t)value = 1;
  else if (MODE("past")) { /* what a sanitizer is for */
    volatile char *end = (char *)malloc(16) + value;
    value = *end == 1;
  } else if (MODE("fill") || MODE("head") || MODE("struct") || MODE("bits")) {
    overwrite(mode, value);
    value = 7;
  } else if (MODE("cut"))
    cut();
  else if (MODE("orphans"))
    CHECK(!sigaction(SIGCHLD, NULL, &now) && now.sa_handler == SIG_IGN);
  else if (MODE("wait")) {
    printf("ready\n");
    fflush(stdout);
    pause();
  }
  exit(value);
}

/* 0: no such mode */
static int with_linked(const char *mode, char **argv) {
  void *p;
  if (MODE("one"))
    CHECK(!cudaMalloc(&p, MIB));
  else if (MODE("kinds"))
    every_kind();
  else if (MODE("vmm"))
    vmm();
  else if (MODE("async"))
    stream_ordered();
  else if (MODE("threads"))
    threads();
  else if (MODE("fork"))
    forks(argv[0]);
  else if (MODE("context"))
    contexts();
  else if (MODE("entry"))
    entry_point();
  else if (MODE("graph"))
    captured();
  else if (MODE("oom"))
    out_of_memory();
  else if (MODE("ranges"))
    ranges(argv[2], argv[3] != NULL);
  else if (MODE("reset"))
    CHECK(!cudaMalloc(&p, MIB) && !cudaDeviceReset() && !cudaMalloc(&p, 2 * MIB));
  else if (MODE("bare")) { /* without an environment */
    CHECK(!clearenv());
    CHECK(!cudaMalloc(&p, 13 * MIB));
  } else if (MODE("closed"))
    closed();
  else if (MODE("small"))
    small();
  else
    return 0;
  return 1;
}
#endif

/* 0: no such mode */
static int with_any(const char *mode, char **argv) {
  if (MODE("dlsym"))
    by_dlsym(open_library("libcudart.so.13"));
  else if (MODE("dlvsym"))
    by_version();
  else if (MODE("proc"))
    by_proc_address();
  else if (MODE("two"))
    two_runtimes();
  else if (MODE("reload"))
    reloaded();
  else if (MODE("plugins"))
    plugins();
  else if (MODE("torch"))
    pluggable(argv[2]);
  else if (MODE("ignoring")) { /* becomes what follows, and ignores the end of children */
    signal(SIGCHLD, SIG_IGN);
    execv(argv[2], argv + 2);
    _exit(98);
  } else if (MODE("absent")) { /* nobody has it: nobody is told otherwise */
    CHECK(!dlsym(RTLD_DEFAULT, "cudaMalloc") && dlerror());
    CHECK(!dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  } else
    return MODE("nothing");
  return 1;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (with_any(mode, argv))
    return 0;
#ifdef LINKED
  if (with_linked(mode, argv))
    return 0;
  if (argc > 2)
    end_by(mode, atoi(argv[2]));
#endif
  return 97;
}
