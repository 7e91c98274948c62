"""Which one slip makes a rotation another? Settings changed one at a time, rebuilt and compared.

Conventions
-----------
Settings are the parameters of ``rope``: d, rho, partial, scaling and that scaling's own. A slip
changes one of them, or the frequencies or positions that come of them; config_errors.toml lists
slips and the values that are tried. A reading is what comes of a slip: frequencies in radians per
position, one a pair, and the waves at any positions. It explains another rotation where that has
its waves, to rounding; where none does, nothing is guessed.

Misreadings that are asked about are a SPEC, or slips that have a name: ``scaling-ignored``,
``partial-ignored``, ``local-for-global`` and a setting of ``rope`` such as ``base=10000``,
``original=131072`` or ``truncate=true``; those of one rotation may come together,
``base=10000,scaling-ignored``. What they do not name stays as it is meant.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log, pi, sqrt
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np

from pefourier.diagnosis.pairs import PairWaves, shifted_waves, waves_differ
from pefourier.diagnosis.wave_formulas import usual_scalings
from pefourier.encodings import build, load
from pefourier.encodings.attention_decay import positions_below
from pefourier.encodings.encoding import DeclaredEncoding, Encoding, Floats
from pefourier.encodings.families.rotary import (
    SCALINGS,
    Head,
    rotation_if_any,
    rotation_of,
    scaling_parameters,
)
from pefourier.encodings.loader import open_model, source_of
from pefourier.encodings.registry import ALIASES, BUILDERS, parse_parameters
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FLOAT32_EPS, FORMATS, phase_rounding, rounded
from pefourier.writing.files import read_toml

SLIPS = Path(__file__).with_suffix(".toml")
FARTHEST = 2**17  # rows by whose fitted phases readings are ruled out
SEARCHED = 2**17  # positions in which the cost of a slip is looked for
SHOWN = 0.1  # radians that a pair turns over a table whose cosines show it
SIMILAR = 1e-6  # relative, to which fitted ratios of frequencies are one
DIGITS = range(1, 9)  # that a number found between others is rounded to
SHORT, LONG = DIGITS[:4], DIGITS[4:]
NEARBY = (0.0, 1e-7, -1e-7, 1e-5, -1e-5, 1e-3, -1e-3, 0.02, -0.02, 0.1, -0.1)  # on its plateau


@dataclass(frozen=True)
class Cause:
    """The one slip that explains a difference."""

    of: Literal["a", "b", "both"]  # whose settings were misread; both: settings that differ
    misreadings: tuple[str, ...]  # codes of slips in config_errors.toml
    changes: Mapping[str, tuple[Any, Any]]  # settings, as meant and as read
    below: Mapping[str, int | None]  # first position of cosines below .99, .9, .5; None: never


@dataclass(frozen=True, eq=False)
class SlipReading:
    """What comes of a slip."""

    code: str
    changes: Mapping[str, tuple[Any, Any]]
    omega: Floats  # (m,)
    divisor: int = 1  # by which positions were divided as whole numbers


def is_rotation(enc: Encoding) -> TypeGuard[DeclaredEncoding]:
    """Whether an encoding turns pairs by settings that are known."""
    one_axis = isinstance(enc, DeclaredEncoding) and enc.measure.frequencies.ndim == 1
    return enc.injection == "rotate" and one_axis and "scaling" in enc.params


def has_settings(enc: Encoding) -> bool:
    """The same, of frequencies that a base and a scaling make; sinusoids have such, too."""
    if enc.name == "sinusoidal":
        return enc.params.get("divisor") == "d" and enc.params.get("times") is None
    return is_rotation(enc) and enc.params.get("inv_freq") is None


def meant_settings(enc: Encoding) -> dict[str, Any]:
    """The settings of a rotation that make it again."""
    if enc.name == "sinusoidal":
        return {"d": enc.dim, "rho": enc.params["rho"], "partial": 1.0, "scaling": "none"}
    scaling_keys = scaling_parameters(enc.params["scaling"])
    return {key: enc.params[key] for key in ("d", "rho", "partial", "scaling", *scaling_keys)}


def find_misreading(rotation: Encoding, pairs: PairWaves, observed: PairWaves) -> Cause | None:
    """The one slip by which a rotation becomes another, whose fitted or declared pairs are given.

    >>> from pefourier.diagnosis.pairs import declared_pairs, fit_pair_waves
    >>> meant = load("rope", 200, 32)
    >>> angles = np.outer(np.arange(200), 5e5 ** (-np.arange(16) / 16))
    >>> table = fit_pair_waves(np.hstack([np.cos(angles), np.sin(angles)]), 2.0**-52)
    >>> find_misreading(meant, declared_pairs(meant), table).changes
    {'rho': (10000.0, 500000.0)}
    """
    for reading in readings(rotation, pairs, observed):
        if explains(reading, pairs, observed):
            below: Mapping[str, int | None] = {}
            if reading.divisor == 1 and reading.omega.shape == pairs.omega.shape:
                below = positions_below(pairs.omega, reading.omega, SEARCHED)
            return Cause("a", (reading.code,), dict(reading.changes), below)
    return None


def explains(reading: SlipReading, pairs: PairWaves, observed: PairWaves) -> bool:
    """Whether another rotation has the waves of a reading, whatever factor is before them."""
    omega = reading.omega
    if omega.shape != observed.omega.shape or not np.isfinite(omega).all():
        return False
    if observed.is_declared:
        tolerance = phase_rounding(np.abs(omega), FLOAT32_EPS)
        return reading.divisor == 1 and bool((np.abs(omega - observed.omega) <= tolerance).all())
    steps = min(observed.length, FARTHEST) // observed.repeats
    tolerance = 0.05 + 2 * sqrt(2 * observed.eps) + 4 * steps * phase_rounding(np.abs(omega), 1.0)
    signs = (1, -1) if observed.form and observed.form.part == "cos" else (1,)
    turned = omega * (observed.repeats / reading.divisor)
    turns = [np.angle(np.exp(1j * (sign * turned - observed.omega))) for sign in signs]
    turns = turns if not observed.has_angles else [turned - observed.omega]
    if (np.abs(turns).min(axis=0) * steps > tolerance).any():
        return False
    source = replace(pairs, omega=omega, factor=observed.factor)
    waves = shifted_waves(source, omega, observed, reading.divisor)
    return not waves_differ(source, observed, waves, stop=True).any()


def readings(rotation: Encoding, pairs: PairWaves, observed: PairWaves) -> Iterator[SlipReading]:
    """A rotation with each slip, those whose values people choose before those that are fitted."""
    omega = pairs.omega
    yield from scaled_positions(omega, observed)
    yield from layers_read(rotation)
    if has_settings(rotation):
        settings = meant_settings(rotation)
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
        yield SlipReading(f"{name}-frequencies", {}, rounded(omega, FORMATS[name]))
    yield from one_factor(omega, observed)
    yield from one_pair(omega, observed)


def reread_with(
    settings: Mapping[str, Any], length: int, changes: Iterable[tuple[str, Mapping[str, Any]]]
) -> Iterator[SlipReading]:
    """A rotation with some settings changed, those left out that are what they were or none."""
    for code, changed in changes:
        differing = {k: (settings.get(k), v) for k, v in changed.items() if settings.get(k) != v}
        rotation = rotation_if_any(dict(settings) | dict(changed), length) if differing else None
        if rotation is not None:
            yield SlipReading(code, differing, rotation[0])


def chosen_changes(
    rotation: Encoding, settings: Mapping[str, Any], observed: PairWaves
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Codes and changes of settings to values that people choose, likely ones of it first."""
    count, factor = 2 * len(observed.omega), settings.get("factor") or 1.0
    model = open_model(rotation.spec).model if "model_type" in rotation.params else None
    longest = model.longest() if model is not None else 0
    original = settings.get("original") or 0
    likely = {
        "original": [int(n) for n in (longest, original * factor, original / factor) if n],
        "partial": [count / settings["d"]],
        "d": [round(count / settings["partial"])],
    }
    for code, slip in read_toml(SLIPS).items():
        if settings["scaling"] not in slip.get("when", SCALINGS):
            continue
        key, changes = slip.get("key", ""), [slip["set"]] if "set" in slip else []
        for a, b in slip.get("swap", ()):
            if None not in (first := settings.get(a), second := settings.get(b)):
                changes.append({a: second, b: first})
        if settings.get(key) is not None:
            values = (*likely.get(key, ()), *slip.get("values", ()))
            changes += [{key: number} for number in dict.fromkeys(values)]
        yield from ((code, change) for change in changes)


def scaled_positions(omega: Floats, observed: PairWaves) -> Iterator[SlipReading]:
    """Other units of angles, whole positions divided, the other way to turn."""
    for unit, formula in ((180 / pi, "p w 180 / pi"), (pi / 180, "p w pi / 180")):
        yield SlipReading("degrees", {"angle": ("p w", formula)}, omega * unit)
    yield SlipReading("reversed", {}, -omega)
    k = observed.repeats
    if k > 1:
        yield SlipReading("positions-divided", {"positions": ("p", f"p // {k}")}, omega, k)


def one_factor(omega: Floats, observed: PairWaves) -> Iterator[SlipReading]:
    """All frequencies times one number, which the fastest pair that folds nowhere tells."""
    if omega.shape != observed.omega.shape:
        return
    turning = np.flatnonzero((omega != 0) & (np.abs(observed.omega) < 1))
    for k in turning[:1]:
        ratio = float(observed.omega[k] / omega[k])
        for digits in DIGITS:
            step = float(f"{ratio:.{digits}g}")
            yield SlipReading("step", {"positions": ("p", f"{step:g} p")}, omega * step)
            if step and (inverse := float(f"{1 / ratio:.{digits}g}")):
                yield SlipReading("step", {"positions": ("p", f"p / {inverse:g}")}, omega / inverse)


def one_pair(omega: Floats, observed: PairWaves) -> Iterator[SlipReading]:
    """One pair alone that turns otherwise."""
    if omega.shape == observed.omega.shape and len(omega) > 2:
        k = int(np.abs(observed.omega - omega).argmax())
        changed = omega.copy()
        changed[k] = observed.omega[k]
        pair = {f"frequency of pair {k}": (float(omega[k]), float(changed[k]))}
        yield SlipReading("single-pair", pair, changed)


def other_ramps(settings: Mapping[str, Any], omega: Floats, length: int) -> Iterator[SlipReading]:
    """The ramp of YaRN or Llama 3 the other way, or YaRN's between limits of other parentheses."""
    if settings["scaling"] in ("yarn", "llama3"):
        theta = Head(settings["d"], settings["rho"], settings["partial"], length).grid()
        yield SlipReading("ramp-reversed", {}, theta * (1 + 1 / settings["factor"]) - omega)
    if settings["scaling"] == "yarn":
        for turns in (2 * pi, 4 * pi**2):  # original / (n 2 pi) as original / n, original / n 2 pi
            limits = {key: settings[key] / turns for key in ("beta_fast", "beta_slow")}
            for reading in reread_with(settings, length, [("ramp-parentheses", limits)]):
                yield replace(reading, changes={})


def exponents(
    settings: Mapping[str, Any], omega: Floats, observed: PairWaves
) -> Iterator[SlipReading]:
    """Exponents of another head, or of the pair before or behind, scaled as the rotation is."""
    d, rho, turned = settings["d"], settings["rho"], int(settings["d"] * settings["partial"])
    heads = read_toml(SLIPS)["head-size"]["values"]
    sizes = (turned - 2, turned - 1, turned + 2, 2 * turned, turned // 2, *heads)
    for size in dict.fromkeys(n for n in sizes if n > 1 and n != turned):
        base = rho ** (turned / size)
        name = {turned - 2: "d - 2", turned - 1: "d - 1", turned + 2: "d + 2"}.get(size, size)
        rebuilt = rotation_if_any(dict(settings) | {"rho": base}, observed.length)
        if rebuilt and not (d != turned and size == d):
            yield SlipReading("exponent", {"divisor": (turned, name)}, rebuilt[0])
    if settings["partial"] < 1 and settings["scaling"] == "none":
        yield SlipReading(
            "partial-grid", {"divisor": (turned, d)}, Head(d, rho, 1.0, 1).grid()[: len(omega)]
        )
    for shift in (1, -1, 0.5):
        step = rho ** (-2 * shift / turned)
        change = {"exponent": ("2 i / d", f"2 (i {'+' if shift > 0 else '-'} {abs(shift):g}) / d")}
        if settings["scaling"] == "none":
            yield SlipReading("exponent", change, omega * step)


def fitted_changes(
    settings: Mapping[str, Any], length: int, observed: PairWaves, lengths: range = DIGITS
) -> Iterator[SlipReading]:
    """One number of the settings, found where the mean logarithm of frequencies is the other's."""
    cosines = observed.form is not None and observed.form.part == "cos"
    turning = observed.omega * observed.length > (SHOWN if cosines else 0)  # slow ones do not show
    if not turning.any() or (observed.omega > 1 + SIMILAR).any():
        return
    from scipy.optimize import brentq  # a quarter of a second, which few comparisons need

    target = np.log(observed.omega[turning]).mean()
    for code, slip in read_toml(SLIPS).items():
        key = slip.get("key", "")
        if "range" not in slip or not settings.get(key):
            continue

        def mean_log(number: float, key: str = key) -> float:
            rebuilt = rotation_if_any(dict(settings) | {key: typed(key, number)}, length)
            if rebuilt is None or rebuilt[0].shape != turning.shape or not (rebuilt[0] > 0).all():
                return np.nan
            return float(np.log(rebuilt[0][turning]).mean() - target)

        low, high = slip["range"]
        low = max(low, 1.001 * (settings.get(slip.get("above", "")) or 0))
        high = min(high, (settings.get(slip.get("under", "")) or high) / 1.001)
        try:
            number = exp(brentq(lambda x, f=mean_log: f(exp(x)), log(low), log(high)))
        except ValueError:  # no sign changes between
            continue
        numbers = dict.fromkeys(
            typed(key, float(f"{number * (1 + share):.{digits}g}"))
            for share, digits in product(NEARBY, lengths)
        )
        yield from reread_with(settings, length, ((code, {key: number}) for number in numbers))


def typed(key: str, number: float) -> float:
    """A number as its setting takes it: lengths are whole."""
    return max(1, round(number)) if key == "original" else float(number)


def added_scalings(
    settings: Mapping[str, Any], length: int, observed: PairWaves
) -> Iterator[SlipReading]:
    """Scalings where none was meant, whose factor the slowest pair tells."""
    is_uniform = settings["scaling"] in ("none", "linear", "ntk")
    plain = rotation_if_any(dict(settings) | {"scaling": "none"}, length) if is_uniform else None
    if plain is None or plain[0].shape != observed.omega.shape:
        return
    code = "scaling-added" if settings["scaling"] == "none" else "scaling-type"
    slips = read_toml(SLIPS)
    values = slips["original-length"]["values"]
    ratio = plain[0][-1] / (observed.omega[-1] or np.inf)
    factors = [float(f"{ratio:.{digits}g}") for digits in (1, 2, 3, 6)]
    factors += [float(value) for value in slips["factor"]["values"]]  # a slow cosine hides its own
    for factor in (factor for factor in dict.fromkeys(factors) if factor > 1):
        kinds = [{"scaling": "ntk", "factor": factor}] if len(observed.omega) > 1 else []
        kinds += usual_scalings([factor], values)
        yield from reread_with(settings, length, ((code, changes) for changes in kinds))


def added_ntk(settings: Mapping[str, Any], length: int) -> Iterator[SlipReading]:
    """NTK-aware scaling by usual factors where none was meant, with the base that it makes."""
    if settings["scaling"] != "none" or settings["d"] * settings["partial"] < 4:
        return
    for factor in read_toml(SLIPS)["factor"]["values"]:
        changes = [("scaling-added", {"scaling": "ntk", "factor": float(factor)})]
        for reading in reread_with(settings, length, changes):
            base = {"base": (settings["rho"], base_of_grid(reading.omega))}
            yield replace(reading, changes={**reading.changes, **base})


def layers_read(enc: Encoding) -> Iterator[SlipReading]:
    """The rotations of the other types of layers of the same config."""
    for name, rotation in other_layers(enc, len(enc)):
        if is_rotation(rotation):
            layers = {"layer": (layer_of(enc), name)}
            yield SlipReading("other-layers", layers, rotation.measure.frequencies)


def geometric_rotation(pairs: PairWaves) -> Encoding | None:
    """The rotation without a scaling that a table of waves is, by the base of its frequencies."""
    omega, m = pairs.omega, len(pairs.omega)
    if m < 2 or not (omega > 0).all() or pairs.repeats > 1 or abs(omega[0] - 1) > 1e-3:
        return None
    estimate = base_of_grid(omega)
    for rho in (float(f"{estimate:.{digits}g}") for digits in DIGITS if estimate > 1):
        if explains(SlipReading("base", {}, Head(2 * m, rho, 1.0, 1).grid()), pairs, pairs):
            return build("rope", length=max(pairs.length, 2), d=2 * m, rho=rho)
    return None


def base_of_grid(omega: Floats) -> float:
    """The base of frequencies that fall by one ratio from 1, by the slowest: NTK's own base.

    >>> base_of_grid(5e5 ** (-np.arange(64) / 64)).__round__(3)
    500000.0
    """
    m = len(omega)
    return float(omega[-1]) ** (-m / (m - 1)) if m > 1 else 1.0


def list_at(settings: Mapping[str, Any], length: int) -> str:
    """The list of factors that longrope uses at a length."""
    return "long" if length > settings["original"] else "short"


def at_other_lengths(
    settings: Mapping[str, Any], length: int, observed: PairWaves
) -> Iterator[SlipReading]:
    """The frequencies of a scaling by length at another one: longrope's lists, dynamic's base."""
    if settings["scaling"] == "longrope":
        for n in (1, settings["original"] + 1):
            names = list_at(settings, length), list_at(settings, n)
            if names[0] != names[1]:
                yield SlipReading("factor-list", {"factors": names}, rotation_of(settings, n)[0])
    if settings["scaling"] != "dynamic" or len(observed.omega) < 2 or observed.omega[-1] <= 0:
        return
    slowest, original = rotation_of(settings, 1)[0][-1], settings["original"]
    estimate = original * (1 + (slowest / observed.omega[-1] - 1) / settings["factor"])
    for n in dict.fromkeys(round(float(f"{estimate:.{digits}g}")) for digits in DIGITS):
        if n > original and n != length:  # up to it there is no scaling
            omega, changed = (rotation_of(settings, size)[0] for size in (length, n))
            changes = {"length": (length, n), "base": (base_of_grid(omega), base_of_grid(changed))}
            yield SlipReading("other-length", changes, changed)


MISREADINGS = (
    *("scaling-ignored", "partial-ignored", "base=NUMBER", "original=NUMBER"),
    *("local-for-global", "layout"),
)
WHOLE = {"rho", "d", "partial", "scaling"}  # settings of every rotation


def misread(
    enc: Encoding, reading: str, length: int, d: int | None
) -> tuple[Floats, Mapping[str, Any]]:
    """The frequencies of another reading of a rotation, in radians per position, and its settings.

    >>> enc = load("rope:rho=5e5,scaling=linear,factor=4", 80, 4)
    >>> misread(enc, "scaling-ignored", 80, None)[0].round(4)
    array([1.    , 0.0014])
    >>> misread(enc, "base=10000", 80, None)[0].round(4)
    array([0.25  , 0.0025])
    """
    changes = changes_of(enc, reading)
    if changes is not None:
        return change_rotation(enc, changes)
    if reading == "local-for-global":
        _, second = next(other_layers(enc), ("", None))
        if second is None:
            raise PefourierError(f"{shown(enc.spec)} has one rotation; local-for-global needs two")
    else:
        second = load_like(enc, reading, length, d or enc.params["d"])
    if second.injection != "rotate" or not isinstance(second, DeclaredEncoding):
        slips = ", ".join(MISREADINGS)
        raise PefourierError(f"{shown(reading)} is not rotary; give a rotation, or one of {slips}")
    return second.measure.frequencies, {"attention_factor": 1.0, **second.params}


def changes_of(enc: Encoding, slips: str) -> dict[str, Any] | None:
    """The settings that some slips change; None where they are none, but a SPEC."""
    changes: dict[str, Any] = {}
    for part in slips.split(","):
        key, equals, _ = part.partition("=")
        if part == "scaling-ignored":
            shared = enc.params["scaling"] == "proportional"  # p-RoPE, which may be stretched, too
            changes |= {"factor": 1.0} if shared else {"scaling": "none"}
        elif part == "partial-ignored":
            changes |= {"partial": 1.0}
        elif equals and ALIASES.get(key, key) in {*WHOLE, *scaling_parameters(scaling_of(enc))}:
            changes |= parse_parameters("rope", part)
        elif equals and ALIASES.get(key, key) in BUILDERS["rope"].parameters:
            raise PefourierError(
                f"{shown(part)} isn't a misreading of {shown(enc.spec)}, whose scaling is "
                f"{scaling_of(enc)}; name its own settings, or give a whole rotation, rope:…"
            )
        else:
            return None
    return changes


def scaling_of(enc: Encoding) -> str:
    """The scaling of a rotation; none where only its frequencies are known."""
    return str(enc.params.get("scaling", "none"))


def change_rotation(enc: Encoding, changes: Mapping[str, Any]) -> tuple[Floats, Mapping[str, Any]]:
    """The frequencies of a rotation with some settings changed, and its factors.

    A factor that was given stays, but with another scaling.
    """
    settings, changed = enc.params, {**enc.params, **changes}
    if settings.get("inv_freq") is not None:
        if changes == {"scaling": "none"} and isinstance(enc, DeclaredEncoding):
            return enc.measure.frequencies, settings  # whose scaling, if any, is not known
        raise PefourierError(
            f"{shown(enc.spec)} has frequencies by themselves, not by a base and a share of the "
            f"head; {' and '.join(changes)} can't be changed"
        )
    omega, by_formula = rotation_of(changed, len(enc))
    is_chosen = settings["attention_factor"] != rotation_of(settings, len(enc))[1]
    if "attention_factor" in changes or not is_chosen or "scaling" in changes:
        changed["attention_factor"] = changes.get("attention_factor") or by_formula
    if "softmax_factor" in settings:
        changed["softmax_factor"] = softmax_of(changed)
    return omega, changed


def load_like(enc: Encoding, spec: str, length: int, d: int) -> Encoding:
    """Another rotation; of another config with several, that of the same type of layer."""
    if source_of(spec) != "config":
        return load(spec, length, d)
    part, file = layer_of(enc), open_model(spec)
    rotary_parts = {run.part for run in file.layers if run.kind == "rotary"} if part else ()
    is_named = part in rotary_parts and not (file.model and file.model.part)
    return load(file.spec_of(part) if is_named else spec, length)


def other_layers(enc: Encoding, length: int | None = None) -> Iterator[tuple[str, Encoding]]:
    """The rotations of the other types of layers of the same config, by these."""
    if part := layer_of(enc):
        model = open_model(enc.spec.removesuffix(part).rstrip(".#"))
        for name in dict.fromkeys(run.part for run in model.layers):
            if name not in ("", part):
                yield name, load(model.spec_of(name), length)


def layer_of(enc: Encoding) -> str:
    """The type of layer that a SPEC names; empty where it names none."""
    model = open_model(enc.spec).model if source_of(enc.spec) == "config" else None
    return model.part if model is not None else ""


def softmax_of(settings: Mapping[str, Any]) -> float:
    """What DeepSeek's models multiply logits with, by YaRN's factor and mscale_all_dim."""
    mscale, factor = settings.get("mscale_all_dim") or 0.0, settings.get("factor") or 1.0
    is_scaled = settings["scaling"] != "none" and factor > 1
    return float(0.1 * mscale * log(factor) + 1) ** 2 if is_scaled else 1.0
