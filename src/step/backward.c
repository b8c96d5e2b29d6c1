/* >>step/backward    backward through the tape */
#include "step/step.h"

/* Flags what the flagged records from `from` back to `end` lead to, and tells leaves how many
   gradients will come. */
VRAM__FN void vram__backward_expect(vram__step *s, uint32_t from, uint32_t end) {
  uint32_t at, i;
  vram__grad_fn *f;
  for (at = from; at != end; at = f->prev) {
    f = vram__grad_fn_at(s, at);
    if (!f->flag)
      continue;
    for (i = 0; i < f->nin; i++) {
      uint32_t e = VRAM__EDGES(f)[i].fn;
      if (!e)
        continue;
      if (e & VRAM__LEAF)
        s->leaf.now[e & ~VRAM__LEAF].deps++;
      else
        vram__grad_fn_at(s, e)->flag = 1;
    }
  }
}

/* Where backward puts the gradients for the inputs of one record; between two records all are none.
 */
VRAM__FN vram__tensor *vram__backward_room(vram__step *s) {
  uint32_t i;
  vram__tensor *t = (vram__tensor *)vram__memory_take(
      s->mem, &s->used, s->cap, (s->tape.most_inputs + 1) * (uint64_t)sizeof *t);
  if (!t)
    s->failed = VRAM_ERR_MEMORY;
  for (i = 0; t && i <= s->tape.most_inputs; i++)
    t[i].d = NULL;
  return t;
}

enum { VRAM__GRADIENTS_LEFT = 1, VRAM__GRADIENTS_LEAVES = 2 };

/* Gradients that are as their end wants them and find nothing there are moved to it, which nobody
   sees; up to the first that is not, as several may have one end. Says whether others are left, and
   whether edges lead to leaves. */
static inline uint32_t vram__gradients_move(vram__step *s, const vram__edge *edge, uint32_t n) {
  vram__tensor *t = s->gin;
  const vram__edge *const end = edge + n;
  uint32_t seen = 0;
  for (; edge != end; edge++, t++) {
    if (edge->fn & VRAM__LEAF) {
      vram__leaf *l = s->leaf.now + (edge->fn & ~VRAM__LEAF);
      l->deps--;
      seen |= VRAM__GRADIENTS_LEAVES;
      if (!t->d)
        continue;
      if (t->d == l->d && t->dt == l->grad_dt && !l->in.d && !(seen & VRAM__GRADIENTS_LEFT))
        l->in = *t;
      else {
        seen |= VRAM__GRADIENTS_LEFT;
        continue;
      }
    } else {
      vram__slot *slot;
      if (!t->d)
        continue;
      if (!edge->fn) { /* nobody wants it: it goes with the others */
        seen |= VRAM__GRADIENTS_LEFT;
        continue;
      }
      slot = VRAM__SLOTS(vram__grad_fn_at(s, edge->fn)) + edge->out;
      if (t->d == slot->d && t->dt == slot->dt && !slot->g.d && !(seen & VRAM__GRADIENTS_LEFT))
        slot->g = *t;
      else {
        seen |= VRAM__GRADIENTS_LEFT;
        continue;
      }
    }
    t->d = NULL;
  }
  return seen;
}

/* The gradients that are left get the shapes and dtypes that their ends want. */
static inline void vram__gradients_fit(vram__step *s, const vram__edge *edge, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    if (s->gin[i].d && edge[i].fn)
      vram__gradient_fit(s, edge[i], s->gin + i);
}

/* Is what the record gave a DTensor? What a layer gathers goes on as a tensor. */
static int vram__record_is_dtensor(const vram__grad_fn *f) {
  if (f->kind == VRAM_OP_all_gather)
    return VRAM__INT(f->node, gradient, 0) != VRAM__WORD(replicated);
  if (f->kind == VRAM_OP_replicate)
    return 1;
  return f->kind < VRAM_OP_COUNT && f->node && (f->node->out[0].flags & VRAM__DTENSOR);
}

/* A sum of gradients of DTensors: InputBuffer adds to no tensor subclass in place. */
static VRAM__COLD void vram__gradient_of_dtensor(vram__step *s, vram__edge e) {
  const vram__tensor *at = vram__edge_end(s, e);
  if ((e.fn & VRAM__LEAF) || !at->d || !at->st)
    return;
  if (vram__record_is_dtensor(vram__grad_fn_at(s, e.fn)))
    vram__slot_at(s, at->st)->shown = 1;
}

/* They are added to what their ends have; each lives up to the last one. */
static void vram__gradients_add(vram__step *s, const vram__edge *edge, uint32_t n) {
  vram__tensor *gin = s->gin;
  uint32_t i;
  for (i = 0; i < n; i++)
    if (gin[i].d && edge[i].fn) {
      if (s->g->is_cut)
        vram__gradient_of_dtensor(s, edge[i]);
      vram__gradient_arrive(s, vram__edge_end(s, edge[i]), gin + i);
    }
  for (i = 0; i < n; i++)
    if (gin[i].d) {
      vram__tensor_release(s, gin[i]);
      gin[i].d = NULL;
    }
}

/* What comes first of two edges in PyTorch's queue (engine.cpp, CompareNodeTaskTime): a leaf, then
   the record that was made last. */
static inline int vram__edge_before(const vram__edge *a, const vram__edge *b) {
  return (a->fn & VRAM__LEAF) ? !(b->fn & VRAM__LEAF) : !(b->fn & VRAM__LEAF) && a->fn > b->fn;
}

/* std::__push_heap: `it` goes up from a hole. */
static void vram__heap_up(const vram__edge **heap, uint32_t hole, const vram__edge *it) {
  while (hole && vram__edge_before(it, heap[(hole - 1) / 2])) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = it;
}

/* std::pop_heap of n: the first one goes, returned. */
static const vram__edge *vram__heap_pop(const vram__edge **heap, uint32_t n) {
  const vram__edge *const first = heap[0], *const last = heap[n - 1];
  uint32_t hole = 0, child;
  n--;
  while ((child = 2 * hole + 2) < n) { /* std::__adjust_heap */
    if (vram__edge_before(heap[child - 1], heap[child]))
      child--;
    heap[hole] = heap[child];
    hole = child;
  }
  if (child == n) {
    heap[hole] = heap[child - 1];
    hole = child - 1;
  }
  if (n)
    vram__heap_up(heap, hole, last);
  return first;
}

/* The leaves of one record where somebody wants to know their order: that of the queue, a heap,
   which gives those that are alike in an order of its own. Each is there once, by its last edge. */
static VRAM__COLD void vram__backward_leaves(vram__step *s, const vram__edge *edge, uint32_t n) {
  const uint64_t used = s->used;
  const vram__edge **heap, *e;
  uint32_t i = n, at = n, count = 0;
  heap = (const vram__edge **)vram__memory_take(s->mem, &s->used, s->cap, n * sizeof *heap);
  if (!heap) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  while (i--) {
    if (edge[i].fn & VRAM__LEAF) {
      if (s->leaf.now[edge[i].fn & ~VRAM__LEAF].deps)
        continue;
      s->leaf.now[edge[i].fn & ~VRAM__LEAF].deps = 1;
    }
    if (edge[i].fn)
      heap[--at] = edge + i;
  }
  for (; at < n; at++)
    vram__heap_up(heap, count++, heap[at]);
  while (count) {
    e = vram__heap_pop(heap, count--);
    if (!(e->fn & VRAM__LEAF))
      continue;
    s->leaf.now[e->fn & ~VRAM__LEAF].deps = 0;
    if (!s->failed)
      vram__gradient_accumulate(s, s->leaf.at + (e->fn & ~VRAM__LEAF));
  }
  s->used = used;
}

/* Gradient k arrives, and a leaf that has all of its own takes it. */
static void vram__gradient_end(vram__step *s, const vram__edge *edge, uint32_t k) {
  vram__tensor *t = s->gin + k;
  if (t->d && edge[k].fn) {
    vram__gradient_fit(s, edge[k], t);
    if (s->g->is_cut)
      vram__gradient_of_dtensor(s, edge[k]);
    vram__gradient_arrive(s, vram__edge_end(s, edge[k]), t);
  }
  if (t->d)
    vram__tensor_release(s, *t);
  t->d = NULL;
  if ((edge[k].fn & VRAM__LEAF) && !s->leaf.now[edge[k].fn & ~VRAM__LEAF].deps)
    vram__gradient_accumulate(s, s->leaf.at + (edge[k].fn & ~VRAM__LEAF));
}

/* The same of a linear layer, which is three functions: AddmmBackward gives the bias its gradient,
   TBackward the weight, and the input's goes through ViewBackward where it is no matrix; of the two
   that comes first which forward made last: the weight's with a bias, else the input's. */
static VRAM__COLD void vram__gradients_of_linear(vram__step *s, const vram__grad_fn *f,
                                                 const vram__edge *edge, int view) {
  const uint32_t x = f->nin - 2u;
  if (!view || !x)
    vram__gradient_end(s, edge, x);
  if (x)
    vram__gradient_end(s, edge, 0);
  vram__gradient_end(s, edge, x + 1);
  if (view && x)
    vram__gradient_end(s, edge, x);
}

/* Behind the record of a module whose wrapper has an autograd node of its own in front of it: the
   parameters' gradients are accumulated first, then the wrapper does its own, then the others go
   on.
 */
static VRAM__APART void vram__backward_module(vram__step *s, vram__grad_fn *f) {
  const vram__edge *const edge = VRAM__EDGES(f);
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if ((edge[i].fn & VRAM__LEAF) && s->gin[i].d)
      vram__gradient_arrive(s, vram__edge_end(s, edge[i]), s->gin + i);
  for (i = 0; i < f->nin; i++)
    if ((edge[i].fn & VRAM__LEAF) && !s->leaf.now[edge[i].fn & ~VRAM__LEAF].deps)
      vram__gradient_accumulate(s, s->leaf.at + (edge[i].fn & ~VRAM__LEAF));
  if (!s->failed)
    s->wrapper->recorded(s, vram__grad_fn_index(s, f));
  for (i = 0; i < f->nin; i++)
    if ((edge[i].fn & VRAM__LEAF) && s->gin[i].d) {
      vram__tensor_release(s, s->gin[i]);
      s->gin[i].d = NULL;
    }
  vram__gradients_add(s, edge, f->nin);
}

/* One record: its gradients arrive at what it leads to, and what it held goes. */
static inline void vram__backward_record(vram__step *s, vram__grad_fn *f) {
  const vram__edge *const edge = VRAM__EDGES(f);
  vram__slot *const first = VRAM__SLOTS(f), *const end = first + f->nout, *slot = first;
  const uint32_t n = f->nin;
  uint32_t i, seen, linear;
  if (!s->tape.retain)
    f->done = f->nsaved || f->inner ? 2 : 1;
  f->flag = 0;
  s->node = f->node;
  while (slot != end && !slot->g.d)
    slot++;
  if (slot != end)
    vram__backward_any(s, f, s->gin);
  else
    vram__saved_unpack(s, f);
  if (s->failed)
    return;
  seen = vram__gradients_move(s, edge, n);
  linear = (seen & VRAM__GRADIENTS_LEFT) && f->kind == VRAM_OP_linear;
  if (seen & VRAM__GRADIENTS_LEFT)
    vram__gradients_fit(s, edge, linear ? n - 2 : n);
  for (slot = first; slot != end; slot++)
    if (slot->g.d) {
      vram__tensor_release(s, slot->g);
      slot->g.d = NULL;
    }
  if ((f->nsaved || f->inner) && !s->tape.retain)
    vram__saved_release(s, f);
  if (linear) {
    vram__gradients_of_linear(s, f, edge, first->d->ndim > 2);
    return;
  }
  if (f->hooked && s->wrapper->recorded) {
    vram__backward_module(s, f);
    return;
  }
  if (seen & VRAM__GRADIENTS_LEFT)
    vram__gradients_add(s, edge, n);
  if (!(seen & VRAM__GRADIENTS_LEAVES))
    return;
  if (s->leaf.accumulated) {
    vram__backward_leaves(s, edge, n);
    return;
  }
  for (i = 0; i < n; i++)
    if ((edge[i].fn & VRAM__LEAF) && !s->leaf.now[edge[i].fn & ~VRAM__LEAF].deps)
      vram__gradient_accumulate(s, s->leaf.at + (edge[i].fn & ~VRAM__LEAF));
}

/* A record whose backward ran before, or whose saved tensors come and go. */
static VRAM__COLD void vram__backward_refuse(vram__step *s, const vram__grad_fn *f) {
  vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                    f->done ? "backward through a graph a second time: PyTorch stops with an error "
                              "(expected retain=1 on the backward line before)"
                            : "retain=1 where backward runs through a checkpoint block");
}

/* Runs them from the last to the first: each is ready then, and PyTorch's queue prefers the latest
   one that is ready. Leaves run as soon as their last gradient is there. */
VRAM__FN void vram__backward_walk(vram__step *s, uint32_t from, uint32_t end) {
  const int once = s->layers != NULL;
  vram__grad_fn *f;
  uint32_t at;
  for (at = from; at != end && !s->failed; at = f->prev) {
    f = vram__grad_fn_at(s, at);
    if (once && f->node)
      vram__layers_backward(s, f->node);
    if (f->hooked && f->flag)
      s->wrapper->record(s, at);
    if (f->flag &&
        (f->done == 2 || (s->tape.retain && (f->frame || f->kind == VRAM__K_checkpoint))))
      vram__backward_refuse(s, f);
    else if (f->flag)
      vram__backward_record(s, f);
  }
}

/* One record, with the gradients that have arrived. */
VRAM__FN void vram__backward_one(vram__step *s, vram__grad_fn *f) { vram__backward_record(s, f); }

/* torch.autograd.backward, which holds the gradients that it begins with; at most 64 roots. */
VRAM__FN void vram__backward_several(vram__step *s, const vram__tensor *root, uint32_t n) {
  vram__tensor one[64];
  uint32_t i, from = 0;
  for (i = 0; i < n; i++)
    one[i] = vram__tensor_empty(s, vram__dims_dense(s, root[i].d), root[i].dt);
  for (i = 0; i < n; i++) {
    vram__tensor g = vram__tensor_retain(s, one[i]);
    vram__edge e;
    e.fn = vram__tensor_fn(s, root[i]);
    e.out = e.fn & VRAM__LEAF ? 0 : vram__slot_at(s, root[i].st)->out;
    if (e.fn & VRAM__LEAF)
      s->leaf.now[e.fn & ~VRAM__LEAF].deps++;
    else {
      vram__grad_fn_at(s, e.fn)->flag = 1;
      from = e.fn > from ? e.fn : from;
    }
    vram__gradient_arrive(s, vram__edge_end(s, e), &g);
    if (g.d)
      vram__tensor_release(s, g);
  }
  if (from)
    vram__backward_expect(s, from, 0);
  VRAM__WRAPPER_DO(s, backward_begin);
  for (i = 0; i < n; i++) {
    const uint32_t fn = vram__tensor_fn(s, root[i]);
    if ((fn & VRAM__LEAF) && !--s->leaf.now[fn & ~VRAM__LEAF].deps)
      vram__gradient_accumulate(s, s->leaf.at + (fn & ~VRAM__LEAF));
  }
  if (from)
    vram__backward_walk(s, from, 0);
  if (s->layers)
    vram__layers_backward(s, s->g->first);
  if (!s->g->nbackward)
    VRAM__WRAPPER_DO(s, backward_end);
  for (i = 0; i < n; i++)
    vram__tensor_release(s, one[i]);
}

VRAM__FN void vram__backward(vram__step *s, vram__tensor loss) {
  if (vram__is_grad_fn(vram__tensor_fn(s, loss)))
    vram__backward_several(s, &loss, 1);
}

/* What is there before the step: no event, id -1. */
VRAM__FN vram__tensor vram__leaf_existing_gradient(vram__step *s, const vram_dims *d, vram_dtype dt,
                                                   uint8_t cat) {
  const uint64_t next_id = s->count.next_id;
  const uint64_t peak_event = s->count.peak_event;
  const uint8_t old = s->cat, watched = s->watched;
  vram__tensor t;
  s->watched = 0;
  s->cat = cat;
  t = vram__tensor_empty(s, d, dt);
  if (t.st) {
    vram__storage *st = vram__slot_at(s, t.st);
    st->id = UINT32_MAX;
    if (s->replay && s->replay->taping)
      vram__tape_put(s->replay, VRAM__TAPE_OWN, st->bytes);
    else if (s->replay && s->replay->fresh > (cat != VRAM_CATEGORY_INPUTS)) {
      vram__replay_tell(s, cat, NULL);
      st->block = vram__replay_get(s, st->bytes, 0);
    }
  }
  s->count.next_id = next_id;
  s->count.peak_event = peak_event;
  s->watched = watched;
  s->cat = old;
  return t;
}
