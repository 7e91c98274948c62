"""Curves in a terminal: dots where the numbers are, and curves told apart without colours."""

import numpy as np

from pefourier.answers.terminal_chart import MARKS, chart


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


def test_nothing_finite_is_said():
    assert chart([("a", np.arange(2.0), np.full(2, np.nan))], "x", "y") == "y: nothing to draw\n"
