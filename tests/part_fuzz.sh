# libFuzzer on the parser, on random graphs, on recorded allocations, on arenas and their lifetimes,
# on schedules and their chains, on lines of networks and files of models, FUZZ_SECONDS each: sourced by part.sh.
# The corpus under tests/fuzz/corpus holds what once failed.
work=build/fuzz
seconds=${FUZZ_SECONDS:-10}
mkdir -p $work/seeds
for f in examples/models/*.vram tests/golden/*/*.vram tests/cases/*/*.vram; do
  cp "$f" "$work/seeds/$(echo "$f" | tr / _)"
done
sh tests/fuzz/dict.sh >$work/dict
sed -n 's/^  X(\([A-Z0-9_]*\), \(NEW\|OVER\|VIEW\),.*/"VRAM_NET_\1(n,"/p' vram.h >$work/lines.dict
sed -n 's/^  X(\([A-Z0-9_]*\), VRAM_[A-Z0-9]*, VRAM_[A-Z0-9_]*, [0-9], [0-9]).*/"\1"/p' vram.h >>$work/lines.dict
# the library that checks its own results, as the unit tests have it, and the command, its main by
# another name: a target takes in the unit whose insides it looks at
tool() {
  rm -rf $work/tool $work/tool.a
  mkdir -p $work/tool
  sh tests/part.sh sanitized && cp build/clang-sanitize/impl.o $work/tool || return
  for f in $(ls tools/vram*.c | grep -v vram_impl); do
    clang -std=c99 -gline-tables-only -O1 -Wall -Wextra -Werror -fno-sanitize-recover=all \
      -fsanitize=fuzzer-no-link,address,undefined -Dmain=tool_main -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -Ibuild -c "$f" -o "$work/tool/$(basename "$f" .c).o" || return
  done
  ar rc $work/tool.a $work/tool/*.o
}
build() { # build NAME
  name=$1
  clang -std=c99 -gline-tables-only -O1 -Wall -Wextra -Werror -fno-sanitize-recover=all -fsanitize=fuzzer,address,undefined \
    -Ibuild "tests/fuzz/$name.c" $work/tool.a -o "$work/$name" -ldl -lpthread >$work/log 2>&1 && return
  bad "fuzz/$name.c does not build"
  head -15 $work/log
  return 1
}
attack() { # attack OPTIONS...: the target that was built
  mkdir -p "$work/$name-corpus"
  if "$work/$name" -runs=0 "tests/fuzz/corpus/$name" >$work/log 2>&1; then ok; else
    bad "$name: what once failed fails again"
    grep -Ev '^(#[0-9]|INFO)|NEW_FUNC' $work/log | head -40
    return
  fi
  if "$work/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2000 \
    -artifact_prefix="$work/$name-" "$@" >$work/log 2>&1; then ok; else
    bad "$name $FUZZ_FORMAT (keep the input under tests/fuzz/corpus/$name)"
    grep -Ev '^(#[0-9]|INFO)|NEW_FUNC' $work/log | head -40
  fi
  echo "$name${FUZZ_FORMAT:+ of $FUZZ_FORMAT}: $(sed -n 's/^Done \([0-9]* runs in [0-9]* second\).*/\1s/p' $work/log)"
}
fuzz() { # fuzz NAME OPTIONS...
  build "$1" || return
  shift
  attack "$@"
}
# each reader alone, in a corpus of its own files, for its share of the seconds
readers() {
  build read || return
  all=$seconds
  seconds=$(((all + 6) / 7))
  for format in gguf safetensors "safetensors index" config.json onnx tflite executorch; do
    seeds=$work/read-$(echo "$format" | tr ' ' -)
    mkdir -p "$seeds"
    more=
    case $format in
    gguf) more=tests/golden/gguf ;;
    onnx) more=tests/golden/onnx ;;
    tflite) more=tests/golden/tflite ;;
    executorch) more=tests/golden/executorch ;;
    config.json) more=tests/golden/hf ;;
    esac
    FUZZ_FORMAT=$format
    export FUZZ_FORMAT
    attack -max_len=20000 "$seeds" tests/fuzz/corpus/read $more
  done
  unset FUZZ_FORMAT
  seconds=$all
}
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return !d && n; }' >$work/probe.c
if ! have clang; then skip "no clang: nothing is fuzzed"
elif ! clang -fsanitize=fuzzer,address $work/probe.c -o $work/probe 2>/dev/null; then
  skip "clang has no libFuzzer or sanitizers here: nothing is fuzzed"
elif ! tool >$work/log 2>&1; then
  bad "the command does not build"
  head -15 $work/log
else
  fuzz parse -dict=$work/dict -max_len=4096 $work/parse-corpus $work/seeds
  fuzz graph -max_len=256 $work/graph-corpus
  fuzz report -max_len=1024 $work/report-corpus
  fuzz pool -max_len=1000 $work/pool-corpus
  fuzz arena -max_len=512 $work/arena-corpus tests/fuzz/corpus/arena
  fuzz schedule -max_len=256 $work/schedule-corpus tests/fuzz/corpus/schedule
  fuzz lifetimes -max_len=1024 -close_fd_mask=3 $work/lifetimes-corpus tests/fuzz/corpus/lifetimes
  fuzz chain -max_len=1024 -close_fd_mask=3 $work/chain-corpus tests/fuzz/corpus/chain
  fuzz lines -dict=$work/lines.dict -max_len=2048 $work/lines-corpus tests/fuzz/corpus/lines tests/embedded
  fuzz trace -max_len=4096 -close_fd_mask=3 $work/trace-corpus tests/fuzz/corpus/trace
  readers
fi
