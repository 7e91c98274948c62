r"""Injections: an encoding's distinct vectors, and the vector of each place.

Conventions
-----------
Distinct vectors have shape (U, k). Places are positions (acts add and rotate), pairs query · key
(bias), or lags (key, key-query). Training changes the vectors; places that share a vector keep
sharing it. Of a rotation, training changes the frequencies: the vector of a position p, its cosines
and sines, is rotated further by :math:`p \cdot (\omega - \omega_0)`. Training therefore starts at
the formula and preserves norms (xpos, attention factors). A zero frequency stays 0: pairs without
rotation stay that way, and a rotary pair of one axis of a grid stays on that axis. Of mtan and
time2vec at measured times, training changes slopes and shifts: vectors at other times follow.
"""

from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.encoding import (
    Encoding,
    displacement_of_each_pair,
    split_pairs,
)
from pefourier.encodings.families.absolute import temperature_in
from pefourier.encodings.families.fourier import LineAndSines
from pefourier.encodings.loader import SpecWithDefaults, source_of
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import NUMBERS, PefourierError
from pefourier.types import Array, Counts, Fields, Values

ACTS = ("add", "rotate", "bias", "key", "key-query")
WITH_TIMES = "none alibi fourier-features mtan mtan-fixed rope sinusoidal tape time2vec xpos"
WITH_TIMES += " pseudo-gaussian sandwich"
OF_PLACE = 2**8  # numbers counted for each place of a window: 2^22 places in all
OTHERWISE = {  # rotations that treat queries and keys differently
    "pope": "applies softplus to queries and keys and doubles their size",
    "rope++": "rotates queries by 90 degrees less than keys",
    "fope": "multiplies queries and keys by sums of sinusoids, a rotation only with gain=0",
}


class Shifts(NamedTuple):
    """Changes of the positions of sinusoids, drawn for each window of a training step."""

    positions: Array  # (T,) in evaluation
    frequencies: Array  # (k / 2,) radians per position
    ranges: Array  # (5,) least shift, range, range for a position, ln stretch, if whole steps


def no_waves() -> Array:
    """Places or frequencies of injections that have none."""
    return np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class Injection:
    """Injection of one member: distinct vectors and the vector of each place."""

    act: str
    vectors: Array  # (U, k) float64
    index: Array  # (places,) rows of `vectors`, or (W, places) for times of all windows
    learn: bool
    params: Values = field(default_factory=dict)  # of the encoding, with defaults
    # of rotations, if known: positions (U, axes), and radians per step (axes, k / 2); of mtan and
    # time2vec at measured times: times and ones (U, 2), and slopes and shifts (2, k)
    places: Array = field(default_factory=no_waves)
    frequencies: Array = field(default_factory=no_waves)
    shifts: Shifts | None = None  # of CAPE and SHAPE

    @property
    def has_vectors(self) -> bool:
        """Whether it has an effect: the encoding none adds zeros."""
        return self.learn or bool(self.vectors.any())

    def table(self) -> Array:
        """Vector of every place, shape (places, k), or the distinct vectors of all times."""
        return np.take(self.vectors, self.index, axis=0) if self.index.ndim == 1 else self.vectors

    def rotated(self, change: Array) -> "Injection":
        """Injection with other frequencies, or slopes and shifts, changed by `change`."""
        if self.act == "add":
            lines = self.places @ (self.frequencies + change)
            vectors = np.hstack([lines[:, :1], np.sin(lines[:, 1:])])
        else:
            cosine, sine = np.split(self.vectors, 2, axis=1)
            rotation = np.exp(1j * (self.places @ change)) * (cosine + 1j * sine)
            vectors = np.hstack([rotation.real, rotation.imag])
        return replace(self, vectors=vectors, frequencies=self.frequencies + change)


NOTHING = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)


def load_injection(
    spec: str,
    length: int,
    d: int,
    heads: int,
    seed: int,
    *,
    learn: bool = False,
    grid: Counts = (),
    times: Array | None = None,
) -> Injection:
    """Load the injection of a SPEC for `length` tokens of dimension d and `heads` heads.

    On a grid, tokens are points of the grid for encodings that support grids.

    With `times` (W, tokens), in steps, vectors belong to each window's times, and only mtan and
    time2vec are trained.

    Vectors, or the frequencies of rotations, are trained with `learn`, and always if they are only
    initial values; a rotation from a file or user code without frequencies keeps its angles, and
    sinusoids with random shifts keep their frequencies.
    """
    is_built = source_of(spec) in ("name", "code")  # files have a fixed d
    on = sides_for(spec, length, grid)
    enc = load(SpecWithDefaults(spec, {"seed": seed, **on}), length, d if is_built else None)
    if enc.domain.kind == "place":
        raise PefourierError(f"{spec} encodes places, but the tokens of a window have positions")
    k = {"add": d, "bias": heads}.get(enc.injection, d // heads)
    k *= 1 + bool(enc.params.get("values"))  # lags may have vectors for keys and for values
    places = count_places(enc.injection, length)
    windows, size = (1, k) if times is None else (len(times), OF_PLACE)
    if places * windows * size > NUMBERS:
        raise PefourierError(f"{spec} needs {places * windows} vectors; choose a larger --patch")
    enc = load_for_heads(spec, enc, length, d, heads, {"seed": seed, **on})
    temperature = temperature_in(enc.params, length)
    if enc.file is not None:
        from pefourier.encodings.model_positions import temperature_of  # imports all of configs

        temperature = temperature_of(enc, length)
    is_used = temperature and temperature.layers == "all"
    if temperature and is_used and (times is not None or temperature.largest != 1):
        way_out = "this model does not; choose a larger temperature_floor"
        raise PefourierError(f"{spec} multiplies queries of {length} tokens; {way_out}")
    if times is not None:
        return inject_times(enc, times, k)
    table = vectors_of_places(enc, length, heads, k)
    if table.shape[1] != k or len(table) != places:
        raise PefourierError(
            f"{spec} has vectors of {table.shape[1]} dimensions for {len(enc)} points; "
            f"{enc.injection!r} with d={d} and {heads} heads needs {k} dimensions for {length} "
            "tokens"
        )
    shifts = None
    if enc.measure and "training_shifts" in enc.params:
        ranges = np.array(enc.params["training_shifts"])
        shifts = Shifts(enc.domain.x + enc.measure.offset, enc.measure.frequencies, ranges)
    trained = (learn or enc.untrained) and enc.name != "none" and shifts is None
    if enc.injection == "rotate":
        known = waves_of_rotation(enc, table)
        indices = np.arange(length)
        trained = trained and bool(known)
        return Injection("rotate", table, indices, trained, params=enc.params, **known)
    vectors, index = np.unique(table, axis=0, return_inverse=True)
    return Injection(enc.injection, vectors, index.reshape(-1), trained, enc.params, shifts=shifts)


def inject_times(enc: Encoding, times: Array, k: int) -> Injection:
    """Evaluate an encoding at the times (W, T) of each window's tokens."""
    if enc.name not in WITH_TIMES.split() or enc.origin != "formula":
        known = WITH_TIMES.replace(" ", ", ")
        raise PefourierError(f"{enc.spec} has no times; --positions time supports {known}")
    if enc.injection == "bias":  # of lags key - query
        times = (times[:, None] - times[:, :, None]).reshape(len(times), -1)
    points, index = np.unique(times.round(9), return_inverse=True)
    table = np.asarray(enc.table(points), dtype=float)
    table = in_halves(enc, table, k) if enc.injection == "rotate" else table
    index, lines = index.reshape(times.shape), enc.vectors
    if not isinstance(lines, LineAndSines):
        return Injection(enc.injection, table, index, learn=False, params=enc.params)
    places, waves = np.vander(points, 2), np.stack([lines.slopes, lines.shifts])
    return Injection(enc.injection, table, index, enc.untrained, enc.params, places, waves)


def waves_of_rotation(enc: Encoding, table: Array) -> Fields:
    """Positions (n, axes) and frequencies (axes, pairs) of a rotation, if they give its table."""
    if not enc.measure:
        return {}
    places = enc.domain.places(enc.domain.x).reshape(len(enc), -1).astype(float)
    rates = enc.measure.frequencies.reshape(-1, places.shape[1]).T
    cosine, sine = np.split(table, 2, axis=1)
    frequencies = np.pad(rates, ((0, 0), (0, cosine.shape[1] - rates.shape[1])))
    table_rotation = cosine + 1j * sine
    rotation = np.exp(1j * ((places + enc.measure.offset) @ frequencies))
    if not np.allclose(rotation * np.abs(table_rotation), table_rotation, atol=1e-6):
        return {}
    return {"places": places, "frequencies": frequencies}


def sides_for(spec: str, length: int, grid: Counts) -> dict[str, Counts]:
    """Return the option grid if the encoding has it and tokens lie on a grid."""
    name = spec.partition(":")[0]
    if not grid or name not in BUILDERS or "grid" not in BUILDERS[name].parameters:
        return {}
    if length != prod(grid):
        raise PefourierError(
            f"{spec} has {prod(grid)} vectors for {length} tokens; omit --patch and --tokens"
        )
    return {"grid": grid}


def load_for_heads(
    spec: str, enc: Encoding, length: int, d: int, heads: int, options: Values
) -> Encoding:
    """Reload the encoding with the number of heads or the size of a head, if its d is that."""
    if enc.injection == "add" or enc.origin != "formula":
        return enc
    if "heads" in BUILDERS[enc.name].parameters and enc.injection == "bias":
        joined = "," if ":" in spec else ":"
        return load(SpecWithDefaults(f"{spec}{joined}heads={heads}", options), length, d)
    size = heads if enc.injection == "bias" else d // heads  # all heads rotate equally
    return load(SpecWithDefaults(spec, options), length, size)


def count_places(act: str, length: int) -> int:
    """Number of places with a vector for each act."""
    return {"add": length, "rotate": length, "bias": length**2}.get(act, 2 * length - 1)


def vectors_of_places(enc: Encoding, length: int, heads: int, k: int) -> Array:
    """Return the vector of each place (places, k)."""
    if not enc.by_lag:
        return enc.table_of_pairs()
    table = np.asarray(enc.table(), dtype=float)
    if enc.domain.kind == "lag" and enc.domain.grid:
        return np.take(table, displacement_of_each_pair(enc.domain, length, enc.spec), axis=0)
    if enc.domain.kind == "lag" and len(table) != 2 * length - 1:
        is_choice = "causal" in enc.params and source_of(enc.spec) == "name"
        way_out = "; leave out causal=true" if is_choice else ""
        raise PefourierError(
            f"{enc.spec} has no vectors for later keys, which this classifier attends to{way_out}"
        )
    if enc.domain.kind == "lag" and enc.injection == "bias":
        positions = np.arange(length)
        lags = (positions - positions[:, None] + length - 1).ravel()  # key - query
        return np.take(table, lags, axis=0)
    if enc.injection == "bias":  # a query's biases to all keys, one block of columns per head
        return table.reshape(length, heads, length).transpose(0, 2, 1).reshape(-1, heads)
    return in_halves(enc, table, k) if enc.injection == "rotate" else table


def in_halves(enc: Encoding, table: Array, k: int) -> Array:
    """Cosines, then sines, of k / 2 rotary pairs; pairs without rotation have angle 0.

    The choice of dimensions for a pair does not matter to a model with random initial weights.
    """
    if enc.name in OTHERWISE and enc.params.get("gain", 1):
        raise PefourierError(f"{enc.spec} {OTHERWISE[enc.name]}; this model rotates both equally")
    layout = enc.params.get("layout", "halves")
    if layout not in ("halves", "interleaved"):
        raise PefourierError(
            f"{enc.spec} has layout={layout}; train with layout=halves, which rotates equally"
        )
    parts = split_pairs(table, layout)
    unrotated = max(k // 2 - parts[0].shape[1], 0)
    return np.hstack(
        [
            np.pad(part, ((0, 0), (0, unrotated)), constant_values=1 - i)
            for i, part in enumerate(parts)
        ]
    )


def scale_to_rms(injection: Injection, rms: float, reference: Injection | None = None) -> Injection:
    """Subtract the mean vector over positions and scale to the root mean square `rms`.

    If given, `reference` supplies mean and size: the same encoding at another length.

    The mean vector does not distinguish positions, and it can be large: for sinusoids at 25
    positions in 32 dimensions, 0.374 of the rms 0.707 varies; for DFT vectors, 0.173 of 0.177.
    """
    mean, size = mean_and_variation(reference or injection)
    return replace(injection, vectors=(injection.vectors - mean) * (rms / size))


def varies(injection: Injection) -> bool:
    """Whether vectors differ between positions by more than rounding."""
    mean, size = mean_and_variation(injection)
    return size > 1e-12 * float(np.abs(mean).max())


def mean_and_variation(injection: Injection) -> tuple[Array, float]:
    """Mean vector (k,) over positions, and root mean square of the deviations from it."""
    table = injection.table()
    mean = table.mean(axis=0)
    return mean, float(np.sqrt(((table - mean) ** 2).mean()))
