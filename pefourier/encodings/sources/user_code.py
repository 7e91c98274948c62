"""Codes from a user's own Python: ``py:module:name``, or an object that is at hand.

This runs the code, and only it. A function is called with (length, d); an ``nn.Module`` class is
built with (d, length), a module is run in evaluation mode on zeros (batch, length, d), or on the
positions that the names in its ``forward`` ask for; what takes queries and keys is a rotation.
Which argument is what its name alone says: see `code_calls`. What fits none is refused with a
wrapper to paste.
"""

import importlib
import inspect
import os
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    Operator,
    check_plain,
    from_bias,
    from_table,
    is_bias,
    numbers,
)
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.code_calls import (
    PLACES,
    ROLE,
    CodeRequest,
    axis_findings,
    call_with_sizes,
    needed_names,
    parameters_of,
    place_values,
    roles_of,
    split_arguments,
    unfit,
)
from pefourier.encodings.sources.rotation_code import FAULTS, VectorMap, rotation_codes
from pefourier.encodings.sources.sandbox import (
    as_user_error,
    evaluating,
    sandboxed,
    seeded,
    words_of,
)
from pefourier.errors import PefourierError, shown

LENGTH, DIM = 80, 256  # where nothing says another
ANOTHER_SEED = 20240917  # with which what is drawn comes out otherwise
TURNED = frozenset(("queries", "waves"))  # roles of what a rotation takes


@dataclass(frozen=True)
class CodeTable:
    """Codes (n, d) that user code gave, or an array on the way to them."""

    codes: np.ndarray
    eps: float  # resolution of its type
    findings: tuple[Finding, ...] = ()
    operator: Operator | None = None  # of code that turns vectors


def read_code(
    source: Any,
    length: int | None = None,
    d: int | None = None,
    seed: int | None = None,
    grid: tuple[int, ...] = (),
    min_length: int = LENGTH,
) -> Encoding:
    """The encoding of ``py:module:name``, or of a module, its class or a function at hand."""
    in_shell = isinstance(source, str)
    spec = source if in_shell else getattr(source, "__qualname__", type(source).__qualname__)
    name, arguments = split_arguments(source) if in_shell else ("", None)
    with sandboxed(spec, seed) as warned:
        code = import_object(name) if in_shell else source
        d = d or likely_dimension(code)
        length = length or likely_length(code, d, min_length)
        request = CodeRequest(spec, length, d, grid, seed=seed)
        request = replace(request, arguments=arguments) if arguments else request
        doing = f"{shown(spec)}, called for length {length}, d {d},"
        with as_user_error(doing), seeded(seed), evaluating(code):  # torch may be there only now
            result = tabulate(request, code)
    width = result.codes.shape[1]
    params = {"length": length, "d": d, "object": spec.removeprefix("py:")}
    params |= {"rotated": width} if result.operator and width < d else {}
    operator = result.operator and sandboxed_operator(request, code, result.operator)
    made = from_bias if is_bias(result.codes.shape) else from_table
    return replace(
        made(result.codes, spec, eps=result.eps, findings=(*result.findings, *warned)),
        params=params | ({} if seed is None else {"seed": seed}),
        spec=spec if in_shell else "",
        untrained="untrained" in {f.code for f in result.findings},
        operator=operator,
    )


def sandboxed_operator(request: CodeRequest, code: Any, operator: Operator) -> Operator:
    """R(p) of code that turns vectors, for when it is asked for."""

    def operator_at(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        doing = f"{shown(request.spec)}, turning vectors of {request.d} dimensions,"
        with sandboxed(request.spec, request.seed), as_user_error(doing), evaluating(code):
            return operator(positions)

    return operator_at


def import_object(spec: str) -> Any:
    """The object that ``py:module:name`` names, imported from the working directory."""
    module_name, _, name = spec.removeprefix("py:").partition(":")
    if not module_name or not name:
        raise PefourierError(
            f"{shown(spec)} does not name an object; write py:module:function or py:module:Class"
        )
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    with as_user_error(f"cannot import {shown(module_name)} from the working directory: it"):
        code = importlib.import_module(module_name)
    for part in name.split("."):
        if not hasattr(code, part):
            public = ", ".join(key for key in vars(code) if not key.startswith("_"))
            raise PefourierError(f"module {module_name} has no {shown(part)}; it has: {public}")
        code = getattr(code, part)
    return code


def meant_spec(spec: str) -> str | None:
    """The SPEC that one without ``py:`` may have meant: a module in the working directory."""
    module, _, name = spec.partition(":")
    path = module.removesuffix(".py").replace(".", "/")
    exists = os.path.isfile(f"{path}.py") or os.path.isfile(f"{path}/__init__.py")
    return f"py:{path.replace('/', '.')}:{name or '…'}" if path and exists else None


def table_shapes(code: Any) -> list[tuple[int, ...]]:
    """Shapes of a module's tables, parameters and buffers of two axes or more, largest first."""
    if isinstance(code, type) or not hasattr(code, "named_buffers"):
        return []
    tensors = [*code.parameters(), *code.buffers()]
    return [tuple(t.shape) for t in sorted(tensors, key=lambda t: -t.numel()) if t.ndim > 1]


def likely_dimension(code: Any) -> int:
    """A module's own attribute, or the last axis of its largest table; else 256."""
    attributes = {} if isinstance(code, type) else getattr(code, "__dict__", {})
    sizes = [
        x for key, x in attributes.items() if ROLE.get(key) == "d" and type(x) is int and x > 0
    ]
    return next(iter([*sizes, *(shape[-1] for shape in table_shapes(code))]), DIM)


def likely_length(code: Any, d: int, min_length: int) -> int:
    """80 positions, or as many as a module's table has if they are fewer; all rows of a table."""
    if hasattr(code, "num_embeddings"):
        return int(code.num_embeddings)
    if not callable(code) and np.ndim(code):
        return len(code)
    rows = [s[0] if s[-2] == 1 else s[-2] for s in table_shapes(code) if s[-1] == d]
    return min(max(LENGTH, min_length), max(rows, default=max(LENGTH, min_length)))


def tabulate(request: CodeRequest, code: Any) -> CodeTable:
    """The table of a function, a module, its class, or an array: one convention for each."""
    torch = sys.modules.get("torch")  # their code imported it if it needs it
    module = torch.nn.Module if torch is not None else ()
    if inspect.isclass(code) and issubclass(code, module):
        return table_of_class(request, torch, code)
    if isinstance(code, module):
        if request.arguments:
            raise PefourierError(f"{shown(request.spec)} is an instance: it takes no arguments")
        return table_of_module(request, torch, code)
    if not callable(code):
        return in_two_axes(request, code, codes_of(code))
    names = [] if parameters_of(code) is None else needed_names(code)
    if torch is not None and not inspect.isclass(code) and roles_of(names) & {"queries", "vectors"}:
        turned = rotation_codes(VectorMap(request, code, code, names, torch.zeros(())), torch)
        if turned is None:
            raise unfit(request, code, "does not change with the position")
        return CodeTable(*turned)
    answer = call_with_sizes(request, code)
    if isinstance(answer, module):
        return table_of_module(request, torch, answer.eval())
    return in_two_axes(request, code, codes_of(answer))


def table_of_class(request: CodeRequest, torch: Any, code: Any) -> CodeTable:
    """The table of a module that is built here, twice where it draws what is to be learned."""
    module = call_with_sizes(request, code).eval()
    table = table_of_module(request, torch, module)
    if any(p.requires_grad for p in module.parameters()):
        with seeded(ANOTHER_SEED):
            again = table_of_module(request, torch, call_with_sizes(request, code).eval())
        if not np.array_equal(table.codes, again.codes):
            return replace(table, findings=(finding("untrained", "code"), *table.findings))
    return table


def table_of_module(request: CodeRequest, torch: Any, module: Any) -> CodeTable:
    """The table of a module: its weight, or what it gives for positions or zeros."""
    if type(module).forward is torch.nn.Embedding.forward:
        return CodeTable(*numbers(module.weight[: request.length]))
    names = needed_names(module.forward)
    roles = roles_of(names) - {"device", "dtype", "offset"}
    floats = [x for x in (*module.parameters(), *module.buffers()) if x.is_floating_point()]
    code = VectorMap(request, module, module, names, next(iter(floats), torch.zeros(())))
    placed = roles <= {*PLACES, "length"} or bool(roles & PLACES)
    vectors = [name for name in names if ROLE.get(name, "") in ("", "vectors", "d")]
    if "tokens" in roles or not (placed or roles & TURNED or len(vectors) == len(roles) == 1):
        raise unfit(request, module, f"takes {', '.join(names)}")
    if not roles & TURNED:
        table = on_places(code, torch) if placed else on_zeros(code, torch)
        if table.codes.any() or not vectors:
            return table
    turned = rotation_codes(code, torch)
    if turned is None and roles & TURNED:
        raise unfit(request, module, "does not change with the position")
    return CodeTable(*turned) if turned else table


def call_twice(code: VectorMap, torch: Any, shape: tuple[int, ...], length: int) -> CodeTable:
    """What a module gives for zeros of a shape and for positions; whether it does so again."""
    like = {"dtype": code.example.dtype, "device": code.example.device}
    zeros = torch.zeros(shape, **like)
    values = place_values(np.arange(length), code.example.device) | like
    values |= {"length": length, "offset": 0}
    arguments = {name: values.get(ROLE.get(name, ""), zeros) for name in code.names}
    optional = [p for p in parameters_of(code.call.forward) or () if p.default is None]
    arguments |= {p.name: length for p in optional if ROLE.get(p.name) == "length"}
    with torch.no_grad():
        table, again = (codes_of(code.call(**arguments), zeros) for _ in range(2))
    if np.array_equal(table.codes, again.codes):
        return table
    worst = np.abs(table.codes - again.codes).max()
    return replace(table, findings=(finding("changes-between-calls", worst=worst),))


def on_places(code: VectorMap, torch: Any) -> CodeTable:
    """The table of a module that takes positions, a length or nothing."""
    request = code.request
    try:
        table = call_twice(code, torch, (1, request.length, request.d), request.length)
    except FAULTS as error:
        inputs = ", ".join(code.names) or "no argument"
        raise code.unfit(f"raised {words_of(error)} for {inputs}") from error
    return in_two_axes(request, code.code, table)


def on_zeros(code: VectorMap, torch: Any) -> CodeTable:
    """The table of a module that takes zeros, and along which of its axes codes run.

    It is called with (2, n, d) and with (n, 2, d), on few positions first; two with a batch of 3.
    """
    request, d = code.request, code.request.d
    answers: dict[tuple[int, ...], CodeTable] = {}
    faults: list[Exception] = []
    for n in dict.fromkeys((min(5, request.length), request.length)):
        batch = 3 if n == 2 else 2
        for shape in ((batch, n, d), (n, batch, d)):
            try:
                answers[shape] = call_twice(code, torch, shape, n)
                varying_axes(answers[shape].codes, shape)
            except FAULTS as error:
                faults.append(error)
                if (table := answers.pop(shape, None)) and is_swollen(table.codes, shape):
                    raise code.unfit(f"{error}: it takes each number for a position") from error
        if answers:
            break
    if not answers:
        return on_other_zeros(code, torch, faults[0])
    directions = [
        varying_axes(table.codes, shape) for shape, table in answers.items() if not table.findings
    ]
    axis = 0 if {0} in directions and {1} not in directions else 1
    shape = (request.length, 2, d) if axis == 0 else (2, request.length, d)
    table = answers.get(shape) or call_twice(code, torch, shape, request.length)
    rows = table.codes if table.codes.ndim == 2 else np.moveaxis(table.codes, 1 - axis, 0)[0]
    notes = axis_findings(code.code, axis) if directions else []
    notes = [finding("batch-axis", "differ")] if {0, 1} in directions else notes
    return in_two_axes(request, code.code, CodeTable(rows, table.eps, (*notes, *table.findings)))


def on_other_zeros(code: VectorMap, torch: Any, fault: Exception) -> CodeTable:
    """The table of a module that takes the axes of a grid, or a batch of one alone."""
    request, notes = code.request, ()
    sides = request.grid if len(request.grid) > 1 else (request.length,)
    batch = 2 if len(sides) > 1 else 1
    try:
        table = call_twice(code, torch, (batch, *sides, request.d), request.length)
        if table.codes.shape[1:-1] != sides:
            raise ValueError(f"gave an array of shape {table.codes.shape}")
    except FAULTS:
        shape = (2, *sides, request.d)
        raise code.unfit(f"raised {words_of(fault)} for zeros {shape}") from fault
    if batch == 1 or not np.array_equal(table.codes[0], table.codes[-1]):
        notes = (finding("batch-axis", "one" if batch == 1 else "differ"),)
    rows = table.codes[0].reshape(-1, table.codes.shape[-1])
    return in_two_axes(request, code.code, CodeTable(rows, table.eps, (*notes, *table.findings)))


def varying_axes(codes: np.ndarray, shape: tuple[int, ...]) -> set[int]:
    """Axes of zeros (n, m, d) along which the codes made of them vary.

    >>> varying_axes(np.eye(3)[None], (2, 3, 3)), varying_axes(np.eye(3), (3, 2, 3))
    ({1}, {0})
    """
    if codes.ndim == 2 and len(codes) in shape[:2]:
        return {1 if len(codes) == shape[1] else 0} if np.ptp(codes, axis=0).any() else set()
    if codes.ndim != 3 or any(
        k not in (1, n) for k, n in zip(codes.shape, shape[:2], strict=False)
    ):
        raise ValueError(f"gave an array of shape {codes.shape} for zeros {shape}")
    return {axis for axis in (0, 1) if np.ptp(codes, axis=axis).any()}


def is_swollen(codes: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether each number given became a row of codes: all of a sequence would fill the memory."""
    return codes.ndim > 3 or len(codes) == np.prod(shape)


def in_two_axes(request: CodeRequest, code: Any, table: CodeTable) -> CodeTable:
    """A table (length, d) out of one with axes of length one around or between."""
    codes, length = table.codes, request.length
    while codes.ndim > 2 and 1 in codes.shape[:-1]:
        codes = codes.squeeze(axis=codes.shape[:-1].index(1))
    if is_bias(codes.shape) and codes.shape[-1] == length:
        return replace(table, codes=codes)
    if codes.ndim != 2 or len(codes) != length:
        raise unfit(
            request,
            code,
            f"gave an array of shape {table.codes.shape}, expected ({length}, {request.d})",
        )
    return replace(table, codes=codes)


def codes_of(answer: Any, inputs: Any = None) -> CodeTable:
    """The codes in an answer: of several arrays those that were made, side by side."""
    torch = sys.modules.get("torch")
    kinds = (np.ndarray, torch.Tensor) if torch is not None else np.ndarray
    several = answer if isinstance(answer, tuple | list) else ()
    arrays = [x for x in several if isinstance(x, kinds) and x.ndim > 1]
    if not arrays:
        return CodeTable(*numbers(answer))
    for array in arrays:
        check_plain(array)
    first, *further = [x for x in arrays if not is_equal(x, inputs)] or arrays
    created = [first, *(x for x in further if x.shape == first.shape and not is_equal(x, first))]
    parts = [numbers(x) for x in created]
    return CodeTable(np.concatenate([codes for codes, _ in parts], axis=-1), parts[0][1])


def is_equal(a: Any, b: Any) -> bool:
    """Whether two arrays, or two tensors, have the same numbers."""
    return type(a) is type(b) and a.shape == b.shape and bool((a == b).all())
