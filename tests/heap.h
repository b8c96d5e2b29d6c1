/* A vram_allocator that counts and fails. */
#ifndef HEAP_H
#define HEAP_H

#include "test.h"

#include "../vram.h"

static long heap_left = -1; /* allocations until one fails, -1: none does */
static uint64_t heap_live;

static void *heap_alloc(void *user, uint64_t bytes) {
  CHECK(user == &heap_live);
  if (heap_left >= 0 && heap_left-- == 0)
    return NULL;
  heap_live += bytes;
  return test_scratch(bytes);
}
static void heap_free(void *user, void *memory, uint64_t bytes) {
  CHECK(user == &heap_live && memory && bytes <= heap_live);
  heap_live -= bytes;
  free(memory);
}
static const vram_allocator heap = {heap_alloc, heap_free, &heap_live};

#endif
