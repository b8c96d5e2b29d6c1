/* >>ops/shape    shape rules, named in the op table */
#pragma once
#include "model/model.h"

#define VRAM__MAX_UNITS INT64_C(0x7fffffff)
#define VRAM__MAX_RNN_LAYERS 4096

/* An equation of einsum: every label gets a position, those of the result first (Linear.cpp). */
#define VRAM__MAX_LABELS 60u /* 52 letters and the axes of an ellipsis */

typedef struct vram__labels {
  const char *text;
  uint32_t len, nout, n; /* positions of the result, and in all */
  uint32_t dots;         /* axes of the ellipsis; their first position: */
  uint32_t dots_at;
  uint8_t at[52];    /* label -> position + 1 */
  uint8_t count[60]; /* operands whose axis at this position is not 1 */
  int64_t size[60];
} vram__labels;

/* pointwise.c */
VRAM__FN int vram__shape_same(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_bcast(vram_graph *g, vram_node *n);

/* view.c */
VRAM__FN int vram__shape_reshape(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_flatten(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_unflatten(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_permute(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_squeeze(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_unsqueeze(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_expand(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_slice(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_select(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_split(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_unbind(vram_graph *g, vram_node *n);

/* copy.c */
VRAM__FN int vram__shape_roll(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_repeat(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_repeat_interleave(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_cat(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_stack(vram_graph *g, vram_node *n);

/* create.c */
VRAM__FN int vram__shape_create(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_parameter(vram_graph *g, vram_node *n);

/* reduce.c */
VRAM__FN int vram__shape_reduce(vram_graph *g, vram_node *n);

/* scan.c */
VRAM__FN int vram__shape_cumsum(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_histc(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_diff(vram_graph *g, vram_node *n);

/* sort.c */
VRAM__FN int vram__shape_topk(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_argmax(vram_graph *g, vram_node *n);

/* index.c */
VRAM__FN int vram__index_dtype(vram_graph *g, const vram_node *n, uint32_t i);
VRAM__FN int vram__shape_gather(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_scatter(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_index_select(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_index(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_index_put(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_masked_select(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_one_hot(vram_graph *g, vram_node *n);

/* embedding.c */
VRAM__FN int vram__shape_embedding(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_embedding_bag(vram_graph *g, vram_node *n);

/* product.c */
VRAM__FN int vram__shape_matmul(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_grouped_mm(vram_graph *g, vram_node *n);

/* linear.c */
VRAM__FN int vram__shape_linear(vram_graph *g, vram_node *n);

/* bilinear.c */
VRAM__FN int vram__shape_bilinear(vram_graph *g, vram_node *n);

/* einsum.c */
VRAM__FN int vram__label_all(vram__labels *l, const vram_node *n, const char **what);
VRAM__FN int vram__shape_einsum(vram_graph *g, vram_node *n);

/* conv.c */
VRAM__FN int vram__shape_window(vram_graph *g, const vram_node *n, uint32_t key, uint32_t k,
                                int64_t def, int64_t least, int64_t *to);
VRAM__FN int vram__shape_conv(vram_graph *g, vram_node *n);

/* pad.c */
VRAM__FN int vram__shape_pad(vram_graph *g, vram_node *n);

/* pool.c */
VRAM__FN int vram__out_indexed(vram_graph *g, vram_node *n, const int64_t *size);
VRAM__FN int vram__shape_pool(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_resize(vram_graph *g, vram_node *n, uint32_t k, const int64_t *to);
VRAM__FN int vram__shape_adaptive_pool(vram_graph *g, vram_node *n);
VRAM__FN int64_t vram__shape_times(int64_t in, int64_t factor);
VRAM__FN int vram__shape_fractional_pool(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_max_unpool(vram_graph *g, vram_node *n);

/* resample.c */
VRAM__FN int vram__shape_interpolate(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_pixel(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_fold(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_grid_sample(vram_graph *g, vram_node *n);

/* activation.c */
VRAM__FN int vram__shape_glu(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_prelu(vram_graph *g, vram_node *n);

/* dropout.c */
VRAM__FN int vram__shape_dropout(vram_graph *g, vram_node *n);

/* norm.c */
VRAM__FN int vram__shape_norm(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_lrn(vram_graph *g, vram_node *n);

/* attention.c */
VRAM__FN int vram__att_fits(vram_graph *g, uint64_t heads, int64_t rows, int64_t keys,
                            int64_t width);
VRAM__FN int vram__shape_sdpa(vram_graph *g, vram_node *n);

/* mha.c */
VRAM__FN int vram__shape_mha(vram_graph *g, vram_node *n);

/* recurrent.c */
VRAM__FN int vram__shape_rnn(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_rnn_cell(vram_graph *g, vram_node *n);

/* loss.c */
VRAM__FN int vram__shape_loss(vram_graph *g, vram_node *n);

/* composite.c */
VRAM__FN int vram__shape_moe(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_custom(vram_graph *g, vram_node *n);

/* FLOPs */
VRAM__FN uint64_t vram__flops_product(const vram_node *n);
VRAM__FN uint64_t vram__flops_sdpa(const vram_node *n);
