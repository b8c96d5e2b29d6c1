/* >>net/low    lowering a model to the lines of a network */
#pragma once
#include "net/net.h"

enum { VRAM__LOW_ATOMS = 16, VRAM__LOW_NAME = 40, VRAM__LOW_TEXT = 56 };
enum { VRAM__LOW_NONE, VRAM__LOW_TENSOR, VRAM__LOW_CONSTANT };
enum { VRAM__LOW_ONE, VRAM__LOW_BOTH, VRAM__LOW_JOIN, VRAM__LOW_MANY };
#define VRAM__LOW_NO UINT32_MAX

typedef struct vram__layout {
  uint32_t n;     /* atoms, in the order of memory */
  uint32_t batch; /* 1: the first one is the batch */
  uint32_t loose; /* bit i: atom i may change places with others: nobody has read it yet */
  uint8_t axis[VRAM__LOW_ATOMS];
  uint8_t place[VRAM__LOW_ATOMS]; /* in the order of the axes */
  int64_t size[VRAM__LOW_ATOMS];  /* more than 1 */
} vram__layout;

typedef struct vram__low_value { /* of the graph */
  uint8_t kind, need, noise, like_input;
  uint32_t at;               /* tensor; of a constant: the value that holds the next two */
  uint64_t params, elements; /* of a constant: not counted yet, not stored yet */
  vram__layout lay;
} vram__low_value;

typedef struct vram__low_tensor {
  int64_t h, w, c;     /* as the line that makes it has them */
  uint32_t step, uses; /* the step that makes it, steps that read it */
  uint32_t instead;    /* the tensor that overwrote it; itself: none */
  uint32_t kept;       /* the KEEP line that holds it, 0: none */
  uint32_t line;       /* that made it */
  uint8_t output, fixed;
} vram__low_tensor;

typedef struct vram__low_in {
  uint32_t tensor;
  int64_t h, w, c; /* as the step reads it; c 0: as it is */
} vram__low_in;

typedef struct vram__low_step {
  vram_net_line line; /* kind and arguments */
  const vram_node *node;
  const char *suffix; /* of the name */
  uint32_t how, first, count, out;
  uint32_t behind; /* the step that is fused behind it */
  int fused;
} vram__low_step;

typedef struct vram__low {
  const vram_graph *g;
  vram_net_lower_options o;
  vram_net *net;
  vram_error *err;
  uint8_t *mem;
  uint64_t used, cap;
  vram__low_value *value;
  uint8_t *claimed; /* parameters that a line has counted */
  vram__low_tensor *tensor;
  vram__low_step *step;
  vram__low_in *in;
  uint32_t *hash; /* of the names of lines */
  uint32_t ntensor, nstep, nin, max_in, current;
  int64_t n, h, w, c; /* batch; the value in hand */
  uint8_t out_of[VRAM_FORMAT_COUNT];
} vram__low;

/* layout.c */
VRAM__FN int vram__layout_room(vram__layout *y, uint32_t i);
VRAM__FN uint32_t vram__layout_at(const vram__layout *y, uint32_t place);
VRAM__FN void vram__layout_number(vram__layout *y);
VRAM__FN int vram__layout_split(vram__layout *y, uint32_t i, int64_t outer);
VRAM__FN int vram__layout_view(vram__layout *y, const vram_dims *d);
VRAM__FN void vram__layout_make(vram__layout *y, const vram_dims *d, const uint32_t *order,
                                uint32_t batch_axis, int has_batch);
VRAM__FN int64_t vram__layout_of(const vram__layout *y, uint32_t axes);
VRAM__FN int vram__layout_resize(vram__layout *y, uint32_t a, int64_t size);
VRAM__FN int vram__layout_cuts(const vram__layout *y, int64_t h, int64_t w, uint32_t *i,
                               uint32_t *k);

/* low.c */
VRAM__FN int vram__low_fail(vram__low *l, const vram_node *n, vram_result code, const char *what);
VRAM__FN int vram__low_refuse(vram__low *l, const vram_node *n, const char *what);
VRAM__FN vram__low_value *vram__low_of(vram__low *l, const vram_value *v);
VRAM__FN uint32_t vram__low_tensor_new(vram__low *l, int64_t h, int64_t w, int64_t c);
VRAM__FN vram__low_step *vram__low_step_new(vram__low *l, const vram_node *n, vram_line_kind kind,
                                            int64_t h, int64_t w, int64_t c);
VRAM__FN int vram__low_read(vram__low *l, vram__low_step *s, uint32_t tensor, int64_t h, int64_t w,
                            int64_t c);
VRAM__FN int vram__low_gives(vram__low *l, const vram__low_step *s, const vram_value *v,
                             const vram__layout *lay);
VRAM__FN int vram__low_same(vram__low *l, const vram_value *v, const vram__low_value *x);
VRAM__FN int vram__low_order(vram__low *l, const vram_node *n, vram__low_value *x,
                             const uint8_t *order, int64_t h, int64_t w, int64_t c);
VRAM__FN int vram__low_axes_order(vram__low *l, const vram_node *n, vram__low_value *x,
                                  const uint32_t *axes, uint32_t naxes, int any, int64_t h,
                                  int64_t w, int64_t c);
VRAM__FN int vram__low_last(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t axes,
                            int strict, int64_t *h, int64_t *w, int64_t *c);
VRAM__FN uint64_t vram__low_weight_bytes(const vram__low *l, uint64_t elements);
VRAM__FN uint64_t vram__low_bias_bytes(const vram__low *l, uint64_t count);
VRAM__FN uint64_t vram__low_scale_bytes(const vram__low *l, uint64_t matrices, uint64_t channels);
VRAM__FN uint64_t vram__low_bytes(const vram__low *l, uint64_t elements);
VRAM__FN int vram__low_claim(vram__low *l, const vram_node *n);
VRAM__FN vram__low_value *vram__low_constant(vram__low *l, const vram_value *v);
VRAM__FN void vram__low_store(vram__low *l, const vram_node *n, vram__low_step *s);

/* low_nodes.c */
VRAM__FN vram__low_step *vram__low_custom(vram__low *l, const vram_node *n, int64_t h, int64_t w,
                                          int64_t c);
VRAM__FN int vram__low_any(vram__low *l, const vram_node *n, uint64_t params, uint64_t bytes,
                           uint64_t macs, uint64_t scratch);
VRAM__FN int vram__low_node(vram__low *l, const vram_node *n);

/* low_shape.c */
VRAM__FN int vram__low_cat(vram__low *l, const vram_node *n);
VRAM__FN int vram__low_slices(vram__low *l, const vram_node *n);
VRAM__FN int vram__low_view(vram__low *l, const vram_node *n, vram__low_value *x);
VRAM__FN int vram__low_pad(vram__low *l, const vram_node *n, vram__low_value *x);
VRAM__FN int vram__low_interpolate(vram__low *l, const vram_node *n, vram__low_value *x);
VRAM__FN int vram__low_shuffle(vram__low *l, const vram_node *n, vram__low_value *x);

/* low_lines.c */
VRAM__FN vram_net_line *vram__low_line(vram__low *l, vram_line_kind kind, const char *from,
                                       const char *suffix);
VRAM__FN int vram__low_write(vram__low *l, vram__low_step *s);
