"""How long are the rows of queries and keys? Read once, with gains multiplied in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.weights.heads import Projection, Tensors, known_names
from pefourier.weights.model import ModelWeights, Site
from pefourier.weights.tensors import Tensor

AT_ONCE = 2**18  # numbers of a tensor in memory at a time: two threads seldom wait for another
Scale = Callable[[int, int], np.ndarray]  # of rows from one to another


@dataclass(frozen=True)
class LayerEnergies:
    """Energies of the rows of a layer's heads, gains multiplied in."""

    layer: int
    rotation: int
    q: np.ndarray  # (heads, d)
    k: np.ndarray  # (kv_heads, d)
    gains: bool  # whether those of the norm before are there
    normed: bool  # whether queries or keys are normalised again


def energies_at(model: ModelWeights, site: Site) -> LayerEnergies:
    """The energies of the rows of a layer's heads, a tensor at a time."""
    q, k = site.attention.q, site.attention.k
    energies = (row_energies(model, part) for part in (q, k))
    normed = bool(q.gains or k.gains)
    return LayerEnergies(site.attention.layer, site.rotation, *energies, k.norm is not None, normed)


@np.errstate(invalid="ignore", over="ignore")  # what is not finite is refused at the end
def row_energies(model: ModelWeights, part: Projection) -> np.ndarray:
    r"""Energies (heads, d) of the rows of a projection with its gains.

    A norm that takes out the mean of its input leaves of a row w with gains g
    :math:`|w \circ g|^2 - (w \cdot g)^2 / n`, n the number of columns.
    """
    tensor = model.tensors[part.tensor]
    last, columns = int(part.index.max()) + 1, tensor.shape[1]
    step = max(AT_ONCE // max(columns, 1), 1)
    scale, gain = scale_of(model.tensors, tensor), norm_gains(model, part)
    weights = (gain**2).astype(np.float32)
    energies = np.zeros(last)
    for start in range(int(part.index.min()), last, step):
        stop = min(start + step, last)
        rows = tensor.rows(start, stop).astype(np.float32, copy=False)
        if scale is not None:
            rows = rows * scale(start, stop)
        mean = rows @ gain if model.centred(part.norm) else 0.0
        sizes = np.square(rows, out=rows) @ weights
        energies[start:stop] = np.maximum(sizes - np.square(mean) / columns, 0.0)
    energies = energies[part.index] * head_gains(model.tensors, part, model.plus_one) ** 2
    if not np.isfinite(energies).all():
        raise PefourierError(
            f"{shown(tensor.name)} of {shown(tensor.path)}, or its gains, hold NaN, infinities or "
            "numbers beyond 1e19"
        )
    return energies


def norm_gains(model: ModelWeights, part: Projection) -> np.ndarray:
    """The gains of the norm before a projection, one a column; ones without it."""
    columns = model.tensors[part.tensor].shape[1]
    if part.norm is None:
        return np.ones(columns)
    gain = model.tensors[part.norm].vector() + model.plus_one
    if len(gain) != columns:
        raise PefourierError(
            f"{shown(part.norm)} has {len(gain)} gains, {shown(part.tensor)} {columns} columns"
        )
    return gain


def scale_of(tensors: Tensors, tensor: Tensor) -> Scale | None:
    """What the stored numbers of some rows are multiplied by; None where they are plain."""
    stem = tensor.name.removesuffix("weight")
    name = next((stem + end for end in known_names()["scales"] if stem + end in tensors), None)
    if name is None:
        return None
    stored = tensors[name]
    scale = stored.vector().reshape(stored.shape or (1,)).astype(np.float32)
    rows, columns = tensor.shape
    if scale.size == 1:
        return lambda a, b: scale.reshape(1, 1)
    if scale.shape in ((rows,), (rows, 1)):
        return lambda a, b: scale.reshape(-1, 1)[a:b]
    if scale.ndim == 2:
        tall, wide = (block_size(n, m) for n, m in zip(tensor.shape, scale.shape, strict=True))
        if tall and wide:
            return lambda a, b: np.repeat(scale[np.arange(a, b) // tall], wide, axis=1)[:, :columns]
    raise PefourierError(
        f"{shown(name)} has the shape {stored.shape}, which scales {tensor.shape} in no known way"
    )


def block_size(side: int, parts: int) -> int | None:
    """The power of two that cuts a side into so many blocks, the last one maybe shorter."""
    return next((2**n for n in range(30) if -(-side // 2**n) == parts), None)


def head_gains(tensors: Tensors, part: Projection, plus_one: bool) -> np.ndarray:
    """The gains of the norm of queries or keys for each row (heads, d); ones without it."""
    if not part.gains:
        return np.ones(part.index.shape)
    heads, d = part.index.shape
    gains = np.concatenate([tensors[name].vector() for name in part.gains]) + plus_one
    if len(gains) not in (d, heads * d):
        raise PefourierError(
            f"{shown(part.gains[0])} has {len(gains)} gains for {heads} heads of {d} rows"
        )
    return np.broadcast_to(gains.reshape(-1, d), (heads, d))
