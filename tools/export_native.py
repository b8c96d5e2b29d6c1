"""Modules of torch.nn that have a kernel of their own in inference, as one line: which path runs is up to the step, not to the
text (autocast and gradients take the one of ordinary ops)."""

import collections

import torch.nn as nn


def plain(m, module):
    """the modules in it are torch.nn's own, and nobody listens or lends a parameter"""
    of_nn = all(type(s).__module__.startswith("torch.nn.modules.") for s in m.modules())
    heard = any(s._forward_hooks or s._forward_pre_hooks for s in m.modules())
    uses = collections.Counter(id(p) for _, p in module.named_parameters(remove_duplicate=False))
    wanted = {p.requires_grad for p in m.parameters()}
    return of_nn and not heard and len(wanted) == 1 and all(uses[id(p)] == 1 for p in m.parameters())


def can_be_native(m, x):
    """torch.nn.MultiheadAttention.forward: what does not depend on the step"""
    own = m.batch_first and m._qkv_same_embed_dim and m.in_proj_bias is not None and m.bias_k is None
    return own and not m.add_zero_attn and m.num_heads % 2 == 0 and x.dim() == 3


def attention(
    m,
    again,
    query,
    key,
    value,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    **more,
):
    """inputs and keys of nn.MultiheadAttention's line, or None; again: its weights are those of a line"""
    if key_padding_mask is not None or not more.get("average_attn_weights", True):
        return None
    native = query is key and key is value and can_be_native(m, query)
    if not again and (not native or attn_mask is not None and attn_mask.is_floating_point()):
        return None
    keys = {
        "num_heads": m.num_heads,
        "batch_first": 1 if m.batch_first else None,
        "dropout": m.dropout or None,
        "need_weights": None if need_weights else 0,
        "is_causal": 1 if more.get("is_causal") else None,
    }
    return [query, key, value], attn_mask, keys


def encoder_layer(m, again, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
    """inputs and keys of nn.TransformerEncoderLayer's line, or None"""
    if m.training or src_key_padding_mask is not None or not can_be_native(m.self_attn, src):
        return None
    rates = {m.dropout.p, m.dropout1.p, m.dropout2.p, m.self_attn.dropout}
    if not m.activation_relu_or_gelu or m.norm1.eps != m.norm2.eps or len(rates) > 1:
        return None
    keys = {
        "num_heads": m.self_attn.num_heads,
        "dim_feedforward": m.linear1.out_features,
        "batch_first": 1,
    }
    more = {
        "activation": "gelu" if m.activation_relu_or_gelu == 2 else None,
        "dropout": rates.pop(),
    }
    flags = {
        "norm_first": 1 if m.norm_first else None,
        "is_causal": 1 if is_causal else None,
    }
    return [src], src_mask, {**keys, **more, **flags}


WORDS = {
    nn.MultiheadAttention: ("multi_head_attention", attention),
    nn.TransformerEncoderLayer: ("transformer_encoder_layer", encoder_layer),
}


def is_conv1d(m):
    """transformers' linear layer whose weight is [in, out]"""
    return type(m).__name__ == "Conv1D" and type(m).__module__.startswith("transformers.")


def line(rec, m, module, args, kwargs):
    """(op, inputs, keys) of a call of m, a part of module; None: it is no line of its own"""
    if is_conv1d(m) and not rec.unit and rec.on_device(args[0]):
        return "linear", [args[0]], {"out_features": m.nf, "conv1d": 1}
    op, reads = WORDS.get(type(m), (None, None))
    if op is None or rec.unit or not plain(m, module) or id(m) in rec.in_lines:
        return None
    again = id(m) in rec.rnn_name
    found = reads(m, again, *args, **kwargs)
    if found is None or not all(rec.on_device(x) for x in found[0]):
        rec.in_lines.add(id(m))  # and so are its parameters
        if again:
            rec.note(
                f"{rec.paths[-1]} is also called in a way that no line has: its parameters are counted twice"
            )
        return None
    xs, mask, keys = found
    if any(not p.requires_grad for p in m.parameters()):
        keys["frozen"] = 1
    if again:
        keys["weights"] = rec.rnn_name[id(m)]
    return op, xs if mask is None else [*xs, mask], keys


def recorded(rec, m, words, r):
    """the line of a call that gave r"""
    op, xs, keys = words
    if op == "linear":
        rec.leaf_flags[-1] = True
        rec.weighted(op, xs, [m.weight, m.bias], r, keys)
        return
    results = [t for t in r if t is not None] if isinstance(r, tuple) else [r]
    node = rec.emit(
        op,
        xs,
        results if len(results) > 1 else results[0],
        keys,
        True,
        outs=["", ".weights"],
    )
    node.stats = [id(p) for p in m.parameters()]
    rec.params_in_modules.update(node.stats)
    rec.rnn_name.setdefault(id(m), node.outs[0])
