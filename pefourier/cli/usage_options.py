"""What `pefourier usage` and `pefourier convert` are asked."""

from dataclasses import dataclass

from pefourier.cli.request import Drawing, Form
from pefourier.cli.streams import percentages


@dataclass(frozen=True)
class UsageOptions:
    """The options of `pefourier usage`."""

    model: str = ...
    length: int | None = None
    layers: range | None = None
    every_head: bool = False
    against: str | None = None
    stats: str | None = None
    quiet: bool = False


def tell_usage(given: UsageOptions, form: Form, drawing: Drawing) -> None:
    """Answer `pefourier usage`."""
    from pefourier.answers.telling import answer_of
    from pefourier.answers.usage import TOLD
    from pefourier.weights.usage import use_of_model

    begin = percentages(given.model, given.quiet)
    found = use_of_model(
        given.model,
        given.length,
        given.layers,
        given.every_head,
        given.against,
        given.stats,
        begin,
    )
    drawing.draw("usage", [answer_of(found)])
    form.deliver(TOLD.page([answer_of(found)]))
