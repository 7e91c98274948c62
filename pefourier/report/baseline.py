"""Has anything got worse since a stored answer? For continuous integration.

The stored answer is what ``pefourier check-faithful … --json`` or ``context … --json`` wrote. Both
records are flattened to fields by their path, as ``rotations.full_attention.idle``. A field of
`BETTER` counts where it got worse, and so does a new finding above a note. All others are settings:
of a model each that changed counts, as its weights were trained with that. Answers of other sizes
are not compared.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import basename, dirname, normpath
from typing import Any

from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.files import missing, os_errors, status_of
from pefourier.questions.faithful import LADDER
from pefourier.report.frame import Answer, Refusal, telling_of
from pefourier.writing.escapes import printable
from pefourier.writing.page import SCHEMA, Reason, plain
from pefourier.writing.text import first_few, number

LARGEST = 2**26  # bytes
TOLERANCE = 1e-6  # relative: what other processors and libraries change in a distance
SEVERITIES = ("note", "warning", "error")
BETTER = {"verdict": 1, "min_distance": 1, "gap": 1, "unseen": -1, "idle": -1}  # 1: upwards
BETTER |= {"distinct_cast": 1, "distinct_phase": 1}
SIZES = ("length", "dimension", "trained.length")
MEASURED = ("length", "dimension", "trained", "verdict", "min_distance", "gap", "precision")
SETTINGS = ("params", "rotations", "indexer", "layers", "identified")
SETTINGS += ("softmax_factor", "temperature", "slopes", "tables", "allowed")
DERIVED = {"bands", "bound", "critical_dimension", "decay", "cache", "familiar_length", "name"}
DERIVED |= {"trained_frequencies", "largest", "nearer_higher", "index", "precision", "rotation"}
DERIVED |= {"path", "length", "max_difference", "conventions", "source", "distinct", *BETTER}


@dataclass(frozen=True)
class Fields:
    """What is compared of the answer for one SPEC: values by path, severities of findings."""

    spec: str
    values: Mapping[str, Any]
    findings: Mapping[str, int]
    is_refused: bool = False


def read_baseline(path: str, command: str) -> dict[str, Fields]:
    """The stored answer of a command for each SPEC.

    Raises
    ------
    PefourierError
        For a file that is not an answer of that command in JSON of this layout.
    """
    if status_of(path) is None:
        raise missing(path)
    with os_errors("read", path), open(path, "rb") as stream:
        text = stream.read(LARGEST)
    try:
        answer = json.loads(text, parse_int=float, parse_constant={}.__getitem__)
        is_answer = (answer["command"], answer["schema"]) == (command, SCHEMA)
        per_spec = [fields_of_record(record) for record in answer["results"]]
        stored = {place_of(fields.spec): fields for fields in per_spec}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_answer = False
    if not is_answer:
        raise PefourierError(
            f"{shown(path)} is not an answer of {command} in the layout of this version ({SCHEMA});"
            f" write it anew with: pefourier {command} … --json"
        )
    return stored


def fields_of_record(record: Mapping[str, Any]) -> Fields:
    """The fields of a JSON object; what is measured is a number, or null where it is infinite."""
    if "error" in record:
        return Fields(record["spec"], {}, {}, is_refused=True)
    keys = [key for key in (*MEASURED, *SETTINGS) if key in record]
    roots = {key: record[key] for key in keys if key != "params" or not record.get("rotations")}
    values = dict(flatten(roots))
    if "faithful" in record:
        values["verdict"] = LADDER.index(record["verdict"])
    for path in values.keys() & set(MEASURED) - {"verdict"}:
        values[path] = None if values[path] is None else values[path] + 0
    findings = {f["code"]: SEVERITIES.index(f["severity"]) for f in record["findings"]}
    return Fields(record["spec"], values, findings)


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values inside objects by their path; rotations by name, layers by the first and last.

    >>> dict(flatten({"a": {"b": 1}, "c": [2], "layers": [{"index": [0, 1], "window": 4}]}))
    {'a.b': 1, 'c': [2], 'layers.0-1.index': [0, 1], 'layers.0-1.window': 4}
    """
    if path in ("rotations", "layers"):
        value = {part_name(part): part for part in value}
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, item in value.items():
        yield from flatten(item, f"{path}.{key}".strip("."))


def part_name(part: Mapping[str, Any]) -> str:
    """What a rotation or a run of layers is called."""
    index = part.get("index")
    name = part.get("name") or part.get("kind") or "all"
    return f"{index[0]:g}-{index[-1]:g}" if index else str(name)


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
    stored: Mapping[str, Fields], per_spec: Sequence[Answer | Refusal]
) -> tuple[list[Reason], list[Reason]]:
    """What got worse or is another model's now, and what is no worse and yet not as it was.

    Raises
    ------
    PefourierError
        For a baseline that has none of what was asked: nothing would be compared.
    """
    specs = [entry.encoding.spec if isinstance(entry, Answer) else entry.spec for entry in per_spec]
    places = list(map(place_of, specs))
    if not set(places) & stored.keys():
        names = first_few([shown(fields.spec) for fields in stored.values()]) or "nothing"
        raise PefourierError(
            f"none of what was asked is in the baseline, which has {names}: paths are taken as "
            "they are typed; write it anew with --json"
        )
    reasons, remarks = [], []
    files = {place.partition("#")[0] for place in stored}
    for place, answer in zip(places, per_spec, strict=True):
        if not isinstance(answer, Answer):
            continue
        label, counts = answer.encoding.label, is_of_model(answer)
        if place in stored:
            worse, changed = differences(answer, stored[place])
            reasons += [Reason(label, "worse", words) for words in worse]
        else:
            changed = ["is not in the baseline: nothing to compare it with"]
            counts = counts and place.partition("#")[0] in files
        (reasons if counts else remarks).extend(Reason(label, "changed", text) for text in changed)
    return reasons, remarks


def is_of_model(answer: Answer) -> bool:
    """Whether positions belong to the weights of a model, or are all that was asked about."""
    enc = answer.encoding
    is_model = "path" in enc.params and source_of(enc.spec) in ("config", "gguf")
    return is_model or hasattr(answer.result, "trained")


def differences(answer: Answer, stored: Fields) -> tuple[list[str], list[str]]:
    """What got worse, and which settings are others, in words that follow the SPEC."""
    if stored.is_refused:
        return [], []
    record = plain(telling_of(answer.result).record(answer))
    now = fields_of_record(record)
    if sizes := list(changed_fields(now, stored, SIZES)):
        return [f"has {'; '.join(sizes)}: write the baseline anew with --json"], []
    if lacking := [p for p in now.values if p in MEASURED and p not in stored.values]:
        raise PefourierError(f"the baseline of {shown(stored.spec)} has no {lacking[0]}")
    messages = {finding["code"]: finding["message"] for finding in record["findings"]}
    worse = [*worse_fields(now, stored)] + [
        f"has a new {SEVERITIES[severity]}: {printable(messages[code])} [{code}]"
        for code, severity in now.findings.items()
        if severity > stored.findings.get(code, 0)
    ]
    settings = list(changed_fields(now, stored, setting_paths(now, stored)))
    return worse, [f"is not that of the baseline: {'; '.join(settings)}"] if settings else []


def setting_paths(now: Fields, stored: Fields) -> list[str]:
    """The settings that are others; frequencies where nothing else of a rotation is."""
    paths = [
        path
        for path in dict.fromkeys([*now.values, *stored.values])
        if path.partition(".")[0] in SETTINGS
        and not DERIVED.intersection(path.split("."))
        and has_changed(now.values.get(path), stored.values.get(path))
    ]
    parents = [path.rpartition(".")[0] for path in paths]
    return [
        path
        for path, parent in zip(paths, parents, strict=True)
        if not path.endswith("frequencies") or parents.count(parent) == 1
    ]


def changed_fields(now: Fields, stored: Fields, paths: Sequence[str]) -> Iterator[str]:
    """The fields that are others, in words."""
    for path in paths:
        a, b = now.values.get(path), stored.values.get(path)
        if has_changed(a, b):
            texts = [number(x, 6) if isinstance(x, float | int) else shown(x) for x in (a, b)]
            yield f"{printable(path)} {texts[0]} instead of {texts[1]}"


def has_changed(a: Any, b: Any) -> bool:
    """Whether two settings differ, numbers by more than libraries may."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return any(map(has_changed, a, b))
    if isinstance(a, float | int) and isinstance(b, float | int):
        return abs(a - b) > TOLERANCE * max(abs(a), abs(b))
    return a != b


def worse_fields(now: Fields, stored: Fields) -> Iterator[str]:
    """Fields with a better direction that changed in the other."""
    for path, a in now.values.items():
        direction, b = BETTER.get(path.rpartition(".")[2], 0), stored.values.get(path)
        if not (isinstance(a, float | int) and isinstance(b, float | int)):
            continue
        if direction * (b - a) > TOLERANCE * abs(b):
            texts = [LADDER[x] if path == "verdict" else number(x) for x in (a, b)]
            yield f"has {printable(path)} {texts[0]}, {texts[1]} in the baseline"
