/* >>ops/shape    shape rules, named in the op table */
#pragma once
#include "model/model.h"

#define VRAM__MAX_UNITS INT64_C(0x7fffffff)

/* kind of a reduction's row: what its dtypes and axes must be, where it is not a result in floating
   point of one that is */
enum {
  VRAM__REDUCE_SUM = 1,
  VRAM__REDUCE_PROD,
  VRAM__REDUCE_EXTREME, /* of some axes, */
  VRAM__REDUCE_SELECT,  /* of one, with indices, or of all */
  VRAM__REDUCE_INDEX,
  VRAM__REDUCE_LOGSUMEXP,
  VRAM__REDUCE_STD
};

/* A parameter that a module may have: its slot, name and sizes. */
typedef struct vram__own_param {
  uint32_t slot;
  int there;
  const char *role;
  uint32_t ndim;
  int64_t size[3];
} vram__own_param;

/* The slots of a linear layer's parameters; those of adapters and of what quantised weights have
   beside them are only there where the line asks for one of these. */
enum {
  VRAM__LINEAR_WEIGHT,
  VRAM__LINEAR_BIAS,
  VRAM__LINEAR_LORA_A,
  VRAM__LINEAR_LORA_B,
  VRAM__LINEAR_LORA_BIAS,
  VRAM__LINEAR_MAGNITUDE,
  VRAM__LINEAR_CODE,
  VRAM__LINEAR_SCALES,
  VRAM__LINEAR_OFFSET,
  VRAM__LINEAR_NESTED,
  VRAM__LINEAR_NESTED_CODE,
  VRAM__LINEAR_NESTED_MAP,
  VRAM__LINEAR_PARAMS
};

/* A quantised weight [out, in]. */
typedef struct vram__quantised {
  int64_t out, in;
  uint8_t bits;       /* of a value of bitsandbytes; 0: it is none of those */
  uint8_t fp8;        /* transformers' FP8Linear */
  uint8_t nested;     /* its scales are quantised, too */
  uint8_t threshold;  /* columns of x with larger values are multiplied in x's dtype */
  vram_dtype from;    /* what it was quantised from and is dequantised to */
  vram_dtype compute; /* what x becomes first; VRAM_DTYPE_NONE: it stays */
} vram__quantised;

/* An equation of einsum: every label gets a position, those of the result first (Linear.cpp). */
#define VRAM__LETTERS 52
#define VRAM__MAX_LABELS 60u /* letters and the axes of an ellipsis */

typedef struct vram__labels {
  const char *text, *end;
  const char *problem; /* why PyTorch rejects the equation */
  uint32_t nout, n;    /* positions of the result, and in all */
  uint32_t operands;
  uint32_t dots;                   /* axes of the ellipsis, */
  uint32_t dots_at;                /* their first position */
  uint32_t used[VRAM__LETTERS];    /* how often the operands have a label */
  uint8_t at[VRAM__LETTERS];       /* its position + 1; 0: none yet */
  uint8_t count[VRAM__MAX_LABELS]; /* operands whose axis at this position is not 1 */
  int64_t size[VRAM__MAX_LABELS];
} vram__labels;

/* pointwise.c */
VRAM__FN int vram__shape_same(vram_graph *g, vram_node *n);
VRAM__FN int vram__shape_bcast(vram_graph *g, vram_node *n);

/* reduce.c */
VRAM__FN int vram__shape_reduce(vram_graph *g, vram_node *n);

/* fft.c */
VRAM__FN vram_dtype vram__real_of(vram_dtype dt);

static inline int vram__is_complex(vram_dtype dt) {
  return dt == VRAM_C64 || dt == VRAM_C128 || dt == VRAM_C32;
}

/* quantised.c */
VRAM__FN vram__quantised vram__node_quantised(const vram_node *n);
VRAM__FN int vram__quantised_own(vram_graph *g, vram_node *n);
VRAM__FN int vram__quantised_own_bias(vram_graph *g, vram_node *n);

/* adapter.c */
VRAM__FN int vram__adapter_own(vram_graph *g, vram_node *n, int64_t out, int64_t in);

/* index.c */
VRAM__FN int vram__index_dtype(vram_graph *g, const vram_node *n, uint32_t i);

/* conv.c */
VRAM__FN int vram__shape_window(vram_graph *g, const vram_node *n, uint32_t key, uint32_t k,
                                int64_t least, int64_t *to);

/* pool.c */
VRAM__FN int vram__out_indexed(vram_graph *g, vram_node *n, const int64_t *size);
VRAM__FN int vram__shape_resize(vram_graph *g, vram_node *n, uint32_t k, const int64_t *to);
VRAM__FN int64_t vram__shape_times(int64_t in, int64_t factor);

/* norm.c */
VRAM__FN int vram__shape_norm(vram_graph *g, vram_node *n);

/* attention.c */
VRAM__FN int vram__shape_sdpa(vram_graph *g, vram_node *n);
VRAM__FN int vram__attention_fits(vram_graph *g, uint64_t heads, int64_t rows, int64_t keys,
                                  int64_t width);

/* mha.c */
VRAM__FN int vram__node_own_params(vram_graph *g, vram_node *n, const vram__own_param *own,
                                   uint32_t count);

/* loss.c */
VRAM__FN int vram__loss_check(vram_graph *g, vram_node *n);
VRAM__FN int vram__loss_out(vram_graph *g, vram_node *n, uint32_t ndim, const int64_t *size,
                            uint32_t count);
VRAM__FN int vram__loss_has_sizes(const vram_dims *d, uint32_t ndim, const int64_t *size);
VRAM__FN int vram__loss_broadcast(vram_graph *g, vram_node *n, uint32_t count, uint32_t *ndim,
                                  int64_t *size);
VRAM__FN int vram__loss_shape(vram_graph *g, vram_node *n, uint32_t count, uint32_t floating);
VRAM__FN int vram__shape_loss(vram_graph *g, vram_node *n);

/* FLOPs */
VRAM__FN uint64_t vram__flops_product(const vram_node *n);
VRAM__FN uint64_t vram__flops_sdpa(const vram_node *n);
