/* >>net/layout    in which order a value's axes lie in memory */
#include "net/low.h"

static void vram__layout_drop(vram__layout *y, uint32_t i) {
  const uint32_t low = (UINT32_C(1) << i) - 1;
  uint32_t k;
  y->loose = (y->loose & low) | (y->loose >> 1 & ~low);
  for (k = i; k + 1 < y->n; k++) {
    y->axis[k] = y->axis[k + 1];
    y->place[k] = y->place[k + 1];
    y->size[k] = y->size[k + 1];
  }
  if (!i && y->n)
    y->batch = 0;
  y->n--;
}

/* Room for an atom before atom i; 0: there are too many. */
VRAM__FN int vram__layout_room(vram__layout *y, uint32_t i) {
  const uint32_t low = (UINT32_C(1) << i) - 1;
  uint32_t k;
  if (y->n == VRAM__LOW_ATOMS)
    return 0;
  y->loose = (y->loose & low) | (y->loose & ~low) << 1;
  for (k = y->n++; k > i; k--) {
    y->axis[k] = y->axis[k - 1];
    y->place[k] = y->place[k - 1];
    y->size[k] = y->size[k - 1];
  }
  return 1;
}

/* The atom that is number `place` in the order of the axes. */
VRAM__FN uint32_t vram__layout_at(const vram__layout *y, uint32_t place) {
  uint32_t i = 0;
  while (i < y->n && y->place[i] != place)
    i++;
  return i;
}

/* Numbers the places again, by axis and old place. */
VRAM__FN void vram__layout_number(vram__layout *y) {
  uint8_t old[VRAM__LOW_ATOMS];
  uint32_t i, k;
  for (i = 0; i < y->n; i++)
    old[i] = y->place[i];
  for (i = 0; i < y->n; i++)
    for (k = 0, y->place[i] = 0; k < y->n; k++)
      y->place[i] = (uint8_t)(y->place[i] + (y->axis[k] < y->axis[i] ||
                                             (y->axis[k] == y->axis[i] && old[k] < old[i])));
}

/* Atoms that are next to each other in memory and in the order of the axes are one. */
static void vram__layout_merge(vram__layout *y) {
  uint32_t i = y->batch;
  while (i + 1 < y->n) {
    if (y->place[i] + 1 == y->place[i + 1] && (y->loose >> i & 1) == (y->loose >> (i + 1) & 1)) {
      const uint8_t gone = y->place[i + 1];
      uint32_t k;
      y->size[i] *= y->size[i + 1];
      vram__layout_drop(y, i + 1);
      for (k = 0; k < y->n; k++)
        y->place[k] = (uint8_t)(y->place[k] - (y->place[k] > gone));
    } else
      i++;
  }
}

/* Splits atom i: `outer` of it comes first. */
VRAM__FN int vram__layout_split(vram__layout *y, uint32_t i, int64_t outer) {
  uint32_t k;
  if (!vram__layout_room(y, i))
    return 0;
  if (y->loose >> (i + 1) & 1)
    y->loose |= UINT32_C(1) << i;
  for (k = 0; k < y->n; k++)
    if (k != i && y->place[k] > y->place[i + 1])
      y->place[k]++;
  y->axis[i] = y->axis[i + 1];
  y->place[i] = y->place[i + 1];
  y->place[i + 1]++;
  y->size[i] = outer;
  y->size[i + 1] /= outer;
  return 1;
}

/* The same memory with other axes; 0: the atoms do not divide like that. */
VRAM__FN int vram__layout_view(vram__layout *y, const vram_dims *d) {
  uint32_t a, at = 0;
  vram__layout_merge(y);
  for (a = 0; a < d->ndim; a++) {
    int64_t left = d->v[a];
    while (left > 1) {
      const uint32_t i = vram__layout_at(y, at);
      if (i == y->n)
        return 0;
      if (left % y->size[i]) {
        if (y->size[i] % left || (y->batch && !i) || !vram__layout_split(y, i, left))
          return 0;
      }
      left /= y->size[i];
      y->axis[i] = (uint8_t)a;
      at++;
    }
  }
  return 1;
}

/* The layout of a tensor of these axes: memory has them in this order. */
VRAM__FN void vram__layout_make(vram__layout *y, const vram_dims *d, const uint32_t *order,
                                uint32_t batch_axis, int has_batch) {
  uint32_t i;
  vram__memory_zero(y, sizeof *y);
  for (i = 0; i < d->ndim; i++)
    if (d->v[order[i]] > 1) {
      y->axis[y->n] = y->place[y->n] = (uint8_t)order[i];
      y->size[y->n++] = d->v[order[i]];
    }
  vram__layout_number(y);
  y->batch = has_batch && y->n && y->axis[0] == batch_axis;
}

/* Elements of the atoms of these axes (bits); the batch is none of them. */
VRAM__FN int64_t vram__layout_of(const vram__layout *y, uint32_t axes) {
  int64_t z = 1;
  uint32_t i;
  for (i = y->batch; i < y->n; i++)
    if (axes >> y->axis[i] & 1)
      z *= y->size[i];
  return z;
}

/* Axis a gets another size, as one atom where its first one was. */
VRAM__FN int vram__layout_resize(vram__layout *y, uint32_t a, int64_t size) {
  uint32_t i = y->batch, where = VRAM__LOW_NO, loose = 0;
  while (i < y->n)
    if (y->axis[i] == a) {
      where = where < i ? where : i;
      loose = y->loose >> i & 1;
      vram__layout_drop(y, i);
    } else
      i++;
  if (size > 1) {
    if (where == VRAM__LOW_NO)
      for (where = y->batch; where < y->n && y->axis[where] < a;)
        where++;
    if (!vram__layout_room(y, where))
      return 0;
    y->loose |= loose << where;
    y->axis[where] = (uint8_t)a;
    y->place[where] = 0;
    y->size[where] = size;
  }
  vram__layout_number(y);
  return 1;
}

/* Axis a gets another size, as one atom that is the innermost of all; 0: there are too many. */
VRAM__FN int vram__layout_inner(vram__layout *y, uint32_t a, int64_t size) {
  vram__layout_resize(y, a, 1);
  if (size == 1)
    return 1;
  if (!vram__layout_room(y, y->n))
    return 0;
  y->axis[y->n - 1] = (uint8_t)a;
  y->place[y->n - 1] = 0;
  y->size[y->n - 1] = size;
  vram__layout_number(y);
  return 1;
}

/* Memory cut into h, w and c: cut[0] and cut[1] are the first atoms of w and of c; 0: an atom lies
   across a cut. */
VRAM__FN int vram__layout_cuts(const vram__layout *y, vram__hwc shape, uint32_t cut[2]) {
  uint32_t i;
  for (i = y->batch; i < y->n && shape.h > 1 && shape.h % y->size[i] == 0; i++)
    shape.h /= y->size[i];
  cut[0] = i;
  for (; i < y->n && shape.w > 1 && shape.w % y->size[i] == 0; i++)
    shape.w /= y->size[i];
  cut[1] = i;
  return shape.h == 1 && shape.w == 1;
}
