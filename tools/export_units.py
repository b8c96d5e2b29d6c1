"""Modules that fully_shard is called for, as `unit` lines: also where the names of nodes show them, as the lines say that the
parameters are those of a module, in its order."""

import torch

A_LINE = 16  # names in a line


def alike(module):
    """the children of the outermost lists of modules that have modules in them: layers of a transformer, blocks of a stage"""
    found = []

    def walk(m, path):
        for name, child in m.named_children():
            own = f"{path}{name}"
            inside = [(n, c) for n, c in child.named_children() if any(True for _ in c.parameters())]
            lists = isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict))
            if lists and len(inside) > 1 and sum(any(True for _ in c.children()) for _, c in inside) > 1:
                found.extend(f"{own}.{n}" for n, _ in inside)
            else:
                walk(child, own + ".")

    walk(module, "")
    return found


def of(module):
    """names: of the classes that transformers keeps whole (_no_split_modules), the outermost; else of layers that are alike"""
    classes = getattr(module, "_no_split_modules", None) or ()
    named = [n for n, m in module.named_modules() if n and type(m).__name__ in classes]
    outermost = [n for n in named if not any(n.startswith(o + ".") for o in named)]
    return outermost or alike(module)


def lines(units, names):
    units = [u for u in units if any(n == u or n.startswith(u + ".") for n in names)]
    return ["unit " + " ".join(units[i : i + A_LINE]) for i in range(0, len(units), A_LINE)]
