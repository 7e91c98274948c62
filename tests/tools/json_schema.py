"""JSON Schema of all answers, made from the types of results and compared with answers.

`PYTHONPATH=. python tests/tools/json_schema.py` writes pefourier/report/answers.schema.json.
"""

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial

import numpy as np

from pefourier.construction.explain import Cause as CauseOfDifference
from pefourier.construction.mistakes import LikelyMistake
from pefourier.geometry.precision import FormatLoss
from pefourier.questions.check_faithful import (
    GridFaithfulness,
    LineFaithfulness,
)
from pefourier.questions.compare import Comparison
from pefourier.questions.context import Context
from pefourier.questions.design import Design
from pefourier.questions.encode import Written
from pefourier.questions.extend import Extensions
from pefourier.questions.positions import Positions
from pefourier.questions.reconstruct import GridReconstructions, LineReconstructions
from pefourier.questions.relations import BiasRelations, GridRelations, Relations
from pefourier.questions.resize import Resizing
from pefourier.questions.result import Result
from pefourier.questions.spectrum import GridSpectrum, LineSpectrum
from pefourier.questions.usage import Usage
from pefourier.report import terms
from pefourier.reproduce import Claim
from pefourier.train.ensembles import DatasetPlan
from pefourier.writing.page import SCHEMA, labelled_fields

FILE = terms.SCHEMA
GROUPS = {  # groups of terms by the room of a dataclass; the first group with a field explains it
    room: groups.split()
    for rooms, groups in {
        "spectral_density": "spectrum",
        "reconstruct": "reconstruct spectrum",
        "check_faithful": "check-faithful reconstruct spectrum",
        "precision encoding": "check-faithful",
        "relations": "relations check-faithful",
        "compare": "compare check-faithful",
        "mistakes outcome layers pairs row_positions biases operators": "compare",
        "context model_positions rotations": "context check-faithful words",
        "design extend": "design context check-faithful",
        "positions spans visibility model": "positions check-faithful",
        "resize": "resize check-faithful spectrum words",
        "weights": "usage context check-faithful",
        "summary statistics": "train",
        "split": "plan",
        "plan": "plan train",
        "terms": "explain",
    }.items()
    for room in rooms.split()
}
PLAIN = {int: "integer", bool: "boolean", str: "string", type(None): "null"}
TEXT, WHOLE, OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}
NUMBER = {"type": ["number", "null"]}  # infinite values and NaN are null
IDENTITY = {"encoding": {"type": ["string", "null"]}, "spec": {"type": ["string", "null"]}}
IDENTITY |= {"params": OBJECT, "conclusion": TEXT}
OF_REPORTS = {"verdict": TEXT, "meaning": TEXT, "action": TEXT}
OF_REPORTS |= {"findings": {"type": "array", "items": OBJECT}}
LAYERS = {"layers": {"type": "array", "items": OBJECT}}
KINDS = {  # types of results, by command
    "spectrum": (LineSpectrum, GridSpectrum),
    "reconstruct": (LineReconstructions, GridReconstructions),
    "check-faithful": (LineFaithfulness, GridFaithfulness),
    "relations": (Relations, GridRelations, BiasRelations),
    "compare": (Comparison,),
}
KINDS |= {"context": (Context,), "usage": (Usage,), "design": (Design, Extensions)}
KINDS |= {"positions": (Positions,)}
KINDS |= {"resize": (Resizing,), "encode": (Written,), "explain": (terms.Term,)}
KINDS |= {"plan": (DatasetPlan,), "reproduce": (Claim,)}
BESIDE = {  # fields of a record that its dataclass lacks
    kind: {**LAYERS, "softmax_factor": NUMBER} for kind in (LineFaithfulness, GridFaithfulness)
} | {
    Comparison: {"other": OBJECT},
    Resizing: {"before": OBJECT, "after": OBJECT, "methods": {"type": "array", "items": OBJECT}},
}
PLAINLY = {  # records without a dataclass
    "report": {"out": TEXT},
    "list": {
        **dict.fromkeys(("family", "domain", "paper"), TEXT),
        **{"measure": {}, "untrained": {"type": "boolean"}, "meaning": TEXT, "formula": TEXT},
        **{"meanings": OBJECT, "example": TEXT},
    },
    "train": {
        **{"dataset": TEXT, "training": OBJECT, "seeds": WHOLE, "length": WHOLE},
        **{"accuracy": OBJECT, "lengths": {"type": "array"}},
        **{"difference": {"type": ["object", "null"]}, **OF_REPORTS},
    },
}
PLAINLY["scores"] = {"dataset": TEXT, "seeds": WHOLE, "folds": WHOLE, "score": OBJECT}
PLAINLY["scores"] |= {"difference": {"type": ["object", "null"]}, **OF_REPORTS}
PLAINLY["predict"] = {"label": TEXT, "windows": WHOLE, "out": TEXT}
AT_TIMES = {  # optional fields of such records
    "list": "conventions",
    "report": "verdict meaning action findings",
    "train": "split leaky folds positive precision recall f1 auprc auprc_difference best "
    "dataset_verdict confusion chosen diverged last_kept budget cut_short "
    "average_rank left_out",
    "scores": "dataset_verdict best average_rank left_out",
}
SAYING = (Result, Claim)  # types whose records have a verdict
NAMELESS = ("explain", "plan")  # commands whose records have no encoding


def schema():
    """Return the schema, in version 2020-12."""
    defs = {"Reason": object_of({name: TEXT for name in ("spec", "kind", "message")})}
    defs["Refusal"] = object_of({"spec": TEXT, "error": TEXT})
    branches = []
    for command in (*KINDS, *PLAINLY):
        encodings = IDENTITY | {name: {} for name in AT_TIMES.get(command, "").split()}
        records = [
            record_of(kind, defs, command not in NAMELESS) for kind in KINDS.get(command, ())
        ]
        if more := PLAINLY.get(command):
            required = {*more, *IDENTITY} - {"params"}
            properties = described((command,), more | encodings)
            records = [object_of(properties, required) | {"additionalProperties": {}}]
        items = {"anyOf": [*records, {"$ref": "#/$defs/Refusal"}]}
        then = {"properties": {"results": {"type": "array", "items": items}}}
        branches.append({"if": {"properties": {"command": {"const": command}}}, "then": then})
    reasons = {"type": "array", "items": {"$ref": "#/$defs/Reason"}}
    top = {
        "command": {"enum": [*KINDS, *PLAINLY]},
        "version": TEXT,
        "schema": {"const": SCHEMA},
        "results": {"type": "array"},
        "reasons": {"description": "Why the answer is no, status 1 or 2.", **reasons},
        "remarks": {"description": "What is worth a warning and no reason.", **reasons},
        "together": {"description": "What compares all SPECs.", **TEXT},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answers of pefourier with --json",
        "description": "Fields may be added; `schema` grows when one changes its meaning or goes.",
        **object_of(top, required={"command", "version", "schema", "results"}),
        "allOf": branches,
        "$defs": dict(sorted(defs.items())),
    }


def object_of(properties, required=None):
    needed = sorted(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": needed}


@cache  # the registry does not change while the program runs
def meanings():
    """Return the meanings of fields by group and name: of terms, or of labels in the text."""
    by_name = {}
    for term in terms.read_terms():
        for name in (term.term, *term.also):
            by_name.setdefault((term.group, terms.spelling(name)), term.meaning)
    by_field = {(group, name.replace(" ", "_")): text for (group, name), text in by_name.items()}
    for kind in (kind for kinds in KINDS.values() for kind in kinds if hasattr(kind, "shown")):
        for label, path in (
            (x, y) for t in (kind.shown, *kind.listed.values()) for x, y in t.items()
        ):
            field, meaning = (
                path.rpartition(".")[2],
                by_name.get((kind.command, terms.spelling(label))),
            )
            if meaning:
                by_field.setdefault((kind.command, field), meaning)
    return by_field


def described(groups, properties):
    """Add to fields their meanings from the first group that has them, or from every answer."""
    by_field, rules = meanings(), {}
    for name, rule in properties.items():
        group = next((g for g in (*groups, "every answer") if (g, name) in by_field), None)
        rules[name] = {"description": by_field[group, name], **rule} if group else rule
    return rules


def record_of(kind, defs, encodings):
    """Return the schema of a record: its subject and the fields of its dataclass."""
    fields_of, stated = fields_schema(kind, defs), OF_REPORTS if issubclass(kind, SAYING) else {}
    properties = (
        (IDENTITY if encodings else {"conclusion": TEXT}) | stated | fields_of["properties"]
    )
    required = {*fields_of["required"], "conclusion", *stated}
    required |= {"params", "encoding"} if encodings else set()
    return object_of(properties | BESIDE.get(kind, {}), required)


def fields_schema(kind, defs):
    """Return the schema of the reported fields of a dataclass, each with its meaning."""
    rooms = kind.__module__.split(".")
    room = next((name for name in rooms if name in GROUPS), rooms[-1])
    hints, names = hints_of(kind), labelled_fields(kind)
    rules = {name: of_type(hints[name], defs) for name in names}
    rules = described(GROUPS.get(room, (room,)), rules)
    return object_of({names[name]: rule for name, rule in rules.items()})


@cache
def hints_of(kind):
    return typing.get_type_hints(
        kind, localns={"LikelyMistake": LikelyMistake, "FormatLoss": FormatLoss}
    )


def of_type(kind, defs):
    """Return the schema of a type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if kind is float:
        return dict(NUMBER)
    if origin is CauseOfDifference:
        return {"type": "object", "required": ["code"], "additionalProperties": {}}
    if is_dataclass(kind):
        name = kind.__name__
        if name not in defs:
            defs[name] = {}  # while the schema is made, for types that contain themselves
            defs[name] = fields_schema(kind, defs)
        return {"$ref": f"#/$defs/{name}"}
    if origin in (typing.Union, types.UnionType):
        return any_of([of_type(one, defs) for one in inner])
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": of_type(inner[1], defs)}
    if isinstance(origin, type) and issubclass(origin, Sequence) and inner:
        every = [of_type(one, defs) for one in inner if one is not ...]
        return {"type": "array", "items": any_of(every)}
    if kind is np.ndarray or origin is np.ndarray:
        return {"type": "array", "items": {"type": ["number", "null", "array"]}}
    if kind in (list, tuple):
        return {"type": "array"}
    return {"type": "object"} if kind is dict else {}


def any_of(several):
    """Return the schema of alternatives, as a list of types if they are only types."""
    several = [one for i, one in enumerate(several) if one not in several[:i]]
    if {} in several:
        return {}
    if all(set(one) == {"type"} for one in several):
        names = sorted({name for rule in several for name in np.atleast_1d(rule["type"]).tolist()})
        return {"type": names if len(names) > 1 else names[0]}
    return several[0] if len(several) == 1 else {"anyOf": several}


def faults(value, rule, root, where="answer"):
    """Yield places where a value violates a schema, and unknown fields of open objects."""
    if "$ref" in rule:
        rule = root["$defs"][rule["$ref"].rpartition("/")[2]]
    allowed = [rule["const"]] if "const" in rule else rule.get("enum", [value])
    if value not in allowed:
        yield f"{where}: {value!r} is none of {allowed}"
    if "type" in rule and not is_a(value, rule["type"]):
        yield f"{where}: {str(value)[:60]} is no {rule['type']}"
        return
    if "anyOf" in rule:
        tried = [list(faults(value, one, root, where)) for one in rule["anyOf"]]
        yield from min(tried, key=len)
    for branch in rule.get("allOf", ()):
        if not list(faults(value, {**branch["if"], "open": True}, root)):
            yield from faults(value, {**branch["then"], "open": True}, root, where)
    if isinstance(value, dict):
        yield from (
            f"{where}: lacks {name}" for name in rule.get("required", ()) if name not in value
        )
        known, other = rule.get("properties", {}), rule.get("additionalProperties", {})
        for name, item in value.items():
            yield from faults(item, known.get(name, other), root, f"{where}.{name}")
            closed = known and not {"open", "additionalProperties"} & rule.keys()
            if closed and name not in known:
                yield f"{where}: {name} is in no schema"
    if isinstance(value, list) and "items" in rule:
        simple = set(rule["items"]) == {"type"}
        for item in value:
            if not simple or not is_a(item, rule["items"]["type"]):
                yield from faults(item, rule["items"], root, f"{where}[]")


NAMES = {"integer": int, "number": (int, float), "string": str, "null": type(None), "array": list}
NAMES |= {"object": dict, "boolean": bool}


def is_a(value, names):
    """Return whether a JSON value has one of some types."""
    names = names if isinstance(names, list) else [names]
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, NAMES[name]) for name in names if name != "boolean")


@cache
def published():
    """Return the schema in the package."""
    return json.loads(FILE.read_text())


def as_text(found):
    """Return the schema as JSON, with one line for each command and each definition."""
    line = partial(json.dumps, ensure_ascii=False)
    parts = {**found, "allOf": None, "$defs": None}
    branches = ",\n".join(map(line, found["allOf"]))
    defs = ",\n".join(f"{line(name)}: {line(one)}" for name, one in found["$defs"].items())
    text = {"allOf": f"[\n{branches}\n]", "$defs": f"{{\n{defs}\n}}"}
    lines = [f"{line(name)}: {text.get(name) or line(one)}" for name, one in parts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(as_text(schema()))
