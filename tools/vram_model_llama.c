/* What llama.cpp allocates for a GGUF file, for people and for programs. */
#include "vram_model.h"

int model_llama(const file_job *j, const model_file *m, vram_llama_report *r, vram_error *why) {
  void *memory = malloc((size_t)VRAM_LLAMA_MEMORY);
  vram_result code;
  if (!memory)
    return cmd_no_memory();
  memset(why, 0, sizeof *why);
  code = vram_llama(&m->f, &j->o, memory, VRAM_LLAMA_MEMORY, r, why);
  free(memory);
  if (code && j->runs) {
    cmd_say("%s: %s", m->path, why->text);
    return USAGE;
  }
  return FITS;
}

uint64_t model_budget(const file_job *j, uint32_t device) {
  return !j->nbudget ? UINT64_MAX : j->budget[j->nbudget > 1 ? device : 0];
}

static int has_one_size(const file_job *j) {
  uint32_t i = 1;
  while (i < j->nbudget && j->budget[i] == j->budget[0])
    i++;
  return i >= j->nbudget;
}

const char *model_devices(const file_job *j) {
  static char text[16 * VRAM_LLAMA_MAX_DEVICES + 512];
  const uint32_t sizes = has_one_size(j) ? 1 : j->nbudget;
  size_t at = 0;
  uint32_t i;
  for (i = 0; i < sizes; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s",
                           !i              ? ""
                           : i + 1 < sizes ? ", "
                                           : " and ",
                           cmd_human(j->budget[i]));
  if (j->gpu)
    snprintf(text + at, sizeof text - at, ", %.400s", j->gpu);
  return text;
}

int model_fits(const file_job *j, const vram_llama_report *r, int surely) {
  uint32_t i;
  for (i = 0; i < r->ndevice && j->nbudget; i++) {
    const uint64_t beside = !j->is_whole ? 0 : surely ? r->beside[i].upper : r->beside[i].lower;
    const uint64_t budget = model_budget(j, i);
    if (beside > budget || r->device_bytes[i] > budget - beside)
      return 0;
  }
  return 1;
}

static int is_sure(const file_job *j, const vram_llama_report *r) {
  return r->compute == VRAM_LLAMA_EXACT && model_fits(j, r, 1);
}

static void print_caches(const vram_llama_report *r) {
  uint32_t i;
  for (i = 0; i < r->ncache; i++) {
    const vram_llama_cache *c = r->cache + i;
    printf("cache        %11s  %" PRIu32 " layers, %" PRIu64 " cells%s",
           cmd_human(c->k_bytes + c->v_bytes), c->layers, c->cells,
           c->slides ? " of a sliding window" : "");
    if (c->streams > 1)
      printf(" x %" PRIu32 " slots", c->streams);
    printf(", keys %s %s, values %s %s\n", vram_dtype_name(c->k_type), cmd_human(c->k_bytes),
           vram_dtype_name(c->v_type), cmd_human(c->v_bytes));
  }
  if (r->r_bytes || r->s_bytes)
    printf("states       %11s  of recurrent layers\n", cmd_human(r->r_bytes + r->s_bytes));
}

static int is_beside_alike(const vram_llama_report *r) {
  uint32_t i;
  for (i = 1; i < r->ndevice; i++)
    if (r->beside[i].lower != r->beside[0].lower || r->beside[i].upper != r->beside[0].upper)
      return 0;
  return 1;
}

static void print_beside(const vram_llama_report *r) {
  const uint32_t lines = is_beside_alike(r) ? r->ndevice > 0 : r->ndevice;
  uint32_t i;
  for (i = 0; i < lines; i++) {
    char device[16] = "a device";
    if (lines == r->ndevice)
      snprintf(device, sizeof device, "CUDA%" PRIu32, i);
    if (r->beside[i].upper)
      printf("beside       %11s  (%s to %s) on %s: CUDA context, kernels, scratch pool, cuBLAS, "
             "graphs\n",
             cmd_human(r->beside[i].expected), cmd_human(r->beside[i].lower),
             cmd_human(r->beside[i].upper), device);
  }
}

static void print_settings(const vram_llama_report *r) {
  printf("\n%sllama.cpp%s", cmd_bold, cmd_plain);
  if (!r->extra)
    printf("  n_ctx %" PRIu32 ", slots %" PRIu32 ", n_batch %" PRIu32 ", n_ubatch %" PRIu32
           ", flash attention %s",
           r->n_ctx, r->slots, r->n_batch, r->n_ubatch, r->flash_attention ? "on" : "off");
  printf("  %srules %s%s\n\n", cmd_dim, VRAM_LLAMA_RULES, cmd_plain);
}

void model_llama_print(const file_job *j, const vram_llama_report *r) {
  static const char *const extra[] = {"a model", "a LoRA adapter", "a control vector",
                                      "a projector of images or sound"};
  uint32_t i;
  print_settings(r);
  printf("%s%-12s %11s %11s %11s %11s%s\n", cmd_bold, "buffer", "model", "context", "compute",
         "sum", cmd_plain);
  for (i = 0; i < r->nbuffer; i++) {
    const vram_llama_buffer *b = r->buffer + i;
    printf("%-12s %11s %11s %11s %11s\n", b->name, cmd_human(b->model_bytes),
           cmd_human(b->context_bytes),
           r->compute == VRAM_LLAMA_UNKNOWN ? "?" : cmd_human(b->compute_bytes),
           cmd_human(b->model_bytes + b->context_bytes + b->compute_bytes));
  }
  printf("%-12s %11s %11s %11s %11s\n", "output", "", cmd_human(r->output_bytes), "",
         cmd_human(r->output_bytes));
  printf("%s%-12s %11s %11s %11s %11s%s\n\n", cmd_bold, "total", cmd_human(r->model_bytes),
         cmd_human(r->context_bytes + r->output_bytes),
         r->compute == VRAM_LLAMA_UNKNOWN ? "?" : cmd_human(r->compute_bytes),
         cmd_human(r->total_bytes), cmd_plain);
  print_caches(r);
  if (r->compute != VRAM_LLAMA_EXACT)
    printf("note: %s\n", r->compute ? "compute buffers are at least this"
                                    : "compute buffers are not counted: the sums are without them");
  if (r->extra)
    printf("note: %s, which llama.cpp loads beside a model: add it to the model's\n",
           extra[r->extra]);
  if (!r->architecture_is_known)
    printf("note: an architecture that is not known, taken for a plain transformer\n");
  print_beside(r);
  if (j->is_shared)
    printf("note: layers are shared out by the devices' sizes; llama.cpp takes what is free then, "
           "--tensor-split fixes them\n");
  if (j->nbudget)
    printf("\n%s%s%s %s of %s\n", cmd_bold,
           !model_fits(j, r, 0) ? "DOES NOT FIT"
           : is_sure(j, r)      ? "fits"
                                : "may fit",
           cmd_plain, r->ndevice > 1 ? "devices" : "a device", model_devices(j));
  if (j->nbudget && !model_fits(j, r, 0) && !strcmp(j->command, "estimate"))
    cmd_way("(vram fit, with the same words: the longest context, or how many layers)");
}

/* ---- JSON ---- */

static void json_caches(const vram_llama_report *r) {
  uint32_t i;
  printf(",\"kv\":[");
  for (i = 0; i < r->ncache; i++) {
    const vram_llama_cache *c = r->cache + i;
    printf("%s{\"cells\":%" PRIu64 ",\"layers\":%" PRIu32 ",\"streams\":%" PRIu32
           ",\"k_type\":\"%s\",\"v_type\":\"%s\",\"k_bytes\":%" PRIu64 ",\"v_bytes\":%" PRIu64
           ",\"bytes\":%" PRIu64 "}",
           i ? "," : "", c->cells, c->layers, c->streams, vram_dtype_name(c->k_type),
           vram_dtype_name(c->v_type), c->k_bytes, c->v_bytes, c->k_bytes + c->v_bytes);
  }
  printf("],\"recurrent_bytes\":%" PRIu64, r->r_bytes + r->s_bytes);
}

static void json_bounds(const vram_bounds *b) {
  printf("\"lower\":%" PRIu64 ",\"expected\":%" PRIu64 ",\"upper\":%" PRIu64, b->lower, b->expected,
         b->upper);
}

void model_llama_json(const file_job *j, const vram_llama_report *r) {
  static const char *const known[] = {"unknown", "floor", "exact"};
  uint32_t i;
  printf(",\"rules\":\"llama.cpp %s\",\"n_ctx\":%" PRIu32 ",\"n_batch\":%" PRIu32
         ",\"n_ubatch\":%" PRIu32 ",\"slots\":%" PRIu32 ",\"flash_attention\":%s,\"buffers\":{",
         VRAM_LLAMA_RULES, r->n_ctx, r->n_batch, r->n_ubatch, r->slots,
         r->flash_attention ? "true" : "false");
  for (i = 0; i < r->nbuffer; i++) {
    const vram_llama_buffer *b = r->buffer + i;
    printf("%s\"%s\":{\"model\":%" PRIu64 ",\"context\":%" PRIu64 ",\"compute\":%" PRIu64 "}",
           i ? "," : "", b->name, b->model_bytes, b->context_bytes, b->compute_bytes);
  }
  printf("},\"compute\":\"%s\",\"output_bytes\":%" PRIu64, known[r->compute], r->output_bytes);
  json_caches(r);
  printf(",\"total_bytes\":{");
  for (i = 0; i < r->ndevice; i++)
    printf("\"CUDA%" PRIu32 "\":%" PRIu64 ",", i, r->device_bytes[i]);
  printf("\"host\":%" PRIu64 "},\"beside_bytes\":{", r->host_bytes);
  for (i = 0; i < r->ndevice; i++) {
    printf("%s\"CUDA%" PRIu32 "\":{", i ? "," : "", i);
    json_bounds(&r->beside[i]);
    printf(",\"context\":{");
    json_bounds(&r->context_bare[i]);
    printf("}}");
  }
  printf("},\"fits\":%s", !j->nbudget            ? "null"
                          : !model_fits(j, r, 0) ? "false"
                          : is_sure(j, r)        ? "true"
                                                 : "null");
  if (j->nbudget && has_one_size(j))
    printf(",\"budget_bytes\":%" PRIu64, j->budget[0]);
  else
    printf(",\"budget_bytes\":null");
  printf(",\"budgets\":{");
  for (i = 0; i < r->ndevice && j->nbudget; i++)
    printf("%s\"CUDA%" PRIu32 "\":%" PRIu64, i ? "," : "", i, model_budget(j, i));
  printf("}");
}
