"""What `positions` is asked about: a file, a batch of named arrays, an array, a dump, a mask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.ids.batch import (
    COSINES,
    NAMES,
    SINES,
    Batch,
    as_visible,
    batch_of,
    named,
    path_of,
    read_arrays,
)
from pefourier.ids.model import Model, read_model
from pefourier.ids.spans import Rules
from pefourier.questions.positions import Positions, judge_mask, judge_positions, parse_rank


def judge_input(
    source: Any,
    arrays: Mapping[str, Any],
    files: Mapping[str, Any],
    config: Any = None,
    rank: str | tuple[int, int] | None = None,
    shard: str | None = None,
    length: int | None = None,
) -> Positions:
    """Judge the ids of an input, with `arrays` by name and `files` by what they hold."""
    spec = path_of(config)
    model = read_model(spec) if spec is not None else None
    rank = "/".join(map(str, rank)) if isinstance(rank, tuple) else rank
    rules = parse_rank(rank, shard, model.rules(length) if model else Rules(limit=length))
    name = path_of(source) or "ids"
    params = {"config": spec, "rank": rank, "shard": shard, "length": rules.limit}
    params = {key: value for key, value in params.items() if value is not None}
    content = arrays_of(source) | {k: numbers(v) for k, v in arrays.items() if v is not None}
    if is_dump(content):
        return judge_dump(name, content, files, model, rules, params)
    if (mask := mask_alone(content)) is not None:
        return judge_mask(mask, model, spec=name, params=params)
    batch = with_files(content, files, name, model)
    return judge_positions(batch, model, rules, spec=name, params=params)


def arrays_of(source: Any) -> dict[str, np.ndarray]:
    """The arrays of a file or a mapping; "" names an array without a name."""
    if (path := path_of(source)) is not None:
        return read_arrays(path)
    if isinstance(source, Mapping):
        return {str(name): numbers(value) for name, value in source.items() if value is not None}
    return {"": numbers(source)}


def numbers(value: Any) -> np.ndarray:
    """The numbers of an array, a tensor, or nested lists."""
    if callable(getattr(value, "numpy", None)):
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy(force=True)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise PefourierError("ids must be an array, or lists of one length") from error
    if array.dtype.kind not in "biuf":
        raise PefourierError(f"ids must be integers; got {shown(type(value).__name__)}")
    return array


def with_files(
    content: Mapping[str, np.ndarray], files: Mapping[str, Any], source: str, model: Model | None
) -> Batch:
    """A batch with the arrays of further files."""
    content = dict(content)
    if "" in content:
        content["position_ids"] = content.pop("")
    for role, value in files.items():
        if value is not None and path_of(value) is None:
            content[role] = numbers(value)
        elif value is not None:
            ids = next((content[n] for n in NAMES["position_ids"] if n in content), None)
            content |= named(path_of(value), role, None if ids is None else ids.shape)
    tokens = model.vision_tokens if model else (None, None)
    has_axes = model.has_axes if model else False
    return batch_of(content, label_of_source(source), has_axes=has_axes, vision_tokens=tokens)


def label_of_source(source: str) -> str:
    """How an error names an input."""
    return shown(Path(source).name) if source != "ids" else "the batch"


def mask_alone(content: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """A mask of queries and keys where an input holds nothing else."""
    if len(content) != 1:
        return None
    (name, array), *_ = content.items()
    is_square = array.ndim >= 2 and array.shape[-1] == array.shape[-2] and array.shape[-1] > 1
    is_mask = (
        array.dtype.kind == "b"
        or np.isin(array, (0, 1)).all()
        or (array.dtype.kind == "f" and array.min() < -1e4)
    )
    return (
        as_visible(array) if is_square and is_mask and name not in NAMES["position_ids"] else None
    )


def is_dump(content: Mapping[str, np.ndarray]) -> bool:
    """Whether an input holds cosines and sines."""
    names = {name.rpartition(".")[2].lower() for name in content}
    if names & {*COSINES} and names & {*SINES}:
        return True
    if len(content) != 1:
        return False
    (array,) = content.values()
    is_wave = array.dtype.kind == "f" and array.ndim >= 2 and bool((np.abs(array) <= 4).all())
    return is_wave and bool((np.rint(array) != array).any())


def judge_dump(
    name: str,
    content: Mapping[str, np.ndarray],
    files: Mapping[str, Any],
    model: Model | None,
    rules: Rules,
    params: Mapping[str, Any],
) -> Positions:
    """Judge the positions that the rows of a dump have."""
    raise PefourierError(f"{shown(name)} holds cosines and sines; pass the model's config too")
