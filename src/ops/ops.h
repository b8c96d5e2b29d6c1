/* >>ops    how ops run, forward and backward */
#pragma once
#include "ops/shape.h"
#include "torch/torch.h"

enum { VRAM__PAD_CONSTANT, VRAM__PAD_REFLECT, VRAM__PAD_REPLICATE, VRAM__PAD_CIRCULAR };

typedef struct vram__conv_slow {
  int transposed, dilated; /* dilated: the form that also runs 3-D convolutions */
  int plain;               /* a kernel of 1, stride 1, no padding: mostly no columns */
  int64_t groups, samples;
  uint64_t columns; /* bytes of the columns of one sample and group */
} vram__conv_slow;

/* Backward of a convolution. */
typedef struct vram__conv_gradients {
  vram__tensor g, x, w;
  uint32_t want; /* a bit for each of the gradients of input, weight and bias */
} vram__conv_gradients;

enum {
  VRAM__SDPA_NONE = VRAM_ATTENTION_ANY,
  VRAM__SDPA_CUDNN = VRAM_ATTENTION_CUDNN,
  VRAM__SDPA_FLASH = VRAM_ATTENTION_FLASH,
  VRAM__SDPA_EFFICIENT = VRAM_ATTENTION_EFFICIENT,
  VRAM__SDPA_MATH = VRAM_ATTENTION_MATH
};

/* A call of scaled_dot_product_attention (sdp_utils.h, sdp_params). */
typedef struct vram__sdpa {
  vram__tensor in[4]; /* query, key, value, mask (d NULL: none) */
  int64_t dropout_p;
  int causal, gqa;
  int backend; /* that the caller asks for; VRAM__SDPA_NONE: PyTorch selects one */
} vram__sdpa;

/* What a fused kernel makes: softmax_lse of so many rows for each head, and the random state. */
typedef struct vram__sdpa_made {
  vram__tensor y, lse, rest[2];
  int64_t rows;
} vram__sdpa_made;

/* What its backward has: the gradient of y, and what was saved. */
typedef struct vram__sdpa_saved {
  vram__tensor g, k, q, v, lse, y;
  int dropout; /* of memory-efficient attention */
} vram__sdpa_saved;

/* An operand of a contraction: the axes of t stand at these positions, ascending; all others are 1.
 */
typedef struct vram__operand {
  vram__tensor t;
  uint8_t at[VRAM_MAX_AXES];
  int64_t
      one[VRAM__MAX_LABELS]; /* strides of positions of size 1: BLAS looks at the last of them */
} vram__operand;

/* A recipe in short. Bits 5i..5i+4: what the gradient of input i needs (x0 x1 x2 y buffer), 15..19:
   what is saved in any case. */
#define VRAM__PLAN_KNOWN 0x100000u
#define VRAM__PLAN_GRADIENT 0x200000u        /* there is one */
#define VRAM__PLAN_PASS 0x400000u            /* each gradient is grad itself */
#define VRAM__PLAN_PRODUCT 0x800000u         /* of one input: grad times what 24..26 says, */
#define VRAM__PLAN_SWAP 0x8000000u           /* which comes first */
#define VRAM__PLAN_ROOM(plan) ((plan) >> 28) /* how many tensors may be saved */

#define VRAM__AUX_INPLACE (UINT64_C(1) << 63) /* bit of a record's aux: it overwrote x0, */
#define VRAM__AUX_STALE (UINT64_C(1) << 62)   /* and what it saved itself */

/* recipe.c */
VRAM__COLD VRAM__FN uint32_t vram__recipe_plan_make(uint32_t kind, int inplace);
VRAM__FN uint32_t vram__recipe_letters(uint32_t plan, vram__grad_fn *f);
VRAM__FN void vram__recipe_save(vram__step *s, vram__grad_fn *f, uint32_t need,
                                const vram__tensor *in, uint32_t nin, vram__tensor y);
VRAM__FN vram__tensor vram__recipe_cast_over(vram__step *s, vram__tensor t, const vram_dims *d,
                                             vram_dtype dt);
VRAM__FN void vram__backward_pointwise(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* pointwise.c */
VRAM__FN void vram__node_weights(vram__step *s, const vram_node *n, vram__tensor *w,
                                 vram__tensor *b);
VRAM__FN vram__tensor vram__torch_pointwise(vram__step *s, uint32_t kind, const vram__tensor *in,
                                            uint32_t nin);
VRAM__FN vram__tensor vram__pointwise_inplace(vram__step *s, uint32_t kind, const vram__tensor *in,
                                              uint32_t nin);
VRAM__FN uint32_t vram__autocast_list(vram__step *s, uint32_t list, vram__tensor *in, uint32_t nin);
VRAM__FN void vram__autocast_release(vram__step *s, vram__tensor *in, uint32_t own);
VRAM__FN void vram__forward_pointwise(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y);

/* view.c */
VRAM__FN void vram__backward_as_strided(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_copy_slices(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_copy(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_view(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_permute(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_expand(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN uint64_t vram__view_at(const vram__step *s, vram__tensor x, uint32_t axis, int64_t start);
VRAM__FN void vram__backward_slice(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* copy.c */
VRAM__FN const vram_dims *vram__cat_dims(vram__step *s, const vram_dims *d, int cl);
VRAM__FN void vram__backward_clone(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_cast(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* reduce.c */
VRAM__FN uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim);
VRAM__FN vram_dtype vram__reduce_opt_dtype(const vram__step *s, const vram_node *n, vram_dtype dt);
VRAM__FN void vram__mean_save(vram__step *s, vram__grad_fn *f, vram__tensor x);
VRAM__FN void vram__backward_reduce(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* sort.c */
VRAM__FN void vram__sort_rows(vram__step *s, const vram_dims *xd, const vram_dims *d, uint32_t a,
                              uint32_t e);
VRAM__FN void vram__topk_scratch(vram__step *s, const vram_dims *x, uint32_t a, uint32_t e);
VRAM__FN void vram__topk_sorted(vram__step *s, vram__tensor y, vram_dtype dt, uint32_t a);

/* index.c */
VRAM__FN vram__tensor vram__indexed(vram__step *s, vram__tensor x, const vram__tensor *idx,
                                    uint32_t count, uint32_t dim);
VRAM__FN vram__tensor vram__torch_masked_select(vram__step *s, vram__tensor x, vram__tensor mask,
                                                const vram_dims *d, const vram_dims *out);

/* at::acc_type: what kernels add up in */
static inline vram_dtype vram__acc_dtype(vram_dtype dt) {
  return dt == VRAM_F64 ? VRAM_F64 : VRAM_F32;
}

/* embedding.c */
VRAM__FN void vram__backward_embedding(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* product.c */
VRAM__FN void vram__save_factors(vram__step *s, vram__grad_fn *f, const vram__tensor *in,
                                 uint32_t first, int second_first);
VRAM__FN vram__tensor vram__factor(vram__grad_fn *f, uint32_t which);
VRAM__FN vram__tensor vram__torch_product(vram__step *s, uint32_t kind, vram__tensor a,
                                          vram__tensor b);
VRAM__FN void vram__backward_mm(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_bmm(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_addmm(vram__step *s, vram__tensor c, vram__tensor a,
                                        vram__tensor b, uint32_t factors);
VRAM__FN void vram__backward_addmm(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_baddbmm(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_mv(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_dot(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_matmul(vram__step *s, vram__tensor a, vram__tensor b);
VRAM__FN vram__tensor vram__torch_grouped(vram__step *s, vram__tensor a, vram__tensor b,
                                          vram__tensor offsets, const vram_dims *d);

/* linear.c */
VRAM__FN vram__tensor vram__torch_linear(vram__step *s, vram__tensor x, vram__tensor w,
                                         vram__tensor b);

/* quantised.c */
VRAM__FN void vram__backward_matmul_4bit(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_matmul_8bit(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_fp8_linear(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_zero3_linear(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN int vram__param_quantised(const vram_param *p, uint64_t *elements);
VRAM__FN vram__tensor vram__node_dequantised(vram__step *s, const vram_node *n);
VRAM__FN vram__tensor vram__torch_quantised(vram__step *s, const vram_node *n, vram__tensor x,
                                            vram__tensor b);

/* adapter.c */
VRAM__FN vram__tensor vram__torch_adapter(vram__step *s, const vram_node *n, vram__tensor x,
                                          vram__tensor result);

/* einsum.c */
VRAM__FN vram__tensor vram__torch_mul(vram__step *s, vram__tensor a, vram__tensor b);
VRAM__FN vram__operand vram__einsum_pair(vram__step *s, vram__operand a, vram__operand b,
                                         uint64_t sum, uint32_t n, int nout);

/* conv_slow.c */
VRAM__FN int vram__conv_slow_of(const vram__step *s, const vram_node *n, vram__tensor x,
                                vram__tensor w, const vram_dims *y, vram__conv_slow *k);
VRAM__FN vram__tensor vram__slow_run(vram__step *s, const vram__conv_slow *k, vram__tensor x,
                                     vram__tensor w, int bias, const vram_dims *y);
VRAM__FN void vram__slow_bw(vram__step *s, const vram__conv_slow *k, const vram__conv_gradients *c,
                            vram__tensor *to);

/* pad.c */
VRAM__FN uint32_t vram__pad_mode(int64_t word);
VRAM__FN vram__tensor vram__torch_select(vram__step *s, vram__tensor x, int64_t i);
VRAM__FN vram__tensor vram__torch_narrow(vram__step *s, vram__tensor x, uint32_t axis,
                                         int64_t size);
VRAM__FN vram__tensor vram__torch_pad(vram__step *s, vram__tensor x, const int64_t *pad, uint32_t k,
                                      uint32_t mode);

/* pool.c */
VRAM__FN vram__tensor vram__torch_adaptive_avg(vram__step *s, vram__tensor x, const vram_dims *d,
                                               uint32_t k);

/* dropout.c */
VRAM__FN void vram__backward_noise(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* softmax.c */
VRAM__FN vram__tensor vram__torch_softmax(vram__step *s, uint32_t op, vram__tensor x,
                                          vram_dtype dt);
VRAM__FN void vram__backward_softmax(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* fft.c */
VRAM__FN vram__tensor vram__complex_real(vram__step *s, vram__tensor x);

/* norm.c */
VRAM__FN vram__tensor vram__norm_format_copy(vram__step *s, vram__tensor x, int cl);
VRAM__FN const vram_dims *vram__norm_format(vram__step *s, const vram_dims *d, int cl);
VRAM__FN vram__tensor vram__tensor_vector(vram__step *s, int64_t n, vram_dtype dt);
VRAM__COLD VRAM__FN void vram__norm_refuse_one_value(vram__step *s, const vram_node *n);

/* batch_norm.c */
VRAM__FN void vram__backward_bn(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* attention.c */
VRAM__FN int vram__is_half(vram_dtype dt);
VRAM__FN const vram_dims *vram__attention_bshd_dims(vram__step *s, int64_t b, int64_t h,
                                                    int64_t len, int64_t d);
VRAM__FN int vram__sdpa_select(const vram__step *s, const vram__sdpa *p);
VRAM__FN int vram__sdpa_backend(vram__step *s, const vram__sdpa *p);
VRAM__FN void vram__sdpa_of_node(vram__step *s, const vram_node *n, const vram__tensor *x,
                                 vram__sdpa *p);
VRAM__FN vram__sdpa_saved vram__sdpa_saved_of(vram__grad_fn *f);
VRAM__FN void vram__flash_pad(vram__step *s, vram__sdpa *p);
VRAM__FN void vram__sdpa_fused_forward(vram__step *s, const vram__sdpa *p, int backend,
                                       int wants_lse, vram__sdpa_made *m);
VRAM__FN void vram__sdpa_fused_save(vram__step *s, vram__grad_fn *f, const vram__sdpa *p,
                                    int backend, const vram__sdpa_made *m);
VRAM__FN void vram__sdpa_fused_backward(vram__step *s, int backend, const vram__sdpa_saved *x,
                                        vram__tensor *to);
VRAM__FN void vram__gradients_drop_unwanted(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_sdpa_efficient(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_sdpa_flash(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_sdpa_cudnn(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_sdpa(vram__step *s, vram__sdpa *p);

/* context_parallel.c */
VRAM__FN void vram__context_enter(vram__step *s);
VRAM__FN void vram__context_leave(vram__step *s);
VRAM__FN void vram__context_inputs(vram__step *s);
VRAM__FN const vram_dims *vram__context_dims(const vram__step *s, const vram_param *p);

/* recurrent.c */
VRAM__FN const vram_dims *vram__rnn_state_dims(vram__step *s);
VRAM__FN void vram__rnn_state_bound(vram__step *s);
VRAM__FN uint64_t vram__rnn_cells(const vram_node *n);
VRAM__FN vram__tensor vram__torch_linear_2d(vram__step *s, vram__tensor x, vram__tensor w,
                                            vram__tensor b);
VRAM__FN void vram__backward_lstm_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_gru_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to);

#define VRAM__NORM_CAST 256u /* aux of a norm beside its axes: backward casts the operand */

/* loss.c */
enum { VRAM__REDUCTION_NONE, VRAM__REDUCTION_MEAN, VRAM__REDUCTION_SUM, VRAM__REDUCTION_BATCHMEAN };
VRAM__FN int vram__loss_reduction(const vram_node *n);
VRAM__FN vram__tensor vram__loss_reduce(vram__step *s, vram__tensor x, int reduction);
VRAM__FN vram__tensor vram__loss_sum_all(vram__step *s, vram__tensor x, vram_dtype dt);
VRAM__FN vram__tensor vram__loss_where(vram__step *s, vram__tensor target, vram__tensor value,
                                       vram__tensor zeros);
VRAM__FN void vram__loss_args(vram__step *s, const vram_node *n, const vram__tensor *x,
                              uint32_t count, int expand, vram__tensor *in);
VRAM__FN void vram__loss_release(vram__step *s, const vram__tensor *in, uint32_t count);
VRAM__FN void vram__loss_refuse_weight(vram__step *s, const vram_node *n, vram__tensor weight);
VRAM__FN void vram__backward_nll(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_xlogx(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_ctc(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* composite.c */
VRAM__FN void vram__backward_index_add(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* table.c */
VRAM__FN void vram__backward_unit(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_none(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__op_call_n(vram__step *s, uint32_t op, const vram__tensor *in,
                                      uint32_t nin, const int64_t *attr, const vram_dims *out);
VRAM__FN vram__tensor vram__op_call(vram__step *s, uint32_t op, vram__tensor a, vram__tensor b,
                                    const int64_t *attr);
VRAM__FN void vram__op_call_in_place(vram__step *s, uint32_t op, vram__tensor *a, vram__tensor b);
VRAM__FN void vram__forward_op(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y);
VRAM__FN void vram__refuse_stale(vram__step *s, const vram__grad_fn *f);
VRAM__FN void vram__saved_unpack(vram__step *s, vram__grad_fn *f);

static inline uint32_t vram__recipe_plan(vram__step *s, uint32_t kind, int inplace) {
  uint32_t *plan = &s->plan[kind][inplace];
  if (!*plan)
    *plan = vram__recipe_plan_make(kind, inplace);
  return *plan;
}

/* *t becomes `now`; the caller's handle of what it was goes. */
static inline void vram__tensor_replace(vram__step *s, vram__tensor *t, vram__tensor now) {
  vram__tensor_release(s, *t);
  *t = now;
}

/* x as an op on autocast's list of lower precision gets it. One handle more. */
static inline vram__tensor vram__autocast_low(vram__step *s, vram__tensor x) {
  return s->amp ? vram__autocast_cast(s, x, s->amp) : vram__tensor_retain(s, x);
}

/* The dtype that softmax computes in: autocast has it on its fp32 list. */
static inline vram_dtype vram__softmax_dtype(const vram__step *s, vram__tensor x) {
  return s->amp && vram__is_half(x.dt) ? VRAM_F32 : x.dt;
}

/* Contiguous dims of two, three and four axes. */
static inline const vram_dims *vram__dims_2d(vram__step *s, int64_t a, int64_t b) {
  int64_t size[2];
  size[0] = a;
  size[1] = b;
  return vram__dims_in(s, 2, size, NULL);
}

static inline const vram_dims *vram__dims_3d(vram__step *s, int64_t a, int64_t b, int64_t c) {
  int64_t size[3];
  size[0] = a;
  size[1] = b;
  size[2] = c;
  return vram__dims_in(s, 3, size, NULL);
}

static inline const vram_dims *vram__dims_4d(vram__step *s, int64_t a, int64_t b, int64_t c,
                                             int64_t d) {
  int64_t size[4];
  size[0] = a;
  size[1] = b;
  size[2] = c;
  size[3] = d;
  return vram__dims_in(s, 4, size, NULL);
}

/* An op of the table with one tensor (some with a number beside it), with one and a key, with two.
 */
static inline vram__tensor vram__op_call_unary(vram__step *s, uint32_t op, vram__tensor x) {
  return vram__op_call_n(s, op, &x, 1, NULL, NULL);
}

static inline vram__tensor vram__op_call_key(vram__step *s, uint32_t op, vram__tensor x,
                                             uint32_t key, int64_t value) {
  int64_t attr[3];
  attr[0] = (int64_t)(key | 1u << 8);
  attr[1] = value;
  attr[2] = 0;
  return vram__op_call_n(s, op, &x, 1, attr, NULL);
}

static inline vram__tensor vram__op_call_binary(vram__step *s, uint32_t op, vram__tensor a,
                                                vram__tensor b) {
  return vram__op_call(s, op, a, b, NULL);
}
