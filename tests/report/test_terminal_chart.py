"""Curves in a terminal: blocks at the numbers, within its width."""

import numpy as np
import pytest

from pefourier.report.terminal import chart


@pytest.mark.parametrize("columns", [40, 61, 200])
def test_a_chart_fits_the_terminal_and_blocks_stand_at_the_numbers(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    x = np.geomspace(1e-6, 1, 61)
    curves = [("line", x, np.log10(x) + 6), (60 * "x", x[30:31], np.array([6.0]))]
    curves += [("low", x, np.full(61, -6.0))]
    *head, line, peak, low, ends = chart(9 * "share ", curves, logarithmic=True).split("\n")[:-2]
    assert max(map(len, [*head, line, peak, ends])) <= columns
    margin = line.index("▄")
    assert [*line[margin:]] == sorted(line[margin:])
    assert abs(peak.index("█") - margin - (columns - margin - 1) / 2) <= 0.5
    assert low == "low"
    assert ends.split() == ["1e-06", "1"]


def test_without_numbers_nothing_is_drawn():
    assert chart("none", [("", np.arange(2), np.zeros(2))]) == "none: nothing to draw\n\n"
