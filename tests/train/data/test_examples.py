"""Examples of equal length: scale, classes, groups and .ts sets."""

import re
import sys

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import load
from pefourier.train.data.examples import from_examples


def test_scale_of_examples_comes_from_training_windows_alone():
    rng = np.random.default_rng(0)
    x, y = rng.normal(3, 2, (40, 5, 2)), np.arange(40) % 2
    task = from_examples("x", x, y, (), "blocks")
    fold = task.folds[2]
    np.testing.assert_allclose(fold.mean, x[fold.train].mean(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(fold.scale, x[fold.train].std(axis=(0, 1)), rtol=1e-5)
    assert sorted(np.concatenate([f.test for f in task.folds])) == list(range(40))


def test_uea_without_aeon_says_what_to_install(monkeypatch):
    for name in ("aeon", "aeon.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PefourierError, match=re.escape("pip install 'pefourier[data]'")):
        load.load_task("uea:BasicMotions")


@pytest.mark.filterwarnings("default")  # of aeon and what it imports
def test_uea_sets_keep_their_published_test_part(tmp_path):
    pytest.importorskip("aeon", reason="needs the package aeon")
    task = load.load_task("uea:BasicMotions")
    assert (task.length, task.rows.shape, len(task.classes)) == (100, (8000, 6), 4)
    (fold,) = task.folds  # one test part, tested once
    assert fold.test.tolist() == list(range(40, 80))
    assert sorted([*fold.train, *fold.valid]) == list(range(40))
    with pytest.raises(PefourierError, match="aeon cannot read 'uea:NoSuchSet'"):
        load.load_task("uea:NoSuchSet")
    vowels = load.load_task("uea:JapaneseVowels")  # 7 to 29 rows each
    assert (vowels.length, vowels.rows.shape[1], len(vowels.classes)) == (29, 12, 9)
    assert (vowels.lengths.min(), vowels.lengths.max()) == (7, 29)
    head = "@univariate true\n@classLabel true a b\n@data\n"
    for number, text, message in (
        (0, head + "1,2,3:a\n4,5,6:b\n" * 12, ""),
        (1, "", "holds no values in one of its files"),
        (2, head, "holds no values in one of its files"),
        (3, "<html>\n</html>\n", "one of its files"),
        (4, head.replace("univariate true", "univariate false") + "1:2:a\n3:4:b\n", "[1, 2] chann"),
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "S_TRAIN.ts").write_text(head + "1,2,3:a\n4,5,6:b\n" * 12)
        (folder / "S_TEST.ts").write_text(text)
        if number == 0:
            assert len(load.load_task(str(folder)).labels) == 48
            continue
        with pytest.raises(PefourierError, match=re.escape(message)):
            load.load_task(str(folder))


@pytest.mark.filterwarnings("default")
def test_resamples_have_the_sizes_of_the_published_split():
    pytest.importorskip("aeon", reason="needs the package aeon")
    task = load.load_task("uea:ItalyPowerDemand", resamples=3)
    (published,) = load.load_task("uea:ItalyPowerDemand").folds
    for one, two in zip(task.folds[:1], [published], strict=True):
        for part in ("train", "valid", "test"):
            np.testing.assert_array_equal(getattr(one, part), getattr(two, part))
    counts = [
        [np.bincount(task.labels[part]).tolist() for part in (f.train, f.valid, f.test)]
        for f in task.folds
    ]
    assert counts[0] == counts[1] == counts[2]
    tests = [set(f.test.tolist()) for f in task.folds]
    assert len(tests) == 3
    for fold, tested in zip(task.folds, tests, strict=True):
        learnt = set(fold.train.tolist()) | set(fold.valid.tolist())
        assert not learnt & tested
        assert len(learnt | tested) == 67 + 1029
        assert 900 < len(tested & tests[0]) <= 1029
    again = load.load_task("uea:ItalyPowerDemand", resamples=2).folds[1]
    np.testing.assert_array_equal(again.test, task.folds[1].test)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("order", {"resamples": 3}, "which 'order', split blocks, has not got"),
        ("uea:GunPoint", {"resamples": 0}, "--resamples must be a whole number from 1 on; got 0"),
        ("uea:GunPoint", {"resamples": 2, "window": 9}, "--window and --stride are for recordings"),
        ("uea:GunPoint", {"resamples": 2, "split_by": "random"}, "split random, has not got"),
    ],
)
def test_resamples_of_what_has_no_test_part_are_refused(name, given, message):
    with pytest.raises(PefourierError, match=message):
        load.load_task(name, **given)


@pytest.mark.parametrize(
    ("files", "held"),
    [
        ((), "neither"),
        (("S_TRAIN",), "S_TRAIN.ts"),
        (("A_TEST", "A_TRAIN", "B_TRAIN"), "A_TRAIN.ts"),
    ],
)
def test_a_folder_of_ts_files_is_one_whole_set(tmp_path, files, held):
    for name in files:
        (tmp_path / f"{name}.ts").write_text("")
    with pytest.raises(PefourierError, match=rf"must hold one \*_TRAIN.ts .*; it holds {held}"):
        load.load_task(str(tmp_path))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_unit_of_a_channel_does_not_matter(rng, unit):
    x = rng.normal(size=(40, 6, 2)) + 3
    task = from_examples("x", x * unit, np.arange(40) % 2, (), "blocks")
    fold = task.folds[0]
    at = task.starts[fold.train][:, None] + np.arange(6)
    np.testing.assert_allclose(((task.rows[at] - fold.mean) / fold.scale).std((0, 1)), 1, rtol=1e-4)


@pytest.mark.parametrize("kind", ["int8", "float16", "float64"])
def test_the_type_in_which_numbers_are_stored_does_not_matter(rng, kind):
    x = rng.integers(-9, 10, (40, 6, 2))
    made = (from_examples("x", x.astype(k), np.arange(40) % 2, (), "blocks") for k in ("f4", kind))
    single, stored = ((task.rows, task.folds[0].mean, task.folds[0].scale) for task in made)
    for one, two in zip(single, stored, strict=True):
        np.testing.assert_array_equal(one, two, strict=True)


@pytest.mark.parametrize("y", [[0.5, 1.0], [0.0, np.nan]])
def test_classes_are_whole_numbers_or_names(rng, y):
    with pytest.raises(PefourierError, match="y must hold classes, whole numbers or names; got"):
        from_examples("x", rng.normal(size=(20, 4, 1)), np.array(y * 10), (), "blocks")
