"""How is it told how far a model's positions reach? The answer of `pefourier context`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from math import isclose, pi
from shlex import quote
from typing import Any

import numpy as np

from pefourier.analysis import context
from pefourier.analysis.design import smallest_bounded_base
from pefourier.answers import telling
from pefourier.answers.context_chart import bands_chart
from pefourier.answers.context_figures import wavelengths
from pefourier.answers.table_reach import about_table, beside_table, slopes_text, window_on
from pefourier.encodings.encoding import Encoding
from pefourier.writing.page import fields_of, fields_told
from pefourier.writing.text import agreeing, aligned, join, number, ranges

MEANS = partial(telling.meaning_of, "context")
phrase = partial(telling.sentence, "context")
NOTICED = 5e-4  # relative, from which on logits are said to be others
SHORT = 12  # words of a finding that is told with its way out
SENTENCES = 3  # of a conclusion
LEADS = {  # of misreadings that have a name and no setting
    "scaling-ignored": "Without its scaling",
    "partial-ignored": "With all of the head rotated",
    "layout": "With partners in the other layout",
}
USUAL = 0.2  # of the length: in most published models the sum of cosines turns negative later
SEARCHED = 2**18  # positions, for which a base is found in about a second
AXIS = {"t": "frame", "y": "row", "x": "column"}


def context_record(answer: telling.Answer) -> dict[str, Any]:
    """The JSON object of a model's positions."""
    record = telling.record_of_fields(answer)
    del record["against"], record["indexer"]  # which are told below, where there is one
    if answer.result.indexer:
        record["rotations"] = [*answer.result.rotations, answer.result.indexer]
    if (reading := answer.result.against) is not None:
        pairs = zip(reading.positions.tolist(), reading.cosine.tolist(), strict=True)
        record["against"] = fields_of(reading) | {"cosine": [list(pair) for pair in pairs]}
    return record


def conclude_context(enc: Encoding, found: context.Context) -> telling.Said:
    """How far positions were trained and are asked for, what is new there, what misreading costs.

    >>> from pefourier.analysis.context import describe_context
    >>> (enc,), found = describe_context("rope:rho=5e5", 131072, trained=8192, d=128)
    >>> print(conclude_context(enc, found).text)
    UNSEEN ANGLES. Trained at 8192 positions and asked for 131072 without a scaling: 29 of 64 pairs
    reach angles unseen in training. 'pefourier design --extend-from rope:rho=5e5 --to 131072
    --length 8192 --d 128' compares scalings. The sum of cosines first turns negative at lag 18438,
    14 % of the length, earlier than in most published models; base 8912896 would keep it positive.
    """
    if not found.rotations:
        return telling.Said(*about_table(enc, found), "", beside_table(enc, found))
    doubts, more = about_mistakes(found), about_more(found)
    layers = about_layers(found)
    layers = [*about_axes(found), *layers]
    rest = [*layers, about_bounds(found)]  # of several rotations what sets them apart comes first
    several = len(found.rotations) > 1
    rest = [*rest, *about_scaling(found)] if several else about_scaling(found) + rest
    aside = layers if doubts else [*(about_training(found) if several else ()), *rest]
    aside = [*aside[: SENTENCES - 1 - len(doubts) - len(more)], *more]
    if doubts:
        return telling.Said("PROBABLY A MISTAKE", doubts[0], about_phases(found), tuple(aside))
    if (reading := found.against) is not None:
        alike = None is reading.below[".99"] and not about_factor(reading, found.rotations)
        verdict, reading_told = "READ ALIKE" if alike else "READ DIFFERENTLY", more[0]
        return telling.Said(verdict, reading_told, "", (about_phases(found), *aside[: -len(more)]))
    unseen = any(r.unseen for r in found.rotations)
    verdict = "UNSEEN ANGLES" if unseen else "TRAINING LENGTH UNKNOWN"
    phases, lost = about_phases(found), first_tokens_lost(found)
    if about_training(found) and found.length > found.published[1]:
        verdict = "UNSEEN UNLESS TRAINED ON"
    elif about_training(found) or not (unseen or found.silent):
        verdict = "BEYOND EVERY WINDOW" if lost else "NO NEW ANGLES"
    if any(r.scaling == "longrope" for r in found.rotations):
        phases = f"{phrase('lists', found=found)}; {phases[0].lower()}{phases[1:]}"
    return telling.Said(verdict, f"{lost}{phases}", what_extends(enc, found), tuple(aside))


def first_tokens_lost(found: context.Context) -> str:
    """From where on no layer sees the first tokens, where all have a window within the length."""
    windows = [context.window_within(run.window, found.length) for run in found.layers]
    return "" if None in windows else phrase("out of sight", window=max(windows))


def what_extends(enc: Encoding, found: context.Context) -> str:
    """The command that compares scalings, where none was set and angles are new."""
    plain = all(r.scaling == "none" for r in found.rotations)
    if not plain or not any(r.unseen for r in found.rotations) or found.against is not None:
        return ""
    asked = f"pefourier design --extend-from {quote(enc.spec)} --to {found.length}"
    asked += f" --length {found.trained}" * found.given
    if "path" not in enc.params and not re.search("[:,]d=", enc.spec):
        asked += f" --d {enc.params['d']}"
    return f"'{asked}' compares scalings."


def about_more(found: context.Context) -> list[str]:
    """What another reading costs, where one was asked for; else what acts beside the rotation."""
    if (reading := found.against) is not None:
        return [about_reading(reading, found.rotations)]
    if any(r.cache for r in found.rotations):
        return [about_cache(found.rotations)]
    if growing := [r.scaling for r in found.rotations if r.scaling in ("dynamic", "longrope")]:
        told = {"trained": found.trained, "twice": 2 * found.trained}
        return [phrase("cache beyond", scaling=growing[0], **told)]
    if found.temperature is not None:
        return [about_temperature(found)]
    factor = max(r.softmax_factor for r in found.rotations)
    told = f"Beside the rotation, logits are multiplied by {number(factor)} (softmax_factor)."
    return [told] if factor > 1 else []


def about_mistakes(found: context.Context) -> list[str]:
    """What is probably wrong with the config, which all that follows depends on."""
    doubts = [f for f in found.findings if f.severity != "note"]
    first = sorted(doubts, key=lambda f: f.code == "unread-key")[:1]
    return [f"{in_short(f.message)} ({f.code}, see below)." for f in first]


def in_short(message: str) -> str:
    """A finding with its way out where both are short, else without.

    >>> in_short("a=1 is below b=4; exchange the two")
    'a=1 is below b=4; exchange the two'
    """
    return message if len(message.split()) <= SHORT else message.partition(";")[0]


def about_phases(found: context.Context) -> str:
    """Whether training met the phases that are asked for."""
    several = len(found.rotations) > 1
    r = found.rotations[0]
    idle = join(never_turning(r, found) for r in found.rotations)
    seen = several or context.window_within(r.window, found.length)
    if found.silent:
        shorter = phrase("shorter") if r.idle and not seen and r.scaling == "none" else ""
        return phrase("silent", found=found, idle=idle, shorter=shorter)
    later = "" if several else if_scaled_later(r, found.trained)
    if found.length <= found.trained:
        within = f"within the {found.trained} of training"
        if found.length == found.trained:
            within = "taken for the" if found.presumed else "the"
            within += " length of training"
        by = "" if several or r.scaling == "none" else f" with scaling {r.scaling},"
        ends = phrase("ends") if not seen and r.familiar_length == found.length else ""
        before = phrase("before") if later and is_taken(found) else ""
        told = {"within": within, "by": by, "idle": idle, "ends": ends, "before": before}
        return phrase("no new", found=found, **told)
    told = f"{'Presumably trained' if is_taken(found) else 'Trained'} at {found.trained} positions"
    asked = f"and asked for {found.length}"
    if several:
        return f"{told} {asked}: {'; '.join(in_its_layers(r, found) for r in found.rotations)}."
    new = new_phases(r, found.length)
    if about_training(found):
        which = "published" if found.length <= found.published[1] else "trained on"
        return phrase(which, found=found, scaling=r.scaling, new=new)
    if r.scaling == "none":
        asked += " without a scaling"
    elif is_taken(found):
        told += f" with scaling {r.scaling}"
    else:
        told, asked = f"{told} without scaling {r.scaling}", f"{asked} with it"
    return f"{told} {asked}: {new}{later}."


def in_its_layers(r: context.Rotation, found: context.Context) -> str:
    """The same of one rotation of several."""
    scaled = "" if r.scaling == "none" else f" (scaling {r.scaling})"
    return f"in {r.name} layers{scaled} {new_phases(r, found.length)}"


def is_taken(found: context.Context) -> bool:
    """Whether the length of training, with a scaling if there is one, is what a config allows."""
    return found.presumed and found.trained == found.allowed


def about_training(found: context.Context) -> list[str]:
    """That training may have gone on at a length that the config allows, where phases are new."""
    scaled = any(r.unseen and r.scaling != "none" for r in found.rotations)
    if not scaled or found.given or found.allowed is None or found.length > found.allowed:
        return []
    return [phrase("trained longer", found=found)]


def about_axes(found: context.Context) -> list[str]:
    """Which pairs turn by which place of a token of an image."""
    told = [r.axes for r in found.rotations if r.axes]
    if not told:
        return []
    by = [f"{ranges(pairs, 3)} by {AXIS[axis]}" for axis, pairs in told[0].items() if pairs]
    by[0] = by[0].replace(" by", " turn by")
    return [f"In images and videos pairs {join(by)}; in text all turn by position."]


def about_scaling(found: context.Context) -> list[str]:
    """What a scaling does to which pairs, of the first rotation that has one.

    >>> from pefourier.analysis.context import describe_context
    >>> scaled = "rope:rho=5e5,scaling=yarn,factor=4,original=8192"
    >>> print(*about_scaling(describe_context(scaled, d=128)[1]))
    Scaling yarn leaves the 19 fastest pairs (0-18) as they are, divides 16 (19-34) by 1.046 to
    3.4 and 29 (35-63) by 4; cosines and sines are multiplied by 1.139.
    """
    scaled = [r for r in found.rotations if r.scaling != "none" and r.bands]
    if not scaled or scaled[0].bands[0].treatment == "same":
        return []
    r, *_ = scaled
    acts = []
    for b in r.bands:
        numbers = "" if b.pairs == r.rotated else f" ({from_to(b.first_pair, b.last_pair)})"
        if b.treatment == "kept":
            acts.append(phrase("kept" if b.pairs > 1 else "kept one", b=b, numbers=numbers))
        else:
            what = f"{b.pairs}{numbers}" if numbers else f"all {b.pairs} pairs"
            acts.append(f"divides {what} by {from_to(b.least_divisor, b.largest_divisor, ' to ')}")
    told = join(acts)
    told = told.replace("and divides", "and") if told.count("divides") > 1 else told
    factor = f"; cosines and sines are multiplied by {number(r.attention_factor)}"
    named = f" in {r.name} layers" if r.name else ""
    return [f"Scaling {r.scaling}{named} {told}{factor * (r.attention_factor != 1)}."]


def if_scaled_later(r: context.Rotation, trained: int) -> str:
    """How far phases are known if training came before the scaling, which nothing says.

    >>> from pefourier.analysis.context import describe_context
    >>> _, found = describe_context("rope:rho=5e5,scaling=linear,factor=3.5", 8192, d=128)
    >>> if_scaled_later(found.rotations[0], found.trained)
    '; if the scaling was added after training (--trained 8192), no angle is new up to 28672'
    """
    if r.scaling == "none" or r.familiar_length is None:
        return ""
    later = context.longest_familiar(r.frequencies, r.trained_frequencies, trained)
    if later is None or later == r.familiar_length:
        return ""
    return phrase("scaled later", trained=trained, later=later)


def never_turning(r: context.Rotation, found: context.Context) -> str:
    """How many pairs do not turn once within what a query sees."""
    seen = context.window_within(r.window, found.length)
    idle = context.count_idle(r.frequencies, seen) if seen else r.idle
    where = f" within the window of {seen}" if seen else ""
    where += f" in {r.name} layers" if len(found.rotations) > 1 else ""
    if not idle:
        return f"every pair completes a turn{where}"
    complete = agreeing(idle, "completes", "complete")
    return f"{idle} of {r.rotated} pairs never {complete} a turn{where}"


def new_phases(r: context.Rotation, length: int) -> str:
    """How many pairs of a rotation reach angles unseen in training."""
    if r.unseen:
        new = r.familiar_length is not None and r.scaling != "none"
        beyond = f", the first beyond {r.familiar_length} positions" if new else ""
        return phrase("unseen", r=r, beyond=beyond)
    window = context.window_within(r.window, length)
    seen = f", as a query sees {window} positions" if window else ""
    return f"every pair stays within the angles of training{seen}"


def about_bounds(found: context.Context) -> str:
    """Where the sum of cosines turns negative, and what keeps it positive if that is early."""
    turning, staying = [], []
    for r in found.rotations:
        still = 2 * (r.pairs - r.rotated)
        carry = still and f"{still} of {2 * r.pairs} dimensions of a head carry no position"
        name = f" ({'; '.join(filter(None, (r.name, carry)))})" if r.name or carry else ""
        window = context.window_within(r.window, found.length)
        seen, what = window or found.length, "window" if window else "length"
        bound = context.head_bound(r, seen)
        if bound is None:
            staying.append(f"the {what} of {seen}{name}")
            continue
        share = bound / seen
        told = f"{bound}{name}, {100 * share:.2g} % of the {what}"
        if share < USUAL and r.rotated == r.pairs:
            told += phrase("early", base=what_serves(r, seen))
        turning.append(told)
    stays = f"stays positive within {join(staying)}" if staying else ""
    turns = f"first turns negative at lag {'; and at '.join(turning)}" if turning else ""
    return f"The sum of cosines {' and '.join(filter(None, (stays, turns)))}."


def what_serves(r: context.Rotation, length: int) -> str:
    """A base with which the sum of cosines stays positive, where that is soon found."""
    if r.scaling != "none" or r.base is None or length > SEARCHED:
        return ""
    base = smallest_bounded_base(2 * r.rotated, length, digits=2)
    return f"; base {base:.0f} would keep it positive" if base else ""


def about_layers(found: context.Context) -> list[str]:
    """In what layers differ: the positions that a query sees, and how they are rotated.

    One sentence, and none where all are alike.
    """
    groups: dict[tuple[str, int | None, int | None], list[int]] = {}
    for run in found.layers:
        key = (run.kind, run.rotation, context.window_within(run.window, found.length))
        groups.setdefault(key, []).extend(run.index)
    if len(groups) < 2:
        return []
    keys = sorted(groups, key=lambda key: len(groups[key]))
    windows, turns = {key[2] for key in keys}, {key[:2] for key in keys}
    names = [layers_name(groups[key], found, key[1]) for key in keys[:-1]]
    last = agreeing(len(groups[keys[-1]]), "the other", "the others")
    told, seeing = [], "see"
    for name, (kind, rotation, window) in zip([*names, last], keys, strict=True):
        turn = turning_words(kind, rotation, found.rotations) if len(turns) > 1 else ""
        sees = f"{seeing} {window or 'all'}" if len(windows) > 1 else ""
        sees += " positions" if sees and not told else ""
        says = " and ".join(filter(None, (turn, sees)))
        told.append(f"{name} {of_one(says) if len(groups[kind, rotation, window]) == 1 else says}")
        seeing = "see" if turn else ""
    alike = "; both" if len(told) == 2 else "; all"
    same = f"{alike} are rotated alike" if len(turns) == 1 else ""
    sentence = " ".join(("; " if len(turns) > 1 < len(windows) else ", ").join(told).split())
    return [f"{sentence[0].upper()}{sentence[1:]}{same}."]


def of_one(words: str) -> str:
    """What several layers do, said of one.

    >>> of_one("are not rotated and see all positions")
    'is not rotated and sees all positions'
    """
    verbs = {"are": "is", "have": "has", "turn": "turns", "see": "sees"}
    return " ".join(verbs.get(word, word) for word in words.split(" "))


def layers_name(index: Sequence[int], found: context.Context, rotation: int | None) -> str:
    """Layers by their numbers, and how many they are of all; by their type where none is known."""
    total = sum(len(run.index) for run in found.layers)
    if not index:
        name = found.rotations[rotation].name if rotation is not None else ""
        return f"{name or 'some'} layers"
    for start, word in enumerate(("even", "odd")):
        if list(index) == list(range(start, total, 2)):
            return f"{word} layers ({len(index)} of {total})"
    return f"layer{'s' * (len(index) > 1)} {ranges(index, 3)} ({len(index)} of {total})"


def turning_words(kind: str, rotation: int | None, rotations: Sequence[context.Rotation]) -> str:
    """How layers have positions, as it is said beside others."""
    if rotation is None:
        return "are not rotated" if kind == "none" else f"have {kind} positions"
    r = rotations[rotation]
    if len(rotations) == 1 or r.base is None:
        return "are rotated"
    scaled = "" if r.scaling == "none" else f", scaling {r.scaling},"
    return f"turn by base {r.base:.10g}{scaled}"


def about_cache(rotations: Sequence[context.Rotation]) -> str:
    """What becomes of keys in a cache, of the rotation and the key where it is worst."""
    losses = [
        (error, loss, i)
        for loss in (r.cache for r in rotations)
        if loss is not None
        for i, error in enumerate(loss.errors)
    ]
    error, loss, i = max(losses, key=lambda one: one[0])
    return phrase("cache", loss=loss, key=loss.keys[i], error=error, cosine=loss.cosines[i])


def about_temperature(found: context.Context) -> str:
    """How queries grow with their position."""
    which = "all layers" if found.temperature.layers == "all" else "layers without positions"
    return phrase("temperature", which=which, found=found)


def about_reading(reading: context.Reading, rotations: Sequence[context.Rotation]) -> str:
    """By how much a misreading changes logits, and from where on it turns otherwise.

    >>> from pefourier.analysis.context import describe_context, read_against
    >>> own, found = describe_context("rope:scaling=yarn,factor=4,original=4096", 16384, d=128)
    >>> for other in ("attention_factor=1", "scaling-ignored"):
    ...     print(about_reading(read_against(own, other, 16384), found.rotations))
    Read as attention_factor=1 the rotation turns alike (the cosine stays above .99), but logits are
    1.296 times too small from the first token on.
    Without its scaling logits are 1.296 times too small from the first token on, and the cosine
    between the codes falls below .99 at position 77, .9 at position 250, .5 at position 684.
    """
    below = [(level, p) for level, p in reading.below.items() if p is not None]
    where = f" (in {reading.rotation} layers)" if reading.rotation else ""
    if reading.other == "scaling-ignored" and all(r.scaling == "none" for r in rotations):
        return "There is no scaling to ignore."
    lead = LEADS.get(reading.other, f"Read as {reading.other}")
    falls = ", ".join(f"{level} at position {p}" for level, p in below)
    factor = about_factor(reading, rotations)
    if below:
        also = f"{factor}, and " if factor else ""
        return f"{lead} {also}the cosine between the codes falls below {falls}{where}."
    but = f", but {factor}" if factor else ""
    return f"{lead} the rotation turns alike{where} (the cosine stays above .99){but}."


def about_factor(reading: context.Reading, rotations: Sequence[context.Rotation]) -> str:
    """How many times too small or large logits are in another reading; nothing where they are not.

    A factor of cosines and sines is in the part of a logit that turns alone.
    """
    if isclose(reading.logits, 1, rel_tol=NOTICED):
        return ""
    size = "small" if reading.logits < 1 else "large"
    times = max(reading.logits, 1 / reading.logits)
    (own,) = [r for r in rotations if r.name == reading.rotation] or rotations[:1]
    part = own.rotated < own.pairs and own.softmax_factor == 1
    what = "what turned dimensions add to logits is" if part else "logits are"
    return f"{what} {number(times)} times too {size} from the first token on"


def text_of_model(enc: Encoding, found: context.Context) -> str:
    """Layers in runs, what is known of each rotation, its bands, and what a misreading leaves."""
    rows = [["layers", "positions", "rotation", "window"]]
    on_axes = enc.act == "rotate" and not found.rotations  # those are told of one axis
    none = "by axes" if on_axes else "–"
    for run in found.layers:
        which = ranges(run.index) or ("some" if len(found.layers) > 1 else "all")
        kind = run.kind if run.kind != "none" else "no positions"
        name = none if run.rotation is None else found.rotations[run.rotation].name
        window = window_on(enc, run.window) or number(run.window)
        rows.append([which, kind, name or "the only one", window])
    parts = [aligned(rows)]
    if found.rotations:
        parts += [rotations_text(found), bands_text(found), *map(axes_text, found.rotations)]
        parts += [decay_text(found.rotations), *map(cache_text, found.rotations)]
    parts += [slopes_text(found.slopes, found.length - 1)] if found.slopes else []
    if (reading := found.against) is not None:
        shown = np.searchsorted(reading.positions, [1, 8, 64, 512, 4096, 32768, 262144, 2**20])
        shown = np.unique(np.minimum(shown, len(reading.positions) - 1))
        rows = [["position", *map(str, reading.positions[shown])]]
        rows.append([f"cosine to {reading.other}", *(f"{c:.3f}" for c in reading.cosine[shown])])
        parts.append(aligned(rows))
    parts += [f"{f.severity}: {f.message} [{f.code}]\n" for f in found.findings]
    return "\n".join(filter(None, parts))


def rows_in_words(partners: np.ndarray) -> str:
    """Which rows of a head turn together: the first two pairs, and the last.

    >>> rows_in_words(np.array([[0, 4], [1, 5], [2, 6], [3, 7]]))
    '0+4, 1+5 … 3+7'
    """
    each = [f"{one}+{other}" for one, other in partners]
    return ", ".join(each) if len(each) < 3 else f"{each[0]}, {each[1]} … {each[-1]}"


NEW = "pairs in phases not trained"
ROTATION_FACTS = {
    "pairs of a head": lambda r: r.pairs,
    "of them rotated": lambda r: r.rotated,
    "rows that turn together": lambda r: rows_in_words(r.partners),
    "base": lambda r: r.base,
    "scaling": lambda r: r.scaling,
    "factor of cosines and sines": lambda r: r.attention_factor,
    "factor of the softmax": lambda r: r.softmax_factor,
    "first lag with a negative sum": lambda r: r.bound,
    "critical dimension": lambda r: r.critical_dimension,
    "pairs that never turn in the length": lambda r: r.idle,
    NEW: lambda r: r.unseen,
    "codes apart, cast to bfloat16": lambda r: r.precision["bfloat16"].distinct_cast,
    "codes apart, phases in bfloat16": lambda r: r.precision["bfloat16"].distinct_phase,
    "safe length, phases in bfloat16": lambda r: r.precision["bfloat16"].safe_phase,
    "phase error in float32, rad": lambda r: r.precision["float32"].max_phase_error,
}


def rotations_text(found: context.Context) -> str:
    """A row per fact, a column per rotation."""
    own = found.rotations
    rows = [["", *(r.name or "all layers" for r in own)]]
    missing = {"first lag with a negative sum": "none up to 2^20"}
    for label, fact in ROTATION_FACTS.items():
        rows.append([label, *(number(fact(r), missing=missing.get(label, "–")) for r in own)])
        if label == NEW and found.silent:
            rows[-1][1:] = ["unknown"] * len(own)
        elif label == NEW and any(r.unseen for r in own):
            rows[-1][1:] = [f"{told} beyond {found.trained}" for told in rows[-1][1:]]
    windows = [context.window_within(r.window, found.length) for r in own]
    if any(windows):
        seen = (
            w and context.count_idle(r.frequencies, w) for r, w in zip(own, windows, strict=True)
        )
        rows.append(["pairs that never turn in the window", *(number(i, "–") for i in seen)])
    return aligned(rows)


def bands_text(found: context.Context) -> str:
    """The bands of all rotations."""
    head = ["rotation", "band", "pairs", "numbers", "divided by", "wavelengths"]
    trained = f"{found.trained} trained" if not found.silent else found.trained
    rows = [[*head, f"turns in {trained}, fewest", f"turns in {found.length}"]]
    for r in found.rotations:
        for b in r.bands:
            divided = from_to(b.least_divisor, b.largest_divisor)
            waves = from_to(b.shortest_wavelength, b.longest_wavelength)
            own = (str(b.pairs), from_to(b.first_pair, b.last_pair), divided, waves)
            turns = map(number, (b.turns_trained, b.turns))
            rows.append([r.name or "all layers", b.treatment, *own, *turns])
    return aligned(rows)


def axes_text(r: context.Rotation) -> str:
    """The pairs of each axis of an image; nothing where there are none."""
    if not r.axes:
        return ""
    rows = [["axis of an image", "pairs", "numbers", "wavelengths"]]
    for axis, pairs in r.axes.items():
        waves = 2 * pi / r.frequencies[list(pairs)]
        ends = from_to(waves.min(), waves.max()) if len(pairs) else "–"
        rows.append([f"{axis} ({AXIS[axis]})", str(len(pairs)), ranges(pairs), ends])
    return aligned(rows)


def from_to(least: float, most: float, joint: str = "-") -> str:
    """The first and the last number of a range, or the one that both read as.

    >>> from_to(1.0, 1.0), from_to(0, 18)
    ('1', '0-18')
    """
    return joint.join(dict.fromkeys(map(number, (least, most))))


def decay_text(rotations: Sequence[context.Rotation]) -> str:
    """RoFormer's upper bound on scores at some lags, a row per rotation."""
    rows = [["upper bound on scores at lag", *(str(lag) for lag, _ in rotations[0].decay)]]
    for r in rotations:
        rows.append([r.name or "all layers", *(number(bound) for _, bound in r.decay)])
    return aligned(rows)


def cache_text(rotation: context.Rotation) -> str:
    """What becomes of the keys in a cache; nothing where they stay right."""
    loss = rotation.cache
    if loss is None:
        return ""
    rows = [["key in a cache at", *map(str, loss.keys)]]
    rows.append(["phase error, rad", *map(number, loss.errors)])
    rows.append(["cosine to a consistent rotation", *(f"{c:.3f}" for c in loss.cosines)])
    return aligned(rows)


def context_rows(answers: Sequence[telling.Answer]) -> Iterable[Sequence[Any]]:
    """A row for each band of each rotation, or each head with a slope; else one of lengths."""
    own = ("pairs", "rotated", "base", "scaling", "attention_factor", "bound", "idle", "unseen")
    of_band = {f"band_{told}": name for name, told in fields_told(context.Band).items()}
    yield (header := ("spec", "rotation", "trained", "length", *own, *of_band, "head", "slope"))
    for a in answers:
        found = a.result
        rows = [{"head": head, "slope": slope} for head, slope in enumerate(found.slopes or ())]
        for r in found.rotations:
            facts = {"rotation": r.name} | {name: getattr(r, name) for name in own}
            bands = ({key: getattr(b, name) for key, name in of_band.items()} for b in r.bands)
            rows += [facts | band for band in bands]
        sizes = {"spec": a.encoding.spec, "trained": found.trained, "length": found.length}
        yield from ([*map((sizes | row).get, header)] for row in rows or [{}])


TOLD = telling.Telling(
    "context",
    conclude=conclude_context,
    words=lambda answers: "\n".join(text_of_model(a.encoding, a.result) for a in answers),
    rows=context_rows,
    record=context_record,
    chart=lambda answers, colour: "".join(bands_chart(a.result, colour) for a in answers),
    figure=wavelengths,
)
