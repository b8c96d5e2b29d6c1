/* >>nvtx (Implementation) ----------------------------------------------------------------------
   Ranges of NVTX as tags. An injection of NVTX fills in functions of its table; who it is says the
   environment (Nsight), else the program, in a pointer that NVTX's headers define from 3.2 on. No
   header of NVTX is needed: names, numbers and layout are those of nvtx3/nvtxDetail/nvtxTypes.h and
   nvToolsExt.h, version 3. */

#ifndef VRAM_CUDA_NVTX_BYTES
#define VRAM_CUDA_NVTX_BYTES 65536
#elif VRAM_CUDA_NVTX_BYTES < 1024
#error "VRAM_CUDA_NVTX_BYTES: at least 1024 (VRAM_CUDA_NO_NVTX: ranges are not tags)"
#endif

#define VRAM__NVTX_DEPTH 32         /* ranges whose names are kept, */
#define VRAM__NVTX_DOMAINS 256      /* and whose domains are */
#define VRAM__NVTX_NOT_TRACKED (-2) /* NVTX_NO_PUSH_POP_TRACKING */

typedef struct vram__nvtx_attributes { /* nvtxEventAttributes_t */
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} vram__nvtx_attributes;

/* the ranges of this thread; each domain takes its own innermost back */
typedef struct vram__nvtx_ranges {
  const char *name[VRAM__NVTX_DEPTH];
  uint16_t domain[VRAM__NVTX_DOMAINS]; /* a library that is opened late has little room */
  uint32_t depth; /* may be more than there is room for: then the innermost are not heard */
} vram__nvtx_ranges;

static VRAM__THREAD vram__nvtx_ranges vram__nvtx_thread;

/* Names that were heard, one after the other, each once: the ledger tells texts by their address,
   and keeps them longer than a range has its name. */
static struct {
  char text[VRAM_CUDA_NVTX_BYTES];
  uint32_t bytes, n, slot[VRAM_CUDA_NVTX_BYTES / 8]; /* at most three quarters of them are taken */
  uint32_t lost;                                     /* names that found no room */
} vram__nvtx_names;
static pthread_mutex_t vram__nvtx_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *vram__nvtx_keep(const char *name, size_t n) {
  const uint32_t slots = sizeof vram__nvtx_names.slot / sizeof vram__nvtx_names.slot[0];
  uint32_t h = 2166136261u, i;
  const char *kept = NULL;
  size_t k;
  for (k = 0; k < n; k++)
    h = (h ^ (unsigned char)name[k]) * 16777619u;
  (void)pthread_mutex_lock(&vram__nvtx_lock);
  i = h % slots;
  for (; vram__nvtx_names.slot[i]; i = (i + 1) % slots) {
    const char *const at = vram__nvtx_names.text + (vram__nvtx_names.slot[i] - 1);
    for (k = 0; k < n && at[k] == name[k]; k++)
      ;
    if (k == n && !at[n]) {
      kept = at;
      break;
    }
  }
  if (!kept && vram__nvtx_names.n < slots / 4 * 3 &&
      n < VRAM_CUDA_NVTX_BYTES - vram__nvtx_names.bytes) {
    kept = (char *)memcpy(vram__nvtx_names.text + vram__nvtx_names.bytes, name, n);
    vram__nvtx_names.slot[i] = vram__nvtx_names.bytes + 1;
    vram__nvtx_names.bytes += (uint32_t)n + 1; /* and a 0, which is there */
    vram__nvtx_names.n++;
  }
  if (!kept)
    (void)__atomic_fetch_add(&vram__nvtx_names.lost, 1, __ATOMIC_RELAXED);
  (void)pthread_mutex_unlock(&vram__nvtx_lock);
  return kept;
}

#define VRAM__NVTX_NAME 256 /* bytes of a name that are kept */

static const char *vram__nvtx_ascii(const char *name) {
  size_t n = 0;
  while (name && n < VRAM__NVTX_NAME && name[n])
    n++;
  if (n == VRAM__NVTX_NAME && ((unsigned char)name[n] & 0xC0) == 0x80) /* within a character */
    while (n && ((unsigned char)name[--n] & 0xC0) == 0x80)
      ;
  return n ? vram__nvtx_keep(name, n) : NULL;
}

/* as UTF-8 */
static const char *vram__nvtx_wide(const wchar_t *name) {
  char text[VRAM__NVTX_NAME];
  size_t n = 0;
  for (; name && *name && n + 4 <= sizeof text; name++) {
    const uint32_t c = (uint32_t)*name;
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text[n++] = (char)(more ? (0xFF00u >> (more + 1) & 0xFF) | (c >> 6 * more & 0x3Fu >> more) : c);
    while (more-- > 0)
      text[n++] = (char)(0x80 | (c >> 6 * more & 0x3F));
  }
  return n ? vram__nvtx_keep(text, n) : NULL;
}

/* Names that are kept lie in one array: within so many bytes of it no two are the same number. */
static uint16_t vram__nvtx_number(const void *domain) {
  return (uint16_t)(domain ? 1 + (uintptr_t)domain % 65521 : 0);
}

static int vram__nvtx_push(const void *domain, const char *name) {
  vram__nvtx_ranges *r = &vram__nvtx_thread;
  if (r->depth < VRAM__NVTX_DEPTH)
    r->name[r->depth] = name;
  if (r->depth < VRAM__NVTX_DOMAINS)
    r->domain[r->depth] = vram__nvtx_number(domain);
  r->depth++;
  return VRAM__NVTX_NOT_TRACKED;
}

static int vram__nvtx_domain_pop(const void *domain) {
  vram__nvtx_ranges *r = &vram__nvtx_thread;
  const uint16_t number = vram__nvtx_number(domain);
  uint32_t i = r->depth;
  if (i > VRAM__NVTX_DOMAINS)
    r->depth--;
  else {
    while (i && r->domain[i - 1] != number)
      i--;
    if (i) {
      for (; i < r->depth; i++) {
        if (i <= VRAM__NVTX_DEPTH) /* of one too deep there is no name */
          r->name[i - 1] = i < VRAM__NVTX_DEPTH ? r->name[i] : NULL;
        r->domain[i - 1] = r->domain[i];
      }
      r->depth--;
    }
  }
  return VRAM__NVTX_NOT_TRACKED;
}

static int vram__nvtx_domain_push(const void *domain, const vram__nvtx_attributes *a) {
  const char *name = NULL;
  if (a && a->size >= sizeof *a) {
    if (a->message_type == 1)
      name = vram__nvtx_ascii((const char *)a->message);
    else if (a->message_type == 2)
      name = vram__nvtx_wide((const wchar_t *)a->message);
    else if (a->message_type == 3) /* registered: what was given for it */
      name = (const char *)a->message;
  }
  return vram__nvtx_push(domain, name);
}

static int vram__nvtx_push_ex(const vram__nvtx_attributes *a) {
  return vram__nvtx_domain_push(NULL, a);
}
static int vram__nvtx_push_a(const char *name) {
  return vram__nvtx_push(NULL, vram__nvtx_ascii(name));
}
static int vram__nvtx_push_w(const wchar_t *name) {
  return vram__nvtx_push(NULL, vram__nvtx_wide(name));
}
static int vram__nvtx_pop(void) { return vram__nvtx_domain_pop(NULL); }
static const char *vram__nvtx_register_a(const void *domain, const char *text) {
  (void)domain;
  return vram__nvtx_ascii(text);
}
static const char *vram__nvtx_register_w(const void *domain, const wchar_t *text) {
  (void)domain;
  return vram__nvtx_wide(text);
}
/* A domain is told from the others by its handle: that of its name. */
static const void *vram__nvtx_create_a(const char *name) { return vram__nvtx_ascii(name); }
static const void *vram__nvtx_create_w(const wchar_t *name) { return vram__nvtx_wide(name); }

/* the name of the innermost range that has one */
static const char *vram__nvtx_tag(void) {
  const vram__nvtx_ranges *r = &vram__nvtx_thread;
  uint32_t i = r->depth > VRAM__NVTX_DEPTH ? VRAM__NVTX_DEPTH : r->depth;
  while (i && !r->name[i - 1])
    i--;
  return i ? r->name[i - 1] : NULL;
}

typedef void (*vram__nvtx_function)(void);
typedef struct vram__nvtx_callbacks { /* NvtxExportTableCallbacks */
  size_t struct_size;
  int (*functions)(int module, vram__nvtx_function ***table, unsigned *size);
} vram__nvtx_callbacks;

static void vram__nvtx_set(vram__nvtx_function **table, unsigned size, unsigned i,
                           vram__nvtx_function f) {
  if (i < size && table[i])
    *table[i] = f;
}

VRAM_API uint32_t vram_cuda_nvtx_lost(void) {
  return __atomic_load_n(&vram__nvtx_names.lost, __ATOMIC_RELAXED);
}

VRAM_API int vram_cuda_nvtx(const void *(*exported)(uint32_t)) {
  const vram__nvtx_callbacks *c = exported ? (const vram__nvtx_callbacks *)exported(1) : NULL;
  vram__nvtx_function **table = NULL;
  unsigned size = 0;
  if (!c || c->struct_size < sizeof *c)
    return 0;
#define VRAM__NVTX(i, f) vram__nvtx_set(table, size, i, (vram__nvtx_function)(f))
  if (c->functions(1, &table, &size)) { /* NVTX_CB_MODULE_CORE */
    VRAM__NVTX(8, vram__nvtx_push_ex);
    VRAM__NVTX(9, vram__nvtx_push_a);
    VRAM__NVTX(10, vram__nvtx_push_w);
    VRAM__NVTX(11, vram__nvtx_pop);
  }
  if (c->functions(5, &table, &size)) { /* NVTX_CB_MODULE_CORE2 */
    VRAM__NVTX(4, vram__nvtx_domain_push);
    VRAM__NVTX(5, vram__nvtx_domain_pop);
    VRAM__NVTX(10, vram__nvtx_register_a);
    VRAM__NVTX(11, vram__nvtx_register_w);
    VRAM__NVTX(12, vram__nvtx_create_a);
    VRAM__NVTX(13, vram__nvtx_create_w);
  }
#undef VRAM__NVTX
  return 1;
}

#if defined(__ELF__) && defined(__GNUC__) && !defined(VRAM_CUDA_NO_NVTX)
/* NVTX of this program asks this pointer at its first call; a program without NVTX has none. */
extern int (*vram__nvtx_injection)(const void *(*)(uint32_t)) __asm__(
    "InitializeInjectionNvtx2_fnptr") __attribute__((weak));
__attribute__((constructor)) static void vram__nvtx_begin(void) {
  if (&vram__nvtx_injection && !vram__nvtx_injection)
    vram__nvtx_injection = vram_cuda_nvtx;
}
#endif
