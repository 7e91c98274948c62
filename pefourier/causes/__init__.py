"""Causes: what was done to expected numbers, if doing it gives the observed ones."""
