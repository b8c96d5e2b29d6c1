/* >>read/hf_generate    config.json as a generation in the text form: the parts of
   transformers' generate() and its caches, as transformers 5.23 runs it with greedy search and
   attention sdpa (generation/utils.py, cache_utils.py, masking_utils.py, integrations/moe.py).
   Letters of hf_text.c, and
     %I %K %V   the tokens, a layer's keys and values
     %L %P      tokens that a layer's keys have; those of its cache before the step
     %O %G %Q   of a cache: its heads, their width of keys, of values
     %Z         masks that go with the model, each behind a space
     $W         what a sliding layer keeps: its window, or one less
     {G...}     a generation, {1...} one token a step, {k...} new keys go where the cache has them
     {I...}     prompts are padded: else generate() lets go of the mask once it has seen that all of
                it is set, before the first forward pass (GenerationMixin.generate(), _mask_length)
 */
#include "read/read.h"

/* clang-format off */

/* what generate() has made before the first forward pass, and holds from then on */
static const char vram__hf_lines_given[] =
  "{Icache mask_given shape=[N,Q] dtype=i64\n"
  "store mask_given\n}"
  "cache positions_given shape=[N,Q] dtype=i64\n"
  "store positions_given\n"
  "{Bcache right_padded shape=[1] dtype=bool\n"
  "store right_padded\n}"
  "cache unfinished shape=[N] dtype=i64\n"
  "cache ids shape=[N,{1T}{!10}] dtype=i64\n"
  "{Icache attention_mask shape=[N,{1T}{!10}] dtype=i64\n}"
  "cache position_ids shape=[N,{1T}{!10}] dtype=i64\n"
  "cache next_logits shape=[N,{1$v}{!10}] dtype=f32\n"
  "cache next_tokens shape=[N{!1,0}] dtype=i64\n"
  "cache ids_now shape=[N,S] dtype=i64\n"
  "cache position_now shape=[N,{11}{!10}] dtype=i64\n"
  "{Islice attention_mask_now {1attention_mask}{!1mask_given} dim=1 start=0\n}";

/* sdpa_mask, and eager_mask (e), which makes numbers of it: %p its name, %Y rows, %U columns, %i the mask that was passed on; 2, 3: one or two
   looks whether all of it is set, j only a part of it is used, p it is too short, a a window, A none
   is made. Without a mask to pass on no sequence differs from the others: %p is a view (%w) */
static const char vram__hf_lines_sdpa_mask[] =
  "{Ito %p.padding %i dtype=bool\n}"
  "{pzeros %p.padded shape=[N,%U] dtype=bool\n}"
  "{jarange %p.part shape=[%U] dtype=i64\n"
  "add %p.places %p.part scalar=1\n"
  "drop %p.part\n"
  "zeros %p.shown shape=[N,%U] dtype=bool\n"
  "drop %p.places %p.shown\n}"
  "{2zeros %p.one shape=[] dtype=i64\n"
  "zeros %p.ranks shape=[N,T] dtype=i64\n"
  "drop %p.ranks\n"
  "zeros %p.all shape=[] dtype=bool\n"
  "drop %p.one %p.all\n}"
  "{3zeros %p.one_1 shape=[] dtype=i64\n"
  "zeros %p.ranks_1 shape=[N,T] dtype=i64\n"
  "drop %p.ranks_1\n"
  "zeros %p.all_1 shape=[] dtype=bool\n"
  "drop %p.one_1 %p.all_1\n}"
  "{!Aarange %p.batch shape=[N] dtype=i64\n"
  "arange %p.head shape=[1] dtype=i64\n"
  "arange %p.q0 shape=[%Y] dtype=i64\n"
  "add %p.q %p.q0 scalar=1\n"
  "arange %p.kv0 shape=[%U] dtype=i64\n"
  "add %p.kv %p.kv0 scalar=1\n"
  "{Iones %p.ones shape=[] dtype=bool\n}"
  "{aones %p.ones_1 shape=[] dtype=bool\n"
  "zeros %p.first shape=[%Y] dtype=i64\n"
  "zeros %p.window shape=[%Y,%U] dtype=bool\n"
  "drop %p.first\n"
  "zeros %p.and_1 shape=[%Y,%U] dtype=bool\n"
  "drop %p.window %p.ones_1\n}"
  "zeros %p.causal shape=[%Y,%U] dtype=bool\n"
  "{azeros %p.and_2 shape=[%Y,%U] dtype=bool\n"
  "drop %p.causal %p.and_1\n}"
  "{Izeros %p.and shape=[%Y,%U] dtype=bool\n"
  "drop {!a%p.causal}{a%p.and_2} %p.ones\n"
  "zeros %p.index shape=[%U] dtype=i64\n"
  "zeros %p.gathered shape=[N,%U] dtype=bool\n"
  "drop %p.index\n"
  "zeros %p{e.bool} shape=[N,1,%Y,%U] dtype=bool\n"
  "drop %p.gathered %p.and %p.batch %p.head %p.q %p.kv{e{p %p.padded}}\n}"
  "{!Iexpand {e%p.bool}{!e%w} {!a%p.causal}{a%p.and_2} shape=[N,1,%Y,%U]\n"
  "drop %p.batch %p.head %p.q %p.kv\n}"
  "{ezeros %p.zeros shape=[] dtype=model\n"
  "where %p %p.bool %p.zeros scalar=1\n"
  "{!Idrop {!a%p.causal}{a%p.and_2}\n}}}"
  "{Idrop %p.padding{p{!e %p.padded}}\n}";

/* DynamicLayer; DynamicSlidingWindowLayer (y), which keeps a part of what it gives (z) */
static const char vram__hf_lines_dynamic[] =
  "{ycache %Awindow shape=[] dtype=i64\n"
  "store %Awindow\n}"
  "cache %Ak_cache shape=[N,%O,%P,%G] dtype=model\n"
  "cat %Ak_all %Ak_cache %k dim=2\n"
  "{!ystore %Ak_cache %Ak_all\n}"
  "cache %Av_cache shape=[N,%O,%P,%Q] dtype=model\n"
  "cat %Av_all %Av_cache %v dim=2\n"
  "{!ystore %Av_cache %Av_all\n}"
  "{zslice %Ak_kept %Ak_all dim=2 start=-$W\n"
  "slice %Av_kept %Av_all dim=2 start=-$W\n}"
  "{ystore %Ak_cache {z%Ak_kept}{!z%Ak_all}\n"
  "store %Av_cache {z%Av_kept}{!z%Av_all}\n}"
  "drop %k %l\n"
  "~K|%Ak_all\n~V|%Av_all\n";

/* Such layers that are offloaded: of what was brought back (or is there: b) and what is new the
   window goes to the host, as one piece; all of it lives until attention is through */
static const char vram__hf_lines_offloaded[] =
  "{ycache %Awindow shape=[] dtype=i64\n"
  "store %Awindow\n}"
  "{!1empty %Ak_back shape=[N,%O,0,%G] dtype=model\n"
  "empty %Av_back shape=[N,%O,0,%Q] dtype=model\n}"
  "cat %Ak_all %Ak_{bcache}{!bback} %k dim=2\n"
  "{!ydrop %Ak_{bcache}{!bback}\n}"
  "cat %Av_all %Av_{bcache}{!bback} %v dim=2\n"
  "drop{y %Ak_{bcache}{!bback}} %Av_{bcache}{!bback}\n"
  "{zslice %Ak_kept %Ak_all dim=2 start=-$W\n"
  "slice %Av_kept %Av_all dim=2 start=-$W\n"
  "contiguous %Ak_sent %Ak_kept\n"
  "drop %Ak_sent\n"
  "contiguous %Av_sent %Av_kept\n"
  "drop %Av_sent\n}"
  "drop %k %l\n"
  "~K|%Ak_all\n~V|%Av_all\n";

/* the layer behind it is brought back on a stream of its own; behind the last one (a) it is the
   first, for the next step */
static const char vram__hf_lines_fetched[] =
  "empty %Ak_{anext}{!aback} shape=[N,%O,%U,%G] dtype=model stream=1\n"
  "empty %Av_{anext}{!aback} shape=[N,%O,%U,%Q] dtype=model stream=1\n"
  "{astore %Ak_cache %Ak_next\n"
  "store %Av_cache %Av_next\n}";

/* StaticLayer, StaticSlidingWindowLayer: index_copy_, or of a window that is full (0) a rotation;
   of a prompt that is longer than the window (x) only copies. c: the empty rest is cut off */
static const char vram__hf_lines_static[] =
  "cache %Ak_cache shape=[N,%O,%P,%G] dtype=model\n"
  "store %Ak_cache\n"
  "cache %Av_cache shape=[N,%O,%P,%Q] dtype=model\n"
  "store %Av_cache\n"
  "cache %Alength shape=[] dtype=i64\n"
  "store %Alength\n"
  "{!0{!xarange %Arange shape=[S] dtype=i64\n"
  "add %Aposition %Arange scalar=1\n"
  "drop %Arange\n"
  "drop %Aposition\n}}"
  "{0empty %Ak_new shape=[N,%O,%P,%G] dtype=model\n"
  "empty %Av_new shape=[N,%O,%P,%Q] dtype=model\n"
  "empty %Alast shape=[1] dtype=i64\n"
  "drop %Ak_new %Av_new %Alast\n}"
  "{!xdrop %k %l\n}"
  "{!x~K|%Ak_cache\n~V|%Av_cache\n}"
  "{x~K|%k\n~V|%v\n}"
  "{cslice %Ak_cut %Ak_cache dim=2 end=S\n"
  "slice %Av_cut %Av_cache dim=2 end=S\n~K|%Ak_cut\n~V|%Av_cut\n}";

/* the head: logits of the last token */
static const char vram__hf_lines_head[] =
  "slice head.last %n dim=1 start=-1\n"
  "linear lm_head head.last out_features=$v{T weights=%t}{!H bias=0}\n"
  "<logits>"
  "drop %E%n head.last{M lm_head}{Y lm_head}{V lm_head}\n"
  "<frequencies>";

/* the next token, and what the next forward pass gets; E: there is an end of sequences */
static const char vram__hf_lines_greedy[] =
  "slice next.last {1position_ids}{!1positions_given} dim=1 start=-1\n"
  "add next.at next.last scalar=1\n"
  "add next.at_1 next.at scalar=1\n"
  "drop next.at\n"
  "add next.at_2 next.at_1 scalar=1\n"
  "drop next.at_1\n"
  "cat next.position {1position_ids}{!1positions_given} next.at_2 dim=-1\n"
  "drop next.at_2\n"
  "{Iones next.one shape=[N,1] dtype=i64\n"
  "cat next.given {1attention_mask}{!1mask_given} next.one dim=-1\n"
  "drop next.one attention_mask attention_mask_now\n}"
  "drop position_ids\n"
  "select next.row %o dim=1 index=-1\n"
  "empty next.logits shape=[N,$v] dtype=f32\n"
  "drop next_logits\n"
  "argmax next.token0 next.logits dim=-1\n"
  "{Emul next.token1 next.token0 unfinished\n"
  "sub next.left unfinished scalar=1\n"
  "clone next.padded next.left\n"
  "drop next.left\n"
  "add next.token next.token1 next.padded\n"
  "drop next.token1 next.padded next.token0 next_tokens\n}"
  "{!Edrop next_tokens\n}"
  "unsqueeze next.column {Enext.token}{!Enext.token0} dim=1\n"
  "cat next.ids {1ids}{!1input_ids} next.column dim=-1\n"
  "drop next.column ids\n"
  "zeros next.done shape=[N] dtype=bool\n"
  "mul next.unfinished unfinished next.done\n"
  "drop next.done unfinished\n"
  "drop %o next.row\n"
  "arange next.now shape=[N,1] dtype=i64\n"
  "arange next.position_now shape=[N,1] dtype=i64\n";

static const char vram__hf_lines_kept[] =
  "store unfinished next.unfinished\n"
  "store ids next.ids\n"
  "{Istore attention_mask next.given\n}"
  "store position_ids next.position\n"
  "store next_logits next.logits\n"
  "store next_tokens {Enext.token}{!Enext.token0}\n"
  "store ids_now next.now\n"
  "store position_now next.position_now\n"
  "output next.now\n";
/* clang-format on */

/* ---- sizes ---- */

static int vram__hf_static(const vram__hf_pen *w) { return w->size.cache == VRAM_HF_STATIC; }

/* Tokens that a static cache has room for. */
static uint64_t vram__hf_room(const vram__hf_pen *w) {
  return w->size.tokens + w->size.new_tokens - 1;
}

/* Does the whole window fit into a cache that is as long as the generation? */
static int vram__hf_has_window(const vram__hf_pen *w) {
  return !vram__hf_static(w) || w->c.window <= vram__hf_room(w);
}

/* Tokens before a step from which on a window is full; 0: it never is. */
static uint64_t vram__hf_full_at(const vram__hf_pen *w) {
  if (!w->c.sliding_layers || !vram__hf_has_window(w))
    return 0;
  return vram__hf_static(w) ? w->c.window : w->c.window - 1;
}

/* Is there such a part? */
VRAM__FN int vram__hf_part_is(vram__hf_pen *w, uint32_t part) {
  const uint64_t full = vram__hf_full_at(w), prompt = w->size.tokens,
                 last = prompt + w->size.new_tokens - 2; /* tokens before the last step */
  if (part == VRAM__HF_PROMPT)
    return 1;
  if (w->size.new_tokens < 2)
    return 0;
  return part == VRAM__HF_TOKEN ? !full || prompt < full : full && last >= full;
}

/* ---- masks ---- */

typedef struct vram__hf_mask {
  int slides, is_made;
  uint32_t looks; /* whether all of the mask is set */
} vram__hf_mask;

/* _ignore_causal_mask_sdpa: without padding none is made where the kernel can say it; for one token
   of a static cache it always is. */
static vram__hf_mask vram__hf_mask_of(const vram__hf_pen *w, int slides, uint32_t part) {
  vram__hf_mask m;
  const uint64_t window = w->c.window;
  const int is_long = part == VRAM__HF_PROMPT &&
                      (vram__hf_static(w) ? vram__hf_has_window(w) : w->size.tokens >= window);
  m.slides = slides;
  m.is_made = w->size.is_padded || w->size.is_eager;
  m.looks = 0;
  if (w->size.is_eager)
    return m;
  if ((vram__hf_static(w) && part != VRAM__HF_PROMPT) ||
      (slides && (is_long || part == VRAM__HF_FULL)))
    m.is_made = 1;
  else if (m.is_made)
    m.looks = part == VRAM__HF_PROMPT && !vram__hf_static(w) ? 2 : 1;
  return m;
}

/* Columns of a mask: keys of such a layer. */
static void vram__hf_columns(vram__hf_pen *w, char name, int slides, uint32_t part) {
  int is_short;
  slides |=
      !w->c.full_layers; /* get_mask_sizes asks the first layer if there is none of the kind */
  is_short = slides && vram__hf_has_window(w);
  *vram__hf_number_of(w, 'W') = w->c.window - !vram__hf_static(w);
  *vram__hf_number_of(w, 'w') = w->c.window;
  if (!vram__hf_static(w))
    vram__hf_set(w, name, part == VRAM__HF_FULL && slides ? "$w" : "T");
  else if (is_short && part == VRAM__HF_PROMPT && w->size.tokens > w->c.window)
    vram__hf_set(w, name, "S");
  else
    vram__hf_set(w, name, is_short ? "$w" : "M");
}

/* %p. next: it is that of the step behind this one. */
static void vram__hf_name_mask(vram__hf_pen *w, int slides, int next) {
  vram__hf_set(w, 'p',
               next     ? slides ? "next.sliding_mask" : "next.mask"
               : slides ? "sliding_mask"
                        : "mask");
}

/* The lines of one mask. */
static void vram__hf_say_mask(vram__hf_pen *w, int slides, uint32_t part, int next) {
  const vram__hf_mask m = vram__hf_mask_of(w, slides, part);
  const int is_cut = vram__hf_static(w) && slides &&
                     (part == VRAM__HF_FULL || (part == VRAM__HF_PROMPT && vram__hf_has_window(w) &&
                                                w->size.tokens > w->c.window));
  vram__hf_columns(w, 'U', slides, part);
  vram__hf_name_mask(w, slides, next);
  vram__hf_set(w, 'w', vram__hf_static(w) ? "%p.wide" : "%p");
  vram__hf_set(w, 'i', next ? "next.given" : "attention_mask_now");
  vram__hf_set(w, 'Y', next ? "1" : "S");
  *vram__hf_flag_of(w, 'a') = (uint8_t)slides;
  *vram__hf_flag_of(w, 'A') = (uint8_t)!m.is_made;
  *vram__hf_flag_of(w, '2') = m.looks > 0;
  *vram__hf_flag_of(w, '3') = m.looks > 1;
  *vram__hf_flag_of(w, 'j') = part == VRAM__HF_FULL && slides && !vram__hf_static(w);
  *vram__hf_flag_of(w, 'p') = (uint8_t)(vram__hf_static(w) && !is_cut);
  vram__hf_say(w, NULL, vram__hf_lines_sdpa_mask, "");
}

/* Which kinds of masks the model asks for: of full attention, of windows. */
static int vram__hf_asks(vram__hf_pen *w, int slides) {
  if (vram__hf_static(w)) /* create_masks_for_generate: those of the layers */
    return slides ? w->c.sliding_layers != 0 : w->c.full_layers != 0;
  return *vram__hf_flag_of(w, slides ? 'O' : 'F');
}

/* prepare_inputs_for_generation: of views (none for eager attention) that stand for the masks of a
   static cache copies are made, one for each sequence, none where there is one sequence; then the
   views go. */
static void vram__hf_copy_masks(vram__hf_pen *w, uint32_t part, int next) {
  int i;
  for (i = 0; i < 4; i++) {
    const int slides = i & 1;
    if (w->size.is_padded || w->size.is_eager || !vram__hf_asks(w, slides) ||
        !vram__hf_mask_of(w, slides, part).is_made)
      continue;
    vram__hf_name_mask(w, slides, next);
    if (i < 2)
      vram__hf_say(w, NULL, "contiguous %p %p.wide\n", "");
    else
      vram__hf_say(w, NULL, slides ? "drop %p.and_2 %p.wide\n" : "drop %p.causal %p.wide\n", "");
  }
}

/* The part of the step behind this one. */
static uint32_t vram__hf_part_next(vram__hf_pen *w) {
  return w->part == VRAM__HF_PROMPT && vram__hf_part_is(w, VRAM__HF_TOKEN) ? VRAM__HF_TOKEN
         : w->part == VRAM__HF_TOKEN                                       ? VRAM__HF_TOKEN
                                                                           : VRAM__HF_FULL;
}

/* ---- the parts ---- */

/* How many of bos, eos and pad a family has where the file says nothing; behind the last: others.
 */
static const struct {
  const char *type;
  uint8_t has[4];
} vram__hf_specials[] = {{"qwen2", {0, 0, 0, 0}},       {"qwen3", {0, 0, 0, 0}},
                         {"qwen3_moe", {0, 0, 0, 0}},   {"gemma", {1, 1, 1, 0}},
                         {"gemma3_text", {1, 1, 1, 0}}, {"olmo", {0, 1, 1, 0}},
                         {"olmo2", {0, 1, 1, 0}},       {"glm", {0, 3, 1, 0}},
                         {"glm4", {0, 3, 1, 0}},        {"ernie4_5", {1, 1, 1, 0}},
                         {"seed_oss", {1, 1, 1, 0}},    {"hunyuan_v1_dense", {1, 1, 1, 0}},
                         {"cohere", {1, 1, 1, 0}},      {"cohere2", {1, 1, 1, 0}},
                         {"smollm3", {1, 1, 1, 0}},     {"gemma2", {1, 1, 1, 0}},
                         {"gemma3", {1, 1, 1, 0}},      {"phi3", {1, 1, 1, 0}},
                         {"olmo3", {0, 1, 1, 0}},       {"opt", {1, 1, 1, 0}},
                         {"olmoe", {0, 1, 1, 0}},       {"glm4_moe", {0, 0, 0, 0}},
                         {"gpt_oss", {0, 0, 0, 0}},     {"dots1", {0, 0, 0, 0}},
                         {"qwen2_moe", {0, 0, 0, 0}},   {"", {1, 1, 0, 0}}};

/* bos, eos and pad as tensors; E: there is an end, B: generate() has looked for padding. */
static void vram__hf_special(vram__hf_pen *w) {
  static const char line[] = "cache special_$# shape=[$8] dtype=i64\nstore special_$#\n";
  static const char *const key[] = {"bos_token_id", "eos_token_id", "pad_token_id",
                                    "decoder_start_token_id"};
  uint32_t i, k = 0;
  while (*vram__hf_specials[k].type &&
         !vram__text_is(w->c.family, vram__text_len(w->c.family), vram__hf_specials[k].type))
    k++;
  for (i = 0; i < 4; i++) {
    const vram_file_value *const v = vram__hf_value(&w->h, key[i]);
    const uint64_t many = v ? v->kind == VRAM_VALUE_ARRAY  ? v->count
                              : v->kind == VRAM_VALUE_NULL ? 0
                                                           : 1
                            : vram__hf_specials[k].has[i];
    if (i == 1)
      *vram__hf_flag_of(w, 'E') = many != 0;
    if (i == 1 || (i == 2 && many)) /* what pads; without pad it is the end */
      *vram__hf_flag_of(w, 'B') = many && *vram__hf_number_of(w, 'N') > 1;
    *vram__hf_number_of(w, '8') = many;
    *vram__hf_number_of(w, '#') = i;
    if (many)
      vram__hf_say(w, NULL, line, "");
  }
}

/* The masks of a step: a static cache's are made before it. */
static void vram__hf_part_masks(vram__hf_pen *w) {
  int slides;
  *vram__hf_name_of(w, 'Z') = 0;
  for (slides = 0; slides < 2; slides++) {
    const vram__hf_mask m = vram__hf_mask_of(w, slides, w->part);
    if (!vram__hf_asks(w, slides))
      continue;
    vram__hf_columns(w, 'U', slides, w->part);
    vram__hf_set(w, 'p', slides ? "sliding_mask" : "mask");
    if (vram__hf_static(w) && w->part)
      vram__hf_say(w, NULL, "cache %p shape=[N,1,1,%U] dtype={emodel}{!ebool}\n", "");
    else if (vram__hf_static(w))
      vram__hf_say(w, NULL, "cache %p_later shape=[N,0] dtype=bool\n", "");
    if (!vram__hf_static(w) || !w->part)
      vram__hf_say_mask(w, slides, w->part, 0);
    if (m.is_made && !vram__hf_static(w))
      vram__hf_set(w, 'Z',
                   !slides                                 ? " mask"
                   : *vram__hf_name_of(w, 'Z')             ? " mask sliding_mask"
                   : w->size.is_padded || w->size.is_eager ? " sliding_mask"
                                                           : " sliding_mask.and_2 sliding_mask");
  }
  if (vram__hf_static(w) && !w->part)
    vram__hf_copy_masks(w, w->part, 0);
}

/* Masks that the model makes in a step: none of a static cache. */
VRAM__FN void vram__hf_generated_masks(vram__hf_pen *w) {
  if (!vram__hf_static(w))
    vram__hf_part_masks(w);
}

/* %U: what layer i of an offloaded cache has when the step begins, or when it ends. */
static void vram__hf_kept_tokens(vram__hf_pen *w, uint64_t i, int is_end) {
  const int slides = vram__hf_slides(&w->h, i);
  const int is_cut = is_end && w->part == VRAM__HF_PROMPT && w->size.tokens >= w->c.window;
  *vram__hf_number_of(w, 'W') = w->c.window - 1;
  vram__hf_set(w, 'U',
               slides && (is_cut || w->part == VRAM__HF_FULL) ? "$W"
               : is_end                                       ? "T"
               : w->part                                      ? "P"
                                                              : "0");
}

/* Of an offloaded cache one layer is there when a step begins: the first. */
static void vram__hf_part_offloaded(vram__hf_pen *w) {
  vram__hf_path(w, 0);
  vram__hf_set(w, 'A', "@self_attn.");
  vram__hf_kept_tokens(w, 0, 0);
  vram__hf_say(w, NULL,
               "cache %Ak_cache shape=[N,%O,%U,%G] dtype=model\n"
               "cache %Av_cache shape=[N,%O,%U,%Q] dtype=model\n",
               "");
}

VRAM__FN void vram__hf_part_begin(vram__hf_pen *w, uint32_t part) {
  static const char dims[] = "dim N=$N S={11}{!1$S} P={1$S}{!10} T={1$T}{!1$S}{c M=$M} Q=$S\n";
  const uint64_t full = vram__hf_full_at(w);
  w->part = part;
  *vram__hf_flag_of(w, 'G') = 1;
  *vram__hf_flag_of(w, '1') = part != VRAM__HF_PROMPT;
  *vram__hf_flag_of(w, 'D') = 0;
  *vram__hf_flag_of(w, 'I') = w->size.is_padded;
  *vram__hf_flag_of(w, 'e') = w->size.is_eager;
  *vram__hf_number_of(w, 'T') = w->size.tokens + 1;
  *vram__hf_number_of(w, 'M') = vram__hf_room(w);
  *vram__hf_number_of(w, 'F') = full;
  if (part == VRAM__HF_FULL && vram__hf_part_is(w, VRAM__HF_TOKEN))
    vram__hf_say(w, NULL, "decode P=$F\n", "");
  else if (part)
    vram__hf_say(w, NULL, "decode\n", "");
  if (part)
    vram__hf_say(w, NULL, "model %J dtype=%D\n", "");
  *vram__hf_flag_of(w, 'c') = (uint8_t)vram__hf_static(w);
  vram__hf_say(w, NULL, dims, "");
  vram__hf_say(w, NULL, "input input_ids i64 [N,Q]\n", "");
  vram__hf_special(w);
  vram__hf_say(w, NULL, vram__hf_lines_given, "");
  vram__hf_set(w, 'O', w->c.kv_lora_rank ? "1" : "$k");
  vram__hf_set(w, 'G', w->c.kv_lora_rank ? "$c" : "$d"); /* the latent */
  vram__hf_set(w, 'Q', w->c.kv_lora_rank ? "$j" : "$d"); /* what is rotated */
  if (w->size.cache == VRAM_HF_OFFLOADED)
    vram__hf_part_offloaded(w);
  vram__hf_set(w, 'I', "ids_now");
  if (vram__hf_static(w))
    vram__hf_part_masks(w);
}

/* Cache.update() of a layer that is offloaded: DynamicCache leaves no windows where they are. */
VRAM__FN void vram__hf_generated_cache(vram__hf_pen *w) {
  const uint64_t layer = w->layer;
  const int is_last = layer + 1 == w->c.layers;
  if (w->size.cache != VRAM_HF_OFFLOADED) {
    vram__hf_say(w, NULL, w->cache, "");
    return;
  }
  *vram__hf_flag_of(w, 'a') = (uint8_t)is_last;
  if (is_last || w->part) {
    const uint64_t fetched = is_last ? 0 : layer + 1;
    vram__hf_kept_tokens(w, fetched, is_last);
    vram__hf_path(w, fetched);
    vram__hf_set(w, 'A', "@self_attn.");
    vram__hf_say(w, NULL, vram__hf_lines_fetched, "");
    vram__hf_path(w, layer);
    vram__hf_set(w, 'A', "@self_attn.");
  }
  *vram__hf_flag_of(w, 'b') = w->part && !layer;
  vram__hf_say(w, NULL, vram__hf_lines_offloaded, "");
  *vram__hf_flag_of(w, 'b') = w->has_bias;
}

VRAM__FN void vram__hf_part_layer(vram__hf_pen *w, int slides) {
  const int is_static = vram__hf_static(w), is_one = w->part != VRAM__HF_PROMPT,
            is_window = slides && vram__hf_has_window(w),
            is_over = is_static && is_window && !is_one && w->size.tokens > w->c.window;
  const vram__hf_mask m = vram__hf_mask_of(w, slides, w->part);
  const int is_cut = is_static && !is_one && !m.is_made && !is_over;
  vram__hf_columns(w, 'L', slides, w->part);
  if (is_cut)
    vram__hf_set(w, 'L', "S");
  if (is_static)
    vram__hf_set(w, 'P', is_window ? "$w" : "M");
  else
    vram__hf_set(w, 'P', w->part == VRAM__HF_FULL && slides ? "$W" : "P");
  w->cache = is_static ? vram__hf_lines_static : vram__hf_lines_dynamic;
  vram__hf_set(w, 's', slides ? "sliding_mask" : "mask");
  *vram__hf_flag_of(w, 'w') = (uint8_t)m.is_made;
  *vram__hf_flag_of(w, 'k') = (uint8_t)!is_over;
  *vram__hf_flag_of(w, ':') = w->size.cache == VRAM_HF_OFFLOADED;
  *vram__hf_flag_of(w, 'y') = (uint8_t)slides;
  *vram__hf_flag_of(w, 'z') = slides &&
                              (w->part == VRAM__HF_FULL || w->size.tokens > w->c.window - 1) &&
                              w->part != VRAM__HF_TOKEN;
  *vram__hf_flag_of(w, '0') = is_static && is_window && w->part == VRAM__HF_FULL;
  *vram__hf_flag_of(w, 'x') = (uint8_t)is_over;
  *vram__hf_flag_of(w, 'c') = (uint8_t)is_cut;
}

VRAM__FN void vram__hf_part_end(vram__hf_pen *w) {
  const int is_static = vram__hf_static(w);
  int slides;
  vram__hf_say(w, NULL, vram__hf_lines_head, "");
  vram__hf_say(w, NULL, "drop ids_now{1 position_now %Bunsqueeze}\n", "");
  for (slides = 0; is_static && !w->part && slides < 2; slides++)
    if (vram__hf_asks(w, slides) && vram__hf_mask_of(w, slides, w->part).is_made)
      vram__hf_say(w, NULL, slides ? "drop sliding_mask\n" : "drop mask\n", "");
  vram__hf_say(w, NULL, vram__hf_lines_greedy, "");
  for (slides = 0; is_static && slides < 2; slides++)
    if (vram__hf_asks(w, slides))
      vram__hf_say_mask(w, slides, vram__hf_part_next(w), 1);
  if (is_static)
    vram__hf_copy_masks(w, vram__hf_part_next(w), 1);
  for (slides = 0; is_static && slides < 2; slides++)
    if (vram__hf_asks(w, slides)) {
      vram__hf_set(w, 'p', slides ? "sliding_mask" : "mask");
      vram__hf_say(w, NULL, "{1drop %p\n}store {1%p}{!1%p_later} next.%p\n", "");
    }
  vram__hf_say(w, NULL, vram__hf_lines_kept, "");
}
