"""How is it told how to cite the program and the paper? The answer of `pefourier cite`."""

from typing import Any

from pefourier import __version__
from pefourier.answers.page import Page
from pefourier.answers.text import paragraph

PAPER = """\
@article{ide2024faithful,
  title = {Improving Transformers using Faithful Positional Encoding},
  author = {Id{\\'e}, Tsuyoshi and Labaien, Jokin and Chen, Pin-Yu},
  journal = {arXiv preprint arXiv:2405.09061},
  year = {2024},
}
"""
PROGRAM = f"""\
@software{{pefourier,
  title = {{pefourier: Fourier analysis of positional encodings}},
  author = {{{{The pefourier maintainers}}}},
  version = {{{__version__}}},
  license = {{MIT}},
}}
"""
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
        rows=lambda: [["key", "bibtex"], *([entry_key(text), text] for text in (PROGRAM, PAPER))],
        conclusion=lambda: paragraph(ADVICE),
    )


def citation_record(bibtex: str) -> dict[str, Any]:
    """The JSON object of a citation, which is about no encoding."""
    about = {"encoding": None, "spec": None, "params": {}, "conclusion": ADVICE}
    return about | {"key": entry_key(bibtex), "bibtex": bibtex}


def entry_key(bibtex: str) -> str:
    """The key of a BibTeX entry.

    >>> entry_key("@article{ide2024faithful,")
    'ide2024faithful'
    """
    return bibtex.partition("{")[2].partition(",")[0]
