/* >>model/key    KEY=VALUE: the keys of a node */
#include "model/model.h"

#define VRAM__KEY_WORDS(head) (1 + ((uint32_t)((head) >> 8) & 0xffffu)) /* with its values */

/* Is `name` in the list of keys of an op? 2: and required. */
static int vram__op_has_key(const char *keys, const char *name) {
  const char *k = keys;
  while (*k) {
    const char *n = name;
    while (*n && *k == *n) {
      k++;
      n++;
    }
    if (!*n && (*k == ' ' || *k == 0 || *k == '!'))
      return *k == '!' ? 2 : 1;
    while (*k && *k != ' ')
      k++;
    while (*k == ' ')
      k++;
  }
  return 0;
}

/* The key of that name, VRAM__KEY_COUNT: there is none. A model has few keys: where each of them
   was found is remembered. */
static uint32_t vram__key_named(vram__parser *p, vram__span name) {
  uint16_t *known = p->found_key + (vram__hash(name.text, name.len) & 63);
  uint32_t k = *known;
  if (k && vram__text_is(name.text, name.len, vram__key_table[k].name))
    return k;
  for (k = 1; k < VRAM__KEY_COUNT; k++)
    if (vram__text_is(name.text, name.len, vram__key_table[k].name))
      break;
  *known = (uint16_t)(k < VRAM__KEY_COUNT ? k : 0);
  return k;
}

static int vram__keys_have(const vram__keys *keys, uint32_t key) {
  uint32_t i;
  for (i = 0; i < keys->count; i += VRAM__KEY_WORDS(keys->words[i]))
    if ((uint32_t)(keys->words[i] & 0xff) == key)
      return 1;
  return 0;
}

/* The keys marked ! in the row of an op, ended by 0; looked up once for each op of a text. */
static const uint8_t *vram__keys_required(vram__parser *p, uint32_t op) {
  uint8_t *known = p->required[op];
  const char *k = vram__op_at(op)->keys;
  uint32_t n = 1;
  if (*known)
    return known + 1;
  *known = 1;
  while (*k) {
    const char *end = k;
    while (*end && *end != ' ' && *end != '!')
      end++;
    if (*end == '!' && n < VRAM__REQUIRED)
      known[n++] = (uint8_t)vram__key_named(p, vram__span_of(k, end));
    while (*end && *end != ' ')
      end++;
    while (*end == ' ')
      end++;
    k = end;
  }
  return known + 1;
}

/* A key that the node must have and does not, 0: none. A weight given as an input stands for the
   required keys. */
VRAM__FN uint32_t vram__key_missing(vram__parser *p, const vram__request *r) {
  const uint8_t *key;
  if (r->nin >= 2 && (vram__op_at(r->op)->traits & VRAM__OP_WEIGHT_INPUT))
    return 0;
  for (key = vram__keys_required(p, r->op); *key; key++)
    if (!vram__keys_have(r->keys, *key))
      return *key;
  return 0;
}

/* A list of sizes, or `padding=same`. */
static int vram__key_list(vram__parser *p, uint32_t key, const vram__op_row *row, vram__span value,
                          vram__keys *keys, uint32_t *count) {
  const int many = key == VRAM__KEY_split_size_or_sections || key == VRAM__KEY_pad;
  int64_t *to = keys->words + keys->count + 1;
  if (key == VRAM__KEY_padding && vram__op_has_key(row->keys, "padding_mode")) { /* convNd */
    const int same = vram__text_is(value.text, value.len, "same");
    if (same || vram__text_is(value.text, value.len, "valid")) {
      *to = same ? VRAM__SAME : 0;
      return 1;
    }
  }
  if (!vram__parse_sizes(p, value, many ? keys->room - keys->count - 2 : VRAM_MAX_AXES, to, count))
    return 0;
  if (!*count && vram__key_table[key].kind == 'L' && key != VRAM__KEY_dim)
    return vram__parse_refuse(p, value.text, VRAM_ERR_VALUE, "an empty list", "at least one value");
  return 1;
}

/* A decimal number, or a list of them where the key is one for each axis. */
static int vram__key_decimals(vram__parser *p, uint32_t key, vram__span value, int64_t *to,
                              uint32_t *count) {
  const char *at = value.text, *const end = value.text + value.len;
  for (*count = 0;; at++) {
    const char *const begin = at;
    while (at < end && *at != ',')
      at++;
    if (*count == (key == VRAM__KEY_scale_factor ? 3 : 1))
      return vram__parse_refuse(p, begin, VRAM_ERR_VALUE, "too many values", NULL);
    if (!vram__parse_decimal(p, vram__span_of(begin, at), to + (*count)++))
      return 0;
    if (at == end)
      return 1;
  }
}

/* A node that is there: by the name of an output, or, in a graph built by calls, the latest one of
   that name. Where names alone are read, only inputs have shapes. */
static int vram__key_node(vram__parser *p, vram__span name, int64_t *to) {
  const vram_value *value = vram__symbol_find(p, name);
  const vram_node *found = value ? value->node : NULL, *n;
  for (n = p->table ? NULL : p->g->first; n; n = n->next) {
    const vram__span label = vram__node_label(n);
    if (label.len == name.len && vram__text_equal(label.text, name.text, name.len))
      found = n;
  }
  if (!found && !(value && !value->d))
    return vram__parse_error(p, VRAM_ERR_NAME, "an unknown node", name, "a node defined before");
  *to = (int64_t)(uintptr_t)found;
  return 1;
}

/* The text itself: where it is, and its length. */
static int vram__key_text(vram__parser *p, vram__span value, int64_t *to) {
  const char *text = vram__graph_keep_text(p->g, value.text, value.len);
  if (!text)
    return vram__parse_located(p, value.text);
  to[0] = (int64_t)(uintptr_t)text;
  to[1] = value.len;
  return 1;
}

/* The value of a key of that kind behind the words that there are; *count: its numbers. */
static int vram__key_value(vram__parser *p, uint32_t key, const vram__op_row *row, vram__span value,
                           vram__keys *keys, uint32_t *count) {
  int64_t *to = keys->words + keys->count + 1;
  *count = 1;
  switch (vram__key_table[key].kind) {
  case 'B':
    if (value.len != 1 || (*value.text != '0' && *value.text != '1'))
      return vram__parse_error(p, VRAM_ERR_VALUE, "not a boolean", value, "0 or 1");
    *to = *value.text - '0';
    return 1;
  case 'I':
    return vram__parse_size(p, value, 1, to);
  case 'L':
  case 'S':
    return vram__key_list(p, key, row, value, keys, count);
  case 'F':
    return vram__key_decimals(p, key, value, to, count);
  case 'W':
    *to = vram__word(value.text, value.len);
    return 1;
  case 'D':
    return vram__parse_dtype(p, value, to);
  case 'N':
    return vram__key_node(p, value, to);
  default: /* Q */
    *count = 2;
    return vram__key_text(p, value, to);
  }
}

/* One more KEY=VALUE of a node of op `op`. */
VRAM__FN int vram__key_read(vram__parser *p, uint32_t op, vram__span word, vram__keys *keys) {
  const vram__op_row *row = vram__op_at(op);
  const char *equals = word.text;
  vram__span name, value;
  uint32_t key, count;
  while (*equals != '=')
    equals++;
  name = vram__span_of(word.text, equals);
  value = vram__span_of(equals + 1, word.text + word.len);
  key = vram__key_named(p, name);
  if (key == VRAM__KEY_COUNT || !vram__op_has_key(row->keys, vram__key_table[key].name))
    return vram__parse_error(p, VRAM_ERR_NAME, "the op has no such key", name,
                             *row->keys ? row->keys : "none");
  if (vram__keys_have(keys, key))
    return vram__parse_error(p, VRAM_ERR_NAME, "a key given twice", name, NULL);
  if (keys->room - keys->count < 1 + VRAM_MAX_AXES * 2)
    return vram__parse_refuse(p, name.text, VRAM_ERR_LIMIT, "too many keys", NULL);
  if (!value.len)
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "a key without a value", value, "key=value");
  if (!vram__key_value(p, key, row, value, keys, &count))
    return 0;
  keys->words[keys->count] = (int64_t)(key | count << 8);
  keys->count += 1 + count;
  keys->words[keys->count] = 0;
  return 1;
}
