"""Input of `positions`: a file, a batch of named arrays, an array, a dump or a mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.causes.pairs import RowPositions, exchanged_waves, recover_positions
from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding, Finding, finding, from_table
from pefourier.encodings.model_positions import axis_in
from pefourier.errors import PefourierError, check_size, shown
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.waves import Waves, declared, fit
from pefourier.ids.batch import (
    COSINES,
    NAMES,
    SINES,
    Batch,
    as_visible,
    batch_of,
    last_part,
    path_of,
    read_arrays,
    read_role,
)
from pefourier.ids.model import Model, read_model
from pefourier.ids.spans import Rules
from pefourier.questions.positions import (
    Positions,
    judge_mask,
    judge_positions,
    parse_rank,
    with_place,
)
from pefourier.questions.rotation_pairs import FARTHEST, at_rows_of, positions_in
from pefourier.types import Array, Counts, Values
from pefourier.writing.text import ranges


def judge_input(
    source: Any,
    arrays: Values,
    files: Values,
    config: Any = None,
    rank: str | tuple[int, int] | None = None,
    shard: str | None = None,
    length: int | None = None,
    past: int | None = None,
) -> Positions:
    """Check the ids of an input, with `arrays` by name and `files` by content."""
    spec = path_of(config)
    model = read_model(spec) if spec is not None else None
    rank = "/".join(map(str, rank)) if isinstance(rank, tuple) else rank
    rules = parse_rank(rank, shard, model.rules(length) if model else Rules(limit=length))
    name = path_of(source) or "ids"
    rules = replace(rules, past=past)
    params = {"config": spec, "rank": rank, "shard": shard, "length": rules.limit, "past": past}
    params = {key: value for key, value in params.items() if value is not None}
    content = arrays_of(source) | {k: numbers(v) for k, v in arrays.items() if v is not None}
    if is_dump(content):
        return judge_dump(name, content, files, model, rules, params)
    if (mask := mask_alone(content)) is not None:
        return judge_mask(mask, model, spec=name, params=params)
    batch = with_files(content, files, name, model, cached=past)
    return judge_positions(batch, model, rules, spec=name, params=params)


def arrays_of(source: Any) -> dict[str, Array]:
    """Read the arrays of a file or a mapping; "" names an array without a name."""
    if (path := path_of(source)) is not None:
        return read_arrays(path)
    if isinstance(source, Mapping):
        return {str(name): numbers(value) for name, value in source.items() if value is not None}
    return {"": numbers(source)}


def numbers(value: Any) -> Array:
    """Convert an array, a tensor or nested lists to a numeric array."""
    if callable(getattr(value, "numpy", None)):
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy(force=True)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise PefourierError("ids must be an array, or nested lists of equal length") from error
    if array.dtype.kind not in "biuf":
        raise PefourierError(f"ids must be integers; got {shown(type(value).__name__)}")
    return array


def with_files(
    content: Mapping[str, Array],
    files: Values,
    source: str,
    model: Model | None,
    **facts: Any,
) -> Batch:
    """Build a batch from arrays and further files."""
    content = dict(content)
    if "" in content:
        content["position_ids"] = content.pop("")
    for role, value in files.items():
        if (path := path_of(value)) is not None:
            ids = next((content[n] for n in NAMES["position_ids"] if n in content), None)
            content |= read_role(path, role, None if ids is None else ids.shape)
        elif value is not None:
            content[role] = numbers(value)
    tokens = model.vision_tokens if model else (None, None)
    has_axes = model.has_axes if model else False
    label = shown(Path(source).name) if source != "ids" else "the batch"
    return batch_of(content, label, has_axes=has_axes, vision_tokens=tokens, **facts)


def mask_alone(content: Mapping[str, Array]) -> Array | None:
    """Return the mask of queries and keys if the input holds nothing else."""
    if len(content) != 1 or not all(array.size for array in content.values()):
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


def is_dump(content: Mapping[str, Array]) -> bool:
    """Whether an input holds cosines and sines, or angles."""
    names = {last_part(name) for name in content}
    if names & {*COSINES} and names & {*SINES}:
        return True
    if len(content) != 1:
        return False
    (array,) = content.values()
    is_wave = array.dtype.kind == "f" and array.ndim >= 2 and bool(np.isfinite(array).all())
    return is_wave and bool((np.rint(array) != array).any())


def judge_dump(
    name: str,
    content: dict[str, Array],
    files: Values,
    model: Model | None,
    rules: Rules,
    params: Values,
) -> Positions:
    """Recover the positions of the rows of a dump and check them.

    Position ids beside cosines and sines are those that the rows should have.
    """
    if model is None:
        raise PefourierError(f"{shown(name)} holds cosines and sines; also pass the model's config")
    names = [name for name in content if last_part(name) in {*COSINES, *SINES}] or list(content)
    waves, rows = joined_waves([content.pop(name) for name in sorted(names, key=last_part)])
    is_rotated = model.encoding.injection != "add"
    factor = float(model.encoding.params.get("attention_factor", 1.0))
    if is_rotated and np.abs(waves).max() > 1.01 * factor:
        recovered = ids_of_angles(waves, model, name)
    else:
        is_table = rows == 1 and not content and name != "ids"
        table = (
            load(name)
            if is_table
            else from_table(waves, name, eps=float(np.finfo(waves.dtype).eps))
        )
        recovered = recover_ids(table, model) if is_rotated else matched_rows(table, model)
    axes, ids = len(recovered.uncertainty), recovered.ids
    ids = ids.reshape((axes, rows, -1) if axes > 1 else (rows, -1))
    role = next((n for n in content if last_part(n) in NAMES["position_ids"]), None)
    stated = None if role is None else content.pop(role)
    content["position_ids"] = ids
    batch = with_files(content, files, name, model, cached=rules.past, stated=stated)
    result = judge_positions(
        batch, model, rules, spec=name, params=params, uncertainty=recovered.uncertainty
    )
    return replace(result, findings=(*result.findings, *map(with_place, recovered.findings)))


def ids_of_angles(angles: Array, model: Model, name: str) -> Recovered:
    """Return the positions of rows of angles, position times frequency, as Megatron keeps them."""
    measure = model.encoding.measure
    omega = measure.frequencies if measure else np.ones(1)
    ids = np.rint(angles[:, 0] / omega[0])
    due = np.tile(np.multiply.outer(ids, omega), angles.shape[1] // len(omega))
    if due.shape != angles.shape or not np.allclose(angles, due, rtol=1e-2, atol=1e-3):
        raise PefourierError(
            f"{shown(name)} reaches {np.abs(angles).max():.4g}: these are not cosines, nor the "
            f"angles of {shown(model.spec)}"
        )
    return Recovered(ids.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Recovered:
    """Ids recovered from a dump, and the uncertainty of each axis in positions."""

    ids: Array
    uncertainty: Counts = (0,)
    findings: tuple[Finding, ...] = ()


def matched_rows(table: Encoding, model: Model) -> Recovered:
    """Match each row of a dump to a row of the model's table within rounding."""
    rows, dump = (np.asarray(enc.table(), dtype=float) for enc in (model.encoding, table))
    if rows.shape[1] != dump.shape[1]:
        raise PefourierError(
            f"{shown(table.label)} has {dump.shape[1]} columns; the table of {shown(model.spec)} "
            f"has {rows.shape[1]}"
        )
    check_size(table.label, len(rows), len(dump))
    squares = (rows**2).sum(axis=1)
    nearest = (squares - 2 * dump @ rows.T).argmin(axis=1)
    limit = 8 * max(table.eps, model.encoding.eps, FLOAT32_EPS) * np.abs(rows).max()
    is_far = np.abs(rows[nearest] - dump).max(axis=1) > limit
    if is_far.any():
        raise PefourierError(
            f"row {int(is_far.argmax())} of {shown(table.label)} is not in the table "
            f"of {shown(model.spec)}"
        )
    return Recovered(nearest)


def joined_waves(parts: list[Array]) -> tuple[Array, int]:
    """Return cosines and sines (…, n, d) as (rows * n, d), and the number of rows of a batch.

    Axes of length 1 are dropped.
    """
    shapes = {part.shape for part in parts}
    sides = [side for side in parts[0].shape[:-1] if side > 1]
    if len(shapes) > 1 or len(sides) > 2 or not parts[0].size:
        found = " and ".join(map(str, sorted(shapes)))
        raise PefourierError(f"cosines and sines must be (n, d) or (rows, n, d); got {found}")
    joined = np.concatenate(parts, axis=-1)
    return joined.reshape(-1, joined.shape[-1]), sides[0] if len(sides) > 1 else 1


def recover_ids(table: Encoding, model: Model) -> Recovered:
    """Recover the positions of rows of cosines and sines, with their uncertainty.

    Positions have shape (n,), or (3, 1, n) on axes. Raise an error if no position explains all
    pairs of a row within rounding.
    """
    enc = at_rows_of(model.encoding, table)
    reference, waves = declared(enc), fit(table.table(), table.eps)
    if reference is None:
        raise PefourierError(f"{shown(model.spec)} declares no frequencies to recover positions")
    is_whole = waves is not None and waves.form is not None and waves.form.part == "both"
    if waves is None or not is_whole or len(waves) != len(reference):
        count = "none" if waves is None else len(waves)
        raise PefourierError(
            f"{shown(table.label)} must hold cosines and sines of {len(reference)} pairs, as "
            f"{shown(model.spec)} does; it has {count}"
        )
    axis = axis_in(model.encoding) if model.has_axes else None
    parts = [None] if axis is None else [axis == i for i in range(3)]
    for candidate in (waves, exchanged_waves(waves)):
        on_axes = (rows_on_axis(enc, reference, candidate, part) for part in parts)
        rows = [positions for positions in on_axes if positions is not None]
        if len(rows) == len(parts) and all(part.explained.all() for part in rows):
            ids = np.array([part.positions for part in rows])
            uncertainty = tuple(int(part.uncertainty.max()) for part in rows)
            lists = list_findings(enc, reference, candidate) if axis is None else ()
            return Recovered(ids[:, None] if len(ids) > 1 else ids[0], uncertainty, lists)
    row = int((~np.all([part.explained for part in rows], axis=0)).argmax()) if rows else 0
    raise PefourierError(
        f"no position of {shown(model.spec)} explains row {row} of {shown(table.label)}; use "
        "pefourier compare to see how the frequencies differ"
    )


def list_findings(enc: Encoding, reference: Waves, waves: Waves) -> tuple[Finding, ...]:
    """Report which rows use which list of longrope factors, if both are used."""
    found = positions_in(enc, reference, waves)
    names = dict.fromkeys(found[1].tolist() if found else ())
    if found is None or len(names) < 2:
        return ()
    places = (f"rows {ranges(np.flatnonzero(found[1] == name).tolist())}" for name in names)
    words = ", ".join(f"{p} the {n} factors" for p, n in zip(places, names, strict=True))
    return (finding("ids-two-lists", words=words),)


def rows_on_axis(
    enc: Encoding, reference: Waves, waves: Waves, part: Array | None
) -> RowPositions | None:
    """Recover the position of each row, from all pairs or those of one axis."""
    if part is None:
        found = positions_in(enc, reference, waves)
        return found[0] if found else None
    if not part.any():
        return None
    rows = waves.numbers(np.arange(waves.length))[:, part] / waves.factor
    eps = max(FLOAT32_EPS, waves.eps)
    highest = max(8 * waves.length, FARTHEST)
    return recover_positions(reference.frequency[part], rows, eps, -waves.length, highest)
