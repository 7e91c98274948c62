"""Scores beside their definitions."""

from math import isclose

import numpy as np
import pytest

from pefourier.train import metrics


def test_scores_are_their_definitions(rng):
    score, true = rng.normal(size=50).round(1), rng.random(50) < 0.3
    best = max(metrics.precision_recall_f1(score >= t, true)[2] for t in np.unique(score))
    assert (
        metrics.precision_recall_f1(score >= metrics.best_threshold(score, true), true)[2] == best
    )
    slow, before = 0.0, 0.0
    for t in sorted(set(score), reverse=True):
        precision, recall, _ = metrics.precision_recall_f1(score >= t, true)
        slow, before = slow + precision * (recall - before), recall
    assert isclose(metrics.average_precision(score, true), slow)


def test_the_threshold_comes_from_validation_and_many_classes_are_averaged():
    logits = np.array([[0, 0.0], [0, 1], [0, 2], [0, 3]])
    labels = np.array([0, 0, 1, 1])
    shifted = logits + np.array([0, 5.0])
    perfect = metrics.score(logits, labels, logits, labels)
    assert (perfect.precision, perfect.recall, perfect.f1, perfect.auprc) == (1, 1, 1, 1)
    assert metrics.score(logits, labels, shifted, labels).precision == 0.5
    eye = np.eye(3)[[0, 1, 2, 2]]
    found = metrics.score(eye, np.array([0, 1, 2, 2]), eye, np.array([0, 1, 2, 1]))
    assert found.recall == pytest.approx((1 + 0.5 + 1) / 3)
    own = [metrics.average_precision(eye[:, c], np.array([0, 1, 2, 1]) == c) for c in range(3)]
    assert found.auprc == np.mean(own)


def test_what_is_said_is_what_is_scored(rng):
    """Of two classes from the threshold of validation on, of more the largest logit."""
    for classes in (2, 3):
        valid, test = rng.normal(size=(2, 60, classes))
        of_valid, labels = rng.integers(0, classes, (2, 60))
        said = metrics.decide(valid, of_valid, test)
        found = metrics.score(valid, of_valid, test, labels)
        assert found.accuracy == np.mean(said == labels)
        if classes == 2:
            limit = metrics.best_threshold(valid[:, 1] - valid[:, 0], of_valid == 1)
            np.testing.assert_array_equal(said, test[:, 1] - test[:, 0] >= limit)
            expected = metrics.precision_recall_f1(said == 1, labels == 1)
            assert (found.precision, found.recall, found.f1) == expected
        else:
            np.testing.assert_array_equal(said, test.argmax(axis=1))


def test_classes_that_are_not_there_do_not_count():
    labels = np.array([0, 0, 2])
    assert metrics.macro_scores(labels, labels) == (1.0, 1.0, 1.0)


def test_of_thresholds_that_do_as_well_the_highest_is_taken():
    score, true = np.array([4.0, 3, 2, 1]), np.array([True, False, False, True])
    assert metrics.best_threshold(score, true) == 3.5
