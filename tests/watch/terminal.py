"""vram watch through a pseudo terminal: terminal.py COMMAND, with VRAM_NVML and NVML_PID set."""

import fcntl, os, pty, re, select, signal, struct, sys, termios, time

ME = os.environ["NVML_PID"]


class Watch:
    def __init__(self, rows, columns, *words, devices=2, **env):
        self.shape, self.text, self.all = (rows, columns), "", ""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.environ.update({"NVML_DEVICES": str(devices), "LC_ALL": "C.UTF-8", "TERM": "xterm"}, **env)
            os.execv(sys.argv[1], [sys.argv[1], "watch", "--interval", "0.1", *words])
        self.before = None

    def read(self, seconds=20):
        assert select.select([self.fd], [], [], seconds)[0], f"nothing comes behind {self.all[-200:]!r}"
        try:
            more = os.read(self.fd, 65536).decode("utf-8", "replace")
        except OSError:  # it has ended
            more = ""
        self.text += more
        self.all += more
        return more

    def picture(self):
        """the next one, a list of lines without colours"""
        while True:
            m = re.search(r"\033\[H(.*?)\033\[J", self.text, re.S)
            if m:
                break
            assert self.read(), f"it ended: {self.all[-300:]!r}"
        self.text = self.text[m.end() :]
        return [re.sub(r"\033\[[0-9;?]*[a-zA-Z]", "", line) for line in m[1].split("\r\n")]

    def until(self, seen):
        """the first picture of which that is so"""
        for _ in range(50):
            picture = self.picture()
            if seen(picture):
                return picture
        raise AssertionError("\n".join(picture))

    def key(self, *keys):
        for k in keys:
            os.write(self.fd, k.encode())

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def own(self):
        """keys come in lines and are shown, as a shell has it"""
        flags = termios.tcgetattr(self.fd)[3]
        return bool(flags & termios.ICANON and flags & termios.ECHO)

    def end(self, *keys):
        self.key(*keys)
        while not (m := os.waitpid(self.pid, os.WNOHANG))[0]:
            if select.select([self.fd], [], [], 0.05)[0]:
                self.read()
        while select.select([self.fd], [], [], 0)[0] and self.read():
            pass
        assert self.all.startswith("\033[?1049h"), "another picture than the shell's"
        assert "\033[?25h\033[?1049l" in self.all, "the shell's picture and cursor again"
        return m[1]


def processes(picture):
    head = next(i for i, line in enumerate(picture) if line.lstrip().startswith(("gpu", "pid")))
    return picture[head], [line for line in picture[head + 1 : -1] if line.strip()]


# every size, also one that hardly holds anything; a narrow one has a history, too
SIZES = (40, 132, 2), (24, 80, 4), (24, 80, 17), (14, 60, 2), (14, 40, 2), (6, 40, 4), (3, 10, 1), (1, 1, 1)
for rows, columns, devices in SIZES:
    w = Watch(rows, columns, devices=devices)
    for _ in range(3):
        picture = w.picture()
    assert len(picture) == rows or rows < 5, (rows, columns, picture)
    assert all(len(line) <= columns for line in picture) and len(picture) <= rows, (rows, columns, picture)
    if rows > 12:
        assert any("Pretended GPU 80GB" in line for line in picture) or devices > 4, picture
        assert any(line.startswith(" mem [|") or re.match(r"0 +\[\|", line) for line in picture), picture
        assert any("\u2581\u2581" in line for line in picture), picture
    assert w.end("q") == 0

# history: memory a tenth fuller each time; letters where the terminal has no others
for locale, levels in ("C.UTF-8", "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"), ("C", "_.:-=+*#"):
    w = Watch(20, 100, "--count", "11", devices=1, NVML_MODE="wave", LC_ALL=locale)
    pictures = [w.picture() for _ in range(10)]
    line = next(line for line in pictures[-1] if line.startswith(" mem "))
    wanted = "".join(levels[share * 8 // 100] for share in range(0, 100, 10))
    assert line.endswith(wanted), (line, wanted)
    assert " 90 %" in line and line.count("|") == 27, line
    assert w.end() == 0  # after so many it ends by itself

# keys
w = Watch(24, 100)
head, rows = processes(w.picture())
assert "memory*" in head and len(rows) == 6 and "4194402" in rows[0] and "768 MiB" in rows[0], rows
assert not any(line.startswith(">") for line in rows)
assert any(ME in line and ".py" not in line for line in rows)
w.key("\033[B", "\033[B")
w.until(lambda p: processes(p)[1][1].startswith(">1    4194403"))
assert head.split() == ["gpu", "pid", "user", "type", "busy", "memory*", "share", "cpu", "host", "command"], head
w.key(">", ">")  # by pid: the selected process stays selected
picture = w.until(lambda p: "pid*" in processes(p)[0])
rows = processes(picture)[1]
assert [line.split()[1] for line in rows] == sorted((line.split()[1] for line in rows), key=int), rows
assert [line for line in rows if line.startswith(">")] == [line for line in rows if "4194403" in line], rows
w.key("r")
rows = processes(w.until(lambda p: "pid^" in processes(p)[0]))[1]
assert "4194403" in rows[0] and ME in rows[-1], rows
for key, column in ("P", "busy^"), ("T", "cpu^"), ("M", "memory^"), ("\033[17~", "gpu^"), ("N", "pid^"):
    w.key(key)
    w.until(lambda p: column in processes(p)[0])
w.key("\033OA", "k", "\033[5~", "G")
w.until(lambda p: processes(p)[1][-1].startswith(">"))
w.key("\033[H")
w.until(lambda p: processes(p)[1][0].startswith(">"))
before = processes(w.picture())[1][-1]
w.key("\033[C")  # along the command line
w.until(lambda p: processes(p)[1][-1] != before)
w.key("\033[D")
w.until(lambda p: processes(p)[1][-1] == before)
w.key(" ")
stopped = w.until(lambda p: " stopped" in p[0])
mem = lambda p: next(line for line in p if line.startswith(" mem "))
assert mem(w.picture()) == mem(w.picture())
w.key(" ")
w.until(lambda p: " stopped" not in p[0] and mem(p) != mem(stopped))
w.key("\033[99~", "x", "\033[M")  # what means nothing
w.resize(30, 50)
w.until(lambda p: len(p) == 30 and all(len(line) <= 50 for line in p))
w.key("\033")  # alone, too: it may be what an arrow begins with
w.text = ""
w.picture(), w.picture()
assert not w.own()
assert w.end("q") == 0 and w.own()

# some processes alone, and how they are sorted from the beginning
w = Watch(24, 100, "--pid", f"{ME},4194402", "--sort", "pid")
head, rows = processes(w.picture())
assert "pid*" in head and [line.split()[1] for line in rows] == [ME, ME, "4194402", "4194402"], rows
assert f"pid {ME},4194402" in w.picture()[-1]
assert w.end("q") == 0

# how busy each was; F10 ends it as q does
w = Watch(24, 132, "--sort", "busy")
head, rows = processes(w.picture())
assert "busy*   enc   dec" in head and "45 %   1 %   3 %" in rows[0] and "0 %   0 %   0 %" in rows[-1], rows
w.until(lambda p: re.search(rf"{ME} .* \d+ % +[\d.]+ [KMG]iB  ", "\n".join(p)))  # processor, host bytes
assert w.end("\033[21~") == 0

# more processes than lines: the selected one is always seen
w = Watch(10, 80, devices=4)
w.picture()
for key, mark in ("G", -1), ("g", 0), ("\033[6~", None):
    w.key(key)
    rows = processes(w.until(lambda p: any(line.startswith(">") for line in p)))[1]
    assert mark is None or rows[mark].startswith(">") or w.until(lambda p: processes(p)[1][mark].startswith(">"))
assert w.end("Q") == 0

# signals: the terminal is as it was, and who waits sees the signal
for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
    w = Watch(24, 80)
    w.picture()
    os.kill(w.pid, number)
    assert os.WTERMSIG(w.end()) == number and w.own()
w = Watch(24, 80)
w.picture()
assert os.WTERMSIG(w.end("\003")) == signal.SIGINT
w = Watch(24, 80)
w.picture()
w.key("\032")
assert os.WIFSTOPPED(os.waitpid(w.pid, os.WUNTRACED)[1]) and w.own()
w.text = ""
os.kill(w.pid, signal.SIGCONT)
w.picture()
assert not w.own() and w.all.count("\033[?1049h") == 2
assert w.end("q") == 0

# colours only where they are wanted
w = Watch(24, 80, NO_COLOR="1")
w.picture()
assert not re.search(r"\033\[[0-9;]*m", w.all), w.all
assert w.end("q") == 0
# names that would tell the terminal something
w = Watch(24, 80, NVML_MODE="dirty")
assert not any("\033" in line for line in w.picture())
assert w.end("q") == 0
# no device
w = Watch(24, 80, devices=0)
assert any(line == "no device" for line in w.picture())
assert w.end("q") == 0
