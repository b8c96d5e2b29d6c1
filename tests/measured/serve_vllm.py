#!/usr/bin/env python3
"""Rows of tests/golden/serve_vllm.txt out of vLLM's own planning functions, without a GPU.

usage: serve_vllm.py FOLDER check FILE      plan the file's models again and compare
       serve_vllm.py FOLDER make SEED COUNT print COUNT new rows of random models

FOLDER: the unpacked wheel of vLLM 0.33.0 (pip download --no-deps vllm==0.33.0; unzip). Needs torch.
get_kv_cache_groups, get_kv_cache_config_from_groups and get_kv_cache_capacity and the classes of
kv_cache_interface.py are vLLM's files as they are; what these import beside (config, logger, managers,
platforms) is replaced by empty modules. The block size of models with states is the rule of
Platform._align_hybrid_block_size, repeated here, as it is a method that wants a whole configuration.
"""

import importlib.abc
import importlib.machinery
import math
import os
import random
import sys
import types
from unittest import mock

# vLLM's own files; every other module of vllm is empty
REAL = {
    "vllm.v1.core.kv_cache_planning",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.core.kv_cache_config_builder",
    "vllm.v1.kv_cache_interface",
    "vllm.v1.kv_cache_layout",
    "vllm.v1.kv_cache_spec_registry",
    "vllm.utils.math_utils",
}
PACKAGES = ("vllm", "vllm.v1", "vllm.v1.core", "vllm.utils", "vllm.v1.attention", "vllm.v1.hisparse")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] != "vllm" or name in REAL:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        name = module.__name__
        if name in PACKAGES:
            module.__path__ = [os.path.join(FOLDER, *name.split("."))]
        if name == "vllm.v1.attention.backend":
            module.MultipleOf = type("MultipleOf", (), {})
        elif name == "vllm.utils.torch_utils":
            module.get_dtype_size = lambda dtype: dtype.itemsize
        elif name == "vllm.v1.hisparse.layout":
            module.get_hisparse_kv_cache_groups = lambda config, specs: None
        module.__getattr__ = lambda attribute: hidden(name, attribute)


def hidden(module, attribute):
    if attribute.startswith("__") or f"{module}.{attribute}" in REAL:
        raise AttributeError(attribute)
    return mock.MagicMock(name=attribute)


FOLDER = sys.argv[1] if len(sys.argv) > 3 else sys.exit(__doc__)
sys.meta_path.insert(0, Finder())

import torch  # noqa: E402
from vllm.v1 import kv_cache_interface as interface  # noqa: E402
from vllm.v1.core import kv_cache_planning as planning  # noqa: E402
from vllm.v1.core import kv_cache_utils as utils  # noqa: E402
from vllm.v1.kv_cache_layout import KVCacheLayout  # noqa: E402
from vllm.v1.kv_cache_spec_registry import KVCacheSpecRegistry  # noqa: E402

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "u8": torch.uint8}
for name, base in (
    ("FullAttentionSpec", "FullAttentionSpec"),
    ("MLAAttentionSpec", "FullAttentionSpec"),
    ("SlidingWindowSpec", "SlidingWindowSpec"),
    ("ChunkedLocalAttentionSpec", "ChunkedLocalAttentionSpec"),
    ("MambaSpec", "MambaSpec"),
):  # single_type_kv_cache_manager.py, register_all_kvcache_specs
    KVCacheSpecRegistry.register(
        getattr(interface, name), object, uniform_type_base_spec=getattr(interface, base)
    )


def plan(text):
    """The part behind = for a row's part before it."""
    rows, rest = text.split(" ", 1)
    block, length, batched, batches, tp, available, no_hybrid, align = map(int, rest.split())
    config = mock.MagicMock()
    config.model_config.max_model_len = length
    config.parallel_config.decode_context_parallel_size = 1
    config.parallel_config.prefill_context_parallel_size = 1
    config.parallel_config.tensor_parallel_size = tp
    config.scheduler_config.disable_hybrid_kv_cache_manager = bool(no_hybrid)
    config.max_in_flight_tokens = batched * batches
    config.cache_config.num_gpu_blocks_override = None
    config.cache_config.get_resolved_kv_cache_layout = lambda: KVCacheLayout.LBNHC
    config.cache_config.mamba_cache_mode = "align" if align else "none"
    config.attention_config.hisparse_config = None
    config.speculative_config = None

    attention, states = [], []
    for row in rows.split(";"):
        kind, count, heads, k, v, dtype, window, *state = row.split(",")
        heads = max(int(heads) // tp, 1)
        entry = (kind, int(count), heads, int(k), int(v), DTYPES.get(dtype), int(window))
        if kind == "state":
            shapes = [(int(n) // tp,) for n in state[::2]]
            states.append((int(count), tuple(shapes), tuple(DTYPES[d] for d in state[1::2])))
        else:
            attention.append(entry)

    padded = None
    state_block = length
    if states and attention:
        kind, _, heads, k, v, dtype, _ = attention[0]
        largest = max(
            sum(math.prod(s) * d.itemsize for s, d in zip(shapes, types))
            for _, shapes, types in states
        )
        token = heads * k * dtype.itemsize * (1 if kind == "latent" else 2)
        step = max(16, block, 128 if kind == "latent" else 0)
        block = max(block, step * -(-largest // (step * token)))
        padded = block * token if block * token != largest else None
    if align:
        state_block = block

    specs, n = {}, 0
    for row in rows.split(";"):
        kind = row.split(",")[0]
        if kind == "state":
            count, shapes, types = states.pop(0)
            spec = interface.MambaSpec(
                block_size=state_block,
                shapes=shapes,
                dtypes=types,
                page_size_padded=padded,
                mamba_cache_mode=config.cache_config.mamba_cache_mode,
            )
        else:
            _, count, heads, k, v, dtype, window = attention.pop(0)
            common = dict(block_size=block, num_kv_heads=heads, head_size=k, dtype=dtype)
            if kind == "latent":
                common["num_kv_heads"] = 1
                spec = interface.MLAAttentionSpec(**common)
            elif kind == "sliding":
                spec = interface.SlidingWindowSpec(head_size_v=v, sliding_window=window, **common)
            elif kind == "chunked":
                spec = interface.ChunkedLocalAttentionSpec(
                    head_size_v=v, attention_chunk_size=window, **common
                )
            else:
                spec = interface.FullAttentionSpec(head_size_v=v, **common)
        for _ in range(count):
            specs[f"layer.{n}"] = spec
            n += 1
    try:
        groups = planning.get_kv_cache_groups(config, specs)
        found = planning.get_kv_cache_config_from_groups(config, groups, available)
    except (ValueError, NotImplementedError, AssertionError):
        return "refused"
    tokens, concurrency = utils.get_kv_cache_capacity(config, found)
    needs = sum(
        utils.cdiv(g.kv_cache_spec.max_memory_usage_bytes(config), g.kv_cache_spec.page_size_bytes)
        for g in groups
    )
    bytes_per_block = planning._get_kv_cache_bytes_per_block(groups, KVCacheLayout.LBNHC)
    return f"{len(groups)} {bytes_per_block} {needs} {found.num_blocks} {tokens} {concurrency:.6f}"


def model(pick):
    """A random model: layers of attention, windows or chunks among them, states, latent ones."""
    sizes = [1, 2, 3, 5, 6, 10, 12, 13, 16, 24, 29, 32, 48]
    heads = [1, 2, 4, 5, 8, 16]
    widths = ["128,128", "64,64", "96,96", "256,256", "80,80", "96,128"]
    dtype = pick.choice(["bf16", "bf16", "f16", "u8"])
    form = pick.randrange(8)
    attends = f"{pick.choice(heads)},{pick.choice(widths)},{dtype},"
    rows = [f"full,{pick.choice(sizes)},{attends}0"]
    if form == 0:
        rows = [f"latent,{pick.choice(sizes)},1,{pick.choice([320, 512, 576])},0,{dtype},0"]
    elif form == 1:
        rows = []
    if form in (2, 3):
        rows.append(f"sliding,{pick.choice(sizes)},{attends}{pick.choice([128, 512, 1000, 4096])}")
    if form == 4:
        rows.append(f"chunked,{pick.choice(sizes)},{attends}{pick.choice([1000, 8192])}")
    if form in (0, 1, 5, 6):
        elements = f"{pick.choice([12288, 24576, 30720])},{pick.choice(['bf16', 'f32'])}"
        elements += f",{pick.choice([262144, 524288, 1048576])},{pick.choice(['bf16', 'f32'])}"
        rows.append(f"state,{pick.choice(sizes)},0,0,0,f32,0,{elements}")
    numbers = (
        pick.choice([16, 16, 32, 64]),
        pick.choice([2048, 8192, 32768, 100000, 131072]),
        pick.choice([1000, 2048, 8192, 16384]),
        pick.choice([1, 2]),
        pick.choice([1, 2, 4, 8]),
        pick.randrange(1 << 30, 64 << 30),
        int(pick.randrange(5) == 0),
        pick.randrange(2),
    )
    return ";".join(rows) + " " + " ".join(map(str, numbers))


def main():
    if sys.argv[2] == "make":
        pick = random.Random(int(sys.argv[3]))
        for _ in range(int(sys.argv[4])):
            text = model(pick)
            print(text, "=", plan(text))
        return 0
    same = differs = 0
    with open(sys.argv[3]) as f:
        for line in f:
            if line[0] == "#":
                continue
            text, _, expected = line.strip().partition(" = ")
            found = plan(text)
            same += found == expected
            differs += found != expected
            if found != expected:
                print(text, "=", found, "not", expected)
    print(f"serve_vllm: {same} rows equal, {differs} differ")
    return differs != 0


if __name__ == "__main__":
    sys.exit(main())
