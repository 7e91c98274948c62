"""How is it told which rows of weights were reordered? The answer of `pefourier convert`."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from pefourier.answers.telling import sentence
from pefourier.errors import shown
from pefourier.weights.convert import Conversion
from pefourier.writing.page import Page
from pefourier.writing.text import join, paragraph


def convert_page(found: Conversion) -> Page:
    """The answer of `pefourier convert`."""
    return Page(
        "convert",
        words=lambda: "".join(f"{name}\n" for name in found.tensors),
        records=lambda: [convert_record(found)],
        rows=partial(convert_rows, found),
        conclusion=lambda: paragraph(conclude_conversion(found), "  "),
    )


def conclude_conversion(found: Conversion) -> str:
    """What was written, for which code it is, and what to set."""
    files = join(shown(file)[1:-1] for file in found.files)
    text = sentence("convert", "done", files=files, found=found)
    if found.told == found.target:
        text += sentence("convert", "told so", found=found)
    return text


def convert_record(found: Conversion) -> dict[str, Any]:
    """The JSON object of a conversion."""
    params = {"from": found.source, "to": found.target}
    identity = {"encoding": "weights", "spec": found.spec, "params": params}
    own = ("files", "layers", "heads", "tensors", "copied", "told")
    facts = {name: getattr(found, name) for name in own}
    return identity | {"conclusion": conclude_conversion(found)} | facts


def convert_rows(found: Conversion) -> Iterable[Sequence[Any]]:
    """A row for each tensor whose rows were reordered."""
    yield "spec", "from", "to", "tensor"
    for name in found.tensors:
        yield found.spec, found.source, found.target, name
