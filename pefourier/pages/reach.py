"""How far do the rotations on a page reach? The part of a report that `context` answers."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pefourier.analysis.context import Context, describe_context
from pefourier.answers.context import TOLD
from pefourier.answers.context_figures import wavelengths
from pefourier.answers.telling import Answer, conclude
from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError
from pefourier.pages.document import (
    Words,
    about,
    answer_tables,
    command,
    details,
    grouped,
)
from pefourier.pages.inline_svg import INLINE_WIDE, draw_inline

GROUPS = ["context", "check-faithful"]
PICTURE = (
    "Each pair at its wavelength, by what the scaling does to it; dashed: trained, line: asked."
)
TAKEN = ("d", "length")  # options that `context` has, too


@dataclass(frozen=True)
class Reach:
    """A rotation's SPEC, or a model's, and its layers."""

    encoding: Encoding
    found: Context

    @property
    def label(self) -> str:
        """The SPEC."""
        return self.encoding.label


def find_reach(
    encodings: Sequence[Encoding], options: Mapping[str, Any]
) -> tuple[list[Reach], list[str]]:
    """The layers of those that rotate and are named as `context` takes them; why not of others.

    `context` has no option for a base, so that with one given on the command line nothing is said.
    """
    unknown = [name for name, value in options.items() if value is not None and name not in TAKEN]
    turning = [enc for enc in encodings if enc.act == "rotate" and len(enc.domain.sides) == 1]
    found, refused = [], []
    for enc in () if unknown else turning:
        try:
            own, known = describe_context(enc.spec, options.get("length"), None, options.get("d"))
        except PefourierError as error:
            refused.append(str(error))
            continue
        found.append(Reach(replace(own[0], spec=enc.spec), known))
    return [reach for reach in found if reach.found.rotations], refused


def reach_part(
    reaches: Sequence[Reach], refused: Sequence[str], options: Mapping[str, Any], words: Words
) -> list[Any]:
    """What is told of rotations, and of which nothing is and why; nothing where there are none."""
    unsaid = [about("Not answered:", reason, "error") for reason in refused]
    if not reaches:
        return unsaid
    given = [(f"--{name}", str(options[name])) for name in TAKEN if options.get(name) is not None]
    line = ["pefourier", "context", *(reach.encoding.spec for reach in reaches)]
    asked = [Answer(one.encoding, one.found) for one in reaches]
    return [
        [about(a.encoding.label, grouped(conclude(a.encoding, a.result))) for a in asked],
        *unsaid,
        draw_inline("bands", PICTURE, wavelengths, asked, INLINE_WIDE),
        details(
            "Layers, rotations and bands in numbers, and the command that gives them",
            [
                answer_tables(
                    f"{a.encoding.label} in numbers", partial(TOLD.words, [a]), words, GROUPS
                )
                for a in asked
            ],
            command(shlex.join([*line, *(part for pair in given for part in pair)])),
        ),
    ]
