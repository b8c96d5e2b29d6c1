#!/usr/bin/env python3
"""Writes the streams of this folder from recorded ones, never from vram's own output.
usage: make.py TRUTH_DIR/allocator NAME...

Lines `key value` (conf, total: bytes of the device, limit: bytes of the memory fraction, retries, ooms), then `stream` and
one word for each call:
  SIZE[@STREAM][=BLOCK]  an allocation; BLOCK: what it counts as, where that is not SIZE rounded up to 512; ! after it: it failed
  -K                     the K-th newest of what is allocated goes (0: the newest)
  ~K@STREAM              the K-th newest is used by that stream, too; what a stream was given has always run when it is asked
  e                      empty_cache
and the bytes of reserved memory (r+N, r-N), segments (s+N, s-N), active bytes where they are not those allocated (a+N, a-N) by which
the call changed them. Of models' streams, which were
recorded with addresses, `addresses HASH`: FNV-1a 64 over 8 little-endian bytes of each address in order.
record.py writes further ones."""
import csv, json, os, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def fnv(h, x):
    for b in x.to_bytes(8, "little"):
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


class Words:
    def __init__(self):
        self.words, self.live, self.state = [], [], (0, 0, 0)

    def alloc(self, name, size, stream, block, ok):
        w = str(size) + (f"@{stream}" if stream else "")
        if not ok:
            return self.words.append(w + "!")
        self.live.append(name)
        self.words.append(w + (f"={block}" if block != max(512, -(-size // 512) * 512) else ""))

    def free(self, name):
        i = self.live.index(name)
        self.words.append(f"-{len(self.live) - 1 - i}")
        self.live.pop(i)

    def then(self, reserved, segments, waiting=0):
        for key, new, old in zip("rsa", (reserved, segments, waiting), self.state):
            if new != old:
                self.words[-1] += f"{key}{new - old:+d}"
        self.state = reserved, segments, waiting

    def write(self, name, head):
        with open(os.path.join(HERE, name + ".txt"), "w") as f:
            for k, v in head.items():
                f.write(f"{k} {v}".rstrip() + "\n")
            f.write("stream\n")
            line = ""
            for w in self.words:
                if len(line) + len(w) > 158:
                    f.write(line + "\n")
                    line = ""
                line += (" " if line else "") + w
            f.write(line + "\n")


def synthetic(path, name):
    j, w, before = json.load(open(path + ".json")), Words(), 0
    for r in csv.DictReader(open(path + ".csv")):
        allocated = int(r["allocated"])
        if r["action"] == "alloc":
            w.alloc(r["id"], int(r["size"]), int(r["stream"]), allocated - before, r["result"] == "ok")
        elif r["action"] == "free":
            w.free(r["id"])
        else:
            w.words.append("e")
        before = allocated
        w.then(int(r["reserved"]), int(r["segments"]))
    fraction, total = j["memory_fraction"], j["total_bytes"]
    head = {"conf": j["alloc_conf"], "total": total, "limit": int(fraction * total) if fraction != 1 else 0}
    w.write(name, head | {"retries": j["num_alloc_retries"], "ooms": j["ooms"]})


def model(rows, final, name):
    """Segments come before the allocation that they are for, frees before their completion."""
    w, h, reserved, segments = Words(), 0xCBF29CE484222325, 0, 0
    for r in rows:
        size = int(r["size"])
        if r["action"].startswith("segment"):
            sign = 1 if r["action"] == "segment_alloc" else -1
            reserved, segments = reserved + sign * size, segments + sign
        elif r["action"] == "alloc":
            block = max(512, -(-size // 512) * 512)
            w.alloc(r["id"], size, int(r["stream"]), block, True)
            h = fnv(h, int(r["addr"], 16))
            w.then(reserved, segments)
        elif r["action"] == "free_completed":
            w.free(r["id"])
            w.then(reserved, segments)
    head = {"conf": "", "total": 80 << 30, "limit": 0, "retries": 0, "ooms": 0, "allocated": final["final_allocated"]}
    w.write(name, head | {"peak_allocated": final["peak_allocated"], "addresses": f"{h:016x}"})


if __name__ == "__main__":
    for name in sys.argv[2:]:
        path = os.path.join(sys.argv[1], "synthetic", name)
        if os.path.exists(path + ".csv"):
            synthetic(path, name)
        else:
            path = os.path.join(sys.argv[1], "models", name)
            model(csv.DictReader(open(path + ".csv")), json.load(open(path + ".json")), name)
