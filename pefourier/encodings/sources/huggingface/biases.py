"""Read biases of windows and vectors of lags from the weights of a vision model.

Conventions
-----------
Rows of a bias table are the displacements query - key; the three rows of a class token come last
(Swin, BEiT). Swin V2 stores a network of displacements instead of a table. SAM has vectors of lags
along one axis and adds their products with queries to the scores. Layers have separate tables: the
first is read, or the table that ``#NAME`` selects by its name or a part of the name.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.domain import lags_on
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.relative import of_network
from pefourier.encodings.findings import finding
from pefourier.encodings.grids import OF_CLASS_TOKEN, biases_within, size_of
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.sources.huggingface import weights
from pefourier.encodings.sources.huggingface.config import ModelConfig
from pefourier.encodings.sources.huggingface.grid import Block, block_of, pretrained, window_of
from pefourier.errors import PefourierError, UnknownPositions, shown

STAGE = re.compile(r"(^|\.)layers\.(\d+)\.blocks\.")  # of Swin


def read_displacements(model: ModelConfig) -> Encoding | None:
    """Read the biases by displacement, or vectors by lag, of one layer; None without tables."""
    block, kinds = block_of(model), (model.row or {"kind": "relative"}).get("kind", "").split()
    if block and (block["encoding"] == "learned" or not BUILDERS[block["encoding"]].untrained):
        block = None  # its sides describe a grid, not a window
    is_named = bool(weights.DISPLACED.search(model.part))
    if not (block or is_named) and ("relative" not in kinds or weights.grid_tensors(model)):
        return None
    tensors = weights.sibling_tensors(model, weights.DISPLACED)
    if not tensors:
        if block is None:
            return None
        where = f" of {shown(model.part)}" if model.part else ""
        raise UnknownPositions(
            f"the biases of {shown(model.file)} are learned, and its folder has no weights{where} "
            "with biases; put model.safetensors there"
        )
    names = sorted(sorted(tensors), key=lambda name: [*map(int, re.findall(r"\d+", name))])
    slots = {"name": shown(names[0]), "last": shown(names[-1]), "count": len(names)}
    notes = [finding("biases-by-layer", "windows", **slots)] if len(names) > 1 else []
    enc = read_stored(model, block, names[0], tensors[names[0]])
    return replace(enc, findings=(*notes, *enc.findings), origin="weights")


def read_stored(model: ModelConfig, block: Block | None, name: str, path: str) -> Encoding:
    """Read the biases of a window, or the vectors of lags, from a tensor."""
    from pefourier.encodings.sources.tables import read_named_table

    stored, stage = read_named_table(path, name), STAGE.search(name)
    place = int(stage[2]) if stage else 0
    window = window_of(model, block, place) if block else tuple(model.grid)
    if name.endswith(".0.weight"):
        trained = pretrained(model, block, len(window), place) if block else ()
        return replace(of_stored_network(model, name, path, window, trained), eps=stored.eps)
    rows, heads = stored.vectors.shape[0], stored.vectors.shape[-1]
    is_of_lags = "rel_pos_" in name
    fits = window_of_rows(rows, window, axes=1 if is_of_lags else 2)
    if not fits or stored.vectors.ndim > 2 or (model.grid and fits != tuple(model.grid)):
        raise PefourierError(
            f"{name} of {shown(path)}: {rows} rows do not fit the displacements of a window"
            f"{' of ' + size_of(window) if window else ''}"
        )
    model.dimension(heads, f"tensor {name}")
    others = rows - len(lags_on(fits))  # of a class token
    expected = len(lags_on(window)) + others if window else None
    doubts = weights.shape_findings(model, name, path, (rows, heads), (expected, None))
    params = {"path": path, "array": name, "grid": fits, "d": heads, "model_type": model.kind}
    facts: dict[str, Any] = {"params": params, "eps": stored.eps, "findings": doubts}
    facts["injection"] = "key" if is_of_lags else "bias"
    return biases_within(fits, stored.vectors, "lags" if is_of_lags else "biases", **facts)


def window_of_rows(rows: int, window: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """Return the window with this number of displacements, `window` if it fits; () if none fits.

    >>> window_of_rows(172, (4, 12), 2), window_of_rows(127, (14, 14), 1)
    ((7, 7), (64,))
    """
    lines = [round(max(rows - others, 0) ** (1 / axes)) for others in (0, OF_CLASS_TOKEN)]
    for sides in (window, *(((n + 1) // 2,) * axes for n in lines)):
        if len(sides) == axes and rows - len(lags_on(sides)) in (0, OF_CLASS_TOKEN):
            return sides
    return ()


def of_stored_network(
    model: ModelConfig, name: str, path: str, window: tuple[int, ...], trained: tuple[int, ...]
) -> Encoding:
    """Compute Swin V2's biases on a window from the network in the weights."""
    from pefourier.encodings.sources.tables import read_numbers

    if not window:
        raise PefourierError(f"{shown(model.file)} sets no window for {name}; give --grid")
    paths, stem = dict(weights.all_tensors(weights.folder_of(model))), name.removesuffix("0.weight")
    first, shifts, heads = (
        read_numbers(f"{paths.get(stem + part, path)}#{stem}{part}")
        for part in ("0.weight", "0.bias", "2.weight")
    )
    sides: NDArray[np.int64] = np.array(trained or window)
    if first.shape != (len(shifts), len(sides)) or heads.size % len(shifts):
        raise PefourierError(f"{name} has shape {first.shape}, unlike Swin V2's network")
    by_head = heads.reshape(-1, len(shifts)).T
    enc = of_network(lags_on(window), sides, by_head.shape[1], lambda: (first.T, shifts, by_head))
    params = {"grid": window, "d": enc.dim, "pretrained": trained, "path": path}
    return replace(enc, params={**params, "model_type": model.kind})
