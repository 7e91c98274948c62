r"""Which scaling takes a rotation to a longer context? Each with what it does to the trained one.

Conventions
-----------
The rotation as it was trained, with the scaling that its config has, stands for `trained`
positions; an extension is for `length` of them. The factor of a scaling is the length over the
original one, that before any scaling, so that the slowest pairs stay within phases that were met
there. `cosine` is that between the codes of a position in both rotations (1: as trained).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np

from pefourier.encodings import build, load
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.axes import axis_letters
from pefourier.encodings.families.rotary import base_of, scaling_parameters
from pefourier.encodings.findings import finding
from pefourier.encodings.model_positions import layer_runs, window_of_rotation
from pefourier.encodings.readings import positions_below, reading_cosine
from pefourier.encodings.sources.rope_config import trained_as_stated
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FORMATS, Format
from pefourier.questions.design import Candidate, GridSpec, candidate, exact_base
from pefourier.questions.rotations import (
    Band,
    bands,
    count_unseen,
    window_within,
)
from pefourier.result import Result
from pefourier.writing.page import fields_of, fields_told

SHOWN = (128, 1024, 4096, 32768, 131072, 2**20)  # positions at which cosines are told
WAYS = ("linear", "ntk", "yarn", "llama3")
SHARED = ("proportional",)  # of p-RoPE, whose slowest pairs do not turn


@dataclass(frozen=True)
class Extension(Candidate):
    """One way to a longer context, and what it does."""

    way: str  # unchanged, a scaling, or base: another base without a scaling
    factor: float  # of that scaling, else 1
    attention_factor: float
    bands: tuple[Band, ...]  # kept, blended, stretched: compared with the rotation as trained
    unseen: int  # pairs that meet phases that the rotation as trained never met
    cosine: tuple[tuple[int, float], ...]  # position, cosine to the rotation as trained
    below: dict[str, int | None]  # first position at which that falls below .99, .9 and .5
    frequencies: np.ndarray  # radians per position

    @property
    def name(self) -> str:
        """The way in words."""
        return f"base {self.rho:.6g}" if self.way == "base" else self.way

    @property
    def band_counts(self) -> str:
        """How many pairs are kept, blended and stretched; what is the same is kept."""
        count = {band.treatment: band.pairs for band in self.bands}
        unchanged = count.get("kept", 0) + count.get("same", 0)
        return f"{unchanged}/{count.get('blended', 0)}/{count.get('stretched', 0)}"

    @property
    def first_falls(self) -> list[float]:
        """Positions at which the cosine falls below each level; infinite where it does not."""
        return [inf if position is None else position for position in self.below.values()]

    @property
    def below_99(self) -> int | None:
        """The first position at which the cosine is below .99."""
        return self.below[".99"]

    @property
    def below_90(self) -> int | None:
        """The first position at which the cosine is below .9."""
        return self.below[".9"]


@dataclass(frozen=True, repr=False)
class Extensions(Result):
    """The ways to a length, from what was trained."""

    shown: ClassVar[dict[str, str]] = {
        "layers, or axis": "part",
        "trained": "trained",
        "positions before scaling": "original",
        "positions": "length",
        "window": "window",
    }
    listed: ClassVar[dict[str, dict[str, str]]] = {
        "candidates": {
            "way": "name",
            "factor": "factor",
            "base": "rho",
            "times cosines": "attention_factor",
            "kept/blended/stretched": "band_counts",
            "unseen angles": "unseen",
            "sum < 0 from lag": "bound",
            "cosine < .99": "below_99",
            "< .9": "below_90",
        },
        "scaled": {"way": "name", "SPEC": "spec"},
        "whole_grid": {"by": "by", "whole grid": "spec"},
    }

    name: str  # the type of layer that is extended, or the axis of a grid; empty: the whole
    trained: int
    length: int
    d: int
    original: int  # positions before any scaling
    by_factor: bool  # whether those are the length over a factor, as no config says them
    window: int | None  # positions that a query sees in the layers that are extended; None: all
    windows: tuple[int, ...]  # those of other layers, which need no scaling
    trained_frequencies: np.ndarray  # of the rotation that is extended
    criteria: tuple[str, ...]
    candidates: tuple[Extension, ...]  # the first is the rotation unchanged
    best: dict[str, float | None]  # the base that a criterion asks for
    whole_grid: tuple[GridSpec, ...] = ()  # of a grid, on the first axis that is extended

    @property
    def verdict(self) -> str:
        """Whether the rotation unchanged meets angles that are new to it."""
        return "scaling needed" if self.unchanged.unseen else "no scaling needed"

    @property
    def unchanged(self) -> Extension:
        """The rotation as it is, at the new length."""
        return self.candidates[0]

    @property
    def scaled(self) -> tuple[Extension, ...]:
        """The ways that change it; of a grid the whole is told in place of each axis."""
        return self.candidates[1:] if "axis" not in self.about[0].params else ()

    @property
    def nearest(self) -> Extension:
        """Of the ways that leave the fewest new angles the one that stays near the longest."""
        ways = self.candidates[1:]
        fewest = min(extension.unseen for extension in ways)
        return max(
            (w for w in ways if w.unseen == fewest), key=lambda extension: extension.first_falls
        )

    @property
    def nearest_falls(self) -> str:
        """Where the cosine of that way first falls below .99."""
        position = self.nearest.below_99
        return "no position" if position is None else f"position {position}"

    @property
    def part(self) -> str | None:
        """The type of layer, or the axis of a grid; None: the whole."""
        return self.name or None

    @property
    def pairs(self) -> int:
        """Pairs that turn."""
        return sum(band.pairs for band in self.unchanged.bands)

    def series(self) -> tuple[list[str], list[list[Any]]]:
        """Names of the columns of CSV, and a row for each way."""
        shared = [name for name in fields_told(Candidate) if name != "spec"]
        measured = ["factor", "attention_factor", "band_counts", "unseen", "below_99", "below_90"]
        names = ["way", *shared, *measured]
        rows = [
            [extension.spec, *(getattr(extension, name) for name in names)]
            for extension in self.candidates
        ]
        return ["candidate", *names], rows

    @property
    def findings(self) -> list[Finding]:
        """What lengths rest on: windows, a factor without an original length, a presumed grid."""
        notes = [entry for entry in self.about[0].findings if entry.code == "grid-default"]
        if self.windows and self.unchanged.unseen:
            windows = " or ".join(map(str, self.windows))
            notes.append(finding("extension-windows", windows=windows))
        if self.by_factor:
            lengths = {"trained": self.trained, "original": self.original}
            notes.append(finding("original-by-factor", **lengths))
        return notes


def extend(
    spec: str,
    length: int,
    *,
    trained: int | None = None,
    d: int | None = None,
    criteria: Sequence[str] = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
) -> Extensions:
    """Ways to take a rotation to a length: linear, ntk, yarn and llama3, and bases alone.

    Parameters
    ----------
    spec : str
        A model's config, or ``rope`` with its parameters.
    length : int
        Positions that are wanted, more than were trained.
    trained : int, optional
        Positions that the rotation as it is stands for; default what the config allows.
    d : int, optional
        Head size; named rotations only.
    criteria : sequence of str
        ``turns``, ``bound`` or ``wavelength=K``: each asks for a base, which is tried without a
        scaling.
    bases : sequence of float
        Tried without a scaling, too.
    dtype : str, optional
        A format of `pefourier.geometry.precision.FORMATS` to which codes are rounded.

    Examples
    --------
    >>> {e.way: e.unseen for e in extend("rope:rho=1e6", 131072, trained=32768, d=128).candidates}
    {'unchanged': 24, 'linear': 0, 'ntk': 23, 'yarn': 0, 'llama3': 0}
    """
    every_layer, spec = spec, whole_layers(spec)
    source = load(spec, trained, d)
    check_extendable(source)
    best = {name: base_for(name, length, source) for name in criteria}
    original = length_before_scaling(source)
    trained = trained or trained_length(source)
    source = load(spec, trained, d)
    check_longer(source, trained, length)
    window = window_of_rotation(layer_runs(spec, d))
    turning = (run for run in layer_runs(every_layer, d) if run.kind == "rotary")
    windows = {run.window for run in turning} - {window, None}
    tried = [*(rho for rho in best.values() if rho is not None), *bases]
    form = FORMATS[dtype] if dtype else None
    ways = ways_to(source, length, original, load(spec, length, d), tried)
    return Extensions(
        name=spec.partition("#")[2],
        trained=trained,
        length=length,
        d=source.params["d"],
        original=original,
        by_factor=original != trained and not trained_as_stated(source.params),
        window=window,
        windows=tuple(sorted(width for width in windows if width <= trained)),
        trained_frequencies=source.measure.frequencies,
        criteria=tuple(criteria),
        candidates=tuple(describe_extension(source, *pair, form, window) for pair in ways),
        best=best,
        about=(replace(source, params=source.params | {"to": length, "dtype": dtype}),),
    )


def extend_on_grid(
    spec: str, sides: Sequence[int], trained: Sequence[int] = (), **options: Any
) -> tuple[Extensions, ...]:
    """Ways to take a rotation on axes to a larger grid, one for each axis that becomes longer.

    An axis is a rotation of its own: `extend` tells of it, by base and pairs, from its side in the
    SPEC or config, or of the grid `trained`, to the one that is wanted; `options` are as there.
    llama3 is not known on axes.

    >>> [(axis.name, axis.trained, axis.length, axis.d)
    ...     for axis in extend_on_grid("axial-rope:grid=64x64,d=64,rho=100", (128, 64))]
    [('y', 64, 128, 32)]
    """
    source = load(spec, grid=tuple(trained)) if trained else load(spec)
    before = source.domain.sides
    is_rotation = source.act == "rotate" and source.measure is not None
    if not is_rotation or len(before) < 2 or len(before) != len(sides):
        raise PefourierError(
            f"{shown(spec)} does not rotate on {len(sides)} axes; give one that does, with its "
            "grid of training, as in axial-rope:grid=64x64,d=128"
        )
    axes = []
    for letter, old, new, rho, pairs in zip(
        axis_letters(len(sides)), before, sides, *bases_of_axes(source), strict=True
    ):
        if new > old:
            axis = extend(f"rope:rho={rho!r}", new, trained=old, d=2 * pairs, **options)
            axes.append(as_axis(axis, source, letter, sides))
    if not axes:
        raise PefourierError(
            f"{shown(spec)} stands for {'x'.join(map(str, before))} points; an extension is to "
            f"more along an axis, got {'x'.join(map(str, sides))}"
        )
    grid = tuple(GridSpec(*pair) for pair in grid_specs(source, sides, axes).items())
    return replace(axes[0], whole_grid=grid), *axes[1:]


def as_axis(axis: Extensions, source: Encoding, letter: str, sides: Sequence[int]) -> Extensions:
    """The ways of a rotation as those of one axis of a grid, where llama3 is not known."""
    ways = tuple(extension for extension in axis.candidates if extension.way != "llama3")
    params = source.params | {"axis": letter, "grid": tuple(sides)}
    about = replace(source, spec=f"{source.spec} on axis {letter}", params=params)
    return replace(axis, name=letter, candidates=ways, about=(about,))


def bases_of_axes(source: Encoding) -> tuple[list[float], list[int]]:
    """The base and the pairs of each axis of a rotation; refused where an axis has no base."""
    turns = source.measure.frequencies != 0
    bases, pairs = [], []
    for axis, turning in enumerate(turns.T):
        on_axis = turning & (turns.sum(axis=1) == 1)
        frequencies = np.sort(source.measure.frequencies[on_axis, axis])[::-1]
        rho = base_of(frequencies) if (on_axis == turning).all() else None
        if rho is None:
            raise PefourierError(
                f"{shown(source.spec)} has an axis whose frequencies are no grid rho^(-i/n) over "
                "indices, which has no base to scale"
            )
        bases.append(rho)
        pairs.append(len(frequencies))
    return bases, pairs


def grid_specs(
    source: Encoding, sides: Sequence[int], axes: Sequence[Extensions]
) -> dict[str, str]:
    """The SPEC of the whole rotation by each way; none where it has a stretch already."""
    if source.params.get("stretch") or "order" not in source.params:
        return {}
    preset = {"d": source.dim, "convention": source.params["convention"]}
    usual = build(source.name, grid=source.domain.sides, **preset).params
    params = {key: v for key, v in source.params.items() if usual.get(key, v) != v}
    settings = [f"{key}={plainly(value)}" for key, value in (preset | params).items() if value]
    length = dict(zip(axis_letters(len(sides)), source.domain.sides, strict=True))
    factor = {axis.name: axis.length / axis.trained for axis in axes}
    order = source.params["order"]
    stretch = ";".join(plainly(factor.get(letter, 1.0)) for letter in order)
    trained = ";".join(str(length.get(letter, 1)) for letter in order)
    suffix = ",stretch_by="
    ways = {"linear": f"{suffix}linear", "ntk": "", "yarn": f"{suffix}yarn,trained={trained}"}
    start = f"{source.name}:{','.join([*settings, 'grid=' + 'x'.join(map(str, sides))])}"
    return {name: f"{start},stretch={stretch}{suffix}" for name, suffix in ways.items()}


def check_longer(source: Encoding, trained: int, length: int) -> None:
    """Refuse a length that a rotation stands for as it is."""
    if length <= trained:
        raise PefourierError(
            f"{shown(source.spec)} stands for {trained} positions; an extension is to more, got "
            f"{length}"
        )


def ways_to(
    source: Encoding, length: int, original: int, unchanged: Encoding, bases: Sequence[float]
) -> list[tuple[str, Encoding]]:
    """A rotation as it is, by the scalings that it can be given, and by bases alone."""
    ways = SHARED if source.params["scaling"] == "proportional" else WAYS
    return [
        ("unchanged", unchanged),
        *((scaling, rescale(source, length, scaling, original)) for scaling in ways),
        *(("base", rebuilt(source, length, rho, "none", {})) for rho in dict.fromkeys(bases)),
    ]


def rescale(source: Encoding, length: int, scaling: str, original: int) -> Encoding:
    """A rotation scaled to a length; where its own scaling is of that kind, its settings stay."""
    usual = scaling_parameters(scaling) if source.params["scaling"] == scaling else {}
    settings_kept = {
        key: source.params[key]
        for key, parameter in usual.items()
        if key != "attention_factor" and source.params[key] != parameter.default
    }
    settings = settings_kept | {"factor": length / original}
    if "original" in scaling_parameters(scaling):
        settings |= {"original": original}
    return rebuilt(source, length, plain_base(source), scaling, settings)


def rebuilt(source: Encoding, length: int, rho: float, scaling: str, settings: dict) -> Encoding:
    """A rotation with another base or scaling."""
    shared = {key: source.params[key] for key in ("d", "layout", "partial")}
    enc = build("rope", length=length, rho=rho, scaling=scaling, **shared, **settings)
    return replace(enc, spec=spec_of(enc, settings))


def whole_layers(spec: str) -> str:
    """The SPEC, of a model whose types of layers differ that of the layers without a window."""
    if source_of(spec) != "config" or "#" in spec:
        return spec
    from pefourier.encodings.sources.layers import read_layers

    runs = [run for run in read_layers(spec, "") if run.kind == "rotary"]
    parts = list(dict.fromkeys(run.part for run in runs if run.part and run.window is None))
    several = len({run.part for run in runs}) > 1
    return f"{spec}#{parts[0]}" if several and len(parts) == 1 else spec


def check_extendable(enc: Encoding) -> None:
    """Refuse what is no rotation at declared frequencies, and what has no base to scale."""
    if enc.act != "rotate" or enc.measure is None or "scaling" not in enc.params:
        raise PefourierError(
            f"{shown(enc.spec)} does not rotate pairs of dimensions; --extend-from takes a model's "
            "config or rope"
        )
    if enc.params["rho"] is None:
        raise PefourierError(
            f"{shown(enc.spec)} gives frequencies without a base; --extend-from needs one, as in "
            "rope:rho=1e6"
        )


def length_before_scaling(enc: Encoding) -> int:
    """Positions before any scaling: as the scaling says, or the length over its factor."""
    params = enc.params
    interpolated = params["factor"] if params["scaling"] in ("linear", "proportional") else 1.0
    return int(trained_as_stated(params) or round(len(enc) / interpolated))


def trained_length(source: Encoding) -> int:
    """Positions that a rotation stands for; refused where it has a name, which tells none."""
    if source_of(source.spec) == "name":
        raise PefourierError(
            f"{shown(source.spec)} does not say how many positions it was trained on; give them, "
            "as in --length 8k"
        )
    return len(source)


def plain_base(enc: Encoding) -> float:
    """The base of a rotation; one with ntk has another base and nothing else."""
    params = enc.params
    if params["scaling"] != "ntk":
        return params["rho"]
    return params["rho"] * params["factor"] ** (params["rotated"] / (params["rotated"] - 2))


def base_for(criterion: str, length: int, source: Encoding) -> float | None:
    """The base that a criterion asks for, of those that are a formula of the base alone."""
    if criterion.partition("=")[0] not in ("turns", "bound", "wavelength"):
        raise PefourierError(
            f"an extension is asked for turns, bound or wavelength=K, each a base; got "
            f"{shown(criterion)}"
        )
    return exact_base(criterion, length, source.params["rotated"])


def describe_extension(
    source: Encoding, scaling: str, enc: Encoding, form: Format | None, window: int | None
) -> Extension:
    """What one way does at a length, where queries see no farther than a window."""
    trained, new = source.measure.frequencies, enc.measure.frequencies
    lengths, lags = (len(source), len(enc)), window_within(window, len(enc))
    points = np.array([p for p in SHOWN if p < len(source)] or [len(source) - 1])
    cosines = reading_cosine(trained, new, points).tolist()
    return Extension(
        way=scaling,
        factor=enc.params.get("factor", 1.0) if scaling == enc.params["scaling"] else 1.0,
        **fields_of(candidate(enc, form)),
        attention_factor=enc.params["attention_factor"],
        bands=tuple(bands(new, trained, *lengths)),
        unseen=count_unseen(new, trained, len(source), lags or len(enc)),
        cosine=tuple(zip(points.tolist(), cosines, strict=True)),
        below=positions_below(trained, new, len(source)),
        frequencies=new,
    )


def spec_of(enc: Encoding, settings: dict[str, Any]) -> str:
    """A rotation as a SPEC."""
    usual = {"partial": 1.0, "layout": "halves", "scaling": "none"}
    params = {key: enc.params[key] for key in usual if enc.params[key] != usual[key]}
    entries = {"rho": enc.params["rho"], **params, **settings, "d": enc.params["d"]}
    return "rope:" + ",".join(f"{key}={plainly(value)}" for key, value in entries.items())


def plainly(value: Any) -> str:
    """A number as it is typed, in all of its digits, or several.

    >>> plainly(4.0), plainly(1e6), plainly(0.25), plainly((2.0, 3.0))
    ('4', '1000000', '0.25', '2;3')
    """
    if isinstance(value, tuple):
        return ";".join(map(plainly, value))
    is_whole = isinstance(value, float) and value == int(value) and abs(value) < 1e15
    return str(int(value) if is_whole else value)
