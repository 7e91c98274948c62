"""Curves in a terminal: dots at the numbers, within its width."""

import re

import numpy as np
import pytest

from pefourier.writing.terminal_chart import COLOURS, MARKS, chart


def rows_of(text):
    text = re.sub(r"\x1b\[\d*m", "", text)
    return [re.split("[┤│]", line)[1] for line in text.splitlines() if {"┤", "│"} & {*line}]


@pytest.mark.parametrize("columns", [40, 61, 80, 200])
@pytest.mark.parametrize("colour", [True, False])
def test_a_chart_fits_the_terminal_and_has_all_curves(monkeypatch, columns, colour):
    monkeypatch.setenv("COLUMNS", str(columns))
    x = np.linspace(0, np.pi, 99)
    names = ["sinusoidal", "rope:scaling=yarn,factor=4,original=4096", "a/path/" + 60 * "x"]
    curves = [(name, x, np.cos(n * x)) for n, name in enumerate(names)]
    text = chart(curves, "ω, radians per position", 9 * "share of energy ", colour=colour)
    lines = re.sub(r"\x1b\[\d*m", "", text).splitlines()
    assert max(map(len, lines)) <= columns
    assert {len(row) for row in rows_of(text)} == {columns - 12}
    assert all(text.count(sign) > 1 for sign in (COLOURS if colour else MARKS)[:3])


def test_dots_stand_at_the_numbers_and_a_logarithmic_axis_has_equal_factors_side_by_side(
    monkeypatch,
):
    monkeypatch.setenv("COLUMNS", "72")
    x, line = np.geomspace(1e-6, 1, 61), np.arange(61.0)
    text = chart([("y", x, np.log10(x) + 6)], "x", "y", height=6, logarithmic=True)
    rows = rows_of(chart([("y", line, line)], "x", "y", height=6))
    assert rows_of(text) == rows
    for i, row in enumerate(rows):
        at = [k for k, letter in enumerate(row) if letter != " "]
        assert abs(np.mean(at) / 59 - (5.5 - i) / 6) < 0.06
    assert re.search(r"^ +1e-06 +1$", text, re.MULTILINE)
