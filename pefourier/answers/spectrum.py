"""How is it told which frequencies there are? The answer of `pefourier spectrum`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isnan, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.analysis.bands import density_by_decade, group_waves, is_slow, single_waves
from pefourier.answers import plot
from pefourier.answers.places import POINTS, axis_names, by_axis, unit_of_waves
from pefourier.answers.telling import (
    AXIS_FACTS,
    Answer,
    Fact,
    Said,
    Telling,
    any_grid,
    meaning_of,
    sentence,
    side_by_side,
    why_no_axes,
)
from pefourier.encodings.axis_parts import axis_parts
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.errors import PefourierError
from pefourier.geometry.torus import multiplicity
from pefourier.writing.terminal_chart import chart, shades
from pefourier.writing.text import aligned, join, number

if TYPE_CHECKING:
    from pefourier.analysis.spectrum import Spectrum

LITTLE = 0.0005  # of the energy
WAVES = ("encoding", "frequencies", "how many")
WAVES += ("shortest wave", "longest wave", "most turns in N", "fewest turns in N")
FLAT, SLOW, FAST = 0.9, pi / 2, 0.75  # flatness; where 95 % lie below; share above pi / 2
STILL = 0.95  # of the energy at frequency 0: codes are the same
UNDECLARED = "not declared"
ALIASED = 3.0  # positions: of shorter waves it matters that others look the same
FEW_WAVES, HELD = 4, 0.9  # waves that are named where they hold so much of the energy
RESOLVED, OVERLAP = 0.01, 0.02  # of a frequency and of the energy: how well waves are told apart
SHARED = 0.05  # of a table's energy: what is the same in all rows is worth a sentence from here on
BOUND, ROUND = 0.99, 0.15  # A4 from which directions are two, and below which there is none
MOST_WAVES = 0.5  # share of frequencies that is worth a sentence
SPARSE = 0.5  # of a lattice: where fewer points have energy they are single lines
ACROSS = 4  # panels in a row
MEANS = partial(meaning_of, "spectrum")
MANY = {"positions": "position", "steps": "step", "units": "unit"}  # of which there is one
TICKS = ([-np.pi, 0, np.pi], ["−π", "0", "π"])


def by_decade(answers: Sequence[Answer], axis: str = "auto") -> bool:
    """Whether spectra are to be drawn over the logarithm of frequency; on grids they are not."""
    if axis == "auto":
        return not any_grid(answers) and all(is_slow(a.encoding, a.result.method) for a in answers)
    for a in answers if axis == "log" else ():
        if a.result.on_grid:
            raise PefourierError(
                f"--axis log draws frequencies of one axis; {a.encoding.label} has several, leave "
                "it out or the option"
            )
    return axis == "log"


def spectrum_text(answers: Sequence[Answer]) -> str:
    """The facts of each encoding and its declared waves; on grids those of axes and directions."""
    facts = [*SPECTRUM_FACTS, *(GRID_SPECTRUM_FACTS if any_grid(answers) else ())]
    if any(answer.result.summary.mean_share is not None for answer in answers):
        facts += TABLE_SPECTRUM_FACTS
    text, rows = side_by_side(facts, answers), [WAVES]
    for a in answers:
        groups = [] if a.result.on_grid else group_waves(a.encoding, a.result.lattice)
        for g in groups if len(groups) > 1 else ():
            which = f"{g.first}…{g.last}" if g.last > g.first else str(g.first)
            ends = (unit_of_waves(a.encoding)[0] * end for end in (g.shortest, g.longest))
            values = (g.bands, *ends, g.most_turns, g.fewest_turns)
            rows.append((a.encoding.label, which, *map(number, values)))
    return text + (f"\n{aligned(rows, keys=2)}" if len(rows) > 1 else "")


def spectrum_chart(answers: Sequence[Answer], colour: bool, axis: str = "linear") -> str:
    """The curves of Fig. 1, or those by decade, and a picture of each density on a grid."""
    flat = [a for a in answers if not a.result.on_grid]
    text = lines_chart(flat, colour, axis) + "\n" if flat else ""
    for a in answers:
        if a.result.on_grid:
            density = a.result.density.sum(axis=tuple(range(a.result.density.ndim - 2)))
            shifted = np.fft.fftshift(density, axes=0)
            label = f"{a.encoding.label}: share of energy; ω_y from -π at the top, ω_x from 0"
            text += shades(shifted, label) + "\n"
    return text


def lines_chart(answers: Sequence[Answer], colour: bool, axis: str) -> str:
    """Densities by decade, or over the lattice; over its logarithm where one lies at its start."""
    decades = by_decade(answers, axis)
    some_slow = axis == "auto" and any(is_slow(a.encoding, a.result.method) for a in answers)
    curves, first = [], int(some_slow and not decades)  # frequency 0 has no logarithm
    for a in answers:
        one = density_by_decade(a.encoding, a.result.method) if decades else a.result
        zero = share_at_zero(one.at_zero if decades else one.density[0] * first)
        curves.append((f"{a.encoding.label}{zero}", per_unit(a, one)[first:], one.density[first:]))
    slow = decades or some_slow
    xlabel = f"ω, radians per {units(answers, one=True)}{' (log)' if slow else ''}"
    each = "per factor ten of frequency" if decades else "at each lattice frequency"
    return chart(curves, xlabel, f"share of energy {each}", colour=colour, logarithmic=slow)


def per_unit(answer: Answer, found: Any) -> np.ndarray:
    """The frequencies of a density: radians per position, or unit of irregular times."""
    return found.omega / unit_of_waves(answer.encoding)[0]


def units(answers: Sequence[Answer], one: bool = False) -> str:
    """What waves are told in, or one of it."""
    timed = [a.encoding for a in answers if a.encoding.domain.kind == "time"]
    names = [] if len(timed) == len(answers) else ["positions"]
    names = dict.fromkeys([*names, *(unit_of_waves(enc)[1] for enc in timed)])
    told = " or ".join(names)
    return " ".join(MANY.get(word, word) for word in told.split()) if one else told


def frequency_label(answers: Sequence[Answer]) -> str:
    """The name of an axis of frequencies."""
    return f"angular frequency ω (radians per {units(answers, one=True)})"


def share_at_zero(share: float) -> str:
    """What a logarithmic axis leaves out, as a curve's name says it; nothing where it is little.

    >>> share_at_zero(0.25), share_at_zero(0.0)
    (' (25 % at 0)', '')
    """
    return f" ({100 * share:.3g} % at 0)" if share >= LITTLE else ""


def share_below(spectrum: Spectrum) -> str | None:
    """Declared frequencies below the first bin, with their share of all."""
    below, total = spectrum.summary.below_first_bin, spectrum.summary.frequencies_total
    if below is None:
        return None
    which = which_never_turn(spectrum)
    return f"{below} ({100 * below / total:.0f} %){f', numbers {which}' if which else ''}"


def both_counts(spectrum: Spectrum) -> str | None:
    """How many frequencies the energy is spread over, and how many they look where smeared."""
    s = spectrum.summary
    if s.effective is None:
        return None
    smeared = f"; {number(s.effective, 3)} points smoothed" if spectrum.sigma else ""
    return f"{number(s.effective_unsmeared, 4)}{smeared}"


def both(number_of: Callable[[Any], float]) -> Callable[[Spectrum], float | str]:
    """A single number of a spectrum, and what a lattice or smearing makes of it."""

    def told(spectrum: Spectrum) -> float | str:
        own, seen = (
            number(number_of(one)) for one in (spectrum.before_smearing(), spectrum.summary)
        )
        if isnan(spectrum.summary.lowest_bin_share):
            return spectrum.summary.lowest_bin_share
        how = "smoothed" if spectrum.sigma else "on the lattice"
        return own if own == seen else f"{own}; {seen} {how}"

    return told


def why_no_root(answer: Answer) -> str:
    """Why Eq. 16 does not apply."""
    declared = answer.result.frequencies is not None
    return "no geometric grid" if declared else "not declared"


def why_no_table(answer: Answer) -> str:
    """Why no share of the mean was taken."""
    return "of tables only" if answer.result.method == "declared" else "none"


def a_step(told: Callable[[Spectrum], Any]) -> Callable[[Spectrum], Any]:
    """Frequencies, of irregular times with what they are per."""

    def value(r: Spectrum) -> Any:
        found = told(r)
        timed = r.about and r.about[0].domain.irregular
        if not timed or found is None or (isinstance(found, float) and isnan(found)):
            return found
        return f"{found if isinstance(found, str) else number(found)} per mean step"

    return value


SPECTRUM_FACTS = [
    Fact("lattice points N", lambda r: size_of(r.lattice) if r.on_grid else r.lattice),
    Fact("bandwidth, lattice steps", lambda r: r.sigma or "0 (not smoothed)"),
    Fact("frequencies are", lambda r: "declared" if r.method == "declared" else "estimated"),
    Fact("how many", lambda r: r.summary.frequencies_total, UNDECLARED),
    Fact("of them below the first bin 2π/N", share_below, UNDECLARED),
    Fact("effective number, exp(entropy)", both_counts, "none: codes are zero"),
    Fact("first in the lowest bin (Eq. 16)", lambda r: r.summary.lowest_bin_index, why_no_root),
    Fact("share at frequency 0", both(lambda s: s.lowest_bin_share), "none: codes are zero"),
    Fact("mean frequency, rad", a_step(both(lambda s: s.centroid)), "none: codes are zero"),
    Fact("95 % lie at or below, rad", a_step(both(lambda s: s.cutoff95)), "none: codes are zero"),
    Fact("flatness (1 = flat)", both(lambda s: s.flatness), "none: codes are zero"),
]


TABLE_SPECTRUM_FACTS = [
    Fact("share the same in all rows", lambda r: r.summary.mean_share, why_no_table)
]


GRID_SPECTRUM_FACTS = [
    *AXIS_FACTS,
    Fact("largest step, rad", lambda r: r.largest_step, why_no_axes),
]


def spectrum_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding and lattice frequency; where some have several axes, of each axis.

    What has one axis stands along the last then.
    """
    axes = max((np.ndim(a.result.density) for a in answers), default=1)
    names = [f"_{name}" for name in axis_names(axes)] if axes > 1 else [""]
    yield "encoding", "spec", *(f"k{n}" for n in names), *(f"omega{n}" for n in names), "density"
    for a in answers:
        r, identity = a.result, (a.encoding.name, a.encoding.spec)
        omega = r.omega if r.on_grid else [r.omega]
        none = [None] * (axes - len(omega))
        for k, share in np.ndenumerate(r.density):
            at = [one[i] for one, i in zip(omega, k, strict=True)]
            yield *identity, *none, *k, *none, *at, share


def same_everywhere(enc: Encoding, r: Spectrum) -> str:
    """How much of a table is no news of a position."""
    if r.summary.mean_share is None or r.summary.mean_share < SHARED:
        return ""
    if sum(share for _, share, _ in few_waves(r)) > STILL:
        return ""  # it is that of a wave longer than the table
    share = f"{100 * r.summary.mean_share:.3g} %"
    return sentence("spectrum", "mean", share=share)


def shape(enc: Encoding, r: Spectrum) -> tuple[str, str]:
    """Where the energy lies: nowhere, at zero, evenly, in slow waves, in fast ones."""
    s, (step, unit) = r.before_smearing(), unit_of_waves(enc)
    if isnan(s.lowest_bin_share):
        return MEANS("ALL ZERO")
    if s.lowest_bin_share >= STILL:
        return MEANS("CONSTANT", share=100 * s.lowest_bin_share, points=POINTS[enc.domain.kind])
    flatness = (s if is_blurred(r) else r.summary).flatness
    if flatness >= FLAT:
        return MEANS("EVEN", flatness=number(flatness, 3))
    if waves := few_waves(r):
        held = 100 * sum(share for _, share, _ in waves)
        return MEANS("FEW WAVES", held=held, waves=waves_in_words(waves, step), unit=unit)
    told = {"wave": wave(s.cutoff95 / step), "unit": unit, "slow": below_first_step(enc, r)}
    told["usual"] = "" if enc.domain.kind == "lag" else sentence("spectrum", "usual")
    fastest = r.measure[0][r.measure[1] > 0].max()
    if s.cutoff95 <= SLOW and s.cutoff95 < fastest:
        return MEANS("MOSTLY SLOW", **told)
    fast = float(r.plain[r.omega > pi / 2].sum())
    if fast >= FAST:
        return MEANS("MOSTLY FAST", share=100 * fast, short=number(4 * step, 3), **told)
    middle = r.frequency_holding(0.5)
    most = "95 %" if s.cutoff95 < fastest else "all"
    return MEANS("SLOW AND FAST", half=wave(middle / step), most=most, **told)


def waves_in_words(waves: Sequence[tuple[float, float, float]], step: float) -> str:
    """Lengths of waves, with shares where none is also another's."""
    lengths = [number(2 * pi / omega * step, 4) for omega, _, _ in waves]
    if len(waves) == 1:
        return f"a wave of {lengths[0]}"
    if all(abs(own - share) <= OVERLAP for _, share, own in waves):
        shares = [f" ({100 * share:.0f} %)" for _, share, _ in waves]
        lengths = map("".join, zip(lengths, shares, strict=True))
    return f"waves of {join(lengths)}"


def few_waves(r: Spectrum) -> list[tuple[float, float, float]]:
    """Frequencies, shares and own energies of the few waves that hold a measured spectrum.

    None where what is left of the fit could have moved one of them by more than it is told to.
    """
    found = r.few_waves
    if found is None:
        return []
    told = (np.cumsum(found.share >= SHARED) <= FEW_WAVES) & (found.share >= SHARED)
    if found.share[told].sum() < HELD or (found.error > RESOLVED * found.omega)[told].any():
        return []
    return [*zip(found.omega[told], found.share[told], found.alone[told], strict=True)]


def is_blurred(r: Spectrum) -> bool:
    """Whether a smoothed lattice is so short that everything looks flat."""
    return 8 * r.sigma > len(r.omega)


def wave(omega: float) -> str:
    """The length of a wave of an angular frequency.

    >>> wave(pi / 2), wave(0.0)
    ('4', 'infinitely many')
    >>> wave(1e-4)
    '62800'
    """
    if not omega:
        return "infinitely many"
    short = number(float(2 * pi / omega), 2 if 2 * pi / omega < 100 else 3)
    return f"{float(short):.0f}" if 1e3 < 2 * pi / omega < 1e15 else short


def beyond_lattice(r: Spectrum) -> np.ndarray:
    """Numbers of the frequencies that a lattice cannot tell from zero: waves longer than it."""
    if r.frequencies is None:
        return np.empty(0, dtype=int)
    return np.flatnonzero((r.frequencies > 0) & (r.frequencies < 2 * pi / r.lattice))


def below_first_step(enc: Encoding, r: Spectrum) -> str:
    """How many frequencies never turn, as a sentence goes on."""
    slow = len(beyond_lattice(r))
    if not slow:
        return ""
    step, unit = unit_of_waves(enc)
    within = f"{number(r.lattice * step, 3) if step != 1 else r.lattice} {unit}"
    if enc.domain.irregular and r.lattice == len(enc):
        ends = (number(float(enc.domain.x[k]), 5) for k in (0, -1))
        within += ", one mean step more than from {} to {}".format(*ends)
    waves = len(r.frequencies)
    return sentence("spectrum", "never turn", slow=slow, within=within, waves=waves)


def which_never_turn(r: Spectrum) -> str | None:
    """The numbers of a run of frequencies that never turn, and their columns."""
    which = () if r.on_grid else beyond_lattice(r)
    if len(which) < 2 or which[-1] - which[0] >= len(which):
        return None
    columns = columns_of_waves(r.about[0], which) if r.about else ""
    return f"{which[0]} to {which[-1]}{columns}"


def coarse(enc: Encoding, r: Spectrum) -> str:
    """That smoothing hides what is told, where a lattice is too short for it."""
    zero = isnan(r.summary.lowest_bin_share)
    return sentence("spectrum", "coarse", r=r) if is_blurred(r) and not zero else ""


def columns_of_waves(enc: Encoding, which: np.ndarray) -> str:
    """The columns of a run of waves, of two each: the end of their numbers; empty if not known.

    >>> from pefourier.encodings import load
    >>> for layout in ("halves", "interleaved"):
    ...     print(columns_of_waves(load(f"rope:layout={layout}", 8, 16), np.array([6, 7])))
     (columns 6 to 7 and 14 to 15)
     (columns 12 to 15)
    """
    half, first, last = enc.dim // 2, which[0], which[-1]
    if enc.measure is None or len(enc.measure.frequencies) * 2 != enc.dim:
        return ""
    layout = enc.params.get("layout")
    if layout == "halves":
        return f" (columns {first} to {last} and {half + first} to {half + last})"
    return f" (columns {2 * first} to {2 * last + 1})" if layout == "interleaved" else ""


def aliasing(enc: Encoding, r: Spectrum) -> str:
    """Frequencies that whole positions cannot tell from slower ones."""
    folds = r.frequencies is not None and not enc.domain.irregular
    fast = r.frequencies[r.frequencies > pi].tolist() if folds else []
    above, seen = len(fast), [as_slower(one) for one in sorted(set(fast))]
    if not above:
        return aliases_of_measured(enc, r)
    they = "is above π and looks like a slower one" if above == 1 else "are above π and look slower"
    told = f"a wave of {join(seen)}" if len(seen) < 4 else f"the fastest, {seen[-1]}"
    return (
        f"{above} of {len(r.frequencies)} frequencies {they} at whole positions (aliasing): {told}."
    )


def as_slower(omega: float) -> str:
    """A wave faster than half a turn a step, and as which one steps show it, both in steps.

    >>> as_slower(2 * pi / 1.5), as_slower(2 * pi)
    ('1.5 as 3', '1 as a constant')
    """
    slow = abs((omega + pi) % (2 * pi) - pi)
    wave = number(2 * pi / slow) if slow > 1e-9 * omega else "a constant"
    return f"{number(2 * pi / omega)} as {wave}"


def aliases_of_measured(enc: Encoding, r: Spectrum) -> str:
    """What else the fastest of the waves of a table may be, where it is nearly the shortest."""
    none = enc.domain.irregular or isnan(r.summary.lowest_bin_share)
    waves = [] if none else few_waves(r)
    fastest = max((omega for omega, *_ in waves), default=0.0)
    if not 2 * pi / ALIASED < fastest < pi * (1 - 1e-9):
        return ""
    other = 2 * pi / (2 * pi - fastest)
    return sentence("spectrum", "aliases", seen=2 * pi / fastest, other=other)


def waves_in_time(enc: Encoding, r: Spectrum) -> str:
    """The ends of the waves of a formula over irregular times, in the unit of these."""
    step, unit = unit_of_waves(enc)
    rates = enc.rates if enc.measure is None else enc.measure.frequencies / step
    if not enc.domain.irregular or rates is None or not np.any(rates):
        return ""
    waves = np.unique(2 * pi / np.abs(rates[rates != 0]))
    longest = join(number(float(one), 3) for one in waves[:-4:-1])
    return sentence("spectrum", "lasting", longest=longest, shortest=float(waves[0]), unit=unit)


def before_training(enc: Encoding, r: Spectrum) -> str:
    """Tables that training will change."""
    if not enc.untrained:
        return ""
    return "This is the encoding before training; for a trained one give the file of its table."


def shape_on_grid(enc: Encoding, r: Spectrum) -> tuple[str, str]:
    """Which directions the frequencies have."""
    if isnan(r.summary.lowest_bin_share):
        return MEANS("ALL ZERO")
    a2, a4 = r.isotropy["A2"], r.isotropy["A4"]
    if isnan(a4):
        return MEANS("CONSTANT | grid")
    length = f"mean frequency is {number(r.before_smearing().centroid, 3)} rad per point"
    which = "ALL DIRECTIONS" if max(a2, a4) <= ROUND else "UNEVEN DIRECTIONS"
    if axis_parts(enc) is not None:
        which = "ALONG ONE AXIS" if a2 > BOUND else "ALONG THE AXES"
    elif a4 >= BOUND:
        which = "TWO DIRECTIONS"
    return MEANS(which, a2=number(a2, 2), a4=number(a4, 2), length=length)


def idle_on_grid(enc: Encoding, r: Spectrum) -> str:
    """Frequencies whose waves are longer than the side."""
    if r.idle is None or not max(share for share in [*r.idle, 0] if not isnan(share)) >= MOST_WAVES:
        return ""
    shares = shares_by_axis(r.idle)
    return f"Waves longer than the side, which never complete a turn: {shares}."


def shares_by_axis(shares: Sequence[float]) -> str | None:
    """A share of each axis in percent."""
    return by_axis([None if isnan(share) else f"{100 * share:.0f} %" for share in shares])


def aliasing_on_grid(enc: Encoding, r: Spectrum) -> str:
    """Frequencies that whole points cannot tell from slower ones."""
    if r.aliased is None or not max(share for share in [*r.aliased, 0] if not isnan(share)) > 0:
        return ""
    return sentence("spectrum", "aliased", shares=shares_by_axis(r.aliased), r=r)


def spectrum(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Densities over angular frequency, as Fig. 1 of the paper; in panels where there are many.

    On grids they are pictures, with what they sum to along each axis.
    """
    if any_grid(answers):
        return spectrum_on_grids(answers, look)
    if len(answers) > plot.MANY:
        return spectrum_panels(answers, look)
    figure, ((axes,),) = plot.make_panels(1, 1, (plot.WIDTH, 3.2), look)
    for a in answers:
        label = plot.caption(a.encoding, plot.room_for_names(figure))
        x, y = per_unit(a, a.result), a.result.density
        (line,) = axes.plot(x, y, label=label, linewidth=1.4)
        if a.result.sigma == 0 and (y > 0).mean() < SPARSE:  # lines alone, behind the curves
            line.set(data=([], []), linestyle="-", linewidth=0.7)
            axes.vlines(x[y > 0], 0, y[y > 0], color=line.get_color(), linewidth=0.7, zorder=1)
    axes.set(xlabel=frequency_label(answers), ylabel="share of energy $g_k$")
    axes.set_ylim(bottom=0)
    set_frequency_axis(axes, answers)
    plot.add_legend(figure, axes, look)
    return figure


def spectrum_by_decade(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Densities over the logarithm of frequency, with the lengths of the waves above."""
    if len(answers) > plot.MANY:
        return spectrum_panels(answers, look, logarithmic=True)
    figure, ((axes,),) = plot.make_panels(1, 1, (plot.WIDTH, 3.4), look)
    axes.set_xscale("log")
    plain = ((a.result.sigma, a.result.method) == (0, "declared") for a in answers)
    apart = all(plain)  # single frequencies, where nothing was to be smoothed
    for i, a in enumerate(answers):
        found = density_by_decade(a.encoding, a.result.method)
        zero = share_at_zero(found.at_zero)
        label = (
            plot.caption(a.encoding, plot.room_for_names(figure) - plot.LETTER * len(zero)) + zero
        )
        if apart:
            own = single_waves(a.encoding, a.result.method)
            each, below = per_unit(a, own), {"color": f"C{i}", "linewidth": 0.9, "alpha": 0.5}
            axes.plot(each, own.density, "o", color=f"C{i}", label=label, markersize=3)
            axes.vlines(each, 0, own.density, **below)
        else:
            axes.plot(per_unit(a, found), found.density, label=label, linewidth=1.4)
    lengths = {len(a.encoding) * unit_of_waves(a.encoding)[0] for a in answers}
    if len(lengths) == 1:
        length = lengths.pop()
        turn = {"color": "0.6", "linewidth": 0.8, "linestyle": ":"}
        axes.axvline(2 * np.pi / length, label=f"one turn in {length:.6g} {units(answers)}", **turn)
    share = "share of energy of each wave" if apart else "share of energy per decade"
    axes.set(xlabel=frequency_label(answers), ylabel=share)
    axes.set_ylim(bottom=0)
    limits = axes.get_xlim()
    axes.set_xlim(limits)
    if figure.get_figwidth() < plot.NARROW:  # between powers of ten names would overlap
        axes.xaxis.set_minor_formatter("")
    plot.add_legend(figure, axes, look)
    above = axes.twiny()
    above.set(xscale="log", xlabel=f"length of the wave ({units(answers)})")
    above.set_xlim([2 * np.pi / omega for omega in limits])
    return figure


def spectrum_panels(
    answers: Sequence[Answer], look: plot.Look = plot.USUAL, logarithmic: bool = False
) -> plot.Figure:
    """Densities side by side, each on its own scale: what differs is where the energy lies."""
    width = look.width or plot.WIDTH * 1.3
    across = max(2, min(ACROSS, int(width / 1.5)))
    rows = -(-len(answers) // across)
    figure, panels = plot.make_panels(rows, across, (width, 0.5 + 1.05 * rows), look, sharex=True)
    for axes in panels.flat[len(answers) :]:
        axes.set_axis_off()
    for axes, a in zip(panels.flat, answers, strict=False):
        found = density_by_decade(a.encoding, a.result.method) if logarithmic else a.result
        peak = np.nanmax(found.density, initial=0) or 1.0
        if np.isnan(found.density).any():
            place = {"ha": "center", "va": "center", "transform": axes.transAxes}
            axes.text(0.5, 0.5 / 1.05, "no spectrum", fontsize=8, **place)
        axes.fill_between(per_unit(a, found), found.density / peak, color="C0", linewidth=0)
        axes.set_title(
            plot.caption(a.encoding, 1.25 * (width - 0.4) / across),
            fontsize=8,
            loc="left",
            pad=2,
        )
        axes.set_ylim(0, 1.05)
        axes.set_yticks([])
        axes.tick_params(labelbottom=True, labelsize=7)
        if logarithmic:
            axes.set_xscale("log")
        else:
            set_frequency_axis(axes, answers, 2)
    figure.supxlabel(frequency_label(answers), fontsize=9)
    share = "per decade" if logarithmic else "$g_k$"
    figure.supylabel(f"share of energy {share} / its largest", fontsize=9)
    return figure


def set_frequency_axis(axes: plot.Axes, answers: Sequence[Answer], steps: int = 4) -> None:
    """Let the axis go from 0 to pi with ticks in parts of pi; of irregular times to the end."""
    if any(a.encoding.domain.irregular for a in answers):
        axes.set_xlim(left=0)
        return
    names = {0: "0", 1: "π/4", 2: "π/2", 3: "3π/4", 4: "π"}
    axes.set_xlim(0, np.pi)
    ticks = range(0, 5, 4 // steps)
    axes.set_xticks([np.pi * k / 4 for k in ticks], [names[k] for k in ticks])


def whole_plane(density: np.ndarray, sides: Sequence[int]) -> np.ndarray:
    """The density over rows and columns of the whole torus, the constant in the middle.

    Further axes are summed over.

    >>> whole_plane(np.array([[0.5, 0.5]]), (1, 3)).tolist()
    [[0.25, 0.5, 0.25]]
    """
    each = (density / multiplicity(sides)).reshape(-1, *density.shape[-2:])
    last = sides[-1]
    mirrored = each[:, (-np.arange(sides[-2])) % sides[-2], :][..., (last - 1) // 2 : 0 : -1]
    return np.fft.fftshift(np.concatenate([each, mirrored], axis=-1).sum(axis=0))


def both_ends(shares: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies along an axis of the plane and shares at them; of an even side also those at pi.

    They are those at -pi.
    """
    side = shares.shape[axis]
    index = np.arange(-(side // 2), side // 2 + 1)
    return 2 * np.pi * index / side, shares.take(index + side // 2, axis, mode="wrap")


def spectrum_on_grids(answers: Sequence[Answer], look: plot.Look) -> plot.Figure:
    """A row for each encoding: the density over both frequencies, and its sums along each."""
    rows = len(answers)
    figure, panels = plot.make_panels(rows, 2, (plot.WIDTH, 0.4 + 3.2 * rows), look)
    for (picture, sums), a in zip(panels, answers, strict=True):
        picture.set_title(plot.caption(a.encoding, 2.8), loc="left", fontsize=9)
        sums.set_ylabel("share of energy")
        if np.ndim(a.result.density) == 1:
            sums.plot(a.result.omega, a.result.density, label="of a sequence")
            set_frequency_axis(sums, [a], 2)
            picture.set_axis_off()
        else:
            draw_density(figure, picture, sums, a.result)
    panels[-1, 1].set_xlabel("ω (radians per point)")
    plot.add_legend_below(figure, *panels[:, 1])
    return figure


def draw_density(figure: plot.Figure, picture: plot.Axes, sums: plot.Axes, result: Any) -> None:
    """A density over the plane of rows and columns, and its two marginals."""
    plane = whole_plane(result.density, result.lattice)
    edges = []
    for axis, (name, style) in enumerate((("rows, y", "o-"), ("columns, x", "x--"))):
        omega, share = both_ends(plane.sum(axis=1 - axis), 0)
        sums.plot(omega, share, style, label=f"along {name}", linewidth=1, markersize=3)
        edges.append(omega[-1] + np.pi / plane.shape[axis])
    (down, across), shades = edges, {"cmap": "cividis", "vmin": 0, "interpolation": "nearest"}
    whole = both_ends(both_ends(plane, 0)[1], 1)[1]
    image = picture.imshow(whole, extent=(-across, across, down, -down), aspect="equal", **shades)
    picture.set(xlabel="ω along columns, x", ylabel="ω along rows, y", anchor="N")
    sums.set_ylim(0, 1.05 * max(line.get_ydata().max() for line in sums.get_lines()))
    for set_ticks in (picture.set_xticks, picture.set_yticks, sums.set_xticks):
        set_ticks(*TICKS)
    below = {"location": "bottom", "aspect": 12}
    bar = figure.colorbar(image, ax=picture, label="share of energy", **below)
    bar.set_ticks([0, whole.max()], labels=["0", f"{whole.max():.2g}"])


def conclude_spectrum(enc: Encoding, r: Spectrum) -> Said:
    """Where the energy lies, what shows more of it, and what is worth knowing beside."""
    if r.on_grid:
        more = idle_on_grid(enc, r), aliasing_on_grid(enc, r), before_training(enc, r)
        return Said(*shape_on_grid(enc, r), "", more)
    asides = coarse, same_everywhere, waves_in_time, aliasing, before_training
    return Said(*shape(enc, r), "", tuple(aside(enc, r) for aside in asides))


TOLD = Telling(
    "spectrum",
    conclude=conclude_spectrum,
    words=spectrum_text,
    rows=spectrum_rows,
    chart=spectrum_chart,
    figure=spectrum,
)
