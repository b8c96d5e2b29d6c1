/* >>model/logits    a text whose loss is computed in chunks
   The head and the loss behind it run on some rows at a time, each time in a call of
   torch.utils.checkpoint: only the logits of one chunk are there at once. */
#include "model/model.h"

enum {
  VRAM__LOGITS_LINES = 16, /* of the head, the loss and what lies between, at most */
  VRAM__LOGITS_CHUNKS = 256
};

/* Rows are as many, and their classes the last axis. */
#define VRAM__LOGITS_VIEWS "view reshape flatten contiguous"

/* A line without its comment: the op, the names that it gives, and the words behind. */
typedef struct vram__logits_line {
  const char *begin, *next;
  vram__span op, out, rest;
  uint32_t number, depth;
} vram__logits_line;

typedef struct vram__logits {
  const char *text, *end;
  uint32_t chunks;
  vram__logits_line loss;                     /* the line of cross_entropy */
  vram__logits_line line[VRAM__LOGITS_LINES]; /* from the loss back to the head, the last one */
  uint32_t nline;
  vram__span hidden, target; /* what goes into the head, and what into the loss */
  int is_sum;
  char *to;
  uint64_t cap, len;
  vram_error *err;
} vram__logits;

/* ---- lines ---- */

/* The next word of *from, which goes on behind it; len 0: there is none. */
static vram__span vram__logits_word(vram__span *from) {
  const char *at = from->text, *const end = at + from->len, *begin;
  vram__span word;
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
    at++;
  for (begin = at; at < end && *at != ' ' && *at != '\t' && *at != '\r';)
    at++;
  word = vram__span_of(begin, at);
  *from = vram__span_of(at, end);
  return word;
}

/* Reads the line that follows l in the text; 0: there is none. l all zero: the first. */
static int vram__logits_next(const vram__logits *v, vram__logits_line *l) {
  const char *at = l->next ? l->next : v->text, *stop;
  vram__span all;
  if (at >= v->end)
    return 0;
  if (vram__text_is(l->op.text, l->op.len, "loop") ||
      vram__text_is(l->op.text, l->op.len, "checkpoint"))
    l->depth++;
  l->begin = at;
  l->number++;
  while (at < v->end && *at != '\n' && *at != '#')
    at++;
  for (stop = at; at < v->end && *at != '\n';)
    at++;
  l->next = at < v->end ? at + 1 : at;
  all = vram__span_of(l->begin, stop);
  l->op = vram__logits_word(&all);
  l->rest = all;
  l->out = vram__logits_word(&l->rest);
  if (l->depth &&
      (vram__text_is(l->op.text, l->op.len, "next") || vram__text_is(l->op.text, l->op.len, "end")))
    l->depth--;
  return 1;
}

static int vram__logits_is(const vram__logits_line *l, const char *op) {
  return vram__text_is(l->op.text, l->op.len, op);
}

static int vram__logits_same(vram__span a, vram__span b) {
  return a.len == b.len && vram__text_equal(a.text, b.text, a.len);
}

/* Is it one of these words, divided by blanks? */
static int vram__logits_among(vram__span word, const char *list) {
  vram__span all = vram__span_all(list), one;
  while ((one = vram__logits_word(&all)).len)
    if (vram__logits_same(one, word))
      return 1;
  return 0;
}

/* Does the line give a value of this name, alone or among others? */
static int vram__logits_gives(const vram__logits_line *l, vram__span name) {
  const char *at = l->out.text, *const end = at + l->out.len;
  if (vram__logits_among(l->op, "drop infer output keep return unit stage order tp store freeze "
                                "unfreeze zero_grad step backward update next"))
    return 0;
  while (at < end) {
    const char *const begin = at;
    while (at < end && *at != ',')
      at++;
    if (vram__logits_same(vram__span_of(begin, at), name))
      return 1;
    at++;
  }
  return 0;
}

static vram__span vram__logits_value(vram__span word) {
  const char *at = word.text, *const end = at + word.len;
  while (at < end && *at != '=')
    at++;
  return vram__span_of(at < end ? at + 1 : at, end);
}

/* KEY=VALUE of the line; len 0: it has none. */
static vram__span vram__logits_key(const vram__logits_line *l, const char *key) {
  const uint32_t len = vram__text_len(key);
  vram__span rest = l->rest, word;
  while ((word = vram__logits_word(&rest)).len)
    if (word.len > len && word.text[len] == '=' && vram__text_equal(word.text, key, len))
      return vram__logits_value(word);
  return word;
}

static int vram__logits_is_key(vram__span word) {
  uint32_t i;
  for (i = 0; i < word.len; i++)
    if (word.text[i] == '=')
      return 1;
  return 0;
}

/* Inputs of the line; the first `cap` go to in. */
static uint32_t vram__logits_inputs(const vram__logits_line *l, vram__span *in, uint32_t cap) {
  vram__span rest = l->rest, word;
  uint32_t n = 0;
  while ((word = vram__logits_word(&rest)).len) {
    if (vram__logits_is_key(word))
      continue;
    if (n < cap)
      in[n] = word;
    n++;
  }
  return n;
}

/* ---- what is there ---- */

static vram_result vram__logits_refuse(vram__logits *v, const vram__logits_line *l,
                                       const char *what) {
  vram__error_begin(v->err, VRAM_ERR_UNSUPPORTED, 0, "no logits in chunks: ");
  vram__error_text(v->err, what);
  if (l) {
    vram__error_number(v->err, ", line ", l->number);
    vram__error_text(v->err, " (");
    vram__error_quote(v->err, l->op.text, l->op.len);
    vram__error_text(v->err, " ");
    vram__error_quote(v->err, l->out.text, l->out.len);
    vram__error_text(v->err, ")");
  }
  return VRAM_ERR_UNSUPPORTED;
}

/* The loss, and whether sums of its chunks are the sum of all rows. */
static vram_result vram__logits_loss(vram__logits *v) {
  vram__logits_line l = VRAM_ZERO_INIT;
  vram__span in[2], key;
  uint32_t found = 0, i;
  while (vram__logits_next(v, &l))
    if (vram__logits_is(&l, "cross_entropy")) {
      if (l.depth)
        return vram__logits_refuse(v, &l, "the loss is in a loop, or in a checkpoint already");
      v->loss = l;
      found++;
    } else if (vram__logits_among(l.op, "backward step"))
      return vram__logits_refuse(v, &l, "the text is a whole training step");
  if (found != 1)
    return vram__logits_refuse(v, NULL,
                               found ? "there is more than one loss" : "no line is cross_entropy");
  i = vram__logits_inputs(&v->loss, in, 2);
  if (i != 2)
    return vram__logits_refuse(v, &v->loss,
                               i < 2 ? "the loss has no targets"
                                     : "with weights of the classes the mean is no mean of sums");
  v->target = in[1];
  key = vram__logits_key(&v->loss, "reduction");
  v->is_sum = vram__text_is(key.text, key.len, "sum");
  if (key.len && !v->is_sum && !vram__text_is(key.text, key.len, "mean"))
    return vram__logits_refuse(v, &v->loss, "the loss is not one number");
  return VRAM_OK;
}

/* From the loss back to the head. */
static vram_result vram__logits_chain(vram__logits *v) {
  vram__logits_line below = v->loss;
  vram__span in[2];
  for (;;) {
    vram__logits_line l = VRAM_ZERO_INIT, made = VRAM_ZERO_INIT;
    vram__logits_inputs(&below, in, 2);
    while (vram__logits_next(v, &l) && l.number < below.number)
      if (vram__logits_gives(&l, in[0]))
        made = l;
    if (!made.number)
      return vram__logits_refuse(v, &below, "no line makes the logits");
    if (made.depth)
      return vram__logits_refuse(v, &made, "the logits come from a loop or a checkpoint");
    if (v->nline == VRAM__LOGITS_LINES)
      return vram__logits_refuse(v, &made, "too many lines between head and loss");
    v->line[v->nline++] = made;
    if (vram__logits_is(&made, "linear"))
      break;
    if (!vram__logits_among(made.op, VRAM__LOGITS_VIEWS " to mul div tanh add sub") ||
        vram__logits_inputs(&made, in, 2) != 1)
      return vram__logits_refuse(v, &made, "the loss is not of a linear line's logits, row by row");
    below = made;
  }
  below = v->line[v->nline - 1];
  vram__logits_inputs(&below, in, 1);
  v->hidden = in[0];
  if (vram__logits_key(&below, "lora").len || vram__logits_key(&below, "quant").len ||
      vram__logits_key(&below, "conv1d").len)
    return vram__logits_refuse(v, &below, "the head has an adapter, or is quantised");
  return VRAM_OK;
}

/* Is it a value that the text has no longer? */
static int vram__logits_goes(const vram__logits *v, vram__span name) {
  uint32_t i;
  for (i = 0; i < v->nline; i++)
    if (vram__logits_same(v->line[i].out, name))
      return 1;
  return 0;
}

static int vram__logits_is_own(const vram__logits *v, const vram__logits_line *l) {
  uint32_t i;
  for (i = 0; i < v->nline; i++)
    if (v->line[i].number == l->number)
      return 1;
  return l->number == v->loss.number;
}

/* Lines about modules, whose names these are. */
static int vram__logits_is_of_modules(const vram__logits_line *l) {
  return vram__logits_among(l->op, "unit stage order tp freeze unfreeze");
}

/* Nobody else may read the logits; and what is between head and loss runs as they do. */
static vram_result vram__logits_uses(vram__logits *v) {
  const uint32_t head = v->line[v->nline - 1].number;
  vram__logits_line l = VRAM_ZERO_INIT;
  while (vram__logits_next(v, &l)) {
    vram__span rest = vram__span_of(l.out.text, l.rest.text + l.rest.len), word;
    if (vram__logits_is_own(v, &l) || vram__logits_is_of_modules(&l))
      continue;
    if (l.number > head && l.number < v->loss.number &&
        vram__logits_among(l.op, "autocast no_grad enable_grad loop checkpoint"))
      return vram__logits_refuse(v, &l, "the head does not run as the loss does");
    while ((word = vram__logits_word(&rest)).len) {
      const vram__span value = vram__logits_value(word);
      const int goes = vram__logits_goes(v, word);
      if ((goes && !vram__logits_among(l.op, "drop infer return")) ||
          (value.len && vram__logits_goes(v, value)))
        return vram__logits_refuse(v, &l, "the logits are used elsewhere");
    }
  }
  return VRAM_OK;
}

/* ---- the text with chunks ---- */

static void vram__logits_put(vram__logits *v, vram__span s) {
  uint32_t i;
  for (i = 0; i < s.len; i++, v->len++)
    if (v->len < v->cap)
      v->to[v->len] = s.text[i];
}

static void vram__logits_puts(vram__logits *v, const char *z) {
  vram__logits_put(v, vram__span_all(z));
}

static void vram__logits_number(vram__logits *v, uint32_t n) {
  char to[12];
  uint32_t len = 0;
  vram__text_putu(to, sizeof to, &len, n);
  vram__logits_put(v, vram__span_of(to, to + len));
}

/* A new name: that of the loss, what it is, and of which chunk; 0: of all. */
static void vram__logits_name(vram__logits *v, const char *what, uint32_t chunk) {
  vram__logits_put(v, v->loss.out);
  vram__logits_puts(v, what);
  if (chunk)
    vram__logits_number(v, chunk);
}

/* What line i gives in that chunk: in the first by its own name. */
static void vram__logits_result(vram__logits *v, uint32_t i, uint32_t chunk) {
  vram__logits_put(v, v->line[i].out);
  if (chunk > 1) {
    vram__logits_puts(v, ".chunk");
    vram__logits_number(v, chunk);
  }
}

/* chunk NAME1,NAME2,... ROWS chunks=N */
static void vram__logits_divide(vram__logits *v, const char *part, const char *all) {
  uint32_t k;
  vram__logits_puts(v, "chunk ");
  for (k = 1; k <= v->chunks; k++) {
    vram__logits_puts(v, k > 1 ? "," : "");
    vram__logits_name(v, part, k);
  }
  vram__logits_puts(v, " ");
  vram__logits_name(v, all, 0);
  vram__logits_puts(v, " chunks=");
  vram__logits_number(v, v->chunks);
  vram__logits_puts(v, "\n");
}

/* Words of a line behind its first inputs, but for that key. */
static void vram__logits_words(vram__logits *v, const vram__logits_line *l, uint32_t inputs,
                               const char *without) {
  const uint32_t len = vram__text_len(without);
  vram__span rest = l->rest, word;
  while ((word = vram__logits_word(&rest)).len) {
    if (!vram__logits_is_key(word)) {
      if (inputs) {
        inputs--;
        continue;
      }
    } else if (len && word.len > len && word.text[len] == '=' &&
               vram__text_equal(word.text, without, len))
      continue;
    vram__logits_puts(v, " ");
    vram__logits_put(v, word);
  }
}

/* The first call of the head owns what it has, and lends it to the others. */
static void vram__logits_head(vram__logits *v, uint32_t chunk) {
  const uint32_t i = v->nline - 1;
  vram__span in[2];
  const int lends = chunk > 1 && vram__logits_inputs(v->line + i, in, 2) < 2;
  vram__logits_puts(v, "linear ");
  vram__logits_result(v, i, chunk);
  vram__logits_puts(v, " ");
  vram__logits_name(v, ".rows", chunk);
  vram__logits_words(v, v->line + i, 1, lends ? "weights" : "");
  if (lends) {
    vram__logits_puts(v, " weights=");
    vram__logits_result(v, i, 1);
  }
  vram__logits_puts(v, "\n");
}

/* A call of what gives the loss of some rows, summed up. */
static void vram__logits_call(vram__logits *v, uint32_t chunk) {
  uint32_t from = v->nline - 1, i;
  vram__logits_puts(v, "checkpoint ");
  vram__logits_name(v, ".rows", chunk);
  vram__logits_puts(v, " ");
  vram__logits_name(v, ".targets", chunk);
  vram__logits_puts(v, "\n");
  vram__logits_head(v, chunk);
  for (i = from; i-- > 0;) {
    if (vram__logits_among(v->line[i].op, VRAM__LOGITS_VIEWS))
      continue;
    vram__logits_put(v, v->line[i].op);
    vram__logits_puts(v, " ");
    vram__logits_result(v, i, chunk);
    vram__logits_puts(v, " ");
    vram__logits_result(v, from, chunk);
    vram__logits_words(v, v->line + i, 1, "");
    vram__logits_puts(v, "\n");
    from = i;
  }
  vram__logits_puts(v, "cross_entropy ");
  vram__logits_name(v, ".part", chunk);
  vram__logits_puts(v, " ");
  vram__logits_result(v, from, chunk);
  vram__logits_puts(v, " ");
  vram__logits_name(v, ".targets", chunk);
  vram__logits_words(v, &v->loss, 2, "reduction");
  vram__logits_puts(v, " reduction=sum\nend ");
  vram__logits_name(v, ".part", chunk);
  vram__logits_puts(v, "\n");
}

/* loss = 0; loss = loss + part, once for each chunk; loss / (targets != -100).sum() */
static void vram__logits_sum(vram__logits *v, uint32_t chunk) {
  vram__logits_puts(v, "add ");
  if (v->is_sum && chunk == v->chunks)
    vram__logits_name(v, "", 0);
  else
    vram__logits_name(v, ".sum", chunk);
  vram__logits_puts(v, " ");
  if (chunk > 1) {
    vram__logits_name(v, ".sum", chunk - 1);
    vram__logits_puts(v, " ");
  }
  vram__logits_name(v, ".part", chunk);
  vram__logits_puts(v, chunk > 1 ? "\n" : " scalar=1\n");
}

static void vram__logits_mean(vram__logits *v) {
  vram__logits_puts(v, "ne ");
  vram__logits_name(v, ".counted", 0);
  vram__logits_puts(v, " ");
  vram__logits_name(v, ".targets", 0);
  vram__logits_puts(v, " scalar=1\nsum ");
  vram__logits_name(v, ".count", 0);
  vram__logits_puts(v, " ");
  vram__logits_name(v, ".counted", 0);
  vram__logits_puts(v, "\ndiv ");
  vram__logits_name(v, "", 0);
  vram__logits_puts(v, " ");
  vram__logits_name(v, ".sum", v->chunks);
  vram__logits_puts(v, " ");
  vram__logits_name(v, ".count", 0);
  vram__logits_puts(v, "\n");
}

/* In the place of cross_entropy. */
static void vram__logits_write(vram__logits *v) {
  uint32_t k;
  vram__logits_puts(v, "flatten ");
  vram__logits_name(v, ".rows", 0);
  vram__logits_puts(v, " ");
  vram__logits_put(v, v->hidden);
  vram__logits_puts(v, " end_dim=-2\nflatten ");
  vram__logits_name(v, ".targets", 0);
  vram__logits_puts(v, " ");
  vram__logits_put(v, v->target);
  vram__logits_puts(v, "\n");
  vram__logits_divide(v, ".rows", ".rows");
  vram__logits_divide(v, ".targets", ".targets");
  for (k = 1; k <= v->chunks; k++) {
    vram__logits_call(v, k);
    vram__logits_sum(v, k);
  }
  if (!v->is_sum)
    vram__logits_mean(v);
}

/* A line about values without those that the text has no longer. What the module returns is what
   went into its head. A line of which nothing is left goes. */
static void vram__logits_without(vram__logits *v, const vram__logits_line *l) {
  vram__span rest = vram__span_of(l->out.text, l->rest.text + l->rest.len), word;
  const int returns = vram__logits_is(l, "return"),
            early = l->number < v->loss.number && vram__logits_is(l, "drop");
  int is_said = 0, left = 0;
  while ((word = vram__logits_word(&rest)).len) {
    if (vram__logits_goes(v, word)) {
      if (!returns || is_said)
        continue;
      word = v->hidden;
    } else if (early && (vram__logits_same(word, v->hidden) || vram__logits_same(word, v->target)))
      continue;
    is_said |= vram__logits_same(word, v->hidden);
    if (!left++)
      vram__logits_put(v, l->op);
    vram__logits_puts(v, " ");
    vram__logits_put(v, word);
  }
  if (left)
    vram__logits_puts(v, "\n");
}

VRAM_API vram_result vram_text_chunk_logits(const char *text, uint64_t len, uint32_t chunks,
                                            char *to, uint64_t cap, uint64_t *need,
                                            vram_error *err) {
  vram__logits v = VRAM_ZERO_INIT;
  vram__logits_line l = VRAM_ZERO_INIT;
  vram_result r;
  vram__error_clear(err);
  *need = 0;
  v.text = text;
  v.end = len ? text + len : text;
  v.chunks = chunks;
  v.to = to;
  v.cap = cap;
  v.err = err;
  if (chunks < 1 || chunks > VRAM__LOGITS_CHUNKS)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "logits in 1 to 256 chunks");
  r = vram__logits_loss(&v);
  if (!r)
    r = vram__logits_chain(&v);
  if (!r)
    r = vram__logits_uses(&v);
  if (r)
    return r;
  while (vram__logits_next(&v, &l)) {
    if (l.number == v.loss.number)
      vram__logits_write(&v);
    else if (vram__logits_among(l.op, "drop infer return"))
      vram__logits_without(&v, &l);
    else if (!vram__logits_is_own(&v, &l))
      vram__logits_put(&v, vram__span_of(l.begin, l.next));
  }
  *need = v.len;
  return v.len > cap ? VRAM_ERR_MEMORY : VRAM_OK;
}
