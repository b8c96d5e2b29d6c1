/* >>write/svg    the picture of a step */
#include "write/write.h"

/* what lasts lies at the bottom */
static const uint8_t vram__svg_order[VRAM_CATEGORY_COUNT] = {
    VRAM_CATEGORY_PARAMS,      VRAM_CATEGORY_OPTIMIZER, VRAM_CATEGORY_BUFFERS,
    VRAM_CATEGORY_INPUTS,      VRAM_CATEGORY_GRADIENTS, VRAM_CATEGORY_AUTOCAST,
    VRAM_CATEGORY_ACTIVATIONS, VRAM_CATEGORY_WORKSPACE, VRAM_CATEGORY_TEMPORARIES,
    VRAM_CATEGORY_CACHE,       VRAM_CATEGORY_OTHER};

/* A phase as it is shown: its part of the band above the plot, and its name there or, where that
   is too narrow, above it. */
typedef struct vram__band {
  const char *name;
  uint64_t first; /* moment */
  int from, to;
  int end;    /* of what the name is for, from `from` */
  int x, row; /* x: middle of the name; row 0: in the band; -1: without a name */
} vram__band;

static int vram__band_fits(const vram__band *b) {
  return vram__text_width(b->name, vram__text_len(b->name), VRAM__SVG_FINE) + 40 < b->end - b->from;
}

/* The phases of a step. */
typedef struct vram__bands {
  vram__band band[VRAM_TIMELINE_SPANS];
  uint32_t n;
  uint32_t first, last; /* those of forward and backward passes that repeat; last excluded */
  char several[64];     /* one name for these */
  int rows;             /* of names above the band */
} vram__bands;

static void vram__bands_read(const vram__svg *d, vram__bands *s) {
  const vram_timeline *t = d->t;
  const int many = t->forwards > 12; /* more micro-batches are one band */
  uint32_t i, at = 0;
  s->n = 0;
  s->first = 0;
  s->last = 0;
  s->rows = 0;
  vram__text_puti(s->several, sizeof s->several, &at, (int64_t)t->forwards);
  vram__text_puts(s->several, sizeof s->several, &at, " x forward, backward");
  for (i = 0; i < t->nspan; i++) {
    const vram_phase phase = t->span[i].phase;
    const int part =
        t->forwards > 1 && (phase == VRAM_PHASE_FORWARD || phase == VRAM_PHASE_BACKWARD);
    vram__band *b = s->band + s->n;
    if (part && many && s->last)
      continue;
    b->name = part && many ? s->several : vram__span_name(phase);
    b->first = t->span[i].first;
    b->row = 0;
    if (part && !s->last)
      s->first = s->n;
    s->n++;
    if (part)
      s->last = s->n;
  }
  for (i = 0; i < s->n; i++) {
    s->band[i].from = vram__svg_x(d, s->band[i].first);
    s->band[i].to = vram__svg_x(d, i + 1 < s->n ? s->band[i + 1].first : t->events + 1);
    s->band[i].x = (s->band[i].from + s->band[i].to) / 2;
  }
}

/* Names that are too long for their part of the band go above it, where there is room. */
static void vram__bands_above(const vram__svg *d, vram__bands *s, vram__band *b, int end[4]) {
  const int half = vram__text_width(b->name, vram__text_len(b->name), VRAM__SVG_FINE) / 2;
  const int right = d->plot.x + d->plot.w;
  int row;
  b->x = b->x > right - half ? right - half : b->x;
  b->x = b->x < VRAM__SVG_EDGE + half ? VRAM__SVG_EDGE + half : b->x;
  for (row = 1; row < 4; row++)
    if (b->x - half >= end[row]) {
      b->row = row;
      end[row] = b->x + half + 80;
      s->rows = row > s->rows ? row : s->rows;
      return;
    }
}

/* The passes that repeat have one name where one of them is too narrow for its own. */
static void vram__bands_join(vram__bands *s) {
  vram__band *b = s->band + s->first;
  uint32_t i;
  int fits = 1;
  for (i = s->first; i < s->last; i++)
    fits = fits && vram__band_fits(s->band + i);
  if (fits || s->last - s->first < 2)
    return;
  for (i = s->first; i < s->last; i++)
    s->band[i].row = -1;
  b->name = s->several;
  b->row = 0;
  b->end = s->band[s->last - 1].to;
  b->x = (b->from + b->end) / 2;
}

static void vram__bands_make(const vram__svg *d, vram__bands *s) {
  const vram_timeline *t = d->t;
  int end[4] = {0, 0, 0, 0};
  uint32_t i;
  vram__bands_read(d, s);
  for (i = 0; i < s->n; i++)
    s->band[i].end = s->band[i].to;
  vram__bands_join(s);
  for (i = 0; i < s->n; i++) {
    vram__band *b = s->band + i;
    if (b->row < 0 || vram__band_fits(b))
      continue;
    b->row = -1;
    /* of the end of a step that is no more than a moment there is no name */
    if (!t->events || !b->first || t->span[t->nspan - 1].first != b->first ||
        t->span[t->nspan - 1].phase != VRAM_PHASE_END)
      vram__bands_above(d, s, b, end);
  }
}

static void vram__bands_draw(vram__svg *d, const vram__bands *s, int y) {
  vram__pen *p = &d->pen;
  uint32_t i;
  for (i = 0; i < s->n; i++)
    vram__pen_f(p, "<rect class=\"q%i\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
                (int)(i & 1), s->band[i].from, y, s->band[i].to - s->band[i].from, 220);
  for (i = 0; i < s->n; i++) {
    const vram__band *b = s->band + i;
    if (b->row > 0)
      vram__pen_f(p, "<path class=\"l\" d=\"M%d %dV%d\"/>\n", (b->from + b->to) / 2,
                  y - (b->row - 1) * 190 - 20, y + 40);
    if (b->row >= 0)
      vram__pen_f(p, "<text class=\"f m\" x=\"%d\" y=\"%d\">%s</text>\n", b->x,
                  b->row ? y - (b->row - 1) * 190 - 40 : y + 160, b->name);
  }
}

/* What is allocated over the step: one area for each category, drawn from the uppermost to the
   lowest, each over the one behind it. */
static void vram__svg_areas(vram__svg *d) {
  const vram_timeline *t = d->t;
  const uint32_t group = (t->ncolumn + VRAM__SVG_STEPS - 1) / VRAM__SVG_STEPS;
  uint32_t i, j, k, c;
  vram__svg_areas_open(d);
  for (k = VRAM_CATEGORY_COUNT; k--;) {
    const uint32_t cat = vram__svg_order[k];
    char text[24];
    if (!d->seen[cat])
      continue;
    vram__svg_area_open(d, cat);
    for (i = 0; i < t->ncolumn; i += group) {
      const vram_moment *m = &t->column[i];
      uint64_t sum = 0;
      for (j = i + 1; j < i + group && j < t->ncolumn; j++)
        if (t->column[j].total > m->total)
          m = &t->column[j];
      for (c = 0; c <= k; c++)
        sum += m->bytes[vram__svg_order[c]];
      vram__svg_area_to(d, sum, i + group < t->ncolumn ? (i + group) * t->width : t->events + 1);
    }
    vram__pen_f(&d->pen, "H%iV0\"><title>%s: %s at the peak</title></path>\n", d->end.x,
                vram_category_name((vram_category)cat), vram__svg_bytes(d, d->bytes[cat], text));
  }
  vram__pen_puts(&d->pen, "</g>\n");
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

/* The lines and the peak, with their names. */
static void vram__svg_marks(vram__svg *d) {
  const vram_timeline *t = d->t;
  const vram_svg_options *o = d->o;
  const uint64_t column = t->peak.event / t->width;
  if (d->budget)
    vram__svg_line(d, o->budget_bytes, "6 4");
  if (o->has_budget && d->r)
    vram__svg_line(d, d->need, "1.5 3");
  vram__svg_peak_mark(d, t->peak.total, column * t->width, (column + 1) * t->width);
  if (d->budget)
    vram__svg_mark(d, "budget ", o->budget_bytes, -1, "b");
  if (o->has_budget && d->r)
    vram__svg_mark(d, "device ", d->need, -1, "");
}

/* The axis of events. Returns where the next line is. */
static int vram__svg_events(vram__svg *d, int y) {
  const uint64_t events = d->t->events, step = vram__tick_step(events, 5, 0);
  uint64_t v;
  for (v = 0; v <= events && events; v += step)
    vram__svg_count(d, v, v < 100000 ? 5 : 10, y);
  vram__pen_f(&d->pen,
              "<text class=\"f g m\" x=\"%d\" y=\"%d\">allocations and frees, in order</text>\n",
              d->plot.x + d->plot.w / 2, y + 190);
  return y + 190;
}

static int vram__svg_step(vram__svg *d, int y) {
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  vram__bands bands;
  uint64_t most = d->t->peak.total;
  uint32_t i;
  vram__pen_f(p, "<text class=\"b\" x=\"%d\" y=\"%d\">Requested memory over the step</text>\n",
              VRAM__SVG_EDGE, y);
  y = vram__svg_peak(d, y + 210);
  if (o->has_budget) {
    y = vram__svg_fits(d, y);
    most = most < d->need ? d->need : most;
    d->budget = o->budget_bytes / 4 <= most; /* else nothing of the step could be seen below it */
    most = d->budget && most < o->budget_bytes ? o->budget_bytes : most;
  }
  d->across = d->t->events + 1;
  vram__svg_scale(d, most);
  vram__bands_make(d, &bands);
  y += bands.rows * 190 + 20;
  d->plot.y = y + 220;
  d->nlabel = 0;
  d->nline = 0;
  vram__bands_draw(d, &bands, y);
  vram__svg_scale_lines(d);
  vram__pen_f(p,
              "<rect class=\"plot\" fill=\"none\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
              d->plot.x, d->plot.y, d->plot.w, d->plot.h);
  vram__svg_areas(d);
  for (i = 1; i < bands.n; i++)
    vram__pen_f(p, "<path class=\"l\" d=\"M%d %dV%d\"/>\n", bands.band[i].from, y,
                d->plot.y + d->plot.h);
  vram__svg_base(d);
  y = vram__svg_events(d, d->plot.y + d->plot.h + 190);
  vram__svg_marks(d);
  return y + 100;
}

/* The plot alone. Returns its lower edge. */
static int vram__svg_small(vram__svg *d) {
  const vram_timeline *t = d->t;
  const uint64_t from = t->peak.event / t->width * t->width;
  uint32_t i;
  d->across = t->events + 1;
  vram__svg_scale(d, d->o->plot_bytes > t->peak.total ? d->o->plot_bytes : t->peak.total);
  d->plot.y = 120;
  vram__svg_scale_lines(d);
  vram__svg_areas(d);
  for (i = 0; i < t->nspan && t->nspan <= 12; i++) {
    const int x = vram__svg_x(d, t->span[i].first);
    vram__pen_f(&d->pen, "<path class=\"l\" d=\"M%d %dV%d\"/>\n", x, d->plot.y,
                d->plot.y + d->plot.h);
  }
  vram__svg_base(d);
  vram__svg_dot(d, t->peak.total, from, from + t->width);
  return d->plot.y + d->plot.h + 100;
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
  all.x = VRAM__SVG_EDGE;
  all.y = y + 310;
  all.w = VRAM__SVG_ROOM;
  all.h = VRAM__SVG_AREAS;
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
  int y;
  if (d->t && d->o->plot_bytes)
    return vram__svg_small(d);
  y = vram__svg_title(d);
  if (d->t) {
    y = vram__svg_step(d, y) + 220;
    y = vram__svg_legend(d, y) + 140;
  }
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

/* What is allocated at the peak, and which categories are ever. */
static void vram__svg_sums(vram__svg *d, const vram_live *live, uint32_t nlive) {
  uint32_t i, k;
  for (i = 0; live && i < nlive; i++) {
    const uint32_t c = vram__category_of(live[i].category);
    d->bytes[c] = vram__sum_or_overflow(d->bytes[c], live[i].bytes);
    d->total = vram__sum_or_overflow(d->total, live[i].bytes);
    d->nlive += live[i].bytes != 0;
  }
  d->least = d->total / VRAM__SVG_CELLS + 1;
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++) {
    if (d->t)
      d->bytes[k] = d->t->peak.bytes[k];
    d->seen[k] = d->bytes[k] != 0;
    for (i = 0; d->t && i < d->t->ncolumn; i++)
      d->seen[k] |= d->t->column[i].bytes[k] != 0;
  }
  if (d->t)
    d->total = d->t->peak.total;
}

VRAM_API vram_result vram_write_svg(const vram_timeline *timeline, const vram_report *report,
                                    const vram_live *live, uint32_t nlive,
                                    const vram_svg_options *options, void *scratch,
                                    uint64_t scratch_bytes, const vram_sink *sink) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  vram_svg_options none;
  vram__svg d;
  int height;
  vram__memory_zero(&d, sizeof d);
  vram__memory_zero(&none, sizeof none);
  d.o = options ? options : &none;
  d.t = timeline && timeline->cap ? timeline : NULL;
  d.width = d.t && d.o->plot_bytes ? VRAM__SVG_SMALL : VRAM__SVG_WIDTH;
  d.r = report;
  vram__svg_sums(&d, live, nlive);
  d.need = report ? report->device_bytes.expected : d.total;
  if (live) {
    if (!scratch || scratch_bytes < skip + nlive * (uint64_t)sizeof *d.cell)
      return VRAM_ERR_MEMORY;
    d.cell = (vram__cell *)(void *)((uint8_t *)scratch + skip);
    d.ncell = vram__cells(d.cell, live, nlive, d.least);
  }
  height = vram__svg_body(&d); /* without a sink: how high it is */
  vram__pen_begin(&d.pen, sink);
  vram__svg_open(&d, height);
  vram__svg_words_only(&d);
  vram__svg_ground(&d, height);
  vram__svg_body(&d);
  return vram__svg_close(&d);
}
