/* >>parallel/deepspeed_norm    ZeRO stages 1 and 2 around the optimizer's step: overflow, norm,
   clipping, all in small tensors (deepspeed/runtime/zero/stage_1_and_2.py, runtime/utils.py) */
#include "parallel/deepspeed.h"

/* Plays words of small tensors: "a4" makes a, of 4 bytes ('e': a gradient's element, 'n': a norm),
   "-a" lets go of it. */
VRAM__FN void vram__ds_say(vram__step *s, vram__ds_scalars *x, const char *text) {
  for (; *text; text++) {
    const int gone = *text == '-';
    uint32_t *slot;
    if (*text == ' ')
      continue;
    text += gone;
    slot = x->slot + (*text - 'a');
    if (gone) {
      vram__buffer_free(s, slot);
      continue;
    }
    text++;
    *slot = vram__buffer_new(s,
                             *text == 'e'   ? x->each
                             : *text == 'n' ? x->norm
                                            : (uint64_t)(*text - '0'),
                             VRAM_CATEGORY_TEMPORARIES);
  }
}

/* has_inf_or_nan; its result is j. */
VRAM__FN void vram__ds_overflow(vram__step *s, vram__ds_scalars *x, vram_dtype dtype,
                                uint64_t numel) {
  x->each = vram__dtype_size(dtype);
  vram__ds_say(s, x, "ae");
  vram__reduction_briefly(s, numel, dtype, (uint32_t)x->each);
  vram__ds_say(s, x, "be c1 d1 g1 -d-c-b-a ae");
  vram__reduction_briefly(s, numel, dtype, (uint32_t)x->each);
  vram__ds_say(s, x, "be c1 d1 h1 -d-c-b-a i1 -g-h j1 -i");
}

/* vector_norm(g.to(float64)) */
VRAM__FN uint32_t vram__ds_norm(vram__step *s, uint64_t numel) {
  uint32_t copy = vram__buffer_new(s, 8 * numel, VRAM_CATEGORY_TEMPORARIES), norm;
  norm = vram__buffer_new(s, 8, VRAM_CATEGORY_TEMPORARIES);
  vram__reduction_briefly(s, numel, VRAM_F64, 8);
  vram__buffer_free(s, &copy);
  return norm;
}

/* Elements of a parameter that are in the partition. */
static uint64_t vram__ds_part_of(const vram__ds *d, const vram__ds_param *f) {
  const uint64_t begin = d->part * d->rank, end = begin + d->part;
  const uint64_t from = f->at > begin ? f->at : begin;
  const uint64_t to = f->at + f->numel < end ? f->at + f->numel : end;
  return to - from;
}

/* is_invalid_grad_norm */
VRAM__FN void vram__ds_invalid(vram__step *s, vram__ds_scalars *x) {
  vram__ds_say(s, x, "an b1 c1 d1 -c-b-a f1 -d g1 h1 -f-g i1 -h-i");
}

/* has_overflow_partitioned_grads_serial */
static void vram__ds_check_overflow(vram__step *s, vram__ds_scalars *x) {
  vram__ds *d = vram__ds_of(s);
  uint32_t i;
  vram__ds_say(s, x, "z4");
  for (i = 0; i < d->nparam; i++)
    if (d->param[i].mine) {
      vram__ds_overflow(s, x, d->dtype, vram__ds_part_of(d, d->param + i));
      vram__ds_say(s, x, "-j");
    }
  if (d->mine_end < d->part) {
    vram__ds_overflow(s, x, d->dtype, d->part - d->mine_end);
    vram__ds_say(s, x, "-j");
  }
  vram__ds_say(s, x, "a1 -z b1 -a-b");
}

/* The sum of n norms' squares, c: they are stacked in f64. */
VRAM__FN void vram__ds_squares(vram__step *s, vram__ds_scalars *x, uint32_t n) {
  uint32_t stack = vram__buffer_new(s, 8 * (uint64_t)n, VRAM_CATEGORY_TEMPORARIES);
  uint32_t squares = vram__buffer_new(s, 8 * (uint64_t)n, VRAM_CATEGORY_TEMPORARIES);
  vram__buffer_free(s, &stack);
  vram__ds_say(s, x, "c8");
  vram__reduction_briefly(s, n, VRAM_F64, 8);
  vram__buffer_free(s, &squares);
}

/* get_grad_norm_direct; the norm is e. */
static void vram__ds_grad_norm(vram__step *s, vram__ds_scalars *x) {
  vram__ds *d = vram__ds_of(s);
  uint32_t i, n = 0;
  for (i = 0; i < d->nparam; i++)
    if (d->param[i].mine)
      d->norms[n++] = vram__ds_norm(s, vram__ds_part_of(d, d->param + i));
  if (!n) {
    vram__ds_say(s, x, "d4");
  } else {
    vram__ds_squares(s, x, n);
    vram__ds_say(s, x, "d4 -c");
  }
  vram__ds_say(s, x, "e4 -d f4 g1 -f h1 i1 j4 -g-h-i-j");
  while (n)
    vram__buffer_free(s, d->norms + --n);
}

/* The norm of all ranks' gradients becomes `global`: scaled_global_norm, _global_grad_norm. What
   held the one before goes with the step. */
static void vram__ds_global_norm(vram__step *s, vram__ds_scalars *x) {
  vram__ds_say(s, x, "a4 b4 c1 d1 f1 -d-c-b g1 -f h1 i1 -g-h j1 -i k4 l4 m4 -l-a-j-k-e");
  vram__ds_invalid(s, x);
}

/* unscale_and_clip_grads, with gradient_clipping, which is 1.0 where nobody sets it */
VRAM__FN void vram__ds_clip(vram__step *s, vram__ds_scalars *x) {
  vram__ds_invalid(s, x);
  vram__ds_say(s, x, "an bn -a cn -b dn -c fn gn hn -g-h-f-d");
}

/* The partition's gradients in fp32: the optimizer's only gradient. */
static uint32_t vram__ds_single_gradient(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  const uint32_t each = vram__dtype_size(d->dtype);
  uint32_t flat = 0, single, i;
  vram__ds_param *only = NULL; /* a single gradient, of zeros */
  for (i = 0; i < d->nparam && d->nlist == 1; i++)
    if (d->param[i].zeros)
      only = d->param + i;
  if (d->nlist > 1)
    flat = vram__buffer_new(s, d->part * each, VRAM_CATEGORY_GRADIENTS);
  single = flat;
  if (each < 4) {
    single = vram__buffer_new(s, d->part * 4, VRAM_CATEGORY_GRADIENTS);
    vram__buffer_free(s, &flat);
  }
  if (!single && only) {
    single = only->zeros;
    only->zeros = 0;
  } else if (single || !d->grads) {
    vram__buffer_free(s, &d->grads);
  } else { /* it is the gradients themselves */
    single = d->grads;
    d->grads = 0;
  }
  for (i = 0; i < d->nparam; i++) {
    vram__ds_let_go(s, d->param + i);
    vram__buffer_free(s, &d->param[i].zeros);
  }
  vram__buffer_free(s, &d->pad);
  return single;
}

/* With the optimizer on the host only scalars go to the device. */
static void vram__ds_optimizing_on_host(vram__step *s, vram__ds_scalars *x) {
  vram__ds *d = vram__ds_of(s);
  uint32_t i;
  vram__ds_say(s, x, "a1 -a b4 -b");
  for (i = 0; i < d->nparam; i++)
    vram__buffer_free(s, d->norms + i);
}

VRAM__FN void vram__ds_optimizing(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  vram__ds_scalars x;
  vram__memory_zero(&x, sizeof x);
  x.norm = 4;
  s->r->gradients_bytes = d->grads ? vram__slot_at(s, d->grads)->bytes : 0;
  if (d->offload) {
    vram__ds_optimizing_on_host(s, &x);
    return;
  }
  if (d->dtype != VRAM_F32) /* check_grad_overflow */
    vram__ds_check_overflow(s, &x);
  vram__ds_grad_norm(s, &x);
  vram__ds_global_norm(s, &x);
  d->scaled = x.slot['m' - 'a'];
  d->norm_before = d->norm.slot;
  d->norm.bytes = 4;
  d->norm.slot = vram__buffer_new(s, 4, VRAM_CATEGORY_OTHER);
  d->single = vram__ds_single_gradient(s);
  vram__ds_clip(s, &x);
}

/* Behind optimizer.step(): parameters are gathered in place. Before it ranks have told each other
   of overflows and norms. */
VRAM__FN void vram__ds_optimized(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  if (d->dtype != VRAM_F32)
    vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, 1, d->ranks);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, 4, d->ranks);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_GATHER, d->part * d->ranks * vram__dtype_size(d->dtype),
                    d->ranks);
  vram__buffer_free(s, &d->single);
  vram__buffer_free(s, &d->scaled);
  vram__buffer_free(s, &d->norm_before);
  s->r->optimizer_bytes += d->master.bytes;
}

/* copy_grads_in_partition with the optimizer on the host: the norm of what is in the partition, a
   look for overflow, and a copy in fp32 that goes to the host. */
VRAM__FN void vram__ds_offload_gradient(vram__step *s, vram__ds_param *f) {
  vram__ds *d = vram__ds_of(s);
  const uint64_t part = vram__ds_part_of(d, f);
  vram__ds_scalars x;
  vram__memory_zero(&x, sizeof x);
  if (!s->last_batch)
    return;
  d->norms[f - d->param] = vram__ds_norm(s, part);
  vram__ds_overflow(s, &x, d->dtype, f->numel);
  vram__ds_say(s, &x, "-j");
  if (d->dtype != VRAM_F32)
    vram__buffer_briefly(s, 4 * part);
  vram__ds_let_go(s, f);
}
