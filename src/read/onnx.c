/* >>read/onnx    ONNX (onnx.proto): initializers, nodes, and what is said of values between
   Field numbers are onnx.proto's. Of the graphs within nodes what they hold is counted; functions
   of the model are skipped. */
#include "read/read.h"

static void vram__onnx_value(vram_file *f, vram__reader *r, const vram__proto *p, const char *name,
                             uint32_t len) {
  vram_file_value *const v = vram__file_value(f, r);
  if (!v)
    return;
  v->name = name;
  v->name_len = len;
  if ((p->tag & 7) == VRAM__PROTO_VARINT) {
    v->kind = VRAM_VALUE_INT;
    v->number.i = (int64_t)p->value;
  } else {
    uint32_t count = 0;
    v->kind = VRAM_VALUE_TEXT;
    v->text = vram__proto_text(p, f, r, &count);
    v->count = count;
  }
}

/* OperatorSetIdProto: domain 1, version 2; as opset_import.ai.onnx = 21. */
static void vram__onnx_opset(vram_file *f, vram__reader *r, uint64_t end) {
  static const char before[] = "opset_import.", usual[] = "ai.onnx";
  const char *domain = "";
  uint32_t len = 0, n = 0;
  uint64_t version = 0;
  vram_file_value *v;
  vram__proto p;
  char *name;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r)) {
    if (p.tag == VRAM__PROTO_B(1))
      domain = vram__proto_text(&p, f, r, &len);
    else if (p.tag == VRAM__PROTO_V(2))
      version = p.value;
  }
  if (r->result)
    return;
  if (!len) {
    domain = usual;
    len = sizeof usual - 1;
  }
  name = (char *)vram__file_take(f, r, sizeof before + len);
  v = name ? vram__file_value(f, r) : NULL;
  if (!v)
    return;
  vram__text_put(name, (uint32_t)sizeof before + len, &n, before, sizeof before - 1);
  vram__text_put(name, (uint32_t)sizeof before + len, &n, domain, len);
  v->name = name;
  v->name_len = n;
  v->kind = VRAM_VALUE_INT;
  v->number.i = (int64_t)version;
}

/* ---- nodes ---- */

/* Behind the last name of a list. */
static void vram__onnx_name(vram_file *f, vram__reader *r, const vram__proto *p,
                            vram_file_name ***last) {
  vram_file_name *const n = (vram_file_name *)vram__file_take(f, r, sizeof *n);
  if (!n)
    return;
  vram__memory_zero(n, sizeof *n);
  n->name = vram__proto_text(p, f, r, &n->len);
  **last = n;
  *last = &n->next;
}

static void vram__onnx_attribute_tensor(vram_file *f, vram__reader *r, const vram__proto *p,
                                        vram_file_attribute *a) {
  a->tensor = (vram_file_tensor *)vram__file_take(f, r, sizeof *a->tensor);
  if (!a->tensor)
    return;
  vram__memory_zero(a->tensor, sizeof *a->tensor);
  a->tensor->name = "";
  a->kind = VRAM_ATTRIBUTE_TENSOR;
  vram__onnx_tensor(f, r, p->behind, a->tensor);
}

/* ---- graphs within nodes: the bodies of If, Loop and Scan ---- */

enum { VRAM__ONNX_INNER = 8 }; /* so deep at most */

/* A constant of a body; those that are no floating-point numbers are sizes and bounds. */
static void vram__onnx_inner_tensor(vram_file *f, vram__reader *r, uint64_t end,
                                    vram_file_node *n) {
  vram_file_tensor t;
  vram__memory_zero(&t, sizeof t);
  t.name = "";
  if (vram__onnx_tensor(f, r, end, &t) || vram_dtype_get_info(t.dtype)->kind != VRAM_KIND_FLOAT)
    return;
  n->inner_numel = vram__sum_or_overflow(n->inner_numel, t.numel);
  if (n->inner_numel > INT64_MAX)
    vram__reader_fail(r, VRAM_ERR_OVERFLOW, n->offset, "the inner graphs have too many elements");
}

static void vram__onnx_inner(vram_file *f, vram__reader *r, uint64_t end, uint32_t depth,
                             vram_file_node *n);

/* AttributeProto of a node in a body: t 5, g 6, graphs 11. */
static void vram__onnx_inner_attribute(vram_file *f, vram__reader *r, uint64_t end, uint32_t depth,
                                       vram_file_node *n) {
  vram__proto p;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r))
    if (p.tag == VRAM__PROTO_B(5))
      vram__onnx_inner_tensor(f, r, p.behind, n);
    else if (p.tag == VRAM__PROTO_B(6) || p.tag == VRAM__PROTO_B(11))
      vram__onnx_inner(f, r, p.behind, depth + 1, n);
}

/* GraphProto: node 1, initializer 5. */
static void vram__onnx_inner(vram_file *f, vram__reader *r, uint64_t end, uint32_t depth,
                             vram_file_node *n) {
  vram__proto p, node;
  if (depth == VRAM__ONNX_INNER) {
    vram__reader_fail(r, VRAM_ERR_LIMIT, vram__reader_offset(r), "graphs within graphs, 8 deep");
    return;
  }
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r))
    if (p.tag == VRAM__PROTO_B(1)) {
      n->inner_nodes++;
      vram__proto_begin(&node, p.behind);
      while (vram__proto_next(&node, r))
        if (node.tag == VRAM__PROTO_B(5))
          vram__onnx_inner_attribute(f, r, node.behind, depth, n);
    } else if (p.tag == VRAM__PROTO_B(5))
      vram__onnx_inner_tensor(f, r, p.behind, n);
}

/* ---- nodes ---- */

/* AttributeProto: name 1, f 2, i 3, s 4, t 5, g 6, floats 7, ints 8, graphs 11. */
static void vram__onnx_attribute(vram_file *f, vram__reader *r, uint64_t end, vram_file_node *n,
                                 vram_file_attribute *a) {
  vram__onnx_ints ints;
  uint32_t len = 0;
  vram__proto p;
  ints.count = 0;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r))
    switch (p.tag) {
    case VRAM__PROTO_B(1):
      a->name = vram__proto_text(&p, f, r, &a->name_len);
      break;
    case VRAM__PROTO_TAG(2, VRAM__PROTO_FOUR):
      a->kind = VRAM_ATTRIBUTE_FLOAT;
      a->f = vram__onnx_float(p.value);
      break;
    case VRAM__PROTO_V(3):
      a->kind = VRAM_ATTRIBUTE_INT;
      a->i = (int64_t)p.value;
      break;
    case VRAM__PROTO_B(4):
      if (p.bytes > VRAM__PROTO_MAX_NAME)
        break; /* a compiled engine, say */
      a->kind = VRAM_ATTRIBUTE_TEXT;
      a->text = vram__proto_text(&p, f, r, &len);
      a->count = len;
      break;
    case VRAM__PROTO_B(5):
      vram__onnx_attribute_tensor(f, r, &p, a);
      break;
    case VRAM__PROTO_B(6):
    case VRAM__PROTO_B(11):
      vram__onnx_inner(f, r, p.behind, 0, n);
      break;
    case VRAM__PROTO_TAG(7, VRAM__PROTO_FOUR):
    case VRAM__PROTO_B(7):
      a->kind = VRAM_ATTRIBUTE_FLOATS;
      a->count += (p.tag & 7) == VRAM__PROTO_BYTES ? p.bytes / 4 : 1;
      break;
    case VRAM__PROTO_V(8):
    case VRAM__PROTO_B(8):
      a->kind = VRAM_ATTRIBUTE_INTS;
      vram__onnx_ints_read(&ints, &p, r);
      break;
    default:
      break;
    }
  if (a->kind == VRAM_ATTRIBUTE_INTS) {
    a->ints = vram__onnx_ints_keep(&ints, f, r);
    a->count = ints.count;
  }
}

/* NodeProto: input 1, output 2, name 3, op_type 4, attribute 5, domain 7. */
static void vram__onnx_node(vram_file *f, vram__reader *r, uint64_t end) {
  const uint64_t offset = vram__reader_offset(r);
  vram_file_node *const n = (vram_file_node *)vram__file_take(f, r, sizeof *n);
  vram_file_name **input, **output;
  vram_file_attribute **attribute;
  vram__proto p;
  if (!n)
    return;
  vram__memory_zero(n, sizeof *n);
  n->op = n->domain = n->name = "";
  n->offset = offset;
  input = &n->input;
  output = &n->output;
  attribute = &n->attribute;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r)) {
    if (p.tag == VRAM__PROTO_B(1))
      vram__onnx_name(f, r, &p, &input);
    else if (p.tag == VRAM__PROTO_B(2))
      vram__onnx_name(f, r, &p, &output);
    else if (p.tag == VRAM__PROTO_B(3))
      n->name = vram__proto_text(&p, f, r, &n->name_len);
    else if (p.tag == VRAM__PROTO_B(4))
      n->op = vram__proto_text(&p, f, r, &n->op_len);
    else if (p.tag == VRAM__PROTO_B(7))
      n->domain = vram__proto_text(&p, f, r, &n->domain_len);
    else if (p.tag == VRAM__PROTO_B(5)) {
      vram_file_attribute *const a = (vram_file_attribute *)vram__file_take(f, r, sizeof *a);
      if (!a)
        return;
      vram__memory_zero(a, sizeof *a);
      a->name = "";
      *attribute = a;
      attribute = &a->next;
      vram__onnx_attribute(f, r, p.behind, n, a);
    }
  }
  if (!r->result && !n->op_len)
    vram__reader_fail(r, VRAM_ERR_VALUE, offset, "a node without an op");
  if (f->node_last)
    f->node_last->next = n;
  else
    f->node_first = n;
  f->node_last = n;
  f->nnode++;
}

/* ---- what is said of values ---- */

/* TensorShapeProto.Dimension: dim_value 1, dim_param 2. */
static void vram__onnx_dimension(vram_file *f, vram__reader *r, uint64_t end,
                                 vram_file_operand *o) {
  const uint64_t offset = vram__reader_offset(r);
  const uint32_t i = o->ndim;
  vram__proto p;
  if (i == VRAM_MAX_AXES) {
    vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, offset, "a shape of more than 8 axes");
    return;
  }
  o->ndim++;
  o->size[i] = -1;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r)) {
    if (p.tag == VRAM__PROTO_V(1)) {
      o->size[i] = (int64_t)p.value;
      o->symbol[i] = NULL;
      if (o->size[i] < 0)
        o->size[i] = -1; /* not known, as some writers say it */
    } else if (p.tag == VRAM__PROTO_B(2)) {
      o->size[i] = -1;
      o->symbol[i] = vram__proto_text(&p, f, r, &o->symbol_len[i]);
      if (!o->symbol_len[i])
        o->symbol[i] = NULL;
    }
  }
}

/* TypeProto.Tensor: elem_type 1, shape 2, whose dim is 1. */
static void vram__onnx_tensor_type(vram_file *f, vram__reader *r, uint64_t end,
                                   vram_file_operand *o) {
  vram__proto p, d;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r)) {
    if (p.tag == VRAM__PROTO_V(1))
      o->dtype = vram_dtype_from_onnx_id((int64_t)p.value);
    else if (p.tag == VRAM__PROTO_B(2)) {
      o->has_shape = 1;
      vram__proto_begin(&d, p.behind);
      while (vram__proto_next(&d, r))
        if (d.tag == VRAM__PROTO_B(1))
          vram__onnx_dimension(f, r, d.behind, o);
    }
  }
}

/* ValueInfoProto: name 1, type 2, whose tensor_type is 1. */
static void vram__onnx_operand(vram_file *f, vram__reader *r, uint64_t end,
                               vram_operand_role role) {
  vram_file_operand *const o = (vram_file_operand *)vram__file_take(f, r, sizeof *o);
  vram__proto p, t;
  if (!o)
    return;
  vram__memory_zero(o, sizeof *o);
  o->name = "";
  o->number = f->noperand;
  o->role = (uint8_t)role;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r)) {
    if (p.tag == VRAM__PROTO_B(1))
      o->name = vram__proto_text(&p, f, r, &o->name_len);
    else if (p.tag == VRAM__PROTO_B(2)) {
      vram__proto_begin(&t, p.behind);
      while (vram__proto_next(&t, r))
        if (t.tag == VRAM__PROTO_B(1))
          vram__onnx_tensor_type(f, r, t.behind, o);
    }
  }
  if (f->operand_last)
    f->operand_last->next = o;
  else
    f->operand_first = o;
  f->operand_last = o;
  f->noperand++;
}

/* ---- graph and model ---- */

static void vram__onnx_initializer(vram_file *f, vram__reader *r, uint64_t end) {
  const uint64_t offset = vram__reader_offset(r);
  vram_file_tensor *const t = vram__file_tensor(f, r);
  if (!t)
    return;
  t->name = "";
  if (vram__onnx_tensor(f, r, end, t))
    return;
  f->tensor_bytes = vram__sum_or_overflow(f->tensor_bytes, t->bytes);
  f->numel = vram__sum_or_overflow(f->numel, t->numel);
  if (f->tensor_bytes == VRAM_OVERFLOW || f->numel == VRAM_OVERFLOW)
    vram__reader_fail(r, VRAM_ERR_OVERFLOW, offset, "the tensors have too many bytes");
  else if (!t->name_len)
    vram__reader_fail(r, VRAM_ERR_VALUE, offset, "an initializer without a name");
}

/* GraphProto: node 1, name 2, initializer 5, input 11, output 12, value_info 13,
   sparse_initializer 15. */
static void vram__onnx_graph(vram_file *f, vram__reader *r, uint64_t end) {
  vram__proto p;
  vram__proto_begin(&p, end);
  while (vram__proto_next(&p, r))
    switch (p.tag) {
    case VRAM__PROTO_B(1):
      vram__onnx_node(f, r, p.behind);
      break;
    case VRAM__PROTO_B(2):
      vram__onnx_value(f, r, &p, "graph.name", 10);
      break;
    case VRAM__PROTO_B(5):
      vram__onnx_initializer(f, r, p.behind);
      break;
    case VRAM__PROTO_B(11):
      vram__onnx_operand(f, r, p.behind, VRAM_OPERAND_INPUT);
      break;
    case VRAM__PROTO_B(12):
      vram__onnx_operand(f, r, p.behind, VRAM_OPERAND_OUTPUT);
      break;
    case VRAM__PROTO_B(13):
      vram__onnx_operand(f, r, p.behind, VRAM_OPERAND_BETWEEN);
      break;
    case VRAM__PROTO_B(15):
      vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, p.begin, "sparse initializers are not read");
      break;
    default:
      break;
    }
}

/* What of ModelProto was there. */
typedef struct vram__onnx_model {
  uint64_t version;
  uint32_t graphs, opsets;
} vram__onnx_model;

/* ModelProto: ir_version 1, producer_name 2, producer_version 3, domain 4, model_version 5, graph
   7, opset_import 8. */
static void vram__onnx_model_fields(vram_file *f, vram__reader *r, vram__onnx_model *m) {
  vram__proto p;
  vram__proto_begin(&p, r->source->bytes);
  while (vram__proto_next(&p, r))
    switch (p.tag) {
    case VRAM__PROTO_V(1):
      m->version = p.value;
      vram__onnx_value(f, r, &p, "ir_version", 10);
      break;
    case VRAM__PROTO_B(2):
      vram__onnx_value(f, r, &p, "producer_name", 13);
      break;
    case VRAM__PROTO_B(3):
      vram__onnx_value(f, r, &p, "producer_version", 16);
      break;
    case VRAM__PROTO_B(4):
      vram__onnx_value(f, r, &p, "domain", 6);
      break;
    case VRAM__PROTO_V(5):
      vram__onnx_value(f, r, &p, "model_version", 13);
      break;
    case VRAM__PROTO_B(7):
      if (m->graphs++)
        vram__reader_fail(r, VRAM_ERR_SYNTAX, p.begin, "a second graph");
      vram__onnx_graph(f, r, p.behind);
      break;
    case VRAM__PROTO_B(8):
      m->opsets++;
      vram__onnx_opset(f, r, p.behind);
      break;
    default:
      break;
    }
}

VRAM__FN vram_result vram__onnx_read(vram_file *f, vram__reader *r) {
  vram_file_part *part;
  vram__onnx_model m;
  vram__memory_zero(&m, sizeof m);
  if (f->part_first)
    return vram__reader_fail(r, VRAM_ERR_UNSUPPORTED, 0, "a second ONNX model");
  part = vram__file_part(f, r, NULL, 0);
  if (!part)
    return r->result;
  part->header_bytes = part->expected_bytes = part->present_bytes = r->source->bytes;
  vram__onnx_model_fields(f, r, &m);
  if (r->result)
    return r->result;
  if (!m.graphs)
    return vram__reader_fail(r, VRAM_ERR_SYNTAX, r->source->bytes, "a model without a graph");
  if (!m.opsets && m.version >= 3)
    return vram__reader_fail(r, VRAM_ERR_SYNTAX, r->source->bytes, "a model without opset_import");
  f->version = (uint32_t)m.version;
  part->is_read = 1;
  return VRAM_OK;
}
