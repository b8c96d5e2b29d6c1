"""Random networks, one line for each layer, in two files of a folder:

    python random_nets.py COUNT SEED DIR

DIR/nets.h has the lines of COUNT networks net0, net1, ...; DIR/rows.inc includes each as rows of a
table (tests/embedded/random_nets.c). Only what is right by the rules of vram.h; no sizes or bytes
are counted here except shapes.
"""

import random
import sys

count, seed, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
random.seed(seed)
r = random.randint
FORMATS = ["F32", "F16", "I8", "I8_PER_TENSOR", "I8_PER_CHANNEL", "I8W4", "I16", "I4"]
VALUES = {"F32": "F32", "F16": "F16", "I16": "I16", "I4": "I4"}  # else 8 bits


class Net:
    def __init__(self, name):
        self.name, self.lines, self.n = name, [], 0
        self.format = random.choice(FORMATS)
        align, kernels = random.choice([1, 4, 16, 64]), random.choice(["NONE", "NONE", "PLAIN", "DSP", "MVE"])
        self.shape = (r(3, 14), r(1, 12), r(1, 9))
        self.kept = []  # (handle, shape, format, an output holds it)
        self.held = 0  # the value: 1 kept, 2 an output
        self.bias = 0
        self.value = "input"
        n = random.choice([1, 1, 1, 2, 3])
        h, w, c = self.shape
        self.lines.append(
            f"VRAM_NET_BEGIN_WITH({name}, {self.format}, {n}, {h}, {w}, {c}, {align}, {kernels});"
        )

    def more_inputs(self):
        """each behind what is kept"""
        for _ in range(random.choice([0, 0, 0, 1, 2])):
            y = self.add("KEEP", held=1)
            self.kept.append((y, self.shape, self.format, 0))
            self.format, shape = random.choice(FORMATS), (r(1, 14), r(1, 12), r(1, 9))
            self.add("INPUT", (self.format, *shape), shape)

    def add(self, kind, args=(), shape=None, held=0, bias=0):
        y = f"v{self.n}"
        self.n += 1
        text = ", ".join([self.name, y, self.value, *map(str, args)])
        self.lines.append(f"VRAM_NET_{kind}({text});")
        self.value, self.shape, self.held, self.bias = y, shape or self.shape, held, bias
        return y

    def window(self, pool):
        """kernel, stride, padding and the size that comes out, of one axis each"""
        h, w, _ = self.shape
        kh, kw, sh, sw = r(1, 4), r(1, 4), r(1, 3), r(1, 3)
        kind = random.choice(["SAME", "VALID", "PAD", "PAD_CEIL"] if pool else ["SAME", "VALID", "PAD"])
        if kind == "SAME":
            return kh, kw, sh, sw, kind, -(-h // sh), -(-w // sw)
        ph = pw = 0
        if kind != "VALID":
            ph, pw = r(0, kh // 2), r(0, kw // 2)
        kh, kw = min(kh, h + 2 * ph), min(kw, w + 2 * pw)
        if kind == "PAD_CEIL":
            ph, pw = min(ph, kh // 2), min(pw, kw // 2)
        kh, kw = min(kh, h + 2 * ph), min(kw, w + 2 * pw)

        def out(size, k, s, p):
            o = (size + 2 * p - k) // s + 1
            if kind == "PAD_CEIL":
                o = -(-(size + 2 * p - k) // s) + 1
                if (o - 1) * s >= size + p:
                    o -= 1
            return o

        padding = kind if kind == "VALID" else f"{kind}({ph}, {pw})"
        return kh, kw, sh, sw, padding, out(h, kh, sh, ph), out(w, kw, sw, pw)

    def step(self):
        h, w, c = self.shape
        choice = random.choice
        pick = choice(
            ["conv"] * 5
            + [
                "depthwise",
                "full",
                "deep",
                "transposed",
                "linear",
                "pool",
                "global",
                "upsample",
                "each",
                "each",
                "part",
            ]
            + ["pad", "slice", "reshape", "transpose", "keep", "keep", "keep", "keep", "from", "from", "both"]
            + [
                "both",
                "both",
                "concat",
                "concat",
                "rnn",
                "attention",
                "quantize",
                "custom",
                "output",
                "table",
                "constants",
            ]
        )
        b = r(0, 1)
        if pick == "conv" or pick == "depthwise":
            kh, kw, sh, sw, p, oh, ow = self.window(False)
            if pick == "conv":
                oc = r(1, 12)
                self.add("CONV2D", (oc, kh, kw, sh, sw, p, b), (oh, ow, oc), bias=b)
            else:
                m = r(1, 2)
                self.add("DEPTHWISE_CONV2D", (m, kh, kw, sh, sw, p, b), (oh, ow, c * m), bias=b)
        elif pick == "full":
            groups = choice([g for g in range(1, c + 1) if c % g == 0])
            oc, kh, kw, dh, dw = groups * r(1, 3), r(1, 3), r(1, 3), r(1, 3), r(1, 3)
            if choice([0, 1]):
                sh, sw = r(1, 2), r(1, 2)
                self.add(
                    "CONV2D_FULL",
                    (oc, kh, kw, sh, sw, dh, dw, "SAME", groups, b),
                    (-(-h // sh), -(-w // sw), oc),
                    bias=b,
                )
            elif dh * (kh - 1) < h and dw * (kw - 1) < w:
                oh, ow = h - dh * (kh - 1), w - dw * (kw - 1)
                self.add("DEPTHWISE_CONV2D_FULL", (1, kh, kw, 1, 1, dh, dw, "VALID", b), (oh, ow, c), bias=b)
        elif pick == "deep":
            depth = choice([d for d in range(1, h + 1) if h % d == 0])
            oc, kd, sd = r(1, 5), r(1, 3), r(1, 2)
            self.shape = (h // depth, w, c)
            kh, kw, sh, sw, p, oh, ow = self.window(False)
            pd = 0 if p == "SAME" else r(0, 1)
            kd = kd if p == "SAME" else min(kd, depth + 2 * pd)
            od = -(-depth // sd) if p == "SAME" else (depth + 2 * pd - kd) // sd + 1
            self.shape = (h, w, c)
            args = (depth, oc, kd, kh, kw, sd, sh, sw, pd, p, b)
            self.add("CONV3D", args, (od * oh, ow, oc), bias=b)
        elif pick == "transposed" and h * w < 200:
            oc, k, s = r(1, 6), r(2, 3), r(1, 2)
            kind = choice(["SAME", "VALID"])
            oh, ow = (h * s, w * s) if kind == "SAME" else ((h - 1) * s + k, (w - 1) * s + k)
            self.add("CONV_TRANSPOSE2D", (oc, k, k, s, s, kind, 0, 0, b), (oh, ow, oc), bias=b)
        elif pick == "linear":
            oc = r(1, 20)
            self.add("LINEAR", (oc, b), (h, w, oc), bias=b)
        elif pick == "pool":
            kh, kw, sh, sw, p, oh, ow = self.window(True)
            self.add(choice(["MAX_POOL2D", "AVG_POOL2D"]), (kh, kw, sh, sw, p), (oh, ow, c))
        elif pick == "global" and r(0, 3) == 0:
            self.add(choice(["GLOBAL_AVG_POOL2D", "GLOBAL_MAX_POOL2D"]), (), (1, 1, c))
        elif pick == "upsample" and h * w < 100:
            self.add("UPSAMPLE2D", (2, r(1, 3)), None)
            fw = int(self.lines[-1].split(",")[-1].rstrip(");"))
            self.shape = (h * 2, w * fw, c)
        elif pick == "each":
            kind = choice(["ACTIVATION", "SOFTMAX", "BATCH_NORM", "LAYER_NORM", "RMS_NORM"])
            self.add(kind + ("" if self.held else choice(["", "_INPLACE"])))
        elif pick == "part" and not self.held:
            kind = choice(["ACTIVATION_FUSED", "BATCH_NORM_FOLDED"] if self.bias else ["ACTIVATION_FUSED"])
            self.add(kind, bias=self.bias)
        elif pick == "table" and not self.held:
            self.add("ACTIVATION_TABLE", (r(1, 1026),))
        elif pick == "constants":
            self.add("CONSTANTS", (r(0, 40),), held=self.held)
        elif pick == "pad" and h * w < 200:
            t = [r(0, 2) for _ in range(4)]
            self.add("PAD", t, (h + t[0] + t[1], w + t[2] + t[3], c))
        elif pick == "slice":
            s = (r(1, h), r(1, w), r(1, c))
            self.add("SLICE", s, s)
        elif pick == "reshape":
            if choice([0, 1]):
                self.add("RESHAPE", (w, h, c), (w, h, c), held=self.held)
            elif h * w * c < 300:
                self.add("FLATTEN", (), (1, 1, h * w * c), held=self.held)
        elif pick == "transpose":
            self.add("TRANSPOSE", (c, w, h), (c, w, h))
        elif pick == "keep" and self.held != 1 and len(self.kept) < 5:
            was = self.held
            y = self.add("KEEP", held=max(1, was))
            self.kept.append((y, self.shape, self.format, was))
        elif pick == "output" and not self.held and r(0, 2) == 0:
            self.add("OUTPUT", held=2)
        elif pick == "from" and self.kept:
            k = self.kept.pop(r(0, len(self.kept) - 1))
            if k[0] == self.value:
                return self.kept.append(k)
            self.add("FROM", (k[0],), k[1], held=k[3])
            self.format = k[2]
        elif pick == "both":
            values = VALUES.get(self.format)
            fit = [
                k
                for k in self.kept
                if VALUES.get(k[2]) == values
                and all(a == b or a == 1 or b == 1 for a, b in zip(k[1], self.shape))
            ]
            if fit:
                k = choice(fit)
                self.kept.remove(k)
                shape = tuple(map(max, k[1], self.shape))
                over = shape == self.shape and not self.held and choice([0, 1])
                self.add(choice(["ADD", "MUL"]) + ("_INPLACE" if over else ""), (k[0],), shape)
        elif pick == "concat":
            values = VALUES.get(self.format)
            fit = [k for k in self.kept if VALUES.get(k[2]) == values and k[1][:2] == self.shape[:2]]
            random.shuffle(fit)
            fit = fit[: r(1, 3)]
            if fit:
                for k in fit:
                    self.kept.remove(k)
                names = ["CONCAT", "CONCAT3", "CONCAT4"]
                shape = (h, w, c + sum(k[1][2] for k in fit))
                self.add(names[len(fit) - 1], [k[0] for k in fit], shape)
        elif pick == "rnn" and w == 1 and c < 40:
            hidden, sequence, ways = r(1, 9), r(0, 1), r(1, 2)
            self.add(
                choice(["LSTM", "GRU", "RNN"]) + ("" if ways == 1 else "_BIDIRECTIONAL"),
                (hidden, r(0, 2), sequence),
                (h if sequence else 1, 1, ways * hidden),
            )
        elif pick == "attention" and w == 1 and c < 40:
            kv = r(1, 3)
            heads = (kv * r(1, 3), kv, r(1, 7))
            if choice([0, 1]):
                self.add("ATTENTION", (*heads, h + r(0, 9), b))
            else:
                self.add("SELF_ATTENTION", (*heads, b))
        elif pick == "quantize" and r(0, 2) == 0:
            f = choice(FORMATS)
            self.add("QUANTIZE", (f,))
            self.format = f
        elif pick == "custom" and r(0, 3) == 0:
            s = (r(1, 8), r(1, 8), r(1, 8))
            self.add("CUSTOM", s + tuple(r(0, 500) for _ in range(5)), s)

    def end(self):
        while self.kept:  # every handle is taken
            k = self.kept.pop(r(0, len(self.kept) - 1))
            self.add("FROM", (k[0],), k[1], held=k[3])
            self.format = k[2]
            self.add("ACTIVATION")
        self.lines.append(f"VRAM_NET_END({self.name}, {self.value});")


with open(folder + "/nets.h", "w") as lines, open(folder + "/rows.inc", "w") as rows:
    for i in range(count):
        net = Net(f"net{i}")
        net.more_inputs()
        for _ in range(r(1, 30)):
            net.step()
        if net.n == 0:
            net.add("ACTIVATION")
        net.end()
        with open(f"{folder}/net{i}.h", "w") as one:
            one.write("\n".join(net.lines) + "\n")
        lines.write(f'#include "net{i}.h"\n')
        rows.write(f'static void fill{i}(row *at) {{\n#include "net{i}.h"\n}}\n')
        offsets = ", ".join(
            f"VRAM_NET_OFFSET(net{i}, {y})" for y in ["input"] + [f"v{k}" for k in range(net.n)]
        )
        rows.write(f"static const uint64_t offset{i}[] = {{{offsets}}};\n")
        scratch = ", ".join(["0"] + [f"VRAM_NET_SCRATCH_OFFSET(net{i}, v{k})" for k in range(net.n)])
        rows.write(f"static const uint64_t scratch{i}[] = {{{scratch}}};\n")
    rows.write("static const net nets[] = {\n")
    rows.write("".join(f"    NET({i}),\n" for i in range(count)) + "};\n")
