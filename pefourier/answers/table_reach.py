"""How is it told how far positions reach that do not turn: tables, biases, added waves?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isqrt, log, pi

import numpy as np

from pefourier.analysis import context
from pefourier.analysis.resize import unseen_phases
from pefourier.answers import telling
from pefourier.answers.grid_reach import reach_on_grid
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.relative import t5_buckets
from pefourier.encodings.grids import size_of
from pefourier.encodings.specs import load, source_of
from pefourier.writing.text import agreeing, aligned, capital, first_few, join, number

MEANS = partial(telling.meaning_of, "context")
phrase = partial(telling.sentence, "context")
SLOPES = 48  # rows of heads
RUNS = 16  # ranges of distances that share a bucket


def about_table(enc: Encoding, found: context.Context) -> tuple[str, str]:
    """What can be said of positions that do not turn."""
    if {layer.kind for layer in found.layers} == {"none"}:
        return MEANS("NO POSITIONS")
    if found.slopes:
        told, last = slopes_in_words(enc, found.slopes), found.length - 1
        return MEANS("ANY LENGTH | slopes", told=told, most=min(found.slopes) * last, last=last)
    if enc.name == "t5":
        far, later = (shared_buckets(enc, way)[-1][0] for way in (enc.params["causal"], True))
        decoder = f" (in the decoder at {later})" if "path" in enc.params and far != later else ""
        return MEANS("LIMITED DISTANCE", far=far, decoder=decoder)
    if enc.name == "deberta":
        return MEANS("LIMITED DISTANCE", far=last_bucket(enc), decoder="")
    if found.tables and not (enc.name == "learned" and len(found.tables) == 1):
        return about_tables(found)
    if enc.origin == "file" and enc.act == "add" and found.length > len(enc):
        return about_file(enc, found.length)
    if enc.origin == "weights" or enc.name == "learned":
        return about_rows(enc, found)
    if enc.measure is not None and len(enc.domain.sides) > 1:
        return MEANS("A GRID", reach=reach_on_grid(enc))
    if repeating := [f for f in enc.findings if f.code == "repeating-codes"]:
        return MEANS("CODES REPEAT", told=capital(repeating[0].message))
    if enc.measure is not None:
        own = enc.measure.frequencies
        if times := stretch(enc, found.trained):
            told = {"name": enc.name, "times": times, "found": found}
            return MEANS("ANY LENGTH | stretched", **told)
        idle = int(((own != 0) & (own * found.length < 2 * pi)).sum())
        return MEANS("ANY LENGTH", name=enc.name, length=found.length, idle=idle, waves=len(own))
    return MEANS("NO ROTATION", name=enc.label)


def stretch(enc: Encoding, trained: int) -> float | None:
    """How many times slower all waves are than over the positions of training; None: they differ.

    >>> from pefourier.encodings import load
    >>> stretch(load("tape", 96, 64), 24), stretch(load("sinusoidal", 96, 64), 24)
    (4.0, None)
    """
    if source_of(enc.spec) != "name" or enc.domain.grid:
        return None
    before = load(enc.spec, trained, enc.dim).measure.frequencies
    own = enc.measure.frequencies
    times = before.max() / own.max()
    return float(times) if times > 1 and np.allclose(before, times * own) else None


def slopes_in_words(enc: Encoding, slopes: Sequence[float]) -> str:
    """How many heads ALiBi has, and how soon a key's weight halves in the first and the last."""
    steep, flat = max(slopes), min(slopes)
    heads = f"{len(slopes)} heads{'' if 'path' in enc.params else ' (set by --d)'}"
    ends = {"steep": steep, "flat": flat, "first": log(2) / steep, "end": log(2) / flat}
    return phrase("slopes", heads=heads, **ends)


def about_tables(found: context.Context) -> tuple[str, str]:
    """Where the tables of a model end, each side by itself."""
    held = [
        f"{rows or 'as many rows as its sizes ask for'}"
        f"{f' in the {side}' if side else ' rows' if rows else ''} ({what})"
        for side, (what, rows) in found.tables.items()
    ]
    lost = {side: found.length - (rows or found.length) for side, (_, rows) in found.tables.items()}
    verdict = "TOO FEW ROWS" if min(lost.values()) > 0 else "FIXED LENGTH"
    none = join(f"{n}{f' in the {side}' if len(lost) > 1 else ''}" for side, n in lost.items())
    beyond = f"; of {found.length} asked for, {none} have none" if min(lost.values()) > 0 else ""
    return MEANS(f"{verdict} | tables", held=join(held), beyond=beyond)


def about_rows(enc: Encoding, found: context.Context) -> tuple[str, str]:
    """How many positions a learned table has rows for; that of a name has those of training."""
    own = found.trained if found.given and "path" not in enc.params else len(enc)
    lost = found.length - own
    none = f"; of {found.length} asked for, {lost} {agreeing(lost, 'has', 'have')} none"
    rows = enc.params.get("rows", own)
    held = f"{own} positions in {rows} rows" if rows > own else f"{rows} rows"
    verdict = "TOO FEW ROWS" if lost > 0 else "FIXED LENGTH"
    spec = enc.label if enc.origin == "weights" else "TABLE"
    more = phrase("no formula", spec=spec, length=found.length)
    return MEANS(verdict, held=held, beyond=none if lost > 0 else "", more=more)


def about_file(enc: Encoding, length: int) -> tuple[str, str]:
    """How many positions a file has no rows for, and where those may come from."""
    from pefourier.diagnosis import identify

    rows, known = len(enc), identify(np.asarray(enc.table()), enc.eps) or {}
    told = {"rows": rows, "length": length, "lost": length - rows}
    params = dict(known.get("params", {}))
    plain = (params.pop("scale", 1), params.pop("first", "sin")) == (1, "sin")
    if known.get("encoding") != "sinusoidal" or not plain:
        return MEANS(
            "TOO FEW ROWS | file", more=phrase("no formula", spec=enc.label, **told), **told
        )
    spec = "sinusoidal:" + ",".join(f"{key}={number(value, 7)}" for key, value in params.items())
    (met,) = unseen_phases(*(load(spec, n, enc.dim) for n in (rows, length)))
    more = phrase("computed", spec=spec, d=enc.dim, met=met, **told)
    return MEANS("TOO FEW ROWS | file", more=more, **told)


def image_windows(enc: Encoding, found: context.Context) -> tuple[str, ...]:
    """Which layers of a model see a window of an image alone, where others see it whole."""
    told = [(run.index, own) for run in found.layers if (own := window_on(enc, run.window))]
    if len(told) != 1 or not told[0][0]:
        return ()
    (index, window), whole = told[0], sum(len(run.index) for run in found.layers)
    return (phrase("image windows", inside=len(index), whole=whole, window=window),)


def window_on(enc: Encoding, points: int | None) -> str:
    """The window of so many points of an image by its sides; empty on one axis, or for all."""
    on_grid = points and len(enc.domain.sides) > 1
    return size_of([isqrt(points)] * 2) if on_grid else ""


def beside_table(enc: Encoding, found: context.Context) -> tuple[str, ...]:
    """What else is to be known of positions that do not turn by one number."""
    return near_buckets(enc) + image_windows(enc, found)


def near_buckets(enc: Encoding) -> tuple[str, ...]:
    """Which distances before the last bucket of T5's share one."""
    if enc.name != "t5":
        return ()
    heads = () if "path" in enc.params else (phrase("learned heads"),)
    *near, far = shared_buckets(enc, enc.params["causal"])
    encoder = "path" in enc.params and far[0] != shared_buckets(enc, True)[-1][0]
    told = first_few([f"{run[0]}-{run[-1]}" for run in near], RUNS).replace(", …", " …")
    where = ", in the encoder," if encoder else ""
    return (*([f"Nearer ones{where} share buckets, too: {told}."] if near else []), *heads)


def shared_buckets(enc: Encoding, causal: bool) -> list[np.ndarray]:
    """Distances before a token that share a bucket of T5's; those of the last go on for ever.

    >>> from pefourier.encodings import load
    >>> [int(run[0]) for run in shared_buckets(load("t5", 300, 4), False)]
    [8, 12, 16, 23, 32, 46, 64, 91]
    """
    distance = np.arange(enc.params["max_distance"] + 1)
    own = t5_buckets(-distance, enc.params["buckets"], int(distance[-1]), causal)
    *near, last = np.split(distance, np.flatnonzero(np.diff(own)) + 1)
    return [*(run for run in near if len(run) > 1), last]


def last_bucket(enc: Encoding) -> int:
    """The distance from which vectors of distances stay the same, on both sides of a token."""
    far = np.arange(enc.params["max_distance"] + 2)
    changed = [np.diff(enc.codes(side * far), axis=0).any(axis=1) for side in (1, -1)]
    return int(np.flatnonzero(np.logical_or(*changed))[-1]) + 1


def slopes_text(slopes: Sequence[float], last: int) -> str:
    """What ALiBi leaves of a key's weight in each head, of very many in some of them."""
    rows = [["head", "slope", "weight halves in", "is 1 % after", f"logit at distance {last}"]]
    spread = np.linspace(0, len(slopes) - 1, min(SLOPES, len(slopes))).astype(int)
    for head in np.unique([*spread, np.argmax(slopes), np.argmin(slopes)]):
        slope = slopes[head]
        numbers = (slope, log(2) / slope, log(100) / slope, -slope * last)
        rows.append([str(head), *map(number, numbers)])
    shown = f"{len(rows) - 1} of {len(slopes)} heads; 'pefourier context' with --csv has all\n"
    return aligned(rows) + shown * (len(slopes) > SLOPES)
