"""Texts of parsed TOML and JSON."""


def strings_of(value):
    """Yield all strings of a parsed file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_of(inner)
