"""How long are the rows of queries and keys? Read once, with gains multiplied in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.weights.heads import Projection, known_names
from pefourier.weights.model import ModelWeights, Site
from pefourier.weights.tensors import Tensor

AT_ONCE = 2**20  # numbers of a tensor in memory at a time: two threads seldom wait for another
Scale = Callable[[int, int], np.ndarray]  # of rows from one to another


@dataclass(frozen=True)
class LayerEnergies:
    """Energies of the rows of a layer's heads, gains multiplied in."""

    layer: int
    rotation: int
    q: np.ndarray  # (heads, d)
    k: np.ndarray  # (kv_heads, d)
    bias_q: np.ndarray | None
    bias_k: np.ndarray | None
    gains: bool  # whether those of the norm before are there
    normed: bool  # whether queries or keys are normalised again


def energies_at(model: ModelWeights, site: Site) -> LayerEnergies:
    """The energies of the rows of a layer's heads, a tensor at a time."""
    one = site.attention
    (q, bias_q), (k, bias_k) = (row_energies(model, part) for part in (one.q, one.k))
    gains, normed = one.k.norm is not None, bool(one.q.gains or one.k.gains)
    return LayerEnergies(one.layer, site.rotation, q, k, bias_q, bias_k, gains, normed)


@np.errstate(invalid="ignore", over="ignore")  # what is not finite is refused at the end
def row_energies(model: ModelWeights, part: Projection) -> tuple[np.ndarray, np.ndarray | None]:
    r"""Energies (heads, d) of the rows of a projection with its gains, and those of constants.

    A norm that takes out the mean of its input leaves of a row w with gains g
    :math:`|w \circ g|^2 - (w \cdot g)^2 / n`, n the number of columns. What a row adds whatever the
    input is its bias, and what it makes of the norm's.
    """
    tensors, tensor = model.tensors, model.tensors[part.tensor]
    columns = tensor.shape[1]
    gain = np.ones(columns)
    if part.norm is not None:
        gain = tensors[part.norm].vector() + model.plus_one
        if len(gain) != columns:
            raise PefourierError(
                f"{shown(part.norm)} has {len(gain)} gains, {shown(part.tensor)} {columns} columns"
            )
    first, last = int(part.index.min()), int(part.index.max()) + 1
    scale = scale_of(tensors, tensor)
    squared = (gain**2).astype(np.float32)
    step = max(AT_ONCE // max(columns, 1), 1)
    energies = np.zeros(last)
    for top, end, some, sizes in tensor.sizes(first, last, step):
        gains = squared if scale is None else squared * scale(top, end) ** 2
        np.multiply(sizes, sizes, out=sizes)
        energies[top:end] += weighted_sums(sizes, np.ascontiguousarray(gains[..., some]))
    bias = tensors[part.bias].vector() if part.bias else None
    shift = tensors.get((part.norm or "").removesuffix("weight") + "bias")
    if shift is not None and shift.shape != (columns,):
        raise PefourierError(
            f"{shown(shift.name)} has shape {shift.shape}, {shown(part.tensor)} {columns} columns"
        )
    if model.centred(part.norm):
        beta = np.zeros(columns) if shift is None else shift.vector()
        vectors, images = np.stack([beta, gain / np.sqrt(columns)], axis=1), np.zeros((last, 2))
        for a in range(first, last, step):
            b = min(a + step, last)
            images[a:b] = tensor.rows(a, b) * (1 if scale is None else scale(a, b)) @ vectors
        energies = np.maximum(energies - images[:, 1] ** 2, 0.0)
        if shift is not None:
            bias = images[:, 0] + (0 if bias is None else bias[:last])
    rows = head_gains(tensors, part, model.plus_one)
    energies, constant = energies[part.index] * rows**2, None
    if bias is not None:
        constant = (bias[part.index] * rows) ** 2
    if not (np.isfinite(energies).all() and (constant is None or np.isfinite(constant).all())):
        raise PefourierError(
            f"{shown(part.tensor)} of {shown(tensor.path)}, its gains or its bias hold NaN, "
            "infinities or numbers beyond 1e19"
        )
    return energies, constant


def weighted_sums(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums over columns of float32 times weights; sums of up to 512 are added as float64.

    >>> weighted_sums(np.float32([[9, 16], [0, 4]]), np.float32([1, 0.5]))
    array([17.,  2.])
    """
    columns = rows.shape[-1]
    run = next(n for n in range(min(columns, 512), 0, -1) if columns % n == 0)
    runs, weights = (one.reshape(*one.shape[:-1], -1, run) for one in (rows, weights))
    sums = np.vecdot(runs, weights)
    return sums @ np.ones(sums.shape[-1])


def scale_of(tensors: Mapping[str, Tensor], tensor: Tensor) -> Scale | None:
    """What the stored numbers of some rows are multiplied by; None where they are plain."""
    stem = tensor.name.removesuffix("weight")
    name = next((stem + end for end in known_names()["scales"] if stem + end in tensors), None)
    if name is None:
        return None
    own = tensors[name]
    scale = own.vector().reshape(own.shape or (1,)).astype(np.float32)
    rows, columns = tensor.shape
    if scale.size == 1:
        return lambda a, b: scale.reshape(1, 1)
    if scale.shape in ((rows,), (rows, 1)):
        return lambda a, b: scale.reshape(-1, 1)[a:b]
    if scale.ndim == 2:
        blocks = [block_size(n, m) for n, m in zip(tensor.shape, scale.shape, strict=True)]
        if all(blocks):
            tall, wide = blocks
            return lambda a, b: np.repeat(scale[np.arange(a, b) // tall], wide, axis=1)[:, :columns]
    raise PefourierError(
        f"{shown(name)} has the shape {own.shape}, which scales {tensor.shape} in no known way"
    )


def block_size(whole: int, parts: int) -> int | None:
    """The power of two that cuts a side into so many blocks, the last one maybe shorter."""
    return next((2**n for n in range(30) if -(-whole // 2**n) == parts), None)


def head_gains(tensors: Mapping[str, Tensor], part: Projection, plus_one: bool) -> np.ndarray:
    """The gains of the norm of queries or keys for each row (heads, d); ones without it."""
    if not part.gains:
        return np.ones(part.index.shape)
    heads, d = part.index.shape
    own = np.concatenate([tensors[name].vector() for name in part.gains]) + plus_one
    if len(own) == heads * d:
        return own.reshape(heads, d)
    if len(own) == d:
        return np.broadcast_to(own, (heads, d))
    raise PefourierError(
        f"{shown(part.gains[0])} has {len(own)} gains for {heads} heads of {d} rows"
    )
