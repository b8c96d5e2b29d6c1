/* >>torch/versions    the rules of each version of PyTorch */
#include "torch/torch.h"

/* clang-format off */
static const vram__rules vram__rules_2_15 = {
    "2.15", "13.2", "0.50.2",
    /* recurrent */ {{2, 6, 5}, 4194304},
    /* cublas */ {8519680, 33554432, 1048576},
    /* cub */
    {256, 2048, 1024, 11264,
     {{0, 0, 2816, 2816, 11776, 2816},
      {0, 0, 3072, 3840, 6528, 3840},
      {3456, 5632, 5376, 4608, 6528, 5760}},
     2304, 4864,
     {{160, 352, 640}, {672, 1408, 2304}, {2464, 3584, 4224}},
     {{1152, 1152}, {1120, 1920}, {1232, 2016}},
     3840, 1920, 896, 32, 4096},
    /* embedding_sorted */ 3072,
    /* sort */ {4096, 128, 1000000},
    /* topk */ {6, 256},
    /* grouped */ {512, 5376},
    /* reduce */ {512, 16, 256, 128, 4, 4},
    /* grid_yz, warp */ 65535, 32,
    /* flash */ {256, 192, 224, 64, 128, 128},
    /* cudnn_attention */ {256, 128, 16},
    /* efficient */ {32, 128, 16, 16, 256, 200},
    /* layer_norm */ {65536, 32768},
    /* batch_norm */ {880801, 65535, 512, 32, 16, 128, 8},
    /* eight_bit */ {4096, 256},
    /* four_bit */ {1536, 4, 64, 256},
    /* context */
    {1536, 2048, 16777216, 33554432, 629145600, 1040187392, 377487360, 1468006400},
    /* cudnn_conv */ {4, 32}};
/* clang-format on */

/* The rules of a version; there is one so far. */
VRAM__FN const vram__rules *vram__rules_of_torch(void) { return &vram__rules_2_15; }
