/* >>llama/graph_build    the worst graph of an architecture: its layers, from the embeddings to
   the logits (llama.cpp: src/models) */
#include "llama/graph.h"

typedef int32_t (*vram__build_part)(vram__build *b, int32_t x);
typedef int32_t (*vram__build_layer)(vram__build *b, int32_t x, int is_last);

typedef struct vram__build_row {
  const char *name;
  vram__build_layer layer;
  vram__build_part state; /* what a recurrent layer has in place of attention */
  uint64_t flags;
} vram__build_row;

/* ---- layers ---- */

static const vram__build_row *vram__build_row_of(const vram__llama *m);

/* What makes one token of others: attention, or a state. */
VRAM__FN int32_t vram__build_mix(vram__build *b, int32_t x) {
  const vram__llama *m = b->m;
  if (m->layer[b->il].is_recurrent)
    return vram__build_row_of(m)->state(b, x);
  if (m->layer[m->layer[b->il].reads].cache < 0) {
    b->g->is_given_up = 1; /* a feed-forward's layer without its matrices */
    return x;
  }
  if (m->row->memory == VRAM__LLAMA_NO_MEMORY || (b->flags & VRAM__BUILD_NO_CACHE))
    return vram__build_encode(b, x);
  if (vram__build_weight(b, "attn_kv_b.weight"))
    return vram__build_unpacked(b, x);
  return m->head_k_mla ? vram__build_latent(b, x) : vram__build_attention(b, x);
}

/* A sum that takes over the place of the first if it may, of the second else. */
static int32_t vram__build_add(vram__build *b, int32_t x, int32_t y, int is_second_first) {
  return is_second_first ? vram__build_map(b, y, x) : vram__build_map(b, x, y);
}

/* What is added to the residual, in a scale of the model's own. */
static int32_t vram__build_scaled(vram__build *b, int32_t a) {
  return (b->flags & VRAM__BUILD_SCALE_SUMS) ? vram__build_map(b, a, -1) : a;
}

/* Names of the norms of a layer: behind attention, before the feed-forward, behind it. */
typedef struct vram__build_norms {
  const char *mixed, *forward, *forward_bias, *done;
} vram__build_norms;

static vram__build_norms vram__build_norms_of(vram__build *b) {
  static const char after[] = "post_attention_norm.weight", output[] = "attn_output_norm.weight";
  const int is_plain = vram__build_weight(b, "post_ffw_norm") != NULL; /* plamo3 */
  vram__build_norms n;
  n.mixed = is_plain ? "post_attention_norm" : after;
  n.forward = "ffn_norm.weight";
  n.forward_bias = "ffn_norm.bias";
  n.done = is_plain ? "post_ffw_norm" : "post_ffw_norm.weight";
  if (b->flags & VRAM__BUILD_NORMS_DBRX) {
    n.forward = output;
  } else if (b->flags & VRAM__BUILD_NORMS_GROK) {
    n.mixed = output;
    if (vram__build_weight(b, "layer_output_norm.weight"))
      n.done = "layer_output_norm.weight";
  } else if (!(b->flags & (VRAM__BUILD_NORM_AFTER | VRAM__BUILD_NO_WEIGHTS)) &&
             !vram__build_weight(b, n.forward)) {
    n.mixed = ""; /* that behind attention is the feed-forward's */
    n.forward = after;
    n.forward_bias = "";
    if (!vram__build_weight(b, after))
      b->g->is_given_up = 1; /* no layer of this kind: feed-forward without a norm */
  }
  return n;
}

/* A norm of a layer's input or of its feed-forward's, which may be without a weight. */
static int32_t vram__build_norm_input(vram__build *b, int32_t x, const char *name,
                                      const char *bias) {
  if (!(b->flags & VRAM__BUILD_NO_WEIGHTS))
    return vram__build_norm(b, x, name, bias);
  x = vram__build_map(b, x, -1);
  if (b->flags & VRAM__BUILD_MEAN)
    vram__build_at(b, x)->flags = 0;
  return x;
}

static int32_t vram__build_plain(vram__build *b, int32_t x, int is_last) {
  const vram__build_norms n = vram__build_norms_of(b);
  int32_t i, logits = -1;
  if (b->flags & VRAM__BUILD_ROUTED_BEFORE)
    logits = vram__build_linear(b, x, "ffn_gate_inp.weight", NULL);
  i = vram__build_mix(b, vram__build_norm_input(b, x, "attn_norm.weight", "attn_norm.bias"));
  if (b->flags & VRAM__BUILD_ROWS_AFTER)
    i = vram__build_norm(b, i, n.mixed, NULL);
  vram__build_last_rows(b, is_last, &i, &x, logits >= 0 ? &logits : NULL);
  if (!(b->flags & VRAM__BUILD_ROWS_AFTER))
    i = vram__build_norm(b, i, n.mixed, NULL);
  i = vram__build_scaled(b, i);
  x = vram__build_add(b, i, x, (b->flags & VRAM__BUILD_INPUT_FIRST) != 0);
  i = vram__build_norm_input(b, x, n.forward, n.forward_bias);
  i = vram__build_forward(b, i, logits);
  i = vram__build_norm(b, i, n.done, NULL);
  i = vram__build_scaled(b, i);
  i = vram__build_add(b, i, x, (b->flags & VRAM__BUILD_RESIDUAL_FIRST) != 0);
  if (!is_last || !(b->flags & VRAM__BUILD_ROWS_LAST))
    return i;
  vram__build_at(b, i)->flags |= VRAM__NODE_OUTPUT; /* for a model that predicts ahead */
  return vram__build_rows_of(b, i);
}

/* command-r, falcon: the layer's input goes to both, and all three are added. */
static int32_t vram__build_parallel(vram__build *b, int32_t x, int is_last) {
  int32_t norm = vram__build_norm(b, x, "attn_norm.weight", "attn_norm.bias"), i = norm;
  if (vram__build_weight(b, "attn_norm_2.weight")) /* falcon of 40 billion */
    i = vram__build_norm(b, x, "attn_norm_2.weight", "attn_norm_2.bias");
  i = vram__build_mix(b, i);
  vram__build_last_rows(b, is_last, &i, &x, &norm);
  norm = vram__build_forward(b, norm, -1);
  if (b->flags & VRAM__BUILD_ATTENTION_FIRST)
    return vram__build_map(b, vram__build_map(b, i, norm), x);
  if (b->flags & VRAM__BUILD_ATTENTION_NEXT)
    return vram__build_map(b, vram__build_map(b, norm, i), x);
  return vram__build_map(b, vram__build_map(b, norm, x), i);
}

/* gptneox: feed-forward on the layer's input, or one behind the other, as the file says. */
static int32_t vram__build_beside_input(vram__build *b, int32_t x, int is_last) {
  const vram_file_value *parallel = vram__llama_get(b->m, "use_parallel_residual");
  int32_t i, forward;
  if (!parallel || !parallel->number.u)
    return vram__build_plain(b, x, is_last);
  i = vram__build_mix(b, vram__build_norm(b, x, "attn_norm.weight", "attn_norm.bias"));
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  forward = vram__build_forward(b, vram__build_norm(b, x, "ffn_norm.weight", "ffn_norm.bias"), -1);
  return vram__build_map(b, vram__build_map(b, forward, x), i);
}

/* Attention, a state or a feed-forward, one of them a layer: mamba, nemotron_h. */
static int32_t vram__build_single(vram__build *b, int32_t x, int is_last) {
  int is_forward =
      vram__build_weight(b, "ffn_down.weight") || vram__build_weight(b, "ffn_down_exps.weight");
  int32_t i = vram__build_norm(b, x, "attn_norm.weight", NULL);
  i = is_forward ? vram__build_forward(b, i, -1) : vram__build_mix(b, i);
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  return vram__build_map(b, i, x);
}

static const vram__build_row vram__build_rows[] = {
    {"llama", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS},
    {"qwen2", vram__build_plain, NULL, 0},
    {"qwen3", vram__build_plain, NULL, 0},
    {"qwen3moe", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS},
    {"phi3", vram__build_plain, NULL, VRAM__BUILD_SCALE_Q | VRAM__BUILD_RESIDUAL_FIRST},
    {"gpt2", vram__build_plain, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_NO_ROPE},
    {"gemma2", vram__build_plain, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_Q | VRAM__BUILD_CAP_SCORES |
         VRAM__BUILD_SCALE_LOGITS},
    {"gemma3", vram__build_plain, NULL, VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_Q},
    {"gpt-oss", vram__build_plain, NULL, VRAM__BUILD_ROWS_LAST | VRAM__BUILD_LATE_SOFTMAX},
    {"glm4moe", vram__build_plain, NULL,
     VRAM__BUILD_SIGMOID | VRAM__BUILD_NORM_SAID | VRAM__BUILD_FOUR_SAID},
    {"command-r", vram__build_parallel, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_SCALE_LOGITS},
    {"deepseek2", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID | VRAM__BUILD_TEMPERED},
    {"mamba", vram__build_single, vram__build_mamba, 0},
    {"mamba2", vram__build_single, vram__build_mamba2, 0},
    {"jamba", vram__build_plain, vram__build_mamba,
     VRAM__BUILD_NO_ROPE | VRAM__BUILD_INPUT_FIRST | VRAM__BUILD_RESIDUAL_FIRST},
    {"nemotron_h", vram__build_single, vram__build_mamba2,
     VRAM__BUILD_NO_ROPE | VRAM__BUILD_RELU_SQUARED | VRAM__BUILD_ROWS_NORM},
    {"lfm2", vram__build_plain, vram__build_shortconv,
     VRAM__BUILD_INPUT_FIRST | VRAM__BUILD_RESIDUAL_FIRST},
    {"gemma", vram__build_plain, NULL, VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_Q},
    {"glm4", vram__build_plain, NULL, VRAM__BUILD_FOUR_SAID},
    {"granite", vram__build_plain, NULL,
     VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_SCALE_SUMS | VRAM__BUILD_SCALE_LOGITS},
    {"granitemoe", vram__build_plain, NULL,
     VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_SCALE_SUMS | VRAM__BUILD_SCALE_LOGITS},
    {"mistral3", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_TEMPERED},
    {"qwen2moe", vram__build_plain, NULL, 0},
    {"olmo2", vram__build_plain, NULL, VRAM__BUILD_NORM_AFTER},
    {"olmoe", vram__build_plain, NULL, 0},
    {"ernie4_5-moe", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS},
    {"hunyuan-moe", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_ROPE_FIRST},
    {"starcoder2", vram__build_plain, NULL, VRAM__BUILD_MEAN},
    {"stablelm", vram__build_plain, NULL, VRAM__BUILD_MEAN},
    {"falcon", vram__build_parallel, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_ATTENTION_NEXT},
    {"cohere2", vram__build_parallel, NULL,
     VRAM__BUILD_MEAN | VRAM__BUILD_SCALE_LOGITS | VRAM__BUILD_ROPE_SLIDING},
    {"ernie4_5", vram__build_plain, NULL, 0},
    {"internlm2", vram__build_plain, NULL, 0},
    {"orion", vram__build_plain, NULL, VRAM__BUILD_MEAN},
    {"seed_oss", vram__build_plain, NULL, 0},
    {"arcee", vram__build_plain, NULL, VRAM__BUILD_RELU_SQUARED},
    {"nemotron", vram__build_plain, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_RELU_SQUARED},
    {"exaone", vram__build_plain, NULL, 0},
    {"xverse", vram__build_plain, NULL, 0},
    {"qwen", vram__build_plain, NULL, 0},
    {"maincoder", vram__build_plain, NULL, VRAM__BUILD_ROPE_FIRST},
    {"pangu-embedded", vram__build_plain, NULL, 0},
    {"deepseek", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"dots1", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"bailingmoe", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"minimax-m2", vram__build_plain, NULL, VRAM__BUILD_SIGMOID | VRAM__BUILD_NORM_EXPERTS},
    {"hunyuan-dense", vram__build_plain, NULL, VRAM__BUILD_ROPE_FIRST},
    {"chatglm", vram__build_plain, NULL, 0},
    {"bloom", vram__build_plain, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_NO_ROPE},
    {"mpt", vram__build_plain, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_NO_ROPE | VRAM__BUILD_CLAMPS},
    {"starcoder", vram__build_plain, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_NO_ROPE},
    {"codeshell", vram__build_plain, NULL, VRAM__BUILD_MEAN},
    {"gptneox", vram__build_beside_input, NULL, VRAM__BUILD_MEAN},
    {"qwen2vl", vram__build_plain, NULL, VRAM__BUILD_FOUR_POSITIONS},
    {"qwen3vl", vram__build_plain, NULL, VRAM__BUILD_FOUR_POSITIONS},
    {"qwen3vlmoe", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_FOUR_POSITIONS},
    {"minicpm", vram__build_plain, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_SUMS | VRAM__BUILD_SCALE_LOGITS},
    {"exaone4", vram__build_plain, NULL, VRAM__BUILD_NORM_AFTER},
    {"baichuan", vram__build_plain, NULL, 0}, /* no positions but in that of 32 layers */
    {"smollm3", vram__build_plain, NULL, VRAM__BUILD_ROPE_OF_FOUR},
    {"lfm2moe", vram__build_plain, vram__build_shortconv,
     VRAM__BUILD_INPUT_FIRST | VRAM__BUILD_RESIDUAL_FIRST | VRAM__BUILD_SIGMOID |
         VRAM__BUILD_NORM_EXPERTS},
    {"granitehybrid", vram__build_plain, vram__build_mamba2,
     VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_SCALE_SUMS | VRAM__BUILD_SCALE_LOGITS},
    {"qwen3next", vram__build_plain, vram__build_delta,
     VRAM__BUILD_ROWS_NORM | VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_SHARED_SIGMOID},
    {"qwen35", vram__build_plain, vram__build_delta,
     VRAM__BUILD_ROWS_NORM | VRAM__BUILD_FOUR_POSITIONS},
    {"qwen35moe", vram__build_plain, vram__build_delta,
     VRAM__BUILD_ROWS_NORM | VRAM__BUILD_FOUR_POSITIONS | VRAM__BUILD_NORM_EXPERTS |
         VRAM__BUILD_SHARED_SIGMOID},
    {"falcon-h1", vram__build_beside_state, vram__build_mamba2, 0},
    {"nemotron_h_moe", vram__build_single, vram__build_mamba2,
     VRAM__BUILD_NO_ROPE | VRAM__BUILD_RELU_SQUARED | VRAM__BUILD_ROWS_NORM | VRAM__BUILD_SIGMOID |
         VRAM__BUILD_NORM_SAID},
    {"llama4", vram__build_plain, NULL,
     VRAM__BUILD_SIGMOID | VRAM__BUILD_UNIT_HEADS | VRAM__BUILD_WEIGH_FIRST},
    {"gemma4", vram__build_gemma4, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_LOGITS | VRAM__BUILD_NORM_EXPERTS |
         VRAM__BUILD_ROWS_NORM},
    {"gemma3n", vram__build_gemma3n, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_LOGITS | VRAM__BUILD_STREAMED},
    {"rwkv6", vram__build_rwkv, NULL, VRAM__BUILD_MEAN},
    {"rwkv7", vram__build_rwkv, NULL, VRAM__BUILD_MEAN},
    {"rwkv6qwen2", vram__build_rwkv_qwen, NULL, 0},
    {"arwkv7", vram__build_rwkv_qwen, NULL, 0},
    {"mimo2", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_SIGMOID},
    {"step35", vram__build_plain, NULL,
     VRAM__BUILD_NORM_SAID | VRAM__BUILD_SIGMOID | VRAM__BUILD_ROWS_LAST | VRAM__BUILD_LIMITS},
    {"plamo2", vram__build_plain, vram__build_plamo2, 0},
    {"deepseek32", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"glm-dsa", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"kimi-linear", vram__build_plain, vram__build_kimi,
     VRAM__BUILD_NO_ROPE | VRAM__BUILD_NORM_EXPERTS},
    {"bert", vram__build_behind, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_NO_ROPE},
    {"nomic-bert", vram__build_behind, NULL, VRAM__BUILD_MEAN},
    {"nomic-bert-moe", vram__build_behind, NULL, VRAM__BUILD_MEAN},
    {"jina-bert-v2", vram__build_behind, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_NO_ROPE},
    {"jina-bert-v3", vram__build_behind, NULL, VRAM__BUILD_MEAN},
    {"modern-bert", vram__build_plain, NULL, VRAM__BUILD_MEAN},
    {"neo-bert", vram__build_plain, NULL, 0},
    {"eurobert", vram__build_plain, NULL, 0},
    {"gemma-embedding", vram__build_plain, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_Q | VRAM__BUILD_NO_LOGITS},
    {"dream", vram__build_plain, NULL, 0},
    {"llada", vram__build_plain, NULL, 0},
    {"llada-moe", vram__build_plain, NULL, 0},
    {"rnd1", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS},
    {"phi2", vram__build_parallel, NULL,
     VRAM__BUILD_MEAN | VRAM__BUILD_SCALE_Q | VRAM__BUILD_ATTENTION_FIRST},
    {"phimoe", vram__build_plain, NULL,
     VRAM__BUILD_SCALE_Q | VRAM__BUILD_RESIDUAL_FIRST | VRAM__BUILD_NORM_EXPERTS},
    {"grok", vram__build_plain, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_CAP_SCORES | VRAM__BUILD_NORM_EXPERTS |
         VRAM__BUILD_NORMS_GROK | VRAM__BUILD_DENSE_TOO | VRAM__BUILD_SCALE_LOGITS},
    {"dbrx", vram__build_plain, NULL,
     VRAM__BUILD_MEAN | VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_NORMS_DBRX | VRAM__BUILD_CLAMPS},
    {"olmo", vram__build_plain, NULL,
     VRAM__BUILD_MEAN | VRAM__BUILD_NO_WEIGHTS | VRAM__BUILD_CLAMPS},
    {"apertus", vram__build_plain, NULL, 0},
    {"refact", vram__build_plain, NULL, VRAM__BUILD_NO_ROPE},
    {"jais", vram__build_plain, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_NO_ROPE},
    {"arctic", vram__build_arctic, NULL, VRAM__BUILD_NORM_EXPERTS},
    {"deci", vram__build_deci, NULL, 0},
    {"smallthinker", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_ROUTED_BEFORE},
    {"bailingmoe2", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"minicpm3", vram__build_plain, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_SUMS | VRAM__BUILD_SCALE_NORM},
    {"plm", vram__build_plain, NULL, VRAM__BUILD_RELU_SQUARED},
    {"mistral4", vram__build_plain, NULL,
     VRAM__BUILD_NORM_SAID | VRAM__BUILD_TEMPERED | VRAM__BUILD_WIDE_DOWN},
    {"exaone-moe", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID | VRAM__BUILD_ROPE_SLIDING},
    {"afmoe", vram__build_plain, NULL,
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_NORM_SAID | VRAM__BUILD_ROPE_OF_FOUR |
         VRAM__BUILD_ROWS_AFTER},
    {"laguna", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"cohere2moe", vram__build_parallel, NULL,
     VRAM__BUILD_NORM_SAID | VRAM__BUILD_ROPE_SLIDING | VRAM__BUILD_ROPE_LEADING |
         VRAM__BUILD_ROWS_NORM | VRAM__BUILD_HALVES | VRAM__BUILD_SCALE_LOGITS},
    {"grovemoe", vram__build_grove, NULL, VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_GROVE},
    {"plamo", vram__build_parallel, NULL, VRAM__BUILD_ATTENTION_NEXT},
    {"plamo3", vram__build_plain, NULL, 0},
    {"openelm", vram__build_plain, NULL, VRAM__BUILD_INPUT_FIRST},
    {"chameleon", vram__build_swin, NULL, VRAM__BUILD_MEAN_HEADS | VRAM__BUILD_SET_LOGITS},
    {"cogvlm", vram__build_plain, NULL, VRAM__BUILD_ROWS_ALL},
    {"bitnet", vram__build_plain, NULL, VRAM__BUILD_SCALES},
    {"mellum", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS},
    {"jais2", vram__build_plain, NULL, VRAM__BUILD_MEAN | VRAM__BUILD_RELU_SQUARED},
    {"hunyuan_vl", vram__build_plain, NULL, VRAM__BUILD_ROPE_FIRST | VRAM__BUILD_FOUR_SAID},
    {"hy_v3", vram__build_plain, NULL,
     VRAM__BUILD_SIGMOID | VRAM__BUILD_NORM_SAID | VRAM__BUILD_ROWS_NORM},
    {"paddleocr", vram__build_plain, NULL, VRAM__BUILD_FOUR_POSITIONS},
    {"granite_swa", vram__build_plain, NULL,
     VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_SCALE_SUMS | VRAM__BUILD_SCALE_LOGITS},
    {"deepseek2-ocr", vram__build_plain, NULL, VRAM__BUILD_NORM_SAID},
    {"spark2_5", vram__build_plain, NULL, 0},
    {"maple", vram__build_plain, NULL, VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_ROPE_SLIDING},
    {"muse-glimmer", vram__build_plain, NULL, /* its embeddings have a norm without a weight */
     VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_ROPE_SLIDING | VRAM__BUILD_ROWS_AFTER |
         VRAM__BUILD_SCALE_LOGITS},
    {"nanbeige", vram__build_plain, NULL, 0},
    {"llama-embed", vram__build_plain, NULL,
     VRAM__BUILD_NORM_EXPERTS | VRAM__BUILD_NO_CACHE | VRAM__BUILD_NO_LOGITS},
    {"t5", vram__build_t5, NULL, VRAM__BUILD_NO_ROPE},
    {"t5encoder", vram__build_t5_encoder, NULL, VRAM__BUILD_NO_ROPE | VRAM__BUILD_NO_LOGITS},
};

/* NULL: no rule builds this graph. */
static const vram__build_row *vram__build_row_of(const vram__llama *m) {
  for (uint32_t i = 0; i < sizeof vram__build_rows / sizeof *vram__build_rows; i++)
    if (vram__text_is(m->arch, m->arch_len, vram__build_rows[i].name))
      return vram__build_rows + i;
  return NULL;
}

/* ---- embeddings and logits ---- */

/* Rows of a table, of words or of positions, where it lies: on the host, as a rule. */
static int32_t vram__build_look_up(vram__build *b, const char *name, int32_t numbers) {
  const vram_file_tensor *t = vram__build_global(b, name);
  int32_t i = vram__build_node(b, b->m->n_embd, b->tokens, 1, -1);
  vram__build_at(b, i)->buffer = (int8_t)b->host;
  if (t)
    vram__build_taken(b, i, t);
  vram__build_source(b, i, numbers);
  return i;
}

/* A norm behind the embeddings: bert, bloom. That of lfm2 is the output's. */
static int32_t vram__build_norm_words(vram__build *b, int32_t x) {
  const vram_file_tensor *weight = vram__build_global(b, "token_embd_norm.weight");
  const vram_file_tensor *bias = vram__build_global(b, "token_embd_norm.bias");
  if (!weight || (b->m->row->flags & VRAM__LLAMA_NORM_OUT))
    return x;
  b->device = b->m->layer[0].device < 0 ? b->host : b->m->layer[0].device;
  x = vram__build_map(b, x, -1);
  vram__build_at(b, x)->flags = 0;
  x = vram__build_with(b, vram__build_map(b, x, -1), weight);
  return bias ? vram__build_with(b, vram__build_map(b, x, -1), bias) : x;
}

/* bert: a norm behind the embeddings, which have a row of types. */
static int32_t vram__build_typed(vram__build *b, int32_t x) {
  int32_t i;
  if (vram__build_global(b, "token_types.weight")) {
    i = vram__build_node(b, b->m->n_embd, 1, 1, -1);
    vram__build_at(b, i)->flags = VRAM__NODE_FOREIGN | VRAM__NODE_IS_VISITED;
    vram__build_at(b, i)->buffer = (int8_t)b->host;
    x = vram__build_map(b, x, i);
  }
  if (b->positions >= 0)
    x = vram__build_map(b, vram__build_look_up(b, "position_embd.weight", b->positions), x);
  return vram__build_norm_words(b, x);
}

/* Layers that take a part of an image's embeddings: qwen3vl. */
static uint64_t vram__build_deep(const vram__build *b) {
  const vram_file_value *n = vram__llama_get(b->m, "n_deepstack_layers");
  return n ? n->number.u : 0;
}

/* Token embeddings are looked up on the host. */
static int32_t vram__build_embed(vram__build *b) {
  int32_t tokens = vram__build_input(b, b->tokens * 4), i;
  int32_t instead = vram__build_input(
      b, vram__product_or_overflow(vram__product_or_overflow(b->tokens * 4, b->m->n_embd),
                                   vram__sum_or_overflow(1, vram__build_deep(b))));
  i = vram__build_look_up(b, "token_embd.weight", tokens);
  vram__build_expand(b, i);
  vram__build_expand(b, instead); /* embeddings in place of tokens */
  if (b->flags & VRAM__BUILD_SCALE_INPUT)
    i = vram__build_map(b, i, -1);
  if (vram__llama_get(b->m, "embedding_scale")) /* of llm_graph_context::build_inp_embd */
    vram__build_expand(b, i);
  if (vram__build_global(b, "position_embd.weight"))
    b->positions = vram__build_input(b, b->tokens * 4);
  if (vram__build_row_of(b->m)->layer == vram__build_behind)
    return vram__build_typed(b, i);
  if (b->positions >= 0)
    i = vram__build_map(b, i, vram__build_look_up(b, "position_embd.weight", b->positions));
  return vram__build_norm_words(b, i);
}

static void vram__build_all(vram__build *b) {
  const vram__llama *m = b->m;
  const uint32_t n = m->n_layer - m->n_layer_nextn;
  int32_t x = vram__build_embed(b);
  vram__build_each_layer(b, x);
  if (b->flags & VRAM__BUILD_STREAMED)
    x = vram__build_streams_begin(b, x);
  for (b->il = 0; b->il < n && !b->g->is_given_up; b->il++) {
    b->device = m->layer[b->il].device < 0 ? b->host : m->layer[b->il].device;
    b->layer_first = b->g->nnode;
    x = vram__build_row_of(m)->layer(b, x, b->il + 1 == n);
  }
  if (b->flags & VRAM__BUILD_STREAMED)
    x = vram__build_streams_end(b, x);
  vram__build_end(b, x);
}

/* ---- entry ---- */

/* Has a recurrent layer a rule, and the sizes that the rule divides by? */
static int vram__build_has_state(const vram__llama *m) {
  const vram__build_part state = vram__build_row_of(m)->state;
  if (!state)
    return m->row->memory == VRAM__LLAMA_RECURRENT && m->wkv_head_size;
  return state != vram__build_kimi || m->kda_head_size;
}

/* Is this layer one that is built here? */
static int vram__build_has_layer(const vram__llama *m, uint32_t i) {
  const vram__llama_layer *y = m->layer + i, *of = m->layer + y->reads;
  if (y->is_recurrent && !vram__build_has_state(m))
    return 0;
  if (y->is_recurrent && !(m->row->flags & VRAM__LLAMA_ALL_KV))
    return 1;
  if (y->cache < 0 && (m->head_k_mla || (m->row->flags & VRAM__LLAMA_TWO_STACKS)))
    return 0; /* these share none */
  if (m->head_k_mla && y->n_rot > m->head_k_mla)
    return 0;
  if (of->cache < 0) /* a feed-forward's */
    return m->row->memory == VRAM__LLAMA_HYBRID && !(m->row->flags & VRAM__LLAMA_ALL_KV);
  return y->head_k && y->head_v && of->head_k && of->head_v;
}

/* Does a table of which rows are taken lie on a device that cannot? The row of types is built for
   the host alone. */
static int vram__build_is_moved(const vram__llama *m) {
  static const char *const names[] = {"token_types.weight", "token_embd.weight",
                                      "position_embd.weight"};
  for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
    const vram_file_tensor *t = vram_file_find(m->file, names[i], vram__text_len(names[i]));
    int32_t device = -1;
    vram_error e;
    if (t && !vram__llama_device(m, t, &device, &e) && device >= 0 &&
        (!i || !vram__llama_is_run(m, t)))
      return 1;
  }
  return 0;
}

/* Has a token positions in several directions, by the file (llama_hparams::use_mrope)? */
static int vram__build_has_sections(const vram__llama *m) {
  const vram_file_value *v = vram__llama_get(m, "rope.dimension_sections");
  const uint64_t *of = v && v->kind == VRAM_VALUE_ARRAY && vram__llama_is_whole(v->of)
                           ? (const uint64_t *)v->array
                           : NULL;
  return of && v->count > 1 && of[0] && of[1] && of[0] < INT32_MAX && of[1] < INT32_MAX;
}

/* What of an architecture's graph depends on keys. */
static uint64_t vram__build_flags(const vram__llama *m, uint64_t flags) {
  const vram_file_value *rope = vram__llama_get(m, "rope.scaling.finetuned");
  const double residual = vram__llama_real(m, "residual_scale");
  const double input = vram__llama_real(m, "embedding_scale");
  if ((flags & VRAM__BUILD_NORM_SAID) && vram__llama_real(m, "expert_weights_norm") > 0)
    flags |= VRAM__BUILD_NORM_EXPERTS;
  if (vram__text_is(m->arch, m->arch_len, "baichuan") && m->n_layer != 32)
    flags |= VRAM__BUILD_NO_ROPE;
  if ((flags & VRAM__BUILD_FOUR_SAID) && vram__build_has_sections(m))
    flags |= VRAM__BUILD_FOUR_POSITIONS;
  if ((flags & VRAM__BUILD_ROUTED_BEFORE) && m->n_swa)
    flags |= VRAM__BUILD_ROPE_OF_FOUR;
  if ((flags & VRAM__BUILD_ROPE_LEADING) &&
      !(vram__llama_real(m, "attention.layer_norm_rms_epsilon") > 0))
    flags |= VRAM__BUILD_MEAN;
  if (!(flags & VRAM__BUILD_SCALE_SUMS) || (flags & VRAM__BUILD_SCALE_INPUT)) /* not granite */
    return flags;
  if (!(residual < 0 || residual > 0))
    flags &= ~VRAM__BUILD_SCALE_SUMS;
  if (input < 0 || input > 0)
    flags |= VRAM__BUILD_SCALE_INPUT;
  if (rope && !rope->number.u)
    flags |= VRAM__BUILD_NO_ROPE;
  return flags;
}

/* Not derived yet: how long a router before attention keeps what it made (smallthinker), where
   layers or tensors of them lie on the host. */
static int vram__build_is_beyond(const vram__llama *m, uint64_t flags) {
  const vram_llama_options *o = m->options;
  return (flags & VRAM__BUILD_ROUTED_BEFORE) && m->ndevice &&
         (m->n_gpu_layers <= m->n_layer || o->noverride_tensor || o->n_cpu_moe);
}

/* Is the graph of this model and context one that is built here? */
static int vram__build_begin(vram__build *b, const vram__llama *m) {
  const vram__build_row *row = vram__build_row_of(m);
  uint32_t i;
  if (!row || m->n_expert_used > VRAM__BUILD_EXPERTS || (m->n_expert && !m->n_expert_used) ||
      vram__build_is_moved(m) || vram__build_is_beyond(m, row->flags) ||
      !vram__build_knows(m, row->flags))
    return 0;
  for (i = 0; i < m->n_layer - m->n_layer_nextn; i++)
    if (!vram__build_has_layer(m, i))
      return 0;
  b->m = m;
  b->flags = vram__build_flags(m, row->flags);
  b->tokens = m->n_ctx < m->n_ubatch ? m->n_ctx : m->n_ubatch;
  b->outputs = b->tokens < m->n_outputs ? b->tokens : m->n_outputs;
  b->tokens = vram__round_up_u64(b->tokens, m->n_seq); /* behind it: llama_context::graph_reserve */
  b->host = (int32_t)m->ndevice;
  b->stack = "";
  b->crossed = b->crossed_mask = b->buckets = -1;
  for (i = 0; i < VRAM__GRAPH_BUFFERS; i++)
    b->factors[i] = -1;
  b->index_rotation = b->chosen = b->first_value = b->each_layer = b->positions = b->out_ids =
      b->temperature = b->states = b->states_extra = -1;
  for (i = 0; i < VRAM_LLAMA_MAX_CACHES; i++)
    b->k_index[i] = b->v_index[i] = b->mask[i] = b->k_rotation[i] = b->v_rotation[i] = -1;
  return 1;
}

/* llama_context::llama_context: several batches at a time on several devices, if they have all. */
static uint8_t vram__build_is_pipeline(const vram__llama *m) {
  const vram_llama_options *o = m->options;
  return m->ndevice > 1 && m->n_gpu_layers > m->n_layer && o->split == VRAM_LLAMA_SPLIT_LAYER &&
         m->offloads_kv && !o->noverride_tensor && !o->n_cpu_moe;
}

/* A graph without nodes in the memory. NULL: that is too small, or no rule builds the graph. */
static vram__graph *vram__build_open(vram__build *b, const vram__llama *m, void *memory,
                                     uint64_t bytes) {
  vram__graph *g = (vram__graph *)memory;
  const uint64_t before = sizeof *g + (m->ndevice + 1u) * (uint64_t)sizeof *g->heap;
  vram__memory_zero(b, sizeof *b);
  if (bytes < before || !vram__build_begin(b, m))
    return NULL;
  vram__memory_zero(g, sizeof *g);
  g->cap = (uint32_t)((bytes - before) / (sizeof *g->node + 3 * sizeof *g->order));
  if (!g->cap)
    return NULL;
  g->heap = (vram__graph_heap *)(void *)(g + 1);
  g->node = (vram__graph_node *)(void *)(g->heap + m->ndevice + 1);
  g->order = (int32_t *)(void *)(g->node + g->cap);
  g->nbuffer = m->ndevice + 1;
  g->is_pipeline = vram__build_is_pipeline(m);
  b->g = g;
  return g;
}

/* llama_context::resolve_fused_ops: flash attention that was not asked for is given up where, in a
   graph of one token for each sequence, it is not computed where its layer's weights are. */
VRAM__FN void vram__llama_resolve(vram__llama *m, void *memory, uint64_t bytes) {
  vram__build b;
  vram__graph *g;
  if (m->options->flash_attention != VRAM_LLAMA_AUTO || !m->flash_attention || !m->ndevice ||
      vram__llama_is_quantised(m->v_type)) /* needs it: switched on at once */
    return;
  g = vram__build_open(&b, m, memory, bytes);
  if (!g)
    return;
  b.tokens = b.outputs = m->n_seq;
  vram__build_all(&b);
  if (g->is_given_up)
    return;
  vram__graph_spread(g);
  for (uint32_t i = 0; i < g->norder; i++) {
    const vram__graph_node *n = g->node + g->order[i];
    if ((n->flags & VRAM__NODE_FLASH) && n->buffer != n->home)
      m->flash_attention = 0;
  }
}

/* Bytes of the compute buffers: devices, then the host. Unknown: no rule builds this graph. */
static vram_llama_known vram__build_peaks(const vram__llama *m, void *memory, uint64_t bytes,
                                          int pins_attention,
                                          uint64_t compute[VRAM__GRAPH_BUFFERS]) {
  vram__build b;
  vram__graph *g = vram__build_open(&b, m, memory, bytes);
  if (!g)
    return VRAM_LLAMA_UNKNOWN;
  b.pins_attention = (uint8_t)pins_attention;
  vram__build_all(&b);
  if (g->is_given_up)
    return VRAM_LLAMA_UNKNOWN;
  vram__graph_split(g);
  if (g->is_given_up)
    return VRAM_LLAMA_UNKNOWN;
  for (uint32_t i = 0; i < g->nbuffer; i++)
    vram__heap_begin(g->heap + i, i < m->ndevice ? 128 : 32);
  if (!vram__graph_place(g))
    return VRAM_LLAMA_UNKNOWN;
  for (uint32_t i = 0; i < g->nbuffer; i++)
    compute[i] = g->heap[i].peak;
  return VRAM_LLAMA_EXACT;
}

/* Attention without its cache on a device and without flash attention: llama.cpp pins it to the
   host, but forgets that where it only measures (ggml_backend_sched_reserve_size). What both need
   is sure. */
static vram_llama_known vram__build_compute(const vram__llama *m, void *memory, uint64_t bytes,
                                            uint64_t compute[VRAM__GRAPH_BUFFERS]) {
  uint64_t pinned[VRAM__GRAPH_BUFFERS];
  vram_llama_known known = vram__build_peaks(m, memory, bytes, 0, compute);
  if (m->offloads_kv || m->flash_attention || !m->ndevice || !known)
    return known;
  if (!vram__build_peaks(m, memory, bytes, 1, pinned))
    return VRAM_LLAMA_UNKNOWN;
  for (uint32_t i = 0; i <= m->ndevice; i++)
    if (pinned[i] != compute[i]) {
      known = VRAM_LLAMA_FLOOR;
      compute[i] = pinned[i] < compute[i] ? pinned[i] : compute[i];
    }
  return known;
}

/* Logits and what they are computed from: what the last device needs at least. */
static uint64_t vram__build_floor(const vram__llama *m) {
  uint64_t rows = m->n_ctx < m->n_ubatch ? m->n_ctx : m->n_ubatch;
  if (rows > m->n_outputs)
    rows = m->n_outputs;
  if (m->row->memory == VRAM__LLAMA_NO_MEMORY ||
      (m->row->flags & (VRAM__LLAMA_TWO_STACKS | VRAM__LLAMA_ONE_TABLE)))
    return 0;
  if (m->ndevice && (m->output_device < 0 || m->options->noverride_tensor))
    return 0; /* a device may compute what the host has */
  return vram__product_or_overflow(rows * 4, (uint64_t)m->n_vocab + m->n_embd);
}

/* Compute buffers of the report: exact where a rule builds the graph, a floor otherwise. */
VRAM__FN void vram__llama_compute(const vram__llama *m, void *memory, uint64_t bytes,
                                  vram_llama_report *r) {
  uint64_t compute[VRAM__GRAPH_BUFFERS];
  const char *host = m->ndevice ? "CUDA_Host" : "CPU";
  r->compute = vram__build_compute(m, memory, bytes, compute);
  if (r->compute) {
    for (uint32_t i = 0; i < m->ndevice; i++)
      if (compute[i])
        vram__llama_buffer(r, "CUDA", (int32_t)i)->compute_bytes = compute[i];
    vram__llama_buffer(r, host, -1)->compute_bytes = compute[m->ndevice];
    return;
  }
  r->compute = VRAM_LLAMA_FLOOR;
  vram__llama_buffer(r, m->output_device < 0 ? host : "CUDA", m->output_device)->compute_bytes =
      vram__build_floor(m);
}
