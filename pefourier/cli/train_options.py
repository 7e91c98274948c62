"""The fields of `pefourier.train.options.Options` as options of the command line."""

from dataclasses import Field, fields, make_dataclass
from typing import Annotated, Any, get_args, get_origin

import typer

from pefourier.cli.options import spec_names
from pefourier.errors import unknown
from pefourier.train.data import PUBLISHED, SYNTHETIC
from pefourier.train.options import GROUPS, SETTINGS, Options, flag_of, help_of

IN_STEPS = {"epochs": "steps", "patience": "patience_steps"}  # the same in another unit


def fill_options(typed: Any, setting: str | None, context: typer.Context) -> Options:
    """The options of the command line; a published setting has those that are left out."""
    preset = SETTINGS.get(setting, {})
    if setting is not None and not preset:
        raise unknown("setting", setting, SETTINGS)
    sources = {key: context.get_parameter_source(key) for key in context.params}
    shell = {key for key, source in sources.items() if source and source.name == "COMMANDLINE"}
    free = {k: v for k, v in preset.items() if not {k, IN_STEPS.get(k)} & shell}
    return Options(**vars(typed) | free)


def dataset_names(incomplete: str) -> list[str]:
    """Names that --dataset takes, for the shell's completion."""
    names = (*SYNTHETIC, *PUBLISHED, "uea:")
    return [name for name in names if name.startswith(incomplete)]


COMPLETIONS = {"encoding": spec_names, "dataset": dataset_names}


def annotation(field: Field) -> Any:
    """A field's type and help, as typer reads them; flags stand without their opposite."""
    kind, facts = field.type, help_of(field.name)
    facts["autocompletion"] = COMPLETIONS.get(field.name)
    facts["rich_help_panel"] = next(g for g, names in GROUPS.items() if field.name in names)
    flags = facts.pop("flags", [flag_of(field.name)] if kind is bool else [])
    if get_origin(kind) is tuple:  # tuple[str, ...]: an option that may be repeated
        kind = list[get_args(kind)[0]]
    return Annotated[kind, typer.Option(*flags, **facts)]


PLACES = [name for names in GROUPS.values() for name in names]
ORDERED = sorted(fields(Options), key=lambda f: PLACES.index(f.name))
TrainOptions = make_dataclass(  # as `with_shared_options` reads them
    "TrainOptions", [(f.name, annotation(f), f.default) for f in ORDERED], frozen=True
)
