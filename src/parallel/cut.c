/* >>parallel/cut    the graph of one rank of tensor, expert or context parallelism */
#include "parallel/cut.h"

VRAM_API uint64_t vram_parallel_cut_bytes(const vram_graph *whole) {
  uint64_t n = vram__product_or_overflow(whole->used, 2);
  n = vram__sum_or_overflow(n, vram__product_or_overflow(whole->nvalue, UINT64_C(3) * 640));
  return vram__sum_or_overflow(n, whole->nnode * UINT64_C(256) + 65536);
}

/* Values of a line about lifetimes: what was made of one for layers goes behind the others, then
   the value itself, as the layers' callers hold both. */
static int vram__rank_lifetime(vram__rank_cut *c, const vram_node *n) {
  vram_value *in[VRAM__MAX_INPUTS];
  vram_node *y;
  uint32_t i, count = 0, pass;
  for (pass = 0; pass < 2; pass++)
    for (i = 0; i < n->nin; i++) {
      const vram__rank_value *v = c->value + n->in[i]->index;
      if (v->gone)
        continue;
      if (!v->own)
        return vram__rank_refuse(c, n, "a value that is not there");
      if ((v->whole != NULL) != (pass == 1) || count + 3 > VRAM__MAX_INPUTS)
        continue;
      if (v->whole && n->op == VRAM__OP_drop)
        in[count++] = v->whole;
      in[count++] = v->own;
    }
  if (!count)
    return 1;
  y = n->op == VRAM__OP_end ? vram__node_drop(c->g, n->op, in, count)
                            : vram__node_lifetime(c->g, n->op, in, count);
  if (!y)
    return 0;
  y->line = n->line;
  y->round = n->round;
  c->node[n->index] = y;
  return 1;
}

/* A node that the plan says something of. */
static int vram__rank_planned(vram__rank_cut *c, const vram_node *n, const vram__plan_role *role) {
  const int is_layer = n->op == VRAM_OP_linear || n->op == VRAM_OP_embedding;
  if (role->style == VRAM__TP_UNKNOWN) {
    vram__rank_refuse(c, n, role->why);
    if (!role->is_usual)
      vram__error_more(c->g, ": a style that is not played");
    return 0;
  }
  if (role->style == VRAM__TP_COLWISE || role->style == VRAM__TP_ROWWISE)
    return is_layer ? vram__rank_layer(c, n, role)
                    : vram__rank_refuse(c, n,
                                        "ColwiseParallel and RowwiseParallel are for nn.Linear and "
                                        "nn.Embedding");
  return vram__rank_copy(c, n);
}

static int vram__rank_node(vram__rank_cut *c, const vram_node *n) {
  vram__plan_role role;
  if (n->op == VRAM__OP_drop || n->op == VRAM__OP_keep || n->op == VRAM__OP_end)
    return vram__rank_lifetime(c, n);
  if (n->op >= VRAM_OP_COUNT)
    return vram__rank_refuse(c, n, "a part of a text that is a whole training step");
  if (c->length)
    return vram__context_node(c, n);
  if (c->p->ep > 1)
    return vram__rank_is_expert(c, n) ? vram__rank_experts(c, n) : vram__rank_copy(c, n);
  role = vram__rank_role(c, n);
  if (role.style)
    return vram__rank_planned(c, n, &role);
  if (n->op == VRAM_OP_cross_entropy && c->value[n->in[0]->index].cut &&
      c->value[n->in[0]->index].cut == n->in[0]->d->ndim)
    return vram__rank_loss(c, n);
  return vram__rank_copy(c, n);
}

/* Blocks of checkpoint() that begin at node n. */
static int vram__rank_blocks_begin(vram__rank_cut *c, const vram_node *n) {
  const vram_checkpoint *b;
  vram_value *arg[1024];
  vram_checkpoint what;
  uint32_t i;
  for (b = c->from->checkpoint_first; b; b = b->next) {
    if (b->first != n || b->narg > 1024)
      continue;
    what = *b;
    for (i = 0; i < b->narg; i++) {
      arg[i] = vram__rank_own(c, n, b->arg[i]);
      if (!arg[i])
        return 0;
    }
    what.arg = arg;
    if (!vram__block_begin(c->g, &what))
      return 0;
  }
  return 1;
}

static int vram__rank_blocks_end(vram__rank_cut *c, const vram_node *n) {
  const vram_checkpoint *b;
  vram_value *out[1024];
  uint32_t i, closing = 0, k;
  for (b = c->from->checkpoint_first; b; b = b->next)
    closing += b->first && b->last == n;
  for (k = 0; k < closing; k++) { /* the one that began last ends first */
    const vram_checkpoint *inner = NULL;
    uint32_t at = 0;
    for (b = c->from->checkpoint_first; b; b = b->next)
      if (b->first && b->last == n && at++ == closing - 1 - k)
        inner = b;
    for (i = 0; i < inner->nout && i < 1024; i++) {
      out[i] = c->value[inner->out[i]->index].own;
      if (!out[i])
        return 0;
    }
    if (!vram__block_end(c->g, out, inner->nout < 1024 ? inner->nout : 1024))
      return 0;
  }
  return 1;
}

static int vram__rank_inputs(vram__rank_cut *c) {
  uint32_t i;
  for (i = 0; i < c->from->ninput; i++) {
    const vram_value *v = c->from->input[i];
    vram__span name;
    vram_value *y;
    name.text = v->name;
    name.len = v->name_len;
    y = vram__graph_input(c->g, name, v->flags & VRAM__OF_MODEL ? VRAM_DTYPE_MODEL : v->dtype,
                          v->d->ndim, v->d->v);
    if (!y)
      return 0;
    y->flags = v->flags;
    c->value[v->index].own = y;
  }
  return 1;
}

/* Results and outputs of the whole graph are this one's. */
static int vram__rank_outputs(vram__rank_cut *c) {
  const vram_node *n;
  uint32_t i;
  c->g->noutput = c->from->noutput;
  for (n = c->from->first; n; n = n->next)
    for (i = 0; i < n->nout; i++) {
      const uint8_t flags = n->out[i].flags & (VRAM__OUTPUT | VRAM__INFERRED);
      vram_value *own = c->value[n->out[i].index].own;
      if (own && flags) {
        own->flags |= flags;
        if (flags & VRAM__OUTPUT)
          own->last = UINT32_MAX;
      }
    }
  c->g->root = c->from->root ? c->value[c->from->root->index].own : NULL;
  c->g->inferred = c->from->inferred ? c->value[c->from->inferred->index].own : NULL;
  return c->g->root != NULL;
}

/* Parameters in the order of the whole graph's; a module that is called with another one's weight
   has its own here, behind the others. */
static uint32_t vram__rank_params(const vram__rank_cut *c, vram_param **list) {
  const vram_param *p;
  vram_param *q;
  uint32_t i, k, n = 0;
  for (p = c->from->param_first; p; p = p->next) {
    const vram_node *y = c->node[p->node->index];
    for (i = 0; y && i < y->nparam && i < p->node->nparam; i++)
      if (p->node->param[i] == p && y->param[i] && y->param[i]->node == y)
        list[n++] = y->param[i];
  }
  for (q = c->g->param_first, k = n; q && n < c->g->nparam; q = q->next) {
    for (i = 0; i < k && list[i] != q;)
      i++;
    if (i == k)
      list[n++] = q;
  }
  return n;
}

/* An optimizer has DTensors and others in groups of their own, and the group of the first parameter
   is the first. */
static void vram__rank_order(vram__rank_cut *c) {
  vram_param **list =
      (vram_param **)vram__graph_take(c->g, (c->g->nparam + UINT64_C(1)) * sizeof *list);
  vram_param **end = &c->g->param_first, *last = NULL;
  uint32_t i, n, pass;
  if (!list)
    return;
  n = vram__rank_params(c, list);
  for (pass = 0; pass < 2; pass++)
    for (i = 0; i < n; i++)
      if (c->p->wrapper == VRAM_WRAPPER_FSDP2 /* which has groups of its own */
              ? !pass
              : (list[i]->is_dtensor != list[0]->is_dtensor) == (pass == 1)) {
        *end = last = list[i];
        end = &last->next;
      }
  *end = NULL;
  c->g->param_last = last;
  c->g->param_room = 0;
}

/* Behind the module's last node: what it returns there. */
static int vram__rank_returns(vram__rank_cut *c, const vram_node *n) {
  vram_value **v;
  uint32_t i;
  if (n != c->from->returned)
    return 1;
  v = (vram_value **)vram__graph_take(c->g, c->from->nresult * (uint64_t)sizeof *v);
  for (i = 0; v && i < c->from->nresult; i++)
    v[i] = c->value[c->from->result[i]->index].own;
  return v && !vram_graph_return(c->g, v, c->from->nresult);
}

/* What stands in front of the nodes. 0: an error. */
static int vram__rank_begin(vram__rank_cut *c) {
  const vram_parallel *p = c->p;
  if (p->cp < 2)
    return vram__plan_begin(c) && vram__rank_inputs(c);
  if (p->tp > 1 || p->pp > 1 || p->ep > 1) {
    vram__graph_fail(c->g, VRAM_ERR_UNSUPPORTED, VRAM__CONTEXT_ALONE);
    return 0;
  }
  c->length = vram__context_length(c);
  return c->length && vram__rank_inputs(c) && vram__context_begin(c);
}

VRAM_API vram_result vram_parallel_cut(const vram_graph *whole, const vram_parallel *p,
                                       vram_graph *local, void *mem, uint64_t bytes,
                                       vram_error *err) {
  vram__rank_cut c;
  const vram_node *n;
  vram__memory_zero(&c, sizeof c);
  vram_graph_init(local, mem, bytes);
  c.from = whole;
  c.g = local;
  c.p = p;
  c.ranks = p->cp > 1 ? p->cp : p->ep > 1 ? p->ep : p->tp > 1 ? p->tp : 1;
  c.rank = p->cp > 1 ? vram_parallel_place_of(p).cp : vram_parallel_place_of(p).tp;
  c.parser.g = local;
  local->name = whole->name;
  local->name_len = whole->name_len;
  local->rules = whole->rules;
  local->dtype = whole->dtype;
  local->adapt = whole->adapt;
  local->autocast_own = whole->autocast_own;
  local->unit_first = whole->unit_first;
  local->unit_last = whole->unit_last;
  local->ndim = whole->ndim;
  vram__memory_copy(local->dim, whole->dim, sizeof local->dim);
  c.value = (vram__rank_value *)vram__graph_take(local, whole->nvalue * (uint64_t)sizeof *c.value);
  c.node = (vram_node **)vram__graph_take(local, whole->nnode * (uint64_t)sizeof *c.node);
  if (c.value && c.node) {
    vram__memory_zero(c.value, whole->nvalue * (uint64_t)sizeof *c.value);
    vram__memory_zero(c.node, whole->nnode * (uint64_t)sizeof *c.node);
    if (vram__rank_begin(&c))
      for (n = whole->first; n && !local->error.code; n = n->next)
        if (vram__rank_blocks_begin(&c, n) && vram__rank_node(&c, n) &&
            vram__rank_module_output(&c, n) && vram__rank_blocks_end(&c, n))
          vram__rank_returns(&c, n);
    local->autocast = 0;
    local->no_grad = 0;
    if (!local->error.code && !c.ncut)
      vram__graph_fail(local, VRAM_ERR_UNSUPPORTED,
                       p->ep > 1
                           ? "expert parallelism knows no experts in this model (expected "
                             "batches of rows times a parameter of three axes)"
                           : "tensor parallelism knows no layer of this model (expected names like "
                             "q_proj and o_proj, wq and wo, w1 and w2)");
    if (!local->error.code) {
      vram__rank_outputs(&c);
      vram__rank_order(&c);
    }
    local->is_cut = !c.length;
  }
  if (err)
    *err = local->error;
  return local->error.code;
}
