/* cc -O2 -o cuda_checkpoint examples/cuda_checkpoint.c -ldl -lpthread && ./cuda_checkpoint
   plain      442368 bytes on the device
   scheduled  147456 bytes, 33 %, and 49152 of pinned memory
   18 layers run again, 3 activations go to the host and come back
   gradients of all weights: equal bit for bit

   Forward and backward of a deep net on a CUDA stream in a third of the memory: some layers run
   again, and some activations wait in pinned host memory, copied while others compute. A loop that
   keeps everything gives the gradients to compare with. Kernels need nvcc (nvcc -x cu -o
   cuda_checkpoint examples/cuda_checkpoint.c); on a device the run is captured into a CUDA graph,
   too. Without nvcc the same functions run on the host. */
#define VRAM_IMPLEMENTATION
#define VRAM_CUDA_IMPLEMENTATION
#include "../vram_cuda.h"
#include "cuda_device.h"

enum { LAYERS = 24, WIDTH = 64, BATCH = 64, STAGES = LAYERS + 1 };
enum { TENSOR = BATCH * WIDTH, WEIGHTS = LAYERS * WIDTH * WIDTH };

#ifdef __CUDACC__
#define BOTH __host__ __device__
#define WITHOUT_KERNELS NULL
#else
#define BOTH
#define WITHOUT_KERNELS "built without nvcc"
#endif

/* What one thread does: an element of y = dropout(relu(x w)), of the gradient of x, of w. */
enum { FORWARD, BACKWARD_X, BACKWARD_W, LOSS };
typedef struct job {
  int kind, n;
  uint64_t key;
  const float *w, *x, *y, *gy;
  float *to;
} job;

BOTH static float mask(uint64_t key, int i) { /* one in eight is 0 */
  uint64_t x = (key + (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
  return x >> 61 ? 8 / 7.0f : 0;
}

BOTH static float gradient(const job *q, int i) { /* before relu and dropout */
  return q->y[i] > 0 ? q->gy[i] * mask(q->key, i) : 0;
}

BOTH static void element(const job *q, int i) {
  const int row = i / WIDTH, column = i % WIDTH;
  float sum = 0;
  int k;
  switch (q->kind) {
  case FORWARD:
    for (k = 0; k < WIDTH; k++)
      sum += q->x[row * WIDTH + k] * q->w[k * WIDTH + column];
    q->to[i] = sum > 0 ? sum * mask(q->key, i) : 0;
    break;
  case BACKWARD_X:
    for (k = 0; k < WIDTH; k++)
      sum += gradient(q, row * WIDTH + k) * q->w[column * WIDTH + k];
    q->to[i] = sum;
    break;
  case BACKWARD_W:
    for (k = 0; k < BATCH; k++)
      sum += q->x[k * WIDTH + row] * gradient(q, k * WIDTH + column);
    q->to[i] = sum;
    break;
  default: /* the loss is half the sum of squares */
    q->to[i] = q->x[i];
    break;
  }
}

static int pretended; /* 1: there are no kernels */
#ifdef __CUDACC__
__global__ void elements(job q) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < q.n)
    element(&q, i);
}
#endif

static int launch(const job *q, void *stream) {
  int i;
#ifdef __CUDACC__
  if (!pretended) {
    elements<<<(unsigned)(q->n + 127) / 128, 128, 0, (cudaStream_t)stream>>>(*q);
    return (int)cudaGetLastError();
  }
#endif
  (void)stream;
  for (i = 0; i < q->n; i++)
    element(q, i);
  return 0;
}

/* What vram_chain_run calls, and the plain loop, too; user: weights and their gradients. */
typedef struct net {
  float *weight, *gradient; /* on the device */
} net;

static int forward(void *user, const vram_call *c) {
  const net *t = (const net *)user;
  job q;
  if (c->stage == LAYERS)
    return 0;
  memset(&q, 0, sizeof q);
  q.kind = FORWARD;
  q.n = TENSOR;
  q.key = c->key;
  q.w = t->weight + c->stage * WIDTH * WIDTH;
  q.x = (const float *)c->in;
  q.to = (float *)c->out;
  return launch(&q, c->stream);
}

static int backward(void *user, const vram_call *c) {
  const net *t = (const net *)user;
  job q;
  int r;
  memset(&q, 0, sizeof q);
  q.kind = c->stage == LAYERS ? LOSS : BACKWARD_X;
  q.n = TENSOR;
  q.key = c->key;
  q.w = t->weight + c->stage * WIDTH * WIDTH;
  q.x = (const float *)c->in;
  q.y = (const float *)c->out;
  q.gy = (const float *)c->grad_out;
  q.to = (float *)c->grad_in;
  r = launch(&q, c->stream);
  if (r || c->stage == LAYERS)
    return r;
  q.kind = BACKWARD_W;
  q.n = WIDTH * WIDTH;
  q.to = t->gradient + c->stage * WIDTH * WIDTH;
  return launch(&q, c->stream);
}

static vram_cuda_api api;
static void *stream;
static uint64_t held;

static void need(int failed, const char *what) {
  if (failed) {
    printf("%s: %d\n", what, failed);
    exit(1);
  }
}

static void *device(uint64_t bytes) {
  void *p = NULL;
  need(api.cuda_Malloc(&p, (size_t)bytes), "cudaMalloc");
  held += bytes;
  return p;
}

static void copy(void *to, const void *from, uint64_t bytes, int kind) {
  need(api.cuda_MemcpyAsync(to, from, (size_t)bytes, kind, stream), "cudaMemcpyAsync");
  need(api.cuda_StreamSynchronize(stream), "cudaStreamSynchronize");
}

/* Keeps every activation until its backward; gradients take turns in two buffers. */
static void plain(net *t, const float *input, uint64_t seed) {
  vram_call c[STAGES];
  void *x = device(sizeof(float) * TENSOR), *x0 = x, *g[2];
  int i;
  g[0] = device(sizeof(float) * TENSOR);
  g[1] = device(sizeof(float) * TENSOR);
  copy(x, input, sizeof(float) * TENSOR, 1);
  memset(c, 0, sizeof c);
  for (i = 0; i < STAGES; i++) {
    c[i].stage = (uint32_t)i;
    c[i].key = vram_chain_key(seed, c[i].stage);
    c[i].stream = stream;
    c[i].in = x;
    c[i].out = x = i < LAYERS ? device(sizeof(float) * TENSOR) : NULL;
    need(forward(t, &c[i]), "forward");
  }
  for (i = STAGES; i--;) {
    c[i].grad_out = g[i % 2];
    c[i].grad_in = g[(i + 1) % 2];
    need(backward(t, &c[i]), "backward");
  }
  need(api.cuda_StreamSynchronize(stream), "cudaStreamSynchronize");
  for (i = 0; i < LAYERS; i++)
    (void)api.cuda_Free(c[i].out);
  (void)api.cuda_Free(x0);
  (void)api.cuda_Free(g[0]);
  (void)api.cuda_Free(g[1]);
}

static float wanted[WEIGHTS], got[WEIGHTS], input[TENSOR];

static int equal(const net *t) { /* gradients of the run to those of the plain loop */
  copy(got, t->gradient, sizeof got, 2);
  return memcmp(got, wanted, sizeof got) == 0; /* NOLINT: bit for bit */
}

#ifdef __CUDACC__
/* The run as a graph: captured once, then repeated without any call of ours. */
static int graph(const net *t, const vram_chain *chain, const vram_binding *b, const vram_runner *r,
                 const vram_cuda_runner *q, void *work, uint64_t n, vram_error *e) {
  cudaStream_t s = (cudaStream_t)stream;
  cudaGraph_t captured;
  cudaGraphExec_t ready;
  vram_result result;
  int same = 1, i;
  need((int)cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  result = vram_chain_run(chain, b, r, q->arena, q->host, work, n, e);
  need((int)cudaStreamEndCapture(s, &captured), result ? e->text : "cudaStreamEndCapture");
  need((int)cudaGraphInstantiateWithFlags(&ready, captured, 0), "cudaGraphInstantiate");
  for (i = 0; i < 3; i++) {
    copy((char *)q->arena + b->input, input, sizeof input, 1);
    need((int)cudaMemsetAsync(t->gradient, 0, sizeof got, s), "cudaMemsetAsync");
    need((int)cudaGraphLaunch(ready, s), "cudaGraphLaunch");
    same &= equal(t);
  }
  (void)cudaGraphExecDestroy(ready);
  (void)cudaGraphDestroy(captured);
  return same;
}
#endif

int main(void) {
  static float weight[WEIGHTS];
  net t;
  vram_stage stage[STAGES];
  vram_way way[STAGES];
  vram_chain chain = VRAM_ZERO_INIT;
  vram_schedule_options o = VRAM_ZERO_INIT;
  vram_cuda_runner_options with = VRAM_ZERO_INIT;
  vram_schedule schedule;
  vram_binding b;
  vram_runner r = VRAM_ZERO_INIT;
  vram_cuda_runner q;
  vram_error e = VRAM_ZERO_INIT;
  void *scratch, *bound, *events, *work;
  uint64_t n, m, kept;
  uint32_t noise = 1, k, again = 0;
  int i, same;
  pretended = pretend(&api, WITHOUT_KERNELS);
  need(api.cuda_StreamCreateWithFlags(&stream, 1), "cudaStreamCreate");
  for (i = 0; i < WEIGHTS + TENSOR; i++) {
    const float u = (float)((noise = noise * 1664525u + 1013904223u) >> 8) / 8388608 - 1;
    if (i < WEIGHTS)
      weight[i] = u * 0.3f;
    else
      input[i - WEIGHTS] = u;
  }
  t.weight = (float *)device(sizeof weight);
  t.gradient = (float *)device(sizeof weight);
  copy(t.weight, weight, sizeof weight, 1);
  held = 0;
  plain(&t, input, 1);
  kept = held;
  copy(wanted, t.gradient, sizeof wanted, 2);

  /* plan for a third of that; a byte to the host costs as much as 10 multiplications */
  memset(stage, 0, sizeof stage);
  memset(way, 0, sizeof way);
  for (i = 0; i < STAGES; i++) {
    stage[i].output_bytes = way[i].saved_bytes = i < LAYERS ? sizeof(float) * TENSOR : 0;
    stage[i].forward_cost = way[i].forward_cost = i < LAYERS ? TENSOR * WIDTH : 0;
    way[i].backward_cost = 2 * way[i].forward_cost;
    stage[i].way = &way[i];
    stage[i].nway = 1;
  }
  chain.stage = stage;
  chain.nstage = STAGES;
  chain.input_bytes = chain.input_gradient_bytes = sizeof input;
  chain.align = 256;
  chain.transfer_cost = 10;
  chain.transfer_bytes = 1;
  o.offload = 1;
  o.budget_bytes = kept / 3;
  n = vram_schedule_bytes(&chain, &o);
  scratch = malloc((size_t)n);
  if (vram_schedule_plan(&chain, &o, scratch, n, &schedule, &e) || !schedule.feasible) {
    printf("%s\n", e.code ? e.text : "the budget is too small");
    return 1;
  }
  n = vram_schedule_bind_bytes(&chain, schedule.nmove, NULL);
  bound = malloc((size_t)n);
  if (vram_schedule_bind(&chain, schedule.move, schedule.nmove, NULL, bound, n, &b, &e)) {
    printf("%s\n", e.text);
    return 1;
  }

  /* streams, events, the arena, pinned memory; then the run, which only gives streams work */
  with.stream = stream;
  n = vram_cuda_runner_bytes(&b);
  events = malloc((size_t)n);
  if (vram_cuda_runner_init(&q, &api, &b, &with, events, n, &r, &e)) {
    printf("%s\n", e.text);
    return 1;
  }
  r.forward = forward;
  r.backward = backward;
  r.user = &t;
  r.seed = 1;
  m = vram_chain_run_bytes(&b, &r);
  work = malloc((size_t)m);
  memset(got, 0, sizeof got);
  copy(t.gradient, got, sizeof got, 1);
  copy((char *)q.arena + b.input, input, sizeof input, 1);
  if (vram_chain_run(&chain, &b, &r, q.arena, q.host, work, m, &e)) {
    printf("%s\n", e.text);
    return 1;
  }
  same = equal(&t);
  for (k = 0; k < b.nmove; k++)
    again += b.move[k].move.kind < VRAM_MOVE_BACKWARD && b.move[k].run > 0;
  printf("plain      %llu bytes on the device\n", (unsigned long long)kept);
  printf("scheduled  %llu bytes, %u %%, and %llu of pinned memory\n",
         (unsigned long long)b.arena_bytes, (unsigned)(b.arena_bytes * 100 / kept),
         (unsigned long long)b.host_bytes);
  printf("%u layers run again, %u activations go to the host and come back\n", again, b.noffload);
  printf("gradients of all weights: %s\n", same ? "equal bit for bit" : "they differ");
#ifdef __CUDACC__
  if (!pretended && same) {
    same = graph(&t, &chain, &b, &r, &q, work, m, &e);
    printf("as a CUDA graph: %s\n", same ? "equal bit for bit" : "they differ");
  }
#endif
  vram_cuda_runner_end(&q);
  (void)api.cuda_Free(t.weight);
  (void)api.cuda_Free(t.gradient);
  (void)api.cuda_StreamDestroy(stream);
  free(scratch);
  free(bound);
  free(events);
  free(work);
  return !same;
}
