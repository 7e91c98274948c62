"""Call user code by the names of its parameters.

A function is called with (length, d), in the order of its parameter names; a class with the sizes
that it names. Code that fits no convention is refused with a wrapper to paste.
"""

import contextlib
import inspect
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Finding, Operator
from pefourier.encodings.findings import finding
from pefourier.errors import PefourierError, shown
from pefourier.writing.files import read_toml

NAMES = read_toml(Path(__file__).with_name("code_names.toml"))
ROLE = {name: role for role, names in NAMES["roles"].items() for name in names.split()}
WORDS = NAMES["words"]
INDICES = {"inputs": "length", "vectors": WORDS["positions"]}  # a module that looks up rows
PLACES, VECTORS = {"ids", "positions"}, {"queries", "keys", "vectors"}  # roles
AXES = {  # conversions of vectors before and after a rotation, for x and for queries and keys
    False: [("[:, :, None]", "[:, :, 0]"), ("[:, None]", "[:, 0]"), 2 * (".transpose(0, 1)",)],
    True: [2 * (".transpose(1, 2)",), ("[:, 0]", "[:, None]")],
}
SEQUENCE_FIRST = re.compile(
    r"\b((?i:seq|len|time)\w*( len\w*)?|[STL]), *((?i:batch)\w*|bs\w*|[BN])\b"
)
BATCH_FIRST = re.compile(r"\b((?i:batch)\w*|bs\w*|[BN]), *((?i:seq|len|time)\w*|[STLN])\b")


@dataclass(frozen=True)
class CodeRequest:
    """A request for a table from user code; errors name the code by its SPEC."""

    spec: str
    length: int
    d: int
    on_grid: bool = False  # whether only sequences of this length are valid
    seed: int | None = None


@dataclass(frozen=True)
class CodeTable:
    """Vectors (n, d) from user code, or an intermediate array."""

    vectors: np.ndarray
    eps: float  # resolution of its type
    findings: tuple[Finding, ...] = ()
    operator: Operator | None = None  # of rotation code


def is_needed(p: inspect.Parameter) -> bool:
    """Return whether a call must pass the parameter."""
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function; length and d if it has no signature, as in C."""
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        kind = inspect.Parameter.POSITIONAL_ONLY
        return [inspect.Parameter(name, kind) for name in ("length", "d")]


def needed_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that a call must pass."""
    return [p.name for p in parameters_of(function) if is_needed(p)]


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
    parameters = parameters_of(function)
    for p in parameters:
        role = ROLE.get(p.name)
        is_enough = is_class and type(p.default) is int and p.default >= request.length
        if role in sizes and not (role == "length" and is_enough):
            values[p.name] = sizes[role]
        elif is_needed(p):
            unnamed.append(p.name)
    free = [] if is_class else [k for k in ("length", "d") if k not in roles_of([*values])]
    misfits = [name for name in unnamed if name in ROLE] or unnamed[len(free) :]
    if misfits:
        raise unfit(request, f"needs {', '.join(unnamed)}, expected length and d")
    values |= {name: sizes[role] for name, role in zip(unnamed, free, strict=False)}
    by_order = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in values]
    with sandboxed(request.seed if seed is None else seed):  # restores what a call changes
        return function(*(values.pop(name) for name in by_order), **values)


def axis_findings(code: Any, axis: int) -> list[Finding]:
    """Return findings about the sequence axis, 0 or 1, of a module's output."""
    if axis == 0:
        is_batch = first_axis(code) == "batch"
        return [finding("batch-axis", "first") if is_batch else finding("sequence-first")]
    return [finding("batch-axis", "second")] if first_axis(code) == "declared sequence" else []


def first_axis(code: Any) -> str:
    """Return the first axis of a module's input: by a switch, its source code or its tables.

    A table (n, 1, d) is for input (length, batch, d), a table (1, n, d) for (batch, length, d).
    """
    switch, source = getattr(code, "batch_first", None), ""
    with contextlib.suppress(OSError, TypeError):
        source = inspect.getsource(type(code))
    is_batch = bool(BATCH_FIRST.search(source))
    if isinstance(switch, bool) or is_batch != bool(SEQUENCE_FIRST.search(source)):
        is_batch = switch if isinstance(switch, bool) else is_batch
        return "batch" if is_batch else "declared sequence"
    shapes = [tuple(t.shape) for t in (*code.parameters(), *code.buffers()) if t.ndim == 3]
    return "batch" if any(first == 1 < n for first, n, _ in shapes) else "sequence"


class Unfit(PefourierError):
    """The error for code that fits no convention."""


def unfit(request: CodeRequest, why: str) -> Unfit:
    """Return the error for code that fits no convention, with the conventions that exist."""
    kinds = "(length, d), a module of zeros (batch, length, d), or a rotation of (q, k)"
    return Unfit(f"{shown(request.spec)} {why}; write a function of {kinds}")


WRAPPER = """\
{imports}
def {function}({parameters}):
    return {body}"""


def wrappers(request: CodeRequest, code: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield wrappers that may make user code fit: lines of Python, and the names that they need.

    The last name that the lines define is the function. Wrappers are not run here. Code with a
    parameter of an unknown name has no wrapper. Modules are called in evaluation mode.
    """
    module, _, name = request.spec.removeprefix("py:").rpartition(":")
    name = name if module else name.rpartition(".")[2]
    root = name.partition(".")[0]
    function = "wrapper" if root == "codes" else "codes"
    kind: Any = code if inspect.isclass(code) else type(code)
    makes = code is kind or kind.__qualname__ == name
    is_module = hasattr(kind, "forward")
    functions = [kind] * makes + [kind.forward] if is_module else [code]
    signatures = [parameters_of(function) for function in functions]
    if is_module:
        signatures[-1] = signatures[-1][1:]  # without self
    calls = [
        [p.name for p in parameters if is_needed(p) or ROLE.get(p.name) in ("length", "d")]
        for parameters in signatures
    ]
    mode = ".eval()" * hasattr(kind, "eval")
    known = all(ROLE.get(key) for call in calls for key in call)
    for parameters, body in bodies(name, mode, calls) if known else ():
        imports = ["import torch"] * ("torch." in body)
        imports += [f"from {module} import {root}"] * bool(module)
        slots = {"imports": "; ".join(imports), "function": function, "parameters": parameters}
        yield WRAPPER.format(**slots, body=body).strip(), {} if module else {root: code}


def bodies(name: str, mode: str, calls: list[list[str]]) -> Iterator[tuple[str, str]]:
    """Yield parameters and bodies of wrapper functions: for tables, then for rotations."""

    def written(call: list[str], words: Mapping[str, str]) -> str:
        return f"({', '.join(f'{key}={words[ROLE[key]]}' for key in call)})"

    *before, names = calls
    vectors = [key for key in names if ROLE[key] in VECTORS]
    for words in (WORDS, WORDS | INDICES, WORDS | {"inputs": "d"}):
        if all(ROLE[key] in words for call in calls for key in call):
            made = name + "".join(written(call, words) for call in before) + mode
            call_text = made + written(names, words)
            for body in (call_text, f"{call_text}.T", f"torch.cat({call_text}, -1)"):
                yield "length, d", body
    if vectors and roles_of(names) <= VECTORS | PLACES:
        sizes = {"length": f"{vectors[0]}.shape[-2]", "d": f"{vectors[0]}.shape[-1]"}
        made = name + "".join(written(call, WORDS | sizes) for call in before) + mode
        for into, back in AXES[ROLE[vectors[0]] != "vectors"]:
            values = {ROLE[key]: f"{key}{into if key in vectors else ''}" for key in names}
            image = f"{made}{written(names, values)}"
            body = f"{image}{back}" if len(vectors) == 1 else f"[y{back} for y in {image}]"
            yield ", ".join(names), body


@contextlib.contextmanager
def sandboxed(seed: int | None = None) -> Iterator[None]:
    """Run user code with its prints sent to stderr, both from `sys.stdout` and descriptor 1.

    The working directory, stdout and random number generators are restored afterwards. The
    sandbox does not contain: compiled code that ends the process, exec, processes and threads that
    keep running, `atexit` handlers, and replaced objects of other modules.
    """
    with contextlib.ExitStack() as stack:
        for context in (
            contextlib.chdir("."),
            contextlib.redirect_stdout(sys.stderr),
            without_exit(),
            seeded(seed),
        ):
            stack.enter_context(context)
        if sys.__stdout__ is not None:
            with contextlib.suppress(OSError):  # the disk is full
                sys.__stdout__.flush()
                descriptor = os.dup(1)
                stack.callback(os.close, descriptor)
                stack.callback(os.dup2, descriptor, 1)
                os.dup2(2, 1)
        yield


@contextlib.contextmanager
def without_exit() -> Iterator[None]:
    """Make `os._exit` an error in this process, which would otherwise end without a result."""
    process, end, modules = os.getpid(), os._exit, [os, sys.modules[os.name]]

    def refuse(status: int) -> None:
        if os.getpid() != process:  # in a child process
            end(status)
        raise SystemExit(f"os._exit({status})")

    for module in modules:
        vars(module)["_exit"] = refuse
    try:
        yield
    finally:
        for module in modules:
            vars(module)["_exit"] = end


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed random numbers for reproducible initial vectors, and restore the generators after."""
    seed = (seed or 0) % 2**32
    torch = sys.modules.get("torch")
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (of user code)
    with torch.random.fork_rng(devices=[]) if torch else contextlib.nullcontext():
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if torch:
            torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
            np.random.set_state(numpy_state)  # noqa: NPY002


@contextlib.contextmanager
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


@contextlib.contextmanager
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
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # __str__ may fail
        text = shown(str(error))
    return f"{type(error).__name__}: {text or 'that cannot be shown'}"
