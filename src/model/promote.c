/* >>model/promote    type promotion */
#include "model/model.h"

VRAM__FN int vram__dtype_is_float(vram_dtype dt) {
  return vram__dtype_rows[dt].kind == VRAM_KIND_FLOAT;
}

/* What a whole model may be in. */
VRAM__FN int vram__dtype_of_models(vram_dtype dt) {
  return dt == VRAM_F64 || dt == VRAM_F32 || dt == VRAM_F16 || dt == VRAM_BF16;
}

static int vram__dtype_is_complex(vram_dtype dt) {
  return vram__dtype_rows[dt].kind == VRAM_KIND_COMPLEX;
}

/* The dtype of a complex number's parts, and back. */
static vram_dtype vram__dtype_real(vram_dtype dt) {
  return dt == VRAM_C128   ? VRAM_F64
         : dt == VRAM_C64  ? VRAM_F32
         : dt == VRAM_C32  ? VRAM_F16
         : dt == VRAM_CB32 ? VRAM_BF16
                           : dt;
}

static vram_dtype vram__dtype_complex(vram_dtype dt) {
  return dt == VRAM_F64    ? VRAM_C128
         : dt == VRAM_F16  ? VRAM_C32
         : dt == VRAM_BF16 ? VRAM_CB32
                           : VRAM_C64;
}

VRAM__FN uint32_t vram__kind_rank(vram_dtype dt) {
  return dt == VRAM_BOOL ? 0 : vram__dtype_is_complex(dt) ? 3 : vram__dtype_is_float(dt) ? 2 : 1;
}

/* c10/core/ScalarType.cpp, promoteTypes: bool < integers < floats < complex. */
VRAM__FN vram_dtype vram__promote2(vram_dtype a, vram_dtype b) {
  const vram_dtype ra = vram__dtype_real(a), rb = vram__dtype_real(b);
  const uint32_t ka = vram__kind_rank(ra), kb = vram__kind_rank(rb);
  const uint32_t za = vram__dtype_rows[ra].block_bytes, zb = vram__dtype_rows[rb].block_bytes;
  vram_dtype dt = za >= zb ? ra : rb;
  if (a == b)
    return a;
  if (ka != kb)
    return ka > kb ? a : b;
  if (za == zb && ra != rb) /* f16 with bf16 gives f32, u8 with i8 i16 */
    dt = ka == 2 ? VRAM_F32 : VRAM_I16;
  return vram__dtype_is_complex(a) || vram__dtype_is_complex(b) ? vram__dtype_complex(dt) : dt;
}

VRAM__FN void vram__promote_add(vram__promote *p, vram_dtype dt, uint32_t ndim) {
  if (ndim) {
    p->dim = p->has_dim ? vram__promote2(p->dim, dt) : dt;
    p->has_dim = 1;
  } else {
    p->zero = p->has_zero ? vram__promote2(p->zero, dt) : dt;
    p->has_zero = 1;
  }
}

VRAM__FN vram_dtype vram__promote_get(const vram__promote *p) {
  if (!p->has_dim)
    return p->zero;
  if (!p->has_zero || vram__kind_rank(p->zero) <= vram__kind_rank(p->dim))
    return p->dim;
  if (vram__kind_rank(p->dim) == 2) /* complex now, as wide as it was */
    return vram__dtype_complex(p->dim);
  return p->zero;
}

/* The dtype of a pointwise op's result; nin 1: with a number, an integer where the tensor is. */
VRAM__FN vram_dtype vram__promote_result(uint32_t op, uint32_t nin, const vram__promote *p) {
  const vram_dtype dt = vram__promote_get(p);
  if (op >= VRAM_OP_COUNT)
    return dt;
  switch (vram__op_at(op)->types) {
  case VRAM__TYPES_BOOL:
    return VRAM_BOOL;
  case VRAM__TYPES_FLOAT:
    return vram__kind_rank(dt) < 2 ? VRAM_F32 : dt;
  case VRAM__TYPES_POW:
    return nin == 1 && vram__kind_rank(dt) < 2 ? VRAM_F32 : dt;
  case VRAM__TYPES_NUMBER:
    return nin == 1 && dt == VRAM_BOOL ? VRAM_I64 : dt;
  default: /* the absolute of a complex number is real */
    return op == VRAM_OP_abs ? vram__dtype_real(dt) : dt;
  }
}

/* Inputs of an op that promotes: all, but for a condition or mask. */
VRAM__FN vram_dtype vram__promote_all(const vram_node *n, uint32_t first, uint32_t count) {
  vram__promote p;
  uint32_t i;
  vram__memory_zero(&p, sizeof p);
  for (i = first; i < first + count; i++)
    vram__promote_add(&p, n->in[i]->dtype, n->in[i]->d->ndim);
  return vram__promote_result(n->op, n->nin, &p);
}
