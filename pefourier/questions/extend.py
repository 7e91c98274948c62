r"""Comparison of scalings that extend a rotation to a longer context.

Conventions
-----------
Training covers `trained` positions, as in `context`: before a scaling, unless --length gives the
length that the present rotation was trained for. An extension covers `length` positions. The factor
of a scaling is the smallest divisor of the unscaled frequencies that avoids new angles: pairs that
never complete a full rotation in training stay within the angles of training. `cosine` compares
the vectors of a position in the model's rotation as it is, with its scaling, and in the new one, at
the positions that the model covers.

What to type so that an engine rotates with a scaling: JSON of a config, or options.

Sources: keys of transformers' ``modeling_rope_utils`` (``rope_scaling`` in version 4,
``rope_parameters`` in 5); https://docs.vllm.ai/en/stable/features/context_extension/ (0.12); the
options of ``llama-server --help`` and the ramp of YaRN in ``ggml.c`` (llama.cpp).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from math import inf, pi
from shlex import quote
from typing import Literal

import numpy as np

from pefourier.construction.rope import Rope, is_rotation, other_layers, spelled
from pefourier.encodings import load
from pefourier.encodings.attention_decay import positions_below, reading_cosine
from pefourier.encodings.encoding import Encoding, Finding, finding
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.loader import open_model, source_of, whole_numbers
from pefourier.encodings.model_positions import StatedLength, describe_positions
from pefourier.encodings.sources.huggingface import trained_as_stated
from pefourier.errors import PefourierError, check_count, shown
from pefourier.questions.design import Candidate, exact_base, properties_of_table
from pefourier.questions.result import Result, csv_table
from pefourier.questions.rotations import (
    Band,
    bands,
    base_bound,
    count_idle,
    count_unseen,
    describe_pairs,
    effective_base,
    window_within,
)
from pefourier.types import (
    CsvTable,
    Fields,
    Floats,
    Strings,
    Texts,
    Values,
    frozen,
    hidden,
    later,
)
from pefourier.writing.files import split_spec
from pefourier.writing.page import labelled_fields
from pefourier.writing.text import Verdict, number

Engine = Literal["transformers", "vllm", "llama.cpp"]
ORIGINAL = "original_max_position_embeddings"
BASES = "rope_theta", "rotary_emb_base", "global_rope_theta"  # keys of a base, in any config
KEPT = "partial_rotary_factor", "mrope_section", "mrope_interleaved"  # beside a new scaling
LLAMA_CPP = {  # options by setting of a scaling
    "factor": "--rope-scale",
    "original": "--yarn-orig-ctx",
    "beta_fast": "--yarn-beta-fast",
    "beta_slow": "--yarn-beta-slow",
}
IN_FILE = "llama3", "longrope", "factors"  # scalings that a .gguf file holds as factors


@frozen
class Settings:
    """What to type so that an engine rotates with a scaling."""

    engine: Engine
    version: str | None  # None if the options do not depend on it
    json: Fields | None  # keys of the config to change
    flags: str | None

    @property
    def text(self) -> str | None:
        """The JSON in one line; None if it is part of the options."""
        return json.dumps(self.json) if self.json and not self.flags else None

    @property
    def name(self) -> str:
        """The engine and the first version with these settings."""
        return f"{self.engine} {self.version or ''}".strip()


def settings_for(source: Encoding, enc: Encoding, engine: Engine | None) -> Settings:
    """Return what to type so that an engine rotates a model as another rotation does.

    >>> plain, scaled = Rope(128, 1e6), Rope(128, 1e6).with_(scaling="linear", factor=4.0)
    >>> settings_for(plain.build(8), scaled.build(2**17), "llama.cpp").flags
    '-c 131072 --rope-freq-base 1000000 --rope-scaling linear --rope-scale 4'
    """
    rope, length = rope_of(enc), len(enc)
    is_gguf = source_of(source.spec) == "gguf"
    engine = engine or ("llama.cpp" if is_gguf else "transformers")
    file = None if is_gguf else source.file
    config, part = (file.outer.values, file.part) if file else ({}, "")
    is_whole = not part and source.params["scaling"] not in IN_FILE
    if engine == "llama.cpp" and is_whole and (options := options_of_llama_cpp(rope)):
        return Settings(engine, None, None, " ".join([f"-c {length}", *options]))
    old = engine != "vllm" and is_old(config) and not (part and BASES[-1] in config)
    keys = {"max_position_embeddings": length, **keys_of(source, rope, old=old)}
    inner = file.key if file else ""
    keys = {inner: keys} if inner else keys
    if engine == "vllm":
        flags = f"--max-model-len {length} --hf-overrides {quote(json.dumps(keys))}"
        return Settings(engine, "0.12", keys, flags)
    return Settings(engine, None if engine == "llama.cpp" else "4.43" if old else "5", keys, None)


def rope_of(enc: Encoding) -> Rope:
    """Settings of a rotation with a base; ntk scaling is a larger base."""
    rope = Rope.of(enc) if is_rotation(enc) else None
    if rope is None:
        raise PefourierError(
            f"{shown(enc.spec)} is not a rotation with a base; pass a model's config to "
            "--extend-from, or a rotation such as rope:rho=1e6"
        )
    if rope.scaling != "ntk":
        return rope
    rotated = enc.params["rotated"]
    rho = rope.rho * rope.scaled_by["factor"] ** (rotated / (rotated - 2))
    return replace(rope.with_(scaling="none"), rho=rho)


def is_old(config: Values) -> bool:
    """Whether a config is for transformers 4, with the base beside ``rope_scaling``."""
    major = str(config.get("transformers_version", "")).partition(".")[0]
    keys = {
        key for values in (config, *config.values()) if isinstance(values, dict) for key in values
    }
    is_new = "rope_parameters" in keys or (major.isdigit() and int(major) >= 5)
    return bool(config) and ("rope_scaling" in keys or not is_new)


def keys_of(source: Encoding, rope: Rope, *, old: bool) -> Fields:
    """Keys of a config about a rotation that differ, with other types of layers unchanged."""
    config = source.file.model.values if source.file and source.file.model else {}
    key = next((key for key in BASES if key in config), BASES[0])
    base = int(rope.rho) if rope.rho == int(rope.rho) else rope.rho
    present = config.get("rope_parameters") or config.get("rope_scaling") or {}
    part = source.file.model.part if config else ""
    own = present.get(part, present)
    kept = {key: own[key] for key in KEPT if key in own}
    section = scaling_section(rope) | kept
    if old:
        return {key: base, "rope_scaling": section if kept or rope.scaling != "none" else None}
    section |= {"rope_theta": base}
    emptied = {"rope_scaling": None} if config.get("rope_scaling") else {}
    if not part:
        return {"rope_parameters": section} | emptied
    others = {
        name: scaling_section(other) | {"rope_theta": other.rho}
        for name, enc in other_layers(source)
        if (other := Rope.of(enc))
    }
    kept = present if part in present else others
    return {"rope_parameters": {**kept, part: section}} | emptied


def scaling_section(rope: Rope) -> Fields:
    """Return the keys of a scaling in a config, all that transformers requires."""
    kind = "default" if rope.scaling == "none" else rope.scaling
    values = rope.scaled_by if kind == "llama3" else changed_values(rope)
    return {"rope_type": kind} | {ORIGINAL if k == "original" else k: v for k, v in values.items()}


def changed_values(rope: Rope) -> Fields:
    """Return the parameters of a scaling that differ from their defaults."""
    usual = scaling_parameters(rope.scaling)
    return {key: value for key, value in rope.scaled_by.items() if value != usual[key].default}


def options_of_llama_cpp(rope: Rope) -> list[str]:
    """Options of llama.cpp for a rotation; empty if there are none."""
    options = [f"--rope-freq-base {spelled(rope.rho)}", f"--rope-scaling {rope.scaling}"]
    if rope.scaling not in ("none", "linear", "yarn") or rope.attention_factor:
        return []
    changed = changed_values(rope)
    if not changed.keys() <= LLAMA_CPP.keys():
        return []
    return [*options, *(f"{LLAMA_CPP[key]} {spelled(value)}" for key, value in changed.items())]


SHOWN = (128, 1024, 4096, 32768, 131072, 2**20)  # positions at which cosines are reported
WAYS = ("linear", "ntk", "yarn", "llama3")  # for RoPE; p-RoPE has a separate scaling
VENDORS = dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "yarn")  # model cards
FACTOR_DIGITS, BASE_DIGITS = 10, 7


@frozen
class Extension(Candidate):
    """One way to extend the context, and its effects."""

    way: str  # unchanged, a scaling, or base: a new base without scaling
    factor: float  # of the scaling; otherwise 1
    attention_factor: float
    bands: tuple[Band, ...]  # kept, blended, stretched: compared with the rotation as trained
    unseen: int  # pairs that reach angles never seen in training
    cosine: tuple[tuple[int, float], ...]  # position, cosine to the rotation as trained
    below: dict[str, int | None]  # first position with a cosine below 0.99, 0.9 and 0.5
    frequencies: Floats  # radians per position

    @property
    def name(self) -> str:
        """The name of the way, with its base if that is new."""
        return f"base {self.base}" if self.way == "base" else self.way

    @property
    def setting(self) -> str:
        """The way with its factor, for use in a sentence."""
        scaled = f"{self.way} scaling (factor {number(self.factor, FACTOR_DIGITS)})"
        return self.name if self.way == "base" else scaled

    @property
    def band_counts(self) -> str:
        """Numbers of pairs kept, blended and stretched; unscaled pairs count as kept."""
        count = {band.treatment: band.pairs for band in self.bands}
        unchanged = count.get("kept", 0) + count.get("same", 0)
        return f"{unchanged}/{count.get('blended', 0)}/{count.get('stretched', 0)}"

    @property
    def below_99(self) -> int | None:
        """The first position at which the cosine is below 0.99."""
        return self.below[".99"]

    @property
    def below_90(self) -> int | None:
        """The first position at which the cosine is below 0.9."""
        return self.below[".9"]


@frozen
class Extensions(Result):
    """Ways to extend a trained rotation to a length."""

    command = "design"
    figure = "extension"
    verdicts = {
        "scaling needed": Verdict(
            "Without scaling, going from {r.trained:,} to {r.length:,} positions takes "
            "{r.unchanged.unseen} of {r.pairs} rotary pairs to angles never seen in training.",
            "With {r.chosen.setting}{r.vendor:?, as in the model cards of {r.vendor},} none do, "
            "and the cosine to the model's rotation {r.chosen_falls}. "
            "Evaluate the model to see how well it works.",
        ),
        "further scaling needed": Verdict(
            "With the model's {r.present_setting}, going from {r.trained:,} to {r.length:,} "
            "positions takes {r.unchanged.unseen} of {r.pairs} rotary pairs to angles never seen "
            "in training.",
            "With {r.chosen.setting}{r.vendor:?, as in the model cards of {r.vendor},} none do, "
            "and the cosine to the model's rotation {r.chosen_falls}. "
            "Evaluate the model to see how well it works.",
        ),
        "no scaling suffices": Verdict(
            "Unchanged, going from {r.trained:,} to {r.length:,} positions takes "
            "{r.unchanged.unseen} of {r.pairs} rotary pairs to angles never seen in training. Of "
            "the scalings tried, {r.chosen.setting} takes the fewest: {r.chosen.unseen}.",
        ),
        "no scaling needed": Verdict(
            "Unchanged, going from {r.trained:,} to {r.length:,} positions keeps every rotary pair "
            "within the angles seen in training.",
            "Evaluate the model at that length.",
        ),
    }
    shown = {
        "layers": "name",
        "trained length": "trained",
        "stated length": "stated",
        "positions": "length",
        "window": "window",
        "settings for": "settings.name",
        "config.json": "settings.text",
        "options": "settings.flags",
    }
    listed = {
        "candidates": {
            "scaling": "name",
            "factor": "factor",
            "base": "base",
            "attention factor": "attention_factor",
            "kept/blended/stretched": "band_counts",
            "unseen angles": "unseen",
            "first negative lag": "bound",
            "cosine < .99": "below_99",
            "< .9": "below_90",
        },
        "scaled": {"way": "name", "spec": "spec"},
    }
    short = {
        "shown": (
            "layers",
            "trained length",
            "stated length",
            "positions",
            "settings for",
            "config.json",
            "options",
        ),
        "recommended_first": {
            "scaling": "name",
            "factor": "factor",
            "base": "base",
            "unseen angles": "unseen",
            "cosine < .99": "below_99",
        },
    }

    name: str  # the type of layer that is extended; empty for the whole model
    trained: int  # as in `context`
    stated: StatedLength | None  # with the scaling, longer than before it
    length: int
    d: int
    original: int  # positions before any scaling
    by_factor: bool  # whether `original` is the length over a factor, not stated
    window: int | None  # positions that a query sees in the extended layers; None for all
    trained_frequencies: Floats  # of the rotation in training
    criteria: Texts
    ways: tuple[Extension, ...] = hidden()  # without properties of tables
    best: dict[str, float | None]  # the base for each criterion
    settings: Settings  # what to type for the recommended way
    choice: int = hidden()  # index of the recommended way
    candidates: tuple[Extension, ...]  # all ways, with the properties of their tables

    @property
    def verdict(self) -> str:
        """Whether the unchanged rotation reaches angles never seen in training."""
        if not self.unchanged.unseen:
            return "no scaling needed"
        if all(way.unseen for way in self.scaled):
            return "no scaling suffices"
        return "scaling needed" if self.scaling == "none" else "further scaling needed"

    @property
    def scaling(self) -> str:
        """The kind of scaling of the rotation, or "none"."""
        return str(self.encoding.params["scaling"])

    @property
    def present_setting(self) -> str:
        """The present scaling with its factor, for use in a sentence."""
        factor = self.encoding.params.get("factor")
        stated = "" if factor is None else f" (factor {number(factor, FACTOR_DIGITS)})"
        return f"{self.scaling} scaling{stated}"

    @property
    def unchanged(self) -> Extension:
        """The unchanged rotation at the new length."""
        return self.ways[0]

    @property
    def scaled(self) -> tuple[Extension, ...]:
        """The ways that change the rotation."""
        return self.ways[1:]

    @property
    def chosen(self) -> Extension:
        """The recommended way: that of the vendor, or else the nearest."""
        return self.ways[self.choice]

    @property
    def recommended_first(self) -> list[Extension]:
        """All ways, first the one that the verdict is about."""
        first = self.chosen if self.unchanged.unseen else self.unchanged
        return [first, *(way for way in self.ways if way is not first)]

    @property
    def vendor(self) -> str:
        """The model types of a vendor that chose the recommended way; empty if none."""
        kind = self.encoding.params.get("model_type", "")
        return kind if VENDORS.get(kind) == self.chosen.way else ""

    @property
    def chosen_falls(self) -> str:
        """Where the cosine of the recommended way first falls below 0.99."""
        position = self.chosen.below_99
        if position is None:
            return f"stays at 0.99 or above at all positions below {self.covered:,}"
        return f"first falls below 0.99 at position {position:,}"

    @property
    def covered(self) -> int:
        """Number of positions that the model covers with its scaling."""
        return len(self.encoding)

    @property
    def pairs(self) -> int:
        """Number of rotated pairs."""
        return sum(band.pairs for band in self.unchanged.bands)

    def series(self) -> CsvTable:
        """Column names for CSV, and one row for each way."""
        shared = [name for name in labelled_fields(Candidate) if name != "spec"]
        measured = ["factor", "attention_factor", "band_counts", "unseen", "below_99", "below_90"]
        return csv_table(self.candidates, ["spec", "way", *shared, *measured])

    @property
    def findings(self) -> list[Finding]:
        """Report both readings of a config that does not state the length before scaling."""
        if not self.by_factor:
            return []
        factor = self.encoding.params["factor"]
        lengths = {"before": self.covered / factor, "reach": self.covered * factor}
        slots = {name: f"{length:,.{FACTOR_DIGITS}g}" for name, length in lengths.items()}
        slots |= {"factor": number(factor, FACTOR_DIGITS), "typed": slots["reach"].replace(",", "")}
        return [finding("original-by-factor", trained=self.covered, **slots)]


def extend(
    spec: str | os.PathLike[str],
    to: int | str,
    *,
    trained: int | str | None = None,
    d: int | str | None = None,
    criteria: Strings = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
    engine: Engine | None = None,
) -> Extensions:
    """Compare ways to extend a rotation: linear, ntk, yarn and llama3, and new bases.

    Parameters
    ----------
    spec : str or path
        A model's config.json or folder, or a rotation such as "rope:rho=5e5".
    to : int
        The new length, longer than the trained length; "128k" as in the shell.
    trained : int, optional
        Length that the present rotation was trained for; the default is the config's maximum.
    d : int, optional
        Head size; named rotations only.
    criteria : sequence of str
        ``turns``, ``bound`` or ``wavelength=K``: each gives a base, which is tried without a
        scaling.
    bases : sequence of float
        Further bases to try without a scaling.
    dtype : str, optional
        A format of `pefourier.geometry.precision.FORMATS` to which vectors are rounded.
    engine : str, optional
        Engine of the settings: transformers, vllm or llama.cpp; the default is llama.cpp for a
        .gguf file, else transformers.

    Examples
    --------
    >>> {e.way: e.unseen for e in extend("rope:rho=1e6", 131072, trained=32768, d=128).candidates}
    {'unchanged': 24, 'linear': 0, 'ntk': 23, 'yarn': 0, 'llama3': 0}
    """
    length, trained, d = whole_numbers(to=to, trained=trained, d=d)
    length = length or 0
    spec = whole_layers(os.fspath(spec))
    model = describe_positions(spec, trained, trained, d=d)
    source = load(spec, trained or model.stands_for, d)
    rope = rope_of(source)
    if trained is None and source_of(spec) == "name":
        raise PefourierError(
            f"{shown(source.spec)} does not state its trained length; pass it, for example as "
            "--length 8192"
        )
    if length <= (trained or len(source)):
        raise PefourierError(
            f"{shown(source.spec)} covers {trained or len(source)} positions; the new length must "
            f"be longer, got {length}"
        )
    plain = rope.unscaled
    best = {name: exact_base(name, length, source.params["rotated"]) for name in criteria}
    window, stated = model.widest_window(), trained_as_stated(source.params)
    is_divided = source.params["scaling"] in ("linear", "proportional")
    divisor = source.params["factor"] if is_divided else 1.0
    original = int(stated or round(len(source) / divisor))
    check_count(f"{len(source)} positions over the factor {divisor:g}", original)
    is_before = model.trained.source == "assumed" and stated is not None  # as in `context`
    met = plain if is_before else Rope.of(source) or rope
    known = met.frequencies(trained_length := model.trained_or_native)
    least = length / trained_length  # if all pairs complete a full rotation in training
    factor = least_factor(plain.frequencies(length) * length, known * trained_length) or least
    factor = float(f"{factor:.{FACTOR_DIGITS}g}")
    lengths = {"factor": factor, "original": original}
    scaled = {
        scaling: rope.with_(
            scaling=scaling,
            **{k: v for k, v in lengths.items() if k in scaling_parameters(scaling)},
        )
        for scaling in (WAYS if source.params["scaling"] != "proportional" else ("proportional",))
    }
    tried = dict.fromkeys([*filter(None, best.values()), *bases])
    unscaled = (("base", rope.with_(scaling="none", rho=rho)) for rho in tried)
    rotations = [("unchanged", load(spec, length, d))]
    rotations += ((way, of.build(length)) for way, of in (*scaled.items(), *unscaled))
    ways = [
        describe_extension(source, known, trained_length, way, enc, window)
        for way, enc in rotations
    ]
    choice, settings = choose(source, ways, [enc for _, enc in rotations], engine)
    return Extensions(
        name=split_spec(spec)[1],
        trained=trained_length,
        stated=model.stated,
        length=length,
        d=source.params["d"],
        original=original,
        by_factor=original != len(source) and not stated,
        window=window,
        trained_frequencies=known,
        criteria=tuple(criteria),
        ways=tuple(ways),
        best=best,
        settings=settings,
        choice=choice,
        candidates=later(
            lambda: tuple(
                replace(way, bound=bound_of(enc), **properties_of_table(enc, dtype))
                for way, (_, enc) in zip(ways, rotations, strict=True)
            )
        ),
        encodings=(replace(source, params={**source.params, "to": length, "dtype": dtype}),),
    )


def choose(
    source: Encoding,
    candidates: Sequence[Extension],
    rotations: Sequence[Encoding],
    engine: Engine | None,
) -> tuple[int, Settings]:
    """Return the index of the recommended way, and what to type for it.

    The way of the model's vendor is preferred if it reaches no new angles; then the fewest new
    angles, then the largest cosines. An engine needs options for a way, if it has any.
    """
    vendor = VENDORS.get(source.params.get("model_type", ""))
    rank = {
        i: (e.way != vendor or e.unseen > 0, e.unseen, *(-(p or inf) for p in e.below.values()))
        for i, e in enumerate(candidates)
        if i
    }
    ranked = [
        (i, settings_for(source, rotations[i], engine)) for i in sorted(rank, key=rank.__getitem__)
    ]
    usable = (row for row in ranked if engine != "llama.cpp" or row[1].flags)
    return next(usable, ranked[0])


def least_factor(plain: Floats, met: Floats) -> float:
    """Smallest divisor of unscaled angles with which no pair exceeds its angle in training.

    The result is 0 if all pairs complete a full rotation in training.

    >>> least_factor(np.array([2.0**18, 26.2144]), np.array([2.0**17, 3.2768]))
    8.0
    """
    short = (met > 0) & (met < 2 * pi)
    return float((plain[short] / met[short]).max(initial=0.0))


def whole_layers(spec: str) -> str:
    """Return the SPEC; if layer types differ, that of the layers without a window."""
    if source_of(spec) != "config" or split_spec(spec)[1]:
        return spec
    model = open_model(spec)
    runs = [run for run in model.layers if run.kind == "rotary"]
    parts = list(dict.fromkeys(run.part for run in runs if run.part and run.window is None))
    several = len({run.part for run in runs}) > 1
    return model.of_layer(parts[0]).spec if several and len(parts) == 1 else spec


def bound_of(enc: Encoding) -> int | None:
    """First lag m with B(m) < 0, over all pairs of a head."""
    frequencies = enc.measure.frequencies
    return base_bound(frequencies, unrotated=enc.params["d"] // 2 - len(frequencies))


def describe_extension(
    source: Encoding,
    known: Floats,
    trained: int,
    way: str,
    enc: Encoding,
    window: int | None,
) -> Extension:
    """Describe one way at a length, with queries limited to a window.

    Angles are compared with those of the `known` frequencies over the `trained` length, and vectors
    with those of the model as it is.
    """
    model, new = source.measure.frequencies, enc.measure.frequencies
    base, lags = effective_base(enc) or enc.params["rho"], window_within(window, len(enc))
    points = np.array([p for p in SHOWN if p < len(source)] or [len(source) - 1])
    cosines = reading_cosine(model, new, points).tolist()
    return Extension(
        way=way,
        factor=enc.params.get("factor", 1.0) if way == enc.params["scaling"] else 1.0,
        rho=float(f"{base:.{BASE_DIGITS}g}"),
        spec=enc.spec,
        idle=count_idle(new[new != 0], len(enc)),
        attention_factor=enc.params["attention_factor"],
        bands=tuple(bands(describe_pairs(new, known, known * trained), len(enc))),
        unseen=count_unseen(new, known * trained, lags or len(enc)),
        cosine=tuple(zip(points.tolist(), cosines, strict=True)),
        below=positions_below(model, new, len(source)),
        frequencies=new,
    )
