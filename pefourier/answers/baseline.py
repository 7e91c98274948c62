"""Has anything got worse since a stored answer? For continuous integration.

The stored answer is what ``pefourier check-faithful … --json`` or ``context … --json`` wrote. Both
records are flattened to fields by their path, as ``rotations.full_attention.idle``. A field of
`QUALITY` counts where it got worse, and so does a new finding above a note. All others are settings
(`settings_of`): of a model each that changed counts, as its weights were trained with that. Answers
of other sizes are not compared in quality, which is said.
"""

import json
import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from os.path import basename, dirname, normpath
from typing import Any

from pefourier.analysis.context import Context
from pefourier.analysis.faithful import LADDER
from pefourier.answers.telling import Answer, Refusal, sentence, telling_of
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.sources.tables import await_writer
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.files import missing, os_errors, status_of
from pefourier.writing.escapes import printable
from pefourier.writing.page import SCHEMA, Reason, plain
from pefourier.writing.text import number, ranges

LARGEST = 2**26  # bytes
SLACK = 1e-6  # relative: what other processors and libraries change in a distance
SEVERITIES = ("note", "warning", "error")
OF_MODELS = ("config", "gguf")  # whose positions belong to weights
NAMED = 4  # SPECs that are told one by one
LONGEST_NUMBER = 300  # digits
QUALITY = {"verdict": 1, "min_distance": 1, "gap": 1, "unseen": -1, "idle": -1}  # 1: more is better
QUALITY |= {"distinct_cast": 1, "distinct_phase": 1}
DERIVED = {"bands", "bound", "critical_dimension", "decay", "cache", "familiar_length", "name"}
DERIVED |= {
    "precision",
    "trained_frequencies",
    "nearer_higher",
}  # follow from other fields of a rotation
OF_MODEL = ("softmax_factor", "temperature", "slopes", "tables", "allowed")
UNTOLD = {"path", "rotated", "softmax_factor", "length"}  # no settings, or told elsewhere
SIZES = {"check-faithful": ("length", "dimension"), "context": ("length", "trained")}
Record = Mapping[str, Any]


def is_whole(value: Any) -> bool:
    """Whether a stored value is a whole number from 0 on."""
    return type(value) is int and value >= 0


def is_size(value: Any) -> bool:
    """Whether a stored value is a number, or null, which stands for an infinite one."""
    return value is None or type(value) in (int, float)


def is_text(value: Any) -> bool:
    """Whether a stored value is a text."""
    return isinstance(value, str)


def is_whole_or_null(value: Any) -> bool:
    """Whether a stored value is a whole number from 0 on, or null."""
    return value is None or is_whole(value)


class Each(dict):
    """The shape of an object all of whose values have a shape."""


FINDING = {"code": is_text, "message": is_text, "severity": SEVERITIES.__contains__}
LAYER = {"index": [is_whole], "kind": is_text, "window": is_whole_or_null}
LOSS = {"distinct_cast": is_whole, "distinct_phase": is_whole_or_null}
SHAPES: dict[str, Any] = {  # what is compared, in the types that it is written in
    "check-faithful": {
        "length": is_whole,
        "dimension": is_whole,
        "verdict": LADDER.__contains__,
        "min_distance": is_size,
        "gap": is_size,
        "precision": Each(each=LOSS),
        "findings": [FINDING],
    },
    "context": {
        "length": is_whole,
        "trained": {"length": is_whole_or_null},
        "layers": [{**LAYER, "rotation": is_whole_or_null}],
        "rotations": [
            {
                "name": is_text,
                "unseen": is_whole_or_null,
                "idle": is_whole,
                "precision": Each(each=LOSS),
            }
        ],
        "findings": [FINDING],
    },
}
PARAMS = Each(each=lambda value: True)
OPTIONAL = {
    "layers": [LAYER],
    "rotations": [{"name": is_text}],
    "encoding": is_text,
    "softmax_factor": is_size,
    "params": PARAMS,
    "identified": lambda value: value is None or fits(value, IDENTIFIED),
}
IDENTIFIED = {"encoding": is_text, "params": PARAMS}


def fits(value: Any, shape: Any) -> bool:
    """Whether a stored value has a shape: a test, a list of one, or an object by its keys.

    >>> fits({"a": [1, 2]}, {"a": [is_whole]}), fits([], {"a": is_whole}), fits({"x": -1}, LOSS)
    (True, False, False)
    """
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    if isinstance(shape, Each):
        return isinstance(value, dict) and all(fits(x, shape["each"]) for x in value.values())
    if isinstance(shape, dict):
        has = isinstance(value, dict) and shape.keys() <= value.keys()
        return has and all(fits(value[key], one) for key, one in shape.items())
    return bool(shape(value))


def read_baseline(path: str, command: str = "check-faithful") -> dict[str, Record]:
    """The stored answer of a command for each SPEC.

    Raises
    ------
    PefourierError
        For a file that is not an answer of that command in JSON of this layout.
    """
    remake = f"write it anew with: pefourier {command} … --json"
    parse = {"parse_constant": refuse, "parse_float": parse_finite, "parse_int": parse_short}
    text = read_bytes(path)
    try:
        stored = json.loads(text, **parse)
        given, schema, results = (stored[key] for key in ("command", "schema", "results"))
        fine = isinstance(results, list) and all(is_record(one, SHAPES[command]) for one in results)
    except (ValueError, KeyError, TypeError, RecursionError):
        given, schema, fine = "", SCHEMA, False
    if schema != SCHEMA:
        raise PefourierError(
            f"{shown(path)} has layout {shown(schema)}, this version reads {SCHEMA}; {remake}"
        )
    if given != command or not fine:
        raise PefourierError(f"{shown(path)} is not an answer of {command}; {remake}")
    return {place_of(record["spec"]): record for record in results}


def read_bytes(path: str) -> bytes:
    """What is in a file, or comes out of a pipe into which somebody writes."""
    status = status_of(path)
    if status is None:
        raise missing(path)
    awaited = stat.S_ISFIFO(status.st_mode)
    with os_errors("read", path):
        descriptor = os.open(path, os.O_RDONLY | (os.O_NONBLOCK if awaited else 0))
        with open(descriptor, "rb") as stream:
            first = await_writer(descriptor, path) if awaited else b""
            return first + stream.read(LARGEST)


def refuse(text: str) -> None:
    """Refuse NaN and Infinity, which no answer has."""
    raise ValueError(text)


def parse_finite(text: str) -> float:
    """A number that is one."""
    value = float(text)
    return value if isfinite(value) else refuse(text)


def parse_short(text: str) -> int:
    """A whole number that is no longer than any that is stored."""
    return int(text) if len(text) <= LONGEST_NUMBER else refuse(text)


def is_record(record: Any, shape: Record) -> bool:
    """Whether a stored record is an answer, or a refusal."""
    if not isinstance(record, dict) or not isinstance(record.get("spec"), str):
        return False
    known = {key: one for key, one in OPTIONAL.items() if key in record}
    return "error" in record or fits(record, {**known, **shape})


def place_of(spec: str) -> str:
    """A SPEC as others that mean the same file have it: ./a.npy is a.npy, a model its config.

    >>> place_of("./a.npy#b"), place_of("model/config.json#full"), place_of("model/")
    ('a.npy#b', 'model#full', 'model')
    """
    path, mark, part = spec.partition("#")
    path = normpath(path)
    folder = dirname(path) or "." if basename(path) == "config.json" else path
    return f"{folder}{mark}{part}"


def judge(
    records: Mapping[str, Record], asked: Sequence[Answer | Refusal]
) -> tuple[list[Reason], list[Reason]]:
    """What got worse or is another model's now, and what is no worse and yet not as it was.

    Raises
    ------
    PefourierError
        For a baseline that has none of what was asked: nothing would be compared.
    """
    specs = [one.encoding.spec if isinstance(one, Answer) else one.spec for one in asked]
    if not any(place_of(spec) in records for spec in specs):
        known = ", ".join(shown(record["spec"]) for record in [*records.values()][:NAMED])
        raise PefourierError(
            f"none of what was asked is in the baseline, which has {known or 'nothing'}: paths are "
            "taken as they are typed; write it anew with --json"
        )
    worse, remarks = [], []
    models = {place_of(spec).partition("#")[0] for spec in specs}
    models &= {place.partition("#")[0] for place in records}
    for one in (one for one in asked if isinstance(one, Answer)):
        label, place = one.encoding.label, place_of(one.encoding.spec)
        stored = records.get(place)
        if stored is None:
            words = "is not in the baseline: nothing to compare it with"
            other = of_model(one.encoding) and place.partition("#")[0] in models
            (worse if other else remarks).append(Reason(label, "unknown", words))
        elif found := regressions(one, stored):
            worse += found
        elif changes := [*setting_changes(one, stored), *other_table(one, stored)]:
            words = f"is no worse, but not that of the baseline: {', '.join(changes)}"
            remarks.append(Reason(label, "changed", words))
    left = sorted(records.keys() - set(map(place_of, specs)))
    if left:
        named = [shown(records[place]["spec"]) for place in left[:NAMED]]
        names = ", ".join(named) + (", …" if len(left) > NAMED else "")
        words = f"{len(left)} of {len(records)} in the baseline were not asked for: {names}"
        remarks.append(Reason("", "left", words))
    return worse, remarks


def regressions(answer: Answer, stored: Record) -> list[Reason]:
    """What got worse, and of a model what is not as it was."""
    if "error" in stored:
        return []
    enc, in_context = answer.encoding, isinstance(answer.result, Context)
    now = stored_form(answer)
    sizes = SIZES["context" if in_context else "check-faithful"]
    told, then = ([size_of_answer(record[key]) for key in sizes] for record in (now, stored))
    other, model = told != then, in_context or of_model(enc)
    changes = setting_changes(answer, stored)
    worse, found = [], []
    if other:
        own, before = (sizes_told(sizes, values) for values in (told, then))
        besides = f", with {', '.join(changes)}" if changes and not model else ""
        what = "phases" if in_context else "distances"
        way = "run both with the same -S, or" if told[1] == then[1] else "if that is meant,"
        facts = {"own": own, "before": before, "besides": besides, "what": what, "way": way}
        found.append(Reason(enc.label, "changed", sentence("baseline", "sizes", **facts)))
    else:
        worse = [*worse_quality(now, stored), *new_findings(now, stored)]
    if worse and changes and not model:
        worse[0] += f", with {', '.join(changes)}"
    if changes and model:
        words = "has other positions than its weights were trained with: "
        found.append(Reason(enc.label, "changed", words + "; ".join(changes)))
    return [*found, *(Reason(enc.label, "worse", words) for words in worse)]


def stored_form(answer: Answer) -> Record:
    """The record of an answer as it is stored."""
    return plain(telling_of(answer.result).record(answer))


def of_model(enc: Encoding) -> bool:
    """Whether positions belong to the weights of a model."""
    return "path" in enc.params and source_of(enc.spec) in OF_MODELS


def size_of_answer(size: Any) -> int | None:
    """A size, of the positions of training without who says so."""
    return size["length"] if isinstance(size, dict) else size


def sizes_told(keys: Sequence[str], values: Sequence[int]) -> str:
    """The sizes of an answer in words."""
    one, two = values
    if "trained" in keys:
        return f"{one} positions (trained at {two})"
    return f"{one} positions of {two} dimensions"


def fields(value: Any, path: str = "") -> dict[str, Any]:
    """The values inside objects by their path; lists are values.

    >>> fields({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    if not isinstance(value, dict):
        return {path: value}
    inside = (fields(one, f"{path}.{key}" if path else key) for key, one in value.items())
    return {key: one for found in inside for key, one in found.items()}


def rotations_by_path(record: Record) -> dict[str, Record]:
    """The rotations of a record by the path of their layers, with that of an indexer."""
    found = {f"rotations.{one['name']}".rstrip("."): one for one in record.get("rotations", ())}
    indexer = record.get("indexer")
    return found | ({"indexer": indexer} if isinstance(indexer, dict) else {})


def settings_of(record: Record, other: Record) -> dict[str, Any]:
    """What sets the positions of a record, by its path: parameters, rotations, factors.

    Left out is what the program of the other record did not know. Rotations stand for their
    parameters, and frequencies count at the same length alone.
    """
    mine, theirs = rotations_by_path(record), rotations_by_path(other)
    left_out = DERIVED | QUALITY.keys()
    left_out |= {"frequencies"} if record["length"] != other["length"] else set()
    tree = {key: record[key] for key in OF_MODEL if key in record and key in other}
    for path, one in mine.items():
        known = theirs.get(path, one).keys() - left_out
        tree[path] = {key: value for key, value in one.items() if key in known}
    if params := record.get("params") and other.get("params"):
        builder = BUILDERS.get(record.get("encoding", ""))
        own = builder.parameters.keys() if builder else set()
        skipped = (own if mine else own - params.keys()) | UNTOLD
        skipped |= {"d"} if "dimension" in record else set()
        tree["params"] = {k: value for k, value in record["params"].items() if k not in skipped}
    told = fields(tree)
    return {path: value for path, value in told.items() if path != "temperature.largest"}


def setting_changes(answer: Answer, stored: Record) -> list[str]:
    """Which settings are others than those stored, by their paths; layers that changed alike once.

    Frequencies are named where nothing else of their rotation is.
    """
    now = stored_form(answer)
    told = changed_fields(settings_of(now, stored), settings_of(stored, now))
    for path in [path for path in told if path.endswith(".frequencies")]:
        stem = path.removesuffix("frequencies")
        if sum(one.startswith(stem) for one in told) > 1:
            del told[path]
    if "layers" in now and "layers" in stored:
        return [*told.values(), *layer_changes(layers_of(now), layers_of(stored))]
    return [*told.values()]


def other_table(answer: Answer, stored: Record) -> list[str]:
    """As what else a table is recognised; nothing where it was as nothing known."""
    known = [
        fields({"identified": {k: one[k] for k in ("encoding", "spec", "params") if k in one}})
        for one in (stored_form(answer).get("identified") or {}, stored.get("identified") or {})
    ]
    return [*changed_fields(*known).values()] if stored.get("identified") else []


def changed_fields(now: Record, before: Record) -> dict[str, str]:
    """The fields that are others, by their path: in words that name it, and both values.

    >>> changed_fields({"a.b": [1, 2], "c": "x"}, {"a.b": [1, 3]})
    {'a.b': 'a.b[1] 2 instead of 3', 'c': "c 'x' instead of none"}
    """
    told = {}
    for path in [*now, *sorted(before.keys() - now.keys())]:
        one, two = now.get(path), before.get(path)
        if not value_changed(one, two):
            continue
        name = printable(path)
        if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
            at = [value_changed(*pair) for pair in zip(one, two, strict=True)].index(True)
            name, one, two = f"{name}[{at}]", one[at], two[at]
        values = ["none" if value is None else shown(value) for value in (one, two)]
        told[path] = f"{name} {' instead of '.join(values)}"
    return told


def value_changed(one: Any, two: Any) -> bool:
    """Whether two settings differ, numbers by more than libraries may."""
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return any(map(value_changed, one, two))
    if all(type(value) in (int, float) for value in (one, two)):
        return abs(one - two) > SLACK * max(abs(one), abs(two))
    return one != two


def layers_of(record: Record) -> dict[Any, str]:
    """What each layer has, by its number; layers without one under what they have."""
    names = [one["name"] for one in record.get("rotations", ())]
    found = {}
    for run in record["layers"]:
        turn = run.get("rotation")
        name = names[turn] if is_whole(turn) and turn < len(names) else turn
        kind = f"{run['kind']} ({name})" if isinstance(name, str) and name else run["kind"]
        window = run["window"]
        has = f"{printable(kind)} {f'in a window of {window}' if window else 'over all positions'}"
        found |= dict.fromkeys(run["index"] or [has], has)
    return found


def layer_changes(now: Mapping[Any, str], before: Mapping[Any, str]) -> Iterator[str]:
    """Layers that have something else, those together that changed alike."""
    alike: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for layer in sorted({*now, *before}, key=str):
        pair = now.get(layer, "none"), before.get(layer, "none")
        if pair[0] != pair[1]:
            alike[pair].append(layer)
    for (one, two), layers in alike.items():
        numbers = sorted(layer for layer in layers if isinstance(layer, int))
        which = f"{'layer' if len(numbers) == 1 else 'layers'} {ranges(numbers)}"
        yield f"{which if numbers else 'layers'} {one} instead of {two}"


def qualities_of(record: Record) -> dict[str, Any]:
    """The fields of a record that have a better direction, by their path."""
    tree = {key: record[key] for key in (*QUALITY, "precision") if key in record}
    return {
        path: value
        for path, value in fields(tree | rotations_by_path(record)).items()
        if path.rpartition(".")[2] in QUALITY and (path != "verdict" or value in LADDER)
    }


def worse_quality(now: Record, stored: Record) -> Iterator[str]:
    """Fields that changed for the worse."""
    before = qualities_of(stored)
    for path, value in qualities_of(now).items():
        if path not in before:
            continue
        told, way = (value, before[path]), QUALITY[path.rpartition(".")[2]]
        one, two = map(LADDER.index, told) if path == "verdict" else told
        if {type(one), type(two)} <= {int, float} and way * (two - one) > SLACK * abs(two):
            words = [x if isinstance(x, str) else number(x) for x in told]
            yield f"has {printable(path)} {words[0]}, {words[1]} in the baseline"


def new_findings(now: Record, stored: Record) -> Iterator[str]:
    """Errors and warnings that were not there, or were less severe."""
    known = {one["code"]: SEVERITIES.index(one["severity"]) for one in stored["findings"]}
    for finding in now["findings"]:
        if SEVERITIES.index(finding["severity"]) > known.get(finding["code"], 0):
            told = f"{printable(finding['message'])} [{finding['code']}]"
            yield f"has a new {finding['severity']}: {told}"
