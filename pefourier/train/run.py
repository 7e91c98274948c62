"""The comparison from options to answer: `run_comparison` loads torch only after its checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING

from pefourier.train.options import Options
from pefourier.train.request import settle_options
from pefourier.train.store import Store, make_folder, read_rank, write_json
from pefourier.writing.files import write_text

if TYPE_CHECKING:
    from pefourier.train.ensembles import Note
    from pefourier.train.statistics import Summary


def run_comparison(
    options: Options,
    deliver: Callable[[Summary], None] | None = None,
    note: Note = str,
) -> Summary | None:
    """Train, score and compare; results are written to `out` during training.

    Only one rank returns the answer. `deliver` receives it before the summary files are written,
    which a full disk may prevent. `note` receives messages during training, one line at a time.
    """
    began = monotonic()
    options = settle_options(options)  # before torch is loaded, which takes seconds
    from pefourier.train import ensembles

    note = str if read_rank()[0] else note
    whole = ensembles.resolve(options, began, note)
    if options.save_models is not None:
        make_folder("--save-models", options.save_models)
    with whole.store.lock():
        try:
            result = ensembles.train_rank(whole, note)
            if result is not None:
                if deliver is not None:
                    deliver(result)
                write_summary(whole.store, result, options.plot)
        except KeyboardInterrupt:
            kept = "nothing is kept: use --out DIR to keep finished runs and --resume to continue"
            if (out := whole.store.path) is not None:
                kept = f"finished runs in {out}: {len(whole.store.rows())}; continue with --resume"
            note(kept)
            raise
    return result


def write_summary(store: Store, result: Summary, picture: str | None = None) -> None:
    """Write summary.json, summary.md, the figures, and the figure of --plot."""
    if picture is None and store.path is None:
        return
    from pefourier.report import plot, training_figures
    from pefourier.train.report import as_markdown
    from pefourier.writing.page import plain

    if picture is not None:
        plot.save(picture, training_figures.comparison, result)
    if store.path is None:
        return
    content = plain({k: v for k, v in asdict(result).items() if k != "runs"})
    write_json(store.path / "summary.json", content)
    write_text(str(store.path / "summary.md"), as_markdown(result))
    for name in training_figures.CAPTIONS:  # from earlier options
        (store.path / f"{name}.png").unlink(missing_ok=True)
    for name, draw in training_figures.pictures(result).items():
        plot.save(str(store.path / f"{name}.png"), draw, result)
