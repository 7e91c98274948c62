"""Registry of terms for `pefourier explain`, read without numpy.

terms.toml has the fields of JSON with the names of rows and columns in text, verdicts and technical
terms. Findings are in encodings/findings.toml, verdicts in words.toml, encodings and their
parameters in the catalogue. A test checks that every field, finding and column has a term.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pefourier.errors import PefourierError, unknown
from pefourier.report.catalogue import assignment, name_behind, read_catalogue, spec_text
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import capital, paragraph

REGISTRY = Path(__file__).with_suffix(".toml")
SCHEMA = REGISTRY.with_name("answers.schema.json")
WORDS = Path(__file__).parents[1] / "words.toml"
FINDINGS = Path(__file__).parents[1] / "encodings/findings.toml"
OF_REPORTS = ("severity", "message")  # of a reported finding, not of its explanation


@dataclass(frozen=True)
class Term:
    """A term of an answer or a question; attributes that do not apply are empty."""

    term: str
    group: str  # command, or kind of term
    meaning: str
    formula: str = ""
    unit: str = ""
    range: str = ""
    good: str = ""  # good values, and what to do about other values
    source: str = ""
    also: Sequence[str] = ()  # other spellings: names of rows and columns in text

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the term, and other spellings."""
        return (self.term, *self.also)


def read_terms() -> list[Term]:
    """Read all terms: registry, findings, parameters, encodings, conventions, verdicts."""
    groups, findings = (
        tomllib.loads(path.read_text(encoding="utf-8")) for path in (REGISTRY, FINDINGS)
    )
    terms = [
        Term(term, group, **{key: fact for key, fact in facts.items() if key not in OF_REPORTS})
        for group, table in {**groups, "findings": findings}.items()
        for term, facts in table.items()
    ]
    records = read_catalogue()
    terms += [*parameter_terms(records), *encoding_terms(records)]
    return [*terms, *verdict_terms({spelling(term.term) for term in terms})]


def verdict_terms(spellings: set[str]) -> Iterable[Term]:
    """Yield verdicts in capitals, as in conclusions; "…" replaces slots."""
    for command, verdicts in tomllib.loads(WORDS.read_text(encoding="utf-8")).items():
        for name, entry in verdicts.items():
            if spelling(name) not in spellings:
                meaning = " ".join(re.sub(r"\{[^}]*\}", "…", entry["meaning"]).split())
                meaning = f"A verdict of {command}: {meaning.rstrip('.')}."
                title = entry.get("title", name)
                yield Term(title.upper(), "conclusions", meaning, also=[name] * (title != name))


def encoding_terms(records: Sequence[dict[str, Any]]) -> Iterable[Term]:
    """Yield registered encodings, and choices of their parameters in published models."""
    for record in records:
        name = record["encoding"]
        good = f"'pefourier list {name}' shows its parameters."
        facts = {"formula": record["formula"], "good": good, "source": record["paper"]}
        yield Term(name, "encodings", record["meaning"], **facts)
    for record in records:
        for convention in record.get("conventions", ()):
            name = convention["convention"]
            values = ", ".join(assignment(*item) for item in convention["params"].items())
            note = f" {capital(convention['note'])}." if "note" in convention else ""
            spec = f"{record['encoding']}:convention={name}"
            meaning = f"A published model's choice of parameters, {spec}: {values}.{note}"
            yield Term(name, "conventions", meaning, source=convention["source"])


def parameter_terms(records: Iterable[dict[str, Any]]) -> list[Term]:
    """Return parameters of encodings; parameters with equal name and meaning are merged."""
    users: dict[tuple[str, str], dict[str, str]] = {}
    for record in records:
        for key, meaning in record["meanings"].items():
            default = spec_text(record["params"][key]) or "not given"
            users.setdefault((key, meaning), {})[record["encoding"]] = default
    return [
        Term(
            key,
            "parameters",
            f"{meaning} Parameter of {', '.join(defaults)}.",
            range=f"default {', '.join(dict.fromkeys(defaults.values()))}",
        )
        for (key, meaning), defaults in users.items()
    ]


def spelling(word: str) -> str:
    """Normalize a word: lower case, spaces, no final punctuation.

    >>> spelling("--require_dtype"), spelling("Toeplitz residual")
    ('require dtype', 'toeplitz residual')
    """
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split()).rstrip(",.;:?")


def find_terms(word: str, terms: Sequence[Term]) -> list[Term]:
    """Find terms by name: spelled exactly, similarly, or beginning with the word."""
    short = spelling(word)
    rules = (
        lambda name: name == word,
        lambda name: spelling(name) == short,
        lambda name: spelling(name).startswith((f"{short},", f"{short}s")),
    )
    for rule in rules:
        if matches := [term for term in terms if any(map(rule, term.names))]:
            return matches
    if (target := name_behind(word)) != word:
        return find_terms(target, terms)
    names = {name for term in terms for name in term.names}
    raise unknown("term", word, names, "'pefourier explain all' lists all.")


def explain_page(words: Sequence[str], command_terms: Sequence[Term] = ()) -> Page:
    """Build the answer of `pefourier explain`: the named terms, by default all."""
    terms = [*read_terms(), *command_terms]
    is_all = list(words) in ([], ["all"])
    terms = terms if is_all else terms_of_words(words, terms)
    return Page(
        "explain",
        words=lambda: overview(terms) if is_all else "\n".join(map(explanation, terms)),
        records=lambda: [fields_of(t) | {"conclusion": f"{t.term}: {t.meaning}"} for t in terms],
        rows=lambda: flattened(fields_of(t) | {"also": "; ".join(t.also)} for t in terms),
    )


def terms_of_words(words: Sequence[str], terms: Sequence[Term]) -> list[Term]:
    """Find the terms of all words joined, as a term can have several words, or of each word."""
    together = " ".join(words)
    single = list(dict.fromkeys(together.split()))
    try:
        return find_terms(together, terms)
    except PefourierError:
        names = {spelling(name) for term in terms for name in term.names}
        if len(single) < 2 or names.isdisjoint(map(spelling, single)):
            raise
    return [term for word in single for term in find_terms(word, terms)]


def explanation(term: Term) -> str:
    """Format a term: its meaning, and each fact that applies on a separate line."""
    names = ("formula", "unit", "range", "good", "source")
    facts = {name: getattr(term, name) for name in names}
    facts["also"] = ", ".join(name.strip() for name in term.also)
    lines = [paragraph(f"{term.term} ({term.group}): {term.meaning}", "  ")]
    lines += [paragraph(f"  {name:<8} {fact}", " " * 11) for name, fact in facts.items() if fact]
    return "".join(lines)


def overview(terms: Sequence[Term]) -> str:
    """List the names of all terms by group."""
    parts = []
    for group, members in groupby(terms, key=lambda term: term.group):
        names = dict.fromkeys(term.term for term in members)
        parts.append(paragraph(f"{group}: {', '.join(names)}", "  "))
    return "\n".join(parts)
