"""The fields of `pefourier.train.options.Options` as options of the command line."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Annotated, Any, get_args, get_origin

import typer

from pefourier.train.options import Options


def taking_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command (options, own options) an option for each field of `Options`."""
    own = list(inspect.signature(command).parameters.values())[1:]
    given = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default).replace(
            annotation=annotation(f)
        )
        for f in fields(Options)
    ]

    @functools.wraps(command)
    def typed(**values: Any) -> None:
        chosen = {p.name: values.pop(p.name) for p in given}
        lists = {key: tuple(v) if isinstance(v, list) else v for key, v in chosen.items()}
        command(Options(**lists), **values)

    every = [*given, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
    typed.__signature__ = inspect.Signature(every)
    typed.__annotations__ = {p.name: p.annotation for p in every}
    return typed


def annotation(field: Field) -> Any:
    """A field's type and help, as typer reads them; flags stand without their opposite."""
    kind, facts = field.type, dict(field.metadata)
    flags = facts.pop("flags") or ((f"--{field.name.replace('_', '-')}",) if kind is bool else ())
    if get_origin(kind) is tuple:  # tuple[str, ...]: an option that may be repeated
        kind = list[get_args(kind)[0]]
    return Annotated[kind, typer.Option(*flags, **facts)]
