"""Codes from a user's own Python: ``py:module:name``, imported from the working directory.

This runs the named code, and only it. A function is called with (length, d); an ``nn.Module`` class
is built with (d, length) or as its signature says; a module is run in evaluation mode on zeros of
shape (2, length, d), or on position_ids, and its answer minus the input is the table. A module that
is right gives both members of the batch the same codes, varying along the sequence, at every call.
"""

import contextlib
import importlib
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, from_table, numbers
from pefourier.errors import PefourierError, shown

# Names under which public code takes the two sizes; others are given by order.
LENGTH_NAMES = frozenset(
    "length n max_len maxlen max_length max_seq_len seq_len seq_length sequence_length "
    "max_sequence_length num_positions n_positions max_position_embeddings num_embeddings "
    "context_length context_size block_size n_ctx num_patches timesteps".split()
)
DIM_NAMES = frozenset(
    "d d_model dim model_dim embed_dim embedding_dim emb_dim emb_size embed_size embedding_size "
    "hidden_size hidden_dim d_hid channels n_embd num_hiddens head_dim features width".split()
)
POSITION_NAMES = frozenset("position_ids positions position pos indices idx timesteps".split())
DROPOUT_NAMES = frozenset("dropout dropout_p dropout_rate p_dropout drop drop_rate".split())


def tabulate(spec: str, length: int, d: int, seed: int | None = None) -> Encoding:
    """The table that a user's function or module gives for `length` positions of `d` dimensions."""
    with contextlib.redirect_stdout(sys.stderr):  # what their code prints is not part of the answer
        with seeding(seed or 0):
            found = import_object(spec)
        try:
            with seeding(seed or 0):  # torch may be there only now
                answer, findings = obtain_table(spec, found, length, d)
        except PefourierError:
            raise
        except (Exception, SystemExit) as error:  # their code may raise anything
            raise PefourierError(
                f"{shown(spec)} raised {type(error).__name__}: {shown(str(error))} when called for "
                f"length {length}, d {d}; --debug shows where"
            ) from error
    table, eps = answer
    enc = from_table(table, spec, eps=eps, findings=tuple(findings))
    params = {"length": length, "d": d, "object": spec.removeprefix("py:")}
    params |= {} if seed is None else {"seed": seed}
    return replace(enc, params=params, spec=spec)


def spelled_out(spec: str) -> str | None:
    """The SPEC that one without ``py:`` may have meant: a module in the working directory."""
    module, _, name = spec.partition(":")
    path = module.removesuffix(".py").replace(".", "/")
    there = os.path.isfile(f"{path}.py") or os.path.isfile(f"{path}/__init__.py")
    return f"py:{path.replace('/', '.')}:{name or '…'}" if path and there else None


@contextlib.contextmanager
def seeding(seed: int) -> Iterator[None]:
    """Let codes that begin at random be the same for a seed, and random numbers elsewhere alone."""
    seed %= 2**32
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
    except (Exception, SystemExit) as error:  # and may be a script that ends by sys.exit
        raise PefourierError(
            f"cannot import {shown(module_name)} from the working directory: "
            f"{type(error).__name__}: {shown(str(error))}"
        ) from error
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = ", ".join(key for key in vars(found) if not key.startswith("_"))
            raise PefourierError(f"module {module_name} has no {shown(part)}; it has: {public}")
        found = getattr(found, part)
    return found


def obtain_table(
    spec: str, found: Any, length: int, d: int
) -> tuple[tuple[np.ndarray, float], list[Finding]]:
    """The table (n, d) with its resolution, and what was noticed on the way."""
    torch = sys.modules.get("torch")  # their code imported it if it needs it
    if torch is not None:
        if inspect.isclass(found) and issubclass(found, torch.nn.Module):
            found = call_with_sizes(found, {"d": d, "length": length})
        if isinstance(found, torch.nn.Embedding):
            return numbers(found.weight[:length]), []
        if isinstance(found, torch.nn.Module):
            return module_table(spec, torch, found.eval(), length, d)
    answer = call_with_sizes(found, {"length": length, "d": d}) if callable(found) else found
    return two_axes(spec, numbers(answer), length, d), []


def call_with_sizes(function: Callable[..., Any], sizes: dict[str, int]) -> Any:
    """Call with the sizes under the names the signature has for them, or in the order given."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # built in C: no signature to read
        return function(*sizes.values())
    if not parameters:
        return function()
    named = {}
    for p in parameters:
        if p.name in LENGTH_NAMES:
            named[p.name] = sizes["length"]
        elif p.name in DIM_NAMES:
            named[p.name] = sizes["d"]
        elif p.name in DROPOUT_NAMES:
            named[p.name] = 0.0
    required = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if all(p.name in named and p.kind is not p.POSITIONAL_ONLY for p in required) and named:
        return function(**named)
    return function(*list(sizes.values())[: max(len(required), 1)])


def two_axes(
    spec: str, answer: tuple[np.ndarray, float], length: int, d: int
) -> tuple[np.ndarray, float]:
    """A table (length, d) out of (length, d), (1, length, d) or (length, 1, d)."""
    array, eps = answer
    table = array
    if array.ndim == 3 and 1 in array.shape[:2]:
        table = array.squeeze(axis=array.shape[:2].index(1))
    if table.ndim != 2 or len(table) != length:
        raise PefourierError(
            f"{shown(spec)} gave an array of shape {array.shape} for length {length} and d {d}; "
            f"expected ({length}, {d})"
        )
    return table, eps


def module_table(
    spec: str, torch: Any, module: Any, length: int, d: int
) -> tuple[tuple[np.ndarray, float], list[Finding]]:
    """Run a module on zeros, twice, and look at which axis its codes vary along."""
    findings = []
    try:
        answers = call_twice(torch, module, (2, length, d))
    except RuntimeError:  # sizes that do not fit: does the batch stand where the sequence should?
        answers = call_twice(torch, module, (1, length, d))
        message = (
            "runs for a batch of one and not of two: its table is indexed along axis 0, the batch; "
            "for input (batch, length, d) write pe[: x.size(1)]"
        )
        findings.append(Finding("batch-axis", "error", message))
    (codes, eps), (again, _) = (numbers(a[0] if isinstance(a, tuple) else a) for a in answers)
    if not np.array_equal(codes, again):
        worst = np.abs(codes - again).max()
        message = (
            f"the codes change from one call to the next by up to {worst:.3g}: forward alters "
            "what it keeps (a buffer scaled in place) or draws random numbers in evaluation mode "
            "(dropout by the function, without training=self.training); the numbers here are those "
            "of one call"
        )
        findings.append(Finding("changes-between-calls", "error", message))
    if codes.ndim == 3 and codes.shape[0] == 2:
        findings += axis_findings(codes) if not findings else []
        codes = codes[0]
    return two_axes(spec, (codes, eps), length, d), findings


def call_twice(torch: Any, module: Any, shape: tuple[int, int, int]) -> list[Any]:
    """What a module gives for zeros, at two calls."""
    with torch.no_grad():
        return [module(module_input(torch, module, shape)) for _ in range(2)]


def module_input(torch: Any, module: Any, shape: tuple[int, int, int]) -> Any:
    """Zeros (batch, length, d), or the positions (batch, length) where forward takes those."""
    names = list(inspect.signature(module.forward).parameters)
    tables = [t for t in (*module.buffers(), *module.parameters()) if t.is_floating_point()]
    like = tables[0] if tables else torch.zeros(())  # what it adds to input of its own type
    if names and names[0] in POSITION_NAMES:
        return torch.arange(shape[1], device=like.device).expand(shape[:2])
    return torch.zeros(shape, dtype=like.dtype, device=like.device)


def axis_findings(codes: np.ndarray) -> list[Finding]:
    """Codes (2, length, d) of zeros must be the same for both members of the batch."""
    if np.array_equal(codes[0], codes[1]):
        return []
    same = " and are the same at every position" if (codes == codes[:, :1]).all() else ""
    message = (
        f"the codes differ between the members of a batch{same}: the module reads axis 0 as the "
        "sequence; give it (length, batch, d), or index its table as pe[:, :x.size(1)] for input "
        "(batch, length, d)"
    )
    return [Finding("batch-axis", "error", message)]
