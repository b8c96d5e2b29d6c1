/* vram fit --parallel auto: every way to cut and wrap a model for so many devices, a step of its
   fullest rank played for each. */
#include "vram_auto.h"

enum {
  AUTO_WRAPPERS = 64, /* ways to wrap the ranks that are left beside pp, cp and tp */
  AUTO_WAY = 64,
  AUTO_NODE = 8 /* ranks of tensor and of context parallelism at most: those of a node */
};

/* ---- lists that grow ---- */

static void *list_grow(void *list, uint32_t count, uint32_t *room, size_t each) {
  if (count < *room)
    return list;
  list = realloc(list, (count + count / 2 + 64) * each);
  *room = count + count / 2 + 64;
  return list;
}

static auto_line *line_new(auto_search *a) {
  auto_line *line = (auto_line *)list_grow(a->line, a->count, &a->room, sizeof *line);
  if (!line)
    return NULL;
  a->line = line;
  return a->line + a->count++;
}

static auto_group *group_new(auto_search *a) {
  auto_group *group = (auto_group *)list_grow(a->group, a->ngroup, &a->group_room, sizeof *group);
  if (!group)
    return NULL;
  a->group = group;
  memset(a->group + a->ngroup, 0, sizeof *group);
  return a->group + a->ngroup++;
}

static void search_end(auto_search *a) {
  uint32_t i, k;
  for (i = 0; i < a->ngroup; i++) {
    for (k = 0; k < a->group[i].count; k++) {
      free(a->group[i].place[k].mem);
      free(a->group[i].place[k].layer);
      free(a->group[i].place[k].unit);
    }
    free(a->group[i].place);
  }
  for (i = 0; i < a->nbatch; i++)
    model_unload(a->batch + i);
  free(a->batch);
  free(a->group);
  free(a->line);
  free(a->scratch);
}

/* ---- combinations ---- */

static int has_option(const auto_search *a, const char *name) {
  const char *option = a->j->spec + 4; /* behind "auto" */
  for (; *option == ','; option += strcspn(option + 1, ",") + 1)
    if (!strncmp(option + 1, name, strlen(name)) && option[1 + strlen(name)] == '=')
      return 1;
  return 0;
}

/* "fsdp2=8" and the options behind auto that it has: each is tried alone. 0: it is too long. */
static int spec_add(const auto_search *a, char *spec, const char *part) {
  const char *option = a->j->spec + 4;
  size_t n = strlen(spec);
  if (n + strlen(part) + 2 >= AUTO_SPEC)
    return 0;
  n += (size_t)sprintf(spec + n, "%s%s", n ? "+" : "", part);
  while (*option == ',') {
    const size_t len = strcspn(option + 1, ",") + 1;
    char alone[AUTO_SPEC];
    vram_parallel p;
    if (strlen(part) + len + 1 >= sizeof alone || n + len + 1 >= AUTO_SPEC)
      return 0;
    sprintf(alone, "%s%.*s", part, (int)len, option);
    if (!vram_parallel_parse(alone, &p, NULL))
      n += (size_t)sprintf(spec + n, "%.*s", (int)len, option);
    option += len;
  }
  return 1;
}

/* One way with parameters that are gathered, and the same where they stay. */
static uint32_t gathered_add(char (*to)[AUTO_WAY], uint32_t n, const char *name, uint32_t first,
                             uint32_t second, const char *stays) {
  char way[32];
  if (n + 2 > AUTO_WRAPPERS)
    return n;
  snprintf(way, sizeof way, second ? "%s%" PRIu32 "x%" PRIu32 : "%s%" PRIu32, name, first, second);
  snprintf(to[n++], sizeof *to, "%s", way);
  if (stays)
    snprintf(to[n++], sizeof *to, "%s%s", way, stays);
  return n;
}

/* Ways to wrap so many ranks, as words of --parallel; how many. Parameters that are gathered may
   stay so up to backward (reshard_after_forward=False: what ZeRO's second stage shards). Of tensor
   parallelism's DTensors DistributedDataParallel wants none. Ranks that share a sequence have
   gradients of their own, which a wrapper adds up, of one rank, too. */
static uint32_t wrappers_of(const auto_search *a, const auto_line *x, uint32_t ranks,
                            char (*to)[AUTO_WAY]) {
  const char *const stays = has_option(a, "reshard") ? NULL : ",reshard=0";
  uint32_t n = 0, i;
  if (ranks == 1 && x->cp == 1) {
    **to = 0;
    return 1;
  }
  if (x->tp == 1)
    snprintf(to[n++], sizeof *to, "ddp=%" PRIu32, ranks);
  if (x->ep > 1) /* experts are what DistributedDataParallel is told to leave alone */
    return n;
  if (x->tp == 1)
    snprintf(to[n++], sizeof *to, "zero1=%" PRIu32, ranks);
  n = gathered_add(to, n, "fsdp2=", ranks, 0, stays);
  for (i = ranks - 1; i > 1; i--)
    if (ranks % i == 0)
      n = gathered_add(to, n, "hsdp=", ranks / i, i, stays);
  return n;
}

static int line_add(auto_search *a, const auto_line *like, const char *wrapper, int sp) {
  auto_line *x = line_new(a);
  char part[64];
  int good = 1;
  if (!x)
    return cmd_no_memory();
  *x = *like;
  *x->spec = 0;
  if (x->pp > 1) {
    snprintf(part, sizeof part, "pp=%" PRIu32 ",microbatches=%" PRIu32, x->pp, x->micro_batches);
    good = spec_add(a, x->spec, part);
  }
  if (*wrapper)
    good &= spec_add(a, x->spec, wrapper);
  if (x->ep > 1) {
    snprintf(part, sizeof part, "ep=%" PRIu32, x->ep);
    good &= spec_add(a, x->spec, part);
  }
  if (x->cp > 1) {
    snprintf(part, sizeof part, "cp=%" PRIu32, x->cp);
    good &= spec_add(a, x->spec, part);
  }
  if (x->tp > 1 || !*x->spec) {
    snprintf(part, sizeof part, "tp=%" PRIu32 "%s", x->tp, sp ? ",sp=1" : "");
    good &= spec_add(a, x->spec, part);
  }
  return good ? FITS : cmd_bad("options of --parallel auto are too long:", a->j->spec, NULL);
}

/* What tp, cp, ep and a micro-batch leave: pipelines, wrappers, with layers checkpointed and
   without. */
static int lines_add(auto_search *a, const auto_line *group, int sp) {
  char way[AUTO_WRAPPERS][AUTO_WAY];
  auto_line like = *group;
  const uint32_t beside = a->devices / group->tp / group->cp;
  uint32_t i, n;
  int status = FITS;
  for (like.pp = 1; like.pp <= beside && !status; like.pp++) {
    const uint32_t dp = beside / like.pp;
    if (beside % like.pp || dp % like.ep || a->global_batch % dp ||
        a->global_batch / dp % like.batch)
      continue;
    like.micro_batches = (uint32_t)(a->global_batch / dp / like.batch);
    if (like.pp > 1 && like.micro_batches < like.pp) /* as Schedule1F1B wants it */
      continue;
    n = wrappers_of(a, &like, dp, way);
    for (i = 0; i < n && !status; i++)
      for (like.checkpoint = 0; like.checkpoint < 2 && !status; like.checkpoint++)
        status = line_add(a, &like, way[i], sp);
  }
  return status;
}

/* ---- what a combination costs ---- */

/* Operations of the whole model's forward pass on a micro-batch, and of those that run again. */
static void count_flops(const vram_graph *g, const vram_range *range, uint32_t nrange,
                        double *forward, double *again) {
  const vram_node *n;
  uint32_t k = 0;
  *forward = *again = 0;
  for (n = g->first; n; n = n->next) {
    const double flops = (double)vram_node_flops(n);
    uint32_t times = vram_node_recomputed(n);
    if (n->op >= VRAM_OP_COUNT)
      continue;
    while (k < nrange && range[k].last->index < n->index)
      k++;
    times += k < nrange && n->index >= range[k].first->index;
    *forward += flops;
    *again += flops * times;
  }
}

/* The part of a pipeline's time in which a rank waits: of M microbatches and P ranks (P - 1) / (M +
   P - 1) (Narayanan et al. 2021, section 2.2: (P - 1) / M of the others' time). */
static double bubble_of(uint32_t ranks, uint32_t microbatches) {
  return (double)(ranks - 1) / (double)(microbatches + ranks - 1);
}

static void line_cost(const auto_search *a, auto_line *x, double forward, double again) {
  const double share = (double)x->micro_batches / ((double)x->tp * x->cp * x->pp);
  x->flops = 3 * forward * share;
  x->again = again * share;
  x->bubble = bubble_of(x->pp, x->micro_batches);
  x->cost = (x->flops + x->again) / (1 - x->bubble) + (double)x->sent * (double)a->j->flop_per_byte;
}

/* ---- playing ---- */

static int step_on(auto_search *a, const vram_graph *g, const vram_step_options *o, vram_report *r,
                   vram_error *err) {
  const uint64_t need = vram_step_bytes(g, o);
  if (need > a->scratch_bytes) {
    free(a->scratch);
    a->scratch = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
    a->scratch_bytes = a->scratch ? need : 0;
    if (!a->scratch)
      return cmd_no_memory();
  }
  vram_step(g, o, a->scratch, a->scratch_bytes, r, err);
  a->steps++;
  return err->code == VRAM_ERR_MEMORY ? cmd_no_memory() : FITS;
}

/* What the bounds of a step that was not replayed say: the allocator reserves at most half more
   than is allocated and 32 MiB (vram_solve decides so, too), at least what is allocated. */
static auto_verdict verdict_of(const vram_report *r, uint64_t budget) {
  const uint64_t beside = r->context_bytes.expected + r->nccl_bytes.expected;
  const uint64_t room = budget > beside ? budget - beside : 0;
  if (r->replayed)
    return r->fits ? AUTO_FITS : AUTO_NO;
  return r->peak_allocated_bytes.lower > room ? AUTO_NO
         : r->peak_allocated_bytes.upper >= room / 2 - (room < 67108864 ? room / 2 : 33554432)
             ? AUTO_OPEN
             : AUTO_FITS;
}

/* Reasons are the same up to what was found. */
static int same_reason(const char *a, const char *b) {
  const char *end = strstr(a, " (found");
  return !strncmp(a, b, end ? (size_t)(end - a) : sizeof((auto_reason *)0)->text - 1);
}

static void refuse(auto_search *a, auto_line *x, const char *why) {
  uint32_t i;
  x->verdict = AUTO_REFUSED;
  a->refused++;
  for (i = 0; i < a->nreason && !same_reason(a->reason[i].text, why); i++)
    ;
  if (i == AUTO_REASONS)
    return;
  if (i == a->nreason) {
    a->nreason++;
    snprintf(a->reason[i].text, sizeof a->reason->text, "%.*s", (int)sizeof a->reason->text - 1,
             why);
    snprintf(a->reason[i].spec, sizeof a->reason->spec, "%s", x->spec);
  }
  a->reason[i].count++;
}

/* The rank of the wrapper that has the most elements, of the place of p->rank. */
static int fullest_shard(const vram_graph *g, vram_parallel *p) {
  vram_rank_class *list;
  uint32_t n, i, k = 0;
  const int status = ranks_classes(g, p, 0, &list, &n);
  if (!status) {
    for (i = 1; i < n; i++)
      if (list[i].elements > list[k].elements)
        k = i;
    p->rank = list[k].rank;
  }
  free(list);
  return status;
}

/* A rank's step; the line has the fullest one's. */
static int rank_play(auto_search *a, auto_line *x, const vram_graph *g, const vram_step_options *o,
                     vram_parallel *p) {
  vram_report r;
  vram_error err;
  auto_verdict verdict;
  uint64_t sent = 0;
  int i, status = fullest_shard(g, p);
  if (!status)
    status = step_on(a, g, o, &r, &err);
  if (status)
    return status;
  if (err.code && err.code != VRAM_ERR_OVERFLOW) {
    refuse(a, x, err.text);
    return FITS;
  }
  if (err.code) { /* beyond all devices */
    memset(&r, 0, sizeof r);
    r.device_bytes.lower = r.device_bytes.expected = r.device_bytes.upper = UINT64_MAX;
    r.peak_allocated_bytes.lower = UINT64_MAX;
  }
  r.peak_node = NULL;
  verdict = verdict_of(&r, a->j->budget);
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++)
    sent += r.communication[i].sent;
  x->sent = sent > x->sent ? sent : x->sent;
  if (verdict < x->verdict)
    x->verdict = verdict;
  if (r.device_bytes.expected > x->report.device_bytes.expected) {
    x->report = r;
    x->rank = p->rank;
  }
  return FITS;
}

/* Stages between the first and the last are the same where they have as many units that are alike.
   Of those the first has most microbatches in flight (Schedule1F1B: as many as there are stages
   from it on), so that no other one takes more. */
static int is_behind_the_same(const auto_search *a, const auto_line *x, const auto_place *place,
                              uint32_t stage) {
  return stage > 1 && stage + 1 < x->pp && place->alike && place->nunit % x->pp == 0 &&
         !has_option(a, "schedule") && !has_option(a, "stages") && !has_option(a, "balance");
}

/* Every place and every stage of the pipeline: the line is what the fullest takes. */
static int line_play(auto_search *a, auto_line *x, int replay) {
  const auto_group *group = a->group + x->group;
  vram_step_options o = a->j->o;
  vram_parallel p;
  vram_error err;
  uint32_t i, stage;
  int status = FITS;
  x->verdict = AUTO_FITS;
  x->replayed = replay;
  x->report.device_bytes.expected = x->sent = 0;
  if (vram_parallel_parse(x->spec, &p, &err)) {
    refuse(a, x, err.text);
    return FITS;
  }
  p.step = a->j->nth_step;
  o.parallel = &p;
  o.budget_bytes = a->j->budget;
  o.replay = replay ? &a->j->pool : NULL;
  o.accumulate = x->pp > 1 ? 1 : x->micro_batches;
  o.layers_once = !replay;
  for (i = 0; i < group->count && !status && x->verdict; i++) {
    const auto_place *place = group->place + i;
    const int units = p.wrapper == VRAM_WRAPPER_FSDP2;
    if (x->checkpoint) {
      o.by_keyword = 1;
      o.checkpoint = units ? place->unit : place->layer;
      o.ncheckpoint = units ? place->nunit : place->nlayer;
      if (!o.ncheckpoint) {
        refuse(a, x, "no layers to checkpoint");
        break;
      }
    }
    for (stage = 0; stage < x->pp && !status && x->verdict; stage++) {
      if (is_behind_the_same(a, x, place, stage))
        continue;
      p.rank = a->devices / x->pp * stage + place->rank;
      status = rank_play(a, x, &place->g, &o, &p);
    }
  }
  return status;
}

/* ---- the graphs ---- */

/* The text with so many samples in a micro-batch. */
static int whole_load(auto_search *a, int64_t batch, loaded **to) {
  job at = *a->j;
  loaded *l = (loaded *)realloc(a->batch, (a->nbatch + (size_t)1) * sizeof *l);
  char *copy = (char *)malloc(a->len + 1);
  if (l)
    a->batch = l;
  if (!l || !copy) {
    free(copy);
    return cmd_no_memory();
  }
  l = *to = a->batch + a->nbatch++;
  memset(l, 0, sizeof *l);
  memcpy(copy, a->text, a->len);
  copy[a->len] = 0;
  if (a->has_dims && at.ndims < VRAM_MAX_DIMS) {
    at.dims[at.ndims].name = NULL;
    at.dims[at.ndims++].value = batch;
  }
  at.spec = NULL;
  at.o.parallel = NULL;
  at.checkpoint = NULL;
  return model_load(l, &at, copy, a->len);
}

/* Are the nodes of two units the same? */
static int units_alike(const vram_range *a, const vram_range *b) {
  const vram_node *n = a->first, *m = b->first;
  uint32_t i;
  for (; n != a->last->next && m != b->last->next; n = n->next, m = m->next) {
    if (n->op != m->op || n->nin != m->nin || n->nout != m->nout || n->nparam != m->nparam ||
        n->flags != m->flags || n->autocast != m->autocast)
      return 0;
    for (i = 0; i < n->nout; i++)
      if (n->out[i].d->numel != m->out[i].d->numel || n->out[i].dtype != m->out[i].dtype)
        return 0;
    for (i = 0; i < n->nparam; i++)
      if (n->param[i] && m->param[i] && n->param[i]->d->numel != m->param[i]->d->numel)
        return 0;
  }
  return n == a->last->next && m == b->last->next;
}

/* What is checkpointed. */
static int ranges_of(auto_place *x, vram_words units) {
  uint32_t n = 0;
  if (vram_graph_ranges(&x->g, "layers", NULL, 0, &n, NULL))
    n = 0;
  x->layer = (vram_range *)malloc((n + (size_t)1) * sizeof *x->layer);
  x->nunit = vram_graph_unit_ranges(&x->g, units, NULL, 0);
  x->unit = (vram_range *)malloc((x->nunit + (size_t)1) * sizeof *x->unit);
  if (!x->layer || !x->unit)
    return cmd_no_memory();
  if (n)
    vram_graph_ranges(&x->g, "layers", x->layer, n, &x->nlayer, NULL);
  vram_graph_unit_ranges(&x->g, units, x->unit, x->nunit);
  x->alike = !x->g.stage_first;
  for (n = 1; n + 2 < x->nunit && x->alike; n++)
    x->alike = units_alike(x->unit + n, x->unit + n + 1);
  return FITS;
}

/* The graphs of the places along tp and ep that differ, and the lines on them; *cut becomes 0 where
   it cannot be cut so. */
static int places_make(const auto_search *a, const vram_graph *whole, auto_group *group,
                       const vram_parallel *cut, vram_error *err) {
  vram_rank_class *place = NULL;
  vram_parallel p = *cut, units;
  char spec[AUTO_SPEC] = "";
  uint32_t n = 1, i;
  int status = FITS;
  memset(err, 0, sizeof *err);
  if (cut->tp > 1)
    status = ranks_classes(whole, &p, 1, &place, &n);
  group->place = status ? NULL : (auto_place *)calloc(n, sizeof *group->place);
  if (!status && !group->place)
    status = cmd_no_memory();
  spec_add(a, spec, "fsdp2=2");
  vram_parallel_parse(spec, &units, NULL);
  for (i = 0; i < n && !status && !err->code; i++) {
    auto_place *x = group->place + group->count++;
    const uint64_t bytes = vram_parallel_cut_bytes(whole);
    x->g = *whole;
    p.rank = x->rank = place ? place[i].rank : 0;
    if (cut->tp > 1 || cut->cp > 1 || cut->ep > 1) {
      x->mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
      if (!x->mem)
        status = cmd_no_memory();
      else
        vram_parallel_cut(whole, &p, &x->g, x->mem, bytes, err);
    }
    if (!status && !err->code)
      status = ranges_of(x, units.units);
  }
  free(place);
  return status;
}

/* The ways to cut with these sizes, and what is on them. */
static int group_search(auto_search *a, const loaded *l, const auto_line *like, int sp) {
  const vram_graph *const whole = &l->g;
  auto_line of = *like;
  const uint32_t from = a->count;
  double forward[2] = {0, 0}, again[2] = {0, 0};
  char spec[AUTO_SPEC] = "", part[48];
  vram_parallel p;
  vram_error err;
  auto_group *group = group_new(a);
  uint32_t i;
  int status;
  if (!group)
    return cmd_no_memory();
  of.group = a->ngroup - 1;
  status = lines_add(a, &of, sp);
  if (status || a->count == from)
    return status;
  snprintf(part, sizeof part, "cp=%" PRIu32, of.cp);
  spec_add(a, spec, part);
  snprintf(part, sizeof part, "tp=%" PRIu32 "%s", of.tp, sp ? ",sp=1" : "");
  spec_add(a, spec, part);
  if (of.ep > 1)
    sprintf(spec + strlen(spec), "+ddp=%" PRIu32 "+ep=%" PRIu32, of.ep, of.ep);
  if (vram_parallel_parse(spec, &p, &err))
    return cmd_bad(err.text, NULL, NULL);
  status = places_make(a, whole, group, &p, &err);
  if (status)
    return status;
  if (!err.code) {
    count_flops(whole, NULL, 0, forward, again);
    if (group->place->nlayer)
      count_flops(&group->place->g, group->place->layer, group->place->nlayer, forward + 1,
                  again + 1);
    again[1] = forward[1] > 0 ? again[1] * (forward[0] / forward[1]) : 0;
  }
  for (i = from; i < a->count && !status; i++) {
    auto_line *const x = a->line + i;
    if (err.code)
      refuse(a, x, err.text);
    else
      status = line_play(a, x, 0);
    if (!status && x->verdict != AUTO_REFUSED)
      line_cost(a, x, forward[0], again[x->checkpoint]);
  }
  return status;
}

/* All combinations with so many samples in a micro-batch. */
static int search_batch(auto_search *a, int64_t batch) {
  auto_line like;
  loaded *l;
  int status = whole_load(a, batch, &l), sp;
  memset(&like, 0, sizeof like);
  like.batch = batch;
  for (like.tp = 1; like.tp <= AUTO_NODE && like.tp <= a->devices && !status; like.tp++) {
    const uint32_t beside = a->devices / like.tp;
    if (a->devices % like.tp)
      continue;
    like.ep = 1;
    for (like.cp = 1; like.cp <= AUTO_NODE && like.cp <= beside && !status; like.cp++)
      for (sp = 0; sp <= (like.tp > 1 && !has_option(a, "sp") ? 1 : 0) && !status; sp++)
        if (beside % like.cp == 0)
          status = group_search(a, l, &like, sp);
    like.cp = 1;
    for (like.ep = 2; like.ep <= beside && a->has_experts && !status; like.ep++)
      if (beside % like.ep == 0)
        status = group_search(a, l, &like, 0);
  }
  return status;
}

/* ---- what is decided, and in which order ---- */

static int by_cost(const void *a, const void *b) {
  const auto_line *x = (const auto_line *)a, *y = (const auto_line *)b;
  const int fits = x->verdict != AUTO_NO;
  if (!x->verdict != !y->verdict)
    return y->verdict ? 1 : -1;
  if (fits != (y->verdict != AUTO_NO))
    return fits ? -1 : 1;
  if (!fits && x->report.device_bytes.expected != y->report.device_bytes.expected)
    return x->report.device_bytes.expected < y->report.device_bytes.expected ? -1 : 1;
  if (x->cost < y->cost || x->cost > y->cost)
    return x->cost < y->cost ? -1 : 1;
  if (x->report.peak_requested_bytes != y->report.peak_requested_bytes)
    return x->report.peak_requested_bytes < y->report.peak_requested_bytes ? -1 : 1;
  return strcmp(x->spec, y->spec);
}

uint32_t auto_shown(const auto_search *a) {
  const uint32_t any = a->open + a->fits, top = (uint32_t)a->j->top;
  const uint32_t most = !top ? a->played : any ? any : a->played < 3 ? a->played : 3;
  return any && top && top < most ? top : most;
}

static void count_verdicts(auto_search *a) {
  uint32_t i;
  if (a->count)
    qsort(a->line, a->count, sizeof *a->line, by_cost);
  a->no = a->open = a->fits = 0;
  for (i = 0; i < a->count; i++) {
    a->no += a->line[i].verdict == AUTO_NO;
    a->open += a->line[i].verdict == AUTO_OPEN;
    a->fits += a->line[i].verdict == AUTO_FITS;
  }
  a->played = a->no + a->open + a->fits;
}

/* Whoever is shown has been replayed: the cheapest, until so many fit, or the nearest. */
static int replay_shown(auto_search *a) {
  uint32_t i;
  int status = FITS;
  count_verdicts(a);
  for (i = 0; i < auto_shown(a) && !status;) {
    auto_line *const x = a->line + i;
    const int could = x->verdict != AUTO_NO;
    if (!x->replayed && (could || !(a->open + a->fits)))
      status = line_play(a, x, 1);
    if (could && x->verdict == AUTO_NO) {
      count_verdicts(a);
      i = (a->open + a->fits) ? i : 0;
    } else
      i++;
  }
  count_verdicts(a);
  return status;
}

/* No other combination takes as little memory, sends as little and computes as little again. */
static void mark_pareto(auto_search *a) {
  uint32_t i, k;
  for (i = 0; i < a->played; i++) {
    auto_line *const x = a->line + i;
    x->pareto = 1;
    for (k = 0; k < a->played && x->pareto; k++) {
      const auto_line *y = a->line + k;
      const uint64_t mine = x->report.peak_requested_bytes, its = y->report.peak_requested_bytes;
      x->pareto = its > mine || y->sent > x->sent || y->again > x->again ||
                  (its == mine && y->sent == x->sent && y->again >= x->again);
    }
  }
}

/* The model's own batch, or --batch: the samples of each device, where no global batch is given. */
static int begin(auto_search *a) {
  job *j = a->j;
  loaded *l;
  vram_parallel p;
  vram_error err;
  void *mem;
  uint64_t bytes;
  uint32_t i, n = 0, ep = 2;
  int status = whole_load(a, 0, &l);
  a->devices = j->devices;
  if (status)
    return status;
  a->has_dims = l->g.ndim != 0;
  a->global_batch = (a->has_dims ? l->g.dim[0].value : 1) * j->devices;
  if (j->global_batch)
    a->global_batch = j->global_batch;
  while (ep < a->devices && a->devices % ep)
    ep++;
  bytes = vram_parallel_cut_bytes(&l->g);
  mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  if (!mem)
    return cmd_no_memory();
  vram_parallel_parse("ddp=2+ep=2", &p, NULL);
  p.dp = p.ep = ep;
  {
    vram_graph cut;
    memset(&err, 0, sizeof err);
    a->has_experts = !vram_parallel_cut(&l->g, &p, &cut, mem, bytes, &err) || err.line;
  }
  free(mem);
  for (i = 0; i < j->ndims; i++) /* it is what changes */
    if (j->dims[i].name)
      j->dims[n++] = j->dims[i];
  j->ndims = n;
  return status;
}

/* All combinations on the device that j has. */
static int search(auto_search *a) {
  int64_t batch;
  uint32_t i, from, open;
  int status = begin(a);
  for (batch = 1; batch <= a->global_batch && !status; batch++) {
    if (a->global_batch % batch || (!a->has_dims && batch > 1))
      continue;
    from = a->count;
    status = search_batch(a, batch);
    for (open = 0, i = from; i < a->count; i++)
      open |= a->line[i].verdict > AUTO_NO;
    if (!open && batch > 1) /* larger ones take more */
      break;
  }
  return status ? status : replay_shown(a);
}

/* One device after the other. */
int auto_command(job *j, const char *text, size_t len) {
  const char *gpu = j->gpus;
  vram_dim dims[VRAM_MAX_DIMS];
  const uint32_t ndims = j->ndims;
  int status = FITS, fits = 0, first = 1;
  memcpy(dims, j->dims, sizeof dims);
  j->flop_per_byte = j->flop_per_byte ? j->flop_per_byte : 2000;
  if (gpu && j->json)
    printf("[");
  do {
    auto_search a;
    memset(&a, 0, sizeof a);
    a.j = j;
    a.text = text;
    a.len = len;
    memcpy(j->dims, dims, sizeof dims);
    j->ndims = ndims;
    if (gpu)
      gpu = job_next_gpu(j, gpu);
    cmd_progress("vram fit: playing combinations", 0);
    status = search(&a);
    cmd_progress_end();
    if (!status) {
      mark_pareto(&a);
      if (!first)
        printf(j->json ? ",\n" : j->csv ? "" : "\n");
      if (j->json)
        auto_json(&a);
      else if (j->csv)
        auto_csv(&a, first);
      else
        auto_print(&a);
      fits |= a.fits != 0;
    }
    first = 0;
    search_end(&a);
  } while (gpu && *gpu && !status);
  if (j->gpus && j->json)
    printf("]");
  if (j->json)
    printf("\n");
  return status ? status : fits ? FITS : TOO_LARGE;
}
