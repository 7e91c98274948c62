"""What did a causal comparison show? One page of HTML about what `train --causal --out` left."""

from pathlib import Path

from pefourier.answers.terms import read_terms
from pefourier.answers.training_figures import exact_by_length
from pefourier.pages import document
from pefourier.pages.encodings import page_written, versions_table
from pefourier.pages.inline_svg import INLINE_WIDE, draw_inline
from pefourier.pages.training import command_line, settings_table, stacked
from pefourier.train import causal
from pefourier.writing.escapes import printable
from pefourier.writing.page import Page


def causal_document(found: causal.CausalSummary, path: str, title: str = "") -> str:
    """The page about a folder."""
    words, tasks = document.Words(read_terms()), ", ".join(one.dataset for one in found.datasets)
    told = "Exact matches by the length of the problem, with 95 % intervals over seeds."
    scores = [draw_inline("lengths", told, exact_by_length, found, INLINE_WIDE)]
    for name, (head, *rows) in causal.tables_of(found):
        scores.append(document.details(name, stacked(name, head, rows, words)))
    made = [
        settings_table(found.training, words),
        document.command(command_line(found.training, path), "Trained by"),
        document.command(f"pefourier report {path}", "This page comes from"),
        versions_table(),
    ]
    conclusions = [document.element("p", causal.conclude_causal(one)) for one in found.datasets]
    parts = [
        document.Chapter("conclusions", "Conclusions", conclusions),
        document.Chapter("scores", "Exact matches", scores),
        document.Chapter("made", "How these numbers were made", made),
    ]
    lead = f"Causal models trained on short problems and tested on long ones, in {printable(path)}."
    title = title or f"Which encoding goes on where training ended: {tasks}"
    return document.document(title, document.element("p", lead, class_="quiet"), parts, words)


def causal_folder_page(path: str, out: str, title: str) -> tuple[str, Page]:
    """The page about a folder, and the answer of `pefourier report DIR`."""
    found = causal.read_causal(Path(path))
    return causal_document(found, path, title), page_written(causal.causal_records(found), out)
