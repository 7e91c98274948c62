"""A check of refused requests."""

from contextlib import contextmanager

import pytest

from pefourier.errors import PefourierError


@contextmanager
def refusal(pattern=None, part=""):
    """Assert that a request is refused in one line that has a pattern and a part; yield it."""
    with pytest.raises(PefourierError, match=pattern) as caught:
        yield caught
    line = str(caught.value)
    assert part in line
    assert "\n" not in line
