"""Docstrings of results: their fields in the words of the registry of terms."""

from dataclasses import fields
from functools import cache
from inspect import cleandoc
from textwrap import fill

from pefourier.answers.terms import Term, read_terms

GROUPS = {  # of terms, by the room of a dataclass: the first that has its field explains it
    "bands": ("spectrum",),
    "reconstruct": ("reconstruct", "spectrum"),
    "faithful": ("check-faithful", "reconstruct"),
    "precision": ("check-faithful",),
    "encoding": ("check-faithful",),
    "relations": ("relations", "check-faithful"),
    "compare": ("compare", "check-faithful"),
    "causes": ("compare", "check-faithful"),
    "likeness": ("compare",),
    "operators": ("compare",),
    "context": ("context", "check-faithful"),
    "temperature": ("context",),
    "design": ("design", "context", "check-faithful"),
    "extend": ("design", "context", "check-faithful"),
    "resize": ("resize", "words"),
    "weights": ("usage", "check-faithful"),
    "summary": ("train",),
    "statistics": ("train",),
    "power": ("train",),
    "causal": ("train",),
}
WIDTH = 92


@cache  # the registry does not change while the program runs
def terms_of_fields() -> dict[tuple[str, str], Term]:
    """Terms by group and name, other spellings included."""
    known: dict[tuple[str, str], Term] = {}
    for term in read_terms():
        for name in (term.term, *term.also):
            known.setdefault((term.group, name), term)
    return known


def with_fields(kind: type, own: str) -> str:
    """A docstring and what each field of its dataclass means.

    >>> from pefourier.faithful import Faithfulness
    >>> "gap : float | None" in with_fields(Faithfulness, "Codes.").splitlines()
    True
    """
    lines = []
    for one in fields(kind):
        term = term_of_field(kind, one.name)
        if term is not None:
            lines += [f"{one.name} : {getattr(one.type, '__name__', one.type)}", *lines_about(term)]
    return "\n".join([cleandoc(own), "", "Attributes", "----------", *lines, ""])


def term_of_field(kind: type, name: str) -> Term | None:
    """The term of a field among those of its room, or of every answer."""
    rooms = kind.__module__.split(".")
    room = next((name for name in rooms if name in GROUPS), rooms[-1])
    groups = [*GROUPS.get(room, (room,)), "every answer"]
    known = terms_of_fields()
    return next((known[group, name] for group in groups if (group, name) in known), None)


def lines_about(term: Term) -> list[str]:
    """What a term says, indented: its meaning, then what applies of the rest."""
    facts = {name: getattr(term, name) for name in ("formula", "unit", "range", "good")}
    parts = [term.meaning, *(f"{k.capitalize()}: {v.rstrip('.')}." for k, v in facts.items() if v)]
    text = fill(" ".join(parts), WIDTH, initial_indent="    ", subsequent_indent="    ")
    return text.splitlines()
