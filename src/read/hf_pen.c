/* >>read/hf_pen    what writes lines of the text form: letters of the tables of lines (hf_lines.c
   and its kin, hf_generate.c, diffusers.c) become names, numbers and other lines.
     @       the path of the layer, "model.layers.3."
     $c      a number: h hidden, n heads, k heads of keys, d head_dim, r half of what is rotated,
             Q n*d, K k*d, i intermediate, v vocab, g n/k, e experts, t of them for a token,
             m their width; and those below
     %c      a name: B before those of the decoder, "model."; x a layer's input, n and m what its
             norms give, y what attention adds, p and i path and input of a norm or activation, e
             the embedding, t the weights of a tied head
     {c...}  only where flag c is set, {!c...} only where it is not; {'c...}, {!'c...}: flags of
             mixers and experts, a set of their own
     <name|argument|...>       a part, where %1, %2, ... are the arguments
     <*name>, <#name>          a part for each token or each layer, whose number is $#
     ~c|name                   %c is this name from now on
     &path|input|c|size|drop   a norm of so many elements; its output's name becomes %c. drop: what
                               goes with its input, which autocast gives another dtype, - nothing;
                               behind =: of which it does not; behind +: at the end of the model
     ^path|input|c             the activation
     ;path|c|D                 dropout of %c, whose name becomes the path: only where flag D is set,
                               with p=%D

   Numbers of decoders and encoders (hf_text.c)
     $N $S   sequences, tokens                  $2 $3 $6   2m, 3h, 2i
     $p $y   learned positions, token types     $4 $5 $9   (n+2k)d, (n+k)d, 3d
     $E $7   width of the embedding, classes    $R $#      what is rotated, number of a round
   of parts, which may take the place of those above (hf_numbers.c says what they are)
     $a $b $c $f $j $x $y $B $O        latent attention
     $s $E $G $U                       experts: their shared width, groups of them
     $l $I $L $P $o $x $*              mixers
     $A $C $D $H $X $Z $c $q $u $w $y $z   Mamba-2's
   and of a generation (hf_generate.c): $F $M $T $W $8 $w

   Names
     %A %N   of attention, "@self_attn."; of layers     %M %r   of a mixer or experts; of angles
     %I %L   the tokens; how many keys there are        %s %T   a mask; the dtype of a result
     %q %k %v %K %V   what is new of queries, keys and values; all keys and values
     %j %f   what is rotated, and what comes of it      %l      what keys and values came of
     %D %C %S %9   p of dropout                         %d %z   what a norm lets go of, its size
     %b %c %g %o %u %y %w %W %E %F %H %X   of some parts, which say it
     %J %P %U %Y %Z   of a generation (hf_generate.c)

   Flags of a row (behind a ': those of mixers and experts)
     n  nothing is rotated                      7  a part of a head may be
     N  some layers do not rotate               ^  only layers that slide do
     s  neighbours are rotated                  ?  angles stay f32
     R  other angles where windows slide        5  a mask of windows is made always
     q  norms of heads before they become       Q  and behind that
        an axis of their own                    4  norms of queries and keys
     K  weights of experts are made to sum 1    X  Mixtral's router
     L  gelu means the default                  U  a fused matrix is activated
     Y  sums of what is multiplied (Granite)    H  the head has a bias
     V  logits are capped                       M  logits are multiplied
     Z  attention is capped; of GPT-NeoX: it stands beside the MLP, not before it
     e  attention is eager                      r  OPT
     x  positions are defined last (RoBERTa)
     't S is a number in the text               'l the head takes the model's dtype
     'h Falcon-H1                               'j Jamba
     'f Falcon-Mamba                            'p neighbours are rotated (latent attention)
     'g routers are defined before norms        'k a mask of windows is made always
     'w matrices of experts lie the other way, with biases
   Flags of a config.json
     b o u  biases of queries, keys and values; of what follows attention; of the MLP. Of an
        encoder: b the embedding has a width of its own, o the last layer lets go of it
     T  the head is tied                        J  all of a head is rotated
     g  fewer heads of keys                     /  one of them
     6  one group of experts                    h i  layers of full attention, such that slide
     F O  masks of both are made                W  the window is not longer than S
     m t v  an encoder's head of words, of classes; it has a pooler
     D C S 9  dropout of attention, of what blocks give, of the embedding, of a head
     _ - + =  that it is 0, so that what goes in is what comes out
     'c  queries are compressed; of mixers: a convolution without bias
     'b 'o 'u  biases of what goes into a mixer, comes out, of a short convolution
     'n 'p  a norm, and that it stands before the gate
     'r  residuals are f32                      's 'v  one chunk; the last one is not full
   Flags of a layer
     P  it does not rotate                      y  it slides
     w  it has a mask                           l  it is not the first one
     8  it has experts                          'm  a mixer stands for attention
   of a norm: d, f (see &); of a round: 'a the last one, 'd each 256th; of a generation: G it is
   one, and 0 1 2 3 : A B E I a b c j k p x y z (hf_generate.c)

   Rows and heads of denoiser.c, video.c and diffusers.c explain letters of their own. */
#include "read/read.h"

/* ---- parts ---- */

static vram__hf_book vram__hf_book_of(uint32_t i) {
  return i == 0   ? vram__hf_decoders()
         : i == 1 ? vram__hf_expert_decoders()
         : i == 2 ? vram__hf_latent_decoders()
         : i == 3 ? vram__hf_state_decoders()
         : i == 4 ? vram__hf_denoisers()
         : i == 5 ? vram__hf_videos()
                  : vram__hf_encoders();
}
enum { VRAM__HF_BOOKS = 7 };

VRAM__FN const vram__hf_lines *vram__hf_lines_find(const char *type) {
  uint32_t i, k;
  for (i = 0; i < VRAM__HF_BOOKS; i++) {
    const vram__hf_book b = vram__hf_book_of(i);
    for (k = 0; k < b.rows; k++)
      if (vram__text_is(type, vram__text_len(type), b.row[k].type))
        return b.row + k;
  }
  return NULL;
}

VRAM__FN const vram__hf_part *vram__hf_part_find(const char *name, uint32_t len) {
  uint32_t i, k;
  for (i = 0; i < VRAM__HF_BOOKS; i++) {
    const vram__hf_book b = vram__hf_book_of(i);
    for (k = 0; k < b.parts; k++)
      if (vram__text_is(name, len, b.part[k].name))
        return b.part + k;
  }
  return NULL;
}

/* ---- letters ---- */

VRAM__FN void vram__hf_flush(vram__hf_pen *w) {
  if (w->used && !w->h.result && w->sink->write(w->sink->user, w->text, w->used))
    vram__hf_fail(&w->h, VRAM_ERR_WRITE, "the text could not be written", "");
  w->used = 0;
}

VRAM__FN void vram__hf_put(vram__hf_pen *w, const char *s, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++) {
    if (w->used == sizeof w->text)
      vram__hf_flush(w);
    w->text[w->used++] = s[i];
  }
}

static void vram__hf_letters(vram__hf_pen *w, vram__hf_target *t, const char *s) {
  if (t) {
    vram__text_puts(t->to, t->cap, &t->n, s);
    if (t->n + 1 >= t->cap)
      vram__hf_fail(&w->h, VRAM_ERR_VALUE, "names of modules are too long: ", w->c.family);
  } else
    vram__hf_put(w, s, vram__text_len(s));
}

/* Behind a bracket: what its flag says, and where its text begins. */
static const char *vram__hf_condition(vram__hf_pen *w, const char *s) {
  const int is_not = *s == '!', is_mixer = s[is_not] == '\'';
  uint32_t depth = 1;
  s += is_not + is_mixer;
  if ((*(is_mixer ? vram__hf_mixer_flag(w, *s) : vram__hf_flag_of(w, *s)) != 0) != is_not)
    return s + 1;
  for (s++; *s && depth; s++)
    depth += (uint32_t)(*s == '{') - (uint32_t)(*s == '}');
  return s;
}

static const char *vram__hf_include(vram__hf_pen *w, vram__hf_target *t, const char *s);
static void vram__hf_argument(vram__hf_pen *w, vram__hf_target *t, char number);
static const char *vram__hf_module(vram__hf_pen *w, const char *s);
static const char *vram__hf_dropout(vram__hf_pen *w, const char *s);
static const char *vram__hf_rename(vram__hf_pen *w, const char *s);

/* Is it the dim S, and not a letter of a word? */
static int vram__hf_is_dim(const char *s) {
  return vram__text_holds("[,*=", 4, s[-1]) && vram__text_holds(",]*\n ", 5, s[1]);
}

/* S, where lines are made for a number of tokens: the number, times $c if it stands behind. */
static const char *vram__hf_tokens_say(vram__hf_pen *w, vram__hf_target *t, const char *s) {
  const int is_product = s[1] == '*' && s[2] == '$' && s[3];
  const uint64_t factor = is_product ? *vram__hf_number_of(w, s[3]) : 1;
  char digits[24];
  uint32_t n = 0;
  vram__text_putu(digits, sizeof digits, &n,
                  vram__product_or_overflow(*vram__hf_number_of(w, 'S'), factor));
  vram__hf_letters(w, t, digits);
  return s + (is_product ? 4 : 1);
}

/* The lines from s on up to one of the letters in `ends`, put in; where they end. */
VRAM__FN const char *vram__hf_say(vram__hf_pen *w, vram__hf_target *t, const char *s,
                                  const char *ends) {
  const char *const begin = s;
  char digits[24], plain[2] = {0, 0};
  uint32_t n = 0;
  while (*s && !vram__text_holds(ends, vram__text_len(ends), *s)) {
    const char next = s[1];
    switch (*s) {
    case '{':
      s = vram__hf_condition(w, s + 1);
      continue;
    case '}':
      break;
    case '@':
      vram__hf_letters(w, t, w->path);
      break;
    case '%':
      if (next >= '1' && next <= '8')
        vram__hf_argument(w, t, next);
      else
        vram__hf_letters(w, t, next == 'd' ? w->drop : vram__hf_name_of(w, next));
      s++;
      break;
    case '$':
      n = 0;
      vram__text_putu(digits, sizeof digits, &n, *vram__hf_number_of(w, next));
      vram__hf_letters(w, t, digits);
      s++;
      break;
    case '<':
      s = vram__hf_include(w, t, s + 1);
      continue;
    case '&':
    case '^':
      s = vram__hf_module(w, s);
      continue;
    case ';':
      s = vram__hf_dropout(w, s);
      continue;
    case '~':
      s = vram__hf_rename(w, s);
      continue;
    case 'S':
      if (*vram__hf_mixer_flag(w, 't') && s > begin && vram__hf_is_dim(s)) {
        s = vram__hf_tokens_say(w, t, s);
        continue;
      }
      vram__hf_letters(w, t, "S");
      break;
    default:
      plain[0] = *s;
      vram__hf_letters(w, t, plain);
    }
    s++;
  }
  return s;
}

VRAM__FN void vram__hf_set(vram__hf_pen *w, char name, const char *lines) {
  vram__hf_target t;
  t.to = vram__hf_name_of(w, name);
  t.cap = VRAM__HF_PATH;
  t.n = 0;
  *t.to = 0;
  vram__hf_say(w, &t, lines, "");
}

/* ---- calls ---- */

static const vram__hf_part vram__hf_activations[] = {
    {"silu", "silu %p.silu %i\n", "%p.silu"},
    {"swish", "silu %p.silu %i\n", "%p.silu"},
    {"gelu", "gelu %p.gelu %i\n", "%p.gelu"},
    {"gelu_pytorch_tanh", "gelu %p.gelu %i approximate=tanh\n", "%p.gelu"},
    {"relu", "relu %p.relu %i\n", "%p.relu"},
    {"gelu_new",
     "mul %p.mul %i scalar=1\n"
     "pow %p.pow %i scalar=1\n"
     "mul %p.mul_1 %p.pow scalar=1\n"
     "add %p.add %i %p.mul_1\n"
     "mul %p.mul_2 %p.add scalar=1\n"
     "tanh %p.tanh %p.mul_2\n"
     "add %p.add_1 %p.tanh scalar=1\n"
     "mul %p.mul_3 %p.mul %p.add_1\n"
     "{!Udrop %i\n}",
     "%p.mul_3"},
    {"relu2", "relu %p.relu %i\nsquare %p.square %p.relu\n{!Udrop %i\n}", "%p.square"},
};

/* The activation of a name; NULL: its lines are not known. */
VRAM__FN const vram__hf_part *vram__hf_activation_find(const char *name, uint64_t len) {
  uint32_t i;
  for (i = 0; i < sizeof vram__hf_activations / sizeof *vram__hf_activations; i++)
    if (len <= VRAM__HF_PATH && vram__text_is(name, (uint32_t)len, vram__hf_activations[i].name))
      return vram__hf_activations + i;
  return NULL;
}

/* One field of a call, up to a stroke or the end of the line; behind it. */
static const char *vram__hf_field(vram__hf_pen *w, const char *s, char *to, uint32_t cap) {
  vram__hf_target t;
  t.to = to;
  t.cap = cap;
  t.n = 0;
  *to = 0;
  s = vram__hf_say(w, &t, s, "|\n");
  return s + (*s != 0);
}

/* <*name>, <#name>: its lines for each token or layer, $#; 'a: it is the last one, 'd: a line
   is long enough. */
static void vram__hf_rounds(vram__hf_pen *w, vram__hf_target *t, const char *name, uint32_t n) {
  const vram__hf_part *const part = vram__hf_part_find(name + 1, n - 1);
  const uint64_t rounds = *name == '*' ? *vram__hf_number_of(w, 'S') : w->c.layers;
  uint64_t i;
  for (i = 0; part && i < rounds && !w->h.result; i++) {
    *vram__hf_number_of(w, '#') = i;
    *vram__hf_mixer_flag(w, 'a') = i + 1 == rounds;
    *vram__hf_mixer_flag(w, 'd') = i % 256 == 255;
    vram__hf_say(w, t, part->lines, "");
  }
}

/* <name|argument|...>: its lines; of a cache and masks in a generation hf_generate.c has them. */
static const char *vram__hf_include(vram__hf_pen *w, vram__hf_target *t, const char *s) {
  const vram__hf_part *part;
  vram__hf_called call;
  uint32_t len = 0, n, arguments = 0;
  vram__memory_zero(&call, sizeof call);
  while (s[len] && s[len] != '>' && s[len] != '|')
    len++;
  for (n = len; s[n] && s[n] != '>'; n++)
    if (s[n] == '|' && arguments < sizeof call.argument / sizeof *call.argument)
      call.argument[arguments++] = s + n + 1;
  if (*s == '*' || *s == '#') {
    vram__hf_rounds(w, t, s, len);
    return s + n + (s[n] != 0);
  }
  call.by = w->called;
  w->called = &call;
  if (vram__text_is(s, len, "cache"))
    vram__hf_generated_cache(w);
  else if (vram__text_is(s, len, "causal") && *vram__hf_flag_of(w, 'G'))
    vram__hf_generated_masks(w);
  else if (vram__text_is(s, len, "each_layer"))
    vram__hf_each_layer(w);
  else {
    part = vram__hf_part_find(s, len);
    if (part)
      vram__hf_say(w, t, part->lines, "");
    else
      vram__hf_refuse(w, "a part without lines of model_type ", w->c.family);
  }
  w->called = call.by;
  return s + n + (s[n] != 0);
}

/* An argument, with those of the part that it was written in. */
static void vram__hf_argument(vram__hf_pen *w, vram__hf_target *t, char number) {
  const vram__hf_called *const call = w->called;
  const char *const s = call ? call->argument[number - '1'] : NULL;
  if (!s)
    return;
  w->called = call->by;
  vram__hf_say(w, t, s, "|>");
  w->called = call;
}

/* &path|input|c|size|drop, ^path|input|c */
static const char *vram__hf_module(vram__hf_pen *w, const char *s) {
  const int is_norm = *s == '&';
  const vram__hf_part *const part = is_norm ? w->norm : w->activation;
  char path[VRAM__HF_PATH], input[VRAM__HF_PATH], to[4], drop[sizeof w->drop];
  s = vram__hf_field(w, s + 1, path, sizeof path);
  s = vram__hf_field(w, s, input, sizeof input);
  s = vram__hf_field(w, s, to, sizeof to);
  if (is_norm) {
    char size[VRAM__HF_PATH];
    s = vram__hf_field(w, s, size, sizeof size);
    s = vram__hf_field(w, s, drop, sizeof drop);
    vram__memory_copy(vram__hf_name_of(w, 'z'), size, sizeof size);
    *vram__hf_flag_of(w, 'f') = *drop == '+';
    *vram__hf_flag_of(w, 'd') = *drop && *drop != '+' && *drop != '=';
    *w->drop = 0;
    if (*drop && *drop != '-') {
      uint32_t n = 0;
      vram__text_puts(w->drop, sizeof w->drop, &n, " ");
      vram__text_puts(w->drop, sizeof w->drop, &n, drop + (*drop == '+' || *drop == '='));
    }
  }
  vram__memory_copy(vram__hf_name_of(w, 'p'), path, sizeof path);
  vram__memory_copy(vram__hf_name_of(w, 'i'), input, sizeof input);
  vram__hf_say(w, NULL, part->lines, "");
  vram__hf_set(w, *to, part->output);
  return s;
}

/* ;path|c|D */
static const char *vram__hf_dropout(vram__hf_pen *w, const char *s) {
  char path[VRAM__HF_PATH], to[4], flag[4];
  s = vram__hf_field(w, s + 1, path, sizeof path);
  s = vram__hf_field(w, s, to, sizeof to);
  s = vram__hf_field(w, s, flag, sizeof flag);
  if (!*vram__hf_flag_of(w, *flag))
    return s;
  vram__hf_put(w, "dropout ", 8);
  vram__hf_put(w, path, vram__text_len(path));
  vram__hf_put(w, " ", 1);
  vram__hf_put(w, vram__hf_name_of(w, *to), vram__text_len(vram__hf_name_of(w, *to)));
  vram__hf_put(w, " p=", 3);
  vram__hf_put(w, vram__hf_name_of(w, *flag), vram__text_len(vram__hf_name_of(w, *flag)));
  vram__hf_put(w, "\n", 1);
  vram__memory_copy(vram__hf_name_of(w, *to), path, sizeof path);
  return s;
}

/* ~c|name */
static const char *vram__hf_rename(vram__hf_pen *w, const char *s) {
  char to[4], name[VRAM__HF_PATH];
  s = vram__hf_field(w, s + 1, to, sizeof to);
  s = vram__hf_field(w, s, name, sizeof name);
  vram__memory_copy(vram__hf_name_of(w, *to), name, sizeof name);
  return s;
}
