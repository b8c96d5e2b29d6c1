# The Python package: installed by pip without a network, used, beside the command. Sourced by part.sh. PYTHON names a Python
# with pip and pytest.
python=${PYTHON:-python3}
work=$PWD/build/python_tests
rm -rf "$work"
mkdir -p "$work"
if ! have "$python"; then skip "no python3"
elif ! "$python" -m pip --version >/dev/null 2>&1; then skip "$python has no pip"
else
  cell "pip install ." env MAKE="$MAKE" "$python" -m pip install -q --no-index --no-deps --target "$work/site" .
  cell "the wheel and the sources" "$python" tools/python/backend.py "$work/dist"
  # what `make python` reads is all in the sdist; what is installed is what is in the tree
  cell "the sources" sh -c "cd '$work' && tar xzf dist/*.tar.gz && make -s -n -C vram-* python"
  for f in tools/python/vram/*.py; do
    same "$f" "$f" "$work/site/vram/$(basename "$f")"
  done
  for f in "$work"/site/vram/torch_tools/*.py; do
    same "$f" "$f" "tools/$(basename "$f")"
  done
  PYTHONPATH=$work/site "$work/site/bin/vram" estimate lenet5 >"$work/output" 2>&1
  ./vram estimate lenet5 >"$work/expected"
  same "the console script vram" "$work/expected" "$work/output"
  if "$python" -c 'import pytest' >/dev/null 2>&1; then
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work/site VRAM=$PWD/vram timeout 500 "$python" -m pytest -q -rs -p no:cacheprovider \
      -o faulthandler_timeout=200 --rootdir tests/python tests/python >"$work/log" 2>&1
    status=$?
    [ $status -le 1 ] || bad "pytest ended with $status: $(tail -n 1 "$work/log")"
    sed -n 's/^SKIPPED \[[0-9]*\] /not looked at: /p' "$work/log"
    grep '^FAILED\|^ERROR\|^E ' "$work/log" | head -20
    for kind in passed failed skipped; do
      n=$(sed -n "\$s/.*[^0-9]\{0,1\}\([0-9][0-9]*\) $kind.*/\1/p" "$work/log")
      eval "$kind=\$(($kind + ${n:-0}))"
    done
  else skip "$python has no pytest: tests/python"; fi
  if "$python" -c 'import mypy' >/dev/null 2>&1; then
    cell "mypy --strict" "$python" -m mypy --strict --config-file pyproject.toml --cache-dir "$work/mypy" "$work/site/vram/"*.py
  else echo "not looked at: types ($python has no mypy)"; fi
fi
