"""How is it told which frequencies weights use? The answer of `pefourier usage`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers import plot
from pefourier.answers.context_figures import ABOVE, mark_lengths
from pefourier.answers.telling import Answer, Said, Telling, meaning_of, record_of_fields, sentence
from pefourier.errors import shown
from pefourier.weights.summary import OFTEN, Portion, RotationUse, used_part
from pefourier.weights.usage import Usage
from pefourier.writing.text import aligned, capital, join, number, paragraph, ranges

if TYPE_CHECKING:
    from pefourier.weights.shares import LayerShares

BANDS = 8  # rows of the table of pairs
FIELDS = ("index", "wavelength", "turns", "uniform", "axis", "share_q", "share_k", "share")
ACROSS = 4  # small panels side by side
SMALL = 8  # layers whose heads are drawn
MOST_TIMES = 4.0  # even use: the end of the scale of colours


def usage_record(answer: Answer) -> dict[str, Any]:
    """The JSON object of an answer; heads are told where they were asked for."""
    told = record_of_fields(answer)
    for name in ("heads", "against"):
        if not told[name]:
            del told[name]
    return told


phrase = partial(sentence, "usage")


def percent(share: float) -> str:
    """A share for a sentence.

    >>> percent(0.5768), percent(0.0004), percent(0.9999)
    ('58 %', '0.04 %', '100 %')
    """
    return f"{100 * share:.{2 if share < 0.995 else 3}g} %"


VERDICTS = {  # of slow pairs, of fast ones: what is used more or less than evenly
    (True, 1): "SLOW PAIRS FAVOURED",
    (True, -1): "SLOW PAIRS NEGLECTED",
    (False, 1): "FAST PAIRS FAVOURED",
    (False, -1): "FAST PAIRS NEGLECTED",
    (False, 0): "NO PREFERENCE",
}
EVEN = 0.1  # of the even share: as near use is even
CHANCE = 3.0  # spreads of shuffled pairs: as near it may be chance


def preference(one: RotationUse) -> str:
    """Which pairs are used more or less than evenly: those that never turn, or else the fastest."""
    for slow, part in ((True, one.never_turn), (False, one.often)):
        more = used_part(part) - part.uniform
        if abs(more) > max(EVEN * part.uniform, CHANCE * part.spread):
            return VERDICTS[slow, 1 if more > 0 else -1]
    return VERDICTS[False, 0]


def conclude_usage(found: Usage) -> Said:
    """Which pairs do the work, which never turn, who stands out, and what that rests on."""
    several = len(found.rotations) > 1
    told = (about_rotation(found, one, several) for one in found.rotations)
    first, *sentences = chain.from_iterable(told)
    sentences += [f"{told}." for one in found.rotations if (told := about_heads(one))][:1]
    if found.against is not None:
        sentences.append(about_moved(found))
    if found.pairing.source == "weights":
        sentences.append(phrase("guessed", found=found))
    if doubts := [f.message for f in found.findings if f.severity != "note"]:
        only = phrase("doubted", found=found)
        return Said("PROBABLY A MISTAKE", f"{capital(doubts[0])}.", "", (only, first, *sentences))
    verdicts = {preference(one) for one in found.rotations}
    verdict = verdicts.pop() if len(verdicts) == 1 else "BY LAYER TYPE"
    spared = [
        f"{ranges(one.half)}{f' of {one.name} layers' if several and one.name else ''}"
        for one in found.rotations
        if preference(one) != VERDICTS[False, 0]
    ]
    _, action = meaning_of("usage", verdict, spared=", ".join(spared))
    return Said(verdict, first, action, tuple(sentences))


def about_moved(found: Usage) -> str:
    """What differs from another checkpoint."""
    moved = found.against
    most = moved.heads[0]
    never = "; ".join(
        f"{f'in {one.name} layers ' if len(moved.rotations) > 1 else ''}pairs that never turn hold "
        f"{100 * one.never_turn:+.2g} points of it, the fastest {100 * one.often:+.2g}"
        for one in moved.rotations
    )
    shares = {"share": percent(moved.moved), "largest": percent(most.moved)}
    return phrase("moved", other=shown(moved.other)[1:-1], most=most, never=never, **shares)


def about_rotation(found: Usage, one: RotationUse, several: bool) -> Iterator[str]:
    """Of one rotation: the share of what never turns, of what turns often, of new angles, of axes.

    A sentence each, the first complete on its own.
    """
    where = f"In {one.name} layers " if several and one.name else ""
    both = one.never_turn.product is not None
    what = "what queries and keys put into scores" if both else "the energy of queries"
    first = "never" if one.never_turn.pairs else "all turn"
    sizes = {"total": len(one.pairs), "what": what, **shares_told(one.never_turn)}
    told = where + phrase(first, found=found, part=one.never_turn, **sizes)
    yield f"{told[0].upper()}{told[1:]}"
    fast = "often" if one.often.pairs else "never often"
    yield phrase(fast, times=OFTEN, part=one.often, **shares_told(one.often))
    if one.unseen is not None:
        yield phrase("unseen", found=found, part=one.unseen, **shares_told(one.unseen))
    if one.axes:
        shares = (f"{a.axis} {percent(used_part(a))} (even {percent(a.uniform)})" for a in one.axes)
        yield f"By axis: {'; '.join(shares)}."


def shares_told(part: Portion) -> dict[str, str]:
    """What pairs of a kind hold, and what they would if use were even."""
    return {"share": percent(used_part(part)), "even": percent(part.uniform)}


def about_heads(one: RotationUse) -> str:
    """The heads that stand out, by what."""
    kinds = {"never_turn": "in pairs that never turn", "often": "in the fastest pairs"}
    parts = []
    for (key, where), unit in product(kinds.items(), ("head", "layer")):
        of = [s for s in one.standouts if s.of == key and (s.head is None) == (unit == "layer")][:3]
        if of:
            places = (f"{s.layer}{'' if s.head is None else f'.{s.head}'}" for s in of)
            named = join(f"{at} ({percent(s.share)})" for at, s in zip(places, of, strict=True))
            several = "s" * (len(of) > 1)
            parts.append(f"{unit}{several} {named} {where} (median {percent(of[0].median)})")
    return f"By layer and head, what stands out: {'; '.join(parts)}" if parts else ""


def usage_text(answers: Sequence[Answer]) -> str:
    """Bands of pairs from fast to slow, what classes of pairs hold, and what to know."""
    found: Usage = answers[0].result
    parts = [layers_text(found)]
    for one in found.rotations:
        parts += [pair_bands_text(one), classes_text(found, one), advice_text(one)]
    parts += [f"{paragraph(f'{f.severity}: {f.message} [{f.code}]', '  ')}" for f in found.findings]
    return "\n".join(filter(None, parts))


def layers_text(found: Usage) -> str:
    """Which layers have which heads."""
    rows = [["layers", "positions", "rotation", "heads", "key heads"]]
    for run in found.layers:
        name = "–" if run.rotation is None else found.rotations[run.rotation].name or "all layers"
        kind = run.kind if run.kind != "none" else "no positions"
        rows.append([ranges(run.index), kind, name, number(run.heads), number(run.kv_heads)])
    return aligned(rows)


def pair_bands_text(one: RotationUse) -> str:
    """The pairs in eight bands of equal size, fast ones first."""
    head = ["pairs", "wavelengths", "turns", "even", "queries", "keys", "product"]
    rows = [[f"{one.name}: {head[0]}" if one.name else head[0], *head[1:]]]
    order = sorted(one.pairs, key=lambda pair: pair.wavelength or 0.0)
    size = -(-len(order) // min(BANDS, len(order)))
    for start in range(0, len(order), size):
        band = order[start : start + size]
        waves = [band[0].wavelength, band[-1].wavelength]
        turns = [band[-1].turns, band[0].turns]
        parts = [[getattr(p, key) for p in band] for key in ("share_q", "share_k", "share")]
        sums = [None if None in part else sum(part) for part in parts]
        ends = ("…".join(number(end, 3) for end in pair) for pair in (waves, turns))
        shares = map(as_cell, (len(band) / len(order), *sums))
        rows.append([ranges(sorted(p.index for p in band)), *ends, *shares])
    return aligned(rows)


def kinds_of_pairs(found: Usage, one: RotationUse) -> dict[str, Portion]:
    """What pairs of a kind hold, those that there are, by name."""
    kinds = {
        f"never turn within {found.length}": one.never_turn,
        f"turn more than {OFTEN} times": one.often,
        "meet angles new to training": one.unseen,
        "slowest quarter": one.slowest_quarter,
        "rows that do not turn": one.still,
        **{f"axis {a.axis}": a for a in one.axes},
    }
    return {name: part for name, part in kinds.items() if part is not None}


def classes_text(found: Usage, one: RotationUse) -> str:
    """What pairs of a kind hold."""
    rows = [["kind of pairs", "pairs", "even", "queries", "keys", "product"]]
    for name, part in kinds_of_pairs(found, one).items():
        values = (part.uniform, part.q, part.k, part.product)
        rows.append([name, str(part.pairs), *map(as_cell, values)])
    return aligned(rows)


def as_cell(share: float | None) -> str:
    """A share in a table."""
    return "–" if share is None else f"{share:.3f}"


def advice_text(one: RotationUse) -> str:
    """How many pairs count, what a cut would take away, what biases hold."""
    cut = percent(used_part(one.slowest_quarter))
    of = "the product" if one.slowest_quarter.product is not None else "the energy of queries"
    sizes = {"total": len(one.pairs), "pairs": len(one.half), "which": ranges(one.half)}
    text = phrase("cut", one=one, of=of, cut=cut, **sizes)
    if one.bias is not None:
        text += phrase("biases", shares=[*map(percent, one.bias)])
    kept = [p for p in one.pairs if p.concentration_q is not None]
    if kept:
        ends = [pick(kept, key=lambda p: p.concentration_q) for pick in (min, max)]
        text += phrase("concentration", ends=ends)
    return paragraph(text)


def usage_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each pair, those of heads behind them where heads were asked for."""
    found: Usage = answers[0].result
    yield "model", "rotation", "layer", "head", *FIELDS
    for one in found.rotations:
        for pair in one.pairs:
            yield found.model, one.name, None, None, *(getattr(pair, name) for name in FIELDS)
    own = {one.layer: found.rotations[one.rotation] for one in found.shares}
    for head in found.heads:
        rotation = own[head.layer]
        for pair, share in zip(rotation.pairs, head.share, strict=True):
            known = (*(getattr(pair, name) for name in FIELDS[:5]), None, None)
            yield found.model, rotation.name, head.layer, head.head, *known, share


def usage(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Shares of the product over wavelength, as times even use; a column for each rotation."""
    found: Usage = answers[0].result
    count = len(found.rotations)
    own = [[one for one in found.shares if one.rotation == i] for i in range(count)]
    drawn = [spread_layers(layers) for layers in own]
    wide = plot.WIDTH * max(1.0, 0.7 * count)
    across = ACROSS if (look.width or wide) >= plot.NARROW else 2
    small = max(-(-len(layers) // across) for layers in drawn)
    heights = [1.3 + 0.09 * min(max(map(len, own)), 40)] + [1.3] * small
    size = wide, sum(heights) + 0.6
    figure, panels = plot.make_panels(1 + small, across * count, size, look)
    grid = panels[0, 0].get_gridspec()
    grid.set_height_ratios(heights)
    for place, (rotation, layers) in enumerate(zip(found.rotations, own, strict=True)):
        columns = slice(across * place, across * (place + 1))
        for axes in panels[0, columns]:
            axes.remove()
        top = figure.add_subplot(grid[0, columns])
        draw_layers(top, found, rotation, layers)
        places = list(panels[1:, columns].flat)
        for axes, layer in zip(places, drawn[place], strict=False):
            if axes is not places[0]:
                axes.sharey(places[0])
            draw_heads(axes, rotation, layer, found.length)
        for axes in places[len(drawn[place]) :]:
            axes.set_axis_off()
        for axes in panels[1:, columns][:, 0]:
            axes.set_ylabel("times even", fontsize=7)
    figure.supxlabel("wavelength (positions)", fontsize=7)
    return figure


def spread_layers(layers: Sequence[LayerShares]) -> list[LayerShares]:
    """Some layers, evenly spread from the first to the last."""
    picked = np.unique(np.linspace(0, len(layers) - 1, min(SMALL, len(layers))).astype(int))
    return [layers[i] for i in picked]


def over_waves(rotation: RotationUse, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wavelengths, and shares (n, pairs) as times even use; the mean of pairs of one wavelength."""
    waves, place = np.unique(
        np.float32([p.wavelength for p in rotation.pairs]), return_inverse=True
    )
    alike = place == np.arange(len(waves))[:, None]
    return waves.astype(float), shares @ alike.T / alike.sum(axis=1) * len(place)


def edges_of(waves: np.ndarray) -> np.ndarray:
    """Where a pair's cell ends and the next begins, half-way on a logarithmic axis."""
    logs = np.log(waves)
    if len(logs) == 1:
        return np.exp([logs[0] - 0.5, logs[0] + 0.5])
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp([2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]])


def draw_layers(
    axes: plot.Axes, found: Usage, rotation: RotationUse, layers: Sequence[LayerShares]
) -> None:
    """The mean over heads of each layer, a row a layer."""
    means = np.array([np.nanmean(one.used, axis=0) for one in layers])
    waves, times = over_waves(rotation, means)
    rows = np.arange(len(layers) + 1) - 0.5
    image = axes.pcolormesh(
        edges_of(waves), rows, times, cmap="cividis", vmin=0.0, vmax=MOST_TIMES, rasterized=True
    )
    mark_lengths(axes, found.trained, found.length)
    shown = [at for at in (found.trained, found.length) if waves[0] / 2 < at < waves[-1] * 2]
    ends = edges_of(waves)[[0, -1]]
    axes.set(xscale="log", xlim=(min(ends[0], *shown, ends[0]), max(ends[1], *shown, ends[1])))
    ticks = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 7)).astype(int))
    axes.set_yticks(ticks, [str(layers[i].layer) for i in ticks])
    axes.set(ylabel="layer")
    axes.invert_yaxis()
    bar = axes.figure.colorbar(image, ax=axes, location="bottom", aspect=40, extend="max")
    bar.set_label("share of the product, times even use", fontsize=7)
    name = ", ".join(
        filter(None, (plot.brief(found.about[0].spec, 60), plot.literal(rotation.name)))
    )
    axes.set_title(f"{name}: {len(rotation.pairs)} pairs", loc="left", fontsize=9, pad=ABOVE)


def draw_heads(axes: plot.Axes, rotation: RotationUse, layer: LayerShares, length: int) -> None:
    """A line for each head of a layer."""
    waves, times = over_waves(rotation, layer.used)
    axes.plot(waves, times.T, linewidth=0.7, alpha=0.8)
    axes.axvline(length, color="0.6", linewidth=0.7, linestyle="--")
    axes.axhline(1.0, color="0.6", linewidth=0.7)
    axes.set(xscale="log", yscale="log")
    axes.tick_params(labelsize=6)
    axes.set_title(f"layer {layer.layer}", loc="left", fontsize=7)


TOLD = Telling(
    "usage",
    conclude=lambda _, found: conclude_usage(found),
    words=usage_text,
    rows=usage_rows,
    record=usage_record,
    figure=usage,
)
