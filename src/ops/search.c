/* >>ops/search    searchsorted, bucketize, isin (ATen/native/BucketizationUtils.h) */
#include "ops/ops.h"

enum { VRAM__SEARCH_BUCKETIZE = 1 };

/* searchsorted: sorted rows, values; bucketize: values, one sorted row. The result has the values'
   sizes. */
static int vram__shape_search(vram_graph *g, vram_node *n) {
  const uint32_t bucketize = vram__op_at(n->op)->kind == VRAM__SEARCH_BUCKETIZE;
  const vram_dims *row = n->in[bucketize]->d, *values = n->in[!bucketize]->d;
  uint32_t i;
  if (!row->ndim || (bucketize && row->ndim != 1))
    return vram__node_error(g, n, "no sorted row");
  for (i = 0; row->ndim > 1 && i + 1 < row->ndim; i++)
    if (values->ndim != row->ndim || values->v[i] != row->v[i])
      return vram__node_error(g, n, "sorted rows and values of different sizes");
  return vram__node_out_dims(n, 0, values, vram__graph_key_dtype(g, n, VRAM_I64));
}

static int vram__shape_isin(vram_graph *g, vram_node *n) {
  (void)g;
  return vram__node_out_dims(n, 0, n->in[0]->d, VRAM_BOOL);
}

#ifndef VRAM_NO_STEP

/* Both contiguous and of one dtype: searchsorted_maybe_trim_input_tensors */
static void vram__forward_search(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  const uint32_t values = vram__op_at(n->op)->kind == VRAM__SEARCH_BUCKETIZE ? 0 : 1;
  const vram_dtype dt = vram__promote_pair(x[0], x[1]);
  vram__tensor whole[2], cast[2];
  uint32_t i;
  y[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x[values].d),
                            vram__step_key_dtype(s, n, VRAM_I64));
  for (i = 0; i < 2; i++)
    whole[i] = vram__tensor_contiguous(s, x[i ? !values : values]);
  for (i = 0; i < 2; i++) {
    cast[i] = vram__tensor_to(s, whole[i], dt);
    vram__tensor_release(s, whole[i]);
  }
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, cast[i]);
}

/* TensorCompare.cpp: of few elements to look for, every pair is compared. Many are sorted first,
   which takes what the values decide: the exporter has no word for that. */
static void vram__forward_isin(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  const uint64_t few = x[1].d->numel, all = x[0].d->numel;
  uint32_t pairs;
  (void)n;
  y[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x[0].d), VRAM_BOOL);
  pairs = vram__cub_hold(s, vram__product_or_overflow(few, all));
  vram__workspace_use(s, all);
  vram__cub_release(s, pairs);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(searchsorted, "", 2, 2, search, SAME, none, search, none, each, NONE, 0, 0, "dtype");
VRAM__OP(bucketize, "", 2, 2, search, SAME, none, search, none, each, NONE, VRAM__SEARCH_BUCKETIZE,
         0, "dtype");
VRAM__OP(isin, "", 2, 2, isin, SAME, none, isin, none, each, NONE, 0, 0, "");
