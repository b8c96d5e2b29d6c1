"""The scores of examples/embedded from LiteRT (TFLite) itself: its reference kernels on a model of the
same arrays. python3 tests/embedded/litert.py weights.h examples/embedded/kws.c; needs ai-edge-litert.

The scales of the activations are 1 except for those below; a weight's scale is then what makes its
product the multiplier of the array, exactly: multipliers have few enough bits for float32.
"""

import sys

import flatbuffers
import numpy as np
from ai_edge_litert import interpreter as lite
from ai_edge_litert import schema_py_generated as tfl

from reference import read

SCALE = {"p2": 0.75, "a1": 2.0, "l1": 0.09375, "s1": 1 / 256}
arrays, scales, zero = read(sys.argv[1:])
model, graph = tfl.ModelT(), tfl.SubGraphT()
model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [graph], [tfl.BufferT()], []
graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []


def tensor(name, shape, kind, scale, zeros, data=None):
    t = tfl.TensorT()
    t.name, t.shape, t.type, t.buffer = name, shape, kind, 0
    t.quantization = tfl.QuantizationParametersT()
    t.quantization.scale, t.quantization.zeroPoint = [np.float32(s) for s in scale], zeros
    assert [float(s) for s in t.quantization.scale] == scale
    if data is not None:
        b = tfl.BufferT()
        b.data = np.frombuffer(
            np.array(data, {tfl.TensorType.INT8: "i1", tfl.TensorType.INT32: "<i4"}[kind]).tobytes(), "u1"
        )
        t.buffer = len(model.buffers)
        model.buffers.append(b)
    graph.tensors.append(t)
    return len(graph.tensors) - 1


def activation(name, shape):
    return tensor(name, shape, tfl.TensorType.INT8, [SCALE.get(name, 1.0)], [zero[name]])


def operator(code, inputs, y, kind, options, **values):
    c = tfl.OperatorCodeT()
    c.builtinCode = c.deprecatedBuiltinCode = code
    c.version = 3
    model.operatorCodes.append(c)
    op = tfl.OperatorT()
    op.opcodeIndex, op.inputs, op.outputs = len(model.operatorCodes) - 1, inputs, [y]
    op.builtinOptionsType, op.builtinOptions = kind, options
    for key, value in values.items():
        assert hasattr(options, key)
        setattr(options, key, value)
    graph.operators.append(op)
    return y


def stored(y, x, shape, axis):  # weights and bias of a layer
    by_input, by_output = SCALE.get(x, 1.0), SCALE.get(y, 1.0)
    scale = [m / 2**31 * 2.0**s * by_output / by_input for m, s in arrays[y + "_scale"]]
    count = int(np.prod(shape))
    weights = tensor(
        y + "_weights", shape, tfl.TensorType.INT8, scale, [0] * len(scale), arrays[y + "_weights"][:count]
    )
    graph.tensors[weights].quantization.quantizedDimension = axis
    both = [float(np.float32(s * by_input)) for s in scale]
    bias = arrays[y + "_bias"]
    return [weights, tensor(y + "_bias", [len(bias)], tfl.TensorType.INT32, both, [0] * len(both), bias)]


relu = {True: tfl.ActivationFunctionType.RELU, False: tfl.ActivationFunctionType.NONE}


def conv2d(y, x, kernel, stride, fused):
    inputs = [tensors[x]] + stored(y, x, [32, *kernel, 32 if x != "input" else 1], 0)
    tensors[y] = operator(
        tfl.BuiltinOperator.CONV_2D, inputs, activation(y, [1, 25, 5, 32]), tfl.BuiltinOptions.Conv2DOptions, tfl.Conv2DOptionsT(),
        padding=tfl.Padding.SAME, strideH=stride, strideW=stride, fusedActivationFunction=relu[fused],
    )  # fmt: skip


def depthwise(y, x):
    tensors[y] = operator(
        tfl.BuiltinOperator.DEPTHWISE_CONV_2D, [tensors[x]] + stored(y, x, [1, 3, 3, 32], 3), activation(y, [1, 25, 5, 32]),
        tfl.BuiltinOptions.DepthwiseConv2DOptions, tfl.DepthwiseConv2DOptionsT(),
        padding=tfl.Padding.SAME, strideH=1, strideW=1, depthMultiplier=1, fusedActivationFunction=relu[True],
    )  # fmt: skip


tensors = {"input": activation("input", [1, 49, 10, 1])}
conv2d("c1", "input", [10, 4], 2, True)
depthwise("d1", "c1")
conv2d("p1", "d1", [1, 1], 1, True)
depthwise("d2", "p1")
conv2d("p2", "d2", [1, 1], 1, False)
tensors["a1"] = operator(
    tfl.BuiltinOperator.ADD, [tensors["p2"], tensors["p1"]], activation("a1", [1, 25, 5, 32]),
    tfl.BuiltinOptions.AddOptions, tfl.AddOptionsT(), fusedActivationFunction=relu[True],
)  # fmt: skip
depthwise("d3", "a1")
conv2d("p3", "d3", [1, 1], 1, True)
tensors["g1"] = operator(
    tfl.BuiltinOperator.AVERAGE_POOL_2D, [tensors["p3"]], activation("g1", [1, 1, 1, 32]),
    tfl.BuiltinOptions.Pool2DOptions, tfl.Pool2DOptionsT(),
    padding=tfl.Padding.VALID, strideH=1, strideW=1, filterHeight=25, filterWidth=5,
)  # fmt: skip
tensors["l1"] = operator(
    tfl.BuiltinOperator.FULLY_CONNECTED, [tensors["g1"]] + stored("l1", "g1", [12, 32], 0), activation("l1", [1, 12]),
    tfl.BuiltinOptions.FullyConnectedOptions, tfl.FullyConnectedOptionsT(),
)  # fmt: skip
tensors["s1"] = operator(
    tfl.BuiltinOperator.SOFTMAX, [tensors["l1"]], activation("s1", [1, 12]),
    tfl.BuiltinOptions.SoftmaxOptions, tfl.SoftmaxOptionsT(), beta=1.0,
)  # fmt: skip
graph.inputs, graph.outputs = [tensors["input"]], [tensors["s1"]]

builder = flatbuffers.Builder(1 << 16)
builder.Finish(model.Pack(builder), b"TFL3")
net = lite.Interpreter(
    model_content=bytes(builder.Output()),
    experimental_op_resolver_type=lite.OpResolverType.BUILTIN_REF,
    experimental_preserve_all_tensors=True,
)
net.allocate_tensors()
net.set_tensor(net.get_input_details()[0]["index"], np.array(arrays["features"], "i1").reshape(1, 49, 10, 1))
net.invoke()
digest = 2166136261
for name in list(tensors)[1:]:
    for v in net.get_tensor(tensors[name]).astype("u1").ravel():
        digest = (digest ^ int(v)) * 16777619 % 2**32
print("scores" + "".join("%5d" % v for v in net.get_tensor(tensors["s1"]).ravel()))
print("digest%11d" % digest)
