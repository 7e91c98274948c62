"""How user code is called: by the names of its parameters, and by nothing else.

Each name has one role. A size, position or vector that a call needs is given by its role; what is
needed beside takes the sizes that are left, in order: (length, d) of a function, (d, length) of a
class. Arguments may stand in the SPEC, ``py:module:Class(max_period=100)``: literals alone.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Finding
from pefourier.encodings.findings import finding
from pefourier.errors import PefourierError, shown

ROLES = {  # what parameters of public code are for, by their names
    "length": "length n max_len maxlen max_length max_seq_len seq_len seq_length sequence_length "
    "max_sequence_length num_positions n_positions max_position_embeddings num_embeddings "
    "context_length context_size block_size n_ctx num_patches end max_seq_length",
    "d": "d d_model dim model_dim embed_dim embedding_dim emb_dim emb_size embed_size "
    "embedding_size hidden_size hidden_dim d_hid channels n_embd num_hiddens head_dim features "
    "width num_channels out_channels dim_head head_size",
    "ids": "position_ids pos_ids",  # (1, n)
    "positions": "positions position pos indices idx",  # (n,)
    "times": "t timesteps timestep time times",  # (n,), floats
    "points": "coords coordinates",  # (n, 1), floats
    "queries": "q k xq xk query key queries keys",  # (batch, heads, n, d); xq before the heads
    "vectors": "x tensor hidden_states",  # (batch, n, d)
    "waves": "cos sin freqs_cis",  # (1, n, d) twice; (n, d/2) complex
    "offset": "offset start_pos past_length cache_position past_key_values_length",
    "tokens": "input_ids tokens token_ids input_ids_shape attention_mask",
    "dropout": "dropout dropout_p dropout_rate p_dropout drop drop_rate",
    "device": "device",
    "dtype": "dtype",
}
ROLE = {name: role for role, names in ROLES.items() for name in names.split()}
PLACES = frozenset(("ids", "positions", "times", "points"))
NO_SIZE = re.compile(  # a parameter that neither size may fill
    "freq|period|theta|base|scale|head|band|idx|shift|sigma|rate|temperature|factor|bucket|dtype"
    "|config|cfg|hparams"
)

SEQUENCE_FIRST = re.compile(
    r"\b((?i:seq|len|time)\w*( len\w*)?|[STL]), *((?i:batch)\w*|bs\w*|[BN])\b"
)
BATCH_FIRST = re.compile(r"\b((?i:batch)\w*|bs\w*|[BN]), *((?i:seq|len|time)\w*|[STLN])\b")


@dataclass(frozen=True)
class Arguments:
    """Arguments that a SPEC states itself."""

    by_order: tuple[Any, ...] = ()
    by_name: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.by_order or self.by_name)


@dataclass(frozen=True)
class CodeRequest:
    """A table that user code is asked for; errors call the code by its SPEC."""

    spec: str
    length: int
    d: int
    grid: tuple[int, ...] = ()
    arguments: Arguments = Arguments()
    seed: int | None = None


def split_arguments(spec: str) -> tuple[str, Arguments]:
    """A SPEC without its arguments, and those.

    >>> split_arguments("py:model:Timesteps(64, flip=True)")
    ('py:model:Timesteps', Arguments(by_order=(64,), by_name={'flip': True}))
    """
    name, bracket, tail = spec.partition("(")
    if not bracket:
        return spec, Arguments()
    try:
        call = ast.parse(f"f({tail}", mode="eval").body
        assert isinstance(call, ast.Call), "something follows the arguments"
        by_order = tuple(ast.literal_eval(value) for value in call.args)
        by_name = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, AssertionError, RecursionError, MemoryError) as error:
        raise PefourierError(
            f"cannot read the arguments of {shown(spec)}: write numbers, 'text', True, None or "
            "lists of them, as py:module:Class(max_period=100, shape=(8, 10)); what needs an "
            "object is made in a file of yours and named py:file:instance"
        ) from error
    return name, Arguments(by_order, by_name)


def is_needed(p: inspect.Parameter) -> bool:
    """Whether a call must give it."""
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Its parameters; None of what is built in C and has no signature."""
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        return None


def needed_names(function: Callable[..., Any]) -> list[str]:
    """Names of what a call must give."""
    return [p.name for p in parameters_of(function) or () if is_needed(p)]


def roles_of(names: list[str]) -> set[str]:
    """Roles of some names, "" of those that have none.

    >>> sorted(roles_of(["q", "cos", "mask"]))
    ['', 'queries', 'waves']
    """
    return {ROLE.get(name, "") for name in names}


def place_values(positions: np.ndarray, device: Any = None) -> dict[str, Any]:
    """Positions (n,) in the form of each role, tensors where torch is there."""
    torch = sys.modules.get("torch")
    indices, times = positions, positions.astype(np.float32)
    if torch is not None:
        indices, times = (torch.as_tensor(x, device=device) for x in (indices, times))
    return {"ids": indices[None], "positions": indices, "times": times, "points": times[:, None]}


def call_with_sizes(request: CodeRequest, function: Callable[..., Any]) -> Any:
    """What a function gives for sizes and positions, or the instance that a class makes."""
    is_class, stated = inspect.isclass(function), request.arguments
    sizes = {"d": request.d, "length": request.length}
    sizes = sizes if is_class else dict(reversed(sizes.items()))
    parameters = parameters_of(function)
    if parameters is None:
        return function(*(stated.by_order or sizes.values()), **stated.by_name)
    values = (
        sizes | {"dropout": 0.0} | ({} if is_class else place_values(np.arange(request.length)))
    )
    free = [p for p in parameters[len(stated.by_order) :] if p.name not in stated.by_name]
    arguments = {p.name: values[ROLE[p.name]] for p in free if takes(p, values, is_class)}
    spare = [values[role] for role in sizes if role not in roles_of([*arguments])]
    for p in free:
        if is_needed(p) and p.name not in arguments:
            if not spare or NO_SIZE.search(p.name) or p.kind is p.KEYWORD_ONLY:
                raise unfit(request, function, f"needs {p.name}, which no size fits")
            arguments[p.name] = spare.pop(0)
    in_order = [
        arguments.pop(p.name) for p in free if p.kind is p.POSITIONAL_ONLY and p.name in arguments
    ]
    return function(*stated.by_order, *in_order, **stated.by_name, **arguments)


def takes(p: inspect.Parameter, values: Mapping[str, Any], is_class: bool) -> bool:
    """Whether a parameter is given the value of its role.

    A class keeps a longest length of its own where that is enough: codes may depend on it.
    """
    role = ROLE.get(p.name, "")
    if role == "length":
        return not (is_class and type(p.default) is int and p.default >= values["length"])
    return role in ("d", "dropout") or (role in values and is_needed(p))


def stated_order(code: Any) -> str:
    """Whether code says "sequence" or "batch" of its first axis, by a switch or in its source."""
    switch = getattr(code, "batch_first", None)
    if isinstance(switch, bool):
        return "batch" if switch else "sequence"
    try:
        source = inspect.getsource(code if inspect.isroutine(code) else type(code))
    except (OSError, TypeError):
        return ""
    mentions = [bool(pattern.search(source)) for pattern in (SEQUENCE_FIRST, BATCH_FIRST)]
    return {(True, False): "sequence", (False, True): "batch"}.get((mentions[0], mentions[1]), "")


def axis_findings(code: Any, axis: int) -> list[Finding]:
    """What is said of code whose codes run along one of its axes 0 and 1: one is the batch."""
    if axis == 0:
        stated = stated_order(code) == "sequence"
        return [finding("sequence-first") if stated else finding("batch-axis", "first")]
    return [finding("batch-axis", "second")] if stated_order(code) == "sequence" else []


def unfit(request: CodeRequest, code: Any, why: str) -> PefourierError:
    """The error for code that fits no convention, with a wrapper to paste as its note."""
    error = PefourierError(
        f"{shown(request.spec)} {why}; write a wrapper: a function of (length, d), a module of "
        "zeros (batch, length, d) or of positions, or a rotation of (q, k), (x, positions) or "
        "(q, k, cos, sin) by these names"
    )
    error.add_note(wrapper_of(request, code))
    return error


def wrapper_of(request: CodeRequest, code: Any) -> str:
    """Three lines of Python that call some code, with … for what no name says."""
    path, _, arguments = request.spec.removeprefix("py:").partition("(")
    module, _, name = path.rpartition(":")
    name = name if module else path.rpartition(".")[2]
    kind = code if inspect.isclass(code) else type(code)
    values = {"length": "length", "d": "d", "ids": "torch.arange(length)[None]"}
    values |= {"positions": "torch.arange(length)", "times": "torch.arange(length).float()"}
    values |= {"points": "torch.arange(length)[:, None].float()", "device": "'cpu'"}
    values |= {"tokens": "torch.ones(1, length, dtype=torch.long)", "offset": "0"}
    values |= {"vectors": "torch.zeros(1, length, d)"}

    def call(function: Callable[..., Any], stated: Arguments = Arguments(), text: str = "") -> str:
        free = [word for word in needed_names(function)[len(stated.by_order) :]]
        words = [word for word in free if word not in stated.by_name]
        roles = [(word, ROLE.get(word, "")) for word in words]
        filled = [f"{w}={w if role == 'queries' else values.get(role, '...')}" for w, role in roles]
        return f"({', '.join([text.removesuffix(')')] * bool(text) + filled)})"

    is_module = hasattr(code, "forward")
    run = bound_forward(code) if is_module else code
    turns = "queries" in roles_of(needed_names(run))
    head = "import torch" + (f"; from {module} import {name.partition('.')[0]}" if module else "")
    makes = inspect.isclass(code) or kind.__qualname__ == name or not is_module
    rows = name + (call(kind if is_module else code, request.arguments, arguments) if makes else "")
    rows += call(run) if is_module else ""
    signature = "rotate(q, k)" if turns else "codes(length, d)"
    shapes = "two of (batch, heads, length, d)" if turns else "(length, d)"
    return f"{head}\ndef {signature}:\n    return {rows}  # {shapes}"


def bound_forward(module: Any) -> Callable[..., Any]:
    """The forward of an instance, or of a class without its self."""
    if not inspect.isclass(module):
        return module.forward

    def forward() -> None:
        """Stands for the method, in whose signature self is given."""

    inherited = inspect.signature(module.forward).parameters.values()
    forward.__signature__ = inspect.Signature([*inherited][1:])  # type: ignore[attr-defined]
    return forward
