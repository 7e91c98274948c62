"""Mistakes in a rotation: made on purpose by name, and sought in what was observed.

Conventions
-----------
A mistake changes settings (those of `pefourier.construction.rope`), or the frequencies or angles
derived from them; mistakes.toml lists the mistakes with the values to try. A misreading is the
result: frequencies in radians per position, one per pair, and the sinusoids at any row. It explains
a rotation if both have equal sinusoids in every row, each number to its own rounding. All mistakes
are tried: of those that explain the rotation, the simplest is reported, then the one with the
smallest residual. Simple means few digits of new numbers: a setting that was ignored has none.
Without a misreading that explains all rows, no cause is reported. Between two encodings with known
settings, the smallest set of settings that differ takes the place of a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, product
from math import pi
from operator import attrgetter, itemgetter
from typing import Any, Literal

import numpy as np

from pefourier.construction.pairs import excess, mirrored
from pefourier.construction.rope import (
    ROUNDED,
    Rope,
    are_close,
    base_of_grid,
    both_at,
    is_rotation,
    known_mistakes,
    layer_of,
    lengths_of_interest,
    list_at,
    other_layers,
    usual_scalings,
)
from pefourier.construction.rows import Shifted
from pefourier.construction.steps import Changes, StepChanged
from pefourier.construction.waves import Complex, NumbersAt, Waves, apart, evaluate, of_frequencies
from pefourier.encodings.attention_decay import positions_below
from pefourier.encodings.encoding import Encoding, distinct
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.loader import source_of
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FLOAT32_EPS, FORMATS, Format, phase_rounding, rounded
from pefourier.types import (
    Bools,
    Floats,
    Places,
    Texts,
    Values,
    frozen,
    frozen_arrays,
    hidden,
)

SEARCHED = 2**17  # positions searched for the cost of a mistake
SHOWN = 0.1  # radians over a table, from which a cosine shows its frequency
DIGITS = range(1, 9)  # to which a fitted number is rounded
NOT_READ = 0.5  # cost of a setting that has its usual value, as if it was not read
USUAL = 2.0  # cost of a usual value; digits of any other number are added
LAST = 20.0  # cost of a mistake that explains any single pair
STILL = 1e-6  # radians over a table, below which no pair rotates
LEAST = 1e-250  # radians per position: frequencies of 0 have no rounding
RAMPS = {  # limits of the ramp of a scaling
    "yarn": ("beta_fast", "beta_slow"),
    "llama3": ("low_freq_factor", "high_freq_factor"),
}
# not parameters, or computed from another parameter
SIZES = {"length", "path", "model_type", "array", "spans", "position_ids", "eigenvalues"}


@frozen
class LikelyMistake:
    """The mistake that explains a difference."""

    of: Literal["a", "b", "both"]  # the misread rotation, or both if settings differ
    misreadings: Texts  # codes of mistakes in mistakes.toml
    changes: Changes  # settings, correct and misread
    below: Mapping[str, int | None]  # first position of cosines below 0.99, 0.9, 0.5, or None
    others: tuple[Misreading, ...] = hidden(default=())  # less likely names
    kept: float | None = hidden(default=None)  # factor that the changed settings
    # do not imply


@frozen_arrays
class Misreading:
    """A mistake and the rotation that results from it."""

    code: str
    changes: Changes
    omega: Floats = hidden()  # (m,)
    step: str = "frequencies"
    also: Texts = ()  # codes of less likely mistakes that give the same numbers
    cost: float = hidden(default=USUAL)
    divisor: int = hidden(default=1)  # of the integer division of positions
    angles: Callable[[Floats], tuple[Floats, Floats]] | None = hidden(default=None)
    # the lowest and the highest angle (n, m) at positions, where angles were rounded
    factor: float | None = hidden(default=None)  # that the settings imply
    others: tuple[Misreading, ...] = hidden(default=())  # of `also`

    @property
    def words(self) -> str:
        """What was done, as the end of "the second equals the first with ..."."""
        return StepChanged(self.code, self.step, self.changes).words

    def numbers(self, observed: Waves) -> NumbersAt:
        """Return the sinusoids from the start of the observed rows on, in their form."""
        begin = observed.offset if np.isfinite(observed.offset) else 0.0

        def waves(rows: Places) -> Complex:
            positions = np.asarray(rows // self.divisor + begin, dtype=float)
            if not self.angles:
                phases = np.multiply.outer(positions, self.omega)
                return evaluate(phases, observed.factor, observed.form)
            ends = self.angles(positions)
            low, high = (evaluate(a, observed.factor, observed.form) for a in ends)
            seen = observed.numbers(rows)
            return np.where(apart(low, seen) <= apart(high, seen), low, high)

        return waves

    def residual(self, expected: Waves, observed: Waves) -> float:
        """Return the largest difference from the observed rows in units of rounding.

        Rows are read until one differs.
        """
        omega, is_frequency = self.omega, self.divisor == 1 and not self.angles
        is_possible = len(omega) == len(observed) and np.isfinite(omega).all()
        if not is_possible or (observed.is_declared and not is_frequency):
            return np.inf
        if observed.is_declared:
            limit = np.maximum(phase_rounding(np.abs(omega), FLOAT32_EPS), LEAST)
            return float((np.abs(omega - observed.frequency) / limit).max())
        source = replace(expected, frequency=omega, amplitude=observed.amplitude)
        return float(excess(source, observed, self.numbers(observed), stop=True)[0].max())


@frozen_arrays
class Sought:
    """A rotation as meant, and what was observed in its place."""

    enc: Encoding
    expected: Waves
    observed: Waves
    rope: Rope | None
    speed: float = 1.0  # factor on all frequencies, besides the settings

    def with_changes(self, code: str, changed: Values, cost: float = USUAL) -> Iterator[Misreading]:
        """Yield the rotation with other settings, unless they are equal or impossible."""
        if not self.rope:
            return
        settings = self.rope.settings
        differing = {k: (settings.get(k), v) for k, v in changed.items() if settings.get(k) != v}
        if differing:
            with suppress(PefourierError):
                omega, factor = self.rope.with_(**changed).rotation(len(self.enc))
                omega = self.speed * omega
                yield Misreading(code, differing, omega, cost=cost, factor=factor)


def find_mistakes(
    enc: Encoding, expected: Waves, observed: Waves, *, plain: bool = False
) -> tuple[Misreading, ...]:
    """Find the mistake, or the two, that turn a rotation into the observed pairs.

    The first of two is a part of the settings that was ignored. `plain`: only single mistakes
    whose number need not be fitted.

    >>> from pefourier.encodings import load
    >>> from pefourier.construction.waves import declared, fit
    >>> meant = load("rope", 200, 32)
    >>> angles = np.outer(np.arange(200), 5e5 ** (-np.arange(16) / 16))
    >>> table = fit(np.hstack([np.cos(angles), np.sin(angles)]), 2.0**-52)
    >>> [mistake.changes for mistake in find_mistakes(meant, declared(meant), table)]
    [{'rho': (10000.0, 500000.0)}]
    """
    sought = Sought(enc, expected, observed, Rope.of(enc))
    if (single := simplest(sought, plain=plain)) or plain:
        return (single,) if single else ()
    for first in ignored_settings(sought):
        rope = sought.rope and sought.rope.with_(
            **{key: pair[1] for key, pair in first.changes.items()}
        )
        if np.array_equal(first.omega, expected.frequency):
            continue  # it changes nothing
        waves = of_frequencies(first.omega, expected.factor, expected.length, expected.eps)
        if len(first.omega) == len(observed) and (
            second := simplest(replace(sought, rope=rope, expected=waves))
        ):
            return first, second
    return reversed_mistakes(sought) or scaled_mistakes(sought)


def scaled_mistakes(sought: Sought) -> tuple[Misreading, ...]:
    """Return a mistake of the settings and a factor on all frequencies, the ratio of pair 0.

    No base changes the frequency of pair 0.
    """
    a, b = (waves.of_pairs(slice(1)) for waves in (sought.expected, sought.observed))
    fastest = replace(sought, expected=a, observed=b, rope=None)
    for scaled in chain(derived(fastest), fitted_mistakes(fastest)):
        is_factor = scaled.code in ("degrees", "step") and scaled.omega.all()
        if is_factor and scaled.residual(a, b) <= 1:
            speed = float(scaled.omega[0] / a.frequency[0])
            found = simplest(replace(sought, speed=speed))
            if not found or found.step != "frequencies":
                return ()
            step = step_of(scaled.code)
            return found, replace(scaled, step=step, omega=found.omega, factor=found.factor)
    return ()


def reversed_mistakes(sought: Sought) -> tuple[Misreading, ...]:
    """Return the mistakes that explain sinusoids with the opposite sign of the sine, and this."""
    expected, observed = sought.expected, sought.observed
    if len(expected) != len(observed) or not (expected.frequency * observed.frequency).sum() < 0:
        return ()
    found = simplest(replace(sought, observed=mirrored(observed)))
    if not found or found.angles or found.divisor > 1:
        return ()
    change = {"sine": ("sin w p", "-sin w p")}
    return found, Misreading("reversed", change, -found.omega, step="waves")


def simplest(sought: Sought, *, plain: bool = False) -> Misreading | None:
    """Return the single mistake of lowest cost, then residual, that explains all rows.

    Less likely mistakes that give the same numbers are named with it.
    """
    cost = attrgetter("cost")

    def fitting(readings: Iterable[Misreading]) -> Iterator[Misreading]:
        for _, group in groupby(sorted(readings, key=cost), cost):
            found = [(x.residual(sought.expected, sought.observed), x) for x in group]
            for residual, reading in sorted(found, key=itemgetter(0)):
                if residual <= 1:
                    yield replace(reading, step=step_of(reading.code))

    likely = {reading.code: reading for reading in reversed([*fitting(plain_mistakes(sought))])}
    if likely:
        first, *others = sorted(likely.values(), key=cost)
        others = [x for x in others if not x.changes or x.changes != first.changes]
        return replace(first, also=tuple(x.code for x in others), others=tuple(others))
    return None if plain else next(fitting(fitted_mistakes(sought)), None)


def step_of(code: str) -> str:
    """Return the step of a construction that a mistake changes.

    >>> step_of("base"), step_of("degrees")
    ('frequencies', 'angles')
    """
    return str(known_mistakes()[code].get("step", "frequencies"))


def cause_of(
    causes: Sequence[Misreading | StepChanged | Shifted],
    expected: Waves | None = None,
    of: Literal["a", "b", "both"] = "both",
) -> LikelyMistake:
    """Describe mistakes and from which positions on they matter."""
    found = [x for x in causes if isinstance(x, Misreading) and not x.angles and x.divisor == 1]
    below = {}
    if expected and found and len(found[-1].omega) == len(expected):
        below = dict(positions_below(expected.frequency, found[-1].omega, SEARCHED))
    changes = {k: pair for cause in causes for k, pair in getattr(cause, "changes", {}).items()}
    others = tuple(other for cause in causes for other in getattr(cause, "others", ()))
    return LikelyMistake(of, tuple(cause.code for cause in causes), changes, below, others)


def plain_mistakes(sought: Sought) -> Iterator[Misreading]:
    """Yield the rotation with each mistake that has no number, or a usual one."""
    yield from derived(sought)
    if not (rope := sought.rope):
        return
    yield from derived_from_settings(sought, rope)
    settings, count = rope.settings, 2 * len(sought.observed)
    factor, original = settings.get("factor") or 1.0, settings.get("original") or 0
    model = sought.enc.file and sought.enc.file.model
    lengths = (model.longest() if model else 0, original * factor, original / factor)
    likely: dict[str, list[float]] = {"original": [int(n) for n in lengths if n]}
    likely |= {"partial": [count / rope.d], "d": [round(count / rope.partial)]}
    defaults = scaling_parameters(rope.scaling)
    yield from ignored_settings(sought)
    for code, mistake in known_mistakes().items():
        key = mistake.get("key", "")
        for a, b in mistake.get("swap", ()):
            if a in settings and b in settings:
                yield from sought.with_changes(code, {a: settings[b], b: settings[a]}, 1.0)
        if settings.get(key) is None:
            continue
        for value in mistake.get("usual", ()):  # of models that do not set it
            yield from sought.with_changes(code, {key: value}, NOT_READ)
        if key in defaults and isinstance(defaults[key].default, bool | int | float):
            yield from sought.with_changes(code, {key: defaults[key].default}, 1.0)
        for value in (*likely.get(key, ()), *mistake.get("values", ())):
            yield from sought.with_changes(code, {key: value})


def ignored_settings(sought: Sought) -> Iterator[Misreading]:
    """Yield the rotation without its scaling, and without its rotated fraction."""
    for code, mistake in known_mistakes().items():
        if (changes := mistake.get("set")) and (rope := sought.rope):
            yield from sought.with_changes(code, rope.without(changes), 0.0)


def fitted_mistakes(sought: Sought) -> Iterator[Misreading]:
    """Yield the rotation with each mistake that has a number, read from single frequencies.

    Most scalings divide the lowest frequencies by their factor. A pair that hardly rotates has no
    frequency in a table of cosines.
    """
    omega, observed = sought.expected.frequency, sought.observed.frequency / sought.speed
    if len(omega) != len(observed):
        return
    if (np.abs(observed) * sought.observed.length <= STILL).all():
        yield Misreading("step", {"positions": ("p", "0 p")}, 0 * omega)
    rotating = np.flatnonzero(omega * observed)
    unaliased = rotating[np.abs(observed[rotating]) < 1]
    for k, digits, power in product((*unaliased, *rotating)[:1], DIGITS, (1, -1)):
        number = float(f"{(observed[k] / omega[k]) ** power:.{digits}g}")
        change = {"positions": ("p", f"{number:g} p" if power > 0 else f"p / {number:g}")}
        if number != 1:
            yield Misreading("step", change, omega * number**power, cost=USUAL + digits)
    if len(omega) > 2:
        k, changed = int(np.abs(observed - omega).argmax()), omega.copy()
        changed[k] = observed[k]
        pair = {f"frequency of pair {k}": (float(omega[k]), float(changed[k]))}
        yield Misreading("single-pair", pair, changed, cost=LAST)
    shown = np.flatnonzero((observed * sought.observed.length > SHOWN) & (omega > 0))
    if not (rope := sought.rope) or not shown[1:].size:
        return
    m, k = len(observed), shown[-1]
    share = k / (m - 1)  # of the lowest pair's exponent: ntk divides by a power of its factor
    grid = rope.unscaled.frequencies(len(sought.enc))
    ratio = grid[k] / observed[k]
    for i, digits in product(distinct(shown[[1, len(shown) // 2, -1]]), DIGITS):
        base = (observed[i] * grid[i] / omega[i]) ** (-m / i)  # if its scaling is the same
        yield from sought.with_changes("base", {"rho": float(f"{base:.{digits}g}")}, USUAL + digits)
    added = "scaling-added" if rope.scaling == "none" else "scaling-type"
    lengths = known_mistakes()["original-length"]["values"]
    for digits, power in product(DIGITS, (1, 1 / share)):
        factor, cost = float(f"{ratio**power:.{digits}g}"), USUAL + digits
        if "factor" in rope.settings:
            yield from sought.with_changes("factor", {"factor": factor}, cost)
        if factor > 1 and rope.scaling in ("none", "linear", "ntk"):
            ntk = {"scaling": "ntk", "factor": factor}
            for reading in sought.with_changes(added, ntk, cost + 0.5):
                amounts = {"base": (rope.rho, base_of_grid(reading.omega))}
                yield replace(reading, changes={**reading.changes, **amounts})
            for changes in usual_scalings([factor], lengths):
                yield from sought.with_changes(added, changes, cost + len(changes) / 4)


def derived(sought: Sought) -> Iterator[Misreading]:
    """Yield other frequencies, angles and positions that no setting gives."""
    omega, observed = sought.expected.frequency, sought.observed
    made = partial(Misreading, cost=1.0)
    for unit, formula in ((180 / pi, "p w 180 / pi"), (pi / 180, "p w pi / 180")):
        yield made("degrees", {"angle": ("p w", formula)}, omega * unit)
    yield made("reversed", {"sine": ("sin w p", "-sin w p")}, -omega)
    if (k := observed.repeats) > 1:
        yield made("positions-divided", {"positions": ("p", f"p // {k}")}, omega, divisor=k)
    for name, rotation in other_layers(sought.enc, len(sought.enc)):
        if is_rotation(rotation):
            layers = {"layer": (layer_of(sought.enc), name)}
            yield made("other-layers", layers, rotation.measure.frequencies)
    for name in ("bfloat16", "float16"):
        narrow = rounded(omega, form := FORMATS[name])
        yield made(f"{name}-frequencies", {}, narrow)
        if not observed.is_declared and not observed.even.all():
            for whole, used in ((True, narrow), (False, omega)):
                angles = partial(rounded_angles, used, form, whole=whole)
                yield made(f"{name}-angles", {}, used, angles=angles)


def rounded_angles(
    omega: Floats, form: Format, positions: Floats, *, whole: bool
) -> tuple[Floats, Floats]:
    """Return the lowest and the highest angle (n, m) that rounding products may give.

    A product of float32 numbers may round to either neighbour. `whole`: positions are rounded, too,
    and the product of two narrow numbers is exact.
    """
    exact = np.multiply.outer(rounded(positions, form) if whole else positions, omega)
    slack = 0.0 if whole else 2 * FLOAT32_EPS
    return rounded(exact * (1 - slack), form), rounded(exact * (1 + slack), form)


def derived_from_settings(sought: Sought, rope: Rope) -> Iterator[Misreading]:
    """Yield formulas gone wrong: the ramp, the exponent, the list of factors, the length."""
    omega, length, made = sought.expected.frequency, len(sought.enc), partial(Misreading, cost=1.0)
    rho, rotary, scaled_by = rope.rho, int(rope.d * rope.partial), rope.scaled_by
    slowest = sought.observed.frequency[-1]
    if keys := RAMPS.get(rope.scaling):
        theta = rope.unscaled.frequencies(length)
        divided = theta / scaled_by["factor"]
        yield made("ramp-reversed", {}, theta + divided - omega)
        is_between = ~(np.isclose(omega, theta) | np.isclose(omega, divided))
        for kept in (theta, divided):
            yield made("ramp-missing", {}, np.where(is_between, kept, omega))
        for ratio in (2 * pi, 4 * pi**2):  # original / (n 2 pi)
            limits = {key: scaled_by[key] / ratio for key in keys}
            for reading in sought.with_changes("ramp-parentheses", limits):
                yield replace(reading, changes={})
    names = {rotary - 2: "d - 2", rotary - 1: "d - 1", rotary + 2: "d + 2"}
    sizes = (*names, rope.d, 2 * rotary, rotary // 2, *known_mistakes()["head-size"]["values"])
    for size in dict.fromkeys(n for n in sizes if n > max(1, rotary / 32) and n != rotary):
        for reading in sought.with_changes("exponent", {"rho": rho ** (rotary / size)}, 1.5):
            yield replace(reading, changes={"divisor": (rotary, names.get(size, size))})
    if rope.scaling == "none":
        for shift, text in ((1, "+ 1"), (-1, "- 1"), (0.5, "+ 0.5")):
            change: Changes = {"exponent": ("2 i / d", f"2 (i {text}) / d")}
            yield made("exponent", change, omega * rho ** (-2 * shift / rotary), cost=1.5)
        yield made("exponent", {"exponent": ("2 i / d", "2 i // d")}, omega**0.0, cost=1.5)
    if rope.scaling == "longrope":
        at = 1 if length > scaled_by["original"] else scaled_by["original"] + 1
        lists = list_at(scaled_by, length), list_at(scaled_by, at)
        yield made("factor-list", {"factors": lists}, rope.frequencies(at))
    if rope.scaling == "dynamic" and len(sought.observed) > 1 and slowest > 0:
        original, ratio = scaled_by["original"], rope.frequencies(1)[-1] / slowest
        estimate = original * (1 + (ratio - 1) / scaled_by["factor"])
        for n in dict.fromkeys(round(float(f"{estimate:.{digits}g}")) for digits in DIGITS):
            if n > original and n != length:  # no scaling up to the original length
                changed = rope.frequencies(n)
                bases = base_of_grid(rope.frequencies(length)), base_of_grid(changed)
                yield made("other-length", {"length": (length, n), "base": bases}, changed)


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


def settings_cause(a: Encoding, b: Encoding) -> LikelyMistake | None:
    """Return the settings in which two known rotations differ; neither counts as misread."""
    if not (changes := changed_settings(a, b)):
        return None
    code_of = {mistake.get("key"): code for code, mistake in known_mistakes().items()}
    keys = [key for key in changes if key in code_of]
    for code, mistake in known_mistakes().items():
        for one, other in mistake.get("swap", ()):
            if {one, other} <= changes.keys() and changes[one] == changes[other][::-1]:
                return LikelyMistake("both", (code,), changes, {})
    if kinds := changes.get("scaling"):
        named = {kinds[1]: "scaling-ignored", kinds[0]: "scaling-added"}
        code_of["scaling"] = named.get("none", "scaling-type")
        keys = [key for key in ("scaling", "rho", "d", "partial", "layout") if key in changes]
    codes = tuple(code_of[key] for key in keys) or ("parameters",)
    below = positions_below(a.measure.frequencies, b.measure.frequencies, SEARCHED)
    return LikelyMistake("both", codes, changes, below)


def changed_settings(a: Encoding, b: Encoding) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ and change a frequency at some length of interest.

    The interleaved layout that llama.cpp's converter gives a model in halves does not count.
    """
    ropes = Rope.of(a), Rope.of(b)
    changes = ropes[0].diff(ropes[1], min(len(a), len(b))) if ropes[0] and ropes[1] else {}
    for key in ("layout", "attention_factor"):
        pair = a.params.get(key), b.params.get(key)
        if pair[0] != pair[1] and not (key == "attention_factor" and are_close(pair)):
            changes[key] = pair
    if "layout" in changes:
        sources = (source_of(enc.spec) if enc.spec else "" for enc in (a, b))
        layouts = dict(zip(sources, changes["layout"], strict=True))
        if layouts == {"config": "halves", "gguf": "interleaved"}:
            del changes["layout"]
    return changes


def lengths_apart(a: Encoding, b: Encoding) -> tuple[str, dict[str, int]] | None:
    """Return where rotations that agree at one length differ: beyond or below a limit, or None.

    Scalings that depend on the length change at an original length; both sides of it are tried.
    """
    if not (is_rotation(a) and is_rotation(b) and (first := Rope.of(a)) and (second := Rope.of(b))):
        return None
    compared = min(len(a), len(b))
    lengths, differs = lengths_of_interest(compared, first, second), dict[int, Bools]()
    for n in lengths:
        if n != compared and (pair := both_at(n, first.settings, second.settings)):
            differs[n] = ~np.isclose(pair[0], pair[1], rtol=ROUNDED, atol=0)
    differs = {n: pairs for n, pairs in differs.items() if pairs.any()}
    if not differs:
        return None
    shown = limit = max(differs)
    if beyond := [n for n in differs if n > compared]:
        limit = max(n for n in lengths if n < beyond[0])
        shown = next((n for n in beyond if n >= 2 * limit), beyond[0])
    facts = {"length": compared, "limit": limit, "at": shown}
    facts |= {"count": int(differs[shown].sum()), "of": len(differs[shown])}
    return "beyond" if beyond else "below", facts


def parameters_cause(first: Encoding, second: Encoding) -> LikelyMistake | None:
    """Return the parameters in which two encodings of the same name differ."""
    if first.name != second.name or not first.origin == second.origin == "formula":
        return None
    keys = sorted({*first.params, *second.params} - SIZES)
    pairs = {key: (first.params.get(key), second.params.get(key)) for key in keys}
    changes = {key: pair for key, pair in pairs.items() if str(pair[0]) != str(pair[1])}
    if "d" in changes and first.injection == "bias":
        changes = {"heads": changes.pop("d"), **changes}
    return LikelyMistake("both", ("parameters",), changes, {}) if changes else None
