/* Deflate (RFC 1951) and the frame that gzip puts around it (RFC 1952). No length that a file
   claims is believed: what comes out grows as it comes, and every byte that goes in is there. */
#include "vram_gzip.h"

enum { MAX_BITS = 15, LITERALS = 288, DISTANCES = 30, END_OF_BLOCK = 256 };

typedef struct packed {
  const char *path;
  const unsigned char *in;
  size_t n, at;
  unsigned char *out;
  size_t nout, cap, from; /* from: where this member's bytes begin */
  uint32_t bits;          /* taken from the input and not used yet, the lowest first */
  unsigned nbits;
  int status;
} packed;

typedef struct code { /* canonical: codes of a length follow each other, in the symbols' order */
  uint16_t count[MAX_BITS + 1], symbol[LITERALS];
} code;

static int bad(packed *p, const char *what) {
  if (!p->status) {
    cmd_say("%s: byte %lu of the packed file: %s", p->path, (unsigned long)p->at, what);
    p->status = USAGE;
  }
  return 0;
}

/* The next n bits, n <= 16; 0 behind the end, which is an error. */
static uint32_t take(packed *p, unsigned n) {
  uint32_t v;
  while (p->nbits < n) {
    if (p->at == p->n) {
      bad(p, "it ends in the middle");
      return 0;
    }
    p->bits |= (uint32_t)p->in[p->at++] << p->nbits;
    p->nbits += 8;
  }
  v = p->bits & ((UINT32_C(1) << n) - 1);
  p->bits >>= n;
  p->nbits -= n;
  return v;
}

/* Room for n bytes more. */
static int room(packed *p, size_t n) {
  size_t cap = p->cap ? p->cap : 4096;
  unsigned char *bigger;
  if (n <= p->cap - p->nout)
    return 1;
  if (n > CMD_MAX_INPUT - p->nout)
    return bad(p, "more than 1 GiB was packed");
  while (cap - p->nout < n)
    cap *= 2;
  bigger = (unsigned char *)realloc(p->out, cap);
  if (!bigger) {
    p->status = cmd_no_memory();
    return 0;
  }
  p->out = bigger;
  p->cap = cap;
  return 1;
}

/* The code whose symbols have these lengths; as zlib, it takes one that is not complete only where
   that is none, or a single code of one bit. */
static int make_code(packed *p, code *c, const uint8_t *length, unsigned n) {
  uint16_t first[MAX_BITS + 1];
  int32_t left = 1;
  unsigned i;
  memset(c->count, 0, sizeof c->count);
  for (i = 0; i < n; i++)
    c->count[length[i]]++;
  for (i = 1; i <= MAX_BITS; i++) {
    left = left * 2 - (int32_t)c->count[i];
    if (left < 0)
      return bad(p, "more codes than their lengths have room for");
  }
  if (left && (n - c->count[0] > 1 || c->count[1] + c->count[0] != n))
    return bad(p, "codes that leave some out");
  first[1] = 0;
  for (i = 1; i < MAX_BITS; i++)
    first[i + 1] = (uint16_t)(first[i] + c->count[i]);
  for (i = 0; i < n; i++)
    if (length[i])
      c->symbol[first[length[i]]++] = (uint16_t)i;
  return 1;
}

static unsigned symbol(packed *p, const code *c) {
  uint32_t v = 0, first = 0, index = 0;
  unsigned i;
  for (i = 1; i <= MAX_BITS && !p->status; i++) {
    v |= take(p, 1);
    if (v - first < c->count[i])
      return c->symbol[index + v - first];
    index += c->count[i];
    first = (first + c->count[i]) << 1;
    v <<= 1;
  }
  bad(p, "a code that stands for nothing");
  return END_OF_BLOCK;
}

static void stored(packed *p) {
  uint32_t n;
  p->bits = p->nbits = 0; /* up to the next byte: of none more than a part is taken */
  n = take(p, 16);
  if ((take(p, 16) ^ 0xffff) != n && !p->status)
    bad(p, "a length that is not its complement's");
  if (!p->status && n > p->n - p->at)
    bad(p, "it ends in the middle");
  if (p->status || !n || !room(p, n))
    return;
  memcpy(p->out + p->nout, p->in + p->at, n);
  p->nout += n;
  p->at += n;
}

/* Bytes, and copies of what came before, up to the end of the block. */
static void block(packed *p, const code *literal, const code *distance) {
  static const uint16_t length_from[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                         15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                         67, 83, 99, 115, 131, 163, 195, 227, 258};
  static const uint16_t distance_from[DISTANCES] = {
      1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
      193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  while (!p->status) {
    const unsigned s = symbol(p, literal);
    unsigned n, d;
    size_t back;
    if (p->status || s == END_OF_BLOCK)
      return;
    if (s < END_OF_BLOCK) {
      if (!room(p, 1))
        return;
      p->out[p->nout++] = (unsigned char)s;
      continue;
    }
    n = s - 257;
    if (n >= sizeof length_from / sizeof *length_from) {
      bad(p, "a code that stands for nothing");
      return;
    }
    n = length_from[n] + (n < 8 || n == 28 ? 0 : take(p, (n - 4) / 4));
    d = symbol(p, distance);
    if (p->status || d >= DISTANCES) {
      bad(p, "a code that stands for nothing");
      return;
    }
    back = (size_t)distance_from[d] + (d < 4 ? 0 : take(p, (d - 2) / 2));
    if (back > p->nout - p->from) {
      bad(p, "a copy of what is before the beginning");
      return;
    }
    if (p->status || !room(p, n))
      return;
    for (; n; n--, p->nout++)
      p->out[p->nout] = p->out[p->nout - back];
  }
}

static void fixed(packed *p) {
  uint8_t length[LITERALS];
  code literal, distance;
  unsigned i;
  for (i = 0; i < LITERALS; i++)
    length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  make_code(p, &literal, length, LITERALS);
  memset(length, 5, 32);
  make_code(p, &distance, length, 32);
  block(p, &literal, &distance);
}

static void dynamic(packed *p) {
  static const uint8_t order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                    11, 4,  12, 3, 13, 2, 14, 1, 15};
  uint8_t length[LITERALS + 32];
  code lengths, literal, distance;
  const unsigned nliteral = 257 + take(p, 5), ndistance = 1 + take(p, 5), n = 4 + take(p, 4);
  unsigned i;
  memset(length, 0, sizeof length);
  if (nliteral > 286 || ndistance > DISTANCES)
    bad(p, "more codes than there are");
  for (i = 0; i < n && !p->status; i++)
    length[order[i]] = (uint8_t)take(p, 3);
  if (p->status || !make_code(p, &lengths, length, 19))
    return;
  memset(length, 0, sizeof length);
  for (i = 0; i < nliteral + ndistance && !p->status;) {
    const unsigned s = symbol(p, &lengths);
    unsigned times = 1;
    uint8_t v = (uint8_t)s;
    if (s > 15) {
      if (s == 16 && !i) {
        bad(p, "a length before the first again");
        return;
      }
      v = 0;
      if (s == 16)
        v = length[i - 1];
      times = s == 16 ? 3 + take(p, 2) : s == 17 ? 3 + take(p, 3) : 11 + take(p, 7);
    }
    if (times > nliteral + ndistance - i) {
      bad(p, "more lengths than codes");
      return;
    }
    while (times--)
      length[i++] = v;
  }
  if (!p->status && !length[END_OF_BLOCK])
    bad(p, "a block without an end");
  if (!p->status && make_code(p, &literal, length, nliteral) &&
      make_code(p, &distance, length + nliteral, ndistance))
    block(p, &literal, &distance);
}

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
static uint32_t crc32_of(const unsigned char *s, size_t n) {
  uint32_t table[256], c;
  size_t i, k;
  for (i = 0; i < 256; i++) {
    c = (uint32_t)i;
    for (k = 0; k < 8; k++)
      c = c & 1 ? c >> 1 ^ UINT32_C(0xedb88320) : c >> 1;
    table[i] = c;
  }
  c = UINT32_C(0xffffffff);
  for (i = 0; i < n; i++)
    c = table[(c ^ s[i]) & 255] ^ c >> 8;
  return c ^ UINT32_C(0xffffffff);
}
#endif

static uint32_t take_number(packed *p) {
  const uint32_t low = take(p, 16);
  return low | take(p, 16) << 16;
}

/* Extra fields, the file's name, a comment: whatever the flags say that there is. */
static void head(packed *p) {
  enum { HEAD_CRC = 2, EXTRA = 4, NAME = 8, COMMENT = 16, RESERVED = 224 };
  unsigned flags, i;
  if (take(p, 16) != 0x8b1f)
    bad(p, "more behind what was packed");
  if (take(p, 8) != 8)
    bad(p, "not packed by deflate");
  flags = take(p, 8);
  if (flags & RESERVED)
    bad(p, "flags that nothing is known of");
  for (i = 0; i < 6; i++)
    take(p, 8);
  if (flags & EXTRA)
    for (i = take(p, 16); i && !p->status; i--)
      take(p, 8);
  if (flags & NAME)
    while (!p->status && take(p, 8))
      ;
  if (flags & COMMENT)
    while (!p->status && take(p, 8))
      ;
  if (flags & HEAD_CRC)
    take(p, 16);
}

static void member(packed *p) {
  uint32_t last = 0, crc, bytes;
  head(p);
  p->from = p->nout;
  while (!last && !p->status) {
    last = take(p, 1);
    switch (take(p, 2)) {
    case 0:
      stored(p);
      break;
    case 1:
      fixed(p);
      break;
    case 2:
      dynamic(p);
      break;
    default:
      bad(p, "a block of no known kind");
    }
  }
  p->bits = p->nbits = 0;
  crc = take_number(p);
  bytes = take_number(p);
  if (!p->status && bytes != (uint32_t)(p->nout - p->from))
    bad(p, "not as many bytes as it says were packed");
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* a fuzzer does not find a CRC */
  if (!p->status && crc != crc32_of(p->out + p->from, p->nout - p->from))
    bad(p, "not what was packed: its CRC differs");
#else
  (void)crc;
#endif
}

int gzip_is(const char *bytes, size_t len) { return len > 2 && !memcmp(bytes, "\037\213\010", 3); }

int gzip_unpack(const char *path, char **bytes, size_t *len) {
  packed p;
  memset(&p, 0, sizeof p);
  p.path = strcmp(path, "-") ? path : "standard input";
  p.in = (const unsigned char *)*bytes;
  p.n = *len;
  room(&p, 1);
  while (p.at < p.n && !p.status)
    member(&p);
  if (p.status) {
    free(p.out);
    return p.status;
  }
  free(*bytes);
  *bytes = (char *)p.out;
  *len = p.nout;
  return FITS;
}
