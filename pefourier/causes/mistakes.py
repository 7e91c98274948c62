"""Mistakes in a rotation: made on purpose by name, and sought in what was observed.

Conventions
-----------
A mistake changes settings (those of `pefourier.causes.rope`), or the frequencies or angles derived
from them; mistakes.toml lists the mistakes with the values to try. A misreading is the result:
frequencies in radians per position, one per pair, and the sinusoids at any row. It explains a
rotation if both have equal sinusoids in every row, each number to its own rounding. All mistakes
are tried: of those that explain the rotation, the simplest is reported, then the one with the
smallest residual. Simple means few digits of new numbers: a setting that was ignored has none.
Without a misreading that explains all rows, no cause is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import exp, log, pi, sqrt
from typing import Any, Literal

import numpy as np

from pefourier.causes.misreadings import known_mistakes, layer_of, other_layers
from pefourier.causes.pairs import excess
from pefourier.causes.rope import Rope, is_rotation, usual_scalings
from pefourier.encodings.attention_decay import positions_below
from pefourier.encodings.domain import Places
from pefourier.encodings.encoding import Encoding, Floats
from pefourier.encodings.families.rotary import Head, scaling_parameters
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FLOAT32_EPS, FORMATS, Format, phase_rounding, rounded
from pefourier.geometry.waves import Complex, Numbers, Waves, apart, evaluate, of_frequencies

FARTHEST = 2**17  # rows whose fitted phases rule out readings
SEARCHED = 2**17  # positions searched for the cost of a mistake
SHOWN = 0.1  # radians that a pair must rotate over a table of cosines alone
SIMILAR = 1e-6  # relative tolerance for equal ratios of frequencies
DIGITS = range(1, 9)  # to which a fitted number is rounded
NEARBY = (0.0, 1e-7, -1e-7, 1e-5, -1e-5, 1e-3, -1e-3, 0.02, -0.02, 0.1, -0.1)  # shares added
USUAL = 2.0  # cost of a usual value; digits of any other number are added
LAST = 20.0  # cost of a mistake that explains any single pair
LEAST = 1e-250  # radians per position: frequencies of 0 have no rounding
HIDDEN = {"told": False}  # metadata of fields that no output shows
Changes = dict[str, tuple[Any, Any]]  # settings, correct and misread


@dataclass(frozen=True)
class Cause:
    """The mistake that explains a difference."""

    of: Literal["a", "b", "both"]  # the misread rotation, or both if settings differ
    misreadings: tuple[str, ...]  # codes of mistakes in mistakes.toml
    changes: Mapping[str, tuple[Any, Any]]  # settings, correct and misread
    below: Mapping[str, int | None]  # first position of cosines below 0.99, 0.9, 0.5, or None


@dataclass(frozen=True, eq=False)
class Misreading:
    """A mistake and the rotation that results from it."""

    code: str
    changes: Mapping[str, tuple[Any, Any]]
    omega: Floats = field(metadata=HIDDEN)  # (m,)
    cost: float = field(default=USUAL, metadata=HIDDEN)
    divisor: int = field(default=1, metadata=HIDDEN)  # of the integer division of positions
    angles: Callable[[Floats], tuple[Floats, Floats]] | None = field(default=None, metadata=HIDDEN)
    # the lowest and the highest angle (n, m) at positions, where angles were rounded

    @property
    def words(self) -> str:
        """What was done, as the end of "the second equals the first with ..."."""
        return str(known_mistakes()[self.code]["message"])

    def numbers(self, observed: Waves) -> Numbers:
        """Return the sinusoids from the start of the observed rows on, in their form."""
        begin = observed.offset if np.isfinite(observed.offset) else 0.0

        def waves(rows: Places) -> Complex:
            positions = np.asarray(rows // self.divisor + begin, dtype=float)
            if self.angles is None:
                phases = np.multiply.outer(positions, self.omega)
                return evaluate(phases, observed.factor, observed.form)
            low, high = (
                evaluate(a, observed.factor, observed.form) for a in self.angles(positions)
            )
            seen = observed.numbers(rows)
            nearer: Complex = np.where(apart(low, seen) <= apart(high, seen), low, high)
            return nearer

        return waves

    def apply(self, expected: Waves) -> Waves:
        """Return the sinusoids of the misread rotation."""
        waves = of_frequencies(self.omega, expected.factor, expected.length, expected.eps)
        return replace(waves, numbers=self.numbers(waves))

    def residual(self, expected: Waves, observed: Waves) -> float:
        """Return the largest difference from the observed rows in units of rounding.

        Frequencies are compared first; rows are read until one differs.
        """
        omega = self.omega
        if len(omega) != len(observed) or not np.isfinite(omega).all():
            return np.inf
        if observed.is_declared:
            limit = np.maximum(phase_rounding(np.abs(omega), FLOAT32_EPS), LEAST)
            largest = (np.abs(omega - observed.frequency) / limit).max()
            return np.inf if self.divisor > 1 or self.angles else float(largest)
        steps = min(observed.length, FARTHEST) // observed.repeats
        phases = phase_rounding(np.abs(omega), 1.0)
        tolerance = 0.05 + 2 * sqrt(2 * observed.eps) + 4 * steps * phases
        signs = (1, -1) if observed.form and observed.form.part == "cos" else (1,)
        rotated = omega * (observed.repeats / self.divisor)
        errors = [np.angle(np.exp(1j * (sign * rotated - observed.frequency))) for sign in signs]
        errors = errors if not observed.has_angles else [rotated - observed.frequency]
        if self.angles is None and (np.abs(errors).min(axis=0) * steps > tolerance).any():
            return np.inf
        source = replace(expected, frequency=omega, amplitude=observed.amplitude)
        return float(excess(source, observed, self.numbers(observed), stop=True)[0].max())


@dataclass(frozen=True, eq=False)
class Sought:
    """A rotation as meant, and what was observed in its place."""

    enc: Encoding
    expected: Waves
    observed: Waves
    rope: Rope | None

    @property
    def omega(self) -> Floats:
        """The frequencies as meant."""
        return self.expected.frequency

    @property
    def length(self) -> int:
        """The number of positions as meant."""
        return len(self.enc)

    def with_changes(
        self, code: str, changed: Mapping[str, Any], cost: float = USUAL
    ) -> Iterator[Misreading]:
        """Yield the rotation with other settings, unless they are equal or impossible."""
        if self.rope is None:
            return
        settings = self.rope.settings
        differing = {k: (settings.get(k), v) for k, v in changed.items() if settings.get(k) != v}
        try:
            omega = self.rope.with_(**changed).frequencies(self.length) if differing else None
        except PefourierError:
            return
        if omega is not None:
            yield Misreading(code, differing, omega, cost)


def find_mistakes(
    enc: Encoding, expected: Waves, observed: Waves, *, plain: bool = False
) -> tuple[Misreading, ...]:
    """Find the mistake, or the two, that turn a rotation into the observed pairs.

    The first of two is a part of the settings that was ignored. `plain`: only single mistakes
    whose number need not be fitted.

    >>> from pefourier.encodings import load
    >>> from pefourier.geometry.waves import declared, fit
    >>> meant = load("rope", 200, 32)
    >>> angles = np.outer(np.arange(200), 5e5 ** (-np.arange(16) / 16))
    >>> table = fit(np.hstack([np.cos(angles), np.sin(angles)]), 2.0**-52)
    >>> [mistake.changes for mistake in find_mistakes(meant, declared(meant), table)]
    [{'rho': (10000.0, 500000.0)}]
    """
    sought = Sought(enc, expected, observed, Rope.of(enc))
    if (single := simplest(sought, plain=plain)) or plain or sought.rope is None:
        return (single,) if single else ()
    for first in ignored_settings(sought):
        rope = sought.rope.with_(**{key: pair[1] for key, pair in first.changes.items()})
        waves = of_frequencies(first.omega, expected.factor, expected.length, expected.eps)
        second = simplest(replace(sought, rope=rope, expected=waves))
        if second is not None and len(first.omega) == len(observed):
            return first, second
    return ()


def simplest(sought: Sought, *, plain: bool = False) -> Misreading | None:
    """Return the single mistake of lowest cost, then residual, that explains all rows."""
    for kinds in (plain_mistakes, fitted_mistakes)[: 1 if plain else 2]:  # the second cost more
        by_cost: dict[float, list[Misreading]] = {}
        for reading in kinds(sought):
            by_cost.setdefault(reading.cost, []).append(reading)
        for cost in sorted(by_cost):
            residuals = [
                reading.residual(sought.expected, sought.observed) for reading in by_cost[cost]
            ]
            if min(residuals) <= 1:
                return by_cost[cost][int(np.argmin(residuals))]
    return None


def cause_of(readings: Sequence[Misreading], expected: Waves, of: Literal["a", "b"] = "a") -> Cause:
    """Describe mistakes and from which positions on they matter."""
    last, below = readings[-1], {}
    if last.divisor == 1 and last.angles is None and len(last.omega) == len(expected):
        below = dict(positions_below(expected.frequency, last.omega, SEARCHED))
    changes = {key: pair for reading in readings for key, pair in reading.changes.items()}
    return Cause(of, tuple(reading.code for reading in readings), changes, below)


def plain_mistakes(sought: Sought) -> Iterator[Misreading]:
    """Yield the rotation with each mistake that has no number, or a usual one."""
    for code, formula in FORMULAS.items():
        for reading in formula(sought):
            yield replace(reading, code=code)
    if sought.rope is None:
        return
    rope, settings = sought.rope, sought.rope.settings
    count, factor = 2 * len(sought.observed), settings.get("factor") or 1.0
    original, model = settings.get("original") or 0, sought.enc.file and sought.enc.file.model
    longest = model.longest() if model else 0
    likely: dict[str, list[float]] = {
        "original": [int(n) for n in (longest, original * factor, original / factor) if n],
        "partial": [count / rope.d],
        "d": [round(count / rope.partial)],
    }
    defaults = scaling_parameters(rope.scaling)
    yield from ignored_settings(sought)
    for code, mistake in known_mistakes().items():
        key = mistake.get("key", "")
        for a, b in mistake.get("swap", ()):
            if None not in (first := settings.get(a), second := settings.get(b)):
                yield from sought.with_changes(code, {a: second, b: first}, 1.0)
        if settings.get(key) is None:
            continue
        if key in defaults and isinstance(defaults[key].default, bool | int | float):
            yield from sought.with_changes(code, {key: defaults[key].default}, 1.0)
        for value in [*likely.get(key, []), *mistake.get("values", [])]:
            yield from sought.with_changes(code, {key: value})


def ignored_settings(sought: Sought) -> Iterator[Misreading]:
    """Yield the rotation without its scaling, and without its rotated fraction."""
    for code, mistake in known_mistakes().items():
        if (changes := mistake.get("set")) and (rope := sought.rope):
            if changes == {"scaling": "none"} and rope.scaling == "proportional":
                changes = {"factor": 1.0}
            yield from sought.with_changes(code, changes, 0.0)


def fitted_mistakes(sought: Sought) -> Iterator[Misreading]:
    """Yield the rotation with each mistake that has a number, fitted to the frequencies."""
    yield from fitted_settings(sought)
    yield from fitted_scalings(sought)
    omega, observed = sought.omega, sought.observed
    if len(omega) != len(observed):
        return
    rotating = np.flatnonzero((omega != 0) & (np.abs(observed.frequency) < 1))
    for k in rotating[:1]:  # the first pair without aliasing
        ratio = float(observed.frequency[k] / omega[k])
        for digits in DIGITS:
            step = float(f"{ratio:.{digits}g}")
            change: Changes = {"positions": ("p", f"{step:g} p")}
            yield Misreading("step", change, omega * step, USUAL + digits)
            if step and (inverse := float(f"{1 / ratio:.{digits}g}")):
                change = {"positions": ("p", f"p / {inverse:g}")}
                yield Misreading("step", change, omega / inverse, USUAL + digits)
    if len(omega) > 2:
        k = int(np.abs(observed.frequency - omega).argmax())
        changed = np.where(np.arange(len(omega)) == k, observed.frequency, omega)
        pair = {f"frequency of pair {k}": (float(omega[k]), float(changed[k]))}
        yield Misreading("single-pair", pair, changed, LAST)


def digits_of(value: float) -> int:
    """Count the significant digits of a number, at most 8.

    >>> digits_of(500000.0), digits_of(0.125), digits_of(7.0)
    (1, 3, 1)
    """
    return len(f"{value:.7e}".split("e")[0].replace(".", "").strip("-").rstrip("0")) or 1


def fitted_settings(sought: Sought) -> Iterator[Misreading]:
    """Yield one setting fitted to the mean logarithm of the observed frequencies."""
    rope, observed = sought.rope, sought.observed
    cosines = observed.form is not None and observed.form.part == "cos"
    rotating = observed.frequency * observed.length > (SHOWN if cosines else 0)  # visible
    if rope is None or not rotating.any() or (observed.frequency > 1 + SIMILAR).any():
        return
    from scipy.optimize import brentq  # slow import (0.25 s), rarely needed

    target = np.log(observed.frequency[rotating]).mean()
    for code, mistake in known_mistakes().items():
        key = mistake.get("key", "")
        if "range" not in mistake or not rope.settings.get(key):
            continue

        def mean_log(number: float, key: str = key) -> float:
            rebuilt = next(sought.with_changes("", {key: typed(key, number)}), None)
            omega = sought.omega if rebuilt is None else rebuilt.omega
            if omega.shape != rotating.shape or not (omega > 0).all():
                return np.nan
            return float(np.log(omega[rotating]).mean() - target)

        low, high = mistake["range"]
        low = max(low, 1.001 * (rope.settings.get(mistake.get("above", "")) or 0))
        high = min(high, (rope.settings.get(mistake.get("under", "")) or high) / 1.001)
        try:
            number = exp(brentq(lambda x, f=mean_log: f(exp(x)), log(low), log(high)))
        except ValueError:  # no sign change in the range
            continue
        for digits, share in product(DIGITS, NEARBY):
            value = typed(key, float(f"{number * (1 + share):.{digits}g}"))
            cost = USUAL + digits_of(value)
            yield from sought.with_changes(code, {key: value}, cost)


def typed(key: str, number: float) -> float:
    """Convert a number to the type of its setting: lengths are whole."""
    return max(1, round(number)) if key == "original" else float(number)


def fitted_scalings(sought: Sought) -> Iterator[Misreading]:
    """Yield scalings that were not meant, with the factor fitted to the lowest frequency."""
    rope, observed = sought.rope, sought.observed
    if rope is None or rope.scaling not in ("none", "linear", "ntk"):
        return
    plain = rope.unscaled.frequencies(sought.length)
    if plain.shape != observed.frequency.shape:
        return
    code, mistakes = scaling_code(rope), known_mistakes()
    ratio = plain[-1] / (observed.frequency[-1] or np.inf)
    factors = [float(f"{ratio:.{digits}g}") for digits in (1, 2, 3, 6)]
    factors += [float(value) for value in mistakes["factor"]["values"]]  # if a cosine hides it
    for factor in (factor for factor in dict.fromkeys(factors) if factor > 1):
        kinds = [{"scaling": "ntk", "factor": factor}] if len(observed) > 1 else []
        kinds += usual_scalings([factor], mistakes["original-length"]["values"])
        for changes in kinds:
            cost = USUAL + len(changes) / 4 + digits_of(factor) / 2
            for reading in sought.with_changes(code, changes, cost):
                yield with_base(reading, rope) if changes["scaling"] == "ntk" else reading


def scaling_code(rope: Rope) -> str:
    """Return whether a scaling of another kind is added or replaces one."""
    return "scaling-added" if rope.scaling == "none" else "scaling-type"


def with_base(reading: Misreading, rope: Rope) -> Misreading:
    """Add the base that NTK-aware scaling amounts to."""
    base = {"base": (rope.rho, base_of_grid(reading.omega))}
    return replace(reading, changes={**reading.changes, **base})


def base_of_grid(omega: Floats) -> float:
    """Return the base of geometric frequencies from 1, by the lowest (the base of NTK scaling).

    >>> base_of_grid(5e5 ** (-np.arange(64) / 64)).__round__(3)
    500000.0
    """
    m = len(omega)
    return float(omega[-1]) ** (-m / (m - 1)) if m > 1 else 1.0


def degrees(sought: Sought) -> Iterator[Misreading]:
    """Yield angles in degrees, and angles taken for degrees."""
    for unit, formula in ((180 / pi, "p w 180 / pi"), (pi / 180, "p w pi / 180")):
        yield Misreading("", {"angle": ("p w", formula)}, sought.omega * unit, 1.0)


def backwards(sought: Sought) -> Iterator[Misreading]:
    """Yield the opposite direction."""
    yield Misreading("", {}, -sought.omega, 1.0)


def divided_positions(sought: Sought) -> Iterator[Misreading]:
    """Yield integer division of positions."""
    if (k := sought.observed.repeats) > 1:
        yield Misreading("", {"positions": ("p", f"p // {k}")}, sought.omega, 1.0, k)


def reversed_ramp(sought: Sought) -> Iterator[Misreading]:
    """Yield the ramp of YaRN or Llama 3 reversed."""
    if (rope := sought.rope) and rope.scaling in ("yarn", "llama3"):
        theta = rope.unscaled.frequencies(sought.length)
        omega = theta * (1 + 1 / rope.scaled_by["factor"]) - sought.omega
        yield Misreading("", {}, omega, 1.0)


def ramp_parentheses(sought: Sought) -> Iterator[Misreading]:
    """Yield YaRN's original / (n 2 pi) as original / n, and as original / n 2 pi."""
    if (rope := sought.rope) and rope.scaling == "yarn":
        for ratio in (2 * pi, 4 * pi**2):
            limits = {key: rope.scaled_by[key] / ratio for key in ("beta_fast", "beta_slow")}
            for reading in sought.with_changes("", limits):
                yield replace(reading, changes={})


def exponents(sought: Sought) -> Iterator[Misreading]:
    """Yield exponents of another head size or a shifted pair, with the rotation's scaling."""
    if (rope := sought.rope) is None:
        return
    d, rho, rotary = rope.d, rope.rho, int(rope.d * rope.partial)
    heads = known_mistakes()["head-size"]["values"]
    sizes = (rotary - 2, rotary - 1, rotary + 2, 2 * rotary, rotary // 2, *heads)
    names = {rotary - 2: "d - 2", rotary - 1: "d - 1", rotary + 2: "d + 2"}
    for size in dict.fromkeys(n for n in sizes if n > 1 and n != rotary):
        change: Changes = {"divisor": (rotary, names.get(size, size))}
        if not (d != rotary and size == d):
            for reading in sought.with_changes("", {"rho": rho ** (rotary / size)}, 1.5):
                yield replace(reading, changes=change)
    for shift in (1, -1, 0.5) if rope.scaling == "none" else ():
        step = rho ** (-2 * shift / rotary)
        change = {"exponent": ("2 i / d", f"2 (i {'+' if shift > 0 else '-'} {abs(shift):g}) / d")}
        yield Misreading("", change, sought.omega * step, 1.5)


def whole_head(sought: Sought) -> Iterator[Misreading]:
    """Yield the frequencies of the whole head in its rotated part."""
    if (rope := sought.rope) and rope.partial < 1 and rope.scaling == "none":
        omega = Head(rope.d, rope.rho, 1.0, 1).grid()[: len(sought.omega)]
        yield Misreading("", {"divisor": (int(rope.d * rope.partial), rope.d)}, omega, 1.0)


def other_list(sought: Sought) -> Iterator[Misreading]:
    """Yield the other list of factors of longrope."""
    if (rope := sought.rope) and rope.scaling == "longrope":
        original = rope.scaled_by["original"]
        names = ("long", "short") if sought.length > original else ("short", "long")
        other = original + (names[1] == "long")
        change: Changes = {"factors": names}
        yield Misreading("", change, rope.frequencies(other), 1.0)


def list_at(settings: Mapping[str, Any], length: int) -> str:
    """Return the list of factors that longrope uses at a length."""
    return "long" if length > settings["original"] else "short"


def other_length(sought: Sought) -> Iterator[Misreading]:
    """Yield the frequencies that dynamic scaling has at another length."""
    rope, observed = sought.rope, sought.observed
    if rope is None or rope.scaling != "dynamic" or len(observed) < 2:
        return
    if observed.frequency[-1] <= 0:
        return
    slowest, original = rope.frequencies(1)[-1], rope.scaled_by["original"]
    ratio = slowest / observed.frequency[-1]
    estimate = original * (1 + (ratio - 1) / rope.scaled_by["factor"])
    for n in dict.fromkeys(round(float(f"{estimate:.{digits}g}")) for digits in DIGITS):
        if n > original and n != sought.length:  # no scaling up to the original length
            omega, changed = (rope.frequencies(size) for size in (sought.length, n))
            bases = base_of_grid(omega), base_of_grid(changed)
            yield Misreading("", {"length": (sought.length, n), "base": bases}, changed, 1.0)


def other_layer(sought: Sought) -> Iterator[Misreading]:
    """Yield the rotations of the other layer types of the same config."""
    for name, rotation in other_layers(sought.enc, sought.length):
        if is_rotation(rotation):
            layers = {"layer": (layer_of(sought.enc), name)}
            yield Misreading("", layers, rotation.measure.frequencies, 1.0)


def in_format(name: str) -> Callable[[Sought], Iterator[Misreading]]:
    """Return the mistake of rounding frequencies to a format."""
    return lambda sought: iter([Misreading("", {}, rounded(sought.omega, FORMATS[name]), 1.0)])


def angles_in(name: str) -> Callable[[Sought], Iterator[Misreading]]:
    """Return the mistake of rounding angles to a format, alone or with positions and frequencies.

    A product of float32 numbers may round to either neighbour.
    """
    form = FORMATS[name]

    def rounding(sought: Sought) -> Iterator[Misreading]:
        if not sought.observed.is_declared and not sought.observed.even.all():
            for whole in (True, False):
                omega = rounded(sought.omega, form) if whole else sought.omega
                angles = partial(rounded_angles, omega, form, whole=whole)
                yield Misreading("", {}, omega, 1.0, angles=angles)

    return rounding


def rounded_angles(
    omega: Floats, form: Format, positions: Floats, *, whole: bool
) -> tuple[Floats, Floats]:
    """Return the lowest and the highest angle (n, m) that rounding products may give.

    `whole`: positions are rounded, too, and the product of two narrow numbers is exact.
    """
    exact = np.multiply.outer(rounded(positions, form) if whole else positions, omega)
    slack = 0.0 if whole else 2 * FLOAT32_EPS
    return rounded(exact * (1 - slack), form), rounded(exact * (1 + slack), form)


FORMULAS: dict[str, Callable[[Sought], Iterator[Misreading]]] = {
    "degrees": degrees,
    "reversed": backwards,
    "positions-divided": divided_positions,
    "ramp-reversed": reversed_ramp,
    "ramp-parentheses": ramp_parentheses,
    "exponent": exponents,
    "partial-grid": whole_head,
    "factor-list": other_list,
    "other-length": other_length,
    "other-layers": other_layer,
    "bfloat16-frequencies": in_format("bfloat16"),
    "float16-frequencies": in_format("float16"),
    "bfloat16-angles": angles_in("bfloat16"),
    "float16-angles": angles_in("float16"),
}


def geometric_rotation(pairs: Waves) -> Encoding | None:
    """Return the unscaled rotation whose cosines and sines a table holds, or None."""
    omega, m = pairs.frequency, len(pairs)
    if m < 2 or not (omega > 0).all() or pairs.repeats > 1 or abs(omega[0] - 1) > 1e-3:
        return None
    estimate = base_of_grid(omega)
    for rho in (float(f"{estimate:.{digits}g}") for digits in DIGITS if estimate > 1):
        rope = Rope(2 * m, rho)
        if Misreading("base", {}, rope.frequencies(1)).residual(pairs, pairs) <= 1:
            return rope.build(max(pairs.length, 2))
    return None
