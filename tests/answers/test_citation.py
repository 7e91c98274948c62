"""What is cited: the same facts as BibTeX for people and as CFF for machines."""

import re
from pathlib import Path

import pefourier
from pefourier import __version__
from pefourier.answers.cite import PAPER, PROGRAM

CFF = (Path(pefourier.__file__).parent / "CITATION.cff").read_text(encoding="utf-8")


def test_cite_tells_both_entries(run):
    done = run("cite")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Cite the program with its version")
    assert done.out.endswith(f"\n\n{PROGRAM}\n{PAPER}")
    assert [one["key"] for one in run("cite", "--json").results] == ["pefourier", "ide2024faithful"]
    assert run("cite", "--csv").out.count("@") == 2


def test_the_cff_has_the_same_facts():
    facts = dict(re.findall(r'^(\S+): "?(.*?)"?$', CFF, re.MULTILINE))
    assert facts["version"] == __version__
    assert f"title = {{{facts['title']}}}" in PROGRAM
    assert f"license = {{{facts['license']}}}" in PROGRAM
    names = re.findall(r"family-names: (\S+)\n\s+given-names: (\S+)", CFF)
    authors = " and ".join(f"{family}, {given}" for family, given in names)
    assert f"author = {{{authors}}}" in PAPER.replace("{\\'e}", "é")
    (title,) = re.findall(r"^    title: (.+)$", CFF, re.MULTILINE)
    assert f"title = {{{title}}}" in PAPER
    assert "arXiv:2405.09061" in CFF
    assert "arXiv:2405.09061" in PAPER


def test_the_change_log_begins_with_this_version():
    log = (Path(pefourier.__file__).parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+?),? ", log, re.MULTILINE)[1].rstrip(",") == __version__
