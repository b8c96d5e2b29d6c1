/* >>write/cells    the live set as cells, each of one category */
#include "write/write.h"

/* a * b / c, where a <= c and b < 2^25; bits beyond 38 are lost */
VRAM__FN uint64_t vram__share(uint64_t a, uint64_t b, uint64_t c) {
  while (c >> 38) {
    a >>= 1;
    c >>= 1;
  }
  return c ? a * b / c : 0;
}

/* by category and what they share */
static int vram__cell_by_key(const vram__cell *a, const vram__cell *b) {
  const uint32_t i = a->node ? a->node->index : 0, j = b->node ? b->node->index : 0;
  return a->cat != b->cat ? a->cat < b->cat : a->key != b->key ? a->key < b->key : i < j;
}

/* the largest first, the rest last */
static int vram__cell_by_size(const vram__cell *a, const vram__cell *b) {
  if (a->cat != b->cat)
    return a->cat < b->cat;
  if ((a->kind == VRAM__CELL_REST) != (b->kind == VRAM__CELL_REST))
    return b->kind == VRAM__CELL_REST;
  return a->bytes != b->bytes ? a->bytes > b->bytes : vram__cell_by_key(a, b);
}

/* Heap sort: needs no memory and no recursion. */
static void vram__cell_sort(vram__cell *c, uint32_t n,
                            int (*before)(const vram__cell *, const vram__cell *)) {
  uint32_t start = n / 2, end = n;
  while (end > 1) {
    uint32_t at, child;
    vram__cell x;
    if (start)
      x = c[--start];
    else {
      x = c[--end];
      c[end] = c[0];
    }
    for (at = start; (child = 2 * at + 1) < end; at = child) {
      child += child + 1 < end && before(&c[child], &c[child + 1]);
      if (!before(&x, &c[child]))
        break;
      c[at] = c[child];
    }
    c[at] = x;
  }
}

/* What tensors of a cell share at this level: 0 the whole name, 1 the op, d + 1 the first d parts
   of the name. Returns how many parts the name has. */
static uint32_t vram__cell_key(vram__cell *c, uint32_t level) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  uint32_t i, len, parts = 1;
  len = vram__node_text(c->node, name, sizeof name);
  for (i = 0; i < len; i++) {
    if (i && (name[i] == '.' || name[i] == '[') && ++parts == level)
      break;
    hash = (hash ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
  }
  c->len = (uint16_t)i;
  c->key = level == 1 ? c->node ? c->node->op : UINT64_MAX : hash;
  return parts;
}

/* Groups what is live: nodes with large tensors stand alone, the small ones go together by module,
   then by op, then by category. Returns how many cells there are. */
VRAM__FN uint32_t vram__cells(vram__cell *c, const vram_live *live, uint32_t n, uint64_t least) {
  uint32_t done = 0, level = 0, parts = 1, i, k;
  for (i = 0; i < n; i++) {
    vram__memory_zero(&c[i], sizeof c[i]);
    c[i].bytes = live[i].bytes;
    c[i].node = live[i].node;
    c[i].cat = (uint8_t)vram__category_of(live[i].category);
    c[i].count = 1;
  }
  for (;;) {
    for (i = done; i < n; i++) {
      k = vram__cell_key(&c[i], level);
      if (!level && k > parts)
        parts = k < 8 ? k : 8;
    }
    vram__cell_sort(c + done, n - done, vram__cell_by_key);
    for (i = done; i < n; i = k) {
      vram__cell sum = c[i];
      for (k = i + 1; k < n && c[k].cat == sum.cat && c[k].key == sum.key; k++) {
        sum.bytes = vram__sum_or_overflow(sum.bytes, c[k].bytes);
        sum.count++;
      }
      if (sum.bytes < least || (level == 1 && !sum.node))
        continue;
      sum.kind = (uint8_t)(level > 1    ? VRAM__CELL_PREFIX
                           : level == 1 ? VRAM__CELL_OP
                                        : VRAM__CELL_NODE);
      /* the cell stands where its first tensor was, the others go */
      c[i] = c[done];
      c[done++] = sum;
      {
        const uint32_t gone = k - i - 1;
        uint32_t m;
        for (m = k; m < n; m++)
          c[m - gone] = c[m];
        n -= gone;
        k -= gone;
      }
    }
    if (level == 1)
      break;
    level = level ? level - 1 : parts;
  }
  vram__cell_sort(c + done, n - done, vram__cell_by_key);
  for (i = k = done; i < n; i++)
    if (k > done && c[k - 1].cat == c[i].cat) {
      c[k - 1].bytes = vram__sum_or_overflow(c[k - 1].bytes, c[i].bytes);
      c[k - 1].count++;
      c[k - 1].kind = VRAM__CELL_REST;
    } else {
      c[k] = c[i];
      vram__cell_key(&c[k], 0);
      c[k++].kind = VRAM__CELL_NODE;
    }
  vram__cell_sort(c, k, vram__cell_by_size);
  return k;
}

/* Squarified areas (Bruls, Huizing, van Wijk): n cells, the largest first, fill the rectangle of
   `in`. Rows are laid along its shorter side, each as long as that makes its cells squarer. */
VRAM__FN void vram__squarify(vram__cell *c, uint32_t n, const vram__cell *in) {
  int x = in->x, y = in->y, w = in->w, h = in->h;
  uint64_t left = 0;
  uint32_t i, k, first = 0;
  for (i = 0; i < n; i++)
    left = vram__sum_or_overflow(left, c[i].bytes);
  while (first < n) {
    const int wide = w > h;
    const uint64_t side = (uint64_t)(wide ? h : w), area = (uint64_t)w * (uint64_t)h;
    const uint64_t most = vram__share(c[first].bytes, area, left);
    uint64_t sum = 0, bytes = 0, worst = UINT64_MAX;
    int at = 0, thick;
    for (k = first; k < n; k++) {
      const uint64_t one = vram__share(c[k].bytes, area, left), s = sum + one;
      uint64_t longest = UINT64_MAX, other;
      if (one && side) { /* the worse of the two extremes, in 1/1024 */
        longest = side * side * most / s * 1024 / s;
        other = s * 1024 / (side * side) * s / one;
        longest = longest > other ? longest : other;
      }
      if (k > first && longest >= worst)
        break;
      worst = longest;
      sum = s;
      bytes += c[k].bytes;
    }
    thick = side ? (int)((sum + side / 2) / side) : 0;
    if (k == n || thick > (wide ? w : h))
      thick = wide ? w : h;
    for (sum = 0; first < k; first++) {
      int to;
      sum += c[first].bytes;
      to = first + 1 == k ? (int)side : (int)vram__share(sum, side, bytes);
      c[first].x = wide ? x : x + at;
      c[first].y = wide ? y + at : y;
      c[first].w = wide ? thick : to - at;
      c[first].h = wide ? to - at : thick;
      at = to;
    }
    left -= bytes;
    *(wide ? &x : &y) += thick;
    *(wide ? &w : &h) -= thick;
  }
}
