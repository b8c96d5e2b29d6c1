/* vram estimate --svg and --html: the step as a picture. */
#include "vram_estimate.h"

enum { COLUMNS = 1024 };

static void scene_end(scene *s) {
  free(s->columns);
  free(s->scratch);
}

/* Plays the step once more for its events. */
static int scene_begin(scene *s, const job *j, const vram_graph *g, void *scratch, uint64_t bytes,
                       const vram_report *r, const vram_live *live, uint32_t nlive) {
  const uint64_t columns = vram_timeline_bytes(COLUMNS);
  vram_step_options o = j->o;
  vram_report again;
  uint32_t d;
  size_t n;
  memset(s, 0, sizeof *s);
  s->columns = malloc((size_t)columns);
  s->scratch = malloc((size_t)vram_svg_bytes(nlive));
  if (!s->columns || !s->scratch)
    return cmd_no_memory();
  s->live = live;
  s->nlive = nlive;
  vram_timeline_init(&s->timeline, s->columns, columns, r->before_category_bytes);
  o.replay = NULL;
  o.event = vram_timeline_add;
  o.user = &s->timeline;
  vram_step(g, &o, scratch, bytes, &again, NULL);
  snprintf(s->title, sizeof s->title, "%.*s", g->name ? (int)g->name_len : 7,
           g->name ? g->name : "(model)");
  job_mode(j, s->subtitle, sizeof s->subtitle);
  for (d = 0; d < g->ndim && d < 6; d++) {
    n = strlen(s->subtitle);
    snprintf(s->subtitle + n, sizeof s->subtitle - n, ", %.*s=%" PRId64, (int)g->dim[d].len,
             g->dim[d].name, g->dim[d].value);
  }
  n = strlen(s->subtitle);
  snprintf(s->subtitle + n, sizeof s->subtitle - n, ", cc %" PRIu32 ".%" PRIu32 ", rules %s",
           (j->o.cc ? j->o.cc : 90) / 10, (j->o.cc ? j->o.cc : 90) % 10,
           vram_rules_name(j->o.rules));
  s->options.title = s->title;
  s->options.subtitle = s->subtitle;
  s->options.has_budget = j->has_budget;
  s->options.budget_bytes = j->budget;
  s->options.budget_name = j->gpu;
  s->options.units = cmd_units;
  return FITS;
}

static int write_svg(FILE *f, const scene *s, const vram_report *r) {
  vram_sink sink;
  sink.write = cmd_to_file;
  sink.user = f;
  return vram_write_svg(&s->timeline, r, s->live, s->nlive, &s->options, s->scratch,
                        vram_svg_bytes(s->nlive), &sink) != VRAM_OK;
}

int scene_write_all(const job *j, const vram_graph *g, void *scratch, uint64_t bytes,
                    const vram_report *r, int fits, const vram_live *live, uint32_t nlive) {
  scene s;
  int k, status = scene_begin(&s, j, g, scratch, bytes, r, live, nlive);
  for (k = 0; k < 2 && !status; k++) {
    const char *path = k ? j->html : j->svg;
    cmd_output out;
    if (!path)
      continue;
    status = cmd_output_open(&out, path);
    if (!status)
      status = cmd_output_commit(&out, k ? scene_write_html(out.file, j, g, &s, r, fits)
                                         : write_svg(out.file, &s, r));
  }
  scene_end(&s);
  return status;
}
