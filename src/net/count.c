/* >>net/count    bytes of a network line by line
   One pass over the lines. What a line's value lies in was written by its owner: a line of its
   own, or the one that views and lines in place go back to. */
#include "net/net.h"

typedef struct vram__netting {
  vram_net *net;
  vram_net_line *l;       /* the line, */
  const vram_net_line *x; /* the one before it, */
  uint32_t at;            /* its number */
  const vram_net_line *kept[VRAM_NET_KEPT];
  uint32_t nkept;    /* and the KEEP lines that it takes */
  uint64_t held;     /* bytes of what is kept, and of outputs */
  uint64_t elements; /* of the line's matrices */
  uint32_t peak;
  /* ping-pong: the buffer that the value is in, copies of kept values now, and the most of both
     buffers, of the copies, of scratch */
  uint32_t side;
  uint64_t copies, most[4];
  vram_error e;
} vram__netting;

/* What the formats are, in the order of the enum. */
typedef struct vram__net_kind {
  vram_dtype activation, weight;
  uint32_t bias_bytes, scales;
} vram__net_kind;

static const vram__net_kind vram__net_kinds[VRAM_FORMAT_COUNT] = {
#define VRAM__X(id, activation, weight, bias_bytes, scales)                                        \
  {activation, weight, bias_bytes, scales},
    VRAM_NET_FORMATS(VRAM__X)
#undef VRAM__X
};

enum { VRAM__NET_NEW, VRAM__NET_OVER, VRAM__NET_VIEW };

static const uint8_t vram__net_where[VRAM_LINE_COUNT] = {
#define VRAM__X(id, where, args) VRAM__NET_##where,
    VRAM_NET_LINES(VRAM__X)
#undef VRAM__X
};

/* "CONV2D c1: what"; more may follow. Returns 0. */
static int vram__net_bad(vram__netting *c, vram_result code, const char *what) {
  const vram_net_line *l = c->l;
  vram__error_begin(&c->e, code, l->text_line ? l->text_line : (uint64_t)c->at + 1,
                    vram_line_name(l->kind));
  c->e.column = l->text_column;
  if (l->y && l->kind != VRAM_LINE_END) {
    vram__error_text(&c->e, " ");
    vram__error_text(&c->e, l->y);
  }
  vram__error_text(&c->e, ": ");
  vram__error_text(&c->e, what);
  return 0;
}

/* " (found c1, expected c2)" */
static void vram__net_found(vram__netting *c, const char *found, const char *expected) {
  vram__error_text(&c->e, " (found ");
  vram__error_text(&c->e, found);
  vram__error_text(&c->e, ", expected ");
  vram__error_text(&c->e, expected);
  vram__error_text(&c->e, ")");
}

static void vram__net_say_shape(vram__netting *c, const vram_net_line *l) {
  const uint64_t size[3] = {l->height, l->width, l->channels};
  vram__error_shape(&c->e, size, 3);
}

static int vram__net_is_name(const char *z) {
  uint32_t n;
  if (!z || !*z || !vram__name_start(*z))
    return 0;
  for (n = 1; z[n]; n++)
    if (n == VRAM_MAX_NAME || (!vram__name_start(z[n]) && !vram__digit(z[n])))
      return 0;
  return 1;
}

static int vram__same_name(const char *a, const char *b) {
  return vram__text_is(a, vram__text_len(a), b);
}

/* The line of that name before this one; NULL: there is none. */
static const vram_net_line *vram__net_find(const vram__netting *c, const char *name) {
  uint32_t i;
  for (i = 0; i < c->at; i++)
    if (vram__same_name(c->net->line[i].y, name))
      return c->net->line + i;
  return NULL;
}

#define VRAM__NET_SIZE UINT64_C(2147483647) /* the largest size */

/* The range of an integer. */
static void vram__net_range(const char *word, uint32_t len, int64_t *least, int64_t *most) {
  static const char *const zero[] = {
      "top", "bottom", "left", "right", "output_padding_h", "output_padding_w", "pd"};
  static const char *const any[] = {"table_bytes", "params",        "weight_bytes",
                                    "macs",        "scratch_bytes", "state_bytes"};
  uint32_t i;
  *least = 0;
  *most = (int64_t)VRAM__NET_SIZE;
  for (i = 0; i < sizeof zero / sizeof *zero; i++)
    if (vram__text_is(word, len, zero[i]))
      return;
  for (i = 0; i < sizeof any / sizeof *any; i++) {
    if (vram__text_is(word, len, any[i])) {
      *most = VRAM_MAX_BYTES;
      return;
    }
  }
  if (vram__text_is(word, len, "bias") || vram__text_is(word, len, "sequence"))
    *most = 1;
  else if (vram__text_is(word, len, "biases"))
    *most = 2;
  else
    *least = 1;
}

/* Tokens and integers of a line, each by itself. */
static int vram__net_args(vram__netting *c) {
  const vram_net_line *l = c->l;
  const char *at = vram_line_args(l->kind), *word;
  uint32_t len, i = 0;
  while (vram__net_word(&at, &word, &len)) {
    const int arg = vram__net_arg(word, len);
    int64_t least, most;
    if (arg == VRAM__ARG_FORMAT && (uint32_t)l->format >= VRAM_FORMAT_COUNT)
      return vram__net_bad(c, VRAM_ERR_VALUE, "an unknown format");
    if (arg == VRAM__ARG_PADDING && (uint32_t)l->padding >= VRAM_PADDING_COUNT)
      return vram__net_bad(c, VRAM_ERR_VALUE, "an unknown padding");
    if (arg == VRAM__ARG_PADDING && l->padding >= VRAM_PADDING_PAD &&
        (l->pad_h < 0 || l->pad_h > (int64_t)VRAM__NET_SIZE || l->pad_w < 0 ||
         l->pad_w > (int64_t)VRAM__NET_SIZE))
      return vram__net_bad(c, VRAM_ERR_VALUE, "padding is out of range (expected 0 to 2147483647)");
    if (arg == VRAM__ARG_KERNELS && (uint32_t)l->kernels >= VRAM_KERNELS_COUNT)
      return vram__net_bad(c, VRAM_ERR_VALUE, "unknown kernels");
    if (arg != VRAM__ARG_INTEGER)
      continue;
    vram__net_range(word, len, &least, &most);
    if (l->arg[i] < least || l->arg[i] > most) {
      vram__net_bad(c, VRAM_ERR_VALUE, "");
      vram__error_letters(&c->e, word, len);
      vram__error_integer(&c->e, " is out of range (found ", l->arg[i]);
      vram__error_integer(&c->e, ", expected ", least);
      vram__error_integer(&c->e, " to ", most);
      vram__error_text(&c->e, ")");
      return 0;
    }
    i++;
  }
  return 1;
}

/* Names: its own is new, x is the line before, kept ones are KEEP lines that nobody took. */
static int vram__net_names(vram__netting *c) {
  vram_net_line *l = c->l;
  const char *at = vram_line_args(l->kind), *word;
  uint32_t len;
  c->nkept = 0;
  while (vram__net_word(&at, &word, &len)) {
    const int arg = vram__net_arg(word, len);
    const vram_net_line *k;
    uint32_t i;
    if (arg == VRAM__ARG_Y) {
      if (!vram__net_is_name(l->y)) {
        vram__net_bad(c, VRAM_ERR_NAME, "a line without a name");
        vram__net_found(c, l->y && *l->y ? l->y : "nothing", "a C identifier");
        return 0;
      }
      if (vram__net_find(c, l->y))
        return vram__net_bad(c, VRAM_ERR_NAME, "a name that is used twice");
    }
    if (arg == VRAM__ARG_X && l->x && !vram__same_name(l->x, c->x->y)) {
      vram__net_bad(c, VRAM_ERR_NAME,
                    vram__net_find(c, l->x) ? "a line does not go on from the one before it"
                                            : "an unknown line");
      vram__net_found(c, l->x, c->x->y);
      return 0;
    }
    if (arg != VRAM__ARG_KEPT)
      continue;
    i = c->nkept++;
    k = l->kept[i] ? vram__net_find(c, l->kept[i]) : NULL;
    if (!k || k->kind != VRAM_LINE_KEEP) {
      vram__net_bad(c, VRAM_ERR_NAME, k ? "a value that is not kept" : "an unknown line");
      vram__net_found(c, l->kept[i] ? l->kept[i] : "nothing", "the name of a KEEP line");
      return 0;
    }
    if (k->taken) {
      vram__net_bad(c, VRAM_ERR_NAME, "a kept value is taken twice");
      vram__net_found(c, k->y, "one that no line before takes");
      return 0;
    }
    c->kept[i] = k;
    l->from[i] = (uint32_t)(k - c->net->line);
    c->net->line[l->from[i]].taken = c->at;
  }
  return 1;
}

static int vram__net_shape(vram__netting *c, uint64_t h, uint64_t w, uint64_t channels) {
  const uint64_t size[3] = {h, w, channels};
  static const char *const name[] = {"height", "width", "channels"};
  int i;
  for (i = 0; i < 3; i++)
    if (size[i] - 1 >= VRAM__NET_SIZE) {
      vram__net_bad(c, size[i] ? VRAM_ERR_OVERFLOW : VRAM_ERR_SHAPE, "the value has a ");
      vram__error_text(&c->e, name[i]);
      vram__error_text(&c->e, size[i] ? " beyond 2147483647" : " of 0");
      return 0;
    }
  c->l->height = h;
  c->l->width = w;
  c->l->channels = channels;
  return 1;
}

static int vram__net_same_elements(vram__netting *c, uint64_t h, uint64_t w, uint64_t channels) {
  const uint64_t have = vram__product_or_overflow(
      vram__product_or_overflow(c->x->height, c->x->width), c->x->channels);
  const uint64_t want = vram__product_or_overflow(vram__product_or_overflow(h, w), channels);
  if (have != want) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "another number of elements: ");
    vram__error_number(&c->e, "", want);
    vram__error_text(&c->e, " made of ");
    vram__net_say_shape(c, c->x);
    vram__error_number(&c->e, " = ", have);
    return 0;
  }
  return vram__net_shape(c, h, w, channels);
}

/* A kernel over one axis. */
typedef struct vram__sweep {
  uint64_t in, kernel, stride, dilation, pad;
  uint64_t before, out; /* padding before the first element, and the size of the output */
} vram__sweep;

static int vram__net_axis(vram__netting *c, vram__sweep *a, const char *name, int pool) {
  const vram_net_padding padding = c->l->padding;
  const uint64_t reach = a->dilation * (a->kernel - 1) + 1;
  const uint64_t padded = a->in + 2 * (padding >= VRAM_PADDING_PAD ? a->pad : 0);
  if (padding == VRAM_PADDING_SAME) {
    const uint64_t last = (a->in - 1) / a->stride * a->stride + reach;
    a->out = (a->in - 1) / a->stride + 1;
    a->before = last > a->in ? (last - a->in) / 2 : 0;
    return 1;
  }
  a->before = padding >= VRAM_PADDING_PAD ? a->pad : 0;
  if (pool && 2 * a->before > a->kernel) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "padding of more than half the kernel, ");
    vram__error_text(&c->e, name);
    vram__error_number(&c->e, " (found ", a->before);
    vram__error_number(&c->e, ", expected at most half of ", a->kernel);
    vram__error_text(&c->e, ")");
    return 0;
  }
  /* with ceil_mode a last window need not be full, but must begin before the padding behind */
  a->out = padding == VRAM_PADDING_PAD_CEIL && padded + a->stride > reach
               ? (padded + a->stride - 1 - reach) / a->stride + 1
               : 0;
  if (padding == VRAM_PADDING_PAD_CEIL && a->out && (a->out - 1) * a->stride >= a->in + a->before)
    a->out--;
  if (padding != VRAM_PADDING_PAD_CEIL && padded >= reach)
    a->out = (padded - reach) / a->stride + 1;
  if (!a->out) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "a kernel larger than the padded input, ");
    vram__error_text(&c->e, name);
    vram__error_number(&c->e, " (found ", reach);
    vram__error_number(&c->e, ", expected at most ", padded);
    vram__error_text(&c->e, ")");
    return 0;
  }
  return 1;
}

/* arg: the line's kh kw sh sw, or kw sw with what is between them. */
static vram__sweep vram__net_sweep(uint64_t in, const int64_t *arg, int64_t dilation, int64_t pad) {
  vram__sweep a;
  a.in = in;
  a.kernel = (uint64_t)arg[0];
  a.stride = (uint64_t)arg[2];
  a.dilation = (uint64_t)dilation;
  a.pad = (uint64_t)pad;
  a.before = 0;
  a.out = 0;
  return a;
}

/* Both axes from the line's kh kw sh sw [dh dw], which begin at argument i. */
static int vram__net_window(vram__netting *c, uint32_t i, int dilated, vram__sweep *h,
                            vram__sweep *w) {
  const vram_net_line *l = c->l;
  const int64_t *arg = l->arg + i;
  const int pool = l->kind == VRAM_LINE_MAX_POOL2D || l->kind == VRAM_LINE_AVG_POOL2D;
  *h = vram__net_sweep(c->x->height, arg, dilated ? arg[4] : 1, l->pad_h);
  *w = vram__net_sweep(c->x->width, arg + 1, dilated ? arg[5] : 1, l->pad_w);
  if (l->padding == VRAM_PADDING_PAD_CEIL && !pool)
    return vram__net_bad(c, VRAM_ERR_VALUE, "PAD_CEIL is for pools (expected SAME, VALID or PAD)");
  return vram__net_axis(c, h, "height", pool) && vram__net_axis(c, w, "width", pool);
}

/* A transposed convolution over one axis. */
static int vram__net_transposed(vram__netting *c, vram__sweep *a, uint64_t more, const char *name) {
  const uint64_t full = (a->in - 1) * a->stride + a->kernel + more;
  const uint64_t cut = c->l->padding == VRAM_PADDING_PAD ? 2 * a->pad : 0;
  const int same = c->l->padding == VRAM_PADDING_SAME;
  if (more >= (same ? 1 : a->stride)) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "output_padding is not less than the stride, ");
    if (same)
      vram__net_bad(c, VRAM_ERR_SHAPE, "output_padding with SAME, ");
    vram__error_text(&c->e, name);
    return 0;
  }
  if (!same && full <= cut) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "padding takes all of the output, ");
    vram__error_text(&c->e, name);
    return 0;
  }
  a->out = same ? a->in * a->stride : full - cut;
  return 1;
}

/* One array of weights, biases or scales. */
static void vram__net_array(vram__netting *c, uint64_t bytes) {
  const uint64_t unit = vram__net_kinds[c->l->format].bias_bytes == 8 ? 8 : 4;
  c->l->weight_bytes = vram__sum_or_overflow(c->l->weight_bytes, bytes);
  c->l->flash_bytes = vram__sum_or_overflow(c->l->flash_bytes, bytes > (uint64_t)VRAM_MAX_BYTES
                                                                   ? VRAM_OVERFLOW
                                                                   : vram__align_up(bytes, unit));
}

static uint64_t vram__net_bytes(vram_dtype dtype, uint64_t elements) {
  uint64_t bytes;
  return vram_dtype_bytes(dtype, elements, &bytes) ? VRAM_OVERFLOW : bytes;
}

static void vram__net_weights(vram__netting *c, uint64_t elements) {
  c->elements = vram__sum_or_overflow(c->elements, elements);
  c->l->params = vram__sum_or_overflow(c->l->params, elements);
  vram__net_array(c, vram__net_bytes(vram__net_kinds[c->l->format].weight, elements));
}

static void vram__net_biases(vram__netting *c, uint64_t count) {
  c->l->params = vram__sum_or_overflow(c->l->params, count);
  vram__net_array(c, vram__product_or_overflow(count, vram__net_kinds[c->l->format].bias_bytes));
}

/* matrices, channels: how many scales, where there is one for each of them */
static void vram__net_scales(vram__netting *c, uint64_t matrices, uint64_t channels,
                             uint32_t by_channel) {
  const uint32_t scales = vram__net_kinds[c->l->format].scales;
  if (scales)
    vram__net_array(c, vram__product_or_overflow(8, scales >= by_channel ? channels : matrices));
}

/* Bytes in RAM, rounded up to the net's alignment. */
static uint64_t vram__net_storage(const vram__netting *c, uint64_t bytes) {
  return bytes > (uint64_t)VRAM_MAX_BYTES ? VRAM_OVERFLOW : vram__align_up(bytes, c->net->align);
}

static uint64_t vram__net_activations(const vram__netting *c, uint64_t elements) {
  return vram__net_storage(c, vram__net_bytes(vram__net_kinds[c->l->format].activation, elements));
}

/* Elements of the line's value. */
static uint64_t vram__net_elements(const vram_net_line *l) {
  return vram__product_or_overflow(vram__product_or_overflow(l->n, l->height),
                                   vram__product_or_overflow(l->width, l->channels));
}

static uint64_t vram__mul3(uint64_t a, uint64_t b, uint64_t d) {
  return vram__product_or_overflow(vram__product_or_overflow(a, b), d);
}

/* What CMSIS-NN's kernel for this line works in. */
static vram__cmsis vram__net_cmsis(const vram__netting *c, uint64_t out) {
  const vram__net_kind *f = vram__net_kinds + c->l->format;
  vram__cmsis k;
  vram__memory_zero(&k, sizeof k);
  if (f->scales) /* floats have no such kernels */
    k.kernels = (uint64_t)c->net->kernels;
  k.act_bits = f->activation == VRAM_I16 ? 16 : f->activation == VRAM_I4 ? 4 : 8;
  k.weight_bits = f->weight == VRAM_I4 ? 4 : 8;
  k.n = c->x->n;
  k.h = c->x->height;
  k.w = c->x->width;
  k.c = c->x->channels;
  k.oc = out;
  k.groups = 1;
  return k;
}

static void vram__net_cmsis_window(vram__cmsis *k, const vram__sweep *h, const vram__sweep *w) {
  k->kh = h->kernel;
  k->kw = w->kernel;
  k->sh = h->stride;
  k->sw = w->stride;
  k->dh = h->dilation;
  k->dw = w->dilation;
  k->ph = h->before;
  k->pw = w->before;
}

/* Convolutions: weights of one output channel for each of `channels`. */
static void vram__net_conv(vram__netting *c, uint64_t channels, uint64_t each, uint64_t macs,
                           int64_t bias) {
  vram__net_weights(c, vram__product_or_overflow(channels, each));
  vram__net_biases(c, bias ? channels : 0);
  vram__net_scales(c, 1, channels, 2);
  c->l->macs = macs;
  c->l->folds = bias != 0;
}

static int vram__net_conv2d(vram__netting *c) {
  vram_net_line *l = c->l;
  const int full = l->kind == VRAM_LINE_CONV2D_FULL;
  const uint64_t out = (uint64_t)l->arg[0], groups = full ? (uint64_t)l->arg[7] : 1;
  const int odd = c->x->channels % groups != 0;
  uint64_t each;
  vram__sweep h, w;
  vram__cmsis k;
  if (odd || out % groups) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "groups do not divide ");
    vram__error_text(&c->e, odd ? "the channels" : "out_channels");
    vram__error_number(&c->e, " (found ", groups);
    vram__error_number(&c->e, " groups of ", odd ? c->x->channels : out);
    vram__error_text(&c->e, ")");
    return 0;
  }
  if (!vram__net_window(c, 1, full, &h, &w) || !vram__net_shape(c, h.out, w.out, out))
    return 0;
  each = vram__mul3(c->x->channels / groups, h.kernel, w.kernel);
  vram__net_conv(c, out, each, vram__product_or_overflow(vram__net_elements(l), each),
                 l->arg[full ? 8 : 5]);
  k = vram__net_cmsis(c, out);
  vram__net_cmsis_window(&k, &h, &w);
  k.groups = groups;
  l->scratch_bytes = vram__net_storage(c, vram__cmsis_conv2d(&k));
  return 1;
}

/* Planes one below the other. */
static int vram__net_conv3d(vram__netting *c) {
  vram_net_line *l = c->l;
  const uint64_t planes = (uint64_t)l->arg[0], out = (uint64_t)l->arg[1];
  uint64_t each;
  vram__sweep h, w, d = vram__net_sweep(planes, l->arg + 2, 1, l->arg[8]);
  if (c->x->height % planes) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "depth does not divide the rows");
    vram__error_number(&c->e, " (found ", planes);
    vram__error_number(&c->e, " planes of ", c->x->height);
    vram__error_text(&c->e, ")");
    return 0;
  }
  if (l->padding == VRAM_PADDING_PAD_CEIL)
    return vram__net_bad(c, VRAM_ERR_VALUE, "PAD_CEIL is for pools (expected SAME, VALID or PAD)");
  if (l->padding == VRAM_PADDING_SAME && l->arg[8])
    return vram__net_bad(c, VRAM_ERR_VALUE, "padding of the depth with SAME (expected 0)");
  d.stride = (uint64_t)l->arg[5];
  h = vram__net_sweep(c->x->height / planes, l->arg + 3, 1, l->pad_h);
  h.stride = (uint64_t)l->arg[6];
  w = vram__net_sweep(c->x->width, l->arg + 4, 1, l->pad_w);
  w.stride = (uint64_t)l->arg[7];
  if (!vram__net_axis(c, &h, "height", 0) || !vram__net_axis(c, &w, "width", 0))
    return 0;
  if (l->padding == VRAM_PADDING_VALID && d.pad) { /* of the depth alone */
    d.in += 2 * d.pad;
    d.pad = 0;
  }
  if (!vram__net_axis(c, &d, "depth", 0) ||
      !vram__net_shape(c, vram__product_or_overflow(d.out, h.out), w.out, out))
    return 0;
  each = vram__product_or_overflow(c->x->channels, vram__mul3(d.kernel, h.kernel, w.kernel));
  vram__net_conv(c, out, each, vram__product_or_overflow(vram__net_elements(l), each), l->arg[9]);
  return 1;
}

static int vram__net_depthwise(vram__netting *c) {
  vram_net_line *l = c->l;
  const int full = l->kind == VRAM_LINE_DEPTHWISE_CONV2D_FULL;
  const uint64_t out = vram__product_or_overflow(c->x->channels, (uint64_t)l->arg[0]);
  uint64_t each;
  vram__sweep h, w;
  vram__cmsis k;
  if (!vram__net_window(c, 1, full, &h, &w) || !vram__net_shape(c, h.out, w.out, out))
    return 0;
  each = vram__product_or_overflow(h.kernel, w.kernel);
  vram__net_conv(c, out, each, vram__product_or_overflow(vram__net_elements(l), each),
                 l->arg[full ? 7 : 5]);
  k = vram__net_cmsis(c, out);
  vram__net_cmsis_window(&k, &h, &w);
  l->scratch_bytes = vram__net_storage(c, vram__cmsis_depthwise_conv2d(&k));
  return 1;
}

static int vram__net_conv_transpose(vram__netting *c) {
  vram_net_line *l = c->l;
  const uint64_t out = (uint64_t)l->arg[0];
  vram__sweep h = vram__net_sweep(c->x->height, l->arg + 1, 0, l->pad_h);
  vram__sweep w = vram__net_sweep(c->x->width, l->arg + 2, 0, l->pad_w);
  vram__cmsis k;
  if (l->padding == VRAM_PADDING_PAD_CEIL)
    return vram__net_bad(c, VRAM_ERR_VALUE, "PAD_CEIL is for pools (expected SAME, VALID or PAD)");
  if (!vram__net_transposed(c, &h, (uint64_t)l->arg[5], "height") ||
      !vram__net_transposed(c, &w, (uint64_t)l->arg[6], "width") ||
      !vram__net_shape(c, h.out, w.out, out))
    return 0;
  vram__net_conv(
      c, out, vram__mul3(c->x->channels, h.kernel, w.kernel),
      vram__product_or_overflow(vram__net_elements(c->x), vram__mul3(out, h.kernel, w.kernel)),
      l->arg[7]);
  k = vram__net_cmsis(c, out);
  vram__net_cmsis_window(&k, &h, &w);
  l->scratch_bytes = vram__net_storage(c, vram__cmsis_conv_transpose2d(&k));
  return 1;
}

static int vram__net_linear(vram__netting *c) {
  vram_net_line *l = c->l;
  const uint64_t out = (uint64_t)l->arg[0];
  vram__cmsis k;
  if (!vram__net_shape(c, c->x->height, c->x->width, out))
    return 0;
  vram__net_weights(c, vram__product_or_overflow(out, c->x->channels));
  vram__net_biases(c, l->arg[1] ? out : 0);
  vram__net_scales(c, 1, out, 3);
  l->macs = vram__product_or_overflow(vram__net_elements(l), c->x->channels);
  l->folds = l->arg[1] != 0;
  k = vram__net_cmsis(c, out);
  l->scratch_bytes = vram__net_storage(c, vram__cmsis_linear(&k));
  return 1;
}

static int vram__net_pool(vram__netting *c) {
  const vram__cmsis k = vram__net_cmsis(c, c->x->channels);
  vram__sweep h, w;
  if (c->l->kind == VRAM_LINE_AVG_POOL2D)
    c->l->scratch_bytes = vram__net_storage(c, vram__cmsis_avg_pool2d(&k));
  return vram__net_window(c, 0, 0, &h, &w) && vram__net_shape(c, h.out, w.out, c->x->channels);
}

/* ADD, MUL: an axis of both is equal, or 1 in one of them. */
static int vram__net_pair(vram__netting *c) {
  const vram_net_line *a = c->x, *b = c->kept[0];
  const uint64_t x[3] = {a->height, a->width, a->channels};
  const uint64_t k[3] = {b->height, b->width, b->channels};
  const int over = vram__net_where[c->l->kind] == VRAM__NET_OVER;
  int i;
  for (i = 0; i < 3; i++)
    if (x[i] != k[i] && k[i] != 1 && (x[i] != 1 || over)) {
      vram__net_bad(c, VRAM_ERR_SHAPE, "shapes that differ: ");
      vram__net_say_shape(c, a);
      vram__error_text(&c->e, " and ");
      vram__net_say_shape(c, b);
      vram__error_text(&c->e,
                       over ? " (expected the first, or 1)" : " (expected equal sizes, or 1)");
      return 0;
    }
  return vram__net_shape(c, x[0] > k[0] ? x[0] : k[0], x[1] > k[1] ? x[1] : k[1],
                         x[2] > k[2] ? x[2] : k[2]);
}

static int vram__net_concat(vram__netting *c) {
  uint64_t channels = c->x->channels;
  uint32_t i;
  for (i = 0; i < c->nkept; i++) {
    const vram_net_line *k = c->kept[i];
    if (k->height != c->x->height || k->width != c->x->width) {
      vram__net_bad(c, VRAM_ERR_SHAPE, "shapes that differ: ");
      vram__net_say_shape(c, c->x);
      vram__error_text(&c->e, " and ");
      vram__net_say_shape(c, k);
      vram__error_text(&c->e, " (expected equal heights and widths)");
      return 0;
    }
    channels += k->channels;
  }
  return vram__net_shape(c, c->x->height, c->x->width, channels);
}

static int vram__net_slice(vram__netting *c) {
  const vram_net_line *l = c->l, *x = c->x;
  const uint64_t h = (uint64_t)l->arg[0], w = (uint64_t)l->arg[1], channels = (uint64_t)l->arg[2];
  if (h > x->height || w > x->width || channels > x->channels) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "a slice larger than its input, ");
    vram__net_say_shape(c, x);
    return 0;
  }
  return vram__net_shape(c, h, w, channels);
}

/* Layers over time steps or tokens have them in h. */
static int vram__net_flat(vram__netting *c, const char *what) {
  if (c->x->width == 1)
    return 1;
  vram__net_bad(c, VRAM_ERR_SHAPE, what);
  vram__error_number(&c->e, " (found ", c->x->width);
  vram__error_text(&c->e, ", expected a width of 1)");
  return 0;
}

static int vram__net_recurrent(vram__netting *c) {
  vram_net_line *l = c->l;
  const int lstm = l->kind == VRAM_LINE_LSTM || l->kind == VRAM_LINE_LSTM_BIDIRECTIONAL;
  const int gru = l->kind == VRAM_LINE_GRU || l->kind == VRAM_LINE_GRU_BIDIRECTIONAL;
  const uint64_t gates = lstm ? 4 : gru ? 3 : 1;
  const uint64_t ways = l->kind >= VRAM_LINE_LSTM_BIDIRECTIONAL ? 2 : 1;
  const uint64_t hidden = (uint64_t)l->arg[0], biases = (uint64_t)l->arg[1];
  const uint64_t in = c->x->channels, states = vram__product_or_overflow(l->n, hidden);
  const vram__net_kind *f = vram__net_kinds + l->format;
  const uint64_t wide = f->activation == VRAM_F32 ? 4 : 2; /* of cells and of sums */
  uint64_t way;
  if (!vram__net_flat(c, "time steps are the height") ||
      !vram__net_shape(c, l->arg[2] ? c->x->height : 1, 1, ways * hidden))
    return 0;
  for (way = 0; way < ways; way++) {
    vram__net_weights(c, vram__mul3(gates, hidden, in));
    vram__net_weights(c, vram__mul3(gates, hidden, hidden));
    vram__net_biases(c, vram__mul3(gates, hidden, biases));
    vram__net_scales(c, 2 * gates, 2 * gates, 2);
  }
  l->macs = vram__mul3(vram__product_or_overflow(l->n, c->x->height),
                       vram__mul3(ways, gates, hidden), in + hidden);
  l->state_bytes = vram__net_activations(c, states);
  if (lstm)
    l->state_bytes = vram__sum_or_overflow(
        l->state_bytes, vram__net_storage(c, vram__product_or_overflow(states, wide)));
  l->state_bytes = vram__product_or_overflow(ways, l->state_bytes);
  l->scratch_bytes = vram__product_or_overflow(
      gates, vram__net_storage(c, vram__product_or_overflow(states, wide)));
  return 1;
}

static int vram__net_attention(vram__netting *c) {
  vram_net_line *l = c->l;
  const uint64_t in = c->x->channels, tokens = vram__product_or_overflow(l->n, c->x->height);
  const int cached = l->kind == VRAM_LINE_ATTENTION;
  const uint64_t context = cached ? (uint64_t)l->arg[3] : c->x->height;
  const uint64_t q = vram__product_or_overflow((uint64_t)l->arg[0], (uint64_t)l->arg[2]);
  const uint64_t kv = vram__product_or_overflow((uint64_t)l->arg[1], (uint64_t)l->arg[2]);
  const uint64_t matrices = vram__sum_or_overflow(2 * vram__product_or_overflow(in, q),
                                                  2 * vram__product_or_overflow(in, kv));
  uint64_t cache;
  if (l->arg[0] % l->arg[1]) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "num_kv_heads does not divide num_heads (found ");
    vram__error_number(&c->e, "", (uint64_t)l->arg[1]);
    vram__error_number(&c->e, " of ", (uint64_t)l->arg[0]);
    vram__error_text(&c->e, ")");
    return 0;
  }
  if (!vram__net_flat(c, "tokens are the height") || !vram__net_shape(c, c->x->height, 1, in))
    return 0;
  vram__net_weights(c, vram__product_or_overflow(in, q));
  vram__net_weights(c, vram__product_or_overflow(in, kv));
  vram__net_weights(c, vram__product_or_overflow(in, kv));
  vram__net_weights(c, vram__product_or_overflow(q, in));
  vram__net_biases(
      c, l->arg[3 + cached] ? vram__sum_or_overflow(vram__sum_or_overflow(q, in), 2 * kv) : 0);
  vram__net_scales(c, 4, 4, 2);
  l->macs = vram__sum_or_overflow(vram__product_or_overflow(tokens, matrices),
                                  2 * vram__mul3(tokens, context, q));
  cache = vram__net_activations(c, vram__mul3(l->n, context, 2 * kv));
  if (cached)
    l->state_bytes = cache;
  l->scratch_bytes = vram__sum_or_overflow(
      vram__net_activations(c, vram__product_or_overflow(tokens, q)),
      vram__net_activations(c, vram__mul3(tokens, (uint64_t)l->arg[0], context)));
  if (!cached)
    l->scratch_bytes = vram__sum_or_overflow(l->scratch_bytes, cache);
  return 1;
}

static int vram__net_is_ids(const vram_net_line *l) {
  return vram__net_kinds[l->format].weight == VRAM_DTYPE_NONE;
}

static int vram__net_same_shape(vram__netting *c) {
  const vram_net_line *x = c->l->kind == VRAM_LINE_FROM ? c->kept[0] : c->x;
  return vram__net_shape(c, x->height, x->width, x->channels);
}

/* A norm with so many figures for each channel. */
static int vram__net_norm(vram__netting *c, uint64_t figures) {
  vram__net_biases(c, figures * c->x->channels);
  return vram__net_same_shape(c);
}

/* A batch norm that becomes weights of the layer before. */
static int vram__net_folded(vram__netting *c) {
  if (!c->x->folds)
    return vram__net_bad(c, VRAM_ERR_VALUE,
                         "nothing to fold into (expected a layer with a bias before it)");
  c->l->folds = 1;
  return vram__net_same_shape(c);
}

static int vram__net_embedding(vram__netting *c) {
  const uint64_t rows = (uint64_t)c->l->arg[0], width = (uint64_t)c->l->arg[1];
  if (c->x->width != 1 || c->x->channels != 1) {
    vram__net_bad(c, VRAM_ERR_SHAPE, "ids are the height, ");
    vram__net_say_shape(c, c->x);
    vram__error_text(&c->e, " has others (expected a width and channels of 1)");
    return 0;
  }
  vram__net_weights(c, vram__product_or_overflow(rows, width));
  return vram__net_shape(c, c->x->height, 1, width);
}

/* Another input: nothing was written before it that is not kept. */
static int vram__net_input(vram__netting *c) {
  const int64_t *arg = c->l->arg;
  if (c->x->peak_live_bytes != c->held)
    return vram__net_bad(c, VRAM_ERR_VALUE,
                         "an input behind a value that is not kept (expected KEEP before it, and "
                         "no other line)");
  return vram__net_shape(c, (uint64_t)arg[0], (uint64_t)arg[1], (uint64_t)arg[2]);
}

static int vram__net_custom(vram__netting *c) {
  vram_net_line *l = c->l;
  const int64_t *arg = l->arg;
  l->params = (uint64_t)arg[3];
  vram__net_array(c, (uint64_t)arg[4]);
  l->macs = (uint64_t)arg[5];
  l->scratch_bytes = vram__net_storage(c, (uint64_t)arg[6]);
  l->state_bytes = vram__net_storage(c, (uint64_t)arg[7]);
  return vram__net_shape(c, (uint64_t)arg[0], (uint64_t)arg[1], (uint64_t)arg[2]);
}

/* Lines without weights: the shape only. */
static int vram__net_moved(vram__netting *c) {
  const vram_net_line *x = c->x;
  const uint64_t h = x->height, w = x->width, channels = x->channels;
  const int64_t *arg = c->l->arg;
  switch (c->l->kind) {
  case VRAM_LINE_GLOBAL_AVG_POOL2D:
  case VRAM_LINE_GLOBAL_MAX_POOL2D:
    return vram__net_shape(c, 1, 1, channels);
  case VRAM_LINE_UPSAMPLE2D:
    return vram__net_shape(c, h * (uint64_t)arg[0], w * (uint64_t)arg[1], channels);
  case VRAM_LINE_ADD:
  case VRAM_LINE_ADD_INPLACE:
  case VRAM_LINE_MUL:
  case VRAM_LINE_MUL_INPLACE:
    return vram__net_pair(c);
  case VRAM_LINE_CONCAT:
  case VRAM_LINE_CONCAT3:
  case VRAM_LINE_CONCAT4:
    return vram__net_concat(c);
  case VRAM_LINE_PAD:
    return vram__net_shape(c, h + (uint64_t)arg[0] + (uint64_t)arg[1],
                           w + (uint64_t)arg[2] + (uint64_t)arg[3], channels);
  case VRAM_LINE_SLICE:
    return vram__net_slice(c);
  case VRAM_LINE_RESHAPE:
  case VRAM_LINE_TRANSPOSE:
    return vram__net_same_elements(c, (uint64_t)arg[0], (uint64_t)arg[1], (uint64_t)arg[2]);
  case VRAM_LINE_FLATTEN:
    return vram__net_shape(c, 1, 1, vram__mul3(h, w, channels));
  default:
    return vram__net_same_shape(c);
  }
}

/* Shape, parameters, operations, state and scratch of a line that is not the first. */
static int vram__net_layer(vram__netting *c) {
  vram_net_line *l = c->l;
  switch (l->kind) {
  case VRAM_LINE_CONV2D:
  case VRAM_LINE_CONV2D_FULL:
    return vram__net_conv2d(c);
  case VRAM_LINE_CONV3D:
    return vram__net_conv3d(c);
  case VRAM_LINE_DEPTHWISE_CONV2D:
  case VRAM_LINE_DEPTHWISE_CONV2D_FULL:
    return vram__net_depthwise(c);
  case VRAM_LINE_CONV_TRANSPOSE2D:
    return vram__net_conv_transpose(c);
  case VRAM_LINE_LINEAR:
    return vram__net_linear(c);
  case VRAM_LINE_MAX_POOL2D:
  case VRAM_LINE_AVG_POOL2D:
    return vram__net_pool(c);
  case VRAM_LINE_BATCH_NORM:
  case VRAM_LINE_BATCH_NORM_INPLACE:
    return vram__net_norm(c, 4);
  case VRAM_LINE_LAYER_NORM:
  case VRAM_LINE_LAYER_NORM_INPLACE:
    return vram__net_norm(c, 2);
  case VRAM_LINE_RMS_NORM:
  case VRAM_LINE_RMS_NORM_INPLACE:
    return vram__net_norm(c, 1);
  case VRAM_LINE_BATCH_NORM_FOLDED:
    return vram__net_folded(c);
  case VRAM_LINE_ACTIVATION_FUSED:
    l->folds = c->x->folds;
    return vram__net_same_shape(c);
  case VRAM_LINE_ACTIVATION_TABLE:
  case VRAM_LINE_CONSTANTS:
    vram__net_array(c, (uint64_t)l->arg[0]);
    return vram__net_same_shape(c);
  case VRAM_LINE_LSTM:
  case VRAM_LINE_GRU:
  case VRAM_LINE_RNN:
  case VRAM_LINE_LSTM_BIDIRECTIONAL:
  case VRAM_LINE_GRU_BIDIRECTIONAL:
  case VRAM_LINE_RNN_BIDIRECTIONAL:
    return vram__net_recurrent(c);
  case VRAM_LINE_ATTENTION:
  case VRAM_LINE_SELF_ATTENTION:
    return vram__net_attention(c);
  case VRAM_LINE_INPUT:
    return vram__net_input(c);
  case VRAM_LINE_EMBEDDING:
    return vram__net_embedding(c);
  case VRAM_LINE_CUSTOM:
    return vram__net_custom(c);
  default:
    return vram__net_moved(c);
  }
}

/* Layers with weights need a format that has some. */
static int vram__net_formats(vram__netting *c) {
  vram_net_line *l = c->l;
  uint32_t i;
  const int given =
      l->kind == VRAM_LINE_EMBEDDING || l->kind == VRAM_LINE_QUANTIZE || l->kind == VRAM_LINE_INPUT;
  if (!given)
    l->format = l->kind == VRAM_LINE_FROM ? c->kept[0]->format : c->x->format;
  for (i = 0; i < c->nkept && l->kind != VRAM_LINE_FROM; i++)
    if (vram__net_kinds[c->kept[i]->format].activation != vram__net_kinds[l->format].activation) {
      vram__net_bad(c, VRAM_ERR_VALUE, "values of two formats: ");
      vram__error_text(&c->e, vram_format_name(l->format));
      vram__error_text(&c->e, " and ");
      vram__error_text(&c->e, vram_format_name(c->kept[i]->format));
      return 0;
    }
  if (given && l->kind != VRAM_LINE_INPUT && vram__net_is_ids(l)) {
    vram__net_bad(c, VRAM_ERR_VALUE, "a format of ids");
    vram__net_found(c, vram_format_name(l->format), "a format of values");
    return 0;
  }
  if ((l->kind == VRAM_LINE_EMBEDDING) != vram__net_is_ids(c->x) &&
      (l->kind == VRAM_LINE_EMBEDDING || l->kind == VRAM_LINE_QUANTIZE)) {
    vram__net_bad(c, VRAM_ERR_VALUE,
                  l->kind == VRAM_LINE_QUANTIZE ? "ids are no values to be quantized"
                                                : "the input of an embedding is no ids");
    vram__net_found(c, vram_format_name(c->x->format),
                    l->kind == VRAM_LINE_QUANTIZE ? "a format of values" : "IDS8, IDS16 or IDS32");
    return 0;
  }
  return 1;
}

/* What lives while the line runs, and the rules of what is kept. */
static int vram__net_memory(vram__netting *c) {
  vram_net_line *l = c->l, *owner = c->net->line + c->x->owner;
  const uint8_t where = vram__net_where[l->kind];
  const int writes = where == VRAM__NET_OVER || l->kind == VRAM_LINE_ACTIVATION_FUSED;
  uint32_t i;
  if (writes && (owner->holds || owner->output)) {
    vram__net_bad(c, VRAM_ERR_VALUE, "in place on a value that is ");
    vram__error_text(&c->e, owner->holds ? "kept" : "an output");
    vram__error_text(&c->e, " (expected a line with an output of its own)");
    return 0;
  }
  if ((l->kind == VRAM_LINE_KEEP && owner->holds && !owner->output) ||
      (l->kind == VRAM_LINE_OUTPUT && (owner->holds || owner->output)))
    return vram__net_bad(c, VRAM_ERR_VALUE,
                         owner->holds ? "a value that is kept already"
                                      : "a value that is an output already");
  l->owner = where == VRAM__NET_NEW      ? c->at
             : l->kind == VRAM_LINE_FROM ? c->kept[0]->owner
                                         : c->x->owner;
  l->live_bytes =
      vram__sum_or_overflow(c->held, owner->holds || owner->output ? 0 : owner->storage_bytes);
  if (where == VRAM__NET_NEW) {
    l->storage_bytes = vram__net_storage(c, l->out_bytes);
    l->live_bytes = vram__sum_or_overflow(l->live_bytes, l->storage_bytes);
  }
  l->live_bytes = vram__sum_or_overflow(l->live_bytes, l->scratch_bytes);
  if (l->kind == VRAM_LINE_KEEP || l->kind == VRAM_LINE_OUTPUT) {
    if (!owner->output) {
      c->held = vram__sum_or_overflow(c->held, owner->storage_bytes);
      c->copies = vram__sum_or_overflow(c->copies, owner->storage_bytes);
    }
    if (l->kind == VRAM_LINE_KEEP)
      owner->holds = 1;
    else
      owner->output = 1;
  }
  for (i = 0; i < c->nkept; i++) {
    vram_net_line *k = c->net->line + c->kept[i]->owner;
    k->holds = 0;
    if (!k->output) {
      c->held -= k->storage_bytes;
      c->copies -= k->storage_bytes;
    }
  }
  return 1;
}

/* Ping-pong: a value's buffer is the one that the last line did not write; kept values are copied,
   and copied back. */
static void vram__net_pingpong(vram__netting *c, uint64_t copies) {
  vram_net_line *l = c->l;
  const uint64_t bytes = c->net->line[l->owner].storage_bytes;
  uint64_t sum = 0;
  int i;
  if (l->kind == VRAM_LINE_FROM || (vram__net_where[l->kind] == VRAM__NET_NEW && c->at))
    c->side = !c->side;
  if (c->most[c->side] < bytes)
    c->most[c->side] = bytes;
  if (c->most[2] < copies)
    c->most[2] = copies;
  if (c->most[3] < l->scratch_bytes)
    c->most[3] = l->scratch_bytes;
  for (i = 0; i < 4; i++)
    sum = vram__sum_or_overflow(sum, c->most[i]);
  l->pingpong_bytes = sum;
}

/* Sums up to this line. */
static int vram__net_totals(vram__netting *c) {
  vram_net_line *l = c->l;
  vram_net_line none;
  const vram_net_line *x = c->at ? c->x : &none;
  uint64_t worst;
  vram__memory_zero(&none, sizeof none);
  l->total_params = vram__sum_or_overflow(x->total_params, l->params);
  l->total_macs = vram__sum_or_overflow(x->total_macs, l->macs);
  l->total_weight_bytes = vram__sum_or_overflow(x->total_weight_bytes, l->weight_bytes);
  l->total_flash_bytes = vram__sum_or_overflow(x->total_flash_bytes, l->flash_bytes);
  l->total_state_bytes = vram__sum_or_overflow(x->total_state_bytes, l->state_bytes);
  l->peak_live_bytes = x->peak_live_bytes > l->live_bytes ? x->peak_live_bytes : l->live_bytes;
  if (l->peak_live_bytes > x->peak_live_bytes)
    c->peak = c->at;
  worst = l->total_params > l->total_macs ? l->total_params : l->total_macs;
  worst = worst > l->total_flash_bytes ? worst : l->total_flash_bytes;
  worst = worst > l->total_state_bytes ? worst : l->total_state_bytes;
  worst = worst > l->peak_live_bytes ? worst : l->peak_live_bytes;
  worst = worst > l->pingpong_bytes ? worst : l->pingpong_bytes;
  if (worst > (uint64_t)VRAM_MAX_BYTES)
    return vram__net_bad(c, VRAM_ERR_OVERFLOW, "parameters, operations or bytes beyond 2^63-1");
  return 1;
}

/* Bytes of constants that an inference reads, as TFLite's reference kernels do (integer_ops/conv.h,
   fully_connected.h): a weight for each multiply-accumulate, and what lies beside it (bias,
   multiplier, shift) each time that its channel is done. A table gives one entry, an embedding
   one row, for each element and id; a norm's figures are read at each position. */
static uint64_t vram__net_weight_reads(const vram__netting *c) {
  const vram_net_line *const l = c->l;
  uint64_t times = 1;
  if (l->kind == VRAM_LINE_EMBEDDING)
    return vram__net_bytes(vram__net_kinds[l->format].weight, vram__net_elements(l));
  if (l->kind == VRAM_LINE_ACTIVATION_TABLE)
    return vram__net_elements(l);
  if (l->kind == VRAM_LINE_ATTENTION || l->kind == VRAM_LINE_SELF_ATTENTION)
    times = vram__product_or_overflow(l->n, l->height); /* not what tokens do with one another */
  else if (l->kind == VRAM_LINE_CUSTOM)
    times = l->params ? l->macs / l->params : 1;
  else if (c->elements)
    times = l->macs / c->elements;
  else if (l->kind != VRAM_LINE_CONSTANTS)
    times = vram__mul3(l->n, l->height, l->width);
  return vram__product_or_overflow(l->weight_bytes, times ? times : 1);
}

/* The first line: the input. */
static int vram__net_begin(vram__netting *c) {
  vram_net_line *l = c->l;
  const int with = l->kind == VRAM_LINE_BEGIN_WITH;
  if (!vram__net_args(c))
    return 0;
  if (!vram__same_name(l->y ? l->y : "", "input")) {
    vram__net_bad(c, VRAM_ERR_NAME, "the first line has another name");
    vram__net_found(c, l->y && *l->y ? l->y : "nothing", "input");
    return 0;
  }
  c->net->align = with ? (uint64_t)l->arg[4] : 16;
  c->net->kernels = with ? l->kernels : VRAM_KERNELS_NONE;
  if (c->net->align & (c->net->align - 1)) {
    vram__net_bad(c, VRAM_ERR_VALUE, "an alignment that is no power of two: ");
    vram__error_number(&c->e, "", c->net->align);
    return 0;
  }
  l->n = (uint64_t)l->arg[0];
  l->owner = 0;
  if (!vram__net_shape(c, (uint64_t)l->arg[1], (uint64_t)l->arg[2], (uint64_t)l->arg[3]))
    return 0;
  l->out_bytes = vram__net_bytes(vram__net_kinds[l->format].activation, vram__net_elements(l));
  l->live_bytes = l->storage_bytes = vram__net_storage(c, l->out_bytes);
  return 1;
}

static int vram__net_line(vram__netting *c) {
  vram_net_line *l = c->l;
  const int first = l->kind == VRAM_LINE_BEGIN || l->kind == VRAM_LINE_BEGIN_WITH;
  if ((uint32_t)l->kind >= VRAM_LINE_COUNT)
    return vram__net_bad(c, VRAM_ERR_VALUE, "no kind of line");
  if (first != !c->at)
    return vram__net_bad(c, VRAM_ERR_VALUE,
                         first ? "a second begin of the network (expected END)"
                               : "the network does not begin (expected BEGIN or BEGIN_WITH)");
  if (c->at && c->x->kind == VRAM_LINE_END)
    return vram__net_bad(c, VRAM_ERR_VALUE, "a line behind the end of the network");
  if (first)
    return vram__net_begin(c);
  if (!vram__net_args(c) || !vram__net_names(c) || !vram__net_formats(c))
    return 0;
  l->n = c->x->n;
  if (!vram__net_layer(c))
    return 0;
  if (vram__net_is_ids(l) && l->params && l->kind != VRAM_LINE_CUSTOM) {
    vram__net_bad(c, VRAM_ERR_VALUE, "a layer with weights on ids");
    vram__net_found(c, vram_format_name(l->format), "an EMBEDDING before it");
    return 0;
  }
  l->out_bytes = vram__net_bytes(vram__net_kinds[l->format].activation, vram__net_elements(l));
  l->weight_reads = l->weight_bytes ? vram__net_weight_reads(c) : 0;
  return vram__net_memory(c);
}

/* Every KEEP line is taken. */
static void vram__net_all_taken(vram__netting *c) {
  uint32_t i;
  for (i = 0; i < c->net->nline && !c->e.code; i++) {
    vram_net_line *l = c->net->line + i;
    if (l->kind == VRAM_LINE_KEEP && !l->taken) {
      c->at = i;
      c->l = l;
      vram__net_bad(c, VRAM_ERR_NAME, "a kept value that no line takes");
    }
  }
}

/* The whole net is what there is up to its last line. */
static void vram__net_sums(const vram__netting *c) {
  vram_net *net = c->net;
  net->params = c->l->total_params;
  net->macs = c->l->total_macs;
  net->weight_bytes = c->l->total_weight_bytes;
  net->flash_bytes = c->l->total_flash_bytes;
  net->state_bytes = c->l->total_state_bytes;
  net->peak_live_bytes = c->l->peak_live_bytes;
  net->pingpong_bytes = c->l->pingpong_bytes;
  net->peak_line = c->peak;
}

VRAM_API vram_result vram_net_count(vram_net *net, vram_error *err) {
  vram__netting c;
  uint32_t i;
  vram__memory_zero(&c, sizeof c);
  c.net = net;
  net->nbuffer = 0;
  if (!net->nline)
    vram__error_begin(&c.e, VRAM_ERR_VALUE, 0, "a network without lines (expected BEGIN)");
  if (net->nline > VRAM_MAX_NET_LINES)
    vram__error_begin(&c.e, VRAM_ERR_LIMIT, 0, "more lines than VRAM_MAX_NET_LINES");
  for (i = 0; i < net->nline && !c.e.code; i++) {
    vram_net_line *l = net->line + i;
    const uint64_t copies = c.copies;
    c.at = i;
    c.l = l;
    c.x = i ? l - 1 : NULL;
    c.elements = 0;
    vram__memory_zero((uint8_t *)l + offsetof(vram_net_line, n),
                      sizeof *l - offsetof(vram_net_line, n));
    if (!vram__net_line(&c))
      break;
    vram__net_pingpong(&c, copies > c.copies ? copies : c.copies);
    if (!vram__net_totals(&c))
      break;
    l->buffer = l->owner == i ? net->nbuffer++ : net->line[l->owner].buffer;
    l->scratch_buffer = l->scratch_bytes ? net->nbuffer++ : VRAM_NO_BUFFER;
  }
  if (!c.e.code && c.l->kind != VRAM_LINE_END)
    vram__net_bad(&c, VRAM_ERR_VALUE, "the network does not end (expected END)");
  vram__net_all_taken(&c);
  if (!c.e.code)
    vram__net_sums(&c);
  if (err)
    *err = c.e;
  return c.e.code;
}

static int vram__net_has_banks(const vram_arena_options *o) { return o && o->nbank > 1; }

/* Buffers, and with banks the accesses to each. */
static uint64_t vram__net_own_bytes(const vram_net *net, const vram_arena_options *o) {
  const uint64_t each = sizeof(vram_buffer) + (vram__net_has_banks(o) ? sizeof(uint64_t) : 0);
  return ((uint64_t)net->nbuffer * each + 15) & ~UINT64_C(15);
}

VRAM_API uint64_t vram_net_plan_bytes(const vram_net *net, const vram_arena_options *o) {
  return vram__sum_or_overflow(vram__net_own_bytes(net, o),
                               vram__net_has_banks(o) ? vram_arena_spill_bytes(net->nbuffer, o)
                                                      : vram_arena_bytes(net->nbuffer, o));
}

/* Bytes of each buffer that one inference reads and writes: what a line makes once, what it reads
   once, scratch twice. Views touch nothing. */
static void vram__net_accesses(const vram_net *net, uint64_t *accesses) {
  uint32_t i, k;
  for (i = 0; i < net->nline; i++) {
    const vram_net_line *const l = net->line + i;
    if (vram__net_where[l->kind] == VRAM__NET_VIEW)
      continue;
    accesses[l->buffer] += l->out_bytes;
    if (i && l->kind != VRAM_LINE_INPUT)
      accesses[l[-1].buffer] += l[-1].out_bytes;
    for (k = 0; k < VRAM_NET_KEPT && l->kept[k] && l->from[k]; k++)
      accesses[net->line[l->from[k]].buffer] += net->line[l->from[k]].out_bytes;
    if (l->scratch_buffer != VRAM_NO_BUFFER)
      accesses[l->scratch_buffer] += 2 * l->scratch_bytes;
  }
}

/* Line i reads that buffer. */
static void vram__net_reads(vram_buffer *b, uint64_t i) {
  if (b->end <= i)
    b->end = i + 1;
}

/* Lifetimes of the buffers, in lines. */
static void vram__net_lifetimes(const vram_net *net, vram_buffer *b) {
  uint32_t i, k;
  for (i = 0; i < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    vram_buffer *y = b + l->buffer;
    if (l->owner == i) {
      y->bytes = l->storage_bytes;
      y->begin = i;
    }
    vram__net_reads(y, i);
    if (l->kind == VRAM_LINE_OUTPUT)
      y->end = net->nline;
    if (i)
      vram__net_reads(b + l[-1].buffer, i);
    for (k = 0; k < VRAM_NET_KEPT && l->kept[k] && l->from[k]; k++)
      vram__net_reads(b + net->line[l->from[k]].buffer, i);
    if (l->scratch_buffer != VRAM_NO_BUFFER) {
      b[l->scratch_buffer].bytes = l->scratch_bytes;
      b[l->scratch_buffer].begin = i;
      b[l->scratch_buffer].end = (uint64_t)i + 1;
    }
  }
}

VRAM_API vram_result vram_net_plan(vram_net *net, const vram_arena_options *o, void *scratch,
                                   uint64_t scratch_bytes, vram_error *err) {
  const uint64_t own = vram__net_own_bytes(net, o);
  vram_buffer *b = (vram_buffer *)scratch;
  vram_arena_options options;
  vram_result result;
  uint32_t i;
  vram__memory_zero(&options, sizeof options);
  if (o)
    options = *o;
  options.align = net->align;
  if (!net->nbuffer)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "the network was not counted");
  if (!scratch || scratch_bytes < vram_net_plan_bytes(net, o)) {
    vram__error_begin(err, VRAM_ERR_MEMORY, 0, "");
    vram__error_number(err, "scratch needs ", vram_net_plan_bytes(net, o));
    vram__error_number(err, " bytes, got ", scratch_bytes);
    return VRAM_ERR_MEMORY;
  }
  vram__memory_zero(b, own);
  vram__net_lifetimes(net, b);
  if (vram__net_has_banks(o)) {
    uint64_t *const accesses = (uint64_t *)(void *)(b + net->nbuffer);
    vram__net_accesses(net, accesses);
    result = vram_arena_spill(b, accesses, net->nbuffer, &options, (uint8_t *)scratch + own,
                              scratch_bytes - own, &net->arena, err);
    for (i = 0; i < net->nline && !result; i++)
      net->line[i].accesses = accesses[net->line[i].buffer];
  } else
    result = vram_arena_plan(b, net->nbuffer, &options, (uint8_t *)scratch + own,
                             scratch_bytes - own, &net->arena, err);
  net->buffer = b;
  for (i = 0; i < net->nline && !result; i++) {
    vram_net_line *l = net->line + i;
    l->offset = b[l->buffer].offset;
    l->scratch_offset =
        l->scratch_buffer == VRAM_NO_BUFFER ? VRAM_NOWHERE : b[l->scratch_buffer].offset;
    l->bank = b[l->buffer].bank;
    l->scratch_bank = l->scratch_buffer == VRAM_NO_BUFFER ? 0 : b[l->scratch_buffer].bank;
  }
  return result;
}
