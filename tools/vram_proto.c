#include "vram_proto.h"

void proto_begin(proto *p, const char *s, size_t len) {
  memset(p, 0, sizeof *p);
  p->at = s;
  p->end = s + len;
}

/* Seven bits of each byte, at most ten bytes; 0 where there is no whole number. */
static int varint(proto *p, uint64_t *to) {
  uint64_t v = 0;
  unsigned i;
  for (i = 0; i < 10 && p->at < p->end; i++) {
    const uint8_t b = (uint8_t)*p->at++;
    v |= (uint64_t)(b & 127) << 7 * i; /* of the tenth byte one bit counts */
    if (b < 128)
      return *to = v, 1;
  }
  p->broken = 1;
  return 0;
}

int proto_next(proto *p) {
  uint64_t v;
  if (p->broken || p->at == p->end || !varint(p, &v))
    return 0;
  p->tag = (uint32_t)v;
  p->value = 0;
  p->s = p->at;
  p->len = 0;
  if (v > UINT32_MAX || !(v >> 3)) {
    p->broken = 1;
    return 0;
  }
  switch (v & 7) {
  case PROTO_VARINT:
    return varint(p, &p->value);
  case PROTO_EIGHT:
    v = 8;
    break;
  case PROTO_FOUR:
    v = 4;
    break;
  case PROTO_BYTES:
    if (!varint(p, &v))
      return 0;
    break;
  default: /* groups, which nobody writes any more */
    p->broken = 1;
    return 0;
  }
  if (v > (size_t)(p->end - p->at)) {
    p->broken = 1;
    return 0;
  }
  p->s = p->at;
  p->len = (size_t)v;
  p->at += p->len;
  return 1;
}

void proto_numbers(const proto *p, proto *left) {
  if ((p->tag & 7) == PROTO_BYTES)
    proto_begin(left, p->s, p->len);
  else {
    proto_begin(left, NULL, 0);
    left->value = p->value;
    left->tag = 1; /* one number, not yet given */
  }
}

int proto_number(proto *left, uint64_t *to) {
  if (left->tag) {
    *to = left->value;
    left->tag = 0;
    return 1;
  }
  return left->at < left->end && varint(left, to);
}
