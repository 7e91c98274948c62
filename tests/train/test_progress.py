"""What is shown while it trains."""

import io
import re
import time

import pytest
from rich.console import Console
from training import SMALL, numbers

from pefourier.train import foresight, progress
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_ranks_beside_the_first_are_quiet(tmp_path, monkeypatch, capsys):
    said = []
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_comparison(Options(**SMALL, out=str(tmp_path)), note=said.append) is None
    assert said == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_shows_the_time_left(monkeypatch, width):
    screen = io.StringIO()
    at = {"file": screen, "force_terminal": True, "width": width, "color_system": None}
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(**at))
    with progress.bar() as (shown, task):
        for share in (20, 40):
            time.sleep(0.01)
            shown.update(task, completed=share, now="16 members · epoch 3/20 · loss 0.5")
        shown.refresh()
    assert re.search(r" 40 % +\d\d:\d\d .*· 16 members · epoch 3/20", screen.getvalue())


def test_progress_is_noted_where_there_is_no_terminal(capsys, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    run_comparison(Options(**SMALL), note=said.append)
    pattern = r"2 members · epoch 2/2 · loss \d\.\d{3} · [\d,]+ examples/s · 0:00 left"
    assert re.fullmatch(r"100 % · " + pattern, said[-1])
    run_comparison(Options(**SMALL))
    assert capsys.readouterr() == ("", "")


def test_the_time_is_told_before_training_and_not_of_what_is_finished(tmp_path):
    said, given = [], {**SMALL, "out": str(tmp_path / "out")}
    run_comparison(Options(**given, search=("rate=1e-3,1e-2",)), note=said.append)
    (line,) = [line for line in said if " take " in line]
    head = r"order:count=60,length=6: 8 runs of 2 candidates of at most 2 epochs take about "
    assert re.fullmatch(head + r"\d+ (s|min) if no run stops early", line)
    assert said.index(line) == len(said) - 1  # nothing is trained before
    said.clear()
    again = Options(**given, search=("rate=1e-3,1e-2",), resume=True)
    run_comparison(again, note=said.append)
    assert not [line for line in said if " take " in line]


@pytest.mark.parametrize(("refit", "minutes"), [(False, 32), (True, 48)])
def test_the_time_told_is_that_of_all_epochs(monkeypatch, refit, minutes):
    """Of 8 runs of 2 candidates of 2 epochs at a minute each, and once more of the chosen."""
    monkeypatch.setattr(foresight, "seconds_of_epoch", lambda _, _m, members, _s: 60 * len(members))
    said, asked = [], Options(**SMALL, search=("rate=1e-3,1e-2",), refit=refit)
    run_comparison(asked, note=said.append)
    assert [line for line in said if f"take about {minutes} min if" in line]


def test_a_probe_leaves_no_trace():
    plain, noted = (run_comparison(Options(**SMALL), note=note) for note in (None, print))
    assert numbers(plain.runs) == numbers(noted.runs)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_ends_at_a_hundred_where_runs_end_early(monkeypatch, terminal):
    screen, said = io.StringIO(), []
    at = {"file": screen, "force_terminal": True, "width": 80, "color_system": None}
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(**at))
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with progress.report_progress(10, 5, 1, said.append) as reporter:
        reporter.count_epoch(1, 2, 0.5)
        reporter.skip(8)
    assert re.search(r"100 % .*· took 0:0\d", screen.getvalue() if terminal else said[-1])
    assert terminal or said[0].startswith("20 % ")
