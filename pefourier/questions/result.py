"""What can be done with any result in Python: read its conclusion, keep it, draw it, look at it.

Results are frozen dataclasses of numbers and arrays, made by rooms that know no words. How they are
told stands floors above, in `RENDER`, which is opened when a result is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError
from pefourier.writing.page import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RENDER = "pefourier.report.render"
ON_LINES: Any = {"default": None, "kw_only": True, "metadata": {"of": "line"}}  # of one axis alone
BESIDE: Any = {"default": None, "compare": False, "kw_only": True, "metadata": {"told": False}}
ON_GRIDS: Any = {"default": None, "kw_only": True, "metadata": {"of": "grid"}}  # of several axes


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What was found, and about which encodings; `pefourier explain FIELD` explains it."""

    listed: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # tables: a field, labels and fields
    encodings: tuple[Encoding, ...] = field(default=(), compare=False, metadata={"told": False})

    @property
    def on_grid(self) -> bool:
        """Whether it is about points of several axes."""
        return any(len(enc.domain.sides) > 1 for enc in self.encodings[:1])

    @property
    def conclusion(self) -> str:
        """One to three plain sentences made by fixed rules, as the command begins with."""
        return str(self.record()["conclusion"])

    def record(self) -> dict[str, Any]:
        """The fields of `to_dict` with arrays as they are."""
        render = import_module(RENDER)
        return dict(render.renderer_of(self).record(render.answer_of(self)))

    def to_dict(self) -> dict[str, Any]:
        """The object that the command gives for ``--json``: lists, numbers, None where infinite."""
        return dict(plain(self.record()))

    def plot(self, *, width: float | None = None, title: str = "") -> Figure:
        """A matplotlib figure that belongs to no window: show or save it as you like.

        `width` is in inches, by default what suits the figure.
        """
        return import_module(RENDER).figure_of(self, width, title)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        """The kind of result, the SPECs and the first words of the conclusion."""
        return str(import_module(RENDER).in_a_line(self))

    def _repr_html_(self) -> str:
        """What the command prints, as notebooks show it."""
        return str(import_module(RENDER).as_html(self))

    def __getstate__(self) -> dict[str, Any]:
        """What goes to another process: no encoding's rule, which is a closure."""
        encodings = tuple(replace(enc, codes=codes_gone) for enc in self.encodings)
        return {**vars(self), "encodings": encodings}


def csv_table(items: Iterable[Any], fields: Iterable[str]) -> tuple[list[str], list[list[Any]]]:
    """Columns of CSV, some fields, and a row an item; an item's SPEC is that of a candidate."""
    fields = list(fields)
    names = ["candidate" if name == "spec" else name for name in fields]
    return names, [[getattr(item, name) for name in fields] for item in items]


def codes_gone(x: np.ndarray) -> np.ndarray:
    """Stands for codes that stayed in another process."""
    raise PefourierError("a result that was pickled or copied has no codes; ask the question again")
