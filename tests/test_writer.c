/* Timelines against the report and against all moments one by one; pictures: well-formed, inside
   their frame, true to scale; sinks that fail, memory that is short, names that are hostile.
   usage: test_writer TEXT... */
#include "play.h"

/* ---- timelines ---- */

static vram_timeline timeline_new(uint32_t columns, const uint64_t *before) {
  vram_timeline t;
  void *mem = test_scratch(vram_timeline_bytes(columns));
  if (!mem || vram_timeline_init(&t, mem, vram_timeline_bytes(columns), before) != VRAM_OK ||
      (void *)t.column != mem) /* it is free()d by that */
    abort();
  EQUAL(t.cap, columns);
  return t;
}

static void step_into(play *p, const vram_step_options *options, vram_timeline *t) {
  vram_step_options o = *options;
  vram_report again;
  o.event = vram_timeline_add;
  o.user = t;
  NEED(vram_step(&p->graph, &o, p->scratch, p->scratch_bytes, &again, &p->error) == VRAM_OK);
}

/* Every moment is a column: all figures of the report follow from them. */
static void all_moments(const vram_timeline *t, const vram_report *r, int train) {
  uint64_t end[VRAM_PHASE_COUNT], most[VRAM_PHASE_COUNT], last = t->column[0].total;
  int seen[VRAM_PHASE_COUNT] = {0};
  uint32_t i, k, c;
  EQUAL(t->events, r->events);
  EQUAL(t->width, 1);
  if (!EQUAL(t->ncolumn, r->events + 1))
    return;
  for (c = 0; c < VRAM_CATEGORY_COUNT; c++) {
    EQUAL(t->column[0].bytes[c], r->before_category_bytes[c]);
    EQUAL(t->peak.bytes[c], r->peak_category_bytes[c]);
  }
  EQUAL(t->peak.total, r->peak_requested_bytes);
  EQUAL(t->peak.event, r->peak_event);
  CHECK(t->peak.node == r->peak_node);
  if (t->events) {
    EQUAL(t->peak.phase, r->peak_phase);
  }
  for (i = 0; i < t->ncolumn; i++) {
    const vram_moment *m = &t->column[i];
    uint64_t sum = 0;
    for (c = 0; c < VRAM_CATEGORY_COUNT; c++)
      sum += m->bytes[c];
    if (sum != m->total || m->event != i)
      FAIL("a moment is the sum of its categories, and after its event");
    if (!seen[m->phase] || last > most[m->phase])
      most[m->phase] = last;
    if (m->total > most[m->phase])
      most[m->phase] = m->total;
    end[m->phase] = last = m->total;
    seen[m->phase] = t->events != 0;
  }
  for (k = 0; k < VRAM_PHASE_COUNT; k++)
    if (seen[k] && (train || k == VRAM_PHASE_FORWARD)) {
      EQUAL(end[k], r->phase[k].requested_bytes);
      EQUAL(most[k], r->phase[k].requested_peak_bytes);
    }
  for (k = 0; k < VRAM_PHASE_COUNT; k++) {
    uint64_t high = 0, low = 0;
    for (i = 0; i < t->nspan; i++)
      if (t->span[i].phase == (vram_phase)k) {
        high = t->span[i].peak_bytes > high ? t->span[i].peak_bytes : high;
        low = t->span[i].end_bytes;
      }
    if (seen[k] && (train || k == VRAM_PHASE_FORWARD)) {
      EQUAL(high, r->phase[k].requested_peak_bytes);
      EQUAL(low, r->phase[k].requested_bytes);
    }
  }
  CHECK(!t->nspan || !t->span[0].first);
}

/* Fewer columns than moments: each is the highest of its moments. */
static void few_columns(const vram_timeline *all, const vram_timeline *t) {
  uint32_t i;
  EQUAL(t->events, all->events);
  EQUAL(t->peak.total, all->peak.total);
  EQUAL(t->peak.event, all->peak.event);
  CHECK(t->ncolumn <= t->cap);
  CHECK(t->width == 1 || 2 * (uint64_t)t->ncolumn >= t->cap);
  EQUAL(t->ncolumn, all->events / t->width + 1);
  for (i = 0; i < t->ncolumn; i++) {
    const uint64_t from = i * t->width;
    uint64_t k, most = from;
    for (k = from; k < from + t->width && k <= all->events; k++)
      if (all->column[k].total > all->column[most].total)
        most = k;
    if (t->column[i].event != most || t->column[i].total != all->column[most].total ||
        t->column[i].node != all->column[most].node ||
        memcmp(t->column[i].bytes, all->column[most].bytes, sizeof t->now.bytes) != 0) {
      FAIL("a column is the first of its highest moments");
      return;
    }
  }
  test_passed++;
}

/* ---- pictures: a sink, a reader of what it took ---- */

typedef struct picture {
  char *text;
  size_t n, cap;
  long calls, most; /* calls until it fails, -1: never */
} picture;

static int picture_take(void *user, const char *bytes, size_t n) {
  picture *p = (picture *)user;
  if (p->most >= 0 && p->calls >= p->most) {
    CHECK(p->calls++ == p->most); /* nobody comes back after that */
    return 1;
  }
  p->calls++;
  while (p->n + n + 1 > p->cap)
    p->text = (char *)realloc(p->text, p->cap = 2 * p->cap + 4096);
  if (!p->text)
    abort();
  memcpy(p->text + p->n, bytes, n);
  p->text[p->n += n] = 0;
  return 0;
}

static vram_result draw(picture *p, const vram_timeline *t, const vram_report *r,
                        const vram_live *live, uint32_t n, const vram_svg_options *o) {
  vram_sink sink;
  vram_result result;
  void *scratch = test_scratch(vram_svg_bytes(n));
  if (!scratch)
    abort();
  sink.write = picture_take;
  sink.user = p;
  p->n = 0;
  p->calls = 0;
  result = vram_write_svg(t, r, live, n, o, scratch, vram_svg_bytes(n), &sink);
  free(scratch);
  return result;
}

/* One character of XML text, decoded; -1: there is none such. Moves on. */
static long xml_char(const char **at) {
  static const struct {
    const char *name;
    char is;
  } entity[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}};
  const unsigned char *s = (const unsigned char *)*at;
  size_t i, n;
  if (*s == '&') {
    for (i = 0; i < sizeof entity / sizeof *entity; i++)
      if (!strncmp(*at, entity[i].name, strlen(entity[i].name))) {
        *at += strlen(entity[i].name);
        return entity[i].is;
      }
    if (!strncmp(*at, "&#8230;", 7))
      return *at += 7, 8230;
    return -1;
  }
  if ((*s < 32 && *s != '\n') || *s == 127 || *s == '<' || *s == '>')
    return -1;
  n = *s < 0x80             ? 1
      : (*s & 0xe0) == 0xc0 ? 2
      : (*s & 0xf0) == 0xe0 ? 3
      : (*s & 0xf8) == 0xf0 ? 4
                            : 0;
  for (i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80)
      return -1;
  if (!n)
    return -1;
  *at += n;
  return n == 1 ? *s : 0xfffe + (long)n;
}

static double attribute(const char *element, const char *name, double none) {
  char key[24];
  const char *end = strchr(element, '>'), *at;
  snprintf(key, sizeof key, " %s=\"", name);
  at = strstr(element, key);
  return at && at < end ? strtod(at + strlen(key), NULL) : none;
}

/* Elements nest, attributes are quoted and once each, text is characters and known entities; every
   rectangle and text begins inside the frame. 0: not so. */
static int well_formed(const char *s) {
  char open[64][16];
  int depth = 0, roots = 0;
  double high = 0;
  while (*s) {
    char name[16];
    size_t n = 0;
    size_t closing;
    if (*s != '<') {
      if (!depth && *s != '\n')
        return 0;
      if (xml_char(&s) < 0)
        return 0;
      continue;
    }
    closing = s[1] == '/';
    while (n < 15 && s[1 + closing + n] >= 'a' && s[1 + closing + n] <= 'z')
      name[n] = s[1 + closing + n], n++;
    name[n] = 0;
    if (!n)
      return 0;
    if (closing) {
      s += 2 + n;
      if (*s++ != '>' || !depth || strcmp(open[--depth], name) != 0)
        return 0;
      continue;
    }
    if (!depth && (roots++ || strcmp(name, "svg") != 0))
      return 0;
    if (!depth)
      sscanf(strstr(s, "viewBox=\"") + 9, "0 0 500 %lf", &high);
    if (!strcmp(name, "rect") || !strcmp(name, "text")) {
      const double x = attribute(s, "x", 0), y = attribute(s, "y", 0);
      const double w = attribute(s, "width", 0), h = attribute(s, "height", 0);
      if (x < 0 || y < 0 || w < 0 || h < 0 || x + w > 500 || y + h > high)
        return 0;
    }
    s += 1 + n;
    while (*s == ' ') {
      s++;
      if (!(*s >= 'a' && *s <= 'z'))
        return 0;
      while ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '-' || *s == ':')
        s++;
      if (*s++ != '=' || *s++ != '"')
        return 0;
      while (*s != '"')
        if (xml_char(&s) < 0)
          return 0;
      s++;
    }
    if (*s == '/')
      s++;
    else if (depth < 64)
      memcpy(open[depth++], name, sizeof name);
    else
      return 0;
    if (*s++ != '>')
      return 0;
    if (depth && !strcmp(open[depth - 1], "style")) /* its text has '>' nowhere either */
      while (*s && *s != '<')
        s++;
  }
  return roots == 1 && !depth && high > 0;
}

static double bytes_of(const char *figure) { /* "1.5 GiB" */
  static const char unit[] = "KMGTPE";
  char *end;
  double v = strtod(figure, &end);
  const char *u = *end == ' ' ? strchr(unit, end[1]) : NULL;
  int i;
  for (i = 0; u && end[1] && u >= unit + i; i++)
    v *= strncmp(end + 2, "iB", 2) ? 1000 : 1024;
  return v;
}

/* Two lengths of a picture, whose ends are rounded to tenths. */
static int near_to(double a, double b) { return a - b < .3 && b - a < .3; }

/* The figures at the vertical axis make a linear scale from 0; on it the areas end at the peak, and
   the lines are where they belong. */
static void to_scale(const char *s, double peak, double budget, double device) {
  const char *at = s, *path;
  double zero = 0, y0 = 0, y1 = 0, v1 = 0, most = 0, line[2], high;
  int n = 0, lines = 0;
  for (; (at = strstr(at, "<text class=\"f g e\"")) != NULL; at++) {
    const double y = attribute(at, "y", -1), v = bytes_of(strchr(at, '>') + 1);
    if (attribute(at, "x", -1) > 250) /* the last figure of the axis of events */
      continue;
    if (!n++)
      y0 = y, zero = v;
    else
      y1 = y, v1 = v;
  }
  CHECK(zero == 0);
  if (!NEED(n >= 2 && v1 > 0))
    return;
  for (at = s; (path = strstr(at, "<path class=\"v")) != NULL; at = path + 1) {
    const char *d = strstr(path, "d=\"M0 0") + 7;
    double now = 0;
    while (*d != '"') {
      char *end;
      const char what = *d++;
      const double by = strtod(d, &end);
      d = end;
      if (what == 'v')
        now += by;
      most = now > most ? now : most;
    }
  }
  high = v1 / (y0 - y1); /* bytes of a unit */
  CHECK(near_to(most / 10, peak / high));
  for (at = s; lines < 2 && (path = strstr(at, "<path class=\"k\" stroke-dasharray")) != NULL;
       at = path + 1)
    line[lines++] = strtod(strchr(strstr(path, "d=\"M"), ' ') + 1, NULL);
  EQUAL(lines, (budget > 0) + (device > 0));
  if (lines == 2) { /* figures stand .5 below their lines */
    CHECK(near_to(y0 - 5 - line[0], budget / high));
    CHECK(near_to(y0 - 5 - line[1], device / high));
  }
}

/* Cells have areas as their bytes, do not lie upon each other and fill their place. */
static void areas(const char *s, double total) {
  static struct { double x, y, w, h; } cell[4096];
  double sum = 0, right = 0, below = 0, left = 1e9, above = 1e9;
  const char *at = s;
  int n = 0, i, k, bad = 0, wrong = 0;
  for (; (at = strstr(at, "<g><title>")) != NULL && n < 4096; at++) {
    const char *end = strstr(at, "</title>"), *figure = end, *rect = strstr(end, "<rect");
    while (strncmp(figure, ", ", 2) != 0)
      figure--;
    cell[n].x = attribute(rect, "x", 0), cell[n].y = attribute(rect, "y", 0);
    cell[n].w = attribute(rect, "width", 0) + .8, cell[n].h = attribute(rect, "height", 0) + .8;
    sum += cell[n].w * cell[n].h;
    wrong += bytes_of(figure + 2) / total - cell[n].w * cell[n].h / (476. * 300) > .004;
    wrong += bytes_of(figure + 2) / total - cell[n].w * cell[n].h / (476. * 300) < -.004;
    right = cell[n].x + cell[n].w > right ? cell[n].x + cell[n].w : right;
    below = cell[n].y + cell[n].h > below ? cell[n].y + cell[n].h : below;
    left = cell[n].x < left ? cell[n].x : left;
    above = cell[n].y < above ? cell[n].y : above;
    n++;
  }
  for (i = 0; i < n; i++)
    for (k = 0; k < i; k++)
      bad += cell[i].x + .05 < cell[k].x + cell[k].w && cell[k].x + .05 < cell[i].x + cell[i].w &&
             cell[i].y + .05 < cell[k].y + cell[k].h && cell[k].y + .05 < cell[i].y + cell[i].h;
  EQUAL(bad, 0);
  EQUAL(wrong, 0);
  if (n) {
    CHECK(left >= 11.9 && right <= 488.1 && below - above <= 300.1);
    CHECK(sum > 476 * 300 * .98 && sum < 476 * 300 * 1.001);
  }
}

static uint64_t text_hash(const char *s) {
  uint64_t h = PLAY_FNV;
  for (; *s; s++)
    h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
  return h;
}

static void model(const char *path, const char *mode) {
  static const uint32_t columns[] = {1, 2, 3, 7, 64, 200};
  play p;
  char *text;
  size_t len = 0, i;
  vram_step_options o;
  vram_svg_options look;
  vram_report quiet;
  vram_timeline all, t;
  vram_live *live = NULL;
  vram_range ranges[64];
  uint32_t n = 0;
  picture pic;
  memset(&p, 0, sizeof p);
  memset(&pic, 0, sizeof pic);
  memset(&look, 0, sizeof look);
  pic.most = -1;
  text = play_file(path, &len);
  snprintf(test_where, sizeof test_where, "%s %s", path, mode);
  if (!NEED(text && play_mode(mode, &o)) || !NEED(!play_parse(&p, text, len, NULL, 0)) ||
      !NEED(play_options(text, &p.graph, &o, ranges, 64)) || play_step(&p, &o) != VRAM_OK) {
    play_end(&p);
    free(text);
    return;
  }
  NEED(vram_step(&p.graph, &o, p.scratch, p.scratch_bytes, &quiet, NULL) == VRAM_OK);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    EQUAL(quiet.before_category_bytes[i], p.report.before_category_bytes[i]);
  all = timeline_new((uint32_t)p.report.events + 1, quiet.before_category_bytes);
  step_into(&p, &o, &all);
  all_moments(&all, &p.report, o.train);
  for (i = 0; i < sizeof columns / sizeof *columns; i++) {
    t = timeline_new(columns[i], quiet.before_category_bytes);
    step_into(&p, &o, &t);
    few_columns(&all, &t);
    if (columns[i] == 200 || columns[i] == 1) {
      uint64_t once;
      EQUAL(draw(&pic, &t, &quiet, NULL, 0, NULL), VRAM_OK);
      CHECK(well_formed(pic.text));
      once = text_hash(pic.text);
      to_scale(pic.text, (double)p.report.peak_requested_bytes, 0, 0);
      draw(&pic, &t, &quiet, NULL, 0, NULL);
      EQUAL(text_hash(pic.text), once);
      look.has_budget = 1;
      look.budget_name = "rtx4090";
      look.budget_bytes = p.report.device_bytes.expected / (i ? 2 : 1) + i;
      look.units = columns[i] == 200 ? VRAM_UNITS_SI : VRAM_UNITS_BYTES;
      EQUAL(draw(&pic, &t, &quiet, NULL, 0, &look), VRAM_OK);
      CHECK(well_formed(pic.text));
      CHECK(strstr(pic.text, i ? "too much" : "to spare") != NULL);
      to_scale(pic.text, (double)p.report.peak_requested_bytes, (double)look.budget_bytes,
               (double)quiet.device_bytes.expected);
    }
    free(t.column);
  }
  vram_step_live(&p.graph, &o, p.scratch, p.scratch_bytes, &quiet, NULL, 0, &n);
  live = (vram_live *)malloc((n + 1) * sizeof *live);
  if (!live)
    abort();
  vram_step_live(&p.graph, &o, p.scratch, p.scratch_bytes, &quiet, live, n, &n);
  EQUAL(draw(&pic, &all, &quiet, live, n, NULL), VRAM_OK);
  CHECK(well_formed(pic.text));
  areas(pic.text, (double)p.report.peak_requested_bytes);
  CHECK(pic.n < 100000);
  free(live);
  free(all.column);
  free(pic.text);
  free(text);
  play_end(&p);
  *test_where = 0;
}

/* ---- what fails, what is hostile ---- */

static vram_event event(vram_action a, vram_phase phase, vram_category c, uint64_t bytes) {
  vram_event e;
  memset(&e, 0, sizeof e);
  e.action = a;
  e.phase = phase;
  e.category = e.was = c;
  e.bytes = bytes;
  return e;
}

static uint64_t seed = 88172645463325252u;
static uint64_t chance(uint64_t n) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed % n;
}

static void sinks(void) {
  vram_timeline t = timeline_new(16, NULL);
  vram_live live[3] = {{70, VRAM_CATEGORY_PARAMS, NULL},
                       {20, VRAM_CATEGORY_ACTIVATIONS, NULL},
                       {10, VRAM_CATEGORY_WORKSPACE, NULL}};
  vram_sink sink;
  picture pic;
  unsigned char scratch[1024];
  uint64_t need = vram_svg_bytes(3), size, shift;
  long calls, k;
  int i;
  memset(&pic, 0, sizeof pic);
  for (i = 0; i < 40; i++) {
    vram_event e =
        event(i % 3 ? VRAM_ACTION_ALLOC : VRAM_ACTION_FREE,
              i < 20 ? VRAM_PHASE_FORWARD : VRAM_PHASE_BACKWARD, VRAM_CATEGORY_ACTIVATIONS, 100);
    vram_timeline_add(&t, &e);
  }
  pic.most = -1;
  EQUAL(draw(&pic, &t, NULL, live, 3, NULL), VRAM_OK);
  calls = pic.calls;
  CHECK(calls > 3);
  for (k = 0; k < calls; k++) {
    pic.most = k;
    EQUAL(draw(&pic, &t, NULL, live, 3, NULL), VRAM_ERR_WRITE);
    EQUAL(pic.calls, k + 1);
  }
  pic.most = -1;
  sink.write = picture_take;
  sink.user = &pic;
  CHECK(need < sizeof scratch - 16);
  for (shift = 0; shift < 8; shift++)
    for (size = 0; size <= need; size++) {
      vram_result r;
      pic.calls = 0;
      pic.n = 0;
      memset(scratch, 0xA5, sizeof scratch);
      r = vram_write_svg(&t, NULL, live, 3, NULL, scratch + shift, size, &sink);
      CHECK(r == VRAM_OK || (r == VRAM_ERR_MEMORY && size < need && !pic.calls));
      CHECK(scratch[shift + size] == 0xA5 && (!shift || scratch[shift - 1] == 0xA5));
      if (size == need) {
        EQUAL(r, VRAM_OK);
      }
    }
  EQUAL(vram_write_svg(&t, NULL, live, 3, NULL, NULL, 0, &sink), VRAM_ERR_MEMORY);
  EQUAL(vram_write_svg(NULL, NULL, NULL, 0, NULL, NULL, 0, &sink), VRAM_OK); /* no view at all */
  TEXT(vram_result_text(VRAM_ERR_WRITE), "the sink takes no more");
  free(t.column);
  free(pic.text);
}

static void names(void) {
  static const char *const rows[] = {
      "</svg><script>alert(1)</script>",
      "a&b \"c\" 'd' ]]>",
      "\001\002\033[0m\177",
      "\377\376 \300\200 \355\240\200 \340\200\257 \360\200\200\200 \364\220\200\200",
      "\303\251t\303\251 \345\233\276 \360\237\230\200",
      "",
      "100% of %s %n"};
  char wide[400];
  size_t i;
  picture pic;
  memset(&pic, 0, sizeof pic);
  memset(wide, 'W', sizeof wide - 1);
  wide[sizeof wide - 1] = 0;
  pic.most = -1;
  for (i = 0; i <= sizeof rows / sizeof *rows; i++) {
    const char *s = i < sizeof rows / sizeof *rows ? rows[i] : wide;
    vram_node node;
    vram_value output;
    vram_timeline t = timeline_new(8, NULL);
    vram_live live = {1 << 20, VRAM_CATEGORY_ACTIVATIONS, NULL};
    vram_event e = event(VRAM_ACTION_ALLOC, VRAM_PHASE_FORWARD, VRAM_CATEGORY_ACTIVATIONS, 1 << 20);
    vram_svg_options o;
    memset(&node, 0, sizeof node);
    memset(&o, 0, sizeof o);
    memset(&output, 0, sizeof output);
    node.out = &output;
    node.nout = 1;
    output.name = s;
    output.name_len = (uint8_t)(strlen(s) < VRAM_MAX_NAME ? strlen(s) : VRAM_MAX_NAME);
    live.node = e.node = &node;
    o.title = o.subtitle = o.budget_name = s;
    o.has_budget = 1;
    vram_timeline_add(&t, &e);
    snprintf(test_where, sizeof test_where, "name %d", (int)i);
    EQUAL(draw(&pic, &t, NULL, &live, 1, &o), VRAM_OK);
    CHECK(well_formed(pic.text));
    CHECK(!strstr(pic.text, "<script") && !strstr(pic.text, "\"c\""));
    if (i == 0)
      CHECK(strstr(pic.text, "activations: &lt;/svg&gt;&lt;script&gt;alert(1)&lt;/script&gt; (") !=
            NULL);
    if (i == 4)
      CHECK(strstr(pic.text, rows[4]) != NULL);
    free(t.column);
  }
  *test_where = 0;
  free(pic.text);
}

/* Streams that no step makes: nothing overflows, every picture is one. */
static void wild(void) {
  static const uint64_t sizes[] = {0, 1, 7, 4096, UINT64_C(1) << 40, INT64_MAX, UINT64_MAX};
  picture pic;
  int i, k;
  memset(&pic, 0, sizeof pic);
  pic.most = -1;
  for (i = 0; i < 300; i++) {
    uint64_t before[VRAM_CATEGORY_COUNT] = {0};
    const int n = (int)chance(i % 7 ? 400 : 3);
    vram_timeline t;
    vram_svg_options o;
    vram_live live[50];
    before[chance(VRAM_CATEGORY_COUNT)] = chance(3) ? chance(1 << 20) : UINT64_C(1) << 61;
    t = timeline_new((uint32_t)chance(70) + 1, before);
    for (k = 0; k < n; k++) {
      vram_event e = event((vram_action)chance(3), (vram_phase)chance(VRAM_PHASE_COUNT + 2),
                           (vram_category)chance(VRAM_CATEGORY_COUNT + 1),
                           chance(4) ? chance(1 << 20) : sizes[chance(7)]);
      e.was = (vram_category)chance(VRAM_CATEGORY_COUNT + 1);
      vram_timeline_add(&t, &e);
    }
    for (k = 0; k < 50; k++) {
      live[k].bytes = chance(5) ? chance(1 << 20) : sizes[chance(6)];
      live[k].category = (vram_category)chance(VRAM_CATEGORY_COUNT + 1);
      live[k].node = NULL;
    }
    CHECK(t.nspan <= VRAM_TIMELINE_SPANS);
    memset(&o, 0, sizeof o);
    o.has_budget = (int)chance(2);
    o.budget_bytes = sizes[chance(7)];
    o.units = (vram_units)chance(3);
    EQUAL(draw(&pic, &t, NULL, live, (uint32_t)chance(51), &o), VRAM_OK);
    if (!CHECK(well_formed(pic.text)))
      printf("  picture %d\n", i);
    free(t.column);
  }
  free(pic.text);
}

static void no_memory(void) {
  unsigned char mem[3 * sizeof(vram_moment) + 16];
  vram_event e = event(VRAM_ACTION_ALLOC, VRAM_PHASE_FORWARD, VRAM_CATEGORY_PARAMS, 5);
  vram_timeline t;
  size_t shift, n;
  EQUAL(vram_timeline_init(&t, NULL, 1 << 20, NULL), VRAM_ERR_MEMORY);
  vram_timeline_add(&t, &e);
  EQUAL(t.events, 0);
  for (shift = 0; shift < 8; shift++)
    for (n = 0; n <= vram_timeline_bytes(2); n++) {
      vram_result r;
      int k;
      memset(mem, 0xA5, sizeof mem);
      r = vram_timeline_init(&t, mem + shift, n, NULL);
      CHECK(r == (t.cap ? VRAM_OK : VRAM_ERR_MEMORY) && (t.cap || n < vram_timeline_bytes(1)));
      for (k = 0; k < 9; k++)
        vram_timeline_add(&t, &e);
      CHECK(mem[shift + n] == 0xA5 && (!shift || mem[shift - 1] == 0xA5));
      EQUAL(t.events, t.cap ? 9 : 0);
      EQUAL(t.peak.total, t.cap ? 45 : 0);
    }
}

/* More phases than there is room for: the last two places are the optimizer's and the end's. */
static void many_phases(void) {
  vram_timeline t = timeline_new(64, NULL);
  int i, k;
  for (i = 0; i < 1000; i++)
    for (k = 0; k < 4; k++) {
      vram_event e = event(k & 1 ? VRAM_ACTION_FREE : VRAM_ACTION_ALLOC,
                           k < 2 ? VRAM_PHASE_FORWARD : VRAM_PHASE_BACKWARD,
                           VRAM_CATEGORY_ACTIVATIONS, 100 + (uint64_t)i);
      vram_timeline_add(&t, &e);
    }
  for (k = 0; k < 2; k++) {
    vram_event e = event(VRAM_ACTION_ALLOC, k ? VRAM_PHASE_END : VRAM_PHASE_OPTIMIZER,
                         VRAM_CATEGORY_OPTIMIZER, 10);
    vram_timeline_add(&t, &e);
  }
  EQUAL(t.forwards, 1000);
  EQUAL(t.nspan, VRAM_TIMELINE_SPANS);
  EQUAL(t.span[VRAM_TIMELINE_SPANS - 2].phase, VRAM_PHASE_OPTIMIZER);
  EQUAL(t.span[VRAM_TIMELINE_SPANS - 2].first, 4001);
  EQUAL(t.span[VRAM_TIMELINE_SPANS - 2].end_bytes, 10);
  EQUAL(t.span[VRAM_TIMELINE_SPANS - 1].phase, VRAM_PHASE_END);
  EQUAL(t.span[VRAM_TIMELINE_SPANS - 3].peak_bytes, 1099);
  free(t.column);
}

/* As printf rounds, but for figures that a double does not hold. */
static void figures(void) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  char text[24], want[32], one[4];
  int i, u;
  for (i = 0; i < 20000; i++) {
    uint64_t b = chance(UINT64_C(1) << 53) >> chance(53);
    double v = (double)b;
    if (i % 5 == 0) /* where a half is rounded */
      b = (chance(1 << 13) << 10 | 512) << chance(3) * 10 >> 3, v = (double)b;
    for (u = 0; v >= 1024; u++)
      v /= 1024;
    snprintf(want, sizeof want,
             u && v < 10    ? "%.2f %s"
             : u && v < 100 ? "%.1f %s"
                            : "%.0f %s",
             v, unit[u]);
    vram_bytes_text(b, VRAM_UNITS_IEC, text, sizeof text);
    TEXT(text, want);
  }
  EQUAL(vram_bytes_text(UINT64_MAX, VRAM_UNITS_IEC, text, sizeof text), 8);
  TEXT(text, "16.0 EiB");
  vram_bytes_text(1999999, VRAM_UNITS_SI, text, sizeof text);
  TEXT(text, "2.00 MB");
  EQUAL(vram_bytes_text(UINT64_C(1234567890123), VRAM_UNITS_BYTES, text, 5), 13);
  TEXT(text, "1234");
  EQUAL(vram_bytes_text(1024, VRAM_UNITS_IEC, one, 0), 8);
}

int main(int argc, char **argv) {
  static const char *const modes[] = {"infer",
                                      "train_fp32_sgd",
                                      "train_amp_fp16_adamw",
                                      "train_amp_bf16_adamw_accumulate3",
                                      "train_bf16_adamw_keepgrads",
                                      "train_fp32_adamw.first",
                                      "train_fp32_adam_ideal"};
  int i;
  size_t k;
  for (i = 1; i < argc; i++)
    for (k = 0; k < sizeof modes / sizeof *modes; k++)
      model(argv[i], modes[k]);
  sinks();
  names();
  wild();
  no_memory();
  many_phases();
  figures();
  return test_done("test_writer");
}
