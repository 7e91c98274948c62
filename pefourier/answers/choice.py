"""Which encoding? What speaks for one of them before training, by verdicts and no distance.

Of encodings that were asked about, those that give two positions one code are out; of the others
the verdict counts, and equal ones tie. Tables that are only where training starts are not judged.
No number of codes says which encoding a model learns best with, and the last sentence says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from pefourier.analysis.faithful import LADDER
from pefourier.answers.telling import sentence
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.specs import load, source_of
from pefourier.writing.text import agreeing, join, paragraph

if TYPE_CHECKING:  # it asks this room
    from pefourier.answers.telling import Answer

NAMED = 12  # encodings of a sentence
ARMS = 8  # that a command of training names
BLIND = "-e none -e order-free"  # what encodings have to beat
TRAINABLE = 4096  # positions of a series; language models are not trained here


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
