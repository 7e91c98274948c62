"""How do weights made for one pairing of rows work with another? Their rows in another order.

A rotation that pairs row i of a head with row i + r/2 (halves) is one that pairs 2i with 2i + 1
(neighbours) after the rows of W_q and W_k are reordered within each head, with their biases and the
gains of norms of queries and keys; values and outputs stay. Of r rows that turn, rows behind them
keep their place. A file is written tensor by tensor; all other bytes are copied.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import BinaryIO, Literal

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.files import check_place, os_errors, suffix_of, write_whole
from pefourier.weights.energies import block_size
from pefourier.weights.heads import (
    Attention,
    HeadSizes,
    Projection,
    find_heads,
    known_names,
    modules_of,
)
from pefourier.weights.layout import pair_rows, pairing_told
from pefourier.weights.model import (
    config_beside,
    find_sites,
    open_model_weights,
    rotations_of_model,
)
from pefourier.weights.tensors import Tensor, list_tensors, row_count
from pefourier.writing.text import agreeing

Layout = Literal["halves", "neighbours"]
COPIED = 2**22  # bytes that are copied at a time
UNTOUCHED = tuple(known_names()["untouched"])  # beginnings of names within attention
SCALES = tuple(known_names()["scales"])


@dataclass(frozen=True)
class Conversion:
    """What was reordered, and where it was written."""

    spec: str
    source: Layout
    target: Layout
    files: tuple[str, ...]
    layers: int
    heads: int  # of queries, in all layers
    tensors: tuple[str, ...]  # whose rows have another order
    copied: int  # tensors that are as they were
    told: str | None  # the pairing that the config tells of, None where nothing does


def reordering(count: int, d: int, source: Layout, target: Layout) -> np.ndarray:
    """Which row of a head (d,) goes where, of `count` pairs that turn.

    >>> reordering(2, 6, "halves", "neighbours").tolist()
    [0, 2, 1, 3, 4, 5]
    >>> reordering(3, 6, "halves", "neighbours")[reordering(3, 6, "neighbours", "halves")].tolist()
    [0, 1, 2, 3, 4, 5]
    """
    order = np.arange(d)
    order[pair_rows(count, target)] = pair_rows(count, source)
    return order


def convert_weights(
    spec: str, source: Layout, target: Layout, out: str, heads: tuple[int, int] | None = None
) -> Conversion:
    """Write weights whose rows have the order of another pairing.

    Parameters
    ----------
    spec : str
        A .safetensors file or a model's folder; the config beside it tells its heads.
    source, target : str
        The pairing that the weights are made for, and the one that they are to work with.
    out : str
        The file to write; of weights in several files a folder, which gets their index too.
    heads : tuple of int, optional
        Heads of queries and of keys, where there is no config; all rows of a head then turn.

    Raises
    ------
    PefourierError
        For weights of which it is not known what else hangs on the order of their rows.
    """
    if source == target:
        raise PefourierError(f"--from and --to are both {source}; there is nothing to reorder")
    path = spec.partition("#")[0]
    if suffix_of(path) == ".gguf":
        raise PefourierError(
            f"{shown(path)} is a .gguf file; convert the .safetensors that it was made from"
        )
    tensors = list_tensors(path)
    sites, told = sites_of(spec, tensors, heads)
    moves: dict[str, np.ndarray] = {}
    for one, count in sites:
        check_module(tensors, one)
        for part in (one.q, one.k):
            add_moves(moves, tensors, part, reordering(count, part.index.shape[1], source, target))
    files = write_files(path, tensors, moves, out)
    return Conversion(
        spec,
        source,
        target,
        tuple(files),
        len({one.layer for one, _ in sites}),
        sum(len(one.q.index) for one, _ in sites),
        tuple(sorted(moves)),
        len(tensors) - len(moves),
        told,
    )


def sites_of(
    spec: str, tensors: Mapping[str, Tensor], heads: tuple[int, int] | None
) -> tuple[list[tuple[Attention, int]], str | None]:
    """The heads of all layers that turn, with how many pairs do, and the pairing that is told."""
    if heads is None:
        model = open_model_weights(spec)
        turned = rotations_of_model(model.spec)
        sites = [(s.attention, turned.pairs[s.rotation]) for s in find_sites(model, turned)]
        return sites, pairing_told(model.spec, turned.own[0])
    if config_beside(spec.partition("#")[0]) is not None:
        raise PefourierError("the config beside the weights tells their heads; leave out --heads")
    q, kv = heads
    firsts = [(module, leaves) for _, module, leaves in modules_of(tensors)]
    if not firsts or any(leaves[1:] not in (["k_proj"], ["wk"], ["key"]) for _, leaves in firsts):
        raise PefourierError(
            f"{shown(spec)} has no queries and keys that are known; put its config.json beside it"
        )
    rows = tensors[f"{firsts[0][0]}.{firsts[0][1][0]}.weight"].shape[0]
    if rows % (2 * q):
        raise PefourierError(f"{shown(spec)} has {rows} rows of queries, no {q} heads of pairs")
    sizes = HeadSizes("", rows // q, 0, q, kv)
    return [(s, rows // q // 2) for s in find_heads(tensors, lambda i: sizes, shown(spec))], None


def check_module(tensors: Mapping[str, Tensor], one: Attention) -> None:
    """Refuse a module with a tensor of which it is not known whether it has the rows of a head."""
    known = {name for p in (one.q, one.k) for name in (p.tensor, p.bias, *p.gains) if name}
    known |= {name.removesuffix("weight") + "bias" for name in known}
    known |= {p.tensor.removesuffix("weight") + end for p in (one.q, one.k) for end in SCALES}
    start = f"{one.module}."
    for name in tensors:
        if not name.startswith(start) or name in known:
            continue
        inner = name.removeprefix(start)
        if not inner.startswith(UNTOUCHED):
            raise PefourierError(
                f"{shown(name)} may hang on the order of rows; merge adapters into the weights "
                "first, or convert with the tool that made them"
            )


def add_moves(
    moves: dict[str, np.ndarray], tensors: Mapping[str, Tensor], part: Projection, order: np.ndarray
) -> None:
    """Note which row of each tensor of a projection is to stand where, or which of its numbers."""
    heads, d = part.index.shape

    def note(name: str, index: np.ndarray, count: int) -> None:
        moves.setdefault(name, np.arange(count))[index] = index[:, order]

    for name in (part.tensor, part.bias):
        if name:
            note(name, part.index, tensors[name].shape[0])
    for name in part.gains:
        for own in {name, name.removesuffix("weight") + "bias"} & tensors.keys():
            count = prod(tensors[own].shape)
            if count not in (d, heads * d):
                raise PefourierError(
                    f"{shown(own)} has {count} gains for {heads} heads of {d} rows"
                )
            note(own, np.arange(count).reshape(-1, d), count)
    for end in SCALES:
        scale = tensors.get(part.tensor.removesuffix("weight") + end)
        rows = tensors[part.tensor].shape[0]
        if scale is None or prod(scale.shape) == 1:
            continue
        tall = block_size(rows, scale.shape[0])
        if scale.shape[0] == rows:
            note(scale.name, part.index, rows)
        elif tall is None or (part.index // tall != part.index[:, order] // tall).any():
            raise PefourierError(
                f"{shown(scale.name)} scales rows that would be parted; convert them in bfloat16"
            )


def write_files(
    path: str, tensors: Mapping[str, Tensor], moves: Mapping[str, np.ndarray], out: str
) -> list[str]:
    """Write each file of the weights with its rows moved; of several also their index."""
    sources = sorted({tensor.path for tensor in tensors.values()})
    if not os.path.isdir(out):
        if len(sources) > 1 or suffix_of(out) != ".safetensors":
            single, files = "" if len(sources) > 1 else "end in .safetensors, or ", len(sources)
            raise PefourierError(
                f"--out must {single}be a folder that is there, for {files} "
                f"{agreeing(files, 'file', 'files')} of weights; got {shown(out)}"
            )
        pairs = [(sources[0], out)]
    else:
        index = os.path.join(path, "model.safetensors.index.json")
        sources += [index] if os.path.isfile(index) and len(sources) > 1 else []
        pairs = [(source, os.path.join(out, os.path.basename(source))) for source in sources]
    for source, target in pairs:
        if os.path.exists(target) and os.path.samefile(source, target):
            raise PefourierError(f"--out {shown(target)} is the file that is read; name another")
        check_place(target)
    for source, target in pairs:
        own = [tensor for tensor in tensors.values() if tensor.path == source]
        write_whole(target, partial(write_moved, source, own, moves))
    return [target for _, target in pairs]


def write_moved(
    source: str, own: Sequence[Tensor], moves: Mapping[str, np.ndarray], stream: BinaryIO
) -> None:
    """A file with the rows of some tensors in another order, and all other bytes as they are."""
    at = 0
    for tensor in sorted(own, key=lambda one: one.start):
        if tensor.name not in moves:
            continue
        copy_span(source, at, tensor.start, stream)
        for block in moved_blocks(tensor, moves[tensor.name]):
            stream.write(block.data)
        at = tensor.start + row_count(tensor.shape) * tensor.row_bytes
    copy_span(source, at, os.path.getsize(source), stream)


def copy_span(source: str, first: int, last: int, stream: BinaryIO) -> None:
    """Copy bytes of a file."""
    with os_errors("read", source), open(source, "rb") as file:
        file.seek(first)
        while first < last:
            part = file.read(min(COPIED, last - first))
            if not part:
                raise PefourierError(f"{shown(source)} became shorter while it was read")
            stream.write(part)
            first += len(part)


def moved_blocks(tensor: Tensor, rows: np.ndarray) -> Iterator[np.ndarray]:
    """The bytes of a tensor with its rows, or the numbers of a vector, in another order."""
    if len(rows) != tensor.shape[0] or len(tensor.shape) < 2:  # a vector, or gains of heads
        numbers = tensor.bytes(0, row_count(tensor.shape)).reshape(len(rows), -1)
        yield np.ascontiguousarray(numbers[rows])
        return
    step = max(COPIED // tensor.row_bytes, 1)
    for start in range(0, len(rows), step):
        wanted = rows[start : start + step]
        first, last = int(wanted.min()), int(wanted.max()) + 1
        yield np.ascontiguousarray(tensor.bytes(first, last)[wanted - first])
