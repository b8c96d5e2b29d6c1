# vram emit: what it prints compiles everywhere, and says what an awk program counts from the text
# form alone; what no line can say is refused; the report program: sourced by part.sh.
work=build/emit
rm -rf $work
mkdir -p $work
COMMON=$(cat tests/warnings)
CWARN="$COMMON -Wstrict-prototypes -Wmissing-prototypes"
CXXWARN="$COMMON -Wold-style-cast -Wzero-as-null-pointer-constant"
gcc=gcc; have gcc || gcc=${CC:-cc}
number() { sed -n "s/^#define $2 \([0-9]*\)ULL\$/\1/p" "$1"; }
program() { # program FILE HEADER...: a source that includes them
  file=$1
  shift
  echo '#define VRAM_MACROS_ONLY' >$file
  for header in vram.h "$@"; do echo "#include \"$header\""; done >>$file
}
compiles() { # compiles NAME COMPILER HEADER...: without a warning
  name=$1 compiler=$2
  shift 2
  case $compiler in
  *++*) source=$work/net.cc warn=$CXXWARN ;;
  *) source=$work/net.c warn=$CWARN ;;
  esac
  program $source "$@"
  cell "$name ($compiler)" $compiler $warn -I. -c $source -o $work/net.o
}

# A. parameters without and with folded batch norms, multiply-accumulates, the most that lives at
#    one time, in fp32: counted by emit.awk from the text form
for f in examples/models/lenet5 examples/models/alexnet examples/models/mobilenet_v2 \
  examples/models/mobilenet_v3_large examples/models/resnet18 examples/models/unet \
  examples/models/vgg16 examples/models/googlenet examples/models/densenet121 \
  examples/models/efficientnet_b0 examples/models/mlp examples/models/deeplabv3_resnet50 \
  tests/golden/models/nn_dcgan_g tests/golden/models/tv_resnet50 \
  tests/embedded/ad tests/embedded/ic tests/embedded/kws tests/embedded/vww; do
  ./vram estimate $f.vram --batch 1 --csv >$work/shapes.csv
  input=$(sed -n 's/^input [^ ]* [^ ]* \[\([^]]*\)\].*/\1/p' $f.vram | head -n 1 | sed 's/^N/1/')
  want=$(awk -v INPUT="$input" -f tests/emit.awk $work/shapes.csv $f.vram)
  ./vram emit $f.vram --batch 1 --no-fold --no-fuse --name n >$work/plain.h
  ./vram emit $f.vram --batch 1 --name n >$work/folded.h
  found="$(number $work/plain.h N_PARAMS) $(number $work/folded.h N_PARAMS)"
  found="$found $(number $work/plain.h N_MACS) $(number $work/plain.h N_LIVE_BYTES)"
  if [ "$want" = "$found" ]; then ok; else bad "$f: counted $want, emitted $found"; fi
  # fp32: four bytes for each parameter
  if [ "$(number $work/plain.h N_WEIGHT_BYTES)" = $((4 * $(number $work/plain.h N_PARAMS))) ]; then ok; else
    bad "$f: weight bytes are not four times the parameters"
  fi
done

# B. every model that has lines: the compiler counts what is asserted (in fp32 or int8, in one of
#    three languages); one that has none says so in one line
i=0
for f in examples/models/*.vram tests/golden/models/*.vram; do
  case $f in *gpt2_xl* | *llama3_8b* | *qwen3* | *hf_bert*) continue ;; esac # large, or there twice
  i=$((i + 1)) format=f32
  [ $((i % 2)) = 0 ] && format=i8
  if ./vram emit $f --batch 1 --format $format --name m$i -o $work/m.h 2>$work/err; then
    case $((i % 3)) in
    0) compiles "$f $format" "$gcc -std=c99" $work/m.h ;;
    1) compiles "$f $format" "$gcc -std=c11" $work/m.h ;;
    *) if have g++; then compiles "$f $format" "g++ -std=c++11" $work/m.h; fi ;;
    esac
  elif [ $? = 2 ] && [ "$(wc -l <$work/err)" = 1 ] && grep -q "^$f:" $work/err; then ok
  else
    bad "$f: an error that is not one line"
    cat $work/err
  fi
done

# C. test graphs, every other one: they have lines, or one line says why not
i=0 emitted=
for f in tests/cases/*/*.vram tests/golden/ops/*.vram tests/golden/random/*.vram; do
  i=$((i + 1))
  [ -z "$LONG" ] && [ $((i % 2)) = 0 ] && continue
  if ./vram emit $f --format i8 --name n$i -o $work/n$i.h 2>$work/err; then
    emitted="$emitted $work/n$i.h"
  elif [ $? != 2 ] || [ "$(wc -l <$work/err)" != 1 ] || ! grep -q "^$f:" $work/err; then
    bad "$f: an error that is not one line"
    cat $work/err
  fi
done
set -- $emitted
if [ $# -ge 250 ]; then ok; else bad "only $# of $i test graphs have lines"; fi
compiles "$# test graphs" "$gcc -std=c99" $emitted

# D. every language and width
./vram emit lenet5 --batch 1 --format i8 --kernels dsp --align 8 -o $work/a.h
./vram emit tests/embedded/ic.vram --format i8 -o $work/b.h
./vram emit mlp --dim N=2 --format i16 --align 64 --name wide_1 -o $work/c.h
./vram emit gru_speech --batch 1 --dim S=20 --format f16 -o $work/d.h
modes="-std=c99 -std=c11 -std=c17 -std=c2x"
for cc in gcc clang; do
  have $cc && for std in $modes; do compiles "four networks" "$cc $std" $work/[abcd].h; done
done
for cc in g++ clang++; do
  have $cc && for std in 11 14 17 20; do
    compiles "four networks" "$cc -std=c++$std" $work/[abcd].h
  done
done
if have clang; then
  for target in avr msp430 thumbv6m-none-eabi riscv32-unknown-elf wasm32 i686-linux-gnu \
    mips-linux-gnu s390x-linux-gnu; do
    echo 'int x;' >$work/probe.c
    if clang --target=$target -c $work/probe.c -o $work/probe.o 2>/dev/null; then
      small=$work/[ab].h # an axis is at most 32,767 where int has 16 bits
      compiles "two networks" "clang --target=$target -ffreestanding -std=c99" $small
      compiles "two networks" "clang++ --target=$target -ffreestanding -std=c++11" $small
    else skip "clang --target=$target"; fi
  done
else skip "no clang: other machines"; fi
cat >$work/uses.c <<'END'
#define VRAM_MACROS_ONLY
#include "vram.h"
#include "b.h"
#include "b.h"
#if IC_ARENA_BYTES > 49152 || IC_C1_WEIGHT_BYTES != 624
#error numbers for the preprocessor
#endif
unsigned char arena[IC_ARENA_BYTES], *c1 = arena + IC_C1_OFFSET;
END
cell "numbers for the preprocessor and for arrays, included twice" $gcc -std=c99 $CWARN -I. -c $work/uses.c -o $work/uses.o

# E. the assertions hold what they assert: a number changed, buffers on one another, an arena too small
changed() { # changed NAME SED TEXT
  sed "$2" $work/b.h >$work/changed.h
  program $work/changed.c $work/changed.h
  refuse "$1" "$3" $gcc -std=c11 -I. -fsyntax-only $work/changed.c
}
changed "a layer's number changed" 's/^\(IC_IS(.*, c2, \)32,/\131,/' ic_c2_is_not_what_vram_emit_counted
changed "the sum of weights changed" 's/^\(#define IC_FLASH_BYTES\) .*/\1 81441ULL/' ic_flash_bytes
changed "two buffers in one place" 's/^\(#define IC_C2_OFFSET\) .*/\1 0ULL/' are_apart
changed "an arena below what lives" 's/^\(#define IC_ARENA_BYTES\) .*/\1 49136ULL/' ic_arena_is_large_enough
changed "a line changed" 's/^VRAM_NET_CONV2D(ic, c2, r1_kept, 16, 3, 3, 1, 1, PAD(1, 1), 1)/VRAM_NET_CONV2D(ic, c2, r1_kept, 16, 3, 3, 1, 1, PAD(1, 1), 0)/' ic_c2_is_not_what_vram_emit_counted

# E2. without vram.h; the plan of lines that are there already, by which VRAM_ASSERT_FITS goes
printf '#include "%s"\n' $work/b.h >$work/alone.c
refuse "vram.h is forgotten" '#error "include vram.h first"' $gcc -std=c11 -I. -fsyntax-only $work/alone.c
$gcc -std=c11 -I. -fsyntax-only $work/alone.c 2>$work/err
if [ "$(grep -c error: $work/err)" = 1 ]; then ok; else bad "more than one error without vram.h"; fi
cell "a plan of lines" ./vram emit tests/embedded/branches.h --sram 2240 -o $work/plan.h
program $work/lines.c tests/embedded/branches.h
echo 'VRAM_ASSERT_FITS(branches, 1024, 2240);' >>$work/lines.c
refuse "lines by themselves" "branches_sram_is_over_budget_by" $gcc -std=c11 -I. -fsyntax-only $work/lines.c
program $work/lines.c tests/embedded/branches.h $work/plan.h
echo 'VRAM_ASSERT_FITS(branches, 1024, 2240); char v5[VRAM_NET_OFFSET(branches, v5) == BRANCHES_V5_OFFSET ? 1 : -1];' >>$work/lines.c
cell "lines with their plan" $gcc -std=c11 $CWARN -I. -fsyntax-only $work/lines.c
refuse "by how much" "vram emit: branches: SRAM 2240 of 2048 bytes: does not fit by 192, the most is alive in v14 (ACTIVATION): 2240" ./vram emit tests/embedded/branches.h --sram 2KiB -o $work/plan.h
# a plan that is of other lines is one mistake: the first line that has changed
./vram emit tests/embedded/branches.h -o $work/plan.h
for change in 's/v6, v5, 11,/v6, v5, 12,/ v6_is_not_what_vram_emit_counted' \
  's/v5\([,)]\)/w5\1/ v5_is_no_line_after_BEGIN'; do
  sed "${change% *}" tests/embedded/branches.h >$work/stale.h
  program $work/stale.c $work/stale.h $work/plan.h
  refuse "a plan of other lines" "branches_${change##* }" $gcc -std=c11 -I. -fno-diagnostics-show-caret -fsyntax-only $work/stale.c
  if have gcc && [ "$(wc -l <$work/log)" -gt 10 ]; then bad "$(wc -l <$work/log) lines for a plan of other lines"; else ok; fi
done
refuse "a plan of another format" "a header's lines are what they are" ./vram emit tests/embedded/branches.h --format i8

# F. budgets: exit status, and the compiler's word for it
fits() { # fits STATUS OPTIONS: what emit says, and whether that compiles
  status=$1
  shift
  ./vram emit tests/embedded/ic.vram --format i8 -o $work/budget.h "$@"
  if [ $? = $status ]; then ok; else bad "exit status of $*"; fi
  program $work/budget.c $work/budget.h
  if [ $status = 0 ]; then
    cell "budget $*" $gcc -std=c11 -I. -fsyntax-only $work/budget.c
  else
    refuse "budget $*" "ic_.*_is_over_budget_by" $gcc -std=c11 -I. -fsyntax-only $work/budget.c
  fi
}
fits 0 --flash 81440 --sram 48KiB
fits 3 --flash 81439
fits 3 --sram 49151
fits 3 --flash 1MiB --sram 40KiB

# G. one table, from the compiler's constants and at run time
cp $work/b.h $work/report_b.h
./vram emit googlenet --batch 1 --format i8_per_tensor --kernels mve -o $work/report_g.h
for h in tests/embedded/kws.h $work/report_b.h $work/report_g.h; do
  ./vram estimate --embedded $h >$work/table
  "$MAKE" -s --no-print-directory net-report NET=$h >$work/report 2>&1
  same "net-report and estimate --embedded of $h" $work/table $work/report
done
refuse "net-report of nothing" "NET= is no header" "$MAKE" -s net-report NET=

# H. small models, their lines
lines() { # lines NAME WANT TEXT OPTIONS: the lines of a model, without its END
  name=$1 want=$2
  printf '%b\n' "$3" >$work/small.vram
  shift 3
  found=$(./vram emit $work/small.vram --name n "$@" 2>&1 | sed -n 's/^VRAM_NET_\([A-Z0-9_]*\)(n, *\([^;]*\));.*/\1 \2/p' | sed '/^END/d' | tr '\n' ';')
  if [ "$found" = "$want" ]; then ok; else
    bad "$name: $found"
    ./vram emit $work/small.vram --name n "$@" 2>&1 | head -3
  fi
}
lines "a flatten that costs nothing, a fused activation" \
  "BEGIN F32, 1, 8, 8, 3;CONV2D c, input, 4, 3, 3, 1, 1, VALID, 1;ACTIVATION_FUSED r, c;FLATTEN r_view, r;LINEAR y, r_view, 5, 0;" \
  "input x f32 [1,3,8,8]\nconv2d c x out_channels=4 kernel_size=3\nrelu r c\nflatten f r start_dim=1\nlinear y f out_features=5 bias=0"
lines "the same without fusing" \
  "BEGIN F32, 1, 8, 8, 3;CONV2D c, input, 4, 3, 3, 1, 1, VALID, 1;ACTIVATION_INPLACE r, c;" \
  "input x f32 [1,3,8,8]\nconv2d c x out_channels=4 kernel_size=3\nrelu r c" --no-fuse
lines "a batch norm gives the layer a bias" \
  "BEGIN I8, 1, 8, 1, 3;CONV2D c, input, 4, 3, 1, 1, 1, PAD(1, 0), 1;BATCH_NORM_FOLDED b, c;ACTIVATION_INPLACE s, b;" \
  "input x f32 [1,3,8]\nconv1d c x out_channels=4 kernel_size=3 padding=1 bias=0\nbatch_norm b c\nsigmoid s b" --format i8
lines "one that is read twice is not folded" \
  "BEGIN F32, 1, 4, 4, 2;CONV2D c, input, 2, 1, 1, 1, 1, VALID, 0;KEEP c_kept, c;BATCH_NORM b, c_kept;ADD_INPLACE y, b, c_kept;" \
  "input x f32 [1,2,4,4]\nconv2d c x out_channels=2 kernel_size=1 bias=0\nbatch_norm b c\nadd y b c"
lines "depthwise with dilation, a pool with ceil_mode" \
  "BEGIN F32, 1, 9, 9, 4;DEPTHWISE_CONV2D_FULL d, input, 2, 3, 3, 1, 1, 2, 2, VALID, 1;MAX_POOL2D y, d, 2, 2, 2, 2, PAD_CEIL(0, 0);" \
  "input x f32 [1,4,9,9]\nconv2d d x out_channels=8 kernel_size=3 groups=4 dilation=2\nmax_pool2d y d kernel_size=2 ceil_mode=1"
lines "squeeze and excite: over the large one" \
  "BEGIN F32, 1, 4, 4, 6;ACTIVATION_INPLACE x1, input;KEEP x1_kept, x1;GLOBAL_AVG_POOL2D p, x1_kept;CONV2D c, p, 6, 1, 1, 1, 1, VALID, 1;ACTIVATION_INPLACE s, c;KEEP s_kept, s;FROM x1_back, s_kept, x1_kept;MUL_INPLACE y, x1_back, s_kept;" \
  "input x f32 [1,6,4,4]\nsilu x1 x\nadaptive_avg_pool2d p x1 output_size=1\nconv2d c p out_channels=6 kernel_size=1\nsigmoid s c\nmul y s x1"
lines "an outer and an inner output" \
  "BEGIN F32, 1, 1, 1, 8;LINEAR a, input, 4, 1;OUTPUT a_output, a;LINEAR b, a_output, 2, 1;" \
  "input x f32 [1,8]\nlinear a x out_features=4\nlinear b a out_features=2\noutput b a"
lines "stacked, two directions" \
  "BEGIN I8, 1, 5, 1, 3;KEEP input_kept, input;LSTM r_forward, input_kept, 4, 2, 1;KEEP r_forward_kept, r_forward;FROM input_back, r_forward_kept, input_kept;LSTM r_backward, input_back, 4, 2, 1;CONCAT r, r_backward, r_forward_kept;SLICE y, r, 1, 1, 8;" \
  "input x f32 [1,5,3]\nlstm r x hidden_size=4 batch_first=1 bidirectional=1\nselect y r dim=1 index=-1" --format i8
lines "ids, and weights that are used twice" \
  "BEGIN IDS32, 1, 6, 1, 1;EMBEDDING e, input, I8, 11, 4;CUSTOM y, e, 6, 1, 11, 0, 0, 264, 0, 0;" \
  "input x i64 [1,6]\nembedding e x num_embeddings=11 embedding_dim=4\nlinear y e out_features=11 bias=0 weights=e" --format i8
lines "a product of two values: what it read last goes" \
  "BEGIN F32, 1, 3, 1, 4;KEEP input_kept, input;LINEAR a, input_kept, 4, 1;CUSTOM y, a, 3, 1, 3, 0, 0, 36, 0, 0;KEEP y_kept, y;FROM input_back, y_kept, input_kept;FROM y_back, input_back, y_kept;" \
  "input x f32 [1,3,4]\nlinear a x out_features=4\ntranspose t x dim0=1 dim1=2\nmatmul y a t"
lines "two inputs, two outputs" \
  "BEGIN I8, 1, 8, 8, 3;KEEP input_kept, input;INPUT z, input_kept, I8, 1, 1, 10;KEEP z_kept, z;FROM input_back, z_kept, input_kept;CONV2D c, input_back, 4, 3, 3, 1, 1, VALID, 1;GLOBAL_AVG_POOL2D m, c;KEEP m_kept, m;FROM z_back, m_kept, z_kept;LINEAR f, z_back, 4, 1;CONCAT y, f, m_kept;KEEP y_kept, y;LINEAR a, y_kept, 2, 1;OUTPUT a_output, a;FROM y_back, a_output, y_kept;LINEAR b, y_back, 3, 1;" \
  "input x f32 [1,3,8,8]\ninput z f32 [1,10]\nconv2d c x out_channels=4 kernel_size=3\nmean m c dim=2,3\nlinear f z out_features=4\ncat y m f dim=1\nlinear a y out_features=2\nlinear b y out_features=3\noutput a b" --format i8
lines "ids and their positions" \
  "BEGIN IDS32, 1, 4, 1, 1;KEEP input_kept, input;INPUT p, input_kept, IDS32, 4, 1, 1;EMBEDDING b, p, F32, 9, 6;KEEP b_kept, b;FROM input_back, b_kept, input_kept;EMBEDDING a, input_back, F32, 5, 6;ADD_INPLACE y, a, b_kept;" \
  "input x i64 [1,4]\ninput p i64 [1,4]\nembedding b p num_embeddings=9 embedding_dim=6\nembedding a x num_embeddings=5 embedding_dim=6\nadd y a b"
lines "three axes" \
  "BEGIN I8, 1, 192, 24, 2;CONV3D c, input, 8, 4, 3, 3, 3, 1, 2, 2, 1, PAD(1, 1), 1;BATCH_NORM_FOLDED b, c;CUSTOM p, b, 48, 6, 4, 0, 0, 0, 0, 0;CUSTOM d, p, 32, 6, 4, 16, 60, 2304, 0, 0;CONV3D e, d, 8, 5, 2, 1, 1, 2, 1, 1, 0, VALID, 0;GLOBAL_AVG_POOL2D g, e;" \
  "input x f32 [1,2,8,24,24]\nconv3d c x out_channels=4 kernel_size=3 stride=1,2,2 padding=1\nbatch_norm b c\nmax_pool3d p b kernel_size=1,2,2\nconv3d d p out_channels=4 kernel_size=1,3,1 groups=4\nconv3d e d out_channels=5 kernel_size=2,1,1 stride=2,1,1 bias=0\nadaptive_avg_pool3d g e output_size=1" --format i8
lines "rows that an index picks" \
  "BEGIN I8, 1, 6, 1, 4;CUSTOM y, input, 3, 1, 4, 0, 12, 0, 0, 0;" \
  "input x f32 [1,6,4]\nbuffer i shape=[3] dtype=i32\nindex_select y x i dim=1" --format i8
lines "attention, dropout, a loss" \
  "BEGIN F32, 1, 7, 1, 8;SELF_ATTENTION a, input, 2, 2, 4, 1;LAYER_NORM_INPLACE y, a;" \
  "input x f32 [1,7,8]\nmulti_head_attention a x x x num_heads=2 batch_first=1\ndropout d a p=0.1\nlayer_norm y d normalized_shape=8\nmse_loss loss y"
lines "tokens for channels: one copy" \
  "BEGIN F32, 1, 5, 1, 6;TRANSPOSE y_order, input, 6, 1, 5;LINEAR y, y_order, 3, 1;" \
  "input x f32 [1,5,6]\ntranspose t x dim0=1 dim1=2\nlinear y t out_features=3"
same_twice() { ./vram emit $1 --batch 1 >$work/once; ./vram emit $1 --batch 1 >$work/again; same "$1 twice" $work/once $work/again; }
same_twice densenet121
./vram emit lenet5 -o - >$work/once
./vram emit lenet5 >$work/again
same "-o -" $work/once $work/again
if head -n 1 $work/once | grep -q 'batch 64'; then ok; else bad "the model's own batch"; fi

# I. bad input: one line, where and what
small() { # small NAME TEXT LINES
  printf '%b\n' "$3" >$work/small.vram
  refuse "$1" "small.vram$2" ./vram emit $work/small.vram
  if [ "$(wc -l <$work/log)" = 1 ]; then ok; else bad "$1: not one line"; fi
}
small "3d, padded with itself" ":2:1: c (conv3d): three axes whose padding is not of zeros" "input x f32 [1,2,4,4,4]\nconv3d c x out_channels=2 kernel_size=3 padding=1 padding_mode=circular"
small "two inputs, another batch" ": input z: its batch is not that of the first input" "input x f32 [2,2]\ninput z f32 [3,2]\nlinear a x out_features=3\nlinear b z out_features=3\noutput a b"
small "indices" ":3:1: t (topk): no line does that" "input x f32 [1,9]\nlinear a x out_features=4\ntopk t,i a k=2"
small "the batch" ":2:1: m (mean): it works across the batch" "input x f32 [4,6]\nmean m x dim=0\nlinear y m out_features=2"
refuse "no model" "no model (expected vram emit MODEL" ./vram emit
refuse "an unknown option" "unknown option '--frobnicate'" ./vram emit lenet5 --frobnicate
refuse "an unknown format" "unknown format 'u7' (expected F32, F16, I8" ./vram emit lenet5 --format u7
refuse "a name that is none" "not a name of a network '1a'" ./vram emit lenet5 --name 1a
refuse "an alignment that is none" "not an alignment '12'" ./vram emit lenet5 --align 12
refuse "a size that is none" "not a size 'much'" ./vram emit lenet5 --flash much
refuse "a folder that is not there" "cannot write 'build/nowhere/x.h'" ./vram emit lenet5 -o build/nowhere/x.h
refuse "too large for constants" "is too large: 4 n h w c" ./vram emit unet --batch 200
refuse "a second model" "a second model 'mlp'" ./vram emit lenet5 mlp

# G. a .tflite file in its own format, its constants as arrays, several memories: the arrays of a line are the bytes that it
#    counts, and all of it compiles
./vram emit tests/golden/tflite/ic_i8io.tflite --name ic -o $work/ic.h --weights $work/weights.h --bank DTCM=40KiB --bank SRAM=0
if [ "$(number $work/ic.h IC_WEIGHT_BYTES)" = 22464 ]; then ok; else bad "a .tflite file of int8 is counted in another format"; fi
if grep -q 'the line counts' $work/weights.h; then bad "arrays that are not what the line counts"; else ok; fi
if grep -q '^static const int8_t ic_weights_functional_1_re_lu_1_Relu_linear\[' $work/weights.h; then ok; else bad "arrays are not named after lines"; fi
./vram emit tests/golden/tflite/ic_i8io.tflite | head -n 1 >$work/found
if grep -q '^/\* ic_i8io: ' $work/found; then ok; else bad "a network that its file does not name"; fi
bytes=$(sed -n 's/^static const \(int[0-9]*\)_t [a-z0-9_A-Z]*\[\([0-9]*\)\].*/\1 \2/p' $work/weights.h |
  awk '{ sub("int", "", $1); n += $1 / 8 * $2 } END { print n }')
if [ "$bytes" = 22464 ]; then ok; else bad "arrays of $bytes bytes, the lines count 22464"; fi
# with one scale for a matrix TFLite's multiplier is of a product of floats (kernel_util.cc,
# GetQuantizedConvolutionMultipler): a model whose scales are odd
${PYTHON:-python3} - tests/golden/tflm/net26.tflite $work/odd.tflite >$work/wanted <<'END'
import math, struct, sys
as_float = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
x, w, y = map(as_float, (0.0123, 0.00456, 0.0789))
data = bytearray(open(sys.argv[1], "rb").read())
for at, scale in ((832, x), (756, w), (584, y)):
    data[at : at + 4] = struct.pack("<f", scale)
open(sys.argv[2], "wb").write(data)
fraction, shift = math.frexp(as_float(x * w) / y)
print(math.floor(fraction * 2**31 + 0.5), shift)
END
./vram emit $work/odd.tflite --name odd -o $work/odd.h --weights $work/odd_weights.h
sed -n '/_multiplier_\|_shift_/{n;s/[ ,]//g;p;}' $work/odd_weights.h | tail -n 2 | tr '\n' ' ' | sed 's/ $//' >$work/found
echo >>$work/found
same "the multiplier of a matrix" $work/wanted $work/found
refuse "constants of what is no TFLite file" "no TFLite file, whose constants alone are written" ./vram emit lenet5 -o $work/half.h --weights $work/half_weights.h
if [ -e $work/half.h ]; then bad "half a result"; else ok; fi
program $work/banks.c $work/ic.h $work/weights.h
echo 'unsigned char dtcm[IC_BANK_DTCM_BYTES], sram[IC_BANK_SRAM_BYTES];' >>$work/banks.c
echo 'VRAM_STATIC_ASSERT(IC_BANK_DTCM_BYTES <= 40960 && IC_INPUT_BANK == IC_BANK_DTCM, in_fast_memory);' >>$work/banks.c
cell "constants and banks" $gcc -std=c99 $COMMON -Wno-unused -I. -c $work/banks.c -o $work/banks.o
if ./vram emit tests/golden/tflite/ic_i8io.tflite --bank 8KiB --bank 16KiB -o $work/none.h 2>/dev/null; then bad "banks that are too small"; else ok; fi

# H. the plan of lines in several memories: each buffer in its own, as a user places them
cell "lines in two memories" ./vram emit tests/embedded/branches.h --bank DTCM=1KiB --bank SRAM=0 -o $work/two.h
grep -q '^   In several memories: DTCM [0-9]*, SRAM [0-9]* bytes, no other choice uses' $work/two.h && ok || bad "the head of a plan in two memories"
cat >$work/two.c <<'END2'
#define VRAM_MACROS_ONLY
#include "vram.h"
#include "tests/embedded/branches.h"
#include "two.h"
static unsigned char dtcm[BRANCHES_BANK_DTCM_BYTES], sram[BRANCHES_BANK_SRAM_BYTES];
static unsigned char *const memory[] = {dtcm, sram};
#define AT(y) (memory[VRAM_NET_BANK(branches, y)] + VRAM_NET_OFFSET(branches, y))
VRAM_STATIC_ASSERT(sizeof dtcm <= 1024 && VRAM_NET_BANK(branches, v5) == BRANCHES_V5_BANK, fits);
VRAM_STATIC_ASSERT(VRAM_NET_BANK(branches, input) == 0 && VRAM_NET_BANK(branches, v14) == 1, banks);
int main(void) { return AT(input) - dtcm != BRANCHES_INPUT_OFFSET || AT(v14) - sram != BRANCHES_V14_OFFSET; }
END2
cell "buffers in two memories" $gcc -std=c11 $COMMON -I. $work/two.c -o $work/two
cell "their places" $work/two
sed 's/^#define BRANCHES_BANK_SRAM_BYTES .*/#define BRANCHES_BANK_SRAM_BYTES 2112ULL/' $work/two.h >$work/less.h
sed 's/two.h/less.h/' $work/two.c >$work/less.c
refuse "a memory that is too small for its buffers" "is_inside" $gcc -std=c11 -I. -fsyntax-only $work/less.c
refuse "by how much banks are too small" "branches.h: its buffers do not fit the banks: B has 1200 bytes, what is left for it takes 2176: does not fit by 976" \
  ./vram emit tests/embedded/branches.h --bank A=200 --bank B=1200
refuse "a buffer that fits none" "fits none" ./vram estimate --embedded tests/embedded/ic.vram --format i8 --bank A=9000 --bank B=9000

# I. constants in several memories: all choices of a small network; an image of what is copied is in
#    FLASH, too; a convolution of int8 reads a weight for each MAC, and bias, multiplier, shift for each output
if have python3; then
  cat >$work/rom.py <<'END2'
import itertools, json, sys
d = json.load(sys.stdin)
line = {l["line"]: l for l in d["lines"]}
c = d["constants"]
for x in c:
    l = line[x["name"]]
    if l["op"] in ("CONV2D", "DEPTHWISE_CONV2D"):
        reads = l["macs"] + 12 * l["height"] * l["width"] * l["channels"]
        assert x["accesses"] == reads, (x, reads)
roms = d["roms"]
names = [r["name"] for r in roms]
image = [names.index(r["copied_from"]) if "copied_from" in r else None for r in roms]
best = ()
for way in itertools.product(range(len(roms)), repeat=len(c)):
    used = [0] * len(roms)
    reads = [0] * len(roms)
    for x, k in zip(c, way):
        used[k] += x["bytes"]
        reads[k] += x["accesses"]
        if image[k] is not None:
            used[image[k]] += x["bytes"]
    if all(not r["capacity_bytes"] or u <= r["capacity_bytes"] for u, r in zip(used, roms)):
        best = max(best, tuple(reads))
assert d["roms_proven"] and tuple(r["accesses"] for r in roms) == best, (best, roms)
print(len(c), sum(r["bytes"] for r in roms) == d["flash_bytes"])
END2
  for sizes in "A=20KiB B=70KiB C=0" "A=6000 B=12000 C=64KiB" "A=40KiB:B B=60KiB C=30000" "A=3000:B B=2600 C=0"; do
    options=
    for s in $sizes; do options="$options --rom $s"; done
    if [ "$(./vram estimate --embedded tests/embedded/ic.vram --format i8 --json $options | python3 $work/rom.py 2>$work/err)" = "10 True" ]; then ok; else
      bad "constants in$options"
      cat $work/err
    fi
  done
fi
# other layers, by hand: one row of 8 for each of 6 ids; 192 weights, 16 biases of 4 bytes and 8 scales of 8
# at each of 6 steps; 64 weights and 4 scales for each of 6 tokens; 8 figures of 4 bytes at 6 positions;
# 12 weights, 3 biases, a scale at 6 positions; a table for each of 18 elements
cat >$work/reads.h <<'END2'
VRAM_NET_BEGIN(n, IDS32, 1, 6, 1, 1);
VRAM_NET_EMBEDDING(n, e, input, I8, 100, 8);
VRAM_NET_LSTM(n, r, e, 4, 1, 1);
VRAM_NET_SELF_ATTENTION(n, a, r, 2, 2, 2, 0);
VRAM_NET_LAYER_NORM(n, l, a);
VRAM_NET_LINEAR(n, y, l, 3, 1);
VRAM_NET_ACTIVATION_TABLE(n, t, y, 256);
VRAM_NET_END(n, t);
END2
./vram estimate --embedded $work/reads.h --rom A=0 | awk '$2 == "A" { print $1, $3, $4 }' >$work/found
printf '%s\n' "e 800 48" "r 320 1920" "a 96 576" "l 32 192" "y 32 192" "t 256 18" >$work/wanted
same "what is read of other layers" $work/wanted $work/found
refuse "constants that do not fit" "constants of 22464 bytes (A 8192, B 9216): do not fit by 5056" ./vram emit tests/golden/tflite/ic_i8io.tflite --rom A=8KiB --rom B=9KiB
refuse "constants of one line that do not fit" "are larger than each memory (A 9000, B 9000, C 9000): do not fit by" ./vram emit tests/golden/tflite/ic_i8io.tflite --rom A=9000 --rom B=9000 --rom C=9000
refuse "RAM that keeps constants" "RAM keeps no constants: 'dtcm'" ./vram emit lenet5 --bank DTCM=8KiB --rom dtcm=0
refuse "copied from nowhere" "copied from what is no later --rom that keeps it: 'X'" ./vram emit lenet5 --rom A=8KiB:X --rom B=0
refuse "a second memory of a name" "a second memory of that name" ./vram emit lenet5 --rom A=8KiB --rom a=0
refuse "no size of a memory" "not a memory 'A=:B'" ./vram emit lenet5 --rom A=:B --rom B=0
# sections as compilers say them; none, where the user says so; an array that is not what was counted
./vram emit tests/golden/tflm/net23.tflite --name m -o $work/m.h --weights $work/mw.h --rom ITCM=100:FLASH --rom FLASH=260 --rom OSPI=0
for c in "$gcc -std=c99" "g++ -std=c++11" "clang -std=c11" "clang++ -std=c++17"; do
  if have ${c%% *}; then compiles "constants in sections" "$c -Wno-unused" $work/m.h $work/mw.h; fi
done
cp $work/mw.h $work/kept.h
sed 's/^\(VRAM_IN_OSPI static .*\[\)\([0-9]*\]\)/\11\2/' $work/kept.h >$work/mw.h
program $work/rom.c m.h mw.h
refuse "a larger array" "m_OSPI_is_as_counted" $gcc -std=c11 -I. -I$work -fsyntax-only $work/rom.c
cp $work/kept.h $work/mw.h
$gcc -E -P -D__IAR_SYSTEMS_ICC__ $work/mw.h | grep -A1 '^#pragma location = ".ospi"' | tail -n 1 >$work/log
grep -q '^ *static const' $work/log && ok || bad "IAR: no pragma before an array"
if $gcc -E -P -DVRAM_IN_OSPI= $work/mw.h | grep -q '"\.ospi"'; then bad "a section that the user does not want"; else ok; fi
refuse "--tflm with memories" "has one arena: not with --tflm '--rom'" ./vram estimate --embedded tests/golden/tflm/net23.tflite --tflm --rom A=0
# what a linker makes of them, to the byte: sizes that are multiples of nothing, int16 with biases of 64 bits
arm="arm-none-eabi-gcc -mcpu=cortex-m7 -mthumb"
linked() { # linked MODEL ITCM FLASH: each section of a program with these constants, beside vram's figures
  ./vram emit $1 --name m -o $work/m.h --weights $work/mw.h --bank DTCM=4KiB --bank SRAM=0 --rom ITCM=$2:FLASH --rom FLASH=$3 --rom OSPI=0
  { program $work/rom.c m.h mw.h
    cat $work/rom.c
    echo '#define PLACE(name) __attribute__((section(name), aligned(16)))'
    echo 'PLACE(".dtcm") unsigned char dtcm[M_BANK_DTCM_BYTES]; PLACE(".sram") unsigned char sram[M_BANK_SRAM_BYTES];'
    echo 'const volatile void *volatile used; void start(void) { used = dtcm; used = sram;'
    sed -n 's/^VRAM_IN_[A-Z]* static const [a-z0-9_]* \([a-zA-Z0-9_]*\)\[.*/used = \1;/p' $work/mw.h
    echo '}'; } >$work/linked.c
  unit=$(sed -n 's/^#define M_ROM_ALIGN //p' $work/m.h)
  cell "$1 in memories" $arm -O2 -std=c99 -Wall -Wextra -Werror -Wno-pedantic -ffreestanding -nostdlib -I. -I$work -T tests/embedded/memories.ld \
    -Wl,--defsym=unit=$unit,--gc-sections,--build-id=none $work/linked.c -o $work/linked.elf
  arm-none-eabi-size -A $work/linked.elf | awk '$1 ~ /^\.(itcm_const|flash|ospi|dtcm|sram)$/ && $2 { print $1, $2 }' | sort >$work/linked
  sed -n 's/^#define M_ROM_\([A-Z]*\)_BYTES \([1-9][0-9]*\)ULL/\1 \2/p; s/^#define M_BANK_\([A-Z]*\)_BYTES \([1-9][0-9]*\)ULL/\1 \2/p' $work/m.h |
    tr A-Z a-z | sed 's/^itcm/itcm_const/; s/^/./' | sort >$work/counted
  same "$1: the linker's sections" $work/counted $work/linked
  # the image is as large, and in FLASH
  arm-none-eabi-objdump -h $work/linked.elf | awk '$2 == ".itcm_const" && $5 ~ /^080/ { print $3 }' >$work/linked
  sed -n 's/^#define M_ROM_FLASH_IMAGE_BYTES \([0-9]*\)ULL/\1/p' $work/m.h | xargs printf '%08x\n' >$work/counted
  same "$1: the image" $work/counted $work/linked
}
if have arm-none-eabi-gcc; then
  linked tests/golden/tflite/ic_i8io.tflite 8KiB 12KiB
  linked tests/golden/tflm/net20.tflite 100 150
  linked tests/golden/tflm/net23.tflite 100 260
  linked tests/golden/tflm/offline12.tflite 24 40
else skip "no arm-none-eabi-gcc: sections of constants"; fi
