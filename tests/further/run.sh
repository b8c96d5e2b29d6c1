#!/bin/sh
# The table of models beyond the truth set: what PyTorch did, and the estimate.
#   PYTHON=PYTHON_WITH_TORCH [NULLGPU=LAUNCHER] sh tests/further/run.sh [PATTERN] >tests/golden/further_models.md
# NULLGPU runs a script on a pretended GPU; without it the GPU is the real one. Measurements are kept in build/further (delete one to
# measure again), texts are exported anew.
cd "$(dirname "$0")" || exit 1
python=${PYTHON:-python3} run=${NULLGPU:-$python} kept=../../build/further
NULLGPU_PYTHON=$python
export NULLGPU_PYTHON
mkdir -p $kept
echo "Made by tests/further/run.sh from tests/further/models.txt. Bytes; ${DEVICE:-PyTorch 2.15 on a pretended H100}."
echo
python3 ../../tools/measure_torch.py --markdown-head
grep -v '^#' models.txt | grep -e "${1:-.}" | while read -r source options; do
  name=$kept/$(echo "$source" | tr -c 'A-Za-z0-9_\n' _)
  $python ../../tools/export_torch.py "$source" $options -o $name.vram 2>$name.notes </dev/null
  for amp in "" "--amp bf16"; do
    record=$name$(echo "$amp" | tr -d ' -').json
    [ -f $record ] || $run ../../tools/measure_torch.py "$source" $options --train adamw $amp --text $name.vram \
      --record $record >$name.log 2>&1 </dev/null
    python3 ../../tools/measure_torch.py --measured $record --text $name.vram --markdown 2>$name.err ||
      [ $? = 3 ] || echo "| $source | $amp | $(cat $name.notes $name.err | tail -n 1) |"
  done
done
cat notes.md
