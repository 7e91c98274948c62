"""How is it told which scaling takes a rotation to a longer context?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import inf, pi
from shlex import quote
from typing import Any

import numpy as np

from pefourier.analysis.context import window_within
from pefourier.analysis.design import AXES
from pefourier.analysis.extend import Extension, Extensions
from pefourier.answers.context_figures import ABOVE, GREY, mark_lengths
from pefourier.answers.plot import USUAL, WIDTH, Axes, Figure, Look, add_legend, brief, make_panels
from pefourier.answers.telling import Answer, Said, Telling, record_of_fields, sentence
from pefourier.encodings.grids import size_of
from pefourier.encodings.readings import LEVELS, reading_cosine
from pefourier.writing.page import fields_of
from pefourier.writing.text import agreeing, aligned, number, paragraph

LONGER = {"": "long texts", "t": "longer videos", "y": "larger images", "x": "larger images"}
COLUMNS = {
    "way": lambda e: e.way,
    "factor": lambda e: number(e.factor),
    "base": lambda e: number(e.rho),
    "times cosines": lambda e: number(e.attention_factor),
    "kept / blended / stretched": lambda e: band_counts(e).replace(" ", ""),
    "unseen angles": lambda e: str(e.unseen),
    "sum < 0 from lag": lambda e: number(e.bound, missing="none up to 2^20"),
    "cosine < .99": lambda e: number(e.below[".99"], missing="never"),
    "< .9": lambda e: number(e.below[".9"], missing="never"),
}


def on_axis(found: Extensions) -> str:
    """The axis of a grid, as its conclusion begins; nothing where there is one."""
    return f"axis {found.name}: " if found.name and found.name in AXES else ""


def extension_record(answer: Answer) -> dict[str, Any]:
    """The JSON object of an extension."""
    found: Extensions = answer.result
    about = {"encoding": "rope", "spec": found.spec, "params": found.params}
    return record_of_fields(answer, about)


def conclude_extension(found: Extensions) -> Said:
    """What happens unchanged, which scaling avoids it at the least cost, and what is left open.

    >>> from pefourier.analysis.extend import extend
    >>> print(conclude_extension(extend("rope:rho=1e6", 131072, trained=32768, d=128)).text)
    SCALING NEEDED. Taken from 32768 to 131072 positions unchanged, 24 of 64 pairs reach angles
    unseen in training. Of the ways that leave no pair there, llama3 stays near the trained
    rotation longest: the cosine between the codes first falls below .99 at position 2451. Only a
    test on long texts says how well a model works with it.
    """
    unchanged, *ways = found.candidates
    taken = f"Taken from {found.trained} to {found.length} positions unchanged"
    if not unchanged.unseen:
        window = window_within(found.window, found.length)
        seen = f", as a query sees {window} positions" if window else ""
        meaning = f"{taken}, every pair stays within the angles of training{seen}."
        return Said("NO SCALING NEEDED", meaning, f"{only_a_test(found)} at that length.")
    pairs = sum(band.pairs for band in unchanged.bands)
    reach = agreeing(unchanged.unseen, "reaches", "reach")
    fewest = min(way.unseen for way in ways)
    asked = [way for way in ways if way.unseen == fewest]
    best = max(asked, key=lambda way: [inf if p is None else p for p in way.below.values()])
    left = "no pair" if not fewest else f"the fewest pairs ({fewest})"
    position, falls = best.below[".99"], "stays above .99 throughout"
    if position is not None:
        falls = f"first falls below .99 at position {position}"
    new = f"{unchanged.unseen} of {pairs} pairs {reach} angles unseen in training"
    meaning = f"{taken}, {new}{where_needed(found)}."
    told = {"left": left, "way": way_name(best), "falls": falls, "later": overtaken(best, asked)}
    way_out = sentence("extend", "nearest", **told)
    return Said("SCALING NEEDED", meaning, way_out, (last_words(found),))


def where_needed(found: Extensions) -> str:
    """Which layers alone reach such angles, where others have windows."""
    if not found.windows:
        return ""
    windows = " or ".join(map(str, found.windows))
    if found.name:
        return f" in {found.name} layers; the others see {windows} positions and need no scaling"
    return sentence("extend", "windows", windows=windows)


def only_a_test(found: Extensions) -> str:
    """That whether a model works is not seen from its rotation."""
    on = LONGER[found.name if on_axis(found) else ""]
    return f"Only a test on {on} says how well a model works"


def last_words(found: Extensions) -> str:
    """What is left open: whether it works, and whether the length before the scaling is right."""
    test = only_a_test(found)
    more = sentence("extend", "by factor", found=found, test=test)
    return more if found.by_factor else f"{test} with it."


def overtaken(best: Extension, ways: Sequence[Extension]) -> str:
    """Where a way that leaves the trained rotation earlier is nearer to it in the end."""
    p, one = best.cosine[-1]
    other = max(ways, key=lambda way: way.cosine[-1][1])
    two = other.cosine[-1][1]
    told = {"way": way_name(other), "best": way_name(best), "p": p, "one": one, "two": two}
    return "" if two < one + 0.01 else sentence("extend", "later", **told)


def way_name(way: Extension) -> str:
    """A way in words."""
    return f"base {number(way.rho, 6)}" if way.way == "base" else way.way


def band_counts(way: Extension) -> str:
    """How many pairs are kept, blended and stretched; what is the same is kept."""
    count = {band.treatment: band.pairs for band in way.bands}
    kept = count.get("kept", 0) + count.get("same", 0)
    return f"{kept} / {count.get('blended', 0)} / {count.get('stretched', 0)}"


def extensions_text(
    answers: Sequence[Answer], specs: Mapping[str, str] | None = None, grid: Sequence[int] = ()
) -> str:
    """The ways to a length, of a grid on each axis, then `specs` of all axes or why there is none.

    No config.json knows of them: its model's code is what is changed. First stands the `grid` of
    training, where no config states it.
    """
    taken = paragraph(sentence("extend", "presumed", grid=size_of(grid))) if grid else ""
    parts = [*filter(None, [taken]), *(extension_text(a.result) for a in answers)]
    rows = [[f"all axes by {way}", quote(spec)] for way, spec in (specs or {}).items()]
    told = [aligned(rows), sentence("extend", "no lines")] if rows else []
    unsaid = [sentence("extend", "no specs")] if specs == {} else []
    return "\n".join([*parts, *told, *unsaid])


def extension_text(found: Extensions) -> str:
    """The ways, cosines to the trained rotation, and of each its SPEC and lines for a config."""
    rows = [list(COLUMNS)]
    rows += [[tell(e) for tell in COLUMNS.values()] for e in found.candidates]
    points = [p for p, _ in found.candidates[0].cosine]
    cosines = [["cosine to the trained rotation at", *map(str, points)]]
    cosines += [[way_name(e), *(f"{c:.4f}" for _, c in e.cosine)] for e in found.candidates]
    if on_axis(found):
        return f"axis {found.name}\n{aligned(rows)}\n{aligned(cosines)}"
    ways = [f"{way_name(e)}: {e.spec}\n{lines_text(e)}" for e in found.candidates[1:]]
    (ntk,) = [e.spec for e in found.candidates if e.way == "ntk"] or [""]
    grows = ntk.replace("scaling=ntk", f"scaling=dynamic,original={found.original}")
    more = [paragraph(sentence("extend", "dynamic", found=found, spec=quote(grows)))] if ntk else []
    return "\n".join([aligned(rows), aligned(cosines), *ways, *more])


def lines_text(way: Extension) -> str:
    """The keys to set in config.json, a line each."""
    if way.config is None:
        return "    a config.json of this model type cannot state it\n"
    lines = ((json.dumps(key), json.dumps(value)) for key, value in way.config.items())
    return "".join(f"    {key}: {value},\n" for key, value in lines)


def extension_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each way, its keys for config.json in JSON; of a grid with its axis."""
    founds: list[Extensions] = [a.result for a in answers]
    told = fields_of(founds[0].candidates[0])
    several = ("bands", "cosine", "below", "frequencies", "config")
    single = list(dict.fromkeys(["way", "factor", *(key for key in told if key not in several)]))
    axes = ["axis"] if any(map(on_axis, founds)) else []
    shown = list(dict.fromkeys(p for one in founds for p, _ in one.candidates[0].cosine))
    levels = list(founds[0].candidates[0].below)
    heads = [*(f"cosine_{p}" for p in shown), *(f"below_{level}" for level in levels)]
    yield [*axes, *single, "kept_blended_stretched", *heads, "config"]
    for found in founds:
        for e in found.candidates:
            values = [*([found.name] if axes else []), *(getattr(e, key) for key in single)]
            config = None if e.config is None else json.dumps(e.config)
            cosines = [dict(e.cosine).get(p) for p in shown]
            yield [*values, band_counts(e), *cosines, *e.below.values(), config]


def extension(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Wavelengths of each way's pairs, and cosines to the trained rotation; a column an axis."""
    founds: list[Extensions] = [a.result for a in answers]
    heights = [0.7 + 0.3 * max(len(found.candidates) for found in founds), 2.8]
    wide = WIDTH * max(1.0, 0.7 * len(founds))
    figure, panels = make_panels(2, len(founds), (wide, 0.4 + sum(heights)), look)
    panels[0, 0].get_gridspec().set_height_ratios(heights)
    for column, found in zip(panels.T, founds, strict=True):
        draw_ways(*column, found)
    add_legend(figure, panels[1, 0], look)
    return figure


def draw_ways(top: Axes, low: Axes, found: Extensions) -> None:
    """Ticks at the wavelengths of each way, and below its cosines over the position."""
    ways = found.candidates
    for level, way in enumerate(ways):
        waves = 2 * pi / way.frequencies[way.frequencies != 0]
        colour = GREY if way.way == "unchanged" else "C0"
        top.vlines(waves, -level - 0.35, -level + 0.35, color=colour, linewidth=1)
    mark_lengths(top, found.trained, found.length)
    names = [f"base {way.rho:.4g}" if way.way == "base" else way.way for way in ways]
    top.set_yticks([-level for level in range(len(ways))], names)
    top.set(xscale="log", xlabel="wavelength (positions)", ylim=(0.4 - len(ways), 0.6))
    title = f"{on_axis(found)}{brief(found.spec, 60)}, d {found.d}"
    top.set_title(title, loc="left", fontsize=9, pad=ABOVE)
    points = np.unique(np.geomspace(1, found.trained, 200).astype(np.int64))
    for name, way in zip(names[1:], ways[1:], strict=True):
        cosines = reading_cosine(found.trained_frequencies, way.frequencies, points)
        low.plot(points, cosines, label=name, linewidth=1.2)
    for level in LEVELS:
        low.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    low.set(xscale="log", xlabel="position", ylabel="cosine to the trained codes")
    low.set_ylim(None, 1.05)


TOLD = Telling(
    "design",
    conclude=lambda _, found: conclude_extension(found),
    words=extensions_text,
    rows=extension_rows,
    record=extension_record,
    figure=extension,
    lead=lambda a: on_axis(a.result),
)
