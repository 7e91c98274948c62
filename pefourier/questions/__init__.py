"""One question each: how it is answered, by functions on arrays and frozen dataclasses."""
