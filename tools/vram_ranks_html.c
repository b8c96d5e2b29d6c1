/* vram estimate --rank all --html: on the page of the fullest rank a picture of each class of equal
   ranks, what each of them has, and what each strategy of --parallel costs. */
#include "vram_estimate.h"
#include "vram_ranks.h"

enum { SMALL_COLUMNS = 160, MOST_PICTURES = 64 };

int ranks_picture(const job *j, const rank_table *t, rank_row *row) {
  const uint64_t bytes = vram_timeline_bytes(SMALL_COLUMNS);
  vram_step_options o = j->o;
  vram_report r;
  if (t->count > MOST_PICTURES)
    return FITS;
  row->columns = malloc((size_t)bytes);
  if (!row->columns)
    return cmd_no_memory();
  vram_timeline_init(&row->timeline, row->columns, bytes, row->report.before_category_bytes);
  o.replay = NULL;
  o.nodes = NULL;
  o.event = vram_timeline_add;
  o.user = &row->timeline;
  vram_step(&t->l.g, &o, t->l.scratch, t->l.bytes, &r, NULL);
  return FITS;
}

/* All to one scale. */
static int pictures(FILE *f, const job *j, const rank_table *t) {
  vram_svg_options options;
  vram_sink sink;
  char ranks[48], place[64];
  uint32_t i;
  int bad = 0;
  memset(&options, 0, sizeof options);
  options.units = cmd_units;
  sink.write = cmd_to_file;
  sink.user = f;
  for (i = 0; i < t->count; i++)
    if (t->row[i].report.peak_requested_bytes > options.plot_bytes)
      options.plot_bytes = t->row[i].report.peak_requested_bytes;
  fprintf(f,
          "<p class=\"soft\">To one scale, in the colours of the large picture; the dot is the "
          "peak.%s</p>\n<div class=\"small\">\n",
          t->count > MOST_PICTURES ? " The first 64 classes." : "");
  for (i = 0; i < t->count && i < MOST_PICTURES && !bad; i++) {
    const rank_row *row = t->row + i;
    ranks_text(j, row, ranks, sizeof ranks);
    ranks_place(&j->parallel, row->of.rank, place, sizeof place);
    fprintf(f, "<figure><figcaption><b>%s</b> rank%s %s%s%s%s%s</figcaption>\n",
            cmd_human(row->report.peak_requested_bytes), row->of.ranks == 1 ? "" : "s", ranks,
            *place ? " (" : "", place, *place ? ")" : "", i == t->fullest ? ", the fullest" : "");
    bad = vram_write_svg(&row->timeline, NULL, NULL, 0, &options, NULL, 0, &sink) != VRAM_OK;
    fprintf(f, "</figure>\n");
  }
  fprintf(f, "</div>\n");
  return bad;
}

/* ---- tables ---- */

typedef struct columns { /* which a table has */
  int of[VRAM_CATEGORY_COUNT], n, pinned;
} columns;

/* Categories of at least a thousandth of the peak. */
static void columns_see(columns *c, const vram_report *r) {
  int k;
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    if (r->peak_category_bytes[k] > r->peak_requested_bytes / 1000 && !c->of[k])
      c->n += c->of[k] = 1;
  c->pinned |= r->pinned_bytes != 0;
}

static void table_begin(FILE *f, const columns *c, const char *title, const char *what) {
  int k;
  fprintf(f,
          "<h2>%s</h2>\n<div class=\"wide bleed\" tabindex=\"0\"><table class=\"ranks\"><thead><tr>"
          "<th class=\"t\" rowspan=\"2\">%s</th><th rowspan=\"2\">number</th>"
          "<th colspan=\"3\">from step to step</th><th colspan=\"%d\">at the peak</th>"
          "<th rowspan=\"2\">reserved</th><th rowspan=\"2\">NCCL</th>"
          "<th rowspan=\"2\">device</th>%s<th rowspan=\"2\">sent in a step</th></tr>\n"
          "<tr><th>params</th><th>gradients</th><th>optimizer</th>",
          title, what, c->n + 1, c->pinned ? "<th rowspan=\"2\">pinned on the host</th>" : "");
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    if (c->of[k])
      fprintf(f, "<th>%s</th>", vram_category_name((vram_category)k));
  fprintf(f, "<th>all</th></tr></thead><tbody>\n");
}

static void bytes_cell(FILE *f, uint64_t bytes) {
  fprintf(f, "<td>%s</td>", bytes ? cmd_human(bytes) : "");
}

/* What lasts from step to step, then the peak by category: of what is gathered, reduced and
   buffered, the wrapper's part. */
static void table_row(FILE *f, const columns *c, uint64_t ranks, const vram_report *r) {
  int k;
  fprintf(f, "<td>%" PRIu64 "</td>", ranks);
  bytes_cell(f, r->params_bytes);
  bytes_cell(f, r->gradients_bytes);
  bytes_cell(f, r->optimizer_bytes);
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    if (c->of[k])
      bytes_cell(f, r->peak_category_bytes[k]);
  bytes_cell(f, r->peak_requested_bytes);
  bytes_cell(f, r->peak_reserved_bytes);
  bytes_cell(f, r->nccl_bytes.expected);
  bytes_cell(f, r->device_bytes.expected);
  if (c->pinned)
    bytes_cell(f, r->pinned_bytes);
  bytes_cell(f, ranks_sent(r));
  fprintf(f, "</tr>\n");
}

static void classes_table(FILE *f, const job *j, const rank_table *t) {
  columns c;
  char ranks[48];
  uint32_t i;
  memset(&c, 0, sizeof c);
  for (i = 0; i < t->count; i++)
    columns_see(&c, &t->row[i].report);
  table_begin(f, &c, "Where the bytes are", "ranks");
  for (i = 0; i < t->count; i++) {
    ranks_text(j, t->row + i, ranks, sizeof ranks);
    fprintf(f, "<tr><td class=\"t\">%s%s</td>", ranks, i == t->fullest ? " (the fullest)" : "");
    table_row(f, &c, t->row[i].of.ranks, &t->row[i].report);
  }
  fprintf(f, "</tbody></table></div>\n");
}

static void ways_table(FILE *f, const rank_table *t) {
  columns c;
  uint32_t i;
  memset(&c, 0, sizeof c);
  for (i = 0; i < t->nway; i++)
    columns_see(&c, &t->way[i].report);
  table_begin(f, &c, "What each strategy costs", "the fullest rank of");
  for (i = 0; i < t->nway; i++) {
    const rank_way *w = t->way + i;
    fprintf(f, "<tr><td class=\"t\">%s", i ? "+ " : "");
    html_text(f, w->name);
    fprintf(f, "</td>");
    table_row(f, &c, w->ranks, &w->report);
  }
  fprintf(f,
          "</tbody></table></div>\n<p class=\"soft\">Each line has the strategies of those above "
          "it, too; all with the batch of one rank%s.</p>\n",
          t->micro > 1 ? ", and as many micro-batches" : "");
}

int ranks_html(FILE *f, const job *j, const rank_table *t) {
  int bad = 0;
  if (t->count > 1) {
    fprintf(f, "<h2>%" PRIu64 " ranks, %" PRIu32 " classes of equal ones</h2>\n",
            vram_parallel_world(&j->parallel), t->count);
    bad = pictures(f, j, t);
  }
  classes_table(f, j, t);
  if (t->nway > 1)
    ways_table(f, t);
  return bad || ferror(f);
}

/* ---- strategies, one after the other ---- */

/* Where the strategy that begins at s ends: in front of "+NAME=SIZE", or at the end. */
static const char *strategy_end(const char *s) {
  for (; *s; s++) {
    const char *name = s + 1;
    if (*s != '+')
      continue;
    name += strspn(name, "abcdefghijklmnopqrstuvwxyz");
    name += strspn(name, "0123456789");
    if (*name == '=' && name[1] >= '0' && name[1] <= '9')
      return s;
  }
  return s;
}

/* The step of the fullest rank with the first `len` characters of the strategies, 0: on one device.
   What is not played alone is left out. */
static int way_play(const job *j, const char *text, size_t len, size_t spec_len, rank_way *w) {
  job own = *j;
  rank_table t;
  vram_error err;
  char *spec = (char *)malloc(spec_len + 1);
  int status;
  if (!spec)
    return cmd_no_memory();
  memcpy(spec, j->spec, spec_len);
  spec[spec_len] = 0;
  own.html = NULL;
  own.o.nodes = NULL;
  own.spec = spec_len ? spec : NULL;
  own.o.parallel = spec_len ? &own.parallel : NULL;
  memset(&t, 0, sizeof t);
  status = spec_len && vram_parallel_parse(spec, &own.parallel, &err) ? USAGE : FITS;
  own.parallel.step = j->parallel.step;
  if (j->parallel.is_pipeline && !(spec_len && own.parallel.is_pipeline))
    own.o.accumulate = j->parallel.microbatches;
  if (!status)
    status = spec_len ? ranks_play(&own, text, len, &t) : ranks_play_one(&own, text, len, &t);
  if (!status) {
    w->report = t.row[t.fullest].report;
    w->ranks = spec_len ? vram_parallel_world(&own.parallel) : 1;
  }
  ranks_end(&t);
  free(spec);
  return status;
}

int ranks_ways(const job *j, const char *text, size_t len, rank_table *t) {
  const char *from = j->spec, *end;
  const int said = cmd_hush(1);
  rank_way *w = t->way;
  int status;
  t->micro = j->parallel.is_pipeline ? j->parallel.microbatches : 1;
  snprintf(w->name, sizeof w->name, "one device");
  status = way_play(j, text, len, 0, w);
  t->nway = status == FITS;
  for (end = strategy_end(from); *end && t->nway + 1 < MOST_WAYS && status != OTHER;
       end = strategy_end(end + 1)) {
    w = t->way + t->nway;
    status = way_play(j, text, len, (size_t)(end - j->spec), w);
    if (status)
      continue;
    snprintf(w->name, sizeof w->name, "%.*s", (int)(end - from), from);
    t->nway++;
    from = end + 1;
  }
  cmd_hush(said);
  if (status == OTHER) /* nothing but memory is missing there */
    return cmd_no_memory();
  w = t->way + t->nway++; /* with the last one it is what has been played */
  snprintf(w->name, sizeof w->name, "%s", from);
  w->report = t->row[t->fullest].report;
  w->ranks = vram_parallel_world(&j->parallel);
  return FITS;
}
