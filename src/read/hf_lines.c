/* >>read/hf_lines    lines of decoders: their parts, and of which ones the families consist, as
   transformers 5.23 runs them under torch 2.15 (models/TYPE/modeling_TYPE.py, masking_utils.py,
   loss_utils.py); hf_pen.c explains the letters */
#include "read/read.h"

/* clang-format off */
static const vram__hf_part vram__hf_decoder_parts[] = {
  /* ---- norms ---- */
  {"rms",
    "to %p.to %i dtype=f32\n"
    "pow %p.pow %p.to scalar=1\n"
    "mean %p.mean %p.pow dim=-1 keepdim=1\n"
    "add %p.add %p.mean scalar=1\n"
    "rsqrt %p.rsqrt %p.add\n"
    "mul %p.mul %p.to %p.rsqrt\n"
    "{dtype_as %p.to_1 %p.mul %i}{!dto %p.to_1 %p.mul dtype=%T}\n"
    "parameter %p.weight shape=[%z]\n"
    "mul %p.mul_1 %p.weight %p.to_1\n"
    "drop%d{f %x} %p.mean %p.mul\n",
    "%p.mul_1"},
  {"gemma",
    "to %p.to %i dtype=f32\n"
    "pow %p.pow %p.to scalar=1\n"
    "mean %p.mean %p.pow dim=-1 keepdim=1\n"
    "add %p.add %p.mean scalar=1\n"
    "rsqrt %p.rsqrt %p.add\n"
    "mul %p.mul %p.to %p.rsqrt\n"
    "parameter %p.weight shape=[%z]\n"
    "to %p.to_1 %p.weight dtype=f32\n"
    "add %p.add_1 %p.to_1 scalar=1\n"
    "mul %p.mul_1 %p.mul %p.add_1\n"
    "type_as %p.type_as %p.mul_1 %i\n"
    "{ddrop%d\n}{fdrop%d\n}",
    "%p.type_as"},
  {"rms_late",
    "to %p.to %i dtype=f32\n"
    "pow %p.pow %p.to scalar=1\n"
    "mean %p.mean %p.pow dim=-1 keepdim=1\n"
    "add %p.add %p.mean scalar=1\n"
    "rsqrt %p.rsqrt %p.add\n"
    "mul %p.mul %p.to %p.rsqrt\n"
    "parameter %p.weight shape=[%z]\n"
    "mul %p.mul_1 %p.weight %p.mul\n"
    "{dtype_as %p.to_1 %p.mul_1 %i}{!dto %p.to_1 %p.mul_1 dtype=model}\n"
    "drop%d{f %x} %p.mean %p.mul\n",
    "%p.to_1"},
  {"olmo_norm",
    "to %p.to %i dtype=f32\n"
    "layer_norm %p.layer_norm %p.to normalized_shape=%z elementwise_affine=0\n"
    "to %p.to_1 %p.layer_norm dtype=model\n"
    "{fdrop%d %x\n}",
    "%p.to_1"},
  {"nemotron_norm",
    "parameter %p.weight shape=[%z]\n"
    "add %p.add %p.weight scalar=1\n"
    "to %p.to %i autocast=1\n"
    "to %p.to_1 %p.add autocast=1\n"
    "parameter %p.bias shape=[%z]\n"
    "to %p.to_2 %p.bias autocast=1\n"
    "drop %p.add\n"
    "autocast off\n"
    "layer_norm %p.layer_norm %p.to %p.to_1 %p.to_2 normalized_shape=%z\n"
    "{fdrop%d %x\n}"
    "autocast on\n",
    "%p.layer_norm"},
  {"layer_norm",
    "layer_norm %p %i normalized_shape=%z\n"
    "{ddrop%d\n}{fdrop%d\n}",
    "%p"},
  {"cohere_norm",
    "to %p.to %i dtype=f32\n"
    "mean %p.mean %p.to dim=-1 keepdim=1\n"
    "sub %p.sub %p.to %p.mean\n"
    "pow %p.pow %p.sub scalar=1\n"
    "mean %p.mean_1 %p.pow dim=-1 keepdim=1\n"
    "sub %p.sub_1 %p.to %p.mean\n"
    "add %p.add %p.mean_1 scalar=1\n"
    "rsqrt %p.rsqrt %p.add\n"
    "mul %p.mul %p.sub_1 %p.rsqrt\n"
    "drop %p.to\n"
    "parameter %p.weight shape=[%z]\n"
    "to %p.to_1 %p.weight dtype=f32\n"
    "mul %p.mul_1 %p.to_1 %p.mul\n"
    "{dtype_as %p.to_2 %p.mul_1 %i}{!dto %p.to_2 %p.mul_1 dtype=model}\n"
    "drop%d{f %x} %p.mean %p.mean_1\n",
    "%p.to_2"},
  /* ---- before the layers ---- */
  {"inputs",
    "input input_ids i64 [N,S]\n"
    "input labels i64 [N,S]\n",
    NULL},
  {"embedding",
    "embedding %Bembed_tokens %I num_embeddings=$v embedding_dim=$h\n"
    "~t|%Bembed_tokens\n~e|%t\n~x|%e\n",
    NULL},
  {"scaled_embedding",
    "embedding %Bembed_tokens.embedding %I num_embeddings=$v embedding_dim=$h\n"
    "buffer %Bembed_tokens.embed_scale shape=[]\n"
    "to %Bembed_tokens.to %Bembed_tokens.embed_scale dtype=model\n"
    "mul %Bembed_tokens.mul %Bembed_tokens.embedding %Bembed_tokens.to\n"
    "~t|%Bembed_tokens.embedding\n~e|%Bembed_tokens.mul\n~x|%e\n",
    NULL},
  {"multiplied_embedding",
    "embedding %Bembed_tokens %I num_embeddings=$v embedding_dim=$h\n"
    "mul %Bmul %Bembed_tokens scalar=1\n"
    "~t|%Bembed_tokens\n~e|%Bmul\n~x|%e\n",
    NULL},
  {"positions",
    "{!Garange %Barange shape=[S] dtype=i64\n"
    "add %Badd %Barange scalar=1\n"
    "unsqueeze %Bunsqueeze %Badd dim=0\n}"
    "{Gslice %Bunsqueeze {1position_now}{!1positions_given} dim=1 start=0\n}",
    NULL},
  /* find_packed_sequence_indices: are there several sequences in a row? */
  {"packed",
    "expand %pexpand %i shape=[N,S]\n"
    "slice %pslice %pexpand dim=0 colon=1\n"
    "slice %pslice_1 %pslice dim=1 end=1\n"
    "sub %psub %pslice_1 scalar=1\n"
    "cat %pcat %psub %pexpand dim=-1\n"
    "slice %pslice_2 %pcat dim=-1 end=S\n"
    "slice %pslice_3 %pcat dim=-1 start=1\n"
    "sub %psub_1 %pslice_3 %pslice_2\n"
    "drop %pcat\n"
    "ne %pne %psub_1 scalar=1\n"
    "cumsum %pcumsum %pne dim=-1\n"
    "slice %pslice_4 %pcumsum dim=0 colon=1\n"
    "select %pselect %pslice_4 dim=1 index=-1\n"
    "eq %peq %pselect scalar=1\n"
    "amax %pany %peq\n"
    "drop %pexpand %psub %psub_1 %pcumsum\n",
    NULL},
  /* what masks are made of, and that of a sliding window that is shorter than the sequence */
  {"axes",
    "arange %parange_1 shape=[N] dtype=i64\n"
    "arange %parange_2 shape=[1] dtype=i64\n"
    "arange %parange_3 shape=[S] dtype=i64\n"
    "add %padd_1 %parange_3 scalar=1\n"
    "arange %parange_4 shape=[S] dtype=i64\n"
    "add %padd_2 %parange_4 scalar=1\n"
    "slice %pslice_10 %parange_1 dim=0 colon=1\n"
    "unsqueeze %punsqueeze_1 %pslice_10 dim=1\n"
    "unsqueeze %punsqueeze_2 %punsqueeze_1 dim=2\n"
    "unsqueeze %punsqueeze_3 %punsqueeze_2 dim=3\n"
    "unsqueeze %punsqueeze_4 %parange_2 dim=0\n"
    "slice %pslice_11 %punsqueeze_4 dim=1 colon=1\n"
    "unsqueeze %punsqueeze_5 %pslice_11 dim=2\n"
    "unsqueeze %punsqueeze_6 %punsqueeze_5 dim=3\n"
    "unsqueeze %punsqueeze_7 %padd_1 dim=0\n"
    "unsqueeze %punsqueeze_8 %punsqueeze_7 dim=1\n"
    "slice %pslice_12 %punsqueeze_8 dim=2 colon=1\n"
    "unsqueeze %punsqueeze_9 %pslice_12 dim=3\n"
    "unsqueeze %punsqueeze_10 %padd_2 dim=0\n"
    "unsqueeze %punsqueeze_11 %punsqueeze_10 dim=1\n"
    "unsqueeze %punsqueeze_12 %punsqueeze_11 dim=2\n"
    "slice %pslice_13 %punsqueeze_12 dim=3 colon=1\n",
    NULL},
  {"mask",
    "<axes>"
    "ones %pones shape=[] dtype=bool\n"
    "sub %psub_4 %punsqueeze_9 scalar=1\n"
    "gt %pgt %pslice_13 %psub_4\n"
    "view %pto %pgt shape=[1,1,S,S]\n"
    "logical_and %plogical_and %pones %pto\n"
    "le %ple %pslice_13 %punsqueeze_9\n"
    "view %pto_1 %ple shape=[1,1,S,S]\n"
    "logical_and %plogical_and_1 %plogical_and %pto_1\n"
    "drop %punsqueeze_3 %punsqueeze_6 %punsqueeze_9 %pslice_13\n"
    "expand %pmask %plogical_and_1 shape=[N,1,S,S]\n"
    "drop %parange_1 %parange_2 %padd_1 %padd_2\n",
    NULL},
  /* masks as numbers, which eager attention adds: always made */
  {"full_mask",
    "<axes>"
    "le %ple %pslice_13 %punsqueeze_9\n"
    "drop %punsqueeze_3 %punsqueeze_6\n"
    "expand %pmask %ple shape=[N,1,S,S]\n"
    "drop %parange_1 %parange_2 %padd_1 %padd_2\n",
    NULL},
  {"mask_numbers",
    "zeros %pzeros shape=[] dtype=model\n"
    "where %pwhere %pmask %pzeros scalar=1\n",
    NULL},
  {"eager_masks",
    "{G<masks>}{!G<positions>~i|%Bunsqueeze\n"
    "{F~p|%B\n<packed><full_mask><mask_numbers>drop %ple\n}"
    "{O~p|%Bsliding.\n<packed><mask><mask_numbers>drop %plogical_and_1\n}}",
    NULL},
  /* which masks there are: none where a window is no shorter than the sequence
     (create_causal_mask and its kin). F, O: layers of full attention, such that slide; W: its window
     is short */
  {"masks",
    "<positions><causal>",
    NULL},
  {"causal",
    "~i|%Bunsqueeze\n"
    "{F~p|%B\n<packed>}"
    "{O~p|%Bsliding.\n<packed>{W<mask>}~s|%Bsliding.mask\n}",
    NULL},
  /* cos and sin of each token */
  {"rope",
    "{!R~p|%Brotary_emb\n<angles>}"
    "{R{h~p|%Brotary_emb\n<angles>}{i~p|%Brotary_emb_local\n<angles>}}",
    NULL},
  {"angles",
    "unsqueeze %p.unsqueeze %Bunsqueeze dim=2\n"
    "to %p.to %p.unsqueeze dtype=f32\n"
    "buffer %p.inv_freq shape=[$r] dtype=f32\n"
    "to %p.to_1 %p.inv_freq dtype=f32\n"
    "mul %p.mul %p.to %p.to_1\n"
    "{srepeat_interleave %p.cat %p.mul repeats=2 dim=-1\n}"
    "{!scat %p.cat %p.mul %p.mul dim=-1\n}"
    "cos %p.cos %p.cat\n"
    "mul %p.{?to_2}{!?mul_1} %p.cos scalar=1\n"
    "sin %p.sin %p.cat\n"
    "mul %p.{?to_3}{!?mul_2} %p.sin scalar=1\n"
    "{!?to %p.to_2 %p.mul_1 dtype=model\n"
    "to %p.to_3 %p.mul_2 dtype=model\n}"
    "drop %p.mul %p.cat{!? %p.mul_1}\n",
    NULL},
  /* ---- attention ---- */
  {"rotary",
    "<qkv><rotate><cached><repeat><attend><o_proj>",
    NULL},
  {"norm_1",
    "&@input_layernorm|%x|n|$h|\n",
    NULL},
  {"qkv",
    "linear %Aq_proj %n out_features=$Q{!b bias=0}\n"
    "view %Aview %Aq_proj shape=[N,S,$n,$d]\n"
    "{q&%Aq_norm|%Aview|a|$d|%Aq_proj %Aview\n}"
    "transpose %Atranspose {q%a}{!q%Aview} dim0=1 dim1=2\n"
    "linear %Ak_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_1 %Ak_proj shape=[N,S,$k,$d]\n"
    "{q&%Ak_norm|%Aview_1|c|$d|%Ak_proj %Aview_1\n}"
    "transpose %Atranspose_1 {q%c}{!q%Aview_1} dim0=1 dim1=2\n"
    "linear %Av_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_2 %Av_proj shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "~q|%Atranspose\n~k|%Atranspose_1\n~v|%Atranspose_2\n"
    "~l|{G{P{!Q%Ak_proj %Aview_1 }}}%Av_proj %Aview_2 %Atranspose_2\n"
    "{Q&%Aq_norm|%Atranspose|a|$d|%Aq_proj %Aview{4 %Atranspose}\n"
    "&%Ak_norm|%Atranspose_1|c|$d|%Ak_proj %Aview_1{4 %Atranspose_1}\n~q|%a\n~k|%c\n}",
    NULL},
  /* apply_rotary_pos_emb; %r: the module of cos and sin */
  {"rotate",
    "{!P<angles_of>~j|%q\n<turn>~q|%f\n~j|%k\n~g|_1\n<turn>~k|%f\n"
    "drop {Q%a %c}"
    "{!Q{q%a}{!q%Aq_proj %Aview} %Atranspose"
    " {q%c}{!q%Ak_proj %Aview_1} %Atranspose_1}"
    " %Acos %Asin\n}",
    NULL},
  /* %r: the module of cos and sin */
  {"angles_of",
    "unsqueeze %Acos %r.to_2 dim=1\n"
    "unsqueeze %Asin %r.to_3 dim=1\n"
    "~g|\n",
    NULL},
  /* rotate_half of %j; %f: the whole */
  {"turn",
    "mul %Amul%g %j %Acos\n"
    "slice %Afirst%g %j dim=3 end=$r\n"
    "slice %Asecond%g %j dim=3 start=$r\n"
    "neg %Aneg%g %Asecond%g\n"
    "cat %Aturned%g %Aneg%g %Afirst%g dim=-1\n"
    "drop %Asecond%g\n"
    "mul %Aturned_mul%g %Aturned%g %Asin\n"
    "add %Aadd%g %Amul%g %Aturned_mul%g\n"
    "~f|%Aadd%g\n",
    NULL},
  /* the same of neighbours */
  {"turn_pairs",
    "mul %Amul%g %j %Acos\n"
    "slice %Afirst%g %j dim=3 step=2\n"
    "slice %Asecond%g %j dim=3 start=1 step=2\n"
    "neg %Aneg%g %Asecond%g\n"
    "stack %Astack%g %Aneg%g %Afirst%g dim=-1\n"
    "flatten %Aturned%g %Astack%g start_dim=-2\n"
    "drop %Afirst%g %Asecond%g\n"
    "mul %Aturned_mul%g %Aturned%g %Asin\n"
    "drop %Astack%g\n"
    "add %Aadd%g %Amul%g %Aturned_mul%g\n"
    "~f|%Aadd%g\n",
    NULL},
  /* a layer's keys and values, %K and %V, of new ones, %k and %v: hf_generate.c */
  {"cached",
    "{G<cache>}{!G~K|%k\n~V|%v\n}",
    NULL},
  /* repeat_kv of keys and values, where there is a mask; pack_gqa of one query */
  {"repeat",
    "{!e{w{g{1reshape %Apacked %q shape=[N,$k,$g,$d]\n}{!1<repeat_kv>}}}}",
    NULL},
  {"repeat_kv",
    "slice %Aslice_4 %K dim=0 colon=1\n"
    "slice %Aslice_5 %Aslice_4 dim=1 colon=1\n"
    "unsqueeze %Aunsqueeze_2 %Aslice_5 dim=2\n"
    "slice %Aslice_6 %Aunsqueeze_2 dim=3 colon=1\n"
    "slice %Aslice_7 %Aslice_6 dim=4 colon=1\n"
    "expand %Aexpand %Aslice_7 shape=[N,$k,$g,%L,$d]\n"
    "reshape %Akeys %Aexpand shape=[N,$n,%L,$d]\n"
    "{!/drop %Aslice_7\n}"
    "slice %Aslice_8 %V dim=0 colon=1\n"
    "slice %Aslice_9 %Aslice_8 dim=1 colon=1\n"
    "unsqueeze %Aunsqueeze_3 %Aslice_9 dim=2\n"
    "slice %Aslice_10 %Aunsqueeze_3 dim=3 colon=1\n"
    "slice %Aslice_11 %Aslice_10 dim=4 colon=1\n"
    "expand %Aexpand_1 %Aslice_11 shape=[N,$k,$g,%L,$d]\n"
    "reshape %Avalues %Aexpand_1 shape=[N,$n,%L,$d]\n"
    "{!/drop %Aslice_11\n}",
    NULL},
  {"repeated",
    "{/ %Aslice_7 %Aexpand} %Akeys{/ %Aslice_11 %Aexpand_1} %Avalues",
    NULL},
  {"attend_plain",
    "{e<eager_plain>}{!e<sdpa>}",
    NULL},
  {"sdpa",
    "scaled_dot_product_attention %Asdpa "
    "{w{g{1%Apacked %K %V}{!1%q %Akeys %Avalues}}"
    "{!g%q %K %V} %s}"
    "{!w%q %K %V}{D dropout_p=%D}{!w{!1 is_causal=1}{g enable_gqa=1}}\n"
    "reshape %Areshape %Asdpa shape=[N,$n,S,$d]\n"
    "transpose %Atranspose_3 %Areshape dim0=1 dim1=2\n"
    "contiguous %Acontiguous %Atranspose_3\n"
    "drop{w{g{!1<repeated>}}} %Asdpa %Areshape\n"
    "reshape %Areshape_1 %Acontiguous shape=[N,S,$Q]\n",
    NULL},
  {"attend",
    "<attend_plain>"
    "contiguous %Acontiguous_1 %Areshape_1\n"
    "drop %Acontiguous\n",
    NULL},
  /* eager_attention_forward with soft capping (Z) */
  {"eager",
    "<eager_plain>"
    "contiguous %Acontiguous_1 %Areshape_1\n"
    "drop %Acontiguous\n",
    NULL},
  {"eager_plain",
    "{g<repeat_kv>~K|%Akeys\n~V|%Avalues\n}"
    "transpose %Akeys_turned %K dim0=2 dim1=3\n"
    "matmul %Ascores %q %Akeys_turned\n"
    "mul %Ascaled %Ascores scalar=1\n~f|%Ascaled\n"
    "{Zdiv %Acapped.div %Ascaled scalar=1\n"
    "tanh %Acapped.tanh %Acapped.div\n"
    "mul %Acapped %Acapped.tanh scalar=1\n~f|%Acapped\n}"
    "add %Amasked %f %s\n"
    "softmax %Asoftmax %Amasked dim=-1 dtype=f32\n"
    "to %Aweights %Asoftmax dtype=model\n~f|%Aweights\n"
    "drop %Amasked\n"
    "{!Gdropout %Adropout %Aweights p=%D\n~f|%Adropout\n}"
    "matmul %Amatmul %f %V\n"
    "transpose %Atranspose_3 %Amatmul dim0=1 dim1=2\n"
    "contiguous %Acontiguous %Atranspose_3\n"
    "drop{g<repeated>} %Amatmul\n"
    "reshape %Areshape_1 %Acontiguous shape=[N,S,$Q]\n",
    NULL},
  /* what is left of keys, values and queries behind it; {k...}: those are the cache's */
  {"gone",
    "{!k %l} %q{!k %k}{: %K %V}",
    NULL},
  {"o_proj",
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "{qorder %Aq_norm.weight %Ak_norm.weight\n}"
    "{Qorder %Aq_norm.weight %Ak_norm.weight\n}"
    "drop %n{P %Aq_proj %Aview %Atranspose{!k %Ak_proj"
    " %Aview_1 %Atranspose_1}}"
    "{!k %l}{!P %q{!k %k}}{: %K %V}\n",
    NULL},
  /* Cohere: neighbours are turned, in f32 */
  {"cohere_qkv",
    "linear %Aq_proj %n out_features=$Q{!b bias=0}\n"
    "view %Aview %Aq_proj shape=[N,S,$n,$d]\n"
    "linear %Ak_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_1 %Ak_proj shape=[N,S,$k,$d]\n"
    "linear %Av_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview_2 %Av_proj shape=[N,S,$k,$d]\n"
    "~q|%Aview\n~k|%Aview_1\n"
    "{4&%Aq_norm|%q|q|$n,$d|%Aq_proj\n"
    "&%Ak_norm|%k|k|$k,$d|%Ak_proj\n}"
    "transpose %Atranspose %q dim0=1 dim1=2\n"
    "transpose %Atranspose_1 %k dim0=1 dim1=2\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n",
    NULL},
  {"cohere_rotate",
    "to %Ato %Atranspose dtype=f32\n"
    "to %Ato_1 %Atranspose_1 dtype=f32\n"
    "<angles_of>~j|%Ato\n<turn_pairs>~j|%Ato_1\n~g|_1\n<turn_pairs>"
    "type_as %Ato_2 %Aadd %Atranspose\n"
    "type_as %Ato_3 %Aadd_1 %Atranspose\n"
    "drop {4%q %k}{!4%Aq_proj %Aview %Ak_proj %Aview_1} %Atranspose_1 %Ato %Ato_1 %Acos %Asin %Aadd\n"
    "~q|%Ato_2\n~k|%Ato_3\n~v|%Atranspose_2\n~l|%Av_proj %Aview_2 %Atranspose_2\n",
    NULL},
  {"parallel_end",
    "order @input_layernorm.weight\n"
    "add @add %x %Ao_proj\n"
    "add @add_1 @add @mlp.down_proj\n"
    "drop{l %x} %n %Ao_proj\n"
    "~x|@add_1\n",
    NULL},
  /* GPT-2: positions that are learned, one matrix for q, k and v */
  {"gpt2_embedding",
    "~B|transformer.\n~N|%Bh.\n"
    "view %Bview %I shape=[N,S]\n"
    "embedding %Bwte %Bview num_embeddings=$v embedding_dim=$h\n~t|%Bwte\n"
    "<positions>"
    "embedding %Bwpe %Bunsqueeze num_embeddings=$p embedding_dim=$h\n"
    "view %Bto %Bwpe shape=[{GN}{!G1},S,$h]\n"
    "add %Badd_1 %Bwte %Bto\n~x|%Badd_1\n"
    "<causal>;%Bdrop|x|S\n",
    NULL},
  {"gpt2_attention",
    "~A|@attn.\n"
    "&@ln_1|%x|n|$h|\n"
    "linear %Ac_attn %n out_features=$3 conv1d=1\n"
    "split %Asplit.0,%Asplit.1,%Asplit.2 %Ac_attn split_size_or_sections=$h dim=2\n"
    "view %Aview %Asplit.1 shape=[N,S,$n,$d]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "view %Aview_1 %Asplit.2 shape=[N,S,$n,$d]\n"
    "transpose %Atranspose_1 %Aview_1 dim0=1 dim1=2\n"
    "view %Aview_2 %Asplit.0 shape=[N,S,$n,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "~q|%Atranspose_2\n~k|%Atranspose\n~v|%Atranspose_1\n~l|%v\n"
    "<cached><repeat><attend>"
    "linear %Ac_proj %Acontiguous_1 out_features=$h conv1d=1\n"
    "~y|%Ac_proj\n;%Aresid_dropout|y|C\n"
    "drop %Ac_attn %Asplit.0 %Asplit.1 %Asplit.2 %Aview %Atranspose %Aview_1 %Atranspose_1 %Aview_2 %Atranspose_2\n"
    "add @add %y %x\n"
    "drop %n\n",
    NULL},
  {"gpt2_mlp",
    "&@ln_2|@add|m|$h|\n"
    "linear @mlp.c_fc %m out_features=$i conv1d=1\n"
    "^@mlp.act|@mlp.c_fc|a\n"
    "linear @mlp.c_proj %a out_features=$h conv1d=1\n"
    "~u|@mlp.c_proj\n;@mlp.dropout|u|C\n"
    "add @add_1 @add %u\n"
    "drop {!l{+%Badd_1 }}%x {-%Ac_proj }%y %m{- @mlp.c_proj}\n"
    "~x|@add_1\n",
    NULL},
  {"gpt2_last",
    "&%Bln_f|%x|n|$h|\n"
    "view %Bview_1 %n shape=[N,S,$h]\n"
    "drop %Bview %Bwte{!G %Badd %Bunsqueeze} %Bwpe{G%Z}\n"
    "~E|%n \n~n|%Bview_1\n",
    NULL},
  /* Phi-3: one matrix for q, k and v, one for gate and up; a part of a head is rotated, all of it (J) */
  {"phi3_qkv",
    "linear %Aqkv_proj %n out_features=$4 bias=0\n"
    "slice %Aslice %Aqkv_proj dim=2 end=$Q\n"
    "slice %Aslice_1 %Aqkv_proj dim=2 start=$Q end=$5\n"
    "slice %Aslice_2 %Aqkv_proj dim=2 start=$5\n"
    "view %Aview %Aslice shape=[N,S,$n,$d]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "view %Aview_1 %Aslice_1 shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_1 %Aview_1 dim0=1 dim1=2\n"
    "view %Aview_2 %Aslice_2 shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "~q|%Atranspose\n~k|%Atranspose_1\n~v|%Atranspose_2\n~l|%Aslice_2 %Aview_2 %Atranspose_2\n",
    NULL},
  {"rotated",
    "{Jexpand %Arotated %q shape=[N,$n,S,$d]\n}{!Jslice %Arotated %q dim=3 end=$R\n}"
    "slice %Apassed %q dim=3 start=$R\n"
    "{Jexpand %Arotated_1 %k shape=[N,$k,S,$d]\n}{!Jslice %Arotated_1 %k dim=3 end=$R\n}"
    "slice %Apassed_1 %k dim=3 start=$R\n",
    NULL},
  {"phi3_rotate",
    "<angles_of><rotated>~j|%Arotated\n<turn>cat %Aall %f %Apassed dim=-1\n"
    "~j|%Arotated_1\n~g|_1\n<turn>cat %Aall_1 %f %Apassed_1 dim=-1\n"
    "drop %Aslice %Aslice_1 %Aview %Atranspose %Aview_1 %Atranspose_1 %Acos %Asin %Arotated %Apassed %Arotated_1\n"
    "~q|%Aall\n~k|%Aall_1\n",
    NULL},
  {"phi3_o_proj",
    "linear %Ao_proj %Acontiguous_1 out_features=$h bias=0\n"
    "order %Aqkv_proj\n"
    "drop %n %Aqkv_proj<gone>\n"
    "~y|%Ao_proj\n;@resid_attn_dropout|y|C\n"
    "add @add %x %y\n"
    "drop %Ao_proj\n"
    "&@post_attention_layernorm|@add|m|$h|\n",
    NULL},
  {"fused_mlp",
    "linear @mlp.gate_up_proj %m out_features=$6 bias=0\n"
    "chunk @mlp.chunk.0,@mlp.chunk.1 @mlp.gate_up_proj chunks=2 dim=-1\n"
    "^@mlp.activation_fn|@mlp.chunk.0|a\n"
    "mul @mlp.mul @mlp.chunk.1 %a\n"
    "linear @mlp.down_proj @mlp.mul out_features=$h bias=0\n",
    NULL},
  {"phi3_end",
    "order @input_layernorm.weight @post_attention_layernorm.weight\n"
    "drop %m @mlp.gate_up_proj @mlp.chunk.0\n"
    "~u|@mlp.down_proj\n;@resid_mlp_dropout|u|C\n"
    "add @add_1 @add %u\n"
    "drop{l %x} @mlp.down_proj\n"
    "~x|@add_1\n",
    NULL},
  /* all matrices before all views (OLMo, StableLM); q: norms of all heads; c: values are clipped */
  {"all_qkv",
    "linear %Aq_proj %n out_features=$Q{!b bias=0}\n~q|%Aq_proj\n"
    "{q&%Aq_norm|%q|q|$Q|-\n}"
    "linear %Ak_proj %n out_features=$K{!b bias=0}\n~k|%Ak_proj\n"
    "{q&%Ak_norm|%k|k|$K|-\n}"
    "linear %Av_proj %n out_features=$K{!b bias=0}\n"
    "view %Aview %q shape=[N,S,$n,$d]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "view %Aview_1 %k shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_1 %Aview_1 dim0=1 dim1=2\n"
    "view %Aview_2 %Av_proj shape=[N,S,$k,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "~f|%q %k \n~a|%q\n~c|%k\n"
    "~q|%Atranspose\n~k|%Atranspose_1\n~v|%Atranspose_2\n~l|%Av_proj %Aview_2 %Atranspose_2\n",
    NULL},
  /* in f32, and back */
  {"rotate_f32",
    "<angles_of>~j|%q\n<turn>~j|%k\n~g|_1\n<turn>"
    "type_as %Ato %Aadd %k\n"
    "type_as %Ato_1 %Aadd_1 %k\n"
    "drop %a %c %Aview %q %Aview_1 %Acos %Asin %Aadd\n"
    "~q|%Ato\n~k|%Ato_1\n",
    NULL},
  {"olmo2_attention",
    "~n|%x\n<all_qkv><rotate_f32><cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "order %Aq_norm.weight %Ak_norm.weight\n"
    "drop<gone>\n",
    NULL},
  /* norms behind attention and the MLP, none before; e: what they drop */
  {"behind_norm",
    "&@post_attention_layernorm|%Ao_proj|y|$h|{4%Ao_proj}{!4-}\n"
    "add @add %x %y\n~m|@add\n",
    NULL},
  {"behind_end",
    "order @post_attention_layernorm.weight\n"
    "&@post_feedforward_layernorm|@mlp.down_proj|y|$h|{4@mlp.down_proj}{!4-}\n"
    "add @add_1 @add %y\n"
    "{ldrop %x\n}"
    "~x|@add_1\n",
    NULL},
  {"olmo_attention",
    "<norm_1><all_qkv><rotate_f32><cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "drop %n<gone>\n",
    NULL},
  {"plain_norm_2",
    "add @add %x %Ao_proj\n"
    "&@post_attention_layernorm|@add|m|$h|\n",
    NULL},
  {"plain_end",
    "drop %m\n"
    "add @add_1 @add @mlp.down_proj\n"
    "{ldrop %x\n}"
    "~x|@add_1\n",
    NULL},
  /* GLM, ERNIE: cosines of neighbours are made of half of them */
  {"pair_angles",
    "unsqueeze %Acos_all %r.to_2 dim=1\n"
    "unsqueeze %Asin_all %r.to_3 dim=1\n"
    "slice %Acos_half %Acos_all dim=3 end=$r\n"
    "repeat_interleave %Acos %Acos_half repeats=2 dim=-1\n"
    "drop %Acos_all\n"
    "slice %Asin_half %Asin_all dim=3 end=$r\n"
    "repeat_interleave %Asin %Asin_half repeats=2 dim=-1\n"
    "drop %Asin_all\n"
    "~g|\n",
    NULL},
  {"glm_rotate",
    "<pair_angles><rotated>"
    "~j|%Arotated\n<turn_pairs>~j|%Arotated_1\n~g|_1\n<turn_pairs>"
    "cat %Aall %Aadd %Apassed dim=-1\n"
    "cat %Aall_1 %Aadd_1 %Apassed_1 dim=-1\n"
    "drop %Aq_proj %Aview %Atranspose %Ak_proj %Aview_1 %Atranspose_1 %Acos %Asin %Arotated %Apassed %Arotated_1\n"
    "~q|%Aall\n~k|%Aall_1\n",
    NULL},
  {"glm_end",
    "drop %m @mlp.gate_up_proj @mlp.chunk.0\n"
    "add @add_1 @add @mlp.down_proj\n"
    "{ldrop %x\n}"
    "~x|@add_1\n",
    NULL},
  {"glm4_norms",
    "&@post_self_attn_layernorm|%Ao_proj|y|$h|%Ao_proj\n"
    "add @add %x %y\n"
    "&@post_attention_layernorm|@add|m|$h|\n",
    NULL},
  {"glm4_end",
    "order @input_layernorm.weight @post_attention_layernorm.weight @post_self_attn_layernorm.weight\n"
    "drop %m @mlp.gate_up_proj @mlp.chunk.0\n"
    "&@post_mlp_layernorm|@mlp.down_proj|y|$h|@mlp.down_proj\n"
    "add @add_1 @add %y\n"
    "{ldrop %x\n}"
    "~x|@add_1\n",
    NULL},
  {"turn_pairs_f32",
    "to %Ato%g %j dtype=f32\n"
    "mul %Amul%g %Ato%g %Acos\n"
    "slice %Afirst%g %j dim=3 step=2\n"
    "slice %Asecond%g %j dim=3 start=1 step=2\n"
    "neg %Aneg%g %Asecond%g\n"
    "stack %Astack%g %Aneg%g %Afirst%g dim=-1\n"
    "flatten %Aturned%g %Astack%g start_dim=-2\n"
    "drop %Afirst%g %Asecond%g\n"
    "to %Aturned_f32%g %Aturned%g dtype=f32\n"
    "drop %Astack%g\n"
    "mul %Aturned_mul%g %Aturned_f32%g %Asin\n"
    "add %Aadd%g %Amul%g %Aturned_mul%g\n",
    NULL},
  {"ernie_rotate",
    "<pair_angles>~j|%q\n<turn_pairs_f32>~j|%k\n~g|_1\n<turn_pairs_f32>"
    "type_as %Aback %Aadd %q\n"
    "type_as %Aback_1 %Aadd_1 %q\n"
    "drop %Aq_proj %Aview %Ak_proj %Aview_1 %k %Acos %Asin %Aadd\n"
    "~q|%Aback\n~k|%Aback_1\n",
    NULL},
  /* Phi, StableLM: a part of a head is rotated */
  {"phi_rotate",
    "<rotated><angles_of>~j|%Arotated\n<turn>~j|%Arotated_1\n~g|_1\n<turn>"
    "drop %Arotated %Arotated_1 %Acos %Asin\n"
    "cat %Aall %Aadd %Apassed dim=-1\n"
    "cat %Aall_1 %Aadd_1 %Apassed_1 dim=-1\n",
    NULL},
  {"phi_attention",
    "&@input_layernorm|%x|n|$h|\n<qkv>"
    "{4&%Aq_layernorm|%q|q|$d|%Aq_proj %Aview\n"
    "&%Ak_layernorm|%k|k|$d|%Ak_proj %Aview_1\n}"
    "<phi_rotate>"
    "{!4~a|%Aq_proj %Aview %Atranspose\n~c|%Ak_proj %Aview_1 %Atranspose_1\n}"
    "{4~a|%q\n~c|%k\n}"
    "~q|%Aall\n~k|%Aall_1\n<cached><repeat><attend>"
    "linear %Adense %Acontiguous_1 out_features=$h\n"
    "{4order %Aq_layernorm %Ak_layernorm\n}"
    "drop {!4%a %c }{!k%l }{4%a %c }%Apassed %Apassed_1 %Aadd %Aadd_1 %q{!k %k}\n"
    "~y|%Adense\n;@resid_dropout|y|C\n",
    NULL},
  {"phi_mlp",
    "linear @mlp.fc1 %n out_features=$i\n"
    "^@mlp.activation_fn|@mlp.fc1|a\n"
    "linear @mlp.fc2 %a out_features=$h\n"
    "order @input_layernorm\n"
    "~u|@mlp.fc2\n;@resid_dropout_1|u|C\n"
    "add @add %y %u\n"
    "add @add_1 @add %x\n"
    "drop %n {-%Adense }%y{- @mlp.fc2} %u\n"
    "~x|@add_1\n",
    NULL},
  {"phi_last",
    "&%Bfinal_layernorm|%x|n|$h|\n"
    "drop{+ %Bembed_tokens}{G %Bembed_tokens%Z}{!G %Badd %Bunsqueeze %e}<cosines>\n",
    NULL},
  {"stablelm_attention",
    "&@input_layernorm|%x|n|$h|\n<all_qkv>~f|%Aq_proj %Ak_proj %Av_proj \n<phi_rotate>"
    "~q|%Aall\n~k|%Aall_1\n<cached><repeat><attend_plain>"
    "linear %Ao_proj %Areshape_1 out_features=$h bias=0\n"
    "drop %Aq_proj %Ak_proj{!k %Av_proj} %Aview %Atranspose %Aview_1 %Atranspose_1{!k %Aview_2 %Atranspose_2}"
    " %Apassed %Apassed_1 %Aadd %Aadd_1 %q{!k %k} %Acontiguous\n",
    NULL},
  {"stablelm_end",
    "~u|@mlp.down_proj\n;@dropout|u|C\n",
    NULL},
  /* StarCoder2 */
  {"starcoder2_attention",
    "&@input_layernorm|%x|n|$h|\n<qkv><rotate><cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "~y|%Ao_proj\n;%Adropout|y|C\n"
    "drop %n<gone>\n"
    "add @add %x %y\n"
    "{-drop %Ao_proj\n}"
    "&@post_attention_layernorm|@add|m|$h|\n",
    NULL},
  {"starcoder2_mlp",
    "linear @mlp.c_fc %m out_features=$i{!u bias=0}\n"
    "^@mlp.act|@mlp.c_fc|a\n"
    "linear @mlp.c_proj %a out_features=$h{!u bias=0}\n"
    "order @input_layernorm @post_attention_layernorm\n"
    "~u|@mlp.c_proj\n;@mlp.dropout|u|C\n"
    "drop %m\n"
    "add @add_1 @add %u\n"
    "~f|{- @mlp.c_proj}\n<let_go>~x|@add_1\n",
    NULL},
  /* a layer's input, of the first only what is not the embedding, and %f */
  {"let_go",
    "{ldrop %x%f\n}{!l{!+drop %x%f\n}{+{-drop%f\n}}}",
    NULL},
  {"embed_dropout",
    ";%Bdropout|x|S\n",
    NULL},
  /* GPT-NeoX: heads of q, k and v one behind the other */
  {"neox_embedding",
    "~B|gpt_neox.\n~N|%Blayers.\n"
    "embedding %Bembed_in %I num_embeddings=$v embedding_dim=$h\n~t|%Bembed_in\n~x|%t\n"
    "<masks>;%Bemb_dropout|x|S\n~e|%x\n",
    NULL},
  {"neox_attention",
    "~A|@attention.\n"
    "&@input_layernorm|%x|n|$h|\n"
    "linear %Aquery_key_value %n out_features=$3{!b bias=0}\n"
    "view %Aview %Aquery_key_value shape=[N,S,$n,$9]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "chunk %Achunk.0,%Achunk.1,%Achunk.2 %Atranspose chunks=3 dim=-1\n"
    "~q|%Achunk.0\n~k|%Achunk.1\n~v|%Achunk.2\n"
    "<angles_of><rotated>~j|%Arotated\n<turn>~j|%Arotated_1\n~g|_1\n<turn>"
    "cat %Aall %Aadd %Apassed dim=-1\n"
    "cat %Aall_1 %Aadd_1 %Apassed_1 dim=-1\n"
    "drop %q %k %Acos %Asin %Arotated %Apassed %Arotated_1\n"
    "~q|%Aall\n~k|%Aall_1\n~l|%v\n<cached><repeat><attend>"
    "linear %Adense %Acontiguous_1 out_features=$h{!b bias=0}\n"
    "drop %n %Aquery_key_value %Aview %Atranspose %v %q{!k %k}\n"
    "~y|%Adense\n;@post_attention_dropout|y|C\n",
    NULL},
  /* Z: attention and MLP side by side */
  {"neox_mlp",
    "{!Zadd @add %y %x\n~m|@add\n}"
    "&@post_attention_layernorm|{Z%x}{!Z@add}|m|$h|\n"
    "order %Aquery_key_value %Adense\n"
    "linear @mlp.dense_h_to_4h %m out_features=$i\n"
    "^@mlp.act|@mlp.dense_h_to_4h|a\n"
    "linear @mlp.dense_4h_to_h %a out_features=$h\n"
    "drop %m\n"
    "~u|@mlp.dense_4h_to_h\n;@post_mlp_dropout|u|C\n"
    "{Zadd @add %u %y\n"
    "add @add_1 @add %x\n"
    "drop {-%Adense }%y{- @mlp.dense_4h_to_h} %u\n}"
    "{!Zadd @add_1 %u @add\n~f|{- %Adense @mlp.dense_4h_to_h}\n<let_go>}"
    "~x|@add_1\n",
    NULL},
  {"neox_last",
    "&%Bfinal_layer_norm|%x|n|$h|\n"
    "drop %Bembed_in{!G %Badd %Bunsqueeze}{G%Z}{+ %e}<cosines>\n",
    NULL},
  /* Nemotron */
  {"nemotron_rotate",
    "<angles_of><rotated>~j|%Arotated\n<turn>~j|%Arotated_1\n~g|_1\n<turn>"
    "cat %Aall %Aadd %Apassed dim=-1\n"
    "cat %Aall_1 %Aadd_1 %Apassed_1 dim=-1\n"
    "drop %Aq_proj %Aview %Atranspose %Ak_proj %Aview_1 %Atranspose_1 %Acos %Asin %Arotated %Apassed %Arotated_1 %Aadd\n"
    "~q|%Aall\n~k|%Aall_1\n",
    NULL},
  {"nemotron_order",
    "order @input_layernorm.weight @input_layernorm.bias @post_attention_layernorm.weight @post_attention_layernorm.bias\n",
    NULL},
  /* OPT: positions are counted by a mask of ones, tokens of all sequences are rows of the MLP */
  {"opt_embedding",
    "~B|model.decoder.\n~N|%Blayers.\n"
    "view %Bview %I shape=[N,S]\n"
    "embedding %Bembed_tokens %Bview num_embeddings=$v embedding_dim=$h\n~t|%Bembed_tokens\n"
    "{!Iones %Bones shape=[N,{GT}{!GS}]\n}"
    "{!Gcumsum %Bcumsum %Bones dim=1\n"
    "mul %Bmul %Bcumsum %Bones\n"
    "sub %Bsub %Bmul scalar=1\n"
    "to %Bto %Bsub dtype=i64\n"
    "drop %Bcumsum\n"
    "slice %Bslice %Bto dim=0 colon=1\n"
    "slice %Bslice_1 %Bslice dim=1 colon=1\n"
    "expand %Balias %Bslice_1 shape=[N,S]\n}"
    "{G<positions><causal>}"
    "add %Bembed_positions.add {G%Bunsqueeze}{!G%Balias} scalar=1\n"
    "embedding %Bembed_positions.embedding %Bembed_positions.add num_embeddings=$p embedding_dim=$h\n"
    "view %Bto_1 %Bembed_positions.embedding shape=[N,S,$h]\n"
    "add %Badd %Bembed_tokens %Bto_1\n~x|%Badd\n~F|%x\n",
    NULL},
  {"opt_attention",
    "&@self_attn_layer_norm|%x|n|$h|\n"
    "linear %Aq_proj %n out_features=$h{!b bias=0}\n"
    "mul %Amul %Aq_proj scalar=1\n"
    "view %Aview %Amul shape=[N,S,$n,$d]\n"
    "transpose %Atranspose %Aview dim0=1 dim1=2\n"
    "linear %Ak_proj %n out_features=$h{!b bias=0}\n"
    "linear %Av_proj %n out_features=$h{!b bias=0}\n"
    "view %Aview_1 %Ak_proj shape=[N,S,$n,$d]\n"
    "transpose %Atranspose_1 %Aview_1 dim0=1 dim1=2\n"
    "view %Aview_2 %Av_proj shape=[N,S,$n,$d]\n"
    "transpose %Atranspose_2 %Aview_2 dim0=1 dim1=2\n"
    "~q|%Atranspose\n~k|%Atranspose_1\n~v|%Atranspose_2\n"
    "~l|%v\n"
    "<cached>{kdrop %Ak_proj %Aview_1 %Av_proj %Aview_2\n}<repeat><attend>"
    "linear %Aout_proj %Acontiguous_1 out_features=$h{!b bias=0}\n"
    "drop %n %Amul %Aview %q{!k %Ak_proj %Av_proj %Aview_1 %k %Aview_2 %v}\n"
    "~y|%Aout_proj\n;@dropout|y|C\n",
    NULL},
  {"opt_mlp",
    "add @add %x %y\n"
    "{-drop %Aout_proj\n}"
    "reshape @reshape @add shape=[N*S,$h]\n"
    "&@final_layer_norm|@reshape|m|$h|\n"
    "linear @fc1 %m out_features=$i{!b bias=0}\n"
    "^@activation_fn|@fc1|a\n"
    "linear @fc2 %a out_features=$h{!b bias=0}\n"
    "~u|@fc2\n;@dropout_1|u|C\n"
    "add @add_1 @reshape %u\n"
    "view @view @add_1 shape=[N,S,$h]\n"
    "drop {l%F }%x @add @reshape{- @fc2} %u\n"
    "~x|@view\n~F|@add_1\n",
    NULL},
  {"opt_last",
    "&%Bfinal_layer_norm|%x|n|$h|\n"
    "order<each_layer>\n"
    "drop %Bview %Bembed_tokens{!I %Bones}{!G %Bto %Balias}{G%Z} %Bembed_positions.embedding %F\n",
    NULL},
  {"opt_ordered",
    " @self_attn.k_proj @self_attn.v_proj @self_attn.q_proj @self_attn.out_proj @self_attn_layer_norm"
    " @fc1 @fc2 @final_layer_norm",
    NULL},
  /* ---- what stands between, and behind ---- */
  {"norm_2",
    "{Ymul @mul %Ao_proj scalar=1\n}"
    "add @add %x {Y@mul}{!Y%Ao_proj}\n"
    "{Ydrop %Ao_proj\n}"
    "&@post_attention_layernorm|@add|m|$h|\n",
    NULL},
  {"gated",
    "linear @mlp.gate_proj %m out_features=$i{!u bias=0}\n"
    "^@mlp.act_fn|@mlp.gate_proj|a\n"
    "linear @mlp.up_proj %m out_features=$i{!u bias=0}\n"
    "mul @mlp.mul %a @mlp.up_proj\n"
    "linear @mlp.down_proj @mlp.mul out_features=$h{!u bias=0}\n",
    NULL},
  {"plain",
    "linear @mlp.up_proj %m out_features=$i{!u bias=0}\n"
    "^@mlp.act_fn|@mlp.up_proj|a\n"
    "linear @mlp.down_proj %a out_features=$h{!u bias=0}\n",
    NULL},
  {"end",
    "order @input_layernorm.weight @post_attention_layernorm.weight\n"
    "drop %m\n"
    "{Ymul @mul_1 @mlp.down_proj scalar=1\n}"
    "add @add_1 @add {Y@mul_1}{!Y@mlp.down_proj}\n"
    "{Ydrop{l %x} @mlp.down_proj\n}"
    "{!Y{ldrop %x\n}}"
    "~x|@add_1\n",
    NULL},
  /* norms of what attention and the MLP give, and before both (Gemma) */
  {"norm_2_3",
    "&@post_attention_layernorm|%Ao_proj|y|$h|\n"
    "add @add %x %y\n"
    "&@pre_feedforward_layernorm|@add|m|$h|\n",
    NULL},
  {"end_4",
    "order @input_layernorm.weight @post_attention_layernorm.weight "
    "@pre_feedforward_layernorm.weight\n"
    "drop %m\n"
    "&@post_feedforward_layernorm|@mlp.down_proj|y|$h|\n"
    "add @add_1 @add %y\n"
    "{e{!Gdrop{l %x}{_ %Aweights} %Adropout\n}{G{ldrop %x\n}}}{!e{ldrop %x\n}}"
    "~x|@add_1\n",
    NULL},
  {"cosines",
    "{!R %Brotary_emb.to_2 %Brotary_emb.to_3}"
    "{R{h %Brotary_emb.to_2 %Brotary_emb.to_3}"
    "{i %Brotary_emb_local.to_2 %Brotary_emb_local.to_3}}",
    NULL},
  {"frequencies",
    "{!n{!Rbuffer %Brotary_emb.original_inv_freq shape=[$r] dtype=f32\n}"
    "{R{hbuffer %Brotary_emb.original_inv_freq shape=[$r] dtype=f32\n}"
    "{ibuffer %Brotary_emb_local.original_inv_freq shape=[$r] dtype=f32\n}}}",
    NULL},
  {"last_norm",
    "&%Bnorm|%x|n|$h|+%e{!G %Badd %Bunsqueeze{e{F %Bwhere}{O %Bsliding.where}}"
    "{!e{W %Bsliding.logical_and_1 %Bsliding.mask}}}{G%Z}<cosines>\n",
    NULL},
  /* what a head's values, %o, go through */
  {"logits",
    "~o|lm_head\n"
    "{rcontiguous logits lm_head\n~o|logits\n}"
    "{Mmul logits lm_head scalar=1\n~o|logits\n}"
    "{Ydiv logits lm_head scalar=1\n~o|logits\n}"
    "{Vdiv capped.div lm_head scalar=1\n"
    "tanh capped.tanh capped.div\n"
    "mul logits capped.tanh scalar=1\n~o|logits\n}"
    "{'lto logits lm_head dtype=f32\n~o|logits\n}",
    NULL},

  /* the head, and ForCausalLMLoss */
  {"loss",
    "slice slice %n dim=0 colon=1\n"
    "slice slice_1 slice dim=1 colon=1\n"
    "slice slice_2 slice_1 dim=2 colon=1\n"
    "expand alias slice_2 shape=[N,S,$h]\n"
    "{'lto head alias dtype=model\n}"
    "linear lm_head {'lhead}{!'lalias} out_features=$v{T weights=%t}{!H bias=0}\n"
    "<logits>"
    "to to %o dtype=f32\n"
    "pad pad labels pad=0,1\n"
    "slice slice_3 pad dim=1 start=1\n"
    "contiguous contiguous slice_3\n"
    "view view to shape=[N*S,$v]\n"
    "view view_1 contiguous shape=[N*S]\n"
    "view to_1 view_1 shape=[N*S]\n"
    "drop contiguous\n"
    "cross_entropy loss view to_1\n"
    "drop %E%n alias %o to pad\n"
    "<frequencies>"
    "{'f<#falcon_mamba_buffers>}"
    "output loss\n"
    "infer %o\n",
    NULL},
};

#define VRAM__HF_GEMMA3(names)                                                                     \
  "QR5", "hidden_activation", "gelu_pytorch_tanh", "gemma", names "<scaled_embedding><masks><rope>", \
      "<norm_1><rotary><norm_2_3><gated><end_4>", "<last_norm>"

/* flags: q norms of heads before they become an axis, Q behind it; R other angles where windows
   slide; L gelu means the default; Y sums of what is multiplied; N layers that do not rotate */
static const vram__hf_lines vram__hf_decoder_rows[] = {
  {"llama", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", "<last_norm>", 1, 0},
  {"smollm3", "N", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", "<last_norm>", 1, 0},
  {"granite", "Y", "hidden_act", "silu", "rms", "<multiplied_embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", "<last_norm>", 1, 0},
  {"mistral", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", "<last_norm>", 1, 0},
  {"qwen2", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", "<last_norm>", 1, 0},
  {"qwen3", "q", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", "<last_norm>", 1, 0},
  {"arcee", "", "hidden_act", "relu2", "rms", "<embedding><masks><rope>",
    "<norm_1><rotary><norm_2><plain><end>", "<last_norm>", 1, 0},
  {"gemma", "L", "hidden_act", "gelu_pytorch_tanh", "gemma", "<scaled_embedding><masks><rope>",
    "<norm_1><rotary><norm_2><gated><end>", "<last_norm>", 1, 0},
  {"gemma3_text", VRAM__HF_GEMMA3(""), 1, 0},
  {"gemma3", VRAM__HF_GEMMA3("~B|model.language_model.\n~N|%Blayers.\n"), 0, 0},
  {"gemma2", "VZe5", "hidden_activation", "gelu_pytorch_tanh", "gemma",
    "<scaled_embedding><eager_masks><rope>",
    "{!G{y~s|%Bsliding.where\n}{!y~s|%Bwhere\n}}<norm_1><qkv><rotate><cached><eager><o_proj><norm_2_3><gated><end_4>",
    "<last_norm>", 1, 0},
  {"cohere", "sM", "hidden_act", "silu", "cohere_norm", "<embedding><masks><rope>",
    "<norm_1><cohere_qkv><cohere_rotate><cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "{4order %Aq_norm.weight %Ak_norm.weight\n}drop<gone>\n"
    "~m|%n\n<gated><parallel_end>",
    "<last_norm>", 1, 0},
  {"gpt2", "n", "activation_function", "gelu_new", "layer_norm", "<gpt2_embedding>",
    "<gpt2_attention><gpt2_mlp>", "<gpt2_last>", 1, 0},
  {"phi3", "U7", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><phi3_qkv><phi3_rotate><cached><repeat><attend><phi3_o_proj><fused_mlp><phi3_end>",
    "<last_norm>", 1, 0},
  {"cohere2", "sM^5", "hidden_act", "silu", "cohere_norm", "<embedding><masks><rope>",
    "<norm_1><qkv>{!P<cohere_rotate>}<cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "drop{P %Aq_proj %Aview %q{!k %Ak_proj %Aview_1 %k %l}}{!P<gone>}\n"
    "~m|%n\n<gated><parallel_end>",
    "<last_norm>", 1, 0},
  {"olmo", "?", "hidden_act", "silu", "olmo_norm", "<embedding><masks><rope>",
    "<olmo_attention><plain_norm_2><gated><plain_end>", "<last_norm>", 1, 0},
  {"olmo2", "?q", "hidden_act", "silu", "rms_late", "<embedding><masks><rope>",
    "<olmo2_attention><behind_norm><gated><behind_end>", "<last_norm>", 1, 0},
  {"olmo3", "?qR5", "hidden_act", "silu", "rms_late", "<embedding><masks><rope>",
    "<olmo2_attention><behind_norm><gated><behind_end>", "<last_norm>", 1, 0},
  {"glm", "U7", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><qkv><glm_rotate><cached><repeat><attend><o_proj><plain_norm_2><fused_mlp>"
    "order @input_layernorm.weight @post_attention_layernorm.weight\n<glm_end>", "<last_norm>", 1, 0},
  {"glm4", "U7", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><qkv><glm_rotate><cached><repeat><attend><o_proj><glm4_norms><fused_mlp><glm4_end>",
    "<last_norm>", 1, 0},
  {"ernie4_5", "?", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><qkv><ernie_rotate><cached><repeat><attend><o_proj><norm_2><gated><end>",
    "<last_norm>", 1, 0},
  {"phi", "7H", "hidden_act", "gelu_new", "layer_norm",
    "<embedding><masks>;%Bembed_dropout|x|S\n~e|%x\n<rope>",
    "<phi_attention><phi_mlp>", "<phi_last>", 1, 0},
  {"stablelm", "7", "hidden_act", "silu", "layer_norm", "<embedding><masks><rope>",
    "<stablelm_attention>add @add %x %Ao_proj\n&@post_attention_layernorm|@add|m|$h|\n<gated>"
    "order @input_layernorm @post_attention_layernorm\ndrop %m\n<stablelm_end>"
    "add @add_1 @add %u\ndrop{l %x} %n %Ao_proj{- @mlp.down_proj}\n~x|@add_1\n",
    "<last_norm>", 1, 0},
  {"starcoder2", "", "hidden_act", "gelu_pytorch_tanh", "layer_norm",
    "<embedding><masks><embed_dropout><rope>",
    "<starcoder2_attention><starcoder2_mlp>",
    "&%Bnorm|%x|n|$h|\ndrop %Bembed_tokens{G%Z}{!G %Badd %Bunsqueeze{W %Bsliding.logical_and_1 %Bsliding.mask}}{+ %Bdropout}<cosines>\n",
    1, 0},
  {"gpt_neox", "7Z", "hidden_act", "gelu", "layer_norm", "<neox_embedding><rope>",
    "<neox_attention><neox_mlp>", "<neox_last>", 1, 0},
  {"nemotron", "7", "hidden_act", "relu2", "nemotron_norm", "<embedding><masks><rope>",
    "<norm_1><qkv><nemotron_rotate><cached><repeat><attend><o_proj><plain_norm_2><plain><nemotron_order><plain_end>",
    "<last_norm>", 1, 0},
  {"seed_oss", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><qkv><rotate><cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "~y|%Ao_proj\n;%Adropout|y|C\n"
    "drop %n<gone>\n"
    "add @add %x %y\n{-drop %Ao_proj\n}"
    "&@post_attention_layernorm|@add|m|$h|\n<gated>"
    "order @input_layernorm.weight @post_attention_layernorm.weight\n"
    "~u|@mlp.down_proj\n;@mlp.dropout|u|C\ndrop %m\n"
    "add @add_1 @add %u\n{!-{ldrop %x\n}}{-drop{l %x} @mlp.down_proj\n}~x|@add_1\n",
    "<last_norm>", 1, 0},
  {"hunyuan_v1_dense", "", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "<norm_1><qkv><rotate>"
    "&%Aquery_layernorm|%q|q|$d|=%q\n&%Akey_layernorm|%k|k|$d|=%k\n<cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "order %Aquery_layernorm.weight %Akey_layernorm.weight\ndrop %n<gone>\n<plain_norm_2><gated><end>",
    "<last_norm>", 1, 0},
  {"exaone4", "Q^4", "hidden_act", "silu", "rms", "<embedding><masks><rope>",
    "~n|%x\n<qkv><rotate><cached><repeat><attend>"
    "linear %Ao_proj %Acontiguous_1 out_features=$h{!o bias=0}\n"
    "order %Aq_norm.weight %Ak_norm.weight\ndrop<gone>\n<behind_norm><gated><behind_end>",
    "<last_norm>", 1, 0},
  {"opt", "nr", "activation_function", "relu", "layer_norm", "<opt_embedding>",
    "<opt_attention><opt_mlp>", "<opt_last>", 1, 0},
};
/* clang-format on */

VRAM__FN vram__hf_book vram__hf_decoders(void) {
  vram__hf_book b;
  b.part = vram__hf_decoder_parts;
  b.parts = sizeof vram__hf_decoder_parts / sizeof *vram__hf_decoder_parts;
  b.row = vram__hf_decoder_rows;
  b.rows = sizeof vram__hf_decoder_rows / sizeof *vram__hf_decoder_rows;
  return b;
}
