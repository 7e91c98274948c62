"""Scores equal their definitions."""

import numpy as np
import pytest

from pefourier.train import run_artifacts as metrics


def test_threshold_and_average_precision_are_their_definitions(rng):
    score, true = rng.normal(size=50).round(1), rng.random(50) < 0.3
    levels = sorted(set(score), reverse=True)
    at_levels = [metrics.precision_recall_f1(score >= t, true) for t in levels]
    chosen = metrics.precision_recall_f1(score >= metrics.best_threshold(score, true), true)
    assert chosen[2] == max(f1 for *_, f1 in at_levels)
    recalls = [0.0, *(recall for _, recall, _ in at_levels)]
    slow = sum(p[0] * gain for p, gain in zip(at_levels, np.diff(recalls), strict=True))
    assert metrics.average_precision(score, true) == pytest.approx(slow)
    tied = np.array([4.0, 3, 2, 1]), np.array([True, False, False, True])
    assert metrics.best_threshold(*tied) == 3.5  # the highest of equally good thresholds


@pytest.mark.parametrize(("classes", "macro"), [(2, False), (2, True), (3, True)])
def test_what_is_stated_is_what_is_scored(rng, classes, macro):
    """Two classes use the threshold of validation, more classes the largest logit."""
    valid, test = rng.normal(size=(2, 60, classes))
    of_valid, labels = rng.integers(0, classes, (2, 60))
    threshold = metrics.choose_threshold(valid, of_valid, macro=macro)
    chosen = metrics.decide(test, threshold)
    found = metrics.score(chosen, test, labels, macro=macro)
    if classes == 2 and not macro:
        limit = metrics.best_threshold(valid[:, 1] - valid[:, 0], of_valid == 1)
        np.testing.assert_array_equal(chosen, test[:, 1] - test[:, 0] >= limit)
        expected = metrics.precision_recall_f1(chosen == 1, labels == 1)
        precise = metrics.average_precision(test[:, 1] - test[:, 0], labels == 1)
    else:
        np.testing.assert_array_equal(chosen, test.argmax(axis=1))
        own = range(classes)
        expected = np.mean(
            [metrics.precision_recall_f1(chosen == c, labels == c) for c in own], axis=0
        )
        margins = [test[:, c] - np.delete(test, c, 1).max(1) for c in own]
        if classes == 3:
            margins = [test[:, c] for c in own]
        precise = np.mean(
            [metrics.average_precision(m, labels == c) for c, m in zip(own, margins, strict=True)]
        )
    assert [found[name] for name in ("precision", "recall", "f1")] == pytest.approx([*expected])
    assert found["accuracy"] == np.mean(chosen == labels)
    assert found["auprc"] == pytest.approx(precise)


def test_classes_that_are_not_there_do_not_count():
    labels = np.array([0, 0, 2])
    assert metrics.macro_scores(labels, labels) == (1.0, 1.0, 1.0)
