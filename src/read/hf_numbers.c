/* >>read/hf_numbers    config.json as a model in the text form: sizes of latent attention, of
   groups of experts and of state spaces, for the letters of their lines */
#include "read/read.h"

static void vram__hf_put_number(vram__hf_pen *w, char letter, uint64_t number) {
  *vram__hf_number_of(w, letter) = number;
}

/* hf_lines_latent.c: a and c the latents of queries and of keys and values, j what of a head is
   rotated and y what is not, f a value, d a query, b and x what one matrix gives for both */
static void vram__hf_latent_numbers(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  const uint64_t pass = vram__hf_number(&w->h, "qk_nope_head_dim", 128),
                 d = pass + c->rope_head_dim;
  vram__hf_put_number(w, 'a', c->q_lora_rank);
  vram__hf_put_number(w, 'c', c->kv_lora_rank);
  vram__hf_put_number(w, 'j', c->rope_head_dim);
  vram__hf_put_number(w, 'r', c->rope_head_dim / 2);
  vram__hf_put_number(w, 'y', pass);
  vram__hf_put_number(w, 'f', c->v_head_dim);
  vram__hf_put_number(w, 'd', d);
  vram__hf_put_number(w, 'Q', c->heads * d);
  vram__hf_put_number(w, 'x', c->kv_lora_rank + c->rope_head_dim);
  vram__hf_put_number(w, 'b', pass + c->v_head_dim);
  vram__hf_put_number(w, 'B', c->heads * (pass + c->v_head_dim));
  vram__hf_put_number(w, 'O', c->heads * c->v_head_dim);
  *vram__hf_flag_of(w, 'C') = c->q_lora_rank != 0;
  *vram__hf_flag_of(w, 'I') =
      (uint8_t)vram__hf_bool(&w->h, "rope_interleave", *vram__hf_flag_of(w, 'I'));
  if (c->kv_heads != c->heads)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE,
                  "latent attention with fewer heads of keys: ", "num_key_value_heads");
  if (!c->kv_lora_rank || !c->rope_head_dim || c->rope_head_dim % 2 || !pass || !c->v_head_dim)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no latent attention has such sizes of ",
                  "a latent or a head");
}

/* Routers that take the best groups first: G groups of E experts, U of them for a token; s: the
   width of what all tokens go through. */
static void vram__hf_group_numbers(vram__hf_pen *w) {
  static const struct {
    const char *type;
    uint8_t groups, used;
  } none[] = {{"deepseek_v3", 8, 4}, {"", 1, 1}};
  const vram_hf_config *const c = &w->c;
  uint32_t i = 0;
  uint64_t groups, used;
  while (*none[i].type && !vram__text_is(c->family, vram__text_len(c->family), none[i].type))
    i++;
  groups = vram__hf_number(&w->h, "n_group", none[i].groups);
  used = vram__hf_number(&w->h, "topk_group", none[i].used);
  if (!groups || c->experts % groups || c->experts / groups < 2 || !used || used > groups) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no model has so many ", "groups of experts");
    return;
  }
  vram__hf_put_number(w, 'G', groups);
  vram__hf_put_number(w, 'E', c->experts / groups);
  vram__hf_put_number(w, 'U', used);
  *vram__hf_flag_of(w, '6') = groups == 1;
}

VRAM__FN void vram__hf_numbers_of_parts(vram__hf_pen *w) {
  vram__hf *const h = &w->h;
  if (vram__hf_has(h, VRAM__HF_MLA))
    vram__hf_latent_numbers(w);
  if (vram__hf_has(h, VRAM__HF_CORRECTION))
    vram__hf_group_numbers(w);
  vram__hf_put_number(w, 's', vram__hf_shared_width(h));
}
