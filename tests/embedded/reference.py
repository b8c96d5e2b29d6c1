"""The scores of examples/embedded, computed again from the definitions of TFLite's int8 operators.

python3 tests/embedded/reference.py weights.h examples/embedded/kws.c: arrays from the first file, zero
points and scales of single layers from both; the shapes are written down here once more. Rounding is
done on exact fractions; softmax, whose definition is a sequence of fixed-point steps, is also compared
with that of real numbers.
"""

import math
import re
import sys
from fractions import Fraction


def read(paths):
    text = "".join(open(p).read() for p in paths)
    arrays, scales, zeros = {}, {}, {}
    for kind, name, body in re.findall(
        r"const (int8_t|int32_t|struct scale) (\w+)\[\][^=]*= \{(.*?)\};", text, re.S
    ):
        numbers = [int(n) for n in re.findall(r"-?\d+", body)]
        arrays[name] = list(zip(numbers[::2], numbers[1::2])) if kind == "struct scale" else numbers
    for name, multiplier, shift in re.findall(r"(\w+) = \{(-?\d+), (-?\d+)\}", text):
        scales[name] = (int(multiplier), int(shift))
    for name, value in re.findall(r"(\w+)_zero = (-?\d+|\w+_zero)", text):
        zeros[name] = zeros[value[:-5]] if value.endswith("_zero") else int(value)
    return arrays, scales, zeros


def half_up(x):
    return math.floor(x + Fraction(1, 2))


def half_away(x):
    return half_up(x) if x >= 0 else -half_up(-x)


def high(x, y):  # the product of two fractions of 2^31
    return min(half_up(Fraction(x * y, 2**31)), 2**31 - 1)


def rescale(x, scale):
    multiplier, shift = scale
    if shift > 0:
        return high(x * 2**shift, multiplier)
    return half_away(Fraction(high(x, multiplier), 2**-shift))


def clamp(x, low, top=127):
    return max(low, min(top, x))


def same(size, kernel, stride):  # outputs, padding before
    out = -(-size // stride)
    return out, max((out - 1) * stride + kernel - size, 0) // 2


class Net:
    def __init__(self, paths):
        self.arrays, self.scales, self.zero = read(paths)
        self.digest = 2166136261

    def out(self, name, rows, height, width, channels):
        flat = [v for row in rows for pixel in row for v in pixel]
        assert len(rows) == height and len(rows[0]) == width and len(rows[0][0]) == channels
        for v in flat:
            self.digest = (self.digest ^ v % 256) * 16777619 % 2**32
        return rows

    def convolution(self, y, x, image, kh, kw, stride, channels, depthwise, relu):
        weights, bias, scale = (self.arrays[y + part] for part in ("_weights", "_bias", "_scale"))
        cin = len(image[0][0])
        oh, top = same(len(image), kh, stride)
        ow, left = same(len(image[0]), kw, stride)
        centred = [[[v - self.zero[x] for v in pixel] for pixel in row] for row in image]
        assert len(bias) == len(scale) == channels
        assert len(weights) == kh * kw * channels * (1 if depthwise else cin)
        if depthwise:  # [kh][kw][channels]
            kernel = [
                [[[weights[(i * kw + j) * channels + o]] for j in range(kw)] for i in range(kh)]
                for o in range(channels)
            ]
        else:  # [channels][kh][kw][cin]
            kernel = [
                [[weights[((o * kh + i) * kw + j) * cin :][:cin] for j in range(kw)] for i in range(kh)]
                for o in range(channels)
            ]
        low = self.zero[y] if relu else -128
        rows = []
        for r in range(oh):
            rows.append([])
            for c in range(ow):
                window = [
                    (i, j, centred[r * stride - top + i][c * stride - left + j])
                    for i in range(kh)
                    for j in range(kw)
                    if 0 <= r * stride - top + i < len(image) and 0 <= c * stride - left + j < len(image[0])
                ]
                pixel = []
                for o in range(channels):
                    total = bias[o]
                    for i, j, values in window:
                        if depthwise:
                            values = values[o : o + 1]
                        total += sum(a * b for a, b in zip(values, kernel[o][i][j]))
                    assert abs(total) < 2**31
                    pixel.append(clamp(rescale(total, scale[o]) + self.zero[y], low))
                rows[-1].append(pixel)
        return self.out(y, rows, oh, ow, channels)

    def add(self, y, a, b, left, right, relu):
        def one(p, q):
            total = rescale((p - self.zero[a]) * 2**20, self.scales[y + "_left"])
            total += rescale((q - self.zero[b]) * 2**20, self.scales[y + "_right"])
            return clamp(
                rescale(total, self.scales[y + "_sum"]) + self.zero[y], self.zero[y] if relu else -128
            )

        rows = [[[one(*v) for v in zip(*p)] for p in zip(*r)] for r in zip(left, right)]
        return self.out(y, rows, len(left), len(left[0]), len(left[0][0]))

    def mean(self, y, image):
        pixels = [pixel for row in image for pixel in row]
        rows = [[[half_away(Fraction(sum(channel), len(pixels))) for channel in zip(*pixels)]]]
        return self.out(y, rows, 1, 1, len(pixels[0]))

    def linear(self, y, x, image, features):
        values = [v - self.zero[x] for v in image[0][0]]
        weights, bias, (scale,) = (self.arrays[y + part] for part in ("_weights", "_bias", "_scale"))
        assert len(weights) == features * len(values) and len(bias) == features
        sums = [
            bias[o] + sum(a * b for a, b in zip(weights[o * len(values) :], values)) for o in range(features)
        ]
        return self.out(y, [[[clamp(rescale(s, scale) + self.zero[y], -128) for s in sums]]], 1, 1, features)

    def softmax(self, y, image):
        multiplier, shift = self.scales[y + "_beta"]
        logits = image[0][0]
        distance = [v - max(logits) for v in logits]
        least = -(31 * 2**26 // 2**shift)
        powers = [exponential(rescale(d, (multiplier, shift))) if d >= least else None for d in distance]
        total = sum(half_away(Fraction(p, 2**12)) for p in powers if p is not None)
        lead = 32 - total.bit_length()
        inverse = reciprocal(total * 2**lead - 2**31)
        scores = []
        for p in powers:
            share = 0 if p is None else half_away(Fraction(high(inverse, p), 2 ** (12 - lead + 31 - 8)))
            scores.append(clamp(share + self.zero[y], -128))
        beta = multiplier / 2**31 * 2**shift / 2**26
        real = [math.exp(d * beta) for d in distance]
        for score, value in zip(scores, real):
            assert (
                abs(score + 128 - min(255, 256 * value / sum(real))) < 1
            ), "softmax is not that of real numbers"
        return self.out(y, [[scores]], 1, 1, len(scores))


def exponential(x):
    """exp of a number <= 0 with 26 fraction bits; 31 fraction bits."""
    if x == 0:
        return 2**31 - 1
    part = x % 2**24 - 2**24  # [-1/4, 0)
    rest = part - x
    t = part * 2**5 + 2**28  # around -1/8
    t2 = high(t, t)
    t3, t4 = high(t2, t), high(t2, t2)
    third = half_up(Fraction(2**31, 3))
    series = half_away(Fraction(high(half_away(Fraction(t4, 4)) + t3, third) + t2, 2))
    eighth = half_up(Fraction(math.exp(-1 / 8)) * 2**31)
    result = eighth + high(eighth, t + series)
    for power in range(-2, 5):
        if rest & 2 ** (26 + power):
            result = high(result, half_up(Fraction(math.exp(-(2.0**power))) * 2**31))
    return result


def reciprocal(x):
    """1 / (1 + x), 31 fraction bits."""
    half = half_up(Fraction(x + 2**31 - 1, 2))
    estimate = 48 * 2**29 // 17 + high(half, -(32 * 2**29 // 17))
    for _ in range(3):
        estimate += high(estimate, 2**29 - high(half, estimate)) * 4
    return min(estimate * 2, 2**31 - 1)


def main(paths):
    net = Net(paths)
    features = net.arrays["features"]
    assert len(features) == 49 * 10
    image = [[[features[r * 10 + c]] for c in range(10)] for r in range(49)]
    c1 = net.convolution("c1", "input", image, 10, 4, 2, 32, False, True)
    d1 = net.convolution("d1", "c1", c1, 3, 3, 1, 32, True, True)
    p1 = net.convolution("p1", "d1", d1, 1, 1, 1, 32, False, True)
    d2 = net.convolution("d2", "p1", p1, 3, 3, 1, 32, True, True)
    p2 = net.convolution("p2", "d2", d2, 1, 1, 1, 32, False, False)
    a1 = net.add("a1", "p2", "p1", p2, p1, True)
    d3 = net.convolution("d3", "a1", a1, 3, 3, 1, 32, True, True)
    p3 = net.convolution("p3", "d3", d3, 1, 1, 1, 32, False, True)
    l1 = net.linear("l1", "g1", net.mean("g1", p3), 12)
    s1 = net.softmax("s1", l1)
    print("scores" + "".join("%5d" % v for v in s1[0][0]))
    print("digest%11d" % net.digest)


if __name__ == "__main__":
    main(sys.argv[1:])
