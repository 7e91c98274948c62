"""Mars Science Laboratory (Hundman et al., 2018): folders of .npy and labeled_anomalies.csv."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.sources.tables import parse_or_refuse
from pefourier.errors import PefourierError, shown
from pefourier.files import label
from pefourier.train.data import recordings

# Recorded over the same period: they share their command columns. P-10's rows are P-14's.
GROUPS = (("T-4", "T-5"), ("T-12", "T-13"), ("M-1", "M-2"), ("M-3", "M-4", "M-5"), ("F-4", "F-5"))
DROPPED = frozenset({"P-10"})
NAMES = r"[A-Z]-\d+"


def read_files(folder: Path) -> Iterator[tuple[str, recordings.Recording]]:
    """Read the channels of spacecraft MSL that the list of anomalies names."""
    path = folder / "labeled_anomalies.csv"
    if not path.is_file():
        path = folder.parent / path.name
    if not path.is_file():
        raise PefourierError(f"{path} is missing; {recordings.AGAIN}")
    rows, file = recordings.read_list(path), label(str(path))
    for column in ("chan_id", "spacecraft"):
        if not all(column in row for row in rows):
            raise PefourierError(f"{file} has a row without {column}; {recordings.AGAIN}")
    unlisted = {recorded.stem for recorded in (folder / "test").glob("*.npy")}
    unlisted -= {row["chan_id"] for row in rows}
    if unlisted:
        raise PefourierError(
            f"{path} lacks {min(unlisted)}, whose rows are in {folder / 'test'}; download it again"
        )
    listed = {row["chan_id"]: row for row in rows if row["spacecraft"] == "MSL"}
    for name in sorted(listed):
        parts = [read_channel(folder / part, name) for part in ("train", "test")]
        events = listed[name].get("anomaly_sequences", "")
        act = partial(label_events, name, events, len(parts[1]))
        yield name, (*parts, parse_or_refuse(act, file, ".csv", recordings.AGAIN))


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
    try:
        events: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the events of {name} are not a list in JSON: {shown(text)}") from error
    marked = np.zeros(n, dtype=np.uint8)
    for event in events if isinstance(events, list) else [events]:
        match event:
            case [int(first), int(last)] if 0 <= first <= last < n:
                marked[first : last + 1] = 1
            case _:
                raise ValueError(
                    f"event {shown(event)} of {name} is not first and last of its {n} rows"
                )
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
