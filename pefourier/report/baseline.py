"""Has anything got worse since a stored answer? For continuous integration.

The stored answer is what ``pefourier check-faithful … --json`` or ``context … --json`` wrote. Both
records are flattened to fields by their path, as ``rotations.full_attention.idle``. A field of
`BETTER` counts where it got worse, and so does a new finding above a note. All others are settings:
of a model each that changed counts, as its weights were trained with that. Answers of other sizes
are not compared in quality.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from os.path import basename, dirname, normpath
from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.files import missing, os_errors, status_of
from pefourier.questions.faithful import LADDER
from pefourier.report.frame import Answer, Refusal, telling_of
from pefourier.writing.escapes import printable
from pefourier.writing.page import SCHEMA, Reason, plain
from pefourier.writing.text import number, ranges

LARGEST = 2**26  # bytes
TOLERANCE = 1e-6  # relative: what other processors and libraries change in a distance
SEVERITIES = ("note", "warning", "error")
NAMED = 4  # SPECs that are told by name
LONGEST_NUMBER = 300  # digits
BETTER = {"verdict": 1, "min_distance": 1, "gap": 1, "unseen": -1, "idle": -1}  # 1: upwards
BETTER |= {"distinct_cast": 1, "distinct_phase": 1}
SIZES = ("length", "dimension", "trained")
MEASURED = ("verdict", "min_distance", "gap", "precision", "rotations", "indexer")
SETTINGS = ("params", "rotations", "indexer", "layers", "identified")
SETTINGS += ("softmax_factor", "temperature", "slopes", "tables", "allowed")
DERIVED = {"bands", "bound", "critical_dimension", "decay", "cache", "familiar_length", "name"}
DERIVED |= {"precision", "trained_frequencies", "largest", "nearer_higher"}  # follow from others
DERIVED |= {"path", "length", "max_difference", "conventions", *BETTER}  # no settings
Record = Mapping[str, Any]


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
        schema, results = stored["schema"], stored["results"]
        is_answer = stored["command"] == command and isinstance(results, list)
        is_answer = is_answer and all(is_record(result, SHAPES[command]) for result in results)
    except (ValueError, KeyError, TypeError, RecursionError):
        schema, is_answer = SCHEMA, False
    if schema != SCHEMA:
        raise PefourierError(
            f"{shown(path)} has layout {shown(schema)}, this version reads {SCHEMA}; {remake}"
        )
    if not is_answer:
        raise PefourierError(f"{shown(path)} is not an answer of {command}; {remake}")
    return {place_of(record["spec"]): record for record in results}


def read_bytes(path: str) -> bytes:
    """What is in a file, or comes out of a pipe into which somebody writes."""
    status = status_of(path)
    if status is None:
        raise missing(path)
    with os_errors("read", path), open(path, "rb") as stream:
        return stream.read(LARGEST)


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


def is_natural(value: Any) -> bool:
    """Whether a stored value is a whole number from 0 on."""
    return type(value) is int and value >= 0


def is_natural_or_null(value: Any) -> bool:
    """Whether a stored value is a whole number from 0 on, or null."""
    return value is None or is_natural(value)


def is_size(value: Any) -> bool:
    """Whether a stored value is a number, or null, which stands for an infinite one."""
    return value is None or type(value) in (int, float)


def is_text(value: Any) -> bool:
    """Whether a stored value is a text."""
    return isinstance(value, str)


def is_object(value: Any) -> bool:
    """Whether a stored value is an object, or null."""
    return value is None or isinstance(value, dict)


LOSS = {"distinct_cast": is_natural, "distinct_phase": is_natural_or_null}
LAYER = {"index": [is_natural], "kind": is_text, "window": is_natural_or_null}
FINDINGS = [{"code": is_text, "message": is_text, "severity": SEVERITIES.__contains__}]
SHAPES: dict[str, dict[str, Any]] = {  # what is compared, in the types that it is written in
    "check-faithful": {
        **dict.fromkeys(("length", "dimension"), is_natural),
        **dict.fromkeys(("min_distance", "gap"), is_size),
        "verdict": lambda value: is_text(value) and value in LADDER,
        "precision": {"*": LOSS},
        "findings": FINDINGS,
    },
    "context": {
        "length": is_natural,
        "trained": {"length": is_natural_or_null},
        "layers": [{**LAYER, "rotation": is_natural_or_null}],
        "rotations": [
            {"name": is_text, "unseen": is_natural_or_null, "idle": is_natural}
            | {"precision": {"*": LOSS}}
        ],
        "findings": FINDINGS,
    },
}
OPTIONAL = {"layers": [LAYER], "rotations": [{"name": is_text}], "encoding": is_text}
OPTIONAL |= {"softmax_factor": is_size, "params": is_object, "identified": is_object}


def is_record(record: Any, shape: Record) -> bool:
    """Whether a stored record is an answer, or a refusal."""
    if not isinstance(record, dict) or not isinstance(record.get("spec"), str):
        return False
    optional = {key: kind for key, kind in OPTIONAL.items() if key in record}
    return "error" in record or has_shape(record, {**optional, **shape})


def has_shape(value: Any, shape: Any) -> bool:
    """Whether a stored value has a shape: a test, a list of one, or an object by its keys, or "*".

    >>> has_shape({"a": [1, 2]}, {"a": [is_natural]}), has_shape([], {"a": is_natural})
    (True, False)
    >>> has_shape({"x": {"y": -1}}, {"*": {"y": is_natural}})
    False
    """
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(item, shape[0]) for item in value)
    if not isinstance(shape, dict):
        return bool(shape(value))
    if not isinstance(value, dict):
        return False
    if "*" in shape:
        return all(has_shape(item, shape["*"]) for item in value.values())
    return all(key in value and has_shape(value[key], inner) for key, inner in shape.items())


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
    records: Mapping[str, Record], per_spec: Sequence[Answer | Refusal]
) -> tuple[list[Reason], list[Reason]]:
    """What got worse or is another model's now, and what is no worse and yet not as it was.

    Raises
    ------
    PefourierError
        For a baseline that has none of what was asked: nothing would be compared.
    """
    specs = [entry.encoding.spec if isinstance(entry, Answer) else entry.spec for entry in per_spec]
    if not any(place_of(spec) in records for spec in specs):
        names = ", ".join(shown(record["spec"]) for record in [*records.values()][:NAMED])
        raise PefourierError(
            f"none of what was asked is in the baseline, which has {names or 'nothing'}: paths are "
            "taken as they are typed; write it anew with --json"
        )
    reasons, remarks = [], []
    files = {place.partition("#")[0] for place in records}
    for answer in (entry for entry in per_spec if isinstance(entry, Answer)):
        place = place_of(answer.encoding.spec)
        if place in records:
            worse, changed = differences(answer, records[place])
        else:
            words = "is not in the baseline: nothing to compare it with"
            unknown = [Reason(answer.encoding.label, "unknown", words)]
            other_part = of_model(answer.encoding) and place.partition("#")[0] in files
            worse, changed = (unknown, []) if other_part else ([], unknown)
        reasons += worse
        remarks += changed
    if unasked := sorted(records.keys() - set(map(place_of, specs))):
        names = ", ".join(shown(records[place]["spec"]) for place in unasked[:NAMED])
        names += ", …" * (len(unasked) > NAMED)
        words = f"{len(unasked)} of {len(records)} in the baseline were not asked for: {names}"
        remarks.append(Reason("", "left", words))
    return reasons, remarks


def differences(answer: Answer, stored: Record) -> tuple[list[Reason], list[Reason]]:
    """Reasons to fail, and remarks: of a model settings are reasons, too."""
    if "error" in stored:
        return [], []
    now, label = plain(telling_of(answer.result).record(answer)), answer.encoding.label
    sizes = [
        f"{key} {now[key]} instead of {stored[key]}" for key in SIZES if differ(key, now, stored)
    ]
    changes = setting_changes(now, stored)
    reasons = []
    if sizes:
        words = f"has {', '.join(sizes)}, where quality is not compared; write the baseline anew"
        reasons.append(Reason(label, "changed", f"{words} with --json"))
    else:
        worse = [*worse_fields(now, stored), *new_findings(now, stored)]
        reasons = [Reason(label, "worse", words) for words in worse]
    if not changes:
        return reasons, []
    listing = "; ".join(changes)
    if of_model(answer.encoding) or "trained" in now:
        words = f"has other positions than its weights were trained with: {listing}"
        return [Reason(label, "changed", words), *reasons], []
    return reasons, [Reason(label, "changed", f"is not that of the baseline: {listing}")]


def of_model(enc: Encoding) -> bool:
    """Whether positions belong to the weights of a model."""
    return "path" in enc.params and source_of(enc.spec) in ("config", "gguf")


def differ(key: str, now: Record, stored: Record) -> bool:
    """Whether two records have a field, and other values."""
    return key in now and key in stored and now[key] != stored[key]


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """The values inside objects by their path; rotations by name, layers by number.

    >>> flatten({"a": {"b": 1}, "c": [2], "layers": [{"index": [0, 1], "window": 4}]})
    {'a.b': 1, 'c': [2], 'layers.0-1.window': 4}
    """
    if path in ("rotations", "layers") and isinstance(value, list):
        value = {
            run.get("name") or ranges(run.get("index") or []) or run.get("kind", ""): run
            for run in value
        }
        value = {key: {k: x for k, x in run.items() if k != "index"} for key, run in value.items()}
    if not isinstance(value, dict):
        return {path: value}
    inside = (flatten(item, f"{path}.{key}".strip(".")) for key, item in value.items())
    return {name: item for fields in inside for name, item in fields.items()}


def settings_of(record: Record, peer: Record) -> dict[str, Any]:
    """The fields that are settings by their path, but for those that the other cannot have told.

    Frequencies count at one length alone, and parameters of a formula that the other's program did
    not have, or that rotations stand for, not at all.
    """
    roots = [key for key in SETTINGS if key in record and key in peer]
    if None in (record.get("identified"), peer.get("identified")):
        roots = [key for key in roots if key != "identified"]
    builder = BUILDERS.get(record.get("encoding") or "")
    formula = set(builder.parameters) if builder else set()
    if "rotations" not in record:
        formula -= set(peer.get("params") or ()) - ({"d"} if "dimension" in record else set())
    formula |= {"rotated", "softmax_factor"}  # told elsewhere
    skipped = DERIVED | ({"frequencies"} if record["length"] != peer["length"] else set())
    fields = flatten({key: record[key] for key in roots})
    return {
        path: value
        for path, value in fields.items()
        if not skipped.intersection(path.split("."))
        and not (path.startswith("params.") and path.split(".")[1] in formula)
    }


def setting_changes(now: Record, stored: Record) -> list[str]:
    """The settings that are others, in words; frequencies where nothing else of a rotation is."""
    mine, theirs = settings_of(now, stored), settings_of(stored, now)
    paths = [p for p in dict.fromkeys([*mine, *theirs]) if has_changed(mine.get(p), theirs.get(p))]
    parents = [path.rpartition(".")[0] for path in paths]
    return [
        f"{printable(path)} {value_told(mine.get(path))} instead of {value_told(theirs.get(path))}"
        for path, parent in zip(paths, parents, strict=True)
        if not path.endswith("frequencies") or parents.count(parent) == 1
    ]


def value_told(value: Any) -> str:
    """A setting as a person reads it."""
    return "none" if value is None else shown(value)


def has_changed(a: Any, b: Any) -> bool:
    """Whether two settings differ, numbers by more than libraries may."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return any(map(has_changed, a, b))
    if all(type(value) in (int, float) for value in (a, b)):
        return abs(a - b) > TOLERANCE * max(abs(a), abs(b))
    return a != b


def worse_fields(now: Record, stored: Record) -> Iterator[str]:
    """Fields with a better direction that changed in the other."""
    fields, before = (flatten({k: r[k] for k in MEASURED if k in r}) for r in (now, stored))
    for path, value in fields.items():
        direction = BETTER.get(path.rpartition(".")[2], 0)
        values = [value, before.get(path)]
        a, b = (LADDER.index(x) if path == "verdict" and x in LADDER else x for x in values)
        if {type(a), type(b)} <= {int, float} and direction * (b - a) > TOLERANCE * abs(b):
            texts = [x if isinstance(x, str) else number(x) for x in values]
            yield f"has {printable(path)} {texts[0]}, {texts[1]} in the baseline"


def new_findings(now: Record, stored: Record) -> Iterator[str]:
    """Errors and warnings that were not there, or were less severe."""
    before = {entry["code"]: SEVERITIES.index(entry["severity"]) for entry in stored["findings"]}
    for finding in now["findings"]:
        if SEVERITIES.index(finding["severity"]) > before.get(finding["code"], 0):
            text = f"{printable(finding['message'])} [{finding['code']}]"
            yield f"has a new {finding['severity']}: {text}"
