"""Load an `Encoding` from a SPEC or from an object.

A SPEC is ``NAME``, ``NAME:key=value,…``, ``PATH[#ARRAY]``, ``-`` (standard input), ``config.json``,
a model folder, ``model.gguf`` or ``py:module:function``. Modules that read files or run user code
are imported only for a SPEC that needs them.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pefourier.encodings.encoding import (
    FLOAT32_EPS,
    Encoding,
    as_encoding,
    finding,
    from_bias,
    from_table,
    rows_up_to,
    without_mean,
)
from pefourier.encodings.grids import check_sides, count_points, on_grid, with_grid_note
from pefourier.encodings.registry import (
    BUILDERS,
    build,
    canonical_spec,
    describe,
    list_conventions,
    parse_parameters,
    refuse_known,
    specs_of_convention,
    unknown_encoding,
    unknown_parameter,
)
from pefourier.errors import NUMBERS, PefourierError, check_count, check_size, command_line, shown
from pefourier.types import Fields, Strings, Values, frozen
from pefourier.writing.files import data_names, is_folder, missing, split_spec, suffix_of
from pefourier.writing.text import read_sides, whole_number

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from pefourier.encodings.sources.gguf_file import GgufFile
    from pefourier.encodings.sources.huggingface import ModelFile

Source: TypeAlias = (
    "str | os.PathLike[str] | Encoding | NDArray[Any] | Sequence[Sequence[float]] "
    "| torch.Tensor | torch.nn.Module | Callable[..., Any]"
)
Count: TypeAlias = int | str  # strings as on the command line: "128k", "3e5"


HUB = (  # a model on Hugging Face: owner/name, or its address
    r"(?:https?://(?:www\.)?(?:huggingface\.co|hf\.co)/|hf://)?"
    r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?:/(?:resolve|blob|tree|raw)/.*|/)?"
)


def unknown_spec(spec: str, name: str, path: str) -> PefourierError:
    """Return the error for an unknown SPEC, with suggestions."""
    folder, file = os.path.split(path)
    suffix = Path(file).suffix
    if spec.startswith("./") and not suffix and not os.path.lexists(path):
        return missing(path)
    refuse_known(name)
    if presets := specs_of_convention(name.lower()):
        return unknown_encoding(name, f"{' or '.join(presets)} has it.")
    if os.path.lexists(name) and ":" in spec:
        return PefourierError(f"{shown(name)} is a file and has no parameters; leave them out")
    from pefourier.encodings.sources.tables import READERS

    formats = ", ".join(sorted(READERS))
    if os.path.lexists(name):
        ending = f"ends in {shown(suffix)}" if suffix else "has no suffix"
        return PefourierError(
            f"{shown(name)} {ending}; the file of a table ends in one of {formats}: rename it"
        )
    if re.fullmatch(HUB, spec) and "/" in spec:
        return not_here(spec)
    way_out = f"'pefourier list' shows all; the file of a table ends in one of {formats}."
    names = data_names(folder, "") if suffix and is_folder(folder or ".") else []
    return unknown_encoding(
        name, way_out, [f"{folder}/{file}" if folder else file for file in names]
    )


def not_here(spec: str) -> PefourierError:
    """Return the error for an address, or for a Hugging Face model given as owner/name.

    >>> "hf download gpt2 config.json" in str(not_here("https://hf.co/gpt2/resolve/main/config.json"))
    True
    """
    hub = re.fullmatch(HUB, spec)
    words = ("hf", "download", hub[1], "config.json") if hub else ("curl", "-LO", spec)
    return PefourierError(
        f"{shown(spec)} is not on this machine; run `{command_line(*words)}` and pass the "
        "downloaded file"
    )


NAMED = {  # names of arrays that do not hold vectors of positions
    "biases-as-codes": r"(^|\.)(relative_(position|attention)_bias|rel_pos(_[xy])?_bias)",
    "lags-as-codes": r"(^|\.)rel_pos_[thw]$",
}


OF_POINTS = {"times", "edges"}  # parameters that define the points, and the length
SHARED = {"rho", "seed"}  # parameters that are options of every command
Place = tuple[Sequence[int], int]  # sides of a grid, and its prefix


@frozen
class SpecWithDefaults:
    """A SPEC with default parameters; parameters that the encoding lacks are ignored."""

    spec: str
    params: Values


def load(
    source: Any,
    length: int | str | None = None,
    d: int | str | None = None,
    *,
    min_length: int = 80,
    demean: bool = False,
    **params: Any,
) -> Encoding:
    """Load the encoding of a SPEC, array, module or function.

    Parameters
    ----------
    source : str, path, Encoding, array or tensor (n, d), torch module, or function (length, d)
        A SPEC as typed on the command line, or an object.
    length, d : int or str, optional
        Number of positions (default 80, or all rows of a file) and dimension of a vector (default
        256, or set by the file or config). Strings as on the command line are valid: "128k".
    min_length : int
        Lower bound of the default length.
    demean : bool
        Whether to subtract the mean vector.
    **params
        ``grid``, the sides of a grid on which to place the rows; ``prefix``, the number of rows
        before the grid; and parameters of the encoding.

    Raises
    ------
    PefourierError
        If the source cannot be read, or if a parameter would have no effect.

    Examples
    --------
    >>> load("sinusoidal:layout=halves", length=8, d=4, rho=500.0).params["rho"]
    500.0
    >>> load([[1, 0], [0, 1]]).dim
    2
    """
    length, d = whole_numbers(length=length, d=d)
    has_defaults = isinstance(source, SpecWithDefaults)
    spec, options = (source.spec, {**source.params, **params}) if has_defaults else (source, params)
    options = {key: value for key, value in options.items() if value is not None}
    grid = options.pop("grid", ())
    sides = read_sides(grid) if isinstance(grid, str) else tuple(grid)
    place = sides, options.pop("prefix", 0)
    typed: Values | None = None
    if options.keys() <= SHARED and not demean:
        rows = length or (min_length > 80 and min_length)
        typed = {"length": rows, "d": d, "grid": sides, "prefix": place[1], **options}
    for key in OF_POINTS & options.keys():
        if isinstance(options[key], str | os.PathLike):
            from pefourier.encodings.sources.tables import read_numbers

            options[key] = read_numbers(os.fspath(options[key]))
    if isinstance(spec, str | os.PathLike):
        spec = canonical_spec(os.fspath(spec))
        if not has_defaults:
            check_parameters(spec, options)
        enc = load_spec(spec, length, d, place, min_length, options)
        enc = replace(enc, typed=typed)
    else:
        enc = load_object(spec, length, d, place, options)
    return without_mean(enc) if demean else enc


def is_list_of_sources(value: Any) -> bool:
    """Return whether a value is a list of SPECs, encodings or functions, rather than a table.

    >>> is_list_of_sources(["rope", max]), is_list_of_sources([[1, 0], [0, 1]])
    (True, False)
    """
    kinds = str, os.PathLike, Encoding
    is_list = isinstance(value, list | tuple) and len(value) > 0
    return is_list and all(isinstance(one, kinds) or callable(one) for one in value)


def whole_numbers(**texts: int | str | None) -> Iterator[int | None]:
    """Convert whole numbers, which may be strings as on the command line; refuse other values.

    >>> list(whole_numbers(length="128k", d=None))
    [131072, None]
    """
    return (None if value is None else count_of(key, value) for key, value in texts.items())


def count_of(key: str, value: int | str) -> int:
    """Convert a whole number, which may be a string."""
    number: Any = whole_number(value) if isinstance(value, str) else value
    check_count(key, value if number is None else number)
    return int(number)


def check_parameters(spec: str, params: Values) -> None:
    """Refuse a parameter that a SPEC does not have, or already sets."""
    kind, (name, _, text) = source_of(spec), spec.partition(":")
    if kind == "name":
        written = {item.partition("=")[0] for item in text.split(",")}
        for key in params:
            if key not in BUILDERS[name].parameters:
                raise unknown_parameter(name, key)
            if key in written:
                raise PefourierError(f"{shown(spec)} sets {key} twice; remove one")
    elif idle := params.keys() - ({"seed"} if kind == "code" else set()):
        raise PefourierError(f"{', '.join(idle)} has no effect on {shown(spec)}; leave it out")


def load_object(
    source: Any, length: int | None, d: int | None, place: Place, params: Fields
) -> Encoding:
    """Load the encoding of an array, module or function."""
    if isinstance(source, Encoding) or not callable(source):
        enc = as_encoding(source)
        if not enc.spec:
            enc = replace(enc, spec=f"{type(source).__name__} ({len(enc)}, {enc.dim})")
        sizes = {"length": (length, len(enc)), "d": (d, enc.dim)}
        params |= {k: size for k, (size, actual) in sizes.items() if size not in (None, actual)}
    else:
        from pefourier.encodings.sources.user_code import read_code

        rows = count_points(*place) or length
        enc = read_code(source, rows, d, params.pop("seed", None), on_grid=bool(place[0]))
    for key, value in params.items():
        raise PefourierError(
            f"{key}={shown(value)} has no effect on {enc.label or 'a table'}; leave it out"
        )
    if any(place):
        check_sides(enc.label, *place, None)
        return on_grid(enc, *place)
    return enc if isinstance(source, Encoding) else with_grid_note(enc)


def load_spec(
    spec: str, length: int | None, d: int | None, place: Place, min_length: int, options: Fields
) -> Encoding:
    """Load the encoding of a SPEC, on a grid if one is given."""
    kind, shortest = source_of(spec), min_length + place[1]
    placing = {"grid": place[0], "prefix": place[1]} if any(place) else {}
    rows = length
    if placing:
        check_sides(spec, *place, length)
        # the rows of a file are not truncated to fit the grid
        rows = length if kind == "table" else count_points(*place) or length
    match kind:
        case "name":
            enc = build_by_name(spec, rows, d or 256, max(80, shortest), {**options, **placing})
        case "code":
            from pefourier.encodings.sources.user_code import read_code

            seed, on_rows = options.get("seed"), bool(place[0])
            enc = read_code(spec, rows, d, seed, min_length=shortest, on_grid=on_rows)
        case "table":
            enc = load_file(spec, rows)
        case _:
            enc = load_model(open_model(spec), rows, d, **placing)
    return on_grid(enc, *place) if placing else with_grid_note(enc)


def load_model(
    file: "ModelFile | GgufFile", length: int | None = None, d: int | None = None, **placing: Any
) -> Encoding:
    """Return the encoding of an open config or .gguf file, by default at its extended length.

    If the config still allows only the original length, as in Qwen's settings for YaRN, the
    extended length is the factor times the original length.
    """
    enc = file.encoding(length, d, **(placing if file.model else {}))
    scaling, factor = enc.params.get("scaling"), enc.params.get("factor")
    if length is None and factor and scaling in ("yarn", "longrope"):
        standing = round(len(enc) * float(factor))
        if len(enc) == enc.params["original"] != standing:
            return load_model(file, standing, d, **placing)
    return replace(with_grid_note(enc), lattice=enc.params.get("length", len(enc)))


def open_model(spec: str) -> "ModelFile | GgufFile":
    """Open a config or .gguf file to read its layers, its rotations and their axes."""
    if suffix_of(split_spec(spec)[0]) == ".gguf":
        from pefourier.encodings.sources.gguf_file import open_gguf

        return open_gguf(spec)
    from pefourier.encodings.sources.huggingface import open_config

    return open_config(spec)


def source_of(source: Any) -> Literal["name", "code", "table", "config", "gguf"]:
    """Return the kind of source of a SPEC or object.

    >>> source_of("rope:rho=5e5"), source_of("py:model:table"), source_of("wpe.npy")
    ('name', 'code', 'table')
    """
    source = source.spec if isinstance(source, SpecWithDefaults) else source
    if not isinstance(source, str | os.PathLike):
        return "table" if isinstance(source, Encoding) or not callable(source) else "code"
    spec = canonical_spec(os.fspath(source))
    name = spec.partition(":")[0]
    if name in BUILDERS:
        return "name"
    if name == "py":
        return "code"
    if "://" in spec:
        raise not_here(spec)
    path, _ = split_spec(spec)
    if path.endswith(".json"):  # never a table, so the table readers are not imported
        return "config"
    from pefourier.encodings.sources.tables import READERS

    if spec == "-" or suffix_of(path) in READERS:
        return "table"
    if path.lower().endswith(".gguf"):
        return "gguf"
    if is_folder(path):
        return "config"
    raise unknown_spec(spec, name, path)


def specs_of_rotations(spec: str) -> list[str]:
    """Return the SPEC of each rotation of a config, or the SPEC itself for all other sources.

    >>> specs_of_rotations("rope:rho=5e5")
    ['rope:rho=5e5']
    """
    with suppress(PefourierError):  # raised again when the SPEC is loaded
        if source_of(spec) == "config":
            from pefourier.encodings.sources.huggingface import open_config

            model = open_config(spec)
            return [model.of_layer(name).spec for name in model.rotations] or [spec]
    return [spec]


def read_points(option: str, path: str, specs: Strings) -> "NDArray[Any]":
    """Read times or edges; refuse them if no SPEC uses them."""
    from pefourier.encodings.sources.tables import read_numbers

    takers = sorted(name for name, builder in BUILDERS.items() if option in builder.parameters)
    if not {spec.partition(":")[0] for spec in specs} & {*takers}:
        raise PefourierError(f"--{option} works with {', '.join(takers)}; others ignore it")
    return read_numbers(path)


def build_by_name(
    spec: str, length: int | None, d: int, min_length: int, options: Fields
) -> Encoding:
    """Build a registered encoding; the SPEC overrides options, and options override defaults."""
    name, _, text = spec.partition(":")
    parameters = BUILDERS[name].parameters
    defaults = {key: value for key, value in options.items() if key in parameters}
    settings = {"d": d, **defaults, **parse_parameters(name, text)}
    requested = settings.get("length", length)  # the SPEC overrides the option
    if "length" not in settings and (length or not settings.get("grid")):
        settings["length"] = length or min_length
    enc = build(name, spec=spec, **settings)
    requested = len(enc) if settings.keys() & OF_POINTS else requested  # points set the length
    return replace(enc, lattice=max(requested, enc.dim) if requested else None)


def load_file(spec: str, length: int | None) -> Encoding:
    """Load the first `length` rows (default all) of the table in a file."""
    from pefourier.encodings.sources.tables import read_named_table
    from pefourier.recording.file import waves_of_recording

    path, key = split_spec(spec)
    waves = None if key else waves_of_recording(path)
    if waves is not None:
        waves = rows_up_to(waves, length, shown(spec))
        params = {"length": len(waves), "d": waves.shape[1], "path": path}
        return from_table(waves, spec, eps=FLOAT32_EPS, origin="file", params=params, spec=spec)
    stored = read_named_table(path, key or None)
    if stored.vectors.ndim > 2:
        bias = stored.vectors[..., :length, :length]
        params = {"length": bias.shape[-1], "d": bias.shape[-3], "path": path, "array": stored.name}
        return from_bias(bias, spec, eps=stored.eps, origin="file", params=params, spec=spec)
    table = rows_up_to(stored.vectors, length, shown(spec))
    check_size(f"a table of {shown(spec)}", *table.shape, limit=NUMBERS)
    array = stored.name if stored.chosen else key or None
    params = {"length": len(table), "d": table.shape[1], "path": path, "array": array}
    codes = [code for code, name in NAMED.items() if re.search(name, stored.name)]
    if stored.chosen:
        codes.append("array-chosen")
    if stored.beside:
        codes.append("single-axes")
    slots = {"name": shown(stored.name), "middle": len(stored.vectors) // 2}
    slots |= {"beside": stored.beside, "shape": stored.vectors.shape}
    facts = {"eps": stored.eps, "origin": "file", "paired": stored.paired, "params": params}
    facts["findings"] = tuple(finding(code, **slots) for code in codes)
    enc = from_table(table, spec, **facts, spec=spec)
    is_whole = stored.sides and len(enc) == len(stored.vectors)
    return on_grid(enc, stored.sides, 0) if is_whole else enc


def records() -> list[Fields]:
    """Describe each registered encoding for `pefourier list --json`."""
    return [
        {
            "encoding": b.name,
            "spec": b.name,
            "params": {"length": 80, "d": 256} | {k: p.default for k, p in b.parameters.items()},
            "family": b.family,
            "domain": b.domain,
            "measure": "declared" if build(b.name, length=4, d=16).measure else "estimated",
            "paper": b.paper,
            "untrained": b.untrained,
            **describe(b.function),
            **({"conventions": listed} if (listed := list_conventions(b.name)) else {}),
        }
        for b in BUILDERS.values()
    ]
