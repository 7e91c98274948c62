"""Tables of text and paragraphs fit the terminal and keep every cell."""

import pytest

from pefourier.writing.text import aligned, paragraph

ROWS = [
    ["encoding", "position", "peak", "samples ≥ half", "error of linear inverse"],
    ["sinusoidal", "5", "0.3403", "11", "0.07"],
    ["rope:scaling=yarn,factor=4", "40", "none: codes are zero", "–", "no code: length 20"],
    ["[red]x[/red] :smile:", "'one' 2.5 None [b]", "", "", "/a" * 40],
]


def letters_of(text):
    return sorted("".join(text.split()))


def test_lines_are_not_wrapped_without_a_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = aligned([*ROWS, [400 * "x", "", "", "", "end"]]).splitlines()
    assert len(lines) == 5
    assert lines[4].startswith(400 * "x")
    cells = zip(lines, ("error", "0.07", "no c"), strict=False)
    assert len({line.index(cell) for line, cell in cells}) == 1
    monkeypatch.setenv("COLUMNS", "21")
    assert aligned([["a", "bbb ccc"], ["dd ee ff", "g"]]) == "a         bbb ccc\ndd ee ff  g\n"
    assert aligned([["a", "bbb"], ["c", "ddd eee fff ggg hhh"]]).endswith("ggg\n   hhh\n")


@pytest.mark.parametrize("width", [40, 52, 60, 80, 110])
def test_a_table_fits_the_terminal_and_loses_nothing(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = aligned(ROWS)
    narrow = aligned(ROWS[:3])
    assert width < 80 or max(map(len, narrow.splitlines())) <= width
    words = [word for row in ROWS for cell in row for word in cell.split()]
    assert [word for word in words if word not in text.split()] == []  # none is cut
    parts = text.split("\n\n")
    again = [[row[0]] * (len(parts) - 1) for row in ROWS]
    cells = [cell for row in ROWS for cell in row] + [cell for row in again for cell in row]
    assert letters_of(text) == letters_of("".join(cells))


@pytest.mark.parametrize(("columns", "widest"), [("40", 40), ("70", 70), ("300", 96), ("5", 24)])
def test_paragraphs_fit_the_terminal(monkeypatch, columns, widest):
    monkeypatch.setenv("COLUMNS", columns)
    lines = paragraph("codes " * 60, "  ").splitlines()
    assert widest - 6 < max(map(len, lines)) <= widest
    assert all(line.startswith("  codes") for line in lines[1:])
