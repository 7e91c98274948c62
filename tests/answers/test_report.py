"""Answers in words: the conclusion first, and a reason wherever a number is missing."""

import io
import json
import re
import sys

import numpy as np
import pytest

from pefourier.writing.text import paragraph


def cells(text, label):
    """The words of a row of a table after its label."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{label}  ")]
    return line.removeprefix(label).split("  ")[-1].strip()


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        (
            ["spectrum", "ramp"],
            {
                "how many": "not declared",
                "of them below the first bin 2π/N": "not declared",
                "first in the lowest bin (Eq. 16)": "not declared",
            },
        ),
        (["spectrum", "dft"], {"first in the lowest bin (Eq. 16)": "no geometric grid"}),
        (
            ["spectrum", "none"],
            {
                "share at frequency 0": "none: codes are zero",
                "mean frequency, rad": "none: codes are zero",
                "95 % lie at or below, rad": "none: codes are zero",
                "flatness (1 = flat)": "none: codes are zero",
            },
        ),
        (
            ["check-faithful", "sinusoidal", "-S", "80", "--d", "256"],
            {"condition number": "infinite: rank 42 of 80"},
        ),
        (
            ["check-faithful", "sinusoidal", "-S", "1"],
            {
                "smallest distance": "only one position",
                "  between positions": "only one position",
                "  over rms code length (gap)": "only one position",
                "inner products rise first at lag": "they never rise",
            },
        ),
        (
            ["check-faithful", "ramp", "-S", "1"],
            {"stable rank": "none: codes are zero", "residual of T(1) (Denk)": "only one position"},
        ),
        (
            ["check-faithful", "learned"],
            {"residual of T(1) (Denk)": "any T fits: codes are independent"},
        ),
        (
            ["check-faithful", "learned", "--d", "1026"],
            {"residual of T(1) (Denk)": "not fitted for d over 1024"},
        ),
        (["check-faithful", "alibi", "--d", "4"], {"residual of T(1) (Denk)": "not for lags"}),
        (
            ["check-faithful", "tree", "--d", "4"],
            {
                "residual of T(1) (Denk)": "not for trees",
                "inner products rise first at lag": "no inner products by lag",
            },
        ),
        (
            ["check-faithful", "shaw", "--d", "4"],
            {"inner products rise first at lag": "no inner products by lag"},
        ),
        (
            ["check-faithful", "none"],
            {
                "condition number": "infinite: rank 0 of 80",
                "inner products rise first at lag": "none: codes are zero",
            },
        ),
        (
            ["check-faithful", "ramp", "-S", "1000"],
            {"phase error there, rad": "no frequencies declared"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_missing_number_has_its_reason(run, arguments, reasons):
    done = run(*arguments, "-q")
    assert {label: cells(done.out, label) for label in reasons} == reasons
    assert "–" not in done.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["dft", "--pos", "9", "-S", "8", "--d", "16"], "no code: length 8"),
        (["none", "--pos", "3", "--d", "16"], "none: codes are zero"),
    ],
)
def test_a_position_without_numbers_has_its_reason(run, arguments, reason):
    out = run("reconstruct", *arguments).out
    assert reason in out.splitlines()[-1]
    assert "–" not in out


def test_every_spec_has_its_paragraph_before_the_numbers(run):
    for command, first in (("spectrum", ""), ("reconstruct", "encoding"), ("check-faithful", "")):
        out = run(command, "sinusoidal", "dft", "rope").out
        conclusion, _, numbers = out.partition("\n\n")
        begins = [line.partition(":")[0] for line in conclusion.splitlines() if line[0] != " "]
        assert begins[:3] == ["sinusoidal", "dft", "rope"]
        assert len(begins) == 3 + (command == "check-faithful")  # the last about all of them
        assert numbers.split("  ")[0] == first
        answer = json.loads(run(command, "sinusoidal", "dft", "rope", "--json").out)
        told = [f"{r['spec']}: {r['conclusion']}" for r in answer["results"]]
        assert conclusion.split() == " ".join([*told, answer.get("together", "")]).split()


def test_formats_are_told_where_one_loses_codes(run):
    """A table of formats, one a column, of encodings that lose codes in one."""
    out = run("check-faithful", "rope", "dft:d=16", "-S", 1000, "--d", 16).out
    assert re.search(r"^rope +float32 +float16 +bfloat16 +float8_e4m3$", out, re.MULTILINE)
    assert cells(out, "when computed in it") == "55"
    assert out.count("phase error there") == 1
    assert "rounded to it: computed in float64, then rounded; computed in it: every step" in out
    assert "float8" not in run("check-faithful", "dft").out
    assert "beyond its range" in run("check-faithful", "rope", "-S", 70000, "--d", 4).out


def test_encode_says_what_was_written(run, tmp_path):
    out = tmp_path / "codes.npy"
    done = run("encode", "dft", "--d", 8, "-S", 3, "--out", out)
    told = (
        "WRITTEN. "
        f"The codes of 3 positions, 8 numbers each, are in {out} as float64, one row a position."
    )
    conclusion, _, rest = done.out.partition("\n\n")
    assert " ".join(conclusion.split()) == told
    assert rest == f"{out}: codes of dft, 3 positions × 8\n"
    assert (
        run("encode", "dft", "--d", 8, "-S", 3, "--out", out, "--json").results[0]["conclusion"]
        == told
    )


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
