"""How is it told whether two implementations agree? The answer of `pefourier compare`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from glob import escape, iglob
from itertools import islice
from os.path import dirname, isdir
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.analysis.compare import DOUBLED
from pefourier.answers import telling
from pefourier.answers.encode import MOST_ROWS, draw_table
from pefourier.answers.plot import USUAL, WIDTH, Look, make_panels
from pefourier.answers.telling import MOST, Answer, Said, Telling, identity_of, meaning_of
from pefourier.encodings.conventions import conventions_of_papers
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.places import WORDS, by_axis
from pefourier.encodings.registry import BUILDERS
from pefourier.files import read_toml
from pefourier.geometry.duplicates import first_duplicate
from pefourier.writing.page import Reason
from pefourier.writing.text import agreeing, join, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.analysis.compare import Comparison
    from pefourier.diagnosis.causes import Cause

ALIKE = 0.02  # of the energy at other frequencies: less, and two spectra are nearly the same
phrase = partial(telling.sentence, "compare")
METHODS = {
    "antialias": "bicubic with antialias",
    "bicubic-corners": "bicubic with align_corners",
    "bilinear-corners": "bilinear with align_corners",
    "nearest": "nearest (surely a bug: neighbours share one code)",
    "dinov2": "bicubic by a scale factor with .1 added (DINOv2)",
}
ORDERS = {"order", "rows", "layout", "columns", "signs", "first"}  # of no account to new weights
WAVES = {"cos": "cosines", "sin": "sines"}


def exchanged_axes(r: Comparison) -> list[str]:
    """Axes that stand in one another's columns, or whose points do on a square."""
    if "order" in r.by:
        pairs = zip(*r.by["order"].split(" to "), strict=True)
        return sorted(one for one, other in pairs if one != other)
    square = len({*r.about[0].domain.sides[-2:]}) == 1
    return ["x", "y"] if r.by.get("rows") == "transposed" and square else []


def axes_in_words(r: Comparison) -> str:
    """What exchanged axes mean for weights, how they come back, and what is all the same anew."""
    axes = exchanged_axes(r)
    if not axes:
        return ""
    halves = r.by.get("layout") == "halves exchanged"
    way = "swap the halves of the columns" if halves else "put the columns into the other's order"
    way = way if "order" in r.by else "transpose the grid of one table"
    anew = "it" if r.by.keys() <= ORDERS else "the order of columns alone"
    what, read = "change places", "axes as others"
    if len(axes) == 2:
        what, read = "are exchanged", f"{WORDS.get(axes[1])} as {WORDS.get(axes[0])}"
    told = {"axes": join(axes), "what": what, "read": read, "way": way, "anew": anew}
    return phrase("axes exchanged", **told)


def exchanged_points(r: Comparison) -> str:
    """What rows of a table in another order mean."""
    rows, grid = r.by.get("rows", ""), size_of(r.about[0].domain.sides)
    if not rows or exchanged_axes(r):
        return ""
    if rows != "transposed":
        return phrase(rows if rows in ("reversed", "permuted") else "blocks")
    way = f"; check-faithful --grid {grid} says in which" if has_table(r) else ""
    return phrase("transposed", grid=grid, way=way)


def has_table(r: Comparison) -> bool:
    """Whether numbers are compared that nobody says the formula of."""
    return any(enc.name not in BUILDERS for enc in r.about)


def conventions_apart(r: Comparison) -> str:
    """The conventions of an encoding's papers, where a table is compared with its name alone."""
    if not has_table(r):
        return ""
    told = {enc.name: own for enc in r.about if (own := other_conventions(enc))}
    return " ".join(
        f"{name} by itself has another convention than {' and '.join(own)}: write "
        f"{' or '.join(f'{name}:convention={one}' for one in own.values())} for theirs."
        for name, own in told.items()
    )


def other_conventions(enc: Encoding) -> dict[str, str]:
    """Conventions of an encoding's papers that set what it has not, by the papers' own names."""
    if enc.spec != enc.name or enc.name not in BUILDERS:
        return {}
    known = conventions_of_papers(enc.name, BUILDERS[enc.name].paper)
    return {
        title: convention["convention"]
        for title, convention in known.items()
        if any(enc.params[key] != value for key, value in convention["params"].items())
    }


def conclude_comparison(r: Comparison) -> Said:
    """Whether two are the same, how they differ, and what to do about it."""
    if r.operator and r.operator.relation == "permuted":
        return rows_permuted(r)
    if tells_images_apart(r):
        one, two = r.cause.changes["mrope_section"]
        return Said("DIFFERENT FOR IMAGES", phrase("images apart", r=r, one=one, two=two))
    meaning, *more = islice(filter(None, (rule(r) for rule in RULES[r.verdict])), MOST)
    verdict = {"equal": "THE SAME", "different": "DIFFERENT"}.get(r.verdict)
    verdict = "THE SAME" if r.by == DOUBLED else verdict
    kinds = {"resized": "RESIZED", "rows": "REORDERED", "offset": "SHIFTED", "prefix": "SHIFTED"}
    changed = next((word for key, word in kinds.items() if key in r.by), "REWRITTEN")
    changed = "AXES EXCHANGED" if exchanged_axes(r) else f"THE SAME, {changed}"
    verdict = verdict or ("RESCALED" if "coordinates" in r.by else changed)
    if r.verdict != "different" and used_differently(r):
        verdict = "THE SAME CODES, USED DIFFERENTLY"
    given = [e.label for e in r.about if any(f.code == "waves-given" for f in e.findings)]
    if verdict == "THE SAME, REWRITTEN" and waves_exchanged(r):
        verdict = "SIN AND COS EXCHANGED"
    if verdict == "DIFFERENT" and len(given) == 1:
        more = [phrase("waves given", name=given[0]), *more]
    return Said(verdict, meaning, "", (*more, repair(r)))


def tells_images_apart(r: Comparison) -> bool:
    """Whether text is read alike, and images by other axes."""
    axes_alone = r.cause is not None and [*r.cause.changes] == ["mrope_section"]
    return axes_alone and r.first_difference is None


def text_alone(r: Comparison) -> str:
    """That images were not compared, where one of two alone says how it turns them."""
    own = ["mrope_section" in enc.params for enc in r.about]
    which = "first" if own[0] else "second"
    return phrase("text alone", which=which) if own[0] != own[1] else ""


def repair(r: Comparison) -> str:
    """How to set right what was misread, where it is one number."""
    changes = dict(r.cause.changes) if r.cause and r.cause.of != "both" else {}
    (key, (meant, _)), *others = [*changes.items()] or [("", (None, None))]
    if others or not isinstance(meant, int | float) or key == "attention_factor":
        return ""
    return f"Set {key} to {value_of_setting(meant)} in the {misread_and_meant(r.cause)[0]}."


def equal_numbers(r: Comparison) -> str:
    """Tables that are the same, to the bit or within rounding."""
    if r.bitwise:
        return phrase("to the bit", r=r)
    given = f", within {within_given(r)};" if within_given(r) else ", and"
    beyond = phrase("not there", r=r) if r.first_difference else ""
    return f"{phrase('within rounding', r=r, given=given)}{beyond}."


def coarse_phases(r: Comparison) -> str:
    """That rounding is that of float32, though numbers are finer."""
    if not r.float32_phases or not r.max_difference:
        return ""
    both = len(r.float32_phases) == 2
    which = (
        "Both were" if both else f"The {'first' if r.float32_phases[0] == 'a' else 'second'} was"
    )
    return phrase("float32 phases", which=which)


def within_given(r: Comparison) -> str:
    """The tolerance that decides, where one was given."""
    given = r.given_tolerance
    return "" if given is None else f"the tolerance you gave ({number(given, 3)})"


def beyond_tolerance(r: Comparison) -> str:
    """That numbers as they are differ by more than is to count as none."""
    given = within_given(r)
    if not given or r.dimensions[0] != r.dimensions[1]:
        return ""
    return f"As they are, their numbers differ by more than {given}."


def used_differently(r: Comparison) -> str:
    """That attention receives the same codes in two ways, where both are known."""
    acts = [enc.act for enc in r.about if enc.origin == "formula" or enc.act != "add"]
    if len({*acts}) < 2:
        return ""
    one, other = (f"{enc.label} {phrase(f'act {enc.act}')}" for enc in r.about)
    return f"{one} and {other}: weights trained with one do not fit the other."


def written_differently(r: Comparison) -> str:
    """Tables that follow from one another."""
    if r.by == DOUBLED:
        return phrase("doubled", r=r)
    if "resized" in r.by:
        return phrase("resized", way=change_in_words(r.by)[1:], r=r)
    if "coordinates" in r.by:
        return rescaled_in_words(r)
    on_grid = len(r.about[0].domain.sides) > 1
    moved = f"The same codes in another order of {'points' if on_grid else 'positions'}"
    alike = "The same codes" if used_differently(r) else "One encoding"
    what = moved if "rows" in r.by else f"{alike}, written differently"
    how = f"{what}: {change_in_words(r.by)}"
    if waves_exchanged(r):
        layout = f"columns {r.by['layout']}"
        how = how.replace(layout, f"sines and cosines exchanged ({layout})")
    if "rotation" in r.by and "scale" in r.by:
        return phrase("rotated and scaled", how=how, times=r.by["scale"] ** 2)
    if "rotation" in r.by:
        return f"{how}; inner products are the same, individual entries differ."
    if "shift" in r.by:
        how += ", which attention may or may not absorb"
    over = ""
    if isinstance(r.by.get("offset"), int) and "part" not in r.by:
        over = f" over {r.length - abs(r.by['offset'])} of {r.length} positions"
    return phrase("changed" if r.max_difference else "changed alone", how=how, over=over, r=r)


def waves_exchanged(r: Comparison) -> bool:
    """Whether the columns that trade places are sine and cosine: their squares sum up alike."""
    if not r.by.get("layout", "").endswith("exchanged"):
        return False
    enc = r.about[0]
    squares = enc.table(enc.domain.x[:64]) ** 2
    return bool(np.ptp(squares + squares[:, r.by["columns"]], axis=0).max() < 1e-3 * squares.max())


def rescaled_in_words(r: Comparison) -> str:
    """One formula at other coordinates: all that leads from the first to the second."""
    points = {key: r.by[key] for key in ("coordinates", "offset") if key in r.by}
    points["coordinates"] = [round(s, 4) for s in points["coordinates"]]
    others = change_in_words({key: value for key, value in r.by.items() if key not in points})
    way = change_in_words(points).removeprefix("coordinates ")
    return phrase("reordered too" if others else "rescaled", r=r, points=way, others=others)


def rows_permuted(r: Comparison) -> Said:
    """What is to be done with weights where a rotation takes its rows in another order."""
    if r.converted:
        return Said(*meaning_of("compare", "THE SAME, AS CONVERTED"), "", (common_part(r),))
    name = r.operator.name
    told = {
        None: "as --permutation writes it",
        "reversed": "the two rows of each pair exchanged",
        "partial": "the part that turns moved",
        "axes-exchanged": "the axes exchanged",
    }.get(name, str(name).replace("-", " "))
    more = phrase("unpermuted", found=r.operator), common_part(r)
    kind = "TURNED OPPOSITE WAYS" if name == "reversed" else "THE SAME, PERMUTED"
    verdict, meaning = meaning_of("compare", kind, told=told)
    verdict = "AXES EXCHANGED" if name == "axes-exchanged" else verdict
    return Said(verdict, meaning, phrase("weights"), more)


def operators_in_words(r: Comparison) -> str:
    """Whether two rotations do the same to queries and keys."""
    found = r.operator
    if found is None:
        return ""
    if found.relation == "unknown":
        way_out = "compare the code that turns queries and keys, py:module:name"
        if r.same:
            return f"{found.reason[0].upper()}{found.reason[1:]}: for that, {way_out}."
        return f"Whether a model is the same is not known: {found.reason}; {way_out}."
    if found.relation == "same":
        same = "As rotations they are the same: scores of queries and keys agree at all positions"
        return "" if r.verdict == "equal" else f"{same} that were tried."
    return "" if found.first_position is None else phrase("scores", found=found)


def shifted_alike(r: Comparison) -> str:
    """What a shift of all positions means for rotations."""
    turns = r.operator or any(enc.act == "rotate" for enc in r.about)
    moved = isinstance(r.by.get("offset"), int) and not used_differently(r)
    return phrase("shifted alike") if turns and moved else ""


def change_in_words(by: Mapping[str, Any]) -> str:
    """What leads from one table to another, in words.

    >>> change_in_words({"offset": 1, "scale": 2.0}), change_in_words({"offset": [0, 2]})
    ('off by one position (row 0 of the second is row 1 of the first), scaled by 2', \
'shifted by y 0, x 2 points')
    """

    def moved(by: int | list[int]) -> str:
        """Which row is which, or by how many points of a grid."""
        if isinstance(by, list):
            return f"shifted by {by_axis(by)} points"
        far = "off by one position" if abs(by) == 1 else f"shifted by {by} positions"
        return f"{far} (row {max(-by, 0)} of the second is row {max(by, 0)} of the first)"

    if "resized" in by:
        made, source = ("first", "second") if by["resized"] == "a" else ("second", "first")
        sides = f"from {size_of(by['from'])} to {size_of(by['to'])}"
        how = METHODS.get(by["method"], by["method"])
        return f"the {made} is the {source} resized {sides} by {how}"
    words = {
        "layout": lambda v: f"columns {v}",
        "columns": lambda v: None if "layout" in by else "columns in another order",
        "signs": lambda v: f"{sum(s < 0 for s in v)} columns with the other sign",
        "scale": lambda v: f"scaled by {number(v, 7)}",
        "offset": moved,
        "zero_rows": lambda v: f"behind {v} {agreeing(v, 'row', 'rows')} of zeros",
        "order": lambda v: f"axes {v}",
        "prefix": lambda v: phrase("prefix", first=v[0], second=v[1]),
        "rows": lambda v: phrase(f"rows {v}"),
        "coordinates": lambda v: f"coordinates scaled by {by_axis(v, 7)}",
        "shift": lambda v: phrase("shifted", most=max(map(abs, v))),
        "rotation": lambda v: phrase("turned and scaled" if "scale" in by else "turned"),
        "rounded": lambda v: f"rounded to multiples of {number(v, 4)}",
        "part": lambda v: "cosines and sines" if v == "both" else f"{WAVES[v]} alone",
        "first": lambda _: "sines before cosines",
        "times": lambda v: "each frequency once" if v == 1 else "each frequency twice",
    }
    return ", ".join(filter(None, (words[key](value) for key, value in by.items())))


def cause_in_words(r: Comparison) -> str:
    """What explains a difference."""
    if r.cause is None:
        return ""
    from pefourier.diagnosis.misreadings import SAID

    if "resized" in r.cause.misreadings:
        ways = [METHODS.get(name, name) for name in r.cause.changes["method"]]
        return phrase("resized twice", sides=r.cause.changes["resized"], ways=ways)
    if r.cause.of == "both":
        known = all(enc.act == "rotate" and "scaling" in enc.params for enc in r.about)
        lead = "They" if known else "As far as they are identified, they"
        return f"{lead} differ in {settings_apart(r.cause.changes)}."
    told = (change_of(key, pair) for key, pair in r.cause.changes.items())
    changes = ", ".join(filter(None, told))
    one, other = misread_and_meant(r.cause)
    slips = " and ".join(read_toml(SAID)[code] for code in r.cause.misreadings)
    detail = f" ({changes})" if changes else ""
    return f"The {one} is the {other} misread: {slips}{detail}."


def settings_apart(changes: Mapping[str, tuple[Any, Any]]) -> str:
    """Settings of the first and of the second; those that only one scaling has stand behind it.

    >>> settings_apart({"scaling": ("none", "linear"), "factor": (None, 4.0)})
    'scaling none in the first, linear (factor 4) in the second'
    """
    said = {key: list(values_apart(pair)) for key, pair in changes.items()}
    if "scaling" in said:
        own = [key for key in said if key != "scaling" and None in changes[key]]
        for side in (0, 1):
            detail = ", ".join(f"{key} {said[key][side]}" for key in own if said[key][side])
            said["scaling"][side] += f" ({detail})" if detail else ""
        said = {key: pair for key, pair in said.items() if key not in own}
    return join(
        f"{key} of the {'first' if one else 'second'} alone ({one or other})"
        if not (one and other)
        else f"{key} {one} in the first, {other} in the second"
        for key, (one, other) in said.items()
    )


def values_apart(pair: Sequence[Any]) -> tuple[str, str]:
    """Two values of a setting, in as many digits as tell them apart; "" for None.

    >>> values_apart((0.5, 0.25)), values_apart((0.5, 0.49999999999999994))
    (('0.5', '0.25'), ('0.5', '0.49999999999999994'))
    """
    one, other = ("" if value is None else value_of_setting(value) for value in pair)
    numbers = all(isinstance(value, float) for value in pair)
    return (str(pair[0]), str(pair[1])) if numbers and one == other else (one, other)


def value_of_setting(value: Any) -> str:
    """A setting as it is told: of many numbers how many they are.

    >>> value_of_setting(5e5), value_of_setting((1.0,) * 32)
    ('500000', '32 numbers')
    """
    if isinstance(value, list | tuple) and len(value) > telling.LONG:
        return f"{len(value)} numbers"
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def faults_in_words(r: Comparison) -> str:
    """What is wrong with one of two tables alone, whatever the other holds."""
    for name, which in (("b", "second"), ("a", "first")):
        for finding in r.findings.get(name, ()):
            surely = {"error": "Surely", "warning": "Probably"}[finding.severity]
            return f"{surely} a bug in the {which} alone: {finding.message.rstrip('?')}."
    return ""


def repeats_in_words(r: Comparison) -> str:
    """That rows of one table alone repeat, and from which on."""
    if r.cause or any(r.findings.values()) or r.dimensions[0] != r.dimensions[1]:
        return ""
    firsts = [first_duplicate(enc.table(enc.domain.x[: r.length])) for enc in r.about]
    again = [np.flatnonzero(first != np.arange(r.length)) for first in firsts]
    if not any(map(len, again)) or all(map(len, again)):
        return ""
    which = int(len(again[1]) > 0)
    told = {"which": ("first", "second")[which], "rows": len(again[which])}
    return phrase("repeats", row=again[which][0], of=firsts[which][again[which][0]], **told)


def weights_left(r: Comparison) -> str:
    """That folders of models may differ in what is not compared."""
    folders = [str(enc.params.get("path", "")) for enc in r.about if enc.origin == "formula"]
    folders = [path if isdir(path) else dirname(path) for path in folders if path]
    if len(folders) < 2 or not all(any(iglob(f"{escape(f)}/*.safetensors")) for f in folders):
        return ""
    return phrase("weights left")


def misread_and_meant(cause: Cause) -> tuple[str, str]:
    """Which of two is the misreading of which; of neither, the second beside the first."""
    return ("first", "second") if cause.of == "b" else ("second", "first")


def change_of(key: str, pair: Sequence[Any]) -> str:
    """A setting as it is meant and as it was read."""
    one, other = values_apart(pair)
    if isinstance(pair[0], list | tuple) or isinstance(pair[1], list | tuple):
        return key
    if key == "attention_factor_is":
        return "" if other == "another" else f"that is {other}"
    if pair[1] is None:
        return f"without {key} {one}"
    return f"{key} {other}" if pair[0] is None else f"{key} {other} instead of {one}"


def cost_in_words(r: Comparison) -> str:
    """From which position on it matters, and what another factor before the waves costs."""
    if r.cause is None or not r.cause.below:
        return ""
    if set(r.cause.changes) - {"attention_factor_is"} == {"attention_factor"}:
        told = logits_in_words(r.cause)
        return f"{told[0].upper()}{told[1:]}."
    also = f"; {logits_in_words(r.cause)}" if "attention_factor" in r.cause.changes else ""
    found = {level: at for level, at in r.cause.below.items() if at is not None}
    if not found:
        return f"No position's codes are less alike than .99{also}."
    falls = join(
        f"{level} at {at}{' (beyond those compared)' * (at >= r.length)}"
        for level, at in found.items()
    ).replace("at", "at position", 1)
    by_settings = r.cause.of == "both" and r.operator is not None
    rows = ", pair by pair," if by_settings and "layout" in r.cause.changes else ""
    return f"The cosine of their codes{rows} first falls below {falls}{also}."


def logits_in_words(cause: Cause) -> str:
    """What another factor before the waves of a rotation costs: logits have its square."""
    own, other = cause.changes["attention_factor"]
    one, meant = misread_and_meant(cause)
    return f"the {one}'s logits are {number((other / own) ** 2, 4)} times the {meant}'s"


def apart(r: Comparison) -> str:
    """Tables that differ in size or in numbers, or rotations in what they do."""
    agree = r.max_difference is not None and r.max_difference <= r.tolerance
    if agree and not r.first_difference and not r.by and r.operator is None:
        return phrase("apart within", r=r)
    turned = r.operator is not None and r.operator.relation == "different"
    if agree and r.first_difference and not r.by and not turned:
        return f"{phrase('apart near', r=r)}{phrase('not there', r=r)}."
    if agree:
        way = f", after this change: {change_in_words(r.by)}" if r.by else ""
        return phrase("other turns", way=way)
    if r.dimensions[0] != r.dimensions[1]:
        return phrase("other sizes", r=r, way="" if r.cause else "; compare them at one --d")
    if "offset" in r.by:
        return phrase("other points", r=r, sign="+-"[r.by["offset"] < 0], moved=abs(r.by["offset"]))
    return phrase("apart" if r.cause else "no change", r=r)


def alike_in_words(r: Comparison) -> str:
    """What tables share whose single numbers differ."""
    found = r.likeness
    if r.cause or r.by or any(r.findings.values()) or not found or found.products is None:
        return ""
    alike = "more than 0.999" if 0.9995 <= found.products < 1 else number(found.products, 3)
    told = phrase("alike", alike=alike)
    if found.energy_moved is not None:
        spectra = "their spectra are nearly the same: " if found.energy_moved < ALIKE else ""
        moved = phrase("moved", moved=100 * found.energy_moved, means=found.mean_frequencies)
        told += f", and {spectra}{moved}"
    if (moved := found.moved) is not None:
        share = f"{moved:.3g} times" if moved > 10 else f"{100 * moved:.3g} % of"
        told = f"{told.rstrip('.')}. {phrase('change', found=found, share=share)}"
    return f"{told.rstrip('.')}."


def place_of_difference(r: Comparison) -> str:
    """Where to look first."""
    one_misread = r.cause and r.cause.of != "both"
    return phrase("places", r=r) if tables_part(r) and not one_misread else ""


def tables_part(r: Comparison) -> bool:
    """Whether there is a place from which tables differ by more than rounding."""
    return bool(r.first_difference) and r.max_difference > r.tolerance


def common_part(r: Comparison) -> str:
    """Tables of different lengths."""
    if r.lengths[0] == r.lengths[1] or r.max_difference is None or "resized" in r.by:
        return ""
    sides = r.about[0].domain.sides
    if len(sides) == 1 or sides != r.about[1].domain.sides:
        return phrase("common", r=r)
    first, second = (rows - r.length for rows in r.lengths)
    return phrase("rows before", grid=size_of(sides), first=first, second=second)


def compare_record(answer: Answer) -> dict[str, Any]:
    """The JSON object of a comparison: both encodings, the conclusion, the fields of the result."""
    a, b = answer.result.about
    return telling.record_of_fields(answer, identity_of(a) | {"other": identity_of(b)})


def reasons_against(r: Comparison) -> list[Reason]:
    """Why weights trained with one do not go with the other; none where they do."""
    told = {"other": r.about[1].label, "verdict": conclude_comparison(r).verdict.lower()}
    return [] if r.same else [Reason(r.about[0].label, "unmet", phrase("unmet", **told))]


def compare_text(answers: Sequence[Answer]) -> str:
    """A comparison in a sentence or three."""
    result: Comparison = answers[0].result
    a, b = result.about
    limit = within_given(result) or "rounding"
    told = "one formula at two scales" if "coordinates" in result.by else result.verdict
    lines = [f"{a.label} and {b.label} are {told}"]
    if result.verdict == "equal":
        lines[0] += f" {'to the bit' if result.bitwise else f'within {limit}'}"
    elif result.verdict == "equivalent":
        lines[0] += f": {change_in_words(result.by)}"
    difference, allowed = number(result.max_difference, 3), number(result.tolerance, 3)
    if "rotation" in result.by:
        lines.append(f"largest difference of products {difference} of the largest product")
    elif result.max_difference is not None:
        at = result.largest_difference if result.verdict == "equal" else None
        where = f" at position {at[0]}, column {at[1]}" if at else ""
        lines.append(f"largest difference {difference}{where}, rounding explains {allowed}")
    if result.verdict == "different" and tables_part(result):
        lines.append(phrase("line of places", r=result))
    if result.operator:
        name = f" ({result.operator.name})" if result.operator.name else ""
        lines.append(f"rotations: {result.operator.relation}{name}")
    if result.cause:
        whose = "" if result.cause.of == "both" else f" (settings of {result.cause.of}, misread)"
        lines.append(f"cause: {', '.join(result.cause.misreadings)}{whose}")
    for name, found in result.findings.items():
        lines += [f"{f.severity} of {name} alone: {f.code}" for f in found]
    if len(set(result.dimensions)) > 1:
        lines.append("dimensions {} and {}".format(*result.dimensions))
    if len(set(result.lengths)) > 1:
        lines.append(phrase("line of lengths", r=result))
    if (found := result.likeness) and found.products is not None:
        lines.append(phrase("line of products", found=found))
    if found and found.energy_moved is not None:
        moved = {"moved": 100 * found.energy_moved, "means": found.mean_frequencies}
        lines.append(phrase("line of energy", **moved))
    return "\n".join(lines) + "\n"


def compare_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A header and one row of single numbers."""
    result: Comparison = answers[0].result
    a, b = result.about
    names = ["verdict", "bitwise", "length", "tolerance", "max_difference"]
    yield ["a", "b", *names, "by", "cause"]
    values = [getattr(result, name) for name in names]
    cause = " ".join(result.cause.misreadings) if result.cause else ""
    yield [a.spec, b.spec, *values, change_in_words(result.by), cause]


def compare(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Both tables and, where they have as many columns, their difference, as far as both go."""
    both = [Answer(enc, enc.table()) for enc in answers[0].result.about]
    common = min(len(a.result) for a in both)
    first, second = (a.result[:common] for a in both)
    alike = first.shape == second.shape
    figure, panels = make_panels(2 + alike, 1, (WIDTH, 1.2 + 2.2 * (2 + alike)), look)
    for axes, a in zip(panels[:, 0], both, strict=False):
        draw_table(axes, a, a.result[:common])
    if alike:
        difference, many = second - first, common > MOST_ROWS
        title = "|second − first|" if many else "second − first (red: larger in the second)"
        shown = np.abs(difference) if many else difference
        draw_table(panels[2, 0], both[0], shown, np.maximum, title)
    return figure


RULES = {
    "equal": (
        used_differently,
        equal_numbers,
        text_alone,
        coarse_phases,
        weights_left,
        operators_in_words,
        conventions_apart,
        common_part,
    ),
    "equivalent": (
        used_differently,
        written_differently,
        coarse_phases,
        beyond_tolerance,
        shifted_alike,
        operators_in_words,
        exchanged_points,
        axes_in_words,
        cause_in_words,
        conventions_apart,
        common_part,
    ),
    "different": (
        cause_in_words,
        faults_in_words,
        cost_in_words,
        repeats_in_words,
        alike_in_words,
        apart,
        beyond_tolerance,
        operators_in_words,
        place_of_difference,
        common_part,
    ),
}  # what is said of a verdict, the first first


TOLD = Telling(
    "compare",
    conclude=lambda _, found: conclude_comparison(found),
    words=compare_text,
    rows=compare_rows,
    record=compare_record,
    figure=compare,
    lead=None,
)
