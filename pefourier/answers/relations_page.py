"""How is it told how codes relate to one another? The answer of `pefourier relations`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pefourier.answers.grid_words import axis_names, by_name
from pefourier.answers.page import Page
from pefourier.answers.report import (
    Answer,
    Fact,
    Refusal,
    any_grid,
    of_axes,
    page_of,
    side_by_side,
    why_no_lags,
    why_no_shift,
)
from pefourier.answers.text import number


def relations_page(asked: Sequence[Answer | Refusal]) -> Page:
    """The answer of `pefourier relations`."""
    return page_of("relations", asked, relations_text, relations_rows)


def relations_text(answers: Sequence[Answer]) -> str:
    """The facts of each encoding."""
    return side_by_side(relations_facts(answers), answers)


def relations_facts(answers: Sequence[Answer]) -> list[Fact]:
    """What is told; of grids diagonals, too, and what turns a head is held to a rotation."""
    return [*RELATIONS_FACTS, *(GRID_FACTS if any_grid(answers) else ())]


def why_no_rotation(answer: Answer) -> str:
    """Why nothing was held to a rotation."""
    return "nothing is turned"


def why_no_lag(answer: Answer) -> str:
    """Why there is no lag from which inner products rise."""
    return "no inner products by lag" if answer.result.kernel is None else "they never rise"


def why_no_asymmetry(answer: Answer) -> str:
    """Why opposite lags were not compared."""
    return "no opposite lags"


def why_no_correlation(answer: Answer) -> str:
    """Why distances were not correlated."""
    sequence = answer.encoding.domain.kind in ("position", "time")
    return "distances are equal" if sequence else f"not for {answer.encoding.domain.kind}s"


def straight_of(r: Any) -> str | None:
    """Inner products some points along the last two axes."""
    found = getattr(r, "diagonals", None)
    if found is None:
        return None
    return f"{by_name(axis_names(len(r.grid))[-2:], found.on_axes)} after {found.straight} points"


def diagonal_of(r: Any) -> str | None:
    """The inner product as far on the diagonals."""
    found = getattr(r, "diagonals", None)
    if found is None:
        return None
    return f"{number(found.on_diagonals, 3)} after ({found.diagonal},{found.diagonal})"


def why_no_diagonal(answer: Answer) -> str:
    """Why diagonals were not compared with rows and columns."""
    return "no inner products by lag" if answer.result.kernel is None else "sides are too short"


RELATIONS_FACTS = [
    Fact("positions", lambda r: r.length),
    Fact("dimensions", lambda r: r.dimension),
    Fact("Toeplitz residual", lambda r: r.toeplitz_residual, why_no_lags),
    Fact("inner products rise first at lag", lambda r: of_axes(r.first_rise), why_no_lag),
    Fact("residual of T(1) (Denk)", lambda r: of_axes(r.shift_residual), why_no_shift),
    Fact("asymmetry of lags", lambda r: r.asymmetry, why_no_asymmetry),
    Fact("distances correlate by", lambda r: r.distance_preservation, why_no_correlation),
]
GRID_FACTS = [
    Fact("as far along the axes", lambda r: straight_of(r), why_no_diagonal),
    Fact("as far on the diagonals", lambda r: diagonal_of(r), why_no_diagonal),
    Fact("away from a rotation", lambda r: getattr(r, "rotation_residual", None), why_no_rotation),
]


def relations_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding and lag; on a grid for each displacement, its lags with × between."""
    yield "encoding", "spec", "lag", "inner_product"
    for a in answers:
        kernel = a.result.kernel
        if kernel is None:
            continue
        middle = [n // 2 if kernel.ndim > 1 else 0 for n in kernel.shape]
        for index in np.ndindex(kernel.shape):
            lag = "×".join(str(i - m) for i, m in zip(index, middle, strict=True))
            yield a.encoding.name, a.encoding.spec, lag, kernel[index]
