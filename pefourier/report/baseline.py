"""Compare an answer with a stored one (baseline), for continuous integration.

The stored answer was written by ``pefourier check-faithful … --json`` or ``context … --json``. Both
records are flattened to fields by path, such as ``rotations.full_attention.idle``. Reasons to fail
are fields of `BETTER` that got worse, and new findings above a note. All other fields are settings;
for a model, each changed setting is a reason to fail, because the weights were trained with the old
one. Answers of different sizes are not compared.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose
from os.path import normpath
from pathlib import Path
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.questions.check_faithful import LADDER, rung_of
from pefourier.report.catalogue import read_catalogue
from pefourier.report.render import Answer, Refusal, record_of
from pefourier.types import Values
from pefourier.writing.files import missing, os_errors, split_spec, status_of
from pefourier.writing.page import SCHEMA, Reason, plain
from pefourier.writing.text import first_few, number, printable

LARGEST = 2**26  # bytes
TOLERANCE = 1e-6  # relative difference of a distance between processors and libraries
SEVERITIES = ("note", "warning", "error")
BETTER = {"verdict": 1, "min_distance": 1, "gap": 1, "unseen": -1, "idle": -1}  # 1: upwards
BETTER |= {"distinct_cast": 1, "distinct_phase": 1}
SIZES = ("length", "dimension", "trained.length")
MEASURED = "length dimension trained verdict min_distance gap precision".split()
SETTINGS = (
    "params rotations indexer layers identified softmax_factor temperature slopes tables "
    "allowed".split()
)
DERIVED = {
    *"bands bound critical_dimension decay cache familiar_length name trained_frequencies largest "
    "index precision rotation effective_base stepwise by_pair path length "
    "max_difference conventions source distinct".split(),
    *BETTER,
}


def read_baseline(path: str, command: str) -> dict[str, Values]:
    """Read the fields of a command's stored answer, by the place of each SPEC.

    Raises
    ------
    PefourierError
        If the file is not an answer of this command in JSON of the present layout.
    """
    if status_of(path) is None:
        raise missing(path)
    with os_errors("read", path), Path(path).open("rb") as stream:
        text = stream.read(LARGEST)
    try:
        answer = json.loads(text, parse_int=float, parse_constant=refuse_constant)
        is_answer = (answer["command"], answer["schema"]) == (command, SCHEMA)
        stored = {
            place_of(record["spec"]): fields_of_record(record) for record in answer["results"]
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_answer = False
    if not is_answer:
        raise PefourierError(
            f"{shown(path)} is not an answer of {command} in the layout of this version ({SCHEMA});"
            f" write one with: pefourier {command} … --json"
        )
    return stored


def fields_of_record(record: Values) -> Values:
    """Return the fields of a JSON object by path, empty for a refusal; ranks of verdict, findings.

    Measured values are numbers, or null if infinite.
    """
    if "error" in record:
        return {}
    roots = {key: record[key] for key in (*MEASURED, *SETTINGS) if key in record}
    if record.get("rotations"):
        roots.pop("params")
    fields = dict(flatten(roots))
    if "faithful" in record:
        rung = rung_of(record["verdict"], record["rank"], record["length"])
        fields["verdict"] = LADDER.index(rung)
    for path in fields.keys() & set(MEASURED) - {"verdict"}:
        fields[path] = None if fields[path] is None else fields[path] + 0
    severities = {f["code"]: SEVERITIES.index(f["severity"]) for f in record["findings"]}
    return fields | {f"findings.{code}": severity for code, severity in severities.items()}


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values inside objects by path; rotations by name, layers by first and last.

    >>> dict(flatten({"a": {"b": 1}, "c": [2], "layers": [{"index": [0, 1], "window": 4}]}))
    {'a.b': 1, 'c': [2], 'layers.0-1.index': [0, 1], 'layers.0-1.window': 4}
    """
    if path in ("rotations", "layers"):
        value = {
            f"{i[0]:g}-{i[-1]:g}"
            if (i := p.get("index"))
            else p.get("name") or p.get("kind") or "all": p
            for p in value
        }
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, item in value.items():
        yield from flatten(item, f"{path}.{key}".strip("."))


def place_of(spec: str) -> str:
    """Normalize a SPEC by its file: ./a.npy becomes a.npy, a model's folder its config.

    >>> place_of("./a.npy#b"), place_of("model/config.json#full"), place_of("model/")
    ('a.npy#b', 'model#full', 'model')
    """
    path, part = split_spec(spec)
    path = normpath(path)
    folder = str(Path(path).parent) if Path(path).name == "config.json" else path
    return f"{folder}#{part}" if part else folder


def judge(
    stored: Mapping[str, Values], per_spec: Sequence[Answer | Refusal]
) -> tuple[list[Reason], list[Reason]]:
    """Return reasons to fail (worse results, changed models) and remarks (other changes).

    Raises
    ------
    PefourierError
        If the baseline has none of the SPECs, because nothing would be compared.
    """
    answers = [entry for entry in per_spec if isinstance(entry, Answer)]
    places = [place_of(answer.encoding.spec) for answer in answers]
    if len(stored) == len(per_spec) == 1:
        names = {place.partition(":")[0] for place in (*stored, *places)}
        if names.isdisjoint(record["encoding"] for record in read_catalogue()):
            places = [*stored]  # a renamed file
    if not {*places} & {*stored}:
        known, specs = (first_few([*map(shown, names)]) or "nothing" for names in (stored, places))
        raise PefourierError(
            f"the baseline has {known}, but not {specs}; pass a SPEC of the baseline, or another "
            "baseline"
        )
    reasons: list[Reason] = []
    remarks: list[Reason] = []
    files = {split_spec(place)[0] for place in stored}
    for place, answer in zip(places, answers, strict=True):
        worse, changes = (
            differences(answer, stored[place])
            if place in stored
            else ([], ["is not in the baseline: nothing to compare it with"])
        )
        enc = answer.encoding
        is_model = enc.file is not None or hasattr(answer.result, "trained")
        counts = is_model and split_spec(place)[0] in files
        reasons += [Reason(enc.label, "worse", words) for words in worse]
        (reasons if counts else remarks).extend(Reason(enc.label, "changed", x) for x in changes)
    return reasons, remarks


def refuse_constant(name: str) -> None:
    """Raise for NaN and infinity, which stored answers do not contain."""
    raise ValueError(name)


def differences(answer: Answer, stored: Values) -> tuple[list[str], list[str]]:
    """Return what got worse and which settings changed, as words to follow the SPEC."""
    if not stored:
        return [], []
    record = plain(record_of(answer))
    now = fields_of_record(record)
    if lacking := [path for path in now if path in MEASURED and path not in stored]:
        raise PefourierError(f"the baseline of {answer.encoding.label} has no {lacking[0]}")
    sizes = changed_fields(now, stored, SIZES).values()
    worse = []
    for path, a in () if sizes else now.items():  # other sizes are not comparable
        direction, b = BETTER.get(path.rpartition(".")[2], 0), stored.get(path)
        if not (isinstance(a, float | int) and isinstance(b, float | int)):
            continue
        if direction * (b - a) > TOLERANCE * abs(b):
            new, old = (LADDER[int(x)] if path == "verdict" else number(x) for x in (a, b))
            worse.append(f"has {printable(path)} {new}, {old} in the baseline")
    worse += [
        f"has a new {f['severity']}: {printable(f['message'])} [{f['code']}]"
        for f in record["findings"]
        if now[f"findings.{f['code']}"] > stored.get(f"findings.{f['code']}", 0)
    ]
    paths = [
        path
        for path in dict.fromkeys((*now, *stored))
        if path.split(".")[0] in SETTINGS and DERIVED.isdisjoint(path.split("."))
    ]
    settings = changed_fields(now, stored, paths)
    causes = [text for path, text in settings.items() if not path.endswith("frequencies")]
    changes = "; ".join(causes or settings.values())
    if sizes:
        worse.append(f"has {'; '.join(sizes)}, so distances and angles are not compared")
    return worse, [f"differs from the baseline: {changes}"] if changes else []


def changed_fields(now: Values, stored: Values, paths: Iterable[str]) -> dict[str, str]:
    """Return the changed fields, in words by their path."""
    words = {}
    for path in paths:
        values = now.get(path), stored.get(path)
        if has_changed(*values):
            a, b = (number(x, 6) if isinstance(x, float | int) else shown(x) for x in values)
            words[path] = f"{printable(path)} {a} instead of {b}"
    return words


def has_changed(a: Any, b: Any) -> bool:
    """Whether two settings differ, numbers by more than `TOLERANCE`."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return any(map(has_changed, a, b))
    if isinstance(a, float | int) and isinstance(b, float | int):
        return not isclose(a, b, rel_tol=TOLERANCE)
    return bool(a != b)
