"""How a user's module is run: on what its ``forward`` asks for, in the ways that public code takes.

A module is run twice on zeros for a batch of two. Where its sizes do not fit (length, d), other
inputs are tried in turn: tokens, positions, axes in another order. One that multiplies what it is
given, so that zeros stay zeros, is a rotation if the images of unit vectors say so; its codes are
then the image of a vector that is 1 at the first of each pair.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from pefourier.encodings.encoding import Finding, check_plain, numbers
from pefourier.encodings.findings import finding
from pefourier.encodings.sources import rotations
from pefourier.encodings.sources.signatures import (
    LENGTH_NAMES,
    POSITION_NAMES,
    QUERY_NAMES,
    SHIFTS,
    TIME_NAMES,
    TOKEN_NAMES,
    TableAsked,
)
from pefourier.errors import PefourierError, shown

A_TOKEN = 2  # which is neither the usual start nor the usual padding
HEADS = 3  # of which each would have codes of its own if it were a row of a grid
PAIR_NAMES = frozenset("i j q_len k_len qlen klen query_length key_length".split())
SHAPE_NAMES = frozenset("input_ids_shape input_shape shape".split())
ROOMY = 2**16  # numbers of an input from which on it is tried on a few rows first
COPIED = 2**24  # numbers that a module may hold to be copied
SWOLLEN = 8  # times as many numbers as given: more than any codes of them

SEQUENCE_FIRST = re.compile(
    r"\b((?i:seq|len|time)\w*( len\w*)?|[STL]), *((?i:batch)\w*|bs\w*|[BN])\b"
)

T, R = TypeVar("T"), TypeVar("R")
Codes = tuple[np.ndarray, float]  # an array of numbers with its resolution
Answers = list[Codes]  # of two calls


def first_that_works(attempt_one: Callable[[T], R], ways: Iterable[T]) -> R:
    """The answer of the first way that works; the first failure where none does."""
    refused: list[Exception] = []
    for way in ways:
        try:
            return attempt_one(way)
        except rotations.FAULTS as error:
            refused.append(error)
    raise refused[0]


def module_table(asked: TableAsked, torch: Any, module: Any) -> tuple[Codes, list[Finding]]:
    """The table of a module, and what was noticed on the way."""
    if type(module).forward is torch.nn.Embedding.forward:
        return numbers(module.weight[: asked.length]), []
    longer = replace(asked, length=2 * asked.d + 1, grid=())
    if asked.length <= asked.d and not runs(longer, torch, module):  # are axes exchanged?
        if in_other_ways(longer, torch, module) is not None:
            other = in_other_ways(asked, torch, module)
            if other is not None:
                return other
    try:
        found, findings = as_it_asks(asked, torch, module)
    except rotations.FAULTS:
        other = in_other_ways(asked, torch, module)
        other = other or rotations.as_rotation(asked, torch, module)
        if other is None:
            raise
        return other
    turning = QUERY_NAMES.intersection(rotations.names_to_give(module))
    if found[0].any() or (takes_positions(module) and not turning):
        return found, findings
    rotation = rotations.as_rotation(asked, torch, module)
    ones = np.ones((2, asked.length, asked.d))
    found_of_ones = rotation or rotations.images(torch, module, "bsd", ones)
    if rotation is None and found_of_ones and np.ptp(found_of_ones[0], axis=1).any():
        raise PefourierError(
            f"{shown(asked.spec)} gives zeros for zeros: it multiplies what it is given, and does "
            "not turn pairs of columns; give the table or the function that its factors come from"
        )
    return rotation or (found, findings)


def runs(asked: TableAsked, torch: Any, module: Any) -> bool:
    """Whether a module gives a table for a length."""
    try:
        as_it_asks(asked, torch, module)
    except rotations.FAULTS:
        return False
    return True


def as_it_asks(asked: TableAsked, torch: Any, module: Any) -> tuple[Codes, list[Finding]]:
    """Run a module twice, and look at which axis its codes vary along."""
    length, d = asked.length, asked.d
    answers, sequence_first = run_module(torch, module, length, d)
    findings = []
    if answers is None:  # does the batch stand where the sequence should?
        answers = call_twice(torch, module, inputs_of(torch, module, (1, length, d)))
        findings.append(finding("batch-axis", "one"))
    elif sequence_first:
        findings.append(finding("sequence-first", "said" if says_so(module) else "unsaid"))
    (codes, eps), (again, _) = answers
    if not np.array_equal(codes, again):
        worst = np.abs(codes - again).max()
        findings.append(finding("changes-between-calls", worst=worst))
    if codes.ndim == 3 and sequence_first:
        codes = codes[:, 0]
    if codes.ndim == 3 and codes.shape[0] == 2 and not np.array_equal(*codes):
        three = attempt(torch, module, (3, length, d))
        if three is not None and three[0][0].shape == codes.shape:  # waves, one above the other
            codes = np.concatenate(codes, axis=-1)[None]
    if codes.ndim == 3 and codes.shape[0] == 2:
        if not findings and not np.array_equal(*codes):  # zeros, for both members of the batch
            same = " and are the same at every position" if (codes == codes[:, :1]).all() else ""
            findings.append(finding("batch-axis", "differ", same=same))
        codes = codes[0]
    table, names = two_axes(asked, (codes, eps)), rotations.names_to_give(module)
    if TIME_NAMES.issuperset(names):  # a tensor that is turned may be called t
        ways = inputs_of(torch, module, (2, length, d))
        back = [{k: mirrored(x) if np.ndim(x) else x for k, x in way.items()} for way in ways]
        if not reads_numbers(table, as_rows(asked, call_twice(torch, module, back)[0])):
            raise PefourierError(f"{shown(asked.spec)} does not take positions alone")
    return table, findings


def says_so(module: Any) -> bool:
    """Whether a module says that the sequence comes first, in its source or by its switch."""
    try:
        source = inspect.getsource(type(module))
    except (OSError, TypeError):
        source = ""
    return getattr(module, "batch_first", None) is False or bool(SEQUENCE_FIRST.search(source))


def run_module(torch: Any, module: Any, length: int, d: int) -> tuple[Answers | None, bool]:
    """What a module gives at two calls, and whether it takes the sequence first; None: nothing."""
    if takes_positions(module):
        return call_twice(torch, module, inputs_of(torch, module, (2, length, d))), False
    own = attempt(torch, module, (2, length, d))
    if length == 2 or (own is not None and is_right(own[0][0], own[1][0], 0)):
        return own, False
    other = attempt(torch, module, (length, 2, d))
    if other is not None and is_right(other[0][0], other[1][0], 1):
        return other, True
    return own, False


def is_right(codes: np.ndarray, again: np.ndarray, batch: int) -> bool:
    """Whether the members of a batch have the same codes, and positions different ones.

    What changes between calls is judged by that alone: the batch says nothing then.
    """
    if codes.ndim != 3 or not np.array_equal(codes, again):
        return codes.ndim != 3 and batch == 0
    one, *others = np.moveaxis(codes, batch, 0)
    differ = len(one) < 2 or not (one == one[:1]).all()
    return differ and all(np.array_equal(one, other) for other in others)


def attempt(torch: Any, module: Any, shape: tuple[int, int, int]) -> Answers | None:
    """What a module gives at two calls, None where its sizes do not fit the input."""
    try:
        return call_twice(torch, module, inputs_of(torch, module, shape))
    except rotations.FAULTS:
        return None


def call_twice(torch: Any, module: Any, ways: Iterable[dict[str, Any]]) -> Answers:
    """What a module gives at two calls, in the first way that it takes."""
    ways = list(ways)
    for last, way in enumerate(ways, 1 - len(ways)):
        try:
            check_swelling(torch, module, way)
            with torch.no_grad():
                return [as_codes(module(**way), way) for _ in range(2)]
        except rotations.FAULTS:
            if last == 0:
                raise
    raise TypeError("its forward takes nothing that is known here")


def check_swelling(torch: Any, module: Any, way: dict[str, Any]) -> None:
    """Refuse an input of which each further row gives many more numbers than it has.

    A module of positions takes each number of a vector for one: all rows would fill the memory. It
    is asked in copies, as a module may keep what it made for the few.
    """
    long = {key: x for key, x in way.items() if isinstance(x, torch.Tensor) and x.ndim > 2}
    held = sum(x.numel() for x in (*module.parameters(), *module.buffers()))
    if sum(x.numel() for x in long.values()) < ROOMY or held > COPIED:
        return
    given, made = [], []
    for rows in (rotations.PROBED, 2 * rotations.PROBED):
        some = {key: first_rows(x, rows) for key, x in long.items()}
        try:
            with torch.no_grad():
                found = deepcopy(module)(**way | some)
        except rotations.FAULTS:
            return  # it may need them all
        parts = found if isinstance(found, tuple | list) else [found]
        given.append(sum(x.numel() for x in some.values()))
        made.append(sum(part.numel() for part in parts if isinstance(part, torch.Tensor)))
    if made[1] - made[0] > SWOLLEN * (given[1] - given[0]):  # a table may be returned whole
        raise ValueError(f"of {given[1]} numbers given it makes {made[1]}")


def first_rows(x: Any, rows: int) -> Any:
    """So many rows of an array along its longest axis but the last.

    >>> first_rows(np.zeros((2, 100, 64)), 8).shape
    (2, 8, 64)
    """
    axis = int(np.argmax(x.shape[:-1]))
    return x[(*[slice(None)] * axis, slice(rows))]


def takes_positions(module: Any) -> bool:
    """Whether forward is given places, or nothing that has a batch."""
    names = set(rotations.names_to_give(module))
    without_batch = LENGTH_NAMES | PAIR_NAMES | SHIFTS | {"device", "dtype"}
    return names <= without_batch or bool(names & (POSITION_NAMES | TIME_NAMES))


def inputs_of(torch: Any, module: Any, shape: tuple[int, int, int]) -> Iterator[dict[str, Any]]:
    """Ways to call forward: positions in the forms that modules take them, all else zeros."""
    length = max(shape[:2]) if takes_positions(module) else shape[1]
    like = rotations.example_of(torch, module)
    whole = torch.arange(length, device=like.device)
    forms = [whole.expand(shape[0], length), whole, whole.float(), whole.float()[:, None]]
    forms.append(whole.float()[None, :, None])
    names = rotations.names_to_give(module)
    own = inspect.signature(module.forward).parameters.values()
    names += [p.name for p in own if p.name in LENGTH_NAMES and p.default is None]
    known = {"device": like.device, "dtype": like.dtype}
    known["attention_mask"] = torch.ones(shape[:2], dtype=torch.long, device=like.device)
    known |= dict.fromkeys(LENGTH_NAMES | PAIR_NAMES, length) | dict.fromkeys(SHIFTS, 0)
    known |= dict.fromkeys(TOKEN_NAMES, torch.full(shape[:2], A_TOKEN, device=like.device))
    known |= dict.fromkeys(SHAPE_NAMES, torch.Size(shape[:2]))
    zeros = torch.zeros(shape, dtype=like.dtype, device=like.device)
    if set(names) & TIME_NAMES:  # of diffusion: whole numbers would be theirs in all that follows
        forms = [forms[2], forms[1], *forms[3:], forms[0]]
    for form in forms if set(names) & (POSITION_NAMES | TIME_NAMES) else forms[:1]:
        places = dict.fromkeys(POSITION_NAMES | TIME_NAMES, form)
        yield {name: (known | places).get(name, zeros) for name in names}


def in_other_ways(asked: TableAsked, torch: Any, module: Any) -> tuple[Codes, list[Finding]] | None:
    """The table of a module that takes neither (2, length, d) nor positions by that name."""
    length, d = asked.length, asked.d
    for name, way, axes in other_inputs(asked, torch, module):
        try:
            codes, again, other = (
                as_rows(asked, one, axes)
                for given in (way, {**way, name: mirrored(way[name])})
                for one in call_twice(torch, module, [given])[: 2 if given is way else 1]
            )
        except rotations.FAULTS:
            continue
        differ = length == 1 or (np.ptp(codes[0], axis=0).any() and (codes[0] % 1).any())
        if np.array_equal(codes[0], again[0]) and differ and reads_numbers(codes, other):
            given = "positions" if (way[name] == 0).any() else "tokens"
            given = given if way[name].any() else "zeros"
            kind, shape = str(way[name].dtype).removeprefix("torch."), tuple(way[name].shape)
            told = {"name": name, "given": given, "shape": shape, "kind": kind}
            return codes, [finding("called-with", **told, length=length, d=d)]
    return None


def as_rows(asked: TableAsked, answer: Codes, axes: tuple[int, ...] | None = None) -> Codes:
    """A table (length, d) out of an answer in some order of axes, for a batch or for one."""
    codes, eps = answer
    if axes is not None:
        codes = np.transpose(codes, axes)
    if codes.ndim > 2 and codes.shape[0] == 2 and np.array_equal(codes[0], codes[1]):
        codes = codes[0]
    if codes.shape[:-1] == asked.grid:
        codes = codes.reshape(-1, codes.shape[-1])
    return two_axes(asked, (codes, eps))


def mirrored(x: Any) -> Any:
    """An array or tensor with its longest axis in reverse."""
    axis = int(np.argmax(x.shape))
    return x.flip(axis) if hasattr(x, "flip") else np.flip(x, axis)


def reads_numbers(answer: Codes, reverse: Codes) -> bool:
    """Whether codes are those of the numbers given, as what these give in reverse order tells.

    Positions in reverse give codes in reverse, and what is not read gives the same; what is turned
    or scaled by its place gives neither, and what numbers are added to grows with them.
    """
    (codes, eps), (other, _) = answer, reverse
    rounding = 16 * eps * np.abs(codes).max()
    if np.abs(codes - other).max() <= rounding:
        return True
    grows = len(codes) > 1 and np.allclose(np.diff(codes, axis=0), 1.0, atol=0.01)
    return not grows and bool(np.abs(codes[::-1] - other).max() <= rounding)


def other_inputs(
    asked: TableAsked, torch: Any, module: Any
) -> Iterator[tuple[str, dict[str, Any], tuple[int, ...] | None]]:
    """An argument, a way to call forward with another for it, and the order of axes of the answer.

    What is turned, by its name, is never a number for each position.
    """
    like, length = rotations.example_of(torch, module), asked.length
    shape = (2, length, asked.d)
    (way,) = list(inputs_of(torch, module, shape))[:1]
    arrays = [key for key, value in way.items() if isinstance(value, torch.Tensor)]
    own = inspect.signature(module.forward).parameters
    places = TOKEN_NAMES | POSITION_NAMES | TIME_NAMES
    name = next(iter(arrays), None) or next((key for key in own if key in places), None)
    if name is None:
        return
    whole = torch.arange(length, device=like.device)
    zeros = torch.zeros(shape, dtype=like.dtype, device=like.device)
    token = A_TOKEN + (getattr(module, "padding_idx", None) == A_TOKEN)
    tokens = torch.full(shape[:2], token, device=like.device)
    vectors = [key for key, x in way.items() if getattr(x, "shape", None) == shape]
    for axis in (1, 2) if vectors else ():
        given = zeros.unsqueeze(axis).repeat_interleave(HEADS, axis)
        yield vectors[0], {**way, **dict.fromkeys(vectors, given)}, None
    plain = [tokens, tokens[:, None], whole, whole.to(like.dtype)]
    plain += [whole.expand(2, length), whole.to(like.dtype)[:, None]]
    turned = name in QUERY_NAMES and (name not in ("x", "tensor") or takes_positions(module))
    for form in plain if not turned else ():
        yield name, {**way, name: form}, None
    yield name, {**way, name: zeros.swapaxes(1, 2)}, (0, 2, 1)  # channels first
    if len(asked.grid) > 1:
        for one, back in inputs_on_grid(torch, module, way, name, (*asked.grid, asked.d)):
            yield name, one, back


def inputs_on_grid(
    torch: Any, module: Any, way: dict[str, Any], name: str, shape: tuple[int, ...]
) -> Iterator[tuple[dict[str, Any], tuple[int, ...] | None]]:
    """Channels last and first; first the order that also has room for more rows than columns."""
    like, sides = rotations.example_of(torch, module), len(shape) - 1
    last_to_first = (0, sides + 1, *range(1, sides + 1))
    first_to_last = (0, *range(2, sides + 2), 1)
    long = (2 * shape[-1] + 1, *(2 for _ in shape[1:-1]), shape[-1])  # more rows than columns
    found = []
    for order, back in (tuple(range(sides + 2)), None), (last_to_first, first_to_last):
        zeros = [
            torch.zeros((2, *size), dtype=like.dtype, device=like.device).permute(order)
            for size in (shape, long)
        ]
        fits = [keeps_shape(torch, module, {**way, name: x}, x) for x in zeros]
        found += [(not fits[1], len(found), {**way, name: zeros[0]}, back)] if fits[0] else []
    yield from ((one, back) for _, _, one, back in sorted(found, key=lambda f: f[:2]))


def keeps_shape(torch: Any, module: Any, way: dict[str, Any], x: Any) -> bool:
    """Whether a module's codes have the shape of what it is given, but for the batch."""
    try:
        (codes, _), _ = call_twice(torch, module, [way])
    except rotations.FAULTS:
        return False
    return codes.shape[-x.ndim + 1 :] == tuple(x.shape[1:])


def two_axes(asked: TableAsked, answer: Codes) -> Codes:
    """A table (length, d) out of one with axes of length one around or between."""
    (array, eps), length, d = answer, asked.length, asked.d
    table = array
    while table.ndim > 2 and 1 in table.shape[:-1]:
        table = table.squeeze(axis=table.shape[:-1].index(1))
    if table.ndim != 2 or len(table) != length:
        pairs = ": a number for each pair of positions is a bias, and not a code"
        raise PefourierError(
            f"{shown(asked.spec)} gave an array of shape {array.shape} for length {length} and "
            f"d {d}; expected ({length}, {d}){pairs if array.shape[-2:] == (length,) * 2 else ''}"
        )
    return table, eps


def as_codes(answer: Any, way: Mapping[str, Any]) -> Codes:
    """The codes in what was given: of several arrays those that were made, side by side."""
    torch = sys.modules.get("torch")
    kinds = (np.ndarray, torch.Tensor) if torch is not None else np.ndarray
    several = isinstance(answer, tuple | list) and any(
        isinstance(a, kinds) and a.ndim > 1 for a in answer
    )
    if not (several or isinstance(answer, kinds)):
        return numbers(answer)
    arrays = [a for a in answer if isinstance(a, kinds) and a.ndim > 1] if several else [answer]
    for array in arrays:
        check_plain(array)
    given = [x for x in way.values() if isinstance(x, kinds)]
    first, *others = [a for a in arrays if not any(alike(a, x) for x in given)] or arrays
    made = [first, *(x for x in others if x.shape == first.shape and not alike(x, first))]
    twins = all(a.ndim == 3 and len(a) == 2 and alike(a[0], a[1]) for a in made)
    parts = [numbers(a[0] if twins else a) for a in made]  # a batch of two is kept once
    codes = np.concatenate([x for x, _ in parts], axis=-1) if several else parts[0][0]
    return np.broadcast_to(codes, (2, *codes.shape)) if twins else codes, parts[0][1]


def alike(a: Any, b: Any) -> bool:
    """Whether two arrays, or two tensors, have the same numbers."""
    return a.shape == b.shape and type(a).__module__ == type(b).__module__ and bool((a == b).all())
