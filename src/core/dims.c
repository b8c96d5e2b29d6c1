/* >>core/dims    sizes and strides
   Sizes and strides. Equal ones are usually the same object, so that comparing pointers answers
   most questions. */
#include "core/core.h"

/* Tensor::suggest_memory_format: channels last? */
VRAM__FN int vram__suggests_cl(const vram_dims *d) { return (d->flags & VRAM__CL_STRIDES) != 0; }

VRAM__FN void *vram__memory_take(uint8_t *mem, uint64_t *used, uint64_t cap, uint64_t n) {
  uint64_t at = (*used + 7) & ~(uint64_t)7;
  if (n > cap || at > cap - n)
    return NULL;
  *used = at + n;
  return mem + at;
}

VRAM__FN uint64_t vram__dims_bytes(uint32_t ndim) {
  return offsetof(vram_dims, v) + 2 * (uint64_t)ndim * sizeof(int64_t);
}

/* c10/core/MemoryFormat.h, is_channels_last_strides_2d and _3d */
static int vram__like_channels_last(uint32_t n, const int64_t *size, const int64_t *stride) {
  static const uint8_t order[2][5] = {{1, 3, 2, 0, 0}, {1, 4, 3, 2, 0}};
  int64_t min = 0;
  uint32_t i;
  if ((n != 4 && n != 5) || stride[1] == 0)
    return 0;
  for (i = 0; i < n; i++) {
    uint32_t a = order[n - 4][i];
    if (size[a] == 0 || stride[a] < min || (a == 0 && min == stride[1]))
      return 0;
    min = stride[a];
    if (size[a] > 1)
      min *= size[a];
  }
  return 1;
}

static uint8_t vram__dims_flags(uint32_t n, const int64_t *size, const int64_t *stride) {
  uint32_t i, j, flags = VRAM__PLAIN;
  int64_t z = 1;
  int ok = 1;
  uint8_t order[VRAM_MAX_AXES];
  for (i = n; i-- > 0;) {
    if (size[i] == 0)
      return VRAM__CONTIG | VRAM__DENSE;
    if (stride[i] != z) {
      flags = 0;
      if (size[i] != 1)
        ok = 0;
    }
    z *= size[i];
  }
  if (ok)
    flags |= VRAM__CONTIG | VRAM__DENSE;
  if (!ok) { /* dense: sorted by stride they are contiguous */
    uint32_t m = 0;
    for (i = 0; i < n; i++) {
      if (size[i] == 1)
        continue;
      for (j = m; j > 0 && stride[order[j - 1]] > stride[i]; j--)
        order[j] = order[j - 1];
      order[j] = (uint8_t)i;
      m++;
    }
    for (z = 1, ok = 1, i = 0; i < m; i++) {
      if (stride[order[i]] != z)
        ok = 0;
      z *= size[order[i]];
    }
    if (ok)
      flags |= VRAM__DENSE;
  }
  if (n == 4 || n == 5) {
    static const uint8_t at[2][5] = {{1, 3, 2, 0, 0}, {1, 4, 3, 2, 0}};
    for (z = 1, ok = 1, i = 0; i < n; i++) {
      j = at[n - 4][i];
      if (size[j] != 1 && stride[j] != z)
        ok = 0;
      z *= size[j];
    }
    if (ok)
      flags |= VRAM__CL;
  }
  if (vram__like_channels_last(n, size, stride))
    flags |= VRAM__CL_STRIDES;
  return (uint8_t)flags;
}

/* 1 if a tensor of these sizes has at most 2^63-1 bytes in every dtype; a size of 0 counts as 1. */
VRAM__FN int vram__dims_fit(uint32_t n, const int64_t *size) {
  uint64_t z = 16;
  uint32_t i;
  for (i = 0; i < n; i++)
    z = vram__product_or_overflow(z, size[i] > 1 ? (uint64_t)size[i] : 1);
  return z != VRAM_OVERFLOW;
}

/* The dims object of these sizes and strides (NULL: contiguous); NULL: no memory, or too large. */
VRAM__FN const vram_dims *vram__dims_get(uint8_t *mem, uint64_t *used, uint64_t cap,
                                         const vram_dims **cache, uint32_t n, const int64_t *size,
                                         const int64_t *stride) {
  int64_t own[VRAM_MAX_AXES];
  uint64_t h = n, numel = 1;
  uint32_t i;
  const vram_dims *c;
  vram_dims *d;
  if (!stride) {
    uint64_t z = 1;
    for (i = n; i-- > 0;)
      own[i] = (int64_t)z, z *= size[i] > 1 ? (uint64_t)size[i] : 1;
    stride = own;
  }
  for (i = 0; i < n; i++) {
    h = (h ^ (uint64_t)size[i]) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ (uint64_t)stride[i]) * UINT64_C(0xD6E8FEB86659FD93);
    numel *= (uint64_t)size[i];
  }
  h >>= 58;
  c = cache[h];
  if (c && c->ndim == n) {
    for (i = 0; i < n; i++)
      if (c->v[i] != size[i] || c->v[n + i] != stride[i])
        break;
    if (i == n)
      return c;
  }
  if (!vram__dims_fit(n, size))
    return NULL;
  d = (vram_dims *)vram__memory_take(mem, used, cap, vram__dims_bytes(n));
  if (!d)
    return NULL;
  d->numel = numel;
  d->ndim = (uint8_t)n;
  d->flags = vram__dims_flags(n, size, stride);
  for (i = 0; i < n; i++)
    d->v[i] = size[i], d->v[n + i] = stride[i];
  cache[h] = d;
  return d;
}
