"""What commands have in common: SPECs, sizes and times, and notes on options without effect."""

import io
import sys

import numpy as np
import pytest


def test_standard_input_is_read(run, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"1,0\n0,1\n")

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert run("check-faithful", "-", "--json").results[0]["verdict"] == "isometric"


def test_times_come_from_a_file(run, tmp_path):
    (tmp_path / "t.csv").write_text("0\n0.5\n3\n3.5\n9\n")
    np.save(tmp_path / "t.npy", np.array([0, 0.5, 3, 3.5, 9]))
    one = run("check-faithful", "mtan-fixed", "--times", tmp_path / "t.csv", "--json")
    two = run("check-faithful", "mtan-fixed", "--times", tmp_path / "t.npy", "--json")
    assert one.out == two.out
    (result,) = one.results
    assert (result["length"], result["closest_pair"]) == (5, [0.0, 0.5])
    assert result["params"]["times"] == [0.0, 0.5, 3.0, 3.5, 9.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n2\n1\n", "times must be one row of finite, strictly increasing numbers"),
        ("0,1\n2,3\n", "holds an array (2, 2); a list of numbers has one column"),
    ],
)
def test_times_that_are_none(run, tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    done = run("spectrum", "mtan", "--times", tmp_path / "t.csv")
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_compare_takes_two(run):
    done = run("compare", "dft")
    assert (done.status, done.err) == (2, "pefourier: compare takes two encodings; got 1: 'dft'\n")


def test_compare_builds_a_named_encoding_at_the_size_of_a_file(run, tmp_path):
    assert run("encode", "sinusoidal", "--d", 24, "-S", 33, "--out", tmp_path / "a.npy").status == 0
    for pair in ([tmp_path / "a.npy", "sinusoidal"], ["sinusoidal", tmp_path / "a.npy"]):
        done = run("compare", *pair, "--json")
        assert (done.status, done.results[0]["verdict"]) == (0, "equal")
        assert done.results[0]["length"] == 33
    assert run("compare", tmp_path / "a.npy", "sinusoidal", "--d", 16).status == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spectrum", "dft", "--rho", "3"], "--rho 3.0 has no effect on dft"),
        (["spectrum", "--seed", "3"], "--seed 3 has no effect on sinusoidal, dft"),
        (["check-faithful", "rope:d=8", "--d", "6"], "--d 6 has no effect on rope:d=8"),
        (["check-faithful", "sinusoidal:rho=9", "--rho", "8"], "--rho 8.0 has no effect on sinu"),
        (["spectrum", "table.npy", "--d", "3"], "--d 3 has no effect on table.npy"),
        (["spectrum", "dft", "--times", "times.csv"], "--times times.csv has no effect on dft"),
        (["compare", "dft", "dft", "--seed", "1"], "--seed 1 has no effect on dft, dft"),
        (["encode", "dft", "--seed", "1", "--out", "a.npy"], "--seed 1 has no effect on dft"),
        (["spectrum", "dft", "--seed", "1", "--quiet"], ""),
        (["spectrum", "learned", "--seed", "1", "--d", "4", "--length", "9"], ""),
        (["check-faithful", "alibi", "--length", "7", "--d", "4"], ""),
        (["check-faithful", "tupe:heads=2", "--length", "7", "--d", "4"], ""),
        (["spectrum", "mtan", "--times", "times.csv", "--seed", "1"], ""),
        (["check-faithful", "table.npy", "--length", "3", "--d", "4"], ""),
        (["spectrum", "sinusoidal", "dft", "--rho", "3", "--lattice", "8"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_without_effect_are_noted(run, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", np.arange(20.0).reshape(5, 4))
    (tmp_path / "times.csv").write_text("0\n1\n2.5\n")
    done = run(*arguments)
    assert done.status == 0
    assert done.err.startswith(f"pefourier: {said}" if said else "")
    assert done.err.count("\n") == bool(said)
