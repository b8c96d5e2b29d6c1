/* >>route (Implementation) --------------------------------------------------------------------- */

typedef struct vram__cuda_told {
  vram_cuda_tracker *t;
  const char *file, *function;
  uintptr_t first;
  uint32_t line;
} vram__cuda_told;

static VRAM__THREAD vram__cuda_told vram__cuda_last;

VRAM_API uintptr_t vram_cuda_here(VRAM_CUDA_SITE, uintptr_t first) {
  vram__cuda_told *l = &vram__cuda_last;
  l->t = t;
  l->file = file;
  l->line = line;
  l->function = function;
  l->first = first;
  return first;
}

/* what was told of a call with this argument, once */
static vram__cuda_told vram__cuda_listen(uintptr_t first, const char *call) {
  vram__cuda_told told = vram__cuda_last;
  if (!first || told.first != first) {
    told.t = NULL;
    told.file = NULL;
    told.function = call;
    told.line = 0;
  }
  vram__cuda_last.first = 0;
  return told;
}

static void *vram__cuda_of_thread(void *stream) {
  return stream ? stream : (void *)(uintptr_t)2; /* cudaStreamPerThread */
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameters of functions */
#define VRAM__X(name, parameters, call)                                                            \
  VRAM_API int VRAM__ROUTED(vram_routed_##name) parameters {                                       \
    const vram__cuda_told told = vram__cuda_listen((uintptr_t)p, #name " without a line");         \
    vram_cuda_tracker *const t = told.t;                                                           \
    const char *const file = told.file, *const function = told.function;                           \
    const uint32_t line = told.line;                                                               \
    (void)file, (void)function, (void)line;                                                        \
    return call;                                                                                   \
  }
VRAM_CUDA_ROUTES(VRAM__X)
#undef VRAM__X
/* NOLINTEND(bugprone-macro-parentheses) */

VRAM_API int VRAM__ROUTED(vram_routed_cudaDeviceReset)(void) {
  return vram_cudaDeviceReset_in(NULL);
}
