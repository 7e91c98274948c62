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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, overload

import numpy as np

from pefourier.encodings.checks import check_count, check_tolerance, check_whole
from pefourier.encodings.encoding import Encoding, without_mean
from pefourier.encodings.grids import as_stored
from pefourier.encodings.registry import BUILDERS, canonical_spec, unknown_parameter
from pefourier.encodings.specs import load, refuse_times, source_of
from pefourier.errors import PefourierError, shown
from pefourier.writing.text import read_sides, whole_number

if TYPE_CHECKING:  # each is imported when it is asked
    import torch

    from pefourier.analysis.compare import Comparison
    from pefourier.analysis.context import Context
    from pefourier.analysis.design import Design
    from pefourier.analysis.extend import Extensions
    from pefourier.analysis.faithful import Faithfulness
    from pefourier.analysis.reconstruct import Reconstructions
    from pefourier.analysis.relations import Relations
    from pefourier.analysis.resize import Resizing
    from pefourier.analysis.spectrum import Spectrum
    from pefourier.encodings.domain import Domain
    from pefourier.geometry import Progress
    from pefourier.weights.usage import Usage

Source: TypeAlias = (
    "str | os.PathLike[str] | Encoding | np.ndarray[Any, Any] | Sequence[Sequence[float]] "
    "| torch.Tensor | torch.nn.Module | Callable[..., Any]"
)
Count: TypeAlias = int | str  # texts as the shell takes them: "128k", "3e5"

MOST_OF_CODE = 2**25  # numbers that code is asked for where nobody said how many
PLACES = {"grid", "prefix"}  # keywords of all encodings: where their rows stand


def spectrum(
    encoding: Source,
    *,
    length: Count | None = None,
    d: Count | None = None,
    lattice: Count | None = None,
    sigma: float | None = None,
    method: str = "auto",
    demean: bool = False,
    **params: Any,
) -> Spectrum:
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
    demean : bool
        Leave out what is the same in all rows of the table.
    length, d, **params
        As the module's docstring says.

    Examples
    --------
    >>> spectrum("rope:rho=5e5", d=128).summary.below_first_bin
    49
    >>> spectrum(np.eye(8), sigma=0).method
    'periodogram'
    """
    from pefourier.analysis.spectrum import density

    (lattice,) = whole_numbers(lattice=lattice)
    enc = encoding_of(encoding, length, d, params, demean=demean)
    return density(enc, lattice, sigma, method)


def reconstruct(
    encoding: Source,
    positions: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    length: Count | None = None,
    d: Count | None = None,
    lattice: Count | None = None,
    sigma: float | None = None,
    method: str = "auto",
    demean: bool = False,
    **params: Any,
) -> Reconstructions:
    """What is left of a position? Deltas rebuilt from the frequencies, and from the codes.

    Parameters
    ----------
    encoding, length, d, lattice, sigma, method, demean, **params
        As in `spectrum`.
    positions : sequence of int, or of points, optional
        Where to put deltas, by default 5, 40 and 75, or as far along a shorter lattice; on a grid
        points such as (3, 4), by default the middle.

    Examples
    --------
    >>> reconstruct("dft", [40]).inverse_error < 1e-12
    True
    """
    from pefourier.analysis.reconstruct import position_functions

    (lattice,) = whole_numbers(lattice=lattice)
    points = as_points(positions)
    flat = [x for point in points for x in point]
    least, along_rows = max([79, *flat]) + 1, any(len(point) != 2 for point in points)
    enc = encoding_of(encoding, length, d, params, least, as_rows=along_rows, demean=demean)
    wanted = points if len(enc.domain.sides) > 1 else flat
    return position_functions(enc, wanted or None, lattice, sigma, method)


@overload
def check(
    encoding: Source,
    *,
    length: Count | None = None,
    d: Count | None = None,
    progress: Callable[[str], Progress] | None = None,
    **params: Any,
) -> Faithfulness: ...


@overload
def check(
    encoding: Source, *, length: Sequence[int], d: Count | None = None, **params: Any
) -> tuple[Faithfulness, ...]: ...


def check(
    encoding: Source,
    *,
    length: Count | Sequence[int] | None = None,
    d: Count | None = None,
    progress: Callable[[str], Progress] | None = None,
    **params: Any,
) -> Faithfulness | tuple[Faithfulness, ...]:
    """Are codes distinct, can they be inverted? What ``pefourier check-faithful`` says.

    Of several lengths: an answer for each.

    Parameters
    ----------
    encoding, length, d, **params
        As in `spectrum`.
    progress : callable, optional
        Called with the name of each phase of the work; what it gives, with parts done and all.

    Examples
    --------
    >>> assert check("dft", length=80).faithful
    >>> check("dft", length=80, d=64).closest_pair
    (0, 64)
    >>> [one.verdict for one in check("dft", length=(64, 128), d=64)]
    ['isometric', 'collides']
    """
    if are_several(length):
        own = {"d": d, "progress": progress, **params}
        return tuple(check(encoding, length=one, **own) for one in length)
    from pefourier.analysis.faithful import assess

    return assess(beside_weights(encoding_of(encoding, length, d, params)), progress)


def beside_weights(enc: Encoding) -> Encoding:
    """A rotation of a config, with what weights beside it say of its pairs."""
    if enc.act != "rotate" or "path" not in enc.params:
        return enc
    from pefourier.weights.layout import with_pairing

    return with_pairing(enc)


def compare(
    a: Source,
    b: Source,
    *,
    length: Count | None = None,
    d: Count | None = None,
    tolerance: float | None = None,
    **params: Any,
) -> Comparison:
    """Are two implementations the same encoding? What leads from one to the other, or where not.

    A named encoding takes the length and dimension of what it is compared with. With a `tolerance`
    two are equal whose numbers, as they are, differ by no more than that.

    Examples
    --------
    >>> compare("sinusoidal", "sinusoidal:layout=halves").verdict
    'equivalent'
    """
    from pefourier.analysis.compare import compare as compare_encodings

    if tolerance is not None:
        check_tolerance(tolerance)
    return compare_encodings(*pair_of(a, b, length, d, params), tolerance)


def relations(
    encoding: Source, *, length: Count | None = None, d: Count | None = None, **params: Any
) -> Relations:
    """How do the codes of positions, or of lags, relate to one another?

    Examples
    --------
    >>> relations("sinusoidal", length=512, d=64).first_rise
    6
    """
    from pefourier.analysis.relations import relate

    return relate(encoding_of(encoding, length, d, params))


@overload
def context(
    spec: str | os.PathLike[str],
    *,
    length: Count | None = None,
    trained: Count | None = None,
    d: Count | None = None,
    against: str | None = None,
) -> Context: ...


@overload
def context(
    spec: str | os.PathLike[str], *, length: Sequence[int], **others: Any
) -> tuple[Context, ...]: ...


def context(
    spec: str | os.PathLike[str],
    *,
    length: Count | Sequence[int] | None = None,
    trained: Count | None = None,
    d: Count | None = None,
    against: str | None = None,
    **params: Any,
) -> Context | tuple[Context, ...]:
    """How far do a model's positions reach? Its layers, rotations and bands of frequencies.

    Parameters
    ----------
    spec : str or path
        A model's config.json or folder, or a rotation such as "rope:rho=5e5".
    length, trained : int, optional
        Positions asked for, of several lengths each, and those of training.
    against : str, optional
        Another SPEC, or a misreading such as "scaling-ignored" or "base=10000".

    Examples
    --------
    >>> context("rope:rho=5e5", length=131072, trained=8192, d=128).rotations[0].unseen
    29
    """
    refuse_keywords(
        "context", params, os.fspath(spec) if isinstance(spec, str | os.PathLike) else ""
    )
    if are_several(length):
        own = {"trained": trained, "d": d, "against": against}
        return tuple(context(spec, length=one, **own) for one in length)
    from pefourier.analysis.context import describe_context, read_against

    if not isinstance(spec, str | os.PathLike):
        raise PefourierError(
            "context takes a model's config.json or folder, or a rotation such as rope:rho=5e5; "
            f"got {type(spec).__name__}"
        )
    length, trained, d = whole_numbers(length=length, trained=trained, d=d)
    own, found = describe_context(os.fspath(spec), length, trained, d)
    reading = read_against(own, against, found.length, d) if against else None
    return replace(found, about=(replace(own[0], spec=os.fspath(spec)),), against=reading)


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
    files = [None if one is None else os.fspath(one) for one in (against, stats)]
    return use_of_model(os.fspath(model), length, layers, True, *files)


@overload
def design(
    length: Count | None = None,
    d: Count | None = None,
    *,
    criteria: Sequence[str] = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
    span: str | float | None = None,
    resolution: str | float | None = None,
) -> Design: ...


@overload
def design(length: Sequence[int], d: Count, **others: Any) -> tuple[Design, ...]: ...


def design(
    length: Count | Sequence[int] | None = None,
    d: Count | None = None,
    *,
    criteria: Sequence[str] = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
    span: str | float | None = None,
    resolution: str | float | None = None,
    **others: Any,
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
    refuse_keywords("design", others)
    from pefourier.analysis.design import BASES, CRITERIA, Steps, design_base, design_grid

    steps = None
    if span is not None and resolution is not None and length is None:
        steps = Steps(str(span), str(resolution))
    if d is None or (length is None and steps is None) or (span is None) != (resolution is None):
        raise PefourierError("design needs d, and a length or both a span and a resolution")
    if steps is None and span is not None:
        raise PefourierError("design takes a length, or a span and a resolution; leave one out")

    own: dict[str, Any] = {
        "bases": bases or BASES,
        "criteria": criteria or CRITERIA,
        "dtype": dtype,
    }
    (d,) = whole_numbers(d=d)
    if are_several(length):
        return design_grid(length, d, **own)
    (length,) = whole_numbers(length=length)
    return replace(design_base(steps.length if steps else length, d, **own), steps=steps)


@overload
def extend(spec: str | os.PathLike[str], to: Count, **others: Any) -> Extensions: ...


@overload
def extend(
    spec: str | os.PathLike[str], to: Sequence[int], **others: Any
) -> tuple[Extensions, ...]: ...


def extend(
    spec: str | os.PathLike[str],
    to: Count | Sequence[int],
    *,
    trained: Count | Sequence[int] | None = None,
    d: Count | None = None,
    criteria: Sequence[str] = (),
    bases: Sequence[float] = (),
    dtype: str | None = None,
) -> Extensions | tuple[Extensions, ...]:
    """Which scaling takes a model to a length? For sides of a grid an answer for each axis.

    Parameters
    ----------
    spec : str or path
        A model's config.json or folder, or a rotation such as "rope:rho=5e5".
    to : int, or sequence of int
        Positions to extend to, or the sides of a grid.
    trained, d : int, optional
        Positions (of a grid its sides) of training, and the size of a head, where a rotation
        states none.
    criteria, bases
        Bases alone that are tried: those of turns, bound or wavelength=K, and others.

    Examples
    --------
    >>> len(extend("rope", 256, trained=64, d=16).candidates)
    5
    """
    from pefourier.analysis.extend import extend as extend_rotation
    from pefourier.analysis.extend import extend_on_grid

    own: dict[str, Any] = {"criteria": criteria, "bases": bases, "dtype": dtype}
    if are_several(to):
        if trained is not None and not are_several(trained):
            raise PefourierError(
                f"a grid is extended from the sides of one of training; got {shown(trained)}; give "
                "--length as the sides, such as 14x14, or leave it out"
            )
        params = {"to": None, "grid": tuple(to), "dtype": dtype}
        found = extend_on_grid(os.fspath(spec), to, trained or (), **own)
        return tuple(replace(one, params=params) for one in found)
    to, trained, d = whole_numbers(to=to, trained=trained, d=d)
    found = extend_rotation(os.fspath(spec), to, trained=trained, d=d, **own)
    return replace(found, params={"to": to, "grid": None, "dtype": dtype})


def resize(
    encoding: Source,
    to: Sequence[int] | str,
    *,
    method: str = "",
    d: Count | None = None,
    progress: Callable[[str], Progress] | None = None,
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
        bicubic (default), antialias, timm, dinov2, bilinear, fourier, bicubic-corners or
        bilinear-corners; rotations and Swin V2's biases are computed anew where none is given.
    d, progress, **params
        As in `check`; `grid` and `prefix` among them.

    Examples
    --------
    >>> resize("axial", (20, 24), grid=(14, 14), d=16).table.shape
    (480, 16)
    """
    from pefourier.analysis.resize import (
        has_formula,
        lags_of_map,
        on_own_grid,
        resize_table,
        sides_of_window,
    )

    prefix = params.pop("prefix", 0)
    to = read_sides(to) if isinstance(to, str) else to
    if isinstance(params.get("grid"), str):
        params["grid"] = read_sides(params["grid"])
    enc = encoding_of(encoding, None, d, {**params, "prefix": prefix}, as_rows=True)
    to = lags_of_map(enc, to)
    enc = enc if params.get("grid") else on_own_grid(enc, len(to))
    lags = enc.domain.kind == "lag"
    if lags and params.get("grid") == enc.domain.grid:
        to = sides_of_window(enc, to)
    formula = None
    if enc.anew is not None and len(enc.domain.sides) == len(to):
        formula = enc.anew(tuple(to))
    elif has_formula(enc, encoding, to):
        anew = {**params, "grid": tuple(to), "prefix": prefix}
        elsewhere = re.sub(r"(?<=[:,])grid=[^,]*", "", encoding)  # which would win
        formula = encoding_of(elsewhere, None, d, anew)
    return resize_table(enc, to, method, formula, progress)


def encode(
    encoding: Source,
    positions: Sequence[int] | Sequence[Sequence[int]] | None = None,
    *,
    length: Count | None = None,
    d: Count | None = None,
    **params: Any,
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The codes of all positions, or of some, on a grid also points: float64 (n, d).

    Examples
    --------
    >>> encode("dft", [0, 131071], d=64).shape
    (2, 64)
    """
    return codes_at(encoding, positions, length, d, params)[2]


def codes_at(
    encoding: Source | WithDefaults,
    positions: Sequence[int] | Sequence[Sequence[int]] | None = None,
    length: Count | None = None,
    d: Count | None = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[Encoding, np.ndarray, np.ndarray[Any, np.dtype[np.float64]]]:
    """An encoding, the points (n,) that are asked for, and their codes (n, d)."""
    points = as_points(positions)
    along_rows = not points or any(len(point) != 2 for point in points)
    enc = encoding_of(encoding, length, d, params, as_rows=along_rows)
    every = as_stored(enc, enc.domain.x)
    x = np.array(rows_of_points(enc.domain, points), dtype=np.int64) if points else every
    return enc, x, np.asarray(enc.table(x), dtype=float)


def as_points(positions: Sequence[int] | Sequence[Sequence[int]] | None) -> list[tuple[int, ...]]:
    """Points of one number or several; a position is a point of one.

    >>> as_points([(3, 4), 5])
    [(3, 4), (5,)]
    """
    given = () if positions is None else positions
    points = [np.atleast_1d(one).tolist() for one in (given if np.iterable(given) else [given])]
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
    from pefourier.analysis.reconstruct import check_point

    def row_of(point: tuple[int, ...]) -> int:
        return domain.prefix + int(
            np.ravel_multi_index(check_point(point, domain.sides), domain.sides)
        )

    return [row_of(point) if len(point) > 1 else point[0] for point in points]


@dataclass(frozen=True)
class WithDefaults:
    """A SPEC, with parameters for it if it has them: the options of a command with several."""

    spec: str
    params: Mapping[str, Any]
    when_placed: Callable[[Encoding], object]  # is told of a table whose grid was looked for


def encoding_of(
    source: Source | WithDefaults,
    length: Count | None = None,
    d: Count | None = None,
    params: Mapping[str, Any] | None = None,
    least: int = 1,
    *,
    as_rows: bool = False,
    demean: bool = False,
) -> Encoding:
    """The encoding that a SPEC names, or that an array, a module or a function gives.

    `demean` takes the mean of a table away; nothing is noted of `as_rows`.

    Raises
    ------
    PefourierError
        For what cannot be read, and for a keyword that would have no effect.
    """
    given = dict(params or {})
    length, d = whole_numbers(length=length, d=d)
    if isinstance(given.get("grid"), str):
        given["grid"] = read_sides(given["grid"])
    if isinstance(given.get("times"), str | os.PathLike):
        from pefourier.encodings.sources.tables import read_numbers

        given["times"] = read_numbers(os.fspath(given["times"]))
    if isinstance(source, WithDefaults):
        enc = load(source.spec, length, d, min_length=least, **{**source.params, **given})
    elif isinstance(source, str | os.PathLike):
        if "times" in given:
            refuse_times([os.fspath(source)])
        enc = load_spec(os.fspath(source), length, d, given, least)
    else:
        enc = load(source, length, d, **given)
    if isinstance(source, WithDefaults) and not as_rows:
        source.when_placed(enc)
    return without_mean(enc) if demean else enc


def load_spec(
    spec: str, length: int | None, d: int | None, params: dict[str, Any], least: int
) -> Encoding:
    """The encoding of a SPEC; parameters are those of a named one, and given once."""
    spec = canonical_spec(spec)
    name, _, text = spec.partition(":")
    if source_of(spec) == "name":
        own = BUILDERS[name].parameters
        written = {item.partition("=")[0] for item in text.split(",")}
        for key in params.keys() - PLACES:
            if key not in own:
                raise unknown_parameter(name, key)
            if key in written:
                raise PefourierError(f"{shown(spec)} is given {key} twice; keep one")
    elif idle := params.keys() - PLACES - ({"seed"} if source_of(spec) == "code" else set()):
        raise PefourierError(f"{', '.join(idle)} has no effect on {shown(spec)}; leave it out")
    return load(spec, length, d, min_length=least, **params)


def refuse_keywords(question: str, given: Mapping[str, Any], spec: str = "") -> None:
    """Refuse keywords that a question does not take, with what to write for them."""
    for key, value in given.items():
        way = {"for": "criteria=[…]", "base": "bases=[…]"}.get(key, "")
        if spec in BUILDERS and key in BUILDERS[spec].parameters:
            way = f"it in the SPEC: {spec}:{key}={value}"
        raise PefourierError(
            f"{question} takes no {key}; {f'write {way}' if way else 'leave it out'}"
        )


def are_several(value: Any) -> TypeGuard[Sequence[int]]:
    """Whether several numbers were given in place of one."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def whole_numbers(**given: Count | None) -> Iterator[int | None]:
    """Each number, of texts too as the shell takes them; refuses what is none.

    >>> list(whole_numbers(length="128k", d=None))
    [131072, None]
    """
    for key, value in given.items():
        number = whole_number(value) if isinstance(value, str) else value
        if value is not None:
            check_count(key, value if number is None else number)
        yield number


def pair_of(
    a: Source | WithDefaults,
    b: Source | WithDefaults,
    length: Count | None = None,
    d: Count | None = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[Encoding, Encoding]:
    """Two encodings; a named one has the size of a file, config or user's code, and its grid.

    User's code has the dimension of a file or config, and its length as far as it gives so many.
    Parameters are those of a named one where there is one.
    """
    from pefourier.analysis.operators import head_size
    from pefourier.encodings.grids import on_common_grid

    sources, given = (a, b), dict(params or {})
    kinds = [source_of(x.spec if isinstance(x, WithDefaults) else x) for x in sources]
    placing = {key: value for key, value in given.items() if key in PLACES}

    def rows_of(k: int, **changed: Any) -> Encoding:
        own = given if kinds[k] == "name" or "name" not in kinds else placing
        asked = {"length": length, "d": d, **own, **changed}
        return encoding_of(sources[k], asked.pop("length"), asked.pop("d"), asked, as_rows=True)

    def first_of(k: int) -> Encoding:
        rows = partial(rows_of, k)
        try:
            return rows()
        except PefourierError:
            if kinds[k] == "table" and (placed := on_grid_alone(sources[k], given, rows)):
                return placed
            if kinds[k] != "code" or kinds[1 - k] == "code" or d is not None:
                raise
            return rows(d=head_size(rows_of(1 - k)))  # it may take no other dimension

    pair = [first_of(0), first_of(1)]
    if kinds == ["name", "name"]:
        return pair[0], pair[1]
    if "name" in kinds:
        k = kinds.index("name")
        size = {key: value for key, value in {"length": length, "d": d}.items() if value}
        pair[k] = rows_of(k, **{**size_and_place(pair[1 - k], pair[k].domain), **size})
        if kinds[1 - k] == "code":  # which takes a dimension that the SPEC of the other states
            again = partial(rows_of, 1 - k, length=len(pair[k]))
            pair[1 - k] = code_beside(pair[k], pair[1 - k], again, d, fixed=True)
    elif kinds.count("code") == 1:
        k = kinds.index("code")
        fixed = length is not None or bool(placing)
        pair[k] = code_beside(pair[1 - k], pair[k], partial(rows_of, k), d, fixed)
    return on_common_grid(*pair)


def on_grid_alone(
    source: Any, given: Mapping[str, Any], rows: Callable[..., Encoding]
) -> Encoding | None:
    """A table on the grid that was asked for, behind another prefix than was; None: none fits."""
    from pefourier.encodings.grids import IMAGE_PREFIXES, count_points, on_grid

    sides = given.get("grid") or getattr(source, "params", {}).get("grid") or ()
    sides = read_sides(sides) if isinstance(sides, str) else tuple(sides)
    enc = rows(grid=(), prefix=0)
    prefix = len(enc) - count_points(sides)
    return on_grid(enc, sides, prefix) if sides and prefix in IMAGE_PREFIXES else None


def code_beside(
    other: Encoding, own: Encoding, rows_of: Callable[..., Encoding], d: Count | None, fixed: bool
) -> Encoding:
    """User's code in the size of what it is compared with, as far as it gives that and may."""
    from pefourier.analysis.operators import head_size

    size = (lambda enc: enc.dim) if own.operator is None else head_size
    wanted = size(other)
    if d is None and size(own) != wanted:
        with suppress(PefourierError):  # code of one size only, which is compared as it is
            own = rows_of(d=wanted)
    asked = {} if d else {"d": own.params.get("d", own.dim)}
    return own if fixed else as_long_as(other, own, lambda n: rows_of(length=n, **asked))


def as_long_as(other: Encoding, own: Encoding, rows_of: Callable[[int], Encoding]) -> Encoding:
    """User's code at the length of what it is compared with, or at the most that it gives.

    Code may be wrong, or a buffer end, beyond the first positions.
    """
    most = min(len(other), max(MOST_OF_CODE // own.dim, len(own)))
    beyond, asked = most + 1, most
    while len(other.domain.sides) == 1 and beyond - len(own) > 1:
        try:
            own = rows_of(asked)
        except PefourierError:
            beyond = asked
        asked = (len(own) + beyond) // 2
    return own


def size_and_place(other: Encoding, domain: Domain) -> dict[str, Any]:
    """The length and dimension of an encoding, and its grid for what has none of its own."""
    from pefourier.analysis.operators import head_size

    d = other.dim if other.operator is None else head_size(other)
    size: dict[str, Any] = {"length": len(other), "d": d}
    if domain.grid and domain.grid == other.domain.grid:
        return size | {"prefix": other.domain.prefix}
    if domain.kind != "position" or domain.grid:
        return size
    return size | {"grid": other.domain.grid, "prefix": other.domain.prefix}
