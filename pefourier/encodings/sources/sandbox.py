"""What user code may do to this process: print to stderr and draw.

Not held: what ends or stops the process from compiled code, processes and threads that go on,
handlers of `atexit`, and objects of other modules that it replaces.
"""

import contextlib
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from pefourier.errors import PefourierError, shown


@contextlib.contextmanager
def sandboxed(seed: int | None = None) -> Iterator[None]:
    """Run user code, whose prints go to stderr, by the descriptor as by `sys.stdout`.

    Working directory, stdout and generators of random numbers are then what they were.
    """
    with contextlib.chdir("."), stdout_to_stderr(), seeded(seed):
        yield


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what is written to stdout to stderr, where the process has a stdout."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        with contextlib.suppress(AttributeError, OSError):  # there is none, or it is full
            sys.__stdout__.flush()
            descriptor = os.dup(1)
            stack.callback(os.close, descriptor)
            stack.callback(os.dup2, descriptor, 1)
            os.dup2(2, 1)
        yield


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Let codes that begin at random be the same for a seed, and random numbers elsewhere alone."""
    seed = (seed or 0) % 2**32
    torch = sys.modules.get("torch")
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (theirs to use)
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
    """Run a module in evaluation mode, and put it back into training where it was."""
    is_module = hasattr(module, "modules") and not isinstance(module, type)
    before = [(part, part.training) for part in (module.modules() if is_module else ())]
    if is_module:
        module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


@contextlib.contextmanager
def as_user_error(doing: str) -> Iterator[None]:
    """Say in one line what user code raises, which may be anything."""
    try:
        yield
    except (PefourierError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PefourierError(f"{doing} raised {words_of(error)}; --debug shows where") from error


def words_of(error: BaseException) -> str:
    """The type of an exception and its text, as far as it has any."""
    text = ""
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # of its own __str__
        text = shown(str(error))
    return f"{type(error).__name__}: {text or 'that cannot be shown'}"
