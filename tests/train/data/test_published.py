"""Published datasets: their layouts, counts, and what is refused."""

import os
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from stored import HEADER, npy_bytes
from training import EVENTS, archives, recording

from pefourier.errors import PefourierError
from pefourier.train.data import PUBLISHED, load, recordings, split

SHARED = Path(__file__).parents[4] / "shared" / "data"


published = pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data (SMD and MSL)")


@cache
def published_recordings(name):
    return recordings.read_recordings(load.source_of_dataset(name), str(SHARED))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_source_has_the_name_of_its_file(name):
    assert load.source_of_dataset(name).name == name


@published
@pytest.mark.parametrize(
    ("name", "window", "windows", "positive"),
    [
        ("smd", 64, 6824, 578),
        ("smd", 100, 4222, 464),
        ("msl", 64, 933, 148),
        ("msl", 100, 550, 107),
    ],
)
def test_windows_of_the_blocks_split_are_as_many_as_published(name, window, windows, positive):
    task = split.split_series(
        name, published_recordings(name), window, blocks=load.source_of_dataset(name).blocks
    )
    tested = np.unique(np.concatenate([fold.test for fold in task.folds]))
    assert (len(tested), int(task.labels[tested].sum())) == (windows, positive)
    assert sum(len(fold.test) for fold in task.folds) == windows
    assert not task.leaky
    if name == "msl":
        assert task.rows.shape[1] == 55


@published
@pytest.mark.parametrize("window", [64, 100])
def test_no_machine_trains_in_the_time_in_which_another_is_tested(window):
    """Of SMD's positive test windows a quarter, in one fold, were trained on elsewhere."""
    series = published_recordings("smd")
    task = split.split_series("smd", series, window, stride=window // 2)
    first = np.cumsum([0, *(len(s.rows) for s in series)])
    clock = task.starts - first[np.searchsorted(first, task.starts, side="right") - 1]
    for fold in task.folds:
        tested = np.zeros(max(len(s.rows) for s in series), dtype=bool)
        for start in clock[fold.test]:
            tested[start : start + window] = True
        for part in (fold.train, fold.valid):
            assert not any(tested[start : start + window].any() for start in clock[part])
        assert len(fold.train) > 0.55 * len(task.starts)  # of .6 before any was dropped


@published
def test_windows_are_gathered_and_not_kept():
    task = split.split_series("smd", published_recordings("smd"), 64, stride=1)
    assert len(task.starts) > 300_000
    held = sum(a.nbytes for a in (task.rows, task.starts, task.labels))
    assert held < 100e6  # a copy of every window would be 3 GB


def test_smd_in_archives_and_in_text_are_the_same_task(tmp_path, rng):
    found = archives(tmp_path / "a" / "smd", rng)
    for part, column in (("train", 0), ("test", 1), ("test_label", 2)):
        folder = tmp_path / "b" / "ServerMachineDataset" / part
        folder.mkdir(parents=True)
        for name, parts in found.items():
            np.savetxt(folder / f"{name}.txt", parts[column], delimiter=",", fmt="%.9g")
    one = load.load_task("smd", str(tmp_path / "a"), 16)
    other = load.load_task("smd", str(tmp_path / "b"), 16)
    np.testing.assert_allclose(one.rows, other.rows, atol=1e-6)
    np.testing.assert_array_equal(one.starts, other.starts)
    for mine, theirs in zip(one.folds, other.folds, strict=True):
        np.testing.assert_array_equal(mine.test, theirs.test)


def test_msl_as_published_counts_both_ends_of_an_event(tmp_path, rng):
    train, test, label = recording(rng)
    for part, rows in (("train", train), ("test", test)):
        (tmp_path / part).mkdir()
        for name in ("A-1", "P-10", "B-2"):
            np.save(tmp_path / part / f"{name}.npy", rows)
    events = f'"{[list(event) for event in EVENTS]}"'
    lines = ["chan_id,spacecraft,anomaly_sequences,class,num_values"]
    lines += [
        f"{name},{craft},{events},[point],1200"
        for name, craft in (("A-1", "MSL"), ("P-10", "MSL"), ("B-2", "SMAP"))
    ]
    (tmp_path / "labeled_anomalies.csv").write_text("\n".join(lines) + "\n")
    (only,) = recordings.read_recordings(load.source_of_dataset("msl"), str(tmp_path))
    assert only.name == "A-1"
    np.testing.assert_array_equal(only.label, label.astype(bool))


NO_ZIP = "' is not a readable .npz file: File is not a zip file; download it again"


def test_missing_and_half_downloaded_data_are_said(tmp_path, rng):
    with pytest.raises(PefourierError, match=re.escape("give --data DIR that holds smd/")):
        load.load_task("smd")
    with pytest.raises(PefourierError, match="holds no smd: expected smd/ or Server"):
        load.load_task("smd", str(tmp_path))
    archives(tmp_path / "smd", rng)
    whole = (tmp_path / "smd" / "machine-1-2.npz").read_bytes()
    (tmp_path / "smd" / "machine-1-2.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PefourierError, match=re.escape("machine-1-2.npz" + NO_ZIP)):
        load.load_task("smd", str(tmp_path), 16)


def as_published(folder, name="A-1"):
    """A channel of MSL with a list of anomalies that the caller spoils."""
    rows = np.random.default_rng(0).normal(size=(1200, 3))
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        np.save(folder / part / f"{name}.npy", rows)
    return folder / "labeled_anomalies.csv"


HEAD = "chan_id,spacecraft,anomaly_sequences,class,num_values\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks A-1, whose rows are in"),
        (HEAD, "lacks A-1, whose rows are in"),
        (HEAD + 'B-1,MSL,"[[1, 2]]",[point],1200\n', "lacks A-1, whose rows are in"),
        (HEAD + "A-1,MSL", "the events of A-1 are not a list in JSON: ''; download it again"),
        (HEAD + 'A-1,MSL,"[[1, 2]', "the events of A-1 are not a list in JSON: '[[1, 2]'; downlo"),
        (HEAD + 'A-1,SMAP,"[[1, 2]]",[point],1200\n', "holds no recording of msl"),
        ("spacecraft\nSMAP\n", "' has a row without chan_id; download it again"),
        ("chan_id\nA-1\n", "' has a row without spacecraft; download it again"),
        (HEAD + "A-1\n", "' has a row without spacecraft; download it again"),
        ("<html>\n<p>404</p>\n", "' has a row without chan_id; download it again"),
        (b"\xff\xfe", "' is not a readable .csv file: 'utf-8' codec can't decode byte 0xff in pos"),
        (HEAD + "x" * 200_000, "' is not a readable .csv file: field larger than field limit (13"),
        (HEAD + "A-1,MSL,[],,\n" * 1_400_000, "' is not a readable .csv file: a list has up to 1"),
        (HEAD + 'A-1,SMAP,"[]",,\n../A-1,MSL,"[]",,\n', "MSL has no channel '../A-1'; download it"),
        *(
            (
                HEAD + f'A-1,MSL,"{events}",[point],1200\n',
                f"the events of A-1 are not a list in JSON: '{events[:59]}",
            )
            for events in ("[" * 5000, "[" * 50000 + "]" * 50000, "9" * 5000, "[[1, 2]")
        ),
        *(
            (
                HEAD + f'A-1,MSL,"{events}",[point],1200\n',
                f"event {one} of A-1 is not first and last of its 1200 rows",
            )
            for events, one in (
                ("[[7, 5]]", "[7, 5]"),
                ("[[5, 1200]]", "[5, 1200]"),
                ("[5, 10]", "5"),
                ("5", "5"),
                ("[[5, 7, 9]]", "[5, 7, 9]"),
                ("[[1.5, 7]]", "[1.5, 7]"),
                ("[[-1, 7]]", "[-1, 7]"),
                ("null", "None"),
            )
        ),
    ],
)
def test_labels_of_msl_are_whole_or_refused(tmp_path, text, message):
    as_published(tmp_path).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PefourierError, match=re.escape(message)) as caught:
        load.load_task("msl", str(tmp_path), 16)
    assert "\n" not in str(caught.value)


def test_one_dataset_is_not_taken_for_another(tmp_path, rng):
    archives(tmp_path / "smd", rng)
    with pytest.raises(
        PefourierError, match=r"holds no msl: expected msl/ or data/ with \.npz arch"
    ):
        load.load_task("msl", str(tmp_path / "smd"))
    as_published(tmp_path / "nasa")
    with pytest.raises(PefourierError, match=r"holds no smd: .* test/ of \.txt files"):
        load.load_task("smd", str(tmp_path / "nasa"))


@pytest.mark.parametrize("part", ["train", "test", "test_label"])
def test_a_machine_without_one_of_its_files_is_said(tmp_path, part):
    for one in ("train", "test", "test_label"):
        (tmp_path / one).mkdir()
        for machine in range(1, 3):
            (tmp_path / one / f"machine-1-{machine}.txt").write_text("0\n1\n" * 600)
    (tmp_path / part / "machine-1-2.txt").unlink()
    with pytest.raises(PefourierError, match=rf"{part}/machine-1-2\.txt is missing"):
        load.load_task("smd", str(tmp_path), 16)


def test_numpys_advice_to_unpickle_is_not_passed_on(tmp_path):
    as_published(tmp_path).write_text(HEAD + 'A-1,MSL,"[[1, 2]]",[point],1200\n')
    (tmp_path / "test" / "A-1.npy").write_text("<html>\n<p>404</p>\n")
    with pytest.raises(
        PefourierError, match=r"A-1\.npy' is not a readable .npy file: its header does not describe"
    ):
        load.load_task("msl", str(tmp_path), 16)


SHAPES = {"0-d": np.array(1.5), "row": np.ones(1200), "empty": np.ones((0, 3))}


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("shape", SHAPES)
def test_channels_of_another_shape_are_refused(tmp_path, part, shape):
    as_published(tmp_path).write_text(HEAD + 'A-1,MSL,"[[1, 2]]",[point],1200\n')
    np.save(tmp_path / part / "A-1.npy", SHAPES[shape])
    message = f"A-1, {part}: expected numbers of shape (n, channels); got float64 "
    with pytest.raises(PefourierError, match=re.escape(message)):
        load.load_task("msl", str(tmp_path), 16)


OBJECTS = npy_bytes(HEADER.replace(b"'<f8'", b"'|O'").replace(b"5, 3", b"1200, 3"), b"A" * 28800)
UNCLOSED = npy_bytes(b"{'descr': '<f8', 'shape': (1200, 3")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (OBJECTS, "' holds Python objects; save numbers, or names as np.array(names, dtype=str)"),
        (UNCLOSED, "' is not a readable .npy file: its header does not describe an array; downl"),
    ],
    ids=["objects", "unclosed"],
)
def test_channels_are_judged_by_their_header(tmp_path, content, message):
    as_published(tmp_path).write_text(HEAD + 'A-1,MSL,"[[1, 2]]",[point],1200\n')
    (tmp_path / "test" / "A-1.npy").write_bytes(content)
    with pytest.raises(PefourierError, match=re.escape(message)):
        load.load_task("msl", str(tmp_path), 16)


@pytest.mark.parametrize("name", ["labeled_anomalies.csv", "train/A-1.npy", "test/A-1.npy"])
def test_pipes_among_channels_are_refused(tmp_path, name):
    as_published(tmp_path).write_text(HEAD + 'A-1,MSL,"[[1, 2]]",[point],1200\n')
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(PefourierError, match=rf"{name}('| is missing)"):
        load.load_task("msl", str(tmp_path), 16)


def test_archives_of_half_precision_are_read(tmp_path, rng):
    """SMD takes a quarter of the room so; it ended in a traceback."""
    for kind in (np.float16, np.float32):
        (tmp_path / kind.__name__ / "smd").mkdir(parents=True)
    for name, parts in archives(tmp_path / "smd", rng).items():
        halves = [one.astype(np.float16) for one in parts]
        for kind in (np.float16, np.float32):
            train, test, label = (one.astype(kind) for one in halves)
            path = tmp_path / kind.__name__ / "smd" / f"{name}.npz"
            np.savez_compressed(path, train=train, test=test, label=label)
    one, other = (
        load.load_task("smd", str(tmp_path / kind), 16) for kind in ("float16", "float32")
    )
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(one.labels, other.labels)


def test_archives_lack_nothing(tmp_path, rng):
    (found,) = archives(tmp_path / "smd", rng, names=("machine-1-1",)).values()
    np.savez(tmp_path / "smd" / "machine-1-1.npz", train=found[0], test=found[1])
    held = "machine-1-1.npz' holds 'train' (1200, 3), 'test' (1200, 3); expected train, test and la"
    with pytest.raises(PefourierError, match=re.escape(held)):
        load.load_task("smd", str(tmp_path), 16)


def test_filters_of_warnings_are_the_callers_between_recordings(tmp_path, rng):
    """They were errors there, in the caller's code as well."""
    archives(tmp_path / "smd", rng)
    warnings.simplefilter("default")
    before = list(warnings.filters)
    paths = sorted((tmp_path / "smd").glob("*.npz"))
    for _ in recordings.read_archives(paths):
        assert warnings.filters == before
        with pytest.warns(UserWarning, match="mine"):
            warnings.warn("mine", stacklevel=1)


def test_all_recordings_together_fit_into_the_machine(tmp_path, rng, monkeypatch):
    archives(tmp_path / "smd", rng)
    monkeypatch.setattr(recordings, "memory_limit", lambda: 2**14)
    with pytest.raises(PefourierError, match=r"take more than 16384 bytes, an eighth of this mach"):
        load.load_task("smd", str(tmp_path), 16)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0,1\n2,x\n", "could not convert string 'x' to float64 at row 1, column 2."),
        ("", "it has no line of numbers separated by commas"),
    ],
)
def test_texts_of_machines_are_judged_line_by_line(tmp_path, text, reason):
    for one in ("train", "test", "test_label"):
        (tmp_path / one).mkdir()
        (tmp_path / one / "machine-1-1.txt").write_text("0\n1\n" * 600)
    (tmp_path / "test" / "machine-1-1.txt").write_text(text)
    message = f"test/machine-1-1.txt' is not a readable .csv file: {reason}; download it again"
    with pytest.raises(PefourierError, match=f"{re.escape(message)}$"):
        load.load_task("smd", str(tmp_path), 16)
