"""Encodings added to the input, with one vector for each position of a sequence.

none, onehot, ramp, sinusoidal (Vaswani et al., 2017), dft (Idé et al., 2024), learned (the initial
table). sinusoidal and dft declare their spectral measure; the others are estimated.

A temperature multiplies the query at position p, not the keys, by a factor that grows with p and
keeps attention sharp. It is 1 at short lengths, and vectors of positions do not contain it.
"""

from dataclasses import replace
from math import log
from typing import Any, Literal

import numpy as np

from pefourier.encodings.encoding import (
    NO_WAVES,
    Domain,
    Encoding,
    Layout,
    Measure,
    equal_pairs,
    finding,
    from_table,
    positions,
    time_axis,
    waves,
)
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_above, check_count, check_size
from pefourier.types import Array, Fields, Floats, Values, frozen
from pefourier.writing.text import shortest

TemperatureRule = Literal["none", "llama4", "ministral3", "log-n", "inkling"]
FLOORS = {"llama4": 8192, "ministral3": 16384, "log-n": 8192, "inkling": 128000}


@frozen
class Temperature:
    r"""Factor of queries at position p, with :math:`x = (p + o)/F`.

    The factor is :math:`1 + a \ln(1 + \lfloor x \rfloor)` if `stepwise`, or else
    :math:`1 + a \ln\max(x, 1)`. Log n scaling, :math:`\max(\ln(p + 1)/\ln F, 1)`, is the latter
    with :math:`a = 1/\ln F`.
    """

    layers: str  # "without positions" or "all"
    scale: float  # a
    floor: int  # F, positions
    first: int  # o, the number of the first position
    stepwise: bool = True
    largest: float = 1.0  # at the last position of the length

    def at(self, positions: Array) -> Floats:
        """Factors of the queries at some positions.

        >>> Temperature("all", 0.1, 8192, 1).at(np.array([8190, 8191, 131071])).round(8)
        array([1.        , 1.06931472, 1.28332133])
        """
        return np.asarray(1 + self.scale * np.log(self.inside_log(positions)))

    def inside_log(self, positions: Any) -> Any:
        """Return the number inside the logarithm; positions are an array or a tensor."""
        x = (positions + self.first) / self.floor
        return 1 + x // 1 if self.stepwise else x.clip(min=1.0)

    def over(self, length: int) -> "Temperature":
        """Return the temperature with its largest value over `length` positions."""
        return replace(self, largest=float(self.at(np.array(length - 1))))

    def __str__(self) -> str:
        x = f"{f'(p + {self.first})' if self.first else 'p'}/{self.floor}"
        x = f"1 + floor({x})" if self.stepwise else f"max({x}, 1)"
        return f"1 + {self.scale:.6g} ln({x})"


def temperature_settings(rule: str | None, scale: float, floor: int) -> Fields:
    """Return the scale and the floor of a rule; without a rule, refuse them and return nulls.

    >>> temperature_settings("ministral3", 0.0, 0)
    {'temperature_scale': 0.1, 'temperature_floor': 16384}
    """
    if rule in ("none", None):
        for key, value in (("temperature_scale", scale), ("temperature_floor", floor)):
            if value:
                raise PefourierError(f"{key}={value:g} needs a temperature, as temperature=llama4")
        return dict.fromkeys(("temperature", "temperature_scale", "temperature_floor"))
    floor = floor or FLOORS[rule]
    check_count("temperature_floor", floor, minimum=2 if rule == "log-n" else 1)
    scale = scale or (1 / log(floor) if rule == "log-n" else 0.1)
    check_above("temperature_scale", scale)
    return {"temperature_scale": scale, "temperature_floor": floor}


def temperature_in(params: Values, length: int) -> Temperature | None:
    """Return the temperature that the parameters of an encoding set, if any."""
    rule = params.get("temperature")
    if rule in ("none", None):
        return None
    numbers = params["temperature_scale"], params["temperature_floor"], int(rule != "ministral3")
    return Temperature("all", *numbers, stepwise=rule in ("llama4", "ministral3")).over(length)


def stream(seed: int) -> "np.random.RandomState":
    """Return a random number generator with a frozen stream.

    >>> stream(0).uniform(size=2).round(6)
    array([0.548814, 0.715189])
    """
    # The annotation is quoted because numpy.random is slow to import and rarely needed.
    # RandomState, not Generator: only its stream is frozen across versions and machines.
    return np.random.RandomState(seed)


@encoding("none", "Haviv et al., 2022 (no positional encoding)")
def none(
    length: int,
    d: int,
    *,
    temperature: TemperatureRule = "none",
    temperature_scale: float = 0.0,
    temperature_floor: int = 0,
) -> Encoding:
    """No encoding: every vector is zero.

    Parameters
    ----------
    temperature : str
        Factor of the query at position p, which the vectors do not contain. llama4: 1 + a ln(1 +
        floor((p + 1)/F)), in layers of Llama 4 without positions; ministral3: the same with p in
        place of p + 1; log-n and inkling: 1 + a ln((p + 1)/F) beyond F positions, which for log-n
        is ln(p + 1)/ln F (Qwen, only after training).
    temperature_scale : float
        a; 0 means 0.1, or 1/ln F for log-n.
    temperature_floor : int
        F, positions up to which the factor is 1, as the trained length; 0 means 8192 for llama4 and
        log-n, 16384 for ministral3 and 128000 for inkling.
    """
    settings = temperature_settings(temperature, temperature_scale, temperature_floor)
    return Encoding("none", positions(length), d, lambda x: np.zeros((len(x), d)), params=settings)


@encoding("onehot", "position functions of Idé et al., 2024, Definition 1")
def onehot(length: int, d: int) -> Encoding:
    """The position function itself: 1 in column s mod d, 0 elsewhere."""

    def vectors(x: Array) -> Floats:
        table = np.zeros((len(x), d))
        table[np.arange(len(x)), np.asarray(x) % d] = 1.0
        return table

    kernel = lattice_measure(d) if length <= d else NO_WAVES
    return Encoding("onehot", positions(length), d, vectors, kernel=kernel)


@encoding("ramp", "position scaled to [0, 1], a baseline of surveys")
def ramp(length: int, d: int, *, normalise: bool = True) -> Encoding:
    """The position, scaled to [0, 1] or unscaled, the same in every column.

    Parameters
    ----------
    normalise : bool
        Whether to divide positions by the last position; otherwise columns hold 0, 1, 2, ….
    """
    top = max(length - 1, 1) if normalise else 1
    return Encoding(
        "ramp",
        positions(length),
        d,
        lambda x: np.repeat(np.asarray(x, dtype=float)[:, None] / top, d, axis=1),
    )


def geometric_frequencies(
    d: int, rho: float, divisor: Literal["d", "d/2-1"] = "d", count: int | None = None
) -> Floats:
    """Frequencies rho^(-l/d), l = 0, 2, …; with divisor d/2-1 the last is 1/rho exactly."""
    i = np.arange(d // 2 if count is None else count)
    if divisor == "d":
        return rho ** (-2.0 * i / d)
    if d < 4:
        raise PefourierError(f"divisor=d/2-1 needs d of at least 4; got d={d}")
    return rho ** (-i / (d // 2 - 1.0))


def pair_count(name: str, d: int) -> int:
    """Number of pairs of a sine and a cosine in d columns."""
    if d % 2:
        raise PefourierError(f"{name} has pairs and needs an even d; got d={d}; use d={d + 1}")
    return d // 2


def base_of(frequencies: Floats) -> float | None:
    """Shortest base that gives some frequencies, within rounding of float32; None: no base.

    >>> base_of(np.float32(5e5) ** -(np.arange(64, dtype=np.float32) / 64))
    500000.0
    """
    pairs = len(frequencies)
    if pairs < 2 or (frequencies <= 0).any() or abs(frequencies[0] - 1) > 2e-6:
        return None  # the first frequency of a base is 1
    steps = np.arange(pairs) / pairs

    def gives(rho: float) -> bool:
        return np.allclose(rho**-steps, frequencies, rtol=2e-6, atol=0)

    rho = shortest(gives, float(np.exp(-np.log(frequencies[-1]) / steps[-1])))
    return rho if gives(rho) else None


def sinusoids(
    name: str,
    domain: Domain,
    frequencies: Floats,
    layout: Layout,
    offset: float = 0,
    d: int | None = None,
    **facts: Any,
) -> Encoding:
    """Sines and cosines of positions or times at m frequencies, in radians per unit.

    If d = 2m - 1, the last sine has no cosine.
    """
    m = len(frequencies)
    plain = equal_pairs(frequencies, offset=offset)
    if d == 2 * m - 1:
        energy = np.append(np.ones(m - 1), 0.5)
        plain = Measure(frequencies, energy / energy.sum(), offset=offset)
    step = domain.spacing
    measure = replace(plain, frequencies=frequencies * step, offset=offset / step)
    return Encoding(
        name,
        domain,
        d or 2 * m,
        lambda x: waves(plain.phases(x), layout, d=d),
        measure=measure,
        **facts,
    )


@encoding("sinusoidal", "Vaswani et al., 2017, section 3.5")
def sinusoidal(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    layout: Layout = "interleaved",
    divisor: Literal["d", "d/2-1"] = "d",
    offset: int = 0,
    odd: Literal["sine", "d+1", "zero"] = "sine",
    times: Floats | None = None,
) -> Encoding:
    """Sines and cosines at geometric frequencies (Vaswani et al., 2017, section 3.5).

    Columns are sin(w_l s), cos(w_l s) with w_l = ρ^(−l/d), l = 0, 2 … d - 2. `divisor` d/2-1
    (tensor2tensor, fairseq) gives ρ^(−i/(d/2−1)); `offset` is added to s. If d is odd, the last
    column is a sine without cosine, the same with d + 1 in the exponent (encodings built for d + 1
    and truncated), or zeros (fairseq).

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    layout : str
        interleaved: sine and cosine of a frequency adjacent; halves: all sines, then all cosines.
    divisor : str
        Divisor in the exponent: d (Vaswani et al.) or d/2-1 (tensor2tensor, fairseq).
    offset : int
        Added to the position: row s is the vector of s + offset.
    odd : str
        Last column if d is odd: sine, d+1 or zero.
    times : array
        Irregular times, from --times FILE, in place of s; by default regular positions.

    Examples
    --------
    >>> sinusoidal(2, 3).table().round(3)
    array([[0.   , 1.   , 0.   ],
           [0.841, 0.54 , 0.002]])
    """
    check_count("offset", offset, minimum=0)
    unpaired = d % 2 == 1 and odd != "zero"
    grid = d + {"sine": 0, "d+1": 1, "zero": -1}[odd] * (d % 2)
    frequencies = geometric_frequencies(grid, rho, divisor, (d + unpaired) // 2)
    if len(frequencies) == 0:
        raise PefourierError(f"sinusoidal with odd=zero needs d of at least 2; got d={d}")
    domain, noted = time_axis(length, times)
    return sinusoids("sinusoidal", domain, frequencies, layout, offset, d, params=noted)


@encoding("dft", "Idé et al., 2024, Eqs. 17-21")
def dft(length: int, d: int) -> Encoding:
    """The real DFT of the position function (Idé et al., 2024, Eqs. 17-21).

    Columns are √(1/d), √(2/d) cos ω_k s for k = 1 … K, the sines in the same order, and for even d
    √(1/d) cos πs, with ω_k = 2πk/d. If d is odd, there is no Nyquist column. Vectors have the exact
    period d, because phases are computed from integers k s mod d.

    Examples
    --------
    >>> table = dft(4, 4).table()
    >>> bool(np.abs(table @ table.T - np.eye(4)).max() < 1e-15)
    True
    """
    measure = lattice_measure(d)

    def vectors(x: Array) -> Floats:
        phases = measure.phases(x)
        cosines = measure.amplitudes * np.cos(phases)
        sines = measure.amplitudes * np.sin(phases)
        paired = (d + 1) // 2  # k = 1 … paired - 1 also have a sine
        return np.hstack([cosines[:, :paired], sines[:, 1:paired], cosines[:, paired:]])

    noted = () if length <= d else (finding("repeating-codes", "formula", period=d, length=length),)
    return Encoding("dft", positions(length), d, vectors, findings=noted, measure=measure)


def lattice_measure(d: int) -> Measure:
    """Return the measure of the real DFT: d consecutive vectors are orthonormal."""
    k = np.arange(d // 2 + 1)
    single = (k == 0) | (2 * k == d)  # the constant and Nyquist have one column, not two
    weights = np.where(single, 1.0, 2.0) / d
    return Measure(2 * np.pi * k / d, weights, squared_length=1.0, period=d)


@encoding("learned", "Gehring et al., 2017; Devlin et al., 2019 (initial table)", untrained=True)
def learned(length: int, d: int, *, seed: int = 0, scale: float = 0.02) -> Encoding:
    """A learned table before training: normal with standard deviation `scale`.

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.
    scale : float
        Standard deviation of the initial values.
    """
    check_size("learned", length, d)
    return from_table(stream(seed).normal(0.0, scale, (length, d)), "learned")
