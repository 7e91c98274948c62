"""Tables of text: as wide as the terminal, with every cell in them."""

import pytest

from pefourier.writing.text import aligned, longest_word, number

ROWS = [
    ["encoding", "position", "peak", "samples ≥ half", "error of linear inverse"],
    ["sinusoidal", "5", "0.3403", "11", "0.07"],
    ["rope:scaling=yarn,factor=4", "40", "none: codes are zero", "–", "no code: length 20"],
]


def words_of(text):
    return sorted("".join(text.split()))


def test_where_nobody_looks_lines_are_as_long_as_they_are(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = aligned([*ROWS, [400 * "x", "", "", "", "end"]]).splitlines()
    assert len(lines) == 4
    assert lines[3].startswith(400 * "x")
    assert lines[1].startswith("sinusoidal  ")
    assert {line.index(cell) for line, cell in zip(lines, ("error", "0.07", "no c"), strict=False)}


@pytest.mark.parametrize("width", [40, 45, 52, 60, 72, 80, 110])
@pytest.mark.parametrize("keys", [1, 2])
def test_a_table_fits_the_terminal_and_loses_nothing(monkeypatch, width, keys):
    monkeypatch.setenv("COLUMNS", str(width))
    text = aligned(ROWS, keys=keys)
    assert max(map(len, text.splitlines())) <= width
    parts = text.split("\n\n")
    again = [[*row[:keys]] * (len(parts) - 1) for row in ROWS]
    cells = [cell for row in ROWS for cell in row] + [cell for row in again for cell in row]
    assert words_of(text) == words_of("".join(cells))


def test_words_are_cut_only_where_they_are_wider_than_a_column(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = aligned(ROWS, keys=2)
    for word in ("encoding", "position", "samples", "inverse", "sinusoidal", "zero"):
        assert word in text
    assert longest_word("  between positions") == 11


def test_a_table_that_fits_is_left_as_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "21")
    assert aligned([["a", "bbb ccc"], ["dd ee ff", "g"]]) == "a         bbb ccc\ndd ee ff  g\n"


@pytest.mark.parametrize("columns", [40, 66, 80])
@pytest.mark.parametrize(
    "command",
    [
        "spectrum sinusoidal dft:d=30 rope:rho=500,d=32",
        "reconstruct sinusoidal none --d 128",
        "check-faithful sinusoidal alibi:d=8 ramp --d 12",
        "design --length 80 --d 32 --dtype bf16",
        "context rope:rho=500 --d 32",
        "list",
    ],
)
def test_answers_fit_a_terminal(run, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    done = run(*command.split())
    assert done.status == 0, done.err
    assert max(map(len, done.out.splitlines())) <= columns


def test_a_table_stays_whole_where_breaking_cells_is_enough(monkeypatch):
    monkeypatch.setenv("COLUMNS", "85")
    text = aligned(ROWS)
    assert "\n\n" not in text
    assert len(text.splitlines()) > len(ROWS)


def test_a_word_wider_than_the_terminal_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = aligned([["file", "is"], ["x", "/a" * 60]])
    assert max(map(len, text.splitlines())) == 40
    assert text.count("/a") == 60


def test_cells_are_text_and_no_markup(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    cells = ["[red]x[/red] :smile: https://a.b", "'one' 2.5 None [b]"]
    text = aligned([[*cells], ["a", "b" * 20]])
    assert words_of(text) == words_of("".join([*cells, "a", "b" * 20]))


def test_tables_that_follow_use_the_whole_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = aligned(ROWS)
    assert "error of linear inverse\n" in text  # the last column stands beside the keys alone


@pytest.mark.parametrize("text", ["5.243e+05", "1e+05; 2e+04 smoothed", "e+0", "131071 (50 %)"])
def test_a_text_is_told_as_it_is(text):
    assert number(text) == text
