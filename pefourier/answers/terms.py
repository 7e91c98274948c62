"""What does a word of an answer mean? One registry of terms, read without numpy.

terms.toml has the fields of JSON with the names of rows and columns in text, verdicts and words of
the field; findings stand in encodings/findings.toml, encodings and their parameters in the
catalogue. A test holds that no field, finding or column is without a term.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from pefourier.answers.catalogue import assignment, read_catalogue, spec_text
from pefourier.errors import PefourierError, unknown
from pefourier.writing.page import Page, Reason, fields_of
from pefourier.writing.text import capital, paragraph

REGISTRY = Path(__file__).with_suffix(".toml")
SCHEMA = REGISTRY.with_name("answers.schema.json")
SENTENCES = REGISTRY.with_name("sentences.toml")
WORDS = Path(__file__).parents[1] / "words.toml"
FINDINGS = Path(__file__).parents[1] / "encodings/findings.toml"
SAID = ("severity", "message")  # of a finding where it is met, not where it is explained
MENTIONS = 5  # terms that are told where they speak of an unknown word

FIRST = {  # of the terms of a question
    "check-faithful": ("collides", "injective", "invertible", "isometric", "gap", "rank"),
    "spectrum": ("density", "centroid", "cutoff95", "lowest_bin_share"),
    "reconstruct": ("width", "side_lobe", "inverse_error"),
    "relations": ("kernel", "first_rise", "distance_preservation"),
    "context": ("bands", "unseen", "bound", "idle"),
    "compare": ("equivalent", "permutation", "cause"),
    "usage": ("never_turn", "effective_pairs"),
    "train": ("f1", "p_holm", "needed"),
}


@dataclass(frozen=True)
class Term:
    """A word of an answer or a question; what does not apply is empty."""

    term: str
    group: str  # the command it belongs to, or the kind of word
    meaning: str
    formula: str = ""
    unit: str = ""
    range: str = ""
    good: str = ""  # which values are good, and what to do about others
    source: str = ""
    also: Sequence[str] = ()  # other spellings: names of rows and columns in text


def read_terms() -> list[Term]:
    """All terms: those of the registry, findings, parameters, encodings and conventions."""
    paths = (REGISTRY, FINDINGS, SENTENCES, WORDS)
    groups, findings, sentences, words = (
        tomllib.loads(path.read_text(encoding="utf-8")) for path in paths
    )
    sentences |= {
        command: {verdict: one["meaning"] for verdict, one in verdicts.items()}
        for command, verdicts in words.items()
    }
    own = [
        Term(term, group, **{key: fact for key, fact in facts.items() if key not in SAID})
        for group, terms in {**groups, "findings": findings}.items()
        for term, facts in terms.items()
    ]
    records = read_catalogue()
    own += [*parameter_terms(records), *map(encoding_term, records)]
    return [*own, *convention_terms(records), *conclusion_terms(sentences, [t.term for t in own])]


def conclusion_terms(sentences: dict[str, dict[str, str]], known: Iterable[str]) -> Iterable[Term]:
    """What conclusions open with, in capitals, by the command; "…" stands for what is filled in."""
    for command, verdicts in sentences.items():
        for verdict, told in verdicts.items() if command != "parts" else ():
            name, _, variant = verdict.partition(" | ")
            if name in known or name.lower() in known:
                continue
            words = re.sub(r"\{[^}]*\}", " … ", told)
            words = re.sub(r" +([.,;:)]|$)", r"\1", " ".join(words.split()))
            whose = f"A verdict of {command}{f' ({variant})' if variant else ''}"
            yield Term(name.upper(), "conclusions", f"{whose}: {words.rstrip('.')}.")


def encoding_term(record: dict[str, Any]) -> Term:
    """A registered encoding."""
    return Term(
        record["encoding"],
        "encodings",
        record["meaning"],
        formula=record["formula"],
        good=f"'pefourier list {record['encoding']}' shows its parameters.",
        source=record["paper"],
    )


def convention_terms(records: Iterable[dict[str, Any]]) -> Iterable[Term]:
    """Published models' choices of an encoding's parameters."""
    for record in records:
        for one in record.get("conventions", ()):
            spec = f"{record['encoding']}:convention={one['convention']}"
            own = ", ".join(assignment(*item) for item in one["params"].items())
            note = f" {capital(one['note'])}." if "note" in one else ""
            meaning = f"A published model's choice of parameters, {spec}: {own}.{note}"
            good = f"'pefourier list {record['encoding']}' shows the others."
            yield Term(one["convention"], "conventions", meaning, good=good, source=one["source"])


def parameter_terms(records: Iterable[dict[str, Any]]) -> list[Term]:
    """Parameters of encodings; those of one name and meaning are one term."""
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
    """A word without what people leave out or type otherwise.

    >>> spelling("--require_dtype"), spelling("Toeplitz residual")
    ('require dtype', 'toeplitz residual')
    """
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split()).rstrip(",.;:?")


def begins(name: str, word: str) -> bool:
    """Whether a name is a word and what it is of, or a longer form of it.

    >>> begins("safe length, rounded", "safe length"), begins("sinusoidal", "sinusoid")
    (True, True)
    """
    return name.startswith(f"{word},") or name in (f"{word}s", f"{word}al", f"{word}ed")


def find_terms(wanted: str, terms: Sequence[Term]) -> list[Term]:
    """The terms of one name: spelled just so, nearly so, or beginning so; or a value of one."""
    for read in (str, spelling):
        found = [t for t in terms if read(wanted) in map(read, (t.term, *t.also))]
        if found:
            return found
    short = spelling(wanted)
    found = [
        t
        for t in terms
        if any(begins(spelling(n), short) or short == f"{spelling(n)}s" for n in (t.term, *t.also))
        or (t.group == "options" and short in re.split("[,;] ?", t.range))
    ]
    if found:
        return found
    names = {name for t in terms for name in (t.term, *t.also)}
    within = [t.term for t in terms if re.search(rf"\b{re.escape(short)}\b", spelling(t.meaning))]
    spoken = f"It stands under {', '.join(dict.fromkeys(within[:MENTIONS]))}; " if within else ""
    raise unknown("term", wanted, names, f"{spoken}'pefourier explain all' lists all.")


def explain_page(words: Sequence[str], more: Sequence[Term] = ()) -> Page:
    """The answer of `pefourier explain`: some terms, or all where none is named."""
    terms = [*read_terms(), *more]
    every = list(words) in ([], ["all"])
    found, refused = (terms, []) if every else terms_of_words(words, terms)
    tell = (overview if words else beginnings) if every else explanations
    return Page(
        "explain",
        words=partial(tell, found) if every else partial(tell, found, shown_by(more)),
        records=lambda: [fields_of(t) | {"conclusion": f"{t.term}: {t.meaning}"} for t in found],
        rows=partial(rows_of_terms, found),
        reasons=[Reason("", "refused", text) for text in refused],
    )


def terms_of_words(words: Sequence[str], terms: Sequence[Term]) -> tuple[list[Term], list[str]]:
    """Terms of the words together, a term of several words, or else of each, between commas.

    Words that are no term are refused, all of them by an error, some beside others in a list.
    """
    together = spelling(" ".join(words))
    known = [spelling(name) for t in terms for name in (t.term, *t.also)]
    begun = len(words) > 1 and any(name.startswith(f"{together},") for name in known)
    if begun or together in known:
        return find_terms(" ".join(words), terms), []
    found: list[Term] = []
    refused: list[PefourierError] = []
    each = [[word] if spelling(word) in known else word.rstrip(",").split(",") for word in words]
    for word in chain.from_iterable(each):
        try:
            found += find_terms(word, terms)
        except PefourierError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found, list(map(str, refused))


def rows_of_terms(terms: Sequence[Term]) -> Iterable[Sequence[Any]]:
    """A row for each term, the header first."""
    names = [field.name for field in fields(Term)]
    yield names
    for term in terms:
        yield [*(getattr(term, name) for name in names[:-1]), "; ".join(term.also)]


def shown_by(more: Sequence[Term]) -> dict[str, str]:
    """Of each group of terms that answers have, a command that shows them."""
    examples = {term.term: term.good for term in more if term.group == "commands"}
    table = "pefourier check-faithful TABLE"
    return {**examples, "verdicts": table, "findings": f"{table} --strict"}


def explanations(terms: Sequence[Term], examples: Mapping[str, str]) -> str:
    """Terms in full."""
    return "\n".join(explanation(term, examples.get(term.group, "")) for term in terms)


def explanation(term: Term, example: str = "") -> str:
    """A term: its meaning, and each fact that applies on its own line."""
    text = paragraph(f"{term.term} ({term.group}): {term.meaning}", "  ")
    facts = {name: getattr(term, name) for name in ("formula", "unit", "range", "good", "source")}
    facts["shown by"] = example
    facts["also"] = ", ".join(name.strip() for name in term.also)
    for name, fact in facts.items():
        text += paragraph(f"  {name:<8} {fact}", " " * 11) if fact else ""
    return text


def beginnings(terms: Sequence[Term]) -> str:
    """What to ask first of each question, and how to see the names of all."""
    lines = [f"{name:<16}{', '.join(first)}" for name, first in FIRST.items()]
    return (
        "'pefourier explain TERM' says what a term means. Terms to begin with:\n\n"
        + "".join(paragraph(line, " " * 16) for line in lines)
        + f"\n'pefourier explain all' names all {len(terms)}.\n"
    )


def overview(terms: Sequence[Term]) -> str:
    """The names of all terms, group by group."""
    parts = ["'pefourier explain TERM' says what a term means. Terms:\n"]
    for group, members in groupby(terms, key=lambda term: term.group):
        names = dict.fromkeys(term.term for term in members)
        parts.append(paragraph(f"{group}: {', '.join(names)}", "  "))
    return "\n".join(parts)
