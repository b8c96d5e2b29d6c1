/* Made from the rows in src/ops (make). */
#pragma once

/* clang-format off */
#define VRAM_OPS(X) X(add) X(sub) X(mul) X(div) X(floor_divide) X(pow) X(maximum) X(minimum) \
  X(where) X(masked_fill) X(lerp) X(addcmul) X(exp) X(log) X(sqrt) X(rsqrt) X(abs) X(neg) \
  X(square) X(sin) X(cos) X(erf) X(sign) X(round) X(clamp) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) \
  X(logical_and) X(logical_or) X(logical_not) X(logaddexp) X(tan) X(log1p) X(log2) X(expm1) \
  X(exp2) X(rpow) X(reciprocal) X(sinh) X(asin) X(acos) X(atan) X(atan2) X(cosh) X(asinh) \
  X(atanh) X(erfc) X(erfinv) X(lgamma) X(logit) X(frac) X(deg2rad) X(nan_to_num) X(hypot) \
  X(remainder) X(addcdiv) X(fmax) X(sinc) X(xlogy) X(xlog1py) X(copysign) X(heaviside) X(i0) \
  X(digamma) X(entr) X(cross) X(erfcx) X(i0e) X(ndtri) X(log_ndtr) X(bessel_j0) \
  X(modified_bessel_k1) X(bessel_j1) X(i1e) X(bessel_y1) X(mvlgamma) X(nextafter) X(sgn) \
  X(clamp_tensor) X(reshape) X(view) X(flatten) X(unflatten) X(transpose) X(permute) X(t) \
  X(squeeze) X(unsqueeze) X(expand) X(slice) X(narrow) X(select) X(split) X(chunk) X(unbind) \
  X(detach) X(diagonal) X(tensor_unfold) X(as_strided) X(cat) X(stack) X(roll) X(flip) X(rot90) \
  X(repeat) X(tile) X(repeat_interleave) X(contiguous) X(clone) X(to) X(type_as) X(zeros) \
  X(ones) X(full) X(arange) X(empty) X(rand) X(randn) X(cache) X(fill) X(bernoulli) \
  X(parameter) X(buffer) X(sum) X(mean) X(nansum) X(amax) X(amin) X(max) X(min) X(prod) X(var) \
  X(std) X(norm) X(logsumexp) X(var_mean) X(std_mean) X(aminmax) X(kthvalue) X(mode) X(median) \
  X(nanmedian) X(renorm) X(count_nonzero) X(cumsum) X(cumprod) X(histc) X(diff) X(logcumsumexp) \
  X(topk) X(sort) X(argmax) X(argmin) X(cummax) X(cummin) X(searchsorted) X(bucketize) X(isin) \
  X(gather) X(index_select) X(index) X(index_put) X(scatter) X(masked_select) X(one_hot) \
  X(take) X(scatter_add) X(scatter_reduce) X(index_add) X(index_copy) X(index_fill) \
  X(masked_scatter) X(put) X(select_scatter) X(slice_scatter) X(diagonal_scatter) X(nonzero) \
  X(unique) X(nms) X(randperm) X(multinomial) X(bincount) X(embedding) X(embedding_bag) \
  X(matmul) X(bmm) X(mm) X(mv) X(dot) X(addmm) X(baddbmm) X(addbmm) X(addmv) X(addr) \
  X(grouped_mm) X(cosine_similarity) X(pairwise_distance) X(cdist) X(pdist) X(linear) \
  X(bilinear) X(einsum) X(conv1d) X(conv2d) X(conv3d) X(conv_transpose1d) X(conv_transpose2d) \
  X(conv_transpose3d) X(roi_align) X(roi_pool) X(ps_roi_align) X(ps_roi_pool) X(deform_conv2d) \
  X(tril) X(triu) X(diag) X(trace) X(block_diag) X(matrix_exp) X(cholesky) X(solve_triangular) \
  X(inv) X(solve) X(det) X(slogdet) X(eigh) X(qr) X(svd) X(pad) X(max_pool1d) X(max_pool2d) \
  X(max_pool3d) X(avg_pool1d) X(avg_pool2d) X(avg_pool3d) X(adaptive_avg_pool1d) \
  X(adaptive_avg_pool2d) X(adaptive_avg_pool3d) X(adaptive_max_pool1d) X(adaptive_max_pool2d) \
  X(adaptive_max_pool3d) X(lp_pool1d) X(lp_pool2d) X(lp_pool3d) X(fractional_max_pool2d) \
  X(fractional_max_pool3d) X(max_unpool1d) X(max_unpool2d) X(max_unpool3d) X(interpolate) \
  X(pixel_shuffle) X(pixel_unshuffle) X(grid_sample) X(unfold) X(fold) X(relu) X(relu6) \
  X(hardtanh) X(leaky_relu) X(elu) X(celu) X(selu) X(gelu) X(silu) X(mish) X(sigmoid) X(tanh) \
  X(hardsigmoid) X(hardswish) X(softplus) X(softsign) X(tanhshrink) X(softshrink) X(hardshrink) \
  X(threshold) X(logsigmoid) X(glu) X(prelu) X(rrelu) X(dropout) X(dropout1d) X(dropout2d) \
  X(dropout3d) X(alpha_dropout) X(feature_alpha_dropout) X(softmax) X(log_softmax) \
  X(gumbel_softmax) X(softmin) X(fft) X(rfft) X(irfft) X(complex) X(view_as_real) \
  X(view_as_complex) X(polar) X(angle) X(layer_norm) X(rms_norm) X(group_norm) \
  X(local_response_norm) X(batch_norm) X(instance_norm) X(weight_norm) \
  X(scaled_dot_product_attention) X(ring_attention) X(context_parallel) X(multi_head_attention) \
  X(transformer_encoder_layer) X(lstm) X(gru) X(rnn) X(lstm_cell) X(gru_cell) X(rnn_cell) \
  X(cross_entropy) X(nll_loss) X(mse_loss) X(l1_loss) X(smooth_l1_loss) X(huber_loss) \
  X(binary_cross_entropy) X(binary_cross_entropy_with_logits) X(kl_div) X(ctc_loss) \
  X(cosine_embedding_loss) X(triplet_margin_loss) X(hinge_embedding_loss) \
  X(margin_ranking_loss) X(poisson_nll_loss) X(soft_margin_loss) X(multi_margin_loss) \
  X(multilabel_margin_loss) X(all_reduce) X(replicate) X(from_local) X(all_gather) \
  X(reduce_scatter) X(all_to_all) X(shard) X(wait) X(embedding_shard) X(loss_parallel) X(moe) \
  X(custom)
/* clang-format on */
