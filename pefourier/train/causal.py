"""Which encoding goes on in a causal model? Next tokens, trained on short problems, tested on long.

Conventions
-----------
The transformer of the comparison with a causal mask, its head at every token; `none` is then NoPE
(Kazemnejad et al., 2023), which can count what it has seen. Loss and scores are of the answer's
tokens alone. An answer is right where every token is the likeliest one given those before it, which
is what greedy decoding gives. Weights and batches are those of a seed, for all encodings the same;
the encodings of a seed are trained together, and results.json is written after each seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.answers.page import Page, flattened, plain
from pefourier.answers.text import agreeing, aligned, markdown_table, paragraph
from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, printable, shown, unknown
from pefourier.explained import Explained
from pefourier.files import reason, write_whole
from pefourier.train import grid, loop, schema, statistics
from pefourier.train.apply import apply_classifier
from pefourier.train.data.sequences import KEYS, TASKS, draw_problems, draw_task, tokens_of
from pefourier.train.extrapolation import lengthen, parse_lengths
from pefourier.train.metrics import share_exact
from pefourier.train.model import Transformer
from pefourier.train.options import LEVEL, WITHOUT_CODES, Options
from pefourier.train.progress import Note, report_progress
from pefourier.train.statistics import Difference, Mean
from pefourier.train.store import write_json
from pefourier.train.summary import LengthScores, cell

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


@dataclass(frozen=True)
class CausalTask(Explained):
    """A task: exact matches of each encoding at the length of training and at others."""

    dataset: str
    length: int  # of problems in training, at most
    seeds: int
    scores: dict[str, dict[str, Mean]]  # encoding → accuracy → mean, at that length
    lengths: dict[str, tuple[LengthScores, ...]]
    differences: dict[str, Difference]  # from NoPE, at the longest length
    minutes: float  # of training


@dataclass(frozen=True)
class CausalSummary(Explained):
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
            flag = (one.metadata["flags"] or (f"--{one.name.replace('_', '-')}",))[-1]
            raise PefourierError(f"--causal goes without {flag}; leave it out")
    for spec in options.encoding:
        if spec in WITHOUT_CODES or grid.AT_RMS in spec:
            raise PefourierError(f"--causal has no {shown(spec)}; name encodings as they are")
    if options.seeds < 1:
        raise PefourierError(f"--seeds must be 1 or more; got {options.seeds}")
    names = [read_task(name)[0] for name in options.dataset]
    for flag, given in (("--dataset", names), ("-e", options.encoding)):
        if len(set(given)) < len(given):
            twice = next(name for name in given if given.count(name) > 1)
            raise PefourierError(f"{flag} {shown(twice)} is given twice; name it once")


def run_causal(options: Options, note: Note | None = None) -> CausalSummary:
    """Train each encoding on short problems and test it on long ones."""
    from pefourier.train.run import choose_device

    default = Options()
    if options.dataset == default.dataset:
        options = replace(options, dataset=("copy",))
    if options.encoding == default.encoding:
        options = replace(options, encoding=ENCODINGS)
    check_causal(options)
    tasks = [read_task(name) for name in options.dataset]
    asked = parse_lengths(options.test_length)
    lengths = [asked or (2 * length, 4 * length) for _, length, _ in tasks]
    for (task, _, _), own in zip(tasks, lengths, strict=True):
        if task == "recall" and max(own) > KEYS:
            raise PefourierError(f"recall has {KEYS} keys, so that --test-length ends there")
        if max(own) > LONGEST:  # scores of all pairs of tokens are held
            raise PefourierError(
                f"--causal tests problems of at most {LONGEST}; got --test-length {max(own)}"
            )
    out = Path(options.out) if options.out is not None else None
    every = rows_before(out, options)
    device = choose_device(options.device)
    for (name, length, count), own in zip(tasks, lengths, strict=True):
        task = draw_task(name, length, count)
        sizes = {"d": options.d, "heads": options.heads, "layers": options.layers}
        classes = len(task.classes)
        model = Transformer(task.length, classes, classes, **sizes, ffn=options.ffn, causal=True)
        _, steps = loop.batch_and_steps(task, options.batch_size)
        schedule = grid.schedule_of(options, steps)
        done = {(row["encoding"], row["seed"]) for row in every if row["dataset"] == name}
        wanted = [
            [spec for spec in options.encoding if (spec, seed) not in done]
            for seed in range(options.seeds)
        ]
        held = loop.put_on_device(task, device)
        runs = sum(map(len, wanted))
        with report_progress(runs * schedule.epochs, count, 1, note) as reporter:
            reporter.epochs = schedule.epochs
            for seed, specs in enumerate(wanted):
                if not specs:
                    continue
                injections = [grid.load_for(model, e, seed, options.learn) for e in specs]
                members = [
                    loop.Member(spec, one, seed, 0, number=number)
                    for number, (spec, one) in enumerate(zip(specs, injections, strict=True))
                ]
                outcomes = loop.fit(held, model, members, schedule, reporter.count_epoch)
                for outcome in sorted(outcomes, key=lambda one: one.member.number):
                    every += measure_outcome(name, (length, *own), model, outcome, options)
                if out is not None:
                    write_results(out, every, options)
    found = summarize_causal([row for row in every if is_asked(row, options)], options)
    if out is not None:
        write_causal(out, found)
    return found


def is_asked(row: Mapping[str, Any], options: Options) -> bool:
    """Whether a run is one of those that are asked for now."""
    names = {read_task(name)[0] for name in options.dataset}
    return (
        row["dataset"] in names
        and row["encoding"] in options.encoding
        and row["seed"] < options.seeds
    )


def rows_before(out: Path | None, options: Options) -> list[dict[str, Any]]:
    """Runs of --out, which --resume goes on from; refused where they were trained otherwise."""
    if out is None or not (out / RESULTS).exists():
        return []
    if not options.resume:
        raise PefourierError(f"{out} holds results already; add --resume or choose another --out")
    training, rows = read_results(out)
    now, by_default = (plain(kept_options(one)) for one in (options, Options()))
    for key in sorted(KEPT - ANEW):
        was = training.get(key, by_default[key])
        if was != now[key]:
            raise PefourierError(
                f"--resume: {out / RESULTS} has {key} {shown(was)}, now it is "
                f"{shown(now[key])}; give the same or choose another --out"
            )
    sizes = {read_task(name)[0]: name for name in options.dataset}
    for name in training["dataset"]:
        if sizes.get(read_task(name)[0], name) != name:
            raise PefourierError(
                f"--resume: {out / RESULTS} has {shown(name)}; give the same or choose another "
                "--out"
            )
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
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in training.items()}
    options = Options(**given)
    own = [row for row in rows if is_asked(row, options)]
    seeds = min(
        (1 + max(row["seed"] for row in own if (row["dataset"], row["encoding"]) == key))
        for key in {(row["dataset"], row["encoding"]) for row in own}
    )
    return summarize_causal(
        [row for row in own if row["seed"] < seeds], replace(options, seeds=seeds)
    )


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
        every: dict[str, dict[int, list[dict[str, Any]]]] = {}
        for row in own:
            every.setdefault(row["encoding"], {}).setdefault(row["length"], []).append(row)
        at = {e: tuple(mean_at(n, by[n]) for n in lengths) for e, by in every.items()}
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


def mean_at(length: int, rows: Sequence[Mapping[str, Any]]) -> LengthScores:
    """The mean over seeds at a length, or why there is none."""
    if rows[0]["reason"]:
        return LengthScores(length, None, None, None, rows[0]["reason"])
    exact = statistics.interval(np.array([row["exact"] for row in rows]))
    return LengthScores(length, None, exact, None)


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
        seeds = f"{one.seeds} {agreeing(one.seeds, 'seed', 'seeds')}"
        title = (
            f"{one.dataset}: share of answers that are right (exact match), mean [95 %] over "
            f"{seeds}"
        )
        if one.minutes:
            minutes = max(1, round(one.minutes))
            title += f"; {minutes} {agreeing(minutes, 'minute', 'minutes')} of training"
        parts.append((title, [head, *body]))
    return parts


def conclude_causal(one: CausalTask) -> str:
    """Which encodings go on where training ended, in a sentence or two."""
    longest = {e: every[-1] for e, every in one.lengths.items()}
    known = {e: at.accuracy for e, at in longest.items() if at.accuracy is not None}
    learned = [e for e in one.scores if one.scores[e]["accuracy"].mean >= 0.9]
    where = f"{one.dataset}, trained on problems of up to {one.length}"
    if not learned:
        return f"{where}: no encoding solves even those it was trained on; give more --steps."
    parts = [f"{where}, tested on {next(iter(longest.values())).length}:"]
    unready = [e for e in one.scores if e not in learned]
    if known:
        order = sorted(known, key=lambda e: -known[e].mean)
        scores = ", ".join(f"{e} {known[e].mean:.3f}" for e in order)
        best = known[order[0]].mean
        parts.append(
            f"{order[0]} does best ({scores})."
            if best >= 0.1
            else f"no encoding solves them ({scores})."
        )
    nearest = {e: every[0] for e, every in one.lengths.items() if every[0].accuracy}
    on = sorted(
        (e for e, at in nearest.items() if at.accuracy.low > 0), key=lambda e: -scored(nearest[e])
    )
    if nearest and len(next(iter(one.lengths.values()))) > 1:
        some = ", ".join(f"{e} {scored(nearest[e]):.3f}" for e in on)
        which = f"only {some} get any right" if on else "none gets any right"
        parts.append(f"Of length {next(iter(nearest.values())).length} {which}.")
    if unready:
        parts.append(
            f"{', '.join(unready)} had not learned the length of training (below .9); more --steps "
            "may change that."
        )
    for name, at in longest.items():
        if at.reason:
            parts.append(f"{name} cannot be tested there: {at.reason}.")
    apart = [e for e, d in one.differences.items() if d.supported]
    if known and one.differences:
        which = ", ".join(apart) if apart else "No encoding"
        differ = agreeing(max(len(apart), 1), "differs", "differ")
        parts.append(f"{which} {differ} significantly from {NOPE} (NoPE).")
    floors = [d.p_floor * len(one.differences) for d in one.differences.values()]
    if max(floors, default=0.0) > LEVEL:
        parts.append("With so few seeds .05 is out of reach.")
    return " ".join(parts)


def scored(at: LengthScores) -> float:
    """The mean share of answers that are right at a length."""
    return at.accuracy.mean


def causal_page(found: CausalSummary) -> Page:
    """The answer of `pefourier train --causal`."""
    said = [conclude_causal(one) for one in found.datasets]
    return Page(
        "train",
        words=lambda: "\n".join(
            paragraph(title) + aligned([list(map(printable, row)) for row in rows])
            for title, rows in tables_of(found)
        ),
        records=lambda: causal_records(found),
        rows=lambda: flattened(causal_records(found)),
        conclusion=lambda: "".join(paragraph(printable(line)) for line in said),
        together=lambda: " ".join(said),
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
        parts += [conclude_causal(one), "", f"## {title}", "", markdown_table(rows), ""]
    return "\n".join(parts)


def write_results(out: Path, rows: Sequence[dict[str, Any]], options: Options) -> None:
    """Write results.json, whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / RESULTS, {"training": plain(kept_options(options)), "runs": list(rows)})


def write_causal(out: Path, found: CausalSummary) -> None:
    """Write summary.json, summary.md and a figure."""
    from pefourier.answers import plot
    from pefourier.answers import training_figures as figures

    write_json(out / "summary.json", plain({"results": causal_records(found)}))
    text = causal_markdown(found).encode()
    write_whole(str(out / "summary.md"), lambda stream: stream.write(text))
    plot.save(str(out / "lengths.png"), figures.exact_by_length, found)
