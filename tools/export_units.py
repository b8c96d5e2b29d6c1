"""What wrappers of torch.distributed ask of a model: modules that fully_shard is called for, as `unit` lines where the names of nodes
alone do not show them, and the plan of tensor parallelism that a model of transformers carries, as `tp` lines where it is not the usual one."""

import re

import torch

A_LINE = 16  # names in a line

# styles of transformers (distributed/tensor_parallel.py) in the words of the text form
STYLES = {
    "colwise": "colwise",
    "colwise_rep": "colwise_rep",
    "colwise_gather_output": "colwise_rep",
    "rowwise": "rowwise",
    "rowwise_rep": "rowwise_rep",
    "rowwise_split_input": "rowwise_rep",
    "embedding_rowwise": "rowwise",
    "embedding_colwise": "colwise_rep",
    "sequence_parallel": "sequence",
    "replicated_with_grad_allreduce": "replicated_with_grad_allreduce",
    "replicate": "whole",
}
# styles that the text form names and vram refuses
NOT_PLAYED = (
    "packed_colwise",
    "packed_rowwise",
    "mla_kv_a_proj",
    "all_reduce",
    "moe_tp_experts",
    "moe_identity_expert",
    "local_params",
)
# the usual plan (src/parallel/cut_plan.c)
USUAL = {
    **dict.fromkeys("wq wk wv w1 w3 q_proj k_proj v_proj gate_proj up_proj fc1".split(), "colwise"),
    **dict.fromkeys("wo w2 o_proj out_proj down_proj fc2 tok_embeddings pos_embeddings embed_tokens".split(), "rowwise"),
    **dict.fromkeys("output lm_head".split(), "colwise_rep"),
}
LAYERS = (torch.nn.Linear, torch.nn.Embedding)


def models(module):
    """the module, or what it holds, that has lists as transformers' models do: (path with a point behind, model), the outermost"""
    found = []
    for name, m in module.named_modules():
        own = hasattr(m, "_no_split_modules") and hasattr(m, "config")
        if own and not any(name.startswith(path) for path, _ in found):
            found.append((name + "." if name else "", m))
    return found


def alike(module):
    """the children of the outermost lists of modules that have modules in them: layers of a transformer, blocks of a stage"""
    found = []

    def walk(m, path):
        for name, child in m.named_children():
            own = f"{path}{name}"
            inside = [(n, c) for n, c in child.named_children() if any(True for _ in c.parameters())]
            lists = isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict))
            if lists and len(inside) > 1 and sum(any(True for _ in c.children()) for _, c in inside) > 1:
                found.extend(f"{own}.{n}" for n, _ in inside)
            else:
                walk(child, own + ".")

    walk(module, "")
    return found


def shares(module, name):
    """a parameter of the module of that name is another module's, too: fully_shard refuses it as a group of its own"""
    own = {id(p) for p in module.get_submodule(name).parameters()}
    outside = (p for n, p in module.named_parameters(remove_duplicate=False) if not n.startswith(name + "."))
    return any(id(p) in own for p in outside)


def of(module):
    """names: of the classes that transformers keeps whole (_no_split_modules), the outermost; else of layers that are alike"""
    named = []
    for path, m in models(module):
        classes = m._no_split_modules or ()
        named += [path + n for n, c in m.named_modules() if n and type(c).__name__ in classes]
    outermost = [n for n in named if not any(n.startswith(o + ".") for o in named)]
    return [n for n in outermost if not shares(module, n)] or alike(module)


def by_number(name):
    """what `--parallel fsdp2=N` takes of a name without `unit` lines"""
    found = re.match(r"(.*?\.\d+)(\.|$)", name)
    return found and found.group(1)


def lines(units, names):
    seen = {u for u in units if any(n == u or n.startswith(u + ".") for n in names)}
    if not seen or {by_number(n) for n in names} - {None} == seen:
        return []
    units = [u for u in units if u in seen]
    return ["unit " + " ".join(units[i : i + A_LINE]) for i in range(0, len(units), A_LINE)]


def plan(module):
    """(pattern, style) of each name of the model's tp_plan, in its order; none where it is the usual plan"""
    found = []
    for path, m in models(module):
        own = dict(getattr(m, "_tp_plan", None) or {})
        base, prefix = getattr(m.config, "base_model_tp_plan", None) or {}, getattr(m, "base_model_prefix", "")
        inner = prefix + "." if prefix and hasattr(m, prefix) else ""
        own = {**{inner + k: v for k, v in base.items()}, **own}
        found += [(path + k, v) for k, v in own.items()]
    return [] if is_usual(module, found) else found


def is_usual(module, found):
    """does the plan cut the layers that the usual one cuts, and as that does?"""
    said = {}
    generic = lambda n: re.sub(r"\.\d+(?=\.|$)", ".*", n)
    names = dict(found)
    for name, m in module.named_modules():
        style = names.get(name, names.get(generic(name)))
        if isinstance(m, LAYERS):
            said[name] = STYLES.get(style, style)
        elif style and STYLES.get(style) not in ("replicated_with_grad_allreduce", "whole"):
            return False
    parameters = {generic(n) for n, _ in module.named_parameters()} | {n for n, _ in module.named_parameters()}
    if any(n in parameters for n in names):  # a style of one parameter
        return False
    usual = lambda n: USUAL.get(n.rpartition(".")[2])
    return all((None if s == "whole" else s) == usual(n) for n, s in said.items())


def plan_lines(found, names, note):
    """`tp` lines of a model's plan; a style that is not known is told"""
    pattern_of = lambda p: re.compile("(.*\\.)?" + re.escape(p).replace("\\*", "[^.]*") + "(\\..*)?")
    matches = lambda p: [n for n in names if pattern_of(p).fullmatch(n)]
    by_style = {}
    for pattern, style in found:
        seen, short = matches(pattern), pattern.rpartition("*.")[2]
        if not seen:
            continue
        if matches(short) == seen:
            pattern = short
        if style not in STYLES and style not in NOT_PLAYED:
            note(f"tensor parallelism: {pattern} has a style that is not known, {style}")
            continue
        by_style.setdefault(STYLES.get(style, style), []).append(pattern)
    return [
        "tp " + " ".join([style, *patterns[i : i + A_LINE]])
        for style, patterns in by_style.items()
        for i in range(0, len(patterns), A_LINE)
    ]
