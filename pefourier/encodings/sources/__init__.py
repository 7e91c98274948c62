"""Sources of encodings other than formulas: files, model configs, user code."""
