"""What answers about a grid say in words: places and axes by name, and rules for conclusions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan, pi, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.text import agreeing, number
from pefourier.encodings.axis_parts import axis_parts
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.axes import axis_letters
from pefourier.geometry.grown_grids import SAME

if TYPE_CHECKING:  # one question starts without the rooms of the others
    from pefourier.faithful import GridFaithfulness
    from pefourier.reconstruct import GridReconstructions, Reconstructions
    from pefourier.relations import GridRelations
    from pefourier.spectrum import GridSpectrum

LEFT = 0.05  # of the inner product at lag 0, below which nothing is said of directions
PLATEAU = 0.5  # of all points at or above half the peak
WORDS = {"t": "frames", "y": "rows", "x": "columns"}
BOUND, ROUND = 0.99, 0.15  # A4 from which directions are two, and below which there is none
MANY = 0.5  # share of frequencies that is worth a sentence
CROSS = 0.1  # share of a picture's energy that may be left of a sum of one function an axis
EXACT = 1e-6  # error of a linear inverse that is rounding


def axis_names(count: int) -> list[str]:
    """Names of axes, the slowest first.

    >>> axis_names(2), axis_names(4)
    (['y', 'x'], ['a', 'b', 'c', 'd'])
    """
    return list(axis_letters(count))


def size_of(sides: Sequence[int]) -> str:
    """A grid as it is typed.

    >>> size_of((14, 14))
    '14x14'
    """
    return "x".join(map(str, sides))


def point_of(place: Iterable[int]) -> str:
    """A point as it is typed after --pos, in brackets.

    >>> point_of((3, 4))
    '(3,4)'
    """
    return f"({','.join(str(int(x)) for x in place)})"


def by_axis(values: Sequence[Any] | None, digits: int = 3) -> str | None:
    """A number for each axis, by name.

    >>> by_axis([0.911, None])
    'y 0.911, x –'
    """
    return None if values is None else by_name(axis_names(len(values)), values, digits)


def by_name(names: Sequence[str], values: Sequence[Any], digits: int = 3) -> str:
    """A number for each of some axes.

    >>> by_name("yx", [0.911, 0.25])
    'y 0.911, x 0.25'
    """
    return ", ".join(f"{k} {number(v, digits)}" for k, v in zip(names, values, strict=True))


def further_in_words(ratios: Sequence[float]) -> str:
    """By how much ratios are above 1, in percent: once where all axes have the same, or none.

    >>> further_in_words([1.25, 1.25]), further_in_words([1.25, 1.0]), further_in_words([0.5, 1.0])
    ('25 %', '25 % along y and 0 % along x', '')
    """
    names = axis_names(len(ratios))
    known = [(name, max(r - 1, 0.0)) for name, r in zip(names, ratios, strict=True) if r == r]
    percents = [number(100 * more if more > SAME else 0, 3) + " %" for _, more in known]
    if all(more <= SAME for _, more in known):
        return ""
    if len(set(percents)) == 1:
        return percents[0]
    return " and ".join(
        f"{percent} along {name}" for percent, (name, _) in zip(percents, known, strict=True)
    )


def ends_of(enc: Encoding, r: GridFaithfulness) -> list[str] | None:
    """The points of the closest pair."""
    if r.closest_pair is None:
        return None
    start = [int(x) for x in enc.domain.coordinates([r.closest_pair[0]])[0]]
    moved = [x + step for x, step in zip(start, r.displacement, strict=True)]
    return [point_of(start), point_of(moved)]


def told_apart_on_grid(enc: Encoding, r: GridFaithfulness) -> str:
    """Whether points have codes of their own, which two are closest, and what has no place."""
    points, grid = f"{r.length} {points_in_words(enc)}", f"of the {size_of(r.grid)} grid"
    rest = f"; {in_front(r.prefix, r.prefix_zeros)}" if r.prefix else ""
    if r.length == 1:
        return f"A grid of one point has nothing to tell apart{rest}."
    if isnan(r.stable_rank):
        return f"All codes {grid} are zero: they say nothing about its {points}{rest}."
    a, b = ends_of(enc, r)
    step = step_in_words(r.displacement)
    if r.distinct < r.length:
        return (
            f"Only {r.distinct} of {points} {grid} differ: {a} and {b}, {step}, share a code{rest}."
        )
    return (
        f"All {points} {grid} have different codes; the closest two, {a} and {b}, "
        f"{step}, are {number(r.gap, 3)} of a code's length apart{rest}."
    )


def points_in_words(enc: Encoding) -> str:
    """What the rows of a grid stand for."""
    return "displacements" if enc.domain.kind == "lag" else "points"


def in_front(prefix: int, zeros: int = 0) -> str:
    """What is said of rows without a place, some of which are zeros.

    >>> in_front(1)
    'row 0, before the grid, has no place and is left out'
    >>> in_front(5, 1).rpartition(": ")[2]
    '1 of them is all zeros, as class tokens of sine tables are'
    """
    one = prefix == 1
    which = "it" if one else "they" if zeros == prefix else f"{zeros} of them"
    what = agreeing(zeros, "is", "are")
    told = f": {which} {what} all zeros, as class tokens of sine tables are" if zeros else ""
    if one:
        return f"row 0, before the grid, has no place and is left out{told}"
    return f"rows 0 … {prefix - 1}, before the grid, have no place and are left out{told}"


def step_in_words(displacement: Sequence[int]) -> str:
    """A displacement in words.

    >>> step_in_words((1, 0)), step_in_words((0, 5)), step_in_words((2, -1))
    ('one row apart', '5 columns apart', 'apart by (2,-1)')
    """
    moved = [(n, abs(s)) for n, s in zip(axis_names(len(displacement)), displacement, strict=True)]
    moved = [(name, steps) for name, steps in moved if steps]
    if len(moved) != 1 or moved[0][0] not in WORDS:
        return f"apart by {point_of(displacement)}"
    name, steps = moved[0]
    return f"one {WORDS[name][:-1]} apart" if steps == 1 else f"{steps} {WORDS[name]} apart"


def inversion_on_grid(enc: Encoding, r: GridFaithfulness) -> str:
    """Whether a linear map recovers functions of points, or only sums of one an axis."""
    if r.length == 1 or r.verdict == "collides" or enc.domain.kind == "lag":
        return ""  # a bias is used as it is: nothing has to be recovered from it
    if r.verdict == "isometric":
        return (
            "A linear map recovers every point and amplifies no noise: codes are equally long and "
            "at right angles (condition number 1)."
        )
    if r.verdict == "invertible":
        price = f"up to {number(r.condition_number, 3)} times (the condition number)"
        return f"A linear map recovers every point, amplifying noise {price}."
    from pefourier.geometry.on_axes import separable_rank

    names = axis_names(len(r.grid))
    sums = " + ".join(f"{letter}({name})" for letter, name in zip("abcdefgh", names, strict=False))
    most = f"{separable_rank(r.grid)} of {r.length}"
    only = "as every column depends on one axis, codes of this kind can by algebra have no more"
    if r.verdict == "separable":
        why = f" ({only})" if r.axial else ""
        return (
            f"A linear map recovers every function {sums}, but not single points: the codes span "
            f"{r.rank} of {r.length} directions{why}."
        )
    why = f"; {only} than {most}, the functions {sums}" if r.axial else ""
    dimensions = f"; {r.dimension} dimensions allow at most {r.dimension}"
    why = why or (dimensions if r.length > r.dimension else "")
    return (
        "Linear maps of the codes can't pick out every point (1 there, 0 at others): they span "
        f"{r.rank} of {r.length} directions{lost_to_rounding(r)}{why}."
    )


def lost_to_rounding(r: GridFaithfulness) -> str:
    """How many directions a stored table lacks that the formula which it holds has.

    >>> from pefourier.encodings import build
    >>> from pefourier.encodings.encoding import from_table
    >>> from pefourier.encodings.grids import on_grid
    >>> from pefourier.faithful import assess
    >>> table = build("axial", d=768, grid=(14, 14), convention="mae").table()
    >>> stored = from_table(table.astype("float32"), eps=2**-23)
    >>> lost_to_rounding(assess(on_grid(stored, (14, 14), 0)))
    ', 2 fewer than its formula in float64, by which it is separable'
    """
    spec = (r.identified or {}).get("spec")
    if not spec:
        return ""
    from pefourier.encodings.specs import load
    from pefourier.geometry.on_axes import separable_rank
    from pefourier.geometry.singular_values import decompose

    sides = "x".join(map(str, r.grid))
    own = load(f"{spec}{',' if ':' in spec else ':'}grid={sides}", d=r.dimension)
    rank = decompose(own).rank
    better = rank >= separable_rank(r.grid)
    which = ", by which it is separable" if better else ""
    return f", {rank - r.rank} fewer than its formula in float64{which}" if rank > r.rank else ""


def shape_on_grid(enc: Encoding, r: GridSpectrum) -> str:
    """Which directions the frequencies have."""
    if isnan(r.summary.lowest_bin_share):
        return "All codes are zero, so there is no spectrum."
    a2, a4 = r.isotropy["A2"], r.isotropy["A4"]
    if isnan(a4):
        return "All energy is at frequency 0: the same code everywhere."
    smeared = f", smeared by sigma {number(r.sigma)}" if r.sigma else ""
    length = f"mean frequency {number(r.summary.centroid, 3)} rad a point{smeared}"
    if axis_parts(enc) is not None:
        which = "one axis" if a2 > BOUND else "the axes"
        return f"All frequencies lie on {which} (A4 = {number(a4, 2)}), {length}."
    if a4 >= BOUND:
        return f"All frequencies lie in two crossing directions (A4 = {number(a4, 2)}), {length}."
    if max(a2, a4) <= ROUND:
        return (
            f"No direction is preferred (A2 = {number(a2, 2)}, A4 = {number(a4, 2)}, 0 is round), "
            f"{length}."
        )
    return (
        f"Directions are uneven (A2 = {number(a2, 2)}, A4 = {number(a4, 2)}; 0 is round, 1 bound "
        f"to an axis or to two crossing ones), {length}."
    )


def idle_on_grid(enc: Encoding, r: GridSpectrum) -> str:
    """Frequencies whose waves are longer than the side."""
    if r.idle is None or not max(share for share in [*r.idle, 0] if not isnan(share)) >= MANY:
        return ""
    shares = [None if isnan(share) else f"{100 * share:.0f} %" for share in r.idle]
    return f"Idle, with waves longer than the side: of the frequencies along {by_axis(shares)}."


def aliasing_on_grid(enc: Encoding, r: GridSpectrum) -> str:
    """Frequencies that whole points cannot tell from slower ones."""
    if r.aliased is None or not max(share for share in [*r.aliased, 0] if not isnan(share)) > 0:
        return ""
    shares = [None if isnan(share) else f"{100 * share:.0f} %" for share in r.aliased]
    return (
        f"Aliased, above π and looking slower at whole points: of the frequencies along "
        f"{by_axis(shares)} (largest step {number(r.largest_step, 3)} rad)."
    )


def from_its_frequencies(r: Reconstructions | GridReconstructions) -> str:
    """What something is rebuilt from."""
    smeared = f", smeared by sigma {number(r.sigma)}," if r.sigma else ""
    return f"From its frequencies alone{smeared}"


def why_wide(enc: Encoding, r: Reconstructions | GridReconstructions) -> str:
    """What makes a rebuilt peak wide, where waves are declared: the end of a sentence.

    Waves longer than the lattice, or than all positions where these are fewer, are nearly the same
    at neighbours, whatever their number.
    """
    slow, span = r.below_first_bin, "the lattice"
    if slow is not None and enc.measure is not None and isinstance(r.lattice, int):
        length = min(r.lattice, len(enc))
        slow = int((np.abs(enc.measure.frequencies) < 2 * pi / length).sum())
        span = f"{length} positions"
    if not slow or slow < MANY * r.frequencies_total:
        return ""
    narrowed = " (smearing narrows it: --sigma 0 has all of its width)" if r.sigma else ""
    return (
        f", wide because {slow} of its {r.frequencies_total} waves are longer than {span} and "
        f"hardly change from one to the next{narrowed}"
    )


def point_from_frequencies(enc: Encoding, r: GridReconstructions) -> str:
    """How sharp a point comes back from the frequencies alone, and in which shape."""
    one = r.reconstructions[0]
    if isnan(one.peak):
        return "All codes are zero, so there is nothing to rebuild a point from."
    peak, error = number(one.peak, 3), number(one.error, 3)
    how = f"{peak} of 1 high (error {error}; 0 is exact)"
    if one.error <= EXACT:
        return f"{from_its_frequencies(r)} a point comes back exactly, {how}."
    area = f"{one.half_max_area} of {prod(r.lattice)} points at or above half of it"
    if one.half_max_area > PLATEAU * prod(r.lattice):
        least = f"no point is below {number(float(one.values.min()) / one.peak, 2)} of it"
        shape = f"as hardly more than a plateau, {how}: {area}, and {least}"
    elif is_cross(one.values) and one.half_max_area > 1:
        share = (
            f"{100 * one.cross:.0f} % of the energy is on points that share a coordinate with it"
        )
        shape = f"as a cross, {how}: {share}; {area}"
    else:
        shape = f"blurred, as a peak {how}, {area}"
    return f"{from_its_frequencies(r)} a point comes back {shape}{why_wide(enc, r)}."


def is_cross(values: np.ndarray) -> bool:
    """Whether a picture is nearly a sum of one function an axis, as ridges that cross are.

    >>> is_cross(np.array([[3, 1, 1], [2, 0, 0]])), is_cross(np.eye(3))
    (True, False)
    """
    mean, axes = values.mean(), range(values.ndim)
    others = [tuple(b for b in axes if b != a) for a in axes]
    sums = sum(values.mean(axis=other, keepdims=True) - mean for other in others) + mean
    return bool(((values - sums) ** 2).sum() <= CROSS * ((values - mean) ** 2).sum())


def point_from_codes(enc: Encoding, r: GridReconstructions) -> str:
    """Whether a linear map recovers points from the codes."""
    error, points = number(r.inverse_error, 2), f"{prod(enc.domain.sides)} points"
    if r.inverse_error <= EXACT:
        return f"A linear map on the codes recovers all {points} (largest error {error})."
    return (
        f"A linear map on the codes does not recover all {points}: the worst comes back wrong by "
        f"{error}, where a point is 1 high; check-faithful says why."
    )


def points_without_code(enc: Encoding, r: GridReconstructions) -> str:
    """Points beyond the encoding's grid."""
    beyond = [point_of(one.position) for one in r.reconstructions if one.inverse_error is None]
    if not beyond:
        return ""
    have = "have" if len(beyond) > 1 else "has"
    return f"{', '.join(beyond)} {have} no code on the {size_of(enc.domain.sides)} grid."


def not_a_rotation(enc: Encoding, r: GridRelations) -> str:
    """What turns the numbers of a head and changes their lengths."""
    if r.rotation_residual is None or r.rotation_residual <= EXACT:
        return ""
    return (
        "What turns a head is not a rotation: squared lengths change by up to "
        f"{number(100 * r.rotation_residual, 3)} %."
    )


def products_by_displacement(enc: Encoding, r: GridRelations) -> str:
    """Whether inner products depend on the displacement alone."""
    if r.kernel is None:
        if enc.domain.kind == "lag":
            return "These are biases of displacements: there are no inner products of codes by lag."
        return "All codes are zero: they say nothing about points."
    if r.toeplitz_residual > EXACT:
        return (
            "Inner products of codes depend on the points and not on their displacement alone "
            f"(Toeplitz residual {number(r.toeplitz_residual, 2)}; 0 is the displacement alone)."
        )
    rises = by_axis([None if k is None else str(k) for k in r.first_rise])
    if all(k is None for k in r.first_rise):
        return "Inner products of codes depend on the displacement alone; along axes they fall."
    return (
        "Inner products of codes depend on the displacement alone; they rise first at the lag: "
        f"{rises.replace('–', 'never')}."
    )


def products_on_grid(enc: Encoding, r: GridRelations) -> str:
    """What inner products depend on, and whether diagonals are treated like rows and columns."""
    return " ".join(filter(None, [products_by_displacement(enc, r), products_on_diagonals(r)]))


def products_on_diagonals(r: GridRelations) -> str:
    """Whether inner products fall along diagonals as along rows and columns."""
    found = r.diagonals
    if found is None or max(*found.on_axes, found.on_diagonals) < LEFT:
        return ""  # nothing is left along any
    one, other = axis_names(len(r.grid))[-2:]
    along = by_name([one, other], found.on_axes)
    at = point_of([0] * (len(r.grid) - 2) + [found.diagonal] * 2)
    return (
        f"Diagonals are {'' if found.alike else 'not '}treated like rows and columns: of the inner "
        f"product at lag 0 are left {along} after {found.straight} points, and "
        f"{number(found.on_diagonals, 3)} as far on the diagonal, at {at}."
    )


def steps_along_axes(enc: Encoding, r: GridRelations) -> str:
    """Whether one linear map leads from every code to the next along an axis."""
    known = [x for x in r.shift_residual or () if x is not None]
    if not known or r.kernel is None:
        return ""
    if max(known) <= EXACT:
        return "One matrix an axis leads from every code to the next along it."
    return (
        "No matrix leads from every code to the next: the best is off by "
        f"{number(100 * max(known), 2)} % of the codes' size."
    )
