/* vram estimate --rank all: every rank of a world, those that are equal once. */
#include "vram_ranks.h"
#include "vram_estimate.h"

/* ---- classes ---- */

static rank_row *row_new(rank_table *t) {
  if (t->count == t->room) {
    const uint32_t room = t->room ? t->room * 2 : 16;
    rank_row *row = (rank_row *)realloc(t->row, room * sizeof *row);
    if (!row)
      return NULL;
    t->row = row;
    t->room = room;
  }
  memset(t->row + t->count, 0, sizeof *t->row);
  return t->row + t->count++;
}

void ranks_end(rank_table *t) {
  uint32_t i;
  if (t->place)
    model_unload(&t->l);
  for (i = 0; i < t->count; i++)
    free(t->row[i].columns);
  free(t->row);
}

/* The graph of the place of this rank, in t->l. */
static int place_load(job *j, const char *text, size_t len, uint32_t rank, rank_table *t) {
  char *copy;
  int status;
  if (t->place)
    model_unload(&t->l);
  t->place = 0;
  j->at_rank = j->parallel.rank = rank;
  copy = (char *)malloc(len + 1);
  if (!copy)
    return cmd_no_memory();
  memcpy(copy, text, len);
  copy[len] = 0;
  status = model_load(&t->l, j, copy, len);
  t->place = 1 + rank;
  return status;
}

int ranks_classes(const vram_graph *g, const vram_parallel *p, int cut, vram_rank_class **list,
                  uint32_t *count) {
  const uint64_t bytes = vram_parallel_classes_bytes(g, p);
  void *scratch = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  uint32_t room = 0;
  vram_result r = scratch ? VRAM_OK : VRAM_ERR_MEMORY;
  *list = NULL;
  *count = 0;
  while (!r && (!*list || *count > room)) {
    free(*list);
    room = *count;
    *list = (vram_rank_class *)malloc((room + (size_t)1) * sizeof **list);
    if (!*list)
      r = VRAM_ERR_MEMORY;
    else
      r = (cut ? vram_parallel_cut_classes : vram_parallel_classes)(g, p, scratch, bytes, *list,
                                                                    room, count);
  }
  free(scratch);
  if (r == VRAM_ERR_LIMIT)
    return cmd_bad("more than 2^32-1 ranks", NULL, NULL);
  return r ? cmd_no_memory() : FITS;
}

/* One rank for all of its class. */
static int class_play(job *j, const vram_rank_class *c, uint64_t places, rank_table *t) {
  rank_row *row = row_new(t);
  int status;
  if (!row)
    return cmd_no_memory();
  j->at_rank = j->parallel.rank = c->rank;
  row->of = *c;
  row->of.ranks *= places;
  status = model_step(&t->l, &j->o, &row->report);
  vram_node_name(row->report.peak_node, row->peak_node, sizeof row->peak_node);
  row->report.peak_node = NULL;
  vram_step_parameters(&t->l.g, &j->o, &row->parameters);
  row->fits = !j->has_budget || row->report.fits;
  if (!status && j->html)
    status = ranks_picture(j, t, row);
  return status;
}

static int fuller(const rank_row *a, const rank_row *b) {
  const vram_report *x = &a->report, *y = &b->report;
  return x->device_bytes.expected != y->device_bytes.expected
             ? x->device_bytes.expected > y->device_bytes.expected
             : x->peak_requested_bytes > y->peak_requested_bytes;
}

int ranks_play(job *j, const char *text, size_t len, rank_table *t) {
  vram_rank_class *places = NULL, *list = NULL;
  uint32_t nplace = 0, n = 0, i, k;
  int status;
  memset(t, 0, sizeof *t);
  cmd_progress("vram: playing ranks", 0);
  status = place_load(j, text, len, 0, t);
  if (!status)
    status = ranks_classes(j->parallel.tp > 1 ? &t->l.whole : &t->l.g, &j->parallel, 1, &places,
                           &nplace);
  for (i = 0; i < nplace && !status; i++) {
    if (places[i].rank + 1 != t->place)
      status = place_load(j, text, len, places[i].rank, t);
    if (!status)
      status = ranks_classes(&t->l.g, &j->parallel, 0, &list, &n);
    for (k = 0; k < n && !status; k++)
      status = class_play(j, list + k, places[i].ranks, t);
    free(list);
    list = NULL;
    n = 0;
  }
  free(places);
  cmd_progress_end();
  for (i = 1; i < t->count; i++)
    if (fuller(t->row + i, t->row + t->fullest))
      t->fullest = i;
  if (!status)
    j->at_rank = j->parallel.rank = t->row[t->fullest].of.rank;
  return status;
}

int ranks_play_one(job *j, const char *text, size_t len, rank_table *t) {
  rank_row *row;
  int status;
  memset(t, 0, sizeof *t);
  status = place_load(j, text, len, 0, t);
  row = status ? NULL : row_new(t);
  return status ? status : row ? model_step(&t->l, &j->o, &row->report) : cmd_no_memory();
}

int ranks_fullest(const job *j, const char *text, size_t len, uint32_t *rank) {
  job own = *j;
  rank_table t;
  int status;
  own.o.parallel = &own.parallel;
  status = ranks_play(&own, text, len, &t);
  *rank = own.at_rank;
  ranks_end(&t);
  return status;
}

/* ---- what is shown ---- */

void ranks_text(const job *j, const rank_row *r, char *to, size_t cap) {
  const vram_parallel *p = &j->parallel;
  if (r->of.rank == r->of.last && r->of.ranks == 1)
    snprintf(to, cap, "%" PRIu32, r->of.rank);
  else if (r->of.ranks == vram_parallel_world(p))
    snprintf(to, cap, "all");
  else if (r->of.rank == r->of.last)
    snprintf(to, cap, "%" PRIu32 ", ...", r->of.rank);
  else
    snprintf(to, cap, "%" PRIu32 "..%" PRIu32, r->of.rank, r->of.last);
}

void ranks_place(const vram_parallel *p, uint32_t rank, char *to, size_t cap) {
  vram_parallel at = *p;
  vram_parallel_place place;
  at.rank = rank;
  place = vram_parallel_place_of(&at);
  *to = 0;
  if (p->pp > 1)
    snprintf(to, cap, "pp %" PRIu32, place.pp);
  if (p->dp > 1 && strlen(to) + 2 < cap)
    snprintf(to + strlen(to), cap - strlen(to), "%sdp %" PRIu32, *to ? " " : "", place.dp);
  if (p->cp > 1 && strlen(to) + 2 < cap)
    snprintf(to + strlen(to), cap - strlen(to), "%scp %" PRIu32, *to ? " " : "", place.cp);
  if (p->tp > 1 && strlen(to) + 2 < cap)
    snprintf(to + strlen(to), cap - strlen(to), "%stp %" PRIu32, *to ? " " : "", place.tp);
}

static void print_rows(const job *j, const rank_table *t) {
  char ranks[48], place[64];
  uint64_t pinned = 0;
  uint32_t i;
  for (i = 0; i < t->count; i++)
    pinned |= t->row[i].report.pinned_bytes;
  printf("%s  %-16s %7s %11s %11s %11s %11s %11s %11s %11s%s%s\n", cmd_bold, "ranks", "number",
         "params", "gradients", "optimizer", "peak", "allocated", "reserved", "device",
         pinned ? " pinned host" : "", cmd_plain);
  for (i = 0; i < t->count; i++) {
    const rank_row *row = t->row + i;
    const vram_report *r = &row->report;
    ranks_text(j, row, ranks, sizeof ranks);
    ranks_place(&j->parallel, row->of.rank, place, sizeof place);
    printf("%s%s %-16s %7" PRIu64 " %11s", i == t->fullest ? cmd_bold : "",
           i == t->fullest ? "*" : " ", ranks, row->of.ranks, cmd_human(r->params_bytes));
    printf(" %11s %11s %11s", cmd_human(r->gradients_bytes), cmd_human(r->optimizer_bytes),
           cmd_human(r->peak_requested_bytes));
    printf(" %11s %11s %11s", cmd_human(r->peak_allocated_bytes.expected),
           cmd_human(r->peak_reserved_bytes), cmd_human(r->device_bytes.expected));
    if (pinned)
      printf(" %11s", cmd_human(r->pinned_bytes));
    printf("%s%s\n", row->fits ? "" : "  does not fit", i == t->fullest ? cmd_plain : "");
  }
}

static void print_ranks(const job *j, const rank_table *t) {
  const rank_row *full = t->row + t->fullest;
  char place[64];
  estimate_title(j, &t->l.g);
  printf("%" PRIu64 " ranks in %" PRIu32 " class%s of equal ones\n\n",
         vram_parallel_world(&j->parallel), t->count, t->count == 1 ? "" : "es");
  print_rows(j, t);
  ranks_place(&j->parallel, full->of.rank, place, sizeof place);
  printf("\n* the fullest: rank %" PRIu32
         "%s%s%s, its peak in %s%s%s; device with the CUDA context "
         "and NCCL %s to %s\n",
         full->of.rank, *place ? " (" : "", place, *place ? ")" : "",
         vram_phase_name(full->report.peak_phase), *full->peak_node ? " at " : "", full->peak_node,
         cmd_human(full->report.device_bytes.lower), cmd_human(full->report.device_bytes.upper));
  print_sent(&full->report);
  if (j->has_budget)
    printf("\n%s%s%s a budget of %s%s%s\n", cmd_bold, full->fits ? "fits" : "DOES NOT FIT",
           cmd_plain, cmd_human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "");
  if (j->has_budget && !full->fits)
    cmd_way("(vram fit --parallel auto --devices N: which way would fit)");
}

static void json_ranks(job *j, const rank_table *t) {
  uint32_t i;
  putchar('[');
  for (i = 0; i < t->count; i++) {
    const rank_row *row = t->row + i;
    printf("%s", i ? ",\n" : "");
    j->at_rank = j->parallel.rank = row->of.rank;
    estimate_json(j, &t->l.g, &row->report, &row->parameters, row->peak_node, row->fits);
    printf(",\"ranks\":%" PRIu64 ",\"last_rank\":%" PRIu32 ",\"fullest\":%s}", row->of.ranks,
           row->of.last, i == t->fullest ? "true" : "false");
  }
  printf("]\n");
}

static void csv_ranks(const rank_table *t) {
  uint32_t i;
  printf("rank,last_rank,ranks,params_bytes,gradients_bytes,optimizer_bytes,peak_requested_bytes,"
         "peak_allocated_bytes,peak_reserved_bytes,nccl_bytes,device_bytes,communication_bytes,"
         "fullest,pinned_bytes\n");
  for (i = 0; i < t->count; i++) {
    const rank_row *row = t->row + i;
    const vram_report *r = &row->report;
    printf("%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
           ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%d,%" PRIu64 "\n",
           row->of.rank, row->of.last, row->of.ranks, r->params_bytes, r->gradients_bytes,
           r->optimizer_bytes, r->peak_requested_bytes, r->peak_allocated_bytes.expected,
           r->peak_reserved_bytes, r->nccl_bytes.expected, r->device_bytes.expected, ranks_sent(r),
           i == t->fullest, r->pinned_bytes);
  }
}

/* What tells of one rank has no place in a table of all. */
static int check_ranks(const job *j) {
  const char *of_one = j->events      ? "--events"
                       : j->svg       ? "--svg"
                       : j->snapshot  ? "--snapshot"
                       : j->trace     ? "--trace"
                       : j->live      ? "--live"
                       : j->terms     ? "--terms"
                       : j->explain   ? "--explain"
                       : j->table     ? "--table"
                       : j->automatic ? "--checkpoint auto"
                                      : NULL;
  return of_one ? cmd_bad("of one rank, not of --rank all:", of_one, "--rank R") : FITS;
}

/* --html: the page of the fullest rank, whose step is played once more. */
static int write_page(job *j, const char *text, size_t len, rank_table *t) {
  const rank_row *full = t->row + t->fullest;
  vram_live *live = NULL;
  uint32_t nlive = 0;
  vram_report r;
  int status;
  status = ranks_ways(j, text, len, t);
  if (!status)
    status = place_load(j, text, len, full->of.rank, t);
  if (!status) {
    j->o.nodes = (vram_node_report *)calloc(t->l.g.nnode + 1u, sizeof *j->o.nodes);
    status = j->o.nodes ? model_step(&t->l, &j->o, &r) : cmd_no_memory();
  }
  j->ranks = t;
  if (!status)
    status = estimate_live(j, &t->l, &r, &live, &nlive);
  if (!status)
    status = scene_write_all(j, &t->l.g, t->l.scratch, t->l.bytes, &r, full->fits, live, nlive);
  free(live);
  free(j->o.nodes);
  j->o.nodes = NULL;
  return status;
}

int ranks_command(job *j, char *text, size_t len) {
  rank_table t;
  int status = check_ranks(j);
  if (status) {
    free(text);
    return status;
  }
  status = ranks_play(j, text, len, &t);
  if (!status) {
    const int fits = t.row[t.fullest].fits;
    if (j->html)
      status = write_page(j, text, len, &t);
    if (status || cmd_is_output(j->html))
      ;
    else if (j->json)
      json_ranks(j, &t);
    else if (j->csv)
      csv_ranks(&t);
    else
      print_ranks(j, &t);
    if (!status)
      status = fits ? FITS : TOO_LARGE;
  }
  ranks_end(&t);
  free(text);
  return status;
}
