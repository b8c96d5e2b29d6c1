#!/usr/bin/env python3
"""Holds the text of ONNX models against the package onnx: every shape that its inference knows, and
the elements of all floating-point constants that have more than one.

    python tests/onnx_check.py VRAM MODEL.onnx [NAME=N ...]     dims that the model leaves open
    python tests/onnx_check.py --shapes MODEL.onnx [NAME=N ...] what onnx knows: tests/golden/onnx/*.txt

The models there were written by torch.onnx.export (2.15) and saved with their weights in a file
that is not there: a U-Net of every kind of layer, a Llama and a Swin of one layer each, an LSTM.
"""

import csv, io, math, re, subprocess, sys
import onnx
from onnx import TensorProto, shape_inference

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def label(name):
    name = re.sub(r"[^A-Za-z0-9_./]", "_", name.lstrip("/"))
    return name if name[:1].isalpha() or name[:1] == "_" else "_" + name


def inferred(model, dims):
    """Shapes with the open sizes set in the inputs, so that all that follows of them is known."""
    given = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        for axis, d in enumerate(value.type.tensor_type.shape.dim):
            if value.name not in given and not d.HasField("dim_value"):
                d.dim_value = dims.get(d.dim_param, 1)
    for value in list(model.graph.value_info) + list(model.graph.output):
        for d in value.type.tensor_type.shape.dim:
            if d.dim_param in dims:
                d.dim_value = dims[d.dim_param]
    model = shape_inference.infer_shapes(model, data_prop=True)
    known = {}
    for value in list(model.graph.value_info) + list(model.graph.output):
        shape = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in shape):
            known[label(value.name)] = [d.dim_value for d in shape]
    return known


def elements(model):
    """Of weights with more than one element, and how many there are with one: a number in a line."""
    used = {
        name
        for node in model.graph.node
        for i, name in enumerate(node.input)
        if i == 0 or node.op_type != "Resize"  # its scales are no weights
    }
    constants = [
        a.t
        for n in model.graph.node
        for a in n.attribute
        if n.op_type == "Constant" and a.name == "value" and n.output[0] in used
    ]
    tensors = [t for t in model.graph.initializer if t.name in used] + constants
    sizes = [math.prod(t.dims) for t in tensors if t.data_type in FLOATS]
    return sum(n for n in sizes if n > 1), sizes.count(1)


def main():
    vram, path = sys.argv[1:3]
    dims = {k: int(v) for k, v in (a.split("=") for a in sys.argv[3:])}
    if vram == "--shapes":
        model = onnx.load(path, load_external_data=False)
        print("elements", *elements(model))
        for name, shape in inferred(model, dims).items():
            print(name, "[" + ",".join(map(str, shape)) + "]")
        return 0
    options = [w for k, v in dims.items() for w in ("--dim", f"{k}={v}")]
    rows = subprocess.run([vram, "estimate", path, "--csv"] + options, capture_output=True, text=True)
    if rows.returncode:
        sys.exit(rows.stderr.strip())
    model = onnx.load(path, load_external_data=False)
    known = inferred(model, dims)
    compared = differ = 0
    params = norms = 0
    for row in csv.DictReader(io.StringIO(rows.stdout)):
        params += int(row["params"])
        shape = [int(d) for d in row["output_shape"].strip("[]").split(",") if d]
        if row["type"] == "batch_norm":
            norms += 2 * shape[1]  # running statistics are buffers
        if row["name"] not in known:
            continue
        compared += 1
        if shape != known[row["name"]]:
            differ += 1
            print(f"{path}: {row['name']} ({row['type']}) is {shape}, onnx has {known[row['name']]}")
    expected, singles = elements(model)
    state = "equal" if expected <= params + norms <= expected + singles else "DIFFER"
    print(f"{path}: {compared} shapes, {differ} differ; elements {params + norms} of {expected}: {state}")
    return differ > 0 or state != "equal"


if __name__ == "__main__":
    sys.exit(main())
