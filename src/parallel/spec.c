/* >>parallel/spec    the words of an option: strategies, their sizes and options */
#include "core/core.h"

enum { /* strategies of a text; a wrapper has the number of its vram_wrapper */
       VRAM__SPEC_HSDP = VRAM_WRAPPER_COUNT,
       VRAM__SPEC_TP,
       VRAM__SPEC_PP,
       VRAM__SPEC_CP,
       VRAM__SPEC_EP,
       VRAM__STRATEGY_COUNT
};

static const char *const vram__strategy_name[VRAM__STRATEGY_COUNT] = {NULL,
#define VRAM__X(id, text) text,
                                                                      VRAM_WRAPPERS(VRAM__X)
#undef VRAM__X
                                                                          "hsdp",
                                                                      "tp",
                                                                      "pp",
                                                                      "cp",
                                                                      "ep"};

enum { /* what an option's value is */
       VRAM__SPEC_FLAG,
       VRAM__SPEC_COUNT,
       VRAM__SPEC_ELEMENTS,
       VRAM__SPEC_MEBIBYTES, /* 0.5: as Python's float */
       VRAM__SPEC_DTYPE,
       VRAM__SPEC_RESHARD,
       VRAM__SPEC_WORDS,
       VRAM__SPEC_PATTERN,
       VRAM__SPEC_PLAN,
       VRAM__SPEC_ONE_OF_SHARDINGS,
       VRAM__SPEC_ONE_OF_PREFETCHES,
       VRAM__SPEC_ONE_OF_SCHEDULES,
       VRAM__SPEC_INIT,
       VRAM__SPEC_OFFLOAD,
       VRAM__SPEC_ROTATE
};

#define VRAM__SPEC_MOST UINT64_C(1048576) /* ranks, microbatches */

#define VRAM__SPEC_OF(strategy) (1u << (strategy))
#define VRAM__SPEC_OF_DDP                                                                          \
  (VRAM__SPEC_OF(VRAM_WRAPPER_DDP) | VRAM__SPEC_OF(VRAM_WRAPPER_ZERO1) |                           \
   VRAM__SPEC_OF(VRAM__SPEC_EP))
#define VRAM__SPEC_OF_FSDP2 (VRAM__SPEC_OF(VRAM_WRAPPER_FSDP2) | VRAM__SPEC_OF(VRAM__SPEC_HSDP))
#define VRAM__SPEC_OF_FSDP (VRAM__SPEC_OF_FSDP2 | VRAM__SPEC_OF(VRAM_WRAPPER_FSDP1))
#define VRAM__SPEC_OF_DS                                                                           \
  (VRAM__SPEC_OF(VRAM_WRAPPER_DS1) | VRAM__SPEC_OF(VRAM_WRAPPER_DS2) |                             \
   VRAM__SPEC_OF(VRAM_WRAPPER_DS3))

typedef struct vram__spec_option {
  const char *name;
  uint32_t of; /* strategies that have it */
  uint8_t kind;
  size_t at; /* in vram_parallel */
} vram__spec_option;

#define VRAM__SPEC_ROW_OF(name, of, kind)                                                          \
  { #name, of, kind, offsetof(vram_parallel, name) }
/* clang-format off */
static const vram__spec_option vram__spec_options[] = {
    {"bucket_cap_mb", VRAM__SPEC_OF_DDP, VRAM__SPEC_MEBIBYTES, offsetof(vram_parallel, bucket_cap_bytes)},
    VRAM__SPEC_ROW_OF(gradient_as_bucket_view, VRAM__SPEC_OF_DDP, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(static_graph, VRAM__SPEC_OF_DDP, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(find_unused_parameters, VRAM__SPEC_OF_DDP, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(broadcast_buffers, VRAM__SPEC_OF_DDP, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(hook, VRAM__SPEC_OF_DDP, VRAM__SPEC_DTYPE),
    VRAM__SPEC_ROW_OF(parameters_as_bucket_view, VRAM__SPEC_OF(VRAM_WRAPPER_ZERO1), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(overlap_with_ddp, VRAM__SPEC_OF(VRAM_WRAPPER_ZERO1), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(mp, VRAM__SPEC_OF_FSDP, VRAM__SPEC_DTYPE),
    VRAM__SPEC_ROW_OF(reduce, VRAM__SPEC_OF_FSDP, VRAM__SPEC_DTYPE),
    VRAM__SPEC_ROW_OF(cast_forward_inputs, VRAM__SPEC_OF_FSDP2, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(cpu_offload, VRAM__SPEC_OF_FSDP2, VRAM__SPEC_FLAG),
    {"init", VRAM__SPEC_OF_FSDP, VRAM__SPEC_INIT, offsetof(vram_parallel, meta)},
    VRAM__SPEC_ROW_OF(reshard, VRAM__SPEC_OF_FSDP2, VRAM__SPEC_RESHARD),
    VRAM__SPEC_ROW_OF(prefetch, VRAM__SPEC_OF_FSDP2, VRAM__SPEC_COUNT),
    VRAM__SPEC_ROW_OF(units, VRAM__SPEC_OF_FSDP | VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_PATTERN),
    VRAM__SPEC_ROW_OF(sharding, VRAM__SPEC_OF(VRAM_WRAPPER_FSDP1), VRAM__SPEC_ONE_OF_SHARDINGS),
    VRAM__SPEC_ROW_OF(use_orig_params, VRAM__SPEC_OF(VRAM_WRAPPER_FSDP1), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(limit_all_gathers, VRAM__SPEC_OF(VRAM_WRAPPER_FSDP1), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(forward_prefetch, VRAM__SPEC_OF(VRAM_WRAPPER_FSDP1), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(backward_prefetch, VRAM__SPEC_OF(VRAM_WRAPPER_FSDP1), VRAM__SPEC_ONE_OF_PREFETCHES),
    VRAM__SPEC_ROW_OF(sp, VRAM__SPEC_OF(VRAM__SPEC_TP), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(loss_parallel, VRAM__SPEC_OF(VRAM__SPEC_TP), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(plan, VRAM__SPEC_OF(VRAM__SPEC_TP), VRAM__SPEC_PLAN),
    VRAM__SPEC_ROW_OF(schedule, VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_ONE_OF_SCHEDULES),
    VRAM__SPEC_ROW_OF(microbatches, VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_COUNT),
    VRAM__SPEC_ROW_OF(stages, VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_COUNT),
    VRAM__SPEC_ROW_OF(return_outputs, VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(balance, VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(loss_fn, VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_WORDS),
    VRAM__SPEC_ROW_OF(crossing, VRAM__SPEC_OF(VRAM__SPEC_PP), VRAM__SPEC_DTYPE),
    {"rotate_method", VRAM__SPEC_OF(VRAM__SPEC_CP), VRAM__SPEC_ROTATE, offsetof(vram_parallel, alltoall)},
    VRAM__SPEC_ROW_OF(enable_load_balance, VRAM__SPEC_OF(VRAM__SPEC_CP), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(bf16, VRAM__SPEC_OF_DS, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(fp16, VRAM__SPEC_OF_DS, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(overlap_comm, VRAM__SPEC_OF_DS, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(contiguous_gradients, VRAM__SPEC_OF_DS, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(reduce_scatter, VRAM__SPEC_OF_DS, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(reduce_bucket_size, VRAM__SPEC_OF_DS, VRAM__SPEC_ELEMENTS),
    VRAM__SPEC_ROW_OF(allgather_bucket_size, VRAM__SPEC_OF_DS, VRAM__SPEC_ELEMENTS),
    VRAM__SPEC_ROW_OF(round_robin_gradients, VRAM__SPEC_OF(VRAM_WRAPPER_DS1) | VRAM__SPEC_OF(VRAM_WRAPPER_DS2), VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(offload_optimizer, VRAM__SPEC_OF_DS, VRAM__SPEC_OFFLOAD),
    VRAM__SPEC_ROW_OF(offload_param, VRAM__SPEC_OF(VRAM_WRAPPER_DS3), VRAM__SPEC_OFFLOAD),
    VRAM__SPEC_ROW_OF(pin_memory, VRAM__SPEC_OF_DS, VRAM__SPEC_FLAG),
    VRAM__SPEC_ROW_OF(communication_data_type, VRAM__SPEC_OF_DS, VRAM__SPEC_DTYPE),
    VRAM__SPEC_ROW_OF(sub_group_size, VRAM__SPEC_OF(VRAM_WRAPPER_DS3), VRAM__SPEC_ELEMENTS),
    VRAM__SPEC_ROW_OF(stage3_prefetch_bucket_size, VRAM__SPEC_OF(VRAM_WRAPPER_DS3), VRAM__SPEC_ELEMENTS),
    VRAM__SPEC_ROW_OF(stage3_param_persistence_threshold, VRAM__SPEC_OF(VRAM_WRAPPER_DS3), VRAM__SPEC_ELEMENTS),
    VRAM__SPEC_ROW_OF(stage3_max_live_parameters, VRAM__SPEC_OF(VRAM_WRAPPER_DS3), VRAM__SPEC_ELEMENTS),
    VRAM__SPEC_ROW_OF(stage3_max_reuse_distance, VRAM__SPEC_OF(VRAM_WRAPPER_DS3), VRAM__SPEC_ELEMENTS)};
/* clang-format on */

enum { VRAM__SPEC_OPTIONS = sizeof vram__spec_options / sizeof *vram__spec_options }; /* up to 64 */

static const char *const vram__sharding_names[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                   "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"};
static const char *const vram__prefetch_names[] = {"pre", "post", "none"};
static const char *const vram__schedule_names[] = {
#define VRAM__X(id, text) text,
    VRAM_PIPELINES(VRAM__X)
#undef VRAM__X
};

/* A piece of the text that is read. */
typedef struct vram__spec_reader {
  const char *text; /* all of it, for columns */
  vram_error *err;
} vram__spec_reader;

static vram_result vram__spec_bad(const vram__spec_reader *s, vram_result code, const char *what,
                                  vram_words at, const char *expected) {
  vram__error_begin(s->err, code, 1, what);
  if (s->err)
    s->err->column = (uint32_t)(at.text - s->text) + 1;
  if (at.len) {
    vram__error_text(s->err, " '");
    vram__error_quote(s->err, at.text, at.len);
    vram__error_text(s->err, "'");
  }
  if (expected) {
    vram__error_text(s->err, " (expected ");
    vram__error_text(s->err, expected);
    vram__error_text(s->err, ")");
  }
  return code;
}

/* The words up to one of the letters in `ends`, which *p points at then. */
static vram_words vram__spec_words(const char **p, const char *ends) {
  vram_words w;
  uint32_t i;
  w.text = *p;
  w.len = 0;
  for (; w.text[w.len]; w.len++) {
    for (i = 0; ends[i] && ends[i] != w.text[w.len];)
      i++;
    if (ends[i])
      break;
  }
  *p = w.text + w.len;
  return w;
}

/* The number of the strategy of that name; VRAM__STRATEGY_COUNT: there is none. */
static uint32_t vram__spec_strategy(vram_words name) {
  uint32_t i = 1;
  while (i < VRAM__STRATEGY_COUNT && !vram__text_is(name.text, name.len, vram__strategy_name[i]))
    i++;
  return i;
}

/* The same of a pattern of names: a `+` in it is its own, where no strategy begins behind it. */
static vram_words vram__spec_pattern(const char **p) {
  vram_words w = vram__spec_words(p, ",+");
  while (**p == '+') {
    const char *next = *p + 1;
    vram_words name = vram__spec_words(&next, "=,+");
    if (name.len && (*next == '=' || vram__spec_strategy(name) < VRAM__STRATEGY_COUNT))
      break;
    ++*p;
    vram__spec_words(p, ",+");
    w.len = (uint32_t)(*p - w.text);
  }
  return w;
}

/* Is each [ closed, and can it not be looked for without end? Each of many `*`, `+` and `?` may
   take much or little. */
static int vram__spec_is_pattern(vram_words w) {
  const char *p = w.text, *const end = p + w.len, *next;
  uint32_t many = 0;
  for (; p < end && many <= 4; p = next) {
    next = vram__pattern_atom_end(p, end);
    if (*p == '[' && next[-1] != ']')
      return 0;
    many = *p == '|' ? 0 : many + (*p == '*' || *p == '+' || *p == '?');
  }
  return w.len && many <= 4;
}

/* A whole number up to `most`; 0: it is none. */
static int vram__spec_count(vram_words w, uint64_t most, uint64_t *n) {
  uint32_t i;
  *n = 0;
  for (i = 0; i < w.len; i++) {
    if (w.text[i] < '0' || w.text[i] > '9')
      return 0;
    *n = *n * 10 + (uint64_t)(w.text[i] - '0');
    if (*n > most)
      return 0;
  }
  return w.len != 0;
}

/* Megabytes as Python's float says them, "0.5": int(MB * 1024 * 1024) bytes. */
static int vram__spec_mebibytes(vram_words w, uint64_t *bytes) {
  vram_words whole = w;
  uint64_t n, part = 0, unit = 1;
  uint32_t i;
  for (whole.len = 0; whole.len < w.len && w.text[whole.len] != '.';)
    whole.len++;
  if (!vram__spec_count(whole, UINT64_C(1) << 40, &n))
    return 0;
  for (i = whole.len + 1; i < w.len; i++) {
    if (w.text[i] < '0' || w.text[i] > '9' || unit > UINT64_C(1000000000))
      return 0;
    part = part * 10 + (uint64_t)(w.text[i] - '0');
    unit *= 10;
  }
  *bytes = (n << 20) + (part << 20) / unit;
  *bytes += !*bytes; /* 0 is the default; a bucket of one byte is full as soon */
  return 1;
}

static int vram__spec_one_of(vram_words w, const char *const *names, uint32_t count,
                             uint32_t *which) {
  for (*which = 0; *which < count; ++*which)
    if (vram__text_is(w.text, w.len, names[*which]))
      return 1;
  return 0;
}

/* Letters that differ when two words are put one over the other from both ends; of two that changed
   places one. */
static uint32_t vram__spec_distance(vram_words w, const char *name) {
  const uint32_t len = vram__text_len(name);
  uint32_t front = 0, back = 0;
  while (front < w.len && front < len && w.text[front] == name[front])
    front++;
  while (back + front < w.len && back + front < len &&
         w.text[w.len - 1 - back] == name[len - 1 - back])
    back++;
  if (w.len == len && front + back + 2 == len && w.text[front] == name[front + 1] &&
      w.text[front + 1] == name[front])
    return 1;
  return (w.len > len ? w.len : len) - front - back;
}

/* Adds "did you mean X?" to the error that was begun. */
static vram_result vram__spec_nearest(const vram__spec_reader *s, vram_words w, int strategy) {
  /* what others call it */
  static const char *const known[][2] = {{"fsdp", "fsdp2"}, {"zero2", "ds2"}, {"zero3", "ds3"}};
  const char *best = NULL;
  uint32_t i, least = UINT32_MAX;
  for (i = 0; strategy < 0 && i < sizeof known / sizeof *known; i++)
    if (vram__text_is(w.text, w.len, known[i][0]))
      least = 0, best = known[i][1];
  for (i = 0; i < (strategy < 0 ? (uint32_t)VRAM__STRATEGY_COUNT : (uint32_t)VRAM__SPEC_OPTIONS);
       i++) {
    const char *name = strategy < 0 ? vram__strategy_name[i] : vram__spec_options[i].name;
    uint32_t distance;
    if (!name || (strategy >= 0 && !(vram__spec_options[i].of >> strategy & 1)))
      continue;
    distance = vram__spec_distance(w, name);
    if (distance < least)
      least = distance, best = name;
  }
  if (best) {
    vram__error_text(s->err, ": the nearest is ");
    vram__error_text(s->err, best);
  }
  return VRAM_ERR_NAME;
}

/* reshard_after_forward: default, 0, 1, or to so many ranks. */
static const char *vram__spec_reshard(vram_words w, vram_parallel *p) {
  uint64_t n;
  if (vram__text_is(w.text, w.len, "default"))
    p->reshard = VRAM_RESHARD_DEFAULT;
  else if (!vram__spec_count(w, UINT32_MAX, &n))
    return "default, 0, 1 or a number of ranks";
  else {
    p->reshard = n == 0 ? VRAM_RESHARD_NEVER : n == 1 ? VRAM_RESHARD_ALWAYS : VRAM_RESHARD_RANKS;
    p->reshard_ranks = (uint32_t)n;
  }
  return NULL;
}

/* What was expected, or NULL: the value is in *p. */
static const char *vram__spec_value(const vram__spec_option *o, vram_words w, vram_parallel *p) {
  void *at = (char *)p + o->at;
  uint64_t n;
  uint32_t which;
  switch (o->kind) {
  case VRAM__SPEC_FLAG:
    if (!vram__spec_count(w, 1, &n))
      return "0 or 1";
    *(uint8_t *)at = (uint8_t)n;
    break;
  case VRAM__SPEC_COUNT:
    if (!vram__spec_count(w, VRAM__SPEC_MOST, &n))
      return "a count";
    *(uint32_t *)at = (uint32_t)n;
    break;
  case VRAM__SPEC_ELEMENTS:
    if (!vram__spec_count(w, (uint64_t)VRAM_MAX_BYTES, &n))
      return "a number of elements";
    *(uint64_t *)at = n;
    break;
  case VRAM__SPEC_MEBIBYTES:
    return vram__spec_mebibytes(w, (uint64_t *)at) ? NULL : "a number of MiB";
  case VRAM__SPEC_DTYPE: {
    const vram_dtype d = vram_dtype_from_name_n(w.text, w.len);
    if (d != VRAM_BF16 && d != VRAM_F16 && d != VRAM_F32)
      return "bf16, fp16 or f32";
    *(vram_dtype *)at = d;
    break;
  }
  case VRAM__SPEC_RESHARD:
    return vram__spec_reshard(w, p);
  case VRAM__SPEC_WORDS:
    if (!w.len)
      return "the name of a node";
    *(vram_words *)at = w;
    break;
  case VRAM__SPEC_PATTERN:
    if (!vram__spec_is_pattern(w))
      return "auto, root, or names of nodes up to a point, with four of *, + and ? at most, each [ "
             "closed";
    *(vram_words *)at = w;
    break;
  case VRAM__SPEC_PLAN:
    if (!w.len)
      return "STYLE:NAME:NAME/STYLE:NAME: colwise:q_proj:k_proj/rowwise:o_proj";
    *(vram_words *)at = w;
    break;
  case VRAM__SPEC_ONE_OF_SHARDINGS:
    if (!vram__spec_one_of(w, vram__sharding_names, 5, &which))
      return "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or _HYBRID_SHARD_ZERO2";
    p->sharding = (vram_sharding)which;
    break;
  case VRAM__SPEC_ONE_OF_PREFETCHES:
    if (!vram__spec_one_of(w, vram__prefetch_names, 3, &which))
      return "pre, post or none";
    p->backward_prefetch = (vram_backward_prefetch)which;
    break;
  case VRAM__SPEC_ONE_OF_SCHEDULES:
    if (!vram__spec_one_of(w, vram__schedule_names, VRAM_PIPELINE_COUNT, &which))
      return "1F1B, GPipe, Interleaved1F1B, InterleavedZeroBubble, ZBVZeroBubble, LoopedBFS or "
             "DualPipeV";
    p->schedule = (vram_pipeline)which;
    break;
  case VRAM__SPEC_OFFLOAD:
    if (!vram__text_is(w.text, w.len, "cpu") && !vram__text_is(w.text, w.len, "none"))
      return "cpu or none";
    *(uint8_t *)at = w.text[0] == 'c';
    break;
  case VRAM__SPEC_ROTATE:
    if (!vram__text_is(w.text, w.len, "alltoall") && !vram__text_is(w.text, w.len, "allgather"))
      return "allgather or alltoall";
    *(uint8_t *)at = w.text[3] == 't';
    break;
  default: /* VRAM__SPEC_INIT */
    if (!vram__text_is(w.text, w.len, "meta") && !vram__text_is(w.text, w.len, "cuda"))
      return "cuda or meta";
    p->meta = w.text[0] == 'm';
  }
  return NULL;
}

/* seen: a bit for each option that this strategy has already. */
static vram_result vram__spec_option_read(const vram__spec_reader *s, const char **at,
                                          uint32_t strategy, vram_parallel *p, uint64_t *seen) {
  const vram_words name = vram__spec_words(at, "=,+");
  vram_words value;
  const char *expected;
  uint32_t i;
  if (!name.len)
    return vram__spec_bad(s, VRAM_ERR_SYNTAX, "an option without a name", name, "NAME=VALUE");
  for (i = 0; i < VRAM__SPEC_OPTIONS; i++)
    if ((vram__spec_options[i].of >> strategy & 1) &&
        vram__text_is(name.text, name.len, vram__spec_options[i].name))
      break;
  if (i == VRAM__SPEC_OPTIONS) {
    vram__spec_bad(s, VRAM_ERR_NAME, "no option of this strategy:", name, NULL);
    return vram__spec_nearest(s, name, (int)strategy);
  }
  if (*seen >> i & 1)
    return vram__spec_bad(s, VRAM_ERR_VALUE, "an option twice:", name, NULL);
  *seen |= UINT64_C(1) << i;
  if (**at != '=')
    return vram__spec_bad(s, VRAM_ERR_SYNTAX, "an option without a value:", name, "NAME=VALUE");
  ++*at;
  value = vram__spec_options[i].kind == VRAM__SPEC_PATTERN ? vram__spec_pattern(at)
                                                           : vram__spec_words(at, ",+");
  expected = vram__spec_value(vram__spec_options + i, value, p);
  if (expected) {
    vram__spec_bad(s, VRAM_ERR_VALUE, vram__spec_options[i].name, value, expected);
    return VRAM_ERR_VALUE;
  }
  return VRAM_OK;
}

/* What came before goes with this one? */
static const char *vram__spec_size_set(vram_parallel *p, uint32_t strategy, uint64_t a,
                                       uint64_t b) {
  uint32_t *size = strategy == VRAM__SPEC_TP   ? &p->tp
                   : strategy == VRAM__SPEC_PP ? &p->pp
                   : strategy == VRAM__SPEC_CP ? &p->cp
                   : strategy == VRAM__SPEC_EP ? &p->ep
                                               : &p->dp;
  if (*size)
    return size == &p->dp ? "two wrappers" : "a strategy twice";
  *size = (uint32_t)b;
  p->is_pipeline |= strategy == VRAM__SPEC_PP;
  if (size == &p->dp) {
    p->copies = (uint32_t)a;
    p->wrapper = strategy == VRAM__SPEC_HSDP ? VRAM_WRAPPER_FSDP2 : (vram_wrapper)strategy;
  }
  return NULL;
}

/* NAME=SIZE */
static vram_result vram__spec_strategy_read(const vram__spec_reader *s, const char **at,
                                            uint32_t *strategy, vram_parallel *p) {
  const vram_words name = vram__spec_words(at, "=,+");
  vram_words size, shards;
  uint64_t a = 1, b;
  const char *wrong;
  *strategy = vram__spec_strategy(name);
  if (*strategy == VRAM__STRATEGY_COUNT) {
    if (!name.len)
      return vram__spec_bad(s, VRAM_ERR_SYNTAX, "no strategy", name, "NAME=SIZE: ddp=8, tp=2");
    vram__spec_bad(s, VRAM_ERR_NAME, "unknown strategy", name, NULL);
    return vram__spec_nearest(s, name, -1);
  }
  if (**at != '=')
    return vram__spec_bad(s, VRAM_ERR_SYNTAX, "a strategy without its ranks:", name, "NAME=SIZE");
  ++*at;
  size = vram__spec_words(
      at, *strategy == VRAM__SPEC_HSDP || *strategy == VRAM_WRAPPER_FSDP1 ? "x,+" : ",+");
  shards = size;
  if (*strategy == VRAM__SPEC_HSDP || **at == 'x') {
    if (**at != 'x' || !vram__spec_count(size, VRAM__SPEC_MOST, &a) || !a)
      return vram__spec_bad(s, VRAM_ERR_VALUE, "ranks of copies and shards:", size,
                            "COPIESxSHARDS: 2x4");
    ++*at;
    shards = vram__spec_words(at, ",+");
  }
  if (!vram__spec_count(shards, VRAM__SPEC_MOST, &b) || !b)
    return vram__spec_bad(s, VRAM_ERR_VALUE, "a number of ranks:", shards, "1 to 1048576");
  wrong = vram__spec_size_set(p, *strategy, a, b);
  return wrong ? vram__spec_bad(s, VRAM_ERR_VALUE, wrong, name, NULL) : VRAM_OK;
}

enum { VRAM__SPEC_AS_STAGE = 2 }; /* overlap_comm: the third stage overlaps, the others do not */

/* PyTorch's and DeepSpeed's own. */
static void vram__parallel_defaults(vram_parallel *p) {
  vram__memory_zero(p, sizeof *p);
  p->enable_load_balance = 1;
  p->broadcast_buffers = p->cast_forward_inputs = p->limit_all_gathers = 1;
  p->microbatches = 8;
  p->overlap_comm = VRAM__SPEC_AS_STAGE;
  p->bf16 = p->contiguous_gradients = p->reduce_scatter = p->pin_memory = 1;
  p->reduce_bucket_size = p->allgather_bucket_size = UINT64_C(500000000);
  p->sub_group_size = UINT64_C(1000000000);
  p->stage3_prefetch_bucket_size = UINT64_C(50000000);
  p->stage3_param_persistence_threshold = UINT64_C(100000);
  p->stage3_max_live_parameters = p->stage3_max_reuse_distance = UINT64_C(1000000000);
}

VRAM_API vram_result vram_parallel_parse(const char *text, vram_parallel *p, vram_error *err) {
  vram__spec_reader s;
  const char *at = text;
  uint32_t strategy = 0;
  vram_result r = VRAM_OK;
  s.text = text;
  s.err = err;
  vram__error_clear(err);
  vram__parallel_defaults(p);
  for (;; at++) {
    uint64_t seen = 0;
    r = vram__spec_strategy_read(&s, &at, &strategy, p);
    while (!r && *at == ',') {
      at++;
      r = vram__spec_option_read(&s, &at, strategy, p, &seen);
    }
    if (r || !*at)
      break;
  }
  if (p->overlap_comm == VRAM__SPEC_AS_STAGE)
    p->overlap_comm = p->wrapper == VRAM_WRAPPER_DS3;
  if (p->fp16)
    p->bf16 = 0;
  if (p->ep && !p->wrapper) { /* the ranks that share the experts copy all else */
    p->wrapper = VRAM_WRAPPER_DDP;
    p->dp = p->ep;
  }
  p->copies += !p->copies;
  p->dp += !p->dp;
  p->tp += !p->tp;
  p->pp += !p->pp;
  p->cp += !p->cp;
  p->ep += !p->ep;
  return r;
}

VRAM_API uint64_t vram_parallel_world(const vram_parallel *p) {
  const uint64_t dp = vram__product_or_overflow(p->dp ? p->dp : 1, p->copies ? p->copies : 1);
  const uint64_t cut = vram__product_or_overflow(p->tp ? p->tp : 1, p->cp ? p->cp : 1);
  return vram__product_or_overflow(vram__product_or_overflow(dp, cut), p->pp ? p->pp : 1);
}

VRAM_API vram_parallel_place vram_parallel_place_of(const vram_parallel *p) {
  vram_parallel_place at;
  uint32_t rank = p->rank;
  at.tp = rank % (p->tp ? p->tp : 1);
  rank /= p->tp ? p->tp : 1;
  at.cp = rank % (p->cp ? p->cp : 1);
  rank /= p->cp ? p->cp : 1;
  at.dp = rank % (p->dp ? p->dp : 1);
  rank /= p->dp ? p->dp : 1;
  at.copy = rank % (p->copies ? p->copies : 1);
  at.pp = rank / (p->copies ? p->copies : 1);
  return at;
}

VRAM_API const char *vram_wrapper_name(vram_wrapper wrapper) {
  return (uint32_t)wrapper - 1 < VRAM_WRAPPER_COUNT - 1u ? vram__strategy_name[wrapper] : "?";
}

VRAM_API const char *vram_pipeline_name(vram_pipeline schedule) {
  return (uint32_t)schedule < VRAM_PIPELINE_COUNT ? vram__schedule_names[schedule] : "?";
}

VRAM_API const char *vram_collective_name(vram_collective kind) {
  static const char *const name[VRAM_COLLECTIVE_COUNT] = {
#define VRAM__X(id, text) text,
      VRAM_COLLECTIVES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)kind < VRAM_COLLECTIVE_COUNT ? name[kind] : "?";
}
