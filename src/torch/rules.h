/* >>torch/rules    constants of PyTorch 2.15 and the libraries that it calls */
#pragma once
#include "core/core.h"

/* cuDNN's recurrent nets. What cuDNN asks for is known at run time only (cudnnGetRNNTempSpaceSizes,
   cudnnDropoutGetStatesSize): these are guesses. Values of every step and unit: the workspace has
   the gates; the reserve has what backward needs at least, the gates, the cell state and the hidden
   state of every layer, one more for the gru; a real cuDNN may take more. */
#define VRAM__RNN_RESERVE_LSTM 6u
#define VRAM__RNN_RESERVE_GRU 5u
#define VRAM__RNN_RESERVE_RNN 2u
#define VRAM__RNN_DROPOUT_STATE 4194304u /* a state for every thread of the device */

#define VRAM__RULE_CUBLASLT_WORKSPACE 1048576u /* of a product with a bias, Blas.cpp */

/* cub's temporary storage (measured; the sizes follow from the tiles of cub's tuning policies): a
   sum of parts that are rounded up to 256 bytes, and 255 to align the first. */
#define VRAM__CUB_PARTS UINT64_C(511)      /* alignment and one small part */
#define VRAM__CUB_SORT_PASS UINT64_C(2048) /* radix sort: histograms of 8 bits */
#define VRAM__CUB_SORT_TILE UINT64_C(1024) /* and look-back of one tile */
#define VRAM__CUB_SPINE UINT64_C(11264)    /* counters of the older radix sort beside its digits */
#define VRAM__CUB_SCAN_PAD 32u             /* tiles of look-back before the first */
/* values in one tile of a radix sort of pairs: keys of 1, 2, 4, 8 bytes with values of 8, keys of 4
   with values of 4, numbers of segments with values of 8; 0: the older sort. Devices of
   cc 7.5; 8.x; 9.0 and newer */
static const uint16_t vram__cub_sort_tile[3][6] = {{0, 0, 2816, 2816, 11776, 2816},
                                                   {0, 0, 3072, 3840, 6528, 3840},
                                                   {3456, 5632, 5376, 4608, 6528, 5760}};
/* pairs that one block sorts without storage: keys and values of 8 bytes, of 4 */
#define VRAM__CUB_ONE_TILE_8 2304u
#define VRAM__CUB_ONE_TILE_4 4864u
/* values in one tile of unique_by_key with keys of 8 and of 4 bytes, and of a selection: devices of
   cc 7.5, 8.6 and 8.9; 8.0; 9.0 and newer */
static const uint16_t vram__cub_select_tile[3][3] = {
    {160, 352, 640}, {672, 1408, 2304}, {2464, 3584, 4224}};
/* values in one tile of a scan by keys of 8 and of 4 bytes, devices as above */
static const uint16_t vram__cub_by_key_tile[3][2] = {{1152, 1152}, {1120, 1920}, {1232, 2016}};
/* values in one tile of a scan of 2, 4 and 8 bytes */
#define VRAM__CUB_SCAN_TILE_2 3840u
#define VRAM__CUB_SCAN_TILE_4 1920u
#define VRAM__CUB_SCAN_TILE_8 896u
#define VRAM__CUB_ONE_REDUCE 4096u /* values that one block reduces without storage */

#define VRAM__RULE_EMBEDDING_SORTED 3072u /* Embedding.cu: more indices than this are sorted */
#define VRAM__RULE_SMALL_SORT 4096        /* Sort.cu: rows up to this are sorted in place */
#define VRAM__RULE_SEGMENTS 128           /* Sort.cu: so many rows are sorted as segments */
#define VRAM__RULE_LARGE_ROW 1000000      /* Sort.cu: rows from this on one after the other */
/* CUTLASS workspace of a grouped product, bytes a multiprocessor (cc 9.0; 10.0, where larger tiles
   take 5888) */
#define VRAM__RULE_GROUPED_SM90 512u
#define VRAM__RULE_GROUPED_SM100 5376u
#define VRAM__RULE_TOPK_BLOCKS                                                                     \
  UINT64_C(6) /* TensorTopK.cu: blocks of 256 threads a multiprocessor */

/* Reduce.cuh: threads of a block, values that a thread reduces at least and at most before an
   output is split over blocks, values of the fastest axis from which on inputs are read as vectors
 */
#define VRAM__RULE_REDUCE_THREADS 512
#define VRAM__RULE_REDUCE_LEAST_VALUES 16
#define VRAM__RULE_REDUCE_MOST_VALUES 256
#define VRAM__RULE_REDUCE_VECTORIZED 128

/* Attention. Batch and heads are axes of a kernel's grid, which CUDA limits along y and z. */
#define VRAM__RULE_GRID_YZ 65535
/* sdp_utils.cpp: widest head of flash attention (check_head_dim_size_flash). Devices of cc 8.6, 8.9
   and 12 train heads up to the next, and without dropout those beyond the last
   (check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120). */
#define VRAM__RULE_FLASH_WIDTH 256
#define VRAM__RULE_FLASH_SM86_TO 192
#define VRAM__RULE_FLASH_SM86_FROM 224
/* check_cudnn_tensor_shapes: widest head of cuDNN's on Hopper and Blackwell, on others;
   check_cudnn_dropout: dropout_p must be a multiple of 1/16 */
#define VRAM__RULE_CUDNN_WIDTH_LARGE 256
#define VRAM__RULE_CUDNN_WIDTH 128
#define VRAM__RULE_CUDNN_DROPOUT 16u
/* flash_api.cpp: rows of a block and most splits (set_params_splitkv); backward's rows are rounded
   up (mha_bwd, seqlen_q_rounded) */
#define VRAM__RULE_FLASH_BLOCK_M 64
#define VRAM__RULE_FLASH_SPLITS 128
#define VRAM__RULE_FLASH_ROWS 128
/* mem_eff_attention: the log-sum-exp's rows are rounded up (kAlignLSE), wider heads need an
   accumulator for the output (kMaxK), the columns of a mask's gradient are rounded up
   (alignTo), bytes of a tile's lock (GradQTempStorage) */
#define VRAM__RULE_EFFICIENT_LSE 32
#define VRAM__RULE_EFFICIENT_WIDTH 128
#define VRAM__RULE_EFFICIENT_MASK 16
#define VRAM__RULE_EFFICIENT_LOCK 16
/* attention_backward.cu, keys splitting heuristic: so many blocks are enough without splits; of
   batches times heads times splits there are at most so many */
#define VRAM__RULE_EFFICIENT_PARALLEL 256
#define VRAM__RULE_EFFICIENT_SPLITS 200

#define VRAM__RULE_WARP 32
/* layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel: with more rows than this sums for weight
   and bias may go through partial ones, in a grid of so many blocks (max_grid_size) */
#define VRAM__RULE_NORM_ROWS 65536
#define VRAM__RULE_NORM_GRID 32768
/* Normalization.cpp, use_cudnn: the largest batch that batch_norm takes, and in evaluation */
#define VRAM__RULE_BN_BATCH 880801
#define VRAM__RULE_BN_BATCH_EVAL 65535
/* Normalization.cuh: threads of a block (MAX_BLOCK_SIZE), those along the channels
   (OPTIMAL_TILE_W), rows of a thread (ELEMENTS_PER_THREAD), most blocks along the rows
   (MAX_H_BLOCK), fewest that work together */
#define VRAM__RULE_BN_THREADS 512
#define VRAM__RULE_BN_TILE 32
#define VRAM__RULE_BN_ELEMENTS 16
#define VRAM__RULE_BN_GRID 128
#define VRAM__RULE_BN_COOPERATIVE 8
