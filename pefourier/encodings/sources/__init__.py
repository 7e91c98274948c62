"""Where codes come from that no formula gives: files, model configs, user code."""
