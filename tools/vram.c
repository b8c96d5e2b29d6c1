/* vram - bytes of neural networks from the command line; `vram -h` says how */
#include "vram_command.h"

cmd_text help_main = {
    "vram - how many bytes a neural network needs on a device\n"
    "\n"
    "  vram estimate MODEL   bytes of one inference or training step\n"
    "  vram fit MODEL        the largest batch, or any other dim, that fits a budget\n"
    "  vram plan MODEL|CHAIN what to compute again to train within a budget\n"
    "  vram arena CSV|MODEL  offsets for buffers with known lifetimes\n"
    "  vram emit MODEL       a C header: the network, checked by the compiler\n"
    "  vram convert FILE     the graph of a file of a model in the text form\n"
    "  vram replay TRACE     a stream of allocations through a caching allocator\n"
    "  vram diff A B         predicted and measured: what is unaccounted for\n"
    "  vram run -- PROGRAM   what an unmodified program allocates, and who\n"
    "  vram watch            devices and processes on them, live\n"
    "  vram list WHAT        models, ops, dtypes, optimizers, gpus, rules\n"
    "  vram COMMAND -h       the options of a command\n"
    "  vram --version        the version\n"
    "\n"
    "MODEL is a file in the text form (.vram), - for standard input, or the name of\n"
    "a built-in model (vram list models), or an ONNX or TFLite file; for estimate a\n"
    "GGUF or safetensors file, an index of shards or a folder, too.\n"
    "Exit status: 0 fits or done, 3 does not fit, 2 usage or bad input, 1 other.\n",
    NULL};

static cmd_text help_none = {NULL};

const cmd_entry cmd_table[] = {{"estimate", help_estimate, estimate_command},
                               {"fit", help_fit, fit_command},
                               {"plan", help_plan, plan_command},
                               {"arena", help_arena, arena_command},
                               {"emit", help_emit, emit_command},
                               {"convert", help_convert, convert_command},
                               {"replay", help_replay, replay_command},
                               {"diff", help_diff, diff_command},
                               {"run", help_run, run_command},
                               {"watch", help_watch, watch_command},
                               {"list", help_list, list_command},
                               {"complete", help_none, complete_command},
                               {NULL, NULL, NULL}};

static int run(int argc, char **argv) {
  const cmd_entry *c;
  const char *best;
  char expected[64];
  if (argc < 2)
    return cmd_help(help_main, stderr), USAGE;
  if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))
    return cmd_help(help_main, stdout), FITS;
  if (!strcmp(argv[1], "--version"))
    return printf("vram %s\n", VRAM_VERSION), FITS;
  for (c = cmd_table; c->name; c++)
    if (!strcmp(argv[1], c->name)) {
      if (c->run != run_command) /* its program inherits what is ignored */
        cmd_writes();
      return c->run(argc - 2, argv + 2);
    }
  best = cmd_nearest_name("commands", argv[1]);
  snprintf(expected, sizeof expected, "%s%s vram -h", best ? best : "one of", best ? "?" : "");
  return cmd_bad("unknown command", argv[1], expected);
}

int main(int argc, char **argv) {
  int status;
  cmd_files_forget();
  cmd_units = VRAM_UNITS_IEC;
  if (IS_TERMINAL(stdout) && !getenv("NO_COLOR"))
    cmd_bold = "\033[1m", cmd_dim = "\033[2m", cmd_plain = "\033[0m";
  status = run(argc, argv);
  if (!ferror(stdout)) /* else it says why that write failed */
    errno = 0;
  if (fflush(stdout) || ferror(stdout))
    return cmd_cannot("write", "standard output", OTHER);
  return status;
}
