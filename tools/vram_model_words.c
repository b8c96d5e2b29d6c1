/* The options of llama.cpp by its own names (common/arg.cpp), for command lines that are there
   already: what they are called here. */
#include "vram_model.h"

#define INHERIT NULL

static const struct own_word {
  const char *names; /* llama.cpp's */
  const char *option;
  const char *value; /* of a name that takes none there; INHERIT: what stands behind it */
} own_words[] = {
    {"-m --model", "", INHERIT},
    {"-c --ctx-size", "--ctx", INHERIT},
    {"-b --batch-size", "--n-batch", INHERIT},
    {"-ub --ubatch-size", "--n-ubatch", INHERIT},
    {"-np --parallel", "--slots", INHERIT},
    {"-kvu --kv-unified", "--unified", "1"},
    {"-no-kvu --no-kv-unified", "--unified", "0"},
    {"-ctk --cache-type-k", "--cache-k", INHERIT},
    {"-ctv --cache-type-v", "--cache-v", INHERIT},
    {"-fa", "--flash-attn", INHERIT},
    {"-ngl --gpu-layers --n-gpu-layers", "--ngl", INHERIT},
    {"-sm", "--split-mode", INHERIT},
    {"-ts", "--tensor-split", INHERIT},
    {"-mg", "--main-gpu", INHERIT},
    {"-ot", "--override-tensor", INHERIT},
    {"-ncmoe", "--n-cpu-moe", INHERIT},
    {"-cmoe --cpu-moe", "--n-cpu-moe", "512"}, /* LLAMA_MAX_LAYERS */
    {"-nkvo", "--no-kv-offload", ""},
    {"-nr --no-repack", "--repack", "0"},
    {"--embeddings", "--embedding", ""},
};

const char *model_own_word(const char *a, const char **value, int *is_flag) {
  size_t i;
  for (i = 0; i < sizeof own_words / sizeof *own_words; i++)
    if (cmd_in(a, own_words[i].names)) {
      *is_flag = own_words[i].value != INHERIT;
      if (*is_flag)
        *value = own_words[i].value;
      return own_words[i].option;
    }
  return NULL;
}
