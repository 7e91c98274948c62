"""Sinusoids whose positions are shifted at random in training (CAPE, SHAPE)."""

from math import log

from pefourier.encodings.encoding import Encoding, positions
from pefourier.encodings.families.absolute import geometric_frequencies
from pefourier.encodings.families.fourier import pair_count, sinusoids
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_above, check_count


@encoding("cape", "Likhomanenko et al., 2021, arXiv 2106.03143", declared=True)
def cape(
    length: int,
    d: int,
    *,
    shift: float = 5.0,
    local_shift: float = 1.0,
    stretch: float = 1.03,
    normalise: bool = False,
    position_scale: float = 1.0,
    frequency_scale: float = 1.0,
) -> Encoding:
    """CAPE on one axis: sinusoids whose positions are shifted and stretched at random in training.

    Columns are sin ω_i u, cos ω_i u of the scaled position u = a s (minus its mean if `normalise`),
    with ω_i = b 10000^(−2i/d). In training, u becomes (u + g + l) z. For each sequence, g is
    uniform on ±shift and ln z on ±ln stretch; for each position, l is uniform on ±a local_shift/2.
    `train` draws g, z and l for each window. The defaults suit text; for audio, use shift=60,
    stretch=1.1, normalise=true, position_scale=0.03 and frequency_scale=30.

    Parameters
    ----------
    shift : float
        Largest shift of a sequence in training, in units of u; 0: no shift.
    local_shift : float
        Range of the shifts of single positions in training, in steps; up to 1, the order is kept.
    stretch : float
        Largest factor of the positions in training; 1: no stretching.
    normalise : bool
        Whether to subtract the mean position, which puts the middle of a sequence at 0.
    position_scale : float
        a, the units from one position to the next, such as seconds per frame.
    frequency_scale : float
        b, a factor of all frequencies.

    Examples
    --------
    >>> cape(5, 4, normalise=True, position_scale=0.03, frequency_scale=30.0).table()[0].round(8)
    array([-0.97384763, -0.22720209, -0.01799903,  0.999838  ])
    """
    pair_count("cape", d)
    check_above("position_scale", position_scale)
    if min(shift, local_shift, stretch - 1) < 0:
        values = f"got {shift:g}, {local_shift:g}, {stretch:g}"
        raise PefourierError(f"shift, local_shift must be at least 0, stretch at least 1; {values}")
    omega = position_scale * frequency_scale * geometric_frequencies(d, 10000.0)
    offset, g = (1 - length) / 2 if normalise else 0, shift / position_scale
    drawn = {"training_shifts": (-g, 2 * g, local_shift, log(stretch), 0.0)}
    return sinusoids("cape", positions(length), omega, "interleaved", offset, params=drawn)


@encoding("shape", "Kiyono et al., 2021, arXiv 2109.05644", declared=True)
def shape(length: int, d: int, *, rho: float = 10000.0, shift: int = 500) -> Encoding:
    """SHAPE: sinusoids whose positions are shifted at random for each sequence in training.

    In training, positions are s + k with k uniform on 0 … shift - 1 for each sequence. Outside
    training, positions are s + shift, as in the authors' source code. `train` draws k for each
    window.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    shift : int
        Number of possible shifts; 500 in the authors' config.

    Examples
    --------
    >>> shape(2, 2, shift=1).table().round(3)
    array([[ 0.841,  0.54 ],
           [ 0.909, -0.416]])
    """
    pair_count("shape", d)
    check_count("shift", shift)
    omega, drawn = geometric_frequencies(d, rho), {"training_shifts": (-shift, shift, 0, 0, 1)}
    return sinusoids("shape", positions(length), omega, "interleaved", shift, params=drawn)
