#!/usr/bin/env python3
"""One case of parallel training run by as many processes as it has ranks, all on the first GPU that there is: its records are what
tools/truth_parallel.py compares.
usage: ranks.py NULLGPU_FOLDER OUT_FOLDER NAME STRATEGY SOURCE --world W [options of measure_parallel.py]

NULLGPU_FOLDER has measure_parallel.py, which says what STRATEGY, SOURCE and the options are; NAME.rR.json is written for each rank R.
NCCL refuses two ranks on one device, but not on two hosts: each process says that it is another one, and they talk through sockets."""

import json, os, socket, subprocess, sys, time

LIMIT = 150  # seconds


def rank(folder, port, out, argv):
    sys.path.insert(0, folder)
    import measure_parallel as measure, torch, torch.distributed as dist

    a = measure.arguments(argv)
    store = dist.TCPStore("127.0.0.1", port, a.world, a.rank == 0)
    measure.OneRankStore = lambda: store
    measure.say_split_sizes = lambda: None  # the pretended NCCL's
    record = measure.run(a)
    torch.cuda.synchronize()
    record["device"] = torch.cuda.get_device_name()
    record["source"] = record["source"].split("/")[-1] if record["source"].endswith(".vram") else record["source"]
    with open(out, "w") as f:
        json.dump(record, f)
    store.add("ended", 1)
    while store.add("ended", 0) < a.world:
        time.sleep(0.05)
    time.sleep(a.rank == 0)  # it has the store
    os._exit(0)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main(folder, out, name, *argv):
    world = int(argv[argv.index("--world") + 1])
    port, processes = free_port(), []
    for r in range(world):
        env = dict(os.environ, NCCL_HOSTID=f"host{r}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
        path = os.path.join(out, f"{name}.r{r}")
        command = [sys.executable, __file__, "--rank-of", folder, str(port), path + ".json", *argv, "--rank", str(r)]
        with open(path + ".err", "w") as err:
            processes.append(subprocess.Popen(command, env=env, stderr=err))
    end = time.time() + LIMIT
    while any(p.poll() is None for p in processes) and time.time() < end and not any(p.poll() for p in processes):
        time.sleep(0.1)
    failed = [r for r, p in enumerate(processes) if p.poll() != 0]
    for p in processes:
        p.kill()
    print(name, f"failed: ranks {failed}, see {name}.rR.err" if failed else "ok")
    return bool(failed)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--rank-of":
        rank(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
    if len(sys.argv) < 6 or "--world" not in sys.argv:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
