/* >>api (Implementation) ----------------------------------------------------------------------- */

/* ISO C has no conversion from void * to a function pointer */
#define VRAM__FIND(lib, field, symbol)                                                             \
  found = find(user, lib, #symbol);                                                                \
  memcpy(&api->field, &found, sizeof found);
#define VRAM__FIND_RUNTIME(field, symbol, arguments)                                               \
  VRAM__FIND(VRAM_CUDA_LIB_RUNTIME, field, symbol)
#define VRAM__FIND_DRIVER(field, symbol, arguments) VRAM__FIND(VRAM_CUDA_LIB_DRIVER, field, symbol)
#define VRAM__FIND_NVML(field, symbol, arguments) VRAM__FIND(VRAM_CUDA_LIB_NVML, field, symbol)

static void vram__cuda_api_ask(vram_cuda_api *api) {
  if (!api->cuda_RuntimeGetVersion || api->cuda_RuntimeGetVersion(&api->runtime_version))
    api->runtime_version = 0;
  if (!api->cuda_DriverGetVersion || api->cuda_DriverGetVersion(&api->driver_version))
    api->driver_version = 0;
  if (!api->cuda_GetDeviceCount || api->cuda_GetDeviceCount(&api->devices)) {
    api->devices = 0;
    if (api->cuda_GetLastError)
      (void)api->cuda_GetLastError(); /* the program is not to find it */
  }
}

VRAM_API void vram_cuda_api_fill(vram_cuda_api *api,
                                 void *(*find)(void *user, vram_cuda_library lib,
                                               const char *symbol),
                                 void *user, int quiet) {
  void *found;
  memset(api, 0, sizeof *api);
  VRAM_CUDA_RUNTIME(VRAM__FIND_RUNTIME)
  VRAM_CUDA_DRIVER(VRAM__FIND_DRIVER)
  VRAM_CUDA_NVML(VRAM__FIND_NVML)
  if (!quiet)
    vram__cuda_api_ask(api);
}

static char *vram__cuda_put(char *to, const char *end, const char *text) {
  while (*text && to < end)
    *to++ = *text++;
  *to = 0;
  return to;
}

static char *vram__cuda_put_number(char *to, const char *end, uint64_t n) {
  char digits[24];
  uint32_t i = sizeof digits - 1;
  digits[i] = 0;
  do
    digits[--i] = (char)('0' + n % 10);
  while ((n /= 10) != 0);
  return vram__cuda_put(to, end, digits + i);
}

static char *vram__cuda_put_version(char *to, const char *end, int version) {
  uint64_t v = version < 0 ? 0 : (uint64_t)version;
  to = vram__cuda_put_number(to, end, v / 1000);
  to = vram__cuda_put(to, end, ".");
  return vram__cuda_put_number(to, end, v % 1000 / 10);
}

/* what stands in the way of calls that work */
static vram_result vram__cuda_api_check(const vram_cuda_api *api, vram_error *err) {
  char text[sizeof err->text], *p = text, *end = text + sizeof text - 1;
  memset(text, 0, sizeof text);
  if (!api->cuda_Malloc || !api->cuda_Free)
    p = vram__cuda_put(p, end, "no CUDA runtime: libcudart.so cannot be loaded");
  else if (!api->driver_version)
    p = vram__cuda_put(p, end, "no NVIDIA driver");
  else if (api->devices < 1 && api->driver_version / 1000 < api->runtime_version / 1000) {
    p = vram__cuda_put(p, end, "the NVIDIA driver knows CUDA ");
    p = vram__cuda_put_version(p, end, api->driver_version);
    p = vram__cuda_put(p, end, ", and the CUDA runtime is ");
    p = vram__cuda_put_version(p, end, api->runtime_version);
  } else if (api->devices < 1)
    p = vram__cuda_put(p, end, "no CUDA device");
  if (err) {
    memset(err, 0, sizeof *err);
    err->code = p == text ? VRAM_OK : VRAM_ERR_UNSUPPORTED;
    memcpy(err->text, text, sizeof text);
  }
  return p == text ? VRAM_OK : VRAM_ERR_UNSUPPORTED;
}

/* a library that the program has, else the first of the names (separated by spaces) that loads */
static void *vram__cuda_library(const char *names, const char *symbol) {
  static const int mode[2] = {RTLD_LAZY | RTLD_NOLOAD, RTLD_LAZY};
  char name[64];
  int pass;
  void *self = dlopen(NULL, RTLD_LAZY), *lib;
  if (self && dlsym(self, symbol))
    return self;
  for (pass = 0; pass < 2; pass++) {
    const char *p = names;
    while (*p) {
      size_t n = strcspn(p, " ");
      memcpy(name, p, n);
      name[n] = 0;
      lib = dlopen(name, mode[pass]);
      if (lib)
        return lib;
      p += n;
      p += strspn(p, " ");
    }
  }
  return NULL;
}

static void *vram__cuda_find(void *user, vram_cuda_library lib, const char *symbol) {
  void **handle = (void **)user;
  return handle[lib] ? dlsym(handle[lib], symbol) : NULL;
}

static void vram__cuda_drivers(void **lib) {
  lib[VRAM_CUDA_LIB_DRIVER] = vram__cuda_library("libcuda.so.1 libcuda.so", "cuMemCreate");
  lib[VRAM_CUDA_LIB_NVML] =
      vram__cuda_library("libnvidia-ml.so.1 libnvidia-ml.so", "nvmlDeviceGetHandleByPciBusId_v2");
}

VRAM_API vram_result vram_cuda_api_dlopen(vram_cuda_api *api, vram_error *err) {
  void *lib[3];
  lib[VRAM_CUDA_LIB_RUNTIME] = vram__cuda_library(
      "libcudart.so.13 libcudart.so.12 libcudart.so.11.0 libcudart.so", "cudaMalloc");
  vram__cuda_drivers(lib);
  vram_cuda_api_fill(api, vram__cuda_find, lib, 0);
  return vram__cuda_api_check(api, err);
}

/* The runtime that the program is linked with: its functions under other names, with the types of
   the table, so that no header of CUDA is needed and VRAM_CUDA_REROUTE does not reach them. They
   are weak: a program without it gets NULL, and one with it has them, static or shared, if anything
   else refers to it; with VRAM_CUDA_LINKED this file does. */
#if !defined(VRAM_CUDA_LINKED) && !defined(VRAM_CUDA_DLOPEN) && defined(__CUDA_RUNTIME_API_H__)
#define VRAM_CUDA_LINKED
#endif
#if defined(__ELF__) && (!defined(VRAM_CUDA_DLOPEN) || defined(VRAM_CUDA_LINKED))
#define VRAM__CUDA_LINKS
/* the symbol is a macro where streams are per thread */
#define VRAM__CUDA_LINK(field, symbol, arguments)                                                  \
  extern int vram__link_##field arguments __asm__(VRAM__CUDA_TEXT(symbol)) __attribute__((weak));
VRAM_CUDA_RUNTIME(VRAM__CUDA_LINK)
#if defined(VRAM_CUDA_LINKED) && !defined(VRAM_CUDA_REROUTE)
VRAM__CUDA_NEEDED
#endif
#endif

VRAM_API vram_result vram_cuda_api_linked(vram_cuda_api *api, vram_error *err) {
#ifdef VRAM__CUDA_LINKS
  if (vram__link_cuda_Malloc != NULL) {
    void *lib[3];
    lib[VRAM_CUDA_LIB_RUNTIME] = NULL;
    vram__cuda_drivers(lib);
    vram_cuda_api_fill(api, vram__cuda_find, lib, 1);
#define VRAM__X(field, symbol, arguments) api->field = vram__link_##field;
    VRAM_CUDA_RUNTIME(VRAM__X)
#undef VRAM__X
    vram__cuda_api_ask(api);
    return vram__cuda_api_check(api, err);
  }
#endif
  return vram_cuda_api_dlopen(api, err);
}
