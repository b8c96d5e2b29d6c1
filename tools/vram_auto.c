/* vram fit --parallel auto: every way to cut and wrap a model for so many devices, a step of its
   fullest rank played for each that may fit. With --top a combination ends at the first rank that
   does not fit, and what takes more than one that does not fit is not played. */
#include "vram_auto.h"

enum {
  AUTO_WRAPPERS = 64, /* ways to wrap the ranks that are left beside pp, cp and tp */
  AUTO_WAY = 64,
  AUTO_NODE = 8 /* ranks of tensor and of context parallelism at most: those of a node */
};

#define AUTO_BATCH (INT64_C(1) << 40) /* of all devices, at most */

/* ---- lists that grow ---- */

static void *list_grow(void *list, uint32_t count, uint32_t *room, size_t each) {
  if (count < *room)
    return list;
  list = realloc(list, (count + count / 2 + (size_t)64) * each);
  if (list)
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

static void places_end(auto_places *x) {
  uint32_t i;
  for (i = 0; i < x->count; i++) {
    free(x->at[i].mem);
    free(x->at[i].layer);
    free(x->at[i].unit);
  }
  free(x->at);
}

static void group_end(auto_group *group) {
  places_end(&group->plain);
  places_end(&group->sharded);
}

static void search_end(auto_search *a) {
  uint32_t i;
  for (i = 0; i < a->ngroup; i++)
    group_end(a->group + i);
  for (i = 0; i < a->nbatch; i++)
    model_unload(a->batch + i);
  for (i = 0; i < THREADS_MOST; i++)
    free(a->scratch[i].mem);
  free(a->batch);
  free(a->group);
  free(a->line);
  free(a->reason);
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

static int too_long(const auto_search *a) {
  return cmd_bad("options of --parallel auto are too long:", a->j->spec, NULL);
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
  x->family = !*wrapper                                                  ? AUTO_ALONE
              : !strncmp(wrapper, "ddp", 3) || !strncmp(wrapper, "z", 1) ? AUTO_DDP
              : strstr(wrapper, ",reshard")                              ? AUTO_STAYS
                                                                         : AUTO_GATHERED;
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
  return good ? FITS : too_long(a);
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
    int64_t micro_batches;
    if (beside % like.pp || dp % like.ep || a->global_batch % dp ||
        a->global_batch / dp % like.batch)
      continue;
    micro_batches = a->global_batch / dp / like.batch;
    like.micro_batches =
        micro_batches > AUTO_MICRO_BATCHES ? AUTO_MICRO_BATCHES + 1u : (uint32_t)micro_batches;
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

/* Operations of a forward pass on a micro-batch; *part: how much of them runs again. */
static double count_flops(const vram_graph *g, const vram_range *range, uint32_t nrange,
                          double *part) {
  const vram_node *n;
  double forward = 0, again = 0;
  uint32_t k = 0;
  for (n = g->first; n; n = n->next) {
    const double flops = (double)vram_node_flops(n);
    uint32_t times = vram_node_recomputed(n);
    if (n->op >= VRAM_OP_COUNT)
      continue;
    while (k < nrange && range[k].last->index < n->index)
      k++;
    times += k < nrange && n->index >= range[k].first->index;
    forward += flops;
    again += flops * times;
  }
  *part = forward > 0 ? again / forward : 0;
  return forward;
}

/* The part of a pipeline's time in which a rank waits: of M microbatches and P ranks (P - 1) / (M +
   P - 1) (Narayanan et al. 2021, section 2.2: (P - 1) / M of the others' time). */
static double bubble_of(uint32_t ranks, uint32_t microbatches) {
  return (double)(ranks - 1) / (double)(microbatches + ranks - 1);
}

static void line_price(const auto_search *a, auto_line *x) {
  x->cost = (x->flops + x->again) / (1 - x->bubble) + (double)x->sent * (double)a->j->flop_per_byte;
}

static void line_cost(const auto_search *a, auto_line *x, double forward) {
  const double share = (double)x->micro_batches / ((double)x->tp * x->cp * x->pp);
  x->flops = 3 * forward * share;
  x->again = forward * x->part_again * share;
  x->bubble = bubble_of(x->pp, x->micro_batches);
  line_price(a, x);
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

/* Which unit a node is in, or behind: of how many the first node is not behind it. */
static uint32_t unit_of(const auto_place *x, uint32_t node) {
  uint32_t low = 0, high = x->nunit;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (x->unit[middle].first->index <= node)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* What is made in front of each unit and used in it or behind. */
static void crossing_of(const auto_place *x, const uint32_t *last, uint64_t *bytes) {
  const vram_node *n;
  uint32_t i, k;
  for (n = x->g.first; n; n = n->next)
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nout; i++) {
      const uint32_t end = unit_of(x, last[n->out[i].index]);
      uint64_t each = 0;
      k = unit_of(x, n->index);
      if (k < end)
        vram_dtype_bytes(n->out[i].dtype, n->out[i].d->numel, &each);
      for (; k < end; k++)
        bytes[k] += each;
    }
}

/* Are the units between the first and the last alike, with nothing between them, and does as much
   go from one to the next everywhere? */
static int are_alike(auto_place *x) {
  uint64_t *crossing = (uint64_t *)calloc(x->nunit + (size_t)1, sizeof *crossing);
  uint32_t *last = (uint32_t *)calloc(x->g.nvalue + (size_t)1, sizeof *last), i;
  const vram_node *n;
  x->alike = crossing && last && !x->g.stage_first;
  for (n = x->alike ? x->g.first : NULL; n; n = n->next)
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++)
      last[n->in[i]->index] = n->index;
  if (x->alike)
    crossing_of(x, last, crossing);
  for (i = 1; i + 1 < x->nunit && x->alike; i++) {
    n = x->unit[i].last->next;
    while (n->op >= VRAM_OP_COUNT)
      n = n->next;
    x->alike = n == x->unit[i + 1].first && crossing[i] == crossing[i + 1] &&
               (i + 2 == x->nunit || units_alike(x->unit + i, x->unit + i + 1));
  }
  free(last);
  free(crossing);
  return crossing && last ? FITS : cmd_no_memory();
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
  count_flops(&x->g, NULL, 0, &x->own_again);
  count_flops(&x->g, x->layer, x->nlayer, &x->layers_again);
  count_flops(&x->g, x->unit, x->nunit, &x->units_again);
  return are_alike(x);
}

/* The graphs of the places along tp that differ; to->err: it cannot be cut so. */
static int places_make(const auto_search *a, const vram_graph *whole, const vram_parallel *cut,
                       auto_places *to) {
  vram_rank_class *place = NULL;
  vram_parallel p = *cut, units;
  char spec[AUTO_SPEC] = "";
  uint32_t n = 1, i;
  int status = spec_add(a, spec, "fsdp2=2") ? FITS : too_long(a);
  if (!status)
    vram_parallel_parse(spec, &units, NULL);
  if (!status && cut->tp > 1)
    status = ranks_classes(whole, &p, 1, &place, &n);
  to->at = status ? NULL : (auto_place *)calloc(n, sizeof *to->at);
  if (!status && !to->at)
    status = cmd_no_memory();
  for (i = 0; i < n && !status && !to->err.code; i++) {
    auto_place *x = to->at + to->count++;
    const uint64_t bytes = vram_parallel_cut_bytes(whole);
    x->g = *whole;
    p.rank = x->rank = place ? place[i].rank : 0;
    if (cut->tp > 1 || cut->cp > 1 || cut->ep > 1) {
      x->mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
      if (!x->mem)
        status = cmd_no_memory();
      else
        vram_parallel_cut(whole, &p, &x->g, x->mem, bytes, &to->err);
    }
    if (!status && !to->err.code)
      status = ranges_of(x, units.units);
  }
  free(place);
  return status;
}

/* The graphs that the wrapper of p finds: what is cut has other modules where fully_shard is. */
static int places_of(auto_search *a, const auto_line *x, const vram_parallel *p,
                     const auto_places **to) {
  auto_group *group = a->group + x->group;
  vram_parallel cut = group->cut;
  *to = &group->plain;
  if (p->wrapper != VRAM_WRAPPER_FSDP2 || (cut.tp == 1 && cut.cp == 1 && cut.ep == 1))
    return FITS;
  *to = &group->sharded;
  if (group->sharded.at)
    return FITS;
  cut.wrapper = p->wrapper;
  return places_make(a, &a->batch[group->batch].g, &cut, &group->sharded);
}

/* ---- playing ---- */

/* vram_step_bytes is an upper bound that takes its time: what is there mostly does. Where scratch
   has to grow, what a stage has left there is gone. */
static void step_on(auto_search *a, const vram_graph *g, vram_step_options *o, vram_report *r,
                    vram_error *err) {
  auto_scratch *const to = a->scratch;
  uint64_t need;
  vram_step(g, o, to->mem, to->bytes, r, err);
  if (err->code != VRAM_ERR_MEMORY)
    return;
  need = vram_step_bytes(g, o);
  if (need > to->bytes) {
    o->stage_known = 0;
    free(to->mem);
    to->mem = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
    to->bytes = to->mem ? need : 0;
    vram_step(g, o, to->mem, to->bytes, r, err);
  }
  if (err->code == VRAM_ERR_MEMORY)
    snprintf(err->text, sizeof err->text, "to play it takes more memory than this machine gives");
}

static uint64_t room_of(const vram_report *r, uint64_t budget) {
  const uint64_t beside = r->context_bytes.expected + r->nccl_bytes.expected;
  return budget > beside ? budget - beside : 0;
}

/* What the bounds of a step that was not replayed say. It needs at least what is allocated. Where
   the device has twice the upper bound and 64 MiB, it is taken to fit (vram_solve decides so, too):
   a rule of thumb, not a bound, as what the allocator holds beyond that is mostly cache, which it
   gives back before it runs out of memory. */
static auto_verdict verdict_of(const vram_report *r, uint64_t budget) {
  const uint64_t room = room_of(r, budget);
  if (r->replayed)
    return r->fits ? AUTO_FITS : AUTO_NO;
  return r->peak_allocated_bytes.lower > room ? AUTO_NO
         : r->peak_allocated_bytes.upper >= room / 2 - (room < 67108864 ? room / 2 : 33554432)
             ? AUTO_OPEN
             : AUTO_FITS;
}

/* Behind numbers and what is in quotes. */
static const char *reason_skip(const char *at) {
  while ((*at >= '0' && *at <= '9') || (*at == '\'' && strchr(at + 1, '\'')))
    at = *at == '\'' ? strchr(at + 1, '\'') + 1 : at + 1;
  return at;
}

/* Reasons are the same up to what was found, with other numbers and names. a: as long as one is
   kept. */
static int same_reason(const char *a, const char *b) {
  const char *const end = a + sizeof((auto_reason *)0)->text - 1, *const from = a;
  for (a = reason_skip(a), b = reason_skip(b); *a == *b;
       a = reason_skip(a + 1), b = reason_skip(b + 1))
    if (!*a || !strncmp(a, " (found", 7))
      return 1;
  return !*a && a - from == end - from;
}

static void reason_add(auto_search *a, const char *why, const char *spec, uint32_t count) {
  auto_reason *list;
  uint32_t i;
  for (i = 0; i < a->nreason && !same_reason(a->reason[i].text, why); i++)
    ;
  if (i == a->nreason) {
    list = (auto_reason *)list_grow(a->reason, i, &a->reason_room, sizeof *list);
    a->lost |= !list;
    if (!list)
      return;
    a->reason = list;
    a->nreason++;
    snprintf(list[i].text, sizeof list->text, "%.*s", (int)sizeof list->text - 1, why);
    snprintf(list[i].spec, sizeof list->spec, "%s", spec);
    list[i].count = 0;
  }
  a->reason[i].count += count;
}

static void refuse(auto_search *a, auto_line *x, const char *why) {
  x->verdict = AUTO_REFUSED;
  a->refused++;
  reason_add(a, why, x->spec, 1);
}

/* Those that came first are told. */
static void reasons_end(auto_search *a) {
  for (; a->nreason > AUTO_REASONS + 1; a->nreason--)
    a->reason[AUTO_REASONS].count += a->reason[a->nreason - 1].count;
  if (a->nreason > AUTO_REASONS)
    snprintf(a->reason[AUTO_REASONS].text, sizeof a->reason->text, "other reasons");
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

/* A line that is being played. */
typedef struct auto_play {
  auto_line *x;
  vram_parallel p;
  vram_step_options o;
  const auto_places *places;
} auto_play;

/* A rank's step; the line has the fullest one's. *r: what it was, where it is not refused. *known:
   the scratch has its stage. */
static int rank_play(auto_search *a, auto_play *y, const auto_place *place, uint32_t stage,
                     vram_report *r, int *known) {
  auto_line *const x = y->x;
  const vram_graph *const g = &place->g;
  vram_step_options quick;
  vram_error err;
  auto_verdict verdict;
  uint64_t sent = 0;
  int i, status = FITS;
  y->p.rank = a->devices / x->pp * stage + place->rank;
  quick = y->o;
  quick.layers_once = 0;
  vram_step(g, &quick, NULL, 0, r, &err); /* what is refused at once takes no memory */
  if (err.code == VRAM_ERR_MEMORY) {
    status = fullest_shard(g, &y->p);
    if (!status)
      step_on(a, g, &y->o, r, &err);
  }
  *known = !err.code;
  if (status)
    return status;
  if (err.code && err.code != VRAM_ERR_OVERFLOW) {
    refuse(a, x, err.text);
    return FITS;
  }
  if (err.code) { /* beyond all devices */
    memset(r, 0, sizeof *r);
    r->device_bytes.lower = r->device_bytes.expected = r->device_bytes.upper = UINT64_MAX;
    r->peak_allocated_bytes.lower = UINT64_MAX;
  }
  r->peak_node = NULL;
  verdict = verdict_of(r, a->j->budget);
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++)
    sent += r->communication[i].sent;
  x->sent = sent > x->sent ? sent : x->sent;
  if (verdict < x->verdict)
    x->verdict = verdict;
  if (r->device_bytes.expected > x->report.device_bytes.expected) {
    x->report = *r;
    x->rank = y->p.rank;
  }
  return FITS;
}

/* How many of all units a stage has: they are cut at Python's round(units * stage / stages). */
static uint32_t stage_units(uint32_t units, uint32_t stage, uint32_t stages) {
  uint32_t edge[2], i;
  for (i = 0; i < 2; i++) {
    const uint64_t n = (uint64_t)units * (stage + i), down = n / stages, rest = n % stages * 2;
    edge[i] = (uint32_t)(down + (rest > stages || (rest == stages && down % 2)));
  }
  return edge[1] - edge[0];
}

/* Stages between the first and the last are the same where they have as many units, which are
   alike. Of those the first has most microbatches in flight (Schedule1F1B: as many as there are
   stages from it on), so that no other one takes more. */
static int is_behind_the_same(const auto_search *a, const auto_line *x, const auto_place *place,
                              uint32_t stage) {
  const uint32_t units = stage_units(place->nunit, stage, x->pp);
  uint32_t before;
  if (!stage || stage + 1 >= x->pp || !place->alike || has_option(a, "schedule") ||
      has_option(a, "stages") || has_option(a, "balance"))
    return 0;
  for (before = 1; before < stage; before++)
    if (stage_units(place->nunit, before, x->pp) == units)
      return 1;
  return 0;
}

static int play_begin(auto_search *a, auto_line *x, int replay, auto_play *y) {
  vram_error err;
  int status;
  memset(y, 0, sizeof *y);
  y->x = x;
  x->verdict = AUTO_FITS;
  x->replayed = replay;
  x->played = AUTO_ALL;
  x->report.device_bytes.expected = x->sent = 0;
  if (x->micro_batches > AUTO_MICRO_BATCHES) {
    refuse(a, x, "more than 1000000 micro-batches");
    return FITS;
  }
  if (vram_parallel_parse(x->spec, &y->p, &err)) {
    refuse(a, x, err.text);
    return FITS;
  }
  status = places_of(a, x, &y->p, &y->places);
  if (status)
    return status;
  if (y->places->err.code) {
    refuse(a, x, y->places->err.text);
    return FITS;
  }
  x->part_again = !x->checkpoint                       ? y->places->at->own_again
                  : y->p.wrapper == VRAM_WRAPPER_FSDP2 ? y->places->at->units_again
                                                       : y->places->at->layers_again;
  y->p.step = a->j->nth_step;
  y->o = a->j->o;
  y->o.budget_bytes = a->j->budget;
  y->o.replay = replay ? &a->j->pool : NULL;
  y->o.accumulate = x->pp > 1 ? 1 : x->micro_batches;
  y->o.layers_once = !replay;
  return FITS;
}

/* What is checkpointed at that place; 0: nothing, and it was refused. */
static int play_ranges(auto_search *a, auto_play *y, const auto_place *place) {
  const int units = y->p.wrapper == VRAM_WRAPPER_FSDP2;
  y->o.parallel = &y->p;
  if (!y->x->checkpoint)
    return 1;
  y->o.by_keyword = 1;
  y->o.checkpoint = units ? place->unit : place->layer;
  y->o.ncheckpoint = units ? place->nunit : place->nlayer;
  if (!y->o.ncheckpoint)
    refuse(a, y->x, "no layers to checkpoint");
  return y->o.ncheckpoint != 0;
}

/* Rows of the parameters, which are all that is sharded, are divided by as many ranks. */
static int divides(const vram_graph *g, uint32_t ranks) {
  const vram_param *p;
  for (p = g->param_first; p && (p->kind == 2 || (p->d->ndim && p->d->v[0] % ranks == 0));
       p = p->next)
    ;
  return !p;
}

/* A rank takes more than there is where it does so with more ranks to share parameters with; then
   it is not played. least: what it allocates there. Where nothing is padded each allocation of
   fully_shard is of a shard, which is smaller among more ranks, or of all ranks' shards together;
   with copies gradients are reduced once more. */
static int takes_more(auto_search *a, auto_play *y, uint64_t least, vram_bounds context) {
  auto_line *const x = y->x;
  vram_report r;
  uint64_t device;
  r.context_bytes = context;
  r.nccl_bytes = vram_nccl_bytes(&y->o);
  if (!least || least <= room_of(&r, a->j->budget))
    return 0;
  device = least > UINT64_MAX / 2 ? least : least + context.expected + r.nccl_bytes.expected;
  x->verdict = AUTO_NO;
  x->played = x->report.device_bytes.expected ? AUTO_PARTLY : AUTO_NONE;
  if (device > x->report.device_bytes.expected)
    x->report.device_bytes.expected = device;
  return 1;
}

/* The same rank of lines of a family, those with most ranks to share with first. Where one does not
   fit no other rank of the line is played, unless all figures are shown. */
static int family_rank(auto_search *a, auto_play *y, uint32_t n, uint32_t i, uint32_t stage) {
  vram_report r;
  vram_bounds context = {0, 0, 0};
  uint64_t least = 0; /* of the last that does not fit */
  uint32_t k;
  int known = 0, status = FITS;
  for (k = 0; k < n && !status; k++) {
    auto_line *const x = y[k].x;
    const auto_place *place;
    if (!x->verdict || x->played != AUTO_ALL || i >= y[k].places->count)
      continue;
    place = y[k].places->at + i;
    if (is_behind_the_same(a, x, place, stage) || !play_ranges(a, y + k, place) ||
        takes_more(a, y + k, least, context))
      continue;
    y[k].o.stage_known = known && x->pp > 1;
    status = rank_play(a, y + k, place, stage, &r, &known);
    if (status || x->verdict != AUTO_NO || !a->j->top || (y[k].o.replay && !(a->open + a->fits)))
      continue;
    x->played = AUTO_PARTLY;
    x->replayed = 0;
    context = r.context_bytes;
    if (x->family >= AUTO_GATHERED && !y[k].o.replay && !has_option(a, "reshard") &&
        divides(&place->g, y[k].p.dp * x->cp))
      least = r.peak_allocated_bytes.lower;
  }
  return status;
}

/* Every place and every stage of the pipeline: lines are what the fullest takes. */
static int family_play(auto_search *a, auto_play *y, uint32_t n) {
  uint32_t i, k, stage, places = 0;
  int status = FITS;
  for (k = 0; k < n; k++)
    if (y[k].x->verdict && y[k].places->count > places)
      places = y[k].places->count;
  for (i = 0; i < places; i++)
    for (stage = 0; stage < y->x->pp && !status; stage++)
      status = family_rank(a, y, n, i, stage);
  return status;
}

static int line_play(auto_search *a, auto_line *x, int replay) {
  auto_play y;
  const int status = play_begin(a, x, replay, &y);
  return status || !x->verdict ? status : family_play(a, &y, 1);
}

/* How the lines of a group cut the model. */
static int group_cut(const auto_search *a, const auto_line *of, int sp, vram_parallel *cut) {
  char spec[AUTO_SPEC] = "", part[48];
  vram_error err;
  int good;
  snprintf(part, sizeof part, "cp=%" PRIu32, of->cp);
  good = spec_add(a, spec, part);
  snprintf(part, sizeof part, "tp=%" PRIu32 "%s", of->tp, sp ? ",sp=1" : "");
  good &= spec_add(a, spec, part);
  if (of->ep > 1) {
    snprintf(part, sizeof part, "ddp=%" PRIu32, of->ep);
    good &= spec_add(a, spec, part);
    snprintf(part, sizeof part, "ep=%" PRIu32, of->ep);
    good &= spec_add(a, spec, part);
  }
  if (!good)
    return too_long(a);
  return vram_parallel_parse(spec, cut, &err) ? cmd_bad(err.text, NULL, NULL) : FITS;
}

/* The lines from that one on, those of a family together. */
static int group_play(auto_search *a, uint32_t from) {
  auto_play *y = (auto_play *)malloc((a->count - from) * sizeof *y);
  uint32_t i, k, n;
  int status = FITS;
  if (!y)
    return cmd_no_memory();
  for (i = from; i < a->count; i++)
    a->line[i].replayed = -1; /* it was not looked at */
  for (i = from; i < a->count && !status && !cmd_stopped(); i++) {
    const auto_line *const x = a->line + i;
    if (x->replayed >= 0)
      continue;
    for (n = 0, k = i; k < a->count && !status; k++) {
      auto_line *const z = a->line + k;
      if (z->pp != x->pp || z->checkpoint != x->checkpoint || z->family != x->family)
        continue;
      status = play_begin(a, z, 0, y + n);
      n += z->verdict != AUTO_REFUSED;
    }
    if (!status && n)
      status = family_play(a, y, n);
  }
  free(y);
  for (i = k = from; i < a->count; i++) /* stopped: what was not looked at goes */
    if (a->line[i].replayed >= 0) {
      if (k < i)
        a->line[k] = a->line[i];
      k++;
    }
  a->count = k;
  return status;
}

/* The ways to cut with these sizes, and what is on them. */
static int group_search(auto_search *a, uint32_t batch, const auto_line *like, int sp) {
  const vram_graph *const whole = &a->batch[batch].g;
  auto_line of = *like;
  const uint32_t from = a->count;
  double forward, own;
  auto_group *group = group_new(a);
  uint32_t i;
  int status;
  if (!group)
    return cmd_no_memory();
  group->batch = batch;
  of.group = a->ngroup - 1;
  status = lines_add(a, &of, sp);
  if (status || a->count == from)
    return status;
  status = group_cut(a, &of, sp, &group->cut);
  if (!status)
    status = places_make(a, whole, &group->cut, &group->plain);
  if (status)
    return status;
  forward = count_flops(whole, NULL, 0, &own);
  for (i = from; i < a->count && group->plain.err.code; i++)
    refuse(a, a->line + i, group->plain.err.text);
  status = group->plain.err.code ? FITS : group_play(a, from);
  for (i = from; i < a->count && !status; i++)
    if (a->line[i].verdict != AUTO_REFUSED)
      line_cost(a, a->line + i, forward);
  return status;
}

/* ---- on all processors ---- */

/* A group, or a line that is replayed, has a search of its own. What that finds is taken over in
   the order of the parts, so that it is what they would find one after the other. */
typedef struct auto_part {
  auto_search found;
  auto_line like; /* a group that is searched */
  int sp;
  uint32_t at;  /* the line that is replayed */
  uint32_t own; /* 1: what it found is its own */
  int status;
} auto_part;

typedef struct auto_parts {
  auto_search *a;
  auto_part *at;
  uint32_t count, room;
} auto_parts;

static auto_part *part_new(auto_parts *x) {
  auto_part *list = (auto_part *)list_grow(x->at, x->count, &x->room, sizeof *list);
  if (!list)
    return NULL;
  x->at = list;
  memset(list + x->count, 0, sizeof *list);
  list[x->count].status = OTHER; /* it was not begun */
  return list + x->count++;
}

static int group_part(auto_parts *x, const auto_line *like, int sp) {
  auto_part *part = part_new(x);
  if (!part)
    return cmd_no_memory();
  part->like = *like;
  part->sp = sp;
  return FITS;
}

/* Thread k goes to work: the part's search knows what the whole one knows. */
static auto_search *part_begin(const auto_parts *x, uint32_t k, auto_part *part) {
  auto_search *const found = &part->found;
  *found = *x->a;
  found->scratch = x->a->scratch + k;
  found->reason = NULL;
  found->nreason = found->reason_room = found->refused = 0;
  return found;
}

static int part_search(void *user, uint32_t k, uint32_t i) {
  const auto_parts *const x = (const auto_parts *)user;
  auto_part *const part = x->at + i;
  auto_search *const found = part_begin(x, k, part);
  part->own = 1;
  found->line = NULL;
  found->group = NULL;
  found->count = found->room = found->ngroup = found->group_room = 0;
  if (cmd_stopped())
    return part->status = FITS, 1;
  part->status = group_search(found, x->a->nbatch - 1, &part->like, part->sp);
  return part->status;
}

static void reasons_take(auto_search *a, const auto_search *found) {
  uint32_t i;
  a->refused += found->refused;
  a->lost |= found->lost;
  for (i = 0; i < found->nreason; i++)
    reason_add(a, found->reason[i].text, found->reason[i].spec, found->reason[i].count);
}

/* What a part has found. */
static int part_take(auto_search *a, const auto_search *found) {
  const uint32_t behind = a->ngroup;
  uint32_t i;
  for (i = 0; i < found->ngroup; i++) {
    auto_group *group = group_new(a);
    if (!group)
      return cmd_no_memory();
    *group = found->group[i];
    memset(found->group + i, 0, sizeof *group);
  }
  for (i = 0; i < found->count; i++) {
    auto_line *line = line_new(a);
    if (!line)
      return cmd_no_memory();
    *line = found->line[i];
    line->group += behind;
  }
  reasons_take(a, found);
  return FITS;
}

static void part_end(auto_part *part) {
  auto_search *const found = &part->found;
  uint32_t i;
  free(found->reason);
  found->reason = NULL;
  for (i = 0; i < part->own * found->ngroup; i++)
    group_end(found->group + i);
  if (part->own) {
    free(found->group);
    free(found->line);
  }
  part->own = 0;
}

/* Of several at a time none says what is wrong: the first that fails is tried once more alone, with
   those behind it. */
static int parts_run(auto_parts *x, int (*one)(void *user, uint32_t k, uint32_t i)) {
  const int several = threads_for(x->count) > 1, before = cmd_hush(several);
  uint32_t i;
  int status = FITS;
  threads_run(x->count, one, x);
  cmd_hush(before);
  for (i = 0; i < x->count && !status; i++) {
    status = x->at[i].status;
    if (status && (several || cmd_stopped())) {
      part_end(x->at + i);
      one(x, 0, i);
      status = x->at[i].status;
    }
  }
  return status;
}

static int groups_run(auto_parts *x) {
  uint32_t i;
  int status = parts_run(x, part_search);
  for (i = 0; i < x->count; i++) {
    if (!status)
      status = part_take(x->a, &x->at[i].found);
    part_end(x->at + i);
  }
  return status;
}

/* All combinations with so many samples in a micro-batch. */
static int search_batch(auto_search *a, int64_t batch) {
  auto_parts x;
  auto_line like;
  loaded *l;
  int status = whole_load(a, batch, &l), sp;
  memset(&x, 0, sizeof x);
  x.a = a;
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
          status = group_part(&x, &like, sp);
    like.cp = 1;
    for (like.ep = 2; like.ep <= beside && a->has_experts && !status; like.ep++)
      if (beside % like.ep == 0)
        status = group_part(&x, &like, 0);
  }
  if (!status)
    status = groups_run(&x);
  free(x.at);
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
  if (strcmp(x->spec, y->spec))
    return strcmp(x->spec, y->spec);
  return x->batch != y->batch ? (x->batch < y->batch ? -1 : 1) : x->checkpoint - y->checkpoint;
}

uint32_t auto_shown(const auto_search *a) {
  const uint32_t any = a->open + a->fits, top = (uint32_t)a->j->top;
  const uint32_t most = !top ? a->decided : any ? any : a->decided < 3 ? a->decided : 3;
  return any && top && top < most ? top : most;
}

static void count_verdicts(auto_search *a) {
  uint32_t i;
  if (a->count)
    qsort(a->line, a->count, sizeof *a->line, by_cost);
  a->no = a->open = a->fits = a->unplayed = 0;
  for (i = 0; i < a->count; i++) {
    a->no += a->line[i].verdict == AUTO_NO;
    a->open += a->line[i].verdict == AUTO_OPEN;
    a->fits += a->line[i].verdict == AUTO_FITS;
    a->unplayed += a->line[i].played == AUTO_NONE;
  }
  a->decided = a->no + a->open + a->fits;
}

/* Lines whose stages are the same, or one line: they are replayed together. */
static int is_played_with(const auto_line *x, const auto_line *y) {
  return x == y || (x->pp > 1 && x->pp == y->pp && x->group == y->group &&
                    x->checkpoint == y->checkpoint && x->family == y->family);
}

static int family_replay(auto_search *a, uint32_t at) {
  const uint32_t shown = auto_shown(a);
  auto_play *y = (auto_play *)malloc((shown - at) * sizeof *y);
  uint32_t i, n = 0;
  int status = FITS;
  if (!y)
    return cmd_no_memory();
  for (i = at; i < shown && !status; i++) {
    auto_line *const z = a->line + i;
    if (!is_played_with(a->line + at, z) || z->replayed || z->verdict == AUTO_NO)
      continue;
    status = play_begin(a, z, 1, y + n);
    n += status || z->verdict != AUTO_REFUSED;
  }
  if (!status && n)
    status = family_play(a, y, n);
  for (i = 0; i < n && status; i++) /* they are tried once more */
    y[i].x->replayed = 0;
  free(y);
  return status;
}

static int part_replay(void *user, uint32_t k, uint32_t i) {
  const auto_parts *const x = (const auto_parts *)user;
  auto_part *const part = x->at + i;
  auto_search *const found = part_begin(x, k, part);
  if (cmd_stopped())
    return part->status = FITS, 1;
  part->status = family_replay(found, part->at);
  return part->status;
}

/* Is line i, which is to be replayed, one that a part has? */
static int has_part(const auto_parts *x, uint32_t i) {
  uint32_t k = 0;
  while (k < x->count && !is_played_with(x->a->line + x->at[k].at, x->a->line + i))
    k++;
  return k < x->count;
}

/* Lines that would be shown and could fit, all at a time; where some do not, others take their
   places. Each would be replayed anyway if they came one after the other. */
static int replay_cheapest(auto_search *a) {
  auto_parts x;
  uint32_t i;
  int status = FITS;
  memset(&x, 0, sizeof x);
  x.a = a;
  do {
    count_verdicts(a);
    x.count = 0;
    for (i = 0; i < auto_shown(a) && !status; i++)
      if (!a->line[i].replayed && a->line[i].verdict != AUTO_NO && !has_part(&x, i)) {
        auto_part *part = part_new(&x);
        if (part)
          part->at = i;
        else
          status = cmd_no_memory();
      }
    if (!status)
      status = parts_run(&x, part_replay);
    for (i = 0; i < x.count; i++) {
      reasons_take(a, &x.at[i].found);
      part_end(x.at + i);
    }
    for (i = 0; i < a->count && x.count; i++)
      line_price(a, a->line + i);
  } while (x.count && !status && !cmd_stopped());
  free(x.at);
  return status;
}

/* Whoever is shown has been replayed: the cheapest, until so many fit, or the nearest. */
static int replay_shown(auto_search *a) {
  uint32_t i;
  int status = replay_cheapest(a);
  count_verdicts(a);
  for (i = 0; i < auto_shown(a) && !status && !cmd_stopped();) {
    auto_line *const x = a->line + i;
    const int could = x->verdict != AUTO_NO, partly = x->played != AUTO_ALL;
    if (!x->replayed && (could || !(a->open + a->fits))) {
      status = line_play(a, x, 1);
      line_price(a, x);
    }
    if (x->verdict < (could ? AUTO_OPEN : AUTO_NO) || partly) { /* it belongs somewhere else */
      count_verdicts(a);
      i = (a->open + a->fits) ? i : 0;
    } else
      i++;
  }
  count_verdicts(a);
  return status;
}

/* It fits, and no other that does takes as little memory, sends as little and computes as little
   again. */
static void mark_pareto(auto_search *a) {
  uint32_t i, k;
  for (i = 0; i < a->decided; i++) {
    auto_line *const x = a->line + i;
    x->pareto = x->verdict != AUTO_NO;
    for (k = 0; k < a->open + a->fits && x->pareto; k++) { /* those come first */
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
  a->global_batch = a->has_dims ? l->g.dim[0].value : 1;
  if (!j->global_batch && (a->global_batch < 1 || a->global_batch > AUTO_BATCH / j->devices))
    return cmd_bad("a batch that is empty or too large, of", j->model, "--global-batch N");
  a->global_batch = j->global_batch ? j->global_batch : a->global_batch * j->devices;
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

/* The next larger divisor of n; 0: d is n. Those above the root are looked for by what they leave.
 */
static int64_t next_divisor(int64_t n, int64_t d) {
  int64_t k = d + 1;
  if (d >= n)
    return 0;
  for (; k <= n / k; k++)
    if (n % k == 0)
      return k;
  for (k = n / k; n % k; k--)
    ;
  return n / k;
}

/* All combinations on the device that j has. */
static int search(auto_search *a) {
  int64_t batch;
  uint32_t i, from, no, open;
  int status = begin(a);
  for (batch = 1; batch && !status && !cmd_stopped();
       batch = next_divisor(a->global_batch, batch)) {
    from = a->count;
    status = search_batch(a, batch);
    for (no = open = 0, i = from; i < a->count; i++) {
      no |= a->line[i].verdict == AUTO_NO;
      open |= a->line[i].verdict > AUTO_NO;
    }
    if (!a->has_dims || (no && !open && batch > 1)) /* larger ones take more */
      break;
  }
  if (!status && !a->count && cmd_stopped()) {
    cmd_say("vram: stopped before anything was found");
    return OTHER;
  }
  if (!status && !a->count)
    status = cmd_bad("no way to divide the batch of all devices among them", NULL,
                     "another one of --devices and --global-batch");
  if (!status)
    status = replay_shown(a);
  return !status && a->lost ? cmd_no_memory() : status;
}

/* One device after the other. */
int auto_command(job *j, const char *text, size_t len) {
  const char *gpu = j->gpus;
  vram_dim dims[VRAM_MAX_DIMS];
  const uint32_t ndims = j->ndims;
  int status = FITS, fits = 0, first = 1;
  memcpy(dims, j->dims, sizeof dims);
  j->flop_per_byte = j->flop_per_byte ? j->flop_per_byte : 2000;
  do {
    auto_search a;
    auto_scratch scratch[THREADS_MOST];
    memset(&a, 0, sizeof a);
    memset(scratch, 0, sizeof scratch);
    a.scratch = scratch;
    a.j = j;
    a.text = text;
    a.len = len;
    memcpy(j->dims, dims, sizeof dims);
    j->ndims = ndims;
    if (gpu)
      gpu = job_next_gpu(j, gpu);
    cmd_progress("vram fit: playing combinations", 0);
    cmd_stoppable();
    status = search(&a);
    cmd_progress_end();
    if (!status) {
      mark_pareto(&a);
      reasons_end(&a);
      if (!first)
        printf(j->json ? ",\n" : j->csv ? "" : "\n");
      else if (j->gpus && j->json)
        printf("[");
      if (j->json)
        auto_json(&a);
      else if (j->csv)
        auto_csv(&a, first);
      else
        auto_print(&a);
      fits |= a.fits != 0;
      first = 0;
    }
    search_end(&a);
  } while (gpu && *gpu && !status && !cmd_stopped());
  if (j->gpus && j->json && !first)
    printf("]");
  if (j->json && !first)
    printf("\n");
  return status ? status : fits ? FITS : cmd_stopped() ? OTHER : TOO_LARGE;
}
