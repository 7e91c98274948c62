"""Scores equal those of scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_recall_fscore_support

from pefourier.train import run_artifacts as metrics


def test_the_threshold_has_the_best_f1_halfway_to_the_next_score(rng):
    score, true = rng.normal(size=50).round(1), rng.random(50) < 0.3
    found = f1_score(true, score >= metrics.best_threshold(score, true))
    assert found == max(f1_score(true, score >= level) for level in score)
    tied = np.array([4.0, 3, 2, 1]), np.array([True, False, False, True])
    assert metrics.best_threshold(*tied) == 3.5  # the highest of equally good thresholds


@pytest.mark.parametrize(("classes", "macro"), [(2, False), (2, True), (3, True)])
def test_what_is_stated_is_what_is_scored(rng, classes, macro):
    """Two classes use the threshold of validation, more classes the largest logit."""
    logits, labels = rng.normal(size=(60, classes)), rng.integers(0, classes, 60)
    margin = logits[:, 1] - logits[:, 0]
    chosen = metrics.decide(logits, None if macro else 0.25)
    stated = logits.argmax(axis=1) if macro else margin >= 0.25
    np.testing.assert_array_equal(chosen, stated)
    found = metrics.score(chosen, logits, labels, macro=macro)
    mean = "macro" if macro else "binary"
    expected = precision_recall_fscore_support(labels, chosen, average=mean)[:3]
    assert [found[name] for name in ("precision", "recall", "f1")] == pytest.approx([*expected])
    assert found["accuracy"] == np.mean(chosen == labels)
    columns = logits if classes == 3 else np.column_stack([-margin, margin])
    each = [average_precision_score(labels == c, columns[:, c]) for c in range(classes)]
    assert found["auprc"] == pytest.approx(np.mean(each) if macro else each[1])


def test_classes_that_are_not_there_do_not_count():
    labels = np.array([0, 0, 2])
    assert metrics.macro_scores(labels, labels) == (1.0, 1.0, 1.0)
