/* >>model/size    numbers, sizes and dtypes of the text form */
#include "model/model.h"

/* The dim of that name; g->ndim: there is none. */
VRAM__FN uint32_t vram__dim_find(const vram_graph *g, vram__span name) {
  uint32_t i;
  for (i = 0; i < g->ndim; i++)
    if (g->dim[i].len == name.len && vram__text_equal(g->dim[i].name, name.text, name.len))
      break;
  return i;
}

/* An integer at *at, which goes behind it. */
static int vram__parse_integer(vram__parser *p, vram__span size, const char **at, uint64_t *to) {
  const char *const begin = *at, *const end = size.text + size.len;
  uint64_t v = 0;
  for (; *at < end && vram__digit(**at); ++*at) {
    v = vram__product_or_overflow(v, 10);
    if (v != VRAM_OVERFLOW)
      v += (uint64_t)(**at - '0');
    if (v > (uint64_t)VRAM_MAX_BYTES)
      return vram__parse_error_in(p, begin, VRAM_ERR_OVERFLOW, "a number of more than 63 bits",
                                  size, NULL);
  }
  *to = v;
  return 1;
}

/* The value of the dim whose name is at *at, which goes behind it. */
static int vram__parse_dim_name(vram__parser *p, vram__span size, const char **at, uint64_t *to) {
  const char *const begin = *at, *const end = size.text + size.len;
  uint32_t i;
  while (*at < end && (vram__name_start(**at) || vram__digit(**at) || **at == '.'))
    ++*at;
  i = vram__dim_find(p->g, vram__span_of(begin, *at));
  if (i == p->g->ndim)
    return vram__parse_error(p, VRAM_ERR_NAME, "an unknown dim", vram__span_of(begin, *at),
                             "a name of a dim line");
  *to = (uint64_t)p->g->dim[i].value;
  return 1;
}

static const char vram__size_expected[] = "integers and dims with *, /, + and -";

/* A product of integers and dims with * and exact / at *at, which goes behind it. */
static int vram__parse_product(vram__parser *p, vram__span size, const char **at, uint64_t *to) {
  const char *const end = size.text + size.len;
  int divide = 0;
  uint64_t product = 1;
  for (;; ++*at) {
    const char *const begin = *at;
    uint64_t factor = 0;
    if (*at < end && vram__digit(**at)) {
      if (!vram__parse_integer(p, size, at, &factor))
        return 0;
    } else if (*at < end && vram__name_start(**at)) {
      if (!vram__parse_dim_name(p, size, at, &factor))
        return 0;
    } else
      return vram__parse_error_in(p, *at, VRAM_ERR_SYNTAX, "not a size", size, vram__size_expected);
    if (divide && (!factor || product % factor))
      return vram__parse_error_in(p, begin, VRAM_ERR_VALUE, "a division that leaves a rest", size,
                                  "an exact one");
    product = divide ? product / factor : vram__product_or_overflow(product, factor);
    if (product == VRAM_OVERFLOW)
      return vram__parse_error_in(p, begin, VRAM_ERR_OVERFLOW, "a product of more than 63 bits",
                                  size, NULL);
    if (*at == end || (**at != '*' && **at != '/'))
      break;
    divide = **at == '/';
  }
  *to = product;
  return 1;
}

/* A size: products with + and - between; `negative`: it may be less than 0, and begin with a
   minus. */
VRAM__FN int vram__parse_size(vram__parser *p, vram__span size, int negative, int64_t *to) {
  const char *at = size.text, *const end = size.text + size.len;
  int64_t sum = 0;
  int minus = negative && at < end && *at == '-';
  at += minus;
  for (;; minus = *at++ == '-') {
    const char *const begin = at;
    uint64_t product = 0;
    int64_t term;
    if (!vram__parse_product(p, size, &at, &product))
      return 0;
    term = minus ? -(int64_t)product : (int64_t)product;
    if (term > 0 ? sum > INT64_MAX - term : sum < -INT64_MAX - term)
      return vram__parse_error_in(p, begin, VRAM_ERR_OVERFLOW, "a sum of more than 63 bits", size,
                                  NULL);
    sum += term;
    if (at == end || (*at != '+' && *at != '-'))
      break;
  }
  if (at != end)
    return vram__parse_error_in(p, at, VRAM_ERR_SYNTAX, "not a size", size, vram__size_expected);
  if (sum < 0 && !negative)
    return vram__parse_error(p, VRAM_ERR_VALUE, "a size is negative", size, NULL);
  *to = sum;
  return 1;
}

/* A list of sizes, with or without brackets, into at most `room` numbers. */
VRAM__FN int vram__parse_sizes(vram__parser *p, vram__span list, uint32_t room, int64_t *to,
                               uint32_t *count) {
  const char *at = list.text, *end = list.text + list.len;
  *count = 0;
  if (list.len && *at == '[') {
    if (end[-1] != ']')
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "a shape that is not closed", list,
                               "[size,size,...]");
    at++;
    end--;
    if (at == end)
      return 1;
  }
  for (;; at++) {
    const char *const begin = at;
    while (at < end && *at != ',')
      at++;
    if (*count == room)
      return vram__parse_error(p, VRAM_ERR_LIMIT, "too many values", list, NULL);
    if (!vram__parse_size(p, vram__span_of(begin, at), 1, to + (*count)++))
      return 0;
    if (at == end)
      return 1;
  }
}

/* The digits of a decimal number at *at, with a point or without: 10^*exponent times *mantissa, of
   which what 17 digits do not hold is left out. Gives how many digits there are. */
static uint32_t vram__parse_digits(const char **at, const char *end, uint64_t *mantissa,
                                   int *exponent) {
  uint32_t digits = 0;
  int point = 0;
  for (; *at < end && (vram__digit(**at) || (**at == '.' && !point)); ++*at) {
    if (**at == '.') {
      point = 1;
      continue;
    }
    digits++;
    if (*mantissa > UINT64_C(99999999999999999)) {
      *exponent += !point;
      continue;
    }
    *mantissa = *mantissa * 10 + (uint64_t)(**at - '0');
    *exponent -= point;
  }
  return digits;
}

/* The exponent of a decimal number at *at, behind its e; 0: there are no digits. */
static int vram__parse_exponent(const char **at, const char *end, int *exponent) {
  int value = 0, minus = 0;
  const char *begin;
  if (*at < end && (**at == '-' || **at == '+'))
    minus = *(*at)++ == '-';
  for (begin = *at; *at < end && vram__digit(**at); ++*at)
    value = value < 1000 ? value * 10 + (**at - '0') : value;
  *exponent += minus ? -value : value;
  return *at != begin;
}

/* A decimal number, in units of 10^-9; `inf` is as much as there can be. */
VRAM__FN int vram__parse_decimal(vram__parser *p, vram__span number, int64_t *to) {
  const char *at = number.text, *const end = number.text + number.len;
  int minus = 0, exponent = 9, good;
  uint64_t mantissa = 0;
  if (at < end && (*at == '-' || *at == '+'))
    minus = *at++ == '-';
  good = vram__text_is(at, (uint32_t)(end - at), "inf");
  if (good) {
    at = end;
    mantissa = (uint64_t)INT64_MAX;
    exponent = 0;
  } else
    good = vram__parse_digits(&at, end, &mantissa, &exponent) != 0;
  if (good && at < end && (*at == 'e' || *at == 'E')) {
    at++;
    good = vram__parse_exponent(&at, end, &exponent);
  }
  if (!good || at != end)
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a number", number, "a decimal number");
  for (; exponent > 0 && mantissa && mantissa < UINT64_C(900000000000000000); exponent--)
    mantissa *= 10;
  for (; exponent < 0 && mantissa; exponent++)
    mantissa /= 10;
  if ((exponent > 0 && mantissa) || mantissa > (uint64_t)INT64_MAX)
    mantissa = (uint64_t)INT64_MAX;
  *to = minus ? -(int64_t)mantissa : (int64_t)mantissa;
  return 1;
}

VRAM__FN int vram__dtype_named(vram__parser *p, vram__span name, int64_t *to) {
  uint32_t i;
  for (i = VRAM_DTYPE_NONE + 1; i < VRAM_DTYPE_COUNT; i++)
    if (vram__text_is(name.text, name.len, vram__dtype_rows[i].name)) {
      *to = i;
      return 1;
    }
  *to = vram_dtype_from_name_n(name.text, name.len); /* float32, f8e4m3, Q4_K, ... */
  return *to != VRAM_DTYPE_NONE || vram__parse_error(p, VRAM_ERR_NAME, "an unknown dtype", name,
                                                     "f32, bf16, i64, ... (vram list dtypes)");
}

/* The same of an input or a key: `model` is the model's dtype, and so is f32 in a text that does
   not name it. */
VRAM__FN int vram__parse_dtype(vram__parser *p, vram__span name, int64_t *to) {
  if (vram__text_is(name.text, name.len, "model")) {
    *to = VRAM_DTYPE_MODEL;
    return p->g->dtype || vram__parse_error(p, VRAM_ERR_NAME, "the model's dtype is not named",
                                            name, "model NAME dtype=DTYPE in a line above");
  }
  if (!vram__dtype_named(p, name, to))
    return 0;
  if (*to == VRAM_F32 && !p->g->dtype)
    *to = VRAM_DTYPE_MODEL;
  return 1;
}
