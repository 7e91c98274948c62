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
    """The options of the command line, with what a published setting says of the others."""
    return Options(**vars(typed) | preset(setting, context))


def preset(setting: str | None, context: typer.Context) -> dict[str, Any]:
    """What a published setting says of options that the command line leaves alone."""
    if setting is None:
        return {}
    import unicodedata

    name = unicodedata.normalize("NFC", setting).lower()
    if name not in SETTINGS:
        raise unknown("setting", setting, SETTINGS)
    sources = {key: context.get_parameter_source(key) for key in context.params}
    typed = {key for key, source in sources.items() if source and source.name == "COMMANDLINE"}
    return {
        key: value
        for key, value in SETTINGS[name].items()
        if not any(map(typed.__contains__, (key, IN_STEPS.get(key))))
    }


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


PLACES = {name: place for place, names in enumerate(GROUPS.values()) for name in names}
TrainOptions = make_dataclass(  # as `with_shared_options` reads them
    "TrainOptions",
    [
        (f.name, annotation(f), f.default)
        for f in sorted(fields(Options), key=lambda f: PLACES[f.name])
    ],
    frozen=True,
)
