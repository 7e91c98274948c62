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
from pefourier.ids.spans import BY_FRAME, Rules, Vision
from pefourier.types import Array, Fields

LAGS = 4096  # vectors, or lags in a block
MOST_LAGS = 2**20  # at which changes of scores are computed
LEAST = 1e-12  # change of a mean cosine that is no rounding


@dataclass(frozen=True)
class Consequence:
    """Effect of unexpected ids on attention."""

    scores_change: bool | None  # None: no config was given
    largest_change: float | None  # in the kernel, a bias, or a vector relative to its norm


NOT_KNOWN, UNCHANGED = Consequence(None, None), Consequence(False, 0.0)  # noqa: FBT003


@dataclass(frozen=True, eq=False)
class Model:
    """Positions of a model, and the config keys that determine its ids."""

    spec: str
    positions: ModelPositions
    values: Fields  # the whole config

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

    def consequence(self, ids: Array, due: Array) -> Consequence:
        """Compute the effect of the ids (axes, n) of a document that replace the expected ones."""
        if self.encoding.injection == "add":
            return self.change_of_vectors(ids[0], due[0])
        old, new = changed_lags(ids, due)
        if not old.shape[1]:
            return UNCHANGED
        for wave in (np.cos, np.sin):  # reversed ids change no cosine
            change = np.abs(self.kernel(new, wave) - self.kernel(old, wave)).max()
            if change > LEAST:
                return Consequence(scores_change=True, largest_change=float(change))
        return UNCHANGED

    def change_of_vectors(self, ids: Array, due: Array) -> Consequence:
        """Return the largest distance between added vectors, relative to the RMS norm."""
        enc, moved = self.encoding, ids != due
        places = np.stack([ids, due]) - self.rules(None).start
        is_inside = ((places >= 0) & (places < len(enc))).all()  # else the table lacks a row
        if is_inside and not moved.any():
            return UNCHANGED
        if not is_inside or (enc.name == "learned" and enc.origin == "formula"):
            return Consequence(scores_change=True, largest_change=None)
        a, b = (np.asarray(enc.table(x[moved][:LAGS]), float) for x in places)
        norm = float(np.sqrt((b**2).sum(axis=1).mean()))
        largest = float(np.linalg.norm(a - b, axis=1).max())
        return Consequence(scores_change=True, largest_change=largest / norm if norm else None)

    def kernel(self, lags: Array, wave: Any = np.cos) -> Array:
        """Return the mean cosine over pairs, or the bias of each head, at lags (axes, n)."""
        enc = self.encoding
        if enc.injection == "bias":
            distances, inverse = np.unique(np.abs(lags[0]), return_inverse=True)
            return np.asarray(enc.vectors(-distances), float)[inverse]
        if not enc.measure or enc.injection != "rotate":
            raise PefourierError(f"{shown(enc.label)} has no frequencies that give scores by lag")
        omega, axis = enc.measure.frequencies, axis_in(enc) if len(lags) > 1 else None
        place = np.zeros(len(omega), int) if axis is None else np.minimum(axis, len(lags) - 1)
        total = np.zeros(lags.shape[1])
        for i, lag in enumerate(lags):
            low = int(lag.min())
            if lag.max() - low < len(lag):
                values, inverse = np.arange(low, int(lag.max()) + 1), lag - low
            else:
                values, inverse = np.unique(lag, return_inverse=True)
            parts = np.array_split(values, len(values) // LAGS + 1)
            waves = [wave(np.multiply.outer(x, omega[place == i])).sum(axis=1) for x in parts]
            total += np.concatenate(waves)[inverse]
        return total / len(omega)


def changed_lags(ids: Array, due: Array) -> tuple[Array, Array]:
    """Return the expected lags (axes, k) that change, and those in their place.

    Runs of ids that are shifted alike keep their lags. All pairs of a query and an earlier key
    have a lag that the first token of a run has with some token. Beyond `MOST_LAGS` some runs are
    left out.
    """
    n, shift = ids.shape[1], np.diff(ids - due, axis=1)
    if not shift.any():
        return due[:, :0], ids[:, :0]
    cuts = np.flatnonzero(((shift != 0) | (np.diff(due, axis=1) != 1)).any(axis=0)) + 1
    first = np.r_[0, cuts]
    first = first[:: len(first) * n // MOST_LAGS + 1]
    query, key = (f(first[:, None], np.arange(n)).ravel() for f in (np.maximum, np.minimum))
    old, new = (x[:, query] - x[:, key] for x in (due, ids))
    moved = (old != new).any(axis=0)
    return old[:, moved], new[:, moved]


def read_model(spec: str) -> Model:
    """Read the rules for ids from a config or a named encoding."""
    positions = describe_positions(spec)
    config = positions.encoding.file and positions.encoding.file.model
    return Model(spec, positions, read_object(config.file) if config else {})
