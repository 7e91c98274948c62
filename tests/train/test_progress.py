"""Progress messages during training."""

from types import SimpleNamespace

from training import SMALL

from pefourier.train import progress
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_stacks_are_counted_with_their_steps(monkeypatch):
    stated, clock = [], iter((0.0, 1.0, 2.0, 6.0))
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with progress.report_progress(4, stated.append) as reporter:
        reporter.steps = 10
        for steps, members in ((5, 3), (10, 2)):
            reporter.count_steps(steps, members, 0.25)
        reporter.finished = 2  # stacks of another rank
        reporter.count_steps(10, 1, 0.5)
    assert [line.partition(" ")[0] for line in stated] == ["12%", "25%", "75%"]
    assert stated[-1] == "75% · 1 members · step 10/10 · loss 0.500 · 0:02 left"


def test_notes_are_for_the_first_rank_where_notes_are_taken(tmp_path, capsys, monkeypatch):
    stated = []
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    run_comparison(Options(**SMALL), note=stated.append)
    assert stated.pop().startswith("100% · 2 members · step 8/8 · ")
    stated.clear()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_comparison(Options(**SMALL, out=str(tmp_path)), note=stated.append) is None
    assert (stated, capsys.readouterr()) == ([], ("", ""))
