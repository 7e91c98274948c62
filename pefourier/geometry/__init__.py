"""Distances, ranks and rounding of codes: the linear algebra that the questions rest on."""
