"""Dataclasses whose docstrings say what each field means, in the words of `pefourier explain`.

The registry of terms stands floors above, in `FIELDS`, which is opened when a docstring is read.
"""

from importlib import import_module
from typing import Any

FIELDS = "pefourier.answers.terms"
ON_LINES: Any = {"default": None, "kw_only": True, "metadata": {"of": "line"}}  # of one axis alone
ON_GRIDS: Any = {"default": None, "kw_only": True, "metadata": {"of": "grid"}}  # of several axes


class FieldsTold:
    """The docstring of a dataclass, to which the registry of terms is added when it is read."""

    def __init__(self, own: str) -> None:
        self.own = own

    def __get__(self, instance: object, kind: type) -> str:
        """The docstring; alone while `dataclass`, which asks whether there is one, is at work."""
        if "__match_args__" not in vars(kind):  # which it sets last
            return self.own
        return str(import_module(FIELDS).with_fields(kind, self.own))


class Explained:
    """A dataclass whose fields `help` explains."""

    def __init_subclass__(cls, **given: Any) -> None:
        """Let the docstring know the fields."""
        super().__init_subclass__(**given)
        cls.__doc__ = FieldsTold(vars(cls).get("__doc__") or "")  # type: ignore[assignment]
