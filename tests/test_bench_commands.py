"""The rule by which `make bench CHECK=1` reports a slower command, and its table."""

import json
from pathlib import Path

import bench_commands as bench
import pytest

STORED = Path(__file__).parents[1] / "figures" / "bench.json"


@pytest.mark.parametrize(
    ("ratios", "slower", "lowest"),
    [((1.2,), False, 1.2), ((2.0, 1.25), False, 1.25), ((1.5, 1.4, 1.6), True, 1.4)],
)
def test_a_command_is_slower_where_each_of_its_runs_is(ratios, slower, lowest):
    runs = iter(ratios)
    assert bench.is_slower(1.0, lambda: next(runs)) == (slower, lowest)
    assert next(runs, None) is None  # the check makes no more runs than it needs


def test_a_check_counts_what_is_slower_or_not_stored(monkeypatch, capsys):
    took = {"quick": 1.0, "slow": 2.7, "new": 1.0}
    monkeypatch.setattr(bench, "COMMANDS", list(took))
    monkeypatch.setattr(bench, "run", lambda command, _: (took[command], 0.0))
    monkeypatch.setattr(bench, "in_folder", lambda work: work(None))
    stored = [{"command": name, "ratio": ratio} for name, ratio in (("quick", 1), ("slow", 2))]
    assert bench.check_commands(stored) == 2
    assert capsys.readouterr().out.startswith("1.35 times slower: slow\nnot stored: new")


def test_every_command_is_stored():
    stored = [row["command"] for row in json.loads(STORED.read_text())["commands"]]
    assert stored == bench.COMMANDS
    assert len(stored) >= 30


def test_cpu_time_of_a_command_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ruler", lambda: 0.01)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    ratio, peak = bench.run("list", tmp_path)
    assert ratio > 1
    assert peak > 5
    with pytest.raises(SystemExit, match="unknown"):
        bench.run("spectrum no-such-encoding", tmp_path)
