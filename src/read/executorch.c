/* >>read/executorch    programs of ExecuTorch: what their exporter has planned, and constants
   The file: schema/program.fbs and schema/extended_header.cpp of executorch. */
#include "read/read.h"

/* Fields of the schema's tables, in their order. */
enum {
  VRAM__PTE_PROGRAM_PLANS = 1,
  VRAM__PTE_PROGRAM_BUFFERS = 2,
  VRAM__PTE_PROGRAM_DELEGATES = 3,
  VRAM__PTE_PROGRAM_SEGMENTS = 4,
  VRAM__PTE_PROGRAM_CONSTANTS = 5,
  VRAM__PTE_PROGRAM_MUTABLE = 6,
  VRAM__PTE_PLAN_NAME = 0,
  VRAM__PTE_PLAN_VALUES = 2,
  VRAM__PTE_PLAN_OPERATORS = 6,
  VRAM__PTE_PLAN_DELEGATES = 7,
  VRAM__PTE_PLAN_SIZES = 8,
  VRAM__PTE_VALUE_IS_TENSOR = 5,
  VRAM__PTE_TENSOR_EXTRA = 9,
  VRAM__PTE_EXTRA_LOCATION = 2
};

typedef struct vram__pte {
  vram__flat b;
  vram_executorch *to;
  vram__flat_at program;
  vram__flat_list segments, delegates;
  uint64_t segments_at; /* where the first segment begins; 0: there are none */
} vram__pte;

static void vram__pte_add(vram__pte *p, uint64_t at, uint64_t *sum, uint64_t bytes) {
  if (bytes > (uint64_t)INT64_MAX || *sum > (uint64_t)INT64_MAX - bytes)
    vram__reader_fail(p->b.r, VRAM_ERR_OVERFLOW, at,
                      "a size that is none: negative, or more than 63 bits");
  else
    *sum += bytes;
}

/* A vector that is gone over. */
static void vram__pte_walk(vram__pte *p, const vram__flat_at *t, uint32_t i, uint32_t bytes,
                           vram__flat_list *v) {
  if (!vram__flat_vector(&p->b, t, i, bytes, v) ||
      !vram__flat_spend(&p->b, v->offset, v->count * bytes))
    v->count = 0;
}

/* The bytes of segment i. */
static uint64_t vram__pte_segment(vram__pte *p, uint64_t i) {
  const uint64_t end = p->b.r->source->bytes;
  vram__flat_at at;
  uint64_t offset, bytes;
  if (i >= p->segments.count) {
    vram__reader_fail(p->b.r, VRAM_ERR_SYNTAX, p->program.offset,
                      "a segment that the program does not have");
    return 0;
  }
  if (!vram__flat_element(&p->b, &p->segments, i, &at))
    return 0;
  offset = vram__flat_number(&p->b, &at, 0, 8, 0);
  bytes = vram__flat_number(&p->b, &at, 1, 8, 0);
  if (bytes &&
      (!p->segments_at || offset > end - p->segments_at || bytes > end - p->segments_at - offset))
    vram__reader_fail(p->b.r, VRAM_ERR_SYNTAX, at.offset, "a segment that ends behind the file");
  return p->b.r->result ? 0 : bytes;
}

/* Bytes of element i of a vector of tables whose first field is a vector of bytes. */
static uint64_t vram__pte_inner(vram__pte *p, const vram__flat_list *v, uint64_t i) {
  vram__flat_at at;
  vram__flat_list data;
  if (!vram__flat_element(&p->b, v, i, &at))
    return 0;
  vram__flat_vector(&p->b, &at, 0, 1, &data);
  return p->b.r->result ? 0 : data.count;
}

/* Constants that are in a file of their own. */
static void vram__pte_external(vram__pte *p, const vram__flat_at *plan) {
  vram__flat_list v;
  vram__flat_at value, tensor, extra;
  uint64_t i;
  vram__pte_walk(p, plan, VRAM__PTE_PLAN_VALUES, 4, &v);
  for (i = 0; i < v.count && vram__flat_element(&p->b, &v, i, &value); i++)
    if (vram__flat_number(&p->b, &value, 0, 1, 0) == VRAM__PTE_VALUE_IS_TENSOR &&
        vram__flat_inner(&p->b, &value, 1, &tensor) &&
        vram__flat_inner(&p->b, &tensor, VRAM__PTE_TENSOR_EXTRA, &extra))
      p->to->external_constants +=
          vram__flat_number(&p->b, &extra, VRAM__PTE_EXTRA_LOCATION, 1, 0) == 1;
}

/* What delegates are given: bytes that lie in the tables or in a segment. */
static void vram__pte_delegates(vram__pte *p, const vram__flat_at *plan) {
  vram__flat_list v;
  vram__flat_at delegate, data;
  uint64_t i;
  vram__pte_walk(p, plan, VRAM__PTE_PLAN_DELEGATES, 4, &v);
  for (i = 0; i < v.count && vram__flat_element(&p->b, &v, i, &delegate); i++) {
    uint64_t index, bytes;
    p->to->delegates++;
    if (!vram__flat_inner(&p->b, &delegate, 1, &data))
      continue;
    index = vram__flat_number(&p->b, &data, 1, 4, 0);
    if (vram__flat_number(&p->b, &data, 0, 1, 0) == 1)
      bytes = vram__pte_segment(p, index);
    else if (index < p->delegates.count)
      bytes = vram__pte_inner(p, &p->delegates, index);
    else {
      vram__reader_fail(p->b.r, VRAM_ERR_SYNTAX, data.offset,
                        "a delegate's data that the program does not have");
      return;
    }
    vram__pte_add(p, data.offset, &p->to->delegates_bytes, bytes);
  }
}

/* A plan's buffers: one for each memory, of which the first stands for constants. */
static vram_executorch_plan *vram__pte_plan(vram__pte *p, const vram__flat_at *at) {
  vram__reader *const r = p->b.r;
  vram_executorch_plan *plan;
  vram__flat_list v, operators;
  uint64_t *bytes;
  uint64_t i;
  plan = (vram_executorch_plan *)vram__file_take(p->b.f, r, sizeof *plan);
  if (!plan)
    return NULL;
  vram__memory_zero(plan, sizeof *plan);
  plan->name = vram__flat_text(&p->b, at, VRAM__PTE_PLAN_NAME, &plan->name_len);
  vram__flat_vector(&p->b, at, VRAM__PTE_PLAN_OPERATORS, 4, &operators);
  plan->operators = operators.count;
  vram__pte_walk(p, at, VRAM__PTE_PLAN_SIZES, 8, &v);
  plan->memories = v.count ? v.count - 1 : 0;
  bytes = (uint64_t *)vram__file_take(p->b.f, r, 8 * plan->memories);
  if (!bytes)
    return NULL;
  plan->memory_bytes = bytes;
  for (i = 0; i < plan->memories && !r->result; i++) {
    vram__reader_seek(r, v.offset + 8 * (i + 1));
    bytes[i] = vram__reader_u64(r, "a memory's bytes");
    vram__pte_add(p, v.offset + 8 * (i + 1), &plan->bytes, bytes[i]);
  }
  vram__pte_add(p, at->offset, &p->to->planned_bytes, plan->bytes);
  if (plan->bytes > p->to->largest_bytes)
    p->to->largest_bytes = plan->bytes;
  return plan;
}

static void vram__pte_plans(vram__pte *p) {
  vram_executorch_plan **next = &p->to->plan_first;
  vram__flat_list v;
  vram__flat_at at;
  uint64_t i;
  vram__pte_walk(p, &p->program, VRAM__PTE_PROGRAM_PLANS, 4, &v);
  for (i = 0; i < v.count && vram__flat_element(&p->b, &v, i, &at); i++) {
    *next = vram__pte_plan(p, &at);
    if (!*next)
      return;
    next = &(*next)->next;
    vram__pte_delegates(p, &at);
    vram__pte_external(p, &at);
  }
}

/* Constants lie in a segment, or (before September 2024) in the tables. */
static void vram__pte_constants(vram__pte *p) {
  vram__flat_list v;
  vram__flat_at at;
  uint64_t i;
  if (vram__flat_inner(&p->b, &p->program, VRAM__PTE_PROGRAM_CONSTANTS, &at) &&
      vram__flat_vector(&p->b, &at, 1, 8, &v) && v.count)
    vram__pte_add(p, at.offset, &p->to->constants_bytes,
                  vram__pte_segment(p, vram__flat_number(&p->b, &at, 0, 4, 0)));
  vram__pte_walk(p, &p->program, VRAM__PTE_PROGRAM_BUFFERS, 4, &v);
  for (i = 0; i < v.count && !p->b.r->result; i++)
    vram__pte_add(p, v.offset, &p->to->constants_bytes, vram__pte_inner(p, &v, i));
  vram__pte_walk(p, &p->program, VRAM__PTE_PROGRAM_MUTABLE, 4, &v);
  for (i = 0; i < v.count && vram__flat_element(&p->b, &v, i, &at); i++)
    vram__pte_add(p, at.offset, &p->to->initial_bytes,
                  vram__pte_segment(p, vram__flat_number(&p->b, &at, 0, 4, 0)));
}

/* The header behind the magic, if there is one: where the tables end and the segments begin. */
static void vram__pte_header(vram__pte *p) {
  vram__reader *const r = p->b.r;
  const uint64_t end = r->source->bytes;
  p->to->file_bytes = p->to->program_bytes = end;
  vram__reader_seek(r, 8);
  if (end < 32 || vram__reader_u32(r, "a header") != 0x30306865) /* eh00 */
    return;
  vram__reader_seek(r, 16);
  p->to->program_bytes = vram__reader_u64(r, "a header");
  p->segments_at = vram__reader_u64(r, "a header");
  if (p->to->program_bytes > end || p->segments_at > end)
    vram__reader_fail(r, VRAM_ERR_SYNTAX, 16, "a header that says more than the file has");
}

VRAM_API vram_result vram_executorch_read(vram_file *f, const vram_file_source *s,
                                          vram_executorch *to, vram_error *e) {
  vram__reader r;
  vram__pte p;
  uint64_t root;
  vram__memory_zero(to, sizeof *to);
  vram__memory_zero(&p, sizeof p);
  if (vram__reader_begin(&r, f, s, e))
    return r.result;
  if (!f->mem)
    return vram__reader_fail(&r, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
  vram__flat_begin(&p.b, f, &r);
  p.to = to;
  root = vram__reader_u32(&r, "the offset of the program");
  if (vram__reader_u32(&r, "the format") != 0x32315445) /* ET12 */
    return vram__reader_fail(&r, VRAM_ERR_UNSUPPORTED, 4, "no program of ExecuTorch");
  vram__pte_header(&p);
  if (r.result || !vram__flat_table(&p.b, root, &p.program))
    return r.result;
  vram__flat_vector(&p.b, &p.program, VRAM__PTE_PROGRAM_SEGMENTS, 4, &p.segments);
  vram__flat_vector(&p.b, &p.program, VRAM__PTE_PROGRAM_DELEGATES, 4, &p.delegates);
  vram__pte_plans(&p);
  vram__pte_constants(&p);
  return r.result;
}
