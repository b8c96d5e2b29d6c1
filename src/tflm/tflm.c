/* >>tflm/tflm    what the interpreter allocates, one after the other
   From tensorflow/lite/micro: micro_allocator.cc, micro_interpreter.cc, micro_allocation_info.cc,
   arena_allocator/single_arena_buffer_allocator.cc. */
#include "tflm/tflm.h"

static const vram__tflm_abi vram__tflm_abis[] = {
    {"32", 4, 12, 32, 40, 12, 12, 24, 36, 44, 36, 8},
    {"32-arm", 4, 12, 32, 32, 12, 12, 24, 36, 44, 36, 8},
    {"64", 8, 24, 64, 64, 24, 16, 32, 72, 72, 72, 16},
    {"python", 8, 24, 64, 64, 24, 16, 32, 104, 72, 272, 24}, /* Recording..., with compression */
};

static uint64_t vram__tflm_up(uint64_t n, uint64_t align) { return (n + align - 1) & ~(align - 1); }

static void vram__tflm_most(uint64_t *to, uint64_t n) {
  if (*to < n)
    *to = n;
}

/* AllocatePersistentBuffer: from the end of the arena down. It looks at the head only, and would
   write over what lies behind it and is still read. */
static void vram__tflm_keep(vram__tflm_run *r, uint64_t bytes, uint64_t align, uint64_t *part) {
  const uint64_t before = r->tail;
  r->tail = vram__tflm_up(r->tail + bytes, align);
  *part += r->tail - before;
  vram__tflm_most(&r->least, r->temp + r->tail);
}

/* AllocateTemp: behind the head, until the operator is prepared. */
static void vram__tflm_temp(vram__tflm_run *r, uint64_t bytes, uint64_t align) {
  r->temp = vram__tflm_up(r->temp, align) + bytes;
  vram__tflm_most(&r->least, r->temp + r->tail);
}

/* The head holds requests of scratch while operators are prepared: those there are, and room for
   the next operator's. */
static void vram__tflm_head(vram__tflm_run *r, uint64_t bytes) {
  r->head = r->temp = bytes;
  vram__tflm_most(&r->least, r->head + r->tail);
}

VRAM__FN vram_result vram__tflm_fail(vram__tflm_run *r, vram_result code, const char *text) {
  if (r->result)
    return r->result;
  r->result = vram__error_begin(r->err, code, 0, "");
  if (r->node) {
    vram__error_quote(r->err, r->node->op, r->node->op_len);
    vram__error_text(r->err, ": ");
    if (r->err) {
      r->err->offset = r->node->offset;
      r->err->has_offset = 1;
    }
  }
  vram__error_text(r->err, text);
  return code;
}

/* ---- the file's tensors by their numbers ---- */

static uint64_t vram__tflm_type_bytes(vram_dtype t) {
  uint64_t bytes = 0;
  if (t == VRAM_I4)
    return 1;
  return !t || vram_dtype_bytes(t, 1, &bytes) ? 0 : bytes;
}

static void vram__tflm_count(vram__tflm_run *r, vram__tflm_value *v) {
  uint32_t i;
  v->numel = 1;
  for (i = 0; i < v->ndim; i++) /* TFLite stores 1 for an open size */
    v->numel = vram__product_or_overflow(v->numel, v->size[i] < 0 ? 1 : (uint64_t)v->size[i]);
  v->bytes = vram__product_or_overflow(v->numel, vram__tflm_type_bytes(v->dtype));
  if (v->bytes > INT32_MAX || v->numel > INT32_MAX)
    vram__tflm_fail(r, VRAM_ERR_OVERFLOW, "a tensor of 2 GiB or more: TFLM counts in int");
}

static uint64_t vram__tflm_values(const vram_file *f) {
  const vram_file_operand *o;
  const vram_file_tensor *c;
  uint64_t n = 0;
  for (c = f->tensor_first; c; c = c->next)
    vram__tflm_most(&n, c->number + 1);
  for (o = f->operand_first; o; o = o->next)
    vram__tflm_most(&n, o->number + 1);
  return n;
}

static void vram__tflm_read(vram__tflm_run *r) {
  const vram_file_operand *o;
  const vram_file_tensor *c;
  for (c = r->f->tensor_first; c; c = c->next) {
    vram__tflm_value *const v = r->value + c->number;
    v->size = c->size;
    v->ndim = c->ndim;
    v->dtype = c->dtype;
    v->scales = c->has_zero_point ? c->scales : 0;
    v->is_constant = 1;
    vram__tflm_count(r, v);
  }
  for (o = r->f->operand_first; o; o = o->next) {
    vram__tflm_value *const v = r->value + o->number;
    if (v->is_constant)
      continue;
    v->size = o->size;
    v->ndim = o->ndim;
    v->dtype = o->dtype;
    v->scales = o->has_zero_point ? o->scales : 0;
    v->is_variable |= o->role == VRAM_OPERAND_STATE;
    vram__tflm_count(r, v);
  }
}

/* Input i of the operator; NULL: it is left out. */
VRAM__FN const vram__tflm_value *vram__tflm_of(vram__tflm_run *r, const vram_file_name *n,
                                               uint32_t i) {
  for (; n && i; i--)
    n = n->next;
  return n && n->len ? r->value + n->number : NULL;
}

/* One that must be there, with so many axes at least. */
VRAM__FN const vram__tflm_value *vram__tflm_need(vram__tflm_run *r, const vram_file_name *n,
                                                 uint32_t i, uint32_t axes) {
  static const vram__tflm_value none = VRAM_ZERO_INIT;
  const vram__tflm_value *const v = vram__tflm_of(r, n, i);
  if (v && v->ndim >= axes)
    return v;
  vram__tflm_fail(r, VRAM_ERR_VALUE, v ? "too few axes" : "too few inputs or outputs");
  return &none;
}

VRAM__FN uint64_t vram__tflm_axis(const vram__tflm_value *v, uint32_t i) {
  return i >= v->ndim ? 0 : v->size[i] < 0 ? 1 : (uint64_t)v->size[i];
}

VRAM__FN int64_t vram__tflm_option(const vram_file_node *n, const char *name) {
  const vram_file_attribute *a;
  for (a = n->attribute; a; a = a->next)
    if (vram__text_is(a->name, a->name_len, name))
      return a->i;
  return 0;
}

/* ---- kernels ---- */

/* RequestScratchBufferInArena: lives while the operator runs. */
VRAM__FN void vram__tflm_scratch(vram__tflm_run *r, uint64_t bytes) {
  vram_buffer *const b = r->buffer + r->nvalue + r->nscratch;
  if (bytes > INT32_MAX)
    vram__tflm_fail(r, VRAM_ERR_OVERFLOW, "scratch of 2 GiB or more");
  if (r->result || r->nscratch == r->room)
    return;
  vram__memory_zero(b, sizeof *b);
  b->bytes = vram__tflm_up(bytes, VRAM__TFLM_ALIGN);
  b->begin = r->now;
  b->end = r->now + 1;
  r->nscratch++;
  r->t->node[r->t->nnode].scratch_bytes += bytes;
}

VRAM__FN void vram__tflm_kernel_keep(vram__tflm_run *r, uint64_t bytes) {
  vram__tflm_keep(r, bytes, VRAM__TFLM_ALIGN, &r->t->node[r->t->nnode].kernel_bytes);
}

/* Multipliers and shifts, 32 bits each. */
VRAM__FN void vram__tflm_channels(vram__tflm_run *r, uint64_t n) {
  vram__tflm_kernel_keep(r, 4 * n);
  vram__tflm_kernel_keep(r, 4 * n);
}

/* A TfLiteTensor made of the file while an operator is prepared: its zero points with it. */
VRAM__FN void vram__tflm_look(vram__tflm_run *r, const vram__tflm_value *v) {
  if (!v)
    return;
  vram__tflm_temp(r, r->abi->tensor, r->abi->pointer);
  if (!v->scales)
    return;
  vram__tflm_temp(r, r->abi->quantization, r->abi->pointer);
  vram__tflm_temp(r, 4 + 4 * (uint64_t)v->scales, 4);
}

/* Its data is allocated at once, not while it is prepared. */
static int vram__tflm_has_data(const vram__tflm_run *r, const vram__tflm_kernel *k) {
  const char *at = k->temps;
  while (*at && *at != 'd' && *at != 'D')
    at++;
  return k->data[r->target] && !*at;
}

static void vram__tflm_prepare(vram__tflm_run *r, const vram__tflm_kernel *k) {
  const vram__tflm_value *const y = vram__tflm_of(r, r->node->output, 0);
  const vram__tflm_value *const x = vram__tflm_of(r, r->node->input, 0);
  const char *at = k->temps;
  const vram_file_name *n;
  for (; *at; at++) {
    if (*at == '(' && y && y->dtype == VRAM_F32)
      break;
    if (*at == '!')
      k->rule(r, vram__tflm_need(r, r->node->input, 0, 0),
              vram__tflm_need(r, r->node->output, 0, 0));
    else if (*at == 'd' || (*at == 'D' && x && x->dtype == VRAM_I8))
      vram__tflm_kernel_keep(r, k->data[r->target]);
    else if (*at == 'a' || (*at == 'A' && x && x->dtype == VRAM_I8))
      vram__tflm_look(r, y);
    else if (*at >= '0' && *at <= '9')
      vram__tflm_look(r, vram__tflm_of(r, r->node->input, (uint32_t)(*at - '0')));
    for (n = r->node->input; *at == '*' && n; n = n->next)
      vram__tflm_look(r, n->len ? r->value + n->number : NULL);
  }
  vram__tflm_head(r, (r->nscratch + VRAM__TFLM_SCRATCH_AHEAD) * r->abi->request);
}

static const vram__tflm_kernel *vram__tflm_find(vram__tflm_run *r, const vram_file_node *n) {
  const vram__tflm_kernel *k = NULL;
  r->node = n;
  if (vram__text_is(n->domain, n->domain_len, "tflite"))
    k = r->version == VRAM_TFLM_2024_11   ? vram__tflm_older_of(n->op, n->op_len)
        : r->kernels == VRAM_KERNELS_NONE ? vram__tflm_kernel_of(n->op, n->op_len)
                                          : vram__tflm_cmsis_of(n->op, n->op_len, r->goal);
  if (!k)
    vram__tflm_fail(r, VRAM_ERR_UNSUPPORTED,
                    "no kernel of TensorFlow Lite Micro whose memory is known");
  return k;
}

/* Options of all nodes, then what their kernels allocate at once, then each is prepared. */
static void vram__tflm_nodes(vram__tflm_run *r) {
  vram_tflm *const t = r->t;
  const vram_file_node *n;
  const vram__tflm_kernel *k;
  int pass;
  for (pass = 0; pass < 3; pass++) {
    t->nnode = 0;
    for (n = r->f->node_first; n && !r->result; n = n->next, t->nnode++) {
      k = vram__tflm_find(r, n);
      if (!k)
        return;
      r->now = 2 + (uint64_t)t->nnode;
      if (pass == 0) {
        const vram__tflm_struct *const s = vram__tflm_params_of(k->params);
        if (s->on[r->target].bytes)
          vram__tflm_keep(r, s->on[r->target].bytes, s->on[r->target].align,
                          &t->node[t->nnode].option_bytes);
      } else if (pass == 1) {
        if (vram__tflm_has_data(r, k))
          vram__tflm_kernel_keep(r, k->data[r->target]);
      } else
        vram__tflm_prepare(r, k);
    }
  }
  r->node = NULL;
}

/* ---- the plan of the head ---- */

static void vram__tflm_use(vram__tflm_value *v, uint64_t now, int is_made) {
  if (is_made && !v->first)
    v->first = now;
  v->last = now;
}

static void vram__tflm_lifetimes(vram__tflm_run *r) {
  const vram_file_operand *o;
  const vram_file_node *n;
  const vram_file_name *x;
  uint64_t now = 1;
  for (o = r->f->operand_first; o; o = o->next)
    if (o->role == VRAM_OPERAND_INPUT)
      vram__tflm_use(r->value + o->number, now, 1);
  for (n = r->f->node_first; n; n = n->next) {
    now++;
    for (x = n->output; x; x = x->next)
      if (x->len)
        vram__tflm_use(r->value + x->number, now, 1);
    for (x = n->input; x; x = x->next)
      if (x->len)
        vram__tflm_use(r->value + x->number, now, 0);
  }
  for (o = r->f->operand_first; o; o = o->next)
    if (o->role == VRAM_OPERAND_OUTPUT)
      vram__tflm_use(r->value + o->number, now, 1);
}

/* A variable is kept, unless the file says where it is planned. */
static int vram__tflm_is_kept(const vram__tflm_run *r, uint64_t i) {
  return r->value[i].is_variable && (!r->offline || r->offline[i] < 0);
}

/* Values in the order of their numbers, then scratch. Returns how many. */
static uint32_t vram__tflm_buffers(vram__tflm_run *r) {
  uint64_t i, n = 0;
  for (i = 0; i < r->nvalue; i++) {
    const vram__tflm_value *const v = r->value + i;
    vram_buffer *const b = r->buffer + n;
    if (v->is_constant || vram__tflm_is_kept(r, i) || !v->bytes)
      continue;
    vram__memory_zero(b, sizeof *b);
    b->bytes = vram__tflm_up(v->bytes, VRAM__TFLM_ALIGN);
    b->begin = v->first < v->last ? v->first : v->last;
    b->end = v->last + 1;
    if (r->offline && r->offline[i] >= 0) {
      b->pinned = 1;
      b->offset = (uint64_t)r->offline[i];
    }
    n++;
  }
  for (i = 0; i < r->nscratch; i++)
    r->buffer[n++] = r->buffer[r->nvalue + i];
  return (uint32_t)n;
}

/* CommitStaticMemoryPlan: lists of lifetimes and the planner's own lie in the arena meanwhile. */
static vram_result vram__tflm_commit(vram__tflm_run *r, void *scratch, uint64_t bytes) {
  vram_tflm *const t = r->t;
  vram_arena_options o;
  vram_arena a;
  uint64_t i;
  uint32_t n;
  if (r->nscratch)
    vram__tflm_keep(r, r->nscratch * r->abi->pointer, r->abi->pointer, &t->handle_bytes);
  vram__tflm_temp(r, r->abi->pointer, r->abi->pointer);
  vram__tflm_temp(r, (r->nvalue + r->nscratch) * r->abi->info, r->abi->pointer);
  for (i = 0; i < r->nvalue; i++)
    if (vram__tflm_is_kept(r, i) && !r->value[i].is_constant)
      vram__tflm_keep(r, r->value[i].bytes, VRAM__TFLM_ALIGN, &t->variable_bytes);
  n = vram__tflm_buffers(r);
  vram__tflm_most(&r->least, vram__tflm_up(r->temp, VRAM__TFLM_ALIGN) +
                                 vram__tflm_up((uint64_t)n * VRAM__TFLM_PLANNED, VRAM__TFLM_ALIGN) +
                                 vram__tflm_up(r->tail, VRAM__TFLM_ALIGN));
  vram__memory_zero(&o, sizeof o);
  vram__memory_zero(&a, sizeof a);
  o.align = VRAM__TFLM_ALIGN;
  o.order = VRAM_ARENA_ORDER_tflm;
  if (r->offline)
    a.height_bytes = vram__tflm_offline_plan(r, n, scratch);
  else if (n) {
    const vram_result code = vram_arena_plan(r->buffer, n, &o, scratch, bytes, &a, r->err);
    if (code)
      return r->result = code;
  }
  t->head_bytes = a.height_bytes;
  t->nscratch = (uint32_t)r->nscratch;
  vram__tflm_head(r, a.height_bytes);
  return r->result;
}

/* A list of pointers, and a TfLiteTensor for each input or output. */
static void vram__tflm_ends(vram__tflm_run *r, vram_operand_role role) {
  uint64_t *const part = &r->t->end_bytes;
  const vram_file_operand *o;
  uint64_t n = 0;
  for (o = r->f->operand_first; o; o = o->next)
    n += o->role == role;
  vram__tflm_keep(r, n * r->abi->pointer, VRAM__TFLM_ALIGN, part);
  for (o = r->f->operand_first; o; o = o->next) {
    const vram__tflm_value *const v = r->value + o->number;
    if (o->role != role)
      continue;
    vram__tflm_keep(r, r->abi->tensor, r->abi->pointer, part);
    if (!v->scales)
      continue;
    vram__tflm_keep(r, r->abi->quantization, r->abi->pointer, part);
    vram__tflm_keep(r, 4 + 4 * (uint64_t)v->scales, 4, part);
  }
}

/* ---- the whole ---- */

static void vram__tflm_begin(vram__tflm_run *r) {
  const vram__tflm_abi *const abi = r->abi;
  uint64_t *const part = &r->t->object_bytes;
  const uint64_t p = abi->pointer;
  vram__tflm_keep(r, abi->arena, p, part);
  vram__tflm_keep(r, abi->planner, p, part);
  vram__tflm_keep(r, abi->allocator, p, part);
  vram__tflm_keep(r, 2 * p, p, part); /* MicroBuiltinDataAllocator */
  vram__tflm_head(r, (uint64_t)VRAM__TFLM_SCRATCH_AHEAD * abi->request);
  vram__tflm_keep(r, abi->subgraph, p, part);
  vram__tflm_keep(r, r->nvalue * abi->eval_tensor, p, &r->t->tensor_bytes);
  vram__tflm_keep(r, r->f->nnode * abi->node, p, &r->t->node_bytes);
}

/* Memory: nodes, values, buffers, then the planner's. */
static uint64_t vram__tflm_parts(const vram_file *f, uint64_t *nvalue, uint64_t *nbuffer,
                                 uint64_t *plan) {
  uint64_t bytes;
  *nvalue = vram__tflm_values(f);
  *nbuffer =
      vram__sum_or_overflow(*nvalue, vram__product_or_overflow(f->nnode, VRAM__TFLM_MAX_SCRATCH));
  *plan = VRAM_OVERFLOW;
  if (*nbuffer < UINT32_MAX) {
    vram_arena_options o;
    vram__memory_zero(&o, sizeof o);
    o.order = VRAM_ARENA_ORDER_tflm;
    *plan = vram_arena_bytes((uint32_t)*nbuffer, &o);
  }
  bytes = vram__product_or_overflow(f->nnode, sizeof(vram_tflm_node));
  bytes =
      vram__sum_or_overflow(bytes, vram__product_or_overflow(*nvalue, sizeof(vram__tflm_value)));
  bytes = vram__sum_or_overflow(bytes, vram__product_or_overflow(*nbuffer, sizeof(vram_buffer)));
  return vram__sum_or_overflow(vram__sum_or_overflow(bytes, *plan), 64);
}

VRAM_API uint64_t vram_tflm_bytes(const vram_file *f) {
  uint64_t nvalue, nbuffer, plan;
  return vram__tflm_parts(f, &nvalue, &nbuffer, &plan);
}

/* Files and options that are not read. */
static vram_result vram__tflm_check(vram__tflm_run *r, const vram_tflm_options *o) {
  const vram_file_value *const graphs = vram_file_get(r->f, "subgraphs", 9);
  if (r->f->format != VRAM_FILE_TFLITE || o->target >= VRAM_TFLM_TARGET_COUNT ||
      o->kernels >= VRAM_KERNELS_COUNT || o->goal >= VRAM_TFLM_GOAL_COUNT)
    return vram__tflm_fail(r, VRAM_ERR_UNSUPPORTED, "no TFLite file, or no such target");
  if (o->kernels != VRAM_KERNELS_NONE && o->target == VRAM_TFLM_PYTHON)
    return vram__tflm_fail(r, VRAM_ERR_UNSUPPORTED, "the wheel has no kernels of CMSIS-NN");
  if (o->goal && o->kernels == VRAM_KERNELS_NONE)
    return vram__tflm_fail(r, VRAM_ERR_UNSUPPORTED,
                           "TFLM's own kernels are the same for size and for speed");
  if (o->version && (o->version >= VRAM_TFLM_VERSION_COUNT || o->kernels != VRAM_KERNELS_NONE ||
                     o->target == VRAM_TFLM_PYTHON))
    return vram__tflm_fail(r, VRAM_ERR_UNSUPPORTED,
                           "of older versions TFLM's own kernels alone are known");
  if (graphs && graphs->number.u != 1)
    return vram__tflm_fail(r, VRAM_ERR_UNSUPPORTED,
                           "more than one graph: who calls them when is not read");
  return VRAM_OK;
}

VRAM_API vram_result vram_tflm_plan(const vram_file *f, const vram_tflm_options *o, void *mem,
                                    uint64_t bytes, vram_tflm *t, vram_error *err) {
  uint64_t nbuffer, plan, used = 0, i;
  vram__tflm_run r;
  void *scratch;
  vram__error_clear(err);
  vram__memory_zero(t, sizeof *t);
  vram__memory_zero(&r, sizeof r);
  r.f = f;
  r.t = t;
  r.err = err;
  if (vram__tflm_check(&r, o))
    return r.result;
  if (vram__tflm_parts(f, &r.nvalue, &nbuffer, &plan) > bytes)
    return vram__tflm_fail(&r, VRAM_ERR_MEMORY, "too little memory");
  r.target = (uint32_t)o->target;
  r.kernels = o->kernels;
  r.version = o->version;
  r.goal = o->goal;
  r.abi = vram__tflm_abis + r.target;
  r.room = nbuffer - r.nvalue;
  t->node =
      (vram_tflm_node *)vram__memory_take((uint8_t *)mem, &used, bytes, f->nnode * sizeof *t->node);
  r.value = (vram__tflm_value *)vram__memory_take((uint8_t *)mem, &used, bytes,
                                                  r.nvalue * sizeof *r.value);
  r.buffer =
      (vram_buffer *)vram__memory_take((uint8_t *)mem, &used, bytes, nbuffer * sizeof *r.buffer);
  scratch = vram__memory_take((uint8_t *)mem, &used, bytes, plan);
  if (!t->node || !r.value || !r.buffer || !scratch)
    return vram__tflm_fail(&r, VRAM_ERR_MEMORY, "too little memory");
  vram__memory_zero(t->node, f->nnode * sizeof *t->node);
  vram__memory_zero(r.value, r.nvalue * sizeof *r.value);
  vram__tflm_read(&r);
  r.offline = vram__tflm_offline(&r);
  t->ntensor = (uint32_t)r.nvalue;
  vram__tflm_begin(&r);
  vram__tflm_nodes(&r);
  if (r.result)
    return r.result;
  vram__tflm_lifetimes(&r);
  if (vram__tflm_commit(&r, scratch, plan))
    return r.result;
  vram__tflm_ends(&r, VRAM_OPERAND_INPUT);
  vram__tflm_ends(&r, VRAM_OPERAND_OUTPUT);
  for (i = 0; i < t->nnode; i++) {
    t->option_bytes += t->node[i].option_bytes;
    t->kernel_bytes += t->node[i].kernel_bytes;
  }
  t->tail_bytes = r.tail;
  t->used_bytes = t->head_bytes + t->tail_bytes;
  t->arena_bytes = vram__tflm_up(r.least, VRAM__TFLM_ALIGN);
  return VRAM_OK;
}

VRAM_API const char *vram_tflm_target_name(uint32_t target) {
  return target < VRAM_TFLM_TARGET_COUNT ? vram__tflm_abis[target].name : "?";
}

VRAM_API const char *vram_tflm_version_name(uint32_t version) {
  return version == VRAM_TFLM_2026_08 ? "2026-08" : version == VRAM_TFLM_2024_11 ? "2024-11" : "?";
}

VRAM_API const char *vram_tflm_goal_name(uint32_t goal) {
  return goal == VRAM_TFLM_FOR_SPEED ? "speed" : goal == VRAM_TFLM_FOR_SIZE ? "size" : "?";
}
