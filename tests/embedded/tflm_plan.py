"""TensorFlow Lite Micro's greedy planner, written down from its description, and the comparison
with `vram arena --order tflm`.

    tflm_plan.py VRAM FILE.csv ...      offsets of both are equal for every file
    tflm_plan.py VRAM --random N        and for N random problems
    tflm_plan.py --height FILE.csv      the height alone

Lifetimes there are inclusive (first op, last op); the files' upper is the first moment after. The
buffers come in the order of the file. Of equal sizes the later buffer is placed first: the planner
fills its list from the end and sorts it stably, the largest first.
"""

import csv
import os
import random
import subprocess
import sys
import tempfile


def plan(buffers):
    """buffers: (size, first, last), both inclusive. The offset of each."""
    order = [i for i in reversed(range(len(buffers))) if buffers[i][0]]
    order.sort(key=lambda i: -buffers[i][0])  # stable
    offset = [0] * len(buffers)
    placed = []  # by offset
    for i in order:
        size, first, last = buffers[i]
        at = 0
        for k in placed:
            if buffers[k][1] > last or first > buffers[k][2]:
                continue
            if offset[k] - at >= size:
                break
            at = max(at, offset[k] + buffers[k][0])
        offset[i] = at
        n = 0
        while n < len(placed) and offset[placed[n]] <= at:
            n += 1
        placed.insert(n, i)
    return offset


def height(buffers):
    return max((at + b[0] for at, b in zip(plan(buffers), buffers)), default=0)


def read(path, align=1):
    """Sizes rounded up to align, as the planner's caller does it."""
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    up = lambda n: (n + align - 1) // align * align
    return [(up(int(r["size"])), int(r["lower"]), int(r["upper"]) - 1) for r in rows]


def theirs(vram, path, align):
    out = subprocess.run(
        [vram, "arena", path, "--order", "tflm", "--align", str(align), "--csv"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [int(r["offset"]) for r in csv.DictReader(out.splitlines())]


def compare(vram, path, align):
    buffers = read(path, align)
    if theirs(vram, path, align) == plan(buffers):
        return 1
    print(f"{path}, align {align}: offsets differ")
    return 0


def write(path, buffers):
    with open(path, "w") as f:
        f.write("id,lower,upper,size\n")
        for i, (size, first, last) in enumerate(buffers):
            f.write(f"b{i},{first},{last + 1},{size}\n")


def problem(r):
    """Many equal sizes, few moments: ties decide."""
    ops = r.randint(1, 12)
    sizes = [r.randint(0, 60) for _ in range(r.randint(1, 9))]
    buffers = []
    for _ in range(r.randint(1, 40)):
        first = r.randint(0, ops)
        buffers.append((r.choice(sizes), first, r.randint(first, ops)))
    return buffers


def main(args):
    if args[0] == "--height":
        print(height(read(args[1])))
        return 0
    vram, files = args[0], args[1:]
    good = n = 0
    if files[0] == "--random":
        r = random.Random(1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "random.csv")
            for n in range(1, int(files[1]) + 1):
                write(path, problem(r))
                good += compare(vram, path, r.choice((1, 16)))
    else:
        for n, path in enumerate(files, 1):
            good += compare(vram, path, 1) and compare(vram, path, 16)
    print(f"{good} of {n}")
    return good != n


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
