"""Record queries, keys, rotations, masks and vectors of positions of a running torch module.

Conventions
-----------
A layer is a number in a list of modules, such as ``model.layers.3``. Arrays are (rows, heads,
tokens, d) for queries and keys, (rows, tokens, d) for cosines and sines, (rows, tokens) for ids,
and (rows, heads, queries, keys) for masks and biases. The calls of a sequence, such as the steps of
a decode loop, are joined along their tokens; a call without cached keys starts a sequence. Tensors
are detached and copied to the CPU. `after` is what attention gets, if it is a rotation of what the
function that rotates returned.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import wraps
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from pefourier.errors import PefourierError, check_count, shown
from pefourier.recording.check import Check, check_recording
from pefourier.recording.file import KEPT, LayerArrays, Sequence, config_of
from pefourier.types import Array
from pefourier.writing.files import write_whole

ROTATES = re.compile(r"_?(apply_(rot|multimodal|interleaved|multidim|rope)|rotate_quer)\w*")
ROTARY = re.compile(r"rotary|rope", re.IGNORECASE)
TABLE = re.compile(r"(^|\.)(wpe|embed_positions?|w?position\w*)$")
OTHER = re.compile(r"cross|encdec|encoder_attn", re.IGNORECASE)  # keys of another sequence
SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
BIASES = ("position_bias", "alibi")
KEYS = ("k", "xk", "key", "key_layer", "key_states")


def record(
    model: nn.Module,
    *,
    rotate: str | Callable[..., Any] | None = None,
    heads: int = 2,
    tokens: int = 4096,
) -> Recording:
    """Record a torch module while a ``with`` block runs it.

    Parameters
    ----------
    model : torch.nn.Module
        A model of transformers, of another library, or your own.
    rotate : str or function, optional
        The function that rotates queries and keys, as "module:name" or the function itself, if its
        name is not like ``apply_rotary_pos_emb``.
    heads, tokens : int
        Number of heads, and of tokens of each layer, that are kept.

    Raises
    ------
    PefourierError
        If the model is not a torch module, or is compiled.

    Examples
    --------
    >>> with record(nn.Linear(2, 2)) as seen:
    ...     pass
    >>> len(seen.sequences)
    0
    """
    check_count("heads", heads)
    check_count("tokens", tokens)
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise PefourierError(f"record takes a torch module; got {kind}: pass the model itself")
    for module in model.modules():
        if hasattr(module, "_orig_mod") or isinstance(module, torch.jit.ScriptModule):
            raise PefourierError(
                "a compiled model calls no hooks; record the model before torch.compile "
                "(model._orig_mod)"
            )
    return Recording(model, rotate, heads, tokens)


class Recording:
    """Context manager of one recording; `sequences` holds what was seen."""

    def __init__(
        self, model: nn.Module, rotate: str | Callable[..., Any] | None, heads: int, tokens: int
    ) -> None:
        self.model, self.rotate, self.heads, self.tokens = model, rotate, heads, tokens
        self.sequences: list[Sequence] = []
        self.running: list[tuple[str, nn.Module, int]] = []  # with the number of tokens
        self.undo = ExitStack()
        self.is_numbered = any(re.search(r"\d", name) for name, _ in model.named_modules())
        self.busy = False  # inside a function that rotates
        self.left_out = 0  # calls
        self.call: Sequence | None = None
        self.masks: dict[tuple[Any, ...], tuple[Tensor, Array]] = {}  # of this call

    def __enter__(self) -> Self:
        try:
            self.wrap()
        except BaseException:
            self.undo.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.undo.close()
        self.running.clear()
        self.masks.clear()
        self.busy, self.call = False, None

    def check(self, spec: str | None = None) -> Check:
        """Compare what was recorded with the model's config, or with a SPEC."""
        return check_recording(self.sequences, self.model, spec, self.left_out)

    def save(self, path: str) -> None:
        """Write an .npz file that positions, compare and usage read: the first sequence."""
        if not self.sequences:
            raise PefourierError("nothing was recorded; call the model within the with block")
        if not path.endswith(".npz"):
            raise PefourierError(f"a recording is an .npz file; got {shown(path)}")
        seen, arrays = self.sequences[0], dict[str, Array]()
        for number, layer in seen.layers.items():
            found = {name: getattr(layer, name) for name in KEPT} | {"position_ids": seen.ids}
            arrays |= {f"layer{number}.{k}": x for k, x in found.items() if x is not None}
        if seen.attention_mask is not None:
            arrays["attention_mask"] = seen.attention_mask
        config = config_of(getattr(self.model, "config", None))
        about = {"layers": seen.names, "steps": seen.steps, "config": config}
        arrays["about"] = np.array(json.dumps(about))
        write_whole(path, lambda stream: np.savez(stream, allow_pickle=False, **arrays))

    def wrap(self) -> None:
        """Register hooks, and replace the functions that rotate and that attend."""
        places: dict[int, object] = {}
        for name, module in self.model.named_modules():
            places |= {
                id(p): p for p in (sys.modules[type(module).__module__], *type(module).__mro__)
            }
            is_table = TABLE.search(name) is not None
            is_own = not type(module).__module__.startswith("torch.")
            if is_table or is_own or any(True for _ in module.children()):
                enter, leave = self.hooks(name, module, is_table=is_table)
                handles = (
                    module.register_forward_pre_hook(enter, with_kwargs=True),
                    module.register_forward_hook(leave, always_call=True),
                )
                for handle in handles:
                    self.undo.callback(handle.remove)
        for place in places.values():
            if getattr(place, "__module__", getattr(place, "__name__", "")).startswith("torch."):
                continue
            for name in [n for n in vars(place) if ROTATES.fullmatch(n)]:
                self.replace(place, name, self.rotating)
            if "eager_attention_forward" in vars(place):
                self.replace(place, "eager_attention_forward", self.attending)
        if self.rotate is not None:
            self.replace(*named_function(self.rotate), self.rotating)
        functional = torch.nn.functional
        self.replace(functional, "scaled_dot_product_attention", self.attending)
        with suppress(ImportError):
            from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

            for name, function in list(ALL_ATTENTION_FUNCTIONS.items()):
                is_outer = "sdpa" in name  # it calls the function of torch
                ALL_ATTENTION_FUNCTIONS[name] = self.attending(function, is_outer=is_outer)
                self.undo.callback(ALL_ATTENTION_FUNCTIONS.__setitem__, name, function)

    def replace(self, place: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """Replace a function of a module or class until the recording ends."""
        kept = vars(place)[name]
        function = kept.__func__ if isinstance(kept, staticmethod | classmethod) else kept
        if inspect.isroutine(function):
            wrapped = wrapper(function)
            setattr(place, name, type(kept)(wrapped) if function is not kept else wrapped)
            self.undo.callback(setattr, place, name, kept)

    def hooks(
        self, name: str, module: nn.Module, *, is_table: bool
    ) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return what runs before and after a module."""

        def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not self.running:
                self.begin(kwargs)
            states = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            wide = next((x for x in states if x.ndim == 3 and x.is_floating_point()), None)
            count = (
                wide.shape[1] if wide is not None else self.running[-1][2] if self.running else 0
            )
            self.running.append((name, module, count))
            self.note_bias(kwargs)
            ids = kwargs.get("position_ids")
            if ids is None and ROTARY.search(name):
                ids = next(
                    (x for x in states if x.ndim in (2, 3) and not x.is_floating_point()), None
                )
            if self.call is not None and isinstance(ids, Tensor) and self.call.ids is None:
                self.call.ids = copy(
                    ids.reshape(-1, *ids.shape[-2:])[0] if ids.ndim > 1 else ids[None]
                )

        def leave(_: nn.Module, args: tuple[Any, ...], out: Any) -> None:
            if not self.running:
                return
            if (
                is_table
                and self.call is not None
                and isinstance(out, Tensor)
                and out.ndim in (2, 3)
            ):
                rows = out if out.ndim == 3 else out[None]
                self.call.added.setdefault(name, copy(rows[:, : self.tokens]))
            if ROTARY.search(name) and self.layer() is not None:  # rotates queries and keys itself
                whole = [x for x in args if isinstance(x, Tensor) and x.is_floating_point()]
                self.note_rotation({"q": whole[0], "k": whole[1]} if len(whole) == 2 else {}, out)
            self.running.pop()
            if not self.running:
                self.end()

        return enter, leave

    def begin(self, kwargs: dict[str, Any]) -> None:
        """Begin a call of the model."""
        if sum(one.rows * sum(one.steps) for one in self.sequences) >= self.tokens:
            self.left_out += 1
            return
        self.call = Sequence()
        mask, cache = kwargs.get("attention_mask"), kwargs.get("past_key_values")
        if isinstance(mask, Tensor) and mask.ndim == 2:
            self.call.attention_mask = copy(mask)
        if cache is not None and hasattr(cache, "get_seq_length"):
            with suppress(ValueError):  # no layer of attention yet
                self.call.past = int(cache.get_seq_length())

    def end(self) -> None:
        """Join the call to its sequence."""
        call, self.call = self.call, None
        self.masks.clear()
        if call is None or not (call.layers or call.added):
            return
        call.close()
        last = self.sequences[-1] if self.sequences else None
        if (
            last is not None
            and call.past == last.width
            and not last.past
            and call.rows == last.rows
        ):
            last.join(call)
        else:
            self.sequences.append(call)

    def layer(self) -> LayerArrays | None:
        """Return the arrays of the running layer; None outside layers and in cross-attention."""
        if self.call is None or not self.running or OTHER.search(self.running[-1][0]):
            return None
        for name, module, _ in reversed(self.running):
            found = re.match(r"(.*?)\.?(\d+)(\.|$)", name)
            if found and not ROTARY.search(name):
                made = self.call.layer(found[1], int(found[2]))
                causal = getattr(module, "is_causal", None)
                if isinstance(causal, bool) and made.causal is None:
                    made.causal = causal
                return made
        return None if self.is_numbered else self.call.layer("", 0)

    def rotating(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that rotates."""
        signature = inspect.signature(function)

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if self.busy or self.layer() is None:
                return function(*args, **kwargs)
            self.busy = True
            given = signature.bind(*args, **kwargs).arguments
            kept = {  # a function can change them in place
                k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in given.items()
            }
            try:
                out = function(*args, **kwargs)
            finally:
                self.busy = False
            self.note_rotation(kept, out)
            return out

        return wrapped

    def heads_first(self, tensor: Tensor) -> Array:
        """Return queries or keys as (rows, heads, tokens, d), with few heads."""
        if tensor.ndim == 3:
            tensor = tensor[:, None]
        if tensor.shape[1] == self.running[-1][2] != tensor.shape[2]:  # tokens before heads
            tensor = tensor.transpose(1, 2)
        return copy(tensor[:, : self.heads, : self.tokens])

    def note_rotation(self, given: dict[str, Any], out: Any) -> None:
        """Keep queries and keys before and after a rotation, and its cosines and sines."""
        layer = self.layer()
        results = out if isinstance(out, tuple | list) else (out,)
        tensors = {k: x for k, x in given.items() if isinstance(x, Tensor)}
        if layer is None or not tensors:
            return
        inputs = dict[str, Array]()
        for name, tensor in tensors.items():
            if tensor.is_complex():
                layer.cos, layer.sin = copy(tensor.real), copy(tensor.imag)
            elif name in ("cos", "sin"):
                setattr(layer, name, copy(tensor))
            elif tensor.ndim in (3, 4):
                inputs[name] = self.heads_first(tensor)
        for result in results[:2]:
            if isinstance(result, Tensor) and result.ndim in (3, 4):
                after = self.heads_first(result)
                name = next((name for name, x in inputs.items() if x.shape == after.shape), "")
                if name:
                    layer.rotated(name in KEYS, inputs.pop(name), after)

    def attending(
        self, function: Callable[..., Any], *, is_outer: bool = False
    ) -> Callable[..., Any]:
        """Wrap a function that attends; one that is outer adds a bias for another to attend."""
        is_builtin = inspect.isbuiltin(inspect.unwrap(function))  # no signature
        names = SDPA if is_builtin else tuple(inspect.signature(function).parameters)

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.note_bias(kwargs)
            layer = None if is_outer else self.layer()
            if layer is not None and not layer.is_attended:
                given = {**dict(zip(names, args, strict=False)), **kwargs}
                tensors = [x for x in given.values() if isinstance(x, Tensor)][:2]
                layer.attended(*(copy(x[:, : self.heads, -self.tokens :]) for x in tensors))
                self.note_mask(layer, given)
            return function(*args, **kwargs)

        return wrapped

    def note_mask(self, layer: LayerArrays, given: dict[str, Any]) -> None:
        """Keep the mask or bias that is added to scores."""
        mask = given.get("attn_mask", given.get("attention_mask"))
        layer.is_causal = bool(given.get("is_causal"))
        if isinstance(mask, Tensor) and mask.ndim == 4:
            layer.mask = self.copied(mask[:, : self.heads, : self.tokens, : self.tokens])

    def note_bias(self, given: dict[str, Any]) -> None:
        """Keep the bias of the first row for each query; one for all queries may have more keys."""
        bias = next((x for name in BIASES if isinstance(x := given.get(name), Tensor)), None)
        layer = None if bias is None else self.layer()
        if bias is None or layer is None or self.call is None or bias.ndim not in (3, 4):
            return
        if layer.bias is not None:  # the next may be that of cross-attention
            return
        count = self.running[-1][2]
        heads = bias[: self.heads] if bias.ndim == 3 else bias[0, : self.heads]
        width = min(self.call.past + count, heads.shape[2])
        layer.bias = self.copied(heads[None, :, : self.tokens, -width:])
        if layer.bias.shape[2] == 1:
            layer.bias = np.repeat(layer.bias, min(count, self.tokens), axis=2)

    def copied(self, tensor: Tensor) -> Array:
        """Copy a mask or bias once for all layers that get it."""
        key = tensor.data_ptr(), tensor.shape, tensor.stride()
        if key not in self.masks:
            self.masks[key] = tensor, copy(tensor)
        return self.masks[key][1]


def copy(tensor: Tensor) -> Array:
    """Return a tensor's numbers on the CPU; bfloat16 becomes float32."""
    found = tensor.detach()
    if found.dtype in (torch.bfloat16, torch.float16):
        found = found.float()
    return np.array(found.cpu().numpy())


def named_function(rotate: str | Callable[..., Any]) -> tuple[Any, str]:
    """Return the module or class and the name of a function."""
    given = rotate if isinstance(rotate, str) else f"{rotate.__module__}:{rotate.__qualname__}"
    module, _, path = given.partition(":")
    outer, _, name = path.rpartition(".")
    try:
        place = pkgutil.resolve_name(f"{module}:{outer}")
        vars(place)[name]
    except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise PefourierError(f"rotate must be a function or MODULE:NAME; got {given}") from error
    return place, name
