/* vram emit --weights: the constants of a .tflite file as C arrays, with the multipliers and shifts
   that kernels of integers take (TFLite's and CMSIS-NN's: QuantizeMultiplier). */
#include "vram_model.h"
#include "vram_net.h"

#include <limits.h>
#include <math.h>

/* What is done with the arrays. */
enum { WEIGHTS_WRITE, WEIGHTS_COUNT, WEIGHTS_SUM };

typedef struct weights_job {
  int mode;
  const char *upper;
  uint32_t rom;         /* of these arrays; VRAM_ARENA_BANKS: none */
  const net_roms *roms; /* NULL or without memories: none */
  const vram_net *net;
  const model_file *m;
  FILE *from, *to;
  uint64_t bytes;     /* of the arrays of one operator, */
  uint64_t stored[2]; /* each rounded up to 4, to 8 bytes */
  int is_wide;        /* one of the file has elements of 8 bytes */
  uint32_t next;      /* line that the operators to come may have */
} weights_job;

/* A dtype of the file as a type of C, and the bytes of one element in an array; NULL: none. */
static const char *c_type(vram_dtype d, uint32_t *bytes) {
  *bytes = d == VRAM_I64 ? 8 : d == VRAM_I32 || d == VRAM_F32 ? 4 : d == VRAM_I16 ? 2 : 1;
  switch ((int)d) {
  case VRAM_I64:
    return "int64_t";
  case VRAM_I32:
    return "int32_t";
  case VRAM_I16:
    return "int16_t";
  case VRAM_I8:
    return "int8_t";
  case VRAM_U8:
  case VRAM_I4: /* two to a byte */
    return "uint8_t";
  case VRAM_F16:
    *bytes = 2;
    return "uint16_t";
  case VRAM_F32:
    return "float";
  default:
    return NULL;
  }
}

static int read_at(weights_job *w, uint64_t offset, void *to, size_t bytes) {
  return offset <= LONG_MAX && !fseek(w->from, (long)offset, SEEK_SET) &&
         fread(to, 1, bytes, w->from) == bytes;
}

static uint64_t bytes_at(const uint8_t *b, uint32_t n) {
  uint64_t v = 0;
  while (n--)
    v = v << 8 | b[n];
  return v;
}

/* One element, little-endian in the file. */
static void put_element(FILE *f, vram_dtype d, const uint8_t *b, uint32_t bytes) {
  const uint64_t v = bytes_at(b, bytes);
  if (d == VRAM_F32) {
    const uint32_t bits = (uint32_t)v;
    char text[40];
    float x;
    memcpy(&x, &bits, sizeof x);
    snprintf(text, sizeof text, "%.9g", (double)x);
    if (isfinite(x))
      fprintf(f, "%s%sF", text, strpbrk(text, ".e") ? "" : ".0");
    else
      fprintf(f, "%s1e39F", x < 0 ? "-" : ""); /* infinite; so is what was no number */
  } else if (d == VRAM_I64)
    fprintf(f, "INT64_C(%" PRId64 ")", (int64_t)v);
  else if (d == VRAM_I32)
    fprintf(f, "%" PRId64, (int64_t)(int32_t)(uint32_t)v);
  else if (d == VRAM_I16)
    fprintf(f, "%d", (int)(int16_t)(uint16_t)v);
  else if (d == VRAM_I8)
    fprintf(f, "%d", (int)(int8_t)(uint8_t)v);
  else
    fprintf(f, "%u", (unsigned)v);
}

/* One array begins; 0: that is all. */
static int put_begin(weights_job *w, const char *type, const char *name, const char *what,
                     uint64_t count, uint64_t bytes) {
  char in[32];
  w->bytes += bytes;
  w->stored[0] += (bytes + 3) & ~UINT64_C(3);
  w->stored[1] += (bytes + 7) & ~UINT64_C(7);
  w->is_wide |= !strcmp(type, "int64_t");
  if (w->mode == WEIGHTS_SUM)
    fprintf(w->to, " +\n    %s_UP(%s_%s_%s)", w->upper, w->net->name, what, name);
  if (w->mode != WEIGHTS_WRITE)
    return 0;
  if (w->rom < VRAM_ARENA_BANKS) {
    cmd_upper(w->roms->name[w->rom], in);
    fprintf(w->to, "VRAM_IN_%s ", in);
  }
  fprintf(w->to, "static const %s %s_%s_%s[%" PRIu64 "] = {", type, w->net->name, what, name,
          count);
  return 1;
}

/* The bytes of a constant, some at a time; 0: the file cannot be read. */
static int put_constant(weights_job *w, const vram_file_tensor *t, const char *name,
                        const char *what) {
  uint8_t some[4096];
  uint32_t each, i;
  const char *const type = c_type(t->dtype, &each);
  uint64_t at = 0;
  if (!type || t->bytes % each || !t->bytes) {
    if (w->mode == WEIGHTS_WRITE)
      fprintf(w->to, "/* %s %s: %s */\n", name, what,
              t->bytes ? "a type that C has not" : "no elements");
    return 1;
  }
  if (!put_begin(w, type, name, what, t->bytes / each, t->bytes))
    return 1;
  while (at < t->bytes) {
    const uint32_t n = (uint32_t)(t->bytes - at < sizeof some ? t->bytes - at : sizeof some);
    if (!read_at(w, t->offset + at, some, n))
      return 0;
    for (i = 0; i < n; i += each) {
      fprintf(w->to, "%s", (at + i) / each % 16 ? " " : "\n    ");
      put_element(w->to, t->dtype, some + i, each);
      fprintf(w->to, ",");
    }
    at += n;
  }
  fprintf(w->to, "\n};\n");
  return 1;
}

/* ---- scales ---- */

/* QuantizeMultiplier of tensorflow/lite/kernels/internal/quantization_util.cc: the number is
   multiplier / 2^31 * 2^shift. */
static int32_t multiplier_of(double number, int *shift) {
  int64_t fixed;
  *shift = 0;
  if (!(number > 0) || number > 1e300)
    return 0;
  number = frexp(number, shift);
  fixed = (int64_t)(number * 2147483648.0 + 0.5);
  if (fixed == INT64_C(2147483648)) {
    fixed /= 2;
    ++*shift;
  }
  if (*shift < -31) {
    *shift = 0;
    return 0;
  }
  return (int32_t)fixed;
}

typedef struct scale_of { /* an activation */
  double scale;
  int64_t zero_point;
  int is_known;
} scale_of;

static double float_at(weights_job *w, uint64_t offset, int *ok) {
  uint8_t b[4];
  uint32_t bits;
  float x = 0;
  *ok &= offset && read_at(w, offset, b, sizeof b);
  if (*ok) {
    bits = (uint32_t)bytes_at(b, 4);
    memcpy(&x, &bits, sizeof x);
  }
  return (double)x;
}

static scale_of activation(weights_job *w, const vram_file_name *x) {
  const vram_file_operand *o;
  scale_of s = {0, 0, 0};
  uint8_t b[8];
  for (o = x ? w->m->f.operand_first : NULL; o; o = o->next)
    if (o->number == x->number && o->scale_offset && o->has_zero_point) {
      s.is_known = 1;
      s.scale = float_at(w, o->scale_offset, &s.is_known);
      if (!read_at(w, o->zero_point_offset, b, sizeof b))
        s.is_known = 0;
      else
        s.zero_point = (int64_t)bytes_at(b, 8);
      break;
    }
  return s;
}

/* What the sum of products is multiplied by. With one scale for all of a matrix, TFLite rounds the
   product of the scales to a float (GetQuantizedConvolutionMultipler of
   tensorflow/lite/kernels/kernel_util.cc); in all other operators it does not
   (PopulateConvolutionQuantizationParams). */
static double number_of(const vram_file_node *n, const vram_file_tensor *t, double x, double w,
                        double y) {
  volatile float product = (float)(x * w); /* that of two floats is exact in a double */
  return (model_is_op(n, "FULLY_CONNECTED") && t->scales == 1 ? (double)product : x * w) / y;
}

/* Multipliers and shifts, one for each scale of the weights. */
static int put_scales(weights_job *w, const vram_file_node *n, const vram_file_name *input,
                      const vram_file_tensor *t, const char *name) {
  const scale_of x = activation(w, input), y = activation(w, n->output);
  uint32_t i;
  int shift, pass, ok = 1;
  if (!x.is_known || !y.is_known || !t->scales || !t->scale_offset)
    return 1;
  if (w->mode == WEIGHTS_WRITE)
    fprintf(w->to,
            "enum { %s_input_zero_point_%s = %" PRId64 ", %s_output_zero_point_%s = %" PRId64
            " };\n",
            w->net->name, name, x.zero_point, w->net->name, name, y.zero_point);
  for (pass = 0; pass < 2; pass++) {
    if (!put_begin(w, "int32_t", name, pass ? "shift" : "multiplier", t->scales,
                   4 * (uint64_t)t->scales))
      continue;
    for (i = 0; i < t->scales && ok; i++) {
      const double s = float_at(w, t->scale_offset + 4 * (uint64_t)i, &ok);
      const int32_t m = multiplier_of(number_of(n, t, x.scale, s, y.scale), &shift);
      fprintf(w->to, "%s%" PRId32 ",", i % 16 ? " " : "\n    ", pass ? (int32_t)shift : m);
    }
    fprintf(w->to, "\n};\n");
  }
  return ok;
}

/* ---- operators ---- */

/* Is this name of the text made of that of the file, as src/convert/draft.c makes them: up to the
   first `;`, other letters are `_`; numbered: with a number behind it, because another value had
   that name. */
static int is_name_of(const char *text, const char *name, uint32_t len, int numbered) {
  uint32_t i;
  for (i = 0; i < len && (!i || name[i] != ';'); i++)
    ;
  len = i;
  while (len && *name == '/')
    name++, len--;
  if (len && *text == '_' && (!cmd_is_word(*name) || (*name >= '0' && *name <= '9')))
    text++; /* a name begins with a letter */
  for (i = 0; i < len && text[i]; i++)
    if (text[i] != (cmd_is_word(name[i]) || (name[i] && strchr("_./", name[i])) ? name[i] : '_'))
      return 0;
  if (i < len) /* of a long name there is its beginning */
    return i >= 200;
  text += strncmp(text + i, ".linear", 7) ? i : i + 7;
  if (numbered && *text == '_' && text[1])
    text += 1 + strspn(text + 1, "0123456789");
  return !*text;
}

/* Operators and lines are in the same order. */
static const vram_net_line *line_of(weights_job *w, const vram_file_node *n) {
  char name[MAX_NODE_NAME];
  uint32_t i, numbered;
  for (numbered = 0; numbered < 2; numbered++)
    for (i = w->next; i < w->net->nline; i++) {
      const vram_net_line *const l = w->net->line + i;
      if (!l->node || !l->weight_bytes)
        continue;
      vram_node_name(l->node, name, sizeof name);
      if (is_name_of(name, n->name, n->name_len, (int)numbered)) {
        w->next = i + 1;
        return l;
      }
    }
  return NULL;
}

/* A name of the file in a comment, which it neither ends nor breaks. */
static void put_name(FILE *f, const char *name, uint32_t len) {
  uint32_t i;
  putc(' ', f);
  for (i = 0; i < len; i++)
    putc(name[i] < 32 || name[i] > 126 || (i && name[i] == '/' && name[i - 1] == '*') ? '?'
                                                                                      : name[i],
         f);
}

/* What was counted of the operator of that number; NULL: nothing. */
static const rom_constant *counted(const weights_job *w, uint32_t number) {
  uint32_t i;
  for (i = 0; w->roms && w->roms->o.nbank && i < w->roms->count; i++)
    if (w->roms->constant[i].number == number)
      return w->roms->constant + i;
  return NULL;
}

/* All constants of an operator that are no sizes, axes or the like. */
static int put_operator(weights_job *w, const vram_file_node *n, uint32_t number, net_roms *count) {
  const int is_conv = model_is_op(n, "CONV_2D") || model_is_op(n, "DEPTHWISE_CONV_2D") ||
                      model_is_op(n, "FULLY_CONNECTED"),
            is_transposed = model_is_op(n, "TRANSPOSE_CONV");
  const vram_net_line *const line = line_of(w, n);
  const vram_file_name *x = n->input, *const data =
                                          is_transposed && x && x->next ? x->next->next : x;
  const rom_constant *const place = counted(w, number);
  char name[96], what[24], other[64];
  uint32_t i;
  int seen = 0;
  snprintf(other, sizeof other, "op%" PRIu32, number);
  snprintf(name, sizeof name, "%s", line ? line->y : other);
  w->bytes = w->stored[0] = w->stored[1] = 0;
  if (place && w->mode == WEIGHTS_SUM && place->memory != w->rom)
    return 1;
  if (w->mode == WEIGHTS_WRITE)
    w->rom = place ? place->memory : VRAM_ARENA_BANKS;
  for (i = 0; x; x = x->next, i++) {
    const vram_file_tensor *const t = x->len ? vram_file_find(&w->m->f, x->name, x->len) : NULL;
    const int has_role = is_conv || is_transposed;
    if (!t ||
        (!has_role && (t->dtype == VRAM_I32 || t->dtype == VRAM_I64 || t->dtype == VRAM_BOOL)) ||
        (is_transposed && !i))
      continue;
    if (!seen++ && w->mode == WEIGHTS_WRITE) {
      fprintf(w->to, "\n/*");
      put_name(w->to, n->op, n->op_len);
      put_name(w->to, n->name, n->name_len);
      fprintf(w->to, " */\n");
    }
    if (has_role)
      snprintf(what, sizeof what, "%s", i == 1 ? "weights" : "bias");
    else
      snprintf(what, sizeof what, "input%" PRIu32, i);
    if (!put_constant(w, t, name, what))
      return 0;
    if (has_role && i == 1 && !put_scales(w, n, data, t, name))
      return 0;
  }
  if (count && w->bytes)
    return !net_roms_add(count, name, number, line, w->stored[w->is_wide]);
  if (seen && line && w->mode == WEIGHTS_WRITE && w->bytes != line->weight_bytes)
    fprintf(w->to, "/* %" PRIu64 " bytes; the line counts %" PRIu64 " */\n", w->bytes,
            line->weight_bytes);
  return 1;
}

static int put_operators(weights_job *w, net_roms *count) {
  const vram_file_node *n;
  uint32_t number = 0;
  int ok = 1;
  w->next = 0;
  for (n = w->m->f.node_first; n && ok; n = n->next)
    ok = put_operator(w, n, number++, count);
  return ok;
}

/* Not FITS: message printed. */
static int weights_open(weights_job *w, model_file *m, const char *model, const vram_net *net) {
  int status;
  memset(w, 0, sizeof *w);
  status = model_file_open(m, model);
  w->net = net;
  w->m = m;
  w->from = status ? NULL : fopen(m->path, "rb");
  if (!status && !w->from)
    status = cmd_cannot("open", m->path, USAGE);
  return status;
}

static void weights_close(weights_job *w, model_file *m) {
  if (w->from)
    fclose(w->from);
  model_file_close(m);
}

int weights_count(const char *model, const vram_net *net, net_roms *roms) {
  weights_job w;
  model_file m;
  int status = weights_open(&w, &m, model, net);
  w.mode = WEIGHTS_COUNT; /* first: is one of them wide? */
  if (!status && (!put_operators(&w, NULL) || !put_operators(&w, roms)))
    status = cmd_cannot("read", m.path, OTHER);
  roms->unit = w.is_wide ? 8 : 4;
  weights_close(&w, &m);
  return status;
}

/* How a compiler puts an array into a section. */
static void put_sections(FILE *f, const net_roms *r) {
  char upper[32], section[32];
  uint32_t i;
  size_t k;
  fprintf(f,
          "\n"
          "/* Which memory an array is read from: its section. Define VRAM_IN_... before this to "
          "have\n   it otherwise: as nothing, and it is where constants are. */\n"
          "#if defined(VRAM_IN)\n"
          "#elif defined(__IAR_SYSTEMS_ICC__)\n"
          "#define VRAM_IN_PRAGMA_(text) _Pragma(#text)\n"
          "#define VRAM_IN_PRAGMA(text) VRAM_IN_PRAGMA_(text)\n"
          "#define VRAM_IN(name, align) \\\n"
          "  VRAM_IN_PRAGMA(data_alignment = align) VRAM_IN_PRAGMA(location = name)\n");
  fprintf(f, "#elif defined(__APPLE__)\n"
             "#define VRAM_IN(name, align) __attribute__((aligned(align)))\n"
             "#elif defined(__GNUC__) || defined(__clang__) || defined(__CC_ARM) || "
             "defined(__ARMCC_VERSION)\n"
             "#define VRAM_IN(name, align) __attribute__((section(name), aligned(align)))\n"
             "#else\n"
             "#error \"a compiler whose sections are not known: define VRAM_IN(name, align)\"\n"
             "#endif\n");
  for (i = 0; i < r->o.nbank; i++) {
    cmd_upper(r->name[i], upper);
    for (k = 0; r->name[i][k]; k++)
      section[k] = cmd_lower(r->name[i][k]);
    section[k] = 0;
    fprintf(f, "#ifndef VRAM_IN_%s\n#define VRAM_IN_%s VRAM_IN(\".%s%s\", %" PRIu32 ")\n#endif\n",
            upper, upper, section, *r->from[i] ? "_const" : "", r->unit);
  }
}

/* The compiler counts what each memory has. */
static int put_sums(weights_job *w) {
  const net_roms *const r = w->roms;
  uint32_t i;
  int ok = 1;
  fprintf(w->to,
          "\n/* Each memory has what vram counted. */\n#define %s_UP(a) ((sizeof(a) + %" PRIu32
          "UL) / %" PRIu32 " * %" PRIu32 ")\n",
          w->upper, r->unit - 1, r->unit, r->unit);
  w->mode = WEIGHTS_SUM;
  for (i = 0; i < r->o.nbank && ok; i++) {
    w->rom = i;
    fprintf(w->to, "typedef char %s_%s_is_as_counted[(0UL", w->net->name, r->name[i]);
    ok = put_operators(w, NULL);
    fprintf(w->to, ") == %" PRIu64 "UL ? 1 : -1];\n", r->rom.bytes[i]);
  }
  fprintf(w->to, "#undef %s_UP\n", w->upper);
  return ok;
}

int weights_write(const char *path, const char *model, const vram_net *net, const char *upper,
                  const net_roms *roms) {
  weights_job w;
  model_file m;
  cmd_output out;
  int status = weights_open(&w, &m, model, net), ok;
  w.upper = upper;
  w.roms = roms;
  if (!status)
    status = cmd_output_open(&out, path);
  if (status) {
    weights_close(&w, &m);
    return status;
  }
  w.to = out.file;
  fprintf(w.to,
          "/* The constants of %s: made by vram emit %s --weights. Two values of int4 to a byte,\n"
          "   the lower half first; f16 as its 16 bits. */\n"
          "#ifndef %s_WEIGHTS_H\n#define %s_WEIGHTS_H\n#include <stdint.h>\n",
          net->name, VRAM_VERSION, upper, upper);
  if (roms->o.nbank)
    put_sections(w.to, roms);
  ok = put_operators(&w, NULL) && (!roms->o.nbank || put_sums(&w));
  fprintf(w.to, "\n#endif\n");
  if (ok)
    status = cmd_output_commit(&out, 0);
  else {
    cmd_output_drop(&out);
    status = cmd_cannot("read", m.path, OTHER);
  }
  weights_close(&w, &m);
  return status;
}
