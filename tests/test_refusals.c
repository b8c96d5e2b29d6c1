/* What PyTorch takes and what it refuses: each line of a table is one op and its inputs, with the
   answer for each dtype that DT stands for, of a step forward and backward.
     +  PyTorch runs it   -  PyTorch stops with an error
     a  it runs it, the library does not yet   r  it refuses it, the library does not yet
   Rows that agree by now must not say a or r.
   usage: test_refusals tests/golden/refusals.txt */
#include "play.h"

enum { DTYPES = 8, LONGEST = 2000 };
static const char *const dtypes[DTYPES] = {"f32", "f64", "bf16", "f16",
                                           "i64", "i32", "bool", "c64"};

/* One line `input NAME DTYPE SIZES` for each input; those of numbers that have gradients want one.
 */
static void put_inputs(char *to, const char *inputs, const char *end, const char *dtype) {
  while (inputs < end) {
    char name[16], kind[16], sizes[64];
    int used = 0;
    if (sscanf(inputs, "%15s %15s %63[][0-9,]%n", name, kind, sizes, &used) != 3)
      break;
    if (sizes[strlen(sizes) - 1] == ',')
      sizes[strlen(sizes) - 1] = 0;
    if (!strcmp(kind, "DT"))
      snprintf(kind, sizeof kind, "%s", dtype);
    to +=
        sprintf(to, "input %s %s %s%s\n", name, kind, sizes, strpbrk(kind, "fc") ? " grad=1" : "");
    inputs += used;
    while (inputs < end && (*inputs == ',' || *inputs == ' '))
      inputs++;
  }
}

/* Does a step of the op run? A result that can be part of a loss is. */
static int runs(play *p, const char *head, const char *line) {
  char text[2 * LONGEST];
  vram_step_options o = VRAM_ZERO_INIT;
  const vram_node *n, *last = NULL;
  int length =
      snprintf(text, sizeof text, "model r\n%sparameter p shape=[1]\nsum q p\n%s\n", head, line);
  if (play_parse(p, text, (size_t)length, NULL, 0) != VRAM_OK)
    return 0;
  for (n = p->graph.first; n; n = n->next)
    last = n->nout ? n : last; /* an op that is written out ends with lines that only drop */
  sprintf(text + length, "%s",
          vram_dtype_get_info(last->out[0].dtype)->kind == VRAM_KIND_FLOAT
              ? "sum t y\nadd l q t\noutput l\n"
              : "output q\n");
  if (play_parse(p, text, strlen(text), NULL, 0) != VRAM_OK)
    return 0;
  o.train = 1;
  o.optimizer = VRAM_OPTIM_sgd;
  return play_step(p, &o) == VRAM_OK;
}

static void check_row(play *p, char *row) {
  char head[LONGEST];
  char *inputs = strstr(row, " | "), *line = inputs ? strstr(inputs + 3, " | ") : NULL;
  size_t i;
  if (!NEED(line != NULL && line - row < LONGEST && strlen(line) < LONGEST))
    return;
  for (i = 0; i < DTYPES; i++) {
    const char want = row[2 * i];
    put_inputs(head, inputs + 3, line, dtypes[i]);
    snprintf(test_where, sizeof test_where, "%s, DT %s: %.200s",
             want == '+' || want == 'r' ? "runs" : "refused", dtypes[i], row + (size_t)2 * DTYPES);
    EQUAL(runs(p, head, line + 3), want == '+' || want == 'r');
  }
}

int main(int argc, char **argv) {
  char *text = argc > 1 ? play_file(argv[1], NULL) : NULL, *row, *next;
  play p;
  memset(&p, 0, sizeof p);
  for (row = text; row && *row; row = next) {
    next = strchr(row, '\n');
    if (next)
      *next++ = 0;
    if (*row && *row != '#')
      check_row(&p, row);
  }
  NEED(text != NULL);
  play_end(&p);
  free(text);
  return test_done("test_refusals");
}
