"""Which frequencies do weights beside a config use? The part of a report that `usage` answers."""

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pefourier.answers import plot
from pefourier.answers.frame import text_of
from pefourier.answers.telling import answer_of
from pefourier.answers.usage import usage
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sources.weights import all_tensors
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError
from pefourier.pages import document
from pefourier.pages.inline_svg import draw_inline
from pefourier.weights.usage import Usage, use_of_model

PICTURE = "How much of the scores each layer makes in which pairs, over their wavelengths."


def weights_of(enc: Encoding) -> str | None:
    """What `usage` is asked for a rotation's weights; None where there are none."""
    path = str(enc.params.get("path", ""))
    if enc.act == "rotate" and path.endswith(".gguf"):
        return path
    if enc.act != "rotate" or not path or source_of(enc.spec) != "config":
        return None
    folder, part = os.path.dirname(path) or ".", enc.spec.partition("#")[2]
    if next(all_tensors(folder), None) is None:
        return None
    return f"{folder}#{part}" if part else folder


def usage_part(
    encodings: Sequence[Encoding], options: Mapping[str, Any], words: document.Words
) -> list[Any]:
    """What the weights of each model use, why that is not known of others; nothing without any."""
    told, length = [], options.get("length")
    more = [] if length is None else ["--length", str(length)]
    for spec in dict.fromkeys(filter(None, map(weights_of, encodings))):
        line = document.command(shlex.join(["pefourier", "usage", spec, *more]))
        try:
            told += [*one_model(use_of_model(spec, length), words), line]
        except PefourierError as error:
            told.append(document.about("Not answered:", str(error), "error"))
    return told


def one_model(found: Usage, words: document.Words) -> list[document.Markup | None]:
    """What the weights of a model use: in words, as a picture, and by kinds of pairs."""
    group, label = ["usage"], found.about[0].label
    asked = [answer_of(found)]
    tables = document.answer_tables(f"{label} in numbers", partial(text_of, asked), words, group)
    return [
        document.about(label, found.conclusion),
        draw_inline(f"usage-of-{label}", PICTURE, usage, asked, plot.USUAL, of=label),
        document.details("What pairs hold in numbers", tables),
    ]
