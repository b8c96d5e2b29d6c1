# tools/measure_torch.py: sourced by part.sh. What needs no PyTorch on a measurement that was kept; the rest on a CUDA device,
# or on a pretended one (NULLGPU names its launcher), with the Python that PYTHON names.
python=${PYTHON:-python3} nullgpu=${NULLGPU:-../shared/nullgpu/py}
out=build/part/measure
mkdir -p $out
says() { # says STATUS TEXT OPTIONS...: the exit status, and what is printed holds the text
  status=$1 text=$2
  shift 2
  python3 tools/measure_torch.py "$@" >$out/says 2>&1
  got=$?
  if [ "$got" = "$status" ] && grep -q -F -e "$text" $out/says; then ok; else
    bad "measure_torch.py $*: status $got, expected $status and $text"
    head -3 $out/says
  fi
  [ "$status" != 2 ] || [ "$(wc -l <$out/says)" = 1 ] || bad "measure_torch.py $*: more than one line"
}
changed() { # changed FILE PYTHON: the kept measurement, changed
  python3 -c "import json, sys
r = json.load(open('tests/measured/small.json'))
$2
json.dump(r, open('$1', 'w'))"
}

if ! have python3; then skip "no python3"; else
  kept=tests/measured/small.json
  says 2 "expected a source"
  says 2 "expected a source" torchvision:resnet18 --measured $kept
  says 2 "no/such/file: cannot be written" --measured $kept --record no/such/file
  says 2 "sgdm: not one of torch.optim" torchvision:resnet18 --train sgdm
  says 2 "exclude each other" torchvision:resnet18 --train sgd --infer
  says 2 "--dim S: expected NAME=N" torchvision:resnet18 --dim S
  says 2 "--dim S=0: expected NAME=N" torchvision:resnet18 --dim S=0
  says 2 "--set depth: expected NAME=VALUE" timm:vit_tiny_patch16_224 --set depth
  says 2 "no PyTorch code to run" examples/models/resnet50.vram
  says 2 "argument --batch" torchvision:resnet18 --batch none
  echo 'input x f32 [2,3]' >$out/other.vram
  says 2 "vram estimate: " --measured $kept --text $out/other.vram
  says 2 "nowhere.vram: " --measured $kept --text nowhere.vram
  says 2 "nowhere.json: " --measured nowhere.json
  says 2 "Makefile: " --measured Makefile
  echo '{}' >$out/empty.json
  says 2 "not a measurement that --record wrote" --measured $out/empty.json
  VRAM=./nowhere says 2 "build it with make" --measured $kept
  changed $out/text.json "r['text'] = 'linear y x'"
  says 2 "vram estimate: " --measured $out/text.json

  says 0 "backward: all 26 allocations equal in order" --measured $kept
  says 0 "| 25,472 | 131,332 | 33,737,664 | 33,741,824 | 33,741,824..34,790,400 | 51 equal |" --measured $kept --markdown
  says 0 '"backward": {"measured": 26, "estimated": 26, "equal": 26}' --measured $kept --json
  says 0 "51 equal" --measured $kept --markdown --events $out/events.csv
  python3 -c "import json; print(json.load(open('$kept'))['text'])" >$out/kept.vram
  options=$(python3 -c "import json; print(*json.load(open('$kept'))['options'])")
  if ./vram diff $out/kept.vram $out/events.csv $options >$out/says 2>&1; then ok; else
    bad "--events and vram diff"
    tail -5 $out/says
  fi
  says 2 "no/such/file: cannot be written" --measured $kept --events no/such/file
  changed $out/saved.json "r['saved_bytes'] += 4096"
  says 0 "-4,096 (-3.024 %)" --measured $out/saved.json
  changed $out/lower.json "r['phases']['forward']['allocated_bytes_peak'] -= 512"
  says 3 "OUTSIDE" --measured $out/lower.json
  changed $out/upper.json "r['phases']['optimizer']['allocated_bytes_peak'] = 34790401"
  says 3 "**broken**" --measured $out/upper.json --markdown
  changed $out/upper.json "r['phases']['optimizer']['allocated_bytes_peak'] = 34790401; r['kept_workspaces_bytes'] = 1 << 20"
  says 0 "inside 33,741,824..35,838,976" --measured $out/upper.json
  changed $out/device.json "r['device_bytes'] = 36 << 30"
  says 3 "device used" --measured $out/device.json
  changed $out/event.json "next(e for e in r['events'] if e[4] == 'NativeLayerNormBackward0 of norm')[3] = 4"
  says 0 "10 equal, then measured 4 bytes in NativeLayerNormBackward0 of norm, estimated 16,384 bytes in norm" \
    --measured $out/event.json
  changed $out/short.json "r['events'] = [e for e in r['events'] if e[0] != 'backward' or e[1] != 'alloc' or e[2] < 30]"
  says 0 "10 equal, then measured nothing more, estimated 16,384 bytes in norm" --measured $out/short.json
  changed $out/workspace.json "
i = next(i for i, e in enumerate(r['events']) if e[4] == 'conv' and e[3] == 8192)
for e in r['events']: e[2] += (e[2] > 2)
r['events'][i:i] = [['forward', 'alloc', 3, 1000, 'conv'], ['forward', 'free', 3, 1000, '']]"
  says 0 "forward: 20 allocations equal in order; 1 brief blocks more, the largest 1,000 bytes" \
    --measured $out/workspace.json
  changed $out/kept.json "r['events'] = [e for e in r['events'] if e[3] != 33554432]"
  says 0 "backward: 24 allocations equal in order; 2 workspaces fewer" --measured $out/kept.json
  changed $out/order.json "
o = [e for e in r['events'] if e[0] == 'optimizer' and e[1] == 'alloc']
sizes = sorted(e[3] for e in o)
for e, n in zip(o, sizes): e[3] = n"
  says 0 "optimizer: all 5 allocations equal in another order" --measured $out/order.json
fi

live() { # live NAME MODE SOURCE OPTIONS...: what is measured now, and what the truth set says
  name=$1 mode=$2
  shift 2
  if ! $run tools/measure_torch.py "$@" --record $out/$name.json >$out/$name.txt 2>&1; then
    bad "measure_torch.py $*: $(tail -n 1 $out/$name.txt)"
    return
  fi
  ok
  if grep -q -e '^forward requested.*%' -e '^backward requested.*%' -e '^saved.*%' -e ' equal, then ' $out/$name.txt; then
    bad "measure_torch.py $*: the estimate differs"
    grep -e '%' -e ' equal, then ' $out/$name.txt
  else ok; fi
  [ -f "$truth/$name.json" ] || return
  "$python" tests/measured_truth.py $out/$name.json "$truth/$name.json" "$mode" >$out/$name.truth
  grep -v ' passed, ' $out/$name.truth
  add $out/$name.truth
}

run=
if ! "$python" -c 'import torch' 2>/dev/null; then skip "$python has no torch (PYTHON names one that has)"
elif "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then run=$python
else
  NULLGPU_PYTHON=$(command -v "$python") && export NULLGPU_PYTHON
  if "$python" tools/measure_torch.py torchvision:resnet18 >$out/says 2>&1; then bad "measured without a device"
  elif grep -q 'no CUDA device: .* --record FILE .* --measured FILE' $out/says; then ok; else bad "no CUDA device: $(head -1 $out/says)"; fi
  if [ -x "$nullgpu" ]; then run=$nullgpu; else skip "no CUDA device, and no pretended one at $nullgpu"; fi
fi
if [ -n "$run" ]; then
  truth=${TRUTH:-../shared/data/truth}/models
  live small "" tests/measured/small.py:small --train adamw --amp bf16
  $run tools/measure_torch.py tests/measured/small.py:small --dim Q=3 >$out/says 2>&1
  if [ $? = 2 ] && grep -q -- '--dim Q: the model has no such dim (expected one of N)' $out/says; then ok; else
    bad "measure_torch.py --dim Q=3: $(tail -n 1 $out/says)"
  fi
  if "$python" -c 'import torchvision' 2>/dev/null; then
    live tv_resnet18 train_fp32_adamw torchvision:resnet18 --train adamw --batch 8
  else skip "$python has no torchvision"; fi
  if "$python" -c 'import transformers' 2>/dev/null; then
    live hf_llama_small train_amp_bf16_adamw hf:tests/measured/llama.json --train adamw --amp bf16 --batch 4 --seq 256
  else skip "$python has no transformers"; fi
fi
