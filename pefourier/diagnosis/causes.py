"""Why do two implementations differ? The misreading of a rotation that explains it, to rounding.

Conventions
-----------
One of the two is a rotation whose settings are known (the other is held to its `readings`), or both
are tables that can be identified, of which the parameters that differ are named. A table of a
rotation holds both waves or one, each frequency once or twice: `WaveTable`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from pefourier.diagnosis.identify import SAMPLE, identify
from pefourier.diagnosis.misreadings import (
    Hints,
    RotationRead,
    coarse_readings,
    factors_read,
    is_rotation,
    meant_settings,
    readings,
)
from pefourier.encodings import build
from pefourier.encodings.columns import Layout, Places, Wave, in_pairs, pair_columns
from pefourier.encodings.encoding import Encoding, row_blocks
from pefourier.encodings.readings import FARTHEST, LEVELS, levels_below, readings_apart
from pefourier.geometry import precision

FIRST = 8  # rows that most readings are ruled out by
AT_ONCE = 2**20  # numbers of a table that are compared at a time
PHASES = tuple(  # misreadings that no frequencies tell
    f"{form}-{what}" for what in ("phases", "positions") for form in ("bfloat16", "float16")
)


@dataclass(frozen=True)
class Cause:
    """What explains a difference."""

    of: Literal["a", "b", "both"]  # whose settings were misread; both: tables by their parameters
    misreadings: tuple[str, ...]  # codes of what was done, or "parameters"
    changes: Mapping[str, tuple[Any, Any]]  # settings, as meant and as read
    max_difference: float  # left when it is undone: of frequencies, relative, or of a table
    below: Mapping[str, int | None]  # first position of cosines below .99, .9, .5; None: never


@dataclass(frozen=True)
class WaveTable:
    """Which waves of a rotation a table holds, and where.

    Where each wave stands twice, cosines come apart from sines, and `layout` is that of the two
    columns that are one: what a model multiplies with the partners of a pair.
    """

    part: Literal["both", "cos", "sin"]
    times: int  # how often each stands there
    layout: str
    places: Places
    first: Wave = "cos"

    def layout_read(self, meant: str) -> str:
        """Where partners stand in a model that multiplies with this table, as far as it tells.

        Columns that are one and stand side by side belong to partners that do. In halves they say
        nothing: of models that turn neighbours some make them so, and reorder them later.
        """
        return self.layout if self.times == 2 and self.layout != "halves" else meant

    def table(self, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        """The table of some cosines and sines (n, m), or of what else is known of both."""
        both = [cos, sin] if self.first == "cos" else [sin, cos]
        waves = {"both": both, "cos": [cos], "sin": [sin]}[self.part]
        if self.times == 2:
            return np.hstack([in_pairs(wave, wave, self.places) for wave in waves])
        return in_pairs(*waves, self.places) if len(waves) == 2 else waves[0]


def forms(pairs: int, width: int, more: Mapping[str, Places] | None = None) -> Iterator[WaveTable]:
    """The forms in which the waves of so many pairs fill so many columns, in `more` layouts too."""
    layouts = {layout: pair_columns(layout, pairs) for layout in get_args(Layout)} | (more or {})
    for layout in layouts.items():
        if width == pairs and layout[0] == "halves":
            yield from (WaveTable(part, 1, *layout) for part in ("cos", "sin"))
        if width == 2 * pairs:
            yield from (WaveTable("both", 1, *layout, first) for first in ("cos", "sin"))
            yield from (WaveTable(part, 2, *layout) for part in ("cos", "sin"))
        if width == 4 * pairs:
            yield from (WaveTable("both", 2, *layout, first) for first in ("cos", "sin"))


def find_cause(a: Encoding, b: Encoding) -> Cause | None:
    """What explains that two encodings differ; None where nothing that is known does."""
    if (
        is_rotation(a)
        and is_rotation(b)
        and all(enc.params.get("inv_freq") is None for enc in (a, b))
    ):
        return other_settings(a, b)
    meant = [enc if is_rotation(enc) else None for enc in (a, b)]
    if meant == [None, None]:
        found = other_parameters(a, b)
        if found is not None:
            return found
        meant = [identified_rotation(enc) for enc in (a, b)]
    for of, one, two in (("a", meant[0], b), ("b", meant[1], a)):
        if one is not None:
            find = misread_rotation if is_rotation(two) else misread_table
            found = find(one, two)
            if found is not None:
                return replace(found, of=of)
    return None


def identified_rotation(enc: Encoding) -> Encoding | None:
    """The rotation by name that a table is, where it is one without a scaling of its own."""
    if not holds_numbers(enc) or enc.dim % 2 or len(enc) < 4:
        return None
    found = identify(np.asarray(enc.table()[:SAMPLE]), enc.eps)
    if found is None or found["encoding"] != "rope":
        return None
    own = {key: value for key, value in found["params"].items() if WAVES.get(key) != value}
    if own.pop("first", "cos") != "cos" or own.keys() - {"rho", "layout"}:
        return None
    return build("rope", length=len(enc), d=enc.dim, **own)


def other_settings(a: Encoding, b: Encoding) -> Cause | None:
    """The settings in which two rotations differ: neither of them is the other misread.

    Its cost is counted pair by pair: weights come in the order of rows that their rotation turns.
    """
    told = [
        meant_settings(enc) | {key: enc.params[key] for key in ("layout", "attention_factor")}
        for enc in (a, b)
    ]
    axes = [enc.params.get("mrope_section") for enc in (a, b)]
    changes = changes_between(*told)
    changes |= {"mrope_section": tuple(axes)} if None not in axes and axes[0] != axes[1] else {}
    if not changes:
        return None
    if a.measure is None or b.measure is None:
        tables = [enc.table() for enc in (a, b)]
        below = rows_below(*tables) if tables[0].shape == tables[1].shape else {}
        return Cause("both", ("parameters",), changes, 0.0, below)
    own, other = a.measure.frequencies, b.measure.frequencies
    reading = RotationRead(("parameters",), {}, other, ())
    match = Match(reading, (a.params["layout"],) * 2, 0.0)
    if len(own) == len(other):
        least = np.where(own != 0, np.abs(own), 1.0)
        match = replace(match, difference=float((np.abs(own - other) / least).max()))
    return Cause("both", ("parameters",), changes, match.difference, match_below(a, match))


def changes_between(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings of two that differ; None where one has no such setting."""
    keys = dict.fromkeys((*one, *other))
    return {k: (one.get(k), other.get(k)) for k in keys if one.get(k) != other.get(k)}


def misread_rotation(meant: Encoding, other: Encoding) -> Cause | None:
    """The misreading of one rotation that gives another."""
    frequencies = other.measure.frequencies
    settings = {} if other.params.get("inv_freq") is not None else meant_settings(other)
    if settings == {} and other.params["rho"]:
        settings = {"rho": other.params["rho"]}
    slack = precision.phase_rounding(frequencies, precision.FLOAT32_EPS)
    for read in add_coarse_frequencies(readings(meant, Hints(len(frequencies), settings))):
        if read.frequencies.shape == frequencies.shape:
            apart = np.abs(read.frequencies - frequencies)
            if (apart <= slack).all():
                relative = apart / np.where(frequencies != 0, np.abs(frequencies), 1.0)
                layouts = (meant.params["layout"], other.params["layout"])
                named = name_factor(meant, read, other.params["attention_factor"], 1e-6)
                return settle(meant, Match(named, layouts, float(relative.max())))
    return None


def add_coarse_frequencies(reads: Iterator[RotationRead]) -> Iterator[RotationRead]:
    """Readings with one slip at most also with coarse frequencies."""
    for read in reads:
        yield from coarse_readings(read) if len(read.codes) < 2 else (read,)


def name_factor(meant: Encoding, read: RotationRead, factor: float, slack: float) -> RotationRead:
    """A reading with what is to be said of another factor before the waves."""
    if any(abs(factor - own) <= slack * abs(own) for own in read.factors):
        return read
    known = factors_read(meant)
    near = min(known, key=lambda value: abs(value - factor))
    words = known[near] if abs(near - factor) <= slack * near else "another"
    was = read.factors[-1]
    changes = {**read.changes, "attention_factor": (was, float(f"{factor:.7g}"))}
    changes |= {"attention_factor_is": (None, words)}
    return replace(read, codes=(*read.codes, "mscale"), changes=changes)


@dataclass(frozen=True)
class Match:
    """A reading of a rotation that gives what another holds."""

    read: RotationRead
    layouts: tuple[str, str]  # where partners stand, as it is meant and as it was read
    difference: float
    phases: str = ""  # the misreading by which phases were computed, where they were not exact


def settle(meant: Encoding, found: Match) -> Cause | None:
    """The cause that a reading is; None where it is what was meant."""
    codes, changes = found.read.codes, dict(found.read.changes)
    if found.layouts[0] != found.layouts[1]:
        codes, changes = (*codes, "layout"), changes | {"layout": found.layouts}
    if not codes:
        return None
    return Cause("a", codes, changes, found.difference, match_below(meant, found))


def match_below(meant: Encoding, found: Match) -> dict[str, int | None]:
    """The first position at which the cosine to the codes that were meant is below each level.

    The mean over pairs, or over columns where the layouts differ, of the cosines of phases apart.
    """
    own, other = meant.measure.frequencies, found.read.frequencies
    if found.phases:
        return levels_of_phases(own, other, found.phases)
    apart = readings_apart(own, other)
    if found.layouts[0] != found.layouts[1]:
        padded = (np.pad(w, (0, len(apart) - len(w)))[None] for w in (own, other))
        both = zip(padded, found.layouts, strict=True)
        one, two = (in_pairs(w, w, pair_columns(own, len(apart)))[0] for w, own in both)
        apart = one - two
    return levels_below(apart)


def levels_of_phases(own: np.ndarray, other: np.ndarray, phases: str) -> dict[str, int | None]:
    """The first position at which the mean cosine of phases, exact and coarse, is below each level.

    >>> omega = 5e5 ** (-np.arange(64) / 64)
    >>> levels_of_phases(omega, omega, "bfloat16-phases")
    {'.99': 236, '.9': 534, '.5': 25792}
    """
    found: dict[float, int | None] = dict.fromkeys(LEVELS)
    most = min(FARTHEST, int(phase_format(phases).largest) + 1)  # farther on it has no numbers
    for rows in row_blocks(most, AT_ONCE, len(own)):
        s = np.arange(rows.start, rows.stop)
        cosine = np.cos(read_phases(s, own, "") - read_phases(s, other, phases)).mean(axis=1)
        for level in (level for level, at in found.items() if at is None):
            below = np.flatnonzero(cosine < level)
            found[level] = rows.start + int(below[0]) if len(below) else None
        if None not in found.values():
            break
    return by_level(found)


def by_level(found: Mapping[float, int | None]) -> dict[str, int | None]:
    """Positions by the names that levels have in answers."""
    return {f"{level:g}"[1:]: at for level, at in found.items()}


@dataclass(frozen=True, eq=False)
class Dump:
    """A table that may be that of a rotation."""

    enc: Encoding
    table: np.ndarray
    first: int = 0  # position of its first row

    @cached_property
    def eps(self) -> float:
        """Resolution of its numbers, which may have been computed in float32 and stored wider."""
        return max(self.enc.eps, precision.FLOAT32_EPS, precision.coarse_eps(self.table[:SAMPLE]))

    @cached_property
    def base(self) -> float | None:
        """The base of its frequencies, where they are a geometric grid."""
        found = identify(self.table[:SAMPLE], self.enc.eps)
        return found["params"].get("rho") if found else None

    def scale(self, unit: np.ndarray) -> float:
        """What a table of factor 1 is multiplied with."""
        energy = float((unit**2).sum())
        own = np.asarray(self.table[: len(unit)], dtype=float)
        return float((own * unit).sum()) / energy if energy else 0.0

    def difference(
        self, read: RotationRead, form: WaveTable, phases: str = ""
    ) -> tuple[float, float, float] | None:
        """The factor of a reading, what it leaves and how much rounding explains; None: more."""
        first = min(FIRST, len(self.table))
        s = self.first + np.arange(first)
        factor = self.scale(waves_read(s, read, form, phases))
        if not 0 < factor < 1e6 or self.beyond(read, form, phases, factor, slice(0, first)) is None:
            return None
        worst = 0.0, 0.0
        for rows in row_blocks(len(self.table), AT_ONCE, self.table.shape[1]):
            left = self.beyond(read, form, phases, factor, rows)
            if left is None:
                return None
            worst = max(worst[0], left[0]), max(worst[1], left[1])
        return factor, *worst

    def beyond(
        self, read: RotationRead, form: WaveTable, phases: str, factor: float, rows: slice
    ) -> tuple[float, float] | None:
        """The largest difference in some rows, and explained; None where it is more than that."""
        s = self.first + np.arange(rows.start, rows.stop)
        made = factor * waves_read(s, read, form, phases)
        left = np.abs(np.asarray(self.table[rows], dtype=float) - made)
        omega = form.table(*[np.abs(read.frequencies)[None]] * 2)[0]
        if phases.endswith("-phases"):  # the waves are rounded once more
            allowed = factor * max(2.0 ** -phase_format(phases).digits, 4 * self.eps)
        else:
            allowed = factor * (4 * self.eps + precision.phase_errors(s, omega, self.eps))
        return (float(left.max()), float(np.max(allowed))) if (left <= allowed).all() else None


def waves_read(s: np.ndarray, read: RotationRead, form: WaveTable, phases: str) -> np.ndarray:
    """What a reading of a rotation has at positions s, in the form of a table."""
    angles = read_phases(s, read.frequencies, phases)
    return form.table(np.cos(angles), np.sin(angles))


def read_phases(s: np.ndarray, frequencies: np.ndarray, phases: str) -> np.ndarray:
    """Phases of positions s (n, m), computed as a misreading says; exact where none is given."""
    if not phases:
        return np.multiply.outer(s.astype(float), frequencies)
    form = phase_format(phases)
    near = precision.rounded(s, form)
    if phases.endswith("-positions"):
        return np.multiply.outer(near, frequencies)
    return precision.rounded(np.multiply.outer(near, precision.rounded(frequencies, form)), form)


def phase_format(phases: str) -> precision.Format:
    """The format in which a misreading has phases computed."""
    return precision.FORMATS[phases.partition("-")[0]]


def match_table(meant: Encoding, dump: Dump) -> Match | None:
    """The reading of a rotation that a table holds."""
    width = dump.table.shape[1]
    known = {} if dump.base is None else {"rho": dump.base}
    for pairs in dict.fromkeys((len(meant.measure.frequencies), width // 2, width, width // 4)):
        for read in add_coarse_frequencies(readings(meant, Hints(pairs, known))):
            if len(read.frequencies) == pairs:
                found = match_forms(meant, dump, read)
                if found is not None:
                    return found
    return match_coarse_phases(meant, dump)


def match_coarse_phases(meant: Encoding, dump: Dump) -> Match | None:
    """The rotation as it is meant, its phases computed in a format of 16 bits."""
    own = next(readings(meant, Hints()))
    tried = (match_forms(meant, dump, replace(own, codes=(phases,)), phases) for phases in PHASES)
    return next(filter(None, tried), None)


def match_forms(meant: Encoding, dump: Dump, read: RotationRead, phases: str = "") -> Match | None:
    """A reading in the first form in which a table holds it."""
    own = meant.params["layout"]
    for form in forms(len(read.frequencies), dump.table.shape[1]):
        found = dump.difference(read, form, phases)
        if found is not None:
            factor, left, _ = found
            layouts = own, form.layout_read(own)
            return Match(name_factor(meant, read, factor, 4 * dump.eps), layouts, left, phases)
    return None


def misread_table(meant: Encoding, other: Encoding) -> Cause | None:
    """The misreading of a rotation that a table holds."""
    if not holds_numbers(other):
        return None
    found = match_table(meant, Dump(other, other.table()))
    return None if found is None else settle(meant, found)


def holds_numbers(enc: Encoding) -> bool:
    """Whether an encoding is a table that somebody made, of a few positions at least."""
    return enc.origin != "formula" and enc.domain.kind == "position" and len(enc) > 1


def other_parameters(a: Encoding, b: Encoding) -> Cause | None:
    """The parameters by which two tables differ, where both are identified."""
    n = min(len(a), len(b))
    if n < 4 or {a.domain.kind, b.domain.kind} != {"position"}:
        return None
    tables = [np.asarray(enc.table(enc.domain.x[:n])) for enc in (a, b)]
    found = [identify(table, enc.eps) for table, enc in zip(tables, (a, b), strict=True)]
    if None in found:
        return None
    changes = changes_between(*(settings_of_waves(one) for one in found))
    if not changes:
        return None
    worst = max(one["max_difference"] for one in found)
    placed = changes.keys() & {"layout", "first", "columns", "negative", "encoding"}
    comparable = not placed and tables[0].shape == tables[1].shape
    below = rows_below(*tables) if comparable else {}
    return Cause("both", ("parameters",), changes, worst, below)


WAVES = {"divisor": "d", "offset": 0, "scale": 1.0, "step": 1.0}  # what is not said of waves


def settings_of_waves(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a table was identified as, with what it has by default; a rotation is cosines first."""
    kind, params = found["encoding"], found["params"]
    if kind not in ("sinusoidal", "rope") or "part" in params:
        return {"encoding": kind, **params}
    first = "cos" if kind == "rope" else "sin"
    return {"encoding": "sinusoidal", **WAVES, "first": first, **params}


def rows_below(one: np.ndarray, other: np.ndarray) -> dict[str, int | None]:
    """The first row at which the cosine between two tables' codes is below .99, .9 and .5."""
    cosine = np.ones(len(one))
    for rows in row_blocks(len(one), AT_ONCE, one.shape[1]):
        x, y = (np.asarray(table[rows], dtype=float) for table in (one, other))
        length = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
        equal = (x == y).all(axis=1)
        inner = np.einsum("ij,ij->i", x, y) / np.where(length > 0, length, 1.0)
        cosine[rows] = np.where(equal, 1.0, inner)
    first = {level: np.flatnonzero(cosine < level) for level in LEVELS}
    return by_level({level: int(at[0]) if len(at) else None for level, at in first.items()})
