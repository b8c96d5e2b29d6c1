"""Builds the Python package for pip, as PEP 517 has it: `make python` has all files of it, this packs them.

It needs make, a C compiler and nothing that has to be downloaded, so that `pip install .` works without a network, too.
`python3 tools/python/backend.py DIR` writes the wheel and the sdist.
"""

import base64, gzip, hashlib, io, os, re, subprocess, sys, sysconfig, tarfile, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILT = os.path.join(ROOT, "build", "package")
TIME = (1980, 1, 1, 0, 0, 0)
SCRIPTS = """[console_scripts]
vram = vram._library:main
vram-checkpoint = vram._model:checkpoint_main
vram-export = vram._model:export_main
vram-measure = vram._model:measure_main
"""
SOURCES = {  # of the sdist: what `make python` reads; folders, and how names end
    ".": ("pyproject.toml", "Makefile", "LICENSE", "README.md", "vram.h", "vram_cuda.h"),
    "docs": ("python.md",),
    "examples/models": (".vram",),
    "src": ("parts", "parts_cuda", "pack.sh", ".h", ".c"),
    "tools": (".c", ".h", ".py"),
    "tools/python": (".c", ".h", ".py", ".in", "py.typed"),
}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def version():
    return re.search(r'^#define VRAM_VERSION "(.*)"$', read("vram.h"), re.MULTILINE).group(1)


def name():
    return "vram-" + version()


def metadata():
    return read("tools", "python", "METADATA.in").replace("@VERSION@", version()) + "\n" + read("docs", "python.md")


def make():
    try:
        subprocess.run(["make", "-s", "python"], cwd=ROOT, check=True, stdout=sys.stderr)
    except OSError as e:
        raise SystemExit(f"vram needs make and a C compiler: {e}")


def platform():
    """Where the library runs: by the newest symbol of glibc that it asks for (PEP 600); it needs no other library."""
    own = re.sub(r"[-.]", "_", sysconfig.get_platform())
    asked = set()
    for library in sorted(os.listdir(os.path.join(BUILT, "vram"))):
        if library.endswith(".so"):
            with open(os.path.join(BUILT, "vram", library), "rb") as f:
                asked |= {(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", f.read())}
    if not asked or not own.startswith("linux_"):
        return own
    return "manylinux_%d_%d_" % max(asked) + own[len("linux_") :]


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_wheel(folder, files):
    """files: what is in it beside the metadata, name -> bytes"""
    info, tag = name() + ".dist-info", "py3-none-" + platform()
    wheel = f"Wheel-Version: 1.0\nGenerator: vram\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {
        **files,
        f"{info}/METADATA": metadata().encode(),
        f"{info}/WHEEL": wheel.encode(),
        f"{info}/entry_points.txt": SCRIPTS.encode(),
        f"{info}/licenses/LICENSE": read("LICENSE").encode(),
    }
    rows = [f"{k},{digest(v)},{len(v)}" for k, v in files.items()] + [f"{info}/RECORD,,"]
    files[f"{info}/RECORD"] = ("\n".join(rows) + "\n").encode()
    path = f"{name()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(folder, path), "w", zipfile.ZIP_DEFLATED) as z:
        for k, v in files.items():
            entry = zipfile.ZipInfo(k, TIME)
            entry.external_attr = (0o100755 if k.endswith(".so") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, v)
    return path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    make()
    files = {}
    for folder, folders, names in os.walk(BUILT):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for n in sorted(names):
            path = os.path.join(folder, n)
            with open(path, "rb") as f:
                files[os.path.relpath(path, BUILT).replace(os.sep, "/")] = f.read()
    return write_wheel(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """`make python` brings what was changed since"""
    make()
    return write_wheel(wheel_directory, {"__editable__.vram.pth": (BUILT + "\n").encode()})


def sources():
    for folder, ends in SOURCES.items():
        for at, folders, names in os.walk(os.path.join(ROOT, folder)):
            deep = folder == "src" or folder == "tools/python"
            folders[:] = sorted(f for f in folders if deep and f != "__pycache__")
            for n in sorted(names):
                if any(n.endswith(e) if e.startswith(".") else n == e for e in ends):
                    yield os.path.relpath(os.path.join(at, n), ROOT)


def build_sdist(sdist_directory, config_settings=None):
    path = name() + ".tar.gz"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as t:

        def add(file, data):
            entry = tarfile.TarInfo(f"{name()}/{file}")
            entry.size, entry.mode, entry.mtime = len(data), 0o644, 315532800
            t.addfile(entry, io.BytesIO(data))

        add("PKG-INFO", metadata().encode())
        for file in sources():
            with open(os.path.join(ROOT, file), "rb") as f:
                add(file.replace(os.sep, "/"), f.read())
    with open(os.path.join(sdist_directory, path), "wb") as f:
        f.write(gzip.compress(packed.getvalue(), 9, mtime=0))
    return path


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for build in build_wheel, build_sdist:
        print(os.path.join(sys.argv[1], build(sys.argv[1])))
