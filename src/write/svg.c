/* >>write/svg    the picture of a step */
#include "write/write.h"

/* what lasts lies at the bottom */
static const uint8_t vram__svg_order[VRAM_CATEGORY_COUNT] = {
    VRAM_CATEGORY_PARAMS,      VRAM_CATEGORY_OPTIMIZER, VRAM_CATEGORY_BUFFERS,
    VRAM_CATEGORY_INPUTS,      VRAM_CATEGORY_GRADIENTS, VRAM_CATEGORY_AUTOCAST,
    VRAM_CATEGORY_ACTIVATIONS, VRAM_CATEGORY_WORKSPACE, VRAM_CATEGORY_TEMPORARIES,
    VRAM_CATEGORY_OTHER};

VRAM__FN const char *vram__svg_bytes(const vram__svg *d, uint64_t bytes, char to[24]) {
  vram_bytes_text(bytes, d->o->units, to, 24);
  return to;
}

/* The colours of categories are apart for everybody: CIE76 distance at least 29, in the dark 22,
   with normal vision, protanopia, deuteranopia and tritanopia. */
VRAM__FN void vram__svg_style(vram__pen *p) {
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
VRAM__FN int vram__svg_words(vram__svg *d, int y, const char *s) {
  uint32_t len = vram__text_len(s), line, k, end;
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
VRAM__FN void vram__tick_text(uint64_t v, vram_units units, char to[24]) {
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
  vram__text_puti(to, 24, &n, (int64_t)(v / unit));
  if (unit > 1 && v % unit) {
    uint64_t rest = v % unit;
    vram__text_puts(to, 24, &n, ".");
    while (rest && n < 8) {
      char digit;
      while (unit > UINT64_C(1) << 59)
        rest >>= 1, unit >>= 1;
      digit = (char)('0' + (char)(rest * 10 / unit));
      rest = rest * 10 % unit;
      vram__text_put(to, 24, &n, &digit, 1);
    }
  }
  if (v)
    vram__text_puts(to, 24, &n, name + k);
}

/* A step of an axis so that there are at most `most` of them: a power of two, or 1, 2, 5 times a
   power of ten. */
VRAM__FN uint64_t vram__tick_step(uint64_t end, uint64_t most, int binary) {
  uint64_t step = 1;
  uint32_t k;
  for (k = 0; end / step > most; k++) /* 1 2 5 10 */
    step = !binary && k % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

VRAM__FN int vram__svg_y(const vram__svg *d, uint64_t bytes) {
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
  const int w = vram__text_width(s, vram__text_len(s), VRAM__SVG_FINE) * 9 / 8, pad = 60;
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
  return vram__text_width(b->name, vram__text_len(b->name), VRAM__SVG_FINE) + 40 < b->to - b->from;
}

/* `several`: room for the name of phases that repeat. */
static uint32_t vram__svg_bands(vram__svg *d, vram__band *band, char several[64], int *rows) {
  const vram_timeline *t = d->t;
  const uint32_t many = 12; /* more micro-batches are one band */
  uint32_t i, n = 0, at = 0, first = 0, last = 0;
  int end[4] = {0, 0, 0, 0}, w, fits = 1;
  vram__text_puti(several, 64, &at, (int64_t)t->forwards);
  vram__text_puts(several, 64, &at, " x forward, backward");
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
    w = vram__text_width(b->name, vram__text_len(b->name), VRAM__SVG_FINE);
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
VRAM__FN int vram__svg_fits(vram__svg *d, int y) {
  const vram_svg_options *o = d->o;
  const int fits = d->need <= o->budget_bytes;
  const uint64_t apart = fits ? o->budget_bytes - d->need : d->need - o->budget_bytes;
  vram__pen *p = &d->pen;
  char a[24], b[24];
  vram__pen_f(p, "<text class=\"b\" x=\"%d\" y=\"%d\">%r %s", VRAM__SVG_EDGE, y,
              fits ? "Fits into" : "Does not fit into", vram__svg_bytes(d, o->budget_bytes, a));
  if (o->budget_name) {
    vram__pen_puts(p, ", ");
    vram__pen_fit(p, o->budget_name, vram__text_len(o->budget_name), VRAM__SVG_FONT, 2000, 0);
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
  vram__text_puts(line, sizeof line, &n,
                  !t->nspan                           ? ", nothing is allocated in the step"
                  : t->peak.phase == VRAM_PHASE_COUNT ? ", "
                                                      : " in ");
  vram__text_puts(line, sizeof line, &n, t->nspan ? vram__span_name(t->peak.phase) : "");
  vram__pen_f(p, "<text x=\"%d\" y=\"%d\">Peak <tspan class=\"b\">%s</tspan>%s", VRAM__SVG_EDGE, y,
              bytes, line);
  if (t->peak.node) {
    const uint32_t len = vram__node_text(t->peak.node, name, sizeof name);
    vram__pen_puts(p, ", at ");
    vram__pen_fit(p, name, len, VRAM__SVG_FONT,
                  VRAM__SVG_ROOM - vram__text_width(line, n, VRAM__SVG_FONT) -
                      vram__text_width(bytes, vram__text_len(bytes), VRAM__SVG_FONT) * 11 / 10 -
                      vram__text_width("Peak , at ", 10, VRAM__SVG_FONT),
                  1);
  }
  vram__pen_puts(p, "</text>\n");
  return y + 210;
}

/* A line across the plot: the budget, or what the device needs. */
VRAM__FN void vram__svg_line(vram__svg *d, uint64_t bytes, const char *dashes) {
  d->line[d->nline] = vram__svg_y(d, bytes);
  vram__pen_f(&d->pen, "<path class=\"k\" stroke-dasharray=\"%r\" d=\"M%d %dH%d\"/>\n", dashes,
              d->plot.x, d->line[d->nline++], d->plot.x + d->plot.w);
}

VRAM__FN void vram__svg_mark(vram__svg *d, const char *what, uint64_t bytes, int x,
                             const char *kind) {
  char words[64], figure[24];
  uint32_t len = 0;
  vram__text_puts(words, sizeof words, &len, what);
  vram__text_puts(words, sizeof words, &len, vram__svg_bytes(d, bytes, figure));
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
    w = vram__text_width(text, vram__text_len(text), VRAM__SVG_FINE);
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
    vram__text_puti(to, cap, &n, (int64_t)c->count);
    vram__text_puts(to, cap, &n, " ");
    vram__text_puts(to, cap, &n, c->kind == VRAM__CELL_OP ? vram__op_text(c->node->op) : "others");
  } else if (c->node) {
    vram__node_text(c->node, name, sizeof name);
    vram__text_put(to, cap, &n, name, c->len);
    if (c->kind == VRAM__CELL_PREFIX && name[c->len])
      vram__text_puts(to, cap, &n, name[c->len] == '.' ? ".*" : "[*]");
  } else
    vram__text_puts(to, cap, &n, vram_category_name((vram_category)c->cat));
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
  const int figure = vram__text_width(bytes, vram__text_len(bytes), VRAM__SVG_FINE);
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
    vram__pen_f(p, " (%s)", vram__op_text(c->node->op));
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
  vram__memory_zero(&all, sizeof all);
  all.x = VRAM__SVG_EDGE, all.y = y + 310;
  all.w = VRAM__SVG_ROOM, all.h = VRAM__SVG_AREAS;
  for (i = 0; i < d->ncell; i = k) {
    vram__memory_zero(&cat[n], sizeof cat[n]);
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
    vram__pen_fit(p, o->title, vram__text_len(o->title), 220, VRAM__SVG_ROOM, 0);
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
  vram__memory_zero(&d, sizeof d);
  vram__memory_zero(&none, sizeof none);
  d.o = options ? options : &none;
  d.t = timeline && timeline->cap ? timeline : NULL;
  d.r = report;
  for (i = 0; live && i < nlive; i++) {
    const uint32_t c = vram__category_of(live[i].category);
    d.bytes[c] = vram__sum_or_overflow(d.bytes[c], live[i].bytes);
    d.total = vram__sum_or_overflow(d.total, live[i].bytes);
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
