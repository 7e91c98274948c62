"""Findings about an encoding. findings.toml lists severity, message, meaning and remedy by code.

An error is certainly a mistake, a warning probably is, and a note states a convention. A code with
several messages or severities lists each under the name of its variant.
"""

from pathlib import Path
from typing import Any

from pefourier.encodings.encoding import Finding
from pefourier.writing.files import read_section

FINDINGS = Path(__file__).with_suffix(".toml")


def finding(code: str, variant: str = "", /, **values: Any) -> Finding:
    """Return the finding of a code, with `values` filled into the slots of its message.

    >>> finding("padding-row", "usual", rows="row 1").severity
    'note'
    """
    row = read_section(FINDINGS, code)
    severity, message = (
        row[key] if isinstance(row[key], str) else row[key][variant]
        for key in ("severity", "message")
    )
    return Finding(code, severity, message.format(**values))
