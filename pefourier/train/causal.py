"""Which encoding goes on in a causal model? Next tokens, trained on short problems, tested on long.

Conventions
-----------
The transformer of the comparison with a causal mask, its head at every token; `none` is then NoPE
(Kazemnejad et al., 2023), which can count what it has seen. Loss and scores are of the answer's
tokens alone. An answer is right where every token is the likeliest one given those before it, which
is what greedy decoding gives. Weights and batches are those of a seed, for all encodings the same;
the encodings of a seed are trained together, and results.json is written after each seed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.encodings.checks import check_count
from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown, unknown
from pefourier.files import reason, write_whole
from pefourier.train import grid, loop, schema, statistics
from pefourier.train.apply import apply_classifier
from pefourier.train.asked import AT_RMS, Schedule, check_named_once, parse_lengths, schedule_of
from pefourier.train.data.sequences import KEYS, TASKS, draw_problems, draw_task, guessed, tokens_of
from pefourier.train.data.split import Task
from pefourier.train.extrapolation import lengthen
from pefourier.train.metrics import share_exact
from pefourier.train.model import Transformer
from pefourier.train.options import LEVEL, WITHOUT_CODES, Options, flag_of
from pefourier.train.processes import read_options
from pefourier.train.progress import Note, report_progress
from pefourier.train.report import cell, in_time, said, tables_in_words, three_decimals
from pefourier.train.statistics import Difference, Mean
from pefourier.train.store import check_same, write_json
from pefourier.train.summary import LengthScores, mean_at_length
from pefourier.writing.escapes import in_markdown, printable
from pefourier.writing.page import Page, flattened, plain
from pefourier.writing.text import agreeing, markdown_table, paragraph

NOPE = "none"
LENGTH, COUNT, TESTED = 8, 4000, 200  # of training, of problems, of those of a test
LONGEST = 512  # of a test
ENCODINGS = (NOPE, "sinusoidal", "rope", "alibi", "t5:buckets=16,max_distance=12", "learned")
KEPT = frozenset(  # in results.json
    "dataset encoding seeds steps epochs patience_steps patience batch_size rate code_rate warmup "
    "weight_decay dropout d heads layers ffn learn device test_length causal".split()
)
USED = KEPT | {"out", "resume"}
ANEW = {"dataset", "encoding", "seeds", "device"}  # may be others where a folder goes on
RESULTS = "results.json"
LEARNED = 0.9  # of answers at the length of training that are right
Row = dict[str, Any]  # a run at a length


@dataclass(frozen=True)
class CausalTask:
    """A task: exact matches of each encoding at the length of training and at others."""

    dataset: str
    length: int  # of problems in training, at most
    seeds: int
    scores: dict[str, dict[str, Mean]]  # encoding → accuracy → mean, at that length
    lengths: dict[str, tuple[LengthScores, ...]]
    differences: dict[str, Difference]  # from NoPE, at the longest length
    minutes: float  # of training


@dataclass(frozen=True)
class CausalSummary:
    """All tasks."""

    datasets: tuple[CausalTask, ...]
    runs: tuple[dict[str, Any], ...]
    training: Mapping[str, Any]


def read_task(name: str) -> tuple[str, int, int]:
    """Task, length and count of ``NAME:length=8,count=4000``."""
    task, _, text = name.partition(":")
    if task not in TASKS:
        raise unknown("task of --causal", task, TASKS)
    given = {"length": LENGTH, "count": COUNT}
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        if key not in given:
            raise unknown(f"parameter of {task}", key, given)
        given[key] = convert(f"{task}:{key}", value, int)
    if not (2 <= given["length"] <= KEYS and 20 <= given["count"] <= 10**6):
        raise PefourierError(
            f"{shown(name)}: length must be from 2 to {KEYS}, count from 20 to {10**6}"
        )
    return task, given["length"], given["count"]


def check_causal(options: Options) -> None:
    """Refuse options that a causal comparison does not go by."""
    for one in fields(Options):
        if one.name not in USED and getattr(options, one.name) != one.default:
            raise PefourierError(f"--causal goes without {flag_of(one.name)}; leave it out")
    for spec in options.encoding:
        if spec in WITHOUT_CODES or AT_RMS in spec:
            raise PefourierError(f"--causal has no {shown(spec)}; name encodings as they are")
    check_count("--seeds", options.seeds)
    names = [read_task(name)[0] for name in options.dataset]
    check_named_once({"--dataset": names, "-e": options.encoding})
    for task, length, _ in map(read_task, options.dataset):
        most = max(lengths_tested(options, length))
        if task == "recall" and most > KEYS:
            raise PefourierError(f"recall has {KEYS} keys, so that --test-length ends there")
        if most > LONGEST:  # scores of all pairs of tokens are held
            raise PefourierError(
                f"--causal tests problems of at most {LONGEST}; got --test-length {most}"
            )


def lengths_tested(options: Options, length: int) -> tuple[int, ...]:
    """Lengths of the problems of tests, beside that of training."""
    return parse_lengths(options.test_length) or (2 * length, 4 * length)


def settle_causal(options: Options) -> Options:
    """What is asked, with the task and the encodings of a causal comparison where none is named."""
    dataset = ("copy",) if options.dataset == Options.dataset else options.dataset
    encoding = ENCODINGS if options.encoding == Options.encoding else options.encoding
    options = replace(options, dataset=dataset, encoding=encoding)
    check_causal(options)
    return options


def run_causal(options: Options, note: Note | None = None) -> CausalSummary:
    """Train each encoding on short problems and test it on long ones."""
    from pefourier.train.run import choose_device

    options = settle_causal(options)
    out = Path(options.out) if options.out is not None else None
    every, device = rows_before(out, options), choose_device(options.device)
    for name in options.dataset:
        for rows in train_task(name, options, every, device, note):
            every += rows
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                kept = {"training": plain(kept_options(options)), "runs": every}
                write_json(out / RESULTS, kept)
    found = summarize_causal([row for row in every if is_asked(row, options)], options)
    if out is not None:
        write_causal(out, found)
    return found


@dataclass(frozen=True)
class CausalWork:
    """A task with what is to be trained on it."""

    task: Task
    lengths: tuple[int, ...]  # of problems: those of training, and others
    model: Transformer
    schedule: Schedule
    members: dict[int, list[loop.Member]]  # of each seed, those that are not there before

    @property
    def runs(self) -> int:
        """Trainings that are to be done."""
        return sum(map(len, self.members.values()))


def plan_work(given: str, options: Options, before: Sequence[Row]) -> CausalWork:
    """What is to be trained on a task beside the runs that are there before."""
    name, length, count = read_task(given)
    task, lengths = draw_task(name, length, count), (length, *lengths_tested(options, length))
    sizes = {key: getattr(options, key) for key in ("d", "heads", "layers", "ffn")}
    classes = len(task.classes)
    model = Transformer(task.length, classes, classes, **sizes, causal=True)
    schedule = schedule_of(options, loop.batch_and_steps(task, options.batch_size)[1])
    done = {(row["encoding"], row["seed"]) for row in before if row["dataset"] == name}
    members = {}
    for seed in range(options.seeds):
        wanted = [e for e in options.encoding if (e, seed) not in done]
        members[seed] = [
            loop.Member(e, grid.load_for(model, e, seed, options.learn), seed, 0, number=i)
            for i, e in enumerate(wanted)
        ]
    return CausalWork(task, lengths, model, schedule, members)


def train_task(
    given: str, options: Options, before: Sequence[Row], device: torch.device, note: Note | None
) -> Iterator[list[Row]]:
    """The runs of each seed that are not there before, one seed after another."""
    work = plan_work(given, options, before)
    held, epochs = loop.put_on_device(work.task, device), work.schedule.epochs
    trained = len(work.task.folds[0].train)
    with report_progress(work.runs * epochs, trained, 1, note) as reporter:
        reporter.epochs = epochs
        for members in filter(None, work.members.values()):
            outcomes = loop.fit(held, work.model, members, work.schedule, reporter.count_epoch)
            ordered = sorted(outcomes, key=lambda one: one.member.number)
            tested = (
                measure_outcome(work.task.name, work.lengths, work.model, one, options)
                for one in ordered
            )
            yield [row for rows in tested for row in rows]


def is_asked(row: Mapping[str, Any], options: Options) -> bool:
    """Whether a run is one of those that are asked for now."""
    names = {read_task(name)[0] for name in options.dataset}
    named = row["dataset"] in names and row["encoding"] in options.encoding
    return named and row["seed"] < options.seeds


def rows_before(out: Path | None, options: Options) -> list[dict[str, Any]]:
    """Runs of --out, which --resume goes on from; refused where they were trained otherwise."""
    if out is None or not (out / RESULTS).exists():
        return []
    if not options.resume:
        raise PefourierError(f"{out} holds results already; add --resume or choose another --out")
    training, rows = read_results(out)
    check_same(out / RESULTS, training, plain(kept_options(options)), KEPT - ANEW)
    sizes = {read_task(name)[0]: name for name in options.dataset}
    known = {task: name for name in training["dataset"] if (task := read_task(name)[0]) in sizes}
    check_same(out / RESULTS, known, sizes, known)
    return rows


def read_results(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a causal comparison has left: how it trained, and its runs."""
    path = folder / RESULTS
    try:
        content = schema.parse_json(path.read_bytes())
        schema.check_causal_results(content, KEPT)
    except OSError as error:
        raise PefourierError(f"{shown(str(path))}: {reason(error)}") from error
    except ValueError as error:
        raise PefourierError(
            f"{shown(str(path))} was not written by pefourier train --causal: {error}"
        ) from error
    return content["training"], content["runs"]


def read_causal(folder: Path) -> CausalSummary:
    """The answer of a folder, of its finished seeds."""
    training, rows = read_results(folder)
    options = read_options(training)
    own = [row for row in rows if is_asked(row, options)]
    last = {(row["dataset"], row["encoding"]): row["seed"] for row in own}
    options = replace(options, seeds=1 + min(last.values()))
    return summarize_causal([row for row in own if row["seed"] < options.seeds], options)


def kept_options(options: Options) -> dict[str, Any]:
    """What results.json says of training."""
    return {key: value for key, value in asdict(options).items() if key in KEPT}


def measure_outcome(
    name: str, lengths: Sequence[int], model: Transformer, outcome: loop.Outcome, options: Options
) -> list[dict[str, Any]]:
    """Exact matches of a run on problems of each length, or why there are none."""
    member, found = outcome.member, []
    for length in lengths:
        longer = replace(model, length=tokens_of(name, length))
        row = {"dataset": name, "encoding": member.encoding, "seed": member.seed}
        row |= {"trained": lengths[0], "length": length, "exact": None, "reason": ""}
        row |= {"epoch": outcome.epoch, "seconds": round(outcome.seconds, 1)}
        try:
            injection = grid.load_for(longer, member.encoding, member.seed, options.learn)
            injection = lengthen(outcome, injection, longer.tokens)
            x, y = draw_problems(name, np.full(TESTED, length), length, 2 + length)
            logits = apply_classifier(longer, outcome.parameters, injection, x)
            row["exact"] = share_exact(logits, y)
        except PefourierError as error:
            row["reason"] = str(error)
        found.append(row)
    return found


def summarize_causal(rows: Sequence[dict[str, Any]], options: Options) -> CausalSummary:
    """Means over seeds, and differences from NoPE at the longest length."""
    tasks = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        lengths = list(dict.fromkeys(row["length"] for row in own))
        every: dict[str, dict[int, list[Row]]] = {}
        for row in own:
            every.setdefault(row["encoding"], {}).setdefault(row["length"], []).append(row)
        at = {
            e: tuple(mean_at_length(n, by[n], ("exact",)) for n in lengths)
            for e, by in every.items()
        }
        longest = {
            e: np.array([row["exact"] for row in by[max(lengths)]])
            for e, by in every.items()
            if not by[max(lengths)][0]["reason"]
        }
        others = {e: NOPE for e in longest if e != NOPE} if NOPE in longest else {}
        seeds = np.zeros(options.seeds, dtype=int)
        tasks.append(
            CausalTask(
                dataset=name,
                length=lengths[0],
                seeds=options.seeds,
                scores={e: {"accuracy": one[0].accuracy} for e, one in at.items()},
                lengths={e: one[1:] for e, one in at.items()},
                differences=statistics.paired_differences(longest, others, seeds),
                minutes=sum(r.get("seconds", 0) for r in own if r["length"] == lengths[0]) / 60,
            )
        )
    return CausalSummary(tuple(tasks), tuple(rows), kept_options(options))


def tables_of(found: CausalSummary) -> list[tuple[str, list[list[str]]]]:
    """A title and a table for each task: exact matches by length."""
    parts = []
    for one in found.datasets:
        lengths = [at.length for at in next(iter(one.lengths.values()))]
        head = ["encoding", f"{one.length} (trained)", *map(str, lengths), f"less {NOPE}", "Holm p"]
        body = []
        for name, every in one.lengths.items():
            d = one.differences.get(name)
            told = [f"{d.mean:+.3f}", f"{d.p_holm:.3g}"] if d else ["–", "–"]
            cells = ["–" if at.accuracy is None else cell(at.accuracy) for at in every]
            body.append([name, cell(one.scores[name]["accuracy"]), *cells, *told])
        chances = (three_decimals(guessed(one.dataset, n)) for n in (one.length, *lengths))
        body.append(["(guessing)", *chances, "–", "–"])
        title = f"{one.dataset}: share of answers that are right (exact match), mean [95 %] over "
        title += f"{one.seeds} {agreeing(one.seeds, 'seed', 'seeds')}"
        if one.minutes:
            title += f"; {in_time(60 * one.minutes)} of training"
        parts.append((title, [head, *body]))
    return parts


def conclude_causal(one: CausalTask) -> str:
    """Which encodings go on where training ended, in a sentence or two."""
    where = f"{one.dataset}, trained on problems of up to {one.length}"
    unready = [e for e, scores in one.scores.items() if scores["accuracy"].mean < LEARNED]
    untested = [
        f"{name} cannot be tested on {every[-1].length}: {every[-1].reason}."
        for name, every in one.lengths.items()
        if every[-1].reason
    ]
    lengths = [at.length for at in next(iter(one.lengths.values()))]
    solved = [means_at(one, place) for place in range(len(lengths))]
    if len(unready) == len(one.scores):
        none = f"{where}: no encoding solves even those it was trained on; give more --steps."
        return " ".join([none, *untested])
    parts = [f"{where}, tested on {lengths[-1]}:"]
    if solved[-1]:
        best, guess = max(solved[-1], key=solved[-1].get), guessed(one.dataset, lengths[-1])
        does, scores = f"{best} does best", listed_means(solved[-1])
        if max(solved[-1][best], guess) < 0.1:
            does = "no encoding solves them"
        elif solved[-1][best] <= guess + 3 * (guess * (1 - guess) / TESTED) ** 0.5:  # three sigma
            does = "no encoding does better than guessing"
        parts.append(f"{does} ({scores}; guessing {guess:.3f}).")
    if solved[0] and len(lengths) > 1:
        some = listed_means({e: mean for e, mean in solved[0].items() if mean > 0})
        which = f"only some answers are right ({some})" if some else "no answer is right"
        parts.append(f"Of length {lengths[0]} {which}.")
    if unready:
        parts.append(said("unready", encodings=", ".join(unready), least=LEARNED))
    parts += untested
    apart = [e for e, d in one.differences.items() if d.supported]
    if one.differences:
        which = ", ".join(apart) if apart else "No encoding"
        differ = agreeing(max(len(apart), 1), "differs", "differ")
        parts.append(f"{which} {differ} significantly from {NOPE} (NoPE).")
    floors = [d.p_floor * len(one.differences) for d in one.differences.values()]
    if max(floors, default=0.0) > LEVEL:
        parts.append("With so few seeds p cannot fall below .05.")
    return " ".join(parts)


def means_at(one: CausalTask, place: int) -> dict[str, float]:
    """The mean share of right answers at a length, of encodings that can be tested there."""
    known = {e: every[place].accuracy for e, every in one.lengths.items()}
    return {e: mean.mean for e, mean in known.items() if mean is not None}


def listed_means(means: Mapping[str, float]) -> str:
    """Encodings with their means, the best first."""
    return ", ".join(f"{e} {means[e]:.3f}" for e in sorted(means, key=lambda e: -means[e]))


def causal_page(found: CausalSummary) -> Page:
    """The answer of `pefourier train --causal`."""
    told = [conclude_causal(one) for one in found.datasets]
    return Page(
        "train",
        words=lambda: tables_in_words(tables_of(found)),
        records=lambda: causal_records(found),
        rows=lambda: flattened(causal_records(found)),
        conclusion=lambda: "".join(paragraph(printable(line)) for line in told),
        together=lambda: " ".join(told),
    )


def causal_records(found: CausalSummary) -> list[dict[str, Any]]:
    """The answer for JSON: one record for each task and encoding."""
    return [
        {
            "dataset": one.dataset,
            "encoding": name.partition(":")[0],
            "spec": name,
            "conclusion": conclude_causal(one),
            "training": found.training,
            "seeds": one.seeds,
            "length": one.length,
            "accuracy": asdict(one.scores[name]["accuracy"]),
            "lengths": [asdict(at) for at in every],
            "chance": guessed(one.dataset, every[-1].length),
            "difference": asdict(one.differences[name]) if name in one.differences else None,
            "minutes": one.minutes,
        }
        for one in found.datasets
        for name, every in one.lengths.items()
    ]


def causal_markdown(found: CausalSummary) -> str:
    """The answer as summary.md."""
    parts = ["# Encodings in a causal model", ""]
    for one, (title, rows) in zip(found.datasets, tables_of(found), strict=True):
        parts += [
            in_markdown(conclude_causal(one)),
            "",
            f"## {in_markdown(title)}",
            "",
            markdown_table(rows),
            "",
        ]
    return "\n".join(parts)


def write_causal(out: Path, found: CausalSummary) -> None:
    """Write summary.json, summary.md and a figure."""
    from pefourier.answers import plot
    from pefourier.answers import training_figures as figures

    write_json(out / "summary.json", plain({"results": causal_records(found)}))
    text = causal_markdown(found).encode()
    write_whole(str(out / "summary.md"), lambda stream: stream.write(text))
    plot.save(str(out / "lengths.png"), figures.exact_by_length, found)
