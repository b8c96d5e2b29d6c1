/* >>convert/draft    a text that is being made: names, lines, sizes as products of dims */
#include "convert/convert.h"

VRAM__FN void *vram__draft_take(vram__draft *d, uint64_t bytes) {
  return vram__file_take(&d->room, &d->r, bytes);
}

/* A draft in the caller's memory, half of which is the graph's; NULL: too little. */
VRAM__FN vram__draft *vram__draft_begin(void *mem, uint64_t bytes, vram_error *e) {
  vram_file room;
  vram__reader r;
  vram__draft *d;
  vram__memory_zero(&r, sizeof r);
  vram__error_clear(e);
  r.error = e;
  vram_file_init(&room, mem, mem ? bytes : 0);
  d = (vram__draft *)vram__file_take(&room, &r, sizeof *d);
  if (!d)
    return NULL;
  vram__memory_zero(d, offsetof(vram__draft, in));
  d->graph_bytes = (room.cap - room.used) / 2;
  d->graph_mem = vram__file_take(&room, &r, d->graph_bytes);
  d->room = room;
  d->r = r;
  return d->graph_mem ? d : NULL;
}

/* ---- names ---- */

/* Letters of a name without those of what was fused into it: TFLite joins them with `;`. */
VRAM__FN uint32_t vram__draft_name_len(const char *name, uint32_t len) {
  uint32_t n = 0;
  while (n < len && (!n || name[n] != ';'))
    n++;
  return n;
}

/* A name of the text like this one, which no other value has; NULL: no memory. */
VRAM__FN const char *vram__draft_label(vram__draft *d, const char *name, uint32_t len) {
  enum { TAIL = 12 };
  uint32_t i, n = 0, tries;
  char *to;
  len = vram__draft_name_len(name, len);
  if (len > VRAM_MAX_NAME - TAIL)
    len = VRAM_MAX_NAME - TAIL;
  to = (char *)vram__draft_take(d, len + TAIL + 2);
  if (!to)
    return NULL;
  while (len && *name == '/')
    name++, len--;
  if (!len || !vram__name_start(*name))
    to[n++] = '_';
  for (i = 0; i < len; i++) {
    const char c = name[i];
    to[n++] = c;
    if (!vram__name_start(c) && !vram__digit(c) && c != '.' && c != '/')
      to[n - 1] = '_';
  }
  len = n;
  to[n] = 0;
  for (tries = 2; !vram__names_add(&d->room, &d->r, &d->labels, to, n, d) && !d->r.result;
       tries++) {
    n = len;
    vram__text_puts(to, len + TAIL, &n, "_");
    vram__text_putu(to, len + TAIL, &n, tries);
  }
  return d->r.result ? NULL : to;
}

/* ---- a line ---- */

VRAM__FN void vram__draft_letters(vram__draft *d, const char *s, uint32_t n) {
  if (n >= VRAM__DRAFT_LINE - d->text_len) {
    vram__reader_fail(&d->r, VRAM_ERR_LIMIT, 0, "a line of more than 16 KiB");
    return;
  }
  vram__memory_copy(d->text + d->text_len, s, n);
  d->text_len += n;
}

VRAM__FN void vram__draft_text(vram__draft *d, const char *z) {
  vram__draft_letters(d, z, vram__text_len(z));
}

/* The same, for the text and for the node's keys. */
static void vram__draft_both(vram__draft *d, const char *z) {
  vram__draft_text(d, z);
  vram__text_puts(d->keys, sizeof d->keys, &d->keys_len, z);
}

VRAM__FN void vram__draft_number(vram__draft *d, int64_t v) {
  static const char mark[] = {VRAM__DRAFT_MARK};
  if (d->nnumber == VRAM__DRAFT_NUMBERS) {
    vram__reader_fail(&d->r, VRAM_ERR_LIMIT, 0, "a line of more than 1024 numbers");
    return;
  }
  d->number[d->nnumber++] = v;
  vram__draft_letters(d, mark, 1);
  vram__text_puti(d->keys, sizeof d->keys, &d->keys_len, v);
}

VRAM__FN void vram__draft_open(vram__draft *d) {
  d->nin = d->nnumber = d->text_len = d->keys_len = 0;
  d->keys[0] = 0;
}

/* Later runs: holds the line against that of the first. */
static void vram__draft_compare(vram__draft *d) {
  vram__draft_line *const l = d->at;
  const uint32_t shift = 4 * (d->run - 1);
  uint32_t i, k;
  if (!l || l->len != d->text_len || l->count != d->nnumber ||
      !vram__text_equal(l->text, d->text, l->len)) {
    d->differs = 1;
    return;
  }
  d->at = l->next;
  for (i = 0; i < l->count; i++) {
    int64_t v = l->number[i];
    for (k = 0; k < 8 && v != d->number[i] && v && v > -(INT64_C(1) << 40) && v < INT64_C(1) << 60;
         k++)
      v *= 2;
    if (v != d->number[i])
      d->differs = 1;
    l->power[i] = (l->power[i] & ~(UINT32_C(15) << shift)) | k << shift;
  }
}

/* The line is complete. */
VRAM__FN void vram__draft_close(vram__draft *d) {
  vram__draft_line *l;
  char *text;
  vram__draft_letters(d, "\n", 1);
  if (d->r.result)
    return;
  if (d->run) {
    vram__draft_compare(d);
    return;
  }
  l = (vram__draft_line *)vram__draft_take(d, sizeof *l);
  text = (char *)vram__draft_take(d, d->text_len);
  if (!l || !text)
    return;
  vram__memory_zero(l, sizeof *l);
  l->number = (int64_t *)vram__draft_take(d, 8 * (uint64_t)d->nnumber);
  l->power = (uint32_t *)vram__draft_take(d, 4 * (uint64_t)d->nnumber);
  if (!l->number || !l->power)
    return;
  vram__memory_copy(text, d->text, d->text_len);
  vram__memory_copy(l->number, d->number, 8 * (uint64_t)d->nnumber);
  vram__memory_zero(l->power, 4 * (uint64_t)d->nnumber);
  l->text = text;
  l->len = d->text_len;
  l->count = d->nnumber;
  if (d->last)
    d->last->next = l;
  else
    d->first = l;
  d->last = l;
}

/* ---- a node ---- */

VRAM__FN void vram__draft_op(vram__draft *d, vram_op op) {
  vram__draft_open(d);
  d->op = op;
}

VRAM__FN void vram__draft_in(vram__draft *d, vram_value *v) {
  if (d->nin == VRAM__DRAFT_INPUTS)
    vram__reader_fail(&d->r, VRAM_ERR_LIMIT, 0, "a node of more than 1024 inputs");
  else
    d->in[d->nin++] = v;
}

static void vram__draft_key(vram__draft *d, const char *key) {
  vram__draft_both(d, " ");
  vram__draft_both(d, key);
  vram__draft_both(d, "=");
}

VRAM__FN void vram__draft_word(vram__draft *d, const char *key, const char *word) {
  vram__draft_key(d, key);
  vram__draft_both(d, word);
}

VRAM__FN void vram__draft_int(vram__draft *d, const char *key, int64_t v) {
  vram__draft_ints(d, key, &v, 1);
}

VRAM__FN void vram__draft_ints(vram__draft *d, const char *key, const int64_t *v, uint32_t n) {
  uint32_t i;
  vram__draft_key(d, key);
  for (i = 0; i < n; i++) {
    if (i)
      vram__draft_both(d, ",");
    vram__draft_number(d, v[i]);
  }
}

/* One for all axes where they are the same. */
VRAM__FN void vram__draft_axes(vram__draft *d, const char *key, const int64_t *v, uint32_t n) {
  uint32_t i = 1;
  while (i < n && v[i] == v[0])
    i++;
  vram__draft_ints(d, key, v, i == n ? 1 : n);
}

VRAM__FN void vram__draft_shape(vram__draft *d, const int64_t *v, uint32_t n) {
  uint32_t i;
  vram__draft_both(d, " shape=[");
  for (i = 0; i < n; i++) {
    if (i)
      vram__draft_both(d, ",");
    vram__draft_number(d, v[i]);
  }
  vram__draft_both(d, "]");
}

/* With six digits behind the point; a number that is too large is left out. */
VRAM__FN void vram__draft_real(vram__draft *d, const char *key, double v) {
  const double size = v < 0 ? -v : v;
  char text[32];
  uint32_t n = 0;
  int64_t parts, k;
  if (!(size < 1e9))
    return;
  parts = (int64_t)(size * 1e6 + 0.5);
  if (v < 0 && parts)
    vram__text_puts(text, sizeof text, &n, "-");
  vram__text_puti(text, sizeof text, &n, parts / 1000000);
  parts %= 1000000;
  if (parts) {
    vram__text_puts(text, sizeof text, &n, ".");
    for (k = 100000; parts; k /= 10) {
      vram__text_puti(text, sizeof text, &n, parts / k);
      parts %= k;
    }
  }
  vram__draft_word(d, key, text);
}

/* Puts op, names and inputs in front of the keys that were written. */
static void vram__draft_front(vram__draft *d, const char *names) {
  const char *const op = vram_op_name(d->op);
  uint32_t i, n = vram__text_len(op) + 1 + vram__text_len(names), at;
  for (i = 0; i < d->nin; i++)
    n += 1u + d->in[i]->name_len;
  if (n >= VRAM__DRAFT_LINE - d->text_len) {
    vram__reader_fail(&d->r, VRAM_ERR_LIMIT, 0, "a line of more than 16 KiB");
    return;
  }
  for (i = d->text_len; i--;)
    d->text[n + i] = d->text[i];
  at = d->text_len + n;
  d->text_len = 0;
  vram__draft_text(d, op);
  vram__draft_text(d, " ");
  vram__draft_text(d, names);
  for (i = 0; i < d->nin; i++) {
    vram__draft_text(d, " ");
    vram__draft_letters(d, d->in[i]->name, d->in[i]->name_len);
  }
  d->text_len = at;
}

/* The node with the inputs and keys that were given, and its line. comment: behind it, or NULL.
   NULL: it cannot be, and d->why says why; or an error. */
VRAM__FN vram_node *vram__draft_node(vram__draft *d, const char *names, const char *comment) {
  const vram_graph before = d->g;
  vram_node *n;
  uint32_t len = 0;
  if (d->r.result)
    return NULL;
  vram__memory_copy(d->why, "", 1);
  n = vram_graph_apply(&d->g, d->op, names, d->in, d->nin, d->keys);
  if (!n) {
    if (d->g.error.code == VRAM_ERR_MEMORY)
      vram__reader_fail(&d->r, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
    vram__text_puts(d->why, sizeof d->why, &len, d->g.error.text);
    d->g = before;
    if (d->g.last)
      d->g.last->next = NULL;
    if (d->g.param_last)
      d->g.param_last->next = NULL;
    return NULL;
  }
  vram__draft_front(d, names);
  if (comment) {
    vram__draft_text(d, " # ");
    vram__draft_text(d, comment);
  }
  vram__draft_close(d);
  return d->r.result ? NULL : n;
}

/* ---- dims ---- */

/* The dims that no number follows as a product become numbers. */
static void vram__draft_fix(vram__draft *d, uint32_t i) {
  vram__draft_line *l;
  uint32_t k;
  d->dim[i].is_fixed = 1;
  for (l = d->first; l; l = l->next)
    for (k = 0; k < l->count; k++)
      l->power[k] &= ~(UINT32_C(15) << 4 * i);
}

/* Makes the text with `run`, then again for each dim. */
VRAM__FN vram_result vram__draft_runs(vram__draft *d, void (*run)(vram__draft *, void *),
                                      void *user) {
  vram_error *const e = d->r.error;
  vram_error unread;
  uint32_t i;
  for (d->run = 0; d->run <= d->ndim; d->run++) {
    const uint64_t used = d->room.used;
    vram_graph_init(&d->g, d->graph_mem, d->graph_bytes);
    vram__memory_zero(&d->labels, sizeof d->labels);
    for (i = 0; i < d->ndim; i++)
      d->dim[i].now = d->dim[i].value << (i + 1 == d->run);
    d->at = d->first;
    d->differs =
        d->run && (d->dim[d->run - 1].value < 1 || d->dim[d->run - 1].value > INT64_C(1) << 40);
    if (!d->differs)
      run(d, user);
    if (!d->run && d->r.result)
      return d->r.result;
    if (!d->run) {
      d->r.error = &unread; /* later ones only say that a dim is fixed */
      continue;
    }
    if (d->r.result == VRAM_ERR_MEMORY)
      return vram__error_begin(e, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
    if (d->r.result || d->differs || d->at)
      vram__draft_fix(d, d->run - 1);
    d->r.result = VRAM_OK;
    d->room.used = used;
  }
  d->r.error = e;
  return VRAM_OK;
}

/* ---- writing ---- */

typedef struct vram__draft_pen {
  const vram_sink *sink;
  int failed;
} vram__draft_pen;

static void vram__draft_send(vram__draft_pen *p, const char *s, uint32_t n) {
  if (n && !p->failed)
    p->failed = p->sink->write(p->sink->user, s, n);
}

/* 64*N, N*S, 3*H/2: the number as a product, of the dims whose doubling doubles it. */
static void vram__draft_product(const vram__draft *d, vram__draft_pen *p, int64_t v,
                                uint32_t power) {
  char text[256];
  uint32_t n = 0, i, k;
  uint64_t over = v < 0 ? 0 - (uint64_t)v : (uint64_t)v, under = 1;
  for (i = 0; i < d->ndim; i++)
    for (k = 0; k < (power >> 4 * i & 15); k++) {
      const uint64_t size = (uint64_t)d->dim[i].value, common = vram__gcd(over, size);
      over /= common;
      under = vram__product_or_overflow(under, size / common);
    }
  if (!power || under == VRAM_OVERFLOW) {
    vram__text_puti(text, sizeof text, &n, v);
    vram__draft_send(p, text, n);
    return;
  }
  if (v < 0)
    vram__text_puts(text, sizeof text, &n, "-");
  if (over != 1) {
    vram__text_putu(text, sizeof text, &n, over);
    vram__text_puts(text, sizeof text, &n, "*");
  }
  vram__draft_send(p, text, n);
  for (i = 0, over = 0; i < d->ndim; i++)
    for (k = 0; k < (power >> 4 * i & 15); k++) {
      if (over++)
        vram__draft_send(p, "*", 1);
      vram__draft_send(p, d->dim[i].label, vram__text_len(d->dim[i].label));
    }
  n = 0;
  if (under != 1) {
    vram__text_puts(text, sizeof text, &n, "/");
    vram__text_putu(text, sizeof text, &n, under);
  }
  vram__draft_send(p, text, n);
}

/* What became of the open sizes, as a line of dims and comments. */
static void vram__draft_dims(const vram__draft *d, vram__draft_pen *p) {
  char text[64];
  uint32_t i, n, some = 0;
  for (i = 0; i < d->ndim; i++) {
    const vram__draft_dim *const m = d->dim + i;
    n = 0;
    if (m->is_set && !m->is_fixed)
      continue;
    vram__draft_send(p, "# ", 2);
    vram__draft_send(p, m->label, vram__text_len(m->label));
    vram__text_puts(text, sizeof text, &n, " is ");
    vram__text_puti(text, sizeof text, &n, m->value);
    vram__text_puts(text, sizeof text, &n, m->is_set ? "" : ": the file leaves it open");
    vram__text_puts(text, sizeof text, &n, m->is_fixed ? "; numbers here do not follow it" : "");
    vram__text_puts(text, sizeof text, &n, "\n");
    vram__draft_send(p, text, n);
  }
  for (i = 0; i < d->ndim; i++) {
    n = 0;
    if (d->dim[i].is_fixed)
      continue;
    vram__draft_send(p, some ? " " : "dim ", some ? 1 : 4);
    some = 1;
    vram__draft_send(p, d->dim[i].label, vram__text_len(d->dim[i].label));
    vram__text_puts(text, sizeof text, &n, "=");
    vram__text_puti(text, sizeof text, &n, d->dim[i].value);
    vram__draft_send(p, text, n);
  }
  vram__draft_send(p, "\n", some);
}

/* All of it, behind `head`. */
VRAM__FN vram_result vram__draft_write(vram__draft *d, const vram_sink *sink, const char *head) {
  const vram__draft_line *l;
  vram__draft_pen p;
  p.sink = sink;
  p.failed = 0;
  vram__draft_send(&p, head, vram__text_len(head));
  vram__draft_dims(d, &p);
  for (l = d->first; l && !p.failed; l = l->next) {
    uint32_t i, begin = 0, k = 0;
    for (i = 0; i < l->len; i++)
      if (l->text[i] == VRAM__DRAFT_MARK) {
        vram__draft_send(&p, l->text + begin, i - begin);
        vram__draft_product(d, &p, l->number[k], l->power[k]);
        begin = i + 1;
        k++;
      }
    vram__draft_send(&p, l->text + begin, l->len - begin);
  }
  if (p.failed)
    return vram__error_begin(d->r.error, VRAM_ERR_WRITE, 0, "the sink has ended the writing");
  return VRAM_OK;
}
