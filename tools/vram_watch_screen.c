/* vram watch on a terminal: bars, history, processes, and keys. */
#include "vram_watch.h"

#if defined(__unix__) || defined(__APPLE__)

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>

/* ---- the terminal ---- */

static struct termios terminal_before;
static volatile sig_atomic_t has_keys, is_set, is_open, is_resized; /* is_set: keys come so */

/* Another picture than the shell's, without a cursor; keys come as they are pressed. */
static void terminal_open(void) {
  static const char enter[] = "\033[?1049h\033[?25l\033[2J";
  if (has_keys) {
    struct termios t = terminal_before;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t.c_cc[VMIN] = 0;
    t.c_cc[VTIME] = 0;
    is_set = !tcsetattr(STDIN_FILENO, TCSANOW, &t);
  }
  is_open = write(STDOUT_FILENO, enter, sizeof enter - 1) > 0;
}

static void terminal_close(void) {
  static const char leave[] = "\033[?25h\033[?1049l";
  if (!is_open)
    return;
  is_open = write(STDOUT_FILENO, leave, sizeof leave - 1) < 0;
  if (is_set)
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

static void on_end(int number) {
  terminal_close();
  signal(number, SIG_DFL);
  raise(number); /* when this returns */
}

static void on_stop(int number) {
  const int keep = errno;
  (void)number;
  terminal_close();
  kill(getpid(), SIGSTOP);
  terminal_open();
  is_resized = 1;
  errno = keep;
}

static void on_resize(int number) {
  (void)number;
  is_resized = 1;
}

static void terminal_begin(void) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  struct sigaction a;
  size_t i;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_end;
  for (i = 0; i < sizeof ends / sizeof *ends; i++)
    sigaction(ends[i], &a, NULL);
  a.sa_handler = on_stop;
  sigaction(SIGTSTP, &a, NULL);
#ifdef SIGWINCH
  a.sa_handler = on_resize;
  sigaction(SIGWINCH, &a, NULL);
#else
  (void)on_resize;
#endif
  has_keys = IS_TERMINAL(stdin) && !tcgetattr(STDIN_FILENO, &terminal_before);
  terminal_open();
}

/* ---- the state ---- */

typedef struct shown {
  const watch_device *device;
  const watch_process *process;
} shown;

typedef struct screen {
  watch_state *s;
  size_t columns, rows, row;
  int is_utf8, is_paused, has_colours;
  watch_history *history;
  size_t nhistory;
  shown *list;
  size_t nlist, room; /* processes, and lines for them */
  size_t selected, top, left;
  unsigned pid, index; /* of the selected one; it may move in the list */
  int mig, is_selected;
} screen;

static void screen_size(screen *c) {
  struct winsize w;
  is_resized = 0;
  c->columns = 80;
  c->rows = 24;
  if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col && w.ws_row)
    c->columns = w.ws_col, c->rows = w.ws_row;
}

static uint8_t percent(uint64_t part, uint64_t of) {
  if (part == WATCH_UNKNOWN || of == WATCH_UNKNOWN || !of)
    return 255;
  for (; of >> 56; of /= 2)
    part /= 2;
  return part >= of ? 100 : (uint8_t)((part * 100 + of / 2) / of);
}

static watch_history *history_of(const screen *c, const watch_device *d) {
  size_t i;
  for (i = 0; i < c->nhistory; i++)
    if (c->history[i].index == d->index && c->history[i].mig == d->mig)
      return &c->history[i];
  return NULL;
}

/* 0: out of memory */
static int screen_remember(screen *c) {
  size_t i;
  for (i = 0; i < c->s->ndevice; i++) {
    const watch_device *d = &c->s->device[i];
    watch_history *h = history_of(c, d);
    if (!h) {
      watch_history *more =
          (watch_history *)realloc(c->history, (c->nhistory + 1) * sizeof *c->history);
      if (!more)
        return 0;
      c->history = more;
      h = &more[c->nhistory++];
      memset(h, 0, sizeof *h);
      h->index = d->index;
      h->mig = d->mig;
    }
    h->memory[h->n % WATCH_SAMPLES] = percent(d->used, d->total);
    h->busy[h->n % WATCH_SAMPLES] = percent(d->utilization, 100);
    h->n++;
  }
  return 1;
}

static const watch_state *compared_for;

static int by_order(const void *a, const void *b) {
  const shown *x = (const shown *)a, *y = (const shown *)b;
  int d = watch_compare(compared_for->order, x->device, x->process, y->device, y->process);
  if (!d)
    d = (x->device > y->device) - (x->device < y->device);
  return compared_for->reverse ? -d : d;
}

/* All processes in order; the selected one stays so. 0: out of memory. */
static int screen_list(screen *c) {
  const watch_state *s = c->s;
  size_t i, k, n = 0;
  for (i = 0; i < s->ndevice; i++)
    n += s->device[i].nprocess;
  free(c->list);
  c->nlist = 0;
  c->list = (shown *)malloc((n + 1) * sizeof *c->list);
  if (!c->list)
    return 0;
  for (i = 0; i < s->ndevice; i++)
    for (k = 0; k < s->device[i].nprocess; k++) {
      c->list[c->nlist].device = &s->device[i];
      c->list[c->nlist++].process = &s->device[i].process[k];
    }
  compared_for = s;
  if (n)
    qsort(c->list, n, sizeof *c->list, by_order);
  for (i = 0; i < n && c->is_selected; i++)
    if (c->list[i].process->pid == c->pid && c->list[i].device->index == c->index &&
        c->list[i].device->mig == c->mig)
      c->selected = i;
  if (c->selected >= n)
    c->selected = n ? n - 1 : 0;
  return 1;
}

/* ---- lines ---- */

typedef struct cells { /* a line of the terminal */
  char text[4096];
  size_t n, used, most; /* bytes; columns */
} cells;

/* Characters that take one column each; others are shown as '?'. */
static void put_text(cells *l, const char *s) {
  while (*s && l->used < l->most && l->n + 8 < sizeof l->text) {
    const char *from = s;
    const unsigned c = cmd_next_char(&s);
    if (c < 32 || (c >= 127 && c < 161) || (c >= 0x300 && c < 0x370) ||
        (c >= 0x590 && (c < 0x2580 || c > 0x259f)))
      l->text[l->n++] = '?';
    else
      while (from < s)
        l->text[l->n++] = *from++;
    l->used++;
  }
}

/* In exactly so many columns, at their left or right end. */
static void put_field(cells *l, const char *s, size_t width, int right) {
  const size_t end = l->used + width;
  const size_t most = l->most;
  size_t pad = strlen(s) < width ? width - strlen(s) : 0;
  if (l->most > end)
    l->most = end;
  for (; right && pad; pad--)
    put_text(l, " ");
  put_text(l, s);
  while (l->used < l->most)
    put_text(l, " ");
  l->most = most;
}

static void put_style(cells *l, const screen *c, const char *code) {
  if (c->has_colours && l->n + strlen(code) < sizeof l->text - 16) {
    memcpy(l->text + l->n, code, strlen(code));
    l->n += strlen(code);
  }
}

static void line_begin(cells *l, const screen *c) {
  l->n = l->used = 0;
  l->most = c->columns;
}

static void line_end(cells *l, screen *c) {
  l->text[l->n] = 0;
  if (c->row < c->rows) /* no line break behind the last one */
    printf("%s%s%s\033[K", c->row ? "\n" : "", l->text, c->has_colours ? "\033[0m" : "");
  c->row++;
}

/* Green, yellow from 60 percent on, red from 85. */
static const char *colour_of(uint8_t value) {
  return value == 255 || value < 60 ? "\033[32m" : value < 85 ? "\033[33m" : "\033[31m";
}

static void put_bar(cells *l, const screen *c, uint8_t value, size_t width) {
  const size_t full = value == 255 ? 0 : (value * width + 50) / 100;
  size_t i;
  put_text(l, "[");
  put_style(l, c, colour_of(value));
  for (i = 0; i < width; i++)
    put_text(l, i < full || (!i && value && value != 255) ? "|" : " ");
  put_style(l, c, "\033[0m");
  put_text(l, "]");
}

/* What is left of the line: the last samples, the newest at its end. */
static void put_history(cells *l, const screen *c, const watch_history *h, const uint8_t *value) {
  static const char *const blocks[8] = {"\342\226\201", "\342\226\202", "\342\226\203",
                                        "\342\226\204", "\342\226\205", "\342\226\206",
                                        "\342\226\207", "\342\226\210"};
  static const char plain[][2] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  const size_t width = l->most > l->used ? l->most - l->used : 0;
  size_t k;
  if (!h || width < 4)
    return;
  put_style(l, c, "\033[36m");
  for (k = width; k; k--) {
    const uint8_t v = k <= h->n && k <= WATCH_SAMPLES ? value[(h->n - k) % WATCH_SAMPLES] : 255;
    const int level = v >= 100 ? 7 : v * 8 / 100;
    put_text(l, v == 255 ? " " : c->is_utf8 ? blocks[level] : plain[level]);
  }
  put_style(l, c, "\033[0m");
}

/* ---- a picture ---- */

static void draw_head(screen *c) {
  const watch_state *s = c->s;
  const time_t now = time(NULL);
  const struct tm *local = localtime(&now);
  cells l;
  char text[256], at[16] = "";
  if (local)
    strftime(at, sizeof at, "%H:%M:%S", local);
  line_begin(&l, c);
  put_style(&l, c, "\033[2m");
  snprintf(text, sizeof text, "%s%s  NVIDIA driver %s, CUDA %s", at, c->is_paused ? " stopped" : "",
           *s->driver ? s->driver : "-", *s->cuda ? s->cuda : "-");
  put_text(&l, text);
  line_end(&l, c);
}

/* "1.50 GiB of 80.0 GiB", or its first part */
static void put_amount(cells *l, const screen *c, const watch_device *d) {
  char text[48];
  if (c->columns >= 72) {
    snprintf(text, sizeof text, "%s of %s", watch_bytes(d->used), watch_bytes(d->total));
    put_field(l, text, 22, 1);
  } else
    put_field(l, watch_bytes(d->used), 9, 1);
}

static void put_share(cells *l, uint8_t value) {
  char text[8];
  snprintf(text, sizeof text, value == 255 ? "-" : "%u %%", (unsigned)value);
  put_field(l, text, 6, 1);
}

static size_t bar_width(const screen *c) {
  return c->columns >= 100 ? 30 : c->columns >= 72 ? 20 : c->columns >= 40 ? 8 : 4;
}

/* A device in so many lines, 1 to 3. */
static void draw_device(screen *c, const watch_device *d, int lines) {
  const watch_history *h = history_of(c, d);
  const uint8_t memory = percent(d->used, d->total), busy = percent(d->utilization, 100);
  char text[256];
  cells l;
  if (lines > 1) {
    line_begin(&l, c);
    put_style(&l, c, "\033[1m");
    snprintf(text, sizeof text, "%s %s", watch_index(d), *d->name ? d->name : "-");
    put_text(&l, text);
    put_style(&l, c, "\033[0m");
    if (lines == 2) /* what a narrow terminal cuts off comes last */
      snprintf(text, sizeof text, "  busy %s", watch_value(d->utilization, "%"));
    else
      text[0] = 0;
    snprintf(text + strlen(text), sizeof text - strlen(text), "  %s",
             watch_value(d->temperature, "C"));
    if (d->power != WATCH_UNKNOWN) {
      snprintf(text + strlen(text), sizeof text - strlen(text), "  %s",
               watch_value((d->power + 500) / 1000, "W"));
      if (d->power_limit != WATCH_UNKNOWN)
        snprintf(text + strlen(text), sizeof text - strlen(text), " of %s",
                 watch_value((d->power_limit + 500) / 1000, "W"));
    }
    put_text(&l, text);
    if (*d->error) {
      put_style(&l, c, "\033[31m");
      put_text(&l, "  ");
      put_text(&l, d->error);
    }
    line_end(&l, c);
  }
  line_begin(&l, c);
  if (lines == 1)
    put_field(&l, watch_index(d), 5, 0);
  else
    put_text(&l, " mem ");
  put_bar(&l, c, memory, bar_width(c));
  put_share(&l, memory);
  put_amount(&l, c, d);
  if (lines == 1 && *d->error) {
    put_text(&l, "  ");
    put_text(&l, d->error);
  } else if (lines == 1 && c->columns >= 40)
    put_share(&l, busy);
  put_text(&l, " ");
  put_history(&l, c, h, h ? h->memory : NULL);
  line_end(&l, c);
  if (lines == 3) {
    line_begin(&l, c);
    put_text(&l, "busy ");
    put_bar(&l, c, busy, bar_width(c));
    put_share(&l, busy);
    put_field(&l, "", c->columns >= 72 ? 22 : 9, 0);
    put_text(&l, " ");
    put_history(&l, c, h, h ? h->busy : NULL);
    line_end(&l, c);
  }
}

/* A heading, marked where it sorts. */
static void put_heading(cells *l, const screen *c, watch_order order, const char *name,
                        size_t width, int right) {
  char text[32];
  snprintf(text, sizeof text, "%s%s", name, c->s->order != order ? "" : c->s->reverse ? "^" : "*");
  put_field(l, text, width, right);
}

static void draw_headings(screen *c) {
  cells l;
  line_begin(&l, c);
  put_style(&l, c, "\033[7m");
  put_text(&l, " ");
  if (c->columns >= 50)
    put_heading(&l, c, WATCH_BY_GPU, "gpu", 5, 0);
  put_heading(&l, c, WATCH_BY_PID, "pid", 9, 0);
  if (c->columns >= 60)
    put_heading(&l, c, WATCH_BY_USER, "user", 11, 0);
  if (c->columns >= 76)
    put_field(&l, "type", 5, 0);
  if (c->columns >= 36)
    put_heading(&l, c, WATCH_BY_BUSY, "busy", 6, 1);
  if (c->columns >= 120) {
    put_field(&l, "enc", 6, 1);
    put_field(&l, "dec", 6, 1);
  }
  put_heading(&l, c, WATCH_BY_MEMORY, "memory", 9, 1);
  if (c->columns >= 70)
    put_field(&l, "share", 7, 1);
  if (c->columns >= 100) {
    put_heading(&l, c, WATCH_BY_CPU, "cpu", 7, 1);
    put_field(&l, "host", 9, 1);
  }
  put_text(&l, "  ");
  put_heading(&l, c, WATCH_BY_COMMAND, "command", c->columns, 0);
  line_end(&l, c);
}

static void draw_process(screen *c, size_t at) {
  const watch_device *d = c->list[at].device;
  const watch_process *p = c->list[at].process;
  const int is_marked = c->is_selected && at == c->selected;
  const char *what = watch_what(p, 1);
  size_t k;
  char text[16];
  cells l;
  line_begin(&l, c);
  if (is_marked)
    put_style(&l, c, "\033[7m");
  put_text(&l, is_marked ? ">" : " ");
  if (c->columns >= 50)
    put_field(&l, watch_index(d), 5, 0);
  snprintf(text, sizeof text, "%u", p->pid);
  put_field(&l, text, 9, 0);
  if (c->columns >= 60) {
    put_field(&l, *p->user ? p->user : "-", 10, 0);
    put_text(&l, " ");
  }
  if (c->columns >= 76)
    put_field(&l, watch_types(p->types, 1), 5, 0);
  if (c->columns >= 36)
    put_field(&l, watch_value(p->busy, "%"), 6, 1);
  if (c->columns >= 120) {
    put_field(&l, watch_value(p->encoder, "%"), 6, 1);
    put_field(&l, watch_value(p->decoder, "%"), 6, 1);
  }
  put_field(&l, watch_bytes(p->used), 9, 1);
  if (c->columns >= 70) {
    put_text(&l, " ");
    put_share(&l, percent(p->used, d->total));
  }
  if (c->columns >= 100) {
    put_field(&l, watch_value(p->cpu, "%"), 7, 1);
    put_field(&l, watch_bytes(p->host), 9, 1);
  }
  put_text(&l, "  ");
  for (k = 0; k < c->left && *what; k++)
    cmd_next_char(&what);
  put_field(&l, what, c->columns, 0);
  line_end(&l, c);
}

static void draw_foot(screen *c) {
  const watch_state *s = c->s;
  char text[256];
  cells l;
  line_begin(&l, c);
  put_style(&l, c, "\033[2m");
  if (c->columns < 60)
    snprintf(text, sizeof text, "q quit  < > sort: %s", watch_order_name[s->order]);
  else
    snprintf(text, sizeof text,
             "q quit  arrows go through  < > sort: %s  r reverse  space %s%s%.60s%s%.60s",
             watch_order_name[s->order], c->is_paused ? "go on" : "stop", s->pids ? "  pid " : "",
             s->pids ? s->pids : "", s->users ? "  user " : "", s->users ? s->users : "");
  put_text(&l, text);
  line_end(&l, c);
}

static void draw(screen *c) {
  const size_t n = c->s->ndevice, wanted = (c->nlist < 4 ? c->nlist : 4) + 3; /* of the rest */
  const int lines = 3 * n + wanted <= c->rows ? 3 : 2 * n + wanted <= c->rows ? 2 : 1;
  const size_t most = c->rows > 4 ? c->rows - 4 : 1;
  size_t i;
  cells l;
  c->row = 0;
  fputs("\033[H", stdout);
  draw_head(c);
  for (i = 0; i < n && (lines > 1 || i + 1 < most || n <= most); i++)
    draw_device(c, &c->s->device[i], lines);
  if (i < n || !n) {
    char text[48];
    snprintf(text, sizeof text,
             !n  ? "no device"
             : i ? "%u more devices"
                 : "%u devices",
             (unsigned)(n - i));
    line_begin(&l, c);
    put_text(&l, text);
    line_end(&l, c);
  }
  draw_headings(c);
  c->room = c->rows > c->row + 1 ? c->rows - c->row - 1 : 1;
  if (c->top + c->room > c->nlist)
    c->top = c->nlist > c->room ? c->nlist - c->room : 0;
  if (c->selected < c->top)
    c->top = c->selected;
  if (c->selected >= c->top + c->room)
    c->top = c->selected - c->room + 1;
  for (i = c->top; i < c->nlist && i < c->top + c->room; i++)
    draw_process(c, i);
  while (c->row + 1 < c->rows) {
    line_begin(&l, c);
    line_end(&l, c);
  }
  draw_foot(c);
  fputs("\033[J", stdout);
}

/* ---- keys ---- */

static void go_to(screen *c, size_t at) {
  c->selected = at < c->nlist ? at : c->nlist ? c->nlist - 1 : 0;
  c->is_selected = c->nlist != 0;
  if (c->is_selected) {
    c->pid = c->list[c->selected].process->pid;
    c->index = c->list[c->selected].device->index;
    c->mig = c->list[c->selected].device->mig;
  }
}

static size_t less(size_t at, size_t by) { return at > by ? at - by : 0; }

/* 0: it ends */
static int screen_key(screen *c, int key) {
  watch_state *s = c->s;
  switch (key) {
  case 'q':
  case 'Q':
    return 0;
  case 'k':
    go_to(c, c->is_selected ? less(c->selected, 1) : 0);
    break;
  case 'j':
    go_to(c, c->is_selected ? c->selected + 1 : 0);
    break;
  case 'B' - 64: /* page up, Ctrl-B */
    go_to(c, less(c->selected, c->room));
    break;
  case 'F' - 64:
    go_to(c, c->selected + c->room);
    break;
  case 'g':
    go_to(c, 0);
    break;
  case 'G':
    go_to(c, c->nlist);
    break;
  case 'h':
    c->left = less(c->left, 8);
    break;
  case 'l':
    c->left += c->left < sizeof s->device->process->command ? 8 : 0;
    break;
  case '<':
  case ',':
    s->order = (watch_order)((s->order + WATCH_ORDERS - 1) % WATCH_ORDERS);
    break;
  case '>':
  case '.':
    s->order = (watch_order)((s->order + 1) % WATCH_ORDERS);
    break;
  case 'M': /* as in top */
    s->order = WATCH_BY_MEMORY;
    break;
  case 'P':
    s->order = WATCH_BY_BUSY;
    break;
  case 'N':
    s->order = WATCH_BY_PID;
    break;
  case 'T':
    s->order = WATCH_BY_CPU;
    break;
  case 'r':
    s->reverse = !s->reverse;
    break;
  case ' ':
    c->is_paused = !c->is_paused;
    break;
  default:
    break;
  }
  return 1;
}

/* The letter that does what a key that sends several bytes does; *n: how many. */
static int long_key(const char *s, size_t len, size_t *n) {
  static const struct {
    const char *sent;
    char key;
  } keys[] = {{"\033[A", 'k'},       {"\033OA", 'k'},       {"\033[B", 'j'}, {"\033OB", 'j'},
              {"\033[C", 'l'},       {"\033OC", 'l'},       {"\033[D", 'h'}, {"\033OD", 'h'},
              {"\033[5~", 'B' - 64}, {"\033[6~", 'F' - 64}, {"\033[H", 'g'}, {"\033OH", 'g'},
              {"\033[1~", 'g'},      {"\033[F", 'G'},       {"\033OF", 'G'}, {"\033[4~", 'G'},
              {"\033[17~", '>'},     {"\033[21~", 'q'}}; /* F6 and F10, as in htop */
  size_t i;
  for (i = 0; i < sizeof keys / sizeof *keys; i++)
    if (len >= strlen(keys[i].sent) && !memcmp(s, keys[i].sent, strlen(keys[i].sent)))
      return *n = strlen(keys[i].sent), keys[i].key;
  if (len == 1)
    return *n = 1, 0; /* Escape itself, or of a key the first byte alone */
  for (i = 2; i < len && (s[i] < '@' || s[i] > '~'); i++)
    ; /* a key that means nothing here */
  return *n = i < len ? i + 1 : len, 0;
}

/* 0: it ends */
static int screen_keys(screen *c) {
  char s[256];
  const ssize_t got = read(STDIN_FILENO, s, sizeof s);
  size_t i, n;
  if (got < 0 && (errno == EINTR || errno == EAGAIN))
    return 1;
  if (got <= 0) /* nobody is there any more */
    return !(has_keys = 0);
  for (i = 0; i < (size_t)got; i += n) {
    n = 1;
    if (!screen_key(c, s[i] == 27 ? long_key(s + i, (size_t)got - i, &n) : s[i]))
      return 0;
  }
  return 1;
}

/* ---- the loop ---- */

/* Until `until`, a key or another size. 0: it ends. */
static int screen_wait(screen *c, double until) {
  struct pollfd in;
  const double left = until - watch_seconds();
  int n;
  in.fd = has_keys ? STDIN_FILENO : -1;
  in.events = POLLIN;
  in.revents = 0;
  if (left <= 0 || is_resized)
    return 1;
  n = poll(&in, 1, (int)(left > 1000 ? 1000000 : left * 1000) + 1);
  return n <= 0 || screen_keys(c);
}

static int is_unicode(void) {
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  size_t i;
  for (i = 0; i < 3; i++) {
    const char *v = getenv(names[i]);
    if (v && *v)
      return strstr(v, "UTF-8") || strstr(v, "utf8") || strstr(v, "UTF8") || strstr(v, "utf-8");
  }
  return 0;
}

static int screen_run(screen *c) {
  watch_state *s = c->s;
  double next = watch_seconds();
  int64_t times = 0;
  int goes_on = 1, status = FITS;
  while (goes_on) {
    const double now = watch_seconds();
    if (now >= next && !c->is_paused) {
      if (s->count && times == s->count)
        break;
      times++;
      status = watch_look(s);
      if (status != FITS)
        return status;
      next = now + s->interval;
      if (!screen_remember(c))
        return watch_no_memory(s);
    } else if (now >= next)
      next = now + s->interval;
    if (is_resized)
      screen_size(c);
    if (!screen_list(c))
      return watch_no_memory(s);
    draw(c);
    if (fflush(stdout) || ferror(stdout))
      break;
    goes_on = screen_wait(c, next);
  }
  return FITS;
}

int watch_screen(watch_state *s) {
  static char buffer[1 << 16];
  screen c;
  int status;
  memset(&c, 0, sizeof c);
  c.s = s;
  c.is_utf8 = is_unicode();
  c.has_colours = *cmd_plain != 0;
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer); /* a picture at once */
  screen_size(&c);
  terminal_begin();
  status = screen_run(&c);
  terminal_close();
  free(c.list);
  free(c.history);
  return status;
}

#endif
