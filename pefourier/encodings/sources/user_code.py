"""Codes from a user's own Python: ``py:module:name``, imported from the working directory.

This runs the named code, and only it. A function is called with (length, d); an ``nn.Module`` class
is built with (d, length) or as its signature says, its own longest length kept where that is
enough; a module is run in evaluation mode on what the names in its ``forward`` ask for: zeros of
shape (2, length, d), positions, times, coordinates or a length. Its answer to zeros is the table;
of several arrays those that it made, side by side. A module that is right gives both members of
the batch the same codes, varying along the sequence, at every call; one that does so for input
(length, batch, d) is sequence-first. Arguments may be given, ``py:module:Class(max_period=100)``.
"""

import contextlib
import importlib
import inspect
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, Operator, from_table
from pefourier.encodings.findings import finding
from pefourier.encodings.sources import rotations
from pefourier.encodings.sources.signatures import (
    A_PADDING,
    POSITION_NAMES,
    TIME_NAMES,
    TableAsked,
    split_arguments,
    ways_to_call,
    with_padding,
)
from pefourier.encodings.sources.user_modules import (
    Codes,
    as_codes,
    first_that_works,
    mirrored,
    module_table,
    reads_numbers,
    two_axes,
)
from pefourier.errors import PefourierError, shown

CODE_SECONDS = "PEFOURIER_CODE_SECONDS"
MOST_WARNINGS = 3
ANOTHER_SEED = 20240917  # with which what is drawn comes out otherwise


def tabulate(
    spec: str, length: int, d: int, seed: int | None = None, grid: tuple[int, ...] = ()
) -> Encoding:
    """The table that a user's function or module gives for `length` positions of `d` dimensions."""
    name, given = split_arguments(spec)
    asked = TableAsked(spec, length, d, grid, given, seed)
    with held_apart(spec) as said:
        with seeding(seed):
            found = import_object(name)
        when = f"called for length {length}, d {d}"
        with faults_told(shown(spec), when), seeding(seed):  # torch may be there only now
            answer, findings = obtain_table(asked, found)
    return encoding_of_code(asked, found, answer, [*findings, *said])


def encoding_of_code(
    asked: TableAsked, found: Any, answer: Codes, findings: Sequence[Finding]
) -> Encoding:
    """The encoding of a table that code gave, with its operator where it turned vectors."""
    table, eps = answer
    codes = {finding.code for finding in findings}
    params = {"length": asked.length, "d": asked.d, "object": asked.spec.removeprefix("py:")}
    return replace(
        from_table(table, asked.spec, eps=eps, findings=tuple(findings)),
        params=params | ({} if asked.seed is None else {"seed": asked.seed}),
        spec=asked.spec,
        untrained="untrained" in codes,
        operator=operator_of(asked, found) if "turns-its-input" in codes else None,
    )


def operator_of(asked: TableAsked, found: Any) -> Operator:
    """R(p) of code that turns vectors, for when it is asked for."""

    def at(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        torch, name = sys.modules["torch"], shown(asked.spec)
        when = f"vectors of {asked.d} dimensions were turned"
        with faults_told(name, when), held_apart(asked.spec), seeding(asked.seed):
            module = found
            if not isinstance(found, torch.nn.Module):
                turning = not inspect.isclass(found) and rotations.turns_vectors(found)
                module = rotations.Function(found) if turning else build_module(asked, found)[0]
            with in_its_own_mode(module):
                return rotations.probe(asked, torch, module, positions)

    return at


@contextlib.contextmanager
def faults_told(name: str, when: str, way_out: str = "") -> Iterator[None]:
    """Tell in one line what code of theirs raises, which may be anything."""
    try:
        yield
    except (PefourierError, KeyboardInterrupt):
        raise
    except BaseException as error:
        way_out = way_out or f"{arguments_lacking(error)}--debug shows where"
        raise PefourierError(f"{name} raised {words_of(error)} when {when}; {way_out}") from error


@contextlib.contextmanager
def in_its_own_mode(found: Any) -> Iterator[None]:
    """Put a module back into training where it was: it is run in evaluation mode."""
    modules = [] if isinstance(found, type) or not hasattr(found, "modules") else found.modules()
    before = [(module, module.training) for module in modules]
    for module, _ in before:
        module.training = False
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@contextlib.contextmanager
def held_apart(spec: str) -> Iterator[list[Finding]]:
    """Keep what a user's code does to the process from what is answered; its warnings are findings.

    What it prints goes to stderr, by the descriptor as by `sys.stdout`; the working directory and
    stdout are then what they were; a process that it forks ends here, and `os._exit` is an error.
    It may run for as many seconds as the variable of the environment CODE_SECONDS says. Not held:
    what ends or stops the process from compiled code, threads that go on, handlers of `atexit`,
    and objects of other modules that it replaces.
    """
    own, leave, found = os.getpid(), os._exit, []
    folder = os.open(".", os.O_RDONLY)

    def refuse(status: int = 0) -> None:
        if os.getpid() != own:
            leave(status)
        raise PefourierError(f"{shown(spec)} ends the process by os._exit({status}); take that out")

    os._exit = refuse
    try:
        with stdout_apart(), limited(spec), warnings.catch_warnings(record=True) as warned:
            yield found
    finally:
        os._exit = leave
        if os.getpid() != own:
            leave(0)
        os.chdir(folder)
        os.close(folder)
    for one in warned[:MOST_WARNINGS]:
        told = {"type": one.category.__name__, "message": shown(str(one.message))}
        found.append(finding("code-warns", **told))


@contextlib.contextmanager
def stdout_apart() -> Iterator[None]:
    """Send what is written to stdout to stderr; a stdout that is closed meanwhile is opened again.

    Where the process has none, none is made.
    """
    out = sys.stdout
    try:
        out.flush()
        kept = os.dup(1)
    except (AttributeError, OSError):  # there is none, or it is full: which is told by who answers
        with contextlib.redirect_stdout(sys.stderr):
            yield
        return
    try:
        with contextlib.suppress(OSError):
            os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        if out.closed:
            sys.stdout = open(1, "w", encoding=out.encoding, closefd=False)


@contextlib.contextmanager
def limited(spec: str) -> Iterator[None]:
    """Stop code that runs for longer than is allowed, as soon as it comes back to Python."""
    text = os.environ.get(CODE_SECONDS, "")
    if not text or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e8:
        raise PefourierError(f"{CODE_SECONDS} must be a number of seconds; got {shown(text)}")

    expired = PefourierError(
        f"{shown(spec)} ran for more than {seconds:g} s, the limit of {CODE_SECONDS}"
    )
    over = []

    def stop(number: int, frame: Any) -> None:
        over.append(number)
        raise expired

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again, where they catch it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if over:
            raise expired


def words_of(error: BaseException) -> str:
    """The type of an exception of theirs and what it says, as far as it can say anything."""
    try:
        text = shown(str(error))
    except Exception:  # its own __str__ fails
        text = "that cannot be shown"
    return f"{type(error).__name__}: {text}"


def arguments_lacking(error: BaseException) -> str:
    """How arguments are given, where one was missing or sizes do not fit."""
    if isinstance(error, RuntimeError):  # of torch
        return "give the dimension that it takes as --d; "
    missing = isinstance(error, TypeError) and "required" in words_of(error)
    return "give it in the SPEC: 'py:module:Class(name=value)'; " if missing else ""


def meant_spec(spec: str) -> str | None:
    """The SPEC that one without ``py:`` may have meant: a module in the working directory."""
    module, _, name = spec.partition(":")
    path = module.removesuffix(".py").replace(".", "/")
    there = os.path.isfile(f"{path}.py") or os.path.isfile(f"{path}/__init__.py")
    return f"py:{path.replace('/', '.')}:{name or '…'}" if path and there else None


@contextlib.contextmanager
def seeding(seed: int | None) -> Iterator[None]:
    """Let codes that begin at random be the same for a seed, and random numbers elsewhere alone."""
    seed = (seed or 0) % 2**32
    torch = sys.modules.get("torch")
    own, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002 (theirs to use)
    with torch.random.fork_rng(devices=[]) if torch else contextlib.nullcontext():
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if torch:
            torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(own)
            np.random.set_state(numpys)  # noqa: NPY002


def import_object(spec: str) -> Any:
    """The object that ``py:module:name`` names."""
    module_name, _, name = spec.removeprefix("py:").partition(":")
    if not module_name or not name:
        raise PefourierError(
            f"{shown(spec)} does not name an object; write py:module:function or py:module:Class"
        )
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except (PefourierError, KeyboardInterrupt):
        raise
    except BaseException as error:  # and may be a script that ends by sys.exit
        raise PefourierError(
            f"cannot import {shown(module_name)} from the working directory: {words_of(error)}"
        ) from error
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = ", ".join(key for key in vars(found) if not key.startswith("_"))
            raise PefourierError(f"module {module_name} has no {shown(part)}; it has: {public}")
        found = getattr(found, part)
    return found


def obtain_table(asked: TableAsked, found: Any) -> tuple[Codes, list[Finding]]:
    """The table (n, d) with its resolution, and what was noticed on the way."""
    torch = sys.modules.get("torch")  # their code imported it if it needs it
    module = torch.nn.Module if torch is not None else ()
    if inspect.isclass(found) and issubclass(found, module):
        padded = with_padding(found, asked.given)
        ways = [asked, replace(asked, given=padded)] if padded else [asked]
        return first_that_works(
            lambda some: table_of_class(some, torch, found, padded=some is not asked), ways
        )
    if asked.given and not callable(found):
        raise PefourierError(f"{shown(asked.spec)} is an instance or table: it takes no arguments")
    if isinstance(found, module):
        return module_table(asked, torch, found.eval())
    if not callable(found):
        return two_axes(asked, as_codes(found, {})), []
    turning = torch is not None and not asked.given and rotations.turns_vectors(found)
    names = rotations.names_to_give(rotations.Function(found)) if turning else []
    tried = " and"
    if names in ([], ["x"]):  # which may be numbers
        try:
            return first_that_works(
                lambda call: table_of_call(asked, torch, found, call), ways_to_call(asked, found)
            )
        except rotations.FAULTS as error:
            if not names:
                raise
            tried = f": of positions it gives no table ({words_of(error)}), and of vectors"
    turned = rotations.as_rotation(asked, torch, rotations.Function(found))
    if turned is not None:
        return turned
    raise PefourierError(
        f"{shown(asked.spec)} takes {', '.join(names)}{tried} does not turn "
        f"pairs of {asked.d} columns by the position: unit vectors do not stay orthogonal, or it "
        "gives another shape; give the size of a head as --d, or the table of its factors"
    )


def table_of_call(
    asked: TableAsked, torch: Any, found: Any, call: Callable[[], Any]
) -> tuple[Codes, list[Finding]]:
    """The table that a call of a function gives, or that the module which it makes gives."""
    made = call()
    if torch is not None and isinstance(made, torch.nn.Module):
        return table_of_class(asked, torch, found)
    codes = two_axes(asked, as_codes(made, {}))
    guessed = {
        name: mirrored(x)
        for name, x in getattr(call, "keywords", {}).items()
        if name not in POSITION_NAMES | TIME_NAMES and np.ndim(x) == 1 and hasattr(x, "shape")
    }
    if guessed:
        back = two_axes(asked, as_codes(call(**guessed), {}))
        if not reads_numbers(codes, back):
            raise PefourierError(
                f"{shown(asked.spec)} does not take {', '.join(guessed)} for positions: in reverse "
                "they do not give the codes in reverse"
            )
    return codes, []


def table_of_class(
    asked: TableAsked, torch: Any, found: Any, padded: bool = False
) -> tuple[Codes, list[Finding]]:
    """The table of a module that is built here, twice where it draws what is to be learned."""
    built, findings = build_module(asked, found)
    answer, noticed = module_table(asked, torch, built)
    if any(p.requires_grad for p in built.parameters()):
        with seeding(ANOTHER_SEED):
            (again, _), _ = module_table(asked, torch, build_module(asked, found)[0])
        if not np.array_equal(answer[0], again):
            findings.append(finding("untrained", "code"))
    if padded:
        findings.append(finding("padding-assumed", padding=A_PADDING, first=A_PADDING + 1))
    return answer, findings + noticed


def build_module(asked: TableAsked, found: Any) -> tuple[Any, list[Finding]]:
    """A module of a class, in evaluation mode; what its model would fill in is filled in."""
    built = first_that_works(lambda call: call(), ways_to_call(asked, found)).eval()
    makers = [m for m in built.modules() if hasattr(m, "create_weight") and hasattr(m, "weight")]
    for one in makers:
        one.weight.data.copy_(one.create_weight())
    return built, [finding("filled-weights")] if makers else []
