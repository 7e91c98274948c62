"""The next step of each answer is followed: its command answers, its change does what it says."""

import re

import numpy as np
import pytest

SPECS = {
    "rope": "rope --length 40 --d 16",
    "base": "rope --rho 100 --length 300 --d 64",
    "learned": "learned --length 30 --d 16",
    "read back": "dft --length 16 --d 16",
    "grid": "axial --grid 4x5 --d 16",
    "bias": "t5 --length 20 --d 4",
    "causal": "alibi:causal=true --length 20 --d 4",
    "window": "swin --grid 3x4 --d 4",
    "lags": "shaw --length 9 --d 8",
    "nodes": "tree --length 15 --d 16",
    "file": "two.npy",
    "one wave": "one.npy",
}
QUESTIONS = ("spectrum", "relations", "check-faithful", "reconstruct")


def waves(*lengths):
    angles = 2 * np.pi * np.arange(128)[:, None] / np.array(lengths)
    return np.hstack([np.cos(angles), np.sin(angles)])


@pytest.fixture
def answer(run, folder):
    """Return a function that asks a question and returns the record of the answer."""
    np.save(folder / "two.npy", waves(12.8, 32))
    np.save(folder / "one.npy", waves(13.7))

    def ask(line):
        done = run(*line.split(), "--json")
        assert done.status in (0, 1), done.err
        (record,) = done.results
        return record

    return ask


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_commands_of_the_next_step_answer_about_the_same_encoding(question, name, answer):
    if question == "reconstruct" and name in ("nodes", "window"):
        return
    record = answer(f"{question} {SPECS[name]}")
    action = record["action"]
    assert action or record["findings"]
    for command in re.findall(r"`pefourier (.*?)`", action):
        followed = answer(command)
        if "dft" not in command and "design" not in command:
            assert followed["params"] == record["params"]


def test_dft_can_be_read_back_where_it_is_advised(answer):
    record = answer("check-faithful rope --length 40 --d 16")
    (command,) = re.findall(r"`pefourier (check-faithful dft .*?)`", record["action"])
    assert answer(command)["verdict"] in ("invertible", "isometric")


def test_the_base_of_design_keeps_inner_products_positive(answer):
    record = answer("relations rope --rho 100 --length 300 --d 64")
    assert record["zero"] is not None
    (command,) = re.findall(r"`pefourier (design .*?)`", record["action"])
    base = answer(command)["best"]["bound"]
    again = answer(f"relations rope --rho {base!r} --length 300 --d 64")
    assert again["zero"] is None


def test_changes_that_are_advised_do_what_they_say(answer):
    assert "t5" in answer("relations alibi --length 9 --d 4")["action"]
    assert answer("relations t5 --length 9 --d 4")["verdict"] == "direction told"
    assert "rope or sinusoidal" in answer("relations learned --length 9 --d 4")["action"]
    for name in ("rope", "sinusoidal"):
        assert answer(f"relations {name} --d 4")["verdict"] == "depends on lag alone"
    assert "axial" in answer("relations learned --grid 4x4 --d 8")["action"]
    for name in ("axial", "axial-rope"):
        found = answer(f"relations {name} --grid 4x4 --d 8")
        assert found["verdict"] == "depends on displacement alone"


def test_sigma_0_shows_what_smoothing_hides(answer):
    hidden = answer("reconstruct two.npy --pos 5")
    assert (hidden["verdict"], "--sigma 0" in hidden["action"]) == ("repeated", True)
    plain = answer("reconstruct two.npy --pos 5 --sigma 0")
    assert (plain["verdict"], plain["action"]) == ("repeated", "")
    counts = [r["reconstructions"][0]["half_max_count"] for r in (hidden, plain)]
    assert counts[1] > counts[0]


def test_repeated_rows_are_told_how_many_positions_are_distinct(answer):
    rows = np.random.default_rng(0).normal(size=(8, 5))
    np.save("copies.npy", np.tile(rows, (4, 1)))
    record = answer("check-faithful copies.npy")
    messages = " ".join(f["message"] for f in record["findings"])
    assert ("modulo 8" in messages, "dimensions" in messages) == (True, False)
    np.save("copies.npy", rows)
    assert answer("check-faithful copies.npy")["faithful"]


@pytest.mark.parametrize(("file", "waves"), [("two.npy", (12.8, 32)), ("one.npy", (13.7,))])
def test_the_few_wavelengths_of_a_table_are_named(file, waves, answer):
    record = answer(f"spectrum {file}")
    numbers = map(float, re.findall(r"\d+\.?\d*", record["meaning"]))
    assert set(waves) <= set(numbers)
