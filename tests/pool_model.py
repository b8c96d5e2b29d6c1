#!/usr/bin/env python3
"""PyTorch's CUDACachingAllocator once more, as plainly as possible: free blocks are looked for in sorted lists, counters are summed
up anew after every call. It reads what `test_pool_calls --print SEED` did and says where it would have done something else.
usage: test_pool_calls --print SEED | pool_model.py"""
import bisect, sys

MIB = 1 << 20
NONE = 1 << 64


class Block:
    def __init__(self, stream, size, address, small, segment):
        self.stream, self.size, self.address, self.small, self.segment = stream, size, address, small, segment
        self.prev = self.next = None
        self.used, self.mapped, self.age, self.asked = False, True, 0, 0
        self.users, self.events = set(), 0

    def split(self):
        return bool(self.prev or self.next)


class Segment:
    """Where it begins; a growing one has a granule, else 0."""

    def __init__(self, address, granule):
        self.address, self.granule = address, granule


class Sorted:
    def __init__(self, key):
        self.key, self.keys, self.blocks = key, [], []

    def add(self, b):
        i = bisect.bisect_left(self.keys, self.key(b))
        self.keys.insert(i, self.key(b))
        self.blocks.insert(i, b)

    def remove(self, b):
        i = bisect.bisect_left(self.keys, self.key(b))
        assert self.blocks[i] is b
        del self.keys[i], self.blocks[i]

    def first(self, stream, *rest):
        """of this stream from that key on, None: there is none"""
        i = bisect.bisect_left(self.keys, (stream, *rest))
        return i if i < len(self.blocks) and self.blocks[i].stream == stream else None


class Pool:
    def __init__(self):
        self.free = Sorted(lambda b: (b.stream, b.size, b.address))
        self.unmapped = Sorted(lambda b: (b.stream, b.address))
        self.asked = 0


class Allocator:
    def __init__(self, options):
        split, rounding, large, self.total, self.limit, gc, self.growing, self.fails_at = options[:8]
        self.divisions = options[8:]
        self.max_split, self.rounding = split or NONE, rounding or 20 * MIB
        self.large_segment, self.threshold = large or 20 * MIB, gc
        self.pools = [Pool(), Pool()]  # large, small
        self.blocks = set()
        self.waiting = {}  # stream: [event, block]
        self.stuck = []  # blocks whose use could not be recorded
        self.next, self.taken, self.calls, self.events, self.done = 0x200000000000, 0, 0, 0, 0
        self.retries = self.ooms = self.device_allocs = self.device_frees = 0

    # the device
    def device_fails(self):
        self.calls += 1
        return self.calls == self.fails_at

    def device_take(self, bytes):
        if self.device_fails() or self.taken + bytes > self.total:
            return False
        self.taken += bytes
        self.device_allocs += 1
        return True

    def device_range(self, bytes):
        self.next += bytes
        return self.next - bytes

    # what a call is measured by
    def figures(self):
        blocks = [b for b in self.blocks if b.mapped]
        used = [b for b in blocks if b.used]
        parts = [b for b in blocks if not b.used and b.split() and not b.segment.granule]
        segments = {b.segment for b in blocks if not b.segment.granule}
        handed = sum(b.size for b in used if not b.given_back)
        return [handed, sum(b.size for b in blocks), sum(b.asked for b in used), sum(b.size for b in used), len(segments)] + [
            len(parts), sum(b.size for b in parts), self.retries, self.ooms, self.device_allocs, self.device_frees,
        ]  # fmt: skip

    def round(self, n):
        if n < 512:
            return 512
        divisions = self.divisions[max(0, min(15, n.bit_length() - 21))]
        if divisions > 1 and n > 512 * divisions:
            step = (1 << n.bit_length() - 1) // divisions
            return -(-n // step) * step if n & n - 1 else n
        return -(-n // 512) * 512

    def segment_size(self, size):
        if size <= MIB:
            return 2 * MIB
        return self.large_segment if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB

    def reserved(self):
        return sum(b.size for b in self.blocks if b.mapped)

    # a request
    def alloc(self, n, stream):
        self.poll()
        size = self.round(n)
        small = size <= MIB
        b = self.find(self.pools[small], size, stream)
        if not b:
            if self.limit and self.threshold:
                self.collect()
            b = self.more(small, size, stream)
            if not b and self.release_some(self.pools[small], size, stream):
                b = self.more(small, size, stream)
            if not b:
                self.release_all()
                self.retries += 1
                b = self.more(small, size, stream)
        if not b:
            self.ooms += 1
            return None
        rest = b.size - size
        if rest >= 512 if small or self.growing else size < self.max_split and rest > MIB:
            self.cut(b, size)
            self.keep(b.next)
        b.used, b.given_back, b.asked, b.users = True, False, n, set()
        return b

    def keep(self, b):
        pool = self.pools[b.small]
        b.age = pool.asked
        pool.free.add(b)

    def cut(self, b, size):
        rest = Block(b.stream, b.size - size, b.address + size, b.small, b.segment)
        rest.mapped, rest.prev, rest.next = b.mapped, b, b.next
        if b.next:
            b.next.prev = rest
        b.next, b.size = rest, size
        self.blocks.add(rest)

    def find(self, pool, size, stream):
        pool.asked += 1
        i = pool.free.first(stream, size, 0)
        if i is None:
            return None
        if self.growing:
            room = lambda b: b.size + (b.next.size if b.next and not b.next.mapped else 0)
            list, k = pool.free.blocks, i + 1
            while k < len(list) and list[k].stream == stream and room(list[k]) < room(list[i]):
                i, k = k, k + 1
        b = pool.free.blocks[i]
        if b.size >= self.max_split if size < self.max_split else b.size >= size + self.rounding:
            return None
        pool.free.remove(b)
        return b

    def more(self, small, size, stream):
        bytes = self.segment_size(size)
        if self.limit and self.reserved() + bytes > self.limit:
            return None
        if self.growing:
            return self.grow(small, size, stream)
        if not self.device_take(bytes):
            return None
        address = self.device_range(bytes)
        b = Block(stream, bytes, address, small, Segment(address, 0))
        self.blocks.add(b)
        return b

    def collect(self):
        threshold = self.limit * self.threshold // 10**6
        pool, target, got, freed = self.pools[0], self.reserved() - threshold, 0, True
        age = lambda b: pool.asked - b.age
        while freed and got < target:
            whole = [b for b in pool.free.blocks if not b.split()]
            freed = False
            for b in whole:
                if not b.segment.granule and age(b) * len(whole) >= sum(map(age, whole)):
                    freed, got = True, got + b.size
                    b.gone = True
            for b in whole:
                if getattr(b, "gone", False):
                    self.release(b)

    def release(self, b):
        self.pools[b.small].free.remove(b)
        self.blocks.remove(b)
        self.taken -= b.size
        self.device_frees += 1

    def release_some(self, pool, size, stream):
        if self.max_split == NONE or self.growing:
            return False
        want = max(size, self.max_split)
        whole = [b for b in pool.free.blocks if b.stream == stream and not b.split()]
        for b in whole:
            if b.size >= want:
                self.release(b)
                return True
        got = 0
        for b in reversed(whole):
            if got >= want or b.size < self.max_split:
                break
            got += b.size
            self.release(b)
        return got >= want

    def release_all(self):
        self.poll(wait=True)
        for pool in self.pools:
            free = list(pool.free.blocks)
            for b in free:
                if not b.segment.granule and not b.split():
                    self.release(b)
            for b in free:
                if b.segment.granule:
                    self.unmap(pool, b)
            for b in list(pool.unmapped.blocks):
                if not b.split():
                    pool.unmapped.remove(b)
                    self.blocks.remove(b)

    # growing segments
    def grow(self, small, size, stream):
        pool = self.pools[small]
        b = self.find_growing(pool, small, size, stream)
        if not b or not b.mapped and not self.map(pool, b, min(b.size, size)):
            return None
        while b.size < size:
            n = b.next
            if not self.map(pool, n, min(n.size, size - b.size)):
                return None
            b = n
        pool.free.remove(b)
        return b

    def find_growing(self, pool, small, size, stream):
        for b in pool.unmapped.blocks:
            if b.stream != stream:
                continue
            if b.prev and not b.prev.used:
                b = b.prev
            room, n = 0, b
            while n and not n.used:
                room, n = room + n.size, n.next
            if room >= size:
                return b
        granule = 2 * MIB if small else self.large_segment
        room = -(-(self.total + self.total // 8) // granule) * granule
        if size > room or self.device_fails():
            return None
        address = self.device_range(room)
        b = Block(stream, room, address, small, Segment(address, granule))
        b.mapped = False
        self.blocks.add(b)
        pool.unmapped.add(b)
        return b

    def map(self, pool, b, size):
        size = -(-size // b.segment.granule) * b.segment.granule
        if not self.device_take(size):
            return False
        pool.unmapped.remove(b)
        if size < b.size:
            self.cut(b, size)
            pool.unmapped.add(b.next)
        b.mapped = True
        self.merge(pool, b)
        self.keep(b)
        return True

    def unmap(self, pool, b):
        granule, at = b.segment.granule, b.address - b.segment.address
        begin, end = -(-at // granule) * granule, (at + b.size) // granule * granule
        if begin >= end:
            return
        pool.free.remove(b)
        if begin > at:
            self.cut(b, begin - at)
            self.keep(b)
            b = b.next
        if end < at + b.size + (begin - at):
            self.cut(b, end - begin)
            self.keep(b.next)
        b.mapped = False
        self.taken -= b.size
        self.device_frees += 1
        self.merge(pool, b)
        pool.unmapped.add(b)

    def merge(self, pool, b):
        """b, in no list, takes in its free neighbours of the same kind."""
        for n in (b.prev, b.next):
            if not n or n.used or n.mapped != b.mapped:
                continue
            (pool.free if n.mapped else pool.unmapped).remove(n)
            self.blocks.remove(n)
            if n is b.prev:
                b.address, b.prev = n.address, n.prev
                if b.prev:
                    b.prev.next = b
            else:
                b.next = n.next
                if b.next:
                    b.next.prev = b
            b.size += n.size

    # frees and streams
    def give_back(self, b):
        b.given_back = True
        for stream in self.order:
            if stream in b.users:
                if self.device_fails():
                    continue
                self.events += 1
                self.waiting.setdefault(stream, []).append((self.events, b))
                b.users.remove(stream)
                b.events += 1
        if b.users:
            self.stuck.append(b)
        elif not b.events:
            self.gone(b)

    def gone(self, b):
        b.used = False
        self.merge(self.pools[b.small], b)
        self.keep(b)

    def poll(self, wait=False):
        for queue in self.waiting.values():
            while queue and (wait or queue[0][0] <= self.done):
                b = queue.pop(0)[1]
                b.events -= 1
                if not b.events and not b.users:
                    self.gone(b)
        if wait:
            for b in sorted(self.stuck, key=lambda b: b.address):
                for stream in [s for s in self.order if s in b.users]:
                    if not self.device_fails():
                        self.events += 1
                        b.users.remove(stream)
                if not b.users:
                    self.stuck.remove(b)
                    if not b.events:
                        self.gone(b)


def main():
    passed, a, live, seen = 0, None, [], []
    for number, line in enumerate(sys.stdin, 1):
        word, *rest = line.split()
        if word == "options":
            a, live, seen = Allocator([int(x) for x in rest]), [], []
            a.order = seen  # streams as they came
            continue
        stream = int(rest[1]) if word in ("alloc", "record") else None
        if word == "alloc":
            if stream not in seen:
                seen.append(stream)
            b = a.alloc(int(rest[0]), stream)
            if b:
                live.append(b)
            outcome, rest = rest[2], rest[3:]
            if (outcome == "ok") != bool(b):
                sys.exit(f"line {number}: {line.strip()}: the model says {'ok' if b else 'failed'}")
        elif word == "free":
            i, rest = int(rest[0]), rest[1:]
            b, last = live[i], live.pop()
            if b is not last:
                live[i] = last
            a.give_back(b)
        elif word == "record":
            b, rest = live[int(rest[0])], rest[2:]
            if stream != b.stream:
                if stream not in seen:
                    seen.append(stream)
                b.users.add(stream)
        elif word == "done":
            a.done, rest = int(rest[0]), rest[1:]
        else:
            a.release_all()
        want, got = [int(x) for x in rest], a.figures()
        if want != got:
            sys.exit(f"line {number}: {line.strip()}: the model has {got}")
        passed += 1
    print(f"{passed} calls")


main()
