/* The program: a command on its own standard streams. */
#define CMD_PLAIN_STREAMS
#include "vram_command.h"

int main(int argc, char **argv) {
  cmd_stdin = stdin;
  cmd_stdout = stdout;
  cmd_stderr = stderr;
  return cmd_main(argc, argv);
}
