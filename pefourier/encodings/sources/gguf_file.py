"""Which rotation does a GGUF file of llama.cpp set? Its metadata, and its factors of frequencies.

Keys are those of llama.cpp's converters: ``ARCH.rope.freq_base``, ``rope.dimension_count``,
``rope.freq_base_swa``, ``attention.sliding_window_pattern``, ``rope.scaling.*``,
``attention.key_length``, ``context_length``; the tensors ``rope_freqs.weight`` and
``rope_factors_long.weight`` with ``rope_factors_short.weight`` divide the frequencies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.checks import WIDEST, is_count, is_number
from pefourier.encodings.columns import describe_axes
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.rotary import (
    logits_gain,
    original_of_llama3,
    turning_share,
)
from pefourier.encodings.findings import finding
from pefourier.encodings.registry import build
from pefourier.encodings.sources.gguf_header import LONGEST_LIST, NUMPY, read_header
from pefourier.encodings.sources.huggingface import (
    LayerRun,
    family_lost,
    lost_family,
    original_of_linear,
    trained_as_stated,
    type_row,
)
from pefourier.encodings.sources.json_object import Section
from pefourier.errors import PefourierError, shown, unknown
from pefourier.writing.files import os_errors, read_toml, split_spec

FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
PARTS = ("full_attention", "sliding_attention")  # types of layers with bases of their own
ATTENTION = "rope.scaling.attn_factor"
EXT_FACTOR = "rope.scaling.yarn_ext_factor"
BETAS = ("beta_fast", "beta_slow")


@dataclass(frozen=True)
class GgufFile:
    """What a file says: metadata, and tensors of factors by name; of positions as a config does."""

    path: str
    metadata: Mapping[str, Any]
    factors: Mapping[str, tuple[float, ...]]
    part: str = ""  # the type of layer that is named
    spec: str = ""
    model: ClassVar[None] = None  # no config
    unrotated: ClassVar[int] = 0  # dimensions of a head that do not turn beside others

    @property
    def kind(self) -> str:
        """The architecture."""
        return str(self.metadata.get("general.architecture"))

    @cached_property
    def keys(self) -> Section:
        """The keys of the file's architecture; of a list, one a layer, the first."""
        start = f"{self.kind}."
        inside = {key: value for key, value in self.metadata.items() if key.startswith(start)}
        firsts = {k: v[0] if isinstance(v, list) and v else v for k, v in inside.items()}
        firsts = {key.removeprefix(start): value for key, value in firsts.items()}
        return Section(shown(self.path), firsts)

    @property
    def sections(self) -> tuple[int, ...]:
        """How many pairs the axes t, y, x and e turn, as llama.cpp calls them; empty: not told."""
        counts = self.metadata.get(f"{self.kind}.rope.dimension_sections") or []
        if not isinstance(counts, list) or not all(is_count(n, 0, WIDEST) for n in counts[:4]):
            raise self.keys.wrong("rope.dimension_sections", counts, "four counts")
        return tuple(map(int, counts[:4])) if sum(counts[:4]) else ()

    @property
    def pairing(self) -> str | None:
        """How llama.cpp pairs the rows of a head: interleaved, halves, axes (halves too), or none.

        None for an architecture that is not known. The converter has put q and k rows of a model
        whose pairs lie otherwise into that order.
        """
        if self.is_listed("sections", "told") and all((*self.sections, 0, 0)[:2]):
            return "axes"
        pairings = decided()["pairing"].items()
        return next((name for name, who in pairings if self.kind in who.split()), None)

    def is_listed(self, table: str, key: str) -> bool:
        """Whether llama.cpp decides so for the file's architecture."""
        return self.kind in decided()[table][key].split()

    @property
    def stated(self) -> tuple[str, int] | None:
        """The longest sequence that the file sets, behind its key."""
        length = self.keys.count("context_length")
        return None if length is None else ("context_length", length)

    @property
    def settles_original(self) -> bool:
        """Whether the length before a scaling is set."""
        return self.keys.count("rope.scaling.original_context_length") is not None

    def number(self, key: str) -> float | None:
        """A positive number under a key; None where there is none."""
        number = self.keys.number(key)
        if number is not None and number <= 0:
            raise self.keys.wrong(key, number, "above 0")
        return number

    def optional(self, key: str) -> float | None:
        """A number that llama.cpp reads for some architectures alone; None for the others."""
        return self.number(key) if self.is_listed("reads", key) else None

    def spec_of(self, layer: str) -> str:
        """The SPEC of a type of layer, or of all."""
        return f"{self.path}#{layer}" if layer else self.spec

    @property
    def layers(self) -> list[LayerRun]:
        """Layers by what they do with positions; one run where no more is known."""
        count = self.keys.count("block_count") or 0
        window = self.keys.count("attention.sliding_window")
        sliding = sliding_layers(self, count) if window else [False] * count
        if not count or sliding is None:
            return [LayerRun((), "rotary", "", None)]
        unrotated = decided()["unrotated"].get(self.kind)
        differs = window_base(self) != base_in(self) or any(
            self.keys.count(f"{key}_swa") not in (None, self.keys.count(key))
            for key in ("rope.dimension_count", "attention.key_length")
        )
        split = any(sliding) and differs
        runs: dict[tuple[Any, ...], list[int]] = {}
        for i, local in enumerate(sliding):
            none = (unrotated == "every fourth" and i % 4 == 3) or (
                unrotated == "full" and window and not local
            )
            part = PARTS[local] if split and not none else ""
            key = ("none" if none else "rotary", part, window if local else None)
            runs.setdefault(key, []).append(i)
        return [LayerRun(tuple(index), *key) for key, index in runs.items()]

    def axis_of_pairs(self, pairs: int) -> NDArray[np.int64] | None:
        """Which of the axes t, y, x and e turns each pair; None where that is not told.

        As llama.cpp has it: e is position 0 in text and in images.
        """
        sections = (*self.sections, 0, 0, 0)[:4]
        if self.pairing != "axes" or not any(sections):
            return None
        sector = np.arange(pairs) % sum(sections)
        if self.is_listed("sections", "turns"):
            return np.where(sector < 3 * np.array(sections)[sector % 3], sector % 3, 3)
        return np.searchsorted(np.cumsum(sections), sector, side="right")

    def encoding(self, length: int | None = None, d: int | None = None) -> Encoding:
        """The rotation, by default over the context that the file tells.

        Whether partners stand side by side is llama.cpp's choice for the architecture; of one that
        is not known, halves are taken.
        """
        if self.part not in ("", *PARTS):
            raise unknown(f"type of layer of {shown(self.path)}", self.part, PARTS)
        if self.pairing == "none":
            raise PefourierError(
                f"{shown(self.path)} sets no rotation: llama.cpp turns nothing in "
                f"{shown(self.kind)}"
            )
        head, turned = head_sizes(self, self.part, d)
        unread = unread_in(self)
        rows = length or self.keys.count("context_length")
        local = self.part == PARTS[1]
        try:
            enc = build(
                "rope",
                length=rows or 80,
                d=head,
                rho=window_base(self) if local else base_in(self),
                layout="interleaved" if self.pairing == "interleaved" else "halves",
                partial=turning_share(turned, head),
                **(
                    {} if local and self.is_listed("windows", "unscaled") else scaling_of_file(self)
                ),
            )
        except PefourierError as error:
            raise PefourierError(f"{shown(self.path)}: {error}") from error
        axis = self.axis_of_pairs(turned // 2)
        noted: dict[str, Any] = {} if axis is None else {"mrope_section": describe_axes(axis)}
        noted |= {"unread": unread} if unread else {}
        longest = self.keys.count("context_length") or 0
        family = lost_family(type_row(self.kind) or {}, enc.params, longest)
        lost = [family_lost(self.keys.label, longest, family)] if family else []
        before = family.get("trained") or known_original(self, enc.params)
        if before and not trained_as_stated(enc.params):
            noted |= {"trained": before}
        facts = {"path": self.path, **softmax_factor_in(self, enc.params), **noted}
        findings = (*notes_on_file(self, unread), *enc.findings, *lost)
        return replace(enc, spec=self.spec, params={**enc.params, **facts}, findings=findings)


def open_gguf(spec: str) -> GgufFile:
    """The metadata and the factors in the file of a SPEC.

    Behind ``#`` stands sliding_attention for layers with a window, where these turn by another
    base.
    """
    path, part = split_spec(spec)
    metadata, tensors = read_header(path)
    factors = {}
    for name in (name for name in (FREQS, LONG, SHORT) if name in tensors):
        place, size = tensors[name], prod(tensors[name].shape)
        if place.type not in NUMPY or size > LONGEST_LIST:
            raise PefourierError(
                f"{name} of {shown(path)} must be at most {LONGEST_LIST} numbers of type "
                f"{' or '.join(NUMPY)}; it has {size} of type {place.type}"
            )
        with os_errors("read", path):
            numbers = np.fromfile(path, NUMPY[place.type], size, offset=place.start)
        factors[name] = tuple(numbers.astype(float).tolist())
    return GgufFile(path, metadata, factors, part, spec)


def head_sizes(file: GgufFile, part: str, d: int | None) -> tuple[int, int]:
    """The size of a head of a type of layer, and how many of its dimensions turn."""
    local = ("_swa",) * (part == PARTS[1])  # keys of layers with a window come first
    turned = file.keys.count(*(f"rope.dimension_count{end}" for end in (*local, "")))
    ends = (*local, "_mla", "")
    stated = file.keys.count(*(f"attention.key_length{end}" for end in ends))
    width, heads = file.keys.count("embedding_length"), file.keys.count("attention.head_count")
    head = stated or (max(width // heads, 1) if width and heads else turned or d)
    if head is None:
        raise PefourierError(
            f"{shown(file.path)} has neither rope.dimension_count nor sizes of heads"
        )
    return head, min(turned or head, head)


OF_POSITIONS = ("rope.", "attention.sliding_window", "attention.alibi", "attention.max_alibi")


def unread_in(file: GgufFile) -> tuple[str, ...]:
    """Keys about positions of the file's architecture that are not read."""
    encodings = [key for key in file.keys.values if key.startswith(OF_POSITIONS)]
    readable = {*decided()["keys"]["read"].split(), *decided()["reads"]}
    return tuple(key for key in encodings if key not in readable)


def notes_on_file(file: GgufFile, unread: Sequence[str]) -> Iterator[Finding]:
    """What a file leaves to the code of its architecture; the first keys that are not read."""
    who = f"{shown(file.path)} (architecture {shown(file.kind)})"
    unrotated = decided()["unrotated"].get(file.kind)
    if file.pairing is None:
        yield finding("gguf-unsaid", "pairs", who=who)
    if file.number("rope.freq_base") is None:
        yield finding("gguf-unsaid", "base", who=who)
    if file.pairing == "axes":
        yield finding("rope-axes")
    if unrotated and (unrotated != "full" or file.keys.values.get("attention.sliding_window")):
        layers = "every fourth layer" if unrotated != "full" else "layers that see all"
        yield finding("gguf-unsaid", "still", who=who, layers=layers)
    for key in unread[:5]:
        slots = {"key": shown(key), "value": shown(file.keys.values[key])}
        yield finding("unread-key", "plain", config=file.keys.label, **slots)


def base_in(file: GgufFile) -> float:
    """The base of layers that see all, 10000 where no key tells."""
    return float(file.number("rope.freq_base") or 1e4)


def window_base(file: GgufFile) -> float:
    """The base of layers with a window: by its key, else as llama.cpp has it."""
    usual = 1e4 if file.is_listed("windows", "own_base") else base_in(file)
    return float(file.number("rope.freq_base_swa") or usual)


def sliding_layers(file: GgufFile, count: int) -> list[bool] | None:
    """Which layers see a window alone: by the key, else by llama.cpp's pattern; None: unknown."""
    pattern = file.metadata.get(f"{file.kind}.attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return [bool(x) for x in pattern[:count]] if len(pattern) >= count else None
    interval = pattern or decided()["full"].get(file.kind)
    if not isinstance(interval, int) or isinstance(interval, bool) or not interval:
        return None
    full = 0 if interval < 0 else abs(interval) - 1
    return [i % abs(interval) != full for i in range(count)]


def scaling_of_file(file: GgufFile) -> dict[str, Any]:
    """The scaling that a file sets, as parameters of `rope`."""
    kind, factors = file.keys.values.get("rope.scaling.type", "linear"), file.factors
    factor = float(file.number("rope.scaling.factor") or file.number("rope.scale_linear") or 1)
    original = file.keys.count("rope.scaling.original_context_length", "context_length")
    alpha, mixed = file.optional("rope.scaling.alpha"), file.keys.values.get(EXT_FACTOR, 1)
    mixed = 1 if is_number(mixed) and mixed < 0 else mixed  # as where nothing is set
    sizes: dict[str, Any] = {"factor": factor, "original": original}
    is_plain = kind in ("none", "linear")
    if LONG in factors and SHORT in factors and original:
        lists = {"short_factor": factors[SHORT], "long_factor": factors[LONG]}
        attention = file.number(ATTENTION) or 1.0
        return {"scaling": "longrope", **lists, **sizes, "attention_factor": attention}
    if FREQS in factors and (kind in ("none", "llama3") or (kind == "linear" and factor == 1)):
        return {"scaling": "factors", "factors": factors[FREQS]}
    if kind == "yarn" and original and mixed == 1 and not factors:
        attention = (file.number(ATTENTION) or 1.0) * yarn_attention(file, factor)
        turns = {key: file.optional(f"rope.scaling.yarn_{key}") for key in BETAS}
        turns = {key: x for key, x in turns.items() if x is not None}
        return {"scaling": "yarn", **sizes, "attention_factor": attention, **turns}
    if is_plain and alpha and factor == 1 and not factors:  # its base times alpha^(d / (d - 2))
        return {"scaling": "ntk", "factor": float(alpha)}
    if ((is_plain and not alpha) or (kind == "yarn" and mixed == 0)) and FREQS not in factors:
        return {"scaling": "linear", "factor": factor} if factor != 1 else {}
    contents = f"{', '.join(factors) or 'no factors'}, {EXT_FACTOR} {shown(mixed)}, alpha {alpha}"
    way_out = "is not read here; give rope:inv_freq=FILE"
    raise PefourierError(f"scaling {shown(kind)} of {file.keys.label} with {contents} {way_out}")


def known_original(file: GgufFile, params: Mapping[str, Any]) -> int | None:
    """The length of training that a file states, or that its scaling or rope_freqs give away."""
    longest, scaling = file.keys.count("context_length") or 0, params["scaling"]
    stated = file.keys.count("rope.scaling.original_context_length")
    if stated and (scaling != "none" or stated < longest):
        return stated
    if scaling == "linear":
        return original_of_linear(longest, params["factor"])
    return original_of_llama3(params) if scaling == "factors" else None


def yarn_attention(file: GgufFile, factor: float) -> float:
    """The factor before cosines and sines: 0.1 ln s + 1, or a quotient by yarn_log_multiplier.

    deepseek2 and deepseek32 keep a tenth of the multiplier; the first takes it for both numbers
    unless it is 1.
    """
    scale, times = 1 + 0.1 * log(factor), log_multiplier(file)
    if times is None:
        return scale
    if file.kind == "deepseek2" and abs(times - 1) > 1e-6:
        return 1.0
    return scale / (1 + 0.1 * times * log(factor))


def log_multiplier(file: GgufFile) -> float | None:
    """What a config calls mscale_all_dim; None where llama.cpp reads none."""
    multiplier = file.optional("rope.scaling.yarn_log_multiplier")
    return multiplier if multiplier is None or file.kind == "mistral3" else 10 * multiplier


def softmax_factor_in(file: GgufFile, params: Mapping[str, Any]) -> dict[str, float]:
    """What DeepSeek's layers multiply their logits with: (0.1 m ln s + 1)^2."""
    times = log_multiplier(file)
    if times is None or params["scaling"] != "yarn" or file.kind == "mistral3":
        return {}
    return {"softmax_factor": logits_gain(times, params["factor"], file.keys.label)}


def decided() -> dict[str, Any]:
    """What llama.cpp decides by architecture."""
    return read_toml(Path(__file__).with_name("gguf_architectures.toml"))
