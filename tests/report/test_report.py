"""Answers in words: the conclusion first, and a reason wherever a number is missing."""

import io
import json
import sys

import numpy as np
import pytest

from pefourier.writing.text import paragraph


def test_every_spec_has_its_paragraph_before_the_numbers(run):
    for command, first in (("spectrum", ""), ("reconstruct", "encoding"), ("check-faithful", "")):
        out = run(command, "sinusoidal", "dft", "rope").out
        conclusion, _, numbers = out.partition("\n\n")
        begins = [line.partition(":")[0] for line in conclusion.splitlines() if line[0] != " "]
        assert begins[:3] == ["sinusoidal", "dft", "rope"]
        assert len(begins) == 3
        assert numbers.split("  ")[0] == first
        answer = json.loads(run(command, "sinusoidal", "dft", "rope", "--json").out)
        told = [f"{r['spec']}: {r['conclusion']}" for r in answer["results"]]
        assert conclusion.split() == " ".join(told).split()


def test_encode_says_what_was_written(run, tmp_path):
    out = tmp_path / "codes.npy"
    done = run("encode", "dft", "--d", 8, "-S", 3, "--out", out)
    (record,) = run("encode", "dft", "--d", 8, "-S", 3, "--out", out, "--json").results
    conclusion, _, rest = done.out.partition("\n\n")
    assert " ".join(conclusion.split()) == f"dft: {record['conclusion']}"
    assert (record["verdict"], record["out"], record["shape"]) == ("written", str(out), [3, 8])
    assert rest.split() == "dft positions 3 dimensions 8".split()


def test_a_hostile_name_is_escaped_in_a_conclusion(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a\x1b[31m.npy", np.eye(4))
    assert "\x1b" not in run("check-faithful", "a\x1b[31m.npy").out


def test_on_a_terminal_the_conclusion_stands_above_the_curves(monkeypatch, run):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    run_on = sys.stdout
    from pefourier.cli.main import main

    assert main(["spectrum", "dft"]) == 0
    text = run_on.getvalue()
    assert text.startswith("dft: \x1b[1mEVEN\x1b[0m. All frequencies")
    assert text.index("EVEN") < text.index("⡇") < text.index("lattice points N")
    assert text.count("EVEN") == 1


@pytest.mark.parametrize(("columns", "widest"), [("40", 40), ("70", 70), ("300", 96), ("5", 24)])
def test_paragraphs_fit_the_terminal(monkeypatch, columns, widest):
    monkeypatch.setenv("COLUMNS", columns)
    lines = paragraph("codes " * 60, "  ").splitlines()
    assert widest - 6 < max(map(len, lines)) <= widest
    assert all(line.startswith("  codes") for line in lines[1:])
