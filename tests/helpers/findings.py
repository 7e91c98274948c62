"""Findings of answers and encodings."""


def codes(found):
    return [finding.code for finding in found.findings]
