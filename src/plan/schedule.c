/* >>schedule (Implementation) ------------------------------------------------------------------
   First what a chain must be, and the replay of moves: it shares nothing else with the planners. */

VRAM_API const char *vram_move_name(uint32_t kind) {
#define VRAM__X(id, text) text,
  static const char *const name[] = {VRAM_MOVES(VRAM__X) "?"};
#undef VRAM__X
  return name[kind < VRAM_MOVE_COUNT ? kind : (uint32_t)VRAM_MOVE_COUNT];
}

VRAM_API const char *vram_planner_name(uint32_t planner) {
#define VRAM__X(id, text) text,
  static const char *const name[] = {VRAM_PLANNERS(VRAM__X) "?"};
#undef VRAM__X
  return name[planner < VRAM_PLANNER_COUNT ? planner : (uint32_t)VRAM_PLANNER_COUNT];
}

VRAM__ONCE_END
static uint64_t vram__larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t vram__smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t vram__less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static uint64_t vram__chain_align(const vram_chain *c, uint64_t bytes) {
  const uint64_t a = c->align ? c->align - 1 : 0;
  return bytes > (uint64_t)VRAM_MAX_BYTES - a ? VRAM_OVERFLOW : (bytes + a) & ~a;
}

VRAM__ONCE_BEGIN
/* An error's text from pieces. err may be NULL. */
static vram_result vram__chain_error(vram_error *err, vram_result code, uint64_t line,
                                     const char *what) {
  uint32_t n = 0;
  if (err) {
    vram__zero(err, sizeof *err);
    err->code = code;
    err->line = (uint32_t)line;
    vram__puts(err->text, sizeof err->text, &n, what);
  }
  return code;
}

static void vram__chain_say(vram_error *err, const char *what) {
  uint32_t n;
  if (err) {
    n = vram__len(err->text);
    vram__puts(err->text, sizeof err->text, &n, what);
  }
}

static void vram__chain_number(vram_error *err, uint64_t v) {
  uint32_t n;
  if (err) {
    n = vram__len(err->text);
    vram__putu(err->text, sizeof err->text, &n, v);
  }
}

static void vram__chain_stage(vram_error *err, const vram_chain *c, uint32_t i) {
  vram__chain_say(err, "stage ");
  vram__chain_number(err, i);
  if (c->stage[i].name) {
    vram__chain_say(err, " (");
    vram__chain_say(err, c->stage[i].name);
    vram__chain_say(err, ")");
  }
}

static vram_result vram__stage_error(vram_error *err, const vram_chain *c, uint32_t i,
                                     vram_result code, const char *what) {
  vram__chain_error(err, code, (uint64_t)i + 1, "");
  vram__chain_stage(err, c, i);
  vram__chain_say(err, ": ");
  vram__chain_say(err, what);
  return code;
}

/* What one buffer's copy to the host or back costs, or VRAM_OVERFLOW. */
static uint64_t vram__transfer(const vram_chain *c, uint64_t bytes) {
  const uint64_t per = c->transfer_bytes ? c->transfer_bytes : 1, rest = bytes % per;
  const uint64_t part = vram__mul(rest, c->transfer_cost);
  return part == VRAM_OVERFLOW
             ? part
             : vram__plus(vram__mul(bytes / per, c->transfer_cost), part / per + (part % per != 0));
}

static vram_result vram__chain_check(const vram_chain *c, vram_error *err) {
  uint64_t bytes, cost = 0;
  uint32_t i, w;
  if (!c->nstage || !c->stage)
    return vram__chain_error(err, VRAM_ERR_VALUE, 0,
                             "a chain without stages (found 0, expected at least 1)");
  if (c->nstage > VRAM_MAX_STAGES) {
    vram__chain_error(err, VRAM_ERR_LIMIT, 0, "a chain of too many stages (found ");
    vram__chain_number(err, c->nstage);
    vram__chain_say(err, ", expected at most 4096)");
    return VRAM_ERR_LIMIT;
  }
  if (c->align & (c->align - 1)) {
    vram__chain_error(err, VRAM_ERR_VALUE, 0, "align is no power of two (found ");
    vram__chain_number(err, c->align);
    vram__chain_say(err, ")");
    return VRAM_ERR_VALUE;
  }
  if (c->input_gradient_bytes && c->input_gradient_bytes != c->input_bytes) {
    vram__chain_error(err, VRAM_ERR_VALUE, 1, "input_gradient_bytes (found ");
    vram__chain_number(err, c->input_gradient_bytes);
    vram__chain_say(err, ", expected 0 or input_bytes, ");
    vram__chain_number(err, c->input_bytes);
    vram__chain_say(err, ")");
    return VRAM_ERR_VALUE;
  }
  bytes = vram__plus(c->static_bytes, vram__plus(vram__chain_align(c, c->input_bytes),
                                                 vram__chain_align(c, c->input_gradient_bytes)));
  for (i = 0; i < c->nstage; i++) {
    const vram_stage *s = c->stage + i;
    uint64_t most = 0, dear = s->forward_cost;
    if (!s->nway || !s->way)
      return vram__stage_error(err, c, i, VRAM_ERR_VALUE,
                               "no way to save (found 0, expected at least 1)");
    if (s->nway > UINT8_MAX)
      return vram__stage_error(err, c, i, VRAM_ERR_LIMIT,
                               "too many ways to save (expected at most 255)");
    if (i + 1 == c->nstage && s->output_bytes)
      return vram__stage_error(err, c, i, VRAM_ERR_VALUE,
                               "the last stage, the loss, has output_bytes (expected 0)");
    for (w = 0; w < s->nway; w++) {
      const vram_way *y = s->way + w;
      if (y->saved_bytes < s->output_bytes) {
        vram__stage_error(err, c, i, VRAM_ERR_VALUE, "way ");
        vram__chain_number(err, w);
        vram__chain_say(err, " has saved_bytes ");
        vram__chain_number(err, y->saved_bytes);
        vram__chain_say(err, " (expected at least output_bytes, ");
        vram__chain_number(err, s->output_bytes);
        vram__chain_say(err, ")");
        return VRAM_ERR_VALUE;
      }
      most = vram__larger(most,
                          vram__plus(vram__chain_align(c, y->saved_bytes - s->output_bytes),
                                     vram__larger(vram__chain_align(c, y->forward_temp_bytes),
                                                  vram__chain_align(c, y->backward_temp_bytes))));
      dear = vram__larger(dear, vram__plus(y->forward_cost, y->backward_cost));
    }
    most = vram__larger(most, vram__chain_align(c, s->forward_temp_bytes));
    /* every output twice: its gradient */
    bytes =
        vram__plus(bytes, vram__plus(most, vram__mul(vram__chain_align(c, s->output_bytes), 2)));
    cost = vram__plus(cost, dear);
    if (bytes > (uint64_t)VRAM_MAX_BYTES)
      return vram__stage_error(err, c, i, VRAM_ERR_OVERFLOW,
                               "the bytes up to here add up to more than 2^63-1");
    if (cost > (uint64_t)VRAM_MAX_BYTES)
      return vram__stage_error(err, c, i, VRAM_ERR_OVERFLOW,
                               "the costs up to here add up to more than 2^63-1");
  }
  if (vram__transfer(c, bytes - c->static_bytes) > (uint64_t)VRAM_MAX_BYTES)
    return vram__chain_error(err, VRAM_ERR_OVERFLOW, 0,
                             "transfer_cost of the chain's bytes is more than 2^63-1");
  return VRAM_OK;
}

VRAM__ONCE_END

enum { VRAM__GONE, VRAM__DEVICE, VRAM__HOST };

typedef struct vram__replay {
  const vram_chain *c;
  uint8_t *x, *saved; /* where they are: xi, what stage i saved */
  uint8_t *way, *ran;
  uint64_t device, host;
  uint32_t back; /* stages before this have not run backward */
} vram__replay;

VRAM_API uint64_t vram_schedule_verify_bytes(const vram_chain *c) {
  return ((uint64_t)c->nstage + 1) * 4;
}

static uint64_t vram__x_bytes(const vram_chain *c, uint32_t i) {
  return vram__chain_align(c, i ? c->stage[i - 1].output_bytes : c->input_bytes);
}

static uint64_t vram__saved_bytes(const vram_chain *c, uint32_t i, uint32_t way) {
  return vram__chain_align(c, c->stage[i].way[way].saved_bytes - c->stage[i].output_bytes);
}

static uint64_t vram__gradient_bytes(const vram_chain *c, uint32_t i) {
  return i ? vram__x_bytes(c, i) : vram__chain_align(c, c->input_gradient_bytes);
}

/* xi goes, unless stage i - 1 saved it. */
static void vram__replay_drop(vram__replay *r, uint32_t i) {
  if (!i || !r->saved[i - 1]) {
    r->x[i] = VRAM__GONE;
    r->device -= vram__x_bytes(r->c, i);
  }
}

static const char *vram__replay_lacks(const vram__replay *r, const vram_move *m) {
  static const char *const input[] = {"its input is not there", "", "its input is on the host"};
  static const char *const saved[] = {"what it saves is not there", "",
                                      "what it saved is on the host"};
  const uint32_t i = m->stage;
  switch (m->kind) {
  case VRAM_MOVE_DROP:
  case VRAM_MOVE_CHECKPOINT:
  case VRAM_MOVE_SAVE:
    if (i >= r->back)
      return "it has run backward already";
    if (r->x[i] != VRAM__DEVICE)
      return input[r->x[i]];
    if (r->x[i + 1])
      return "its output is there already";
    return m->kind == VRAM_MOVE_SAVE && m->way >= r->c->stage[i].nway ? "it has no such way" : NULL;
  case VRAM_MOVE_BACKWARD:
    if (i + 1 != r->back)
      return i < r->back ? "the gradient of its output is not there" : "it has run already";
    if (r->x[i] != VRAM__DEVICE)
      return input[r->x[i]];
    if (r->saved[i] != VRAM__DEVICE)
      return saved[r->saved[i]];
    return r->x[i + 1] != VRAM__DEVICE ? "its output is on the host" : NULL;
  case VRAM_MOVE_OFFLOAD:
    return r->x[i] != VRAM__DEVICE ? input[r->x[i]] : NULL;
  case VRAM_MOVE_OFFLOAD_SAVED:
    return r->saved[i] != VRAM__DEVICE ? saved[r->saved[i]] : NULL;
  case VRAM_MOVE_FETCH:
    return r->x[i] != VRAM__HOST ? "its input is not on the host" : NULL;
  case VRAM_MOVE_FETCH_SAVED:
    return r->saved[i] != VRAM__HOST ? "what it saved is not on the host" : NULL;
  default:
    return "no such move";
  }
}

VRAM_API vram_result vram_schedule_verify(const vram_chain *c, const vram_move *move,
                                          uint32_t nmove, void *scratch, uint64_t scratch_bytes,
                                          vram_schedule_count *count, vram_error *err) {
  vram__replay r;
  vram_schedule_count n;
  uint32_t k, i;
  const vram_result bad = vram__chain_check(c, err);
  vram__zero(count, sizeof *count);
  if (bad)
    return bad;
  if (!scratch || scratch_bytes < vram_schedule_verify_bytes(c))
    return vram__chain_error(err, VRAM_ERR_MEMORY, 0,
                             "the scratch is too small (expected vram_schedule_verify_bytes)");
  vram__zero(&n, sizeof n);
  vram__zero(&r, sizeof r);
  vram__zero(scratch, vram_schedule_verify_bytes(c));
  r.c = c;
  r.x = (uint8_t *)scratch;
  r.saved = r.x + c->nstage + 1;
  r.way = r.saved + c->nstage + 1;
  r.ran = r.way + c->nstage + 1;
  r.back = c->nstage;
  r.x[0] = VRAM__DEVICE;
  n.peak_bytes = r.device = c->static_bytes + vram__x_bytes(c, 0);
  for (k = 0; k < nmove; k++) {
    const vram_move *m = move + k;
    const vram_stage *s;
    const vram_way *w;
    const char *lacks = m->stage < c->nstage ? vram__replay_lacks(&r, m) : "no such stage";
    uint64_t most, cost, again = 0, bytes;
    if (lacks) {
      vram__chain_error(err, VRAM_ERR_VALUE, (uint64_t)k + 1, "move ");
      vram__chain_number(err, k);
      vram__chain_say(err, ", ");
      vram__chain_say(err, vram_move_name(m->kind));
      vram__chain_say(err, " of ");
      if (m->stage < c->nstage)
        vram__chain_stage(err, c, m->stage);
      else
        vram__chain_number(err, m->stage);
      vram__chain_say(err, ": ");
      vram__chain_say(err, lacks);
      return VRAM_ERR_VALUE;
    }
    i = m->stage;
    s = c->stage + i;
    switch (m->kind) {
    case VRAM_MOVE_DROP:
    case VRAM_MOVE_CHECKPOINT:
      r.device += vram__x_bytes(c, i + 1);
      most = r.device + vram__chain_align(c, s->forward_temp_bytes);
      cost = s->forward_cost;
      break;
    case VRAM_MOVE_SAVE:
      w = s->way + m->way;
      r.device += vram__x_bytes(c, i + 1) + vram__saved_bytes(c, i, m->way);
      most = r.device + vram__chain_align(c, w->forward_temp_bytes);
      cost = w->forward_cost;
      r.saved[i] = VRAM__DEVICE;
      r.way[i] = m->way;
      break;
    case VRAM_MOVE_BACKWARD:
      w = s->way + r.way[i];
      r.device += vram__gradient_bytes(c, i);
      most = r.device + vram__chain_align(c, w->backward_temp_bytes);
      cost = w->backward_cost;
      /* with its output goes the gradient of that */
      r.device -= 2 * vram__x_bytes(c, i + 1) + vram__saved_bytes(c, i, r.way[i]);
      r.saved[i] = r.x[i + 1] = VRAM__GONE;
      vram__replay_drop(&r, i);
      r.back = i;
      break;
    case VRAM_MOVE_OFFLOAD:
    case VRAM_MOVE_OFFLOAD_SAVED:
    case VRAM_MOVE_FETCH:
    default: {
      const int saved = m->kind == VRAM_MOVE_OFFLOAD_SAVED || m->kind == VRAM_MOVE_FETCH_SAVED;
      const int out = m->kind == VRAM_MOVE_OFFLOAD || m->kind == VRAM_MOVE_OFFLOAD_SAVED;
      bytes = saved ? vram__saved_bytes(c, i, r.way[i]) : vram__x_bytes(c, i);
      cost = again = vram__transfer(c, bytes);
      (saved ? r.saved : r.x)[i] = out ? VRAM__HOST : VRAM__DEVICE;
      r.device += out ? 0 - bytes : bytes;
      r.host += out ? bytes : 0 - bytes;
      most = r.device;
      n.host_bytes = vram__larger(n.host_bytes, r.host);
    }
    }
    if (m->kind <= VRAM_MOVE_SAVE) {
      again = r.ran[i] ? cost : 0;
      r.ran[i] = 1;
      r.x[i + 1] = VRAM__DEVICE;
      n.forwards++;
      if (m->kind == VRAM_MOVE_DROP)
        vram__replay_drop(&r, i);
    }
    if (most > n.peak_bytes) {
      n.peak_bytes = most;
      n.peak_move = k;
    }
    n.cost += cost;
    n.recomputed_cost += again;
    if (n.cost > (uint64_t)VRAM_MAX_BYTES)
      return vram__stage_error(err, c, i, VRAM_ERR_OVERFLOW,
                               "the costs of the moves up to here add up to more than 2^63-1");
  }
  if (r.back)
    return vram__stage_error(err, c, r.back - 1, VRAM_ERR_VALUE,
                             "the moves end before it has run backward");
  if (err)
    vram__zero(err, sizeof *err);
  *count = n;
  return VRAM_OK;
}

/* The planners. Sizes are kept twice, in bytes and in slots: steps of `unit` bytes, rounded up. A
   plan is looked for in slots, and what it takes is counted in bytes. What is called room is left
   beside xs, the input of the stages s to t, which is the caller's; the gradient of x(t+1) is in
   the room. */

#define VRAM__BLOCK 16 /* cells that are computed at a time */
#define VRAM__STAGES_SLOTS 1024
#define VRAM__CLOSE 32
#define VRAM__NEVER (INT32_C(1) << 29)
#define VRAM__DEAR (INT32_C(1) << 28) /* costs stay below */

typedef struct vram__room_sizes {
  uint64_t *x;     /* of xi */
  uint64_t *gives; /* what its going gives back: rounded down */
  uint64_t *head;  /* room for a forward of stage i that saves nothing, xi the caller's, */
  uint64_t *hop;   /* or in the room */
  uint64_t *keep;  /* of each way: all that stays */
  uint64_t *fore,
      *back; /* room for its forward, the gradient of x(t+1) not counted, and backward */
} vram__room_sizes;

typedef struct vram__todo { /* stages to plan, or a move */
  vram_move move;           /* VRAM_MOVE_COUNT: plan move.stage to last */
  uint32_t last;
  uint64_t room;
} vram__todo;

typedef struct vram__planning {
  const vram_chain *c;
  const vram_schedule_options *o;
  int stages, offload;
  int exact;  /* slots and costs are */
  int filled; /* the table is */
  uint32_t n, nway;
  uint32_t *first; /* way of each stage */
  vram__room_sizes bytes, slot;
  uint64_t unit, cost_unit;
  uint64_t full, full_up;        /* room to compute nothing twice, in slots: as it is, rounded up */
  uint64_t least_cost;           /* of the chain: every stage by its cheapest way, once */
  uint64_t *extra;               /* of each way: cost beyond the cheapest, */
  uint64_t *x_trip, *saved_trip; /* of a copy to the host and back */
  int32_t *dear, *x_dear, *saved_dear; /* the same in cost_unit */
  int32_t *sum;                        /* of forwards before stage i that save nothing */
  uint64_t rows, blocks;
  uint64_t *low;   /* by row: least bytes of room that are enough, */
  uint32_t *high;  /* slots of room beyond which more is of no use, */
  uint32_t *least; /* low in whole slots, */
  uint32_t *gate;  /* slots of room for forwards of s to t that save nothing */
  int32_t *cell;   /* [block][row][VRAM__BLOCK]: cost beyond the cheapest + sum[s] */
  int32_t *panel;  /* [stage][VRAM__BLOCK] */
  vram__todo *todo;
  vram_move *move, *best;
  uint32_t nmove;
  uint8_t *replay;
  vram_schedule found; /* of best; feasible: there is one */
} vram__planning;

/* Stages s to t. STAGES needs no others than those to the last, and each alone. */
static uint64_t vram__row(const vram__planning *p, uint32_t s, uint32_t t) {
  if (p->stages)
    return t + 1 == p->n ? s : (uint64_t)p->n + s;
  return (uint64_t)s * (2 * (uint64_t)p->n + 1 - s) / 2 + (t - s);
}

static uint64_t vram__gcd(uint64_t a, uint64_t b) {
  while (b) {
    const uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

static uint64_t vram__up(uint64_t bytes, uint64_t unit) {
  return bytes / unit + (bytes % unit != 0);
}

static void *vram__lay(uint8_t *mem, uint64_t *used, uint64_t count, uint64_t each) {
  void *at = mem ? mem + *used : NULL;
  const uint64_t bytes = vram__mul(count, each);
  *used = vram__plus(*used, bytes == VRAM_OVERFLOW ? bytes : (bytes + 15) & ~UINT64_C(15));
  return at;
}

static uint32_t vram__least_way(const vram_stage *s) {
  uint32_t w, best = 0;
  for (w = 1; w < s->nway; w++) {
    const vram_way *a = s->way + w, *b = s->way + best;
    const uint64_t x = a->forward_cost + a->backward_cost, y = b->forward_cost + b->backward_cost;
    if (x < y || (x == y && a->saved_bytes < b->saved_bytes))
      best = w;
  }
  return best;
}

/* Room that is enough to compute nothing twice, every stage by its cheapest way, in units. */
static uint64_t vram__full_room(const vram_chain *c, uint64_t unit) {
  uint64_t room = 0;
  uint32_t i;
  for (i = c->nstage; i-- > 0;) {
    const vram_stage *s = c->stage + i;
    const vram_way *y = s->way + vram__least_way(s);
    const uint64_t x = vram__x_bytes(c, i + 1);
    const uint64_t keep = x + vram__chain_align(c, y->saved_bytes - s->output_bytes);
    const uint64_t fore = keep + vram__chain_align(c, y->forward_temp_bytes);
    const uint64_t back =
        vram__gradient_bytes(c, i) + x + keep + vram__chain_align(c, y->backward_temp_bytes);
    room = vram__larger(vram__up(keep, unit) + room,
                        vram__larger(vram__up(fore, unit), vram__up(back, unit)));
  }
  return room;
}

/* What all sizes are multiples of. */
static uint64_t vram__common_bytes(const vram_chain *c) {
  uint64_t g = vram__gcd(vram__x_bytes(c, 0), vram__gradient_bytes(c, 0));
  uint32_t i, w;
  for (i = 0; i < c->nstage; i++) {
    const vram_stage *s = c->stage + i;
    g = vram__gcd(vram__gcd(g, vram__x_bytes(c, i + 1)),
                  vram__chain_align(c, s->forward_temp_bytes));
    for (w = 0; w < s->nway; w++) {
      g = vram__gcd(g, vram__saved_bytes(c, i, w));
      g = vram__gcd(g, vram__chain_align(c, s->way[w].forward_temp_bytes));
      g = vram__gcd(g, vram__chain_align(c, s->way[w].backward_temp_bytes));
    }
  }
  return g ? g : 1;
}

static uint64_t vram__most_moves(uint64_t n, const vram_schedule_options *o) {
  const int many = o->planner == VRAM_PLANNER_OPTIMAL || o->planner == VRAM_PLANNER_REVOLVE;
  /* each stage: saved and backward; a forward for each stage before; copies */
  return (many ? n * (n - 1) / 2 : n) + n * (o->offload ? 8 : 2);
}

/* Memory in one piece, laid out: what every planner needs, */
static uint64_t vram__layout_moves(vram__planning *p, uint8_t *mem) {
  const uint64_t n = p->n, most = vram__most_moves(n, p->o);
  uint64_t used = 0;
  p->move = (vram_move *)vram__lay(mem, &used, most, sizeof *p->move);
  p->best = (vram_move *)vram__lay(mem, &used, most, sizeof *p->best);
  p->replay = (uint8_t *)vram__lay(mem, &used, vram_schedule_verify_bytes(p->c), 1);
  p->todo = (vram__todo *)vram__lay(mem, &used, 6 * n + 8, sizeof *p->todo);
  return used;
}

/* and those with a table. mem NULL: how much. */
static uint64_t vram__layout_table(vram__planning *p, uint8_t *mem) {
  const uint64_t n = p->n, w = p->nway;
  uint64_t used = 0;
  vram__room_sizes *z;
  p->first = (uint32_t *)vram__lay(mem, &used, n + 1, 4);
  for (z = &p->bytes; z; z = z == &p->bytes ? &p->slot : NULL) {
    z->x = (uint64_t *)vram__lay(mem, &used, n + 1, 8);
    z->gives = (uint64_t *)vram__lay(mem, &used, n, 8);
    z->head = (uint64_t *)vram__lay(mem, &used, n, 8);
    z->hop = (uint64_t *)vram__lay(mem, &used, n, 8);
    z->keep = (uint64_t *)vram__lay(mem, &used, w, 8);
    z->fore = (uint64_t *)vram__lay(mem, &used, w, 8);
    z->back = (uint64_t *)vram__lay(mem, &used, w, 8);
  }
  p->extra = (uint64_t *)vram__lay(mem, &used, w, 8);
  p->x_trip = (uint64_t *)vram__lay(mem, &used, n, 8);
  p->saved_trip = (uint64_t *)vram__lay(mem, &used, w, 8);
  p->dear = (int32_t *)vram__lay(mem, &used, w, 4);
  p->x_dear = (int32_t *)vram__lay(mem, &used, n, 4);
  p->saved_dear = (int32_t *)vram__lay(mem, &used, w, 4);
  p->sum = (int32_t *)vram__lay(mem, &used, n + 1, 4);
  p->low = (uint64_t *)vram__lay(mem, &used, p->rows, 8);
  p->high = (uint32_t *)vram__lay(mem, &used, p->rows, 4);
  p->gate = (uint32_t *)vram__lay(mem, &used, p->rows, 4);
  p->least = (uint32_t *)vram__lay(mem, &used, p->rows, 4);
  p->panel = (int32_t *)vram__lay(mem, &used, n + 1, VRAM__BLOCK * sizeof *p->panel);
  p->cell = (int32_t *)vram__lay(mem, &used, vram__mul(p->rows, p->blocks),
                                 VRAM__BLOCK * sizeof *p->cell);
  return used;
}

static void vram__planning_start(vram__planning *p, const vram_chain *c,
                                 const vram_schedule_options *o, int stages) {
  uint64_t full, slots;
  uint32_t i;
  vram__zero(p, sizeof *p);
  p->c = c;
  p->o = o;
  p->n = c->nstage;
  p->stages = stages;
  p->offload = !stages && o->offload;
  for (i = 0; i < p->n; i++)
    p->nway += c->stage[i].nway;
  p->rows = stages ? 2 * (uint64_t)p->n : (uint64_t)p->n * (p->n + 1) / 2;
  full = vram__full_room(c, 1);
  slots = stages ? VRAM__STAGES_SLOTS : vram__larger(500, 100000 / (p->n + (uint64_t)!p->n));
  if (o->slots && stages == (o->planner == VRAM_PLANNER_STAGES))
    slots = o->slots;
  p->unit = vram__common_bytes(c);
  p->exact = full / p->unit <= slots;
  if (!p->exact)
    p->unit = vram__up(full, slots);
  p->full = full / p->unit + 1;
  p->full_up = vram__full_room(c, p->unit) + VRAM__BLOCK;
  p->blocks = p->full_up / VRAM__BLOCK + 1;
}

/* ---- sizes and costs */

static void vram__sizes_bytes(vram__planning *p) {
  const vram_chain *c = p->c;
  vram__room_sizes *z = &p->bytes;
  uint32_t i, w, k = 0;
  p->least_cost = 0;
  for (i = 0; i <= p->n; i++)
    z->x[i] = vram__x_bytes(c, i);
  for (i = 0; i < p->n; i++) {
    const vram_stage *s = c->stage + i;
    const vram_way *least = s->way + vram__least_way(s);
    const uint64_t cost = least->forward_cost + least->backward_cost;
    p->least_cost += cost;
    p->first[i] = k;
    z->gives[i] = z->x[i];
    z->head[i] = z->x[i + 1] + vram__chain_align(c, s->forward_temp_bytes);
    z->hop[i] = z->x[i] + z->head[i];
    p->x_trip[i] = 2 * vram__transfer(c, z->x[i]);
    for (w = 0; w < s->nway; w++, k++) {
      const vram_way *y = s->way + w;
      const uint64_t saved = vram__saved_bytes(c, i, w);
      z->keep[k] = z->x[i + 1] + saved;
      z->fore[k] = z->keep[k] + vram__chain_align(c, y->forward_temp_bytes);
      z->back[k] = vram__gradient_bytes(c, i) + z->x[i + 1] + z->keep[k] +
                   vram__chain_align(c, y->backward_temp_bytes);
      p->extra[k] = y->forward_cost + y->backward_cost - cost;
      p->saved_trip[k] = 2 * vram__transfer(c, saved);
    }
  }
  p->first[p->n] = k;
}

static void vram__sizes_slots(vram__planning *p) {
  const vram__room_sizes *b = &p->bytes;
  vram__room_sizes *z = &p->slot;
  const uint64_t unit = p->unit;
  uint32_t i, k;
  for (i = 0; i <= p->n; i++)
    z->x[i] = vram__up(b->x[i], unit);
  for (i = 0; i < p->n; i++) {
    z->gives[i] = b->x[i] / unit;
    z->head[i] = vram__up(b->head[i], unit);
    z->hop[i] = vram__up(b->hop[i], unit);
  }
  for (k = 0; k < p->nway; k++) {
    z->keep[k] = vram__up(b->keep[k], unit);
    z->fore[k] = vram__up(b->fore[k], unit);
    z->back[k] = vram__up(b->back[k], unit);
  }
}

static int32_t vram__plan_cost(const vram__planning *p, uint64_t cost) {
  const uint64_t v = cost / p->cost_unit;
  return v < (uint64_t)VRAM__DEAR ? (int32_t)v : VRAM__DEAR;
}

/* Costs as multiples of cost_unit, rounded down. No plan beyond `most` is of interest. */
static void vram__scale_costs(vram__planning *p, uint64_t most) {
  uint64_t g = 0, sum = 0;
  uint32_t i, k;
  for (i = 0; i < p->n; i++) {
    g = vram__gcd(vram__gcd(g, p->c->stage[i].forward_cost), p->offload ? p->x_trip[i] : 0);
    sum += p->c->stage[i].forward_cost;
  }
  for (k = 0; k < p->nway; k++)
    g = vram__gcd(vram__gcd(g, p->extra[k]), p->offload ? p->saved_trip[k] : 0);
  p->cost_unit = g ? g : 1;
  sum += most - p->least_cost;
  if (sum / p->cost_unit >= (uint64_t)VRAM__DEAR) {
    p->cost_unit = sum / (uint64_t)VRAM__DEAR + 1;
    p->exact = 0;
  }
  p->sum[0] = 0;
  for (i = 0; i < p->n; i++) {
    p->sum[i + 1] = p->sum[i] + vram__plan_cost(p, p->c->stage[i].forward_cost);
    p->x_dear[i] = vram__plan_cost(p, p->x_trip[i]);
  }
  for (k = 0; k < p->nway; k++) {
    p->dear[k] = vram__plan_cost(p, p->extra[k]);
    p->saved_dear[k] = vram__plan_cost(p, p->saved_trip[k]);
  }
}

/* ---- the least room */

static uint32_t vram__lowest_s(const vram__planning *p, uint32_t t) {
  return p->stages && t + 1 < p->n ? t : 0;
}
/* beyond the last stage that the stages from s can hand their output to */
static uint32_t vram__j_end(const vram__planning *p, uint32_t s, uint32_t t) {
  return s == t ? s + 1 : p->stages ? s + 2 : t + 1;
}

static void vram__least_rooms(vram__planning *p) {
  const vram__room_sizes *z = &p->bytes;
  uint32_t t, s, j, k;
  for (t = 0; t < p->n; t++)
    for (s = t + 1; s-- > vram__lowest_s(p, t);) {
      const uint32_t end = vram__j_end(p, s, t);
      uint64_t least = VRAM_OVERFLOW, hop = 0;
      const uint64_t rest = s < t ? p->low[vram__row(p, s + 1, t)] : 0, y = z->x[t + 1];
      for (k = p->first[s]; k < p->first[s + 1]; k++) {
        const uint64_t after =
            p->offload ? vram__less(z->x[s + 1] + rest, z->x[s]) : z->keep[k] + rest;
        const uint64_t need =
            vram__larger(vram__larger(y + z->fore[k], z->back[k]), s < t ? after : 0);
        least = vram__smaller(least, need);
      }
      for (j = s + 1; j < end; j++) {
        const uint64_t back = p->offload ? z->x[s] : 0;
        const uint64_t after = vram__less(z->x[j] + p->low[vram__row(p, j, t)], back);
        const uint64_t need = vram__larger(
            vram__larger(vram__larger(y + z->head[s], vram__less(y + hop, back)), after),
            p->low[vram__row(p, s, j - 1)]);
        least = vram__smaller(least, need);
        hop = vram__larger(hop, z->hop[j]);
      }
      p->low[vram__row(p, s, t)] = least;
    }
}

static void vram__rooms_in_slots(vram__planning *p) {
  const vram__room_sizes *z = &p->slot;
  uint32_t t, s, k;
  for (t = 0; t < p->n; t++)
    for (s = t + 1; s-- > vram__lowest_s(p, t);) {
      const uint64_t rest = s < t ? p->high[vram__row(p, s + 1, t)] : 0;
      const uint64_t row = vram__row(p, s, t);
      uint64_t high = UINT32_MAX, gate = z->head[s];
      for (k = p->first[s]; k < p->first[s + 1]; k++)
        if (!p->dear[k]) {
          const uint64_t need = vram__larger(vram__larger(z->x[t + 1] + z->fore[k], z->back[k]),
                                             s < t ? z->keep[k] + rest : 0);
          high = vram__smaller(high, need);
        }
      p->high[row] = (uint32_t)high;
      p->least[row] = (uint32_t)vram__smaller(p->low[row] / p->unit, UINT32_MAX);
      if (!p->stages && s < t)
        gate = vram__larger(p->gate[row - 1], z->hop[t]);
      p->gate[row] = (uint32_t)vram__smaller(gate, UINT32_MAX);
    }
}

/* ---- the table */

static int32_t vram__plan_cell(const vram__planning *p, uint64_t row, int64_t m) {
  const int64_t last = (int64_t)p->blocks * VRAM__BLOCK - 1;
  if (m < 0)
    return VRAM__NEVER;
  if (m > last)
    m = last;
  return p
      ->cell[((uint64_t)m / VRAM__BLOCK * p->rows + row) * VRAM__BLOCK + (uint64_t)m % VRAM__BLOCK];
}

static void vram__fill(int32_t *cell, int32_t v) {
  uint32_t i;
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = v;
}

static void vram__move_block(int32_t *to, const int32_t *from) {
  int32_t v[VRAM__BLOCK]; /* so that compilers need not know that they are apart */
  uint32_t i;
  for (i = 0; i < VRAM__BLOCK; i++)
    v[i] = from[i];
  for (i = 0; i < VRAM__BLOCK; i++)
    to[i] = v[i];
}

/* VRAM__BLOCK cells of a row that begin anywhere: where they are, or copied to `two`. */
static const int32_t *vram__row_cells(const vram__planning *p, uint64_t row, int64_t from,
                                      int32_t *two) {
  const uint64_t next = p->rows * VRAM__BLOCK;
  const int32_t *cell = p->cell + row * VRAM__BLOCK;
  const int64_t last = (int64_t)p->blocks * VRAM__BLOCK;
  uint32_t i, at;
  if (from >= 0 && from % VRAM__BLOCK == 0 && from < last)
    return cell + (uint64_t)from / VRAM__BLOCK * next;
  if (from > -VRAM__BLOCK && from + VRAM__BLOCK <= last) {
    at = (uint32_t)((uint64_t)from % VRAM__BLOCK);
    if (from >= 0)
      cell += (uint64_t)from / VRAM__BLOCK * next;
    if (from < 0)
      vram__fill(two, VRAM__NEVER);
    else {
      vram__move_block(two, cell);
      cell += next;
    }
    vram__move_block(two + VRAM__BLOCK, cell);
    return two + at;
  }
  for (i = 0; i < VRAM__BLOCK; i++)
    two[i] = vram__plan_cell(p, row, from + (int64_t)i);
  return two;
}

/* cell = min(cell, v + more) from the room `least` on. */
static void vram__lower(int32_t *cell, const int32_t *v, int32_t more, int64_t least) {
  int32_t sum[VRAM__BLOCK];
  uint32_t i;
  if (least >= VRAM__BLOCK)
    return;
  for (i = 0; i < VRAM__BLOCK; i++)
    sum[i] = v[i] + more;
  for (i = 0; (int64_t)i < least; i++)
    sum[i] = VRAM__NEVER;
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = sum[i] < cell[i] ? sum[i] : cell[i];
}

/* best = min(best, a + b) for `count` blocks: nearly all of the time goes here. Four at a time:
   that compilers keep in a register. */
static void vram__least_sums(int32_t *best, const int32_t *a, const int32_t *b, uint32_t count) {
  uint32_t four, k, i;
  for (four = 0; four < VRAM__BLOCK; four += 4) {
    const int32_t *x = a + four, *y = b + four;
    int32_t v[4];
    for (i = 0; i < 4; i++)
      v[i] = best[four + i];
    for (k = 0; k < count; k++, x += VRAM__BLOCK, y += VRAM__BLOCK)
      for (i = 0; i < 4; i++) {
        const int32_t sum = x[i] + y[i];
        v[i] = sum < v[i] ? sum : v[i];
      }
    for (i = 0; i < 4; i++)
      best[four + i] = v[i];
  }
}

/* Handing the output on to stage j: all of j at once, from the panel. */
static void vram__table_leaves(vram__planning *p, uint32_t s, uint32_t t, uint64_t block,
                               int32_t *cell) {
  const uint64_t row = vram__row(p, s, s);
  const int32_t *left = p->cell + (block * p->rows + row) * VRAM__BLOCK;
  const uint32_t *gate = p->gate + row;
  const int64_t from = (int64_t)(block * VRAM__BLOCK) - (int64_t)p->slot.x[t + 1];
  const int32_t base = p->sum[s];
  int32_t best[VRAM__BLOCK];
  uint32_t j, high = t - s, open = 0, i;
  while (open < high) { /* forwards that this much room is enough for */
    const uint32_t middle = open + (high - open) / 2;
    if ((int64_t)gate[middle] <= from)
      open = middle + 1;
    else
      high = middle;
  }
  for (i = 0; i < VRAM__BLOCK; i++)
    best[i] = cell[i] + base;
  for (j = 0; j < open; j += 8) {
    /* to hand on to a later stage costs at least the forwards up to there; less room costs more */
    if (best[0] <= p->sum[s + 1 + j] + base)
      break;
    vram__least_sums(best, p->panel + (uint64_t)(s + 1 + j) * VRAM__BLOCK,
                     left + (uint64_t)j * VRAM__BLOCK, open - j < 8 ? open - j : 8);
  }
  for (j = open; j < t - s && (int64_t)gate[j] < from + VRAM__BLOCK; j++) {
    const int32_t *a = p->panel + (uint64_t)(s + 1 + j) * VRAM__BLOCK;
    const int32_t *b = left + (uint64_t)j * VRAM__BLOCK;
    for (i = (uint32_t)((int64_t)gate[j] - from); i < VRAM__BLOCK; i++)
      best[i] = a[i] + b[i] < best[i] ? a[i] + b[i] : best[i];
  }
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = best[i] - base;
}

/* What a way and stage s leave on the device while the stages after run: `away` has bit 0 if what
   is saved beyond the output goes to the host, bit 1 if the input does. */
static int64_t vram__stays(const vram__planning *p, uint32_t s, uint32_t k, int away) {
  const vram__room_sizes *z = &p->slot;
  return (int64_t)(away & 1 ? z->x[s + 1] : z->keep[k]) - (away & 2 ? (int64_t)z->gives[s] : 0);
}

static int32_t vram__away_dear(const vram__planning *p, uint32_t s, uint32_t k, int away) {
  return (away & 1 ? p->saved_dear[k] : 0) + (away & 2 ? p->x_dear[s] : 0);
}

static int vram__most_away(const vram__planning *p, uint32_t s, uint32_t t) {
  return p->offload && s < t ? 3 : 0;
}

static void vram__table_block(vram__planning *p, uint32_t s, uint32_t t, uint64_t block) {
  const vram__room_sizes *z = &p->slot;
  const uint64_t row = vram__row(p, s, t);
  const int64_t from = (int64_t)(block * VRAM__BLOCK), y = (int64_t)z->x[t + 1];
  int32_t *cell = p->cell + (block * p->rows + row) * VRAM__BLOCK;
  const int32_t base = p->sum[s];
  int32_t two[2 * VRAM__BLOCK], sums[VRAM__BLOCK];
  const uint32_t end = vram__j_end(p, s, t);
  uint32_t i, j, k;
  int away;
  if (from >= p->high[row]) {
    vram__fill(cell, base);
    return;
  }
  vram__fill(cell, VRAM__NEVER);
  if ((block + 1) * VRAM__BLOCK <= p->least[row])
    return;
  for (k = p->first[s]; k < p->first[s + 1]; k++) {
    const int64_t least = (int64_t)vram__larger((uint64_t)y + z->fore[k], z->back[k]) - from;
    for (away = 0; away <= vram__most_away(p, s, t); away++) {
      const int32_t dear = p->dear[k] + vram__away_dear(p, s, k, away) + base;
      const int64_t rest = from - vram__stays(p, s, k, away);
      if (s < t && least < VRAM__BLOCK && rest > -VRAM__BLOCK)
        vram__lower(cell, vram__row_cells(p, vram__row(p, s + 1, t), rest, two),
                    dear - p->sum[s + 1], least);
      else if (s == t) {
        vram__fill(two, 0);
        vram__lower(cell, two, dear, least);
      }
    }
  }
  if (!p->stages && !p->offload && s < t)
    vram__table_leaves(p, s, t, block, cell);
  else
    for (j = s + 1; j < end; j++)
      for (away = 0; away <= p->offload; away++) {
        const uint64_t left = vram__row(p, s, j - 1);
        const uint64_t back = away ? z->gives[s] : 0;
        const uint64_t gate =
            away ? vram__larger(z->head[s], vram__less(p->gate[left], back)) : p->gate[left];
        const int32_t *v =
            vram__row_cells(p, vram__row(p, j, t), from - (int64_t)z->x[j] + (int64_t)back, two);
        const int32_t *mine = p->cell + (block * p->rows + left) * VRAM__BLOCK;
        for (i = 0; i < VRAM__BLOCK; i++)
          sums[i] = v[i] + mine[i];
        vram__lower(cell, sums, (away ? p->x_dear[s] : 0) - base, y + (int64_t)gate - from);
      }
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = cell[i] < VRAM__DEAR ? cell[i] : VRAM__NEVER;
}

static void vram__table(vram__planning *p) {
  uint64_t b;
  uint32_t s, t;
  if (p->offload) { /* what is on the host leaves more room to the stages after */
    for (t = 0; t < p->n; t++)
      for (s = t + 1; s-- > 0;)
        for (b = 0; b < p->blocks; b++)
          vram__table_block(p, s, t, b);
    return;
  }
  for (b = 0; b < p->blocks; b++)
    for (t = 0; t < p->n; t++)
      for (s = t + 1; s-- > vram__lowest_s(p, t);) {
        int32_t two[2 * VRAM__BLOCK];
        const int32_t *v;
        vram__table_block(p, s, t, b);
        if (p->stages)
          continue;
        v = vram__row_cells(p, vram__row(p, s, t),
                            (int64_t)(b * VRAM__BLOCK) - (int64_t)p->slot.x[s], two);
        vram__move_block(p->panel + (uint64_t)s * VRAM__BLOCK, v);
      }
}

/* ---- from the table to moves */

static void vram__plan_move(vram__planning *p, uint32_t kind, uint32_t stage, uint32_t way) {
  vram_move *m = p->move + p->nmove++;
  m->stage = stage;
  m->kind = (uint8_t)kind;
  m->way = (uint8_t)way;
}

static void vram__todo_plan(vram__todo **top, uint32_t s, uint32_t t, uint64_t room) {
  vram__todo *d = (*top)++;
  d->move.kind = VRAM_MOVE_COUNT;
  d->move.way = 0;
  d->move.stage = s;
  d->last = t;
  d->room = room;
}

static void vram__todo_move(vram__todo **top, uint32_t kind, uint32_t stage) {
  vram__todo *d = (*top)++;
  d->move.kind = (uint8_t)kind;
  d->move.way = 0;
  d->move.stage = stage;
}

/* Saves s by way k, the rest, and its backward. */
static void vram__plan_chain(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                             uint32_t k, int away, uint64_t room) {
  vram__plan_move(p, VRAM_MOVE_SAVE, s, k - p->first[s]);
  vram__todo_move(top, VRAM_MOVE_BACKWARD, s);
  if (away & 1) {
    vram__plan_move(p, VRAM_MOVE_OFFLOAD_SAVED, s, 0);
    vram__todo_move(top, VRAM_MOVE_FETCH_SAVED, s);
  }
  if (away & 2) {
    vram__plan_move(p, VRAM_MOVE_OFFLOAD, s, 0);
    vram__todo_move(top, VRAM_MOVE_FETCH, s);
  }
  if (s < t)
    vram__todo_plan(top, s + 1, t, room);
}

/* Forward from s to j without saving, the stages from j on, then s to j - 1. */
static void vram__plan_leaf(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t, uint32_t j,
                            int away, uint64_t before, uint64_t after) {
  uint32_t i;
  vram__plan_move(p, VRAM_MOVE_CHECKPOINT, s, 0);
  if (away)
    vram__plan_move(p, VRAM_MOVE_OFFLOAD, s, 0);
  for (i = s + 1; i < j; i++)
    vram__plan_move(p, VRAM_MOVE_DROP, i, 0);
  vram__todo_plan(top, s, j - 1, after);
  if (away)
    vram__todo_move(top, VRAM_MOVE_FETCH, s);
  vram__todo_plan(top, j, t, before);
}

/* The choice that the table was made with: saving before not saving, fewer forwards before more. */
static int vram__expand_cell(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                             int64_t m) {
  const vram__room_sizes *z = &p->slot;
  const int64_t y = (int64_t)z->x[t + 1];
  const int32_t want = vram__plan_cell(p, vram__row(p, s, t), m);
  const uint32_t end = vram__j_end(p, s, t);
  uint32_t j, k, best = p->nway;
  int away;
  for (away = 0; away <= vram__most_away(p, s, t); away++) {
    for (k = p->first[s]; k < p->first[s + 1]; k++) {
      const int64_t after = m - vram__stays(p, s, k, away);
      const int32_t rest =
          s < t ? vram__plan_cell(p, vram__row(p, s + 1, t), after) - p->sum[s + 1] : 0;
      if (m >= (int64_t)vram__larger((uint64_t)y + z->fore[k], z->back[k]) &&
          rest + p->dear[k] + vram__away_dear(p, s, k, away) + p->sum[s] == want &&
          (best == p->nway || z->keep[k] < z->keep[best]))
        best = k;
    }
    if (best < p->nway) {
      vram__plan_chain(p, top, s, t, best, away,
                       s < t ? (uint64_t)(m - vram__stays(p, s, best, away)) : 0);
      return 1;
    }
  }
  for (away = 0; away <= p->offload; away++)
    for (j = s + 1; j < end; j++) {
      const uint64_t left = vram__row(p, s, j - 1), right = vram__row(p, j, t);
      const int64_t back = away ? (int64_t)z->gives[s] : 0;
      const int64_t least =
          y + (away ? (int64_t)vram__larger(z->head[s], vram__less(p->gate[left], (uint64_t)back))
                    : (int64_t)p->gate[left]);
      const int64_t before = m - (int64_t)z->x[j] + back;
      if (m >= least && vram__plan_cell(p, left, m) + vram__plan_cell(p, right, before) -
                                p->sum[s] + (away ? p->x_dear[s] : 0) ==
                            want) {
        vram__plan_leaf(p, top, s, t, j, away, (uint64_t)before, (uint64_t)m);
        return 1;
      }
    }
  return 0;
}

/* A cell for the room that stages s to t have, in bytes; NEVER before there is a table. */
static int32_t vram__room_cell(const vram__planning *p, uint32_t s, uint32_t t, uint64_t room) {
  return p->filled ? vram__plan_cell(p, vram__row(p, s, t), (int64_t)(room / p->unit)) - p->sum[s]
                   : VRAM__NEVER;
}

/* The best choice that `room` bytes are enough for: `low` says what is enough, the table what it
   costs. What the table knows nothing of is halved. */
static int vram__expand_room(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                             uint64_t room) {
  const vram__room_sizes *z = &p->bytes;
  const uint64_t y = z->x[t + 1];
  uint64_t rest = 0;
  const uint32_t end = vram__j_end(p, s, t);
  uint32_t j, k, way = p->nway, to = 0;
  int away, moved = 0;
  int32_t best = INT32_MAX;
  for (away = 0; away <= vram__most_away(p, s, t); away++)
    for (k = p->first[s]; k < p->first[s + 1]; k++) {
      const uint64_t stays = s == t ? 0 : away & 1 ? z->x[s + 1] : z->keep[k];
      const uint64_t more = room + (away & 2 ? z->x[s] : 0);
      int32_t cost = p->filled ? p->dear[k] + vram__away_dear(p, s, k, away) : 0;
      if (room < vram__larger(y + z->fore[k], z->back[k]) ||
          (s < t && more < stays + p->low[vram__row(p, s + 1, t)]))
        continue;
      cost += s < t ? vram__room_cell(p, s + 1, t, more - stays) : 0;
      if (cost < best ||
          (cost == best && way < p->nway && moved == away && p->extra[k] < p->extra[way])) {
        best = cost;
        way = k;
        moved = away;
        rest = more - stays;
      }
    }
  for (away = 0; away <= p->offload; away++) {
    const uint64_t back = away ? z->x[s] : 0;
    uint64_t hop = 0;
    for (j = s + 1; j < end; j++) {
      if (room >= y + z->head[s] && room + back >= y + hop &&
          room + back >= z->x[j] + p->low[vram__row(p, j, t)] &&
          room >= p->low[vram__row(p, s, j - 1)]) {
        const int32_t cost = vram__room_cell(p, j, t, room + back - z->x[j]) +
                             vram__room_cell(p, s, j - 1, room) +
                             (p->filled ? p->sum[j] - p->sum[s] + (away ? p->x_dear[s] : 0) : 0);
        if (cost < best || (cost == best && !p->filled && way == p->nway && moved == away &&
                            j <= s + (t - s) / 2 + 1)) {
          best = cost;
          way = p->nway;
          to = j;
          moved = away;
        }
      }
      hop = vram__larger(hop, z->hop[j]);
    }
  }
  if (way < p->nway)
    vram__plan_chain(p, top, s, t, way, moved, rest);
  else if (to)
    vram__plan_leaf(p, top, s, t, to, moved, room + (moved ? z->x[s] : 0) - z->x[to], room);
  return way < p->nway || to;
}

/* Moves for so many slots, or so many bytes. */
static int vram__expand(vram__planning *p, uint64_t room, int in_slots) {
  vram__todo *top = p->todo;
  p->nmove = 0;
  vram__todo_plan(&top, 0, p->n - 1, room);
  while (top != p->todo) {
    const vram__todo d = *--top;
    const uint32_t s = d.move.stage, t = d.last;
    if (d.move.kind != VRAM_MOVE_COUNT)
      vram__plan_move(p, d.move.kind, s, 0);
    else if (in_slots ? !vram__expand_cell(p, &top, s, t, (int64_t)d.room)
                      : !vram__expand_room(p, &top, s, t, d.room))
      return 0;
  }
  return 1;
}

/* ---- the schedules of others */

static void vram__plain(vram__planning *p, int cheapest) {
  uint32_t i;
  p->nmove = 0;
  for (i = 0; i < p->n; i++)
    vram__plan_move(p, VRAM_MOVE_SAVE, i, cheapest ? vram__least_way(p->c->stage + i) : 0);
  while (i-- > 0)
    vram__plan_move(p, VRAM_MOVE_BACKWARD, i, 0);
}

/* torch.utils.checkpoint.checkpoint_sequential: pieces of n / k functions, the last one, which has
   the rest, as it is. The loss is none of the functions. */
static void vram__sequential(vram__planning *p, uint32_t k) {
  const uint32_t each = (p->n - 1) / k, from = each * (k - 1);
  uint32_t i, piece;
  p->nmove = 0;
  for (i = 0; i < from; i++)
    vram__plan_move(p, i % each != 0 ? VRAM_MOVE_DROP : VRAM_MOVE_CHECKPOINT, i, 0);
  for (; i < p->n; i++)
    vram__plan_move(p, VRAM_MOVE_SAVE, i, 0);
  while (i-- > from)
    vram__plan_move(p, VRAM_MOVE_BACKWARD, i, 0);
  for (piece = k - 1; piece-- > 0;) {
    for (i = piece * each; i < (piece + 1) * each; i++)
      vram__plan_move(p, VRAM_MOVE_SAVE, i, 0);
    while (i-- > piece * each)
      vram__plan_move(p, VRAM_MOVE_BACKWARD, i, 0);
  }
}

/* The number of steps that so many snapshots can go back with so many forwards each at most:
   C(snapshots + times, snapshots), at most `most`. */
static uint64_t vram__steps(uint64_t snapshots, int64_t times, uint64_t most) {
  uint64_t v = 1, i;
  if (times < 0)
    return 0;
  for (i = 1; i <= (uint64_t)times && v < most; i++)
    v = v * (snapshots + i) / i; /* below 2^12 * 2^13 */
  return v < most ? v : most;
}

/* How moved to go to the next snapshot: Griewank and Walther 2000, Algorithm 799. */
static uint32_t vram__revolve_advance(uint32_t n, uint32_t s) {
  const uint64_t most = UINT64_C(1) << 32;
  int64_t t = 0;
  uint64_t b, c, d, e;
  if (s == 1)
    return n - 1;
  if (s + 1 >= n)
    return 1;
  while (vram__steps(s, t, most) < n)
    t++;
  b = vram__steps(s, t - 1, most);
  c = vram__steps(s - 1, t - 2, most);
  d = vram__steps(s - 2, t - 1, most);
  e = vram__steps(s, t - 2, most);
  if (n <= b + c)
    return (uint32_t)(n - b + e);
  if (n <= b + d + c)
    return (uint32_t)(e + c);
  if (n <= b + vram__steps(s - 1, t - 1, most) + d)
    return (uint32_t)(n - vram__steps(s - 1, t - 1, most) - d);
  return (uint32_t)b;
}

static void vram__revolve(vram__planning *p, uint32_t snapshots) {
  vram__todo *top = p->todo;
  p->nmove = 0;
  vram__todo_plan(&top, 0, p->n - 1, snapshots);
  while (top != p->todo) {
    const vram__todo d = *--top;
    const uint32_t s = d.move.stage, n = d.last - s + 1;
    if (n == 1) {
      vram__plan_move(p, VRAM_MOVE_SAVE, s, 0);
      vram__plan_move(p, VRAM_MOVE_BACKWARD, s, 0);
    } else
      vram__plan_leaf(p, &top, s, d.last, s + vram__revolve_advance(n, (uint32_t)d.room), 0,
                      d.room - 1, d.room);
  }
}

/* ---- choosing */

/* Counts p->move, which becomes p->best if it is within the budget and better. */
static vram_result vram__consider(vram__planning *p, uint64_t budget, vram_schedule_count *n,
                                  vram_error *err) {
  vram_schedule *f = &p->found;
  const vram_result bad = vram_schedule_verify(p->c, p->move, p->nmove, p->replay,
                                               vram_schedule_verify_bytes(p->c), n, err);
  if (bad)
    n->peak_bytes = n->cost = VRAM_OVERFLOW;
  if (bad == VRAM_ERR_OVERFLOW) /* too dear to count: never the best */
    return VRAM_OK;
  if (bad)
    return bad;
  if (n->peak_bytes <= budget &&
      (!f->feasible || n->cost < f->cost ||
       (n->cost == f->cost &&
        (p->nmove < f->nmove || (p->nmove == f->nmove && n->peak_bytes < f->peak_bytes))))) {
    vram_move *was = p->best;
    p->best = p->move;
    p->move = was;
    f->feasible = 1;
    f->move = p->best;
    f->nmove = p->nmove;
    f->peak_bytes = n->peak_bytes;
    f->cost = n->cost;
    f->host_bytes = n->host_bytes;
  }
  return VRAM_OK;
}

static vram_result vram__plan_table(vram__planning *p, uint64_t budget, uint64_t *smallest,
                                    vram_error *err) {
  const uint64_t fixed = p->c->static_bytes + vram__x_bytes(p->c, 0);
  const uint64_t top = vram__row(p, 0, p->n - 1);
  vram_schedule_count n;
  uint64_t room, m;
  vram_result bad;
  vram__sizes_bytes(p);
  vram__least_rooms(p);
  *smallest = fixed + p->low[top];
  budget = vram__larger(budget, *smallest);
  vram__plain(p, 1);
  bad = vram__consider(p, budget, &n, err);
  if (bad || n.peak_bytes <= budget)
    return bad;
  if (!vram__expand(p, p->low[top], 0))
    return vram__chain_error(err, VRAM_ERR_LIMIT, 0, "no schedule of the least bytes");
  bad = vram__consider(p, budget, &n, err);
  if (bad)
    return bad;
  vram__scale_costs(p, vram__smaller(n.cost, (uint64_t)VRAM_MAX_BYTES));
  vram__sizes_slots(p);
  vram__rooms_in_slots(p);
  room = (budget - fixed) / p->unit;
  if (!p->exact) /* more, as rounding up takes away */
    room = (room * p->full_up + p->full - 1) / p->full + p->n / 4;
  m = p->blocks * VRAM__BLOCK - 1;
  if (room > m)
    room = m;
  if (room > p->high[top])
    room = p->high[top];
  p->blocks = room / VRAM__BLOCK + 1; /* no more are needed */
  vram__table(p);
  p->filled = 1;
  /* Next to the smallest budget every byte counts. Which budgets are tried depends on the chain
     alone, here and below, so that more bytes never cost more. */
  for (m = p->low[top]; !p->exact && m < p->low[top] + VRAM__CLOSE * p->unit && fixed + m <= budget;
       m += p->unit) {
    if (!vram__expand(p, m, 0))
      return vram__chain_error(err, VRAM_ERR_LIMIT, 0, "no schedule of a room");
    bad = vram__consider(p, budget, &n, err);
    if (bad)
      return bad;
  }
  for (m = room + 1; m-- > 0;) {
    const int32_t v = vram__plan_cell(p, top, (int64_t)m);
    if (v == VRAM__NEVER ||
        (p->found.feasible && p->found.cost <= p->least_cost + (uint64_t)v * p->cost_unit &&
         !p->exact))
      break;
    if (m && vram__plan_cell(p, top, (int64_t)m - 1) == v)
      continue;
    if (!vram__expand(p, m, 1))
      return vram__chain_error(err, VRAM_ERR_LIMIT, 0, "no schedule of a cell");
    bad = vram__consider(p, budget, &n, err);
    if (bad || p->exact)
      return bad;
  }
  return VRAM_OK;
}

/* The schedules of a planner without a table, by number. */
static uint32_t vram__given_count(const vram__planning *p, vram_planner planner) {
  if (planner == VRAM_PLANNER_PLAIN || planner == VRAM_PLANNER_SQRT || p->o->segments ||
      p->o->snapshots || p->n < 2)
    return 1;
  return p->n - 1;
}

static void vram__given(vram__planning *p, vram_planner planner, uint32_t i) {
  uint32_t k = 1;
  switch (planner) {
  case VRAM_PLANNER_SEQUENTIAL:
    vram__sequential(p, p->o->segments ? p->o->segments : i + 1);
    break;
  case VRAM_PLANNER_SQRT:
    while ((k + 1) * (k + 1) < p->n)
      k++;
    vram__sequential(p, k);
    break;
  case VRAM_PLANNER_REVOLVE:
    k = p->o->snapshots ? p->o->snapshots : i + 1;
    vram__revolve(p, k < p->n ? k : p->n);
    break;
  default:
    vram__plain(p, 0);
  }
}

static vram_result vram__plan_given(vram__planning *p, vram_planner planner, uint64_t budget,
                                    uint64_t *smallest, vram_error *err) {
  const uint32_t number = vram__given_count(p, planner);
  uint32_t i, least = 0;
  vram_schedule_count n;
  *smallest = VRAM_OVERFLOW;
  for (i = 0; i < number; i++) {
    vram_result bad;
    vram__given(p, planner, i);
    bad = vram__consider(p, budget, &n, err);
    if (bad)
      return bad;
    if (n.peak_bytes < *smallest) {
      *smallest = n.peak_bytes;
      least = i;
    }
  }
  if (p->found.feasible)
    return VRAM_OK;
  vram__given(p, planner, least);
  return vram__consider(p, *smallest, &n, err);
}

VRAM__ONCE_BEGIN
static vram_result vram__plan_check(const vram_chain *c, const vram_schedule_options *o,
                                    vram_error *err) {
  static const struct {
    vram_planner planner;
    const char *option;
  } of[] = {{VRAM_PLANNER_SEQUENTIAL, "segments"},
            {VRAM_PLANNER_REVOLVE, "snapshots"},
            {VRAM_PLANNER_OPTIMAL, "slots"},
            {VRAM_PLANNER_OPTIMAL, "offload"}};
  const uint32_t most = c->nstage > 1 ? c->nstage - 1 : 1;
  const uint32_t given[] = {o->segments, o->snapshots, o->slots, o->offload != 0};
  uint32_t i;
  if ((uint32_t)o->planner >= VRAM_PLANNER_COUNT)
    return vram__chain_error(err, VRAM_ERR_VALUE, 0, "no such planner");
  for (i = 0; i < 4; i++)
    if (given[i] && o->planner != of[i].planner && !(i == 2 && o->planner == VRAM_PLANNER_STAGES)) {
      vram__chain_error(err, VRAM_ERR_VALUE, 0, of[i].option);
      vram__chain_say(err, " is for planner ");
      vram__chain_say(err, vram_planner_name(of[i].planner));
      vram__chain_say(err, " (found ");
      vram__chain_say(err, vram_planner_name(o->planner));
      vram__chain_say(err, ")");
      return VRAM_ERR_VALUE;
    }
  if (o->segments > most) {
    vram__chain_error(err, VRAM_ERR_VALUE, 0, "more segments than stages before the loss (found ");
    vram__chain_number(err, o->segments);
    vram__chain_say(err, ", expected at most ");
    vram__chain_number(err, most);
    vram__chain_say(err, ")");
    return VRAM_ERR_VALUE;
  }
  return VRAM_OK;
}

VRAM_API uint64_t vram_schedule_bytes(const vram_chain *c, const vram_schedule_options *o) {
  vram_schedule_options zero;
  vram__planning p;
  uint64_t moves, table = 0, stages = 0;
  vram__zero(&zero, sizeof zero);
  o = o ? o : &zero;
  if (vram__chain_check(c, NULL) || vram__plan_check(c, o, NULL))
    return VRAM_OVERFLOW;
  if (o->planner == VRAM_PLANNER_OPTIMAL) {
    vram__planning_start(&p, c, o, 0);
    table = vram__layout_table(&p, NULL);
  }
  vram__planning_start(&p, c, o, 1);
  moves = vram__layout_moves(&p, NULL);
  if (o->planner <= VRAM_PLANNER_STAGES)
    stages = vram__layout_table(&p, NULL);
  return vram__plus(vram__plus(moves, vram__larger(table, stages)), 16);
}

VRAM_API vram_result vram_schedule_plan(const vram_chain *c, const vram_schedule_options *o,
                                        void *scratch, uint64_t scratch_bytes,
                                        vram_schedule *schedule, vram_error *err) {
  vram_schedule_options zero;
  vram__planning p, s;
  uint64_t budget, smallest, other, used;
  uint8_t *mem;
  uint32_t k;
  vram_result bad = vram__chain_check(c, err);
  vram__zero(&zero, sizeof zero);
  vram__zero(schedule, sizeof *schedule);
  o = o ? o : &zero;
  if (bad || (bad = vram__plan_check(c, o, err)) != VRAM_OK)
    return bad;
  if (!scratch || scratch_bytes < vram_schedule_bytes(c, o))
    return vram__chain_error(err, VRAM_ERR_MEMORY, 0,
                             "the scratch is too small (expected vram_schedule_bytes)");
  mem = (uint8_t *)scratch + (16 - (uintptr_t)scratch % 16) % 16;
  budget = o->budget_bytes ? o->budget_bytes : VRAM_OVERFLOW;
  vram__planning_start(&p, c, o, o->planner == VRAM_PLANNER_STAGES);
  used = vram__layout_moves(&p, mem);
  if (o->planner > VRAM_PLANNER_STAGES)
    bad = vram__plan_given(&p, o->planner, budget, &smallest, err);
  else {
    if (o->planner == VRAM_PLANNER_OPTIMAL && !p.exact) {
      /* no worse than the schedules of others */
      vram__planning_start(&s, c, o, 1);
      vram__layout_moves(&s, mem);
      vram__layout_table(&s, mem + used);
      bad = vram__plan_table(&s, budget, &other, err);
      for (k = VRAM_PLANNER_SEQUENTIAL; !bad && k <= VRAM_PLANNER_COUNT; k++) {
        s.found.feasible = s.found.feasible && s.found.peak_bytes <= budget;
        if (k < VRAM_PLANNER_COUNT)
          bad = vram__plan_given(&s, (vram_planner)k, budget, &other, err);
      }
      p.move = s.move;
      p.best = s.best;
      p.found = s.found;
    }
    vram__layout_table(&p, mem + used);
    if (!bad)
      bad = vram__plan_table(&p, budget, &smallest, err);
  }
  if (!bad && !p.found.feasible)
    bad = vram__chain_error(err, VRAM_ERR_OVERFLOW, 0,
                            "the costs of every schedule that fits add up to more than 2^63-1");
  if (bad)
    return bad;
  *schedule = p.found;
  schedule->smallest_budget_bytes = smallest;
  schedule->feasible = budget >= smallest;
  if (err)
    vram__zero(err, sizeof *err);
  return VRAM_OK;
}

/* Which span of `count`, the largest one inside `in` (count: the chain), begins or ends at i. */
static uint32_t vram__span_at(const vram_span *list, uint32_t count, uint32_t in, uint32_t i,
                              int ends) {
  uint32_t k, best = count;
  for (k = in == count ? 0 : in + 1; k < count; k++)
    if ((ends ? list[k].last : list[k].first) == i &&
        (in == count || (list[k].first >= list[in].first && list[k].last <= list[in].last)) &&
        (best == count || list[k].last - list[k].first > list[best].last - list[best].first))
      best = k;
  return best;
}

/* The span around another one; count: the chain. */
static uint32_t vram__span_up(const vram_span *list, uint32_t count, uint32_t of) {
  uint32_t k;
  for (k = of; k-- > 0;)
    if (list[k].first <= list[of].first && list[k].last >= list[of].last)
      return k;
  return count;
}

/* The next move of calls that nest: every span but those inside it runs as a whole when its last
   stage's backward needs it. */
typedef struct vram__calls {
  uint32_t in; /* span that runs; count: the chain */
  uint32_t at, skip;
  int back;
} vram__calls;

static vram_move vram__calls_next(vram__calls *r, const vram_chain *c, const vram_span *list,
                                  uint32_t count) {
  vram_move m = {0, VRAM_MOVE_SAVE, 0};
  uint32_t last = r->in == count ? c->nstage - 1 : list[r->in].last, k;
  if (!r->back && r->at > last) {
    r->back = 1;
    r->at = last;
  }
  while (r->back) {
    if (r->in != count && r->at + 1 == list[r->in].first) { /* the span is done */
      r->in = vram__span_up(list, count, r->in);
      continue;
    }
    k = vram__span_at(list, count, r->in, r->at, 1);
    if (k == count) {
      m.kind = VRAM_MOVE_BACKWARD;
      m.stage = r->at--;
      return m;
    }
    r->in = k;
    r->at = list[k].first;
    r->back = 0;
  }
  m.stage = r->at++;
  if (r->skip) {
    m.kind = VRAM_MOVE_DROP;
    r->skip--;
  } else if ((k = vram__span_at(list, count, r->in, m.stage, 0)) != count) {
    m.kind = VRAM_MOVE_CHECKPOINT;
    r->skip = list[k].last - list[k].first;
  }
  return m;
}

VRAM_API vram_result vram_schedule_spans(const vram_chain *c, const vram_move *move, uint32_t nmove,
                                         vram_span *list, uint32_t cap, uint32_t *count,
                                         vram_error *err) {
  const vram_result bad = vram__chain_check(c, err);
  uint32_t k, n = 0, i;
  vram__calls r;
  *count = 0;
  if (bad)
    return bad;
  for (k = 0; k < nmove; k++) {
    vram_span s;
    s.first = s.last = move[k].stage;
    if (move[k].kind != VRAM_MOVE_CHECKPOINT)
      continue;
    while (k + 1 < nmove && move[k + 1].kind == VRAM_MOVE_DROP && move[k + 1].stage == s.last + 1)
      s.last++, k++;
    if (n < cap) {
      for (i = n; i > 0 && (list[i - 1].first > s.first ||
                            (list[i - 1].first == s.first && list[i - 1].last < s.last));
           i--)
        list[i] = list[i - 1];
      list[i] = s;
    }
    n++;
  }
  *count = n;
  if (err)
    vram__zero(err, sizeof *err);
  if (n > cap)
    return VRAM_OK;
  vram__zero(&r, sizeof r);
  r.in = n;
  for (k = 0; k < nmove; k++) {
    vram_move m;
    if (r.back && r.at == UINT32_MAX) /* after the backward of stage 0 */
      break;
    m = vram__calls_next(&r, c, list, n);
    if (m.kind != move[k].kind || m.stage != move[k].stage)
      break;
  }
  if (k == nmove && r.back && r.at == UINT32_MAX)
    return VRAM_OK;
  *count = 0;
  vram__chain_error(err, VRAM_ERR_UNSUPPORTED, (uint64_t)k + 1, "move ");
  vram__chain_number(err, k);
  vram__chain_say(err, ": no nest of calls of torch.utils.checkpoint");
  return VRAM_ERR_UNSUPPORTED;
}

/* ---- a chain cut from a graph ---- */

#define VRAM__STAGES 128 /* of a chain, if nothing else is asked for */

/* Bytes in front of a step's scratch. */
static uint64_t vram__cuts_bytes(const vram_graph *g) {
  const uint64_t node = sizeof(vram__segment) + sizeof(uint32_t) + sizeof(vram_range) +
                        sizeof(vram_stage) + sizeof(vram_way) + 16;
  const uint64_t names = g->nnode < VRAM_MAX_STAGES ? g->nnode + UINT64_C(1) : VRAM_MAX_STAGES;
  const uint64_t value = 2 * sizeof(uint32_t) + 1;
  return vram__plus(
      vram__plus(vram__mul(g->nnode + UINT64_C(1), node), vram__mul(g->nvalue, value)),
      256 + names * 2 * VRAM_MAX_NAME);
}

VRAM_API uint64_t vram_chain_cut_bytes(const vram_graph *g, const vram_step_options *o) {
  vram_step_options with;
  uint64_t step = vram_step_bytes(g, o);
  if (o) { /* every stage is a checkpointed range in one of the steps */
    with = *o;
    with.replay = NULL;
    with.checkpoint = NULL;
    with.ncheckpoint = g->nnode;
    step = vram__plus(step, vram_step_bytes(g, &with));
  }
  return vram__plus(vram__cuts_bytes(g), step);
}

/* Which values no cut waits for: those without a gradient, and those with many readers. */
static void vram__cuts_sides(const vram_graph *g, vram__cuts *c) {
  const vram_node *n;
  const char *line;
  uint32_t i, k;
  for (i = 0; i < g->nvalue; i++)
    c->held[i] = 0, c->side[i] = 0;
  for (n = g->first; n; n = n->next) {
    int grad = 0;
    for (i = 0; i < n->nparam; i++)
      grad |= n->param[i] && n->param[i]->kind == VRAM__PARAM;
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      const vram_value *v = n->in[i];
      grad |= v->node ? !(c->side[v->index] & 1) : (v->flags & VRAM__GRAD) != 0;
    }
    if (n->op == VRAM_OP_detach)
      grad = 0;
    for (i = 0; i < n->nout; i++)
      c->side[n->out[i].index] = !grad || vram__kind_rank(n->out[i].dtype) < 2;
  }
  for (n = g->first, line = NULL; n; n = n->next) { /* held: readers, by lines */
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      for (k = 0; k < i && n->in[k] != n->in[i];)
        k++;
      c->held[n->in[i]->index] += k == i && n->name != line;
    }
    line = n->name;
  }
  for (i = 0; i < g->nvalue; i++)
    c->side[i] |= c->held[i] >= 4;
}

/* Every place between lines where one value crosses that is no side value. */
static void vram__cuts_find(const vram_graph *g, vram__cuts *c) {
  const vram_node *n, *from, *end;
  const vram_value *one = NULL;
  const char *loss = g->root->node ? g->root->node->name : NULL;
  uint32_t i, j, live = 0;
  uint64_t sum = 0; /* of the indices of those that live */
  c->ncut = 0;
  for (from = n = g->first; n; n = end->next) {
    end = vram__line_end_of(n);
    if (n->name == loss)
      break;
    if (n->op == VRAM__OP_drop)
      continue;
    for (; n != end->next; n = n->next) {
      for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
        const vram_value *v = n->in[i];
        for (j = 0; j < i && n->in[j] != v;)
          j++;
        if (j == i && v->node && !c->side[v->index] && !vram__captured(v) &&
            c->last[v->index] == n->index)
          live--, sum -= v->index;
      }
      for (i = 0; i < n->nout; i++)
        if (!vram__captured(&n->out[i]) && !c->side[n->out[i].index] &&
            c->last[n->out[i].index] > n->index) {
          live++, sum += n->out[i].index;
          one = &n->out[i];
        }
    }
    if (live != 1)
      continue;
    while (one->index != sum) { /* the one that is left was made before */
      const vram_node *m = one->node;
      for (i = 0; i < m->nout && m->out[i].index != sum;)
        i++;
      if (i < m->nout)
        one = &m->out[i];
      else if (m->prev) {
        while (m->prev && !m->prev->nout)
          m = m->prev;
        if (!m->prev)
          break;
        one = &m->prev->out[0];
      } else
        break;
    }
    if (one->index != sum || c->last[one->index] == UINT32_MAX)
      continue;
    while (end->next && end->next->op == VRAM__OP_drop) /* what goes here goes with the stage */
      end = vram__line_end_of(end->next);
    c->cut[c->ncut].first = from;
    c->cut[c->ncut].last = end;
    c->cut[c->ncut++].value = one;
    from = end->next;
  }
  c->cut[c->ncut].first = from;
  c->cut[c->ncut].value = NULL;
  for (n = from; n->next;)
    n = n->next;
  c->cut[c->ncut++].last = n;
}

/* Stage i goes to the next one. */
static void vram__cuts_join(vram__cuts *c, uint32_t i) {
  c->cut[i + 1].first = c->cut[i].first;
  for (; i + 1 < c->ncut; i++)
    c->cut[i] = c->cut[i + 1];
  c->ncut--;
}

/* Plays a step, and counts what happens in its stages. */
static vram_result vram__cuts_play(const vram_graph *g, const vram_step_options *o, vram__cuts *c,
                                   void *scratch, uint64_t bytes, vram_report *r, vram__s *s) {
  const vram_node *n = g->first;
  vram_result result;
  uint32_t i;
  for (i = 0; i < c->ncut; i++) {
    for (; n && n->index <= c->cut[i].last->index; n = n->next)
      c->stage_of[n->index] = i;
    c->cut[i].gone = 0;
    c->cut[i].bad = 0;
    c->cut[i].id = UINT32_MAX;
  }
  c->plain = o->ncheckpoint != 0;
  c->at = c->nheld = 0;
  c->phase = 0;
  c->now = c->peak = c->workspace = 0;
  c->side_bytes = c->autocast = c->autocast_peak = c->workspace_left = c->carried = 0;
  s->live = NULL;
  s->live_cap = 0;
  s->stop_at = 0;
  s->run = NULL;
  s->cuts = c;
  s->problem_node = NULL;
  s->problem = vram__misuse(g, o, &result);
  if (s->problem)
    return result;
  /* which leaves get a gradient is known beforehand: only the step itself is counted */
  result = vram__run_step(g, o, scratch, bytes, r, s, 0);
  if (c->phase)
    vram__cuts_close(c);
  return result;
}

/* "first..last", at most 2 * VRAM_MAX_NAME bytes with the zero at the end. */
static uint32_t vram__stage_name(const vram_node *first, const vram_node *last, char *to) {
  const uint32_t most = VRAM_MAX_NAME - 1;
  uint32_t n = vram_node_name(first, to, most), more;
  n = n < most ? n : most - 1;
  while (last != first && last->op == VRAM__OP_drop)
    last = last->prev;
  if (first->name == last->name && first->round == last->round)
    return n + 1;
  to[n] = to[n + 1] = '.';
  more = vram_node_name(last, to + n + 2, most);
  return n + 2 + (more < most ? more : most - 1) + 1;
}

VRAM_API vram_result vram_chain_cut(const vram_graph *g, const vram_step_options *o,
                                    uint32_t max_stages, void *scratch, uint64_t scratch_bytes,
                                    vram_chain *chain, vram_error *err) {
  vram_step_options step;
  vram__cuts c;
  vram__s s;
  vram_report r;
  vram_range *range;
  vram_stage *stage;
  vram_way *way;
  vram_result result;
  char *name;
  uint8_t *mem;
  uint64_t used = 0, cap, all = 0, fixed;
  uint32_t i, k, names;
  vram__zero(chain, sizeof *chain);
  if (!o || !o->train || o->checkpoint_segments || o->ncheckpoint)
    return vram__chain_error(err, VRAM_ERR_VALUE, 0,
                             "a chain is cut from a training step without checkpoints");
  if (!g->root || !g->first)
    return vram__chain_error(err, VRAM_ERR_VALUE, 0, "a model without a loss");
  if (!scratch || scratch_bytes < 64 + vram__cuts_bytes(g))
    return vram__chain_error(err, VRAM_ERR_MEMORY, 0, vram_result_text(VRAM_ERR_MEMORY));
  mem = (uint8_t *)scratch + (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  cap = (scratch_bytes - 8) & ~(uint64_t)7;
  vram__zero(&c, sizeof c);
  c.cut = (vram__segment *)vram__bump(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *c.cut);
  stage = (vram_stage *)vram__bump(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *stage);
  way = (vram_way *)vram__bump(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *way);
  range = (vram_range *)vram__bump(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *range);
  c.stage_of = (uint32_t *)vram__bump(mem, &used, cap, g->nnode * (uint64_t)sizeof *c.stage_of);
  c.last = (uint32_t *)vram__bump(mem, &used, cap, g->nvalue * (uint64_t)sizeof *c.last);
  c.held = (uint32_t *)vram__bump(mem, &used, cap, g->nvalue * (uint64_t)sizeof *c.held);
  c.side = (uint8_t *)vram__bump(mem, &used, cap, g->nvalue);
  names = g->nnode < VRAM_MAX_STAGES ? g->nnode + 1 : VRAM_MAX_STAGES;
  name = (char *)vram__bump(mem, &used, cap, names * (uint64_t)2 * VRAM_MAX_NAME);
  if (!name)
    return vram__chain_error(err, VRAM_ERR_MEMORY, 0, vram_result_text(VRAM_ERR_MEMORY));
  vram__zero(c.cut, (g->nnode + UINT64_C(1)) * sizeof *c.cut);
  step = *o;
  step.event = NULL;
  step.nodes = NULL;
  step.replay = NULL;
  step.accumulate = 0;
  vram__last_uses(g, c.last);
  vram__cuts_sides(g, &c);
  vram__cuts_find(g, &c);
  if (!max_stages || max_stages > VRAM_MAX_STAGES)
    max_stages = max_stages ? VRAM_MAX_STAGES : VRAM__STAGES;
  for (;;) {
    const uint32_t before = c.ncut;
    result = vram__cuts_play(g, &step, &c, mem + used, cap - used, &r, &s);
    if (result)
      break;
    for (i = 0; i + 1 < c.ncut;) /* nor between a tensor and a view of it */
      if (c.cut[i].bad || c.cut[i].id == UINT32_MAX || (i && c.cut[i].id == c.cut[i - 1].id))
        vram__cuts_join(&c, i);
      else
        i++;
    if (c.ncut < before)
      continue;
    while (c.ncut > max_stages) {
      uint64_t least = UINT64_MAX;
      for (i = k = 0; i + 1 < c.ncut; i++)
        if (c.cut[i].saved + c.cut[i + 1].saved < least)
          least = c.cut[i].saved + c.cut[i + 1].saved, k = i;
      c.cut[k + 1].saved = least;
      vram__cuts_join(&c, k);
    }
    if (c.ncut == before)
      break;
  }
  fixed = c.side_bytes + c.autocast_peak + c.workspace_left;
  for (i = 0; !result && i < VRAM_CATEGORY_COUNT; i++) {
    uint64_t bytes = r.before_category_bytes[i];
    if (i == VRAM_CATEGORY_GRADIENTS && bytes < r.gradients_bytes)
      bytes = r.gradients_bytes;
    fixed = vram__plus(fixed, bytes);
  }
  if (!result && c.ncut > 1) {
    for (i = 0; i + 1 < c.ncut; i++)
      range[i].first = c.cut[i].first, range[i].last = c.cut[i].last;
    step.checkpoint = range;
    step.ncheckpoint = c.ncut - 1;
    step.reentrant = 0;
    result = vram__cuts_play(g, &step, &c, mem + used, cap - used, &r, &s);
  }
  if (result) {
    vram__chain_error(err, result, s.problem_node ? s.problem_node->line : 0,
                      s.problem ? s.problem : vram_result_text(result));
    return result;
  }
  for (i = 0; i < c.ncut; i++) {
    const vram__segment *q = c.cut + i;
    const vram_node *n;
    uint64_t flops = 0;
    for (n = q->first; n != q->last->next; n = n->next)
      flops = vram__plus(flops, vram_node_flops(n));
    all = vram__plus(all, flops);
    way[i].saved_bytes = q->saved;
    way[i].forward_temp_bytes = q->forward_temp;
    way[i].backward_temp_bytes = q->backward_temp;
    way[i].forward_cost = flops;
    way[i].backward_cost = vram__mul(2, flops);
    vram__zero(stage + i, sizeof *stage);
    stage[i].output_bytes = i + 1 < c.ncut ? q->output : 0;
    stage[i].forward_cost = flops;
    stage[i].forward_temp_bytes = i + 1 < c.ncut ? q->plain_temp : q->forward_temp;
    stage[i].way = way + i;
    stage[i].nway = 1;
    stage[i].first = q->first, stage[i].last = q->last;
    stage[i].name = name;
    name += vram__stage_name(q->first, q->last, name);
  }
  if (all > VRAM_MAX_BYTES / 4)
    return vram__chain_error(err, VRAM_ERR_OVERFLOW, 0, "operations beyond 63 bits");
  chain->stage = stage;
  chain->nstage = c.ncut;
  chain->static_bytes = fixed;
  chain->align = 512;
  if (err)
    vram__zero(err, sizeof *err);
  return VRAM_OK;
}

/* ---- a step within a budget ---- */

#define VRAM__GRID 16 /* budgets of the chain that are tried in any case */

typedef struct vram__stepper {
  const vram_graph *g;
  vram_step_options step;
  const vram_allocator *allocator;
  vram_planned_step *plan;
  vram_span *span;
  vram_range *range;
  vram_span *grid; /* what the grid's budgets gave, nstage each */
  uint32_t ngrid[VRAM__GRID];
  void *scratch, *table;
  uint64_t scratch_bytes, table_bytes;
  vram_error *err;
} vram__stepper;

static vram_result vram__step_memory(const vram_allocator *a, void **memory, uint64_t *bytes,
                                     uint64_t want, vram_error *err) {
  if (*memory && *bytes >= want)
    return VRAM_OK;
  if (*memory)
    a->free(a->user, *memory, *bytes);
  *memory = NULL;
  *bytes = want;
  if (want < VRAM_OVERFLOW)
    *memory = a->alloc(a->user, want);
  return *memory ? VRAM_OK
                 : vram__chain_error(err, VRAM_ERR_MEMORY, 0, "the allocator gave no memory");
}

/* Plays the step with the ranges that q->range holds. */
static vram_result vram__step_try(vram__stepper *q, uint32_t nrange, uint64_t budget,
                                  vram_report *r) {
  vram_result result;
  q->step.checkpoint = q->range;
  q->step.ncheckpoint = nrange;
  q->step.budget_bytes = budget;
  result = vram__step_memory(q->allocator, &q->scratch, &q->scratch_bytes,
                             vram_step_bytes(q->g, &q->step), q->err);
  if (!result)
    result = vram_step(q->g, &q->step, q->scratch, q->scratch_bytes, r, q->err);
  q->plan->tried++;
  return result;
}

/* The ranges of the spans in q->span. */
static void vram__step_ranges(vram__stepper *q, uint32_t count) {
  const vram_stage *stage = q->plan->chain.stage;
  uint32_t i;
  for (i = 0; i < count; i++) {
    q->range[i].first = stage[q->span[i].first].first;
    q->range[i].last = stage[q->span[i].last].last;
  }
}

/* Plans the chain for a budget of its own and turns that into ranges. */
static vram_result vram__step_chain(vram__stepper *q, uint64_t budget, vram_schedule *s,
                                    uint32_t *nrange) {
  const vram_chain *c = &q->plan->chain;
  vram_schedule_options o;
  vram_result result;
  vram__zero(&o, sizeof o);
  o.budget_bytes = budget;
  result = vram__step_memory(q->allocator, &q->table, &q->table_bytes, vram_schedule_bytes(c, &o),
                             q->err);
  if (!result)
    result = vram_schedule_plan(c, &o, q->table, q->table_bytes, s, q->err);
  if (!result)
    result = vram_schedule_spans(c, s->move, s->nmove, q->span, c->nstage, nrange, q->err);
  if (!result)
    vram__step_ranges(q, *nrange);
  return result;
}

/* The smallest budget that the step with these ranges fits: found by halves. */
static vram_result vram__step_need(vram__stepper *q, uint32_t nrange, uint64_t most,
                                   uint64_t *need) {
  vram_report r;
  uint64_t low, high;
  vram_result result = vram__step_try(q, nrange, VRAM_MAX_BYTES, &r);
  if (result)
    return result;
  high = r.device_bytes.expected < most ? r.device_bytes.expected : most;
  low = r.peak_allocated_bytes.lower; /* without the context that is too little */
  low = low < high ? low - (low != 0) : 0;
  if (!q->step.replay) { /* fits says no more than that */
    *need = r.device_bytes.expected;
    return VRAM_OK;
  }
  *need = VRAM_OVERFLOW;
  result = vram__step_try(q, nrange, high, &r);
  if (result || !r.fits) /* more than another one needs */
    return result;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    result = vram__step_try(q, nrange, middle, &r);
    if (result)
      return result;
    if (r.fits)
      high = middle;
    else
      low = middle;
  }
  *need = high;
  return VRAM_OK;
}

/* The grid, then halves between the cheapest that fits and the next one. */
static vram_result vram__step_search(vram__stepper *q, uint64_t budget) {
  vram_planned_step *p = q->plan;
  vram_schedule s;
  vram_report r;
  uint64_t low = 0, high, at, best = 0, best_cost = VRAM_OVERFLOW, above = 0, need, smallest_at = 0;
  uint64_t grid[VRAM__GRID];
  uint32_t i, n;
  vram_result result = vram__step_chain(q, 1, &s, &n); /* what it says of the smallest one */
  if (result)
    return result;
  low = s.smallest_budget_bytes;
  result = vram__step_chain(q, 0, &s, &n);
  if (result)
    return result;
  high = s.peak_bytes > low ? s.peak_bytes : low;
  p->cost_plain = s.cost;
  for (i = 0; i < VRAM__GRID; i++) {
    grid[i] = at = i < VRAM__GRID - 1 ? low + (high - low) / (VRAM__GRID - 1) * i : high;
    result = vram__step_chain(q, at, &s, &n);
    if (!result)
      result = vram__step_try(q, n, budget, &r);
    if (result)
      return result;
    q->ngrid[i] = n;
    vram__copy(q->grid + i * (uint64_t)p->chain.nstage, q->span, n * (uint64_t)sizeof *q->span);
    if (r.fits && s.cost <= best_cost)
      best = at, best_cost = s.cost, above = at + (high - low) / (VRAM__GRID - 1);
  }
  p->feasible = best != 0;
  for (i = 0; best && i < 12 && above - best > p->chain.align; i++) {
    at = best + (above - best) / 2;
    result = vram__step_chain(q, at, &s, &n);
    if (!result)
      result = vram__step_try(q, n, budget, &r);
    if (result)
      return result;
    if (r.fits && s.cost <= best_cost)
      best = at, best_cost = s.cost;
    else
      above = at;
  }
  p->smallest_budget_bytes = VRAM_OVERFLOW;
  for (i = 0; i < VRAM__GRID; i++) {
    n = q->ngrid[i];
    vram__copy(q->span, q->grid + i * (uint64_t)p->chain.nstage, n * (uint64_t)sizeof *q->span);
    vram__step_ranges(q, n);
    result = vram__step_need(q, n, p->smallest_budget_bytes, &need);
    if (result)
      return result;
    if (need < p->smallest_budget_bytes)
      p->smallest_budget_bytes = need, smallest_at = grid[i];
  }
  result = vram__step_chain(q, best ? best : smallest_at, &p->schedule, &p->nrange);
  if (!result)
    result = vram__step_try(q, p->nrange, budget, &p->report);
  p->cost = p->schedule.cost;
  return result;
}

VRAM_API vram_result vram_step_plan(const vram_graph *g, const vram_step_options *o,
                                    uint32_t max_stages, const vram_allocator *allocator,
                                    vram_planned_step *plan, vram_error *err) {
  vram__stepper q;
  vram_planned_step p;
  vram_result result;
  uint64_t bytes, cut, stages, budget;
  uint8_t *mem;
  void *moves = NULL;
  vram__zero(plan, sizeof *plan);
  vram__zero(&p, sizeof p);
  vram__zero(&q, sizeof q);
  if (err)
    vram__zero(err, sizeof *err);
  if (!o || !o->train || o->reentrant)
    return vram__chain_error(err, VRAM_ERR_VALUE, 0,
                             "checkpoints are planned for a training step, not reentrant");
  if (!o->budget_bytes)
    return vram__chain_error(err, VRAM_ERR_VALUE, 0, "a plan needs a budget");
  q.g = g, q.step = *o, q.allocator = allocator, q.plan = &p, q.err = err;
  q.step.event = NULL;
  q.step.nodes = NULL;
  budget = o->budget_bytes;
  cut = vram_chain_cut_bytes(g, o);
  stages = g->nnode < VRAM_MAX_STAGES ? g->nnode + UINT64_C(1) : VRAM_MAX_STAGES;
  bytes = vram__plus(cut, stages * ((VRAM__GRID + 1) * sizeof *q.span + sizeof *q.range) + 64);
  result = vram__step_memory(allocator, &p.memory, &p.memory_bytes, bytes, err);
  if (result)
    return result;
  result = vram_chain_cut(g, o, max_stages, p.memory, cut, &p.chain, err);
  mem = (uint8_t *)p.memory + (cut + 7) / 8 * 8;
  q.range = (vram_range *)(void *)mem;
  q.span = (vram_span *)(void *)(mem + stages * sizeof *q.range);
  q.grid = q.span + stages;
  if (!result)
    result = vram__step_try(&q, 0, budget, &p.plain);
  if (!result)
    result = vram__step_search(&q, budget);
  if (!result)
    result = vram__step_memory(allocator, &moves, &p.moves_bytes,
                               (p.schedule.nmove + UINT64_C(1)) * sizeof(vram_move), err);
  if (!result) {
    vram__copy(moves, p.schedule.move, p.schedule.nmove * (uint64_t)sizeof(vram_move));
    p.schedule.move = (vram_move *)moves;
  }
  p.span = q.span, p.range = q.range;
  if (q.scratch)
    allocator->free(allocator->user, q.scratch, q.scratch_bytes);
  if (q.table)
    allocator->free(allocator->user, q.table, q.table_bytes);
  if (result)
    allocator->free(allocator->user, p.memory, p.memory_bytes);
  else
    *plan = p;
  return result;
}

VRAM_API void vram_step_plan_free(vram_planned_step *plan, const vram_allocator *allocator) {
  if (plan->schedule.move)
    allocator->free(allocator->user, plan->schedule.move, plan->moves_bytes);
  if (plan->memory)
    allocator->free(allocator->user, plan->memory, plan->memory_bytes);
  vram__zero(plan, sizeof *plan);
}

