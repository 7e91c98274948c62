r"""Which scaling takes a rotation to a longer context? Each with what it does to the trained one.

Conventions
-----------
The rotation as it was trained, with the scaling that its config has, stands for `trained`
positions; an extension is for `length` of them. The factor of a scaling is the length over the
original one, that before any scaling, so that the slowest pairs stay within phases that were met
there. `cosine` is that between the codes of a position in both rotations (1: as trained).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from pefourier.analysis.context import (
    Band,
    bands,
    count_unseen,
    frequencies_before_scaling,
    window_within,
)
from pefourier.analysis.design import Candidate, candidate, exact_base
from pefourier.encodings import build, load
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.axes import axis_letters
from pefourier.encodings.families.rotary import base_of, scaling_parameters
from pefourier.encodings.model_positions import layer_runs, window_of_rotation
from pefourier.encodings.readings import positions_below, reading_cosine
from pefourier.encodings.sources.rope_config import trained_as_stated
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FORMATS, Format
from pefourier.result import Result
from pefourier.writing.page import fields_of

SHOWN = (128, 1024, 4096, 32768, 131072, 2**20)  # positions at which cosines are told


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
    config: dict[str, Any] | None  # keys to set in config.json; None where it cannot state this


@dataclass(frozen=True, repr=False)
class Extensions(Result):
    """The ways to a length, from what was trained."""

    of_none: ClassVar[bool] = True
    spec: str
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
    candidates: tuple[Extension, ...]
    best: dict[str, float | None]  # the base that a criterion asks for
    params: dict[str, Any] = field(default_factory=dict, metadata={"told": ""})  # what was asked


WAYS = ("linear", "ntk", "yarn", "llama3")
SHARED = ("proportional",)  # of p-RoPE, whose slowest pairs do not turn


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
    >>> found = extend("rope:rho=1e6", 131072, trained=32768, d=128)
    >>> {e.way: e.unseen for e in found.candidates}
    {'unchanged': 24, 'linear': 0, 'ntk': 23, 'yarn': 0, 'llama3': 0}
    """
    asked_for, spec = spec, whole_layers(spec)
    own = load(spec, trained, d)
    check_extendable(own)
    asked = {name: base_for(name, length, own) for name in criteria}
    before = length_before_scaling(own)
    stands = trained or trained_length(own)
    own = load(spec, stands, d)
    check_longer(own, stands, length, before)
    window = window_of_rotation(layer_runs(spec, d))
    turning = (run for run in layer_runs(asked_for, d) if run.kind == "rotary")
    windows = {run.window for run in turning} - {window, None}
    others = [*(rho for rho in asked.values() if rho is not None), *bases]
    form = FORMATS[dtype] if dtype else None
    wanted = ways_to(own, length, before, load(spec, length, d), others)
    return Extensions(
        spec=spec,
        name=spec.partition("#")[2],
        trained=stands,
        length=length,
        d=own.params["d"],
        original=before,
        by_factor=before != stands and not trained_as_stated(own.params),
        window=window,
        windows=tuple(sorted(one for one in windows if one <= stands)),
        trained_frequencies=own.measure.frequencies,
        criteria=tuple(criteria),
        candidates=tuple(describe_extension(own, *way, form, window) for way in wanted),
        best=asked,
    )


def extend_on_grid(
    spec: str, sides: Sequence[int], trained: Sequence[int] = (), **asked: Any
) -> tuple[Extensions, ...]:
    """Ways to take a rotation on axes to a larger grid, one for each axis that becomes longer.

    An axis is a rotation of its own: `extend` tells of it, by base and pairs, from its side in the
    SPEC or config, or of the grid `trained`, to the one that is wanted; `asked` is as there.
    llama3 is not known on axes.

    >>> found = extend_on_grid("axial-rope:grid=64x64,d=64,rho=100", (128, 64))
    >>> [(one.name, one.trained, one.length, one.d) for one in found]
    [('y', 64, 128, 32)]
    """
    own = load_on_grid(spec, trained)
    before = own.domain.sides
    if own.act != "rotate" or own.measure is None or len(before) < 2 or len(before) != len(sides):
        raise PefourierError(
            f"{shown(spec)} does not rotate on {len(sides)} axes; give one that does, with its "
            "grid of training, as in axial-rope:grid=64x64,d=128"
        )
    found = []
    for name, old, new, rho, pairs in zip(
        axis_letters(len(sides)), before, sides, *bases_of_axes(own), strict=True
    ):
        if new > old:
            one = extend(f"rope:rho={rho!r}", new, trained=old, d=2 * pairs, **asked)
            ways = [replace(e, config=None) for e in one.candidates if e.way != "llama3"]
            found.append(replace(one, name=name, candidates=tuple(ways)))
    if not found:
        raise PefourierError(
            f"{shown(spec)} stands for {'x'.join(map(str, before))} points; an extension is to "
            f"more along an axis, got {'x'.join(map(str, sides))}"
        )
    return tuple(found)


def bases_of_axes(own: Encoding) -> tuple[list[float], list[int]]:
    """The base and the pairs of each axis of a rotation; refused where an axis has no base."""
    own_axis = own.measure.frequencies != 0
    bases, pairs = [], []
    for axis, turning in enumerate(own_axis.T):
        alone = turning & (own_axis.sum(axis=1) == 1)
        frequencies = np.sort(own.measure.frequencies[alone, axis])[::-1]
        rho = base_of(frequencies) if (alone == turning).all() else None
        if rho is None:
            raise PefourierError(
                f"{shown(own.spec)} has an axis whose frequencies are no grid rho^(-i/n) over "
                "indices, which has no base to scale"
            )
        bases.append(rho)
        pairs.append(len(frequencies))
    return bases, pairs


def load_on_grid(spec: str, trained: Sequence[int]) -> Encoding:
    """A rotation on its grid of training: the one that is given, or its own."""
    return load(spec, grid=tuple(trained)) if trained else load(spec)


def grid_specs(
    spec: str, sides: Sequence[int], founds: Sequence[Extensions], trained: Sequence[int] = ()
) -> dict[str, str]:
    """The SPEC of the whole rotation by each way; none where it has a stretch already."""
    own = load_on_grid(spec, trained)
    if own.params.get("stretch") or "order" not in own.params:
        return {}
    preset = {"d": own.dim, "convention": own.params["convention"]}
    usual = build(own.name, grid=own.domain.sides, **preset).params
    given = {key: value for key, value in own.params.items() if usual.get(key, value) != value}
    kept = [f"{key}={plainly(value)}" for key, value in (preset | given).items() if value]
    length = dict(zip(axis_letters(len(sides)), own.domain.sides, strict=True))
    factor = {one.name: one.length / one.trained for one in founds}
    order = own.params["order"]
    stretch = ";".join(plainly(factor.get(letter, 1.0)) for letter in order)
    trained = ";".join(str(length.get(letter, 1)) for letter in order)
    by = ",stretch_by="
    ways = {"linear": f"{by}linear", "ntk": "", "yarn": f"{by}yarn,trained={trained}"}
    start = f"{own.name}:{','.join([*kept, 'grid=' + 'x'.join(map(str, sides))])}"
    return {way: f"{start},stretch={stretch}{more}" for way, more in ways.items()}


def presumed_grid(spec: str) -> tuple[int, ...]:
    """The grid that training is taken to have had, where a config states none; else ()."""
    own = load(spec)
    return own.domain.sides if any(f.code == "grid-default" for f in own.findings) else ()


def check_longer(own: Encoding, stands: int, length: int, before: int) -> None:
    """Refuse a length that a rotation stands for as it is."""
    if length <= stands:
        raise PefourierError(
            f"{shown(own.spec)} stands for {stands} positions; an extension is to more, got "
            f"{length}{other_way(own, before, length)}"
        )


def ways_to(
    own: Encoding, length: int, before: int, unchanged: Encoding, bases: Sequence[float]
) -> list[tuple[str, Encoding]]:
    """A rotation as it is, by the scalings that it can be given, and by bases alone."""
    ways = SHARED if own.params["scaling"] == "proportional" else WAYS
    return [
        ("unchanged", unchanged),
        *((way, rescale(own, length, way, before)) for way in ways),
        *(("base", rebuilt(own, length, rho, "none", {})) for rho in dict.fromkeys(bases)),
    ]


def rescale(own: Encoding, length: int, way: str, original: int) -> Encoding:
    """A rotation scaled to a length; where its own scaling is of that kind, its settings stay."""
    usual = scaling_parameters(way) if own.params["scaling"] == way else {}
    kept = {
        key: own.params[key]
        for key, one in usual.items()
        if key != "attention_factor" and own.params[key] != one.default
    }
    taken = kept | {"factor": length / original}
    if "original" in scaling_parameters(way):
        taken |= {"original": original}
    return rebuilt(own, length, plain_base(own), way, taken)


def rebuilt(own: Encoding, length: int, rho: float, scaling: str, taken: dict) -> Encoding:
    """A rotation with another base or scaling."""
    same = {key: own.params[key] for key in ("d", "layout", "partial")}
    enc = build("rope", length=length, rho=rho, scaling=scaling, **same, **taken)
    return replace(enc, spec=spec_of(enc, taken))


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


def trained_length(own: Encoding) -> int:
    """Positions that a rotation stands for; refused where it has a name, which tells none."""
    if source_of(own.spec) == "name":
        raise PefourierError(
            f"{shown(own.spec)} does not say how many positions it was trained on; give them, as "
            "in --length 8k"
        )
    return len(own)


def other_way(own: Encoding, original: int, length: int) -> str:
    """How another scaling is asked for, where a config's own has brought it to its length."""
    scaling = own.params["scaling"]
    if scaling == "none" or not original < min(length, len(own)):
        return ""
    plain = rebuilt(own, original, plain_base(own), "none", {})
    by = "" if trained_as_stated(own.params) else ", by its factor"
    return (
        f"; its scaling ({scaling}) took it there from {original}{by}: for another from there on, "
        f"give --extend-from {plain.spec} --length {original}"
    )


def plain_base(enc: Encoding) -> float:
    """The base of a rotation; one with ntk has another base and nothing else."""
    params = enc.params
    if params["scaling"] != "ntk":
        return params["rho"]
    return params["rho"] * params["factor"] ** (params["rotated"] / (params["rotated"] - 2))


def base_for(criterion: str, length: int, own: Encoding) -> float | None:
    """The base that a criterion asks for, of those that are a formula of the base alone."""
    if criterion.partition("=")[0] not in ("turns", "bound", "wavelength"):
        raise PefourierError(
            f"an extension is asked for turns, bound or wavelength=K, each a base; got "
            f"{shown(criterion)}"
        )
    return exact_base(criterion, length, own.params["rotated"])


def describe_extension(
    own: Encoding, way: str, enc: Encoding, form: Format | None, window: int | None
) -> Extension:
    """What one way does at a length, where queries see no farther than a window."""
    trained, new = own.measure.frequencies, enc.measure.frequencies
    lengths, seen = (len(own), len(enc)), window_within(window, len(enc))
    points = np.array([p for p in SHOWN if p < len(own)] or [len(own) - 1])
    cosines = reading_cosine(trained, new, points).tolist()
    return Extension(
        way=way,
        factor=enc.params.get("factor", 1.0) if way == enc.params["scaling"] else 1.0,
        **fields_of(candidate(enc, form)),
        attention_factor=enc.params["attention_factor"],
        bands=tuple(bands(new, trained, *lengths)),
        unseen=count_unseen(new, fastest_met(own), len(own), seen or len(enc)),
        cosine=tuple(zip(points.tolist(), cosines, strict=True)),
        below=positions_below(trained, new, len(own)),
        frequencies=new,
        config=config_lines(own, enc),
    )


def fastest_met(own: Encoding) -> np.ndarray:
    """Frequencies that reach the phases met in training, over the length of a rotation.

    A scaled rotation was trained without its scaling before, over the original length.
    """
    before = frequencies_before_scaling(own) * (length_before_scaling(own) / len(own))
    return np.maximum(own.measure.frequencies, before)


def spec_of(enc: Encoding, taken: dict[str, Any]) -> str:
    """A rotation as a SPEC."""
    usual = {"partial": 1.0, "layout": "halves", "scaling": "none"}
    params = {key: enc.params[key] for key in usual if enc.params[key] != usual[key]}
    told = {"rho": enc.params["rho"], **params, **taken, "d": enc.params["d"]}
    return "rope:" + ",".join(f"{key}={plainly(value)}" for key, value in told.items())


def plainly(value: Any) -> str:
    """A number as it is typed, in all of its digits, or several.

    >>> plainly(4.0), plainly(1e6), plainly(0.25), plainly((2.0, 3.0))
    ('4', '1000000', '0.25', '2;3')
    """
    if isinstance(value, tuple):
        return ";".join(map(plainly, value))
    whole = isinstance(value, float) and value == int(value) and abs(value) < 1e15
    return str(int(value) if whole else value)


def config_lines(own: Encoding, enc: Encoding) -> dict[str, Any] | None:
    """What to set in the config that the rotation came from, or in any for a named one."""
    from pefourier.encodings.sources import rewrite

    if source_of(own.spec) == "config":
        return rewrite.lines_for(own.spec, enc)
    return {"rope_parameters": rewrite.as_section(enc), "max_position_embeddings": len(enc)}
