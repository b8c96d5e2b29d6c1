/* >>alloc/pool_config    options of a pool in the form of PYTORCH_CUDA_ALLOC_CONF */
#include "alloc/alloc.h"

/* PYTORCH_CUDA_ALLOC_CONF, ConfigTokenizer: words between , : [ and ]; spaces count for nothing. */
typedef struct vram__config {
  const char *text, *at; /* at: the word that was read last */
  uint32_t len;          /* of it; 0: the end */
  vram_error *err;
} vram__config;

static int vram__config_stops(char c) { return !c || c == ',' || c == ':' || c == '[' || c == ']'; }

static void vram__config_next(vram__config *c) {
  const char *p = c->at + c->len;
  while (*p == ' ')
    p++;
  c->at = p;
  c->len = 0;
  if (*p && vram__config_stops(*p))
    c->len = 1;
  else
    while (!vram__config_stops(p[c->len]) && p[c->len] != ' ')
      c->len++;
}

static int vram__config_is(const vram__config *c, const char *word) {
  return vram__text_is(c->at, c->len, word);
}

static vram_result vram__config_fail(const vram__config *c, vram_result code, const char *what) {
  vram__error_begin(c->err, code, 1, what);
  if (c->err)
    c->err->column = (uint32_t)(c->at - c->text) + 1;
  vram__error_text(c->err, " (found ");
  vram__error_quote(c->err, c->at, c->len);
  vram__error_text(c->err, c->len ? ")" : "the end)");
  return code;
}

/* The word as an integer up to `most`. */
static int vram__config_int(const vram__config *c, uint64_t most, uint64_t *v) {
  uint32_t i;
  *v = 0;
  for (i = 0; i < c->len; i++) {
    const uint64_t digit = (uint64_t)(uint8_t)c->at[i] - '0';
    if (digit > 9 || *v > (most - digit) / 10)
      return 0;
    *v = *v * 10 + digit;
  }
  return c->len != 0;
}

/* The word as a fraction, in millionths: digits with a point. */
static int vram__config_fraction(const vram__config *c, uint32_t *millionths) {
  uint32_t i, unit = 0;
  int digits = 0;
  *millionths = 0;
  for (i = 0; i < c->len; i++)
    if (c->at[i] == '.' && !unit)
      unit = 1000000;
    else if (c->at[i] < '0' || c->at[i] > '9')
      return 0;
    else if (unit) {
      unit /= 10;
      *millionths += unit * (uint32_t)(c->at[i] - '0');
      unit = unit ? unit : 1; /* beyond millionths */
      digits = 1;
    } else {
      if (*millionths > 1000000)
        return 0;
      *millionths = *millionths * 10 + (uint32_t)(c->at[i] - '0') * 1000000;
      digits = 1;
    }
  return digits;
}

static int vram__config_divisions(vram__config *c, uint64_t least, uint16_t *divisions) {
  uint64_t v;
  if (!vram__config_int(c, 32768, &v) || v < least || (v & (v - (v > 0))))
    return 0;
  *divisions = (uint16_t)v;
  return 1;
}

#define VRAM__DIVISIONS "roundup_power2_divisions must be a power of 2 up to 32768"

/* One number of divisions for all sizes, or [SIZE:DIVISIONS,...,>:DIVISIONS] with sizes in MiB: the
   first holds for smaller ones, too. */
static vram_result vram__config_roundup(vram__config *c, uint16_t *divisions) {
  uint64_t mib = 0;
  uint32_t i, last = 0;
  uint16_t v;
  int first = 1;
  if (!vram__config_is(c, "[")) {
    if (!vram__config_divisions(c, 1, &v))
      return vram__config_fail(c, VRAM_ERR_VALUE, VRAM__DIVISIONS);
    for (i = 0; i < 16; i++)
      divisions[i] = v;
    return VRAM_OK;
  }
  for (vram__config_next(c); !vram__config_is(c, "]"); first = 0) {
    const int rest = vram__config_is(c, ">");
    if (!rest && (!vram__config_int(c, UINT64_MAX, &mib) || !mib || (mib & (mib - 1))))
      return vram__config_fail(
          c, VRAM_ERR_VALUE,
          "a size in roundup_power2_divisions must be a power of 2, in MiB, or >");
    vram__config_next(c);
    if (!vram__config_is(c, ":"))
      return vram__config_fail(c, VRAM_ERR_SYNTAX, "a : must follow the size");
    vram__config_next(c);
    if (!vram__config_divisions(c, 0, &v))
      return vram__config_fail(c, VRAM_ERR_VALUE, VRAM__DIVISIONS " or 0");
    if (rest) {
      for (i = last + 1; i < 16; i++)
        divisions[i] = v;
    } else {
      last = vram__log2(mib) < 15 ? vram__log2(mib) : 15;
      for (i = first ? 0 : last; i <= last; i++)
        divisions[i] = v;
    }
    vram__config_next(c);
    if (vram__config_is(c, ","))
      vram__config_next(c);
    else if (!vram__config_is(c, "]"))
      return vram__config_fail(c, VRAM_ERR_SYNTAX, "a , or ] must follow the divisions");
  }
  return VRAM_OK;
}

/* Keys of PyTorch that change nothing here. */
static int vram__config_skips(const vram__config *c) {
  static const char *const name[] = {
      "release_lock_on_cudamalloc",     "release_lock_on_hipmalloc",
      "pinned_use_cuda_host_register",  "pinned_use_hip_host_register",
      "pinned_num_register_threads",    "pinned_use_background_threads",
      "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse",
      "throw_on_cudamalloc_oom"};
  uint32_t i;
  for (i = 0; i < sizeof name / sizeof *name; i++)
    if (vram__config_is(c, name[i]))
      return 1;
  return 0;
}

static vram_result vram__config_value(vram__config *c, const vram__config *key,
                                      vram_pool_options *o) {
  uint64_t mib = 0;
  uint32_t part;
  const int number = vram__config_int(c, UINT64_MAX >> 20, &mib);
  if (vram__config_is(key, "max_split_size_mb")) {
    if (!number || mib < VRAM__LARGE_SEGMENT >> 20)
      return vram__config_fail(c, VRAM_ERR_VALUE, "max_split_size_mb must be a number from 20 on");
    o->max_split_size = mib << 20;
  } else if (vram__config_is(key, "max_non_split_rounding_mb")) {
    if (!number || mib < VRAM__LARGE_SEGMENT >> 20)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "max_non_split_rounding_mb must be a number from 20 on");
    o->max_non_split_rounding = mib << 20;
  } else if (vram__config_is(key, "large_segment_size_mb")) {
    if (!number || mib < VRAM__LARGE_SEGMENT >> 20 || mib > 2048 || mib % 2)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "large_segment_size_mb must be an even number from 20 to 2048");
    o->large_segment_size = mib << 20;
  } else if (vram__config_is(key, "garbage_collection_threshold")) {
    if (!vram__config_fraction(c, &part) || !part || part >= 1000000)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "garbage_collection_threshold must be above 0 and below 1");
    o->garbage_collection_threshold = part;
  } else if (vram__config_is(key, "per_process_memory_fraction")) {
    if (!vram__config_fraction(c, &part) || part > 1000000)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "per_process_memory_fraction must be from 0 to 1");
    o->limit_bytes = o->total_bytes / 1000000 * part + o->total_bytes % 1000000 * part / 1000000;
  } else if (vram__config_is(key, "expandable_segments")) {
    if (!vram__config_is(c, "True") && !vram__config_is(c, "False"))
      return vram__config_fail(c, VRAM_ERR_VALUE, "expandable_segments must be True or False");
    o->expandable_segments = vram__config_is(c, "True");
  } else if (vram__config_is(key, "backend")) {
    if (!vram__config_is(c, "native"))
      return vram__config_fail(c, VRAM_ERR_VALUE, "backend must be native");
  } else if (vram__config_is(key, "roundup_power2_divisions"))
    return vram__config_roundup(c, o->roundup_power2_divisions);
  else if (!c->len || vram__config_stops(*c->at))
    return vram__config_fail(c, VRAM_ERR_SYNTAX, "a value must follow the :");
  return VRAM_OK;
}

VRAM_API vram_result vram_pool_config(const char *text, vram_pool_options *o, vram_error *err) {
  static const char *const name[] = {"max_split_size_mb",
                                     "max_non_split_rounding_mb",
                                     "large_segment_size_mb",
                                     "garbage_collection_threshold",
                                     "per_process_memory_fraction",
                                     "expandable_segments",
                                     "backend",
                                     "roundup_power2_divisions"};
  vram_pool_options now = *o;
  vram__config c, key;
  vram_result r;
  uint32_t i, known;
  vram__error_clear(err);
  c.text = c.at = text;
  c.len = 0;
  c.err = err;
  for (vram__config_next(&c); c.len;) {
    key = c;
    known = (uint32_t)vram__config_skips(&key);
    for (i = 0; i < sizeof name / sizeof *name; i++)
      known |= (uint32_t)vram__config_is(&key, name[i]);
    if (!known)
      return vram__config_fail(&c, VRAM_ERR_NAME,
                               "no key of PYTORCH_CUDA_ALLOC_CONF that is known here");
    vram__config_next(&c);
    if (!vram__config_is(&c, ":"))
      return vram__config_fail(&c, VRAM_ERR_SYNTAX, "a : must follow the key");
    vram__config_next(&c);
    r = vram__config_value(&c, &key, &now);
    if (r)
      return r;
    vram__config_next(&c);
    if (vram__config_is(&c, ","))
      vram__config_next(&c);
    else if (c.len)
      return vram__config_fail(&c, VRAM_ERR_SYNTAX, "a , must follow the value");
  }
  *o = now;
  return VRAM_OK;
}
