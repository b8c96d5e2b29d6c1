/* A page of one step: both pictures, their figures under the pointer, the summary and the layers.
   One file that loads nothing; without JavaScript only the tool tips and the sorting are missing.
 */
#include "vram_estimate.h"
#include "vram_ranks.h"

enum { LAYERS_SHOWN = 500 }; /* longer tables are folded at first */

static const char html_style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--ink:#1b1b1f;--soft:#55555c;--line:#d5d5db;--paper:#fff;"
    "--band:#f3f3f6;--good:#11663a;--bad:#a3201d}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#ececf1;--soft:#b4b4be;"
    "--line:#44444c;--paper:#17171b;--band:#222228;--good:#7bd6a0;--bad:#ff9c92}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:76rem;background:var(--paper);color:var(--ink);"
    "font:1rem/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
    "h1{margin:.3rem 0 0;font-size:1.6rem;overflow-wrap:anywhere}\n"
    "h2{margin:2rem 0 .5rem;font-size:1.15rem}\n"
    "header p{margin:0 0 1rem;color:var(--soft);overflow-wrap:anywhere}\n"
    ".cards{display:grid;gap:.6rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,9.5rem),"
    "1fr));"
    "margin:0}\n"
    ".cards div{background:var(--band);border-radius:.4rem;padding:.6rem .8rem}\n"
    ".cards dt{color:var(--soft);font-size:.9rem}\n"
    ".cards dd{margin:0;overflow-wrap:anywhere}\n"
    ".cards dd:nth-of-type(1){font-size:1.35rem;font-weight:600}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}\n"
    ".views{display:flex;flex-wrap:wrap;gap:1.5rem;justify-content:center;margin-top:1.2rem}\n"
    "figure{flex:1 1 26rem;min-width:0;max-width:38rem;margin:0;position:relative}\n"
    "figure svg{display:block;width:100%;height:auto;touch-action:pan-y}\n"
    "figure i{position:absolute;width:1px;background:var(--ink);pointer-events:none}\n"
    "figure:focus-visible{outline:2px solid}\n"
    "@media (max-width:30rem){figure{margin:0 -.9rem}}\n";
static const char html_style_tables[] =
    ".wide{overflow-x:auto}.wide:focus-visible{outline:2px solid}\n"
    "summary{cursor:pointer}summary h2{display:inline-block;margin-bottom:.5rem}"
    "summary:focus-visible{outline:2px solid}\n"
    ".soft{color:var(--soft);font-size:.9rem;margin:.3rem 0 .6rem}\n"
    ".small{display:grid;gap:1rem .8rem;grid-template-columns:repeat(auto-fill,"
    "minmax(min(100%,15rem),1fr))}\n"
    ".small figure{max-width:24rem;margin:0}.small figcaption{font-size:.85rem}\n"
    ".bleed{width:fit-content;min-width:100%;max-width:calc(100vw - 2rem);position:relative;"
    "left:50%;transform:translateX(-50%)}\n"
    ".ranks{font-size:.8rem}.ranks th,.ranks td{padding:.3rem .35rem}"
    ".ranks th[colspan]{text-align:center}.ranks td{white-space:nowrap}"
    ".ranks td:first-child{position:sticky;left:0;background:var(--paper)}\n"
    "table{border-collapse:collapse;width:100%;font-size:.9rem}\n"
    "th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid "
    "var(--line);font-variant-numeric:tabular-nums}\n"
    "th{background:var(--band);font-weight:600;white-space:normal}\n"
    ".t{text-align:left}\n"
    ".n{white-space:normal;overflow-wrap:anywhere;min-width:10rem}\n"
    "th[tabindex]{cursor:pointer}th:focus-visible{outline:2px solid}\n"
    "th[aria-sort=ascending]::after{content:' \\2191'}"
    "th[aria-sort=descending]::after{content:' \\2193'}\n"
    "footer{margin-top:2rem;color:var(--soft);font-size:.9rem}\n"
    "#tip{position:fixed;z-index:1;max-width:min(22rem,calc(100vw - 1rem));padding:.5rem .7rem;"
    "border:1px solid var(--line);border-radius:.4rem;background:var(--paper);"
    "font-size:.9rem;line-height:1.35;overflow-wrap:anywhere;pointer-events:none;"
    "box-shadow:0 2px 10px #0005}\n"
    "#tip[hidden]{display:none}\n"
    "#tip table{font-size:inherit}#tip td{padding:0 .4rem 0 0;border:0}\n"
    "#tip svg{width:.8em;height:.8em}\n"
    "@media print{body{max-width:none;padding:0}.views{flex-wrap:nowrap}figure{flex:1 1 "
    "0;break-inside:avoid}tr{break-inside:avoid}"
    "thead{display:table-header-group}.wide{overflow:visible}#tip,figure i{display:none}"
    "table{font-size:.7rem}th,td{white-space:normal}}\n"
    "</style>\n";

/* What the page does: P is the data of html_columns. */
static const char *const html_script[] = {
    "'use strict';\n"
    "(function () {\n"
    "  const tip = document.getElementById('tip');\n"
    "  const step = document.getElementById('step'), svg = step.querySelector('svg');\n"
    "  const plot = svg.querySelector('.plot'), line = document.createElement('i');\n"
    "  let at = 0;\n"
    "  function el(name, text, to) {\n"
    "    const e = document.createElement(name);\n"
    "    if (text !== undefined) e.textContent = text;\n"
    "    if (to) to.appendChild(e);\n"
    "    return e;\n"
    "  }\n"
    "  function hide() {\n"
    "    tip.hidden = line.hidden = true;\n"
    "  }\n"
    "  function show(x, y) {\n"
    "    tip.hidden = false;\n"
    "    const w = tip.offsetWidth, h = tip.offsetHeight;\n"
    "    x = x + 14 + w < innerWidth ? x + 14 : x - 14 - w;\n"
    "    y = y + 14 + h < innerHeight ? y + 14 : y - 14 - h;\n"
    "    tip.style.left = Math.max(4, Math.min(x, innerWidth - w - 4)) + 'px';\n"
    "    tip.style.top = Math.max(4, y) + 'px';\n"
    "  }\n",
    "  function bytes(b) {\n"
    "    let u = 0, n = b;\n"
    "    if (P.units === 2) return String(b);\n"
    "    for (; n >= P.base && u < 6; u++) n /= P.base;\n"
    "    return (u && n < 10 ? n.toFixed(2) : u && n < 100 ? n.toFixed(1) : n.toFixed(0)) + ' ' +\n"
    "      P.unit[u];\n"
    "  }\n"
    "  function column(k, x, y) {\n"
    "    const c = P.columns[at = Math.max(0, Math.min(k, P.columns.length - 1))];\n"
    "    const box = plot.getBoundingClientRect(), all = step.getBoundingClientRect();\n"
    "    const middle = box.left + box.width *\n"
    "      Math.min(P.events + 1, (at + .5) * P.width) / (P.events + 1);\n"
    "    let sum = 0;\n"
    "    const rows = [];\n"
    "    P.categories.forEach(function (name, i) {\n"
    "      sum += c[3 + i];\n"
    "      if (c[3 + i]) rows.push([c[3 + i], name[0], name[1]]);\n"
    "    });\n"
    "    rows.sort(function (a, b) { return b[0] - a[0]; });\n"
    "    tip.textContent = '';\n"
    "    el('b', bytes(sum), tip);\n"
    "    el('span', c[0] ? ' in ' + P.phases[c[1]] + (P.nodes[c[2]] ? ', at ' + P.nodes[c[2]] : "
    "'') :\n"
    "      ' before the step', tip);\n"
    "    el('div', c[0] ? 'event ' + c[0] + ' of ' + P.events : '', tip);\n"
    "    const table = el('table', undefined, tip);\n"
    "    rows.forEach(function (r) {\n"
    "      const tr = el('tr', undefined, table);\n"
    "      el('td', undefined, tr).innerHTML =\n"
    "        '<svg class=\"vram\" viewBox=\"0 0 1 1\"><rect class=\"v' + r[2] +\n"
    "        '\" width=\"1\" height=\"1\"/></svg>';\n"
    "      el('td', r[1], tr).className = 't';\n"
    "      el('td', bytes(r[0]), tr);\n"
    "    });\n"
    "    line.hidden = false;\n"
    "    line.style.left = middle - all.left + 'px';\n"
    "    line.style.top = box.top - all.top + 'px';\n"
    "    line.style.height = box.height + 'px';\n"
    "    show(x === undefined ? middle : x,\n"
    "      innerWidth < 480 ? box.bottom : y === undefined ? box.top + box.height / 2 : y);\n"
    "  }\n",
    "  function over(e) {\n"
    "    const box = plot.getBoundingClientRect();\n"
    "    if (e.clientX < box.left || e.clientX >= box.right || e.clientY < box.top - 20 ||\n"
    "        e.clientY > box.bottom + 2) return hide();\n"
    "    column(Math.floor((e.clientX - box.left) / box.width * (P.events + 1) / P.width),\n"
    "      e.clientX, e.clientY);\n"
    "  }\n"
    "  step.appendChild(line);\n"
    "  step.tabIndex = 0;\n"
    "  step.querySelectorAll('path title').forEach(function (t) { t.remove(); });\n"
    "  svg.addEventListener('pointermove', over);\n"
    "  svg.addEventListener('pointerdown', over);\n"
    "  step.addEventListener('pointerleave', hide);\n"
    "  step.addEventListener('blur', hide);\n"
    "  step.addEventListener('keydown', function (e) {\n"
    "    const go = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: "
    "P.columns.length}[e.key];\n"
    "    if (e.key === 'Escape') hide();\n"
    "    if (go === undefined) return;\n"
    "    e.preventDefault();\n"
    "    column(go);\n"
    "  });\n"
    "  document.querySelectorAll('#live g').forEach(function (g) {\n"
    "    const title = g.querySelector('title'), text = title.textContent;\n"
    "    function cell(e) {\n"
    "      tip.textContent = text;\n"
    "      show(e.clientX, e.clientY);\n"
    "    }\n"
    "    title.remove();\n"
    "    g.addEventListener('pointermove', cell);\n"
    "    g.addEventListener('pointerdown', cell);\n"
    "    g.addEventListener('pointerleave', hide);\n"
    "  });\n"
    "  addEventListener('scroll', hide, {passive: true});\n"
    "  hide();\n",
    "  document.querySelectorAll('#layers th').forEach(function (th, k) {\n"
    "    const body = document.querySelector('#layers tbody');\n"
    "    function sort() {\n"
    "      const up = th.getAttribute('aria-sort') === 'descending' ||\n"
    "        (th.className === 't' && !th.hasAttribute('aria-sort'));\n"
    "      const sign = up ? 1 : -1, rows = Array.from(body.rows);\n"
    "      function value(row) { return row.cells[k].dataset.v || row.cells[k].textContent; }\n"
    "      rows.sort(function (a, b) {\n"
    "        const x = value(a), y = value(b);\n"
    "        return sign * (th.className === 't' ? x.localeCompare(y, 'en', {numeric: true}) : x - "
    "y);\n"
    "      });\n"
    "      document.querySelectorAll('#layers th').forEach(function (t) {\n"
    "        t.removeAttribute('aria-sort');\n"
    "      });\n"
    "      th.setAttribute('aria-sort', up ? 'ascending' : 'descending');\n"
    "      rows.forEach(function (r) { body.appendChild(r); });\n"
    "    }\n"
    "    th.tabIndex = 0;\n"
    "    th.addEventListener('click', sort);\n"
    "    th.addEventListener('keydown', function (e) {\n"
    "      if (e.key === 'Enter') sort();\n"
    "    });\n"
    "  });\n"
    "}());\n"};

void html_text(FILE *f, const char *s) {
  for (; *s; s++)
    if (*s == '&')
      fputs("&amp;", f);
    else if (*s == '<')
      fputs("&lt;", f);
    else if (*s == '"')
      fputs("&quot;", f);
    else
      putc((unsigned char)*s < 32 || (unsigned char)*s > 126 ? '?' : *s, f);
}

static void html_node(FILE *f, const vram_node *n) {
  char name[MAX_NODE_NAME];
  vram_node_name(n, name, sizeof name);
  html_text(f, name);
}

static void html_card(FILE *f, const char *what, const char *kind, const char *figure,
                      const char *more) {
  fprintf(f, "<div><dt>%s</dt><dd class=\"%s\">%s</dd><dd>", what, kind, figure);
  html_text(f, more);
  fprintf(f, "</dd></div>\n");
}

static void html_summary(FILE *f, const job *j, const vram_report *r, int fits) {
  char more[MAX_NODE_NAME + 64], name[MAX_NODE_NAME];
  fprintf(f, "<dl class=\"cards\">\n");
  vram_node_name(r->peak_node, name, sizeof name);
  snprintf(more, sizeof more, "requested, in %s%s%s", vram_phase_name(r->peak_phase),
           *name ? " at " : "", name);
  html_card(f, "peak", "", cmd_human(r->peak_requested_bytes), more);
  snprintf(more, sizeof more, "at least; at most %s", cmd_human(r->peak_allocated_bytes.upper));
  html_card(f, "allocated", "", cmd_human(r->peak_allocated_bytes.lower), more);
  snprintf(more, sizeof more, "with the CUDA context%s; %s to %s",
           r->nccl_bytes.upper ? " and NCCL" : "", cmd_human(r->device_bytes.lower),
           cmd_human(r->device_bytes.upper));
  html_card(f, "device", "", cmd_human(r->device_bytes.expected), more);
  if (r->pinned_bytes)
    html_card(f, "host", "", cmd_human(r->pinned_bytes), "of pinned memory");
  if (j->has_budget) {
    const uint64_t need = r->device_bytes.expected;
    snprintf(more, sizeof more, "%s %s", cmd_human(fits ? j->budget - need : need - j->budget),
             fits ? "to spare" : "too much");
    snprintf(name, sizeof name, "budget of %s%s%s", cmd_human(j->budget), j->gpu ? ", " : "",
             j->gpu ? j->gpu : "");
    html_card(f, name, fits ? "good" : "bad", fits ? "fits" : "does not fit", more);
  }
  fprintf(f, "</dl>\n");
}

static void html_phases(FILE *f, const job *j, const vram_report *r) {
  int i;
  fprintf(f, "<h2>Phases</h2>\n<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th "
             "class=\"t\">phase</th>"
             "<th>requested at its end</th><th>highest</th><th>allocated at its end</th>"
             "<th>highest</th></tr></thead><tbody>\n");
  for (i = VRAM_PHASE_FORWARD; i <= job_last_phase(j); i++) {
    const vram_phase phase = job_phase(j, i);
    const vram_phase_report *p = phase == VRAM_PHASE_COUNT ? NULL : &r->phase[phase];
    if (p)
      fprintf(f, "<tr><td class=\"t\">%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
              vram_phase_name(phase), cmd_human(p->requested_bytes),
              cmd_human(p->requested_peak_bytes), cmd_human(p->allocated_bytes),
              cmd_human(p->allocated_peak_bytes));
  }
  fprintf(f, "</tbody></table></div>\n");
}

static void html_terms(FILE *f, const vram_report *r) {
  vram_term t;
  uint32_t i;
  fprintf(f, "<h2>Figures</h2>\n<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th "
             "class=\"t\">term</th>"
             "<th></th><th>bytes</th><th class=\"t\">source</th><th class=\"t\">made of</th></tr>"
             "</thead><tbody>\n");
  for (i = 0; vram_report_term(r, i, &t); i++)
    fprintf(f,
            "<tr><td class=\"t\">%s</td><td>%s</td><td>%" PRIu64 "</td><td class=\"t\">%s</td>"
            "<td class=\"t n\">%s</td></tr>\n",
            t.name, cmd_human(t.bytes.expected), t.bytes.expected, vram_source_name(t.source),
            t.from);
  fprintf(f, "</tbody></table></div>\n");
}

static void html_bytes(FILE *f, uint64_t bytes) {
  fprintf(f, "<td data-v=\"%" PRIu64 "\">%s</td>", bytes, cmd_human(bytes));
}

static void html_layers(FILE *f, const vram_graph *g, const vram_node_report *rep) {
  char shape[160];
  layer l;
  fprintf(f, "<details%s><summary><h2>Layers</h2></summary>\n",
          g->nnode > LAYERS_SHOWN ? "" : " open");
  fprintf(f, "<div class=\"wide\" tabindex=\"0\"><table id=\"layers\"><thead><tr>"
             "<th class=\"t\">layer</th><th class=\"t\">type</th><th class=\"t\">output</th>"
             "<th>parameters</th><th>output bytes</th><th>saved bytes</th><th>live bytes</th></tr>"
             "</thead><tbody>\n");
  l.next = g->first;
  while (layer_next(&l, rep)) {
    layer_shape(l.last->out[0].d, shape, sizeof shape);
    fprintf(f, "<tr><td class=\"t n\">");
    html_node(f, l.node);
    fprintf(f, "</td><td class=\"t\">%s</td><td class=\"t\">%s</td><td>%" PRIu64 "</td>",
            vram_op_name(l.node->op), shape, l.sum.params);
    html_bytes(f, l.sum.output_bytes);
    html_bytes(f, l.sum.saved_bytes);
    html_bytes(f, l.sum.live_bytes);
    fprintf(f, "</tr>\n");
  }
  fprintf(f, "</tbody></table></div></details>\n");
}

/* The timeline as the script reads it: for each column its event, phase, node, and bytes. */
static void html_columns(FILE *f, const vram_timeline *t) {
  static const char *const unit[] = {"'B','KiB','MiB','GiB','TiB','PiB','EiB'",
                                     "'B','KB','MB','GB','TB','PB','EB'", ""};
  const vram_node *node = NULL;
  uint32_t i, k, nodes = 0;
  fprintf(f, "const P={events:%" PRIu64 ",width:%" PRIu64 ",units:%d,base:%d,unit:[%s],phases:[",
          t->events, t->width, (int)cmd_units, cmd_units == VRAM_UNITS_SI ? 1000 : 1024,
          unit[cmd_units]);
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    fprintf(f, "%s'%s'", i ? "," : "", vram_phase_name((vram_phase)i));
  fprintf(f, "],categories:[");
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    fprintf(f, "%s['%s',%" PRIu32 "]", i ? "," : "", vram_category_name((vram_category)i), i);
  fprintf(f, "],nodes:[''");
  for (i = 0; i < t->ncolumn; i++) /* a node often has several columns in a row */
    if (t->column[i].node && t->column[i].node != node) {
      char name[MAX_NODE_NAME];
      node = t->column[i].node;
      vram_node_name(node, name, sizeof name);
      putc(',', f);
      cmd_json_text(f, name);
    }
  fprintf(f, "],columns:[");
  for (i = 0, node = NULL; i < t->ncolumn; i++) {
    const vram_moment *m = &t->column[i];
    if (m->node && m->node != node) {
      node = m->node;
      nodes++;
    }
    fprintf(f, "%s[%" PRIu64 ",%d,%" PRIu32, i ? ",\n" : "\n", m->event, (int)m->phase,
            m->node ? nodes : 0);
    for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
      fprintf(f, ",%" PRIu64, m->bytes[k]);
    fprintf(f, "]");
  }
  fprintf(f, "\n]};\n");
}

int scene_write_html(FILE *f, const job *j, const vram_graph *g, const scene *s,
                     const vram_report *r, int fits) {
  vram_svg_options o = s->options;
  vram_sink sink;
  int bad;
  size_t i;
  sink.write = cmd_to_file;
  sink.user = f;
  o.title = o.subtitle = NULL; /* the page has them */
  fprintf(f, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
  html_text(f, s->title);
  fprintf(f, ": memory of one step</title>\n%s%s</head>\n<body>\n<header>\n<h1>", html_style,
          html_style_tables);
  html_text(f, s->title);
  fprintf(f, "</h1>\n<p>");
  html_text(f, s->subtitle);
  fprintf(f, "</p>\n</header>\n<main>\n");
  html_summary(f, j, r, fits);
  fprintf(f, "<div class=\"views\">\n<figure id=\"step\">\n");
  bad = vram_write_svg(&s->timeline, r, NULL, 0, &o, NULL, 0, &sink) != VRAM_OK;
  fprintf(f, "</figure>\n<figure id=\"live\">\n");
  bad |= vram_write_svg(NULL, r, s->live, s->nlive, &o, s->scratch, vram_svg_bytes(s->nlive),
                        &sink) != VRAM_OK;
  fprintf(f, "</figure>\n</div>\n");
  if (j->ranks)
    bad |= ranks_html(f, j, j->ranks);
  html_phases(f, j, r);
  if (!(j->spec && j->parallel.is_pipeline)) /* its parts are put together, not layers */
    html_layers(f, g, j->o.nodes);
  html_terms(f, r);
  fprintf(f,
          "</main>\n<footer>vram %s. Requested: what tensors and workspaces ask for; allocated: "
          "the caching allocator's blocks; device: its segments%s the CUDA context%s.</footer>\n"
          "<div id=\"tip\" role=\"status\" hidden></div>\n<script>\n",
          VRAM_VERSION, r->nccl_bytes.upper ? "," : " and", r->nccl_bytes.upper ? ", NCCL" : "");
  html_columns(f, &s->timeline);
  for (i = 0; i < sizeof html_script / sizeof *html_script; i++)
    fputs(html_script[i], f);
  fprintf(f, "</script>\n</body>\n</html>\n");
  return bad || ferror(f);
}
