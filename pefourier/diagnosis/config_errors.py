"""Find the single mistake that turns one rotation into another, by rebuilding and comparing.

Conventions
-----------
Settings are the parameters of ``rope``: d, rho, partial, scaling and the parameters of that
scaling. A mistake changes one setting, or the frequencies or positions derived from it;
config_errors.toml lists the mistakes and the values to try. A reading is the result of a mistake:
frequencies in radians per position, one per pair, and the sinusoids at any positions. A reading
explains another rotation if both have equal sinusoids, to rounding. Without such a reading, no
cause is reported.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log, pi, sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pefourier.causes.pairs import shifted_waves, waves_differ
from pefourier.causes.rope import Rope, is_rotation
from pefourier.diagnosis.misreadings import layer_of, other_layers
from pefourier.encodings import build
from pefourier.encodings.attention_decay import positions_below
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import (
    SCALINGS,
    Head,
    rotation_if_any,
    rotation_of,
)
from pefourier.geometry.precision import FLOAT32_EPS, FORMATS, phase_rounding, rounded
from pefourier.geometry.waves import Waves
from pefourier.types import Fields, Floats, Texts, Values
from pefourier.writing.files import read_toml

CONFIG_ERRORS = Path(__file__).with_suffix(".toml")
FARTHEST = 2**17  # rows whose fitted phases rule out readings
SEARCHED = 2**17  # positions searched for the cost of a mistake
SHOWN = 0.1  # radians that a pair must rotate over a table of cosines alone
SIMILAR = 1e-6  # relative tolerance for equal ratios of frequencies
DIGITS = range(1, 9)  # to which a fitted number is rounded
SHORT, LONG = DIGITS[:4], DIGITS[4:]
NEARBY = (0.0, 1e-7, -1e-7, 1e-5, -1e-5, 1e-3, -1e-3, 0.02, -0.02, 0.1, -0.1)  # shares added


@dataclass(frozen=True)
class Cause:
    """The mistake that explains a difference."""

    of: Literal["a", "b", "both"]  # the misread rotation, or both if settings differ
    misreadings: Texts  # codes of mistakes in config_errors.toml
    changes: Mapping[str, tuple[Any, Any]]  # settings, correct and misread
    below: Mapping[str, int | None]  # first position of cosines below 0.99, 0.9, 0.5, or None


@dataclass(frozen=True, eq=False)
class Misreading:
    """The rotation that results from a mistake."""

    code: str
    changes: Mapping[str, tuple[Any, Any]]
    omega: Floats  # (m,)
    divisor: int = 1  # of the integer division of positions


def find_misreading(rotation: Encoding, pairs: Waves, observed: Waves) -> Cause | None:
    """Find the mistake that turns a rotation into the observed pairs, fitted or declared.

    >>> from pefourier.encodings import load
    >>> from pefourier.geometry.waves import declared, fit
    >>> meant = load("rope", 200, 32)
    >>> angles = np.outer(np.arange(200), 5e5 ** (-np.arange(16) / 16))
    >>> table = fit(np.hstack([np.cos(angles), np.sin(angles)]), 2.0**-52)
    >>> find_misreading(meant, declared(meant), table).changes
    {'rho': (10000.0, 500000.0)}
    """
    for reading in readings(rotation, pairs, observed):
        if explains(reading, pairs, observed):
            below: Mapping[str, int | None] = {}
            if reading.divisor == 1 and reading.omega.shape == pairs.frequency.shape:
                below = positions_below(pairs.frequency, reading.omega, SEARCHED)
            return Cause("a", (reading.code,), dict(reading.changes), below)
    return None


def explains(reading: Misreading, pairs: Waves, observed: Waves) -> bool:
    """Whether another rotation has the sinusoids of a reading, up to a common factor."""
    omega = reading.omega
    if omega.shape != observed.frequency.shape or not np.isfinite(omega).all():
        return False
    if observed.is_declared:
        tolerance = phase_rounding(np.abs(omega), FLOAT32_EPS)
        return reading.divisor == 1 and bool(
            (np.abs(omega - observed.frequency) <= tolerance).all()
        )
    steps = min(observed.length, FARTHEST) // observed.repeats
    tolerance = 0.05 + 2 * sqrt(2 * observed.eps) + 4 * steps * phase_rounding(np.abs(omega), 1.0)
    signs = (1, -1) if observed.form and observed.form.part == "cos" else (1,)
    rotated = omega * (observed.repeats / reading.divisor)
    errors = [np.angle(np.exp(1j * (sign * rotated - observed.frequency))) for sign in signs]
    errors = errors if not observed.has_angles else [rotated - observed.frequency]
    if (np.abs(errors).min(axis=0) * steps > tolerance).any():
        return False
    source = replace(pairs, frequency=omega, amplitude=observed.amplitude)
    waves = shifted_waves(source, omega, observed, reading.divisor)
    return not waves_differ(source, observed, waves, stop=True).any()


def readings(rotation: Encoding, pairs: Waves, observed: Waves) -> Iterator[Misreading]:
    """Yield a rotation with each mistake: usual values first, then fitted values."""
    omega = pairs.frequency
    yield from scaled_positions(omega, observed)
    yield from layers_read(rotation)
    if rope := Rope.of(rotation):
        settings = rope.settings
        yield from at_other_lengths(settings, len(rotation), observed)
        yield from added_ntk(settings, len(rotation))
        yield from reread_with(
            settings, len(rotation), chosen_changes(rotation, settings, observed)
        )
        yield from other_ramps(settings, omega, len(rotation))
        yield from exponents(settings, omega, observed)
        yield from fitted_changes(settings, len(rotation), observed, SHORT)
        yield from added_scalings(settings, len(rotation), observed)
        yield from fitted_changes(settings, len(rotation), observed, LONG)
    for name in ("bfloat16", "float16"):
        yield Misreading(f"{name}-frequencies", {}, rounded(omega, FORMATS[name]))
    yield from one_factor(omega, observed)
    yield from one_pair(omega, observed)


def reread_with(
    settings: Values, length: int, changes: Iterable[tuple[str, Values]]
) -> Iterator[Misreading]:
    """Yield a rotation with each set of changes, without unchanged or impossible settings."""
    for code, changed in changes:
        differing = {k: (settings.get(k), v) for k, v in changed.items() if settings.get(k) != v}
        rotation = rotation_if_any(dict(settings) | dict(changed), length) if differing else None
        if rotation is not None:
            yield Misreading(code, differing, rotation[0])


def chosen_changes(
    rotation: Encoding, settings: Values, observed: Waves
) -> Iterator[tuple[str, Fields]]:
    """Yield codes and changes of settings to usual values, likely values first."""
    count, factor = 2 * len(observed), settings.get("factor") or 1.0
    model = rotation.file and rotation.file.model
    longest = model.longest() if model else 0
    original = settings.get("original") or 0
    likely = {
        "original": [int(n) for n in (longest, original * factor, original / factor) if n],
        "partial": [count / settings["d"]],
        "d": [round(count / settings["partial"])],
    }
    for code, error in read_toml(CONFIG_ERRORS).items():
        if settings["scaling"] not in error.get("when", SCALINGS):
            continue
        key, changes = error.get("key", ""), [error["set"]] if "set" in error else []
        for a, b in error.get("swap", ()):
            if None not in (first := settings.get(a), second := settings.get(b)):
                changes.append({a: second, b: first})
        if settings.get(key) is not None:
            values = (*likely.get(key, ()), *error.get("values", ()))
            changes += [{key: number} for number in dict.fromkeys(values)]
        yield from ((code, change) for change in changes)


def scaled_positions(omega: Floats, observed: Waves) -> Iterator[Misreading]:
    """Yield other units of angles, integer division of positions, and the opposite direction."""
    for unit, formula in ((180 / pi, "p w 180 / pi"), (pi / 180, "p w pi / 180")):
        yield Misreading("degrees", {"angle": ("p w", formula)}, omega * unit)
    yield Misreading("reversed", {}, -omega)
    k = observed.repeats
    if k > 1:
        yield Misreading("positions-divided", {"positions": ("p", f"p // {k}")}, omega, k)


def one_factor(omega: Floats, observed: Waves) -> Iterator[Misreading]:
    """Yield all frequencies times one factor, fitted to the first pair without aliasing."""
    if omega.shape != observed.frequency.shape:
        return
    rotating = np.flatnonzero((omega != 0) & (np.abs(observed.frequency) < 1))
    for k in rotating[:1]:
        ratio = float(observed.frequency[k] / omega[k])
        for digits in DIGITS:
            step = float(f"{ratio:.{digits}g}")
            yield Misreading("step", {"positions": ("p", f"{step:g} p")}, omega * step)
            if step and (inverse := float(f"{1 / ratio:.{digits}g}")):
                yield Misreading("step", {"positions": ("p", f"p / {inverse:g}")}, omega / inverse)


def one_pair(omega: Floats, observed: Waves) -> Iterator[Misreading]:
    """Yield the rotation with a single pair of another frequency."""
    if omega.shape == observed.frequency.shape and len(omega) > 2:
        k = int(np.abs(observed.frequency - omega).argmax())
        changed = omega.copy()
        changed[k] = observed.frequency[k]
        pair = {f"frequency of pair {k}": (float(omega[k]), float(changed[k]))}
        yield Misreading("single-pair", pair, changed)


def other_ramps(settings: Values, omega: Floats, length: int) -> Iterator[Misreading]:
    """Yield the ramp of YaRN or Llama 3 reversed, or YaRN's limits with other parentheses."""
    if settings["scaling"] in ("yarn", "llama3"):
        theta = Head(settings["d"], settings["rho"], settings["partial"], length).grid()
        yield Misreading("ramp-reversed", {}, theta * (1 + 1 / settings["factor"]) - omega)
    if settings["scaling"] == "yarn":
        for ratio in (2 * pi, 4 * pi**2):  # original / (n 2 pi) as original / n, original / n 2 pi
            limits = {key: settings[key] / ratio for key in ("beta_fast", "beta_slow")}
            for reading in reread_with(settings, length, [("ramp-parentheses", limits)]):
                yield replace(reading, changes={})


def exponents(settings: Values, omega: Floats, observed: Waves) -> Iterator[Misreading]:
    """Yield exponents of another head size or a shifted pair, with the rotation's scaling."""
    d, rho, rotary = settings["d"], settings["rho"], int(settings["d"] * settings["partial"])
    heads = read_toml(CONFIG_ERRORS)["head-size"]["values"]
    sizes = (rotary - 2, rotary - 1, rotary + 2, 2 * rotary, rotary // 2, *heads)
    for size in dict.fromkeys(n for n in sizes if n > 1 and n != rotary):
        base = rho ** (rotary / size)
        name = {rotary - 2: "d - 2", rotary - 1: "d - 1", rotary + 2: "d + 2"}.get(size, size)
        rebuilt = rotation_if_any(dict(settings) | {"rho": base}, observed.length)
        if rebuilt and not (d != rotary and size == d):
            yield Misreading("exponent", {"divisor": (rotary, name)}, rebuilt[0])
    if settings["partial"] < 1 and settings["scaling"] == "none":
        yield Misreading(
            "partial-grid", {"divisor": (rotary, d)}, Head(d, rho, 1.0, 1).grid()[: len(omega)]
        )
    for shift in (1, -1, 0.5):
        step = rho ** (-2 * shift / rotary)
        change = {"exponent": ("2 i / d", f"2 (i {'+' if shift > 0 else '-'} {abs(shift):g}) / d")}
        if settings["scaling"] == "none":
            yield Misreading("exponent", change, omega * step)


def fitted_changes(
    settings: Values, length: int, observed: Waves, lengths: range = DIGITS
) -> Iterator[Misreading]:
    """Yield one setting fitted to the mean logarithm of the observed frequencies."""
    cosines = observed.form is not None and observed.form.part == "cos"
    rotating = observed.frequency * observed.length > (
        SHOWN if cosines else 0
    )  # visible frequencies
    if not rotating.any() or (observed.frequency > 1 + SIMILAR).any():
        return
    from scipy.optimize import brentq  # slow import (0.25 s), rarely needed

    target = np.log(observed.frequency[rotating]).mean()
    for code, error in read_toml(CONFIG_ERRORS).items():
        key = error.get("key", "")
        if "range" not in error or not settings.get(key):
            continue

        def mean_log(number: float, key: str = key) -> float:
            rebuilt = rotation_if_any(dict(settings) | {key: typed(key, number)}, length)
            if rebuilt is None or rebuilt[0].shape != rotating.shape or not (rebuilt[0] > 0).all():
                return np.nan
            return float(np.log(rebuilt[0][rotating]).mean() - target)

        low, high = error["range"]
        low = max(low, 1.001 * (settings.get(error.get("above", "")) or 0))
        high = min(high, (settings.get(error.get("under", "")) or high) / 1.001)
        try:
            number = exp(brentq(lambda x, f=mean_log: f(exp(x)), log(low), log(high)))
        except ValueError:  # no sign change in the range
            continue
        numbers = dict.fromkeys(
            typed(key, float(f"{number * (1 + share):.{digits}g}"))
            for share, digits in product(NEARBY, lengths)
        )
        yield from reread_with(settings, length, ((code, {key: number}) for number in numbers))


def typed(key: str, number: float) -> float:
    """Convert a number to the type of its setting: lengths are whole."""
    return max(1, round(number)) if key == "original" else float(number)


def added_scalings(settings: Values, length: int, observed: Waves) -> Iterator[Misreading]:
    """Yield unwanted scalings, with the factor fitted to the lowest frequency."""
    from pefourier.diagnosis.identify import usual_scalings

    is_uniform = settings["scaling"] in ("none", "linear", "ntk")
    plain = rotation_if_any(dict(settings) | {"scaling": "none"}, length) if is_uniform else None
    if plain is None or plain[0].shape != observed.frequency.shape:
        return
    code = "scaling-added" if settings["scaling"] == "none" else "scaling-type"
    errors = read_toml(CONFIG_ERRORS)
    values = errors["original-length"]["values"]
    ratio = plain[0][-1] / (observed.frequency[-1] or np.inf)
    factors = [float(f"{ratio:.{digits}g}") for digits in (1, 2, 3, 6)]
    factors += [float(value) for value in errors["factor"]["values"]]  # if a cosine hides it
    for factor in (factor for factor in dict.fromkeys(factors) if factor > 1):
        kinds = [{"scaling": "ntk", "factor": factor}] if len(observed) > 1 else []
        kinds += usual_scalings([factor], values)
        yield from reread_with(settings, length, ((code, changes) for changes in kinds))


def added_ntk(settings: Values, length: int) -> Iterator[Misreading]:
    """Yield unwanted NTK-aware scaling by usual factors, with the resulting base."""
    if settings["scaling"] != "none" or settings["d"] * settings["partial"] < 4:
        return
    for factor in read_toml(CONFIG_ERRORS)["factor"]["values"]:
        changes = [("scaling-added", {"scaling": "ntk", "factor": float(factor)})]
        for reading in reread_with(settings, length, changes):
            base = {"base": (settings["rho"], base_of_grid(reading.omega))}
            yield replace(reading, changes={**reading.changes, **base})


def layers_read(enc: Encoding) -> Iterator[Misreading]:
    """Yield the rotations of the other layer types of the same config."""
    for name, rotation in other_layers(enc, len(enc)):
        if is_rotation(rotation):
            layers = {"layer": (layer_of(enc), name)}
            yield Misreading("other-layers", layers, rotation.measure.frequencies)


def geometric_rotation(pairs: Waves) -> Encoding | None:
    """Return the unscaled rotation whose cosines and sines a table holds, or None."""
    omega, m = pairs.frequency, len(pairs)
    if m < 2 or not (omega > 0).all() or pairs.repeats > 1 or abs(omega[0] - 1) > 1e-3:
        return None
    estimate = base_of_grid(omega)
    for rho in (float(f"{estimate:.{digits}g}") for digits in DIGITS if estimate > 1):
        if explains(Misreading("base", {}, Head(2 * m, rho, 1.0, 1).grid()), pairs, pairs):
            return build("rope", length=max(pairs.length, 2), d=2 * m, rho=rho)
    return None


def base_of_grid(omega: Floats) -> float:
    """Return the base of geometric frequencies from 1, by the lowest (the base of NTK scaling).

    >>> base_of_grid(5e5 ** (-np.arange(64) / 64)).__round__(3)
    500000.0
    """
    m = len(omega)
    return float(omega[-1]) ** (-m / (m - 1)) if m > 1 else 1.0


def list_at(settings: Values, length: int) -> str:
    """Return the list of factors that longrope uses at a length."""
    return "long" if length > settings["original"] else "short"


def at_other_lengths(settings: Values, length: int, observed: Waves) -> Iterator[Misreading]:
    """Yield frequencies at another length: the other list of longrope, or the base of dynamic."""
    if settings["scaling"] == "longrope":
        for n in (1, settings["original"] + 1):
            names = list_at(settings, length), list_at(settings, n)
            if names[0] != names[1]:
                yield Misreading("factor-list", {"factors": names}, rotation_of(settings, n)[0])
    if settings["scaling"] != "dynamic" or len(observed) < 2 or observed.frequency[-1] <= 0:
        return
    slowest, original = rotation_of(settings, 1)[0][-1], settings["original"]
    estimate = original * (1 + (slowest / observed.frequency[-1] - 1) / settings["factor"])
    for n in dict.fromkeys(round(float(f"{estimate:.{digits}g}")) for digits in DIGITS):
        if n > original and n != length:  # no scaling up to the original length
            omega, changed = (rotation_of(settings, size)[0] for size in (length, n))
            changes = {"length": (length, n), "base": (base_of_grid(omega), base_of_grid(changed))}
            yield Misreading("other-length", changes, changed)
