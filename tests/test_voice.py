"""Plain English: count phrases that break the style rules of CONTRIBUTING.

`RULES` matches phrases that are archaic, private to this project or hard to parse. A match is a
hint, not proof of bad style, so each kind of text may have `LIMIT` matches per 1,000 words.
"""

import ast
import io
import json
import re
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import pytest
from texts import strings_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pefourier"
PAGES = (ROOT / "README.md", ROOT / ".github/CONTRIBUTING.md")
PARSERS = {".toml": tomllib.loads, ".json": json.loads}
KINDS = ("data text", "docstring", "message", "comment", "page")
LIMIT = 3.0
SHOWN = 30  # matches that a failure lists
VERSE = r"(?:it|they|one)\s+(?:is|are|was|were|has|have|does|do|asks?|says?|stands?)"
RULES = {
    "archaic": r"\b(?:anew|alike|thereof|beside|whom|mend(?:s|ed)?|slips?|bears? out)\b",
    "told": r"\b(?:(?:is|are|was|were|be|being|as) told|told (?:apart|by|of|from)|tellings?)\b",
    "said": r"\b(?:is|are|was|were|be) (?:not )?said\b|\bunsaid\b|\bsays? of\b",
    "so that": r"\bso that\b",
    "serves": r"\bserves?\b(?! (?:requests|the model))",
    "pronoun": r"\b(?:of (?:them|those|these)|of (?:its|their|our) own|nobody|no one)\b",
    "none": r"\bthere is none\b|\bnone (?:is|are|do|does|has)\b",
    "one for a noun": r"\b(?:the|an?|its|each|every|that|this|which|wrong|\w+er) ones?\b(?! of)",
    "as it does": rf"\bas {VERSE}\b",
    "stands": r"\bstands? (?:in|at|for|on|there|by)\b(?! alone\b)",
    "vectors": r"\bcodes\b",
    "frequencies": r"\bwaves?\b",
    "rotations": r"\bturn(?:s|ed|ing)?\b(?! (?:\w+ )?(?:off|on|into|out)\b)",
    "asked": r"\bis asked\b|\basked (?:for|about|of)\b",
    "taken": r"\b(?:is|are) taken (?:as|for|to be|from)\b",
    "what it is": r"(?:^|[.;:] )What (?:is|it|an?|the|all|they|no)\b",
    "question": r"\A(?:How|What|Which|Where|Why|Who|Whether|Does|Do|Is|Are)\b[^.]*\?",
    "met": r"\bnever met\b|\bmet in\b",
    "percent": r"\d %",
    "decimal": r"(?<![\w.:{])[−-]?\.\d",
}
PATTERN = re.compile(
    "|".join(f"(?P<r{n}>{rule})" for n, rule in enumerate(RULES.values())),
    re.IGNORECASE | re.MULTILINE,
)


def pieces_of_source(name, source):
    """Yield kind and (file, line, text) of docstrings without doctests, strings and comments."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings, strings = [], []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.append(node.body[0].value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node)
    known = {id(node) for node in docstrings}
    for node in docstrings:
        prose = re.sub(r"^\s*>>>.*?(?=^\s*$|\Z)", "", node.value, flags=re.MULTILINE | re.DOTALL)
        yield "docstring", (name, node.lineno, prose)
    for node in strings:
        if id(node) not in known and node.value.count(" ") > 2:
            yield "message", (name, node.lineno, node.value)
    if "#" in source:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield "comment", (name, token.start[0], token.string.lstrip("# "))


def prose_of(page):
    """Return Markdown with the lines of code blocks emptied, not removed."""
    page = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), page, flags=re.DOTALL)
    return re.sub(r"^ {4}.*$", "", page, flags=re.MULTILINE)


@cache
def pieces():
    """Return (file, line, text) of all texts, by kind."""
    found = {kind: [] for kind in KINDS}
    for path in sorted(PACKAGE.rglob("*.*")):
        name = str(path.relative_to(ROOT))
        if path.suffix == ".py":
            for kind, piece in pieces_of_source(name, path.read_text(encoding="utf-8")):
                found[kind].append(piece)
        elif path.suffix in PARSERS and "schema" not in name and path.stat().st_size < 200_000:
            texts = strings_of(PARSERS[path.suffix](path.read_text(encoding="utf-8")))
            found["data text"] += [(name, 0, text) for text in texts if text.count(" ") > 1]
    for path in PAGES:
        text = prose_of(path.read_text(encoding="utf-8"))
        found["page"].append((path.name, 1, text))
    return found


def matches(texts):
    """List place, rule and surroundings of each match."""
    found, names = [], list(RULES)
    for name, line, text in texts:
        for match in PATTERN.finditer(text):
            rule = names[int(match.lastgroup[1:])]
            near = " ".join(text[max(0, match.start() - 40) : match.end() + 30].split())
            place = line + text.count("\n", 0, match.start()) if line else 0
            found.append(f"{name}:{place}: [{rule}] … {near} …")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_in_plain_english(kind):
    texts = pieces()[kind]
    words = sum(len(text.split()) for *_, text in texts)
    assert words > 1000
    found = matches(texts)
    rate = 1000 * len(found) / words
    assert rate <= LIMIT, "\n".join([f"{kind}: {rate:.1f} per 1,000 words", *found[:SHOWN]])


@pytest.mark.parametrize(
    ("sentence", "rules"),
    [
        ("By llama3 none do, as it does anew.", ["none", "as it does", "archaic"]),
        ("The codes are told apart by slow waves.", ["vectors", "told", "frequencies"]),
        ("95 % are turned, .5 are said so.", ["percent", "rotations", "decimal", "said"]),
        ("How slow is the slower one?", ["question"]),
        ("Use --sigma 0 to turn smoothing off: 95% of the vectors rotate by 0.5.", []),
    ],
)
def test_a_planted_sentence_is_found(sentence, rules):
    found = [re.search(r"\[(.+?)\]", match)[1] for match in matches([("planted", 1, sentence)])]
    assert found == rules
