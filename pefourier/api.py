"""The questions as functions: ``pefourier.spectrum("rope:rho=5e5", d=128)``.

Each takes what a command takes, a SPEC, or an array, a tensor, a torch module or a function of
(length, d), and gives a frozen dataclass with a `conclusion`, `to_dict()` and `plot()`. A room is
imported when its question is asked.

`length` and `d` are by default those of what is given, else 80 and 256; ``"128k"`` is 131072, as in
the shell. Further keywords are parameters of a named encoding, such as ``rho=5e5``; for all,
``grid="14x14"``, or (14, 14), says that rows are the points of a grid, and ``prefix=1`` how many
rows before them are not. Rows of a table that turn out to be points of a grid are taken so, as a
finding says; ``grid=(197,)`` takes them as one axis.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.checks import check_tolerance, check_whole
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import as_stored
from pefourier.encodings.loader import (
    Count,
    Source,
    SpecWithDefaults,
    count_of,
    load,
    whole_numbers,
)
from pefourier.errors import PefourierError, shown
from pefourier.writing.text import read_sides

if TYPE_CHECKING:  # each is imported when it is asked
    from pefourier.encodings.domain import Domain
    from pefourier.geometry import Progress
    from pefourier.questions.check_faithful import GridFaithfulness, LineFaithfulness
    from pefourier.questions.compare import Comparison
    from pefourier.questions.context import Context
    from pefourier.questions.design import Design
    from pefourier.questions.positions import Positions
    from pefourier.questions.reconstruct import GridReconstructions, LineReconstructions
    from pefourier.questions.relations import Relations
    from pefourier.questions.resize import Resizing
    from pefourier.questions.spectral_density import Method
    from pefourier.questions.spectrum import GridSpectrum, LineSpectrum
    from pefourier.weights.usage import Usage


def spectrum(
    encoding: Source,
    *,
    lattice: Count | None = None,
    sigma: float | None = None,
    method: Method = "auto",
    **params: Any,
) -> LineSpectrum | GridSpectrum:
    """Which frequencies does it have? The density of the paper's Eq. 15 over a lattice.

    Parameters
    ----------
    encoding : str, path, Encoding, array or tensor (n, d), torch module, or function (length, d)
        What is asked about.
    lattice : int, optional
        Points N of the frequency axis, by default the dimension d, or the length where a longer one
        is given, or a model's config sets it.
    sigma : float, optional
        Bandwidth in lattice steps, default 4; 0 does not smooth.
    method : str
        "declared", "periodogram" or "auto".
    **params
        `length`, `d` and what else the module's docstring says; ``demean=True`` leaves out what is
        the same in all rows of the table.

    Examples
    --------
    >>> spectrum("rope:rho=5e5", d=128).summary.below_first_bin
    49
    >>> spectrum(np.eye(8), sigma=0).method
    'periodogram'
    """
    from pefourier.questions.spectrum import spectrum as spectrum_of

    (lattice,) = whole_numbers(lattice=lattice)
    return spectrum_of(load(encoding, **params), lattice, sigma, method)


def reconstruct(
    encoding: Source,
    positions: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    lattice: Count | None = None,
    sigma: float | None = None,
    method: Method = "auto",
    **params: Any,
) -> LineReconstructions | GridReconstructions:
    """What is left of a position? Deltas rebuilt from the frequencies, and from the codes.

    Parameters
    ----------
    encoding, lattice, sigma, method, **params
        As in `spectrum`.
    positions : sequence of int, or of points, optional
        Where to put deltas, by default 5, 40 and 75, or as far along a shorter lattice; on a grid
        points such as (3, 4), by default the middle.

    Examples
    --------
    >>> reconstruct("dft", [40]).inverse_error < 1e-12
    True
    """
    from pefourier.questions.reconstruct import position_functions

    (lattice,) = whole_numbers(lattice=lattice)
    points = as_points(positions)
    flat = [x for point in points for x in point]
    shortest = max([79, *flat]) + 1
    enc = load(encoding, min_length=shortest, **params)
    where = points if len(enc.domain.sides) > 1 else flat
    return position_functions(enc, where or None, lattice, sigma, method)


def check(
    encoding: Source, *, progress: Callable[[str], Progress] | None = None, **params: Any
) -> LineFaithfulness | GridFaithfulness:
    """Are codes distinct, can they be inverted? What ``pefourier check-faithful`` says.

    `progress` is called with the name of each phase of the work; what it gives, with parts done and
    all. Other parameters are those of `spectrum`.

    Examples
    --------
    >>> assert check("dft", length=80).faithful
    >>> check("dft", length=80, d=64).closest_pair
    (0, 64)
    """
    from pefourier.questions.check_faithful import check_faithful

    enc = load(encoding, **params)
    if enc.injection == "rotate" and "path" in enc.params:
        from pefourier.weights.usage import with_pairing

        enc = with_pairing(enc)
    return check_faithful(enc, progress)


def compare(
    a: Source,
    b: Source,
    *,
    length: Count | None = None,
    d: Count | None = None,
    tolerance: float | None = None,
    grid_second: str | Sequence[int] | None = None,
    **params: Any,
) -> Comparison:
    """Are two implementations the same encoding? What leads from one to the other, or where not.

    A named encoding takes the length and dimension of what it is compared with. With a `tolerance`
    two are equal whose numbers, as they are, differ by no more than that. ``grid_second`` are the
    sides of the second's own grid, beside the first's ``grid``.

    Examples
    --------
    >>> compare("sinusoidal", "sinusoidal:layout=halves").verdict
    'equivalent'
    """
    from pefourier.questions.compare import compare as compare_encodings
    from pefourier.questions.matching_pair import load_matching_pair

    if tolerance is not None:
        check_tolerance(tolerance)
    pair = load_matching_pair(a, b, length, d, params, grid_second)
    return compare_encodings(*pair, tolerance)


def relations(encoding: Source, **params: Any) -> Relations:
    """How do the codes of positions, or of lags, relate to one another?

    Examples
    --------
    >>> relations("sinusoidal", length=512, d=64).first_rise
    6
    """
    from pefourier.questions.relations import relate

    return relate(load(encoding, **params))


def context(
    spec: str | os.PathLike[str],
    *,
    length: Count | None = None,
    trained: Count | None = None,
    d: Count | None = None,
    against: str | None = None,
) -> Context:
    """How far do a model's positions reach? Its layers, rotations and bands of frequencies.

    Parameters
    ----------
    spec : str or path
        A model's config.json or folder, or a rotation such as "rope:rho=5e5".
    length, trained : int, optional
        Positions asked for, and those of training.
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
    config: str | os.PathLike[str] | None = None,
    rank: str | tuple[int, int] | None = None,
    *,
    shard: str | None = None,
    length: Count | None = None,
    mask: str | None = None,
    segments: Any = None,
    depth: Any = None,
    **arrays: Any,
) -> Positions:
    """Judge position ids: are these the positions that the model should see?

    Parameters
    ----------
    position_ids : array, tensor, mapping or path
        Ids (n,), (rows, n) or (axes, rows, n); a batch with such names as `attention_mask` (a
        tokenizer's output); or a file of either, or of cosines and sines.
    attention_mask : array, optional
        0 and 1 per token, segment numbers, or queries by keys.
    cu_seqlens : array, optional
        Cumulative lengths of packed documents.
    config : str or path, optional
        The model's config.json or folder, or a SPEC such as "rope".
    rank, shard : optional
        This rank of several that share a sequence, "1/4" or (1, 4), and how it is split: "every",
        "block" or "zigzag".
    length : int, optional
        Ids must be below it.
    segments, depth : array or path, optional
        Segment number, or depth in a tree, of each token.
    **arrays
        Further arrays of a batch, such as `image_grid_thw`.

    Examples
    --------
    >>> positions([[0, 1, 2, 3]], attention_mask=[[0, 1, 1, 1]]).verdict
    'padding counted'
    """
    from pefourier.questions.position_input import judge_input

    given = {"attention_mask": attention_mask, "cu_seqlens": cu_seqlens, **arrays}
    files = {"attention_mask": mask, "segment_ids": segments, "depth": depth}
    (length,) = whole_numbers(length=length)
    return judge_input(position_ids, given, files, config, rank, shard, length)


def usage(
    model: str | os.PathLike[str],
    *,
    length: Count | None = None,
    layers: Sequence[int] | None = None,
    against: str | os.PathLike[str] | None = None,
    stats: str | os.PathLike[str] | None = None,
) -> Usage:
    """Which rotary frequencies do a model's weights use? What ``pefourier usage --all`` says.

    Parameters
    ----------
    model : str or path
        A model's folder, its .safetensors file beside config.json, or a .gguf file.
    length : int, optional
        Positions asked for, by default those of training.
    layers : sequence of int, optional
        Layers that are looked at, by default all.
    against : str or path, optional
        Another checkpoint of the model; with `stats` another file of means.
    stats : str or path, optional
        Means of activations in place of weights; `model` may then be a config.json.
    """
    from pefourier.weights.usage import use_of_model

    (length,) = whole_numbers(length=length)
    against, stats = (None if path is None else os.fspath(path) for path in (against, stats))
    return use_of_model(
        os.fspath(model), length, layers, every_head=True, against=against, stats=stats
    )


def design(
    length: Count | Sequence[int] | None = None,
    d: Count | None = None,
    *,
    criteria: Sequence[str] = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
    span: str | float | None = None,
    resolution: str | float | None = None,
) -> Design | tuple[Design, ...]:
    """Which base for my length? Candidates, and the best of them by each criterion.

    For sides of a grid in place of a length: a design for each axis. In place of a length, too, a
    span and a resolution: numbers, or texts with a unit such as "1h" and "250ms".

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
    options: dict[str, Any] = {"bases": bases or BASES, "criteria": criteria or None}
    options |= {"d": count_of("d", d), "dtype": dtype}
    if length is None or (isinstance(length, Sequence) and not isinstance(length, str)):
        return design_grid(length or (), **options)
    return design_base(count_of("length", length), **options)


def resize(
    encoding: Source,
    to: Sequence[int] | str,
    *,
    method: str = "",
    from_crop: Sequence[int] = (),
    d: Count | None = None,
    **params: Any,
) -> Resizing:
    """What becomes of a table at another size of images, or length of texts? By all methods.

    Parameters
    ----------
    encoding
        As in `spectrum`, with its `grid` among `params`.
    to : sequence of int, or str
        Sides of the new grid, the slowest axis first, such as (24, 24) or "24x24".
    method : str
        bicubic, bilinear, antialias, fourier, dinov2, geometric, center-crop or crop; by default
        the model's own where it is known, else bicubic. Rotations and Swin V2's biases are
        recomputed where none is given.
    from_crop : sequence of int
        First point of the old grid that method "crop" keeps; by default that of index 0.
    d, **params
        As in `check`; `grid` and `prefix` among them.

    Examples
    --------
    >>> resize("axial", (20, 24), grid=(14, 14), d=16).table.shape
    (480, 16)
    """
    from pefourier.questions.resize import (
        has_formula,
        on_own_grid,
        resize_table,
    )

    prefix = params.pop("prefix", 0)
    to = read_sides(to) if isinstance(to, str) else to
    if isinstance(params.get("grid"), str):
        params["grid"] = read_sides(params["grid"])
    enc = load(encoding, None, d, prefix=prefix, **params)
    enc = enc if params.get("grid") else on_own_grid(enc, len(to))
    if enc.domain.kind == "lag" and params.get("grid") == enc.domain.grid:
        raise PefourierError(
            f"{shown(enc.label)} has biases of a window; give the sides of windows, not those of "
            "its displacements, as --from and --to"
        )
    formula = None
    if enc.rebuild_at is not None and len(enc.domain.sides) == len(to):
        formula = enc.rebuild_at(tuple(to))
    elif isinstance(encoding, str) and has_formula(enc, encoding, to):
        elsewhere = re.sub(r"(?<=[:,])grid=[^,]*", "", encoding)  # which would win
        formula = load(elsewhere, None, d, **{**params, "grid": tuple(to), "prefix": prefix})
    return resize_table(enc, to, method or "crop" * bool(from_crop), formula, tuple(from_crop))


def encode(
    encoding: Source,
    positions: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    what: str = "vectors",
    **params: Any,
) -> np.ndarray[Any, np.dtype[Any]]:
    """The vectors of all positions, or of some, on a grid also points: float64 (n, d).

    Or `what` engines store in their place: inv_freq, cos, sin, cos-sin or complex, in the layout
    of the rotation.

    Examples
    --------
    >>> encode("dft", [0, 131071], d=64).shape
    (2, 64)
    >>> encode("rope:rho=100", d=4, what="inv_freq")
    array([1. , 0.1])
    """
    enc, x = points_at(encoding, positions, **params)
    if what == "vectors":
        return np.asarray(enc.table(x), dtype=float)
    from pefourier.questions.encode import computed, layout_of

    return np.concatenate(list(computed(enc, x, what, layout_of(enc, what))))


def points_at(
    encoding: Source | SpecWithDefaults,
    positions: Sequence[int] | Sequence[Sequence[int]] | None = None,
    **params: Any,
) -> tuple[Encoding, np.ndarray]:
    """An encoding, and the points (n,) that are asked for."""
    points = as_points(positions)
    enc = load(encoding, **params)
    rows = as_stored(enc, enc.domain.x)
    return enc, np.array(rows_of_points(enc.domain, points), dtype=np.int64) if points else rows


def as_points(positions: Sequence[int] | Sequence[Sequence[int]] | None) -> list[tuple[int, ...]]:
    """Points of one number or several; a position is a point of one.

    >>> as_points([(3, 4), 5])
    [(3, 4), (5,)]
    """
    points = np.atleast_1d(positions) if np.isscalar(positions) else positions or ()
    points = [np.atleast_1d(point).tolist() for point in points]
    for x in (x for point in points for x in point):
        check_whole("a position", x)
    return [tuple(map(int, point)) for point in points]


def rows_of_points(domain: Domain, points: Sequence[tuple[int, ...]]) -> list[int]:
    """Rows of the table that are meant: on a grid 3,4 is a point, else each number is a position.

    A number alone is a row, on a grid, too: those before it have no place.

    >>> from pefourier.encodings.domain import lattice, positions
    >>> rows_of_points(lattice((14, 14), prefix=1), [(3, 4), (0,)])
    [47, 0]
    >>> rows_of_points(positions(9), [(3, 4), (0,)])
    [3, 4, 0]
    """
    if len(domain.sides) == 1 or domain.kind != "position":
        return [row for point in points for row in point]
    from pefourier.questions.reconstruct import check_point

    def row_of(point: tuple[int, ...]) -> int:
        return domain.prefix + int(
            np.ravel_multi_index(check_point(point, domain.sides), domain.sides)
        )

    return [row_of(point) if len(point) > 1 else point[0] for point in points]
