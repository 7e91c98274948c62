"""Curves in a terminal: dots at the numbers, and curves distinguishable without colours."""

import re

import numpy as np
import pytest

from pefourier.writing.terminal_chart import COLOURS, MARKS, PLAIN, chart


def rows_of(text):
    return [
        line.split("┤")[-1].split("│")[-1] for line in text.splitlines() if {"┤", "│"} & {*line}
    ]


def test_marks_stand_on_the_curves():
    x = np.linspace(0, 1, 50)
    curves = [("low", x, np.full(50, 0.07)), ("line", x, x)]
    rows = rows_of(chart(curves, "x", "y", width=40, height=10, colour=False))
    alone = rows_of(chart(curves[:1], "x", "y", width=40, height=10, colour=False))
    assert len(rows) == len(alone) == 10
    low = [i for i, row in enumerate(rows) if MARKS[0] in row]
    assert low == [9]  # 0.07 of 1 is the lowest of ten rows
    for i, row in enumerate(rows):
        for column in (k for k, letter in enumerate(row) if letter == MARKS[1]):
            assert abs(column / 39 - (9 - i) / 9) < 0.1


def test_a_single_curve_needs_no_mark_and_colours_no_marks():
    x = np.arange(9.0)
    one = chart([("a", x, x)], "x", "y", colour=False)
    assert one.count(MARKS[0]) == 1  # in the legend
    two = chart([("a", x, x), ("b", x, 8 - x)], "x", "y", colour=True)
    assert not {*MARKS} & {*two}


@pytest.mark.parametrize("columns", [40, 61, 80, 200])
@pytest.mark.parametrize("colour", [True, False])
def test_a_chart_fits_the_terminal(monkeypatch, columns, colour):
    monkeypatch.setenv("COLUMNS", str(columns))
    x = np.linspace(0, np.pi, 99)
    names = ["sinusoidal", "rope:scaling=yarn,factor=4,original=4096", "a/path/" + 60 * "x"]
    curves = [(name, x, np.cos(n * x)) for n, name in enumerate(names)]
    text = chart(curves, "ω, radians per position", 9 * "share of energy ", colour=colour)
    lines = re.sub(r"\x1b\[\d*m", "", text).splitlines()
    assert max(map(len, lines)) <= columns
    rows = rows_of(re.sub(r"\x1b\[\d*m", "", text))
    assert len(rows) == 12
    assert columns - 10 <= len(rows[0])
    assert "ω, radians per position" in text


def test_shared_dots_of_two_curves_have_no_colour():
    x = np.arange(8.0)
    text = chart([("a", x, x), ("b", x, x)], "x", "y", width=4, height=2)
    drawn = text[: text.index("└")]
    assert not any(colour in drawn for colour in COLOURS)
    apart = chart([("a", x, 0 * x), ("b", x, 0 * x + 1)], "x", "y", width=4, height=2)
    drawn = apart[: apart.index("└")]
    assert drawn.count(COLOURS[0]) == drawn.count(COLOURS[1]) == 4
    assert drawn.count(PLAIN) == 8


def test_a_logarithmic_axis_has_equal_factors_side_by_side():
    x = np.geomspace(1e-6, 1, 61)
    text = chart([("y", x, np.log10(x) + 6)], "x", "y", width=60, height=6, logarithmic=True)
    straight = chart([("y", np.arange(61.0), np.arange(61.0))], "x", "y", width=60, height=6)
    assert rows_of(text) == rows_of(straight)
    assert re.search(r"^ +1e-06 +1  x$", text, re.MULTILINE)
