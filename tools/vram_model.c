/* Files of models: what they are, where their parts lie, their headers. */
#include "vram_model.h"

#if defined(__unix__) || defined(__APPLE__)
#define HAS_POSIX 1
#include <sys/stat.h>
#endif
#if defined(HAS_POSIX) || defined(__wasm__)
#define HAS_FSEEKO 1 /* files of any size */
#endif

/* ---- files ---- */

int cmd_is_regular(const char *path) {
#ifdef HAS_POSIX
  struct stat st;
  return !stat(path, &st) && S_ISREG(st.st_mode);
#else
  return strcmp(path, "-") != 0;
#endif
}

static vram_result read_range(void *user, uint64_t offset, void *to, uint64_t bytes) {
  FILE *const f = (FILE *)user;
#ifdef HAS_FSEEKO
  const int failed = fseeko(f, (off_t)offset, SEEK_SET);
#else
  const int failed = offset > INT32_MAX || fseek(f, (long)offset, SEEK_SET);
#endif
  return failed || fread(to, 1, (size_t)bytes, f) != bytes ? VRAM_ERR_CALL : VRAM_OK;
}

/* s of a file that is open; 0: it cannot be, and errno says why not. The buffer of stdio is as
   large as what a range takes: none is needed. */
static int source_open(vram_file_source *s, const char *path) {
  FILE *f;
  memset(s, 0, sizeof *s);
  errno = cmd_is_regular(path) ? 0 : ENOENT;
  f = errno ? NULL : fopen(path, "rb");
  if (!f)
    return 0;
  setvbuf(f, NULL, _IONBF, 0);
  s->read = read_range;
  s->user = f;
#ifdef HAS_FSEEKO
  if (!fseeko(f, 0, SEEK_END) && ftello(f) >= 0)
    return s->bytes = (uint64_t)ftello(f), 1;
#else
  if (!fseek(f, 0, SEEK_END) && ftell(f) >= 0)
    return s->bytes = (uint64_t)ftell(f), 1;
#endif
  fclose(f);
  return 0;
}

static void source_close(vram_file_source *s) { fclose((FILE *)s->user); }

/* The first `folder` bytes of path, and the name behind them; NULL: no memory. */
static char *name_in(const char *path, size_t folder, const char *name, size_t len) {
  char *to = (char *)malloc(folder + len + 1);
  if (to) {
    memcpy(to, path, folder);
    memcpy(to + folder, name, len);
    to[folder + len] = 0;
  }
  return to;
}

/* Bytes of path that name its folder, with the slash. */
static size_t folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* ---- names of parts ---- */

enum { SPLIT_NAME = 20 }; /* -00001-of-00002.gguf */

/* NAME-00001-of-00002.gguf; 0: it is no such name */
static int is_split(const char *path) {
  static const char like[] = "-00000-of-00000.gguf";
  const size_t n = strlen(path);
  size_t i;
  if (n < SPLIT_NAME)
    return 0;
  for (i = 0; i < SPLIT_NAME; i++) {
    const char c = path[n - SPLIT_NAME + i];
    if (like[i] == '0' ? c < '0' || c > '9' : c != like[i])
      return 0;
  }
  return 1;
}

/* The name of part `number`, from 1 on, of `count`. */
static char *split_path(const char *path, uint64_t number, uint64_t count) {
  char name[64];
  snprintf(name, sizeof name, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", number, count);
  return name_in(path, strlen(path) - SPLIT_NAME, name, strlen(name));
}

enum { FOLDER_NAMES = 3 };
static const char *const folder_name[FOLDER_NAMES] = {"/model.safetensors.index.json",
                                                      "/model.safetensors", "/config.json"};

/* The file to begin with: of a folder the index, or else the weights or the configuration; of a
   GGUF file in parts the first one. NULL: no memory. */
static char *first_path(const char *path) {
  const size_t n = strlen(path);
  char *to;
  size_t i;
  if (is_split(path)) {
    to = name_in(path, n, "", 0);
    for (i = 0; to && i < 6; i++)
      to[n - SPLIT_NAME + i] = "-00001"[i];
    if (!to || cmd_is_regular(to))
      return to;
    free(to);
  }
  for (i = 0; i < FOLDER_NAMES && !cmd_is_regular(path); i++) {
    to = name_in(path, n, folder_name[i], strlen(folder_name[i]));
    if (!to || cmd_is_regular(to))
      return to;
    free(to);
  }
  return name_in(path, n, "", 0);
}

/* Without memory that could run out: what is no model is then read in its own way. */
vram_file_format model_sniff(const char *path) {
  const int is_built_in = !strpbrk(path, "./") && cmd_built_in(path);
  vram_file_format format = VRAM_FILE_NONE;
  char in_folder[4096];
  vram_file_source s;
  size_t i;
  for (i = 0; i < FOLDER_NAMES && !is_built_in && !cmd_is_regular(path); i++)
    if (snprintf(in_folder, sizeof in_folder, "%s%s", path, folder_name[i]) <
            (int)sizeof in_folder &&
        cmd_is_regular(in_folder))
      path = in_folder;
  if (!is_built_in && source_open(&s, path)) {
    format = vram_file_sniff(&s);
    source_close(&s);
  }
  return format;
}

#ifdef HAS_POSIX
/* What is there and no file; NULL: a file, or nothing. */
static const char *odd_kind(const char *path) {
  struct stat st;
  return stat(path, &st) || S_ISREG(st.st_mode)
             ? NULL
             : "a pipe or a device, expected a file: headers are read by ranges";
}
#else
static const char *odd_kind(const char *path) {
  (void)path;
  return NULL;
}
#endif

static int is_folder(const char *path) {
#ifdef HAS_POSIX
  struct stat st;
  return !stat(path, &st) && S_ISDIR(st.st_mode);
#else
  (void)path;
  return 0;
#endif
}

int model_refuse_file(const char *path) {
  uint8_t some[64];
  vram_file_source s;
  uint64_t i, n;
  int is_text;
  const char *const kind = odd_kind(path);
  if (!strcmp(path, "-") || (!strpbrk(path, "./") && cmd_built_in(path)))
    return FITS;
  if (kind_refuse(path, "estimate"))
    return USAGE;
  if (kind) {
    cmd_say("%s: %s", path, kind);
    return USAGE;
  }
  if (!source_open(&s, path))
    return cmd_cannot("open", path, USAGE);
  n = s.bytes < sizeof some ? s.bytes : sizeof some;
  is_text = n && !s.read(s.user, 0, some, n);
  for (i = 0; is_text && i < n; i++)
    is_text = (some[i] >= 32 && some[i] < 127) || (some[i] >= 9 && some[i] <= 13);
  source_close(&s);
  if (is_text)
    return FITS;
  cmd_say("%s: offset 0: %s", path,
          n ? "no GGUF, safetensors, config.json, ONNX or TFLite file" : "an empty file");
  return USAGE;
}

int model_refuse(const char *path, int argc, char **argv) {
  return model_has_option(argc, argv) || is_folder(path) ? model_refuse_file(path) : FITS;
}

/* ---- reading ---- */

static int read_error(const char *path, vram_result r, const vram_error *e) {
  if (r == VRAM_ERR_CALL)
    return cmd_cannot("read", path, OTHER);
  if (e->has_offset)
    cmd_say("%s: offset %" PRIu64 ": %s", path, e->offset, e->text);
  else
    cmd_say("%s: %s", path, e->text);
  return USAGE;
}

/* One part; *r: VRAM_ERR_MEMORY is not told. Not FITS: message printed. */
static int part_read(model_file *m, const char *path, vram_result *r) {
  vram_file_source s;
  vram_error e;
  if (!source_open(&s, path))
    return cmd_cannot("open", path, USAGE);
  errno = 0;
  *r = vram_file_read(&m->f, &s, &e);
  source_close(&s);
  return *r && *r != VRAM_ERR_MEMORY ? read_error(path, *r, &e) : FITS;
}

/* The part of that path, which goes. */
static int path_read(model_file *m, char *path, vram_result *r) {
  const int status = path ? part_read(m, path, r) : cmd_no_memory();
  free(path);
  return status;
}

int model_is_plain_name(const char *name, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)
    if (name[i] == '/' || name[i] == '\\' || !name[i])
      return 0;
  return n && !(n <= 2 && name[0] == '.' && name[n - 1] == '.');
}

static int shards_read(model_file *m, vram_result *r) {
  const vram_file_part *p;
  int status = FITS;
  for (p = m->f.part_first; p && !status && !*r; p = p->next) {
    if (!p->name || p->is_read)
      continue;
    if (!model_is_plain_name(p->name, p->name_len)) {
      cmd_say("%s: a shard in another folder:%s", m->path, cmd_found(p->name, p->name_len));
      return USAGE;
    }
    status = path_read(m, name_in(m->path, folder_of(m->path), p->name, p->name_len), r);
  }
  return status;
}

/* What there is of the files with an ONNX model's data, none of which is read. */
static int external_measure(const model_file *m) {
  vram_file_part *p;
  for (p = m->f.part_first->next; p; p = p->next) {
    char *const path = name_in(m->path, folder_of(m->path), p->name, p->name_len);
    vram_file_source s;
    if (!path)
      return cmd_no_memory();
    if (source_open(&s, path)) {
      p->present_bytes = s.bytes < p->expected_bytes ? s.bytes : p->expected_bytes;
      source_close(&s);
    }
    free(path);
  }
  return FITS;
}

static int splits_read(model_file *m, vram_result *r) {
  uint64_t i;
  int status = FITS;
  if (m->f.split_count > 1 && !is_split(m->path)) {
    cmd_say("%s: one of %" PRIu64 " parts, expected a name like model-00001-of-%05" PRIu64 ".gguf",
            m->path, m->f.split_count, m->f.split_count);
    return USAGE;
  }
  for (i = 2; i <= m->f.split_count && !status && !*r; i++)
    status = path_read(m, split_path(m->path, i, m->f.split_count), r);
  return status;
}

/* All parts into the memory that there is. */
static int parts_read(model_file *m, vram_result *r) {
  vram_error e;
  int status = part_read(m, m->path, r);
  if (!status && !*r && m->f.format == VRAM_FILE_GGUF)
    status = splits_read(m, r);
  else if (!status && !*r && m->f.format == VRAM_FILE_ONNX)
    status = external_measure(m);
  else if (!status && !*r)
    status = shards_read(m, r);
  if (status || *r)
    return status;
  *r = vram_file_finish(&m->f, &e);
  return *r && *r != VRAM_ERR_MEMORY ? read_error(m->path, *r, &e) : FITS;
}

/* A program of ExecuTorch: as part_read. */
static int program_read(model_file *m, vram_executorch *program, vram_result *r) {
  vram_file_source s;
  vram_error e;
  if (!source_open(&s, m->path))
    return cmd_cannot("open", m->path, USAGE);
  errno = 0;
  *r = vram_executorch_read(&m->f, &s, program, &e);
  source_close(&s);
  return *r && *r != VRAM_ERR_MEMORY ? read_error(m->path, *r, &e) : FITS;
}

/* All parts of m->path, which may be NULL: no memory; or a program. Where the first memory does not
   suffice, everything is read again: it does for a thousand shards, and what is not used costs
   nothing. */
static int path_open(model_file *m, vram_executorch *program) {
  vram_result r = VRAM_ERR_MEMORY;
  size_t cap = (size_t)1 << 24;
  int status = FITS;
  if (!m->path)
    return cmd_no_memory();
  for (; !status && r == VRAM_ERR_MEMORY; cap *= 2) {
    free(m->memory);
    m->memory = cap ? malloc(cap) : NULL;
    if (!m->memory)
      return cmd_no_memory();
    vram_file_init(&m->f, m->memory, cap);
    status = program ? program_read(m, program, &r) : parts_read(m, &r);
  }
  return status;
}

int model_file_open(model_file *m, const char *path) {
  memset(m, 0, sizeof *m);
  m->path = first_path(path);
  return path_open(m, NULL);
}

int model_executorch_open(model_file *m, const char *path, vram_executorch *program) {
  memset(m, 0, sizeof *m);
  m->path = name_in(path, strlen(path), "", 0);
  return path_open(m, program);
}

int model_config_open(model_file *m, const char *path) {
  const char *const name = folder_name[FOLDER_NAMES - 1];
  int status;
  memset(m, 0, sizeof *m);
  m->path = cmd_is_regular(path) ? name_in(path, strlen(path), "", 0)
                                 : name_in(path, strlen(path), name, strlen(name));
  if (m->path && model_sniff(m->path) != VRAM_FILE_CONFIG)
    return CMD_ABSENT;
  status = path_open(m, NULL);
  return status || vram_file_get(&m->f, "model_type", 10) || vram_file_get(&m->f, "_class_name", 11)
             ? status
             : CMD_ABSENT;
}

void model_file_close(model_file *m) {
  free(m->memory);
  free(m->path);
}

/* ---- arguments ---- */

const char *model_argument(const char *const *help, int argc, char **argv) {
  const char *value, *own;
  cmd_option o;
  int i, is_flag;
  for (i = 0; i < argc; i++)
    if (argv[i][0] != '-' || !argv[i][1])
      return argv[i];
    else if (cmd_find_option(help, argv[i], &o))
      i += o.value_len != 0;
    else if ((own = model_own_word(argv[i], &value, &is_flag)) != NULL)
      i += *own && !is_flag;
  return NULL;
}
