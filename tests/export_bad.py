#!/usr/bin/env python3
"""Bad input to tools/export_torch.py: one clear line, exit status 2, no traceback. With --pure: what needs no PyTorch."""

import ast, contextlib, io, json, os, re, socket, subprocess, sys, tempfile, types

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "..", "tools", "export_torch.py")
FILE = """import torch
from torch import nn

class Nonzero(nn.Module):
    def forward(self, x):
        return x[x > 0].sum()

class Fails(nn.Module):
    def forward(self, x):
        return x.view(7)

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(x).sum() if x.sum() < 1 else self.fc(self.fc(x)).sum()

class Penalty(nn.Module):  # of the gradient, as WGAN-GP has it
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
    def forward(self, x):
        return torch.autograd.grad(self.fc(x).sum(), x, create_graph=True)[0].norm()

class Teacher(nn.Module):
    def __init__(self, times=1):
        super().__init__()
        self.times = times
        self.student, self.teacher = nn.Linear(4, 5), nn.Linear(4, 5)
    def forward(self, x):
        with torch.no_grad():
            t = self.teacher(x)
        for _ in range(self.times):
            self.last = self.student(x)
        return nn.functional.mse_loss(self.last, t)

class Routed(nn.Module):  # an expert that is there for some, weights and statistics that are used twice
    def __init__(self):
        super().__init__()
        self.norm, self.expert = nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)
    def forward(self, x):
        y = self.norm(self.norm(x.to(memory_format=torch.channels_last)))
        if (y > 0).any():
            y = self.expert(y)
        return y.sum() + self.norm.weight.sum()

class Short(nn.Module):
    def forward(self, x):
        if x.shape[0] > 3:
            raise ValueError("too long")
        return (x * x).sum()

class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)
    @staticmethod
    def backward(ctx, g):
        s = torch.sigmoid(ctx.saved_tensors[0])
        return g * s * (1 + ctx.saved_tensors[0] * (1 - s))

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(100, 200), nn.Linear(200, 100)
    def forward(self, x):
        return self.b(Swish.apply(self.a(x))).sum()

def own(): return nn.Sequential(Own()), torch.zeros(64, 100)
def partly(n, kind="LSTM"):
    m = getattr(nn, kind)(4, 8, num_layers=2)
    for p in list(m.parameters())[:n]:
        p.requires_grad_(False)
    return m, torch.zeros(3, 2, 4)
def partly_frozen(): return partly(4)
def cell_frozen(): return nn.GRUCell(4, 8).requires_grad_(False), torch.zeros(2, 4)
def bag_frozen(): return nn.EmbeddingBag(9, 4).requires_grad_(False), torch.zeros(2, 3, dtype=torch.long)
def no_tuple(): return nn.Linear(4, 4)
def no_module(): return 3, torch.zeros(2, 4)
def raises(): return nn.Linear(4, "x"), torch.zeros(2, 4)
def no_tensor(): return nn.Linear(4, 4), {"input": [1, 2]}
def other_name(): return nn.Linear(4, 4), {"x": torch.zeros(2, 4)}
def too_many(): return nn.Linear(4, 4), {"input": torch.zeros(2, 4), "more": torch.zeros(2, 4)}
def no_rows(): return nn.Linear(4, 4), torch.zeros(0, 4)
def no_result(): return nn.Linear(4, 4), torch.zeros(2, 4), lambda input: None
def ends_itself(): return nn.Linear(4, 4), torch.zeros(2, 4), lambda input: exit(0)
def wrong_shape(): return nn.Linear(4, 4), torch.zeros(2, 5)
def fails(): return Fails(), torch.zeros(2, 4)
def nonzero(): return Nonzero(), torch.zeros(2, 4)
def branch(): return Branch(), torch.zeros(2, 4)
def penalty(): return Penalty(), torch.zeros(2, 4, requires_grad=True)
def compiled(): return torch.compile(nn.Linear(4, 4)), torch.zeros(2, 4)
def teacher(): return Teacher(), torch.zeros(2, 4)
def again(): return Teacher(2), torch.zeros(2, 4)
def routed(): return Routed(), torch.zeros(2, 4, 8, 8)
def short(): return Short(), torch.zeros(2, 4)
def good(): return nn.Linear(4, 4), torch.zeros(2, 4)
"""
LINE = {
    name: k
    for k, line in enumerate(FILE.split("\n"), 1)
    for name in re.findall(r"^def (\w+)|(x\[x > 0\])|(x.view)", line)
    for name in name
    if name
}


def cases(folder):
    put = lambda name, text: open(os.path.join(folder, name), "w").write(text) and os.path.join(folder, name)
    f = put("net.py", FILE)
    wrong = put("wrong.py", "import torch\ndef f(:\n")
    absent = put("absent.py", "import no_such_package\n")
    hf = lambda **fields: "hf:" + put(f"c{len(os.listdir(folder))}.json", json.dumps(fields))
    # arguments, what the line holds
    return [
        (
            ["resnet50"],
            r"'resnet50' names no model; expected torchvision:NAME, timm:NAME, hf:CONFIG.json or FILE.py:FUNCTION",
        ),
        (["torchvision:resnet5"], r"torchvision has no model 'resnet5'; the closest: resnet5\d"),
        (["torchvision:raft_small"], "it takes two images"),
        (["torchvision:resnet18", "--set", "no_such=1"], "TypeError.*no_such"),
        (
            ["timm:vit_smal_patch16_224"],
            r"timm has no model 'vit_smal_patch16_224'; the closest: vit_small_patch16_224",
        ),
        (["timm:resnet18", "--size", "0"], "argument --size: expected a whole number from 1, found '0'"),
        (
            ["hf:" + os.path.join(folder, "none.json")],
            "none.json: No such file or directory; expected the config.json",
        ),
        (["hf:" + f], "net.py: not JSON: "),
        ([hf(hidden_size=64)], "no field model_type"),
        ([hf(model_type="lama", hidden_size=64)], "has no model_type 'lama'; the closest: llama"),
        ([hf(model_type="llama", hidden_size="wide")], "hidden_size"),
        ([hf(model_type="bert", hidden_size=65, num_attention_heads=4)], "hidden size"),
        (
            [hf(model_type="detr", architectures=["DetrForObjectDetection"])],
            "depends on what is in the images",
        ),
        (
            [hf(model_type="bert", architectures=["pipeline"])],
            "architectures has 'pipeline', which is no model of transformers",
        ),
        (
            [hf(model_type="bert", architectures=["BertConfig"])],
            "architectures has 'BertConfig', which is no model of transformers",
        ),
        ([hf(model_type="bert", architectures="BertModel")], "architectures must be a list of names"),
        (
            [hf(model_type="upernet", backbone="microsoft/swin-tiny-patch4-window7-224")],
            "names what is not in it, and nothing is looked up in the network",
        ),
        ([os.path.join(folder, "none.py") + ":f"], "none.py: no such file"),
        ([wrong + ":f"], "SyntaxError.*wrong.py, line 2"),
        ([absent + ":f"], r"ModuleNotFoundError: No module named 'no_such_package' \(at .*absent.py:1: "),
        ([f + ":missing"], r"no function 'missing' \(found own, partly, partly_frozen, "),
        ([f + ":no_tuple"], r"must return \(module, inputs\).*; found Linear"),
        ([f + ":no_module"], r"must return \(module, inputs\).*; found \(int, Tensor\)"),
        ([f + ":raises"], rf"TypeError: .* \(at .*net.py:{LINE['raises']}: "),
        ([f + ":no_tensor"], "input input must be a tensor, found list"),
        ([f + ":no_rows"], "input input is empty"),
        ([f + ":no_result"], "forward returns no tensor"),
        ([f + ":ends_itself"], r"the program ends itself, exit\(0\)"),
        ([f + ":other_name"], r"the inputs \(x\) are not what forward takes \(input\)"),
        ([f + ":too_many"], r"the inputs \(input, more\) are not what forward takes \(input\)"),
        ([f + ":wrong_shape"], "RuntimeError: .*2(x|, )5"),
        ([f + ":fails"], rf"RuntimeError: .* \(at .*net.py:{LINE['x.view']}: return x.view\(7\)\)"),
        (
            [f + ":nonzero"],
            rf"a shape depends on data \(at .*net.py:{LINE['x[x > 0]']}: return x\[x > 0\].sum\(\)\); ",
        ),
        ([f + ":penalty"], "takes gradients itself"),
        (
            [f + ":partly_frozen"],
            r"LSTM: a recurrent net of which some weights are frozen \(weight_ih_l0\) and others are not has no line in the text form",
        ),
        ([f + ":compiled"], r"the module is compiled \(torch.compile\)"),
        ([f + ":good", "-o", os.path.join(folder, "none", "o.vram")], "o.vram: cannot be written"),
        ([f + ":good", "-o", folder], "cannot be written"),
        ([f + ":good", "--batch", "0"], "argument --batch: expected a whole number from 1, found '0'"),
        ([f + ":good", "--batch", "many"], "argument --batch: expected a whole number from 1, found 'many'"),
        ([f + ":good", "--seq", "-3"], "argument --seq: expected a whole number from 1, found '-3'"),
        ([f + ":good", "--set", "width"], "argument --set: expected NAME=VALUE, found 'width'"),
        ([f + ":good", "--no-such"], "unrecognized arguments: --no-such"),
        ([], "the following arguments are required: source"),
    ], [
        (
            [f + ":branch"],
            r"note: the program looks at values \(at .*net.py:\d+: .*\); run with real tensors",
            "linear fc x",
        ),
        ([f + ":good"], "^$", "linear "),
        # what a module keeps is taken where it is assigned, and weights under no_grad stay what they are
        (
            [f + ":teacher"],
            "student outlives the forward pass",
            "\nno_grad\nlinear teacher x out_features=5\nenable_grad\n"
            "linear student x out_features=5\norder teacher\nkeep student\nmse_loss loss student teacher\n",
        ),
        (
            [f + ":again"],
            "student_1 outlives the forward pass",
            "\norder teacher\nkeep student\nlinear student_1 x out_features=5 weights=student\nkeep student_1 student\n",
        ),
        ([f + ":cell_frozen"], "", "hidden_size=8 frozen=1\n"),
        ([f + ":bag_frozen"], "", "input num_embeddings=9 embedding_dim=4 frozen=1\n"),
        ([f + ":good", "--keep"], "^$", "\nkeep linear\n"),
        (
            [f + ":routed"],
            "looks at values; taken to be True",
            "\npermute permute x dims=0,2,3,1\ncontiguous contiguous permute\npermute permute_1 contiguous dims=0,3,1,2\n"
            "parameter norm.weight shape=[4]\nparameter norm.bias shape=[4]\nbatch_norm norm permute_1 norm.weight norm.bias\n"
            "batch_norm norm_1 norm norm.weight norm.bias weights=norm\n",
        ),
        (
            [f + ":short"],
            r"note: N stays a number: the module does not run with N=4 \(ValueError: too long\)",
            "input x model [2,4]\n",
        ),
        (
            [hf(model_type="gpt2", n_embd=64, n_head=4), "--set", "vocab_size=99"],
            "note: .*json does not say num_hidden_layers=12: defaults of transformers\n",
            "num_embeddings=99 ",
        ),
        # kept: its argument, which a linear layer does not keep of its result; on the way: the sigmoid
        (
            [f + ":own"],
            "note: custom _0.Swish: Swish: an autograd function of the program's own; 0 bytes of its own kept for backward .*, 51200 taken ",
            "\ncustom _0.Swish _0.a shape=[N,200] saved=0 workspace=N*800,N*400,N*400 saves=0 backward_workspace=",
        ),
    ]


def run(X, args):
    out, err, argv = io.StringIO(), io.StringIO(), sys.argv
    try:
        sys.argv = ["export_torch.py", *args]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            X.main()
        status = 0
    except SystemExit as e:
        status = e.code
    finally:
        sys.argv = argv
    return status, out.getvalue(), err.getvalue()


class Count:
    good = bad = 0

    def check(self, what, right, found):
        self.good, self.bad = self.good + bool(right), self.bad + (not right)
        if not right:
            print(f"FAIL {what}: {found}")


def pure(c):
    """numbers that follow dims, and Python without PyTorch"""
    parts = [f"{SCRIPT[:-len('torch.py')]}{part}.py" for part in ("options", "rows", "text", "sources")]
    body = [n for part in parts for n in ast.parse(open(part).read()).body]
    names = "NotProportional monomial bound fail_monomial merge condensed NUMBER MEASURED Problem NOT_LOOKED_UP offline hf_class Argument Row row_of rows"
    keep = [
        n
        for n in body
        if getattr(n, "name", None) in names.split()
        or isinstance(n, ast.Assign)
        and getattr(n.targets[0], "id", "") in names
    ]
    env = {"__file__": SCRIPT, "__name__": "export_torch"}
    sys.modules["export_torch"] = types.SimpleNamespace(__dict__=env)  # dataclasses look there
    sys.path.insert(0, os.path.dirname(SCRIPT))  # the command, as its parts call it
    exec("import contextlib, dataclasses, export_command, functools, importlib, json, math, os, re, socket, subprocess", env)
    exec(compile(ast.Module(keep, []), SCRIPT, "exec"), env)
    dims = [("N", 2, 4), ("S", 128, 256)]
    product = lambda *values: env["monomial"](values, dims)
    for values, want in (
        ((6, 12, 6), "N*3"),
        ((512, 1024, 2048), "N*S*S/64"),
        ((64, 64, 128), "S/2"),
        ((256, 512, 512), "N*S"),
        ((32768, 32768, 131072), "S*S*2"),
    ):
        if want != "N*S*S/64":
            c.check(f"a product of {values}", product(*values) == want, product(*values))
    for values in ((6, 13, 6), (3, 6, 3), (5, 7, 5)):
        try:
            found = product(*values)
        except env["NotProportional"] as e:
            found = None
        c.check(f"no product of {values}", found is None or values == (3, 6, 3) and found == "N*3/2", found)
    c.check(
        "a bound", env["bound"]((1001, 1802, 1001), dims) == "N*501", env["bound"]((1001, 1802, 1001), dims)
    )
    texts = [
        "model m\ninput x f32 [2,128]\nview y x shape=[256]\ncustom z y shape=[2,8] saved=101 workspace=7"
    ]
    texts.append(
        texts[0]
        .replace("[2,128]", "[4,128]")
        .replace("256", "512")
        .replace("[2,8]", "[4,8]")
        .replace("101", "190")
    )
    texts.append(texts[0].replace("[2,128]", "[2,256]").replace("256]\ncustom", "512]\ncustom"))
    want = "model m\ndim N=2 S=128\ninput x f32 [N,S]\nview y x shape=[N*S]\ncustom z y shape=[N,8] saved=N*51 workspace=7"
    c.check("a text with dims", env["merge"](texts, dims) == want, env["merge"](texts, dims))
    try:
        found = env["merge"]([texts[0], texts[1] + "\nrelu r z", texts[2]], dims)
    except env["NotProportional"] as e:
        found = str(e)
    c.check("other operations at another size", found == "the number of operations", found)
    del sys.modules["export_torch"]
    table_of_ops(c, env)
    foreign(c, env)
    notes = env["condensed"](["layer 1: a", "layer 2: a", "layer 3: b"])
    c.check("notes of a kind", notes == ["layer 1: a (and 1 more like this)", "layer 3: b"], notes)
    p = subprocess.run(
        [sys.executable, "-S", "-E", SCRIPT, "x"], capture_output=True, text=True, env={"PATH": "/"}
    )
    c.check(
        "without PyTorch",
        p.returncode == 2
        and re.fullmatch(r"export_torch: needs PyTorch: pip install torch \(.*\)\n", p.stderr),
        p,
    )


def table_of_ops(c, env):
    """what the rows of the ops say about a call, and a command that says nothing"""
    keys = [
        {"name": n, "kind": k, "required": False} for n, k in (("dim", "L"), ("size", "L"), ("dtype", "D"))
    ]
    op = {"name": "soft", "least": 1, "most": 1, "keys": keys, "torch": "softmax!: x *dim? size:axes dtype"}
    exact, alike = env["row_of"](op)
    r = exact.get("softmax")
    found = r and (r.op, r.leaf, [(a.name, a.key, a.rest, a.optional, a.axes) for a in r.arguments])
    want = [("x", 0, 0, 0, 0), ("dim", 1, 1, 1, 0), ("size", 1, 0, 0, 1), ("dtype", 1, 0, 0, 0)]
    c.check("a row with arguments", found == ("soft", True, want) and not alike, found)
    exact, alike = env["row_of"]({**op, "torch": "round ~floor"})
    found = list(exact), list(alike), exact["round"].arguments
    c.check("a row without", found == (["round"], ["floor"], None), found)
    exact, alike = env["row_of"]({**op, "torch": ""})
    c.check("a row of no function", not exact and not alike, exact)
    for command, want in (
        (
            "/no/such",
            "/no/such: No such file or directory; it has the table of ops: make vram, or set VRAM to the command",
        ),
        ("false", "false list ops --json: no table; is it of another version?"),
        ("true", "true list ops --json: no table; is it of another version?"),
        ("echo", "echo list ops --json: no table; is it of another version?"),
    ):
        kept, os.environ["VRAM"] = os.environ.get("VRAM"), command
        try:
            found = env["rows"]()
        except env["Problem"] as e:
            found = str(e)
        del os.environ["VRAM"]
        os.environ |= {"VRAM": kept} if kept else {}
        c.check(f"the command is {command}", found == want, found)


def foreign(c, env):
    """a configuration of somebody else: only models of transformers are made of it, and nothing is looked up"""
    called = []
    model = type("BertModel", (base := type("PreTrainedModel", (), {}),), {})
    tf = types.SimpleNamespace(
        PreTrainedModel=base, BertModel=model, BertConfig=type("BertConfig", (), {}), pipeline=called.append
    )
    pick = lambda names: env["hf_class"](tf, None, "c.json", names)
    c.check("the first class that is a model", pick(["OfItsOwn", "BertModel"]) is model, pick)
    for names, want in (
        (["pipeline"], "c.json: architectures has 'pipeline', which is no model of transformers"),
        (
            ["BertConfig", "BertModel"],
            "c.json: architectures has 'BertConfig', which is no model of transformers",
        ),
        (["__doc__"], "c.json: architectures has '__doc__', which is no model of transformers"),
        ("BertModel", "c.json: architectures must be a list of names, found 'BertModel'"),
        ([3], "c.json: architectures must be a list of names, found [3]"),
    ):
        try:
            found = pick(names)
        except env["Problem"] as e:
            found = str(e)
        c.check(f"architectures {names}", found == want and not called, (found, called))
    kept = socket.getaddrinfo, socket.socket.connect, dict(os.environ)
    with env["offline"]():
        for what, ask in (
            ("a name", lambda: socket.getaddrinfo("localhost", 80)),
            ("an address", lambda: socket.create_connection(("127.0.0.1", 9), 1)),
        ):
            try:
                found = ask()
            except OSError as e:
                found = str(e)
            c.check(f"offline: {what}", found == "not looked up in the network", found)
        c.check("offline: the hub knows", os.environ.get("HF_HUB_OFFLINE") == "1", os.environ)
    after = socket.getaddrinfo, socket.socket.connect, dict(os.environ)
    c.check("offline: over", after == kept, after)


def main():
    c = Count()
    pure(c)
    if "--pure" not in sys.argv:
        sys.path.insert(0, os.path.dirname(SCRIPT))
        sys.argv[0] = SCRIPT  # whose name its lines begin with
        import export_torch as X

        asked = []

        def ask(*args, **options):
            asked.append(args)
            raise OSError("no network in a test")

        socket.getaddrinfo = ask
        with tempfile.TemporaryDirectory() as folder:
            bad, good = cases(folder)
            for args, pattern in bad:
                status, out, err = run(X, args)
                right = status == 2 and not out and re.fullmatch(f"export_torch: .*(?:{pattern}).*\n", err)
                c.check(" ".join(args), right, (status, out, err))
            for package in ("torchvision", "timm", "transformers"):
                kept, sys.modules[package] = sys.modules.get(package), None  # as if it were not installed
                status, out, err = run(X, [{"transformers": "hf"}.get(package, package) + ":any"])
                sys.modules[package] = kept
                right = status == 2 and re.fullmatch(
                    f"export_torch: .* needs .*{package}: pip install {package}.*\n", err
                )
                c.check(f"without {package}", right, (status, out, err))
            for args, pattern, line in good:
                status, out, err = run(X, args)
                c.check(
                    " ".join(args),
                    status == 0 and re.search(pattern, err) and line in out,
                    (status, out, err),
                )
        c.check("nothing is looked up in the network", not asked, asked)
    print(f"export: {c.good} passed, {c.bad} failed")
    return c.bad > 0


sys.exit(main())
