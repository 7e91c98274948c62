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
