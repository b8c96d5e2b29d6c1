/* vram estimate --embedded MODEL.pte: what a program of ExecuTorch has planned, and its constants.
 */
#include "vram_model.h"
#include "vram_net.h"

int executorch_is(const char *path) {
  char b[8];
  FILE *const f = strcmp(path, "-") ? fopen(path, "rb") : NULL;
  const int is = f && fread(b, 1, sizeof b, f) == sizeof b && !memcmp(b + 4, "ET12", 4);
  if (f)
    fclose(f);
  return is;
}

/* A method's name, printable. */
static void pte_name(const vram_executorch_plan *plan, char *to, size_t cap) {
  const size_t n = plan->name_len < cap - 1 ? plan->name_len : cap - 1;
  size_t i;
  memset(to, 0, cap);
  memcpy(to, plan->name, n);
  for (i = 0; i < n; i++)
    if (to[i] <= ' ' || to[i] > '~' || to[i] == ',')
      to[i] = '?';
}

static void pte_plan(const vram_executorch_plan *plan, int is_first, const job *j) {
  char name[64];
  uint64_t i;
  pte_name(plan, name, sizeof name);
  if (j->json) {
    printf("%s{\"name\":", is_first ? "" : ",");
    cmd_json_text(stdout, name);
    printf(",\"operators\":%" PRIu64 ",\"planned_bytes\":[", plan->operators);
  }
  for (i = 0; i < plan->memories; i++)
    if (j->json)
      printf("%s%" PRIu64, i ? "," : "", plan->memory_bytes[i]);
    else if (j->csv)
      printf("%s,%" PRIu64 ",%" PRIu64 "\n", name, i + 1, plan->memory_bytes[i]);
    else
      printf("%-24s %6" PRIu64 " %12" PRIu64 "\n", name, i + 1, plan->memory_bytes[i]);
  if (j->json)
    printf("]}");
  else if (!j->csv && !plan->memories)
    printf("%-24s %6s %12d\n", name, "-", 0);
}

#define PTE_PARTS(X)                                                                               \
  X(planned, "planned", "bytes, when all plans are loaded")                                        \
  X(largest, "largest plan", "bytes")                                                              \
  X(constants, "constants", "bytes, in the file")                                                  \
  X(initial, "initial values", "bytes of variables, in the file")                                  \
  X(delegates, "delegates' data", "bytes, in the file")                                            \
  X(program, "program", "bytes of tables")

static void pte_totals(const vram_executorch *p, const job *j) {
  if (j->csv)
    return;
  if (j->json) {
#define X(field, name, unit) printf(",\"" #field "_bytes\":%" PRIu64, p->field##_bytes);
    PTE_PARTS(X)
#undef X
    printf(",\"file_bytes\":%" PRIu64 ",\"delegates\":%" PRIu64 ",\"external_constants\":%" PRIu64,
           p->file_bytes, p->delegates, p->external_constants);
    return;
  }
  printf("\n");
#define X(field, name, unit) printf("%-18s %12" PRIu64 " %s\n", name, p->field##_bytes, unit);
  PTE_PARTS(X)
#undef X
  printf("%-18s %12" PRIu64 " bytes\n", "file", p->file_bytes);
  if (p->delegates)
    printf("%-18s %12" PRIu64 ", which allocate besides what is planned\n", "delegates",
           p->delegates);
  if (p->external_constants)
    printf("%-18s %12" PRIu64 " constants, in another file (.ptd)\n", "elsewhere",
           p->external_constants);
}

static void pte_budget(const char *what, uint64_t bytes, const uint64_t *budget) {
  if (!budget)
    return;
  if (bytes <= *budget)
    printf("%-18s %12" PRIu64 " of %" PRIu64 " bytes, %" PRIu64 " left\n", what, bytes, *budget,
           *budget - bytes);
  else
    printf("%-18s %12" PRIu64 " of %" PRIu64 " bytes: does not fit by %" PRIu64 "\n", what, bytes,
           *budget, bytes - *budget);
}

static void pte_print(const char *path, const vram_executorch *p, const job *j,
                      const uint64_t *flash, const uint64_t *sram, int fits) {
  const vram_executorch_plan *plan;
  if (j->json)
    printf("{\"executorch\":[");
  else if (j->csv)
    printf("plan,memory,bytes\n");
  else
    printf("%s%s%s  a program of ExecuTorch\n\n%s%-24s %6s %12s%s\n", cmd_bold, path, cmd_plain,
           cmd_bold, "plan", "memory", "bytes", cmd_plain);
  for (plan = p->plan_first; plan; plan = plan->next)
    pte_plan(plan, plan == p->plan_first, j);
  if (j->json)
    printf("]");
  pte_totals(p, j);
  if (j->json)
    printf("%s}\n", !flash && !sram ? "" : fits ? ",\"fits\":true" : ",\"fits\":false");
  else if (!j->csv) {
    pte_budget("flash", p->file_bytes, flash);
    pte_budget("SRAM", p->planned_bytes, sram);
  }
}

int executorch_report(const char *path, const job *j, const uint64_t *flash, const uint64_t *sram) {
  vram_executorch p;
  model_file m;
  int status = model_executorch_open(&m, path, &p);
  if (!status) {
    const int fits = (!flash || p.file_bytes <= *flash) && (!sram || p.planned_bytes <= *sram);
    pte_print(path, &p, j, flash, sram, fits);
    status = fits ? FITS : TOO_LARGE;
  }
  model_file_close(&m);
  return status;
}
