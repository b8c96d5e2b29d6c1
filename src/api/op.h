#pragma once
#include "api/op_list.h"
#include "api/types.h"
/* >>op ========================================================================================
   The keys of the text form: name and kind.
     I integer or size   L list of sizes, one for every axis or one per axis   S shape   B 0 or 1
     F decimal number    W word    D dtype    N node    Q equation                              */
/* clang-format off */
#define VRAM_KEYS(X)                                                                              \
  X(out_channels, I) X(kernel_size, L) X(stride, L) X(padding, L) X(dilation, L) X(groups, I)     \
  X(bias, B) X(padding_mode, W) X(output_padding, L) X(out_features, I) X(num_embeddings, I)      \
  X(embedding_dim, I) X(mode, W) X(equation, Q) X(affine, B) X(track_running_stats, B)            \
  X(training, B) X(normalized_shape, L) X(elementwise_affine, B) X(num_groups, I) X(size, L)      \
  X(inplace, B) X(num_parameters, I) X(dim, L) X(dtype, D) X(p, F) X(ceil_mode, B)                \
  X(return_indices, B) X(norm_type, F) X(output_size, L) X(scale_factor, F) X(upscale_factor, I)  \
  X(downscale_factor, I) X(pad, L) X(dropout_p, F) X(is_causal, B) X(enable_gqa, B)               \
  X(backend, W) X(num_heads, I) X(need_weights, B) X(batch_first, B) X(hidden_size, I)            \
  X(num_layers, I) X(dropout, F) X(bidirectional, B) X(proj_size, I) X(scalar, B)                 \
  X(rounding_mode, W) X(k, I) X(num_classes, I) X(bins, I) X(keepdim, B) X(shape, S)              \
  X(start_dim, I) X(end_dim, I) X(dim0, I) X(dim1, I) X(dims, L) X(sizes, L) X(start, I)          \
  X(end, I) X(step, I) X(index, I) X(length, I) X(split_size_or_sections, L) X(chunks, I)         \
  X(shifts, L) X(repeats, L) X(reduction, W) X(frozen, B) X(weights, N) X(num_experts, I)         \
  X(top_k, I) X(intermediate_size, I) X(gated, B) X(shared_intermediate_size, I) X(params, I)     \
  X(buffers, I) X(saved, L) X(workspace, L) X(approximate, W) X(align_corners, B) X(eps, F)       \
  X(momentum, F) X(negative_slope, F) X(alpha, F) X(beta, F) X(threshold, F) X(value, F)          \
  X(lambd, F) X(min_val, F) X(max_val, F) X(min, F) X(max, F) X(scale, F)                         \
  X(count_include_pad, B) X(divisor_override, I) X(padding_idx, I) X(largest, B) X(sorted, B)     \
  X(descending, B) X(stable, B) X(correction, I) X(unbiased, B) X(margin, F) X(delta, F)          \
  X(log_target, B) X(label_smoothing, F) X(ignore_index, I) X(blank, I) X(zero_infinity, B)       \
  X(nonlinearity, W) X(lower, F) X(upper, F) X(hard, B) X(tau, F) X(swap, B) X(antialias, B)      \
  X(accumulate, B) X(output_ratio, F) X(add_bias_kv, B) X(add_zero_attn, B) X(kdim, I)            \
  X(vdim, I) X(scale_grad_by_freq, B) X(diagonal, I) X(quant, W) X(double_quant, B)               \
  X(compute_dtype, D) X(lora, I) X(lora_dropout, F) X(lora_bias, B) X(lora_dtype, D) X(dora, B)   \
  X(rslora, B) X(reduce, W) X(include_self, B) X(offset, I) X(dim2, I) X(dimension, I)            \
  X(storage_offset, I) X(backward_workspace, L) X(saves, L) X(alias, B) X(cublas, B)              \
  X(onesided, B) X(colon, B) X(stream, I) X(autocast, B) X(count, I) X(dim_feedforward, I) X(activation, W)    \
  X(norm_first, B) X(left, B) X(full_matrices, B) X(num_samples, I) X(replacement, B)             \
  X(conv1d, B) X(pos_weight, B) X(log_input, B) X(full, B) X(unseen, L) X(backward_cublas, B)     \
  X(counted, B) X(ranks, I) X(whole, I) X(parallel, W) X(gradient, W) X(late, B) X(tied, N)    \
  X(rank, I) X(rotate, W) X(load_balance, B)

/* clang-format on */

typedef enum vram_op {
#define VRAM__X(name) VRAM_OP_##name,
  VRAM_OPS(VRAM__X)
#undef VRAM__X
      VRAM_OP_COUNT
} vram_op;
