/* Ranges of NVTX as tags: the functions that an injection fills in, without NVTX (nvtx.cpp does the
   same with its headers). */
#include "../../vram_cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;
#define IS(x) ((x) ? (void)0 : (void)(printf("line %d: %s\n", __LINE__, #x), failed = 1))
#define TEXT(a, b) IS(!strcmp(a, b))

/* as NVTX hands its functions out: 0 where this injection has none */
static void (*nvtx_core[16])(void), (*nvtx_core2[16])(void);
static void (**nvtx_of[2][16])(void);
static int nvtx_functions(int module, void (****table)(void), unsigned *size) {
  const int second = module == 5;
  unsigned i;
  if (module != 1 && module != 5)
    return 0;
  for (i = 0; i < 16; i++)
    nvtx_of[second][i] = second ? &nvtx_core2[i] : &nvtx_core[i];
  *table = nvtx_of[second];
  *size = 16;
  return 1;
}
static struct {
  size_t bytes;
  int (*functions)(int module, void (****table)(void), unsigned *size);
} nvtx_callbacks = {sizeof nvtx_callbacks, nvtx_functions};
static const void *nvtx_table(uint32_t id) { return id == 1 ? &nvtx_callbacks : NULL; }
static const void *nvtx_none(uint32_t id) {
  (void)id;
  return NULL;
}

/* the tag that an allocation has now */
static const char *tag_now(void) {
  static char tag[300];
  vram_owner o[2];
  void *p = NULL;
  IS(vram_cudaMalloc(&p, 10) == 0);
  IS(vram_ledger_owners(&vram_cuda_default()->ledger, 0, o, 2) == 1);
  snprintf(tag, sizeof tag, "%s", o[0].tag ? o[0].tag : "-");
  IS(vram_cudaFree(p) == 0);
  return tag;
}

int main(void) {
  typedef const void *(*by_name)(const void *, const char *);
  int (*push)(const char *), (*pop)(void), (*push_in)(const void *, const void *),
      (*pop_in)(const void *);
  struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
  } a = {3, sizeof a, 0, 0, 0, 0, 0, 0, 1, "in a library"};
  char name[300];
  int i, domain;
  IS(vram_cuda_nvtx(NULL) == 0);
  IS(vram_cuda_nvtx(nvtx_none) == 0);
  IS(vram_cuda_nvtx(nvtx_table) == 1);
  push = (int (*)(const char *))nvtx_core[9];
  pop = (int (*)(void))nvtx_core[11];
  push_in = (int (*)(const void *, const void *))nvtx_core2[4];
  pop_in = (int (*)(const void *))nvtx_core2[5];
  TEXT(tag_now(), "-");
  strcpy(name, "step");
  (void)push(name);
  strcpy(name, "????"); /* the caller's text is his again */
  TEXT(tag_now(), "step");
  (void)push_in(&domain, &a);
  TEXT(tag_now(), "in a library");
  (void)pop(); /* "step": each domain has its own innermost */
  TEXT(tag_now(), "in a library");
  {
    VRAM_CUDA_TAG("mine");
    TEXT(tag_now(), "mine");
  }
  (void)pop_in(&domain);
  (void)pop_in(&domain); /* one too many */
  TEXT(tag_now(), "-");
  a.message_type = 3;
  a.message = ((by_name)nvtx_core2[10])(&domain, "registered");
  (void)push_in(&domain, &a);
  TEXT(tag_now(), "registered");
  a.size = 8; /* an older one, without a message */
  (void)push_in(&domain, &a);
  TEXT(tag_now(), "registered");
  a.message_type = 2;
  a.message = L"\u00e9 \u20ac \U0001f680";
  a.size = sizeof a;
  (void)push_in(&domain, &a);
  TEXT(tag_now(), "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80");
  for (i = 0; i < 3; i++)
    (void)pop_in(&domain);
  for (i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "%d", i);
    (void)push(name);
  }
  TEXT(tag_now(), "31");
  for (i = 0; i < 39; i++)
    (void)pop();
  TEXT(tag_now(), "0");
  (void)pop();
  a.message_type = 1;
  a.message = "in a library";
  (void)push_in(&domain, &a);
  for (i = 0; i < 40; i++)
    (void)push("deep");
  (void)pop_in(&domain); /* its own, 41 deep */
  for (i = 0; i < 40; i++)
    (void)pop();
  TEXT(tag_now(), "-");
  memset(name, 'a', sizeof name - 1);
  memcpy(name + 255, "\xc3\xa9", 2); /* a name is cut before a character, not in it */
  (void)push(name);
  IS(strlen(tag_now()) == 255);
  (void)pop();
  memset(name, 'a', sizeof name - 1);
  name[sizeof name - 1] = 0;
  for (i = 0; i < 600; i++) { /* more names than there is room for: no tag, nothing else */
    snprintf(name, 8, "%07d", i);
    name[7] = 'a';
    (void)push(name);
    if (i == 0)
      IS(strlen(tag_now()) == 256);
    (void)pop();
    IS(vram_cuda_nvtx_lost() == 0 || i > 100);
  }
  i = (int)vram_cuda_nvtx_lost();
  IS(i > 300 && i < 600); /* 257 bytes each */
  (void)push(name);
  IS(vram_cuda_nvtx_lost() == (uint32_t)i + 1);
  TEXT(tag_now(), "-");
  (void)pop();
  printf("%s\n", failed ? "failed" : "counted");
  return failed;
}
