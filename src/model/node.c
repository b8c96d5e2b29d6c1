/* >>model/node    a node with its keys, checked against its op's row */
#include "model/model.h"

/* A node of op row `op` with these inputs and keys, its outputs still without shapes. */
VRAM__FN vram_node *vram__node_new(vram_graph *g, uint32_t op, vram_value **in, uint32_t nin,
                                   uint32_t nout, const int64_t *attr, uint32_t na) {
  vram_node *n = (vram_node *)vram__graph_take(g, sizeof *n);
  uint32_t i;
  if (!n)
    return NULL;
  if (g->nnode >= VRAM_MAX_NODES) {
    vram__graph_fail(g, VRAM_ERR_LIMIT, "more than 2^24 nodes");
    return NULL;
  }
  vram__memory_zero(n, sizeof *n);
  n->op = (uint16_t)op;
  n->nin = nin;
  n->nout = nout;
  n->nparam = vram__op_traits(n) & VRAM__OP_OWNS ? 5 : 0;
  n->in = (vram_value **)vram__graph_take(g, nin * sizeof *n->in);
  n->out = (vram_value *)vram__graph_take(g, nout * sizeof *n->out);
  n->param = (vram_param **)vram__graph_take(g, n->nparam * sizeof *n->param);
  if (!n->in || !n->out || !n->param)
    return NULL;
  vram__memory_zero(n->param, n->nparam * sizeof *n->param);
  vram__memory_zero(n->out, nout * sizeof *n->out);
  for (i = 0; i < nin; i++)
    n->in[i] = in[i];
  if (na) {
    int64_t *a = (int64_t *)vram__graph_take(g, (na + 1) * sizeof *a);
    if (!a)
      return NULL;
    for (i = 0; i < na; i++)
      a[i] = attr[i];
    a[na] = 0;
    n->attr = a;
  }
  n->index = g->nnode++;
  if (nin > g->max_in)
    g->max_in = nin;
  if (nout > g->max_out)
    g->max_out = nout;
  for (i = 0; i < nin; i++)
    if (in[i]->last < n->index)
      in[i]->last = n->index; /* UINT32_MAX stays */
  for (i = 0; i < nout; i++) {
    n->out[i].node = n;
    n->out[i].index = g->nvalue++;
    n->out[i].last = n->index;
  }
  if (nout && !g->noutput)
    g->root = &n->out[0];
  if (VRAM__INT(n, inplace, 0))
    n->flags |= VRAM__INPLACE;
  n->prev = g->last;
  if (g->last)
    g->last->next = n;
  else
    g->first = n;
  g->last = n;
  return n;
}

static int vram__node_check(vram_graph *g, vram_node *n) {
  const vram__op_row *r = vram__op_at(n->op);
  uint32_t i;
  if (n->nin < r->least || n->nin > r->most) {
    vram__graph_fail(g, VRAM_ERR_SYNTAX, "wrong number of inputs (found ");
    vram__error_more_i(g, n->nin);
    vram__error_more(g, ", expected ");
    vram__error_more_i(g, r->least);
    if (r->most != r->least)
      vram__error_more(g, " to "), vram__error_more_i(g, r->most);
    vram__error_more(g, ")");
    return 0;
  }
  if (!r->shape(g, n))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!n->out[i].d) {
      vram__graph_fail(g, VRAM_ERR_SYNTAX, "the op has fewer outputs than names");
      return 0;
    }
  return 1;
}

/* Adds a node of op `op`; outs[i] become its values. An op whose recipe is written in lines becomes
   one inner node a line and an end node that lets the temporaries go. */
VRAM__FN int vram__node_emit(vram__parse *q, uint32_t op, vram_value **in, uint32_t nin,
                             uint32_t nout, const int64_t *attr, uint32_t na, vram_node **node) {
  vram_graph *g = q->g;
  const vram__op_row *r = vram__op_at(op);
  const char *p = r->recipe, *name[16];
  vram_value *val[16], *all[40];
  uint32_t nn = 0, i, k;
  vram_node outer, *m = NULL;
  if (!vram__op_at(op)->lines) {
    *node = m = vram__node_new(g, op, in, nin, nout, attr, na);
    return m && vram__node_check(g, m);
  }
  vram__memory_zero(&outer, sizeof outer);
  {
    int64_t *a = (int64_t *)vram__graph_take(g, (na + 1) * sizeof *a);
    if (!a)
      return 0;
    for (i = 0; i < na; i++)
      a[i] = attr[i];
    a[na] = 0;
    outer.attr = a;
  }
  if (nin < r->least || nin > r->most || nout != 1) {
    vram__graph_fail(g, VRAM_ERR_SYNTAX, "wrong number of inputs or outputs");
    return 0;
  }
  while (*p) {
    const char *w[16], *e;
    uint32_t wl[16], nw = 0, nk = 0, ni = 0, o, j, c;
    int64_t kv[64];
    vram_value *x[8];
    while (*p == ' ' || *p == ';')
      p++;
    w[0] = p, wl[0] = 0;
    while (*p && *p != ';') {
      w[nw] = p;
      while (*p && *p != ' ' && *p != ';')
        p++;
      wl[nw] = (uint32_t)(p - w[nw]);
      nw++;
      while (*p == ' ')
        p++;
    }
    if (vram__text_is(w[0], wl[0], "drop")) { /* a temporary that goes before the op returns */
      for (i = 1; i < nw; i++) {
        for (k = 0; *name[k] != *w[i];)
          k++;
        if (!vram__node_new(g, VRAM__OP_drop, &val[k], 1, 0, NULL, 0))
          return 0;
        nn--;
        name[k] = name[nn], val[k] = val[nn];
      }
      continue;
    }
    for (o = 0; !vram__text_is(w[0], wl[0], vram__op_at(o)->name);)
      o++;
    for (i = 2; i < nw; i++) {
      for (e = w[i]; e < w[i] + wl[i] && *e != '=';)
        e++;
      if (e == w[i] + wl[i]) {
        if (*w[i] == 'x')
          x[ni++] = in[w[i][1] - '0'];
        else
          for (k = 0; k < nn; k++)
            if (*name[k] == *w[i])
              x[ni++] = val[k];
      } else if (e[1] == '@') {
        const int64_t *v;
        for (k = 1; !vram__text_is(w[i], (uint32_t)(e - w[i]), vram__key_table[k].name);)
          k++;
        v = vram__node_list(&outer, k, &c);
        if (v) {
          kv[nk++] = (int64_t)(k | c << 8);
          for (j = 0; j < c; j++)
            kv[nk++] = v[j];
        }
      } else /* scalar=1: nothing that could fail */
        vram__key_value(q, vram__op_at(o), w[i], w[i] + wl[i], kv, 64, &nk);
    }
    if (!vram__node_emit(q, o, x, ni, 1, kv, nk, &m))
      return 0;
    m->flags |= VRAM_NODE_INNER;
    name[nn] = w[1], val[nn] = &m->out[0], nn++;
  }
  for (k = 0; k < nin; k++)
    all[k] = in[k];
  for (i = 0; i < nn; i++)
    all[k++] = val[i];
  *node = m;
  return vram__node_new(g, VRAM__OP_end, all, k, 0, NULL, 0) != NULL;
}
