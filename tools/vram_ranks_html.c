/* vram estimate --rank all --html: on the page of the fullest rank a picture of each class of equal
   ranks, and what each of them has. */
#include "vram_ranks.h"

enum { SMALL_COLUMNS = 160, MOST_PICTURES = 64 };

typedef struct grown { /* a text that grows */
  char *text;
  size_t len, room;
  int failed;
} grown;

static int to_grown(void *user, const char *bytes, size_t n) {
  grown *g = (grown *)user;
  if (g->len + n + 1 > g->room) {
    const size_t room = 2 * (g->len + n) + 4096;
    char *text = (char *)realloc(g->text, room);
    g->failed |= !text;
    if (!text)
      return 1;
    g->text = text;
    g->room = room;
  }
  memcpy(g->text + g->len, bytes, n);
  g->len += n;
  g->text[g->len] = 0;
  return 0;
}

int ranks_picture(const job *j, const rank_table *t, rank_row *row) {
  const uint64_t bytes = vram_timeline_bytes(SMALL_COLUMNS);
  vram_step_options o = j->o;
  vram_svg_options options;
  vram_timeline timeline;
  vram_report r;
  vram_sink sink;
  grown g;
  void *columns;
  if (t->count > MOST_PICTURES)
    return FITS;
  columns = malloc((size_t)bytes);
  if (!columns)
    return cmd_no_memory();
  memset(&g, 0, sizeof g);
  memset(&options, 0, sizeof options);
  options.units = cmd_units;
  options.has_budget = j->has_budget;
  options.budget_bytes = j->budget;
  options.budget_name = j->gpu;
  vram_timeline_init(&timeline, columns, bytes, row->report.before_category_bytes);
  o.replay = NULL;
  o.nodes = NULL;
  o.event = vram_timeline_add;
  o.user = &timeline;
  vram_step(&t->l.g, &o, t->l.scratch, t->l.bytes, &r, NULL);
  sink.write = to_grown;
  sink.user = &g;
  vram_write_svg(&timeline, &row->report, NULL, 0, &options, NULL, 0, &sink);
  free(columns);
  row->picture = g.text;
  return g.failed ? cmd_no_memory() : FITS;
}

static void bytes_cell(FILE *f, uint64_t bytes) {
  fprintf(f, "<td>%s</td>", bytes ? cmd_human(bytes) : "");
}

/* What lasts from step to step, then the peak by category: of what is gathered, reduced and
   buffered, the wrapper's part. */
static void rows_table(FILE *f, const job *j, const rank_table *t) {
  uint64_t any[VRAM_CATEGORY_COUNT] = {0};
  char ranks[48];
  uint32_t i;
  int k;
  for (i = 0; i < t->count; i++)
    for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
      any[k] |= t->row[i].report.peak_category_bytes[k];
  fprintf(
      f, "<h2>Where the bytes are</h2>\n<div class=\"wide\"><table><thead><tr><th class=\"t\">ranks"
         "</th><th>number</th><th>params</th><th>gradients</th><th>optimizer</th>");
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    if (any[k])
      fprintf(f, "<th>%s at the peak</th>", vram_category_name((vram_category)k));
  fprintf(f,
          "<th>peak</th><th>reserved</th><th>NCCL</th><th>device</th><th>sent in a step</th></tr>"
          "</thead><tbody>\n");
  for (i = 0; i < t->count; i++) {
    const rank_row *row = t->row + i;
    const vram_report *r = &row->report;
    ranks_text(j, row, ranks, sizeof ranks);
    fprintf(f, "<tr><td class=\"t\">%s%s</td><td>%" PRIu64 "</td>", ranks,
            i == t->fullest ? " (the fullest)" : "", row->of.ranks);
    bytes_cell(f, r->params_bytes);
    bytes_cell(f, r->gradients_bytes);
    bytes_cell(f, r->optimizer_bytes);
    for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
      if (any[k])
        bytes_cell(f, r->peak_category_bytes[k]);
    bytes_cell(f, r->peak_requested_bytes);
    bytes_cell(f, r->peak_reserved_bytes);
    bytes_cell(f, r->nccl_bytes.expected);
    bytes_cell(f, r->device_bytes.expected);
    bytes_cell(f, ranks_sent(r));
    fprintf(f, "</tr>\n");
  }
  fprintf(f, "</tbody></table></div>\n");
}

int ranks_html(FILE *f, const job *j, const rank_table *t) {
  char ranks[48];
  uint32_t i;
  fprintf(f,
          "<h2>%" PRIu64 " ranks, %" PRIu32 " class%s of equal ones</h2>\n"
          "<div style=\"display:grid;gap:.6rem;grid-template-columns:repeat(auto-fill,"
          "minmax(13rem,1fr))\">\n",
          vram_parallel_world(&j->parallel), t->count, t->count == 1 ? "" : "es");
  for (i = 0; i < t->count; i++) {
    const rank_row *row = t->row + i;
    if (!row->picture)
      continue;
    ranks_text(j, row, ranks, sizeof ranks);
    fprintf(f, "<figure style=\"max-width:none\"><figcaption>%s%s: %s</figcaption>\n%s</figure>\n",
            row->of.rank == row->of.last && row->of.ranks == 1 ? "rank " : "ranks ", ranks,
            cmd_human(row->report.peak_requested_bytes), row->picture);
  }
  fprintf(f, "</div>\n");
  rows_table(f, j, t);
  return ferror(f);
}
