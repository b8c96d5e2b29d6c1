/* >>parallel/deepspeed_reduce    ZeRO stages 1 and 2: gradients are reduced in buckets
   (deepspeed/runtime/zero/stage_1_and_2.py) */
#include "parallel/deepspeed.h"

static uint8_t vram__ds_reduction_stream(const vram__ds *d) { return d->overlap ? 1 : 0; }

/* setup_buckets */
static void vram__ds_setup_buckets(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  const uint64_t bytes =
      vram__product_or_overflow(s->o->parallel->reduce_bucket_size, vram__dtype_size(d->dtype));
  uint32_t i;
  if (d->ready)
    return;
  for (i = 0; i < 1u + d->overlap && d->contiguous; i++)
    d->bucket[i] = vram__buffer_new(s, bytes, VRAM_CATEGORY_GRADIENTS);
  d->at = 0;
  d->ready = 1;
}

/* ---- average_tensor */

/* The gradients of one all_reduce. */
typedef struct vram__ds_slices {
  uint64_t numel; /* of the tensors of the running small bucket, */
  uint32_t count; /* and how many they are */
  uint64_t last;  /* partition of the last one; UINT64_MAX: none yet */
} vram__ds_slices;

/* The reduction's stream uses what is reduced now (record_stream). */
static void vram__ds_used(vram__ds *d) {
  if (!d->overlap)
    return;
  if (d->extra == VRAM__DS_NONE)
    d->used[d->at] = 1;
  else
    d->param[d->extra].used = 1;
}

/* allreduce_and_copy_with_multiple_ranks: several tensors are copied into one. */
static void vram__ds_allreduce(vram__step *s, vram__ds_slices *x) {
  vram__ds *d = vram__ds_of(s);
  const uint64_t bytes = x->numel * vram__dtype_size(d->dtype);
  const uint64_t sent = x->numel * vram__dtype_size(d->comm);
  const uint8_t stream = s->stream;
  uint32_t flat = 0, cast = 0;
  s->stream = vram__ds_reduction_stream(d);
  if (x->count > 1)
    flat = vram__buffer_new(s, bytes, VRAM_CATEGORY_TEMPORARIES);
  if (x->count && d->comm != d->dtype)
    cast = vram__buffer_new(s, sent, VRAM_CATEGORY_TEMPORARIES);
  else if (x->count < 2) /* flatten gives a single one back */
    vram__ds_used(d);
  vram__buffer_free(s, &flat);
  vram__buffer_free(s, &cast);
  s->stream = stream;
  if (x->count)
    vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, sent, d->ranks);
  x->numel = 0;
  x->count = 0;
}

/* A piece of a gradient that goes to one rank; what belongs to the rank of the piece before it is
   one piece with that. They are gathered until they are more than a bucket. */
static void vram__ds_piece(vram__step *s, vram__ds_slices *x, uint64_t part, uint64_t numel,
                           uint64_t *pending) {
  if (part == x->last) {
    *pending += numel;
    return;
  }
  if (*pending) {
    x->count++;
    x->numel += *pending;
    if (x->numel > s->o->parallel->reduce_bucket_size)
      vram__ds_allreduce(s, x);
  }
  *pending = numel;
  x->last = part;
}

/* gradient_reduction_w_predivide: the bucket as it is */
static void vram__ds_average_whole(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  const uint64_t sent = d->elements * vram__dtype_size(d->comm);
  const uint8_t stream = s->stream;
  if (!d->elements)
    return;
  s->stream = vram__ds_reduction_stream(d);
  if (d->comm != d->dtype)
    vram__buffer_briefly(s, sent);
  s->stream = stream;
  vram__communicate(s, VRAM_COLLECTIVE_ALL_REDUCE, sent, d->ranks);
}

static void vram__ds_average(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  vram__ds_slices x = {0, 0, UINT64_MAX};
  uint64_t pending = 0;
  uint32_t i;
  if (d->offload) /* _record_gradient_stream of the bucket */
    vram__ds_used(d);
  if (!d->scatter) {
    vram__ds_average_whole(s);
    return;
  }
  for (i = 0; i < d->nmember; i++) {
    const vram__ds_param *f = d->param + d->member[i];
    uint64_t done = 0;
    while (done < f->numel) {
      const uint64_t part = (f->at + done) / d->part, end = (part + 1) * d->part;
      if (part == d->rank)
        vram__ds_used(d);
      const uint64_t n = f->at + f->numel < end ? f->numel - done : end - f->at - done;
      vram__ds_piece(s, &x, part, n, &pending);
      done += n;
    }
  }
  vram__ds_piece(s, &x, UINT64_MAX - 1, 0, &pending);
  if (x.count)
    vram__ds_allreduce(s, &x);
}

/* _buffered_reduce_fallback: gradients that are not in a bucket. */
static void vram__ds_fallback(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  vram__ds_slices x = {0, 0, UINT64_MAX};
  x.numel = d->elements;
  x.count = d->nmember;
  vram__ds_allreduce(s, &x);
}

/* ---- reduce_ipg_grads */

/* The gradients of the partition get a place of their own. */
static void vram__ds_copy_to_partition(vram__step *s, vram__ds_param *f) {
  vram__ds *d = vram__ds_of(s);
  const uint8_t stream = s->stream;
  s->stream = vram__ds_reduction_stream(d);
  if (d->offload)
    vram__ds_offload_gradient(s, f);
  else if (!d->grads_in)
    d->grads_in =
        vram__buffer_new(s, d->mine_numel * vram__dtype_size(d->dtype), VRAM_CATEGORY_GRADIENTS);
  s->stream = stream;
  if (!d->offload)
    vram__ds_let_go(s, f);
}

static void vram__ds_reduce_bucket(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  uint32_t i;
  if (d->contiguous)
    vram__ds_average(s);
  else
    vram__ds_fallback(s);
  for (i = 0; i < d->nmember; i++) {
    vram__ds_param *f = d->param + d->member[i];
    if (f->mine && d->contiguous)
      vram__ds_copy_to_partition(s, f);
    else if (!f->mine && d->stage == 2)
      vram__ds_let_go(s, f);
  }
  d->extra = VRAM__DS_NONE;
  d->nmember = 0;
  d->elements = 0;
}

/* reduce_independent_p_g_buckets_and_remove_grads */
static void vram__ds_reduce(vram__step *s, vram__ds_param *f) {
  vram__ds *d = vram__ds_of(s);
  const uint64_t most = s->o->parallel->reduce_bucket_size;
  if (!f->numel)
    return;
  if (d->elements + f->numel > most) {
    vram__ds_reduce_bucket(s);
    if (d->contiguous && d->overlap)
      d->at = 1 - d->at;
  }
  if (d->contiguous && f->numel <= most)
    vram__ds_let_go(s, f); /* it is a view of the bucket from here on */
  else if (d->contiguous)
    d->extra = (uint32_t)(f - d->param);
  f->reduced = 1;
  d->elements += f->numel;
  d->member[d->nmember++] = (uint32_t)(f - d->param);
}

/* process_gradients: the hook behind an accumulated gradient. */
VRAM__FN void vram__ds_accumulated(vram__step *s, vram__leaf *l) {
  vram__ds *d = vram__ds_of(s);
  vram__ds_param *f = d->param + d->by_leaf[l - s->leaf.at];
  if (!l->grad.d)
    return;
  vram__ds_setup_buckets(s);
  if (d->stage == 2 || (d->overlap && s->last_batch))
    vram__ds_reduce(s, f);
}

/* get_all_grad_tensors: zeros for each parameter of the partition that has no gradient. What a
   later micro-batch makes of them goes when they are added up; it is noted in d->norms. */
static void vram__ds_make_zeros(vram__step *s, int later) {
  vram__ds *d = vram__ds_of(s);
  uint32_t i;
  for (i = 0; i < d->nparam; i++) {
    vram__ds_param *f = d->param + i;
    d->norms[i] = 0;
    if (f->mine && !f->reduced) {
      uint32_t *slot = later ? d->norms + i : &f->zeros;
      *slot = vram__buffer_new(s, f->numel * vram__dtype_size(d->dtype), VRAM_CATEGORY_GRADIENTS);
    }
    f->reduced = 0;
  }
}

/* averaged_gradients: views of the gradients of the partition, zeros behind them. */
static void vram__ds_gradients_list(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  d->nlist = d->nmine;
  if (d->mine_end == d->part)
    return;
  d->nlist++;
  d->pad = vram__buffer_new(s, (d->part - d->mine_end) * vram__dtype_size(d->dtype),
                            VRAM_CATEGORY_GRADIENTS);
}

/* reduce_gradients and independent_gradient_partition_epilogue */
VRAM__FN void vram__ds_reduce_gradients(vram__step *s) {
  vram__ds *d = vram__ds_of(s);
  uint32_t i;
  if (d->stage == 1 && !s->last_batch)
    return;
  for (i = 0; i < d->nparam && d->stage == 1 && !d->overlap; i++)
    if (s->leaf.at[d->param[i].leaf].grad.d)
      vram__ds_reduce(s, d->param + i);
  vram__ds_reduce_bucket(s);
  if (!d->offload)
    vram__ds_make_zeros(s, d->batches++ != 0);
  if (s->last_batch && !d->offload)
    vram__ds_gradients_list(s);
  for (i = 0; i < 2; i++) {
    if (d->used[i])
      vram__undone_add(s, d->bucket[i]);
    vram__buffer_free(s, &d->bucket[i]);
    d->used[i] = 0;
  }
  d->ready = 0;
  if (!d->grads)
    d->grads = d->grads_in;
  else
    vram__buffer_free(s, &d->grads_in);
  d->grads_in = 0;
  for (i = 0; i < d->nparam && !d->offload; i++)
    vram__buffer_free(s, d->norms + i);
  for (i = 0; i < d->nparam; i++)
    if (d->contiguous || !d->param[i].mine)
      vram__ds_let_go(s, d->param + i);
}
