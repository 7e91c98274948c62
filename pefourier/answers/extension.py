"""How is it told which scaling takes a rotation to a longer context?"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pefourier.answers.page import Page, fields_of
from pefourier.answers.text import agreeing, aligned, number, paragraph
from pefourier.context import window_within
from pefourier.design import AXES
from pefourier.extend import Extension, Extensions

COLUMNS = {
    "way": lambda e: e.way,
    "factor": lambda e: number(e.factor),
    "base": lambda e: number(e.rho),
    "factor of cosines": lambda e: number(e.attention_factor),
    "kept / blended / stretched": lambda e: band_counts(e),
    "in phases not trained": lambda e: str(e.unseen),
    "first lag below the bound": lambda e: number(e.bound, missing="none up to 2^20"),
    "cosine < .99": lambda e: number(e.below[".99"], missing="never"),
    "< .9": lambda e: number(e.below[".9"], missing="never"),
}


def extension_page(
    founds: Sequence[Extensions], params: dict[str, Any], specs: Mapping[str, str] | None = None
) -> Page:
    """The answer of `pefourier design --extend-from`; of a grid one for each axis, and `specs`."""
    rows = [[f"all axes by {way}", spec] for way, spec in (specs or {}).items()]
    return Page(
        "design",
        words=lambda: "\n".join([*map(extension_text, founds), *([aligned(rows)] if rows else [])]),
        records=lambda: [extension_record(found, params) for found in founds],
        rows=lambda: extension_rows(founds),
        conclusion=lambda: "".join(
            paragraph(f"{on_axis(found)}{conclude_extension(found)}") for found in founds
        ),
    )


def on_axis(found: Extensions) -> str:
    """The axis of a grid, as its conclusion begins; nothing where there is one."""
    return f"axis {found.name}: " if found.name and found.name in AXES else ""


def extension_record(found: Extensions, params: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of an extension; a band's treatment is called its class there."""
    record = {"encoding": "rope", "params": params, "conclusion": conclude_extension(found)}
    candidates = [
        fields_of(e) | {"bands": list(map(band_record, e.bands))} for e in found.candidates
    ]
    return record | fields_of(found) | {"candidates": candidates}


def band_record(band: Any) -> dict[str, Any]:
    """The JSON object of a band; its treatment is called its class there."""
    fields = fields_of(band)
    return {"class": fields.pop("treatment")} | fields


def conclude_extension(found: Extensions) -> str:
    """What happens unchanged, which scaling avoids it at the least cost, and what is left open.

    >>> from pefourier.extend import extend
    >>> print(conclude_extension(extend("rope:rho=1e6", 131072, trained=32768, d=128)))
    Taken from 32768 to 131072 positions unchanged, 24 of 64 pairs reach angles unseen in
    training. Of the ways that leave no pair there, llama3 changes the trained rotation least: the
    cosine between the codes falls below .99 first at position 2451. How well a model works with it,
    only a test on long texts says.
    """
    unchanged, *ways = found.candidates
    taken = f"Taken from {found.trained} to {found.length} positions unchanged"
    if not unchanged.unseen:
        window = window_within(found.window, found.length)
        seen = f", as a query sees {window} positions" if window else ""
        return (
            f"{taken}, every pair stays within the angles of training{seen}: no scaling is needed. "
            "How well a model works at that length, only a test on long texts says."
        )
    pairs = sum(band.pairs for band in unchanged.bands)
    reach = agreeing(unchanged.unseen, "reaches", "reach")
    fewest = min(way.unseen for way in ways)
    best = max((way for way in ways if way.unseen == fewest), key=nearness)
    left = "no pair" if not fewest else f"the fewest pairs ({fewest})"
    position = best.below[".99"]
    falls = (
        "stays above .99 throughout"
        if position is None
        else f"falls below .99 first at position {position}"
    )
    told = [
        f"{taken}, {unchanged.unseen} of {pairs} pairs {reach} angles unseen in training"
        f"{where_needed(found)}.",
        f"Of the ways that leave {left} there, {way_name(best)} changes the trained rotation "
        f"least: the cosine between the codes {falls}.",
        last_words(found),
    ]
    return " ".join(told)


def where_needed(found: Extensions) -> str:
    """Which layers alone reach such angles, where others have windows."""
    if not found.windows:
        return ""
    windows = " or ".join(map(str, found.windows))
    if found.name:
        return f" in {found.name} layers; the others see {windows} positions and need no scaling"
    return (
        f" in layers without a window; those that see {windows} positions need no scaling, but "
        "share the rotation"
    )


def last_words(found: Extensions) -> str:
    """What is left open: whether it works, and whether the length before the scaling is right."""
    open_question = "how well a model works with {}, only a test on long texts says."
    if found.by_factor:
        return (
            f"The lines take {found.original}, {found.trained} over the factor of its scaling, for "
            f"the length of training, which the config does not say; {open_question.format('them')}"
        )
    return open_question.format("it").capitalize()


def nearness(way: Extension) -> tuple[float, ...]:
    """The first positions at which the cosine to the trained rotation falls: later is nearer."""
    return tuple(float("inf") if p is None else float(p) for p in way.below.values())


def way_name(way: Extension) -> str:
    """A way in words."""
    return f"base {number(way.rho, 6)}" if way.way == "base" else way.way


def band_counts(way: Extension) -> str:
    """How many pairs are kept, blended and stretched; what is the same is kept."""
    count = {band.treatment: band.pairs for band in way.bands}
    kept = count.get("kept", 0) + count.get("same", 0)
    return f"{kept} / {count.get('blended', 0)} / {count.get('stretched', 0)}"


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
    return "\n".join([aligned(rows), aligned(cosines), *ways])


def lines_text(way: Extension) -> str:
    """The keys to set in config.json, a line each."""
    if way.config is None:
        return "    a config.json of this model type cannot state it\n"
    return "".join(
        f"    {json.dumps(key)}: {json.dumps(value)},\n" for key, value in way.config.items()
    )


def extension_rows(founds: Sequence[Extensions]) -> Iterable[Sequence[Any]]:
    """A row for each way, its keys for config.json in JSON; of a grid with its axis."""
    single = [
        key
        for key, value in fields_of(founds[0].candidates[0]).items()
        if key not in ("bands", "cosine", "below", "frequencies", "config")
    ]
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
