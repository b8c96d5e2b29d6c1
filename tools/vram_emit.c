/* vram emit: a model as a C header of staged lines and numbers. */
#include "vram_model.h"
#include "vram_net.h"

cmd_text help_emit = {
    "vram emit MODEL|NET.h [options]     a C header, checked by the compiler\n"
    "\n"
    "The header holds the VRAM_NET_ lines of an inference (vram.h, >>ct), every size\n"
    "as a #define, where each buffer lies in one arena, and static assertions that\n"
    "the compiler counts the same. Include vram.h before it (VRAM_MACROS_ONLY is\n"
    "enough). VRAM_NET_ARENA_BYTES, VRAM_NET_OFFSET and VRAM_ASSERT_FITS go by its\n"
    "plan. Of a header with lines (NET.h; --name: which network) it holds the plan\n"
    "and the numbers: include it behind the lines.\n"
    "\n"
    "network\n"
    "  --name NAME           of the network (default: the model's name)\n"
    "  --format f32|f16|i8|i8_per_tensor|i8_per_channel|i8w4|i16|i4\n"
    "                        of activations and weights (default: f32; of a .tflite\n"
    "                        file its own)\n"
    "  --align N             of every buffer, a power of two (default: 16)\n"
    "  --kernels none|plain|dsp|mve\n"
    "                        with the scratch of CMSIS-NN's kernels (default: none)\n"
    "  --no-fold             batch norms stay layers of their own\n"
    "  --no-fuse             activations stay layers of their own\n"
    "sizes\n"
    "  --batch N             the first dim of the model\n"
    "  --dim NAME=N          any dim; may be given more than once\n"
    "budgets\n"
    "  --flash SIZE          more weights than that do not compile (exit status 3)\n"
    "  --sram SIZE           nor does a larger arena with what stays between calls\n"
    "  --bank [NAME=]SIZE    a memory; more than one: the fastest first, 0: no limit.\n"
    "                        What is read and written most lies in the fastest\n"
    "  --rom NAME=SIZE[:FROM]\n"
    "                        a memory of constants, likewise; FROM: RAM, into which\n"
    "                        they are copied from that later one at start\n"
    "output\n"
    "  -o FILE               the header (default: standard output)\n"
    "  --weights FILE        of a .tflite file a second header: constants as arrays,\n"
    "                        with multipliers, shifts and zero points\n"
    "\n"
    "A convolution or linear without bias that a batch norm is folded into gets one,\n"
    "which its parameters count.\n",
    NULL};

typedef struct emit_job {
  job j;
  vram_net_lower_options o;
  net_banks banks;
  net_roms roms;
  const char *out, *weights;
  char name[NET_NAME];
  uint64_t flash, sram;
  int has_format, has_flash, has_sram;
  int has_model_options; /* of what makes lines */
  int lines;             /* they are there already */
} emit_job;

/* One option; returns how many arguments it took, 0: error printed. */
static int emit_option(emit_job *e, const char *a, const char *v) {
  int64_t n;
  uint32_t i;
  int choice;
  e->has_model_options |=
      cmd_in(a, "--no-fold --no-fuse --batch --dim --format --align --kernels --weights");
  if (!strcmp(a, "--no-fold"))
    return e->o.no_fold = 1;
  if (!strcmp(a, "--no-fuse"))
    return e->o.no_fuse = 1;
  if (cmd_in(a, "--batch --dim"))
    return job_option(&e->j, a, v);
  if (!cmd_in(a, "-o --weights --name --format --align --kernels --flash --sram --bank --rom"))
    return cmd_unknown_option(a, "emit", NULL, "");
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  if (!strcmp(a, "-o"))
    e->out = v;
  else if (!strcmp(a, "--weights"))
    e->weights = v;
  else if (!strcmp(a, "--bank")) {
    if (!net_bank(&e->banks, v))
      return 0;
  } else if (!strcmp(a, "--rom")) {
    if (!net_rom(&e->roms, v))
      return 0;
  } else if (!strcmp(a, "--name")) {
    for (i = 0; v[i] && (cmd_is_word(v[i]) || (v[i] == '_' && v[i + 1] != '_')); i++)
      ;
    if (v[i] || !i || i > 40 || (*v >= '0' && *v <= '9') || *v == '_' || v[i - 1] == '_')
      return cmd_bad("not a name of a network", v, "letters, digits and single _, at most 40"), 0;
    snprintf(e->name, sizeof e->name, "%s", v);
  } else if (!strcmp(a, "--format")) {
    choice = net_choice("unknown format", v, vram_format_name, VRAM_FORMAT_IDS8);
    if (choice < 0)
      return 0;
    e->o.format = (vram_net_format)choice;
    e->has_format = 1;
  } else if (!strcmp(a, "--align")) {
    if (!cmd_parse_count(v, 1, 16384, &n) || (n & (n - 1)))
      return cmd_bad("not an alignment", v, "a power of two up to 16384"), 0;
    e->o.align = (uint64_t)n;
  } else if (!strcmp(a, "--kernels")) {
    choice = net_choice("unknown kernels", v, vram_kernels_name, VRAM_KERNELS_COUNT);
    if (choice < 0)
      return 0;
    e->o.kernels = (vram_net_kernels)choice;
  } else {
    uint64_t *to = a[2] == 'f' ? &e->flash : &e->sram;
    if (!cmd_parse_size(v, to) || !*to)
      return cmd_bad_size(v), 0;
    *(a[2] == 'f' ? &e->has_flash : &e->has_sram) = 1;
  }
  return 2;
}

static int emit_arguments(emit_job *e, int argc, char **argv) {
  int i;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      e->j.model = NULL;
      return cmd_help(help_emit, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      const int n = emit_option(e, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!n)
        return USAGE;
      i += n;
    } else if (e->j.model)
      return cmd_bad("a second model", argv[i], "one");
    else
      e->j.model = argv[i++];
  }
  return !e->j.model ? cmd_bad("no model", NULL, "vram emit MODEL; vram emit -h")
                     : net_roms_check(&e->roms, &e->banks);
}

/* One VRAM_NET_ line. */
static void emit_line(FILE *f, const vram_net *net, const vram_net_line *l) {
  const char *at = vram_line_args(l->kind);
  uint32_t kept = 0, arg = 0;
  fprintf(f, "VRAM_NET_%s(%s", vram_line_name(l->kind), net->name);
  while (*at) {
    const size_t n = strcspn(at, " ");
    fprintf(f, ", ");
    if (n == 1 && *at == 'y')
      fprintf(f, "%s", l->y);
    else if (n == 1 && *at == 'x')
      fprintf(f, "%s", l->x);
    else if (!strncmp(at, "kept", 4))
      fprintf(f, "%s", l->kept[kept++]);
    else if (n == 6 && !memcmp(at, "format", n))
      fprintf(f, "%s", vram_format_name(l->format));
    else if (n == 7 && !memcmp(at, "kernels", n))
      fprintf(f, "%s", vram_kernels_name(l->kernels));
    else if (n == 7 && !memcmp(at, "padding", n)) {
      fprintf(f, "%s", vram_padding_name(l->padding));
      if (l->padding == VRAM_PADDING_PAD || l->padding == VRAM_PADDING_PAD_CEIL)
        fprintf(f, "(%" PRId64 ", %" PRId64 ")", l->pad_h, l->pad_w);
    } else
      fprintf(f, "%" PRId64, l->arg[arg++]);
    at += n + (at[n] == ' ');
  }
  fprintf(f, ");");
}

static int emit_is_value(const vram_net_line *l) { /* a line of its own in the lists of numbers */
  return l->kind != VRAM_LINE_KEEP && l->kind != VRAM_LINE_FROM && l->kind != VRAM_LINE_END;
}

/* The name of a buffer in the #defines: of the line that makes it. */
static const char *emit_buffer(const vram_net *net, uint32_t buffer, char *to) {
  uint32_t i;
  for (i = 0; i < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    if (l->buffer != buffer && l->scratch_buffer != buffer)
      continue;
    cmd_upper(l->y, to);
    if (l->buffer != buffer)
      memcpy(to + strlen(to), "_SCRATCH", sizeof "_SCRATCH");
    return to;
  }
  *to = 0;
  return to;
}

/* The constants that every line has. */
/* clang-format off */
#define EMIT_FIGURES(X)                                                                          \
  X(height) X(width) X(channels) X(out_bytes) X(params) X(macs) X(weight_bytes) X(flash_bytes)   \
  X(scratch_bytes) X(state_bytes) X(live_bytes) X(total_params) X(total_macs)                    \
  X(total_weight_bytes) X(total_flash_bytes) X(total_state_bytes) X(peak_live_bytes)             \
  X(pingpong_bytes)
/* clang-format on */

/* That the compiler counts the same. Where a line has changed, that line is named and no other:
   what follows from it is not checked. */
static void emit_asserts(FILE *f, const vram_net *net, const char *upper) {
  const char *before = NULL, *end = "";
  uint32_t i;
  fprintf(f,
          "\n/* What the lines declare is what vram counted; of those that have changed the first "
          "one\n   is named. */\n#define %s_IS(before, y",
          upper);
#define X(what) fprintf(f, ", %s", #what "_");
  EMIT_FIGURES(X)
#undef X
  fprintf(f,
          ") \\\n  VRAM__NET_PLANS(%s_##y) \\\n  enum { VRAM__NET_GOES_ON(%s_##y##__plan, %s_##y), "
          "\\\n    %s_##y##__same = (before",
          net->name, net->name, net->name, net->name);
#define X(what)                                                                                    \
  fprintf(f, "%s \\\n    VRAM_NET_GET(%s, y, " #what ") == " #what "_##ULL", end, net->name),      \
      end = " &&";
  end = ") &&";
  EMIT_FIGURES(X)
#undef X
  fprintf(f,
          " ? 1 : 0 }; \\\n  VRAM__NET_ASSERT(%s_##y, %s_##y##__same || !(before), "
          "%s_##y##_is_not_what_vram_emit_counted)\n",
          net->name, net->name, net->name);
  for (i = 0; i + 1 < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    fprintf(f, "%s_IS(", upper);
    if (before)
      fprintf(f, "%s_%s__same", net->name, before);
    else
      fputs("1", f);
    fprintf(f, ", %s", l->y);
#define X(what) fprintf(f, ", %" PRIu64, l->what);
    EMIT_FIGURES(X)
#undef X
    fprintf(f, ");\n");
    before = l->y;
  }
  fprintf(f, "#undef %s_IS\n", upper);
#define SUM(macro, what)                                                                           \
  fprintf(f, "VRAM_STATIC_ASSERT(!%s_%s__same || VRAM_NET_%s(%s) == %s_%s, %s_" #what ");\n",      \
          net->name, before, macro, net->name, upper, macro, net->name)
  SUM("PARAMS", params);
  SUM("MACS", macs);
  SUM("WEIGHT_BYTES", weight_bytes);
  SUM("FLASH_BYTES", flash_bytes);
  SUM("STATE_BYTES", state_bytes);
  SUM("LIVE_BYTES", live_bytes);
  SUM("PINGPONG_BYTES", pingpong_bytes);
#undef SUM
}

/* All memories together. */
static uint64_t emit_arena_bytes(const emit_job *e, const vram_net *net) {
  uint64_t bytes = net->arena.height_bytes;
  uint32_t i;
  for (i = 1; i < e->banks.o.nbank; i++)
    bytes += net->arena.bank_bytes[i];
  return bytes;
}

/* What the bytes of the memory are called that the buffer lies in: IC_ARENA_BYTES, IC_DTCM_BYTES.
 */
static const char *emit_memory(const emit_job *e, uint32_t bank, char *to) {
  if (e->banks.o.nbank > 1)
    memcpy(to, "BANK_", sizeof "BANK_"), cmd_upper(e->banks.name[bank], to + 5);
  else
    memcpy(to, "ARENA", sizeof "ARENA");
  return to;
}

static void emit_arena_asserts(FILE *f, const emit_job *e, const vram_net *net, const char *upper) {
  uint32_t i, k;
  char name[128], other[128], memory[24];
  fprintf(f,
          "\n/* The arena holds what lives at one time; buffers that live together are apart. */\n"
          "VRAM_STATIC_ASSERT(!%s_%s__same || %s_ARENA_BYTES >= VRAM_NET_LIVE_BYTES(%s), "
          "%s_arena_is_large_enough);\n"
          "#define %s_INSIDE(b, memory) \\\n"
          "  VRAM_STATIC_ASSERT(%s_##b##_OFFSET + %s_##b##_STORAGE_BYTES <= %s_##memory##_BYTES, "
          "%s_##b##_is_inside)\n"
          "#define %s_APART(a, b) \\\n"
          "  VRAM_STATIC_ASSERT(%s_##a##_OFFSET + %s_##a##_STORAGE_BYTES <= %s_##b##_OFFSET || \\\n"
          "                     %s_##b##_OFFSET + %s_##b##_STORAGE_BYTES <= %s_##a##_OFFSET, \\\n"
          "                     %s_##a##_and_##b##_are_apart)\n",
          net->name, net->line[net->nline - 2].y, upper, net->name, net->name, upper, upper, upper,
          upper, net->name, upper, upper, upper, upper, upper, upper, upper, net->name);
  for (i = 0; i < net->nbuffer; i++) {
    const vram_buffer *b = net->buffer + i;
    if (!b->bytes)
      continue;
    fprintf(f, "%s_INSIDE(%s, %s);\n", upper, emit_buffer(net, i, name),
            emit_memory(e, b->bank, memory));
    for (k = 0; k < i; k++)
      if (net->buffer[k].bytes && net->buffer[k].bank == b->bank && net->buffer[k].begin < b->end &&
          b->begin < net->buffer[k].end)
        fprintf(f, "%s_APART(%s, %s);\n", upper, emit_buffer(net, k, other), name);
  }
  fprintf(f, "#undef %s_INSIDE\n#undef %s_APART\n", upper, upper);
}

/* Where each value and its scratch is, for VRAM_NET_OFFSET and its like. */
static void emit_places(FILE *f, const emit_job *e, const vram_net *net, const char *upper) {
  const int has_banks = e->banks.o.nbank > 1;
  uint32_t i;
  char name[128];
  fprintf(f,
          "\n/* what VRAM_NET_ARENA_BYTES, VRAM_NET_OFFSET, VRAM_ASSERT_FITS go by (vram.h) */\n"
          "#define %s_net__at 0, %s_ARENA_BYTES\n",
          net->name, upper);
  for (i = 0; i + 1 < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    fprintf(f, "#define %s_%s__at 0, %s_%s_OFFSET\n", net->name, l->y, upper,
            emit_buffer(net, l->buffer, name));
    if (has_banks)
      fprintf(f, "#define %s_%s__in 0, %" PRIu32 "\n", net->name, l->y, l->bank);
    if (l->scratch_buffer != VRAM_NO_BUFFER) {
      cmd_upper(l->y, name);
      fprintf(f, "#define %s_%s__scratch_at 0, %s_%s_SCRATCH_OFFSET\n", net->name, l->y, upper,
              name);
      if (has_banks)
        fprintf(f, "#define %s_%s__scratch_in 0, %" PRIu32 "\n", net->name, l->y, l->scratch_bank);
    }
  }
}

static void emit_numbers(FILE *f, const emit_job *e, const vram_net *net, const char *upper) {
  uint32_t i;
  char name[128], maker[128], memory[24];
#define NUMBER(what, v) fprintf(f, "#define %s_" what " %" PRIu64 "ULL\n", upper, v)
  fprintf(f,
          "/* Of the whole network, in bytes: WEIGHT: the sum of the arrays, FLASH: each rounded\n"
          "   up; STATE: stays between calls; LIVE: below that no arena can be; ARENA: with the\n"
          "   offsets below; SRAM: ARENA and STATE; PINGPONG: two buffers in turns instead. */\n");
  NUMBER("PARAMS", net->params);
  NUMBER("MACS", net->macs);
  NUMBER("WEIGHT_BYTES", net->weight_bytes);
  NUMBER("FLASH_BYTES", net->flash_bytes);
  NUMBER("STATE_BYTES", net->state_bytes);
  NUMBER("LIVE_BYTES", net->peak_live_bytes);
  NUMBER("ARENA_BYTES", emit_arena_bytes(e, net));
  NUMBER("ARENA_ALIGN", net->align);
  NUMBER("SRAM_BYTES", emit_arena_bytes(e, net) + net->state_bytes);
  NUMBER("PINGPONG_BYTES", net->pingpong_bytes);
  if (e->banks.o.nbank > 1)
    fprintf(f, "\n/* Memories, the fastest first: an array for each. A layer's BANK "
               "(VRAM_NET_BANK) is one\n"
               "   of them, its OFFSET (VRAM_NET_OFFSET) counts from that one's start. ARENA is "
               "their sum\n"
               "   and no array. */\n");
  for (i = 0; i < e->banks.o.nbank && e->banks.o.nbank > 1; i++) {
    emit_memory(e, i, memory);
    fprintf(f, "#define %s_%s %" PRIu32 "\n#define %s_%s_BYTES %" PRIu64 "ULL\n", upper, memory, i,
            upper, memory, net->arena.bank_bytes[i]);
  }
  fprintf(f, "\n/* Layers: where the value is in the arena, its bytes and those rounded up to the\n"
             "   alignment; weights, what else is not 0. */\n");
  for (i = 0; i + 1 < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    if (!emit_is_value(l))
      continue;
    cmd_upper(l->y, name);
    if (!strcmp(name, emit_buffer(net, l->buffer, maker)))
      fprintf(f,
              "#define %s_%s_OFFSET %" PRIu64 "ULL\n#define %s_%s_STORAGE_BYTES %" PRIu64 "ULL\n",
              upper, name, l->offset, upper, name, net->buffer[l->buffer].bytes);
    else
      fprintf(f, "#define %s_%s_OFFSET %s_%s_OFFSET\n", upper, name, upper, maker);
#define NUMBER_OF(what, v) fprintf(f, "#define %s_%s_" what " %" PRIu64 "ULL\n", upper, name, v)
#define LAYER(what, v)                                                                             \
  if (v)                                                                                           \
  NUMBER_OF(what, v)
    if (e->banks.o.nbank > 1)
      fprintf(f, "#define %s_%s_BANK %s_%s\n", upper, name, upper, emit_memory(e, l->bank, memory));
    LAYER("BYTES", l->out_bytes);
    LAYER("WEIGHT_BYTES", l->weight_bytes);
    LAYER("FLASH_BYTES", l->flash_bytes);
    LAYER("PARAMS", l->params);
    LAYER("MACS", l->macs);
    LAYER("STATE_BYTES", l->state_bytes);
    if (l->scratch_buffer != VRAM_NO_BUFFER) {
      LAYER("SCRATCH_BYTES", l->scratch_bytes);
      LAYER("SCRATCH_STORAGE_BYTES", net->buffer[l->scratch_buffer].bytes);
      NUMBER_OF("SCRATCH_OFFSET", l->scratch_offset);
      if (e->banks.o.nbank > 1)
        fprintf(f, "#define %s_%s_SCRATCH_BANK %s_%s\n", upper, name, upper,
                emit_memory(e, l->scratch_bank, memory));
    }
#undef LAYER
#undef NUMBER_OF
#undef NUMBER
  }
}

/* What is in it, and the lines. */
static void emit_head(FILE *f, const emit_job *e, const vram_net *net, const char *upper) {
  char node[MAX_NODE_NAME];
  uint32_t i, custom = 0;
  for (i = 0; i < net->nline; i++)
    custom += net->line[i].kind == VRAM_LINE_CUSTOM;
  fprintf(f,
          "/* %s: made by vram emit %s, format %s, kernels %s%s%s, batch %" PRId64 ".\n"
          "   %" PRIu64 " parameters, %" PRIu64 " multiply-accumulates; flash %" PRIu64
          ", arena %" PRIu64 ", state %" PRIu64 " bytes.\n",
          net->name, VRAM_VERSION, vram_format_name(net->line->format),
          vram_kernels_name(net->kernels), e->o.no_fold ? ", --no-fold" : "",
          e->o.no_fuse ? ", --no-fuse" : "", net->line[0].arg[0], net->params, net->macs,
          net->flash_bytes, emit_arena_bytes(e, net), net->state_bytes);
  if (e->banks.o.nbank > 1) {
    fprintf(f, "   In several memories:");
    for (i = 0; i < e->banks.o.nbank; i++)
      fprintf(f, "%s %s %" PRIu64, i ? "," : "", e->banks.name[i], net->arena.bank_bytes[i]);
    fprintf(f, " bytes%s.\n   ",
            net->arena.proven ? ", no other choice uses the faster ones more" : "");
  } else
    fprintf(f, "   The arena is %s",
            net->arena.height_bytes == net->peak_live_bytes ? "as small as can be: "
            : net->arena.proven                             ? "as small as can be, above "
                                                            : "larger than the bound of ");
  fprintf(f, "%" PRIu64 " bytes live at one time, at line %s.\n", net->peak_live_bytes,
          net->line[net->peak_line].y);
  if (e->lines)
    fprintf(f, "   Include it behind the lines of the network.\n");
  else
    fprintf(f, "   Include vram.h before this; VRAM_MACROS_ONLY is enough. With VRAM_NET_AGAIN the "
               "lines\n   come again, for a table (vram.h: VRAM_NET_LINE).\n");
  if (custom && !e->lines)
    fprintf(f,
            "   CUSTOM: what no line has, with what it reads, stores and computes; it reads its\n"
            "   inputs in any order.\n");
  fprintf(f, "*/\n#ifndef VRAM_H_INCLUDED\n#error \"include vram.h first\"\n#else\n");
  if (e->lines)
    return;
  fprintf(f, "#if !defined(%s_NET_H) || defined(VRAM_NET_AGAIN)\n", upper);
  for (i = 0; i < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    emit_line(f, net, l);
    if (l->node) {
      vram_node_name(l->node, node, sizeof node);
      fprintf(f, " /* %s %s */", vram_op_name(l->node->op), node);
    }
    fprintf(f, "\n");
  }
  fprintf(f, "#endif\n\n");
}

/* The lines of a memory are as many bytes, where the constants are all of lines. */
static void emit_rom_sum(FILE *f, const net_roms *r, const vram_net *net, const char *upper,
                         uint32_t rom) {
  char memory[24];
  uint64_t sum = 0;
  uint32_t i, k, pass;
  for (pass = 0; pass < 2; pass++) {
    cmd_upper(r->name[rom], memory);
    if (pass && sum != r->rom.bytes[rom])
      return;
    if (pass)
      fprintf(f, "VRAM_STATIC_ASSERT(!%s_%s__same || %s_ROM_%s_BYTES == 0", net->name,
              net->line[net->nline - 2].y, upper, memory);
    for (i = 0; i < r->count; i++)
      for (k = 0; k + 1 < net->nline && r->constant[i].memory == rom; k++)
        if (!strcmp(r->constant[i].name, net->line[k].y)) {
          sum += net->line[k].flash_bytes;
          if (pass)
            fprintf(f, "\n    + VRAM_NET_GET(%s, %s, flash_bytes)", net->name, net->line[k].y);
        }
  }
  fprintf(f, ", %s_%s_has_its_constants);\n", net->name, r->name[rom]);
}

/* Which memory the constants of each line are read from. */
static void emit_roms(FILE *f, const emit_job *e, const char *upper) {
  const net_roms *const r = &e->roms;
  char name[96], memory[24];
  uint32_t i;
  if (!r->o.nbank)
    return;
  fprintf(f,
          "\n/* Memories of constants, the fastest first: bytes of what is read from there, each "
          "array\n"
          "   rounded up to %" PRIu32
          ", and of images that are copied to others at start. A line's ROM is\n"
          "   one of them. */\n",
          r->unit);
  fprintf(f, "#define %s_ROM_ALIGN %" PRIu32 "\n", upper, r->unit);
  for (i = 0; i < r->o.nbank; i++) {
    cmd_upper(r->name[i], memory);
    fprintf(f,
            "#define %s_ROM_%s %" PRIu32 "\n#define %s_ROM_%s_BYTES %" PRIu64
            "ULL\n#define %s_ROM_%s_IMAGE_BYTES %" PRIu64 "ULL\n",
            upper, memory, i, upper, memory, r->rom.bytes[i], upper, memory, r->rom.image_bytes[i]);
  }
  for (i = 0; i < r->count; i++) {
    cmd_upper(r->constant[i].name, name);
    cmd_upper(r->name[r->constant[i].memory], memory);
    fprintf(f, "#define %s_%s_ROM %s_ROM_%s\n", upper, name, upper, memory);
  }
}

/* They are within their limits, and as many as their lines have. */
static void emit_rom_asserts(FILE *f, const emit_job *e, const vram_net *net, const char *upper) {
  const net_roms *const r = &e->roms;
  char memory[24];
  uint32_t i;
  if (r->o.nbank)
    fprintf(f, "\n/* Memories hold their constants, which are those of their lines. */\n");
  for (i = 0; i < r->o.nbank; i++) {
    cmd_upper(r->name[i], memory);
    if (r->o.capacity[i] < (uint64_t)VRAM_MAX_BYTES)
      fprintf(f,
              "VRAM_STATIC_ASSERT(%s_ROM_%s_BYTES + %s_ROM_%s_IMAGE_BYTES <= %" PRIu64
              "ULL,\n                   %s_%s_holds_its_constants);\n",
              upper, memory, upper, memory, r->o.capacity[i], net->name, r->name[i]);
    emit_rom_sum(f, r, net, upper, i);
  }
}

static void emit_header(FILE *f, const emit_job *e, const vram_net *net) {
  const char *guard = e->lines ? "PLAN" : "NET";
  char upper[64];
  cmd_upper(net->name, upper);
  emit_head(f, e, net, upper);
  fprintf(f, "#ifndef %s_%s_H\n#define %s_%s_H\n\n", upper, guard, upper, guard);
  emit_numbers(f, e, net, upper);
  emit_roms(f, e, upper);
  emit_places(f, e, net, upper);
  emit_asserts(f, net, upper);
  emit_arena_asserts(f, e, net, upper);
  emit_rom_asserts(f, e, net, upper);
  if (e->has_flash || e->has_sram) {
    fprintf(f, "\n/* the budgets */\nVRAM_ASSERT_FITS(%s, ", net->name);
    if (e->has_flash)
      fprintf(f, "%" PRIu64 "ULL, ", e->flash);
    else
      fprintf(f, "%s_FLASH_BYTES, ", upper);
    if (e->has_sram)
      fprintf(f, "%" PRIu64 "ULL);\n", e->sram);
    else
      fprintf(f, "%s_SRAM_BYTES);\n", upper);
  }
  fprintf(f, "\n#endif\n#endif\n");
}

/* What does not fit, and by how much. */
static int emit_fits(const emit_job *e, const vram_net *net) {
  const uint64_t sram = emit_arena_bytes(e, net) + net->state_bytes;
  const vram_net_line *peak = net->line + net->peak_line;
  int status = FITS;
  if (e->has_flash && net->flash_bytes > e->flash) {
    cmd_say("vram emit: %s: flash %" PRIu64 " of %" PRIu64 " bytes: does not fit by %" PRIu64,
            net->name, net->flash_bytes, e->flash, net->flash_bytes - e->flash);
    status = TOO_LARGE;
  }
  if (e->has_sram && sram > e->sram) {
    cmd_say("vram emit: %s: SRAM %" PRIu64 " of %" PRIu64 " bytes: does not fit by %" PRIu64
            ", the most is alive in %s (%s): %" PRIu64,
            net->name, sram, e->sram, sram - e->sram, peak->y, vram_line_name(peak->kind),
            peak->live_bytes);
    status = TOO_LARGE;
  }
  return status;
}

/* What the compiler counts in `int` (vram.h, >>ct) is below 2^31. */
static int emit_too_large(const emit_job *e, const vram_net *net) {
  const uint64_t most = 2147483647;
  uint32_t i, k;
  for (i = 0; i + 1 < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    const uint64_t area = l->height > most / l->width ? most : l->height * l->width;
    int large = l->n > 32767 || area > most / 4 / l->n / l->channels || l->params > most / 8 ||
                l->total_params > most || l->total_flash_bytes > most ||
                l->total_state_bytes > most || l->pingpong_bytes > most ||
                l->peak_live_bytes > most || l->total_macs >> 62;
    for (k = 1; l->kind != VRAM_LINE_CUSTOM && k < VRAM_NET_ARGS; k++)
      large |= l->arg[k] > (int64_t)most;
    if (large) {
      cmd_say("%s: line %s (%s) is too large: 4 n h w c and every sum of bytes must be below 2^31",
              e->j.model, l->y, vram_line_name(l->kind));
      return USAGE;
    }
  }
  return FITS;
}

/* The lines of the model, or those that are there, counted. Not FITS: message printed. */
static int emit_lines(emit_job *e, loaded *l, char *text, size_t len, void **mem, vram_net *net) {
  int status;
  e->lines = net_is_lines(e->j.model, text, len);
  if (e->weights && !e->lines && model_sniff(e->j.model) != VRAM_FILE_TFLITE) {
    cmd_say("%s: no TFLite file, whose constants alone are written: not with --weights",
            e->j.model);
    free(text);
    return USAGE;
  }
  if (e->lines) {
    status = e->has_model_options
                 ? cmd_bad("a header's lines are what they are: only --name, --bank, --rom, "
                           "--flash, --sram, -o with",
                           e->j.model, NULL)
                 : net_of_lines(e->j.model, text, len, *e->name ? e->name : NULL, mem, net);
    free(text);
    return status;
  }
  status = model_load(l, &e->j, text, len);
  if (!status && !e->has_format)
    status = tflite_format(e->j.model, &e->o.format);
  if (status)
    return status;
  net_name(e->j.model, &l->g, e->name);
  e->o.name = e->name;
  return net_of_model(&e->j, &l->g, &e->o, mem, net);
}

static int emit_plan(const emit_job *e, void **scratch, vram_net *net) {
  vram_arena_options o = e->banks.o;
  uint64_t need;
  vram_error err;
  int failed;
  if (emit_too_large(e, net))
    return USAGE;
  need = vram_net_plan_bytes(net, &o);
  *scratch = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  if (!*scratch)
    return cmd_no_memory();
  o.stop = cmd_stop;
  cmd_progress("vram emit: planning the arena", 0);
  cmd_stoppable();
  failed = vram_net_plan(net, &o, *scratch, need, &err) != VRAM_OK;
  cmd_progress_end();
  if (!failed && cmd_stopped()) /* standard output may be the header */
    cmd_say("vram emit: stopped: a smaller arena may be there");
  if (!failed)
    return FITS;
  if (err.code != VRAM_ERR_LIMIT)
    return cmd_bad(err.text, NULL, NULL);
  return net_banks_too_large(&e->banks, net, e->j.model, &err);
}

int emit_command(int argc, char **argv) {
  emit_job e;
  vram_net net;
  loaded l;
  cmd_output out;
  void *mem = NULL, *scratch = NULL;
  char *text = NULL;
  size_t len = 0;
  int status;
  memset(&e, 0, sizeof e);
  memset(&l, 0, sizeof l);
  e.j.command = "emit";
  status = emit_arguments(&e, argc, argv);
  if (status || !e.j.model)
    return status;
  status = model_read(e.j.model, &e.j, &text, &len);
  if (status)
    return status;
  status = emit_lines(&e, &l, text, len, &mem, &net);
  if (!status)
    status = emit_plan(&e, &scratch, &net);
  if (!status && e.roms.o.nbank)
    status = net_roms_place(&e.roms, &e.banks, &net, e.j.model,
                            !e.lines && model_sniff(e.j.model) == VRAM_FILE_TFLITE);
  if (!status)
    status = cmd_output_open(&out, e.out ? e.out : "-");
  if (!status) {
    emit_header(out.file, &e, &net);
    status = cmd_output_commit(&out, 0);
    if (!status && e.weights) {
      char upper[64];
      cmd_upper(net.name, upper);
      status = weights_write(e.weights, e.j.model, &net, upper, &e.roms);
    }
    if (!status)
      status = emit_fits(&e, &net);
  }
  net_roms_end(&e.roms);
  free(scratch);
  free(mem);
  model_unload(&l);
  return status;
}
