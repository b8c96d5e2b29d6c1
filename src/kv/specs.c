/* >>kv/specs    the kinds of layers of a model, as one rank of a serving engine has them */
#include "kv/serve.h"

VRAM__FN VRAM__COLD vram_result vram__serve_fail(vram__serve *s, vram_result code,
                                                 const char *text) {
  vram__error_begin(s->e, code, 0, vram_engine_name(s->o->engine));
  vram__error_text(s->e, ": ");
  vram__error_text(s->e, text);
  return code;
}

/* Bytes of one block of one layer. */
VRAM__FN vram_result vram__spec_page(vram__serve *s, vram__spec *p) {
  const vram_result code = vram_kv_layer_bytes(&p->row, p->block, &p->page);
  if (code)
    return vram__serve_fail(s, code, vram_result_text(code));
  return p->page ? VRAM_OK : vram__serve_fail(s, VRAM_ERR_VALUE, "a layer that keeps no bytes");
}

/* They take the same blocks. */
static int vram__spec_is_equal(const vram__spec *a, const vram__spec *b) {
  const vram_kv_layer *x = &a->row, *y = &b->row;
  uint32_t i;
  if (x->kind != y->kind || a->block != b->block || a->page != b->page)
    return 0;
  if (x->kind == VRAM_KV_STATE) {
    if (x->nstate != y->nstate)
      return 0;
    for (i = 0; i < x->nstate; i++)
      if (x->state[i] != y->state[i] || x->state_elements[i] != y->state_elements[i])
        return 0;
    return 1;
  }
  return x->heads == y->heads && x->k_dim == y->k_dim && x->v_dim == y->v_dim && x->k == y->k &&
         x->v == y->v && (!vram__kv_has_window(x->kind) || x->window == y->window);
}

VRAM__FN void vram__spec_merge(vram__serve *s) {
  uint32_t i, j, n = 0;
  for (i = 0; i < s->nspec; i++) {
    for (j = 0; j < n && !vram__spec_is_equal(&s->spec[j], &s->spec[i]); j++) {
    }
    if (j < n)
      s->spec[j].count += s->spec[i].count;
    else
      s->spec[n++] = s->spec[i];
  }
  s->nspec = n;
}

static int vram__dtype_is_plain(vram_dtype dtype) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  return info && info->block_elements == 1;
}

/* A row of the model as one rank has it: heads are shared, and copied where there are fewer of them
   than ranks; latent rows are copied; states are shared. */
VRAM__FN vram_result vram__spec_add(vram__serve *s, const vram_kv_layer *l) {
  vram__spec *p;
  uint32_t i;
  if (l->kind == VRAM_KV_NONE || !l->count)
    return VRAM_OK;
  if (s->nspec == VRAM_SERVE_MAX_ROWS || l->count > VRAM__SERVE_LAYERS)
    return vram__serve_fail(s, VRAM_ERR_LIMIT, "too many layers or kinds of them");
  p = &s->spec[s->nspec];
  p->row = *l;
  p->count = l->count;
  p->block = l->kind == VRAM_KV_STATE ? 0 : s->block;
  if (l->kind == VRAM_KV_STATE) {
    for (i = 0; i < l->nstate && i < VRAM_KV_MAX_STATES; i++)
      p->row.state_elements[i] = vram__div_up_u64(l->state_elements[i], s->tp);
  } else {
    p->row.heads = l->heads > s->tp ? (uint32_t)(l->heads / s->tp) : 1;
    if (s->o->cache != VRAM_DTYPE_NONE)
      p->row.k = p->row.v = s->o->cache;
    if (!vram__dtype_is_plain(p->row.k) ||
        (l->kind != VRAM_KV_LATENT && !vram__dtype_is_plain(p->row.v)))
      return vram__serve_fail(s, VRAM_ERR_DTYPE, "keeps caches in plain dtypes only");
  }
  s->nspec++;
  return vram__spec_page(s, p);
}

VRAM__FN int vram__serve_has(const vram__serve *s, vram_kv_kind kind) {
  uint32_t i;
  for (i = 0; i < s->nspec && s->spec[i].row.kind != kind; i++) {
  }
  return i < s->nspec;
}

/* Does a layer attend to all tokens? */
VRAM__FN int vram__serve_attends(const vram__serve *s) {
  return vram__serve_has(s, VRAM_KV_FULL) || vram__serve_has(s, VRAM_KV_LATENT);
}

/* One group: how many layers, of that kind. */
VRAM__FN void vram__serve_group(vram__serve *s, const vram__spec *p, uint64_t layers,
                                uint64_t bytes, uint64_t blocks) {
  vram_serve_report *r = s->r;
  if (r->ngroup < VRAM_SERVE_MAX_GROUPS) {
    vram_serve_group *g = &r->group[r->ngroup++];
    g->kind = p->row.kind;
    g->layers = (uint32_t)layers;
    g->block = p->block;
    g->page_bytes = p->page;
    g->bytes = bytes;
    g->blocks_per_request = blocks;
  }
  r->groups++;
  r->blocks_per_request = vram__sum_or_overflow(r->blocks_per_request, blocks);
  if (bytes > r->block_bytes)
    r->block_bytes = bytes;
}
