/* >>ops    how ops run, forward and backward */
#pragma once
#include "ops/shape.h"
#include "torch/torch.h"

enum { VRAM__PAD_CONSTANT, VRAM__PAD_REFLECT, VRAM__PAD_REPLICATE, VRAM__PAD_CIRCULAR };

typedef struct vram__slow {
  int transposed, dilated; /* dilated: the form that also runs 3-D convolutions */
  int plain;               /* a kernel of 1, stride 1, no padding: mostly no columns */
  int64_t groups, samples;
  uint64_t columns; /* bytes of the columns of one sample and group */
} vram__slow;

enum { VRAM__SDPA_NONE, VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT, VRAM__SDPA_MATH };

/* An operand of a contraction: the axes of t stand at these positions, ascending; all others are 1.
 */
typedef struct vram__operand {
  vram__t t;
  uint8_t at[VRAM_MAX_AXES];
  int64_t
      one[VRAM__MAX_LABELS]; /* strides of positions of size 1: BLAS looks at the last of them */
} vram__operand;

/* pointwise.c */
VRAM__FN void vram__weights(vram__s *s, const vram_node *n, vram__t *w, vram__t *b);
VRAM__COLD VRAM__FN uint32_t vram__plan_of(uint32_t kind, int inplace);
VRAM__FN uint32_t vram__letters(uint32_t plan, vram__fn *f);
VRAM__FN void vram__save_letters(vram__s *s, vram__fn *f, uint32_t need, const vram__t *in,
                                 uint32_t nin, vram__t y);
VRAM__FN vram__t vram__over(vram__s *s, vram__t t, const vram_dims *d, uint8_t dt);
VRAM__FN void vram__bw_recipe(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_pointwise(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_pointwise(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin);
VRAM__FN vram__t vram__pointwise_inplace(vram__s *s, uint32_t kind, const vram__t *in,
                                         uint32_t nin);
VRAM__FN uint32_t vram__autocast_list(vram__s *s, uint32_t list, vram__t *in, uint32_t nin);
VRAM__FN void vram__run_pointwise(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_compare(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_where(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_where(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_masked_fill(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_masked_fill(vram__s *s, vram__fn *f, vram__t *to);

/* view.c */
VRAM__FN void vram__bw_as_strided(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_copy_slices(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_copy(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_view(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_view(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_permute(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_permute(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_squeeze(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_squeeze(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_expand(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_expand(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN uint8_t vram__at(vram__t x, uint32_t axis, int64_t start);
VRAM__FN void vram__run_slice(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_slice(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_split(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_split(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_detach(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* copy.c */
VRAM__FN const vram_dims *vram__cat_dims(vram__s *s, const vram_dims *d, int cl);
VRAM__FN void vram__run_cat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_cat(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_roll(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_roll(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_flip(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_flip(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_repeat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_repeat(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_repeat_interleave(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_contiguous(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_clone(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_clone(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_to(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_cast(vram__s *s, vram__fn *f, vram__t *to);

/* create.c */
VRAM__FN void vram__run_create(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_fill(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_parameter(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* reduce.c */
VRAM__FN uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim);
VRAM__FN uint8_t vram__opt_dtype(const vram__s *s, const vram_node *n, uint8_t dt);
VRAM__FN void vram__run_reduce(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_reduce(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_extreme(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_extreme(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_prod(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_prod(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_var(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_var(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_vector_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_vector_norm(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_logsumexp(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_logsumexp(vram__s *s, vram__fn *f, vram__t *to);

/* scan.c */
VRAM__FN void vram__run_cumsum(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_cumsum(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_histc(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_diff(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* sort.c */
VRAM__FN void vram__sort_rows(vram__s *s, const vram_dims *xd, const vram_dims *d, uint32_t a,
                              uint32_t e);
VRAM__FN void vram__run_sort(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__topk_scratch(vram__s *s, const vram_dims *x, uint32_t a);
VRAM__FN void vram__run_topk(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_topk(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_argmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* index.c */
VRAM__FN void vram__run_gather(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_gather(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_scatter(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_scatter(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__indexed(vram__s *s, vram__t x, const vram__t *idx, uint32_t count,
                               uint32_t dim);
VRAM__FN void vram__run_index(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_index(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_index_put(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_index_put(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_masked_select(vram__s *s, vram__t x, vram__t mask, const vram_dims *d);
VRAM__FN void vram__run_masked_select(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_masked_select(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_one_hot(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* embedding.c */
VRAM__FN void vram__run_embedding(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_embedding(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_embedding_bag(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_embedding_bag(vram__s *s, vram__fn *f, vram__t *to);

/* product.c */
VRAM__FN void vram__save_factors(vram__s *s, vram__fn *f, uint32_t ia, vram__t a, uint32_t ib,
                                 vram__t b);
VRAM__FN vram__t vram__factor(vram__fn *f, uint32_t which);
VRAM__FN vram__t vram__t_product(vram__s *s, uint32_t kind, vram__t a, vram__t b);
VRAM__FN void vram__bw_mm(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_bmm(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_addmm(vram__s *s, vram__t c, vram__t a, vram__t b, uint32_t factors);
VRAM__FN void vram__bw_addmm(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_baddbmm(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_mv(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_dot(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_matmul(vram__s *s, vram__t a, vram__t b);
VRAM__FN void vram__run_product(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN vram__t vram__t_grouped(vram__s *s, vram__t a, vram__t b, vram__t offsets,
                                 const vram_dims *d);
VRAM__FN void vram__run_grouped_mm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_grouped_mm(vram__s *s, vram__fn *f, vram__t *to);

/* linear.c */
VRAM__FN void vram__bw_linear_view(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_linear(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_linear(vram__s *s, vram__t x, vram__t w, vram__t b);
VRAM__FN void vram__run_linear(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* bilinear.c */
VRAM__FN void vram__run_bilinear(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_bilinear(vram__s *s, vram__fn *f, vram__t *to);

/* einsum.c */
VRAM__FN vram__t vram__t_mul(vram__s *s, vram__t a, vram__t b);
VRAM__FN vram__operand vram__pair(vram__s *s, vram__operand a, vram__operand b, uint64_t sum,
                                  uint32_t n, int nout);
VRAM__FN void vram__run_einsum(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* conv.c */
VRAM__FN void vram__run_any_conv(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_any_conv(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_conv(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_conv(vram__s *s, vram__fn *f, vram__t *to);

/* conv_slow.c */
VRAM__FN int vram__slow_of(const vram__s *s, const vram_node *n, vram__t x, vram__t w,
                           const vram_dims *y, vram__slow *k);
VRAM__FN vram__t vram__slow_run(vram__s *s, const vram__slow *k, vram__t x, vram__t w, int bias,
                                const vram_dims *y);
VRAM__FN void vram__slow_bw(vram__s *s, const vram__slow *k, vram__t g, vram__t x, vram__t w,
                            uint32_t want, vram__t *to);

/* pad.c */
VRAM__FN uint32_t vram__pad_mode(int64_t word);
VRAM__FN vram__t vram__t_narrow(vram__s *s, vram__t x, uint32_t axis, int64_t size);
VRAM__FN vram__t vram__t_pad(vram__s *s, vram__t x, const int64_t *pad, uint32_t k, uint32_t mode);
VRAM__FN void vram__run_pad(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_pad(vram__s *s, vram__fn *f, vram__t *to);

/* pool.c */
VRAM__FN void vram__run_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_max_pool(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_avg_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_avg_pool(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_adaptive_avg(vram__s *s, vram__t x, const vram_dims *d, uint32_t k);
VRAM__FN void vram__run_adaptive_avg_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_adaptive_avg_pool(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_adaptive_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_adaptive_max_pool(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_fractional_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_fractional_max_pool(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_max_unpool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_max_unpool(vram__s *s, vram__fn *f, vram__t *to);

/* resample.c */
VRAM__FN void vram__run_interpolate(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_interpolate(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_pixel(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_pixel(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_grid_sample(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_grid_sample(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_fold(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_fold(vram__s *s, vram__fn *f, vram__t *to);

/* activation.c */
VRAM__FN void vram__run_glu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_glu(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_prelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_prelu(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_rrelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_rrelu(vram__s *s, vram__fn *f, vram__t *to);

/* dropout.c */
VRAM__FN void vram__bw_noise(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_dropout(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_dropout(vram__s *s, vram__fn *f, vram__t *to);

/* softmax.c */
VRAM__FN vram__t vram__t_softmax(vram__s *s, uint32_t op, vram__t x, uint8_t dt);
VRAM__FN void vram__run_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_softmax(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_gumbel_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* norm.c */
VRAM__FN vram__t vram__format_copy(vram__s *s, vram__t x, int cl);
VRAM__FN const vram_dims *vram__format(vram__s *s, const vram_dims *d, int cl);
VRAM__FN vram__t vram__vec(vram__s *s, int64_t n, uint8_t dt);
VRAM__FN void vram__run_layer_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_layer_norm(vram__s *s, vram__fn *f, vram__t *to);
VRAM__COLD VRAM__FN void vram__one_value(vram__s *s, const vram_node *n);
VRAM__FN void vram__run_group_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_group_norm(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_lrn(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* batch_norm.c */
VRAM__FN void vram__bw_any_bn(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_batch_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_bn(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_instance_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* attention.c */
VRAM__FN int64_t vram__div_up(int64_t a, int64_t b);
VRAM__FN int64_t vram__least(int64_t a, int64_t b);
VRAM__FN int vram__is_half(uint8_t dt);
VRAM__FN const vram_dims *vram__bshd(vram__s *s, int64_t b, int64_t h, int64_t len, int64_t d);
VRAM__FN int vram__sdpa_pick(const vram__s *s, const vram__t *a, int64_t p, int causal, int gqa);
VRAM__FN void vram__drop_unwanted(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_sdpa_efficient(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_sdpa_flash(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_sdpa_cudnn(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_sdpa(vram__s *s, const vram_node *n, vram__t *a, int64_t p, int causal,
                              int gqa);
VRAM__FN void vram__run_sdpa(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* mha.c */
VRAM__FN void vram__run_mha(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

/* recurrent.c */
VRAM__FN const vram_dims *vram__rnn_state_dims(vram__s *s);
VRAM__FN void vram__run_rnn(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_rnn(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN vram__t vram__t_linear2(vram__s *s, vram__t x, vram__t w, vram__t b);
VRAM__FN void vram__run_rnn_cell(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_lstm_gates(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__bw_gru_gates(vram__s *s, vram__fn *f, vram__t *to);

/* loss.c */
VRAM__FN void vram__bw_nll(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_triplet(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_cosine(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_xlogx(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_loss(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_loss(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_cross_entropy(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_ctc_loss(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_ctc(vram__s *s, vram__fn *f, vram__t *to);

/* composite.c */
VRAM__FN void vram__bw_index_add(vram__s *s, vram__fn *f, vram__t *to);
VRAM__FN void vram__run_moe(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__run_custom(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__bw_custom(vram__s *s, vram__fn *f, vram__t *to);

/* table.c */
VRAM__FN vram__t vram__call_n(vram__s *s, uint32_t op, uint32_t flags, const vram__t *in,
                              uint32_t nin, const int64_t *attr, const vram_dims *out);
VRAM__FN vram__t vram__call(vram__s *s, uint32_t op, vram__t a, vram__t b, const int64_t *attr);
VRAM__FN void vram__call_in_place(vram__s *s, uint32_t op, vram__t *a, vram__t b);
VRAM__FN void vram__run_op(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);
VRAM__FN void vram__unpack(vram__s *s, vram__fn *f);

static inline uint32_t vram__plan(vram__s *s, uint32_t kind, int inplace) {
  uint32_t *plan = &s->plan[kind][inplace];
  if (!*plan)
    *plan = vram__plan_of(kind, inplace);
  return *plan;
}
