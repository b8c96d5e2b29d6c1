"""Options of the command as Python writes them."""

from __future__ import annotations

import os
from typing import Any, Iterable, List, Mapping

REPEATED = ("dim", "bank", "rom", "override_tensor")  # given once for each


def word(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def words(options: Mapping[str, Any]) -> List[str]:
    """keep_grads=True is --keep-grads, amp="bf16" is --amp bf16, dim={"S": 128} is --dim S=128, gpu=["h100", "a100"] is
    --gpu h100,a100; None and False are left out."""
    out: List[str] = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            out.append(name)
            continue
        if isinstance(value, Mapping):
            value = [f"{k}={word(v)}" for k, v in value.items()]
        several = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        if several and key in REPEATED:
            for v in value:
                out += [name, word(v)]
        else:
            out += [name, ",".join(map(word, value)) if several else word(value)]
    return out
