/* Bytes -> a random model that is right -> what must hold for it. Shapes, parameters, gradients,
   optimizer state, outputs and what is saved for backward are recomputed in 128 bits from PyTorch's
   rules, without a look at the library's; with huge sizes it must say overflow and nothing else.
   clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/graph.c \
     build/fuzz/tool.a -ldl -o build/fuzz-graph */
#include "../../vram.h"

#include "fuzz.h"

#include "../property.h"

#include <stdarg.h>

__extension__ typedef unsigned __int128 wide;

typedef struct value {
  wide size[VRAM_MAX_AXES]; /* size[0] is the batch */
  unsigned ndim;
  unsigned storage; /* index into model.storage */
  unsigned now;     /* the value that it became by the last write in place */
  int from[2];      /* values that its gradient goes to, -1: none */
  int grad;         /* requires a gradient */
  int plain;        /* contiguous, all of its storage */
  int own;          /* output_bytes: 1 its elements, 0 none, -1 not predicted here */
  int keep[3];      /* storages that its node saves, -1: none */
  wide params;      /* elements of its node */
  wide more;        /* bytes that its node saves beside */
} value;

typedef struct model {
  const uint8_t *data;
  size_t left;
  char text[16384];
  size_t len;
  value v[64]; /* named v0, v1, ... */
  unsigned n;
  wide storage[130]; /* bytes; inputs, which the report does not count as saved: 0 */
  unsigned nstorage;
  int odd;     /* what is saved depends on layouts: not predicted here */
  int inplace; /* something was: PyTorch refuses where backward needs what was there */
  int written; /* a view or what a view is of was written to: nor are its gradients */
  wide params; /* elements */
  wide inputs; /* bytes */
  wide scores; /* elements of attention's largest temporary, at most */
  int leaf;    /* an input that wants a gradient: PyTorch lets nobody write to it */
} model;

static unsigned pick(model *m, unsigned n) {
  if (!m->left)
    return 0;
  m->left--;
  return *m->data++ % n;
}

static void say(model *m, const char *format, ...) {
  va_list list;
  va_start(list, format);
  m->len += (size_t)vsnprintf(m->text + m->len, sizeof m->text - m->len, format, list);
  va_end(list);
  if (m->len >= sizeof m->text)
    abort();
}

/* One of the values with at least `least` and at most `most` axes; -1: there is none. */
static int some(model *m, unsigned least, unsigned most) {
  unsigned i, start = m->n - 1 - pick(m, 4) % m->n;
  for (i = 0; i < m->n; i++) {
    unsigned k = (start + m->n - i) % m->n;
    if (m->v[k].ndim >= least && m->v[k].ndim <= most)
      return (int)k;
  }
  return -1;
}

/* A size: small, or sometimes huge where the input says so. */
static wide number(model *m, int huge) {
  unsigned c = pick(m, 256);
  if (huge && c > 240)
    return (wide)1 << (20 + c % 30);
  return 1 + c % 12;
}

static wide product(const value *v) {
  wide n = 1;
  unsigned i;
  for (i = 0; i < v->ndim; i++) {
    if (n >> 100)
      return n;
    n *= v->size[i];
  }
  return n;
}

/* A value made of x, for now of its shape and in its storage. */
static value *emit(model *m, const char *op, int x, const char *rest) {
  value *y = m->v + m->n, *z = m->v + m->v[x].now;
  *y = m->v[x];
  y->now = m->n;
  y->from[0] = z->grad ? (int)m->v[x].now : -1;
  y->from[1] = -1;
  y->grad = z->grad;
  y->keep[0] = y->keep[1] = y->keep[2] = -1;
  y->params = y->more = 0;
  y->own = 0;
  say(m, "%s v%u v%d%s", op, m->n, x, rest);
  m->n++;
  return y;
}

/* The node of y writes to a new storage; saves: x its input, y its output. */
static void fresh(model *m, value *y, int x, const char *saves) {
  y->storage = m->nstorage++;
  m->storage[y->storage] = 4 * product(y);
  y->own = 1;
  if (*saves == 'x')
    y->keep[0] = (int)m->v[x].storage;
  if (*saves == 'y')
    y->keep[0] = (int)y->storage;
  if (*saves == '?')
    m->odd = 1, y->own = -1;
}

static void needs_plain(model *m, int x) { m->odd |= !m->v[x].plain; }

/* Parameters of y's node, which saves its input. */
static void layer(model *m, value *y, int x, wide params) {
  y->params = params;
  m->params += params;
  y->grad = 1;
  needs_plain(m, x);
  fresh(m, y, x, "x");
}

static void node(model *m, int huge) {
  static const struct {
    const char *op, *saves;
  } pointwise[] = {{"relu", "y"},     {"gelu", "x"},       {"silu", "x"},     {"sigmoid", "y"},
                   {"tanh", "y"},     {"mish", "x"},       {"elu", "x"},      {"leaky_relu", "x"},
                   {"softplus", "x"}, {"hardswish", "x"},  {"exp", "y"},      {"neg", ""},
                   {"abs", "x"},      {"square", "x"},     {"softsign", "?"}, {"clone", ""},
                   {"dropout", "m"},  {"contiguous", "c"}, {"detach", "d"},   {"relu6", "x"}};
  value *y;
  int x = some(m, 1, VRAM_MAX_AXES), w;
  unsigned k, axis;
  wide a;
  if (x < 0)
    return;
  switch (pick(m, 18)) {
  case 0:
  case 1:
    k = pick(m, sizeof pointwise / sizeof *pointwise);
    y = emit(m, pointwise[k].op, x, "\n");
    switch (*pointwise[k].saves) {
    case 'm': /* a mask of a byte an element; in inference nothing happens */
      y->more = y->grad ? product(y) : 0;
      fresh(m, y, x, "");
      break;
    case 'c':
      needs_plain(m, x);
      y->own = m->v[x].plain - 1;
      break;
    case 'd':
      y->from[0] = -1, y->grad = 0;
      break;
    default:
      fresh(m, y, x, pointwise[k].saves);
    }
    break;
  case 2: /* linear */
    if (m->v[x].ndim < 2)
      return;
    a = number(m, huge);
    k = pick(m, 2);
    y = emit(m, "linear", x, "");
    say(m, " out_features=%llu bias=%u\n", (unsigned long long)a, k);
    y->params = y->size[y->ndim - 1] * a + k * a;
    y->size[y->ndim - 1] = a;
    layer(m, y, x, y->params);
    break;
  case 3: /* convolution */
    if ((x = some(m, 4, 4)) < 0)
      return;
    a = number(m, 0);
    k = 1 + 2 * pick(m, 2);
    y = emit(m, "conv2d", x, "");
    say(m, " out_channels=%llu kernel_size=%u padding=%u\n", (unsigned long long)a, k, k / 2);
    y->params = y->size[1] * a * k * k + a;
    y->size[1] = a;
    layer(m, y, x, y->params);
    break;
  case 4: /* a mean and a deviation for every row */
    if (m->v[x].ndim < 2)
      return;
    y = emit(m, "layer_norm", x, "");
    a = y->size[y->ndim - 1];
    say(m, " normalized_shape=%llu\n", (unsigned long long)a);
    layer(m, y, x, 2 * a);
    y->more = 8 * (product(y) / a);
    break;
  case 5: /* and for every channel */
    if ((x = some(m, 2, 4)) < 0)
      return;
    y = emit(m, "batch_norm", x, "\n");
    layer(m, y, x, 2 * y->size[1]);
    y->more = 8 * y->size[1];
    break;
  case 6: /* two of one shape */
    for (w = (int)m->n - 1; w >= 0; w--)
      if (m->v[w].ndim == m->v[x].ndim &&
          !memcmp(m->v[w].size, m->v[x].size, m->v[x].ndim * sizeof(wide)))
        break;
    if (w < 0)
      return;
    k = pick(m, 2);
    y = emit(m, k ? "add" : "mul", x, "");
    say(m, " v%d\n", w);
    needs_plain(m, x), needs_plain(m, w);
    fresh(m, y, x, "");
    if (m->v[m->v[w].now].grad) {
      y->from[1] = (int)m->v[w].now;
      if (!k)
        y->keep[0] = (int)m->v[x].storage;
    }
    if (!k && y->grad)
      y->keep[1] = (int)m->v[w].storage;
    y->grad |= m->v[m->v[w].now].grad;
    break;
  case 7: /* scalar, in place or not */
    k = pick(m, 2) && !m->leaf;
    y = emit(m, pick(m, 2) ? "mul" : "add", x, k ? " scalar=1 inplace=1\n" : " scalar=1\n");
    if (!k)
      fresh(m, y, x, "");
    else { /* views of it get a new history too */
      m->inplace = 1;
      for (w = 0; w < (int)m->n - 1; w++)
        m->written |= w != x && m->v[w].storage == y->storage && m->v[w].now != m->v[x].now;
      for (w = 0; w < (int)m->n - 1; w++)
        if (m->v[w].storage == y->storage)
          m->v[w].now = m->n - 1;
    }
    break;
  case 8: /* transpose behind the batch */
    if (m->v[x].ndim < 3)
      return;
    axis = 1 + pick(m, m->v[x].ndim - 2);
    y = emit(m, "transpose", x, "");
    say(m, " dim0=%u dim1=%u\n", axis, axis + 1);
    a = y->size[axis], y->size[axis] = y->size[axis + 1], y->size[axis + 1] = a;
    y->plain = 0;
    break;
  case 9: /* flatten behind the batch */
    if (m->v[x].ndim < 3)
      return;
    y = emit(m, "flatten", x, " start_dim=1\n");
    needs_plain(m, x);
    y->own = m->v[x].plain - 1;
    for (k = 2; k < y->ndim; k++)
      y->size[1] *= y->size[k];
    y->ndim = 2;
    break;
  case 10: /* cat along an axis behind the batch */
    if (m->v[x].ndim < 2)
      return;
    axis = 1 + pick(m, m->v[x].ndim - 1);
    y = emit(m, "cat", x, "");
    say(m, " v%d dim=%u\n", x, axis);
    y->size[axis] *= 2;
    fresh(m, y, x, "");
    break;
  case 11: /* slice behind the batch */
    if (m->v[x].ndim < 2)
      return;
    axis = 1 + pick(m, m->v[x].ndim - 1);
    a = m->v[x].size[axis] / 2;
    if (!a)
      return;
    y = emit(m, "slice", x, "");
    say(m, " dim=%u end=%llu\n", axis, (unsigned long long)a);
    y->size[axis] = a;
    y->plain = 0;
    break;
  case 12:
    y = emit(m, pick(m, 2) ? "softmax" : "log_softmax", x, " dim=-1\n");
    needs_plain(m, x);
    fresh(m, y, x, "y");
    break;
  case 13: /* reduction behind the batch */
    if (m->v[x].ndim < 2)
      return;
    axis = 1 + pick(m, m->v[x].ndim - 1);
    y = emit(m, pick(m, 2) ? "sum" : "mean", x, "");
    say(m, " dim=%u keepdim=1\n", axis);
    y->size[axis] = 1;
    needs_plain(m, x);
    fresh(m, y, x, "");
    break;
  case 14: /* product with itself transposed */
    if (m->v[x].ndim < 3)
      return;
    y = emit(m, "transpose", x, " dim0=-2 dim1=-1\n");
    k = y->ndim;
    a = y->size[k - 1], y->size[k - 1] = y->size[k - 2], y->size[k - 2] = a;
    w = (int)m->n - 1;
    y = emit(m, "matmul", x, "");
    say(m, " v%d\n", w);
    y->size[k - 1] = y->size[k - 2];
    y->from[1] = w;
    fresh(m, y, x, "?");
    break;
  case 15: /* pool; the largest one's index is 8 bytes */
    if ((x = some(m, 4, 4)) < 0 || m->v[x].size[2] < 2 || m->v[x].size[3] < 2)
      return;
    k = pick(m, 2);
    y = emit(m, k ? "max_pool2d" : "avg_pool2d", x, " kernel_size=2\n");
    y->size[2] = (y->size[2] - 2) / 2 + 1;
    y->size[3] = (y->size[3] - 2) / 2 + 1;
    needs_plain(m, x);
    y->more = k ? 8 * product(y) : 0;
    fresh(m, y, x, "x");
    break;
  case 16: /* attention on itself */
    if ((x = some(m, 4, 4)) < 0)
      return;
    y = emit(m, "scaled_dot_product_attention", x, "");
    /* rows and keys are padded to blocks of kernels, of 256 at most; each row has its keys or, if
       it is wider, its width in 32 bits */
    a = y->size[0] * y->size[1] * (y->size[2] + 256);
    m->scores += a >> 80                   ? a
                 : y->size[2] > y->size[3] ? a * (y->size[2] + 256)
                                           : a * (y->size[3] + 512);
    say(m, " v%d v%d\n", x, x);
    fresh(m, y, x, "?");
    break;
  default:
    if (m->v[x].ndim > 6)
      return;
    y = emit(m, "unsqueeze", x, " dim=1\n");
    for (k = y->ndim; k > 1; k--)
      y->size[k] = y->size[k - 1];
    y->size[1] = 1;
    y->ndim++;
  }
}

/* The text for this batch; the same choices whatever the batch is. */
static void build(model *m, const uint8_t *data, size_t size, wide batch) {
  unsigned i, k, nodes;
  int huge;
  memset(m, 0, sizeof *m);
  m->data = data, m->left = size;
  huge = pick(m, 4) == 3;
  say(m, "dim N=%llu\n", (unsigned long long)batch);
  for (i = 0; i < 2; i++) {
    value *v = m->v + m->n;
    wide bytes = 4;
    v->ndim = i ? 4 : 2 + pick(m, 3);
    v->size[0] = batch;
    say(m, "input v%u f32 [N", m->n);
    for (k = 1; k < v->ndim; k++) {
      v->size[k] = number(m, huge);
      say(m, ",%llu", (unsigned long long)v->size[k]);
    }
    if (pick(m, 4) == 3)
      m->leaf = v->grad = 1, say(m, "] grad=1\n");
    else
      say(m, "]\n");
    for (k = 0; k < v->ndim; k++)
      bytes *= v->size[k];
    m->inputs += bytes;
    v->storage = m->nstorage++;
    v->now = m->n;
    v->from[0] = v->from[1] = v->keep[0] = v->keep[1] = v->keep[2] = -1;
    v->plain = 1;
    v->own = -1;
    m->n++;
  }
  nodes = 1 + pick(m, 24);
  for (i = 0; i < nodes && m->n < 60; i++)
    node(m, huge);
  /* a layer, so that there is something to train, and a loss */
  i = (unsigned)some(m, 1, VRAM_MAX_AXES);
  {
    value *y = emit(m, "linear", (int)i, " out_features=3\n");
    y->params = y->size[y->ndim - 1] * 3 + 3;
    y->size[y->ndim - 1] = 3;
    layer(m, y, (int)i, y->params);
    say(m, "mean loss v%u\n", m->n - 1);
  }
}

/* Bytes of its own that each value of m has, as the report of the nodes says. */
static int outputs_agree(const model *m, const vram_graph *g, const vram_node_report *report) {
  const vram_node *n;
  int ok = 1;
  for (n = g->first; n; n = n->next) {
    unsigned k = 0, i;
    if (!n->nout || n->out->name[0] != 'v')
      continue;
    for (i = 1; i < n->out->name_len; i++)
      k = k * 10 + (unsigned)(n->out->name[i] - '0');
    if (m->v[k].own < 0)
      continue;
    ok &= report[n->index].output_bytes == (m->v[k].own ? m->storage[m->v[k].storage] : 0);
  }
  return ok;
}

/* What backward reaches from the last value: bytes of gradients of parameters, and what
   is saved. */
static void reached(const model *m, wide *gradients, wide *saved) {
  int on[64] = {0};
  uint8_t kept[130] = {0};
  unsigned i, k;
  *gradients = *saved = 0;
  on[m->n - 1] = 1;
  for (i = m->n; i-- > 0;) {
    const value *v = m->v + i;
    if (!on[i])
      continue;
    for (k = 0; k < 2; k++)
      if (v->from[k] >= 0)
        on[v->from[k]] = 1;
    *gradients += 4 * v->params;
    if (v->grad)
      *saved += v->more;
    for (k = 0; v->grad && k < 3; k++)
      if (v->keep[k] >= 0 && !kept[v->keep[k]])
        kept[v->keep[k]] = 1, *saved += m->storage[v->keep[k]];
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const modes[] = {"infer",
                                      "train_fp32_sgd",
                                      "train_amp_bf16_adamw",
                                      "train_fp32_adamw.first",
                                      "train_amp_fp16_adamw_accumulate2",
                                      "train_bf16_adamw_fused",
                                      "train_fp32_adamw_keepgrads"};
  const wide most = (wide)INT64_MAX;
  static model m, larger;
  play p, q;
  wide biggest = 0, total = 0, gradients, saved;
  unsigned i;
  size_t mode;
  vram_step_options o;
  vram_result r;
  int grown;
  if (size < 8)
    return 0;
  memset(&p, 0, sizeof p);
  memset(&q, 0, sizeof q);
  mode = data[0] % (sizeof modes / sizeof *modes);
  build(&m, data + 1, size - 1, 2 + data[1] % 5); /* an axis of 1 takes other paths */
  for (i = 0; i < m.n; i++) {
    wide n = product(m.v + i);
    biggest = n > biggest ? n : biggest;
    total += n >> 100 ? n : 4 * n;
  }
  if (getenv("SHOW"))
    fputs(m.text, stderr);
  r = play_parse(&p, m.text, m.len, NULL, 0);
  if (r) {
    MUST(r == VRAM_ERR_OVERFLOW); /* the text is right */
    MUST(biggest > most / 64 || m.params > most / 64 || m.scores > most / 64);
    play_end(&p);
    return 0;
  }
  MUST(biggest <= most);
  for (i = 0; i < m.n; i++) { /* every shape */
    const vram_node *n;
    const vram_value *v = NULL;
    char name[8];
    uint32_t k;
    snprintf(name, sizeof name, "v%u", i);
    for (k = 0; k < p.graph.ninput; k++)
      if (p.graph.input[k]->name_len == strlen(name) &&
          !memcmp(p.graph.input[k]->name, name, strlen(name)))
        v = p.graph.input[k];
    for (n = p.graph.first; n; n = n->next)
      if (n->nout && n->out->name_len == strlen(name) && !memcmp(n->out->name, name, strlen(name)))
        v = n->out; /* an op that is written out: its last one */
    MUST(v && v->d->ndim == m.v[i].ndim && v->d->numel == product(m.v + i));
    for (k = 0; k < v->d->ndim; k++)
      MUST((wide)v->d->v[k] == m.v[i].size[k]);
  }
  play_mode(modes[mode], &o);
  r = play_step(&p, &o);
  if (r == VRAM_ERR_UNSUPPORTED && m.inplace && o.train) {
    play_end(&p);
    return 0;
  }
  if (r) {
    MUST(r == VRAM_ERR_OVERFLOW);
    MUST(total + m.params * 16 + m.inputs + m.scores > most / 256);
    play_end(&p);
    return 0;
  }
  {
    unsigned bytes = o.dtype ? 2 : 4;
    MUST(p.report.params_bytes == m.params * bytes);
    MUST(p.report.inputs_bytes == m.inputs / 4 * bytes);
    if (o.train)
      MUST(p.report.gradients_bytes <= p.report.params_bytes);
    MUST(p.report.peak_requested_bytes >= m.params * bytes);
    if (o.train && !m.written) {
      reached(&m, &gradients, &saved);
      MUST(p.report.gradients_bytes == gradients / 4 * bytes);
      /* one or two moments for every parameter that has a gradient; step counts are on the host */
      if (strstr(modes[mode], "fp32"))
        MUST(p.report.optimizer_bytes == (strstr(modes[mode], "sgd") ? 1u : 2u) * gradients);
      if (strstr(modes[mode], "fp32") && !m.odd)
        MUST(p.report.saved_bytes == saved);
    }
    if (strstr(modes[mode], "train_fp32") && !m.odd && !m.written) {
      vram_step_options quiet = o;
      quiet.event = NULL;
      quiet.nodes = (vram_node_report *)calloc(p.graph.nnode + 1u, sizeof *quiet.nodes);
      MUST(quiet.nodes);
      MUST(!vram_step(&p.graph, &quiet, p.scratch, p.scratch_bytes, &p.report, &p.error));
      MUST(outputs_agree(&m, &p.graph, quiet.nodes));
      free(quiet.nodes);
    }
  }
  property_events(&p, &o);
  property_again(&p, &o);
  property_replayed(&p, &o);
  build(&larger, data + 1, size - 1, 3 + data[1] % 5);
  grown =
      play_parse(&q, larger.text, larger.len, NULL, 0) == VRAM_OK && play_step(&q, &o) == VRAM_OK;
  if (grown) {
    /* compared only where both take the same path: sizes that are equal by chance may differ then
     */
    property_grown(&p, &q);
  }
  MUST(!test_failed);
  play_end(&p);
  play_end(&q);
  return 0;
}
