/* >>tflm/offline    offsets that the file itself gives: its metadata "OfflineMemoryAllocation"
   From tensorflow/lite/micro: micro_allocation_info.cc, memory_planner/greedy_memory_planner.cc. */
#include "tflm/tflm.h"

enum { VRAM__TFLM_OFFLINE_MOST = 16384 }; /* buffers: TFLM's planner takes their square */

/* An i32 each: a version, a graph, how many tensors; then an offset for each tensor, -1: none. */
VRAM__FN const int64_t *vram__tflm_offline(vram__tflm_run *r) {
  static const char key[] = "OfflineMemoryAllocation";
  const vram_file_value *const v = vram_file_get(r->f, key, sizeof key - 1);
  const int64_t *const said = v ? (const int64_t *)v->array : NULL;
  uint64_t i;
  if (!v)
    return NULL;
  if (v->count < 3 || said[2] < 0 || (uint64_t)said[2] != r->nvalue || v->count - 3 < r->nvalue) {
    vram__tflm_fail(r, VRAM_ERR_VALUE, key);
    vram__error_number(r->err, " is not of this graph: offsets of ", r->nvalue);
    vram__error_text(r->err, " tensors expected");
    return NULL;
  }
  for (i = 0; i < r->nvalue; i++)
    if (said[3 + i] < -1)
      vram__tflm_fail(r, VRAM_ERR_VALUE, "OfflineMemoryAllocation has an offset below -1");
  return said + 3;
}

/* Puts the buffer where `order`, by offset, has room for it among those of its time: the first gap
   that is wide enough. */
static void vram__tflm_place(vram_buffer *b, uint32_t at, const uint32_t *order, uint32_t placed) {
  vram_buffer *const x = b + at;
  uint64_t low = 0;
  uint32_t i;
  for (i = 0; i < placed; i++) {
    const vram_buffer *const y = b + order[i];
    if (y->end <= x->begin || x->end <= y->begin)
      continue;
    if (y->offset >= low && y->offset - low >= x->bytes)
      break;
    if (y->offset + y->bytes > low)
      low = y->offset + y->bytes;
  }
  x->offset = low;
}

static void vram__tflm_insert(const vram_buffer *b, uint32_t at, uint32_t *order, uint32_t placed) {
  uint32_t k;
  for (k = placed; k && b[order[k - 1]].offset > b[at].offset; k--)
    order[k] = order[k - 1];
  order[k] = at;
}

/* What is given stays where it is, over one another, too; then the largest first, of equal ones the
   last. mem: two numbers a buffer. */
VRAM__FN uint64_t vram__tflm_offline_plan(vram__tflm_run *r, uint32_t n, void *mem) {
  uint32_t *const order = (uint32_t *)mem, *const rest = order + n;
  vram_buffer *const b = r->buffer;
  uint32_t i, k, placed = 0, count = 0;
  uint64_t height = 0;
  if (n > VRAM__TFLM_OFFLINE_MOST) {
    vram__tflm_fail(r, VRAM_ERR_LIMIT, "an OfflineMemoryAllocation of more than 16384 buffers");
    return 0;
  }
  for (i = 0; i < n; i++)
    if (b[i].pinned)
      vram__tflm_insert(b, i, order, placed++);
    else {
      for (k = count++; k && b[rest[k - 1]].bytes <= b[i].bytes; k--)
        rest[k] = rest[k - 1];
      rest[k] = i;
    }
  for (i = 0; i < count; i++) {
    vram__tflm_place(b, rest[i], order, placed);
    vram__tflm_insert(b, rest[i], order, placed++);
  }
  for (i = 0; i < n; i++)
    if (b[i].offset + b[i].bytes > height)
      height = b[i].offset + b[i].bytes;
  return height;
}
