"""Other methods for comparison, trained and tested on the same splits as the encodings.

Conventions
-----------
A method is fitted on the training windows of a fold, its threshold is chosen on the validation
windows, and it is scored on the test windows. ``trees`` are gradient-boosted trees (scikit-learn's
histogram version) on the features of the order-free baseline: mean, standard deviation, minimum
and maximum of each channel. ``minirocket`` is MiniRocket (Dempster, Schmidt and Webb, 2021) from
the package aeon with a ridge classifier; shorter series are stretched to the longest to hide their
length. Classes have equal weight, as in training. Trees use no random numbers and those of
MiniRocket matter little: each fold has one fit, regardless of --seeds. If encodings have several
runs per fold, their means are compared with it.
"""

import time
from importlib.util import find_spec

import numpy as np

from pefourier.errors import PefourierError, unknown
from pefourier.train.data.split import Task
from pefourier.train.options import BESIDE
from pefourier.types import Array, Texts

LEAST_ROWS = 9  # width of MiniRocket's kernels
LEAVES = 10  # per tree that each class has room for


def check_methods(names: Texts) -> None:
    """Reject unknown methods and methods with a missing package."""
    for name in names:
        if name not in BESIDE:
            raise unknown("method of --beside", name, BESIDE)
        if name == "minirocket" and find_spec("aeon") is None:
            raise PefourierError(
                "--beside minirocket needs aeon; install it with pip install 'pefourier[data]'"
            )


def check_method(name: str, task: Task) -> None:
    """Reject data that a method cannot use."""
    if name == "minirocket" and task.length < LEAST_ROWS:
        raise PefourierError(
            f"{task.name}: minirocket needs {LEAST_ROWS} rows, got {task.length}; omit it"
        )


def fit_method(name: str, task: Task, fold: int) -> tuple[Array, Array, int, float]:
    """Return logits (n, K) of validation and test windows, the step 1, and the seconds used."""
    began = time.perf_counter()
    parts = task.folds[fold]
    see, decide = METHODS[name]
    features = see(task.windows_at(np.arange(len(task.starts))), task.lengths)
    train, labels = features[parts.train], task.labels[parts.train]
    scores = decide(train, labels, [features[parts.valid], features[parts.test]])
    valid, test = (as_logits(decisions) for decisions in scores)
    return valid, test, 1, time.perf_counter() - began


def windows_summed_up(windows: Array, _: Array | None) -> Array:
    """Mean, standard deviation, minimum and maximum (W, 4 C) of windows (W, L, C), without nan."""
    rules = (np.nanmean, np.nanstd, np.nanmin, np.nanmax)
    return np.concatenate([rule(windows, axis=1) for rule in rules], axis=1)


def stretched(windows: Array, lengths: Array | None) -> Array:
    """Stretch the unpadded rows of windows (W, L, C) to all L rows by linear interpolation.

    >>> two = np.array([[0.0, 1.0, 2.0], [0.0, 4.0, 9.0]])[..., None]
    >>> stretched(two, np.array([3, 2]))[..., 0]
    array([[0., 1., 2.],
           [0., 2., 4.]])
    """
    if lengths is None:
        return windows
    steps, whole = np.linspace(0, 1, windows.shape[1]), windows.copy()
    for window, n in zip(whole, lengths.tolist(), strict=True):
        for channel in window.T:
            channel[:] = np.interp(steps * (n - 1), np.arange(n), channel[:n])
    return whole


def as_logits(scores: Array) -> Array:
    """Decision values (n,) of two classes or (n, K) of more classes, as logits.

    >>> as_logits(np.array([-1.0, 2.0])).tolist()
    [[0.0, -1.0], [0.0, 2.0]]
    """
    return scores if scores.ndim == 2 else np.column_stack([np.zeros(len(scores)), scores])


def boosted_trees(train: Array, labels: Array, queries: list[Array]) -> list[Array]:
    """Decision values of boosted trees on other windows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    size = len(train) // (LEAVES * len(np.unique(labels)))  # scikit-learn's 20 fails on small sets
    trees = HistGradientBoostingClassifier(
        class_weight="balanced",
        early_stopping=False,
        min_samples_leaf=min(max(size, 1), 20),
        random_state=0,
    )
    trees.fit(train, labels)
    return [trees.decision_function(query) for query in queries]


def mini_rocket(train: Array, labels: Array, queries: list[Array]) -> list[Array]:
    """Decision values of a ridge classifier on MiniRocket features of other windows."""
    from aeon.transformations.collection.convolution_based import MiniRocket
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    series = [np.ascontiguousarray(windows.transpose(0, 2, 1)) for windows in (train, *queries)]
    rocket = MiniRocket(random_state=0)
    features = [np.asarray(rocket.fit_transform(series[0])), *map(rocket.transform, series[1:])]
    ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10), class_weight="balanced")
    classifier = make_pipeline(StandardScaler(with_mean=False), ridge).fit(features[0], labels)
    return [classifier.decision_function(np.asarray(query)) for query in features[1:]]


METHODS = {"trees": (windows_summed_up, boosted_trees), "minirocket": (stretched, mini_rocket)}
