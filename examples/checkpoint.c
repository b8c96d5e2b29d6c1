/* cc -O2 -o checkpoint examples/checkpoint.c -lm && ./checkpoint
   plain      1617408 bytes of activations and gradients
   scheduled  525312 bytes, 32 %; 27 of 83 moves compute forward again, 29 % more work
   30 steps, loss 1.4 to 0.8; gradients of all weights: equal bit for bit
   seconds    0.86 plain, 1.22 scheduled

   Trains a convolutional net on stripes in a third of the memory. A loop of one's own, which keeps
   every activation until its backward, and vram_chain_run, which drops some and computes them
   again in one arena, call the same layers; each step compares their gradients. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 4, SIZE = 24, CHANNELS = 8, CLASSES = 4, STAGES = 28, STEPS = 30 };
enum { CONV, POOL, DROPOUT, LOSS };

typedef struct layer {
  int kind, in, out, size; /* channels; edge of the input */
  size_t nweight;
  float *weight, *gradient;
} layer;

typedef struct net {
  layer stack[STAGES];
  int label[BATCH];
  double loss;
} net;

static void conv_forward(const layer *l, const float *x, float *y) { /* 3x3, relu */
  int n, o, i, r, c, dr, dc;
  for (n = 0; n < BATCH; n++)
    for (o = 0; o < l->out; o++)
      for (r = 0; r < l->size; r++)
        for (c = 0; c < l->size; c++) {
          float sum = l->weight[l->out * l->in * 9 + o];
          for (i = 0; i < l->in; i++)
            for (dr = r ? -1 : 0; dr <= (r + 1 < l->size); dr++)
              for (dc = c ? -1 : 0; dc <= (c + 1 < l->size); dc++)
                sum += l->weight[((o * l->in + i) * 3 + dr + 1) * 3 + dc + 1] *
                       x[((n * l->in + i) * l->size + r + dr) * l->size + c + dc];
          *y++ = sum > 0 ? sum : 0;
        }
}

static void conv_backward(const layer *l, const float *x, const float *y, const float *gy,
                          float *gx) {
  int n, o, i, r, c, dr, dc;
  if (gx)
    memset(gx, 0, sizeof *gx * (size_t)(BATCH * l->in * l->size * l->size));
  for (n = 0; n < BATCH; n++)
    for (o = 0; o < l->out; o++)
      for (r = 0; r < l->size; r++)
        for (c = 0; c < l->size; c++, y++, gy++) {
          if (*y <= 0)
            continue;
          l->gradient[l->out * l->in * 9 + o] += *gy;
          for (i = 0; i < l->in; i++)
            for (dr = r ? -1 : 0; dr <= (r + 1 < l->size); dr++)
              for (dc = c ? -1 : 0; dc <= (c + 1 < l->size); dc++) {
                const int w = ((o * l->in + i) * 3 + dr + 1) * 3 + dc + 1;
                const int at = ((n * l->in + i) * l->size + r + dr) * l->size + c + dc;
                l->gradient[w] += *gy * x[at];
                if (gx)
                  gx[at] += *gy * l->weight[w];
              }
        }
}

static void pool_forward(const layer *l, const float *x, float *y, unsigned char *which) {
  int plane, r, c, k;
  for (plane = 0; plane < BATCH * l->in; plane++)
    for (r = 0; r < l->size; r += 2)
      for (c = 0; c < l->size; c += 2) { /* the largest of four; which one is saved */
        const float *p = x + (plane * l->size + r) * l->size + c;
        int best = 0;
        for (k = 1; k < 4; k++)
          if (p[k / 2 * l->size + k % 2] > p[best / 2 * l->size + best % 2])
            best = k;
        *y++ = p[best / 2 * l->size + best % 2];
        if (which)
          *which++ = (unsigned char)best;
      }
}

static void pool_backward(const layer *l, const unsigned char *which, const float *gy, float *gx) {
  int plane, r, c;
  memset(gx, 0, sizeof *gx * (size_t)(BATCH * l->in * l->size * l->size));
  for (plane = 0; plane < BATCH * l->in; plane++)
    for (r = 0; r < l->size; r += 2)
      for (c = 0; c < l->size; c += 2, which++)
        gx[(plane * l->size + r + *which / 2) * l->size + c + *which % 2] = *gy++;
}

/* One in eight is 0. The same numbers for the same key: backward needs no mask. */
static void dropout(const layer *l, uint64_t key, const float *x, float *y) {
  int i;
  for (i = 0; i < BATCH * l->in * l->size * l->size; i++) {
    key = key * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    y[i] = key >> 61 ? x[i] * (8 / 7.0f) : 0;
  }
}

static double loss_forward(const layer *l, const int *label, const float *x, float *chance) {
  const int pixels = l->in * l->size * l->size;
  double loss = 0;
  int n, k, i;
  for (n = 0; n < BATCH; n++, x += pixels, chance += CLASSES) { /* linear, softmax */
    float sum = 0;
    for (k = 0; k < CLASSES; k++) {
      float score = 0;
      for (i = 0; i < pixels; i++)
        score += l->weight[k * pixels + i] * x[i];
      chance[k] = expf(score);
      sum += chance[k];
    }
    for (k = 0; k < CLASSES; k++)
      chance[k] /= sum;
    loss -= log((double)chance[label[n]]) / (double)BATCH;
  }
  return loss;
}

static void loss_backward(const layer *l, const int *label, const float *x, const float *chance,
                          float *gx) {
  const int pixels = l->in * l->size * l->size;
  int n, k, i;
  memset(gx, 0, sizeof *gx * (size_t)(BATCH * pixels));
  for (n = 0; n < BATCH; n++, x += pixels, gx += pixels, chance += CLASSES)
    for (k = 0; k < CLASSES; k++) {
      const float g = (chance[k] - (float)(k == label[n])) / (float)BATCH;
      for (i = 0; i < pixels; i++) {
        l->gradient[k * pixels + i] += g * x[i];
        gx[i] += g * l->weight[k * pixels + i];
      }
    }
}

/* What vram_chain_run calls, and the plain loop, too. */
static int forward(void *user, const vram_call *c) {
  net *t = (net *)user;
  const layer *l = &t->stack[c->stage];
  const float *x = (const float *)c->in;
  if (l->kind == CONV)
    conv_forward(l, x, (float *)c->out);
  else if (l->kind == POOL)
    pool_forward(l, x, (float *)c->out, (unsigned char *)c->saved);
  else if (l->kind == DROPOUT)
    dropout(l, c->key, x, (float *)c->out);
  else
    t->loss = loss_forward(l, t->label, x, (float *)c->saved);
  return 0;
}

static int backward(void *user, const vram_call *c) {
  const net *t = (const net *)user;
  const layer *l = &t->stack[c->stage];
  const float *x = (const float *)c->in, *gy = (const float *)c->grad_out;
  if (l->kind == CONV)
    conv_backward(l, x, (const float *)c->out, gy, (float *)c->grad_in);
  else if (l->kind == POOL)
    pool_backward(l, (const unsigned char *)c->saved, gy, (float *)c->grad_in);
  else if (l->kind == DROPOUT)
    dropout(l, c->key, gy, (float *)c->grad_in);
  else
    loss_backward(l, t->label, x, (const float *)c->saved, (float *)c->grad_in);
  return 0;
}

/* The chain: what every layer gives, what it saves beyond that, what it costs. */
static void describe(const net *t, vram_chain *chain, vram_stage *stage, vram_way *way) {
  int i;
  for (i = 0; i < STAGES; i++) {
    const layer *l = &t->stack[i];
    const int edge = l->kind == POOL ? l->size / 2 : l->size;
    const uint64_t out = (uint64_t)(BATCH * l->out * edge * edge);
    stage[i].output_bytes = l->kind == LOSS ? 0 : out * sizeof(float);
    stage[i].forward_cost = way[i].forward_cost = out * (l->kind == CONV ? (uint64_t)l->in * 9 : 1);
    way[i].backward_cost = 2 * way[i].forward_cost;
    way[i].saved_bytes =
        stage[i].output_bytes + (l->kind == POOL   ? out
                                 : l->kind == LOSS ? BATCH * CLASSES * sizeof(float)
                                                   : 0);
    stage[i].way = &way[i];
    stage[i].nway = 1;
  }
  chain->stage = stage;
  chain->nstage = STAGES;
  chain->input_bytes = sizeof(float) * BATCH * SIZE * SIZE;
  chain->align = 8; /* of every tensor; malloc gives that */
}

/* Forward through all layers, then back; every tensor from malloc, gone when nobody needs it. */
static uint64_t held, held_at_most;

static void *hold(uint64_t bytes) {
  held += bytes;
  held_at_most = held > held_at_most ? held : held_at_most;
  return bytes ? malloc((size_t)bytes) : NULL;
}

static void let_go(void *p, uint64_t bytes) {
  held -= bytes;
  free(p);
}

static void plain(net *t, const vram_chain *chain, const float *input, uint64_t seed) {
  vram_call c[STAGES];
  void *x0 = hold(chain->input_bytes), *x = x0;
  int i;
  memcpy(x0, input, (size_t)chain->input_bytes);
  memset(c, 0, sizeof c);
  for (i = 0; i < STAGES; i++) {
    const vram_stage *s = &chain->stage[i];
    c[i].stage = (uint32_t)i;
    c[i].key = vram_chain_key(seed, c[i].stage);
    c[i].in = x;
    c[i].out = x = hold(s->output_bytes);
    c[i].saved = hold(s->way->saved_bytes - s->output_bytes);
    (void)forward(t, &c[i]);
  }
  for (i = STAGES; i--;) {
    const vram_stage *s = &chain->stage[i];
    c[i].grad_in = i ? hold(chain->stage[i - 1].output_bytes) : NULL;
    (void)backward(t, &c[i]);
    if (i)
      c[i - 1].grad_out = c[i].grad_in;
    if (i + 1 < STAGES)
      let_go(c[i + 1].grad_in, s->output_bytes);
    let_go(c[i].saved, s->way->saved_bytes - s->output_bytes);
    let_go(c[i].out, s->output_bytes);
  }
  let_go(x0, chain->input_bytes);
}

static uint32_t noise = 1;
static float uniform(void) { /* -1 to 1 */
  noise = noise * 1664525u + 1013904223u;
  return (float)(noise >> 8) / 8388608 - 1;
}

/* Convolutions at SIZE, a pool, convolutions at half of it, the loss; weights one behind another.
 */
static size_t build(net *t, float *weights, float *gradients) {
  size_t n = 0, k;
  int i, pooled = 0;
  for (i = 0; i < STAGES; i++) {
    layer *l = &t->stack[i];
    l->kind = i == STAGES - 1 ? LOSS : i == 15 ? POOL : i == 14 || i == 26 ? DROPOUT : CONV;
    l->in = i ? t->stack[i - 1].out : 1;
    l->out = l->kind == CONV ? CHANNELS << pooled : l->in;
    l->size = SIZE >> pooled;
    pooled += l->kind == POOL;
    l->nweight = l->kind == CONV   ? (size_t)(l->out * (l->in * 9 + 1))
                 : l->kind == LOSS ? (size_t)(CLASSES * l->in * l->size * l->size)
                                   : 0;
    if (weights) {
      l->weight = weights + n;
      l->gradient = gradients + n;
      for (k = 0; k < l->nweight; k++)
        l->weight[k] = l->kind == LOSS ? 0 : uniform() * sqrtf(6 / (float)(l->in * 9));
    }
    n += l->nweight;
  }
  return n;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

int main(void) {
  static net t;
  static float input[BATCH * SIZE * SIZE];
  const size_t nweight = build(&t, NULL, NULL), bytes = nweight * sizeof(float);
  float *weights = (float *)malloc(bytes), *gradients = (float *)malloc(bytes);
  float *wanted = (float *)malloc(bytes);
  char *arena;
  vram_stage stage[STAGES];
  vram_way way[STAGES];
  vram_chain chain = VRAM_ZERO_INIT;
  vram_schedule_options o = VRAM_ZERO_INIT;
  vram_schedule schedule;
  vram_binding b;
  vram_runner r = VRAM_ZERO_INIT;
  vram_error e = VRAM_ZERO_INIT;
  void *scratch, *bound, *work;
  double first = 0, spent[2] = {0, 0};
  uint64_t n, m, cost = 0;
  uint32_t k, extra = 0;
  int i, step, equal = 1;

  /* data: stripes of four directions */
  (void)build(&t, weights, gradients);
  for (i = 0; i < BATCH * SIZE * SIZE; i++) {
    const int row = i / SIZE % SIZE, column = i % SIZE, label = i / (SIZE * SIZE) % CLASSES;
    const int phase = label == 0   ? row
                      : label == 1 ? column
                      : label == 2 ? row + column
                                   : row - column;
    input[i] = (phase & 2 ? 1.0f : -1.0f) + uniform() / 2;
    t.label[i / (SIZE * SIZE)] = label;
  }

  /* plan: a plain step says what it takes; a third of that is the budget */
  memset(stage, 0, sizeof stage);
  memset(way, 0, sizeof way);
  describe(&t, &chain, stage, way);
  memset(gradients, 0, bytes);
  plain(&t, &chain, input, 0);
  o.budget_bytes = held_at_most / 3;
  n = vram_schedule_bytes(&chain, &o);
  scratch = malloc((size_t)n);
  if (vram_schedule_plan(&chain, &o, scratch, n, &schedule, &e) || !schedule.feasible) {
    printf("%s\n", e.code ? e.text : "the budget is too small");
    return 1;
  }

  /* bind: every tensor gets its place in an arena */
  n = vram_schedule_bind_bytes(&chain, schedule.nmove, NULL);
  bound = malloc((size_t)n);
  if (vram_schedule_bind(&chain, schedule.move, schedule.nmove, NULL, bound, n, &b, &e)) {
    printf("%s\n", e.text);
    return 1;
  }
  free(scratch); /* the schedule; the binding has what a run needs */
  arena = (char *)malloc((size_t)b.arena_bytes);

  /* run, and compare with the plain loop */
  r.forward = forward;
  r.backward = backward;
  r.hash = vram_chain_hash; /* a layer that computes something else the second time would be seen */
  r.user = &t;
  m = vram_chain_run_bytes(&b, &r);
  work = malloc((size_t)m);
  for (step = 1; step <= STEPS; step++) {
    size_t w;
    double begin = seconds();
    memset(gradients, 0, bytes);
    plain(&t, &chain, input, (uint64_t)step);
    memcpy(wanted, gradients, bytes);
    memset(gradients, 0, bytes);
    spent[0] += seconds() - begin;
    begin = seconds();
    r.seed = (uint64_t)step; /* other dropout in each step */
    memcpy(arena + b.input, input, sizeof input);
    if (vram_chain_run(&chain, &b, &r, arena, NULL, work, m, &e)) {
      printf("%s\n", e.text);
      return 1;
    }
    spent[1] += seconds() - begin;
    equal &= !memcmp(wanted, gradients, bytes);
    first = step == 1 ? t.loss : first;
    for (w = 0; w < nweight; w++)
      weights[w] -= 0.004f * gradients[w];
  }
  for (k = 0; k < b.nmove; k++)
    extra += b.move[k].move.kind < VRAM_MOVE_BACKWARD && b.move[k].run > 0;
  for (i = 0; i < STAGES; i++)
    cost += way[i].forward_cost + way[i].backward_cost;
  printf("plain      %llu bytes of activations and gradients\n", (unsigned long long)held_at_most);
  printf("scheduled  %llu bytes, %u %%; %u of %u moves compute forward again, %u %% more work\n",
         (unsigned long long)b.arena_bytes, (unsigned)(b.arena_bytes * 100 / held_at_most), extra,
         b.nmove, (unsigned)((schedule.cost - cost) * 100 / cost));
  printf("%d steps, loss %.1f to %.1f; gradients of all weights: %s\n", STEPS, first, t.loss,
         equal ? "equal bit for bit" : "they differ");
  printf("seconds    %.2f plain, %.2f scheduled\n", spent[0], spent[1]);
  return !equal;
}
