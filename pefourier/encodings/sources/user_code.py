"""Codes from a user's own Python: ``py:module:name``, imported from the working directory.

This runs the named code, and only it. A function is called with (length, d); an ``nn.Module`` class
is built with (d, length) or as its signature says, its own longest length kept where that is
enough; a module is run in evaluation mode on what the names in its ``forward`` ask for: zeros of
shape (2, length, d), positions, times, coordinates or a length. Its answer to zeros is the table;
of several arrays those that it made, side by side. A module that is right gives both members of
the batch the same codes, varying along the sequence, at every call; one that does so for input
(length, batch, d) is sequence-first.
"""

import contextlib
import importlib
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, from_table, numbers
from pefourier.errors import PefourierError, shown

# Names under which public code takes the two sizes; others are given by order.
LENGTH_NAMES = frozenset(
    "length n max_len maxlen max_length max_seq_len seq_len seq_length sequence_length "
    "max_sequence_length num_positions n_positions max_position_embeddings num_embeddings "
    "context_length context_size block_size n_ctx num_patches timesteps end max_seq_length".split()
)
DIM_NAMES = frozenset(
    "d d_model dim model_dim embed_dim embedding_dim emb_dim emb_size embed_size embedding_size "
    "hidden_size hidden_dim d_hid channels n_embd num_hiddens head_dim features width".split()
)
POSITION_NAMES = frozenset("position_ids positions position pos pos_ids indices idx".split())
TIME_NAMES = frozenset("t timesteps timestep time times coords coordinates".split())
TOKEN_NAMES = frozenset("input_ids tokens token_ids".split())
A_TOKEN = 2  # which is neither the usual start nor the usual padding
SHIFTS = frozenset("offset start_pos past_length cache_position".split())
FAULTS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError)
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
    return two_axes(spec, as_codes(answer, {}), length, d), []


def call_with_sizes(function: Callable[..., Any], sizes: dict[str, int]) -> Any:
    """Call with the sizes under the names the signature has for them, or in the order given.

    A class keeps a longest length of its own where that is enough: codes may depend on it.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # built in C: no signature to read
        return function(*sizes.values())
    if not parameters:
        return function()
    named = {}
    for p in parameters:
        own = inspect.isclass(function) and type(p.default) is int
        if p.name in LENGTH_NAMES:
            named |= {} if own and p.default >= sizes["length"] else {p.name: sizes["length"]}
        elif p.name in DIM_NAMES:
            named[p.name] = sizes["d"]
        elif p.name in DROPOUT_NAMES:
            named[p.name] = 0.0
        elif p.name in POSITION_NAMES and p.default is p.empty and not inspect.isclass(function):
            torch = sys.modules.get("torch")
            named[p.name] = (torch or np).arange(sizes["length"])
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
    """A table (length, d) out of one with axes of length one around or between."""
    array, eps = answer
    table = array
    while table.ndim > 2 and 1 in table.shape[:-1]:
        table = table.squeeze(axis=table.shape[:-1].index(1))
    if table.ndim != 2 or len(table) != length:
        raise PefourierError(
            f"{shown(spec)} gave an array of shape {array.shape} for length {length} and d {d}; "
            f"expected ({length}, {d})"
        )
    return table, eps


def module_table(
    spec: str, torch: Any, module: Any, length: int, d: int
) -> tuple[tuple[np.ndarray, float], list[Finding]]:
    """Run a module twice, and look at which axis its codes vary along."""
    answers, sequence_first = run_module(torch, module, length, d)
    findings = []
    if answers is None:  # does the batch stand where the sequence should?
        answers = call_twice(torch, module, inputs_of(torch, module, (1, length, d)))
        message = (
            "runs for a batch of one and not of two: its table is indexed along axis 0, the batch; "
            "for input (batch, length, d) write pe[: x.size(1)]"
        )
        findings.append(Finding("batch-axis", "error", message))
    elif sequence_first:
        message = (
            "sequence-first: it gives codes to axis 0, for input (length, batch, d); fed with "
            "(batch, length, d) it would give one code to all positions of a member of the batch"
        )
        findings.append(Finding("sequence-first", "note", message))
    (codes, eps), (again, _) = answers
    if not np.array_equal(codes, again):
        worst = np.abs(codes - again).max()
        message = (
            f"the codes change from one call to the next by up to {worst:.3g}: forward alters "
            "what it keeps (a buffer scaled in place) or draws random numbers in evaluation mode "
            "(dropout by the function, without training=self.training); the numbers here are those "
            "of one call"
        )
        findings.append(Finding("changes-between-calls", "error", message))
    if codes.ndim == 3 and sequence_first:
        codes = codes[:, 0]
    if codes.ndim == 3 and codes.shape[0] == 2:
        findings += axis_findings(codes) if not findings else []
        codes = codes[0]
    return two_axes(spec, (codes, eps), length, d), findings


Answers = list[tuple[np.ndarray, float]]  # of two calls, each with its resolution


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
    except FAULTS:
        return None


def call_twice(torch: Any, module: Any, ways: Iterator[dict[str, Any]]) -> Answers:
    """What a module gives at two calls, in the first way that it takes."""
    ways = list(ways)
    for last, way in enumerate(ways, 1 - len(ways)):
        try:
            with torch.no_grad():
                return [as_codes(module(**way), way) for _ in range(2)]
        except FAULTS:
            if last == 0:
                raise
    raise TypeError("its forward takes nothing that is known here")


def required(module: Any) -> list[str]:
    """Names of what forward must be given."""
    own = inspect.signature(module.forward).parameters.values()
    return [
        p.name
        for p in own
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is p.empty
    ]


def takes_positions(module: Any) -> bool:
    """Whether forward is given places, or nothing that has a batch."""
    names = set(required(module))
    return bool(names & (POSITION_NAMES | TIME_NAMES)) or names <= LENGTH_NAMES | SHIFTS


def inputs_of(torch: Any, module: Any, shape: tuple[int, int, int]) -> Iterator[dict[str, Any]]:
    """Ways to call forward: positions in the forms that modules take them, all else zeros."""
    length = max(shape[:2]) if takes_positions(module) else shape[1]
    held = [*module.parameters(), *module.buffers()]
    like = next((x for x in held if x.is_floating_point()), torch.zeros(()))  # its type and place
    whole = torch.arange(length, device=like.device)
    forms = [whole.expand(shape[0], length), whole, whole.float(), whole.float()[:, None]]
    forms.append(whole.float()[None, :, None])
    names = required(module)
    zeros = torch.zeros(shape, dtype=like.dtype, device=like.device)
    if set(names) & TIME_NAMES:
        forms = [*forms[1:], forms[0]]
    for form in forms if set(names) & (POSITION_NAMES | TIME_NAMES) else forms[:1]:
        way = {}
        for name in names:
            if name in POSITION_NAMES | TIME_NAMES:
                way[name] = form
            elif name in LENGTH_NAMES:
                way[name] = length
            elif name in TOKEN_NAMES:
                way[name] = torch.full(shape[:2], A_TOKEN)
            else:
                way[name] = 0 if name in SHIFTS else zeros
        yield way


def as_codes(answer: Any, way: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    """The codes in what was given: of several arrays those that were made, side by side."""
    torch = sys.modules.get("torch")
    kinds = (np.ndarray, torch.Tensor) if torch is not None else np.ndarray
    several = isinstance(answer, tuple | list) and any(
        isinstance(a, kinds) and a.ndim > 1 for a in answer
    )
    if not several:
        return parts_of(answer)
    inputs = [np.asarray(x) for x in way.values()]
    arrays = [parts_of(a) for a in answer if isinstance(a, kinds) and a.ndim > 1]
    own = [(x, eps) for x, eps in arrays if not any(np.array_equal(x, given) for given in inputs)]
    first, eps = (own or arrays)[0]
    others = [x for x, _ in own[1:] if x.shape == first.shape and not np.array_equal(x, first)]
    return np.concatenate([first, *others], axis=-1), eps


def parts_of(answer: Any) -> tuple[np.ndarray, float]:
    """An array of numbers; of complex ones real and imaginary parts side by side."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(answer, torch.Tensor) and answer.is_complex():
        answer = torch.view_as_real(answer.detach()).flatten(-2)
    elif isinstance(answer, np.ndarray) and np.iscomplexobj(answer):
        answer = np.stack([answer.real, answer.imag], axis=-1).reshape(*answer.shape[:-1], -1)
    return numbers(answer)


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
