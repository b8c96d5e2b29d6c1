/* >>llama/graph    a graph as ggml-alloc and ggml's scheduler see it */
#pragma once
#include "llama/llama.h"

enum {
  VRAM__GRAPH_SOURCES = 8,
  VRAM__GRAPH_BLOCKS = 256, /* MAX_FREE_BLOCKS */
  VRAM__GRAPH_BUFFERS = VRAM_LLAMA_MAX_DEVICES + 1
};

/* What a tensor is to the allocator. */
enum {
  VRAM__NODE_IN_PLACE = 1u, /* ggml_op_can_inplace: may take over the place of a source */
  VRAM__NODE_INPUT = 2u,    /* lies on the host before the graph runs, and may not be overwritten
                               before its last use */
  VRAM__NODE_OUTPUT = 4u,   /* is never freed */
  VRAM__NODE_FOREIGN = 8u,  /* a weight or a cache: in a buffer of its own */
  VRAM__NODE_IS_PLACED = 16u,
  VRAM__NODE_WEIGHT = 64u, /* foreign, too */
  VRAM__NODE_FUSED = 128u  /* no tensor: its sources live until here if one split of a device has
                              all from `view` on */
};

typedef struct vram__graph_node {
  uint64_t bytes, offset;
  uint64_t room; /* bytes more on a device */
  uint64_t ne[3];
  int32_t source[VRAM__GRAPH_SOURCES];
  int32_t view; /* of whose memory this is a part; -1: it has its own */
  int32_t copy; /* its first copy on another device, and a copy's next; -1: none */
  uint32_t nchild, nview;
  uint16_t flags;
  uint8_t nsource;
  int8_t buffer; /* -1: that of its neighbours */
} vram__graph_node;

/* Free memory of one buffer, sorted by offset; the last block has no end. */
typedef struct vram__graph_heap {
  uint64_t offset[VRAM__GRAPH_BLOCKS], bytes[VRAM__GRAPH_BLOCKS];
  uint64_t alignment, peak;
  uint32_t n;
} vram__graph_heap;

typedef struct vram__graph {
  vram__graph_node *node;
  int32_t *order; /* nodes as they are computed; inputs and weights are in none */
  uint32_t nnode, norder, cap;
  uint32_t nbuffer;       /* the host is the last */
  uint8_t is_pipeline;    /* several batches at a time */
  uint8_t is_full;        /* the memory was too small */
  vram__graph_heap *heap; /* nbuffer of them */
} vram__graph;

/* graph_alloc.c */
VRAM__FN void vram__heap_begin(vram__graph_heap *h, uint64_t alignment);
VRAM__FN uint64_t vram__heap_take(vram__graph_heap *h, uint64_t bytes);
VRAM__FN int vram__heap_give(vram__graph_heap *h, uint64_t offset, uint64_t bytes);
VRAM__FN int vram__graph_place(vram__graph *g);

/* graph_split.c */
VRAM__FN void vram__graph_split(vram__graph *g);

/* graph_build.c */
VRAM__FN void vram__llama_compute(const vram__llama *m, void *memory, uint64_t bytes,
                                  vram_llama_report *r);
