/* vram convert: the graph of a file of a model as text, or that of one rank. A kind of file is a
   row of `kinds`. */
#include "vram_job.h"
#include "vram_model.h"

cmd_text help_convert = {
    "vram convert FILE [options]   a file of a model as text, or one rank of it\n"
    "\n"
    "  -o FILE               the text (default: standard output)\n"
    "  --batch N             the first dim that the file leaves open\n"
    "  --dim NAME=N          any dim; may be given more than once\n"
    "  --generate prompt=S,new=N[,cache=static][,padded=1][,attn=eager]\n"
    "                        config.json: the steps of a generation, with caches\n"
    "  --parallel SPEC       what one rank has: tp=N, ep=N, cp=N, pp=N; texts, too\n"
    "  --rank R              which rank (default: 0)\n",
    NULL};

/* ---- kinds of files ---- */

/* Writes the text of a file that is open, in mem where it takes any. VRAM_ERR_MEMORY: it takes
   more, and the sink was not called. */
typedef vram_result (*kind_write)(const vram_file *f, const job *j, void *mem, uint64_t bytes,
                                  const vram_sink *sink, vram_error *e);

static vram_result write_graph(const vram_file *f, const job *j, void *mem, uint64_t bytes,
                               const vram_sink *sink, vram_error *e) {
  return vram_graph_of_file(f, j ? j->dims : NULL, j ? j->ndims : 0, mem, bytes, sink, e);
}

/* The decoder of a config.json: S decides which layers need a mask. */
static vram_result write_config(const vram_file *f, const job *j, void *mem, uint64_t bytes,
                                const vram_sink *sink, vram_error *e) {
  vram_hf_sizes size;
  uint32_t i;
  memset(&size, 0, sizeof size);
  for (i = 0; j && i < j->ndims; i++)
    if (!j->dims[i].name || !strcmp(j->dims[i].name, "N"))
      size.batch = (uint64_t)j->dims[i].value;
    else if (!strcmp(j->dims[i].name, "S"))
      size.tokens = (uint64_t)j->dims[i].value;
    else if (!strcmp(j->dims[i].name, "H"))
      size.height = (uint64_t)j->dims[i].value;
    else if (!strcmp(j->dims[i].name, "W"))
      size.width = (uint64_t)j->dims[i].value;
    else if (!strcmp(j->dims[i].name, "F"))
      size.frames = (uint64_t)j->dims[i].value;
  if (j && j->generate) {
    size.tokens = (uint64_t)j->prompt;
    size.new_tokens = (uint64_t)j->new_tokens;
    size.cache = (vram_hf_cache)j->cache;
    size.is_padded = j->is_padded;
    size.is_eager = j->is_eager;
  }
  return vram_hf_write(f, &size, mem, bytes, sink, e);
}

static const struct {
  vram_file_format format;
  int is_graph; /* and nothing else is said of it: commands take it as a text */
  kind_write write;
} kinds[] = {{VRAM_FILE_ONNX, 1, write_graph},
             {VRAM_FILE_TFLITE, 1, write_graph},
             {VRAM_FILE_CONFIG, 0, write_config},
             {VRAM_FILE_NONE, 0, NULL}};

/* The row of a format, or the last one. */
static size_t kind_of(vram_file_format format) {
  size_t i = 0;
  while (kinds[i].write && kinds[i].format != format)
    i++;
  return i;
}

int model_is_graph(vram_file_format format) { return kinds[kind_of(format)].is_graph; }

int model_has_config(const char *path) {
  model_file m;
  const int before = cmd_hush(1), status = model_config_open(&m, path);
  cmd_hush(before); /* who reads it says what is wrong */
  model_file_close(&m);
  return status != CMD_ABSENT;
}

/* ---- the text ---- */

typedef struct text_out { /* what the sink writes to */
  char *text;
  size_t len, room;
} text_out;

static int text_write(void *user, const char *bytes, size_t n) {
  text_out *const t = (text_out *)user;
  if (n > t->room - t->len) {
    const size_t room = 2 * t->room + n + 4096;
    char *const wide = (char *)realloc(t->text, room);
    if (!wide)
      return 1;
    t->text = wide;
    t->room = room;
  }
  memcpy(t->text + t->len, bytes, n);
  t->len += n;
  return 0;
}

/* The text of m in t. Not FITS: message printed. */
static int file_text(const model_file *m, const job *j, text_out *t) {
  const kind_write write = kinds[kind_of(m->f.format)].write;
  uint64_t bytes = (uint64_t)1 << 20;
  vram_result r = VRAM_ERR_MEMORY;
  vram_sink sink;
  vram_error e;
  if (!write) {
    cmd_say("%s: a file without a graph (%s): vram estimate of it", m->path,
            vram_file_format_name(m->f.format));
    return USAGE;
  }
  sink.write = text_write;
  sink.user = t;
  for (; r == VRAM_ERR_MEMORY; bytes *= 2) {
    void *const mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
    if (!mem)
      return cmd_no_memory();
    r = write(&m->f, j, mem, bytes, &sink, &e);
    free(mem);
  }
  if (r == VRAM_ERR_WRITE)
    return cmd_no_memory();
  if (r && e.has_offset)
    cmd_say("%s: offset %" PRIu64 ": %s", m->path, e.offset, e.text);
  else if (r)
    cmd_say("%s: %s", m->path, e.text);
  return r ? USAGE : FITS;
}

int model_text(const char *path, const job *j, char **text, size_t *len) {
  text_out t = {NULL, 0, 0};
  model_file m;
  int status = model_config_open(&m, path);
  if (status == CMD_ABSENT) {
    model_file_close(&m);
    status = model_file_open(&m, path);
  }
  if (!status)
    status = file_text(&m, j, &t);
  model_file_close(&m);
  if (status) {
    free(t.text);
    return status;
  }
  *text = t.text;
  *len = t.len;
  return FITS;
}

/* ---- the command ---- */

/* One argument, or an option with its value; how many it took, 0: error printed. */
static int convert_argument(job *j, const char **out, const char *a, const char *v) {
  if (a[0] != '-' || !a[1]) {
    if (j->model)
      return cmd_bad("a second file", a, "one"), 0;
    j->model = a;
    return 1;
  }
  if (!cmd_in(a, "-o --batch --dim --generate --parallel --rank"))
    return cmd_unknown_option(a, "convert", NULL, "");
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  if (strcmp(a, "-o") != 0)
    return job_option(j, a, v);
  *out = v;
  return 2;
}

/* l's graph becomes that of the rank's stage, in *mem. Not FITS: message printed. */
static int convert_stage(const job *j, loaded *l, void **mem) {
  const uint64_t need = vram_parallel_stage_bytes(&l->g, &j->parallel);
  vram_graph stage;
  vram_error e;
  *mem = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  if (!*mem)
    return cmd_no_memory();
  if (vram_parallel_stage(&l->g, &j->parallel, &stage, *mem, need, &e))
    return cmd_bad(e.text, NULL, NULL);
  l->g = stage;
  return FITS;
}

/* The text of one rank in the place of the whole one, which goes where the rank's is tried. Not
   FITS: message printed. */
static int convert_rank(job *j, char **text, size_t *len) {
  text_out t = {NULL, 0, 0};
  const vram_sink sink = {text_write, &t};
  loaded l;
  vram_error e;
  void *scratch, *stage = NULL;
  uint64_t need;
  int status;
  if (j->parallel.tp < 2 && j->parallel.ep < 2 && j->parallel.cp < 2 && j->parallel.pp < 2)
    return cmd_bad("nothing is cut by", j->spec, "tp=N, ep=N, cp=N or pp=N");
  j->training = NULL;
  status = job_check(j);
  if (status)
    return status;
  j->o.parallel = NULL; /* nothing is played */
  status = model_load(&l, j, *text, *len);
  *text = NULL;
  if (!status && j->parallel.pp > 1)
    status = convert_stage(j, &l, &stage);
  need = status ? 0 : vram_graph_write_bytes(&l.g);
  scratch = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need + 1) : NULL;
  if (!status && !scratch)
    status = cmd_no_memory();
  if (!status && vram_graph_write(&l.g, scratch, need, &sink, &e))
    status = e.code == VRAM_ERR_WRITE ? cmd_no_memory() : cmd_bad(e.text, NULL, NULL);
  free(scratch);
  free(stage);
  model_unload(&l);
  if (status)
    free(t.text);
  else {
    *text = t.text;
    *len = t.len;
  }
  return status;
}

int convert_command(int argc, char **argv) {
  const char *out = "-";
  cmd_output o;
  job j;
  char *text = NULL;
  size_t len = 0;
  int i, n, status;
  memset(&j, 0, sizeof j);
  j.command = "convert";
  for (i = 0; i < argc; i += n) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return cmd_help(help_convert, stdout), FITS;
    n = convert_argument(&j, &out, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
    if (!n)
      return USAGE;
  }
  if (!j.model)
    return cmd_bad("no file", NULL, "vram convert FILE; vram convert -h");
  if (j.spec ? j.all_ranks : j.rank_given != NULL)
    return cmd_bad(j.spec ? "a text for every rank:" : "an option of --parallel:",
                   j.spec ? "--rank all" : "--rank", j.spec ? "one rank" : NULL);
  if (!model_sniff(j.model)) {
    if (!cmd_built_in(j.model) && (kind_refuse(j.model, j.command) || model_refuse_file(j.model)))
      return USAGE;
    if (!j.spec && strcmp(j.model, "-") != 0)
      return cmd_bad("a text already:", j.model,
                     "an ONNX or TFLite file, a config.json; of a text one rank: --parallel SPEC");
  }
  status = j.spec ? model_read(j.model, &j, &text, &len) : model_text(j.model, &j, &text, &len);
  if (!status && j.spec)
    status = convert_rank(&j, &text, &len);
  if (!status)
    status = cmd_output_open(&o, out);
  if (!status) {
    fwrite(text, 1, len, o.file);
    status = cmd_output_commit(&o, 0);
  }
  free(text);
  return status;
}
