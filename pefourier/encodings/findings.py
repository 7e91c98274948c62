"""Findings about an encoding: findings.toml lists their messages by code and severity.

An error is certainly a mistake, a warning probably is, and a note states a convention. A code with
several messages lists each under the name of its variant.
"""

from pathlib import Path
from typing import Any, Literal

from pefourier.encodings.encoding import Finding
from pefourier.writing.files import read_section

FINDINGS = Path(__file__).with_suffix(".toml")
SEVERITIES: tuple[Literal["error", "warning", "note"], ...] = ("error", "warning", "note")


def finding(code: str, variant: str = "", /, **values: Any) -> Finding:
    """Return the finding of a code, with `values` filled into the slots of its message.

    >>> finding("padding-row", "usual", rows="row 1").severity
    'note'
    """
    row = read_section(FINDINGS, code)
    severity = next(level for level in SEVERITIES if variant in row.get(level, ()))
    text = row[severity][variant] if variant else row[severity]
    return Finding(code, severity, (row.get("opening", "") + text).format(**values))
