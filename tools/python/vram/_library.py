"""The command as a function: libvram_command.so beside this file, called by ctypes."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

from ._errors import VramError

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libvram_command.so")
FITS, OTHER, USAGE, TOO_LARGE = 0, 1, 2, 3
OF_A_TERMINAL = ("run", "watch")  # these take over the process, and its terminal

Word = Union[str, "os.PathLike[str]"]


class Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.POINTER(ctypes.c_char)), ("n", ctypes.c_size_t)]


class Result(NamedTuple):
    """What a command printed, and its exit status: 0 fits or done, 3 does not fit, 2 bad input, 1 other."""

    status: int
    stdout: str
    stderr: str


class Library:
    """The shared library; one command at a time."""

    def __init__(self) -> None:
        try:
            self.c = ctypes.CDLL(PATH)
        except OSError as e:
            raise ImportError(f"vram: its library does not load: {e}") from e
        words = ctypes.POINTER(ctypes.c_char_p)
        self.c.vram_guest_run.argtypes = [
            ctypes.c_int,
            words,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.POINTER(Text),
            ctypes.POINTER(Text),
        ]
        self.c.vram_guest_drop.argtypes = [ctypes.POINTER(Text)]
        self.c.vram_guest_drop.restype = None
        self.c.vram_guest_stop.argtypes = []
        self.c.vram_guest_stop.restype = None
        self.c.vram_guest_main.argtypes = [ctypes.c_int, words]
        self.lock = threading.Lock()

    def words(self, args: Sequence[str]) -> Tuple["ctypes.Array[ctypes.c_char_p]", List["ctypes.Array[ctypes.c_char]"]]:
        """argv, and the buffers it points to, which the command may change"""
        kept = [ctypes.create_string_buffer(os.fsencode(w)) for w in ("vram", *args)]
        pointers = [ctypes.cast(b, ctypes.c_char_p) for b in kept]
        return (ctypes.c_char_p * (len(kept) + 1))(*pointers, None), kept

    def run(self, args: Sequence[str], given: bytes) -> Result:
        argv, kept = self.words(args)
        out, err = Text(), Text()
        with self.lock:
            status = self.c.vram_guest_run(len(kept), argv, given, len(given), ctypes.byref(out), ctypes.byref(err))
            texts = [ctypes.string_at(t.bytes, t.n).decode("utf-8", "replace") if t.n else "" for t in (out, err)]
            for t in (out, err):
                self.c.vram_guest_drop(ctypes.byref(t))
        return Result(status, *texts)


library: Optional[Library] = None


def loaded() -> Library:
    global library
    if library is None:
        library = Library()
    return library


def command(*args: Word, input: Union[str, bytes, None] = None) -> Result:
    """Runs `vram ARGS` in this process, `input` as its standard input, and gives what it printed.

    >>> vram.command("list", "gpus").stdout

    Ctrl-C ends it: a search with what it has, which is then lost. `run` and `watch` are for a terminal.
    """
    words = [os.fspath(a) for a in args]
    if words and words[0] in OF_A_TERMINAL:
        raise VramError(f"vram {words[0]} is for a terminal: run it there, or by subprocess", USAGE)
    if any("\0" in w for w in words):
        raise VramError("vram: an argument has a character 0", USAGE)
    given = input.encode() if isinstance(input, str) else input or b""
    of = loaded()
    if threading.current_thread() is not threading.main_thread():
        return of.run(words, given)
    # Python hears of Ctrl-C only between calls: the main thread waits for one
    answer: List[Result] = []
    worker = threading.Thread(target=lambda: answer.append(of.run(words, given)), name="vram", daemon=True)
    worker.start()
    try:
        while worker.is_alive():  # not for long at a time: the signal may come to the worker
            worker.join(0.1)
    except KeyboardInterrupt:
        of.c.vram_guest_stop()
        raise
    return answer[0]


def main() -> None:
    """The command itself, as the console script `vram`."""
    os.environ.setdefault("VRAM_PRELOAD", os.path.join(os.path.dirname(PATH), "libvram_preload.so"))
    of = loaded()
    argv, kept = of.words(sys.argv[1:])
    sys.exit(of.c.vram_guest_main(len(kept), argv))
