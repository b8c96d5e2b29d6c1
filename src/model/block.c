/* >>model/block    checkpoint blocks, by calls and by lines */
#include "model/model.h"

/* A key of a block; 0: it is none. */
VRAM__FN int vram__block_key(vram__span word, uint8_t *flags) {
  static const struct {
    const char *word;
    uint8_t set, to;
  } keys[] = {{"reentrant=", VRAM_CHECKPOINT_REENTRANT, 1},
              {"preserve_rng_state=", VRAM_CHECKPOINT_FORGETS_RNG, 0},
              {"early_stop=", VRAM_CHECKPOINT_RUNS_ON, 0}};
  uint32_t i;
  for (i = 0; i < sizeof keys / sizeof *keys; i++) {
    const uint32_t n = vram__text_len(keys[i].word);
    uint32_t digit;
    if (word.len != n + 1 || !vram__text_equal(word.text, keys[i].word, n))
      continue;
    digit = (uint32_t)(word.text[n] - '0');
    if (digit > 1)
      return 0;
    *flags = (uint8_t)(digit == keys[i].to ? *flags | keys[i].set : *flags & ~keys[i].set);
    return 1;
  }
  return 0;
}

/* A list of values in the graph's memory. */
static vram_value **vram__block_values(vram_graph *g, vram_value *const *v, uint32_t n) {
  vram_value **to = (vram_value **)vram__graph_take(g, n * (uint64_t)sizeof *to);
  uint32_t i;
  for (i = 0; to && i < n; i++)
    to[i] = v[i];
  return to;
}

/* A block begins; of `what` its arguments and flags count. */
VRAM__FN int vram__block_begin(vram_graph *g, const vram_checkpoint *what) {
  vram_checkpoint *b;
  if (g->checkpoint_depth == VRAM_MAX_NESTED) {
    vram__graph_fail(g, VRAM_ERR_LIMIT, "more than 128 checkpoint blocks inside one another");
    return 0;
  }
  b = (vram_checkpoint *)vram__graph_take(g, sizeof *b);
  if (!b)
    return 0;
  vram__memory_zero(b, sizeof *b);
  b->arg = vram__block_values(g, what->arg, what->narg);
  if (!b->arg)
    return 0;
  b->narg = what->narg;
  b->nheld = what->nheld;
  b->flags = what->flags;
  b->up = g->checkpoint_open;
  b->last = g->last; /* until it ends: the node in front of it */
  if (g->checkpoint_last)
    g->checkpoint_last->next = b;
  else
    g->checkpoint_first = b;
  g->checkpoint_last = g->checkpoint_open = b;
  g->ncheckpoint++;
  if (++g->checkpoint_depth > g->checkpoint_nested)
    g->checkpoint_nested = g->checkpoint_depth;
  return 1;
}

/* A `drop` of those values that nothing from this node on uses. */
static int vram__block_hold(vram_graph *g, vram_value *const *v, uint32_t n, uint32_t from) {
  vram_value *in[64];
  uint32_t i, count = 0;
  for (i = 0; i < n; i++) {
    if (v[i]->last < from)
      in[count++] = v[i];
    if (count && (count == 64 || i + 1 == n)) {
      if (!vram__node_lifetime(g, VRAM__OP_drop, in, count))
        return 0;
      count = 0;
    }
  }
  return 1;
}

VRAM__FN int vram__block_end(vram_graph *g, vram_value *const *out, uint32_t nout) {
  vram_checkpoint *b = g->checkpoint_open;
  uint32_t i;
  const vram_node *before;
  if (!b) {
    vram__graph_fail(g, VRAM_ERR_SYNTAX, "end without checkpoint");
    return 0;
  }
  before = b->last;
  b->last = NULL;
  g->checkpoint_open = b->up;
  g->checkpoint_depth--;
  b->first = before ? before->next : g->first;
  if (!b->first)
    return 1; /* nothing is in it: it does nothing */
  if (!vram__block_hold(g, b->arg, b->narg, b->first->index))
    return 0;
  b->last = g->last;
  b->out = vram__block_values(g, out, nout);
  b->nout = nout;
  for (i = 0; b->out && i < nout; i++)
    if (!out[i]->node || out[i]->node->index < b->first->index) {
      vram__graph_fail(g, VRAM_ERR_VALUE, "an output that the checkpoint block does not make");
      return 0;
    }
  return b->out && vram__block_hold(g, out, nout, b->last->index + 1);
}

/* Are these values all there? */
static int vram__block_has(vram_graph *g, vram_value *const *v, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    if (!v[i])
      vram__graph_fail(g, VRAM_ERR_VALUE, "a value of a checkpoint block that is NULL");
  return !g->error.code;
}

VRAM_API vram_result vram_graph_checkpoint(vram_graph *g, vram_value *const *arg, uint32_t narg,
                                           uint32_t nheld, const char *keys) {
  const char *at = keys ? keys : "";
  vram_checkpoint what;
  vram__memory_zero(&what, sizeof what);
  if (nheld > narg)
    vram__graph_fail(g, VRAM_ERR_VALUE, "a checkpoint block that holds more than it is given");
  while (*at) {
    const char *const from = at;
    while (*at && *at != ' ')
      at++;
    if (at > from && !vram__block_key(vram__span_of(from, at), &what.flags))
      vram__graph_fail(g, VRAM_ERR_SYNTAX, "an unknown key of a checkpoint block");
    at += *at == ' ';
  }
  what.arg = (vram_value **)(uintptr_t)arg;
  what.narg = narg;
  what.nheld = nheld;
  if (vram__block_has(g, arg, narg))
    vram__block_begin(g, &what);
  return g->error.code;
}

VRAM_API vram_result vram_graph_checkpoint_end(vram_graph *g, vram_value *const *out,
                                               uint32_t nout) {
  if (vram__block_has(g, out, nout))
    vram__block_end(g, out, nout);
  return g->error.code;
}

VRAM_API uint32_t vram_node_recomputed(const vram_node *n) {
  const vram_checkpoint *b;
  uint32_t count = 0;
  for (b = n->block; b; b = b->up)
    count++;
  return count;
}
