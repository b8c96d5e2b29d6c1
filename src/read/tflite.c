/* >>read/tflite    TFLite: tensors, quantisation, buffers, operators of the first subgraph
   Numbers of fields are those of TFLite's schema, version 3. */
#include "read/read.h"

enum { VRAM__TFLITE_KEPT = 64 };

typedef struct vram__tflite_tensor { /* of the subgraph, by its number */
  const char *name;
  vram_file_operand *said;
  uint32_t len;
  uint8_t is_constant, is_listed;
} vram__tflite_tensor;

typedef struct vram__tflite {
  vram__flat b;
  vram__names names;
  vram__tflite_tensor *tensor;
  uint8_t *is_counted; /* buffers whose bytes are in the sum */
  vram__flat_list tensors, buffers, codes;
} vram__tflite;

static void vram__tflite_fail(vram__tflite *m, vram_result code, uint64_t offset,
                              const vram__tflite_tensor *t, const char *text) {
  vram__reader *const r = m->b.r;
  if (r->result)
    return;
  vram__reader_fail(r, code, offset, "tensor '");
  vram__error_quote(r->error, t->name, t->len < 80 ? t->len : 80);
  vram__error_text(r->error, "' ");
  vram__error_text(r->error, text);
}

static void vram__tflite_value(vram__tflite *m, const char *name, const char *text, uint64_t n) {
  vram_file_value *const v = vram__file_value(m->b.f, m->b.r);
  if (!v)
    return;
  v->name = name;
  v->name_len = vram__text_len(name);
  v->kind = text ? VRAM_VALUE_TEXT : VRAM_VALUE_UINT;
  v->text = text;
  v->count = text ? n : 0;
  v->number.u = text ? 0 : n;
}

/* ---- names ---- */

/* Names may be empty or there twice; here they are not: NAME#3 is tensor 3. */
static void vram__tflite_name(vram__tflite *m, const vram__flat_at *at, uint32_t i) {
  vram__tflite_tensor *const t = m->tensor + i;
  uint32_t n = 0, cap;
  char *more;
  t->name = vram__flat_text(&m->b, at, 3, &t->len);
  while (!m->b.r->result && (!t->len || vram__names_find(&m->names, t->name, t->len))) {
    cap = t->len + 12;
    more = (char *)vram__file_take(m->b.f, m->b.r, cap);
    if (!more || !vram__flat_spend(&m->b, at->offset, cap))
      return;
    n = 0;
    vram__text_put(more, cap, &n, t->name, t->len);
    vram__text_puts(more, cap, &n, "#");
    vram__text_putu(more, cap, &n, i);
    t->name = more;
    t->len = n;
  }
  if (!m->b.r->result)
    vram__names_add(m->b.f, m->b.r, &m->names, t->name, t->len, t);
}

/* ---- tensors ---- */

/* Where a buffer's bytes are: in it, or behind the flatbuffer. */
static void vram__tflite_buffer(vram__tflite *m, uint32_t i, const vram__tflite_tensor *t,
                                uint64_t offset, vram__flat_list *data) {
  const uint64_t end = m->b.r->source->bytes;
  vram__flat_at at;
  data->offset = data->count = 0;
  if (i >= m->buffers.count) {
    if (i) /* 0 is the empty one, though there be none */
      vram__tflite_fail(m, VRAM_ERR_VALUE, offset, t, "is in a buffer that is not there");
    return;
  }
  if (!vram__flat_element(&m->b, &m->buffers, i, &at) ||
      vram__flat_vector(&m->b, &at, 0, 1, data) || m->b.r->result)
    return;
  data->offset = vram__flat_number(&m->b, &at, 1, 8, 0);
  data->count = vram__flat_number(&m->b, &at, 2, 8, 0);
  if (data->offset < 2) /* 1 stands for what a writer has not yet placed */
    data->count = 0;
  else if (data->offset > end || data->count > end - data->offset)
    vram__tflite_fail(m, VRAM_ERR_VALUE, at.offset, t, "has bytes that end behind the file");
}

/* shape 0, shape_signature 7, whose -1 is an open size. */
static void vram__tflite_shape(vram__tflite *m, const vram__flat_at *at,
                               const vram__tflite_tensor *t, vram_file_operand *o) {
  vram__flat_list shape, open;
  uint32_t i;
  o->has_shape = 1;
  vram__flat_vector(&m->b, at, 0, 4, &shape);
  vram__flat_vector(&m->b, at, 7, 4, &open);
  if (shape.count > VRAM_MAX_AXES) {
    vram__tflite_fail(m, VRAM_ERR_UNSUPPORTED, at->offset, t, "has more than 8 axes");
    return;
  }
  o->ndim = (uint8_t)shape.count;
  for (i = 0; i < o->ndim && !m->b.r->result; i++) {
    o->size[i] = vram__flat_int(&m->b, &shape, i);
    if (o->size[i] < -1) {
      vram__tflite_fail(m, VRAM_ERR_VALUE, at->offset, t, "has a negative size");
      return;
    }
    if (open.count == shape.count && vram__flat_int(&m->b, &open, i) == -1)
      o->size[i] = -1;
  }
}

static void vram__tflite_ints(vram__tflite *m, const vram__flat_list *data, vram_file_tensor *t) {
  const uint32_t each = t->dtype == VRAM_I64 ? 8 : t->dtype == VRAM_I32 ? 4 : 1;
  vram__reader *const r = m->b.r;
  int64_t *v;
  uint64_t i;
  if ((t->dtype != VRAM_I64 && t->dtype != VRAM_I32 && t->dtype != VRAM_BOOL) ||
      t->numel > VRAM__TFLITE_KEPT || data->count != t->numel * each || r->result)
    return;
  v = (int64_t *)vram__file_take(m->b.f, r, 8 * t->numel);
  if (!v)
    return;
  vram__reader_seek(r, data->offset);
  for (i = 0; i < t->numel && vram__reader_has(r, each, "values"); i++, r->at += each)
    v[i] = each == 8   ? (int64_t)vram__bytes_u64(r->at)
           : each == 4 ? (int64_t)(int32_t)vram__bytes_u32(r->at)
                       : *r->at;
  t->ints = v;
}

/* A constant: its buffer has bytes. */
static void vram__tflite_constant(vram__tflite *m, const vram__flat_at *at,
                                  const vram__tflite_tensor *t, const vram__flat_list *data,
                                  uint32_t buffer) {
  vram_file *const f = m->b.f;
  vram_file_tensor *const to = vram__file_tensor(f, m->b.r);
  vram__flat_at sparsity;
  uint32_t i;
  if (!to)
    return;
  to->name = t->name;
  to->name_len = t->len;
  to->offset = data->offset;
  to->dtype = t->said->dtype;
  to->ndim = t->said->ndim;
  to->scales = t->said->scales;
  to->has_zero_point = t->said->has_zero_point;
  to->scale_offset = t->said->scale_offset;
  to->zero_point_offset = t->said->zero_point_offset;
  to->number = t->said->number;
  to->numel = 1;
  for (i = 0; i < to->ndim; i++) {
    to->size[i] = t->said->size[i] < 0 ? 0 : t->said->size[i];
    to->numel = vram__product_or_overflow(to->numel, (uint64_t)to->size[i]);
  }
  if (to->numel > INT64_MAX || (to->dtype && vram_dtype_bytes(to->dtype, to->numel, &to->bytes))) {
    vram__tflite_fail(m, VRAM_ERR_OVERFLOW, at->offset, t, "has too many elements");
    return;
  }
  if (to->dtype && !vram__flat_inner(&m->b, at, 6, &sparsity) && to->bytes != data->count) {
    vram__tflite_fail(m, VRAM_ERR_VALUE, at->offset, t, "has ");
    vram__error_number(m->b.r->error, "", data->count);
    vram__error_number(m->b.r->error, " bytes, expected of its shape and type ", to->bytes);
    return;
  }
  to->bytes = data->count;
  f->numel = vram__sum_or_overflow(f->numel, to->numel);
  if (!m->is_counted[buffer])
    f->tensor_bytes += to->bytes; /* all of which are in the file, once */
  m->is_counted[buffer] = 1;
  vram__tflite_ints(m, data, to);
}

/* Tensor: shape 0, type 1, buffer 2, name 3, quantization 4 (scale 2, zero_point 3), is_variable 5.
 */
static void vram__tflite_tensor_read(vram__tflite *m, uint32_t i) {
  vram__tflite_tensor *const t = m->tensor + i;
  vram__flat_at at, quantized;
  vram__flat_list data, scales, zeros;
  uint32_t buffer;
  if (!vram__flat_element(&m->b, &m->tensors, i, &at))
    return;
  vram__tflite_name(m, &at, i);
  t->said = (vram_file_operand *)vram__file_take(m->b.f, m->b.r, sizeof *t->said);
  if (!t->said)
    return;
  vram__memory_zero(t->said, sizeof *t->said);
  t->said->name = t->name;
  t->said->name_len = t->len;
  t->said->number = i;
  t->said->dtype = vram_dtype_from_tflite_id((int64_t)vram__flat_number(&m->b, &at, 1, 1, 0));
  t->said->role =
      vram__flat_number(&m->b, &at, 5, 1, 0) ? VRAM_OPERAND_STATE : VRAM_OPERAND_BETWEEN;
  vram__tflite_shape(m, &at, t, t->said);
  if (vram__flat_inner(&m->b, &at, 4, &quantized)) {
    if (vram__flat_vector(&m->b, &quantized, 2, 4, &scales))
      t->said->scales = (uint32_t)scales.count;
    t->said->scale_offset = scales.count ? scales.offset : 0;
    t->said->has_zero_point =
        vram__flat_vector(&m->b, &quantized, 3, 8, &zeros) && zeros.count != 0;
    t->said->zero_point_offset = zeros.count ? zeros.offset : 0;
  }
  buffer = (uint32_t)vram__flat_number(&m->b, &at, 2, 4, 0);
  vram__tflite_buffer(m, buffer, t, at.offset, &data);
  t->is_constant = data.count != 0;
  if (t->is_constant && !m->b.r->result)
    vram__tflite_constant(m, &at, t, &data, buffer);
}

static void vram__tflite_list(vram_file *f, vram_file_operand *o) {
  if (f->operand_last)
    f->operand_last->next = o;
  else
    f->operand_first = o;
  f->operand_last = o;
  f->noperand++;
}

/* Inputs or outputs of the subgraph, in their order. */
static void vram__tflite_ends(vram__tflite *m, const vram__flat_at *graph, uint32_t field,
                              vram_operand_role role) {
  vram__reader *const r = m->b.r;
  vram_file_operand *o;
  vram__flat_list v;
  uint64_t i;
  vram__flat_vector(&m->b, graph, field, 4, &v);
  vram__flat_spend(&m->b, v.offset, 4 * v.count);
  for (i = 0; i < v.count && !r->result; i++) {
    const uint32_t at = (uint32_t)vram__flat_int(&m->b, &v, i);
    vram__tflite_tensor *t;
    if (r->result || at >= m->tensors.count) {
      vram__reader_fail(r, VRAM_ERR_VALUE, v.offset + 4 * i,
                        "an input or output of the graph that is no tensor of it");
      return;
    }
    t = m->tensor + at;
    if (role == VRAM_OPERAND_INPUT && (t->is_listed || t->is_constant))
      continue;
    o = t->said;
    if (t->is_listed) { /* an input, too, or an output twice */
      o = (vram_file_operand *)vram__file_take(m->b.f, r, sizeof *o);
      if (!o)
        return;
      *o = *t->said;
      o->next = NULL;
    }
    o->role = (uint8_t)role;
    t->is_listed = 1;
    vram__tflite_list(m->b.f, o);
  }
}

/* ---- operators ---- */

/* Inputs 1 or outputs 2 of an operator; -1 is one that is left out. */
static vram_file_name *vram__tflite_names(vram__tflite *m, const vram__flat_at *at,
                                          uint32_t field) {
  vram_file_name *first = NULL, **last = &first;
  vram__flat_list v;
  uint64_t i;
  vram__flat_vector(&m->b, at, field, 4, &v);
  vram__flat_spend(&m->b, v.offset, 4 * v.count);
  for (i = 0; i < v.count && !m->b.r->result; i++) {
    const int32_t k = vram__flat_int(&m->b, &v, i);
    vram_file_name *const n = (vram_file_name *)vram__file_take(m->b.f, m->b.r, sizeof *n);
    if (!n)
      break;
    vram__memory_zero(n, sizeof *n);
    n->name = "";
    if (k < -1 || (k >= 0 && (uint64_t)k >= m->tensors.count)) {
      vram__reader_fail(m->b.r, VRAM_ERR_VALUE, v.offset + 4 * i, "no tensor of the graph: ");
      vram__error_integer(m->b.r->error, "", k);
    } else if (k >= 0) {
      n->number = (uint64_t)k;
      n->name = m->tensor[k].name;
      n->len = m->tensor[k].len;
    }
    *last = n;
    last = &n->next;
  }
  return first;
}

/* A list of at most 64 numbers. */
static void vram__tflite_option_list(vram__tflite *m, const vram__flat_at *options, uint32_t i,
                                     vram_file_attribute *a) {
  vram__flat_list v;
  int64_t *to;
  if (!vram__flat_vector(&m->b, options, i, 4, &v))
    return;
  a->kind = VRAM_ATTRIBUTE_INTS;
  a->count = v.count;
  if (v.count > VRAM__TFLITE_KEPT)
    return;
  to = (int64_t *)vram__file_take(m->b.f, m->b.r, 8 * v.count);
  for (i = 0; to && i < v.count; i++)
    to[i] = vram__flat_int(&m->b, &v, i);
  a->ints = to;
}

/* The fields of an operator's options that the table names. What is left out has no attribute. */
static void vram__tflite_options(vram__tflite *m, const vram__flat_at *at, const char *names,
                                 vram_file_node *n) {
  vram_file_attribute **last = &n->attribute, *a;
  vram__flat_at options;
  uint32_t i;
  if (!vram__flat_inner(&m->b, at, 4, &options))
    return;
  for (i = 0; *names && !m->b.r->result; i++) {
    uint32_t len = 0, bytes;
    while (names[len] != ':')
      len++;
    bytes = names[len + 1] == 'v' ? 0 : (uint32_t)(names[len + 1] - '0');
    if (options.fields.field[i]) {
      a = (vram_file_attribute *)vram__file_take(m->b.f, m->b.r, sizeof *a);
      if (!a)
        return;
      vram__memory_zero(a, sizeof *a);
      a->name = names;
      a->name_len = len;
      a->kind = VRAM_ATTRIBUTE_INT;
      if (bytes)
        a->i = (int32_t)(uint32_t)vram__flat_number(&m->b, &options, i, bytes, 0);
      else
        vram__tflite_option_list(m, &options, i, a);
      *last = a;
      last = &a->next;
    }
    names += len + 2;
    names += *names == ' ';
  }
}

/* OperatorCode: deprecated_builtin_code 0, custom_code 1, builtin_code 3; of the two the larger. */
static void vram__tflite_code(vram__tflite *m, uint32_t i, vram_file_node *n,
                              const char **options) {
  const vram__tflite_op *op;
  vram__flat_at at;
  uint32_t old, code;
  if (i >= m->codes.count) {
    vram__reader_fail(m->b.r, VRAM_ERR_VALUE, n->offset, "an operator of a code that is not there");
    return;
  }
  if (!vram__flat_element(&m->b, &m->codes, i, &at))
    return;
  old = (uint32_t)vram__flat_number(&m->b, &at, 0, 1, 0);
  code = (uint32_t)vram__flat_number(&m->b, &at, 3, 4, 0);
  code = old > code ? old : code;
  op = vram__tflite_op_of(code);
  if (!op) {
    vram__reader_fail(m->b.r, VRAM_ERR_UNSUPPORTED, n->offset, "an operator of the unknown code ");
    vram__error_number(m->b.r->error, "", code);
    return;
  }
  n->op = op->name;
  *options = op->options;
  n->domain = "tflite";
  if (vram__text_is("CUSTOM", 6, op->name)) {
    n->op = vram__flat_text(&m->b, &at, 1, &n->op_len);
    n->domain = "custom";
  }
  if (!n->op_len)
    n->op_len = vram__text_len(n->op);
  n->domain_len = 6;
}

/* Operator: opcode_index 0, inputs 1, outputs 2, builtin_options 4. */
static void vram__tflite_operator(vram__tflite *m, const vram__flat_list *v, uint64_t i) {
  vram_file *const f = m->b.f;
  vram_file_node *const n = (vram_file_node *)vram__file_take(f, m->b.r, sizeof *n);
  const char *options = NULL;
  vram__flat_at at;
  if (!n || !vram__flat_element(&m->b, v, i, &at))
    return;
  vram__memory_zero(n, sizeof *n);
  n->op = n->domain = n->name = "";
  n->offset = at.offset;
  vram__tflite_code(m, (uint32_t)vram__flat_number(&m->b, &at, 0, 4, 0), n, &options);
  n->input = vram__tflite_names(m, &at, 1);
  n->output = vram__tflite_names(m, &at, 2);
  if (n->output) {
    n->name = n->output->name;
    n->name_len = n->output->len;
  }
  if (options)
    vram__tflite_options(m, &at, options, n);
  if (f->node_last)
    f->node_last->next = n;
  else
    f->node_first = n;
  f->node_last = n;
  f->nnode++;
}

/* ---- the model ---- */

/* SubGraph: tensors 0, inputs 1, outputs 2, operators 3. */
static void vram__tflite_graph(vram__tflite *m, const vram__flat_at *graph) {
  vram_file *const f = m->b.f;
  vram__reader *const r = m->b.r;
  vram__flat_list v;
  uint64_t i;
  vram__flat_vector(&m->b, graph, 0, 4, &m->tensors);
  m->tensor = (vram__tflite_tensor *)vram__file_take(f, r, m->tensors.count * sizeof *m->tensor);
  m->is_counted = (uint8_t *)vram__file_take(f, r, m->buffers.count);
  if (!m->tensor || !m->is_counted)
    return;
  vram__memory_zero(m->tensor, m->tensors.count * sizeof *m->tensor);
  vram__memory_zero(m->is_counted, m->buffers.count);
  for (i = 0; i < m->tensors.count && !r->result; i++)
    vram__tflite_tensor_read(m, (uint32_t)i);
  vram__tflite_ends(m, graph, 1, VRAM_OPERAND_INPUT);
  vram__tflite_ends(m, graph, 2, VRAM_OPERAND_OUTPUT);
  for (i = 0; i < m->tensors.count && !r->result; i++)
    if (!m->tensor[i].is_listed && !m->tensor[i].is_constant)
      vram__tflite_list(f, m->tensor[i].said);
  vram__flat_vector(&m->b, graph, 3, 4, &v);
  for (i = 0; i < v.count && !r->result; i++)
    vram__tflite_operator(m, &v, i);
}

/* Metadata: name 0, buffer 1. Where TensorFlow Lite Micro is to put tensors: an array of i32. */
static void vram__tflite_metadata(vram__tflite *m, const vram__flat_at *model) {
  static const char key[] = "OfflineMemoryAllocation";
  vram__flat_list all, data;
  vram__flat_at at;
  vram_file_value *v = NULL; /* of more than one TFLM takes the last */
  const char *name;
  int64_t *ints;
  uint32_t i, k, len;
  vram__flat_vector(&m->b, model, 6, 4, &all);
  for (i = 0; i < all.count && !m->b.r->result; i++) {
    if (!vram__flat_element(&m->b, &all, i, &at))
      return;
    name = vram__flat_text(&m->b, &at, 0, &len);
    if (!vram__text_is(name, len, key))
      continue;
    k = (uint32_t)vram__flat_number(&m->b, &at, 1, 4, 0);
    if (k >= m->buffers.count || !vram__flat_element(&m->b, &m->buffers, k, &at) ||
        !vram__flat_vector(&m->b, &at, 0, 1, &data) ||
        !vram__flat_spend(&m->b, data.offset, data.count))
      continue;
    ints = (int64_t *)vram__file_take(m->b.f, m->b.r, data.count / 4 * 8);
    if (ints && !v)
      v = vram__file_value(m->b.f, m->b.r);
    if (!ints || !v)
      return;
    vram__reader_seek(m->b.r, data.offset);
    for (k = 0; k < data.count / 4; k++)
      ints[k] = (int32_t)vram__reader_u32(m->b.r, key);
    v->name = key;
    v->name_len = len;
    v->kind = VRAM_VALUE_ARRAY;
    v->of = VRAM_VALUE_INT;
    v->array = ints;
    v->count = data.count / 4;
  }
}

/* Model: version 0, operator_codes 1, subgraphs 2, description 3, buffers 4, metadata 6. */
VRAM__FN vram_result vram__tflite_read(vram_file *f, vram__reader *r) {
  vram__flat_list graphs;
  vram__flat_at model, graph;
  vram_file_part *part;
  vram__tflite m;
  const char *text;
  uint32_t root, len;
  vram__memory_zero(&m, sizeof m);
  if (f->part_first)
    return vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, 0, "a second TFLite model");
  part = vram__file_part(f, r, NULL, 0);
  if (!part)
    return r->result;
  part->header_bytes = part->expected_bytes = part->present_bytes = r->source->bytes;
  vram__flat_begin(&m.b, f, r);
  root = vram__reader_u32(r, "the offset of the model");
  if (r->result || !vram__flat_table(&m.b, root, &model))
    return r->result;
  f->version = (uint32_t)vram__flat_number(&m.b, &model, 0, 4, 0);
  if (!r->result && f->version != 3) {
    vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, root, "a schema of version ");
    vram__error_number(r->error, "", f->version);
    vram__error_text(r->error, ", expected 3");
  }
  vram__flat_vector(&m.b, &model, 1, 4, &m.codes);
  vram__flat_vector(&m.b, &model, 4, 4, &m.buffers);
  text = vram__flat_text(&m.b, &model, 3, &len);
  vram__tflite_value(&m, "description", text, len);
  if (!vram__flat_vector(&m.b, &model, 2, 4, &graphs) || !graphs.count)
    return vram__reader_fail(r, VRAM_ERR_SYNTAX, root, "a model without a graph");
  vram__tflite_value(&m, "subgraphs", NULL, graphs.count);
  if (vram__flat_element(&m.b, &graphs, 0, &graph)) {
    text = vram__flat_text(&m.b, &graph, 4, &len);
    vram__tflite_value(&m, "graph.name", text, len);
    vram__tflite_graph(&m, &graph);
  }
  vram__tflite_metadata(&m, &model);
  part->header_bytes -= r->result ? 0 : f->tensor_bytes;
  part->is_read = 1;
  return r->result;
}
