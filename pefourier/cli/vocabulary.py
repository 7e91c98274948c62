"""Commands and their options as terms: what `pefourier explain` says of them is their help."""

from collections.abc import Iterator
from typing import Any

import typer

from pefourier.answers.terms import Term
from pefourier.errors import nearest

ALSO = {"compare": ("diff",), "report": ("analyze", "analyse", "visualize"), "list": ("ls",)}
INSTEAD = {
    ("train", "--length"): "series have the length of --dataset, such as order:length=24",
    ("context", "--grid"): "'pefourier resize CONFIG --from 16x16 --to 32x32' tells of other sizes",
}


def instead_of(option: str, command: str) -> str:
    """What to do where a command does not take an option of others."""
    return INSTEAD.get((command, option), f"{command} does not take it")


def command_terms(app: typer.Typer) -> list[Term]:
    """A term for each command: the question that it answers, and its example."""
    helps = {n: one.help or "" for n, one in typer.main.get_command(app).commands.items()}
    parts = {n: (h.partition("\n")[0], h.rpartition("Example: ")[2]) for n, h in helps.items()}
    return [
        Term(n, "commands", first, good=last.strip(), also=ALSO.get(n, ()))
        for n, (first, last) in parts.items()
    ]


def option_terms(app: typer.Typer) -> list[Term]:
    """A term for each option; those of one name and help in several commands are one."""
    users: dict[tuple[Any, ...], list[str]] = {}
    for command, option in options_of(typer.main.get_command(app)):
        key = (tuple(option.opts), option.help or "", values_of(option))
        users.setdefault(key, []).append(command)
    terms = []
    for (names, meaning, values), commands in users.items():
        name = next(name for name in names if name.startswith("--"))
        meaning = f"{meaning} Option of {', '.join(commands)}."
        others = tuple(other for other in names if other != name)
        terms.append(Term(name, "options", meaning, range=values, also=others))
    return terms


def options_of(program: Any) -> Iterator[tuple[str, Any]]:
    """Options with the command that has them, those of the program itself first."""
    commands = {"pefourier": program, **program.commands}
    for name, command in commands.items():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield name, parameter


def command_meant(app: typer.Typer, word: str) -> str:
    """What somebody may have meant by a word that is no command: an option, or a command."""
    program, short = typer.main.get_command(app), word.lower()
    names = {name.partition("-")[0]: name for name in program.commands}
    found = {opt: name for name, one in [*options_of(program)][::-1] for opt in one.opts}
    begun = [opt for opt in found if opt.startswith(f"--{short}-")]
    asked = [t.term for t in command_terms(app) if short in (*t.meaning.lower().split(), *t.also)]
    near = nearest(short, program.commands) or names.get(nearest(short, names) or "")
    if f"--{short}" in found or (begun and not near):
        option = f"--{short}" if f"--{short}" in found else begun[0]
        command = " ".join(dict.fromkeys(("pefourier", found[option])))
        return f"It is an option: '{command} {option}'."
    near = next(iter(asked), near)
    return f"Did you mean {near!r}?" if near else ""


def owners_of(app: typer.Typer, option: str) -> list[str]:
    """The commands that take an option."""
    every = options_of(typer.main.get_command(app))
    return [command for command, one in every if option in one.opts and command != "pefourier"]


def values_of(option: Any) -> str:
    """The values that an option takes, where it has a choice, and its default."""
    choices = ", ".join(getattr(option.type, "choices", ()))
    default = option.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    return "; ".join(filter(None, (choices, f"default {default}" if plain else "")))
