"""In which settings do two known encodings differ? The fewest that make one the other, in words.

Conventions
-----------
Settings are the parameters of ``rope``. A setting that differs is left out where the rotation of
the first, with all others of the second, has the frequencies of the second: at the length that is
compared, and at those where a scaling begins to change them. A scaling counts as one setting, and
is the same where it divides every frequency by the same number, as the factors in a .gguf file do.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pefourier.diagnosis.misreadings import SLIPS, Cause, cost_of, has_settings, meant_settings
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import rotation_if_any, scaling_parameters
from pefourier.encodings.specs import source_of
from pefourier.writing.files import read_toml

SIZES = {"length", "path", "model_type", "array", "spans", "position_ids"}  # no parameters
ROUNDED = 1e-6  # relative, as numbers in float32 differ
BEYOND = (1, 2, 16)  # times an original length, up to which and beyond which scalings differ
BY_LENGTH = ("dynamic", "longrope")  # scalings that change with the length
OF_ALL = {"d", "layout", "attention_factor"}  # that count though frequencies are the same
LABELS = {"rho": "base", "d": "head size", "partial": "rotated fraction"}
LABELS |= {"rule": "slopes of heads:", "window": "keys that a query sees:"}
LABELS |= {"attention_factor": "attention factor", "softmax_factor": "softmax scale"}
Changes = Mapping[str, tuple[Any, Any]]


def settings_cause(a: Encoding, b: Encoding) -> Cause | None:
    """The settings in which two rotations that are known differ: neither is the other misread."""
    first, second = (
        meant_settings(enc) | {key: enc.params.get(key) for key in ("layout", "attention_factor")}
        for enc in (a, b)
    )
    keys = dict.fromkeys((*first, *second))
    pairs = {key: (first.get(key), second.get(key)) for key in keys}
    changes = {key: pair for key, pair in pairs.items() if not is_same_value(*pair)}
    if is_converted_layout(a, b, changes.get("layout")):
        del changes["layout"]
    changes = needed_changes(a, b, (first, second), changes)
    if not changes:
        return None
    code_of = {slip["key"]: code for code, slip in read_toml(SLIPS).items() if "key" in slip}
    codes = [code_of[key] for key in changes if key in code_of]
    if kinds := changes.get("scaling"):
        kind = {kinds[1]: "scaling-ignored", kinds[0]: "scaling-added"}.get("none", "scaling-type")
        shared = ("rho", "d", "partial", "layout")
        codes = [kind, *(code_of[key] for key in shared if key in changes)]
    below: Mapping[str, int | None] = {}
    if a.measure is not None and b.measure is not None:  # pair by pair, whatever their layouts
        below = cost_of(a.measure.frequencies, b.measure.frequencies)
    return Cause("both", tuple(codes) or ("parameters",), changes, below)


def is_same_value(first: Any, second: Any) -> bool:
    """Whether two settings are one, to rounding in float32.

    >>> is_same_value(0.1, 0.1 + 1e-9), is_same_value((1.0, 2.0), (1.0, 3.0))
    (True, False)
    """
    pair = first, second
    if all(isinstance(x, int | float | tuple | list) for x in pair) and np.size(pair[0]):
        a, b = (np.asarray(x, dtype=float) for x in pair)
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=ROUNDED, atol=0))
    return bool(first == second)


def is_converted_layout(a: Encoding, b: Encoding, layouts: tuple[Any, Any] | None) -> bool:
    """Whether the layout is other because llama.cpp's converter has put the rows in that order."""
    sources = [source_of(enc.spec) if enc.spec else "" for enc in (a, b)]
    by_source = dict(zip(sources, layouts or (), strict=False))
    return by_source == {"config": "halves", "gguf": "interleaved"}


def needed_changes(
    a: Encoding, b: Encoding, settings: tuple[dict[str, Any], dict[str, Any]], changes: Changes
) -> dict[str, tuple[Any, Any]]:
    """Changes without those that are nothing to the frequencies, at every length of interest."""
    first, second = settings
    lengths = lengths_of_interest(a, b)
    target = [frequencies_of(second, n) for n in lengths]

    def makes_second(changed: Iterable[str]) -> bool:
        mixed = first | {key: second.get(key) for key in changed}
        return all(map(are_equal, (frequencies_of(mixed, n) for n in lengths), target))

    needed = dict(changes)
    own = {key for kind in changes.get("scaling", ()) for key in scaling_parameters(kind)}
    own = (own & needed.keys() - OF_ALL) | ({"scaling"} & needed.keys())
    groups = [own] if own else []
    for group in (*groups, *({key} for key in changes.keys() - OF_ALL - own)):
        left = needed.keys() - group
        if makes_second(left) or (group is own and has_same_divisors(settings, lengths)):
            needed = {key: needed[key] for key in needed if key in left}
    return needed


def frequencies_of(settings: Mapping[str, Any], length: int) -> np.ndarray | None:
    """The frequencies of settings at a length; None where these do not go together."""
    rotation = rotation_if_any(settings, length)
    return None if rotation is None else rotation[0]


def are_equal(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    """Whether two sets of frequencies are one, to rounding in float32."""
    if first is None or second is None or first.shape != second.shape:
        return False
    return bool(np.allclose(first, second, rtol=ROUNDED, atol=0))


def has_same_divisors(
    settings: tuple[dict[str, Any], dict[str, Any]], lengths: Iterable[int]
) -> bool:
    """Whether two scalings divide frequencies by the same numbers, whatever these are."""
    for n in lengths:
        divisors = []
        for own in settings:
            scaled, plain = (frequencies_of(s, n) for s in (own, own | {"scaling": "none"}))
            if scaled is None or plain is None or scaled.shape != plain.shape:
                return False
            divisors.append(scaled / plain)
        if not are_equal(*divisors):
            return False
    return True


def lengths_of_interest(*encodings: Encoding) -> list[int]:
    """The length that is compared, and those up to and beyond which scalings change frequencies."""
    lengths = {min(map(len, encodings))}
    for enc in encodings:
        if enc.params.get("scaling") in BY_LENGTH and (original := enc.params.get("original")):
            lengths |= {int(original) * k for k in BEYOND} | {int(original) + 1}
    return sorted(lengths)


def lengths_apart(a: Encoding, b: Encoding) -> tuple[str, dict[str, int]] | None:
    """Where rotations that agree at one length do not: beyond or below a limit; None: nowhere.

    Scalings that depend on the length change at an original length, of which both sides are tried.
    """
    if not (has_settings(a) and has_settings(b)) or "sinusoidal" in (a.name, b.name):
        return None
    compared, lengths = min(len(a), len(b)), lengths_of_interest(a, b)
    differing = {}
    for n in lengths:
        pair = [frequencies_of(meant_settings(enc), n) for enc in (a, b)]
        if None in [x if x is None else 0 for x in pair] or pair[0].shape != pair[1].shape:
            return None
        differing[n] = int((~np.isclose(*pair, rtol=ROUNDED, atol=0)).sum())
    facts = {"length": compared, "of": len(pair[0])}
    beyond = [n for n in lengths if n > compared and differing[n]]
    if beyond:
        limit = max(n for n in lengths if n < beyond[0])
        at = next((n for n in beyond if n >= 2 * limit), beyond[0])
        return "beyond", {**facts, "limit": limit, "at": at, "count": differing[at]}
    below = [n for n in lengths if n < compared and differing[n]]
    if below:
        return "below", {
            **facts,
            "limit": below[-1],
            "at": below[-1],
            "count": differing[below[-1]],
        }
    return None


def parameters_cause(first: Encoding, second: Encoding) -> Cause | None:
    """The parameters in which two encodings of one name differ."""
    if first.name != second.name or not first.origin == second.origin == "formula":
        return None
    keys = dict.fromkeys((*first.params, *second.params)).keys() - SIZES
    pairs = {key: (first.params.get(key), second.params.get(key)) for key in keys}
    changes = {
        key: pair for key, pair in sorted(pairs.items()) if not np.array_equal(*map(str, pair))
    }
    return Cause("both", ("parameters",), changes, {}) if changes else None


def describe_changes(changes: Changes) -> str:
    """Settings that differ, in words.

    >>> describe_changes({"rho": (10000.0, 500000.0), "factor": (4.0, 8.0)})
    'base 10000 in the first, 500000 in the second; factor 4 in the first, 8 in the second'
    >>> describe_changes({"scaling": ("linear", "none"), "factor": (4.0, None)})
    'the linear scaling (factor 4) is missing in the second'
    """
    return "; ".join(sentence for *_, sentence in worded_changes(changes))


def describe_sides(changes: Changes) -> tuple[str, str]:
    """What each of two has, in words.

    >>> describe_sides({"rho": (1e4, 5e5), "scaling": ("none", "ntk"), "factor": (None, 2.0)})
    ('no scaling, base 10000', 'ntk scaling (factor 2), base 500000')
    """
    first, second, _ = zip(*worded_changes(changes), strict=True)
    return ", ".join(first), ", ".join(second)


def worded_changes(changes: Changes) -> Iterator[tuple[str, str, str]]:
    """What the first has, what the second, and a sentence of both, for each setting."""
    kinds, own = changes.get("scaling"), set()
    if kinds:
        own = {key for kind in kinds for key in scaling_parameters(kind)} - {"attention_factor"}
        a, b = (scaling_in_words(kind, side, changes) for side, kind in enumerate(kinds))
        sentence = f"{a} in the first, {b} in the second"
        if "none" in kinds:
            sentence = f"the second adds the {b}" if kinds[0] == "none" else f"the {a} is missing"
            sentence += " in the second" * (kinds[1] == "none")
        yield a, b, sentence
    for key, pair in changes.items():
        if key != "scaling" and key not in own:
            label, (a, b) = LABELS.get(key, key), map(value_in_words, pair)
            sentence = f"{label} {a} in the first, {b} in the second"
            yield f"{label} {a}", f"{label} {b}", sentence


def scaling_in_words(kind: str, side: int, changes: Changes) -> str:
    """A scaling with its settings, but those that have their usual value."""
    if kind == "none":
        return "no scaling"
    values = {key: changes[key][side] for key in scaling_parameters(kind) if key in changes}
    usual = {key: parameter.default for key, parameter in scaling_parameters(kind).items()}
    unusual = [
        f"{key} {value_in_words(value)}"
        for key, value in values.items()
        if key != "attention_factor" and value != usual[key]
    ]
    return f"{kind} scaling" + (f" ({', '.join(unusual)})" if unusual else "")


def value_in_words(value: Any) -> str:
    """A setting: few digits of a number, how many of a long list."""
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{len(value)} numbers"
    return f"{value:.8g}" if isinstance(value, float) else str(value).replace("None", "not set")
