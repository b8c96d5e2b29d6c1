#!/usr/bin/env python3
"""A cuSOLVER that does nothing and wants no memory, for the pretended GPU, which has none: tests/cases/linalg was measured with it.

    null_solver.py SITE_PACKAGES OUT.so      then: LD_PRELOAD=OUT.so make golden OP=linalg/cholesky

Every function that libtorch asks for succeeds, and every size of a workspace is $NULL_SOLVER_WORKSPACE values (0), so that what
remains are the allocations that PyTorch's own code makes. The functions of cuBLAS that report failed matrices report none.
"""

import glob, os, subprocess, sys, tempfile

# arguments in front of the pointers to the size, of cusolverDn<T>NAME_bufferSize and cusolverDnXNAME_bufferSize
ONE_SIZE = dict(
    potrf=5,
    getrf=5,
    geqrf=5,
    orgqr=7,
    ungqr=7,
    ormqr=11,
    unmqr=11,
    gesvd=3,
    syevd=7,
    heevd=7,
    gesvdj=12,
    gesvdjBatched=11,
)
ONE_SIZE |= dict(gesvdaStridedBatched=16, syevjBatched=7, heevjBatched=7, sytrf=4)
TWO_SIZES = dict(potrf=8, geqrf=10, syevd=11, syevBatched=11, geev=17, sytrs=11)
HEAD = """#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
static int values(void) { const char *e = getenv("NULL_SOLVER_WORKSPACE"); return e ? atoi(e) : 0; }
"""
BATCHED = """int cublas%sgeqrfBatched(void *h, int m, int n, void *a, int l, void *t, int *info, int b) { *info = 0; return 0; }
int cublas%sgetrsBatched(void *h, int o, int n, int r, void *a, int l, void *p, void *b, int k, int *info, int c) { *info = 0; return 0; }
"""


def asked(site):
    """the functions of cuSOLVER that PyTorch's libraries ask for"""
    names = set()
    for library in glob.glob(os.path.join(site, "torch", "lib", "libtorch_cuda*.so")):
        p = subprocess.run(
            ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
        )
        names |= {line.split()[-1].split("@")[0] for line in p.stdout.splitlines()}
    return sorted(n for n in names if n.startswith("cusolver"))


def function(name):
    if name.startswith("cusolverDnCreate"):
        return f"int {name}(void **h) {{ *h = (void *)h; return 0; }}"
    if not name.endswith("_bufferSize"):
        return f"int {name}(void) {{ return 0; }}"
    two, kind = name[10] == "X", name[11 : -len("_bufferSize")]
    count = (TWO_SIZES if two else ONE_SIZE).get(kind)
    if count is None:
        sys.exit(f"null_solver.py: {name}: its arguments are not known")
    args = ", ".join(f"uint64_t a{i}" for i in range(count))
    if two:
        return f"int {name}({args}, size_t *d, size_t *h) {{ *d = 4 * values(); *h = 0; return 0; }}"
    return f"int {name}({args}, int *l) {{ *l = values(); return 0; }}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with tempfile.NamedTemporaryFile("w", suffix=".c") as f:
        print(
            HEAD,
            *map(function, asked(sys.argv[1])),
            *(BATCHED % (t, t) for t in "SD"),
            sep="\n",
            file=f,
            flush=True,
        )
        subprocess.run(["cc", "-w", "-fPIC", "-shared", "-o", sys.argv[2], f.name], check=True)


main()
