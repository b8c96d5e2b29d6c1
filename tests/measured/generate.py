#!/usr/bin/env python3
"""What transformers' generate() takes on a pretended GPU, step by step, as a line of JSON for each run.

    NULLGPU_PYTHON=python py generate.py CONFIG.json dtype=bfloat16,batch=1,prompt=128,new=4,cache=dynamic,padded=0 ... CONFIG.json ...

`steps`: of each forward pass the requested bytes before and behind it, and the peaks of requested, allocated and reserved bytes.
Weights are put on the device one after the other in the order of parameters(), tied ones once. A pretended GPU says of every
test of values that it fails: with padded=1 so it stays, and masks are made; with padded=0 whether all of a mask is set is answered
with yes, as it is where all tokens are there (what the question takes is taken), so generate() lets go of the mask. attn=eager;
what else is named is an argument of generate().
"""

import contextlib, inspect, json, os, re, sys

import torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq
from transformers import masking_utils


def requested():
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def on_device(model):
    """parameters and buffers as from_pretrained leaves them: each made once, buffers of f32 as they are"""
    made = {}

    def moved(t):
        if id(t) not in made:
            made[id(t)] = (torch.empty_like(t, device="cuda"), t)
        return made[id(t)][0]

    for p in model.parameters():
        moved(p)
    for m in model.modules():
        for name, p in m._parameters.items():
            if p is not None:
                m._parameters[name] = torch.nn.Parameter(moved(p), requires_grad=False)
        for name, b in m._buffers.items():
            if b is not None:
                m._buffers[name] = moved(b)
                if name.endswith("inv_freq") and "original_" + name not in m._buffers:
                    # the attribute that rotary modules have beside the buffer
                    if getattr(m, "original_" + name, None) is b:
                        setattr(m, "original_" + name, m._buffers[name])
    return model.eval()


def built(path, dtype, attention):
    """as from_pretrained() loads it, without weights; eager where the model has no attention of this kind"""
    config = AutoConfig.for_model(**json.load(open(path)))
    auto = AutoModelForCausalLM if not config.is_encoder_decoder else AutoModelForSeq2SeqLM
    auto = AutoModelForSpeechSeq2Seq if config.model_type == "whisper" else auto
    torch.set_default_dtype(dtype)
    for kind in (attention, "eager"):
        try:
            with torch.device("meta"):
                model = auto.from_config(config, dtype=dtype, attn_implementation=kind)
            break
        except ValueError:
            if kind == "eager":
                raise
    torch.set_default_dtype(torch.float32)
    strict = re.compile("|".join(getattr(model, "_keep_in_fp32_modules_strict", None) or ["(?!)"]))
    for prefix, m in model.named_modules():
        for name, b in m._buffers.items():
            if b is not None and ("inv_freq" in name or strict.search(f"{prefix}.{name}")) and b.is_floating_point():
                m._buffers[name] = b.float()
        for name, p in m._parameters.items():
            if p is not None and strict.search(f"{prefix}.{name}"):
                m._parameters[name] = torch.nn.Parameter(p.float())
    return on_device(model)


def all_of(tensor):
    """fast_all, which takes what it takes, and says that all is there"""
    (tensor.sum() == tensor.numel())
    return True


class Yes:
    """the answer to whether all is set, which lives as long as PyTorch's own"""

    def __init__(self, tensor):
        self.tensor = tensor

    def __bool__(self):
        return True


@contextlib.contextmanager
def nothing_padded():
    kept = masking_utils.fast_all, torch.Tensor.all
    masking_utils.fast_all = all_of
    torch.Tensor.all = lambda t, *args, **kwargs: kept[1](t, *args) if args or kwargs else Yes(kept[1](t))
    try:
        yield
    finally:
        masking_utils.fast_all, torch.Tensor.all = kept


def beams_go_on(model):
    """whether beam search is through it asks the device, which has no answer"""
    own = model._beam_search_has_unfinished_sequences
    model._beam_search_has_unfinished_sequences = lambda *args: own(*args) is not None
    return model


OWN = "dtype", "batch", "prompt", "new", "cache", "padded", "attn"


def run(path, o):
    dtype = getattr(torch, o["dtype"])
    model = beams_go_on(built(path, dtype, o["attn"]))
    weights, steps, forward = requested(), [], model.forward

    def seen(*args, **kwargs):
        if len(steps) == o["new"]:
            raise StopIteration  # nothing that it could read tells generate() that it is done
        before = requested()
        torch.cuda.reset_peak_memory_stats()
        out = forward(*args, **kwargs)
        s = torch.cuda.memory_stats()
        peaks = [s[f"{k}_bytes.all.peak"] for k in ("requested", "allocated", "reserved")]
        steps.append([before, requested(), *peaks])
        return out

    seen.__signature__ = inspect.signature(forward)
    model.forward = seen
    ids = torch.ones(o["batch"], o["prompt"], dtype=torch.long, device="cuda")
    if model.main_input_name == "input_features":
        c = model.config
        ids = torch.zeros(o["batch"], c.num_mel_bins, 2 * c.max_source_positions, dtype=dtype, device="cuda")
    more = {} if o["cache"] == "dynamic" else {"cache_implementation": o["cache"], "disable_compile": True}
    more |= {"do_sample": False, **{k: v for k, v in o.items() if k not in OWN}}
    with contextlib.nullcontext() if o["padded"] else nothing_padded(), contextlib.suppress(StopIteration):
        model.generate(ids, max_new_tokens=o["new"], **more)
    name = os.path.basename(path).removesuffix(".json")
    return {"model": name, **o, "weights": weights, "steps": steps}


def main():
    path = sys.argv[1]
    for text in sys.argv[2:]:
        if text.endswith(".json"):
            path = text
            continue
        o = {"dtype": "bfloat16", "batch": 1, "prompt": 128, "new": 4, "cache": "dynamic", "padded": 0, "attn": "sdpa"}
        for word in text.split(","):
            k, _, v = word.partition("=")
            o[k] = int(v) if v.isdigit() else float(v) if v.replace(".", "").isdigit() else v
        child = os.fork()  # each in a process of its own, whose allocator is empty
        if not child:
            print(json.dumps(run(path, o)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


transformers.logging.set_verbosity_error()
if __name__ == "__main__":
    main()
