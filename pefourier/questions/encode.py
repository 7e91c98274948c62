"""Which codes were written, and where?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pefourier.encodings.encoding import Finding
from pefourier.encodings.places import POINTS
from pefourier.questions.result import Result
from pefourier.writing.text import printable


@dataclass(frozen=True, repr=False)
class Written(Result):
    """Codes of some points in a file, one row a point."""

    verdict: ClassVar[str] = "written"
    shown: ClassVar[dict[str, str]] = {"positions": "rows", "dimensions": "dimension"}

    out: str
    shape: tuple[int, int]  # rows and numbers in each
    positions: np.ndarray  # (n,) the points of the rows

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the encoding, or worth knowing."""
        return self.encodings[0].findings

    @property
    def rows(self) -> int:
        """Codes in the file."""
        return self.shape[0]

    @property
    def dimension(self) -> int:
        """Numbers of each."""
        return self.shape[1]

    @property
    def points(self) -> str:
        """What rows are codes of."""
        return POINTS[self.encodings[0].domain.kind]

    @property
    def path(self) -> str:
        """The file's name as text."""
        return printable(self.out)
