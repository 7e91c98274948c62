"""Trainings are tested without their figures, which take most of the time of a small one."""

import pytest


@pytest.fixture(autouse=True)
def without_figures(sketched):
    pass
