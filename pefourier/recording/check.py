"""Check what attention got of positions against a model's config.

Conventions
-----------
A pair of columns z of queries or keys becomes w z, and w is f exp(i p omega): f is the attention
factor, p the position. w is fitted over the recorded heads; the passed cosines and sines take its
place if they agree with it, because they are exact. Causes are codes, as in `compare` and
`positions`; each reproduces what was seen, or the layer is partly seen. `harmless`: the cause
changes no attention score.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.construction.biases import Biases, compare_heads, first_keys, read_bias
from pefourier.construction.outcome import uncompared
from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding, from_table
from pefourier.encodings.loader import open_model
from pefourier.encodings.sources.huggingface import ModelFile, first_row
from pefourier.encodings.sources.tables import write_tensors
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.ids.masks import as_visible
from pefourier.questions.compare import compare
from pefourier.recording.file import LayerArrays, Sequence, config_of
from pefourier.types import (
    Array,
    Bools,
    Counts,
    Fields,
    Floats,
    Places,
    Texts,
    frozen,
    frozen_arrays,
)
from pefourier.weights.pair_energy import pair_rows
from pefourier.writing.page import fields_of, plain
from pefourier.writing.text import number, ranges

if TYPE_CHECKING:
    from torch import nn

LAYOUTS = ("halves", "neighbours")
NEAR, EXACT, COARSE = 3e-4, 2e-5, 2e-2  # deviations of w: fitted, passed, in bfloat16
AHEAD = 64  # positions after the last one that are tried
NOT_ROTATION = 1e-5  # share of the energy that no rotation explains
ROWS = {"shifted", "cache-offset", "padding-counted", "other-row"}  # causes of ids alone
T5_BIAS = "SelfAttention.relative_attention_bias.weight"
ROTATION = (  # what was seen of it, whole or not
    "rotation and positions of queries and keys",
    "a rotation that was not seen whole, or that no cause explains",
)
VERDICTS = ("different", "partly seen", "as expected")  # the worst first


@frozen
class LayerCheck:
    """Layers with one verdict; none: the vectors that are added to the input."""

    layers: Counts
    verdict: str
    causes: tuple[Fields, ...]
    seen: Texts

    @property
    def words(self) -> str:
        """The layers, the verdict and the causes in one line."""
        where = f"layers {ranges(self.layers)}" if self.layers else "input"
        causes = map(cause_in_words, self.causes)
        return "; ".join([f"{where}: {self.verdict.upper()}", *causes, *self.seen])


def cause_in_words(cause: Fields) -> str:
    """Return the code of a cause, with its values.

    >>> cause_in_words({"code": "base", "changes": {"rho": [1e4, 5e5]}, "part": "keys"})
    'base (rho 10000 to 5e+05, part keys)'
    """
    changes = [f"{k} {number(a)} to {number(b)}" for k, (a, b) in cause.get("changes", {}).items()]
    values = [f"{k} {cause[k]}" for k in ("by", "at", "of", "window", "part") if k in cause]
    unchanged = ["scores unchanged"] if cause.get("harmless") else []
    words = ", ".join([*changes, *values, *unchanged])
    return f"{cause['code']} ({words})" if words else str(cause["code"])


@frozen
class Check:
    """The verdict on a recording, with layers in groups."""

    layers: tuple[LayerCheck, ...]

    @property
    def verdict(self) -> str:
        """The worst verdict of the layers."""
        return min((group.verdict for group in self.layers), key=VERDICTS.index)

    def __str__(self) -> str:
        """Return the verdict, and one line for each group of layers."""
        return "\n  ".join([f"{self.verdict.upper()}.", *(group.words for group in self.layers)])

    def to_dict(self) -> Fields:
        """Return the verdict and the groups of layers as plain values."""
        return dict(
            plain({"verdict": self.verdict, "layers": self.layers, "conclusion": str(self)})
        )


@frozen
class Due:
    """What a config sets for a layer."""

    kind: str  # rotate, none, add, bias or unknown
    encoding: Encoding | None = None
    layout: str | None = None
    window: int | None = None


@frozen_arrays
class Applied:
    """The rotation of queries or keys: w (rows, tokens, pairs) and the weight of each."""

    w: Array
    weight: Floats
    layouts: Texts  # of the columns before and after
    near: float  # deviation that rounding explains
    is_rotation: bool


def check_recording(
    sequences: list[Sequence], model: nn.Module, spec: str | None, left_out: int
) -> Check:
    """Check each layer of each sequence against a config, or a SPEC.

    Raises
    ------
    PefourierError
        If no attention was seen, or the model has no config and no SPEC is given.
    """
    if not any(one.layers or one.added for one in sequences):
        raise PefourierError(
            "no attention was seen; call the model within the with block, and name the function "
            "that rotates: record(model, rotate='module:name')"
        )
    config = config_of(getattr(model, "config", None))
    if spec is None and (config is None or "model_type" not in config):
        raise PefourierError("the model has no config; pass a SPEC, such as check('rope:rho=1e4')")
    found: list[LayerCheck] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        for one in sequences:
            file = open_model(str(path)) if spec is None else None
            kinds = set()
            for number, layer in one.layers.items():
                enc = stored_bias(folder, model, one.names[number], one) if spec is None else None
                due = Due("bias", enc) if enc else due_of(file, spec, number, one, layer)
                found.append(check_layer(number, layer, one, due, left_out))
                kinds.add(due.kind)
            for number in unseen_layers(one, model, file):
                found.append(LayerCheck((number,), VERDICTS[1], (), ("attention was not seen",)))
            if "rotate" not in kinds:
                found += [check_added(name, one, file, model) for name in one.added]
    groups: dict[tuple[str, str, Texts], list[LayerCheck]] = {}
    for part in found:
        groups.setdefault((part.verdict, str(part.causes), part.seen), []).append(part)
    return Check(
        tuple(
            replace(parts[0], layers=tuple(sorted({i for part in parts for i in part.layers})))
            for parts in groups.values()
        )
    )


def unseen_layers(one: Sequence, model: nn.Module, file: Any) -> list[int]:
    """Return the layers beside those that were seen in which the config has positions."""
    stacks = {name.rpartition(".")[0] for name in one.names.values() if "." in name}
    if file is None or len(stacks) != 1:
        return []
    every = range(len(list(model.get_submodule(stacks.pop()).children())))
    due = {i for run in file.layers if run.kind != "none" for i in run.index or every}
    return sorted(due & {*every} - one.layers.keys())


def stored_bias(folder: str, model: nn.Module, layer: str, one: Sequence) -> Encoding | None:
    """Return the trained biases of a layer of T5, or those that its stack shares; None without."""
    tables = {n: x for n, x in model.state_dict().items() if n.endswith(T5_BIAS)}
    stack, _, _ = layer.partition(".")
    own = next((n for n in tables if n.startswith(f"{layer}.")), None)
    name = own or next((n for n in tables if n.startswith(f"{stack}.")), None)
    if name is None or stack not in ("encoder", "decoder"):
        return None
    with (Path(folder) / "model.safetensors").open("wb") as stream:
        write_tensors(stream, {name: tables[name].detach().float().cpu().numpy()})
    return open_model(f"{folder}#{stack}").encoding(max(one.width, 2))


def due_of(file: Any, spec: str | None, number: int, one: Sequence, layer: LayerArrays) -> Due:
    """Return what a config or a SPEC sets for a layer."""
    if spec is not None:
        size = None if layer.q_before is None else layer.q_before.shape[-1]
        sized = {} if size is None or "d=" in spec else {"d": size}
        enc = load(spec, max(one.width, 2), **sized)
        return Due(enc.injection, enc)
    run = next((run for run in file.layers if number in run.index or not run.index), None)
    if run is None:
        return Due("unknown")
    if run.kind == "none":
        return Due("none", window=run.window)
    try:
        own: ModelFile = file.of_layer(run.part) if run.part else file
        enc = own.encoding(max(one.width, 2), is_sketch=True)
    except PefourierError:
        return Due("unknown", window=run.window)
    if enc.name == "learned" and enc.origin == "formula":  # without weights
        return Due("add", window=run.window)
    kind = "none" if enc.name == "none" else enc.injection
    return Due(kind, enc, file.pairing, run.window)


def check_layer(
    number: int, layer: LayerArrays, one: Sequence, due: Due, left_out: int
) -> LayerCheck:
    """Check the rotation, the positions and the mask of a layer."""
    causes: list[Fields] = []
    seen = dict[str, bool]()  # whether it leaves the layer partly seen
    others = any(x.q_after is not None for x in one.layers.values())
    if due.kind == "rotate" and layer.q_before is None:
        if layer.is_attended and others:
            causes = [{"code": "unrotated"}]
        else:
            seen["the rotation was not seen; name its function with rotate="] = True
    elif due.kind == "rotate":
        causes, is_open = check_rotation(layer, one, due)
        seen[ROTATION[is_open]] = is_open
    elif layer.q_before is not None and layer.q_after is not None:
        if not np.allclose(layer.q_before, layer.q_after, rtol=1e-2, atol=1e-5):
            if due.kind in ("none", "add", "bias"):
                causes = [{"code": "rotated"}]
            else:
                seen["a rotation that the config does not describe"] = True
    elif due.kind == "bias" and due.encoding is not None and layer.bias is not None:
        causes = check_bias(layer.bias[0], one, due.encoding)
        seen["biases of the recorded heads"] = False
    elif due.kind in ("none", "add") and layer.is_attended:
        seen["attention without a rotation"] = False
    else:
        seen["positions of this kind were not seen"] = True
    known = check_mask(layer, one, due)
    if known:
        causes += known[0]
        seen["mask"] = False
    elif known is None:
        seen["a mask that the config does not describe"] = True
    if left_out:
        seen[f"{left_out} calls are not recorded"] = False
    is_bad = any(not cause.get("harmless") for cause in causes)
    verdict = VERDICTS[0 if is_bad else 1 if any(seen.values()) else 2]
    return LayerCheck((number,), verdict, tuple(causes), tuple(seen))


def tokens_due(one: Sequence, tokens: int, rows: int) -> tuple[Places, Bools]:
    """Return the positions (rows, tokens) that the mask sets, and which tokens are no padding."""
    mask, width = one.attention_mask, one.past + tokens
    if mask is None or mask.shape[-1] < width or len(mask) != rows:
        ids = np.tile(np.arange(one.past, width), (rows, 1))
        return ids, np.ones(ids.shape, bool)
    real = mask[:, :width] != 0
    return np.maximum(real.cumsum(axis=1) - 1, 0)[:, one.past :], real[:, one.past :]


def check_rotation(layer: LayerArrays, one: Sequence, due: Due) -> tuple[list[Fields], bool]:
    """Return the causes of a rotation that is not as expected, and whether some have no name."""
    enc = due.encoding
    if enc is None or not enc.measure:
        return [], True
    causes, is_open, orders = dict[str, list[Fields]](), False, list[str]()
    for part, name in (("queries", "q"), ("keys", "k")):
        before, after = getattr(layer, f"{name}_before"), getattr(layer, f"{name}_after")
        if before is None or after is None:
            is_open = True
            continue
        pairs = len(enc.measure.frequencies)
        applied = fit_rotation(before, after, pairs, due.layout or "halves", layer)
        found = explain_rotation(applied, one, enc, enc.measure.frequencies, due.layout)
        causes[part] = found or []
        if found is None:
            is_open = True
        else:
            orders.append(applied.layouts[1])
    if len({*orders}) > 1:  # their products mix pairs
        causes["keys"].append({"code": "layout", "changes": {"layout": orders}})
    if len(causes) == 2 and str(causes["queries"]) == str(causes["keys"]):
        return causes["queries"], is_open
    return [
        {**c, "part": part, "harmless": False} for part, found in causes.items() for c in found
    ], is_open


def fit_rotation(
    before: Array, after: Array, pairs: int, layout: str, layer: LayerArrays
) -> Applied:
    """Fit w over heads, in the layouts of columns that make it a rotation."""
    d, width = before.shape[-1], 2 * pairs
    before = before[:, : after.shape[1]]
    columns = slice(d - d % 2)
    for part in (slice(d - width, d), slice(width)) if width < d else ():
        if (np.delete(before, part, axis=-1) == np.delete(after, part, axis=-1)).all():
            columns = part  # the others are not rotated
    x, y = (np.asarray(a[..., columns], float) for a in (before, after))
    rounded = is_coarse(after)
    limit = COARSE**2 if rounded else NOT_ROTATION
    order = sorted(LAYOUTS, key=lambda name: name != layout)
    fits = []
    for layouts in sorted(product(order, order), key=lambda two: two[0] != two[1]):
        rows = [pair_rows(x.shape[-1] // 2, name) for name in layouts]
        z, turned = (a[..., r[0]] + 1j * a[..., r[1]] for a, r in zip((x, y), rows, strict=True))
        weight = (abs(z) ** 2).sum(axis=1)
        w = (turned * z.conj()).sum(axis=1) / np.maximum(weight, 1e-30)
        size = np.average(abs(w), weights=weight)
        apart = (abs(turned - w[:, None] * z) ** 2).sum() / max((abs(turned) ** 2).sum(), 1e-30)
        spread = np.average((abs(w) - size) ** 2, weights=weight) / max(size**2, 1e-30)
        fits.append((float(apart + spread), w, weight, layouts))
        if fits[-1][0] <= limit:
            break
    rest, w, weight, layouts = min(fits, key=lambda one: one[0])
    near = COARSE if rounded else NEAR
    passed = passed_waves(layer, w.shape)
    if passed is not None and deviation(w, passed, weight) <= near:
        w, weight, near = passed, np.ones(w.shape), COARSE if rounded else EXACT
    return Applied(w, weight, layouts, near, rest <= limit)


def is_coarse(numbers: Array) -> bool:
    """Whether all numbers are in bfloat16."""
    return not (np.ascontiguousarray(numbers, np.float32).view(np.uint32) & 0xFFFF).any()


def passed_waves(layer: LayerArrays, shape: Counts) -> Array | None:
    """Return the cosines and sines that were passed, as (rows, tokens, pairs) of w."""
    if layer.cos is None or layer.sin is None or layer.cos.shape != layer.sin.shape:
        return None
    waves, m = np.squeeze(layer.cos + 1j * layer.sin), shape[2]
    if waves.ndim not in (2, 3):
        return None
    if waves.shape[-1] == 2 * m:
        is_half = np.array_equal(waves[..., :m], waves[..., m:])
        waves = waves[..., :m] if is_half else waves[..., ::2]
    waves = waves.reshape(-1, *waves.shape[-2:])
    is_known = len(waves) in (1, shape[0]) and waves.shape[1:] == shape[1:]
    return np.broadcast_to(waves, shape) if is_known else None


def deviation(w: Array, wanted: Array, weight: Floats) -> float:
    """Return the weighted RMS difference, relative to the RMS size of what is wanted."""
    total = (weight * abs(wanted) ** 2).sum()
    return float(np.sqrt((weight * abs(w - wanted) ** 2).sum() / max(total, 1e-30)))


def explain_rotation(
    applied: Applied,
    one: Sequence,
    enc: Encoding,
    omega: Floats,
    layout: str | None,
) -> list[Fields] | None:
    """Return the causes that lead from the expected to the applied rotation; None: unknown."""
    rows, tokens, m = applied.w.shape
    ids, real = tokens_due(one, tokens, rows)
    causes: list[Fields] = []
    if not applied.is_rotation:
        return None
    factor = float(np.linalg.norm(enc.vectors(np.arange(1))) / np.sqrt(len(omega)))
    weight = applied.weight * real[..., None]
    size = float(np.average(abs(applied.w), weights=weight))
    if abs(size / factor - 1) > 4 * applied.near:
        causes.append({"code": "mscale", "changes": {"attention_factor": [factor, size]}})
    if layout and applied.layouts[0] != layout and tokens > 1:
        causes.append({"code": "layout", "changes": {"layout": [layout, applied.layouts[0]]}})
    w = applied.w / size
    if m == len(omega):
        is_inverted = deviation(w, np.exp(-1j * ids[..., None] * omega), weight) <= applied.near
        for sign in (-1, 1) if is_inverted and (ids > 0).any() else (1, -1):
            found = positions_of(w, weight, sign * omega, ids, applied.near)
            if found is None:
                continue
            if sign < 0 and tokens > 1 and not enc.params.get("backwards"):
                causes.append({"code": "inverted"})
            moved = causes_of_ids(found, ids, real, one, is_rotation=True)
            codes = {cause["code"] for cause in moved}
            if codes <= ROWS or ("rotated-twice" in codes and applied.near > EXACT):
                return [*causes, *moved]
            return [*causes, *(explain_frequencies(applied.w, ids, real, enc, causes) or moved)]
    if deviation(w, np.ones(w.shape), weight) <= applied.near:
        return [{"code": "unrotated"}]
    named = explain_frequencies(applied.w, ids, real, enc, causes)
    return [*causes, *(named or [{"code": "frequencies"}])]


def positions_of(
    w: Array, weight: Floats, omega: Floats, ids: Places, near: float
) -> Places | None:
    """Return the position of each token, that which is due if it fits; None if some has none."""
    expected = np.exp(1j * ids[..., None] * omega)
    total = np.maximum(weight.sum(axis=-1), 1e-30)
    apart = np.sqrt((weight * abs(w - expected) ** 2).sum(axis=-1) / total)
    limit, found = 4 * near, ids.copy()
    at = np.nonzero(apart > limit)
    if at[0].size:
        tried = np.arange(-AHEAD, 2 * int(ids.max()) + AHEAD)
        waves = np.exp(-1j * np.multiply.outer(tried, omega))
        best = ((weight * w)[at] @ waves.T).real.argmax(axis=1)
        found[at] = tried[best]
        apart[at] = np.sqrt((weight[at] * abs(w[at] - waves[best].conj()) ** 2).sum(-1) / total[at])
    return found if (apart <= limit).all() else None


def causes_of_ids(
    found: Places, ids: Places, real: Bools, one: Sequence, *, is_rotation: bool
) -> list[Fields]:
    """Return the cause of ids that are not due; of a rotation some change no score."""
    apart = found - ids
    moved = apart * real
    if not moved.any():
        return []
    rows, tokens = ids.shape
    by = int(apart[real][0])
    steps = np.concatenate([np.arange(n) for n in one.steps])[:tokens]
    known = {
        "shifted": ids + by,
        "cache-offset": steps if len(one.steps) > 1 and len(steps) == tokens else ids,
        "padding-counted": np.arange(one.past, one.past + tokens),
        "rotated-twice": 2 * ids,
    }
    for code, wanted in known.items():
        if (found == wanted)[real].all():
            values: Fields = {"by": by} if code == "shifted" else {}
            if is_rotation and all(
                len({*x[y].tolist()}) < 2 for x, y in zip(apart, real, strict=True)
            ):
                values["harmless"] = True  # one shift for all tokens of a row
            return [{"code": code, **values}]
    bad = np.flatnonzero(moved.any(axis=1))
    for row, other in product(bad, range(rows)):
        both = real[row] & real[other] & (row != other)
        if len(bad) < rows and both.any() and (found[row] == ids[other])[both].all():
            return [{"code": "other-row", "within": {"rows": int(row)}, "of": int(other)}]
    from pefourier.questions.positions import judge_input

    batch = {"position_ids": found, "attention_mask": real.astype(int)}
    judged = judge_input(batch, {}, {}, None, None, None, None, None)
    named = [dict(cause) for span in judged.bad for cause in span.causes]
    unique = list({str(cause): cause for cause in named}.values())
    return unique or [{"code": "ids", "first": int(found[moved != 0][0])}]


def explain_frequencies(
    w: Array, ids: Places, real: Bools, enc: Encoding, causes: list[Fields]
) -> list[Fields]:
    """Return further causes, of the cosines and sines of the row with the most tokens."""
    row = int(real.sum(axis=1).argmax())
    waves = w[row, real[row]]
    if ids[row, real[row]][0] or len(waves) < 2:
        return []
    dump = np.hstack([waves.real, waves.imag]).astype(np.float32)
    try:
        compared = compare(enc, from_table(dump, "recorded"))
    except PefourierError:
        return []
    codes = {cause["code"] for cause in causes}
    found = compared.to_dict().get("causes") or ()
    return [dict(cause) for cause in found if cause["code"] not in codes]


def check_mask(layer: LayerArrays, one: Sequence, due: Due) -> list[list[Fields]] | None:
    """Return the causes of a mask, in a list that is empty if none was seen; None: unknown."""
    if not layer.causal or one.past:
        return []
    if layer.mask is not None:
        visible = as_visible(layer.mask)[:, : one.width]
        shaped = visible.reshape(len(layer.mask), -1, *visible.shape[1:])
        visible = np.asarray(shaped.all(axis=1))[..., : visible.shape[-2]]
    else:
        visible = np.tri(layer.q_queries * layer.is_causal, dtype=bool)[None]
    n, width = visible.shape[1:]
    if width < n or n < 2:
        return []
    lag = np.subtract.outer(np.arange(n), np.arange(n))
    _, real = tokens_due(one, n, len(visible))
    pairs = real[:, :, None] & real[:, None]
    causal: Array = (lag >= 0) & pairs
    window = due.window
    wanted: Array = causal & (lag < window) if window else causal
    known: list[tuple[list[Fields], Array]] = [
        ([], wanted),
        ([{"code": "mask-transposed"}], wanted.swapaxes(1, 2)),
        ([{"code": "window-ignored", "window": window}], causal),
        ([{"code": "not-causal"}], pairs),
    ]
    return [causes for causes, mask in known if (visible & pairs == mask).all()][:1] or None


def check_bias(bias: Array, one: Sequence, enc: Encoding) -> list[Fields]:
    """Compare the biases of the first row head by head, for tokens that are no padding."""
    heads, count, width = bias.shape
    keys = np.arange(width)
    if one.attention_mask is not None:
        keys = np.flatnonzero(one.attention_mask[0, :width])
    due, is_new = read_bias(enc), keys >= width - count
    if due is None or not is_new.any():
        return []
    queries = np.flatnonzero(is_new)
    numbers = bias[:, keys[is_new] - width + count][:, :, keys]
    due = first_keys(due, len(keys)).at(queries)
    due = replace(due, numbers=due.numbers[:heads])
    eps = float(2**-8 if is_coarse(bias) else FLOAT32_EPS)
    got = Biases(queries, numbers, eps, causal=due.causal)
    sizes = (len(keys),) * 2, (heads,) * 2
    found = compare_heads(uncompared("heads", *sizes), due, got)
    if found.verdict == "the same":
        return []
    return [fields_of(cause) for cause in found.causes] or [{"code": "unexplained"}]


def check_added(name: str, one: Sequence, file: Any, model: nn.Module) -> LayerCheck:
    """Check the rows of a table of positions that were added to the input."""
    module = model.get_submodule(name)
    rows = one.added[name]
    weight = getattr(module, "weight", None)
    if weight is None or weight.ndim != 2 or weight.shape[1] != rows.shape[-1]:
        return LayerCheck((), VERDICTS[1], (), (f"vectors of {name}",))
    table = weight.detach().float().cpu().numpy()
    flat = rows.reshape(-1, rows.shape[-1])
    nearest = ((table**2).sum(axis=1) - 2 * flat @ table.T).argmin(axis=1)
    first = first_row(file.model) if file is not None else 0
    if not np.array_equal(table[nearest], flat):
        return LayerCheck((), VERDICTS[1], (), (f"vectors of {name} that are not in its table",))
    found = nearest.reshape(rows.shape[:2]) - first
    mask = one.attention_mask
    if mask is not None and len(found) == 1 < len(mask):
        found = np.repeat(found, len(mask), axis=0)
    ids, real = tokens_due(one, found.shape[1], len(found))
    if first and file.model.row.get("first") == "padding":  # the row before is that of padding
        real = real & (found >= 0)
    causes = causes_of_ids(found, ids, real, one, is_rotation=False)
    return LayerCheck((), VERDICTS[0 if causes else 2], tuple(causes), (f"rows of {name}",))
