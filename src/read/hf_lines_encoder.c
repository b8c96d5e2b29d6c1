/* >>read/hf_lines_encoder    lines of encoders: their parts, and of which ones the families consist
   (hf_lines.c). m: a masked language model, t: of classes, v: with a pooler; o:
   the last layer lets go of the embedding, which a pooler keeps; $E width of the embedding, $y
   types of tokens
 */
#include "read/read.h"

/* clang-format off */
static const vram__hf_part vram__hf_encoder_parts[] = {
  {"encoder_inputs",
    "input input_ids i64 [N,S]\n"
    "{minput labels i64 [N,S]\n}{tinput labels i64 [N]\n}",
    NULL},
  {"places",
    "buffer %Bembeddings.position_ids shape=[1,$p] dtype=i64\n"
    "slice %Bembeddings.slice %Bembeddings.position_ids dim=0 colon=1\n"
    "slice %Bembeddings.slice_1 %Bembeddings.slice dim=1 end=S\n",
    NULL},
  {"bert_embeddings",
    "<places>"
    "buffer %Bembeddings.token_type_ids shape=[1,$p] dtype=i64\n"
    "expand %Bembeddings.expand %Bembeddings.token_type_ids shape=[1,$p]\n"
    "gather %Bembeddings.gather %Bembeddings.expand %Bembeddings.slice_1 dim=1\n"
    "expand %Bembeddings.expand_1 %Bembeddings.gather shape=[N,S]\n"
    "embedding %Bembeddings.word_embeddings %I num_embeddings=$v embedding_dim=$E\n"
    "embedding %Bembeddings.token_type_embeddings %Bembeddings.expand_1 num_embeddings=$y embedding_dim=$E\n"
    "add %Bembeddings.add %Bembeddings.word_embeddings %Bembeddings.token_type_embeddings\n"
    "embedding %Bembeddings.position_embeddings %Bembeddings.slice_1 num_embeddings=$p embedding_dim=$E\n"
    "order %Bembeddings.token_type_embeddings\n"
    "add %Bembeddings.add_1 %Bembeddings.add %Bembeddings.position_embeddings\n"
    "layer_norm %Bembeddings.LayerNorm %Bembeddings.add_1 normalized_shape=$E\n"
    "~x|%Bembeddings.LayerNorm\n~E|%x\n;%Bembeddings.dropout|x|S\n"
    "drop %Bembeddings.slice_1 %Bembeddings.gather %Bembeddings.expand_1 %Bembeddings.word_embeddings "
    "%Bembeddings.token_type_embeddings %Bembeddings.position_embeddings\n"
    "~t|%Bembeddings.word_embeddings\n",
    NULL},
  {"project",
    "{blinear %Bembeddings_project %x out_features=$h\n{+drop %E\n}~x|%Bembeddings_project\n}",
    NULL},
  /* create_position_ids_from_input_ids: tokens that pad have none */
  {"roberta_embeddings",
    "ne %Bembeddings.ne %I scalar=1\n"
    "to %Bembeddings.to %Bembeddings.ne dtype=i32\n"
    "cumsum %Bembeddings.cumsum %Bembeddings.to dim=1\n"
    "type_as %Bembeddings.type_as %Bembeddings.cumsum %Bembeddings.to\n"
    "add %Bembeddings.add %Bembeddings.type_as scalar=1\n"
    "mul %Bembeddings.mul %Bembeddings.add %Bembeddings.to\n"
    "to %Bembeddings.to_1 %Bembeddings.mul dtype=i64\n"
    "add %Bembeddings.add_1 %Bembeddings.to_1 scalar=1\n"
    "drop %Bembeddings.to %Bembeddings.mul\n"
    "buffer %Bembeddings.token_type_ids shape=[1,$p] dtype=i64\n"
    "view %Bembeddings.to_2 %Bembeddings.token_type_ids shape=[1,$p]\n"
    "expand %Bembeddings.expand %Bembeddings.to_2 shape=[N,$p]\n"
    "gather %Bembeddings.gather %Bembeddings.expand %Bembeddings.add_1 dim=1\n"
    "drop %Bembeddings.to_2\n"
    "expand %Bembeddings.expand_1 %Bembeddings.gather shape=[N,S]\n"
    "embedding %Bembeddings.word_embeddings %I num_embeddings=$v embedding_dim=$h\n"
    "embedding %Bembeddings.token_type_embeddings %Bembeddings.expand_1 num_embeddings=$y embedding_dim=$h\n"
    "add %Bembeddings.add_2 %Bembeddings.word_embeddings %Bembeddings.token_type_embeddings\n"
    "embedding %Bembeddings.position_embeddings %Bembeddings.add_1 num_embeddings=$p embedding_dim=$h\n"
    "add %Bembeddings.add_3 %Bembeddings.add_2 %Bembeddings.position_embeddings\n"
    "layer_norm %Bembeddings.LayerNorm %Bembeddings.add_3 normalized_shape=$h\n"
    "{x<order_places>}{!x{!m{!t<order_places>}}}"
    "~x|%Bembeddings.LayerNorm\n~E|%x\n;%Bembeddings.dropout|x|S\n"
    "drop %Bembeddings.add_1 %Bembeddings.gather %Bembeddings.expand_1 %Bembeddings.word_embeddings "
    "%Bembeddings.token_type_embeddings %Bembeddings.position_embeddings\n"
    "~t|%Bembeddings.word_embeddings\n",
    NULL},
  {"order_places",
    "order %Bembeddings.position_embeddings\n",
    NULL},
  /* XLM-RoBERTa and CamemBERT (no x) define their heads before the encoder */
  {"order_encoder",
    "order %Bembeddings.word_embeddings %Bembeddings.token_type_embeddings %Bembeddings.LayerNorm "
    "%Bembeddings.position_embeddings<each_layer>\n",
    NULL},
  {"ordered_layer",
    "{r<opt_ordered>}{!r @attention.self.query @attention.self.key @attention.self.value @attention.output.dense "
    "@attention.output.LayerNorm @intermediate.dense @output.dense @output.LayerNorm}",
    NULL},
  {"distilbert_embeddings",
    "embedding %Bembeddings.word_embeddings %I num_embeddings=$v embedding_dim=$h\n"
    "<places>"
    "embedding %Bembeddings.position_embeddings %Bembeddings.slice_1 num_embeddings=$p embedding_dim=$h\n"
    "add %Bembeddings.add %Bembeddings.word_embeddings %Bembeddings.position_embeddings\n"
    "layer_norm %Bembeddings.LayerNorm %Bembeddings.add normalized_shape=$h\n"
    "~x|%Bembeddings.LayerNorm\n~E|%x\n;%Bembeddings.dropout|x|S\n"
    "drop %Bembeddings.word_embeddings %Bembeddings.slice_1 %Bembeddings.position_embeddings\n"
    "~t|%Bembeddings.word_embeddings\n",
    NULL},

  /* attention: %q, %k, %v the names of its matrices */
  {"encoder_attention",
    "linear %q %x out_features=$h\n"
    "view %Aview %q shape=[N,S,$n,$d]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "linear %k %x out_features=$h\n"
    "view %Aview_1 %k shape=[N,S,$n,$d]\n"
    "transpose %Atranspose_1 %Aview_1 dim0=1 dim1=2\n"
    "linear %v %x out_features=$h\n"
    "view %Aview_2 %v shape=[N,S,$n,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "scaled_dot_product_attention %Asdpa %Atranspose %Atranspose_1 %Atranspose_2{D dropout_p=%D}\n"
    "reshape %Areshape %Asdpa shape=[N,$n,S,$d]\n"
    "transpose %Atranspose_3 %Areshape dim0=1 dim1=2\n"
    "contiguous %Acontiguous %Atranspose_3\n"
    "drop %Asdpa %Areshape\n"
    "reshape %Areshape_1 %Acontiguous shape=[N,S,$h]\n"
    "contiguous %Acontiguous_1 %Areshape_1\n",
    NULL},
  {"attended",
    "%q %Aview %Atranspose %k %Aview_1 %Atranspose_1 %v %Aview_2 %Atranspose_2",
    NULL},
  {"bert_layer",
    "~A|@attention.self.\n~q|%Aquery\n~k|%Akey\n~v|%Avalue\n<encoder_attention>"
    "drop <attended> %Acontiguous\n"
    "linear @attention.output.dense %Acontiguous_1 out_features=$h\n"
    "~y|@attention.output.dense\n;@attention.output.dropout|y|C\n"
    "add @attention.output.add %y %x\n"
    "layer_norm @attention.output.LayerNorm @attention.output.add normalized_shape=$h\n"
    "drop %Acontiguous_1 {-@attention.output.dense }%y\n"
    "linear @intermediate.dense @attention.output.LayerNorm out_features=$i\n"
    "^@intermediate.intermediate_act_fn|@intermediate.dense|a\n"
    "linear @output.dense %a out_features=$h\n"
    "~y|@output.dense\n;@output.dropout|y|C\n"
    "add @output.add %y @attention.output.LayerNorm\n"
    "layer_norm @output.LayerNorm @output.add normalized_shape=$h\n"
    "drop{o{+{!b %E}} %e}{l %x} @attention.output.LayerNorm %a {-@output.dense }%y\n"
    "~x|@output.LayerNorm\n",
    NULL},
  {"distilbert_layer",
    "~A|@attention.\n~q|%Aq_lin\n~k|%Ak_lin\n~v|%Av_lin\n<encoder_attention>"
    "drop %Acontiguous\n"
    "linear %Aout_lin %Acontiguous_1 out_features=$h\n"
    "drop <attended>\n"
    "add @add %Aout_lin %x\n"
    "layer_norm @sa_layer_norm @add normalized_shape=$h\n"
    "drop %Aout_lin\n"
    "linear @ffn.lin1 @sa_layer_norm out_features=$i\n"
    "^@ffn.activation|@ffn.lin1|a\n"
    "linear @ffn.lin2 %a out_features=$h\n"
    "~y|@ffn.lin2\n;@ffn.dropout|y|C\n"
    "add @add_1 %y @sa_layer_norm\n"
    "layer_norm @output_layer_norm @add_1 normalized_shape=$h\n"
    "drop{o{+{!b %E}} %e}{l %x} @sa_layer_norm {-@ffn.lin2 }%y\n"
    "~x|@output_layer_norm\n",
    NULL},

  /* ---- heads ---- */
  {"first_token",
    "slice %p.slice %x dim=0 colon=1\n"
    "select %p.select %p.slice dim=1 index=0\n",
    NULL},
  {"pooler",
    "~p|%Bpooler\n<first_token>"
    "linear %Bpooler.dense %Bpooler.select out_features=$h\n"
    "tanh %Bpooler.activation %Bpooler.dense\n"
    "drop {+%E }%e %Bpooler.select\n",
    NULL},
  /* a bare model's: the mean of what it gives */
  {"bare",
    "{v<pooler>}"
    "to to %x dtype=f32\n"
    "mean mean to\n"
    "drop %x{v %Bpooler.activation}\n",
    NULL},
  {"bare_end",
    "output mean\n"
    "infer %x{v %Bpooler.activation}\n",
    NULL},
  /* %o: logits, %j: labels, %i: what goes with them */
  {"token_loss",
    "view view %o shape=[N*S,$v]\n"
    "view view_1 %j shape=[N*S]\n"
    "cross_entropy loss view view_1\n"
    "drop %x %o%i\n",
    NULL},
  {"class_loss",
    "view view %o shape=[N,$7]\n"
    "view view_1 %j shape=[N]\n"
    "cross_entropy loss view view_1\n"
    "drop %x%i\n",
    NULL},
  {"encoder_end",
    "output loss\n"
    "infer %o\n",
    NULL},
  {"bert_head",
    "{mlinear cls.predictions.transform.dense %x out_features=$h\n"
    "^cls.predictions.transform.transform_act_fn|cls.predictions.transform.dense|a\n"
    "layer_norm cls.predictions.transform.LayerNorm %a normalized_shape=$h\n"
    "linear cls.predictions.decoder cls.predictions.transform.LayerNorm out_features=$v{T weights=%t}\n"
    "~o|cls.predictions.decoder\n~j|labels\n~i|\n<token_loss>"
    "{!Tparameter cls.predictions.bias shape=[$v]\n}<encoder_end>}"
    "{t<pooler>~y|%Bpooler.activation\n;dropout|y|9\n"
    "linear classifier %y out_features=$7\n"
    "~o|classifier\n~j|labels\n~i| %Bpooler.activation{9 dropout} classifier\n<class_loss><encoder_end>}"
    "{!m{!t<bare><bare_end>}}",
    NULL},
  {"roberta_places",
    "buffer %Bembeddings.position_ids shape=[1,$p] dtype=i64\n",
    NULL},
  {"roberta_head",
    "{mlinear lm_head.dense %x out_features=$h\n"
    "gelu lm_head.gelu lm_head.dense\n"
    "layer_norm lm_head.layer_norm lm_head.gelu normalized_shape=$h\n"
    "{!x<order_encoder>}"
    "linear lm_head.decoder lm_head.layer_norm out_features=$v{T weights=%t}\n"
    "view to labels shape=[N,S]\n"
    "~o|lm_head.decoder\n~j|to\n~i| to\n<token_loss>{!Tparameter lm_head.bias shape=[$v]\n}<roberta_places><encoder_end>}"
    "{t<class_head>tanh classifier.tanh classifier.dense\n~y|classifier.tanh\n<class_output>{!x<order_encoder>}"
    "view to labels shape=[N]\n"
    "~j|to\n~i| classifier.out_proj to\n<class_loss><roberta_places><encoder_end>}"
    "{!m{!t<bare><roberta_places><bare_end>}}",
    NULL},
  {"class_head",
    "~p|classifier\n<first_token>"
    "slice classifier.slice_1 classifier.select dim=1 colon=1\n"
    "~y|classifier.slice_1\n;classifier.dropout|y|9\n"
    "linear classifier.dense %y out_features=$h\n"
    "{=drop classifier.slice_1\n}",
    NULL},
  {"class_output",
    "~f|%y\n;classifier.dropout_1|y|9\n"
    "linear classifier.out_proj %y out_features=$7\n"
    "{=drop %f\n}"
    "~o|classifier.out_proj\n",
    NULL},
  {"electra_head",
    "{mlinear generator_predictions.dense %x out_features=$E\n"
    "gelu generator_predictions.activation.gelu generator_predictions.dense\n"
    "layer_norm generator_predictions.LayerNorm generator_predictions.activation.gelu normalized_shape=$E\n"
    "order generator_predictions.dense\n"
    "linear generator_lm_head generator_predictions.LayerNorm out_features=$v{T weights=%t}\n"
    "~o|generator_lm_head\n~j|labels\n~i|\n<token_loss><encoder_end>}"
    "{t<class_head>gelu classifier.activation.gelu classifier.dense\n~y|classifier.activation.gelu\n<class_output>"
    "~j|labels\n~i| classifier.out_proj\n<class_loss><encoder_end>}"
    "{!m{!t<bare><bare_end>}}",
    NULL},
  {"distilbert_head",
    "{mlinear vocab_transform %x out_features=$h\n"
    "^activation|vocab_transform|a\n"
    "layer_norm vocab_layer_norm %a normalized_shape=$h\n"
    "linear vocab_projector vocab_layer_norm out_features=$v{T weights=%t}\n"
    "~o|vocab_projector\n~j|labels\n~i|\n<token_loss><encoder_end>}"
    "{t~p|first\n<first_token>"
    "linear pre_classifier first.select out_features=$h\n"
    "relu relu pre_classifier\n"
    "~y|relu\n;dropout|y|9\n"
    "linear classifier %y out_features=$7\n"
    "~o|classifier\n~j|labels\n~i|{= relu} %y classifier\n<class_loss><encoder_end>}"
    "{!m{!t<bare><bare_end>}}",
    NULL},
};

static const vram__hf_lines vram__hf_encoder_rows[] = {
  {"bert", "n", "hidden_act", "gelu", "layer_norm",
    "{m~B|bert.\n}{t~B|bert.\n}~N|%Bencoder.layer.\n<bert_embeddings>~e|%x\n",
    "<bert_layer>", "<bert_head>", 0, 0},
  {"electra", "n", "hidden_act", "gelu", "layer_norm",
    "{m~B|electra.\n}{t~B|electra.\n}~N|%Bencoder.layer.\n<bert_embeddings><project>~e|%x\n",
    "<bert_layer>", "<electra_head>", 0, 0},
  {"roberta", "nx", "hidden_act", "gelu", "layer_norm",
    "{m~B|roberta.\n}{t~B|roberta.\n}~N|%Bencoder.layer.\n<roberta_embeddings>~e|%x\n",
    "<bert_layer>", "<roberta_head>", 0, 0},
  {"distilbert", "n", "activation", "gelu", "layer_norm",
    "{m~B|distilbert.\n}{t~B|distilbert.\n}~N|%Btransformer.layer.\n<distilbert_embeddings>~e|%x\n",
    "<distilbert_layer>", "<distilbert_head>", 0, 0},
  {"xlm-roberta", "n", "hidden_act", "gelu", "layer_norm",
    "{m~B|roberta.\n}{t~B|roberta.\n}~N|%Bencoder.layer.\n<roberta_embeddings>~e|%x\n",
    "<bert_layer>", "<roberta_head>", 0, 0},
  {"camembert", "n", "hidden_act", "gelu", "layer_norm",
    "{m~B|roberta.\n}{t~B|roberta.\n}~N|%Bencoder.layer.\n<roberta_embeddings>~e|%x\n",
    "<bert_layer>", "<roberta_head>", 0, 0},
};
/* clang-format on */

VRAM__FN vram__hf_book vram__hf_encoders(void) {
  vram__hf_book b;
  b.part = vram__hf_encoder_parts;
  b.parts = sizeof vram__hf_encoder_parts / sizeof *vram__hf_encoder_parts;
  b.row = vram__hf_encoder_rows;
  b.rows = sizeof vram__hf_encoder_rows / sizeof *vram__hf_encoder_rows;
  return b;
}
