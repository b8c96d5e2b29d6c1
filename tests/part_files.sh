# Files that the command reads and writes: pipes, too large a file, a full disk, a limit, the input as
# output, text that would tell a terminal something, the line that tells one how long it takes: sourced
# by part.sh.
work=build/files golden=tests/golden/arena
rm -rf $work
mkdir -p $work
wrong() { # wrong STATUS TEXT COMMAND...: that exit status, one line on standard error, with TEXT
  wanted=$1 text=$2
  shift 2
  "$@" >$work/out 2>$work/err
  status=$?
  if [ $status = "$wanted" ] && [ "$(wc -l <$work/err)" = 1 ] && grep -qF -e "$text" $work/err; then ok; else
    bad "$*: status $status, expected $wanted and $text"
    head -3 $work/err
  fi
}

# A. a pipe is opened once
mkfifo $work/pipe
(cat examples/models/lenet5.vram >$work/pipe) &
timeout 10 ./vram estimate $work/pipe >$work/found 2>&1
status=$?
./vram estimate examples/models/lenet5.vram >$work/wanted
if [ $status = 0 ] && [ -s $work/wanted ] && cmp -s $work/found $work/wanted; then ok; else bad "a pipe: status $status"; fi
kill $! 2>/dev/null
wait $! 2>/dev/null

# B. more than the most that is read
awk 'BEGIN { for (i = 0; i < 600; i++) print "# text" }' >$work/large
if truncate -s 3G $work/large 2>$work/log; then
  for command in estimate replay arena "plan --budget 1GB" emit "estimate --embedded" "diff lenet5" "fit --gpu t4"; do
    wrong 2 "$work/large' has more than 1 GiB, which is the most that is read" timeout 20 ./vram $command $work/large
  done
  rm $work/large
else skip "no truncate: a file of 3 GiB"; fi
if [ -c /dev/zero ]; then
  wrong 2 "/dev/zero' has more than 1 GiB" timeout 60 ./vram estimate /dev/zero
  wrong 2 "standard input' has more than 1 GiB" timeout 60 ./vram replay - </dev/zero
else skip "no /dev/zero"; fi

# C. what is written is there whole or not at all, at a limit of 512 bytes and at a full disk
cp tests/traces/step.json $work/trace.json
cp examples/models/lenet5.vram $work/net.vram
cp tests/golden/arena/rnd20_b131.131.csv $work/lifetimes.csv
every_output() { # every_output COMMAND...: COMMAND OUTPUT INPUT WORDS...
  for o in svg html events snapshot trace; do
    "$@" --$o $work/net.vram estimate $work/net.vram --train adamw
  done
  "$@" --emit-header $work/lifetimes.csv arena $work/lifetimes.csv
  "$@" --svg $work/lifetimes.csv arena $work/lifetimes.csv
  "$@" --svg $work/net.vram plan $work/net.vram --budget 1GiB
  "$@" --snapshot $work/trace.json replay $work/trace.json
  "$@" -o $work/net.vram emit $work/net.vram --batch 1
}
limited() { # limited OPTION INPUT WORDS...
  option=$1
  shift 2
  echo "what was there" >$work/good
  chmod 640 $work/good
  (ulimit -f 1 && ./vram "$@" "$option" $work/good) >/dev/null 2>$work/err
  status=$?
  if [ $status = 1 ] && [ "$(cat $work/good)" = "what was there" ] &&
    grep -q "^vram: cannot write '$work/good': File too large" $work/err; then ok; else
    bad "$* $option at a limit: status $status"
    head -3 $work/err
  fi
  (ulimit -f 1 && ./vram "$@" "$option" $work/new) >/dev/null 2>&1
  if [ $? = 1 ] && [ ! -e $work/new ]; then ok; else bad "$* $option, new, at a limit"; fi
  # and without the limit it takes the place of what was there, as it was
  ./vram "$@" "$option" $work/new >/dev/null
  ./vram "$@" "$option" $work/good >/dev/null
  if cmp -s $work/new $work/good && [ -s $work/good ] && [ -z "$(find $work/good ! -perm 640)" ]; then ok; else
    bad "$* $option: not the same file, or of another mode"
  fi
  rm -f $work/new
  wrong 1 "cannot write '/dev/full': No space left on device" ./vram "$@" "$option" /dev/full
  wrong 1 "cannot write '$work/no/such': No such file or directory" ./vram "$@" "$option" $work/no/such
}
if (ulimit -f 1) 2>/dev/null && [ -c /dev/full ]; then
  every_output limited
  (ulimit -f 1 && ./vram estimate resnet50 --table >$work/out) 2>$work/err
  status=$?
  if [ $status = 1 ] && grep -q "^vram: cannot write 'standard output': File too large" $work/err; then ok; else
    bad "standard output at a limit: status $status"
  fi
else skip "no ulimit -f, or no /dev/full"; fi
find $work -name '.vram*' >$work/found
same "nothing is left beside them" /dev/null $work/found

# D. the output is not the input, by whatever name
over() { # over OPTION INPUT WORDS...
  option=$1 input=$2
  shift 2
  cp "$input" $work/before
  wrong 2 "the output is the input: '$input'" ./vram "$@" "$option" "$input"
  ln -sf "$(basename "$input")" $work/link
  wrong 2 "the output is the input: '$work/link'" ./vram "$@" "$option" $work/link
  rm -f $work/hard
  ln "$input" $work/hard
  wrong 2 "the output is the input: '$work/hard'" ./vram "$@" "$option" $work/hard
  same "$* $option: the input stays" $work/before "$input"
}
every_output over
wrong 2 "the output is the input" ./vram estimate - --svg $work/net.vram <$work/net.vram

# E. a link stays one, a new file has the mode of others, what is no file is written to
mkdir $work/there
echo old >$work/there/report
ln -sf there/report $work/link
./vram estimate lenet5 --svg $work/link >/dev/null
if [ -L $work/link ] && grep -q '</svg>' $work/there/report; then ok; else bad "a link is replaced"; fi
ln -sf there/later $work/link
./vram estimate lenet5 --svg $work/link >/dev/null
if [ -L $work/link ] && grep -q '</svg>' $work/there/later; then ok; else bad "a link to nothing is replaced"; fi
(umask 027 && ./vram estimate lenet5 --svg $work/mode.svg >/dev/null)
if [ -z "$(find $work/mode.svg ! -perm 640)" ]; then ok; else bad "the mode of a new file"; fi
./vram estimate lenet5 --svg - >$work/wanted
./vram estimate lenet5 --csv --svg /dev/stderr 2>$work/found >$work/out
same "/dev/stderr" $work/wanted $work/found
mkfifo $work/out.pipe
cat $work/out.pipe >$work/found &
timeout 10 ./vram estimate lenet5 --svg $work/out.pipe >/dev/null
wait $!
same "into a pipe" $work/wanted $work/found
if [ "$(id -u)" != 0 ]; then
  echo keep >$work/read-only
  chmod 444 $work/read-only
  wrong 1 "cannot write '$work/read-only': Permission denied" ./vram estimate lenet5 --svg $work/read-only
else skip "root may write what is read-only"; fi

# F. errors quote what they found, but tell a terminal nothing and are one line
esc=$(printf '\033') tab=$(printf '\t') csi=$(printf '\302\233')
clean() { # clean TEXT COMMAND...
  wrong 2 "$@"
  if LC_ALL=C grep -q "[$(printf '\001')-$(printf '\011')$(printf '\013')-$(printf '\037')$(printf '\177')]" $work/err ||
    grep -q "$csi" $work/err; then bad "$*: control characters get through"; else ok; fi
}
clean "no built-in model 'a\\x0ab\\x1b[31m'" ./vram estimate "a
b$esc[31m"
clean "unknown option '--x\\x09\\x1b'" ./vram estimate lenet5 "--x$tab$esc"
clean "unknown GPU '\\xc2\\x9b31m'" ./vram estimate lenet5 --gpu "${csi}31m"
clean "cannot open '$work/no\\x0afile'" ./vram replay "$work/no
file"
printf 'action,id,size\nalloc,1,\033[2J\377\303\251\n' >$work/odd.csv
clean ":2: not a number of bytes '\\x1b[2J\\xff$(printf '\303\251')'" ./vram replay $work/odd.csv
printf 'id,lower,upper,size\na,0,1,\033]0;x\007\n' >$work/odd.csv
clean ":2: no number for size: '\\x1b]0;x\\x07'" ./vram arena $work/odd.csv
printf 'fw,bw,x,xbar,ftmp,btmp\n1,2,\033c,4,5,6\n' >$work/odd.csv
clean ":2:5: not a size (found '\\x1bc'" ./vram plan $work/odd.csv
printf '(I1\033[2J\n.' >$work/odd.pickle
clean "byte 2: not a number '1\\x1b[2J'" ./vram replay $work/odd.pickle
printf '{"a\\u001b[2J" 1}' >$work/odd.json
clean "1:15: expected a colon behind the key 'a\\x1b[2J'" ./vram replay $work/odd.json
printf '{"allocator_settings":{"PYTORCH_CUDA_ALLOC_CONF":"\\u001b:x\\n"},"segments":[]}' >$work/odd.json
clean "that is known here (found ?)" ./vram replay $work/odd.json
awk 'BEGIN { printf "action,id,size\nalloc,1,"; for (i = 0; i < 29; i++) printf "\303\251"; print "\342\202\254x" }' >$work/odd.csv
clean "$(awk 'BEGIN { for (i = 0; i < 29; i++) printf "\303\251" }')'" ./vram replay $work/odd.csv
# where it is: lines of the file, not those that its texts hold
printf '{"a":"one\\ntwo\\nthree\\u000a",\n "b":"\\n", nope}' >$work/odd.json
clean "odd.json:2:12: expected a key in quotes" ./vram replay $work/odd.json
printf '[["x\\n\\n",\n{"y":"\\n"' >$work/odd.json
clean "odd.json:2:1: an object that does not end" ./vram replay $work/odd.json
printf '["x\\n\\n",\n\n{"y":1},' >$work/odd.json
clean "odd.json:3:9: the file ends in the middle of a value" ./vram replay $work/odd.json

# G. what takes longer than a second says so on a terminal, and the line is gone at the end
cat >$work/terminal.py <<'END'
# terminal.py SEEN COMMAND...: what the terminal gets as standard error of a command; SEEN: nothing,
# what the line says, or ^C: when the line is there the terminal interrupts, and the command prints
# what it has, which says so
import os, pty, re, signal, subprocess, sys, time
seen, command = sys.argv[1], sys.argv[2:]
os.environ["TERM"] = os.environ.get("DUMB", "xterm")
ours, theirs = pty.openpty()
p = subprocess.Popen(  # what runs in the background inherits that interrupts are ignored
    command, stdout=subprocess.PIPE, stderr=theirs, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
)
text = b""
if seen == "^C":
    while b" s" not in text:
        text += os.read(ours, 4096)
    p.send_signal(signal.SIGINT)
    since = time.time()
    out = p.communicate()[0].decode()
    print(out)
    if p.returncode == 1 and not out:
        out = os.read(ours, 4096).decode()
    assert p.returncode in (0, 1), p.returncode
    assert "stopped" in out, out
    sys.exit(f"ends {time.time() - since} s later" if time.time() - since > 30 else 0)
out = p.communicate()[0]
os.close(theirs)
try:
    while more := os.read(ours, 4096):
        text += more
except OSError:
    pass  # nobody has the other end any more
text = text.decode()
if not seen:
    sys.exit(f"seen: {text!r}" if text else 0)
lines = text.split("\r\033[K")
assert p.returncode in (0, 3) and out, p.returncode
assert lines[0] == "" and lines[-1] == "" and len(lines) > 2, lines
for k, line in enumerate(lines[1:-1], 1):
    assert re.fullmatch(seen.replace("SECONDS", str(k)), line), line
END
if have python3; then
  awk 'BEGIN {
    srand(1); print "id,lower,upper,size,alignment"
    for (i = 0; i < 120; i++) {
      from = int(rand() * 40)
      print i "," from "," from + 1 + int(rand() * 12) "," 1 + int(rand() * 5000) "," 2 ^ int(rand() * 12)
    } }' >$work/hard.csv
  awk 'BEGIN {
    srand(3); print "fw,bw,x,xbar,ftmp,btmp"
    for (i = 0; i < 300; i++) {
      x = 1 + int(rand() * 9000)
      printf "%.3f,%.3f,%d,%d,%d,%d\n", rand() * 3, rand() * 6, x, x + int(rand() * 40000), rand() * 3000, rand() * 3000
    } }' >$work/long.csv
  awk 'BEGIN {
    print "model long\ndim N=2\ninput x f32 [N,64]"
    for (i = 0; i < 20000; i++) print "linear l" i " " (i ? "l" i - 1 : "x") " out_features=64"
    print "mean loss l19999" }' >$work/long.vram
  tty="python3 $work/terminal.py"
  cell "a search on a terminal" $tty 'vram arena: searching, SECONDS of 3 s' ./vram arena $work/hard.csv --time-limit 3
  cell "a plan on a terminal" $tty 'vram plan: planning, SECONDS s' ./vram plan $work/long.csv --budget 800KB --slots 30000
  cell "a fit on a terminal" $tty 'vram fit: trying sizes, SECONDS s' ./vram fit $work/long.vram --budget 64GiB --train adamw
  cell "a search, interrupted" $tty ^C ./vram arena $work/hard.csv --time-limit 60
  { sed 5000q $work/long.vram; echo "mean loss l4996"; } >$work/shorter.vram
  cell "advice, interrupted" $tty ^C ./vram advise $work/shorter.vram --train adamw --budget 700MiB
  cell "what is quick says nothing" $tty '' ./vram arena $golden/rnd20_b131.131.csv
  cell "a terminal that takes no more than lines" env DUMB=dumb $tty '' ./vram arena $work/hard.csv --time-limit 2
  coloured() { # coloured LINES ENVIRONMENT...: of the output on a terminal, so many have colours
    wanted=$1
    shift
    env -u NO_COLOR -u TERM "$@" python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' ./vram estimate lenet5 \
      </dev/null >$work/out 2>$work/err
    found=$(grep -c "$(printf '\033')" $work/out)
    if grep -q '^peak\|mpeak' $work/out && [ $((found > 0)) = "$wanted" ]; then ok; else bad "colours with '$*': $found lines"; fi
  }
  coloured 1 TERM=xterm
  coloured 1 TERM=xterm NO_COLOR=
  coloured 0 TERM=xterm NO_COLOR=1
  coloured 0 TERM=dumb
  coloured 0 VRAM=without
  way() { # way TEXT WORDS...: what a verdict on a terminal ends with
    text=$1
    shift
    env TERM=dumb python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' ./vram "$@" </dev/null 2>&1 | tail -n 1 | tr -d '\r' >$work/out
    if grep -qxF "$text" $work/out; then ok; else bad "on a terminal: $* ends with $(cat $work/out)"; fi
  }
  way "(vram advise, with the same words: what to change; vram fit: the largest batch)" estimate lenet5 --train sgd --budget 1MiB
  way "(vram fit, with the same words: what would fit)" estimate lenet5 --budget 1KiB
  way "(vram fit --parallel auto --devices N: which way would fit)" estimate lenet5 --train sgd --parallel ddp=2 --rank all --budget 1MiB
  way "(vram fit, with the same words: the longest context, or how many layers)" estimate tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf --budget 3GiB
  ./vram arena $work/hard.csv --time-limit 2 >$work/out 2>$work/err
  same "no terminal, no line" /dev/null $work/err
else skip "no python3: no terminal"; fi
# and interrupted anywhere: what each search has found, and that it was stopped
ends() { # ends STATUS CALLS TEXT... -- WORDS: each of the texts; interrupted after so many calls of free()
  status=$1 calls=$2
  shift 2
  : >$work/texts
  while [ "$1" != -- ]; do
    echo "$1" >>$work/texts
    shift
  done
  shift
  STOP_AT=$calls LD_PRELOAD=$work/stop.so ./vram "$@" >$work/out 2>&1
  found=$?
  [ $found = $status ] || bad "vram $*: status $found, expected $status: $(head -3 $work/out)"
  while read -r text; do
    if grep -q -F -e "$text" $work/out; then ok; else bad "vram $*: no '$text': $(head -20 $work/out)"; fi
  done <$work/texts
}
if [ "$(uname)" = Linux ] && ${CC:-cc} -shared -fPIC tests/stop.c -o $work/stop.so -ldl; then
  of="--train adamw --batch 2"
  lm=tests/golden/generate/llama.json
  ends 0 0 "fits            batch 8 " "stopped: larger ones may fit" -- fit gpt2 --gpu h100-80 --train adamw
  ends 0 0 '"stopped":true' -- fit gpt2 --gpu h100-80 --train adamw --json
  ends 1 0 "stopped" -- fit gpt2 --gpu h100-80 --train adamw --parallel auto --devices 8 --global-batch 8
  ends 0 0 "planned " "stopped: a cheaper plan may be there" "it fits a device" -- plan gpt2 $of --torch --gpu h100-80
  ends 1 0 "stopped before a plan that fits was found" -- plan gpt2 $of --torch --budget 1GB
  ends 0 0 "  fits  " -- estimate gpt2 $of --checkpoint auto --gpu h100-80
  ends 1 0 "gpt2: stopped before the first plan" -- plan gpt2 $of
  ends 0 5 "the smallest" "stopped: larger budgets have no plan yet" -- plan gpt2 $of
  for spec in ddp=2 fsdp2=2 pp=2,microbatches=2; do
    ends 0 0 "planned " "stopped: a cheaper plan may be there" "every rank fits a device" -- plan gpt2 $of --gpu h100-80 --parallel $spec
  done
  ends 0 0 '"fits":true' '"stopped":true' -- plan gpt2 $of --gpu h100-80 --parallel fsdp2=2 --json
  ends 1 0 "stopped before a plan that fits was found" -- plan gpt2 $of --budget 1GB --parallel fsdp2=2
  ends 0 0 "fits           ctx 256 " "stopped: larger ones may fit" -- fit tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf --budget 8GB
  ends 1 0 "stopped: others were not tried" -- fit $lm --engine vllm --gpu h100-80
  ends 0 100 "fits            batch " "; stopped: larger ones may fit" -- fit $lm --generate prompt=64,new=8 --budget 24GiB
  ends 0 20 "fits            new " "; stopped: larger ones may fit" -- fit $lm --generate prompt=64,new=8 --budget 24GiB --solve new
  ends 1 0 "nothing fits of what was tried" -- fit $lm --generate prompt=64,new=8 --budget 24GiB
  ends 0 0 "fits           batch 1 " "stopped: larger ones may fit" -- fit tests/golden/diffusers/sdxl --dtype f16 --gpu rtx4090
  ends 0 0 "stopped: a lower one may be there" -- arena $golden/rnd20_b131.131.csv
  ends 0 0 "vram emit: stopped: a smaller arena may be there" -- emit mobilenet_v2 -o $work/net.h
  ends 3 10 "nothing fits" "stopped: larger ones and others may fit" -- fit gpt2 --gpu rtx3060 --train adamw --dim S=65536
  ends 0 0 "fits           ngl 0 " "stopped: larger ones may fit" -- fit tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf --budget 4GB --solve ngl
  for spec in pp=4,microbatches=4 pp=2,microbatches=2,schedule=Interleaved1F1B,stages=4; do
    for calls in 0 30; do
      ends 0 $calls "planned " "stopped: a cheaper plan may be there" "every rank fits a device" -- plan gpt2 --train adamw --batch 4 --budget 7GiB --parallel $spec
    done
  done
  export STOP_BY=15 # SIGTERM
  ends 0 0 "fits            batch 8 " "stopped: larger ones may fit" -- fit gpt2 --gpu h100-80 --train adamw
  unset STOP_BY
else skip "not Linux, or no shared library: nothing is interrupted"; fi


# ONNX models as text: shapes of every value that onnx's own inference knows, elements of weights
# (tests/onnx_check.py wrote them), at the sizes set and, by the text alone, at others
for model in tests/golden/onnx/*.onnx; do
  golden=${model%.onnx}.txt
  dims=$(sed -n 's/^dims //p' "$golden" | sed 's/[^ ]*=/--dim &/g')
  compare_onnx() { # compare_onnx WHAT FILE: the shapes of a CSV
    awk -v lines="$golden" '
      BEGIN {
        while ((getline line <lines) > 0) {
          split(line, w, " ")
          if (w[1] == "elements") { least = w[2]; most = w[2] + w[3] } else shape[w[1]] = w[2]
        }
      }
      NR > 1 {
        name = $0; sub(/,.*/, "", name)
        size = $0; sub(/^[^"]*"/, "", size); rest = size; sub(/".*/, "", size)
        sub(/^[^"]*",/, "", rest); split(rest, f, ","); params += f[2]
        if ($0 ~ /,batch_norm,/) { split(size, axis, /[][,]/); params += 2 * axis[3] }
        if (!(name in shape)) next
        compared++
        if (shape[name] != size) { print name " is " size ", onnx has " shape[name]; bad = 1 }
      }
      END {
        if (compared < 10) print "only " compared + 0 " shapes compared"
        if (params < least || params > most) print params " elements, onnx has " least
      }' "$2" >$work/found
    if [ -s $work/found ]; then
      bad "$1: $(head -3 $work/found)"
    else ok; fi
  }
  cell "$model: estimate" ./vram estimate "$model" $dims --csv --no-table >/dev/null
  ./vram estimate "$model" $dims --csv >$work/onnx.csv
  compare_onnx "$model" $work/onnx.csv
  other=$(echo "$dims" | sed 's/=[0-9]*/=32/g; s/batch=32/batch=1/; s/h=32/h=32/')
  cell "$model: convert" ./vram convert "$model" $other -o $work/onnx.vram
  ./vram estimate $work/onnx.vram $dims --csv >$work/onnx.csv
  compare_onnx "$model as text" $work/onnx.csv
done
# an If in an If, made with onnx.helper: 12 weights of the graph that a branch reads, 3 + 3 and two
# constants of 12 in the branches; 8 nodes
./vram convert tests/golden/onnx/inner/branches.onnx >$work/found
if grep -q '^custom y c shape=\[2,3\] dtype=f32 params=42 # ONNX If, inner nodes: 8$' $work/found; then ok; else
  bad "branches.onnx: $(cat $work/found)"
fi
# operators that give their own input, or each other's, came to no end
for f in tests/fuzz/corpus/read/quantize_itself tests/fuzz/corpus/read/quantize_ring; do
  cell "$f" timeout 20 ./vram convert $f
done
head -c 3000 tests/golden/onnx/unet.onnx >$work/short.onnx
wrong 2 "short.onnx: offset" ./vram convert $work/short.onnx
wrong 2 "the size 'h' of input 'input' is open, expected --dim h=N" ./vram convert tests/golden/onnx/unet.onnx
wrong 2 "no size is open under the name 'x'" ./vram convert tests/golden/onnx/lstm.onnx --dim x=2
wrong 2 "a file without a graph" ./vram convert tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf

# words of other programs, and a model without a command
wrong 2 "a model, and no command: 'gpt2' (expected vram estimate gpt2)" ./vram gpt2
wrong 2 "a file, and no command: 'tests/tool.h' (expected vram estimate tests/tool.h)" ./vram tests/tool.h
wrong 2 "unknown command 'nvidia-smi' (expected watch?" ./vram nvidia-smi
wrong 2 "unknown command '--list-gpus' (expected list gpus?" ./vram --list-gpus
wrong 2 "unknown command 'estimate-memory' (expected estimate?" ./vram estimate-memory gpt2
wrong 2 "unknown option '-l' (expected --interval S?" ./vram watch -l 1
wrong 2 "unknown option '--query-gpu' (expected --json?" ./vram watch --query-gpu=memory.used --format=csv
wrong 2 "unknown option '--mixed_precision' (expected --amp bf16?" ./vram estimate gpt2 --train adam --mixed_precision bf16
wrong 2 "'https://huggingface.co/gpt2' is an address" ./vram estimate https://huggingface.co/gpt2
wrong 2 "not a size '100K' (expected 100KB? 100KiB)" ./vram emit lenet5 --sram 100K
wrong 2 "an engine takes a folder or config.json of a model, not 'gpt2'" ./vram fit gpt2 --engine vllm --gpu rtx4090
wrong 2 "a text already: 'gpt2' (expected an ONNX or TFLite file" ./vram convert gpt2 -o $work/gpt2.onnx
wrong 2 "a text already: 'README.md' (expected an ONNX or TFLite file" ./vram convert README.md
wrong 2 "--budget 24 is 24 bytes" ./vram fit gpt2 --budget=24
./vram estimate gpt2 --batch=2 --dim=S=128 --train=adamw >$work/found
./vram estimate gpt2 --batch 2 --dim S=128 --train adamw >$work/out
same "--option=VALUE" $work/out $work/found

# what is no model names its kind and the way, whatever command it is given to: as PyTorch, Keras,
# TensorFlow, git and a browser write such files, their first bytes and names in their archives
mkdir -p $work/saved
: >$work/saved/saved_model.pb
printf 'PK\003\004\024\000\000\000\000\000archive/data.pkl\200\002' >$work/weights.pt
printf 'PK\003\004\024\000\000\000\000\000net/code/__torch__.py net/data.pkl' >$work/script.pt
printf 'PK\003\004\024\000\000\000\000\000net/archive_format net/data.pkl' >$work/exported.pt2
{ printf 'PK\003\004\024\000'; head -c 100000 /dev/zero; printf 'PK\001\002model.weights.h5'; } >$work/model.keras
printf '\200\002\212\nl\374\234' >$work/old.pth
printf '\211HDF\r\n\032\n' >$work/model.h5
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n' >$work/model.safetensors
printf '<!DOCTYPE html>\n<html>' >$work/page.gguf
printf 'import torch\n' >$work/net.py
printf '\037\213\010' >$work/model.vram.gz
printf '\223NUMPY\001\000' >$work/x.npy
printf 'PK\003\004\024\000\000\000\000\000weights.index' >$work/all.zip
{ printf 'model.vram'; head -c 247 /dev/zero; printf 'ustar\0000'; } >$work/all.tar
printf '\377\376m\000o\000' >$work/wide.vram
printf '\000\000\006\010' >$work/model.ckpt.index
printf '\000\001\002' >$work/model.ckpt.data-00000-of-00001
printf 'lmgg\001\000' >$work/ggml.bin
printf '\177ELF\002\001' >$work/libnet.so
printf 'a: 1\n' >$work/net.yaml
printf 'name: "net"\n' >$work/net.prototxt
printf '\211PNG\r\n\032\n\000' >$work/net.png
while IFS='|' read -r file says; do
  for command in estimate "plan --budget 8GiB" emit convert replay; do
    case "$file $command" in # a snapshot, as far as its first byte goes; what is packed is unpacked
    "old.pth replay") ;;
    "model.vram.gz replay") wrong 2 "$work/$file: byte 3 of the packed file: it ends in the middle" ./vram $command "$work/$file" ;;
    *) wrong 2 "$work/$file: $says" ./vram $command "$work/$file" ;;
    esac
  done
done <<EOF
weights.pt|weights that PyTorch saved, without the network that they are for (expected the module itself as text: vram-export FILE.py:FUNCTION -o MODEL.vram)
script.pt|a program of TorchScript (expected its module as text: vram-export
exported.pt2|a program of torch.export (expected its module as text: vram-export
model.keras|a model of Keras (expected TFLite
old.pth|a pickle of Python: weights, or a memory snapshot (expected the module as text: vram-export FILE.py:FUNCTION -o MODEL.vram; of a snapshot: vram replay $work/old.pth)
model.h5|a model of Keras (expected TFLite
saved|a graph of TensorFlow (expected TFLite
model.safetensors|a pointer of Git LFS, not the file itself (expected the file: git lfs pull)
page.gguf|a page of HTML, not a model
net.py|a program in Python (expected its module as text: vram-export $work/net.py:FUNCTION -o MODEL.vram)
model.vram.gz|a compressed file (expected what is in it: gunzip
x.npy|an array of NumPy, without a network
all.zip|an archive (expected what is in it: unzip $work/all.zip)
all.tar|an archive (expected what is in it: tar xf $work/all.tar)
wide.vram|a text in UTF-16 (expected UTF-8: iconv -f UTF-16 -t UTF-8 $work/wide.vram)
model.ckpt.index|a checkpoint of TensorFlow, without a network (expected TFLite
model.ckpt.data-00000-of-00001|a checkpoint of TensorFlow, without a network (expected TFLite
ggml.bin|a model of llama.cpp from before GGUF
libnet.so|a library of programs (expected a program that uses it: vram run -- PROGRAM)
net.yaml|settings in YAML, without a network
net.prototxt|a network of Caffe (expected an ONNX file of the model)
net.png|no GGUF, safetensors, ONNX or TFLite file, and no text
EOF
printf '{"model":{"type":"BPE"}}' >$work/tokenizer.json
printf '{"a":1}' >$work/other.json
printf '[1,' >$work/list.json
echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >$work/oom.log
for command in estimate "fit --budget 1GiB" advise convert; do
  wrong 2 "$work/oom.log: a log of a program that found no memory (expected why it did not: vram advise --message $work/oom.log)" ./vram $command $work/oom.log
done
: >$work/empty.vram
printf 'a,b\n1,2\n' >$work/some.csv
for command in "fit --budget 8GiB" plan arena emit; do
  wrong 2 "$work/tokenizer.json: a tokenizer, without a network (expected the config.json of its folder)" ./vram $command $work/tokenizer.json
  wrong 2 "$work/other.json: a file in JSON, but no configuration of a model" ./vram $command $work/other.json
  wrong 2 "$work/list.json: a file in JSON" ./vram $command $work/list.json
  wrong 2 "$work/empty.vram: an empty file (expected a model: vram estimate -h)" ./vram $command $work/empty.vram
  wrong 2 "$work: a folder without a model (expected model.safetensors" ./vram $command $work
done
wrong 2 "$work/some.csv: a table (expected vram arena, vram plan or vram replay of it)" ./vram estimate $work/some.csv
wrong 2 "$work: a folder (expected a trace: vram replay -h)" ./vram replay $work
wrong 2 "$work: a folder without a model" ./vram convert $work
# a text as editors of Windows write it
{ printf '\357\273\277'; sed 's/$/\r/' examples/models/lenet5.vram; } >$work/windows.vram
./vram estimate $work/windows.vram --train adamw >$work/found
./vram estimate examples/models/lenet5.vram --train adamw >$work/out
same "a mark of UTF-8, and carriage returns" $work/out $work/found
# a letter that was lost, doubled, exchanged or changed, of commands, options and values
while IFS='|' read -r means words; do
  wrong 2 "(expected $means?" ./vram $words
done <<EOF
fit|ft gpt2
list|lit models
gpus|list gps
diff|help dfif
--json|list models --jsn
--amp|estimate gpt2 --ap bf16
--csv|plan gpt2 --cv
--flop-per-byte|fit gpt2 --flop-pre-byte 3
--time-limit|arena gpt2 --tiem-limit 3
--on-failure|run --on-faliure -- true
--interval|watch --intervall 2
--n-cpu-moe|estimate $work/../x.gguf --n-cpu-moee 3
adamw_8bit|estimate gpt2 --train adamw8bit
h100-80|estimate gpt2 --gpu h10080x
torch-2.11|estimate gpt2 --rules torch2.11
prompt|fit gpt2 --budget 8GiB --solve propt
n-cpu-moe|fit gpt2 --budget 8GiB --solve n-cpu-mo
auto|fit gpt2 --train adamw --budget 8GiB --devices 8 --parallel auot
mlp|estimate mp
EOF
wrong 2 "the nearest is ds1" ./vram estimate gpt2 --train adamw --parallel d1s=8
wrong 2 "the nearest is microbatches" ./vram estimate gpt2 --train adamw --parallel pp=2,micorbatches=2
wrong 2 "'ctx' (expected batch, dim:NAME, lora or segments, or for that a GGUF file)" ./vram fit gpt2 --budget 8GiB --solve ctx
wrong 2 "estimate, fit, plan, arena or emit of it" ./vram replay tests/golden/onnx/lstm.onnx
printf '\066\000\000\000\000\000\000\000{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}\000\000\000\000' >$work/one.safetensors
wrong 2 "vram-export hf:CONFIG.json" ./vram emit $work/one.safetensors

# TFLite models as text: the shape of every value that LiteRT has (tests/tflite_check.py wrote them),
# images channels first; what has no word is counted
for model in tests/golden/tflite/*.tflite; do
  case $model in
  *mix*) words=5 ;; *unet*) words=5 ;; *mha*) words=2 ;; *lstm*) words=1 ;; *) words=0 ;;
  esac
  cell "$model: convert" ./vram convert "$model" -o $work/tflite.vram
  found=$(grep -c '^custom' $work/tflite.vram)
  if [ "$found" = $words ]; then ok; else bad "$model: $found custom lines, expected $words"; fi
  ./vram estimate $work/tflite.vram --csv >$work/tflite.csv
  awk -v lines="${model%.tflite}.txt" '
    function same(a, b, c, d, what,  x, n, i) { # axes a to d of size; what the file leaves open is any
      n = split(what, x, /[][,]/)
      return n == count && (n != 6 || ((x[2] == -1 || x[2] == axis[a]) && (x[3] == -1 || x[3] == axis[b]) &&
        (x[4] == -1 || x[4] == axis[c]) && (x[5] == -1 || x[5] == axis[d])))
    }
    BEGIN {
      FS = "\t"
      while ((getline <lines) > 0) {
        name = $5; sub(/;.*/, "", name); gsub(/[^A-Za-z0-9_.\/]/, "_", name)
        if (name in shape && shape[name] != $3) several[name] = 1
        shape[name] = $3
      }
    }
    NR > 1 {
      name = $0; sub(/,.*/, "", name)
      size = $0; sub(/^[^"]*"/, "", size); sub(/".*/, "", size)
      if (!(name in shape) || name in several) next
      compared++
      wanted = shape[name]
      if (size == wanted) next
      count = split(size, axis, /[][,]/)
      if (count == 6 && (same(2, 3, 4, 5, wanted) || same(2, 4, 5, 3, wanted))) next
      gsub(/-1/, "1", wanted)
      if (size != wanted) print name " is " size ", LiteRT has " shape[name]
    }
    END { if (compared < 5) print "only " compared + 0 " shapes compared" }' $work/tflite.csv >$work/found
  if [ -s $work/found ]; then bad "$model: $(head -3 $work/found)"; else ok; fi
done
head -c 9000 tests/golden/tflite/mix_f32.tflite >$work/short.tflite
wrong 2 "short.tflite: offset" ./vram convert $work/short.tflite
# what is no file of a model, or not all of one: a line and a status, and nobody waits
gguf=tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf
# llama.cpp's own names of options: the same answer
own() { # own OURS THEIRS
  ./vram estimate $gguf $1 --json >$work/wanted
  ./vram estimate $2 --json >$work/found
  same "$2" $work/wanted $work/found
}
own "--ctx 8192 --n-batch 512 --n-ubatch 128 --slots 4 --unified 1" "-m $gguf -c 8192 -b 512 -ub 128 -np 4 -kvu"
own "--ctx 8192 --slots 2 --unified 0" "--ctx-size 8192 --parallel 2 --no-kv-unified $gguf"
own "--n-batch 512 --n-ubatch 128" "--model $gguf --batch-size 512 --ubatch-size 128 -c 0"
own "--kv q8_0 --flash-attn on --no-kv-offload" "-ctk q8_0 -ctv q8_0 -fa on -nkvo $gguf"
own "--cache-k q8_0 --cache-v f16 --rules llama.cpp" "$gguf --cache-type-k q8_0 --cache-type-v f16"
own "--ngl 20 --devices 2 --tensor-split 3,1" "-ngl 20 --devices 2 -ts 3,1 $gguf"
own "--ngl 7 --devices 2 --split-mode none --main-gpu 1" "--n-gpu-layers 7 --devices 2 -sm none -mg 1 $gguf"
own "--override-tensor attn=CPU" "--gpu-layers 99 -ot attn=CPU $gguf"
own "--embedding --pooling cls" "--embeddings --pooling cls $gguf"
wrong 2 "rows of a matrix on several devices" ./vram estimate $gguf -sm row --devices 2
own "--device cpu --repack 0" "-nr --device cpu $gguf"
./vram estimate tests/golden/gguf/experts.gguf -cmoe --json >$work/found
./vram estimate tests/golden/gguf/experts.gguf -ncmoe 512 --json >$work/wanted
same "-cmoe" $work/wanted $work/found
wrong 2 "no value behind '--ctx'" ./vram estimate $gguf -c
wrong 2 "a second model" ./vram estimate $gguf -m $gguf
wrong 2 "unknown rules of a GGUF file: 'torch'" ./vram estimate $gguf --rules torch
wrong 2 "tests/golden/gguf: a folder without a model" ./vram estimate tests/golden/gguf
: >$work/empty.gguf
mkdir $work/folder.gguf
for command in "estimate --ctx 4096" "fit --ctx 4096 --solve ngl --budget 1GiB"; do
  wrong 2 "cannot open '$work/none.gguf': No such file or directory" ./vram $command $work/none.gguf
  wrong 2 "$work/empty.gguf: an empty file" ./vram $command $work/empty.gguf
  wrong 2 "$work/folder.gguf: a folder without a model" ./vram $command $work/folder.gguf
  wrong 2 "$work/pipe: a pipe or a device" timeout 10 ./vram $command $work/pipe
  [ -c /dev/zero ] && wrong 2 "/dev/zero: a pipe or a device" timeout 10 ./vram $command /dev/zero
done
head -c 20000 /dev/zero >$work/zeros.gguf
wrong 2 "$work/zeros.gguf: no GGUF, safetensors" ./vram estimate $work/zeros.gguf --ctx 4096
if [ "$(id -u)" != 0 ]; then
  cp $gguf $work/closed.gguf
  chmod 0 $work/closed.gguf
  wrong 2 "cannot open '$work/closed.gguf': Permission denied" ./vram estimate $work/closed.gguf --ctx 4096
else skip "root may read what is closed"; fi
# more than 4 GiB, a hole for the data: the same figures, and nothing about missing data
if cp $gguf $work/sparse.gguf && truncate -s 4912916288 $work/sparse.gguf 2>$work/log; then
  ./vram estimate $gguf --ctx 4096 | grep -v '^note: data\|gguf v3' >$work/wanted
  ./vram estimate $work/sparse.gguf --ctx 4096 | grep -v 'gguf v3' >$work/found
  same "a file of 4.6 GiB" $work/wanted $work/found
  # a safetensors header behind whose 8 GiB the file ends or does not
  printf '\110\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[2147483648],"data_offsets":[0,8589934592]}}' >$work/sparse.safetensors
  truncate -s 8589934672 $work/sparse.safetensors
  cell "safetensors of 8 GiB" ./vram estimate $work/sparse.safetensors >/dev/null
  truncate -s 8589934671 $work/sparse.safetensors
  wrong 2 "$work/sparse.safetensors: offset 80: data of other bytes than the header has" ./vram estimate $work/sparse.safetensors
  rm $work/sparse.*
else skip "no truncate: files of more than 4 GiB"; fi

# H. generations of config.json and of exported texts, step by step, against what transformers' generate() took
generations() { # generations GOLDEN json|vram
  awk '!/^#/ { print $1, $2, $3, $4, $5, $6, $7, $8 }' "$1" | uniq | while read -r name dtype batch prompt new cache padded room; do
    [ $cache = static ] && room_dim="--dim M=$room" || room_dim=
    [ $2 = json ] && more=",cache=$cache,padded=$padded" || more=
    # shellcheck disable=SC2086
    ./vram estimate tests/golden/generate/$name.$2 --generate prompt=$prompt,new=$new$more --batch $batch --dtype $dtype $room_dim --csv 2>&1 |
      awk -F, -v run="$name $dtype $batch $prompt $new $cache $padded $room" 'FNR > 1 { $1 = $1; print run, $0 }'
  done >$work/steps
  found=$(awk -f tests/golden/generate.awk "$1" $work/steps)
  if [ -z "$found" ]; then ok; else
    bad "generations of $1:"
    echo "$found" | head -20
  fi
}
generations tests/golden/generate_config.txt json
generations tests/golden/generate_text.txt vram
# the largest that fits: what estimate says of it, and of the next one
fit() { ./vram fit tests/golden/generate/bart.vram --generate prompt=200,new=4 --budget 40MB --context 0 "$@"; }
fit --json >$work/fit
value=$(sed 's/.*"value":\([0-9]*\),"tried.*/\1/' $work/fit)
size() { ./vram estimate tests/golden/generate/bart.vram --generate prompt=200,new=4 --budget 40MB --context 0 --batch $1 >/dev/null; echo $?; }
[ "$(size $value)$(size $((value + 1)))" = 03 ] && ok || bad "fit --generate: batch $value, but estimate says $(size $value) and $(size $((value + 1)))"
# 434,110,464 bytes were reserved in the second step of llama's prompt of 1024 tokens, 436,207,616 in the third
./vram fit tests/golden/generate/llama.json --generate prompt=1024,new=4,padded=1 --budget 435000000 --context 0 --solve new --json >$work/fit
grep -q '"value":2,' $work/fit && ok || bad "fit --generate --solve new: $(cat $work/fit), expected 2"
wrong 2 "no generation to solve for" ./vram fit gpt2 --solve new --budget 1GiB
wrong 2 "generate solves for batch, prompt or new" ./vram fit tests/golden/generate/bart.vram --generate prompt=4,new=2 --solve dim:N --budget 1GiB
wrong 2 "not a generation 'prompt=4,new=2,cache=slow'" ./vram estimate tests/golden/generate/llama.json --generate prompt=4,new=2,cache=slow
wrong 2 "cache=, padded= and attn= are for a config.json" ./vram estimate tests/golden/generate/llama_dynamic.vram --generate prompt=4,new=2,padded=1
wrong 2 "a text without cache lines cannot generate" ./vram estimate gpt2 --generate prompt=4,new=2
