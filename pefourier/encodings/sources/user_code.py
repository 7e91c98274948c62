"""Read encodings from user code: ``py:module:name``, or a Python object.

Only this reader runs user code. A function is called with (length, d). An ``nn.Module`` runs in
evaluation mode on zeros (batch, length, d); a class is built with the sizes that it names. Code
with parameters (q, k), or x and positions, is a rotation. Other code is refused with a wrapper to
paste.
"""

import importlib
import inspect
import sys
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.checks import check_size
from pefourier.encodings.encoding import (
    Encoding,
    Operator,
    from_bias,
    from_table,
    is_bias,
    numbers,
)
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.rotation_code import (
    FAULTS,
    ROLE,
    CodeRequest,
    CodeTable,
    Unfit,
    VectorMap,
    as_user_error,
    axis_findings,
    call_with_sizes,
    evaluating,
    needed_names,
    sandboxed,
    seeded,
    unfit,
    vectors_of_rotation,
    words_of,
    wrappers,
)
from pefourier.errors import PefourierError, shown

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
        with as_user_error(doing), seeded(seed), evaluating(code):  # the import may load torch
            table = tabulate_or_wrap(request, code)
    width = table.vectors.shape[1]
    params = {"length": length, "d": d, "object": spec.removeprefix("py:")}
    params |= {"rotated": width} if table.operator and width < d else {}
    params |= {} if seed is None else {"seed": seed}
    from_array = from_bias if is_bias(table.vectors.shape) else from_table
    enc = replace(
        from_array(table.vectors, spec, eps=table.eps, findings=table.findings),
        params=params,
        spec=spec if in_shell else "",
        untrained="untrained" in {f.code for f in table.findings},
    )
    if table.operator is None:
        return enc
    operator = sandboxed_operator(request, seed, code, table.operator)
    return replace(enc, operator=operator)


def sandboxed_operator(
    request: CodeRequest, seed: int | None, code: Any, operator: Operator
) -> Operator:
    """Return a function that computes R(p) of rotation code on demand."""

    def operator_at(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        doing = f"{shown(request.spec)}, rotating vectors of {request.d} dimensions,"
        with sandboxed(seed), as_user_error(doing), evaluating(code):
            return operator(positions)

    return operator_at


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
    """Return rows and columns of a module's tables; 0 if unknown."""
    if isinstance(code, type) or not hasattr(code, "named_buffers"):
        return 0, 0
    tables = [t.shape for t in (*code.parameters(), *code.buffers()) if t.ndim > 1]
    widths = [x for key, x in vars(code).items() if ROLE.get(key) == "d" and type(x) is int]
    widths += [shape[-1] for shape in sorted(tables, key=lambda shape: -shape.numel())]
    columns = next((x for x in widths if x > 0), 0)
    rows = [s[0] if s[-2] == 1 else s[-2] for s in tables if s[-1] == columns]
    return max(rows, default=0), columns


def tabulate_or_wrap(request: CodeRequest, code: Any) -> CodeTable:
    """Tabulate user code; refuse code that fits no convention, with a wrapper that works.

    Code that rotates nothing is refused only if a wrapper of it rotates.
    """
    try:
        table = tabulate(request, code)
        if table.operator is None or varies(table):
            return table
        refusal = unfit(request, "does not change with the position")
    except Unfit as error:
        table, refusal = None, error
    for text, names in wrappers(request, code):
        works = False
        with suppress(PefourierError), as_user_error("it"), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(text, names)  # runs user code as the wrapper calls it
            works = varies(tabulate(request, [*names.values()][-1]))
        if works:
            refusal.add_note(text)
            raise refusal
    if table is None:
        raise refusal
    return table


def varies(table: CodeTable) -> bool:
    """Return whether vectors depend on the position."""
    return bool(np.ptp(table.vectors, axis=0).any())


def as_table(answer: Any) -> CodeTable:
    """Convert the result of user code to numbers; refuse results that are too large."""
    check_size("the answer", *getattr(answer, "shape", ()), limit=MOST)
    return CodeTable(*numbers(answer))


def tabulate(request: CodeRequest, code: Any) -> CodeTable:
    """Tabulate a function, a module or its class by the convention for its kind."""
    torch: Any = sys.modules.get("torch")  # already imported if the user code needs it
    module = torch.nn.Module if torch else ()
    if inspect.isclass(code) and issubclass(code, module):
        return table_of_class(request, torch, code)
    if isinstance(code, module):
        return table_of_module(request, torch, code)
    arrays = VectorMap(request, code, code, needed_names(code), None)
    if arrays.is_rotation and not inspect.isclass(code):
        if torch is None:
            return vectors_of_rotation(arrays)
        try:
            return vectors_of_rotation(replace(arrays, torch=torch, example=torch.zeros(())))
        except Unfit as error:
            with suppress(Unfit):  # code that fails for tensors may take arrays
                return vectors_of_rotation(arrays)
            raise error from None
    answer = call_with_sizes(request, code)
    if isinstance(answer, module):
        return table_of_module(request, torch, answer.eval())
    table = in_two_axes(request, as_table(answer))
    again = call_with_sizes(request, code, ANOTHER_SEED if request.seed is None else None)
    return compare_calls(table, in_two_axes(request, as_table(again)))


def table_of_class(request: CodeRequest, torch: Any, code: Any) -> CodeTable:
    """Build a module and tabulate it, twice if it has parameters that may be drawn at random."""
    module = call_with_sizes(request, code).eval()
    table = table_of_module(request, torch, module)
    if any(p.requires_grad for p in module.parameters()):
        other = call_with_sizes(request, code, ANOTHER_SEED)
        again = table_of_module(request, torch, other.eval())
        if not np.array_equal(table.vectors, again.vectors):
            return replace(table, findings=(finding("untrained", "code"), *table.findings))
    return table


def table_of_module(request: CodeRequest, torch: Any, module: Any) -> CodeTable:
    """Tabulate a module by its weight, its output for zeros, or its rotation of vectors."""
    if type(module).forward is torch.nn.Embedding.forward:
        return as_table(module.weight[: request.length])
    names = needed_names(module.forward)
    floats = [x for x in (*module.parameters(), *module.buffers()) if x.is_floating_point()]
    example = next(iter(floats), torch.zeros(()))
    code = VectorMap(request, module, module, names, torch, example)
    is_adding = len(names) == 1 and ROLE.get(names[0], "vectors") in ("vectors", "d")
    if is_adding:
        table = on_zeros(code)
        if np.ptp(table.vectors, axis=0).max() > SAME * np.abs(table.vectors).max():
            return table
        if not table.vectors.any():
            rotation = vectors_of_rotation(replace(code, names=["x"], call=module))
            if varies(rotation):
                return rotation
        check_blind_to_order(code)
        return table
    if code.is_rotation:
        return vectors_of_rotation(code)
    raise unfit(request, f"takes {', '.join(names) or 'no input'}")


def check_blind_to_order(code: VectorMap) -> None:
    """Refuse a module, such as attention, with equal rows for zeros but not for random inputs."""
    shape = (2, code.request.length, code.request.d)
    x = code.torch.randn(shape).to(code.example)
    with code.torch.no_grad():
        rolled, moved = (numbers(y)[0] for y in (code.call(x).roll(1, 1), code.call(x.roll(1, 1))))
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
    length, d = code.request.length, code.request.d
    batch = 3 if length == 2 else 2
    table, axes = call_twice(code, (batch, length, d))
    axis = 0 if axes == {0} else 1
    if axis == 0:
        table, axes = call_twice(code, (length, batch, d))
    notes = axis_findings(code.code, axis) if len(axes) == 1 else []
    notes += [finding("batch-axis", "differ")] if len(axes) == 2 else []
    rows = np.moveaxis(table.vectors, 1 - axis, 0)[0]
    along = replace(table, vectors=rows, findings=(*notes, *table.findings))
    return in_two_axes(code.request, along)


def call_twice(code: VectorMap, shape: tuple[int, ...]) -> tuple[CodeTable, set[int]]:
    """Return the output of a module for zeros (n, m, d), and which of axes 0 and 1 it varies along.

    The set of axes is empty if two calls differ.
    """
    zeros = code.torch.zeros(shape, dtype=code.example.dtype, device=code.example.device)
    try:
        with code.torch.no_grad():
            table, again = (as_table(code.call(zeros)) for _ in range(2))
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
        raise unfit(request, f"returned an array of shape {shapes}")
    return replace(table, vectors=vectors)
