"""Layers of bitsandbytes: their weights are quantised when they come to a device, so their calls become lines of their own."""

import contextlib, types

import torch, torch.nn as nn, torch.nn.functional as F

import export_device
from export_rows import DTYPES

recorder = None  # whose run calls the layers
KEYS = "_vram_keys"  # what a layer's line says, kept beside its weight, which is exchanged


def keys_of(m):
    """the keys of a layer's line; None: its weight is not quantised"""
    names = {c.__module__.split(".")[0] + "." + c.__name__ for c in type(m).__mro__}
    if "bitsandbytes.Linear4bit" in names:
        w = m.weight
        state = getattr(w, "quant_state", None)
        keys = {
            "out_features": m.out_features,
            "quant": w.quant_type,
            "double_quant": None if w.compress_statistics else 0,
            "dtype": DTYPES[state.dtype if state else w.dtype],
            "compute_dtype": DTYPES.get(m.compute_dtype),
        }
    elif "bitsandbytes.Linear8bitLt" in names and not m.state.has_fp16_weights:
        keys = {"out_features": m.out_features, "quant": "int8", "threshold": m.state.threshold or None}
    else:
        return None
    keys["bias"] = 0 if m.bias is None else None
    keys["frozen"] = 1 if m.bias is not None and not m.bias.requires_grad else None
    return keys


def call(m, x):
    """what the layer gives, of x's dtype in whatever it computes"""
    rec = recorder if recorder is not None and not recorder.unit else None
    if rec is not None:
        rec.unit += 1
    try:
        with export_device.autocast(x.device.type, None):
            weight = torch.empty(m.out_features, m.in_features, dtype=x.dtype, device=x.device)
            bias = None if m.bias is None else m.bias.to(x.dtype)
            r = F.linear(x, weight, bias)
    finally:
        if rec is not None:
            rec.unit -= 1
    if rec is not None:
        rec.params_in_modules.update(id(p) for p in m.parameters(recurse=False))
        rec.emit("linear", [x], r, getattr(m, KEYS), leaf=True)
    return r


@contextlib.contextmanager
def replaced(module):
    """the quantised layers of the module are called through `call`; their weights, whose dtype is none of the model's, are away"""
    layers = []
    for m in module.modules():
        if not hasattr(m, KEYS):
            setattr(m, KEYS, keys_of(m))
        if getattr(m, KEYS) is not None:
            layers.append((m, m.weight))
            m.weight = nn.Parameter(torch.empty(0, dtype=torch.uint8, device=m.weight.device), False)
            m.forward = types.MethodType(call, m)
    try:
        yield
    finally:
        for m, weight in layers:
            m.weight = weight
            del m.forward


@contextlib.contextmanager
def recorded(rec):
    """calls of quantised layers are lines of this recorder"""
    global recorder
    before, recorder = recorder, rec
    try:
        yield
    finally:
        recorder = before
