"""Predicates of what answers claim: one module per question, collected by `tests/test_claims.py`.

A module has `draws(rng, count)`, which yields (label, answer, truth), and the dictionaries
`VERDICTS`, `FINDINGS` and `ACTIONS` from a verdict or a finding's code to a predicate written from
the sentence. `WITHOUT` gives the reason for each sentence that has none.
"""
