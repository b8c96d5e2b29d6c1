/* Working buffers of CMSIS-NN: what vram_net_count gives a line against what the library's own
   functions returned (golden/cmsis.txt). */
#include "../vram.h"
#include "test.h"

/* A row: op, then these; after them the bytes for plain C, DSP, MVE. */
enum { ACT, WEIGHT, N, H, W, C, OH, OW, OC, KH, KW, SH, SW, DH, DW, PH, PW, GROUPS, SIZES };

static vram_net_line line[3];
static vram_net net;

/* Padding of the axis as SAME has it. */
static int is_same(const int64_t *row, int in, int out, int kernel, int stride, int dilation,
                   int before) {
  const int64_t need = (row[out] - 1) * row[stride] + row[dilation] * (row[kernel] - 1) + 1;
  const int64_t padding = need > row[in] ? need - row[in] : 0;
  return row[out] == (row[in] + row[stride] - 1) / row[stride] && row[before] == padding / 2;
}

static void pad(vram_net_line *l, const int64_t *row, int same) {
  l->padding = same ? VRAM_PADDING_SAME : VRAM_PADDING_PAD;
  l->pad_h = same ? 0 : row[PH];
  l->pad_w = same ? 0 : row[PW];
}

/* BEGIN_WITH, the row's line, END */
static int build(const char *op, const int64_t *row, vram_net_format format, int kernels) {
  vram_net_line *begin = &line[0], *l = &line[1];
  const int same = is_same(row, H, OH, KH, SH, DH, PH) && is_same(row, W, OW, KW, SW, DW, PW);
  int i;
  memset(line, 0, sizeof line);
  memset(&net, 0, sizeof net);
  net.name = "net", net.line = line, net.nline = 3;
  begin->kind = VRAM_LINE_BEGIN_WITH;
  begin->y = "input";
  for (i = 0; i < 4; i++)
    begin->arg[i] = row[N + i];
  begin->arg[4] = 1; /* align: scratch as it is */
  begin->format = format;
  begin->kernels = (vram_net_kernels)kernels;
  l->y = "y", line[2].kind = VRAM_LINE_END;
  for (i = 0; i < 6; i++)
    l->arg[i + 1] = row[KH + i];
  pad(l, row, same);
  if (!strcmp(op, "conv2d")) {
    l->kind = VRAM_LINE_CONV2D_FULL;
    l->arg[0] = row[OC];
    l->arg[7] = row[GROUPS];
  } else if (!strcmp(op, "depthwise_conv2d")) {
    l->kind = VRAM_LINE_DEPTHWISE_CONV2D_FULL;
    l->arg[0] = row[OC] / row[C];
  } else if (!strcmp(op, "conv_transpose2d")) {
    l->kind = VRAM_LINE_CONV_TRANSPOSE2D;
    l->arg[0] = row[OC];
    l->arg[5] = l->arg[6] = 0;
    pad(l, row, row[OH] == row[H] * row[SH] && row[OW] == row[W] * row[SW]);
  } else if (!strcmp(op, "linear")) {
    l->kind = VRAM_LINE_LINEAR;
    memset(l->arg, 0, sizeof l->arg);
    l->arg[0] = row[OC];
  } else if (!strcmp(op, "avg_pool2d")) {
    l->kind = VRAM_LINE_AVG_POOL2D;
    for (i = 0; i < 4; i++)
      l->arg[i] = row[KH + i];
  } else
    return 0;
  return 1;
}

static void count(const char *op, const int64_t *row, vram_net_format format, int kernels,
                  uint64_t want) {
  vram_error e;
  if (!CHECK(build(op, row, format, kernels)) || !EQUAL(vram_net_count(&net, &e), VRAM_OK)) {
    printf("    %s\n", e.text);
    return;
  }
  EQUAL(line[1].height, (uint64_t)row[OH]);
  EQUAL(line[1].width, (uint64_t)row[OW]);
  EQUAL(line[1].scratch_bytes, want);
  EQUAL(line[1].live_bytes, line[0].out_bytes + line[1].out_bytes + want);
}

static void golden(void) {
  static const vram_net_format none[] = {VRAM_FORMAT_F32, VRAM_FORMAT_F16, VRAM_FORMAT_I4};
  FILE *f = fopen("tests/golden/cmsis.txt", "r");
  char text[300], op[40];
  int rows = 0;
  CHECK(f != NULL);
  if (!f)
    return;
  while (fgets(text, sizeof text, f)) {
    int64_t row[SIZES];
    unsigned long long want[3];
    char *at = strchr(text, ' ');
    vram_net_format format;
    int i;
    if (*text == '#')
      continue;
    if (!CHECK(at != NULL && at - text < (long)sizeof op))
      break;
    memcpy(op, text, (size_t)(at - text));
    op[at - text] = 0;
    for (i = 0; i < SIZES; i++)
      row[i] = strtoll(at, &at, 10);
    if (!CHECK(sscanf(at, " = %llu %llu %llu", &want[0], &want[1], &want[2]) == 3))
      break;
    format = row[ACT] == 16     ? VRAM_FORMAT_I16
             : row[WEIGHT] == 4 ? VRAM_FORMAT_I8W4
                                : VRAM_FORMAT_I8;
    snprintf(test_where, sizeof test_where, "%.250s", text);
    count(op, row, format, VRAM_KERNELS_NONE, 0);
    for (i = 0; i < 3; i++)
      count(op, row, format, i + 1, want[i]);
    count(op, row, none[rows % 3], 1 + rows % 2 + 1, 0);
    rows++;
  }
  *test_where = 0;
  CHECK(rows > 400);
  fclose(f);
}

/* A buffer beyond 64 bits is an error, not a small number. */
static void overflow(void) {
  int64_t row[SIZES] = {8,     8,     1, 65535, 65535, 4294967295, 1, 1, 1,
                        65535, 65535, 1, 1,     1,     1,          0, 0, 1};
  vram_error e;
  CHECK(build("conv2d", row, VRAM_FORMAT_I8, VRAM_KERNELS_MVE));
  CHECK(vram_net_count(&net, &e) != VRAM_OK);
}

int main(void) {
  golden();
  overflow();
  return test_done("test_cmsis");
}
