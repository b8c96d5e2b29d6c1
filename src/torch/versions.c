/* >>torch/versions    the rules of each version of PyTorch */
#include "torch/torch.h"

/* clang-format off */

/* What is alike in all of them. */
#define VRAM__RULES_RECURRENT {{2, 6, 5}, 4194304}
/* The storage of cub: what differs from CUDA to CUDA is named, the rest is alike; devices below
   cc 9.0 were measured with 13.2 only. */
#define VRAM__RULES_CUB(scan_parts, unique_parts, sort_90, select_90) \
    {256, scan_parts, unique_parts, 2048, 1024, 11264, \
     {VRAM__RULES_SORT_70, VRAM__RULES_SORT_80, sort_90}, \
     2304, 4864, \
     {{160, 352, 640}, {672, 1408, 2304}, select_90}, \
     {{1152, 1152}, {1120, 1920}, {1232, 2016}}, \
     3840, 1920, 896, 128, 15, 32, 4096}
#define VRAM__RULES_SORT_70 {0, 0, 2816, 2816, 11776, 2816, 0, 0, 11776, 2816}
#define VRAM__RULES_SORT_80 {0, 0, 3072, 3840, 6528, 3840, 0, 0, 8064, 3840}
#define VRAM__RULES_SORT_90 {3456, 5632, 5376, 4608, 6528, 5760, 9728, 9728, 6912, 5760}
#define VRAM__RULES_SELECT_12_1 {320, 704, 640}
#define VRAM__RULES_SELECT_12_4 {4480, 7168, 4224}
#define VRAM__RULES_SELECT_12_6 {2240, 3584, 4224}
#define VRAM__RULES_SELECT_13_2 {2464, 3584, 4224}
#define VRAM__RULES_CUB_12_1 \
    VRAM__RULES_CUB(0, 0, VRAM__RULES_SORT_80, VRAM__RULES_SELECT_12_1)
#define VRAM__RULES_CUB_12_4 \
    VRAM__RULES_CUB(0, 0, VRAM__RULES_SORT_90, VRAM__RULES_SELECT_12_4)
#define VRAM__RULES_CUB_12_6 \
    VRAM__RULES_CUB(0, 1, VRAM__RULES_SORT_90, VRAM__RULES_SELECT_12_6)
#define VRAM__RULES_CUB_13_0 \
    VRAM__RULES_CUB(1, 2, VRAM__RULES_SORT_90, VRAM__RULES_SELECT_12_6)
#define VRAM__RULES_CUB_13_2 \
    VRAM__RULES_CUB(1, 2, VRAM__RULES_SORT_90, VRAM__RULES_SELECT_13_2)
#define VRAM__RULES_REST \
    /* embedding_sorted */ 3072, \
    /* sort */ {4096, 128, 1000000}, \
    /* topk */ {6, 256}, \
    /* grouped */ {512, 5376}, \
    /* reduce */ {512, 16, 256, 128, 4, 4}, \
    /* grid_yz, warp */ 65535, 32, \
    /* flash */ {256, 192, 224, 64, 128, 128}, \
    /* efficient */ {32, 128, 16, 16, 256, 200}, \
    /* layer_norm */ {65536, 32768}, \
    /* batch_norm */ {880801, 65535, 512, 32, 16, 128, 8}, \
    /* foreach_chunk */ 65536, \
    /* eight_bit */ {4096, 256, 100000}, \
    /* four_bit */ {1536, 4, 64, 256}, \
    /* context */ \
    {{1063256064, 1046478848, 1391460352}, \
     629145600, 363855872, 691011584, 587202560, 1992294400}, \
    /* cudnn_conv */ \
    {4, 32, 5, 4, 64, {12, 26, 0}, {{{24, 0, 0}, {12, 0, 0}}, {{96, 96, 96}, {48, 48, 0}}}, \
     128, 256, 25, 8}

/* What versions do that others do not. */
#define VRAM__DOES_2_2 \
    (VRAM__COLON_VIEW | VRAM__LINEAR_VIEW | VRAM__MASK_LAST | VRAM__MHA_KEEPS | \
     VRAM__MHA_EIGHTS | VRAM__EMBEDDING_ALL_BITS | VRAM__PIPE_KEEPS | VRAM__PIPE_WANTS | \
     VRAM__PIPE_RETURNS)
#define VRAM__DOES_2_1 (VRAM__DOES_2_2 | VRAM__MASK_EXPANDED | VRAM__FLASH_1 | VRAM__MEAN_INPUT)
#define VRAM__DOES_2_0 (VRAM__DOES_2_1 | VRAM__OPTIM_DENOM)
#define VRAM__DOES_1_11 \
    ((VRAM__DOES_2_0 & ~(uint32_t)VRAM__MEAN_INPUT) | VRAM__OPTIM_LOOPS)
#define VRAM__DOES_1_10 (VRAM__DOES_1_11 | VRAM__SOFTMAX_INPUT)
#define VRAM__DOES_2_4 (VRAM__DOES_2_2 | VRAM__UPSAMPLE_F32)
#define VRAM__DOES_2_5 (VRAM__DOES_2_4 | VRAM__ADAFACTOR)
#define VRAM__DOES_2_8 (VRAM__DOES_2_5 | VRAM__CUDNN_9_8)
#define VRAM__DOES_2_9 \
    ((VRAM__DOES_2_8 & ~(uint32_t)VRAM__COLON_VIEW) | VRAM__RMS_NORM_FUSED | VRAM__MUON | \
     VRAM__CONV3D_HALF_SLOW | VRAM__PIPE_SUMS)
#define VRAM__DOES_2_10 \
    (VRAM__DOES_2_9 & ~(uint32_t)(VRAM__CONV3D_HALF_SLOW | VRAM__PIPE_RETURNS))
#define VRAM__DOES_2_11 \
    (VRAM__DOES_2_10 | VRAM__EMBEDDING_FUSED | VRAM__RNN_BF16 | VRAM__CAST_GRAD | \
     VRAM__COSINE_EPS)
#define VRAM__DOES_2_12 \
    ((VRAM__DOES_2_11 & ~(uint32_t)(VRAM__MHA_KEEPS | VRAM__MHA_EIGHTS | VRAM__PIPE_WANTS | \
                                    VRAM__PIPE_SUMS)) | \
     VRAM__RMS_NORM_F32)
#define VRAM__DOES_2_13 (VRAM__DOES_2_12 & ~(uint32_t)VRAM__EMBEDDING_ALL_BITS)
#define VRAM__DOES_2_14 ((VRAM__DOES_2_13 & ~(uint32_t)VRAM__MASK_LAST) | VRAM__CUDNN_PAIRS)
#define VRAM__DOES_2_15 (VRAM__DOES_2_14 & ~(uint32_t)(VRAM__LINEAR_VIEW | VRAM__PIPE_KEEPS))

/* A row holds from its version up to the next row's. Measured with the wheels on PyPI, of the CUDA
   that is named. */
static const vram__rules vram__rules_rows[] = {
    /* up to 2.0 from PyTorch's sources, not measured: softmax keeps its input */
    {VRAM_RULES_TORCH_1_10, VRAM__DOES_1_10, "11.3", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 0, 0, VRAM__MATH_PLAIN}, {256, 128, 0},
     VRAM__RULES_CUB_12_1, VRAM__RULES_REST},
    /* softmax keeps its result only */
    {VRAM_RULES_TORCH_1_11, VRAM__DOES_1_11, "11.3", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 0, 0, VRAM__MATH_PLAIN}, {256, 128, 0},
     VRAM__RULES_CUB_12_1, VRAM__RULES_REST},
    /* optimizers run by lists of parameters */
    {VRAM_RULES_TORCH_2_0, VRAM__DOES_2_0, "11.7", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 0, 0, VRAM__MATH_PLAIN}, {256, 128, 0},
     VRAM__RULES_CUB_12_1, VRAM__RULES_REST},
    /* Adam works in one list beside the states */
    {VRAM_RULES_TORCH_2_1, VRAM__DOES_2_1, "12.1", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 0, 0, VRAM__MATH_PLAIN}, {256, 128, 0},
     VRAM__RULES_CUB_12_1, VRAM__RULES_REST},
    /* masks of memory-efficient attention are expanded as views */
    {VRAM_RULES_TORCH_2_2, VRAM__DOES_2_2, "12.1", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 0, 0, VRAM__MATH_PLAIN}, {256, 128, 0},
     VRAM__RULES_CUB_12_1, VRAM__RULES_REST},
    /* interpolate in fp32 under autocast */
    {VRAM_RULES_TORCH_2_4, VRAM__DOES_2_4, "12.1", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 0, 0, VRAM__MATH_PLAIN}, {256, 128, 0},
     VRAM__RULES_CUB_12_1, VRAM__RULES_REST},
    /* scaled_dot_product_attention(enable_gqa), in fp32 where it is of ordinary ops */
    {VRAM_RULES_TORCH_2_5, VRAM__DOES_2_5, "12.4", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 1, 0, VRAM__MATH_WHERE}, {256, 128, 0},
     VRAM__RULES_CUB_12_4, VRAM__RULES_REST},
    /* attention of ordinary ops: rows of -inf are overwritten */
    {VRAM_RULES_TORCH_2_6, VRAM__DOES_2_5, "12.4", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 0, 1, 0, VRAM__MATH_SAFE}, {256, 128, 0},
     VRAM__RULES_CUB_12_4, VRAM__RULES_REST},
    /* flash attention: seed and offset on the device */
    {VRAM_RULES_TORCH_2_7, VRAM__DOES_2_5, "12.6", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 1, 1, 0, VRAM__MATH_SAFE}, {256, 128, 0},
     VRAM__RULES_CUB_12_6, VRAM__RULES_REST},
    /* cuDNN 9.8 */
    {VRAM_RULES_TORCH_2_8, VRAM__DOES_2_8, "12.8", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 0}, {0, 0, 1, 1, 0, VRAM__MATH_SAFE}, {256, 128, 0},
     VRAM__RULES_CUB_12_6, VRAM__RULES_REST},
    /* cuBLASLt's workspaces stay, too; _fused_rms_norm; `:` is no view; no cuDNN for conv3d in 16 bits;
       the weight part of a pipeline's stage adds up what a function
       was given */
    {VRAM_RULES_TORCH_2_9, VRAM__DOES_2_9, "12.8", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 1}, {0, 0, 1, 1, 0, VRAM__MATH_SAFE}, {256, 128, 0},
     VRAM__RULES_CUB_12_6, VRAM__RULES_REST},
    /* cuDNN for conv3d again; a pipeline's step() returns no outputs where nobody asks for them */
    {VRAM_RULES_TORCH_2_10, VRAM__DOES_2_10, "12.8", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 1}, {0, 0, 1, 1, 0, VRAM__MATH_SAFE}, {256, 128, 0},
     VRAM__RULES_CUB_12_6, VRAM__RULES_REST},
    /* cuDNN's attention first, with any dropout; embedding's few rows; cuDNN's recurrent nets in bf16;
       autocast's copies of weights have gradients under no_grad, too; cosine_similarity's eps is a
       tensor */
    {VRAM_RULES_TORCH_2_11, VRAM__DOES_2_11, "13.0", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 1, 1}, {1, 0, 1, 1, 0, VRAM__MATH_SAFE}, {256, 128, 0},
     VRAM__RULES_CUB_13_0, VRAM__RULES_REST},
    /* cuDNN's attention: dropout of a multiple of one sixteenth; cuBLASLt takes cuBLAS's workspace;
       MultiheadAttention lets go of query, key and value; rms_norm in fp32 under autocast; a stage of
       a pipeline adds up nothing before the weight part, and what it receives wants a gradient where
       it is wanted */
    {VRAM_RULES_TORCH_2_12, VRAM__DOES_2_12, "13.0", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 0, 1, 1}, {1, 0, 1, 1, 0, VRAM__MATH_SAFE}, {256, 128, 16},
     VRAM__RULES_CUB_13_0, VRAM__RULES_REST},
    /* embedding sorts indices by the bits that rows have */
    {VRAM_RULES_TORCH_2_13, VRAM__DOES_2_13, "13.0", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 0, 1, 1}, {1, 0, 1, 1, 0, VRAM__MATH_SAFE}, {256, 128, 16},
     VRAM__RULES_CUB_13_2, VRAM__RULES_REST},
    /* memory-efficient attention: seed and offset on the device, heads that share a key; fewer heads
       for cuDNN's attention */
    {VRAM_RULES_TORCH_2_14, VRAM__DOES_2_14, "13.0", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 0, 1, 1}, {1, 1, 1, 1, 1, VRAM__MATH_SAFE}, {256, 128, 16},
     VRAM__RULES_CUB_13_2, VRAM__RULES_REST},
    /* workspaces go with the call; linear's result is no view; buffers of pipelines for each receive */
    {VRAM_RULES_TORCH_2_15, VRAM__DOES_2_15, "13.2", "0.50.2", VRAM__RULES_RECURRENT,
     {8519680, 33554432, 1048576, 0, 0}, {1, 1, 1, 1, 1, VRAM__MATH_SAFE}, {256, 128, 16},
     VRAM__RULES_CUB_13_2, VRAM__RULES_REST}};
/* clang-format on */

#undef VRAM__RULES_RECURRENT
#undef VRAM__RULES_CUB
#undef VRAM__RULES_SORT_70
#undef VRAM__RULES_SORT_80
#undef VRAM__RULES_SORT_90
#undef VRAM__RULES_SELECT_12_1
#undef VRAM__RULES_SELECT_12_4
#undef VRAM__RULES_SELECT_12_6
#undef VRAM__RULES_SELECT_13_2
#undef VRAM__RULES_CUB_12_1
#undef VRAM__RULES_CUB_12_4
#undef VRAM__RULES_CUB_12_6
#undef VRAM__RULES_CUB_13_0
#undef VRAM__RULES_CUB_13_2
#undef VRAM__RULES_REST
#undef VRAM__DOES_1_10
#undef VRAM__DOES_1_11
#undef VRAM__DOES_2_0
#undef VRAM__DOES_2_2
#undef VRAM__DOES_2_1
#undef VRAM__DOES_2_4
#undef VRAM__DOES_2_5
#undef VRAM__DOES_2_8
#undef VRAM__DOES_2_9
#undef VRAM__DOES_2_10
#undef VRAM__DOES_2_11
#undef VRAM__DOES_2_12
#undef VRAM__DOES_2_13
#undef VRAM__DOES_2_14
#undef VRAM__DOES_2_15

/* The rules of a version; those that are none of PyTorch's have the newest's constants. */
VRAM__FN const vram__rules *vram__rules_of_torch(vram_rules version) {
  uint32_t i = (uint32_t)(sizeof vram__rules_rows / sizeof *vram__rules_rows) - 1;
  while (i && version > VRAM_RULES_IDEAL && vram__rules_rows[i].since > (uint32_t)version)
    i--;
  return &vram__rules_rows[i];
}
