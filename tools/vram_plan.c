/* vram plan: what to compute again so that a chain of stages, or a model, trains within a budget.
 */
#include "vram_chain.h"
#include "vram_job.h"
#include "vram_ranks.h"

cmd_text help_plan = {
    "vram plan MODEL|CHAIN.csv [--budget SIZE] [options]     what to compute again\n"
    "\n"
    "Finds the cheapest order of compute, drop and recompute that trains within the\n"
    "budget, and shows what PyTorch's checkpoint_sequential can do beside it. Without\n"
    "a budget: what each of some budgets costs.\n"
    "\n"
    "CHAIN.csv has the columns fw,bw,x,xbar,ftmp,btmp, in any order, and perhaps\n"
    "name; a row for each stage, the last is the loss: time of forward and backward\n"
    "(exact numbers, any unit), bytes of the stage's input, of all that the\n"
    "forward before it keeps for backward (that input with it), of temporaries in\n"
    "forward and backward.\n"
    "\n"
    "the plan\n"
    "  --budget SIZE         for everything: of a model also parameters, gradients\n"
    "                        and optimizer state\n"
    "  --gpu NAME            its usable memory as the budget (vram list gpus)\n"
    "  --torch               the budget is that of the device on which PyTorch runs a\n"
    "                        model: its allocator and CUDA context included\n"
    "  --planner optimal|stages|sequential|sqrt|revolve|plain\n"
    "                        the cheapest order (default); each stage kept or\n"
    "                        checkpointed; checkpoint_sequential; that with the\n"
    "                        square root of the stages; Revolve; nothing twice\n"
    "  --segments K          of sequential (default: the cheapest that fits)\n"
    "  --snapshots S         of revolve, with the input (default: as many as fit)\n"
    "  --slots S             steps that optimal divides the budget into\n"
    "  --offload COST/SIZE   to host memory, too, COST for SIZE bytes each way:\n"
    "                        1000/25GB is 25 GB/s where costs are milliseconds\n"
    "  --align N             every buffer a multiple of N bytes\n"
    "output\n"
    "  --table, --no-table   a line for every stage (default: no)\n"
    "  --moves               the schedule, a line for every move\n"
    "  --csv                 the moves as CSV, with offsets in the arena\n"
    "  --svg FILE            a picture: memory over the moves, and the stages\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "Of a model, --train (default: adamw), --batch and all that describes the step as\n"
    "in vram estimate -h: costs are floating-point operations; beside the runner in C\n"
    "stands what PyTorch allocates with the plan as calls of torch.utils.checkpoint,\n"
    "inside one another where they are so (tools/checkpoint_torch.py makes them).\n"
    "With --parallel the calls with which every rank fits a device of the budget:\n"
    "around whole units where a wrapper gathers these (fsdp1, fsdp2, hsdp, ds3): of\n"
    "unequal ones, not always the cheapest choice.\n"
    "\n"
    "Ctrl-C ends it with the best plan so far (a second one ends it at once).\n"
    "Exit status 3: the budget is below the smallest one, which is named.\n",
    NULL};

enum { WIDTH = 100 };
static const char planning[] = "vram plan: planning";

typedef struct plan_job {
  job j;
  const char *of_model; /* an option that means nothing for a chain */
  vram_schedule_options o;
  exact transfer; /* so much for */
  uint64_t transfer_bytes;
  int moves;
  int torch; /* the budget is PyTorch's */
  uint64_t align;
} plan_job;

typedef struct plan { /* a schedule, its memory with it */
  vram_schedule s;
  void *memory;
} plan;

/* ---- schedules ---- */

static int plan_error(const plan_job *p, const vram_error *e) {
  if (e->code == VRAM_ERR_MEMORY)
    return cmd_no_memory();
  cmd_say("%s: %s", p->j.model, e->text);
  return e->code == VRAM_ERR_CALL && cmd_stopped() ? OTHER : USAGE;
}

/* Not FITS: message printed; free(to->memory) in any case. */
static int make_plan(const plan_job *p, const vram_chain *c, const vram_schedule_options *o,
                     plan *to) {
  const uint64_t bytes = vram_schedule_bytes(c, o);
  vram_error err;
  memset(to, 0, sizeof *to);
  memset(&err, 0, sizeof err);
  to->memory = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  if (!to->memory && bytes != VRAM_OVERFLOW) {
    cmd_say("vram: out of memory (the plan needs %s)", cmd_human(bytes));
    return OTHER;
  }
  if (vram_schedule_plan(c, o, to->memory, to->memory ? bytes : 0, &to->s, &err))
    return plan_error(p, &err);
  return FITS;
}

/* What checkpoint_sequential can do: with the cheapest number of segments within the budget, and
   with the one that takes the least memory. */
typedef struct sequential {
  uint32_t fits, least; /* segments; 0: none fits */
  uint64_t fits_bytes, fits_cost, least_bytes, least_cost;
} sequential;

/* What PyTorch takes with a schedule as calls of torch.utils.checkpoint. */
typedef struct in_torch {
  int known;
  vram_report r;
} in_torch;

enum { AS_PLAIN, AS_PLANNED, AS_SEQUENTIAL, AS_LEAST, AS_COUNT };
static const char *const as_name[] = {"plain", "planned", "sequential", "sequential_least"};

typedef struct planned { /* all that is shown */
  plan_job *p;
  const plan_chain *chain;
  loaded *l; /* NULL: the chain is no model */
  plan plan, plain;
  sequential sequential;
  in_torch torch[AS_COUNT];
  char why[256]; /* PyTorch does not take it: why */
  vram_span *span;
  uint32_t nspan;
  int has_spans; /* 0: moves that are no calls of torch.utils.checkpoint */
  vram_binding binding;
  void *bound;
} planned;

/* One step of the model with the calls of a schedule. */
static int step_in_torch(planned *d, const vram_schedule *s, in_torch *to) {
  const vram_chain *c = &d->chain->c;
  vram_step_options o = d->p->j.o;
  vram_span *span = (vram_span *)malloc(((size_t)s->nmove + 1) * sizeof *span);
  vram_range *range = (vram_range *)malloc(((size_t)s->nmove + 1) * sizeof *range);
  vram_error err;
  void *scratch = NULL;
  uint64_t bytes;
  uint32_t n = 0, i;
  int status = FITS;
  if (!span || !range)
    status = cmd_no_memory();
  else if (!vram_schedule_spans(c, s->move, s->nmove, span, s->nmove, &n, &err)) {
    for (i = 0; i < n; i++) {
      range[i].first = c->stage[span[i].first].first;
      range[i].last = c->stage[span[i].last].last;
    }
    o.checkpoint = range;
    o.ncheckpoint = n;
    bytes = vram_step_bytes(&d->l->g, &o);
    scratch = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
    if (!scratch)
      status = cmd_no_memory();
    else if (!vram_step(&d->l->g, &o, scratch, bytes, &to->r, &err))
      to->known = 1;
  }
  if (!status && !to->known && !*d->why)
    snprintf(d->why, sizeof d->why, "%s", err.text);
  free(scratch);
  free(range);
  free(span);
  return status;
}

static int try_sequential(planned *d) {
  const plan_job *p = d->p;
  const vram_chain *c = &d->chain->c;
  sequential *to = &d->sequential;
  vram_schedule_options o;
  uint32_t k;
  memset(to, 0, sizeof *to);
  memset(&o, 0, sizeof o);
  o.planner = VRAM_PLANNER_SEQUENTIAL;
  for (k = 1; k < c->nstage && (k == 1 || !cmd_stopped()); k++) {
    in_torch torch;
    plan s;
    int status, fits;
    o.segments = k;
    memset(&torch, 0, sizeof torch);
    status = make_plan(p, c, &o, &s);
    if (!status && p->torch)
      status = step_in_torch(d, &s.s, &torch);
    free(s.memory);
    if (status)
      return status;
    fits = p->torch ? torch.known && torch.r.fits
                    : !p->o.budget_bytes || s.s.peak_bytes <= p->o.budget_bytes;
    if (!to->least || s.s.peak_bytes < to->least_bytes ||
        (s.s.peak_bytes == to->least_bytes && s.s.cost < to->least_cost)) {
      to->least = k;
      to->least_bytes = s.s.peak_bytes;
      to->least_cost = s.s.cost;
    }
    if (fits && (!to->fits || s.s.cost < to->fits_cost ||
                 (s.s.cost == to->fits_cost && s.s.peak_bytes < to->fits_bytes))) {
      to->fits = k;
      to->fits_bytes = s.s.peak_bytes;
      to->fits_cost = s.s.cost;
    }
  }
  return FITS;
}

static int sequential_in_torch(planned *d, uint32_t segments, in_torch *to) {
  vram_schedule_options o;
  plan s;
  int status;
  if (!segments)
    return FITS;
  memset(&o, 0, sizeof o);
  o.planner = VRAM_PLANNER_SEQUENTIAL;
  o.segments = segments;
  status = make_plan(d->p, &d->chain->c, &o, &s);
  if (!status)
    status = step_in_torch(d, &s.s, to);
  free(s.memory);
  return status;
}

static void planned_end(planned *d) {
  free(d->plan.memory);
  free(d->plain.memory);
  free(d->span);
  free(d->bound);
}

/* The first and the last of a stage's nodes that compute something. */
static void stage_nodes(const vram_stage *s, const vram_node **first, const vram_node **last) {
  const vram_node *n;
  *first = *last = NULL;
  for (n = s->first; n; n = n == s->last ? NULL : n->next)
    if (n->op < VRAM_OP_COUNT) {
      if (!*first)
        *first = n;
      *last = n;
    }
}

static const char *stage_name(const vram_chain *c, uint32_t i, char to[MAX_NODE_NAME]) {
  const vram_stage *s = &c->stage[i];
  const vram_node *first, *last;
  if (s->name)
    return s->name;
  stage_nodes(s, &first, &last);
  if (last)
    vram_node_name(last, to, MAX_NODE_NAME);
  else
    snprintf(to, MAX_NODE_NAME, "%" PRIu32, i);
  return to;
}

/* The cheapest plan with which PyTorch's step fits. */
static int plan_for_torch(planned *d) {
  vram_planned_step q;
  vram_error err;
  size_t bytes;
  if (vram_step_plan(&d->l->g, &d->p->j.o, 0, &model_allocator, &q, &err))
    return plan_error(d->p, &err);
  bytes = (q.schedule.nmove + (size_t)1) * sizeof *q.schedule.move;
  d->plan.memory = malloc(bytes);
  d->plan.s = q.schedule;
  d->plan.s.move = (vram_move *)d->plan.memory;
  d->plan.s.feasible = q.feasible;
  d->plan.s.smallest_budget_bytes = q.smallest_budget_bytes;
  if (d->plan.memory)
    memcpy(d->plan.memory, q.schedule.move, bytes - sizeof *q.schedule.move);
  vram_step_plan_free(&q, &model_allocator);
  return d->plan.memory ? FITS : cmd_no_memory();
}

/* Not FITS: message printed; planned_end() in any case. */
static int plan_all(planned *d) {
  const vram_chain *c = &d->chain->c;
  const vram_schedule *s = &d->plan.s;
  vram_schedule_options none;
  vram_error err;
  uint64_t bytes;
  int status = d->p->torch ? plan_for_torch(d) : make_plan(d->p, c, &d->p->o, &d->plan);
  memset(&none, 0, sizeof none);
  none.planner = VRAM_PLANNER_PLAIN;
  if (!status)
    status = make_plan(d->p, c, &none, &d->plain);
  if (!status)
    status = try_sequential(d);
  if (status)
    return status;
  d->span = (vram_span *)malloc(((size_t)s->nmove + 1) * sizeof *d->span);
  if (!d->span)
    return cmd_no_memory();
  d->has_spans = !vram_schedule_spans(c, s->move, s->nmove, d->span, s->nmove, &d->nspan, &err);
  bytes = vram_schedule_bind_bytes(c, s->nmove, NULL);
  d->bound = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  if (!d->bound)
    return cmd_no_memory();
  if (vram_schedule_bind(c, s->move, s->nmove, NULL, d->bound, bytes, &d->binding, &err))
    return plan_error(d->p, &err);
  if (!d->l)
    return FITS;
  status = step_in_torch(d, &d->plain.s, &d->torch[AS_PLAIN]);
  if (!status)
    status = step_in_torch(d, s, &d->torch[AS_PLANNED]);
  if (!status)
    status = sequential_in_torch(d, d->sequential.fits, &d->torch[AS_SEQUENTIAL]);
  if (!status)
    status = sequential_in_torch(d, d->sequential.least, &d->torch[AS_LEAST]);
  return status;
}

/* ---- output ---- */

static double percent(uint64_t part, uint64_t of) {
  return of ? 100.0 * (double)part / (double)of : 100.0;
}

typedef struct wrapped { /* words in lines of WIDTH columns */
  int column, indent;
} wrapped;

static void wrap(wrapped *w, const char *word, const char *glue) {
  const int n = (int)strlen(word), g = w->column > w->indent ? (int)strlen(glue) : 0;
  if (w->column + g + n > WIDTH && w->column > w->indent) {
    printf("\n");
    w->column = 0;
  } else if (g) {
    printf("%s", glue);
    w->column += g;
  }
  if (w->column < w->indent) {
    printf("%*s", w->indent - w->column, "");
    w->column = w->indent;
  }
  printf("%s", word);
  w->column += n;
}

static void range_text(char *to, size_t cap, uint32_t from, uint32_t end) {
  if (from == end)
    snprintf(to, cap, "%" PRIu32, from);
  else
    snprintf(to, cap, "%" PRIu32 "-%" PRIu32, from, end);
}

/* 0-2 [3-5] [6 [7-8] 9] 10: what is within brackets runs again in backward, from its input. */
static void print_spans(const planned *d) {
  const uint32_t n = d->chain->c.nstage;
  wrapped w = {0, 2};
  uint32_t i = 0, from, k = 0, open = 0, m;
  uint32_t *last = (uint32_t *)malloc(((size_t)d->nspan + 1) * sizeof *last);
  if (!last)
    return;
  while (i < n) {
    char word[64], range[32], *at = word;
    /* brackets beyond what one word holds are written as words of their own */
    for (; k < d->nspan && d->span[k].first == i; k++) {
      last[open++] = d->span[k].last;
      *at++ = '[';
      if (at - word == 8) {
        *at = 0;
        wrap(&w, word, " ");
        at = word;
      }
    }
    for (from = i;; i++)
      if (i + 1 == n || (open && last[open - 1] == i) ||
          (k < d->nspan && d->span[k].first == i + 1))
        break;
    range_text(range, sizeof range, from, i);
    at += snprintf(at, sizeof range, "%s", range);
    for (m = 0; open && last[open - 1] == i; open--) {
      if (++m == 8) {
        *at = 0;
        wrap(&w, word, " ");
        at = word;
        m = 0;
      }
      *at++ = ']';
    }
    *at = 0;
    if (at > word)
      wrap(&w, word, " ");
    i++;
  }
  printf("\n");
  free(last);
}

/* save 0-2, checkpoint 3, drop 4-5, ... */
static void print_order(const planned *d) {
  const vram_schedule *s = &d->plan.s;
  wrapped w = {0, 2};
  uint32_t i, k;
  for (i = 0; i < s->nmove; i = k) {
    const vram_move *m = &s->move[i];
    char range[32], word[96];
    const int down = m->kind == VRAM_MOVE_BACKWARD;
    for (k = i + 1; k < s->nmove && s->move[k].kind == m->kind && s->move[k].way == m->way &&
                    s->move[k].stage == (down ? m->stage - (k - i) : m->stage + (k - i));
         k++)
      ;
    range_text(range, sizeof range, m->stage, s->move[k - 1].stage);
    if (m->way)
      snprintf(word, sizeof word, "%s %s way %u%s", vram_move_name(m->kind), range, m->way,
               k < s->nmove ? "," : "");
    else
      snprintf(word, sizeof word, "%s %s%s", vram_move_name(m->kind), range,
               k < s->nmove ? "," : "");
    wrap(&w, word, " ");
  }
  printf("\n");
}

static int is_forward(const vram_move *m) {
  return m->kind == VRAM_MOVE_DROP || m->kind == VRAM_MOVE_CHECKPOINT || m->kind == VRAM_MOVE_SAVE;
}

static void print_stages(const planned *d) {
  const vram_chain *c = &d->chain->c;
  const vram_schedule *s = &d->plan.s;
  char name[MAX_NODE_NAME], way[24] = "";
  uint32_t i, k;
  printf("%s%-7s %-36s %11s %11s %9s %9s %8s%s\n", cmd_bold, "stage", "name", "output", "saved",
         "forward", "backward", "forwards", cmd_plain);
  for (i = 0; i < c->nstage; i++) {
    const vram_stage *t = &c->stage[i];
    uint32_t forwards = 0, of = 0;
    for (k = 0; k < s->nmove; k++)
      if (s->move[k].stage == i && is_forward(&s->move[k])) {
        forwards++;
        if (s->move[k].kind == VRAM_MOVE_SAVE)
          of = s->move[k].way;
      }
    if (t->nway > 1)
      snprintf(way, sizeof way, "  way %" PRIu32, of);
    printf("%-7" PRIu32 " %-36.36s %11s %11s %8.2f%% %8.2f%% %8" PRIu32 "%s\n", i,
           stage_name(c, i, name), cmd_human(t->output_bytes), cmd_human(t->way[of].saved_bytes),
           percent(t->way[of].forward_cost, d->plain.s.cost),
           percent(t->way[of].backward_cost, d->plain.s.cost), forwards, t->nway > 1 ? way : "");
  }
  printf("forward, backward: in percent of the plain cost; forwards: how many times it runs\n\n");
}

static void print_moves(const planned *d) {
  const vram_schedule *s = &d->plan.s;
  char name[MAX_NODE_NAME];
  uint32_t i;
  printf("\n");
  for (i = 0; i < s->nmove; i++)
    printf("%6" PRIu32 "  %-13s %5" PRIu32 "  %s\n", i, vram_move_name(s->move[i].kind),
           s->move[i].stage, stage_name(&d->chain->c, s->move[i].stage, name));
}

static void cell(uint64_t at) {
  putchar(',');
  if (at != VRAM_NOWHERE)
    printf("%" PRIu64, at);
}

/* Offsets in the arena, nothing where a move has no such buffer. */
static void print_moves_csv(const planned *d) {
  char name[MAX_NODE_NAME];
  uint32_t i;
  printf("move,kind,stage,way,name,in,out,saved,grad_out,grad_in,temp,host\n");
  for (i = 0; i < d->binding.nmove; i++) {
    const vram_bound_move *m = &d->binding.move[i];
    const int copy = m->move.kind >= VRAM_MOVE_OFFLOAD;
    printf("%" PRIu32 ",%s,%" PRIu32 ",%u,\"%s\"", i, vram_move_name(m->move.kind), m->move.stage,
           m->move.way, stage_name(&d->chain->c, m->move.stage, name));
    cell(m->in);
    cell(m->out);
    cell(m->saved);
    cell(m->grad_out);
    cell(m->grad_in);
    cell(m->temp);
    cell(copy ? m->host : VRAM_NOWHERE);
    printf("\n");
  }
}

static void plan_head(const planned *d, const char *first) {
  if (d->l)
    printf("%s%-25s %11s %8s %11s %11s %9s%s\n", cmd_bold, first, "peak in C", "of plain",
           "in PyTorch", "device", "FLOP", cmd_plain);
  else
    printf("%s%-25s %11s %8s  %14s%s\n", cmd_bold, first, "peak", "of plain", "cost", cmd_plain);
}

static void plan_row(const planned *d, const char *what, uint64_t bytes, uint64_t cost,
                     const in_torch *torch, const char *note) {
  const uint64_t least = d->plain.s.cost;
  char text[32];
  printf("%-25s %11s %6.1f %%", what, cmd_human(bytes), percent(bytes, d->plain.s.peak_bytes));
  if (torch && torch->known)
    printf(" %11s %11s", cmd_human(torch->r.peak_allocated_bytes.expected),
           cmd_human(torch->r.device_bytes.expected));
  else if (torch)
    printf(" %11s %11s", "-", "-");
  if (d->l)
    printf(" %9s", cmd_count_text(cost, text, sizeof text));
  else
    printf("  %14s", chain_cost_text(d->chain, cost));
  if (cost > least)
    printf(" +%.1f %%", percent(cost - least, least));
  else if (*note)
    printf(" %7s", "");
  printf("%s%s\n", *note ? "  " : "", note);
}

/* bytes for people who type them again: 39.6 KiB (40600 bytes) */
static const char *exact_text(uint64_t b) {
  static char text[64];
  if (cmd_units == VRAM_UNITS_BYTES)
    snprintf(text, sizeof text, "%" PRIu64 " bytes", b);
  else
    snprintf(text, sizeof text, "%s (%" PRIu64 " bytes)", cmd_human(b), b);
  return text;
}

static void print_title(const planned *d) {
  const plan_job *p = d->p;
  char mode[256];
  uint32_t i;
  printf("%s%s%s", cmd_bold, p->j.model, cmd_plain);
  if (d->l) {
    job_mode(&p->j, mode, sizeof mode);
    printf("  %s", mode);
    for (i = 0; i < d->l->g.ndim && i < 6; i++)
      printf("  %.*s=%" PRId64, (int)d->l->g.dim[i].len, d->l->g.dim[i].name, d->l->g.dim[i].value);
  }
  printf("  %" PRIu32 " stages  %s", d->chain->c.nstage, vram_planner_name((uint32_t)p->o.planner));
  if (p->j.has_budget)
    printf("  %s %s%s%s", p->torch ? "device" : "budget", cmd_human(p->j.budget),
           p->j.gpu ? ", " : "", p->j.gpu ? p->j.gpu : "");
  printf("\n\n");
}

static void print_plan(const planned *d) {
  const plan_job *p = d->p;
  const vram_schedule *s = &d->plan.s;
  const sequential *q = &d->sequential;
  const in_torch *torch = d->l ? d->torch : NULL;
  char what[64];
  print_title(d);
  if (p->j.table)
    print_stages(d);
  if (cmd_stopped())
    printf("stopped: a cheaper plan may be there\n\n");
  if (!s->feasible)
    printf("%sDOES NOT FIT%s: the smallest budget is %s\n\n", cmd_bold, cmd_plain,
           exact_text(s->smallest_budget_bytes));
  plan_head(d, "");
  plan_row(d, "plain", d->plain.s.peak_bytes, d->plain.s.cost, torch ? torch + AS_PLAIN : NULL, "");
  printf("%s", cmd_bold);
  plan_row(d, s->feasible ? "planned" : "smallest", s->peak_bytes, s->cost,
           torch ? torch + AS_PLANNED : NULL, "");
  printf("%s", cmd_plain);
  if (q->fits) {
    snprintf(what, sizeof what, "checkpoint_sequential(%" PRIu32 ")", q->fits);
    plan_row(d, what, q->fits_bytes, q->fits_cost, torch ? torch + AS_SEQUENTIAL : NULL,
             q->fits == q->least ? "cheapest, least" : "cheapest");
  }
  if (q->least && q->fits != q->least) {
    snprintf(what, sizeof what, "checkpoint_sequential(%" PRIu32 ")", q->least);
    plan_row(d, what, q->least_bytes, q->least_cost, torch ? torch + AS_LEAST : NULL,
             q->fits ? "least" : "too much");
  }
  printf("\narena %s", cmd_human(d->binding.arena_bytes));
  if (d->chain->c.static_bytes)
    printf(" beside %s that last", cmd_human(d->chain->c.static_bytes));
  if (s->host_bytes)
    printf(", host memory %s", cmd_human(d->binding.host_bytes));
  if (s->stopped)
    printf("\n");
  else
    printf("; smallest budget %s\n", exact_text(s->smallest_budget_bytes));
  if (torch && torch[AS_PLANNED].known)
    printf("in PyTorch, with its CUDA context, it %s a device of %s%s\n",
           torch[AS_PLANNED].r.fits ? "fits" : "does not fit", cmd_human(p->j.budget),
           torch[AS_PLANNED].r.fits || p->torch ? "" : " (--torch plans for that)");
  if (*d->why)
    printf("not all of it can be calls of torch.utils.checkpoint: %s\n", d->why);
  if (d->has_spans && d->nspan) {
    printf("\nstages; those in brackets run again in backward, from the input of the first\n");
    print_spans(d);
  }
  if (!d->has_spans || p->moves) {
    printf("\norder\n");
    print_order(d);
  }
  if (p->moves)
    print_moves(d);
}

enum { BUDGETS = 10 };

/* Without a budget: what each of some budgets costs, from the smallest to all. */
static int print_budgets(plan_job *p, const plan_chain *c, loaded *l) {
  vram_schedule_options o = p->o;
  planned d;
  uint64_t last = 0;
  uint32_t i;
  int status;
  memset(&d, 0, sizeof d);
  d.p = p;
  d.chain = c;
  d.l = l;
  o.planner = VRAM_PLANNER_PLAIN;
  cmd_progress(planning, 0);
  cmd_stoppable();
  status = make_plan(p, &c->c, &o, &d.plain);
  o = p->o;
  o.budget_bytes = 1;
  if (!status)
    status = make_plan(p, &c->c, &o, &d.plan);
  cmd_progress_end();
  if (!status && cmd_stopped()) {
    cmd_say("%s: stopped before the first plan", p->j.model);
    status = OTHER;
  }
  if (!status) {
    print_title(&d);
    plan_head(&d, "budget");
    fflush(stdout);
  }
  for (i = 0; i <= BUDGETS && !status && !cmd_stopped(); i++) {
    const uint64_t least = d.plan.s.smallest_budget_bytes, most = d.plain.s.peak_bytes;
    in_torch torch;
    plan s;
    memset(&torch, 0, sizeof torch);
    o.budget_bytes = i == BUDGETS ? most : least + (most - least) / BUDGETS * i;
    cmd_progress(planning, 0);
    status = make_plan(p, &c->c, &o, &s);
    if (!status && l)
      status = step_in_torch(&d, &s.s, &torch);
    cmd_progress_end();
    if (!status && !s.s.stopped && s.s.peak_bytes != last)
      plan_row(&d, cmd_human(o.budget_bytes), s.s.peak_bytes, s.s.cost, l ? &torch : NULL,
               i ? "" : "the smallest");
    fflush(stdout);
    last = s.s.peak_bytes;
    free(s.memory);
  }
  if (!status && i <= BUDGETS)
    printf("stopped: larger budgets have no plan yet\n");
  planned_end(&d);
  return status;
}

static void json_sequential(const char *key, const planned *d, uint32_t segments, uint64_t bytes,
                            uint64_t cost) {
  printf(",\"%s\":", key);
  if (segments)
    printf("{\"segments\":%" PRIu32 ",\"peak_bytes\":%" PRIu64 ",\"cost\":%s}", segments, bytes,
           chain_cost_text(d->chain, cost));
  else
    printf("null");
}

static void json_stages(const planned *d) {
  const vram_chain *c = &d->chain->c;
  const vram_node *first, *last;
  char name[MAX_NODE_NAME];
  uint32_t i, k;
  printf(",\"stages\":%" PRIu32 ",\"chain\":[", c->nstage);
  for (i = 0; i < c->nstage; i++) {
    const vram_stage *t = &c->stage[i];
    printf("%s{\"name\":", i ? "," : "");
    cmd_json_text(stdout, stage_name(c, i, name));
    stage_nodes(t, &first, &last);
    if (last) {
      printf(",\"first\":");
      vram_node_name(first, name, sizeof name);
      cmd_json_text(stdout, name);
      printf(",\"last\":");
      vram_node_name(last, name, sizeof name);
      cmd_json_text(stdout, name);
    }
    printf(",\"output_bytes\":%" PRIu64 ",\"ways\":[", t->output_bytes);
    for (k = 0; k < t->nway; k++)
      printf("%s{\"saved_bytes\":%" PRIu64 ",\"forward_cost\":%s,\"backward_cost\":%s}",
             k ? "," : "", t->way[k].saved_bytes, chain_cost_text(d->chain, t->way[k].forward_cost),
             chain_cost_text(d->chain, t->way[k].backward_cost));
    printf("]}");
  }
  printf("]");
}

/* Calls of torch.utils.checkpoint, and what PyTorch takes with them. */
static void json_torch(const planned *d) {
  uint32_t i;
  printf(",\"spans\":");
  for (i = 0; i < d->nspan && d->has_spans; i++)
    printf("%s[%" PRIu32 ",%" PRIu32 "]", i ? "," : "[", d->span[i].first, d->span[i].last);
  printf("%s,\"torch\":%s", !d->has_spans ? "null" : d->nspan ? "]" : "[]", d->l ? "{" : "null");
  for (i = 0; i < AS_COUNT && d->l; i++) {
    const vram_report *r = &d->torch[i].r;
    printf("%s\"%s\":", i ? "," : "", as_name[i]);
    if (d->torch[i].known)
      printf("{\"peak_requested_bytes\":%" PRIu64 ",\"peak_allocated_bytes\":%" PRIu64
             ",\"device_bytes\":%" PRIu64 ",\"fits\":%s}",
             r->peak_requested_bytes, r->peak_allocated_bytes.expected, r->device_bytes.expected,
             r->fits ? "true" : "false");
    else
      printf("null");
  }
  printf("%s}\n", d->l ? "}" : "");
}

static void print_plan_json(const planned *d) {
  const vram_chain *c = &d->chain->c;
  const vram_schedule *s = &d->plan.s;
  const sequential *q = &d->sequential;
  uint32_t i;
  printf("{\"model\":");
  cmd_json_text(stdout, d->p->j.model);
  printf(",\"planner\":\"%s\",\"feasible\":%s,\"budget_bytes\":%" PRIu64
         ",\"smallest_budget_bytes\":%" PRIu64 ",\"stopped\":%s",
         vram_planner_name((uint32_t)d->p->o.planner), s->feasible ? "true" : "false",
         d->p->j.budget, s->smallest_budget_bytes, cmd_stopped() ? "true" : "false");
  printf(",\"cost\":%s,\"cost_plain\":%s,\"peak_bytes\":%" PRIu64 ",\"peak_plain_bytes\":%" PRIu64,
         chain_cost_text(d->chain, s->cost), chain_cost_text(d->chain, d->plain.s.cost),
         s->peak_bytes, d->plain.s.peak_bytes);
  printf(",\"static_bytes\":%" PRIu64 ",\"arena_bytes\":%" PRIu64 ",\"host_bytes\":%" PRIu64,
         c->static_bytes, d->binding.arena_bytes, d->binding.host_bytes);
  json_sequential("sequential", d, q->fits, q->fits_bytes, q->fits_cost);
  json_sequential("sequential_least", d, q->least, q->least_bytes, q->least_cost);
  json_stages(d);
  printf(",\"schedule\":[");
  for (i = 0; i < s->nmove; i++)
    printf("%s{\"move\":\"%s\",\"stage\":%" PRIu32 ",\"way\":%u}", i ? "," : "",
           vram_move_name(s->move[i].kind), s->move[i].stage, s->move[i].way);
  printf("]");
  json_torch(d);
}

/* --svg */
static int write_plan_svg(const planned *d) {
  const plan_job *p = d->p;
  const vram_chain *c = &d->chain->c;
  const vram_schedule *s = &d->plan.s;
  const uint64_t bytes = vram_schedule_svg_bytes(c, s->nmove);
  void *scratch = malloc((size_t)bytes);
  char subtitle[160];
  vram_svg_options o;
  vram_sink sink;
  cmd_output out;
  int status;
  if (!scratch)
    return cmd_no_memory();
  memset(&o, 0, sizeof o);
  snprintf(subtitle, sizeof subtitle, "%" PRIu32 " stages, %s%s; cost %.1f %% of the plain order",
           c->nstage, vram_planner_name((uint32_t)p->o.planner),
           s->feasible ? "" : " at its smallest budget", percent(s->cost, d->plain.s.cost));
  o.title = p->j.model;
  o.subtitle = subtitle;
  o.has_budget = 1;
  o.budget_bytes = p->j.budget;
  o.budget_name = p->j.gpu;
  o.units = cmd_units;
  status = cmd_output_open(&out, p->j.svg);
  sink.write = cmd_to_file;
  sink.user = out.file;
  if (!status)
    status = cmd_output_commit(
        &out, vram_write_schedule_svg(c, s->move, s->nmove, &o, scratch, bytes, &sink) != VRAM_OK);
  free(scratch);
  return status;
}

/* ---- the command ---- */

/* An option of plan alone; 0: it is none, -1: error printed. */
static int plan_option(plan_job *p, const char *a, const char *v) {
  int64_t n;
  uint32_t i;
  if (!strcmp(a, "--moves"))
    return p->moves = 1;
  if (!strcmp(a, "--torch")) {
    p->of_model = a;
    return p->torch = 1;
  }
  if (!cmd_in(a, "--planner --segments --snapshots --slots --offload --align"))
    return 0;
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), -1;
  if (!strcmp(a, "--planner")) {
    for (i = 0; i < VRAM_PLANNER_COUNT && strcmp(v, vram_planner_name(i)); i++)
      ;
    if (i == VRAM_PLANNER_COUNT)
      return cmd_bad("unknown planner", v, "optimal, stages, sequential, sqrt, revolve or plain"),
             -1;
    p->o.planner = (vram_planner)i;
  } else if (!strcmp(a, "--offload")) {
    const char *slash = strchr(v, '/');
    if (!slash || exact_parse(v, (size_t)(slash - v), &p->transfer) != 1 ||
        !cmd_parse_size(slash + 1, &p->transfer_bytes) || !p->transfer_bytes)
      return cmd_bad("not a cost of transfers", v, "COST/SIZE, 0.04/1MB"), -1;
    p->o.offload = 1;
  } else if (!strcmp(a, "--align")) {
    if (!cmd_parse_size(v, &p->align) || !p->align || (p->align & (p->align - 1)))
      return cmd_bad("not an alignment", v, "a power of two"), -1;
  } else {
    if (!cmd_parse_count(v, 1, INT32_MAX, &n))
      return cmd_bad("not a number for", a, "1 or more"), -1;
    *(a[3] == 'e' ? &p->o.segments : a[3] == 'n' ? &p->o.snapshots : &p->o.slots) = (uint32_t)n;
  }
  return 2;
}

/* What there is none of where the plan is calls of torch.utils.checkpoint. */
static int plan_check_torch(plan_job *p) {
  const char *const asked = p->j.deepspeed ? "--deepspeed" : p->j.spec ? "--parallel" : "--torch";
  const char *no = NULL;
  char what[96];
  if (p->j.spec) /* what runs elsewhere has no moves */
    no = p->moves     ? "--moves"
         : p->j.table ? "--table"
         : p->j.csv   ? "--csv"
         : p->j.svg   ? "--svg"
                      : NULL;
  if (!no && (p->torch || p->j.spec))
    no = p->o.planner != VRAM_PLANNER_OPTIMAL ? "--planner"
         : p->o.offload                       ? "--offload"
         : p->align                           ? "--align"
         : p->o.slots                         ? "--slots"
                                              : NULL;
  if (no) {
    snprintf(what, sizeof what, "%s has calls of torch.utils.checkpoint to choose from: no", asked);
    return cmd_bad(what, no, NULL);
  }
  if ((p->torch || p->j.spec) && !p->j.has_budget)
    return cmd_bad("no budget for", asked, "--budget SIZE or --gpu NAME");
  p->o.budget_bytes = p->j.budget;
  return FITS;
}

static int plan_arguments(plan_job *p, int argc, char **argv) {
  int i, n;
  for (i = 0; i < argc; i += n) {
    char *v = i + 1 < argc ? argv[i + 1] : NULL;
    n = 1;
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      p->j.model = NULL;
      return cmd_help(help_plan, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      n = plan_option(p, argv[i], v);
      if (!n) {
        n = job_option(&p->j, argv[i], v);
        if (!cmd_in(argv[i], "--budget --gpu --json --csv --svg --units --table --no-table"))
          p->of_model = argv[i];
      }
      if (n <= 0)
        return USAGE;
    } else if (p->j.model)
      return cmd_bad("a second model", argv[i], "one");
    else
      p->j.model = argv[i];
  }
  if (!p->j.model)
    return cmd_bad("no model and no chain", NULL, "vram plan MODEL|CHAIN.csv; vram plan -h");
  if (p->j.deepspeed && job_deepspeed(&p->j) != FITS)
    return USAGE;
  if (p->j.gpu && !p->j.has_budget)
    p->j.budget = p->j.gpu_bytes, p->j.has_budget = 1;
  if (!p->j.has_budget && (p->j.json || p->j.csv || p->j.svg || p->moves || p->j.table))
    return cmd_bad("no budget", NULL, "--budget SIZE or --gpu NAME");
  if (p->j.has_budget && !p->j.budget)
    return cmd_bad("a budget of 0 bytes holds nothing", NULL, "--budget SIZE");
  if (p->o.segments && p->o.planner != VRAM_PLANNER_SEQUENTIAL)
    return cmd_bad("--segments is for", NULL, "--planner sequential");
  if (p->o.snapshots && p->o.planner != VRAM_PLANNER_REVOLVE)
    return cmd_bad("--snapshots is for", NULL, "--planner revolve");
  if (p->o.slots && p->o.planner != VRAM_PLANNER_OPTIMAL)
    return cmd_bad("--slots is for", NULL, "--planner optimal");
  if (p->o.offload && p->o.planner != VRAM_PLANNER_OPTIMAL)
    return cmd_bad("--offload is for", NULL, "--planner optimal");
  if (p->j.json + p->j.csv + cmd_is_output(p->j.svg) > 1)
    return cmd_bad("standard output takes one of --json, --csv and --svg -", NULL, NULL);
  if ((p->j.json || p->j.csv || cmd_is_output(p->j.svg)) && (p->moves || p->j.table))
    return cmd_bad("standard output is taken by --json, --csv or --svg -: no place for",
                   p->moves ? "--moves" : "--table", NULL);
  return plan_check_torch(p);
}

/* Costs of transfers in the unit of the chain's costs. */
static int plan_transfer(const plan_job *p, plan_chain *c) {
  exact d = p->transfer;
  uint64_t bytes = p->transfer_bytes;
  for (; d.exponent < c->exponent && bytes <= (uint64_t)INT64_MAX / 10; d.exponent++)
    bytes *= 10;
  c->c.transfer_bytes = bytes;
  if (!exact_scaled(d, c->exponent, &c->c.transfer_cost))
    return cmd_bad("--offload: a cost that cannot be added to those of the chain", NULL, NULL);
  return FITS;
}

/* What a plan is made for if nothing else is said. */
static void plan_trains(job *j) {
  if (!j->o.train) {
    j->o.train = 1;
    j->optimizer = "adamw";
    j->o.optimizer = vram_optimizer_from_name(j->optimizer, &j->o.weight_decay);
  }
  j->o.replay = &j->pool;
}

/* The chain of a model; not FITS: message printed. */
static int plan_model(plan_job *p, char *text, size_t len, loaded *l, plan_chain *c,
                      void **memory) {
  vram_step_options o;
  vram_error err;
  uint64_t bytes;
  int status;
  plan_trains(&p->j);
  l->text = text;
  status = job_check(&p->j);
  if (!status)
    status = model_load(l, &p->j, text, len);
  if (status)
    return status;
  o = p->j.o;
  o.replay = NULL;
  bytes = vram_chain_cut_bytes(&l->g, &o);
  *memory = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  if (!*memory)
    return cmd_no_memory();
  if (vram_chain_cut(&l->g, &o, 0, *memory, bytes, &c->c, &err))
    return plan_error(p, &err);
  return FITS;
}

int plan_command(int argc, char **argv) {
  plan_job p;
  plan_chain c;
  planned d;
  loaded l;
  char *text = NULL;
  void *memory = NULL;
  size_t len = 0;
  int status, model;
  memset(&p, 0, sizeof p);
  memset(&c, 0, sizeof c);
  memset(&d, 0, sizeof d);
  memset(&l, 0, sizeof l);
  p.j.command = "plan";
  p.o.stop = p.j.o.stop = cmd_stop;
  status = plan_arguments(&p, argc, argv);
  if (status || !p.j.model)
    return status;
  status = model_read(p.j.model, &p.j, &text, &len);
  if (status)
    return status;
  model = !chain_is(p.j.model, text, len);
  if (model && p.j.budget_given && !cmd_take_size("--budget", p.j.budget_given, &p.j.budget)) {
    free(text);
    return USAGE;
  }
  if (model && p.j.spec) {
    plan_trains(&p.j);
    return plan_ranks_command(&p.j, text, len);
  }
  if (model) {
    status = plan_model(&p, text, len, &l, &c, &memory);
    d.l = &l;
  } else if (p.of_model)
    status = cmd_bad("an option of models, for a chain:", p.of_model, NULL);
  else
    status = chain_read(p.j.model, text, len, &c);
  if (p.align > c.c.align)
    c.c.align = p.align;
  d.p = &p;
  d.chain = &c;
  if (!status && p.o.offload)
    status = plan_transfer(&p, &c);
  if (!status && !p.j.has_budget)
    status = print_budgets(&p, &c, model ? &l : NULL);
  else if (!status) {
    cmd_progress(planning, 0);
    cmd_stoppable();
    status = plan_all(&d);
    cmd_progress_end();
  }
  if (!status && p.j.svg)
    status = write_plan_svg(&d);
  if (!status && p.j.has_budget) {
    if (p.j.json)
      print_plan_json(&d);
    else if (p.j.csv)
      print_moves_csv(&d);
    else if (!cmd_is_output(p.j.svg))
      print_plan(&d);
    status = d.plan.s.feasible ? FITS : TOO_LARGE;
  }
  planned_end(&d);
  chain_end(&c);
  free(memory);
  if (model)
    model_unload(&l);
  else
    free(text);
  return status;
}
