"""Encodings of real-valued times: mtan and mtan-fixed (Shukla & Marlin, 2021), time2vec.

Conventions
-----------
`times` (n,) are strictly increasing, in any unit; on the command line, ``--times FILE`` sets the
times and the length. By default, the times are the positions 0 … length - 1, on which all three
can be compared with other encodings. Frequencies are in radians per mean spacing.
"""

from dataclasses import dataclass, replace

import numpy as np

from pefourier.encodings.encoding import Domain, Encoding, Finding, finding, time_axis
from pefourier.encodings.families.absolute import geometric_frequencies, stream
from pefourier.encodings.families.fourier import pair_count, sinusoids
from pefourier.encodings.registry import encoding
from pefourier.types import Array, Fields, Floats

UNUSUAL = 4.0  # ratio of the median step to 1 beyond which the initial rates do not fit the times


def span(domain: Domain) -> float:
    """Time between the first and the last point; 1 for a single point."""
    return float(domain.x[-1] - domain.x[0]) or 1.0


def far_from_one(domain: Domain) -> tuple[Finding, ...]:
    """Return a finding if the median step of times is far from 1, the scale of the rates."""
    steps = np.diff(domain.x)
    median = float(np.median(steps)) if domain.kind == "time" and len(steps) else 1.0
    if 1 / UNUSUAL <= median <= UNUSUAL:
        return ()
    return (finding("times-unit", span=domain.x[-1] - domain.x[0], median=median),)


@dataclass(frozen=True, eq=False)
class LineAndSines:
    r"""Columns :math:`a_0 t + b_0` and :math:`\sin(a_j t + b_j)`, j = 1 … d - 1."""

    slopes: Floats  # (d,)
    shifts: Floats

    def __call__(self, t: Array) -> Floats:
        """Return the vectors of times."""
        table: Floats = np.multiply.outer(np.asarray(t, dtype=float), self.slopes) + self.shifts
        table[:, 1:] = np.sin(table[:, 1:])
        return table


def line_and_sines(
    name: str, domain: Domain, slopes: Floats, shifts: Floats, params: Fields
) -> Encoding:
    """Return the encoding of `LineAndSines`."""
    vectors = LineAndSines(slopes, shifts)
    return Encoding(name, domain, len(slopes), vectors, rates=slopes[1:], params=params)


@encoding("time2vec", "Kazemi et al., 2019, Eq. 1 (before training)", domain="time", untrained=True)
def time2vec(length: int, d: int, *, seed: int = 0, times: Floats | None = None) -> Encoding:
    """One linear and d - 1 periodic functions of time (Kazemi et al., 2019, Eq. 1).

    Columns are a_0 t + b_0 and sin(a_j t + b_j). The initial a and b are standard normal (the paper
    does not specify the initial values).

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.
    times : array
        Irregular times, from --times FILE; by default regular positions.

    Examples
    --------
    >>> time2vec(3, 2).table().round(3)
    array([[0.979, 0.784],
           [2.743, 0.48 ],
           [4.507, 0.1  ]])
    """
    domain, noted = time_axis(length, times)
    slopes, shifts = stream(seed).normal(size=(2, d))
    enc = line_and_sines("time2vec", domain, slopes, shifts, noted)
    return replace(enc, findings=far_from_one(domain))


@encoding("mtan", "Shukla & Marlin, 2021 (before training)", domain="time", untrained=True)
def mtan(length: int, d: int, *, seed: int = 0, times: Floats | None = None) -> Encoding:
    """The learned time embedding of mTAN (Shukla & Marlin, 2021), before training.

    Columns are a_0 t + b_0 and sin(a_j t + b_j) with t divided by the span of the times, as in the
    authors' source code. The initial a and b are uniform on (-1, 1), as in torch's Linear(1, ·).
    Phases therefore change by less than 1 radian before training, and the spectrum is all at 0.

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.
    times : array
        Irregular times, from --times FILE; by default regular positions.

    Examples
    --------
    >>> mtan(3, 2).table().round(3)
    array([[0.206, 0.09 ],
           [0.254, 0.3  ],
           [0.303, 0.497]])
    """
    domain, noted = time_axis(length, times)
    slopes, shifts = stream(seed).uniform(-1.0, 1.0, (2, d))
    return line_and_sines("mtan", domain, slopes / span(domain), shifts, noted)


@encoding(
    "mtan-fixed",
    "Shukla & Marlin, 2021 (reml-lab/mTAN, fixed_time_embedding)",
    domain="time",
    declared=True,
)
def mtan_fixed(
    length: int, d: int, *, rho: float = 10.0, scale: float = 48.0, times: Floats | None = None
) -> Encoding:
    """Sines and cosines of 48 t at base 10, with t divided by the span of the times (mTAN).

    Columns are sin(w_i t), cos(w_i t), interleaved, with w_i = scale ρ^(−2i/d) / span. A stay in
    the authors' data has 48 hours, and the highest frequency is then one radian per hour.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    scale : float
        Phase of the highest frequency over the span of the times, in radians.
    times : array
        Irregular times, from --times FILE; by default regular positions.

    Examples
    --------
    >>> mtan_fixed(49, 4).measure.frequencies.round(6)
    array([1.      , 0.316228])
    """
    pair_count("mtan-fixed", d)
    domain, noted = time_axis(length, times)
    frequencies = geometric_frequencies(d, rho) * (scale / span(domain))
    return sinusoids("mtan-fixed", domain, frequencies, "interleaved", params=noted)
