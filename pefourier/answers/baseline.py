"""Has anything got worse since a stored answer? For continuous integration.

The stored answer is what ``pefourier check-faithful … --json`` or ``context … --json`` wrote. Worse
is a lower verdict, a smaller distance or gap, fewer codes told apart in a format, a phase that is
new to training, a new finding above a note. Of a model anything else than was counts too, as its
weights were trained with that: parameters, factors of logits, which layers rotate and how far each
sees. What got better is fine. Answers of other sizes are not compared, which is said.
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
OF_ROTATIONS = {"pairs": "pairs", "rotated": "rotated pairs", "base": "base", "scaling": "scaling"}
OF_ROTATIONS |= {key: key for key in ("attention_factor", "softmax_factor")}
OF_PARAMS = ("rho", "scaling", "partial", "attention_factor")  # which rotations say
OF_SIZES = ("length", "d")
Record = Mapping[str, Any]


def is_count(value: Any) -> bool:
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
    return value is None or is_count(value)


class Each(dict):
    """The shape of an object all of whose values have a shape."""


FINDING = {"code": is_text, "message": is_text, "severity": SEVERITIES.__contains__}
LAYER = {"index": [is_count], "kind": is_text, "window": is_whole_or_null}
LOSS = {"distinct_cast": is_count, "distinct_phase": is_whole_or_null}
SHAPES: dict[str, Any] = {  # what is compared, in the types that it is written in
    "check-faithful": {
        "length": is_count,
        "dimension": is_count,
        "verdict": LADDER.__contains__,
        "min_distance": is_size,
        "gap": is_size,
        "precision": Each(each=LOSS),
        "findings": [FINDING],
    },
    "context": {
        "length": is_count,
        "trained": is_count,
        "layers": [{**LAYER, "rotation": is_whole_or_null}],
        "rotations": [
            {"name": is_text, "unseen": is_count, "idle": is_count, "precision": Each(each=LOSS)}
        ],
        "findings": [FINDING],
    },
}
PARAMS = Each(each=lambda value: True)
OPTIONAL = {
    "layers": [LAYER],
    "softmax_factor": is_size,
    "params": PARAMS,
    "identified": lambda value: value is None or fits(value, IDENTIFIED),
}
IDENTIFIED = {"encoding": is_text, "params": PARAMS}


def fits(value: Any, shape: Any) -> bool:
    """Whether a stored value has a shape: a test, a list of one, or an object by its keys.

    >>> fits({"a": [1, 2]}, {"a": [is_count]}), fits([], {"a": is_count}), fits({"x": -1}, LOSS)
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
    for one in (one for one in asked if isinstance(one, Answer)):
        label, stored = one.encoding.label, records.get(place_of(one.encoding.spec))
        if stored is None:
            words = "is not in the baseline: nothing to compare it with"
            remarks.append(Reason(label, "unknown", words))
        elif found := regressions(one, stored):
            worse += found
        elif changed := parameter_changes(one.encoding, stored) or other_table(one, stored):
            words = f"is no worse, but not that of the baseline: {changed}"
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
    now = plain(telling_of(answer.result).record(answer))
    sizes = SIZES["context" if in_context else "check-faithful"]
    told, then = ([record[key] for key in sizes] for record in (now, stored))
    other, model = told != then, in_context or of_model(enc)
    but = OF_SIZES if other else OF_PARAMS if in_context and "rotations" in stored else ()
    params = parameter_changes(enc, stored, but)
    changes = [*([params] if params and not other else []), *model_changes(now, stored)]
    worse, found = [], []
    if other:
        own, before = (sizes_told(sizes, values) for values in (told, then))
        besides = f", with {params}" if params else ""
        what = "phases" if in_context else "distances"
        way = "run both with the same -S, or" if told[1] == then[1] else "if that is meant,"
        facts = {"own": own, "before": before, "besides": besides, "what": what, "way": way}
        found.append(Reason(enc.label, "changed", sentence("baseline", "sizes", **facts)))
    elif in_context:
        worse = [*more_phases(now, stored), *new_findings(now, stored)]
    else:
        worse = [*worse_verdict(now, stored), *fewer_codes(now, stored), *new_findings(now, stored)]
    if worse and params and not model:
        worse[0] += f", with {params}"
    if changes and model:
        words = "has other positions than its weights were trained with: "
        found.append(Reason(enc.label, "changed", words + "; ".join(changes)))
    return [*found, *(Reason(enc.label, "worse", words) for words in worse)]


def of_model(enc: Encoding) -> bool:
    """Whether positions belong to the weights of a model."""
    return "path" in enc.params and source_of(enc.spec) in OF_MODELS


SIZES = {"check-faithful": ("length", "dimension"), "context": ("length", "trained")}


def sizes_told(keys: Sequence[str], values: Sequence[int]) -> str:
    """The sizes of an answer in words."""
    one, two = values
    if "trained" in keys:
        return f"{one} positions (trained at {two})"
    return f"{one} positions of {two} dimensions"


def parameter_changes(enc: Encoding, stored: Record, but: Sequence[str] = ()) -> str:
    """Which parameters are others than those stored, "" for none."""
    before, now = stored.get("params"), plain(enc.params)
    if not isinstance(before, Mapping):
        return ""
    keys = [*now, *sorted(before.keys() - now)]
    keys = [k for k in keys if k not in ("path", "softmax_factor", "rotated", *but)]
    keys = [k for k in keys if before.get(k) != now.get(k)]
    if not any(key in now and key in before for key in keys):
        return ""  # a setting that one version of the program alone has
    return ", ".join(changed(printable(key), now.get(key), before.get(key)) for key in keys)


def other_table(answer: Answer, stored: Record) -> str:
    """As what else a table is recognised, "" for what it was, or where it was as nothing known."""
    before, now = stored.get("identified"), plain(getattr(answer.result, "identified", None))
    if before is None:
        return ""
    one, two = ({k: r[k] for k in ("encoding", "spec") if k in r} for r in (now or {}, before))
    if one == two:
        one, two = now["params"], before["params"]
    apart = [key for key in two if value_changed(one.get(key), two[key])]
    named = ["spec"] if "spec" in apart and "spec" in one else apart
    told = ", ".join(changed(printable(key), one.get(key), two[key]) for key in named)
    return f"the table is recognised with {told}" if told else ""


def changed(name: str, now: Any, before: Any) -> str:
    """A value that is another.

    >>> changed("scaling", "yarn", None), changed("factor", 4.0, 8.0)
    ("scaling 'yarn' instead of none", 'factor 4.0 instead of 8.0')
    """
    told = ["none" if value is None else shown(value) for value in (now, before)]
    return f"{name} {' instead of '.join(told)}"


def model_changes(now: Record, stored: Record) -> Iterator[str]:
    """What else is not as it was: factors of logits, rotations, and layers."""
    key = "softmax_factor"
    if key in now and key in stored and value_changed(now[key], stored[key]):
        yield changed(key, now[key], stored[key])
    if "temperature" in now and now["temperature"] != stored.get("temperature"):
        yield changed("temperature", now["temperature"], stored.get("temperature"))
    own, before = ({one["name"]: one for one in r.get("rotations", ())} for r in (now, stored))
    for name in own.keys() & before.keys():
        of = f" of {printable(name)}" if name else ""
        for key, told in OF_ROTATIONS.items():
            if key in before[name] and value_changed(own[name][key], before[name][key]):
                yield changed(f"{told}{of}", own[name][key], before[name][key])
    if "layers" in now and "layers" in stored:
        yield from layer_changes(layers_of(now), layers_of(stored))


def value_changed(one: Any, two: Any) -> bool:
    """Whether two settings differ, numbers by more than libraries may."""
    if all(type(value) in (int, float) for value in (one, two)):
        return abs(one - two) > SLACK * max(abs(one), abs(two))
    return one != two


def layers_of(record: Record) -> dict[Any, str]:
    """What each layer has, by its number; layers without one under what they have."""
    names = [one["name"] for one in record.get("rotations", ())]
    found = {}
    for run in record["layers"]:
        turn = run.get("rotation")
        name = names[turn] if is_count(turn) and turn < len(names) else turn
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


def worse_verdict(now: Record, stored: Record) -> Iterator[str]:
    """A lower rung, or the closest two nearer."""
    if LADDER.index(now["verdict"]) < LADDER.index(stored["verdict"]):
        yield f"is {now['verdict']}, {stored['verdict']} in the baseline"
    for key, name in (("min_distance", "a smallest distance"), ("gap", "a gap")):
        before, after = stored[key], now[key]
        if before is not None and after is not None and after < before * (1 - SLACK):
            yield f"has {name} of {number(after)}, {number(before)} in the baseline"


def fewer_codes(now: Record, stored: Record, where: str = "") -> Iterator[str]:
    """Formats of floating point that tell fewer codes apart."""
    ways = {"distinct_cast": "rounded to", "distinct_phase": "computed in"}
    for form, loss in now["precision"].items():
        for key, how in ways.items():
            after, before = loss[key], stored["precision"].get(form, {}).get(key)
            if before is not None and after is not None and after < before:
                told = f"has {after} codes distinct when {how} {form}{where}"
                yield f"{told}, {before} in the baseline"


def more_phases(now: Record, stored: Record) -> Iterator[str]:
    """Pairs of rotations that reach angles unseen in training, or end no turn."""
    before = {one["name"]: one for one in stored["rotations"]}
    for one in now["rotations"]:
        old = before.get(one["name"])
        if old is None:
            continue
        where = f" in {printable(one['name'])} layers" if one["name"] else ""
        ways = (("unseen", "reach angles unseen in training"), ("idle", "never end a turn"))
        for key, what in ways:
            if one[key] > old[key]:
                yield f"has {one[key]} pairs that {what}{where}, {old[key]} in the baseline"
        yield from fewer_codes(one, old, where)


def new_findings(now: Record, stored: Record) -> Iterator[str]:
    """Errors and warnings that were not there, or were less severe."""
    known = {one["code"]: SEVERITIES.index(one["severity"]) for one in stored["findings"]}
    for finding in now["findings"]:
        if SEVERITIES.index(finding["severity"]) > known.get(finding["code"], 0):
            told = f"{printable(finding['message'])} [{finding['code']}]"
            yield f"has a new {finding['severity']}: {told}"
