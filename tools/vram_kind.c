/* What is no model that a command reads: its kind in a word, and the way from it. */
#include "vram_gzip.h"
#include "vram_model.h"
#include "vram_trace.h"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/stat.h>
#endif

#define EXPORTER "vram-export FILE.py:FUNCTION -o MODEL.vram"

enum { HEAD = 512, TAIL = 65536 }; /* bytes of a file that are looked at */

/* ---- files, by what they hold ---- */

/* way: behind it stands the file, then `more`, unless that is NULL */
typedef struct file_kind {
  const char *what, *way, *more;
} file_kind;

static const file_kind kind_torch = {
    "weights that PyTorch saved, without the network that they are for",
    "the module itself as text: " EXPORTER, NULL};
static const file_kind kind_pickle = {
    "a pickle of Python: weights, or a memory snapshot",
    "the module as text: " EXPORTER "; of a snapshot: vram replay ", ""};
static const file_kind kind_python = {"a program in Python", "its module as text: vram-export ",
                                      ":FUNCTION -o MODEL.vram"};
static const file_kind kind_pointer = {"a pointer of Git LFS, not the file itself",
                                       "the file: git lfs pull", NULL};
static const file_kind kind_page = {"a page of HTML, not a model", "the file that it leads to",
                                    NULL};
static const file_kind kind_keras = {
    "a model of Keras", "TFLite, by tf.lite.TFLiteConverter, or ONNX, by model.export", NULL};
static const file_kind kind_tensorflow = {
    "a graph of TensorFlow", "TFLite, by tf.lite.TFLiteConverter, or ONNX, by tf2onnx", NULL};
static const file_kind kind_checkpoint = {"a checkpoint of TensorFlow, without a network",
                                          "TFLite, by tf.lite.TFLiteConverter, or ONNX, by tf2onnx",
                                          NULL};
static const file_kind kind_tokenizer = {"a tokenizer, without a network",
                                         "the config.json of its folder", NULL};
static const file_kind kind_json = {"a file in JSON, but no configuration of a model",
                                    "a config.json with a key model_type", NULL};
static const file_kind kind_table = {"a table", "vram arena, vram plan or vram replay of it", NULL};
static const file_kind kind_log = {"a log of a program that found no memory",
                                   "why it did not: vram advise --message ", ""};
static const file_kind kind_utf16 = {"a text in UTF-16", "UTF-8: iconv -f UTF-16 -t UTF-8 ", ""};
static const file_kind kind_utf32 = {"a text in UTF-32", "UTF-8: iconv -f UTF-32 -t UTF-8 ", ""};
static const file_kind kind_zip = {"an archive", "what is in it: unzip ", ""};
static const file_kind kind_tar = {"an archive", "what is in it: tar xf ", ""};
static const file_kind kind_library = {"a library of programs",
                                       "a program that uses it: vram run -- PROGRAM", NULL};
static const file_kind kind_empty = {"an empty file", "a model: vram estimate -h", NULL};
static const file_kind kind_binary = {"no GGUF, safetensors, ONNX or TFLite file, and no text",
                                      "a model: vram estimate -h", NULL};
static const file_kind kind_folder = {
    "a folder without a model",
    "model.safetensors, its index or config.json in it; of a folder of GGUF files, one of them",
    NULL};
static const file_kind kind_no_trace = {"a folder", "a trace: vram replay -h", NULL};

static const struct {
  const char *name; /* of a file in it */
  file_kind kind;
} in_zip[] = {
    {"/code/__torch__", {"a program of TorchScript", "its module as text: " EXPORTER, NULL}},
    {"archive_format", {"a program of torch.export", "its module as text: " EXPORTER, NULL}},
    {"data.pkl", {NULL, NULL, NULL}}, /* kind_torch */
    {"model.weights.h5", {NULL, NULL, NULL}},
    {".npy", {"arrays of NumPy, without a network", "a model: vram estimate -h", NULL}}};

static const struct {
  const char *magic;
  size_t n;
  const file_kind kind;
} by_magic[] = {
    {"\177ELF", 4, {"a program", "what it allocates: vram run -- ", ""}},
    {"\223NUMPY", 6, {"an array of NumPy, without a network", "a model: vram estimate -h", NULL}},
    {"lmgg", 4, {"a model of llama.cpp from before GGUF", "GGUF: the model converted anew", NULL}},
    {"tjgg", 4, {"a model of llama.cpp from before GGUF", "GGUF: the model converted anew", NULL}},
    {"<?xml", 5, {"XML: of OpenVINO, or no model", "the ONNX file that it was made of", NULL}},
    {"model_checkpoint_path:",
     22,
     {"a checkpoint of TensorFlow, without a network",
      "TFLite, by tf.lite.TFLiteConverter, or ONNX, by tf2onnx", NULL}},
    {"\037\213", 2, {"a compressed file", "what is in it: gunzip ", ""}},
    {"(\265/\375", 4, {"a compressed file", "what is in it: unzstd ", ""}},
    {"ftrt", 4, {"an engine of TensorRT", "the ONNX file that it was built of", NULL}}};

static const struct {
  const char *end;
  const file_kind kind;
  int is_text; /* else a file that begins as a text does may be a model's */
} by_name[] = {
    {".pte", {"a program of ExecuTorch", "vram estimate --embedded ", ""}, 1},
    {".ipynb", {"a notebook", "its module, in a file: " EXPORTER, NULL}, 1},
    {".mlmodel", {"a model of Core ML", "ONNX, or the module as text: " EXPORTER, NULL}, 0},
    {".engine", {"an engine of TensorRT", "the ONNX file that it was built of", NULL}, 0},
    {".caffemodel", {"weights of Caffe", "an ONNX file of the model", NULL}, 0},
    {".prototxt", {"a network of Caffe", "an ONNX file of the model", NULL}, 1},
    {".pdmodel", {"a model of Paddle", "ONNX, by paddle2onnx", NULL}, 0},
    {".pdiparams", {"weights of Paddle", "ONNX, by paddle2onnx", NULL}, 0},
    {".weights", {"weights of Darknet", "an ONNX file of the model", NULL}, 0},
    {".cfg", {"settings, or a network of Darknet", "an ONNX file of the model", NULL}, 1},
    {".param", {"a network of ncnn", "the ONNX file that it was made of", NULL}, 1},
    {".msgpack", {"weights of Flax, without a network", "a config.json of the model", NULL}, 0},
    {".yaml", {"settings in YAML, without a network", "a model: vram estimate -h", NULL}, 1},
    {".yml", {"settings in YAML, without a network", "a model: vram estimate -h", NULL}, 1},
    {".params", {"weights of MXNet, without a network", "an ONNX file of the model", NULL}, 0},
    {".ckpt", {"a checkpoint, without a network", "the module as text: " EXPORTER, NULL}, 0}};

static int ends_in(const char *s, const char *end) {
  const size_t n = strlen(s), k = strlen(end);
  return n > k && !strcmp(s + n - k, end);
}

/* n bytes hold the word */
static int holds(const char *s, size_t n, const char *word) {
  const size_t k = strlen(word);
  size_t i;
  for (i = 0; i + k <= n; i++)
    if (!memcmp(s + i, word, k))
      return 1;
  return 0;
}

static int is_binary(const char *s, size_t n) {
  size_t i = 0;
  while (i < n && (unsigned char)s[i] >= 9)
    i++;
  return i < n;
}

static int begins(const char *s, size_t n, const char *with) {
  return n >= strlen(with) && !memcmp(s, with, strlen(with));
}

/* What the first character says of JSON. */
static const file_kind *text_kind(const char *path, const char *head, size_t n) {
  const char *const slash = strrchr(path, '/');
  size_t i = 0;
  while (i < n && strchr(" \t\r\n", head[i]))
    i++;
  if (i < n && (head[i] == '{' || head[i] == '['))
    return strstr(slash ? slash : path, "tokenizer") ? &kind_tokenizer : &kind_json;
  return NULL;
}

static const file_kind *utf_kind(const char *head, size_t n) {
  if (n >= 4 && (!memcmp(head, "\377\376\0\0", 4) || !memcmp(head, "\0\0\376\377", 4)))
    return &kind_utf32;
  return begins(head, n, "\377\376") || begins(head, n, "\376\377") ? &kind_utf16 : NULL;
}

/* A file that a checkpoint of TensorFlow consists of. */
static int is_checkpoint(const char *path) {
  return strstr(path, ".data-0") || ends_in(path, ".index") || ends_in(path, ".meta");
}

static int is_log(const char *path) {
  return ends_in(path, ".log") || ends_in(path, ".txt") || ends_in(path, ".out") ||
         ends_in(path, ".err");
}

/* The head of a file, and its tail, where a zip archive lists what it holds; NULL: it may be read
   as text. */
static const file_kind *kind_of(const char *path, const char *head, size_t n, const char *tail,
                                size_t ntail) {
  size_t i;
  if (begins(head, n, "PK\3\4")) {
    for (i = 0; i < sizeof in_zip / sizeof *in_zip; i++)
      if (holds(head, n, in_zip[i].name) || (tail && holds(tail, ntail, in_zip[i].name)))
        return in_zip[i].kind.what        ? &in_zip[i].kind
               : in_zip[i].name[0] == 'd' ? &kind_torch
                                          : &kind_keras;
    return ends_in(path, ".keras") ? &kind_keras : ends_in(path, ".pt") ? &kind_torch : &kind_zip;
  }
  if (utf_kind(head, n))
    return utf_kind(head, n);
  if (n > 262 && !memcmp(head + 257, "ustar", 5))
    return &kind_tar;
  if (begins(head, n, "\177ELF") && (ends_in(path, ".so") || strstr(path, ".so.")))
    return &kind_library;
  if (n > 2 && head[0] == '\200' && head[1] >= 2 && head[1] <= 5)
    return &kind_pickle;
  if (begins(head, n, "\211HDF"))
    return &kind_keras;
  if (begins(head, n, "version https://git-lfs"))
    return &kind_pointer;
  if (begins(head, n, "<!DOCTYPE") || begins(head, n, "<!doctype") || begins(head, n, "<html"))
    return &kind_page;
  for (i = 0; i < sizeof by_magic / sizeof *by_magic; i++)
    if (n >= by_magic[i].n && !memcmp(head, by_magic[i].magic, by_magic[i].n))
      return &by_magic[i].kind;
  if (ends_in(path, ".py"))
    return &kind_python;
  if (ends_in(path, ".pb"))
    return &kind_tensorflow;
  for (i = 0; i < sizeof by_name / sizeof *by_name; i++)
    if (ends_in(path, by_name[i].end) && (by_name[i].is_text || is_binary(head, n)))
      return &by_name[i].kind;
  if (is_checkpoint(path) && is_binary(head, n))
    return &kind_checkpoint;
  return memchr(head, 0, n) ? &kind_binary : NULL;
}

static int is_there(const char *path) {
#if defined(__unix__) || defined(__APPLE__)
  struct stat st;
  return !stat(path, &st);
#else
  FILE *f = fopen(path, "rb");
  if (f)
    fclose(f);
  return f != NULL;
#endif
}

static int say_kind(const char *path, const file_kind *k) {
  if (k->more)
    cmd_say("%s: %s (expected %s%s%s%s)", path, k->what, k->way,
            strstr(k->way, "vram run") && !strchr(path, '/') ? "./" : "", path, k->more);
  else
    cmd_say("%s: %s (expected %s)", path, k->what, k->way);
  return USAGE;
}

static int in_folder(const char *path, const char *name) {
  char file[4096];
  FILE *f;
  if (snprintf(file, sizeof file, "%s/%s", path, name) >= (int)sizeof file)
    return 0;
  f = fopen(file, "rb");
  if (f)
    fclose(f);
  return f != NULL;
}

/* The file or folder as it lies there. */
static int refuse_file(const char *path, const char *command) {
  char head[HEAD], *tail = NULL;
  size_t n, ntail = 0;
  const int takes_traces = cmd_in(command, "diff replay");
  const file_kind *k;
  FILE *f;
#if defined(__unix__) || defined(__APPLE__)
  struct stat st; /* a pipe's bytes are those of who reads the text */
  if (stat(path, &st) || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
    return FITS;
  if (S_ISDIR(st.st_mode) && access(path, X_OK))
    return cmd_cannot("open", path, USAGE);
  if (S_ISDIR(st.st_mode))
    return say_kind(path, in_folder(path, "saved_model.pb") ? &kind_tensorflow
                          : takes_traces                    ? &kind_no_trace
                                                            : &kind_folder);
#endif
  f = fopen(path, "rb");
  if (!f)
    return FITS; /* who reads it says why */
  n = fread(head, 1, sizeof head, f);
  if (begins(head, n, "PK\3\4") || is_log(path))
    tail = (char *)malloc(TAIL);
  if (tail && (!fseek(f, -(long)TAIL, SEEK_END) || !fseek(f, 0, SEEK_SET)))
    ntail = fread(tail, 1, TAIL, f);
  fclose(f);
  k = kind_of(path, head, n, tail, ntail);
  if (!k && ntail && is_log(path) && cmd_in(command, "estimate fit plan advise emit convert") &&
      holds(tail, ntail, "ut of memory"))
    k = &kind_log;
  free(tail);
  if (!k && !takes_traces && !n && !ends_in(path, ".csv"))
    k = &kind_empty;
  if (!k && !takes_traces)
    k = text_kind(path, head, n);
  if (!k && ends_in(path, ".csv") && cmd_in(command, "estimate fit emit convert"))
    k = &kind_table;
  if (takes_traces && (gzip_is(head, n) || trace_is_pprof(head, n) ||
                       (k == &kind_binary && trace_kind(head, n) == PICKLE)))
    k = NULL; /* a profile, what is packed, a pickle of protocol 1 */
  return k && !(takes_traces && k == &kind_pickle) ? say_kind(path, k) : FITS;
}

/* ---- files of models, for what does not read them ---- */

int kind_refuse_model(const char *path, vram_file_format format, const char *expected) {
  const char *const way = format == VRAM_FILE_GGUF ? "vram estimate or vram fit of it"
                          : model_is_graph(format)
                              ? "vram estimate, fit, plan, arena or emit of it"
                              : "vram estimate of it, or the text of its module: vram-export "
                                "hf:CONFIG.json -o MODEL.vram";
  cmd_say("vram: '%s' is a file of a model (%s), expected %s: %s", path,
          vram_file_format_name(format), expected, way);
  return USAGE;
}

/* ---- names ---- */

/* torchvision:NAME, FILE.py:FUNCTION: what vram-export takes; 0: neither */
static int is_source(const char *name) {
  const char *const colon = strchr(name, ':');
  char before[64];
  if (!colon || !colon[1] || colon - name >= (int)sizeof before)
    return 0;
  snprintf(before, sizeof before, "%.*s", (int)(colon - name), name);
  return cmd_in(before, "torchvision timm hf") || ends_in(before, ".py");
}

/* OWNER/NAME of the Hugging Face Hub, and no path: what ends it is no ending of a file's name. */
static int is_hub_name(const char *name) {
  const char *const slash = strchr(name, '/'), *end = strrchr(name, '.');
  char owner[256];
  const char *s;
  if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || !cmd_is_word(*name) ||
      !cmd_is_word(slash[1]))
    return 0;
  for (s = name; *s; s++)
    if (!cmd_is_word(*s) && !strchr("/-_.", *s))
      return 0;
  if (end && end > slash) {
    for (end++; *end >= 'a' && *end <= 'z';)
      end++;
    if (!*end)
      return 0;
  }
  snprintf(owner, sizeof owner, "%.*s", (int)(slash - name), name);
  return !is_there(owner);
}

/* A name behind a colon that is built in, as well. */
static const char *built_in(const char *name) {
  const char *const colon = strchr(name, ':');
  return colon && cmd_built_in(colon + 1) ? colon + 1 : NULL;
}

/* FOLDER/NAME.vram, from another folder than that one, or with the ending, of a model that is. */
static int refuse_text(const char *name) {
  const char *const slash = strrchr(name, '/'), *const file = slash ? slash + 1 : name;
  char own[64];
  if (!ends_in(file, ".vram") || strlen(file) - 5 >= sizeof own)
    return FITS;
  snprintf(own, sizeof own, "%.*s", (int)(strlen(file) - 5), file);
  if (!cmd_built_in(own))
    return FITS;
  cmd_say("vram: cannot open '%s': %s (built in: %s)", name, strerror(ENOENT), own);
  return USAGE;
}

static int refuse_name(const char *name, const char *command) {
  const char *const own = built_in(name), *const slash = strchr(name, '/');
  if (is_source(name)) {
    cmd_say(
        "vram: '%s' is a module of PyTorch (expected its text: vram-export %s -o MODEL.vram%s%s)",
        name, name, own ? "; built in: " : "", own ? own : "");
    return USAGE;
  }
  if (strstr(name, "://")) {
    cmd_say("vram: '%s' is an address, from where nothing is fetched (expected a file or a folder: "
            "hf download OWNER/NAME config.json --local-dir NAME)",
            name);
    return USAGE;
  }
  if (!is_hub_name(name))
    return refuse_text(name);
  cmd_say("vram: '%s' is a name on the Hugging Face Hub, from where nothing is fetched (expected a "
          "folder: hf download %s config.json --local-dir %s; vram %s %s)",
          name, name, slash + 1, strcmp(command, "replay") ? command : "estimate", slash + 1);
  return USAGE;
}

int kind_refuse(const char *path, const char *command) {
  int status = FITS;
  errno = 0;
  if (strcmp(path, "-") != 0 && !is_there(path) && errno == EACCES)
    return cmd_cannot("open", path, USAGE);
  if (strcmp(path, "-") != 0)
    status = is_there(path) ? refuse_file(path, command) : refuse_name(path, command);
  errno = 0;
  return status;
}
