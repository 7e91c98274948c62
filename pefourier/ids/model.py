"""Position ids of a model's config: first id, limit, axes, and the effect of wrong ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.model_positions import ModelPositions, axis_in, describe_positions
from pefourier.encodings.sources.huggingface import first_row
from pefourier.encodings.sources.json_object import read_object
from pefourier.errors import PefourierError, shown
from pefourier.ids.axes import BY_FRAME, Vision
from pefourier.ids.spans import Rules

LAGS = 4096  # lags per pair of runs at which changes of scores are computed
PAIRS_OF_RUNS = 64


@dataclass(frozen=True)
class Consequence:
    """Effect of unexpected ids on attention."""

    scores_change: bool | None  # None: no config was given
    largest_change: float | None  # in the kernel, a bias, or a vector relative to its norm


NOT_KNOWN = Consequence(None, None)


@dataclass(frozen=True, eq=False)
class Model:
    """Positions of a model, and the config keys that determine its ids."""

    spec: str
    positions: ModelPositions
    values: dict[str, Any]  # the whole config

    @property
    def encoding(self) -> Encoding:
        """The first rotation of the model, or its table or bias."""
        return self.positions.encoding

    @cached_property
    def has_axes(self) -> bool:
        """Whether the rotation has three axes of ids."""
        return self.encoding.injection == "rotate" and axis_in(self.encoding) is not None

    @property
    def vision_tokens(self) -> tuple[int | None, int | None]:
        """Token ids of the patches of images and videos."""
        image = self.values.get("image_token_id", self.values.get("image_token_index"))
        video = self.values.get("video_token_id", self.values.get("video_token_index"))
        image, video = (token if isinstance(token, int) else None for token in (image, video))
        return image, video

    @property
    def vision(self) -> Vision:
        """Conversion of the patches of images and videos to tokens."""
        section = self.values.get("vision_config")
        section = section if isinstance(section, dict) else {}
        kind = str(self.values.get("model_type", ""))
        merges = [section.get(f"{name}_merge_size") for name in ("spatial", "temporal")]
        spatial, temporal = (m if isinstance(m, int) and m > 0 else None for m in merges)
        rate = section.get("tokens_per_second")
        is_timed = kind.startswith("qwen2_5")
        return Vision(
            merge=spatial or 2,
            frames_merged=(temporal or 1) if kind.startswith("ernie") else 1,
            tokens_per_second=float(rate) if is_timed and isinstance(rate, int | float) else None,
            by_frame=kind.startswith(BY_FRAME),
        )

    def rules(self, length: int | None) -> Rules:
        """First id, limit, and the number that the model adds to ids."""
        config = self.encoding.file and self.encoding.file.model
        row = config.row if config else {}
        is_table = self.encoding.injection == "add" and self.encoding.name in (
            "learned",
            "sinusoidal",
            "file",
        )
        first = first_row(config) if config and is_table else 0
        among = row.get("first") == "padding"
        limit = self.positions.allowed
        if is_table and limit is not None:
            limit = len(self.encoding) + (first if among else 0)
        if self.encoding.injection in ("bias", "key", "key-query"):
            limit = None  # distances have a bias or vector at any length
        return Rules(
            start=first if among else 0, added=0 if among else first, limit=length or limit
        )

    def consequence(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Consequence:
        """Compute the effect of ids (…, n) that replace the expected ones, by document."""
        if self.encoding.injection == "add":
            return self.change_of_vectors(pairs)
        changes = [c for ids, due in pairs for c in self.changes_of_scores(ids, due)]
        return Consequence(bool(changes), max(changes, default=0.0))

    def change_of_vectors(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Consequence:
        """Return the largest distance between added vectors, relative to the RMS norm."""
        ids, due = (np.concatenate([np.zeros(0, int), *(p[i][0] for p in pairs)]) for i in (0, 1))
        ids, due = ids[ids != due], due[ids != due]
        if not len(ids):
            return Consequence(scores_change=False, largest_change=0.0)
        rows = len(self.encoding)
        inside = (ids >= 0) & (ids < rows) & (due >= 0) & (due < rows)
        if not inside.any() or (
            self.encoding.name == "learned" and self.encoding.origin == "formula"
        ):
            return Consequence(scores_change=True, largest_change=None)
        a, b = (self.encoding.table(x[inside][:LAGS]) for x in (ids, due))
        norm = float(np.sqrt((np.asarray(b, float) ** 2).sum(axis=1).mean()))
        largest = float(np.linalg.norm(a - b, axis=1).max())
        return Consequence(scores_change=True, largest_change=largest / norm if norm else None)

    def changes_of_scores(self, ids: np.ndarray, due: np.ndarray) -> list[float]:
        """Return changes for rotations and biases, between runs with different shifts."""
        moves, inverse = np.unique(ids - due, axis=1, return_inverse=True)
        if moves.shape[1] < 2:
            return []
        changes = []
        for a in range(min(moves.shape[1], PAIRS_OF_RUNS)):
            for b in range(a):
                queries, keys = (np.flatnonzero(inverse.ravel() == group) for group in (a, b))
                step = max(1, len(keys) // LAGS)
                lag = due[:, queries[:1]] - due[:, keys[::step]]
                changes.append(self.change_at(lag, moves[:, a] - moves[:, b]))
        return changes

    def change_at(self, lags: np.ndarray, move: np.ndarray) -> float:
        """Return the largest change of the kernel, or of a bias, at shifted lags (axes, n)."""
        enc = self.encoding
        if enc.injection == "bias":
            old, new = (
                np.asarray(enc.vectors(-np.abs(x)[0]), float) for x in (lags, lags + move[:, None])
            )
            return float(np.abs(new - old).max())
        if enc.measure is None or enc.injection != "rotate":
            raise PefourierError(f"{shown(enc.label)} has no frequencies that give scores by lag")
        omega, axis = enc.measure.frequencies, axis_in(enc) if len(lags) > 1 else None
        place = np.zeros(len(omega), int) if axis is None else np.minimum(axis, len(lags) - 1)
        weights = np.full(len(omega), 1 / len(omega))
        old, new = (np.cos(x[place].T * omega) @ weights for x in (lags, lags + move[:, None]))
        return float(np.abs(new - old).max())


def read_model(spec: str) -> Model:
    """Read the rules for ids from a config or a named encoding."""
    positions = describe_positions(spec)
    config = positions.encoding.file and positions.encoding.file.model
    return Model(spec, positions, read_object(config.file) if config else {})
