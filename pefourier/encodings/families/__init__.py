"""Registered encodings, one file per family, in the order in which they are listed.

To add an encoding, write its function in the file of its family and its row in
tests/helpers/reference.py, then run ``make catalogue``. Import a new family below.
"""
# ruff: noqa: I001, F401

from pefourier.encodings.families import absolute
from pefourier.encodings.families import fourier
from pefourier.encodings.families import shifted
from pefourier.encodings.families import rotary
from pefourier.encodings.families import rotary_mixing
from pefourier.encodings.families import axial
from pefourier.encodings.families import learned_time
from pefourier.encodings.families import structural
from pefourier.encodings.families import relative
from pefourier.encodings.families import biases
from pefourier.encodings.families import lag_vectors
