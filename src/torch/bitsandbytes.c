/* >>torch/bitsandbytes    which kernel multiplies with 4-bit weights (backends/cuda/ops.py) */
#include "torch/torch.h"

/* A product of `rows` rows with a weight [out, in]: tiles of 64 outputs, and multiprocessors. */
typedef struct vram__gemm4 {
  int64_t rows, out, in, tiles, sm;
  uint32_t cc;
} vram__gemm4;

/* Tiles for each multiprocessor, compared with a fraction. */
static int vram__gemm4_waves(const vram__gemm4 *m, int64_t times, int64_t of) {
  return m->tiles * of >= m->sm * times;
}

/* Weights of fewer than 4 Mi values: the most rows. */
static int64_t vram__gemm4_small(const vram__gemm4 *m) {
  const int hbm = m->cc == 80 || m->cc / 10 == 9, quarter = m->tiles * 4 <= m->sm;
  if (m->in * 2 < m->out) {
    if (hbm)
      return m->cc == 80 ? (m->tiles * 3 < m->sm ? 1536 : 512) : m->tiles * 3 < m->sm ? 512 : 320;
    if (m->cc == 75)
      return vram__gemm4_waves(m, 3, 1) ? 320 : m->in >= 1024 ? 64 : m->in >= 704 ? 96 : 320;
    return vram__gemm4_waves(m, 1, 1) || m->tiles * m->in <= m->sm * 320 ? 320 : 192;
  }
  if (m->cc == 80 && quarter)
    return m->in < m->out ? 384 : m->tiles * 8 <= m->sm ? 32 : 128;
  if (m->cc == 75 && m->tiles < m->sm && m->rows > 8)
    return 64;
  if (quarter)
    return m->in < m->out || hbm ? 32 : 23;
  return m->tiles * 2 <= m->sm ? 16 : 0;
}

/* 5 to 7 rows and a large weight: only high-bandwidth memory has shapes that are not fused. */
static int vram__gemm4_few_rows(const vram__gemm4 *m) {
  const int sm90 = m->cc / 10 == 9;
  const int below_60 = m->tiles * 5 < m->sm * 3, below_75 = m->tiles * 4 < m->sm * 3;
  if ((m->cc != 80 && !sm90) || m->rows < 6 || m->tiles < (sm90 ? 36 : 48))
    return 1;
  if (m->in > m->out && below_75)
    return 0;
  if (m->in != m->out)
    return 1;
  return m->cc == 80 ? !below_60 : !below_75 || below_60;
}

static int64_t vram__gemm4_sm75(const vram__gemm4 *m) {
  if (vram__gemm4_waves(m, 3, 1))
    return m->in < m->out ? 128 : 64;
  return m->tiles >= m->sm / 2 ? 64 : 32;
}

static int64_t vram__gemm4_sm80(const vram__gemm4 *m) {
  if (vram__gemm4_waves(m, 3, 1))
    return 128;
  if (vram__gemm4_waves(m, 1, 1))
    return m->in < m->out ? 64 : 32;
  if (m->in >= m->out * 3 && m->tiles * 4 > m->sm)
    return 0;
  if (m->in == m->out && m->tiles >= 48 && m->tiles * 5 < m->sm * 3)
    return 0;
  if (m->tiles * 2 < m->sm) {
    if (m->in <= m->out)
      return 128;
    if (m->tiles * 3 >= m->sm)
      return 0;
  }
  return m->tiles >= m->sm / 2 && m->in < m->out ? 128 : 16;
}

static int64_t vram__gemm4_sm86(const vram__gemm4 *m) {
  return m->tiles >= m->sm ? 128 : m->tiles >= m->sm / 2 ? 64 : 16;
}

static int64_t vram__gemm4_sm90(const vram__gemm4 *m) {
  if (vram__gemm4_waves(m, 1, 1))
    return vram__gemm4_waves(m, 3, 1) ? 64 : vram__gemm4_waves(m, 2, 1) ? 48 : 32;
  if (m->tiles < m->sm / 2 || (m->in >= m->out && m->tiles * 4 < m->sm * 3))
    return 0;
  return 16;
}

static int64_t vram__gemm4_sm100(const vram__gemm4 *m) {
  if (vram__gemm4_waves(m, 3, 1))
    return 32;
  return vram__gemm4_waves(m, 1, 1) && m->in < m->out ? 8 : 0;
}

static int64_t vram__gemm4_sm120(const vram__gemm4 *m) {
  if (vram__gemm4_waves(m, 3, 1))
    return 256;
  if (vram__gemm4_waves(m, 2, 1))
    return 128;
  if (vram__gemm4_waves(m, 4, 5))
    return m->in >= m->out ? 96 : 64;
  if (m->tiles >= m->sm / 2)
    return m->in * 2 >= m->out && m->tiles >= 128 ? 64 : 8;
  return m->in > m->out * 2 && m->tiles > 64 ? 16 : 8;
}

/* cc 8.9, and what has no row of its own */
static int64_t vram__gemm4_others(const vram__gemm4 *m) {
  const int tall = m->in > m->out * 2;
  if (m->cc == 121 && m->tiles >= m->sm)
    return 256;
  if (vram__gemm4_waves(m, 3, 1))
    return 256;
  if (vram__gemm4_waves(m, 2, 1))
    return 128;
  if (vram__gemm4_waves(m, 4, 5)) {
    if (tall || m->tiles >= 200)
      return 128;
    return m->in < m->out ? 64 : m->sm >= 60 ? 128 : 32;
  }
  if (m->tiles >= m->sm / 2)
    return tall ? 64 : m->tiles >= 64 ? 8 : 32;
  if (m->in > m->out && m->tiles <= 48)
    return m->in >= m->out * 3 ? 12 : 10;
  return tall || m->tiles < 48 ? 16 : 8;
}

/* The most rows that are multiplied by the fused kernel (_gemm_4bit_use_custom_cuda), from 8 on. */
static int64_t vram__gemm4_most(const vram__gemm4 *m) {
  if (m->cc / 10 == 10)
    return vram__gemm4_sm100(m);
  if (vram__product_or_overflow((uint64_t)m->out, (uint64_t)m->in) < UINT64_C(4) * 1024 * 1024)
    return vram__gemm4_small(m);
  if (m->rows > 512)
    return 0;
  if (m->rows < 8)
    return vram__gemm4_few_rows(m) ? 7 : 0;
  return m->cc == 75       ? vram__gemm4_sm75(m)
         : m->cc == 80     ? vram__gemm4_sm80(m)
         : m->cc == 86     ? vram__gemm4_sm86(m)
         : m->cc / 10 == 9 ? vram__gemm4_sm90(m)
         : m->cc == 120    ? vram__gemm4_sm120(m)
                           : vram__gemm4_others(m);
}

/* Does one kernel multiply `rows` rows of dtype dt with a packed weight [out, in]? Otherwise the
   weight is dequantised for a moment and F.linear multiplies. */
VRAM__FN int vram__gemm4_is_fused(const vram__step *s, vram_dtype dt, int64_t rows, int64_t out,
                                  int64_t in) {
  const vram__device *d = &s->device;
  vram__gemm4 m;
  if (s->ideal)
    return 1;
  if (rows > d->rules->four_bit.rows || in % d->rules->four_bit.block)
    return 0;
  if (rows <= d->rules->four_bit.few_rows)
    return 1;
  if (dt == VRAM_F32 || d->cc < 75 || (d->cc == 75 && dt != VRAM_F16))
    return rows < 8;
  if (d->cc == 87 || d->cc / 10 == 11)
    return 0;
  m.rows = rows;
  m.out = out;
  m.in = in;
  m.tiles = (out + 63) / 64;
  m.sm = d->sm;
  m.cc = d->cc;
  return rows <= vram__gemm4_most(&m);
}
