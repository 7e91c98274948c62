"""What is this table, and what is wrong with it?"""

import numpy as np

from pefourier.diagnosis import on_grids, rules
from pefourier.diagnosis.case import SAMPLE, Case
from pefourier.diagnosis.identify import identify
from pefourier.diagnosis.rules import SEVERITIES, without_rounding
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.geometry.closest import ClosestPair
from pefourier.geometry.precision import coarse_eps

__all__ = ["diagnose", "without_rounding"]


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
    if enc.domain.kind != "position" or (enc.act != "add" and enc.origin != "formula"):
        return None, list(enc.findings)
    if len(enc.domain.sides) > 1:
        return diagnose_on_grid(enc, closest, rank)
    if enc.origin == "formula":
        return None, list(enc.findings)
    table = enc.table()
    eps = max(enc.eps, coarse_eps(table[:SAMPLE]))
    identified = identify(table, eps)
    case = Case(table, eps, identified, closest, rank, stored=enc.eps)
    mixed = any(one.code == "not-a-rotation" for one in enc.findings)  # its columns are, too
    found = [*enc.findings, *(one for rule in rules.RULES for one in rule(case) if not mixed)]
    return identified, sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def diagnose_on_grid(
    enc: Encoding, closest: ClosestPair, rank: int
) -> tuple[dict | None, list[Finding]]:
    """The same for the points of a grid, with rules of its own beside those of any rows."""
    if enc.origin == "formula":
        found = [*enc.findings, *on_grids.remarks_on_formula(enc)]
        return None, sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
    whole, behind = enc.table(), enc.domain.prefix
    table = whole[behind:]
    grid = on_grids.GridCase(table, np.asarray(whole[:behind]), enc.domain.sides, enc.eps, closest)
    identified = on_grids.identify_on_grid(grid)
    plain = Case(table, enc.eps, identified, closest, rank)
    of_any = rules.RULES_OF_POINTS if grid.parts else (*rules.RULES_OF_POINTS, rules.near_codes)
    known = {finding.code for finding in enc.findings}
    of_rows = [one for rule in on_grids.GRID_RULES for one in rule(grid) if one.code not in known]
    found = [*enc.findings, *of_rows, *(f for rule in of_any for f in rule(plain))]
    return identified, sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
