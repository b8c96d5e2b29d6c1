/* The weights of a part of a diffusers pipeline, by the headers of its safetensors. */
#include "vram_pipeline.h"

/* DiffusionPipeline.from_pretrained: WEIGHTS_NAME of diffusers and of transformers, one file or an
   index of shards, with a variant in between. NULL: no memory. */
static char *weights_path(const pipeline *p, const pipeline_part *part, int which,
                          const char *variant) {
  const char *const base = which & 1 ? "model" : "diffusion_pytorch_model", *const dot =
                                                                                *variant ? "." : "";
  const size_t cap = strlen(p->folder) + strlen(part->name) + strlen(base) + strlen(variant) + 40;
  char *const to = (char *)malloc(cap);
  if (to && which & 2)
    snprintf(to, cap, "%s%s/%s.safetensors.index%s%s.json", p->folder, part->name, base, dot,
             variant);
  else if (to)
    snprintf(to, cap, "%s%s/%s%s%s.safetensors", p->folder, part->name, base, dot, variant);
  return to;
}

/* The file to begin with, in *path; CMD_ABSENT: there is none. */
static int weights_find(const pipeline *p, const pipeline_part *part, char **path) {
  const char *const any[] = {"", "fp16", "bf16"};
  int i, which;
  for (i = 0; i < (p->variant ? 1 : 3); i++)
    for (which = 0; which < 4; which++) {
      *path = weights_path(p, part, which, p->variant ? p->variant : any[i]);
      if (!*path)
        return cmd_no_memory();
      if (model_sniff(*path))
        return FITS;
      free(*path);
    }
  /* a variant is that of some parts only: others are taken as they are */
  for (which = 0; p->variant && which < 4; which++) {
    *path = weights_path(p, part, which, "");
    if (!*path)
      return cmd_no_memory();
    if (model_sniff(*path))
      return FITS;
    free(*path);
  }
  *path = NULL;
  return CMD_ABSENT;
}

/* Bytes of a name that are its module's: up to the last dot. */
static size_t module_len(const vram_file_tensor *t) {
  size_t n = t->name_len;
  while (n && t->name[n - 1] != '.')
    n--;
  return n;
}

static int by_module(const void *a, const void *b) {
  const vram_file_tensor *const x = *(const vram_file_tensor *const *)a,
                                *const y = *(const vram_file_tensor *const *)b;
  const size_t n = module_len(x), m = module_len(y);
  const int order = memcmp(x->name, y->name, n < m ? n : m);
  return order ? order : (n > m) - (n < m);
}

/* Floating point becomes `loaded`, other types stay. */
static uint64_t loaded_bytes(const vram_file_tensor *t, vram_dtype loaded) {
  const vram_dtype_info *const own = vram_dtype_get_info(t->dtype);
  return own->kind == VRAM_KIND_FLOAT && loaded
             ? t->numel * vram_dtype_get_info(loaded)->block_bytes
             : t->bytes;
}

/* Sums over the tensors; not FITS: message printed. */
static int weights_sum(const vram_file *f, pipeline_part *part) {
  const vram_file_tensor **list, *t;
  uint64_t of[VRAM_DTYPE_COUNT], module = 0, i = 0;
  int d;
  memset(of, 0, sizeof of);
  list = (const vram_file_tensor **)malloc(((size_t)f->ntensor + 1) * sizeof *list);
  if (!list)
    return cmd_no_memory();
  for (t = f->tensor_first; t; t = t->next) {
    list[i++] = t;
    of[t->dtype] += t->bytes;
  }
  for (d = 0; d < VRAM_DTYPE_COUNT; d++)
    if (of[d] > (part->stored ? of[part->stored] : 0))
      part->stored = (vram_dtype)d;
  if (!part->loaded)
    part->loaded = part->stored;
  qsort((void *)list, (size_t)i, sizeof *list, by_module);
  for (i = 0; i < f->ntensor; i++) {
    const uint64_t bytes = loaded_bytes(list[i], part->loaded);
    module = i && !by_module(&list[i - 1], &list[i]) ? module + bytes : bytes;
    part->loaded_bytes += bytes;
    if (module > part->largest_bytes)
      part->largest_bytes = module;
  }
  free((void *)list);
  part->tensors = f->ntensor;
  part->params = f->numel;
  part->stored_bytes = f->tensor_bytes;
  part->has_weights = 1;
  return FITS;
}

int pipeline_weights(const pipeline *p, pipeline_part *part) {
  model_file m;
  char *path = NULL;
  int status = weights_find(p, part, &path);
  if (status)
    return status;
  status = model_file_open(&m, path);
  if (!status && m.f.format != VRAM_FILE_SAFETENSORS) {
    cmd_say("%s: no safetensors file (%s)", path, vram_file_format_name(m.f.format));
    status = USAGE;
  }
  if (!status)
    status = weights_sum(&m.f, part);
  model_file_close(&m);
  free(path);
  return status;
}
