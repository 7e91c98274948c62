"""The questions as functions: ``pefourier.spectrum("rope:rho=5e5", d=128)``.

Each function accepts a SPEC as on the command line, an array, a tensor, a torch module or a
function of (length, d). `spectrum`, `reconstruct`, `check`, `relations` and `encode` also accept a
list of these and return a list. An answer is a frozen dataclass with a `conclusion`, `to_dict()`
and `plot()`. Modules are imported when their function is called.

`length` and `d` default to the size of the input, otherwise to 80 and 256; ``"128k"`` is 131,072,
as in the shell. Further keywords are parameters of a named encoding, such as ``rho=5e5``. For every
encoding, ``grid="14x14"`` or ``grid=(14, 14)`` declares that rows are the points of a grid, and
``prefix=1`` sets the number of rows before the grid. If the rows of a table are recognized as
points of a grid, a finding reports it; ``grid=(197,)`` treats them as one axis.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from pefourier.encodings.loader import (
    Count,
    Source,
    count_of,
    is_list_of_sources,
    load,
    whole_numbers,
)
from pefourier.errors import OtherGrid, PefourierError, check_tolerance
from pefourier.types import Fields, Ints, Strings

if TYPE_CHECKING:  # imported when a function is called
    from pefourier.questions.compare import Comparison
    from pefourier.questions.context import Context
    from pefourier.questions.design import Design
    from pefourier.questions.positions import Positions
    from pefourier.questions.relations import BiasRelations, Relations
    from pefourier.questions.usage import Usage

FilePath = str | os.PathLike[str]


def for_each(question: Callable[..., Any]) -> Callable[..., Any]:
    """Return a question that also accepts a list of sources, and then returns a list of answers.

    >>> [len(enc.table()) for enc in for_each(load)(["dft", "rope"], length=9)]
    [9, 9]
    """

    @wraps(question)
    def of_one_or_each(*sources: Any, **options: Any) -> Any:
        if sources and is_list_of_sources(sources[0]):
            return [question(one, *sources[1:], **options) for one in sources[0]]
        return question(*sources, **options)

    return of_one_or_each


def compare(
    a: Source,
    b: Source,
    *,
    length: Count | None = None,
    d: Count | None = None,
    tolerance: float | None = None,
    **params: Any,
) -> Comparison:
    """Compare two encodings: report the transform between them, or where they differ.

    A named encoding gets the length and dimension of the other encoding. With a `tolerance`, tables
    are equal if their numbers differ by at most that. ``grid`` has the sides of the first; those
    of a second table with another number of rows are recovered.

    Examples
    --------
    >>> compare("sinusoidal", "sinusoidal:layout=halves").verdict
    'equivalent'
    """
    from pefourier.questions.compare import compare as compare_encodings
    from pefourier.questions.compare import load_matching_pair

    if tolerance is not None:
        check_tolerance(tolerance)
    try:
        pair = load_matching_pair(a, b, length, d, params)
    except OtherGrid as error:  # what would fit one of them may not fit both
        raise PefourierError(f"{error.fact}; leave out --grid to compare rows by number") from None
    return compare_encodings(*pair, tolerance)


def relations(encoding: Source, **params: Any) -> Relations | BiasRelations:
    """Describe how the vectors of positions, or of lags, relate to one another.

    Examples
    --------
    >>> relations("sinusoidal", length=512, d=64).first_rise
    6
    """
    from pefourier.questions.relations import relate

    return relate(load(encoding, **params))


def context(
    spec: FilePath,
    *,
    length: Count | None = None,
    trained: Count | None = None,
    d: Count | None = None,
    against: str | None = None,
) -> Context:
    """Describe the positions of a model: its layers, rotations and frequency bands.

    Parameters
    ----------
    spec : str or path
        A model's config.json or folder, or a rotation such as "rope:rho=5e5".
    length, trained : int, optional
        Number of positions to examine, and number of positions in training.
    against : str, optional
        Another SPEC, or a misreading such as "scaling-ignored" or "base=10000".

    Examples
    --------
    >>> context("rope:rho=5e5", length=131072, trained=8192, d=128).rotations[0].unseen
    29
    """
    from pefourier.questions.context import describe_context

    if not isinstance(spec, str | os.PathLike):
        raise PefourierError(
            "context takes a model's config.json or folder, or a rotation such as rope:rho=5e5; "
            f"got {type(spec).__name__}"
        )
    length, trained, d = whole_numbers(length=length, trained=trained, d=d)
    encodings, reach = describe_context(os.fspath(spec), length, trained, d, against)
    return replace(reach, encodings=(replace(encodings[0], spec=os.fspath(spec)),))


def positions(
    position_ids: Any,
    attention_mask: Any = None,
    cu_seqlens: Any = None,
    config: FilePath | None = None,
    rank: str | tuple[int, int] | None = None,
    *,
    shard: str | None = None,
    length: Count | None = None,
    past: Count | None = None,
    mask: str | None = None,
    segments: Any = None,
    depth: Any = None,
    **arrays: Any,
) -> Positions:
    """Check position ids against the positions that the model should receive.

    Parameters
    ----------
    position_ids : array, tensor, mapping or path
        Ids (n,), (rows, n) or (axes, rows, n); a batch with names such as `attention_mask` (a
        tokenizer's output); or a file with ids, a batch, or cosines and sines.
    attention_mask : array, optional
        0 and 1 per token, segment numbers, or queries by keys.
    cu_seqlens : array, optional
        Cumulative lengths of packed documents.
    config : str or path, optional
        The model's config.json or folder, or a SPEC such as "rope".
    rank, shard : optional
        Number of this rank and number of ranks that share a sequence, "1/4" or (1, 4); split of
        the sequence: "every", "block" or "zigzag".
    length : int, optional
        Upper limit: all ids must be smaller.
    past : int, optional
        Tokens in the cache; an `attention_mask` (rows, past + n) and `cache_position` show them.
    segments, depth : array or path, optional
        Segment number of each token; depth of each token in a tree.
    **arrays
        Further arrays of a batch, such as `image_grid_thw`.

    Examples
    --------
    >>> positions([[0, 1, 2, 3]], attention_mask=[[0, 1, 1, 1]]).verdict
    'padding counted'
    """
    from pefourier.questions.positions import judge_input

    given = {"attention_mask": attention_mask, "cu_seqlens": cu_seqlens, **arrays}
    files = {"attention_mask": mask, "segment_ids": segments, "depth": depth}
    length, past = whole_numbers(length=length, past=past)
    return judge_input(position_ids, given, files, config, rank, shard, length, past)


def usage(
    model: FilePath,
    *,
    length: Count | None = None,
    layers: Ints | None = None,
    against: FilePath | None = None,
    stats: FilePath | None = None,
    base: FilePath | None = None,
) -> Usage:
    """Measure which rotary frequencies a model's weights use, as ``pefourier usage --all`` does.

    Parameters
    ----------
    model : str or path
        A model's folder, its .safetensors file next to config.json, a .gguf file, or the folder
        of a PEFT adapter.
    length : int, optional
        Number of positions, by default the trained length.
    layers : sequence of int, optional
        Layers to read, by default all.
    against : str or path, optional
        Another checkpoint of the model; with `stats`, another file of means.
    stats : str or path, optional
        File of mean activations to use instead of weights; `model` may then be a config.json.
    base : str or path, optional
        Folder of the base of a PEFT adapter, by default the folder that the adapter names.
    """
    from pefourier.questions.usage import use_of_model

    (length,) = whole_numbers(length=length)
    against, stats, base = (
        None if path is None else os.fspath(path) for path in (against, stats, base)
    )
    return use_of_model(
        os.fspath(model), length, layers, every_head=True, against=against, stats=stats, base=base
    )


def design(
    length: Count | Ints | None = None,
    d: Count | None = None,
    *,
    criteria: Strings = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
    span: str | float | None = None,
    resolution: str | float | None = None,
) -> Design | tuple[Design, ...]:
    """Choose a base for a length: the candidates, and the best base by each criterion.

    If the length is a sequence, it gives the sides of a grid, and each axis gets a design. Instead
    of a length, pass a span and a resolution, as numbers or with units ("1h", "250ms").

    Examples
    --------
    >>> design(80, 256, criteria=["turns"]).best["turns"]  # doctest: +ELLIPSIS
    12.99...
    >>> [one.axis for one in design((30, 52), 64, criteria=["turns"])]
    ['y', 'x']
    >>> design(d=64, span="1h", resolution="1s", criteria=["turns"]).length
    3600
    """
    from pefourier.questions.design import BASES, count_steps, design_base, design_grid

    if d is None or (span is None) != (resolution is None) or (length is None) == (span is None):
        raise PefourierError(
            "design needs d (--d N), and a length, a grid, or a span with its resolution"
        )
    if span is not None:
        length = count_steps(str(span), str(resolution))
    options: Fields = {"bases": bases or BASES, "criteria": criteria or None}
    options |= {"d": count_of("d", d), "dtype": dtype}
    if length is None or (isinstance(length, Sequence) and not isinstance(length, str)):
        return design_grid(length or (), **options)
    return design_base(count_of("length", length), **options)
