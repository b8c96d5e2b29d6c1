"""How the tools for PyTorch call the command: the program VRAM names, or the one beside them, or in PATH."""

import os, subprocess

HERE = os.path.dirname(os.path.realpath(__file__))
inside = None  # the Python package's: it has the command as a function of words and input


def tool():
    beside = os.path.join(HERE, "..", "vram")
    return os.environ.get("VRAM") or (beside if os.path.isfile(beside) else "vram")


def run(words, text=None):
    """the exit status of `vram WORDS` with text as its input, and what it prints; OSError: there is no such program"""
    if inside:
        return inside(words, text)
    p = subprocess.run([tool(), *words], input=text, capture_output=True, text=True)
    return p.returncode, p.stdout, p.stderr
