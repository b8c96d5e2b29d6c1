#!/bin/sh
# The table of models that are loaded in bf16: what PyTorch did, and the estimate with --dtype bf16 of the text of the f32 module.
#   PYTHON=PYTHON_WITH_TORCH [NULLGPU=LAUNCHER] sh tests/further/dtypes.sh >tests/golden/dtype_models.md
# As run.sh does: measurements are kept in build/further, texts are exported anew.
cd "$(dirname "$0")" || exit 1
python=${PYTHON:-python3} run=${NULLGPU:-$python} kept=../../build/further
NULLGPU_PYTHON=$python
export NULLGPU_PYTHON
mkdir -p $kept
echo "Made by tests/further/dtypes.sh from tests/further/dtypes. Bytes; ${DEVICE:-PyTorch 2.15 on a pretended H100}."
echo
python3 ../../tools/measure_torch.py --markdown-head
for config in dtypes/*.json; do
  name=$kept/$(basename $config .json).bf16
  $python ../../tools/export_torch.py hf:$config -o $name.vram 2>$name.notes </dev/null
  [ -f $name.json ] || $run ../../tools/measure_torch.py hf:$config --train adamw --dtype bf16 --text $name.vram \
    --record $name.json >$name.log 2>&1 </dev/null
  python3 ../../tools/measure_torch.py --measured $name.json --text $name.vram --markdown 2>$name.err ||
    [ $? = 3 ] || echo "| hf:$config | | $(cat $name.notes $name.err | tail -n 1) |"
done
