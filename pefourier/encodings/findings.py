"""What is said of an encoding, by code: findings.toml has severity, sentence, meaning and way out.

Severity: error, surely a mistake; warning, probably; note, a convention worth knowing. A code with
several sentences or severities has each under a name of its own.
"""

from functools import cache
from pathlib import Path
from typing import Any

from pefourier.encodings.encoding import Finding

FILE = Path(__file__).with_suffix(".toml")


@cache  # the file does not change while it is used
def read_findings() -> dict[str, dict[str, Any]]:
    """The rows of findings.toml by code."""
    import tomllib  # encodings of which nothing is said are built without it

    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def finding(code: str, which: str = "", **values: Any) -> Finding:
    """The finding of a code, with values in the places that its sentence has for them.

    >>> finding("padding-row", "usual", rows="row 1").severity
    'note'
    """
    row = read_findings()[code]
    severity, message = (
        told if isinstance(told, str) else told[which] for told in (row["severity"], row["message"])
    )
    return Finding(code, severity, message.format(**values))
