#pragma once
#include "api/types.h"
/* >>op ========================================================================================
   The keys of the text form: name and kind.
     I integer or size   L list of sizes, one for every axis or one per axis   S shape   B 0 or 1
     F decimal number    W word    D dtype    N node    Q equation                              */
/* clang-format off */
#define VRAM_KEYS(X)                                                                             \
  X(out_channels, I) X(kernel_size, L) X(stride, L) X(padding, L) X(dilation, L) X(groups, I)    \
  X(bias, B) X(padding_mode, W) X(output_padding, L) X(out_features, I) X(num_embeddings, I)     \
  X(embedding_dim, I) X(mode, W) X(equation, Q) X(affine, B) X(track_running_stats, B)           \
  X(training, B) X(normalized_shape, L) X(elementwise_affine, B) X(num_groups, I) X(size, L)     \
  X(inplace, B) X(num_parameters, I) X(dim, L) X(dtype, D) X(p, F) X(ceil_mode, B)               \
  X(return_indices, B) X(norm_type, F) X(output_size, L) X(scale_factor, F)                      \
  X(upscale_factor, I) X(downscale_factor, I) X(pad, L) X(dropout_p, F) X(is_causal, B)          \
  X(enable_gqa, B) X(backend, W) X(num_heads, I) X(need_weights, B) X(batch_first, B)            \
  X(hidden_size, I) X(num_layers, I) X(dropout, F) X(bidirectional, B) X(proj_size, I)           \
  X(scalar, B) X(rounding_mode, W) X(k, I) X(num_classes, I) X(bins, I) X(keepdim, B)            \
  X(shape, S) X(start_dim, I) X(end_dim, I) X(dim0, I) X(dim1, I) X(dims, L) X(sizes, L)         \
  X(start, I) X(end, I) X(step, I) X(index, I) X(length, I) X(split_size_or_sections, L)         \
  X(chunks, I) X(shifts, L) X(repeats, L) X(reduction, W) X(frozen, B) X(weights, N)             \
  X(num_experts, I) X(top_k, I) X(intermediate_size, I) X(gated, B)                              \
  X(shared_intermediate_size, I) X(params, I) X(buffers, I) X(saved, I) X(workspace, I)          \
  X(approximate, W) X(align_corners, B) X(eps, F) X(momentum, F) X(negative_slope, F)            \
  X(alpha, F) X(beta, F) X(threshold, F) X(value, F) X(lambd, F) X(min_val, F) X(max_val, F)     \
  X(min, F) X(max, F) X(scale, F) X(count_include_pad, B) X(divisor_override, I)                 \
  X(padding_idx, I) X(largest, B) X(sorted, B) X(descending, B) X(stable, B) X(correction, I)    \
  X(unbiased, B) X(ord, F) X(margin, F) X(delta, F) X(log_target, B) X(label_smoothing, F)       \
  X(ignore_index, I) X(blank, I) X(zero_infinity, B) X(nonlinearity, W) X(lower, F) X(upper, F)  \
  X(hard, B) X(tau, F) X(swap, B) X(antialias, B) X(accumulate, B) X(output_ratio, F)            \
  X(add_bias_kv, B) X(add_zero_attn, B) X(kdim, I) X(vdim, I) X(scale_grad_by_freq, B)

/* clang-format on */

typedef enum vram__key {
  VRAM__KEY_NONE,
#define VRAM__X(name, kind) VRAM__KEY_##name,
  VRAM_KEYS(VRAM__X)
#undef VRAM__X
      VRAM__KEY_COUNT
} vram__key;

/* The ops. One row each, X(...):
     name, least and most inputs, shape rule, how it runs, its backward, autocast list, recipe, keys

   Autocast lists (torch/csrc, autocast_mode.h): `none`, `low` (lower precision), `fp32`, `opt32`
   (fp32 by the dtype argument: no cast node), `widest` (promote to the widest input).
   Keys: `!` required. `inplace` stands only where PyTorch has it.

   Recipes. How it runs = `pointwise`: the output is allocated like the inputs, and the recipe says
   what backward does for each input that wants a gradient, in PyTorch's order (alphabetical in the
   names of its arguments). Reverse Polish, one letter a step:
     x w b    the inputs, saved        y   the output, saved       m   an empty extra output, saved
     g        gradient of the output   =   hand on, nothing allocated
     ~ %      a new tensor like the top: a kernel of it alone, of it and a number
     * 3      a new tensor from the top two / three, broadcast
     ? !      bools: the top two compared, the top compared with a number
     ^        the top two change places: arguments are worked out from the last to the first
     0        a number that is a tensor of g's dtype       '   the top is not needed
     z        zeros like g in the dtype of that input      >   the top in the output's dtype
     /        temporaries below the top go now, not at the end of this gradient
   An input that only one gradient needs is saved if that gradient is wanted, one that several need
   always (gen_variable_type.py, guard_for). The second input may be a number: then its letter
   is one, and nothing is saved or allocated for it.
     `inplace:` gives the recipe of the in-place form where it differs; `copy:` there says that x is
   cloned before it is overwritten.
   L(name, least and most inputs, shape rule, autocast list, lines, keys): an op that is written out
   to lines of the text form, `x0 x1 ..` the inputs, `y` the output, other names (one letter)
   temporaries, `key=@` hands a key on. Temporaries live until the op returns, or until a `drop`. */
/* clang-format off */
#define VRAM_OPS(X, L)                                                                           \
  /* convolution */                                                                              \
  X(conv1d, 1, 3, conv, conv, conv, low, "", "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen weights dtype") \
  X(conv2d, 1, 3, conv, conv, conv, low, "", "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen weights dtype") \
  X(conv3d, 1, 3, conv, conv, conv, low, "", "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen weights dtype") \
  X(conv_transpose1d, 1, 3, conv, conv, conv, low, "", "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen weights dtype") \
  X(conv_transpose2d, 1, 3, conv, conv, conv, low, "", "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen weights dtype") \
  X(conv_transpose3d, 1, 3, conv, conv, conv, low, "", "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen weights dtype") \
  /* linear and embedding */                                                                     \
  X(linear, 1, 3, linear, linear, linear, low, "", "out_features! bias frozen weights dtype")            \
  X(embedding, 1, 2, embedding, embedding, embedding, none, "", "num_embeddings! embedding_dim! padding_idx scale_grad_by_freq frozen weights dtype") \
  X(embedding_bag, 1, 3, embedding_bag, embedding_bag, embedding_bag, none, "", "num_embeddings! embedding_dim! mode padding_idx frozen weights dtype") \
  X(bilinear, 2, 2, bilinear, bilinear, bilinear, none, "", "out_features! bias frozen weights dtype")     \
  /* products */                                                                                 \
  X(matmul, 2, 2, matmul, product, none, low, "", "")                                                   \
  X(bmm, 2, 2, matmul, product, none, low, "", "")                                                         \
  X(mm, 2, 2, matmul, product, none, low, "", "")                                                           \
  X(addmm, 3, 3, matmul, product, none, low, "", "alpha beta")                                                     \
  X(baddbmm, 3, 3, matmul, product, none, low, "", "alpha beta")                                                 \
  X(einsum, 1, 64, einsum, einsum, none, low, "", "equation!")                                         \
  X(grouped_mm, 3, 3, grouped_mm, grouped_mm, grouped_mm, none, "", "")                                      \
  /* index */                                                                                    \
  X(gather, 2, 2, gather, gather, gather, none, "", "dim!")                                              \
  X(index_select, 2, 2, index_select, gather, gather, none, "", "dim!")                                  \
  X(index, 2, 9, index, index, index, none, "", "dim")                                                  \
  X(index_put, 3, 10, index_put, index_put, index_put, none, "", "inplace accumulate")                      \
  X(scatter, 2, 3, scatter, scatter, scatter, none, "", "dim! scalar inplace")                            \
  X(masked_select, 2, 2, masked_select, masked_select, masked_select, none, "", "")                             \
  X(topk, 1, 1, topk, topk, topk, none, "", "k! dim largest sorted")                                   \
  X(sort, 1, 1, topk, sort, topk, none, "", "dim descending stable")                                   \
  X(argmax, 1, 1, argmax, argmax, none, none, "", "dim keepdim")                                       \
  X(argmin, 1, 1, argmax, argmax, none, none, "", "dim keepdim")                                       \
  X(one_hot, 1, 1, one_hot, one_hot, none, none, "", "num_classes!")                                   \
  X(cumsum, 1, 1, cumsum, cumsum, cumsum, opt32, "", "dim! dtype")                                       \
  X(histc, 1, 1, histc, histc, none, none, "", "bins min max")                                         \
  X(diff, 1, 2, diff, diff, none, none, "", "dim")                                                     \
  /* composite, anything else */                                                                 \
  X(moe, 1, 1, moe, moe, none, low, "", "num_experts! top_k! intermediate_size! gated shared_intermediate_size frozen weights dtype") \
  X(custom, 0, 16, custom, custom, custom, none, "", "shape! dtype params buffers saved workspace frozen weights") \
  /* recurrent */                                                                                \
  X(lstm, 1, 3, rnn, rnn, rnn, none, "", "hidden_size! num_layers bias batch_first dropout bidirectional proj_size frozen weights dtype") \
  X(gru, 1, 2, rnn, rnn, rnn, none, "", "hidden_size! num_layers bias batch_first dropout bidirectional frozen weights dtype") \
  X(rnn, 1, 2, rnn, rnn, rnn, none, "", "hidden_size! num_layers nonlinearity bias batch_first dropout bidirectional frozen weights dtype") \
  X(lstm_cell, 1, 3, rnn_cell, rnn_cell, none, none, "", "hidden_size! bias frozen weights dtype")      \
  X(gru_cell, 1, 2, rnn_cell, rnn_cell, none, none, "", "hidden_size! bias frozen weights dtype")       \
  X(rnn_cell, 1, 2, rnn_cell, rnn_cell, none, none, "", "hidden_size! bias nonlinearity frozen weights dtype") \
  /* normalisation */                                                                            \
  X(batch_norm, 1, 3, norm, batch_norm, none, none, "", "affine track_running_stats training momentum eps frozen weights dtype") \
  X(instance_norm, 1, 1, norm, instance_norm, none, none, "", "affine track_running_stats momentum eps frozen weights dtype") \
  X(layer_norm, 1, 3, norm, layer_norm, layer_norm, fp32, "", "normalized_shape! elementwise_affine bias eps frozen weights dtype") \
  X(rms_norm, 1, 2, norm, layer_norm, layer_norm, fp32, "", "normalized_shape! elementwise_affine eps frozen weights dtype") \
  X(group_norm, 1, 3, norm, group_norm, group_norm, fp32, "", "num_groups! affine eps frozen weights dtype") \
  X(local_response_norm, 1, 1, lrn, lrn, none, none, "", "size! alpha beta k")                         \
  /* activation */                                                                               \
  X(relu, 1, 1, same, pointwise, pointwise, none, "x: y g *", "inplace")                                    \
  X(relu6, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: copy", "inplace")                    \
  X(hardtanh, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: copy", "inplace min_val max_val") \
  X(leaky_relu, 1, 1, same, pointwise, pointwise, none, "x: x g *; inplace: x: y g *", "inplace negative_slope") \
  X(elu, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: x: g y *", "inplace alpha")            \
  X(celu, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: x: g y *", "inplace alpha")           \
  X(selu, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: x: g y *", "inplace")                 \
  X(gelu, 1, 1, same, pointwise, pointwise, none, "x: g x *", "approximate")                                \
  X(silu, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: copy", "inplace")                     \
  X(mish, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: copy", "inplace")                     \
  X(sigmoid, 1, 1, same, pointwise, pointwise, none, "x: g y *", "inplace")                                 \
  X(tanh, 1, 1, same, pointwise, pointwise, none, "x: g y *", "inplace")                                    \
  X(hardsigmoid, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: copy", "inplace")              \
  X(hardswish, 1, 1, same, pointwise, pointwise, none, "x: g x *; inplace: copy", "inplace")                \
  X(softplus, 1, 1, same, pointwise, pointwise, fp32, "x: g x *", "beta threshold")                         \
  L(softsign, 1, 1, same, none, "abs a x0; add b a scalar=1; drop a; div y x0 b", "")             \
  L(tanhshrink, 1, 1, same, none, "tanh a x0; sub y x0 a", "")                            \
  X(softshrink, 1, 1, same, pointwise, pointwise, none, "x: g x *", "lambd")                                \
  X(hardshrink, 1, 1, same, pointwise, pointwise, none, "x: g x *", "lambd")                                \
  X(threshold, 1, 1, same, pointwise, pointwise, none, "x: x g *; inplace: copy", "inplace threshold value") \
  X(logsigmoid, 1, 1, same, pointwise, pointwise, none, "x: m ' g x *", "")                                     \
  X(glu, 1, 1, glu, glu, glu, none, "", "dim")                                                        \
  X(prelu, 1, 2, prelu, prelu, prelu, low, "", "num_parameters frozen weights dtype")                   \
  X(rrelu, 1, 1, same, rrelu, rrelu, none, "", "lower upper inplace")                                   \
  /* softmax */                                                                                  \
  X(softmax, 1, 1, same, softmax, softmax, none, "", "dim! dtype")                                        \
  X(log_softmax, 1, 1, same, softmax, softmax, none, "", "dim! dtype")                                    \
  X(gumbel_softmax, 1, 1, same, gumbel_softmax, none, none, "", "tau hard dim eps")                      \
  L(softmin, 1, 1, same, none, "neg a x0; softmax y a dim=@ dtype=@", "dim! dtype")       \
  /* dropout */                                                                                  \
  X(dropout, 1, 1, dropout, dropout, dropout, none, "", "p inplace")                                         \
  X(dropout1d, 1, 1, dropout, dropout, dropout, none, "", "p inplace")                                       \
  X(dropout2d, 1, 1, dropout, dropout, dropout, none, "", "p inplace")                                       \
  X(dropout3d, 1, 1, dropout, dropout, dropout, none, "", "p inplace")                                       \
  X(alpha_dropout, 1, 1, dropout, dropout, dropout, none, "", "p inplace")                                   \
  X(feature_alpha_dropout, 1, 1, dropout, dropout, dropout, none, "", "p inplace")                           \
  /* pooling */                                                                                  \
  X(max_pool1d, 1, 1, pool, max_pool, max_pool, none, "", "kernel_size! stride padding dilation ceil_mode return_indices") \
  X(max_pool2d, 1, 1, pool, max_pool, max_pool, none, "", "kernel_size! stride padding dilation ceil_mode return_indices") \
  X(max_pool3d, 1, 1, pool, max_pool, max_pool, none, "", "kernel_size! stride padding dilation ceil_mode return_indices") \
  X(avg_pool1d, 1, 1, pool, avg_pool, avg_pool, none, "", "kernel_size! stride padding ceil_mode count_include_pad") \
  X(avg_pool2d, 1, 1, pool, avg_pool, avg_pool, none, "", "kernel_size! stride padding ceil_mode count_include_pad divisor_override") \
  X(avg_pool3d, 1, 1, pool, avg_pool, avg_pool, none, "", "kernel_size! stride padding ceil_mode count_include_pad divisor_override") \
  X(adaptive_avg_pool1d, 1, 1, adaptive_pool, adaptive_avg_pool, adaptive_avg_pool, none, "", "output_size!")       \
  X(adaptive_avg_pool2d, 1, 1, adaptive_pool, adaptive_avg_pool, adaptive_avg_pool, none, "", "output_size!")       \
  X(adaptive_avg_pool3d, 1, 1, adaptive_pool, adaptive_avg_pool, adaptive_avg_pool, none, "", "output_size!")       \
  X(adaptive_max_pool1d, 1, 1, adaptive_pool, adaptive_max_pool, adaptive_max_pool, none, "", "output_size! return_indices") \
  X(adaptive_max_pool2d, 1, 1, adaptive_pool, adaptive_max_pool, adaptive_max_pool, none, "", "output_size! return_indices") \
  X(adaptive_max_pool3d, 1, 1, adaptive_pool, adaptive_max_pool, adaptive_max_pool, none, "", "output_size! return_indices") \
  L(lp_pool1d, 1, 1, same, none, "pow a x0 scalar=1; avg_pool1d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1", "norm_type! kernel_size! stride ceil_mode") \
  L(lp_pool2d, 1, 1, same, none, "pow a x0 scalar=1; avg_pool2d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1", "norm_type! kernel_size! stride ceil_mode") \
  L(lp_pool3d, 1, 1, same, none, "pow a x0 scalar=1; avg_pool3d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1", "norm_type! kernel_size! stride ceil_mode") \
  X(fractional_max_pool2d, 1, 1, fractional_pool, fractional_max_pool, fractional_max_pool, none, "", "kernel_size! output_size output_ratio return_indices") \
  X(fractional_max_pool3d, 1, 1, fractional_pool, fractional_max_pool, fractional_max_pool, none, "", "kernel_size! output_size output_ratio return_indices") \
  X(max_unpool1d, 2, 2, max_unpool, max_unpool, max_unpool, none, "", "kernel_size! stride padding output_size") \
  X(max_unpool2d, 2, 2, max_unpool, max_unpool, max_unpool, none, "", "kernel_size! stride padding output_size") \
  X(max_unpool3d, 2, 2, max_unpool, max_unpool, max_unpool, none, "", "kernel_size! stride padding output_size") \
  /* resampling */                                                                               \
  X(interpolate, 1, 1, interpolate, interpolate, interpolate, none, "", "size scale_factor mode align_corners antialias") \
  X(pixel_shuffle, 1, 1, pixel, pixel, pixel, none, "", "upscale_factor!")                              \
  X(pixel_unshuffle, 1, 1, pixel, pixel, pixel, none, "", "downscale_factor!")                          \
  X(grid_sample, 2, 2, grid_sample, grid_sample, grid_sample, widest, "", "mode padding_mode align_corners")  \
  X(pad, 1, 1, pad, pad, pad, none, "", "pad! mode value")                                            \
  X(unfold, 1, 1, fold, fold, fold, none, "", "kernel_size! dilation padding stride")                  \
  X(fold, 1, 1, fold, fold, fold, none, "", "output_size! kernel_size! dilation padding stride")       \
  /* attention */                                                                                \
  X(scaled_dot_product_attention, 3, 4, sdpa, sdpa, none, low, "", "dropout_p is_causal enable_gqa backend scale") \
  X(multi_head_attention, 3, 4, mha, mha, none, none, "", "num_heads! bias dropout need_weights batch_first add_bias_kv add_zero_attn kdim vdim frozen weights dtype") \
  /* pointwise */                                                                                \
  X(add, 1, 2, bcast, pointwise, pointwise, none, "w: g =; x: g =", "scalar inplace alpha")                 \
  X(sub, 1, 2, bcast, pointwise, pointwise, none, "w: g ~; x: g =", "scalar inplace alpha")                 \
  X(mul, 1, 2, bcast, pointwise, pointwise, none, "w: g x *; x: g w *", "scalar inplace")                   \
  X(div, 1, 2, bcast, pointwise, pointwise, none, "w: x w * w * g ~ ^ *; x: g w *", "scalar inplace rounding_mode") \
  X(floor_divide, 1, 2, bcast, pointwise, pointwise, none, "", "scalar inplace")                            \
  X(pow, 1, 2, bcast, pointwise, pointwise, fp32, "x: g x ~ % *", "scalar inplace")                         \
  X(maximum, 2, 2, bcast, pointwise, pointwise, none, "w: x w ? g % x w ? g 3; x: x w ? g % x w ? g 3", "") \
  X(minimum, 2, 2, bcast, pointwise, pointwise, none, "w: x w ? g % x w ? g 3; x: x w ? g % x w ? g 3", "") \
  X(where, 2, 3, bcast, where, where, none, "", "scalar")                                               \
  X(masked_fill, 2, 3, bcast, masked_fill, masked_fill, none, "", "inplace scalar")                           \
  X(lerp, 2, 3, bcast, pointwise, pointwise, none, "w: g %; x: g %", "scalar inplace")                      \
  X(addcmul, 3, 3, bcast, pointwise, pointwise, widest, "x: g =; w: g b % *; b: g w % *", "inplace")        \
  X(exp, 1, 1, same, pointwise, pointwise, fp32, "x: g y *", "inplace")                                     \
  X(log, 1, 1, same, pointwise, pointwise, fp32, "x: g x *; inplace: copy", "inplace")                      \
  X(sqrt, 1, 1, same, pointwise, pointwise, none, "x: g y % *", "inplace")                                  \
  X(rsqrt, 1, 1, same, pointwise, pointwise, fp32, "x: g % y ~ *", "inplace")                               \
  X(abs, 1, 1, same, pointwise, pointwise, none, "x: g x ~ *; inplace: copy", "inplace")                    \
  X(neg, 1, 1, same, pointwise, pointwise, none, "x: g ~", "inplace")                                       \
  X(square, 1, 1, same, pointwise, pointwise, fp32, "x: g x ~ % *; inplace: copy", "inplace")               \
  X(sin, 1, 1, same, pointwise, pointwise, none, "x: g x ~ *; inplace: copy", "inplace")                    \
  X(cos, 1, 1, same, pointwise, pointwise, none, "x: g x ~ ~ *; inplace: copy", "inplace")                  \
  X(erf, 1, 1, same, pointwise, pointwise, none, "x: x ~ ~ ~ % g *; inplace: copy", "inplace")              \
  X(sign, 1, 1, same, pointwise, pointwise, none, "x: g ~", "inplace")                                      \
  X(round, 1, 1, same, pointwise, pointwise, none, "x: g ~", "inplace")                                     \
  X(clamp, 1, 1, same, pointwise, pointwise, none, "x: 0 x ! g 3; inplace: copy", "min max inplace")        \
  /* comparison */                                                                               \
  X(eq, 1, 2, bcast, compare, none, none, "", "scalar")                                                \
  X(ne, 1, 2, bcast, compare, none, none, "", "scalar")                                                \
  X(lt, 1, 2, bcast, compare, none, none, "", "scalar")                                                \
  X(le, 1, 2, bcast, compare, none, none, "", "scalar")                                                \
  X(gt, 1, 2, bcast, compare, none, none, "", "scalar")                                                \
  X(ge, 1, 2, bcast, compare, none, none, "", "scalar")                                                \
  X(logical_and, 2, 2, bcast, compare, none, none, "", "")                                             \
  X(logical_or, 2, 2, bcast, compare, none, none, "", "")                                              \
  X(logical_not, 1, 1, bcast, compare, none, none, "", "")                                             \
  /* reduction */                                                                                \
  X(sum, 1, 1, reduce, reduce, reduce, opt32, "", "dim keepdim dtype")                                   \
  X(mean, 1, 1, reduce, reduce, reduce, none, "", "dim keepdim dtype")                                   \
  X(amax, 1, 1, reduce, extreme, extreme, none, "", "dim keepdim")                                        \
  X(amin, 1, 1, reduce, extreme, extreme, none, "", "dim keepdim")                                        \
  X(max, 1, 1, reduce, extreme, extreme, none, "", "dim keepdim")                                         \
  X(min, 1, 1, reduce, extreme, extreme, none, "", "dim keepdim")                                         \
  X(prod, 1, 1, reduce, prod, prod, opt32, "", "dim keepdim dtype")                                    \
  X(var, 1, 1, reduce, var, var, none, "", "dim keepdim correction unbiased")                         \
  X(std, 1, 1, reduce, var, var, none, "", "dim keepdim correction unbiased")                         \
  X(norm, 1, 1, reduce, vector_norm, vector_norm, opt32, "", "dim keepdim dtype")                             \
  X(logsumexp, 1, 1, reduce, logsumexp, logsumexp, fp32, "", "dim! keepdim")                                \
  /* shape */                                                                                    \
  X(reshape, 1, 1, reshape, view, view, none, "", "shape!")                                            \
  X(view, 1, 1, reshape, view, view, none, "", "shape!")                                               \
  X(flatten, 1, 1, flatten, view, view, none, "", "start_dim end_dim")                                 \
  X(unflatten, 1, 1, unflatten, view, view, none, "", "dim! sizes!")                                   \
  X(transpose, 1, 1, permute, permute, permute, none, "", "dim0! dim1!")                                \
  X(permute, 1, 1, permute, permute, permute, none, "", "dims!")                                          \
  X(t, 1, 1, permute, permute, permute, none, "", "")                                                           \
  X(squeeze, 1, 1, squeeze, squeeze, squeeze, none, "", "dim")                                            \
  X(unsqueeze, 1, 1, unsqueeze, squeeze, squeeze, none, "", "dim!")                                       \
  X(expand, 1, 1, expand, expand, expand, none, "", "shape!")                                            \
  X(slice, 1, 1, slice, slice, slice, none, "", "dim! start end step")                                  \
  X(narrow, 1, 1, slice, slice, slice, none, "", "dim! start! length!")                                \
  X(select, 1, 1, select, slice, slice, none, "", "dim! index!")                                       \
  X(split, 1, 1, split, split, split, none, "", "split_size_or_sections! dim")                          \
  X(chunk, 1, 1, split, split, split, none, "", "chunks! dim")                                          \
  X(unbind, 1, 1, unbind, split, split, none, "", "dim")                                               \
  X(detach, 1, 1, same, detach, none, none, "", "")                                                    \
  X(cat, 1, 65535, cat, cat, cat, none, "", "dim")                                                    \
  X(stack, 1, 65535, stack, cat, cat, none, "", "dim")                                                \
  X(roll, 1, 1, roll, roll, roll, none, "", "shifts! dims")                                            \
  X(flip, 1, 1, roll, flip, flip, none, "", "dims!")                                                   \
  X(repeat, 1, 1, repeat, repeat, repeat, none, "", "repeats!")                                          \
  X(tile, 1, 1, repeat, repeat, repeat, none, "", "dims!")                                               \
  X(repeat_interleave, 1, 1, repeat_interleave, repeat_interleave, none, none, "", "repeats! dim")     \
  X(contiguous, 1, 1, same, contiguous, none, none, "", "")                                            \
  X(clone, 1, 1, same, clone, clone, none, "", "")                                                      \
  X(to, 1, 1, same, to, none, none, "", "dtype!")                                                      \
  X(type_as, 2, 2, same, to, none, none, "", "")                                                       \
  /* create */                                                                                   \
  X(zeros, 0, 1, create, create, none, none, "", "shape! dtype")                                       \
  X(ones, 0, 1, create, create, none, none, "", "shape! dtype")                                        \
  X(full, 0, 1, create, create, none, none, "", "shape! dtype")                                        \
  X(arange, 0, 1, create, create, none, none, "", "shape! dtype")                                      \
  X(empty, 0, 1, create, create, none, none, "", "shape! dtype")                                       \
  X(rand, 0, 1, create, create, none, none, "", "shape! dtype")                                        \
  X(randn, 0, 1, create, create, none, none, "", "shape! dtype")                                       \
  X(fill, 1, 1, same, fill, none, none, "", "inplace")                                                 \
  X(bernoulli, 1, 1, same, fill, none, none, "", "inplace")                                            \
  /* loss */                                                                                     \
  X(cross_entropy, 1, 2, loss, cross_entropy, none, fp32, "", "reduction label_smoothing ignore_index") \
  X(nll_loss, 1, 2, loss, cross_entropy, none, fp32, "", "reduction ignore_index")                     \
  X(mse_loss, 1, 2, loss, loss, loss, fp32, "", "reduction")                                           \
  X(l1_loss, 1, 2, loss, loss, loss, fp32, "", "reduction")                                            \
  X(smooth_l1_loss, 1, 2, loss, loss, loss, fp32, "", "reduction beta")                                \
  X(huber_loss, 1, 2, loss, loss, loss, fp32, "", "reduction delta")                                   \
  X(binary_cross_entropy, 1, 2, loss, loss, loss, none, "", "reduction")                               \
  X(binary_cross_entropy_with_logits, 1, 2, loss, loss, loss, fp32, "", "reduction")                   \
  X(kl_div, 1, 2, loss, loss, loss, fp32, "", "reduction log_target")                                  \
  X(ctc_loss, 1, 2, loss, ctc_loss, none, none, "", "reduction blank zero_infinity")                   \
  X(cosine_embedding_loss, 1, 3, loss, cosine, none, fp32, "", "reduction margin")                     \
  X(triplet_margin_loss, 1, 3, loss, triplet, none, fp32, "", "reduction margin p eps swap")           \
  /* parameters */                                                                               \
  X(parameter, 0, 0, parameter, parameter, none, none, "", "shape! dtype frozen")                      \
  X(buffer, 0, 0, parameter, parameter, none, none, "", "shape! dtype")

/* clang-format on */

typedef enum vram_op {
#define VRAM__X(id, lo, hi, shape, run, bw, ac, recipe, keys) VRAM_OP_##id,
#define VRAM__L(id, lo, hi, shape, ac, lines, keys) VRAM_OP_##id,
  VRAM_OPS(VRAM__X, VRAM__L)
#undef VRAM__X
#undef VRAM__L
      VRAM_OP_COUNT,
  VRAM__OP_drop = VRAM_OP_COUNT, /* the `drop` line */
  VRAM__OP_end                   /* closes the lines that an op was written out to */
} vram_op;
