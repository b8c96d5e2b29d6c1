/* What the commands of `vram` share: their exit status, errors, words and numbers, names, files. */
#ifndef VRAM_COMMAND_H
#define VRAM_COMMAND_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* isatty, fileno, clock_gettime, mkstemp, realpath */
#endif
#include "../vram.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#define IS_TERMINAL(f) isatty(fileno(f))
#else
#define IS_TERMINAL(f) 0
#endif

#ifdef __GNUC__
#define CMD_FORMAT __attribute__((format(printf, 1, 2)))
#else
#define CMD_FORMAT
#endif

/* Standard streams of the command: the program's own, or what cmd_streams sets (NULL: the program's
   own again), for a call from another program. */
void cmd_streams(FILE *in, FILE *out, FILE *err);
FILE *cmd_stdin(void);
FILE *cmd_stdout(void);
FILE *cmd_stderr(void);
#ifndef CMD_PLAIN_STREAMS
#undef stdin
#undef stdout
#undef stderr
#undef putchar
#define stdin cmd_stdin()
#define stdout cmd_stdout()
#define stderr cmd_stderr()
#define printf(...) fprintf(cmd_stdout(), __VA_ARGS__)
#define putchar(c) putc(c, cmd_stdout())
#endif

enum { MAX_NODE_NAME = VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1 };
enum { FITS = 0, OTHER = 1, USAGE = 2, TOO_LARGE = 3 }; /* exit status */

/* `vram ARGUMENTS`; the exit status. Changes the texts of argv. */
int cmd_main(int argc, char **argv);

/* ---- commands: the arguments behind the command's name; the exit status ---- */

int estimate_command(int argc, char **argv);
int net_command(int argc, char **argv); /* estimate --embedded */
int fit_command(int argc, char **argv);
int plan_command(int argc, char **argv);
int advise_command(int argc, char **argv);
int arena_command(int argc, char **argv);
int emit_command(int argc, char **argv);
int convert_command(int argc, char **argv);
int replay_command(int argc, char **argv);
int diff_command(int argc, char **argv);
int run_command(int argc, char **argv);
extern const char *const run_signal_name[]; /* of --on-signal; NULL behind the last */
int watch_command(int argc, char **argv);
int list_command(int argc, char **argv);
int help_command(int argc, char **argv);
int complete_command(int argc, char **argv);

typedef struct cmd_entry {
  const char *name, *const *help;
  int (*run)(int argc, char **argv);
} cmd_entry;
extern const cmd_entry cmd_table[]; /* to a name that is NULL */
/* texts in pieces of at most 4095 characters, which C99 asks compilers to take; to a NULL */
typedef const char *const cmd_text[];
extern cmd_text help_main, help_estimate, help_fit, help_plan, help_advise, help_arena, help_emit,
    help_replay, help_diff, help_run, help_watch, help_list, help_convert, help_parallel;
void cmd_help(const char *const *help, FILE *to);
/* Where to go on from a verdict: for who sits before a terminal. */
void cmd_way(const char *text);

/* ---- errors: one line on standard error; they return the exit status ---- */

/* A line. Control characters of what it quotes, and bytes that are no UTF-8, are shown as \xHH. */
void cmd_say(const char *format, ...) CMD_FORMAT;
/* 1: from now on cmd_say says nothing; what it was before. */
int cmd_hush(int hush);
/* n bytes of the input, at most 60, to be quoted; the same as " 'BYTES'", "" for NULL. */
const char *cmd_shown(const char *s, size_t n);
const char *cmd_found(const char *s, size_t n);
/* " (expected WHAT)", "" for NULL */
const char *cmd_expected(const char *what);
/* vram: what 'found' (expected ...); found and expected may be NULL. */
int cmd_bad(const char *what, const char *found, const char *expected);
/* What the system says about a file, which errno holds: 'path': reason. */
int cmd_cannot(const char *what, const char *path, int status);
int cmd_no_memory(void);

/* ---- what takes its time ---- */

/* 1: TERM says that the terminal takes no more than lines, or nothing. */
int cmd_is_dumb(void);
/* From the second second on a terminal is told: `what`, seconds, of how many (0: not known). */
void cmd_progress(const char *what, uint64_t most);
/* The line goes: before anything is printed. One inside another: with the outer one. */
void cmd_progress_end(void);
void cmd_progress_over(void); /* with all of them: an error is said */

/* Ctrl-C, and SIGTERM as `timeout` sends it, end the program by the signal, with a line; the files
   that are named by cmd_half, in place of what is gone (NULL: of nothing), are removed. */
void cmd_interrupts(const char *command);
void cmd_half(const char *path, const char *gone);
/* From here on the first of them only says that a search is to end with the best so far; the next
   one ends the program. */
void cmd_stoppable(void);
int cmd_stopped(void);
int cmd_stop(void *user); /* the same, for the library's searches */
/* From here on commands are called by another program, whose signals are its own: they end with the
   best so far where cmd_guest_stop says so, in whatever thread. */
void cmd_guest(void);
void cmd_guest_stop(void);
int cmd_is_guest(void);

/* ---- words and numbers ---- */

typedef struct field { /* of a line of CSV */
  char *s;
  size_t n;
} field;

/* word is one of the words in list, which blanks divide */
int cmd_in(const char *word, const char *list);
/* The same, in whatever case. */
int cmd_field_is(const field *f, const char *list);
char cmd_lower(char c);
void cmd_upper(const char *s, char *to); /* capitals, in as many bytes */
int cmd_is_word(char c);                 /* a letter or a digit */
/* Letters, digits and _: never two _ in a row, none at either end. */
void cmd_identifier(const char *s, char *to, size_t cap);
/* 1: a size like 24GiB, 80e9 is not one */
int cmd_parse_size(const char *s, uint64_t *to);
int cmd_bad_size(const char *v); /* says so, and which unit a letter may mean */
/* The size behind option a: below 1 MiB it has to name its unit. 0: error printed. */
int cmd_take_size(const char *a, const char *v, uint64_t *to);
/* Digits in base 10 or 16, behind which *s points then; 0: there are none, or more than `most`. */
int cmd_digits(const char **s, const char *end, unsigned base, uint64_t most, uint64_t *to);
int cmd_parse_count(const char *s, int64_t least, int64_t most, int64_t *to);
/* 8.9 as 89; 0: error printed */
uint32_t cmd_parse_cc(const char *s);

/* An array of n with room for one more, twice as much where *cap is reached; NULL: no memory, the
   array stays as it was. */
void *cmd_room(void *array, uint32_t n, uint32_t *cap, size_t size);

/* ---- texts for people and for programs ---- */

extern vram_units cmd_units;
extern const char *cmd_bold, *cmd_dim, *cmd_plain; /* "" if no terminal is there to see them */

/* --units; 0: error printed */
int cmd_set_units(const char *v);
/* bytes for people; four texts may live at once */
const char *cmd_human(uint64_t b);
/* 25.6 M */
const char *cmd_count_text(uint64_t n, char *to, size_t cap);
/* 41,943,040 */
const char *cmd_grouped(uint64_t n, char to[32]);
/* The character at *s, and behind it; 0xfffd for a byte that is none in UTF-8. */
unsigned cmd_next_char(const char **s);
/* Plain ASCII: what is beyond it is escaped, and so is '<', which could end a script. */
void cmd_json_text(FILE *f, const char *s);

/* ---- names ---- */

/* The lines of a built-in model, the first one a comment that says what it is; NULL: there is none
   of that name. */
const char *const *cmd_built_in(const char *name);
/* The names that `vram list WHAT` shows, or WHAT "commands"; NULL: there is no more. */
const char *cmd_name_at(const char *what, uint32_t i);
/* The one that may have been meant; NULL: none. */
const char *cmd_nearest_name(const char *what, const char *name);
/* The same of the words in list, which blanks divide. */
const char *cmd_nearest_of(const char *list, const char *name);
/* "resnet50? vram list models" */
const char *cmd_nearest(const char *what, const char *name);
/* RTX 4090, NVIDIA A100-SXM4-80GB, 4090; NULL: error printed. */
const vram_gpu *cmd_find_gpu(const char *name);

typedef struct cmd_option {        /* in a help text: "  --amp bf16|fp16       what it is" */
  const char *name, *value, *text; /* value_len 0: it takes none; text: the first line of it */
  size_t name_len, value_len, text_len;
} cmd_option;

/* The next option from *at on, *at goes behind it; 0: there is no more. */
int cmd_next_option(const char **at, cmd_option *o);
/* The option a of a command's help; 0: it has none. */
int cmd_find_option(const char *const *help, const char *a, cmd_option *o);
/* Prints the error: a, and the nearest option of the command's help or of the texts `also` (or
   NULL) that is not in the list `without`. Returns 0. */
int cmd_unknown_option(const char *a, const char *name, const char *const *also,
                       const char *without);

/* ---- files ---- */

#define CMD_MAX_INPUT ((size_t)1 << 30) /* bytes that are read of one */
enum { CMD_ABSENT = -1 };

/* A whole file, or standard input for "-"; not FITS: message printed. */
int cmd_read(const char *path, char **to, size_t *len);
/* The same; CMD_ABSENT: there is no such file, and nothing is printed. */
int cmd_try_read(const char *path, char **to, size_t *len);
/* What was read so far may be written over. */
void cmd_files_forget(void);

typedef struct cmd_output { /* a file that is there whole or not at all */
  FILE *file;
  const char *path;
  char *temp, *target; /* a file beside it that takes its name at the end; NULL: it is written to */
} cmd_output;

/* FILE is - */
int cmd_is_output(const char *path);
/* What can be looked at twice: opening a pipe would wait, and take its bytes from who reads the
   text. */
int cmd_is_regular(const char *path);
/* - is standard output, what is no regular file is written to. Not FITS: message printed. */
int cmd_output_open(cmd_output *o, const char *path);
/* failed: what wrote to o->file says that not all is there. Not FITS: message printed. */
int cmd_output_commit(cmd_output *o, int failed);
/* What was written goes; a file that was there before stays. */
void cmd_output_drop(cmd_output *o);
/* A vram_sink into a FILE. */
int cmd_to_file(void *user, const char *bytes, size_t n);
/* A file that grows too large becomes an error like others. */
void cmd_writes(void);

#endif
