"""The text of a generation by transformers' LlamaForCausalLM, as generate() of 5.23 runs it: python generate_llama.py static bf16.

Line for line what its host code does with an attention mask that is passed on (a padded batch; a program that cannot look at the
mask, too), dynamic or static cache, greedy. Sizes of the small tensors around the model are those of generation/utils.py,
masking_utils.py and cache_utils.py."""

import re, sys


class Text:
    def __init__(self, head):
        self.lines = [head]

    def __call__(self, *lines):
        self.lines += [line.strip() for text in lines for line in text.split("\n") if line.strip()]


def norm(t, name, x, width):
    t(f"""to {name}.to {x} dtype=f32
        pow {name}.pow {name}.to scalar=1
        mean {name}.mean {name}.pow dim=-1 keepdim=1
        add {name}.add {name}.mean scalar=1
        rsqrt {name}.rsqrt {name}.add
        mul {name}.mul {name}.to {name}.rsqrt
        to {name}.to_1 {name}.mul dtype=model
        parameter {name}.weight shape=[{width}]
        mul {name}.y {name}.weight {name}.to_1
        drop {name}.mean {name}.mul""")
    return f"{name}.y"


def rope(t, name, x, half):
    t(f"""mul {name}.mul {x} rope.cos1
        slice {name}.low {x} dim=3 end={half}
        slice {name}.high {x} dim=3 start={half}
        neg {name}.neg {name}.high
        cat {name}.cat {name}.neg {name}.low dim=-1
        mul {name}.mul_1 {name}.cat rope.sin1
        add {name}.y {name}.mul {name}.mul_1""")
    return f"{name}.y"


def tables(t, head):
    """rotary_emb"""
    t(f"""unsqueeze rope.at position_ids_now dim=2
        to rope.f32 rope.at dtype=f32
        buffer rope.inv_freq shape=[{head // 2}] dtype=f32
        mul rope.freqs rope.f32 rope.inv_freq
        cat rope.emb rope.freqs rope.freqs dim=-1
        cos rope.c rope.emb
        mul rope.c1 rope.c scalar=1
        sin rope.s rope.emb
        mul rope.s1 rope.s scalar=1
        to rope.cos rope.c1 dtype=model
        to rope.sin rope.s1 dtype=model
        drop rope.freqs rope.emb rope.c1 rope.s1
        unsqueeze rope.cos1 rope.cos dim=1
        unsqueeze rope.sin1 rope.sin dim=1""")


def fast_all(t, name):
    t(f"""zeros {name}.one shape=[] dtype=i64
        zeros {name}.ranks shape=[N,T] dtype=i64
        drop {name}.ranks
        zeros {name}.all shape=[] dtype=bool
        drop {name}.one {name}.all""")


def mask(t, next, width, times, rows="S", source="attention_mask_now"):
    """create_causal_mask: a mask of the model's batch, which is passed on"""
    before = len(t.lines)
    t(f"to mask.padding {source} dtype=bool")
    if width == "M":
        t("zeros mask.padded shape=[N,M] dtype=bool")
    for k in range(times):
        fast_all(t, f"mask.fast{k}")
    t(f"""arange mask.batch shape=[N] dtype=i64
        arange mask.head shape=[1] dtype=i64
        arange mask.q0 shape=[{rows}] dtype=i64
        add mask.q mask.q0 scalar=1
        arange mask.kv0 shape=[{width}] dtype=i64
        add mask.kv mask.kv0 scalar=1
        ones mask.ones shape=[] dtype=bool
        zeros mask.causal shape=[{rows},{width}] dtype=bool
        zeros mask.and shape=[{rows},{width}] dtype=bool
        drop mask.causal mask.ones
        zeros mask.index shape=[{width}] dtype=i64
        zeros mask.gathered shape=[N,{width}] dtype=bool
        drop mask.index
        zeros mask shape=[N,1,{rows},{width}] dtype=bool
        drop mask.gathered mask.and mask.batch mask.head mask.q mask.kv mask.padding""")
    if width == "M":
        t("drop mask.padded")
    t.lines[before:] = [re.sub(r"(?<![\w.])mask(?![\w])", next + "mask", line) for line in t.lines[before:]]


def attention(t, c, i, x, cached, decode):
    n = f"model.layers.{i}.self_attn"
    q, kv, head = c["heads"], c["kv_heads"], c["head"]
    for part, count in ("q", q), ("k", kv), ("v", kv):
        t(f"""linear {n}.{part}_proj {x} out_features={count * head} bias=0
            view {n}.{part}v {n}.{part}_proj shape=[N,S,{count},{head}]
            transpose {n}.{part} {n}.{part}v dim0=1 dim1=2""")
    rope(t, f"{n}.rq", f"{n}.q", head // 2)
    rope(t, f"{n}.rk", f"{n}.k", head // 2)
    t(f"drop {n}.q_proj {n}.qv {n}.q {n}.k_proj {n}.kv {n}.k")
    k, v = cached(t, n, f"{n}.rk.y", f"{n}.v", kv, head)
    group = q // kv
    if not decode and group > 1:
        for p, y in ("k", k), ("v", v):
            t(f"""unsqueeze {n}.{p}u {y} dim=2
                expand {n}.{p}e {n}.{p}u shape=[N,{kv},{group},KV,{head}]
                reshape {n}.{p}r {n}.{p}e shape=[N,{q},KV,{head}]""")
        k, v = f"{n}.kr", f"{n}.vr"
    gqa = " enable_gqa=1" if decode and group > 1 else ""
    t(f"""scaled_dot_product_attention {n}.sdpa {n}.rq.y {k} {v} mask{gqa}
        transpose {n}.out {n}.sdpa dim0=1 dim1=2
        reshape {n}.flat {n}.out shape=[N,S,{q * head}]
        linear {n}.o_proj {n}.flat out_features={c["hidden"]} bias=0
        drop {n}.sdpa {n}.out {n}.flat {n}.rq.y {x}""")
    return f"{n}.o_proj"


def dynamic(t, n, k, v, heads, head):
    for p, new in ("k", k), ("v", v):
        t(f"""cache {n}.{p}_cache shape=[N,{heads},P,{head}] dtype=model
            cat {n}.{p}_all {n}.{p}_cache {new} dim=2
            store {n}.{p}_cache {n}.{p}_all""")
    t(f"drop {k} {n}.v_proj {n}.vv {v}")
    return f"{n}.k_all", f"{n}.v_all"


def static(t, n, k, v, heads, head):
    """StaticLayer: the whole cache at the first call, then index_copy_"""
    t(f"""cache {n}.k_cache shape=[N,{heads},M,{head}] dtype=model
        store {n}.k_cache
        cache {n}.v_cache shape=[N,{heads},M,{head}] dtype=model
        store {n}.v_cache
        cache {n}.length shape=[] dtype=i64
        store {n}.length
        arange {n}.range shape=[S] dtype=i64
        add {n}.position {n}.range scalar=1
        drop {n}.range
        drop {n}.position
        drop {k} {n}.v_proj {n}.vv {v}""")
    return f"{n}.k_cache", f"{n}.v_cache"


def model(t, c, cached, decode):
    t(f"embedding model.embed_tokens ids_now num_embeddings={c['vocab']} embedding_dim={c['hidden']}")
    h = "model.embed_tokens"
    if cached is dynamic:
        mask(t, "", "KV", 1 if decode else 2)
    tables(t, c["head"])
    for i in range(c["layers"]):
        n = f"model.layers.{i}"
        x = norm(t, f"{n}.input_layernorm", h, c["hidden"])
        a = attention(t, c, i, x, cached, decode)
        t(f"add {n}.add {h} {a}")
        x = norm(t, f"{n}.post_attention_layernorm", f"{n}.add", c["hidden"])
        t(f"""linear {n}.mlp.gate_proj {x} out_features={c["inner"]} bias=0
            silu {n}.mlp.act {n}.mlp.gate_proj
            linear {n}.mlp.up_proj {x} out_features={c["inner"]} bias=0
            mul {n}.mlp.mul {n}.mlp.act {n}.mlp.up_proj
            linear {n}.mlp.down_proj {n}.mlp.mul out_features={c["hidden"]} bias=0
            order {n}.input_layernorm.weight {n}.post_attention_layernorm.weight
            drop {x}
            add {n}.y {n}.add {n}.mlp.down_proj""")
        t(f"drop {n}.add" + (f" {h}" if i else ""))
        h = f"{n}.y"
    x = norm(t, "model.norm", h, c["hidden"])
    t(f"buffer rope.original_inv_freq shape=[{c['head'] // 2}] dtype=f32")
    t(
        f"drop {h} model.embed_tokens {'mask ' if cached is dynamic else ''}rope.cos rope.cos1 rope.sin rope.sin1"
    )
    t(f"""slice head.last {x} dim=1 start=-1
        linear lm_head head.last out_features={c["vocab"]} bias=0
        drop {x} head.last""")


def begin(t, c, cached, decode):
    """what generate() has made before the first forward pass, and holds from then on"""
    t("input input_ids i64 [N,Q]")
    for name in "eos", "pad":
        t(f"cache {name} shape=[] dtype=i64", f"store {name}")
    for name in "mask_given", "positions_given":
        t(f"cache {name} shape=[N,Q] dtype=i64", f"store {name}")
    t("cache right_padded shape=[R] dtype=bool", "store right_padded")  # generate() asks where N > 1: R=1
    t("cache unfinished shape=[N] dtype=i64")
    t("cache ids shape=[N,%s] dtype=i64" % ("T" if decode else "0"))
    t("cache attention_mask shape=[N,%s] dtype=i64" % ("T" if decode else "0"))
    t("cache position_ids shape=[N,%s] dtype=i64" % ("T" if decode else "0"))
    t("cache next_logits shape=[N,%s] dtype=f32" % ("VOCAB" if decode else "0"))
    t("cache next_tokens shape=[N%s] dtype=i64" % ("" if decode else ",0"))
    t("cache ids_now shape=[N,S] dtype=i64")
    if decode:
        t("cache position_now shape=[N,1] dtype=i64")
        t("slice attention_mask_now attention_mask dim=1 start=0")
        t("slice position_ids_now position_now dim=1 start=0")
    else:
        t("cache position_now shape=[N,0] dtype=i64")
        t("slice attention_mask_now mask_given dim=1 start=0")
        t("slice position_ids_now positions_given dim=1 start=0")
    if cached is static and decode:
        t("cache mask shape=[N,1,1,M] dtype=bool")
    elif cached is static:
        t("cache mask_later shape=[N,0] dtype=bool")
        mask(t, "", "M", 0)


def end(t, c, cached, decode):
    """greedy: the next token, and what the next forward pass gets"""
    ids, mask_, pos = (
        ("ids", "attention_mask", "position_ids")
        if decode
        else ("input_ids", "mask_given", "positions_given")
    )
    t("drop ids_now" + ("" if decode or cached is dynamic else " mask"))
    if decode:
        t("drop position_now position_ids_now")
    t(f"""slice next.last {pos} dim=1 start=-1
        add next.at next.last scalar=1
        add next.at_1 next.at scalar=1
        drop next.at
        add next.at_2 next.at_1 scalar=1
        drop next.at_1
        cat next.position {pos} next.at_2 dim=-1
        drop next.at_2
        ones next.one shape=[N,1] dtype=i64
        cat next.given {mask_} next.one dim=-1
        drop next.one attention_mask attention_mask_now position_ids
        select next.row lm_head dim=1 index=-1
        to next.logits next.row dtype=f32""")
    if c["dtype"] == "f32":
        t.lines[-1] = "clone next.logits next.row"
    t(
        """drop next_logits
        argmax next.token0 next.logits dim=-1
        mul next.token1 next.token0 unfinished
        sub next.left unfinished scalar=1
        mul next.padded next.left pad
        drop next.left
        add next.token next.token1 next.padded
        drop next.token1 next.padded next.token0 next_tokens
        unsqueeze next.column next.token dim=1
        """
        + f"cat next.ids {ids} next.column dim=-1"
        + """
        drop next.column ids
        zeros next.done shape=[N] dtype=bool
        mul next.unfinished unfinished next.done
        drop next.done unfinished
        drop lm_head next.row
        arange next.now shape=[N,1] dtype=i64
        arange next.position_now shape=[N,1] dtype=i64
        """
    )
    if cached is static:
        mask(t, "next.", "M", 0, "1", "next.given")
        if decode:
            t("drop mask")
        t(f"store {'mask' if decode else 'mask_later'} next.mask")
    t("""store unfinished next.unfinished
        store ids next.ids
        store attention_mask next.given
        store position_ids next.position
        store next_logits next.logits
        store next_tokens next.token
        store ids_now next.now
        store position_now next.position_now""")


def part(c, cached, decode):
    t = Text(f"model {c['name']} dtype={c['dtype']}")
    static_ = cached is static
    t("dim N=1 S=%d P=%d T=%d M=135 Q=128 R=0" % ((1, 128, 129) if decode else (128, 0, 128)))
    begin(t, c, cached, decode)
    model(t, c, cached, decode)
    end(t, c, cached, decode)
    t("output next.now")
    text = "\n".join(t.lines) + "\n"
    return text.replace("KV", "M" if static_ else "T").replace("VOCAB", str(c["vocab"]))


def text(c, cache):
    cached = {"dynamic": dynamic, "static": static}[cache]
    return part(c, cached, False) + "decode\n" + part(c, cached, True)


SMALL = dict(name="llama", hidden=1024, layers=8, heads=16, kv_heads=4, head=64, inner=2816, vocab=32000)

if __name__ == "__main__":
    sys.stdout.write(text(SMALL | {"dtype": sys.argv[2]}, sys.argv[1]))
