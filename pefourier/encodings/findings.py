"""What is said of an encoding, by code: findings.toml has severity, sentence, meaning and way out.

Severity: error, surely a mistake; warning, probably; note, a convention worth knowing. A code with
several sentences or severities has each under a name of its own.
"""

from pathlib import Path
from typing import Any

from pefourier.encodings.encoding import Finding
from pefourier.writing.files import read_toml

FINDINGS = Path(__file__).with_suffix(".toml")


def finding(code: str, variant: str = "", /, **values: Any) -> Finding:
    """The finding of a code, with values in the places that its sentence has for them.

    >>> finding("padding-row", "usual", rows="row 1").severity
    'note'
    """
    row = read_toml(FINDINGS)[code]
    severity, message = (
        row[key] if isinstance(row[key], str) else row[key][variant]
        for key in ("severity", "message")
    )
    return Finding(code, severity, message.format(**values))
