#!/usr/bin/env python3
"""What one rank of a pipeline of wrapped or cut stages allocates: measure_parallel.py with strategies that it lacks.
usage: py pipelines.py [options] STRATEGY lm:...    the options and the JSON of measure_parallel.py

STRATEGY  pp | pp+ddp | pp+zero1 | pp+fsdp2 | pp+hsdp | pp+tp | pp+fsdp2+tp
  --mesh  ranks of pp, of the wrapper (hsdp: copies, shards) and of tp: 2,4,2
  -o      options of all strategies together

MEASURE is the folder of measure_parallel.py, `py` the Python of a pretended GPU there. Each stage is an LM of parallel_models.py
with layers round(layers * i / stages) on: on the device, then cut (tp), then wrapped, then a PipelineStage, whose input_args and
output_args say bf16 under autocast or mp=bf16. An optimizer has the parameters of each mesh in a group of its own.
tests/golden/parallel/pp_*.json are from here."""

import contextlib, os, sys

sys.path.insert(0, os.environ["MEASURE"])
import measure_parallel as mp
from measure_parallel import DT, Phases, Recorder, dist, flag, nn, pm, torch

V_SHAPED = ("ZBVZeroBubble", "DualPipeV")


def stages_of(rank, ranks, local, schedule):
    if local > 1 and schedule in V_SHAPED:
        return [rank, ranks * local - 1 - rank]
    return [rank + ranks * k for k in range(local)]


def wrap(a, modules, mesh, parts):
    """the modules as the strategy has them"""
    if "tp" in parts:
        for m in modules:
            mp.apply_tp(m, mesh["tp"], a.o)
    if "fsdp2" in parts or "hsdp" in parts:
        for m in modules:
            over = mesh["dp"] if "fsdp2" in parts else mesh["copies", "dp"]
            mp.apply_fsdp2(m, list(m.layers.values()), over, a.o)
    if "ddp" in parts or "zero1" in parts:
        return [mp.ddp(m, a.o, process_group=mesh["dp"].get_group()) for m in modules]
    return modules


def optimizer(a, params, mesh, parts):
    if "zero1" not in parts:
        return mp.make_optimizer(a, params)
    from torch.distributed.optim import ZeroRedundancyOptimizer

    kinds = {"adamw": (torch.optim.AdamW, {}), "adam": (torch.optim.Adam, {})}
    kind, words = kinds.get(a.optimizer, (torch.optim.SGD, dict(momentum=0.9)))
    if a.impl:
        words = dict(words, foreach=a.impl == "foreach", fused=a.impl == "fused")
    view = flag(a.o, "parameters_as_bucket_view")
    group = mesh["dp"].get_group()
    return ZeroRedundancyOptimizer(
        params, optimizer_class=kind, parameters_as_bucket_view=view, process_group=group, lr=1e-3, **words
    )


def local(t):
    return t.to_local() if hasattr(t, "to_local") else t


def pipeline(a, recorder, mesh, parts):
    from torch.distributed.pipelining import PipelineStage, schedules
    from torch.distributed.tensor.parallel import loss_parallel

    o, batch, micros = a.o, a.batch or 2, int(a.o.get("microbatches", 8))
    name = o.get("schedule", "1F1B")
    kind = schedules.get_schedule_class(name)
    single = issubclass(kind, schedules.PipelineScheduleSingle)
    each, ranks = int(o.get("stages", 1 if single else 2)), mesh["pp"].size()
    total, mine = ranks * each, stages_of(mesh["pp"].get_local_rank(), ranks, each, name)
    keys = ("strategy", "source", "world", "rank", "seq", "amp", "dtype", "optimizer", "impl", "clip")
    out = {k: getattr(a, k) for k in keys}
    out.update(options=o, batch=batch, mesh=a.mesh or [a.world], torch=torch.__version__)
    config = pm.Config(**dict(w.split("=") for w in a.source.partition(":")[2].split(",") if w))
    config.seq = a.seq or config.seq
    cut = [round(config.layers * i / total) for i in range(total + 1)]
    modules = [pm.LM(config, cut[i], cut[i + 1]) for i in mine]
    out["params_elements"] = sum(p.numel() for m in modules for p in m.parameters())
    out["units"] = []
    phases = Phases(recorder, a.gc == "auto")
    torch.cuda.reset_peak_memory_stats()
    if a.events:
        recorder.start()
    modules = [m.cuda() for m in modules]
    phases.end("model")
    root = nn.ModuleDict({str(i): m for i, m in zip(mine, modules)})
    wrapped = wrap(a, modules, mesh, parts)
    half = a.amp or o.get("mp")
    dtype = DT[half] if half else torch.get_default_dtype()
    seq = config.seq // (mesh["tp"].size() if flag(o, "sp") and "tp" in parts else 1)

    def like(i, is_out):
        if not is_out and not i:
            return torch.empty(batch, config.seq, dtype=torch.long, device="meta")
        is_last = is_out and i == total - 1
        size = (batch, config.seq, config.vocab) if is_last else (batch, seq, config.dim)
        return torch.empty(size, device="meta", dtype=dtype, requires_grad=True)

    group = mesh["pp"].get_group() if parts else None
    stages = [
        PipelineStage(w, i, total, torch.device("cuda:0"), (like(i, 0),), (like(i, 1),), group=group)
        for i, w in zip(mine, wrapped)
    ]
    schedule = kind(stages[0] if single else stages, n_microbatches=micros, loss_fn=pm.loss)
    params = [p for m in modules for p in m.parameters()]
    opt = optimizer(a, params, mesh, parts)
    phases.end("wrap")
    if a.events:
        mp.follow_modules(recorder, root)
    ids = lambda: torch.zeros(batch * micros, config.seq, dtype=torch.long, device="cuda")
    x = [ids()] if 0 in mine else []
    y = {"target": ids()} if total - 1 in mine else {}
    phases.end("inputs")
    phases.start()
    out["setup"], out["steps"] = phases.d, []
    cuts_loss = flag(o, "loss_parallel") and "tp" in parts
    for i in range(a.steps):
        phases.d, phases.prefix = {}, f"{i + 1}."
        torch.cuda.reset_peak_memory_stats()
        mp.parameter_names(recorder, root)
        opt.zero_grad(set_to_none=True)
        phases.end("zero_grad")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=a.amp == "bf16"):
            with loss_parallel() if cuts_loss else contextlib.nullcontext():
                schedule.step(*x, **y, return_outputs=flag(o, "return_outputs"))
        recorder.label("")
        phases.end("step")
        if a.clip:
            nn.utils.clip_grad_norm_(params, 1.0)
            phases.end("clip")
        opt.step()
        phases.end("optimizer")
        phases.end("end")
        phases.collect()
        out["steps"].append(phases.d)
    state = (opt.optim if "zero1" in parts else opt).state.values()
    size = lambda t: local(t).numel() * local(t).element_size()
    out["optimizer_state_bytes"] = sum(size(v) for s in state for v in s.values() if torch.is_tensor(v) and v.is_cuda)
    out["gradients_bytes"] = sum(size(p.grad) for p in params if p.grad is not None)
    return out


def run(a):
    a.rec = Recorder()
    if a.dtype:
        torch.set_default_dtype(DT[a.dtype])
    dist.init_process_group(a.backend, store=mp.OneRankStore(), rank=a.rank, world_size=a.world)
    torch.cuda.set_device(0)
    mp.say_split_sizes()
    parts = a.strategy.split("+")[1:]
    names = {"hsdp": ["copies", "dp"], "tp": ["tp"]}
    names = ["pp"] + [n for part in parts for n in names.get(part, ["dp"])]
    sizes = tuple(a.mesh) or (a.world,)
    return pipeline(a, a.rec, dist.device_mesh.init_device_mesh("cuda", sizes, mesh_dim_names=tuple(names)), parts)


mp.run = run
if __name__ == "__main__":
    mp.main(mp.arguments(sys.argv[1:]))
    os._exit(0)
