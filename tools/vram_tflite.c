/* What estimate --embedded and emit ask of a .tflite file: its format, TensorFlow Lite Micro's
   arena. */
#include "vram_model.h"
#include "vram_net.h"

#define TFLM_PARTS(X)                                                                              \
  X(arena_bytes, "arena")                                                                          \
  X(used_bytes, "used")                                                                            \
  X(head_bytes, "head")                                                                            \
  X(tail_bytes, "tail")                                                                            \
  X(object_bytes, "  interpreter's objects")                                                       \
  X(tensor_bytes, "  tensors")                                                                     \
  X(node_bytes, "  operators")                                                                     \
  X(option_bytes, "  options")                                                                     \
  X(kernel_bytes, "  kernels")                                                                     \
  X(handle_bytes, "  handles of scratch")                                                          \
  X(variable_bytes, "  variables")                                                                 \
  X(end_bytes, "  inputs and outputs")

/* ---- the format ---- */

int model_is_op(const vram_file_node *n, const char *op) {
  return strlen(op) == n->op_len && !memcmp(op, n->op, n->op_len);
}

/* The format of an operator with weights w and an input of this dtype. */
static vram_net_format format_of(const vram_file_node *n, const vram_file_tensor *w, vram_dtype x) {
  if (x == VRAM_I16)
    return VRAM_FORMAT_I16;
  if (x != VRAM_I8)
    return VRAM_FORMAT_F32;
  if (w->dtype == VRAM_I4)
    return VRAM_FORMAT_I8W4;
  return model_is_op(n, "FULLY_CONNECTED") && w->scales > 1 ? VRAM_FORMAT_I8_PER_CHANNEL
                                                            : VRAM_FORMAT_I8;
}

static vram_dtype dtype_of(const vram_file *f, const vram_file_name *x) {
  const vram_file_operand *o;
  for (o = x ? f->operand_first : NULL; o; o = o->next)
    if (o->name_len == x->len && !memcmp(o->name, x->name, x->len))
      return o->dtype;
  return VRAM_DTYPE_NONE;
}

/* That of most weights; without weights that of the first value. */
static vram_net_format format_of_file(const vram_file *f) {
  uint64_t numel[VRAM_FORMAT_COUNT] = {0};
  const vram_file_node *n;
  uint32_t i, most = VRAM_FORMAT_F32;
  for (n = f->node_first; n; n = n->next) {
    const vram_file_name *const x = n->input, *const w = x ? x->next : NULL;
    const vram_file_tensor *const t = w && w->len ? vram_file_find(f, w->name, w->len) : NULL;
    const vram_dtype d = dtype_of(f, model_is_op(n, "TRANSPOSE_CONV") && w ? w->next : x);
    if (t && t->ndim > 1 && (t->dtype == VRAM_I8 || t->dtype == VRAM_I4 || t->dtype == VRAM_F32))
      numel[format_of(n, t, d)] += t->numel;
  }
  if (numel[VRAM_FORMAT_I8_PER_CHANNEL]) { /* what the one says of matrices the other leaves open */
    numel[VRAM_FORMAT_I8_PER_CHANNEL] += numel[VRAM_FORMAT_I8];
    numel[VRAM_FORMAT_I8] = 0;
  }
  for (i = 0; i < VRAM_FORMAT_COUNT; i++)
    if (numel[i] > numel[most])
      most = i;
  if (!numel[most] && f->node_first) {
    const vram_dtype d = dtype_of(f, f->node_first->input);
    most = d == VRAM_I8 ? VRAM_FORMAT_I8 : d == VRAM_I16 ? VRAM_FORMAT_I16 : VRAM_FORMAT_F32;
  }
  return (vram_net_format)most;
}

int tflite_format(const char *path, vram_net_format *format) {
  model_file m;
  int status;
  if (model_sniff(path) != VRAM_FILE_TFLITE)
    return FITS;
  status = model_file_open(&m, path);
  if (!status)
    *format = format_of_file(&m.f);
  model_file_close(&m);
  return status;
}

/* ---- TensorFlow Lite Micro ---- */

/* Targets of these kernels: the wheel, the last one, has its own of today alone. */
static uint32_t tflm_targets(const vram_tflm_options *o) {
  return o->kernels == VRAM_KERNELS_NONE && !o->version ? VRAM_TFLM_TARGET_COUNT : VRAM_TFLM_PYTHON;
}

/* All targets. Not FITS: message printed, or in *why where that is not NULL. */
static int tflm_all(const model_file *m, const vram_tflm_options *options, vram_tflm *t, void **mem,
                    vram_error *why) {
  const uint64_t need = vram_tflm_bytes(&m->f);
  uint32_t i;
  for (i = 0; i < VRAM_TFLM_TARGET_COUNT; i++)
    mem[i] = NULL;
  for (i = 0; i < tflm_targets(options); i++) {
    vram_tflm_options o = *options;
    vram_error e;
    o.target = (vram_tflm_target)i;
    mem[i] = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
    if (!mem[i])
      return cmd_no_memory();
    if (!vram_tflm_plan(&m->f, &o, mem[i], need, t + i, &e))
      continue;
    if (why)
      *why = e;
    else if (e.has_offset)
      cmd_say("%s: offset %" PRIu64 ": %s", m->path, e.offset, e.text);
    else
      cmd_say("%s: %s", m->path, e.text);
    return USAGE;
  }
  return FITS;
}

static const char *tflm_version(const vram_tflm_options *o) {
  return o->version == VRAM_TFLM_2024_11 ? "c28b493d5, November 2024" : VRAM_TFLM_VERSION;
}

static void tflm_json(const vram_tflm *t, const vram_tflm_options *o) {
  uint32_t i, k;
  printf("{\"tflm\":\"%s\",\"kernels\":\"%s\",\"targets\":[", tflm_version(o),
         vram_kernels_name(o->kernels));
  for (i = 0; i < tflm_targets(o); i++, t++) {
    printf("%s{\"target\":\"%s\"", i ? "," : "", vram_tflm_target_name(i));
#define X(field, text) printf(",\"" #field "\":%" PRIu64, t->field);
    TFLM_PARTS(X)
#undef X
    printf(",\"nodes\":[");
    for (k = 0; k < t->nnode; k++)
      printf("%s{\"option_bytes\":%" PRIu64 ",\"kernel_bytes\":%" PRIu64
             ",\"scratch_bytes\":%" PRIu64 "}",
             k ? "," : "", t->node[k].option_bytes, t->node[k].kernel_bytes,
             t->node[k].scratch_bytes);
    printf("]}");
  }
  printf("]}\n");
}

static void tflm_csv(const vram_tflm *t, const vram_tflm_options *o) {
  uint32_t i;
#define X(field, text) "," #field
  printf("target" TFLM_PARTS(X) "\n");
#undef X
  for (i = 0; i < tflm_targets(o); i++, t++) {
    printf("%s", vram_tflm_target_name(i));
#define X(field, text) printf(",%" PRIu64, t->field);
    TFLM_PARTS(X)
#undef X
    printf("\n");
  }
}

static void tflm_text(const model_file *m, const vram_tflm *t, const vram_tflm_options *o) {
  const uint32_t count = tflm_targets(o);
  const vram_file_node *n;
  uint32_t i, k = 0;
  printf("%s%s%s  TensorFlow Lite Micro %s, ", cmd_bold, m->path, cmd_plain, tflm_version(o));
  if (o->kernels == VRAM_KERNELS_NONE)
    printf("its own kernels\n\n");
  else
    printf("kernels of CMSIS-NN " VRAM_TFLM_CMSIS_VERSION ", %s, for %s\n\n",
           vram_kernels_name(o->kernels), vram_tflm_goal_name(o->goal));
  printf("%s%-28s %9s %9s %9s %9s %9s%s\n", cmd_bold, "operator", "options", "kernel", "-arm",
         "-64", "scratch", cmd_plain);
  for (n = m->f.node_first; n; n = n->next, k++)
    printf("%-28.*s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
           n->op_len > 28 ? 28 : (int)n->op_len, n->op, t->node[k].option_bytes,
           t->node[k].kernel_bytes, t[1].node[k].kernel_bytes, t[2].node[k].kernel_bytes,
           t->node[k].scratch_bytes);
  printf("\n%s%-28s", cmd_bold, "bytes");
  for (i = 0; i < count; i++)
    printf(" %9s", vram_tflm_target_name(i));
  printf("%s\n", cmd_plain);
#define X(field, text)                                                                             \
  printf("%-28s", text);                                                                           \
  for (i = 0; i < count; i++)                                                                      \
    printf(" %9" PRIu64, t[i].field);                                                              \
  printf("\n");
  TFLM_PARTS(X)
#undef X
  printf("\n_Alignas(16) uint8_t tensor_arena[%" PRIu64 "];  /* 32 bits */\n", t->arena_bytes);
}

int tflm_report(const char *path, const job *j, const vram_tflm_options *o) {
  void *mem[VRAM_TFLM_TARGET_COUNT] = {NULL};
  vram_tflm t[VRAM_TFLM_TARGET_COUNT];
  model_file m;
  uint32_t i;
  int status;
  if (model_sniff(path) != VRAM_FILE_TFLITE) {
    cmd_say("%s: no TFLite file: not with --tflm", path);
    return USAGE;
  }
  status = model_file_open(&m, path);
  if (!status)
    status = tflm_all(&m, o, t, mem, NULL);
  if (!status) {
    if (j->json)
      tflm_json(t, o);
    else if (j->csv)
      tflm_csv(t, o);
    else
      tflm_text(&m, t, o);
  }
  for (i = 0; i < VRAM_TFLM_TARGET_COUNT; i++)
    free(mem[i]);
  model_file_close(&m);
  return status;
}

int tflm_find(const char *path, const vram_tflm_options *o, tflm_arenas *to) {
  void *mem[VRAM_TFLM_TARGET_COUNT] = {NULL};
  vram_tflm t[VRAM_TFLM_TARGET_COUNT];
  model_file m;
  vram_error e;
  uint32_t i;
  int status;
  memset(to, 0, sizeof *to);
  if (model_sniff(path) != VRAM_FILE_TFLITE)
    return FITS;
  status = model_file_open(&m, path);
  if (!status) {
    memset(&e, 0, sizeof e);
    status = tflm_all(&m, o, t, mem, &e);
    if (!status)
      for (i = 0; i < tflm_targets(o); i++) {
        to->head_bytes = t->head_bytes;
        to->tail_bytes[i] = t[i].tail_bytes;
        to->arena_bytes[i] = t[i].arena_bytes;
        to->count = i + 1;
      }
    if (e.code)
      status = FITS; /* the lines are there all the same */
  }
  for (i = 0; i < VRAM_TFLM_TARGET_COUNT; i++)
    free(mem[i]);
  model_file_close(&m);
  return status;
}
