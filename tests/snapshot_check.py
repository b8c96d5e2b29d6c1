"""Files that test_report wrote, read by Python: snapshots (pickle and JSON say the same, only opcodes
that the viewer knows, the trace played backwards from the segments), traces for a browser, CSV,
summaries. With torch also its own readers.
usage: snapshot_check.py FOLDER [torch]
       snapshot_check.py --step PICKLE REPORT
"""

import csv
import json
import os
import pickle
import pickletools
import sys

passed = failed = 0

OPCODES = set(
    "PROTO FRAME MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET STOP EMPTY_DICT DICT SETITEM SETITEMS EMPTY_LIST "
    "LIST APPEND APPENDS MARK EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 BINUNICODE SHORT_BINUNICODE BININT BININT1 "
    "BININT2 LONG1 BINFLOAT NONE NEWTRUE NEWFALSE".split()
)


def check(ok, what):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        if failed < 20:
            print(f"{where}: {what}")


def lists(x):
    if isinstance(x, (list, tuple)):
        return [lists(y) for y in x]
    return {k: lists(v) for k, v in x.items()} if isinstance(x, dict) else x


def opcodes(data):
    """Known ones, and no APPENDS of more than 1,000 items."""
    marks, depth, most, known = [], 0, 0, True
    for op, arg, _ in pickletools.genops(data):
        known &= op.name in OPCODES and (op.name != "PROTO" or arg == 2)
        known &= op.name != "LONG1" or -(2**63) <= arg < 2**63
        if op.name == "MARK":
            marks.append(depth)
        elif op.name in ("APPENDS", "SETITEMS"):
            at = marks.pop()
            most = max(most, depth - at if op.name == "APPENDS" else 0)
            depth = at
        elif op.name == "TUPLE2":
            depth -= 1
        elif op.name not in ("PROTO", "STOP", "BINPUT"):
            depth += 1
    return known and most <= 1000 and depth == 1 and not marks


class Memory:
    """Segments and blocks; every step asks whether it was possible."""

    def __init__(self, segments):
        self.segment = {}  # address: size
        self.block = {}  # address: [size, state]
        for s in segments:
            check(s["address"] not in self.segment, "a segment twice")
            self.segment[s["address"]] = s["total_size"]
            at = s["address"]
            for b in s["blocks"]:
                check(b["address"] == at and b["size"] > 0, "blocks tile their segment")
                at += b["size"]
                if b["state"] != "inactive":
                    self.block[b["address"]] = [b["requested_size"], b["state"]]
            check(at == s["address"] + s["total_size"], "blocks fill their segment")
            active = [b for b in s["blocks"] if b["state"] != "inactive"]
            check(s["active_size"] == sum(b["size"] for b in active), "active_size")
            check(s["requested_size"] == sum(b["requested_size"] for b in active), "requested_size")
            check(
                s["allocated_size"] == sum(b["size"] for b in active if b["state"] == "active_allocated"),
                "allocated_size",
            )

    def inside(self, address, size):
        return any(a <= address and address + size <= a + n for a, n in self.segment.items())

    def back(self, e):
        a, size, action = e.get("addr"), e["size"], e["action"]
        if action == "free_completed":
            check(a not in self.block and self.inside(a, size), "free_completed of what is there")
            self.block[a] = [size, "active_pending_free"]
        elif action == "free_requested":
            ok = self.block.get(a, [0, ""])
            check(ok == [size, "active_pending_free"], "free_requested of what does not wait")
            ok[1] = "active_allocated"
        elif action == "alloc":
            check(self.block.pop(a, None) == [size, "active_allocated"], "alloc of what is not there")
        elif action == "segment_free":
            check(not any(b < a + size and a < b + n for b, n in self.segment.items()), "segment_free")
            self.segment[a] = size
        elif action == "segment_alloc":
            check(self.segment.pop(a, None) == size, "segment_alloc of what is not there")
            check(not any(a <= b < a + size for b in self.block), "segment_alloc with blocks in it")
        elif action == "segment_unmap":
            for b, n in list(self.segment.items()):
                if b + n == a:
                    a, size = b, size + self.segment.pop(b)
            size += self.segment.pop(a + size, 0)
            self.segment[a] = size
        elif action == "segment_map":
            home = [(b, n) for b, n in self.segment.items() if b <= a and a + size <= b + n]
            check(len(home) == 1, "segment_map of what is not mapped")
            for b, n in home:
                del self.segment[b]
                if b < a:
                    self.segment[b] = a - b
                if a + size < b + n:
                    self.segment[a + size] = b + n - a - size
        else:
            check(action in ("oom", "snapshot"), action)


def play(segments, trace, whole):
    memory = Memory(segments)
    for e in reversed(trace):
        memory.back(e)
    if whole:
        check(not memory.block and not memory.segment, "the whole trace begins with nothing")
    check([e["time_us"] for e in trace] == sorted(e["time_us"] for e in trace), "time goes on")


def sums(segments, stats, which):
    pools = {}
    for s in segments:
        p = 1 if s["segment_type"] == "small" else 2
        for k in (0, p):
            t = pools.setdefault(k, [0] * 6)
            active = [b for b in s["blocks"] if b["state"] != "inactive"]
            for i, v in enumerate(
                (
                    s["total_size"],
                    s["allocated_size"],
                    s["active_size"],
                    s["requested_size"],
                    len(active),
                    0 if s["is_expandable"] else 1,
                )
            ):
                t[i] += v
    names = "reserved_bytes allocated_bytes active_bytes requested_bytes active segment".split()
    for k in range(3):
        for i, name in enumerate(names):
            check(pools.get(k, [0] * 6)[i] == stats[which, name, k][0], f"{which} {name} {k}")


def viewer(snapshot):
    """What the page asks of a snapshot."""
    categories = {e.get("category") for t in snapshot["device_traces"] for e in t}
    check(not categories or "unknown" in categories, "one entry without a category")
    for t in snapshot["device_traces"]:
        for e in t:
            check(("device_free" if e["action"] == "oom" else "addr") in e, "addr or device_free")
            for f in e["frames"]:
                check(set(f) == {"name", "filename", "line"}, "a frame")


def perfetto(text, stats, whole):
    lines = json.loads(text)["traceEvents"]
    last, open_spans = {}, set()
    for e in lines:
        if e["ph"] == "C" and e["name"] == "memory":
            last[e["pid"]] = e["args"]
            check(min(e["args"].values()) >= 0 and max(e["args"].values()) < 2**60, "a counter")
        elif e["ph"] == "C":
            check(max(e["args"].values()) < 2**60, "a category's counter")
        elif e["ph"] in "be":
            key = e["pid"], e["id"]
            check((key in open_spans) == (e["ph"] == "e"), "a span begins and ends once")
            (open_spans.discard if e["ph"] == "e" else open_spans.add)(key)
    for pid, args in last.items():
        which = "host0" if pid == 255 else f"device{pid}"
        check(args["allocated"] == stats[which, "allocated_bytes", 0][0], f"{which} allocated at the end")
        check(args["reserved"] == stats[which, "reserved_bytes", 0][0], f"{which} reserved at the end")


def table(path, trace_lengths, whole):
    alive, n = {}, 0
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            check(None not in row and None not in row.values(), "as many fields as columns")
            n += 1
            key = row["id"]
            if row["action"] == "alloc":
                check(key not in alive, "an id comes once")
                alive[key] = row["size"], row["address"]
            elif row["action"] == "free_completed":
                check(
                    alive.pop(key, None if whole else (row["size"], row["address"])) is not None, "freed once"
                )
    check(n > 0, "lines")
    return n


def read_stats(path):
    stats = {}
    with open(path) as f:
        for line in f:
            w = line.split()
            stats[tuple(w[:2]) + (int(w[2]),) if len(w) > 2 else w[0]] = (
                [int(x) for x in w[3:]] if len(w) > 2 else int(w[1])
            )
    return stats


def torch_readers(snapshot, stats, summary):
    import torch.cuda.memory
    from torch.cuda import _memory_viz as viz

    text = viz.segsum(snapshot)
    reserved = sum(s["total_size"] for s in snapshot["segments"])
    check(f"total_reserved: {viz.Bytes(reserved)}" in text, "torch: stats")
    check(f"segments: {len(snapshot['segments'])}\n" in text, "torch: stats, segments")
    same = lambda lines: lines
    for view in (viz.segments, viz.memory):
        flames = view(snapshot, format_flamegraph=same)
        check(
            sum(int(f.rsplit(" ", 1)[1]) for f in flames.splitlines()) == reserved, f"torch: {view.__name__}"
        )
    text = viz.trace(snapshot)
    allocs = sum(e["action"] == "alloc" for t in snapshot["device_traces"] for e in t)
    check(text.count("[") >= allocs, "torch: trace")
    for view in (viz.trace_plot, viz.segment_plot):
        check("<script" in view(snapshot), f"torch: {view.__name__}")
    torch.cuda.memory.memory_stats = lambda device=None: stats
    ours, theirs = summary.splitlines(), torch.cuda.memory.memory_summary(0).splitlines()
    check(len(ours[1]) == 77 and "vram memory summary, device ID 0" in ours[1], "the title")
    check(
        len(ours) == len(theirs) and ours[2:] == theirs[2:] and ours[0] == theirs[0], "torch: memory_summary"
    )


def torch_stats(stats):
    names = ("all", "small_pool", "large_pool")
    d = {
        f"{k[1]}.{names[k[2]]}.{what}": v[i]
        for k, v in stats.items()
        if k[0] == "device0"
        for i, what in enumerate(("current", "peak", "allocated", "freed"))
    }
    for k in ("oversize_allocations", "oversize_segments"):
        d.update({f"{k}.{what}": 0 for what in ("current", "peak", "allocated", "freed")})
    return d


def step(path, report):
    """A predicted step: what was there before it, and its events up to the end."""
    with open(path, "rb") as f:
        snapshot = pickle.load(f)
    with open(report, encoding="utf-8") as f:
        report = json.load(f)
    segments, trace = snapshot["segments"], snapshot["device_traces"][0]
    play(segments, trace, False)
    now = high = sum(s["requested_size"] for s in segments)
    for e in reversed(trace):
        now += {"free_completed": e["size"], "alloc": -e["size"]}.get(e["action"], 0)
        high = max(high, now)
    check(high == report["peak_requested_bytes"], f"the peak is {high}")
    reserved = sum(s["total_size"] for s in segments)
    check(reserved == report["peak_reserved_bytes"], f"reserved is {reserved}")
    check(any(e["frames"] for e in trace), "nodes are frames")


if sys.argv[1] == "--step":
    where = sys.argv[2]
    step(*sys.argv[2:])
    print(f"snapshot_check: {passed} passed, {failed} failed")
    sys.exit(failed != 0)

folder = sys.argv[1]
for kind in range(7):
    where = f"scene {kind}"
    name = os.path.join(folder, str(kind))
    with open(name + ".pickle", "rb") as f:
        data = f.read()
    with open(name + ".json", encoding="utf-8") as f:
        text = f.read()
    stats = read_stats(name + ".stats")
    snapshot = pickle.loads(data)
    check(lists(snapshot) == json.loads(text), "pickle and JSON are the same")
    check(opcodes(data), "opcodes that the viewer knows, in small batches")
    viewer(snapshot)
    devices = len(snapshot["device_traces"])
    for d in range(devices):
        mine = [s for s in snapshot["segments"] if s["device"] == d]
        play(mine, snapshot["device_traces"][d], stats["whole"])
        if not stats["lost"]:
            sums(mine, stats, f"device{d}")
    play(snapshot["host_segments"], snapshot["host_traces"], stats["whole"])
    if not stats["lost"]:
        sums(snapshot["host_segments"], stats, "host0")
    check(snapshot["allocator_settings"]["trace_alloc_overflowed"] == (not stats["whole"]), "overflowed")
    with open(name + ".trace", encoding="utf-8") as f:
        (
            perfetto(f.read(), stats if not stats["lost"] else {}, stats["whole"])
            if not stats["lost"]
            else json.load(f)
        )
    table(name + ".csv", devices, stats["whole"])
    with open(name + ".summary") as f:
        summary = f.read()
    if len(sys.argv) > 2 and not stats["lost"]:
        values = torch_stats(stats)
        ooms = summary.split("CUDA OOMs: ")[1].split()[0], summary.split("retries: ")[1].split()[0]
        values["num_ooms"], values["num_alloc_retries"] = map(int, ooms)
        torch_readers(snapshot, values, summary)

print(f"snapshot_check: {passed} passed, {failed} failed")
