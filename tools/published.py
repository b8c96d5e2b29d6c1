#!/usr/bin/env python3
"""Measurements of real GPUs that others published, and what `vram estimate` says of the same runs: make truth
usage: published.py [TABLE]
TABLE (default: tests/golden/published.txt) says in its first lines what its columns are. Prints one line for each
measurement: measured, expected, deviation, lower, upper, and `outside` where it is not between these; then for every
counter and for all of them the median and the mean deviation and how many are outside. The exit status is 1 if a row
is outside whose line does not say why, 2 for a bad table. VRAM names the tool, default: ./vram of the project.
Nothing is fitted to these figures: a row that is off stays off until what makes it so is known."""

import collections, json, os, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.environ.get("VRAM", os.path.join(HERE, "..", "vram"))
TABLE = os.path.join(HERE, "..", "tests", "golden", "published.txt")
MIB = 1 << 20
COUNTERS = ("allocated", "reserved", "device", "context")


class Problem(Exception):
    pass


def widths_of(text):
    """32,64x3 is 32, 64, 64, 64"""
    return [int(x.partition("x")[0]) for x in text.split(",") for _ in range(int(x.partition("x")[2] or 1))]


def mlp_text(rest):
    """linear layers with ReLU between them"""
    widths = widths_of(rest)
    lines = ["model mlp", "dim N=1", f"input x f32 [N,{widths[0]}]", "input target i64 [N]"]
    last = "x"
    for i, width in enumerate(widths[1:]):
        lines.append(f"linear l{i} {last} out_features={width}")
        last = f"l{i}"
        if i + 2 < len(widths):
            lines.append(f"relu r{i} {last}")
            last = f"r{i}"
    return lines + [f"cross_entropy loss {last} target", ""]


def layers_text(kind, rest):
    """convolutions of 3x3 and their mean, or linear layers; the layers behind each; a linear layer, softmax"""
    shape, layers, classes, widths = rest.split(":")
    sizes = [int(x) for x in shape.split(",")]
    shape = [sizes[0], sizes[1], sizes[1]] if kind == "cnn" else sizes
    width_of = ("conv2d", "out_channels={} kernel_size=3 padding=1") if kind == "cnn" else ("linear", "out_features={}")
    lines = [f"model {kind}", "dim N=1", f"input x f32 [N,{','.join(map(str, shape))}]", "input target i64 [N]"]
    last = "x"
    for i, width in enumerate(widths_of(widths)):
        for op in [width_of[0], *layers.split("+")]:
            keys = {width_of[0]: " " + width_of[1].format(width), "dropout": " p=0.3"}.get(op, "")
            lines.append(f"{op} {op}{i} {last}{keys}")
            last = f"{op}{i}"
    if kind == "cnn":
        lines += [f"adaptive_avg_pool2d pool {last} output_size=1", "flatten flat pool start_dim=1"]
        last = "flat"
    return lines + [f"linear fc {last} out_features={classes}", "softmax s fc dim=1", "cross_entropy loss s target", ""]


def text_of(model, folder):
    """arguments and standard input of vram for a model of the table"""
    kind, colon, rest = model.partition(":")
    if not colon:
        path = os.path.join(folder, "published", model + ".vram")
        return (path if os.path.exists(path) else model), None
    if kind == "input":  # one tensor on the device
        return "-", f"model input\ninput x f32 [{rest}]\nrelu y x inplace=1\n"
    if kind not in ("mlp", "cnn", "dense"):
        raise Problem(f"{model}: expected a name, input:, mlp:, cnn: or dense:")
    return "-", "\n".join(mlp_text(rest) if kind == "mlp" else layers_text(kind, rest))


def bounds_of(counter, ours):
    """lower, expected, upper of one counter"""
    if counter == "reserved":
        device, context = ours["device_bytes"], ours["context_bytes"]
        return [device[k] - context[k] for k in ("lower", "expected", "upper")]
    b = ours[{"allocated": "peak_allocated_bytes"}.get(counter, counter + "_bytes")]
    return [b[k] for k in ("lower", "expected", "upper")]


def read(table):
    """rows: source, model, options, counter, measured bytes, what the version kept beside, why it may be outside"""
    rows = []
    with open(table) as f:
        for n, line in enumerate(f, 1):
            if not line.strip() or line[0] == "#":
                continue
            fields = [x.strip() for x in line.split("|")]
            if len(fields) != 7 or fields[3] not in COUNTERS:
                raise Problem(f"{table}:{n}: expected SOURCE | MODEL | OPTIONS | COUNTER | MEASURED | KEPT | WHY")
            try:
                measured, kept = (int(float(x[:-3]) * MIB) if x.endswith("MiB") else int(x or 0) for x in fields[4:6])
            except ValueError:
                raise Problem(f"{table}:{n}: not a number of bytes or of MiB: {fields[4]} {fields[5]}")
            rows.append((*fields[:4], measured, kept, fields[6]))
    return rows


def estimate(model, options, folder, known):
    key = model, options
    if key not in known:
        path, text = text_of(model, folder)
        p = subprocess.run([TOOL, "estimate", path, "--json", *options.split()], input=text, capture_output=True, text=True)
        if p.returncode not in (0, 3):
            raise Problem(f"{model} {options}: {(p.stderr.strip().splitlines() or ['no word'])[-1]}")
        known[key] = json.loads(p.stdout)
    return known[key]


def summary(offs, outside):
    for counter in (*COUNTERS, "all"):
        of = [abs(x) for c, x in offs if counter in (c, "all")]
        if of:
            print(
                f"{counter:10} {len(of):4} measurements: median {100 * statistics.median(of):.2f} %, "
                f"mean {100 * statistics.mean(of):.2f} %, worst {100 * max(of):.2f} %, outside the bounds {sum(counter in (c, 'all') for c in outside)}"
            )


def main(argv):
    if len(argv) > 2 or argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(argv) == 2 else 2
    table = argv[1] if len(argv) == 2 else TABLE
    offs, outside, unexplained, known = [], [], 0, {}
    print(
        f"{'source':12} {'model and options':64} {'counter':9} {'measured':>9} {'expected':>9} {'off':>8} {'lower':>9} {'upper':>9}  (MiB)"
    )
    for source, model, options, counter, measured, kept, why in read(table):
        lower, expected, upper = bounds_of(counter, estimate(model, options, os.path.dirname(table), known))
        expected, upper = expected + kept, upper + kept
        off = expected / measured - 1
        out = not lower <= measured <= upper
        offs.append((counter, off))
        if out:
            outside.append(counter)
            unexplained += not why
        name = (model if len(model) < 24 else model[:21] + "...") + " " + options
        figures = " ".join(f"{x / MIB:9.1f}" for x in (measured, expected))
        print(
            f"{source:12} {name[:64]:64} {counter:9} {figures} {100 * off:+7.2f}% {lower / MIB:9.1f} {upper / MIB:9.1f}"
            + (f"  outside{': ' + why if why else ''}" if out else "")
        )
    print()
    summary(offs, outside)
    print(f"\npublished: {len(offs) - unexplained} passed, {unexplained} failed")
    return unexplained > 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv))
    except (Problem, OSError) as e:
        print(f"published: {e}", file=sys.stderr)
        sys.exit(2)
