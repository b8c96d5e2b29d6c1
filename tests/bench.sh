#!/bin/sh
# A table of speed and size: what, figure, target, figure / target. PYTHON=... names a Python with
# torch for the comparison with other tools, SHARED=... the folder with nullgpu/, which lets that
# torch run without a GPU, and with data/; MINIMALLOC=... that planner's program. bench.sh arena: only
# that part, of the command VRAM and the problems at ARENA. What does not run is an error.
cd "$(dirname "$0")/.." || exit 1
work=build/bench-out
mkdir -p $work
cc=${CC:-cc}
fail() {
  echo "bench: $*" >&2
  exit 1
}
row() { # row WHAT FIGURE UNIT TARGET (0: none)
  case $2 in *[0-9]*) ;; *) fail "$1: no figure" ;; esac
  awk -v what="$1" -v figure="$2" -v unit="$3" -v target="$4" 'BEGIN {
    text = target > 0 ? sprintf("%12g  %8.2f", target, figure / target) : ""
    printf "%-52s %12.5g %-5s %s\n", what, figure, unit, text }'
}
field() { echo "$line" | cut -d' ' -f"$1"; }
run() { line=$(build/bench "$@") || fail "build/bench $*"; }
seconds() { # seconds COMMAND...: $figure, of the processor, for one run: others may use the machine, too
  (
    "$@" >$work/log 2>&1 || exit
    times >$work/used
  ) || fail "$*: status $?, $(tail -n 1 $work/log)"
  figure=$(tail -n 1 $work/used | tr ms '  ' | awk '{ print $1 * 60 + $2 + $3 * 60 + $4 }')
}
median_seconds() { # median_seconds COMMAND...: $figure, of five runs
  : >$work/times
  for i in 1 2 3 4 5; do
    seconds "$@"
    echo "$figure" >>$work/times
  done
  figure=$(sort -n $work/times | sed -n 3p)
}
ten() { for i in 1 2 3 4 5 6 7 8 9 10; do "$@" || [ $? = 3 ] || return; done; }
fifty() { for i in 1 2 3 4 5 6 7 8 9 10; do "$@" && "$@" && "$@" && "$@" && "$@" || return; done; }
# MINIMALLOC: its program, which is timed beside; else what its authors published, of their machine. Two
# seconds for the large ones
arena_rows() {
  vram=${VRAM:-./vram} arena=${ARENA:-${SHARED:-../shared}/data/arena}
  [ -d "$arena" ] || { echo "SKIP arena: no problems at $arena"; return; }
  plan() { # plan FILE OPTIONS: $figure, as the command says
    "$vram" arena "$@" --json >$work/plan.json || fail "$vram arena $*: status $?"
    figure=$(sed -n 's/.*"seconds":\([0-9.]*\).*/\1/p' $work/plan.json)
  }
  for problem in A=6.8 B=5.0 C=0.9 D=4.1 E=5.0 F=7.7 G=1.6 H=2.4 I=5.1 J=1.5 K=0.9; do
    f=$arena/minimalloc/${problem%=*}.1048576.csv target=${problem#*=} from="published"
    [ -f "$f" ] || continue
    if [ -n "$MINIMALLOC" ]; then
      seconds "$MINIMALLOC" --capacity=1048576 --input="$f" --output=$work/minimalloc.csv
      target=$figure from="timed here"
    fi
    plan "$f" --capacity 1MiB --time-limit 60
    row "arena: problem ${problem%=*}, target MiniMalloc $from" "$figure" s "$target"
  done
  for f in "$arena"/large/*.csv; do
    [ -f "$f" ] || continue
    plan "$f" --greedy
    row "arena: $(basename "$f" .csv), $(($(wc -l <"$f") - 1)) buffers" "$figure" s 2
  done
}
printf '%-52s %12s %-5s %12s  %8s\n' what figure unit target ratio
if [ "$1" = arena ]; then # only that
  arena_rows
  exit
fi

run examples/models/resnet50.vram
step=$(field 3) parse=$(field 2)
row "ResNet-50: step, AdamW" "$step" us 20
row "ResNet-50: parse" "$parse" us 200
run examples/models/resnet50.vram bf16
row "ResNet-50: step, AdamW, autocast bf16" "$(field 3)" us 0
run examples/models/resnet50.vram replay
row "ResNet-50: whole run through the allocator, AdamW" "$(field 3)" us 150

for n in 1000 10000 100000 1000000; do
  run chain $n loop
  [ $n = 1000 ] && step0=$(field 3) parse0=$(field 2)
  row "chain of $n nodes from a loop: step a node" "$(field 3)" ns 100
  row "chain of $n nodes from a loop: parse a node" "$(field 2)" ns 1000
done
row "step a node at 10^6 / at 10^3 nodes" "$(echo "$(field 3) $step0" | awk '{ print $1 / $2 }')" x 0
row "parse a node at 10^6 / at 10^3 nodes" "$(echo "$(field 2) $parse0" | awk '{ print $1 / $2 }')" x 0
run chain 1000000 text
row "chain of 1000000 nodes, written out: parse a node" "$(field 2)" ns 1000
row "graph a node" "$(field 4)" B 0
row "scratch of a step a node" "$(field 5)" B 0

slowest=0
for model in examples/models/*.vram; do
  run fit "$model"
  if echo "$(field 2) $slowest" | awk '{ exit !($1 > $2) }'; then
    slowest=$(field 2) name=$(basename "$model" .vram)
  fi
done
row "fit: largest batch, slowest model ($name)" "$slowest" ms 10
# files of models: whole commands, and the reader alone
whole() { # whole WHAT TARGET COMMAND...: milliseconds of the command, from its start to its end
  what=$1 target=$2
  shift 2
  median_seconds ten "$@"
  row "$what" "$(echo "$figure" | awk '{ print $1 * 100 }')" ms "$target"
}
truth=${SHARED:-../shared}/data/truth/gguf vram=${VRAM:-./vram}
for model in tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf=3GiB $truth/llama-3.3-70b.Q4_K_M.gguf=16GiB \
  $truth/qwen3-30b-a3b.Q4_K_M.gguf=6GiB $truth/glm-4.5-air.Q4_K_M.gguf=20GiB $truth/gemma-3-4b.Q4_K_M.gguf=1GiB; do
  file=${model%=*} name=$(basename "${file%.gguf}")
  [ -f "$file" ] || { echo "SKIP fit: no $file"; continue; }
  for devices in 1 3; do
    for what in ctx ngl; do
      whole "fit: $name, $devices devices, --solve $what" 50 "$vram" fit "$file" --solve $what --budget "${model#*=}" --devices $devices
    done
  done
done
rm -rf $work/files
mkdir $work/files
build/bench files $work/files || fail "build/bench files"
run read $work/files/large.gguf
row "header of $(field 2) B, 150,000 words" "$(field 1)" ms 5
row "the same: memory" "$(echo "$(field 3)" | awk '{ print $1 / 1024 }')" KiB 0
whole "the same: vram estimate --ctx 8192" 0 "$vram" estimate $work/files/large.gguf --ctx 8192
run read $work/files/model.safetensors.index.json
row "index of 1,000 shards, $(field 2) B" "$(field 1)" ms 10
whole "the same: vram estimate, all shards opened" 0 "$vram" estimate $work/files
${PYTHON:-python3} tests/bench_files.py $work/files >$work/peers 2>$work/peers.err ||
  echo "SKIP gguf, safetensors: ${PYTHON:-python3} does not run tests/bench_files.py: $(tail -n 1 $work/peers.err)"
while IFS=: read -r tool seconds; do
  case $tool in
  SKIP*) echo "$tool: $seconds" ;;
  *) row "$tool" "$(echo "$seconds" | awk '{ print $1 * 1e3 }')" ms 0 ;;
  esac
done <$work/peers
rm -r $work/files

# one block goes, one of another size comes
for policy in torch best; do
  for n in 100 10000 100000; do
    run pool $n $policy
    row "pool, policy $policy: free and alloc, $n live" "$(field 1)" ns $([ $n = 100000 ] && echo 250 || echo 150)
  done
done
for n in 100 339; do
  run schedule $n 500
  row "schedule: $n stages, 500 slots" "$(field 1)" ms $([ $n = 100 ] && echo 15 || echo 1000)
  row "schedule: $n stages, scratch" "$(field 2)" MiB 0
done
for n in 100 10000 100000; do
  run ledger $n counts
  row "ledger: an event with its call site, $n live" "$(field 1)" ns $([ $n = 100000 ] && echo 0 || echo 100)
done
run ledger 10000 all
row "ledger: the same with log and trace, 10000 live" "$(field 1)" ns 0
for n in 100 10000 100000; do
  line=$(build/bench_cuda $n) || fail "build/bench_cuda $n"
  row "tracker: added to a cudaMalloc or cudaFree, $n live" "$(field 1)" ns $([ $n = 100000 ] && echo 0 || echo 100)
done
nullgpu=${SHARED:-../shared}/nullgpu
if [ -n "$PYTHON" ] && [ -x $nullgpu/py ]; then
  NULLGPU_PYTHON=$PYTHON NULLGPU_TOTAL_BYTES=4T $nullgpu/py $nullgpu/bench.py 2>$work/torch.err |
    awk '$1 == 100 || $1 == 10000 || $1 == 100000 { print $1, $2 }' |
    while read -r n ns; do row "PyTorch's allocator: free and alloc, $n live" "$ns" ns 0; done
else
  echo "SKIP PyTorch's allocator: it needs PYTHON=... (a Python with torch) and $nullgpu"
fi

arena_rows

# what the compiler takes, and what comes out
printf '#include "vram.h"\n' >$work/declarations.c
: >$work/empty.c
median_seconds fifty $cc -std=c99 -I. -fsyntax-only $work/empty.c
none=$figure
milliseconds() { echo "$figure $none" | awk '{ print ($1 - $2) * 20 }'; }
median_seconds fifty $cc -std=c99 -I. -DVRAM_MACROS_ONLY -fsyntax-only $work/declarations.c
row "VRAM_MACROS_ONLY: preprocess and parse" "$(milliseconds)" ms 10
median_seconds fifty $cc -std=c99 -I. -fsyntax-only $work/declarations.c
row "declarations: preprocess and parse" "$(milliseconds)" ms 15
awk -f tests/compile/lines.awk >$work/lines.c
cp $work/lines.c $work/lines.cc
for way in "gcc c99" "clang c99" "g++ c++11" "clang++ c++17"; do
  command -v ${way% *} >/dev/null || continue
  file=$work/lines.c
  case $way in *++*) file=$work/lines.cc ;; esac
  median_seconds ${way% *} -std=${way#* } -DVRAM_MACROS_ONLY -I. -c $file -o $work/lines.o
  row "a network of 200 lines: ${way% *}" "$figure" s 0.5
done
text() { size "$1" 2>/dev/null | awk 'NR == 2 { print $1 }'; } # text FILE: its bytes of code and tables
# PEERS: other libraries of one file, FILE or FILE:MACRO (what makes a header an implementation)
for source in vram.h:VRAM_IMPLEMENTATION $PEERS; do
  file=${source%%:*} macro=
  [ "$file" = "$source" ] || macro="#define ${source#*:}"
  case $file in /*) at=$file ;; *) at=$PWD/$file ;; esac
  printf '%s\n#include "%s"\n' "$macro" "$at" >$work/library.c
  seconds $cc -O2 -c $work/library.c -o $work/library.o
  name=$(basename "$file")
  row "$name: $cc -O2" "$figure" s 0
  row "$name: $cc -O2, a line" "$(echo "$figure $(wc -l <"$file")" | awk '{ print $1 * 1e6 / $2 }')" us 0
  row "$name: $cc -O2, a byte of code and tables" "$(echo "$figure $(text $work/library.o)" | awk '{ print $1 * 1e6 / $2 }')" us 0
done
[ -n "$PEERS" ] || echo 'SKIP other libraries: PEERS="DIR/sqlite3.c DIR/miniaudio.h:MINIAUDIO_IMPLEMENTATION" names them'
$cc -std=c99 -Os -c tests/impl.c -o $work/impl.o || fail "$cc -Os"
row "implementation: code and tables at -Os" "$(text $work/impl.o | awk '{ print $1 / 1024 }')" KiB 0
median_seconds $cc -std=c99 -O2 -DVRAM_NO_MODEL -DVRAM_NO_STEP -DVRAM_NO_PLAN -DVRAM_NO_NET -DVRAM_NO_WRITE -c tests/impl.c -o $work/ledger.o
row "ledger and pool alone: $cc -O2" "$figure" s 1
$cc -std=c99 -Os -c tests/link/pool.c -o $work/pool.o || fail "$cc -Os tests/link/pool.c"
row "a program with only a pool: code and tables at -Os" "$(text $work/pool.o)" B 16384

${PYTHON:-python3} tests/bench_torch.py >$work/torch 2>$work/torch.err ||
  echo "SKIP torch: ${PYTHON:-python3} does not run tests/bench_torch.py: $(tail -n 1 $work/torch.err)"
while read -r tool seconds rest; do
  case $tool in
  SKIP) echo "SKIP $seconds $rest" ;;
  *) row "$tool / parse and step" "$(echo "$seconds $step $parse" | awk '{ print $1 * 1e6 / ($2 + $3) }')" x 100 ;;
  esac
done <$work/torch
