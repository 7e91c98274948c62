"""How user code is called: what its signatures ask for, by the names that public code uses.

Arguments may stand in the SPEC, ``py:module:Class(max_period=100)``: literals alone. Sizes and
positions fill what is left.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pefourier.errors import PefourierError, shown

# Names under which public code takes the two sizes; others are given by order.
LENGTH_NAMES = frozenset(
    "length n max_len maxlen max_length max_seq_len seq_len seq_length sequence_length "
    "max_sequence_length num_positions n_positions max_position_embeddings num_embeddings "
    "context_length context_size block_size n_ctx num_patches timesteps end max_seq_length".split()
)
DIM_NAMES = frozenset(
    "d d_model dim model_dim embed_dim embedding_dim emb_dim emb_size embed_size embedding_size "
    "hidden_size hidden_dim d_hid channels n_embd num_hiddens head_dim features width "
    "num_channels out_channels dim_head head_size".split()
)
POSITION_NAMES = frozenset("position_ids positions position pos pos_ids indices idx".split())
TIME_NAMES = frozenset("t timesteps timestep time times coords coordinates".split())
QUERY_NAMES = frozenset("q k x xq xk query key queries keys tensor hidden_states".split())
WAVE_NAMES = frozenset("cos sin freqs_cis".split())
TOKEN_NAMES = frozenset("input_ids tokens token_ids".split())
SHIFTS = frozenset("offset start_pos past_length cache_position past_key_values_length".split())
DROPOUT_NAMES = frozenset("dropout dropout_p dropout_rate p_dropout drop drop_rate".split())
OBJECTS = frozenset("config cfg configuration hparams".split())  # that no SPEC can state
NO_SIZE = re.compile(  # a parameter that neither size may fill
    "freq|period|theta|base|scale|head|band|idx|shift|sigma|rate|temperature|factor|bucket|dtype"
)
A_PADDING = 1  # as in fairseq and RoBERTa; positions then begin at 2


@dataclass(frozen=True)
class Given:
    """Arguments that a SPEC states itself."""

    by_order: tuple[Any, ...] = ()
    by_name: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.by_order or self.by_name)


@dataclass(frozen=True)
class TableAsked:
    """A table that user code is asked for; errors call the code by its SPEC."""

    spec: str
    length: int
    d: int
    grid: tuple[int, ...] = ()
    given: Given = Given()
    seed: int | None = None


def split_arguments(spec: str) -> tuple[str, Given]:
    """A SPEC without its arguments, and those.

    >>> split_arguments("py:model:Timesteps(64, flip=True)")
    ('py:model:Timesteps', Given(by_order=(64,), by_name={'flip': True}))
    """
    name, bracket, rest = spec.partition("(")
    if not bracket:
        return spec, Given()
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        assert isinstance(call, ast.Call), "something follows the arguments"
        by_order = tuple(ast.literal_eval(one) for one in call.args)
        by_name = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError, AssertionError, RecursionError, MemoryError) as error:
        raise PefourierError(
            f"cannot read the arguments of {shown(spec)}: write numbers, 'text', True, None or "
            "lists of them, as py:module:Class(max_period=100, shape=(8, 10)); what needs an "
            "object is made in a file of yours and named py:file:instance"
        ) from error
    return name, Given(by_order, by_name)


def with_padding(function: Callable[..., Any], given: Given) -> Given | None:
    """The arguments with a padding index, where the signature has one that is not given."""
    try:
        own = list(inspect.signature(function).parameters.values())[len(given.by_order) :]
    except ValueError:
        return None
    at = [p for p in own if p.name == "padding_idx" and p.default in (None, p.empty)]
    if not at or "padding_idx" in given.by_name:
        return None
    return Given(given.by_order, {**given.by_name, "padding_idx": A_PADDING})


def ways_to_call(asked: TableAsked, function: Callable[..., Any]) -> Iterator[Callable[[], Any]]:
    """Calls with sizes and positions, the likeliest first; a class takes d before the length."""
    given, is_class = asked.given, inspect.isclass(function)
    sizes = {"d": asked.d, "length": asked.length}
    sizes = sizes if is_class else dict(reversed(sizes.items()))
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # built in C: no signature to read
        yield lambda: function(*(given.by_order or sizes.values()), **given.by_name)
        return
    anything = all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    if not parameters or (is_class and not given and anything):  # it has no constructor of its own
        yield function
        return
    left = [p for p in parameters[len(given.by_order) :] if p.name not in given.by_name]
    needed = [p.name for p in left if is_needed(p)]
    if objects := OBJECTS.intersection(needed):
        what = f"{function.__name__} takes {min(objects)}, an object"
        raise PefourierError(f"{what}: make an instance of it in a file, py:file:instance")
    in_order = any(p.kind is p.POSITIONAL_ONLY for p in left)
    after: list[dict[str, Any]] = []
    times = (float, int) if TIME_NAMES & set(needed) else ()
    for positions in (*times, None):
        named = {} if in_order else arguments_by_name(left, sizes, is_class, positions)
        unknown = [name for name in needed if name not in named]
        if (not unknown and (named or given)) or (given and is_class):  # which says what it lacks
            yield partial(function, *given.by_order, **given.by_name, **named)
        elif len(unknown) == 1 and not is_class and not in_order:
            after.append(named | {unknown[0]: all_positions(sizes["length"], float)})
    unfit = [name for name in unknown if NO_SIZE.search(name)]
    if unfit and not after:
        raise PefourierError(
            f"{function.__name__} takes {', '.join(unknown)}: give what it takes in the SPEC, as "
            f"'py:module:{function.__name__}({'=…, '.join(unknown)}=…)'"
        )
    if not given and not any(NO_SIZE.search(name) for name in needed):
        in_place = [p for p in left if is_needed(p) and p.kind is not p.KEYWORD_ONLY]
        yield partial(function, *list(sizes.values())[: max(len(in_place), 1)])
    for named in after:
        yield partial(function, *given.by_order, **given.by_name, **named)


def is_needed(p: inspect.Parameter) -> bool:
    """Whether a call must give it."""
    kinds = (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    return p.default is p.empty and p.kind in kinds


def arguments_by_name(
    parameters: list[inspect.Parameter],
    sizes: Mapping[str, int],
    is_class: bool,
    positions: type | None,
) -> dict[str, Any]:
    """Arguments for the names that are known.

    A class keeps a longest length of its own where that is enough: codes may depend on it. Times
    are `positions`, float or int; None: what may be a length is one.
    """
    named: dict[str, Any] = {}
    for p in parameters:
        own = is_class and type(p.default) is int
        needed = is_needed(p) and not is_class
        if needed and p.name in TIME_NAMES and positions is not None:
            named[p.name] = all_positions(sizes["length"], positions)
        elif needed and p.name in POSITION_NAMES:
            named[p.name] = all_positions(sizes["length"], int)
        elif p.name in LENGTH_NAMES:
            named |= {} if own and p.default >= sizes["length"] else {p.name: sizes["length"]}
        elif p.name in DIM_NAMES:
            named[p.name] = sizes["d"]
        elif p.name in DROPOUT_NAMES:
            named[p.name] = 0.0
    return named


def all_positions(length: int, kind: type) -> Any:
    """0 … length - 1, as a tensor where torch is there."""
    room = sys.modules.get("torch") or sys.modules["numpy"]
    return room.arange(length) if kind is int else room.arange(length, dtype=room.float32)
