/* A folder of a diffusers pipeline (model_index.json): its parts, their weights, what a call takes.
 */
#ifndef VRAM_PIPELINE_H
#define VRAM_PIPELINE_H

#include "vram_job.h"
#include "vram_model.h"

/* the options for such a folder */
#define HELP_PIPELINE                                                                              \
  "pipelines of diffusers (a folder with model_index.json)\n"                                      \
  "                        with --dtype, --batch (images of a prompt, default: 1),\n"              \
  "                        --gpu, --budget, --cc, --rules, --json and these:\n"                    \
  "  --height N            of the images (default: the model's own)\n"                             \
  "  --width N             the same\n"                                                             \
  "  --guidance 0|1        twice the batch in the denoiser, where the pipeline\n"                  \
  "                        guides so (default: 1)\n"                                               \
  "  --max-sequence-length N  tokens of a T5 encoder (default: the pipeline's)\n"                  \
  "  --num-frames N        of videos (default: the pipeline's)\n"                                  \
  "  --vae-slicing         vae.enable_slicing(): one image at a time is decoded\n"                 \
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
  int has_step;                        /* its graph is known: */
  uint64_t step_bytes; /* what one call takes beside weights and buffers, with its inputs */
  uint64_t buffers_bytes, beside_bytes; /* all, and those that no file of weights holds */
  uint64_t largest_bytes; /* of the module with the most direct weights, as they are loaded */
  uint64_t hidden_bytes;  /* all hidden states of a text encoder */
} pipeline_part;

/* What is known of a pipeline's __call__, by the beginning of its class's name. */
typedef struct pipeline_kind {
  const char *name;
  int doubles;           /* guidance takes twice the batch in one call of the denoiser */
  int64_t tokens, joint; /* max_sequence_length of T5, and the denoiser's text; 0: no such text */
  /* of videos: pixels of a latent's side, frames of a latent's, and __call__'s defaults; 0: images
   */
  int64_t scale, ratio, frames, height, width;
} pipeline_kind;

typedef struct pipeline {
  job j; /* --dtype, --batch, --gpu and others that any model has */
  const char *model, *variant;
  char *folder; /* with the slash */
  char kind[PIPELINE_WORD];
  pipeline_part part[PIPELINE_PARTS];
  uint32_t nparts;
  int64_t batch, height, width, scale; /* images, their pixels; pixels of a latent's side */
  int guidance;                        /* 1: the denoiser takes twice the batch, if ... */
  int64_t tokens, frames;              /* --max-sequence-length, --num-frames */
  int vae_slicing, solves_side;        /* solves_side: fit looks for a side, not for images */
  const pipeline_kind *call;           /* NULL: of its __call__ nothing is known */
  /* of the denoiser: its image, the rest of its arguments, its result */
  uint64_t image_bytes, text_bytes, noise_bytes;
  vram_dtype image_dtype;
  int offload;
} pipeline;

/* Is it such a folder, or its model_index.json? */
int pipeline_is(const char *path);
/* vram estimate of one. */
int pipeline_estimate(int argc, char **argv);
/* vram fit of one: the most images, or the largest side of square ones. */
int pipeline_fit(int argc, char **argv);

/* pipeline_weights.c: what the files of a part hold. CMD_ABSENT: there are none that are read. */
int pipeline_weights(const pipeline *p, pipeline_part *part);

/* FOLDER/PART/config.json; NULL: no memory. */
char *pipeline_config_path(const pipeline *p, const pipeline_part *part);

/* pipeline_step.c: what the arguments leave open of images, then what a call of a part takes, where
   its class is known. Not FITS: message printed. */
int pipeline_sizes(pipeline *p);
int pipeline_step(pipeline *p, pipeline_part *part);
/* What lies on the device while the part is called and is neither its own nor its arguments: at
   least, or at most, which has a meaning where p->call is known. */
uint64_t pipeline_held(const pipeline *p, const pipeline_part *part, int at_most);

#endif
