"""Read encodings from user code: ``py:module:name``, or a Python object.

Only this reader runs user code. A function is called with (length, d). An ``nn.Module`` runs in
evaluation mode on zeros (batch, length, d); a class is built with the sizes that it names, and its
object is called with the others. Code
with parameters (q, k), or x and positions, is a rotation. Other code is refused with a wrapper to
paste and complete.

Conventions
-----------
R(p) is a matrix (d, d): column j is the image of unit vector j at position p. Queries and keys have
separate matrices. Unit vectors at the first positions show the pairs of columns. Elsewhere R(p) is
built from the images of two vectors, and tested with a random vector: the test detects functions
that are not linear or that mix the members of a batch. A rotation preserves norms,
:math:`R^T R = c`. Scores depend only on the lag if :math:`R_q(p)^T R_k(p)` is constant.
User code is called with (q, k) of shape (batch, heads, n, d), or x (batch, n, d) and positions: as
tensors if torch is loaded, and as arrays if it is not, or if the code fails for tensors.
"""

import importlib
import inspect
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    Findings,
    Operator,
    finding,
    from_bias,
    from_table,
    is_bias,
    numbers,
    row_blocks,
)
from pefourier.errors import LONGEST, PefourierError, check_size, shown
from pefourier.types import Array, Counts, frozen
from pefourier.writing.files import read_toml

NAMES: dict[str, str] = read_toml(Path(__file__).with_name("code_names.toml"))
ROLE = {name: role for role, names in NAMES.items() for name in names.split()}
PLACES, VECTORS = {"ids", "positions"}, {"queries", "keys", "vectors"}  # roles
SEQUENCE_FIRST = re.compile(
    r"\b((?i:seq|len|time)\w*( len\w*)?|[STL]), *((?i:batch)\w*|bs\w*|[BN])\b"
)
BATCH_FIRST = re.compile(r"\b((?i:batch)\w*|bs\w*|[BN]), *((?i:seq|len|time)\w*|[STLN])\b")


class Unfit(PefourierError):
    """The error for code that fits no convention."""


@frozen
class CodeRequest:
    """A request for a table from user code; errors name the code by its SPEC."""

    spec: str
    length: int
    d: int
    on_grid: bool = False  # whether only sequences of this length are valid
    seed: int | None = None

    def unfit(self, why: str) -> Unfit:
        """Return the error for code that fits no convention, with the conventions that exist."""
        kinds = "(length, d), a module of zeros (batch, length, d), or a rotation of (q, k)"
        return Unfit(f"{shown(self.spec)} {why}; write a function of {kinds}")


@frozen
class CodeTable:
    """Vectors (n, d) from user code, or an intermediate array."""

    vectors: Array
    eps: float  # resolution of its type
    findings: Findings = ()
    operator: Operator | None = None  # of rotation code


def is_needed(p: inspect.Parameter) -> bool:
    """Return whether a call must pass the parameter."""
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def needed_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that a call must pass."""
    return [p.name for p in inspect.signature(function).parameters.values() if is_needed(p)]


def roles_of(names: list[str]) -> set[str]:
    """Return the roles of some names, "" for names without a role.

    >>> sorted(roles_of(["q", "cos"]))
    ['', 'queries']
    """
    return {ROLE.get(name, "") for name in names}


def call_with_sizes(
    request: CodeRequest, function: Callable[..., Any], seed: int | None = None
) -> Any:
    """Call a function with (length, d), or a class with the sizes that it names.

    `seed` is of the random numbers, by default that of the request.

    Vectors may depend on the longest length: a class keeps its default length if it is sufficient.
    """
    is_class, values, unnamed = inspect.isclass(function), {}, []
    sizes = {"length": request.length, "d": request.d, "dropout": 0.0}
    for p in inspect.signature(function).parameters.values():
        role = ROLE.get(p.name)
        is_enough = is_class and type(p.default) is int and p.default >= request.length
        if role in sizes and not (role == "length" and is_enough):
            values[p.name] = sizes[role]
        elif is_needed(p):
            unnamed.append(p.name)
    free = [] if is_class else [k for k in ("length", "d") if k not in roles_of([*values])]
    misfits = [name for name in unnamed if name in ROLE] or unnamed[len(free) :]
    if misfits:
        raise request.unfit(f"needs {', '.join(unnamed)}, expected length and d")
    values |= {name: sizes[role] for name, role in zip(unnamed, free, strict=False)}
    with sandboxed(request.seed if seed is None else seed):  # restores what a call changes
        return function(**values)


def first_axis(code: Any) -> str:
    """Return the first axis of a module's input: by a switch, its source code or its tables.

    A table (n, 1, d) is for input (length, batch, d), a table (1, n, d) for (batch, length, d).
    """
    switch, source = getattr(code, "batch_first", None), ""
    with suppress(OSError, TypeError):
        source = inspect.getsource(type(code))
    is_batch = bool(BATCH_FIRST.search(source)) if switch is None else switch
    if switch is not None or is_batch != bool(SEQUENCE_FIRST.search(source)):
        return "batch" if is_batch else "declared sequence"
    shapes = [tuple(t.shape) for t in (*code.parameters(), *code.buffers()) if t.ndim == 3]
    return "batch" if any(first == 1 < n for first, n, _ in shapes) else "sequence"


@contextmanager
def sandboxed(seed: int | None = None) -> Iterator[None]:
    """Run user code with its prints sent to stderr, both from `sys.stdout` and descriptor 1.

    The working directory, stdout and random number generators are restored afterwards. The
    sandbox does not contain: `os._exit` and compiled code that ends the process, exec, processes
    and threads that keep running, `atexit` handlers, and replaced objects of other modules.
    """
    with chdir("."), redirect_stdout(sys.stderr), seeded(seed), ExitStack() as stack:
        if sys.__stdout__ is not None:
            with suppress(OSError):  # the disk is full
                sys.__stdout__.flush()
                descriptor = os.dup(1)
                stack.callback(os.close, descriptor)
                stack.callback(os.dup2, descriptor, 1)
                os.dup2(2, 1)
        yield


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed random numbers for reproducible initial vectors, and restore the generators after."""
    seed = (seed or 0) % 2**32
    torch = sys.modules.get("torch")
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (of user code)
    with torch.random.fork_rng(devices=[]) if torch else nullcontext():
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if torch:
            torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
            np.random.set_state(numpy_state)  # noqa: NPY002


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Run a module in evaluation mode, and restore the mode of each part afterwards."""
    is_module = hasattr(module, "modules") and not isinstance(module, type)
    training = {part: part.training for part in (module.modules() if is_module else ())}
    if is_module:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = training[part]


@contextmanager
def as_user_error(doing: str) -> Iterator[None]:
    """Report any exception from user code as a one-line error."""
    try:
        yield
    except (PefourierError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PefourierError(f"{doing} raised {words_of(error)}; --debug shows where") from error


def words_of(error: BaseException) -> str:
    """Return the type of an exception and its text, if the text can be shown."""
    text = ""
    with suppress(ValueError, TypeError, AttributeError):  # __str__ may fail
        text = shown(str(error), 2 * LONGEST)
    return f"{type(error).__name__}: {text or 'that cannot be shown'}"


# PefourierError is a ValueError, too
FAULTS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError)
PROBED = 8  # positions that are probed with unit vectors
FARTHEST = 4096  # last row at which queries and keys are compared
NEARLY = 0.02  # relative tolerance; bfloat16 has eight bits
ROUNDING = 16  # resolutions by which images of equal vectors may differ
LARGEST = 2**26  # numbers in a probe
SPREAD = 2**23  # numbers up to which probes cover the whole length
Images = tuple[Array, Array, float]  # of queries and of keys, with their resolution


@frozen
class VectorMap(CodeRequest):
    """User code that maps vectors by their positions."""

    _: KW_ONLY
    code: Any  # a function or a module
    names: list[str]  # required parameters
    torch: Any = None  # the module; None for code that takes arrays
    example: Any = None  # a tensor with the expected type and device

    @property
    def is_rotation(self) -> bool:
        """Return whether the parameters suit a rotation: vectors, optionally with positions."""
        roles = roles_of(self.names)
        return bool(roles & VECTORS) and roles <= VECTORS | PLACES

    @property
    def axes(self) -> str:
        """Return the axes of the vectors that the code expects."""
        heads = "head, " if roles_of(self.names) & {"queries", "keys"} else ""
        return f"batch, {heads}sequence, dimension"

    def images(self, x: Array, positions: Array) -> Images:
        """Return the images of vectors (batch, n, d) at some positions.

        Code without a parameter for positions gets a sequence up to the last position, or of the
        whole length if it refuses the shorter one. On a grid it always gets all points.
        """
        if roles_of(self.names) & PLACES:
            return self.apply(x, positions, slice(None))
        batch, _, d = x.shape
        whole, reached = self.length, int(positions.max()) + 1
        counts = [whole] if self.on_grid else [reached]
        counts += [whole] if reached < whole <= LARGEST // (batch * d) else []
        for count in counts:
            parts = []
            try:
                for rows in row_blocks(batch, LARGEST, count * d):
                    sequence = np.zeros((len(x[rows]), count, d))
                    sequence[:, positions] = x[rows]
                    parts.append(self.apply(sequence, positions, positions))
                query, key, eps = zip(*parts, strict=True)
                return np.concatenate(query), np.concatenate(key), eps[0]
            except Unfit as error:
                refusal = error
        raise refusal

    def apply(self, x: Array, positions: Array, rows: Any) -> Images:
        """Call the code on vectors, and return the images in some rows."""
        vectors: Any = np.array(x[:, None] if "head" in self.axes and x.ndim == 3 else x)
        ids: Any = positions
        if self.torch:
            device, dtype = self.example.device, self.example.dtype
            vectors = self.torch.as_tensor(vectors, dtype=dtype, device=device)
            ids = self.torch.as_tensor(positions, device=device)
        shape, places = tuple(vectors.shape), {"ids": ids[None], "positions": ids}
        try:
            with self.torch.no_grad() if self.torch else nullcontext(), catch_warnings():
                simplefilter("ignore", DeprecationWarning)  # of numpy, for tensors among arrays
                answer = self.code(**{n: places.get(ROLE[n], vectors) for n in self.names})
        except FAULTS as error:
            raise self.unfit(f"raised {words_of(error)} for vectors {shape}") from error
        answers = [*answer][:2] if isinstance(answer, tuple | list) else [answer]
        if any(tuple(getattr(image, "shape", ())) != shape for image in answers) or not answers:
            raise self.unfit(f"must return the shape of its vectors, {shape}")
        images = [numbers(image) for image in answers]
        sides = [(x[:, -1] if x.ndim == 4 else x)[:, rows] for x, _ in images]
        if not all(np.isfinite(side).all() for side in sides):
            raise self.unfit("returns numbers that are not finite")
        return sides[0], sides[-1], max(images[0][1], numbers(vectors[:0])[1])


@frozen
class PairRotation:
    """The pairs of columns that an operator rotates, and the kind of the operator."""

    kind: str  # rotation, still, layouts-mixed, lost-minus or other
    start: Array  # (d, d), an order of columns that is common to all positions
    firsts: Array
    seconds: Array


def vectors_of_rotation(code: VectorMap) -> CodeTable:
    """Return the vectors and the operator of rotation code.

    The vectors are the paired columns in the image of a vector with 1 at the first of each pair. If
    nothing rotates, they are the image of ones, which is equal at all positions.
    """
    d, length = code.d, code.length
    probed = min(PROBED, length, LARGEST // d**2)
    if probed < 2:
        raise code.unfit("rotates vectors, which shows only with two or more positions")
    sample = np.arange(probed)
    if code.on_grid or d**2 * length <= SPREAD:  # pairs of another axis may move only farther on
        sample = np.union1d(sample, np.linspace(0, length - 1, PROBED).astype(int))
    units = np.broadcast_to(np.eye(d)[:, None], (d, len(sample), d))
    (*images, eps), (*again, _) = (code.images(units, sample) for _ in range(2))
    if (worst := np.abs(np.subtract(images, again)).max()) > 0:
        raise code.unfit(f"is not deterministic: two calls differ by up to {worst:.3g}")
    rotations = [read_rotation(np.moveaxis(image, 0, 2)) for image in images]
    kinds = [rotation.kind for rotation in rotations]
    if kinds == ["still", "still"] and "head" in code.axes:
        one, two = (code.apply(np.ones((1, n, 1, d)), sample[:1], slice(None))[0] for n in (1, 2))
        if not np.array_equal(one, two):
            raise code.unfit(f"rotates along the axis of heads; expected axes ({code.axes})")
    if "other" in kinds:
        side = "queries" if kinds[0] == "other" else "keys"
        raise code.unfit(
            f"changes {side} with the position, but does not rotate pairs of columns: unit vectors "
            "do not stay orthogonal"
        )
    eps = max(eps, noise_of(code, sample, eps))
    moving = int(kinds[0] == "still" and kinds[1] != "still")
    rotation = rotations[moving]
    columns = np.sort([rotation.firsts, rotation.seconds], axis=None)
    vector = np.zeros((1, length, d))
    vector[..., rotation.firsts if len(columns) else slice(None)] = 1
    vectors = code.images(vector, np.arange(length))[:2][moving][0]
    if len(columns):
        vectors = np.linalg.solve(rotation.start, vectors.T).T[:, columns]

    def operator(positions: Array) -> tuple[Array, Array]:
        return probe(code, rotations, positions, eps)

    notes = [finding("turns-its-input", axes=code.axes)]
    if "lost-minus" in kinds:
        notes.append(finding("lost-minus"))
    if "layouts-mixed" in kinds:
        mixed = rotations[kinds.index("layouts-mixed")]
        layouts = ["halves", "neighbours"]
        if mixed.seconds[0] == mixed.firsts[0] + 1:
            layouts.reverse()
        notes.append(finding("not-a-rotation", "code", turned=layouts[0], laid=layouts[1]))
    return CodeTable(vectors, eps, (*notes, *compare_keys(code, kinds, operator)), operator)


def noise_of(code: VectorMap, positions: Array, eps: float) -> float:
    """Return the rounding of the code relative to its vectors; refuse code that is not linear.

    A factor of 2 is exact in every type of numbers, and a factor of 3 shows the type.
    """
    x = np.random.default_rng(0).standard_normal((1, 1, code.d))
    vectors = np.repeat(x, len(positions), 1)
    one, two, three = (np.array(code.images(k * vectors, positions)[:2]) for k in (1, 2, 3))
    doubled, tripled = (float(np.abs(y - one).max()) for y in (two / 2, three / 3))
    largest = float(np.abs(x).max())
    if doubled > ROUNDING * eps * largest or tripled > NEARLY * largest:
        raise code.unfit("maps twice a vector to other than twice its image: it is not linear")
    return tripled / largest


def compare_keys(code: VectorMap, kinds: list[str], operator: Operator) -> list[Finding]:
    """Return findings if queries and keys rotate differently: scores may depend on the position."""
    far = np.geomspace(1, min(code.length, FARTHEST) - 1, PROBED)
    query, key = operator(np.unique([*range(min(PROBED, code.length)), *far.astype(int)]))
    norms = np.sum(query**2, axis=1)
    if kinds == ["rotation"] * 2 and np.abs(norms - norms[0]).max() > NEARLY * norms.max():
        raise code.unfit("changes norms with the position, which a rotation preserves")
    if np.array_equal(query, key):
        return []
    relative = query.swapaxes(1, 2) @ key
    tolerance = NEARLY * np.abs(relative).max()
    drift = np.abs(relative - relative[0]).max()
    shift = np.abs(relative[0] - np.eye(len(relative[0])) * np.diag(relative[0]).mean()).max()
    if drift > tolerance:
        return [finding("queries-keys-differ", "differ")]
    return [finding("queries-keys-differ", "shifted")] if shift > tolerance else []


def read_rotation(operators: Array) -> PairRotation:
    """Find the pairs that operators (n, d, d) rotate.

    A pair may have a factor that is equal at all positions, as in YaRN. Some operators also reorder
    the columns in the same way at every position; `start` holds that order.
    """
    identity, none = np.eye(operators.shape[1]), np.arange(0)
    if operators.any() and (operators == operators[0]).all():
        return PairRotation("still", operators[0], none, none)
    leading = operators[0] / (np.abs(operators[0]).max() or 1)
    is_order = np.abs(leading.T @ leading - identity).max() < NEARLY
    for start in [identity, leading] if is_order else [identity]:
        blocks = np.linalg.solve(start[None], operators)
        pairs = find_pairs(blocks)
        kind = kind_of(blocks, *pairs) if pairs else "other"
        if pairs and kind != "other":
            return PairRotation(kind, start, *pairs)
    return PairRotation("other", identity, none, none)


def find_pairs(operators: Array) -> tuple[Array, Array] | None:
    """Return first and second columns of the pairs that operators (n, d, d) couple, or None."""
    d = operators.shape[1]
    coupling = np.abs(operators * (1 - np.eye(d))).max(axis=0)
    coupling = np.maximum(coupling, coupling.T)
    partner, joined = coupling.argmax(axis=1), coupling.max(axis=1) > 0
    strays = coupling.copy()
    strays[np.arange(d), partner] = 0
    tripled = strays.max() <= NEARLY * np.abs(operators).max()
    mutual = ((partner[partner] == np.arange(d)) | ~joined).all()
    firsts = np.flatnonzero(joined & (np.arange(d) < partner))
    return (firsts, partner[firsts]) if tripled and mutual and len(firsts) else None


def kind_of(operators: Array, firsts: Array, seconds: Array) -> str:
    """Classify the blocks [[a, b], [c, e]] of pairs: a rotation has orthogonal columns."""
    a, b = operators[:, firsts, firsts], operators[:, firsts, seconds]
    c, e = operators[:, seconds, firsts], operators[:, seconds, seconds]
    diagonal = np.diagonal(operators, axis1=1, axis2=2)
    unpaired = np.setdiff1d(np.arange(operators.shape[1]), [*firsts, *seconds])
    norms = a[0] ** 2 + c[0] ** 2
    tolerance = NEARLY * norms.max()

    def vanishes(x: Array) -> bool:
        return bool((np.abs(x) < tolerance).all())

    if not norms.all() or not vanishes(diagonal[:, unpaired] - diagonal[0, unpaired]):
        return "other"
    keeps = vanishes(a**2 + c**2 - norms) and vanishes(b**2 + e**2 - norms)
    if keeps and vanishes(a * b + c * e):
        return "rotation"
    if keeps and vanishes(a - e) and vanishes(b - c):
        return "lost-minus"
    return "layouts-mixed" if has_mixed_layouts(operators, firsts, seconds) else "other"


def has_mixed_layouts(operators: Array, firsts: Array, seconds: Array) -> bool:
    """Return whether a number and its partner use different angles, laid out for other pairs."""
    d = operators.shape[1]
    columns, cosines = np.arange(d), np.diagonal(operators, axis1=1, axis2=2)
    pairings = [columns ^ 1, (columns + d // 2) % d]
    if d % 2 or 2 * len(firsts) != d:
        return False
    images_of_pair = [bool((pairing[firsts] == seconds).all()) for pairing in pairings]
    laid = [np.abs(cosines - cosines[:, pairing]).max() < NEARLY for pairing in pairings]
    sizes = [(operators**2).sum(axis=axis) for axis in (1, 2)]
    circles = any((np.abs(x - x[0]) < NEARLY * x[0].max()).all() for x in sizes)
    return circles and sum(images_of_pair) == 1 and laid == images_of_pair[::-1]


def probe(
    code: VectorMap, rotations: list[PairRotation], positions: Array, eps: float
) -> tuple[Array, Array]:
    """Return R(p) of queries and of keys at some positions, each (n, d, d)."""
    d = code.d
    random = np.random.default_rng(0).standard_normal(d)
    ends = [
        np.isin(np.arange(d), t.seconds) == second for t in rotations for second in (False, True)
    ]
    vectors = np.broadcast_to(np.stack([*ends, random])[:, None], (5, len(positions), d))
    (*images, _), (*alone, _) = (code.images(x, positions) for x in (vectors, vectors[4:]))
    answers = []
    for k, rotation in enumerate(rotations):
        ends_of_pairs = np.moveaxis(images[k][2 * k : 2 * k + 2], 0, 2)
        first, second = np.moveaxis(np.linalg.solve(rotation.start, ends_of_pairs), 2, 0)
        near, far = np.arange(d), np.arange(d)
        near[rotation.seconds], far[rotation.firsts] = rotation.firsts, rotation.seconds
        matrices = np.zeros((len(positions), d, d))
        matrices[:, np.arange(d), far] = second
        matrices[:, np.arange(d), near] = first
        answers.append(rotation.start @ matrices)
        residual = np.abs([answers[k] @ random - images[k][4], alone[k][0] - images[k][4]]).max()
        if residual > ROUNDING * eps * np.abs(random).max() * max(1.0, np.abs(answers[k]).max()):
            raise code.unfit(
                "maps a random vector in a batch differently from its components: it is not "
                "linear, or it mixes the members of a batch"
            )
    return answers[0], answers[1]


LENGTH, DIM = 80, 256  # defaults
SAME, MOVED = 1e-6, 1e-3  # relative rounding: in one output, between outputs of moved inputs
MOST = 2**28  # numbers of a table: 2 GiB
ANOTHER_SEED = 20240917  # shows whether parameters are drawn at random


def read_code(
    source: Any,
    length: int | None = None,
    d: int | None = None,
    seed: int | None = None,
    min_length: int = LENGTH,
    *,
    on_grid: bool = False,
) -> Encoding:
    """Return the encoding of ``py:module:name``, or of a module, a class or a function."""
    in_shell = isinstance(source, str)
    is_named = inspect.isroutine(source) or inspect.isclass(source)
    spec = source if in_shell else (source if is_named else type(source)).__qualname__
    with sandboxed(seed), as_user_error(shown(spec)):
        code = import_object(source) if in_shell else source
        rows, columns = stored_sizes(code)
        d = d or columns or DIM
        usual = rows if hasattr(code, "num_embeddings") else max(LENGTH, min_length)
        length = length or min(rows or sys.maxsize, usual)  # use all rows of an embedding
        request = CodeRequest(spec, length, d, on_grid, seed)
        doing = f"{shown(spec)}, called for length {length}, d {d},"
        try:
            # the import of the code may have loaded torch
            with as_user_error(doing), seeded(seed), evaluating(code):
                table = tabulate(request, code)
        except Unfit as error:
            if in_shell:
                error.add_note(wrapper_of(spec, code))
            raise
    width = table.vectors.shape[1]
    params = {"length": length, "d": d, "object": spec.removeprefix("py:")}
    if table.operator and width < d:
        params["rotated"] = width
    if seed is not None:
        params["seed"] = seed
    from_array = from_bias if is_bias(table.vectors.shape) else from_table
    facts = {"eps": table.eps, "findings": table.findings, "params": params, "spec": spec}
    untrained = "untrained" in {f.code for f in table.findings}
    enc, operator = from_array(table.vectors, spec, untrained=untrained, **facts), table.operator
    if operator is None:
        return enc

    def operator_at(positions: Array) -> tuple[Array, Array]:
        doing = f"{shown(spec)}, rotating vectors of {d} dimensions,"
        with sandboxed(seed), as_user_error(doing), evaluating(code):
            return operator(positions)

    return replace(enc, operator=operator_at)


def import_object(spec: str) -> Any:
    """Import the object of ``py:module:name`` from the working directory."""
    module_name, _, name = spec.removeprefix("py:").partition(":")
    if not module_name or not name:
        raise PefourierError(f"{shown(spec)} does not name an object; write py:module:function")
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    with as_user_error(f"cannot import {shown(module_name)} from the working directory: it"):
        code = importlib.import_module(module_name)
    for part in name.split("."):
        if not hasattr(code, part):
            public = ", ".join(key for key in vars(code) if not key.startswith("_"))
            raise PefourierError(f"module {module_name} has no {shown(part)}; it has: {public}")
        code = getattr(code, part)
    if not callable(code):
        raise PefourierError(f"{shown(spec)} is not callable; write it to a .npy file")
    return code


def stored_sizes(code: Any) -> tuple[int, int]:
    """Return rows of a module's tables, and columns by an attribute or its tables; 0 if unknown."""
    if isinstance(code, type) or not hasattr(code, "__dict__"):
        return 0, 0
    is_module = hasattr(code, "named_buffers")
    tensors = (*code.parameters(), *code.buffers()) if is_module else ()
    tables = [t.shape for t in tensors if t.ndim > 1]
    widths = [x for key, x in vars(code).items() if ROLE.get(key) == "d" and type(x) is int]
    widths += [shape[-1] for shape in sorted(tables, key=lambda shape: -shape.numel())]
    columns = next((x for x in widths if x > 0), 0)
    rows = [s[0] if s[-2] == 1 else s[-2] for s in tables if s[-1] == columns]
    return max(rows, default=0), columns


def wrapper_of(spec: str, code: Any) -> str:
    """Return the lines of a wrapper, in which users complete the arguments.

    >>> print(wrapper_of("py:model:table", lambda tokens, d: None))
    from model import table
    def codes(length, d):
        return table(tokens=..., d=...)  # an array of shape (length, d)
    """
    module, _, name = spec.removeprefix("py:").partition(":")
    is_module, body = hasattr(code, "forward"), name

    def call(function: Callable[..., Any]) -> str:
        return f"({', '.join(f'{key}=...' for key in needed_names(function) if key != 'self')})"

    if inspect.isclass(code) or not is_module:
        body += call(code)
    if is_module:
        body += ".eval()" + call(code.forward)
    root = name.partition(".")[0]
    return (
        f"from {module} import {root}\ndef codes(length, d):\n"
        f"    return {body}  # an array of shape (length, d)"
    )


def as_table(answer: Any) -> CodeTable:
    """Convert the result of user code to numbers; refuse results that are too large."""
    check_size("the answer", *getattr(answer, "shape", ()), limit=MOST)
    return CodeTable(*numbers(answer))


def tabulate(request: CodeRequest, code: Any) -> CodeTable:
    """Tabulate a function, a module or its class by the convention for its kind."""
    torch: Any = sys.modules.get("torch")  # already imported if the user code needs it
    module = torch.nn.Module if torch else ()
    if isinstance(code, module):
        return table_of_module(request, torch, code)
    arrays = VectorMap(**vars(request), code=code, names=needed_names(code))
    if arrays.is_rotation and not inspect.isclass(code):
        tensors = {"torch": torch, "example": torch.zeros(())} if torch else {}
        try:
            return vectors_of_rotation(replace(arrays, **tensors))
        except Unfit as error:
            with suppress(Unfit):  # code that fails for tensors may take arrays
                return vectors_of_rotation(arrays)
            raise error from None
    answer = call_with_sizes(request, code)
    if isinstance(answer, module):
        table = table_of_module(request, torch, answer.eval())
        if inspect.isclass(code) and any(p.requires_grad for p in answer.parameters()):
            other = call_with_sizes(request, code, ANOTHER_SEED)
            again = table_of_module(request, torch, other.eval())
            if not np.array_equal(table.vectors, again.vectors):
                return replace(table, findings=(finding("untrained", "code"), *table.findings))
        return table
    other = call_with_sizes(request, code, ANOTHER_SEED if request.seed is None else None)
    if inspect.isclass(code) and callable(answer):  # its objects are called
        return compare_calls(tabulate(request, answer), tabulate(request, other))
    table, again = (in_two_axes(request, as_table(called)) for called in (answer, other))
    return compare_calls(table, again)


def table_of_module(request: CodeRequest, torch: Any, module: Any) -> CodeTable:
    """Tabulate a module by its weight, its output for zeros, or its rotation of vectors."""
    if type(module).forward is torch.nn.Embedding.forward:
        return as_table(module.weight[: request.length])
    names = needed_names(module.forward)
    floats = [x for x in (*module.parameters(), *module.buffers()) if x.is_floating_point()]
    example = next(iter(floats), torch.zeros(()))
    code = VectorMap(**vars(request), code=module, names=names, torch=torch, example=example)
    is_adding = len(names) == 1 and ROLE.get(names[0], "vectors") in ("vectors", "d")
    if is_adding:
        table = on_zeros(code)
        if np.ptp(table.vectors, axis=0).max() > SAME * np.abs(table.vectors).max():
            return table
        if not table.vectors.any():
            with suppress(Unfit):
                return vectors_of_rotation(replace(code, names=["x"]))
        check_blind_to_order(code)
        return table
    if code.is_rotation:
        return vectors_of_rotation(code)
    raise request.unfit(f"takes {', '.join(names) or 'no input'}")


def check_blind_to_order(code: VectorMap) -> None:
    """Refuse a module, such as attention, with equal rows for zeros but not for random inputs."""
    shape = 2, code.length, code.d
    x = code.torch.randn(shape).to(code.example)
    with code.torch.no_grad():
        rolled, moved = (numbers(y)[0] for y in (code.code(x).roll(1, 1), code.code(x.roll(1, 1))))
    if not np.allclose(rolled, moved, atol=MOVED * np.abs(moved).max()):
        why = "returns one vector for all positions of a constant input, but not of a random input"
        raise code.unfit(f"{why}: it depends on positions without adding vectors of positions")


def compare_calls(table: CodeTable, again: CodeTable) -> CodeTable:
    """Return a table, with a finding if another call returned other numbers."""
    if np.array_equal(table.vectors, again.vectors):
        return table
    worst = np.abs(table.vectors - again.vectors).max()
    return replace(table, findings=(*table.findings, finding("changes-between-calls", worst=worst)))


def on_zeros(code: VectorMap) -> CodeTable:
    """Tabulate a module on zeros (batch, n, d), and find the axis of positions.

    If the output varies only along the batch axis, the module is called with (n, batch, d).
    """
    length, d = code.length, code.d
    batch = 3 if length == 2 else 2
    table, axes = call_twice(code, (batch, length, d))
    axis = 0 if axes == {0} else 1
    if axis == 0:
        table, axes = call_twice(code, (length, batch, d))
    notes, first = [], first_axis(code.code)
    if len(axes) == 2:
        notes = [finding("batch-axis", "differ")]
    elif axes and axis == 0:
        notes = [finding("batch-axis", "first") if first == "batch" else finding("sequence-first")]
    elif axes and first == "declared sequence":
        notes = [finding("batch-axis", "second")]
    rows = np.moveaxis(table.vectors, 1 - axis, 0)[0]
    return in_two_axes(code, replace(table, vectors=rows, findings=(*notes, *table.findings)))


def call_twice(code: VectorMap, shape: Counts) -> tuple[CodeTable, set[int]]:
    """Return the output of a module for zeros (n, m, d), and which of axes 0 and 1 it varies along.

    The set of axes is empty if two calls differ.
    """
    zeros = code.torch.zeros(shape, dtype=code.example.dtype, device=code.example.device)
    try:
        with code.torch.no_grad():
            table, again = (as_table(code.code(zeros)) for _ in range(2))
    except FAULTS as error:
        raise code.unfit(f"raised {words_of(error)} for zeros {shape}") from error
    vectors = table.vectors
    if vectors.ndim == 2 and len(vectors) in shape[:2]:
        vectors = np.expand_dims(vectors, 0 if len(vectors) == shape[1] else 1)
    sizes = zip(vectors.shape, shape[:2], strict=False)
    if vectors.ndim != 3 or any(k not in (1, n) for k, n in sizes):
        raise code.unfit(f"returned an array of shape {vectors.shape} for zeros {shape}")
    table = compare_calls(table, again)
    axes = {axis for axis in (0, 1) if not table.findings and np.ptp(vectors, axis=axis).any()}
    return replace(table, vectors=vectors), axes


def in_two_axes(request: CodeRequest, table: CodeTable) -> CodeTable:
    """Drop axes of length 1 from a table, and check that it is (length, d)."""
    vectors, length = table.vectors, request.length
    while vectors.ndim > 2 and 1 in vectors.shape[:-1]:
        vectors = vectors.squeeze(axis=vectors.shape[:-1].index(1))
    if is_bias(vectors.shape) and vectors.shape[-1] == length:
        return replace(table, vectors=vectors)
    if vectors.ndim != 2 or len(vectors) != length:
        shapes = f"{table.vectors.shape}, expected ({length}, {request.d})"
        raise request.unfit(f"returned an array of shape {shapes}")
    return replace(table, vectors=vectors)
