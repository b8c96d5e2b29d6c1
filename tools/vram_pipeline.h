/* A folder of a diffusers pipeline (model_index.json): its parts, their weights, what a call takes.
 */
#ifndef VRAM_PIPELINE_H
#define VRAM_PIPELINE_H

#include "vram_job.h"
#include "vram_model.h"

/* the options for such a folder */
#define HELP_PIPELINE                                                                              \
  "pipelines of diffusers (a folder with model_index.json)\n"                                      \
  "                        with --dtype, --batch (images), --gpu, --budget, --cc,\n"               \
  "                        --json and these:\n"                                                    \
  "  --variant NAME        of the weights' files, as in .fp16.safetensors\n"                       \
  "  --offload none|model|sequential\n"                                                            \
  "                        what has to fit: enable_model_cpu_offload(), ...\n"                     \
  "                        (default: none, all on the device)\n"

enum { PIPELINE_PARTS = 32, PIPELINE_WORD = 96 };
enum { OFFLOAD_NONE, OFFLOAD_MODEL, OFFLOAD_SEQUENTIAL, OFFLOADS };

typedef struct pipeline_part {
  char name[PIPELINE_WORD], library[PIPELINE_WORD], kind[PIPELINE_WORD]; /* kind: its class */
  int has_weights;           /* 0: it has none (a scheduler), or what it has is not known */
  int is_model;              /* it has a config.json */
  vram_dtype stored, loaded; /* of most of its bytes; VRAM_DTYPE_NONE: not known */
  uint64_t tensors, params;  /* elements */
  uint64_t stored_bytes, loaded_bytes; /* in the files, and with --dtype or as from_pretrained */
  uint64_t largest_bytes; /* of the module with the most direct weights, as they are loaded */
} pipeline_part;

typedef struct pipeline {
  job j; /* --dtype, --batch, --gpu and others that any model has */
  const char *model, *variant;
  char *folder; /* with the slash */
  char kind[PIPELINE_WORD];
  pipeline_part part[PIPELINE_PARTS];
  uint32_t nparts;
  int offload;
} pipeline;

/* Is it such a folder, or its model_index.json? */
int pipeline_is(const char *path);
/* vram estimate of one. */
int pipeline_estimate(int argc, char **argv);

/* pipeline_weights.c: what the files of a part hold. CMD_ABSENT: there are none that are read. */
int pipeline_weights(const pipeline *p, pipeline_part *part);

#endif
