/* Names for addresses: tools/vram_symbols.h. What is in a file may be wrong, and cost a name. */
#include "vram_symbols.h"

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

enum { SYMBOLS_SECONDS = 20, SYMBOLS_BATCH = 500, SYMBOLS_LARGEST = 1 << 30 };

typedef struct elf_file {
  int fd;
  uint64_t bytes;
  Elf64_Shdr *section;
  uint32_t sections;
  char *names; /* of sections */
  uint64_t names_bytes;
} elf_file;

typedef struct answer {
  uint64_t at; /* the last byte of the call */
  symbol *is;  /* NULL: not known */
  char *elf;   /* its function as the file's symbols have it */
  int asked;
} answer;

struct symbol_module {
  char *path;
  unsigned char id[64];
  uint32_t id_bytes;
  answer *answer;
  uint32_t *slot;            /* twice cap: answers by the hash of their address, + 1 */
  uint32_t n, cap, resolved; /* answers; those that were looked for */
  uint32_t turn;             /* of the report that looked last */
  struct symbol_module *next;
};

static symbol_module *symbols_all;
static time_t symbols_until; /* lines are looked for */
static uint32_t symbols_turn;

void symbols_begin(void) {
  symbols_until = time(NULL) + SYMBOLS_SECONDS;
  symbols_turn++;
}

typedef struct kept_text {
  struct kept_text *next; /* with the same hash; the text stands behind it */
} kept_text;

/* The same text is kept once: reports come again and again. */
const char *symbols_keep(const char *text) {
  enum { HASHES = 1 << 14 };
  static kept_text *kept[HASHES];
  const size_t n = strlen(text) + 1;
  uint32_t hash = UINT32_C(2166136261); /* FNV-1a */
  kept_text *k, **first;
  size_t i;
  for (i = 0; i < n; i++)
    hash = (hash ^ (unsigned char)text[i]) * UINT32_C(16777619);
  first = &kept[(hash ^ hash >> 16) % HASHES];
  for (k = *first; k; k = k->next)
    if (!strcmp((const char *)(k + 1), text))
      return (const char *)(k + 1);
  k = (kept_text *)malloc(sizeof *k + n);
  if (!k)
    return NULL;
  memcpy(k + 1, text, n);
  k->next = *first;
  *first = k;
  return (const char *)(k + 1);
}

symbol_module *symbols_of(const char *path, const unsigned char *id, uint32_t id_bytes) {
  symbol_module *m, **at = &symbols_all;
  id_bytes = id_bytes < sizeof m->id ? id_bytes : (uint32_t)sizeof m->id;
  for (m = *at; m; at = &m->next, m = *at)
    if (m->id_bytes == id_bytes && !memcmp(m->id, id, id_bytes) && !strcmp(m->path, path)) {
      *at = m->next; /* to the front: it is asked for again soon */
      m->next = symbols_all;
      symbols_all = m;
      return m;
    }
  m = (symbol_module *)calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->path = strdup(path);
  if (!m->path) {
    free(m);
    return NULL;
  }
  memcpy(m->id, id, id_bytes);
  m->id_bytes = id_bytes;
  m->next = symbols_all;
  symbols_all = m;
  return m;
}

/* Where the answer for this address is noted, or will be. */
static uint32_t *symbols_slot(const symbol_module *m, uint64_t at) {
  const uint32_t slots = 2 * m->cap;
  uint32_t i = (uint32_t)(at * UINT64_C(0x9e3779b97f4a7c15) >> 32) % slots;
  while (m->slot[i] && m->answer[m->slot[i] - 1].at != at)
    i = (i + 1) % slots;
  return &m->slot[i];
}

static answer *symbols_find(const symbol_module *m, uint64_t at) {
  const uint32_t i = m->cap ? *symbols_slot(m, at) : 0;
  return i ? &m->answer[i - 1] : NULL;
}

/* Room for more answers; 0: no memory. */
static int symbols_grow(symbol_module *m) {
  const uint32_t cap = m->cap ? 2 * m->cap : 16;
  uint32_t *slot = (uint32_t *)calloc(2 * (size_t)cap, sizeof *slot), i;
  answer *more = slot ? (answer *)realloc(m->answer, cap * sizeof *more) : NULL;
  if (!more) {
    free(slot);
    return 0;
  }
  memset(more + m->cap, 0, (cap - m->cap) * sizeof *more);
  free(m->slot);
  m->slot = slot;
  m->answer = more;
  m->cap = cap;
  for (i = 0; i < m->n; i++)
    *symbols_slot(m, more[i].at) = i + 1;
  return 1;
}

void symbols_ask(symbol_module *m, uint64_t returns_to) {
  const uint64_t at = returns_to - 1;
  if (!m || symbols_find(m, at) || (m->n == m->cap && !symbols_grow(m)))
    return;
  m->answer[m->n].at = at;
  *symbols_slot(m, at) = m->n + 1;
  m->n++;
}

/* ---- ELF files */

/* Bytes of a file, for free(); NULL: they are not there. */
static char *elf_get(const elf_file *f, uint64_t from, uint64_t n, uint64_t *got) {
  char *to;
  *got = 0;
  if (from > f->bytes || n > f->bytes - from || n > SYMBOLS_LARGEST)
    return NULL;
  to = (char *)malloc((size_t)n + 1);
  if (!to)
    return NULL;
  while (*got < n) {
    const ssize_t k = pread(f->fd, to + *got, (size_t)(n - *got), (off_t)(from + *got));
    if (k <= 0) {
      free(to);
      return NULL;
    }
    *got += (uint64_t)k;
  }
  to[n] = 0;
  return to;
}

static void elf_close(elf_file *f) {
  if (f->fd >= 0)
    close(f->fd);
  free(f->section);
  free(f->names);
  memset(f, 0, sizeof *f);
  f->fd = -1;
}

/* 0: it is no file of this machine's sort. */
static int elf_open(elf_file *f, const char *path) {
  const uint16_t one = 1;
  const unsigned char order = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;
  Elf64_Ehdr *head = NULL;
  uint64_t got = 0;
  off_t bytes;
  int is_elf;
  memset(f, 0, sizeof *f);
  f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (f->fd < 0)
    return 0;
  bytes = lseek(f->fd, 0, SEEK_END);
  f->bytes = bytes > 0 ? (uint64_t)bytes : 0;
  head = (Elf64_Ehdr *)(void *)elf_get(f, 0, sizeof *head, &got);
  is_elf = head && !memcmp(head->e_ident, ELFMAG, SELFMAG) &&
           head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_ident[EI_DATA] == order &&
           head->e_shentsize == sizeof(Elf64_Shdr);
  if (is_elf) {
    f->sections = head->e_shnum;
    f->section = (Elf64_Shdr *)(void *)elf_get(f, head->e_shoff,
                                               (uint64_t)f->sections * sizeof(Elf64_Shdr), &got);
    is_elf = f->section && head->e_shstrndx < f->sections;
  }
  if (is_elf)
    f->names = elf_get(f, f->section[head->e_shstrndx].sh_offset,
                       f->section[head->e_shstrndx].sh_size, &f->names_bytes);
  free(head);
  if (!is_elf || !f->names) {
    elf_close(f);
    return 0;
  }
  return 1;
}

/* The section of that name with something in it; NULL: there is none. */
static const Elf64_Shdr *elf_section(const elf_file *f, const char *name) {
  uint32_t i;
  for (i = 0; i < f->sections; i++)
    if (f->section[i].sh_name < f->names_bytes && f->section[i].sh_type != SHT_NOBITS &&
        f->section[i].sh_size && !strcmp(f->names + f->section[i].sh_name, name))
      return &f->section[i];
  return NULL;
}

static char *elf_section_bytes(const elf_file *f, const char *name, uint64_t *n) {
  const Elf64_Shdr *s = elf_section(f, name);
  *n = 0;
  return s ? elf_get(f, s->sh_offset, s->sh_size, n) : NULL;
}

/* Its build id; the number of bytes, 0: it has none. */
static uint32_t elf_id(const elf_file *f, unsigned char to[64]) {
  uint64_t n;
  char *note = elf_section_bytes(f, ".note.gnu.build-id", &n);
  Elf64_Nhdr head;
  uint32_t bytes = 0;
  if (note && n >= sizeof head) {
    memcpy(&head, note, sizeof head);
    if (head.n_type == 3 && head.n_namesz == 4 && head.n_descsz <= 64 &&
        n >= sizeof head + 4 + head.n_descsz) {
      bytes = head.n_descsz;
      memcpy(to, note + sizeof head + 4, bytes);
    }
  }
  free(note);
  return bytes;
}

static int elf_has_lines(const elf_file *f) {
  return elf_section(f, ".debug_line") || elf_section(f, ".zdebug_line");
}

static int by_address(const void *a, const void *b) {
  const uint64_t x = (*(answer *const *)a)->at, y = (*(answer *const *)b)->at;
  return (x > y) - (x < y);
}

/* The answers from m->resolved on in the order of their addresses, for free(); NULL: no memory. */
static answer **symbols_sorted(symbol_module *m) {
  const uint32_t n = m->n - m->resolved;
  answer **list = (answer **)malloc((n + (size_t)1) * sizeof *list);
  uint32_t k;
  for (k = 0; list && k < n; k++)
    list[k] = &m->answer[m->resolved + k];
  if (list)
    qsort(list, n, sizeof *list, by_address);
  return list;
}

/* The functions that the addresses without one lie in. */
static void elf_functions(const elf_file *f, symbol_module *m) {
  const char *table = elf_section(f, ".symtab") ? ".symtab" : ".dynsym";
  uint64_t bytes, text_bytes, i;
  char *raw = elf_section_bytes(f, table, &bytes),
       *text = elf_section_bytes(f, *(table + 1) == 's' ? ".strtab" : ".dynstr", &text_bytes);
  answer **const list = symbols_sorted(m);
  const uint32_t n = m->n - m->resolved;
  uint32_t k, end;
  for (i = 0; list && raw && text && i + sizeof(Elf64_Sym) <= bytes; i += sizeof(Elf64_Sym)) {
    Elf64_Sym s;
    memcpy(&s, raw + i, sizeof s);
    if ((ELF64_ST_TYPE(s.st_info) != STT_FUNC && ELF64_ST_TYPE(s.st_info) != STT_GNU_IFUNC) ||
        s.st_shndx == SHN_UNDEF || s.st_name >= text_bytes || !text[s.st_name])
      continue;
    for (k = 0, end = n; k < end;) { /* the first one that is not before it */
      const uint32_t middle = k + (end - k) / 2;
      if (list[middle]->at < s.st_value)
        k = middle + 1;
      else
        end = middle;
    }
    for (; k < n && list[k]->at - s.st_value < s.st_size; k++)
      if (!list[k]->elf)
        list[k]->elf = strdup(text + s.st_name);
  }
  free(list);
  free(raw);
  free(text);
}

/* ---- files that hold what was stripped */

/* As .gnu_debuglink counts it: the CRC-32 of zip. */
static uint32_t debug_crc(int fd) {
  static unsigned char buffer[65536];
  uint32_t crc = 0xffffffffu;
  off_t at = 0;
  ssize_t n, i;
  int bit;
  while ((n = pread(fd, buffer, sizeof buffer, at)) > 0) {
    for (i = 0; i < n; i++)
      for (crc ^= buffer[i], bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    at += n;
  }
  return ~crc;
}

typedef struct debug_search {
  const unsigned char *id;
  uint32_t id_bytes, crc;
  char *found;
} debug_search;

/* 1: that file holds what was stripped. */
static int debug_try(debug_search *d, elf_file *f, const char *path) {
  unsigned char id[64];
  uint32_t n;
  if (!elf_open(f, path))
    return 0;
  n = elf_id(f, id);
  if (n && d->id_bytes ? n == d->id_bytes && !memcmp(id, d->id, n)
                       : d->crc && debug_crc(f->fd) == d->crc) {
    d->found = strdup(path);
    if (d->found)
      return 1;
  }
  elf_close(f);
  return 0;
}

static const char debug_root[] = "/usr/lib/debug";

static int debug_by_id(debug_search *d, elf_file *f) {
  const char *cache = getenv("DEBUGINFOD_CACHE_PATH"), *home = getenv("HOME");
  char hex[129], path[4096];
  size_t i;
  if (d->id_bytes < 2)
    return 0;
  for (i = 0; i < d->id_bytes; i++)
    snprintf(hex + 2 * i, 3, "%02x", d->id[i]);
  snprintf(path, sizeof path, "%s/.build-id/%.2s/%s.debug", debug_root, hex, hex + 2);
  if (debug_try(d, f, path))
    return 1;
  if (cache && *cache)
    snprintf(path, sizeof path, "%s/%s/debuginfo", cache, hex);
  else
    snprintf(path, sizeof path, "%s/.cache/debuginfod_client/%s/debuginfo", home ? home : "", hex);
  return debug_try(d, f, path);
}

static int debug_by_link(debug_search *d, const elf_file *stripped, const char *of, elf_file *f) {
  static const char *const form[] = {"%s%.*s/%s", "%s%.*s/.debug/%s"};
  char path[8192], *real = realpath(of, NULL);
  const char *slash = real ? strrchr(real, '/') : NULL;
  uint64_t n, at;
  char *link = elf_section_bytes(stripped, ".gnu_debuglink", &n);
  int found = 0, i;
  if (link && slash && n > 4) {
    at = (strlen(link) + 4) & ~UINT64_C(3);
    if (at + 4 <= n && *link) {
      memcpy(&d->crc, link + at, 4);
      for (i = 0; i < 3 && !found; i++) {
        snprintf(path, sizeof path, form[i & 1], i == 2 ? debug_root : "", (int)(slash - real),
                 real, link);
        found = strcmp(path, real) != 0 && debug_try(d, f, path);
      }
    }
  }
  free(link);
  free(real);
  return found;
}

/* ---- lines */

/* In place: of what nvcc makes of a file, addr2line has the file for the host's compiler,
   .../tmpxft_00001234_00000000-6_NAME.cudafe1.cpp, with the line in NAME.cu. */
static const char *symbols_file(char *text) {
  static const char end[] = ".cudafe1.cpp";
  char *name = strrchr(text, '/'), *tail;
  name = name ? name + 1 : text;
  tail = strstr(name, end);
  if (strncmp(name, "tmpxft_", 7) != 0 || !tail || tail[sizeof end - 1])
    return text;
  name = strchr(name, '-');
  name = name ? strchr(name, '_') : NULL;
  if (!name || name >= tail)
    return text;
  memcpy(tail, ".cu", 4);
  return name + 1;
}

/* Address, then function and file:line, twice and more where something was inlined. */
static void symbols_read(symbol_module *m, char *text) {
  answer *a = NULL;
  symbol **end = NULL, *s;
  char *next, *function = NULL, *colon;
  for (; text && *text; text = next) {
    next = strchr(text, '\n');
    if (next)
      *next++ = 0;
    if (!strncmp(text, "0x", 2)) {
      a = symbols_find(m, strtoull(text, NULL, 16));
      end = a && !a->is ? &a->is : NULL;
      function = NULL;
      continue;
    }
    if (!function) {
      function = text;
      continue;
    }
    colon = strrchr(text, ':');
    s = end && colon && *text != '?' && strtoul(colon + 1, NULL, 10)
            ? (symbol *)calloc(1, sizeof *s)
            : NULL;
    if (s) {
      s->line = (uint32_t)strtoul(colon + 1, NULL, 10);
      *colon = 0;
      s->file = symbols_keep(symbols_file(text));
      s->function = *function == '?' ? NULL : symbols_keep(function);
      *end = s;
      end = &s->outer;
    } else
      end = NULL; /* nothing is known of what it is in, either */
    function = NULL;
  }
}

/* The lines that the program writes until it ends or its time is over, for free(); NULL: it failed
   and said nothing. *status: as waitpid gives it. */
static char *symbols_output(char *const argv[], time_t until, int *status) {
  size_t n = 0, cap = 65536;
  char *text, *more;
  int ends[2], whole = 0, late = 0;
  struct pollfd wait;
  ssize_t got;
  pid_t child;
  *status = 0;
  if (pipe(ends))
    return NULL;
  text = (char *)malloc(cap + 1);
  child = text ? fork() : -1;
  if (!child) {
    const int nothing = open("/dev/null", O_RDWR);
    if (dup2(nothing, 0) < 0 || dup2(ends[1], 1) < 0 || dup2(nothing, 2) < 0)
      _exit(127);
    close(ends[0]);
    close(ends[1]);
    (void)unsetenv("DEBUGINFOD_URLS"); /* nothing is fetched */
    execvp(argv[0], argv);
    _exit(127);
  }
  close(ends[1]);
  wait.fd = ends[0];
  wait.events = POLLIN;
  while (child > 0) {
    const time_t now = time(NULL);
    const int ready = now < until ? poll(&wait, 1, (int)(until - now) * 1000) : 0;
    late = !ready;
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready <= 0)
      break;
    if (cap - n < 4096) {
      more = (char *)realloc(text, 2 * cap + 1);
      if (!more)
        break;
      text = more;
      cap *= 2;
    }
    got = read(ends[0], text + n, cap - n);
    if (got < 0 && errno == EINTR)
      continue;
    whole = !got;
    if (got <= 0)
      break;
    n += (size_t)got;
  }
  close(ends[0]);
  if (child > 0) {
    if (!whole)
      (void)kill(child, SIGKILL);
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
      ;
  }
  while (n && text[n - 1] != '\n')
    n--; /* it may end inside a number */
  if (child < 0 || (*status && !late && !n)) {
    free(text);
    return NULL;
  }
  text[n] = 0;
  return text;
}

/* The first that may be there; 2: none. addr2line has the outer function's name for what was
   inlined there, if the symbols have no other. */
enum { SYMBOLIZER, ADDR2LINE, NO_PROGRAM };
static int symbols_program;

/* Asks for the lines of m's addresses, which lie in `path`; how many have been looked for. */
static uint32_t symbols_lines(symbol_module *m, const char *path, time_t until) {
  static char words[][7][24] = {{"llvm-symbolizer", "--output-style=GNU", "--addresses",
                                 "--inlines", "--demangle", "--functions", ""},
                                {"addr2line", "-a", "-f", "-i", "-C", "-e", ""}};
  static char address[SYMBOLS_BATCH][24];
  char *argv[SYMBOLS_BATCH + 16], object[4200], *text;
  uint32_t i = m->resolved, n, k;
  int program = symbols_program, status;
  while (i < m->n && program < NO_PROGRAM && time(NULL) < until) {
    for (k = 0; *words[program][k]; k++)
      argv[k] = words[program][k];
    snprintf(object, sizeof object, "%s%s", program == SYMBOLIZER ? "--obj=" : "", path);
    argv[k++] = object;
    for (n = 0; n < SYMBOLS_BATCH && i + n < m->n; n++) {
      snprintf(address[n], sizeof address[n], "0x%" PRIx64, m->answer[i + n].at);
      argv[k++] = address[n];
    }
    argv[k] = NULL;
    text = symbols_output(argv, until, &status);
    if (text) {
      symbols_read(m, text);
      i += n;
    } else {
      program++; /* it cannot read this file, or knows other options */
      if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && symbols_program < program)
        symbols_program = program; /* it is not there */
    }
    free(text);
  }
  return program < NO_PROGRAM && i < m->n ? i : m->n;
}

/* ---- names */

/* Of C++, if the C++ library is installed: nothing else of it is needed. */
static char *symbols_demangled(const char *name) {
  typedef char *(*demangle_function)(const char *, char *, size_t *, int *);
  static demangle_function demangle;
  static int tried;
  void *library, *found;
  int status = 0;
  if (!tried++) {
    library = dlopen("libstdc++.so.6", RTLD_LAZY);
    if (!library)
      library = dlopen("libc++abi.so.1", RTLD_LAZY);
    found = library ? dlsym(library, "__cxa_demangle") : NULL;
    memcpy(&demangle, &found, sizeof found);
  }
  return demangle && !strncmp(name, "_Z", 2) ? demangle(name, NULL, NULL, &status) : NULL;
}

/* Is it what may follow a function's parameters? */
static int symbols_may_follow(const char *s) {
  static const char *const words[] = {" const", " volatile", " &&", " &"};
  size_t i;
  while (*s) {
    const char *const from = s;
    for (i = 0; i < sizeof words / sizeof *words && s == from; i++)
      if (!strncmp(s, words[i], strlen(words[i])))
        s += strlen(words[i]);
    if (!strncmp(s, " [clone ", 8) && strchr(s, ']'))
      s = strchr(s, ']') + 1;
    if (s == from)
      return 0;
  }
  return 1;
}

/* Without parameters, and what follows them: `f<(type)3>` and `f(int)::{lambda()#1}` have none. */
static void symbols_shorten(char *name) {
  const size_t n = strlen(name);
  char *end = strrchr(name, ')'), *at = end;
  int depth = 0;
  if (!end || !symbols_may_follow(end + 1) || (n >= 10 && !strcmp(name + n - 10, "operator()")))
    return;
  for (; at > name; at--) {
    depth += *at == ')' ? 1 : *at == '(' ? -1 : 0;
    if (!depth)
      break;
  }
  if (at > name && at[-1] != ' ' && strncmp(at, "(anonymous", 10) != 0)
    *at = 0;
}

/* The name of a function for people. */
static const char *symbols_name(const char *name) {
  char *plain = symbols_demangled(name), *text;
  const char *kept;
  text = strdup(plain ? plain : name);
  free(plain);
  if (!text)
    return NULL;
  symbols_shorten(text);
  kept = symbols_keep(text);
  free(text);
  return kept;
}

/* ---- all of it */

static void symbols_resolve(symbol_module *m) {
  unsigned char id[64];
  elf_file file, debug;
  debug_search d;
  uint32_t n, looked = m->n;
  memset(&d, 0, sizeof d);
  debug.fd = -1;
  debug.section = NULL;
  debug.names = NULL;
  if (elf_open(&file, m->path)) {
    n = elf_id(&file, id);
    if (!m->id_bytes || (n == m->id_bytes && !memcmp(id, m->id, n))) { /* it is the same file */
      d.id = id;
      d.id_bytes = n;
      if ((!elf_section(&file, ".symtab") || !elf_has_lines(&file)) && !debug_by_id(&d, &debug))
        (void)debug_by_link(&d, &file, m->path, &debug);
      elf_functions(d.found && !elf_section(&file, ".symtab") ? &debug : &file, m);
      if (elf_has_lines(&file))
        looked = symbols_lines(m, m->path, symbols_until);
      else if (d.found && elf_has_lines(&debug))
        looked = symbols_lines(m, d.found, symbols_until);
    }
    elf_close(&file);
  }
  elf_close(&debug);
  free(d.found);
  m->resolved = looked;
  m->turn = symbols_turn;
}

const symbol *symbols_at(symbol_module *m, uint64_t returns_to, const char *name) {
  static symbol without_line;
  answer *a = m ? symbols_find(m, returns_to - 1) : NULL;
  symbol *s;
  if (!a)
    return NULL;
  if (m->resolved < m->n && m->turn != symbols_turn)
    symbols_resolve(m);
  if (a->asked)
    return a->is;
  name = a->elf ? a->elf : name;
  if ((uint32_t)(a - m->answer) >= m->resolved) { /* its line is looked for next time */
    without_line.function = name ? symbols_name(name) : NULL;
    return name ? &without_line : NULL;
  }
  a->asked = 1;
  if (!a->is && name)
    a->is = (symbol *)calloc(1, sizeof *a->is);
  for (s = a->is; s; s = s->outer) {
    if (s->outer && s->outer->function &&
        (!s->function || !strcmp(s->function, s->outer->function))) {
      s->function = "(inlined)";
      continue;
    }
    if (!s->function && !s->outer && name)
      s->function = name;
    if (s->function)
      s->function = symbols_name(s->function);
  }
  return a->is;
}

#else
typedef int symbols_are_of_linux;
#endif

/* torch/csrc/profiler: unwind, combined_traceback.cpp; c10/core, c10/cuda, aten/src/ATen:
 * EmptyTensor */
int symbols_passing(const char *name, size_t n) {
  static const char *const part[] = {"torch::unwind::",        "torch::CapturedTraceback::",
                                     "::gather_with_cpp",      "CUDACachingAllocator",
                                     "CachingDeviceAllocator", "CachingHostAllocator",
                                     "at::detail::empty_",     "at::native::empty_",
                                     "at::_ops::empty_",       "at::empty_"};
  size_t i, k;
  for (k = 0; k < sizeof part / sizeof *part; k++)
    for (i = strlen(part[k]); i <= n; i++)
      if (!memcmp(name + i - strlen(part[k]), part[k], strlen(part[k])))
        return 1;
  return 0;
}
