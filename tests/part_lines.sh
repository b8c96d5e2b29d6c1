# vram estimate --embedded: what it prints, budgets, bad input; a model, and the header that vram emit
# makes of it, have the same figures: sourced by part.sh.
work=build/lines
rm -rf $work && mkdir -p $work
net=$work/net.h
cat >$net <<'END'
/* two networks */
#define HIDDEN (2 * 8)
VRAM_NET_BEGIN(a, I8, 1, 4, 4, 3);
VRAM_NET_CONV2D(a, c1, input, HIDDEN, 3, 3, 1, 1, SAME, 1);
VRAM_NET_KEEP(a, k1, c1);
VRAM_NET_CONV2D(a, c2, k1, HIDDEN, 1, 1, 1, 1, VALID, 0);
VRAM_NET_ADD_INPLACE(a, a1, c2, k1);
VRAM_NET_LSTM(a, l, a1, 1, 2, 0);
VRAM_NET_END(a, l);
VRAM_NET_BEGIN_WITH(b, F32, 1, 1, 6, 3, 8, NONE);
VRAM_NET_RESHAPE(b, r, input, 6, 1, 3);
VRAM_NET_LSTM(b, y, r, 2, 1, 1);
VRAM_NET_END(b, y);
END
estimate() { ./vram estimate --embedded "$@"; }
says() { # says NAME STATUS TEXT ARGUMENTS...
  cell=$1 wanted=$2 text=$3
  shift 3
  estimate "$@" >$work/out 2>&1
  status=$?
  if [ $status = "$wanted" ] && grep -qF -e "$text" $work/out; then ok; else
    bad "$cell: status $status"
    head -5 $work/out
  fi
}

# A. the table: 6*1*3 floats are 72 bytes; 4*2*(3+2+1) parameters; two states of 8; 4 sums of 8
cat >$work/wanted <<'END'
b  F32  batch 1  buffers aligned to 8  kernels NONE

line             op                        h     w     c    params         MACs   weights     flash    output   scratch      live
input            BEGIN_WITH                1     6     3         0            0         0         0        72         0        72
r                RESHAPE                   6     1     3         0            0         0         0        72         0        72
y                LSTM                      6     1     2        48          240       192       192        48        32       152

parameters                 48
MACs                      240
weights                   192 bytes
flash                     192 bytes, each array aligned
state                      16 bytes, from one inference to the next
lower bound               152 bytes alive in y (LSTM): no arena is smaller
arena                     152 bytes, planned, no plan is smaller
TFLM's arena              152 bytes, the same buffers placed as TensorFlow Lite Micro does
ping-pong                 152 bytes in two buffers and a third for kept values
SRAM                      168 bytes, arena and state

flash                     192 of 192 bytes, 0 left
SRAM                      168 of 160 bytes: does not fit by 8, the most is alive in y (LSTM): 152
END
estimate $net --net b --flash 192 --sram 160 >$work/found
status=$?
same "the table" $work/wanted $work/found
if [ $status = 3 ]; then ok; else bad "a budget that does not fit: status $status"; fi
cat >$work/wanted <<'END'
line,op,height,width,channels,out_bytes,params,macs,weight_bytes,flash_bytes,state_bytes,scratch_bytes,live_bytes,total_params,total_macs,total_weight_bytes,total_flash_bytes,total_state_bytes,peak_live_bytes,pingpong_bytes,offset
input,BEGIN_WITH,1,6,3,72,0,0,0,0,0,0,72,0,0,0,0,0,72,72,0
r,RESHAPE,6,1,3,72,0,0,0,0,0,0,72,0,0,0,0,0,72,72,0
y,LSTM,6,1,2,48,48,240,192,192,16,32,152,48,240,192,192,16,152,152,72
END
estimate $net --net b --csv >$work/found
same "CSV" $work/wanted $work/found
estimate - --net b --csv <$net >$work/found
same "standard input" $work/wanted $work/found
estimate $net --net b --flash 200 --sram 1KiB --json >$work/json
if [ $? = 0 ] && grep -q '"flash_budget_bytes":200,"sram_budget_bytes":1024,"fits":true}' $work/json; then ok; else bad "JSON with budgets"; fi
if have python3; then cell "JSON" python3 -m json.tool $work/json; else skip "no python3: JSON"; fi

# B. budgets and what goes before the header's BEGIN
says "flash that fits" 0 "28984 of 28984 bytes, 0 left" tests/embedded/kws.h --flash 28984 --net kws
says "flash that does not fit" 3 "28984 of 28983 bytes: does not fit by 1," tests/embedded/kws.h --flash 28983
says "flash that ends" 3 "the first too many is p3 (CONV2D): 21952 with it" tests/embedded/kws.h --flash 20KiB
says "int16" 0 "state" tests/embedded/kws.h --format I16
says "align" 0 "buffers aligned to 64  kernels DSP" tests/embedded/ic.h --align 64 --kernels dsp
says "of BEGIN_WITH" 0 "buffers aligned to 8  kernels MVE" $net --net b --kernels mve
if [ "$(estimate tests/embedded/ic.h --kernels plain --csv | cut -d, -f12 | sort -n | tail -1)" -gt 0 ]; then ok; else bad "scratch of CMSIS-NN"; fi

# C. bad input
says "two networks" 2 "$net:10:21: a second network (found b, expected to be told which one)" $net
says "no such network" 2 "$net:1:1: no lines of that network (found c)" $net --net c
says "a line that is wrong" 2 "$net:8:1: LSTM l: time steps are the height (found 4, expected a width of 1)" $net --net a
echo "int x;" >$work/none.h
says "no network" 2 "$work/none.h:1:1: no network (expected VRAM_NET_BEGIN(...))" $work/none.h
says "no file" 2 "cannot open 'nothing.h'" nothing.h
says "no model" 2 "no file and no built-in model 'lenet'" lenet
says "no input" 2 "no network (expected vram estimate --embedded NET.h or MODEL"
says "two inputs" 2 "a second network 'lenet5'" $net lenet5
says "an option of steps" 2 "not an option with --embedded: '--train'" lenet5 --train sgd
says "no value" 2 "no value behind '--sram'" lenet5 --sram
says "a size" 2 "not a size '1x'" lenet5 --sram 1x
says "an alignment" 2 "not an alignment '24' (expected a power of two)" lenet5 --align 24
says "a format" 2 "unknown format 'i9' (expected F32, F16, I8," lenet5 --format i9
says "kernels" 2 "unknown kernels 'neon' (expected NONE, PLAIN, DSP or MVE)" lenet5 --kernels neon
says "JSON and CSV" 2 "standard output takes one of --json and --csv" lenet5 --json --csv
says "sizes of a header" 2 "sizes of a header are what it says" $net --batch 2
says "networks of a model" 2 "a model has one network" lenet5 --net lenet5
refuse "without --embedded" "an option of vram estimate --embedded: '--flash'" ./vram estimate lenet5 --flash 1KiB
estimate -h >$work/found
cell "help" grep -q -e --sram $work/found

# C2. macros and conditions of the header's own, by a compiler's preprocessor
cat >$work/own.h <<'END'
#define BLOCK(name, before, channels) VRAM_NET_CONV2D(own, name, before, channels, 3, 3, 2, 2, HOW, 1)
#ifdef SMALL
#define HOW VALID
#else
#define HOW SAME
#endif
VRAM_NET_BEGIN(own, I8, 1, 32, 32, VRAM_KIB(1) / 256 - 1);
BLOCK(c1, input, 16);
BLOCK(c2, c1, 32);
VRAM_NET_END(own, c2);
END
says "macros" 0 "c2               CONV2D                    8     8    32      4640       294912" $work/own.h
(CPPFLAGS=-DSMALL && export CPPFLAGS && estimate $work/own.h) >$work/out
cell "conditions" grep -q '^c2 *CONV2D *7 *7 *32 ' $work/out
printf 'VRAM_NET_BEGIN(n, I8, 1, 8, 8, 8);\n#ifdef OTHER\n#define SOME 1\n#endif\n#include "layers.h"\nVRAM_NET_FLATTEN(n, y, input);\nVRAM_NET_END(n, z);\n' >$work/including.h
printf '\n\n\nVRAM_NET_FLATTEN(n, x, %s);\n' inpt >$work/layers.h
says "a mistake in an included header" 2 "including.h:5:1: FLATTEN x: an unknown line (found inpt" $work/including.h
echo >$work/layers.h
says "a mistake behind it" 2 "including.h:7:1:" $work/including.h
sed 's/c2, c1/c2, c0/' $work/own.h >$work/wrong.h
says "a mistake behind macros" 2 "wrong.h:9:1: CONV2D c2: an unknown line (found c0, expected c1)" $work/wrong.h
{ echo '#include "notify.h"'; cat $work/own.h; } >$work/missing.h
CC=no-such-compiler says "no compiler" 2 "macros or conditions decide about its lines, and no compiler reads it (CC, CPPFLAGS; or make net-report NET=$work/own.h)" $work/own.h
{ printf '#include "notify.h" // is not there\n#ifdef __cplusplus\nextern "C" {\n#else\n#define PLAIN\n#endif\n'
  sed 's/HOW/SAME/; s/BLOCK(\(c.\), \(.*\), \(.*\))/VRAM_NET_CONV2D(own, \1, \2, \3, 3, 3, 2, 2, SAME, 1)/; s/VRAM_KIB.*1)/3)/; 1,6d' $work/own.h
  printf '#ifdef __cplusplus\n}\n#endif\n'; } >$work/guarded.h
says "guards of C++" 0 "c2               CONV2D                    8     8    32      4640       294912" $work/guarded.h
says "what the compiler says" 2 "no compiler reads it (CC, CPPFLAGS; or make net-report NET=$work/missing.h): $work/missing.h:1:10: " $work/missing.h
says "a picture" 0 "SRAM" tests/embedded/kws.h --svg $work/net.svg
if [ "$(grep -c '<title>' $work/net.svg)" = 13 ] && grep -q '<title>input: 496 bytes at [0-9]*, 0 to 2</title>' $work/net.svg; then ok; else bad "the picture"; fi

# an INPUT is written once and reads nothing: `input` is written and read by ADD
printf 'VRAM_NET_BEGIN(two, I8, 1, 10, 10, 10);\nVRAM_NET_KEEP(two, k, input);\nVRAM_NET_INPUT(two, y, k, I8, 10, 10, 10);\nVRAM_NET_ADD(two, z, y, k);\nVRAM_NET_END(two, z);\n' >$work/two.h
says "accesses of two inputs" 0 '"bytes":1008,"accesses":2000}' $work/two.h --bank a=1KiB --bank b=0 --json

# D. a model, and the header made of it
for model in lenet5 resnet18 mobilenet_v2 unet vit_b_16 gpt2; do
  for options in "--format i8" "--format f32 --align 64"; do
    ./vram emit $model $options --batch 1 -o $work/$model.h >$work/log 2>&1
    estimate $work/$model.h --csv >$work/found
    estimate $model $options --batch 1 --csv >$work/wanted
    if [ "$(wc -l <$work/wanted)" -gt 10 ]; then same "$model $options" $work/wanted $work/found; else bad "$model $options"; fi
  done
done
