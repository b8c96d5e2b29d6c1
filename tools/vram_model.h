/* Files of models (GGUF, safetensors with an index or without, ...), which are known by what they
   hold and read by their headers. */
#ifndef VRAM_MODEL_H
#define VRAM_MODEL_H

#include "vram_command.h"

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
void model_file_close(model_file *m);

/* The first argument that is neither an option of the help text nor the value of one; NULL: there
   is none. */
const char *model_argument(const char *const *help, int argc, char **argv);
/* vram estimate of a file that model_sniff knows. */
int model_estimate(int argc, char **argv);

#endif
