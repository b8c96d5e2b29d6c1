/* vram - bytes of neural networks from the command line; `vram -h` says how */
#include "vram_command.h"

cmd_text help_main = {
    "vram - how many bytes a neural network needs on a device\n"
    "\n"
    "  vram estimate MODEL   bytes of one inference or training step\n"
    "  vram fit MODEL        the largest batch, or any other dim, that fits a budget\n"
    "  vram plan MODEL|CSV   what to compute again to train within a budget\n"
    "  vram advise MODEL     what to change so that it fits, or takes less\n"
    "  vram arena CSV|MODEL  offsets for buffers with known lifetimes\n"
    "  vram emit MODEL       a C header: the network, checked by the compiler\n"
    "  vram convert FILE     the graph of a file of a model in the text form\n"
    "  vram replay TRACE     a stream of allocations through a caching allocator\n"
    "  vram diff A B         predicted and measured: what is unaccounted for\n"
    "  vram run -- PROGRAM   what an unmodified program allocates, and who\n"
    "  vram watch            devices and processes on them, live\n"
    "  vram list WHAT        models, ops, dtypes, optimizers, gpus, rules\n"
    "  vram COMMAND -h       the options of a command\n"
    "  vram help parallel    many devices: the words of --parallel\n"
    "  vram --version        the version\n"
    "\n"
    "MODEL is a file in the text form (.vram), - for standard input, the name of a\n"
    "built-in model (vram list models), an ONNX or TFLite file, a config.json of\n"
    "transformers or diffusers, or its folder; for estimate and fit a GGUF file, for\n"
    "estimate a safetensors file or an index of shards, too.\n"
    "Exit status: 0 fits or done, 3 does not fit, 2 usage or bad input, 1 other.\n",
    NULL};

cmd_text help_parallel = {
    "vram estimate|fit|plan MODEL --train OPT --parallel SPEC [--rank R|all]\n"
    "\n"
    "SPEC                    NAME=RANKS[,OPTION=VALUE...], joined by +:\n"
    "                        ddp=8   fsdp2=4,mp=bf16,reduce=f32+tp=2   pp=4+ddp=2\n"
    "Options have the names and defaults of PyTorch and DeepSpeed; 0 or 1 where no\n"
    "value stands here. --batch is what one rank has, with pp one microbatch. Ranks:\n"
    "pp outermost, then copies, the ranks of the wrapper, cp, tp innermost.\n"
    "\n"
    "what is wrapped around the module: one of\n"
    "  ddp=N                 DistributedDataParallel: bucket_cap_mb=MB,\n"
    "                        gradient_as_bucket_view, static_graph,\n"
    "                        find_unused_parameters, broadcast_buffers,\n"
    "                        hook=bf16|fp16\n"
    "  zero1=N               ddp with ZeroRedundancyOptimizer: the same, and\n"
    "                        parameters_as_bucket_view\n"
    "  fsdp2=N               fully_shard: mp=DTYPE, reduce=DTYPE,\n"
    "                        cast_forward_inputs, reshard=default|0|1|N, prefetch=K,\n"
    "                        cpu_offload, init=meta, units=auto|root|PATTERN\n"
    "  hsdp=COPIESxSHARDS    fully_shard on a mesh of two dims: the same\n"
    "  fsdp1=N               FullyShardedDataParallel: mp=DTYPE, reduce=DTYPE,\n"
    "                        init=meta, units=auto|root|PATTERN,\n"
    "                        sharding=FULL_SHARD|SHARD_GRAD_OP|NO_SHARD,\n"
    "                        use_orig_params, backward_prefetch=pre|post|none,\n"
    "                        forward_prefetch, limit_all_gathers\n"
    "  fsdp1=COPIESxSHARDS   with sharding=HYBRID_SHARD|_HYBRID_SHARD_ZERO2\n"
    "  ds1=N ds2=N           DeepSpeed's ZeRO, stage 1 and 2: bf16, fp16,\n"
    "                        reduce_bucket_size=N, allgather_bucket_size=N,\n"
    "                        overlap_comm, contiguous_gradients, reduce_scatter,\n"
    "                        offload_optimizer=cpu, pin_memory,\n"
    "                        communication_data_type=DTYPE, round_robin_gradients;\n"
    "                        or --deepspeed FILE\n"
    "  ds3=N                 stage 3: the same, not round_robin_gradients;\n"
    "                        offload_param=cpu, sub_group_size=N,\n"
    "                        stage3_prefetch_bucket_size=N,\n"
    "                        stage3_param_persistence_threshold=N,\n"
    "                        stage3_max_live_parameters=N,\n"
    "                        stage3_max_reuse_distance=N\n",
    "\n"
    "what cuts the model\n"
    "  tp=N                  tensor parallelism: sp, loss_parallel, plan=LINES\n"
    "  pp=N                  a pipeline: schedule=1F1B|GPipe|Interleaved1F1B|\n"
    "                        LoopedBFS|InterleavedZeroBubble|ZBVZeroBubble|DualPipeV,\n"
    "                        microbatches=M (default: 8), stages=K, loss_fn=NODE,\n"
    "                        return_outputs, balance, crossing=DTYPE, units=PATTERN\n"
    "  cp=N                  context parallelism: rotate_method=allgather|alltoall,\n"
    "                        enable_load_balance\n"
    "  ep=N                  expert parallelism, with ddp=N over the same ranks, which\n"
    "                        it adds; ddp's options\n"
    "\n"
    "what goes together      fsdp2 or hsdp with tp; pp with ddp, zero1, fsdp2, hsdp\n"
    "                        and tp; cp with ddp, zero1, fsdp1, fsdp2, hsdp\n"
    "--rank all              every rank: equal ones once, the fullest marked\n"
    "--html FILE             with it: a page with a picture of each, and what each\n"
    "                        strategy costs\n"
    "vram fit --parallel auto --devices N\n"
    "                        which of all ways fits; docs/parallel.md says more\n",
    NULL};

static cmd_text help_none = {NULL};

const cmd_entry cmd_table[] = {{"estimate", help_estimate, estimate_command},
                               {"fit", help_fit, fit_command},
                               {"plan", help_plan, plan_command},
                               {"advise", help_advise, advise_command},
                               {"arena", help_arena, arena_command},
                               {"emit", help_emit, emit_command},
                               {"convert", help_convert, convert_command},
                               {"replay", help_replay, replay_command},
                               {"diff", help_diff, diff_command},
                               {"run", help_run, run_command},
                               {"watch", help_watch, watch_command},
                               {"list", help_list, list_command},
                               {"help", help_main, help_command},
                               {"complete", help_none, complete_command},
                               {NULL, NULL, NULL}};

/* `vram help WORD`: of a command, or of what has a text of its own. */
int help_command(int argc, char **argv) {
  const char *const word = argc ? argv[0] : "help";
  const cmd_entry *c;
  if (argc > 1)
    return cmd_bad("a second word", argv[1], "one");
  if (!strcmp(word, "-h") || !strcmp(word, "--help"))
    return cmd_help(help_main, stdout), FITS;
  for (c = cmd_table; c->name; c++)
    if (!strcmp(word, c->name) && *c->help)
      return cmd_help(c->help, stdout), FITS;
  if (strcmp(word, "parallel") != 0) {
    const char *const best = cmd_nearest_name("commands", word);
    char expected[64];
    snprintf(expected, sizeof expected, "%s?", best ? best : cmd_nearest_of("parallel", word));
    return cmd_bad("no help of", word,
                   best || cmd_nearest_of("parallel", word) ? expected : "a command, or parallel");
  }
  return cmd_help(help_parallel, stdout), FITS;
}

/* What other programs call a command, or do without one. */
static const char *command_elsewhere(const char *word) {
  static const char *const names[][2] = {
      {"nvidia-smi smi top htop nvtop nvitop gpustat monitor", "watch"},
      {"gpus list-gpus --list-gpus devices --list-devices", "list gpus"},
      {"models list-models --list-models", "list models"},
      {"estimate-memory memory mem size calc predict", "estimate"},
      {"profile memcheck leaks", "run"},
      {"version", "--version"}};
  size_t i;
  for (i = 0; i < sizeof names / sizeof *names; i++)
    if (cmd_in(word, names[i][0]))
      return names[i][1];
  return NULL;
}

static int no_command(const char *word) {
  const char *best = command_elsewhere(word);
  char expected[512];
  FILE *file = *word == '-' || best ? NULL : fopen(word, "rb");
  if (file || cmd_built_in(word)) {
    if (file)
      fclose(file);
    snprintf(expected, sizeof expected, "vram estimate %.400s", word);
    return cmd_bad(file ? "a file, and no command:" : "a model, and no command:", word, expected);
  }
  errno = 0;
  if (!best)
    best = *word == '-' ? cmd_nearest_of("--version --help", word)
                        : cmd_nearest_name("commands", word);
  snprintf(expected, sizeof expected, "%s%s vram -h", best ? best : "one of", best ? "?" : "");
  return cmd_bad("unknown command", word, expected);
}

/* --option=VALUE becomes two words. NULL: no memory. */
static char **two_words(int *argc, char **argv) {
  char **to = (char **)malloc((2 * (size_t)*argc + 1) * sizeof *to);
  int i, n = 0;
  for (i = 0; to && i < *argc; i++) {
    char *const sign = strncmp(argv[i], "--", 2) ? NULL : strchr(argv[i], '=');
    to[n++] = argv[i];
    if (!sign)
      continue;
    *sign = 0;
    to[n++] = sign + 1;
  }
  *argc = n;
  return to;
}

static int run_with(const cmd_entry *c, int argc, char **argv) {
  char **words;
  int status;
  if (c->run == run_command) /* its program inherits what is ignored, and has its own words */
    return c->run(argc, argv);
  cmd_writes();
  if (c->run == complete_command)
    return c->run(argc, argv);
  if (c->run != watch_command)
    cmd_interrupts(c->name);
  words = two_words(&argc, argv);
  status = words ? c->run(argc, words) : cmd_no_memory();
  free(words);
  return status;
}

static int run(int argc, char **argv) {
  const cmd_entry *c;
  if (argc < 2) {
    cmd_help(help_main, stderr);
    fputs("\nTo begin with: vram estimate resnet50 --train adamw --gpu rtx4090\n", stderr);
    return USAGE;
  }
  if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))
    return cmd_help(help_main, stdout), FITS;
  if (cmd_in(argv[1], "--version -V"))
    return printf("vram %s\n", VRAM_VERSION), FITS;
  for (c = cmd_table; c->name; c++)
    if (!strcmp(argv[1], c->name))
      return run_with(c, argc - 2, argv + 2);
  return no_command(argv[1]);
}

void cmd_way(const char *text) {
  if (IS_TERMINAL(stdout))
    printf("%s%s%s\n", cmd_dim, text, cmd_plain);
}

int cmd_main(int argc, char **argv) {
  int status;
  cmd_files_forget();
  cmd_units = VRAM_UNITS_IEC;
  if (IS_TERMINAL(stdout) && !cmd_is_dumb() && (!getenv("NO_COLOR") || !*getenv("NO_COLOR")))
    cmd_bold = "\033[1m", cmd_dim = "\033[2m", cmd_plain = "\033[0m";
  status = run(argc, argv);
  if (!ferror(stdout)) /* else it says why that write failed */
    errno = 0;
  if (fflush(stdout) || ferror(stdout))
    return cmd_cannot("write", "standard output", OTHER);
  return status;
}

int main(int argc, char **argv) { return cmd_main(argc, argv); }
