/* Files of models (GGUF, safetensors with an index or without, ...), which are known by what they
   hold and read by their headers. */
#ifndef VRAM_MODEL_H
#define VRAM_MODEL_H

#include "vram_command.h"

/* the options for such files */
#define HELP_MODEL                                                                                 \
  "files of models (GGUF, safetensors, an index of shards, a folder of them)\n"                    \
  "                        defaults and the buffers of GGUF are llama.cpp's;\n"                    \
  "                        its own names (-c, -ngl, -ctk, ...) are taken, too\n"                   \
  "  --ctx N               tokens of context (default: as in training)\n"                          \
  "  --n-batch N           tokens of a batch (default: 2048)\n"                                    \
  "  --n-ubatch N          of what is computed at once (default: 512)\n"                           \
  "  --slots N             sequences at a time (default: 1)\n"                                     \
  "  --unified 0|1         one cache for all slots (default: 0)\n"                                 \
  "  --outputs N           rows of logits at most (default: those of a batch)\n"                   \
  "  --kv f16|bf16|f32|q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl\n"                                          \
  "                        type of the cache (default: f16)\n"                                     \
  "  --cache-k f16|bf16|f32|q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl\n"                                     \
  "                        of its keys alone\n"                                                    \
  "  --cache-v f16|bf16|f32|q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl\n"                                     \
  "                        of its values alone\n"                                                  \
  "  --flash-attn auto|on|off\n"                                                                   \
  "                        (default: auto)\n"                                                      \
  "  --ngl N               layers on the devices, with the output (default: all)\n"                \
  "  --device gpu|cpu      cpu: no device at all\n"                                                \
  "  --devices N           equal devices, each with --gpu or --budget (default: 1);\n"             \
  "                        others: a name or size of each, as --gpu rtx4090,rtx3060\n"             \
  "  --tensor-split A,B    their shares of the layers (default: by their memory)\n"                \
  "  --split-mode layer|none\n"                                                                    \
  "                        none: one device alone, --main-gpu\n"                                   \
  "  --main-gpu N          which one, from 0 on\n"                                                 \
  "  --n-cpu-moe N         experts of the first N layers stay on the host\n"                       \
  "  --override-tensor PATTERN=CPU|CUDA0\n"                                                        \
  "                        tensors with such names lie there; repeatable\n"                        \
  "  --no-kv-offload       the cache stays on the host\n"                                          \
  "  --swa-full            sliding windows keep all cells\n"                                       \
  "  --embedding           the output has embeddings, too\n"                                       \
  "  --pooling none|mean|cls|last|rank\n"                                                          \
  "                        of which: as the file says\n"                                           \
  "  --repack 0|1          weights as the CPU's kernels want them (default: 1)\n"

enum { MAX_OVERRIDES = 32 };

typedef struct file_job { /* vram estimate or fit of such a file */
  const char *command;
  const char *model, *gpu; /* gpu: one name, or a list as it was given */
  const char *runs;  /* an option that means nothing without llama.cpp's buffers; NULL: none */
  const char *llama; /* the same of those that a config.json has no use for */
  vram_llama_options o;
  double share[VRAM_LLAMA_MAX_DEVICES];
  vram_llama_override override_tensor[MAX_OVERRIDES];
  uint64_t gpu_bytes[VRAM_LLAMA_MAX_DEVICES], budget[VRAM_LLAMA_MAX_DEVICES];
  uint32_t ngpu, nbudget; /* 0: none; 1: the same for every device */
  int is_whole;           /* budgets are whole devices, with what is beside the buffers */
  int is_shared;          /* layers by the devices' memory, which nobody said */
  int json, csv, table;
  int solve; /* of fit: the place of --solve's word among ctx slots ngl n-cpu-moe */
} file_job;

typedef struct model_file {
  vram_file f;
  void *memory;
  char *path; /* of the first part: what was asked for, or a file in that folder */
} model_file;

/* What a file or folder is; VRAM_FILE_NONE: a text, what cannot be looked at twice (a pipe), or
   nothing. */
vram_file_format model_sniff(const char *path);
/* The file with all its parts. Not FITS: message printed; model_file_close() in any case. */
int model_file_open(model_file *m, const char *path);
/* A program of ExecuTorch in the same memory; closed alike. */
int model_executorch_open(model_file *m, const char *path, vram_executorch *program);
void model_file_close(model_file *m);
/* An index names files of its folder, and none elsewhere. */
int model_is_plain_name(const char *name, size_t n);
/* The same as model_file_open of a config.json of transformers, or of that in a folder; CMD_ABSENT:
 * there is none. */
int model_config_open(model_file *m, const char *path);

/* Files of this format are graphs: commands take them as they take a text. */
int model_is_graph(vram_file_format format);
/* The operator of a file is that one. */
int model_is_op(const vram_file_node *n, const char *op);
/* A config.json of transformers, or a folder with one. */
int model_has_config(const char *path);
struct job; /* vram_job.h */
/* The graph of a file in the text form, with the dims and the generation of j, which may be NULL,
   in *text, which is to be freed. Not FITS: message printed. */
int model_text(const char *path, const struct job *j, char **text, size_t *len);

/* What llama.cpp calls a is that option here ("": the file itself); NULL: it has no such name. A
   flag there (is_flag) has *value here, or none (""). */
const char *model_own_word(const char *a, const char **value, int *is_flag);
/* The first argument that is neither an option of the help text nor the value of one; NULL: there
   is none. */
const char *model_argument(const char *const *help, int argc, char **argv);
/* a is one of HELP_MODEL's */
int model_is_option(const char *a);
/* Whether one of the arguments is. */
int model_has_option(int argc, char **argv);
/* A path that model_sniff does not know and the arguments: FITS, it may be a text; else why it is
   no file of a model is printed. */
int model_refuse(const char *path, int argc, char **argv);
/* What has to be a file of a model, and is none nor a text. */
int model_refuse_file(const char *path);
/* What no command reads as a model, by what is in the file (weights of PyTorch, Keras, a pointer of
   Git LFS, ...) or by the name of what is no file (torchvision:NAME, OWNER/NAME of the Hugging Face
   Hub): its kind and the way from it are printed. FITS: nothing of that. */
int kind_refuse(const char *path, const char *command);
/* A file of a model, for a command that takes what is expected. Prints the error. */
int kind_refuse_model(const char *path, vram_file_format format, const char *expected);
/* Not FITS: message printed; j->model is NULL where help was. */
int model_arguments(file_job *j, const char *command, int argc, char **argv);
/* vram estimate of a file that model_sniff knows. */
int model_estimate(int argc, char **argv);
/* vram fit of a GGUF file. */
int model_fit(int argc, char **argv);
/* A JSON object's first keys, what the file at `path` is; the object stays open. */
void model_summary_json(const model_file *m, const char *path);

/* What is known of a config.json, on standard output. Not FITS: message printed. */
int model_config(const file_job *j, const model_file *m);

/* Do the arguments of vram estimate ask for a step? Then a config.json is a model like others. */
int model_wants_step(int argc, char **argv);

/* Layers and cache as the config.json of a folder has them, behind what is said of its tensors;
   is_asked: options need them. CMD_ABSENT: there is none that is known. */
int model_folder_cache(const file_job *j, const char *path, int is_asked);
/* vram estimate --engine, or fit, of a config.json or a folder with one. */
int model_serve(const char *path, int argc, char **argv, int is_fit);

/* What llama.cpp allocates for m. Not FITS: message printed, or the reason is in `why`, where
   nothing was asked that needs the answer. */
int model_llama(const file_job *j, const model_file *m, vram_llama_report *r, vram_error *why);
/* Bytes that a device may take, UINT64_MAX without a budget. */
uint64_t model_budget(const file_job *j, uint32_t device);
/* "23.5 GiB, rtx4090"; the devices' sizes where they differ. Good until the next call. */
const char *model_devices(const file_job *j);
/* Does it fit the budget on each device, for sure or at least perhaps? */
int model_fits(const file_job *j, const vram_llama_report *r, int surely);
void model_llama_print(const file_job *j, const vram_llama_report *r);
/* Keys of a JSON object, with a comma before each. */
void model_llama_json(const file_job *j, const vram_llama_report *r);

#endif
