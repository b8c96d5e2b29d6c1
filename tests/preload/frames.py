"""Allocations in Python frames of every sort, without a GPU: the runtime through ctypes, which holds
no lock of the interpreter meanwhile, as PyTorch does not. The test finds the lines by their words."""

import ctypes
import functools
import threading

runtime = ctypes.CDLL("libcudart.so.13")


def take(mebibytes):
    p = ctypes.c_void_p()
    runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(mebibytes << 20))  # taken


def step():
    take(1)  # a function


class Net:
    def forward(self):
        take(2)  # a method


def generator():
    yield take(3)  # a generator


step()
step()
Net().forward()
list(generator())
functools.reduce(lambda a, b: take(b), [0, 4])  # a lambda
thread = threading.Thread(target=lambda: take(5))  # a thread
thread.start()
thread.join()
exec(compile("take(6)", "ordner/\N{LATIN SMALL LETTER A WITH DIAERESIS}.py", "exec"))
