"""Modules that are one op: recurrent nets, and bags of embeddings."""

import torch

from export_rows import Problem, RNN


class Recurrent:
    """of the recorder: writes these modules"""

    def computes_weights(self, m):
        """whether weights are computed in each pass (weight_norm); nets lay theirs into one tensor in each pass then, which no line says"""
        computed = [n for n, _ in m.named_parameters() if "." in n or n.endswith(("_g", "_v", "_orig"))]
        if computed and isinstance(m, torch.nn.RNNBase):
            where = self.paths[-1] or type(m).__name__
            raise Problem(
                f"{where}: a recurrent net that computes its weights ({computed[0]}) has no line in the text form"
            )
        return bool(computed)

    def cell_of_function(self, op, a, r, keys=None):
        """a call of PyTorch's function below the module, which gets the weights and biases"""
        x, h, *weights = a[0]
        states = list(h) if isinstance(h, (tuple, list)) else [h]
        weights = [w for w in weights if w is not None]
        keys = {"hidden_size": states[0].shape[-1], "bias": 0 if len(weights) == 2 else None, **(keys or {})}
        results = list(r) if isinstance(r, (tuple, list)) else r
        self.emit(op, [x, *states, *weights], results, keys, True, outs=["", ".c"])

    def op_lstm_cell(self, a, r, inplace):
        self.cell_of_function("lstm_cell", a, r)

    def op_gru_cell(self, a, r, inplace):
        self.cell_of_function("gru_cell", a, r)

    def op_rnn_tanh_cell(self, a, r, inplace):
        self.cell_of_function("rnn_cell", a, r)

    def op_rnn_relu_cell(self, a, r, inplace):
        self.cell_of_function("rnn_cell", a, r, {"nonlinearity": "relu"})

    def recurrent(self, m, args, kwargs, r):
        op = RNN[type(m).__name__]
        names = ("input", "offsets") if op == "embedding_bag" else ("input", "hx")
        given = [*args, *(kwargs[k] for k in names[len(args) :] if k in kwargs)]
        if op == "embedding_bag":
            self.embedding_bag(m, given, r)
            return
        x, h = given[0], (given[1] if len(given) > 1 else None)
        keys = {"hidden_size": m.hidden_size, "bias": None if m.bias else 0}
        states = [] if h is None else list(h) if isinstance(h, (tuple, list)) else [h]
        if not op.endswith("_cell"):
            keys.update(
                {
                    "num_layers": m.num_layers if m.num_layers > 1 else None,
                    "batch_first": 1 if m.batch_first else None,
                    "dropout": m.dropout or None,
                    "bidirectional": 1 if m.bidirectional else None,
                    "proj_size": getattr(m, "proj_size", 0) or None,
                }
            )
        if getattr(m, "nonlinearity", "tanh") != "tanh":
            keys["nonlinearity"] = m.nonlinearity
        if not isinstance(x, torch.Tensor):
            self.custom(op, m.forward, args, kwargs, r, "a packed sequence")
            return
        if op.endswith("_cell"):
            flat = list(r) if isinstance(r, (tuple, list)) else [r]
        else:
            flat = [r[0]] + (list(r[1]) if isinstance(r[1], (tuple, list)) else [r[1]])
        for p in m.parameters():
            self.params_in_modules.add(id(p))
        wanted = {n: p.requires_grad for n, p in m.named_parameters()}
        if len(set(wanted.values())) > 1:
            where, name = self.paths[-1] or type(m).__name__, next(n for n in wanted if not wanted[n])
            raise Problem(
                f"{where}: a recurrent net of which some weights are frozen ({name}) and others are not has no line in the text form"
            )
        if False in wanted.values():
            keys["frozen"] = 1
        first = self.rnn_name.get(id(m))
        if first:
            keys["weights"] = first
        suffix = ["", ".hn", ".cn"] if not op.endswith("_cell") else ["", ".c"]
        n = (
            self.emit(op, [x] + states, flat, keys, True, outs=suffix)
            if len(flat) > 1
            else self.emit(op, [x] + states, flat[0], keys, True)
        )
        n.stats = [id(p) for p in m.parameters()]
        self.rnn_name.setdefault(id(m), n.outs[0])

    def embedding_bag(self, m, args, r):
        for p in m.parameters():
            self.params_in_modules.add(id(p))
        mode = None if m.mode == "mean" else m.mode
        keys = {"num_embeddings": m.num_embeddings, "embedding_dim": m.embedding_dim, "mode": mode}
        if not m.weight.requires_grad:
            keys["frozen"] = 1
        self.emit("embedding_bag", [a for a in args if a is not None], r, keys, True)
        self.nodes[-1].stats = [id(p) for p in m.parameters()]
