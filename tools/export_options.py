"""What export_torch.py's command line says. No PyTorch here: to import it takes seconds, which -h and a mistyped word need not wait for."""

import argparse, ast, os, sys

PROGRAM = os.path.basename(sys.argv[0])  # export_torch.py, or vram-export where it is installed
SAYS = PROGRAM.removesuffix(".py") + ":"

EXAMPLES = f"""  {PROGRAM} torchvision:resnet50 | vram estimate - --train adamw --batch 64
  {PROGRAM} timm:vit_small_patch16_224 -o vit.vram
  {PROGRAM} hf:config.json --seq 2048 -o llama.vram
    (config.json as in every repository of transformers models)
  {PROGRAM} train.py:example -o mine.vram
    (def example(): return MyModule(), {{"x": torch.zeros(2, 3, 64, 64)}})"""


class Problem(Exception):
    """what is wrong and what to do, in one line"""


class Generation:
    """what --generate says: prompt=S,new=N, and arguments of generate()"""

    OWN = {"prompt", "new", "cache"}

    def __init__(self, text):
        self.prompt, self.new, self.cache, self.options = None, None, "dynamic", {}
        self.longest = 1 << 30  # tokens of the longest prompt
        self.full = ()  # tokens before a step with which a window is full
        for word in text.split(","):
            name, equal, value = word.partition("=")
            if not equal or not name.isidentifier():
                raise Problem(f"--generate takes prompt=S,new=N and NAME=VALUE of generate(), found {word!r}")
            if name in ("prompt", "new"):
                if not value.isdigit() or not 0 < int(value) < 1 << 31:
                    raise Problem(f"--generate: {name} must be a whole number from 1, found {value!r}")
                setattr(self, name, int(value))
            elif name == "cache":
                self.cache = value
            else:
                self.options[name] = plain(value)
        if self.prompt is None or self.new is None:
            raise Problem("--generate needs prompt=S and new=N")
        if self.cache not in ("dynamic", "static", "offloaded"):
            why = ", which is packed by another package" if self.cache == "quantized" else ""
            raise Problem(f"--generate: cache must be dynamic, static or offloaded, found {self.cache!r}{why}")
        for name in ("assistant_model", "prompt_lookup_num_tokens"):
            if name in self.options:
                raise Problem(f"--generate: {name} (assisted generation) has steps of sizes that depend on data")

    def arguments(self, new):
        """of transformers' generate()"""
        cache = {} if self.cache == "dynamic" else {"cache_implementation": self.cache, "disable_compile": True}
        return {"max_new_tokens": new, "do_sample": False, **cache, **self.options}


def plain(value):
    """a number or a string, as an argument is given"""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return {"True": True, "False": False}.get(value, value)


def setting(text):
    """NAME=VALUE of --set, the value as Python writes it, or a string"""
    name, equal, value = text.partition("=")
    if not equal or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def count(text):
    if not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text!r}")
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Problem(f"{message} (-h lists the options)")


def command_line():
    a = Parser(
        description="Turns a PyTorch module into the text form of vram.h, by running one forward pass without memory.",
        epilog="examples:\n" + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    a.add_argument("source", help="torchvision:NAME, timm:NAME, hf:CONFIG.json or FILE.py:FUNCTION")
    a.add_argument("-o", metavar="FILE", help="where the text goes (default: standard output)")
    a.add_argument(
        "--eval", action="store_true", help="the module in evaluation mode, without loss and gradients"
    )
    a.add_argument(
        "--set",
        type=setting,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the constructor or of FUNCTION, a field of the configuration; may be given more than once",
    )
    a.add_argument(
        "--batch",
        type=count,
        metavar="N",
        help="the default of dim N (default: 2, or what FUNCTION's inputs have)",
    )
    a.add_argument(
        "--seq", type=count, default=128, metavar="S", help="hf: tokens, the default of dim S (default: 128)"
    )
    a.add_argument(
        "--target-seq",
        type=count,
        metavar="T",
        help="hf: tokens of the decoder, the default of dim T (default: as --seq)",
    )
    a.add_argument(
        "--generate",
        type=Generation,
        metavar="prompt=S,new=N",
        help="the steps of a generation, with what lives from one to the next; also cache=static and arguments of transformers' generate(), "
        "as num_beams=4 or do_sample=1,top_k=50",
    )
    a.add_argument("--size", type=count, help="images: pixels a side (default: the model's own)")
    a.add_argument("--frames", type=count, default=16, help="torchvision's videos: frames (default: 16)")
    a.add_argument("--samples", type=count, default=16000, help="hf, audio: samples (default: 16000)")
    a.add_argument(
        "--attn",
        default="sdpa",
        choices=["sdpa", "eager"],
        help="hf: how attention is written (default: sdpa)",
    )
    a.add_argument(
        "--checkpointing",
        choices=["default", "reentrant", "non-reentrant"],
        help="hf and timm: the library's own gradient checkpointing switched on, in its default form or in this one",
    )
    a.add_argument(
        "--keep",
        action="store_true",
        help="the loop keeps all that the module returns until the next step (out = model(...))",
    )
    a.add_argument(
        "--packed",
        action="store_true",
        help="transformers: several sequences lie in a row, or some are padded, so masks are written out (default: neither)",
    )
    a.add_argument(
        "--without",
        metavar="NAME",
        action="append",
        default=[],
        help="hf: an input that is not given, as decoder_input_ids, which a model then makes of its labels; may be given more than once",
    )
    a.add_argument(
        "--count",
        type=count,
        metavar="K",
        help="how many are found where a shape depends on data, as in detectors: nonzero, nms, unique (default: torchvision's "
        "detectors 512, else it is refused)",
    )
    a.add_argument(
        "--real",
        action="store_true",
        help="run with real tensors on the CPU (default: tensors without memory)",
    )
    a.add_argument("--debug", action="store_true", help="a traceback where it fails")
    return a


def early():
    """ends the program where the command line alone is the answer; as a module of another program it has none"""
    if os.path.basename(getattr(sys.modules["__main__"], "__file__", "")) not in ("export_torch.py", "vram-export"):
        return
    try:
        command_line().parse_args()
    except Problem as e:
        sys.exit(print(SAYS, e, file=sys.stderr) or 2)
