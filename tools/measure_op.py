#!/usr/bin/env python3
"""Measures the streams of a case of tests/cases with PyTorch: every allocation and free of a step, in order.

    ../shared/nullgpu/py tools/measure_op.py tests/cases/pointwise/logaddexp.vram ...     (make golden OP=pointwise/logaddexp)

Needs a Python with torch (NULLGPU_PYTHON) and measure_text.py of the pretended GPU, which knows how most lines of the text form are
run, text_ops.py has others and their keys. An op that neither knows is called as its row says (`vram list ops --json`: the function and the order of its arguments, which
are inputs and keys), or else is the function of that name in torch, torch.special or torch.nn.functional, called with the line's
inputs and its keys as keyword arguments. Writes CASE.MODE.csv beside the case for each mode of MODES, or those named by --mode.
"""

import ast, csv, os, re, sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ("train_fp32_sgd", "train_amp_bf16_adamw")
COLUMNS = ("phase", "action", "id", "size")


def function(torch, op):
    for place in (torch, torch.special, torch.nn.functional, torch.Tensor):
        if hasattr(place, op):
            return getattr(place, op)
    module, _, name = op.partition("_")
    if hasattr(torch, module) and hasattr(getattr(torch, module), name):  # fft_rfft, linalg_cholesky
        return getattr(getattr(torch, module), name)
    raise ValueError(f"PyTorch has no function {op}")


def call(torch, row, name, inputs, keys):
    """the call that the row of an op describes"""
    given, args = iter(inputs), []
    for a in row.arguments:
        if a.key:
            v = keys.get(a.name)
            v = list(v) if isinstance(v, tuple) else [v] if row.keys[a.name] == "L" and a.axes else v
            args.append(v)
        else:
            args.append(next(given) if not a.rest else list(given))
    last = max(k for k, a in enumerate(row.arguments) if not a.key)
    named = {a.name: v for a, v in list(zip(row.arguments, args))[last + 1 :] if v is not None}
    if keys.get("inplace"):
        return getattr(args[0], name + "_")(*args[1 : last + 1], **named)
    return function(torch, name)(*args[: last + 1], **named)


def flags():
    """the keys of the text form that are 0 or 1"""
    with open(os.path.join(HERE, "..", "vram.h")) as f:
        table = re.search(r"#define VRAM_KEYS\(X\)(?:.*\\\n)*.*", f.read())[0]
    return set(re.findall(r"X\((\w+), B\)", table))


def value(key, text, flags):
    try:
        v = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return bool(v) if key in flags else v


def run(program, inputs, train=True, free=True):
    """measure_text.Prog.run, but for the last result of a line, which does not outlive it"""
    values = dict(inputs)
    for i, (op, outs, ins, keys) in enumerate(program.nodes):
        results = () if op == "drop" else program.op(op, outs, [values[a] for a in ins], keys, train)
        values.update(zip(outs, results if isinstance(results, (tuple, list)) else [results]))
        del results
        for name in [*ins, *outs]:
            if free and program.last.get(name) == i:
                values.pop(name, None)
    return [values[name] for name in program.outputs]


def teach(torch, measure_text):
    """measure_text gets to know the ops that it has not heard of"""
    import export_rows, text_ops

    known = measure_text.Prog.op
    bools = flags()
    rows = {}
    for name, row in export_rows.rows()[0].items():
        if row.arguments is not None:
            rows.setdefault(row.op, (row, name))

    def op(self, op, outs, inputs, keys, train):
        read = {k: value(k, v, bools) for k, v in keys.items()}
        if op in text_ops.CALLS:
            return text_ops.CALLS[op](text_ops.Line(self, op, outs, inputs, keys, train))
        try:
            return known(self, op, outs, inputs, keys, train)
        except Exception as e:  # measure_text raises no kind of its own
            if str(e) != "op " + op:
                raise
        if op in rows:
            return call(torch, *rows[op], inputs, read)
        if read.pop("inplace", False):
            return getattr(inputs[0], op + "_")(*inputs[1:], **read)
        return function(torch, op)(*inputs, **read)

    measure_text.Prog.op, measure_text.Prog.run = op, run
    # no labels of nodes: what labels them holds graphs that nothing else does
    measure_text.Prog.after = property(lambda program: None, lambda program, after: None)


def main():
    try:
        import torch, measure_text
    except ImportError as e:
        sys.exit(f"measure_op.py: {e}: run it with nullgpu/py, with a Python that has torch (NULLGPU_PYTHON)")
    teach(torch, measure_text)
    modes, paths = [], []
    words = iter(sys.argv[1:])
    for word in words:
        if word == "--mode":
            modes.append(next(words, None))
        else:
            paths.append(word)
    if not paths or any(m not in measure_text.MODES for m in modes):
        sys.exit(__doc__)
    for path in paths:
        for mode in modes or MODES:
            target = f"{path[:-5]}.{mode}.csv"
            got = measure_text.child(measure_text.events, path, mode, target + ".new")
            if "error" in got:
                os.path.exists(target + ".new") and os.remove(target + ".new")
                sys.exit(f"measure_op.py: {path}, {mode}: {got['error']}")
            with open(target + ".new") as f, open(target, "w") as to:
                for row in csv.DictReader(f):
                    if not to.tell():
                        print(*COLUMNS, sep=",", file=to)
                    print(*(row[c] for c in COLUMNS), sep=",", file=to)
            os.remove(target + ".new")
            print(f"{target}: {got['events']} events, torch {torch.__version__}")


if __name__ == "__main__":
    main()
