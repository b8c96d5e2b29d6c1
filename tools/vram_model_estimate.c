/* vram estimate of a file of a model: its tensors by type, its bytes, what is there of them. */
#include "vram_model.h"

typedef struct type_sum { /* of all tensors of a type */
  uint64_t tensors, numel, bytes;
} type_sum;

/* Of all parts, as their headers have it, and as the disk has it. */
typedef struct file_bytes {
  uint64_t header, expected, present;
} file_bytes;

static file_bytes bytes_of(const vram_file *f) {
  file_bytes b = {0, 0, 0};
  const vram_file_part *p;
  for (p = f->part_first; p; p = p->next) {
    b.header += p->header_bytes;
    b.expected += p->expected_bytes;
    b.present += p->present_bytes;
  }
  return b;
}

static void sum_types(const vram_file *f, type_sum sum[VRAM_DTYPE_COUNT]) {
  const vram_file_tensor *t;
  memset(sum, 0, VRAM_DTYPE_COUNT * sizeof *sum);
  for (t = f->tensor_first; t; t = t->next) {
    sum[t->dtype].tensors++;
    sum[t->dtype].numel += t->numel;
    sum[t->dtype].bytes += t->bytes;
  }
}

/* The architecture as the file names it, "" where it does not. */
static void architecture_of(const vram_file *f, char *to, size_t cap) {
  static const char *const key[] = {"general.architecture", "model_type"};
  size_t i;
  *to = 0;
  for (i = 0; i < 2 && !*to; i++) {
    const vram_file_value *v = vram_file_get(f, key[i], (uint32_t)strlen(key[i]));
    if (v && v->kind == VRAM_VALUE_TEXT && v->count < cap)
      snprintf(to, cap, "%s", cmd_shown(v->text, (size_t)v->count));
  }
}

/* "[4096,14336]" */
static void shape_of(const vram_file_tensor *t, char *to, size_t cap) {
  size_t n = (size_t)snprintf(to, cap, "[");
  unsigned i;
  for (i = 0; i < t->ndim && n < cap; i++)
    n += (size_t)snprintf(to + n, cap - n, "%s%" PRId64, i ? "," : "", t->size[i]);
  if (n < cap)
    snprintf(to + n, cap - n, "]");
}

/* A name as a field of CSV: in quotes, those in it twice. */
static void csv_name(const char *s, size_t n) {
  size_t i;
  putchar('"');
  for (i = 0; i < n; i++) {
    if (s[i] == '"')
      putchar('"');
    putchar((unsigned char)s[i] < 32 ? ' ' : s[i]);
  }
  putchar('"');
}

static void print_tensors(const file_job *j, const vram_file *f) {
  const vram_file_tensor *t;
  char shape[24 * VRAM_MAX_AXES];
  if (j->csv)
    printf("name,type,shape,params,bytes,part,offset\n");
  else
    printf("%s%-44s %-8s %-22s %14s %11s%s\n", cmd_bold, "tensor", "type", "shape", "params",
           "bytes", cmd_plain);
  for (t = f->tensor_first; t; t = t->next) {
    shape_of(t, shape, sizeof shape);
    if (j->csv) {
      csv_name(t->name, t->name_len);
      printf(",%s,\"%s\",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 "\n",
             vram_dtype_name(t->dtype), shape, t->numel, t->bytes, t->part + 1, t->offset);
    } else
      printf("%-44s %-8s %-22s %14" PRIu64 " %11s\n", cmd_shown(t->name, t->name_len),
             vram_dtype_name(t->dtype), shape, t->numel, cmd_human(t->bytes));
  }
  if (!j->csv)
    printf("\n");
}

static void print_types(const vram_file *f) {
  type_sum sum[VRAM_DTYPE_COUNT];
  char text[32];
  int i;
  sum_types(f, sum);
  printf("%s%-12s %9s %18s %11s%s\n", cmd_bold, "type", "tensors", "params", "bytes", cmd_plain);
  for (i = 0; i < VRAM_DTYPE_COUNT; i++)
    if (sum[i].tensors)
      printf("%-12s %9" PRIu64 " %18s %11s\n", vram_dtype_name((vram_dtype)i), sum[i].tensors,
             cmd_grouped(sum[i].numel, text), cmd_human(sum[i].bytes));
  printf("%s%-12s %9" PRIu64 " %18s %11s%s\n", cmd_bold, "total", f->ntensor,
         cmd_grouped(f->numel, text), cmd_human(f->tensor_bytes), cmd_plain);
}

static void print_summary(const model_file *m) {
  const vram_file *const f = &m->f;
  const file_bytes b = bytes_of(f);
  char name[256];
  architecture_of(f, name, sizeof name);
  printf("%s%s%s  %s", cmd_bold, m->path, cmd_plain, vram_file_format_name(f->format));
  if (f->version)
    printf(" v%" PRIu32, f->version);
  printf("%s%s", *name ? "  " : "", name);
  if (f->npart > 1)
    printf("  %" PRIu32 " parts", f->npart);
  printf("\n\n");
  print_types(f);
  printf("\nfile         %11s  of it headers %s\n", cmd_human(b.expected), cmd_human(b.header));
  if (b.present < b.expected)
    printf("note: data section truncated: %" PRIu64 " bytes expected, %" PRIu64
           " present; the header is all that this needs\n",
           b.expected, b.present);
}

void model_summary_json(const model_file *m) {
  const vram_file *const f = &m->f;
  const file_bytes b = bytes_of(f);
  type_sum sum[VRAM_DTYPE_COUNT];
  char name[256];
  int i, some = 0;
  architecture_of(f, name, sizeof name);
  sum_types(f, sum);
  printf("{\"model\":");
  cmd_json_text(stdout, m->path);
  printf(",\"format\":\"%s\",\"version\":%" PRIu32 ",\"architecture\":",
         vram_file_format_name(f->format), f->version);
  cmd_json_text(stdout, name);
  printf(",\"parts\":%" PRIu32 ",\"tensors\":%" PRIu64 ",\"params\":%" PRIu64
         ",\"params_bytes\":%" PRIu64,
         f->npart, f->ntensor, f->numel, f->tensor_bytes);
  printf(",\"header_bytes\":%" PRIu64 ",\"file_bytes\":%" PRIu64 ",\"present_bytes\":%" PRIu64
         ",\"types\":[",
         b.header, b.expected, b.present);
  for (i = 0; i < VRAM_DTYPE_COUNT; i++)
    if (sum[i].tensors)
      printf("%s{\"type\":\"%s\",\"tensors\":%" PRIu64 ",\"params\":%" PRIu64 ",\"bytes\":%" PRIu64
             "}",
             some++ ? "," : "", vram_dtype_name((vram_dtype)i), sum[i].tensors, sum[i].numel,
             sum[i].bytes);
  printf("]");
}

/* The exit status. */
static int print_json(const file_job *j, const model_file *m, const vram_llama_report *r,
                      int has_config) {
  int status = CMD_ABSENT;
  model_summary_json(m);
  if (r)
    model_llama_json(j, r);
  if (has_config)
    status = model_folder_cache(j, j->model, j->runs != NULL);
  printf("}\n");
  return status == CMD_ABSENT ? FITS : status;
}

/* Standard output; the exit status. */
static int show(const file_job *j, const model_file *m) {
  const int is_run = m->f.format == VRAM_FILE_GGUF,
            has_config = m->f.format == VRAM_FILE_SAFETENSORS && model_has_config(j->model);
  vram_llama_report r;
  vram_error why;
  int status = FITS;
  if (m->f.format == VRAM_FILE_CONFIG && !j->llama && !j->csv)
    return model_config(j, m);
  if (!is_run && j->llama)
    return cmd_bad("an option of GGUF files:", j->llama, NULL);
  if (!is_run && !has_config && j->runs)
    return cmd_bad("an option of GGUF files:", j->runs, NULL);
  if (is_run)
    status = model_llama(j, m, &r, &why);
  if (status)
    return status;
  if (j->table || j->csv)
    print_tensors(j, &m->f);
  if (j->json)
    status = print_json(j, m, is_run && !why.code ? &r : NULL, has_config);
  else if (!j->csv) {
    print_summary(m);
    if (is_run && !why.code)
      model_llama_print(j, &r);
    else if (is_run)
      printf("note: what llama.cpp allocates is not known: %s\n", why.text);
    if (has_config)
      status = model_folder_cache(j, j->model, j->runs != NULL);
  }
  if (status && status != CMD_ABSENT)
    return status;
  return is_run && !why.code && !model_fits(j, &r, 0) ? TOO_LARGE : FITS;
}

int model_estimate(int argc, char **argv) {
  model_file m;
  file_job j;
  int status = model_arguments(&j, "estimate", argc, argv);
  if (status || !j.model)
    return status;
  status = model_file_open(&m, j.model);
  if (!status)
    status = show(&j, &m);
  model_file_close(&m);
  return status;
}
