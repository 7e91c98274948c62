"""What is shown while it trains."""

import io
import re
import time

import pytest
from rich.console import Console
from training import SMALL

from pefourier.train import progress
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
            shown.update(task, completed=share, now="16 members · step 3/20 · loss 0.5")
        shown.refresh()
    assert re.search(r" 40 % +\d\d:\d\d .*· 16 members · step 3/20", screen.getvalue())


def test_progress_is_noted_where_there_is_no_terminal(capsys, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    run_comparison(Options(**SMALL), note=said.append)
    pattern = r"2 members · step 8/8 · loss \d\.\d{3} · [\d,]+ examples/s · 0:00 left"
    assert re.fullmatch(r"100 % · " + pattern, said[-1])
    run_comparison(Options(**SMALL))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_ends_at_a_hundred_where_runs_end_early(monkeypatch, terminal):
    screen, said = io.StringIO(), []
    at = {"file": screen, "force_terminal": True, "width": 80, "color_system": None}
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(**at))
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with progress.report_progress(10, 5, 1, said.append) as reporter:
        reporter.begin(5)
        reporter.count_steps(1, 2, 0.5)
        reporter.skip(8)
    assert re.search(r"100 % .*· took 0:0\d", screen.getvalue() if terminal else said[-1])
    assert terminal or said[0].startswith("20 % ")
