"""The comparison from options to answer: `run_comparison`, whose other rooms load torch late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pefourier.errors import PefourierError, shown
from pefourier.train.options import Options, flag_of
from pefourier.train.request import check_options, name_once, without_new_folders
from pefourier.train.store import (
    NOT_NUMBERS,
    Store,
    read_configuration,
    stored_options,
    write_json,
)
from pefourier.writing.files import write_whole

if TYPE_CHECKING:
    from pefourier.train.progress import Note
    from pefourier.train.summary import Summary


def run_comparison(
    options: Options,
    deliver: Callable[[Summary], None] | None = None,
    note: Note | None = None,
) -> Summary | None:
    """Train, score and compare; results go to `out` as they come. Only one rank has the answer.

    `deliver` has it before the files that sum it up are written, which a full disk may prevent.
    `note` is given what to know meanwhile, a line at a time; without it nothing is shown.
    """
    options = settle_options(options)  # before torch is loaded, which takes seconds
    from pefourier.train import ensembles, ranks, work

    rank, count = ranks.read_rank()
    store = ensembles.store_of(options, rank, count)
    note = None if rank else note
    with without_new_folders(options.out), store.lock(), note_on_interrupt(store, note):
        whole = ensembles.resolve(options, rank, count)
        processes = ensembles.count_processes(whole, count)
        if processes > 1:
            single, is_noted = replace(options, processes=None), note is not None
            start = partial(work.start_rank, single, is_noted=is_noted)
            result = ranks.launch(processes, start)
        else:
            result = work.train_rank(whole, note)
        if result is not None:
            if deliver is not None:
                deliver(result)
            write_summary(store, result, options.plot)
    return result


def settle_options(options: Options) -> Options:
    """What is asked, with --resume as config.json says; what differs from it is refused by name."""
    check_options(options)
    options, out = name_once(options), options.out
    file = Path(out) / "config.json" if out is not None else None
    if not options.resume or file is None or not file.is_file():
        return options
    old = stored_options(read_configuration(file))
    default = name_once(Options())
    for name in (field.name for field in fields(Options)):
        value, was = getattr(options, name), getattr(old, name)
        if name not in {*NOT_NUMBERS, "device"} and value not in (getattr(default, name), was):
            raise PefourierError(
                f"--resume: {file} has {name} {shown(was)}; leave {flag_of(name)} out, or choose "
                f"another --out for {shown(value)}"
            )
    here = {name: getattr(options, name) for name in (*NOT_NUMBERS, "device")}
    resumed = replace(old, **here)
    check_options(resumed)
    return resumed


@contextmanager
def note_on_interrupt(store: Store, note: Note | None) -> Iterator[None]:
    """Say what Ctrl-C leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        if note is not None and store.path is None:
            note("nothing is kept: --out DIR keeps what is finished, and --resume goes on")
        elif note is not None:
            note(f"finished runs in {store.path}: {len(store.rows())}; --resume goes on")
        raise


def write_summary(store: Store, result: Summary, picture: str | None = None) -> None:
    """Write summary.json, summary.md and the figures, and the picture that is named."""
    if picture is None and store.path is None:
        return
    from pefourier.report import plot, training_figures
    from pefourier.train.report import as_markdown
    from pefourier.train.run_artifacts import read_curves
    from pefourier.writing.page import plain

    if picture is not None:
        plot.save(picture, training_figures.comparison, result)
    if store.path is None:
        return
    content = plain({k: v for k, v in asdict(result).items() if k != "runs"})
    write_json(store.path / "summary.json", content)
    text = as_markdown(result).encode()
    write_whole(str(store.path / "summary.md"), lambda stream: stream.write(text))
    for name in ("critical-difference", "lengths", "curves"):  # maybe of what was asked before
        (store.path / f"{name}.png").unlink(missing_ok=True)
    curves = read_curves(store.path, result.runs)
    for name, (draw, answers, _) in training_figures.pictures(result, curves).items():
        plot.save(str(store.path / f"{name}.png"), draw, answers)
