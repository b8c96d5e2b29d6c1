"""What a model of transformers takes: inputs from the signature of its forward and from its configuration.

Where the two leave several shapes open, the first with which forward runs is taken (without memory, that costs little).
"""

import contextlib, inspect, itertools, sys

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from export_answers import Answers
from export_rows import Problem

# what is at the end of a class's name -> its labels: name -> shape
LABELS = {
    "SemanticSegmentation": {"labels": "N H W"},
    "DepthEstimation": {},
    "Classification": {"labels": "N"},
    "TokenClassification": {"labels": "N S"},
    "QuestionAnswering": {"start_positions": "N", "end_positions": "N"},
    "MultipleChoice": {"labels": "N"},
    "NextSentencePrediction": {"labels": "N"},
    "ForCTC": {"labels": "N 16"},
    "ForTDT": {"labels": "N 16"},
    "ForRNNT": {"labels": "N 16"},
    "": {"labels": "N T"},
}
FEATURES = ("input_features", "audio_mel")
MASKS = ("input_features_mask", "feature_attention_mask", "audio_mel_mask")
COMPANIONS = (
    *MASKS,
    "token_type_ids",
    "pixel_attention_mask",
    "padding_mask",
)  # given where it does not run without
TRIALS = 24


def first_of(config, *names, default=None):
    """the first of these fields that has a value"""
    for n in names:
        value = getattr(config, n, None)
        if value is not None:
            return value
    return default


def part(config, *words):
    """the part of a configuration whose name has one of the words, in this order; itself where there is none"""
    for word in words:
        for name in config.to_dict():
            if word in name and hasattr(getattr(config, name, None), "to_dict"):
                return getattr(config, name)
    return config


def pair(value):
    return list(value)[:2] if isinstance(value, (tuple, list)) else [value, value]


def tokens(*shape):
    return torch.zeros(*shape, dtype=torch.long)


class Inputs:
    """dims, and make(N=, S=, T=): the inputs by name"""

    def __init__(self, module, config, o):
        self.module, self.config, self.o = module, config, o
        self.takes = inspect.signature(module.forward).parameters
        self.refuse_unknown(o.without)
        self.cls = type(module).__name__
        self.vision, self.audio = part(config, "vision", "image"), part(config, "audio", "speech", "encoder")
        self.choice = {}  # name -> the shape that was chosen of its open ones
        self.companions = False
        self.notes = []
        self.read_text()
        self.read_images()

    def refuse_unknown(self, names):
        for n in names:
            if n not in self.takes:
                raise Problem(f"--without {n}: forward takes no such input ({', '.join(self.takes)})")

    def read_text(self):
        o, config = self.o, self.config
        text = config.get_text_config()
        limits = [getattr(text, k, None) for k in ("max_position_embeddings", "n_positions")]
        self.longest = min([v for v in limits if isinstance(v, int) and v > 0], default=o.seq)
        if text.model_type in ("roberta", "camembert", "xlm-roberta"):
            self.longest -= 2
        self.decoder = (
            "decoder_input_ids" in self.takes
            and self.module.main_input_name != "decoder_input_ids"
            and bool(config.is_encoder_decoder)
        )
        self.dims = {"N": 2}
        if "input_ids" in self.takes:
            self.dims["S"] = min(o.seq, self.longest)
        if self.decoder:
            limit = getattr(config, "max_target_positions", None) or self.longest
            self.dims["T"] = min(o.target_seq or o.seq, limit)

    def read_images(self):
        """pixels and patches of an image, and the tokens of a text that stand for it"""
        vision, o = self.vision, self.o
        side = o.size or first_of(vision, "image_size", default=224)
        self.patch = pair(first_of(vision, "patch_size", default=0))
        self.patch = self.patch if all(isinstance(p, int) and p for p in self.patch) else None
        self.grid = next(
            (k for k in ("image_grid_thw", "grid_thw", "spatial_shapes") if k in self.takes), None
        )
        if self.grid and self.patch and not o.size:
            side = 224
            self.notes.append(
                "images of 224 pixels a side, as the model takes any size; --size chooses another"
            )
        side = side if isinstance(side, (int, tuple, list)) else 224
        self.side = pair(side)
        self.merge = first_of(
            vision,
            "spatial_merge_size",
            "merge_size",
            default=first_of(self.config, "spatial_merge_size", default=1),
        )
        self.merge = pair(self.merge)
        if self.patch:
            whole = [p * m for p, m in zip(self.patch, self.merge)]
            if self.grid:
                self.side = [-(-s // w) * w for s, w in zip(self.side, whole)]
            self.patches = [s // p for s, p in zip(self.side, self.patch)]
        self.images, self.sounds = 0, 0

    # ---- each input: its open shapes

    def pixels(self, N):
        """shapes of pixel_values"""
        vision = self.vision
        channels = first_of(vision, "num_channels", "in_channels", "in_chans", default=3)
        image = (channels, *self.side)
        if self.grid and self.patch:
            rows, area = self.patches[0] * self.patches[1], self.patch[0] * self.patch[1]
            deep = first_of(vision, "temporal_patch_size", default=1)
            if self.grid == "spatial_shapes":
                return [(N, rows, channels * area)]
            return [
                *((N * rows, channels * d * area) for d in dict.fromkeys((deep, 2))),
                (N * rows, channels, *self.patch),
                (N * rows, channels, deep, *self.patch),
                (1, N * rows, channels, *self.patch),
            ]
        pinpoints = first_of(self.config, "image_grid_pinpoints")
        if pinpoints and "image_sizes" in self.takes:
            tiles = getattr(sys.modules[type(self.module).__module__], "image_size_to_num_patches", None)
            return [(N, tiles(self.side, pinpoints, self.side[0]) if tiles else 2, *image)]
        frames = first_of(vision, "num_frames", default=8 if "Video" in self.cls else None)
        if "pixel_attention_mask" in self.takes:
            return [(N, 1, *image), (N, *image)]
        if frames:
            return [(N, frames, *image)]
        return [(N, *image), (N, 1, *image)] if "input_ids" in self.takes else [(N, *image)]

    def features(self, N):
        """shapes of what is heard: frames, and numbers for each"""
        if hasattr(self.config, "num_mel_bins") and hasattr(self.config, "max_source_positions"):
            return [(N, self.config.num_mel_bins, 2 * self.config.max_source_positions)]
        named = (
            "input_feat_per_channel feature_projection_input_dim num_mel_bins feature_size input_feat_size input_dim "
            "num_mels n_mels mel_bins feat_dim in_channels input_size hidden_size"
        ).split()
        wide = [getattr(c, n, None) for c in (self.config, self.audio) for n in named]
        inner = [getattr(part(self.audio, "audio", "encoder"), n, None) for n in named]
        wide = [w for w in dict.fromkeys([*wide, *inner]) if isinstance(w, int) and w > 0]
        wide = (
            wide[:6] if hasattr(self.config, named[0]) or hasattr(self.config, named[1]) else [80, *wide][:6]
        )
        long = self.o.seq
        window = first_of(self.audio, "n_window")
        if isinstance(window, int) and window > 0:
            long = -(-long // (2 * window)) * 2 * window
        whole = first_of(self.audio, "max_source_positions")
        found = [(N, w, 2 * whole) for w in wide if w > 16][:2] if isinstance(whole, int) else []
        return found + [(N, long, w) for w in wide] + [(N, w, long) for w in wide]

    def waves(self, N):
        config, samples = self.config, self.o.samples
        if hasattr(config, "max_length") and hasattr(config, "num_mel_bins"):
            return [(N, config.max_length, config.num_mel_bins)]
        return [(N, samples), (N, 1, samples)]

    def series(self, N):
        """shapes of a time series"""
        config = self.config
        long = first_of(config, "context_length", default=self.o.seq)
        past = long + max(first_of(config, "lags_sequence", default=None) or [0])
        channels = first_of(config, "num_input_channels", default=first_of(config, "input_size", default=1))
        return [(N, past, channels), (N, past)] if channels > 1 else [(N, past), (N, past, 1)]

    def ids(self, N, S):
        if self.cls.endswith("MultipleChoice"):
            return [(N, 4, S)]
        books = [
            v
            for k in ("num_codebooks", "num_channels")
            if isinstance(v := getattr(self.config, k, None), int)
        ]
        return [(N, S), *((N, S, b) for b in books)]

    def decoded(self, N, T):
        inner = part(self.config, "decoder")
        return [
            (N, T),
            *((N, T, b) for k in ("num_channels", "num_codebooks") if (b := getattr(inner, k, None))),
        ]

    def shapes(self, name, N, S, T):
        """the open shapes of an input; none where it is not given"""
        if name in self.o.without:
            return []
        optional = self.takes[name].default is not inspect.Parameter.empty
        if name == "input_ids":
            return self.ids(N, S)
        if name == "decoder_input_ids":
            return self.decoded(N, T) if self.decoder else []
        if name == "pixel_values" or (name == "hidden_states" and self.grid):
            return self.pixels(N)
        if name in FEATURES:
            return self.features(N)
        if name == "input_values" and not (optional and "input_values_cutoffs" in self.takes):
            return self.waves(N)
        if name == "hidden_states":
            return [(N, 1, self.o.samples)]
        if name == "pixel_values_videos" and (not optional or "pixel_values" not in self.takes):
            frames = first_of(self.vision, "num_frames", default=self.o.frames)
            return [(N, frames, 3, *self.side), (N, 3, frames, *self.side)]
        if name == "past_values":
            return self.series(N)
        return []

    # ---- values

    def words(self, shape):
        made = tokens(*shape)
        S, image, sound = shape[1], self.token("image"), self.token("audio")
        if len(shape) == 2:
            made[:, : min(self.images, S)] = image or 0
            made[:, self.images : min(self.images + self.sounds, S)] = sound or 0
        return made

    def token(self, kind):
        found = first_of(self.config, f"{kind}_token_id", f"{kind}_token_index")
        return found if isinstance(found, int) else None

    def small(self, name, made):
        """inputs that follow from others; None where it is not given"""
        if name in self.o.without:
            return None
        N = self.count
        required = self.takes[name].default is inspect.Parameter.empty
        if name in ("image_grid_thw", "grid_thw") and self.patch:
            return torch.tensor([[1, *self.patches]] * N)
        if name == "spatial_shapes" and self.patch:
            return torch.tensor([self.patches] * N)
        if name in ("merge_sizes", "image_merge_sizes"):
            return tokens(N) + self.merge[0]
        if name == "image_sizes":
            return torch.tensor([self.side] * N)
        if name == "target_sizes" and self.patch and "pixel_values" in made:
            return torch.tensor([self.patches] * N)
        if name == "bbox" and "input_ids" in made:
            return tokens(*made["input_ids"].shape, 4)
        if name == "mm_token_type_ids" and self.images:
            return (made["input_ids"] == self.token("image")).long()
        if name in MASKS and (required or self.companions):
            values = next((made[k] for k in FEATURES if k in made), None)
            if values is None:
                return None
            long = max(values.shape[1:]) if first_of(self.audio, "max_source_positions") else values.shape[1]
            return torch.ones(N, long, dtype=torch.bool if required else torch.long)
        if name == "token_type_ids" and self.companions and {"input_ids", "pixel_values"} <= made.keys():
            return torch.zeros_like(made["input_ids"])
        if name == "padding_mask" and self.companions and "input_values" in made:
            return torch.ones(N, made["input_values"].shape[-1], dtype=torch.bool)
        if name == "pixel_attention_mask":
            values = made.get("pixel_values")
            if self.grid == "spatial_shapes":
                return torch.ones(values.shape[:2], dtype=torch.long)
            if values is not None and self.companions and values.dim() == 5:
                return torch.ones(*values.shape[:2], *values.shape[-2:], dtype=torch.bool)
        if name == "audio_feature_lengths" and self.companions and "input_features" in made:
            return tokens(N) + made["input_features"].shape[-1]
        return self.of_series(name, made, required) if "past_values" in made else None

    def of_series(self, name, made, required):
        past, config = made["past_values"], self.config
        N, long = past.shape[:2]
        ahead = first_of(config, "prediction_length", default=1)
        times = first_of(config, "num_time_features", default=0)
        if name in ("past_observed_mask", "past_values_padding") and required:
            return torch.ones_like(past) if name[5] == "o" else torch.zeros_like(past)
        if name == "freq":
            return tokens(N, 1)
        if name in ("past_time_features", "future_time_features"):
            return torch.zeros(N, long if name[0] == "p" else ahead, times)
        if name == "static_categorical_features" and getattr(config, "num_static_categorical_features", 0):
            return tokens(N, config.num_static_categorical_features)
        if name == "static_real_features" and getattr(config, "num_static_real_features", 0):
            return torch.zeros(N, config.num_static_real_features)
        if name == "future_values" and self.o.train:
            return torch.zeros(N, ahead, *past.shape[2:])
        return None

    def labels(self, size):
        labels = next(
            v
            for k, v in LABELS.items()
            if self.cls.endswith(k) and (k != "Classification" or "Token" not in self.cls)
        )
        # CTC leaves out labels that are the padding token
        shown = int(self.cls.endswith("ForCTC") and getattr(self.config, "pad_token_id", None) == 0)
        return {
            k: tokens(*(size.get(d) or int(d) for d in s.split())) + shown
            for k, s in labels.items()
            if k in self.takes and k not in self.o.without
        }

    def make(self, N=2, S=None, T=None):
        S, T = S or self.dims.get("S"), T or self.dims.get("T")
        self.count, made = N, {}
        for k in self.takes:
            shapes = self.shapes(k, N, S, T)
            if shapes:
                shape = shapes[min(self.choice.get(k, 0), len(shapes) - 1)]
                made[k] = (
                    self.words(shape)
                    if k == "input_ids"
                    else tokens(*shape) if k.endswith("_ids") else torch.ones(shape)
                )
        if not made:
            raise Problem(
                f"inputs of transformers.{self.cls} are not known here ({self.module.main_input_name}); write a function in a file "
                "that makes them"
            )
        made |= {k: v for k in self.takes if k not in made for v in [self.small(k, made)] if v is not None}
        if self.o.train:
            labels = self.labels(dict(N=N, S=S, T=T or S or 16, H=self.side[0], W=self.side[1]))
            words = made.get("decoder_input_ids", made.get("input_ids"))
            if (
                "labels" in labels
                and words is not None
                and words.dim() == 3
                and labels["labels"].shape == words.shape[:2]
            ):
                labels["labels"] = torch.zeros_like(words)  # of every codebook
            made |= labels
        return {k: made[k] for k in self.takes if k in made} | made

    # ---- choosing

    def settle(self, forward):
        """chooses of the open shapes, and counts what of a text stands for images and sounds"""
        if "input_ids" in self.takes:
            self.images = self.tokens_of("image", ("pixel_values",))
            self.sounds = self.tokens_of("audio", ("input_features", "input_values"))
            more = self.images + self.sounds
            self.dims["S"] = min(self.o.seq + more, max(self.longest, more + 1))
        S, T = self.dims.get("S"), self.dims.get("T")
        open_ones = {k: range(len(self.shapes(k, 2, S, T))) for k in self.takes if k not in self.choice}
        open_ones = {k: v for k, v in open_ones.items() if len(v) > 1}
        more = [False, True] if self.may_need_companions() else [False]
        trials = [(c, dict(zip(open_ones, n))) for n in itertools.product(*open_ones.values()) for c in more]
        before = dict(self.choice)
        for self.companions, choice in trials[:TRIALS] if len(trials) > 1 else ():
            self.choice = before | choice
            if runs(lambda: forward(**self.make())):
                return
        self.companions, self.choice = False, before

    def may_need_companions(self):
        seen = set(self.takes) & {"pixel_values", *FEATURES, "input_values"}
        text = {"input_ids", "pixel_values"} <= self.takes.keys()
        return bool(seen & {"input_values", *FEATURES} and set(self.takes) & {*MASKS, "padding_mask"}) or (
            text and bool(set(self.takes) & {"token_type_ids", "pixel_attention_mask"})
        )

    def tokens_of(self, kind, names):
        """how many tokens of a text stand for its image or its sound: as many as there are features of it"""
        name = next((k for k in names if k in self.takes), None)
        if name is None or self.token(kind) is None:
            return 0
        method = getattr(self.module, f"get_{kind}_features", None)
        method = method or getattr(getattr(self.module, "model", None), f"get_{kind}_features", None)
        for k in range(len(self.shapes(name, 2, 1, 1)) if method else 0):
            self.choice[name] = k
            for self.companions in (False, True):
                found = self.count_features(method, name)
                if found:
                    self.companions = False
                    return found
        self.companions = False
        self.choice.pop(name, None)
        if kind == "image" and self.patch and name == "pixel_values":
            return self.patches[0] * self.patches[1] // (self.merge[0] * self.merge[1] if self.grid else 1)
        return 0

    def count_features(self, method, name):
        """rows of features for one of two; 0 where that fails"""
        made = self.make(2, 1, 1)
        given = inspect.signature(method).parameters
        with contextlib.suppress(Exception), Answers(), torch.no_grad():
            found = method(**{k: v for k, v in made.items() if k in given})
            found = getattr(found, "pooler_output", found)
            found = list(found) if isinstance(found, (list, tuple)) else [found]
            return sum(t.shape[:-1].numel() for t in found) // 2
        return 0


def runs(call):
    """whether the shapes fit; what depends on values is seen only where there are values"""
    given = Answers.given
    try:
        with Answers(), torch.no_grad():
            call()
    except (DataDependentOutputException, DynamicOutputShapeException):
        return True
    except Exception:
        return False
    finally:
        Answers.given = given
    return True
