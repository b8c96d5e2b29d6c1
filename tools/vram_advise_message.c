/* vram advise --message: what a message says, and what to do about it. */
#include "vram_advise.h"

enum {
  OF_TORCH = 1 << VRAM_MESSAGE_TORCH | 1 << VRAM_MESSAGE_TORCH_ASYNC,
  OF_XLA = 1 << VRAM_MESSAGE_XLA,
  OF_LLAMA = 1 << VRAM_MESSAGE_LLAMA,
  OF_MPS = 1 << VRAM_MESSAGE_TORCH_MPS,
  OF_HOST = 1 << VRAM_MESSAGE_TORCH_HOST,
  OF_ALL = 0x7fffffff
};

/* What to do, for these sources and causes. */
static const struct {
  int sources, causes;
  const char *text;
  int leads_to_model; /* what a model beside the message does already */
} to_do[] = {{OF_TORCH, 1 << VRAM_CAUSE_FRAGMENTATION,
              "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment (since 2.1;\n"
              "  before: max_split_size_mb:128); vram estimate MODEL ... --alloc-conf shows\n"
              "  what that changes, vram replay SNAPSHOT.pickle --alloc-conf of a recorded run",
              0},
             {OF_TORCH, 1 << VRAM_CAUSE_LIMIT,
              "torch.cuda.set_per_process_memory_fraction() is the limit: raise it, or what\n"
              "  sets it (a server's share of memory; expandable_segments_reserve)",
              0},
             {OF_TORCH, 1 << VRAM_CAUSE_PRIVATE_POOLS,
              "fewer CUDA graphs, or one pool for all: torch.cuda.graph(g, pool=pool);\n"
              "  torch.compile without mode=\"reduce-overhead\"; fewer sizes that are captured",
              0},
             {OF_ALL & ~(OF_HOST | OF_MPS), 1 << VRAM_CAUSE_OTHER_PROCESSES,
              "vram watch shows the processes on the device: end those that are left over, or\n"
              "  take another device (CUDA_VISIBLE_DEVICES=1)",
              0},
             {OF_ALL & ~(OF_HOST | OF_MPS), 1 << VRAM_CAUSE_HAD_FREE,
              "once more: if it happens again the driver has less than it says (Windows: other\n"
              "  programs; a virtual machine: its limit), or the program limits itself, which\n"
              "  PyTorch 2.1 does not tell (set_per_process_memory_fraction)",
              0},
             {OF_TORCH, 1 << VRAM_CAUSE_TOO_LARGE | 1 << VRAM_CAUSE_FULL | 1 << VRAM_CAUSE_UNKNOWN,
              "vram advise MODEL --train OPTIMIZER --message FILE plays what would fit;\n"
              "  vram fit MODEL --train OPTIMIZER --gpu NAME is the largest batch;\n"
              "  one request that is that large: look at its shape first",
              1},
             {OF_MPS, OF_ALL,
              "smaller batches: the memory is the machine's own;\n"
              "  PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the limit, and may stop the machine",
              0},
             {OF_HOST, OF_ALL,
              "this is the host's memory: batches, workers of the loader, offloaded state", 0},
             {OF_XLA, 1 << VRAM_CAUSE_FRAGMENTATION,
              "XLA_PYTHON_CLIENT_ALLOCATOR=platform, or TF_GPU_ALLOCATOR=cuda_malloc_async", 0},
             {OF_XLA, 1 << VRAM_CAUSE_LIMIT | 1 << VRAM_CAUSE_FULL | 1 << VRAM_CAUSE_UNKNOWN,
              "XLA takes 75 % of the device at its start: XLA_PYTHON_CLIENT_MEM_FRACTION=.95,\n"
              "  or XLA_PYTHON_CLIENT_PREALLOCATE=false where other processes need room",
              0},
             {OF_XLA, 1 << VRAM_CAUSE_TOO_LARGE | 1 << VRAM_CAUSE_FULL | 1 << VRAM_CAUSE_UNKNOWN,
              "smaller batches, jax.checkpoint around layers, donate_argnums for what a step\n"
              "  replaces",
              0},
             {OF_LLAMA, OF_ALL,
              "vram fit FILE.gguf --gpu NAME is the longest context, --solve ngl the most layers\n"
              "  on the device, --solve n-cpu-moe the fewest experts on the host",
              0},
             {1 << VRAM_MESSAGE_CUDA, OF_ALL,
              "the message tells no figures: vram watch shows who has the device; a context\n"
              "  alone takes some hundred MiB; vram run -- PROGRAM records what it allocates",
              0}};

static void print_field(const vram_message *m, const char *text, vram_message_field f, int *any) {
  if (!(m->known >> f & 1u))
    return;
  printf("%s%s %s", *any ? ", " : "", text, cmd_human(m->bytes[f]));
  *any = 1;
}

static void print_group(const vram_message *m, const char *head, const char *const *text,
                        const vram_message_field *of, int n) {
  int i, any = 0, known = 0;
  for (i = 0; i < n; i++)
    known |= (int)(m->known >> of[i] & 1u);
  if (!known)
    return;
  printf("  %-10s ", head);
  for (i = 0; i < n; i++)
    print_field(m, text[i], of[i], &any);
  printf("\n");
}

void message_print(const advise_job *a, const vram_message *m) {
  static const char *const of_device[] = {"total", "free", "this process", "others", "allowed"};
  static const vram_message_field device[] = {VRAM_MESSAGE_TOTAL, VRAM_MESSAGE_FREE,
                                              VRAM_MESSAGE_PROCESS, VRAM_MESSAGE_OTHERS,
                                              VRAM_MESSAGE_ALLOWED};
  static const char *const of_pool[] = {"in use", "with what it keeps", "kept and free",
                                        "in private pools"};
  static const vram_message_field pool[] = {VRAM_MESSAGE_ALLOCATED, VRAM_MESSAGE_RESERVED,
                                            VRAM_MESSAGE_UNALLOCATED, VRAM_MESSAGE_PRIVATE};
  size_t i;
  uint32_t k;
  printf("%s%s%s", cmd_bold, vram_message_source_name(m->source), cmd_plain);
  if (m->has_device)
    printf(", device %" PRIu32, m->device);
  if (m->known >> VRAM_MESSAGE_ASKED & 1u)
    printf(": no memory for %s", cmd_human(m->bytes[VRAM_MESSAGE_ASKED]));
  if (m->count > 1)
    printf(" (the first of %" PRIu32 " messages)", m->count);
  printf("\n");
  print_group(m, "device", of_device, device, 5);
  print_group(m, "allocator", of_pool, pool, 4);
  printf("\n%scause: %s%s: %s\n", cmd_bold, vram_cause_name(m->cause), cmd_plain,
         vram_cause_text(m->cause));
  for (k = 0; k < VRAM_CAUSE_COUNT; k++)
    if (m->also >> k & 1u)
      printf("for this request it would do, too: %s\n", vram_cause_name((vram_cause)k));
  printf("\n");
  for (i = 0; i < sizeof to_do / sizeof *to_do; i++)
    if ((to_do[i].sources >> m->source & 1) &&
        (to_do[i].causes & (1 << m->cause | (int)m->also)) != 0 &&
        !(a->j.model && to_do[i].leads_to_model))
      printf("- %s\n", to_do[i].text);
}

void message_json(const vram_message *m) {
  uint32_t i, n = 0;
  printf("\"source\":");
  cmd_json_text(stdout, vram_message_source_name(m->source));
  if (m->has_device)
    printf(",\"device\":%" PRIu32, m->device);
  printf(",\"messages\":%" PRIu32 ",\"cause\":", m->count);
  cmd_json_text(stdout, vram_cause_name(m->cause));
  printf(",\"also\":[");
  for (i = 0; i < VRAM_CAUSE_COUNT; i++)
    if (m->also >> i & 1u) {
      printf("%s", n++ ? "," : "");
      cmd_json_text(stdout, vram_cause_name((vram_cause)i));
    }
  printf("]");
  for (i = 0; i < VRAM_MESSAGE_FIELD_COUNT; i++) {
    printf(",\"%s_bytes\":", vram_message_field_name((vram_message_field)i));
    if (m->known >> i & 1u)
      printf("%" PRIu64, m->bytes[i]);
    else
      printf("null");
  }
}
