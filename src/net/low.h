/* >>net/low    lowering a model to the lines of a network */
#pragma once
#include "net/net.h"

enum { VRAM__LOW_ATOMS = 16, VRAM__LOW_NAME = 40, VRAM__LOW_TEXT = 56 };
#define VRAM__LOW_NO UINT32_MAX

/* What a value of the graph is. */
enum { VRAM__LOW_NONE, VRAM__LOW_TENSOR, VRAM__LOW_CONSTANT };

/* How a step reads its inputs: its line names one; the line before and a kept one; the line before
   and some kept ones; or the last one before it, and the others wait until it has run. */
enum { VRAM__LOW_ONE, VRAM__LOW_BOTH, VRAM__LOW_JOIN, VRAM__LOW_MANY };

/* Arguments of a CUSTOM line, behind h, w, c. */
enum {
  VRAM__CUSTOM_PARAMS = 3,
  VRAM__CUSTOM_BYTES,
  VRAM__CUSTOM_MACS,
  VRAM__CUSTOM_SCRATCH,
};

typedef struct vram__layout {
  uint32_t n;     /* atoms, in the order of memory */
  uint32_t batch; /* 1: the first one is the batch */
  uint32_t loose; /* bit i: atom i may change places with others: nobody has read it yet */
  uint8_t axis[VRAM__LOW_ATOMS];
  uint8_t place[VRAM__LOW_ATOMS]; /* in the order of the axes */
  int64_t size[VRAM__LOW_ATOMS];  /* more than 1 */
} vram__layout;

/* A shape as lines have it, without the batch. c 0: as the value is. */
typedef struct vram__hwc {
  int64_t h, w, c;
} vram__hwc;

static inline vram__hwc vram__hwc_of(int64_t h, int64_t w, int64_t c) {
  vram__hwc s;
  s.h = h;
  s.w = w;
  s.c = c;
  return s;
}

static inline int vram__hwc_equal(vram__hwc a, vram__hwc b) {
  return a.h == b.h && a.w == b.w && a.c == b.c;
}

typedef struct vram__low_value { /* of the graph */
  uint8_t kind, need, noise, like_input;
  uint32_t at;               /* tensor; of a constant: the value that holds the next two */
  uint64_t params, elements; /* of a constant: not counted yet, not stored yet */
  vram__layout lay;
} vram__low_value;

typedef struct vram__low_tensor {
  vram__hwc shape;     /* as the line that makes it has it */
  uint32_t step, uses; /* the step that makes it, steps that read it */
  uint32_t instead;    /* the tensor that overwrote it; itself: none */
  uint32_t kept;       /* the KEEP line that holds it, 0: none */
  uint32_t line;       /* that made it */
  uint8_t output, fixed;
} vram__low_tensor;

typedef struct vram__low_in {
  uint32_t tensor;
  vram__hwc shape; /* as the step reads it */
} vram__low_in;

typedef struct vram__low_step {
  vram_net_line line; /* kind and arguments */
  const vram_node *node;
  const char *suffix; /* of the name */
  uint32_t how, first, count, out;
  uint32_t behind; /* the step that is fused behind it */
  int fused;
} vram__low_step;

/* What a CUSTOM line takes beside the constants that it reads. */
typedef struct vram__low_cost {
  uint64_t params, bytes, macs, scratch;
} vram__low_cost;

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
  uint32_t ninput, ntensor, nstep, nin, max_in;
  int64_t n;             /* the batch */
  const vram_node *node; /* that is lowered now, for steps and errors; NULL: none */
  uint32_t tensors;      /* its inputs that are no constants, */
  uint32_t first;        /* the first of those */
  uint32_t current;      /* when lines are written: the tensor in hand */
  vram__hwc hand;        /* and its shape */
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
VRAM__FN int vram__layout_inner(vram__layout *y, uint32_t a, int64_t size);
VRAM__FN int vram__layout_cuts(const vram__layout *y, vram__hwc shape, uint32_t cut[2]);

/* low.c */
VRAM__FN int vram__low_fail(vram__low *l, vram_result code, const char *what);
VRAM__FN int vram__low_refuse(vram__low *l, const char *what);
VRAM__FN vram__low_value *vram__low_of(vram__low *l, const vram_value *v);
VRAM__FN uint32_t vram__low_tensor_new(vram__low *l, vram__hwc shape);
VRAM__FN vram__low_step *vram__low_step_new(vram__low *l, vram_line_kind kind, vram__hwc shape);
VRAM__FN int vram__low_read(vram__low *l, vram__low_step *s, uint32_t tensor, vram__hwc shape);
VRAM__FN vram__low_step *vram__low_layer(vram__low *l, vram_line_kind kind, vram__hwc shape,
                                         uint32_t tensor, vram__hwc in);
VRAM__FN void vram__low_shape_args(vram_net_line *line, vram__hwc shape);
VRAM__FN int vram__low_gives(vram__low *l, const vram__low_step *s, const vram_value *v,
                             const vram__layout *lay);
VRAM__FN int vram__low_same(vram__low *l, const vram_value *v, const vram__low_value *x);
VRAM__FN int vram__low_order(vram__low *l, vram__low_value *x, const uint8_t *order,
                             vram__hwc shape);
VRAM__FN int vram__low_axes_order(vram__low *l, vram__low_value *x, const uint32_t *axes,
                                  uint32_t naxes, int any, vram__hwc shape);
VRAM__FN int vram__low_last(vram__low *l, vram__low_value *x, uint32_t axes, vram__hwc *shape);
VRAM__FN uint64_t vram__low_weight_bytes(const vram__low *l, uint64_t elements);
VRAM__FN uint64_t vram__low_bias_bytes(const vram__low *l, uint64_t count);
VRAM__FN uint64_t vram__low_scale_bytes(const vram__low *l, uint64_t matrices, uint64_t channels);
VRAM__FN uint64_t vram__low_bytes(const vram__low *l, uint64_t elements);
VRAM__FN int vram__low_claim(vram__low *l, const vram_node *n);
VRAM__FN vram__low_value *vram__low_constant(vram__low *l, const vram_value *v);
VRAM__FN int vram__low_take(vram__low *l, const vram_value *v, uint64_t elements);
VRAM__FN uint32_t vram__low_axis(const vram_node *n);

/* One function for each way to lower (VRAM__LOWERINGS): the node n becomes steps, l->tensors and
   l->first say what its inputs are. 0: an error. */

/* low_image.c */
VRAM__FN int vram__lower_conv(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_pool(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_interpolate(vram__low *l, const vram_node *n);

/* low_rnn.c */
VRAM__FN int vram__lower_rnn(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_mha(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_attention(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_embedding(vram__low *l, const vram_node *n);

/* low_shape.c */
VRAM__FN int vram__lower_cat(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_slice(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_view(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_permute(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_expand(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_pad(vram__low *l, const vram_node *n);
VRAM__FN int vram__lower_shuffle(vram__low *l, const vram_node *n);

/* low_pair.c */
VRAM__FN int vram__low_pair(vram__low *l, const vram_node *n, vram_line_kind kind);

/* low_nodes.c */
VRAM__FN vram__low_step *vram__low_custom(vram__low *l, const vram_node *n, vram__hwc shape);
VRAM__FN int vram__low_any(vram__low *l, const vram_node *n, const vram__low_cost *cost);
VRAM__FN int vram__low_node(vram__low *l, const vram_node *n);

/* low_lines.c */
VRAM__FN vram_net_line *vram__low_line(vram__low *l, vram_line_kind kind, const char *from,
                                       const char *suffix);
VRAM__FN int vram__low_keep(vram__low *l, uint32_t times);
VRAM__FN int vram__low_write(vram__low *l, vram__low_step *s);
