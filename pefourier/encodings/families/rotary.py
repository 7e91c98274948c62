"""Encodings that rotate queries and keys: the code of a position is the cosines and sines used.

Conventions
-----------
Angular frequencies are radians per position, one per pair of dimensions, in the order of the
model's inverse frequencies. A scaling is a function of a `Head` and its own parameters that gives
these frequencies and the attention factor before cosines and sines; `SCALINGS` names them all, and
``rope`` takes the parameters of each: those of another scaling are refused. Formulas are those of
the published code (Hugging Face transformers, ``modeling_rope_utils.py``), in float64.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, log, nextafter, pi, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.checks import WIDEST, check_above, check_count
from pefourier.encodings.columns import Columns, Layout, columns_of_blocks, split_pairs, waves
from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import (
    FLOAT32_EPS,
    FLOAT64_EPS,
    DeclaredEncoding,
    Encoding,
    Finding,
    Floats,
    Measure,
    ShiftInvariantEncoding,
    equal_pairs,
    with_measure,
)
from pefourier.encodings.families.absolute import geometric_frequencies
from pefourier.encodings.findings import finding
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, shown, unknown

XPOS_GAMMA, XPOS_SPAN = 0.4, 512.0  # Sun et al., 2022: Eq. 12 and the authors' code
ABOVE_ZERO = {"factor", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor"}
LOST = 1e12  # radians a position; at position 1000 a phase has a tenth of a radian left
Rotation = tuple[Floats, float]  # frequencies in radians per position, attention factor


@dataclass(frozen=True)
class Head:
    """The dimensions of one attention head and the positions it is to tell apart."""

    d: int
    rho: float
    partial: float  # share of d that is rotated
    length: int

    @property
    def rotated(self) -> int:
        """Dimensions on whose grid the frequencies lie; an odd number is rounded up to pairs."""
        return int(self.d * self.partial)

    def grid(self, stretch: float = 1.0) -> Floats:
        """Frequencies (stretch rho)^(-2i/rotated), shape (pairs,)."""
        return geometric_frequencies(
            self.rotated, self.rho * stretch, count=(self.rotated + 1) // 2
        )

    def stretched(self, ratio: float) -> Floats:
        """The grid of base rho ratio^(r/(r-2)): its first frequency kept, its last over ratio."""
        if self.rotated < 4:
            raise PefourierError(
                f"this scaling needs at least 4 rotated dimensions; got {self.rotated}"
            )
        return self.grid(np.float64(ratio) ** (self.rotated / (self.rotated - 2)))


def unscaled(head: Head) -> Rotation:
    """Frequencies as in training (Su et al., 2021)."""
    return head.grid(), 1.0


def linear(head: Head, *, factor: float) -> Rotation:
    """Position interpolation (Chen et al., 2023): every frequency over factor."""
    return head.grid() / factor, 1.0


def ntk(head: Head, *, factor: float) -> Rotation:
    """NTK-aware base rho factor^(r/(r-2)), r rotated dimensions (bloc97, 2023)."""
    return head.stretched(factor), 1.0


def dynamic(head: Head, *, factor: float, original: int) -> Rotation:
    """NTK-aware by factor L'/L - (factor - 1), L' the longer of length and original length L."""
    beyond = max(head.length - original, 0)
    return head.stretched(1 + factor * beyond / original), 1.0


def yarn(
    head: Head,
    *,
    factor: float,
    original: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    attention_factor: float = 0.0,
) -> Rotation:
    r"""NTK by parts (Peng et al., 2023), as its published code has it.

    With :math:`c(n) = r \ln(L/2\pi n) / 2\ln\rho`, the pair that turns n times over the original
    length L, frequencies are kept up to c(beta_fast), divided by factor from c(beta_slow) on, and
    blended between: linearly in the *index of the pair* (the paper: in the number of turns). With
    `truncate` the limits are rounded outwards. The attention factor is 0.1 ln factor + 1, or the
    quotient of 0.1 m ln factor + 1 for m = mscale and mscale_all_dim if both are given. Where
    `attention_factor` is given, it is this. Zeros stand for not given.
    """
    frequencies = blend_by_parts(head, factor, original, beta_fast, beta_slow, truncate=truncate)

    def attention(m: float) -> float:
        return np.float64(0.1 * m * log(factor) + 1.0 if factor > 1 else 1.0)

    if attention_factor == 0:
        attention_factor = attention(1.0)
        if mscale and mscale_all_dim:
            attention_factor = attention(mscale) / attention(mscale_all_dim)
    return frequencies, attention_factor


def blend_by_parts(
    head: Head,
    factor: float,
    original: float,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    *,
    truncate: bool = True,
) -> Floats:
    """Frequencies of YaRN, blended between the pairs that turn beta_fast and beta_slow times.

    >>> frequencies = blend_by_parts(Head(128, 1e4, 1.0, 1), 4.0, 4096)
    >>> np.flatnonzero(np.diff(frequencies / Head(128, 1e4, 1.0, 1).grid()))[[0, -1]].tolist()
    [20, 45]
    """
    check_above("rho", head.rho, 1.0)
    low, high = (
        head.rotated * (log(original / (2 * pi)) - log(turns)) / (2 * log(head.rho))
        for turns in (beta_fast, beta_slow)
    )
    if truncate:
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, head.rotated - 1)
    theta = head.grid()
    ramp = np.clip((np.arange(len(theta)) - low) / (high - low or 0.001), 0.0, 1.0)
    return np.asarray(theta / factor * ramp + theta * (1 - ramp))


def longrope(
    head: Head,
    *,
    factor: float,
    original: int,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
    attention_factor: float = 0.0,
) -> Rotation:
    """Each frequency over its own factor (Ding et al., 2024), the long ones beyond `original`.

    The attention factor, unless given, is sqrt(1 + ln factor / ln original), or 1 where factor is
    at most 1.
    """
    theta = head.grid()
    check_factors("short_factor", short_factor, len(theta))
    check_factors("long_factor", long_factor, len(theta))
    if attention_factor == 0:
        check_count("original", original, minimum=2)
        attention_factor = sqrt(1 + log(factor) / log(original)) if factor > 1 else 1.0
    factors = long_factor if head.length > original else short_factor
    return theta / np.array(factors), attention_factor


def llama3(
    head: Head,
    *,
    factor: float,
    original: int,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
) -> Rotation:
    """By turns n over the original length (Llama 3.1): kept above high, over factor below low.

    Between them theta (t + (1 - t) / factor) with t = (n - low) / (high - low); nothing is between
    where both are the same (Llama 4).
    """
    theta = head.grid()
    turns = original * theta / (2 * pi)
    t = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor or 1.0)
    blended = (1 - t) * theta / factor + t * theta
    unscaled, scaled = turns > high_freq_factor, turns < low_freq_factor
    return np.where(scaled, theta / factor, np.where(unscaled, theta, blended)), 1.0


def original_of_llama3(params: Mapping[str, Any]) -> int | None:
    """The length before the scaling whose divisors rope_freqs holds; None: no llama3 scaling.

    With 1 and 4 for its limits, as in all published models: the blended pairs give it.
    """
    head = Head(params["d"], params["rho"], params["partial"], 1)
    ratios, factor = 1 / np.array(params["factors"]), max(params["factors"])
    blended = (ratios < 1) & (ratios > 1.001 / factor)
    if not blended.any():
        return None
    turns = 1 + 3 * (ratios[blended] - 1 / factor) / (1 - 1 / factor)
    original = round(np.median(turns * 2 * pi / head.grid()[blended]))
    frequencies, _ = llama3(head, factor=factor, original=original)
    return original if np.allclose(frequencies, head.grid() * ratios, rtol=1e-4, atol=0) else None


def proportional(head: Head, *, factor: float = 1.0) -> Rotation:
    """p-RoPE (Barbero et al., 2024): on the full head's grid the lowest frequencies are zero."""
    theta = Head(head.d, head.rho, 1.0, head.length).grid()
    theta[int(head.partial * head.d // 2) :] = 0.0
    return theta / factor, 1.0


def by_factors(head: Head, *, factors: tuple[float, ...]) -> Rotation:
    """Each frequency over its own factor at every length: what llama.cpp keeps as rope_freqs."""
    theta = head.grid()
    check_factors("factors", factors, len(theta))
    return theta / np.array(factors), 1.0


def check_factors(key: str, values: tuple[float, ...], pairs: int) -> None:
    """Refuse factors that are not as many as pairs turn, or not above 0."""
    if len(values) != pairs:
        raise PefourierError(
            f"{key} needs {pairs} numbers, one per rotated pair; got {len(values)}"
        )
    for value in values:
        check_above(key, value)


def cut(head: Head, *, original: int) -> Rotation:
    r"""Pairs that complete no turn in training stand still: below 2 pi / L frequencies are zero.

    As FoPE (Hua et al., 2024, arXiv 2412.17739) and HoPE (Chen et al., 2024, arXiv 2410.21216) have
    it; p-RoPE cuts a share of the pairs in place of these, see `proportional`, clipped RoPE slows
    a number of them, see `clip`.
    """
    theta = head.grid()
    return np.where(theta * original < 2 * pi, 0.0, theta), 1.0


def clip(head: Head, *, clipped: int = 20) -> Rotation:
    r"""Clipped RoPE (2026, arXiv 2602.05258): the last n = `clipped` frequencies fade to zero.

    Frequency k of them, k = 0 … n - 1, times :math:`(1 + \cos(\pi k / (n - 1))) / 2`: the first is
    kept. The authors' code has n = 20; of a head with fewer pairs it takes all.
    """
    theta = head.grid()
    count = min(clipped, len(theta))
    theta[len(theta) - count :] *= (1 + np.cos(np.linspace(0, pi, count))) / 2
    return theta, 1.0


def riflex(head: Head, *, factor: float, original: int, repeat: int) -> Rotation:
    r"""RIFLEx (Zhao et al., 2025, arXiv 2502.15894): the pair that makes videos repeat is slowed.

    Of the wavelengths :math:`2\pi/\omega_i` the one nearest to `repeat`, the frames after which
    content was seen to repeat, becomes the length asked for, factor times original; a pair that is
    slower already stays. The authors' code takes 0.9 of that frequency.
    """
    theta = head.grid()
    k = int(np.abs(2 * pi / theta - repeat).argmin())
    theta[k] = min(theta[k], 2 * pi / (original * factor))
    return theta, 1.0


Extension = Literal["linear", "ntk", "dynamic", "yarn", "longrope", "llama3"]
Scaling = Literal["none", Extension, "proportional", "cut", "clip", "riflex", "factors"]
SCALINGS: dict[str, Callable[..., Rotation]] = {
    "none": unscaled,
    "linear": linear,
    "ntk": ntk,
    "dynamic": dynamic,
    "yarn": yarn,
    "longrope": longrope,
    "llama3": llama3,
    "proportional": proportional,
    "cut": cut,
    "clip": clip,
    "riflex": riflex,
    "factors": by_factors,
}


def scaling_parameters(scaling: str) -> dict[str, inspect.Parameter]:
    """Parameters of a scaling, beyond those every rotation has, with the types they are read as.

    >>> scaling_parameters("yarn")["mscale"].annotation
    <class 'float'>
    """
    given = inspect.signature(SCALINGS[scaling]).parameters.items()
    parameters = {key: parameter for key, parameter in given if key != "head"}
    for key, parameter in parameters.items():
        if parameter.annotation == float | None:
            parameters[key] = parameter.replace(annotation=float)
    return parameters


def complete_settings(scaling: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a scaling: as set or default; None and () stand for not set."""
    if scaling not in SCALINGS:
        raise unknown("scaling", scaling, SCALINGS)
    values = {}
    for key, parameter in scaling_parameters(scaling).items():
        value = settings.get(key)
        values[key] = parameter.default if value is None or value == () else value
        if values[key] is inspect.Parameter.empty:
            raise PefourierError(f"scaling={scaling} needs {key}; write {key}=…")
        if key in ABOVE_ZERO:
            check_above(key, values[key])
        if key in ("original", "repeat", "clipped"):
            check_count(key, values[key])
    return values


def remarks_on(settings: dict[str, Any], length: int) -> tuple[Finding, ...]:
    """What is legal in the parameters of a scaling and yet worth a word."""
    remarks = []
    if settings.get("factor", 1.0) < 1:
        remarks.append(finding("rope-factor", factor=settings["factor"]))
    for high, low in (("beta_fast", "beta_slow"), ("high_freq_factor", "low_freq_factor")):
        if high in settings and settings[high] < settings[low]:
            limits = {"high": high, "low": low, "values": (settings[high], settings[low])}
            remarks.append(finding("rope-order", **limits))
    if "long_factor" in settings and length > settings["original"]:
        remarks.append(finding("rope-long-factor", length=length, original=settings["original"]))
    return tuple(remarks)


def scale_frequencies(scaling: str, head: Head, settings: Mapping[str, Any]) -> Rotation:
    """Frequencies and attention factor of a scaling, refused where no number holds phases."""
    check_above("rho", head.rho)
    with np.errstate(all="ignore"):
        frequencies, attention = SCALINGS[scaling](head, **settings)
    check_above("attention_factor", attention)
    if not len(frequencies):
        raise PefourierError(
            f"partial={head.partial:g} with scaling={scaling} rotates none of {head.d} dimensions"
        )
    if not np.abs(frequencies).max() <= LOST:
        raise PefourierError(
            f"rho={head.rho:g} with scaling={scaling} gives a frequency of {frequencies.max():.3g} "
            f"radians a position, above {LOST:g}; a base is 1 or more, 10000 mostly"
        )
    return frequencies, float(attention)


def logits_gain(mscale: float, factor: float, label: str = "a scaling") -> float:
    """What DeepSeek's layers multiply their logits with: (0.1 m ln factor + 1)^2.

    >>> logits_gain(1.0, 40.0)
    1.8738542070926265
    """
    root = 0.1 * mscale * log(factor) + 1
    gain = root * root  # inf where that overflows, unlike a power
    check_above(f"(0.1 mscale_all_dim ln factor + 1)^2 of {label}", gain)
    return gain


def rotation_of(settings: Mapping[str, Any], length: int) -> Rotation:
    """Frequencies, and the factor before the waves by the scaling's formula, of `rope`'s settings.

    A setting of the scaling that is None or not there is left to its default.

    >>> settings = {"d": 4, "rho": 100.0, "partial": 1.0, "scaling": "linear", "factor": 4.0}
    >>> rotation_of(settings, 80)
    (array([0.25 , 0.025]), 1.0)
    """
    chosen = complete_settings(settings["scaling"], {**settings, "attention_factor": None})
    head = Head(settings["d"], settings["rho"], settings["partial"], length)
    return scale_frequencies(settings["scaling"], head, chosen)


def rotation_if_any(settings: Mapping[str, Any], length: int) -> Rotation | None:
    """The same; None where settings lack what their scaling needs, or are refused."""
    try:
        return rotation_of(settings, length)
    except PefourierError:
        return None


def refuse_unused(scaling: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings of other scalings; None and () stand for not set."""
    for key in settings.keys() - scaling_parameters(scaling).keys():
        if settings[key] not in (None, ()):
            users = [name for name in SCALINGS if key in scaling_parameters(name)]
            raise PefourierError(
                f"scaling={scaling} does not use {key}={shown(settings[key])}; leave it out or "
                f"choose scaling={' or '.join(users)}"
            )


def turning_share(turned: float, d: float) -> float:
    """The share of a head of which so many dimensions turn, int(share d).

    >>> turning_share(64, 128), int(22 * turning_share(15, 22)), int(22 * (15 / 22))
    (0.5, 15, 14)
    """
    share = turned / d
    return share if int(share * d) == turned else nextafter(share, 2.0)


def check_head(name: str, d: int, partial: float) -> None:
    """Refuse heads that cannot be turned in pairs."""
    if d % 2 and int(d * partial) == d:
        raise PefourierError(f"{name} turns pairs of dimensions and needs an even d; got d={d}")
    if int(d * partial) < 2:
        raise PefourierError(f"partial={partial:g} of d={d} leaves no pair of dimensions to rotate")


@encoding("rope", "Su et al., 2021", declared=True)
def rope(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    layout: Layout = "halves",
    partial: float = 1.0,
    scaling: Scaling = "none",
    inv_freq: Floats | None = None,
    **settings: Any,
) -> ShiftInvariantEncoding:
    """Rotary positions (Su et al., 2021): cosines and sines of s rho^(-2i/d), d the head size.

    With frequencies ω_i and attention factor a of the scaling, codes are a cos ω_i s and
    a sin ω_i s, the numbers a model multiplies with.

    Parameters
    ----------
    rho : float
        Base of the frequencies (rope_theta): the larger, the slower the slowest wave.
    layout : str
        halves (Hugging Face's Llama) or interleaved (GPT-J): where the sine of a pair stands. Inner
        products do not depend on it.
    partial : float
        Share of d that is rotated, r = int(partial d) dimensions. Codes have columns for these
        only, as the model's cosines and sines do: the others carry no position. With
        scaling=proportional all of d has codes, constant (1, 0) where the frequency is 0.
    scaling : str
        none, or an extension of the context. Each has its own parameters, see `SCALINGS`:
        linear: factor; ntk: factor; dynamic: factor, original; yarn: factor, original, beta_fast,
        beta_slow, truncate, mscale, mscale_all_dim, attention_factor; longrope: factor, original,
        short_factor, long_factor, attention_factor; llama3: factor, original, low_freq_factor,
        high_freq_factor; proportional: factor; cut: original; clip: clipped;
        riflex: factor, original, repeat; factors: factors.
    inv_freq : array
        Frequencies in radians per position, one per rotated pair, as models and engines keep them:
        FILE[#ARRAY], a vector. They stand for base and scaling, and set d.
    factor : float
        How many times longer the context becomes.
    original : int
        Context length of training.
    beta_fast, beta_slow : float
        yarn: pairs that turn more often over `original` are kept, those that turn less divided.
    truncate : bool
        yarn: whether the limits of its ramp are rounded outwards to whole pairs.
    mscale, mscale_all_dim : float
        yarn: make the attention factor where both are given; 0 stands for not given.
    attention_factor : float
        Factor before cosines and sines; 0 leaves it to the scaling.
    short_factor, long_factor : tuple of float
        longrope: a divisor for each pair, up to `original` positions and beyond.
    low_freq_factor, high_freq_factor : float
        llama3: turns over `original` below which a pair is divided, above which it is kept.
    factors : tuple of float
        factors: a divisor for each pair, as llama.cpp's rope_freqs has them.
    clipped : int
        clip: how many of the slowest pairs fade out.
    repeat : int
        riflex: positions after which content was seen to repeat beyond `original`.

    Examples
    --------
    >>> rope(2, 4).table().round(3)
    array([[1.   , 1.   , 0.   , 0.   ],
           [0.54 , 1.   , 0.841, 0.01 ]])
    >>> rope(2, 128, scaling="yarn", factor=16.0, original=4096).params["attention_factor"]
    1.2772588722239782
    """
    if not 0 < partial <= 1:
        raise PefourierError(f"partial is the share of d to rotate, in (0, 1]; got {partial}")
    params = complete_settings(scaling, settings)
    refuse_unused(scaling, settings)
    if inv_freq is None:
        check_head("rope", d, partial)
        frequencies, attention = scale_frequencies(scaling, Head(d, rho, partial, length), params)
    else:
        frequencies, attention = given_frequencies(inv_freq, rho, scaling), 1.0
        params |= {"rho": base_of(frequencies), "d": round(2 * len(frequencies) / partial)}
        params |= {"inv_freq": tuple(frequencies.tolist())}
    stored = np.array(params.get("factors", []) if inv_freq is None else frequencies)
    single = len(stored) > 0 and (np.float32(stored) == stored).all()
    pairs = len(frequencies)
    measure = equal_pairs(frequencies, amplitude=attention)

    def codes(x: NDArray[Any]) -> Floats:
        return attention * waves(measure.phases(x), layout, first="cos")

    return ShiftInvariantEncoding(
        "rope",
        positions(length),
        2 * pairs,
        codes,
        measure=measure,
        injection="rotate",
        params={**params, "attention_factor": attention, "rotated": 2 * pairs},
        eps=FLOAT32_EPS if single else FLOAT64_EPS,
        findings=remarks_on(params, length),
    )


def given_frequencies(inv_freq: Floats, rho: float, scaling: str) -> Floats:
    """Frequencies (m,) in place of a formula, refused beside one."""
    frequencies = np.asarray(inv_freq, dtype=float)
    if (rho, scaling) != (10000.0, "none"):
        raise PefourierError("inv_freq stands for base and scaling; leave out rho and scaling")
    if frequencies.ndim != 1 or not 0 < len(frequencies) <= WIDEST // 2:
        raise PefourierError(f"inv_freq is a vector, one number a pair; got {frequencies.shape}")
    if not np.isfinite(frequencies).all():
        raise PefourierError(
            f"inv_freq holds {frequencies[~np.isfinite(frequencies)][0]}; frequencies are finite"
        )
    return frequencies


def base_of(frequencies: Floats) -> float | None:
    """The shortest base whose grid some frequencies are, to rounding as in float32; None: no base.

    >>> base_of(np.float32(5e5) ** -(np.arange(64, dtype=np.float32) / 64))
    500000.0
    """
    pairs = len(frequencies)
    if pairs < 2 or (frequencies <= 0).any() or abs(frequencies[0] - 1) > 2e-6:
        return None  # a grid begins at 1
    steps = np.arange(pairs) / pairs
    rate = -np.log(frequencies[-1]) / steps[-1]
    for digits in range(17):
        rho = float(f"{np.exp(rate):.{digits}e}")
        if np.allclose(rho**-steps, frequencies, rtol=2e-6, atol=0):
            return rho
    return None


def full_signature(function: Callable[..., Encoding]) -> inspect.Signature:
    """The signature of `rope` with the parameters of every scaling, None where not given."""
    signature = inspect.signature(function)
    parameters: dict[str, inspect.Parameter] = {}
    for scaling in SCALINGS:
        parameters |= scaling_parameters(scaling)
    common = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    return signature.replace(
        parameters=[*common, *(p.replace(default=None) for p in parameters.values())]
    )


rope.__signature__ = full_signature(rope)  # type: ignore[attr-defined]


@encoding("xpos", "Sun et al., 2022, Eq. 12", declared=True)
def xpos(
    length: int, d: int, *, rho: float = 10000.0, layout: Layout = "halves", span: float = XPOS_SPAN
) -> Encoding:
    """Rotary positions with decay (Sun et al., 2022): the codes of queries.

    Pair i has ζ_i^(s/span) before cosine and sine of s ρ^(−2i/d), ζ_i = (2i/d + 0.4)/1.4. Keys have
    the inverse factor, so that the model's products depend on the lag; the inner product of two
    such codes does not.

    Parameters
    ----------
    rho : float
        Base of the frequencies: the larger, the slower the slowest wave.
    layout : str
        interleaved: sine and cosine of a frequency side by side; halves: sines, then cosines.
    span : float
        Positions over which the decay acts once.

    Examples
    --------
    >>> xpos(2, 4, span=1.0).table().round(3)
    array([[1.   , 1.   , 0.   , 0.   ],
           [0.154, 0.643, 0.24 , 0.006]])
    """
    check_head("xpos", d, 1.0)
    check_above("span", span)
    plain = rope(length, d, rho=rho, layout=layout)
    zeta = (2 * np.arange(d // 2) / d + XPOS_GAMMA) / (1 + XPOS_GAMMA)

    def codes(x: NDArray[Any]) -> NDArray[np.floating]:
        with np.errstate(all="ignore"):  # what overflows is refused when built
            decay = zeta ** (np.asarray(x, dtype=float)[:, None] / span)
        table = plain.codes(x)
        for part in split_pairs(table, layout):
            np.multiply(part, decay, out=part)
        return table

    measure = Measure(plain.measure.frequencies, plain.measure.weights)
    return with_measure(replace(plain, name="xpos", codes=codes, params={}), measure)


@encoding("rope++", "Liu et al., 2025, arXiv 2512.07525", declared=True)
def rope_imaginary(
    length: int, d: int, *, rho: float = 10000.0, layout: Layout = "halves", partial: float = 1.0
) -> Encoding:
    """The heads that RoPE++ adds to those of rope: their scores have the sine of the lag.

    Queries are turned a quarter less than keys, so that pair i has sin ω_i(s − t) where rope has
    the cosine. Codes are those of queries, of phases ω_i s − π/2; inner products of two are rope's.

    Parameters
    ----------
    rho : float
        Base of the frequencies: the larger, the slower the slowest wave.
    layout : str
        halves or interleaved: where the sine of a pair stands.
    partial : float
        Share of d that is rotated, as rope has it.

    Examples
    --------
    >>> rope_imaginary(2, 4).table().round(3)
    array([[ 0.   ,  0.   , -1.   , -1.   ],
           [ 0.841,  0.01 , -0.54 , -1.   ]])
    """
    plain = rope(length, d, rho=rho, layout=layout, partial=partial)

    def codes(x: NDArray[Any]) -> Floats:
        return waves(plain.measure.phases(x) - pi / 2, layout, first="cos")

    return replace(plain, name="rope++", codes=codes)


@encoding(
    "grape", "Zhang et al., 2025, arXiv 2512.07805 (before training)", declared=True, untrained=True
)
def grape(length: int, d: int, *, rho: float = 10000.0, inv_freq: Floats | None = None) -> Encoding:
    """GRAPE where its planes commute: rope with learned frequencies, turned the other way.

    The authors' code keeps rope's planes (halves), learns a frequency for each from rope's on, and
    turns the other way: codes are cos ω_i s, − sin ω_i s. The additive part of GRAPE is `alibi`;
    with planes made from tokens it has no table.

    Parameters
    ----------
    rho : float
        Base of the frequencies that training starts from.
    inv_freq : array
        Learned frequencies, the exponentials of log_freq: FILE[#ARRAY], a vector; sets d.

    Examples
    --------
    >>> grape(2, 4).table().round(3)
    array([[ 1.   ,  1.   ,  0.   ,  0.   ],
           [ 0.54 ,  1.   , -0.841, -0.01 ]])
    """
    plain = rope(length, d, rho=rho, inv_freq=inv_freq)
    measure = replace(plain.measure, frequencies=-plain.measure.frequencies)

    def codes(x: NDArray[Any]) -> NDArray[np.floating]:
        return plain.codes(-np.asarray(x, dtype=float))

    return replace(plain, name="grape", measure=measure, codes=codes)


@encoding("pope", "Gopalakrishnan et al., 2025, arXiv 2509.10534", declared=True)
def pope(length: int, d: int, *, rho: float = 10000.0) -> Encoding:
    """Polar positions (PoPE): each dimension of a head has a frequency and gives two numbers.

    Scores are sums over dimensions c = 0 … d − 1 of softplus(q_c) softplus(k_c) cos ω_c(t − s) with
    ω_c = ρ^(−c/d): what a query says and where it stands don't mix. Codes are cos ω_c s, sin ω_c s,
    2d numbers. A learned phase for each c turns keys; it starts at 0 and is left out.

    Parameters
    ----------
    rho : float
        Base of the frequencies: the larger, the slower the slowest wave.

    Examples
    --------
    >>> pope(2, 2).table().round(3)
    array([[1.   , 1.   , 0.   , 0.   ],
           [0.54 , 1.   , 0.841, 0.01 ]])
    """
    return replace(rope(length, 2 * d, rho=rho), name="pope", params={"d": 2 * d, "head": d})


def columns_that_turn(enc: DeclaredEncoding) -> Columns:
    """First and second columns of the pairs of a rotation, in the order of its phases."""
    layout, sizes = enc.params.get("layout", "halves"), [enc.dim // 2]
    if layout == "axis-halves" and len(enc.domain.sides) > 1:
        axis = np.argmax(enc.measure.frequencies != 0, axis=1)
        sizes = np.diff(np.flatnonzero(np.diff(axis, prepend=-1, append=-1))).tolist()
    return columns_of_blocks(layout, sizes)
