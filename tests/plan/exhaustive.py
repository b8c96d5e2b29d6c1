"""exhaustive.py FILE: every chain of FILE through vram plan, as a file with columns in random order: the cost is that of an exhaustive
search, and where that found nothing the answer is infeasible (exit status 3)"""

import json, random, subprocess, sys, tempfile


def chain(fields):
    fw, bw, x, xbar, ftmp, btmp = ([int(v) for v in f.split()] for f in fields)
    columns = {"fw": fw + [0], "bw": bw, "x": x, "xbar": xbar, "ftmp": ftmp + [0], "btmp": btmp}
    order = random.sample(list(columns), 6)
    return (
        "\n".join([",".join(order)] + [",".join(str(columns[c][i]) for c in order) for i in range(len(bw))])
        + "\n"
    )


random.seed(1)
passed = failed = 0
with open(sys.argv[1]) as f:
    rows = [line.split("|") for line in f if not line.startswith("#")]
for row in rows:
    budget, optimum = row[0].split()[1], row[7].split()[0]
    p = subprocess.run(
        ["./vram", "plan", "-", "--budget", budget, "--json"],
        input=chain(row[1:7]),
        capture_output=True,
        text=True,
    )
    found = json.loads(p.stdout) if p.returncode in (0, 3) else {}
    ok = p.returncode == 3 if optimum == "inf" else p.returncode == 0 and found["cost"] == int(optimum)
    passed, failed = passed + ok, failed + (not ok)
    if not ok:
        print(f"{'|'.join(row).strip()}: status {p.returncode}, cost {found.get('cost')} {p.stderr.strip()}")
print(f"exhaustive: {passed} passed, {failed} failed")
