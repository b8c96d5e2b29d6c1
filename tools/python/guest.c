/* The command as a function of another program, one call at a time: its standard streams are
   memory. The Python package calls it by ctypes. */
#define CMD_PLAIN_STREAMS
#include "../vram_command.h"

#if defined(__GNUC__) && !defined(_WIN32)
#define GUEST_API __attribute__((visibility("default")))
#else
#define GUEST_API
#endif

typedef struct vram_guest_text { /* what a stream took, a 0 behind it */
  char *bytes;
  size_t n;
} vram_guest_text;

GUEST_API int vram_guest_run(int argc, char **argv, const char *input, size_t n,
                             vram_guest_text *out, vram_guest_text *err);
GUEST_API void vram_guest_drop(vram_guest_text *t);
GUEST_API void vram_guest_stop(void);
GUEST_API int vram_guest_main(int argc, char **argv);

static FILE *input_of(const char *input, size_t n) {
  union { /* of what is only read */
    const char *from;
    char *to;
  } at;
  at.from = input;
  return n ? fmemopen(at.to, n, "rb") : fopen("/dev/null", "rb");
}

/* `vram ARGUMENTS` with n bytes as standard input; its exit status, what it wrote to be dropped.
   Changes the texts of argv. */
int vram_guest_run(int argc, char **argv, const char *input, size_t n, vram_guest_text *out,
                   vram_guest_text *err) {
  int status = OTHER;
  FILE *const in = input_of(input, n), *const to = open_memstream(&out->bytes, &out->n),
              *const to_err = open_memstream(&err->bytes, &err->n);
  if (in && to && to_err) {
    cmd_streams(in, to, to_err);
    cmd_guest();
    status = cmd_main(argc, argv);
    cmd_streams(NULL, NULL, NULL);
  }
  if (in)
    fclose(in);
  if (to)
    fclose(to);
  if (to_err)
    fclose(to_err);
  return status;
}

void vram_guest_drop(vram_guest_text *t) {
  free(t->bytes);
  memset(t, 0, sizeof *t);
}

/* From another thread: the call that runs ends with the best so far, where it searches. */
void vram_guest_stop(void) { cmd_guest_stop(); }

/* The command as a program, on the process's own streams and with its own handlers of signals. */
int vram_guest_main(int argc, char **argv) { return cmd_main(argc, argv); }
