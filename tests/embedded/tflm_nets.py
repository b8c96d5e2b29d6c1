#!/usr/bin/env python3
"""What TensorFlow Lite Micro's own interpreter needs for a .tflite model, and random models for it.

    tflm_nets.py --random COUNT SEED FOLDER     net0.tflite, ...: COUNT random models
    tflm_nets.py --wide COUNT SEED FOLDER       the same with what CMSIS-NN tells apart: more channels, rows,
                                                dilation, padding, larger windows, batches
    tflm_nets.py --offline COUNT SEED FOLDER    the same with offsets in the file for some of the tensors
    tflm_nets.py MODEL.tflite ...               a line for each: bytes of the head and of the tail that
                                                the interpreter has used, and of the smallest arena that
                                                it takes, a multiple of 16
    tflm_nets.py --check VRAM MODEL.tflite ...  compares with `vram estimate --embedded --csv`

Needs tflite-micro of PyPI (0.dev20261023182759), which brings flatbuffers. Its interpreter is the
target `python`: 64 bits, an allocator that records, with compression.
"""

import csv
import os
import random
import re
import subprocess
import sys

import flatbuffers
import numpy as np
from tflite_micro.python.tflite_micro import runtime
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as s

OP, TYPE = s.BuiltinOperator, s.TensorType
BYTES = {
    TYPE.FLOAT32: 4, TYPE.INT8: 1, TYPE.INT16: 2, TYPE.INT32: 4, TYPE.INT64: 8, TYPE.BOOL: 1,
    TYPE.INT4: 0.5,
}


class Model:
    def __init__(self, r, mode, kind):
        self.r, self.mode, self.wide, self.offline = r, mode, kind == "--wide", kind == "--offline"
        self.tensors, self.buffers, self.ops, self.codes = [], [s.BufferT()], [], []
        self.kind = {"f32": TYPE.FLOAT32, "i16": TYPE.INT16}.get(mode, TYPE.INT8)

    def tensor(self, shape, kind=None, data=None, scale=None, scales=1, axis=0, variable=False, zero=0):
        t = s.TensorT()
        t.shape, t.type = list(shape), self.kind if kind is None else kind
        t.name = f"t{len(self.tensors)}"
        t.isVariable = variable
        t.buffer = 0
        if data is not None:
            b = s.BufferT()
            b.data = np.frombuffer(bytes(data), np.uint8)
            t.buffer = len(self.buffers)
            self.buffers.append(b)
        if scale is None and t.type in (TYPE.INT8, TYPE.INT16, TYPE.INT4):
            scale = 2.0**-5
        if scale is not None:
            q = s.QuantizationParametersT()
            q.scale, q.zeroPoint, q.quantizedDimension = [scale] * scales, [zero] * scales, axis
            t.quantization = q
        self.tensors.append(t)
        return len(self.tensors) - 1

    def const(self, shape, kind, **more):
        n = 1
        for d in shape:
            n *= d
        return self.tensor(shape, kind, b"\0" * int(-(-n * BYTES[kind] // 1)), **more)

    def ints(self, *v):
        return self.tensor([len(v)], TYPE.INT32, np.array(v, np.int32).tobytes())

    def op(self, code, inputs, outputs, kind=None, options=None):
        if code not in self.codes:
            self.codes.append(code)
        o = s.OperatorT()
        o.opcodeIndex = self.codes.index(code)
        o.inputs, o.outputs = list(inputs), list(outputs)
        if kind is not None:
            o.builtinOptionsType, o.builtinOptions = kind, options
        self.ops.append(o)

    def shape(self, t):
        return list(self.tensors[t].shape)

    def weights(self, shape, axis, n):
        """A filter and its bias, as the converter quantises them."""
        if self.mode == "f32":
            return self.const(shape, TYPE.FLOAT32), self.const([n], TYPE.FLOAT32)
        scales = n if axis is not None and self.r.random() < 0.7 else 1
        kind = TYPE.INT4 if self.mode == "i4" else TYPE.INT8
        w = self.const(shape, kind, scale=2.0**-6, scales=scales, axis=axis or 0)
        bias = TYPE.INT64 if self.mode == "i16" else TYPE.INT32
        return w, self.const([n], bias, scale=2.0**-11, scales=scales)

    def offsets(self):
        """Metadata that says where half of the tensors are: over one another, too."""
        r, said = self.r, [1, 0, len(self.tensors)]
        most = r.choice((4, 40, 200))
        said += [r.choice((-1, 16 * r.randint(0, most))) for _ in self.tensors]
        b, entry = s.BufferT(), s.MetadataT()
        b.data = np.frombuffer(np.array(said, np.int32).tobytes(), np.uint8)
        entry.name, entry.buffer = "OfflineMemoryAllocation", len(self.buffers)
        self.buffers.append(b)
        return [entry]

    def bytes(self, inputs, outputs):
        g = s.SubGraphT()
        g.tensors, g.operators, g.inputs, g.outputs, g.name = self.tensors, self.ops, inputs, outputs, "main"
        m = s.ModelT()
        m.version, m.subgraphs, m.buffers, m.description = 3, [g], self.buffers, "random"
        if self.offline:
            m.metadata = self.offsets()
        m.operatorCodes = []
        for code in self.codes:
            c = s.OperatorCodeT()
            c.builtinCode, c.deprecatedBuiltinCode, c.version = code, min(code, 127), 1
            m.operatorCodes.append(c)
        b = flatbuffers.Builder(1024)
        b.Finish(m.Pack(b), b"TFL3")
        return bytes(b.Output())


def options(name, **fields):
    o = getattr(s, name + "T")()
    for k, v in fields.items():
        setattr(o, k, v)
    return getattr(s.BuiltinOptions, name), o


def window(r, n, wide=False):
    k = r.randint(1, min(7 if wide else 3, n))
    return k, r.randint(1, 3 if wide else 2)


def slide(m, *axes):
    """Sizes of a convolution's output, and its padding and dilation."""
    valid = m.wide and m.r.random() < 0.4
    d = 2 if m.wide and m.r.random() < 0.2 and all(n > 2 * k - 2 for n, k, _ in axes) else 1
    sizes = [-(-(n - (k - 1) * d if valid else n) // stride) for n, k, stride in axes]
    return (*sizes, dict(padding=int(valid), dilationHFactor=d, dilationWFactor=d))


def step(m, x):
    """One or a few operators behind x; the value that goes on."""
    r, shape = m.r, m.shape(x)
    f32, i8 = m.mode == "f32", m.mode in ("i8", "i4")
    pick = r.choice(
        "conv conv conv depthwise depthwise linear pool relu add add mul sub concat pad mean".split()
        + "reshape softmax logistic tanh transpose slice split deconv resize leaky prelu swish".split()
        + "maximum squeeze matmul elu reduce pack gather unpack abs".split()
    )
    c = shape[-1]
    if pick in ("conv", "depthwise", "pool", "deconv", "resize", "pad") and len(shape) != 4:
        pick = "linear"
    if pick == "conv":
        _, h, w, c = shape
        (kh, sh), (kw, sw), n = window(r, h, m.wide), window(r, w, m.wide), r.randint(1, 40 if m.wide else 12)
        f, b = m.weights([n, kh, kw, c], 0, n)
        oh, ow, more = slide(m, (h, kh, sh), (w, kw, sw))
        y = m.tensor([shape[0], oh, ow, n])
        m.op(OP.CONV_2D, [x, f, b], [y], *options(
            "Conv2DOptions", strideH=sh, strideW=sw, fusedActivationFunction=r.choice((0, 1, 3)), **more))
    elif pick == "depthwise":
        _, h, w, c = shape
        (kh, sh), n = window(r, min(h, w), m.wide), c * r.randint(1, 2)
        f, b = m.weights([1, kh, kh, n], 3, n)
        oh, ow, more = slide(m, (h, kh, sh), (w, kh, sh))
        y = m.tensor([shape[0], oh, ow, n])
        m.op(OP.DEPTHWISE_CONV_2D, [x, f, b], [y], *options(
            "DepthwiseConv2DOptions", strideH=sh, strideW=sh, depthMultiplier=n // c,
            fusedActivationFunction=0, **more))
    elif pick == "linear":
        n = r.randint(1, 20)
        f, b = m.weights([n, c], 0 if i8 and m.mode != "i4" else None, n)
        y = m.tensor(shape[:-1] + [n])
        m.op(OP.FULLY_CONNECTED, [x, f, r.choice((b, b, -1))], [y], *options(
            "FullyConnectedOptions", keepNumDims=True, fusedActivationFunction=0))
    elif pick == "pool":
        _, h, w, c = shape
        k, st = window(r, min(h, w))
        y = m.tensor([shape[0], -(-h // st), -(-w // st), c])
        m.op(r.choice((OP.AVERAGE_POOL_2D, OP.MAX_POOL_2D)), [x], [y], *options(
            "Pool2DOptions", padding=0, strideH=st, strideW=st, filterHeight=k, filterWidth=k))
    elif pick == "relu":
        y = m.tensor(shape)
        m.op(r.choice((OP.RELU, OP.RELU6)) if m.mode != "i16" else OP.RELU, [x], [y])
    elif pick in ("add", "mul", "sub", "maximum"):
        other = r.choice([i for i in m.done if m.shape(i) == shape] or [x])
        y = m.tensor(shape)
        if pick == "maximum":
            m.op(OP.MAXIMUM, [x, other], [y], *options("MaximumMinimumOptions"))
        else:
            m.op(getattr(OP, pick.upper()), [x, other], [y], *options(
                pick.capitalize() + "Options", fusedActivationFunction=0))
    elif pick == "concat":
        others = [i for i in m.done if m.shape(i)[:-1] == shape[:-1]] + [x]
        xs = [x] + [r.choice(others) for _ in range(r.randint(1, 2))]
        y = m.tensor(shape[:-1] + [sum(m.shape(i)[-1] for i in xs)])
        m.op(OP.CONCATENATION, xs, [y], *options("ConcatenationOptions", axis=len(shape) - 1))
    elif pick == "pad":
        p = m.tensor([4, 2], TYPE.INT32, np.array([[0, 0], [1, 0], [0, 1], [0, 0]], np.int32).tobytes())
        y = m.tensor([shape[0], shape[1] + 1, shape[2] + 1, c])
        m.op(OP.PAD, [x, p], [y], *options("PadOptions"))
    elif pick in ("mean", "reduce"):
        if len(shape) != 4 or (pick == "reduce" and m.mode == "i16"):
            return x
        y = m.tensor([shape[0], 1, 1, c])
        code = OP.REDUCE_MAX if pick == "reduce" else r.choice((OP.MEAN, OP.SUM)) if not m.mode == "i16" else OP.MEAN
        m.op(code, [x, m.ints(1, 2)], [y], *options("ReducerOptions", keepDims=True))
    elif pick == "reshape":
        n = 1
        for d in shape:
            n *= d
        new = r.choice(([1, n], shape, [1, 1, n // c, c]))
        y = m.tensor(new)
        m.op(OP.RESHAPE, [x, m.ints(*new)], [y], *options("ReshapeOptions", newShape=new))
    elif pick == "softmax":
        y = m.tensor(shape, scale=None if f32 else 2.0**-8 if i8 else 2.0**-15, zero=-128 if i8 else 0)
        m.op(OP.SOFTMAX, [x], [y], *options("SoftmaxOptions", beta=1.0))
    elif pick == "logistic":
        y = m.tensor(shape, scale=None if f32 else 2.0**-8 if i8 else 2.0**-15, zero=-128 if i8 else 0)
        m.op(OP.LOGISTIC, [x], [y])
    elif pick == "tanh":
        y = m.tensor(shape, scale=None if f32 else 2.0**-7 if i8 else 2.0**-15)
        m.op(OP.TANH, [x], [y])
    elif pick == "transpose":
        perm = list(range(len(shape)))
        r.shuffle(perm)
        y = m.tensor([shape[i] for i in perm])
        m.op(OP.TRANSPOSE, [x, m.ints(*perm)], [y], *options("TransposeOptions"))
    elif pick == "slice":
        n = r.randint(1, c)
        k = len(shape)
        y = m.tensor(shape[:-1] + [n])
        m.op(OP.STRIDED_SLICE, [x, m.ints(*[0] * k), m.ints(*shape[:-1], n), m.ints(*[1] * k)], [y],
             *options("StridedSliceOptions"))
    elif pick == "split":
        if c % 2:
            return x
        ys = [m.tensor(shape[:-1] + [c // 2]) for _ in range(2)]
        m.op(OP.SPLIT, [m.tensor([], TYPE.INT32, np.array([len(shape) - 1], np.int32).tobytes()), x], ys,
             *options("SplitOptions", numSplits=2))
        m.done.append(ys[0])
        y = ys[1]
    elif pick == "deconv":
        _, h, w, c = shape
        n = r.randint(1, 6)
        if m.mode == "i4" or h * w > 100:
            return x
        kh, kw, st = (r.randint(1, 4), r.randint(1, 4), r.randint(1, 3)) if m.wide else (2, 2, 2)
        f, b = m.weights([n, kh, kw, c], 0, n)
        y = m.tensor([shape[0], h * st, w * st, n])
        m.op(OP.TRANSPOSE_CONV, [m.ints(shape[0], h * st, w * st, n), f, x, b], [y], *options(
            "TransposeConvOptions", padding=0, strideH=st, strideW=st))
    elif pick == "resize":
        if shape[1] * shape[2] > 100:
            return x
        y = m.tensor([shape[0], shape[1] * 2, shape[2] * 2, c])
        m.op(OP.RESIZE_NEAREST_NEIGHBOR, [x, m.ints(shape[1] * 2, shape[2] * 2)], [y],
             *options("ResizeNearestNeighborOptions"))
    elif pick == "leaky":
        y = m.tensor(shape)
        m.op(OP.LEAKY_RELU, [x], [y], *options("LeakyReluOptions", alpha=0.1))
    elif pick == "prelu":
        if m.mode == "i16":
            return x
        y = m.tensor(shape)
        m.op(OP.PRELU, [x, m.const([1] * (len(shape) - 1) + [c], m.kind)], [y])
    elif pick == "swish":
        if m.mode == "i16":
            return x
        y = m.tensor(shape)
        m.op(OP.HARD_SWISH, [x], [y], *options("HardSwishOptions"))
    elif pick == "elu":
        if m.mode == "i16":
            return x
        y = m.tensor(shape)
        m.op(OP.ELU, [x], [y])
    elif pick == "abs":
        y = m.tensor(shape)
        m.op(OP.ABS, [x], [y], *options("AbsOptions"))
    elif pick == "squeeze":
        if len(shape) < 3 or shape[1] != 1:
            return x
        y = m.tensor(shape[:1] + shape[2:])
        m.op(OP.SQUEEZE, [x], [y], *options("SqueezeOptions", squeezeDims=[1]))
    elif pick == "matmul":
        if len(shape) < 2 or shape[-1] * shape[-2] > 300:
            return x
        adj_x = r.random() < 0.3
        rows = shape[-2] if adj_x else shape[-1]
        n = r.randint(1, 5)
        adj_y = r.random() < 0.5
        w = m.const(shape[:-2] + ([n, rows] if adj_y else [rows, n]), m.kind)
        y = m.tensor(shape[:-2] + [shape[-1] if adj_x else shape[-2], n])
        m.op(OP.BATCH_MATMUL, [x, w], [y], *options("BatchMatMulOptions", adjX=adj_x, adjY=adj_y))
    elif pick == "pack":
        if len(shape) > 3:
            return x
        y = m.tensor(shape + [2])
        if m.mode == "i16":
            return x
        m.op(OP.PACK, [x, x], [y], *options("PackOptions", valuesCount=2, axis=len(shape)))
    elif pick == "unpack":
        if len(shape) < 3 or c > 3 or m.mode == "i16":
            return x
        ys = [m.tensor(shape[:-1]) for _ in range(c)]
        m.op(OP.UNPACK, [x], ys, *options("UnpackOptions", num=c, axis=len(shape) - 1))
        y = ys[0]
    elif pick == "gather":
        if m.mode == "i16":
            return x
        k = r.randint(1, 4)
        y = m.tensor(shape[:-1] + [k])
        m.op(OP.GATHER, [x, m.ints(*[0] * k)], [y], *options("GatherOptions", axis=len(shape) - 1))
    return y


def recurrent(m, x):
    """SVDF or an LSTM over x, of 2 or 3 axes."""
    r, shape = m.r, m.shape(x)
    if len(shape) == 2 and m.mode in ("f32", "i8"):
        n, rank, time = r.randint(1, 6), r.randint(1, 2), r.randint(1, 5)
        f = n * rank
        i8 = m.mode == "i8"
        if i8:
            feature = m.const([f, shape[1]], TYPE.INT8, scale=2.0**-6)
            over = m.const([f, time], TYPE.INT16, scale=2.0**-10)
            bias = m.const([n], TYPE.INT32, scale=2.0**-16)
            state = m.tensor([shape[0], f * time], TYPE.INT16, scale=2.0**-6, variable=True)
        else:
            feature, over = m.const([f, shape[1]], TYPE.FLOAT32), m.const([f, time], TYPE.FLOAT32)
            bias, state = m.const([n], TYPE.FLOAT32), m.tensor([shape[0], f * time], variable=True)
        y = m.tensor([shape[0], n])
        m.op(OP.SVDF, [x, feature, over, bias, state], [y], *options(
            "SVDFOptions", rank=rank, fusedActivationFunction=0))
        return y
    if len(shape) == 3 and m.mode in ("f32", "i8"):
        n, c = r.randint(1, 6), shape[2]
        i8 = m.mode == "i8"
        kind, bias = (TYPE.INT8, TYPE.INT32) if i8 else (TYPE.FLOAT32, TYPE.FLOAT32)
        w = lambda a: m.const([n, a], kind, scale=2.0**-6 if i8 else None)
        b = lambda: m.const([n], bias, scale=2.0**-11 if i8 else None)
        hidden = m.tensor([shape[0], n], TYPE.INT8 if i8 else TYPE.FLOAT32, scale=2.0**-7 if i8 else None, variable=True)
        cell = m.tensor([shape[0], n], TYPE.INT16 if i8 else TYPE.FLOAT32, scale=2.0**-11 if i8 else None, variable=True)
        ins = [x] + [w(c) for _ in range(4)] + [w(n) for _ in range(4)] + [-1] * 3 + [b() for _ in range(4)]
        ins += [-1, -1, hidden, cell] + [-1] * 4
        y = m.tensor([shape[0], shape[1], n], scale=2.0**-7 if i8 else None)
        m.op(OP.UNIDIRECTIONAL_SEQUENCE_LSTM, ins, [y], *options(
            "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4, cellClip=0.0, projClip=0.0, timeMajor=False))
        return y
    return x


def network(r, kind):
    m = Model(r, r.choice(("f32", "i8", "i8", "i8", "i16", "i4")), kind)
    first = r.choice(([1, r.randint(3, 12), r.randint(3, 12), r.randint(1, 6)],) * 3
                     + ([1, r.randint(1, 24)], [1, r.randint(2, 6), r.randint(1, 8)]))
    if m.wide:
        first = r.choice((first, [r.choice((1, 1, 2)), r.choice((1, 1, 5, 12)), r.randint(1, 30), r.randint(1, 33)]))
    ends = [m.tensor(first)]
    x = ends[0]
    if r.random() < 0.2:
        ends.append(m.tensor(first))
    m.done = list(ends)
    if m.kind == TYPE.INT8 and r.random() < 0.2:
        ends[0] = m.tensor(first, TYPE.FLOAT32)
        m.op(OP.QUANTIZE, [ends[0]], [x])
    for _ in range(r.randint(1, 14)):
        x = recurrent(m, x) if r.random() < 0.15 else step(m, x)
        m.done.append(x)
    outputs = [x]
    if r.random() < 0.3:
        outputs.append(r.choice(m.done))
    if m.kind == TYPE.INT8 and r.random() < 0.2:
        y = m.tensor(m.shape(x), TYPE.FLOAT32)
        m.op(OP.DEQUANTIZE, [x], [y])
        outputs[0] = y
    return m.bytes(ends, outputs) if m.ops else network(r, kind)


PROBE = "import sys; sys.path.insert(0, sys.argv[1]); import tflm_nets as t; t.probe(sys.argv[2], int(sys.argv[3]))"


def probe(path, size):
    i = runtime.Interpreter.from_file(path, arena_size=size)
    i.print_allocations()
    sys.stderr.flush()


def run(path, size):
    """Bytes of head and tail that an interpreter with an arena of that size uses, and what it says;
    None: too small, or refused."""
    here = os.path.dirname(os.path.abspath(__file__))
    r = subprocess.run([sys.executable, "-c", PROBE, here, path, str(size)], capture_output=True, text=True)
    found = dict(re.findall(r"Arena allocation (\w+) (\d+) bytes", r.stderr + r.stdout))
    if r.returncode or not found:
        return None, r.stderr
    return (int(found["head"]), int(found["tail"])), r.stderr


def smallest(path, guess):
    """The smallest arena that it takes, a multiple of 16: guess, if it is that."""
    takes = lambda n: run(path, n)[0] is not None
    if takes(guess) and not takes(guess - 16):
        return guess
    low, high = 0, 1 << 20
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if takes(16 * middle) else (middle, high)
    return 16 * high


def write(kind, count, seed, folder):
    r, k, tries = random.Random(seed), 0, 0
    while k < count:
        path = os.path.join(folder, f"net{k}.tflite")
        with open(path, "wb") as f:
            f.write(network(r, kind))
        ok, text = run(path, 1 << 22)
        tries += 1
        if not ok:
            print("refused:", text.strip()[:150])
            continue
        k += 1
    print(f"{k} of {tries}")


def check(vram, paths):
    good = n = 0
    for path in paths:
        truth, text = run(path, 1 << 24)
        if not truth:
            print(path, "refused by TFLM:", text.strip()[:120])
            continue
        n += 1
        r = subprocess.run([vram, "estimate", "--embedded", path, "--tflm", "--csv"], capture_output=True, text=True)
        if r.returncode:
            print(r.stderr.strip())
            continue
        rows = {x["target"]: x for x in csv.DictReader(r.stdout.splitlines())}
        mine = [int(rows["python"][k]) for k in ("head_bytes", "tail_bytes", "arena_bytes")]
        theirs = [*truth, smallest(path, mine[2])]
        good += mine == theirs
        if mine != theirs:
            print(path, "head, tail, arena:", *mine, "here,", *theirs, "there")
    print(f"{good} of {n}")
    return good != n


def main(args):
    if args[0] in ("--random", "--wide", "--offline"):
        write(args[0], int(args[1]), int(args[2]), args[3])
        return 0
    if args[0] == "--check":
        return check(args[1], args[2:])
    for path in args:
        truth, _ = run(path, 1 << 24)
        print(path, *(*truth, smallest(path, 0)) if truth else ("refused",))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
