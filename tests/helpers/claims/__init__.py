"""Predicates of sentences in answers, one module per question, for `tests/test_claims.py`.

A module has `draws(rng, count)`, which yields (label, answer, truth), and the dictionaries
`VERDICTS`, `FINDINGS` and `ACTIONS`, which map a verdict or a finding's code to a predicate
written from the sentence. `WITHOUT` gives the reason for each sentence without a predicate.
"""
