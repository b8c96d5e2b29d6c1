/* What a serving engine keeps of a model, for the command. */
#ifndef VRAM_SERVE_H
#define VRAM_SERVE_H

#include "vram_command.h"

#define HELP_SERVE                                                                                 \
  "serving engine\n"                                                                               \
  "  --engine vllm|sglang  blocks and tokens that it keeps of a config.json, folder\n"             \
  "                        with one, or --kv; beside --gpu, --json, --rules:\n"                    \
  "  --kv ROWS             full:LAYERSxHEADSxDIM[xVALUE_DIM], latent:LAYERSxDIM,\n"                \
  "                        sliding:LAYERSxHEADSxDIM@WINDOW, chunked: the same,\n"                  \
  "                        state:LAYERSxELEMENTS[DTYPE][+...], divided by commas\n"                \
  "  --max-model-len N     tokens of one request\n"                                                \
  "  --memory SIZE         of the device, instead of --gpu\n"                                      \
  "  --util X              share of it (default: the engine's)\n"                                  \
  "  --weights SIZE        of the model, in equal shares for all ranks\n"                          \
  "  --tp N                ranks (default: 1)\n"                                                   \
  "  --kv-cache-dtype TYPE (default: bf16)\n"                                                      \
  "  --kv-cache-memory SIZE\n"                                                                     \
  "                        known: no range\n"                                                      \
  "  --num-speculative-tokens N\n"                                                                 \
  "                        of the draft: as many states more for a request\n"                      \
  "  --block-size N        tokens of a block (default: the engine's)\n"                            \
  "  --max-num-batched-tokens N\n"                                                                 \
  "                        SGLang: --chunked-prefill-size (default of both: by\n"                  \
  "                        the size of the device)\n"                                              \
  "  --max-num-seqs N      SGLang: --cuda-graph-max-bs (default: the same)\n"                      \
  "  --offline             vLLM's class LLM, not a server: larger batches\n"                       \
  "  --hidden N            of the model, for the range of the trial run\n"                         \
  "  --intermediate N      the same\n"                                                             \
  "  --vocab N             the same\n"                                                             \
  "  --enforce-eager       no CUDA graphs\n"                                                       \
  "  --disable-hybrid-kv-cache-manager\n"                                                          \
  "                        windows take blocks for all tokens\n"                                   \
  "  --mamba-prefix-caching, --no-enable-prefix-caching\n"                                         \
  "                        two states for a request, or one (default: the\n"                       \
  "                        engine's: one up to vLLM 0.19)\n"

/* Those that mean nothing without --engine. */
#define SERVE_OPTIONS                                                                              \
  "--kv --util --memory --weights --kv-cache-memory --kv-cache-dtype --max-model-len "             \
  "--num-speculative-tokens --max-num-batched-tokens --max-num-seqs --tp --block-size --hidden "   \
  "--intermediate --vocab "                                                                        \
  "--enforce-eager --disable-hybrid-kv-cache-manager --mamba-prefix-caching "                      \
  "--no-enable-prefix-caching --offline"

enum { SERVE_ROWS = VRAM_SERVE_MAX_ROWS };

/* What a reader of model files fills in; what it does not know stays 0. */
typedef struct serve_model {
  const char *name;
  vram_kv_layer layer[SERVE_ROWS];
  vram_kv kv;             /* of these rows */
  uint64_t weights_bytes; /* of the whole model */
  uint64_t max_model_len; /* that the model was made for */
  uint32_t hidden, intermediate, vocab, experts_used;
  const vram_hf_config *config; /* whose rows are made for the engine; NULL: --kv */
  vram_dtype served, cache;     /* dtypes of the model, and of keys and values */
} serve_model;

typedef struct serve {
  serve_model model;
  vram_serve_options o;
  vram_serve_report r;
  vram_kv_report kv;
  const char *gpu, *solve;
  uint64_t weights;
  int json, rows, help, is_fit, is_small;
} serve;

/* `vram estimate --engine`, or `fit`: the arguments, and the model where a file was read (NULL:
   --kv has its layers). The exit status. */
int serve_command(int argc, char **argv, const serve_model *m, int is_fit);

/* What the engine makes of v's model and options, in v->r and v->kv. Not FITS: message printed. */
int serve_run(serve *v);
int serve_fit(serve *v);
void serve_json_rules(const serve *v);

#endif
