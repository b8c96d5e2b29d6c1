/* >>torch/rules    constants of PyTorch and the libraries that it calls, a row for each version */
#pragma once
#include "core/core.h"

/* What a version does that another does not. */
/* layer_norm.cpp: it has a kernel of its own (_fused_rms_norm) */
#define VRAM__RMS_NORM_FUSED 1u
/* TensorIndexing.h, applySlice: what `:` gives of an axis is a view */
#define VRAM__COLON_VIEW 2u
/* Linear.cpp, linear: of folded axes it is a view for autograd */
#define VRAM__LINEAR_VIEW 4u
/* EmbeddingBackwardKernel.cu: sums of few rows are not stored */
#define VRAM__EMBEDDING_FUSED 8u
/* torch.optim has it */
#define VRAM__ADAFACTOR 16u
/* torch.optim has it */
#define VRAM__MUON 32u
/* derivatives.yaml, maximum and minimum: what masked_fill_ takes comes behind where(..), else
   before it */
#define VRAM__MASK_LAST 64u
/* Convolution.cpp, use_cudnn: not in 16 bits along three axes */
#define VRAM__CONV3D_HALF_SLOW 128u
/* cudnn_is_acceptable: recurrent nets in bf16 */
#define VRAM__RNN_BF16 256u
/* attention.cpp, preprocess_mask: before it is aligned */
#define VRAM__MASK_EXPANDED 512u
/* autocast_mode.h, AT_FORALL_FP32: interpolate is in the list */
#define VRAM__UPSAMPLE_F32 1024u
/* sdp_utils.cpp: flash attention of the first generation, which comes behind memory-efficient
   attention where there are few queries */
#define VRAM__FLASH_1 2048u
/* sdp_utils.cpp: heads that cuDNN's attention trains are listed */
#define VRAM__CUDNN_PAIRS 4096u
/* functional.py, multi_head_attention_forward: no `del q, k, v` */
#define VRAM__MHA_KEEPS 8192u
/* attention.cu, native_multi_head_attention_cuda: fused kernels only for heads of a multiple of 8
 */
#define VRAM__MHA_EIGHTS 16384u
/* autocast_mode.cpp, cached_cast: with grad mode on, under no_grad, too */
#define VRAM__CAST_GRAD 32768u
/* Distance.cpp, cosine_similarity: eps is a tensor */
#define VRAM__COSINE_EPS 65536u
/* cuDNN from 9.8 on (with torch 2.8): filters of one value go the way of the others; fp32 without
   tensor cores through Winograd's form without a workspace of images */
#define VRAM__CUDNN_9_8 131072u
/* derivatives.yaml: _softmax and _log_softmax save their input, too */
#define VRAM__SOFTMAX_INPUT 262144u
/* torch.optim: foreach only if it is asked for */
#define VRAM__OPTIM_LOOPS 524288u
/* torch/optim/adam.py: sqrt and denom are two lists */
#define VRAM__OPTIM_DENOM 1048576u
/* EmbeddingBackwardKernel.cu: sorts indices by all bits, not only by those that rows have
   (measured) */
#define VRAM__EMBEDDING_ALL_BITS 2097152u
/* derivatives.yaml, mean: self.sym_numel() keeps the input */
#define VRAM__MEAN_INPUT 4194304u
/* distributed/pipelining/stage.py: a stage has buffers for what all microbatches receive, from the
   first step on, and holds what it sent until its backward */
#define VRAM__PIPE_KEEPS 8388608u
/* the same: each of these buffers wants a gradient, and neighbours greet one another */
#define VRAM__PIPE_WANTS 16777216u
/* schedules.py: step() always returns outputs; _backward.py, stage_backward: inputs keep their
   gradients */
#define VRAM__PIPE_RETURNS 33554432u
/* _backward.py, stage_backward_weight: sum(..) of what a function was given */
#define VRAM__PIPE_SUMS 134217728u
/* autocast_mode.h, AT_FORALL_FP32: rms_norm is in the list */
#define VRAM__RMS_NORM_F32 67108864u

/* How attention of ordinary ops is composed. */
enum {
  VRAM__MATH_PLAIN, /* in its own dtype, with softmax; boolean masks fill zeros */
  VRAM__MATH_WHERE, /* 16 bits run in fp32, with _safe_softmax, which selects into a new tensor;
                       masks are negated */
  VRAM__MATH_SAFE   /* the same with masks as they are, and rows overwritten */
};

/* What the numbers of a step follow from, beside the rules that are code. Of each group stands here
   where its constants are in the sources of the version that a row is of; `measured`: in no source,
   found by measuring. Devices in three groups: below cc 8.0; below cc 9.0; 9.0 and newer. For cub's
   selections and scans by key: cc 8.0 alone; the others below 9.0 are in the first group. */
typedef struct vram__rules {
  uint32_t since;                  /* of VRAM_RULES_TORCH_...: up to the next row */
  uint32_t does;                   /* bits of the enum above */
  const char *cuda, *bitsandbytes; /* versions */

  /* cuDNN's recurrent nets. What cuDNN asks for is known at run time only
     (cudnnGetRNNTempSpaceSizes, cudnnDropoutGetStatesSize): these are guesses. Values of every step
     and unit: the workspace has the gates; the reserve has what backward needs at least, the gates,
     the cell state and the hidden state of every layer, one more for the gru; a real cuDNN may take
     more. */
  struct {
    uint8_t reserve[3];    /* rnn, lstm, gru */
    int64_t dropout_state; /* a state for every thread of the device */
  } recurrent;

  struct {
    uint64_t workspace, workspace_sm90; /* CUDABlas.cpp, parseChosenWorkspaceSize */
    uint64_t lt_workspace;              /* of a product with a bias, Blas.cpp */
    /* Workspaces stay with the handle and the stream: one for the caller's thread, one for
       backward's (CublasHandlePool.cpp). 0: each call has its own. */
    uint8_t kept, lt_kept;
  } cublas;

  struct {
    uint8_t cudnn_first; /* sdp_utils.cpp, priority_order: on Hopper and Blackwell */
    uint8_t device_seed; /* attention.cu: seed and offset are on the device without dropout, too */
    uint8_t flash_seed;  /* flash_api.cpp, mha_fwd: those of flash attention are */
    uint8_t gqa;         /* attention.cpp: scaled_dot_product_attention has enable_gqa, */
    uint8_t efficient_gqa; /* and can_use_mem_efficient_attention takes it */
    uint8_t math;          /* attention.cpp, _scaled_dot_product_attention_math and
                              convert_boolean_attn_mask:          VRAM__MATH_... */
  } attention;

  struct { /* sdp_utils.cpp, check_cudnn_tensor_shapes: widest head on Hopper and Blackwell, on
              others; check_cudnn_dropout: dropout_p must be a multiple of one of so many parts */
    int64_t width_large, width;
    uint64_t dropout;
  } cudnn_attention;

  /* cub's temporary storage (measured; the sizes follow from the tiles of cub's tuning policies): a
     sum of parts that are rounded up to `align`, and align - 1 to align the first. */
  struct {
    uint64_t align;
    uint8_t scan_parts;        /* small parts beside the look-back of a scan, */
    uint8_t unique_parts;      /* of unique_by_key */
    uint64_t sort_pass;        /* radix sort: histograms of 8 bits */
    uint64_t sort_look;        /* and look-back of one tile */
    uint64_t sort_spine;       /* counters of the older radix sort beside its digits */
    uint16_t sort_tile[3][10]; /* values in one tile of a radix sort of pairs: keys of 1, 2, 4, 8
                                  bytes with values of 8, keys of 4 with values of 4, numbers of
                                  segments with values of 8; keys of 1, 2, 4, 8 bytes alone; 0: the
                                  older sort */
    uint64_t one_tile_8, one_tile_4; /* what one block sorts without storage: keys or values of 8
                                        bytes, of at most 4 */
    uint16_t select_tile[3][3];      /* unique_by_key with keys of 8 and of 4 bytes, a selection */
    uint16_t by_key_tile[3][2];      /* a scan by keys of 8 and of 4 bytes */
    uint64_t scan_tile_2, scan_tile_4, scan_tile_8; /* a scan of values of so many bytes */
    uint64_t scan_block,
        scan_items;      /* of complex numbers: threads, and values of 4 bytes of each */
    uint64_t scan_pad;   /* tiles of look-back before the first */
    uint64_t one_reduce; /* values that one block reduces without storage */
  } cub;

  uint64_t embedding_sorted; /* Embedding.cu: more indices than this are sorted */

  struct {              /* Sort.cu */
    uint64_t in_place;  /* rows up to this are sorted in place */
    uint64_t segments;  /* so many rows are sorted as segments */
    uint64_t large_row; /* rows from this on one after the other */
  } sort;

  struct {                    /* TensorTopK.cu */
    uint64_t blocks, threads; /* of a multiprocessor, of a block */
  } topk;

  struct { /* CUTLASS workspace of a grouped product, bytes a multiprocessor: cc 9.0; 10.0, where
              larger tiles take 5888 (measured) */
    uint64_t sm90, sm100;
  } grouped;

  struct {                 /* Reduce.cuh */
    int64_t threads;       /* of a block (MAX_NUM_THREADS) */
    int64_t least_values;  /* that a thread reduces */
    int64_t most_values;   /* before an output is split over blocks */
    int64_t vectorized;    /* values of the fastest axis from which on they are vectors */
    uint32_t input_vector; /* values of such a vector (input_vec_size) */
    int64_t output_vector; /* outputs that a thread has at once, at most */
  } reduce;

  int64_t grid_yz; /* CUDA: blocks of a grid along y and z */
  int64_t warp;    /* threads */

  struct {         /* sdp_utils.cpp */
    int64_t width; /* widest head of flash attention (check_head_dim_size_flash) */
    /* Devices of cc 8.6, 8.9 and 12 train heads up to the next, and without dropout those beyond
       the last (check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120). */
    int64_t sm86_to, sm86_from;
    /* flash_api.cpp: rows of a block and most splits (set_params_splitkv); backward's rows are
       rounded up (mha_bwd, seqlen_q_rounded) */
    int64_t block_m, splits, rows;
  } flash;

  /* mem_eff_attention: the log-sum-exp's rows are rounded up (kAlignLSE), wider heads need an
     accumulator for the output (kMaxK), the columns of a mask's gradient are rounded up (alignTo),
     bytes of a tile's lock (GradQTempStorage). attention_backward.cu, keys splitting heuristic: so
     many blocks are enough without splits; of batches times heads times splits there are at most so
     many. */
  struct {
    int64_t lse, width, mask, lock, parallel, splits;
  } efficient;

  struct { /* layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel: with more rows than this sums
              for weight and bias may go through partial ones, in a grid of so many blocks
              (max_grid_size) */
    int64_t rows, grid;
  } layer_norm;

  struct {
    int64_t batch, batch_eval; /* Normalization.cpp, use_cudnn: the largest batch, in evaluation */
    /* Normalization.cuh: threads of a block (MAX_BLOCK_SIZE), those along the channels
       (OPTIMAL_TILE_W), rows of a thread (ELEMENTS_PER_THREAD), most blocks along the rows
       (MAX_H_BLOCK), fewest that work together */
    int64_t threads, tile, elements, grid, cooperative;
  } batch_norm;

  uint64_t foreach_chunk; /* MultiTensorApply.cuh: elements of a tensor that one block works on */

  struct { /* bitsandbytes, optim/optimizer.py: fewest elements that are kept in 8 bits
              (min_8bit_size), elements with one scale (blocksize), and that a paged optimizer
              keeps in managed memory (get_state_buffer) */
    uint64_t least, block, paged;
  } eight_bit;

  struct { /* bitsandbytes, backends/cuda/ops.py, gemm_4bit: more rows than this are always
              multiplied by F.linear (_gemm_4bit_custom_max_m), so few never
              (_GEMM_4BIT_CUSTOM_FLOOR_M); functional.py, quantize_4bit: values with one scale,
              and scales with one of their own */
    int64_t rows, few_rows, block, nested_block;
  } four_bit;

  /* Kernels that a process has on a device beside its bare context (vram__context_bare), in bytes,
     without lazy loading (before CUDA 11.7, torch 1.13): all, by cc. CUDA 11, without cuDNN: V100
     1014 MiB (torch 1.10), A100 998 (24 programs of GPUMemNet), RTX 3090 1228 (1.7.1) and 1427
     (1.8.2, pytorch/pytorch#49877 and #55277); cuDNN is 347 more on an A100. CUDA 10: GTX 1080 615
     (1.8.2), TITAN RTX 640 (1.4), RTX 2080 Ti 721 (1.6). */
  struct {
    uint64_t eager_kernels[3]; /* before cc 8.0, of 8.0, of newer ones */
    uint64_t eager_least, eager_cudnn, cuda10_kernels, cuda10_least, all_kernels;
  } context;

  /* cuDNN's guide, algorithms of convolutions: values of a side of the tiles that WINOGRAD_NONFUSED
     makes and that FFT_TILING transforms. What is expected of its heuristics (cudnn.c), as those of
     cuDNN 9.8 and 9.26 answer for descriptions of an A100, H100, RTX 3090, RTX 4090, T4 and V100:
     channels that an image has at most, and values of a filter from which images are copied, too;
     C*K / (C + K) up to which results, gradients of inputs and of weights are not made by tensor
     cores: fp32 with filters of 3x3, and filters of one value, of cc that end in 0 and of others,
     whose fp32 is as fast as TF32, in fp32 and in 16 bits; rows and columns of the tile of a
     weight's gradient that one multiprocessor makes, and the sum that is worth another one; values
     of a fused Winograd filter; the smallest filter that goes through FFT before 9.8; parts of a
     sum in the largest workspace that cudnn.benchmark tries: enough for 98 % of 3,600 answers. */
  struct {
    int64_t winograd_tile, fft_tile, fft_least;
    uint64_t image_channels, image_filter, narrow_3x3[3], narrow_point[2][2][3];
    uint64_t split_tile, split_least, fused_filter, search_parts;
  } cudnn_conv;
} vram__rules;
