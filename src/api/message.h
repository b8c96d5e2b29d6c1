#pragma once
#include "api/types.h"
/* >>message ===================================================================================
   What a program said when it found no memory on a device: PyTorch's text in its forms since 1.0,
   XLA's (JAX, TensorFlow) and llama.cpp's, anywhere in a log. */

#define VRAM_MESSAGE_SOURCES(X)                                                                    \
  X(TORCH, "PyTorch") /* its caching allocator */                                                  \
  X(TORCH_ASYNC, "PyTorch, cudaMallocAsync")                                                       \
  X(TORCH_HOST, "PyTorch, host memory")                                                            \
  X(TORCH_MPS, "PyTorch, MPS")                                                                     \
  X(CUDA, "CUDA") /* nothing but that there is none */                                             \
  X(XLA, "XLA: JAX or TensorFlow")                                                                 \
  X(LLAMA, "llama.cpp")

typedef enum vram_message_source {
#define VRAM__X(id, text) VRAM_MESSAGE_##id,
  VRAM_MESSAGE_SOURCES(VRAM__X)
#undef VRAM__X
      VRAM_MESSAGE_SOURCE_COUNT
} vram_message_source;

/* Bytes that a message tells. */
#define VRAM_MESSAGE_FIELDS(X)                                                                     \
  X(ASKED, "asked")             /* the request that failed */                                      \
  X(TOTAL, "total")             /* of the device */                                                \
  X(FREE, "free")               /* of the device */                                                \
  X(ALLOWED, "allowed")         /* of a limit that the program has set itself */                   \
  X(ALLOCATED, "allocated")     /* of the allocator: in use, */                                    \
  X(RESERVED, "reserved")       /* with what it keeps, */                                          \
  X(UNALLOCATED, "unallocated") /* that alone, */                                                  \
  X(PRIVATE, "private_pools")   /* and in pools of graphs */                                       \
  X(PROCESS, "process")         /* all of this process */                                          \
  X(OTHERS, "others")           /* other processes */

typedef enum vram_message_field {
#define VRAM__X(id, text) VRAM_MESSAGE_##id,
  VRAM_MESSAGE_FIELDS(VRAM__X)
#undef VRAM__X
      VRAM_MESSAGE_FIELD_COUNT
} vram_message_field;

/* Why there was no memory. */
#define VRAM_CAUSES(X)                                                                             \
  X(UNKNOWN, "unknown", "the message does not tell enough")                                        \
  X(TOO_LARGE, "too large", "the request alone is more than there is")                             \
  X(LIMIT, "limit", "a limit that the program has set itself: the device has room")                \
  X(FRAGMENTATION, "fragmentation",                                                                \
    "the allocator keeps enough that is free, in pieces or elsewhere than it is asked for")        \
  X(PRIVATE_POOLS, "private pools",                                                                \
    "what pools of CUDA graphs keep would be enough, and nothing else may use it")                 \
  X(OTHER_PROCESSES, "other processes", "without what others hold there would be room")            \
  X(HAD_FREE, "had free",                                                                          \
    "the device said that so much is free: another process took it, or it is in pieces")           \
  X(FULL, "full", "this program itself has the device, and needs more than is left")

typedef enum vram_cause {
#define VRAM__X(id, name, text) VRAM_CAUSE_##id,
  VRAM_CAUSES(VRAM__X)
#undef VRAM__X
      VRAM_CAUSE_COUNT
} vram_cause;

typedef struct vram_message {
  vram_message_source source;
  uint32_t known;                            /* 1u << a field that it tells, or that follows */
  uint64_t bytes[VRAM_MESSAGE_FIELD_COUNT];  /* 0 where it is not known */
  uint64_t within[VRAM_MESSAGE_FIELD_COUNT]; /* the figure is rounded: so far off at most */
  int has_device;
  uint32_t device;  /* its number, with has_device */
  uint64_t at;      /* where it begins in the text */
  uint32_t count;   /* of such messages in the text: the first is read */
  vram_cause cause; /* and others that would have helped, as 1u << a cause: */
  uint32_t also;
} vram_message;

/* Reads the first message in a text (never NULL) of any length; *to is never NULL. 0: there is
   none. */
VRAM_API int vram_message_read(const char *text, uint64_t len, vram_message *to);

/* Names, never NULL: "?" for what is none. */
VRAM_API const char *vram_message_source_name(vram_message_source source);
VRAM_API const char *vram_message_field_name(vram_message_field field);
VRAM_API const char *vram_cause_name(vram_cause cause);
VRAM_API const char *vram_cause_text(vram_cause cause); /* what it means */
