"""Where models come from: torchvision, timm, transformers, a function of a file."""

import argparse, contextlib, copy, dataclasses, difflib, importlib, importlib.util, inspect, json, os, re, socket, sys, typing

import torch, torch.nn as nn, torch.nn.functional as F
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    unset_fake_temporarily,
)

import export_checkpoint
from export_inputs import Inputs
from export_rows import Problem, one_line, place


@dataclasses.dataclass
class Loaded:
    """a module with what it takes to run it: forward(**make_inputs(N=2)) is one forward pass, in training up to the loss"""

    module: nn.Module
    make_inputs: typing.Callable  # a size for each dim -> dict name -> tensor on the CPU
    forward: typing.Callable  # takes these tensors by name
    name: str = "model"
    dims: tuple = (("N", 2),)  # name and default of each dim, the batch first
    comment: str = ""
    notes: tuple = ()  # what the user should know of how it was loaded
    dtypes: typing.Callable = None  # dtype -> {name: dtype} of the module loaded in that one; None: all of it
    keep: bool = False  # the loop around the module keeps all that it returns until the next step
    count: int = None  # how many are found where shapes depend on data; None: that is refused
    generation: object = None  # what --generate says; then forward(new) gives the program that generates so many tokens
    packed: bool = False  # prompts of several lengths: masks are made
    ones: tuple = ()  # dims that were asked to be 1, where a module may run other operations


def built(make):
    """a module without memory; with real tensors where its constructor looks at values"""
    try:
        return make()
    except (
        DataDependentOutputException,
        DynamicOutputShapeException,
        RuntimeError,
        NotImplementedError,
        AttributeError,  # tolist() of PyTorch 2.4
    ):
        with unset_fake_temporarily():
            return make()


def package(name, source):
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Problem(f"{source} needs the Python package {name}: pip install {name} ({e})")


def version(package):
    return package.__version__.split("+")[0]


def unknown(what, name, names):
    near = difflib.get_close_matches(name, names, 5, 0.5)
    return Problem(f"{what} {name!r}" + (f"; the closest: {', '.join(near)}" if near else ""))


def image_loss(out, target):
    """cross entropy as these models are trained: of every output with its own weight"""
    if isinstance(out, dict):  # torchvision's segmentation
        loss = F.cross_entropy(out["out"], target)
        return loss + 0.5 * F.cross_entropy(out["aux"], target) if "aux" in out else loss
    if isinstance(out, (tuple, list)):  # auxiliary heads
        loss = F.cross_entropy(out[0], target)
        for o in out[1:]:
            loss = loss + 0.3 * F.cross_entropy(o, target)
        return loss
    return F.cross_entropy(out, target)


def image_model(module, shape, o, dense=False):
    """a module that takes images; dense: a class for every pixel"""

    def inputs(N=2):
        made = {"x": torch.zeros(N, *shape)}
        if o.train:
            made["target"] = torch.zeros(N, *(shape[-2:] if dense else []), dtype=torch.long)
        return made

    def forward(x, target=None):
        out = module(x)
        if target is not None:
            return image_loss(out, target)
        return out["out"] if isinstance(out, dict) else out

    return module, inputs, forward, {"N": 2}


OBJECTS = 8  # in each image that a detector is trained with


def detection_model(module, name, o):
    """a module that finds objects: images, and in training what is in each; shapes that depend on data have `count` elements"""
    side = o.size or (module.transform.fixed_size or [800])[0]
    module.transform.torch_choice = lambda sizes: sizes[-1]
    module.vram_count = o.count or 512
    long = dict(dtype=torch.long)

    def inputs(N=2):
        made = {"x": torch.zeros(N, 3, side, side)}
        if o.train:
            made |= {"boxes": torch.zeros(N, OBJECTS, 4), "labels": torch.zeros(N, OBJECTS, **long)}
        if o.train and "mask" in name:
            made["masks"] = torch.zeros(N, OBJECTS, side, side, dtype=torch.uint8)
        if o.train and "keypoint" in name:
            made["keypoints"] = torch.zeros(N, OBJECTS, 17, 3)
        return made

    def forward(x, **targets):
        if not targets:
            return module(list(x))
        per_image = [dict(zip(targets, values)) for values in zip(*targets.values())]
        return sum(module(list(x), per_image).values())

    return module, inputs, forward, {"N": 2}


def from_torchvision(name, o):
    models = package("torchvision", f"torchvision:{name}").models
    if name not in models.list_models():
        raise unknown("torchvision has no model", name, models.list_models())
    takes = inspect.signature(models.get_model_builder(name)).parameters
    options = {k: None for k in ("weights", "weights_backbone") if k in takes} | o.options
    with named_arguments(f"torchvision:{name}"):
        module = built(lambda: models.get_model(name, **options))
    kind = type(module).__module__.split(".")[2]
    if kind == "detection":
        return detection_model(module, name, o), f"torchvision.models.detection.{name}", "torchvision"
    if kind == "optical_flow":
        raise Problem(f"torchvision:{name}: it takes two images; write a function in a file")
    crop = getattr(models.get_model_weights(name).DEFAULT.transforms(), "crop_size", [224])
    crop = [getattr(module, "image_size", None) or crop[0]]
    side = [o.size or crop[0]] * 2
    shape = [3] + ([o.frames] if kind == "video" else []) + side
    return image_model(module, shape, o, kind == "segmentation"), f"torchvision.models.{name}", "torchvision"


def from_timm(name, o):
    timm = package("timm", f"timm:{name}")
    if not timm.is_model(name):
        raise unknown("timm has no model", name, timm.list_models())
    with named_arguments(f"timm:{name}"):
        module = built(lambda: timm.create_model(name, pretrained=False, **o.options))
    shape = list(module.pretrained_cfg["input_size"])
    if o.size:
        shape[1:] = [o.size] * 2
    return image_model(module, shape, o), f"timm.create_model({name!r})", "timm"


# transformers: tables of its auto classes, in the order in which a model without `architectures` gets its class
HF_CLASSES = """SEQ_TO_SEQ_CAUSAL_LM SPEECH_SEQ_2_SEQ MASKED_LM CAUSAL_LM IMAGE_CLASSIFICATION AUDIO_CLASSIFICATION VIDEO_CLASSIFICATION
SEMANTIC_SEGMENTATION CTC IMAGE_TEXT_TO_TEXT MULTIMODAL_LM TDT RNNT TIME_SERIES_PREDICTION""".split()
# a training step keeps no keys and values; no layers are skipped at random
HF_SETTINGS = {
    "use_cache": False,
    "layerdrop": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "use_pretrained_backbone": False,  # sizes do not depend on what was learned
}
HF_DETECTION = ("ObjectDetection", "InstanceSegmentation", "UniversalSegmentation")


NOT_LOOKED_UP = "not looked up in the network"


@contextlib.contextmanager
def offline():
    """nothing is looked up in the network: a configuration is a file of somebody else"""
    settings = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    before = {k: os.environ.get(k) for k in settings}
    kept = socket.getaddrinfo, socket.socket.connect

    def refused(*args, **options):
        raise OSError(NOT_LOOKED_UP)

    def connect(self, address):
        return kept[1](self, address) if isinstance(address, (str, bytes)) else refused()

    os.environ.update(settings)
    socket.getaddrinfo, socket.socket.connect = refused, connect
    try:
        yield
    finally:
        socket.getaddrinfo, socket.socket.connect = kept
        for k, v in before.items():
            os.environ.pop(k, None) if v is None else os.environ.update({k: v})


def elsewhere(path, e):
    """raises a Problem if that is why: the configuration names a model of the hub"""
    if isinstance(e, OSError) or NOT_LOOKED_UP in str(e):
        raise Problem(
            f"{path} names what is not in it, and nothing is looked up in the network: {one_line(e)}"
        )


def hf_class(tf, config, path, names):
    """the class that the configuration names, or the one with a loss that fits its model_type best"""
    if not isinstance(names or [], list) or not all(isinstance(n, str) for n in names or []):
        raise Problem(f"{path}: architectures must be a list of names, found {names!r}")
    for n in names or []:
        found = getattr(tf, n, None)
        if isinstance(found, type) and issubclass(found, tf.PreTrainedModel):
            return found
        if found is not None:
            raise Problem(f"{path}: architectures has {n!r}, which is no model of transformers")
    tables = importlib.import_module("transformers.models.auto.modeling_auto")
    for kind in [f"MODEL_FOR_{k}_MAPPING_NAMES" for k in HF_CLASSES] + ["MODEL_MAPPING_NAMES"]:
        n = getattr(tables, kind, {}).get(config.model_type)
        if n:
            return getattr(tf, n if isinstance(n, str) else n[0])
    raise Problem(f"{path}: transformers {version(tf)} has no model for model_type {config.model_type!r}")


def hf_config(tf, path, options, generates=False):
    path = os.path.join(path, "config.json") if os.path.isdir(path) else path
    try:
        with open(path) as f:
            fields = json.load(f)
    except FileNotFoundError as e:
        hub = ""
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", path) and not path.endswith(".json"):
            hub = f": hf download {path} config.json --local-dir {os.path.basename(path)}"
        raise Problem(f"{path}: {e.strerror}; expected the config.json of a transformers model{hub}")
    except OSError as e:
        raise Problem(f"{path}: {e.strerror}; expected the config.json of a transformers model")
    except ValueError as e:
        raise Problem(f"{path}: not JSON: {e}")
    if not isinstance(fields, dict) or not isinstance(fields.get("model_type"), str):
        raise Problem(
            f"{path}: no field model_type, which says what the other fields mean (a config.json of transformers has it)"
        )
    fields |= options
    kind = fields.pop("model_type")
    known = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    if kind not in known:
        raise unknown(f"{path}: transformers {version(tf)} has no model_type", kind, known)
    for k in ("torch_dtype", "dtype", "quantization_config", "auto_map"):
        fields.pop(k, None)  # the dtype is chosen when the model is estimated
    try:
        config = tf.AutoConfig.for_model(kind, **fields)
    except Exception as e:
        elsewhere(path, e)
        raise Problem(f"{path}: {one_line(e)}")
    for key, value in HF_SETTINGS.items():
        if hasattr(config, key) and key not in options and not (generates and key == "use_cache"):
            setattr(config, key, value)
    return config, fields


def hf_defaults(path, config, fields):
    """notes on sizes that the file leaves to transformers: its writer may have meant another model"""
    text = config.get_text_config()
    inner = [v for v in fields.values() if isinstance(v, dict)]
    absent = [
        f"{n}={getattr(text, n)}"
        for n in ("hidden_size", "num_hidden_layers", "vocab_size")
        if hasattr(text, n) and not any({n, text.attribute_map.get(n)} & d.keys() for d in [fields, *inner])
    ]
    return [f"{path} does not say {', '.join(absent)}: defaults of transformers"] if absent else []


def from_hf(path, o):
    with offline():
        return from_config(path, o)


def from_config(path, o):
    tf = package("transformers", f"hf:{path}")
    config, fields = hf_config(tf, path, o.options, bool(o.generate))
    names = fields.get("architectures")
    cls = hf_class(tf, config, path, names)
    if o.train and cls.__name__.endswith(HF_DETECTION):
        raise Problem(
            f"{path}: the loss of {cls.__name__} depends on what is in the images; --eval, or write a function in a file"
        )
    for attention in dict.fromkeys((o.attn, "eager")):
        config._attn_implementation = attention
        try:
            module = built(lambda: cls(config))
            break
        except ValueError as e:
            if attention == "eager" or "attention" not in str(e):
                raise Problem(f"{path}: {cls.__name__}: {one_line(e)}")
        except ImportError as e:
            raise Problem(f"{path}: {one_line(e)}")
        except Exception as e:
            elsewhere(path, e)
            raise
    inputs = Inputs(module, config, o)
    more = (
        {"return_loss": True}
        if o.train and "return_loss" in inspect.signature(module.forward).parameters
        else {}
    )

    def forward(**inputs):
        out = module(**inputs, **more)
        if o.train and out.get("loss") is not None:
            return out if o.keep else out.loss
        first = (
            out.logits if "logits" in out else next(v for v in out.values() if isinstance(v, torch.Tensor))
        )
        return first.float().mean() if o.train else first  # a model without a loss of its own

    module.vram_dtypes = lambda dtype: hf_dtypes(cls, config, dtype)
    if o.generate:
        return hf_generation(path, module, config, o), f"transformers.{cls.__name__}, attention {attention}, generate()", "transformers"
    inputs.settle(forward)
    return (
        (module, inputs.make, forward, inputs.dims),
        f"transformers.{cls.__name__}, attention {attention}",
        "transformers",
        *hf_defaults(path, config, fields),
        *inputs.notes,
    )


def beams_go_on(module):
    """asks what beam search asks, whether it is through, and does not end it: no values tell"""
    own = getattr(type(module), "_beam_search_has_unfinished_sequences", None)

    def asked(*args, **kwargs):
        own(*args, **kwargs)
        return True

    if own:
        module._beam_search_has_unfinished_sequences = asked


def hf_generation(path, module, config, o):
    """generate() of a model, and its prompt"""
    if not module.can_generate():
        raise Problem(f"{path}: {type(module).__name__} has no generate()")

    beams_go_on(module)
    text = config.get_text_config(decoder=True)
    windows = {getattr(text, k, None) for k in ("sliding_window", "attention_chunk_size")}
    o.generate.full = tuple(sorted(w - (o.generate.cache != "static") for w in windows if isinstance(w, int)))
    limits = [getattr(text, k, None) for k in ("max_position_embeddings", "n_positions")]
    o.generate.longest = min([v - 16 for v in limits if isinstance(v, int)], default=o.generate.longest)

    prompt, o.seq = Inputs(module, config, o), o.generate.prompt

    def inputs(N=2, S=None):
        made = prompt.make(N, S or o.generate.prompt, 1)
        return {module.main_input_name: made[module.main_input_name]}

    def forward(new):
        return lambda **given: module.generate(**given, **o.generate.arguments(new))

    return module, inputs, forward, {"N": 2}


def without_values(masks, packed):
    """lets transformers make its masks without looking at values: as if no sequences were packed and no mask hid anything, or both were so"""
    masks.vram_packed = packed
    if hasattr(masks, "vram_original") or not hasattr(masks, "fast_all"):
        return  # transformers before 5 has not all of these functions, and asks for values elsewhere
    masks.vram_original = masks.find_packed_sequence_indices, masks.is_tracing, masks.fast_all

    def find_packed_sequence_indices(position_ids):
        if not isinstance(position_ids, FakeTensor):
            return masks.vram_original[0](position_ids)
        before = position_ids[:, :1] - 1  # lives as long as the original's
        steps = torch.diff(position_ids, prepend=before, dim=-1)
        sequence = (steps != 1).cumsum(-1)
        (sequence[:, -1] == 0).all()
        return sequence if masks.vram_packed else None

    def fast_all(t):
        all_of_them = masks.vram_original[2](t)
        return not masks.vram_packed if isinstance(t, FakeTensor) else all_of_them

    masks.find_packed_sequence_indices, masks.fast_all = find_packed_sequence_indices, fast_all
    masks.is_tracing = lambda t=None: not isinstance(t, FakeTensor) and masks.vram_original[1](t)


def hf_dtypes(cls, config, dtype):
    """what from_pretrained(dtype=) gives parameters and buffers: not all that .to(dtype) does"""
    with offline(), torch.device("meta"):
        module = cls._from_config(copy.deepcopy(config), dtype=dtype)
    kept = getattr(module, "_keep_in_fp32_modules_strict", None) or ()
    kept = re.compile("|".join(rf"(^|\.){re.escape(k)}($|\.)" for k in kept) or "(?!)")
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {n: torch.float32 if kept.search(n) and t.dtype == dtype else t.dtype for n, t in named}


@contextlib.contextmanager
def named_arguments(source):
    """a constructor that does not take what --set gives, or that fails with it"""
    try:
        yield
    except (TypeError, ValueError, AssertionError, ImportError) as e:
        raise Problem(f"{source}: {one_line(e)}")


def from_file(path, name, o):
    if not os.path.isfile(path):
        raise Problem(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    file = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[spec.name] = file
    try:
        spec.loader.exec_module(file)
    except Exception as e:
        raise Problem(f"{path}: {one_line(e)}{place(e)}")
    function = getattr(file, name, None)
    if not callable(function):
        functions = [k for k, v in vars(file).items() if inspect.isfunction(v) and v.__module__ == spec.name]
        raise Problem(f"{path}: no function {name!r} (found {', '.join(functions) or 'none'})")
    if o.generate:
        return file_generation(f"{os.path.basename(path)}:{name}", function, o)
    try:
        result = built(lambda: function(**o.options))
    except Exception as e:
        raise Problem(f"{path}:{name}: {one_line(e)}{place(e)}")
    made = result if isinstance(result, tuple) else (result,)
    if len(made) not in (2, 3) or not isinstance(made[0], nn.Module):
        found = (
            "(" + ", ".join("Tensor" if isinstance(v, torch.Tensor) else type(v).__name__ for v in made) + ")"
            if isinstance(result, tuple)
            else type(result).__name__
        )
        raise Problem(
            f"{path}:{name} must return (module, inputs) or (module, inputs, forward), the first a torch.nn.Module; found {found}"
        )
    module, first, forward = made + ((made[0],) if len(made) == 2 else ())
    return from_objects(f"{path}:{name}", module, first, forward, o), f"{os.path.basename(path)}:{name}", "torch"


def from_objects(source, module, first, forward, o):
    """a module, the inputs that it is called with, and what runs it; source names it in messages"""
    takes = inspect.signature(module.forward if forward is module else forward).parameters
    if not isinstance(first, dict):
        first = dict(zip(takes, first if isinstance(first, (tuple, list)) else (first,)))
    for k, v in first.items():
        if not isinstance(v, torch.Tensor):
            raise Problem(f"{source}: input {k} must be a tensor, found {type(v).__name__}")
        if v.dim() and not v.shape[0]:
            raise Problem(f"{source}: input {k} is empty: its first axis, the batch, has size 0")
    if (
        forward is not module and not o.train
    ):  # the loss is training's: the module alone, with what it takes itself
        forward, takes = module, inspect.signature(module.forward).parameters
        first = {k: v for k, v in first.items() if k in takes}
    try:
        inspect.signature(module.forward if forward is module else forward).bind(**first)
    except TypeError as e:
        raise Problem(
            f"{source}: the inputs ({', '.join(first)}) are not what forward takes ({', '.join(takes)}): {e}"
        )
    batch = next((t.shape[0] for t in first.values() if t.dim()), 1)

    def inputs(N=batch):
        grown = lambda t: (
            torch.cat([t] * -(-N // batch))[:N] if t.dim() and t.shape[0] == batch else t.clone()
        )
        return {k: grown(t.detach()).requires_grad_(t.requires_grad) for k, t in first.items()}

    return module, inputs, forward, {"N": batch}


CACHES = "past_key_values past_key_value past kv_cache cache caches cache_params state states mems hidden".split()


def cache_of(out, name):
    """what a call of a module gives for its next one, in an object, a dict or behind its first result"""
    if isinstance(out, dict):
        return out.get(name)
    if isinstance(out, (tuple, list)):
        return out[1] if len(out) > 1 else None
    return getattr(out, name, None)


def loop_around(module, source):
    """calls that each get the cache that the one before gave, and the token that came last"""
    takes = inspect.signature(module.forward).parameters
    name = next((n for n in CACHES if n in takes), None)
    if name is None:
        raise Problem(
            f"{source}: forward has no argument that is a cache ({', '.join(CACHES)}); return (module, inputs, generate), where "
            "generate(new, **inputs) calls the module once for each token"
        )

    def generate(new, **given):
        out = module(**given)
        first = next(k for k in takes if k in given)
        others = {k: v for k, v in given.items() if k != first and v.shape[:2] != given[first].shape[:2]}
        for _ in range(new - 1):
            result = out if isinstance(out, torch.Tensor) else next(iter(out.values() if isinstance(out, dict) else out))
            last, cache = result[:, -1:], cache_of(out, name)
            if not given[first].is_floating_point():
                last = last.argmax(-1)
            if cache is None:
                raise Problem(f"{source}: forward takes {name} and gives none")
            del out, result
            out = module(**{first: last, name: cache, **others})

    return generate


def file_generation(source, function, o):
    """of a file: the program that generates, and inputs of which axes of the prompt's length are its tokens"""
    takes = inspect.signature(function).parameters
    sizes = {"prompt": o.generate.prompt, "new": o.generate.new}
    try:
        made = built(lambda: function(**{k: v for k, v in sizes.items() if k in takes}, **o.options))
    except Exception as e:
        raise Problem(f"{source}: {one_line(e)}{place(e)}")
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[0], nn.Module) or not isinstance(made[1], dict):
        raise Problem(f"{source} must return (module, inputs) or (module, inputs, generate), inputs a dict of tensors")
    module, first = made[:2]
    generate = made[2] if len(made) == 3 else loop_around(module, source)
    if not any(o.generate.prompt in t.shape for t in first.values()):
        raise Problem(f"{source}: no input has an axis of {o.generate.prompt}, the tokens of the prompt (its argument `prompt` says how many)")
    batch = next((t.shape[0] for t in first.values() if t.dim()), 1)

    def inputs(N=batch, S=None):
        def grown(t):
            shape = [S if a == o.generate.prompt and S else N if not k and a == batch else a for k, a in enumerate(t.shape)]
            return torch.zeros(shape, dtype=t.dtype)

        return {k: grown(t) for k, t in first.items()}

    return (module, inputs, lambda new: lambda **given: generate(new, **given), {"N": batch}), source, "torch"


def refuse_compiled(module, source):
    """what a compiled module allocates is not what its eager program does"""
    for name, m in module.named_modules():
        compiled = type(m).__name__ == "OptimizedModule" or getattr(m, "_compiled_call_impl", None)
        if compiled:
            raise Problem(
                f"{source}: {name or 'the module'} is compiled (torch.compile); export the module as it is without"
            )


SOURCES = {"torchvision": from_torchvision, "timm": from_timm, "hf": from_hf}


def load(
    source,
    train=True,
    batch=None,
    seq=128,
    size=None,
    frames=16,
    attn="sdpa",
    target_seq=None,
    samples=16000,
    options={},
    checkpointing=None,
    keep=False,
    count=None,
    packed=False,
    generate=None,
    without=(),
    objects=None,
):
    """What source names, as a Loaded; raises Problem where that fails. Inside without_memory() it takes none. The arguments are
    the options of the command; options: what --set gives; objects: a module, its inputs and what runs it (None: itself), which
    source only names."""
    o = argparse.Namespace(
        train=train,
        seq=seq,
        size=size,
        frames=frames,
        attn=attn,
        target_seq=target_seq,
        samples=samples,
        options=options,
        keep=keep,
        count=count,
        generate=generate,
        without=without,
    )
    kind, _, rest = source.partition(":")
    path, _, function = source.rpartition(":")
    if without and kind != "hf":
        raise Problem(f"{source}: --without is for hf:, whose inputs come from the signature of forward")
    if objects:
        run = objects[2] or objects[0]
        made, comment, made_by, notes, name = from_objects(source, *objects[:2], run, o), source, "torch", [], source
    elif kind in SOURCES and rest:
        made, comment, made_by, *notes = SOURCES[kind](rest, o)
        name = os.path.basename(rest.rstrip("/")).removesuffix(".json")
    elif path.endswith(".py") and function:
        made, comment, made_by, *notes = from_file(path, function, o)
        name = function
    else:
        raise Problem(
            f"{source!r} names no model; expected torchvision:NAME, timm:NAME, hf:CONFIG.json or FILE.py:FUNCTION"
        )
    module, inputs, forward, dims = made
    module.train(train)
    if checkpointing and train:
        export_checkpoint.switch_on(module, source, checkpointing)
    refuse_compiled(module, source)
    if "transformers" in sys.modules:
        with contextlib.suppress(ImportError):  # transformers before 4.53
            without_values(importlib.import_module("transformers.masking_utils"), packed)
    if batch:
        dims["N"] = batch
    asked = {"N": batch, "S": seq, "T": target_seq or seq}
    by = [f"{p} {version(sys.modules[p])}" for p in dict.fromkeys((made_by, "torch"))]
    mode = "train" if train else "eval"
    more = {"generation": generate, "packed": packed} if generate else {}
    return Loaded(
        module,
        inputs,
        forward,
        name,
        tuple(dims.items()),
        f"{comment}; {', '.join(by)}, {mode} mode",
        tuple(notes),
        getattr(module, "vram_dtypes", None),
        keep,
        getattr(module, "vram_count", count),
        ones=tuple(n for n in dims if asked.get(n) == 1),
        **more,
    )
