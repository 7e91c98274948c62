"""The smallest set of settings in which two known encodings differ, in words.

Conventions
-----------
Settings are the parameters of ``rope``, see `pefourier.causes.rope`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pefourier.causes.rope import (
    ROUNDED,
    Rope,
    are_close,
    both_at,
    is_rotation,
    lengths_of_interest,
)
from pefourier.diagnosis.config_errors import (
    CONFIG_ERRORS,
    SEARCHED,
    Cause,
)
from pefourier.encodings.attention_decay import positions_below
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.loader import source_of
from pefourier.writing.files import read_toml

# not parameters, or computed from another parameter
SIZES = {"length", "path", "model_type", "array", "spans", "position_ids", "eigenvalues"}
NEIGHBOURS = "interleaved"
LABELS = {"rho": "base", "d": "head size", "partial": "rotated fraction"}
LABELS |= {"rule": "slopes of heads:", "window": "keys that a query sees:"}
LABELS |= {"query_divisor": "divisor of the distances of query i:"}
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
    ropes = Rope.of(a), Rope.of(b)
    changes = ropes[0].diff(ropes[1], min(len(a), len(b))) if ropes[0] and ropes[1] else {}
    for key in ("layout", "attention_factor"):
        pair = (a.params.get(key), b.params.get(key))
        if pair[0] != pair[1] and not (key == "attention_factor" and are_close(pair)):
            changes[key] = pair
    sources = [source_of(enc.spec) if enc.spec else "" for enc in (a, b)]
    layouts = changes.get("layout", ())
    if dict(zip(sources, layouts, strict=False)) == {"config": "halves", "gguf": NEIGHBOURS}:
        del changes["layout"]
    return changes


def lengths_apart(a: Encoding, b: Encoding) -> tuple[str, dict[str, int]] | None:
    """Return where rotations that agree at one length differ: beyond or below a limit, or None.

    Scalings that depend on the length change at an original length; both sides of it are tried.
    """
    first, second = Rope.of(a), Rope.of(b)
    if first is None or second is None or not (is_rotation(a) and is_rotation(b)):
        return None
    compared = min(len(a), len(b))
    lengths = lengths_of_interest(compared, first, second)
    pairs = {n: both_at(n, first.settings, second.settings) for n in lengths}
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
            sentence = f"the numbers of {label}" if a == b else sentence
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
    if isinstance(value, list | tuple) and np.size(value) > 4:
        return f"{np.size(value)} numbers"
    return f"{value:.8g}" if isinstance(value, float) else str(value).replace("None", "not set")
