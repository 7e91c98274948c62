"""Read the grid of a vision model from its config, and the biases of its windows from weights.

Conventions
-----------
The key ``axial`` of a model type's row holds the grid, or a list of grids; the first with a
matching ``when`` [key, value] applies. Keys: ``encoding`` (learned: a table in the weights), its
``own`` parameters, and parameters that are ``read`` (parameter: key of the config); ``d``
(``head``, or ``width`` over ``heads``; ``times``: head times heads); ``sides``, one per axis: a
``size`` over another, each [key, default] (``kernel``: size of the first patch); ``usual``, default
sides; ``prefix``, and the key of ``registers``; ``merged``, the key for the side of blocks in the
order of tokens; ``reference``, bases over scales; ``pretrained``, the key for the window of
SwinV2's pretraining, or a window per stage; ``rescaled``, the key and the default of the largest
factor by which training stretches coordinates.

Rows of a bias table are the displacements query - key; the three rows of a class token come last
(Swin, BEiT). Swin V2 stores a network of displacements instead of a table. SAM has vectors of lags
along one axis and adds their products with queries to the scores. Layers have separate tables: the
first is read, or the table that ``#NAME`` selects by its name or a part of the name.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, finding, lags_on, lattice
from pefourier.encodings.families.relative import of_network
from pefourier.encodings.grids import (
    OF_CLASS_TOKEN,
    biases_within,
    check_fit,
    count_points,
    on_grid,
    size_of,
    usual_grid,
)
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.sources.huggingface import weights
from pefourier.encodings.sources.huggingface.config import ModelConfig
from pefourier.errors import PefourierError, UnknownPositions, shown
from pefourier.types import Fields, Places, Values

Block = Values
Sides = tuple[int, ...]
SCALED_FROM = 64  # patches per side at which PixArt's scale is 1


def read_axes(model: ModelConfig) -> Encoding | None:
    """Read the positions on a vision model's grid; None if its type is not known to have a grid."""
    block = block_of(model)
    if block is None:
        return None
    if "table_beside" in model.row and model.part and weights.grid_tensors(model):
        return read_grid(model, {"encoding": "learned"})
    is_learned = block["encoding"] == "learned"
    if is_learned or block.get("stored"):
        enc = read_grid(model, block)
        if enc is not None or is_learned:
            return enc  # without weights, another reader reports where the table is
    if model.part:
        raise PefourierError(f"{shown(model.file)} has no part {shown(model.part)}; leave out #")
    return formula(model, block)


def block_of(model: ModelConfig) -> Block | None:
    """Return the first block of the model's row that matches its config."""
    entry = model.row.get("axial", [])
    blocks: list[Block] = entry if isinstance(entry, list) else [entry]
    for block in blocks:
        key, expected, usual = block.get("when", ("", None, None))
        if not key or model.get(key, usual) == expected:
            return block
    return None


def formula(model: ModelConfig, block: Block) -> Encoding:
    """Build the encoding that the model computes, or that its training starts from."""
    sides, findings = sides_of(model, block)
    parameters = {**block.get("own", {}), **values_read(model, block)}
    if "reference" in block:
        parameters["reference"] = references(model, block)
    if "divided_by" in block:  # divisors of the indices, in the order of frequencies
        numbers = tuple(divisor_of(model, *divisor) for divisor in block["divided_by"])
        parameters |= {"stretch": numbers, "stretch_by": "linear"}
    if block["encoding"] in ("axial", "axial-rope"):
        parameters["prefix"] = prefix_of(model, block)
    if "note" in block:
        findings = (*findings, finding("grid-convention", note=block["note"]))
    d, noted = dimension_of(model, block), dict[str, Any]()
    if block["encoding"] == "sinusoidal":
        parameters |= {"length": model.length or count_points(sides)}
        enc = model.named(findings, "sinusoidal", d=d, **parameters)
        return enc if len(enc) != count_points(sides) else on_grid(enc, sides, 0)
    if "merged" in block:
        noted["merged"] = side = value_of(model, block["merged"])
        slots = {"key": block["merged"][0], "side": side, "config": model.label}
        findings = (*findings, *([finding("tokens-in-blocks", **slots)] if side > 1 else []))
    if "rescaled" in block:
        key, usual = block["rescaled"]
        noted["rescaled"] = model.number(key) if key in model.values else usual
    if "table_beside" in model.row:
        key = model.row["table_beside"][0]
        noted["table_beside"] = (isqrt(value_of(model, model.row["table_beside"])),) * 2
        beside = finding("table-beside", key=key, grid=size_of(noted["table_beside"]))
        findings = (*findings, beside)
    enc = model.named(findings, block["encoding"], d=d, grid=sides, **parameters)
    return replace(enc, params={**enc.params, **noted})


def dimension_of(model: ModelConfig, block: Block) -> int:
    """Return the size of a head, or the width of the model if vectors are added to embeddings."""
    sizes = {key: value_of(model, spec) for key, spec in block["d"].items() if key != "times"}
    head, width, heads = (sizes.get(key, 0) for key in ("head", "width", "heads"))
    if not head and heads and width % heads:
        raise PefourierError(f"{model.label}: {heads} heads do not divide its width {width}")
    d = head or (width // heads if heads else width)
    d *= heads if block["d"].get("times") else 1
    return model.dimension(d or None, "size of a head or width")


def window_of(model: ModelConfig, block: Block, stage: int = 0) -> Sides:
    """Return the window of a stage (stages halve the image's patches); empty if unknown."""
    if model.grid or "sides" not in block:
        return tuple(model.grid)
    sides, _ = sides_of(model, block)
    if "image" not in block:
        return sides
    image = [side_of(model, block["image"], place) for place in range(-len(sides), 0)]
    return tuple(min(n, max(m >> stage, 1)) for n, m in zip(sides, image, strict=True))


def pretrained(model: ModelConfig, block: Block, axes: int, stage: int) -> Sides:
    """Return the window of pretraining, from a list that of the stage; empty if not set."""
    key = block.get("pretrained", "")
    value = model.get(key)
    if isinstance(value, list):
        value = value[stage] if stage < len(value) else None
    window = replace(model, values={key: value}).count(key, minimum=0)
    return (window,) * axes if window else ()


def value_of(model: ModelConfig, spec: Sequence[Any], place: int = 0) -> int:
    """Return a whole number [keys, default] of a config, from a list the item at a place."""
    keys, default = spec
    key, value = model.first(*([keys] if isinstance(keys, str) else keys))
    if isinstance(value, list) and -len(value) <= place < len(value):
        value = value[place]
    return replace(model, values={key: value}).count(key) or default or 0


def sides_of(model: ModelConfig, block: Block) -> tuple[Sides, tuple[Finding, ...]]:
    """Return the sides of the grid: requested, from the config, or default sides with a note."""
    if model.grid:
        return tuple(model.grid), ()
    if "sides" not in block:
        usual = tuple(block["usual"])
        return usual, (finding("grid-default", config=model.label, grid=size_of(usual)),)
    places = range(-len(block["sides"]), 0)  # in a list, rows and columns are last
    return tuple(side_of(model, *axis) for axis in zip(block["sides"], places, strict=True)), ()


def side_of(model: ModelConfig, axis: Values, place: int) -> int:
    """Return the number of points along one axis."""
    size, over, kernel = (
        value_of(model, axis[key], place) if key in axis else 1
        for key in ("size", "over", "kernel")
    )
    side = (size - kernel) // over + 1 if "kernel" in axis else size // over
    side = -(-side // value_of(model, axis["again"])) if "again" in axis else side
    if side < 1:
        raise PefourierError(f"{model.label} has no patch of {over} in {size}; give --grid")
    return side


def prefix_of(model: ModelConfig, block: Block) -> int:
    """Return the number of rows before the grid."""
    registers = block.get("registers")
    rows = model.count(registers, minimum=0) or 0 if registers else 0
    return model.prefix or int(block.get("prefix", 0)) + rows


def values_read(model: ModelConfig, block: Block) -> Fields:
    """Read parameters from the config and its rope_parameters."""
    parameters = {}
    rope = model.section("rope_parameters")
    kind = rope.get("rope_type", "axial")
    if kind not in ("axial", "default"):
        raise rope.wrong("rope_type", kind, "axial or default; scaling on axes is not supported")
    for name, key in block.get("read", {}).items():
        section = rope if rope.get(key) is not None else model
        value = section.parameter(key, tuple[float, ...] if name != "rho" else float)
        if value is not None:
            parameters[name] = value
    return parameters


def references(model: ModelConfig, block: Block) -> tuple[float, ...]:
    """Return the base of each axis, divided by the scale of its coordinates."""
    bases = []
    for axis in block["reference"]:
        key, default = axis["scale"]
        if default == "by size":
            default = max(value_of(model, axis["size"]) // SCALED_FROM, 1)
        bases.append(side_of(model, axis, -1) / divisor_of(model, key, default))
    return tuple(bases)


def divisor_of(model: ModelConfig, key: str, usual: float) -> float:
    """Read a divisor from a config, which must not be 0."""
    divisor = model.number(key)
    if divisor == 0:
        raise model.wrong(key, 0, "a number other than 0")
    return usual if divisor is None else divisor


def read_grid(model: ModelConfig, block: Block) -> Encoding | None:
    """Read the table of positions from the weights in the config's folder, on its grid."""
    tensors = weights.grid_tensors(model)
    if len(tensors) != 1:
        return None
    ((name, path),) = tensors.items()
    # the number of rows before the grid follows from the total
    enc = weights.load_tensor(replace(model, length=None), name, path)
    is_set = "sides" in block or model.grid
    sides, findings = sides_of(model, block) if is_set else (usual_grid(len(enc))[0], ())
    if others := [] if model.part else sorted(weights.sibling_tensors(model, weights.DISPLACED)):
        slots = {"name": shown(name), "count": len(others), "last": shown(others[-1])}
        enc = replace(enc, findings=(finding("biases-by-layer", "beside", **slots), *enc.findings))
    if is_set and "patched" not in block.get("when", ()) and not (model.grid or model.prefix):
        shape, rows = (len(enc), enc.dim), count_points(sides) + prefix_of(model, block)
        doubts = weights.shape_findings(model, name, path, shape, (rows, None))
        enc = replace(enc, findings=(*enc.findings, *doubts))
    if enc.domain.grid:
        return enc
    prefix = model.prefix or max(len(enc) - count_points(sides), 0)
    check_fit(f"{name} of {shown(path)}", len(enc), sides, prefix)
    params = {**enc.params, "grid": sides, "prefix": prefix}
    findings = (*enc.findings, *findings)
    return replace(enc, domain=lattice(sides, prefix), params=params, findings=findings)


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
    facts: Fields = {"params": params, "eps": stored.eps, "findings": doubts}
    facts["injection"] = "key" if is_of_lags else "bias"
    return biases_within(fits, stored.vectors, "lags" if is_of_lags else "biases", **facts)


def window_of_rows(rows: int, window: Sides, axes: int) -> Sides:
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
    model: ModelConfig, name: str, path: str, window: Sides, trained: Sides
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
    sides: Places = np.array(trained or window)
    if first.shape != (len(shifts), len(sides)) or heads.size % len(shifts):
        raise PefourierError(f"{name} has shape {first.shape}, unlike Swin V2's network")
    by_head = heads.reshape(-1, len(shifts)).T
    enc = of_network(lags_on(window), sides, (first.T, shifts, by_head))
    params = {"grid": window, "d": enc.dim, "pretrained": trained, "path": path}
    return replace(enc, params={**params, "model_type": model.kind})
