"""Registry of terms for `pefourier explain`, read without numpy.

terms.toml has the words of answers, such as the names of rows and columns, and concepts of the
field. Findings are in encodings/findings.toml, mistakes in construction/mistakes.toml, encodings
and their parameters in the catalogue, and verdicts in the types of results, which are imported only
for words that no other term has. A test checks that every word of an answer has a term.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path

from pefourier.errors import PefourierError, unknown
from pefourier.report.catalogue import name_behind, read_catalogue, settings_of, spec_text
from pefourier.types import Fields, Strings, Texts, frozen
from pefourier.writing.files import read_toml
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import Verdict, capital, paragraph

REGISTRY = Path(__file__).with_suffix(".toml")
SCHEMA = REGISTRY.with_name("answers.schema.json")
FINDINGS = Path(__file__).parents[1] / "encodings/findings.toml"
MISTAKES = Path(__file__).parents[1] / "construction/mistakes.toml"
SEVERITIES = ("error", "warning", "note")  # of the messages of a finding
SLOT = r"\{(?:[^{}]|\{[^{}]*\})*\}"  # of a message


@frozen
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
    also: Strings = ()  # other spellings

    @property
    def names(self) -> Texts:
        """The name of the term, and other spellings."""
        return (self.term, *self.also)


def read_terms() -> list[Term]:
    """Read all terms: those of files, and verdicts in capitals, as in conclusions."""
    terms = terms_of_files()
    spellings = {spelling(term.term) for term in terms}
    for command, verdicts in verdicts_by_command():
        for code, verdict in verdicts.items():
            if spelling(verdict.title or code) not in spellings:
                meaning = f"Verdict of {command}. {without_slots(verdict.meaning).rstrip('.')}."
                good = "" if "{" in verdict.action else verdict.action
                also = [code] if verdict.title else []
                terms.append(Term(verdict.name(code), "conclusions", meaning, good=good, also=also))
    return terms


def terms_of_files() -> list[Term]:
    """Read the registry, findings, mistakes, parameters, encodings and conventions."""
    findings = {code: facts_of_finding({**row}) for code, row in read_toml(FINDINGS).items()}
    terms = [
        term_of(group, name, entry)
        for group, table in {**read_toml(REGISTRY), "findings": findings}.items()
        for name, entry in table.items()
    ]
    terms += [
        Term(code, "mistakes", f"Likely mistake in compare: one side has {row['message']}.")
        for code, row in read_toml(MISTAKES).items()
    ]
    records = read_catalogue()
    return [*terms, *parameter_terms(records), *encoding_terms(records)]


def facts_of_finding(row: Fields) -> dict[str, str]:
    """Return the facts about a finding; without a meaning, its messages with "…" for slots."""
    opening, texts = row.pop("opening", ""), [row.pop(key) for key in SEVERITIES if key in row]
    variants = [[*text.values()] if isinstance(text, dict) else [text] for text in texts]
    forms = dict.fromkeys(without_slots(opening + text) for text in chain(*variants))
    return {"meaning": f"{capital('. Or: '.join(forms))}.", **row}


def term_of(group: str, names: str, entry: str | Fields) -> Term:
    r"""Return the term of an entry: a table of facts, or a text with a fact per line.

    >>> term_of("spectrum", "peak; maximum", "Largest value.\nrange: 0 … 1").range
    '0 … 1'
    """
    term, *also = names.split("; ")
    if isinstance(entry, str):
        meaning, *lines = entry.split("\n")
        entry = {"meaning": meaning, **dict(line.split(": ", 1) for line in lines)}
    return Term(term, group, **{"also": also, **entry})


def verdicts_by_command() -> list[tuple[str, Mapping[str, Verdict]]]:
    """Return the verdicts of each question, with their sentences; imports all questions."""
    from pefourier.questions.result import Result

    for path in sorted(Path(__file__).parents[1].glob("questions/[a-z]*.py")):
        import_module(f"pefourier.questions.{path.stem}")
    return [(kind.command, kind.verdicts) for kind in Result.__subclasses__()]


def without_slots(text: str) -> str:
    """Replace slots by "…"; drop parentheses with slots, and slots of further sentences.

    >>> without_slots("At {r.length:,} {r.points}, {r.count} pairs ({r.source}) rotate.{r.more}")
    'At …, … pairs rotate.'
    """
    text = re.sub(rf" \([^()]*{SLOT}[^()]*\)|(?<=\.){SLOT}", "", " ".join(text.split()))
    return re.sub(rf"{SLOT}(?: ?{SLOT})*", "…", text)


def encoding_terms(records: Sequence[Fields]) -> Iterable[Term]:
    """Yield registered encodings, and choices of their parameters in published models."""
    for record in records:
        name = record["encoding"]
        good = f"'pefourier list {name}' shows its parameters."
        facts = {"formula": record["formula"], "good": good, "source": record["paper"]}
        yield Term(name, "encodings", record["meaning"], **facts)
    for record in records:
        for convention in record.get("conventions", ()):
            name = convention["convention"]
            note = f" {capital(convention['note'])}." if "note" in convention else ""
            spec = f"{record['encoding']}:convention={name}"
            chosen = f"{spec}: {settings_of(convention)}.{note}"
            meaning = f"A published model's choice of parameters, {chosen}"
            yield Term(name, "conventions", meaning, source=convention["source"])


def parameter_terms(records: Iterable[Fields]) -> list[Term]:
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
    """Normalize a word: lower case, spaces, no final punctuation or remark in parentheses.

    >>> spelling("--require_dtype"), spelling("Toeplitz residual (0 = lag alone)")
    ('require dtype', 'toeplitz residual')
    """
    return " ".join(re.sub(r" \(.*\)$|[_-]", " ", word.lower()).split()).rstrip(",.;:?")


def singular(word: str) -> str:
    """Return a word without the ending of a plural, normalized.

    >>> singular("Singular values"), singular("frequencies"), singular("biases") == singular("bias")
    ('singular value', 'frequency', True)
    """
    stem = re.sub("(?<=[sx])es$", "", re.sub("ies$", "y", spelling(word)))
    return re.sub("(?<=[^s])s$", "", stem)


def find_terms(word: str, terms: Sequence[Term]) -> list[Term]:
    """Find terms by name: spelled exactly, similarly, in the plural, or with the word in it."""
    short, one = spelling(word), singular(word)
    rules = (
        lambda name: name == word,
        lambda name: spelling(name) == short,
        lambda name: singular(name) == one,
        lambda name: f" {short} " in f" {spelling(name).replace(',', ' ')} ",
    )
    for rule in rules:
        if matches := [term for term in terms if any(map(rule, term.names))]:
            return sorted(matches, key=lambda term: term.group != "words")  # plain meaning first
    if (target := name_behind(word)) != word:
        return find_terms(target, terms)
    names = {name for term in terms for name in term.names}
    raise unknown("term", word, names, "'pefourier explain all' lists all.")


def explain_page(words: Strings, command_terms: Sequence[Term] = ()) -> Page:
    """Build the answer of `pefourier explain`: the named terms, by default some of each group."""
    is_all = list(words) == ["all"]
    is_overview = is_all or not words
    terms = [*read_terms(), *command_terms] if is_overview else terms_of_words(words, command_terms)

    def text() -> str:
        if is_overview:
            return overview(terms, is_all=is_all)
        return "\n".join(explanation(term, words) for term in terms)

    return Page(
        "explain",
        words=text,
        records=lambda: [fields_of(t) | {"conclusion": f"{t.term}: {t.meaning}"} for t in terms],
        rows=lambda: flattened(fields_of(t) | {"also": "; ".join(t.also)} for t in terms),
    )


def terms_of_words(words: Strings, command_terms: Sequence[Term]) -> list[Term]:
    """Find the terms of all words joined, as a term can have several words, or of each word."""
    together = " ".join(words)
    for read in (terms_of_files, read_terms):  # verdicts import all questions
        terms = [*read(), *command_terms]
        with suppress(PefourierError):
            return find_terms(together, terms)
    single = list(dict.fromkeys(together.split()))
    names = {spelling(name) for term in terms for name in term.names}
    if names.isdisjoint(map(spelling, single)):
        single = [together]
    return [term for word in single for term in find_terms(word, terms)]


def explanation(term: Term, words: Strings = ()) -> str:
    """Format a term by the name in `words`: its meaning, and each fact on a separate line."""
    typed = {spelling(" ".join(words)), *map(spelling, words)}
    head = next((name for name in term.names if spelling(name) in typed), term.term)
    facts = {name: getattr(term, name) for name in ("formula", "unit", "range", "good", "source")}
    facts["also"] = ", ".join(name.strip() for name in term.names if name != head)
    text = paragraph(f"{head} ({term.group}): {term.meaning}", "  ")
    for name, fact in facts.items():
        first, *pasted = fact.split("\n")
        if fact:
            text += paragraph(f"  {name:<8} {first}", " " * 11)
        text += "".join(f"    {line}\n" for line in pasted)
    return text


def overview(terms: Sequence[Term], *, is_all: bool) -> str:
    """List the names of terms by group: all, or those that fit in a line."""
    groups: dict[str, dict[str, None]] = {}
    for term in terms:
        groups.setdefault(term.group, {})[term.term] = None
    lines = []
    for group, names in groups.items():
        first, *more = paragraph(f"{group}: {', '.join(names)}", "  ").splitlines()
        if more and not is_all:
            first, more = f"{first.rstrip(',').rpartition(',')[0]}, …", []
        lines += [first, *more]
    if not is_all:
        hint = "'pefourier explain TERM' explains a term, 'pefourier explain all' lists all."
        lines.append(paragraph(hint, "  ").rstrip())
    return "\n".join(lines) + "\n"
