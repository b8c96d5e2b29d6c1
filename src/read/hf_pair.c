/* >>read/hf_pair    config.json of encoders with decoders (T5 and BART with their kin, Whisper) and
   of towers for images and texts (ViT, CLIP, SigLIP): parameters, tensors, and the cache, as
   models/TYPE/modeling_TYPE.py of transformers 5.23 makes them */
#include "read/read.h"

/* A stack of layers. */
typedef struct vram__hf_stack {
  uint64_t layers, hidden, heads, width;
} vram__hf_stack;

static uint64_t vram__hf_layer_number(vram__hf *h, const char *key, uint64_t none) {
  const uint64_t n = vram__hf_number(h, key, none);
  if (n <= VRAM__HF_MAX_LAYERS)
    return n;
  vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many layers: ", key);
  return 0;
}

/* A key that the configs of some families name otherwise; where both are there, its first name
   counts (attribute_map). */
static uint64_t vram__hf_mapped(vram__hf *h, const char *key, const char *own, uint64_t none) {
  return vram__hf_number(h, vram__hf_name(h, key, own, NULL), none);
}

static uint64_t vram__hf_mapped_layers(vram__hf *h, const char *own, uint64_t none) {
  return vram__hf_layer_number(h, vram__hf_name(h, "num_hidden_layers", own, NULL), none);
}

static vram__hf_stack vram__hf_stack_of(vram__hf *h, const vram__hf_family *w) {
  const int is_t5 = vram__hf_has(h, VRAM__HF_T5);
  vram__hf_stack s;
  s.hidden = vram__hf_mapped(h, "hidden_size", is_t5 ? "d_model" : "hidden_size", w->hidden);
  s.layers = vram__hf_mapped_layers(h, is_t5 ? "num_layers" : "num_hidden_layers", w->layers);
  s.heads = vram__hf_mapped(h, "num_attention_heads", is_t5 ? "num_heads" : "num_attention_heads",
                            w->heads);
  s.width = vram__hf_number(h, is_t5 ? "d_ff" : "intermediate_size", w->intermediate);
  if (!s.hidden || !s.heads || (!is_t5 && s.hidden % s.heads))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "elements or heads");
  return s;
}

/* ---- T5 ---- */

static void vram__hf_t5_attention(vram__hf *h, uint64_t hidden, uint64_t inner, uint64_t buckets) {
  uint32_t i;
  for (i = 0; i < 4; i++)
    vram__hf_add(h, hidden, inner);
  if (buckets)
    vram__hf_add(h, buckets, h->c->heads);
  vram__hf_add(h, hidden, 1);
}

/* T5Stack: the first layer's biases of positions are those of all, but UMT5's have their own. */
static void vram__hf_t5_stack(vram__hf *h, const vram__hf_stack *s, int is_decoder) {
  const vram_file_value *const v = vram__hf_value(h, "feed_forward_proj");
  const int is_gated = v && v->kind == VRAM_VALUE_TEXT
                           ? v->count >= 6 && vram__text_equal(v->text, "gated-", 6)
                           : vram__hf_has(h, VRAM__HF_GATED);
  const uint64_t inner = vram__product_or_overflow(s->heads, h->c->head_dim),
                 buckets = vram__hf_number(h, "relative_attention_num_buckets", 32);
  uint64_t i;
  vram__hf_name_again(h); /* embed_tokens */
  for (i = 0; i < s->layers; i++) {
    vram__hf_t5_attention(h, s->hidden, inner,
                          !i || vram__hf_has(h, VRAM__HF_EACH_BIAS) ? buckets : 0);
    if (is_decoder)
      vram__hf_t5_attention(h, s->hidden, inner, 0);
    vram__hf_add(h, s->hidden, s->width);
    if (is_gated)
      vram__hf_add(h, s->hidden, s->width);
    vram__hf_add(h, s->width, s->hidden);
    vram__hf_add(h, s->hidden, 1);
  }
  vram__hf_add(h, s->hidden, 1);
}

/* The head is always tied, whatever the file says. */
static void vram__hf_t5(vram__hf *h) {
  vram_hf_config *const c = h->c;
  vram__hf_stack s = vram__hf_stack_of(h, h->family);
  c->vocab = vram__hf_number(h, "vocab_size", h->family->vocab);
  c->hidden = s.hidden;
  c->heads = s.heads;
  c->intermediate = s.width;
  c->head_dim = vram__hf_mapped(h, "head_dim", "d_kv", h->family->head_dim);
  c->is_tied = 1;
  c->encoder_layers = s.layers;
  vram__hf_add(h, c->vocab, c->hidden);
  vram__hf_t5_stack(h, &s, 0);
  if (h->head == VRAM__HF_ENCODES)
    return;
  c->full_layers = c->cross_layers = s.layers =
      vram__hf_layer_number(h, "num_decoder_layers", s.layers);
  vram__hf_t5_stack(h, &s, 1);
  if (h->head == VRAM__HF_GENERATES)
    vram__hf_name_again(h);
}

/* ---- BART, mBART, Marian, Whisper ---- */

static void vram__hf_pair_attention(vram__hf *h, uint64_t hidden) {
  const int is_audio = vram__hf_has(h, VRAM__HF_AUDIO);
  vram__hf_linear(h, hidden, hidden, !is_audio); /* k_proj */
  vram__hf_linear(h, hidden, hidden, 1);
  vram__hf_linear(h, hidden, hidden, 1);
  vram__hf_linear(h, hidden, hidden, 1);
  vram__hf_norm(h, hidden);
}

static void vram__hf_pair_stack(vram__hf *h, const vram__hf_stack *s, uint64_t positions,
                                int is_decoder) {
  uint64_t i;
  vram__hf_add(h, positions, s->hidden);
  if (vram__hf_has(h, VRAM__HF_EMBED_NORM))
    vram__hf_norm(h, s->hidden);
  for (i = 0; i < s->layers; i++) {
    vram__hf_pair_attention(h, s->hidden);
    if (is_decoder)
      vram__hf_pair_attention(h, s->hidden);
    vram__hf_linear(h, s->hidden, s->width, 1);
    vram__hf_linear(h, s->width, s->hidden, 1);
    vram__hf_norm(h, s->hidden);
  }
  if (vram__hf_has(h, VRAM__HF_LAST_NORM))
    vram__hf_norm(h, s->hidden);
}

/* One more matrix of words; where it is tied, a name of the first one. */
static void vram__hf_words(vram__hf *h, uint64_t words, int is_tied) {
  if (is_tied)
    vram__hf_name_again(h);
  else
    vram__hf_add(h, words, h->c->hidden);
}

/* Matrices of words and the head. Whisper's encoder reads none, and Marian may share none. */
static void vram__hf_pair_words(vram__hf *h) {
  const vram_hf_config *const c = h->c;
  const int is_shared = vram__hf_bool(h, "share_encoder_decoder_embeddings", 1),
            is_marian = vram__hf_has(h, VRAM__HF_NO_OFFSET);
  uint64_t words = c->vocab;
  vram__hf_add(h, c->vocab, c->hidden);
  if (is_marian)
    words = vram__hf_number(h, "decoder_vocab_size", c->vocab);
  if (!words)
    words = c->vocab;
  if (is_marian && !is_shared)
    vram__hf_add(h, words, c->hidden);
  else if (!vram__hf_has(h, VRAM__HF_AUDIO)) {
    if (words != c->vocab)
      vram__hf_fail(h, VRAM_ERR_UNSUPPORTED,
                    "words that are shared, but not as many: ", "decoder_vocab_size");
    vram__hf_words(h, words, c->is_tied);
    vram__hf_words(h, words, c->is_tied);
  }
  if (h->head == VRAM__HF_GENERATES) {
    vram__hf_words(h, words, c->is_tied);
    if (!vram__hf_has(h, VRAM__HF_AUDIO))
      vram__hf_name_again(h); /* final_logits_bias, a buffer */
  } else if (h->head == VRAM__HF_CLASSIFIES) {
    const int is_said = vram__hf_value(h, "num_labels") || vram__hf_value(h, "id2label.0");
    vram__hf_linear(h, c->hidden, c->hidden, 1);
    vram__hf_linear(h, c->hidden, is_said ? vram__hf_labels(h) : 3, 1);
  }
}

static void vram__hf_pair(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const vram__hf_family *const w = h->family;
  const int is_audio = vram__hf_has(h, VRAM__HF_AUDIO);
  const uint64_t offset = vram__hf_has(h, VRAM__HF_NO_OFFSET) ? 0 : 2,
                 positions =
                     vram__hf_number(h, "max_position_embeddings", 1024) + (is_audio ? 0 : offset);
  vram__hf_stack encoder, decoder;
  c->vocab = vram__hf_number(h, "vocab_size", w->vocab);
  c->hidden = vram__hf_mapped(h, "hidden_size", "d_model", w->hidden);
  encoder.hidden = decoder.hidden = c->hidden;
  encoder.layers = vram__hf_mapped_layers(h, "encoder_layers", w->layers);
  decoder.layers = vram__hf_layer_number(h, "decoder_layers", w->layers);
  encoder.heads = vram__hf_mapped(h, "num_attention_heads", "encoder_attention_heads", w->heads);
  decoder.heads = vram__hf_number(h, "decoder_attention_heads", w->heads);
  encoder.width = vram__hf_number(h, "encoder_ffn_dim", w->intermediate);
  decoder.width = vram__hf_number(h, "decoder_ffn_dim", w->intermediate);
  if (!c->hidden || !c->vocab || !encoder.heads || !decoder.heads || c->hidden % encoder.heads ||
      c->hidden % decoder.heads) {
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "heads, elements or words");
    return;
  }
  c->heads = decoder.heads;
  c->head_dim = c->hidden / decoder.heads;
  c->intermediate = decoder.width;
  c->is_tied = (uint8_t)vram__hf_bool(h, "tie_word_embeddings", 1);
  c->encoder_layers = encoder.layers;
  c->full_layers = c->cross_layers = decoder.layers;
  vram__hf_pair_words(h);
  if (is_audio) { /* two convolutions of three columns */
    c->cross_tokens = vram__hf_number(h, "max_source_positions", 1500);
    vram__hf_linear(h, 3 * vram__hf_number(h, "num_mel_bins", 80), c->hidden, 1);
    vram__hf_linear(h, 3 * c->hidden, c->hidden, 1);
  }
  vram__hf_pair_stack(h, &encoder, is_audio ? c->cross_tokens : positions, 0);
  vram__hf_pair_stack(h, &decoder,
                      is_audio ? vram__hf_number(h, "max_target_positions", 448) : positions, 1);
}

/* ---- towers ---- */

static void vram__hf_tower(vram__hf *h, const vram__hf_stack *s, int qkv_bias) {
  uint64_t i;
  uint32_t k;
  for (i = 0; i < s->layers; i++) {
    for (k = 0; k < 4; k++)
      vram__hf_linear(h, s->hidden, s->hidden, k == 3 || qkv_bias);
    vram__hf_linear(h, s->hidden, s->width, 1);
    vram__hf_linear(h, s->width, s->hidden, 1);
    vram__hf_norm(h, s->hidden);
    vram__hf_norm(h, s->hidden);
  }
  vram__hf_norm(h, s->hidden);
  h->c->encoder_layers += s->layers;
}

/* Pieces of an image, their positions, and a token of the whole in ViT and CLIP. */
static void vram__hf_pieces(vram__hf *h, uint64_t hidden, uint64_t patch_none, int has_bias,
                            int has_class) {
  const uint64_t patch = vram__hf_number(h, "patch_size", patch_none),
                 side = patch ? vram__hf_number(h, "image_size", 224) / patch : 0,
                 pixels = vram__product_or_overflow(patch, patch);
  if (!patch)
    vram__hf_fail(h, VRAM_ERR_VALUE, "0 is the key ", "patch_size");
  vram__hf_linear(h, vram__product_or_overflow(vram__hf_number(h, "num_channels", 3), pixels),
                  hidden, has_bias);
  vram__hf_add(
      h, vram__sum_or_overflow(vram__product_or_overflow(side, side), (uint64_t)(has_class != 0)),
      hidden);
  if (has_class)
    vram__hf_add(h, hidden, 1);
}

static void vram__hf_vit(vram__hf *h) {
  const vram__hf_stack s = vram__hf_stack_of(h, h->family);
  uint64_t pooled = vram__hf_number(h, "pooler_output_size", s.hidden);
  h->c->hidden = s.hidden;
  h->c->heads = s.heads;
  h->c->intermediate = s.width;
  vram__hf_pieces(h, s.hidden, 16, 1, 1);
  vram__hf_tower(h, &s, vram__hf_bool(h, "qkv_bias", 1));
  if (h->head == VRAM__HF_CLASSIFIES) {
    if (vram__hf_labels(h))
      vram__hf_linear(h, s.hidden, vram__hf_labels(h), 1);
  } else
    vram__hf_linear(h, s.hidden, pooled ? pooled : s.hidden, 1);
}

/* CLIPVisionModel, SiglipVisionModel */
static uint64_t vram__hf_image_tower(vram__hf *h, const vram__hf_family *w) {
  const int is_siglip = vram__hf_has(h, VRAM__HF_SIGLIP);
  const vram__hf_stack s = vram__hf_stack_of(h, w);
  vram__hf_pieces(h, s.hidden, is_siglip ? 16 : 32, is_siglip, !is_siglip);
  if (!is_siglip)
    vram__hf_norm(h, s.hidden); /* pre_layrnorm */
  vram__hf_tower(h, &s, 1);
  if (is_siglip && vram__hf_bool(h, "vision_use_head", 1)) { /* a probe attends to the pieces */
    vram__hf_add(h, s.hidden, 1);
    vram__hf_linear(h, s.hidden, 3 * s.hidden, 1);
    vram__hf_linear(h, s.hidden, s.hidden, 1);
    vram__hf_norm(h, s.hidden);
    vram__hf_linear(h, s.hidden, s.width, 1);
    vram__hf_linear(h, s.width, s.hidden, 1);
  }
  return s.hidden;
}

/* CLIPTextModel, SiglipTextModel */
static uint64_t vram__hf_text_tower(vram__hf *h, const vram__hf_family *w) {
  const int is_siglip = vram__hf_has(h, VRAM__HF_SIGLIP);
  vram_hf_config *const c = h->c;
  const vram__hf_stack s = vram__hf_stack_of(h, w);
  c->vocab = vram__hf_number(h, "vocab_size", w->vocab);
  c->hidden = s.hidden;
  c->heads = s.heads;
  c->intermediate = s.width;
  vram__hf_add(h, c->vocab, s.hidden);
  vram__hf_add(h, vram__hf_number(h, "max_position_embeddings", is_siglip ? 64 : 77), s.hidden);
  vram__hf_tower(h, &s, 1);
  if (is_siglip)
    vram__hf_linear(h, s.hidden, vram__hf_number(h, "projection_size", s.hidden), 1);
  return s.hidden;
}

static const vram__hf_family *vram__hf_family_of(const char *type) {
  return vram__hf_find(type, vram__text_len(type));
}

/* Keys of CLIPConfig: text_config_dict, where it is there, is what counts, with what is set where
   its keys are missing. */
static const char *vram__hf_tower_prefix(const vram__hf *h, const char *dict, const char *plain) {
  const uint32_t n = vram__text_len(dict);
  const vram_file_value *v;
  for (v = h->f->value_first; v; v = v->next)
    if (v->name_len > n && vram__text_equal(v->name, dict, n))
      return dict;
  return plain;
}

/* CLIPModel, SiglipModel: both towers, and a scale and a bias of what they say of each other. */
static void vram__hf_two_towers(vram__hf *h) {
  const int is_siglip = vram__hf_has(h, VRAM__HF_SIGLIP);
  const uint64_t shared = vram__hf_number(h, "projection_dim", 512);
  uint64_t width;
  h->prefix =
      is_siglip ? "text_config." : vram__hf_tower_prefix(h, "text_config_dict.", "text_config.");
  width = vram__hf_text_tower(
      h, vram__hf_family_of(is_siglip ? "siglip_text_model" : "clip_text_model"));
  if (!is_siglip)
    vram__hf_add(h, width, shared);
  vram__hf_add(h, 1, 1);
  if (is_siglip)
    vram__hf_add(h, 1, 1);
  h->c->text_params = h->params;
  h->prefix = is_siglip ? "vision_config."
                        : vram__hf_tower_prefix(h, "vision_config_dict.", "vision_config.");
  width = vram__hf_image_tower(
      h, vram__hf_family_of(is_siglip ? "siglip_vision_model" : "clip_vision_model"));
  if (!is_siglip)
    vram__hf_add(h, width, shared);
  h->prefix = "";
}

static void vram__hf_one_tower(vram__hf *h) {
  const uint64_t width = vram__hf_has(h, VRAM__HF_OF_TEXT) ? vram__hf_text_tower(h, h->family)
                                                           : vram__hf_image_tower(h, h->family);
  h->c->hidden = width;
  if (h->head == VRAM__HF_PROJECTS)
    vram__hf_add(h, width, vram__hf_number(h, "projection_dim", 512));
}

/* ---- the whole ---- */

/* The class that `architectures` names; the first of a family's where there is none. */
VRAM__FN void vram__hf_pair_class(vram__hf *h) {
  static const struct {
    const char *type, *name;
    uint8_t head;
  } known[] = {
      {"t5", "T5ForConditionalGeneration", VRAM__HF_GENERATES},
      {"t5", "T5Model", VRAM__HF_BARE},
      {"t5", "T5EncoderModel", VRAM__HF_ENCODES},
      {"mt5", "MT5ForConditionalGeneration", VRAM__HF_GENERATES},
      {"mt5", "MT5Model", VRAM__HF_BARE},
      {"mt5", "MT5EncoderModel", VRAM__HF_ENCODES},
      {"umt5", "UMT5ForConditionalGeneration", VRAM__HF_GENERATES},
      {"umt5", "UMT5Model", VRAM__HF_BARE},
      {"umt5", "UMT5EncoderModel", VRAM__HF_ENCODES},
      {"bart", "BartForConditionalGeneration", VRAM__HF_GENERATES},
      {"bart", "BartModel", VRAM__HF_BARE},
      {"bart", "BartForSequenceClassification", VRAM__HF_CLASSIFIES},
      {"mbart", "MBartForConditionalGeneration", VRAM__HF_GENERATES},
      {"mbart", "MBartModel", VRAM__HF_BARE},
      {"marian", "MarianMTModel", VRAM__HF_GENERATES},
      {"marian", "MarianModel", VRAM__HF_BARE},
      {"whisper", "WhisperForConditionalGeneration", VRAM__HF_GENERATES},
      {"whisper", "WhisperModel", VRAM__HF_BARE},
      {"vit", "ViTModel", VRAM__HF_BARE},
      {"vit", "ViTForImageClassification", VRAM__HF_CLASSIFIES},
      {"clip", "CLIPModel", VRAM__HF_BARE},
      {"clip_text_model", "CLIPTextModel", VRAM__HF_BARE},
      {"clip_text_model", "CLIPTextModelWithProjection", VRAM__HF_PROJECTS},
      {"clip_vision_model", "CLIPVisionModel", VRAM__HF_BARE},
      {"clip_vision_model", "CLIPVisionModelWithProjection", VRAM__HF_PROJECTS},
      {"siglip", "SiglipModel", VRAM__HF_BARE},
      {"siglip_text_model", "SiglipTextModel", VRAM__HF_BARE},
      {"siglip_vision_model", "SiglipVisionModel", VRAM__HF_BARE},
  };
  const vram_file_text *const name = vram__hf_class_name(h);
  const char *const type = h->family->type;
  uint32_t i;
  for (i = 0; i < sizeof known / sizeof *known; i++)
    if (vram__text_is(type, vram__text_len(type), known[i].type) &&
        (!name ||
         (name->count < 64 && vram__text_is(name->text, (uint32_t)name->count, known[i].name)))) {
      h->head = known[i].head;
      return;
    }
  if (name)
    vram__hf_no_class(h, name);
}

VRAM__FN void vram__hf_pair_read(vram__hf *h) {
  vram_hf_config *const c = h->c;
  if (vram__hf_has(h, VRAM__HF_T5))
    vram__hf_t5(h);
  else if (vram__hf_has(h, VRAM__HF_PAIR))
    vram__hf_pair(h);
  else if (vram__hf_has(h, VRAM__HF_TWO_TOWERS))
    vram__hf_two_towers(h);
  else if (vram__hf_has(h, VRAM__HF_OF_TEXT | VRAM__HF_OF_IMAGES))
    vram__hf_one_tower(h);
  else
    vram__hf_vit(h);
  if (!c->head_dim && c->heads)
    c->head_dim = c->hidden / c->heads;
  c->kv_heads = c->heads;
  c->v_head_dim = c->head_dim;
  c->layers = c->encoder_layers + c->full_layers;
  if (!c->text_params)
    c->text_params = h->params;
}
