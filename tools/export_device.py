"""Where modules run: on a pretended device without memory, or on a real one."""

import contextlib

import torch, torch.nn as nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

fake_device = None  # inside without_memory(): where modules and inputs are moved before they run


class SideStream:
    """a stream of a device that is only pretended: what it is told to wait for it has waited for"""

    def __init__(self, *args, **kwargs):
        pass

    def wait_stream(self, other):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *why):
        pass


@contextlib.contextmanager
def side_streams():
    """programs may make streams of their own"""
    kept = torch.Stream, torch.cuda.Stream, torch.cuda.default_stream
    torch.Stream = torch.cuda.Stream = SideStream
    torch.cuda.default_stream = SideStream
    try:
        yield
    finally:
        torch.Stream, torch.cuda.Stream, torch.cuda.default_stream = kept


@contextlib.contextmanager
def without_memory(device="cuda"):
    """where tensors have shapes and no storage: modules of any size load and run, as on a GPU of compute capability 9.0"""
    global fake_device
    before, fake_device = fake_device, device
    capability, torch.cuda.get_device_capability = torch.cuda.get_device_capability, lambda device=None: (
        9,
        0,
    )
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), without_initial_values():
            yield
    finally:
        fake_device, torch.cuda.get_device_capability = before, capability


@contextlib.contextmanager
def without_initial_values():
    """the functions of torch.nn.init leave tensors as they are: pages that nobody writes take no memory"""
    init = torch.nn.init
    names = [
        n for n in vars(init) if n.endswith("_") and not n.startswith("__") and callable(getattr(init, n))
    ]
    saved = {n: getattr(init, n) for n in names}
    try:
        for n in names:
            setattr(init, n, lambda tensor, *args, **kwargs: tensor)
        yield
    finally:
        for n, f in saved.items():
            setattr(init, n, f)


def to_fake_device(module, inputs):
    """the inputs, moved; parameters and buffers of the module are replaced, shared ones once"""
    new = {}

    def moved(t):
        if t.device.type == fake_device and isinstance(t, FakeTensor):
            return t
        if id(t) not in new:
            made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=fake_device)
            made = nn.Parameter(made, t.requires_grad) if isinstance(t, nn.Parameter) else made
            t.vram_moved = made  # what an optimizer knows is t
            new[id(t)] = made, t  # keeps t, so that its id stays its own
        return new[id(t)][0]

    for m in module.modules():
        for owned in (m._parameters, m._buffers):
            owned.update({k: moved(t) for k, t in owned.items() if t is not None})
        if isinstance(m, nn.RNNBase):
            m._flat_weights = [getattr(m, n) for n in m._flat_weights_names]
    return {k: t.detach().to(fake_device).requires_grad_(t.requires_grad) for k, t in inputs.items()}


@contextlib.contextmanager
def autocast(device, dtype):
    """torch.autocast, also on a device that is only pretended; dtype None: none"""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, dtype is not None)
    torch.set_autocast_dtype(device, dtype or before[1])
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])
