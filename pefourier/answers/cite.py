"""How is it told how to cite the program and the paper? The answer of `pefourier cite`."""

from pathlib import Path
from typing import Any

from pefourier.version import __version__
from pefourier.writing.page import Page
from pefourier.writing.text import paragraph

WRITTEN = Path(__file__).with_suffix(".bib").read_text(encoding="utf-8")
PROGRAM, PAPER = WRITTEN.replace("VERSION", __version__).split("\n\n")
PROGRAM += "\n"
ADVICE = (
    "Cite the program with its version, and the paper where you use its density (Eq. 15), its "
    "reconstruction (Algorithm 1) or its DFT encoding. 'pefourier list NAME' names the source of "
    "each encoding."
)


def citation_page() -> Page:
    """The answer of `pefourier cite`."""
    return Page(
        "cite",
        words=lambda: f"{PROGRAM}\n{PAPER}",
        records=lambda: [citation_record(text) for text in (PROGRAM, PAPER)],
        rows=lambda: [["key", "bibtex"], *map(citation_row, (PROGRAM, PAPER))],
        conclusion=lambda: paragraph(ADVICE),
    )


def citation_record(bibtex: str) -> dict[str, Any]:
    """The JSON object of a citation, which is about no encoding."""
    about = {"encoding": None, "spec": None, "params": {}, "conclusion": ADVICE}
    return about | {"key": entry_key(bibtex), "bibtex": bibtex}


def citation_row(bibtex: str) -> list[str]:
    """The row of CSV of a citation, in one line."""
    return [entry_key(bibtex), " ".join(bibtex.split())]


def entry_key(bibtex: str) -> str:
    """The key of a BibTeX entry.

    >>> entry_key("@article{ide2024faithful,")
    'ide2024faithful'
    """
    return bibtex.partition("{")[2].partition(",")[0]
