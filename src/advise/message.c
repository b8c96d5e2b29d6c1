/* >>advise/message    what programs say when they find no memory
   A message is a phrase that begins it and phrases with figures behind it. They are looked for one
   by one and not as whole lines: between versions their order changes more than their words, and
   logs break lines. */
#include "core/core.h"

enum { VRAM__MESSAGE_REACH = 16384 }; /* bytes behind its beginning in which its figures stand */

/* In phrases ' ' is any white space (there may be none at its place behind a figure), % a figure
   with its unit, ^ one whose unit is more than a byte, ~ a word or nothing. */
typedef struct vram__message_form {
  vram_message_source source;
  vram_cause cause;   /* that the words say themselves, whatever the figures are */
  const char *phrase; /* with the bytes that were asked for, if it has a figure */
} vram__message_form;

/* c10/cuda/CUDACachingAllocator.cpp (before 1.1: THC/THCCachingAllocator.cpp) and its kin for XPU;
   CUDAMallocAsyncAllocator.cpp; c10/core/impl/alloc_cpu.cpp; mps/MPSAllocator.mm; xla's
   tsl/framework/bfc_allocator.cc, service/gpu and stream_executor; ggml-cuda.cu, ggml-alloc.c.
   What stands before another row wins where both begin at the same place. */
static const vram__message_form vram__message_forms[] = {
    {VRAM_MESSAGE_TORCH_MPS, VRAM_CAUSE_UNKNOWN, "MPS backend out of memory"},
    {VRAM_MESSAGE_TORCH_MPS, VRAM_CAUSE_TOO_LARGE, "Invalid buffer size: ^"},
    {VRAM_MESSAGE_TORCH, VRAM_CAUSE_UNKNOWN, "out of memory. Tried to allocate %"},
    {VRAM_MESSAGE_TORCH, VRAM_CAUSE_TOO_LARGE, "out of memory. Tried to allocate more than %"},
    {VRAM_MESSAGE_TORCH, VRAM_CAUSE_LIMIT, "out of memory. Allocation was preemptively rejected"},
    {VRAM_MESSAGE_TORCH_ASYNC, VRAM_CAUSE_UNKNOWN,
     "Allocation on device ~ would exceed allowed memory"},
    {VRAM_MESSAGE_TORCH_HOST, VRAM_CAUSE_UNKNOWN,
     "DefaultCPUAllocator: can't allocate memory: you tried to allocate %"},
    {VRAM_MESSAGE_TORCH_HOST, VRAM_CAUSE_UNKNOWN,
     "DefaultCPUAllocator: not enough memory: you tried to allocate %"},
    {VRAM_MESSAGE_TORCH_HOST, VRAM_CAUSE_UNKNOWN,
     "Torch: not enough memory: you tried to allocate %"}, /* 1.0 */
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "ran out of memory trying to allocate %"},
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "Out of memory while trying to allocate %"},
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "Out of memory trying to allocate %"},
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "Out of memory allocating %"},
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "Failed to allocate request for %"},
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "Ran out of memory in memory space"},
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "OOM when allocating tensor with shape"},
    {VRAM_MESSAGE_XLA, VRAM_CAUSE_UNKNOWN, "failed to allocate % ("},
    {VRAM_MESSAGE_LLAMA, VRAM_CAUSE_UNKNOWN, "allocating % on device"},
    {VRAM_MESSAGE_LLAMA, VRAM_CAUSE_UNKNOWN, "failed to allocate ~ buffer of size %"},
    {VRAM_MESSAGE_LLAMA, VRAM_CAUSE_UNKNOWN, "failed to allocate buffer, size = %"}, /* Metal */
    {VRAM_MESSAGE_LLAMA, VRAM_CAUSE_UNKNOWN,
     "Device memory allocation of size % failed"},                                    /* Vulkan */
    {VRAM_MESSAGE_LLAMA, VRAM_CAUSE_UNKNOWN, "can't allocate % of memory on device"}, /* SYCL */
    {VRAM_MESSAGE_LLAMA, VRAM_CAUSE_UNKNOWN, "unable to allocate ~ buffer"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "CUDA error: out of memory"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "CUDA driver error: out of memory"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "HIP error: out of memory"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "hipErrorOutOfMemory"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "Cuda failure 2 'out of memory'"}, /* NCCL */
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "CUDNN_STATUS_ALLOC_FAILED"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "cuda runtime error (2) : out of memory"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "CUBLAS_STATUS_ALLOC_FAILED"},
    {VRAM_MESSAGE_CUDA, VRAM_CAUSE_UNKNOWN, "CUDA_ERROR_OUT_OF_MEMORY"}};

typedef struct vram__message_row {
  uint32_t sources; /* 1u << vram_message_source */
  vram_message_field field;
  const char *phrase;
} vram__message_row;

#define VRAM__TORCH (1u << VRAM_MESSAGE_TORCH)
#define VRAM__ASYNC (1u << VRAM_MESSAGE_TORCH_ASYNC)
#define VRAM__MPS (1u << VRAM_MESSAGE_TORCH_MPS)
#define VRAM__XLA (1u << VRAM_MESSAGE_XLA)

/* clang-format off */
static const vram__message_row vram__message_rows[] = {
    {VRAM__TORCH, VRAM_MESSAGE_TOTAL, "% total capacity"},         /* 1.0 to 2.0 */
    {VRAM__TORCH, VRAM_MESSAGE_TOTAL, "total capacity of %"},      /* since 2.2 */
    {VRAM__TORCH, VRAM_MESSAGE_TOTAL, "total capacty of %"},       /* 2.1 */
    {VRAM__TORCH, VRAM_MESSAGE_ALLOCATED, "% already allocated"},
    {VRAM__TORCH, VRAM_MESSAGE_ALLOCATED, "Of the allocated memory % is allocated by PyTorch"},
    {VRAM__TORCH, VRAM_MESSAGE_FREE, "% free;"},
    {VRAM__TORCH, VRAM_MESSAGE_FREE, "of which % is free"},
    {VRAM__TORCH, VRAM_MESSAGE_UNALLOCATED, "% cached)"},          /* up to 1.3: what is free of it */
    {VRAM__TORCH, VRAM_MESSAGE_UNALLOCATED, "% is reserved by PyTorch but unallocated"},
    {VRAM__TORCH, VRAM_MESSAGE_RESERVED, "% reserved in total by PyTorch"},
    {VRAM__TORCH, VRAM_MESSAGE_ALLOWED, "% allowed;"},
    {VRAM__TORCH, VRAM_MESSAGE_ALLOWED, "exceeds the expandable-segment reserve of %"},
    {VRAM__TORCH, VRAM_MESSAGE_ASKED, "Requested size: %"},        /* preemptively rejected */
    {VRAM__TORCH, VRAM_MESSAGE_PRIVATE, "% allocated in private pools"},
    {VRAM__TORCH, VRAM_MESSAGE_PROCESS, "this process has % memory in use"},
    {VRAM__ASYNC, VRAM_MESSAGE_ALLOCATED, "Currently allocated : %"},
    {VRAM__ASYNC, VRAM_MESSAGE_ASKED, "Requested : %"},
    {VRAM__ASYNC, VRAM_MESSAGE_TOTAL, "Device limit : %"},
    {VRAM__ASYNC, VRAM_MESSAGE_FREE, "Free (according to CUDA): %"},
    {VRAM__ASYNC, VRAM_MESSAGE_ALLOWED, "PyTorch limit (set by user-supplied memory fraction) : %"},
    {VRAM__MPS, VRAM_MESSAGE_ASKED, "Tried to allocate %"},
    {VRAM__MPS, VRAM_MESSAGE_ALLOCATED, "MPS allocated: %"},
    {VRAM__MPS, VRAM_MESSAGE_ALLOCATED, "currently allocated: %"}, /* 1.12 */
    {VRAM__MPS, VRAM_MESSAGE_ALLOWED, "max allowed: %"},
    {VRAM__XLA, VRAM_MESSAGE_ASKED, "(rounded to %)"},             /* exact, behind 4.00GiB */
    {VRAM__XLA, VRAM_MESSAGE_ALLOWED, "memory_limit_: %"},
    {VRAM__XLA, VRAM_MESSAGE_RESERVED, "total_region_allocated_bytes_: %"},
    {VRAM__XLA, VRAM_MESSAGE_ALLOWED, "Limit: %"},
    {VRAM__XLA, VRAM_MESSAGE_ALLOCATED, "InUse: %"},
    {VRAM__XLA, VRAM_MESSAGE_ALLOWED, "of % hbm. Exceeded"},       /* TPUs: used of what there is */
    {VRAM__XLA, VRAM_MESSAGE_ASKED, "Used % of"}};
/* clang-format on */

/* ---- figures ---- */

typedef struct vram__message_text {
  const char *s;
  uint64_t len;
} vram__message_text;

static int vram__message_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static uint64_t vram__message_spaces(const vram__message_text *t, uint64_t at) {
  while (at < t->len && vram__message_space(t->s[at]))
    at++;
  return at;
}

/* The power of 1024 that a unit is, from *at on: all of these programs count so, however they write
   it ("8.85 GB" of MPS, "17.08G" of XLA). No unit: bytes. */
static uint32_t vram__message_unit(const vram__message_text *t, uint64_t *at) {
  static const char letters[] = "KMGTPE";
  const uint64_t start = vram__message_spaces(t, *at);
  uint64_t end;
  uint32_t i = 0;
  if (start < t->len) {
    while (letters[i] && t->s[start] != letters[i])
      i++;
    if (letters[i]) {
      end = start + 1;
      end += end < t->len && t->s[end] == 'i';
      end += end < t->len && t->s[end] == 'B';
      if (end < t->len && (vram__name_start(t->s[end]) || vram__digit(t->s[end])))
        return 0; /* another word */
      *at = end;
      return i + 1;
    }
  }
  if (t->len - start >= 5 &&
      (vram__text_equal(t->s + start, "bytes", 5) || vram__text_equal(t->s + start, "Bytes", 5)))
    *at = start + 5;
  else if (start < t->len && t->s[start] == 'B' &&
           (start + 1 == t->len || !vram__name_start(t->s[start + 1])))
    *at = start + 1;
  return 0;
}

/* 10.74 GiB, 1024 bytes, 1900,00 MiB: where it ends; 0: there is none. */
static uint64_t vram__message_figure(const vram__message_text *t, uint64_t at, uint64_t *bytes,
                                     uint64_t *within) {
  uint64_t whole = 0, part = 0, scale = 1, unit = 1;
  uint32_t power, digits = 0;
  if (at >= t->len || !vram__digit(t->s[at]))
    return 0;
  for (; at < t->len && vram__digit(t->s[at]); at++)
    whole = whole > (UINT64_MAX - 9) / 10 ? UINT64_MAX : whole * 10 + (uint64_t)(t->s[at] - '0');
  if (at + 1 < t->len && (t->s[at] == '.' || t->s[at] == ',') && vram__digit(t->s[at + 1]))
    for (at++; at < t->len && vram__digit(t->s[at]); at++)
      if (digits < 6) {
        part = part * 10 + (uint64_t)(t->s[at] - '0');
        scale *= 10;
        digits++;
      }
  power = vram__message_unit(t, &at);
  while (power--)
    unit *= 1024;
  *bytes = whole > UINT64_MAX / unit ? UINT64_MAX : whole * unit;
  *bytes = vram__sum_or_overflow(*bytes, part * (unit / scale) + part * (unit % scale) / scale);
  *within = unit > 1 ? unit / scale / 2 + 1 : 0;
  return at;
}

/* Where the phrase ends that begins at `at`; 0: another text. */
static uint64_t vram__message_match(const vram__message_text *t, uint64_t at, const char *phrase,
                                    uint64_t *bytes, uint64_t *within) {
  for (; *phrase; phrase++) {
    if (*phrase == ' ') {
      const uint64_t next = vram__message_spaces(t, at);
      if (next == at && phrase[1] != ':') /* "limit:" as well as "limit :" */
        return 0;
      at = next;
    } else if (*phrase == '~') { /* a word; none: the space behind it stands for both */
      const uint64_t from = at;
      while (at < t->len && !vram__message_space(t->s[at]))
        at++;
      if (at - from == 5 && vram__text_equal(t->s + from, "would", 5)) {
        at = from;
        phrase++;
      }
    } else if (*phrase == '%' || *phrase == '^') {
      at = vram__message_figure(t, at, bytes, within);
      if (!at || (*phrase == '^' && !*within))
        return 0;
    } else if (at < t->len && t->s[at] == *phrase) {
      at++;
      if (*phrase == ':' && phrase[1] == ' ' && phrase[2] == '%') /* columns: "Limit:      16" */
        at = vram__message_spaces(t, at), phrase++;
    } else
      return 0;
  }
  return at;
}

/* Does something begin here, and not in the middle of a word or number? */
static int vram__message_begins(const vram__message_text *t, uint64_t at) {
  const char c = t->s[at];
  char before = ' ';
  if (at)
    before = t->s[at - 1];
  return (!vram__digit(c) && !vram__name_start(c)) ||
         (!vram__digit(before) && !vram__name_start(before) && before != '.');
}

/* ---- the figures of a message ---- */

static void vram__message_set(vram_message *m, vram_message_field field, uint64_t bytes,
                              uint64_t within) {
  m->known |= 1u << field;
  m->bytes[field] = bytes;
  m->within[field] = within;
}

static int vram__message_knows(const vram_message *m, vram_message_field field) {
  return (m->known >> field & 1u) != 0;
}

/* "Process 471567 has 39.44 GiB memory in use": which may be this one, where a container has other
   numbers of processes than the device. */
static void vram__message_processes(const vram__message_text *t, vram_message *m) {
  uint64_t at, bytes, within, number, none, sum = 0, off = 0;
  uint32_t found = 0;
  const uint64_t has = m->bytes[VRAM_MESSAGE_ALLOCATED] + m->bytes[VRAM_MESSAGE_UNALLOCATED];
  for (at = 0; at < t->len; at++) {
    const uint64_t end = t->s[at] == 'P' && vram__message_begins(t, at)
                             ? vram__message_match(t, at, "Process %", &number, &none)
                             : 0;
    if (!end || !vram__message_match(t, end, " has % memory in use", &bytes, &within))
      continue;
    found++;
    if (!vram__message_knows(m, VRAM_MESSAGE_PROCESS) && bytes + within >= has &&
        bytes < has + (UINT64_C(2) << 30))
      vram__message_set(m, VRAM_MESSAGE_PROCESS, bytes, within);
    else {
      sum = vram__sum_or_overflow(sum, bytes);
      off = vram__sum_or_overflow(off, within);
    }
  }
  if (found)
    vram__message_set(m, VRAM_MESSAGE_OTHERS, sum, off);
}

/* OOM when allocating tensor with shape[32,512,64] and type float */
static void vram__message_tensor(const vram__message_text *t, vram_message *m) {
  static const struct {
    const char *name;
    uint32_t bytes;
  } type[] = {{"float", 4}, {"half", 2},  {"bfloat16", 2}, {"double", 8},
              {"int32", 4}, {"int64", 8}, {"int8", 1},     {"uint8", 1},
              {"bool", 1},  {"int16", 2}, {"complex64", 8}};
  uint64_t at = 0, n = 1, none, size;
  uint32_t i, len = 0;
  while (at < t->len && t->s[at] != '[' && at < 64)
    at++;
  if (at >= t->len || t->s[at] != '[')
    return;
  do {
    const uint64_t end = vram__message_spaces(t, at + 1);
    at = end;
    size = 0;
    while (at < t->len && vram__digit(t->s[at]))
      size =
          vram__sum_or_overflow(vram__product_or_overflow(size, 10), (uint64_t)(t->s[at++] - '0'));
    if (at == end)
      break;
    n = vram__product_or_overflow(n, size);
  } while (at < t->len && t->s[at] == ',');
  at = at < t->len && t->s[at] == ']' ? vram__message_match(t, at + 1, " and type ", &none, &none)
                                      : 0;
  while (at && at + len < t->len &&
         (vram__name_start(t->s[at + len]) || vram__digit(t->s[at + len])))
    len++;
  for (i = 0; len && i < sizeof type / sizeof *type; i++)
    if (vram__text_is(t->s + at, len, type[i].name))
      vram__message_set(m, VRAM_MESSAGE_ASKED, vram__product_or_overflow(n, type[i].bytes), 0);
}

static void vram__message_device(const vram__message_text *t, vram_message *m) {
  static const char *const words[] = {"on device %",  "(GPU %;",     "(NPU %;",
                                      "GPU % has",    "GPU_%_bfc",   "device:GPU:%",
                                      "CUDA% buffer", "ROCm% buffer"};
  uint64_t at, number, none;
  uint32_t i;
  for (i = 0; i < sizeof words / sizeof *words; i++)
    for (at = 0; at < t->len; at++)
      if (t->s[at] == words[i][0] && vram__message_match(t, at, words[i], &number, &none) &&
          number < 4096) {
        m->has_device = 1;
        m->device = (uint32_t)number;
        return;
      }
}

static void vram__message_rows_read(const vram__message_text *t, vram_message *m) {
  const uint32_t n = sizeof vram__message_rows / sizeof *vram__message_rows;
  uint64_t at, bytes, within;
  uint32_t i, seen = 0;
  for (i = 0; i < n; i++) {
    const vram__message_row *r = vram__message_rows + i;
    if (!(r->sources >> m->source & 1u) || (seen >> r->field & 1u))
      continue;
    for (at = 0; at < t->len; at++)
      if ((*r->phrase == '%' ? vram__digit(t->s[at]) : t->s[at] == *r->phrase) &&
          vram__message_begins(t, at) && vram__message_match(t, at, r->phrase, &bytes, &within)) {
        vram__message_set(m, r->field, bytes, within);
        seen |= 1u << r->field;
        break;
      }
  }
}

/* The least that says something: the driver itself, and rounding, take a rest of the device. */
static uint64_t vram__message_margin(const vram_message *m) {
  const uint64_t part = m->bytes[VRAM_MESSAGE_TOTAL] / 64;
  return part > (UINT64_C(256) << 20) ? part : UINT64_C(256) << 20;
}

/* What follows from the others. */
static void vram__message_derive(vram_message *m) {
  uint64_t *b = m->bytes, *w = m->within;
  const int allocated = vram__message_knows(m, VRAM_MESSAGE_ALLOCATED);
  if (vram__message_knows(m, VRAM_MESSAGE_TOTAL) &&
      b[VRAM_MESSAGE_ALLOWED] >= b[VRAM_MESSAGE_TOTAL]) {
    m->known &= ~(1u << VRAM_MESSAGE_ALLOWED); /* no limit */
    b[VRAM_MESSAGE_ALLOWED] = w[VRAM_MESSAGE_ALLOWED] = 0;
  }
  if (allocated && vram__message_knows(m, VRAM_MESSAGE_UNALLOCATED))
    vram__message_set(m, VRAM_MESSAGE_RESERVED,
                      vram__sum_or_overflow(b[VRAM_MESSAGE_ALLOCATED], b[VRAM_MESSAGE_UNALLOCATED]),
                      w[VRAM_MESSAGE_ALLOCATED] + w[VRAM_MESSAGE_UNALLOCATED]);
  else if (allocated && vram__message_knows(m, VRAM_MESSAGE_RESERVED))
    vram__message_set(m, VRAM_MESSAGE_UNALLOCATED,
                      b[VRAM_MESSAGE_RESERVED] > b[VRAM_MESSAGE_ALLOCATED]
                          ? b[VRAM_MESSAGE_RESERVED] - b[VRAM_MESSAGE_ALLOCATED]
                          : 0,
                      w[VRAM_MESSAGE_ALLOCATED] + w[VRAM_MESSAGE_RESERVED]);
  if (!vram__message_knows(m, VRAM_MESSAGE_OTHERS) &&
      vram__message_knows(m, VRAM_MESSAGE_PROCESS) && vram__message_knows(m, VRAM_MESSAGE_TOTAL) &&
      vram__message_knows(m, VRAM_MESSAGE_FREE)) {
    const uint64_t mine = vram__sum_or_overflow(b[VRAM_MESSAGE_PROCESS], b[VRAM_MESSAGE_FREE]);
    const uint64_t others = b[VRAM_MESSAGE_TOTAL] > mine ? b[VRAM_MESSAGE_TOTAL] - mine : 0;
    const uint64_t off = w[VRAM_MESSAGE_PROCESS] + w[VRAM_MESSAGE_FREE] + w[VRAM_MESSAGE_TOTAL];
    vram__message_set(m, VRAM_MESSAGE_OTHERS, others > off ? others : 0, off);
  }
}

/* ---- causes ---- */

static uint64_t vram__message_held(const vram_message *m) {
  return m->bytes[VRAM_MESSAGE_RESERVED] ? m->bytes[VRAM_MESSAGE_RESERVED]
                                         : m->bytes[VRAM_MESSAGE_ALLOCATED];
}

/* What others hold. Where the message does not tell it is what is left, less this process' context
   and libraries, which take up to about 1 GiB. */
static uint64_t vram__message_others(const vram_message *m) {
  const uint64_t *b = m->bytes;
  uint64_t others = b[VRAM_MESSAGE_OTHERS];
  if (!vram__message_knows(m, VRAM_MESSAGE_OTHERS)) {
    const uint64_t mine = vram__sum_or_overflow(
        vram__sum_or_overflow(vram__message_held(m), b[VRAM_MESSAGE_FREE]), UINT64_C(1) << 30);
    others = vram__message_held(m) && vram__message_knows(m, VRAM_MESSAGE_FREE) &&
                     b[VRAM_MESSAGE_TOTAL] > mine
                 ? b[VRAM_MESSAGE_TOTAL] - mine
                 : 0;
  }
  return others >= vram__message_margin(m) ? others : 0;
}

/* Would the request have found memory with so much more? */
static int vram__message_helps(const vram_message *m, uint64_t more) {
  const uint64_t *b = m->bytes;
  return more && vram__sum_or_overflow(more, b[VRAM_MESSAGE_FREE]) >= b[VRAM_MESSAGE_ASKED];
}

static uint32_t vram__message_causes(const vram_message *m) {
  const uint64_t *b = m->bytes, asked = b[VRAM_MESSAGE_ASKED];
  const int limited = vram__message_knows(m, VRAM_MESSAGE_ALLOWED);
  const uint64_t most = limited ? b[VRAM_MESSAGE_ALLOWED] : b[VRAM_MESSAGE_TOTAL];
  const uint64_t held = vram__message_held(m);
  const uint64_t idle = b[VRAM_MESSAGE_UNALLOCATED], pools = b[VRAM_MESSAGE_PRIVATE];
  const int room = vram__message_knows(m, VRAM_MESSAGE_FREE) && b[VRAM_MESSAGE_FREE] >= asked;
  const int has_free = room && b[VRAM_MESSAGE_FREE] >= vram__message_margin(m);
  uint32_t found = 0;
  if (most && asked > most && !(limited && room))
    found |= 1u << VRAM_CAUSE_TOO_LARGE;
  if (limited && room &&
      vram__sum_or_overflow(held, asked) >
          most - (m->within[VRAM_MESSAGE_ALLOWED] < most ? m->within[VRAM_MESSAGE_ALLOWED] : 0))
    found |= 1u << VRAM_CAUSE_LIMIT;
  if (asked && vram__message_knows(m, VRAM_MESSAGE_UNALLOCATED) && idle >= asked)
    found |= 1u << VRAM_CAUSE_FRAGMENTATION;
  if (pools && pools >= asked) /* in blocks that are free: they are not in `idle` */
    found |= 1u << VRAM_CAUSE_PRIVATE_POOLS;
  if (has_free)
    found |= limited ? 0 : 1u << VRAM_CAUSE_HAD_FREE;
  else if (vram__message_helps(m, vram__message_others(m)))
    found |= 1u << VRAM_CAUSE_OTHER_PROCESSES;
  return found;
}

/* Of several the one that weighs most: what is kept and free decides where it is more than what
   others hold, and a sixteenth of all that is kept; else it would do for this request alone. */
static void vram__message_decide(vram_message *m) {
  const uint64_t idle = m->bytes[VRAM_MESSAGE_UNALLOCATED];
  uint32_t found = vram__message_causes(m);
  vram_cause first = VRAM_CAUSE_UNKNOWN;
  uint32_t i;
  if (!vram__message_knows(m, VRAM_MESSAGE_ASKED))
    return;
  m->also = found;
  if (found >> VRAM_CAUSE_FRAGMENTATION & 1u &&
      (idle < m->bytes[VRAM_MESSAGE_RESERVED] / 16 ||
       (found >> VRAM_CAUSE_OTHER_PROCESSES & 1u && vram__message_others(m) > idle)))
    found &= ~(1u << VRAM_CAUSE_FRAGMENTATION);
  for (i = VRAM_CAUSE_TOO_LARGE; i < VRAM_CAUSE_FULL && !first; i++)
    if (found >> i & 1u)
      first = (vram_cause)i;
  if (!first && (m->known & (1u << VRAM_MESSAGE_ALLOCATED | 1u << VRAM_MESSAGE_RESERVED |
                             1u << VRAM_MESSAGE_PROCESS | 1u << VRAM_MESSAGE_ALLOWED)))
    first = VRAM_CAUSE_FULL; /* a message that was cut may not tell what the program holds */
  m->cause = first;
  m->also &= ~(1u << first);
}

/* ---- where messages are ---- */

/* BFC's warning that a try was in vain, which is no failure. */
static int vram__message_is_warning(const vram__message_text *t, uint64_t end) {
  uint64_t none;
  vram__message_text near_it;
  near_it.s = t->s;
  near_it.len = end + 160 < t->len ? end + 160 : t->len;
  for (; end < near_it.len; end++)
    if (near_it.s[end] == 'T' &&
        vram__message_match(&near_it, end, "The caller indicates that this is not a failure", &none,
                            &none))
      return 1;
  return 0;
}

/* The form that begins at `at`, and where it ends; NULL: none. */
static const vram__message_form *vram__message_form_at(const vram__message_text *t, uint64_t at,
                                                       uint64_t *end, uint64_t *bytes,
                                                       uint64_t *within) {
  uint32_t i;
  for (i = 0; i < sizeof vram__message_forms / sizeof *vram__message_forms; i++) {
    const vram__message_form *f = vram__message_forms + i;
    *bytes = *within = 0;
    if (t->s[at] == *f->phrase && (*end = vram__message_match(t, at, f->phrase, bytes, within)) &&
        !(f->source == VRAM_MESSAGE_XLA && vram__message_is_warning(t, *end)))
      return f;
  }
  return NULL;
}

static int vram__message_has_figure(const vram__message_form *f) {
  const char *p = f->phrase;
  while (*p && *p != '%' && *p != '^')
    p++;
  return *p != 0;
}

VRAM_API int vram_message_read(const char *text, uint64_t len, vram_message *to) {
  const vram__message_form *first = NULL, *f;
  vram__message_text t, own;
  uint64_t at, end, bytes, within, last = len;
  vram__memory_zero(to, sizeof *to);
  t.s = text;
  t.len = len;
  for (at = 0; at < len; at++) {
    f = vram__message_form_at(&t, at, &end, &bytes, &within);
    if (!f)
      continue;
    if (!first || (first->source == VRAM_MESSAGE_CUDA && f->source != VRAM_MESSAGE_CUDA)) {
      first = f; /* a bare one may stand in front of one with figures */
      last = len;
      vram__memory_zero(to, sizeof *to);
      to->source = f->source;
      to->at = at;
      if (vram__message_has_figure(f))
        vram__message_set(to, VRAM_MESSAGE_ASKED, bytes, within);
    } else if (last == len && f == first)
      last = at;
    to->count += f == first;
    at = end - 1;
  }
  if (!first)
    return 0;
  own.s = text + to->at;
  own.len = (last < len ? last : len) - to->at;
  if (own.len > VRAM__MESSAGE_REACH)
    own.len = VRAM__MESSAGE_REACH;
  vram__message_rows_read(&own, to);
  if (to->source == VRAM_MESSAGE_XLA && !vram__message_knows(to, VRAM_MESSAGE_ASKED))
    vram__message_tensor(&own, to);
  if (to->source == VRAM_MESSAGE_TORCH)
    vram__message_processes(&own, to);
  at = to->source == VRAM_MESSAGE_XLA && to->at > 32 ? 32 : 0; /* "Allocator (GPU_0_bfc)" */
  own.s -= at;
  own.len += at;
  vram__message_device(&own, to);
  vram__message_derive(to);
  vram__message_decide(to);
  if (first->cause) {
    to->also &= ~(1u << first->cause);
    to->cause = first->cause;
  }
  return 1;
}

/* ---- names ---- */

VRAM_API const char *vram_message_source_name(vram_message_source source) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_MESSAGE_SOURCES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)source < VRAM_MESSAGE_SOURCE_COUNT ? name[source] : "?";
}

VRAM_API const char *vram_message_field_name(vram_message_field field) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_MESSAGE_FIELDS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)field < VRAM_MESSAGE_FIELD_COUNT ? name[field] : "?";
}

VRAM_API const char *vram_cause_name(vram_cause cause) {
  static const char *const name[] = {
#define VRAM__X(id, word, text) word,
      VRAM_CAUSES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)cause < VRAM_CAUSE_COUNT ? name[cause] : "?";
}

VRAM_API const char *vram_cause_text(vram_cause cause) {
  static const char *const text[] = {
#define VRAM__X(id, word, means) means,
      VRAM_CAUSES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)cause < VRAM_CAUSE_COUNT ? text[cause] : "?";
}
