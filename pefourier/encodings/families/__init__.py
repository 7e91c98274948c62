"""Registered encodings, one file per family, in the order in which they are listed.

To add an encoding, write its function in the file of its family and its row in
tests/helpers/reference.py, then run ``make catalogue``. Import a new family below.
"""
# ruff: noqa: F401

from pefourier.encodings.families import (
    absolute,
    axial,
    fourier,
    graph,
    location,
    relative,
    rotary,
)
