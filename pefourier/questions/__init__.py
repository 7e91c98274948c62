"""One module per question, with functions on arrays and frozen dataclasses of results."""
