#!/bin/sh
# sh examples/tour.sh --list
#  1  estimate  what a training step takes, and whether it fits
#  2  fit       the largest batch
#  3  plan      what to compute again, to train in less
#  4  advise    what to change so that it fits
#  5  parallel  many devices
#  6  gguf      a GGUF file, and its context
#  7  replay    a recorded run, played again and beside the prediction
#  8  run       who loses memory in a program that runs
#  9  watch     devices, and the processes on them
# 10  emit      firmware: flash, SRAM and offsets as C constants
# 11  gate      a gate for CI
#
# What each part of vram does, with its real output: five minutes to read, a few seconds to run.
# `sh examples/tour.sh` shows all parts, `--part N` one (its number or word). It works from any
# folder, with a terminal or without, and writes to a folder of its own that goes at the end.
# VRAM: the command, where it is neither built beside this nor installed.

parts() { sed -n 's/^# \([ 0-9][0-9]  .*\)/\1/p' "$tour"; }
fail() {
  echo "tour.sh: $1" >&2
  exit "${2:-2}"
}

# ---- what is asked for

case $0 in /*) tour=$0 ;; *) tour=$PWD/$0 ;; esac
wanted=
while [ $# -gt 0 ]; do
  case $1 in
  --list)
    parts
    exit ;;
  --part | --part=*)
    case $1 in
    --part=*) wanted=${1#*=} ;;
    *)
      [ $# -gt 1 ] || fail "--part: which one (expected a number or a word of --list)"
      shift
      wanted=$1 ;;
    esac
    parts | awk -v p="$wanted" '$1 "" == p || $2 == p { found = 1 } END { exit !found }' ||
      fail "no part '$wanted' (expected a number or a word of --list)" ;;
  -h | --help)
    echo "sh examples/tour.sh [--part N] [--list]     what each part of vram does, with its output"
    exit ;;
  *) fail "'$1' (expected --part N, --list or nothing)" ;;
  esac
  shift
done

# ---- where it runs: a folder of its own, with the tree in it

tree=$(CDPATH= cd -- "$(dirname "$tour")/.." && pwd)
if [ -n "$VRAM" ]; then
  found=$(command -v "$VRAM") || fail "VRAM=$VRAM is no command" 1
elif [ -x "$tree/vram" ]; then found=$tree/vram
else found=$(command -v vram) || fail "there is no ./vram yet: make builds it" 1; fi
case $found in /*) ;; *) found=$PWD/$found ;; esac
unset VRAM
work=$(mktemp -d "${TMPDIR:-/tmp}/vram-tour.XXXXXX") && work=$(CDPATH= cd -- "$work" && pwd) ||
  fail "no temporary folder (TMPDIR names one)" 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir "$work/bin" && cd "$work" || exit 1
for f in examples tests; do
  if [ -d "$tree/$f" ]; then ln -s "$tree/$f" "$f"; fi
done
ln -s "$found" bin/vram
PATH=$work/bin:$PATH
cc=${CC:-cc}

bold="" plain=""
if [ -t 1 ] && [ -z "$NO_COLOR" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi

# ---- how a part looks: a title, why, commands with what they print

part=0 shown=
part() { # part WORD: 1 if nobody wants it
  part=$((part + 1))
  case $wanted in "" | "$part" | "$1") ;; *) return 1 ;; esac
  [ -z "$shown" ] || echo
  shown=1
  printf '%s%s. %s%s\n\n' "$bold" "$part" "$(parts | sed -n "s/^ *$part  $1 *//p")" "$plain"
}
show() { # show COMMAND: the command, and what it prints
  printf '\n%s%s%s\n' "$bold" "$(printf "%s\n" "$1" | sed '1s/^/$ /; 2,$s/^/> /')" "$plain"
  (eval "$1") 2>&1 </dev/null
  status=$?
  [ $status = 0 ] || printf '(exit status %s)\n' $status
}
has_file() { # has_file FILE: else says so
  [ -e "$1" ] && return
  printf '\n(%s is not here: it lies in the source tree)\n' "$1"
  return 1
}
has_cc() { # has_cc FOR WHAT: else says so
  command -v "${cc%% *}" >/dev/null && return
  printf '\n(no %s here: %s needs a C compiler)\n' "$cc" "$1"
  return 1
}

if part estimate; then
  cat <<'END'
A step that does not fit is found out in minutes, on a machine that costs money.
This plays it as PyTorch would, allocation by allocation, without PyTorch or a
GPU: what lives at the peak, what the allocator reserves, and the verdict.
END
  show "vram estimate resnet50 --train adamw --batch 64 --gpu rtx4090"
fi

if part fit; then
  cat <<'END'
Nobody should have to find the largest batch by running out of memory. Where it
"fits tightly", the allocator has to give cached memory back on the way: that
works, and costs time.
END
  show "vram fit resnet50 --train adamw --gpu rtx4090"
fi

if part plan; then
  cat <<'END'
Most of the peak is activations, and what is not kept can be computed again in
backward. For a budget the cheapest choice of that is found, with its price in
operations, beside what checkpoint_sequential could do.
END
  show "vram plan resnet50 --batch 256 --train adamw --gpu rtx3060 --torch"
fi

if part advise; then
  cat <<'END'
When a step does not fit there are many things to change, and each costs
something else. They are played instead of tried, alone and together, the
cheapest first; of an out-of-memory message the cause is said.
END
  show "vram advise resnet50 --train sgd_momentum --batch 64 --gpu rtx2060 --top 2 | head -17"
  cat >oom.txt <<'END'
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 226.00 MiB. GPU 0
has a total capacity of 15.70 GiB of which 210.38 MiB is free. Including
non-PyTorch memory, this process has 15.48 GiB memory in use. Of the allocated
memory 14.81 GiB is allocated by PyTorch, and 336.73 MiB is reserved by PyTorch
but unallocated.
END
  show "cat oom.txt"
  show "vram advise --message oom.txt | head -6"
fi

if part parallel; then
  cat <<'END'
With many devices it is the fullest rank that decides, and ways to divide the
work differ in which one that is. All ranks are played, as DDP, FSDP2 or a
pipeline allocate; vram fit --parallel auto goes through all ways by itself.
END
  show 'for how in ddp=8 fsdp2=8,mp=bf16,reduce=f32 pp=8; do echo $how
  vram estimate gpt2_xl --train adamw --parallel $how --rank all --gpu rtx4090 |
  grep -e "number.*device" -e "^\* [a0-9]" -e budget; done'
fi

if part gguf; then
  cat <<'END'
A model takes more than its file: the cache of the context and the buffers that
compute come on top. The header alone tells what llama.cpp allocates, buffer by
buffer and device by device, to the byte.
END
  file=tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf
  has_file $file && show "vram estimate $file --ctx 16384 --kv q8_0 --gpu rtx4090 | sed 1,/^llama.cpp/d"
fi

if part replay; then
  cat <<'END'
A snapshot of PyTorch says what a run allocated, not what it should have. Replay
plays it through the caching allocator, with other settings if you like; diff
pairs it with the prediction and names the rest: 512 bytes, the target tensor
that line 26 of that program made and the predicted model has not.
END
  if has_file tests/traces/lenet5.pickle; then
    show "vram replay tests/traces/lenet5.pickle --alloc-conf expandable_segments:True | head -9"
    show "vram diff lenet5 tests/traces/lenet5.pickle --train adamw --top 3"
  fi
fi

if part run; then
  cat <<'END'
A server loses memory, and all that the device says is that it is full. The
program runs as it is, and the report names who holds what was never freed. (The
server of this tour needs no GPU: its CUDA is a library of two functions.)
END
  if has_cc "this server"; then
    cat >cudart.c <<'END'
#include <stdlib.h>
int cudaMalloc(void **p, size_t n) { return !(*p = malloc(n)); }
int cudaFree(void *p) { return free(p), 0; }
END
    cat >server.c <<'END'
#include <stddef.h>
int cudaMalloc(void **p, size_t n), cudaFree(void *p);
static void *weights;
static void answer(int request) {
  void *scratch;
  cudaMalloc(&scratch, 3 << 20);
  if (request % 4 == 3)
    return; /* forgets its scratch memory */
  cudaFree(scratch);
}
int main(void) {
  int i;
  cudaMalloc(&weights, 24 << 20);
  for (i = 0; i < 8; i++)
    answer(i);
  return cudaFree(weights);
}
END
    $cc -shared -fPIC -Wl,-soname,libcudart.so.13 -o libcudart.so.13 cudart.c
    show "sed -n 4,10p server.c"
    show "$cc -g -o server server.c ./libcudart.so.13 -Wl,-rpath,. && vram run -- ./server"
  fi
fi

if part watch; then
  cat <<'END'
Whether a device is full because of you or of somebody else decides what to do
next. This is one look at it; on a terminal it is live, with bars and histories.
END
  if vram watch --once >/dev/null 2>&1; then
    show "vram watch --once"
  elif has_file tests/watch/nvml.c && has_cc "a pretended driver"; then
    printf '\n(there is no NVIDIA driver here: that of the tests, with two pretended devices)\n'
    $cc -shared -fPIC -o nvml.so tests/watch/nvml.c
    export VRAM_NVML="$work/nvml.so" NVML_DEVICES=2 NVML_PID=$$
    show "vram watch --once"
  fi
fi

if part emit; then
  cat <<'END'
A microcontroller has no room to find out later. The network becomes C
constants, an offset in one arena for each buffer among them, and what does not
fit flash or SRAM does not compile.
END
  if has_file tests/embedded/kws.vram; then
    show "vram emit tests/embedded/kws.vram --format i8 --flash 32KiB --sram 16KiB -o net.h"
    show "sed -n 2,3p net.h; grep -e OFFSET net.h | head -3"
    show "vram emit tests/embedded/kws.vram --format i8 --flash 32KiB --sram 12KiB -o net.h"
  fi
fi

if part gate; then
  cat <<'END'
A change that makes a model too large should be found by CI, not by who runs it
next. An exit status and JSON are all that this takes: a page of shell, no GPU.
END
  show "sh examples/ci_gate.sh resnet50 2GiB"
fi

if [ -z "$wanted" ]; then
  printf '\n%sAnd now%s\n\n' "$bold" "$plain"
  cat <<'END'
vram estimate YOUR_MODEL: a GGUF, ONNX, TFLite or safetensors file, a
config.json, a text. From PyTorch: vram-export train.py:make -o model.vram.
In Python: pip install . and vram.estimate(module, inputs), docs/python.md.
In a browser: make web and build/web/vram.html, docs/web.md.
vram -h has all commands, vram COMMAND -h the options of one, docs/ the rest.
END
fi
