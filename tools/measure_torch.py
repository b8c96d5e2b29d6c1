#!/usr/bin/env python3
"""Runs a PyTorch module on a GPU, measures what it keeps and allocates, and prints `vram estimate` beside it.

    measure_torch.py torchvision:resnet50 --train adamw --batch 8
    measure_torch.py timm:NAME | hf:CONFIG.json | FILE.py:FUNCTION ...      the sources of export_torch.py

The module runs steps as a training loop does: zero_grad, forward, backward, optimizer.step(). What PyTorch's own counters, its memory
history and its saved-tensor hooks say is compared with the text that export_torch.py writes of the same module: parameters, buffers,
gradients, optimizer state, bytes saved for backward, requested and allocated bytes at the end and at the peak of every phase, every
allocation in order. Exit status: 0 the bounds of the estimate hold, 3 one is broken, 2 bad input.
--record FILE keeps the measurement; --measured FILE compares one that was kept, which needs neither PyTorch nor a device.
--events FILE writes every allocation and free for `vram diff MODEL FILE` and `vram replay FILE`.
"""

import argparse, collections, contextlib, csv, functools, gc, json, os, re, signal, subprocess, sys, tempfile, weakref

import export_command

HERE = os.path.dirname(os.path.abspath(__file__))
PHASES = ("forward", "backward", "optimizer")
PRETENDED = "libnullgpu" in os.environ.get("LD_PRELOAD", "")
COUNTERS = ("requested_bytes", "allocated_bytes", "reserved_bytes")
OPTIMIZERS = {  # as `vram list optimizers` calls them: class of torch.optim, its arguments
    "sgd": ("SGD", {}),
    "sgd_momentum": ("SGD", {"momentum": 0.9}),
    "sgd_nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {}),
    "adam_amsgrad": ("Adam", {"amsgrad": True}),
    "adamw": ("AdamW", {}),
    "adamw_amsgrad": ("AdamW", {"amsgrad": True}),
    "adagrad": ("Adagrad", {}),
    "rmsprop": ("RMSprop", {}),
    "rmsprop_momentum": ("RMSprop", {"momentum": 0.9}),
    "rmsprop_centered": ("RMSprop", {"centered": True}),
    "rmsprop_centered_momentum": ("RMSprop", {"centered": True, "momentum": 0.9}),
    "adadelta": ("Adadelta", {}),
    "adamax": ("Adamax", {}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "asgd": ("ASGD", {}),
    "rprop": ("Rprop", {}),
    "adafactor": ("Adafactor", {}),
    "muon": ("Muon", {}),
}
STEADY = {
    "radam": 7
}  # from its sixth step on RAdam divides by a second moment; of others the third is as any other
DTYPES = {None: None, "f32": "float32", "bf16": "bfloat16", "fp16": "float16", "f16": "float16"}
EXPORTER = (
    "seq",
    "target_seq",
    "size",
    "frames",
    "samples",
    "attn",
    "checkpointing",
)  # options of export_torch.py
IMPLEMENTATIONS = {"foreach": {"foreach": True}, "fused": {"fused": True}, "loop": {"foreach": False}}


class Problem(Exception):
    """what is wrong and what to do, in one line"""


# ---- measuring


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError as e:
        raise Problem(f"{path}: {e.strerror}")


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


class Measurement:
    """a module, its optimizer and its inputs on the device"""

    def __init__(self, loaded, dims, o):
        import torch, torch.utils.checkpoint
        import export_dtypes

        self.torch, self.o, self.module, self.forward = torch, o, loaded.module, loaded.forward
        self.summed = False  # the module gives no loss: its output's sum is one
        self.checkpointed = torch.utils.checkpoint.checkpoint_sequential
        self.amp, dtype = DTYPES[o.amp], DTYPES[o.dtype]
        self.dtype = getattr(torch, dtype) if dtype else None
        own, self.converted = export_dtypes.model_dtype(self.module), contextlib.ExitStack()
        if self.dtype:
            self.converted.enter_context(
                export_dtypes.in_dtype(self.module, export_dtypes.dtypes_in(loaded, self.dtype))
            )
        self.module.to("cuda")
        self.params = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = self.scaler = None
        if o.train and self.params:
            name, arguments = OPTIMIZERS[o.train]
            self.optimizer = getattr(torch.optim, name)(
                self.params, lr=1e-3, **arguments, **IMPLEMENTATIONS.get(o.optim_impl, {})
            )
            if o.amp == "fp16":
                self.scaler = torch.amp.GradScaler("cuda")
        inputs = export_dtypes.inputs_in(loaded.make_inputs(**dims), own, self.dtype or own)
        self.inputs = {k: t.detach().to("cuda").requires_grad_(t.requires_grad) for k, t in inputs.items()}

    def counters(self):
        s = self.torch.cuda.memory_stats()
        return {
            k + p: s.get(f"{k}.all.{q}", 0) for k in COUNTERS for p, q in (("", "current"), ("_peak", "peak"))
        }

    def allocations(self):
        return self.torch._C._cuda_memoryStats(0)["allocation"]["all"]["allocated"]

    def autocast(self):
        if self.amp is None:
            return contextlib.nullcontext()
        return self.torch.autocast("cuda", dtype=getattr(self.torch, self.amp))

    def loss(self):
        with self.autocast():
            if self.o.checkpoint:
                r = self.checkpointed(
                    self.module, self.o.checkpoint, *self.inputs.values(), use_reentrant=False
                )
            else:
                r = self.forward(**self.inputs)
            if self.o.keep:  # what the step before left goes now
                self.kept = r
                r = next(iter(r.values())) if isinstance(r, dict) else r[0] if isinstance(r, tuple) else r
            if isinstance(r, self.torch.Tensor):
                self.summed = r.numel() > 1
                return r.sum() if self.summed else r
        raise Problem(
            f"{self.o.source}: --train needs a module that returns its loss, or one tensor whose sum is the loss"
        )

    def run(self, mark, between=lambda loss: None):
        """one step; mark is called with the name of every phase when it ends"""
        gc.collect()
        mark(None)
        if not self.o.train:
            with self.torch.no_grad(), self.autocast():
                out = self.forward(**self.inputs)
                if self.o.keep:
                    self.kept = out
            mark("forward")
            del out
            return
        for t in self.inputs.values():
            t.grad = None
        zero_grad = self.optimizer.zero_grad if self.optimizer else lambda set_to_none: None
        if not self.o.zero_grad_late:
            zero_grad(set_to_none=not self.o.keep_grads)
        mark("zero_grad")
        for k in range(self.o.accumulate):
            loss = self.loss()
            mark("forward")
            if self.o.zero_grad_late and not k:
                zero_grad(set_to_none=not self.o.keep_grads)
            between(loss)
            (self.scaler.scale(loss) if self.scaler else loss).backward()
            mark("backward")
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        elif self.optimizer:
            self.optimizer.step()
        mark("optimizer")
        del loss

    def held(self):
        """{(id, address): bytes} of tensors on the device that modules hold beside parameters and buffers, as from step to step, or
        functions beside their classes that cache what they return"""
        import torch.utils._pytree as tree

        files = {type(m).__module__ for m in self.module.modules()}
        caches = [c for c in gc.get_objects() if issubclass(type(c), functools._lru_cache_wrapper)]
        cached = gc.get_referents(*(c for c in caches if c.__module__ in files))

        own = {id(t) for t in (*self.module.parameters(), *self.module.buffers())}
        values = [
            v
            for m in self.module.modules()
            for k, v in vars(m).items()
            if k not in ("_parameters", "_buffers", "_modules")
        ]
        tensors = (
            t
            for t in tree.tree_leaves([cached, values])
            if isinstance(t, self.torch.Tensor) and t.is_cuda and id(t) not in own
        )
        return {(id(t), t.data_ptr()): bytes_of([t]) for t in tensors if not t.requires_grad}

    def phases(self):
        """counters at the end of every phase and the highest within it; of micro-batches the last end, the highest peak"""
        record = {}

        def mark(phase):
            if phase:
                new, old = self.counters(), record.get(phase, {})
                record[phase] = {
                    k: max(v, old.get(k, 0)) if k.endswith("_peak") else v for k, v in new.items()
                }
            self.torch.cuda.reset_peak_memory_stats()

        self.run(mark)
        return record

    def saved(self):
        """bytes of the distinct storages that autograd keeps, without parameters, buffers and inputs"""
        storage = lambda t: t.untyped_storage()
        packed = weakref.WeakSet()  # a dead branch of the graph lets go of what it saved

        class Saved:
            def __init__(self, t):
                self.t = t.detach()  # an output leads to the node that keeps it: no dead branch would go
                packed.add(self)

        with self.torch.autograd.graph.saved_tensors_hooks(Saved, lambda s: s.t):
            loss = self.loss()
        own = {  # as they are now: a program may have given them other storages
            storage(t).data_ptr()
            for t in (*self.module.parameters(), *self.module.buffers(), *self.inputs.values())
        }
        alive = {
            storage(s.t).data_ptr(): storage(s.t).nbytes()
            for s in packed
            if s.t.is_cuda and storage(s.t).data_ptr() not in own
        }
        del loss
        return sum(alive.values())

    def events(self):
        """the step's events: phase, action, id (-1: allocated before), requested bytes"""
        trace = lambda: self.torch.cuda.memory._snapshot()["device_traces"][0]
        marks = []
        self.torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=20_000_000)
        try:
            self.run(lambda phase: marks.append((phase, len(trace()))))
            entries = trace()
        finally:
            self.torch.cuda.memory._record_memory_history(enabled=None)
        ids, rows, begin, n = {}, [], marks[0][1], 0
        for phase, end in marks[1:]:
            for t in entries[begin:end]:
                if t["action"] == "alloc":
                    ids[t["addr"]] = n
                    rows.append([phase, "alloc", n, t["size"]])
                    n += 1
                elif t["action"] == "free_completed":
                    rows.append([phase, "free", ids.pop(t["addr"], -1), t["size"]])
            begin = end
        return rows

    def places(self):
        """where every allocation of a step happens: the module's path, in backward the autograd node and that path"""
        path_of = {id(m): n or type(m).__name__ for n, m in self.module.named_modules()}
        stack, spans, label_of, starts = [type(self.module).__name__], [], {}, []
        phases, first = [], self.allocations()

        def enter(m, _):
            spans.append((self.allocations(), stack[-1]))
            stack.append(path_of.get(id(m), type(m).__name__))

        def leave(m, _, out):
            spans.append((self.allocations(), stack[-1]))
            name_nodes(out, stack.pop())

        def name_nodes(out, path):
            todo = []

            def walk(v):
                if isinstance(v, self.torch.Tensor):
                    todo.append(v.grad_fn)
                elif isinstance(v, dict):
                    [walk(w) for w in v.values()]
                elif isinstance(v, (tuple, list)):
                    [walk(w) for w in v]

            walk(out)
            while todo:
                f = todo.pop()
                if f is None or f in label_of:
                    continue
                label_of[f] = f"{f.name()} of {path}"
                hooks.append(
                    f.register_prehook(lambda _, f=f: starts.append((self.allocations(), label_of[f])))
                )
                todo += [g for g, _ in f.next_functions]

        hooks = [
            self.torch.nn.modules.module.register_module_forward_pre_hook(enter),
            self.torch.nn.modules.module.register_module_forward_hook(leave),
        ]

        def mark(phase):
            nonlocal first
            if phase is None:
                first = self.allocations()
            else:
                phases.append((self.allocations(), phase))

        try:
            self.run(mark, lambda loss: name_nodes(loss, stack[-1]))
        finally:
            [h.remove() for h in hooks]
        label_of.clear()
        rows, at, k, s = [], first, 0, 0
        for end, phase in phases:
            while at < end:
                who = ""
                if phase == "forward":  # the first span that ends behind it
                    while k < len(spans) and spans[k][0] <= at:
                        k += 1
                    who = spans[k][1] if k < len(spans) else stack[0]
                elif phase == "backward":  # the last node that began before it
                    while s < len(starts) and starts[s][0] <= at:
                        s += 1
                    who = starts[s - 1][1] if s else ""
                rows.append(who)
                at += 1
        return rows


def on_device():
    try:
        import torch
    except ImportError:
        raise Problem(
            "measuring needs PyTorch: pip install torch (or --measured FILE, a measurement that was kept)"
        )
    if not torch.cuda.is_available():
        raise Problem(
            "no CUDA device: run it with --record FILE on a machine that has one, and here with --measured FILE"
        )
    return torch


def exporter_options(o):
    w = []
    for name in EXPORTER:
        if getattr(o, name) is not None:
            w += ["--" + name.replace("_", "-"), str(getattr(o, name))]
    w += [x for pair in o.set for x in ("--set", pair)]
    w += ["--batch", str(o.batch)] * (o.batch is not None) + ["--eval"] * (o.train is None)
    return w + ["--keep"] * o.keep


def export(o):
    """the text of the module, and what it cannot say: export_torch.py, run as one would"""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "model.vram")
        p = subprocess.run(
            [sys.executable, os.path.join(HERE, "export_torch.py"), o.source, "-o", out]
            + exporter_options(o),
            capture_output=True,
            text=True,
        )
        lines = p.stderr.strip().split("\n")
        if p.returncode:
            raise Problem(
                lines[-1].removeprefix("export_torch: ") or f"export_torch.py ends with {p.returncode}"
            )
        with open(out) as f:
            return f.read(), [l.removeprefix("note: ") for l in lines if l.startswith("note: ")]


def with_loss(text):
    """a text that ends in a tensor ends in its sum"""
    lines = text.splitlines()
    last = lines.pop().split()
    return "\n".join(lines + [f"sum loss {last[1]}", " ".join(["output loss"] + last[2:])]) + "\n"


def vram_options(o, device, text):
    """how `vram estimate` is told the same step"""
    w = ["--train", o.train, "--step", o.step] if o.train else ["--infer"]
    for name in ("amp", "dtype", "optim_impl"):
        if getattr(o, name):
            w += ["--" + name.replace("_", "-"), getattr(o, name)]
    if o.accumulate > 1:
        w += ["--accumulate", str(o.accumulate)]
    if o.checkpoint:
        w += ["--checkpoint", str(o.checkpoint)]
    w += ["--keep-grads"] * o.keep_grads + ["--zero-grad-late"] * o.zero_grad_late
    if o.batch is not None and re.search(r"^dim ", text, re.MULTILINE):  # else it was exported at this batch
        w += ["--batch", str(o.batch)]
    for d in o.dim:
        w += ["--dim", d]
    return w + ["--cc", "%d.%d" % tuple(device["cc"]), *rules_options()]


def rules_options():
    """--rules of the PyTorch that is measured, as the exporter names it"""
    import export_text

    return ["--rules", export_text.rules()[0].split()[1]] if export_text.rules() else []


def loading(o):
    """the arguments of export_torch.load"""
    from export_options import setting

    return dict(
        train=bool(o.train),
        batch=o.batch,
        options=dict(setting(pair) for pair in o.set),
        keep=o.keep,
        **{name: getattr(o, name) for name in EXPORTER if getattr(o, name) is not None},
    )


def measure(o, export=export):
    """a record: what was measured, the text, the options of vram estimate"""
    torch = on_device()
    sys.path.insert(0, HERE)
    import export_torch
    from export_rows import progress

    progress(f"{o.source}: exporting it")
    text, notes = (read(o.text), []) if o.text else export(o)
    progress(f"{o.source}: loading it")
    try:
        loaded = export_torch.load(o.source, **loading(o))
    except export_torch.Problem as e:
        raise Problem(str(e))
    dims = dict(loaded.dims)
    for n, v in (d.split("=") for d in o.dim):
        if n not in dims:
            raise Problem(f"--dim {n}: the model has no such dim (expected one of {', '.join(dims)})")
        dims[n] = int(v)
    return measured(o, loaded, dims, text, notes)


def measured(o, loaded, dims, text, notes):
    """the record of a module that is loaded: o has the options of the step"""
    import torch
    from export_rows import progress

    module = loaded.module
    properties = torch.cuda.get_device_properties(0)
    device = {
        "name": properties.name,
        "cc": [properties.major, properties.minor],
        "total": properties.total_memory,
        "pretended": PRETENDED,
    }
    m = Measurement(loaded, dims, o)
    if o.checkpoint and (
        type(module) is not torch.nn.Sequential or any(True for c in module for _ in c.children())
    ):
        raise Problem(
            f"{o.source}: --checkpoint needs a plain nn.Sequential of single layers, as checkpoint_sequential takes"
        )
    record = {
        "source": o.source,
        "options": vram_options(o, device, text),
        "torch": torch.__version__,
        "device": device,
        "params_bytes": bytes_of(module.parameters()),
        "inputs_bytes": bytes_of(m.inputs.values()),
    }
    steps, held = [], {}
    count = STEADY.get(o.train, 3) if o.train and o.step == "steady" else 2 if not o.train else 1
    for k in range(count):
        progress(f"{o.source}: step {k + 1} of {count}")
        held = m.held()
        steps.append(m.phases())
    record["phases"] = steps[-1]
    before, after = held, m.held()
    record["buffers_bytes"] = bytes_of(module.buffers()) + sum(after[k] for k in before.keys() & after.keys())
    if o.train:
        record["gradients_bytes"] = bytes_of(p.grad for p in m.params if p.grad is not None)
        state = m.optimizer.state.values() if m.optimizer else ()
        record["optimizer_bytes"] = bytes_of(
            t for s in state for t in s.values() if torch.is_tensor(t) and t.is_cuda
        )
    if not device["pretended"]:
        free, total = torch.cuda.mem_get_info()
        record["device_bytes"] = total - free
    progress(f"{o.source}: what is saved, every allocation")
    if o.train:
        record["saved_bytes"] = m.saved()
    if o.step == "steady":
        events, places = m.events(), m.places()
        count = sum(e[1] == "alloc" for e in events)
        record["events"] = [e + [places[e[2]] if e[2] >= 0 and len(places) == count else ""] for e in events]
    progress()
    before = m.counters()["requested_bytes"]
    torch._C._cuda_clearCublasWorkspaces()  # PyTorch 2.15 keeps none from call to call if it is not told to
    if rules_options()[1:] == ["torch-2.15"]:  # the estimate of older versions has those that they keep
        record["kept_workspaces_bytes"] = before - m.counters()["requested_bytes"]
    return {**record, "text": with_loss(text) if m.summed and not o.text else text, "notes": notes}


# ---- comparing


def estimate(record):
    """what vram estimate says of the record's text: the JSON object, and the events"""
    answers = []
    own = ["--cudnn", "none"] if record["device"]["pretended"] else []  # it gives cuDNN no workspaces
    for output in ("--json",), ("--events", "-"):
        try:
            status, out, err = export_command.run(
                ["estimate", "-", *record["options"], *own, *output], record["text"]
            )
        except OSError as e:
            raise Problem(
                f"{export_command.tool()}: {e.strerror}; build it with make, or name it with VRAM=FILE"
            )
        if status not in (0, 3):
            raise Problem(f"vram estimate: {(err.strip().splitlines() or [f'exit status {status}'])[-1]}")
        answers.append(out)
    rows = [l.split(",", 5) for l in answers[1].splitlines()[1:]]
    return json.loads(answers[0]), [
        [w[0], w[1], int(w[2]), int(w[3]), w[5], w[4]] for w in rows if len(w) == 6
    ]


class Allocation:
    def __init__(self, size, place="", category=None):
        self.size, self.place, self.category = size, place, category
        self.brief = False  # it goes before 8 more are made

    def as_json(self):
        return {"bytes": self.size, "place": self.place}


def allocations(events):
    by_phase, alive, made = collections.defaultdict(list), {}, 0
    for phase, action, number, *rest in events:
        if action == "alloc":
            a = Allocation(*rest)
            by_phase[phase].append(a)
            alive[number] = a, made
            made += 1
        elif number in alive:
            a, at = alive.pop(number)
            a.brief = made - at <= 8
    return by_phase


def extra(a, i, b, j):
    """how many brief blocks stand in a from i on, before it goes on as b does from j on"""
    for k in range(i, min(i + 4, len(a))):
        if not a[k].brief:
            break
        size = lambda v, at: v[at].size if at < len(v) else None
        second = k + 3 if k + 2 < len(a) and a[k + 2].brief and size(a, k + 2) != size(b, j + 1) else k + 2
        if size(a, k + 1) == size(b, j) and size(a, second) == size(b, j + 1):
            return k + 1 - i
    return 0


def compare_events(theirs, ours):
    """For every phase: allocations of both, how many are equal in order before the first difference, that difference.
    On the way, what libraries ask for may stand on one side alone: brief blocks that were measured (more: cuDNN's
    workspaces on a real device), workspaces that were not (fewer: older versions of PyTorch keep cuBLAS's).
    """
    theirs, ours = allocations(theirs), allocations(ours)
    answer = {}
    for phase in PHASES:
        a, b = theirs.get(phase, []), ours.get(phase, [])
        if not a and not b:
            continue
        same_sizes = sorted(x.size for x in a) == sorted(x.size for x in b)
        i = j = equal = fewer = 0
        more = []
        while i < len(a) or j < len(b):
            if i < len(a) and j < len(b) and a[i].size == b[j].size:
                i, j, equal = i + 1, j + 1, equal + 1
                continue
            n = 0 if same_sizes else extra(a, i, b, j)
            if n:
                more += a[i : i + n]
                i += n
            elif not same_sizes and j < len(b) and b[j].category == "workspace":
                j, fewer = j + 1, fewer + 1
            else:
                break
        answer[phase] = {"measured": len(a), "estimated": len(b), "equal": equal}
        if more:
            answer[phase].update(more=len(more), more_largest=max(x.size for x in more))
        if fewer:
            answer[phase]["fewer"] = fewer
        if i < len(a) or j < len(b):
            if same_sizes:
                answer[phase]["same_sizes"] = True
            at = lambda v, k: v[k].as_json() if k < len(v) else None
            answer[phase]["first_difference"] = {"measured": at(a, i), "estimated": at(b, j)}
    return answer


def compare(record, ours, our_events):
    """rows: figure, measured, estimated; bounds: figure, measured, lower, upper, held; events by phase"""
    rows = []
    for k in ("params", "buffers", "inputs", "gradients", "optimizer", "saved"):
        if k + "_bytes" in record:
            rows.append((k, record[k + "_bytes"], ours[k + "_bytes"]))
    for phase in PHASES:
        m = record["phases"].get(phase)
        if m:
            o = ours["phases"][phase]
            for kind in ("requested", "allocated"):
                rows.append((f"{phase} {kind} end", m[kind + "_bytes"], o[kind + "_bytes"]))
                rows.append((f"{phase} {kind} peak", m[kind + "_bytes_peak"], o[kind + "_peak_bytes"]))
    peak = lambda kind: max(p[kind + "_bytes_peak"] for p in record["phases"].values())
    rows.append(("reserved peak", peak("reserved"), ours["peak_reserved_bytes"]))
    limits = [("allocated peak", peak("allocated"), ours["peak_allocated_bytes"])]
    if "device_bytes" in record:
        limits.append(("device used", record["device_bytes"], ours["device_bytes"]))
    kept = record.get("kept_workspaces_bytes", 0)  # and the estimate has none
    notes = (
        [f"{number(kept)} bytes of cuBLAS workspaces are kept from call to call: added to upper"]
        if kept
        else []
    )
    bounds = [
        {
            "figure": n,
            "measured": m,
            "lower": b["lower"],
            "expected": b["expected"],
            "upper": b["upper"] + kept,
            "held": b["lower"] <= m <= b["upper"] + kept,
        }
        for n, m, b in limits
    ]
    return {
        "source": record["source"],
        "options": record["options"],
        "device": record["device"],
        "torch": record["torch"],
        "figures": [{"figure": n, "measured": m, "estimated": e, "difference": e - m} for n, m, e in rows],
        "bounds": bounds,
        "events": compare_events(record["events"], our_events) if "events" in record else {},
        "notes": notes + record["notes"],
    }


# ---- printing


def number(n):
    return f"{n:,}"


def place_text(a):
    return (
        f"{number(a['bytes'])} bytes" + (f" in {a['place']}" if a["place"] else "") if a else "nothing more"
    )


def library_blocks(e):
    w = []
    if "more" in e:
        w.append(f"{e['more']} brief blocks more, the largest {number(e['more_largest'])} bytes")
    if "fewer" in e:
        w.append(f"{e['fewer']} workspaces fewer")
    return "".join("; " + x for x in w)


def agrees(phase, e):
    """an optimizer goes through the parameters as they were registered, the estimate as they are used"""
    return "first_difference" not in e or (phase == "optimizer" and "same_sizes" in e)


def event_lines(events):
    for phase, e in events.items():
        if agrees(phase, e):
            order = "in another order of the parameters" if "same_sizes" in e else "in order"
            count = f"all {e['measured']}" if e["measured"] == e["estimated"] else str(e["equal"])
            yield f"{phase}: {count} allocations equal {order}{library_blocks(e)}"
        else:
            d = e["first_difference"]
            yield (
                f"{phase}: {e['equal']} equal, then measured {place_text(d['measured'])}, estimated "
                f"{place_text(d['estimated'])} ({e['measured']} and {e['estimated']} allocations){library_blocks(e)}"
            )


def print_table(c, out=sys.stdout):
    d = c["device"]
    say = lambda *w: print(*w, file=out)
    say(f"{c['source']}  {' '.join(c['options'])}")
    say(f"on {d['name']}{' (pretended)' if d['pretended'] else ''}, torch {c['torch']}\n")
    say(f"{'bytes':26} {'measured':>16} {'estimated':>16}")
    for r in c["figures"]:
        off = (
            f"{r['difference']:+,} ({100 * r['difference'] / max(r['measured'], 1):+.3f} %)"
            if r["difference"]
            else "equal"
        )
        say(f"{r['figure']:26} {number(r['measured']):>16} {number(r['estimated']):>16}  {off}")
    say()
    for b in c["bounds"]:
        say(
            f"{b['figure']:26} {number(b['measured']):>16}  {'inside' if b['held'] else 'OUTSIDE'} {number(b['lower'])}..{number(b['upper'])}"
        )
    if c["events"]:
        say("\nallocations")
        for line in event_lines(c["events"]):
            say("  " + line)
    for n in c["notes"][:8]:
        say("note:", n)
    if len(c["notes"]) > 8:
        say(f"note: and {len(c['notes']) - 8} more (--json has all)")


MARKDOWN = (
    "| model | step | parameters | saved for backward | requested peak | allocated peak | `lower`..`upper` | allocations |\n"
    "|---|---|---:|---:|---:|---:|---:|---|"
)


def markdown(c):
    """one row of a table: a number where measured and estimated are equal, else both"""
    figures = {r["figure"]: r for r in c["figures"]}
    pair = lambda m, e: number(m) if m == e else f"**{number(m)}, estimated {number(e)}**"
    both = lambda r: pair(r["measured"], r["estimated"])
    requested = [r for n, r in figures.items() if " requested " in n]
    peak = pair(
        *(max(r[k] for r in requested if r["figure"].endswith("peak")) for k in ("measured", "estimated"))
    )
    wrong = sum(r["difference"] != 0 for r in requested)
    peak += f" ({wrong} of {len(requested)} figures of the phases differ)" if wrong else ""
    b = c["bounds"][0]
    expected = "" if c["device"]["pretended"] else f" (expected {number(b['expected'])})"
    events = f"{sum(e['equal'] if agrees(p, e) and 'same_sizes' not in e else e['measured'] for p, e in c['events'].items())} equal"
    events += "".join(f" ({p}{library_blocks(e)})" for p, e in c["events"].items() if library_blocks(e))
    for phase, e in c["events"].items():
        if not agrees(phase, e):
            d = e["first_difference"]
            where = (d["measured"] or d["estimated"])["place"]
            events = f"**{phase} differs** at {e['equal'] + 1} of {e['measured']}, {where}"
            break
    options = c["options"][: c["options"].index("--cc")]
    columns = (
        c["source"],
        " ".join(w for w in options if w not in ("--step", "steady")),
        both(figures["params"]),
        both(figures["saved"]) if "saved" in figures else "",
        peak,
        number(b["measured"]) + expected,
        "; ".join(
            ("" if b is c["bounds"][0] else f"{b['figure']} {number(b['measured'])} in ")
            + f"{number(b['lower'])}..{number(b['upper'])}"
            + ("" if b["held"] else " **broken**")
            for b in c["bounds"]
        ),
        events,
    )
    return "| " + " | ".join(columns) + " |"


# ---- the command


def arguments():
    a = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog=__doc__.split("\n", 2)[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    a.error = lambda message: fail(f"{message} (see --help)")
    a.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="torchvision:NAME, timm:NAME, hf:CONFIG.json or FILE.py:FUNCTION",
    )
    g = a.add_argument_group("the step, as in vram estimate")
    g.add_argument("--infer", action="store_true", help="forward under no_grad (default)")
    g.add_argument("--train", metavar="OPT", help="a training step with optimizer OPT")
    g.add_argument("--optim-impl", choices=list(IMPLEMENTATIONS), help="default: what PyTorch picks")
    g.add_argument(
        "--keep",
        action="store_true",
        help="what the module returns lives until the next step (out = model(...))",
    )
    g.add_argument("--step", choices=["first", "steady"], default="steady")
    g.add_argument("--amp", choices=["bf16", "fp16"], help="autocast; fp16 with GradScaler")
    g.add_argument("--dtype", choices=["bf16", "f16", "f32"], help="the whole model in that dtype")
    g.add_argument(
        "--accumulate",
        metavar="K",
        type=positive,
        default=1,
        help="K micro-batches before the optimizer's step",
    )
    g.add_argument("--keep-grads", action="store_true", help="zero_grad(set_to_none=False)")
    g.add_argument("--zero-grad-late", action="store_true", help="zero_grad() between forward and backward")
    g.add_argument(
        "--checkpoint",
        metavar="K",
        type=positive,
        help="checkpoint_sequential with K segments, of an nn.Sequential",
    )
    g.add_argument("--batch", metavar="N", type=positive)
    g.add_argument("--dim", metavar="NAME=N", action="append", default=[])
    g = a.add_argument_group("the model, as in export_torch.py")
    for name in EXPORTER[:-2]:
        g.add_argument("--" + name.replace("_", "-"), metavar="N", type=positive)
    g.add_argument("--attn", choices=["sdpa", "eager"])
    g.add_argument("--checkpointing", choices=["default", "reentrant", "non-reentrant"])
    g.add_argument("--set", metavar="NAME=VALUE", action="append", default=[])
    g.add_argument("--text", metavar="FILE", help="compare with this text instead of the exported one")
    g = a.add_argument_group("output")
    g.add_argument("--json", action="store_true", help="one JSON object")
    g.add_argument("--markdown", action="store_true", help="one row of a table")
    g.add_argument("--debug", action="store_true", help="a traceback where it fails")
    g.add_argument("--markdown-head", action="store_true", help="the head of that table, nothing else")
    g.add_argument("--record", metavar="FILE", help="keep the measurement")
    g.add_argument("--events", metavar="FILE", help="every allocation and free of the step as CSV")
    g.add_argument("--measured", metavar="FILE", help="compare a measurement that was kept; needs no PyTorch")
    return a


def positive(text):
    n = int(text)
    if n < 1:
        raise argparse.ArgumentTypeError("expected a whole number from 1 on")
    return n


def check(o):
    if (o.source is None) == (o.measured is None):
        raise Problem(
            "expected a source (torchvision:NAME, timm:NAME, hf:CONFIG.json, FILE.py:FUNCTION) or --measured FILE"
        )
    if o.source and o.source.endswith(".vram"):
        raise Problem(
            f"{o.source}: a text has no PyTorch code to run; give the module it describes, and the text with --text"
        )
    if o.train and o.infer:
        raise Problem("--train and --infer exclude each other")
    if o.train and o.train not in OPTIMIZERS:
        raise Problem(f"--train {o.train}: not one of torch.optim (found here: {', '.join(OPTIMIZERS)})")
    for pair in o.set:
        if not pair.partition("=")[0].isidentifier() or "=" not in pair:
            raise Problem(f"--set {pair}: expected NAME=VALUE")
    for d in o.dim:
        name, _, value = d.partition("=")
        if not name or not value.isdigit() or int(value) < 1:
            raise Problem(f"--dim {d}: expected NAME=N")
    if o.events and o.step == "first":
        raise Problem("--events: of a steady step only")
    for path in filter(None, (o.record, o.events)):
        try:
            open(path, "a").close()  # before the measurement, which takes long
        except OSError as e:
            raise Problem(f"{path}: cannot be written: {e.strerror}")


def main():
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # measure_torch.py ... | head
    o = arguments().parse_args()
    if o.markdown_head:
        print(MARKDOWN)
        return
    try:
        check(o)
        if o.measured:
            try:
                record = json.loads(read(o.measured))
                record["text"], record["phases"], record["options"], record["device"]["cc"]
                if o.text:
                    record["text"] = read(o.text)
            except ValueError as e:
                raise Problem(f"{o.measured}: {e}")
            except (KeyError, TypeError):
                raise Problem(f"{o.measured}: not a measurement that --record wrote")
        else:
            on_device()
            if PRETENDED and "NULLGPU_BOOL" not in os.environ:  # nothing is computed there: all of a mask is set
                os.environ["NULLGPU_BOOL"] = "1"
                os.execv(sys.executable, [sys.executable, *sys.argv])
            record = measure(o)
        if o.record:
            with open(o.record, "w") as f:
                json.dump(record, f, separators=(",", ":"))
        if o.events:
            if "events" not in record:
                raise Problem(f"{o.measured}: has no events, it is of a first step")
            with open(o.events, "w", newline="") as f:
                rows = csv.writer(f, lineterminator="\n")
                rows.writerow(("phase", "action", "id", "size", "node"))
                rows.writerows(record["events"])
        ours, our_events = estimate(record)
    except Problem as e:
        fail(e)
    except Exception as e:  # of the module: one line, as every bad input
        if (
            PRETENDED and os.environ.get("NULLGPU_BOOL") == "1"
        ):  # it checks what may not be: nothing of a mask is set
            os.environ["NULLGPU_BOOL"] = "0"
            os.execv(sys.executable, [sys.executable, *sys.argv])
        if o.debug:
            raise
        fail(f"{o.source}: {type(e).__name__}: {' '.join(str(e).split())[:300]}")
    c = compare(record, ours, our_events)
    if o.json:
        print(json.dumps(c))
    elif o.markdown:
        print(markdown(c))
    else:
        print_table(c)
    sys.exit(0 if all(b["held"] for b in c["bounds"]) else 3)


def fail(what):
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    program = os.path.basename(sys.argv[0]).removesuffix(".py")  # vram-measure where it is installed
    print(f"{program}: {what}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
