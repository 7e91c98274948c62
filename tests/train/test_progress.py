"""What is shown while it trains."""

from types import SimpleNamespace

from training import SMALL

from pefourier.train import progress
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


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
    assert said.pop().startswith("100 % · 2 members · step 8/8 · ")
    said.clear()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_comparison(Options(**SMALL, out=str(tmp_path)), note=said.append) is None
    assert (said, capsys.readouterr()) == ([], ("", ""))
