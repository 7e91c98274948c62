"""What is said of several encodings at once, situation by situation."""

import json
import re
import shlex

import numpy as np
import pytest

from pefourier.analysis.design import design_grid
from pefourier.analysis.faithful import LADDER, assess
from pefourier.answers.choice import RULES, advise, choose
from pefourier.answers.telling import Answer
from pefourier.encodings import load


def answers(specs, **sizes):
    encs = [load(spec, **sizes) for spec in specs.split()]
    return [Answer(enc, assess(enc)) for enc in encs]


@pytest.mark.parametrize(
    ("specs", "length", "said"),
    [
        ("sinusoidal dft:d=80", 80, "Both give all 80 positions different codes."),
        ("sinusoidal dft:d=80", 80, "dft:d=80 is isometric, the highest verdict among them: "),
        ("sinusoidal dft:d=80", 80, "not which of them trains better."),
        ("sinusoidal dft tape rope", 1000, "sinusoidal, tape and rope give all 1000 positions"),
        ("sinusoidal dft tape rope", 1000, "different codes; dft doesn't."),
        ("sinusoidal dft tape rope", 1000, "sinusoidal, tape and rope tie: their verdict is the"),
        (
            "sinusoidal dft tape",
            1000,
            "train --dataset data.npz -e sinusoidal -e tape -e none -e order-free",
        ),
        ("sinusoidal rope", 80, "sinusoidal and rope tie: their verdict is the same"),
        ("none dft", 80, "None of these 2 gives all 80 positions different codes."),
        ("none dft tape", 80, "Of these 3, tape gives all 80 positions different codes; none and"),
    ],
)
def test_what_speaks_for_which(specs, length, said):
    assert said in choose(answers(specs, length=length, d=64))


def test_one_alone_and_codes_of_other_positions_are_not_compared():
    assert choose(answers("sinusoidal", length=9, d=8)) == ""
    assert choose(answers("sinusoidal alibi:d=8", length=9, d=8)) == ""
    said = choose(answers("sinusoidal dft alibi:d=8", length=8, d=8))
    assert said.startswith("Both give all 8 positions different codes. dft is isometric")
    assert "alibi:d=8, whose codes are not of positions, stands apart." in said
    five = choose(answers("sinusoidal tape rope learned ramp dft", length=9, d=8))
    assert "Of these 6, sinusoidal, tape, rope, learned and ramp give all 9 positions" in five
    both = answers("sinusoidal", length=9, d=8) + answers("sinusoidal", length=10, d=8)
    assert choose(both) == ""


def test_tables_before_training_are_not_judged():
    said = choose(answers("learned sinusoidal tape", length=1000, d=64))
    assert "sinusoidal and tape tie" in said
    assert "learned is an untrained table: that codes differ says nothing" in said
    said = choose(answers("learned learnable-sinusoidal sinusoidal", length=80, d=64))
    assert "learned and learnable-sinusoidal are untrained tables" in said
    assert "tie" not in said


def test_one_position_is_no_choice(run):
    assert choose(answers("sinusoidal dft", length=1, d=8)) == ""
    assert run("check-faithful", "-S", 1).status == 0


def test_a_spec_that_options_complete_is_not_sent_to_training(run):
    assert "-e sinusoidal" in run("check-faithful", "sinusoidal", "rope", "-S", 9).out
    assert "pefourier train" not in run("check-faithful", "sinusoidal", "rope", "--rho", 5).out


def test_one_that_is_left_needs_no_training_to_be_chosen():
    assert choose(answers("dft tape", length=80, d=64)).endswith("different codes; dft doesn't.")


def test_points_of_a_grid_and_tables_are_not_sent_to_series():
    said = choose(answers("axial:grid=4x4 mixed-rope:grid=4x4", d=16))
    assert said.startswith("Both give all 16 points different codes.")
    assert "pefourier train" not in said


def test_the_answer_has_it_in_words_and_json(run):
    asked = ("check-faithful", "sinusoidal", "dft")
    assert "Both give all 80 positions different codes." in run(*asked).out
    found = json.loads(run(*asked, "--json").out)
    assert found["together"].startswith("Both give all 80 positions")
    assert "together" not in json.loads(run("check-faithful", "dft", "--json").out)


def test_the_command_that_is_proposed_has_no_sizes_of_its_own():
    """rope:d=32 is of codes here, and training has heads of another size: it was refused."""
    told = choose(answers("rope:d=32,rho=500 sinusoidal:d=32", length=40))
    command = shlex.split(told[told.index("pefourier train") :])
    arms = [command[i + 1] for i, word in enumerate(command) if word == "-e"]
    assert arms[:2] == ["rope:rho=500", "sinusoidal"]


@pytest.mark.parametrize(("length", "d"), [(2, 4), (64, 64), (65, 64), (300, 8), (1000, 64)])
def test_the_rules_hold(length, d):
    """What is ruled out gives two positions one code; the default has the highest verdict."""
    found = {
        spec: (rule.which, assess(load(spec, length=length, d=d)))
        for rule in RULES
        if rule.holds(length, d) and rule.which != "try"
        for spec in rule.specs
    }
    assert all((which == "take") == r.faithful for which, r in found.values())
    default = next(rule for rule in RULES if rule.which == "take" and rule.holds(length, d))
    rungs = {spec: LADDER.index(r.verdict) for spec, (_, r) in found.items()}
    assert {rungs[spec] for spec in default.specs} == {max(rungs.values())}
    if length > d:  # what the sentences claim: codes repeat, the two tie and go on
        assert found["dft"][1].closest_pair == found["onehot"][1].closest_pair == (0, d)
        assert load("dft", length=length, d=d).measure.period == d
    else:
        assert found["dft"][1].inverse_error < 1e-9
    a, b = (load(spec, length=2 * length, d=d) for spec in ("sinusoidal", "rope"))
    assert np.allclose(sorted(a.measure.frequencies), sorted(b.measure.frequencies))
    assert assess(a).faithful
    assert f"TAKE {default.specs[0].upper()}" in advise([length], d, {})[0]


@pytest.mark.parametrize("sides", [(14, 14), (9, 16), (4, 6, 6)])
def test_the_rules_of_grids_hold(sides, run):
    """Codes differ on larger grids too, the closest are neighbours, and the two tie."""
    grid, twice = ("x".join(str(k * side) for side in sides) for k in (1, 2))
    told = {rule.which: rule.specs for rule in RULES if rule.holds(*sides[:2], len(sides))}
    found = [assess(load(f"{spec}:grid={grid},d=96")) for spec in told["take"]]
    assert all(r.faithful and sum(map(abs, r.displacement)) == 1 for r in found)
    a, b = (load(f"{spec}:grid={twice},d=96") for spec in told["take"])
    assert assess(a).faithful
    assert np.allclose(*(np.sort(enc.measure.frequencies, axis=0) for enc in (a, b)))
    assert told["out"] == ("none",)  # the last; the others: a row down is a row's length on
    asked = "design", "--grid", grid, "--d", 96
    said = run(*asked).out
    assert said.startswith(f"TAKE AXIAL OR AXIAL-ROPE. For the {grid} grid and d 96: all points")
    assert f"one below is as far as {sides[-1]} columns" in " ".join(said.split())
    assert ("mixed-rope" in said) == (len(sides) == 2)
    assert "language model" not in said
    words = " ".join(said.split())
    assert "Base: Take 100, as RoPE-ViT " in words
    base = float(re.search(r"completes a turn; with ([\d.]+) similar patches", words)[1])
    first = design_grid(sides, 96)[0]
    w = base ** (-2 * np.arange(first.d // 2) / first.d)
    assert np.cos(np.outer(range(first.length), w)).sum(axis=1).min() > 0
    assert json.loads(run(*asked, "--json").out)["together"].startswith("TAKE AXIAL")
    assert "TAKE" not in run(*asked, "--for", "turns").out


def test_no_distance_makes_a_winner(run):
    for line in ("design --length 1000 --d 64", "check-faithful sinusoidal tape -S 300 --d 64"):
        together = json.loads(run(*line.split(), "--json").out)["together"]
        assert "farthest" not in together
        assert "tie" in together
    alone = json.loads(run(*"design --length 1000 --d 64 --for turns".split(), "--json").out)
    assert "together" not in alone


@pytest.mark.long
def test_the_command_that_is_advised_runs(run, tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    labels = (np.arange(40) % 3 == 0).astype(int)
    np.savez("data.npz", X=rng.normal(size=(40, 12, 1)) + labels[:, None, None], y=labels)
    out = run("design", "--length", 12, "--d", 8).out.replace("\\\n", "")  # one line of the shell
    (line,) = [line.strip() for line in out.splitlines() if "pefourier train" in line]
    few = "--seeds 1 --steps 2 --folds 1 --json -q".split()
    done = run(*shlex.split(line)[1:], *few)
    assert done.status == 0, done.err
    assert "rope:rho=" in done.out
