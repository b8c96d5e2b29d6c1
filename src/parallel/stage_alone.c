/* >>parallel/stage_alone    a stage of a pipeline as a model of its own */
#include "parallel/pipe.h"

/* A stage is the same however many microbatches there are, unless what a GPipe holds of them
   decides where it is cut: as few as the schedule takes, in *few. */
static void vram__stage_alone_options(vram_step_options *o, const vram_parallel *p,
                                      vram_parallel *few) {
  *few = *p;
  if (few->microbatches > few->pp && (few->schedule == VRAM_PIPELINE_1F1B ||
                                      (few->schedule == VRAM_PIPELINE_GPIPE && !few->balance)))
    few->microbatches = few->pp;
  vram__memory_zero(o, sizeof *o);
  o->train = 1;
  o->parallel = few;
}

VRAM_API uint64_t vram_parallel_stage_bytes(const vram_graph *whole, const vram_parallel *p) {
  vram_step_options o;
  vram_parallel few;
  vram__stage_alone_options(&o, p, &few);
  return vram_step_bytes(whole, &o);
}

/* Received values of the model's dtype follow it. */
static void vram__stage_alone_inputs(const vram_graph *g, const vram__pipe_stage *s) {
  uint32_t i;
  for (i = 0; i < s->nin; i++)
    if (s->in[i].dt == (g->dtype ? g->dtype : VRAM_F32))
      s->in_value[i]->flags |= VRAM__OF_MODEL;
}

/* weights= names the node whose weights they are in this stage; the first one here owns them. */
static int vram__stage_alone_weights(vram_graph *g, vram_node *n) {
  const vram_param *first = NULL;
  int64_t *to;
  uint32_t i, words = 0, put = 0, found = 0, each;
  for (; n->attr && n->attr[words]; words += 1 + ((uint32_t)(n->attr[words] >> 8) & 0xffffu))
    found += vram__key_table[n->attr[words] & 0xff].kind == 'N';
  if (!found)
    return 1;
  for (i = 0; i < n->nparam && !first; i++)
    first = n->param[i];
  to = (int64_t *)vram__graph_take(g, (words + UINT64_C(1)) * sizeof *to);
  for (i = 0; to && i < words; i += each) {
    const int64_t *a = n->attr + i;
    const int names = vram__key_table[*a & 0xff].kind == 'N';
    each = 1 + ((uint32_t)(*a >> 8) & 0xffffu);
    if (names && (!first || first->node == n))
      continue;
    vram__memory_copy(to + put, a, each * sizeof *a);
    if (names)
      to[put + 1] = (int64_t)(uintptr_t)first->node;
    put += each;
  }
  if (!to)
    return 0;
  to[put] = 0;
  n->attr = to;
  return 1;
}

/* What is sent is given back, first what wants a gradient: backward begins from all of that. NULL,
   or why there is no text of it. */
static const char *vram__stage_alone_outputs(vram_graph *g, const vram__pipe_stage *s) {
  vram_value *root[64];
  uint32_t i, n = 0;
  for (i = 0; i < s->nout; i++) {
    s->out_value[i]->flags |= VRAM__OUTPUT;
    if (!s->out[i].grad)
      continue;
    if (n == 64)
      return "more than 64 values that are sent";
    root[n++] = s->out_value[i];
  }
  for (i = 0; i < n && !root[i]->node;) /* the first of its own */
    i++;
  g->root = i < n ? root[i] : s->nout ? *s->out_value : NULL;
  if (!g->root || !g->root->node)
    return "a stage that sends nothing of its own that wants a gradient";
  g->noutput = s->nout;
  if (n > 1)
    vram__training_backward(g, root, n, 0);
  return NULL;
}

VRAM_API vram_result vram_parallel_stage(const vram_graph *whole, const vram_parallel *p,
                                         vram_graph *local, void *mem, uint64_t bytes,
                                         vram_error *err) {
  const vram_graph *g = whole;
  vram_step_options o;
  vram_parallel few;
  vram__step s;
  vram_result r;
  vram__memory_zero(&s, sizeof s);
  vram__stage_alone_options(&o, p, &few);
  s.problem = vram__step_misuse(&s, whole, &o, &r);
  if (!s.problem && !vram__pipe_is(&o)) {
    r = VRAM_ERR_VALUE;
    s.problem = "no pipeline (expected pp=N)";
  } else if (!s.problem && vram_pipeline_stages(p) != 1) {
    r = VRAM_ERR_UNSUPPORTED;
    s.problem = "a rank of several stages: each is one of pp=STAGES,schedule=1F1B";
  }
  if (!s.problem)
    r = vram__pipe_begin(&g, &o, &mem, &bytes, &s);
  if (!r) {
    vram_node *n;
    *local = *g;
    for (n = local->first; n && vram__stage_alone_weights(local, n);)
      n = n->next;
    vram__stage_alone_inputs(local, s.pipe->stage);
    if (s.pipe->stage->is_last) {
      local->root->flags |= VRAM__OUTPUT;
      local->noutput = 1;
    } else
      s.problem = vram__stage_alone_outputs(local, s.pipe->stage);
    r = s.problem ? VRAM_ERR_UNSUPPORTED : local->error.code;
  }
  vram__step_error(&s, r, err);
  return r;
}
