/* >>convert    files with a graph as text */
#pragma once
#include "model/model.h"
#include "read/read.h"

/* A text that is being made, line by line. Each line is a node of a graph, too, whose shapes the
   next lines ask for. The text is made once, and once more for each dim with that dim doubled: a
   number that doubles with it is written as a product. */
enum {
  VRAM__DRAFT_DIMS = 8,
  VRAM__DRAFT_NUMBERS = 1024, /* in a line */
  VRAM__DRAFT_INPUTS = 1024,
  VRAM__DRAFT_LINE = 1 << 14,
  VRAM__DRAFT_MARK = 1 /* a byte that stands for the next number */
};

typedef struct vram__draft_line {
  struct vram__draft_line *next;
  const char *text;
  int64_t *number;
  uint32_t *power; /* four bits for each dim */
  uint32_t len, count;
} vram__draft_line;

typedef struct vram__draft_dim {
  const char *name, *label; /* in the file, in the text */
  int64_t value, now;       /* now: in this run */
  uint32_t len;
  uint8_t is_set;   /* by the caller; else it is 1 */
  uint8_t is_fixed; /* some number is no product of it */
} vram__draft_dim;

typedef struct vram__draft {
  vram_file room; /* the memory of all but the graph */
  vram__reader r; /* the error */
  vram_graph g;
  void *graph_mem;
  uint64_t graph_bytes;
  vram__names labels;
  vram__draft_line *first, *last;
  vram__draft_line *at; /* of a later run: the line that the next one is held against */
  vram__draft_dim dim[VRAM__DRAFT_DIMS];
  uint32_t ndim, run; /* run 0 writes, run i doubles dim i - 1 */
  uint8_t differs;    /* this run's text is another one */
  char why[240];      /* why the last line could not be */
  /* the line */
  vram_op op;
  vram_value *in[VRAM__DRAFT_INPUTS];
  int64_t number[VRAM__DRAFT_NUMBERS];
  uint32_t nin, nnumber, text_len, keys_len;
  char text[VRAM__DRAFT_LINE], keys[VRAM__DRAFT_LINE];
} vram__draft;

/* draft.c */
VRAM__FN void *vram__draft_take(vram__draft *d, uint64_t bytes);
VRAM__FN vram__draft *vram__draft_begin(void *mem, uint64_t bytes, vram_error *e);
VRAM__FN uint32_t vram__draft_name_len(const char *name, uint32_t len);
VRAM__FN const char *vram__draft_label(vram__draft *d, const char *name, uint32_t len);
VRAM__FN void vram__draft_text(vram__draft *d, const char *z);
VRAM__FN void vram__draft_letters(vram__draft *d, const char *s, uint32_t n);
VRAM__FN void vram__draft_number(vram__draft *d, int64_t v);
VRAM__FN void vram__draft_open(vram__draft *d);
VRAM__FN void vram__draft_close(vram__draft *d);
VRAM__FN void vram__draft_op(vram__draft *d, vram_op op);
VRAM__FN void vram__draft_in(vram__draft *d, vram_value *v);
VRAM__FN void vram__draft_word(vram__draft *d, const char *key, const char *word);
VRAM__FN void vram__draft_int(vram__draft *d, const char *key, int64_t v);
VRAM__FN void vram__draft_ints(vram__draft *d, const char *key, const int64_t *v, uint32_t n);
VRAM__FN void vram__draft_axes(vram__draft *d, const char *key, const int64_t *v, uint32_t n);
VRAM__FN void vram__draft_shape(vram__draft *d, const int64_t *v, uint32_t n);
VRAM__FN void vram__draft_real(vram__draft *d, const char *key, double v);
VRAM__FN vram_node *vram__draft_node(vram__draft *d, const char *names, const char *comment);
VRAM__FN vram_result vram__draft_runs(vram__draft *d, void (*run)(vram__draft *, void *),
                                      void *user);
VRAM__FN vram_result vram__draft_write(vram__draft *d, const vram_sink *sink, const char *head);

/* ONNX, and TFLite's models in the same way: a value of the model. */
typedef struct vram__onnx_cell {
  const char *name, *label;
  const vram_file_tensor *tensor; /* a constant */
  const vram_file_operand *said;
  struct vram__onnx_cell *same; /* Identity of it */
  struct vram__onnx_step *user; /* the last that takes it */
  /* in this run */
  vram_value *value;
  vram_value *first;   /* of TFLite: the same, channels first */
  const int64_t *ints; /* of a shape and what is computed of shapes, `count` of them; NULL: not
                          known, or not so few */
  uint32_t run, uses, len, count;
  uint32_t ints_rows; /* of a table */
  uint8_t ints_ndim;  /* 0, 1, or 2: a table */
  vram_dtype ints_dtype;
  uint8_t is_output, is_given; /* given: by a node, or an input */
  uint8_t is_image;            /* of TFLite: as an input it is given channels first */
  uint8_t again;               /* how many follow through `same` */
} vram__onnx_cell;

typedef struct vram__onnx_step { /* a node */
  const vram_file_node *node;
  const struct vram__onnx_row *row; /* NULL: no word */
  vram__onnx_cell **in, **out;      /* NULL: left out */
  uint32_t nin, nout;
  uint32_t done; /* in the run of this number + 1 it was written with one before it */
} vram__onnx_step;

typedef struct vram__onnx_job {
  vram__draft *d;
  const vram_file *f;
  vram__names cells;
  vram__onnx_step *step;
  int64_t opset;
  vram_dtype dtype; /* of the model */
  uint32_t unknown; /* a list that a node takes is not known */
} vram__onnx_job;

typedef int (*vram__onnx_map)(vram__onnx_job *m, vram__onnx_step *s);

typedef struct vram__onnx_row {
  const char *name;
  vram__onnx_map map;
  vram_op op; /* of a map that serves several */
} vram__onnx_row;

enum { VRAM__ONNX_FOLDED = 8 }; /* elements of what is computed here at most */

/* onnx_cell.c */
VRAM__FN const vram_file_attribute *vram__onnx_attr(const vram__onnx_step *s, const char *name);
VRAM__FN int64_t vram__onnx_attr_int(const vram__onnx_step *s, const char *name, int64_t def);
VRAM__FN int vram__onnx_attr_is(const vram__onnx_step *s, const char *name, const char *word);
VRAM__FN const int64_t *vram__onnx_attr_ints(const vram__onnx_step *s, const char *name,
                                             uint32_t *n);
VRAM__FN const int64_t *vram__onnx_list(vram__onnx_job *m, const vram__onnx_step *s,
                                        const char *name, uint32_t i, uint32_t *n);
VRAM__FN vram__onnx_cell *vram__onnx_in(const vram__onnx_step *s, uint32_t i);
VRAM__FN const int64_t *vram__onnx_known(const vram__onnx_cell *c, uint32_t *n);
VRAM__FN void vram__onnx_know(vram__onnx_job *m, vram__onnx_cell *c, const int64_t *v, uint32_t n,
                              uint32_t ndim, vram_dtype dtype);
VRAM__FN int vram__onnx_shape(const vram__onnx_cell *c, uint32_t *ndim, int64_t *size);
VRAM__FN vram_dtype vram__onnx_dtype(const vram__onnx_cell *c);
VRAM__FN vram_dtype vram__onnx_text_dtype(const vram__onnx_job *m, vram_dtype t, uint32_t scales);
VRAM__FN int vram__onnx_is_owned(const vram__onnx_cell *c);
VRAM__FN int vram__onnx_is_single(const vram__onnx_cell *c);
VRAM__FN vram_value *vram__onnx_value_of(vram__onnx_job *m, vram__onnx_cell *c);
VRAM__FN int vram__onnx_link(vram__onnx_job *m, vram__onnx_cell *out, vram__onnx_cell *c);
VRAM__FN int vram__onnx_pass(vram__onnx_job *m, vram__onnx_step *s, vram__onnx_cell *c);
VRAM__FN int vram__onnx_refuse(vram__onnx_job *m, const char *why);
VRAM__FN int vram__onnx_put(vram__onnx_job *m, vram__onnx_cell *out);
VRAM__FN vram_value *vram__onnx_between(vram__onnx_job *m, const vram__onnx_cell *out,
                                        const char *what);
VRAM__FN vram_value *vram__onnx_take_in(vram__onnx_job *m, vram__onnx_step *s, uint32_t i);
VRAM__FN int64_t vram__onnx_axis(int64_t axis, uint32_t ndim);
VRAM__FN int64_t vram__onnx_place(int64_t at, int64_t size);

/* onnx_fold.c */
VRAM__FN int vram__onnx_fold(vram__onnx_job *m, vram__onnx_step *s);

/* onnx_layer.c, onnx_shape.c */
/* clang-format off */
#define VRAM__ONNX_MAPS(X) X(conv) X(matmul) X(gemm) X(pool) X(global_pool) X(batch_norm) \
  X(instance_norm) X(group_norm) X(layer_norm) X(rnn) X(clip) X(prelu) X(softmax) X(unary) \
  X(binary) X(variadic) X(where) X(cast) X(quantize) X(dropout) X(gelu) X(reduce) X(arg) \
  X(topk) X(cumsum) X(trilu) X(einsum) X(is_nan) X(identity) X(reshape) X(flatten) X(transpose) \
  X(squeeze) X(unsqueeze) X(concat) X(split) X(slice) X(gather) X(gather_elements) X(scatter) \
  X(scatter_nd) X(expand) X(tile) X(pad) X(resize) X(range) X(constant_of_shape) X(shuffle) \
  X(lrn)
/* clang-format on */
#define VRAM__X(name) VRAM__FN int vram__onnx_map_##name(vram__onnx_job *m, vram__onnx_step *s);
VRAM__ONNX_MAPS(VRAM__X)
#undef VRAM__X

/* onnx_rows.c */
VRAM__FN const vram__onnx_row *vram__onnx_row_of(const vram_file_node *n);
VRAM__FN int vram__onnx_split_names(vram__onnx_job *m, vram__onnx_step *s, char *to, uint32_t cap);

/* tflite_layer.c, tflite_point.c */
VRAM__FN int64_t vram__tflite_axis(int is_first, int64_t axis);
VRAM__FN int vram__tflite_is_first(const vram__onnx_cell *c);
VRAM__FN vram_value *vram__tflite_first(vram__onnx_job *m, vram__onnx_cell *c);
VRAM__FN vram_value *vram__tflite_any(vram__onnx_job *m, vram__onnx_cell *c, int *is_first);
VRAM__FN int vram__tflite_put(vram__onnx_job *m, vram__onnx_step *s, int is_first);
/* clang-format off */
#define VRAM__TFLITE_MAPS(X) X(conv) X(transpose_conv) X(pool) X(resize) X(shuffle) X(prelu) \
  X(linear) X(matmul) X(unary) X(binary) X(quantize) X(cast) X(softmax) X(reduce) X(concat) \
  X(reshape) X(transpose) X(pad) X(slice) X(split) X(unpack) X(pack) X(gather) X(where) X(tile)
/* clang-format on */
#define VRAM__X(name) VRAM__FN int vram__tflite_map_##name(vram__onnx_job *m, vram__onnx_step *s);
VRAM__TFLITE_MAPS(VRAM__X)
#undef VRAM__X

/* tflite_rows.c */
VRAM__FN const vram__onnx_row *vram__tflite_row_of(const vram_file_node *n);
VRAM__FN void vram__tflite_images(vram__onnx_job *m);
