"""Mars Science Laboratory (Hundman et al., 2018): folders of .npy and labeled_anomalies.csv."""

import csv
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.sources.tables import parse_or_refuse
from pefourier.errors import PefourierError, shown
from pefourier.files import label
from pefourier.train.data import recordings

# Recorded over the same period: they share their command columns. P-10's rows are P-14's.
GROUPS = (("T-4", "T-5"), ("T-12", "T-13"), ("M-1", "M-2"), ("M-3", "M-4", "M-5"), ("F-4", "F-5"))
DROPPED = frozenset({"P-10"})
NAMES = r"[A-Z]-\d+"
LIST, COLUMNS = "labeled_anomalies.csv", {"chan_id", "spacecraft", "anomaly_sequences"}
LARGEST_LIST = 2**24  # bytes


def read_files(folder: Path) -> Iterator[tuple[str, recordings.Recording]]:
    """Read the channels of spacecraft MSL that the list of anomalies names."""
    path = next((p / LIST for p in (folder, folder.parent) if (p / LIST).is_file()), folder / LIST)
    if not path.is_file():
        raise PefourierError(f"{path} is missing; {recordings.AGAIN}")
    parse = partial(parse_or_refuse, file=label(str(path)), suffix=".csv", advice=recordings.AGAIN)
    rows = parse(partial(parse_list, path))
    unlisted = {recorded.stem for recorded in (folder / "test").glob("*.npy")}
    unlisted -= {row["chan_id"] for row in rows}
    if unlisted:
        raise PefourierError(
            f"{path} lacks {min(unlisted)}, whose rows are in {folder / 'test'}; download it again"
        )
    events = {
        row["chan_id"]: row["anomaly_sequences"] for row in rows if row["spacecraft"] == "MSL"
    }
    for name in sorted(events):
        parts = [read_channel(folder / part, name) for part in ("train", "test")]
        yield name, (*parts, parse(partial(label_events, name, events[name], len(parts[1]))))


def parse_list(path: Path) -> list[dict[str, str]]:
    """The rows of the list by the names in its first line."""
    if path.stat().st_size > LARGEST_LIST:
        raise ValueError(f"a list has up to {LARGEST_LIST} bytes")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        lines = csv.DictReader(stream, restval="")
        try:
            names, rows = lines.fieldnames or (), list(lines)
        except csv.Error as error:
            raise ValueError(str(error)) from error
    if not COLUMNS <= set(names):
        raise ValueError(f"its first line must name {', '.join(sorted(COLUMNS))}")
    return rows


def read_channel(folder: Path, name: str) -> np.ndarray:
    """The rows of a channel in train/ or test/ (n, columns)."""
    if not re.fullmatch(NAMES, name):
        raise PefourierError(f"MSL has no channel {shown(name)}; {recordings.AGAIN}")
    with recordings.open_part(folder / f"{name}.npy", ".npy") as file:
        rows = recordings.load_part(file)
    recordings.check_rows(f"{name}, {folder.name}", rows)
    return rows


def label_events(name: str, text: str, n: int) -> np.ndarray:
    """Labels of n rows from events [first, last] in JSON, both inclusive.

    >>> label_events("C-1", "[[0, 1], [3, 3]]", 4)
    array([1, 1, 0, 1], dtype=uint8)
    """
    events = json.loads(text)
    bounds = np.array(events) if events != [] else np.zeros((0, 2), int)
    pairs = bounds.dtype.kind == "i" and bounds.ndim == 2 and bounds.shape[1] == 2
    if not pairs or not (np.diff(bounds, prepend=0, append=n - 1) >= 0).all():
        raise ValueError(f"events of {name} are not first and last of its {n} rows: {shown(text)}")
    marked = np.zeros(n, dtype=np.uint8)
    for first, last in bounds:
        marked[first : last + 1] = 1
    return marked


def period_of(name: str) -> tuple[str, str]:
    """A channel stays with those recorded over the same period."""
    group = next((" ".join(group) for group in GROUPS if name in group), name)
    return group, group


SOURCE = recordings.Source(
    name="msl",
    floor=0.05,
    blocks=4,
    folders=("msl", "data"),
    names=NAMES,
    suffix=".npy",
    read_published=read_files,
    together=period_of,
    dropped=DROPPED,
)
