"""Artifacts of each run: logits and probabilities of windows, and learning curves.

DIR/scores has an .npz per run, written before its line of results.jsonl: `valid` and `test`, logits
(n, K) of float32; `valid_labels` and `test_labels` (n,), classes from 0; `valid_rows` and
`test_rows` (n,), the first row of each window; `rows`, the order in which rows are counted;
`threshold`, the smallest difference of two logits that predicts the second class, nan if the
largest logit decides; `classes`, their names; `test_probabilities` (n, K), the softmax of logits,
in which that threshold has the probability 0.5; `curve` (looks, 3), mean training loss, score and
loss on validation; and `dataset`, `encoding`, `seed`, `fold`. Other programs can compute further
metrics from these files.

Scores
------
A run has precision, recall, F1 at a threshold from validation, and average precision. With two
classes, the score is the difference of the logits, and the threshold maximizes F1 on validation.
With more classes, or two without a positive class (`macro`), the largest logit decides, and all
four scores are means over classes."""

import re
import zlib
from pathlib import Path

import numpy as np
from scipy.special import log_softmax, softmax

from pefourier.train.store import MEASURES, Key
from pefourier.types import Array
from pefourier.writing.files import write_whole


def score(predicted: Array, logits: Array, labels: Array, *, macro: bool) -> dict[str, float]:
    """Compute `MEASURES` of test windows from predicted classes and finite logits (n, K).

    `auprc` is average precision, the area under precision over recall. Points are not adjusted.
    """
    from sklearn.metrics import (  # imports much, only to score
        accuracy_score,
        average_precision_score,
        precision_recall_fscore_support,
    )

    judged = np.unique(labels) if macro else np.array([1])
    *scores, _ = precision_recall_fscore_support(
        labels, predicted, labels=judged, average="macro", zero_division=0.0
    )
    each = [
        average_precision_score(labels == c, evidence(logits, c)) for c in judged if c in labels
    ]
    values = *scores, np.mean(each or 0.0), accuracy_score(labels, predicted)
    return dict(zip(MEASURES, map(float, values), strict=True))


def evidence(logits: Array, label: int) -> Array:
    """Return the logit (n,) of a class, of two classes minus that of the other."""
    other = logits[:, 1 - label] if logits.shape[1] == 2 else 0.0
    return np.asarray(logits[:, label] - other)


def decide(logits: Array, threshold: float | None) -> Array:
    """Predict classes from logits (n, K), by a threshold or else by the largest logit."""
    if threshold is None:
        return np.asarray(logits.argmax(axis=1))
    return np.asarray(evidence(logits, 1) >= threshold, dtype=int)


def count_confusions(predicted: Array, labels: Array, classes: int) -> Array:
    """Count windows by true class (rows) and predicted class (columns).

    >>> count_confusions(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def validation_score(logits: Array, labels: Array, *, macro: bool) -> float:
    """Score that selects weights: average precision of two classes, macro F1 of more.

    It equals that of `score` in a fiftieth of the time, for it is computed at each look. With more
    classes, the largest logit decides, and average precision by class may be 1 although that
    decision is wrong:

    >>> labels, logits = np.arange(3), np.eye(3) + [2.0, 0.0, 0.0]
    >>> validation_score(logits, labels, macro=True)
    0.16666666666666666
    """
    if not macro:
        _, hits, claims = count_from_top(evidence(logits, 1), labels == 1)
        gained = np.diff(hits, prepend=0)
        return float((hits / claims * gained).sum() / max(hits[-1], 1))
    table = count_confusions(logits.argmax(axis=1), labels, logits.shape[1])
    hits, true = np.diag(table), table.sum(axis=1)
    f1 = 2 * hits / np.maximum(true + table.sum(axis=0), 1)
    return float(f1[true > 0].mean())


def cross_entropy(logits: Array, labels: Array, weights: Array) -> float:
    r"""Mean of :math:`w_y (\log \sum_k e^{z_k} - z_y)` over logits z (n, K) of classes y (n,).

    >>> round(cross_entropy(np.zeros((2, 2)), np.array([0, 1]), np.array([1.0, 1.0])), 6)
    0.693147
    """
    chosen = log_softmax(logits, axis=1)[np.arange(len(labels)), labels]
    return float(-(weights[labels] * chosen).mean())


def count_from_top(score: Array, true: Array) -> tuple[Array, Array, Array]:
    """Distinct scores in descending order, with counts of true and of all windows down to each."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    return score[order][last], np.cumsum(true[order])[last], last + 1


def best_threshold(score: Array, true: Array) -> float:
    """Threshold with the best F1, halfway to the next score below.

    >>> best_threshold(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, False, True, True]))
    1.5
    """
    levels, hits, claims = count_from_top(score, true)
    best = int((2 * hits / (claims + true.sum())).argmax())
    below = levels[best + 1] if best + 1 < len(levels) else levels[best]
    return float((levels[best] + below) / 2)


FOLDER = "scores"
ORDER_OF_ROWS = "from 0 through all series, one after another as they were read, each in time order"
LONGEST_PART = 60  # characters of a name


def name_of_run(key: Key) -> str:
    """Return a run's name for files; a checksum distinguishes runs with truncated names.

    >>> name_of_run(("order", "../my codes.npy@rms=0.5", 0, 1))
    'order-.._my_codes.npy@rms=0.5-seed0-fold1-ee2743c1'
    """
    dataset, encoding, seed, fold = key
    parts = (re.sub("[^A-Za-z0-9._@=]", "_", part)[-LONGEST_PART:] for part in (dataset, encoding))
    checksum = f"{zlib.crc32(repr(key).encode()):08x}"
    return f"{'-'.join(parts)}-seed{seed}-fold{fold}-{checksum}"


def file_of_run(folder: Path, key: Key) -> Path:
    """Return the path of a run's trace."""
    return folder / FOLDER / f"{name_of_run(key)}.npz"


def file_of_model(folder: str, key: Key) -> Path:
    """Return the path of the classifier of a run."""
    return Path(folder, f"{name_of_run(key)}.safetensors")


def class_probabilities(logits: Array, threshold: float | None) -> Array:
    """Probabilities (n, K) by softmax; a difference of two logits at the threshold has 0.5.

    >>> class_probabilities(np.array([[0.0, 3.0], [0.0, 2.0]]), 2.0).round(3).tolist()
    [[0.269, 0.731], [0.5, 0.5]]
    """
    shifted = logits.astype(float)
    shifted[:, 1] -= threshold or 0.0
    return np.asarray(softmax(shifted, axis=1))


def write_trace(folder: Path, key: Key, trace: bytes) -> None:
    """Write the trace of a run, complete or not at all."""
    path = file_of_run(folder, key)
    path.parent.mkdir(exist_ok=True)
    write_whole(str(path), lambda out: out.write(trace))
