"""Mars Science Laboratory (Hundman et al., 2018): folders of .npy and labeled_anomalies.csv."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.errors import PefourierError
from pefourier.train.data.recordings import Recording, Source, reading

# Recorded over the same period: they share their command columns. P-10's rows are P-14's.
GROUPS = (
    ("T-4", "T-5"),
    ("T-12", "T-13"),
    ("M-1", "M-2"),
    ("M-3", "M-4", "M-5"),
    ("F-4", "F-5"),
)
DROPPED = frozenset({"P-10"})


def read_files(folder: Path) -> Iterator[tuple[str, Recording]]:
    """Read the channels of spacecraft MSL that the list of anomalies names."""
    path = folder / "labeled_anomalies.csv"
    if not path.is_file():
        path = folder.parent / path.name
    with reading(path), path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
        own = [row for row in rows if row["spacecraft"] == "MSL"]
        events = {row["chan_id"]: json.loads(row["anomaly_sequences"] or "") for row in own}
        listed = {row["chan_id"] for row in rows}
    unlisted = {file.stem for file in (folder / "test").glob("*.npy")} - listed
    if unlisted:
        raise PefourierError(
            f"{path} lacks {min(unlisted)}, whose rows are in {folder / 'test'}; download it again"
        )
    for name in sorted(events):
        parts = []
        for part in ("train", "test"):
            file = folder / part / f"{name}.npy"
            with reading(file):
                parts.append(np.load(file, allow_pickle=False))
        with reading(path):
            label = label_events(name, events[name], len(parts[1]))
        yield name, (parts[0], parts[1], label)


def label_events(name: str, events: Any, n: int) -> np.ndarray:
    """Labels of n rows from events [first, last], both inclusive.

    >>> label_events("C-1", [[0, 1], [3, 3]], 4)
    array([1, 1, 0, 1], dtype=uint8)
    """
    label = np.zeros(n, dtype=np.uint8)
    for event in events if isinstance(events, list) else [events]:
        match event:
            case [int(first), int(last)] if 0 <= first <= last < n:
                label[first : last + 1] = 1
            case _:
                raise ValueError(f"event {event} of {name} is not first and last of its {n} rows")
    return label


def recorded_together(name: str) -> tuple[str, str]:
    """A channel stays with those recorded over the same period."""
    group = next((" ".join(group) for group in GROUPS if name in group), name)
    return group, group


SOURCE = Source(
    name="msl",
    floor=0.05,
    blocks=4,
    folders=("msl", "data"),
    names=r"[A-Z]-\d+",
    suffix=".npy",
    read_published=read_files,
    together=recorded_together,
    dropped=DROPPED,
)
