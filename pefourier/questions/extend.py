r"""Comparison of scalings that extend a rotation to a longer context.

Conventions
-----------
The trained rotation, with the scaling in its config, covers `trained` positions; an extension
covers `length` positions. The factor of a scaling is the smallest divisor of the unscaled
frequencies that avoids new angles: pairs that never complete a full rotation in training stay
within the angles of training. `cosine` compares the vectors of a position in both rotations (1: as
trained), at the positions of training.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, pi
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.attention_decay import positions_below, reading_cosine
from pefourier.encodings.checks import check_count
from pefourier.encodings.encoding import Encoding, Finding, Floats, ShiftInvariantEncoding
from pefourier.encodings.families.absolute import base_of
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.findings import finding
from pefourier.encodings.loader import open_model, source_of, whole_numbers
from pefourier.encodings.model_positions import ModelPositions, describe_positions
from pefourier.encodings.sources.huggingface import trained_as_stated
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FORMATS, Format
from pefourier.questions.design import Candidate, build_rope, candidate, exact_base
from pefourier.questions.result import Result, csv_table
from pefourier.questions.rotations import Band, bands, count_unseen, window_within
from pefourier.writing.files import split_spec
from pefourier.writing.page import fields_of, labelled_fields
from pefourier.writing.text import Verdict, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.report.plot import Look
    from pefourier.report.render import Answer

SHOWN = (128, 1024, 4096, 32768, 131072, 2**20)  # positions at which cosines are reported
WAYS = ("linear", "ntk", "yarn", "llama3")  # for RoPE; p-RoPE has a separate scaling
FACTOR_DIGITS, BASE_DIGITS = 10, 7


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, repr=False)
class Extensions(Result):
    """Ways to extend a trained rotation to a length."""

    command: ClassVar[str] = "design"
    verdicts: ClassVar[dict[str, Verdict]] = {
        "scaling needed": Verdict(
            "Without scaling, going from {r.trained} to {r.length:,} positions takes "
            "{r.unchanged.unseen} of {r.pairs} rotary pairs to angles never seen in training.",
            "With {r.nearest.setting} none do, and the cosine to the trained rotation "
            "{r.nearest_falls}. Evaluate the model to see how well it works.",
        ),
        "further scaling needed": Verdict(
            "With the model's {r.present_setting}, going from {r.trained} to {r.length:,} "
            "positions takes {r.unchanged.unseen} of {r.pairs} rotary pairs to angles never seen "
            "in training.",
            "With {r.nearest.setting} none do, and the cosine to the trained rotation "
            "{r.nearest_falls}. Evaluate the model to see how well it works.",
        ),
        "no scaling suffices": Verdict(
            "Unchanged, going from {r.trained} to {r.length:,} positions takes "
            "{r.unchanged.unseen} of {r.pairs} rotary pairs to angles never seen in training. Of "
            "the scalings tried, {r.nearest.setting} takes the fewest: {r.nearest.unseen}.",
        ),
        "no scaling needed": Verdict(
            "Unchanged, going from {r.trained} to {r.length:,} positions keeps every rotary pair "
            "within the angles seen in training.",
            "Evaluate the model at that length.",
        ),
    }
    shown: ClassVar[dict[str, str]] = {
        "layers": "part",
        "trained length": "trained",
        "positions": "length",
        "window": "window",
    }
    listed: ClassVar[dict[str, dict[str, str]]] = {
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
    short: ClassVar[dict[str, tuple[str, ...]]] = {
        "shown": (
            "layers",
            "trained length",
            "positions",
        ),
        "candidates": (
            "scaling",
            "factor",
            "base",
            "unseen angles",
            "cosine < .99",
        ),
    }

    name: str  # the type of layer that is extended; empty for the whole model
    trained: int
    length: int
    d: int
    original: int  # positions before any scaling
    by_factor: bool  # whether `original` is the length over a factor, not stated
    window: int | None  # positions that a query sees in the extended layers; None for all
    trained_frequencies: Floats  # of the rotation before extension
    criteria: tuple[str, ...]
    candidates: tuple[Extension, ...]  # the first is the unchanged rotation
    best: dict[str, float | None]  # the base for each criterion

    @property
    def verdict(self) -> str:
        """Whether the unchanged rotation reaches angles never seen in training."""
        if not self.unchanged.unseen:
            return "no scaling needed"
        if self.nearest.unseen:
            return "no scaling suffices"
        return "scaling needed" if self.scaling == "none" else "further scaling needed"

    @property
    def scaling(self) -> str:
        """The kind of scaling of the rotation, or "none"."""
        return str(self.encodings[0].params["scaling"])

    @property
    def present_setting(self) -> str:
        """The present scaling with its factor, for use in a sentence."""
        factor = self.encodings[0].params.get("factor")
        stated = "" if factor is None else f" (factor {number(factor, FACTOR_DIGITS)})"
        return f"{self.scaling} scaling{stated}"

    @property
    def unchanged(self) -> Extension:
        """The unchanged rotation at the new length."""
        return self.candidates[0]

    @property
    def scaled(self) -> tuple[Extension, ...]:
        """The ways that change the rotation."""
        return self.candidates[1:]

    @property
    def nearest(self) -> Extension:
        """The way with the fewest unseen angles; ties go to the largest cosines."""
        return min(self.scaled, key=lambda e: (e.unseen, *(-(p or inf) for p in e.below.values())))

    @property
    def nearest_falls(self) -> str:
        """Where the cosine of the nearest way first falls below 0.99 within the trained length."""
        position = self.nearest.below_99
        if position is None:
            return f"stays at 0.99 or above at all positions below {self.trained}"
        return f"first falls below 0.99 at position {position}"

    @property
    def part(self) -> str | None:
        """The type of layer; None for the whole model."""
        return self.name or None

    @property
    def pairs(self) -> int:
        """Number of rotated pairs."""
        return sum(band.pairs for band in self.unchanged.bands)

    def series(self) -> tuple[list[str], list[list[Any]]]:
        """Column names for CSV, and one row for each way."""
        shared = [name for name in labelled_fields(Candidate) if name != "spec"]
        measured = ["factor", "attention_factor", "band_counts", "unseen", "below_99", "below_90"]
        return csv_table(self.candidates, ["spec", "way", *shared, *measured])

    @property
    def findings(self) -> list[Finding]:
        """Report both readings of a config that does not state the length before scaling."""
        if not self.by_factor:
            return []
        factor = self.encodings[0].params["factor"]
        lengths = {"before": self.trained / factor, "reach": self.trained * factor}
        slots = {k: number(v, FACTOR_DIGITS) for k, v in (lengths | {"factor": factor}).items()}
        return [finding("original-by-factor", trained=self.trained, **slots)]

    @classmethod
    def draw(cls, answers: Sequence[Answer], look: Look) -> Figure:
        """Draw the wavelengths of each scaling, and cosines to the trained rotation."""
        from pefourier.report.rotation_figures import extension

        return extension(answers, look)


def extend(
    spec: str | os.PathLike[str],
    to: int | str,
    *,
    trained: int | str | None = None,
    d: int | str | None = None,
    criteria: Sequence[str] = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
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
        ``turns``, ``bound``, ``wavelength=K`` or ``phase=E``: each gives a base, which is tried
        without a scaling.
    bases : sequence of float
        Further bases to try without a scaling.
    dtype : str, optional
        A format of `pefourier.geometry.precision.FORMATS` to which vectors are rounded.

    Examples
    --------
    >>> {e.way: e.unseen for e in extend("rope:rho=1e6", 131072, trained=32768, d=128).candidates}
    {'unchanged': 24, 'linear': 0, 'ntk': 23, 'yarn': 0, 'llama3': 0}
    """
    length, trained, d = whole_numbers(to=to, trained=trained, d=d)
    length = length or 0
    spec = whole_layers(os.fspath(spec))
    model = describe_positions(spec, trained, d=d)
    source = as_rotation(load(spec, trained or model.stands_for, d))
    check_longer(source, trained, length)
    best = {name: exact_base(name, length, source.params["rotated"]) for name in criteria}
    original, window = length_before_scaling(source), model.widest_window()
    met = source if trained else rotation_met(source, model)
    trained = trained or len(source)
    rotations = {
        "unchanged": as_rotation(load(spec, length, d)),
        **{
            scaling: rescale(source, met, length, scaling, original)
            for scaling in scalings_of(source)
        },
    }
    tried = dict.fromkeys([*filter(None, best.values()), *bases])
    unscaled = (("base", rebuilt(source, length, rho, "none", {})) for rho in tried)
    pairs = (*rotations.items(), *unscaled)
    form = FORMATS[dtype] if dtype else None
    return Extensions(
        name=split_spec(spec)[1],
        trained=trained,
        length=length,
        d=source.params["d"],
        original=original,
        by_factor=original != trained and not trained_as_stated(source.params),
        window=window,
        trained_frequencies=met.measure.frequencies,
        criteria=tuple(criteria),
        candidates=tuple(describe_extension(met, *pair, form, window) for pair in pairs),
        best=best,
        encodings=(replace(source, params={**source.params, "to": length, "dtype": dtype}),),
    )


def scalings_of(source: Encoding) -> tuple[str, ...]:
    """Names of the scalings to try."""
    return ("proportional",) if source.params["scaling"] == "proportional" else WAYS


def rotation_met(source: ShiftInvariantEncoding, model: ModelPositions) -> ShiftInvariantEncoding:
    """Rotation used in training: before scaling, unless the config states a length with it."""
    before_scaling = trained_as_stated(source.params)
    if model.stated is not None or not before_scaling:
        return source
    return rebuilt(source, int(before_scaling), plain_base(source), "none", {})


def least_factor(
    source: ShiftInvariantEncoding, length: int, met: ShiftInvariantEncoding | None = None
) -> float:
    """Smallest divisor of the unscaled frequencies with which no pair reaches new angles.

    `met` is the rotation in training, by default the source. The factor has more digits than
    `count_unseen` distinguishes. If all pairs complete a full rotation in training, any factor
    works, and the ratio of the lengths is returned.

    >>> least_factor(load("rope:d=128,scaling=yarn,factor=4,original=32768", 2**17), 2**18)
    8.0
    """
    kind = "proportional" if source.params["scaling"] == "proportional" else "none"
    plain = rebuilt(source, length, plain_base(source), kind, {}).measure.frequencies
    met = met or source
    trained = met.measure.frequencies
    short = (trained > 0) & (trained * len(met) < 2 * pi)
    ratio = (plain[short] / trained[short]).max(initial=0.0) or 1.0
    return float(f"{ratio * length / len(met):.{FACTOR_DIGITS}g}")


def geometric_base(enc: ShiftInvariantEncoding) -> float:
    """Base of the frequencies; if they are not geometric, the base in the parameters.

    >>> geometric_base(load("rope:d=128,scaling=ntk,factor=4"))
    40889.94
    """
    frequencies = enc.measure.frequencies
    if base_of(frequencies) is None:
        rho: float = enc.params["rho"]
        return rho
    base = frequencies[-1] ** (len(frequencies) / (1 - len(frequencies)))
    return float(f"{base:.{BASE_DIGITS}g}")


def rescale(
    source: ShiftInvariantEncoding,
    met: ShiftInvariantEncoding,
    length: int,
    scaling: str,
    original: int,
) -> ShiftInvariantEncoding:
    """Scale a rotation to a length; settings of the same kind of scaling are kept."""
    usual = scaling_parameters(scaling) if source.params["scaling"] == scaling else {}
    settings_kept = {
        key: source.params[key]
        for key, parameter in usual.items()
        if key != "attention_factor" and source.params[key] != parameter.default
    }
    settings = settings_kept | {"factor": least_factor(source, length, met)}
    if "original" in scaling_parameters(scaling):
        settings |= {"original": original}
    return rebuilt(source, length, plain_base(source), scaling, settings)


def rebuilt(
    source: Encoding, length: int, rho: float, scaling: str, settings: dict[str, Any]
) -> ShiftInvariantEncoding:
    """Build the rotation again with a different base or scaling."""
    usual = {"partial": 1.0, "layout": "halves"}
    shared = {key: source.params[key] for key in usual}
    d = source.params["d"]
    enc = build_rope(length=length, d=d, rho=rho, scaling=scaling, **shared, **settings)
    params = {key: value for key, value in shared.items() if value != usual[key]}
    params |= ({} if scaling == "none" else {"scaling": scaling}) | settings
    entries = {"rho": enc.params["rho"], **params, "d": d}
    return replace(enc, spec="rope:" + ",".join(f"{k}={spelled(v)}" for k, v in entries.items()))


def spelled(value: Any) -> str:
    """Format a value as typed, with all digits of a number.

    >>> spelled(4.0), spelled(1e6), spelled(0.25), spelled("halves")
    ('4', '1000000', '0.25', 'halves')
    """
    is_whole = isinstance(value, float) and value == int(value) and abs(value) < 1e15
    return str(int(value) if is_whole else value)


def whole_layers(spec: str) -> str:
    """Return the SPEC; if layer types differ, that of the layers without a window."""
    if source_of(spec) != "config" or split_spec(spec)[1]:
        return spec
    model = open_model(spec)
    runs = [run for run in model.layers if run.kind == "rotary"]
    parts = list(dict.fromkeys(run.part for run in runs if run.part and run.window is None))
    several = len({run.part for run in runs}) > 1
    return model.of_layer(parts[0]).spec if several and len(parts) == 1 else spec


def as_rotation(enc: Encoding) -> ShiftInvariantEncoding:
    """Return a rotation of pairs with a base; raise an error for any other encoding."""
    is_scalable = enc.injection == "rotate" and "scaling" in enc.params
    if isinstance(enc, ShiftInvariantEncoding) and is_scalable and enc.params["rho"] is not None:
        return enc
    raise PefourierError(
        f"{shown(enc.spec)} is not a rotation with a base; pass a model's config to --extend-from, "
        "or a rotation such as rope:rho=1e6"
    )


def check_longer(enc: Encoding, trained: int | None, length: int) -> None:
    """Raise an error if the trained length is missing or not below the new length."""
    if trained is None and source_of(enc.spec) == "name":
        raise PefourierError(
            f"{shown(enc.spec)} does not state its trained length; pass it, for example as "
            "--length 8192"
        )
    if length <= (trained or len(enc)):
        raise PefourierError(
            f"{shown(enc.spec)} covers {trained or len(enc)} positions; the new length must be "
            f"longer, got {length}"
        )


def length_before_scaling(enc: Encoding) -> int:
    """Length before any scaling: as the scaling states, or the length over its factor."""
    params = enc.params
    interpolated = params["factor"] if params["scaling"] in ("linear", "proportional") else 1.0
    original = int(trained_as_stated(params) or round(len(enc) / interpolated))
    check_count(f"{len(enc)} positions over the factor {interpolated:g}", original)
    return original


def plain_base(enc: Encoding) -> float:
    """Base of a rotation; ntk scaling only changes the base."""
    params = enc.params
    rho: float = params["rho"]
    if params["scaling"] == "ntk":
        rho *= params["factor"] ** (params["rotated"] / (params["rotated"] - 2))
    return rho


def describe_extension(
    source: ShiftInvariantEncoding,
    scaling: str,
    enc: ShiftInvariantEncoding,
    form: Format | None,
    window: int | None,
) -> Extension:
    """Describe one way at a length, with queries limited to a window."""
    trained, new = source.measure.frequencies, enc.measure.frequencies
    lengths, lags = (len(source), len(enc)), window_within(window, len(enc))
    points = np.array([p for p in SHOWN if p < len(source)] or [len(source) - 1])
    cosines = reading_cosine(trained, new, points).tolist()
    return Extension(
        way=scaling,
        factor=enc.params.get("factor", 1.0) if scaling == enc.params["scaling"] else 1.0,
        **(fields_of(candidate(enc, len(enc), form)) | {"rho": geometric_base(enc)}),
        attention_factor=enc.params["attention_factor"],
        bands=tuple(bands(new, trained, *lengths)),
        unseen=count_unseen(new, trained, len(source), lags or len(enc)),
        cosine=tuple(zip(points.tolist(), cosines, strict=True)),
        below=positions_below(trained, new, len(source)),
        frequencies=new,
    )
