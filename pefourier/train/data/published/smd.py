"""The Server Machine Dataset (Su et al., 2019): train/, test/ and test_label/ of text."""

from collections.abc import Iterator
from pathlib import Path

from pefourier.train.data.recordings import Recording, Source, load_part, open_part


def read_text(folder: Path) -> Iterator[tuple[str, Recording]]:
    """Read machines from text, a row in each line, values between commas."""
    folders = [folder / part for part in ("train", "test", "test_label")]
    for name in sorted({path.name for subfolder in folders for path in subfolder.glob("*.txt")}):
        parts = []
        for file in (subfolder / name for subfolder in folders):
            with open_part(file, ".csv") as text:
                parts.append(load_part(text, dtype="float32"))
        yield Path(name).stem, (parts[0], parts[1], parts[2][:, 0])


# incidents coincide across machines: blocks of one number are dealt together
SOURCE = Source(
    name="smd",
    floor=0.02,
    blocks=10,
    folders=("smd", "ServerMachineDataset"),
    names=r"machine-\d+-\d+",
    suffix=".txt",
    read_published=read_text,
    together=lambda name: (name, "smd"),
)
