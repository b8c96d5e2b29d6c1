/* Messages of protobuf that lie in memory: the fields one after the other. The library's own walker
   (src/read/proto.c) reads files of any size by ranges. */
#ifndef VRAM_PROTO_H
#define VRAM_PROTO_H

#include "vram_command.h"

enum { PROTO_VARINT = 0, PROTO_EIGHT = 1, PROTO_BYTES = 2, PROTO_FOUR = 5 };
/* A field's number and what it is: a field of another wire type is another field. */
#define PROTO_V(number) ((uint32_t)(number) << 3 | PROTO_VARINT)
#define PROTO_B(number) ((uint32_t)(number) << 3 | PROTO_BYTES)

typedef struct proto {
  const char *at, *end;
  uint32_t tag;
  uint64_t value; /* of a varint */
  const char *s;  /* of BYTES */
  size_t len;
  int broken; /* a field that its message has no room for, or of no known kind */
} proto;

void proto_begin(proto *p, const char *s, size_t len);
/* The next field; 0: the end, or p->broken. */
int proto_next(proto *p);
/* What a repeated number's field holds, packed or one: the next one of it. 0: no more. `left` is
   made by proto_numbers() from the field. */
void proto_numbers(const proto *p, proto *left);
int proto_number(proto *left, uint64_t *to);

#endif
