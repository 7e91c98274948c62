"""Every encoding a SPEC can name: registered builders, tables in files, model configs, user code.

A SPEC is ``NAME``, ``NAME:key=value,…``, ``PATH[#ARRAY]``, ``-`` (standard input), ``config.json``,
a model folder or ``model.gguf``, or ``py:module:function``. `load` turns one into an `Encoding` and
imports what reads files or runs code only for a SPEC that needs it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from pefourier.encodings import families  # noqa: F401 (which fill the registry)
from pefourier.encodings.checks import check_count
from pefourier.encodings.conventions import list_conventions
from pefourier.encodings.descriptions import describe
from pefourier.encodings.encoding import (
    Encoding,
    as_encoding,
    from_bias,
    from_table,
    rows_up_to,
)
from pefourier.encodings.findings import finding
from pefourier.encodings.grids import check_sides, count_points, on_grid, with_grid_note
from pefourier.encodings.registry import (
    BUILDERS,
    build,
    canonical_spec,
    parse_parameters,
)
from pefourier.encodings.unknown_specs import not_here, refuse_hash, unknown_spec
from pefourier.errors import PefourierError, shown

NAMED = {  # what an array holds in place of codes, by its name
    "biases-as-codes": re.compile(
        r"(^|\.)(relative_(position|attention)_bias|rel_pos(_[xy])?_bias)"
    ),
    "lags-as-codes": re.compile(r"(^|\.)rel_pos_[thw]$"),
}


def load(
    source: Any,
    length: int | None = None,
    d: int | None = None,
    *,
    min_length: int = 80,
    grid: Sequence[int] = (),
    prefix: int = 0,
    **options: Any,
) -> Encoding:
    """The encoding that a SPEC names, or that an array, a module or a function gives.

    Parameters
    ----------
    source : str, path, Encoding, array or tensor (n, d), torch module, or function (length, d)
        A SPEC as typed on the command line, or an object.
    length, d : int, optional
        Number of positions (default 80, or all rows of a file) and dimension of a code (default
        256, or what a file or config says).
    min_length : int
        Positions that a default length must hold.
    grid : sequence of int
        Sides of a grid whose points the rows are, the slowest axis first.
    prefix : int
        Rows before the grid that have no place on it (class and register tokens).
    **options
        Defaults for parameters (``rho``, ``seed``) of the encodings that have them.

    Examples
    --------
    >>> load("sinusoidal:layout=halves", length=8, d=4, rho=500.0).params["rho"]
    500.0
    >>> load([[1, 0], [0, 1]]).dim
    2
    """
    if not isinstance(source, str | os.PathLike):
        return load_object(source, length, d, {"grid": grid, "prefix": prefix, **options})
    spec = canonical_spec(os.fspath(source))
    for name, value in (("length", length), ("d", d)):
        if value is not None:
            check_count(name, value)
    if not grid and not prefix:
        return with_grid_note(load_rows(spec, length, d, min_length, options))
    check_sides(spec, grid, prefix, length)
    placing = {**options, "grid": tuple(grid), "prefix": prefix}
    is_table = source_of(spec) == "table"  # a file has its rows, and is not cut to those that fit
    rows = length if is_table else count_points(grid, prefix) or length
    return on_grid(load_rows(spec, rows, d, min_length + prefix, placing), tuple(grid), prefix)


def load_object(
    source: Any, length: int | None, d: int | None, options: Mapping[str, Any]
) -> Encoding:
    """The encoding that an array, a module or a function gives."""
    if isinstance(source, list | tuple) and any(isinstance(item, str) for item in source):
        raise PefourierError(
            "this question is asked of one encoding; ask it of each: "
            "[pefourier.spectrum(spec) for spec in specs]"
        )
    unused = {key: value for key, value in options.items() if value not in (None, (), 0)}
    sides, prefix = tuple(unused.pop("grid", ())), unused.pop("prefix", 0)
    if isinstance(source, Encoding) or not callable(source):
        enc = as_encoding(source)
        if not enc.spec:
            enc = replace(enc, spec=f"{type(source).__name__} ({len(enc)}, {enc.dim})")
        sizes = {"length": (length, len(enc)), "d": (d, enc.dim)}
        unused |= {k: size for k, (size, actual) in sizes.items() if size not in (None, actual)}
    else:
        from pefourier.encodings.sources.user_code import read_code

        enc = read_code(source, length, d, unused.pop("seed", None))
    if sides or prefix:
        check_sides(enc.label, sides, prefix, None)
        enc = on_grid(enc, sides, prefix)
    elif not isinstance(source, Encoding):
        enc = with_grid_note(enc)
    for key, value in unused.items():
        raise PefourierError(
            f"{key}={shown(value)} has no effect on {enc.label or 'a table'}; leave it out"
        )
    return enc


def load_rows(
    spec: str, length: int | None, d: int | None, min_length: int, options: dict[str, Any]
) -> Encoding:
    """The encoding that a SPEC names, on a grid only where it is built for one."""
    match source_of(spec):
        case "name":
            return build_by_name(spec, length, d or 256, max(80, min_length), options)
        case "code":
            from pefourier.encodings.sources.user_code import read_code

            return read_code(spec, length, d, options.get("seed"), min_length=min_length)
        case "table":
            return load_file(spec, length)
        case "gguf":
            from pefourier.encodings.sources.gguf_file import read_gguf

            enc = read_gguf(spec, length, d)
        case "config":
            from pefourier.encodings.sources import huggingface

            placing = {key: options[key] for key in ("grid", "prefix") if key in options}
            enc = huggingface.read_config(spec, length, d, **placing)
    standing = standing_length(enc) if length is None else len(enc)
    if standing != len(enc):
        return load_rows(spec, standing, d, min_length, options)
    return replace(enc, lattice=enc.params.get("length", len(enc)))


def standing_length(enc: Encoding) -> int:
    """Positions that a model's encoding stands for.

    Those that its config allows; where these are still the original ones, as Qwen's settings for
    YaRN have them, the factor times as many.

    >>> standing_length(load("rope:scaling=yarn,factor=4,original=4096", 4096))
    16384
    """
    unraised = enc.params.get("scaling") in ("yarn", "longrope") and enc.params["factor"]
    if unraised and len(enc) == enc.params["original"]:
        return round(len(enc) * enc.params["factor"])
    return len(enc)


def source_of(source: Any) -> Literal["name", "code", "table", "config", "gguf"]:
    """What a SPEC names, or an object is.

    >>> source_of("rope:rho=5e5"), source_of("py:model:table"), source_of("wpe.npy")
    ('name', 'code', 'table')
    """
    if not isinstance(source, str | os.PathLike):
        return "table" if isinstance(source, Encoding) or not callable(source) else "code"
    spec = canonical_spec(os.fspath(source))
    name = spec.partition(":")[0]
    if name in BUILDERS:
        return "name"
    if name == "py":
        return "code"
    if "#" in spec and os.path.exists(spec):
        refuse_hash(spec)
    if "://" in spec:
        raise not_here(spec)
    if spec.partition("#")[0].endswith(".json"):  # no table is: their readers need not be there
        return "config"
    from pefourier.encodings.sources.formats import READERS
    from pefourier.encodings.sources.tables import split_spec

    path, _ = split_spec(spec)
    if spec == "-" or os.path.splitext(path)[1].lower() in READERS:
        return "table"
    if path.lower().endswith(".gguf"):
        return "gguf"
    if path.endswith(".json") or os.path.isdir(path):
        return "config"
    raise unknown_spec(spec, name, path)


def specs_of_rotations(spec: str) -> list[str]:
    """The SPEC of each rotation of a config that has several; of all else the SPEC itself.

    >>> specs_of_rotations("rope:rho=5e5")
    ['rope:rho=5e5']
    """
    with suppress(PefourierError):  # which is raised when it is loaded
        if source_of(spec) == "config":
            from pefourier.encodings.sources.huggingface import names_of_rotations
            from pefourier.encodings.sources.layers import layer_spec

            return [layer_spec(spec, name) for name in names_of_rotations(spec)] or [spec]
    return [spec]


def refuse_times(specs: Sequence[str]) -> None:
    """Refuse times where none of the SPECs takes them, and name one that does.

    >>> refuse_times(["dft", "mtan"])
    """
    takers = sorted(name for name, builder in BUILDERS.items() if "times" in builder.parameters)
    if not {spec.partition(":")[0] for spec in specs} & {*takers}:
        raise PefourierError(
            f"--times belongs to {', '.join(takers)}; the others have positions 0, 1, …"
        )


def build_by_name(
    spec: str, length: int | None, d: int, min_length: int, options: dict[str, Any]
) -> Encoding:
    """A registered encoding; parameters of the SPEC win over options, options over defaults."""
    name, _, text = spec.partition(":")
    parameters = BUILDERS[name].parameters
    defaults = {
        key: value for key, value in options.items() if key in parameters and value is not None
    }
    settings = {"d": d, **defaults, **parse_parameters(name, text)}
    requested = settings.get("length", length)  # that of the SPEC wins
    if "length" not in settings and (length or not settings.get("grid")):
        settings["length"] = length or min_length
    enc = build(name, spec=spec, **settings)
    requested = len(enc) if "times" in settings else requested  # times set the length
    return replace(enc, lattice=max(requested, enc.dim) if requested else None)


def load_file(spec: str, length: int | None) -> Encoding:
    """The first `length` rows (default all) of the table in a file."""
    from pefourier.encodings.sources.classifier import read_classifier
    from pefourier.encodings.sources.formats import BEHIND
    from pefourier.encodings.sources.tables import read_named_table, split_spec

    path, key = split_spec(spec)
    trained = read_classifier(path, length) if key is None else None
    if trained is not None:
        return replace(trained, spec=spec, params={**trained.params, "path": path})
    stored = read_named_table(path, key)
    if stored.codes.ndim > 2:
        bias = stored.codes[..., :length, :length]
        params = {"length": bias.shape[-1], "d": bias.shape[-3], "path": path, "array": stored.name}
        enc = from_bias(bias, spec, eps=stored.eps, origin="file")
        return replace(enc, params=params, spec=spec)
    table = rows_up_to(stored.codes, length, shown(spec))
    array = stored.name if stored.chosen else key
    params = {"length": len(table), "d": table.shape[1], "path": path, "array": array}
    codes = [code for code, name in NAMED.items() if name.search(stored.name)]
    codes += ["array-chosen"] * stored.chosen
    codes += ["positions-column"] * stored.name.startswith(BEHIND)
    slots = {"name": shown(stored.name), "middle": len(stored.codes) // 2}
    findings = tuple(finding(code, **slots) for code in codes)
    facts = {
        "eps": stored.eps,
        "origin": "file",
        "findings": findings,
        "paired": stored.paired,
    }
    enc = replace(from_table(table, spec, **facts), params=params, spec=spec)
    is_whole = stored.sides and len(enc) == len(stored.codes)
    return on_grid(enc, stored.sides, 0) if is_whole else enc


def records() -> list[dict[str, Any]]:
    """What is known of each registered encoding, as `pefourier list --json` shows it."""
    return [
        {
            "encoding": b.name,
            "spec": b.name,
            "params": {"length": 80, "d": 256} | {k: p.default for k, p in b.parameters.items()},
            "family": b.family,
            "domain": b.domain,
            "measure": "declared" if b.declared else "estimated",
            "paper": b.paper,
            "untrained": b.untrained,
            **describe(b.function),
            **({"conventions": listed} if (listed := list_conventions(b.name)) else {}),
        }
        for b in BUILDERS.values()
    ]
