# vram replay: every call of every recorded stream, every kind of file: sourced by part.sh.
work=build/replay
mkdir -p $work
truth=${TRUTH:-../shared/data/truth}/allocator
json() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^],\"}]*\).*/\1/p" "$2" | head -1; }
played() { # played NAME FILE COLUMNS OPTIONS...: what replay --csv prints is FILE, in these columns
  name=$1 file=$2 columns=$3
  shift 3
  ./vram replay "$file" --csv "$@" >$work/played.csv 2>$work/log
  case $?,$(grep -c ',oom,' "$file") in
  0,0 | 3,[1-9]*) ok ;;
  *) bad "$name: exit status"; cat $work/log ;;
  esac
  cut -d, -f"$columns" "$file" >$work/wanted
  cut -d, -f"$columns" $work/played.csv >$work/found
  same "$name" $work/wanted $work/found
}

# A. the recorded streams of tests/golden/allocator, after every call
for f in tests/golden/allocator/*.txt; do
  name=$(basename "$f" .txt)
  grep -q '~' "$f" && continue # Tensor.record_stream, which no trace tells (tests/test_pool.c plays it)
  awk -f tests/traces/expand.awk "$f" >"$work/$name.csv"
  of() { awk -v key="$1" -f tests/traces/expand.awk "$f"; }
  set -- --total-bytes "$(of total)" --alloc-conf "$(of conf)"
  [ "$(of limit)" = 0 ] ||
    set -- "$@" --memory-fraction "$(awk "BEGIN { printf \"%.17g\", $(of limit) / $(of total) }")"
  # models were recorded with addresses and without counters: allocated only at the end
  columns=1-9
  [ -z "$(of allocated)" ] || columns=1-5,7-9
  played "$name" "$work/$name.csv" $columns "$@"
  ./vram replay "$work/$name.csv" --json "$@" >$work/json
  for k in retries ooms allocated peak_allocated; do of $k; done >$work/wanted
  for k in num_alloc_retries num_ooms allocated_bytes peak_allocated_bytes; do
    case $columns$k in 1-9*allocated_bytes) ;; *) json $k $work/json ;; esac
  done >$work/found
  same "$name: final figures" $work/wanted $work/found
done

# B. the same as PyTorch wrote them down, if they are there
if [ -d "$truth" ]; then
  for f in "$truth"/synthetic/*.csv; do
    name=$(basename "$f" .csv) j=${f%.csv}.json
    set -- --total-bytes "$(json total_bytes "$j")" --alloc-conf "$(sed -n 's/.*"alloc_conf": "\(.*\)",/\1/p' "$j")"
    [ "$(json memory_fraction "$j")" = 1.0 ] || set -- "$@" --memory-fraction "$(json memory_fraction "$j")"
    played "$name, as recorded" "$f" 1-9 "$@"
    ./vram replay "$f" --json "$@" >$work/json
    for k in events ooms num_alloc_retries final_allocated final_reserved peak_allocated peak_reserved \
      num_device_alloc num_device_free; do json $k "$j"; done >$work/wanted
    for k in events num_ooms num_alloc_retries allocated_bytes reserved_bytes peak_allocated_bytes \
      peak_reserved_bytes; do json $k $work/json; done >$work/found
    # before it recorded, PyTorch took a segment and gave it back
    for k in num_device_alloc num_device_free; do echo $(($(json $k $work/json) + 1)); done >>$work/found
    same "$name: final figures" $work/wanted $work/found
  done
  for f in "$truth"/models/*.csv; do
    ./vram replay "$f" --json >$work/json
    cell "$(basename "$f" .csv): reserved bytes and addresses" \
      grep -q '"as_recorded":{"reserved":true,"addresses":true}' $work/json
    for k in final_allocated final_reserved peak_allocated peak_reserved num_device_alloc; do
      tr ',' '\n' <"${f%.csv}.json" | sed -n "s/.*\"$k\": *\([0-9]*\).*/\1/p" | head -1
    done >$work/wanted
    for k in allocated_bytes reserved_bytes peak_allocated_bytes peak_reserved_bytes num_device_alloc; do
      json $k $work/json
    done >$work/found
    same "$(basename "$f" .csv): final figures" $work/wanted $work/found
  done
else skip "no measured data at $truth (its streams are in tests/golden/allocator, too)"; fi

# C. PyTorch's snapshots; what tests/traces/record.py printed when it wrote them
cat >$work/wanted <<EOF
112068040 57658840
112072192 57661952
138412032 138412032
7 7
true,true
EOF
figures() { # figures FILE: peak and end, and whether all is as recorded
  ./vram replay "$1" --json >$work/json || return
  for k in requested_bytes allocated_bytes reserved_bytes segments; do
    echo "$(json peak_$k $work/json) $(json $k $work/json)"
  done
  sed -n 's/.*"as_recorded":{"reserved":\([a-z]*\),"addresses":\([a-z]*\)}.*/\1,\2/p' $work/json
}
for f in step.pickle step.json; do
  figures tests/traces/$f >$work/found
  same $f $work/wanted $work/found
done
./vram replay tests/traces/late.pickle --json >$work/json
cell "a recording that begins late" grep -q '"before":12,.*"requested_bytes":57658840,.*"recorded_reserved_bytes":138412032' $work/json
# PyTorch 2.15 with stacks="all" (nullgpu): three entries of `x = zeros(64, 1000); w = zeros(1000, 1000); (x @ w).relu().sum().backward()`;
# who asked is a line of the program, in backward's thread what is called, not what recorded it or makes tensors
cell "frames of an unwinder: C++" sh -c "./vram replay tests/traces/backward.json | grep -q 'entry 2, libtorch_cpu.so:26693922 at::TensorIteratorBase::allocate_or_resize_outputs$'"
# PyTorch 2.11 on an H200 knows no file for such a frame: "" and line 0
cell "frames of an unwinder: no file" sh -c "sed 's|\"[^\"]*libtorch_cpu.so\"|\"\"|g' tests/traces/backward.json | ./vram replay - | grep -q 'entry 2, at::TensorIteratorBase::allocate_or_resize_outputs$'"
cell "frames of an unwinder: Python" sh -c "./vram replay tests/traces/backward.json --snapshot $work/frames.json >$work/log && grep -q '\"snap.py:4 step\"' $work/frames.json"
cat tests/traces/step.pickle | ./vram replay - --json | sed 's/standard input/tests\/traces\/step.pickle/' >$work/found
./vram replay tests/traces/step.pickle --json >$work/json
same "standard input" $work/json $work/found
cell "no such device" grep -q '"events":0,' <<EOF
$(./vram replay tests/traces/step.pickle --device 3 --json)
EOF
if have python3; then
  cat >$work/pickles.py <<'EOF'
import json, pickle, pickletools, sys
s = json.load(open("tests/traces/step.json"))
s["more"] = [True, False, None, -1, 255, 256, 65536, -(2**31), 2**31, 2**63, -(2**70), 1.5, "", "\u00e9\u20ac\U0001f600\n\\", (), (1,), (1, 2, 3, 4)]
loop = []
loop.append((loop,))
s["loop"] = loop
for p in range(6):
    b = pickle.dumps(s, p)
    open(f"{sys.argv[1]}/protocol{p}", "wb").write(b)
    open(f"{sys.argv[1]}/optimized{p}", "wb").write(pickletools.optimize(b))
for cut in range(1, 400):
    open(f"{sys.argv[1]}/cut{cut}", "wb").write(pickle.dumps(s["device_traces"][0][:2], 4)[:-cut])
for name, what in {"call": ImportError, "bytes": b"x", "set": {1}, "complex": 1j, "array": bytearray(b"x")}.items():
    open(f"{sys.argv[1]}/{name}", "wb").write(pickle.dumps({"segments": what}, 5))
EOF
  rm -f $work/protocol* $work/optimized* $work/cut*
  python3 $work/pickles.py $work
  for f in $work/protocol? $work/optimized?; do
    figures $f >$work/found
    same "pickle: $(basename $f)" $work/wanted $work/found
  done
  wrong=0
  for f in $work/cut*; do
    ./vram replay "$f" >$work/log 2>&1
    [ $? = 2 ] && [ "$(wc -l <$work/log)" = 1 ] || wrong=$((wrong + 1))
  done
  if [ $wrong = 0 ]; then ok; else bad "$wrong cut pickles without one line and exit status 2"; fi
  refuse "a pickle that calls" "pickle opcode STACK_GLOBAL" ./vram replay $work/call
  refuse "a pickle with bytes" "pickle opcode SHORT_BINBYTES" ./vram replay $work/bytes
  refuse "a pickle with a set" "pickle opcode EMPTY_SET" ./vram replay $work/set
  refuse "a pickle with a complex number" "pickle opcode STACK_GLOBAL" ./vram replay $work/complex
  refuse "a pickle with a bytearray" "pickle opcode BYTEARRAY8" ./vram replay $work/array
else skip "no python3: pickles of other protocols"; fi

# D. CSV: names of columns, quotes, line ends, RMM's log
csv() { # csv NAME WANTED FORMAT: the text gives these lines of --csv, without the head
  printf '%s\n' $2 >$work/wanted
  printf "$3" | ./vram replay - --csv 2>&1 | sed 1d >$work/found
  same "$1" $work/wanted $work/found
}
one="alloc,0,100,0,ok,512,2097152,100,1 free,0,,,ok,0,2097152,0,1"
csv "quotes and line ends" "$one" 'size,node,action,id\r\n100,"a, ""b""\r\nc",alloc,"x 1"\r\n\r\n,,free,"x 1"'
csv "a byte order mark, capitals, other actions" "$one" '\357\273\277Action,ID,Size,more\nalloc,7,100,\nannotate,7,x,\nfree,7,,\n'
csv "addresses" "$one" 'action,addr,size\nalloc,0x10,100\nfree_requested,16,100\nfree_completed,0X10,100\n'
csv "allocated before" "$one" 'phase,action,id,size,node\nzero_grad,free,-1,100,\n'
csv "a last column with commas" "$one" 'action,id,size,node\nalloc,1,100,a, b and c\nfree,1,,\n'
csv "RMM's log" "alloc,0,1000,0,ok,1024,2097152,1000,1 alloc,1,3000000,21968,ok,3001344,23068672,3001000,2
alloc,2,99999999999999,0,oom,3001344,23068672,3001000,2 free,0,,,ok,3000320,23068672,3000000,2
alloc,3,512,0,ok,3000832,23068672,3000512,2 free,1,,,ok,512,23068672,512,2" "$(cat tests/traces/rmm.csv)"

# E. what is written as a snapshot plays again to the same figures, with every block at its place
again() { # again NAME FILE OPTIONS...
  name=$1 file=$2
  shift 2
  for f in $work/again.pickle $work/again.json; do
    ./vram replay "$file" --snapshot $f --json "$@" >$work/json
    ./vram replay $f --json "$@" >$work/more
    for k in events requested_bytes peak_allocated_bytes peak_reserved_bytes reserved_bytes segments; do
      json $k $work/json
    done >$work/wanted
    for k in events requested_bytes peak_allocated_bytes peak_reserved_bytes reserved_bytes segments; do
      json $k $work/more
    done >$work/found
    same "$name again" $work/wanted $work/found
    cell "$name again, as recorded" grep -q '"as_recorded":{"reserved":true,"addresses":true}' $work/more
  done
}
again step tests/traces/step.pickle
again program tests/traces/lenet5.pickle
again expandable tests/traces/lenet5.pickle --alloc-conf expandable_segments:True
again predicted $work/default_churn_1.csv
./vram replay tests/traces/unet.csv --snapshot $work/again.json >$work/log
cell "the layers are in it" grep -q '"mid.1"' $work/again.json
refuse "a snapshot that cannot be written" "cannot write 'no/such'" ./vram replay tests/traces/rmm.csv --snapshot no/such

# F. bad input: one line, exit status 2
wrong() { # wrong TEXT ARGUMENTS...: with standard input, if any
  text=$1
  shift
  ./vram replay "$@" >$work/found 2>$work/log
  if [ $? = 2 ] && [ ! -s $work/found ] && [ "$(wc -l <$work/log)" = 1 ] && grep -qF -e "$text" $work/log; then ok
  else bad "$text ($*)"; cat $work/log; fi
}
try() { # try TEXT FORMAT OPTIONS...
  text=$1
  printf "$2" >$work/input
  shift 2
  wrong "standard input:$text" - "$@" <$work/input
}
try "1: nothing in it" '\n \n'
try "1: no trace: neither columns" 'a,b\n1,2\n'
try "1: --device is for snapshots" 'action,id,size\nalloc,1,5\n' --device 3
try "1: no trace: the first line" 'action,id\nalloc,1\n'
try "2: not a number of bytes 'x'" 'action,id,size\nalloc,1,x\n'
try "2: not a number of bytes '-5'" 'action,id,size\nalloc,1,-5\n'
try "2: more bytes than any device" 'action,id,size\nalloc,1,9223372036854775807\n'
try "2: not a number of bytes '18446744073709551616'" 'action,id,size\nalloc,1,18446744073709551616\n'
try "3: no size" 'action,id,size\nalloc,1,5\nalloc,2,\n'
try "2: neither id nor address" 'action,id,size\nalloc,,5\n'
try "2: not an address 'zz'" 'action,addr,size\nalloc,zz,5\n'
try "2: not a stream 's'" 'action,id,size,stream\nalloc,1,5,s\n'
try "2: id -1 is for" 'action,id,size\nalloc,-1,5\n'
try "3: allocated twice" 'action,id,size\nalloc,1,5\nalloc,1,5\n'
try "4: freed twice" 'action,id,size\nalloc,1,5\nfree,1,\nfree,1,\n'
try "3: a quoted field that does not end" 'action,id,size\nalloc,1,5\n"alloc,2,5\n'
try "2: expected a comma behind" 'action,id,size\n"alloc"x,2,5\n'
try "2: more fields than columns: '7'" 'action,id,size\nalloc,2,5,7\n'
try "1:16: the file ends in the middle of a value" '{"segments": [ '
try "2:2: not a value of JSON" '[\n nan]'
try "1:3: not an escape" '["\\q"]'
try "1:1: a list that does not end" '[1'
try "1:5: expected a colon" '{"a"}'
try "1:4: more behind" '[] ]'
try " entry 0: no memory snapshot" '{"a": 1}'
try " entry 0: no 'total_size'" '[{"device": 0}]'
try " entry 0: no 'address'" '[{"total_size": 5, "blocks": [{}]}]'
try " entry 0: a wrong 'size' (expected an integer of 0 or more, found less)" '[{"total_size":5,"address":0,"blocks":[{"size":-1}]}]'
try " entry 1: a wrong 'addr' (expected an integer of 0 or more, found a text)" \
  '{"segments":[],"device_traces":[[{"action":"x"},{"action":"alloc","size":5,"addr":"5"}]]}'
try " entry 0: a trace entry without 'action'" '{"segments":[],"device_traces":[[7]]}'
try " byte 1: pickle opcode GLOBAL" '(cos\nsystem\n.'
try " byte 2: no pickle opcode: 0xff" '\200\004\377'
try " byte 0: a pickle protocol above 5" '\200\011'
try " byte 2: the pickle ends" '\200\004'
try " byte 2: the pickle ends with other than one value" '\200\004.'
try " byte 2: no mark" '\200\004e'
try " byte 4: items for what is no list" '\200\004N(e'
try " byte 2: a place in the memo that nothing" '\200\004h\007'
try " byte 3: a place in the memo beyond" '\200\004Nr\377\377\377\377'
wrong "no trace"
wrong "a second trace 'b'" a b
wrong "cannot open 'no/such/file'" no/such/file
wrong "unknown option '--train'" --train
wrong "no value behind '--policy'" x --policy
wrong "unknown policy 'worst'" --policy worst
wrong "not a size '0'" --total-bytes 0
wrong "not a fraction '1.5'" --memory-fraction 1.5
wrong "not a fraction '0'" --memory-fraction 0
wrong "not a device '-1'" --device -1
wrong "unknown GPU 'rtx409'" --gpu rtx409
wrong "unknown units 'x'" --units x
wrong "standard output takes one" tests/traces/rmm.csv --json --csv
wrong "standard output takes one" tests/traces/rmm.csv --json --snapshot -
wrong "--snapshot is of one policy" tests/traces/rmm.csv --snapshot x --policy both
wrong "--csv is of one policy, not 'both'" tests/traces/rmm.csv --policy both --csv
wrong "max_split" tests/traces/rmm.csv --alloc-conf max_split_size_mb:x
awk 'BEGIN { print "action,id,size,stream"; for (i = 0; i < 64; i++) print "alloc," i ",5," i }' >$work/streams.csv
wrong "too many streams" $work/streams.csv

# G. what a pickle names again and again is looked at a bounded number of times
shared() { # shared KIND N STATUS TEXT
  awk -v kind="$1" -v n="$2" -f tests/traces/shared.awk >$work/shared
  timeout 30 ./vram replay $work/shared --json >$work/found 2>$work/log
  status=$?
  if [ $status = "$3" ] && grep -q "$4" $work/found $work/log; then ok; else
    bad "a pickle that shares its $1: status $status"
    head -3 $work/log
  fi
}
shared frames 100000 0 '"events":100000,.*"peak_requested_bytes":51200000,.*"peak_node":"x.py:0"'
shared name 50000 2 'shared: entry 0: the same large parts again and again'
shared entry 60000 0 '"events":119999,' # the free of each but the last was not recorded
shared blocks 50000 2 'shared: entry [0-9]*: the same large parts again and again'

# H. JAX and TensorFlow: the log of their allocator, played to what memory_stats() and get_memory_info() said
# (tests/traces/bfc_*.txt say where from), and XLA's buffer assignment
for f in jax tensorflow; do awk -f tests/traces/bfc.awk tests/traces/bfc_$f.txt >$work/bfc_$f.log; done
fields() { # fields NAME FILE OPTIONS...: "key value" lines of the JSON are those of $work/wanted
  name=$1 file=$2
  shift 2
  ./vram replay "$file" --json "$@" >$work/json 2>$work/log
  while read -r key value; do echo "$key $(json "$key" $work/json)"; done <$work/wanted >$work/found
  same "$name" $work/wanted $work/found
}
sed -n 's/^# name .*//; s/^#//p' tests/traces/bfc_jax.txt | tr -d '\n:' | grep -o '[a-z_]* [0-9]*' | grep '^num_allocs\|^[a-z]*_[a-z_]*bytes\|^pool_bytes\|^largest_alloc_size\|^bytes_limit' | head -n 6 >$work/wanted
cell "six figures of memory_stats()" test "$(wc -l <$work/wanted)" = 6
fields "JAX's BFC allocator" $work/bfc_jax.log --total-bytes 112583507968
cell "the peak as the log says" grep -q '"recorded_peak_bytes_in_use":673317888,' $work/json
cell "its regions, and all but two of 946 blocks" grep -q '"as_recorded":{"regions":true,"blocks":946,"elsewhere":2}' $work/json
./vram replay $work/bfc_jax.log --csv >$work/found
printf '374 127775232\n424 388104960\n937 388104960\n' >$work/wanted
awk -F, '$1 == "alloc" && ++n in want { print n - 1, in_use } { in_use = $6 } BEGIN { want[375] = want[425] = want[938] }' \
  $work/found >$work/more
same "what is in use between the steps" $work/wanted $work/more
echo "peak_bytes_in_use 37164544" >$work/wanted
fields "TensorFlow's BFC allocator" $work/bfc_tensorflow.log --total-bytes 512MiB
cell "its peak as the log says" grep -q '"recorded_peak_bytes_in_use":37164544,' $work/json
cell "every address of it" grep -q '"as_recorded":{"regions":true,"blocks":543,"elsewhere":0}' $work/json
cell "a device of that log" sh -c "./vram replay $work/bfc_jax.log --device 0 --json | grep -q '\"num_allocs\":946,'"
cell "all of it at once" sh -c "./vram replay $work/bfc_jax.log --alloc-conf preallocate:True --json | grep -q '\"peak_pool_bytes\":85899345920,'"
# by hand: 2 MiB for 1 byte; 3 MiB take a region of 4, of which less than twice is left; freed, it does not
# hold 5 MiB, for which a region of 8 MiB would be more than the 10 MiB have
bfc() { # bfc NAME WANTED CONF: allocated and reserved after every call
  printf 'action,id,size\nalloc,1,1\nalloc,2,3145728\nfree,2,\nalloc,3,5242880\n' |
    ./vram replay - --policy bfc --total-bytes 10MiB --alloc-conf "$3" --csv 2>&1 | cut -d, -f5-9 >$work/found
  printf "result,allocated,reserved,requested,segments\n$2" >$work/wanted
  same "$1" $work/wanted $work/found
}
kept="ok,256,2097152,1,1\nok,4194560,6291456,3145729,2\nok,256,6291456,1,2\n"
bfc "regions stay" "${kept}oom,256,6291456,1,2\n" ""
bfc "regions are given back" "${kept}ok,8388864,10485760,5242881,2\n" garbage_collection:True
./vram replay $work/bfc_jax.log --total-bytes 256MiB >$work/found
cell "JAX's log on a small device" test $? = 3
cell "where it fails" grep -q '^DOES NOT FIT line [0-9]*, an alloc of .* in use; the largest free chunk has' $work/found
cell "JAX's log through PyTorch's allocator" sh -c "./vram replay $work/bfc_jax.log --policy torch --json | grep -q '\"peak_requested_bytes\":621351908,'"
wrong "not an option of the BFC allocator 'x:True'" tests/traces/rmm.csv --policy bfc --alloc-conf x:True
wrong "not of 'bfc' (expected torch or best)" tests/traces/rmm.csv --policy bfc --snapshot x
wrong "no allocation of this allocator: 'GPU_7_bfc'" $work/bfc_jax.log --device 7
# by hand, at level 4: 2 and 4 MiB, of which the larger one is given back for 8, all as recorded
said='bfc_allocator.cc:1] '
grown() { printf '%sExtending allocation by %s for x.\n%sAllocated memory at 0x%s to 0x%s\n%sAllocateRaw x  %s 0x%s\n' "$said" "$1" "$said" "$2" "$3" "$said" "$4" "$2"; }
{
  grown 2.00MiB 10000000 10200000 256
  grown 4.00MiB 20000000 20400000 3145728
  echo "$said[mem-debug] DeallocateRaw,x,3145728,0x20000000,*** Begin stack trace ***"
  grown 8.00MiB 30000000 30800000 5242880
} >$work/given.log
./vram replay $work/given.log --total-bytes 10MiB --alloc-conf garbage_collection:True --json >$work/json
cell "regions that were given back are those of the recording" \
  grep -q '"regions":2,.*"as_recorded":{"regions":true,"blocks":3,"elsewhere":0},"fits":true' $work/json
# an allocation that failed, one of nothing, the free of a null pointer; 4,000 lines of a program before them
awk 'BEGIN { for (i = 0; i < 4000; i++) print "epoch " i ", loss 0.12345, accuracy 0.9" }' >$work/late.log
printf '%sAllocateRaw x  256 0x10000\n%sAllocateRaw x  4096 0\n%sDeallocateRaw x 0\n%sDeallocateRaw x 256\n' "$said" "$said" "$said" "$said" >>$work/late.log
printf 'unmatched 0\nfailed_when_recorded 1\nnum_allocs 1\npeak_bytes_in_use 256\nnum_ooms 0\n' >$work/wanted
fields "what had failed is not played" $work/late.log
cell "it is told" sh -c "./vram replay $work/late.log | grep -q '^failed when recorded, and not played: 1, the first line 4002, an alloc of 4.00 KiB'"
cell "nothing is no failure" test "$(printf 'action,id,size\nalloc,1,0\n' | ./vram replay - --policy bfc --csv | tail -n 1)" = alloc,0,0,0,ok,0,0,0,0
awk -v said="$said" 'BEGIN { for (i = 0; i < 100000; i++) printf "%sAllocateRaw x  512 0x%x\n", said, 512 * (i + 1)
  while (i--) print said "DeallocateRaw x 512" }' >$work/many.log
cell "100,000 blocks of one size" sh -c "timeout 8 ./vram replay $work/many.log --json | grep -q '\"bytes_in_use\":0,\"peak_bytes_in_use\":51200000,'"
try "1: a log without an allocation" 'bfc_allocator.cc:124] Creating new BFCAllocator named: GPU_0_bfc\n'
try "1: more bytes than any device" 'bfc_allocator.cc:387] AllocateRaw x  2305843009213693952 0x10\n'

# XLA's memory_analysis() of the step: arguments 378082020, outputs beside them 212, temp 109057304, peak
# 487134144; that leaves the table of a tuple out, 16 bytes
xla=tests/traces/xla_mlp-buffer-assignment.txt
printf 'requested_bytes 378082232\npeak_requested_bytes 487134160\npeak_node jit(step)/transpose(jvp(Mlp))/Dense_1/transpose\n' >$work/wanted
fields "XLA's buffer assignment" $xla
# "Total bytes" of memory-usage-report.txt beside it: also what operators' own computations have (thread-local)
own=$(awk '/^allocation .*thread-local/ { sum += $4 } END { print sum }' $xla)
cell "XLA's report of the same program" test $(($(json requested_bytes $work/json) + $(./vram arena $xla --json | sed 's/.*"recorded_bytes":\([0-9]*\).*/\1/') + own)) = 487139704
cat $xla tests/traces/xla_mlp-live-range.txt tests/traces/xla_mlp-buffer-assignment-values.txt >$work/xla.txt
./vram replay $work/xla.txt --json | sed "s|$work/xla.txt|$xla|" >$work/found
./vram replay $xla --json >$work/json
same "all of it in one text" $work/json $work/found
sed 's/^allocation 0: size 67108864,/allocation 0: size 67108880,/' $work/xla.txt >$work/more.txt
./vram diff $work/more.txt $xla --csv --top 0 >$work/found
cell "its layers side by side" grep -q "^layer_at_peak,\"params.'params'..'Dense_1'.*,67[0-9]*,67[0-9]*,-16$" $work/found
cp $xla $work/alone-buffer-assignment.txt
wrong "no live ranges" $work/alone-buffer-assignment.txt
try "1: a buffer assignment without an allocation" 'BufferAssignment:\n'
try "2: an allocation without a size: 'allocation 0: x'" 'BufferAssignment:\nallocation 0: x\n'
try "2: a value before the first allocation" 'BufferAssignment:\n value: <1 a @0> (size=1,offset=0): f32[]\n'
try "3: a value that its allocation does not hold: 'a'" 'BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n value: <1 a @0> (size=4,offset=1): f32[]\n'
try "3: a value without a live range: 'a'" 'BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n value: <1 a @0> (size=4,offset=0): f32[]\nHloLiveRange (max 1):\n'
try "4: not a line of a buffer assignment: ' x'" 'BufferAssignment:\nallocation 0: size 4, constant:\n value: <1 a @0> (size=4,offset=0): f32[]\n x\n'
try "2: an allocation of no color:" 'BufferAssignment:\nallocation 0: size 4, color x, constant:\n'
try "3: a second program" 'BufferAssignment:\nallocation 0: size 4, constant:\nBufferAssignment:\n'
# what XLA appends where colors share memory (BufferAllocation::ToString) says nothing new; color 5 is the host's memory
sed '/^allocation 1:/i\
 reused by buffers of a different color:\
  value: <742 loop_add_fusion{0} @0> (color=0)' $work/xla.txt >$work/colors.txt
./vram replay $work/colors.txt --csv >$work/found
./vram replay $work/xla.txt --csv >$work/wanted
same "values of another color" $work/wanted $work/found
sed 's/^\(allocation [345]: size [0-9]*\),/\1, color 5,/' $work/xla.txt >$work/host.txt
printf 'host_bytes 100663296\nevents 144\npeak_requested_bytes %s\n' $((487134160 - 100663296)) >$work/wanted
fields "parameters in the host's memory" $work/host.txt
cell "they are told by diff" sh -c "./vram diff $work/host.txt $xla | grep -q \"^in the host's memory of $work/host.txt, not compared: 96.0 MiB\""
cell "they are told" sh -c "./vram replay $work/host.txt | grep -q \"^not played, in the host's memory: 96.0 MiB\""
# cut anywhere, it is refused: within a line, between two allocations, between two values, in a file beside
cut_text() { # cut_text TEXT COMMAND...: what is left of the assignment
  text=$1
  shift
  "$@" $xla >$work/cut-buffer-assignment.txt
  for k in live-range buffer-assignment-values; do
    [ -f $work/cut-$k.txt ] || cp tests/traces/xla_mlp-$k.txt $work/cut-$k.txt
  done
  wrong "$work/cut-$text" $work/cut-buffer-assignment.txt
}
rm -f $work/cut-*
for n in 100 9000 18000; do cut_text "buffer-assignment.txt:$(head -c $n $xla | awk 'END { print NR }'): the text ends within a line" head -c $n; done
cut_text "live-range.txt:12: a live range of what the buffer assignment lacks (has it been cut?): 'cublas-lt-matmul.1'" sed '/^allocation 71:/,$d'
cut_text "live-range.txt:114: a live range of what the buffer assignment lacks (has it been cut?): 'loop_subtract_fusion'" sed '$d'
printf '\nTotal bytes used: 487139720 (464.6MiB)\n\nUsed values:\n' >$work/cut-buffer-assignment-values.txt
cut_text "buffer-assignment-values.txt:2: not the sum of the buffer assignment's allocations:" cat
head -c 2000 tests/traces/xla_mlp-live-range.txt >$work/cut-live-range.txt
cut_text "live-range.txt:58: the text ends within a line" cat
# JAX 0.10.2 on a CPU: the gradient of lax.scan, jnp.tanh(c @ w) five times (64 x 64, batch 8), without its schedule;
# memory_analysis(): arguments 18432, outputs 16384, temp 53380; beside these are 7 constants of 4 bytes
printf 'requested_bytes %s\n' $((18432 + 16384 + 7 * 4)) >$work/wanted
fields "loops" tests/traces/xla_scan.txt
cell "the heap of loops" sh -c "./vram arena tests/traces/xla_scan.txt --json | grep -q '\"height_bytes\":532[0-9]*,.*\"optimal\":true.*\"recorded_bytes\":53380,'"
try "6: not a live range: '    a{}:3-2'" 'BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n value: <1 a @0> (size=4,offset=0): f32[]\nHloLiveRange (max 1):\n  BufferLiveRange:\n    a{}:3-2\n'

# I. profiles of JAX. jax_leak.py prints the bytes of jax.live_arrays(); three of its 64 x 512 arrays stay between the two
cell "a profile: what is alive" test "$(./vram replay tests/traces/jax_after.prof --json | grep -o '"kinds":\[{[^}]*}')" = \
  '"kinds":[{"name":"buffer","bytes":1116160,"count":7}'
cell "a profile: who asked" sh -c "./vram replay tests/traces/jax_after.prof --json | grep -q '{\"name\":\"jax_leak.py:13 step\",\"bytes\":524288,'"
./vram diff tests/traces/jax_before.prof tests/traces/jax_after.prof --csv >$work/found
[ $? = 3 ] && grep -q '^layer_at_peak,"jax_leak.py:13 step",131072,524288,393216$' $work/found &&
  ! grep '^layer' $work/found | grep -v :13 | grep -qv ',0$' && ok || { bad "what grew between two profiles"; cat $work/found; }
# on an H200 (jax_mlp.prof, the MLP of xla_mlp.vram): parameters and both moments of them, two counts of steps, the batch
./vram replay tests/traces/jax_mlp.prof --json >$work/json
cell "a profile of a GPU" grep -q "\"name\":\"buffer\",\"bytes\":$((3 * 125677472 + 2 * 4 + 256 * 1024 * 4 + 256 * 4))," $work/json
cell "a profile of one device" sh -c "./vram replay tests/traces/jax_mlp.prof --device 1 --json | grep -q '\"name\":\"executable\",\"bytes\":0,\"count\":50}\]'"
cell "a profile as a picture" sh -c "./vram replay tests/traces/jax_mlp.prof --snapshot - | ./vram replay - --policy bfc --json | grep -q '\"requested_bytes\":378082024,'"
if have python3; then
  cat >$work/packed.py <<'EOF'
import gzip, os, random, sys, zlib
random.seed(20)
to = sys.argv[1]
def text(kind, n):
    rows = ["action,id,size,node"]
    for i in range(n):
        name = os.urandom(9).hex() if kind else "layer" * (i % 7)
        rows.append(f"alloc,{i},{random.randrange(1, 10**6)},{name}")
    return ("\n".join(rows) + "\n").encode()
k = 0
for level in (0, 1, 6, 9):
    for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED):
        plain = text(k % 2, (1, 40, 3000)[k % 3])
        c = zlib.compressobj(level, zlib.DEFLATED, 31, random.randrange(1, 10), strategy)
        half = random.randrange(len(plain))
        packed = c.compress(plain[:half]) + c.flush(zlib.Z_FULL_FLUSH) + c.compress(plain[half:]) + c.flush()
        open(f"{to}/plain{k}", "wb").write(plain)
        open(f"{to}/packed{k}", "wb").write(packed)
        k += 1
with gzip.GzipFile(f"{to}/packed{k}", "wb") as f: # with a name; two members
    f.write(plain[:half])
with open(f"{to}/packed{k}", "ab") as f:
    f.write(gzip.compress(plain[half:]))
open(f"{to}/plain{k}", "wb").write(plain)
for k in range(40): # cut short, or with a bit turned
    b = bytearray(open(f"{to}/packed{k % 16}", "rb").read())
    if k % 2:
        del b[random.randrange(18, len(b)):]
    else:
        b[random.randrange(10, len(b))] ^= 1 << random.randrange(8)
    open(f"{to}/damaged{k}", "wb").write(b)
for name in "jax_after.prof", "jax_mlp.prof", "profiler.trace.json.gz", "profiler.raw.json.gz":
    b = gzip.decompress(open(f"tests/traces/{name}", "rb").read())
    for k in range(20):
        m = bytearray(b)
        if k % 2:
            del m[random.randrange(1, len(b)):]
        for _ in range(k % 4):
            m[random.randrange(len(m))] = random.randrange(256)
        open(f"{to}/mutated{k}{name}", "wb").write(m)
EOF
  rm -f $work/plain* $work/packed[0-9]* $work/damaged* $work/mutated*
  python3 $work/packed.py $work
  for f in $work/plain*; do
    ./vram replay - --json <"$f" >$work/wanted
    ./vram replay - --json <"$work/packed${f#"$work"/plain}" >$work/found
    same "packed by gzip: $(basename "$f")" $work/wanted $work/found
  done
  wrong=0
  for f in $work/damaged* $work/mutated*; do
    ./vram replay "$f" >$work/found 2>$work/log
    case $?,$f in
    2,*) [ "$(wc -l <$work/log)" = 1 ] || wrong=$((wrong + 1)) ;;
    [03],*mutated*) ;;
    *) wrong=$((wrong + 1)) ;;
    esac
  done
  if [ $wrong = 0 ]; then ok; else bad "$wrong damaged files without one line and exit status 2"; fi
else skip "no python3: files packed by gzip"; fi
printf '\n\004\010\001\020\002' >$work/input # a type of value; no texts
wrong "sample 0: a profile of pprof whose first text is not the empty one" $work/input
printf '\n\004\010\001\020\0022\0002\003abc2\005count' >$work/input
wrong "sample 0: a profile of pprof that counts no bytes" $work/input
printf '\n\004\010\001\020\0022\0002\003abc2\005count\022\177' >$work/input
wrong "sample 0: a profile of pprof with a field that is longer" $work/input
printf '\037\213\010\000\000\000\000\000\000\003\007' >$work/input
wrong "byte 11 of the packed file: a block of no known kind" $work/input
wrong "not a number of rows 'x'" --top x

# J. torch.profiler (tests/traces/profiler.py prints these figures): the chrome trace, and the raw memory timeline
for f in trace raw; do
  ./vram replay tests/traces/profiler.$f.json.gz --json >$work/json
  for k in peak_allocated_bytes allocated_bytes peak_reserved_bytes; do json $k $work/json; done >$work/found
  printf '33657856\n164352\n35651584\n' >$work/wanted
  same "torch.profiler: $f" $work/wanted $work/found
done
./vram diff tests/traces/profiler.trace.json.gz tests/traces/profiler.raw.json.gz --csv >$work/found
# the first has what the allocator gave, multiples of 512 bytes; the second what is asked for, of what was there before:
# 40 of a bias of 10 and 256 of 32 integers; parameters: 64 * 128 + 128 + 128 * 10 + 10 of 4 bytes
cell "torch.profiler: what differs" grep -q '^peak,"requested",33657856,33657128,-728$' $work/found
cell "torch.profiler: parameters" grep -q "^category_at_peak,\"params\",[0-9]*,$((4 * (64 * 128 + 128 + 128 * 10 + 10)))," $work/found
if have gunzip; then
  gunzip -c tests/traces/profiler.trace.json.gz >$work/input
  ./vram replay $work/input --snapshot $work/again.json >$work/log
  for name in "profiler.py:13 step aten::nll_loss_forward" "Linear_0 aten::addmm" "aten::threshold_backward"; do
    cell "torch.profiler: $name asked" grep -q "\"name\":\"$name\"" $work/again.json
  done
  sed 's/\[memory\]/[none]/g' $work/input >$work/more
  wrong "more: entry 0: a chrome trace without [memory] events (expected" $work/more
  wrong "input: entry 0: a chrome trace without [memory] events of this device" $work/input --device 1
else skip "no gunzip: chrome traces by hand"; fi
try " entry 0: a memory timeline of sums only" '[[1,2],[[0,1],[0,2]]]'
try " entry 1: no entry of a raw memory timeline" '[[1,2,512,7],[1,4,512]]'
try " entry 0: an action or a category that is not known" '[[1,5,512,7]]'
try " entry 0: more bytes than any device has" '[[1,2,9000000000000000000,7]]'

# K. what TensorFlow's allocator prints when it finds no place: its own sums are 17 chunks of 1 MiB, 7 MiB, 32 MiB and 256
# bytes in use, "Total size in pool: 62.00MiB", by bins 26 chunks of which 20 in use
./vram replay tests/traces/bfc_oom.txt --json >$work/json
cell "a dump: in use" grep -q "\"bytes\":$((17 * 1048576 + 7340032 + 33554432 + 256)),\"count\":20,\"pool_bytes\":$((62 * 1048576))," $work/json
cell "a dump: free" grep -q "\"free_bytes\":$((45 * 1048576 - 17 * 1048576 - 22 * 1048576 - 256)),\"free_chunks\":6,\"largest_free_block_bytes\":1048576,\"no_place_for\":33554432," $work/json
cell "a dump: by size" grep -q '{"name":"1048576 bytes each","bytes":17825792,"count":17}' $work/json
# with names, as older ones and those built for it have them; the request fits into what is free, but not into one piece
sed 's/of size 1048576 next/of size 1048576 by op AddV2 action_count 7 step 0 next/; s/rounded to 33554432/rounded to 4194304/' tests/traces/bfc_oom.txt >$work/input
./vram replay $work/input >$work/found
cell "a dump: who asked" grep -q '^AddV2  *17.0 MiB  *17$' $work/found
cell "a dump: why" grep -q '^NO PLACE for 4.00 MiB, asked for by _MklMatMul: what is free lies in pieces$' $work/found
wrong "no allocation of this allocator: 'GPU_0_bfc'" tests/traces/bfc_oom.txt --device 0
try "2: a chunk without an address or a size" 'bfc_allocator.cc:1] BFCAllocator dump for x\nbfc_allocator.cc:1] InUse at 12 of\n'
try "2: a region without a size" 'bfc_allocator.cc:1] BFCAllocator dump for x\nbfc_allocator.cc:1] Next region of size x\n'
