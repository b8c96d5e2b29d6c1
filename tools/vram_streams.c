/* Standard streams: the program's own, or those of a call from another program. */
#define CMD_PLAIN_STREAMS
#include "vram_command.h"

static FILE *set_in, *set_out, *set_err;

void cmd_streams(FILE *in, FILE *out, FILE *err) {
  set_in = in;
  set_out = out;
  set_err = err;
}

FILE *cmd_stdin(void) { return set_in ? set_in : stdin; }
FILE *cmd_stdout(void) { return set_out ? set_out : stdout; }
FILE *cmd_stderr(void) { return set_err ? set_err : stderr; }
