r"""Description of one rotation: frequency bands, phases, sums of cosines, other readings.

Conventions
-----------
A rotation rotates pair i of a head by :math:`p\,\omega_i` at position p; :math:`\omega_i` is in
radians per position. A head has `pairs` of dimensions. Pairs without a frequency, or with frequency
0, do not rotate: each adds 1 to the kernel :math:`B(m) = f + \sum_i \cos m\omega_i` at every lag m.
A full rotation is 2 pi. Positions 0 … n - 1 represent the interval from 0 to n. Interpolation by
length / trained therefore counts as reaching no new angles, although its last position lies a
fraction of a step beyond the last trained position.

Vectors of two readings of a rotation have equal length. Their cosine at p is the mean over pairs of
cos p (w - w') and measures their agreement (`pefourier.encodings.attention_decay`). Mistakes are
named as in `pefourier.construction.mistakes` and separated by commas; ``layout`` pairs neighbours
in place of halves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from math import ceil, isclose, isnan, log, pi
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from pefourier.construction.rope import Rope, base_of_grid, is_rotation, layer_of, misread
from pefourier.encodings.attention_decay import (
    FARTHEST,
    firsts_below,
    layouts_apart,
    levels_below,
    readings_apart,
)
from pefourier.encodings.encoding import AXES, Encoding, distinct, row_blocks
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.model_positions import axes_of
from pefourier.encodings.sources.huggingface import PAIRED
from pefourier.errors import PefourierError, shown
from pefourier.types import Bools, Counts, Fields, Floats, frozen, hidden, later
from pefourier.writing.text import number

if TYPE_CHECKING:
    from pefourier.geometry.precision import FormatLoss


RATIO_SLACK = 1e-9  # relative difference within which two frequencies are equal
FULL_ROTATION = 2 * pi * (1 - RATIO_SLACK)  # radians of a full rotation, within rounding
LAGS = 4096
AT_ONCE = 2**18  # cosines of one block of lags
NOTICED = 5e-4  # relative change from which logits count as different
Treatment = Literal["kept", "blended", "stretched", "same"]
FORMATS_OF_PHASES = ("float32", "bfloat16", "float16")


@frozen
class Band:
    """Pairs that a scaling treats in the same way."""

    treatment: Treatment = field(metadata={"told": "class"})  # same: no scaling
    pairs: int
    first_pair: int  # pair with its highest frequency, among all pairs, from 0
    last_pair: int  # lowest frequency; the band is contiguous unless each pair has its own factor
    least_divisor: float  # by which the scaling divides frequencies, smallest
    largest_divisor: float
    shortest_wavelength: float  # positions, with the scaling
    longest_wavelength: float
    turns_trained: float | None  # rotations of its lowest frequency in training; None if unknown
    turns: float  # rotations of its lowest frequency over the requested length
    rotation: str = hidden()  # name of the rotation

    @property
    def numbers(self) -> str:
        """The first and the last pair as a range."""
        return from_to(self.first_pair, self.last_pair)

    @property
    def divided_by(self) -> str:
        """The smallest and the largest divisor as a range."""
        return from_to(self.least_divisor, self.largest_divisor)

    @property
    def wavelengths(self) -> str:
        """The shortest and the longest wavelength as a range."""
        return from_to(self.shortest_wavelength, self.longest_wavelength)


@frozen
class Pair:
    """One rotated pair of a head."""

    rotation: str = hidden()  # name of the rotation
    pair: int  # index among all pairs of a head, from 0
    wavelength: float  # positions, with the scaling
    frequency: float  # radians per position: inv_freq
    treatment: Treatment = field(metadata={"told": "class"})
    turns_trained: float | None  # rotations in training; None if unknown
    divisor: float = hidden()  # by which the scaling divides the frequency


def from_to(low: float, high: float) -> str:
    """Format the ends of a range, or one number if both format equally.

    >>> from_to(1.0, 1.0), from_to(6.25, 18)
    ('1', '6.25-18')
    """
    return "-".join(dict.fromkeys(map(number, (low, high))))


def losses_of(enc: Encoding) -> dict[str, "FormatLoss"]:
    """Return the losses of a rotation's vectors in narrow formats."""
    from pefourier.geometry.closest import closest_pair
    from pefourier.geometry.precision import check_formats, format_losses

    check_formats(enc)
    return format_losses(enc, FORMATS_OF_PHASES, min_distance=closest_pair(enc).distance)


@frozen
class ModelRotation:
    """Description of one rotation at a length."""

    name: str  # the type of layer, or empty
    pairs: int  # of a head
    rotated: int  # rotated pairs
    base: float | None  # None for explicit frequencies that are not geometric
    effective_base: float | None  # with ntk or dynamic scaling; None if equal to the base
    scaling: str
    pairing: str | None  # of rows of a head: halves, neighbours; None if by axes
    attention_factor: float  # multiplies cosines and sines
    softmax_factor: float  # multiplies the logits beyond that
    bands: tuple[Band, ...]
    bound: int | None  # first lag m with B(m) < 0 over the whole head; None if above 2^20
    nearer_higher: float | None  # `nearer_scores_higher` within the window; None if undefined
    critical_dimension: int | None  # None without a base or a trained length
    idle: int  # rotated pairs that never complete a full rotation within the length
    unseen: int | None  # pairs at angles never seen in training; None if unknown
    familiar_length: int | None  # longest without unseen angles; None if unlimited or varying
    window: int | None  # positions that a query sees in its layers; None for all
    frequencies: Floats  # (rotated pairs,) radians per position
    trained_frequencies: Floats  # the same without the scaling
    precision: Mapping[str, "FormatLoss"]
    axes: dict[str, Counts] | None  # pairs by image axis: frame, row, column
    scaling_parameters: Fields  # as parameters of `rope`
    by_pair: tuple[Pair, ...]  # rotated pairs

    @property
    def treatments(self) -> dict[Treatment, Bools]:
        """Members of each class of pairs, by what the scaling does to their frequencies."""
        kinds = np.array([pair.treatment for pair in self.by_pair])
        is_scaled = "same" not in kinds
        names: tuple[Treatment, ...] = get_args(Treatment)
        return {name: kinds == name for name in (names[:3] if is_scaled else names[3:])}


def describe_rotation(
    enc: Encoding,
    trained: int | None = None,
    length: int | None = None,
    *,
    name: str = "",
    window: int | None = None,
    before_scaling: bool = True,
    unrotated: int = 0,
) -> ModelRotation:
    """Describe a rotary encoding over `length` positions (default: the length of the encoding).

    `trained` is the trained length; None if unknown. Training used the rotation `before_scaling`,
    or the present rotation.
    Phases are those of lags, limited to the `window` that a query sees. `unrotated` dimensions of
    a head do not rotate, in addition to those of the encoding, which must rotate pairs at declared
    frequencies.

    >>> from pefourier.encodings import load
    >>> r = describe_rotation(load("rope:rho=5e5", 8192, 128), 8192, 131072)
    >>> r.bound, r.unseen, r.idle, r.critical_dimension
    (18438, 29, 15, 70)
    """
    enc, params, length = as_rotation(enc), enc.params, length or len(enc)
    omega, rope = enc.measure.frequencies, Rope.of(enc)
    plain = rope.unscaled.frequencies(len(enc)) if rope else omega
    before = rope.frequencies(trained) if rope and trained and not before_scaling else plain
    met = before * (trained or np.nan)
    by_pair = describe_pairs(omega, plain, met, name=name, by_pair=params["scaling"] == "longrope")
    is_varying = rope and (rope.frequencies(1) != rope.frequencies(length)).any()
    keys = sorted(scaling_parameters(params["scaling"]).keys() - {"attention_factor"})
    rotating, reach = omega != 0, window_within(window, length) or length
    letters = np.array(axes_of(enc))  # axis of each pair
    head, familiar = params["d"] + unrotated, longest_familiar(omega, met, window)
    return ModelRotation(
        name=name,
        pairs=head // 2,
        rotated=int(rotating.sum()),
        base=params["rho"],
        effective_base=effective_base(enc),
        scaling=params["scaling"],
        pairing=PAIRED.get(params.get("layout", "")),
        attention_factor=params["attention_factor"],
        softmax_factor=params.get("softmax_factor", 1.0),
        bands=tuple(bands(by_pair, length)),
        bound=later(base_bound, omega, head // 2 - len(omega)),
        nearer_higher=later(nearer_scores_higher, omega[rotating], reach),
        critical_dimension=critical_dimension(2 * len(plain), params["rho"], trained),
        idle=count_idle(omega[rotating], length),
        unseen=count_unseen(omega, met, reach) if trained else None,
        familiar_length=None if is_varying else familiar,
        window=window,
        frequencies=omega[rotating],
        trained_frequencies=plain[rotating],
        precision=later(losses_of, enc),
        axes={name: tuple(np.flatnonzero(rotating & (letters == name)).tolist()) for name in AXES}
        if letters.size
        else None,
        scaling_parameters={key: params[key] for key in keys if params.get(key) is not None},
        by_pair=by_pair,
    )


def effective_base(enc: Encoding) -> float | None:
    """Base of NTK-aware frequencies; None if it equals the base of the encoding.

    >>> from pefourier.encodings import load
    >>> enc = load("rope:scaling=dynamic,factor=2,original=4096", 16384, 128)
    >>> round(effective_base(as_rotation(enc)), 2)
    72195.86
    """
    omega = enc.measure.frequencies
    if enc.params["scaling"] not in ("ntk", "dynamic") or omega[-1] == 0:
        return None
    base = base_of_grid(omega)
    return None if isclose(base, enc.params["rho"], rel_tol=RATIO_SLACK) else base


def as_rotation(enc: Encoding) -> Encoding:
    """Return a rotation with declared frequencies; raise an error for other encodings."""
    if is_rotation(enc):
        return enc
    if "grid" in enc.params and not enc.domain.grid:
        separator = "," if ":" in enc.spec else ":"
        raise PefourierError(
            f"{shown(enc.spec)} rotates pairs along the axes of a grid; pass its sides, as in "
            f"{shown(f'{enc.spec}{separator}grid=14x14')}"
        )
    raise PefourierError(
        f"{shown(enc.spec)} is neither rope nor a rotation of a model's config; pass one of them"
    )


def describe_pairs(
    scaled: Floats, plain: Floats, met: Floats, *, name: str = "", by_pair: bool = False
) -> tuple[Pair, ...]:
    """Describe the rotated pairs of a scaling in order; `met` are angles in training, or NaN.

    `by_pair` states that each pair has a separate factor, so no pair counts as blended.

    >>> divisors = np.array([1.0, 1.5, 4.0])
    >>> [p.treatment for p in describe_pairs(1 / divisors, np.ones(3), np.ones(3))]
    ['kept', 'blended', 'stretched']
    """
    index = np.flatnonzero(scaled)
    omega, divisors = scaled[index], plain[index] / scaled[index]
    unchanged = np.abs(divisors - 1) <= RATIO_SLACK
    far = divisors.max(initial=1.0)
    far = far if far > 1 else divisors.min(initial=1.0)
    stretched = by_pair | (np.abs(divisors - far) <= RATIO_SLACK * far)
    kinds: Any = np.select([unchanged, stretched], ["kept", "stretched"], "blended")
    if unchanged.all():
        kinds[:] = "same"
    of_pairs = (index, 2 * pi / np.abs(omega), omega, met[index] / (2 * pi), divisors)
    rows = zip(*(numbers.tolist() for numbers in of_pairs), strict=True)
    return tuple(
        Pair(name or "all layers", i, wave, w, kind, None if isnan(turns) else turns, divisor)
        for kind, (i, wave, w, turns, divisor) in zip(kinds.tolist(), rows, strict=True)
    )


def bands(pairs: Sequence[Pair], length: int) -> Iterator[Band]:
    """Yield the bands of rotated pairs over `length` positions."""
    for treatment in get_args(Treatment):
        if of := [pair for pair in pairs if pair.treatment == treatment]:
            slowest = max(of, key=attrgetter("wavelength"))
            divisors = [pair.divisor for pair in of]
            yield Band(
                treatment=treatment,
                pairs=len(of),
                first_pair=of[0].pair,
                last_pair=of[-1].pair,
                least_divisor=min(divisors),
                largest_divisor=max(divisors),
                shortest_wavelength=min(pair.wavelength for pair in of),
                longest_wavelength=slowest.wavelength,
                turns_trained=slowest.turns_trained,
                turns=slowest.frequency * length / (2 * pi),
                rotation=slowest.rotation,
            )


def base_bound(frequencies: Floats, unrotated: int = 0) -> int | None:
    r"""Return the first lag m with :math:`B(m) = f + \sum_i \cos m\omega_i < 0`.

    f counts the unrotated pairs of a head: those with frequency 0 and `unrotated` more. If they are
    at least as many as the rotated pairs, B is never negative. Below m, attention prefers a token
    similar to the query to a random token, on average over random heads (Men et al., 2024, arXiv
    2405.14591). Models often work far beyond m: this is a property of a base, not a failure. None
    if B is never negative at the lags searched.

    >>> base_bound(10000.0 ** (-np.arange(64) / 64)), base_bound(np.ones(4), unrotated=4)
    (1707, None)
    """
    rotating = frequencies[frequencies != 0]
    unrotated += len(frequencies) - len(rotating)
    if unrotated >= len(rotating):
        return None
    return firsts_below(rotating, [-float(unrotated)])[0]


def nearer_scores_higher(frequencies: Floats, length: int) -> float | None:
    r"""P(B(near) > B(far)) over lags below a length, far at least twice near (arXiv 2605.15514).

    Lags are uniform. Long lengths are sampled at 4,096 evenly spaced lags. At 1/2, nearer positions
    score no higher than farther positions. None if no lag is at least twice another.

    >>> w = 10000.0 ** (-np.arange(64) / 64)
    >>> [round(nearer_scores_higher(w, n), 2) for n in (4096, 32768)]
    [0.94, 0.68]
    """
    if length < 3 or not len(frequencies):
        return None
    lags = distinct(np.linspace(1, length - 1, min(length - 1, LAGS)).astype(np.int64))
    blocks = row_blocks(len(lags), AT_ONCE, len(frequencies))
    phases = (np.multiply.outer(lags[block].astype(float), frequencies) for block in blocks)
    kernel = np.concatenate([np.cos(part).sum(axis=1) for part in phases])
    first = np.searchsorted(lags, 2 * lags[2 * lags <= lags[-1]])
    higher = sum(int(np.count_nonzero(kernel[i] > kernel[j:])) for i, j in enumerate(first))
    pairs = int((len(lags) - first).sum())
    return higher / pairs if pairs else None


def critical_dimension(d: int, base: float | None, length: int | None) -> int | None:
    r"""Dimensions with wavelengths within a length: :math:`2\lceil (d/2)\log_b(L/2\pi)\rceil`.

    The result lies in 0 … d (Liu et al., 2023, arXiv 2310.05209); None without a base
    or a length.

    >>> critical_dimension(128, 10000.0, 4096)
    92
    """
    if base is None or length is None:
        return None
    if base <= 1 or length <= 2 * pi:
        return 0 if base > 1 else d
    return int(min(d, 2 * ceil(d / 2 * log(length / (2 * pi)) / log(base))))


def count_idle(rotating: Floats, length: int) -> int:
    """Number of pairs with nonzero frequency that never complete a full rotation.

    >>> count_idle(1e4 ** (-np.arange(64) / 64), 4096)
    18
    """
    return int((rotating * length < FULL_ROTATION).sum())


def window_within(window: int | None, length: int) -> int | None:
    """Return a window if it is shorter than the length; None if a query sees all positions."""
    return window if window is not None and window < length else None


def count_unseen(scaled: Floats, met: Floats, length: int) -> int:
    """Number of pairs beyond the angles `met` in training, if these are below a full rotation."""
    return int(((scaled * length > met * (1 + RATIO_SLACK)) & (met < FULL_ROTATION)).sum())


def longest_familiar(scaled: Floats, met: Floats, window: int | None = None) -> int | None:
    """Longest length at which `count_unseen` is 0; None if there is no limit.

    A query sees no farther than a `window`.

    >>> w = np.array([1.0, 0.01])
    >>> longest_familiar(w / 4, 100 * w), longest_familiar(w, 1000 * w)
    (400, None)
    """
    short = (met < FULL_ROTATION) & (scaled > 0)
    longest = (met[short] / scaled[short]).min(initial=np.inf) * (1 + RATIO_SLACK)
    return int(longest) if longest < (window or 2**53) else None


@frozen
class FrequencyReading:
    """Agreement of a rotation with a different reading."""

    other: str
    rotation: str  # the type of layer that is misread; if several, the worst
    cosine: tuple[tuple[int, float], ...]  # position, cosine between the vectors of both readings
    below: dict[str, int | None]  # first position with a cosine below 0.99, 0.9 and 0.5
    logits: float  # ratio to the intended logits, from the factors of both readings
    differing: int = 0  # frequencies

    @property
    def verdict(self) -> str:
        """Whether angles differ, only the size of logits, or neither."""
        if self.below[".99"] is not None:
            return "read differently"
        return "logits scaled" if self.is_scaled else "read alike"

    @property
    def is_scaled(self) -> bool:
        """Whether the size of logits changes."""
        return not isclose(self.logits, 1, rel_tol=NOTICED)


def read_against(
    encodings: Sequence[Encoding], misreading: str, length: int, d: int | None = None
) -> FrequencyReading:
    """Compare rotations with another rotation or a misreading, up to a length.

    If there are several rotations, return the reading with the largest disagreement.

    >>> from pefourier.encodings import load
    >>> read_against([load("rope:rho=5e5", 8192, 128)], "base=10000", 8192).below
    {'.99': 3, '.9': 9, '.5': 27}
    """
    for enc in encodings:
        if not enc.measure or enc.injection != "rotate":
            raise PefourierError(f"{shown(enc.spec)} is not rotary; --against compares rotations")

    def agreement(reading: FrequencyReading) -> list[float]:
        falls = [FARTHEST if p is None else p for p in reading.below.values()]
        return [*falls, -abs(log(reading.logits))]

    return min((reading_of(enc, misreading, length, d) for enc in encodings), key=agreement)


def check_one_axis(spec: str, frequencies: Floats) -> None:
    """Raise an error if pairs rotate along several axes."""
    if frequencies.ndim > 1:
        raise PefourierError(
            f"{shown(spec)} rotates pairs along {frequencies.shape[1]} axes; --against compares "
            "rotations by one position (for two grids, use pefourier compare)"
        )


def reading_of(enc: Encoding, misreading: str, length: int, d: int | None) -> FrequencyReading:
    """Compare one rotation with its misreading."""
    errors = misreading.split(",")
    settings_only = ",".join(error for error in errors if error != "layout")
    omega, settings = enc.measure.frequencies, enc.params
    check_one_axis(enc.spec, omega)
    frequencies = omega
    if settings_only:
        frequencies, settings = misread(enc, settings_only, length, d)
        check_one_axis(settings_only, frequencies)
    differing = int(np.count_nonzero(readings_apart(omega, frequencies)))
    parting = layouts_apart if "layout" in errors else readings_apart
    differences = parting(omega, frequencies)
    below = levels_below(differences)
    farthest = max(length, 2)
    points = [*np.geomspace(1, farthest, 64), *filter(None, below.values())]
    positions = distinct(np.array(points).astype(np.int64))
    positions = positions[positions <= farthest]
    cosine = np.cos(np.multiply.outer(positions.astype(float), differences)).mean(axis=1)
    new, own = (  # queries and keys each have the attention factor
        values["attention_factor"] ** 2 * values.get("softmax_factor", 1.0)
        for values in (settings, enc.params)
    )
    pairs = tuple(zip(positions.tolist(), cosine.tolist(), strict=True))
    return FrequencyReading(misreading, layer_of(enc), pairs, below, new / own, differing)
