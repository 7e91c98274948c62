"""A short draw of every target of `fuzz`, whose inputs must not cause a traceback."""

import fuzz
import pytest

COUNTS = [10, pytest.param(100, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_every_input_ends_in_an_answer_or_one_error_line(name, count):
    for number in range(count):
        assert fuzz.draw(name, f"{count} {number}") is None
