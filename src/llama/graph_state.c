/* >>llama/graph_state    layers with a recurrent state: mamba, mamba2, short convolutions
   (llama.cpp: src/models/mamba-base.cpp, lfm2.cpp; llama-graph.cpp, build_rs) */
#include "llama/graph.h"

/* The rows of the sequences that are computed, and those (none, in the worst graph) that are only
   kept. */
static void vram__build_states(vram__build *b) {
  int32_t all;
  if (b->states >= 0)
    return;
  all = vram__build_input(b, (uint64_t)b->m->n_seq * 4);
  b->states = vram__build_view(b, all, b->m->n_seq, 1, 1);
  b->states_extra = vram__build_view(b, all, 0, 1, 1);
}

/* The states of a layer. One of them is cleared first. */
static int32_t vram__build_clear(vram__build *b, uint64_t width) {
  int32_t all = vram__build_cached(b, VRAM_F32, width, b->m->n_seq);
  vram__build_foreign(b, all, -1);
  return all;
}

/* Rows that are only kept are copied behind the result, which is computed first. */
static void vram__build_keep(vram__build *b, int32_t result, int32_t all, uint64_t width) {
  int32_t i;
  vram__build_expand(b, result);
  i = vram__build_node(b, width, 0, 1, all);
  vram__build_source(b, i, b->states_extra);
  vram__build_foreign(b, i, -1);
}

/* The states that are computed from, as the sequences have them (build_rs). */
VRAM__FN int32_t vram__build_state(vram__build *b, uint64_t width) {
  int32_t all, state;
  vram__build_states(b);
  all = vram__build_clear(b, width);
  state = vram__build_node(b, width, b->m->n_seq, 1, all);
  vram__build_source(b, state, b->states);
  vram__build_keep(b, state, all, width);
  return state;
}

/* The state of a convolution, the new columns behind it; the last columns are the next state. */
static int32_t vram__build_columns(vram__build *b, int32_t x, uint64_t kernel) {
  const uint64_t width = vram__build_at(b, x)->ne[0], tokens = vram__build_each(b);
  int32_t state = vram__build_state(b, b->m->n_embd_r), i;
  state = vram__build_view(b, state, kernel - 1, width, b->m->n_seq);
  x = vram__build_view(b, x, tokens, width, b->m->n_seq);
  i = vram__build_node(b, kernel - 1 + tokens, width, b->m->n_seq, state);
  vram__build_source(b, i, x);
  vram__build_foreign(b, vram__build_view(b, i, kernel - 1, width, b->m->n_seq), -1);
  return i;
}

/* Convolution, its bias, SiLU: [width, tokens of a sequence, sequences]. */
VRAM__FN int32_t vram__build_convolve(vram__build *b, int32_t x) {
  const uint64_t width = vram__build_at(b, x)->ne[0];
  int32_t i = vram__build_columns(b, x, b->m->ssm_d_conv);
  i = vram__build_with(b, vram__build_node(b, width, vram__build_each(b), b->m->n_seq, i),
                       vram__build_weight(b, "ssm_conv1d.weight"));
  i = vram__build_bias(b, i, "ssm_conv1d.bias");
  return vram__build_map(b, i, -1);
}

/* plamo2 takes A and D in another shape, which do not say then where they are computed. */
static int vram__build_is_reshaped(const vram__build *b) {
  const vram_file_tensor *t = vram__build_weight(b, "ssm_a");
  return t && t->ndim == 1;
}

/* Has ggml-cuda a kernel of the scan of mamba2? That of mamba is asked for with A's buffer. */
static int vram__build_has_scan(const vram__build *b) {
  const uint64_t state = b->m->ssm_d_state, heads = b->m->ssm_dt_rank;
  return (state == 96 || state == 128 || state == 256) && heads &&
         b->m->ssm_d_inner / heads % 16 == 0;
}

/* What a scan is computed from. */
typedef struct vram__build_scanned {
  int32_t x, dt, b, c;
} vram__build_scanned;

/* The scan's outputs, behind them the states, which are stored. */
static int32_t vram__build_scan(vram__build *b, const vram__build_scanned *s) {
  const uint64_t inner = b->m->ssm_d_inner, tokens = vram__build_each(b);
  const uint64_t states = vram__product_or_overflow(b->m->n_embd_s, b->m->n_seq);
  const uint64_t outputs =
      vram__product_or_overflow(vram__product_or_overflow(inner, tokens), b->m->n_seq);
  const int32_t all = vram__build_clear(b, b->m->n_embd_s);
  int32_t i = vram__build_node(b, vram__sum_or_overflow(outputs, states), 1, 1,
                               vram__build_cached(b, VRAM_F32, b->m->n_embd_s, b->m->n_seq));
  vram__build_source(b, i, s->x);
  vram__build_source(b, i, s->dt);
  if (vram__build_is_reshaped(b)) {
    vram__build_source(b, i, vram__build_reshaped(b, vram__build_weight(b, "ssm_a")));
    if (!vram__build_has_scan(b))
      vram__build_at(b, i)->flags |= VRAM__NODE_ON_HOST;
  } else {
    vram__build_with(b, i, vram__build_weight(b, "ssm_a"));
  }
  vram__build_source(b, i, s->b);
  vram__build_source(b, i, s->c);
  vram__build_source(b, i, b->states);
  vram__build_keep(b, i, all, b->m->n_embd_s);
  vram__build_foreign(b, vram__build_view(b, i, states, 1, 1), -1);
  return vram__build_piece(b, i, inner, tokens, b->m->n_seq);
}

/* The outputs, x times D added, times SiLU of z. */
static int32_t vram__build_gate(vram__build *b, int32_t y, int32_t x, int32_t z) {
  const vram__graph_node *n = vram__build_at(b, x);
  const uint64_t n0 = n->ne[0], n1 = n->ne[1], n2 = n->ne[2];
  y = vram__build_view(b, y, n0, n1, n2);
  if (vram__build_is_reshaped(b))
    x = vram__build_map(b, x, vram__build_reshaped(b, vram__build_weight(b, "ssm_d")));
  else
    x = vram__build_with(b, vram__build_map(b, x, -1), vram__build_weight(b, "ssm_d"));
  y = vram__build_map(b, y, x);
  z = vram__build_node(b, n0, n1, n2, z);
  return vram__build_glu(b, z, y, n0);
}

static int32_t vram__build_slice(vram__build *b, int32_t a, uint64_t width) {
  return vram__build_view(b, a, width, vram__build_each(b), b->m->n_seq);
}

VRAM__FN int32_t vram__build_mamba(vram__build *b, int32_t x) {
  const uint64_t inner = b->m->ssm_d_inner, state = b->m->ssm_d_state;
  int32_t xz, z, all;
  vram__build_scanned s;
  x = vram__build_slice(b, x, vram__build_at(b, x)->ne[0]);
  xz = vram__build_linear(b, x, "ssm_in.weight", NULL);
  z = vram__build_slice(b, xz, inner);
  x = vram__build_convolve(b, vram__build_slice(b, xz, inner));
  all = vram__build_linear(b, x, "ssm_x.weight", NULL);
  s.dt = vram__build_slice(b, all, b->m->ssm_dt_rank);
  s.b = vram__build_slice(b, all, state);
  s.c = vram__build_slice(b, all, state);
  s.dt = vram__build_norm(b, s.dt, "ssm_dt_norm.weight", NULL);
  s.b = vram__build_norm(b, s.b, "ssm_b_norm.weight", NULL);
  s.c = vram__build_norm(b, s.c, "ssm_c_norm.weight", NULL);
  s.dt = vram__build_linear(b, s.dt, "ssm_dt.weight", "ssm_dt.bias");
  s.x = vram__build_slice(b, x, inner);
  x = vram__build_gate(b, vram__build_scan(b, &s), x, z);
  x = vram__build_linear(b, x, "ssm_out.weight", NULL);
  return vram__build_view(b, x, vram__build_at(b, x)->ne[0], b->tokens, 1);
}

VRAM__FN int32_t vram__build_mamba2(vram__build *b, int32_t x) {
  const uint64_t inner = b->m->ssm_d_inner;
  const uint64_t groups = b->m->ssm_n_group, shared = groups * b->m->ssm_d_state;
  const uint64_t heads = b->m->ssm_dt_rank;
  int32_t all, z;
  vram__build_scanned s;
  all = vram__build_linear(b, x, "ssm_in.weight", NULL);
  all = vram__build_slice(b, all, vram__build_at(b, all)->ne[0]);
  z = vram__build_slice(b, all, inner);
  s.dt = vram__build_slice(b, all, b->m->ssm_dt_rank);
  x = vram__build_convolve(b, vram__build_slice(b, all, inner + 2 * shared));
  s.x = vram__build_slice(b, x, inner);
  s.b = vram__build_slice(b, x, shared);
  s.c = vram__build_slice(b, x, shared);
  s.dt = vram__build_node(b, b->m->ssm_dt_rank, vram__build_each(b), b->m->n_seq, s.dt);
  s.dt = vram__build_bias(b, s.dt, "ssm_dt.bias");
  s.x = vram__build_view(b, s.x, heads ? inner / heads : 0, heads, b->tokens); /* heads apart */
  x = vram__build_gate(b, vram__build_scan(b, &s), s.x, z);
  if (vram__build_weight(b, "ssm_norm.weight"))
    x = vram__build_norm(b, vram__build_view(b, x, groups ? inner / groups : 0, groups, b->tokens),
                         "ssm_norm.weight", NULL);
  x = vram__build_view(b, x, inner, b->tokens, 1);
  return vram__build_linear(b, x, "ssm_out.weight", NULL);
}

/* The input is sorted by heads first; B, C and dt are made of it as mamba's are, with norms. */
VRAM__FN int32_t vram__build_plamo2(vram__build *b, int32_t x) {
  const uint64_t inner = b->m->ssm_d_inner, state = b->m->ssm_d_state, heads = b->m->ssm_dt_rank;
  const uint64_t head = heads ? inner / heads : 0, each = vram__build_each(b);
  const vram_file_tensor *dt = vram__build_weight(b, "ssm_dt.weight");
  int32_t all, z;
  vram__build_scanned s;
  x = vram__build_slice(b, x, vram__build_at(b, x)->ne[0]);
  all = vram__build_linear(b, x, "ssm_in.weight", NULL);
  all = vram__build_view(b, all, 2 * inner, b->m->n_seq, each);
  all = vram__build_node(b, 2 * head, heads, b->tokens, all);
  x = vram__build_node(b, inner, each, b->m->n_seq,
                       vram__build_view(b, all, head, heads, b->tokens));
  z = vram__build_view(b, all, head, heads, b->tokens);
  x = vram__build_convolve(b, x);
  all = vram__build_linear(b, x, "ssm_x.weight", NULL);
  s.b = vram__build_norm(b, vram__build_slice(b, all, state), "ssm_b_norm", NULL);
  s.c = vram__build_norm(b, vram__build_slice(b, all, state), "ssm_c_norm", NULL);
  s.dt = vram__build_slice(b, all, dt ? vram__llama_columns(dt) : 0);
  s.dt = vram__build_norm(b, s.dt, "ssm_dt_norm", NULL);
  s.dt = vram__build_linear(b, s.dt, "ssm_dt.weight", "ssm_dt.bias");
  s.x = vram__build_view(b, x, head, heads, b->tokens);
  s.b = vram__build_view(b, s.b, state, 1, b->tokens);
  s.c = vram__build_view(b, s.c, state, 1, b->tokens);
  x = vram__build_gate(b, vram__build_scan(b, &s), s.x, z);
  x = vram__build_view(b, x, inner, each, b->m->n_seq);
  x = vram__build_linear(b, x, "ssm_out.weight", NULL);
  return vram__build_view(b, x, vram__build_at(b, x)->ne[0], b->tokens, 1);
}

/* falcon-h1: attention and a scan on the same input, normed for each. */
VRAM__FN int32_t vram__build_beside_state(vram__build *b, int32_t x, int is_last) {
  static const char norm[] = "ffn_norm"; /* without ".weight" */
  int32_t i = vram__build_attention(b, vram__build_norm(b, x, "attn_norm.weight", NULL));
  i = vram__build_map(b, i,
                      vram__build_mamba2(b, vram__build_norm(b, x, "attn_norm.weight", NULL)));
  x = vram__build_map(b, i, x);
  vram__build_last_rows(b, is_last, &x, NULL, NULL);
  i = vram__build_norm(b, x, vram__build_weight(b, norm) ? norm : "ffn_norm.weight", NULL);
  return vram__build_map(b, vram__build_forward(b, i, -1), x);
}

VRAM__FN int32_t vram__build_shortconv(vram__build *b, int32_t x) {
  const uint64_t width = vram__build_at(b, x)->ne[0];
  int32_t all, i, c;
  x = vram__build_slice(b, x, width);
  all = vram__build_linear(b, x, "shortconv.in_proj.weight", NULL);
  c = vram__build_slice(b, all, width);
  x = vram__build_slice(b, all, width);
  i = vram__build_map(b, vram__build_slice(b, all, width), x);
  i = vram__build_columns(b, i, b->m->shortconv_l_cache);
  i = vram__build_with(b, vram__build_node(b, width, vram__build_each(b), b->m->n_seq, i),
                       vram__build_weight(b, "shortconv.conv.weight"));
  i = vram__build_map(b, c, i);
  i = vram__build_linear(b, i, "shortconv.out_proj.weight", NULL);
  return vram__build_view(b, i, width, b->tokens, 1);
}
