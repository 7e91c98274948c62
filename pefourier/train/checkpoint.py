"""Where a stack in training goes on after an interruption: a .safetensors, whole or absent."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pefourier.encodings.sources.tables import open_arrays
from pefourier.encodings.sources.writers import write_tensors
from pefourier.files import write_whole

EVERY = 60.0  # seconds between two of them, at least
FOLDER = "checkpoints"


@dataclass(eq=False)
class Checkpoint:
    """The file of a stack; without a path nothing is kept."""

    path: Path | None

    def __post_init__(self) -> None:
        self.saved = time.monotonic()

    def part(self, first: int, count: int) -> "Checkpoint":
        """That of some members of the stack, from the first on."""
        return Checkpoint(self.path and self.path.with_suffix(f".{first}-{count}.safetensors"))

    def load(self) -> dict[str, np.ndarray] | None:
        """What was saved last; None where nothing was."""
        if self.path is None or not self.path.is_file():
            return None
        with open_arrays(str(self.path), advice="delete it") as file:
            return {name: np.array(file.load(name)) for name in file.arrays}

    def save_at_times(self, state: Callable[[], Mapping[str, np.ndarray]]) -> None:
        """Save what training goes on from, if the last time is long enough ago."""
        if self.path is not None and time.monotonic() - self.saved >= EVERY:
            tensors = {name: np.ascontiguousarray(value) for name, value in state().items()}
            self.path.parent.mkdir(exist_ok=True)
            write_whole(str(self.path), lambda stream: write_tensors(stream, tensors))
            self.saved = time.monotonic()

    def drop(self) -> None:
        """Delete it: the stack is finished."""
        if self.path is not None:
            for path in (self.path, *self.path.parent.glob(f"{self.path.stem}.*")):
                path.unlink(missing_ok=True)
            if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
                self.path.parent.rmdir()
