/* >>torch/autocast    autocast's casts and its cache of weights */
#include "torch/torch.h"

/* at::autocast::cached_cast */
VRAM__FN vram__tensor vram__autocast_cast(vram__step *s, vram__tensor x, vram_dtype dt) {
  if (!vram__dtype_is_float(x.dt) || x.dt == VRAM_F64 || x.dt == dt)
    return vram__tensor_retain(s, x);
  if (dt == s->amp && x.dt == VRAM_F32 && !s->leaf.views && (vram__tensor_fn(s, x) & VRAM__LEAF) &&
      ((x.st & VRAM__LEAF) || !vram__slot_at(s, x.st)->of)) {
    vram__leaf *l = s->leaf.at + (vram__tensor_fn(s, x) & ~VRAM__LEAF);
    vram__cast *c = s->leaf.cast + (l - s->leaf.at);
    if (!c->t.d) {
      const uint8_t cat = s->cat, grad = s->grad;
      const int on = (s->device.rules->does & VRAM__CAST_GRAD) != 0;
      s->cat = VRAM_CATEGORY_AUTOCAST;
      if (on)
        s->grad = s->train;
      c->t = vram__torch_cast(s, x, dt);
      if (c->t.st && (on || grad))
        vram__slot_at(s, c->t.st)->req = 1;
      s->grad = grad;
      c->next = s->leaf.first_cast;
      s->leaf.first_cast = (uint32_t)(l - s->leaf.at) + 1;
      s->cat = cat;
    }
    return vram__tensor_retain(s, c->t);
  }
  return vram__torch_cast(s, x, dt);
}

/* Autocast's context ends, and with it the cache. Gives the bytes that were in it. */
VRAM__FN uint64_t vram__autocast_leave(vram__step *s) {
  uint64_t n = 0;
  while (s->leaf.first_cast) {
    vram__cast *c = s->leaf.cast + s->leaf.first_cast - 1;
    s->leaf.first_cast = c->next;
    n += vram__dims_bytes_of(c->t.d, c->t.dt);
    vram__tensor_release(s, c->t);
    c->t.d = NULL;
  }
  return n;
}
