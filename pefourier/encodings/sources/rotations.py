"""What user code that turns queries and keys does to any vector: its operator, probed.

Conventions
-----------
R(p) is a matrix (d, d): column j is the image of unit vector j at position p. A module that takes
q and k has two. Near positions are probed by unit vectors, which shows the pairs; farther on R(p)
is filled in from the images of two vectors, and holds if that of a random one is what it says: so
what is not linear is found out, and what depends on the other members of a batch. Of code that
takes cosines and sines those of ``rope`` with base 10000 are given.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Finding, numbers
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.signatures import (
    LENGTH_NAMES,
    POSITION_NAMES,
    QUERY_NAMES,
    SHIFTS,
    TIME_NAMES,
    WAVE_NAMES,
    TableAsked,
    is_needed,
)
from pefourier.errors import PefourierError, shown

# What ours raises is a ValueError, too
FAULTS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError)
PROBED = 8  # positions at which a rotation is looked at by unit vectors
AXES = {"b": "batch", "s": "sequence", "h": "head", "d": "dimension"}
ORDERS = ("bsd", "sbd", "bshd", "bhsd", "sbhd")  # of batch, sequence, head and dimension
NEARLY = 0.02  # bfloat16 has eight bits
BASE = 1e4
Images = tuple[np.ndarray, np.ndarray, float]  # of queries and of keys, with their resolution
Operators = tuple[np.ndarray, np.ndarray]  # of queries and of keys, (n, d, d)


class Function:
    """A function in place of a module: it holds no tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.forward = function

    def __call__(self, **given: Any) -> Any:
        return self.forward(**given)

    def parameters(self) -> Iterator[Any]:
        """None."""
        return iter(())

    buffers = parameters


def turns_vectors(function: Callable[..., Any]) -> bool:
    """Whether a function asks for queries or keys, beside nothing but what is known here."""
    try:
        needed = set(names_to_give(Function(function)))
    except ValueError:  # built in C
        return False
    known = QUERY_NAMES | POSITION_NAMES | WAVE_NAMES | SHIFTS
    return bool(needed & QUERY_NAMES) and needed <= known


def names_to_give(module: Any) -> list[str]:
    """Names of what forward must be given."""
    return [p.name for p in inspect.signature(module.forward).parameters.values() if is_needed(p)]


def example_of(torch: Any, module: Any) -> Any:
    """A tensor of a module's own type and place."""
    held = [*module.parameters(), *module.buffers()]
    return next((x for x in held if x.is_floating_point()), torch.zeros(()))


def as_rotation(asked: TableAsked, torch: Any, module: Any) -> tuple[Any, list[Finding]] | None:
    """Codes of code that turns pairs of columns of what it is given, with their resolution."""
    found = find_order(asked, torch, module)
    if found is None:
        return None
    order, pairs, start, operators = found
    mixed = layouts_mixed(operators)
    waves = WAVE_NAMES.intersection(names_to_give(module))
    if mixed and waves:  # which are laid out here
        return None
    vector = np.zeros((1, asked.length, asked.d))
    vector[..., pairs] = 1
    answer = images(torch, module, order, vector)
    if answer is None:
        return None
    codes, _, eps = answer
    axes = ", ".join(AXES[axis] for axis in order)
    notes = [finding("turns-its-input", axes=axes)]
    notes += [finding("waves-given", base=BASE)] if waves else []
    notes += [finding("not-a-rotation", "code", turned=mixed[0], laid=mixed[1])] if mixed else []
    return (np.linalg.solve(start, codes[0].T).T, eps), notes


def find_order(
    asked: TableAsked, torch: Any, module: Any
) -> tuple[str, np.ndarray, np.ndarray, np.ndarray] | None:
    """The order of axes in which code turns pairs, their first columns, and what it does at 0.

    Last, what it does at the first positions (n, d, d).

    Some put what they turn into another order of columns at every position: that is undone.
    """
    d = asked.d
    probed = min(PROBED, asked.length, 2**26 // d**2)
    if probed < 2:
        return None
    units = np.broadcast_to(np.eye(d)[:, None], (d, probed, d))
    for order in ORDERS:
        found = images(torch, module, order, units)
        if found is None:
            continue
        operators = np.moveaxis(found[0], 0, 2)  # (probed, d, d), images are columns
        pairs = find_pairs(np.swapaxes(operators, 1, 2))
        if pairs is not None:
            return order, pairs, np.eye(d), operators
        size = np.abs(operators[0]).max()
        start = operators[0] / size if np.isfinite(operators).all() and size else np.zeros((d, d))
        if np.abs(start.T @ start - np.eye(d)).max() < NEARLY:
            pairs = find_pairs(np.swapaxes(np.linalg.solve(start[None], operators), 1, 2))
            if pairs is not None:
                return order, pairs, start, operators
    return None


def images(
    torch: Any, module: Any, order: str, x: np.ndarray, places: np.ndarray | None = None
) -> Images | None:
    """What code makes of vectors (batch, n, d), its axes in an order; None: nothing of that shape.

    `places` are the positions of the rows, for code that takes them; else 0 … n - 1.
    """
    heads = order.find("h")
    axes = ["bsd".index(axis) for axis in order.replace("h", "")]
    like = example_of(torch, module)
    given = torch.as_tensor(np.transpose(x, axes).copy(), dtype=like.dtype, device=like.device)
    given = given if heads < 0 else given.unsqueeze(heads)
    places = np.arange(x.shape[1]) if places is None else places
    for way in ways_to_turn(torch, module, given, x.shape, places):
        try:
            with torch.no_grad():
                answer = module(**way)
        except FAULTS:
            continue
        several = list(answer) if isinstance(answer, tuple | list) else [answer]
        same = [x for x in several if isinstance(x, torch.Tensor) and x.shape == given.shape]
        if several and same and same[0] is several[0]:
            parts = [numbers(part if heads < 0 else part.squeeze(heads)) for part in same[:2]]
            back = np.argsort(axes)
            query, key = (np.transpose(part, back) for part, _ in (parts[0], parts[-1]))
            return query, key, parts[0][1]
    return None


def ways_to_turn(
    torch: Any, module: Any, given: Any, shape: tuple[int, ...], places: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Ways to call code that turns: vectors for what has no name that is known."""
    names = names_to_give(module)
    at = torch.as_tensor(np.ascontiguousarray(places), device=given.device)
    known = dict.fromkeys(LENGTH_NAMES, shape[1]) | dict.fromkeys(SHIFTS, 0)
    forms = [at.expand(shape[0], len(at)), at] if takes_places(names) else [at]
    for form in forms:
        own = known | dict.fromkeys(place_names(names), form)
        takes_waves = WAVE_NAMES.intersection(names)
        for waves in waves_in_forms(torch, places, shape[2], given) if takes_waves else [{}]:
            yield {name: (own | waves).get(name, given) for name in names}


def takes_places(names: list[str]) -> bool:
    """Whether code is told the positions of what it turns, by their numbers or by their waves."""
    return bool((place_names(names) | WAVE_NAMES).intersection(names))


def place_names(names: list[str]) -> frozenset[str]:
    """Names of positions in code that turns: what alone is called t is a tensor."""
    return POSITION_NAMES | (TIME_NAMES if set(names) - TIME_NAMES else frozenset())


def waves_in_forms(torch: Any, places: np.ndarray, d: int, like: Any) -> Iterator[dict[str, Any]]:
    """Cosines and sines of rope in the forms that public code takes them."""
    angles = np.multiply.outer(places.astype(float), BASE ** -(np.arange(0, d, 2) / d))
    angle = torch.as_tensor(angles, device=like.device)
    turns = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
    for width in (torch.cat([angle, angle], -1), angle.repeat_interleave(2, -1), angle):
        cos, sin = width.cos().to(like.dtype), width.sin().to(like.dtype)
        for lead in (lambda x: x[None], lambda x: x, lambda x: x[None, None], lambda x: x[:, None]):
            yield {"cos": lead(cos), "sin": lead(sin), "freqs_cis": lead(turns)}


def find_pairs(operators: np.ndarray) -> np.ndarray | None:
    """First columns of the pairs that operators (n, d, d) turn; None where they are no rotation.

    Each may be multiplied with a factor that is the same at all positions, as YaRN has it.
    """
    d = operators.shape[1]
    products = operators @ operators.swapaxes(1, 2)
    lengths = np.diagonal(products[0])
    turned = (np.abs(products - np.diag(lengths)) < NEARLY * lengths.max()).all()
    if not (turned and lengths.all()) and not layouts_mixed(operators):
        return None
    beside = np.abs(operators * (1 - np.eye(d))).max(axis=0)
    partner, turns = beside.argmax(axis=1), beside.max(axis=1) > 0
    mutual = (partner[partner] == np.arange(d)) | ~turns
    firsts = np.flatnonzero(turns & (np.arange(d) < partner))
    moves = (operators != operators[0]).any()
    return firsts if moves and mutual.all() and len(firsts) else None


def layouts_mixed(operators: np.ndarray) -> tuple[str, str] | None:
    """The pairs that operators (n, d, d) turn, and those their cosines suit, if these are others.

    A number is turned by one angle, its partner by another: both are a cosine and a sine.
    """
    d = operators.shape[1]
    each, cosines = np.arange(d), np.diagonal(operators, axis1=1, axis2=2)
    pairings = {"neighbours": each ^ 1, "halves": (each + d // 2) % d} if d % 2 == 0 else {}
    sizes = [(operators**2).sum(axis=axis) for axis in (1, 2)]
    if not any((np.abs(one - one[0]) < NEARLY * one[0].max()).all() for one in sizes):
        return None
    beside = (operators * (1 - np.eye(d)) != 0).any(axis=0)
    turned = [name for name, p in pairings.items() if (beside == (each == p[:, None])).all()]
    laid = [name for name, p in pairings.items() if np.abs(cosines - cosines[:, p]).max() < NEARLY]
    return (turned[0], laid[0]) if len(turned) == len(laid) == 1 and turned != laid else None


def probe(asked: TableAsked, torch: Any, module: Any, positions: np.ndarray) -> Operators:
    """R(p) of queries and of keys at some positions, each (n, d, d).

    Raises
    ------
    PefourierError
        Where the images of vectors are not those of a linear map for each position.
    """
    spec, d, found = asked.spec, asked.d, find_order(asked, torch, module)
    if found is None:
        raise no_operator(spec, "unit vectors at the first positions do not stay orthogonal")
    order = found[0]
    near = np.arange(min(PROBED, asked.length))
    units = np.broadcast_to(np.eye(d)[:, None], (d, len(near), d))
    starts = [
        np.moveaxis(image, 0, 2) for image in images_at(spec, torch, module, order, units, near)[:2]
    ]
    pairs = [ends_turned(spec, np.linalg.solve(some[:1], some)) for some in starts]
    random = np.random.default_rng(0).standard_normal(d)
    given = [vector for own in pairs for vector in ends_of_pairs(own, d)]  # of queries, of keys
    vectors = np.broadcast_to(np.stack([*given, random])[:, None], (5, len(positions), d))
    seen = images_at(spec, torch, module, order, vectors, positions)
    alone = images_at(spec, torch, module, order, 3 * vectors[4:], positions)
    answers = []
    for k, (start, image, thrice) in enumerate(zip(starts, seen[:2], alone[:2], strict=True)):
        firsts, seconds = pairs[k]
        turned = np.linalg.solve(start[0], np.moveaxis(image, 0, 2))  # (n, d, 5)
        one, two = turned[..., 2 * k], turned[..., 2 * k + 1]
        matrices = np.zeros((len(positions), d, d))
        kept = np.setdiff1d(np.arange(d), seconds)
        matrices[:, kept, kept] = one[:, kept]
        matrices[:, seconds, firsts] = one[:, seconds]
        matrices[:, firsts, seconds] = two[:, firsts]
        matrices[:, seconds, seconds] = two[:, seconds]
        missed = np.abs(matrices @ random - turned[..., 4]).max(axis=1)
        missed = np.maximum(missed, np.abs(image[4] - thrice[0] / 3).max(axis=1))
        if (missed > 16 * seen[2] * np.abs(random).max()).any():
            at = int(positions[missed.argmax()])
            raise no_operator(
                spec,
                f"a random vector at position {at}, in a batch with others, does not have the "
                "image that its parts have: it is not linear, or mixes members of a batch",
            )
        answers.append(start[0] @ matrices)
    return answers[0], answers[1]


def ends_turned(spec: str, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second columns of the pairs that matrices (n, d, d) turn; none where none moves."""
    still = (blocks == blocks[0]).all()
    firsts = np.arange(0) if still else find_pairs(blocks)
    if firsts is None:
        raise no_operator(spec, "keys are not turned in pairs, as queries are")
    beside = np.abs(blocks * (1 - np.eye(blocks.shape[1]))).max(axis=0)
    return firsts, beside.argmax(axis=0)[firsts]


def ends_of_pairs(pairs: tuple[np.ndarray, np.ndarray], d: int) -> tuple[np.ndarray, np.ndarray]:
    """A vector that is 1 at the first columns of pairs and at those alone, one at the second."""
    one, two = np.ones(d), np.zeros(d)
    one[pairs[1]], two[pairs[1]] = 0, 1
    return one, two


def images_at(
    spec: str, torch: Any, module: Any, order: str, x: np.ndarray, positions: np.ndarray
) -> Images:
    """Images of vectors (batch, n, d) that stand at some positions."""
    if takes_places(names_to_give(module)):
        found = images(torch, module, order, x, positions)
    else:
        whole = np.zeros((len(x), int(positions.max()) + 1, x.shape[2]), np.float32)
        whole[:, positions] = x
        found = images(torch, module, order, whole)
        found = found and (found[0][:, positions], found[1][:, positions], found[2])
    if found is None:
        raise no_operator(spec, f"it gives nothing of the shape {x.shape} that it is given")
    if not (np.isfinite(found[0]).all() and np.isfinite(found[1]).all()):
        raise no_operator(spec, "it gives numbers that are not finite")
    return found


def no_operator(spec: str, tried: str) -> PefourierError:
    """Why user code has no R(p)."""
    return PefourierError(f"{shown(spec)} is no rotation of its input: {tried}")
