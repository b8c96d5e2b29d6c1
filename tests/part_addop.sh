# "Add an op" of CONTRIBUTING.md, done: its row is taken out and goes where it says, the library is built,
# and the streams are those that PyTorch made (tests/add_op, by tools/measure_op.py). The exporter writes the
# op without a word about it; this needs a PYTHON with torch. Sourced by part.sh.
work=$PWD/build/addop
rm -rf "$work"
mkdir -p "$work"
cp -r src tests tools Makefile vram.h vram_cuda.h examples "$work" 2>"$work/log" || bad "cannot copy: $(cat "$work/log")"
sed -n '/^## Add an op/,/^## /p' CONTRIBUTING.md | sed -n '/^```c/,/^```/p' | sed '/^```/d' >"$work/row"
grep -q '^VRAM__OP' "$work/row" && ok || bad "CONTRIBUTING.md has no row"
op=$(sed -n 's/^VRAM__OP[A-Z_]*(\([a-z0-9_]*\),.*/\1/p' "$work/row")
rows="/^VRAM__OP_POINTWISE($op,/,/);\$/"
sed -n "$rows p" src/ops/pointwise.c >"$work/there"
same "the row is the library's" "$work/row" "$work/there"
sed -i "$rows d" "$work/src/ops/pointwise.c"
sed -i "/, $op),\$/d" "$work"/src/convert/onnx_rows.c # ONNX's name of it

quick=clang # which makes what is not optimised in a third of the time
have $quick || quick=${CC:-cc}
streams() { # streams: how the tree in $work plays the op
  (cd "$work" && "$MAKE" -s --no-print-directory vram.h build/plain/test_step B=build/plain UCC="$quick" UFLAGS=-O0 &&
    build/plain/test_step tests/golden tests/add_op/*.csv)
}
refuse "without the row" "unknown op (found $op" streams
exports() { # exports OP: what a module that has the op is exported to has such a line, and is read
  (cd "$work" && "$MAKE" -s --no-print-directory vram && "$python" tools/export_torch.py net.py:net -o net.vram &&
    grep "^$1 " net.vram && ./vram estimate net.vram --train sgd)
}
cat >"$work/net.py" <<END
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.$op(x).sum()


def net():
    return Net(), {"x": torch.zeros(4, 8, requires_grad=True)}
END
python=${PYTHON:-python3}
torch=
if "$python" -c "import torch" >/dev/null 2>&1; then torch=1; else skip "no Python with torch (PYTHON=...): the exporter"; fi
[ -z "$torch" ] || cell "exported without the row" exports custom
cat "$work/row" >>"$work/src/ops/pointwise.c"
cell "with the row" streams
[ -z "$torch" ] || cell "exported with the row" exports "$op"
sed -i "/VRAM__OP_POINTWISE($op,/,\$s/shifted(powered(y))/y/" "$work/src/ops/pointwise.c"
refuse "with another gradient" "$op" streams
