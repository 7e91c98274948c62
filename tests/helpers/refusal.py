"""Return the error with which a SPEC is refused."""

import re

import pytest

from pefourier.encodings import load
from pefourier.errors import PefourierError


def refused(message, spec, **given):
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(spec, **given)
