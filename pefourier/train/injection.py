r"""What is injected: an encoding's distinct codes, and which of them each place has.

Conventions
-----------
Codes are (U, k). Places are positions (acts add and rotate), pairs query · key (bias), or lags
(key). Training moves the codes, so that places that share one go on sharing it. Of a rotation it
moves the frequencies: the code of a position p, cosines and sines, is turned on by
:math:`p \cdot (\omega - \omega_0)`, so that training begins at the formula and keeps lengths of
codes (xpos, attention factors). A frequency that is 0 stays 0: pairs that are not turned are not,
and a pair of one axis of a grid keeps to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.checks import NUMBERS
from pefourier.encodings.columns import split_pairs
from pefourier.encodings.domain import displacement_of_each_pair
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.loader import SpecWithDefaults, source_of
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError

ACTS = ("add", "rotate", "bias", "key")
WITH_TIMES = "none alibi fourier-features mtan mtan-fixed rope sinusoidal tape time2vec xpos"
OF_PLACE = 2**8  # numbers that a place of a window counts for: 2^22 places in all
OTHERWISE = {  # rotations that are not of queries and keys alike
    "pope": "takes the softplus of queries and keys and doubles their size",
    "rope++": "turns queries a quarter less than keys",
}


@dataclass(frozen=True, eq=False)
class Injection:
    """What one member injects: distinct codes and the code of each place."""

    act: str
    codes: np.ndarray  # (U, k) float64
    index: np.ndarray  # (places,) row of codes, or of times (W, places) of all windows
    learn: bool
    params: Mapping[str, Any] = field(default_factory=dict)  # of the encoding, defaults too
    places: np.ndarray | None = None  # (U, axes) of the codes of a rotation
    frequencies: np.ndarray | None = None  # (axes, k / 2) radians a step, where they are known

    @property
    def seeded(self) -> bool:
        """Whether another seed may give other codes."""
        return "seed" in self.params

    @property
    def has_codes(self) -> bool:
        """Whether it injects anything: the encoding none adds zeros."""
        return self.learn or bool(self.codes.any())

    def without_effect(self) -> "Injection":
        """One of the same act and size that does nothing: adds 0, or turns by no angle."""
        codes = np.zeros((1, self.codes.shape[1]))
        if self.act == "rotate":
            codes[:, : codes.shape[1] // 2] = 1.0
        return Injection(self.act, codes, np.zeros_like(self.index), learn=False)

    def table(self) -> np.ndarray:
        """The code of every place, shape (places, k), or of all times the distinct ones."""
        return np.take(self.codes, self.index, axis=0) if self.index.ndim == 1 else self.codes

    def turned(self, change: np.ndarray) -> "Injection":
        """The rotation with other frequencies, by a change (axes, k / 2) of them."""
        cosine, sine = np.split(self.codes, 2, axis=1)
        turn = np.exp(1j * (self.places @ change)) * (cosine + 1j * sine)
        codes = np.hstack([turn.real, turn.imag])
        return replace(self, codes=codes, frequencies=self.frequencies + change)


NOTHING = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)


def load_injection(
    spec: str,
    length: int,
    d: int,
    heads: int,
    seed: int,
    *,
    learn: bool = False,
    grid: tuple[int, ...] = (),
    times: np.ndarray | None = None,
) -> Injection:
    """Load what a SPEC injects for `length` tokens of dimension d and `heads` heads.

    Tokens are points of a grid where there is one, for encodings that know of grids.

    With `times` (W, tokens), in steps, codes are those of each window's times, and not trained.

    Codes, of rotations their frequencies, are trained with `learn`, and always where they are only
    the start of training; a rotation of a file or of user code, which says none, keeps its angles.
    """
    is_built = source_of(spec) in ("name", "code")  # files have the d they have
    on = sides_for(spec, length, grid)
    enc = load(SpecWithDefaults(spec, {"seed": seed, **on}), length, d if is_built else None)
    k = {"add": d, "rotate": d // heads, "key": d // heads, "bias": heads}[enc.injection]
    k *= 1 + bool(enc.params.get("values"))  # of a lag that both keys and values have codes of
    places = count_places(enc.injection, length)
    windows, size = (1, k) if times is None else (len(times), OF_PLACE)
    if places * windows * size > NUMBERS:
        raise PefourierError(f"{spec} has {places * windows} codes; choose a larger --patch")
    enc = load_for_heads(spec, enc, length, d, heads, {"seed": seed, **on})
    if times is not None:
        return inject_times(enc, times, k)
    table = codes_of_places(enc, length, heads, k)
    if table.shape[1] != k or len(table) != places:
        raise PefourierError(
            f"{spec} has codes of {table.shape[1]} dimensions for {len(enc)} points; "
            f"{enc.injection!r} with d={d} and {heads} heads needs {k} dimensions for {length} "
            "tokens"
        )
    trained = (learn or enc.untrained) and enc.name != "none"
    if enc.injection == "rotate":
        waves = waves_of_rotation(enc, table)
        indices = np.arange(length)
        trained = trained and bool(waves)
        return Injection("rotate", table, indices, trained, params=enc.params, **waves)
    codes, index = np.unique(table, axis=0, return_inverse=True)
    return Injection(enc.injection, codes, index.reshape(-1), trained, enc.params)


def inject_times(enc: Encoding, times: np.ndarray, k: int) -> Injection:
    """What an encoding injects at the times (W, T) of each window's tokens; nothing is trained."""
    if enc.name not in WITH_TIMES.split() or enc.origin != "formula":
        known = WITH_TIMES.replace(" ", ", ")
        raise PefourierError(f"{enc.spec} takes no times; --positions time is for {known}")
    if enc.injection == "bias":  # of lags key - query
        times = (times[:, None] - times[:, :, None]).reshape(len(times), -1)
    points, index = np.unique(times.round(9), return_inverse=True)
    table = np.asarray(enc.table(points), dtype=float)
    table = in_halves(enc, table, k) if enc.injection == "rotate" else table
    return Injection(
        enc.injection, table, index.reshape(times.shape), learn=False, params=enc.params
    )


def waves_of_rotation(enc: Encoding, table: np.ndarray) -> dict[str, np.ndarray]:
    """Places (n, axes) and frequencies (axes, pairs) of a rotation, if they give its table."""
    if enc.measure is None:
        return {}
    places = enc.domain.places(enc.domain.x).reshape(len(enc), -1).astype(float)
    rates = enc.measure.frequencies.reshape(-1, places.shape[1]).T
    cosine, sine = np.split(table, 2, axis=1)
    frequencies = np.pad(rates, ((0, 0), (0, cosine.shape[1] - rates.shape[1])))
    table_turn = cosine + 1j * sine
    turn = np.exp(1j * ((places + enc.measure.offset) @ frequencies))
    if not np.allclose(turn * np.abs(table_turn), table_turn, atol=1e-6):
        return {}
    return {"places": places, "frequencies": frequencies}


def sides_for(spec: str, length: int, grid: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The option grid where a SPEC's encoding has it and tokens lie on one."""
    name = spec.partition(":")[0]
    if not grid or name not in BUILDERS or "grid" not in BUILDERS[name].parameters:
        return {}
    if length != prod(grid):
        raise PefourierError(
            f"{spec} has {prod(grid)} codes for {length} tokens; leave out --patch and --tokens"
        )
    return {"grid": grid}


def load_for_heads(
    spec: str, enc: Encoding, length: int, d: int, heads: int, options: Mapping[str, Any]
) -> Encoding:
    """The encoding again with the size of one head, or their number, where its d is that."""
    if enc.injection == "add" or enc.origin != "formula":
        return enc
    if "heads" in BUILDERS[enc.name].parameters and enc.injection == "bias":
        joined = "," if ":" in spec else ":"
        return load(SpecWithDefaults(f"{spec}{joined}heads={heads}", options), length, d)
    size = heads if enc.injection == "bias" else d // heads  # heads turn alike
    return load(SpecWithDefaults(spec, options), length, size)


def count_places(act: str, length: int) -> int:
    """How many places have a code under an act."""
    return {"add": length, "rotate": length, "bias": length**2, "key": 2 * length - 1}[act]


def codes_of_places(enc: Encoding, length: int, heads: int, k: int) -> np.ndarray:
    """The code of each place (places, k)."""
    table = np.asarray(enc.table(), dtype=float)
    if enc.domain.kind == "lag" and enc.domain.grid:
        return np.take(table, displacement_of_each_pair(enc.domain, length, enc.spec), axis=0)
    if enc.domain.kind == "lag" and len(table) != 2 * length - 1:
        way_out = "; leave out causal=true" if source_of(enc.spec) == "name" else ""
        raise PefourierError(
            f"{enc.spec} has no codes of later keys, which this classifier attends to{way_out}"
        )
    if enc.domain.kind == "lag" and enc.injection == "bias":
        positions = np.arange(length)
        lags = (positions - positions[:, None] + length - 1).ravel()  # key - query
        return np.take(table, lags, axis=0)
    if enc.injection == "bias":  # a query's biases to all keys, heads side by side
        return table.reshape(length, heads, length).transpose(0, 2, 1).reshape(-1, heads)
    return in_halves(enc, table, k) if enc.injection == "rotate" else table


def in_halves(enc: Encoding, table: np.ndarray, k: int) -> np.ndarray:
    """Cosines and then sines of k / 2 pairs; those that the encoding does not turn have angle 0.

    Which dimensions make a pair is no matter to a model whose weights are drawn at random.
    """
    if enc.name in OTHERWISE:
        raise PefourierError(f"{enc.spec} {OTHERWISE[enc.name]}; this classifier turns both alike")
    layout = enc.params.get("layout", "halves")
    if layout not in ("halves", "interleaved"):
        raise PefourierError(
            f"{enc.spec} has layout={layout}; train with layout=halves, which turns alike"
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
    """Codes less their mean over positions, scaled so that their root mean square is `rms`.

    Mean and size are those of `reference` where it is given: the same encoding at another length.

    What all positions have in common tells none from another, and some tables have much of it: of
    sinusoids at 25 positions in 32 dimensions, rms .707, .374 varies, of DFT codes .173 of .177.
    """
    mean, size = mean_and_variation(reference or injection)
    return replace(injection, codes=(injection.codes - mean) * (rms / size))


def varies(injection: Injection) -> bool:
    """Whether codes differ from position to position by more than rounding."""
    mean, size = mean_and_variation(injection)
    return size > 1e-12 * float(np.abs(mean).max())


def mean_and_variation(injection: Injection) -> tuple[np.ndarray, float]:
    """The mean code (k,) over positions, and the root mean square of what varies about it."""
    table = injection.table()
    mean = table.mean(axis=0)
    return mean, float(np.sqrt(((table - mean) ** 2).mean()))
