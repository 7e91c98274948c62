"""What is this table, and what is wrong with it?"""

from pefourier.diagnosis.identify import identify
from pefourier.diagnosis.rules import SAMPLE, SEVERITIES, Case, apply_rules
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.geometry.closest import ClosestPair
from pefourier.geometry.precision import coarse_eps


def diagnose(enc: Encoding, closest: ClosestPair, rank: int) -> tuple[dict | None, list[Finding]]:
    """What a table turns out to be (see `identify`), and all findings about it, worst first.

    Both are of tables only: an encoding built by name is what its formula says.

    Parameters
    ----------
    enc : Encoding
        Codes; findings made while they were obtained are part of the answer.
    closest, rank
        Of the same codes: `geometry.closest.closest_pair` and the rank of `decompose`.

    Examples
    --------
    >>> import numpy as np
    >>> from pefourier.encodings.encoding import from_table
    >>> from pefourier.geometry.closest import closest_pair
    >>> enc = from_table(np.ones((5, 4)))
    >>> diagnose(enc, closest_pair(enc), 1)[1][0].code
    'constant-codes'
    """
    if enc.origin == "formula" or enc.domain.kind != "position" or enc.act != "add":
        return None, list(enc.findings)
    table = enc.table()
    eps = max(enc.eps, coarse_eps(table[:SAMPLE]))
    identified = identify(table, eps)
    case = Case(table, eps, identified, closest, rank, stored=enc.eps)
    found = [*enc.findings, *apply_rules(case)]
    return identified, sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
