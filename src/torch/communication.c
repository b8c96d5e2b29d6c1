/* >>torch/communication    what collectives send */
#include "torch/torch.h"

/* bytes * (n - 1) / n */
static uint64_t vram__of_others(uint64_t bytes, uint64_t n) {
  return n ? bytes - bytes / n - (bytes % n != 0) : bytes;
}

/* A call of torch.distributed among so many ranks on a tensor of these bytes: of all_gather its
   output, of reduce_scatter its input. */
VRAM__FN void vram__communicate(vram__step *s, vram_collective kind, uint64_t bytes,
                                uint64_t ranks) {
  vram_communication *c = s->r->communication + kind;
  uint64_t sent = bytes;
  if (kind == VRAM_COLLECTIVE_ALL_REDUCE)
    sent = 2 * vram__of_others(bytes, ranks);
  else if (kind == VRAM_COLLECTIVE_ALL_GATHER || kind == VRAM_COLLECTIVE_REDUCE_SCATTER ||
           kind == VRAM_COLLECTIVE_ALL_TO_ALL)
    sent = vram__of_others(bytes, ranks);
  else if (kind == VRAM_COLLECTIVE_RECV)
    sent = 0;
  c->calls++;
  c->bytes = vram__sum_or_overflow(c->bytes, bytes);
  c->sent = vram__sum_or_overflow(c->sent, sent);
}
