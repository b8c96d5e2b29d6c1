/* >>ops/attention    scaled_dot_product_attention (ATen/native/transformers) */
#include "ops/ops.h"

/* Everything that attention allocates, the kernels' workspaces included, must fit: no more than 64
   bytes for each pair of the two largest of rows, keys and width, blocks of a kernel rounded up. */
VRAM__FN int vram__attention_fits(vram_graph *g, uint64_t heads, int64_t rows, int64_t keys,
                                  int64_t width) {
  const uint64_t r = (uint64_t)rows + 256, k = (uint64_t)keys + 256, w = (uint64_t)width + 512;
  const uint64_t longer = r > k ? r : k, shorter = r > k ? k : r;
  const uint64_t pairs = vram__product_or_overflow(longer, shorter > w ? shorter : w);
  if (vram__product_or_overflow(vram__product_or_overflow(heads, 64), pairs) != VRAM_OVERFLOW)
    return 1;
  vram__graph_fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
  return 0;
}

/* The mask broadcasts to [.., queries, keys]; `lead` sizes stand in front of those two. */
static int vram__shape_sdpa_mask(vram_graph *g, vram_node *n, uint32_t lead, const int64_t *size) {
  const vram_dims *mask = n->in[3]->d;
  const uint32_t ndim = lead + 2;
  int64_t all[VRAM_MAX_AXES];
  uint32_t i;
  if (VRAM__INT(n, is_causal, 0))
    return vram__node_error(g, n, "is_causal=1 together with a mask");
  if (n->in[3]->dtype != VRAM_BOOL && vram__kind_rank(n->in[3]->dtype) != 2)
    return vram__node_error(g, n, "a mask must be of bool or floating point");
  for (i = 0; i < lead; i++)
    all[i] = size[i];
  all[lead] = n->in[0]->d->v[lead];
  all[lead + 1] = n->in[1]->d->v[lead];
  for (i = 0; i < mask->ndim && mask->ndim <= ndim; i++)
    if (mask->v[i] != 1 && mask->v[i] != all[ndim - mask->ndim + i])
      break;
  if (!mask->ndim || mask->ndim > ndim || i < mask->ndim)
    return vram__node_error(g, n, "a mask that does not broadcast to [.., queries, keys]");
  return 1;
}

/* attention.cpp, validate_sdpa_input */
VRAM__FN int vram__shape_sdpa(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d;
  const uint32_t ndim = q->ndim;
  const int gqa = VRAM__INT(n, enable_gqa, 0) != 0;
  int64_t size[VRAM_MAX_AXES], front[VRAM_MAX_AXES];
  uint32_t i, j, lead = 0;
  uint64_t heads = 1;
  if (ndim < 2 || k->ndim != ndim || v->ndim != ndim)
    return vram__node_error(g, n, "attention of tensors of different axes");
  if (q->v[ndim - 1] != k->v[ndim - 1])
    return vram__node_error(g, n, "query and key of different width");
  if (k->v[ndim - 2] != v->v[ndim - 2])
    return vram__node_error(g, n, "key and value of different length");
  for (i = 0; i < 3; i++)
    if (vram__kind_rank(n->in[i]->dtype) != 2)
      return vram__node_error(g, n, "attention of tensors that are not floating point");
  if (gqa && (ndim < 3 || k->v[ndim - 3] < 1 || v->v[ndim - 3] < 1 ||
              q->v[ndim - 3] % k->v[ndim - 3] || q->v[ndim - 3] % v->v[ndim - 3]))
    return vram__node_error(g, n, "heads of key and value must divide those of the query");
  for (i = 0; i < 3; i++) { /* what stands in front of rows and width broadcasts */
    for (j = 0; j + 2 < ndim; j++)
      front[j] = gqa && j == ndim - 3 ? q->v[j] : n->in[i]->d->v[j];
    if (!vram__dims_broadcast_lead(&lead, size, ndim - 2, front))
      return vram__node_error(g, n, "query, key and value of different batch or heads");
  }
  for (i = 0; i < lead; i++)
    heads = vram__product_or_overflow(heads, (uint64_t)(size[i] ? size[i] : 1));
  if (n->nin > 3 && !vram__shape_sdpa_mask(g, n, lead, size))
    return 0;
  if (!vram__attention_fits(g, heads, q->v[ndim - 2], k->v[ndim - 2],
                            vram__max_i64(q->v[ndim - 1], v->v[ndim - 1])))
    return 0;
  size[lead] = q->v[ndim - 2];
  size[lead + 1] = v->v[ndim - 1];
  return vram__node_out(g, n, 0, ndim, size, n->in[0]->dtype);
}

/* Both products of attention: queries by keys, probabilities by values. */
VRAM__FN uint64_t vram__flops_sdpa(const vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d;
  const uint64_t keys = (uint64_t)(k->ndim > 1 ? k->v[k->ndim - 2] : 1);
  const uint64_t width = v->ndim ? (uint64_t)v->v[v->ndim - 1] : 1;
  const uint64_t depth = q->ndim ? (uint64_t)q->v[q->ndim - 1] : 1;
  const uint64_t rows = depth ? q->numel / depth : 0;
  return vram__product_or_overflow(
      vram__product_or_overflow(2, vram__product_or_overflow(rows, keys)),
      vram__sum_or_overflow(depth, width));
}

#ifndef VRAM_NO_STEP

/* ---- layouts ---- */

VRAM__FN int vram__is_half(vram_dtype dt) { return dt == VRAM_F16 || dt == VRAM_BF16; }

/* [b,h,len,d], stored as [b,len,h,d]: heads beside one another, as a linear layer makes them. */
VRAM__FN const vram_dims *vram__attention_bshd_dims(vram__step *s, int64_t b, int64_t h,
                                                    int64_t len, int64_t d) {
  int64_t size[4], stride[4];
  size[0] = b;
  size[1] = h;
  size[2] = len;
  size[3] = d;
  stride[0] = len * h * d;
  stride[1] = d;
  stride[2] = h * d;
  stride[3] = 1;
  return vram__dims_in(s, 4, size, stride);
}

/* empty_like of the [b,len,h,d] view of d. */
static const vram_dims *vram__attention_like_bshd(vram__step *s, const vram_dims *d) {
  if (d->flags & VRAM__DENSE)
    return d;
  return vram__dims_swapped(s, vram__dims_dense(s, vram__dims_swapped(s, d, 1, 2)), 1, 2);
}

/* The copy that makes the [b,len,h,d] view of x contiguous; none where it is. */
static vram__tensor vram__attention_bshd_copy(vram__step *s, vram__tensor x) {
  const int64_t *size = x.d->v;
  if (vram__dims_swapped(s, x.d, 1, 2)->flags & VRAM__CONTIG)
    return vram__tensor_none();
  return vram__tensor_empty(s, vram__attention_bshd_dims(s, size[0], size[1], size[2], size[3]),
                            x.dt);
}

/* Sizes of query [b,h,sq,d], key [b,hk,sk,d] and value [b,hv,sk,dv]. */
typedef struct vram__sdpa_size {
  int64_t b, h, hk, hv, sq, sk, d, dv;
} vram__sdpa_size;

static vram__sdpa_size vram__sdpa_size_of(const vram_dims *q, const vram_dims *k,
                                          const vram_dims *v) {
  vram__sdpa_size z;
  z.b = q->v[0];
  z.h = q->v[1];
  z.sq = q->v[2];
  z.d = q->v[3];
  z.hk = k->v[1];
  z.sk = k->v[2];
  z.hv = v->v[1];
  z.dv = v->v[3];
  return z;
}

static vram__sdpa_size vram__sdpa_sizes(const vram__sdpa *p) {
  return vram__sdpa_size_of(p->in[0].d, p->in[1].d, p->in[2].d);
}

/* ---- which kernel runs (sdp_utils.cpp; measured over thousands of cases on seven devices) ---- */

static int vram__device_is_hopper_or_blackwell(const vram__step *s) {
  return s->device.cc / 10 == 9 || s->device.cc / 10 == 10;
}

/* sdp_utils_cpp.h, input_requires_grad */
static int vram__sdpa_wants_gradient(const vram__step *s, const vram__sdpa *p) {
  return s->grad && (vram__tensor_wants_grad(s, p->in[0]) || vram__tensor_wants_grad(s, p->in[1]) ||
                     vram__tensor_wants_grad(s, p->in[2]));
}

/* sdp_utils_cpp.h, check_tensor_shapes, check_nonzero_sequence_lengths_dense and
   check_last_dim_stride_equals_1_dense, where the stride of one value may not count */
static int vram__sdpa_check_shapes(const vram__sdpa *p, int ignore_one) {
  const vram_dims *q = p->in[0].d, *k = p->in[1].d, *v = p->in[2].d, *mask = p->in[3].d;
  uint32_t i;
  if (q->ndim != 4 || q->v[0] != k->v[0] || q->v[0] != v->v[0] || !q->v[2] || !k->v[2])
    return 0;
  for (i = 0; i < 3; i++)
    if (VRAM__STRIDE(p->in[i].d)[3] != 1 && !(ignore_one && p->in[i].d->v[3] == 1))
      return 0;
  return !mask || VRAM__STRIDE(mask)[mask->ndim - 1] == 1;
}

/* sdp_utils_cpp.h, check_batch_size_and_num_heads_dense; same_kv: requires_same_num_heads */
static int vram__sdpa_check_heads(const vram__sdpa *p, int same_kv) {
  const vram__sdpa_size z = vram__sdpa_sizes(p);
  if (p->gqa)
    return !same_kv || z.hk == z.hv;
  return z.hk == z.hv && (z.hk == z.h || z.hk == 1);
}

/* sdp_utils.cpp, can_use_flash_attention */
static int vram__sdpa_can_use_flash(const vram__step *s, const vram__sdpa *p) {
  const uint32_t cc = s->device.cc;
  vram__sdpa_size z;
  if (!vram__sdpa_check_shapes(p, 1) || !vram__sdpa_check_heads(p, 1))
    return 0;
  z = vram__sdpa_sizes(p);
  if (cc < 80 || !vram__is_half(p->in[0].dt) || p->in[3].d || z.d != z.dv ||
      z.d > s->device.rules->flash.width || (p->causal && z.sq != z.sk) ||
      z.b > s->device.rules->grid_yz || z.h > s->device.rules->grid_yz)
    return 0;
  if ((cc == 86 || cc == 89 || cc >= 120) && vram__sdpa_wants_gradient(s, p))
    return z.d <= s->device.rules->flash.sm86_to ||
           (z.d > s->device.rules->flash.sm86_from && !p->dropout_p);
  return 1;
}

/* sdp_utils.cpp, check_cudnn_d256_bprop_head_dim; up to PyTorch 2.13 Blackwell alone has a limit.
 */
static int vram__sdpa_check_cudnn_backward(const vram__step *s, const vram__sdpa *p) {
  const vram__sdpa_size z = vram__sdpa_sizes(p);
  if (!vram__device_is_hopper_or_blackwell(s) || !vram__sdpa_wants_gradient(s, p))
    return 1;
  if (!(s->device.rules->does & VRAM__CUDNN_PAIRS))
    return s->device.cc / 10 == 9 || (z.d <= 128 && z.dv <= 128);
  return (z.d <= 128 && z.dv <= 128) || (z.d == 192 && z.dv == 128) || (z.d == 256 && z.dv == 256);
}

/* sdp_utils.cpp, can_use_cudnn_attention */
static int vram__sdpa_can_use_cudnn(const vram__step *s, const vram__sdpa *p) {
  const int64_t widest = vram__device_is_hopper_or_blackwell(s)
                             ? s->device.rules->cudnn_attention.width_large
                             : s->device.rules->cudnn_attention.width;
  const vram_dims *mask = p->in[3].d;
  vram__sdpa_size z;
  if (!vram__sdpa_check_shapes(p, 1) || !vram__sdpa_check_heads(p, 0))
    return 0;
  z = vram__sdpa_sizes(p);
  if (s->device.cc < 80 || !vram__is_half(p->in[0].dt) ||
      (uint64_t)p->dropout_p * s->device.rules->cudnn_attention.dropout % (uint64_t)VRAM__ONE)
    return 0;
  if (z.d % 8 || z.dv % 8 || z.d > widest || z.dv > widest || z.sk == 1 ||
      (p->dropout_p && z.sq == 1) || z.b > s->device.rules->grid_yz ||
      z.h > s->device.rules->grid_yz)
    return 0;
  if (!vram__sdpa_check_cudnn_backward(s, p))
    return 0;
  return !mask || (!vram__tensor_wants_grad(s, p->in[3]) && (mask->ndim == 2 || mask->ndim == 4));
}

/* sdp_utils.cpp, can_use_mem_efficient_attention */
static int vram__sdpa_can_use_efficient(const vram__step *s, const vram__sdpa *p) {
  const vram_dtype dt = p->in[0].dt;
  const int ampere = s->device.cc >= 80;
  const int64_t align = vram__is_half(dt) ? 8 : ampere ? 4 : 1; /* minimum_gemm_alignment */
  vram__sdpa_size z;
  uint32_t i;
  if (!vram__sdpa_check_shapes(p, 0) || !vram__sdpa_check_heads(p, 1) ||
      (p->gqa && !s->device.rules->attention.efficient_gqa))
    return 0;
  if (dt != VRAM_F32 && dt != VRAM_F16 && !(dt == VRAM_BF16 && ampere))
    return 0;
  for (i = 0; i < 3 && ampere; i++) /* check_data_ptr_alignment_mem_efficient */
    if (vram__slot_at(s, vram__tensor_slot(p->in[i]))->off % align)
      return 0;
  z = vram__sdpa_sizes(p);
  return z.d % align == 0 && z.dv % align == 0;
}

static int vram__sdpa_can_use(const vram__step *s, const vram__sdpa *p, int backend) {
  switch (backend) {
  case VRAM__SDPA_CUDNN:
    return vram__sdpa_can_use_cudnn(s, p);
  case VRAM__SDPA_FLASH:
    return vram__sdpa_can_use_flash(s, p);
  case VRAM__SDPA_EFFICIENT:
    return vram__sdpa_can_use_efficient(s, p);
  default:
    return 1;
  }
}

/* sdp_utils.cpp, priority_order of PyTorch 2.1: memory-efficient attention comes first where flash
   attention, which has a block for each head, would leave the device idle. */
static int vram__sdpa_prefers_efficient(const vram__step *s, const vram__sdpa *p) {
  vram__sdpa_size z;
  int64_t heads, widest;
  if (!(s->device.rules->does & VRAM__FLASH_1) || p->in[0].d->ndim != 4)
    return 0;
  z = vram__sdpa_sizes(p);
  heads = z.b * z.h;
  widest = vram__max_i64(z.d, p->in[1].d->v[3]);
  if (vram__sdpa_wants_gradient(s, p))
    return 6 * heads > z.sq;
  return (heads < 60 && heads * (z.sq / 64) / 2 >= heads) || widest == 128;
}

/* sdp_utils.cpp, select_sdp_backend: the first that can run. cuDNN is asked first on Hopper and
   Blackwell (check_prefer_cudnn_attention), elsewhere and in older versions behind all others. */
VRAM__FN int vram__sdpa_select(const vram__step *s, const vram__sdpa *p) {
  static const uint8_t order[] = {VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT,
                                  VRAM__SDPA_MATH};
  uint32_t i =
      vram__device_is_hopper_or_blackwell(s) && s->device.rules->attention.cudnn_first ? 0 : 1;
  if (vram__sdpa_prefers_efficient(s, p) && vram__sdpa_can_use(s, p, VRAM__SDPA_EFFICIENT))
    return VRAM__SDPA_EFFICIENT;
  while (!vram__sdpa_can_use(s, p, order[i]))
    i++;
  return order[i];
}

/* ---- fused kernels: what they have in common ---- */

/* aux of a fused kernel's record */
enum { VRAM__SDPA_SAVED_MASK = 1, VRAM__SDPA_SAVED_DROPOUT = 2 };

/* What is saved first of all, in the order of the arguments' names: [mask,] key, query, value. */
static void vram__sdpa_save(vram__step *s, vram__grad_fn *f, const vram__sdpa *p) {
  if (p->in[3].d) {
    vram__save_tensor(s, f, p->in[3]);
    f->aux |= VRAM__SDPA_SAVED_MASK;
  }
  vram__save_tensor(s, f, p->in[1]);
  vram__save_tensor(s, f, p->in[0]);
  vram__save_tensor(s, f, p->in[2]);
}

/* What was saved, behind a mask. */
VRAM__FN vram__sdpa_saved vram__sdpa_saved_of(vram__grad_fn *f) {
  const vram__tensor *saved = VRAM__SAVED(f) + (f->aux & VRAM__SDPA_SAVED_MASK);
  vram__sdpa_saved x;
  x.g = VRAM__SLOTS(f)[0].g;
  x.k = saved[0];
  x.q = saved[1];
  x.v = saved[2];
  x.lse = saved[3];
  x.y = saved[4];
  x.dropout = (f->aux & VRAM__SDPA_SAVED_DROPOUT) != 0;
  return x;
}

/* attention.cpp, convert_boolean_attn_mask */
static vram__tensor vram__attention_float_mask(vram__step *s, vram__tensor mask, vram_dtype dt) {
  const int math = s->device.rules->attention.math;
  vram__tensor inf, not_mask = vram__tensor_none(), zero, y;
  if (math == VRAM__MATH_PLAIN) { /* zeros_like(..).masked_fill_(mask.logical_not(), -inf) */
    y = vram__tensor_empty(s, vram__dims_dense(s, mask.d), dt);
    not_mask = vram__tensor_empty(s, y.d, VRAM_BOOL);
    vram__tensor_release(s, not_mask);
    return y;
  }
  inf = vram__tensor_empty(s, s->scalar, dt);
  if (math == VRAM__MATH_WHERE)
    not_mask = vram__tensor_empty(s, vram__dims_dense(s, mask.d), VRAM_BOOL);
  zero = vram__tensor_empty(s, s->scalar, dt);
  y = vram__tensor_empty(s, vram__dims_dense(s, mask.d), dt);
  vram__tensor_release(s, zero);
  vram__tensor_release(s, not_mask);
  vram__tensor_release(s, inf);
  return y;
}

/* Where several query heads share one of key and value, backward kernels give a gradient for each
   of them; these are added up at the end. */
static void vram__attention_spread_heads(vram__step *s, const vram__sdpa_size *z, vram_dtype dt,
                                         vram__tensor *spread) {
  const uint32_t bytes = vram__dtype_size(dt);
  spread[0] = spread[1] = vram__tensor_none();
  if (z->h == z->hk)
    return;
  spread[0] = vram__tensor_raw(s, vram__product4_or_overflow(z->b * z->h, z->sk, z->d, bytes));
  spread[1] = vram__tensor_raw(s, vram__product4_or_overflow(z->b * z->h, z->sk, z->dv, bytes));
}

/* The sum over the `group` query heads of each head of x. */
static void vram__attention_sum_group(vram__step *s, vram__tensor x, int64_t group) {
  const vram_dims *d = x.d;
  int64_t size[5];
  size[0] = d->v[0];
  size[1] = d->v[2];
  size[2] = d->v[1];
  size[3] = group;
  size[4] = d->v[3];
  x.d = vram__dims_in(s, 5, size, NULL);
  vram__reduce_scratch(s, x, 1u << 3, x.dt, 4, 4);
}

/* Takes what vram__attention_spread_heads gave. */
static void vram__attention_sum_heads(vram__step *s, const vram__sdpa_size *z, vram__tensor k,
                                      vram__tensor v, const vram__tensor *spread) {
  if (z->h == z->hk)
    return;
  vram__attention_sum_group(s, k, z->h / z->hk);
  vram__attention_sum_group(s, v, z->h / z->hk);
  vram__tensor_release(s, spread[1]);
  vram__tensor_release(s, spread[0]);
}

/* Kernels that make all gradients: those that nobody wants go. */
VRAM__FN void vram__gradients_drop_unwanted(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (to[i].d && !vram__input_wanted(f, i))
      vram__tensor_replace(s, &to[i], vram__tensor_none());
}

/* ---- memory-efficient attention (cuda/attention.cu, cuda/attention_backward.cu) ---- */

/* attention.cpp, preprocess_mask and pad_bias: a mask whose rows do not begin at multiples of 8
   elements is copied into wider rows, then it is expanded. PyTorch 2.1 expands it first, wants
   multiples of 16 and copies the others, too. Takes the mask. */
static vram__tensor vram__efficient_mask(vram__step *s, vram__tensor mask,
                                         const vram__sdpa_size *z) {
  uint32_t last = mask.d->ndim - 1u;
  const int64_t len = mask.d->v[last];
  const int first = (s->device.rules->does & VRAM__MASK_EXPANDED) != 0;
  const int64_t size[4] = {z->b, z->h, z->sq, z->sk}, unit = first ? 16 : 8;
  int64_t pad[2] = {0, 0};
  uint32_t i;
  if (first)
    vram__tensor_replace(s, &mask, vram__torch_expand(s, mask, 4, size));
  last = mask.d->ndim - 1u;
  for (i = 0; i < last; i++)
    if (VRAM__STRIDE(mask.d)[i] % unit) {
      pad[1] = unit - len % unit;
      vram__tensor_replace(s, &mask, vram__torch_pad(s, mask, pad, 1, VRAM__PAD_CONSTANT));
      vram__tensor_replace(s, &mask, vram__torch_narrow(s, mask, last, len));
      break;
    }
  if (first)
    return i < last ? mask : vram__torch_contiguous(s, mask);
  vram__tensor_replace(s, &mask, vram__torch_expand(s, mask, 4, size));
  return mask;
}

/* attention.cu, _efficient_attention_forward */
static void vram__efficient_forward(vram__step *s, const vram__sdpa *p, int wants_lse,
                                    vram__sdpa_made *m) {
  const vram__sdpa_size z = vram__sdpa_sizes(p);
  vram__tensor sums = vram__tensor_none();
  if (!p->dropout_p && s->device.rules->attention.device_seed) { /* else they are on the host */
    m->rest[0] = vram__tensor_raw(s, 8);
    m->rest[1] = vram__tensor_raw(s, 8);
  }
  m->y = vram__tensor_empty(s, vram__attention_bshd_dims(s, z.b, z.h, z.sq, z.dv), p->in[0].dt);
  m->rows = vram__round_up(z.sq, s->device.rules->efficient.lse);
  if (wants_lse)
    m->lse = vram__tensor_raw(s, vram__product4_or_overflow(4, z.b, z.h, m->rows));
  if (vram__is_half(p->in[0].dt) && vram__max_i64(z.d, z.dv) > s->device.rules->efficient.width)
    sums = vram__tensor_raw(s, vram__product4_or_overflow(4, z.b * z.h, z.sq, z.dv));
  vram__tensor_release(s, sums);
}

/* mem_eff_attention/kernel_backward.h: how the backward kernel is cut. */
typedef struct vram__efficient_blocks {
  int64_t i, j;            /* kBlockSizeI: queries, kBlockSizeJ: keys of a tile */
  int output_in_registers; /* the gradients of key and value stay there */
} vram__efficient_blocks;

static vram__efficient_blocks
vram__efficient_blocks_of(const vram__step *s, const vram__sdpa_size *z, int half, int dropout) {
  const uint32_t cc = s->device.cc;
  const int64_t width = vram__max_i64(z->d, z->dv);
  const int large = cc == 80 || cc == 90 || cc / 10 == 10; /* much shared memory */
  vram__efficient_blocks k;
  k.i = 128;
  k.j = 64;
  k.output_in_registers = 0;
  if (!half) {
    if (!large || width <= 64)
      k.i = 64;
  } else if (width <= 64) {
    k.i = 64;
    k.output_in_registers = 1;
  } else if (width <= 128) {
    if (large) {
      k.j = 128;
      k.output_in_registers = 1;
    } else if (cc == 75 || ((cc == 86 || cc == 89) && width <= 96 && !dropout))
      k.output_in_registers = 1;
    else
      k.i = 64;
  }
  return k;
}

/* kernel_backward.h, workspace_size: gradients that are added up in fp32 */
static uint64_t vram__efficient_workspace(const vram__step *s, const vram__sdpa_size *z, int half,
                                          int dropout) {
  const vram__efficient_blocks k = vram__efficient_blocks_of(s, z, half, dropout);
  const int64_t heads = z->b * z->h;
  const int64_t query = vram__div_up(z->sq, k.i) * vram__div_up(z->d, k.j) *
                        (4 * k.i * k.j + s->device.rules->efficient.lock);
  int64_t key_value = 0, splits;
  if (half && !k.output_in_registers) { /* attention_backward.cu, num_splits_key */
    splits = vram__div_up(z->sk, k.j);
    if (heads >= s->device.rules->efficient.parallel && z->sk <= 2 * k.j)
      splits = 1;
    splits = vram__min_i64(splits, heads ? s->device.rules->efficient.splits / heads : 1);
    key_value = 4 * vram__max_i64(1, splits) * k.j *
                (vram__round_up(z->d, k.i) + vram__round_up(z->dv, k.i));
  }
  return vram__product_or_overflow((uint64_t)heads,
                                   (uint64_t)vram__round_up(query + key_value, 16));
}

/* The gradient of the mask: rows of a multiple of 16 columns, a slice of which is handed on. */
static vram__tensor vram__efficient_mask_gradient(vram__step *s, const vram__sdpa_size *z,
                                                  vram_dtype dt) {
  vram__tensor whole, y;
  whole = vram__tensor_empty(
      s,
      vram__dims_4d(s, z->b, z->h, z->sq, vram__round_up(z->sk, s->device.rules->efficient.mask)),
      dt);
  y = vram__torch_narrow(s, whole, 3, z->sk);
  vram__tensor_release(s, whole);
  return y;
}

/* attention_backward.cu: delta = (grad_out * out).sum(-1), transposed; in half precision a kernel
   of its own makes it. */
static vram__tensor vram__efficient_delta(vram__step *s, const vram__sdpa_size *z, int half) {
  vram__tensor product, sum, delta;
  if (half)
    return vram__tensor_raw(s, vram__product4_or_overflow(4, z->b, z->h, z->sq));
  product = vram__tensor_empty(s, vram__dims_4d(s, z->b, z->sq, z->h, z->dv), VRAM_F32);
  sum = delta = vram__tensor_sum(s, product, 1u << 3, 0, VRAM_F32);
  if (z->h > 1 && z->sq > 1) {
    delta = vram__tensor_empty(s, vram__dims_contiguous(s, vram__dims_swapped(s, sum.d, 1, 2)),
                               VRAM_F32);
    vram__tensor_release(s, sum);
  }
  vram__tensor_release(s, product);
  return delta;
}

/* attention_backward.cu, _efficient_attention_backward. mask: of its gradient, or NULL */
static void vram__efficient_backward(vram__step *s, const vram__sdpa_saved *x, vram__tensor *mask,
                                     vram__tensor *to) {
  const vram__tensor k = x->k, q = x->q, v = x->v;
  const vram__sdpa_size z = vram__sdpa_size_of(q.d, k.d, v.d);
  const int half = vram__is_half(q.dt);
  vram__tensor g_copy = vram__attention_bshd_copy(s, x->g), spread[2], delta, workspace;
  to[0] = vram__tensor_empty(s, vram__attention_bshd_dims(s, z.b, z.h, z.sq, z.d), q.dt);
  to[1] = vram__tensor_empty(s, vram__attention_bshd_dims(s, z.b, z.hk, z.sk, z.d), q.dt);
  to[2] = vram__tensor_empty(s, vram__attention_bshd_dims(s, z.b, z.hk, z.sk, z.dv), q.dt);
  vram__attention_spread_heads(s, &z, q.dt, spread);
  if (mask)
    *mask = vram__efficient_mask_gradient(s, &z, q.dt);
  delta = vram__efficient_delta(s, &z, half);
  workspace = vram__tensor_raw(s, vram__efficient_workspace(s, &z, half, x->dropout));
  vram__tensor_release(s, delta);
  vram__tensor_release(s, workspace);
  vram__attention_sum_heads(s, &z, k, v, spread);
  vram__tensor_release(s, g_copy);
}

VRAM__FN void vram__backward_sdpa_efficient(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__sdpa_saved x = vram__sdpa_saved_of(f);
  vram__efficient_backward(s, &x, f->nin > 3 && vram__input_wanted(f, 3) ? to + 3 : NULL, to);
  vram__gradients_drop_unwanted(s, f, to);
}

/* ---- flash attention (cuda/flash_attn/flash_api.cpp) ---- */

/* Splits of n blocks of keys into i parts that are as large as into i - 1 are not tried. */
static int vram__flash_split_is_eligible(int64_t n, int64_t i) {
  return i == 1 || vram__div_up(n, i) != vram__div_up(n, i - 1);
}

/* num_splits_heuristic: the fewest splits that fill 85 % of what the best do. With i splits of
   `blocks` blocks there are blocks * i / sm waves, the last of which may not be full. */
static int64_t vram__flash_splits(const vram__step *s, int64_t blocks, int64_t n) {
  const int64_t sm = 2 * (int64_t)s->device.sm;
  const int64_t most = vram__min_i64(s->device.rules->flash.splits, vram__min_i64(sm, n));
  int64_t i, best = 0, best_of = 1; /* efficiency as a fraction: blocks, of so many places */
  if (blocks * 10 >= sm * 8)
    return 1;
  for (i = 1; i <= most; i++) {
    const int64_t places = vram__round_up(blocks * i, sm);
    if (vram__flash_split_is_eligible(n, i) && blocks * i * best_of > best * places) {
      best = blocks * i;
      best_of = places;
    }
  }
  for (i = 1; i <= most; i++)
    if (vram__flash_split_is_eligible(n, i) &&
        blocks * i * best_of * 100 >= best * vram__round_up(blocks * i, sm) * 85)
      return i;
  return 1;
}

/* mha_fwd: head_size_rounded */
static int64_t vram__flash_width(int64_t d) {
  return d <= 128 ? vram__round_up(d, 32) : d <= 192 ? 192 : 256;
}

/* mha_fwd, seqlenq_ngroups_swapped: of one query the heads that share a key become rows. */
static int vram__flash_swaps_groups(const vram__sdpa_size *z, int dropout) {
  return z->sq == 1 && z->h > z->hk && !dropout;
}

/* set_params_splitkv: partial results of keys that are split, softmax_lse_accum and out_accum;
   none: they are not split. */
static void vram__flash_partial(vram__step *s, const vram__sdpa_size *z, int dropout,
                                vram__tensor *partial) {
  const int64_t block_n = z->d <= 64 ? 256 : z->d <= 128 ? 128 : 64;
  int64_t rows = z->sq, heads = z->h, splits;
  partial[0] = partial[1] = vram__tensor_none();
  if (dropout)
    return;
  if (vram__flash_swaps_groups(z, dropout)) {
    rows = z->h / z->hk;
    heads = z->hk;
  }
  splits = vram__flash_splits(s, z->b * heads * vram__div_up(rows, s->device.rules->flash.block_m),
                              vram__div_up(z->sk, block_n));
  if (splits == 1)
    return;
  partial[0] = vram__tensor_raw(s, vram__product4_or_overflow(4 * splits, z->b, heads, rows));
  partial[1] = vram__tensor_raw(
      s, vram__product4_or_overflow(4 * splits, z->b, heads, rows * vram__flash_width(z->d)));
}

/* attention.cu, pad_last_dim: heads that are no multiple of 8 wide are copied. */
VRAM__FN void vram__flash_pad(vram__step *s, vram__sdpa *p) {
  const int64_t d = p->in[0].d->v[3];
  int64_t pad[2];
  uint32_t i;
  pad[0] = 0;
  pad[1] = vram__round_up(d, 8) - d;
  for (i = 0; i < 3 && pad[1]; i++)
    vram__tensor_replace(s, &p->in[i], vram__torch_pad(s, p->in[i], pad, 1, VRAM__PAD_CONSTANT));
}

/* attention.cu, _scaled_dot_product_flash_attention_cuda; flash_api.cpp, mha_fwd */
static void vram__flash_forward(vram__step *s, const vram__sdpa *p, vram__sdpa_made *m) {
  const vram__sdpa_size z = vram__sdpa_sizes(p);
  vram__tensor partial[2];
  m->y = vram__tensor_empty(s,
                            vram__flash_swaps_groups(&z, p->dropout_p != 0)
                                ? vram__attention_bshd_dims(s, z.b, z.h, z.sq, z.d)
                                : vram__attention_like_bshd(s, p->in[0].d),
                            p->in[0].dt);
  m->rows = z.sq;
  m->lse = vram__tensor_raw(s, vram__product4_or_overflow(4, z.b, z.h, z.sq));
  vram__flash_partial(s, &z, p->dropout_p != 0, partial);
  if (s->device.rules->attention.flash_seed) {
    m->rest[0] = vram__tensor_raw(s, 16);
    m->rest[1] = vram__tensor_raw(s, 8);
    if (p->dropout_p)
      vram__tensor_replace(s, &m->rest[0], vram__tensor_raw(s, 16));
  }
  vram__tensor_release(s, partial[1]);
  vram__tensor_release(s, partial[0]);
}

/* flash_api.cpp, mha_bwd */
static void vram__flash_backward(vram__step *s, const vram__sdpa_saved *x, vram__tensor *to) {
  const vram__tensor k = x->k, q = x->q, v = x->v;
  const vram__sdpa_size z = vram__sdpa_size_of(q.d, k.d, v.d);
  const int64_t rows = vram__round_up(z.sq, s->device.rules->flash.rows);
  const vram__tensor g_copy = vram__attention_bshd_copy(s, x->g),
                     y_copy = vram__attention_bshd_copy(s, x->y);
  vram__tensor delta, query_sums, spread[2];
  to[0] = vram__tensor_empty(s, vram__attention_like_bshd(s, q.d), q.dt);
  to[1] = vram__tensor_empty(s, vram__attention_like_bshd(s, k.d), k.dt);
  to[2] = vram__tensor_empty(s, vram__attention_like_bshd(s, v.d), v.dt);
  delta = vram__tensor_raw(s, vram__product4_or_overflow(4, z.b, z.h, rows));
  query_sums =
      vram__tensor_raw(s, vram__product4_or_overflow(4 * vram__flash_width(z.d), z.b, z.h, rows));
  vram__attention_spread_heads(s, &z, k.dt, spread);
  vram__attention_sum_heads(s, &z, k, v, spread);
  vram__tensor_release(s, query_sums);
  vram__tensor_release(s, delta);
  vram__tensor_release(s, y_copy);
  vram__tensor_release(s, g_copy);
}

VRAM__FN void vram__backward_sdpa_flash(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__sdpa_saved x = vram__sdpa_saved_of(f);
  vram__flash_backward(s, &x, to);
  vram__gradients_drop_unwanted(s, f, to);
}

/* ---- cuDNN's attention (cudnn/MHA.cpp) ---- */

/* alloc_with_matching_layout: the output has the axes in the order of the query's strides. */
static const vram_dims *vram__cudnn_output_dims(vram__step *s, const vram_dims *q, int64_t dv) {
  int64_t size[4], stride[4], elements = 1;
  uint32_t i, j, order[4];
  if (q->v[3] == dv)
    return vram__dims_dense(s, q);
  for (i = 0; i < 4; i++) {
    for (j = i; j > 0 && VRAM__STRIDE(q)[order[j - 1]] > VRAM__STRIDE(q)[i]; j--)
      order[j] = order[j - 1];
    order[j] = i;
    size[i] = i < 3 ? q->v[i] : dv;
  }
  for (i = 0; i < 4; i++) {
    stride[order[i]] = elements;
    elements *= size[order[i]];
  }
  return vram__dims_in(s, 4, size, stride);
}

static void vram__cudnn_forward(vram__step *s, const vram__sdpa *p, int wants_lse,
                                vram__sdpa_made *m) {
  const vram_dims *q = p->in[0].d;
  m->rest[0] = vram__tensor_raw(s, 8);
  m->rest[1] = vram__tensor_raw(s, 8);
  m->y = vram__tensor_empty(s, vram__cudnn_output_dims(s, q, p->in[2].d->v[3]), p->in[0].dt);
  m->rows = q->v[2];
  if (wants_lse)
    m->lse = vram__tensor_raw(s, vram__product4_or_overflow(4, q->v[0], q->v[1], q->v[2]));
}

/* What a device wants beside: the gradients of keys and values with as many heads as queries have,
   where these are more, and 256 bytes. So it was in all of 68 calls on an H200 (cuDNN 9.19). */
static void vram__sdpa_cudnn_device_workspace(vram__step *s, const vram_dims *q, vram__tensor k,
                                              const vram_dims *v) {
  const int64_t width = (k.d->v[3] + v->v[3]) * vram__dtype_size(k.dt);
  vram_bounds b = {0, 0, 256};
  if (k.d->v[1] != q->v[1] || v->v[1] != q->v[1])
    b.expected = b.upper =
        vram__sum_or_overflow(256, vram__product4_or_overflow(q->v[0], q->v[1], k.d->v[2], width));
  vram__device_workspace(s, &b);
}

/* The workspace is cuDNN's secret: the gradient of the query in fp32 and a number for each of its
   rows are what it needs at least; the upper bound has room for the other gradients, too. */
static void vram__cudnn_backward(vram__step *s, const vram__sdpa_saved *x, vram__tensor *to) {
  const vram__tensor g = x->g, k = x->k, q = x->q, v = x->v;
  vram__tensor g_copy = vram__tensor_none(), workspace;
  to[0] = vram__pointwise_empty1(s, q);
  to[1] = vram__pointwise_empty1(s, k);
  to[2] = vram__pointwise_empty1(s, v);
  if (VRAM__STRIDE(g.d)[3] != 1)
    g_copy = vram__tensor_empty(s, vram__dims_contiguous(s, g.d), g.dt);
  workspace = vram__tensor_raw(
      s, vram__product4_or_overflow(q.d->v[0], q.d->v[1], q.d->v[2], 4 * q.d->v[3] + 4));
  vram__upper_may_need(s, q.d->numel + k.d->numel + v.d->numel);
  vram__sdpa_cudnn_device_workspace(s, q.d, k, v.d);
  vram__tensor_release(s, workspace);
  vram__tensor_release(s, g_copy);
}

VRAM__FN void vram__backward_sdpa_cudnn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__sdpa_saved x = vram__sdpa_saved_of(f);
  vram__cudnn_backward(s, &x, to);
  vram__gradients_drop_unwanted(s, f, to);
}

/* ---- one of the three ---- */

VRAM__FN void vram__sdpa_fused_forward(vram__step *s, const vram__sdpa *p, int backend,
                                       int wants_lse, vram__sdpa_made *m) {
  m->y = m->lse = m->rest[0] = m->rest[1] = vram__tensor_none();
  if (backend == VRAM__SDPA_FLASH)
    vram__flash_forward(s, p, m);
  else if (backend == VRAM__SDPA_EFFICIENT)
    vram__efficient_forward(s, p, wants_lse, m);
  else
    vram__cudnn_forward(s, p, wants_lse, m);
}

/* In the order of the arguments' names: flash attention's are rng_state and unused, the others'
   philox_offset and philox_seed. */
VRAM__FN void vram__sdpa_fused_save(vram__step *s, vram__grad_fn *f, const vram__sdpa *p,
                                    int backend, const vram__sdpa_made *m) {
  const int flash = backend == VRAM__SDPA_FLASH;
  if (backend == VRAM__SDPA_EFFICIENT && p->dropout_p)
    f->aux |= VRAM__SDPA_SAVED_DROPOUT;
  vram__sdpa_save(s, f, p);
  vram__save_tensor(s, f, m->lse);
  vram__save_tensor(s, f, m->y);
  vram__save_tensor(s, f, m->rest[!flash]);
  vram__save_tensor(s, f, m->rest[flash]);
}

VRAM__FN void vram__sdpa_fused_backward(vram__step *s, int backend, const vram__sdpa_saved *x,
                                        vram__tensor *to) {
  if (backend == VRAM__SDPA_FLASH)
    vram__flash_backward(s, x, to);
  else if (backend == VRAM__SDPA_EFFICIENT)
    vram__efficient_backward(s, x, NULL, to);
  else
    vram__cudnn_backward(s, x, to);
}

/* Takes what it makes other inputs of: a mask that is expanded, heads of another width. */
static vram__tensor vram__sdpa_fused(vram__step *s, vram__sdpa *p, int backend) {
  const uint32_t kind = backend == VRAM__SDPA_FLASH       ? VRAM__K_sdpa_flash
                        : backend == VRAM__SDPA_EFFICIENT ? VRAM__K_sdpa_efficient
                                                          : VRAM__K_sdpa_cudnn;
  const int64_t width = p->in[0].d->v[3];
  vram__sdpa_made m;
  vram__grad_fn *f;
  vram__sdpa_size z;
  if (backend == VRAM__SDPA_FLASH)
    vram__flash_pad(s, p);
  z = vram__sdpa_sizes(p);
  if (backend == VRAM__SDPA_EFFICIENT && p->in[3].d)
    p->in[3] = vram__efficient_mask(s, p->in[3], &z);
  f = vram__tape_record(s, kind, p->in, backend == VRAM__SDPA_EFFICIENT && p->in[3].d ? 4 : 3, 1,
                        8);
  vram__sdpa_fused_forward(s, p, backend, f != NULL, &m);
  if (f)
    vram__sdpa_fused_save(s, f, p, backend, &m);
  vram__tensor_release(s, m.lse);
  vram__tensor_release(s, m.rest[0]);
  vram__tensor_release(s, m.rest[1]);
  vram__grad_fn_set_output(s, f, 0, &m.y);
  if (width != z.d)
    vram__tensor_replace(s, &m.y, vram__torch_narrow(s, m.y, 3, width));
  return m.y;
}

/* ---- attention of ordinary ops (attention.cpp, _scaled_dot_product_attention_math) ---- */

/* SoftMax.cpp, _safe_softmax over the last axis: rows that are all -inf become zeros. */
static vram__tensor vram__torch_safe_softmax(vram__step *s, vram__tensor x) {
  const uint32_t last = 1u << (x.d->ndim - 1);
  const int selects = s->device.rules->attention.math == VRAM__MATH_WHERE;
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_safe_softmax, &x, 1, 1, 1);
  vram__tensor y = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt), inf, all, zero;
  vram__tensor lowest = selects ? vram__tensor_empty(s, s->scalar, x.dt) : vram__tensor_none();
  inf = vram__tensor_empty(s, y.d, VRAM_BOOL);
  all = vram__tensor_reduced(s, inf, last, 1, VRAM_BOOL);
  vram__reduce_scratch(s, inf, last, VRAM_BOOL, 1, 4);
  zero = vram__tensor_empty(s, s->scalar, x.dt);
  if (selects) { /* where(all, zero, y) */
    const vram__tensor softmax = y;
    y = vram__tensor_empty(s, softmax.d, x.dt);
    vram__tensor_release(s, softmax);
  }
  vram__tensor_release(s, zero);
  vram__tensor_release(s, all);
  vram__tensor_release(s, inf);
  vram__tensor_release(s, lowest);
  if (f)
    vram__save_tensor(s, f, y);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* x.repeat_interleave of the heads, which stand in front of the last two axes, to h of them. */
static vram__tensor vram__attention_repeat_heads(vram__step *s, vram__tensor x, int64_t h) {
  const vram_dims *d = x.d;
  const uint32_t n = d->ndim;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  vram__tensor y;
  for (i = 0; i < n - 2; i++)
    size[i] = d->v[i];
  size[n - 2] = h / d->v[n - 3];
  size[n - 1] = d->v[n - 2];
  size[n] = d->v[n - 1];
  y = vram__torch_unsqueeze(s, x, n - 2);
  vram__tensor_replace(s, &y, vram__torch_expand(s, y, n + 1, size));
  vram__tensor_replace(s, &y, vram__torch_clone(s, y, vram__dims_contiguous(s, y.d)));
  size[n - 3] = h;
  for (i = n - 2; i < n; i++)
    size[i] = size[i + 1];
  vram__tensor_replace(s, &y,
                       vram__torch_view_as(s, y, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0));
  return y;
}

/* pre_process_group_query_attention_input: heads of key and value as many as the query has */
static void vram__sdpa_math_groups(vram__step *s, const vram__sdpa *p, vram__tensor *k,
                                   vram__tensor *v) {
  const uint32_t n = p->in[0].d->ndim;
  int64_t h;
  if (!p->gqa || n < 3)
    return;
  h = p->in[0].d->v[n - 3];
  if (k->d->v[n - 3] == h && v->d->v[n - 3] == h)
    return;
  vram__tensor_replace(s, k, vram__attention_repeat_heads(s, *k, h));
  vram__tensor_replace(s, v, vram__attention_repeat_heads(s, *v, h));
}

/* The mask that is added; is_causal: at::ones(..).tril() as numbers. none: there is no mask. */
static vram__tensor vram__sdpa_math_mask(vram__step *s, const vram__sdpa *p, vram_dtype dt) {
  const uint32_t n = p->in[0].d->ndim;
  vram__tensor ones, lower, mask;
  if (!p->causal)
    return vram__tensor_retain(s, p->in[3]);
  ones = vram__tensor_empty(s, vram__dims_2d(s, p->in[0].d->v[n - 2], p->in[1].d->v[n - 2]),
                            VRAM_BOOL);
  lower = vram__tensor_empty(s, ones.d, VRAM_BOOL);
  vram__tensor_release(s, ones);
  mask = vram__attention_float_mask(s, lower, dt);
  vram__tensor_release(s, lower);
  return mask;
}

/* softmax(q k^T + mask), with dropout */
static vram__tensor vram__sdpa_math_weights(vram__step *s, const vram__sdpa *p, vram__tensor q,
                                            vram__tensor k, vram__tensor mask) {
  const uint32_t n = p->in[0].d->ndim;
  const uint8_t train = s->train;
  const vram_dtype amp = s->amp;
  vram__tensor turned = vram__torch_swap(s, k, n - 2, n - 1), y;
  vram__tensor_replace(s, &turned, vram__op_call_unary(s, VRAM_OP_mul, turned));
  y = vram__torch_matmul(s, q, turned);
  vram__tensor_release(s, turned);
  if (mask.d)
    vram__op_call_in_place(s, VRAM_OP_add, &y, mask);
  if (s->device.rules->attention.math == VRAM__MATH_PLAIN) {
    s->amp = VRAM_DTYPE_NONE; /* below autocast */
    vram__tensor_replace(s, &y, vram__op_call_key(s, VRAM_OP_softmax, y, VRAM__KEY_dim, -1));
    s->amp = amp;
  } else
    vram__tensor_replace(s, &y, vram__torch_safe_softmax(s, y));
  if (p->dropout_p) {
    s->train = 1; /* at::dropout(attn, dropout_p, true) */
    vram__tensor_replace(s, &y,
                         vram__op_call_key(s, VRAM_OP_dropout, y, VRAM__KEY_p, p->dropout_p));
    s->train = train;
  }
  return y;
}

/* Half precision runs in fp32 (from 2.5 on, unless allow_fp16_bf16_reduction_math_sdp). */
static vram__tensor vram__sdpa_math(vram__step *s, const vram__sdpa *p) {
  const vram_dtype dt = p->in[0].dt;
  const int half = vram__is_half(dt) && s->device.rules->attention.math != VRAM__MATH_PLAIN;
  vram__tensor x[3], q, k, v, mask, weights, second, y;
  uint32_t i;
  for (i = 0; i < 3; i++)
    x[i] = half ? vram__torch_cast(s, p->in[i], VRAM_F32) : vram__tensor_retain(s, p->in[i]);
  q = vram__op_call_unary(s, VRAM_OP_mul, x[0]);
  k = vram__tensor_retain(s, x[1]);
  v = vram__tensor_retain(s, x[2]);
  mask = vram__sdpa_math_mask(s, p, q.dt);
  vram__sdpa_math_groups(s, p, &k, &v);
  weights = vram__sdpa_math_weights(s, p, q, k, mask);
  /* attn.to(origin_dtype), the second result, which nobody takes */
  second = half ? vram__tensor_empty(s, weights.d, dt) : vram__tensor_retain(s, weights);
  y = vram__torch_matmul(s, weights, v);
  if (half)
    vram__tensor_replace(s, &y, vram__torch_cast(s, y, dt));
  vram__tensor_release(s, weights);
  vram__tensor_release(s, q);
  vram__tensor_release(s, mask);
  vram__tensor_release(s, v);
  vram__tensor_release(s, k);
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, x[i]);
  vram__tensor_release(s, second);
  return y;
}

/* ---- the function ---- */

/* Attention of nothing: zeros, and 0 times the sums of q, k and v, so that they have gradients. */
static vram__tensor vram__sdpa_nothing(vram__step *s, const vram__tensor *in) {
  const vram_dtype amp = s->amp;
  const uint32_t ndim = in[0].d->ndim;
  int64_t size[VRAM_MAX_AXES];
  vram__tensor t[7], y;
  uint32_t i;
  for (i = 0; i < ndim; i++)
    size[i] = in[0].d->v[i];
  size[ndim - 1] = in[2].d->v[in[2].d->ndim - 1u];
  s->amp = VRAM_DTYPE_NONE; /* below autocast */
  t[0] = vram__tensor_empty(s, vram__dims_in(s, ndim, size, NULL), in[0].dt);
  for (i = 0; i < 3; i++)
    t[1 + i] = vram__op_call_unary(s, VRAM_OP_sum, in[i]);
  t[4] = vram__op_call_binary(s, VRAM_OP_add, t[1], t[2]);
  t[5] = vram__op_call_binary(s, VRAM_OP_add, t[4], t[3]);
  t[6] = vram__op_call_unary(s, VRAM_OP_mul, t[5]);
  y = vram__op_call_binary(s, VRAM_OP_add, t[0], t[6]);
  for (i = 7; i-- > 0;)
    vram__tensor_release(s, t[i]);
  s->amp = amp;
  return y;
}

/* The backend that was asked for, which must be able to run, or the one that PyTorch selects. */
VRAM__FN int vram__sdpa_backend(vram__step *s, const vram__sdpa *p) {
  const int asked = p->backend ? p->backend : (int)s->o->attention;
  if (asked == VRAM__SDPA_NONE)
    return vram__sdpa_select(s, p);
  if (vram__sdpa_can_use(s, p, asked))
    return asked;
  vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                    "this attention backend does not take these tensors");
  return VRAM__SDPA_MATH;
}

/* attention.cpp, scaled_dot_product_attention. Takes query, key, value and mask. */
VRAM__FN vram__tensor vram__torch_sdpa(vram__step *s, vram__sdpa *p) {
  const int unbatched = p->in[0].d->ndim == 3;
  vram__tensor y;
  uint32_t i;
  int backend;
  if (p->in[1].dt != p->in[0].dt || p->in[2].dt != p->in[0].dt) /* validate_sdpa_input */
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node, "query, key and value of different dtypes");
  for (i = 0; unbatched && i < 4; i++)
    if (p->in[i].d && p->in[i].d->ndim == 3)
      vram__tensor_replace(s, &p->in[i], vram__torch_unsqueeze(s, p->in[i], 0));
  backend = vram__sdpa_backend(s, p);
  if (p->in[3].d && p->in[3].dt == VRAM_BOOL)
    vram__tensor_replace(s, &p->in[3], vram__attention_float_mask(s, p->in[3], p->in[0].dt));
  y = backend == VRAM__SDPA_MATH ? vram__sdpa_math(s, p) : vram__sdpa_fused(s, p, backend);
  if (unbatched)
    vram__tensor_replace(s, &y, vram__torch_squeeze1(s, y, 0));
  for (i = 4; i-- > 0;)
    vram__tensor_release(s, p->in[i]);
  return y;
}

/* What the node's line asks for, of these inputs. */
VRAM__FN void vram__sdpa_of_node(vram__step *s, const vram_node *n, const vram__tensor *x,
                                 vram__sdpa *p) {
  const int64_t word = VRAM__INT(n, backend, 0);
  uint32_t i;
  p->in[3] = vram__tensor_none();
  p->dropout_p = VRAM__INT(n, dropout_p, 0);
  p->causal = VRAM__INT(n, is_causal, 0) != 0;
  p->gqa = VRAM__INT(n, enable_gqa, 0) != 0;
  if (p->gqa && !s->device.rules->attention.gqa) {
    s->failed = VRAM_ERR_UNSUPPORTED;
    s->problem = "this version of PyTorch has no enable_gqa (expected torch-2.5 or newer)";
    s->problem_node = n;
  }
  p->backend = word == VRAM__WORD(flash)       ? VRAM__SDPA_FLASH
               : word == VRAM__WORD(efficient) ? VRAM__SDPA_EFFICIENT
               : word == VRAM__WORD(cudnn)     ? VRAM__SDPA_CUDNN
               : word == VRAM__WORD(math)      ? VRAM__SDPA_MATH
                                               : VRAM__SDPA_NONE;
  for (i = n->nin; i-- > 0;) /* autocast casts the last argument first */
    p->in[i] = vram__autocast_low(s, x[i]);
}

static void vram__forward_sdpa(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__sdpa p;
  vram__tensor held[4]; /* by autocast, which holds all arguments */
  uint32_t i;
  vram__sdpa_of_node(s, n, x, &p);
  for (i = 0; i < n->nin; i++)
    held[i] = vram__tensor_retain(s, p.in[i]);
  if (x[0].d->numel && x[1].d->numel && x[2].d->numel)
    y[0] = vram__torch_sdpa(s, &p);
  else {
    y[0] = vram__sdpa_nothing(s, p.in);
    for (i = n->nin; i-- > 0;)
      vram__tensor_release(s, p.in[i]);
  }
  for (i = 0; i < n->nin; i++)
    vram__tensor_release(s, held[i]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(scaled_dot_product_attention, "", 3, 4, sdpa, SAME, low, sdpa, none, sdpa, ATTENTION, 0, 0,
         "dropout_p is_causal enable_gqa backend scale");
