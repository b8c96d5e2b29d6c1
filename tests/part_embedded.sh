# examples/embedded: the network built for the host and for bare boards, run (under QEMU), what it
# measures beside what was predicted; its scores by TFLite's definition: sourced by part.sh.
work=$PWD/build/embedded
rm -rf "$work"
mkdir -p "$work/tree/examples"
cp -R examples/embedded "$work/tree/examples"
cp vram.h "$work/tree"
dir=$work/tree/examples/embedded golden=tests/embedded/scores.txt
board() { LC_ALL=C "$MAKE" -s --no-print-directory -C "$dir" "$@"; } # board BOARD [NET=...] [B=...]
missing() { sed -n 's/^SKIP [a-z0-9]*: //p' "$work/out"; }
scores() { # scores NAME COMMAND...: prints the scores of golden
  cell=$1
  shift
  "$@" >"$work/out" 2>&1
  status=$?
  if [ -n "$(missing)" ]; then skip "$cell: $(missing)"; return 1; fi
  grep -e '^scores' -e '^digest' "$work/out" >"$work/scores"
  if [ $status = 0 ] && diff "$golden" "$work/scores" >"$work/log"; then ok; else
    bad "$cell: status $status"
    cat "$work/log" "$work/out" | head -20
    return 1
  fi
}

scores "host" board host
have clang && scores "host, clang, sanitizers" board host B=san \
  CC="clang -g -fno-sanitize-recover=all -fsanitize=address,undefined,implicit-conversion"
if have python3; then
  scores "reference.py" python3 tests/embedded/reference.py "$dir/build/weights.h" "$dir/kws.c"
else skip "no python3: reference.py"; fi
if PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" -c "import ai_edge_litert, flatbuffers" 2>/dev/null; then
  PYTHONDONTWRITEBYTECODE=1 scores "litert.py" "${PYTHON:-python3}" tests/embedded/litert.py "$dir/build/weights.h" "$dir/kws.c"
else skip "no ai-edge-litert: TFLite itself"; fi

value() { awk -v what="$1" -v column="$2" 'index($0, what) == 1 { print $(NF - 2 + column) }' "$work/out"; }
agree() { # agree NAME A B
  if [ -n "$2" ] && [ "$2" = "$3" ]; then ok; else bad "$1: $2 and $3"; fi
}
for b in m0 m4 rv32; do
  scores $b board $b || continue
  agree "$b: arena" "$(value arena 1)" "$(value arena 2)"
  for what in flash arena; do # counted from the same lines at run time
    ./vram estimate --embedded "$dir/kws.h" >"$work/log" 2>&1
    name=$what
    [ $what = flash ] && name=weights
    agree "$b: $what by vram estimate" "$(awk -v what=$what '$1 == what { print $2 }' "$work/log")" "$(value $name 2)"
  done
  agree "$b: guards" 0 "$(value guards 2)"
  weights=$(value weights 1) stack=$(value stack 1)
  agree "$b: weights" "$weights" "$(value weights 2)"
  agree "$b: weights in the linker's map" "$weights" \
    "$(awk '$1 == "vram_weights" && NF >= 3 { print $3; exit }' "$dir/build/$b.map" | xargs printf '%d')"
  agree "$b: weights in the file" "$weights" "$(sed -n 's/^linked: \([0-9]*\) .*/\1/p' "$work/out")"
  agree "$b: SRAM" $(($(value arena 1) + stack + 2 * 64 + 4)) "$(sed -n 's/^linked: .* \([0-9]*\) of SRAM$/\1/p' "$work/out")"
  [ $b = m0 ] && cp "$work/out" "$work/m0"
  agree "$b: the chain of calls" "$stack bytes of stack, at most" \
    "$(board stack BOARDS=$b | tee "$work/chain" | sed -n '$p')"
  agree "$b: its frames" "$stack" "$(awk '$2 != "bytes" && NF == 2 && $1 + 0 { n += $1 } END { print int((n + 7) / 8) * 8 }' "$work/chain")"
  # frames of the deepest calls: measured, not below three quarters of the bound, not above it
  if [ "$(value stack 2)" -le "$stack" ] && [ $(($(value stack 2) * 4)) -ge $((stack * 3)) ]; then ok; else
    bad "$b: stack $(value stack 2) of $stack"
  fi
done
for o in O0 O1 O2 O3; do # where the bound of the stack does not hold, it is a fault
  scores "m0, -$o" board m0 B=$o NET=-$o && scores "rv32, -$o" board rv32 B=$o NET=-$o
done

# what kws.c says of itself; stack and code are those of one compiler
if [ -f "$work/m0" ]; then
  own() { sed 's/^\(stack, at most\) .*/\1/; s/[0-9]* of code; .*/of code/'; }
  sed -n '/^   == m0/,/^$/s/^   //p' examples/embedded/kws.c | own >"$work/wanted"
  own <"$work/m0" >"$work/said"
  same "kws.c prints what its head says" "$work/wanted" "$work/said"
  if [ "$(arm-none-eabi-gcc -dumpversion | cut -d. -f1)" = 12 ]; then
    sed -n '/^== m0$/,/at most$/p' docs/embedded.md >"$work/wanted"
    board stack BOARDS=m0 >"$work/said"
    same "docs/embedded.md: the chain of calls" "$work/wanted" "$work/said"
  fi
fi

# what must not go through, on the first board
if ! have arm-none-eabi-gcc || ! have qemu-system-arm; then
  skip "no arm-none-eabi-gcc or no qemu-system-arm: what must fail"
  return
fi
over() { refuse "$1" "$2" board "$work/tree/over/m0_kws.o" B="$work/tree/over" NET="$3"; }
mkdir -p "$work/tree/over"
cell "SRAM as large as the arena" board "$work/tree/over/m0_kws.o" B="$work/tree/over" NET=-DSRAM=12000
rm "$work/tree/over/m0_kws.o"
over "SRAM too small" "kws_sram_is_over_budget_by'; have 'char\[1000\]'" -DSRAM=11000
over "flash too small" "kws_flash_is_over_budget_by'; have 'char\[344\]'" -DFLASH=8000
mistake() { # mistake NAME FILE SED TEXT: one, and what is said of it
  cp "$dir/$2" "$work/kept"
  sed "$3" "$work/kept" >"$dir/$2"
  if cmp -s "$dir/$2" "$work/kept"; then bad "$1: nothing is changed"; fi
  refuse "$1" "$4" board m0 B=mistake
  cp "$work/kept" "$dir/$2"
}
mistake "twice the channels" kws.h '/CONV2D(kws, [cp]/s/, 32,/, 64,/' "kws_sram_is_over_budget_by'; have 'char\[9664\]'"
mistake "another kernel than counted" kws.c 's/^STORED(c1, 10 \* 4/STORED(c1, 10 * 3/' kws_c1_kernel
mistake "biases of a size that is not counted" weights.c 's/array("int32_t", name, "bias")/array("int8_t", name, "bias")/' kws_c1_arrays
mistake "values beside their place in the arena" kws.c 's/ + VRAM_NET_OFFSET(kws, y)/& + 1/' "^guards *0 *[1-9]"
mistake "more weights than counted" kws.c 's/s1_beta =/s1_beta WEIGHTS =/' "^weights in flash *8344 *8352"
mistake "less stack than counted" sections.ld 's/+= stack_bytes/+= stack_bytes - 16/' "Lockup"
mistake "a variable with a value" board.c 's/^void start(void) {/static volatile int variable = 1;\n&\n  variable++;/' "does not copy them"
mistake "a function that calls itself" kws.c 's/^static void infer(void) {/int run(void);\n&\n  if (digest == 1) run();/' "run calls itself"
