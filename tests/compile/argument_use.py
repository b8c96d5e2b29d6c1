"""Counts how often each public compile-time macro expands each argument; fails above six, above
eight for the formulas of CMSIS-NN, which choose between kernels.

    python argument_use.py INCLUDE_DIR
"""
import collections
import re
import subprocess
import sys

LIMIT = 6
TOKENS = {"t": "F32", "tk": "F32", "tv": "F32", "o": "ADAM", "op": "MAX_POOL"}
gcc = ["gcc", "-std=c99", "-E", "-DVRAM_MACROS_ONLY", "-I" + sys.argv[1], "-x", "c", "-"]
include = '#include "vram.h"\n'
defines = subprocess.run(gcc + ["-dD"], input=include, capture_output=True, text=True, check=True).stdout
calls = []
for name, args in re.findall(r"^#define (VRAM_[A-Z0-9]\w*)\(([^)]*)\)", defines, flags=re.M):
    # the lines of networks paste names; each binds its arguments to constants first
    if name in ("VRAM_U", "VRAM_STATIC_ASSERT") or name.startswith(("VRAM_NET_", "VRAM_ASSERT_")):
        continue
    args = [TOKENS.get(a.strip(), "zz_" + a.strip() + "_zz") for a in args.split(",")]
    calls.append(f"@{name}@ {name}({', '.join(args)})")
text = subprocess.run(gcc + ["-P"], input=include + "\n".join(calls), capture_output=True, text=True, check=True).stdout
parts = text.split("@")[1:]
failed = 0
for name, body in zip(parts[::2], parts[1::2]):
    for arg, n in collections.Counter(re.findall(r"zz_(\w+?)_zz", body)).items():
        if n > (8 if name.startswith("VRAM_CMSIS_") else LIMIT):
            print(f"{name} expands {arg} {n} times")
            failed = 1
print(len(calls), "macros")
sys.exit(failed or len(calls) < 100)
