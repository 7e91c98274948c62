"""Arms, runs and stacks."""

from training import SMALL

from pefourier.train.grid import list_arms
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_sizes_have_one_name_and_are_scaled_once():
    given = ("none", "dft", "dft@rms=.50", "order-free")
    found = list_arms(given, (0.5, 0.1234567))
    assert [(one.name, one.named) for one in found] == [
        *[("none", True), ("dft", True), ("dft@rms=0.5", True), ("order-free", True)],
        ("dft@rms=0.1234567", False),
    ]


def test_an_arm_may_be_named_with_its_size():
    found = run_comparison(Options(**{**SMALL, "encoding": ("sinusoidal", "dft@rms=0.25")}))
    assert list(found.datasets[0].scores) == ["sinusoidal", "dft@rms=0.25"]


def test_too_few_codes_are_noted():
    said, given = [], {**SMALL, "dataset": ("order:count=40,length=10",), "d": 8, "heads": 2}
    options = Options(**{**given, "encoding": ("none", "sinusoidal", "dft", "rope")})
    run_comparison(options, note=said.append)
    assert [line for line in said if "codes" in line] == [
        "order:count=40,length=10: dft has 8 codes for 10 tokens; a larger --d or --patch would "
        "tell them apart"
    ]
