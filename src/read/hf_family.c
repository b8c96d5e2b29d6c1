/* >>read/hf_family    families of models of transformers: what their config.json leaves out, and of
   which parts a layer consists (transformers 5.23: models/TYPE/configuration_TYPE.py and
   modeling_TYPE.py). One row of numbers: vocab, hidden, intermediate, layers, heads, kv_heads,
   head_dim, window; norms of a layer, tied, which layers
   slide; behind the flags experts, their width, shared ones, dense layers before them. */
#include "read/read.h"

/* clang-format off */
static const vram__hf_family vram__hf_families[] = {
  {"llama", 32000, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MLP_KEY, 0, 0, 0, 0},
  {"mistral", 32000, 4096, 14336, 32, 32, 8, 0, 4096, 2, 0, VRAM__HF_ALL,
    0, 0, 0, 0, 0},
  {"mixtral", 32000, 4096, 14336, 32, 32, 8, 0, 0, 2, 0, VRAM__HF_ALL,
    VRAM__HF_MOE, 8, 0, 0, 0},
  {"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 4096, 2, 0, VRAM__HF_ABOVE,
    VRAM__HF_QKV_BIAS, 0, 0, 0, 0},
  {"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 4096, 2, 0, VRAM__HF_ABOVE,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM, 0, 0, 0, 0},
  {"qwen3_moe", 151936, 2048, 6144, 24, 32, 4, 0, 4096, 2, 0, VRAM__HF_USED,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM | VRAM__HF_MOE, 128, 768, 0, 0},
  {"gemma", 256000, 3072, 24576, 28, 16, 16, 256, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O, 0, 0, 0, 0},
  {"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 4096, 4, 1, VRAM__HF_PERIOD2,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O, 0, 0, 0, 0},
  {"gemma3_text", 262208, 2304, 9216, 26, 8, 4, 256, 4096, 4, 1, VRAM__HF_PERIOD6,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM, 0, 0, 0, 0},
  {"gemma3", 262208, 2304, 9216, 26, 8, 4, 256, 4096, 4, 1, VRAM__HF_PERIOD6,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM | VRAM__HF_VISION, 0, 0, 0, 0},
  {"phi", 51200, 2048, 8192, 24, 32, 0, 0, 0, 1, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS |
    VRAM__HF_QK_KEY |
    VRAM__HF_HEAD_BIAS, 0, 0, 0, 0},
  {"phi3", 32064, 3072, 8192, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_ALL,
    VRAM__HF_FUSED_QKV | VRAM__HF_FUSED_UP, 0, 0, 0, 0},
  {"phimoe", 32064, 4096, 6400, 32, 32, 8, 0, 0, 2, 0, VRAM__HF_ALL,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_NORM_BIAS | VRAM__HF_HEAD_KEY | VRAM__HF_MOE, 16, 0, 0, 0},
  {"olmo", 50304, 4096, 11008, 32, 32, 0, 0, 0, 0, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O, 0, 0, 0, 0},
  {"olmo2", 50304, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_FULL, 0, 0, 0, 0},
  {"olmoe", 50304, 2048, 2048, 16, 16, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_FULL | VRAM__HF_MOE, 64, 0, 0, 0},
  {"granite", 32000, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MLP_KEY, 0, 0, 0, 0},
  {"granitemoe", 32000, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MOE, 8, 0, 0, 0},
  {"cohere", 256000, 8192, 22528, 40, 64, 0, 0, 0, 1, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_HEADS, 0, 0, 0, 0},
  {"cohere2", 256000, 8192, 22528, 40, 64, 0, 0, 4096, 1, 1, VRAM__HF_PERIOD4,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O, 0, 0, 0, 0},
  {"gpt_neox", 50432, 6144, 24576, 44, 64, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_KEY_TRUE | VRAM__HF_FUSED_QKV | VRAM__HF_PLAIN |
    VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS, 0, 0, 0, 0},
  {"gptj", 50400, 4096, 0, 28, 16, 0, 0, 0, 1, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS | VRAM__HF_HEAD_BIAS, 0, 0, 0, 0},
  {"gpt2", 50257, 768, 0, 12, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_FUSED_QKV | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS |
    VRAM__HF_NORM_BIAS | VRAM__HF_POSITIONS, 0, 0, 0, 0},
  {"bloom", 250880, 64, 0, 2, 8, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_FUSED_QKV | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS |
    VRAM__HF_NORM_BIAS | VRAM__HF_EMBED_NORM, 0, 0, 0, 0},
  {"stablelm", 50304, 2560, 6912, 32, 32, 32, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_STABLELM | VRAM__HF_NORM_BIAS, 0, 0, 0, 0},
  {"starcoder2", 49152, 3072, 12288, 30, 24, 2, 0, 0, 2, 1, VRAM__HF_ALL,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_KEY_TRUE | VRAM__HF_PLAIN | VRAM__HF_MLP_KEY |
    VRAM__HF_NORM_BIAS, 0, 0, 0, 0},
  {"nemotron", 256000, 6144, 24576, 32, 48, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_PLAIN | VRAM__HF_MLP_KEY | VRAM__HF_NORM_BIAS, 0, 0, 0, 0},
  {"arcee", 32000, 2560, 18432, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_PLAIN | VRAM__HF_MLP_KEY, 0, 0, 0, 0},
  {"ernie4_5", 103424, 1024, 3072, 18, 16, 2, 128, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MLP_KEY, 0, 0, 0, 0},
  {"smollm3", 128256, 2048, 11008, 36, 16, 4, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MLP_KEY, 0, 0, 0, 0},
  {"exaone4", 102400, 4096, 16384, 32, 32, 32, 0, 4096, 2, 0, VRAM__HF_PERIOD4,
    VRAM__HF_QK_NORM, 0, 0, 0, 0},
  {"glm", 151552, 4096, 13696, 40, 32, 2, 128, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_TRUE | VRAM__HF_FUSED_UP, 0, 0, 0, 0},
  {"glm4", 151552, 4096, 13696, 40, 32, 2, 128, 0, 4, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_TRUE | VRAM__HF_FUSED_UP, 0, 0, 0, 0},
  {"glm4_moe", 151552, 4096, 10944, 46, 96, 8, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_QK_KEY | VRAM__HF_MOE | VRAM__HF_CORRECTION, 128, 1408, 1, 1},
  {"deepseek_v2", 102400, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_MLA | VRAM__HF_MOE | VRAM__HF_KEY_QKV | VRAM__HF_KEY_O, 64, 1407, 2, 0},
  {"deepseek_v3", 129280, 7168, 18432, 61, 128, 128, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_MLA | VRAM__HF_MOE | VRAM__HF_CORRECTION | VRAM__HF_KEY_QKV | VRAM__HF_KEY_O, 256, 2048, 1, 3},
  {"gpt_oss", 201088, 2880, 2880, 36, 64, 8, 64, 128, 2, 0, VRAM__HF_PERIOD2,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_KEY_TRUE | VRAM__HF_MOE | VRAM__HF_SINKS, 128, 0, 0, 0},
  {"ministral3", 131072, 4096, 14336, 34, 32, 8, 128, 0, 2, 0, VRAM__HF_ALL,
    0, 0, 0, 0, 0},
  {"qwen2_moe", 151936, 2048, 5632, 24, 16, 16, 0, 4096, 2, 0, VRAM__HF_BELOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_TRUE | VRAM__HF_BIAS_QKV | VRAM__HF_MOE | VRAM__HF_SHARED_GATE, 60, 1408, 5632, 0},
  {"qwen3_next", 151936, 2048, 5632, 48, 16, 2, 256, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM | VRAM__HF_MOE | VRAM__HF_SHARED_GATE |
    VRAM__HF_DELTA, 512, 512, 512, 0},
  {"qwen3_5_text", 248320, 4096, 12288, 32, 16, 4, 256, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM | VRAM__HF_DELTA | VRAM__HF_DELTA_SPLIT, 0, 0, 0, 0},
  {"falcon", 65024, 4544, 0, 32, 71, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_BIAS_ALL | VRAM__HF_FUSED_QKV | VRAM__HF_PLAIN |
    VRAM__HF_NORM_BIAS | VRAM__HF_FALCON | VRAM__HF_ONE_KV, 0, 0, 0, 0},
  {"opt", 50272, 768, 3072, 12, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_KEY_TRUE | VRAM__HF_BIAS_ALL | VRAM__HF_PLAIN |
    VRAM__HF_NORM_BIAS | VRAM__HF_POSITIONS | VRAM__HF_2048_POSITIONS | VRAM__HF_OPT, 0, 0, 0, 0},
  {"mpt", 50368, 2048, 0, 24, 16, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_FUSED_QKV | VRAM__HF_PLAIN, 0, 0, 0, 0},
  {"gpt_neo", 50257, 2048, 0, 24, 16, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS | VRAM__HF_POSITIONS | VRAM__HF_2048_POSITIONS, 0, 0, 0, 0},
  {"gpt_bigcode", 50257, 768, 0, 12, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_FUSED_QKV | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS |
    VRAM__HF_NORM_BIAS | VRAM__HF_POSITIONS | VRAM__HF_ONE_KV, 0, 0, 0, 0},
  {"codegen", 50400, 4096, 0, 28, 16, 0, 0, 0, 1, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_FUSED_QKV | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS | VRAM__HF_HEAD_BIAS, 0, 0, 0, 0},
  {"olmo3", 50304, 4096, 11008, 32, 32, 0, 0, 4096, 2, 0, VRAM__HF_PERIOD4,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_FULL, 0, 0, 0, 0},
  {"seed_oss", 155136, 4096, 27648, 64, 80, 8, 128, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_TRUE | VRAM__HF_O_KEY | VRAM__HF_MLP_KEY, 0, 0, 0, 0},
  {"apertus", 131072, 4096, 14336, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM | VRAM__HF_PLAIN | VRAM__HF_XIELU, 0, 0, 0, 0},
  {"hunyuan_v1_dense", 290943, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM, 0, 0, 0, 0},
  {"hunyuan_v1_moe", 290943, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM | VRAM__HF_MOE, 1, 0, 1, 0},
  {"granitemoeshared", 32000, 4096, 11008, 32, 32, 0, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MOE | VRAM__HF_SHARED_WIDTH, 8, 0, 0, 0},
  {"ernie4_5_moe", 103424, 2560, 12288, 28, 20, 4, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MLP_KEY | VRAM__HF_MOE | VRAM__HF_ERNIE_MOE, 64, 1536, 2, 0},
  {"dots1", 152064, 4608, 10944, 62, 32, 32, 0, 4096, 2, 0, VRAM__HF_ABOVE,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_QK_NORM | VRAM__HF_MOE | VRAM__HF_CORRECTION, 0, 1408, 0, 0},
  {"llama4_text", 202048, 5120, 8192, 48, 40, 8, 128, 8192, 2, 0, VRAM__HF_PERIOD4,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MOE | VRAM__HF_LLAMA4, 16, 0, 1, 0},
  {"falcon_mamba", 50280, 768, 0, 32, 1, 0, 0, 0, 1, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_MAMBA, 0, 0, 0, 0},
  {"mamba", 50280, 768, 0, 32, 1, 0, 0, 0, 1, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_MAMBA, 0, 0, 0, 0},
  {"mamba2", 32768, 4096, 0, 64, 128, 0, 64, 0, 1, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_MAMBA2, 0, 0, 0, 0},
  {"jamba", 65536, 4096, 14336, 32, 32, 8, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_MOE | VRAM__HF_JAMBA, 16, 0, 0, 0},
  {"falcon_h1", 128000, 4096, 14336, 32, 32, 8, 0, 0, 2, 0, VRAM__HF_NO_WINDOW,
    VRAM__HF_KEY_QKV | VRAM__HF_KEY_O | VRAM__HF_MLP_KEY | VRAM__HF_FALCON_H1, 0, 0, 0, 0},
  {"lfm2", 65536, 2560, 12288, 32, 32, 8, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QK_NORM | VRAM__HF_LFM2, 0, 0, 0, 0},
  {"bert", 30522, 768, 3072, 12, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS |
    VRAM__HF_POSITIONS | VRAM__HF_EMBED_NORM | VRAM__HF_ENCODER, 0, 0, 0, 0},
  {"roberta", 50265, 768, 3072, 12, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS |
    VRAM__HF_POSITIONS | VRAM__HF_EMBED_NORM | VRAM__HF_ENCODER, 0, 0, 0, 0},
  {"distilbert", 30522, 768, 3072, 6, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS |
    VRAM__HF_POSITIONS | VRAM__HF_EMBED_NORM | VRAM__HF_ENCODER | VRAM__HF_DISTIL, 0, 0, 0, 0},
  {"electra", 30522, 256, 1024, 12, 4, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS |
    VRAM__HF_POSITIONS | VRAM__HF_EMBED_NORM | VRAM__HF_ENCODER | VRAM__HF_ELECTRA, 0, 0, 0, 0},
  {"xlm-roberta", 30522, 768, 3072, 12, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS |
    VRAM__HF_POSITIONS | VRAM__HF_EMBED_NORM | VRAM__HF_ENCODER, 0, 0, 0, 0},
  {"camembert", 30522, 768, 3072, 12, 12, 0, 0, 0, 2, 1, VRAM__HF_NO_WINDOW,
    VRAM__HF_QKV_BIAS | VRAM__HF_O_BIAS | VRAM__HF_PLAIN | VRAM__HF_MLP_BIAS | VRAM__HF_NORM_BIAS |
    VRAM__HF_POSITIONS | VRAM__HF_EMBED_NORM | VRAM__HF_ENCODER, 0, 0, 0, 0},
};
/* clang-format on */

/* The row of a model_type; NULL: there is none. */
VRAM__FN const vram__hf_family *vram__hf_find(const char *type, uint64_t len) {
  uint32_t i;
  for (i = 0; i < sizeof vram__hf_families / sizeof *vram__hf_families; i++)
    if (len <= UINT32_MAX && vram__text_is(type, (uint32_t)len, vram__hf_families[i].type))
      return vram__hf_families + i;
  return NULL;
}
