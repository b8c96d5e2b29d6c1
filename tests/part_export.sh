# tools/export_torch.py: sourced by part.sh. PYTHON names a Python with torch, torchvision, timm
# and transformers; what needs none of them is tested without.
truth=${TRUTH:-../shared/data/truth}
python=${PYTHON:-python3}
export_test() { # export_test COMMAND...
  "$@" >build/part/export.out 2>&1
  grep -q ' passed, ' build/part/export.out || bad "$2 stopped: $(tail -n 1 build/part/export.out)"
  grep -v ' passed, ' build/part/export.out
  add build/part/export.out
}
if "$python" -c "import torch, torchvision, timm, transformers" >/dev/null 2>&1; then
  export_test "$python" tests/export_bad.py
  if [ -d "$truth" ]; then
    # LONG: all of them, minutes
    export_test "$python" tests/export.py ${LONG:+--all} "$truth"
  else skip "no measured data at $truth"; fi
elif have python3; then
  export_test python3 tests/export_bad.py --pure
  skip "no Python with torch, torchvision, timm and transformers (PYTHON=...)"
else skip "no python3"; fi
