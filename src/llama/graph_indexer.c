/* >>llama/graph_indexer    which cells each token attends to: deepseek32, glm-dsa
   (llama.cpp: src/models/deepseek32.cpp; llama-graph.cpp, build_attn of llm_graph_input_attn_k_dsa)
 */
#include "llama/graph.h"

/* Has ggml-cuda a kernel of the scores (ggml_cuda_lightning_indexer_supported)? */
static int vram__build_has_indexer(uint64_t head, uint64_t heads, vram_dtype type) {
  return head == 128 && (heads == 32 || heads == 64) && type != VRAM_IQ4_NL;
}

/* Rotated, as caches of indexers always are. */
static int32_t vram__build_index_part(vram__build *b, int32_t a, uint64_t head, uint64_t heads) {
  int32_t i;
  a = vram__build_rope(b, vram__build_view(b, a, head, heads, b->tokens));
  if (b->index_rotation < 0) {
    uint64_t n = 64;
    while (head % (n * 2) == 0)
      n *= 2;
    b->index_rotation = vram__build_input(b, n * n * 4);
  }
  i = vram__build_node(b, head, heads, b->tokens, b->index_rotation);
  vram__build_source(b, i, a);
  return i;
}

/* Scores of all cells for each token; the best are chosen. `latent`: Q before its last matrix. A
   layer without an indexer has what the one before it chose. */
VRAM__FN void vram__build_index(vram__build *b, int32_t x, int32_t latent) {
  const int32_t c = b->m->layer[b->il].cache + 1; /* that of the indexer is the next */
  const vram_file_tensor *t = vram__build_weight(b, "indexer.attn_q_b.weight");
  const double top = vram__llama_real(b->m, "attention.indexer.top_k");
  const uint64_t head = b->m->indexer_head_size;
  uint64_t heads, cells, streams, each, most;
  int32_t q, k, w, i;
  if (!t || !vram__llama_is_indexed(b->m, b->il))
    return;
  if (!head || c + 1 != (int32_t)b->m->ncache) {
    b->g->is_given_up = 1; /* no cache of an indexer, or not behind that of the layer */
    return;
  }
  heads = vram__build_width(t) / head;
  cells = b->m->cache[c].cells;
  streams = b->m->cache[c].streams;
  each = streams ? b->tokens / streams : 0;
  q = vram__build_linear(b, latent, "indexer.attn_q_b.weight", NULL);
  q = vram__build_index_part(b, q, head, heads);
  k = vram__build_linear(b, x, "indexer.attn_k.weight", NULL);
  b->flags |= VRAM__BUILD_MEAN;
  k = vram__build_norm(b, k, "indexer.k_norm.weight", "indexer.k_norm.bias");
  b->flags &= ~VRAM__BUILD_MEAN;
  k = vram__build_index_part(b, k, head, 1);
  if (b->k_index[c] < 0)
    b->k_index[c] = vram__build_input(b, b->tokens * 8);
  vram__build_foreign(b, vram__build_view(b, k, head, b->tokens, 1), b->k_index[c]);
  w = vram__build_linear(b, x, "indexer.proj.weight", NULL);
  w = vram__build_map(b, vram__build_view(b, w, heads, each, streams), -1);
  i = vram__build_node(b, cells, each, streams,
                       vram__build_view(b, q, head, heads * each, streams));
  vram__build_source(
      b, i, vram__build_cached(b, b->m->k_type, head, vram__product_or_overflow(cells, streams)));
  vram__build_source(b, i, w);
  if (b->mask[c] < 0)
    b->mask[c] = vram__build_input(b, vram__product_or_overflow(b->tokens * 2, cells));
  vram__build_source(b, i, b->mask[c]);
  if (!vram__build_has_indexer(head, heads, b->m->k_type))
    vram__build_at(b, i)->flags |= VRAM__NODE_ON_HOST;
  most = top > 0 && top < (double)cells ? (uint64_t)top : cells;
  i = vram__build_node(b, most, each, streams, i);
  b->chosen = vram__build_node(b, most, each, streams, i);
}

/* The mask with all cells hidden but those that were chosen. */
VRAM__FN int32_t vram__build_unhidden(vram__build *b, int32_t mask, uint64_t cells,
                                      uint64_t streams) {
  const uint64_t each = streams ? b->tokens / streams : 0, bytes = vram__build_at(b, mask)->bytes;
  const uint64_t most = vram__build_at(b, b->chosen)->ne[0];
  int32_t hidden, zeros, i;
  vram__build_at(b, mask)->ne[0] = cells;
  vram__build_at(b, mask)->ne[1] = each;
  vram__build_at(b, mask)->ne[2] = streams;
  hidden = vram__build_map(b, mask, -1);
  vram__build_at(b, hidden)->bytes = bytes;
  hidden = vram__build_view(b, hidden, 1, cells, b->tokens);
  zeros = vram__build_input(b, vram__product_or_overflow(most * 4, b->tokens));
  vram__build_at(b, zeros)->flags = VRAM__NODE_LEAF;
  vram__build_at(b, zeros)->buffer = -1;
  vram__build_at(b, zeros)->ne[1] = most;
  vram__build_at(b, zeros)->ne[2] = b->tokens;
  i = vram__build_over(b, hidden, vram__build_map(b, zeros, -1),
                       vram__build_view(b, b->chosen, most, each, streams));
  i = vram__build_map(b, vram__build_view(b, i, cells, each, streams), mask);
  vram__build_at(b, i)->bytes = bytes;
  return i;
}
