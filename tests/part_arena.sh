# vram arena: plans of others' problems, checked by an awk program that knows no planner; bad input;
# the header that it writes: sourced by part.sh.
work=build/arena
mkdir -p $work
golden=tests/golden/arena
data=${ARENA:-../shared/data/arena}
number() { sed -n "s/.*\"$1\":\([0-9a-z]*\).*/\1/p" $work/json; }
cat >$work/check.awk <<'EOF'
# in.csv, out.csv (id,lower,upper,size,offset): the same buffers, none on another. Prints the height
# and the most that lives at one time.
NR == FNR { sub(/\r$/, ""); input[FNR] = $0; next }
FNR == 1 { if ($0 != "id,lower,upper,size,offset") { print "header " $0; exit } next }
{ line = $0
  sub(/,[0-9]*$/, "", line)
  if (line != input[FNR]) { print "line " FNR " is not the input's"; exit }
  n++; from[n] = $2; to[n] = $3; size[n] = $4; at[n] = $5
  if ($5 + $4 > height) height = $5 + $4 }
END {
  for (i = 1; i <= n; i++) {
    live = 0
    for (k = 1; k <= n; k++) {
      if (k < i && from[k] < to[i] && from[i] < to[k] && at[k] < at[i] + size[i] && at[i] < at[k] + size[k]) {
        print "buffers " k " and " i " overlap"; exit }
      if (from[k] <= from[i] && from[i] < to[k]) live += size[k] }
    if (live > most) most = live }
  printf "%.0f %.0f\n", height, most }
EOF
limit="--time-limit 600"
plan() { # plan FILE HEIGHT OPTIONS: the plan is right and of that height at most, as the JSON says
  f=$1 want=$2
  shift 2
  if ./vram arena "$f" --json $limit "$@" >$work/json 2>$work/err &&
    ./vram arena "$f" --csv $limit "$@" >$work/out.csv 2>>$work/err &&
    found=$(awk -F, -f $work/check.awk "$f" $work/out.csv) &&
    [ "$found" = "$(number height_bytes) $(number lower_bound_bytes)" ] && [ "${found% *}" -le "$want" ]
  then ok; else
    bad "$f: found $found, wanted $want at most"
    cat $work/err
    head -c 300 $work/json
  fi
}
proven() { if [ "$(number optimal)" = true ]; then ok; else bad "$1 is not proven"; fi; }

# A. others' problems: the 11 of MiniMalloc to their capacity, and below
few="--nodes 400000"
plan $golden/B.1048576.csv 1048576 $few; proven B
plan $golden/C.1048576.csv 1039360 $few; proven C
plan $golden/G.1048576.csv 1048576 $few; proven G
plan $golden/mobilenet_v2_224_fp32.csv 6021120; proven mobilenet_v2
plan $golden/rnd20_b131.131.csv 131; proven rnd20
plan $golden/rnd40_b178.178.csv 178; proven rnd40
if [ -d "$data" ]; then
  for problem in A B C E F G H I K; do
    plan "$data/minimalloc/$problem.1048576.csv" 1048576 --nodes 1000000
    proven $problem
  done
  for problem in D J; do # their least height is not known
    plan "$data/minimalloc/$problem.1048576.csv" 1048576 --nodes 100000 --capacity 1MiB
  done
  for f in "$data"/models/*.csv "$data"/training/*.csv; do
    plan "$f" 9999999999
    proven "$f"
    case $f in */training/*) # the schedule's peak is in the name
      peak=${f%.csv}
      if [ "$(number height_bytes)" = "${peak##*.}" ]; then ok; else bad "$f: not the schedule's peak"; fi ;;
    esac
  done
  for f in "$data"/large/*.csv; do # awk would take minutes
    ./vram arena "$f" --json --time-limit 600 --nodes 100000 >$work/json
    if [ "$(number height_bytes)" -le "$(($(number lower_bound_bytes) * 101 / 100))" ]; then ok; else
      bad "$f: more than 1 % above the bound"
    fi
  done
else skip "no problems at $data (six are in $golden)"; fi

# B. the example of MiniMalloc's own page, and its columns by other names; what is pinned stays
cat >$work/example.csv <<'EOF'
id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
EOF
plan $work/example.csv 12 --capacity 12
proven example
awk -F, 'NR == 1 { print "size,buffer_id,end,start"; next } { print $4 "," $1 "," $3 - 1 "," $2 }' \
  $work/example.csv >$work/inclusive.csv
./vram arena $work/inclusive.csv --csv >$work/out2.csv
same "columns by other names" $work/out.csv $work/out2.csv
./vram arena - --csv <$work/example.csv >$work/out2.csv
same "standard input" $work/out.csv $work/out2.csv
./vram arena $work/out.csv --csv >$work/out2.csv
same "a plan, all pinned" $work/out.csv $work/out2.csv
sed '2s/8$/7/; 2s/4$/4/' $work/out.csv | awk -F, -v OFS=, 'NR == 2 { $5 = 5 } { print }' >$work/over.csv
refuse "pins that overlap" "over.csv:2: is pinned over buffer 2 while both live: 5 to 9 and 4 to 8" ./vram arena $work/over.csv
printf 'id,lower,upper,size,alignment,offset\na,0,4,10,,\nb,0,4,10,16,\nc,0,4,10,,32\nd,2,9,0,,\n' >$work/pins.csv
./vram arena $work/pins.csv --csv >$work/out.csv
printf 'id,lower,upper,size,alignment,offset\na,0,4,10,1,16\nb,0,4,10,16,0\nc,0,4,10,1,32\nd,2,9,0,1,0\n' >$work/wanted
printf 'id,lower,upper,size,alignment,offset\na,0,4,10,1,0\nb,0,4,10,16,16\nc,0,4,10,1,32\nd,2,9,0,1,0\n' >$work/wanted2
if cmp -s $work/out.csv $work/wanted || cmp -s $work/out.csv $work/wanted2; then ok; else
  bad "pins and alignments"
  cat $work/out.csv
fi

# the values of a TFLite file as it has them: what TensorFlow Lite Micro (tflite-micro 0.dev20261023, RecordingMicroAllocator)
# takes for them, whose variables are elsewhere. stream_i8: the first layers of a wake word's model, without its weights
./vram arena tests/golden/tflite/ic_i8io.tflite --order tflm --json >$work/json
if [ "$(number height_bytes)" = 49152 ]; then ok; else bad "ic_i8io.tflite: $(number height_bytes), TFLM: 49152"; fi
./vram arena tests/golden/tflite/tiny_i8io.tflite --order tflm --json >$work/json
if [ "$(number height_bytes)" = 256 ]; then ok; else bad "tiny_i8io.tflite: $(number height_bytes), TFLM: 256"; fi
./vram arena $golden/stream_i8.tflite --csv | cut -d, -f1-5 >$work/stream.csv
if grep -q '^stream_6/states,0,8,80,16$' $work/stream.csv; then ok; else bad "stream_i8.tflite: its variable lives from 0 to 8"; fi
sed '/states/d' $work/stream.csv >$work/without.csv
./vram arena $work/without.csv --order tflm --align 16 --json >$work/json
if [ $((($(number height_bytes) + 15) / 16 * 16)) = 416 ]; then ok; else bad "stream_i8.tflite: $(number height_bytes), TFLM: 416"; fi
# TensorFlow Lite Micro's whole arena, as its own code says: random models of 60 that nobody had looked at; with its interpreter
# where it is installed, with real ones, too
while read -r model used smallest head tail; do
  case $model in '#'*) continue ;; esac
  found=$(./vram estimate --embedded tests/golden/tflm/$model --tflm --csv |
    awk -F, '$1 == "32" { printf "%s %s ", $3, $2 } $1 == "python" { printf "%s %s", $4, $5 }')
  if [ "$found" = "$used $smallest $head $tail" ]; then ok; else bad "$model: $found, TFLM: $used $smallest $head $tail"; fi
done <tests/golden/tflm/known.txt
# with CMSIS-NN's kernels, and with offsets in the file
while read -r model wanted; do
  case $model in '#'*) continue ;; esac
  found=
  for kernels in none plain dsp mve; do
    found="$found $(./vram estimate --embedded tests/golden/tflm/$model --tflm --csv --kernels $kernels |
      awk -F, '$1 == "32" { printf "%s %s", $3, $2 }')"
  done
  if [ "$found" = " $wanted" ]; then ok; else bad "$model: $found, TFLM with CMSIS-NN: $wanted"; fi
done <tests/golden/tflm/cmsis.txt
while read -r model wanted; do
  case $model in '#'*) continue ;; esac
  found=
  for kernels in plain dsp mve; do
    found="$found $(./vram estimate --embedded tests/golden/tflm/$model --csv --kernels $kernels --kernels-for size |
      awk -F, '$1 == "32" { printf "%s %s", $3, $2 }')"
  done
  if [ "$found" = " $wanted" ]; then ok; else bad "$model: $found, TFLM with CMSIS-NN for size: $wanted"; fi
done <tests/golden/tflm/size.txt
refuse "TFLM's own kernels for size" "the same for size and for speed" ./vram estimate --embedded tests/golden/tflm/net0.tflite --kernels-for size
while read -r model wanted; do
  case $model in '#'*) continue ;; esac
  found=$(./vram estimate --embedded tests/golden/tflm/$model --tflm-version 2024-11 --csv | awk -F, '$1 == "32" { print $3, $2 }')
  if [ "$found" = "$wanted" ]; then ok; else bad "$model: $found, TFLM of 2024: $wanted"; fi
done <tests/golden/tflm/older.txt
refuse "an operator that an older version has not" "REDUCE_MIN: no kernel" ./vram estimate --embedded tests/golden/tflm/newer.tflite --tflm-version 2024-11
if python3 -c 'import tflite_micro' 2>/dev/null; then
  cell "against TFLM's interpreter" python3 tests/embedded/tflm_nets.py --check ./vram tests/golden/tflm/*.tflite tests/golden/tflite/tiny_i8io.tflite
else skip "no tflite-micro for python3: TFLM's interpreter itself"; fi
refuse "a kernel that is not known" "offset 2720: TILE: no kernel" ./vram estimate --embedded tests/golden/tflite/mix_f32.tflite --tflm
refuse "another file" "no TFLite file: not with --tflm" ./vram estimate --embedded tests/golden/onnx/lstm.onnx --tflm
# programs of ExecuTorch: what its exporter says that it planned, and their constants
while read -r model wanted; do
  case $model in '#'*) continue ;; esac
  found=$(./vram estimate --embedded tests/golden/executorch/$model |
    awk 'NF == 3 && $2 $3 ~ /^[0-9]+$/ { printf "%s:%s:%s ", $1, $2, $3 } /^constants / { printf "%s", $2 }')
  if [ "$found" = "$wanted" ]; then ok; else bad "$model: $found, ExecuTorch: $wanted"; fi
done <tests/golden/executorch/known.txt
./vram estimate --embedded tests/golden/executorch/mlp-external.pte >$work/found
cell "constants in a .ptd file" grep -q '^elsewhere  *4 constants' $work/found
for bytes in 9 40 900 2000; do
  head -c $bytes tests/golden/executorch/att-pools.pte >$work/cut.pte
  refuse "a program's first $bytes bytes" "cut.pte: offset [0-9]*: " ./vram estimate --embedded $work/cut.pte
done
refuse "a program with TFLM's planner" "takes --flash, --sram" ./vram estimate --embedded tests/golden/executorch/methods.pte --tflm
refuse "a program as a model" "a program of ExecuTorch (expected vram estimate --embedded" ./vram estimate tests/golden/executorch/methods.pte
status=0
./vram estimate --embedded tests/golden/executorch/methods.pte --sram 3007B >$work/found || status=$?
if [ $status = 3 ] && grep -q 'does not fit by 1$' $work/found; then ok; else bad "a program's budget: $status"; fi

# an ONNX file that does not say all its shapes, or has inner graphs: the step of its text
for f in tests/golden/onnx/lstm.onnx tests/golden/onnx/inner/branches.onnx; do
  ./vram arena $f >$work/found
  cell "$f: a step" grep -q ' infer f32, one step' $work/found
done

# so many that live at once that no order is followed to its end: still a plan; all live at 64000, so
# none may begin before the end of the one below
awk 'BEGIN { n = 64000; print "id,lower,upper,size"
  for (i = 0; i < n; i++) print "b" i "," i "," 2 * n - i "," 1 + i * 7919 % 1009 }' >$work/many.csv
./vram arena $work/many.csv --csv >$work/out.csv 2>$work/err
if sed 1d $work/out.csv | awk -F, '{ print $5, $4 }' | sort -n | awk '
  $1 < end { wrong = 1 } { end = $1 + $2; n++; sum += $2 } END { exit wrong || n != 64000 || end != sum }'
then ok; else bad "64000 buffers at once: $(cat $work/err)"; fi
refuse "one order for them" "one order alone takes too long for 64000 buffers" ./vram arena $work/many.csv --order size

# C. capacities and banks
status() { # status NAME WANTED COMMAND...
  name=$1 want=$2
  shift 2
  "$@" >$work/out 2>$work/err
  if [ $? = "$want" ]; then ok; else
    bad "$name"
    cat $work/out $work/err
  fi
}
status "a capacity that is too small" 3 ./vram arena $work/example.csv --capacity 11
cell "it says so" grep -q "DOES NOT FIT a capacity of 11 B" $work/out
status "too small, JSON" 3 ./vram arena $work/example.csv --budget 11 --json
cell "it says so" grep -q '"fits":false,"capacity_bytes":11' $work/out
# what fits is found without a search; --least goes on to the least
./vram arena $golden/B.1048576.csv --capacity 2MiB --json >$work/json
if [ "$(number nodes)" = 0 ] && [ "$(number fits)" = true ] && [ "$(number height_bytes)" -le 2097152 ]; then ok; else
  bad "a capacity that is easily kept: $(number nodes) nodes"
fi
./vram arena $golden/B.1048576.csv --capacity 2MiB --least --json >$work/json 2>$work/err
if [ "$(number nodes)" != 0 ] && [ "$(number height_bytes)" = 1048576 ]; then ok; else bad "--least"; fi
proven "--least"
./vram arena $golden/B.1048576.csv --capacity 2MiB >$work/out
cell "the text says that there may be less" grep -q 'above the least (--least searches on)$' $work/out
./vram arena $golden/B.1048576.csv --capacity 1300000 --enough 1500000 --json >$work/json
cell "--enough above the capacity" test "$(number height_bytes)" -le 1300000
status "two banks" 0 ./vram arena $work/example.csv --bank 8 --bank 0 --csv
cell "four bytes are in the second" awk -F, 'NR > 1 && $5 == 1 { n += $4 } END { exit !(n >= 4) }' $work/out
cell "none is outside the first" awk -F, 'NR > 1 && $5 == 0 && $6 + $4 > 8 { exit 1 }' $work/out
status "two banks that are too small" 3 ./vram arena $work/example.csv --bank 4 --bank 4
printf 'id,lower,upper,size\na,0,1,1000\nb,0,1,0\n' >$work/nothing.csv
status "two banks that are too small, beside a buffer of no bytes" 3 \
  env MALLOC_PERTURB_=65 ./vram arena $work/nothing.csv --bank 15 --bank 15
cell "it says which one has no room" grep -q "nothing.csv:2: has no room in any bank" $work/err
printf 'id,lower,upper,size,bank\na,0,4,10,1\nb,0,4,10,\n' >$work/bank.csv
status "a buffer says its bank" 0 ./vram arena $work/bank.csv --bank 100 --bank 100 --csv
cell "it is there" grep -q '^a,0,4,10,1,0$' $work/out

# D. bad input: one line, where it is
line() { # line TEXT WANTED
  printf '%b' "$1" >$work/bad.csv
  ./vram arena $work/bad.csv >$work/out 2>$work/err
  if [ $? = 2 ] && [ ! -s $work/out ] && [ "$(wc -l <$work/err)" = 1 ] && grep -qF "bad.csv:$2" $work/err; then ok; else
    bad "bad.csv: $2"
    cat $work/out $work/err
  fi
}
h='id,lower,upper,size\n'
line '' "1: an empty file (expected id,lower,upper,size)"
line 'id,lower,size\na,0,1\n' "1: no column 'upper' (expected id, lower, upper and size at least)"
line 'id,lower,upper,size,gaps\na,0,1,2,\n' "1: a column that is not known: 'gaps' (expected id, lower, upper, size, alignment, offset or bank)"
line 'id,lower,upper,size,size\na,0,1,2,2\n' "1: a second column for the same: 'size'"
line 'id,lower,upper,end,size\na,0,1,2,2\n' "1: a second column for the same: 'end'"
line "${h}a,0,1,2\nb,0,1\n" "3: fewer fields than columns"
line "${h}a,0,1,2,3\n" "2: more fields than columns: '3'"
line "${h}a,0,1,x\n" "2: no number for size: 'x' (expected an integer from 0 to 2^64-1)"
line "${h}a,0,1,-4\n" "2: no number for size: '-4'"
line "${h}a,,1,4\n" "2: no number for lower: ''"
line "${h}a,0,1,18446744073709551616\n" "2: no number for size: '18446744073709551616'"
line "${h}a,0,1,18446744073709551615\n" "2: sizes and alignments up to here add up to more than VRAM_MAX_BYTES"
line "${h}a,0,1,9223372036854775807\n\nb,5,6,9223372036854775807\n" "4: sizes and alignments up to here add up"
line "${h}a,4,4,1\n" "2: ends when it begins: 4 to 4"
line "${h}a,0,9,1\na,4,3,1\n" "3: ends before it begins: 4 to 3"
line 'id,lower,end,size\na,0,18446744073709551615,1\n' "2: an end beyond 2^64-2: '18446744073709551615'"
line 'id,lower,upper,size,alignment\na,0,1,1,24\n' "2: an alignment that is no power of two: 24"
line 'id,lower,upper,size,alignment\na,0,1,1,0\n' "2: no alignment: '0' (expected a power of two)"
line 'id,lower,upper,size,alignment,offset\na,0,1,1,16,8\n' "2: is pinned at 8, no multiple of its alignment 16"
line 'id,lower,upper,size,bank\na,0,1,1,8\n' "2: no such bank: '8' (expected 0 to 7)"
line 'id,lower,upper,size,bank\na,0,1,1,1\n' "2: is allowed in none of the banks"
for words in "--align 3" "--align" "--nodes 0" "--time-limit x" "--bank x" "--capacity 0" "--nothing" \
  "--csv --json" "--prefix X" "--prefix 9 --emit-header x" "--capacity 12 --bank 3" "--greedy --nodes 3" \
  "--order tflm --time-limit 3" "--order all" "--order" "--least --greedy" "--least --order size" \
  "--least --enough 12" \
  "--train adamw" "--all" "--units miles" "second.csv"; do
  status "$words" 2 ./vram arena $work/example.csv $words
  if [ "$(wc -l <$work/err)" = 1 ] && [ ! -s $work/out ]; then ok; else bad "$words: one line"; fi
done
status "no file" 2 ./vram arena $work/none.csv
status "no input" 2 ./vram arena

# one greedy order: the plan of TensorFlow Lite Micro's planner, which a Python program makes, too
if have python3; then
  tflm="python3 tests/embedded/tflm_plan.py ./vram"
  cell "order tflm, random problems" $tflm --random 300
  cell "order tflm, problems of others" $tflm $golden/*.csv tests/golden/embedded/*.csv
  [ -d "$data" ] && cell "order tflm, MiniMalloc's" $tflm "$data"/minimalloc/*.csv
else skip "no python3: order tflm"; fi
limit= orders=0
for order in $(./vram arena $work/example.csv --order x 2>&1 | sed 's/.*(expected //; s/)//'); do
  plan $golden/B.1048576.csv 1700000 --order $order
  orders=$((orders + 1))
done
limit="--time-limit 600"
cell "17 orders" test $orders = 17
refuse "an order that is none" "unknown order 'x' (expected load .* tflm)" ./vram arena $work/example.csv --order x

# E. models: the bound is the peak of the step's own events, counted by awk; the plan reaches it
for options in "" "--train adamw" "--train sgd --amp bf16" "--batch 3 --train adamw --checkpoint 2"; do
  for model in lenet5 resnet18; do
    ./vram estimate $model $options --events - | awk -F, '
      $5 ~ /^(params|buffers|inputs|gradients|optimizer)$/ || $3 < 0 { next }
      { live += $2 == "alloc" ? $4 : -$4; if (live > most) most = live }
      END { printf "%.0f\n", most }' >$work/wanted
    ./vram arena $model $options --align 1 --json >$work/json
    number lower_bound_bytes >$work/found
    case $options in *--train*) ;; *) same "$model $options: the peak of its events" $work/wanted $work/found ;; esac
    proven "$model $options"
    ./vram arena $model $options --all --json >$work/json
    if [ "$(number height_bytes)" -ge "$(cat $work/found)" ]; then ok; else bad "$model $options --all"; fi
  done
done

# F. the header compiles everywhere, says what the plan says, and refuses a capacity that is too small
printf 'id,lower,upper,size\nconv1/out,0,3,4\nconv1.out,3,9,4\n3x3,0,9,4\n,9,21,4\nwhile,0,21,4\nz\303\251ro,0,21,0\n' >$work/names.csv
cell "a header" ./vram arena $work/names.csv --emit-header $work/plan.h --prefix Net_
cat >$work/use.c <<'EOF'
#include "plan.h"
static unsigned char arena[Net_ARENA_BYTES];
int main(void) {
  return sizeof arena == 12 && Net_conv1_out_BYTES + Net_conv1_out_2_BYTES + Net_3x3_BYTES + Net_buffer_BYTES +
    Net_while_BYTES == 20 && Net_z_ro_BYTES == 0 && Net_while_OFFSET < 12 ? 0 : 1;
}
EOF
for way in "cc c99" "cc c11" "cc c2x" "c++ c++11" "c++ c++17" "c++ c++20"; do
  have ${way% *} || { skip "no ${way% *}"; continue; }
  language=c
  case $way in *++*) language=c++ ;; esac
  cell "header, $way" ${way% *} -std=${way#* } -Wall -Wextra -pedantic -Werror -x $language $work/use.c -o $work/use
  cell "header, $way: runs" $work/use
  cell "header, $way: a capacity" ${way% *} -std=${way#* } -DNet_ARENA_CAPACITY=12 -x $language -c $work/use.c -o $work/use.o
  refuse "header, $way: too small a capacity" arena_fits_capacity \
    ${way% *} -std=${way#* } -DNet_ARENA_CAPACITY=11 -x $language -c $work/use.c -o $work/use.o
done
cell "a header without a prefix" ./vram arena $work/names.csv --emit-header $work/names.h
cell "is named after its input" grep -q '^#define NAMES_ARENA_BYTES 12$' $work/names.h
printf 'id,lower,upper,size\nlow,0,2,1610612736\nhigh,1,3,1610612736\n' >$work/large.csv
cell "a header of 3 GiB" ./vram arena $work/large.csv --emit-header $work/large.h
for way in "cc c99" "cc c11" "c++ c++11"; do
  have ${way% *} || { skip "no ${way% *}"; continue; }
  language=c
  case $way in *++*) language=c++ ;; esac
  cell "a header of 3 GiB, $way" ${way% *} -std=${way#* } -Wall -Wextra -pedantic -pedantic-errors -Werror \
    -DLARGE_ARENA_CAPACITY=3221225472 -x $language -fsyntax-only $work/large.h
  sed 's/^\(#define LARGE_ARENA_BYTES\) .*/\1 3221225471/' $work/large.h >$work/small.h
  refuse "an arena of 3 GiB that is too small, $way" is_inside \
    ${way% *} -std=${way#* } -x $language -fsyntax-only $work/small.h
done
./vram arena $work/names.csv --bank 8 --bank 0 --emit-header - >$work/banks.h
cell "banks in a header" grep -q '^#define NAMES_BANK1_BYTES 4$' $work/banks.h

# G. the picture has a rectangle for every buffer that has bytes; what cannot be written is said
cell "a picture" ./vram arena $work/names.csv --svg $work/plan.svg
cell "of five buffers" test "$(grep -c '<title>' $work/plan.svg)" = 5
if have python3; then
  cell "it is XML" python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' $work/plan.svg
  ./vram arena $work/names.csv --json --offsets >$work/json
  cell "the JSON is JSON" python3 -c 'import json, sys; o = json.load(open(sys.argv[1])); sys.exit(len(o["offsets"]) != 6)' $work/json
fi
status "no such folder" 1 ./vram arena $work/names.csv --svg $work/none/plan.svg

# H. the benchmark: a figure for every problem, and an error where the command fails
mkdir -p $work/bench/minimalloc $work/bench/large
cp $golden/B.1048576.csv $work/bench/minimalloc
cp $golden/rnd20_b131.131.csv $work/bench/large/small.csv
bench() { ARENA=$PWD/$work/bench "$@" sh tests/bench.sh arena; }
cell "bench.sh arena" bench env
sed 's/  *[0-9.e-]* s /: /; s/  .*//' $work/log | tail -n 2 >$work/found
printf 'arena: problem B, target MiniMalloc published: \narena: small, 93 buffers: \n' | sed 's/ $//' >$work/wanted
same "a row for each problem" $work/wanted $work/found
refuse "a benchmark of a command that fails" "false arena .*: status 1" bench env VRAM=false
refuse "a benchmark of a command that says nothing" "no figure" bench env VRAM=true
refuse "a planner beside that fails" "false --capacity=1048576 .*: status 1" bench env MINIMALLOC=false
bench env MINIMALLOC=true >$work/found 2>&1
cell "a planner beside" grep -q 'problem B, target MiniMalloc timed here ' $work/found

# I. XLA's heap: memory_analysis() says 109057304 bytes of temporary values
xla=tests/traces/xla_mlp-buffer-assignment.txt
./vram arena $xla --json $limit >$work/json
cell "XLA's own plan" test "$(number recorded_bytes)" = 109057304
cell "ours is as low as can be" test "$(number height_bytes) $(number lower_bound_bytes)" = "109052420 109052420"
./vram arena $xla --csv --align 1 $limit | cut -d, -f1-4 >$work/xla.csv
./vram arena $xla --csv --align 1 $limit >$work/out.csv
cell "no two of it overlap" test "$(awk -F, -f $work/check.awk $work/xla.csv $work/out.csv)" = "109051928 109051928"
printf 'BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n value: <1 a @0> (size=4,offset=0): f32[]\nallocation 1: size 64, color 1, preallocated-temp:\n value: <2 b @1> (size=64,offset=0): f32[16]\nHloLiveRange (max 2):\n  BufferLiveRange:\n    a:0-1\n    b:0-1\n' >$work/heaps.txt
cell "other heaps are told" sh -c "./vram arena $work/heaps.txt | grep -q '^not planned  *4 B  4 bytes  1 other heap of XLA.s plan$'"
cell "they are counted" sh -c "./vram arena $work/heaps.txt --json | grep -q '\"height_bytes\":64,.*\"other_heaps\":1,\"other_heaps_bytes\":4,'"
printf 'BufferAssignment:\nallocation 0: size 4, constant:\n value: <1 a @0> (size=4,offset=0): f32[]\nHloLiveRange (max 2):\n  BufferLiveRange:\n' >$work/none.txt
cell "a program without temporary values" sh -c "./vram arena $work/none.txt | grep -q '0 buffers  no temporary values'"
refuse "an option of models" "an option of models, not of XLA's plan: '--batch'" ./vram arena $xla --batch 2
