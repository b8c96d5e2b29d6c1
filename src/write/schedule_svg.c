/* >>write/schedule_svg    the picture of a schedule */
#include "write/write.h"

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
  uint8_t *kept;           /* by stage: what of it is on the device, */
  uint64_t kept_bytes;     /* the bytes of that, */
  uint64_t gradient_bytes; /* and of the gradient that backward is to read */
  uint32_t seen;           /* a bit for each kind of move */
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
    bytes = vram__sum_or_overflow(bytes,
                                  vram__strip_round(c, w->saved_bytes - c->stage[i].output_bytes));
  }
  return bytes;
}

/* A move begins: what it writes. *temp, *gradient: bytes of its temporaries and of the gradient
   that it makes. */
static void vram__strip_begin(vram__strip *s, const vram_move *m, uint64_t *temp,
                              uint64_t *gradient) {
  const vram_chain *c = s->c;
  const uint32_t i = m->stage;
  const vram_stage *t = &c->stage[i];
  const uint64_t before = vram__strip_stage(s, i), next = vram__strip_stage(s, i + 1);
  *temp = 0;
  *gradient = 0;
  switch (m->kind) {
  case VRAM_MOVE_DROP:
  case VRAM_MOVE_CHECKPOINT:
    *temp = vram__strip_round(c, t->forward_temp_bytes);
    s->kept[i + 1] |= VRAM__KEPT_INPUT;
    break;
  case VRAM_MOVE_SAVE:
    *temp = vram__strip_round(c, t->way[m->way].forward_temp_bytes);
    s->kept[i + 1] |= VRAM__KEPT_INPUT;
    s->kept[i] =
        (uint8_t)((s->kept[i] & VRAM__KEPT_INPUT) | VRAM__KEPT_SAVED | m->way * VRAM__KEPT_WAY);
    break;
  case VRAM_MOVE_BACKWARD:
    *temp = vram__strip_round(c, t->way[s->kept[i] / VRAM__KEPT_WAY].backward_temp_bytes);
    *gradient = i ? vram__strip_input(c, i) : vram__strip_round(c, c->input_gradient_bytes);
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
  s->kept_bytes = vram__sum_or_overflow(s->kept_bytes, vram__strip_stage(s, i) - before);
  s->kept_bytes = vram__sum_or_overflow(s->kept_bytes, vram__strip_stage(s, i + 1) - next);
}

/* A move has run: what goes. An input that the stage before has saved stays with the rest of that.
 */
static void vram__strip_end(vram__strip *s, const vram_move *m) {
  const uint32_t i = m->stage;
  const uint64_t before = vram__strip_stage(s, i), next = vram__strip_stage(s, i + 1);
  const int saved = i && (s->kept[i - 1] & VRAM__KEPT_SAVED);
  switch (m->kind) {
  case VRAM_MOVE_BACKWARD:
    s->kept[i] = saved ? VRAM__KEPT_INPUT : 0;
    s->kept[i + 1] = 0;
    break;
  case VRAM_MOVE_DROP:
    if (!saved)
      s->kept[i] &= (uint8_t)~VRAM__KEPT_INPUT;
    break;
  case VRAM_MOVE_OFFLOAD:
    s->kept[i] &= (uint8_t)~VRAM__KEPT_INPUT;
    break;
  case VRAM_MOVE_OFFLOAD_SAVED:
    s->kept[i] &= (uint8_t)~VRAM__KEPT_SAVED;
    break;
  default:
    break;
  }
  s->kept_bytes -= before - vram__strip_stage(s, i) + next - vram__strip_stage(s, i + 1);
}

/* What every move holds while it runs. */
static void vram__strip_play(vram__strip *s) {
  const vram_chain *c = s->c;
  uint32_t k, i;
  for (i = 0; i <= c->nstage; i++)
    s->kept[i] = !i ? VRAM__KEPT_INPUT : 0;
  s->kept_bytes = vram__strip_input(c, 0);
  s->gradient_bytes = 0;
  for (k = 0; k < s->nmove; k++) {
    const vram_move *m = &s->move[k];
    vram__strip_bytes *h = &s->held[k];
    uint64_t temp, gradient;
    vram__strip_begin(s, m, &temp, &gradient);
    h->bytes[VRAM__HELD_STATIC] = c->static_bytes;
    h->bytes[VRAM__HELD_SAVED] = s->kept_bytes;
    h->bytes[VRAM__HELD_GRADIENTS] = vram__sum_or_overflow(s->gradient_bytes, gradient);
    h->bytes[VRAM__HELD_TEMPORARIES] = temp;
    h->total = vram__sum_or_overflow(vram__sum_or_overflow(c->static_bytes, s->kept_bytes),
                                     vram__sum_or_overflow(h->bytes[VRAM__HELD_GRADIENTS], temp));
    if (h->total > s->held[s->peak].total)
      s->peak = k;
    s->seen |= UINT32_C(1) << m->kind;
    vram__strip_end(s, m);
    if (m->kind == VRAM_MOVE_BACKWARD)
      s->gradient_bytes = gradient;
  }
}

/* Memory during the moves, an area for each kind of what is held. */
static void vram__strip_areas(vram__svg *d, const vram__strip *s) {
  const uint32_t group = (s->nmove + VRAM__SVG_STEPS - 1) / VRAM__SVG_STEPS;
  uint32_t k, i, j;
  vram__svg_areas_open(d);
  for (k = VRAM__HELD_COUNT; k--;) {
    vram__svg_area_open(d, vram__held_category[k]);
    for (i = 0; i < s->nmove; i += group) {
      const vram__strip_bytes *h = &s->held[i];
      uint64_t sum = 0;
      for (j = i + 1; j < i + group && j < s->nmove; j++)
        if (s->held[j].total > h->total)
          h = &s->held[j];
      for (j = 0; j <= k; j++)
        sum = vram__sum_or_overflow(sum, h->bytes[j]);
      vram__svg_area_to(d, sum, i + group < s->nmove ? i + group : s->nmove);
    }
    vram__pen_f(&d->pen, "H%iV0\"/>\n", d->end.x);
  }
  vram__pen_puts(&d->pen, "</g>\n");
}

static int vram__strip_memory(vram__svg *d, const vram__strip *s, int y) {
  const vram_svg_options *o = d->o;
  const vram_move *peak = &s->move[s->peak];
  uint64_t most = d->need;
  char text[24];
  vram__pen_f(&d->pen,
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
  d->across = s->nmove;
  vram__svg_scale(d, most);
  d->plot.y = y;
  vram__svg_scale_lines(d);
  vram__strip_areas(d, s);
  vram__svg_base(d);
  if (o->has_budget)
    vram__svg_line(d, o->budget_bytes, "6 4");
  vram__svg_peak_mark(d, d->need, s->peak, (uint64_t)s->peak + 1);
  if (o->has_budget)
    vram__svg_mark(d, "budget ", o->budget_bytes, -1, "b");
  return d->plot.y + d->plot.h;
}

/* The moves of one kind, each at its stage, in a box whose upper edge is y. */
static void vram__strip_moves(vram__svg *d, const vram__strip *s, uint32_t kind, int y, int high) {
  const uint32_t n = s->c->nstage;
  const int right = d->plot.x + d->plot.w;
  uint32_t k;
  vram__pen_f(&d->pen, "<path class=\"v%i\" d=\"", (int)vram__move_colour[kind]);
  for (k = 0; k < s->nmove; k++) {
    const uint32_t i = s->move[k].stage;
    const int end = vram__svg_x(d, (uint64_t)k + 1), from = vram__svg_x(d, k);
    const int low = y + high - (int)vram__share(i, (uint64_t)high, n);
    const int top = y + high - (int)vram__share((uint64_t)i + 1, (uint64_t)high, n);
    /* at least so large that it is seen */
    const int w = end - from < 20 ? 20 : end - from, h = low - top < 30 ? 30 : low - top;
    const int x = from + w > right ? right - w : from, upper = low - h < y ? y : low - h;
    if (s->move[k].kind == kind)
      vram__pen_f(&d->pen, "M%d %dH%dV%dH%dz", x, upper, x + w, upper + h, x);
  }
  vram__pen_puts(&d->pen, "\"/>\n");
}

/* Which stage each move is of: stages up, moves across. */
static int vram__strip_stages(vram__svg *d, const vram__strip *s, int y) {
  const uint32_t n = s->c->nstage;
  const int high = n > 24 ? 2400 : (int)n * 100;
  vram__pen *p = &d->pen;
  uint64_t step = vram__tick_step(n, n > 12 ? 8 : 12, 0), v;
  uint32_t kind;
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
  for (kind = 0; kind < VRAM_MOVE_COUNT; kind++)
    if (s->seen >> kind & 1)
      vram__strip_moves(d, s, kind, y, high);
  y += high + 190;
  step = vram__tick_step(s->nmove, 5, 0);
  for (v = 0; v <= s->nmove; v += step)
    vram__svg_count(d, v, 7, y);
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
  uint32_t k;
  int y, n = 0;
  d->nlabel = 0;
  d->nline = 0;
  y = vram__strip_memory(d, s, vram__svg_title(d)) + 300;
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
  vram__memory_zero(&d, sizeof d);
  vram__memory_zero(&none, sizeof none);
  vram__memory_zero(&s, sizeof s);
  for (k = 0; k < nmove; k++)
    if (move[k].stage >= c->nstage || move[k].kind >= VRAM_MOVE_COUNT ||
        move[k].way >= c->stage[move[k].stage].nway)
      return VRAM_ERR_VALUE;
  if (!nmove)
    return VRAM_ERR_VALUE;
  if (!scratch || scratch_bytes < skip + vram_schedule_svg_bytes(c, nmove) - 7)
    return VRAM_ERR_MEMORY;
  d.o = options ? options : &none;
  d.width = VRAM__SVG_WIDTH;
  s.c = c;
  s.move = move;
  s.nmove = nmove;
  s.held = (vram__strip_bytes *)(void *)((uint8_t *)scratch + skip);
  s.kept = (uint8_t *)(s.held + nmove);
  vram__strip_play(&s);
  d.need = s.held[s.peak].total;
  for (k = 0; k < nmove; k++)
    for (i = 0; i < VRAM__HELD_COUNT; i++)
      d.bytes[i] |= s.held[k].bytes[i];
  height = vram__strip_body(&d, &s); /* without a sink: how high it is */
  vram__pen_begin(&d.pen, sink);
  vram__svg_open(&d, height);
  vram__pen_f(&d.pen,
              "<title>%s%ra schedule of %u moves</title>\n<desc>%u stages; at most %s, in move "
              "%u.</desc>\n",
              d.o->title ? d.o->title : "", d.o->title ? ": " : "", (uint64_t)nmove,
              (uint64_t)c->nstage, vram__svg_bytes(&d, d.need, text), (uint64_t)s.peak + 1);
  vram__svg_ground(&d, height);
  vram__strip_body(&d, &s);
  return vram__svg_close(&d);
}
