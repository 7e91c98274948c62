"""What did training show? One to three plain sentences, made by rules, of each and of all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pefourier.answers.conclusions import first_sentences, join
from pefourier.answers.text import agreeing, number, paragraph
from pefourier.errors import printable
from pefourier.train.options import LEVEL

if TYPE_CHECKING:
    from pefourier.train.summary import DatasetSummary


def conclusions_of(datasets: "Sequence[DatasetSummary]") -> str:
    """A paragraph for each dataset and encoding, and one for all encodings of a dataset."""
    return "".join(
        paragraph(printable(f"{one.dataset}, {name}: {said}"), "  ")
        for one in datasets
        for name, said in [
            *((name, conclude_training(one, name)) for name in one.scores),
            *(("together", said) for said in [sum_up(one)] if said),
        ]
    )


def sum_up(one: "DatasetSummary") -> str:
    """What the runs of a dataset say of its encodings together; empty without any."""
    return " ".join(filter(None, (sum_up_differences(one), sum_up_lengths(one))))


def conclude_training(one: "DatasetSummary", encoding: str) -> str:
    """The conclusion about an encoding on a dataset."""
    rules = (unreliable, mean_score, told_from_reference, goes_on)
    return first_sentences(rule(one, encoding) for rule in rules)


def sum_up_differences(one: "DatasetSummary") -> str:
    """Which encodings a dataset tells from their reference, in a sentence; empty without any."""
    judged = {name: d for name, d in one.differences.items() if name not in one.cut_short}
    told = {name: d for name, d in judged.items() if d.supported}
    if not judged or one.leaky:
        return ""
    (first, *others) = dict.fromkeys(d.reference for d in judged.values())
    every = "its own reference" if others else first
    if not told:
        return f"No encoding is told from {every}: differences may be chance."
    better = ", ".join(name for name, d in told.items() if d.mean > 0)
    worse = ", ".join(name for name, d in told.items() if d.mean <= 0)
    rest = ", ".join(name for name in judged if name not in told)
    parts = {"better": better, "worse": worse, "not told from it": rest}
    said = "; ".join(f"{what}: {names}" for what, names in parts.items() if names)
    doubt = " On other windows that may differ." if any(d.in_doubt for d in told.values()) else ""
    return f"Compared with {every}, {said}.{doubt}"


def sum_up_lengths(one: "DatasetSummary") -> str:
    """Which encodings classify the longest windows best, those of overlapping intervals together.

    Encodings that were cut short, or cannot be tested there, have no part in it.
    """
    longest = max((at.length for own in one.lengths.values() for at in own), default=0)
    found = {
        name: at.accuracy
        for name, own in one.lengths.items()
        for at in own
        if at.length == longest and at.accuracy is not None and name not in one.cut_short
    }
    if len(found) < 2 or one.leaky:
        return ""
    order = sorted(found, key=lambda name: -found[name].mean)
    lead = found[order[0]]
    alike = [name for name in order if found[name].high >= lead.low] or order[:1]  # of one run none
    runs = one.seeds * one.folds
    where = f"Trained on {one.length} rows and tested on {longest}, over {count_words(runs)},"
    if len(alike) == len(order):
        return f"{where} no encoding is clearly the most accurate: all their intervals overlap."
    if len(alike) > 1:
        first = f"{join(alike)} are most accurate ({found[alike[-1]].mean:.3f} to {lead.mean:.3f})"
    else:
        kept = one.scores[order[0]]["accuracy"].mean
        first = f"{order[0]} is most accurate ({lead.mean:.3f}; {kept:.3f} at {one.length})"
    others = order[len(alike) :]
    best, worst = found[others[0]].mean, found[others[-1]].mean
    if len(others) == 1:
        return f"{where} {first}, {others[0]} has {best:.3f}."
    return f"{where} {first}, the others have {worst:.3f} to {best:.3f}."


def count_words(runs: int) -> str:
    """How many runs.

    >>> count_words(1), count_words(2)
    ('1 run', '2 runs')
    """
    return f"{runs} {agreeing(runs, 'run', 'runs')}"


def unreliable(one: "DatasetSummary", encoding: str) -> str:
    """What makes the scores other than they look."""
    if encoding in one.cut_short:
        return "Its training was cut short, so that there is no verdict on it; give more --epochs."
    if one.leaky:
        return "Windows were shuffled, which leaks: the scores do not carry over to new data."
    diverged = one.diverged.get(encoding, 0)
    if diverged:
        return f"{diverged} of {one.runs[encoding]} runs diverged at once; try a smaller --rate."
    return ""


def mean_score(one: "DatasetSummary", encoding: str) -> str:
    """The mean F1, with its interval where there is one."""
    f1, over = one.scores[encoding]["f1"], count_words(one.seeds * one.folds)
    interval = f" (95 % {f1.low:.3f} … {f1.high:.3f})" if f1.low < f1.high else ""
    return f"It reaches F1 {f1.mean:.3f}{interval} over {over}."


def told_from_reference(one: "DatasetSummary", encoding: str) -> str:
    """Whether the data tell it from its reference."""
    if encoding in one.cut_short:
        return ""
    if encoding in one.differences and one.differences[encoding].reference in one.cut_short:
        return "There is no verdict: the training of what it is compared with was cut short."
    if encoding not in one.differences:
        return "The others are compared with it." if one.differences else ""
    d = one.differences[encoding]
    numbers = f"difference {d.mean:+.3f}, Holm p {number(float(d.p_holm), 2)}"
    if d.supported:
        where = " on these windows, others may differ" if d.in_doubt else ""
        better = "better" if d.mean > 0 else "worse"
        return f"That is {better} than {d.reference}{where} ({numbers})."
    if len(one.differences) * d.p_floor > LEVEL:
        return (
            f"So few runs could not tell it from {d.reference} in any case ({numbers}); give more "
            "--seeds."
        )
    return f"The data do not tell it from {d.reference} ({numbers}){exclusion(one, encoding)}."


def goes_on(one: "DatasetSummary", encoding: str) -> str:
    """Its accuracy on longer windows than those of training, where it was tested there."""
    every = one.lengths.get(encoding, ())
    known = [at for at in every if not at.reason]
    if not known:
        return f"On longer windows it cannot be tested: {every[0].reason}." if every else ""
    said = ", ".join(f"{at.accuracy.mean:.3f} on {at.length}" for at in known)
    return f"Trained on {one.length} rows, its accuracy is {said}."


def exclusion(one: "DatasetSummary", encoding: str) -> str:
    """Which differences the runs exclude, where they spread."""
    could = one.power.get(encoding)
    if could is None or could.excluded != could.excluded:
        return ""
    beyond = could.folds_excluded
    over = "" if beyond != beyond else f", over folds ±{beyond:.3f}"
    return f", and exclude differences beyond ±{could.excluded:.3f}{over}"
