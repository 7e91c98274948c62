"""Examples of equal length: scale, classes and .ts sets."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from training import read_task

from pefourier.train.data.split import from_examples
from pefourier.train.options import Options


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_scale_of_examples_comes_from_training_windows_alone(rng, unit):
    x, y = unit * rng.normal(3, 2, (50, 5, 2)), np.arange(50) % 2
    x[..., 1] = 3  # a channel that never changes keeps its scale
    task = from_examples("x", x, y)
    fold = task.folds[2]
    assert_allclose(fold.mean, x[fold.train].mean(axis=(0, 1)), rtol=1e-5)
    assert_allclose(fold.scale, [x[fold.train, :, 0].std(), 1], rtol=1e-5)
    assert sorted(np.concatenate([f.test for f in task.folds])) == list(range(50))
    (fold,) = from_examples("x", x, y, Options(split="chronological")).folds
    parts = [fold.train, fold.valid, fold.test]
    assert_array_equal(np.concatenate(parts), np.arange(50))
    assert list(map(len, parts)) == [30, 10, 10]


@pytest.mark.parametrize("kind", ["int8", "float16", "float64"])
def test_the_type_in_which_numbers_are_stored_does_not_matter(rng, kind):
    x = rng.integers(-9, 10, (40, 6, 2))
    made = (from_examples("x", x.astype(k), np.arange(40) % 2) for k in ("f4", kind))
    single, stored = ((task.rows, task.folds[0].mean, task.folds[0].scale) for task in made)
    for one, two in zip(single, stored, strict=True):
        assert_array_equal(one, two, strict=True)


@pytest.mark.filterwarnings("default")  # warnings of aeon and its imports
def test_uea_sets_keep_their_published_test_part(monkeypatch):
    pytest.importorskip("aeon", reason="needs the package aeon")
    task = read_task("uea:BasicMotions")
    assert (task.length, task.rows.shape, len(task.classes)) == (100, (8000, 6), 4)
    (fold,) = task.folds  # one test part, tested once
    assert fold.test.tolist() == list(range(40, 80))
    assert sorted([*fold.train, *fold.valid]) == list(range(40))
    vowels = read_task("uea:JapaneseVowels")  # 7 to 29 rows each
    assert (vowels.length, vowels.rows.shape[1], len(vowels.classes)) == (29, 12, 9)
    assert (vowels.lengths.min(), vowels.lengths.max()) == (7, 29)
    with refusal("aeon cannot read 'uea:NoSuchSet'"):
        read_task("uea:NoSuchSet")
    for name in ("aeon", "aeon.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with refusal(r"pip install 'pefourier\[data\]'"):
        read_task("uea:BasicMotions")


HEAD = "@univariate true\n@classLabel true a b\n@data\n"
SERIES = "1,2,3:a\n4,5,6:b\n"
WIDE = HEAD.replace("univariate true", "univariate false") + "1:2:a\n3:4:b\n"


@pytest.mark.filterwarnings("default")
def test_a_folder_of_ts_files_is_one_whole_set(tmp_path):
    pytest.importorskip("aeon", reason="needs the package aeon")
    (tmp_path / "S_TRAIN.ts").write_text(HEAD + SERIES * 12)
    for text, named in (
        (None, r"found S_TRAIN\.ts$"),
        ("", "no values"),
        (HEAD, "no values"),
        ("<html>\n</html>\n", "one of its files"),
        (WIDE, r"\[1, 2\] channels"),
    ):
        if text is not None:
            (tmp_path / "S_TEST.ts").write_text(text)
        with refusal(named):
            read_task(tmp_path)
    (tmp_path / "S_TEST.ts").write_text(HEAD + SERIES * 12)
    assert [len(fold.test) for fold in read_task(tmp_path).folds] == [24]
    assert len(read_task(tmp_path / "S_TRAIN.ts").folds) == 5


@pytest.mark.filterwarnings("default")
def test_resamples_have_the_sizes_of_the_published_split():
    pytest.importorskip("aeon", reason="needs the package aeon")
    task, published = (read_task("uea:ItalyPowerDemand", resamples=n) for n in (7, None))
    own = [[fold.train, fold.valid, fold.test] for fold in (*published.folds, *task.folds)]
    for part, other in zip(*own[:2], strict=True):
        assert_array_equal(part, other)
    counts = [[np.bincount(task.labels[part]).tolist() for part in fold] for fold in own]
    assert counts == [counts[0]] * 8
    for fold in own:
        assert len(np.unique(np.concatenate(fold))) == sum(map(len, fold)) == 67 + 1029
    assert 900 < len(set(own[2][2]) & set(own[0][2])) < 1029
