r"""How far do a model's positions reach, and what does another reading of them cost?

Conventions
-----------
A rotation turns pair i of a head by :math:`p\,\omega_i` at position p; :math:`\omega_i` is in
radians per position. A head has `pairs` of dimensions, of which those without a frequency, or with
frequency 0, do not turn: they add 1 each to the kernel :math:`B(m) = f + \sum_i \cos m\omega_i` at
every lag m. `trained` is the number of positions of training, `length` the number asked for. A turn
is 2 pi. Everything here is a closed form or a scan of whole positions.

`base_bound`, `critical_dimension`, `nearer_scores_higher` and `new_pairs` are single formulas;
`describe_context` puts them together for all rotations of a model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log, pi
from typing import Any, ClassVar, Literal

import numpy as np

from pefourier.encodings import build
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.relative import t5_buckets
from pefourier.encodings.families.rotary import columns_that_turn, rotation_of, scaling_parameters
from pefourier.encodings.model_positions import (
    ModelPositions,
    TrainedLength,
    axis_in,
    describe_positions,
    original_length_of,
)
from pefourier.encodings.places import axis_names
from pefourier.encodings.readings import FARTHEST, first_below
from pefourier.encodings.sections import AXES
from pefourier.encodings.sources.layers import Temperature
from pefourier.encodings.sources.rope_config import INDEXER, PAIRED
from pefourier.errors import PefourierError, shown
from pefourier.geometry.grown_grids import frequencies_on_axes, turn_limits
from pefourier.geometry.precision import FormatLoss, format_losses
from pefourier.questions.misread import Reading, read_against
from pefourier.result import Result
from pefourier.writing.text import number, ranges

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
    rotation: str = field(default="", metadata={"told": False})  # whose they are

    @property
    def numbers(self) -> str:
        """The first and the last pair."""
        return "-".join(dict.fromkeys(map(str, (self.first_pair, self.last_pair))))

    @property
    def divided_by(self) -> str:
        """The least and the largest divisor."""
        return from_to(self.least_divisor, self.largest_divisor)

    @property
    def wavelengths(self) -> str:
        """The shortest and the longest wavelength."""
        return from_to(self.shortest_wavelength, self.longest_wavelength)


def from_to(low: float | None, high: float | None) -> str:
    """The ends of a range, or the number that both read as.

    >>> from_to(1.0, 1.0), from_to(6.25, 18)
    ('1', '6.25-18')
    """
    return "-".join(dict.fromkeys(map(number, (low, high))))


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
    bound: int | None  # first lag m with B(m) < 0 over the whole head; None: none below 2^20
    nearer_higher: float | None  # `nearer_scores_higher` within what a query sees; None: undefined
    critical_dimension: int | None  # None without a base
    idle: int  # rotated pairs that never complete a turn within the length
    unseen: int | None  # pairs that meet phases which training never met; None: it is not known
    familiar_length: int | None  # the longest at which no pair does; None: any, or not one for all
    window: int | None  # positions that a query sees in its layers; None: all
    frequencies: np.ndarray  # (rotated pairs,) radians per position
    trained_frequencies: np.ndarray  # the same without the scaling
    precision: dict[str, FormatLoss]
    partners: np.ndarray = field(metadata={"told": False})  # (rotated pairs, 2) rows of a head
    axes: dict[str, tuple[int, ...]] | None = None  # of an image's frames, rows, columns: pairs
    scaling_parameters: dict[str, Any] = field(default_factory=dict)  # as `rope` takes them

    @property
    def rows(self) -> str:
        """Which rows of a head turn together: the first two pairs, and the last."""
        sums = [f"{a}+{b}" for a, b in self.partners]
        return ", ".join(sums) if len(sums) < 3 else f"{sums[0]}, {sums[1]} … {sums[-1]}"

    @property
    def safe_phase(self) -> int | None:
        """Positions that phases computed in bfloat16 tell apart."""
        return self.precision["bfloat16"].safe_phase


@dataclass(frozen=True)
class Layers:
    """Layers of a model that are alike."""

    index: tuple[int, ...]  # empty where their number is not known, or there is no model
    kind: str  # rotary, none, learned, sinusoidal, alibi, t5, …
    rotation: int | None  # which of the context's rotations
    window: int | None  # positions that a query sees; None: all
    name: str = field(default="", metadata={"told": False})  # of the rotation

    @property
    def numbers(self) -> str:
        """The numbers of the layers."""
        return ranges(self.index) or "all"


@dataclass(frozen=True)
class AxisPairs:
    """The pairs that turn by one place of a token of an image."""

    axis: str
    index: tuple[int, ...]

    @property
    def numbers(self) -> str:
        """The numbers of the pairs."""
        return ranges(self.index)


@dataclass(frozen=True)
class AxisWaves:
    """The shortest and the longest wave along an axis of a grid, in points."""

    axis: str
    shortest: float
    longest: float


AXIS = {"t": "frame", "y": "row", "x": "column"}


@dataclass(frozen=True, repr=False)
class Context(Result):
    """A model's positions as a whole, or those of one encoding."""

    shown: ClassVar[dict[str, str]] = {
        "positions": "length",
        "positions of training": "trained_text",
        "rows of the table": "held_text",
        "slope": "slope_ends",
        "alike from distance": "far",
        "pairs of a head": "facts.pairs",
        "of them rotated": "facts.rotated",
        "rows that turn together": "row_text",
        "base": "facts.base",
        "scaling": "facts.scaling",
        "factor of cosines and sines": "facts.attention_factor",
        "factor of the softmax": "softmax_text",
        "safe length, phases in bfloat16": "facts.safe_phase",
        "first lag with a negative sum": "bound_text",
        "P(nearer scores higher)": "facts.nearer_higher",
        "pairs that never turn in the length": "facts.idle",
        "pairs in phases not trained": "facts.unseen",
        "no new phase up to": "facts.familiar_length",
        "queries grow to": "temperature.largest",
    }
    listed: ClassVar[dict[str, dict[str, str]]] = {
        "layers": {
            "layers": "numbers",
            "kind": "kind",
            "rotation": "name",
            "window": "window",
        },
        "all_bands": {
            "rotation": "rotation",
            "band": "treatment",
            "pairs": "pairs",
            "numbers": "numbers",
            "divided by": "divided_by",
            "wavelengths": "wavelengths",
            "turns_trained": "turns_trained",
            "turns": "turns",
        },
        "grid_waves": {"axis": "axis", "shortest wave": "shortest", "longest wave": "longest"},
        "image_axes": {"axis of an image": "axis", "numbers": "numbers"},
        "readings": {"cosine falls below": "level", "from position": "position"},
    }

    layers: tuple[Layers, ...]
    rotations: tuple[Rotation, ...]
    trained: TrainedLength
    length: int
    allowed: int | None  # positions that the config allows, with its scaling; None: there is none
    temperature: Temperature | None  # how queries grow with their position; None: they do not
    unread: tuple[str, ...]  # keys about positions that the config has and nobody reads
    findings: tuple[Finding, ...]
    against: Reading | None = None  # another reading of the rotation, where one was asked for
    slopes: tuple[float, ...] | None = None  # of ALiBi, one a head: what a step takes from a logit
    tables: dict[str, tuple[str, int | None]] = field(  # that end, by side: what they are, rows
        default_factory=dict, metadata={"told": False}
    )

    @property
    def codes(self) -> Encoding:
        """The first rotation, or what positions there are."""
        return self.about[0]

    @property
    def verdict(self) -> str:
        """How far positions reach, or what another reading of them costs."""
        if not self.rotations:
            return table_verdict(self)
        if self.against is not None:
            return self.against.verdict
        if self.trained.length is None:
            return "training length unknown"
        if self.new_pairs:
            return "unseen angles"
        windows = [window_within(run.window, self.length) for run in self.layers]
        return "no new angles" if None in windows else "beyond every window"

    @property
    def turning(self) -> tuple[Rotation, ...]:
        """The rotations of layers, without that of an indexer."""
        return tuple(r for r in self.rotations if r.name != INDEXER)

    @property
    def new_pairs(self) -> int:
        """Pairs of all rotations that reach angles which training never met."""
        return sum(r.unseen or 0 for r in self.turning)

    @property
    def all_pairs(self) -> int:
        """Pairs of all rotations that turn."""
        return sum(r.rotated for r in self.turning)

    @property
    def idle_pairs(self) -> int:
        """Pairs of all rotations that never complete a turn."""
        return sum(r.idle for r in self.turning)

    @property
    def widest_window(self) -> int | None:
        """The most positions that any layer sees; None: all."""
        windows = [run.window for run in self.layers]
        return None if None in windows else max(windows)

    @property
    def trained_text(self) -> str | None:
        """The positions of training and who says so; None where nothing rotates."""
        return str(self.trained) if self.rotations else None

    @property
    def is_type_assumed(self) -> bool:
        """Whether the model type is not known and was read as another."""
        return any(f.code == "model-type-unknown" for f in self.findings)

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of the rotation; of several each by the name of its layers."""
        names = FACTS if self.rotations else ()
        return {
            name: by_rotation(self.rotations, [getattr(r, name) for r in self.rotations])
            for name in names
        }

    @property
    def row_text(self) -> Any:
        """The rows that turn together, with how they are called where that is assumed."""
        how = " (assumed)" if self.is_type_assumed else ""
        return by_rotation(self.rotations, [f"{r.rows}{how}" for r in self.rotations])

    @property
    def bound_text(self) -> Any:
        """The first lag with a negative sum, or that there is none."""
        bounds = [r.bound or "none below 2^20" for r in self.rotations]
        return by_rotation(self.rotations, bounds) if bounds else None

    @property
    def softmax_text(self) -> Any:
        """The factors of the logits where they have one, and whether these are assumed."""
        if all(r.softmax_factor == 1 for r in self.rotations):
            return None
        how = " (assumed)" if self.is_type_assumed else ""
        factors = [f"{number(r.softmax_factor)}{how}" for r in self.rotations]
        return by_rotation(self.rotations, factors)

    @property
    def held_text(self) -> Any:
        """Rows of the only table, or of each side's."""
        if self.held is None or len(self.tables) < 2:
            return self.held
        return {side: rows for side, (_, rows) in self.tables.items()}

    @property
    def all_bands(self) -> list[Band]:
        """The bands of all rotations."""
        return [
            replace(b, rotation=r.name or "all layers") for r in self.rotations for b in r.bands
        ]

    @property
    def image_axes(self) -> list[AxisPairs]:
        """The pairs that turn by frames, rows and columns of images."""
        axes = next((r.axes for r in self.rotations if r.axes), {})
        return [AxisPairs(f"{axis} ({AXIS[axis]})", pairs) for axis, pairs in axes.items()]

    @property
    def grid_waves(self) -> list[AxisWaves]:
        """The waves along each axis of a grid, where codes are a formula of its points."""
        enc = self.codes
        if self.rotations or enc.measure is None or len(enc.domain.sides) < 2:
            return []
        names = axis_names(len(enc.domain.sides))
        omega = np.abs(frequencies_on_axes(enc.measure)).T
        turning = [(name, w[w > 0]) for name, w in zip(names, omega, strict=True)]
        return [
            AxisWaves(name, float(2 * pi / w.max()), float(2 * pi / w.min()))
            for name, w in turning
            if len(w)
        ]

    @property
    def further_percent(self) -> float:
        """How much further phases go in larger images, of coordinates divided by the sides."""
        return 100 * (max(turn_limits(self.codes)) - 1)

    @property
    def readings(self) -> list[Any]:
        """From where on the cosine to another reading is below each level."""
        return self.against.falls if self.against else []

    @property
    def held(self) -> int | None:
        """Positions that a table has rows for; None where there is no table."""
        return None if self.rotations else rows_held(self)

    @property
    def lost(self) -> int:
        """Positions asked for that have no row."""
        return self.length - (self.held or self.length)

    @property
    def far(self) -> int | None:
        """The distance from which on all have one code; None where there is none such."""
        return None if self.rotations else far_distance(self.codes)

    @property
    def slope_ends(self) -> list[float] | None:
        """The steepest and the flattest slope of ALiBi."""
        return from_to(min(self.slopes), max(self.slopes)) if self.slopes else None

    def series(self) -> tuple[list[str], Iterator[list[Any]]]:
        """Names of the columns of CSV; a row for each band of each rotation, or each slope."""
        bands = list(BAND_COLUMNS)
        return [*SIZES, *ROTATION_COLUMNS, *(f"band_{key}" for key in bands), "head", "slope"], (
            context_rows(self)
        )


FACTS = (
    *("pairs", "rotated", "base", "scaling", "attention_factor", "softmax_factor", "bound"),
    *("nearer_higher", "idle", "unseen", "familiar_length", "safe_phase"),
)
SIZES = ("trained", "length")
ROTATION_COLUMNS = (
    *("rotation", "pairs", "rotated", "base", "scaling", "attention_factor", "bound"),
    *("nearer_higher", "idle", "unseen"),
)
BAND_COLUMNS = {
    "class": "treatment",
    **{
        name: name
        for name in (
            *("pairs", "first_pair", "last_pair", "least_divisor", "largest_divisor"),
            *("shortest_wavelength", "longest_wavelength", "turns_trained", "turns"),
        )
    },
}


def context_rows(c: Context) -> Iterator[list[Any]]:
    """Sizes with each band of each rotation, or each head's slope."""
    sizes = [c.trained.length, c.length]
    blank = [None] * (len(ROTATION_COLUMNS) + len(BAND_COLUMNS))
    for r in c.rotations:
        row = [r.name, *(getattr(r, name) for name in ROTATION_COLUMNS[1:])]
        for b in r.bands:
            yield [*sizes, *row, *(getattr(b, name) for name in BAND_COLUMNS.values()), None, None]
    for head, slope in enumerate(c.slopes or ()):
        yield [*sizes, *blank, head, slope]
    if not c.rotations and not c.slopes:
        yield [*sizes, *blank, None, None]


def by_rotation(rotations: Sequence[Rotation], values: list[Any]) -> Any:
    """The value of the only rotation, or each by the name of its layers."""
    if len(rotations) == 1:
        return values[0]
    names = (r.name.removesuffix("_attention") or "all" for r in rotations)
    return dict(zip(names, values, strict=True)) or None


def describe_context(
    spec: str,
    length: int | None = None,
    trained: int | None = None,
    d: int | None = None,
    against: str | None = None,
) -> tuple[list[Encoding], Context]:
    """The layers and rotations of a model's config, or of one encoding, over `length` positions.

    Returned with the encoding of each rotation, under the SPEC that names its type of layer, or of
    what positions there are. `trained` positions were trained with the rotation that there is now;
    without it the length before a scaling is assumed (`encodings.model_positions`).

    >>> _, found = describe_context("rope:rho=5e5", 131072, trained=8192, d=128)
    >>> found.rotations[0].unseen
    29
    """
    model = describe_positions(spec, length, trained, d)
    rotations = [rotation_of_part(model, i) for i in range(len(model.parts))]
    if model.indexer is not None:
        met = model.trained.length or model.length
        rotations.append(
            describe_rotation(model.indexer, met, model.length, name=INDEXER, met="before scaling")
        )
    layers = []
    for run in model.layers:
        place = model.parts.index(run.part) if run.kind == "rotary" else None
        name = "" if place is None else rotations[place].name or "the only one"
        layers.append(Layers(run.index, run.kind, place, run.window, name))
    model_rotations = list(model.rotations) or [model.codes]
    return model_rotations, Context(
        layers=tuple(layers),
        rotations=tuple(rotations),
        trained=model.trained,
        length=model.length,
        allowed=model.allowed,
        temperature=model.temperature,
        unread=model.unread,
        findings=model.findings,
        about=(model.codes,),
        against=read_against(model_rotations, against, model.length, d) if against else None,
        slopes=slopes_of(model_rotations[0]),
        tables=model.tables,
    )


def rotation_of_part(model: ModelPositions, place: int) -> Rotation:
    """The rotation of one type of layer, with the window of its layers and the axes of images."""
    part, enc = model.parts[place], model.rotations[place]
    before = model.trained.source == "assumed" and original_length_of(enc) is not None
    rotation = describe_rotation(
        enc,
        model.trained.length,
        model.length,
        name=part,
        window=model.widest_window(part),
        met="before scaling" if before else "as it is",
        still=model.still,
    )
    if model.trained.length is None:
        rotation = replace(rotation, unseen=None, familiar_length=None)
    return replace(rotation, axes=pairs_by_axis(enc, model.spec))


def describe_rotation(
    enc: Encoding,
    trained: int | None = None,
    length: int | None = None,
    *,
    name: str = "",
    window: int | None = None,
    met: Literal["before scaling", "as it is"] = "before scaling",
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
    met : str
        Whether training had the rotation before its scaling, or as it is.
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
    params, length = enc.params, length or len(enc)
    trained = trained or original_length_of(enc) or len(enc)
    omega, plain = enc.measure.frequencies, frequencies_before_scaling(enc)
    before = plain if met == "before scaling" else frequencies_at(enc, trained)
    turning, reach = omega != 0, window_within(window, length) or length
    head = params["d"] + still
    return Rotation(
        name=name,
        pairs=head // 2,
        rotated=int(turning.sum()),
        base=params["rho"],
        scaling=params["scaling"],
        pairing=PAIRED.get(params.get("layout")),
        attention_factor=params["attention_factor"],
        softmax_factor=params.get("softmax_factor", 1.0),
        bands=tuple(bands(omega, plain, trained, length, before, params["scaling"] == "longrope")),
        bound=base_bound(omega, still=head // 2 - len(omega)),
        nearer_higher=nearer_scores_higher(omega[turning], reach),
        critical_dimension=critical_dimension(2 * len(plain), params["rho"], trained),
        idle=count_idle(omega[turning], length),
        unseen=count_unseen(omega, before, trained, reach),
        familiar_length=None if has_many(enc, length) else longest_familiar(omega, before, trained),
        window=window,
        frequencies=omega[turning],
        trained_frequencies=plain[turning],
        precision=format_losses(enc, FORMATS_OF_PHASES),
        partners=rows_of_a_head(enc, still)[turning],
        scaling_parameters=parameters_of_scaling(params),
    )


def new_pairs(
    enc: Encoding, length: int, trained: TrainedLength, window: int | None = None
) -> int | None:
    """Pairs that reach angles at a length which training never met; None where it is unknown.

    Given positions were trained with the rotation that there is now; assumed ones without its
    scaling, where that says from which length on it begins.

    >>> from pefourier.encodings import load
    >>> enc = load("rope:rho=5e5,scaling=llama3,factor=8,original=8192", 204800, 128)
    >>> [new_pairs(enc, 204800, TrainedLength(n, s))
    ...  for n, s in ((131072, "given"), (8192, "assumed"))]
    [25, 29]
    """
    if trained.length is None:
        return None
    before = trained.source == "assumed" and original_length_of(enc) is not None
    met = frequencies_before_scaling(enc) if before else frequencies_at(enc, trained.length)
    reach = window_within(window, length) or length
    return count_unseen(enc.measure.frequencies, met, trained.length, reach)


def frequencies_at(enc: Encoding, length: int) -> np.ndarray:
    """The frequencies that a rotation has at a length, with its scaling."""
    if not has_many(enc, length) and not has_many(enc, len(enc)):
        return enc.measure.frequencies
    frequencies: np.ndarray = rotation_of(enc.params, length)[0]
    return frequencies


def has_many(enc: Encoding, length: int) -> bool:
    """Whether frequencies depend on the length up to some length: dynamic, longrope."""
    if enc.params.get("inv_freq") is not None or enc.params["scaling"] == "none":
        return False
    short, long = (rotation_of(enc.params, n)[0] for n in (1, length))
    return not np.array_equal(short, long)


def base_bound(frequencies: np.ndarray, limit: int = FARTHEST, still: int = 0) -> int | None:
    r"""The first lag m with :math:`B(m) = f + \sum_i \cos m\omega_i < 0`.

    f are the pairs of a head that do not turn, those of frequency 0 and `still` more: with as many
    as turn B is never negative. Up to m a token like the query's is, on average over random heads,
    preferred to a random one (Men et al., 2024, arXiv 2405.14591). Models are often used, and work,
    far beyond: it is a fact about a base, not a failure. None where B stays positive below `limit`.

    >>> base_bound(10000.0 ** (-np.arange(64) / 64)), base_bound(np.ones(4), still=4)
    (1707, None)
    """
    turning = frequencies[frequencies != 0]
    still += len(frequencies) - len(turning)
    return first_below(turning, -float(still), limit) if still < len(turning) else None


def nearer_scores_higher(frequencies: np.ndarray, length: int) -> float | None:
    r"""P(B(near) > B(far)) of lags below a length, far at least twice near (arXiv 2605.15514).

    Lags are uniform; of long texts 4096 evenly spaced ones stand for all, of wide heads fewer.
    1/2: a nearer position scores no higher than a farther one. None where no lag is twice another.

    >>> w = 10000.0 ** (-np.arange(64) / 64)
    >>> [round(nearer_scores_higher(w, n), 2) for n in (4096, 32768)]
    [0.94, 0.68]
    """
    if length < 3 or not len(frequencies):
        return None
    count = min(length - 1, LAGS, max(FEWEST_LAGS, COSINES // len(frequencies)))
    lags = np.unique(np.linspace(1, length - 1, count).astype(np.int64))
    at_once = max(1, AT_ONCE // len(frequencies))
    parts = (lags[i : i + at_once].astype(float) for i in range(0, len(lags), at_once))
    kernel = np.concatenate(
        [np.cos(np.multiply.outer(part, frequencies)).sum(axis=1) for part in parts]
    )
    first = np.searchsorted(lags, 2 * lags[2 * lags <= lags[-1]])
    higher = sum(int((kernel[i] > kernel[j:]).sum()) for i, j in enumerate(first))
    pairs = int((len(lags) - first).sum())
    return higher / pairs if pairs else None


LAGS, FEWEST_LAGS = 4096, 64
COSINES, AT_ONCE = 2**26, 2**18  # of all lags, and of those that are added up at a time


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


def parameters_of_scaling(params: Mapping[str, Any]) -> dict[str, Any]:
    """What a rotation's scaling was given, but the attention factor.

    >>> parameters_of_scaling({"scaling": "linear", "factor": 8.0, "original": None})
    {'factor': 8.0}
    """
    keys = scaling_parameters(params["scaling"]).keys() - {"attention_factor"}
    return {key: params[key] for key in sorted(keys) if params.get(key) is not None}


def rows_of_a_head(enc: Encoding, still: int) -> np.ndarray:
    """Rows of a head that turn together (pairs, 2), behind some that stand still."""
    before = (enc.params["d"] - enc.dim) * bool(enc.params.get("trailing"))
    return still + before + np.stack(columns_that_turn(enc), axis=1)


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


def slopes_of(enc: Encoding) -> tuple[float, ...] | None:
    """What each head of ALiBi takes from a logit for each position of distance; None: no ALiBi.

    >>> slopes_of(build("alibi", length=9, d=4))
    (0.25, 0.0625, 0.015625, 0.00390625)
    """
    return tuple((-enc.codes(np.array([-1]))[0]).tolist()) if enc.name == "alibi" else None


def check_turning(enc: Encoding) -> None:
    """Refuse what does not turn pairs at declared frequencies."""
    if enc.act != "rotate" or enc.measure is None or "scaling" not in enc.params:
        if "grid" in enc.params and not enc.domain.grid:
            separator = "," if ":" in enc.spec else ":"
            raise PefourierError(
                f"{shown(enc.spec)} turns pairs by the axes of a grid; give its sides, as in "
                f"{shown(f'{enc.spec}{separator}grid=14x14')}"
            )
        turns = "turns pairs of dimensions in a way of its own"
        behaviour = turns if enc.act == "rotate" else "does not rotate pairs of dimensions"
        raise PefourierError(
            f"{shown(enc.spec)} {behaviour}; context takes a model's config.json, or a rotation by "
            "declared frequencies, such as rope"
        )


def frequencies_before_scaling(enc: Encoding) -> np.ndarray:
    """Frequencies of the same rotation without its scaling: as before the context was extended."""
    params = enc.params
    if params.get("inv_freq") is not None:  # whose scaling, if any, is not known
        return enc.measure.frequencies
    settings = {key: params[key] for key in ("rho", "layout", "partial")}
    scaling = {"scaling": "proportional"} if params["scaling"] == "proportional" else {}
    plain = build("rope", length=len(enc), d=params["d"], **settings, **scaling)
    return plain.measure.frequencies


def bands(
    scaled: np.ndarray,
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
    turning = scaled != 0
    met = (plain if met is None else met)[turning]
    scaled, plain = scaled[turning], plain[turning]
    for treatment, members in treatments(scaled, plain, by_pair).items():
        if members.any():
            index, ratio = np.flatnonzero(members), (plain / scaled)[members]
            slowest = index[scaled[members].argmin()]
            yield Band(
                treatment=treatment,
                pairs=len(index),
                first_pair=int(np.flatnonzero(turning)[index[0]]),
                last_pair=int(np.flatnonzero(turning)[index[-1]]),
                least_divisor=float(ratio.min()),
                largest_divisor=float(ratio.max()),
                shortest_wavelength=float(2 * pi / scaled[members].max()),
                longest_wavelength=float(2 * pi / scaled[slowest]),
                turns_trained=float(met[slowest] * trained / (2 * pi)),
                turns=float(scaled[slowest] * length / (2 * pi)),
            )


def treatments(
    scaled: np.ndarray, plain: np.ndarray, by_pair: bool = False
) -> dict[str, np.ndarray]:
    """Which pairs a scaling treats alike, of frequencies that are not 0.

    >>> treatments(np.array([1.0, 0.02]), np.array([1.0, 0.08]))["stretched"]
    array([False,  True])
    """
    ratio = plain / scaled
    unchanged = np.abs(ratio - 1) <= RATIO_SLACK
    if unchanged.all():
        return {"same": unchanged}
    if by_pair:
        return {"kept": unchanged, "stretched": ~unchanged}
    far = ratio.max() if ratio.max() > 1 else ratio.min()
    stretched = ~unchanged & (np.abs(ratio - far) <= RATIO_SLACK * far)
    return {"kept": unchanged, "blended": ~unchanged & ~stretched, "stretched": stretched}


def count_idle(turning: np.ndarray, length: int) -> int:
    """Pairs that never complete a turn within a length, of frequencies that are not 0.

    >>> count_idle(1e4 ** (-np.arange(64) / 64), 4096)
    18
    """
    return int((turning * length < 2 * pi).sum())


def window_within(window: int | None, length: int) -> int | None:
    """A window where it is shorter than a length; None: a query sees all of that."""
    return window if window is not None and window < length else None


def count_unseen(scaled: np.ndarray, plain: np.ndarray, trained: int, length: int) -> int:
    """Pairs whose phases go beyond those of training, which were less than a turn.

    Positions 0 … n - 1 stand for the time from 0 to n: interpolation by length / trained meets
    nothing new, though its last position lies a part of a step beyond the last one of training.
    """
    whole_turn = plain * trained >= 2 * pi
    beyond = scaled * length > plain * trained * (1 + RATIO_SLACK)
    return int((beyond & ~whole_turn).sum())


def longest_familiar(scaled: np.ndarray, plain: np.ndarray, trained: int) -> int | None:
    """The longest length at which `count_unseen` counts none, None where that is any length.

    >>> w = np.array([1.0, 0.01])
    >>> longest_familiar(w / 4, w, 100), longest_familiar(w, w, 1000)
    (400, None)
    """
    short = (plain * trained < 2 * pi) & (scaled > 0)
    if not short.any():
        return None
    return int(np.floor((plain[short] / scaled[short]).min() * trained * (1 + RATIO_SLACK)))


def table_verdict(c: Context) -> str:
    """How far positions reach that do not turn: tables, biases, added waves."""
    enc = c.codes
    if {layer.kind for layer in c.layers} == {"none"}:
        return "no positions"
    if c.far is not None:
        return "limited distance"
    if c.held is not None:
        return "too few rows" if c.lost > 0 else "fixed length"
    if enc.measure is not None and len(enc.domain.sides) > 1:
        return "scaled grid" if np.isfinite(turn_limits(enc)).any() else "a grid"
    if any(f.code == "repeating-codes" for f in enc.findings):
        return "codes repeat"
    return "any length" if c.slopes or enc.measure is not None else "no rotation"


def rows_held(c: Context) -> int | None:
    """Positions that tables have rows for, of several the most; None where there is no table."""
    enc = c.codes
    if far_distance(enc) is not None or c.slopes:
        return None
    if c.tables and not (enc.name == "learned" and len(c.tables) == 1):
        return max(rows or c.length for _, rows in c.tables.values())
    if enc.origin == "file" and enc.act == "add" and c.length > len(enc):
        return len(enc)
    if enc.origin == "weights" or enc.name == "learned":
        is_given = c.trained.source == "given" and "path" not in enc.params
        return c.trained.length if is_given else len(enc)
    return None


def far_distance(enc: Encoding) -> int | None:
    """The distance from which on all share a code, of T5's buckets and DeBERTa's vectors."""
    if enc.name == "t5":
        return int(shared_buckets(enc, enc.params["causal"])[-1][0])
    return last_bucket(enc) if enc.name == "deberta" else None


def shared_buckets(enc: Encoding, causal: bool) -> list[np.ndarray]:
    """Distances before a token that share a bucket of T5's; those of the last go on for ever.

    >>> from pefourier.encodings import load
    >>> [int(run[0]) for run in shared_buckets(load("t5", 300, 4), False)]
    [8, 12, 16, 23, 32, 46, 64, 91]
    """
    distance = np.arange(enc.params["max_distance"] + 1)
    buckets = t5_buckets(-distance, enc.params["buckets"], int(distance[-1]), causal)
    *runs, last = np.split(distance, np.flatnonzero(np.diff(buckets)) + 1)
    return [*(run for run in runs if len(run) > 1), last]


def last_bucket(enc: Encoding) -> int:
    """The distance from which vectors of distances stay the same, on both sides of a token."""
    far = np.arange(enc.params["max_distance"] + 2)
    changed = [np.diff(enc.codes(side * far), axis=0).any(axis=1) for side in (1, -1)]
    return int(np.flatnonzero(np.logical_or(*changed))[-1]) + 1


def lost_in_format(result: Context, dtype: str | None, strict: bool = False) -> list[str]:
    """Rotations whose codes are not all distinct in a format at the length, and what is safe.

    Where it is `strict`, errors and warnings, too.
    """
    from pefourier.questions.faithful import lost_codes

    faults = [f"has {f.code}" for f in result.findings if strict and f.severity != "note"]
    if not dtype:
        return faults
    if dtype.partition(":")[0] not in FORMATS_OF_PHASES:
        formats = ", ".join(FORMATS_OF_PHASES)
        raise PefourierError(f"context tells {formats}; ask check-faithful for {dtype}")
    return [
        f"{f'(in {r.name} layers) ' if r.name else ''}{words}"
        for r in result.rotations
        for words in lost_codes(r.precision, result.length, dtype)
    ] + faults
