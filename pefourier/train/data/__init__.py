"""The data of a training comparison: sources, windows, splits."""
