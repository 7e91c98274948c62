"""What config.json and results.jsonl hold: each key with its type and its range, said once.

JSON that is read back is checked against these types before anything is believed, so that a file
that was edited, cut or written by somebody else is refused in one line.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pefourier.encodings.checks import is_count, is_number
from pefourier.errors import shown
from pefourier.train.options import MOST_SEEDS, Options, Split

MOST_STACKED = 256  # members of a stack, on any device
LONGEST = 2**24  # characters of a configuration, or of a line of results
# Options that numbers do not depend on; a folder of data may have moved, its windows are known
NOT_NUMBERS = frozenset(
    {
        *("data", "out", "resume", "processes", "rank_timeout", "save_tables", "save_models"),
        *("spread", "find", "beside", "causal"),  # methods stand among encodings
    }
)


@dataclass(frozen=True)
class Range:
    """The least and the largest that a number may be."""

    low: float
    high: float = math.inf

    def __str__(self) -> str:
        return f"{self.low:g} or more" if self.high == math.inf else f"{self.low:g} … {self.high:g}"


Share = Annotated[float, Range(0, 1)]
FromZero = Annotated[int, Range(0)]
FromOne = Annotated[int, Range(1)]
Seconds = Annotated[float, Range(0)]


class Tested(TypedDict):
    """Scores of a run on windows of another length, or why there are none."""

    length: FromOne
    precision: Share | None
    recall: Share | None
    f1: Share | None
    auprc: Share | None
    accuracy: Share | None
    reason: str


class Budget(TypedDict):
    """How long a run may last, and steps of an epoch."""

    epochs: FromOne
    patience: FromZero  # epochs; 0: without end
    steps: FromOne  # of an epoch


class Row(TypedDict):
    """A line of results.jsonl: one run."""

    dataset: str
    encoding: str
    seed: Annotated[int, Range(0, MOST_SEEDS - 1)]
    fold: FromZero
    precision: Share
    recall: Share
    f1: Share
    auprc: Share
    accuracy: Share
    epoch: FromZero  # that was kept; 0: the weights it began with
    seconds: Seconds
    split: Split
    leaky: bool
    length: FromOne
    windows: FromOne  # that were tested
    trained: FromOne  # windows
    confusion: list[list[FromZero]]  # windows of each class, said to be of each
    device: str
    time: str
    step_seconds: NotRequired[Seconds]  # that a step of one run takes among those trained with it
    budget: NotRequired[Budget]
    falling: NotRequired[bool]  # patience ended it while its losses still fell
    positive: NotRequired[str | None]  # class; of more than two there is none
    shortest: NotRequired[FromOne]  # rows of the shortest window, the others' being `length`
    uneven: NotRequired[bool]  # rows are at uneven times
    tested: NotRequired[list[Tested]]  # at other lengths
    chosen: NotRequired[dict[str, float | str]]  # settings, on validation


class CausalRow(TypedDict):
    """A run of a causal comparison at one length."""

    dataset: str
    encoding: str
    seed: Annotated[int, Range(0, MOST_SEEDS - 1)]
    trained: FromOne  # length of training
    length: FromOne
    exact: Share | None
    reason: str  # why there is no score
    epoch: NotRequired[FromZero]  # earlier versions had none
    seconds: NotRequired[Seconds]


class Stage(TypedDict):
    """What was asked of a folder at a time, and how many runs a stack then had."""

    dataset: list[str]
    encoding: list[str]
    match_rms: list[float]
    seeds: Annotated[int, Range(1, MOST_SEEDS)]
    resamples: NotRequired[int | None]  # of a set with a test part; without it that alone
    stack: Annotated[int, Range(1, MOST_STACKED)]


class Known(TypedDict):
    """What a configuration holds beside options."""

    windows: dict[str, list[FromZero]]  # of each class of a dataset
    splits: dict[str, str]
    data: dict[str, list[float]]
    tables: dict[str, list[float]]
    device: str
    versions: dict[str, str]
    stages: list[Stage]


def kinds_of_configuration() -> dict[str, Any]:
    """The type of each key of config.json: options that numbers depend on, rules, what is known."""
    options = get_type_hints(Options)
    rules = {"choice": str, "size": str, "codes": str}
    asked = {f.name: options[f.name] for f in fields(Options) if f.name not in NOT_NUMBERS}
    return asked | rules | get_type_hints(Known, include_extras=True)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of bounded length and depth in which no key stands twice."""
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    try:
        return json.loads(text, object_pairs_hook=without_twins)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, unless a key stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a key twice")
    return found


def parse_row(line: bytes) -> Row:
    """A line of results.jsonl; a `ValueError` says what is wrong with it."""
    row = parse_json(line)
    check_record(row, kinds_there(Row, row), "a line")
    table = row["confusion"]
    if any(len(said) != len(table) for said in table) or sum(map(sum, table)) != row["windows"]:
        raise ValueError(f"confusion must be a square table of {row['windows']} windows")
    return row


def check_configuration(config: Any) -> None:
    """Raise a `ValueError` that says in what JSON is not a configuration.

    An option or a rule may be missing: an earlier version had no such thing.
    """
    kinds = kinds_of_configuration()
    given = {key: kind for key, kind in kinds.items() if has_key(config, key)}
    check_record(config, given | get_type_hints(Known, include_extras=True), "it")


def check_causal_results(content: Any, used: frozenset[str]) -> None:
    """Raise a `ValueError` that says in what JSON is not what a causal comparison writes.

    An option may be missing: an earlier version had no such thing.
    """
    check_record(content, {"training": dict, "runs": list[CausalRow]}, "it")
    asked = content["training"]
    kinds = {n: k for n, k in get_type_hints(Options).items() if n in used and has_key(asked, n)}
    check_record(asked, kinds, "training")
    if not content["runs"]:
        raise ValueError("it has no run")


def kinds_there(record: Any, value: Any) -> dict[str, Any]:
    """The types of a record's keys, without those that may be missing and are."""
    absent = {key for key in record.__optional_keys__ if not has_key(value, key)}
    kinds = get_type_hints(record, include_extras=True)
    return {key: kind for key, kind in kinds.items() if key not in absent}


def has_key(value: Any, key: str) -> bool:
    """Whether a JSON value is an object with a key."""
    return isinstance(value, dict) and key in value


def check_record(value: Any, kinds: Mapping[str, Any], where: str) -> None:
    """Check an object of JSON that has exactly these keys."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object; got {shown(value)}")
    lacking, unknown = kinds.keys() - value.keys(), value.keys() - kinds.keys()
    if lacking or unknown:
        verb, key = ("lacks", min(lacking)) if lacking else ("has an unknown key", min(unknown))
        raise ValueError(f"{where} {verb} {shown(key)}")
    for key, kind in kinds.items():
        check_value(value[key], kind, key)


def check_value(value: Any, kind: Any, where: str) -> None:
    """Check a JSON value against a type of Python."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Union:  # a range of numbers, or nothing
        if value is not None:
            check_value(value, inner[0], where)
    elif origin is Annotated:
        check_value(value, inner[0], where)
        if not inner[1].low <= value <= inner[1].high:
            raise ValueError(f"{where} must be {inner[1]}; got {shown(value)}")
    elif origin is NotRequired:
        check_value(value, inner[0], where)
    elif origin in (list, tuple) and isinstance(value, list):
        for item in value:
            check_value(item, inner[0], where)
    elif origin is dict and isinstance(value, dict):
        for item in value.values():
            check_value(item, inner[1], where)
    elif is_typeddict(kind):
        check_record(value, kinds_there(kind, value), where)
    elif not is_of(value, kind):
        raise ValueError(f"{where} must be {name_of(kind)}; got {shown(value)}")


def is_of(value: Any, kind: Any) -> bool:
    """Whether a JSON value is text, a truth value, a whole or a finite number, or one of a few.

    >>> is_of(True, int), is_of(1, float), is_of(float("nan"), float), is_of(None, int | None)
    (False, True, False, True)
    """
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if isinstance(kind, UnionType):
        return any(is_of(value, one) for one in get_args(kind))
    if kind is float:
        return is_number(value)
    return type(value) is kind and (kind is not int or is_count(value, -(2**53)))


def name_of(kind: Any) -> str:
    """What a type is called in an error.

    >>> name_of(int | None), name_of(list[str]), name_of(Literal["a", "b"])
    ('a whole number or null', 'a list', 'a or b')
    """
    plain = {str: "text", bool: "true or false", int: "a whole number", NoneType: "null"}
    plain |= {float: "a finite number", list: "a list", tuple: "a list", dict: "an object"}
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if isinstance(kind, UnionType):
        return " or ".join(plain[one] for one in get_args(kind))
    return plain[get_origin(kind) or kind]
