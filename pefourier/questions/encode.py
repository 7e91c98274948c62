"""Numbers of an encoding as files and engines store them, and golden rows for engine tests.

Conventions
-----------
A rotation of m pairs over n positions has cosines and sines (n, m), with the attention factor.
``cos`` and ``sin`` (n, 2m) hold each number twice, once for each row of a pair: rows i and i + m
(half, as ``cat([x, x])``) or 2i and 2i + 1 (interleaved, as ``repeat_interleave``). ``cos-sin`` is
``cat([cos, sin])``, vLLM's cos_sin_cache, or interleaved (n, m, 2), torchtune's. ``complex`` is
cos + i sin, freqs_cis. ``inv_freq`` holds m radians per position, without the attention factor.

Golden rows are JSON: pair i at position p may differ by absolute + per_radian (i + 2) p
abs(inv_freq[i]); vectors by absolute + per_radian radians.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pefourier.encodings.encoding import (
    POINTS,
    Columns,
    Encoding,
    Findings,
    columns_of_blocks,
    rotated_columns,
)
from pefourier.encodings.grids import as_stored
from pefourier.encodings.loader import Source, SpecWithDefaults, load
from pefourier.encodings.sources.tables import RowBlocks, rows_of_vectors, write_table
from pefourier.errors import PefourierError, shown, unknown
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.reconstruct import as_points, check_point
from pefourier.questions.result import Result
from pefourier.types import Array, Counts, Fields, Ints, Table, frozen
from pefourier.writing.files import suffix_of, write_whole
from pefourier.writing.text import Verdict, number, printable

CONTENTS = {  # name in a sentence, and of the array in a file
    "vectors": ("vectors", "codes"),
    "inv_freq": ("inverse frequencies", "inv_freq"),
    "cos": ("cosines", "cos"),
    "sin": ("sines", "sin"),
    "cos-sin": ("cosines and sines", "cos_sin_cache"),
    "complex": ("complex rotations", "freqs_cis"),
    "golden": ("expected numbers", ""),
}
PAIRED = ("cos", "sin", "cos-sin")  # contents with a layout
BITS = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
COMPLEX = {"float64": "<c16", "float32": "<c8"}
UNSHARED = ("xpos", "rope++", "mixed-rope")  # differ by queries and keys, heads, or pairs
PLACES = {0, 1, 2, 3, 17, 255, 256, 1023, 4095, 4096}  # positions of golden rows
MOST_ROWS, MOST_COLUMNS = 8, 6  # of printed numbers
DIGITS = {"float64": 53} | {name: FORMATS[name].digits for name in BITS if name in FORMATS}


def layout_of(enc: Encoding, what: str, layout: str | None = None) -> str | None:
    """Layout of the stored numbers; raise an error if the encoding does not have them."""
    if what not in CONTENTS:
        raise unknown("--what", what, CONTENTS)
    if layout and what not in PAIRED:
        raise PefourierError(f"--layout applies to {', '.join(PAIRED)}, not to --what {what}")
    pairs = pairs_of(enc)
    if what != "vectors" and not pairs:
        raise PefourierError(
            f"--what {what} needs a rotation shared by queries, keys and heads, such as rope or a "
            f"model's config.json, not {shown(enc.spec)}; leave out --what to write its vectors"
        )
    if what == "inv_freq" and pairs and pairs.measure.frequencies.ndim > 1:
        raise PefourierError(f"{shown(enc.spec)} rotates along several axes; use --what cos")
    if what == "inv_freq" and enc.params.get("gain"):
        raise PefourierError(f"{shown(enc.spec)} sums frequencies in each pair; use --what cos-sin")
    own = str(enc.params.get("layout", "halves"))
    return (layout or {"halves": "half"}.get(own, own)) if what in PAIRED else None


def pairs_of(enc: Encoding) -> Encoding | None:
    """Return the encoding if it rotates queries and keys of all heads equally, else None."""
    is_shared = enc.injection == "rotate" and enc.name not in UNSHARED
    return enc if is_shared and enc.measure else None


def encode(
    encoding: Source,
    positions: Ints | Sequence[Ints] | None = None,
    *,
    what: str = "vectors",
    **params: Any,
) -> Array:
    """Return the vectors (n, d) of all or some positions, or of points of a grid, in float64.

    `what` selects the numbers: vectors, or what engines store for a rotation (inv_freq, cos, sin,
    cos-sin or complex), in the layout of the rotation.

    Examples
    --------
    >>> encode("dft", [0, 131071], d=64).shape
    (2, 64)
    >>> encode("rope:rho=100", d=4, what="inv_freq")
    array([1. , 0.1])
    """
    enc, x = points_at(encoding, positions, **params)
    if what == "vectors":
        return enc.float_table(x)
    return np.concatenate(list(computed(enc, x, what, layout_of(enc, what))))


def points_at(
    encoding: Source | SpecWithDefaults,
    positions: Ints | Sequence[Ints] | None = None,
    **params: Any,
) -> tuple[Encoding, Array]:
    """Load an encoding and return it with the rows (n,) of the requested points.

    A single number is always a row, also on a grid, whose prefix rows have no coordinates. Without
    a grid, each number of a point is a position.

    >>> points_at("axial:grid=14x14,prefix=1,d=8", [(3, 4), 0])[1].tolist()
    [47, 0]
    >>> points_at("dft:length=9", [(3, 4), 0])[1].tolist()
    [3, 4, 0]
    """
    points, enc = as_points(positions), load(encoding, **params)
    if not points:
        return enc, as_stored(enc, enc.domain.x)
    rows: list[int] = []
    for point in points:
        sides = enc.domain.sides
        if len(point) > 1 and len(sides) > 1 and enc.domain.kind == "position":
            check_point(point, sides)
            rows.append(enc.domain.prefix + int(np.ravel_multi_index(point, sides)))
        else:
            rows += point
    return enc, np.array(rows, dtype=np.int64)


def numbers_of(
    enc: Encoding, x: Table, suffix: str, what: str, layout: str | None, dtype: str
) -> RowBlocks:
    """Return the numbers of points x as a file of a suffix holds them, in blocks.

    bfloat16 is stored as bits. Raise an error if a file cannot hold the type.
    """
    is_complex, is_tensors = what == "complex", suffix == ".safetensors"
    lacks_complex = suffix == ".csv" or dtype not in COMPLEX or (is_tensors and dtype == "float64")
    if lacks_complex if is_complex else (dtype == "bfloat16" and not is_tensors):
        way_out = "write a .safetensors file"
        if is_complex:
            dtype, way_out = f"complex {dtype}", f"{way_out} of --dtype float32"
        raise PefourierError(f"{suffix} files cannot hold {dtype} numbers; {way_out}")
    kind = np.dtype((COMPLEX if is_complex else BITS)[dtype])
    blocks = (cast(block, kind, dtype, enc.spec) for block in computed(enc, x, what, layout))
    name_of_type = {"<u2": "BF16", "<c8": "C64"}.get(kind.str, "")
    return RowBlocks(shape_of(enc, x, what, layout), kind, blocks, name_of_type)


def shape_of(enc: Encoding, x: Table, what: str, layout: str | None) -> Counts:
    """Shape of the numbers of points x."""
    first = next(computed(enc, x[:1], what, layout))
    return first.shape if what == "inv_freq" else (len(x), *first.shape[1:])


def write_numbers(
    enc: Encoding, x: Table, out: str, what: str, layout: str | None, dtype: str
) -> Written:
    """Write the numbers of points x; a failed write leaves no partial file."""
    layout = layout_of(enc, what, layout)
    rows = numbers_of(enc, x, suffix_of(out), what, layout, dtype)
    write_table(out, rows, name=CONTENTS[what][1])
    return Written(out, rows.shape, x, what, layout, dtype, encodings=(enc,))


def show_numbers(enc: Encoding, x: Table, what: str, layout: str | None) -> Written:
    """Return the numbers of the first points of x, to print."""
    layout = layout_of(enc, what, layout)
    if what == "complex":
        raise PefourierError("--what complex needs --out FILE; use --what cos-sin to print numbers")
    numbers = next(computed(enc, x[:MOST_ROWS], what, layout))[:MOST_ROWS]
    shape = shape_of(enc, x, what, layout)
    return Written(None, shape, x, what, layout, numbers=numbers, encodings=(enc,))


def computed(enc: Encoding, x: Table, what: str, layout: str | None) -> Iterator[Table]:
    """Yield the numbers of points x in float64, in blocks of rows."""
    rotation = pairs_of(enc)
    if what == "vectors" or rotation is None:
        yield from rows_of_vectors(enc, x).blocks
    elif what == "inv_freq":
        yield rotation.measure.frequencies
    else:
        own = rotated_columns(rotation)
        for table in rows_of_vectors(enc, x).blocks:
            yield arranged(table, own, what, layout)


def arranged(table: Table, own: Columns, what: str, layout: str | None) -> Table:
    """Arrange cosines and sines as an engine stores them, given their columns in a table.

    >>> own, table = (np.array([0, 1]), np.array([2, 3])), np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> arranged(table, own, "cos", "interleaved")
    array([[1., 1., 2., 2.]])
    """
    cosines, sines = (table[:, columns] for columns in own)
    if what == "complex":
        return cosines + 1j * sines
    first, second = own
    if layout in ("half", "interleaved"):
        first, second = columns_of_blocks(layout.replace("half", "halves"), [len(first)])
    result = np.empty_like(table)
    result[:, first] = sines if what == "sin" else cosines
    result[:, second] = cosines if what == "cos" else sines
    is_stacked = (what, layout) == ("cos-sin", "interleaved")
    return result.reshape(-1, len(first), 2) if is_stacked else result


def cast(numbers: Array, kind: np.dtype[Any], dtype: str, spec: str) -> Array:
    """Convert numbers to their stored type; raise an error if it cannot hold the largest of a row.

    >>> cast(np.array([1.0, -3.0]), np.dtype("<u2"), "bfloat16", "it").tolist()
    [16256, 49216]
    """
    if dtype in FORMATS:
        form, tops = FORMATS[dtype], np.abs(numbers).reshape(len(numbers), -1).max(axis=1)
        lost = tops[(tops > form.largest) | ((tops > 0) & (tops < 2.0**form.lowest))]
        if len(lost):
            raise PefourierError(
                f"{dtype} cannot hold {lost[0]:.3g} of {shown(spec)}: full precision needs "
                f"{2.0**form.lowest:.3g} to {form.largest:.3g}; use a wider --dtype"
            )
    if dtype == "bfloat16":
        numbers = rounded(numbers, FORMATS[dtype]).astype(np.float32).view(np.uint32) >> 16
    return np.ascontiguousarray(numbers, kind)


def write_golden(enc: Encoding, x: Table | None, out: str) -> Written:
    """Write expected numbers of points x, by default `golden_points`, atomically."""
    x = golden_points(enc) if x is None else x
    numbers = enc.float_table(x)
    frequencies, rows = golden_rows(enc, x, numbers)
    entries = {
        "scheme": 1,
        "encoding": enc.spec,
        "length": len(enc),
        "layout": layout_of(enc, "cos") if frequencies else None,
        "attention_factor": float(enc.params.get("attention_factor", 1.0)),
        "inv_freq": frequencies,
        "tolerance": tolerances(float(np.abs(numbers).max())),
        "rows": rows,
    }
    text = (json.dumps(entries, indent=1) + "\n").encode()
    write_whole(out, lambda stream: stream.write(text))
    return Written(out, (len(x), enc.dim), x, "golden", encodings=(enc,))


def golden_points(enc: Encoding) -> Table:
    """The first positions, some later positions, and the ends of the stated lengths.

    Points beyond the length are left out if an encoding has an end or depends on the length.
    """
    before = {int(enc.params.get(key) or 0) for key in ("original", "trained")} - {0}
    places = np.array(sorted(PLACES | before | {n - 1 for n in (len(enc), *before)}))
    endless = enc.measure and enc.domain.kind == "position"
    if endless and not enc.domain.grid and enc.params.get("scaling") not in ("dynamic", "longrope"):
        return places
    return np.asarray(enc.domain.x[places[places < len(enc)]])


def golden_rows(enc: Encoding, x: Table, numbers: Table) -> tuple[list[float], list[Any]]:
    """Frequencies of the pairs of a rotation, or an empty list, and a row for each point."""
    measure, rotation = enc.measure, pairs_of(enc)
    if rotation and rotation.measure.frequencies.ndim == 1:
        waves = (numbers[:, columns].tolist() for columns in rotated_columns(rotation))
        rows = zip(x.tolist(), *waves, strict=True)
        named = [{"position": p, "cos": c, "sin": s} for p, c, s in rows]
        return rotation.measure.frequencies.tolist(), named
    phases = measure.phases(enc.domain.places(x)) if measure else np.zeros((len(x), 1))
    radians = (np.abs(phases) * np.arange(2, phases.shape[1] + 2)).max(axis=1)
    vectors = zip(x.tolist(), radians.tolist(), numbers.tolist(), strict=True)
    return [], [{"position": p, "radians": angle, "vector": v} for p, angle, v in vectors]


def tolerances(largest: float) -> dict[str, Fields]:
    """Largest error of numbers of each type, from the rounding errors of their computation.

    The error of pair i is up to 3 (i + 2) roundings of its angle: an engine that multiplies
    frequencies successively rounds three times for each pair, and one that uses powers rounds less.
    Types narrower than float32 are rounded once from it. Expected numbers have the same errors in
    float64.

    >>> round(tolerances(1.0)["bfloat16"]["absolute"] * 2**8, 3)
    1.0
    """
    found = {}
    for dtype, digits in DIGITS.items():
        computed_in = "float64" if dtype == "float64" else "float32"
        step = largest * (2.0 ** -DIGITS[computed_in] + 2.0**-53)
        reason = f"angles, cosines and sines computed in {computed_in}, then rounded to {dtype}"
        limits = {"absolute": largest * 2.0**-digits + 4 * step, "per_radian": 3 * step}
        found[dtype] = {**limits, "reason": reason}
    return found


@frozen
class Written(Result):
    """Numbers of an encoding in a file, or the first of them to print."""

    command = "encode"
    figure = "encode"
    verdicts = {
        "written": Verdict(
            "Wrote the {r.contents} of {r.shape[0]:,} {r.points} to {r.path}: {r.dtype}, shape "
            "{r.shape}{r.layout:?, layout {r.layout}}.",
            "{r.factor:?Multiply cosines and sines by the attention factor, {r.factor}.}",
        ),
        "shown": Verdict(
            "The {r.contents} of {r.shape[0]:,} {r.points}: {r.dtype}, shape "
            "{r.shape}{r.layout:?, layout {r.layout}}.",
            "Pass --out FILE to write all numbers, or --out - to print them as CSV.",
        ),
    }
    shown = {"shape": "shape"}
    listed = {"rows": {"row": "row", "numbers": "values"}}

    out: str | None  # None if numbers are printed
    shape: Counts  # of the array; for golden rows, their number and size
    positions: Array  # (n,) points of the rows, or points for which frequencies hold
    what: str = "vectors"
    layout: str | None = None
    dtype: str = "float64"
    numbers: Array | None = None  # of the first points, if they are printed

    @property
    def verdict(self) -> str:
        """Whether numbers are written or printed."""
        return "shown" if self.out is None else "written"

    @property
    def rows(self) -> list[Fields]:
        """The first numbers of the first points."""
        if self.numbers is None:
            return []
        flat = self.numbers.reshape(len(self.numbers), -1)
        left = "  …" if flat.shape[1] > MOST_COLUMNS else ""
        names = range(len(flat)) if self.what == "inv_freq" else self.positions
        return [
            {"row": int(name), "values": "  ".join(map(number, row[:MOST_COLUMNS])) + left}
            for name, row in zip(names, flat, strict=False)
        ]

    @property
    def findings(self) -> Findings:
        """Findings of the encoding."""
        return self.encoding.findings

    @property
    def points(self) -> str:
        """What the rows, or the frequencies, of the file belong to."""
        return "pairs" if self.what == "inv_freq" else POINTS[self.encoding.domain.kind]

    @property
    def path(self) -> str:
        """The file's name as text."""
        return printable(self.out or "")

    @property
    def contents(self) -> str:
        """The written content in words."""
        return CONTENTS[self.what][0]

    @property
    def factor(self) -> float | None:
        """The attention factor if the file holds frequencies, which do not include it."""
        factor = self.encoding.params.get("attention_factor", 1.0)
        return None if self.what != "inv_freq" or factor == 1 else float(factor)
