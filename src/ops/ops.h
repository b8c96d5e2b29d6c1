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

enum { VRAM__SDPA_NONE, VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT, VRAM__SDPA_MATH };

/* An operand of a contraction: the axes of t stand at these positions, ascending; all others are 1.
 */
typedef struct vram__operand {
  vram__tensor t;
  uint8_t at[VRAM_MAX_AXES];
  int64_t
      one[VRAM__MAX_LABELS]; /* strides of positions of size 1: BLAS looks at the last of them */
} vram__operand;

/* pointwise.c */
VRAM__FN void vram__node_weights(vram__step *s, const vram_node *n, vram__tensor *w,
                                 vram__tensor *b);
VRAM__COLD VRAM__FN uint32_t vram__recipe_plan_make(uint32_t kind, int inplace);
VRAM__FN uint32_t vram__recipe_letters(uint32_t plan, vram__grad_fn *f);
VRAM__FN void vram__recipe_save(vram__step *s, vram__grad_fn *f, uint32_t need,
                                const vram__tensor *in, uint32_t nin, vram__tensor y);
VRAM__FN vram__tensor vram__recipe_cast_over(vram__step *s, vram__tensor t, const vram_dims *d,
                                             uint8_t dt);
VRAM__FN void vram__backward_recipe(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_pointwise(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_pointwise(vram__step *s, uint32_t kind, const vram__tensor *in,
                                            uint32_t nin);
VRAM__FN vram__tensor vram__pointwise_inplace(vram__step *s, uint32_t kind, const vram__tensor *in,
                                              uint32_t nin);
VRAM__FN uint32_t vram__autocast_list(vram__step *s, uint32_t list, vram__tensor *in, uint32_t nin);
VRAM__FN void vram__forward_pointwise(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y);
VRAM__FN void vram__forward_compare(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__forward_where(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_where(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_masked_fill(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y);
VRAM__FN void vram__backward_masked_fill(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* view.c */
VRAM__FN void vram__backward_as_strided(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_copy_slices(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_copy(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_view(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_view(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_permute(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__backward_permute(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_squeeze(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__backward_squeeze(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_expand(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__backward_expand(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN uint8_t vram__view_at(vram__tensor x, uint32_t axis, int64_t start);
VRAM__FN void vram__forward_slice(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_slice(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_split(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_split(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_detach(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);

/* copy.c */
VRAM__FN const vram_dims *vram__cat_dims(vram__step *s, const vram_dims *d, int cl);
VRAM__FN void vram__forward_cat(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);
VRAM__FN void vram__backward_cat(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_roll(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_roll(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_flip(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_flip(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_repeat(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__backward_repeat(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_repeat_interleave(vram__step *s, const vram_node *n, vram__tensor *x,
                                              vram__tensor *y);
VRAM__FN void vram__forward_contiguous(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y);
VRAM__FN void vram__forward_clone(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_clone(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_to(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y);
VRAM__FN void vram__backward_cast(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* create.c */
VRAM__FN void vram__forward_create(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__forward_fill(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__forward_parameter(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y);

/* reduce.c */
VRAM__FN uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim);
VRAM__FN uint8_t vram__reduce_opt_dtype(const vram__step *s, const vram_node *n, uint8_t dt);
VRAM__FN void vram__forward_reduce(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__backward_reduce(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_extreme(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__backward_extreme(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_prod(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_prod(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_var(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);
VRAM__FN void vram__backward_var(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_vector_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y);
VRAM__FN void vram__backward_vector_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_logsumexp(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y);
VRAM__FN void vram__backward_logsumexp(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* scan.c */
VRAM__FN void vram__forward_cumsum(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__backward_cumsum(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_histc(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__forward_diff(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);

/* sort.c */
VRAM__FN void vram__sort_rows(vram__step *s, const vram_dims *xd, const vram_dims *d, uint32_t a,
                              uint32_t e);
VRAM__FN void vram__forward_sort(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__topk_scratch(vram__step *s, const vram_dims *x, uint32_t a);
VRAM__FN void vram__forward_topk(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_topk(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_argmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);

/* index.c */
VRAM__FN void vram__forward_gather(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__backward_gather(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_scatter(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__backward_scatter(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__indexed(vram__step *s, vram__tensor x, const vram__tensor *idx,
                                    uint32_t count, uint32_t dim);
VRAM__FN void vram__forward_index(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_index(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_index_put(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y);
VRAM__FN void vram__backward_index_put(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_masked_select(vram__step *s, vram__tensor x, vram__tensor mask,
                                                const vram_dims *d);
VRAM__FN void vram__forward_masked_select(vram__step *s, const vram_node *n, vram__tensor *x,
                                          vram__tensor *y);
VRAM__FN void vram__backward_masked_select(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_one_hot(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);

/* embedding.c */
VRAM__FN void vram__forward_embedding(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y);
VRAM__FN void vram__backward_embedding(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_embedding_bag(vram__step *s, const vram_node *n, vram__tensor *x,
                                          vram__tensor *y);
VRAM__FN void vram__backward_embedding_bag(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* product.c */
VRAM__FN void vram__save_factors(vram__step *s, vram__grad_fn *f, uint32_t ia, vram__tensor a,
                                 uint32_t ib, vram__tensor b);
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
VRAM__FN void vram__forward_product(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN vram__tensor vram__torch_grouped(vram__step *s, vram__tensor a, vram__tensor b,
                                          vram__tensor offsets, const vram_dims *d);
VRAM__FN void vram__forward_grouped_mm(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y);
VRAM__FN void vram__backward_grouped_mm(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* linear.c */
VRAM__FN void vram__backward_linear_view(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_linear(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_linear(vram__step *s, vram__tensor x, vram__tensor w,
                                         vram__tensor b);
VRAM__FN void vram__forward_linear(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);

/* bilinear.c */
VRAM__FN void vram__forward_bilinear(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y);
VRAM__FN void vram__backward_bilinear(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* einsum.c */
VRAM__FN vram__tensor vram__torch_mul(vram__step *s, vram__tensor a, vram__tensor b);
VRAM__FN vram__operand vram__einsum_pair(vram__step *s, vram__operand a, vram__operand b,
                                         uint64_t sum, uint32_t n, int nout);
VRAM__FN void vram__forward_einsum(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);

/* conv.c */
VRAM__FN void vram__forward_any_conv(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y);
VRAM__FN void vram__backward_any_conv(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_conv(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_conv(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* conv_slow.c */
VRAM__FN int vram__conv_slow_of(const vram__step *s, const vram_node *n, vram__tensor x,
                                vram__tensor w, const vram_dims *y, vram__conv_slow *k);
VRAM__FN vram__tensor vram__slow_run(vram__step *s, const vram__conv_slow *k, vram__tensor x,
                                     vram__tensor w, int bias, const vram_dims *y);
VRAM__FN void vram__slow_bw(vram__step *s, const vram__conv_slow *k, vram__tensor g, vram__tensor x,
                            vram__tensor w, uint32_t want, vram__tensor *to);

/* pad.c */
VRAM__FN uint32_t vram__pad_mode(int64_t word);
VRAM__FN vram__tensor vram__torch_narrow(vram__step *s, vram__tensor x, uint32_t axis,
                                         int64_t size);
VRAM__FN vram__tensor vram__torch_pad(vram__step *s, vram__tensor x, const int64_t *pad, uint32_t k,
                                      uint32_t mode);
VRAM__FN void vram__forward_pad(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);
VRAM__FN void vram__backward_pad(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* pool.c */
VRAM__FN void vram__forward_max_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y);
VRAM__FN void vram__backward_max_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_avg_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y);
VRAM__FN void vram__backward_avg_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_adaptive_avg(vram__step *s, vram__tensor x, const vram_dims *d,
                                               uint32_t k);
VRAM__FN void vram__forward_adaptive_avg_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                              vram__tensor *y);
VRAM__FN void vram__backward_adaptive_avg_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_adaptive_max_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                              vram__tensor *y);
VRAM__FN void vram__backward_adaptive_max_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_fractional_max_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                                vram__tensor *y);
VRAM__FN void vram__backward_fractional_max_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_max_unpool(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y);
VRAM__FN void vram__backward_max_unpool(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* resample.c */
VRAM__FN void vram__forward_interpolate(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y);
VRAM__FN void vram__backward_interpolate(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_pixel(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_pixel(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_grid_sample(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y);
VRAM__FN void vram__backward_grid_sample(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_fold(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_fold(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* activation.c */
VRAM__FN void vram__forward_glu(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);
VRAM__FN void vram__backward_glu(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_prelu(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_prelu(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_rrelu(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y);
VRAM__FN void vram__backward_rrelu(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* dropout.c */
VRAM__FN void vram__backward_noise(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_dropout(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__backward_dropout(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* softmax.c */
VRAM__FN vram__tensor vram__torch_softmax(vram__step *s, uint32_t op, vram__tensor x, uint8_t dt);
VRAM__FN void vram__forward_softmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__backward_softmax(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_gumbel_softmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                           vram__tensor *y);

/* norm.c */
VRAM__FN vram__tensor vram__norm_format_copy(vram__step *s, vram__tensor x, int cl);
VRAM__FN const vram_dims *vram__norm_format(vram__step *s, const vram_dims *d, int cl);
VRAM__FN vram__tensor vram__dims_vector(vram__step *s, int64_t n, uint8_t dt);
VRAM__FN void vram__forward_layer_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y);
VRAM__FN void vram__backward_layer_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__COLD VRAM__FN void vram__norm_one_value(vram__step *s, const vram_node *n);
VRAM__FN void vram__forward_group_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y);
VRAM__FN void vram__backward_group_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_lrn(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);

/* batch_norm.c */
VRAM__FN void vram__backward_any_bn(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_batch_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y);
VRAM__FN void vram__backward_bn(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_instance_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                          vram__tensor *y);

/* attention.c */
VRAM__FN int64_t vram__div_up(int64_t a, int64_t b);
VRAM__FN int64_t vram__least(int64_t a, int64_t b);
VRAM__FN int vram__is_half(uint8_t dt);
VRAM__FN const vram_dims *vram__attention_is_bshd_order(vram__step *s, int64_t b, int64_t h,
                                                        int64_t len, int64_t d);
VRAM__FN int vram__sdpa_pick(const vram__step *s, const vram__tensor *a, int64_t p, int causal,
                             int gqa);
VRAM__FN void vram__gradients_drop_unwanted(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_sdpa_efficient(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_sdpa_flash(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_sdpa_cudnn(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_sdpa(vram__step *s, const vram_node *n, vram__tensor *a,
                                       int64_t p, int causal, int gqa);
VRAM__FN void vram__forward_sdpa(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);

/* mha.c */
VRAM__FN void vram__forward_mha(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);

/* recurrent.c */
VRAM__FN const vram_dims *vram__rnn_state_dims(vram__step *s);
VRAM__FN void vram__forward_rnn(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);
VRAM__FN void vram__backward_rnn(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__torch_linear2(vram__step *s, vram__tensor x, vram__tensor w,
                                          vram__tensor b);
VRAM__FN void vram__forward_rnn_cell(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y);
VRAM__FN void vram__backward_lstm_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__backward_gru_gates(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* loss.c */
VRAM__FN void vram__backward_nll(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_triplet(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y);
VRAM__FN void vram__forward_cosine(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__backward_xlogx(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y);
VRAM__FN void vram__backward_loss(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_cross_entropy(vram__step *s, const vram_node *n, vram__tensor *x,
                                          vram__tensor *y);
VRAM__FN void vram__forward_ctc_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y);
VRAM__FN void vram__backward_ctc(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* composite.c */
VRAM__FN void vram__backward_index_add(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN void vram__forward_moe(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y);
VRAM__FN void vram__forward_custom(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y);
VRAM__FN void vram__backward_custom(vram__step *s, vram__grad_fn *f, vram__tensor *to);

/* table.c */
VRAM__FN void vram__backward_none(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN vram__tensor vram__op_call_n(vram__step *s, uint32_t op, uint32_t flags,
                                      const vram__tensor *in, uint32_t nin, const int64_t *attr,
                                      const vram_dims *out);
VRAM__FN vram__tensor vram__op_call(vram__step *s, uint32_t op, vram__tensor a, vram__tensor b,
                                    const int64_t *attr);
VRAM__FN void vram__op_call_in_place(vram__step *s, uint32_t op, vram__tensor *a, vram__tensor b);
VRAM__FN void vram__forward_op(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y);
VRAM__FN void vram__saved_unpack(vram__step *s, vram__grad_fn *f);

static inline uint32_t vram__recipe_plan(vram__step *s, uint32_t kind, int inplace) {
  uint32_t *plan = &s->plan[kind][inplace];
  if (!*plan)
    *plan = vram__recipe_plan_make(kind, inplace);
  return *plan;
}
