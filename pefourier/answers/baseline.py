"""Has anything got worse since a stored answer? For continuous integration.

The stored answer is what ``pefourier check-faithful … --json`` wrote. Worse is a lower verdict, a
smaller distance or gap, fewer codes told apart in a format, a new finding above a note, and of a
model's config anything else than was, as its weights were trained with that; what got better is
fine. Answers of other sizes are not compared, which is said as a fault of its own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from os.path import basename, dirname, normpath
from typing import Any

from pefourier.answers.page import SCHEMA, plain
from pefourier.answers.report import Answer, Refusal
from pefourier.answers.text import number
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, printable, shown
from pefourier.faithful import LADDER, Faithfulness
from pefourier.files import missing, os_errors, status_of

LARGEST = 2**26  # bytes
SLACK = 1e-6  # relative: what other processors and libraries change in a distance
SEVERITIES = ("note", "warning", "error")
WANTED = ("length", "dimension", "verdict", "min_distance", "gap", "precision", "findings")
OF_MODELS = ("config", "gguf")  # whose positions belong to weights
NAMED = 4  # SPECs that are told one by one
REMAKE = "write it anew with: pefourier check-faithful … --json"


def read_baseline(path: str) -> dict[str, Mapping[str, Any]]:
    """The stored answer for each SPEC.

    Raises
    ------
    PefourierError
        For a file that is not an answer of check-faithful in JSON of this layout.
    """
    if status_of(path) is None:
        raise missing(path)
    with os_errors("read", path), open(path, "rb") as stream:
        text = stream.read(LARGEST)
    try:
        stored = json.loads(text)
        command, schema, results = (stored[key] for key in ("command", "schema", "results"))
        records = {place_of(record["spec"]): record for record in results}
        told = [record for record in records.values() if "error" not in record]
        fine = all(fits(record) for record in told)
    except (ValueError, KeyError, TypeError, RecursionError):
        command, schema, fine = "", SCHEMA, False
    if schema != SCHEMA:
        raise PefourierError(
            f"{shown(path)} has layout {shown(schema)}, this version reads {SCHEMA}; {REMAKE}"
        )
    if command != "check-faithful" or not fine:
        raise PefourierError(f"{shown(path)} is not an answer of check-faithful; {REMAKE}")
    return records


def fits(record: Mapping[str, Any]) -> bool:
    """Whether a stored record has what is compared, in the types that it is written in."""
    values = [record[key] for key in WANTED]
    length, dimension, verdict, *distances, precision, findings = values
    return (
        isinstance(length, int)
        and isinstance(dimension, int)
        and verdict in LADDER
        and all(one is None or isinstance(one, int | float) for one in distances)
        and all(isinstance(loss["distinct_cast"], int) for loss in precision.values())
        and all(isinstance(loss["distinct_phase"], int | None) for loss in precision.values())
        and all(one["severity"] in SEVERITIES and one["code"] for one in findings)
    )


def stored_answer(records: Mapping[str, Mapping[str, Any]], spec: str) -> Mapping[str, Any] | None:
    """The stored answer for a SPEC, None where there is none."""
    return records.get(place_of(spec))


def place_of(spec: str) -> str:
    """A SPEC as others that mean the same file have it: ./a.npy is a.npy, a model its config.

    >>> place_of("./a.npy#b"), place_of("model/config.json#full"), place_of("model/")
    ('a.npy#b', 'model#full', 'model')
    """
    path, mark, part = spec.partition("#")
    path = normpath(path)
    folder = dirname(path) or "." if basename(path) == "config.json" else path
    return f"{folder}{mark}{part}"


def regressions(answer: Answer, stored: Mapping[str, Any]) -> list[str]:
    """What got worse, each in words that follow the SPEC's name."""
    now: Faithfulness = answer.result
    if "error" in stored:
        return []
    sizes = (stored["length"], stored["dimension"])
    if sizes != (now.length, now.dimension):
        then = "{} positions of {} dimensions".format(*sizes)
        changed = parameter_changes(answer, stored, but=("length", "d"))
        besides = f", with {changed}" if changed else ""
        return [
            f"has {now.length} positions of {now.dimension} dimensions, {then} in the baseline"
            f"{besides}: distances are not compared; give both one -S, or {REMAKE}"
        ]
    worse = [*worse_verdict(now, stored), *fewer_codes(now, stored), *new_findings(now, stored)]
    changed = parameter_changes(answer, stored)
    if changed and source_of(answer.encoding.spec) in OF_MODELS:
        worse.insert(0, f"has not the positions that trained weights expect: {changed}")
    elif worse and changed:
        worse[0] += f", with {changed}"
    return worse


def check_common(
    asked: Sequence[Answer | Refusal], records: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse a baseline that has none of what was asked: nothing would be compared."""
    specs = [one.encoding.spec if isinstance(one, Answer) else one.spec for one in asked]
    if not any(place_of(spec) in records for spec in specs):
        known = ", ".join(shown(record["spec"]) for record in [*records.values()][:NAMED])
        raise PefourierError(
            f"none of what was asked is in the baseline, which has {known or 'nothing'}: paths are "
            f"taken as they are typed; {REMAKE}"
        )


def list_changes(
    asked: Sequence[Answer | Refusal], records: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """What is no worse and yet not as it was: other parameters, and answers of one side alone."""
    found = []
    for one in (one for one in asked if isinstance(one, Answer)):
        stored = stored_answer(records, one.encoding.spec)
        if stored is None:
            label = one.encoding.label
            found.append(f"{label} is not in the baseline: nothing to compare it with")
        elif not regressions(one, stored) and (changed := parameter_changes(one, stored)):
            label = one.encoding.label
            found.append(f"{label} is no worse, but not that of the baseline: {changed}")
    specs = {one.encoding.spec if isinstance(one, Answer) else one.spec for one in asked}
    left = sorted(records.keys() - set(map(place_of, specs)))
    if left:
        named = [shown(records[place]["spec"]) for place in left[:NAMED]]
        names = ", ".join(named) + (", …" if len(left) > NAMED else "")
        found.append(f"{len(left)} of {len(records)} in the baseline were not asked for: {names}")
    return found


def parameter_changes(answer: Answer, stored: Mapping[str, Any], but: Sequence[str] = ()) -> str:
    """Which parameters are others than those stored, "" for none."""
    before, now = stored.get("params"), plain(answer.encoding.params)
    if not isinstance(before, Mapping):
        return ""
    keys = [*now, *sorted(before.keys() - now)]
    keys = [k for k in keys if k not in ("path", *but) and before.get(k) != now.get(k)]
    if not any(key in now and key in before for key in keys):
        return ""  # a setting that one version of the program alone has
    return ", ".join(
        f"{printable(key)} {value_words(now.get(key))} for {value_words(before.get(key))}"
        for key in keys
    )


def value_words(value: Any) -> str:
    """A parameter's value, none where there is none.

    >>> value_words(None), value_words("yarn"), value_words(4.0)
    ('none', "'yarn'", '4.0')
    """
    return "none" if value is None else shown(value)


def worse_verdict(now: Faithfulness, stored: Mapping[str, Any]) -> Iterator[str]:
    """A lower rung, or the closest two nearer."""
    if LADDER.index(now.verdict) < LADDER.index(stored["verdict"]):
        yield f"is {now.verdict}, {stored['verdict']} in the baseline"
    for key, name in (("min_distance", "a smallest distance"), ("gap", "a gap")):
        before, after = stored[key], getattr(now, key)
        if before is not None and after is not None and after < before * (1 - SLACK):
            yield f"has {name} of {number(after)}, {number(before)} in the baseline"


def fewer_codes(now: Faithfulness, stored: Mapping[str, Any]) -> Iterator[str]:
    """Formats of floating point that tell fewer codes apart."""
    ways = {"distinct_cast": "rounded to", "distinct_phase": "computed in"}
    for form, loss in now.precision.items():
        for key, how in ways.items():
            after, before = getattr(loss, key), stored["precision"].get(form, {}).get(key)
            if before is not None and after is not None and after < before:
                yield f"has {after} codes distinct when {how} {form}, {before} in the baseline"


def new_findings(now: Faithfulness, stored: Mapping[str, Any]) -> Iterator[str]:
    """Errors and warnings that were not there, or were less severe."""
    known = {one["code"]: SEVERITIES.index(one["severity"]) for one in stored["findings"]}
    for finding in now.findings:
        if SEVERITIES.index(finding.severity) > known.get(finding.code, 0):
            yield f"has a new {finding.severity}: {printable(finding.message)} [{finding.code}]"
