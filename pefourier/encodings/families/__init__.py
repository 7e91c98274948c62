"""Registered encodings, one file per family, in the order in which they are listed.

To add an encoding, write its function in the file of its family and its row in
tests/helpers/reference.py, then run ``make catalogue``. The registry names all families.
"""
