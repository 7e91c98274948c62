"""Distances, ranks and rounding of codes: the linear algebra that the questions rest on."""

from collections.abc import Callable

Progress = Callable[[int, int], object]  # called as progress(done, total) during long work
