/* >>step/calls    which nodes are calls of checkpoint(): blocks of the text, segments, ranges */
#include "step/step.h"

VRAM__FN int
vram__step_is_captured(const vram_value *v) { /* parameters and buffers are no arguments */
  return v->node && (vram__op_traits(v->node) & VRAM__OP_PARAM);
}

/* The last node of the line that n begins. */
VRAM__FN const vram_node *vram__line_end_of(const vram_node *n) {
  while (n->next && vram__node_same_line(n->next, n))
    n = n->next;
  return n;
}

/* The last of the `drop`s behind n that end the blocks of the text around it. */
static const vram_node *vram__block_drops(const vram_node *n) {
  const vram_checkpoint *b;
  const vram_node *last = n;
  for (b = n->block; b; b = b->up)
    while (last->next && last->next->op >= VRAM_OP_COUNT && last->index < b->last->index)
      last = last->next;
  return last;
}

/* Is the place behind n inside a block of the text, where no call may end? */
VRAM__FN int vram__block_goes_on(const vram_node *n) {
  const vram_checkpoint *b;
  const vram_node *last = vram__block_drops(n);
  for (b = n->block; b; b = b->up)
    if (last->index < b->last->index)
      return 1;
  return 0;
}

#define VRAM__FEW_FUNCTIONS "more checkpoint segments than the chain has functions"

/* checkpoint_sequential. The chain ends before the line of the loss; one function of it ends where
   one value is handed on, and no block of the text is open. All segments but the last are
   checkpointed, that one's input is a local variable until it has run. They go behind the place of
   the text's blocks; gives how many there are. */
static uint32_t vram__checkpoint_segments(vram__step *s) {
  const vram_graph *g = s->g;
  const vram_node *n, *from, *end;
  const uint32_t *last = s->name_of;
  uint32_t i, j, live, functions, size = 0, count = 0, k = s->o->checkpoint_segments - 1;
  const vram_node *loss = g->root->node;
  vram__range *range = s->call.range + g->ncheckpoint;
  int pass;
  if (k >= g->nnode) {
    vram__step_refuse(s, VRAM_ERR_VALUE, NULL, VRAM__FEW_FUNCTIONS);
    return 0;
  }
  for (pass = 0; pass < 2; pass++) {
    functions = live = 0;
    for (from = n = g->first; n && !(loss && vram__node_same_line(n, loss)); n = end->next) {
      end = vram__line_end_of(n);
      if (vram__node_is_lifetime(n))
        continue;
      for (; n != end->next; n = n->next) {
        for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
          const vram_value *v = n->in[i];
          for (j = 0; j < i && n->in[j] != v;)
            j++;
          live -= j == i && v->node && !vram__step_is_captured(v) && last[v->index] == n->index;
        }
        for (i = 0; i < n->nout; i++)
          live += !vram__step_is_captured(&n->out[i]) && last[n->out[i].index] > n->index;
      }
      if (live != 1 || vram__block_goes_on(end))
        continue;
      end = vram__block_drops(end);
      functions++;
      if (!pass)
        continue;
      if (count == k)
        range[k - 1].hold = end;
      else if (functions % size == 0) {
        range[count].first = from;
        range[count].last = end;
        range[count].hold = NULL;
        range[count].block = NULL;
        count++;
        from = end->next;
      }
    }
    size = functions / (k + 1);
    if (!size) {
      vram__step_refuse(s, VRAM_ERR_VALUE, NULL, VRAM__FEW_FUNCTIONS);
      return 0;
    }
  }
  return count;
}

/* The caller's ranges, whole lines, behind the place of the text's blocks; gives how many. */
static uint32_t vram__calls_of_options(vram__step *s) {
  const uint32_t count = s->o->ncheckpoint;
  const vram_node *n = s->g->first;
  vram__range *to = s->call.range + s->g->ncheckpoint;
  uint32_t i;
  for (i = 0; i < count; i++, to++) {
    const vram_range *r = s->o->checkpoint + i;
    if (!r->first || !r->last || r->last->index < r->first->index) {
      vram__step_refuse(s, VRAM_ERR_VALUE, r->first,
                        "a checkpointed range that ends before it begins");
      return 0;
    }
    if (n->index > r->first->index)
      n = s->g->first; /* it begins before the range before it */
    while (vram__line_end_of(n)->next && vram__line_end_of(n)->index < r->first->index)
      n = vram__line_end_of(n)->next;
    to->first = to->last = n;
    while (to->last->next && to->last->index < r->last->index)
      to->last = to->last->next;
    to->last = vram__block_drops(vram__line_end_of(to->last));
    to->hold = NULL;
    to->block = NULL;
    if (i && to->first->index < to[-1].first->index) {
      vram__step_refuse(s, VRAM_ERR_VALUE, r->first,
                        "a checkpointed range that begins before the range before it");
      return 0;
    }
  }
  return count;
}

/* The blocks of the text come between the `count` ranges behind their place, in the order in which
   they begin; of two that begin together the longer one is outside. */
static void vram__calls_merge(vram__step *s, uint32_t count) {
  const vram_checkpoint *b = s->g->checkpoint_first;
  const vram__range *other = s->call.range + s->g->ncheckpoint, *const end = other + count;
  vram__range *to = s->call.range;
  while (b || other < end) {
    if (b && !b->first) {
      b = b->next;
      continue;
    }
    if (b && (other == end || b->first->index < other->first->index ||
              (b->first == other->first && b->last->index > other->last->index))) {
      to->first = b->first;
      to->last = b->last;
      to->hold = NULL;
      to->block = b;
      to->flags = b->flags;
      b = b->next;
    } else {
      *to = *other++;
      to->flags = s->o->reentrant ? VRAM_CHECKPOINT_REENTRANT : 0;
    }
    to++;
  }
  s->call.nrange = (uint32_t)(to - s->call.range);
}

/* Which range is inside which, and how deep. */
static void vram__calls_nest(vram__step *s) {
  vram__range *const range = s->call.range;
  uint32_t i, depth = 0, level = 0, up = 0; /* up: the range around i, + 1, as is its `behind` */
  for (i = 0; i <= s->call.nrange; i++) {
    while (up && (i == s->call.nrange || range[up - 1].last->index < range[i].first->index)) {
      const uint32_t done = up - 1;
      up = range[done].behind;
      range[done].behind = i;
      level -= (range[done].flags & VRAM_CHECKPOINT_REENTRANT) != 0;
      depth--;
    }
    if (i == s->call.nrange)
      return;
    if (up && range[i].last->index > range[up - 1].last->index) {
      vram__step_refuse(s, VRAM_ERR_VALUE, range[i].first,
                        "a checkpointed range that begins inside another one and ends outside");
      return;
    }
    if (depth == VRAM_MAX_NESTED) {
      vram__step_refuse(s, VRAM_ERR_LIMIT, range[i].first,
                        "too many checkpointed ranges inside one another");
      return;
    }
    level += (range[i].flags & VRAM_CHECKPOINT_REENTRANT) != 0;
    if (level > s->call.levels)
      s->call.levels = level;
    range[i].behind = up;
    up = i + 1;
    depth++;
  }
}

/* One more value for a list that grows where the memory ends, if it is not there yet. */
static int vram__call_value(vram__step *s, const vram_value *v, uint32_t range, uint32_t *count) {
  if (vram__step_is_captured(v) || s->variable[v->index].refs == range + 1)
    return 0;
  s->variable[v->index].refs = range + 1; /* the range that it was last seen in */
  ++*count;
  if (vram__memory_take(s->mem, &s->used, s->cap, sizeof(vram_value *)))
    return 1;
  s->failed = VRAM_ERR_MEMORY;
  return 0;
}

/* The values from outside that range k uses; with `held` those are left to be taken after. */
static void vram__call_uses(vram__step *s, uint32_t k, int held) {
  vram__range *r = &s->call.range[k];
  const vram_checkpoint *b = r->block;
  const vram_node *n;
  uint32_t i, j;
  for (n = r->first; n != r->last->next; n = n->next)
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin && !s->failed; i++) {
      const vram_value *v = n->in[i];
      if (v->node && v->node->index >= r->first->index)
        continue;
      for (j = 0; held && b && j < b->nheld && b->arg[b->narg - 1 - j] != v;)
        j++;
      if (held && b && j < b->nheld)
        continue;
      if (vram__call_value(s, v, k, &r->narg))
        r->arg[r->narg - 1] = v;
    }
}

/* What goes into range k: its arguments, then what its function refers to beside them. */
static void vram__call_arguments(vram__step *s, uint32_t k) {
  vram__range *r = &s->call.range[k];
  const vram_checkpoint *b = r->block;
  const uint32_t named = b ? b->narg - b->nheld : 0;
  uint32_t i;
  r->narg = 0;
  r->arg = (const vram_value **)vram__memory_take(s->mem, &s->used, s->cap, 0);
  for (i = 0; i < named; i++)
    if (vram__call_value(s, b->arg[i], k, &r->narg))
      r->arg[r->narg - 1] = b->arg[i];
  if (!named)
    vram__call_uses(s, k, 1);
  r->nnamed = r->narg;
  for (i = named; b && i < b->narg; i++)
    if (vram__call_value(s, b->arg[i], k, &r->narg))
      r->arg[r->narg - 1] = b->arg[i];
  if (named)
    vram__call_uses(s, k, 0);
}

/* What comes out of range k: what it names, then what is used behind it. */
static void vram__call_results(vram__step *s, uint32_t k, const uint32_t *last) {
  vram__range *r = &s->call.range[k];
  const vram_node *n;
  uint32_t i;
  r->nout = 0;
  r->out = (const vram_value **)vram__memory_take(s->mem, &s->used, s->cap, 0);
  for (i = 0; r->block && i < r->block->nout; i++)
    if (vram__call_value(s, r->block->out[i], k, &r->nout))
      r->out[r->nout - 1] = r->block->out[i];
  for (n = r->first; n != r->last->next; n = n->next)
    for (i = 0; i < n->nout && !s->failed; i++)
      if (last[n->out[i].index] > r->last->index && vram__call_value(s, &n->out[i], k, &r->nout))
        r->out[r->nout - 1] = &n->out[i];
}

/* The calls of checkpoint() in a training step, what goes into each of them and what comes out. */
VRAM__FN void vram__calls_find(vram__step *s) {
  const vram_graph *g = s->g;
  const uint32_t segments = s->o->checkpoint_segments;
  uint64_t others = s->o->ncheckpoint ? s->o->ncheckpoint : segments > 1 ? segments - 1 : 0;
  uint32_t i, count = 0, *last = s->name_of;
  if (!s->train || s->pipe || !(others || g->ncheckpoint)) /* a pipeline's parts have them */
    return;
  vram__ranges_last_uses(g, last);
  if (segments && s->o->ncheckpoint)
    vram__step_refuse(s, VRAM_ERR_VALUE, NULL,
                      "checkpointed segments and ranges exclude each other");
  else if (others / 2 > g->nnode) {
    if (s->o->ncheckpoint)
      vram__step_refuse(s, VRAM_ERR_VALUE, NULL, "more checkpointed ranges than there can be");
    else
      vram__step_refuse(s, VRAM_ERR_VALUE, NULL, VRAM__FEW_FUNCTIONS);
  }
  if (s->failed)
    return;
  s->call.range = (vram__range *)vram__memory_take(
      s->mem, &s->used, s->cap, (others + g->ncheckpoint) * (uint64_t)sizeof *s->call.range);
  if (!s->call.range) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  if (others)
    count = s->o->ncheckpoint ? vram__calls_of_options(s) : vram__checkpoint_segments(s);
  if (!s->failed)
    vram__calls_merge(s, count);
  if (!s->failed)
    vram__calls_nest(s);
  for (i = 0; i < g->nvalue; i++)
    s->variable[i].refs = 0;
  for (i = 0; i < s->call.nrange && !s->failed; i++) {
    const vram__range *const r = &s->call.range[i];
    vram__call_arguments(s, i);
    if (!s->failed)
      vram__call_results(s, i, last);
    if (s->failed)
      return;
    if (r->narg > s->call.most_args)
      s->call.most_args = r->narg;
    if (r->flags & VRAM_CHECKPOINT_REENTRANT)
      s->call.own_args += r->block || !s->o->by_keyword ? r->narg - r->nnamed : r->narg;
    if (r->narg > 65535 || r->nout > 65535)
      vram__step_refuse(s, VRAM_ERR_LIMIT, r->first,
                        "a checkpointed part with more than 65535 inputs or outputs");
  }
}
