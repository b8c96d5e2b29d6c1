"""Compares vram's dtype table with the packages of the formats themselves.

    dtype_test --csv > dtypes.csv;  python check_dtypes.py dtypes.csv

Sources: torch (itemsize, storage of real tensors), safetensors (its reader refuses a header whose
byte range does not fit dtype and shape), onnx (DataType ids, packing functions), ml_dtypes (bits),
tflite (TensorType ids), gguf (GGMLQuantizationType, GGML_QUANT_SIZES). A package that is not
installed prints SKIP. Rows with an id that no installed package knows are listed as "one source".

Known differences, checked as such:
  q8_1    gguf says 40 bytes (two floats and 32 values, the layout of 2023); ggml-common.h has two
          halves since then and asserts 36. Never in files. The table has 36.
  q2_0    id 42, 18 bytes for 64: in ggml.h and ggml-common.h, not in gguf 0.19.
  iq2_nl, iq3_nl   structs of ggml-common.h without an id.
  tflite 19..22    INT2, UINT4, FLOAT8_E4M3FN, FLOAT8_E5M2: in the LiteRT headers, not in tflite 2.18.
"""
import csv
import json
import struct
import sys

rows = list(csv.DictReader(open(sys.argv[1])))
for r in rows:
    for k in r:
        if k not in ("name", "torch", "safetensors"):
            r[k] = int(r[k])
by_name = {r["name"]: r for r in rows}
errors, checks = [], {}
sources = {r["name"]: set() for r in rows}


def check(source, name, what, ours, theirs):
    checks[source] = checks.get(source, 0) + 1
    if name in sources:
        sources[name].add(source)
    if ours != theirs:
        errors.append(f"{source}: {name} {what}: table {ours}, package {theirs}")


def size(r, n):
    return -(-n * r["block_bytes"] // r["block_elements"])


def package(name):
    try:
        return __import__(name)
    except ImportError:
        print(f"SKIP {name}: the Python package is not installed")
        return None


torch = package("torch")
if torch:
    seen = set()
    for r in rows:
        if not r["torch"]:
            continue
        dt = getattr(torch, r["torch"])
        seen.add(dt)
        check("torch", r["name"], "itemsize", -(-r["block_bytes"] * r["torch_values"] // r["block_elements"]), dt.itemsize)
        if r["name"].startswith(("qu", "qi")):
            t = torch._empty_affine_quantized([7, 3], scale=1.0, zero_point=0, dtype=dt)
            bytes_ = 7 * size(r, 3) if r["row_padded"] else size(r, 21)
        else:
            t = torch.empty(7, 3, dtype=dt)
            bytes_ = size(r, 21 * r["torch_values"])
        check("torch", r["name"], "storage of 7 x 3", bytes_, t.untyped_storage().nbytes())
        kind = 0 if dt.is_floating_point else 3 if dt.is_complex else None
        if kind is not None:
            check("torch", r["name"], "kind", r["kind"], kind)
    for n in dir(torch):
        dt = getattr(torch, n)
        if isinstance(dt, torch.dtype) and dt not in seen:
            short = str(dt)[6:]
            whole_byte = short.startswith(("int", "uint", "bits")) or short == "bit"
            check("torch", short, "is covered by an alias", True, whole_byte and dt.itemsize == (2 if short == "bits16" else 1))

st = package("safetensors")
if st:
    def takes(dtype, n, nbytes):
        head = json.dumps({"a": {"dtype": dtype, "shape": [n], "data_offsets": [0, nbytes]}}).encode()
        try:
            st.deserialize(struct.pack("<Q", len(head)) + head + bytes(nbytes))
            return True
        except Exception as e:
            return str(e)

    for r in rows:
        if r["safetensors"]:
            b = size(r, 8)
            check("safetensors", r["name"], "8 elements", takes(r["safetensors"], 8, b), True)
            check("safetensors", r["name"], "8 elements, a byte more", takes(r["safetensors"], 8, b + 1) is True, False)
    # the reader's own list of dtypes, from its message
    listed = takes("?", 1, 1).split("expected one of")[1].split(" at line")[0]
    listed = {x.strip(" `") for x in listed.replace(" or ", ",").split(",")}
    check("safetensors", "*", "list of dtypes", {r["safetensors"] for r in rows} - {""}, listed)

onnx = package("onnx")
if onnx:
    import onnx.helper
    import onnx.numpy_helper
    ids = {v: k for k, v in onnx.TensorProto.DataType.items()}
    for r in rows:
        if r["onnx"] >= 0:
            name = ids.pop(r["onnx"])
            alias = {"FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "COMPLEX64": "c64", "COMPLEX128": "c128",
                     "FLOAT8E8M0": "f8e8m0fnu", "BOOL": "bool"}.get(name)
            if not alias:
                alias = name.lower().replace("float", "f").replace("uint", "u").replace("int", "i")
            check("onnx", r["name"], "name", r["name"], alias)
            t = onnx.helper.make_tensor("a", r["onnx"], [5], [0] * 5)
            raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t)).raw_data
            check("onnx", r["name"], "raw_data of 5", size(r, 5), len(raw))
    check("onnx", "*", "ids left", set(ids.values()), {"UNDEFINED", "STRING"})

ml = package("ml_dtypes")
if ml:
    names = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e4m3fnuz": "float8_e4m3fnuz",
             "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu", "f6e2m3": "float6_e2m3fn", "f6e3m2": "float6_e3m2fn",
             "f4e2m1": "float4_e2m1fn", "i4": "int4", "i2": "int2", "u4": "uint4", "u2": "uint2", "u1": "uint1"}
    for ours, theirs in names.items():
        if hasattr(ml, theirs):
            info = ml.iinfo if ours[0] in "iu" else ml.finfo
            r = by_name[ours]
            check("ml_dtypes", ours, "bits", 8 * r["block_bytes"] / r["block_elements"], info(getattr(ml, theirs)).bits)

tflite = package("tflite")
if tflite:
    T = {v: k for k, v in vars(tflite.TensorType).items() if not k.startswith("_")}
    names = {"FLOAT32": "f32", "FLOAT16": "f16", "FLOAT64": "f64", "BFLOAT16": "bf16", "BOOL": "bool", "COMPLEX64": "c64", "COMPLEX128": "c128"}
    for i, n in T.items():
        if n in ("STRING", "RESOURCE", "VARIANT"):
            check("tflite", "*", n, [r["name"] for r in rows if r["tflite"] == i], [])
        else:
            want = names.get(n) or n.lower().replace("uint", "u").replace("int", "i")
            check("tflite", want, "id", [r["name"] for r in rows if r["tflite"] == i], [want])

gguf = package("gguf")
if gguf:
    for t, (elements, nbytes) in gguf.GGML_QUANT_SIZES.items():
        r = next((x for x in rows if x["ggml"] == t.value), None)
        check("gguf", r and r["name"], "name", r and r["name"], t.name.lower())
        check("gguf", r["name"], "block", (r["block_elements"], r["block_bytes"]),
              (32, 36) if t.name == "Q8_1" and nbytes == 40 else (elements, nbytes))
        check("gguf", r["name"], "row multiple", r["row_multiple"], elements)

for name, s in sources.items():
    if not s and checks:
        print("one source:", name)
for e in errors:
    print("ERROR", e)
by_source = ", ".join(f"{k} {v}" for k, v in sorted(checks.items())) or "no"
print("dtypes:", len(rows), "rows,", by_source, "checks,", len(errors), "errors")
sys.exit(bool(errors))
