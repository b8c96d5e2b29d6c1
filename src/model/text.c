/* >>model/text    a graph as the text form */
#include "api/convert.h"
#include "model/model.h"

/* A text that is written. */
typedef struct vram__text_pen {
  const vram_graph *g;
  const vram_sink *sink;
  vram__span *name; /* of each value */
  uint32_t *table;  /* by hash: 1 + the index of a value that has such a name */
  uint8_t *at, *end;
  vram_error *err;
  uint32_t mask, n;
  uint8_t failed;
  char line[1024];
} vram__text_pen;

static void vram__text_flush(vram__text_pen *p) {
  if (p->n && !p->failed && p->sink->write(p->sink->user, p->line, p->n)) {
    p->failed = 1;
    vram__error_begin(p->err, VRAM_ERR_WRITE, 0, "the sink has ended the text");
  }
  p->n = 0;
}

static void vram__text_letters(vram__text_pen *p, const char *s, uint32_t len) {
  uint32_t i;
  for (i = 0; i < len; i++) {
    if (p->n == sizeof p->line)
      vram__text_flush(p);
    p->line[p->n++] = s[i];
  }
}

static void vram__text_words_put(vram__text_pen *p, const char *z) {
  vram__text_letters(p, z, vram__text_len(z));
}

static void vram__text_int(vram__text_pen *p, int64_t v) {
  char to[24];
  uint32_t n = 0;
  vram__text_puti(to, sizeof to, &n, v);
  vram__text_letters(p, to, n);
}

/* Units of 10^-9. */
static void vram__text_decimal(vram__text_pen *p, int64_t v) {
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v, part = u % (uint64_t)VRAM__ONE, unit;
  if (v < 0)
    vram__text_words_put(p, "-");
  if (u == (uint64_t)INT64_MAX) {
    vram__text_words_put(p, "inf");
    return;
  }
  vram__text_int(p, (int64_t)(u / (uint64_t)VRAM__ONE));
  if (part)
    vram__text_words_put(p, ".");
  for (unit = (uint64_t)VRAM__ONE / 10; part; unit /= 10) {
    vram__text_int(p, (int64_t)(part / unit));
    part %= unit;
  }
}

/* What the text form has no line for; of node n. */
static void vram__text_refuse(vram__text_pen *p, const vram_node *n, const char *what) {
  const vram__span label = vram__node_label(n);
  if (p->failed)
    return;
  p->failed = 1;
  vram__error_begin(p->err, VRAM_ERR_UNSUPPORTED, 0, what);
  if (p->err) {
    vram__error_text(p->err, " (");
    vram__error_quote(p->err, label.text, label.len);
    vram__error_text(p->err, ")");
  }
}

/* ---- names */

static void vram__text_name_put(vram__text_pen *p, const char *s, uint32_t len) {
  uint32_t i;
  for (i = 0; i < len && p->at < p->end; i++)
    *p->at++ = (uint8_t)s[i];
  p->failed |= i < len;
}

static void vram__text_name_number(vram__text_pen *p, uint32_t v) {
  char to[12];
  uint32_t n = 0;
  vram__text_putu(to, sizeof to, &n, v);
  vram__text_name_put(p, to, n);
}

/* Rounds of loops stand in front, where wrappers look for the number of a layer. */
static void vram__text_rounds(vram__text_pen *p, const vram__round *r) {
  if (!r)
    return;
  vram__text_rounds(p, r->up);
  vram__text_name_put(p, "loop.", 5);
  vram__text_name_number(p, r->round);
  vram__text_name_put(p, ".", 1);
}

/* The name of v is another one than those before; 0: it is not. */
static int vram__text_name_new(vram__text_pen *p, uint32_t index) {
  const vram__span s = p->name[index];
  uint32_t i = vram__hash(s.text, s.len) & p->mask;
  for (; p->table[i]; i = (i + 1) & p->mask) {
    const vram__span other = p->name[p->table[i] - 1];
    if (other.len == s.len && vram__text_equal(other.text, s.text, s.len))
      return 0;
  }
  p->table[i] = index + 1;
  return 1;
}

/* Its own, or where another value has that, with its number behind. */
static void vram__text_name(vram__text_pen *p, const vram_value *v) {
  vram__span *s = p->name + v->index;
  s->text = (const char *)p->at;
  vram__text_rounds(p, v->node ? v->node->round : NULL);
  vram__text_name_put(p, v->name, v->name_len);
  s->len = (uint32_t)(p->at - (const uint8_t *)s->text);
  while (!p->failed && !vram__text_name_new(p, v->index)) {
    vram__text_name_put(p, "_", 1);
    vram__text_name_number(p, v->index);
    s->len = (uint32_t)(p->at - (const uint8_t *)s->text);
  }
}

static void vram__text_value(vram__text_pen *p, const vram_value *v) {
  vram__text_letters(p, p->name[v->index].text, p->name[v->index].len);
}

/* ---- keys */

static void vram__text_dtype(vram__text_pen *p, int64_t dtype) {
  vram__text_words_put(p, dtype != VRAM_DTYPE_MODEL ? vram__dtype_rows[dtype].name
                          : p->g->dtype             ? "model"
                                                    : "f32");
}

static void vram__text_word(vram__text_pen *p, const vram_node *n, int64_t word) {
  if (word < VRAM__NO_WORD)
    vram__text_words_put(p, vram__word_table[word]);
  else
    vram__text_refuse(p, n, "a key with a word that is not known");
}

static void vram__text_list(vram__text_pen *p, const int64_t *v, uint32_t count, int in_brackets) {
  uint32_t i;
  if (in_brackets)
    vram__text_words_put(p, "[");
  for (i = 0; i < count; i++) {
    if (i)
      vram__text_words_put(p, ",");
    if (v[i] == VRAM__SAME)
      vram__text_words_put(p, "same");
    else
      vram__text_int(p, v[i]);
  }
  if (in_brackets)
    vram__text_words_put(p, "]");
}

static void vram__text_key(vram__text_pen *p, const vram_node *n, uint32_t key, const int64_t *v,
                           uint32_t count) {
  const char kind = vram__key_table[key].kind;
  uint32_t i;
  vram__text_words_put(p, " ");
  vram__text_words_put(p, vram__key_table[key].name);
  vram__text_words_put(p, "=");
  for (i = 0; kind == 'F' && i < count; i++) {
    if (i)
      vram__text_words_put(p, ",");
    vram__text_decimal(p, v[i]);
  }
  if (kind == 'W')
    vram__text_word(p, n, *v);
  else if (kind == 'D')
    vram__text_dtype(p, *v);
  else if (kind == 'N')
    vram__text_value(p, ((const vram_node *)(uintptr_t)*v)->out);
  else if (kind == 'Q')
    vram__text_letters(p, (const char *)(uintptr_t)v[0], (uint32_t)v[1]);
  else if (kind != 'F')
    vram__text_list(p, v, count, kind == 'S' || !count);
}

/* ---- lines */

static void vram__text_values(vram__text_pen *p, const char *word, vram_value *const *v,
                              uint32_t n) {
  uint32_t i;
  vram__text_words_put(p, word);
  for (i = 0; i < n; i++) {
    vram__text_words_put(p, " ");
    vram__text_value(p, v[i]);
  }
}

static void vram__text_modules(vram__text_pen *p, const char *word, const vram__unit_word *w) {
  for (; w; w = w->next) {
    vram__text_words_put(p, word);
    vram__text_letters(p, w->text, w->len);
    vram__text_words_put(p, "\n");
  }
}

static void vram__text_head(vram__text_pen *p) {
  const vram_graph *g = p->g;
  uint32_t i;
  if (g->name) {
    vram__text_words_put(p, "model ");
    vram__text_letters(p, g->name, g->name_len);
    if (g->dtype) {
      vram__text_words_put(p, " dtype=");
      vram__text_words_put(p, vram__dtype_rows[g->dtype].name);
    }
    vram__text_words_put(p, "\n");
  }
  if (g->rules) {
    vram__text_words_put(p, "rules ");
    vram__text_words_put(p, vram_rules_name(g->rules));
    vram__text_words_put(p, "\n");
  }
  for (i = 0; i < g->ninput; i++) {
    const vram_value *v = g->input[i];
    vram__text_values(p, "input", g->input + i, 1);
    vram__text_words_put(p, " ");
    vram__text_dtype(p, v->flags & VRAM__OF_MODEL ? VRAM_DTYPE_MODEL : v->dtype);
    vram__text_words_put(p, " ");
    vram__text_list(p, v->d->v, v->d->ndim, 1);
    vram__text_words_put(p, v->flags & VRAM__GRAD ? " grad=1\n" : "\n");
  }
  vram__text_modules(p, "unit ", g->unit_first);
  vram__text_modules(p, "stage ", g->stage_first);
}

/* How the lines from here on run. */
static void vram__text_context(vram__text_pen *p, const vram_node *n, const vram_node *before) {
  const uint8_t quiet = before ? before->flags & VRAM__NO_GRAD : 0;
  if ((n->flags & VRAM__NO_GRAD) != quiet)
    vram__text_words_put(p, quiet ? "enable_grad\n" : "no_grad\n");
  if (n->autocast != (before ? before->autocast : 0))
    vram__text_words_put(p, !n->autocast                        ? "autocast on\n"
                            : n->autocast == VRAM__AUTOCAST_OFF ? "autocast off\n"
                            : n->autocast == VRAM_BF16          ? "autocast bf16\n"
                                                                : "autocast fp16\n");
}

static void vram__text_op(vram__text_pen *p, const vram_node *n) {
  const int64_t *a;
  uint32_t i;
  vram__text_words_put(p, vram__op_at(n->op)->name);
  for (i = 0; i < n->nout; i++) {
    vram__text_words_put(p, i ? "," : " ");
    vram__text_value(p, n->out + i);
  }
  vram__text_values(p, "", n->in, n->nin);
  for (a = n->attr; a && *a; a += 1 + i) {
    i = (uint32_t)(*a >> 8) & 0xffffu;
    vram__text_key(p, n, (uint32_t)(*a & 0xff), a + 1, i);
  }
  vram__text_words_put(p, "\n");
}

/* Blocks of checkpoint() that begin at n. */
static void vram__text_blocks_begin(vram__text_pen *p, const vram_node *n) {
  const vram_checkpoint *b;
  uint32_t i;
  for (b = p->g->checkpoint_first; b; b = b->next) {
    if (b->first != n)
      continue;
    vram__text_values(p, "checkpoint", b->arg, b->narg - b->nheld);
    for (i = b->narg - b->nheld; i < b->narg; i++) {
      vram__text_words_put(p, i == b->narg - b->nheld ? " holds=" : ",");
      vram__text_value(p, b->arg[i]);
    }
    if (b->flags & VRAM_CHECKPOINT_REENTRANT)
      vram__text_words_put(p, " reentrant=1");
    if (b->flags & VRAM_CHECKPOINT_FORGETS_RNG)
      vram__text_words_put(p, " preserve_rng_state=0");
    if (b->flags & VRAM_CHECKPOINT_RUNS_ON)
      vram__text_words_put(p, " early_stop=0");
    vram__text_words_put(p, "\n");
  }
}

/* Those that end with n, the innermost first. */
static void vram__text_blocks_end(vram__text_pen *p, const vram_node *n, const vram_checkpoint *b) {
  if (!b)
    return;
  vram__text_blocks_end(p, n, b->next);
  if (!b->first || b->last != n)
    return;
  vram__text_values(p, "end", b->out, b->nout);
  vram__text_words_put(p, "\n");
}

/* Does a block that ends with the node before say already that these values live until here? */
static int vram__text_is_said(const vram__text_pen *p, const vram_node *n,
                              const vram_node *before) {
  const vram_checkpoint *b;
  uint32_t i, k, said = 0;
  for (i = 0; i < n->nin; i++)
    for (b = p->g->checkpoint_first; b; b = b->next)
      for (k = 0; b->first && b->last == before && k < b->nout; k++)
        if (b->out[k] == n->in[i]) {
          said++;
          k = b->nout;
        }
  return said >= n->nin;
}

static void vram__text_node(vram__text_pen *p, const vram_node *n, const vram_node *before) {
  vram__text_context(p, n, before);
  vram__text_blocks_begin(p, n);
  if (n->op < VRAM_OP_COUNT)
    vram__text_op(p, n);
  else if (n->op == VRAM__OP_drop || n->op == VRAM__OP_end) {
    if (!vram__text_is_said(p, n, before)) {
      vram__text_values(p, "drop", n->in, n->nin);
      vram__text_words_put(p, "\n");
    }
  } else if (n->op == VRAM__OP_keep || n->op == VRAM__OP_store || n->op == VRAM__OP_requires_grad) {
    vram__text_values(p,
                      n->op == VRAM__OP_keep    ? "keep"
                      : n->op == VRAM__OP_store ? "store"
                                                : "requires_grad",
                      n->in, n->nin);
    vram__text_words_put(p, "\n");
  } else if (n->op == VRAM__OP_backward) {
    vram__text_values(p, "backward", n->in, n->nin);
    vram__text_words_put(p, "\n");
  } else
    vram__text_refuse(p, n, "a line of a training step, which is not written");
  vram__text_blocks_end(p, n, p->g->checkpoint_first);
  if (n == p->g->returned) {
    vram__text_values(p, "return", p->g->result, p->g->nresult);
    vram__text_words_put(p, "\n");
  }
}

/* Parameters in another order than that of the lines. */
static void vram__text_order(vram__text_pen *p) {
  const vram_param *q, *before = NULL;
  uint32_t count = 0;
  int moved = 0;
  for (q = p->g->param_first; q; q = q->next) {
    moved |= before && before->index > q->index;
    before = q;
  }
  for (before = NULL, q = p->g->param_first; moved && q; before = q, q = q->next)
    if (!before || before->node != q->node) {
      vram__text_words_put(p, !count ? "order" : count % 8 ? "" : "\norder");
      vram__text_values(p, "", (vram_value *const *)&q->node->out, 1);
      count++;
    }
  if (count)
    vram__text_words_put(p, "\n");
}

/* What the caller keeps, and what inference gives. */
static void vram__text_results(vram__text_pen *p, const char *word, uint8_t flag,
                               const vram_value *first) {
  const vram_node *n;
  uint32_t i;
  if (!first || !(first->flags & flag))
    return;
  vram__text_words_put(p, word);
  vram__text_words_put(p, " ");
  vram__text_value(p, first);
  for (i = 0; i < p->g->ninput; i++)
    if ((p->g->input[i]->flags & flag) && p->g->input[i] != first) {
      vram__text_words_put(p, " ");
      vram__text_value(p, p->g->input[i]);
    }
  for (n = p->g->first; n; n = n->next)
    for (i = 0; i < n->nout; i++)
      if ((n->out[i].flags & flag) && n->out + i != first) {
        vram__text_words_put(p, " ");
        vram__text_value(p, n->out + i);
      }
  vram__text_words_put(p, "\n");
}

static uint32_t vram__text_slots(const vram_graph *g) {
  uint32_t slots = 16;
  while (slots / 2 < g->nvalue)
    slots *= 2;
  return slots;
}

VRAM_API uint64_t vram_graph_write_bytes(const vram_graph *g) {
  const uint64_t each = sizeof(vram__span) + VRAM_MAX_NAME + 17 * UINT64_C(16) + 16;
  return vram__sum_or_overflow(vram__product_or_overflow(g->nvalue, each),
                               vram__text_slots(g) * (uint64_t)sizeof(uint32_t) + 16);
}

VRAM_API vram_result vram_graph_write(const vram_graph *g, void *scratch, uint64_t bytes,
                                      const vram_sink *sink, vram_error *err) {
  const uint64_t slots = vram__text_slots(g);
  const vram_node *n, *before = NULL;
  vram__text_pen p;
  uint32_t i;
  vram__error_clear(err);
  vram__memory_zero(&p, sizeof p);
  if (g->error.code || bytes < vram_graph_write_bytes(g)) {
    vram__error_begin(err, g->error.code ? g->error.code : VRAM_ERR_MEMORY, 0,
                      g->error.code ? "a graph with an error" : "too little memory for the names");
    return g->error.code ? g->error.code : VRAM_ERR_MEMORY;
  }
  p.g = g;
  p.sink = sink;
  p.err = err;
  p.name = (vram__span *)scratch;
  p.table = (uint32_t *)(void *)(p.name + g->nvalue);
  p.at = (uint8_t *)(p.table + slots);
  p.end = (uint8_t *)scratch + bytes;
  p.mask = (uint32_t)slots - 1;
  vram__memory_zero(p.table, slots * sizeof *p.table);
  for (i = 0; i < g->ninput; i++)
    vram__text_name(&p, g->input[i]);
  for (n = g->first; n; n = n->next)
    for (i = 0; i < n->nout; i++)
      vram__text_name(&p, n->out + i);
  vram__text_head(&p);
  for (n = g->first; n && !p.failed; before = n, n = n->next)
    vram__text_node(&p, n, before);
  vram__text_order(&p);
  if (g->noutput)
    vram__text_results(&p, "output", VRAM__OUTPUT, g->root);
  vram__text_results(&p, "infer", VRAM__INFERRED, g->inferred);
  vram__text_flush(&p);
  if (!p.failed)
    return VRAM_OK;
  return err && err->code ? err->code : VRAM_ERR_WRITE;
}
