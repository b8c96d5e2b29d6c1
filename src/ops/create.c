/* >>ops/create    ops that make values from nothing; parameters and buffers */
#include "ops/ops.h"

static int vram__shape_create(vram_graph *g, vram_node *n) {
  uint32_t c;
  const int64_t *v = vram__node_list(n, VRAM__KEY_shape, &c);
  vram_dtype dt =
      n->nin ? n->in[0]->dtype : vram__graph_key_dtype(g, n, vram__graph_default_dtype(g));
  if (v)
    return vram__node_out(g, n, 0, c, v, dt);
  return n->nin ? vram__node_out_dims(n, 0, n->in[0]->d, dt)
                : vram__node_error(g, n, "neither shape= nor a tensor whose shape it takes");
}

static int vram__shape_parameter(vram_graph *g, vram_node *n) {
  uint32_t c;
  const int64_t *v = vram__node_list(n, VRAM__KEY_shape, &c);
  vram_dtype dt = (vram_dtype)VRAM__INT(n, dtype, VRAM_DTYPE_MODEL);
  int buffer = vram__op_at(n->op)->kind == VRAM__BUFFER;
  if (!vram__node_own(g, n, 0, buffer ? "buffer" : "parameter", c, v, dt,
                      buffer ? VRAM__BUFFER : VRAM__PARAM))
    return 0;
  n->out[0].flags |= VRAM__ISPARAM;
  return vram__node_out_dims(n, 0, n->param[0]->d, n->param[0]->dtype);
}

static int vram__shape_cache(vram_graph *g, vram_node *n) {
  g->ncache++;
  return vram__shape_create(g, n);
}

#ifndef VRAM_NO_STEP

/* What the step before stored; in the first step, or where none did, a fresh tensor. */
static void vram__forward_cache(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const vram_dtype dt = vram__step_key_dtype(s, n, vram__graph_default_dtype(s->g));
  vram__caches *c = s->caches;
  vram__cached *own = c && c->begun < c->room ? c->at + c->begun++ : NULL;
  (void)x;
  if (own)
    own->node = n;
  if (!own || !own->slot) {
    y[0] = vram__tensor_empty(s, n->out[0].d, dt);
    return;
  }
  y[0].d = n->out[0].d;
  y[0].dt = dt;
  y[0].st = own->slot;
  if (vram__dims_bytes_of(y[0].d, dt) > own->bytes && !s->failed) {
    s->failed = VRAM_ERR_SHAPE;
    s->problem = "a cache is larger than what the step before stored";
    s->problem_node = n;
  }
}

static void vram__forward_create(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram_dtype dt = n->nin ? x[0].dt : vram__step_key_dtype(s, n, vram__graph_default_dtype(s->g));
  const int like = n->nin && !vram__node_list(n, VRAM__KEY_shape, NULL); /* zeros_like(x) */
  const uint8_t before = s->stream;
  s->stream = (uint8_t)vram__node_int(n, VRAM__KEY_stream, before);
  y[0] = vram__tensor_empty(s, like ? vram__dims_dense(s, x[0].d) : n->out[0].d, dt);
  s->stream = before;
}

static void vram__forward_fill(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  y[0] = vram__pointwise_inplace(s, VRAM__K_zeros_like, x, 1);
  (void)n;
}

static void vram__forward_parameter(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y) {
  (void)x;
  y[0] = vram__tensor_retain(s, s->param[n->param[0]->index]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(zeros, "zeros eye zeros_like new_zeros", 0, 1, create, SAME, none, create, none, each,
         NONE, 0, VRAM__OP_CREATES, "shape dtype");
VRAM__OP(ones, "ones ones_like new_ones", 0, 1, create, SAME, none, create, none, each, NONE, 0,
         VRAM__OP_CREATES, "shape dtype");
VRAM__OP(full, "full scalar_tensor full_like new_full", 0, 1, create, SAME, none, create, none,
         each, NONE, 0, VRAM__OP_CREATES, "shape dtype");
VRAM__OP(arange, "arange", 0, 1, create, SAME, none, create, none, each, NONE, 0, VRAM__OP_CREATES,
         "shape! dtype");
VRAM__OP(empty,
         "empty linspace tensor as_tensor randint empty_strided empty_like new_empty "
         "new_tensor from_numpy",
         0, 1, create, SAME, none, create, none, each, NONE, 0, VRAM__OP_CREATES | VRAM__OP_VARIES,
         "shape dtype stream");
VRAM__OP(rand, "rand rand_like", 0, 1, create, SAME, none, create, none, each, NONE, 0,
         VRAM__OP_CREATES | VRAM__OP_VARIES, "shape dtype");
VRAM__OP(randn, "randn randn_like", 0, 1, create, SAME, none, create, none, each, NONE, 0,
         VRAM__OP_CREATES | VRAM__OP_VARIES, "shape dtype");
VRAM__OP(cache, "", 0, 0, cache, SAME, none, cache, none, each, NONE, 0, VRAM__OP_CREATES,
         "shape! dtype");
VRAM__OP(fill, "", 1, 1, same, SAME, none, fill, none, each, NONE, 0, VRAM__OP_WRITES, "inplace");
VRAM__OP(bernoulli, "", 1, 1, same, SAME, none, fill, none, each, NONE, 0,
         VRAM__OP_WRITES | VRAM__OP_VARIES, "inplace");
VRAM__OP(parameter, "", 0, 0, parameter, SAME, none, parameter, none, none, NONE, VRAM__PARAM,
         VRAM__OP_OWNS | VRAM__OP_PARAM, "shape! dtype frozen parallel");
VRAM__OP(buffer, "", 0, 0, parameter, SAME, none, parameter, none, none, NONE, VRAM__BUFFER,
         VRAM__OP_OWNS | VRAM__OP_PARAM, "shape! dtype");
