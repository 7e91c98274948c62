"""A short draw of every target of `fuzz`, whose inputs must not cause a traceback."""

import fuzz
import pytest

COUNTS = [10, pytest.param(100, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_inputs_end_in_an_answer_or_in_one_line(name, count):
    for number in range(count):
        assert fuzz.draw(name, f"{count} {number}") is None
