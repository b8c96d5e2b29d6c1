# vram run, on a pretended driver and runtime (tests/preload/), then with a static CUDA runtime and
# with PyTorch on a pretended GPU where these are: sourced by part.sh.
work=$PWD/build/preload
rm -rf "$work"
mkdir -p "$work/other"
cc=${CC:-cc}
library() { # library SONAME SOURCE OPTIONS...: bound to itself, as the real ones are
  soname=$1 source=$2
  shift 2
  "$cc" -w -g -O1 -shared -fPIC -Wl,-Bsymbolic -Wl,-soname,"$soname" "$@" tests/preload/"$source" -ldl -lpthread
}
echo 'libcudart.so.13 { global: cuda*; };' >"$work/map"
built() {
  library libcuda.so.1 cuda.c -o "$work/libcuda.so.1" &&
    library libcudart.so.13 cudart.c -Wl,--version-script="$work/map" -o "$work/libcudart.so.13" &&
    library libcudart.so.12 cudart.c -o "$work/other/libcudart.so.12" &&
    "$cc" -w -shared -fPIC -o "$work/other.so" tests/preload/other.c -ldl &&
    "$cc" -O0 -shared -fPIC -DNAME=take_a -o "$work/plugin_a.so" tests/preload/plugin.c "$work/libcudart.so.13" &&
    "$cc" -O0 -shared -fPIC -DNAME=take_b -o "$work/plugin_b.so" tests/preload/plugin.c "$work/other/libcudart.so.12" \
      -Wl,-rpath,"$work/other" &&
    "$cc" -O1 -Wall -o "$work/plain" tests/preload/program.c -ldl -lpthread &&
    "$cc" -O1 -Wall -rdynamic -DLINKED -o "$work/linked" tests/preload/program.c \
      "$work/libcudart.so.13" "$work/libcuda.so.1" -ldl -lpthread &&
    "$cc" -w -O0 -DLIBRARY -shared -fPIC -o "$work/unseen.so" tests/preload/unseen.c "$work/libcudart.so.13" &&
    "$cc" -w -O0 -isystem tests/cuda/include -o "$work/unseen" tests/preload/unseen.c libvram.a "$work/unseen.so" \
      "$work/libcudart.so.13" "$work/libcuda.so.1" -ldl -lpthread
}
vram=$PWD/vram
libs=$work:${LD_LIBRARY_PATH:-}
tool() { (cd "$work" && LD_LIBRARY_PATH=$libs FAKE_CUDA_LOG=$work/account "$vram" "$@"); }
# key NAME [HOW MANIETH]: a number in the report
key() { grep -o "\"$1\":[0-9a-z\"]*" "$work/report" | sed -n "${2:-1}s/.*://p"; }
equal() { # equal NAME WANTED FOUND
  if [ "$2" = "$3" ] && [ -n "$3" ]; then ok; else bad "$1: $3, not $2"; fi
}
counted() { # counted PROGRAM MODE [EXIT STATUS]: the report against the driver's own account
  rm -f "$work"/account.*
  tool run --json --report "$work/report" -- ./$1 $2 >"$work/log" 2>&1
  equal "$1 $2: exit status" "${3:-0}" $?
  read -r _ now peak _ host_now host_peak _ allocs frees <"$(ls "$work"/account.* | head -n 1)"
}
agrees() { # agrees PROGRAM MODE [EXIT STATUS]
  counted "$@"
  equal "$1 $2: reserved" "$now" "$(key reserved_bytes.all.current)"
  equal "$1 $2: peak" "$peak" "$(key reserved_bytes.all.peak)"
  equal "$1 $2: frees of nothing" 0 "$(key unknown_frees)"
  equal "$1 $2: lost" 0 "$(key lost)"
}

if [ ! -e libvram_preload.so ]; then skip "not Linux: vram run"
elif ! built >"$work/log" 2>&1; then
  bad "the pretended driver does not build"
  head -5 "$work/log"
else
  # A. each way to reach CUDA, each kind of memory
  for mode in one vmm async context entry oom reset; do agrees linked $mode; done
  for mode in dlsym dlvsym proc; do
    agrees linked $mode
    agrees plain $mode
  done
  agrees unseen
  equal "unseen: what the rerouting has counted" "1048576 0" "$(cat "$work/log")"
  equal "unseen: host" "$host_now" "$(key allocated_bytes.all.current 2)"
  counted linked kinds
  equal "kinds: reserved" "$now" "$(key reserved_bytes.all.current)"
  equal "kinds: peak" "$peak" "$(key reserved_bytes.all.peak)"
  equal "kinds: host" "$host_now" "$(key allocated_bytes.all.current 2)"
  equal "kinds: host peak" "$host_peak" "$(key allocated_bytes.all.peak 2)"
  equal "kinds: freed twice" 1 "$(key unknown_frees)"
  grep -o '"call":"[A-Za-z]*","current":[0-9]*,"peak":[0-9]*' "$work/report" >"$work/found"
  cat >"$work/wanted" <<'END'
"call":"cudaMalloc","current":3145728,"peak":55574528
"call":"cudaMallocPitch","current":7000,"peak":7000
"call":"cudaMallocArray","current":0,"peak":4096
"call":"cudaMallocManaged","current":5242880,"peak":5242880
"call":"cudaMallocHost","current":12288,"peak":16384
"call":"cudaHostRegister","current":0,"peak":8192
END
  same "kinds: by call" "$work/wanted" "$work/found"
  sed 's/"frames":\[[^]]*\]//g' "$work/report" | grep -o '"not_freed":\[[^]]*' | tr '{' '\n' | grep -o '"call.*"device":[^,]*\|"function":"[a-z_]*"' |
    sort | uniq -c | tr -s ' ' >"$work/found"
  cat >"$work/wanted" <<'END'
 1 "call":"cudaMalloc","device":0
 1 "call":"cudaMallocHost","device":"host"
 1 "call":"cudaMallocManaged","device":0
 1 "call":"cudaMallocPitch","device":0
END
  grep '"call' "$work/found" >"$work/only"
  same "kinds: what is left, and by whom" "$work/wanted" "$work/only"
  counted linked graph
  equal "a stream that is captured" "1 3145728" "$(key graph_nodes) $(key graph_bytes)"
  equal "a stream that is captured: allocated" 2097152 "$(key allocated_bytes.all.current)"
  counted linked oom
  equal "oom: counted" 1 "$(key num_ooms)"
  if have python3; then
    cell "oom: the report begins as PyTorch's" python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
t = d["processes"][0]["oom_report"]
assert t.startswith("CUDA out of memory. Tried to allocate 100.00 MiB"), t' "$work/report"
  fi
  # threads: between two counts another thread may have reached more
  counted linked threads
  equal "threads: reserved" "$now" "$(key reserved_bytes.all.current)"
  equal "threads: allocations" "$allocs" "$(key num_device_alloc)"
  equal "threads: frees" "$frees" "$(key num_device_free)"
  equal "threads: frees of nothing" 0 "$(key unknown_frees)"
  # libraries that are closed: a runtime, and one that calls it
  agrees plain reload
  agrees plain plugins
  if [ -s "$work/log" ]; then skip "$(head -n 1 "$work/log")"; fi
  grep -o '"place":"[a-z_]*' "$work/report" | sort | uniq -c | tr -s ' ' >"$work/found"
  printf ' 2 "place":"plugin_a\n 2 "place":"plugin_b\n' >"$work/wanted" # at the peak, and not freed
  same "plugins: the callers" "$work/wanted" "$work/found"
  # the manual page has the keys of the report (file and line: where debug information is)
  grep -o '"[a-z_]*":' "$work/report" | tr -d '":' | grep -vx 'file\|line' | sort -u >"$work/wanted"
  sed -n '/vram run --json/,/^\.El/s/^\.\(It \)\{0,1\}Va //p' tools/install/vram.1 | tr -d ',:.();' | tr -s ' ' '\n' |
    grep -vx 'file\|line\|' | sort -u >"$work/found"
  same "keys of the report (<) and the manual page (>)" "$work/wanted" "$work/found"
  # two runtimes in one program: each gets its own calls (the program looks)
  agrees plain two
  # another library of this sort behind: it is called, and counts once
  rm -f "$work"/account.*
  (cd "$work" && LD_PRELOAD=$work/other.so LD_LIBRARY_PATH=$libs FAKE_CUDA_LOG=$work/account timeout 60 \
    "$vram" run --json --report "$work/report" -- ./linked one 2>"$work/log")
  equal "a library behind: allocations" 1 "$(key num_device_alloc)"
  if grep -q 'other: 1 calls' "$work/log"; then ok; else bad "a library behind is not called: $(cat "$work/log")"; fi
  tool run --report "$work/report" -- ./plain absent 2>"$work/log"
  equal "a function that nobody has is not found" 0 $?
  # without vram run the library changes nothing
  (cd "$work" && rm -f account.* && LD_PRELOAD=$PWD/../../libvram_preload.so LD_LIBRARY_PATH=$libs ./linked kinds)
  equal "the library alone" 0 $?
  if [ "$(LC_ALL=C readelf -d libvram_preload.so | grep -c 'NEEDED.*libc\.so')" = 1 ] &&
    [ "$(LC_ALL=C readelf -d libvram_preload.so | grep -c NEEDED)" -le 3 ] &&
    ! readelf -d libvram_preload.so | grep 'NEEDED.*\(cuda\|nvidia\)' >/dev/null; then ok; else
    bad "the library needs more than the C library"
  fi

  # B. processes: each has its own part
  counted linked fork
  grep -o '"reserved_bytes.all.peak":[0-9]*' "$work/report" | sed 's/.*://' | sort -n >"$work/found"
  printf '1048576\n1048576\n1048576\n7340032\n9437184\n' >"$work/wanted"
  same "fork, exec, vfork, posix_spawn: a part of the report each" "$work/wanted" "$work/found"
  tool run --json --report "$work/report" -- sh -c './linked one; ./linked one; exit 5' 2>"$work/log"
  equal "a shell: exit status" 5 $?
  equal "a shell: processes" 2 "$(grep -o '"pid":' "$work/report" | wc -l)"

  # C. ends of every sort: what was allocated is in the report
  ended() { # ended STATUS MODE ARGUMENT
    rm -f "$work"/account.*
    tool run --report "$work/report" -- ./linked $2 $3 2>"$work/log"
    equal "$2 $3: exit status" "$1" $?
    if grep -q 'reserved_bytes  *13.0 MiB' "$work/report" && grep -q "$4" "$work/report"; then ok; else
      bad "$2 $3: the report"
      cat "$work/report"
    fi
  }
  ulimit -c 0
  ended 0 exit 0 'ended with status 0'
  ended 7 exit 7 'ended with status 7'
  ended 3 _exit 3 'ended with status 3'
  ended 139 crash 0 'ended by signal 11'
  ended 137 signal 9 'ended by signal 9'
  ended 134 signal 6 'ended by signal 6'
  ignored=$(sed -n 's/^SigIgn:[^0-9a-f]*//p' /proc/self/status)
  for number in 1 10 15; do # a signal for vram run goes to the program
    if [ $((0x$ignored >> (number - 1) & 1)) = 1 ]; then
      skip "signal $number is ignored here (nohup?): it reaches nobody"
      continue
    fi
    rm -f "$work/ready" "$work/report"
    (cd "$work" && LD_LIBRARY_PATH=$libs exec "$vram" run --report "$work/report" -- ./linked wait 0 \
      >"$work/ready" 2>"$work/log") &
    runner=$!
    n=0
    while [ ! -s "$work/ready" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
    kill -$number $runner
    wait $runner
    equal "signal $number is passed on: exit status" $((128 + number)) $?
    if grep -q "ended by signal $number " "$work/report"; then ok; else bad "signal $number is passed on"; fi
  done
  # whoever ignores the end of children gets statuses all the same, and the program ignores it as well
  for mode in "exit 7" "orphans 7"; do
    (cd "$work" && LD_LIBRARY_PATH=$libs ./plain ignoring "$vram" run --report "$work/report" -- ./linked $mode) 2>"$work/log"
    equal "SIGCHLD is ignored, $mode: exit status" 7 $?
    if grep -q 'ended with status 7' "$work/report"; then ok; else bad "SIGCHLD is ignored, $mode: the report"; fi
  done
  refuse "a program that is not there" "cannot run './nobody': No such file" tool run -- ./nobody
  tool run -- ./nobody 2>"$work/log"
  equal "a program that is not there: exit status" 127 $?
  tool run -- "$work" 2>"$work/log"
  equal "a folder: exit status" 126 $?
  tool run --report "$work/report" -- ./plain nothing
  if grep -q 'no call that allocates CUDA memory was seen' "$work/report"; then ok; else bad "nothing to report"; fi
  # VRAM_RUN names another file than vram run made: the library is silent
  dd if=/dev/zero of="$work/odd.100" bs=100 count=1 2>/dev/null
  dd if=/dev/zero of="$work/odd.head" bs=65536 count=1 2>/dev/null
  dd if=/dev/zero of="$work/odd.long" bs=1 count=1 seek=17179934719 2>/dev/null # as long as it must be
  : >"$work/odd.empty"
  rm -f "$work/odd.pipe"
  mkfifo "$work/odd.pipe"
  for odd in "$work"/odd.* "$work" /dev/null /dev/zero "$work/nowhere" "" "$(printf '%0300d' 0)"; do
    (cd "$work" && VRAM_RUN=$odd LD_PRELOAD=$OLDPWD/libvram_preload.so LD_LIBRARY_PATH=$libs timeout 20 ./linked one) >"$work/log" 2>&1
    equal "VRAM_RUN=$(basename "$odd" | cut -c1-20): exit status" 0 $?
    if [ -s "$work/log" ]; then bad "VRAM_RUN=$odd: it speaks"; else ok; fi
  done
  # descriptors that are closed stay so, and get nothing that is meant for others
  low() { (cd "$work" && LD_LIBRARY_PATH=$libs LD_BIND_NOW=1 exec "$vram" run "$@"); }
  low --report "$work/report" -- ./linked closed <&- >&- 2>&-
  equal "0, 1 and 2 are closed: exit status" 0 $?
  if grep -q 'reserved_bytes  *13.0 MiB' "$work/report"; then ok; else bad "0, 1 and 2 are closed: the report"; fi
  low -- ./linked exit 0 2>&-
  equal "2 is closed, the report should go there: exit status" 1 $?
  low --report - -- ./linked exit 0 >&- 2>"$work/log"
  equal "1 is closed, the report should go there: exit status" 1 $?
  low --report - -- ./linked exit 7 >&- 2>&-
  equal "1 and 2 are closed: exit status" 7 $?
  # small stacks
  for stack in 1 32; do
    (cd "$work" && LD_LIBRARY_PATH=$libs LD_BIND_NOW=1 ./linked small) >"$work/log" 2>&1
    equal "small stacks alone: exit status" 0 $?
    (cd "$work" && LD_LIBRARY_PATH=$libs LD_BIND_NOW=1 "$vram" run --stack $stack --json --report "$work/report" -- ./linked small) >"$work/log" 2>&1
    equal "small stacks, --stack $stack: exit status" 0 $?
    equal "small stacks, --stack $stack: reserved" 27262976 "$(key reserved_bytes.all.current)"
    equal "small stacks, --stack $stack: failures" 2 "$(key num_ooms)"
    if grep -q '"oom_report":"CUDA out of memory. Tried to allocate 1.95 GiB' "$work/report"; then ok; else bad "small stacks, --stack $stack: the report of the failure"; fi
  done
  ended 0 bare '' 'ended with status 0'
  if "$cc" -static -o "$work/static" tests/preload/program.c >"$work/log" 2>&1; then
    tool run --report "$work/report" -- ./static nothing
    if grep -q 'the library did not get in front of it' "$work/report"; then ok; else bad "a static program"; fi
  else skip "no static C library"; fi

  # the snapshot: what is left is in it, and the events
  tool run --report "$work/report" --snapshot snapshot.json -- ./linked kinds
  tool run --report "$work/report" --snapshot snapshot.pickle -- ./linked kinds
  if have python3; then
    cat >"$work/snapshot.py" <<'END'
import json, pickle, sys

d = json.load(open(sys.argv[1]))
p = pickle.load(open(sys.argv[2], "rb"))
for s in d, p:
    left = sorted(b["requested_size"] for x in s["segments"] for b in x["blocks"] if b["state"] == "active_allocated")
    assert left == [7000, 3145728, 5242880], left
    actions = [e["action"] for e in s["device_traces"][0]]
    assert actions.count("alloc") == 6 and actions.count("free_completed") == 3, actions
END
    cell "the snapshot" python3 "$work/snapshot.py" "$work/snapshot.json" "$work/snapshot.pickle"
  else skip "no python3: the snapshot is not read back"; fi
  refuse "a snapshot of nothing" "no snapshot: no call" tool run --snapshot x.json -- ./plain nothing

  # D. bad use: one line
  for words in "" "--" "--json" "--report" "--stack 0 -- x" "--stack 33 -- x" "--units pounds -- x" "--nothing -- x"; do
    tool run $words >"$work/out" 2>"$work/log"
    equal "run $words: exit status" 2 $?
    if [ "$(wc -l <"$work/log")" = 1 ] && [ ! -s "$work/out" ]; then ok; else bad "run $words: one line"; fi
  done
  VRAM_PRELOAD=/nowhere tool run -- ./linked one >"$work/out" 2>"$work/log"
  equal "no library: exit status" 1 $?
  refuse "a report that cannot be written" "cannot write '/nowhere/x'" tool run --report /nowhere/x -- ./linked one
  # what is there stays until the new one is whole, with its mode; a link stays one
  for option in report snapshot; do
    echo "what was there" >"$work/there.json"
    chmod 640 "$work/there.json"
    ln -sf there.json "$work/link.json"
    ln -f "$work/there.json" "$work/kept.json"
    tool run --report /dev/null --$option link.json -- ./linked one
    if [ -L "$work/link.json" ] && grep -q "what was there" "$work/kept.json" && [ -z "$(find "$work/there.json" ! -perm 640)" ] &&
      ! grep -q "what was there" "$work/there.json" && [ -s "$work/there.json" ]; then ok; else
      bad "--$option takes the place of what was there"
    fi
    refuse "--$option into /dev/full" "cannot write '/dev/full': No space left" \
      tool run --report /dev/null --$option /dev/full -- ./linked one
  done
  mkdir -p "$work/a b"
  cp libvram_preload.so "$work/a b"
  VRAM_PRELOAD="$work/a b/libvram_preload.so" refuse "a blank in the library's name" "LD_PRELOAD cannot take" \
    tool run -- ./linked one

  # PyTorch's pluggable allocator, called as PyTorch does (the program looks at its counters)
  rm -f "$work"/account.*
  (cd "$work" && LD_LIBRARY_PATH=$libs FAKE_CUDA_LOG=$work/account ./plain torch "$OLDPWD/libvram_preload.so") 2>"$work/log"
  equal "the pluggable allocator: exit status" 0 $?
  if grep -q '^CUDA out of memory. Tried to allocate 40.00 MiB' "$work/log"; then ok; else
    bad "the pluggable allocator says nothing when there is no memory"
  fi
  read -r _ now peak _ <"$(ls "$work"/account.*)"
  equal "the pluggable allocator: left on the device" "20971520 23068672" "$now $peak"
  tool run --json --report "$work/report" -- ./plain torch "$PWD/libvram_preload.so" 2>"$work/log"
  equal "the pluggable allocator, counted: reserved" "$now" "$(key reserved_bytes.all.current)"
  equal "the pluggable allocator, counted: peak" "$peak" "$(key reserved_bytes.all.peak)"
  equal "the pluggable allocator, counted: allocated" 5242880 "$(key allocated_bytes.all.current)"

  # ranges of NVTX: a caller in each is one of its own
  tool run --json --report "$work/report" -- ./linked ranges "$PWD/libvram_preload.so" 2>"$work/log"
  equal "ranges: exit status" 0 $?
  sed -e 's/"frames":\[[^]]*\]//g' -e 's/"pid"/\n&/g' "$work/report" | sed 's/.*"not_freed"://' | tr '{' '\n' |
    sed -n 's/^"bytes":\([0-9]*\),"count":\([0-9]*\),.*"place":"\([^+"]*\).*"function":"\([^" ]*\)".*"tag":"\([^"]*\)".*/\1 \2 \3 \4 \5/p' | sed 's/ *$//' >"$work/found"
  cat >"$work/wanted" <<'EOF'
31457280 1 PyTorch  step
12582912 2 linked taking inner
8388608 1 linked ranges
5242880 1 linked taking step
4194304 2 linked taking
4194304 1 linked taking elsewhere
2097152 1 linked taking two?lines
7340032 1 linked taking child
EOF
  same "ranges: bytes, allocations, callers, tags" "$work/wanted" "$work/found"
  # 5,000 names of 15 bytes, of which 65,536 bytes are kept; 2,048 callers in ranges; of the child none
  equal "ranges: names without room" "633 0" "$(key range_names_lost) $(key range_names_lost 2)"
  cell "ranges: callers without their range" grep -q '"range_callers_lost":2[0-9][0-9][0-9],.*"range_callers_lost":0,' "$work/report"
  NVTX_INJECTION64_PATH=/nowhere tool run --report /dev/null -- sh -c 'echo "$NVTX_INJECTION64_PATH"' >"$work/out" 2>"$work/log"
  equal "another tool's ranges stay its own" /nowhere "$(cat "$work/out")"

  # E. a program that writes over what vram run reads: its exit status, and one line
  ended 7 cut 7 'ended with status 7'
  for how in "fill 0" "fill 1" "fill 170" "fill 255" "struct 0" "struct 1" "struct 170" "struct 255" "head 0" "head 255"; do
    for option in --json "--snapshot x.json"; do
      tool run --report "$work/report" $option -- ./linked $how >"$work/out" 2>"$work/log"
      equal "$how $option: exit status" 7 $?
      if [ "$(wc -l <"$work/log")" -le 1 ] && ! grep -q 'signal' "$work/log"; then ok; else
        bad "$how $option: more than a line"
        cat "$work/log"
      fi
    done
  done
  for how in "fill 255" "struct 170"; do
    refuse "$how: an error" 'no report of process 1 of 1: its part of the shared memory was written over' \
      tool run --report "$work/report" -- ./linked $how
  done
  refuse "head: an error" 'no report: the program wrote over the shared memory' tool run -- ./linked head 255
  seed=0
  while [ $((seed += 1)) -le 40 ]; do
    tool run --report "$work/report" --snapshot x.json -- ./linked bits $seed >"$work/out" 2>"$work/log"
    equal "bits $seed: exit status" 7 $?
    if grep 'signal' "$work/log"; then bad "bits $seed"; else ok; fi
  done
  # nobody reads the report: the program's status all the same
  (cd "$work" && { sleep 1; LD_LIBRARY_PATH=$libs "$vram" run --report - -- ./linked exit 7; echo $? >status; } | true) 2>"$work/log"
  equal "a report that nobody reads: exit status" 7 "$(cat "$work/status")"
  (cd "$work" && ulimit -f 1000 && LD_LIBRARY_PATH=$libs "$vram" run -- ./linked exit 7) 2>"$work/log"
  equal "no room for shared memory: exit status" 1 $?
  if grep -q "cannot make 'shared memory': File too large" "$work/log"; then ok; else bad "no room for shared memory: $(cat "$work/log")"; fi

  # F. a static CUDA runtime, built by nvcc: on a real driver, or as far as it goes on a pretended one
  if ! have nvcc; then skip "no nvcc: no static CUDA runtime"
  elif ! nvcc -cudart static -o "$work/static_cu" tests/preload/static.cu >"$work/log" 2>&1; then
    skip "nvcc does not build: $(head -n 1 "$work/log")"
  else
    export FAKE_CUDA_ALL=1
    real_driver=
    ls /dev/nvidia[0-9]* >/dev/null 2>&1 && real_driver=1
    [ -z "$real_driver" ] || libs=${LD_LIBRARY_PATH:-}
    tool run --json --report "$work/report" -- ./static_cu >"$work/log" 2>&1
    equal "a static runtime: exit status" 0 $?
    equal "a static runtime: reserved" 3145728 "$(key reserved_bytes.all.current)"
    equal "a static runtime: peak" 8388608 "$(key reserved_bytes.all.peak)"
    equal "a static runtime: frees of nothing" 0 "$(key unknown_frees)"
    echo "a static runtime on a $(tail -n 1 "$work/log")"
    unset FAKE_CUDA_ALL
  fi

  # G. programs of sanitizers: their runtimes call dlsym before they are ready for anything
  sanitized() { # sanitized COMPILER FLAGS...: it starts, is counted, and ends as it does alone
    name="$*" sanitizer=$1
    shift
    runtimes=$(dirname "$("$sanitizer" -print-file-name=libclang_rt.asan-x86_64.so 2>/dev/null)")
    if ! have "$sanitizer"; then skip "no $sanitizer"; return; fi
    if ! "$sanitizer" -w -g -O1 -rdynamic -DLINKED "$@" -o "$work/sanitized" tests/preload/program.c \
      "$work/libcudart.so.13" "$work/libcuda.so.1" -ldl -lpthread -Wl,-rpath,"$runtimes" >"$work/log" 2>&1; then
      skip "$name does not link: $(tail -n 1 "$work/log")"
      return
    fi
    for mode in one threads oom "exit 5" "past 16"; do
      rm -f "$work"/account.*
      (cd "$work" && LD_LIBRARY_PATH=$libs timeout 60 ./sanitized $mode) >"$work/log" 2>&1
      alone=$? warnings=$(grep -c WARNING "$work/log")
      tool run --json --report "$work/report" -- ./sanitized $mode >"$work/log" 2>&1
      equal "$name, $mode: exit status" $alone $?
      equal "$name, $mode: warnings" $warnings "$(grep -c WARNING "$work/log")"
      equal "$name, $mode: reserved" "$(cat "$work"/account.* 2>/dev/null | cut -d' ' -f 2)" "$(key reserved_bytes.all.current)"
    done
    tool run --json --report "$work/report" -- ./sanitized dlsym >"$work/log" 2>&1
    equal "$name, dlsym: reserved" 2097152 "$(key reserved_bytes.all.current)"
  }
  sanitized clang -fsanitize=address
  sanitized clang -fsanitize=address -shared-libsan
  sanitized clang -fsanitize=thread
  sanitized clang -fsanitize=memory
  sanitized gcc -fsanitize=address
  sanitized gcc -fsanitize=address -static-libasan
  sanitized gcc -fsanitize=thread
  sanitized gcc -fsanitize=thread -static-libtsan
  # none of their functions is called by the library before they are ready, or on its own memory
  needed=$(nm -D --undefined-only libvram_preload.so |
    grep -E ' (mem|str|open|close|read|write|mmap|munmap|pthread_mutex|swapc|makec|dl_iterate|gettime|clock_|[a-z_]*getenv)')
  equal "functions of sanitizers that the library calls" none "${needed:-none}"

  # H. names: lines and functions as the source has them
  cell "names, shortened and kept" "$cc" -std=gnu99 -O0 -Wall -Wextra -I. -Itools -o "$work/symbols" tests/preload/symbols.c tools/vram_streams.c -ldl
  cell "names, shortened and kept" "$work/symbols"
  line() { echo "$(basename "$1"):$(grep -n "[/#]. *$2\$" "$1" | cut -d: -f1)"; } # line FILE COMMENT
  named() { # named NAME TEXT: callers in the report, without what is behind the first two words
    sed -n '/not freed/,/failed/s/.* x cudaMalloc  *0  *//p' "$work/report" | tr -s ' ' >"$work/found"
    printf '%s\n' "$2" >"$work/wanted"
    same "$1" "$work/wanted" "$work/found"
  }
  source=tests/preload/names.cpp
  around="$(line $source 'around it') net::load"
  lines="$(line $source 'not exported') (anonymous namespace)::hidden
$(line $source inlined) net::take < $around
$(line $source 'a template') net::Tensor<float>::Tensor"
  functions="hidden
net::load
net::Tensor"
  if ! g++ -g -O1 -Wall -Wextra -o "$work/names" $source "$work/libcudart.so.13" >"$work/log" 2>&1; then
    skip "no g++: names of C++"
  else
    shown() { # shown PROGRAM PROGRAMS: with only these on the path
      rm -rf "$work/path"
      mkdir "$work/path"
      for program in $2; do ln -s "$(command -v $program)" "$work/path"; done
      (cd "$work" && PATH=$work/path LD_LIBRARY_PATH=$libs DEBUGINFOD_CACHE_PATH=$work/cache HOME=/nowhere \
        "$vram" run --report report -- "./$1" fail) >"$work/log" 2>&1
    }
    # as each of the programs that know lines has a name: llvm-symbolizer without namespaces of what is inlined
    found() { sed 's/(anonymous namespace):://; s/net::take/take/; s/(inlined)/take/' "$work/report" >"$work/plain.names"; mv "$work/plain.names" "$work/report"; }
    lines=$(echo "$lines" | sed 's/(anonymous namespace):://; s/net::take/take/')
    for program in llvm-symbolizer addr2line; do
      have $program || { skip "no $program"; continue; }
      shown names $program
      found
      named "names by $program" "$lines"
      if grep -q "asked: .* by $(line $source 'too much') main (cudaMalloc)" "$work/report"; then ok; else
        bad "names by $program: the report of a failure"
        grep asked: "$work/report"
      fi
    done
    if have addr2line; then # one that fails hides no other
      mkdir -p "$work/broken"
      printf '#!/bin/sh\nexit 1\n' >"$work/broken/llvm-symbolizer"
      chmod +x "$work/broken/llvm-symbolizer"
      shown names "$work/broken/llvm-symbolizer sh addr2line"
      found
      named "names where llvm-symbolizer fails" "$lines"
    fi
    for mode in two two_of; do # one of them is freed after the peak
      tool run --json --report "$work/report" -- ./names $mode >"$work/log" 2>&1
      equal "two on one line, $mode: at the peak" 18874368 \
        "$(grep -o '"bytes":[0-9]*,"place"' "$work/report" | tr -dc '0-9\n' | awk '{ n += $1 } END { print n }')"
      equal "two on one line, $mode: the peak" 18874368 "$(key peak_bytes)"
    done
    functions_of() { sed -n '/not freed/,/failed/s/.* x cudaMalloc  *0  *names[a-z_.]*+0x[0-9a-f]* *//p' "$work/report"; }
    shown names ""
    equal "no program for lines: functions" "hidden net::load net::Tensor<float>::Tensor" \
      "$(functions_of | sed 's/(anonymous namespace):://' | tr '\n' ' ' | sed 's/ $//')"
    if have objcopy && have readelf && { have addr2line || have llvm-symbolizer; }; then
      # what was stripped is found by the link, in .debug, by the build id; another file is not taken
      (cd "$work" && objcopy --only-keep-debug names names.debug && cp names names_cut &&
        objcopy --strip-all --add-gnu-debuglink=names.debug names_cut)
      both="addr2line llvm-symbolizer"
      have addr2line || both=llvm-symbolizer
      have llvm-symbolizer || both=addr2line
      shown names_cut "$both"
      found
      named "a separate file, by its link" "$lines"
      mkdir "$work/.debug"
      mv "$work/names.debug" "$work/.debug"
      shown names_cut "$both"
      found
      named "a separate file, in .debug" "$lines"
      id=$(LC_ALL=C readelf -n "$work/names_cut" | sed -n 's/.*Build ID: //p')
      if [ -n "$id" ]; then
        mkdir -p "$work/cache/$id"
        mv "$work/.debug/names.debug" "$work/cache/$id/debuginfo"
        shown names_cut "$both"
        found
        named "a separate file, by the build id" "$lines"
        cp "$work/names" "$work/swapped"
        (cd "$work" && LD_LIBRARY_PATH=$libs "$vram" run --report report -- \
          sh -c './swapped && rm swapped && g++ -g -O0 -o swapped ../../tests/preload/names.cpp ./libcudart.so.13')
        cell "another file in the program's place" test -x "$work/swapped"
        equal "another file in the program's place: no names" 3 "$(grep -c 'x cudaMalloc  *0  *swapped+0x[0-9a-f]* *$' "$work/report")"
      else skip "this linker writes no build id"; fi
      rm -rf "$work/cache"
      strip -o "$work/names_bare" "$work/names"
      shown names_bare "$both"
      equal "stripped: offsets" 3 "$(grep -c 'x cudaMalloc  *0  *names_bare+0x[0-9a-f]* *$' "$work/report")"
    else skip "no objcopy or nothing that knows lines: separate debug files"; fi
  fi
  # who called CUDA's templates and a runtime that is linked statically, and not they
  source=tests/preload/wrapped.cpp
  for how in "" -DLINKED; do
    if ! g++ -g -O0 -w -isystem tests/cuda/include $how -o "$work/wrapped" $source \
      $([ -n "$how" ] || echo "$work/libcudart.so.13") -ldl >"$work/log" 2>&1; then
      skip "no g++: callers of templates"
      continue
    fi
    tool run --report "$work/report" -- ./wrapped >"$work/log" 2>&1
    equal "callers of templates $how: exit status" 0 $?
    sed -i 's/ x cuMemAlloc / x cudaMalloc /; s/main::.*lambda.*/a lambda/; s/operator()\( const\)*$/a lambda/' "$work/report"
    named "callers of templates $how" "$(line $source keys) keys
$(line $source 'a lambda') a lambda
$(line $source cache) cache
$(line $source ours) ours
$(line $source weights) weights"
  done
  # who asked PyTorch's allocator, and not it
  source=tests/preload/allocator.cpp
  if g++ -g -O1 -w -fPIC -shared -isystem tests/cuda/include -DLIBRARY -o "$work/libc10_cuda.so" $source "$work/libcudart.so.13" >"$work/log" 2>&1 &&
    g++ -g -O1 -o "$work/allocator" $source "$work/libc10_cuda.so" -Wl,-rpath,"$work" >"$work/log" 2>&1; then
    tool run --report "$work/report" -- ./allocator >"$work/log" 2>&1
    equal "callers of PyTorch's allocator: exit status" 0 $?
    named "callers of PyTorch's allocator" "$(line $source workspace) main
$(line $source gradient) at::native::convolution_backward"
    rm "$work/libc10_cuda.so"
  else skip "no g++: callers of PyTorch's allocator"; fi
  # Python: of this interpreter
  python=${PYTHON:-python3} source=tests/preload/frames.py
  if ! have "$python" || ! "$python" -c 'import sys; sys.exit(not (3, 8) <= sys.version_info < (3, 16))' 2>/dev/null; then
    skip "no Python from 3.8 to 3.15: frames of Python"
  else
    cp $source "$work"
    taken="$(line $source taken) take"
    tool run --stack 2 --report "$work/report" -- "$python" frames.py >"$work/log" 2>&1
    equal "Python: exit status" 0 $?
    named "Python: lines and functions" "$taken < $(printf "\303\244").py:1 <module>
$taken < $(line $source 'a thread') <lambda>
$taken < $(line $source 'a lambda') <lambda>
$taken < $(line $source 'a generator') generator
$taken < $(line $source 'a function') step
$taken < $(line $source 'a method') forward"
    tool run --report "$work/report" --json -- "$python" frames.py >"$work/log" 2>&1
    printf 'from frames import take\nfor name in ("a", "b"):\n  exec(compile("take(1)", "/" + name + "/layers.py", "exec"))\n' >"$work/two.py"
    tool run --stack 2 --report "$work/two.json" --json -- "$python" two.py >"$work/log" 2>&1
    for name in a b; do cell "Python: files of one name, $name" grep -q "\"file\":\"/$name/layers.py\"" "$work/two.json"; done
    cell "Python: one line, the file's whole name" grep -q "\"not_freed\":\[{\"bytes\":23068672,\"count\":7,.*\"file\":\"[^\"]*/frames.py\",\"line\":$(echo "$taken" | sed "s/.*:\([0-9]*\) .*/\1/")" "$work/report"
  fi

  # I. while it runs
  waiting() { # waiting OPTIONS...: starts it, and waits until it has allocated
    rm -f "$work/ready" "$work"/told.* "$work/page.prom" "$work/report"
    (cd "$work" && LD_LIBRARY_PATH=$libs exec "$vram" run "$@" >ready 2>log) &
    runner=$!
    n=0
    while [ ! -s "$work/ready" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
  }
  soon() { # soon NAME COMMAND...: it is so within five seconds
    name=$1 n=0
    shift
    while ! "$@" >/dev/null 2>&1 && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
    cell "$name" "$@"
  }
  if [ -x "$work/names" ]; then
    waiting --on-signal USR1 --on-failure --metrics page.prom --metrics-every 1 --report told.%n -- ./names fail wait
    soon "an allocation fails: a report" grep -q 'is running (failure) after' "$work/told.1"
    cell "an allocation fails: who" grep -q 'asked: 1024.00 GiB, by names' "$work/told.1"
    kill -USR1 $runner
    soon "a signal: a report" grep -q 'is running (signal) after' "$work/told.2"
    cell "a signal: what is allocated" grep -q 'allocated_bytes  *6.00 MiB  *6.00 MiB  *6.00 MiB  *0 B' "$work/told.2"
    soon "the page" grep -q '^vram_reserved_bytes{pid="[0-9]*",command="./names fail wait",device="0"} 6291456$' "$work/page.prom"
    cp "$work/page.prom" "$work/page"
    cell "the page: failures" grep -q '^vram_allocation_failures_total{.*} 1$' "$work/page"
    cell "the page: a caller" grep -q '^vram_caller_bytes{pid="[0-9]*",device="0",call="cudaMalloc",place="names[^"]*",function="[^"]*hidden"} 3145728$' "$work/page"
    # the form: HELP and TYPE once, before all samples of the name; no sample twice
    awk '/^# HELP / { help[$3]++; next }
      /^# TYPE / { if (type[$3]++ || help[$3] != 1 || ($4 != "gauge" && $4 != "counter")) bad = 1; now = $3; next }
      !/^[a-z_]+({([a-z]+="([^"\\\n]|\\.)*",?)+})? [0-9.]+$/ { bad = 1 }
      { name = $0; sub(/[{ ].*/, "", name); if (name != now) bad = 1; sub(/ [0-9.]*$/, ""); if (seen[$0]++) bad = 1 }
      END { exit bad || NR < 20 }' "$work/page" >"$work/log"
    equal "the page: its form" 0 $?
    if have promtool; then cell "the page: promtool" sh -c "promtool check metrics <$work/page"; fi
    kill $runner
    wait $runner
    equal "the program's status all the same" 143 $?
    cell "the last report" grep -q 'ended by signal 15' "$work/told.3"
    equal "the page at the end" "vram_processes 0" "$(grep vram_processes "$work/page.prom" | tail -n 1)"
    waiting --on-signal HUP --metrics page.prom --metrics-every 1 --report told.%n -- ./linked ranges "$PWD/libvram_preload.so" wait
    soon "the page: a range" grep -q 'place="linked[^"]*",function="taking",tag="inner"} 12582912$' "$work/page.prom"
    kill -HUP $runner
    soon "a report: a range" grep -q '12.0 MiB  *2 x cudaMalloc  *0  *linked+0x[0-9a-f]*  taking, inner$' "$work/told.1"
    kill $runner
    wait $runner
    waiting --every 1 --json --report told.now --metrics page.prom --metrics-every 1 -- ./names "$(printf '\377')" wait
    soon "the page: UTF-8" grep -q "command=\"./names $(printf '\357\277\275') wait\"" "$work/page.prom"
    soon "every second: a report" grep -q '"report":2,"reason":"every","exit_status":null,"signal":null,.*"running":true' "$work/told.now"
    kill $runner
    wait $runner
    cell "every second: the last one" grep -q '"reason":"end","exit_status":null,"signal":15,.*"running":false' "$work/told.now"
    refuse "a page that cannot be written" "cannot write '/nowhere/page': No such" \
      tool run --metrics /nowhere/page --report /dev/null -- ./names 1
  fi
  for words in "--every 0 -- x" "--every -- x" "--metrics-every no -- x" "--on-signal KILL -- x" "--metrics"; do
    tool run $words >"$work/out" 2>"$work/log"
    equal "run $words: exit status" 2 $?
    if [ "$(wc -l <"$work/log")" = 1 ] && [ ! -s "$work/out" ]; then ok; else bad "run $words: one line"; fi
  done

  # J. PyTorch's error of too little memory, as PyTorch of three ages has it: 2.11, 2.15, before 2.6
  for form in "" -DOWN -D_GLIBCXX_USE_CXX11_ABI=0; do
    if ! g++ -O1 -Wall -Wextra $form -rdynamic -o "$work/c10" tests/preload/c10.cpp -ldl >"$work/log" 2>&1; then
      skip "no g++: PyTorch's error"
      continue
    fi
    (cd "$work" && LD_LIBRARY_PATH=$libs ./c10 "$OLDPWD/libvram_preload.so") >"$work/out" 2>"$work/log"
    equal "PyTorch's error $form: exit status" 0 $?
    if grep -q '^  what would help:' "$work/out" && grep -q '^101 caught, 0 alive' "$work/log"; then ok; else
      bad "PyTorch's error $form"
      cat "$work/log"
    fi
  done

  # K. PyTorch on a pretended GPU: our count is its count
  python=${NULLGPU_PYTHON:-${PYTHON:-python3}} nullgpu=${NULLGPU:-../shared/nullgpu/py}
  if [ ! -x "$nullgpu" ]; then skip "no pretended GPU at $nullgpu (NULLGPU names it): PyTorch"
  elif ! "$python" -c 'import torchvision' 2>/dev/null; then
    skip "$python has no torchvision (PYTHON names one that has): PyTorch"
  else
    NULLGPU_PYTHON=$(command -v "$python") && export NULLGPU_PYTHON
    for conf in expandable_segments:False expandable_segments:True; do
      said=$(PYTORCH_ALLOC_CONF=$conf ./vram run --json --report "$work/report" -- \
        "$nullgpu" tests/preload/torch_step.py 2>"$work/log")
      equal "PyTorch, $conf: memory_reserved" "${said% *}" "$(key reserved_bytes.all.current)"
      equal "PyTorch, $conf: max_memory_reserved" "${said#* }" "$(key reserved_bytes.all.peak)"
      equal "PyTorch, $conf: frees of nothing" 0 "$(key unknown_frees)"
      # with our pool in its allocator's place: the same bytes are reserved and allocated
      theirs=$(PYTORCH_ALLOC_CONF=$conf "$nullgpu" tests/preload/torch_pool.py 2>"$work/log")
      ours=$(VRAM_ALLOC_CONF=$conf "$nullgpu" tests/preload/torch_pool.py ./libvram_preload.so 2>"$work/log")
      equal "PyTorch with vram's pool, $conf: reserved, its peak, allocated" "$theirs" "$ours"
      echo "resnet18, $conf: reserved by PyTorch ${theirs%% *}, by vram's pool ${ours%% *}"
    done
    said=$("$nullgpu" tests/preload/torch_oom.py ./libvram_preload.so 2>"$work/log")
    equal "PyTorch with vram's pool: out of memory" "OutOfMemoryError OutOfMemoryError goes on" "$said"
    ./vram run --report "$work/report" -- "$nullgpu" tests/preload/torch_step.py >"$work/log" 2>&1
    cell "PyTorch: a line of the program" grep -q "x cudaMalloc  *0  *torch_step.py:$(grep -n 'loss = ' tests/preload/torch_step.py | cut -d: -f1)  <module>" "$work/report"
    cell "PyTorch: a range of the program" grep -q "x cudaMalloc  *0  *torch_step.py:$(grep -n 'y = ' tests/preload/torch_step.py | cut -d: -f1)  .*, kept\$" "$work/report"
    best=$(VRAM_POOL=best "$nullgpu" tests/preload/torch_pool.py ./libvram_preload.so 2>"$work/log")
    theirs=$("$nullgpu" tests/preload/torch_pool.py 2>"$work/log")
    if [ "${best%% *}" -le "${theirs%% *}" ]; then ok; else bad "VRAM_POOL=best reserves more: $best, $theirs"; fi
    echo "resnet18, VRAM_POOL=best: reserved by PyTorch ${theirs%% *}, by vram's pool ${best%% *}"
  fi
fi
