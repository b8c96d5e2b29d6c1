/* vram estimate --embedded MODEL.pte: what a program of ExecuTorch has planned, and its constants.
   The file: schema/program.fbs and schema/extended_header.cpp of executorch. Every offset is held
   against the size of the file before anything is read there. */
#include "vram_net.h"

#include <limits.h>

typedef struct pte {
  FILE *f;
  const char *path;
  uint64_t bytes, segments_at;
  uint64_t left; /* elements' bytes that may still be gone over: tables may lie over each other */
  int failed;
} pte;

typedef struct pte_list { /* a vector: its first element */
  uint64_t at, count;
} pte_list;

typedef struct pte_sums {
  uint64_t planned, largest; /* all plans; the one that needs most */
  uint64_t program, constants, delegates, initial;
  uint64_t delegate_count, external_count, plan_count;
} pte_sums;

/* Fields of the schema's tables, in their order. */
enum { PROGRAM_PLANS = 1, PROGRAM_BUFFERS, PROGRAM_DELEGATES, PROGRAM_SEGMENTS };
enum { PROGRAM_CONSTANTS = 5, PROGRAM_MUTABLE };
enum { PLAN_NAME, PLAN_VALUES = 2, PLAN_OPERATORS = 6, PLAN_DELEGATES, PLAN_SIZES };
enum { VALUE_IS_TENSOR = 5, TENSOR_EXTRA = 9, EXTRA_LOCATION = 2 };

static void pte_fail(pte *p, uint64_t at, const char *what) {
  if (!p->failed)
    cmd_say("%s: offset %" PRIu64 ": %s", p->path, at, what);
  p->failed = 1;
}

/* A number of n bytes, 0 after an error. */
static uint64_t pte_number(pte *p, uint64_t at, uint32_t n) {
  uint8_t b[8];
  uint64_t v = 0;
  if (p->failed)
    return 0;
  if (at > p->bytes || n > p->bytes - at || fseek(p->f, (long)at, SEEK_SET) ||
      fread(b, 1, n, p->f) != n) {
    pte_fail(p, at < p->bytes ? at : p->bytes, "the file ends within its tables");
    return 0;
  }
  while (n--)
    v = v << 8 | b[n];
  return v;
}

/* What an offset at `at` refers to. */
static uint64_t pte_follow(pte *p, uint64_t at) { return at + pte_number(p, at, 4); }

/* Where field i of a table is, which has n bytes; 0: it is left out, or an error. */
static uint64_t pte_field(pte *p, uint64_t table, uint32_t i, uint32_t n) {
  const int64_t fields = (int64_t)table - (int32_t)(uint32_t)pte_number(p, table, 4);
  uint64_t at, table_bytes;
  if (!p->failed && fields < 0)
    pte_fail(p, table, "a table whose fields are before the file");
  if (p->failed || 6 + 2 * (uint64_t)i > pte_number(p, (uint64_t)fields, 2))
    return 0;
  table_bytes = pte_number(p, (uint64_t)fields + 2, 2);
  at = pte_number(p, (uint64_t)fields + 4 + 2 * (uint64_t)i, 2);
  if (at && (at < 4 || at + n > table_bytes))
    pte_fail(p, table, "a field outside of its table");
  return at && !p->failed ? table + at : 0;
}

static uint64_t pte_field_number(pte *p, uint64_t table, uint32_t i, uint32_t n) {
  const uint64_t at = pte_field(p, table, i, n);
  return at ? pte_number(p, at, n) : 0;
}

/* Elements of n bytes each; empty where the field is left out. */
static pte_list pte_vector(pte *p, uint64_t table, uint32_t i, uint32_t n) {
  pte_list v = {0, 0};
  const uint64_t at = pte_field(p, table, i, 4);
  if (!at)
    return v;
  v.at = pte_follow(p, at);
  v.count = pte_number(p, v.at, 4);
  v.at += 4;
  if (!p->failed && (v.at > p->bytes || v.count * n > p->bytes - v.at))
    pte_fail(p, v.at - 4, "a vector that ends behind the file");
  if (p->failed)
    v.count = 0;
  return v;
}

/* The same, to be gone over. */
static pte_list pte_walk(pte *p, uint64_t table, uint32_t i, uint32_t n) {
  pte_list v = pte_vector(p, table, i, n);
  if (v.count * n > p->left) {
    pte_fail(p, v.at, "tables that lie over each other");
    v.count = 0;
  }
  p->left -= v.count * n;
  return v;
}

static void pte_add(pte *p, uint64_t at, uint64_t *sum, uint64_t bytes) {
  if (bytes > (uint64_t)INT64_MAX || *sum > (uint64_t)INT64_MAX - bytes)
    pte_fail(p, at, "a size that is none: negative, or more than 63 bits");
  else
    *sum += bytes;
}

/* The bytes of segment i. */
static uint64_t pte_segment(pte *p, uint64_t program, uint64_t i) {
  const pte_list v = pte_vector(p, program, PROGRAM_SEGMENTS, 4);
  uint64_t at, offset, bytes;
  if (i >= v.count) {
    pte_fail(p, program, "a segment that the program does not have");
    return 0;
  }
  at = pte_follow(p, v.at + 4 * i);
  offset = pte_field_number(p, at, 0, 8);
  bytes = pte_field_number(p, at, 1, 8);
  if (!p->failed && bytes &&
      (!p->segments_at || offset > p->bytes - p->segments_at ||
       bytes > p->bytes - p->segments_at - offset))
    pte_fail(p, at, "a segment that ends behind the file");
  return p->failed ? 0 : bytes;
}

/* ---- parts ---- */

static void pte_name(pte *p, uint64_t table, char *to, size_t cap) {
  const pte_list v = pte_vector(p, table, PLAN_NAME, 1);
  const size_t n = v.count < cap - 1 ? (size_t)v.count : cap - 1;
  size_t i;
  memset(to, 0, cap);
  if (p->failed || !n || fseek(p->f, (long)v.at, SEEK_SET) || fread(to, 1, n, p->f) != n)
    return;
  for (i = 0; i < n; i++)
    if (to[i] <= ' ' || to[i] > '~' || to[i] == ',')
      to[i] = '?';
}

/* Constants that are in a file of their own. */
static uint64_t pte_external(pte *p, uint64_t plan) {
  const pte_list v = pte_walk(p, plan, PLAN_VALUES, 4);
  uint64_t i, count = 0;
  for (i = 0; i < v.count && !p->failed; i++) {
    const uint64_t value = pte_follow(p, v.at + 4 * i);
    uint64_t at = 0;
    if (pte_field_number(p, value, 0, 1) == VALUE_IS_TENSOR)
      at = pte_field(p, value, 1, 4);
    if (at)
      at = pte_field(p, pte_follow(p, at), TENSOR_EXTRA, 4);
    count += at && pte_field_number(p, pte_follow(p, at), EXTRA_LOCATION, 1) == 1;
  }
  return count;
}

/* What delegates are given: bytes that lie in the tables or in a segment. */
static void pte_delegates(pte *p, uint64_t program, uint64_t plan, pte_sums *s) {
  const pte_list v = pte_walk(p, plan, PLAN_DELEGATES, 4),
                 inner = pte_vector(p, program, PROGRAM_DELEGATES, 4);
  uint64_t i;
  for (i = 0; i < v.count && !p->failed; i++) {
    const uint64_t at = pte_field(p, pte_follow(p, v.at + 4 * i), 1, 4);
    const uint64_t data = at ? pte_follow(p, at) : 0;
    const uint64_t index = data ? pte_field_number(p, data, 1, 4) : 0;
    s->delegate_count++;
    if (!data || p->failed)
      continue;
    if (pte_field_number(p, data, 0, 1) == 1)
      pte_add(p, data, &s->delegates, pte_segment(p, program, index));
    else if (index >= inner.count)
      pte_fail(p, data, "a delegate's data that the program does not have");
    else
      pte_add(p, data, &s->delegates,
              pte_vector(p, pte_follow(p, inner.at + 4 * index), 0, 1).count);
  }
}

/* A plan's buffers: one for each memory, of which the first stands for constants. */
static void pte_plan(pte *p, uint64_t plan, uint64_t i, const job *j, int prints, pte_sums *s) {
  const pte_list v = pte_walk(p, plan, PLAN_SIZES, 8);
  const uint64_t operators = pte_vector(p, plan, PLAN_OPERATORS, 4).count;
  char name[64];
  uint64_t k, sum = 0;
  pte_name(p, plan, name, sizeof name);
  if (prints && j->json) {
    printf("%s{\"name\":", i ? "," : "");
    cmd_json_text(stdout, name);
    printf(",\"operators\":%" PRIu64 ",\"planned_bytes\":[", operators);
  }
  for (k = 1; k < v.count && !p->failed; k++) {
    const uint64_t bytes = pte_number(p, v.at + 8 * k, 8);
    pte_add(p, v.at + 8 * k, &sum, bytes);
    if (prints && j->json)
      printf("%s%" PRIu64, k > 1 ? "," : "", bytes);
    else if (prints && j->csv)
      printf("%s,%" PRIu64 ",%" PRIu64 "\n", name, k, bytes);
    else if (prints)
      printf("%-24s %6" PRIu64 " %12" PRIu64 "\n", name, k, bytes);
  }
  if (prints && j->json)
    printf("]}");
  else if (prints && !j->csv && v.count < 2)
    printf("%-24s %6s %12d\n", name, "-", 0);
  pte_add(p, plan, &s->planned, sum);
  s->largest = sum > s->largest ? sum : s->largest;
}

static void pte_plans(pte *p, uint64_t program, const job *j, int prints, pte_sums *s) {
  const pte_list v = pte_walk(p, program, PROGRAM_PLANS, 4);
  uint64_t i;
  for (i = 0; i < v.count && !p->failed; i++) {
    const uint64_t plan = pte_follow(p, v.at + 4 * i);
    pte_plan(p, plan, i, j, prints, s);
    if (prints)
      continue;
    pte_delegates(p, program, plan, s);
    s->external_count += pte_external(p, plan);
    s->plan_count++;
  }
}

/* Constants lie in a segment, or (before September 2024) in the tables. */
static void pte_constants(pte *p, uint64_t program, pte_sums *s) {
  const pte_list inner = pte_walk(p, program, PROGRAM_BUFFERS, 4),
                 state = pte_walk(p, program, PROGRAM_MUTABLE, 4);
  const uint64_t at = pte_field(p, program, PROGRAM_CONSTANTS, 4);
  uint64_t i;
  if (at) {
    const uint64_t table = pte_follow(p, at);
    if (pte_vector(p, table, 1, 8).count)
      pte_add(p, table, &s->constants, pte_segment(p, program, pte_field_number(p, table, 0, 4)));
  }
  for (i = 0; i < inner.count && !p->failed; i++)
    pte_add(p, inner.at, &s->constants, pte_vector(p, pte_follow(p, inner.at + 4 * i), 0, 1).count);
  for (i = 0; i < state.count && !p->failed; i++) {
    const uint64_t table = pte_follow(p, state.at + 4 * i);
    pte_add(p, table, &s->initial, pte_segment(p, program, pte_field_number(p, table, 0, 4)));
  }
}

/* ---- the file ---- */

int executorch_is(const char *path) {
  char b[8];
  FILE *const f = strcmp(path, "-") ? fopen(path, "rb") : NULL;
  const int is = f && fread(b, 1, sizeof b, f) == sizeof b && !memcmp(b + 4, "ET12", 4);
  if (f)
    fclose(f);
  return is;
}

/* The header behind the magic, if there is one: where the tables end and the segments begin. */
static void pte_header(pte *p, pte_sums *s) {
  s->program = p->bytes;
  if (p->bytes < 32 || pte_number(p, 8, 4) != 0x30306865) /* eh00 */
    return;
  s->program = pte_number(p, 16, 8);
  p->segments_at = pte_number(p, 24, 8);
  if (s->program > p->bytes || p->segments_at > p->bytes)
    pte_fail(p, 16, "a header that says more than the file has");
}

#define PTE_PARTS(X)                                                                               \
  X(planned, "planned", "bytes, when all plans are loaded")                                        \
  X(largest, "largest plan", "bytes")                                                              \
  X(constants, "constants", "bytes, in the file")                                                  \
  X(initial, "initial values", "bytes of variables, in the file")                                  \
  X(delegates, "delegates' data", "bytes, in the file")                                            \
  X(program, "program", "bytes of tables")

static void pte_totals(const pte *p, const job *j, const pte_sums *s) {
  if (j->csv)
    return;
  if (j->json) {
#define X(field, name, unit) printf(",\"" #field "_bytes\":%" PRIu64, s->field);
    PTE_PARTS(X)
#undef X
    printf(",\"file_bytes\":%" PRIu64 ",\"delegates\":%" PRIu64 ",\"external_constants\":%" PRIu64,
           p->bytes, s->delegate_count, s->external_count);
    return;
  }
  printf("\n");
#define X(field, name, unit) printf("%-18s %12" PRIu64 " %s\n", name, s->field, unit);
  PTE_PARTS(X)
#undef X
  printf("%-18s %12" PRIu64 " bytes\n", "file", p->bytes);
  if (s->delegate_count)
    printf("%-18s %12" PRIu64 ", which allocate besides what is planned\n", "delegates",
           s->delegate_count);
  if (s->external_count)
    printf("%-18s %12" PRIu64 " constants, in another file (.ptd)\n", "elsewhere",
           s->external_count);
}

static void pte_budget(const char *what, uint64_t bytes, const uint64_t *budget) {
  if (!budget)
    return;
  if (bytes <= *budget)
    printf("%-18s %12" PRIu64 " of %" PRIu64 " bytes, %" PRIu64 " left\n", what, bytes, *budget,
           *budget - bytes);
  else
    printf("%-18s %12" PRIu64 " of %" PRIu64 " bytes: does not fit by %" PRIu64 "\n", what, bytes,
           *budget, bytes - *budget);
}

int executorch_report(const char *path, const job *j, const uint64_t *flash, const uint64_t *sram) {
  pte p;
  pte_sums s, again;
  uint64_t program = 0;
  long end = -1;
  int fits = 1;
  memset(&p, 0, sizeof p);
  memset(&s, 0, sizeof s);
  p.path = path;
  p.f = fopen(path, "rb");
  if (!p.f)
    return cmd_cannot("open", path, USAGE);
  if (!fseek(p.f, 0, SEEK_END))
    end = ftell(p.f);
  if (end < 0)
    pte_fail(&p, 0, "a file without an end");
  else
    p.left = p.bytes = (uint64_t)end;
  pte_header(&p, &s);
  program = pte_follow(&p, 0);
  pte_plans(&p, program, j, 0, &s);
  pte_constants(&p, program, &s);
  if (!p.failed) {
    fits = (!flash || p.bytes <= *flash) && (!sram || s.planned <= *sram);
    if (j->json)
      printf("{\"executorch\":[");
    else if (j->csv)
      printf("plan,memory,bytes\n");
    else
      printf("%s%s%s  a program of ExecuTorch\n\n%s%-24s %6s %12s%s\n", cmd_bold, path, cmd_plain,
             cmd_bold, "plan", "memory", "bytes", cmd_plain);
    memset(&again, 0, sizeof again);
    p.left = p.bytes;
    pte_plans(&p, program, j, 1, &again);
    if (j->json)
      printf("]");
    pte_totals(&p, j, &s);
    if (j->json)
      printf("%s}\n", !flash && !sram ? "" : fits ? ",\"fits\":true" : ",\"fits\":false");
    else if (!j->csv) {
      pte_budget("flash", p.bytes, flash);
      pte_budget("SRAM", s.planned, sram);
    }
  }
  fclose(p.f);
  return p.failed ? USAGE : fits ? FITS : TOO_LARGE;
}
