"""Trainings are tested without their figures, which take most of the time of a small one."""

from pathlib import Path

import pytest

from pefourier.answers import plot


@pytest.fixture(autouse=True)
def sketched(request, monkeypatch):
    """Each file of a figure holds the name of what would be drawn there."""
    if "drawn" not in request.keywords:
        monkeypatch.setattr(
            plot, "save", lambda path, draw, *_: Path(path).write_text(draw.__name__)
        )
