/* >>step (Implementation) ----------------------------------------------------------------------
   A small PyTorch without numbers: tensors are views of storages, ops allocate and free storages,
   autograd's nodes are records on a tape, backward walks the tape from its end. A storage goes when
   the last tensor, saved tensor or gradient that refers to it goes, as in PyTorch. */

/* A storage, or one more tensor on it (a view). */
typedef struct vram__store {
  uint64_t bytes;
  uint32_t refs;  /* handles of this tensor, and views of it */
  uint32_t srefs; /* tensors on this storage that have handles, and saved ones (owner's slot) */
  uint32_t base;  /* slot of the owner; itself if it owns */
  uint32_t id;    /* of the event; or the next free slot */
  const vram_node *node;
  uint8_t cat;
  uint8_t saved : 1;
  uint8_t held : 1;  /* this slot is what keeps fn */
  uint8_t shown : 1; /* stands for a view of itself, which would hold the storage once more */
  uint16_t out;      /* which output of fn */
  uint32_t block;    /* in the pool of the replay; 0: none */
  uint32_t fn;       /* autograd's node that made the tensor, or leaf; 0: none */
  uint32_t of;       /* a view: slot of the tensor that it is a view of; 0: no view for autograd */
  uint32_t ver;      /* in-place operations on it and its views; those that a view's fn knows of */
  uint32_t writes;   /* the last in-place operation on the storage (owner's slot): the newest record
                        before it, + 1 */
  const vram_dims *d;
} vram__store;

#define VRAM__LEAF 0x80000000u /* an autograd edge to a leaf: the rest is its index */

struct vram__t {
  const vram_dims *d;
  uint32_t st;  /* slot, 0: none */
  uint32_t fn;  /* tape record that made it, or leaf; 0: none */
  uint16_t out; /* which output of fn */
  uint8_t dt;
  uint8_t req; /* requires_grad */
  uint8_t off; /* elements before it in its storage, modulo 16 */
};

typedef struct vram__slot { /* an output of an autograd node: where its gradient arrives */
  vram__t g;
  const vram_dims *d;
  uint8_t dt;
} vram__slot;

typedef struct vram__edge {
  uint32_t fn;
  uint32_t out;
} vram__edge;

typedef struct vram__fn {
  const vram_node *node;
  uint32_t prev;  /* record before it on the tape */
  uint32_t refs;  /* tensors and later records that lead here */
  uint32_t deps;  /* the next allocation's id when it was made; the next one to go */
  uint32_t next;  /* of a checkpointed call: the next record that saves */
  uint32_t frame; /* checkpointed call that it belongs to, 0: none */
  uint16_t kind, nin, nout, nsaved;
  uint8_t done, flag, inner; /* inner: aux is the record of an operation inside this one */
  uint64_t aux;
} vram__fn;

#define VRAM__OWN 2 /* slots of what modules own: all weights, all buffers */

#define VRAM__EDGES(f) ((vram__edge *)(void *)((f) + 1))
#define VRAM__SLOTS(f) ((vram__slot *)(void *)(VRAM__EDGES(f) + (f)->nin))
#define VRAM__SAVED(f) ((vram__t *)(void *)(VRAM__SLOTS(f) + (f)->nout))

typedef struct vram__task { /* gradients that arrive at a leaf in one backward */
  vram__t in;
  uint32_t deps; /* how many are still to come */
} vram__task;

typedef struct vram__leaf {
  const vram_dims *d;
  vram__t grad; /* .grad */
  vram__task task;
  uint64_t had_bytes; /* the step before left a gradient on a storage so large, */
  uint32_t had_with;  /* on that of leaf had_with - 1; 0: on its own */
  uint32_t next_cast; /* next leaf with a cached copy, + 1 */
  uint8_t dt, had;
} vram__leaf;

typedef struct vram__obj { /* a Python variable's tensor */
  vram__t t;
  uint32_t refs;
} vram__obj;

#define VRAM__SPARE 64 /* more than one operation needs at a time */

typedef struct vram__range { /* nodes that are checkpointed */
  const vram_node *first, *last;
  const vram_node *hold;         /* the output is held until this one has run, too */
  const vram_value **arg, **out; /* what it uses from outside, what is used outside */
  uint32_t narg, nout;
  uint32_t behind; /* the first range that is not inside this one */
} vram__range;

/* A call of checkpoint() without reentrance (_CheckpointFrame). Its records save nothing until the
   first of them runs backward; then the nodes run once more. */
typedef struct vram__frame {
  const vram__range *range;
  vram__t *arg;         /* what went in */
  uint32_t *writes;     /* in-place operations on those at that time */
  uint32_t alive;       /* records that have not released what they save, and the call itself */
  uint32_t saves;       /* tensors saved */
  uint32_t first, tail; /* records that save */
  uint32_t final;       /* record that saved last: recomputation ends there, */
  uint32_t before;      /* after so many, */
  uint8_t late;         /* and what it saved it had allocated itself */
  uint8_t done;         /* recomputed */
  uint32_t inputs;      /* inside another call: the record that saves what went in (for that call:
                           _NoopSaveInputs), 0: none */
} vram__frame;

/* Autograd nodes that are not an op of the text form; each has a function vram__bw_NAME. */
/* clang-format off */
#define VRAM__PRIMITIVES(X)                                                                      \
  X(view) X(permute) X(expand) X(slice) X(clone) X(cast)                                         \
  X(addmm) X(baddbmm) X(mm) X(bmm) X(mv) X(dot)                                                  \
  X(nll) X(mean) X(lstm_gates) X(gru_gates) X(index_add)                                                      \
  X(as_strided) X(copy_slices) X(copy) X(noise) X(scale) X(checkpoint) X(inputs)                 \
  X(sdpa_cudnn) X(sdpa_flash) X(sdpa_efficient) X(safe_softmax) X(bn)           \
  X(xlogx) X(ctc)
/* clang-format on */

/* Pointwise ops that save or give other things with other arguments: recipes as in the op table. */
#define VRAM__VARIANTS(X)                                                                          \
  X(add_alpha, "w: g %; x: g =")                                                                   \
  X(sub_alpha, "w: g ~ %; x: g =")                                                                 \
  X(div_rounded, "w: x ' w ' z; x: w ' z")                                                         \
  X(pow_tensor, "w: g w ! x ! ? / y x > ~ * 0 3 *; x: g w x w % * * * 0 w ! 3")                    \
  X(lerp_tensor, "w: g b *; x: g b % *; b: g w x * *")                                             \
  X(clamp_both, "x: 0 x ! x ! g 3; inplace: copy")                                                 \
  X(zeros_like, "x: g ~")

enum {
  VRAM__K_FIRST = VRAM_OP_COUNT - 1,
#define VRAM__X(name) VRAM__K_##name,
  VRAM__PRIMITIVES(VRAM__X)
#undef VRAM__X
      VRAM__K_VARIANTS, /* the first of them */
  VRAM__K_BEFORE = VRAM__K_VARIANTS - 1,
#define VRAM__X(name, recipe) VRAM__K_##name,
  VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
      VRAM__K_COUNT
};

typedef struct vram__cats { /* bytes by category */
  uint64_t of[VRAM_CATEGORY_COUNT];
} vram__cats;

/* Where vram_chain_cut cuts, and what it finds between the cuts. */
typedef struct vram__segment { /* a stage; [nstage - 1] is the rest */
  const vram_node *first, *last;
  const vram_value *value;      /* what crosses behind it, */
  uint32_t id;                  /* on which storage, */
  uint8_t bad;                  /* which was overwritten, or went before backward */
  uint64_t output, saved, gone; /* bytes; gone: of saved, before its own backward */
  uint64_t forward_temp, plain_temp, backward_temp;
} vram__segment;

typedef struct vram__cuts {
  vram__segment *cut;
  uint32_t ncut, at;  /* the stage that runs */
  uint32_t *stage_of; /* by node */
  uint32_t *last;     /* by value: the node that uses it last */
  uint8_t *side;      /* by value: 1: no cut waits for it */
  uint32_t *held;     /* storages of those, so far */
  uint32_t nheld;
  uint8_t plain; /* no stage saves */
  uint8_t phase;
  uint32_t first_id, backward_id; /* of the stage's first allocation, of backward's */
  uint64_t now, peak, workspace;
  uint64_t carried; /* gradients that the stage before in backward left beside that of its input */
  uint64_t side_bytes, autocast, autocast_peak, workspace_left;
} vram__cuts;

struct vram__s {
  const vram_graph *g;
  vram__cuts *cuts;    /* of vram_chain_cut, or NULL */
  vram__t rnn_dropout; /* cuDNN's random numbers, one for the process */
  uint8_t rnn_reset;   /* made anew by the next call: the generator's state was set */
  const vram_step_options *o;
  uint8_t *mem;
  uint64_t used, cap; /* the tape grows up to there, */
  vram__store *top;   /* slots grow down: slot i is top - i; slot 0 stands for none */
  vram_dims *spare;   /* when the memory is used up */
  uint32_t nspare;
  uint32_t nstore, free;
  uint32_t last_fn, max_fn_in;
  uint32_t gone; /* records that are about to go */
  uint8_t going;
  uint32_t casts;     /* leaves with a cached copy */
  vram__range *range; /* what is checkpointed, in order */
  uint32_t nrange;
  vram__frame *frame; /* the checkpointed call that runs, */
  uint8_t stale;      /* something that may be saved was overwritten in place */
  uint8_t again;      /* in its recomputation: */
  uint8_t mute;       /* it has all it needs, nothing is allocated any more */
  uint32_t count;     /* tensors saved so far */
  uint32_t cursor;    /* record of the call whose saved tensors come next */
  uint32_t full;      /* record that saved the last of them */
  uint32_t depth;     /* backward inside backward */
  uint64_t most_used;
  uint32_t most_args; /* of one range */
  vram__obj *obj;
  uint32_t *name_of; /* value index -> object */
  vram__t *param;
  vram__leaf *leaf;
  vram__t *cast;     /* of each leaf autocast's cached copy; NULL: no autocast */
  vram__task *inner; /* of each leaf in the backward inside backward; NULL: there is none */
  uint32_t nleaf, nparam_leaf;
  vram__t *gin;           /* gradients for the inputs of the running backward node */
  vram__t *args;          /* inputs and outputs of the running node */
  vram__t loss, scale;    /* the scale of GradScaler */
  const vram_value *root; /* what backward starts from, or the caller keeps */
  uint8_t *skip;          /* nodes that inference leaves out; NULL: none */
  struct vram__optim_param *optim;
  const char *problem; /* why these options are impossible */
  const vram_node *problem_node;
  uint64_t optim_held;             /* optimizer state from before the step */
  vram__total optim_all;           /* a list like all trainable parameters */
  vram__total had;                 /* the storages of all gradients */
  uint8_t scaler;                  /* GradScaler takes part */
  uint8_t ideal;                   /* VRAM_RULES_IDEAL */
  uint8_t registers;               /* results stay in registers: nothing is allocated */
  uint8_t known;                   /* leaf.had is known from a step before */
  uint8_t all_had;                 /* every trainable parameter got a gradient, */
  uint8_t missing;                 /* or one did not, so it has no optimizer state */
  uint32_t plan[VRAM__K_COUNT][2]; /* recipes in short, of the op and in place; 0: not yet */
  const vram_dims *cache[64];
  const vram_dims *scalar;
  const vram_dims *vec; /* the last one of one axis that vram__vec made */
  const vram_node *node;
  vram_phase phase;
  uint8_t grad, train, amp, failed, low;
  uint8_t watched; /* single events matter: somebody listens, or the live set is wanted */
  uint8_t cat;     /* category of what is allocated now */
  uint32_t cc, sm, threads;
  uint64_t ws;
  uint64_t cur, peak, total_peak, next_id, events;
  uint64_t blocks, blocks_peak; /* in blocks of the caching allocator, */
  uint64_t most_blocks;         /* of all phases, */
  uint64_t upper, upper_peak;   /* and what they take at most */
  uint64_t custom, custom_most; /* that custom ops may save less, take less for a moment */
  uint64_t stop_at;             /* 1 + the event at which the live set is wanted, 0: none */
  vram_live *live;
  uint32_t live_cap, live_count;
  uint64_t peak_event;
  vram__cats cats, peak_cats;
  const vram_node *peak_node;
  vram_phase peak_phase;
  uint8_t fresh; /* the highest point so far is now */
  vram_report *r;
  vram__run *run; /* NULL: no replay */
};

/* ---- the replay of a run: the model goes to the device, then its inputs; two steps, and the one
   that is reported. What a step leaves behind keeps its block. */

struct vram__run {
  vram_pool pool;
  uint64_t room, next;  /* of the simulated device: bytes left, the next address */
  uint32_t *gradient;   /* blocks of the leaves' gradients */
  uint32_t rnn_dropout; /* block of its state */
  uint8_t fresh;        /* nothing is on the device yet */
  uint8_t full;         /* the pool's own memory was too small, */
  uint8_t oom;          /* or that of the device: nothing more is played, */
  uint8_t tight;        /* and nobody asks about the rest */
  /* a step on tape: see vram__play_tape */
  uint64_t *tape;
  uint32_t *block; /* of each id */
  uint32_t ntape, tape_cap, ids;
  uint32_t body, optim, after; /* where the step begins, its optimizer, what follows that */
  uint8_t taping;              /* events go on the tape, not into the pool */
  uint8_t untold;              /* what happens once more is not the same, or the tape is full */
};

enum { VRAM__TAPE_ALLOC, VRAM__TAPE_FREE, VRAM__TAPE_OWN, VRAM__TAPE_PHASE };

static inline void vram__tape(vram__run *run, uint32_t kind, uint64_t value) {
  if (run->ntape < run->tape_cap)
    run->tape[run->ntape++] = value << 2 | kind;
  else
    run->untold = 1;
}

static uint64_t vram__run_alloc(void *user, uint64_t bytes, uint64_t stream) {
  vram__run *run = (vram__run *)user;
  const uint64_t at = run->next;
  (void)stream;
  if (bytes > run->room)
    return 0;
  run->room -= bytes;
  run->next += (bytes + VRAM__SMALL_SEGMENT - 1) / VRAM__SMALL_SEGMENT * VRAM__SMALL_SEGMENT;
  return at;
}

static void vram__run_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  (void)address, (void)stream;
  ((vram__run *)user)->room += bytes;
}

static uint64_t vram__run_reserve(void *user, uint64_t bytes) {
  vram__run *run = (vram__run *)user;
  const uint64_t granule = VRAM__LARGE_SEGMENT;
  const uint64_t at = (run->next + granule - 1) / granule * granule;
  run->next = at + bytes;
  return at;
}

static void vram__run_unreserve(void *user, uint64_t address, uint64_t bytes) {
  (void)user, (void)address, (void)bytes;
}

static int vram__run_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  vram__run *run = (vram__run *)user;
  (void)address, (void)granule;
  if (bytes > run->room)
    return 0;
  run->room -= bytes;
  return 1;
}

static void vram__run_unmap(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  (void)address, (void)granule;
  ((vram__run *)user)->room += bytes;
}

static uint32_t vram__run_get(vram__s *s, uint64_t bytes) {
  vram__run *run = s->run;
  uint32_t x = 0;
  vram_result r;
  if (!bytes || run->full || run->oom)
    return 0;
  r = vram__pool_get(&run->pool, bytes, 0, &x);
  run->full = r == VRAM_ERR_LIMIT;
  run->oom = r == VRAM_ERR_MEMORY;
  if (run->oom && run->tight)
    s->failed = VRAM_ERR_LIMIT; /* the quickest way out */
  return x;
}

static void vram__run_put(vram__run *run, uint32_t x) {
  if (x && !run->full && !run->oom)
    vram__pool_put(&run->pool, x);
}

/* Whoever listens to the allocator (vram_pool_options.event) hears what it is for, and when. */
static inline void vram__run_as(vram__s *s, uint8_t cat, const vram_node *node) {
  vram_event *as = &s->run->pool.as;
  as->category = as->was = (vram_category)cat;
  as->node = node;
  as->phase = s->phase;
}

static void vram__emit_event(vram__s *s, vram_action a, const vram__store *st) {
  vram_event e;
  vram__zero(&e, sizeof e);
  e.action = a;
  e.phase = s->phase;
  e.category = e.was = (vram_category)st->cat;
  e.id = st->id == UINT32_MAX ? -1 : (int64_t)st->id;
  e.bytes = st->bytes;
  e.node = a == VRAM_ALLOC ? s->node : st->node;
  s->o->event(s->o->user, &e);
}

static void vram__at_peak(vram__s *s) {
  s->peak_cats = s->cats;
  s->fresh = 0;
}

static void vram__live_one(vram__s *s, uint64_t bytes, uint8_t cat, const vram_node *node) {
  if (bytes && s->live_count < s->live_cap) {
    vram_live *l = s->live + s->live_count;
    l->bytes = bytes;
    l->category = (vram_category)cat;
    l->node = node;
  }
  s->live_count += bytes != 0;
}

/* What is allocated now, for vram_step_live. */
static void vram__live_set(vram__s *s) {
  const vram_param *p;
  uint32_t i;
  for (p = s->g->param_first; p; p = p->next)
    if (p->node->op != VRAM_OP_parameter && p->node->op != VRAM_OP_buffer)
      vram__live_one(s, vram__bytes_of(p->d, s->param[p->index].dt),
                     p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS,
                     p->node);
  for (i = 1; i <= s->nstore; i++) {
    const vram__store *st = s->top - i;
    if (st->base == i && st->srefs)
      vram__live_one(s, st->bytes, st->cat, st->node);
  }
  vram__live_one(s, s->optim_held, VRAM_CATEGORY_OPTIMIZER, NULL);
}

static inline void vram__tape_event(vram__run *run, vram_action a, const vram__store *st) {
  if (a == VRAM_FREE)
    vram__tape(run, VRAM__TAPE_FREE, st->id);
  else
    vram__tape(run, VRAM__TAPE_ALLOC, st->bytes);
  run->untold |= a == VRAM_FREE ? st->id >= run->ids : st->id != run->ids++;
}

/* The stage that runs ends. */
static void vram__cuts_close(vram__cuts *c) {
  vram__segment *q = c->cut + c->at;
  if (c->phase == VRAM_PHASE_FORWARD) {
    const uint64_t kept = c->plain ? q->output : c->now;
    const uint64_t temp = c->peak > kept ? c->peak - kept : 0;
    c->workspace_left += c->workspace;
    if (c->plain)
      q->plain_temp = temp;
    else
      q->saved = c->now < q->output ? q->output : c->now, q->forward_temp = temp;
  } else {
    const uint64_t in = c->at ? q[-1].output : 0, model = q->saved + q->output + in;
    q->backward_temp = c->peak > model ? c->peak - model : 0;
    c->carried = c->now > in ? c->now - in : 0;
    c->workspace_left += c->workspace;
  }
  c->workspace = 0;
}

/* Counts an allocation or free of a plain step, or of a forward in which no stage saves. */
static void vram__cuts_event(vram__s *s, int alloc, const vram__store *st) {
  vram__cuts *c = s->cuts;
  const uint64_t bytes = vram__blocks(st->bytes);
  uint32_t stage = s->node ? c->stage_of[s->node->index] : c->at, i;
  if (s->phase != VRAM_PHASE_FORWARD && (s->phase != VRAM_PHASE_BACKWARD || c->plain))
    return;
  if (s->phase != c->phase || stage != c->at) {
    if (c->phase)
      vram__cuts_close(c);
    if (s->phase == VRAM_PHASE_BACKWARD && c->phase != s->phase)
      c->backward_id = alloc ? st->id : (uint32_t)s->next_id;
    c->phase = (uint8_t)s->phase;
    c->at = stage;
    c->now = 0;
    c->first_id = alloc ? st->id : (uint32_t)s->next_id;
    if (s->phase == VRAM_PHASE_BACKWARD)
      c->now = c->cut[stage].saved - c->cut[stage].gone + c->cut[stage].output + c->carried;
    c->peak = c->now;
  }
  for (i = 0; i < c->nheld; i++)
    if (c->held[i] == st->id)
      return;
  if (!alloc && s->phase == VRAM_PHASE_FORWARD && !c->plain) /* nobody keeps it for backward */
    for (i = 0; i <= c->at; i++)
      if (c->cut[i].id == st->id)
        c->cut[i].bad = 1;
  if (st->cat == VRAM_CATEGORY_AUTOCAST) {
    c->autocast = alloc ? c->autocast + bytes : c->autocast - bytes;
    if (c->autocast > c->autocast_peak)
      c->autocast_peak = c->autocast;
  } else if (st->cat == VRAM_CATEGORY_WORKSPACE) {
    if (alloc)
      c->workspace += bytes;
    else if (c->workspace >= bytes)
      c->workspace -= bytes;
  } else if (alloc)
    c->now += bytes;
  else if (s->phase == VRAM_PHASE_FORWARD
               ? st->id >= c->first_id
               : st->id >= c->backward_id || !st->node || c->stage_of[st->node->index] == stage)
    c->now -= bytes < c->now ? bytes : c->now;
  else if (s->phase == VRAM_PHASE_BACKWARD && c->stage_of[st->node->index] < stage)
    c->cut[c->stage_of[st->node->index]].gone += bytes;
  if (c->now + c->workspace > c->peak)
    c->peak = c->now + c->workspace;
}

/* Node n of the forward pass has run. */
static void vram__cuts_node(vram__s *s, const vram_node *n) {
  vram__cuts *c = s->cuts;
  const uint32_t stage = c->stage_of[n->index];
  vram__segment *q = c->cut + stage;
  const vram__store *b;
  uint32_t i, k;
  for (i = 0; i < n->nout; i++) {
    const vram_value *v = &n->out[i];
    const vram__t *t = &s->obj[s->name_of[v->index]].t;
    if (!c->side[v->index] || !t->st || c->last[v->index] <= q->last->index)
      continue;
    b = s->top - (s->top - t->st)->base;
    for (k = 0; k < c->nheld && c->held[k] != b->id;)
      k++;
    if (k < c->nheld || b->id == UINT32_MAX)
      continue;
    c->held[c->nheld++] = b->id;
    c->side_bytes += vram__blocks(b->bytes);
    c->now -= vram__blocks(b->bytes) < c->now ? vram__blocks(b->bytes) : c->now;
  }
  if (q->last != n || !q->value)
    return;
  b = s->top - (s->top - s->obj[s->name_of[q->value->index]].t.st)->base;
  q->id = s->obj[s->name_of[q->value->index]].t.st ? b->id : UINT32_MAX;
  q->output = q->id == UINT32_MAX ? 0 : vram__blocks(b->bytes);
}

static void vram__watch(vram__s *s, vram_action a, vram__store *st) {
  if (s->run && s->run->taping)
    vram__tape_event(s->run, a, st);
  else if (s->run) {
    vram__run_as(s, st->cat, a == VRAM_ALLOC ? s->node : st->node);
    if (a == VRAM_ALLOC)
      st->block = vram__run_get(s, st->bytes);
    else
      vram__run_put(s->run, st->block);
  }
  if (s->o->event)
    vram__emit_event(s, a, st);
  if (s->cuts)
    vram__cuts_event(s, a == VRAM_ALLOC, st);
  if (a == VRAM_ALLOC && s->events + 1 == s->stop_at)
    vram__live_set(s);
}

/* What vram__s counts: so many bytes more. */
static inline void vram__grow(vram__s *s, uint64_t bytes, uint8_t cat) {
  const uint64_t block = vram__blocks(bytes);
  s->cur += bytes;
  s->cats.of[cat] += bytes;
  s->blocks += block;
  s->upper += block + (bytes > VRAM__SMALL ? VRAM__SMALL : 0);
  if (s->blocks > s->blocks_peak)
    s->blocks_peak = s->blocks;
  if (s->upper > s->upper_peak)
    s->upper_peak = s->upper;
  if (s->cur > s->peak) {
    s->peak = s->cur;
    if (s->cur > s->total_peak) {
      s->total_peak = s->cur;
      s->peak_event = s->events;
      s->peak_node = s->node;
      s->peak_phase = s->phase;
      s->fresh = 1;
    }
  }
}

static inline void vram__shrink(vram__s *s, uint64_t bytes, uint8_t cat) {
  const uint64_t block = vram__blocks(bytes);
  if (s->fresh)
    vram__at_peak(s);
  s->cur -= bytes;
  s->cats.of[cat] -= bytes;
  s->blocks -= block;
  s->upper -= block + (bytes > VRAM__SMALL ? VRAM__SMALL : 0);
}

/* So many bytes can be added up, or the step fails. */
static inline int vram__countable(vram__s *s, uint64_t bytes) {
  if (bytes <= (uint64_t)VRAM_MAX_BYTES - s->cur)
    return 1;
  s->failed = VRAM_ERR_OVERFLOW;
  return 0;
}

/* A slot that nobody uses; 0: the scratch memory is used up. */
static inline uint32_t vram__slot_new(vram__s *s) {
  const uint32_t i = s->free;
  if (i) {
    s->free = (s->top - i)->id;
    return i;
  }
  if (s->used + sizeof(vram__store) > s->cap) {
    s->failed = VRAM_ERR_MEMORY;
    return 0;
  }
  s->cap -= sizeof(vram__store);
  return ++s->nstore;
}

/* A new storage of so many bytes for a tensor of dims d: its slot (no bytes: PyTorch allocates
   nothing). */
VRAM__PART uint32_t vram__new_of(vram__s *s, uint64_t bytes, const vram_dims *d) {
  uint32_t i = s->free;
  vram__store *st = s->top - i;
  if (s->mute)
    return 0;
  if (i)
    s->free = st->id;
  else {
    i = vram__slot_new(s);
    if (!i)
      return 0;
    st = s->top - i;
  }
  if (bytes > (uint64_t)VRAM_MAX_BYTES - s->cur) {
    s->failed = VRAM_ERR_OVERFLOW;
    bytes = 0;
  }
  st->bytes = bytes;
  st->refs = st->srefs = 1;
  st->base = i;
  st->node = s->node;
  st->cat = s->cat;
  st->saved = st->held = st->shown = 0;
  st->block = 0;
  st->fn = st->of = st->ver = st->writes = 0;
  st->d = d;
  st->id = UINT32_MAX;
  if (bytes) {
    st->id = (uint32_t)s->next_id++;
    s->events++;
    vram__grow(s, bytes, s->cat);
    if (s->watched)
      vram__watch(s, VRAM_ALLOC, st);
  }
  return i;
}

/* One whose shape nobody asks for. */
static uint32_t vram__new(vram__s *s, uint64_t bytes) { return vram__new_of(s, bytes, NULL); }

static void vram__fn_unref(vram__s *s, uint32_t fn);

/* Slot i and the storage that it owns go. */
VRAM__PART void vram__storage_gone(vram__s *s, uint32_t i) {
  vram__store *b = s->top - i;
  if (b->bytes) {
    s->events++;
    if (b->saved && s->phase == VRAM_PHASE_FORWARD) /* a branch that leads nowhere is given up */
      s->r->saved_bytes -= b->bytes;
    vram__shrink(s, b->bytes, b->cat);
    if (s->watched)
      vram__watch(s, VRAM_FREE, b);
  }
  b->id = s->free;
  s->free = i;
}

/* One tensor or saved tensor less on the storage that slot i owns. */
static inline void vram__drop_storage(vram__s *s, uint32_t i) {
  if (--(s->top - i)->srefs == 0)
    vram__storage_gone(s, i);
}

/* The same of a tensor that is a view or keeps a record; what it is a view of may go with it. */
VRAM__RARE void vram__view_gone(vram__s *s, uint32_t i) {
  vram__store *st = s->top - i;
  for (;;) {
    const uint32_t base = st->base, of = st->of;
    if (st->held) { /* does not come back here: what is saved holds storages, not tensors */
      st->held = 0;
      vram__fn_unref(s, st->fn);
    }
    if (base != i) {
      st->id = s->free;
      st->base = i;
      st->srefs = 0;
      s->free = i;
    }
    vram__drop_storage(s, base);
    i = of;
    st = s->top - i;
    if (!i || --st->refs)
      return;
  }
}

/* The last handle of a tensor goes. */
static void vram__tensor_gone(vram__s *s, uint32_t i) {
  const vram__store *st = s->top - i;
  if (st->base == i && !st->of && !st->held)
    vram__drop_storage(s, i);
  else
    vram__view_gone(s, i);
}

/* One handle of a tensor goes. */
static inline void vram__drop_store(vram__s *s, uint32_t i) {
  if (i && --(s->top - i)->refs == 0)
    vram__tensor_gone(s, i);
}

/* A workspace that cuDNN chooses at run time: nothing derives it, so only the upper bound takes it
   in. cuDNN's kernels that run channels-last convert what is stored otherwise, and those that split
   a sum add up in fp32: at most once each tensor that takes part, in fp32 (developer guide of
   cuDNN: conversion of tensor formats, deterministic split-k). */
static void vram__may_need(vram__s *s, uint64_t elements) {
  uint64_t n = s->upper + VRAM__SMALL + 4 * elements; /* below 2^64 */
  if (n > (uint64_t)VRAM_MAX_BYTES)
    n = (uint64_t)VRAM_MAX_BYTES;
  if (!s->ideal && n > s->upper_peak)
    s->upper_peak = n;
}

/* Bytes that are asked for and given back at once. */
static void vram__brief(vram__s *s, uint64_t bytes) {
  if (s->watched)
    vram__drop_store(s, vram__new(s, bytes));
  else if (bytes && !s->mute && vram__countable(s, bytes)) {
    s->next_id++;
    s->events++;
    vram__grow(s, bytes, s->cat);
    s->events++;
    vram__shrink(s, bytes, s->cat);
  }
}

static void vram__workspace(vram__s *s, uint64_t bytes) {
  const uint8_t cat = s->cat;
  if (s->ideal)
    return;
  if (bytes > s->r->workspace_bytes)
    s->r->workspace_bytes = bytes;
  s->cat = VRAM_CATEGORY_WORKSPACE;
  vram__brief(s, bytes);
  s->cat = cat;
}

