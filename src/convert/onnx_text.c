/* >>convert/onnx_text    an ONNX model as text: its values and nodes, dims, outputs */
#include "convert/convert.h"

/* ---- the model, once ---- */

static vram__onnx_cell *vram__onnx_cell_of(vram__onnx_job *m, const char *name, uint32_t len) {
  vram__onnx_cell *c = (vram__onnx_cell *)(uintptr_t)vram__names_find(&m->cells, name, len);
  if (c || !len)
    return c;
  c = (vram__onnx_cell *)vram__draft_take(m->d, sizeof *c);
  if (!c)
    return NULL;
  vram__memory_zero(c, sizeof *c);
  c->name = name;
  c->len = len;
  return vram__names_add(&m->d->room, &m->d->r, &m->cells, name, len, c) ? c : NULL;
}

static void vram__onnx_list_cells(vram__onnx_job *m, const vram_file_name *first,
                                  vram__onnx_cell ***to, uint32_t *count) {
  const vram_file_name *n;
  uint32_t i = 0;
  for (n = first; n; n = n->next)
    i++;
  *count = i;
  *to = (vram__onnx_cell **)vram__draft_take(m->d, i * (uint64_t)sizeof **to);
  for (n = first, i = 0; *to && n; n = n->next)
    (*to)[i++] = vram__onnx_cell_of(m, n->name, n->len);
}

/* A Constant node's tensor; NULL: it has none that is known. */
static const vram_file_tensor *vram__onnx_constant_of(vram__onnx_job *m, const vram__onnx_step *s) {
  const vram_file_attribute *const a = s->node->attribute;
  vram_file_tensor *t;
  int64_t *v;
  double *real;
  if (!a || a->kind == VRAM_ATTRIBUTE_TENSOR)
    return a ? a->tensor : NULL;
  if (a->kind != VRAM_ATTRIBUTE_INT && a->kind != VRAM_ATTRIBUTE_FLOAT &&
      !(a->kind == VRAM_ATTRIBUTE_INTS && a->ints))
    return NULL;
  t = (vram_file_tensor *)vram__draft_take(m->d, sizeof *t);
  v = (int64_t *)vram__draft_take(m->d, 8);
  real = (double *)vram__draft_take(m->d, 8);
  if (!t || !v || !real)
    return NULL;
  vram__memory_zero(t, sizeof *t);
  t->dtype = a->kind == VRAM_ATTRIBUTE_FLOAT ? VRAM_F32 : VRAM_I64;
  t->ndim = a->kind == VRAM_ATTRIBUTE_INTS;
  t->numel = t->ndim ? a->count : 1;
  t->size[0] = (int64_t)t->numel;
  *v = a->i;
  *real = (double)a->f;
  t->ints = t->dtype == VRAM_F32 ? NULL : t->ndim ? a->ints : v;
  t->reals = t->dtype == VRAM_F32 ? real : NULL;
  return t;
}

/* What a node gives, nothing else gives. */
static void vram__onnx_given(vram__onnx_job *m, const vram__onnx_step *s) {
  uint32_t i;
  for (i = 0; s->out && i < s->nout; i++) {
    vram__onnx_cell *const c = s->out[i];
    if (c && c->is_given && !m->d->r.result) {
      vram__reader_fail(&m->d->r, VRAM_ERR_NAME, s->node->offset, "a second node that gives '");
      vram__error_quote(m->d->r.error, c->name, c->len < 80 ? c->len : 80);
      vram__error_text(m->d->r.error, "'");
    }
    if (c)
      c->is_given = 1;
  }
}

static void vram__onnx_steps(vram__onnx_job *m) {
  const vram_file_node *n = m->f->node_first;
  uint64_t k;
  uint32_t i;
  m->step = (vram__onnx_step *)vram__draft_take(m->d, m->f->nnode * sizeof *m->step);
  for (k = 0; m->step && k < m->f->nnode && !m->d->r.result; k++, n = n->next) {
    vram__onnx_step *const s = m->step + k;
    vram__memory_zero(s, sizeof *s);
    s->node = n;
    s->row = m->f->format == VRAM_FILE_TFLITE ? vram__tflite_row_of(n) : vram__onnx_row_of(n);
    vram__onnx_list_cells(m, n->input, &s->in, &s->nin);
    vram__onnx_list_cells(m, n->output, &s->out, &s->nout);
    vram__onnx_given(m, s);
    for (i = 0; s->in && i < s->nin; i++)
      if (s->in[i]) {
        s->in[i]->uses++;
        s->in[i]->user = s;
      }
    if (s->out && s->nout && s->out[0] && vram__text_is(n->op, n->op_len, "Constant"))
      s->out[0]->tensor = vram__onnx_constant_of(m, s);
  }
}

/* The dtype of most elements of floating point. */
static vram_dtype vram__onnx_model_dtype(const vram_file *f) {
  uint64_t f16 = 0, bf16 = 0, others = 0;
  const vram_file_tensor *t;
  if (f->format == VRAM_FILE_TFLITE)
    return VRAM_F32;
  for (t = f->tensor_first; t; t = t->next)
    if (t->dtype == VRAM_F16)
      f16 += t->numel;
    else if (t->dtype == VRAM_BF16)
      bf16 += t->numel;
    else if (t->dtype == VRAM_F32)
      others += t->numel;
  return f16 > bf16 && f16 > others ? VRAM_F16 : bf16 > others ? VRAM_BF16 : VRAM_F32;
}

/* The size of an axis that the file leaves open. 0: an error. */
static int vram__onnx_dim(vram__onnx_job *m, const vram_file_operand *o, uint32_t axis,
                          const vram_dim *set, uint32_t nset) {
  vram__draft *const d = m->d;
  char text[VRAM_MAX_NAME];
  const char *name = o->symbol[axis];
  uint32_t len = o->symbol_len[axis], i, n = 0;
  vram__draft_dim *dim;
  if (!name) { /* x.0 */
    vram__text_put(text, sizeof text, &n, o->name, o->name_len < 200 ? o->name_len : 200);
    vram__text_puts(text, sizeof text, &n, ".");
    vram__text_putu(text, sizeof text, &n, axis);
    name = text;
    len = n;
  }
  for (i = 0; i < d->ndim; i++)
    if (d->dim[i].len == len && vram__text_equal(d->dim[i].name, name, len))
      return 1;
  if (d->ndim == VRAM__DRAFT_DIMS)
    return vram__reader_fail(&d->r, VRAM_ERR_LIMIT, 0, "more than 8 open sizes"), 0;
  dim = d->dim + d->ndim;
  dim->label = vram__draft_label(d, name, len);
  if (!dim->label)
    return 0;
  if (!o->symbol[axis]) {
    char *const kept = (char *)vram__draft_take(d, len);
    if (!kept)
      return 0;
    vram__memory_copy(kept, text, len);
    name = kept;
  }
  dim->name = name;
  dim->len = len;
  dim->value = axis ? -1 : 1;
  for (i = 0; i < nset; i++)
    if (set[i].name ? vram__text_is(name, len, set[i].name) ||
                          vram__text_is(dim->label, vram__text_len(dim->label), set[i].name)
                    : !d->ndim) {
      dim->value = set[i].value;
      dim->is_set = 1;
    }
  d->ndim++;
  if (dim->value >= 0)
    return 1;
  vram__reader_fail(&d->r, VRAM_ERR_SHAPE, 0, "the size '");
  d->r.error->has_offset = 0;
  vram__error_quote(d->r.error, name, len);
  vram__error_text(d->r.error, "' of input '");
  vram__error_quote(d->r.error, o->name, o->name_len < 64 ? o->name_len : 64);
  vram__error_text(d->r.error, "' is open, expected --dim ");
  vram__error_quote(d->r.error, dim->label, vram__text_len(dim->label));
  vram__error_text(d->r.error, "=N");
  return 0;
}

static int vram__onnx_is_input(const vram_file_operand *o, const vram__onnx_cell *c) {
  return o->role == VRAM_OPERAND_INPUT && c && !c->tensor;
}

static void vram__onnx_operands(vram__onnx_job *m, const vram_dim *set, uint32_t nset) {
  const vram_file_operand *o;
  const vram_file_tensor *t;
  uint32_t i;
  for (t = m->f->tensor_first; t && !m->d->r.result; t = t->next) {
    vram__onnx_cell *const c = vram__onnx_cell_of(m, t->name, t->name_len);
    if (c)
      c->tensor = t;
  }
  for (o = m->f->operand_first; o && !m->d->r.result; o = o->next) {
    vram__onnx_cell *const c = vram__onnx_cell_of(m, o->name, o->name_len);
    if (!c)
      continue;
    if (o->has_shape || !c->said)
      c->said = o;
    c->is_output |= o->role == VRAM_OPERAND_OUTPUT;
    if (vram__onnx_is_input(o, c))
      c->is_given = 1;
    for (i = 0; vram__onnx_is_input(o, c) && i < o->ndim; i++)
      if (o->size[i] < 0 && !vram__onnx_dim(m, o, i, set, nset))
        return;
  }
}

/* What --dim names must be there. */
static int vram__onnx_dims_known(const vram__onnx_job *m, const vram_dim *set, uint32_t nset) {
  const vram__draft *const d = m->d;
  uint32_t i, k;
  for (i = 0; i < nset; i++) {
    for (k = 0; set[i].name && k < d->ndim; k++)
      if (vram__text_is(d->dim[k].name, d->dim[k].len, set[i].name) ||
          vram__text_is(d->dim[k].label, vram__text_len(d->dim[k].label), set[i].name))
        break;
    if (set[i].name ? k < d->ndim : d->ndim)
      continue;
    vram__error_begin(d->r.error, VRAM_ERR_NAME, 0, "no size is open");
    if (set[i].name) {
      vram__error_text(d->r.error, " under the name '");
      vram__error_quote(d->r.error, set[i].name, vram__text_len(set[i].name));
      vram__error_text(d->r.error, "'");
    } else
      vram__error_text(d->r.error, ": all are numbers (expected dynamic_axes in its export)");
    return 0;
  }
  return 1;
}

/* ---- a run ---- */

/* What a first axis is that TFLite leaves open: the size of the open ones, if they are the same; 0:
   they are not. */
static int64_t vram__onnx_batch(const vram__onnx_job *m) {
  uint32_t i;
  if (m->f->format != VRAM_FILE_TFLITE || !m->d->ndim)
    return 0;
  for (i = 1; i < m->d->ndim; i++)
    if (m->d->dim[i].now != m->d->dim[0].now)
      return 0;
  return m->d->dim[0].now;
}

/* A shape that the file says; 0: it does not, or not here. */
static int vram__onnx_said(const vram__onnx_job *m, const vram__onnx_cell *c, int64_t *size) {
  const vram_file_operand *const o = c->said;
  uint32_t i, k;
  if (!o || !o->has_shape)
    return 0;
  for (i = 0; i < o->ndim; i++) {
    size[i] = o->size[i];
    for (k = 0; o->size[i] < 0 && k < m->d->ndim; k++)
      if (o->symbol[i] ? m->d->dim[k].len == o->symbol_len[i] &&
                             vram__text_equal(m->d->dim[k].name, o->symbol[i], o->symbol_len[i])
                       : o->role == VRAM_OPERAND_INPUT)
        break;
    if (o->size[i] < 0 && k < m->d->ndim && o->symbol[i])
      size[i] = m->d->dim[k].now;
    if (size[i] < 0 && !o->symbol[i] && !i && vram__onnx_batch(m))
      size[i] = vram__onnx_batch(m);
    if (size[i] < 0)
      return 0;
  }
  return 1;
}

/* An axis of an input that has no name is called x.0. */
static int64_t vram__onnx_open_size(const vram__onnx_job *m, const vram_file_operand *o,
                                    uint32_t axis) {
  char text[VRAM_MAX_NAME];
  const char *name = o->symbol[axis];
  uint32_t n = o->symbol_len[axis], i;
  if (!name) {
    n = 0;
    vram__text_put(text, sizeof text, &n, o->name, o->name_len < 200 ? o->name_len : 200);
    vram__text_puts(text, sizeof text, &n, ".");
    vram__text_putu(text, sizeof text, &n, axis);
    name = text;
  }
  for (i = 0; i < m->d->ndim; i++)
    if (m->d->dim[i].len == n && vram__text_equal(m->d->dim[i].name, name, n))
      return m->d->dim[i].now;
  return 0;
}

static void vram__onnx_input(vram__onnx_job *m, vram__onnx_cell *c, const vram_file_operand *o) {
  vram__draft *const d = m->d;
  const vram_dtype dtype = o->dtype ? vram__onnx_text_dtype(m, o->dtype, o->scales) : VRAM_F32;
  const int is_first = c->is_image && o->ndim == 4;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  c->label = vram__draft_label(d, c->name, c->len);
  if (!c->label)
    return;
  vram__draft_open(d);
  vram__draft_text(d, "input ");
  vram__draft_text(d, c->label);
  vram__draft_text(d, dtype == m->dtype && dtype != VRAM_F32 ? " model" : " ");
  if (dtype != m->dtype || dtype == VRAM_F32)
    vram__draft_text(d, vram_dtype_name(dtype));
  vram__draft_text(d, " [");
  for (i = 0; i < o->ndim; i++) {
    const uint32_t axis = !is_first || !i ? i : i == 1 ? 3 : i - 1;
    size[i] = o->size[axis] < 0 ? vram__onnx_open_size(m, o, axis) : o->size[axis];
    vram__draft_text(d, i ? "," : "");
    vram__draft_number(d, size[i]);
  }
  vram__draft_text(d, "]");
  vram__draft_close(d);
  c->value = vram_graph_input(&d->g, c->label,
                              dtype == m->dtype && dtype != VRAM_F32 ? VRAM_DTYPE_MODEL : dtype,
                              o->ndim, size, 0);
  if (is_first) {
    c->first = c->value;
    c->value = NULL;
  }
  if (!c->value && !c->first && !d->r.result) {
    vram__reader_fail(&d->r, d->g.error.code, 0, "input '");
    d->r.error->has_offset = 0;
    vram__error_quote(d->r.error, c->name, c->len < 64 ? c->len : 64);
    vram__error_text(d->r.error, "': ");
    vram__error_text(d->r.error, d->g.error.text);
  }
}

/* Where no line was possible: the node, and why. */
static void vram__onnx_fail(vram__onnx_job *m, const vram__onnx_step *s, const char *why) {
  vram_error *const e = m->d->r.error;
  const vram_file_node *const n = s->node;
  if (m->d->r.result)
    return;
  vram__reader_fail(&m->d->r, VRAM_ERR_UNSUPPORTED, n->offset, "node '");
  vram__error_quote(e, n->name, n->name_len < 64 ? n->name_len : 64);
  vram__error_text(e, "' (");
  vram__error_quote(e, n->op, n->op_len < 40 ? n->op_len : 40);
  vram__error_text(e, "): ");
  vram__error_text(e, s->row ? why : "an operator without a word");
  vram__error_text(e, ", and the file does not say what shape it gives");
}

/* Elements that graphs within this node multiply with: constants in them, and of the graph's own
   those that none of its nodes reads. Which node's body reads these is not told: the first one's.
 */
static uint64_t vram__onnx_inner_numel(vram__onnx_job *m, const vram_file_node *node) {
  uint64_t numel = node->inner_numel;
  const vram_file_node *first = m->f->node_first;
  const vram_file_tensor *t;
  if (!node->inner_nodes)
    return numel;
  while (first && !first->inner_nodes)
    first = first->next;
  for (t = (node == first) ? m->f->tensor_first : NULL; t; t = t->next) {
    const vram__onnx_cell *const c = vram__onnx_cell_of(m, t->name, t->name_len);
    if (c && !c->uses && !c->is_output && vram_dtype_get_info(t->dtype)->kind == VRAM_KIND_FLOAT)
      numel = vram__sum_or_overflow(numel, t->numel);
  }
  return numel > INT64_MAX ? INT64_MAX : numel;
}

/* A custom line for each output, of the shape that the file says. */
static void vram__onnx_custom(vram__onnx_job *m, vram__onnx_step *s) {
  vram__draft *const d = m->d;
  int64_t size[VRAM_MAX_AXES];
  uint64_t inner = vram__onnx_inner_numel(m, s->node);
  char comment[128], why[sizeof d->why];
  uint32_t i, k, n = 0, len = 0;
  vram__text_puts(why, sizeof why, &len, d->why);
  for (i = 0; i < s->nin && i < 16; i++)
    if (s->in[i])
      vram__onnx_value_of(m, s->in[i]);
  vram__text_puts(comment, sizeof comment, &n,
                  m->f->format == VRAM_FILE_TFLITE ? "TFLite " : "ONNX ");
  for (i = 0; i < s->node->op_len && i < 64; i++) {
    const char c = s->node->op[i];
    vram__text_put(comment, sizeof comment, &n, vram__name_start(c) || vram__digit(c) ? &c : "?",
                   1);
  }
  if (s->node->inner_nodes) {
    vram__text_puts(comment, sizeof comment, &n, ", inner nodes: ");
    vram__text_putu(comment, sizeof comment, &n, s->node->inner_nodes);
  }
  comment[n] = 0;
  for (i = 0; i < s->nout && !d->r.result; i++) {
    vram__onnx_cell *const out = s->out[i];
    const char *label;
    if (!out || (!out->uses && !out->is_output))
      continue;
    if (!vram__onnx_said(m, out, size)) {
      vram__onnx_fail(m, s, why);
      return;
    }
    label = out->label ? out->label : vram__draft_label(d, out->name, out->len);
    if (!label)
      return;
    vram__draft_op(d, VRAM_OP_custom);
    for (k = 0; k < s->nin && k < 16; k++)
      if (s->in[k] && s->in[k]->value)
        vram__draft_in(d, s->in[k]->value);
    vram__draft_shape(d, size, out->said->ndim);
    vram__draft_word(d, "dtype",
                     vram_dtype_name(out->said->dtype ? vram__onnx_text_dtype(m, out->said->dtype,
                                                                              out->said->scales)
                                                      : m->dtype));
    if (inner)
      vram__draft_int(d, "params", (int64_t)inner);
    inner = 0; /* with the first of its outputs */
    out->first = NULL;
    out->value = vram_node_output(vram__draft_node(d, label, comment), 0);
    if (!out->value)
      vram__onnx_fail(m, s, why);
  }
}

/* What this node had made before it failed goes. */
typedef struct vram__onnx_mark {
  vram_graph g;
  vram__draft_line *last, *at;
  uint8_t differs;
} vram__onnx_mark;

static void vram__onnx_back(vram__onnx_job *m, const vram__onnx_mark *b) {
  vram__draft *const d = m->d;
  d->g = b->g;
  if (d->g.last)
    d->g.last->next = NULL;
  if (d->g.param_last)
    d->g.param_last->next = NULL;
  d->at = b->at;
  d->differs = b->differs;
  if (d->run)
    return;
  d->last = b->last;
  if (d->last)
    d->last->next = NULL;
  else
    d->first = NULL;
}

static void vram__onnx_node_line(vram__onnx_job *m, vram__onnx_step *s) {
  vram__draft *const d = m->d;
  vram__onnx_mark before;
  vram__onnx_cell *c;
  uint32_t i;
  if (s->done == d->run + 1 || (s->nout && s->out[0] && s->out[0]->tensor && !s->nin))
    return;
  if ((m->f->format == VRAM_FILE_ONNX && vram__onnx_fold(m, s)) || d->r.result)
    return;
  before.g = d->g;
  before.last = d->last;
  before.at = d->at;
  before.differs = d->differs;
  d->why[0] = 0;
  if (s->row && s->nout && s->out[0] && s->row->map(m, s))
    return;
  if (d->r.result)
    return;
  for (i = 0; i < s->nin; i++) /* lines of constants go, too */
    for (c = s->in[i]; c; c = c->same) {
      if (c->value && c->value->node && c->value->node->index >= before.g.nnode)
        c->value = NULL;
      if (c->first && c->first->node && c->first->node->index >= before.g.nnode)
        c->first = NULL;
    }
  vram__onnx_back(m, &before);
  vram__onnx_custom(m, s);
}

static vram_value *vram__onnx_output(vram__onnx_job *m, vram__onnx_cell *c) {
  return c && c->first ? c->first : vram__onnx_value_of(m, c);
}

static void vram__onnx_outputs(vram__onnx_job *m) {
  vram__draft *const d = m->d;
  const vram_file_operand *o;
  uint32_t n = 0;
  for (o = m->f->operand_first; o && !d->r.result; o = o->next)
    if (o->role == VRAM_OPERAND_OUTPUT)
      vram__onnx_output(m, vram__onnx_cell_of(m, o->name, o->name_len));
  vram__draft_open(d);
  vram__draft_text(d, "output");
  for (o = m->f->operand_first; o && !d->r.result; o = o->next) {
    const vram_value *const v =
        o->role == VRAM_OPERAND_OUTPUT
            ? vram__onnx_output(m, vram__onnx_cell_of(m, o->name, o->name_len))
            : NULL;
    if (!v)
      continue;
    vram__draft_text(d, " ");
    vram__draft_letters(d, v->name, v->name_len);
    n++;
  }
  if (n)
    vram__draft_close(d);
}

/* What the last run knew of values is forgotten; constants stay. */
static void vram__onnx_forget(vram__onnx_job *m) {
  uint64_t i;
  for (i = 0; i < m->cells.room; i++) {
    vram__onnx_cell *const c = (vram__onnx_cell *)(uintptr_t)m->cells.place[i].what;
    if (!c)
      continue;
    if (c->same)
      c->tensor = NULL;
    c->same = NULL;
    c->again = 0;
    c->value = c->first = NULL;
    c->ints = NULL;
    c->label = NULL;
  }
}

static void vram__onnx_run(vram__draft *d, void *user) {
  vram__onnx_job *const m = (vram__onnx_job *)user;
  const vram_file_operand *o;
  uint64_t i;
  vram__onnx_forget(m);
  if (m->dtype != VRAM_F32)
    vram_graph_dtype(&d->g, m->dtype);
  for (o = m->f->operand_first; o && !d->r.result; o = o->next) {
    vram__onnx_cell *const c = vram__onnx_cell_of(m, o->name, o->name_len);
    if (vram__onnx_is_input(o, c))
      vram__onnx_input(m, c, o);
  }
  for (i = 0; i < m->f->nnode && !d->r.result && !d->differs; i++)
    vram__onnx_node_line(m, m->step + i);
  if (!d->r.result)
    vram__onnx_outputs(m);
}

/* ---- all of it ---- */

/* Of what the file has and this text has not: bytes as stored, and subgraphs behind the first. */
static void vram__onnx_head_tflite(const vram__onnx_job *m, char *to, uint32_t cap, uint32_t *n) {
  const vram_file_value *const graphs = vram_file_get(m->f, "subgraphs", 9);
  const vram_file_tensor *t = m->f->tensor_first;
  while (t && !t->scales && t->dtype != VRAM_F16)
    t = t->next;
  vram__text_puts(to, cap, n, "# of a TFLite model; images are N,C,H,W here\n");
  if (t) {
    vram__text_puts(to, cap, n, "# quantised tensors are f32 here; the file stores ");
    vram__text_putu(to, cap, n, m->f->tensor_bytes);
    vram__text_puts(to, cap, n, " bytes of constants\n");
  }
  if (graphs && graphs->kind == VRAM_VALUE_UINT && graphs->number.u > 1) {
    vram__text_puts(to, cap, n, "# without subgraphs behind the first: ");
    vram__text_putu(to, cap, n, graphs->number.u - 1);
    vram__text_puts(to, cap, n, "\n");
  }
}

static void vram__onnx_head(const vram__onnx_job *m, char *to, uint32_t cap) {
  const vram_file_value *const name = vram_file_get(m->f, "graph.name", 10);
  uint32_t n = 0, i;
  if (m->f->format == VRAM_FILE_TFLITE)
    vram__onnx_head_tflite(m, to, cap, &n);
  else {
    vram__text_puts(to, cap, &n, "# of an ONNX model, opset ");
    vram__text_puti(to, cap, &n, m->opset);
    vram__text_puts(to, cap, &n, "\n");
  }
  if (!name || name->kind != VRAM_VALUE_TEXT || !name->count) {
    vram__text_puts(to, cap, &n, "model ");
    vram__text_puts(to, cap, &n, vram_file_format_name(m->f->format));
  } else {
    vram__text_puts(to, cap, &n, vram__name_start(*name->text) ? "model " : "model _");
    for (i = 0; i < name->count && i < 64; i++) {
      const char c = name->text[i];
      vram__text_put(to, cap, &n,
                     vram__name_start(c) || vram__digit(c) || c == '.' || c == '/' ? &c : "_", 1);
    }
  }
  if (m->dtype != VRAM_F32) {
    vram__text_puts(to, cap, &n, " dtype=");
    vram__text_puts(to, cap, &n, vram_dtype_name(m->dtype));
  }
  vram__text_puts(to, cap, &n, "\n");
}

VRAM_API vram_result vram_graph_of_file(const vram_file *f, const vram_dim *set, uint32_t nset,
                                        void *mem, uint64_t bytes, const vram_sink *sink,
                                        vram_error *e) {
  vram_error unread;
  const vram_file_value *const opset = vram_file_get(f, "opset_import.ai.onnx", 20);
  vram__onnx_job m;
  char head[512];
  vram_result r;
  e = e ? e : &unread;
  vram__error_clear(e);
  if (f->format != VRAM_FILE_ONNX && f->format != VRAM_FILE_TFLITE)
    return vram__error_begin(e, VRAM_ERR_UNSUPPORTED, 0, "no ONNX or TFLite model");
  vram__memory_zero(&m, sizeof m);
  m.f = f;
  m.opset = opset ? opset->number.i : 1;
  m.dtype = vram__onnx_model_dtype(f);
  m.d = vram__draft_begin(mem, bytes, e);
  if (!m.d)
    return vram__error_begin(e, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
  vram__onnx_operands(&m, set, nset);
  if (!m.d->r.result && !vram__onnx_dims_known(&m, set, nset))
    return e->code;
  if (!m.d->r.result)
    vram__onnx_steps(&m);
  if (!m.d->r.result && f->format == VRAM_FILE_TFLITE)
    vram__tflite_images(&m);
  r = m.d->r.result ? m.d->r.result : vram__draft_runs(m.d, vram__onnx_run, &m);
  if (r)
    return r;
  vram__onnx_head(&m, head, sizeof head);
  return vram__draft_write(m.d, sink, head);
}
