/* >>parallel/stage    the stages of a rank of a pipeline: where they are cut, and their graph */
#include "parallel/pipe.h"

VRAM__FN int vram__pipe_fail(vram__pipe *p, vram_result code, const char *what) {
  if (!p->failed) {
    p->failed = code;
    p->problem = what;
  }
  return 0;
}

VRAM__FN void *vram__pipe_take(vram__pipe *p, uint64_t n) {
  void *to = vram__memory_take(p->mem, &p->used, p->cap, n);
  if (!to)
    vram__pipe_fail(p, VRAM_ERR_MEMORY, NULL);
  return to;
}

/* ---- where it is cut: before the first node of a unit */

/* The first nodes of the units, in order; 0: no memory. */
static int vram__stage_units(vram__pipe *p) {
  const vram_node *n = p->whole->first;
  const uint64_t used = p->used;
  p->unit =
      (const vram_node **)vram__pipe_take(p, (p->whole->nnode + UINT64_C(1)) * sizeof *p->unit);
  if (!p->unit)
    return 0;
  while (n) {
    const vram__unit_run run = vram__units_run(p->whole, p->parallel->units, n);
    if (run.is_unit)
      p->unit[p->units++] = run.first;
    n = run.last->next;
  }
  p->used = used;
  p->unit = (const vram_node **)vram__pipe_take(p, (p->units + UINT64_C(1)) * sizeof *p->unit);
  return 1;
}

/* Python's round(units * i / stages): a half goes to the even one. */
static uint32_t vram__stage_edge(uint32_t units, uint32_t i, uint32_t stages) {
  const uint64_t n = (uint64_t)units * i, q = n / stages, r = n % stages;
  return (uint32_t)(q + (2 * r > stages || (2 * r == stages && (q & 1))));
}

/* What a unit takes, about: parameters with gradients and two states, and results of as many
   microbatches as are in flight. */
static uint64_t vram__stage_weight(const vram__pipe *p, const vram__unit_run *run,
                                   const vram_node *end) {
  const int all = p->parallel->schedule == VRAM_PIPELINE_GPIPE ||
                  p->parallel->schedule == VRAM_PIPELINE_LOOPED_BFS;
  const uint64_t alive = all || p->microbatches < p->ranks ? p->microbatches : p->ranks;
  const vram_node *n;
  uint64_t sum = 0;
  uint32_t i;
  for (n = run->first; n != end; n = n->next) {
    for (i = 0; i < n->nparam; i++)
      if (n->param[i] && n->param[i]->node == n)
        sum = vram__sum_or_overflow(
            sum, vram__product_or_overflow(
                     4, vram__dims_bytes_of(n->param[i]->d, (vram_dtype)n->param[i]->dtype)));
    for (i = 0; i < n->nout; i++)
      sum = vram__sum_or_overflow(
          sum, vram__product_or_overflow(alive, vram__dims_bytes_of(n->out[i].d, n->out[i].dtype)));
  }
  return sum;
}

/* Fills stages up to `most`; where stage `which` begins. *count: how many stages that makes. */
static const vram_node *vram__stage_fill(const vram__pipe *p, uint64_t most, uint32_t units,
                                         uint32_t which, uint32_t *count) {
  const vram_node *n = p->whole->first, *at = n;
  uint64_t sum = 0;
  uint32_t unit = 0;
  *count = 1;
  while (n) {
    vram__unit_run run = vram__units_run(p->whole, p->parallel->units, n);
    const vram_node *end = run.last->next;
    uint64_t weight;
    const uint32_t left = units - unit; /* units from this one on */
    if (!run.is_unit && n != p->whole->first) {
      n = end; /* counts with the unit before, below */
      continue;
    }
    while (end) { /* what lies between this unit and the next one */
      const vram__unit_run next = vram__units_run(p->whole, p->parallel->units, end);
      if (next.is_unit && !(run.first == p->whole->first && !run.is_unit))
        break;
      run.is_unit |= next.is_unit;
      end = next.last->next;
    }
    weight = vram__stage_weight(p, &run, end);
    if (unit && (weight > most || sum > most - weight ||
                 (*count < p->stages && left <= p->stages - *count))) {
      if (*count == which)
        at = run.first;
      ++*count;
      sum = 0;
    }
    sum = vram__sum_or_overflow(sum, weight);
    unit++;
    n = end;
  }
  return at;
}

/* The least that the fullest stage can take. */
static uint64_t vram__stage_balance(const vram__pipe *p, uint32_t units) {
  uint64_t low = 0, high = (uint64_t)VRAM_MAX_BYTES;
  uint32_t count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    vram__stage_fill(p, middle, units, 0, &count);
    if (count > p->stages)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The first node of the module of the k-th name of `stage` lines; NULL: there is none. */
static const vram_node *vram__stage_named(const vram_graph *g, uint32_t k) {
  const vram__unit_word *w = g->stage_first;
  const vram_node *n;
  while (w && k--)
    w = w->next;
  for (n = w ? g->first : NULL; n; n = vram__line_end_of(n)->next) {
    const vram__span label = vram__node_label(vram__line_end_of(n));
    if (n->op < VRAM_OP_COUNT && label.len >= w->len &&
        vram__text_equal(label.text, w->text, w->len) &&
        (label.len == w->len || label.text[w->len] == '.'))
      return n;
  }
  return NULL;
}

/* Where stage i of all begins; NULL: behind the last one. */
static const vram_node *vram__stage_begin(const vram__pipe *p, uint32_t i, uint64_t most) {
  uint32_t none;
  if (!i)
    return p->whole->first;
  if (i == p->stages)
    return NULL;
  if (p->whole->stage_first)
    return vram__stage_named(p->whole, i - 1);
  if (p->parallel->balance)
    return vram__stage_fill(p, most, p->units, i, &none);
  none = vram__stage_edge(p->units, i, p->stages);
  return none < p->units ? p->unit[none] : NULL;
}

/* Where the schedule's loss_fn begins: the line of that name. */
static const vram_node *vram__stage_loss(const vram_graph *g, vram_words name) {
  const vram_node *n = g->last;
  while (n) {
    const vram__span label = vram__node_label(n);
    if (label.len == name.len && vram__text_equal(label.text, name.text, name.len))
      break;
    n = vram__node_before(n);
  }
  while (n && vram__node_before(n) && vram__node_same_line(vram__node_before(n), n))
    n = vram__node_before(n);
  return n;
}

/* Is backward split into input and weight part? */
VRAM__FN int vram__pipe_splits(const vram__pipe *p) {
  uint32_t i;
  for (i = 0; i < p->naction; i++)
    if (p->action[i].kind == VRAM_STAGE_W)
      return 1;
  return 0;
}

/* Why the stage is not played; NULL: it is. */
static const char *vram__pipe_unplayed(const vram__pipe *p, const vram_step_options *o) {
  const vram_graph *g = p->whole;
  const vram_parallel *q = p->parallel;
  if (!o->train)
    return "a pipeline is played where it trains";
  if (o->checkpoint_segments > 1)
    return "checkpoint_sequential of a model that is cut into stages (expected calls around "
           "layers: --checkpoint layers)";
  if ((g->ncheckpoint || o->ncheckpoint) && vram__pipe_splits(p))
    return "checkpointed nodes with a schedule that splits backward are not played";
  if (g->ncheckpoint)
    return "a text with checkpoint blocks, cut into stages, is not played (expected calls around "
           "layers: --checkpoint layers)";
  if (o->ncheckpoint && o->reentrant)
    return "reentrant checkpoints in a pipeline are not played";
  if (g->nstep || g->nbackward || g->nkept || g->ncache || g->nzero_grad || g->nfrozen)
    return "a text with lines of a training loop, cut into stages";
  if (o->amp == VRAM_F16)
    return "GradScaler in a pipeline is not played yet";
  if (q->ep > 1 || q->wrapper == VRAM_WRAPPER_FSDP1 || q->wrapper >= VRAM_WRAPPER_DS1)
    return "pp goes with ddp, zero1, fsdp2, hsdp and tp: with fsdp1, ep and "
           "DeepSpeed it is not played";
  if (q->wrapper && q->wrapper != VRAM_WRAPPER_FSDP2 &&
      (q->find_unused_parameters || q->static_graph))
    return "pp with ddp is played without find_unused_parameters and static_graph";
  if (q->wrapper == VRAM_WRAPPER_FSDP2 && q->reshard != VRAM_RESHARD_NEVER && vram__pipe_splits(p))
    return "a schedule that splits backward loses gradients of units whose "
           "parameters are not gathered when it begins (expected reshard=0)";
  return NULL;
}

#define VRAM__NO_STAGE                                                                             \
  "a stage without nodes: more stages than units, names with a number that is a part of its own "  \
  "(\"layers.3\") or rounds of a loop"

/* The node behind the last stage's module; NULL: it is the whole stage, and its loss is the
 * model's. */
static const vram_node *vram__stage_loss_begin(const vram__pipe *p) {
  if (p->parallel->loss_fn.text)
    return vram__stage_loss(p->whole, p->parallel->loss_fn);
  return p->whole->returned ? p->whole->returned->next : NULL;
}

/* Where the last stage begins; NULL: some stage has no nodes. Of all ranks: each refuses what one
   does. */
static const vram_node *vram__stage_edges(vram__pipe *p, uint64_t most) {
  const int balanced = !p->whole->stage_first && p->parallel->balance; /* they have, and slowly */
  const vram__unit_word *w = p->whole->stage_first;
  const vram_node *at = p->whole->first;
  uint32_t i;
  for (i = balanced && p->stages > 1 ? p->stages - 1 : 1; i < p->stages; i++) {
    const vram_node *const next = vram__stage_begin(p, i, most);
    if (w) {
      p->found.text = w->text;
      p->found.len = w->len;
    }
    if (w && !next)
      vram__pipe_fail(p, VRAM_ERR_NAME, "a stage line names what no module is called");
    else if (w && next->index <= at->index)
      vram__pipe_fail(p, VRAM_ERR_VALUE,
                      "a stage line names a module that does not begin behind the stage before it");
    else if (!next || next->index <= at->index)
      vram__pipe_fail(p, VRAM_ERR_VALUE, VRAM__NO_STAGE);
    if (p->failed)
      return NULL;
    p->found.len = 0;
    w = w ? w->next : NULL;
    at = next;
  }
  return at;
}

/* Is a result of the last stage, from `lo` to its loss, gathered from ranks of tensor parallelism?
 */
static int vram__stage_gathers(const vram_node *lo, const vram_node *loss) {
  const vram_node *n, *m;
  uint32_t i;
  for (n = lo; loss && n->index < loss->index; n = n->next)
    for (m = n->op == VRAM_OP_all_gather ? loss : NULL; m; m = m->next)
      for (i = 0; m->op < VRAM_OP_COUNT && i < m->nin; i++)
        if (m->in[i]->node == n)
          return 1;
  return 0;
}

/* Does the last stage, which begins with `lo`, not go with the options? Of all ranks. */
static int vram__stage_last_fits(vram__pipe *p, const vram_node *lo) {
  const vram_node *const loss = vram__stage_loss_begin(p);
  const vram_pipeline schedule = p->parallel->schedule;
  if (p->parallel->loss_fn.text && (!loss || loss->index <= lo->index)) {
    p->found = p->parallel->loss_fn;
    return vram__pipe_fail(p, VRAM_ERR_NAME, "loss_fn: no node of the last stage has that name");
  }
  if (!vram__pipe_returns(p))
    return 1;
  if (!loss && p->parallel->return_outputs)
    return vram__pipe_fail(p, VRAM_ERR_VALUE,
                           "return_outputs of a loss: zero-dimensional tensor (at position 0) "
                           "cannot be concatenated (expected loss_fn=NAME)");
  if (!loss)
    return vram__pipe_fail(p, VRAM_ERR_VALUE,
                           "step() returns outputs up to PyTorch 2.9: of a loss in the model a "
                           "zero-dimensional tensor (at position 0) cannot be concatenated "
                           "(expected loss_fn=NAME)");
  if (!(p->does & VRAM__PIPE_KEEPS) && vram__stage_gathers(lo, loss) &&
      (schedule == VRAM_PIPELINE_INTERLEAVED_ZERO_BUBBLE ||
       schedule == VRAM_PIPELINE_ZBV_ZERO_BUBBLE || schedule == VRAM_PIPELINE_DUAL_PIPE_V))
    return vram__pipe_fail(p, VRAM_ERR_UNSUPPORTED,
                           "return_outputs of a last stage that tensor parallelism has cut, with a "
                           "schedule that splits backward: what was saved stays with the outputs, "
                           "which is not played");
  return 1;
}

/* A call of checkpoint() lies in a stage, and there in the module or in loss_fn; each rank refuses
   what one does. */
static int vram__pipe_ranges_fit(vram__pipe *p, const vram_step_options *o, uint64_t most) {
  uint32_t i, k;
  for (i = 0; i < o->ncheckpoint; i++)
    if (!o->checkpoint[i].first || !o->checkpoint[i].last ||
        o->checkpoint[i].last->index < o->checkpoint[i].first->index)
      return vram__pipe_fail(p, VRAM_ERR_VALUE, "a checkpointed range that ends before it begins");
  for (k = 1; o->ncheckpoint && k <= p->stages; k++) {
    const vram_node *edge =
        k < p->stages ? vram__stage_begin(p, k, most) : vram__stage_loss_begin(p);
    for (i = 0; edge && i < o->ncheckpoint; i++)
      if (o->checkpoint[i].first->index < edge->index &&
          o->checkpoint[i].last->index >= edge->index)
        return vram__pipe_fail(p, VRAM_ERR_UNSUPPORTED,
                               "a checkpointed part that goes over the edge of a stage is not "
                               "played (expected parts inside stages: --checkpoint layers)");
  }
  return 1;
}

/* Where the stages of the rank begin and end. */
VRAM__FN int vram__pipe_cut(vram__pipe *p, const vram_step_options *o) {
  const char *const why = vram__pipe_unplayed(p, o);
  const vram__unit_word *w;
  const vram_node *last;
  uint32_t k, named = 0;
  uint64_t most;
  if (why)
    return vram__pipe_fail(p, VRAM_ERR_UNSUPPORTED, why);
  if (!vram__stage_units(p))
    return 0;
  for (w = p->whole->stage_first; w; w = w->next)
    named++;
  if (named && named + 1 != p->stages)
    return vram__pipe_fail(p, VRAM_ERR_VALUE,
                           "as many names of stage lines as there are cuts are expected: one less "
                           "than the stages of all ranks");
  if (!named && p->parallel->balance && p->stages > 1 && p->units < p->stages)
    return vram__pipe_fail(p, VRAM_ERR_VALUE, VRAM__NO_STAGE);
  most = !named && p->parallel->balance ? vram__stage_balance(p, p->units) : 0;
  last = vram__stage_edges(p, most);
  if (!last || !vram__stage_last_fits(p, last))
    return 0;
  p->stage = (vram__pipe_stage *)vram__pipe_take(p, p->local * (uint64_t)sizeof *p->stage);
  if (!p->stage)
    return 0;
  vram__memory_zero(p->stage, p->local * (uint64_t)sizeof *p->stage);
  for (k = 0; k < p->local; k++) {
    vram__pipe_stage *s = p->stage + k;
    s->stage = vram_pipeline_stage(p->parallel, p->rank, k);
    s->is_first = s->stage == 0;
    s->is_last = s->stage + 1 == p->stages;
    s->lo = vram__stage_begin(p, s->stage, most);
    s->hi = vram__stage_begin(p, s->stage + 1, most);
    if (s->is_last)
      s->loss = vram__stage_loss_begin(p);
  }
  return vram__pipe_ranges_fit(p, o, most);
}

/* ---- the graph */

/* Nodes that are copied; by the whole graph's numbers what has been copied. */
typedef struct vram__stage_copy {
  vram__pipe *p;
  vram__pipe_stage *s;
  vram_value **value, **data; /* of this stage; inputs of the model, of all stages */
  vram_param **param;
  uint8_t *used;   /* by parameter: a node of this stage has it; then by value */
  uint8_t *wanted; /* by value: an input that some stage uses */
  const vram_step_options *o;
  vram_range *range; /* of those checkpointed ranges the rank's nodes */
  uint32_t at;
} vram__stage_copy;

static int vram__stage_has(const vram__pipe_stage *s, const vram_node *n) {
  return n->index >= s->lo->index && (!s->hi || n->index < s->hi->index);
}

/* Parameters and buffers that a `parameter` or `buffer` line makes are there in each stage that
   uses them. */
static int vram__stage_copies(const vram__stage_copy *c, const vram_node *n) {
  uint32_t i;
  if (vram__stage_has(c->s, n))
    return 1;
  if (n->op >= VRAM_OP_COUNT || !(vram__op_traits(n) & VRAM__OP_PARAM))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (c->used[c->p->whole->nparam + n->out[i].index])
      return 1;
  return 0;
}

static void vram__stage_mark(vram__stage_copy *c) {
  const vram_graph *g = c->p->whole;
  const vram_node *n;
  uint32_t i;
  vram__memory_zero(c->used, (uint64_t)g->nparam + g->nvalue);
  for (n = c->s->lo; n != c->s->hi; n = n->next)
    for (i = 0; i < n->nin; i++)
      c->used[g->nparam + n->in[i]->index] |= n->op < VRAM_OP_COUNT;
  for (n = g->first; n != c->s->hi; n = n->next)
    for (i = 0; vram__stage_copies(c, n) && i < n->nparam; i++)
      if (n->param[i])
        c->used[n->param[i]->index] = 1;
}

/* The parameters of the stage, in the order of the whole model's. */
static int vram__stage_parameters(vram__stage_copy *c) {
  vram_graph *to = &c->p->g;
  const vram_param *from;
  for (from = c->p->whole->param_first; from; from = from->next) {
    vram_param *q;
    c->param[from->index] = NULL;
    if (!c->used[from->index])
      continue;
    q = (vram_param *)vram__graph_take(to, sizeof *q);
    if (!q)
      return 0;
    *q = *from;
    q->next = NULL;
    q->node = NULL;
    q->index = to->nparam++;
    if (to->param_last)
      to->param_last->next = q;
    else
      to->param_first = q;
    to->param_last = q;
    c->param[from->index] = q;
  }
  return 1;
}

static vram_value *vram__stage_value(vram__stage_copy *c, const vram_value *v) {
  if (c->value[v->index])
    return c->value[v->index];
  return v->node ? NULL : c->data[v->index];
}

/* Node n of the stage is m: calls of checkpoint() around n are around m. Those that n is behind of
   are done with; they may lie inside one another. */
static void vram__stage_ranges(vram__stage_copy *c, const vram_node *n, const vram_node *m) {
  const vram_step_options *o = c->o;
  uint32_t i;
  while (c->at < o->ncheckpoint && o->checkpoint[c->at].last->index < n->index)
    c->at++;
  for (i = c->at; i < o->ncheckpoint && o->checkpoint[i].first->index <= n->index; i++) {
    vram_range *r = c->range + i;
    if (o->checkpoint[i].last->index < n->index)
      continue;
    if (!r->first)
      r->first = m;
    r->last = m;
  }
}

/* Node n of the stage. Lines about lifetimes lose values that it does not have. */
static int vram__stage_node(vram__stage_copy *c, const vram_node *n) {
  vram_graph *to = &c->p->g;
  vram_value *in[VRAM__MAX_INPUTS];
  vram__request r;
  vram_node *m;
  uint32_t i;
  vram__memory_zero(&r, sizeof r);
  r.op = n->op;
  r.in = in;
  r.nout = n->nout;
  for (i = 0; i < n->nin && r.nin < VRAM__MAX_INPUTS; i++) {
    vram_value *v = vram__stage_value(c, n->in[i]);
    if (v)
      in[r.nin++] = v;
    else if (n->op < VRAM_OP_COUNT)
      return vram__pipe_fail(c->p, VRAM_ERR_UNSUPPORTED, "a value that does not cross");
  }
  if (n->op >= VRAM_OP_COUNT && !r.nin)
    return 1;
  m = n->op < VRAM_OP_COUNT ? vram__node_new(to, &r) : vram__node_drop(to, n->op, in, r.nin);
  if (!m)
    return 0;
  m->round = n->round;
  m->attr = n->attr;
  m->line = n->line;
  m->flags = n->flags;
  m->autocast = n->autocast;
  if (m->nparam != n->nparam)
    m->param = (vram_param **)vram__graph_take(to, n->nparam * (uint64_t)sizeof *m->param);
  m->nparam = n->nparam;
  if (n->nparam && !m->param)
    return 0;
  for (i = 0; i < n->nparam; i++) {
    m->param[i] = n->param[i] ? c->param[n->param[i]->index] : NULL;
    if (m->param[i] && (!m->param[i]->node || n->param[i]->node == n))
      m->param[i]->node = m;
  }
  for (i = 0; i < n->nout; i++) {
    vram_value *v = m->out + i;
    const vram_value *from = n->out + i;
    v->d = from->d;
    v->name = from->name;
    v->name_len = from->name_len;
    v->dtype = from->dtype;
    v->flags = from->flags & VRAM__ISPARAM;
    if (from->last == UINT32_MAX || (c->s->hi && from->last >= c->s->hi->index))
      v->last = UINT32_MAX;
    c->value[from->index] = v;
  }
  if (!c->s->first)
    c->s->first = m;
  if (n == c->s->loss)
    c->s->loss = m;
  if (vram__stage_has(c->s, n))
    vram__stage_ranges(c, n, m);
  return 1;
}

/* An input of the rank's graph. */
static vram_value *vram__stage_input(vram_graph *to, const vram_value *v, vram_dtype dt, int of,
                                     int grad) {
  const vram__span name = vram__span_of(v->name, v->name + v->name_len);
  vram_value *x = vram__graph_input(to, name, dt, v->d->ndim, v->d->v);
  if (x) {
    x->flags = (uint8_t)((of ? VRAM__OF_MODEL : 0) | (grad ? VRAM__GRAD : 0));
    x->last = UINT32_MAX;
  }
  return x;
}

/* The model's inputs that some stage of the rank uses come first. */
static int vram__stage_data(vram__stage_copy *c) {
  const vram_graph *g = c->p->whole;
  uint32_t i, k;
  for (k = 0; k < c->p->local; k++) {
    c->s = c->p->stage + k;
    vram__stage_mark(c);
    for (i = 0; i < g->ninput; i++)
      c->wanted[g->input[i]->index] |= c->used[g->nparam + g->input[i]->index];
  }
  for (i = 0; i < g->ninput; i++) {
    const vram_value *v = g->input[i];
    if (!c->wanted[v->index])
      continue;
    c->data[v->index] =
        vram__stage_input(&c->p->g, v, v->dtype, (v->flags & VRAM__OF_MODEL) != 0, 0);
    if (!c->data[v->index])
      return 0;
    c->p->ndata++;
  }
  return 1;
}

static int vram__stage_copy_one(vram__stage_copy *c) {
  vram__pipe_stage *const s = c->s;
  const vram_graph *g = c->p->whole;
  const vram_node *n;
  uint32_t i;
  for (i = 0; i < g->nvalue; i++)
    c->value[i] = NULL;
  vram__stage_mark(c);
  if (!vram__stage_parameters(c))
    return 0;
  s->in_value = (vram_value **)vram__graph_take(&c->p->g, ((uint64_t)s->nin + s->nout + 1) *
                                                              sizeof *s->in_value);
  if (!s->in_value)
    return 0;
  s->out_value = s->in_value + s->nin;
  for (i = 0; i < s->nin; i++) {
    s->in_value[i] = vram__stage_input(&c->p->g, s->in[i].value, s->in[i].dt, 0, s->in[i].grad);
    if (!s->in_value[i])
      return 0;
    c->value[s->in[i].value->index] = s->in_value[i];
  }
  for (n = g->first; n != s->hi; n = n->next)
    if (vram__stage_copies(c, n) && !vram__stage_node(c, n))
      return 0;
  for (i = 0; i < s->nout; i++) {
    s->out_value[i] = c->value[s->out[i].value->index];
    if (!s->out_value[i])
      return vram__pipe_fail(c->p, VRAM_ERR_UNSUPPORTED, "an output that no stage makes");
    s->out_value[i]->last = UINT32_MAX;
  }
  return 1;
}

/* What recurrent nets, quantised weights and the like need beside their nodes. */
static void vram__stage_sums(vram__pipe *p) {
  vram_graph *to = &p->g;
  const vram_graph *g = p->whole;
  const vram_param *q;
  to->extra = g->extra;
  to->is_cut = g->is_cut;
  to->unit_first = g->unit_first;
  to->unit_last = g->unit_last;
  to->holds = g->holds;
  to->nmade = g->nmade;
  to->rnn_dropout = g->rnn_dropout;
  to->autocast_own = g->autocast_own;
  to->nested_map = g->nested_map;
  to->owned = (struct vram__owned *)vram__graph_take(to, sizeof *to->owned);
  if (!to->owned)
    return;
  vram__memory_zero(to->owned, sizeof *to->owned);
  for (q = to->param_first; q; q = q->next) {
    vram__owned_add(to->owned, q, vram__param_bytes(q, (vram_dtype)q->dtype));
    if (vram__op_traits(q->node) & VRAM__OP_FLAT)
      to->flat_pad = g->flat_pad;
  }
}

/* The ranges that have nodes on this rank. What a stage gives is used behind them. */
static void vram__stage_ranges_end(vram__stage_copy *c) {
  vram__pipe *p = c->p;
  uint32_t i, k;
  p->range = c->range;
  for (i = 0; i < c->o->ncheckpoint; i++)
    if (c->range[i].first)
      p->range[p->nrange++] = c->range[i];
  for (i = 0; i < p->nrange; i++)
    for (k = 0; k < p->local; k++)
      p->stage[k].has_ranges |=
          p->range[i].first->index >= p->stage[k].first->index &&
          (!p->stage[k].end || p->range[i].first->index < p->stage[k].end->index);
  p->clears = c->o->amp && p->nrange;
  for (k = 0; k < p->local && p->nrange; k++)
    for (i = 0; i < p->stage[k].nout; i++)
      p->stage[k].out_value[i]->flags |= VRAM__OUTPUT;
}

/* The graph of the rank: the nodes of its stages, one stage behind the other, each with parameters
   of its own. */
VRAM__FN int vram__pipe_graph(vram__pipe *p, const vram_step_options *o) {
  const vram_graph *g = p->whole;
  vram_graph *to = &p->g;
  vram__stage_copy c;
  uint32_t k, i;
  vram__memory_zero(to, sizeof *to);
  vram__memory_zero(&c, sizeof c);
  c.p = p;
  c.o = o;
  c.range = (vram_range *)vram__pipe_take(p, (o->ncheckpoint + UINT64_C(1)) * sizeof *c.range);
  c.value = (vram_value **)vram__pipe_take(p, g->nvalue * (uint64_t)sizeof *c.value);
  c.data = (vram_value **)vram__pipe_take(p, g->nvalue * (uint64_t)sizeof *c.data);
  c.param = (vram_param **)vram__pipe_take(p, g->nparam * (uint64_t)sizeof *c.param);
  c.used = (uint8_t *)vram__pipe_take(p, (uint64_t)g->nparam + 2 * (uint64_t)g->nvalue);
  if (!c.value || !c.data || !c.param || !c.used || !c.range)
    return 0;
  vram__memory_zero(c.range, o->ncheckpoint * (uint64_t)sizeof *c.range);
  c.wanted = c.used + g->nparam + g->nvalue;
  for (i = 0; i < g->nvalue; i++) {
    c.data[i] = NULL;
    c.wanted[i] = 0;
  }
  p->used = (p->used + 7) & ~(uint64_t)7;
  to->mem = p->mem + p->used;
  to->cap = p->cap - p->used;
  to->name = g->name;
  to->name_len = g->name_len;
  to->rules = g->rules;
  to->dtype = g->dtype;
  if (vram__stage_data(&c))
    for (k = 0; k < p->local; k++) {
      c.s = p->stage + k;
      if (!vram__stage_copy_one(&c))
        break;
      if (c.s->is_last)
        to->root = c.value[g->root->index];
    }
  if (!p->failed && !to->error.code)
    vram__stage_sums(p);
  if (to->error.code)
    return vram__pipe_fail(p, to->error.code, NULL);
  if (p->failed)
    return 0;
  for (k = 0; k + 1 < p->local; k++)
    p->stage[k].end = p->stage[k + 1].first;
  vram__stage_ranges_end(&c);
  to->noutput = 1;
  p->used += to->used;
  return 1;
}
