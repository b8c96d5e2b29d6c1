/* >>llama/graph_output    what a graph ends with: logits, embeddings and what is pooled of them
   (llama.cpp: src/models; llama-graph.cpp, build_pooling, build_dense_out) */
#include "llama/graph.h"

/* The output's norm; lfm2, neo-bert and t5 call it otherwise. */
static const vram_file_tensor *vram__build_output_norm(vram__build *b) {
  static const char *const names[] = {"output_norm.weight", "dec.output_norm.weight",
                                      "enc.output_norm.weight"};
  const vram_file_tensor *t = NULL;
  if (b->m->row->flags & VRAM__LLAMA_NORM_OUT)
    return vram__build_global(b, "token_embd_norm.weight");
  for (uint32_t i = 0; i < sizeof names / sizeof *names && !t; i++)
    t = vram__build_global(b, names[i]);
  return t;
}

/* Embeddings: what is behind the output's norm. */
static int32_t vram__build_embeddings(vram__build *b, int32_t x) {
  const vram_file_tensor *weight = vram__build_output_norm(b);
  const vram_file_tensor *bias = vram__build_global(b, "output_norm.bias");
  if (weight || (b->flags & VRAM__BUILD_NO_WEIGHTS)) {
    x = vram__build_map(b, x, -1);
    if (b->flags & VRAM__BUILD_MEAN)
      vram__build_at(b, x)->flags = 0;
  }
  if (weight)
    x = vram__build_with(b, vram__build_map(b, x, -1), weight);
  if (bias)
    x = vram__build_with(b, vram__build_map(b, x, -1), bias);
  vram__build_at(b, x)->flags |= VRAM__NODE_OUTPUT;
  return x;
}

/* A global matrix times a, and a bias if the model has one. */
static int32_t vram__build_matrix(vram__build *b, int32_t a, const char *name, const char *bias) {
  const vram_file_tensor *t = vram__build_global(b, name), *add = vram__build_global(b, bias);
  if (t) {
    int32_t i = vram__build_node(b, vram__build_width(t), vram__build_at(b, a)->ne[1], 1, -1);
    vram__build_multiply(b, i, t);
    vram__build_source(b, i, a);
    a = i;
  }
  return add ? vram__build_with(b, vram__build_map(b, a, -1), add) : a;
}

/* chameleon: logits again, with those of 8192 words of images set. */
static int32_t vram__build_without_images(vram__build *b, int32_t x) {
  const vram__graph_node *n = vram__build_at(b, x);
  const int32_t set = vram__build_input(b, UINT64_C(8192) * 4);
  int32_t i = vram__build_node(b, n->ne[0], n->ne[1], 1, x);
  vram__build_at(b, set)->flags = VRAM__NODE_LEAF;
  vram__build_at(b, set)->buffer = vram__build_at(b, x)->buffer;
  vram__build_source(b, i, vram__build_view(b, set, 1, 1, 1));
  return i;
}

static int32_t vram__build_logits(vram__build *b, int32_t x) {
  if (b->flags & VRAM__BUILD_SCALE_NORM)
    x = vram__build_map(b, x, -1);
  x = vram__build_matrix(
      b, x, vram__build_global(b, "output.weight") ? "output.weight" : "token_embd.weight",
      "output.bias");
  if (b->flags & VRAM__BUILD_SCALE_LOGITS)
    x = vram__build_map(b, x, -1);
  if (b->flags & VRAM__BUILD_SET_LOGITS)
    x = vram__build_without_images(b, x);
  vram__build_at(b, x)->flags |= VRAM__NODE_OUTPUT;
  return x;
}

/* ---- pooling ---- */

/* The mean of each sequence's rows, or one row of each. */
static int32_t vram__build_of_sequences(vram__build *b, int32_t x, int is_mean) {
  const uint64_t width = vram__build_at(b, x)->ne[0], rows = vram__build_at(b, x)->ne[1];
  int32_t i;
  if (!is_mean) {
    i = vram__build_node(b, width, b->m->n_seq, 1, x);
    vram__build_source(b, i, vram__build_input(b, (uint64_t)b->m->n_seq * 4));
    return i;
  }
  if (rows != b->tokens)
    b->g->is_given_up = 1; /* llama.cpp stops */
  i = vram__build_node(b, rows, width, 1, vram__build_view(b, x, rows, width, 1));
  i = vram__build_node(b, width, b->m->n_seq, 1, i);
  vram__build_source(b, i,
                     vram__build_input(b, vram__product_or_overflow(b->tokens * 4, b->m->n_seq)));
  return i;
}

/* A reranker's score of each sequence. */
static int32_t vram__build_rank(vram__build *b, int32_t x) {
  const vram_file_tensor *norm = vram__build_global(b, "cls.norm.weight");
  const int is_modern = vram__text_is(b->m->arch, b->m->arch_len, "modern-bert");
  const double said = vram__llama_real(b->m, "classifier.pooling_type");
  const int mean = VRAM_LLAMA_POOLING_MEAN - 1; /* as files number it */
  x = vram__build_of_sequences(b, x, said > 0 ? said >= mean && said < mean + 1 : is_modern);
  if (vram__build_global(b, "cls.weight")) {
    x = vram__build_map(b, vram__build_matrix(b, x, "cls.weight", "cls.bias"), -1);
    if (norm) {
      x = vram__build_map(b, x, -1);
      vram__build_at(b, x)->flags = 0;
      x = vram__build_with(b, vram__build_map(b, x, -1), norm);
    }
  }
  if (vram__build_global(b, "cls.output.weight"))
    x = vram__build_matrix(b, x, "cls.output.weight", "cls.output.bias");
  if (vram__text_is(b->m->arch, b->m->arch_len, "qwen3") ||
      vram__text_is(b->m->arch, b->m->arch_len, "qwen3vl"))
    x = vram__build_map(b, x, -1);
  return x;
}

static vram_llama_pooling vram__build_pooling(const vram__llama *m) {
  const vram_file_value *said = vram__llama_get(m, "pooling_type");
  if (m->options->pooling)
    return m->options->pooling;
  return said && said->number.u <= 4 ? (vram_llama_pooling)(said->number.u + 1)
                                     : VRAM_LLAMA_POOLING_NONE;
}

static void vram__build_pool(vram__build *b, int32_t x) {
  const vram_llama_pooling how = vram__build_pooling(b->m);
  if (how == VRAM_LLAMA_POOLING_RANK)
    x = vram__build_rank(b, x);
  else if (how != VRAM_LLAMA_POOLING_NONE)
    x = vram__build_of_sequences(b, x, how == VRAM_LLAMA_POOLING_MEAN);
  x = vram__build_matrix(b, x, "dense_2.weight", "dense_2.bias");
  x = vram__build_matrix(b, x, "dense_3.weight", "");
  vram__build_at(b, x)->flags |= VRAM__NODE_OUTPUT;
  vram__build_expand(b, x);
}

VRAM__FN void vram__build_end(vram__build *b, int32_t x) {
  const int has_logits =
      !(b->m->row->flags & VRAM__LLAMA_NO_OUTPUT) && !(b->flags & VRAM__BUILD_NO_LOGITS);
  int32_t end;
  b->device = b->m->output_device < 0 ? b->host : b->m->output_device;
  x = vram__build_embeddings(b, x);
  if (b->flags & VRAM__BUILD_ROWS_NORM) {
    x = vram__build_rows_of(b, x);
    vram__build_at(b, x)->flags |= VRAM__NODE_OUTPUT;
  }
  end = has_logits ? vram__build_logits(b, x) : x;
  vram__build_expand(b, end);
  if (b->m->options->embeddings)
    vram__build_pool(b, x);
}
