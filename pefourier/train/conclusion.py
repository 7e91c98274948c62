"""What did training show? One to three plain sentences, made by rules, of each and of all."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pefourier.answers.telling import Said, first_sentences, meaning_of, sentence
from pefourier.train.options import BESIDE, LEVEL, ORDER_FREE, WITHOUT_CODES, fewest_runs
from pefourier.writing.text import agreeing, join, number

NONE = "none"  # the arm without positions
said = partial(sentence, "train")

if TYPE_CHECKING:
    from pefourier.train.statistics import Difference, Mean
    from pefourier.train.summary import DatasetSummary, Summary


def conclude_datasets(summary: "Summary") -> list[str]:
    """The verdict on all encodings, and below it what each dataset says where there are several."""
    verdict, several = judge_all(summary.datasets).text, len(summary.datasets) > 1
    every = [(one, sum_up(one)) for one in summary.datasets]
    first = first_by_rank(summary) if several else every[0][1]
    told = ((one.dataset, f"{sum_up_differences(one)} {more}".strip()) for one, more in every)
    each = [f"{name}: {words}" for name, words in told if several and words]
    return [f"{verdict} {first}".rstrip(), *each]


def first_by_rank(summary: "Summary") -> str:
    """Which encoding has the best average rank, and whether the next is told from it."""
    bad = {e for one in summary.datasets for e in summary.ranks if one.leaky or e in one.cut_short}
    own = (e for e in summary.ranks if e not in bad and e not in WITHOUT_CODES)
    order = sorted(own, key=summary.ranks.get)  # of two alike the one that was named first
    if not summary.ranked or len(order) < 2:
        return ""
    best, then = order[:2]
    alike = any({best, then} <= {*group} for group in summary.cliques)
    ahead = "not significantly" if alike else "significantly"
    ranks = [summary.ranks[one] for one in (best, then)]
    return said("best by rank", best=best, then=then, ahead=ahead, ranks=ranks)


def judge_all(datasets: "Sequence[DatasetSummary]") -> Said:
    """A verdict on all encodings, what it means, and what to do."""
    every = [one for one in datasets if one.differences]
    if not every:
        (one, *_) = datasets
        alone = next(iter(one.scores))
        return Said(*meaning_of("train", "ONE ALONE", spec=alone, score=mean_score(one, alone)))
    judged = [pair for one in every for pair in judged_differences(one).items()]
    if not judged:
        why = "leaky" if any(one.leaky for one in every) else "cut short"
        return Said(*meaning_of("train", f"NO VERDICT | {why}"))
    if all(too_few_runs(one, name) for one in every for name in judged_differences(one)):
        runs = sum(one.seeds * one.folds for one in every)
        told = {"seeds": max(map(more_seeds, every)), "shown": in_every_run(judged, runs)}
        return Said(*meaning_of("train", "NO VERDICT | too few runs", **told))
    own = [pair for pair in judged if pair[0] not in WITHOUT_CODES] or judged
    sides = {d.mean > 0 for _, d in own if d.supported}
    some = "SOME " if len({name for name, _ in own}) > 1 else ""
    words = [some + side for side, up in (("BETTER", True), ("WORSE", False)) if up in sides]
    verdict, action = meaning_of("train", ", ".join(words) or "NO DIFFERENCE SHOWN")
    if all(d.in_doubt for _, d in own if d.supported) and sides:
        action = said("confirm")
    return Said(verdict, differences_in_words(judged, len(every)), action)


def in_every_run(judged: "Sequence[tuple[str, Difference]]", runs: int) -> str:
    """Who was better, and who worse, than its reference in each of several runs."""
    parts = []
    for side, share in (("better", 1.0), ("worse", 0.0)):
        others = {name for name, d in judged if d.better != share}
        own = [d.reference for name, d in judged if name not in others]
        names = dict.fromkeys(name for name, _ in judged if name not in others)
        parts += [f"{side} than {join(dict.fromkeys(own))}: {join(names)}"] if own else []
    return said("in every run", runs=runs, told="; ".join(parts)) if parts and runs > 1 else ""


def sum_up(one: "DatasetSummary") -> str:
    """What the runs of a dataset say beside the differences; empty without any."""
    rules = (sum_up_order, sum_up_power, sum_up_lengths)
    parts = (rule(one) for rule in rules)
    return " ".join(filter(None, parts))


def judged_differences(one: "DatasetSummary") -> "dict[str, Difference]":
    """Differences on which there is a verdict: of runs that were not cut short on either side."""
    cut = set(one.cut_short)
    whole = {name: d for name, d in one.differences.items() if not {name, d.reference} & cut}
    return {} if one.leaky else whole


def conclude_training(one: "DatasetSummary", encoding: str) -> str:
    """The conclusion about an encoding on a dataset."""
    rules = (unreliable, mean_score, told_from_reference, goes_on)
    return first_sentences(rule(one, encoding) for rule in rules)


def sum_up_differences(one: "DatasetSummary") -> str:
    """Which encodings a dataset tells from their reference, in words; empty if none could be."""
    judged = [*judged_differences(one).items()]
    could = not all(too_few_runs(one, name) for name, _ in judged)
    return differences_in_words(judged, 1) if could else ""


def differences_in_words(judged: "Sequence[tuple[str, Difference]]", datasets: int) -> str:
    """Which encodings are better and worse than their reference, then which other models are."""
    first, *others = dict.fromkeys(d.reference for _, d in judged)
    every = "its own reference" if others else first
    own = [pair for pair in judged if pair[0] not in WITHOUT_CODES]
    beside = [pair for pair in judged if pair[0] in WITHOUT_CODES]
    told = [d for _, d in judged if d.supported]
    many = f" on {datasets} datasets" if datasets > 1 else ""
    compared = "each compared with its own reference" if others else f"compared with {first}"
    found = []
    if any(d.supported for _, d in own):
        found.append(f"{compared[0].upper()}{compared[1:]} by F1{many}, {listed(own, datasets)}.")
    elif own:
        found.append(f"No encoding differs significantly from {every}{many and ' on any dataset'}.")
    if beside:
        against = "" if own else f" {compared} by F1{many}"
        found.append(f"Of other models{against}, {listed(beside, datasets)}.")
    if doubt := sum(d.in_doubt for d in told):
        some = f"{doubt} of these {len(told)} differences" if doubt < len(told) else "This"
        found.append(f"{some} may not hold on other test windows (no evidence over folds).")
    return " ".join(found)


def listed(judged: "Sequence[tuple[str, Difference]]", datasets: int) -> str:
    """Who is better, who is worse, by how much, and on how many of several datasets."""
    told = [(name, d.mean) for name, d in judged if d.supported]
    sides = {"better": [p for p in told if p[1] > 0], "worse": [p for p in told if p[1] <= 0]}
    parts = []
    for side, own in sides.items():
        gains = {name: [mean for other, mean in own if other == name] for name, _ in own}
        each = [
            f"{name}{f' on {len(means)}' if datasets > 1 else ''} "
            f"({'up to ' if len(means) > 1 else ''}{max(means, key=abs):+.3f})"
            for name, means in gains.items()
        ]
        parts += [f"{side}: {', '.join(each)}"] if each else []
    rest = dict.fromkeys(name for name, _ in judged if name not in dict(told))
    none = "no significant difference"
    return "; ".join([*parts, *([f"{none}: {', '.join(rest)}"] if rest else [])])


def sum_up_order(one: "DatasetSummary") -> str:
    """Whether order matters: whether positions help the same model, which is blind without them.

    A model of another kind that is blind to order says nothing of that: it may only be weaker.
    """
    judged = judged_differences(one)
    none = [n for n, d in judged.items() if NONE in (n, d.reference) and n not in WITHOUT_CODES]
    if none and all(too_few_runs(one, name) for name in none):
        others = [judged[NONE].reference] if NONE in judged else none
        f1 = {name: one.scores[name]["f1"].mean for name in (NONE, *others)}
        each = join(f"{name} {f1[name]:.3f}" for name in others)
        return said("order not told", none=f1[NONE], others=each)
    if NONE in judged:
        d = judged[NONE]
        where = " on these windows" if d.in_doubt else ""
        side = "no positions worse" if d.mean < 0 else "no positions better"
        name = side if d.supported else "no positions as good"
        return said(name, d=d, where=where, p=number(float(d.p_holm), 2))
    own = {n: d for n, d in judged.items() if d.reference == NONE and n not in WITHOUT_CODES}
    better = [name for name, d in own.items() if d.supported and d.mean > 0]
    if better:
        where = " on these windows" if all(own[name].in_doubt for name in better) else ""
        are = agreeing(len(better), "is", "are")
        return said("positions better", where=where, better=f"{join(better)} {are} better")
    if own:
        return said("positions no better")
    if any(d.reference == NONE for d in judged.values()):
        return said("no positions alone")
    return said("order-free alone") if ORDER_FREE in judged else ""


def sum_up_power(one: "DatasetSummary") -> str:
    """How many runs find the difference asked for, where these are too few."""
    judged = judged_differences(one)
    encodings = judged.keys() - set(WITHOUT_CODES)
    could = [p for n, p in one.power.items() if n in encodings and p.claimed_runs is not None]
    most = max(fewest_runs(len(one.differences)), *(p.claimed_runs for p in could)) if could else 0
    if not could or most <= could[0].runs:
        return ""
    where = " on these windows" if one.folds > 1 else ""
    told = {"gain": could[0].claimed, "where": where, "runs": most, "seeds": -(-most // one.folds)}
    return said("more runs", **told)


def sum_up_lengths(one: "DatasetSummary") -> str:
    """Which encodings classify the longest windows best, those of overlapping intervals together.

    Who was cut short has a part in it only where it is ahead nevertheless, as more training rarely
    harms; who cannot be tested there has none.
    """
    longest = max((at.length for own in one.lengths.values() for at in own), default=0)
    there = {e: next(at for at in own if at.length == longest) for e, own in one.lengths.items()}
    known = {e: at.accuracy for e, at in there.items() if at.accuracy}
    cut = [e for e in known if e in one.cut_short]
    best = alike_to_best(known)
    found = {e: accuracy for e, accuracy in known.items() if e in best or e not in cut}
    if len(found) < 2 or one.leaky or len(cut) == len(known):
        return ""
    untested = [e for e, at in there.items() if at.reason]
    parts = [leaders_in_words(one, found)]
    if (chance := commonest_share(one)) > 0:
        parts.append(f"always naming the commonest class has {chance:.3f}")
    if untested:
        parts.append(f"{join(untested)} cannot be tested there")
    if cut:
        names = join(f"{e} ({known[e].mean:.3f})" for e in cut)
        parts.append(said("length cut short", names=names, count=len(cut)))
    runs = count_words(one.seeds * one.folds)
    return f"Trained on {one.length} rows and tested on {longest}, over {runs}, {'; '.join(parts)}."


def alike_to_best(found: "Mapping[str, Mean]") -> list[str]:
    """The best, and those whose intervals reach its own, best first."""
    order = sorted(found, key=lambda name: -found[name].mean)
    return [n for n in order if found[n].high >= found[order[0]].low] or order[:1]  # nan of one run


def leaders_in_words(one: "DatasetSummary", found: "Mapping[str, Mean]") -> str:
    """Who is most accurate on windows of another length, and what the others have."""
    order, alike = sorted(found, key=lambda name: -found[name].mean), alike_to_best(found)
    lead = found[order[0]]
    others = [name for name in order if name not in alike]
    if lead.low <= commonest_share(one):
        best = f"the best, {order[0]}, has {lead.mean:.3f}"
        return f"no encoding differs significantly from chance; {best}"
    if not others:
        return "no encoding is clearly most accurate, as all their intervals overlap"
    if len(alike) > 1:
        first = f"{join(alike)} are most accurate ({found[alike[-1]].mean:.3f} to {lead.mean:.3f})"
    else:
        kept = one.scores[order[0]]["accuracy"].mean
        first = f"{order[0]} is most accurate ({lead.mean:.3f}; {kept:.3f} at {one.length})"
    best, worst = found[others[0]].mean, found[others[-1]].mean
    if len(others) == 1:
        return f"{first}, {others[0]} has {best:.3f}"
    return f"{first}, the others tested have {worst:.3f} to {best:.3f}"


def commonest_share(one: "DatasetSummary") -> float:
    """The accuracy of always naming the commonest class of the test windows; nan if not known."""
    counts = class_counts(one)
    return max(counts) / sum(counts) if counts else float("nan")


def class_counts(one: "DatasetSummary") -> list[int]:
    """Test windows of each class, over the runs of an encoding; empty if not known."""
    table = next(iter(one.confusion.values()), [])
    return [sum(row) for row in table]


def count_words(runs: int) -> str:
    """How many runs.

    >>> count_words(1), count_words(2)
    ('1 run', '2 runs')
    """
    return f"{runs} {agreeing(runs, 'run', 'runs')}"


def unreliable(one: "DatasetSummary", encoding: str) -> str:
    """What makes the scores other than they look."""
    if encoding in one.cut_short:
        more = one.way_out(encoding)
        return f"Its training was cut short, so there is no verdict on it; give more {more}."
    if one.leaky:
        return "Windows were shuffled, which leaks: the scores do not carry over to new data."
    diverged = one.diverged.get(encoding, 0)
    if diverged:
        return f"{diverged} of {one.runs[encoding]} runs diverged at once; try a smaller --rate."
    return ""


def mean_score(one: "DatasetSummary", encoding: str) -> str:
    """The mean F1, with its interval where there is one."""
    f1, over = one.scores[encoding]["f1"], count_words(one.counted(encoding))
    interval = (
        f" ({one.interval(encoding)} {f1.low:.3f} … {f1.high:.3f})" if f1.low < f1.high else ""
    )
    return f"It reaches F1 {f1.mean:.3f}{interval} over {over}."


def verdict_on(one: "DatasetSummary", encoding: str) -> str | None:
    """Whether the data tell an encoding from its reference, or why nobody can say; None of that."""
    if encoding not in one.differences:
        return None
    return told_from_reference(one, encoding) or unreliable(one, encoding)


def told_from_reference(one: "DatasetSummary", encoding: str) -> str:
    """Whether the data tell it from its reference."""
    if encoding in one.cut_short:
        return ""
    other = one.differences[encoding].reference if encoding in one.differences else ""
    if other in one.cut_short:
        return said("reference cut short", other=other, more=one.way_out(other))
    if encoding not in one.differences:
        return "The others are compared with it." if one.differences else ""
    d = one.differences[encoding]
    numbers = f"difference {d.mean:+.3f}, Holm p {number(float(d.p_holm), 2)}"
    if d.supported:
        where = " on these windows; others may differ" if d.in_doubt else ""
        better = "better" if d.mean > 0 else "worse"
        return f"That is {better} than {d.reference}{where} ({numbers})."
    if too_few_runs(one, encoding):
        none = f"no difference from {d.reference} can be significant ({numbers})"
        if {encoding, d.reference} & {*BESIDE}:
            once = f"With one run in each of {one.folds} folds {none}; more --seeds add none"
            return f"{once}, more --resamples of data with a test part do."
        more = f"--seeds {more_seeds(one)} or more"
        return f"With so few runs {none}; give {more}, or --resamples of data with a test part."
    alike = f"It does not differ significantly from {d.reference}"
    return f"{alike} ({numbers}){exclusion(one, encoding)}{by_auprc(one, encoding)}."


def too_few_runs(one: "DatasetSummary", encoding: str) -> bool:
    """Whether so few runs could give no adjusted p below .05."""
    return len(one.differences) * one.differences[encoding].p_floor > LEVEL


def more_seeds(one: "DatasetSummary") -> int:
    """The --seeds of which some adjusted p can fall below .05."""
    return -(-fewest_runs(len(one.differences)) // one.folds)


def verdict_word(one: "DatasetSummary", encoding: str) -> str:
    """The verdict on a difference, in a word or two of a table."""
    d = one.differences[encoding]
    if one.leaky or {encoding, d.reference} & {*one.cut_short}:
        whose = "" if encoding in one.cut_short else "reference "
        return "leaky split" if one.leaky else f"{whose}cut short"
    if d.supported:
        return f"{'better' if d.mean > 0 else 'worse'}{' here' if d.in_doubt else ''}"
    if too_few_runs(one, encoding):
        return "too few runs"
    auprc = one.auprc_differences[encoding]
    by = f"{'better' if auprc.mean > 0 else 'worse'} by AUPRC"
    return by if auprc.supported else "not significant"


def by_auprc(one: "DatasetSummary", encoding: str) -> str:
    """What a difference in AUPRC adds, where the data support it."""
    d = one.auprc_differences[encoding]
    if not d.supported:
        return ""
    better = "better" if d.mean > 0 else "worse"
    return f"; by AUPRC it is {better} ({d.mean:+.3f}, Holm p {number(float(d.p_holm), 2)})"


def goes_on(one: "DatasetSummary", encoding: str) -> str:
    """Its accuracy on longer windows than those of training, where it was tested there."""
    every = one.lengths.get(encoding, ())
    known = [at for at in every if not at.reason]
    if not known:
        return f"On longer windows it cannot be tested: {every[0].reason}." if every else ""
    each = ", ".join(f"{at.accuracy.mean:.3f} on {at.length}" for at in known)
    return f"Trained on {one.length} rows, its accuracy is {each}."


def exclusion(one: "DatasetSummary", encoding: str) -> str:
    """Which differences the runs exclude, where they spread."""
    could = one.power.get(encoding)
    if could is None or could.excluded != could.excluded:
        return ""
    beyond = could.folds_excluded
    over = "" if beyond != beyond else f", over folds ±{beyond:.3f}"
    return f"; differences beyond ±{could.excluded:.3f}{over} are ruled out"
