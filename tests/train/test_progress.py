"""What is shown while it trains."""

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console
from training import SMALL

from pefourier.train import progress
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_shows_the_time_left(monkeypatch, width):
    screen = io.StringIO()
    at = {"file": screen, "force_terminal": True, "width": width, "color_system": None}
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(**at))
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with progress.report_progress(100, 5, 1, print) as reporter:
        reporter.begin(50)
        reporter.count_steps(10, 2, 0.5)
        reporter.count_steps(20, 2, 0.5)
    assert re.search(r" 40 % +(\d\d:\d\d|-).* left · 2 members · step 20/50", screen.getvalue())


def test_steps_are_counted_over_stacks_their_parts_and_ranks(monkeypatch):
    said, clock = [], iter((0.0, 1.0, 2.0, 3.0))
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with progress.report_progress(100, 5, 2, said.append) as reporter:
        reporter.skip(20)
        reporter.begin(10)
        for steps, members in ((5, 3), (10, 2), (5, 1)):  # the last of another part
            reporter.count_steps(steps, members, 0.25)
    shares = [line.partition(" ")[0] for line in said]
    assert shares == ["35", "45", "50"]
    assert (reporter.done, reporter.trained) == (50, 30)
    # 30 steps of members in 3 s by one of two ranks, of 5 windows each
    assert said[-1] == "50 % · 1 members · step 5/10 · loss 0.250 · 100 examples/s · 0:02 left"


def test_notes_are_for_the_first_rank_where_notes_are_taken(tmp_path, capsys, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    run_comparison(Options(**SMALL), note=said.append)
    pattern = r"100 % · 2 members · step 8/8 · loss \d\.\d{3} · [\d,]+ examples/s · 0:00 left"
    assert re.fullmatch(pattern, said[-1])
    said.clear()
    run_comparison(Options(**SMALL))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_comparison(Options(**SMALL, out=str(tmp_path)), note=said.append) is None
    assert (said, capsys.readouterr()) == ([], ("", ""))
