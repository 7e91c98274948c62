"""Identify a table and find its mistakes, with the rules for lines or for grids."""

from dataclasses import replace

import numpy as np

from pefourier.diagnosis import grid_rules, table_rules
from pefourier.diagnosis.identify import identify
from pefourier.diagnosis.wave_rules import (
    SAMPLE,
    TableFacts,
    aliased_frequencies,
    irregular_frequencies,
    is_constant,
)
from pefourier.encodings.encoding import SEVERITIES, Encoding, Finding, without_prefix
from pefourier.geometry.closest import ClosestPair
from pefourier.geometry.precision import stored_resolution
from pefourier.types import Fields

NO_ROTATION = ("lost-minus", "not-a-rotation", "queries-keys-differ")
UNTRAINED = ("untrained", "random-codes")  # explain all other findings


def diagnose(enc: Encoding, closest: ClosestPair, rank: int) -> tuple[Fields | None, list[Finding]]:
    """Identify a table (see `identify`) and return all findings about it, worst first.

    Only tables are identified: an encoding built by name has a known formula. A finding of
    untrained numbers comes before all others.

    Parameters
    ----------
    enc : Encoding
        The encoding, including rows before a grid; findings made while loading it are kept.
    closest, rank
        Results of `geometry.closest.closest_pair` and `decompose` without these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pefourier.encodings.encoding import from_table
    >>> from pefourier.geometry.closest import closest_pair
    >>> enc = from_table(np.ones((5, 4)))
    >>> diagnose(enc, closest_pair(enc), 1)[1][0].code
    'constant-codes'
    """
    identified, findings, behind = None, [], enc.domain.prefix
    enc = without_prefix(enc)
    on_grid = len(enc.domain.sides) > 1
    if enc.domain.kind == "position" and (enc.injection == "add" or enc.origin == "formula"):
        if enc.origin == "formula":
            findings = [*grid_rules.remarks_on_formula(enc)]
            findings += grid_rules.unusual_coordinates(enc)
            if enc.name == "rope" and "inv_freq" in enc.params:
                findings += irregular_frequencies(enc.params["inv_freq"])
        elif on_grid:
            identified, findings = diagnose_points(enc, closest, rank, behind)
        else:
            identified, findings = diagnose_rows(enc, closest, rank)
            counted = f"; row 0 is the first after --prefix {behind}" if behind else ""
            findings = [replace(entry, message=entry.message + counted) for entry in findings]
        if identified is None or on_grid:  # no frequency of an identified line is aliased
            findings += aliased_frequencies(enc)
    vectors = {finding.code for finding in enc.findings} if on_grid else ()
    findings = [*enc.findings, *(finding for finding in findings if finding.code not in vectors)]
    return identified, sorted(findings, key=urgency)


def urgency(finding: Finding) -> int:
    """Return the sort key of a finding."""
    return -1 if finding.code in UNTRAINED else SEVERITIES.index(finding.severity)


def diagnose_rows(
    enc: Encoding, closest: ClosestPair, rank: int
) -> tuple[Fields | None, list[Finding]]:
    """Identify the rows of a table and return the findings about them."""
    table = enc.table()
    if any(entry.severity == "error" and entry.code in NO_ROTATION for entry in enc.findings):
        return None, []  # the operator on queries and keys is wrong, whatever the table
    eps, _ = stored_resolution(table[:SAMPLE], enc.eps)
    identified = identify(table, eps)
    if is_constant(table):
        return identified, [table_rules.constant_vectors(table)]
    facts = TableFacts(table, eps, identified, closest, rank, stored=enc.eps)
    findings = [finding for rule in table_rules.RULES for finding in rule(facts)]
    if enc.operator is not None and identified is None and facts.pairs is not None:
        pairs = facts.pairs
        order = np.argsort(pairs.columns.min(axis=0))
        findings += irregular_frequencies(pairs.frequency[order])
    return identified, findings


def diagnose_points(
    enc: Encoding, closest: ClosestPair, rank: int, behind: int
) -> tuple[Fields | None, list[Finding]]:
    """Identify the points of a grid, by rules for grids and rules for any table."""
    table = enc.table()
    grid = grid_rules.GridFacts(
        table, enc.domain.sides, enc.eps, closest, paired=enc.paired, prefix=behind
    )
    identified, of_settings = grid_rules.identify_on_grid(grid)
    if is_constant(table):
        return identified, [table_rules.constant_vectors(table)]
    facts = TableFacts(table, enc.eps, identified, closest, rank)
    of_any = [table_rules.random_vectors]
    if grid.columns is None:
        of_any.append(table_rules.near_vectors)
    findings = of_settings + [finding for rule in grid_rules.GRID_RULES for finding in rule(grid)]
    return identified, findings + [finding for rule in of_any for finding in rule(facts)]
