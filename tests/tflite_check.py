#!/usr/bin/env python3
"""What LiteRT says of a TFLite model, beside what vram.h reads of it.

    python tests/tflite_check.py --golden MODEL.tflite    what LiteRT has: tests/golden/tflite/*.txt
    python tests/tflite_check.py VRAM MODEL.tflite ...     shapes of the text, parameters

Needs ai-edge-litert (the interpreter: shapes, types, scales) and tflite (the schema: buffers). The
models there were written by TensorFlow 2.21's converter from Keras models of random weights: MLPerf
Tiny's ResNet-8 in int8 (ic), a U-Net with f16 weights, self-attention in int8 (mha), LSTM and GRU
(three subgraphs), operators that move elements (mix), a network small enough to damage (tiny).
"""

import collections, csv, io, re, subprocess, sys
import numpy as np
import tflite
from ai_edge_litert import interpreter as litert

TYPES = "f32 f16 i32 u8 i64 none bool i16 c64 i8 f64 c128 u64 none none u32 u16 i4 bf16".split()


def names(graph):
    """Names may be empty or there twice: NAME#3 is then tensor 3."""
    found = []
    for i in range(graph.TensorsLength()):
        name = (graph.Tensors(i).Name() or b"").decode("utf8", "replace")
        while not name or name in found:
            name = f"{name}#{i}"
        found.append(name)
    return found


def interpreter(path):
    plain = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return litert.Interpreter(path, experimental_op_resolver_type=plain)


def tensors(path):
    """Of the first subgraph: name, dtype, shape, bytes of a constant (None: an activation), scales."""
    model = tflite.Model.GetRootAs(open(path, "rb").read(), 0)
    graph = model.Subgraphs(0)
    details = {d["index"]: d for d in interpreter(path).get_tensor_details()}
    for i, name in enumerate(names(graph)):
        t = graph.Tensors(i)
        buffer = model.Buffers(t.Buffer())
        shape = [t.Shape(k) for k in range(t.ShapeLength())]
        quantised = t.Quantization()
        scales = quantised.ScaleLength() if quantised else 0
        if i in details:
            assert list(details[i]["shape"]) == shape
            assert len(details[i]["quantization_parameters"]["scales"]) == scales
        size = buffer.DataLength() or buffer.Size()
        open_axes = [k for k in range(t.ShapeSignatureLength()) if t.ShapeSignature(k) == -1]
        yield name, TYPES[t.Type()], shape, size or None, scales, t.Buffer(), open_axes


def golden(path):
    buffers = {}
    for name, dtype, shape, size, scales, buffer, open_axes in tensors(path):
        if size:
            buffers[buffer] = size
        if not size:
            shape = [-1 if k in open_axes else n for k, n in enumerate(shape)]
        shape = "[" + ",".join(map(str, shape)) + "]"
        print(f"{size or 0}\t{dtype}\t{shape}\t{scales}\t{name}")
    print(f"{sum(buffers.values())}\tsum")


def main():
    if sys.argv[1] == "--golden":
        return golden(sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
