r"""How far does a rotation reach, and what does another reading of it cost?

Conventions
-----------
A rotation turns pair i of a head by :math:`p\,\omega_i` at position p; :math:`\omega_i` is in
radians per position. A head has `pairs` of dimensions, of which those without a frequency, or with
frequency 0, do not turn. `trained` is the number of positions of training, `length` the number
asked for. A turn is 2 pi. Everything here is a closed form or a scan of whole positions.

`base_bound`, `critical_dimension`, `decay_bound` and `cache_phase_errors` are single formulas;
`describe_rotation` puts them together for one encoding. What another reading costs is in
`pefourier.encodings.readings`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log, pi
from typing import Any, Literal

import numpy as np

from pefourier.analysis.faithful import lost_codes
from pefourier.analysis.operators import columns_that_turn
from pefourier.encodings import build, load
from pefourier.encodings.checks import check_cost
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.rotary import rotation_of, scaling_parameters
from pefourier.encodings.readings import (
    FARTHEST,
    first_below,
    layouts_apart,
    levels_below,
    readings_apart,
)
from pefourier.encodings.sections import AXES
from pefourier.encodings.sources.config import ModelConfig
from pefourier.encodings.sources.layers import LayerRun, layer_spec, open_model, read_layers
from pefourier.encodings.sources.mrope import axis_in
from pefourier.encodings.sources.rope_config import INDEXER, PAIRED, rotates, trained_as_stated
from pefourier.encodings.sources.schedule import lint_layers
from pefourier.encodings.sources.temperature import Temperature, read_temperature
from pefourier.encodings.sources.weights import (
    TENSOR,
    first_row,
    has_no_table,
    tensors_beside,
    untrained_distances,
)
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown, unknown
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.precision import FormatLoss, check_formats, format_losses
from pefourier.result import Result

RATIO_SLACK = 1e-9  # relative, within which two frequencies are one
FORMATS_OF_PHASES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Band:
    """Pairs that a scaling treats alike."""

    treatment: Literal["kept", "blended", "stretched", "same"] = field(
        metadata={"told": "class"}  # same: there is no scaling
    )
    pairs: int
    first_pair: int  # its fastest pair, of all that a head has, counted from 0
    last_pair: int  # its slowest; all between are of the band, unless each has a factor of its own
    least_divisor: float  # of frequencies, by which the scaling divides them: of its fastest pair
    largest_divisor: float
    shortest_wavelength: float | None  # positions, with the scaling; None: a pair does not turn
    longest_wavelength: float | None
    turns_trained: float  # of the slowest pair over the positions of training, as trained
    turns: float  # of the slowest pair over the length asked for


@dataclass(frozen=True)
class CacheLoss:
    """Keys in a cache, each rotated when it was the last, where frequencies grow with the length.

    A prompt that is computed at once has them all from one length, and no error.
    """

    query: int  # the last position, whose frequencies a consistent rotation would have
    keys: tuple[int, ...]  # positions
    errors: tuple[float, ...]  # of their phases against that rotation: the largest of a pair, rad
    cosines: tuple[float, ...]  # between the keys and those of that rotation


@dataclass(frozen=True)
class Rotation:
    """What is known of one rotation at a length."""

    name: str  # the type of layer, or empty
    pairs: int  # of a head
    rotated: int  # pairs that turn
    base: float | None  # None where frequencies are given that lie on no geometric grid
    scaling: str
    pairing: str | None  # of rows of a head: halves, neighbours; None: by axes
    attention_factor: float  # multiplies cosines and sines
    softmax_factor: float  # multiplies the logits beyond that
    bands: tuple[Band, ...]
    bound: int | None  # first lag m with B(m) < 0 over rotated pairs; None: not below 2^20
    critical_dimension: int | None  # None without a base
    decay: tuple[tuple[int, float], ...]  # lag, RoFormer's bound on the score, of pairs that turn
    cache: CacheLoss | None  # None where frequencies are the same at all lengths
    idle: int  # rotated pairs that never complete a turn within the length
    unseen: int  # pairs that meet phases which training never met
    familiar_length: int | None  # the longest at which no pair does; None: any, or not one for all
    window: int | None  # positions that a query sees in its layers; None: all
    frequencies: np.ndarray  # (rotated pairs,) radians per position
    trained_frequencies: np.ndarray  # the same without the scaling
    precision: dict[str, FormatLoss]
    partners: np.ndarray = field(metadata={"told": False})  # (rotated pairs, 2) rows of a head
    axes: dict[str, tuple[int, ...]] | None = None  # of an image's frames, rows, columns: pairs
    scaling_parameters: dict[str, Any] = field(default_factory=dict)  # as `rope` takes them


@dataclass(frozen=True)
class Layers:
    """Layers of a model that are alike."""

    index: tuple[int, ...]  # empty where their number is not known, or there is no model
    kind: str  # rotary, none, learned, sinusoidal, alibi, t5, …
    rotation: int | None  # which of the context's rotations
    window: int | None  # positions that a query sees; None: all


@dataclass(frozen=True)
class Reading:
    """What is left where a rotation is read as another one."""

    other: str
    rotation: str  # the type of layer that is misread, of several the one it costs most
    positions: np.ndarray = field(metadata={"told": ""})  # where the cosine is shown
    cosine: np.ndarray  # between the codes of the two readings, 1: the same
    below: dict[str, int | None]  # first position at which it falls below .99, .9 and .5
    logits: float  # how many times the meant ones, at every position: by factors of the readings


@dataclass(frozen=True, repr=False)
class Context(Result):
    """A model's positions as a whole, or those of one encoding."""

    layers: tuple[Layers, ...]
    rotations: tuple[Rotation, ...]
    trained: int
    length: int
    allowed: int | None  # positions that the config allows, with its scaling; None: there is none
    temperature: Temperature | None  # how queries grow with their position; None: they do not
    findings: tuple[Finding, ...]
    against: Reading | None = None  # another reading of the rotation, where one was asked for
    indexer: Rotation | None = None  # of what chooses keys, beside those of layers
    presumed: bool = field(default=False, metadata={"told": False})  # trained as the config allows
    given: bool = field(default=False, metadata={"told": False})  # trained as the user says
    silent: bool = field(default=False, metadata={"told": False})  # nothing says how long that was
    published: tuple[str, int] = field(default=("", 0), metadata={"told": False})  # `published_end`
    slopes: tuple[float, ...] | None = None  # of ALiBi, one a head: what a step takes from a logit
    tables: dict[str, tuple[str, int | None]] = field(  # that end, by side: what they are, rows
        default_factory=dict, metadata={"told": False}
    )


def describe_context(
    spec: str, length: int | None = None, trained: int | None = None, d: int | None = None
) -> tuple[list[Encoding], Context]:
    """The layers and rotations of a model's config, or of one encoding, over `length` positions.

    Returned with the encoding of each rotation, under the SPEC that names its type of layer, or of
    what positions there are. `length` is by default what the config allows with its scaling
    (`encodings.specs.standing_length`), `trained` the original length of a scaling, else the same.

    >>> _, found = describe_context("rope:rho=5e5", 131072, trained=8192, d=128)
    >>> found.rotations[0].unseen
    29
    """
    runs = layer_runs(spec, d)
    length = length or extended_length(spec, d)
    parts = list(dict.fromkeys(run.part for run in runs if run.kind == "rotary"))
    model = open_model(spec) if source_of(spec) == "config" else None
    endless = source_of(spec) == "name" or (model is not None and model.longest() is None)
    whole, own = load_parts(spec, parts, length, d, endless)
    stated = [trained_as_stated(enc.params) for enc in whole]
    met = trained or min(n or positions_of(enc) for n, enc in zip(stated, whole, strict=True))
    allowed = max(map(positions_of, whole))
    longest = length or allowed
    presumed = trained is None
    rotations = tuple(
        rotation_of_part(spec, part, runs, enc, met, longest, presumed)
        for enc, part in zip(own, parts, strict=False)
    )
    told = (f for enc in own for f in enc.findings if not (length and f.code == "length-default"))
    found = tuple(dict.fromkeys(told))
    turns = [parts.index(run.part) if run.kind == "rotary" else None for run in runs]
    alike = [Layers(one.index, one.kind, i, one.window) for i, one in zip(turns, runs, strict=True)]
    return own, Context(
        tuple(alike),
        rotations,
        int(met),
        longest,
        allowed if model else None,
        read_temperature(model, longest) if model else None,
        (*found, *lint_layers(model, runs, int(met))) if model else found,
        indexer=describe_indexer(model, spec, met, longest, d) if model and rotations else None,
        presumed=presumed and None in stated,
        given=not presumed,
        silent=presumed and None in stated and endless,
        published=published_end(model, whole) if model else ("", 0),
        slopes=slopes_of(own[0]),
        tables=model.tables() if model else {},
    )


def published_end(model: ModelConfig, rotations: Sequence[Encoding]) -> tuple[str, int]:
    """The model whose base and scaling a config has, and the length up to which it was trained."""
    for one in model.row.get("families", ()):
        own = {"rho": one["base"], **one.get("scaling", {})}
        if "ended" in one and any(own.items() <= {**enc.params}.items() for enc in rotations):
            return one["name"], one["ended"]
    return "", 0


def rotation_of_part(
    spec: str,
    part: str,
    runs: Sequence[LayerRun],
    enc: Encoding,
    trained: int,
    length: int,
    presumed: bool,
) -> Rotation:
    """The rotation of one type of layer, with the window of its layers and the axes of images."""
    found = describe_rotation(
        enc,
        trained,
        length,
        name=part,
        window=window_of_rotation(runs, part),
        scaled=presumed and not trained_as_stated(enc.params),
        still=still_dimensions(spec),
    )
    return replace(found, axes=pairs_by_axis(enc, spec))


def describe_indexer(
    model: ModelConfig, spec: str, trained: int, length: int, d: int | None
) -> Rotation | None:
    """The rotation of the part of a model that chooses keys; None where it has none."""
    if "indexer" not in model.row or model.part:
        return None
    enc = load(layer_spec(spec, INDEXER), length, d)
    return describe_rotation(enc, trained, length, name=INDEXER)


def extended_length(spec: str, d: int | None) -> int | None:
    """Positions up to which a name's scaling extends those of training; None where it has none.

    >>> extended_length("rope:scaling=yarn,factor=4,original=4096", 128)
    16384
    """
    params = load(spec, None, d).params if source_of(spec) == "name" else {}
    return round(params["original"] * params["factor"]) if params.get("original") else None


def load_parts(
    spec: str, parts: Sequence[str], length: int | None, d: int | None, endless: bool
) -> tuple[list[Encoding], list[Encoding]]:
    """The encoding of each rotation, or of what positions there are: as it is, and of a length.

    What is `endless` has no length itself.
    """
    if parts and length:  # before positions are numbered
        check_cost(shown(spec), "positions in narrow formats", length)
    own_length = length if endless else None
    whole = [load_layers(spec, part, own_length, d) for part in parts or [""]]
    own = [load_layers(spec, p, length, d) for p in parts] if length and parts else whole
    longest = length or max(map(positions_of, whole))
    if parts and longest != max(map(len, own)):
        own = [load_layers(spec, part, longest, d) for part in parts]
    for enc in own:
        check_formats(enc)
    return whole, own


def slopes_of(enc: Encoding) -> tuple[float, ...] | None:
    """What each head of ALiBi takes from a logit for each position of distance; None: no ALiBi.

    >>> slopes_of(load("alibi:d=4", 9))
    (0.25, 0.0625, 0.015625, 0.00390625)
    """
    return tuple((-enc.codes(np.array([-1]))[0]).tolist()) if enc.name == "alibi" else None


def positions_of(enc: Encoding) -> int:
    """Positions of an encoding; of one of lags those between which its farthest lag lies."""
    return int(np.abs(enc.domain.x).max()) + 1 if enc.domain.kind == "lag" else len(enc)


def window_of_rotation(runs: Sequence[LayerRun], part: str | None = None) -> int | None:
    """The most positions that a query of layers with a rotation sees; None where one sees all."""
    rotating = (run for run in runs if run.kind == "rotary" and part in (None, run.part))
    windows = [run.window for run in rotating]
    return None if None in windows else max(windows, default=None)


def pairs_by_axis(enc: Encoding, spec: str) -> dict[str, tuple[int, ...]] | None:
    """The pairs that turn by the frame, row and column of an image's token; None: all by one."""
    try:
        axis = axis_in(spec, enc)
    except PefourierError:  # sections that do not fit the pairs, of which there is a finding
        return None
    if axis is None:
        return None
    turning = enc.measure.frequencies != 0
    return {
        name: tuple(np.flatnonzero(turning & (axis == i)).tolist()) for i, name in enumerate(AXES)
    }


def still_dimensions(spec: str) -> int:
    """Dimensions of a head that a config keeps apart from those that turn, as DeepSeek's has."""
    if source_of(spec) != "config":
        return 0
    config = open_model(spec).config
    return (config.count("qk_nope_head_dim") or 0) if config.count("qk_rope_head_dim") else 0


def layer_runs(spec: str, d: int | None) -> list[LayerRun]:
    """Runs of layers of a config; of any other encoding one run without an index."""
    if source_of(spec) == "gguf":
        from pefourier.encodings.sources.gguf_file import layers_in

        return layers_in(spec)
    if source_of(spec) != "config":
        enc = load(spec, None, d)
        on_a_line = enc.act == "rotate" and len(enc.domain.sides) == 1
        return [LayerRun((), "rotary" if on_a_line else enc.name, "", None)]
    model = open_model(spec)
    usual = model.row.get("kind", "learned").split()[0]
    if usual == "rotary" or rotates(model):
        return read_layers(spec, usual)
    return read_layers(spec, load_layers(spec, "", None, d).name)


def load_layers(spec: str, part: str, length: int | None, d: int | None) -> Encoding:
    """The encoding of one type of layer, or of all."""
    return table_of_config(spec) or load(layer_spec(spec, part), length, d)


def table_of_config(spec: str) -> Encoding | None:
    """A table of learned positions as long as its config says, where the weights are not at hand.

    What its codes are is not known; of distances their buckets are. None for all else.
    """
    if source_of(spec) != "config":
        return None
    model = open_model(spec)
    if distances := untrained_distances(model):
        return replace(distances, spec=spec)
    row, longest = model.row, model.longest()
    way = model.config.values.get("position_embedding_type", "absolute")
    learned = row.get("kind", "").split()[:1] == ["learned"] and "axial" not in row
    learned = learned and not model.computes
    if not learned or has_no_table(model) or way != "absolute" or model.part or not longest:
        return None
    if tensors_beside(model, TENSOR):
        return None
    first = first_row(model)  # rows before the one of position 0, which a number stands for
    among = row.get("first") == "padding"
    length, rows = (max(longest - first, 1), longest) if among else (longest, longest + first)
    params = {"length": length, "rows": rows, "model_type": model.kind, "path": model.file}
    return replace(build("learned", length=length, d=1), spec=spec, params=params)


def lost_in_format(found: Context, dtype: str | None, strict: bool = False) -> list[str]:
    """Rotations whose codes are not all distinct in a format at the length, and what is safe.

    Where it is `strict`, errors and warnings, too.
    """
    faults = [f"has {f.code}" for f in found.findings if strict and f.severity != "note"]
    if not dtype:
        return faults
    if dtype.partition(":")[0] not in FORMATS_OF_PHASES:
        known = ", ".join(FORMATS_OF_PHASES)
        raise PefourierError(f"context tells {known}; ask check-faithful for {dtype}")
    return [
        f"{f'(in {r.name} layers) ' if r.name else ''}{words}"
        for r in found.rotations
        for words in lost_codes(r.precision, found.length, dtype)
    ] + faults


def base_bound(frequencies: np.ndarray, most: int = FARTHEST) -> int | None:
    r"""The first lag m with :math:`B(m) = \sum_i \cos m\omega_i < 0`, over the pairs that turn.

    Up to there a token like the query's is, on average over random heads, preferred to a random one
    (Men et al., 2024, arXiv 2405.14591), by what turns: dimensions that stand still add the same at
    every lag. Models are often used, and work, far beyond: it is a fact about a base, not a
    failure. None where B stays positive below `most`, and where nothing turns.

    >>> base_bound(10000.0 ** (-np.arange(64) / 64))
    1707
    """
    turning = frequencies[frequencies != 0]
    return first_below(turning, 0.0, most) if len(turning) else None


def head_bound(r: Rotation, length: int) -> int | None:
    """The first lag below a length at which the cosines of a whole head have a negative sum.

    Pairs that stand still add 1 each at every lag: with as many as turn the sum is never negative.
    """
    still = r.pairs - r.rotated
    return first_below(r.frequencies, -float(still), length) if still < r.rotated else None


def critical_dimension(d: int, base: float | None, length: int) -> int | None:
    r"""Dimensions whose wavelength fits the length: :math:`2\lceil (d/2)\log_b(L/2\pi)\rceil`.

    At most d, at least 0 (Liu et al., 2023, arXiv 2310.05209); None without a base.

    >>> critical_dimension(128, 10000.0, 4096)
    92
    """
    if base is None:
        return None
    if base <= 1 or length <= 2 * pi:
        return 0 if base > 1 else d
    return int(min(d, 2 * ceil(d / 2 * log(length / (2 * pi)) / log(base))))


def decay_bound(frequencies: np.ndarray, lags: np.ndarray) -> np.ndarray:
    r"""RoFormer's bound on how a score decays: the mean over i of :math:`|\sum_{j<i} e^{i m w_j}|`.

    Su et al., 2021, section 3.4.3; the sums run over 1, 2 … all pairs. Without pairs it is 0.

    >>> decay_bound(10000.0 ** (-np.arange(64) / 64), np.array([0, 1, 1000])).round(6)
    array([32.5     , 31.538166,  4.470761])
    """
    phases = np.multiply.outer(np.asarray(lags, dtype=float), frequencies)
    if not phases.shape[1]:
        return np.zeros(len(phases))
    return np.abs(np.cumsum(np.exp(1j * phases), axis=1)).mean(axis=1)


def decay_lags(length: int) -> np.ndarray:
    """Lags at which the bound is told: 0, powers of ten, and the last one of a length.

    >>> decay_lags(4096)
    array([   0,    1,   10,  100, 1000, 4095])
    """
    tens = 10 ** np.arange(len(str(length)))
    return np.unique([0, *tens[tens < length], length - 1])


def describe_rotation(
    enc: Encoding,
    trained: int | None = None,
    length: int | None = None,
    *,
    name: str = "",
    window: int | None = None,
    scaled: bool = False,
    still: int = 0,
) -> Rotation:
    """What is known of a rotary encoding over `length` positions (default: its own).

    Parameters
    ----------
    enc : Encoding
        ``rope`` by name, or of a model's config.
    trained : int, optional
        Positions of training; default the scaling's original length, else those of the encoding.
    window : int, optional
        Positions that a query sees, where that is not all: phases are those of lags, so that none
        beyond it is met.
    scaled : bool
        Whether training had the scaling already, as where a config only tells the longer length.
    still : int
        Dimensions of a head that do not turn, beside those of the encoding.

    Raises
    ------
    PefourierError
        For an encoding that does not turn pairs at declared frequencies.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> r = describe_rotation(load("rope:rho=5e5", 8192, 128), length=131072)
    >>> r.bound, r.unseen, r.idle, r.critical_dimension
    (18438, 29, 15, 70)
    """
    check_turning(enc)
    params = enc.params
    length = length or len(enc)
    trained = trained or trained_as_stated(params) or len(enc)
    own, plain = enc.measure.frequencies, frequencies_before_scaling(enc)
    head, turning, met = params["d"] + still, own != 0, own if scaled else plain
    lags, cache = decay_lags(length), cache_loss(enc, length)
    return Rotation(
        name=name,
        pairs=head // 2,
        rotated=int(turning.sum()),
        base=params["rho"],
        scaling=params["scaling"],
        pairing=PAIRED.get(params.get("layout")),
        attention_factor=params["attention_factor"],
        softmax_factor=params.get("softmax_factor", 1.0),
        bands=tuple(bands(own, plain, trained, length, met, params["scaling"] == "longrope")),
        bound=base_bound(own),
        critical_dimension=critical_dimension(2 * len(plain), params["rho"], trained),
        decay=tuple(zip(lags.tolist(), decay_bound(own[turning], lags).tolist(), strict=True)),
        cache=cache,
        idle=count_idle(own[turning], length),
        unseen=count_unseen(own, met, trained, window_within(window, length) or length),
        familiar_length=None if cache else longest_familiar(own, met, trained),
        window=window,
        frequencies=own[turning],
        trained_frequencies=plain[turning],
        precision=format_losses(enc, FORMATS_OF_PHASES, apart=closest_pair(enc).distance),
        partners=rows_of_a_head(enc, still)[turning],
        scaling_parameters=parameters_of_scaling(params),
    )


def parameters_of_scaling(params: Mapping[str, Any]) -> dict[str, Any]:
    """What a rotation's scaling was given, but the attention factor.

    >>> parameters_of_scaling({"scaling": "linear", "factor": 8.0, "original": None})
    {'factor': 8.0}
    """
    own = scaling_parameters(params["scaling"]).keys() - {"attention_factor"}
    return {key: params[key] for key in sorted(own) if params.get(key) is not None}


def rows_of_a_head(enc: Encoding, still: int) -> np.ndarray:
    """Rows of a head that turn together (pairs, 2), behind some that stand still."""
    before = (enc.params["d"] - enc.dim) * bool(enc.params.get("trailing"))
    return still + before + np.stack(columns_that_turn(enc), axis=1)


def check_turning(enc: Encoding) -> None:
    """Refuse what does not turn pairs at declared frequencies."""
    if enc.act != "rotate" or enc.measure is None or "scaling" not in enc.params:
        if "grid" in enc.params and not enc.domain.grid:
            more = "," if ":" in enc.spec else ":"
            raise PefourierError(
                f"{shown(enc.spec)} turns pairs by the axes of a grid; give its sides, as in "
                f"{shown(f'{enc.spec}{more}grid=14x14')}"
            )
        turns = "turns pairs of dimensions in a way of its own"
        what = turns if enc.act == "rotate" else "does not rotate pairs of dimensions"
        raise PefourierError(
            f"{shown(enc.spec)} {what}; context takes a model's config.json, or a rotation by "
            "declared frequencies, such as rope"
        )


def frequencies_before_scaling(enc: Encoding) -> np.ndarray:
    """Frequencies of the same rotation without its scaling: as before the context was extended."""
    params = enc.params
    if params.get("inv_freq") is not None:  # whose scaling, if any, is not known
        return enc.measure.frequencies
    same = {key: params[key] for key in ("rho", "layout", "partial")}
    scaling = {"scaling": "proportional"} if params["scaling"] == "proportional" else {}
    plain = build("rope", length=len(enc), d=params["d"], **same, **scaling)
    return plain.measure.frequencies


def bands(
    own: np.ndarray,
    plain: np.ndarray,
    trained: int,
    length: int,
    met: np.ndarray | None = None,
    by_pair: bool = False,
) -> Iterator[Band]:
    """Runs of rotated pairs, fast ones first, by what a scaling does to their frequencies.

    `met` are the frequencies of training, by default those without the scaling; `by_pair` where
    each pair has a factor of its own, so that none lies between two treatments.
    """
    turning = own != 0
    met = (plain if met is None else met)[turning]
    own, plain = own[turning], plain[turning]
    for treatment, members in treatments(own, plain, by_pair).items():
        if members.any():
            index, ratio = np.flatnonzero(members), (plain / own)[members]
            slowest = index[own[members].argmin()]
            yield Band(
                treatment=treatment,
                pairs=len(index),
                first_pair=int(np.flatnonzero(turning)[index[0]]),
                last_pair=int(np.flatnonzero(turning)[index[-1]]),
                least_divisor=float(ratio.min()),
                largest_divisor=float(ratio.max()),
                shortest_wavelength=float(2 * pi / own[members].max()),
                longest_wavelength=float(2 * pi / own[slowest]),
                turns_trained=float(met[slowest] * trained / (2 * pi)),
                turns=float(own[slowest] * length / (2 * pi)),
            )


def treatments(own: np.ndarray, plain: np.ndarray, by_pair: bool = False) -> dict[str, np.ndarray]:
    """Which pairs a scaling treats alike, of frequencies that are not 0.

    >>> treatments(np.array([1.0, 0.02]), np.array([1.0, 0.08]))["stretched"]
    array([False,  True])
    """
    ratio = plain / own
    kept = np.abs(ratio - 1) <= RATIO_SLACK
    if kept.all():
        return {"same": kept}
    if by_pair:
        return {"kept": kept, "stretched": ~kept}
    far = ratio.max() if ratio.max() > 1 else ratio.min()
    stretched = ~kept & (np.abs(ratio - far) <= RATIO_SLACK * far)
    return {"kept": kept, "blended": ~kept & ~stretched, "stretched": stretched}


def count_idle(turning: np.ndarray, length: int) -> int:
    """Pairs that never complete a turn within a length, of frequencies that are not 0.

    >>> count_idle(1e4 ** (-np.arange(64) / 64), 4096)
    18
    """
    return int((turning * length < 2 * pi).sum())


def window_within(window: int | None, length: int) -> int | None:
    """A window where it is shorter than a length; None: a query sees all of that."""
    return window if window is not None and window < length else None


def count_unseen(own: np.ndarray, plain: np.ndarray, trained: int, length: int) -> int:
    """Pairs whose phases go beyond those of training, which were less than a turn.

    Positions 0 … n - 1 stand for the time from 0 to n: interpolation by length / trained meets
    nothing new, though its last position lies a part of a step beyond the last one of training.
    """
    whole_turn = plain * trained >= 2 * pi
    beyond = own * length > plain * trained * (1 + RATIO_SLACK)
    return int((beyond & ~whole_turn).sum())


def longest_familiar(own: np.ndarray, plain: np.ndarray, trained: int) -> int | None:
    """The longest length at which `count_unseen` counts none, None where that is any length.

    >>> w = np.array([1.0, 0.01])
    >>> longest_familiar(w / 4, w, 100), longest_familiar(w, w, 1000)
    (400, None)
    """
    short = (plain * trained < 2 * pi) & (own > 0)
    if not short.any():
        return None
    return int(np.floor((plain[short] / own[short]).min() * trained * (1 + RATIO_SLACK)))


def cache_phase_errors(
    enc: Encoding, query: int, keys: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""What frequencies that grow with the length do to keys that a cache keeps as they were.

    With rope_type dynamic, and with longrope where the length passes that of training, a key at p
    was rotated when the sequence had p + 1 positions, the query at q with q + 1: their phases
    differ by :math:`q w_i(q) - p w_i(p)` in place of :math:`(q - p) w_i(q)`. Returned are the
    largest error over pairs, :math:`\max_i p\,|w_i(p) - w_i(q)|` in radians, and the cosine to the
    consistent rotation, per key (huggingface/transformers#25104).

    >>> from pefourier.encodings import load
    >>> enc = load("rope:scaling=dynamic,factor=2,original=4096", 8192, 128)
    >>> error, cosine = cache_phase_errors(enc, 8191, [100, 8190])
    >>> error.round(2), cosine.round(3)
    (array([4.2 , 0.05]), array([0.405, 1.   ]))
    """
    now, _ = rotation_of(enc.params, query + 1)
    then = [rotation_of(enc.params, int(p) + 1)[0] for p in keys]
    errors = np.array([p * (own - now) for p, own in zip(keys, then, strict=True)])  # (keys, pairs)
    return np.abs(errors).max(axis=1), np.cos(errors).mean(axis=1)


def cache_loss(enc: Encoding, length: int) -> CacheLoss | None:
    """What a cache of keys does at a length; None where frequencies do not depend on that."""
    if enc.params.get("inv_freq") is not None:
        return None
    (short, _), (long, _) = (rotation_of(enc.params, n) for n in (1, length))
    if np.array_equal(short, long):
        return None
    query, before = length - 1, min(enc.params["original"], length - 1)
    tens = 10 ** np.arange(len(str(before)))
    later = np.linspace(before, query - 1, 4)[1:]
    keys = np.unique([*tens[tens < before], before - 1, *later.astype(int)])
    keys = keys[keys > 0]
    if not len(keys):
        return None
    errors, cosines = cache_phase_errors(enc, query, keys)
    return CacheLoss(query, tuple(keys.tolist()), tuple(errors.tolist()), tuple(cosines.tolist()))


def read_against(
    encodings: Sequence[Encoding], other: str, length: int, d: int | None = None
) -> Reading:
    """The cosine between a rotation and another one, or a misreading of it, up to a length.

    Parameters
    ----------
    encodings : sequence of Encoding
        The rotations of a model; of several the one is told that is read most differently.
    other : str
        A SPEC, or slips of `pefourier.diagnosis.against`: the scaling not applied, all of the head
        rotated, another base, the other type of layer's rotation; or ``layout``: neighbours paired
        for halves or the reverse.

    >>> from pefourier.encodings import load
    >>> read_against([load("rope:rho=5e5", 8192, 128)], "base=10000", 8192).below
    {'.99': 3, '.9': 9, '.5': 27}
    """
    for enc in encodings:
        if enc.act != "rotate" or enc.measure is None:
            raise PefourierError(f"{shown(enc.spec)} is not rotary; --against compares rotations")
    readings = [reading_of(enc, other, length, d) for enc in encodings]
    return min(readings, key=likeness_of)


def likeness_of(reading: Reading) -> tuple[float, ...]:
    """How long the cosine of a reading stays, then how near its logits are: less is worse."""
    falls = (FARTHEST if p is None else p for p in reading.below.values())
    return (*falls, -abs(log(reading.logits)))


def reading_of(enc: Encoding, other: str, length: int, d: int | None) -> Reading:
    """One rotation and its misreading."""
    from pefourier.diagnosis.against import layer_of, misread

    check_reading(enc, other)
    own = enc.measure.frequencies
    if other == "layout":
        apart, settings = layouts_apart(own), enc.params
    else:  # over the pairs that are meant to turn; those that the other lacks do not turn there
        read, settings = misread(enc, other, length, d)
        apart = readings_apart(own, read[: len(own)])
    below = levels_below(apart)
    points = [*np.geomspace(1, max(length, 2), 64), *(p for p in below.values() if p is not None)]
    at = np.unique(np.array(points).astype(np.int64))
    at = at[at <= max(length, 2)]
    cosine = np.cos(np.multiply.outer(at.astype(float), apart)).mean(axis=1)
    logits = logits_factor(settings) / logits_factor(enc.params)
    return Reading(other, layer_of(enc), at, cosine, below, logits)


def check_reading(enc: Encoding, other: str) -> None:
    """Refuse what is neither a misreading nor a SPEC, with the misreadings that are known."""
    from pefourier.diagnosis.against import SLIPS, changes_of

    if other in SLIPS or changes_of(enc, other) is not None:
        return
    try:
        source_of(other)
    except PefourierError:
        way_out = f"Known: {', '.join(SLIPS)}; or give another rotation, as rope:rho=1e6."
        raise unknown("misreading", other, SLIPS, way_out) from None


def logits_factor(settings: Mapping[str, Any]) -> float:
    """What a rotation multiplies logits with: queries and keys have a factor each."""
    return settings["attention_factor"] ** 2 * settings.get("softmax_factor", 1.0)
