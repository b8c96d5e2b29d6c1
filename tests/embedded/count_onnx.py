"""The four MLPerf Tiny networks counted by an independent way: built as ONNX graphs, shapes by
onnx.shape_inference, batch norm and ReLU fused by a pass over the graph, everything else counted from
what is left. Knows nothing of vram.h.

    count_onnx.py                   what tests/golden/embedded/count.txt has to be
    count_onnx.py --lifetimes NET   buffers of NET as CSV, for a planner

The networks are those of github.com/mlcommons/tiny, benchmark/training/*: Keras, channels last;
ONNX has channels first, which changes no number here. int8 as TensorFlow Lite stores it: weights 1
byte, biases 4 bytes, and for every scale (a channel of a convolution; one of a fully connected layer)
a multiplier and a shift of 4 bytes. Flash: every array starts at a multiple of 4.
"""

import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

ALIGN = 16  # of every buffer of the arena

# What others found. Keras' count_params() has the four numbers of every batch norm in it.
KERAS_PARAMS = {"ad": 269992, "kws": 24908, "ic": 78666, "vww": 221794}
# of the networks below, converted to int8 by TensorFlow 2.21: multiply-accumulates that mcufit 0.5.2
# (PyPI) reads from the files without those of pools, sums and softmax, and what TensorFlow Lite
# Micro's planner, of which it has a WebAssembly build, gave to activations
CONVERTED_MACS = {"ad": 264192, "kws": 2656768, "ic": 12501632, "vww": 7489664}
TFLM_BYTES = {"ad": 768, "kws": 16000, "ic": 49152, "vww": 73728}
# mcufit-bench (github.com/avionicharshit-byte/mcufit-bench): millions of multiply-accumulates, README;
# KiB of weights and biases that ST Edge AI Core 4.0.1 counts, results/st_analyze.jsonl (there vww has
# an input of one channel, 144 weights fewer)
PUBLISHED_MACS = {"ad": "0.26", "kws": "2.66", "ic": "12.5"}
PUBLISHED_KIB = {"ad": "264.53", "kws": "23.8", "ic": "76.9", "vww": "213.79"}


class Graph:
    def __init__(self, name, shape):
        self.name, self.nodes, self.inits = name, [], []
        self.input = helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)
        self.channels = {"input": shape[1]}

    def weights(self, name, *shape):
        self.inits.append(numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name))
        return name

    def node(self, op, name, inputs, channels, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        self.channels[name] = channels
        return name

    def conv(self, name, x, filters, kernel, stride=1, groups=1):
        w = self.weights(name + ".w", filters, self.channels[x] // groups, *kernel)
        b = self.weights(name + ".b", filters)
        return self.node(
            "Conv", name, [x, w, b], filters, group=groups, strides=[stride] * 2, auto_pad="SAME_UPPER"
        )

    def dense(self, name, x, units):
        w, b = self.weights(name + ".w", units, self.channels[x]), self.weights(name + ".b", units)
        return self.node("Gemm", name, [x, w, b], units, transB=1)

    def norm_relu(self, x, relu=True):
        c = self.channels[x]
        four = [self.weights(x + "." + k, c) for k in ("gamma", "beta", "mean", "variance")]
        y = self.node("BatchNormalization", x + ".norm", [x] + four, c)
        return self.relu(y) if relu else y

    def relu(self, x):
        return self.node("Relu", x + ".relu", [x], self.channels[x])

    def head(self, x, pool, classes):
        c = self.channels[x]
        y = self.node("AveragePool", "pool", [x], c, kernel_shape=pool, strides=pool)
        y = self.dense("fc", self.node("Flatten", "flat", [y], c), classes)
        return self.node("Softmax", "y", [y], classes, axis=1)

    def model(self, output):
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, self.channels[output]])
        graph = helper.make_graph(self.nodes, self.name, [self.input], [out], self.inits)
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        onnx.checker.check_model(m)
        return shape_inference.infer_shapes(m, strict_mode=True, data_prop=True)


def ad():
    g = Graph("ad", [1, 640])
    x = "input"
    for i, units in enumerate([128, 128, 128, 128, 8, 128, 128, 128, 128], 1):
        x = g.norm_relu(g.dense(f"fc{i}", x, units))
    return g.model(g.dense("fc10", x, 640))


def separable(g, i, x, filters, stride=1):
    x = g.norm_relu(g.conv(f"d{i}", x, g.channels[x], (3, 3), stride, groups=g.channels[x]))
    return g.norm_relu(g.conv(f"p{i}", x, filters, (1, 1)))


def kws():
    g = Graph("kws", [1, 1, 49, 10])
    x = g.norm_relu(g.conv("c0", "input", 64, (10, 4), 2))
    for i in range(4):
        x = separable(g, i + 1, x, 64)
    return g.model(g.head(x, [49 // 2, 10 // 2], 12))


def ic():
    g = Graph("ic", [1, 3, 32, 32])
    x = g.norm_relu(g.conv("c1", "input", 16, (3, 3)))
    k = 2
    for stack, filters in enumerate((16, 32, 64), 1):
        stride = 1 if stack == 1 else 2
        y = g.norm_relu(g.conv(f"c{k}", x, filters, (3, 3), stride))
        y = g.norm_relu(g.conv(f"c{k + 1}", y, filters, (3, 3)), relu=False)
        k += 2
        if stride > 1:
            x = g.conv(f"c{k}", x, filters, (1, 1), stride)
            k += 1
        x = g.relu(g.node("Add", f"a{stack}", [x, y], filters))
    return g.model(g.head(x, [8, 8], 10))


def vww():
    g = Graph("vww", [1, 3, 96, 96])
    x = g.norm_relu(g.conv("c0", "input", 8, (3, 3), 2))
    blocks = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)] + [(128, 1)] * 5 + [(256, 2), (256, 1)]
    for i, (filters, stride) in enumerate(blocks, 1):
        x = separable(g, i, x, filters, stride)
    return g.model(g.head(x, [3, 3], 2))


NETS = {"ad": ad, "kws": kws, "ic": ic, "vww": vww}


class Fused:
    """The nodes that store a tensor of their own, in order, and which value is whose."""

    def __init__(self, model):
        g = model.graph
        self.shape = {
            v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in list(g.value_info) + list(g.input) + list(g.output)
        }
        self.init = {i.name: list(i.dims) for i in g.initializer}
        readers = {}
        for n in g.node:
            for x in n.input:
                readers[x] = readers.get(x, 0) + 1
        self.root = {"input": "input"}  # the tensor that a value is stored in
        self.nodes, self.folded = [], set()
        made = {}
        for n in g.node:
            x, y = n.input[0], n.output[0]
            behind = made.get(self.root[x])
            if n.op_type == "BatchNormalization":
                assert behind.op_type in ("Conv", "Gemm") and readers[x] == 1
                self.folded.update(n.input[1:])
                self.root[y] = self.root[x]
            elif n.op_type == "Relu":
                assert behind.op_type in ("Conv", "Gemm", "Add") and readers[x] == 1
                self.root[y] = self.root[x]
            elif n.op_type == "Flatten":
                self.root[y] = self.root[x]
            else:
                self.root[y] = y
                made[y] = n
                self.nodes.append(n)
        self.output = self.root[g.output[0].name]

    def elements(self, name):
        return int(numpy.prod(self.shape[name], dtype=object))

    def inputs(self, n):
        return [self.root[x] for x in n.input if x not in self.init]

    def lifetimes(self):
        """(name, bytes, first, last): step 0 is the input's own; references count down."""
        uses = {}
        for n in self.nodes:
            for x in self.inputs(n):
                uses[x] = uses.get(x, 0) + 1
        rows, at = [["input", self.elements("input"), 0, 0]], {"input": 0}
        for step, n in enumerate(self.nodes):
            y = n.output[0]
            at[y] = len(rows)
            rows.append([y, self.elements(y), step, None])
            for x in self.inputs(n):
                uses[x] -= 1
                if not uses[x]:
                    rows[at[x]][3] = step
        rows[at[self.output]][3] = len(self.nodes) - 1
        assert all(r[3] is not None for r in rows)
        return [(name, up(size, ALIGN), first, last) for name, size, first, last in rows]


def up(n, align):
    return (n + align - 1) // align * align


def arrays(f, n):
    """Sizes of the constant arrays of a node, its scales last."""
    if n.op_type not in ("Conv", "Gemm"):
        return []
    w, b = f.init[n.input[1]], f.init[n.input[2]]
    scales = w[0] if n.op_type == "Conv" else 1
    return [int(numpy.prod(w)), 4 * b[0], 8 * scales]


def macs(f, n):
    if n.op_type not in ("Conv", "Gemm"):
        return 0
    w = f.init[n.input[1]]  # out, in / groups, kernel: each element of the output takes all but `out`
    return f.elements(n.output[0]) * int(numpy.prod(w[1:]))


def count(name):
    """One line a layer, and the line of the net."""
    f = Fused(NETS[name]())
    lines, total = [], dict(params=0, macs=0, weight=0, flash=0)
    for n in f.nodes:
        y, of = n.output[0], arrays(f, n)
        shape = f.shape[y] + [1, 1] if len(f.shape[y]) == 2 else f.shape[y]
        row = dict(
            params=sum(int(numpy.prod(f.init[x])) for x in n.input if x in f.init),
            macs=macs(f, n),
            weight=sum(of),
            flash=sum(up(a, 4) for a in of),
        )
        for k in row:
            total[k] += row[k]
        lines.append(
            f"layer {name} {y} {shape[2]} {shape[3]} {shape[1]} {f.elements(y)} {row['params']} {row['macs']}"
            f" {row['weight']} {row['flash']}"
        )
    life = f.lifetimes()
    peak = max(sum(b for _, b, first, last in life if first <= t <= last) for t in range(len(f.nodes)))
    keras = sum(int(numpy.prod(d)) for d in f.init.values())
    check(name, keras, total["macs"], sum(sum(arrays(f, n)[:2]) for n in f.nodes))
    lines.append(
        f"net {name} {keras} {total['params']} {total['macs']} {total['weight']} {total['flash']} {peak}"
        f" {TFLM_BYTES[name]}"
    )
    return lines


def check(name, keras, macs, stored):
    """Against what others found."""
    assert keras == KERAS_PARAMS[name], (name, keras)
    assert macs == CONVERTED_MACS[name], (name, macs)
    kib = (stored - 144 * (name == "vww")) / 1024
    for figure, texts in ((macs / 1e6, PUBLISHED_MACS), (kib, PUBLISHED_KIB)):
        digits = len(texts.get(name, "0.").split(".")[1])
        assert name not in texts or f"{figure:.{digits}f}" == texts[name], (name, figure)


HEAD = """\
# MLPerf Tiny's networks, int8: written by tests/embedded/count_onnx.py with the onnx package.
# layer NET NAME height width channels out_bytes params macs weight_bytes flash_bytes
# net NET params_of_keras params macs weight_bytes flash_bytes peak_bytes tflm_bytes
# tflm_bytes: measured, what TensorFlow Lite Micro's planner gives to activations"""


def main(args):
    if args[:1] == ["--lifetimes"]:
        print("id,lower,upper,size")
        for name, size, first, last in Fused(NETS[args[1]]()).lifetimes():
            print(f"{name},{first},{last + 1},{size}")
        return
    print(HEAD)
    for name in NETS:
        print("\n".join(count(name)))


if __name__ == "__main__":
    main(sys.argv[1:])
