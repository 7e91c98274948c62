"""What can be done with any result in Python: read its conclusion, keep it, draw it, look at it.

Results are frozen dataclasses of numbers and arrays; `report.render` makes words and records of
any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError
from pefourier.report import render
from pefourier.writing.page import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HIDDEN = {"told": False}  # metadata of fields that no form shows


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What was found, and about which encodings; `pefourier explain FIELD` explains it."""

    listed: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # tables: a field, labels and fields
    on_grid: ClassVar[bool] = False  # whether it is about points of several axes
    encodings: tuple[Encoding, ...] = field(default=(), compare=False, metadata=HIDDEN)

    @classmethod
    def kind(cls) -> str:
        """The name of the kind of result, one for lines and grids."""
        return next(kind.__name__ for kind in cls.__mro__ if Result in kind.__bases__)

    @property
    def conclusion(self) -> str:
        """One to three plain sentences made by fixed rules, as the command begins with."""
        return str(self.record()["conclusion"])

    def record(self) -> dict[str, Any]:
        """The fields of `to_dict` with arrays as they are."""
        return render.renderer_of(self).record(render.answer_of(self))

    def to_dict(self) -> dict[str, Any]:
        """The object that the command gives for ``--json``: lists, numbers, None where infinite."""
        return dict(plain(self.record()))

    def plot(self, *, width: float | None = None, title: str = "") -> Figure:
        """A matplotlib figure that belongs to no window: show or save it as you like.

        `width` is in inches, by default what suits the figure.
        """
        return render.figure_of(self, width, title)

    def __repr__(self) -> str:
        """The kind of result, the SPECs and the first words of the conclusion."""
        return render.in_a_line(self)

    def _repr_html_(self) -> str:
        """What the command prints, as notebooks show it."""
        return render.as_html(self)

    def __getstate__(self) -> dict[str, Any]:
        """What goes to another process: no encoding's rule, which is a closure."""
        encodings = tuple(replace(enc, codes=codes_gone) for enc in self.encodings)
        return {**vars(self), "encodings": encodings}


def csv_table(items: Iterable[Any], fields: Iterable[str]) -> tuple[list[str], list[list[Any]]]:
    """Columns of CSV, some fields, and a row an item; an item's SPEC is that of a candidate."""
    fields = list(fields)
    names = ["candidate" if name == "spec" else name for name in fields]
    return names, [[getattr(item, name) for name in fields] for item in items]


def codes_gone(_: NDArray[Any]) -> NDArray[np.float64]:
    """Stands for codes that stayed in another process."""
    raise PefourierError("a result that was pickled or copied has no codes; ask the question again")
