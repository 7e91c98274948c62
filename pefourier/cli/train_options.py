"""The fields of `pefourier.train.options.Options` as options of the command line."""

from dataclasses import Field, fields, make_dataclass
from typing import Annotated, Any, get_args, get_origin

import typer

from pefourier.cli.options import spec_names
from pefourier.train.options import PUBLISHED, SYNTHETIC, Options, flag_of, help_of


def dataset_names(incomplete: str) -> list[str]:
    """Names that --dataset takes, for the shell's completion."""
    names = (*SYNTHETIC, *PUBLISHED, "uea:")
    return [name for name in names if name.startswith(incomplete)]


COMPLETIONS = {"encoding": spec_names, "dataset": dataset_names}


def annotation(field: Field) -> Any:
    """A field's type and help, as typer reads them; flags stand without their opposite."""
    kind, facts = field.type, help_of(field.name)
    facts["autocompletion"] = COMPLETIONS.get(field.name)
    flags = facts.pop("flags", [flag_of(field.name)] if kind is bool else [])
    if get_origin(kind) is tuple:  # tuple[str, ...]: an option that may be repeated
        kind = list[get_args(kind)[0]]
    return Annotated[kind, typer.Option(*flags, **facts)]


TrainOptions = make_dataclass(  # as `with_shared_options` reads them
    "TrainOptions", [(f.name, annotation(f), f.default) for f in fields(Options)], frozen=True
)
