"""What is said of several encodings at once, situation by situation."""

import json
import shlex

import pytest

from pefourier.analysis.faithful import assess
from pefourier.answers.choice import choose
from pefourier.answers.frame import Answer
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
