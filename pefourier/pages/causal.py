"""What did a causal comparison show? One page of HTML about what `train --causal --out` left."""

import shlex
from pathlib import Path

from pefourier.answers.training_figures import exact_by_length
from pefourier.pages.document import Chapter, command, document, figure, markup_of_words
from pefourier.pages.encodings import page_written
from pefourier.train import causal
from pefourier.writing.page import Page


def causal_folder_page(path: str, out: str, title: str) -> tuple[str, Page]:
    """The page about a folder, and the answer of `pefourier report DIR`."""
    summary = causal.read_causal(Path(path))
    answer = causal.causal_page(summary)
    caption = "Exact matches by the length of the problem, with 95 % intervals over seeds."
    scores = [figure(exact_by_length, summary, caption), *markup_of_words(answer.words)]
    line = command(shlex.join(["pefourier", "report", path]))
    sections = [
        Chapter("Conclusions", markup_of_words(answer.conclusion)),
        Chapter("Exact matches", scores),
        Chapter("How these numbers were made", [line]),
    ]
    title = title or "Which encoding goes on where training ended?"
    return document(title, "", sections), page_written(causal.causal_records(summary), out)
