"""What a program asks about values, where there are none."""

import os, sys

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

import export_found


class Answers(TorchFunctionMode):
    """Answers what programs ask about masks, where there are no values: all of it is set; some of it (`some`) is not. What else
    depends on values raises DataDependentOutputException."""

    given = False  # one was given to any program

    def __init__(self, some=False, every=True, rest=None):
        """every: all of a mask is set; rest: the answer to all else (None: there is none)"""
        super().__init__()
        self.notes, self.some, self.asked = [], some, False  # asked: whether some of it is set
        self.every, self.rest = every, rest

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if (
            name in ("__bool__", "item")
            and isinstance(args[0], FakeTensor)
            and hasattr(args[0], "vram_answer")
        ):
            frame, not_its = sys._getframe(1), (os.path.dirname(torch.__file__), os.path.dirname(__file__))
            while frame.f_code.co_filename.startswith(not_its):
                frame = frame.f_back
            at = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
            note = f"{at} looks at values; taken to be {args[0].vram_answer}"
            if note not in self.notes:
                self.notes.append(note)
            Answers.given = True
            self.asked |= hasattr(args[0], "vram_some")
            return args[0].vram_answer
        if self.rest is not None and name in NUMBERS and args and isinstance(args[0], FakeTensor):
            return NUMBERS[name](self.rest)
        if self.rest is not None and name in FILLED:
            args, kwargs = filled(args, kwargs or {}, int(self.rest))
        if name == "__format__" and isinstance(args[0], FakeTensor):
            return "?"  # in the message of a check
        if name in SIZES and any(isinstance(a, FakeTensor) for a in args):
            return SIZES[name](*args, **(kwargs or {}))
        if name == "__bool__" and isinstance(args[0], FakeTensor) and export_found.count is not None:
            return True  # there are some: max(1, how many)
        if name == "item" and isinstance(args[0], FakeTensor) and args[0].dtype == torch.int64:
            if export_found.count is not None:
                return export_found.count
        r = export_found.found(name, args, kwargs or {})
        if r is None:
            r = func(*args, **(kwargs or {}))
        if name in ("all", "any", "_is_all_true") and isinstance(r, FakeTensor):
            r.vram_answer = self.every if name != "any" else self.some
            if name == "any":
                r.vram_some = True
        if name == "rand" and isinstance(r, FakeTensor) and r.numel() == 1:
            r.vram_answer = 1.0  # above the probability that something is left out
        if name in ("lt", "le", "__lt__", "__le__") and getattr(args[0], "vram_answer", None) == 1.0:
            r.vram_answer = False
        return r


NUMBERS = {"__bool__": bool, "__int__": int, "__float__": float, "__index__": int, "item": int}
FILLED = {"full", "new_full", "full_like"}  # with what may be a tensor of one element


def filled(args, kwargs, value):
    """a value that would be read from a tensor is a number"""
    number = lambda v: value if isinstance(v, FakeTensor) and not v.dim() else v
    return [*args[:1], *map(number, args[1:])], {k: number(v) for k, v in kwargs.items()}


def all_selected(input, mask):
    """masked_select where the mask has no values: all elements"""
    return input.expand(torch.broadcast_shapes(input.shape, mask.shape)).reshape(-1).clone()


def ctc_losses(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """something of a CTC loss's size, which PyTorch computes from the values of lengths"""
    return log_probs.sum((0, -1)) if reduction == 0 else log_probs.sum()


SIZES = {"masked_select": all_selected, "ctc_loss": ctc_losses}  # of what depends on values
