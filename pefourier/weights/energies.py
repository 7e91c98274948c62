"""How long are the rows of queries and keys? Read once, with gains multiplied in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.weights.heads import Projection, known_names
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
    bias_q: np.ndarray | None
    bias_k: np.ndarray | None
    gains: bool  # whether those of the norm before are there
    normed: bool  # whether queries or keys are normalised again


def energies_at(model: ModelWeights, site: Site) -> LayerEnergies:
    """The energies of the rows of a layer's heads, a tensor at a time."""
    attention = site.attention
    (q, bias_q), (k, bias_k) = (row_energies(model, part) for part in (attention.q, attention.k))
    gains, normed = attention.k.norm is not None, bool(attention.q.gains or attention.k.gains)
    return LayerEnergies(attention.layer, site.rotation, q, k, bias_q, bias_k, gains, normed)


@np.errstate(invalid="ignore", over="ignore")  # what is not finite is refused at the end
def row_energies(model: ModelWeights, part: Projection) -> tuple[np.ndarray, np.ndarray | None]:
    r"""Energies (heads, d) of the rows of a projection with its gains, and those of constants.

    A norm that takes out the mean of its input leaves of a row w with gains g
    :math:`|w \circ g|^2 - (w \cdot g)^2 / n`, n the number of columns. What a row adds whatever the
    input is its bias, and what it makes of the norm's.
    """
    tensor = model.tensors[part.tensor]
    first, last = int(part.index.min()), int(part.index.max()) + 1
    step = max(AT_ONCE // max(tensor.shape[1], 1), 1)
    blocks = [slice(start, min(start + step, last)) for start in range(first, last, step)]
    scale, gain = scale_of(model.tensors, tensor), norm_gains(model, part)
    energies = np.zeros(last)
    for rows, sizes in tensor.sizes(first, last, step):
        weights = (gain**2).astype(np.float32)
        if scale is not None:
            weights = weights * scale(rows.start, rows.stop) ** 2
        energies[rows] = weighted_sums(np.multiply(sizes, sizes, out=sizes), weights)
    bias = model.tensors[part.bias].vector()[:last] if part.bias else None
    shift = norm_shift(model, part)
    if model.centred(part.norm):
        beta = np.zeros(len(gain)) if shift is None else shift
        vectors = np.stack([beta, gain / np.sqrt(len(gain))], axis=1)
        images = np.zeros((last, 2))
        for rows in blocks:
            factor = 1 if scale is None else scale(rows.start, rows.stop)
            images[rows] = tensor.rows(rows.start, rows.stop) * factor @ vectors
        energies = np.maximum(energies - images[:, 1] ** 2, 0.0)
        if shift is not None:
            bias = images[:, 0] + (0 if bias is None else bias)
    gains = head_gains(model.tensors, part, model.plus_one)
    energies = energies[part.index] * gains**2
    constant = None if bias is None else (bias[part.index] * gains) ** 2
    check_finite(tensor, energies, constant)
    return energies, constant


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


def norm_shift(model: ModelWeights, part: Projection) -> np.ndarray | None:
    """The bias of the norm before a projection, one a column; None without it."""
    shift = model.tensors.get((part.norm or "").removesuffix("weight") + "bias")
    if shift is None:
        return None
    columns = model.tensors[part.tensor].shape[1]
    if shift.shape != (columns,):
        raise PefourierError(
            f"{shown(shift.name)} has shape {shift.shape}, {shown(part.tensor)} {columns} columns"
        )
    return shift.vector()


def check_finite(tensor: Tensor, energies: np.ndarray, constant: np.ndarray | None) -> None:
    """Refuse weights of which a sum of squares is no number."""
    if not (np.isfinite(energies).all() and (constant is None or np.isfinite(constant).all())):
        raise PefourierError(
            f"{shown(tensor.name)} of {shown(tensor.path)}, its gains or its bias hold NaN, "
            "infinities or numbers beyond 1e19"
        )


def weighted_sums(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums over columns of float32 times weights; sums of up to 512 are added as float64.

    >>> weighted_sums(np.float32([[9, 16], [0, 4]]), np.float32([1, 0.5]))
    array([17.,  2.])
    """
    columns = rows.shape[-1]
    run = next(n for n in range(min(columns, 512), 0, -1) if columns % n == 0)
    runs, weights = (array.reshape(*array.shape[:-1], -1, run) for array in (rows, weights))
    sums = np.vecdot(runs, weights)
    return sums @ np.ones(sums.shape[-1])


def scale_of(tensors: Mapping[str, Tensor], tensor: Tensor) -> Scale | None:
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
        blocks = [block_size(n, m) for n, m in zip(tensor.shape, scale.shape, strict=True)]
        if all(blocks):
            tall, wide = blocks
            return lambda a, b: np.repeat(scale[np.arange(a, b) // tall], wide, axis=1)[:, :columns]
    raise PefourierError(
        f"{shown(name)} has the shape {stored.shape}, which scales {tensor.shape} in no known way"
    )


def block_size(side: int, parts: int) -> int | None:
    """The power of two that cuts a side into so many blocks, the last one maybe shorter."""
    return next((2**n for n in range(30) if -(-side // 2**n) == parts), None)


def head_gains(tensors: Mapping[str, Tensor], part: Projection, plus_one: bool) -> np.ndarray:
    """The gains of the norm of queries or keys for each row (heads, d); ones without it."""
    if not part.gains:
        return np.ones(part.index.shape)
    heads, d = part.index.shape
    gains = np.concatenate([tensors[name].vector() for name in part.gains]) + plus_one
    if len(gains) == heads * d:
        return gains.reshape(heads, d)
    if len(gains) == d:
        return np.broadcast_to(gains, (heads, d))
    raise PefourierError(
        f"{shown(part.gains[0])} has {len(gains)} gains for {heads} heads of {d} rows"
    )
