/* >>write/svg_plot    what both pictures have: style, title, axes, marks */
#include "write/write.h"

VRAM__FN const char *vram__svg_bytes(const vram__svg *d, uint64_t bytes, char to[24]) {
  vram_bytes_text(bytes, d->o->units, to, 24);
  return to;
}

/* The colours of categories are apart for everybody: CIE76 distance at least 25, in the dark 20,
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
                    ".vram .v9{fill:#96e11e}.vram .v10{fill:#d7d7d7}");
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
                    ".vram .v9{fill:#b4ff96}.vram .v10{fill:#e0e0e0}}</style>\n");
}

/* Words in as many lines as they need, three at most. Returns where the next line is. */
static int vram__svg_words(vram__svg *d, int y, const char *s) {
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

/* Title and subtitle. Returns where the next line is. */
VRAM__FN int vram__svg_title(vram__svg *d) {
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  int y = 270;
  if (o->title) {
    vram__pen_f(p, "<text class=\"t\" x=\"%d\" y=\"%d\">", VRAM__SVG_EDGE, y + 30);
    vram__pen_fit(p, o->title, vram__text_len(o->title), 220, VRAM__SVG_ROOM, 0);
    vram__pen_puts(p, "</text>\n");
    y += 260;
  }
  return o->subtitle ? vram__svg_words(d, y, o->subtitle) + 120 : y;
}

VRAM__FN void vram__svg_open(vram__svg *d, int height) {
  vram__pen_f(&d->pen,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"vram\" viewBox=\"0 0 %d %d\" "
              "role=\"img\">\n",
              d->width, height);
}

/* Colours and ground, behind the words for those who do not see. */
VRAM__FN void vram__svg_ground(vram__svg *d, int height) {
  vram__svg_style(&d->pen);
  vram__pen_f(&d->pen, "<rect class=\"p\" width=\"%d\" height=\"%d\"/>\n", d->width, height);
}

VRAM__FN vram_result vram__svg_close(vram__svg *d) {
  vram__pen_puts(&d->pen, "</svg>\n");
  return vram__pen_end(&d->pen);
}

/* ---- axes ---- */

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
  vram__text_puti(to, 24, &n, (int64_t)(v / unit));
  if (unit > 1 && v % unit) {
    uint64_t rest = v % unit;
    vram__text_puts(to, 24, &n, ".");
    while (rest && n < 8) {
      while (unit > UINT64_C(1) << 59) {
        rest >>= 1;
        unit >>= 1;
      }
      vram__text_putu(to, 24, &n, rest * 10 / unit);
      rest = rest * 10 % unit;
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

static int vram__svg_y(const vram__svg *d, uint64_t bytes) {
  return d->plot.y + d->plot.h - (int)vram__share(bytes, (uint64_t)d->plot.h, d->scale);
}

/* Where one of the `across` moments begins. */
VRAM__FN int vram__svg_x(const vram__svg *d, uint64_t moment) {
  const uint64_t all = d->across;
  return d->plot.x + (int)vram__share(moment < all ? moment : all, (uint64_t)d->plot.w, all);
}

/* The scale of the axis of bytes, up to `most` and a seventh more for the labels; the plot begins
   behind its figures. */
VRAM__FN void vram__svg_scale(vram__svg *d, uint64_t most) {
  const vram_units units = d->o->units;
  uint64_t v;
  int left = 0;
  d->scale = most > (uint64_t)VRAM_MAX_BYTES ? most : most + most / 7 + 1;
  d->step = vram__tick_step(d->scale, d->width == VRAM__SVG_SMALL ? 3 : 6, units == VRAM_UNITS_IEC);
  for (v = 0; v <= d->scale; v += d->step) {
    char text[24];
    int w;
    vram__tick_text(v, units, text);
    w = vram__text_width(text, vram__text_len(text), VRAM__SVG_FINE);
    left = w > left ? w : left;
    if (v > UINT64_MAX - d->step)
      break;
  }
  d->plot.x = VRAM__SVG_EDGE + left + 60;
  d->plot.w = d->width - VRAM__SVG_EDGE - d->plot.x;
  d->plot.h = d->width == VRAM__SVG_SMALL ? VRAM__SVG_LOW : VRAM__SVG_PLOT;
}

/* The figures of that axis, and lines across the plot. */
VRAM__FN void vram__svg_scale_lines(vram__svg *d) {
  uint64_t v;
  for (v = 0; v <= d->scale; v += d->step) {
    const int at = vram__svg_y(d, v);
    char text[24];
    vram__tick_text(v, d->o->units, text);
    vram__pen_f(&d->pen,
                "<path class=\"l\" d=\"M%d %dH%d\"/><text class=\"f g e\" x=\"%d\" y=\"%d\">%s"
                "</text>\n",
                d->plot.x, at, d->plot.x + d->plot.w, d->plot.x - 60, at + 50, text);
    if (v > UINT64_MAX - d->step)
      break;
  }
}

/* The lower edge of the plot. */
VRAM__FN void vram__svg_base(vram__svg *d) {
  vram__pen_f(&d->pen, "<path class=\"k\" d=\"M%d %dH%d\"/>\n", d->plot.x, d->plot.y + d->plot.h,
              d->plot.x + d->plot.w);
}

/* A figure below moment v, of at most so many digits: at the edge it ends with the plot. */
VRAM__FN void vram__svg_count(vram__svg *d, uint64_t v, uint32_t digits, int y) {
  const int at = vram__svg_x(d, v), w = vram__text_width("0000000000", digits, VRAM__SVG_FINE);
  const int end = at + w / 2 > VRAM__SVG_WIDTH - VRAM__SVG_EDGE;
  vram__pen_f(&d->pen, "<text class=\"f g %r\" x=\"%d\" y=\"%d\">%u</text>\n", end ? "e" : "m",
              end ? d->plot.x + d->plot.w : at, y, v);
}

/* ---- areas ---- */

VRAM__FN void vram__svg_areas_open(vram__svg *d) {
  vram__pen_f(&d->pen, "<g class=\"a\" transform=\"translate(%d %d)scale(.1,-.1)\">\n", d->plot.x,
              d->plot.y + d->plot.h);
}

VRAM__FN void vram__svg_area_open(vram__svg *d, uint32_t category) {
  d->end.x = 0;
  d->end.y = 0;
  vram__pen_f(&d->pen, "<path class=\"v%i\" d=\"M0 0", (int)category);
}

/* So many bytes up to moment `to`. */
VRAM__FN void vram__svg_area_to(vram__svg *d, uint64_t bytes, uint64_t to) {
  const int high = d->plot.y + d->plot.h - vram__svg_y(d, bytes);
  if (high != d->end.y) {
    if (d->end.x)
      vram__pen_f(&d->pen, "H%i", d->end.x);
    vram__pen_f(&d->pen, "v%i", high - d->end.y);
    d->end.y = high;
  }
  d->end.x = vram__svg_x(d, to) - d->plot.x;
}

/* ---- lines and labels ---- */

/* A box of this width at one of twelve places: above or below the point, in the middle, to its left
   or right; at the plot's ends for a line (x < 0). */
static vram__box vram__svg_place(const vram__box *plot, int place, int width, int x, int y) {
  const int where = place % 3, below = place / 3 & 1, pad = 60;
  const int first = plot->x + pad, last = plot->x + plot->w - width - pad;
  vram__box b;
  b.w = width;
  b.h = 190;
  b.y = below ? y + pad : y - pad - b.h;
  if (x < 0) {
    b.x = where == 0 ? last : where == 1 ? first : plot->x + (plot->w - width) / 2;
    return b;
  }
  b.x = where == 0 ? x - width / 2 : where == 1 ? x - width : x;
  b.x = b.x > last ? last : b.x;
  b.x = b.x < first ? first : b.x;
  return b;
}

/* Inside the plot, and clear of the labels and, without `crossing`, of the lines. */
static int vram__svg_is_free(const vram__svg *d, const vram__box *b, int crossing) {
  const vram__box *p = &d->plot;
  uint32_t i;
  if (b->x < p->x || b->x + b->w > p->x + p->w || b->y < p->y || b->y + b->h > p->y + p->h)
    return 0;
  for (i = 0; i < d->nlabel; i++) {
    const vram__box *o = &d->label[i];
    if (b->x < o->x + o->w && o->x < b->x + b->w && b->y < o->y + o->h && o->y < b->y + b->h)
      return 0;
  }
  for (i = 0; i < d->nline && !crossing; i++)
    if (d->line[i] >= b->y && d->line[i] <= b->y + b->h)
      return 0;
  return 1;
}

/* Writes a label at the first place that is free. Lines may be crossed only where there is no other
   place. */
static void vram__svg_label(vram__svg *d, const char *s, int x, int y, const char *kind) {
  const int w = vram__text_width(s, vram__text_len(s), VRAM__SVG_FINE) * 9 / 8;
  int place;
  for (place = 0; place < 12; place++) {
    const vram__box b = vram__svg_place(&d->plot, place, w, x, y);
    if (!vram__svg_is_free(d, &b, place >= 6))
      continue;
    d->label[d->nlabel++] = b;
    vram__pen_f(&d->pen, "<text class=\"f o m %r\" x=\"%d\" y=\"%d\">%s</text>\n", kind,
                b.x + w / 2, b.y + 145, s);
    return;
  }
}

/* Whether it fits, in two lines. Returns where the next line is. */
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

/* A line across the plot: the budget, or what the device needs. */
VRAM__FN void vram__svg_line(vram__svg *d, uint64_t bytes, const char *dashes) {
  const int y = vram__svg_y(d, bytes);
  d->line[d->nline++] = y;
  vram__pen_f(&d->pen, "<path class=\"k\" stroke-dasharray=\"%r\" d=\"M%d %dH%d\"/>\n", dashes,
              d->plot.x, y, d->plot.x + d->plot.w);
}

/* A label of so many bytes at that height; x < 0: of a line. */
VRAM__FN void vram__svg_mark(vram__svg *d, const char *what, uint64_t bytes, int x,
                             const char *kind) {
  char words[64], figure[24];
  uint32_t len = 0;
  vram__text_puts(words, sizeof words, &len, what);
  vram__text_puts(words, sizeof words, &len, vram__svg_bytes(d, bytes, figure));
  vram__svg_label(d, words, x, vram__svg_y(d, bytes), kind);
}

/* A dot at so many bytes, in the middle between two moments; its x. */
VRAM__FN int vram__svg_dot(vram__svg *d, uint64_t bytes, uint64_t from, uint64_t to) {
  const int x = (vram__svg_x(d, from) + vram__svg_x(d, to)) / 2;
  vram__pen_f(&d->pen, "<circle class=\"d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>\n", x,
              vram__svg_y(d, bytes));
  return x;
}

/* The peak, between two moments. */
VRAM__FN void vram__svg_peak_mark(vram__svg *d, uint64_t bytes, uint64_t from, uint64_t to) {
  const int x = vram__svg_dot(d, bytes, from, to);
  vram__svg_mark(d, "peak ", bytes, x, "b");
}
