/* vram watch: what NVML says (vram_watch_nvml.c), pictures on a terminal (vram_watch_screen.c), the
   command, lines and JSON (vram_watch.c). */
#ifndef VRAM_WATCH_H
#define VRAM_WATCH_H

#include "vram_command.h"

#define WATCH_UNKNOWN UINT64_MAX /* NVML's own mark, too */

typedef struct watch_process {
  unsigned pid;
  unsigned types; /* bits: compute, graphics, mps */
  uint64_t used;
  uint64_t busy, bandwidth, encoder, decoder; /* percent of the device, in the last seconds */
  uint64_t cpu, host; /* percent of one processor since the last look; bytes that are resident */
  uint64_t ticks;     /* of a processor, so far */
  char name[64], command[1024], user[40];
} watch_process;

typedef struct watch_device {
  unsigned index;
  int mig; /* -1: a whole device */
  char name[96], uuid[96], error[96];
  uint64_t reserved; /* of `used`, what the driver keeps for itself: nvidia-smi leaves it out */
  uint64_t total, used, free, utilization, temperature, power, power_limit; /* milliwatts */
  watch_process *process;
  size_t nprocess;
} watch_device;

enum { WATCH_SAMPLES = 1024 };

typedef struct watch_history { /* of a device: percent, the newest at (n - 1) % WATCH_SAMPLES */
  unsigned index;
  int mig;
  uint8_t memory[WATCH_SAMPLES], busy[WATCH_SAMPLES]; /* 255: not known */
  size_t n;
} watch_history;

typedef enum watch_order {
  WATCH_BY_MEMORY,
  WATCH_BY_GPU,
  WATCH_BY_PID,
  WATCH_BY_USER,
  WATCH_BY_COMMAND,
  WATCH_BY_BUSY,
  WATCH_BY_CPU,
  WATCH_ORDERS
} watch_order;

typedef struct watch_state {
  int once, json;
  int64_t count; /* 0: without end */
  double interval;
  const char *pids, *users; /* NULL: all; else a list that commas divide */
  watch_order order;
  int reverse;
  char driver[80], cuda[24], error[240];
  watch_device *device;
  size_t ndevice;
  double at; /* of the last look, in seconds */
} watch_state;

/* 1: NVML is open and ready; 0: s->error says why not. */
int watch_open(watch_state *s);
/* Everything anew; not FITS: s->error says why. */
int watch_look(watch_state *s);
/* s->error says so. */
int watch_no_memory(watch_state *s);
void watch_clear(watch_state *s);
double watch_seconds(void);
void watch_close(void);

/* the list, NULL or words that commas divide, has the word */
int watch_has(const char *list, const char *word);
/* -1, 0, 1: whether a comes before b, which are on those devices */
int watch_compare(watch_order order, const watch_device *da, const watch_process *a,
                  const watch_device *db, const watch_process *b);
extern const char *const watch_order_name[WATCH_ORDERS];

/* texts for people; the last three of watch_value live, the last four of watch_bytes */
const char *watch_bytes(uint64_t b);
const char *watch_value(uint64_t v, const char *unit);
const char *watch_index(const watch_device *d);
const char *watch_types(unsigned types, int brief);
/* the command line, or the name, or -; brief: without the folder of the program */
const char *watch_what(const watch_process *p, int brief);

/* Pictures, and keys, until q or so many (s->count). FITS, or why a look failed. */
int watch_screen(watch_state *s);

#endif
