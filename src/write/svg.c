/* >>writer (Implementation) --------------------------------------------------------------------
   All lengths in pictures are whole tenths of a unit; a picture is 500 units wide. */

VRAM_API uint32_t vram_bytes_text(uint64_t bytes, vram_units units, char *to, uint32_t cap) {
  static const char *const name[2][7] = {{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"},
                                         {"B", "KB", "MB", "GB", "TB", "PB", "EB"}};
  const uint64_t step = units == VRAM_UNITS_SI ? 1000 : 1024;
  uint64_t unit = 1, whole, rest, digits;
  uint32_t u = 0, n = 0, copied = 0, scale, place;
  char text[24], digit;
  text[0] = 0;
  if (units != VRAM_UNITS_BYTES)
    while (u < 6 && bytes / unit >= step)
      unit *= step, u++;
  whole = bytes / unit;
  rest = bytes % unit;
  scale = u && whole < 10 ? 100 : u && whole < 100 ? 10 : 1;
  while (unit > UINT64_C(1) << 50)
    rest /= step, unit /= step;
  digits = whole * scale + rest * scale / unit;
  rest = rest * scale % unit;
  digits += 2 * rest > unit || (2 * rest == unit && (digits & 1)); /* half to even, as printf */
  vram__putu(text, sizeof text, &n, digits / scale);
  if (scale > 1)
    vram__puts(text, sizeof text, &n, ".");
  for (place = scale / 10; place; place /= 10) {
    digit = (char)('0' + (char)(digits / place % 10));
    vram__put(text, sizeof text, &n, &digit, 1);
  }
  if (units != VRAM_UNITS_BYTES) {
    vram__puts(text, sizeof text, &n, " ");
    vram__puts(text, sizeof text, &n, name[units == VRAM_UNITS_SI][u]);
  }
  if (cap)
    vram__put(to, cap, &copied, text, n);
  return n;
}

VRAM_API uint64_t vram_timeline_bytes(uint32_t columns) {
  return (uint64_t)columns * sizeof(vram_moment) + 7; /* 7: the memory may begin anywhere */
}

VRAM_API vram_result vram_timeline_init(vram_timeline *t, void *mem, uint64_t bytes,
                                        const uint64_t *before) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
  uint64_t room = mem && bytes > skip ? (bytes - skip) / sizeof *t->column : 0;
  uint32_t i;
  vram__zero(t, sizeof *t);
  if (!room)
    return VRAM_ERR_MEMORY;
  t->column = (vram_moment *)(void *)((uint8_t *)mem + skip);
  t->cap = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
  for (i = 0; before && i < VRAM_CATEGORY_COUNT; i++) {
    t->now.bytes[i] = before[i];
    t->now.total = vram__plus(t->now.total, before[i]);
  }
  t->column[0] = t->peak = t->now;
  t->ncolumn = 1;
  t->width = 1;
  return VRAM_OK;
}

/* The phase of the next event. When there is no room for one more, the last two places are for
   phases behind backward; what else comes is part of the one before. */
static void vram__timeline_phase(vram_timeline *t, vram_phase phase) {
  vram_phase_span *last = t->nspan ? &t->span[t->nspan - 1] : NULL;
  const uint32_t room = VRAM_TIMELINE_SPANS - (phase <= VRAM_PHASE_BACKWARD ? 2 : 0);
  if (!last)
    t->now.phase = t->peak.phase = t->column[0].phase = phase;
  if (phase == VRAM_PHASE_FORWARD && (!last || t->now.phase != phase))
    t->forwards++;
  if (last && (last->phase == phase || t->nspan >= room))
    return;
  last = &t->span[t->nspan];
  last->phase = phase;
  last->first = t->nspan++ ? t->events + 1 : 0;
  last->peak_bytes = last->end_bytes = t->now.total;
}

VRAM_API void vram_timeline_add(void *timeline, const vram_event *e) {
  vram_timeline *t = (vram_timeline *)timeline;
  const vram_phase phase = (uint32_t)e->phase <= VRAM_PHASE_COUNT ? e->phase : VRAM_PHASE_END;
  const uint64_t at = t->events + 1;
  uint64_t *to = &t->now.bytes[vram__category_of(e->category)], *from = to, bytes = e->bytes;
  vram_phase_span *span;
  uint32_t i;
  if (!t->cap || e->device == VRAM_HOST ||
      (e->action != VRAM_ALLOC && e->action != VRAM_FREE && e->action != VRAM_BECOMES))
    return;
  if (e->action == VRAM_BECOMES)
    from = &t->now.bytes[vram__category_of(e->was)];
  if (e->action == VRAM_ALLOC && bytes > (uint64_t)VRAM_MAX_BYTES - t->now.total)
    bytes = (uint64_t)VRAM_MAX_BYTES - t->now.total;
  if (e->action != VRAM_ALLOC && bytes > *from)
    bytes = *from;
  if (e->action == VRAM_BECOMES) {
    *from -= bytes;
    *to += bytes;
    return;
  }
  vram__timeline_phase(t, phase);
  if (e->action == VRAM_ALLOC) {
    *to += bytes;
    t->now.total += bytes;
  } else {
    *to -= bytes;
    t->now.total -= bytes;
  }
  t->now.event = t->events = at;
  t->now.node = e->node;
  t->now.phase = phase;
  span = &t->span[t->nspan - 1];
  span->end_bytes = t->now.total;
  if (t->now.total > span->peak_bytes)
    span->peak_bytes = t->now.total;
  if (t->now.total > t->peak.total)
    t->peak = t->now;
  while (at / t->width >= t->cap) { /* two columns become one */
    for (i = 0; i < t->ncolumn - i; i++) {
      const vram_moment *pair = t->column + i + i;
      t->column[i] = pair[i + i + 1 < t->ncolumn && pair[1].total > pair[0].total];
    }
    t->ncolumn = i;
    t->width *= 2;
  }
  i = (uint32_t)(at / t->width);
  if (i == t->ncolumn)
    t->column[t->ncolumn++] = t->now;
  else if (t->now.total > t->column[i].total)
    t->column[i] = t->now;
}

VRAM_API vram_result vram_timeline_ledger(vram_timeline *t, void *mem, uint64_t bytes,
                                          vram_ledger *l) {
  uint64_t before[VRAM_CATEGORY_COUNT], k, n;
  vram_result result;
  uint32_t c;
  int predicted = 0;
  vram_event e;
  vram__ledger_lock(l);
  for (c = 0; c < VRAM_CATEGORY_COUNT; c++)
    before[c] = l->category[c].current;
  n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  for (k = l->trace_count; k > l->trace_count - n; k--) { /* back to the first one */
    const vram_event *kept = l->trace + (k - 1) % l->options.trace;
    if (kept->device == VRAM_HOST)
      continue;
    predicted |= kept->node || kept->phase;
    if (kept->action == VRAM_ALLOC || kept->action == VRAM_BECOMES)
      before[kept->category] -= kept->bytes;
    if (kept->action == VRAM_FREE || kept->action == VRAM_BECOMES)
      before[kept->action == VRAM_FREE ? kept->category : kept->was] += kept->bytes;
  }
  result = vram_timeline_init(t, mem, bytes, before);
  for (k = l->trace_count - n; !result && k < l->trace_count; k++) {
    e = l->trace[k % l->options.trace];
    if (!predicted)
      e.phase = VRAM_PHASE_COUNT;
    vram_timeline_add(t, &e);
  }
  vram__ledger_unlock(l);
  return result;
}

static const char *vram__span_name(vram_phase phase) {
  return phase == VRAM_PHASE_COUNT ? "observed" : vram_phase_name(phase);
}

/* ---- text that goes to a sink ---- */

typedef struct vram__pen {
  const vram_sink *sink; /* NULL: nothing is written, only measured */
  uint32_t n;
  uint8_t failed;
  char text[1024];
} vram__pen;

static void vram__pen_flush(vram__pen *p) {
  if (p->n && p->sink && !p->failed && p->sink->write(p->sink->user, p->text, p->n))
    p->failed = 1;
  p->n = 0;
}

static void vram__pen_put(vram__pen *p, const char *s, uint32_t len) {
  while (len--) {
    if (p->n == sizeof p->text)
      vram__pen_flush(p);
    p->text[p->n++] = *s++;
  }
}

static void vram__pen_puts(vram__pen *p, const char *z) { vram__pen_put(p, z, vram__len(z)); }

static void vram__pen_puti(vram__pen *p, int64_t v) {
  char t[24];
  uint32_t n = 0;
  vram__puti(t, sizeof t, &n, v);
  vram__pen_put(p, t, n);
}

static void vram__pen_putu(vram__pen *p, uint64_t v) {
  char t[24];
  uint32_t n = 0;
  vram__putu(t, sizeof t, &n, v);
  vram__pen_put(p, t, n);
}

/* How many bytes the character at s has; 0: it is none that XML takes, in UTF-8. */
static uint32_t vram__utf8(const char *s, uint32_t len) {
  const uint32_t a = (uint8_t)s[0];
  const uint32_t n = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
  uint32_t i, c = n > 1 ? a & (0xffu >> (n + 1)) : a;
  if (n > len || (n == 1 && (a < 32 || a == 127)))
    return 0;
  for (i = 1; i < n; i++) {
    if (((uint8_t)s[i] & 0xc0) != 0x80)
      return 0;
    c = c << 6 | ((uint8_t)s[i] & 0x3fu);
  }
  if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000) || c > 0xfffd)) ||
      (n == 4 && (c < 0x10000 || c > 0x10ffff)))
    return 0;
  return n;
}

/* As text or in an attribute; what is no character becomes '?'. */
static void vram__pen_xml(vram__pen *p, const char *s, uint32_t len) {
  while (len) {
    uint32_t n = vram__utf8(s, len);
    if (!n)
      vram__pen_puts(p, "?"), n = 1;
    else if (*s == '&')
      vram__pen_puts(p, "&amp;");
    else if (*s == '<')
      vram__pen_puts(p, "&lt;");
    else if (*s == '>')
      vram__pen_puts(p, "&gt;");
    else if (*s == '"')
      vram__pen_puts(p, "&quot;");
    else
      vram__pen_put(p, s, n);
    s += n;
    len -= n;
  }
}

/* %d an int in tenths, %i an int, %u a uint64_t, %r text as it is, %s text escaped, %% */
static void vram__pen_f(vram__pen *p, const char *format, ...) {
  va_list list;
  va_start(list, format);
  for (; *format; format++)
    if (*format != '%')
      vram__pen_put(p, format, 1);
    else
      switch (*++format) {
      case 'd': {
        const int v = va_arg(list, int), size = v < 0 ? -v : v;
        if (v < 0)
          vram__pen_puts(p, "-");
        vram__pen_puti(p, size / 10);
        if (size % 10)
          vram__pen_puts(p, "."), vram__pen_puti(p, size % 10);
        break;
      }
      case 'i':
        vram__pen_puti(p, va_arg(list, int));
        break;
      case 'u':
        vram__pen_putu(p, va_arg(list, uint64_t));
        break;
      case 'r':
        vram__pen_puts(p, va_arg(list, const char *));
        break;
      case '%':
        vram__pen_puts(p, "%");
        break;
      default: {
        const char *z = va_arg(list, const char *);
        vram__pen_xml(p, z, vram__len(z));
      }
      }
  va_end(list);
}

/* How wide a text is at most: the widest of the usual fonts decides. `size`: of the font. */
static int vram__text_width(const char *s, uint32_t len, int size) {
  static const char *const group[] = {"ijl", "ft ,.!|'", "rI:;/\\()[]-\"",
                                      "ABCDEFGHJKLNOPQRSTUVXYZ&w", "mMW%@+=<>~^#"};
  static const int em[] = {300, 400, 460, 820, 1080, 645};
  int64_t sum = 0;
  for (; len; s++, len--) {
    uint32_t i, k = 0;
    if (((uint8_t)*s & 0xc0) == 0x80) /* within a character */
      continue;
    for (i = (uint8_t)*s < 0x80 ? 0 : 4; i < 5; i++) {
      for (k = 0; group[i][k] && group[i][k] != *s; k++)
        ;
      if (group[i][k] || (uint8_t)*s >= 0x80)
        break;
    }
    sum += em[i];
  }
  sum = sum * size / 1000;
  return (int)(sum < 30000 ? sum : 30000);
}

/* A text of at most so many tenths; of a longer one the end (tail: else the beginning). */
static void vram__pen_fit(vram__pen *p, const char *s, uint32_t len, int size, int room, int tail) {
  const int dots = size * 11 / 10;
  if (vram__text_width(s, len, size) <= room) {
    vram__pen_xml(p, s, len);
    return;
  }
  while (len && vram__text_width(s, len, size) + dots > room) {
    do {
      len--;
      s += tail != 0;
    } while (len && ((uint8_t)(tail ? *s : s[len]) & 0xc0) == 0x80);
  }
  if (tail)
    vram__pen_puts(p, "&#8230;");
  vram__pen_xml(p, s, len);
  if (!tail)
    vram__pen_puts(p, "&#8230;");
}

/* ---- the live set: cells, each of one category ---- */

typedef struct vram__cell {
  uint64_t bytes, key;
  const vram_node *node;
  uint32_t count; /* tensors */
  uint16_t len;   /* of the node's name, as far as they share it */
  uint8_t cat, kind;
  int x, y, w, h;
} vram__cell;

enum { /* what the tensors of a cell have in common */
       VRAM__CELL_NODE,
       VRAM__CELL_PREFIX, /* a module: the name up to a dot or bracket */
       VRAM__CELL_OP,
       VRAM__CELL_REST /* the category only */
};

/* a * b / c, where a <= c and b < 2^25; bits beyond 38 are lost */
static uint64_t vram__share(uint64_t a, uint64_t b, uint64_t c) {
  while (c >> 38)
    a >>= 1, c >>= 1;
  return c ? a * b / c : 0;
}

/* by category and what they share */
static int vram__cell_by_key(const vram__cell *a, const vram__cell *b) {
  const uint32_t i = a->node ? a->node->index : 0, j = b->node ? b->node->index : 0;
  return a->cat != b->cat ? a->cat < b->cat : a->key != b->key ? a->key < b->key : i < j;
}

/* the largest first, the rest last */
static int vram__cell_by_size(const vram__cell *a, const vram__cell *b) {
  if (a->cat != b->cat)
    return a->cat < b->cat;
  if ((a->kind == VRAM__CELL_REST) != (b->kind == VRAM__CELL_REST))
    return b->kind == VRAM__CELL_REST;
  return a->bytes != b->bytes ? a->bytes > b->bytes : vram__cell_by_key(a, b);
}

/* Heap sort: needs no memory and no recursion. */
static void vram__cell_sort(vram__cell *c, uint32_t n,
                            int (*before)(const vram__cell *, const vram__cell *)) {
  uint32_t start = n / 2, end = n;
  while (end > 1) {
    uint32_t at, child;
    vram__cell x;
    if (start)
      x = c[--start];
    else {
      x = c[--end];
      c[end] = c[0];
    }
    for (at = start; (child = 2 * at + 1) < end; at = child) {
      child += child + 1 < end && before(&c[child], &c[child + 1]);
      if (!before(&x, &c[child]))
        break;
      c[at] = c[child];
    }
    c[at] = x;
  }
}

/* What tensors of a cell share at this level: 0 the whole name, 1 the op, d + 1 the first d parts
   of the name. Returns how many parts the name has. */
static uint32_t vram__cell_key(vram__cell *c, uint32_t level) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  uint32_t i, len, parts = 1;
  len = vram_node_name(c->node, name, sizeof name);
  for (i = 0; i < len; i++) {
    if (i && (name[i] == '.' || name[i] == '[') && ++parts == level)
      break;
    hash = (hash ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
  }
  c->len = (uint16_t)i;
  c->key = level == 1 ? c->node ? c->node->op : UINT64_MAX : hash;
  return parts;
}

/* Groups what is live: nodes with large tensors stand alone, the small ones go together by module,
   then by op, then by category. Returns how many cells there are. */
static uint32_t vram__cells(vram__cell *c, const vram_live *live, uint32_t n, uint64_t least) {
  uint32_t done = 0, level = 0, parts = 1, i, k;
  for (i = 0; i < n; i++) {
    vram__zero(&c[i], sizeof c[i]);
    c[i].bytes = live[i].bytes;
    c[i].node = live[i].node;
    c[i].cat = (uint8_t)vram__category_of(live[i].category);
    c[i].count = 1;
  }
  for (;;) {
    for (i = done; i < n; i++) {
      k = vram__cell_key(&c[i], level);
      if (!level && k > parts)
        parts = k < 8 ? k : 8;
    }
    vram__cell_sort(c + done, n - done, vram__cell_by_key);
    for (i = done; i < n; i = k) {
      vram__cell sum = c[i];
      for (k = i + 1; k < n && c[k].cat == sum.cat && c[k].key == sum.key; k++) {
        sum.bytes = vram__plus(sum.bytes, c[k].bytes);
        sum.count++;
      }
      if (sum.bytes < least || (level == 1 && !sum.node))
        continue;
      sum.kind = (uint8_t)(level > 1    ? VRAM__CELL_PREFIX
                           : level == 1 ? VRAM__CELL_OP
                                        : VRAM__CELL_NODE);
      /* the cell stands where its first tensor was, the others go */
      c[i] = c[done];
      c[done++] = sum;
      {
        const uint32_t gone = k - i - 1;
        uint32_t m;
        for (m = k; m < n; m++)
          c[m - gone] = c[m];
        n -= gone;
        k -= gone;
      }
    }
    if (level == 1)
      break;
    level = level ? level - 1 : parts;
  }
  vram__cell_sort(c + done, n - done, vram__cell_by_key);
  for (i = k = done; i < n; i++)
    if (k > done && c[k - 1].cat == c[i].cat) {
      c[k - 1].bytes = vram__plus(c[k - 1].bytes, c[i].bytes);
      c[k - 1].count++;
      c[k - 1].kind = VRAM__CELL_REST;
    } else {
      c[k] = c[i];
      vram__cell_key(&c[k], 0);
      c[k++].kind = VRAM__CELL_NODE;
    }
  vram__cell_sort(c, k, vram__cell_by_size);
  return k;
}

/* Squarified areas (Bruls, Huizing, van Wijk): n cells, the largest first, fill the rectangle of
   `in`. Rows are laid along its shorter side, each as long as that makes its cells squarer. */
static void vram__squarify(vram__cell *c, uint32_t n, const vram__cell *in) {
  int x = in->x, y = in->y, w = in->w, h = in->h;
  uint64_t left = 0;
  uint32_t i, k, first = 0;
  for (i = 0; i < n; i++)
    left = vram__plus(left, c[i].bytes);
  while (first < n) {
    const int wide = w > h;
    const uint64_t side = (uint64_t)(wide ? h : w), area = (uint64_t)w * (uint64_t)h;
    const uint64_t most = vram__share(c[first].bytes, area, left);
    uint64_t sum = 0, bytes = 0, worst = UINT64_MAX;
    int at = 0, thick;
    for (k = first; k < n; k++) {
      const uint64_t one = vram__share(c[k].bytes, area, left), s = sum + one;
      uint64_t longest = UINT64_MAX, other;
      if (one && side) { /* the worse of the two extremes, in 1/1024 */
        longest = side * side * most / s * 1024 / s;
        other = s * 1024 / (side * side) * s / one;
        longest = longest > other ? longest : other;
      }
      if (k > first && longest >= worst)
        break;
      worst = longest;
      sum = s;
      bytes += c[k].bytes;
    }
    thick = side ? (int)((sum + side / 2) / side) : 0;
    if (k == n || thick > (wide ? w : h))
      thick = wide ? w : h;
    for (sum = 0; first < k; first++) {
      int to;
      sum += c[first].bytes;
      to = first + 1 == k ? (int)side : (int)vram__share(sum, side, bytes);
      c[first].x = wide ? x : x + at;
      c[first].y = wide ? y + at : y;
      c[first].w = wide ? thick : to - at;
      c[first].h = wide ? to - at : thick;
      at = to;
    }
    left -= bytes;
    *(wide ? &x : &y) += thick;
    *(wide ? &w : &h) -= thick;
  }
}

/* ---- the picture ---- */

enum {
  VRAM__SVG_WIDTH = 5000,
  VRAM__SVG_EDGE = 120,
  VRAM__SVG_ROOM = VRAM__SVG_WIDTH - 2 * VRAM__SVG_EDGE,
  VRAM__SVG_PLOT = 2300, /* heights */
  VRAM__SVG_AREAS = 3000,
  VRAM__SVG_FONT = 150,
  VRAM__SVG_FINE = 140,
  VRAM__SVG_CELLS = 32, /* a cell is at least so small a part */
  VRAM__SVG_STEPS = 960 /* columns at most */
};

/* what lasts lies at the bottom */
static const uint8_t vram__svg_order[VRAM_CATEGORY_COUNT] = {
    VRAM_CATEGORY_PARAMS,      VRAM_CATEGORY_OPTIMIZER, VRAM_CATEGORY_BUFFERS,
    VRAM_CATEGORY_INPUTS,      VRAM_CATEGORY_GRADIENTS, VRAM_CATEGORY_AUTOCAST,
    VRAM_CATEGORY_ACTIVATIONS, VRAM_CATEGORY_WORKSPACE, VRAM_CATEGORY_TEMPORARIES,
    VRAM_CATEGORY_OTHER};

typedef struct vram__box {
  int x, y, w, h;
} vram__box;

typedef struct vram__svg {
  vram__pen pen;
  const vram_timeline *t;
  const vram_report *r;
  const vram_svg_options *o;
  vram__cell *cell;
  uint32_t ncell, nlive;
  uint64_t total, bytes[VRAM_CATEGORY_COUNT]; /* at the peak */
  uint8_t seen[VRAM_CATEGORY_COUNT];          /* at any time */
  uint64_t need;                              /* of the device */
  uint64_t scale;                             /* bytes at the upper edge of the plot */
  vram__box plot, label[4];
  int line[2]; /* heights of lines across the plot */
  uint32_t nlabel, nline;
} vram__svg;

static const char *vram__svg_bytes(const vram__svg *d, uint64_t bytes, char to[24]) {
  vram_bytes_text(bytes, d->o->units, to, 24);
  return to;
}

/* The colours of categories are apart for everybody: CIE76 distance at least 29, in the dark 22,
   with normal vision, protanopia, deuteranopia and tritanopia. */
static void vram__svg_style(vram__pen *p) {
  vram__pen_puts(
      p, "<style>.vram text{font:15px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',"
         "Arial,sans-serif;fill:#1b1b1f}.vram .t{font-size:20px;font-weight:600}"
         ".vram{background:#fff}.vram .b{font-weight:600}.vram .f{font-size:14px}.vram "
         ".g{fill:#55555c}"
         ".vram .m{text-anchor:middle}.vram .e{text-anchor:end}"
         ".vram .o{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}"
         ".vram .p{fill:#fff}.vram .l{stroke:#c9c9d0;stroke-width:.8;fill:none}"
         ".vram .k{stroke:#1b1b1f;fill:none}.vram .d{fill:#1b1b1f;stroke:#fff;stroke-width:1.5}"
         ".vram .q0{fill:#ececf0}.vram .q1{fill:#dcdce2}.vram .a{stroke:#fff;stroke-width:5}"
         ".vram .x{fill:#000}.vram .w{fill:#fff}");
  vram__pen_puts(p, ".vram .v0{fill:#3100ac}.vram .v1{fill:#66919f}.vram .v2{fill:#ffc481}"
                    ".vram .v3{fill:#67cbfd}.vram .v4{fill:#8f930f}.vram .v5{fill:#11530f}"
                    ".vram .v6{fill:#6d114d}.vram .v7{fill:#c67461}.vram .v8{fill:#984bbd}"
                    ".vram .v9{fill:#d7d7d7}");
  vram__pen_puts(p, "@media screen and (prefers-color-scheme:dark){.vram{background:#17171b}.vram "
                    "text{fill:#ececf1}"
                    ".vram .g{fill:#b4b4be}.vram .o{stroke:#17171b}.vram .p{fill:#17171b}"
                    ".vram .l{stroke:#4a4a52}.vram .k{stroke:#ececf1}"
                    ".vram .d{fill:#ececf1;stroke:#17171b}.vram .q0{fill:#26262c}"
                    ".vram .q1{fill:#383840}.vram .a{stroke:#17171b}"
                    ".vram .x,.vram .w{fill:#000}");
  vram__pen_puts(p, ".vram .v0{fill:#7f69e6}.vram .v1{fill:#357daf}.vram .v2{fill:#eedb4a}"
                    ".vram .v3{fill:#8ab1f2}.vram .v4{fill:#97a71d}.vram .v5{fill:#3db959}"
                    ".vram .v6{fill:#b06162}.vram .v7{fill:#e99c9c}.vram .v8{fill:#c89bbe}"
                    ".vram .v9{fill:#e0e0e0}}</style>\n");
}

/* Words in as many lines as they need, three at most. Returns where the next line is. */
static int vram__svg_words(vram__svg *d, int y, const char *s) {
  uint32_t len = vram__len(s), line, k, end;
  for (line = 0; len && line < 3; line++) {
    for (k = end = 0; k < len; k++)
      if (s[k] == ' ' && vram__text_width(s, k, VRAM__SVG_FONT) <= VRAM__SVG_ROOM)
        end = k;
    if (!end || line == 2 || vram__text_width(s, len, VRAM__SVG_FONT) <= VRAM__SVG_ROOM)
      end = len;
    vram__pen_f(&d->pen, "<text class=\"g\" x=\"%d\" y=\"%d\">", VRAM__SVG_EDGE, y);
    vram__pen_fit(&d->pen, s, end, VRAM__SVG_FONT, VRAM__SVG_ROOM, 0);
    vram__pen_puts(&d->pen, "</text>\n");
    y += 210;
    for (; end < len && s[end] == ' '; end++)
      ;
    s += end;
    len -= end;
  }
  return y;
}

/* A figure of the axis, exact: 1.5 GiB */
static void vram__tick_text(uint64_t v, vram_units units, char to[24]) {
  uint64_t unit = 1;
  const uint64_t step = units == VRAM_UNITS_SI ? 1000 : 1024;
  char name[24];
  uint32_t n = 0, k = 0;
  vram_bytes_text(v, units, name, sizeof name);
  while (name[k] && name[k] != ' ')
    k++;
  if (units != VRAM_UNITS_BYTES)
    while (v / unit >= step)
      unit *= step;
  vram__puti(to, 24, &n, (int64_t)(v / unit));
  if (unit > 1 && v % unit) {
    uint64_t rest = v % unit;
    vram__puts(to, 24, &n, ".");
    while (rest && n < 8) {
      char digit;
      while (unit > UINT64_C(1) << 59)
        rest >>= 1, unit >>= 1;
      digit = (char)('0' + (char)(rest * 10 / unit));
      rest = rest * 10 % unit;
      vram__put(to, 24, &n, &digit, 1);
    }
  }
  if (v)
    vram__puts(to, 24, &n, name + k);
}

/* A step of an axis so that there are at most `most` of them: a power of two, or 1, 2, 5 times a
   power of ten. */
static uint64_t vram__tick_step(uint64_t end, uint64_t most, int binary) {
  uint64_t step = 1;
  uint32_t k;
  for (k = 0; end / step > most; k++) /* 1 2 5 10 */
    step = !binary && k % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

static int vram__svg_y(const vram__svg *d, uint64_t bytes) {
  return d->plot.y + d->plot.h - (int)vram__share(bytes, (uint64_t)d->plot.h, d->scale);
}

/* Where a moment begins. */
static int vram__svg_x(const vram__svg *d, uint64_t moment) {
  const uint64_t all = d->t->events + 1;
  return d->plot.x + (int)vram__share(moment < all ? moment : all, (uint64_t)d->plot.w, all);
}

/* Writes a label at the first of these places that is free and inside the plot: above or below the
   point, in the middle, to its left or right; at the plot's ends for a line (x < 0). Lines may be
   crossed only where there is no other place. */
static void vram__svg_label(vram__svg *d, const char *s, int x, int y, const char *kind) {
  const int w = vram__text_width(s, vram__len(s), VRAM__SVG_FINE) * 9 / 8, pad = 60;
  const vram__box *p = &d->plot;
  int place;
  for (place = 0; place < 12; place++) {
    const int where = place % 3, below = place / 3 & 1;
    vram__box b;
    uint32_t i, k;
    b.w = w;
    b.h = 190;
    b.y = below ? y + pad : y - pad - b.h;
    if (x < 0)
      b.x = where == 0 ? p->x + p->w - w - pad : where == 1 ? p->x + pad : p->x + (p->w - w) / 2;
    else {
      b.x = where == 0 ? x - w / 2 : where == 1 ? x - w : x;
      if (b.x > p->x + p->w - pad - w)
        b.x = p->x + p->w - pad - w;
      if (b.x < p->x + pad)
        b.x = p->x + pad;
    }
    if (b.x < p->x || b.x + w > p->x + p->w || b.y < p->y || b.y + b.h > p->y + p->h)
      continue;
    for (i = 0; i < d->nlabel; i++) {
      const vram__box *o = &d->label[i];
      if (b.x < o->x + o->w && o->x < b.x + b.w && b.y < o->y + o->h && o->y < b.y + b.h)
        break;
    }
    for (k = 0; k < d->nline && place < 6; k++)
      if (d->line[k] >= b.y && d->line[k] <= b.y + b.h)
        break;
    if (i < d->nlabel || (k < d->nline && place < 6))
      continue;
    d->label[d->nlabel++] = b;
    vram__pen_f(&d->pen, "<text class=\"f o m %r\" x=\"%d\" y=\"%d\">%s</text>\n", kind,
                b.x + w / 2, b.y + 145, s);
    return;
  }
}

/* A phase as it is shown: its part of the band above the plot, and its name there or, where that
   is too narrow, above it. */
typedef struct vram__band {
  const char *name;
  uint64_t first;       /* moment */
  int from, to, x, row; /* x: middle of the name; row 0: in the band; -1: without a name */
} vram__band;

static int vram__band_fits(const vram__band *b) {
  return vram__text_width(b->name, vram__len(b->name), VRAM__SVG_FINE) + 40 < b->to - b->from;
}

/* `several`: room for the name of phases that repeat. */
static uint32_t vram__svg_bands(vram__svg *d, vram__band *band, char several[64], int *rows) {
  const vram_timeline *t = d->t;
  const uint32_t many = 12; /* more micro-batches are one band */
  uint32_t i, n = 0, at = 0, first = 0, last = 0;
  int end[4] = {0, 0, 0, 0}, w, fits = 1;
  vram__puti(several, 64, &at, (int64_t)t->forwards);
  vram__puts(several, 64, &at, " x forward, backward");
  for (i = 0; i < t->nspan; i++) {
    const int part = t->forwards > 1 && (t->span[i].phase == VRAM_PHASE_FORWARD ||
                                         t->span[i].phase == VRAM_PHASE_BACKWARD);
    if (part && last && t->forwards > many)
      continue;
    band[n].name = part && t->forwards > many ? several : vram__span_name(t->span[i].phase);
    band[n].first = t->span[i].first;
    band[n++].row = 0;
    if (part)
      first = last ? first : n, last = n; /* one more than the index */
  }
  for (i = 0; i < n; i++) {
    band[i].from = vram__svg_x(d, band[i].first);
    band[i].to = vram__svg_x(d, i + 1 < n ? band[i + 1].first : t->events + 1);
    fits &= i + 1 < first || i >= last || vram__band_fits(&band[i]);
  }
  *rows = 0;
  for (i = 0; i < n; i++) {
    vram__band *b = &band[i], whole;
    if (!fits && first < last && i + 1 >= first && i < last) { /* one name for all of them */
      b->row = -1;
      if (i + 1 != first)
        continue;
      whole = *b;
      whole.name = several;
      whole.to = band[last - 1].to;
      b->name = several;
      b->x = (whole.from + whole.to) / 2;
      if (vram__band_fits(&whole)) {
        b->row = 0;
        continue;
      }
    } else {
      b->x = (b->from + b->to) / 2;
      if (vram__band_fits(b))
        continue;
    }
    b->row = -1;
    if (t->events && b->first && d->t->span[t->nspan - 1].first == b->first &&
        t->span[t->nspan - 1].phase == VRAM_PHASE_END)
      continue;
    w = vram__text_width(b->name, vram__len(b->name), VRAM__SVG_FINE);
    if (b->x > d->plot.x + d->plot.w - w / 2)
      b->x = d->plot.x + d->plot.w - w / 2;
    if (b->x < VRAM__SVG_EDGE + w / 2)
      b->x = VRAM__SVG_EDGE + w / 2;
    for (at = 1; at < 4; at++)
      if (b->x - w / 2 >= end[at]) {
        b->row = (int)at;
        end[at] = b->x + w / 2 + 80;
        if (b->row > *rows)
          *rows = b->row;
        break;
      }
  }
  return n;
}

/* What is allocated over the step: one area for each category, drawn from the uppermost to the
   lowest, each over the one behind it. */
static void vram__svg_areas(vram__svg *d) {
  const vram_timeline *t = d->t;
  const uint32_t group = (t->ncolumn + VRAM__SVG_STEPS - 1) / VRAM__SVG_STEPS;
  uint32_t i, j, k, c;
  vram__pen *p = &d->pen;
  vram__pen_f(p, "<g class=\"a\" transform=\"translate(%d %d)scale(.1,-.1)\">\n", d->plot.x,
              d->plot.y + d->plot.h);
  for (k = VRAM_CATEGORY_COUNT; k--;) {
    const uint32_t cat = vram__svg_order[k];
    char text[24];
    int x = 0, y = 0;
    if (!d->seen[cat])
      continue;
    vram__pen_f(p, "<path class=\"v%i\" d=\"M0 0", (int)cat);
    for (i = 0; i < t->ncolumn; i += group) {
      const vram_moment *m = &t->column[i];
      const uint64_t next = i + group < t->ncolumn ? (i + group) * t->width : t->events + 1;
      uint64_t sum = 0;
      int to = vram__svg_x(d, next) - d->plot.x, high;
      for (j = i + 1; j < i + group && j < t->ncolumn; j++)
        if (t->column[j].total > m->total)
          m = &t->column[j];
      for (c = 0; c <= k; c++)
        sum += m->bytes[vram__svg_order[c]];
      high = d->plot.y + d->plot.h - vram__svg_y(d, sum);
      if (high != y) {
        if (i)
          vram__pen_f(p, "H%i", vram__svg_x(d, i * t->width) - d->plot.x);
        vram__pen_f(p, "v%i", high - y);
        y = high;
      }
      x = to;
    }
    vram__pen_f(p, "H%iV0\"><title>%s: %s at the peak</title></path>\n", x,
                vram_category_name((vram_category)cat), vram__svg_bytes(d, d->bytes[cat], text));
  }
  vram__pen_puts(p, "</g>\n");
}

/* Whether it fits, in two lines. */
static int vram__svg_fits(vram__svg *d, int y) {
  const vram_svg_options *o = d->o;
  const int fits = d->need <= o->budget_bytes;
  const uint64_t apart = fits ? o->budget_bytes - d->need : d->need - o->budget_bytes;
  vram__pen *p = &d->pen;
  char a[24], b[24];
  vram__pen_f(p, "<text class=\"b\" x=\"%d\" y=\"%d\">%r %s", VRAM__SVG_EDGE, y,
              fits ? "Fits into" : "Does not fit into", vram__svg_bytes(d, o->budget_bytes, a));
  if (o->budget_name) {
    vram__pen_puts(p, ", ");
    vram__pen_fit(p, o->budget_name, vram__len(o->budget_name), VRAM__SVG_FONT, 2000, 0);
  }
  vram__pen_f(p, "</text>\n<text x=\"%d\" y=\"%d\">%s %r; %s %r</text>\n", VRAM__SVG_EDGE, y + 210,
              vram__svg_bytes(d, apart, a), fits ? "to spare" : "too much",
              vram__svg_bytes(d, d->need, b), d->r ? "expected on the device" : "at the peak");
  return y + 420;
}

static int vram__svg_peak(vram__svg *d, int y) {
  const vram_timeline *t = d->t;
  vram__pen *p = &d->pen;
  char line[64], bytes[24], name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint32_t n = 0;
  vram__svg_bytes(d, t->peak.total, bytes);
  vram__puts(line, sizeof line, &n,
             !t->nspan                           ? ", nothing is allocated in the step"
             : t->peak.phase == VRAM_PHASE_COUNT ? ", "
                                                 : " in ");
  vram__puts(line, sizeof line, &n, t->nspan ? vram__span_name(t->peak.phase) : "");
  vram__pen_f(p, "<text x=\"%d\" y=\"%d\">Peak <tspan class=\"b\">%s</tspan>%s", VRAM__SVG_EDGE, y,
              bytes, line);
  if (t->peak.node) {
    const uint32_t len = vram_node_name(t->peak.node, name, sizeof name);
    vram__pen_puts(p, ", at ");
    vram__pen_fit(p, name, len, VRAM__SVG_FONT,
                  VRAM__SVG_ROOM - vram__text_width(line, n, VRAM__SVG_FONT) -
                      vram__text_width(bytes, vram__len(bytes), VRAM__SVG_FONT) * 11 / 10 -
                      vram__text_width("Peak , at ", 10, VRAM__SVG_FONT),
                  1);
  }
  vram__pen_puts(p, "</text>\n");
  return y + 210;
}

/* A line across the plot: the budget, or what the device needs. */
static void vram__svg_line(vram__svg *d, uint64_t bytes, const char *dashes) {
  d->line[d->nline] = vram__svg_y(d, bytes);
  vram__pen_f(&d->pen, "<path class=\"k\" stroke-dasharray=\"%r\" d=\"M%d %dH%d\"/>\n", dashes,
              d->plot.x, d->line[d->nline++], d->plot.x + d->plot.w);
}

static void vram__svg_mark(vram__svg *d, const char *what, uint64_t bytes, int x,
                           const char *kind) {
  char words[64], figure[24];
  uint32_t len = 0;
  vram__puts(words, sizeof words, &len, what);
  vram__puts(words, sizeof words, &len, vram__svg_bytes(d, bytes, figure));
  vram__svg_label(d, words, x, vram__svg_y(d, bytes), kind);
}

/* The lines and the peak, with their names. */
static void vram__svg_marks(vram__svg *d) {
  const vram_timeline *t = d->t;
  const vram_svg_options *o = d->o;
  const uint64_t column = t->peak.event / t->width;
  const int x = (vram__svg_x(d, column * t->width) + vram__svg_x(d, (column + 1) * t->width)) / 2;
  if (o->has_budget)
    vram__svg_line(d, o->budget_bytes, "6 4");
  if (o->has_budget && d->r)
    vram__svg_line(d, d->need, "1.5 3");
  vram__pen_f(&d->pen, "<circle class=\"d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>\n", x,
              vram__svg_y(d, t->peak.total));
  vram__svg_mark(d, "peak ", t->peak.total, x, "b");
  if (o->has_budget)
    vram__svg_mark(d, "budget ", o->budget_bytes, -1, "b");
  if (o->has_budget && d->r)
    vram__svg_mark(d, "device ", d->need, -1, "");
}

static int vram__svg_step(vram__svg *d, int y) {
  const vram_timeline *t = d->t;
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  vram__band band[VRAM_TIMELINE_SPANS];
  char text[24], several[64];
  uint64_t most = t->peak.total, step, v;
  uint32_t i, n;
  int left = 0, rows;
  vram__pen_f(p, "<text class=\"b\" x=\"%d\" y=\"%d\">Requested memory over the step</text>\n",
              VRAM__SVG_EDGE, y);
  y = vram__svg_peak(d, y + 210);
  if (o->has_budget) {
    y = vram__svg_fits(d, y);
    most = most < o->budget_bytes ? o->budget_bytes : most;
    most = most < d->need ? d->need : most;
  }
  /* a seventh more, for the labels */
  d->scale = most > (uint64_t)VRAM_MAX_BYTES ? most : most + most / 7 + 1;
  step = vram__tick_step(d->scale, 6, o->units == VRAM_UNITS_IEC);
  for (v = 0; v <= d->scale; v += step) {
    int w;
    vram__tick_text(v, o->units, text);
    w = vram__text_width(text, vram__len(text), VRAM__SVG_FINE);
    left = w > left ? w : left;
    if (v > UINT64_MAX - step)
      break;
  }
  d->plot.x = VRAM__SVG_EDGE + left + 60;
  d->plot.w = VRAM__SVG_WIDTH - VRAM__SVG_EDGE - d->plot.x;
  d->plot.h = VRAM__SVG_PLOT;
  n = vram__svg_bands(d, band, several, &rows);
  y += rows * 190 + 20;
  d->plot.y = y + 220;
  d->nlabel = d->nline = 0;
  for (i = 0; i < n; i++)
    vram__pen_f(p, "<rect class=\"q%i\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
                (int)(i & 1), band[i].from, y, band[i].to - band[i].from, 220);
  for (i = 0; i < n; i++) {
    const int row = band[i].row;
    if (row > 0)
      vram__pen_f(p, "<path class=\"l\" d=\"M%d %dV%d\"/>\n", (band[i].from + band[i].to) / 2,
                  y - (row - 1) * 190 - 20, y + 40);
    if (row >= 0)
      vram__pen_f(p, "<text class=\"f m\" x=\"%d\" y=\"%d\">%s</text>\n", band[i].x,
                  row ? y - (row - 1) * 190 - 40 : y + 160, band[i].name);
  }
  for (v = 0; v <= d->scale; v += step) {
    const int at = vram__svg_y(d, v);
    vram__tick_text(v, o->units, text);
    vram__pen_f(p,
                "<path class=\"l\" d=\"M%d %dH%d\"/><text class=\"f g e\" x=\"%d\" y=\"%d\">%s"
                "</text>\n",
                d->plot.x, at, d->plot.x + d->plot.w, d->plot.x - 60, at + 50, text);
    if (v > UINT64_MAX - step)
      break;
  }
  vram__pen_f(p,
              "<rect class=\"plot\" fill=\"none\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
              d->plot.x, d->plot.y, d->plot.w, d->plot.h);
  vram__svg_areas(d);
  for (i = 1; i < n; i++)
    vram__pen_f(p, "<path class=\"l\" d=\"M%d %dV%d\"/>\n", band[i].from, y, d->plot.y + d->plot.h);
  vram__pen_f(p, "<path class=\"k\" d=\"M%d %dH%d\"/>\n", d->plot.x, d->plot.y + d->plot.h,
              d->plot.x + d->plot.w);
  /* the axis of events */
  y = d->plot.y + d->plot.h + 190;
  step = vram__tick_step(t->events, 5, 0);
  for (v = 0; v <= t->events && t->events; v += step) {
    const int at = vram__svg_x(d, v);
    const int w = vram__text_width("0000000000", v < 100000 ? 5 : 10, VRAM__SVG_FINE);
    vram__pen_f(p, "<text class=\"f g %r\" x=\"%d\" y=\"%d\">%u</text>\n",
                at + w / 2 > VRAM__SVG_WIDTH - VRAM__SVG_EDGE ? "e" : "m",
                at + w / 2 > VRAM__SVG_WIDTH - VRAM__SVG_EDGE ? d->plot.x + d->plot.w : at, y, v);
  }
  y += 190;
  vram__pen_f(p, "<text class=\"f g m\" x=\"%d\" y=\"%d\">allocations and frees, in order</text>\n",
              d->plot.x + d->plot.w / 2, y);
  vram__svg_marks(d);
  return y + 100;
}

/* Categories that ever hold something, from the uppermost to the lowest, with their bytes at the
   peak. */
static int vram__svg_legend(vram__svg *d, int y) {
  const int columns = d->o->units == VRAM_UNITS_BYTES ? 1 : 2;
  vram__pen *p = &d->pen;
  uint32_t k;
  int n = 0, rows = 0;
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    rows += d->seen[k];
  rows = (rows + columns - 1) / columns;
  for (k = VRAM_CATEGORY_COUNT; k--;) {
    const uint32_t cat = vram__svg_order[k];
    const uint64_t percent = vram__share(d->bytes[cat], 1000, d->total ? d->total : 1);
    const int x = VRAM__SVG_EDGE + n / (rows ? rows : 1) * 2460,
              at = y + n % (rows ? rows : 1) * 220;
    const int few = d->bytes[cat] && percent < 5;
    char text[24];
    if (!d->seen[cat])
      continue;
    vram__pen_f(p,
                "<rect class=\"v%i\" x=\"%d\" y=\"%d\" width=\"13\" height=\"13\" rx=\"2\"/>"
                "<text x=\"%d\" y=\"%d\">%s</text><text class=\"e\" x=\"%d\" y=\"%d\">%s"
                "</text><text class=\"e g\" x=\"%d\" y=\"%d\">%r%u%%</text>\n",
                (int)cat, x, at - 120, x + 185, at, vram_category_name((vram_category)cat),
                x + (columns == 1 ? 3800 : 1850), at, vram__svg_bytes(d, d->bytes[cat], text),
                x + (columns == 1 ? 4500 : 2300), at, few ? "&lt;" : "",
                few ? UINT64_C(1) : (percent + 5) / 10);
    n++;
  }
  return y + rows * 220;
}

/* What stands in a cell: "conv1", "layer1.*", "blocks[*]", "48 linear", "75 others". */
static uint32_t vram__cell_name(const vram__cell *c, char *to, uint32_t cap) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint32_t n = 0;
  to[0] = 0;
  if (c->kind >= VRAM__CELL_OP) {
    vram__puti(to, cap, &n, (int64_t)c->count);
    vram__puts(to, cap, &n, " ");
    vram__puts(to, cap, &n, c->kind == VRAM__CELL_OP ? vram_op_name(c->node->op) : "others");
  } else if (c->node) {
    vram_node_name(c->node, name, sizeof name);
    vram__put(to, cap, &n, name, c->len);
    if (c->kind == VRAM__CELL_PREFIX && name[c->len])
      vram__puts(to, cap, &n, name[c->len] == '.' ? ".*" : "[*]");
  } else
    vram__puts(to, cap, &n, vram_category_name((vram_category)c->cat));
  return n;
}

/* How much of a name goes on a line: all, or up to where it may be broken (0: nowhere). */
static uint32_t vram__name_line(const char *s, uint32_t len, int room) {
  uint32_t i, most = 0;
  if (vram__text_width(s, len, VRAM__SVG_FINE) <= room)
    return len;
  for (i = 1; i + 2 < len && vram__text_width(s, i, VRAM__SVG_FINE) <= room; i++)
    if (s[i - 1] == ' ' || s[i - 1] == '.' || s[i - 1] == '_' || s[i] == '[')
      most = i;
  return most;
}

/* The name and the bytes of a cell: in lines that are whole; on its side, if it is high and narrow;
   or the end of the name. */
static void vram__svg_cell_text(vram__svg *d, const vram__cell *c, const char *name, uint32_t len,
                                const char *bytes) {
  vram__pen *p = &d->pen;
  const int room = c->w - 80, tall = c->h - 80, own = vram__text_width(name, len, VRAM__SVG_FINE);
  const int figure = vram__text_width(bytes, vram__len(bytes), VRAM__SVG_FINE);
  const int bottom = c->y + c->h - 50;
  /* white on what is dark, where it is light around */
  const uint32_t dark = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_TEMPORARIES |
                        1u << VRAM_CATEGORY_WORKSPACE | 1u << VRAM_CATEGORY_OPTIMIZER;
  const char *ink = dark >> c->cat & 1 ? "w" : "x";
  uint32_t at = 0, n = 1, lines = 0;
  int y = c->y + 155;
  for (; at < len && n; at += n, lines++)
    n = vram__name_line(name + at, len - at, room);
  if (n && y + 170 * ((int)lines - 1) <= bottom)
    for (at = 0; at < len; at += n, y += 170) {
      n = vram__name_line(name + at, len - at, room);
      vram__pen_f(p, "<text class=\"f %r\" x=\"%d\" y=\"%d\">", ink, c->x + 40, y);
      vram__pen_xml(p, name + at, n);
      vram__pen_puts(p, "</text>");
    }
  else if (own <= tall && c->w > 190) {
    vram__pen_f(p, "<text class=\"f %r\" transform=\"translate(%d %d)rotate(90)\">%s", ink,
                c->x + c->w / 2 - 50, c->y + 40, name);
    if (own + 80 + figure <= tall)
      vram__pen_f(p, " %s", bytes);
    vram__pen_puts(p, "</text>");
    return;
  } else if (c->kind < VRAM__CELL_OP && room > 600 && y <= bottom) {
    vram__pen_f(p, "<text class=\"f %r\" x=\"%d\" y=\"%d\">", ink, c->x + 40, y);
    vram__pen_fit(p, name, len, VRAM__SVG_FINE, room, 1);
    vram__pen_puts(p, "</text>");
    y += 170;
  }
  if (y <= bottom && figure <= room)
    vram__pen_f(p, "<text class=\"f %r\" x=\"%d\" y=\"%d\">%s</text>", ink, c->x + 40, y, bytes);
}

static void vram__svg_cell(vram__svg *d, const vram__cell *c) {
  vram__pen *p = &d->pen;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 32], bytes[24];
  const uint32_t len = vram__cell_name(c, name, sizeof name);
  if (c->w < 14 || c->h < 14)
    return;
  vram__svg_bytes(d, c->bytes, bytes);
  vram__pen_f(p, "<g><title>%s: %s", vram_category_name((vram_category)c->cat), name);
  if (c->node && c->kind == VRAM__CELL_NODE)
    vram__pen_f(p, " (%s)", vram_op_name(c->node->op));
  if (c->kind == VRAM__CELL_PREFIX)
    vram__pen_f(p, ", %u tensors", (uint64_t)c->count);
  vram__pen_f(p, ", %s</title><rect class=\"v%i\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>",
              bytes, (int)c->cat, c->x, c->y, c->w - 8, c->h - 8);
  vram__svg_cell_text(d, c, name, len, bytes);
  vram__pen_puts(p, "</g>\n");
}

static int vram__svg_live(vram__svg *d, int y) {
  vram__cell all, cat[VRAM_CATEGORY_COUNT];
  vram__pen *p = &d->pen;
  uint32_t i, k, n = 0;
  char text[24];
  vram__pen_f(p,
              "<text class=\"b\" x=\"%d\" y=\"%d\">Allocated at the peak</text>\n"
              "<text class=\"g\" x=\"%d\" y=\"%d\">%u %r, %s; areas as bytes</text>\n",
              VRAM__SVG_EDGE, y, VRAM__SVG_EDGE, y + 210, (uint64_t)d->nlive,
              d->nlive == 1 ? "tensor" : "tensors", vram__svg_bytes(d, d->total, text));
  if (!d->ncell)
    return y + 320;
  vram__zero(&all, sizeof all);
  all.x = VRAM__SVG_EDGE, all.y = y + 310;
  all.w = VRAM__SVG_ROOM, all.h = VRAM__SVG_AREAS;
  for (i = 0; i < d->ncell; i = k) {
    vram__zero(&cat[n], sizeof cat[n]);
    cat[n].cat = d->cell[i].cat;
    cat[n].key = i;
    for (k = i; k < d->ncell && d->cell[k].cat == cat[n].cat; k++)
      cat[n].bytes += d->cell[k].bytes;
    cat[n++].count = k - i;
  }
  for (i = 1; i < n; i++) { /* the largest first */
    const vram__cell one = cat[i];
    for (k = i; k && cat[k - 1].bytes < one.bytes; k--)
      cat[k] = cat[k - 1];
    cat[k] = one;
  }
  vram__squarify(cat, n, &all);
  for (i = 0; i < n; i++) {
    vram__squarify(d->cell + cat[i].key, cat[i].count, &cat[i]);
    for (k = 0; k < cat[i].count; k++)
      vram__svg_cell(d, d->cell + cat[i].key + k);
  }
  return all.y + all.h + 100;
}

/* Everything from the title to the lower edge, which is returned. */
static int vram__svg_body(vram__svg *d) {
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  int y = 270;
  if (o->title) {
    vram__pen_f(p, "<text class=\"t\" x=\"%d\" y=\"%d\">", VRAM__SVG_EDGE, y + 30);
    vram__pen_fit(p, o->title, vram__len(o->title), 220, VRAM__SVG_ROOM, 0);
    vram__pen_puts(p, "</text>\n");
    y += 260;
  }
  if (o->subtitle)
    y = vram__svg_words(d, y, o->subtitle) + 120;
  if (d->t)
    y = vram__svg_step(d, y) + 220;
  if (d->t)
    y = vram__svg_legend(d, y) + 140;
  if (d->cell)
    y = vram__svg_live(d, y);
  if (!d->t)
    y = vram__svg_legend(d, y + 140) - 100;
  return y;
}

/* For those who do not see it. */
static void vram__svg_words_only(vram__svg *d) {
  vram__pen *p = &d->pen;
  char text[24];
  uint32_t i;
  const char *comma = "";
  vram__pen_f(p, "<title>%s%rmemory of one step</title>\n<desc>At the peak %s: ",
              d->o->title ? d->o->title : "", d->o->title ? ": " : "",
              vram__svg_bytes(d, d->total, text));
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (d->bytes[i]) {
      vram__pen_f(p, "%r%s %s", comma, vram_category_name((vram_category)i),
                  vram__svg_bytes(d, d->bytes[i], text));
      comma = ", ";
    }
  for (i = 0; d->t && i < d->t->nspan; i++)
    vram__pen_f(p, "; %s up to %s", vram__span_name(d->t->span[i].phase),
                vram__svg_bytes(d, d->t->span[i].peak_bytes, text));
  vram__pen_puts(p, ".</desc>\n");
}

VRAM_API uint64_t vram_svg_bytes(uint32_t nlive) {
  return (uint64_t)nlive * sizeof(vram__cell) + 7;
}

VRAM_API vram_result vram_write_svg(const vram_timeline *timeline, const vram_report *report,
                                    const vram_live *live, uint32_t nlive,
                                    const vram_svg_options *options, void *scratch,
                                    uint64_t scratch_bytes, const vram_sink *sink) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  vram_svg_options none;
  vram__svg d;
  uint32_t i, k;
  int height;
  vram__zero(&d, sizeof d);
  vram__zero(&none, sizeof none);
  d.o = options ? options : &none;
  d.t = timeline && timeline->cap ? timeline : NULL;
  d.r = report;
  for (i = 0; live && i < nlive; i++) {
    const uint32_t c = vram__category_of(live[i].category);
    d.bytes[c] = vram__plus(d.bytes[c], live[i].bytes);
    d.total = vram__plus(d.total, live[i].bytes);
    d.nlive += live[i].bytes != 0;
  }
  if (live) {
    if (!scratch || scratch_bytes < skip + nlive * (uint64_t)sizeof *d.cell)
      return VRAM_ERR_MEMORY;
    d.cell = (vram__cell *)(void *)((uint8_t *)scratch + skip);
    d.ncell = vram__cells(d.cell, live, nlive, d.total / VRAM__SVG_CELLS + 1);
  }
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++) {
    if (d.t)
      d.bytes[k] = d.t->peak.bytes[k];
    d.seen[k] = d.bytes[k] != 0;
    for (i = 0; d.t && i < d.t->ncolumn; i++)
      d.seen[k] |= d.t->column[i].bytes[k] != 0;
  }
  if (d.t)
    d.total = d.t->peak.total;
  d.need = report ? report->device_bytes.expected : d.total;
  height = vram__svg_body(&d); /* without a sink: how high it is */
  d.pen.n = 0;
  d.pen.sink = sink;
  vram__pen_f(&d.pen,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"vram\" viewBox=\"0 0 %d %d\" "
              "role=\"img\">\n",
              VRAM__SVG_WIDTH, height);
  vram__svg_words_only(&d);
  vram__svg_style(&d.pen);
  vram__pen_f(&d.pen, "<rect class=\"p\" width=\"%d\" height=\"%d\"/>\n", VRAM__SVG_WIDTH, height);
  vram__svg_body(&d);
  vram__pen_puts(&d.pen, "</svg>\n");
  vram__pen_flush(&d.pen);
  return d.pen.failed ? VRAM_ERR_WRITE : VRAM_OK;
}

/* ---- the picture of a schedule ---- */

enum { /* what a chain holds, from the lowest up */
       VRAM__HELD_STATIC,
       VRAM__HELD_SAVED, /* inputs that are kept, and what backward needs */
       VRAM__HELD_GRADIENTS,
       VRAM__HELD_TEMPORARIES,
       VRAM__HELD_COUNT
};
static const uint8_t vram__held_category[VRAM__HELD_COUNT] = {
    VRAM_CATEGORY_PARAMS, VRAM_CATEGORY_ACTIVATIONS, VRAM_CATEGORY_GRADIENTS,
    VRAM_CATEGORY_TEMPORARIES};
static const char *const vram__held_name[VRAM__HELD_COUNT] = {
    "there all the time", "kept for backward", "gradients", "temporaries"};

/* Colours of moves: of a category, so that they are apart. */
static const uint8_t vram__move_colour[VRAM_MOVE_COUNT] = {
    VRAM_CATEGORY_INPUTS,    VRAM_CATEGORY_BUFFERS,   VRAM_CATEGORY_ACTIVATIONS,
    VRAM_CATEGORY_GRADIENTS, VRAM_CATEGORY_WORKSPACE, VRAM_CATEGORY_WORKSPACE,
    VRAM_CATEGORY_OPTIMIZER, VRAM_CATEGORY_OPTIMIZER};
static const char *const vram__move_text[VRAM_MOVE_COUNT] = {
    "forward, nothing stays",      "forward, the input stays",
    "forward, saved for backward", "backward",
    "input to the host",           "saved to the host",
    "input back from the host",    "saved back from the host"};

typedef struct vram__strip_bytes {
  uint64_t bytes[VRAM__HELD_COUNT], total;
} vram__strip_bytes;

typedef struct vram__strip {
  const vram_chain *c;
  const vram_move *move;
  uint32_t nmove, peak;    /* peak: the first move that is the highest */
  vram__strip_bytes *held; /* during each move */
  uint8_t *kept;           /* by stage: what of it is on the device */
  uint32_t seen;           /* a bit for each kind */
} vram__strip;

enum { VRAM__KEPT_INPUT = 1, VRAM__KEPT_SAVED = 2, VRAM__KEPT_WAY = 4 };

static uint64_t vram__strip_round(const vram_chain *c, uint64_t bytes) {
  const uint64_t align = c->align ? c->align : 1;
  return bytes > (uint64_t)VRAM_MAX_BYTES ? (uint64_t)VRAM_MAX_BYTES
                                          : (bytes + align - 1) & ~(align - 1);
}

static uint64_t vram__strip_input(const vram_chain *c, uint32_t i) {
  return vram__strip_round(c, i ? c->stage[i - 1].output_bytes : c->input_bytes);
}

/* What stays of stage i: its input, if it is not a part of what the stage before has saved; and
   what its way saved, the output with it. */
static uint64_t vram__strip_stage(const vram__strip *s, uint32_t i) {
  const vram_chain *c = s->c;
  uint64_t bytes = 0;
  if (s->kept[i] & VRAM__KEPT_INPUT)
    bytes = vram__strip_input(c, i);
  if (s->kept[i] & VRAM__KEPT_SAVED) {
    const vram_way *w = &c->stage[i].way[s->kept[i] / VRAM__KEPT_WAY];
    bytes = vram__plus(bytes, vram__strip_round(c, w->saved_bytes - c->stage[i].output_bytes));
  }
  return bytes;
}

/* What every move holds while it runs. */
static void vram__strip_play(vram__strip *s) {
  const vram_chain *c = s->c;
  uint64_t grad = 0, kept = 0;
  uint32_t k, i;
  for (i = 0; i <= c->nstage; i++)
    s->kept[i] = !i ? VRAM__KEPT_INPUT : 0;
  kept = vram__strip_input(c, 0);
  for (k = 0; k < s->nmove; k++) {
    const vram_move *m = &s->move[k];
    const vram_stage *t = &c->stage[m->stage];
    const vram_way *w = &t->way[m->way];
    vram__strip_bytes *h = &s->held[k];
    uint64_t temp = 0, made = 0, before, next; /* made: a gradient */
    i = m->stage;
    before = vram__strip_stage(s, i);
    next = vram__strip_stage(s, i + 1);
    switch (m->kind) {
    case VRAM_MOVE_DROP:
    case VRAM_MOVE_CHECKPOINT:
    case VRAM_MOVE_SAVE:
      temp = vram__strip_round(c, m->kind == VRAM_MOVE_SAVE ? w->forward_temp_bytes
                                                            : t->forward_temp_bytes);
      s->kept[i + 1] |= VRAM__KEPT_INPUT;
      if (m->kind == VRAM_MOVE_SAVE)
        s->kept[i] =
            (uint8_t)((s->kept[i] & VRAM__KEPT_INPUT) | VRAM__KEPT_SAVED | m->way * VRAM__KEPT_WAY);
      break;
    case VRAM_MOVE_BACKWARD:
      w = &t->way[s->kept[i] / VRAM__KEPT_WAY];
      temp = vram__strip_round(c, w->backward_temp_bytes);
      made = i ? vram__strip_input(c, i) : vram__strip_round(c, c->input_gradient_bytes);
      break;
    case VRAM_MOVE_FETCH:
      s->kept[i] |= VRAM__KEPT_INPUT;
      break;
    case VRAM_MOVE_FETCH_SAVED:
      s->kept[i] |= VRAM__KEPT_SAVED;
      break;
    default:
      break;
    }
    kept = vram__plus(kept, vram__strip_stage(s, i) - before);
    kept = vram__plus(kept, vram__strip_stage(s, i + 1) - next);
    h->bytes[VRAM__HELD_STATIC] = c->static_bytes;
    h->bytes[VRAM__HELD_SAVED] = kept;
    h->bytes[VRAM__HELD_GRADIENTS] = vram__plus(grad, made);
    h->bytes[VRAM__HELD_TEMPORARIES] = temp;
    h->total = vram__plus(vram__plus(c->static_bytes, kept),
                          vram__plus(h->bytes[VRAM__HELD_GRADIENTS], temp));
    if (h->total > s->held[s->peak].total)
      s->peak = k;
    s->seen |= UINT32_C(1) << m->kind;
    /* what goes when it has run */
    before = vram__strip_stage(s, i);
    next = vram__strip_stage(s, i + 1);
    if (m->kind == VRAM_MOVE_BACKWARD) {
      /* an input that the stage before has saved stays with the rest of that */
      s->kept[i] = i && (s->kept[i - 1] & VRAM__KEPT_SAVED) ? VRAM__KEPT_INPUT : 0;
      s->kept[i + 1] = 0;
      grad = made;
    } else if (m->kind == VRAM_MOVE_DROP || m->kind == VRAM_MOVE_OFFLOAD) {
      if (!i || !(s->kept[i - 1] & VRAM__KEPT_SAVED) || m->kind == VRAM_MOVE_OFFLOAD)
        s->kept[i] &= (uint8_t)~VRAM__KEPT_INPUT;
    } else if (m->kind == VRAM_MOVE_OFFLOAD_SAVED)
      s->kept[i] &= (uint8_t)~VRAM__KEPT_SAVED;
    kept -= before - vram__strip_stage(s, i) + next - vram__strip_stage(s, i + 1);
  }
}

static int vram__strip_x(const vram__svg *d, const vram__strip *s, uint32_t move) {
  return d->plot.x + (int)vram__share(move, (uint64_t)d->plot.w, s->nmove);
}

/* Memory during the moves, an area for each kind of what is held. */
static void vram__strip_areas(vram__svg *d, const vram__strip *s) {
  const uint32_t group = (s->nmove + VRAM__SVG_STEPS - 1) / VRAM__SVG_STEPS;
  vram__pen *p = &d->pen;
  uint32_t k, i, j;
  vram__pen_f(p, "<g class=\"a\" transform=\"translate(%d %d)scale(.1,-.1)\">\n", d->plot.x,
              d->plot.y + d->plot.h);
  for (k = VRAM__HELD_COUNT; k--;) {
    int x = 0, y = 0;
    vram__pen_f(p, "<path class=\"v%i\" d=\"M0 0", (int)vram__held_category[k]);
    for (i = 0; i < s->nmove; i += group) {
      const vram__strip_bytes *h = &s->held[i];
      uint64_t sum = 0;
      int high;
      for (j = i + 1; j < i + group && j < s->nmove; j++)
        if (s->held[j].total > h->total)
          h = &s->held[j];
      for (j = 0; j <= k; j++)
        sum = vram__plus(sum, h->bytes[j]);
      high = d->plot.y + d->plot.h - vram__svg_y(d, sum);
      if (high != y) {
        if (i)
          vram__pen_f(p, "H%i", x);
        vram__pen_f(p, "v%i", high - y);
        y = high;
      }
      x = vram__strip_x(d, s, i + group < s->nmove ? i + group : s->nmove) - d->plot.x;
    }
    vram__pen_f(p, "H%iV0\"/>\n", x);
  }
  vram__pen_puts(p, "</g>\n");
}

/* The axis of bytes: its step; the plot begins behind its figures. */
static uint64_t vram__strip_scale(vram__svg *d, uint64_t most) {
  const vram_svg_options *o = d->o;
  uint64_t step, v;
  int left = 0;
  d->scale = most > (uint64_t)VRAM_MAX_BYTES ? most : most + most / 7 + 1;
  step = vram__tick_step(d->scale, 6, o->units == VRAM_UNITS_IEC);
  for (v = 0; v <= d->scale; v += step) {
    char text[24];
    int w;
    vram__tick_text(v, o->units, text);
    w = vram__text_width(text, vram__len(text), VRAM__SVG_FINE);
    left = w > left ? w : left;
    if (v > UINT64_MAX - step)
      break;
  }
  d->plot.x = VRAM__SVG_EDGE + left + 60;
  d->plot.w = VRAM__SVG_WIDTH - VRAM__SVG_EDGE - d->plot.x;
  return step;
}

static int vram__strip_memory(vram__svg *d, const vram__strip *s, int y) {
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  const vram_move *peak = &s->move[s->peak];
  uint64_t most = d->need, step, v;
  char text[24];
  vram__pen_f(p,
              "<text class=\"b\" x=\"%d\" y=\"%d\">Memory over the schedule</text>\n"
              "<text x=\"%d\" y=\"%d\">Peak <tspan class=\"b\">%s</tspan> in move %u of %u, %r of "
              "stage %u</text>\n",
              VRAM__SVG_EDGE, y, VRAM__SVG_EDGE, y + 210, vram__svg_bytes(d, d->need, text),
              (uint64_t)s->peak + 1, (uint64_t)s->nmove,
              peak->kind == VRAM_MOVE_BACKWARD ? "backward" : "forward", (uint64_t)peak->stage);
  y += 420;
  if (o->has_budget) {
    y = vram__svg_fits(d, y);
    most = most < o->budget_bytes ? o->budget_bytes : most;
  }
  step = vram__strip_scale(d, most);
  d->plot.y = y;
  d->plot.h = VRAM__SVG_PLOT;
  for (v = 0; v <= d->scale; v += step) {
    const int at = vram__svg_y(d, v);
    vram__tick_text(v, o->units, text);
    vram__pen_f(p,
                "<path class=\"l\" d=\"M%d %dH%d\"/><text class=\"f g e\" x=\"%d\" y=\"%d\">%s"
                "</text>\n",
                d->plot.x, at, d->plot.x + d->plot.w, d->plot.x - 60, at + 50, text);
    if (v > UINT64_MAX - step)
      break;
  }
  vram__strip_areas(d, s);
  vram__pen_f(p, "<path class=\"k\" d=\"M%d %dH%d\"/>\n", d->plot.x, d->plot.y + d->plot.h,
              d->plot.x + d->plot.w);
  if (o->has_budget)
    vram__svg_line(d, o->budget_bytes, "6 4");
  {
    const int x = (vram__strip_x(d, s, s->peak) + vram__strip_x(d, s, s->peak + 1)) / 2;
    vram__pen_f(p, "<circle class=\"d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>\n", x,
                vram__svg_y(d, d->need));
    vram__svg_mark(d, "peak ", d->need, x, "b");
  }
  if (o->has_budget)
    vram__svg_mark(d, "budget ", o->budget_bytes, -1, "b");
  return d->plot.y + d->plot.h;
}

/* Which stage each move is of: stages up, moves across. */
static int vram__strip_stages(vram__svg *d, const vram__strip *s, int y) {
  const uint32_t n = s->c->nstage;
  const int high = n > 24 ? 2400 : (int)n * 100, right = d->plot.x + d->plot.w;
  vram__pen *p = &d->pen;
  uint64_t step = vram__tick_step(n, n > 12 ? 8 : 12, 0), v;
  uint32_t kind, k;
  y += 330;
  vram__pen_f(p, "<text class=\"b\" x=\"%d\" y=\"%d\">Stage of each move</text>\n", VRAM__SVG_EDGE,
              y);
  y += 120;
  vram__pen_f(p, "<rect class=\"q0\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", d->plot.x,
              y, d->plot.w, high);
  if (step * (uint64_t)high < 190 * (uint64_t)n) /* figures need room */
    step = (190 * (uint64_t)n + (uint64_t)high - 1) / (uint64_t)high;
  for (v = 0; v < n; v += step) {
    const int at = y + high - (int)vram__share(2 * v + 1, (uint64_t)high, 2 * (uint64_t)n);
    vram__pen_f(p, "<text class=\"f g e\" x=\"%d\" y=\"%d\">%u</text>\n", d->plot.x - 60, at + 50,
                v);
  }
  for (kind = 0; kind < VRAM_MOVE_COUNT; kind++) {
    if (!(s->seen >> kind & 1))
      continue;
    vram__pen_f(p, "<path class=\"v%i\" d=\"", (int)vram__move_colour[kind]);
    for (k = 0; k < s->nmove; k++) {
      const uint32_t i = s->move[k].stage;
      const int end = vram__strip_x(d, s, k + 1), from = vram__strip_x(d, s, k);
      const int low = y + high - (int)vram__share(i, (uint64_t)high, n);
      const int top = y + high - (int)vram__share((uint64_t)i + 1, (uint64_t)high, n);
      /* at least so large that it is seen */
      const int w = end - from < 20 ? 20 : end - from, h = low - top < 30 ? 30 : low - top;
      const int x = from + w > right ? right - w : from, upper = low - h < y ? y : low - h;
      if (s->move[k].kind == kind)
        vram__pen_f(p, "M%d %dH%dV%dH%dz", x, upper, x + w, upper + h, x);
    }
    vram__pen_puts(p, "\"/>\n");
  }
  y += high + 190;
  step = vram__tick_step(s->nmove, 5, 0);
  for (v = 0; v <= s->nmove; v += step) {
    const int at = vram__strip_x(d, s, (uint32_t)v);
    const int w = vram__text_width("0000000", 7, VRAM__SVG_FINE);
    const int end = at + w / 2 > VRAM__SVG_WIDTH - VRAM__SVG_EDGE;
    vram__pen_f(p, "<text class=\"f g %r\" x=\"%d\" y=\"%d\">%u</text>\n", end ? "e" : "m",
                end ? d->plot.x + d->plot.w : at, y, v);
  }
  vram__pen_f(p, "<text class=\"f g m\" x=\"%d\" y=\"%d\">moves, in order</text>\n",
              d->plot.x + d->plot.w / 2, y + 190);
  return y + 500;
}

static void vram__strip_swatch(vram__svg *d, uint32_t colour, const char *text, int n, int y) {
  const int x = VRAM__SVG_EDGE + n % 2 * 2460, at = y + n / 2 * 220;
  vram__pen_f(&d->pen,
              "<rect class=\"v%i\" x=\"%d\" y=\"%d\" width=\"13\" height=\"13\" rx=\"2\"/>"
              "<text x=\"%d\" y=\"%d\">%s</text>\n",
              (int)colour, x, at - 120, x + 185, at, text);
}

static int vram__strip_body(vram__svg *d, const vram__strip *s) {
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  uint32_t k;
  int y = 270, n = 0;
  d->nlabel = d->nline = 0;
  if (o->title) {
    vram__pen_f(p, "<text class=\"t\" x=\"%d\" y=\"%d\">", VRAM__SVG_EDGE, y + 30);
    vram__pen_fit(p, o->title, vram__len(o->title), 220, VRAM__SVG_ROOM, 0);
    vram__pen_puts(p, "</text>\n");
    y += 260;
  }
  if (o->subtitle)
    y = vram__svg_words(d, y, o->subtitle) + 120;
  y = vram__strip_memory(d, s, y) + 300;
  for (k = VRAM__HELD_COUNT; k--;)
    if (d->bytes[k])
      vram__strip_swatch(d, vram__held_category[k], vram__held_name[k], n++, y);
  y = vram__strip_stages(d, s, y + (n + 1) / 2 * 220);
  for (n = 0, k = 0; k < VRAM_MOVE_COUNT; k++)
    if (s->seen >> k & 1)
      vram__strip_swatch(d, vram__move_colour[k], vram__move_text[k], n++, y);
  return y + (n + 1) / 2 * 220;
}

VRAM_API uint64_t vram_schedule_svg_bytes(const vram_chain *c, uint32_t nmove) {
  return (uint64_t)nmove * sizeof(vram__strip_bytes) + c->nstage + 8;
}

VRAM_API vram_result vram_write_schedule_svg(const vram_chain *c, const vram_move *move,
                                             uint32_t nmove, const vram_svg_options *options,
                                             void *scratch, uint64_t scratch_bytes,
                                             const vram_sink *sink) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  vram_svg_options none;
  vram__strip s;
  vram__svg d;
  uint32_t k, i;
  int height;
  char text[24];
  vram__zero(&d, sizeof d);
  vram__zero(&none, sizeof none);
  vram__zero(&s, sizeof s);
  for (k = 0; k < nmove; k++)
    if (move[k].stage >= c->nstage || move[k].kind >= VRAM_MOVE_COUNT ||
        move[k].way >= c->stage[move[k].stage].nway)
      return VRAM_ERR_VALUE;
  if (!nmove)
    return VRAM_ERR_VALUE;
  if (!scratch || scratch_bytes < skip + vram_schedule_svg_bytes(c, nmove) - 7)
    return VRAM_ERR_MEMORY;
  d.o = options ? options : &none;
  s.c = c;
  s.move = move;
  s.nmove = nmove;
  s.held = (vram__strip_bytes *)(void *)((uint8_t *)scratch + skip);
  s.kept = (uint8_t *)(s.held + nmove);
  vram__strip_play(&s);
  d.need = d.total = s.held[s.peak].total;
  for (k = 0; k < nmove; k++)
    for (i = 0; i < VRAM__HELD_COUNT; i++)
      d.bytes[i] |= s.held[k].bytes[i];
  height = vram__strip_body(&d, &s); /* without a sink: how high it is */
  d.pen.n = 0;
  d.pen.sink = sink;
  vram__pen_f(&d.pen,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"vram\" viewBox=\"0 0 %d %d\" "
              "role=\"img\">\n<title>%s%ra schedule of %u moves</title>\n<desc>%u stages; at most "
              "%s, in move %u.</desc>\n",
              VRAM__SVG_WIDTH, height, d.o->title ? d.o->title : "", d.o->title ? ": " : "",
              (uint64_t)nmove, (uint64_t)c->nstage, vram__svg_bytes(&d, d.need, text),
              (uint64_t)s.peak + 1);
  vram__svg_style(&d.pen);
  vram__pen_f(&d.pen, "<rect class=\"p\" width=\"%d\" height=\"%d\"/>\n", VRAM__SVG_WIDTH, height);
  vram__strip_body(&d, &s);
  vram__pen_puts(&d.pen, "</svg>\n");
  vram__pen_flush(&d.pen);
  return d.pen.failed ? VRAM_ERR_WRITE : VRAM_OK;
}

