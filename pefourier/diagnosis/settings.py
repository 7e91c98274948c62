"""The smallest set of settings in which two known encodings differ, in words.

Conventions
-----------
Settings are the parameters of ``rope``. A setting that differs is omitted if it does not matter: a
rotation with this setting of the first and all others of the second has the frequencies of the
second. This must hold at the compared length and where a scaling begins to act. A scaling
counts as one setting. Two scalings are equal if they divide each frequency by the same number, as
the factors in a .gguf file may.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pefourier.diagnosis.config_errors import (
    CONFIG_ERRORS,
    SEARCHED,
    Cause,
    has_settings,
    meant_settings,
)
from pefourier.encodings.attention_decay import positions_below
from pefourier.encodings.encoding import Encoding, Floats
from pefourier.encodings.families.rotary import rotation_if_any, scaling_parameters
from pefourier.encodings.loader import source_of
from pefourier.writing.files import read_toml

SIZES = {"length", "path", "model_type", "array", "spans", "position_ids"}  # not parameters
ROUNDED = 1e-6  # relative tolerance, for numbers in float32
BEYOND = ((1, 0), (1, 1), (2, 0), (16, 0))  # times the original, plus
NEIGHBOURS = "interleaved"
BY_LENGTH = ("dynamic", "longrope")  # scalings that change with the length
LABELS = {"rho": "base", "d": "head size", "partial": "rotated fraction"}
LABELS |= {"rule": "slopes of heads:", "window": "keys that a query sees:"}
LABELS |= {"divisor": "divisor of the distances of query i:"}
LABELS |= {"attention_factor": "attention factor", "softmax_factor": "softmax scale"}
LABELS |= {"temperature": "factor of queries"}
Changes = Mapping[str, tuple[Any, Any]]


def settings_cause(a: Encoding, b: Encoding) -> Cause | None:
    """Return the settings in which two known rotations differ; neither counts as misread."""
    changes = changed_settings(a, b)
    if not changes:
        return None
    code_of = {
        error["key"]: code for code, error in read_toml(CONFIG_ERRORS).items() if "key" in error
    }
    codes = [code_of[key] for key in changes if key in code_of]
    if kinds := changes.get("scaling"):
        kind = {kinds[1]: "scaling-ignored", kinds[0]: "scaling-added"}.get("none", "scaling-type")
        shared = ("rho", "d", "partial", "layout")
        codes = [kind, *(code_of[key] for key in shared if key in changes)]
    below: Mapping[str, int | None] = {}
    if a.measure is not None and b.measure is not None:  # pair by pair, in any layout
        below = positions_below(a.measure.frequencies, b.measure.frequencies, SEARCHED)
    return Cause("both", tuple(codes) or ("parameters",), changes, below)


def changed_settings(a: Encoding, b: Encoding) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ and change a frequency at some length of interest.

    The interleaved layout that llama.cpp's converter gives a model in halves does not count.
    """
    always = dict.fromkeys(("layout", "attention_factor"))  # in one order
    first, second = (
        meant_settings(enc) | {key: enc.params.get(key) for key in always} for enc in (a, b)
    )
    pairs = {key: (first.get(key), second.get(key)) for key in dict.fromkeys((*first, *second))}
    changes: dict[str, tuple[Any, Any]] = {
        key: pair for key, pair in pairs.items() if pair[0] != pair[1]
    }
    if are_close(changes.get("attention_factor")):
        del changes["attention_factor"]
    sources = [source_of(enc.spec) if enc.spec else "" for enc in (a, b)]
    if dict(zip(sources, pairs["layout"], strict=True)) == {"config": "halves", "gguf": NEIGHBOURS}:
        changes.pop("layout", None)
    scaling_keys = {key for kind in changes.get("scaling", ()) for key in scaling_parameters(kind)}
    scaling_keys = scaling_keys - always.keys() | ({"scaling"} & changes.keys())
    lengths = lengths_of_interest(a, b)
    for group in ([scaling_keys] if scaling_keys else []) + [
        {key} for key in changes.keys() - scaling_keys - always.keys() - {"d"}
    ]:
        mixed = first | {key: second.get(key) for key in changes.keys() - group}
        is_scaling = group is scaling_keys
        own = first if is_scaling else mixed
        if all(
            are_close(frequencies_of_both(n, own, second, relative=is_scaling)) for n in lengths
        ):
            changes = {key: pair for key, pair in changes.items() if key not in group}
    return changes


def frequencies_of_both(
    length: int, first: Mapping[str, Any], second: Mapping[str, Any], *, relative: bool = False
) -> list[Floats] | None:
    """Return the frequencies of two settings, or the factors of their scalings if `relative`.

    None if settings are inconsistent or the numbers of pairs differ.
    """
    settings = [first, second]
    settings += [{**values, "scaling": "none"} for values in settings] if relative else []
    rotations = [rotation_if_any(values, length) for values in settings]
    omega = [rotation[0] for rotation in rotations if rotation is not None]
    if len(omega) < len(settings) or len({*map(len, omega)}) > 1:
        return None
    return [omega[0] / omega[2], omega[1] / omega[3]] if relative else omega


def are_close(pair: Sequence[Any] | None) -> bool:
    """Whether two numbers, or lists of equal length, agree within float32 rounding."""
    return pair is not None and np.allclose(pair[0], pair[1], rtol=ROUNDED, atol=0)


def lengths_of_interest(*encodings: Encoding) -> list[int]:
    """Return the compared length and the lengths around which scalings change frequencies."""
    lengths = {min(map(len, encodings))}
    for enc in encodings:
        if enc.params["scaling"] in BY_LENGTH:
            lengths |= {int(enc.params["original"] * k + extra) for k, extra in BEYOND}
    return sorted(lengths)


def lengths_apart(a: Encoding, b: Encoding) -> tuple[str, dict[str, int]] | None:
    """Return where rotations that agree at one length differ: beyond or below a limit, or None.

    Scalings that depend on the length change at an original length; both sides of it are tried.
    """
    if not all(has_settings(enc) and enc.name != "sinusoidal" for enc in (a, b)):
        return None
    compared, lengths = min(len(a), len(b)), lengths_of_interest(a, b)
    pairs = {n: frequencies_of_both(n, meant_settings(a), meant_settings(b)) for n in lengths}
    differs = {
        n: ~np.isclose(pair[0], pair[1], rtol=ROUNDED, atol=0) for n, pair in pairs.items() if pair
    }
    lengths_differing = [n for n in differs if differs[n].any() and n != compared]
    if not lengths_differing:
        return None
    beyond = [n for n in lengths_differing if n > compared]
    shown = limit = lengths_differing[-1]
    if beyond:
        limit = max(n for n in lengths if n < beyond[0])
        shown = next((n for n in beyond if n >= 2 * limit), beyond[0])
    facts = {"length": compared, "limit": limit, "at": shown}
    facts |= {"count": int(differs[shown].sum()), "of": len(differs[shown])}
    return "beyond" if beyond else "below", facts


def parameters_cause(first: Encoding, second: Encoding) -> Cause | None:
    """Return the parameters in which two encodings of the same name differ."""
    if first.name != second.name or not first.origin == second.origin == "formula":
        return None
    keys = dict.fromkeys((*first.params, *second.params)).keys() - SIZES
    pairs = {key: (first.params.get(key), second.params.get(key)) for key in sorted(keys)}
    changes = {key: pair for key, pair in pairs.items() if str(pair[0]) != str(pair[1])}
    return Cause("both", ("parameters",), changes, {}) if changes else None


def describe_changes(changes: Changes) -> str:
    """Describe the settings that differ.

    >>> describe_changes({"rho": (10000.0, 500000.0), "factor": (4.0, 8.0)})
    'base 10000 in the first, 500000 in the second; factor 4 in the first, 8 in the second'
    >>> describe_changes({"scaling": ("linear", "none"), "factor": (4.0, None)})
    'the linear scaling (factor 4) is missing in the second'
    """
    return "; ".join(sentence for *_, sentence in changes_in_words(changes))


def describe_sides(changes: Changes) -> tuple[str, str]:
    """Describe the differing settings of each side.

    >>> describe_sides({"rho": (1e4, 5e5), "scaling": ("none", "ntk"), "factor": (None, 2.0)})
    ('no scaling, base 10000', 'ntk scaling (factor 2), base 500000')
    """
    first, second, _ = zip(*changes_in_words(changes), strict=True)
    return ", ".join(first), ", ".join(second)


def changes_in_words(changes: Changes) -> Iterator[tuple[str, str, str]]:
    """Yield the words for the first, for the second, and a sentence for both, per setting."""
    kinds, scaling_keys = changes.get("scaling"), set()
    if kinds and None not in kinds:
        scaling_keys = {key for kind in kinds for key in scaling_parameters(kind)} - {
            "attention_factor"
        }
        a, b = (scaling_in_words(kind, side, changes) for side, kind in enumerate(kinds))
        sentence = f"{a} in the first, {b} in the second"
        if "none" in kinds:
            sentence = f"the second adds the {b}" if kinds[0] == "none" else f"the {a} is missing"
            sentence += " in the second" * (kinds[1] == "none")
        yield a, b, sentence
    for key, pair in changes.items():
        if key != "scaling" and key not in scaling_keys:
            label, (a, b) = LABELS.get(key, key), map(value_in_words, pair)
            sentence = f"{label} {a} in the first, {b} in the second"
            yield f"{label} {a}", f"{label} {b}", sentence


def scaling_in_words(kind: str, side: int, changes: Changes) -> str:
    """Describe a scaling with its unusual settings."""
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
    """Format a setting: a number in few digits, a long list by its length."""
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{len(value)} numbers"
    return f"{value:.8g}" if isinstance(value, float) else str(value).replace("None", "not set")
