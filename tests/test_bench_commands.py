"""The rule by which `make bench CHECK=1` reports a slower command, and its table."""

import contextlib
import inspect
import json
import sys
import threading
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import bench_commands as bench
import pytest

from pefourier.cli.main import main

STORED = Path(__file__).parents[1] / "figures" / "bench.json"


def test_a_check_counts_what_is_slower_or_not_stored(monkeypatch, capsys):
    took = {"quick": 1.0, "slow": 2.7, "new": 1.0}
    monkeypatch.setattr(bench, "COMMANDS", list(took))

    def run(command, _, tree=None):
        return took[command] / (1.2 if tree == "past" else 1), 0.0

    monkeypatch.setattr(bench, "run", run)
    monkeypatch.setattr(bench, "WARMING", ())
    monkeypatch.setattr(bench, "in_folder", lambda work: work(None))
    stored = [{"command": name, "ratio": ratio} for name, ratio in (("quick", 1), ("slow", 2))]
    monkeypatch.setattr(bench, "worktree", lambda *_: contextlib.nullcontext("past"))
    assert bench.check_commands(stored) == 3
    assert capsys.readouterr().out.splitlines() == [
        "1.20 times that of HEAD~1: quick",
        "1.35 times slower: slow",
        "1.20 times that of HEAD~1: slow",
        "not stored: new; run make bench ONLY=commands",
    ]


def test_every_command_is_stored():
    rows = json.loads(STORED.read_text())["commands"]
    assert [row["command"] for row in rows] == bench.COMMANDS
    assert len(rows) >= 30
    for row in rows:
        assert row["times_limit"] == pytest.approx(row["ratio"] / row["limit"], abs=0.2)
        assert ("why" in row) == (row["times_limit"] > bench.FAR), row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    bench.write_inputs(path := tmp_path_factory.mktemp("inputs"))
    return path


@pytest.mark.parametrize("command", bench.NOT_CALLED)
def test_a_command_does_not_measure_what_it_does_not_show(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    places = {}
    for name in bench.NOT_CALLED[command]:
        module, _, function = name.partition(":")
        found = attrgetter(function)(import_module(f"pefourier.{module}"))
        places[inspect.unwrap(found).__code__] = name
    called = set()
    threading.setprofile(profile := lambda frame, *_: called.add(frame.f_code))
    sys.setprofile(profile)
    try:
        assert main([*command.split(), "--quiet"]) in (0, 1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert [places[code] for code in called & places.keys()] == []


def test_cpu_time_of_a_command_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ruler", lambda: 0.01)
    monkeypatch.setenv("PYTHONPATH", "")
    ratio, peak = bench.run("list", tmp_path)
    assert ratio > 1
    assert peak > 5
    with pytest.raises(SystemExit, match="unknown"):
        bench.run("spectrum no-such-encoding", tmp_path)
