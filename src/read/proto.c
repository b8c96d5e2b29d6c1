/* >>read/proto    messages of protobuf, field by field
   Every length is held against the end of the message around it; nothing is recursive here. */
#include "read/read.h"

VRAM__FN void vram__proto_begin(vram__proto *p, uint64_t end) {
  vram__memory_zero(p, sizeof *p);
  p->end = end;
}

/* Seven bits of each byte, at most ten bytes, none of them behind `end`; 0 after an error. */
VRAM__FN uint64_t vram__proto_varint(vram__reader *r, uint64_t end) {
  const uint64_t offset = vram__reader_offset(r);
  uint64_t v = 0;
  uint32_t i;
  for (i = 0; i < 10; i++) {
    uint8_t b;
    if (offset + i >= end) {
      vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, "a number goes on behind its message");
      return 0;
    }
    if (!vram__reader_has(r, 1, "a number"))
      return 0;
    b = *r->at++;
    v |= (uint64_t)(b & 127) << 7 * i; /* of the tenth byte one bit counts */
    if (b < 128)
      return v;
  }
  vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, "a number of more than ten bytes");
  return 0;
}

static void vram__proto_payload(vram__proto *p, vram__reader *r, uint64_t offset) {
  uint64_t bytes = 0;
  switch (p->tag & 7) {
  case VRAM__PROTO_VARINT:
    p->value = vram__proto_varint(r, p->end);
    break;
  case VRAM__PROTO_EIGHT:
    bytes = 8;
    break;
  case VRAM__PROTO_FOUR:
    bytes = 4;
    break;
  case VRAM__PROTO_BYTES:
    bytes = vram__proto_varint(r, p->end);
    break;
  default:
    if (!r->result) { /* groups, which nothing of ONNX has, and numbers that are no type */
      vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, "a field of wire type ");
      vram__error_number(r->error, "", p->tag & 7);
    }
  }
  p->begin = vram__reader_offset(r);
  if (!r->result && bytes > p->end - p->begin) {
    vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, "a field that is longer than its message: ");
    vram__error_number(r->error, "", bytes);
    vram__error_number(r->error, " bytes, there are ", p->end - p->begin);
  }
  p->bytes = bytes;
  p->behind = r->result ? p->begin : p->begin + bytes;
  if (!r->result && (p->tag & 7) == VRAM__PROTO_EIGHT)
    p->value = vram__reader_u64(r, "a number");
  if (!r->result && (p->tag & 7) == VRAM__PROTO_FOUR)
    p->value = vram__reader_u32(r, "a number");
}

/* The next field; what is left of the one before is skipped. 0: the message's end, or an error. */
VRAM__FN int vram__proto_next(vram__proto *p, vram__reader *r) {
  uint64_t offset = vram__reader_offset(r), tag;
  if (p->behind > offset)
    vram__reader_skip(r, p->behind - offset, "a field");
  offset = vram__reader_offset(r);
  if (r->result || offset >= p->end)
    return 0;
  tag = vram__proto_varint(r, p->end);
  if (!r->result && (tag >> 3 == 0 || tag > UINT32_MAX))
    vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, "no number of a field");
  if (r->result)
    return 0;
  p->tag = (uint32_t)tag;
  vram__proto_payload(p, r, offset);
  return !r->result;
}

/* A copy of a field's bytes; NULL: an error. */
VRAM__FN const char *vram__proto_text(const vram__proto *p, vram_file *f, vram__reader *r,
                                      uint32_t *len) {
  if (p->bytes > VRAM__PROTO_MAX_NAME) {
    vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, p->begin, "a name of more than 1 MiB");
    return NULL;
  }
  *len = (uint32_t)p->bytes;
  return vram__file_text(f, r, p->bytes, "a name");
}
