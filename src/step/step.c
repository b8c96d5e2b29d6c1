/* >>step/step    one step from options to report */
#include "step/step.h"

/* Steps of recurrent nets that may be single operations. */
static uint64_t vram__single_cells(const vram_graph *g, const vram_step_options *o) {
  const vram_node *n;
  uint64_t cells = 0;
  if (vram__rules_of_torch(vram_step_rules(g, o))->does & VRAM__RNN_BF16)
    return 0;
  for (n = g->first; n; n = n->next)
    if (n->op < VRAM_OP_COUNT && vram__op_at(n->op)->lower == VRAM__LOWER_RNN)
      cells = vram__sum_or_overflow(cells, vram__rnn_cells(n));
  return cells < UINT32_MAX ? cells : UINT32_MAX;
}

/* How many blocks the pool of a replay has room for: parameter, gradient, state and temporaries of
   the optimizer, what a node makes and keeps, and as many free ones. */
VRAM__FN uint32_t vram__replay_blocks(const vram_graph *g, const vram_step_options *o) {
  const uint64_t n = (uint64_t)g->nparam * 12 + (uint64_t)g->nvalue * 6 + (uint64_t)g->nnode * 6 +
                     vram__single_cells(g, o) * 16 + g->in_flight * 2 +
                     (o->parallel ? vram__wrapper_ranks(o->parallel) : 0);
  return n < UINT32_MAX / 64 ? 1024 + (uint32_t)n : UINT32_MAX / 64;
}

/* Events of one step, and of the optimizer's first, that a tape has room for. */
VRAM__FN uint32_t vram__replay_tape_events(const vram_graph *g) {
  const uint64_t n = (uint64_t)g->nparam * 24 + (uint64_t)g->nvalue * 8 + (uint64_t)g->nnode * 24;
  return n < UINT32_MAX / 64 ? 1024 + (uint32_t)n : UINT32_MAX / 64;
}

/* Steps of a run before the one that the report tells of. */
VRAM__FN uint32_t vram__steps_before(const vram_step_options *o) {
  vram__wrapper w;
  uint32_t steady = 2;
  if (!o->train || o->first_step)
    return !o->train;
  if (vram__wrapper_of(o, &w) && w.before)
    steady = w.before(o);
  return o->parallel && o->parallel->step && o->parallel->step - 1 < steady ? o->parallel->step - 1
                                                                            : steady;
}

/* Streams that allocate: collectives of fully_shard have their own. */
VRAM__FN uint32_t vram__replay_streams(const vram_step_options *o) {
  return o->parallel ? VRAM__STREAMS : 1;
}

VRAM__FN uint64_t vram__replay_bytes(const vram_graph *g, const vram_step_options *o) {
  return vram_pool_bytes(vram__replay_blocks(g, o), vram__replay_streams(o)) + 16 +
         vram__replay_tape_events(g) * (uint64_t)(sizeof(uint64_t) + sizeof(uint32_t)) +
         ((uint64_t)g->nparam + UINT64_C(2) * g->ninput) * sizeof(uint32_t);
}

/* Convolutions with a search of their own: three a node, in a table with room between them. */
static uint32_t vram__searched_room(const vram_graph *g) {
  uint32_t room = 64;
  while (room / 4 < g->nnode && room < UINT32_C(1) << 30)
    room *= 2;
  return room;
}

/* How deep checkpointed ranges lie inside one another, at most. */
static uint32_t vram__ranges_nested(const vram_step_options *o) {
  uint32_t end[VRAM_MAX_NESTED]; /* of the ranges that are open */
  uint32_t i, depth = 0, most = 1;
  for (i = 0; o && o->checkpoint && i < o->ncheckpoint; i++) {
    const vram_range *r = o->checkpoint + i;
    if (!r->first || !r->last)
      break;
    while (depth && end[depth - 1] < r->first->index)
      depth--;
    if (depth == VRAM_MAX_NESTED)
      break;
    end[depth++] = r->last->index;
    if (depth > most)
      most = depth;
  }
  return most;
}

/* Convolutions may run without cuDNN, sample by sample and group by group. */
static int vram__convolves_slowly(const vram_graph *g, const vram_step_options *o) {
  return (o && o->cc && o->cc < 80) ||
         (vram__rules_of_torch(vram_step_rules(g, o))->does & VRAM__CONV3D_HALF_SLOW);
}

/* How deep reentrant ones do, at most. */
static uint32_t vram__ranges_levels(const vram_graph *g, const vram_step_options *o) {
  const vram_checkpoint *b = g->checkpoint_first;
  while (b && !(b->flags & VRAM_CHECKPOINT_REENTRANT))
    b = b->next;
  return (b ? g->checkpoint_nested : 0) + (o && o->reentrant ? vram__ranges_nested(o) : 0);
}

/* How many leaves that the program makes live at a time, at most: of this micro-batch, of the one
   before, and of calls of checkpoint() that run again. */
static uint64_t vram__leaves_made(const vram_graph *g, const vram_step_options *o) {
  return g->nmade * (UINT64_C(2) + g->checkpoint_nested + vram__ranges_nested(o));
}

/* Of one of vram__single_cells: records and tensors. */
#define VRAM__CELL_BYTES 4096

/* Tensors that functions hold as attributes: of this micro-batch, the one before, and of calls that
   run again inside one another. */
static uint32_t vram__holds_at_once(const vram_graph *g, const vram_step_options *o) {
  return g->holds * (uint32_t)(3 + g->checkpoint_nested + vram__ranges_nested(o));
}

/* Of a step of that graph alone. */
static uint64_t vram__step_graph_bytes(const vram_graph *g, const vram_step_options *o) {
  uint64_t n = 65536;
  vram__wrapper wrapper;
  const vram_checkpoint *b;
  const vram_node *m;
  if (o && o->train && (o->checkpoint_segments > 1 || o->ncheckpoint || g->ncheckpoint)) {
    /* ranges, what goes in and out of each, the recomputed parts of the tape */
    const uint64_t ranges = o->ncheckpoint ? o->ncheckpoint : o->checkpoint_segments;
    const uint64_t depth = vram__ranges_nested(o) + g->checkpoint_nested;
    const uint64_t levels = vram__ranges_levels(g, o);
    n += (ranges < g->nnode * UINT64_C(2) ? ranges : g->nnode * UINT64_C(2)) * 640 +
         g->ncheckpoint * UINT64_C(640) + (levels + 1) * (uint64_t)g->nnode * 1200 +
         levels * (uint64_t)g->nparam * sizeof(vram__leaf);
    for (b = g->checkpoint_first; b; b = b->next)
      if (b->flags & VRAM_CHECKPOINT_REENTRANT)
        n += b->narg * (g->checkpoint_nested + UINT64_C(3)) * sizeof(vram__tensor);
    for (m = g->first; m; m = m->next) {
      n += depth * ((uint64_t)m->nin * 512 + (uint64_t)m->nout * 64);
      if (o->by_keyword)
        n += depth * m->nin * (g->checkpoint_nested + UINT64_C(3)) * sizeof(vram__tensor);
    }
  }
  n += (uint64_t)g->nnode * 1200 + (uint64_t)g->nvalue * 256 + (uint64_t)g->nparam * 512;
  n += (uint64_t)(g->max_in + g->max_out) * 256 + g->extra + g->in_flight * VRAM__SLOT_BYTES +
       vram__holds_at_once(g, o) * (uint64_t)sizeof(vram__tensor);
  n += vram__keep_bytes(g) * 2 + g->nstep * UINT64_C(8) + g->ncache * UINT64_C(256);
  if (g->nmade)
    n += vram__leaves_made(g, o) * (sizeof(vram__leaf) * (2 + vram__ranges_levels(g, o)) + 64) +
         (uint64_t)g->nmade * 2 * sizeof(vram__tensor);
  if (o)
    n = vram__sum_or_overflow(
        n, vram__product_or_overflow((uint64_t)o->prefetch * g->ninput, VRAM__SLOT_BYTES));
  if (vram__wrapper_of(o, &wrapper))
    n = vram__sum_or_overflow(n, sizeof wrapper + (wrapper.bytes ? wrapper.bytes(g, o) : 0) +
                                     (wrapper.work ? wrapper.work(g, o) : 0));
  if (o && o->replay)
    n += vram__replay_bytes(g, o);
  if (o && o->cudnn == VRAM_CUDNN_BENCHMARK)
    n += vram__searched_room(g) * (uint64_t)sizeof(uint32_t);
  for (m = vram__convolves_slowly(g, o) ? g->first : NULL; m; m = m->next)
    if (m->op < VRAM_OP_COUNT && vram__op_at(m->op)->lower == VRAM__LOWER_CONV) {
      int64_t groups = VRAM__INT(m, groups, 1); /* all at once in vram__slow_run and _bw */
      n += 1024 * (uint64_t)(groups < INT32_MAX ? groups : INT32_MAX);
    }
  return n + vram__single_cells(g, o) * VRAM__CELL_BYTES;
}

VRAM_API uint64_t vram_step_bytes(const vram_graph *g, const vram_step_options *o) {
  uint64_t n = vram__step_graph_bytes(g, o);
  if (vram__pipe_is(o))
    return vram__pipe_bytes(g, o, n);
  if (o && o->train && o->last_batch)
    n = vram__sum_or_overflow(n, vram__step_graph_bytes(o->last_batch, o));
  if (o && o->train && o->evaluation)
    n = vram__sum_or_overflow(n, vram__step_graph_bytes(o->evaluation, o));
  if (o && o->train && o->dry_run && vram__step_graph_bytes(o->dry_run, o) > n)
    n = vram__step_graph_bytes(o->dry_run, o);
  return n;
}

/* The report's phases have their allocated and reserved bytes. */
VRAM__FN void vram__report_blocks_known(vram_report *r, const vram_step_options *o,
                                        const vram__replay *run) {
  uint64_t peak = 0;
  uint32_t i;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (r->phase[i].allocated_peak_bytes > peak)
      peak = r->phase[i].allocated_peak_bytes;
  if (r->peak_allocated_bytes.expected < peak)
    r->peak_allocated_bytes.expected = peak;
  if (r->peak_allocated_bytes.upper < peak)
    r->peak_allocated_bytes.upper = peak;
  if (run) {
    r->replayed = !run->full;
    r->num_alloc_retries = run->pool.stats.num_alloc_retries;
    r->num_ooms = run->oom;
  }
  vram__report_device_bounds(r, o);
}

/* Takes the memory: the tape grows from its begin, slots from its end. 0: it is too small. */
static int vram__step_take_scratch(vram__step *s, void *scratch, uint64_t bytes) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  if (!scratch || bytes < skip + 64)
    return 0;
  s->mem = (uint8_t *)scratch + skip;
  s->skipped = (uint32_t)skip;
  s->cap = (bytes - skip) & ~(uint64_t)7;
  if (s->cap > (uint64_t)VRAM__LEAF * 8) /* what has a number is below */
    s->cap = (uint64_t)VRAM__LEAF * 8;
  s->used = VRAM__OWN_BYTES;
  if (s->cap < s->used + sizeof *s->spare * VRAM__SPARE)
    return 0;
  s->cap -= sizeof *s->spare * VRAM__SPARE;
  s->spare = (vram_dims *)(void *)(s->mem + s->cap);
  s->first_slot = (uint32_t)(s->cap / 8) - VRAM__SLOT_STEP;
  vram__memory_zero(s->mem, VRAM__OWN_BYTES);
  s->free_slot = VRAM__OWN_WEIGHTS; /* the first two that are taken */
  vram__slot_at(s, VRAM__OWN_WEIGHTS)->id = VRAM__OWN_BUFFERS;
  return 1;
}

VRAM_API vram_rules vram_step_rules(const vram_graph *g, const vram_step_options *o) {
  const vram_rules rules = o && o->rules ? o->rules : g->rules;
  return rules ? rules : VRAM_RULES_NEWEST;
}

VRAM__FN void vram__device_of(vram__device *d, const vram_step_options *o, vram_rules rules) {
  d->cc = o->cc ? o->cc : 90;
  d->sm = o->sm ? o->sm : vram__device_usual_sm(d->cc);
  d->threads = vram__device_threads(d->cc);
  d->rules = vram__rules_of_torch(rules);
  d->workspace[VRAM__CUBLAS] =
      d->cc >= 90 ? d->rules->cublas.workspace_sm90 : d->rules->cublas.workspace;
  d->workspace[VRAM__CUBLASLT] = d->rules->cublas.lt_workspace;
}

static void vram__step_set_options(vram__step *s) {
  const vram_step_options *o = s->o;
  const vram_rules rules = vram_step_rules(s->g, o);
  s->watched = o->event || s->count.stop_at || s->replay || s->cuts;
  s->train = o->train != 0;
  s->ideal = rules == VRAM_RULES_IDEAL;
  s->amp = o->amp;
  s->dtype = o->dtype ? o->dtype : vram__graph_own_dtype(s->g, VRAM_DTYPE_MODEL);
  s->loaded = s->dtype;
  if (vram__adapt_prepares(s->g)) {
    s->loaded = o->dtype || s->g->dtype ? s->dtype : VRAM_BF16;
    s->dtype = VRAM_F32;
  }
  s->buffers = s->dtype;
  vram__device_of(&s->device, o, rules);
}

VRAM_API void vram_step_parameters(const vram_graph *g, const vram_step_options *o,
                                   vram_parameters *to) {
  vram_step_options none = VRAM_ZERO_INIT;
  vram__step s;
  const vram_param *p;
  vram__memory_zero(&s, sizeof s);
  vram__memory_zero(to, sizeof *to);
  s.g = g;
  s.o = o ? o : &none;
  vram__step_set_options(&s);
  for (p = g->param_first; p; p = p->next) {
    const uint64_t bytes = vram__param_bytes(p, vram__param_dtype(&s, p));
    uint64_t weight;
    if (vram__param_quantised(p, &weight)) {
      to->quantised += weight;
      to->quantised_bytes += bytes;
    } else if (p->kind == VRAM__BUFFER)
      to->buffers_bytes += bytes;
    else if (p->kind == VRAM__FROZEN) {
      to->frozen += p->d->numel;
      to->frozen_bytes += bytes;
    } else {
      to->trainable += p->d->numel;
      to->trainable_bytes += bytes;
    }
  }
}

/* What wraps the step, and what is known of its run: where it was in a run before. */
static int vram__step_take_wrapper(vram__step *s) {
  vram__wrapper w;
  uint64_t bytes;
  if (!s->o->parallel)
    return VRAM_OK;
  s->setup = (vram_phase_report *)vram__memory_take(s->mem, &s->used, s->cap,
                                                    VRAM_SETUP_COUNT * sizeof *s->setup);
  if (!s->setup)
    return VRAM_ERR_MEMORY;
  if (s->nth == 1)
    vram__memory_zero(s->setup, VRAM_SETUP_COUNT * sizeof *s->setup);
  if (!vram__wrapper_of(s->o, &w))
    return VRAM_OK;
  bytes = w.bytes ? w.bytes(s->g, s->o) : 0;
  s->wrapped = vram__memory_take(s->mem, &s->used, s->cap, sizeof w + bytes);
  if (!s->wrapped)
    return VRAM_ERR_MEMORY;
  vram__memory_copy(s->wrapped, &w, sizeof w);
  s->wrapper = (const vram__wrapper *)s->wrapped;
  s->wrapped = (vram__wrapper *)s->wrapped + 1;
  if (s->nth == 1)
    vram__memory_zero(s->wrapped, bytes);
  VRAM__WRAPPER_DO(s, options);
  return VRAM_OK;
}

/* The arrays of a step; the leaves are where they were in a run before. */
static int vram__step_take_arrays(vram__step *s) {
  const vram_graph *g = s->g;
  uint64_t leaves, made;
  uint32_t i;
  for (i = 0; i < 64; i++)
    s->dims_cache[i] = g->cache[i];
#define VRAM__TAKE(to, type, count)                                                                \
  to = (type *)vram__memory_take(s->mem, &s->used, s->cap, (uint64_t)(count) * sizeof(type));      \
  if (!(to))                                                                                       \
  return VRAM_ERR_MEMORY
  s->failed = (uint8_t)vram__step_take_wrapper(s);
  if (s->failed)
    return s->failed;
  VRAM__TAKE(s->variable, vram__variable, g->nvalue + 1);
  VRAM__TAKE(s->name_of, uint32_t, g->nvalue);
  vram__calls_find(s);
  if (s->failed)
    return s->failed;
  s->variable[g->nvalue].refs = 0;
  leaves = (uint64_t)g->nparam + g->ninput + s->call.levels * (uint64_t)s->call.most_args;
  made = g->nmade ? vram__leaves_made(g, s->o) : 0;
  if (leaves + made > UINT32_MAX / 2)
    return VRAM_ERR_LIMIT;
  s->leaf.made = made ? VRAM__LEAF | (uint32_t)leaves : UINT32_MAX;
  s->leaf.nmade = (uint32_t)made;
  leaves += made;
  VRAM__TAKE(s->leaf.made_of, vram__made, made);
  for (i = 0; i < made; i++) {
    s->leaf.made_of[i].slot = 0;
    s->leaf.made_of[i].edges = i + 1;
  }
  s->leaf.room = (uint32_t)leaves;
  VRAM__TAKE(s->leaf.at, vram__leaf, leaves);
  VRAM__TAKE(s->leaf.past, vram__past, leaves);
  s->leaf.now = s->leaf.at;
  if (s->amp || g->autocast_own) {
    VRAM__TAKE(s->leaf.cast, vram__cast, leaves);
  }
  if (s->call.levels) {
    VRAM__TAKE(s->leaf.inner, vram__leaf, leaves * s->call.levels);
  }
  if (g->nstep > 1 || g->nupdate) {
    VRAM__TAKE(s->found_inf, uint32_t, g->nstep);
  }
  if (!vram__keep_take(s))
    return VRAM_ERR_MEMORY;
  VRAM__TAKE(s->param, vram__tensor, g->nparam);
  /* of this micro-batch and the one before, of what runs again, and of calls around calls */
  s->held_room =
      vram__holds_at_once(g, s->o) + 2 * g->nmade + s->call.own_args * (g->checkpoint_nested + 3);
  VRAM__TAKE(s->held, vram__tensor, s->held_room + 1);
  VRAM__TAKE(s->args, vram__tensor, g->max_in + g->max_out + 16);
  if (g->context) {
    VRAM__TAKE(s->context_held, vram__tensor, UINT64_C(2) * g->context->nin + 1 + g->ninput);
  }
  if (s->o->cudnn == VRAM_CUDNN_BENCHMARK) {
    s->searched_room = vram__searched_room(g);
    VRAM__TAKE(s->searched, uint32_t, s->searched_room);
    vram__memory_zero(s->searched, s->searched_room * (uint64_t)sizeof *s->searched);
  }
#undef VRAM__TAKE
  s->results = s->args + g->max_in + 8;
  s->scalar = vram__dims_get(s->mem, &s->used, s->cap, s->dims_cache, 0, NULL, NULL);
  return s->scalar ? VRAM_OK : VRAM_ERR_MEMORY;
}

/* The wrapper's constructor, or what it has from the step before. */
static void vram__step_wrap(vram__step *s) {
  const vram_phase phase = s->phase;
  if (s->nth > 1) {
    VRAM__WRAPPER_DO(s, restore);
    return;
  }
  s->phase = VRAM_PHASE_WRAP;
  s->cat = VRAM_CATEGORY_OTHER;
  if (vram__step_distributes(s))
    vram__distribute(s);
  VRAM__WRAPPER_DO(s, construct);
  s->phase = phase;
}

/* What the wrapper does when the optimizer has been made. */
static void vram__step_wrap_optimizer(vram__step *s) {
  const vram_phase phase = s->phase;
  s->phase = VRAM_PHASE_WRAP;
  if (s->nth == 1)
    VRAM__WRAPPER_DO(s, optimizer_made);
  s->phase = phase;
  if (s->o->parallel)
    s->count.before = s->count.next_id + s->count.frees;
}

/* Everything that is there before the first event. */
static void vram__step_put_before(vram__step *s, int dry) {
  vram_phase_report *const setup = s->setup;
  vram__forward_leave_out(s);
  if (s->failed)
    return;
  if (s->nth > 1)
    s->setup = NULL; /* it was before */
  vram__step_put_model(s);
  if (vram__step_distributes(s))
    vram__distribute_before(s);
  vram__setup_end(s, VRAM_SETUP_MODEL);
  if (!s->o->parallel)
    vram__step_put_inputs(s);
  vram__step_wrap(s);
  vram__in_backward_begin(s);
  vram__average_put(s);
  s->scaler = s->train && (s->amp == VRAM_F16 || s->g->nscaled) &&
              s->leaf.parameters; /* it goes with an optimizer */
  s->watched |= s->scaler && s->found_inf;
  if (!dry)
    vram__optim_before(s);
  if (s->scaler && !s->o->first_step) {
    s->scale = vram__leaf_existing_gradient(s, s->scalar, VRAM_F32, VRAM_CATEGORY_OTHER);
    vram__leaf_existing_gradient(s, s->scalar, VRAM_I32, VRAM_CATEGORY_OTHER);
  }
  vram__keep_before(s);
  vram__caches_before(s);
  vram__memory_zero(s->r->communication, sizeof s->r->communication);
  s->r->recomputed_flops = 0;
  vram__step_wrap_optimizer(s);
  vram__setup_end(s, VRAM_SETUP_WRAP);
  if (s->o->parallel)
    vram__step_put_inputs(s);
  vram__setup_end(s, VRAM_SETUP_INPUTS);
  s->setup = setup;
  s->count.peak_event = s->count.before;
  s->count.phase_peak = s->count.peak = s->count.requested;
  s->count.phase_peak_blocks = s->count.blocks;
  s->count.peak_upper = s->count.blocks + s->count.extra;
  vram__peak_note(s);
}

/* What there was before the step. */
typedef struct vram__step_before {
  vram__category_bytes category;
  uint64_t blocks, upper;
} vram__step_before;

/* From the first forward pass to what is left after the optimizer. before: NULL behind another
   step; last: the graph of the last micro-batch, where it is another one. */
static void vram__step_play_one(vram__step *s, const vram__step_before *before,
                                const vram_graph *last, uint32_t how) {
  vram__replay *run = s->replay;
  vram__phase_end(s, s->pipe ? VRAM_PHASE_STEP : VRAM_PHASE_FORWARD);
  if (s->pipe) {
    vram__pipe_play(s);
    vram__phase_end(s, VRAM_PHASE_OPTIMIZER);
  } else
    vram__micro_batches(s, last);
  s->phase = s->train && s->g->nstep ? VRAM_PHASE_END : VRAM_PHASE_OPTIMIZER;
  vram__context_leave(s);
  vram__gradients_count(s, (how & VRAM__RUN_AGAIN) != 0 || s->g->nbackward);
  if (before && !s->leaf.known && s->train && !s->o->first_step && !s->failed)
    vram__gradients_had(s, &before->category, before->blocks, before->upper);
  if (run)
    run->optim = run->ntape;
  if (s->train && !s->failed && !s->g->nstep) {
    VRAM__WRAPPER_DO(s, optimizing);
    if (s->wrapper && s->wrapper->optimize)
      s->wrapper->optimize(s);
    else
      vram__optim_now(s);
    VRAM__WRAPPER_DO(s, optimized);
  }
  if (s->train && !s->failed)
    vram__average_update(s);
  if (s->train && !s->failed && s->o->zero_grad_end)
    vram__zero_grad_last(s);
  if (run)
    run->after = run->ntape;
  if (s->phase != VRAM_PHASE_END)
    vram__phase_end(s, VRAM_PHASE_END);
  if (s->train && s->loss.d) {
    if (s->loss.st && !s->g->nbackward) /* its history was played, or never will be */
      vram__slot_at(s, s->loss.st)->fn = 0;
    vram__held_release(s, 0, s->nheld);
    vram__tensor_release(s, s->loss);
  }
  vram__phase_end(s, VRAM_PHASE_END);
}

/* One more step behind another one. */
static void vram__step_play_next(vram__step *s, const vram_graph *g, const vram_graph *last,
                                 uint32_t how) {
  vram__tensor none = vram__tensor_none();
  if (s->failed)
    return;
  vram__micro_batch_forget(s, s->tape.begin, &none);
  vram__epoch_batch(s, g);
  if (s->failed)
    return;
  s->phase = VRAM_PHASE_ZERO_GRAD;
  s->leaf.taken = s->nbackward = 0;
  s->saved_most = 0;
  vram__zero_grad_first(s);
  vram__step_play_one(s, NULL, last, how);
}

/* The step, and what the options let come behind it. */
static void vram__step_play(vram__step *s, uint32_t how) {
  const vram_graph *const g = s->g, *last = s->o->first_step ? NULL : s->o->last_batch;
  vram__step_before before;
  before.category = s->count.category;
  before.blocks = s->count.blocks;
  before.upper = s->count.blocks + s->count.extra;
  vram__memory_copy(s->r->before_category_bytes, before.category.of, sizeof before.category.of);
  if (s->count.stop_at == s->count.before + 1 && (!s->train || s->o->first_step))
    vram__live_collect(s);
  if (s->replay)
    s->replay->body = s->replay->ntape;
  vram__zero_grad(s);
  VRAM__WRAPPER_DO(s, zero_grad);
  vram__step_play_one(s, &before, NULL, how);
  if (s->train && last)
    vram__step_play_next(s, g, last, how);
  if (s->train && s->o->evaluation && !s->failed)
    vram__evaluate(s);
  if (s->train && last)
    vram__step_play_next(s, g, NULL, how);
  if (s->count.at_peak)
    vram__peak_note(s);
}

static void vram__step_report(const vram__step *s) {
  const vram__counts *count = &s->count;
  vram_report *r = s->r;
  vram_bounds *allocated = &r->peak_allocated_bytes;
  const uint64_t begin = r->phase[VRAM_PHASE_ZERO_GRAD].allocated_peak_bytes;
  uint64_t less;
  vram__memory_copy(r->peak_category_bytes, count->peak_category.of, sizeof count->peak_category);
  r->dtype = s->dtype;
  r->peak_requested_bytes = count->peak;
  r->peak_blocks_bytes = count->peak_blocks;
  if (begin > count->peak_blocks && !s->replay)
    r->peak_blocks_bytes = begin;
  less = vram__sum_or_overflow(count->custom, count->custom_most);
  allocated->lower = r->peak_blocks_bytes;
  allocated->lower -= less < allocated->lower ? less : allocated->lower;
  allocated->upper = count->peak_upper;
  allocated->expected = s->replay ? 0 : count->peak_expected;
  r->pinned_bytes = vram__sum_or_overflow(r->pinned_bytes,
                                          vram__product_or_overflow(r->inputs_bytes, s->o->pinned));
  vram__report_blocks_known(r, s->o, s->replay);
  r->peak_node = count->peak_node;
  r->peak_phase = count->peak_phase;
  r->events = count->next_id + count->frees - count->before;
  if (s->setup)
    vram__memory_copy(r->setup, s->setup, sizeof r->setup);
  r->peak_event = count->peak_event;
  r->scratch_used = s->skipped + (s->used > s->most_used ? s->used : s->most_used) +
                    s->nslot * VRAM__SLOT_BYTES + sizeof *s->spare * VRAM__SPARE;
}

/* Sets s up for a run. s->replay, s->cuts, s->pipe and of s->count what concerns the live set are
   as the caller has set them; how: bits of VRAM__RUN_. */
VRAM__FN vram_result vram__step_set_up(const vram_graph *g, const vram_step_options *o,
                                       void *scratch, uint64_t scratch_bytes, vram_report *report,
                                       vram__step *s, uint32_t how) {
  struct vram__pipe *const pipe = s->pipe;
  vram_live *const live = s->count.live;
  vram__replay *const run = s->replay;
  vram__cuts *const cuts = s->cuts;
  vram__caches *const caches = s->caches;
  vram__layers *const layers = s->layers;
  struct vram__inplace *const inplace = s->inplace;
  const uint32_t live_cap = s->count.live_cap;
  const uint64_t stop_at = s->count.stop_at;
  const uint64_t undone = how & VRAM__RUN_PAST_KNOWN ? vram__undone(s) : 0;
  vram__memory_zero(s, sizeof *s);
  vram__memory_zero(report, sizeof *report);
  s->count.live = live;
  s->count.live_cap = live_cap;
  s->count.stop_at = stop_at;
  s->count.undone = undone;
  s->replay = run;
  s->cuts = cuts;
  s->caches = caches;
  s->layers = layers;
  s->inplace = inplace;
  s->pipe = pipe;
  s->call.recompute = vram__checkpoint_recompute;
  s->call.backward = vram__checkpoint_backward;
  s->g = g;
  s->o = o;
  s->r = report;
  s->phase = VRAM_PHASE_ZERO_GRAD;
  s->leaf.known = (how & VRAM__RUN_PAST_KNOWN) != 0;
  s->rnn_reset = (how & VRAM__RUN_RNN_RESET) != 0;
  s->rnn_cells = (how & VRAM__RUN_RNN_CELLS) != 0;
  s->blas_workspaces = (uint8_t)(how / VRAM__RUN_WORKSPACES % (1 << 2 * VRAM__BLAS_COUNT));
  s->root = g->root;
  s->nth = how / VRAM__RUN_NTH ? how / VRAM__RUN_NTH : 1;
  if (!vram__step_take_scratch(s, scratch, scratch_bytes)) {
    s->failed = VRAM_ERR_MEMORY;
    return VRAM_ERR_MEMORY;
  }
  vram__step_set_options(s);
  s->failed = (uint8_t)vram__step_take_arrays(s);
  return (vram_result)s->failed;
}

/* One run of a step, see above. */
VRAM__FN vram_result vram__step_run(const vram_graph *g, const vram_step_options *o, void *scratch,
                                    uint64_t scratch_bytes, vram_report *report, vram__step *s,
                                    uint32_t how) {
  if (vram__step_set_up(g, o, scratch, scratch_bytes, report, s, how))
    return (vram_result)s->failed;
  vram__step_put_before(s, (how & VRAM__RUN_DRY) != 0);
  if (s->failed)
    return (vram_result)s->failed;
  if (how & VRAM__RUN_DRY) {
    vram__dry_run(s);
    return (vram_result)s->failed;
  }
  vram__step_play(s, how);
  vram__caches_after(s);
  vram__step_report(s);
  return (vram_result)s->failed;
}

/* Does a line of the model call scaled_dot_product_attention? */
static int vram__graph_attends(const vram_graph *g) {
  const vram_node *n = g->first;
  while (n && n->op != VRAM_OP_scaled_dot_product_attention && n->op != VRAM_OP_ring_attention &&
         n->op != VRAM_OP_multi_head_attention && n->op != VRAM_OP_transformer_encoder_layer)
    n = n->next;
  return n != NULL;
}

/* What no step can begin with, or NULL. */
VRAM__FN const char *vram__step_misuse(vram__step *s, const vram_graph *g,
                                       const vram_step_options *o, vram_result *why) {
  const char *refused;
  *why = g->error.code ? g->error.code : VRAM_ERR_VALUE;
  if (g->error.code)
    return g->error.text;
  if (!g->root)
    return "a model without nodes";
  if ((uint32_t)o->cudnn > VRAM_CUDNN_BENCHMARK)
    return "unknown workspaces of cuDNN";
  if ((uint32_t)o->attention >= VRAM_ATTENTION_COUNT)
    return "unknown kernel of attention";
  if (o->attention && !vram__graph_attends(g))
    return "a kernel of attention is asked for, and no line of the model calls "
           "scaled_dot_product_attention";
  if ((uint32_t)o->rules >= VRAM_RULES_COUNT)
    return "unknown rules";
  if ((uint32_t)o->optimizer >= VRAM_OPTIM_COUNT)
    return "unknown optimizer";
  if ((uint32_t)o->optim_impl > VRAM_OPTIM_IMPL_FUSED)
    return "unknown optimizer implementation";
  if (o->amp && o->amp != VRAM_BF16 && o->amp != VRAM_F16)
    return "amp is neither bf16 nor f16";
  if (o->dtype && o->dtype != VRAM_F32 && o->dtype != VRAM_BF16 && o->dtype != VRAM_F16)
    return "the model's dtype is neither f32 nor bf16 nor f16";
  if (o->cc && (o->cc < 50 || o->cc > 129))
    return "a compute capability out of range (expected 50 to 129: times ten)";
  if (o->train && vram__in_backward_problem(g, o))
    return vram__in_backward_problem(g, o);
  if (o->ncheckpoint && !o->checkpoint)
    return "ncheckpoint without checkpoint";
  if (g->checkpoint_open)
    return "a checkpoint block that has not ended";
  refused = vram__wrapper_refuses(g, o, &s->problem_words);
  if (refused)
    return refused;
  if (vram__epoch_misuse(g, o))
    return vram__epoch_misuse(g, o);
  return vram__training_misuse(g, o);
}

/* What vram_step says of r in *err, which may be NULL. */
VRAM__FN void vram__step_error(const vram__step *s, vram_result r, vram_error *err) {
  uint32_t n = 0;
  if (!err)
    return;
  vram__memory_zero(err, sizeof *err);
  err->code = r;
  if (r)
    vram__text_puts(err->text, sizeof err->text, &n, s->problem ? s->problem : vram_result_text(r));
  if (r && s->problem_words.len) {
    vram__text_puts(err->text, sizeof err->text, &n, ": '");
    vram__text_put(err->text, sizeof err->text, &n, s->problem_words.text, s->problem_words.len);
    vram__text_puts(err->text, sizeof err->text, &n, "'");
  }
  if (r && s->problem_node) {
    const vram__span label = vram__node_label(s->problem_node);
    vram__text_puts(err->text, sizeof err->text, &n, " (node ");
    vram__text_put(err->text, sizeof err->text, &n, label.text, label.len);
    vram__text_puts(err->text, sizeof err->text, &n, ")");
    err->line = s->problem_node->line;
  }
}

VRAM_API vram_result vram_step(const vram_graph *g, const vram_step_options *o, void *scratch,
                               uint64_t scratch_bytes, vram_report *report, vram_error *err) {
  vram__step s;
  vram__layers layers;
  vram_step_options none;
  vram_result r;
  vram__memory_zero(&none, sizeof none);
  if (!o)
    o = &none;
  vram__memory_zero(&s, sizeof s);
  s.problem = vram__step_misuse(&s, g, o, &r);
  if (!s.problem && vram__pipe_is(o))
    r = vram__pipe_begin(&g, o, &scratch, &scratch_bytes, &s);
  else if (!s.problem)
    r = VRAM_OK;
  if (!r && o->layers_once && vram__layers_find(&layers, g, o))
    s.layers = &layers;
  if (r)
    vram__memory_zero(report, sizeof *report);
  else if (o->replay)
    r = vram__replay_play_run(g, o, scratch, scratch_bytes, report, &s);
  else
    r = vram__replay_play(g, o, scratch, scratch_bytes, report, &s);
  if ((s.layers && layers.differ) || vram__pipe_differs(&s)) {
    s.layers = NULL;
    r = vram__replay_play(g, o, scratch, scratch_bytes, report, &s);
  }
  vram__step_error(&s, r, err);
  return r;
}

VRAM_API vram_result vram_step_live(const vram_graph *g, const vram_step_options *o, void *scratch,
                                    uint64_t scratch_bytes, const vram_report *report,
                                    vram_live *list, uint32_t cap, uint32_t *count) {
  vram__step s;
  vram_step_options silent;
  vram_report again;
  vram_result r;
  *count = 0;
  if (o)
    silent = *o;
  else
    vram__memory_zero(&silent, sizeof silent);
  silent.event = NULL;
  silent.nodes = NULL;
  silent.replay = NULL;
  vram__memory_zero(&s, sizeof s);
  if (vram__step_misuse(&s, g, &silent, &r))
    return r;
  if (vram__pipe_is(&silent) &&
      (r = vram__pipe_begin(&g, &silent, &scratch, &scratch_bytes, &s)) != VRAM_OK)
    return r;
  s.count.live = list;
  s.count.live_cap = cap;
  s.count.stop_at = report->peak_event + 1;
  /* which event of the optimizer it was shows only where each is played, and a replay has more
     events of wrappers */
  if (!s.count.stop_at || silent.parallel) {
    s.count.stop_at = UINT64_MAX;
    if ((r = vram__replay_play(g, &silent, scratch, scratch_bytes, &again, &s)) != VRAM_OK)
      return r;
    s.count.live = list;
    s.count.live_cap = cap;
    s.count.stop_at = again.peak_event + 1;
  }
  r = vram__replay_play(g, &silent, scratch, scratch_bytes, &again, &s);
  if (r == VRAM_OK)
    *count = s.count.live_count;
  return r;
}
