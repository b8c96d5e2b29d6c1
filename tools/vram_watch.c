/* vram watch: devices and the processes on them, as NVML says. */
#include "vram_watch.h"

cmd_text help_watch = {
    "vram watch [options]     devices and processes, live\n"
    "\n"
    "  --once                once, then end\n"
    "  --interval SECONDS    how often (default: 2; from 0.1 on)\n"
    "  --count N             so many times, then end\n"
    "  --pid PID[,PID...]    these processes alone\n"
    "  --user NAME[,NAME...]\n"
    "                        processes of these users alone\n"
    "  --sort memory|gpu|pid|user|command|busy|cpu\n"
    "                        (default: memory, the most first)\n"
    "  --json                one JSON object each time, a line each\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "On a terminal: a bar and the history of each device's memory and of how busy\n"
    "it is, and processes: how busy each keeps the device (enc, dec: its encoder and\n"
    "decoder), its memory, processors and memory of the machine, command line, as\n"
    "far as there is room. Else a line for each device is added each time.\n"
    "\n"
    "keys\n"
    "  q F10                 ends it\n"
    "  up down home end      go through the processes (also k, j, page up and down)\n"
    "  left right            move along the command lines (also h and l)\n"
    "  < > F6 r              the column that sorts, and the other way round\n"
    "  M P N T               sort by memory, busy, pid, cpu\n"
    "  space                 stops and goes on\n"
    "\n"
    "Used bytes are all that is not free: of every process, and what the driver\n"
    "keeps. '-' (null in JSON): the driver does not say.\n"
    "Keys of the JSON: time (seconds since 1970), driver, cuda, devices [index, mig,\n"
    "name, uuid, total_bytes, used_bytes, free_bytes, reserved_bytes (the driver's\n"
    "part of used_bytes), utilization_percent, temperature_celsius, power_watts,\n"
    "power_limit_watts, error, processes [pid, type, used_bytes,\n"
    "utilization_percent, memory_utilization_percent,\n"
    "encoder_percent, decoder_percent, cpu_percent, host_bytes, name, command,\n"
    "user]], error.\n"
    "Environment: VRAM_NVML, the library to open (default: libnvidia-ml.so.1).\n"
    "Exit status: 0 done, 1 there is no NVIDIA driver, or it fails.\n",
    NULL};

#if defined(__unix__) || defined(__APPLE__)

#include <time.h>

/* ---- output ---- */

static void watch_json_text(const char *key, const char *text) {
  printf("\"%s\":", key);
  if (*text)
    cmd_json_text(stdout, text);
  else
    fputs("null", stdout);
}

static void watch_json_number(const char *key, uint64_t v, unsigned per) {
  if (v == WATCH_UNKNOWN)
    printf("\"%s\":null,", key);
  else if (per == 1)
    printf("\"%s\":%" PRIu64 ",", key, v);
  else
    printf("\"%s\":%" PRIu64 ".%03u,", key, v / per, (unsigned)(v % per));
}

/* "compute+graphics", or as nvidia-smi has it: "C+G" */
const char *watch_types(unsigned types, int brief) {
  static const char *const name[2][3] = {{"compute", "graphics", "mps"}, {"C", "G", "M"}};
  static char text[32];
  unsigned i;
  text[0] = 0;
  for (i = 0; i < 3; i++)
    if (types >> i & 1)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? "+" : "",
               name[brief][i]);
  return text;
}

static void watch_json(const watch_state *s) {
  size_t i, k;
  printf("{\"time\":%lld,", (long long)time(NULL));
  watch_json_text("driver", s->driver), putchar(',');
  watch_json_text("cuda", s->cuda), fputs(",\"devices\":[", stdout);
  for (i = 0; i < s->ndevice; i++) {
    const watch_device *d = &s->device[i];
    printf("%s{\"index\":%u,", i ? "," : "", d->index);
    watch_json_number("mig", d->mig < 0 ? WATCH_UNKNOWN : (uint64_t)d->mig, 1);
    watch_json_text("name", d->name), putchar(',');
    watch_json_text("uuid", d->uuid), putchar(',');
    watch_json_number("total_bytes", d->total, 1);
    watch_json_number("used_bytes", d->used, 1);
    watch_json_number("free_bytes", d->free, 1);
    watch_json_number("reserved_bytes", d->reserved, 1);
    watch_json_number("utilization_percent", d->utilization, 1);
    watch_json_number("temperature_celsius", d->temperature, 1);
    watch_json_number("power_watts", d->power, 1000);
    watch_json_number("power_limit_watts", d->power_limit, 1000);
    watch_json_text("error", d->error), fputs(",\"processes\":[", stdout);
    for (k = 0; k < d->nprocess; k++) {
      const watch_process *p = &d->process[k];
      printf("%s{\"pid\":%u,", k ? "," : "", p->pid);
      watch_json_text("type", watch_types(p->types, 0)), putchar(',');
      watch_json_number("used_bytes", p->used, 1);
      watch_json_number("utilization_percent", p->busy, 1);
      watch_json_number("memory_utilization_percent", p->bandwidth, 1);
      watch_json_number("encoder_percent", p->encoder, 1);
      watch_json_number("decoder_percent", p->decoder, 1);
      watch_json_number("cpu_percent", p->cpu, 1);
      watch_json_number("host_bytes", p->host, 1);
      watch_json_text("name", p->name), putchar(',');
      watch_json_text("command", p->command), putchar(',');
      watch_json_text("user", p->user), putchar('}');
    }
    fputs("]}", stdout);
  }
  fputs("],", stdout);
  watch_json_text("error", s->error), fputs("}\n", stdout);
}

const char *watch_bytes(uint64_t b) { return b == WATCH_UNKNOWN ? "-" : cmd_human(b); }

/* "35 %", "41 C", "120 W"; three texts may live at once */
const char *watch_value(uint64_t v, const char *unit) {
  static char text[3][32];
  static int at;
  char *t = text[at = (at + 1) % 3];
  if (v == WATCH_UNKNOWN)
    return "-";
  snprintf(t, sizeof *text, "%" PRIu64 " %s", v, unit);
  return t;
}

const char *watch_index(const watch_device *d) {
  static char text[24];
  snprintf(text, sizeof text, d->mig < 0 ? "%u" : "%u:%d", d->index, d->mig);
  return text;
}

const char *watch_what(const watch_process *p, int brief) {
  const char *what = *p->command ? p->command : *p->name ? p->name : "-", *at;
  for (at = what; brief && *at && *at != ' '; at++)
    if (*at == '/' && at[1] && at[1] != ' ')
      what = at + 1;
  return what;
}

static void watch_table(const watch_state *s) {
  size_t i, k;
  printf("%sNVIDIA driver %s, CUDA %s%s\n", cmd_dim, *s->driver ? s->driver : "-",
         *s->cuda ? s->cuda : "-", cmd_plain);
  if (!s->ndevice)
    printf("no device\n");
  else
    printf("%s%-6s%-28s%12s%12s%12s%7s%7s%8s%s\n", cmd_bold, "gpu", "name", "used", "free", "total",
           "busy", "temp", "power", cmd_plain);
  for (i = 0; i < s->ndevice; i++) {
    const watch_device *d = &s->device[i];
    printf("%-6s%-27.*s %12s%12s%12s%7s%7s%8s%s%s\n", watch_index(d), 27, *d->name ? d->name : "-",
           watch_bytes(d->used), watch_bytes(d->free), watch_bytes(d->total),
           watch_value(d->utilization, "%"), watch_value(d->temperature, "C"),
           watch_value(d->power == WATCH_UNKNOWN ? d->power : (d->power + 500) / 1000, "W"),
           *d->error ? "  " : "", d->error);
    for (k = 0; k < d->nprocess; k++) {
      const watch_process *p = &d->process[k];
      printf("      %-10u%-14.14s%-8s%12s%7s  %s\n", p->pid, *p->user ? p->user : "-",
             watch_types(p->types, 1), watch_bytes(p->used), watch_value(p->busy, "%"),
             watch_what(p, 0));
    }
  }
}

/* What is appended where nothing can be redrawn: a line for each device. */
static void watch_lines(const watch_state *s) {
  const time_t now = time(NULL);
  const struct tm *local = localtime(&now);
  char at[32] = "";
  size_t i, k;
  if (local)
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%S", local);
  if (!s->ndevice)
    printf("%s no device\n", at);
  for (i = 0; i < s->ndevice; i++) {
    const watch_device *d = &s->device[i];
    printf("%s gpu %s used %s free %s total %s", at, watch_index(d), watch_bytes(d->used),
           watch_bytes(d->free), watch_bytes(d->total));
    printf(" busy %s temp %s power %s%s%s", watch_value(d->utilization, "%"),
           watch_value(d->temperature, "C"),
           watch_value(d->power == WATCH_UNKNOWN ? d->power : (d->power + 500) / 1000, "W"),
           *d->error ? " error " : "", d->error);
    for (k = 0; k < d->nprocess; k++)
      printf("; %u %s %s busy %s", d->process[k].pid,
             *d->process[k].name ? d->process[k].name : "-", watch_bytes(d->process[k].used),
             watch_value(d->process[k].busy, "%"));
    putchar('\n');
  }
}

/* ---- the command ---- */

static int set_order(watch_state *s, const char *v) {
  const char *const best = cmd_nearest_of("memory gpu pid user command busy cpu", v);
  char expected[64];
  int i;
  for (i = 0; i < WATCH_ORDERS; i++)
    if (!strcmp(v, watch_order_name[i]))
      return s->order = (watch_order)i, 1;
  snprintf(expected, sizeof expected, "%s%s",
           best ? best : "memory, gpu, pid, user, command, busy, cpu", best ? "?" : "");
  return cmd_bad("nothing to sort by", v, expected), 0;
}

/* Numbers that commas divide. */
static int set_pids(watch_state *s, const char *v) {
  const size_t n = strlen(v);
  size_t i;
  for (i = 0; i < n; i++)
    if (v[i] == ',' ? !i || v[i - 1] == ',' || !v[i + 1] : v[i] < '0' || v[i] > '9')
      break;
  if (!n || i < n)
    return cmd_bad("not a process", v, "a number, or several: 4711,4712"), 0;
  s->pids = v;
  return 1;
}

/* 1: it goes on; 0: error printed */
static int watch_option(watch_state *s, const char *a, const char *v, int *took) {
  char *end;
  *took = 1;
  if (!strcmp(a, "--once"))
    return s->once = 1;
  if (!strcmp(a, "--json"))
    return s->json = 1;
  if (!cmd_in(a, "--interval --count --sort --pid --user --units"))
    return cmd_unknown_option(a, "watch", NULL, "");
  *took = 2;
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  switch (a[2]) {
  case 'i':
    s->interval = *v >= '0' && *v <= '9' ? strtod(v, &end) : 0;
    if (s->interval < 0.1 || s->interval > 86400 || *end)
      return cmd_bad("not an interval", v, "seconds, from 0.1 to 86400"), 0;
    return 1;
  case 'c':
    return cmd_parse_count(v, 1, INT64_C(1) << 40, &s->count) ||
           (cmd_bad("not a number of times", v, "1 or more"), 0);
  case 's':
    return set_order(s, v);
  case 'p':
    return set_pids(s, v);
  default:
    return a[3] == 'n' ? cmd_set_units(v) : (s->users = v, 1);
  }
}

/* Looks, prints, waits; not FITS: s->error says why. */
static int watch_run(watch_state *s) {
  struct timespec pause;
  int64_t times;
  int status = FITS;
  pause.tv_sec = (time_t)s->interval;
  pause.tv_nsec = (long)((s->interval - (double)pause.tv_sec) * 1e9);
  for (times = 0; !s->count || times < s->count; times++) {
    if (times)
      nanosleep(&pause, NULL);
    status = watch_look(s);
    if (status != FITS)
      break;
    if (s->json)
      watch_json(s);
    else if (s->once)
      watch_table(s);
    else
      watch_lines(s);
    if (fflush(stdout) || ferror(stdout) || s->once)
      break;
  }
  return status;
}

int watch_command(int argc, char **argv) {
  static watch_state s;
  int i, took, status;
  memset(&s, 0, sizeof s);
  s.interval = 2;
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return cmd_help(help_watch, stdout), FITS;
  for (i = 0; i < argc; i += took)
    if (!watch_option(&s, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &took))
      return USAGE;
  status = watch_open(&s) ? FITS : OTHER;
  if (status == FITS)
    status = s.json || s.once || !IS_TERMINAL(stdout) || cmd_is_dumb() ? watch_run(&s)
                                                                       : watch_screen(&s);
  if (status != FITS && *s.error) {
    watch_clear(&s);
    if (s.json)
      watch_json(&s);
    else
      cmd_say("vram: %s", s.error);
  }
  watch_clear(&s);
  watch_close();
  return status;
}

#else

int watch_command(int argc, char **argv) {
  if (argc && (!strcmp(argv[0], "-h") || !strcmp(argv[0], "--help")))
    return cmd_help(help_watch, stdout), FITS;
  cmd_say("vram: watch is not on this system (it needs dlopen)");
  return OTHER;
}

#endif
