/* >>torch/reduce    reductions as TensorIterator splits them */
#include "torch/torch.h"

VRAM__FN int64_t vram__power_of_two_below(int64_t v, int64_t most) {
  int64_t p = 1;
  if (v > most)
    return most;
  while (p * 2 <= v)
    p *= 2;
  return p;
}

/* A reduction as TensorIterator sees it: axes in the order of the kernel, the reduced ones first.
 */
typedef struct vram__reduce_iter {
  int64_t size[VRAM_MAX_AXES], in[VRAM_MAX_AXES], out[VRAM_MAX_AXES]; /* sizes, strides */
  uint32_t n, off;
} vram__reduce_iter;

/* What a reduction of x over the axes of mask iterates (TensorIterator.cpp, reorder_dimensions and
   coalesce_dimensions with a contiguous result). */
static void vram__reduce_iter_make(const vram__step *s, vram__tensor x, uint32_t mask,
                                   vram__reduce_iter *it) {
  int64_t out[VRAM_MAX_AXES], z = 1;
  uint8_t perm[VRAM_MAX_AXES];
  const int64_t *in = VRAM__STRIDE(x.d), *size = x.d->v;
  int i, j, n = x.d->ndim;
  uint32_t m = 0;
  for (i = n - 1; i >= 0; i--) {
    perm[n - 1 - i] = (uint8_t)i;
    out[i] = mask >> i & 1 ? 0 : z;
    if (!(mask >> i & 1))
      z *= size[i];
  }
  for (i = 1; i < n; i++) {
    int k = i;
    for (j = i - 1; j >= 0; j--) {
      int a = perm[j], b = perm[k], c = 0;
      if (!out[a] != !out[b])
        c = out[b] ? -1 : 1;
      else if (out[a])
        c = out[a] < out[b] ? -1 : out[a] > out[b] ? 1 : size[a] > size[b] ? 1 : 0;
      if (!c && in[a] && in[b])
        c = in[a] < in[b] ? -1 : in[a] > in[b] ? 1 : size[a] > size[b] ? 1 : 0;
      if (c > 0) {
        perm[j] = (uint8_t)b;
        perm[k] = (uint8_t)a;
        k = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++) {
    int a = perm[i];
    if (m && (it->size[m - 1] == 1 || size[a] == 1 ||
              (it->size[m - 1] * it->in[m - 1] == in[a] &&
               it->size[m - 1] * it->out[m - 1] == out[a]))) {
      if (it->size[m - 1] == 1) {
        it->in[m - 1] = in[a];
        it->out[m - 1] = out[a];
      }
      it->size[m - 1] *= size[a];
      continue;
    }
    it->size[m] = size[a];
    it->in[m] = in[a];
    it->out[m++] = out[a];
  }
  it->n = m;
  it->off = vram__slot_at(s, vram__tensor_slot(x))->off;
}

VRAM__FN int vram__reduce_config_split(vram__reduce_config *c, const vram__device *device) {
  const vram__rules *rules = device->rules;
  const int64_t threads = rules->reduce.threads / c->output_vector;
  const int64_t x = vram__power_of_two_below(c->dim0, threads);
  const int64_t y = vram__power_of_two_below(c->dim1, threads);
  int64_t width = vram__min_i64(x, rules->warp), height, step_input = 1, step_output = 1, values;
  int64_t target, least, most, parts;
  height = vram__min_i64(y, threads / width);
  width = vram__min_i64(x, threads / height);
  *(c->along ? &step_input : &step_output) *= width;
  values = vram__div_up(c->inputs, step_input);
  if (values < vram__min_i64(rules->reduce.least_values * height, rules->reduce.most_values))
    return 0; /* one warp reduces an output */
  step_input *= height;
  values = vram__div_up(c->inputs, step_input);
  c->block_width = width;
  c->grid = vram__div_up(c->outputs / c->output_vector, step_output);
  target = (int64_t)device->sm * ((int64_t)device->threads / (width * height));
  if (values < rules->reduce.most_values || c->grid > target)
    return 0;
  parts = vram__div_up(target, c->grid);
  least = vram__div_up(values, rules->reduce.most_values);
  most = vram__div_up(values, rules->reduce.least_values);
  c->ctas_per_output = parts < least ? least : parts > most ? most : parts;
  return c->ctas_per_output > 1;
}

/* Where it is split: bytes of the partial results, which are accumulated in `acc` bytes each. */
VRAM__FN uint64_t vram__reduce_partial_bytes(const vram__reduce_config *c, uint64_t acc) {
  const int64_t each = c->along ? 1 : c->block_width * c->output_vector;
  return vram__product_or_overflow((uint64_t)(c->outputs * c->ctas_per_output),
                                   (uint64_t)each * acc);
}

/* How many outputs a thread has at once where they lie one behind the other: `vector` or a smaller
   power of two (get_output_vec_size). */
static int64_t vram__reduce_output_vector(const vram__reduce_iter *it, uint32_t first,
                                          int64_t vector) {
  uint32_t i;
  while (it->off % vector || it->size[first] % vector)
    vector /= 2;
  for (i = 0; i < it->n; i++)
    while (i != first && it->in[i] % vector)
      vector /= 2;
  return vector;
}

/* What is needed for a moment where the reduction is split over thread blocks: partial results and
   semaphores. acc: bytes that a thread accumulates in; vt: values that it reads at once. */
static void vram__reduce_split(vram__step *s, const vram__reduce_iter *it, uint32_t acc,
                               uint32_t vt) {
  vram__reduce_config c = VRAM_ZERO_INIT;
  const vram__rules *rules = s->device.rules;
  uint32_t reduced = 0, i, partial, semaphores;
  int64_t stride = 1;
  c.outputs = c.inputs = c.output_vector = c.along = 1;
  for (i = 0; i < it->n; i++)
    if (it->out[i])
      c.outputs *= it->size[i];
    else {
      c.inputs *= it->size[i];
      reduced++;
    }
  if (c.inputs < rules->reduce.most_values)
    return; /* too few values for one thread to split */
  c.dim0 = c.dim1 = 1;
  if (it->n) {
    c.along = reduced == it->n || it->in[0] < it->in[reduced];
    c.dim0 = c.along ? c.inputs : c.outputs;
    c.dim1 = c.along ? c.outputs : c.inputs;
    stride = it->in[c.along ? 0 : reduced];
  }
  if (stride == 1 && !c.along)
    c.output_vector = vram__reduce_output_vector(it, reduced, rules->reduce.output_vector);
  else if (stride == 1 && c.dim0 >= rules->reduce.vectorized && reduced == 1)
    c.dim0 /= vt;
  c.dim0 /= c.output_vector;
  if (!vram__reduce_config_split(&c, &s->device))
    return;
  partial = vram__storage_new(s, vram__reduce_partial_bytes(&c, acc));
  semaphores = vram__storage_new(s, (uint64_t)(4 * c.grid));
  vram__slot_release(s, semaphores);
  vram__slot_release(s, partial);
}

/* TensorIteratorBase::can_use_32bit_indexing; else the axis to split. */
static int vram__reduce_iter_is_small(const vram__reduce_iter *it, uint32_t ein, uint32_t eout,
                                      uint32_t *axis) {
  int64_t in = 1, out = 1, numel = 1, most = -1;
  uint32_t i;
  for (i = it->n; i-- > 0;) {
    int64_t a = (it->size[i] - 1) * it->in[i] * ein, b = (it->size[i] - 1) * it->out[i] * eout;
    numel *= it->size[i];
    in += a;
    out += b;
    if (a > most) {
      most = a;
      *axis = i;
    }
    if (b > most) {
      most = b;
      *axis = i;
    }
  }
  return numel <= INT32_MAX && in <= INT32_MAX && out <= INT32_MAX;
}

/* A reduction beyond 32-bit offsets runs in halves of halves (TensorIteratorBase::split). */
static void vram__reduce_large(vram__step *s, const vram__reduce_iter *it, uint32_t ein,
                               uint32_t eout, uint32_t acc, uint32_t vt) {
  vram__reduce_iter stack[48];
  uint32_t n = 1, axis = 0;
  stack[0] = *it;
  while (n) {
    vram__reduce_iter *top = &stack[n - 1];
    if (n < 48 && !vram__reduce_iter_is_small(top, ein, eout, &axis)) {
      stack[n] = *top;
      stack[n].size[axis] = top->size[axis] / 2;
      top->size[axis] -= stack[n].size[axis];
      top->off =
          (uint32_t)(top->off + (uint64_t)stack[n].size[axis] * (uint64_t)top->in[axis]) % 16;
      n++;
    } else {
      vram__reduce_split(s, top, acc, vt);
      n--;
    }
  }
}

/* gpu_reduce_kernel: what a reduction of x over the axes of mask into dtype dt needs for a moment.
   Other accumulators than a number (Welford's, a value with its index) have 16 bytes or more. */
VRAM__FN void vram__reduce_scratch(vram__step *s, vram__tensor x, uint32_t mask, vram_dtype dt,
                                   uint32_t acc, uint32_t vt) {
  vram__reduce_iter it;
  uint32_t ein = vram__dtype_size(x.dt), eout = vram__dtype_size(dt), axis = 0, i, buf = 0;
  if (s->ideal)
    return;
  if (x.d->numel < (uint64_t)s->device.rules->reduce.most_values)
    return;
  vram__reduce_iter_make(s, x, mask, &it);
  if (x.d->numel < INT32_MAX / 16 && (x.d->flags & VRAM__DENSE)) {
    vram__reduce_split(s, &it, acc, vt);
    return;
  }
  if (vram__reduce_iter_is_small(&it, ein, eout, &axis)) {
    vram__reduce_split(s, &it, acc, vt);
    return;
  }
  if (acc > eout && (acc >= 16 || (x.dt == dt && (dt == VRAM_F16 || dt == VRAM_BF16)))) {
    int64_t n = 1; /* AccumulationBuffer: halves cannot be added up in the result */
    for (i = 0; i < it.n; i++)
      if (it.size[i] * it.out[i] > n)
        n = it.size[i] * it.out[i];
    buf = vram__storage_new(s, (uint64_t)n * acc);
  }
  if (x.d->numel < UINT64_C(1) << 40) /* no device holds more */
    vram__reduce_large(s, &it, ein, eout, acc, vt);
  if (buf)
    vram__slot_release(s, buf);
}

/* The empty result of a reduction of x over the axes of mask. */
VRAM__FN vram__tensor vram__tensor_reduced(vram__step *s, vram__tensor x, uint32_t mask,
                                           int keepdim, vram_dtype dt) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < x.d->ndim; i++)
    if (!(mask >> i & 1))
      size[m++] = x.d->v[i];
    else if (keepdim)
      size[m++] = 1;
  return vram__tensor_empty(s, vram__dims_in(s, m, size, NULL), dt);
}

/* x.sum over the axes of mask into dtype dt, and what the kernel needs for a moment. Half
   precision is read as it is, other dtypes are converted first (ReduceOpsUtils.h). */
VRAM__FN vram__tensor vram__tensor_sum(vram__step *s, vram__tensor x, uint32_t mask, int keepdim,
                                       vram_dtype dt) {
  vram__tensor y = vram__tensor_reduced(s, x, mask, keepdim, dt), c = vram__tensor_none();
  if (x.dt != dt && !(dt == VRAM_F32 && (x.dt == VRAM_F16 || x.dt == VRAM_BF16)))
    x = c = vram__tensor_to(s, x, dt);
  vram__reduce_scratch(s, x, mask, dt, vram__dtype_size(dt) < 4 ? 4 : vram__dtype_size(dt),
                       s->device.rules->reduce.input_vector);
  vram__tensor_release(s, c);
  return y;
}

/* at::sum_to: x reduced to sizes it was broadcast from; one handle more. */
VRAM__FN vram__tensor vram__tensor_sum_to(vram__step *s, vram__tensor x, const vram_dims *to) {
  uint32_t i, k = (uint32_t)x.d->ndim - to->ndim, mask = (1u << k) - 1;
  vram__tensor y, z;
  if (!to->ndim) /* summed also if it has no axes itself */
    return vram__tensor_sum(s, x, mask, 0, vram__backward_sum_dtype(s, x.dt));
  for (i = k; i < x.d->ndim; i++)
    if (to->v[i - k] == 1 && x.d->v[i] != 1)
      mask |= 1u << i;
  if (!mask)
    return vram__tensor_retain(s, x);
  y = vram__tensor_sum(s, x, mask, 1, vram__backward_sum_dtype(s, x.dt));
  if (!k)
    return y;
  z = vram__tensor_view(s, y, vram__dims_in(s, to->ndim, to->v, NULL));
  z.dt = y.dt;
  vram__tensor_release(s, y);
  return z;
}
