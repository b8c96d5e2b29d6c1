/* >>model/shape    what shape rules share: axes, broadcasting, windows */
#include "model/model.h"

/* An axis key: the value for each of n axes; one value stands for all. */
VRAM__FN int vram__axes(vram_graph *g, const vram_node *n, uint32_t key, uint32_t naxes,
                        int64_t def, int64_t least, int64_t *to) {
  uint32_t c = 0, i;
  const int64_t *v = vram__node_list(n, key, &c);
  for (i = 0; i < naxes; i++)
    to[i] = v ? (c == 1 ? v[0] : i < c ? v[i] : def) : def;
  if (v && c != 1 && c != naxes) {
    vram__graph_fail(g, VRAM_ERR_VALUE, vram__key_table[key].name);
    vram__error_more(g, " has ");
    vram__error_more_i(g, c);
    vram__error_more(g, " values (expected 1 or ");
    vram__error_more_i(g, naxes);
    vram__error_more(g, ")");
    return 0;
  }
  for (i = 0; i < naxes; i++)
    if (to[i] < least || to[i] > INT64_C(0x7fffffffffff)) {
      vram__graph_fail(g, VRAM_ERR_VALUE, vram__key_table[key].name);
      vram__error_more(g, " is out of range (found ");
      vram__error_more_i(g, to[i]);
      vram__error_more(g, ", expected at least ");
      vram__error_more_i(g, least);
      vram__error_more(g, ")");
      return 0;
    }
  return 1;
}

/* An axis number, negative ones counted from the end; -1 and an error if there is none. */
VRAM__FN int vram__axis(vram_graph *g, int64_t a, uint32_t ndim, uint32_t *to) {
  int64_t n = ndim ? ndim : 1;
  *to = 0;
  if (a < -n || a >= n) {
    vram__graph_fail(g, VRAM_ERR_VALUE, "axis out of range (found ");
    vram__error_more_i(g, a);
    vram__error_more(g, ", expected ");
    vram__error_more_i(g, -n);
    vram__error_more(g, " to ");
    vram__error_more_i(g, n - 1);
    vram__error_more(g, ")");
    return 0;
  }
  *to = (uint32_t)(a < 0 ? a + n : a);
  return 1;
}

/* ---- shape rules: one function each, named in the op table ---- */

/* Broadcasts b onto the shape of n axes in size; 0: does not fit. */
VRAM__FN int vram__dims_broadcast(uint32_t *ndim, int64_t *size, const vram_dims *b) {
  uint32_t n = *ndim, i;
  if (b->ndim > n) {
    uint32_t k = b->ndim - n;
    for (i = n; i-- > 0;)
      size[i + k] = size[i];
    for (i = 0; i < k; i++)
      size[i] = 1;
    *ndim = n = b->ndim;
  }
  for (i = 0; i < b->ndim; i++) {
    int64_t *s = size + (n - b->ndim + i), t = b->v[i];
    if (t == 1 || *s == t)
      continue;
    if (*s != 1)
      return 0;
    *s = t;
  }
  return 1;
}

/* The same for n sizes. */
VRAM__FN int vram__dims_broadcast_lead(uint32_t *ndim, int64_t *size, uint32_t n,
                                       const int64_t *from) {
  vram_dims d;
  uint32_t i;
  vram__memory_zero(&d, sizeof d);
  d.ndim = (uint8_t)n;
  for (i = 0; i < n; i++)
    d.v[i] = from[i];
  return vram__dims_broadcast(ndim, size, &d);
}

VRAM__FN int vram__dims_broadcast_all(vram_graph *g, vram_node *n, uint32_t first, uint32_t *ndim,
                                      int64_t *size) {
  uint32_t i;
  *ndim = 0;
  for (i = first; i < n->nin; i++)
    if (!vram__dims_broadcast(ndim, size, n->in[i]->d))
      return vram__node_error(g, n, "shapes do not broadcast");
  return 1;
}

VRAM__FN uint64_t vram__flops_each(const vram_node *n) { return n->out[0].d->numel; }

VRAM__FN uint64_t vram__flops_none(const vram_node *n) {
  (void)n;
  return 0;
}

/* Elements of a node's matrices. */
VRAM__FN uint64_t vram__matrix_elements(const vram_node *n) {
  uint64_t all = 0;
  uint32_t i;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->d->ndim > 1)
      all = vram__sum_or_overflow(all, n->param[i]->d->numel);
  return all;
}

/* Rows of the input: elements by its last axis. */
VRAM__FN uint64_t vram__input_rows(const vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const uint64_t k = x->ndim && x->v[x->ndim - 1] ? (uint64_t)x->v[x->ndim - 1] : 1;
  return x->numel / k;
}

/* Room for so many parameters and buffers of the node, for ops whose number of them varies. */
VRAM__FN int vram__node_params(vram_graph *g, vram_node *n, uint32_t count) {
  n->param = (vram_param **)vram__graph_take(g, count * sizeof *n->param);
  if (!n->param)
    return 0;
  vram__memory_zero(n->param, count * sizeof *n->param);
  n->nparam = (uint16_t)count;
  return 1;
}

/* Where PyTorch lets the batch be empty, but no axis from `first` on. */
VRAM__FN int vram__axes_filled(vram_graph *g, const vram_node *n, uint32_t first) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i;
  for (i = first; i < x->ndim; i++)
    if (!x->v[i])
      return vram__node_error(g, n, "an axis of size 0 that is not the batch");
  return 1;
}

/* The input of a pooling has k axes behind channels, and a batch or none: how many lead them. */
VRAM__FN uint32_t vram__axis_lead(vram_graph *g, const vram_node *n, uint32_t k) {
  const vram_dims *x = n->in[0]->d;
  if (x->ndim == k + 1 || x->ndim == k + 2)
    return x->ndim - k;
  vram__node_error(g, n, "a tensor of another number of axes");
  return 0;
}
