"""Labelled recordings: published datasets, and a user's own series.

Conventions
-----------
The part called train is unlabelled and gives mean and standard deviation of each channel, the
latter at least a floor; the labelled part, so scaled and cut at ±20, is what windows come from.
A published dataset has two layouts: archives NAME.npz with `train`, `test` and `label`, or that of
its publisher, which its file in published/ reads.
"""

import csv
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.train.data.split import Series

LIMIT = 20.0  # scaled values are cut here
LARGEST = 1e30  # of values read: float32 ends at 3e38
# What damaged archives raise
FAULTS = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
)
Recording = tuple[np.ndarray, np.ndarray, np.ndarray]  # train rows, test rows, label


@dataclass(frozen=True)
class Source:
    """A published dataset: where it lies, how it is cut, and who must stay together."""

    name: str
    floor: float  # least standard deviation of a channel
    blocks: int
    folders: tuple[str, ...]  # of --data DIR that may hold it
    names: str  # of its recordings, a regular expression
    suffix: str  # of its publisher's files
    read_published: Callable[[Path], Iterator[tuple[str, Recording]]]
    together: Callable[[str], tuple[str, str]]  # recorded_with, dealt_with
    dropped: frozenset[str] = frozenset()


def read_recordings(source: Source, data: str | None) -> list[Series]:
    """Read all recordings of a published dataset under a folder."""
    if data is None:
        raise PefourierError(
            f"{source.name} is read from a folder; give --data DIR that holds {source.name}/"
        )
    folder, archives = locate(source, Path(data))
    recordings = read_archives(archives) if archives else source.read_published(folder)
    found = [
        scale_recording(name, recording, source.floor, *source.together(name))
        for name, recording in recordings
        if name not in source.dropped
    ]
    if not found:
        raise PefourierError(f"{folder} holds no recording of {source.name}; download it again")
    widths = {s.rows.shape[1] for s in found}
    if len(widths) > 1:
        raise PefourierError(f"{folder}: recordings have different columns: {sorted(widths)}")
    return found


def locate(source: Source, data: Path) -> tuple[Path, list[Path]]:
    """Find the folder of a dataset, and its archives where it has that layout."""
    for folder in (data / name for name in (*source.folders, ".")):
        files = sorted(folder.glob("*.npz"))
        archives = [file for file in files if re.fullmatch(source.names, file.stem)]
        if archives or any((folder / "test").glob(f"*{source.suffix}")):
            return folder, archives
    names = " or ".join(f"{name}/" for name in source.folders)
    raise PefourierError(
        f"{shown(str(data))} holds no {source.name}: expected {names} with .npz archives of its "
        f"recordings, or the publisher's train/ and test/ of {source.suffix} files"
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell what cannot be read as one line that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns of an empty text file
            yield
    except PefourierError:
        raise
    except FileNotFoundError as error:
        raise PefourierError(f"{path} is missing") from error
    except (*FAULTS, UserWarning) as error:
        if "Object arrays" in str(error):
            raise PefourierError(
                f"{path} holds Python objects; save numbers, or names as np.array(names, dtype=str)"
            ) from error
        advice = "pickle" in str(error)  # numpy's, to load what is no array
        what = "" if advice else f" ({type(error).__name__}: {error})"
        raise PefourierError(
            f"{path} is damaged or half downloaded{what}; download it again"
        ) from error


@contextmanager
def archive(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """An open .npz, which is closed even if it is damaged."""
    with path.open("rb") as stream:
        head = stream.read(2)
        if head not in (b"", b"PK"):
            raise PefourierError(f"{path} is no archive of arrays, as numpy.savez writes")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            yield arrays


def read_archives(paths: Sequence[Path]) -> Iterator[tuple[str, Recording]]:
    """Read recordings from archives, if all that a manifest beside them lists are there."""
    manifest = paths[0].parent.parent / "MANIFEST.csv"
    if manifest.is_file():
        folder = paths[0].parent.name
        with reading(manifest), manifest.open(newline="") as lines:
            listed = [row for row in csv.DictReader(lines) if row.get("file")]
        for row in listed:
            file = manifest.parent / row["file"]
            if file.parent.name != folder:
                continue
            if not file.is_file():
                raise PefourierError(f"{file} is missing; {manifest} lists it")
            if row.get("sha256") not in (None, "", sha256(file.read_bytes()).hexdigest()):
                raise PefourierError(
                    f"{file} does not have the checksum in {manifest}; download it again"
                )
    for path in paths:
        with reading(path), archive(path) as arrays:
            yield path.stem, (arrays["train"], arrays["test"], arrays["label"])


def scale_recording(
    name: str, recording: Recording, floor: float, recorded_with: str, dealt_with: str
) -> Series:
    """Scale a recording by its unlabelled part."""
    train, test, label = recording
    label = truth_values(name, test, label)
    for part, rows in (("train", train), ("test", test)):
        check_rows(f"{name}, {part}", rows)
    if train.shape[1] != test.shape[1]:
        raise PefourierError(f"{name}: train has {train.shape[1]} columns and test {test.shape[1]}")
    scale = np.maximum(train.std(axis=0, dtype=float), floor)
    rows = np.clip((test - train.mean(axis=0, dtype=float)) / scale, -LIMIT, LIMIT)
    return Series(name, rows.astype(np.float32), label, recorded_with, dealt_with)


def truth_values(name: str, rows: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Labels as truth values, one for each row."""
    if label.ndim != 1 or rows.ndim != 2 or len(label) != len(rows):
        raise PefourierError(
            f"{name}: rows of shape {rows.shape} and labels of shape {label.shape}; "
            "expected (n, channels) and (n,)"
        )
    wrong = label[~np.isin(label, (0, 1))]
    if len(wrong):
        raise PefourierError(
            f"{name}: the label of a row must be 0 or 1; got {shown(wrong[0].item())}"
        )
    return label.astype(bool)


def check_rows(what: str, rows: np.ndarray) -> None:
    """Refuse rows that are not numbers (n, channels), or not finite."""
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiub":
        raise PefourierError(
            f"{what}: expected numbers of shape (n, channels); got {rows.dtype} {rows.shape}"
        )
    bad = np.argwhere(~(np.abs(rows) <= LARGEST))
    if len(bad):
        value = rows[tuple(bad[0])]
        way_out = "scale such values" if np.isfinite(value) else "fill missing values"
        raise PefourierError(
            f"{what}: row {bad[0, 0]}, column {bad[0, 1]} is {value}; {way_out} before training"
        )
