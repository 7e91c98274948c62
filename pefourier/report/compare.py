"""How is a comparison drawn and kept? The pictures and records of `pefourier compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.report.encode import MOST_ROWS, draw_table
from pefourier.report.frame import Answer, framed, identity_of, record_of_fields, text_of
from pefourier.report.plot import USUAL, WIDTH, Look, make_panels
from pefourier.writing.page import Reason

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.questions.compare import Comparison


def compare_record(answer: Answer) -> dict[str, Any]:
    """The JSON object of a comparison: both encodings, the conclusion, the fields of the result."""
    a, b = answer.result.about
    return record_of_fields(answer, identity_of(a) | {"other": identity_of(b)})


def reasons_against(r: Comparison) -> list[Reason]:
    """Why weights trained with one do not go with the other; none where they do."""
    message = f"{r.about[0].label} and {r.about[1].label}: {r.verdict}"
    return [] if r.same else [Reason(r.about[0].label, "unmet", message)]


def compare_text(answers: Sequence[Answer]) -> str:
    """The rows of a comparison, under the names of both."""
    (answer,) = answers
    a, b = answer.result.about
    return text_of([replace(answer, encoding=replace(a, spec=f"{a.spec} | {b.spec}"))])


def compare(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Both tables and, where they have as many columns, their difference, as far as both go."""
    encoded = [Answer(enc, enc.table()) for enc in answers[0].result.about]
    common = min(len(a.result) for a in encoded)
    first, second = (a.result[:common] for a in encoded)
    has_difference = first.shape == second.shape
    count = 2 + has_difference
    figure, panels = make_panels(count, 1, (WIDTH, 1.2 + 2.2 * count), look)
    for axes, a in zip(panels[:, 0], encoded, strict=False):
        draw_table(axes, a, a.result[:common])
    if has_difference:
        difference, is_large = second - first, common > MOST_ROWS
        title = "|second − first|" if is_large else "second − first (red: larger in the second)"
        shown = np.abs(difference) if is_large else difference
        draw_table(panels[2, 0], encoded[0], shown, np.maximum, title)
    return figure


TOLD = replace(framed("compare", figure=compare), words=compare_text, record=compare_record)
