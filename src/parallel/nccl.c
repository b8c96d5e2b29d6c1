/* >>parallel/nccl    what NCCL allocates of a device beside PyTorch */
#include "parallel/parallel.h"

/* NCCL allocates with cudaMalloc, at the first collective of a kind: the caching allocator does not
   know of it. How much depends on the machine, so that there are bounds only.
   Two ranks of a node that exchange anything have a buffer for each channel and direction: at the
   receiver one of LL (524,288 bytes), LL128 (4,915,200) and Simple (4,194,304; src/init.cc:
   computeBuffSizes), at the sender its flags, each rounded up to 2 MiB (src/transport/p2p.cc:
   p2pSendSetup, p2pRecvSetup). Through shared host memory (no NVLink, no access of peers) the
   device has none of them; through a network both sides have a buffer. */
#define VRAM__NCCL_RECEIVE UINT64_C(10485760)
#define VRAM__NCCL_SEND UINT64_C(2097152)
#define VRAM__NCCL_PAIR (VRAM__NCCL_RECEIVE + VRAM__NCCL_SEND)
#define VRAM__NCCL_PAIR_MOST (2 * VRAM__NCCL_RECEIVE)

/* NVLink SHARP: two buffers of 8 steps of 128 KiB for each channel and rank of the node, where they
   are three or more (src/transport/nvls.cc: ncclNvlsBufferSetup). */
#define VRAM__NCCL_NVLS UINT64_C(2097152)

/* What send and receive share behind a network, of each direction: channels times 16 steps of 512
   KiB (src/transport/net.cc: sharedNetBuffersInit; 536,870,912 bytes in NVIDIA/nccl#2363). */
#define VRAM__NCCL_NETWORK UINT64_C(8388608)

/* What each communicator has for itself: three allocations for each of its channels (the kind that
   takes most), each a granule of 2 MiB (src/channel.cc: initChannel), and two more. With 64
   channels 406,847,488 bytes, with 2 16,777,216: NCCL 2.28.9 on an H200. */
#define VRAM__NCCL_CHANNEL UINT64_C(6291456)
#define VRAM__NCCL_COMMUNICATOR UINT64_C(4194304)

/* NCCL's kernels, once a process: behind the first communicator, the first collective that sends,
   and the first send and receive (2.28.9 of PyTorch 2.11 on an H200; older ones were less). */
#define VRAM__NCCL_KERNELS UINT64_C(178257920)
#define VRAM__NCCL_KERNELS_COLLECTIVES UINT64_C(195035136)
#define VRAM__NCCL_KERNELS_PAIRS UINT64_C(65011712)

enum {
  VRAM__NCCL_NODE = 8,   /* ranks of a node, where a ring and a tree have four neighbours at most */
  VRAM__NCCL_OTHERS = 5, /* beyond: the ring's next one, of the tree one above and three below
                            (NCCL_MAX_TREE_ARITY) */
  VRAM__NCCL_NET_CHANNELS = 2 /* to a peer of another node: NCCL_NCHANNELS_PER_NET_PEER */
};

/* Channels by what links the devices of that compute capability: the fewest; those of the usual
   machine for rings, for two that send and receive, for NVLink SHARP, as NCCL_DEBUG=INFO has them
   ("16 coll channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer"); the most. */
typedef struct vram__nccl_links {
  uint32_t cc; /* from this one on */
  uint8_t least, rings, pair, nvls, most;
} vram__nccl_links;

static const vram__nccl_links vram__nccl_rows[] = {
    {100, 2, 32, 32, 32, 64},                       /* MAXCHANNELS (src/include/device.h) */
    {90, 2, 16, 32, 16, 32},  {86, 0, 4, 2, 0, 16}, /* a PCIe bus, or host memory */
    {80, 2, 24, 32, 0, 32},   {75, 0, 4, 2, 0, 16}, {70, 2, 12, 16, 0, 32}, {0, 0, 4, 2, 0, 16},
};

static const vram__nccl_links *vram__nccl_links_of(uint32_t cc) {
  const vram__nccl_links *l = vram__nccl_rows;
  cc = cc ? cc : 90;
  if (cc >= 110) /* GeForce, RTX PRO */
    cc = 89;
  while (cc < l->cc)
    l++;
  return l;
}

static uint64_t vram__nccl_least(uint64_t a, uint64_t b) { return a < b ? a : b; }

VRAM_API vram_bounds vram_nccl_communicator_bytes(uint32_t cc, uint64_t ranks, int uses) {
  const vram__nccl_links *l = vram__nccl_links_of(cc);
  const uint64_t peers = ranks ? vram__nccl_least(ranks, VRAM__NCCL_NODE) - 1 : 0;
  const uint64_t sharp = ranks < 3 ? 0 : (peers + 1) * VRAM__NCCL_NVLS;
  vram_bounds b = {0, 0, 0};
  if (ranks < 2)
    return b;
  b.upper = l->most * VRAM__NCCL_CHANNEL + VRAM__NCCL_COMMUNICATOR;
  if (uses & VRAM_NCCL_COLLECTIVES) {
    b.lower += l->least * VRAM__NCCL_PAIR;
    b.expected += l->rings * vram__nccl_least(ranks - 1, 2) * VRAM__NCCL_PAIR + l->nvls * sharp;
    b.upper +=
        (ranks > VRAM__NCCL_NODE ? UINT64_C(1) * l->most * VRAM__NCCL_OTHERS * VRAM__NCCL_PAIR_MOST
                                 : l->most * vram__nccl_least(ranks - 1, 4) * VRAM__NCCL_PAIR) +
        (l->nvls ? l->most : 0) * sharp;
  }
  if (uses & (VRAM_NCCL_ALL_TO_ALL | VRAM_NCCL_NEIGHBOURS)) {
    const int all = (uses & VRAM_NCCL_ALL_TO_ALL) != 0;
    const uint64_t to = all ? peers : vram__nccl_least(peers, 2);
    b.lower += (l->least != 0) * (all ? to : 1) * VRAM__NCCL_PAIR;
    b.expected += to * l->pair * VRAM__NCCL_PAIR;
    b.upper += to * l->most * VRAM__NCCL_PAIR_MOST + UINT64_C(2) * l->most * VRAM__NCCL_NETWORK;
    if (all && ranks > VRAM__NCCL_NODE)
      b.upper = vram__sum_or_overflow(
          b.upper, vram__product_or_overflow((ranks - VRAM__NCCL_NODE) * VRAM__NCCL_NET_CHANNELS,
                                             VRAM__NCCL_RECEIVE));
  }
  return b;
}

static vram_bounds vram__nccl_add(vram_bounds a, vram_bounds b) {
  a.lower = vram__sum_or_overflow(a.lower, b.lower);
  a.expected = vram__sum_or_overflow(a.expected, b.expected);
  a.upper = vram__sum_or_overflow(a.upper, b.upper);
  return a;
}

/* What is beside the buffers of communicators of these sizes and uses, from PyTorch 2.11 on. */
static vram_bounds vram__nccl_beside(const vram_step_options *o, const uint32_t *size,
                                     const uint8_t *uses, uint32_t n) {
  const vram__nccl_links *l = vram__nccl_links_of(o->cc);
  const uint32_t channels = l->pair > l->rings ? l->pair : l->rings;
  vram_bounds b = {0, 0, 0};
  vram__device d;
  uint32_t i, all = 0;
  vram__device_of(&d, o, o->rules);
  for (i = 0; i < n; i++)
    if (size[i] > 1) {
      all |= uses[i];
      b.expected += channels * VRAM__NCCL_CHANNEL + VRAM__NCCL_COMMUNICATOR;
    }
  if (!all)
    return b;
  b.upper = VRAM__NCCL_KERNELS;
  if (all & VRAM_NCCL_COLLECTIVES)
    b.upper += VRAM__NCCL_KERNELS_COLLECTIVES;
  if (all & (VRAM_NCCL_ALL_TO_ALL | VRAM_NCCL_NEIGHBOURS))
    b.upper += VRAM__NCCL_KERNELS_PAIRS;
  b.expected = d.rules->since < VRAM_RULES_TORCH_2_11 ? 0 : b.expected + b.upper;
  return b;
}

/* A communicator for each dim of the mesh with more than one rank (init_device_mesh). Where there
   are several, the one of the whole world is at least there to ask, and has buffers once it was
   used (barrier, broadcast_object_list). */
VRAM_API vram_bounds vram_nccl_bytes(const vram_step_options *o) {
  const vram_parallel *p = o->parallel;
  vram_bounds sum = {0, 0, 0};
  uint32_t i, used = 0;
  uint32_t size[6];
  static const uint8_t uses[6] = {
      VRAM_NCCL_COLLECTIVES,                        /* copies */
      VRAM_NCCL_COLLECTIVES,                        /* of the wrapper */
      VRAM_NCCL_COLLECTIVES,                        /* tp */
      VRAM_NCCL_NEIGHBOURS,                         /* pp */
      VRAM_NCCL_COLLECTIVES | VRAM_NCCL_ALL_TO_ALL, /* cp: gradients of keys and values rotate */
      VRAM_NCCL_ALL_TO_ALL,                         /* ep */
  };
  if (!p)
    return sum;
  size[0] = p->copies, size[1] = p->wrapper ? vram__wrapper_ranks(p) : 1, size[2] = p->tp;
  size[3] = p->pp, size[4] = p->cp, size[5] = p->ep;
  for (i = 0; i < 6; i++) {
    used += size[i] > 1;
    sum = vram__nccl_add(sum, vram_nccl_communicator_bytes(o->cc, size[i], uses[i]));
  }
  sum = vram__nccl_add(sum, vram__nccl_beside(o, size, uses, 6));
  if (used > 1)
    sum.upper = vram__sum_or_overflow(
        sum.upper,
        vram_nccl_communicator_bytes(o->cc, vram_parallel_world(p), VRAM_NCCL_COLLECTIVES).upper);
  return sum;
}
