"""Scores, by scikit-learn, equal their definitions."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from pefourier.train import run_artifacts as metrics
from pefourier.train.store import MEASURES


def test_the_threshold_has_the_best_f1_halfway_to_the_next_score(rng):
    score, true = rng.normal(size=50).round(1), rng.random(50) < 0.3
    found = f1_score(true, score >= metrics.best_threshold(score, true))
    assert found == max(f1_score(true, score >= level) for level in score)
    tied = np.array([4.0, 3, 2, 1]), np.array([True, False, False, True])
    assert metrics.best_threshold(*tied) == 3.5  # the highest of equally good thresholds


def defined(chosen, margin, true):
    """Return precision, recall, F1 and average precision of a class, written out."""
    hits = (chosen & true).sum()
    precision, recall = hits / max(chosen.sum(), 1), hits / max(true.sum(), 1)
    area = sum(
        (true & (margin >= level)).sum()
        / (margin >= level).sum()
        * (true & (margin == level)).sum()
        for level in np.unique(margin)
    )
    whole = max(chosen.sum() + true.sum(), 1)
    return precision, recall, 2 * hits / whole, area / max(true.sum(), 1)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("classes", "macro"), [(2, False), (2, True), (3, True)])
def test_what_is_stated_is_what_is_scored(seed, classes, macro):
    """With ties, absent classes and classes that are never predicted; to 1e-12."""
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(40, classes)).round(1), rng.integers(0, classes, 40)
    labels[labels == seed % 4] = 0  # some class may be missing
    margin = logits[:, 1] - logits[:, 0]
    chosen = metrics.decide(logits, None if macro else 0.25)
    np.testing.assert_array_equal(chosen, logits.argmax(axis=1) if macro else margin >= 0.25)
    found = metrics.score(chosen, logits, labels, macro=macro)
    columns = logits if classes == 3 else np.column_stack([-margin, margin])
    judged = np.unique(labels) if macro else [1]
    each = [defined(chosen == c, columns[:, c], labels == c) for c in judged]
    expected = [*np.mean(each, axis=0), np.mean(chosen == labels)]
    assert list(found) == list(MEASURES)
    assert [*found.values()] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    validated = metrics.score(logits.argmax(axis=1), logits, labels, macro=macro)
    own = metrics.validation_score(logits, labels, macro=macro)
    assert own == pytest.approx(validated["f1" if macro else "auprc"], abs=1e-12)
