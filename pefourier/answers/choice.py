"""Which encoding? What speaks for one of them before anything is trained, by rules and no distance.

`RULES` say for a length and a d what is ruled out, what to take and what only training can tell.
Of encodings that were asked about, those that give two positions one code are out; of the others
the verdict counts, and equal ones tie. Tables that are only where training starts are not judged.
No number of codes says which encoding a model learns best with, and the last sentence says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from shlex import quote
from typing import TYPE_CHECKING, Literal

from pefourier.analysis.faithful import LADDER
from pefourier.answers.telling import sentence
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.specs import load, source_of
from pefourier.writing.text import agreeing, join, paragraph

if TYPE_CHECKING:  # it asks this room
    from pefourier.answers.telling import Answer

NAMED = 12  # encodings of a sentence
ARMS = 8  # that a command of training names
BLIND = "-e none -e order-free"  # what encodings have to beat
TRAINABLE = 4096  # positions of a series; language models are not trained here


@dataclass(frozen=True)
class Rule:
    """What holds of some encodings for lengths up to d, above d, long or any; several tie."""

    which: Literal["out", "take", "try"]
    specs: tuple[str, ...]
    lengths: Literal["up to d", "above d", "text", "any", "grid", "image"]
    why: str  # with the length as {n}, {d}, and of a grid its rows as {row}

    def holds(self, length: int, d: int, axes: int = 1) -> bool:
        """Whether it is about this size; on two axes or more only rules of grids are."""
        if axes > 1:
            return self.lengths == "grid" or (self.lengths == "image" and axes == 2)
        return self.lengths in (
            "any",
            "up to d" if length <= d else "above d",
            "text" if length > TRAINABLE else "",
        )


RULES = (  # of those to take the first that holds is the default, the second what else serves
    Rule("take", ("dft",), "up to d", "a linear map reads every position back exactly"),
    Rule(
        "take",
        ("rope",),
        "text",
        "language models turn queries and keys with it; scores depend on the lag, and any position "
        "has a code, beyond {n} too",
    ),
    Rule(
        "take",
        ("sinusoidal", "rope"),
        "any",
        "all positions differ, beyond {n} too, near ones are alike, and nothing has to be learned",
    ),
    Rule("out", ("dft", "onehot"), "above d", "codes repeat after {d} positions"),
    Rule("out", ("none",), "any", "all codes are alike"),
    Rule("try", ("learned",), "any", "a row for each position, none beyond {n}"),
    Rule("try", ("tape",), "any", "waves that stretch with the length, to test on longer series"),
    Rule("try", ("t5",), "any", "learned biases for lags; far lags share one"),
    Rule("try", ("alibi",), "any", "biases that favour near positions; nothing to learn"),
    Rule(
        "take",
        ("axial", "axial-rope"),
        "grid",
        "all points differ, on larger grids too, near ones are alike, and nothing has to be "
        "learned",
    ),
    Rule(
        "out",
        ("sinusoidal", "rope"),
        "grid",
        "they count points row by row: one below is as far as {row} columns, and codes change with "
        "the width",
    ),
    Rule("out", ("none",), "grid", "all codes are alike"),
    Rule(
        "try",
        ("learned",),
        "grid",
        "ViT's: a row for each patch; 'pefourier resize' takes it to another grid",
    ),
    Rule("try", ("mixed-rope",), "image", "RoPE-ViT's: its waves learn diagonal directions, too"),
    Rule("try", ("swin",), "image", "biases for displacements, for attention within windows"),
)


def advise(
    grid: Sequence[int], d: int, bases: Mapping[str, str], steps: str = "", step: str = ""
) -> tuple[str, str, str]:
    """Which encoding to take for a size by `RULES`, what else to know, and the command to follow.

    Of one side it is a length, of time where `steps` says of which, in units of `step`; bases are
    by criterion.

    >>> advise([1000], 64, {"turns": "187"})[0]  # doctest: +ELLIPSIS
    'TAKE SINUSOIDAL OR ROPE. For 1000 positions and d 64: all positions differ, beyond 1000 ...'
    """
    length = prod(grid)
    rules = [rule for rule in RULES if rule.holds(length, d, len(grid))]
    held = [rule for rule in rules if not (steps and rule.lengths == "text")]

    def told(which: str) -> list[str]:
        return [
            f"{join(rule.specs)} ({rule.why.format(n=length, d=d, row=grid[-1])})"
            for rule in held
            if rule.which == which
        ]

    first = next(rule for rule in held if rule.which == "take")
    why = first.why.format(n=length, d=d)
    size = f"{length} positions{steps}" if len(grid) == 1 else f"the {size_of(grid)} grid"
    base = f", BASE {bases['bound']}" if first.lengths == "text" and "bound" in bases else ""
    take = f"TAKE {' OR '.join(first.specs).upper()}{base}. For {size} and d {d}: {why}."
    beside = sentence("choice", first.specs[0], d=d)
    then = sentence("choice", "then look")
    if len(grid) > 1:
        command = f"pefourier check-faithful {' '.join(first.specs)} --grid {size_of(grid)}"
    elif step and "sinusoidal" in first.specs:
        spec = f"sinusoidal:rho={bases.get('turns', '10000')}"
        gap = sqrt(2 - 2 * load(spec, length=2, d=d).measure.kernel(1))
        then = sentence("choice", "then times", spec=spec, step=step, gap=gap)
        command = f"pefourier check-faithful {spec} --times times.csv"
    elif length <= TRAINABLE:
        specs = [spec for rule in held if rule.which != "out" for spec in rule.specs]
        if base := bases.get("turns"):
            specs.insert(specs.index("rope") + 1, f"rope:rho={base}")
        then, command = sentence("choice", "then train"), training(specs)
    else:
        base = bases.get("bound", "10000")
        command = f"pefourier context rope:rho={base} --length {length}"
    rest = sentence("choice", "rest", out=join(told("out")), untold=join(told("try")), then=then)
    return f"{take} {beside}", rest, f"{command} --d {d}"


def with_command(text: str, indent: str = "") -> str:
    """Advice in lines, its command on a line of its own."""
    said, word, command = text.partition("pefourier train")
    return paragraph(said, indent) + (pasted(f"{word}{command}") if word else "")


def pasted(command: str) -> str:
    """A command as it is pasted into a shell, indented."""
    return paragraph(f"    {command}", 8 * " ", " \\")


def training(specs: Sequence[str]) -> str:
    """The command that compares encodings on somebody's series."""
    arms = " ".join(f"-e {quote(spec)}" for spec in specs[:ARMS])
    return f"pefourier train --dataset data.npz {arms} {BLIND}"


def choose(answers: Sequence[Answer]) -> str:
    """Up to three sentences about two encodings or more, "" where they are of other positions.

    >>> from pefourier.answers.telling import Answer
    >>> from pefourier.encodings import load
    >>> from pefourier.analysis.faithful import assess
    >>> encs = [load(name, length=10, d=8) for name in ("sinusoidal", "dft", "ramp")]
    >>> choose([Answer(enc, assess(enc)) for enc in encs]).partition(". ")[0]
    "Of these 3, sinusoidal and ramp give all 10 positions different codes; dft doesn't"
    """
    aside = [a for a in answers if a.encoding.domain.kind != "position"]
    answers = [a for a in answers if a.encoding.domain.kind == "position"]
    lengths = {a.result.length for a in answers}
    if len(answers) < 2 or len(lengths) > 1 or min(lengths) < 2:
        return ""
    apart = [a for a in answers if a.result.faithful]
    merged = [a for a in answers if not a.result.faithful]
    drawn = [a for a in apart if a.encoding.untrained]
    settled = [a for a in apart if not a.encoding.untrained]
    found = [who_is_left(apart, merged), *what_speaks_for(settled)]
    if drawn:
        are = "is an untrained table" if len(drawn) == 1 else "are untrained tables"
        found.append(f"{names(drawn)} {are}: that codes differ says nothing about trained ones.")
    if aside:
        stand = agreeing(len(aside), "stands", "stand")
        found.append(f"{names(aside)}, whose codes are not of positions, {stand} apart.")
    short = max(lengths) <= TRAINABLE
    if short and len(apart) > 1 and all(in_series(a.encoding) for a in apart):
        specs = dict.fromkeys(without_size(a.encoding.spec) for a in apart)
        found.append(sentence("choice", "train them", specs=training(list(specs))))
    return " ".join(found)


def without_size(spec: str) -> str:
    """A SPEC as training takes it, where d is the model's and the length that of its windows.

    >>> without_size("rope:d=32,rho=500"), without_size("dft:d=8"), without_size("dft")
    ('rope:rho=500', 'dft', 'dft')
    """
    name, _, given = spec.partition(":")
    kept = [one for one in given.split(",") if one.partition("=")[0] not in ("d", "length", "")]
    return f"{name}:{','.join(kept)}" if kept else name


def in_series(enc: Encoding) -> bool:
    """Whether training on series can take an encoding: one axis, and a SPEC that says it all."""
    if enc.domain.grid or source_of(enc.spec) != "name":
        return False
    return load(enc.spec, length=len(enc), d=enc.dim).params == enc.params  # options say no more


def who_is_left(apart: Sequence[Answer], merged: Sequence[Answer]) -> str:
    """Which encodings tell all positions apart."""
    count, total = len(apart) + len(merged), (*apart, *merged)[0].result.length
    points = "points" if (*apart, *merged)[0].encoding.domain.grid else "positions"
    what = f"all {total} {points} different codes"
    if not apart:
        return f"None of these {count} gives {what}."
    gives = "gives" if len(apart) == 1 else "give"
    if not merged:
        return f"{'Both' if count == 2 else f'All {count}'} {gives} {what}."
    do = "doesn't" if len(merged) == 1 else "don't"
    return f"Of these {count}, {names(apart)} {gives} {what}; {names(merged)} {do}."


def what_speaks_for(apart: Sequence[Answer]) -> list[str]:
    """The highest verdict where it differs; else they tie, however far their codes are apart."""
    if len(apart) < 2:
        return []
    rungs = [LADDER.index(a.result.verdict) for a in apart]
    if min(rungs) < max(rungs):
        highest = [a for a, rung in zip(apart, rungs, strict=True) if rung == max(rungs)]
        reach = "is" if len(highest) == 1 else "are"
        rung = LADDER[max(rungs)]
        return [sentence("choice", "highest verdict", names=f"{names(highest)} {reach}", rung=rung)]
    return [sentence("choice", "equal verdicts", names=names(apart))]


def names(answers: Sequence[Answer]) -> str:
    """The labels of encodings; of very many the first ones and how many more."""
    labels = [a.encoding.label for a in answers]
    more = len(labels) - NAMED
    return join(labels if more <= 1 else [*labels[:NAMED], f"{more} more"])
