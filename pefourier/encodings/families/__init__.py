"""Registered encodings, one family a file, in the order in which they are listed."""
# ruff: noqa: I001, F401

from pefourier.encodings.families import absolute
from pefourier.encodings.families import fourier
from pefourier.encodings.families import rotary
from pefourier.encodings.families import irregular
from pefourier.encodings.families import recurrent
from pefourier.encodings.families import relative
from pefourier.encodings.families import tree
