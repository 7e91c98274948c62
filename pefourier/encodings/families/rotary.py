"""Encodings that rotate queries and keys; the vector of a position holds the cosines and sines.

Conventions
-----------
Angular frequencies are in radians per position, one per pair of dimensions, in the order of the
model's inverse frequencies. A scaling is a function of a `Head` and further parameters; it returns
the frequencies and the attention factor, which multiplies cosines and sines. `SCALINGS` lists all
scalings. ``rope`` accepts the parameters of the chosen scaling and refuses those of others.
Formulas follow the published source code (Hugging Face transformers, ``modeling_rope_utils.py``),
in float64. FoPE rotates by sums of frequencies.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from math import ceil, floor, log, nextafter, pi, sqrt
from typing import Any, Literal

import numpy as np

from pefourier.encodings.encoding import (
    FLOAT32_EPS,
    FLOAT64_EPS,
    Encoding,
    Findings,
    Layout,
    Measure,
    equal_pairs,
    finding,
    positions,
    split_pairs,
    waves,
)
from pefourier.encodings.families.absolute import (
    TemperatureRule,
    base_of,
    geometric_frequencies,
    stream,
    temperature_settings,
)
from pefourier.encodings.registry import encoding, with_parameters
from pefourier.errors import (
    WIDEST,
    PefourierError,
    check_above,
    check_count,
    check_size,
    shown,
    unknown,
)
from pefourier.types import Array, Fields, Floats, Reals, Table, Values, frozen

XPOS_GAMMA, XPOS_SPAN = 0.4, 512.0  # Sun et al., 2022: Eq. 12 and the authors' source code
ABOVE_ZERO = {"factor", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor"}
LOST = 1e12  # radians per position; at position 1000, phases have errors of 0.1 radians
Rotation = tuple[Floats, float]  # frequencies in radians per position, attention factor


@frozen
class Head:
    """The dimensions of one attention head, and the sequence length."""

    d: int
    rho: float
    partial: float  # share of d that is rotated
    length: int

    @property
    def rotated(self) -> int:
        """Rotated dimensions, which define the frequencies; odd numbers are rounded up to pairs."""
        return int(self.d * self.partial)

    def grid(self, stretch: float = 1.0) -> Floats:
        """Frequencies (stretch rho)^(-2i/rotated), shape (pairs,)."""
        return geometric_frequencies(
            self.rotated, self.rho * stretch, count=(self.rotated + 1) // 2
        )

    def stretched(self, ratio: float) -> Floats:
        """Frequencies of base rho ratio^(r/(r-2)): the first unchanged, the last over ratio."""
        if self.rotated < 4:
            raise PefourierError(
                f"this scaling needs at least 4 rotated dimensions; got {self.rotated}"
            )
        return self.grid(np.float64(ratio) ** (self.rotated / (self.rotated - 2)))


def unscaled(head: Head) -> Rotation:
    """Frequencies as in training (Su et al., 2021)."""
    return head.grid(), 1.0


def linear(head: Head, *, factor: float) -> Rotation:
    """Position interpolation (Chen et al., 2023): every frequency divided by factor."""
    return head.grid() / factor, 1.0


def ntk(head: Head, *, factor: float) -> Rotation:
    """NTK-aware base rho factor^(r/(r-2)) for r rotated dimensions (bloc97, 2023)."""
    return head.stretched(factor), 1.0


def dynamic(head: Head, *, factor: float, original: int) -> Rotation:
    """NTK-aware with ratio factor L'/L - (factor - 1), L' the larger of length and original L."""
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
    r"""NTK by parts (Peng et al., 2023), as in the published source code.

    Pair :math:`c(n) = r \ln(L/2\pi n) / 2\ln\rho` completes n rotations over the original length L.
    Frequencies are unchanged up to c(beta_fast), divided by factor from c(beta_slow), and blended
    between them, linearly in the *index of the pair* (in the paper: in the number of rotations).
    With `truncate`, the limits are rounded outwards. The attention factor is `attention_factor` if
    given, the quotient of 0.1 m ln factor + 1 for m = mscale and m = mscale_all_dim if both are
    given, or else 0.1 ln factor + 1. Zero means not given.
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
    """Frequencies of YaRN, blended between pairs with beta_fast and beta_slow full rotations.

    >>> frequencies = blend_by_parts(Head(128, 1e4, 1.0, 1), 4.0, 4096)
    >>> np.flatnonzero(np.diff(frequencies / Head(128, 1e4, 1.0, 1).grid()))[[0, -1]].tolist()
    [20, 45]
    """
    check_above("rho", head.rho, 1.0)
    low, high = (
        head.rotated * (log(original / (2 * pi)) - log(rotations)) / (2 * log(head.rho))
        for rotations in (beta_fast, beta_slow)
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
    short_factor: Reals,
    long_factor: Reals,
    attention_factor: float = 0.0,
) -> Rotation:
    """Divide each frequency by a separate factor (Ding et al., 2024), long beyond `original`.

    The default attention factor is sqrt(1 + ln factor / ln original), or 1 if factor is at most 1.
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
    """Scale pairs by their n rotations over the original length (Llama 3.1).

    Frequencies are unchanged if n > high and divided by factor if n < low. Between, they are
    theta (t + (1 - t) / factor) with t = (n - low) / (high - low). Llama 4 has low = high.
    """
    theta = head.grid()
    rotations = original * theta / (2 * pi)
    t = (rotations - low_freq_factor) / (high_freq_factor - low_freq_factor or 1.0)
    blended = (1 - t) * theta / factor + t * theta
    unscaled, scaled = rotations > high_freq_factor, rotations < low_freq_factor
    return np.where(scaled, theta / factor, np.where(unscaled, theta, blended)), 1.0


def original_of_llama3(params: Values) -> int | None:
    """Original length of the llama3 scaling that gave rope_freqs; None: another scaling.

    The limits are 1 and 4, as in all published models, and the blended pairs set the length.
    """
    head = Head(params["d"], params["rho"], params["partial"], 1)
    ratios, factor = 1 / np.array(params["factors"]), max(params["factors"])
    blended = (ratios < 1) & (ratios > 1.001 / factor)
    if not blended.any():
        return None
    rotations = 1 + 3 * (ratios[blended] - 1 / factor) / (1 - 1 / factor)
    original = round(np.median(rotations * 2 * pi / head.grid()[blended]))
    frequencies, _ = llama3(head, factor=factor, original=original)
    return original if np.allclose(frequencies, head.grid() * ratios, rtol=1e-4, atol=0) else None


def proportional(head: Head, *, factor: float = 1.0) -> Rotation:
    """p-RoPE (Barbero et al., 2024): frequencies of the full head, with the lowest set to zero."""
    theta = Head(head.d, head.rho, 1.0, head.length).grid()
    theta[int(head.partial * head.d // 2) :] = 0.0
    return theta / factor, 1.0


def by_factors(head: Head, *, factors: Reals) -> Rotation:
    """Divide each frequency by a separate factor at every length, as rope_freqs of llama.cpp."""
    theta = head.grid()
    check_factors("factors", factors, len(theta))
    return theta / np.array(factors), 1.0


def check_factors(key: str, values: Reals, pairs: int) -> None:
    """Refuse a wrong number of factors, and factors that are not above 0."""
    if len(values) != pairs:
        raise PefourierError(
            f"{key} needs {pairs} numbers, one per rotated pair; got {len(values)}"
        )
    for value in values:
        check_above(key, value)


def cut(head: Head, *, original: int) -> Rotation:
    r"""Set frequencies below 2 pi / L to zero: pairs without a full rotation in training.

    This is used in FoPE (Hua et al., 2024, arXiv 2412.17739) and HoPE (Chen et al., 2024, arXiv
    2410.21216). p-RoPE sets a share of the pairs to zero instead, see `proportional`; clipped RoPE
    lowers a fixed number of frequencies, see `clip`.
    """
    theta = head.grid()
    return np.where(theta * original < 2 * pi, 0.0, theta), 1.0


def clip(head: Head, *, clipped: int = 20) -> Rotation:
    r"""Clipped RoPE (2026, arXiv 2602.05258): the last n = `clipped` frequencies fade to zero.

    Frequency k = 0 … n - 1 among these is multiplied by :math:`(1 + \cos(\pi k / (n - 1))) / 2`,
    which leaves the first unchanged. The authors' source code uses n = 20, or all pairs of a
    smaller head.
    """
    theta = head.grid()
    count = min(clipped, len(theta))
    theta[len(theta) - count :] *= (1 + np.cos(np.linspace(0, pi, count))) / 2
    return theta, 1.0


def riflex(head: Head, *, factor: float, original: int, repeat: int) -> Rotation:
    r"""RIFLEx (Zhao et al., 2025, arXiv 2502.15894): lower the frequency that makes videos repeat.

    `repeat` is the number of frames after which content repeats. The wavelength
    :math:`2\pi/\omega_i` nearest to `repeat` becomes the new length, factor times original, unless
    it is longer already. The authors' source code uses 0.9 times that frequency.
    """
    theta = head.grid()
    k = int(np.abs(2 * pi / theta - repeat).argmin())
    theta[k] = min(theta[k], 2 * pi / (original * factor))
    return theta, 1.0


Scaling = Literal[
    "none",
    "linear",
    "ntk",
    "dynamic",
    "yarn",
    "longrope",
    "llama3",
    "proportional",
    "cut",
    "clip",
    "riflex",
    "factors",
]
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
    """Parameters of a scaling, other than those of every rotation, with the types of their text.

    >>> scaling_parameters("yarn")["mscale"].annotation
    <class 'float'>
    """
    given = inspect.signature(SCALINGS[scaling]).parameters.items()
    parameters = {key: parameter for key, parameter in given if key != "head"}
    for key, parameter in parameters.items():
        if parameter.annotation == float | None:
            parameters[key] = parameter.replace(annotation=float)
    return parameters


def complete_settings(scaling: str, settings: Values) -> Fields:
    """All parameters of a scaling, as set or default; None and () mean not set."""
    if scaling not in SCALINGS:
        raise unknown("scaling", scaling, SCALINGS)
    values = {}
    for key, parameter in scaling_parameters(scaling).items():
        value = settings.get(key)
        values[key] = parameter.default if value is None or value == () else value
        if values[key] is inspect.Parameter.empty:
            raise PefourierError(f"scaling={scaling} needs {key}; add {key}=…")
        if key in ABOVE_ZERO:
            check_above(key, values[key])
        if key in ("original", "repeat", "clipped"):
            check_count(key, values[key])
    return values


def remarks_on(settings: Fields, length: int) -> Findings:
    """Findings about legal but unusual parameters of a scaling."""
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


def scale_frequencies(scaling: str, head: Head, settings: Values) -> Rotation:
    """Frequencies and attention factor of a scaling; refuse frequencies too high for float64."""
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
            f"radians per position, above {LOST:g}; use a base of at least 1, usually 10000"
        )
    return frequencies, float(attention)


def logits_gain(mscale: float, factor: float, label: str = "a scaling") -> float:
    """Factor by which DeepSeek's layers multiply logits: (0.1 m ln factor + 1)^2.

    >>> logits_gain(1.0, 40.0)
    1.8738542070926265
    """
    root = 0.1 * mscale * log(factor) + 1
    gain = root * root  # gives inf on overflow, where a power would raise
    check_above(f"(0.1 mscale_all_dim ln factor + 1)^2 of {label}", gain)
    return gain


def rotation_of(settings: Values, length: int) -> Rotation:
    """Frequencies and attention factor for settings of `rope`, by the formula of their scaling.

    Settings of the scaling that are None or missing have their default.

    >>> settings = {"d": 4, "rho": 100.0, "partial": 1.0, "scaling": "linear", "factor": 4.0}
    >>> rotation_of(settings, 80)
    (array([0.25 , 0.025]), 1.0)
    """
    chosen = complete_settings(settings["scaling"], {**settings, "attention_factor": None})
    return scale_frequencies(
        settings["scaling"],
        Head(settings["d"], settings["rho"], settings["partial"], length),
        chosen,
    )


def refuse_unused(scaling: str, settings: Values) -> None:
    """Refuse settings of other scalings; None and () mean not set."""
    for key in settings.keys() - scaling_parameters(scaling).keys():
        if settings[key] not in (None, ()):
            users = [name for name in SCALINGS if key in scaling_parameters(name)]
            raise PefourierError(
                f"scaling={scaling} does not use {key}={shown(settings[key])}; leave it out or "
                f"use scaling={' or '.join(users)}"
            )


def rotated_share(rotated: float, d: float) -> float:
    """Share of a head for which int(share d) is a number of rotated dimensions.

    >>> rotated_share(64, 128), int(22 * rotated_share(15, 22)), int(22 * (15 / 22))
    (0.5, 15, 14)
    """
    share = rotated / d
    return share if int(share * d) == rotated else nextafter(share, 2.0)


def check_head(name: str, d: int, partial: float) -> None:
    """Refuse heads without a whole number of rotated pairs."""
    if d % 2 and int(d * partial) == d:
        raise PefourierError(f"{name} rotates pairs of dimensions and needs an even d; got d={d}")
    if int(d * partial) < 2:
        raise PefourierError(f"partial={partial:g} of d={d} leaves no pair of dimensions to rotate")


@encoding("rope", "Su et al., 2021")
def rope(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    layout: Layout = "halves",
    partial: float = 1.0,
    scaling: Scaling = "none",
    inv_freq: Floats | None = None,
    temperature: TemperatureRule = "none",
    temperature_scale: float = 0.0,
    temperature_floor: int = 0,
    **settings: Any,
) -> Encoding:
    """Rotation of queries and keys by their positions (RoPE, Su et al., 2021); d is the head size.

    Columns are a cos ω_i s and a sin ω_i s, the numbers that multiply queries and keys in a model.
    Frequencies are ω_i = ρ^(−2i/r) for r rotated dimensions, unless a scaling changes them; a is
    the attention factor of the scaling, otherwise 1.

    Parameters
    ----------
    rho : float
        Base of the frequencies (rope_theta); a larger base lowers the lowest frequency.
    layout : str
        Column of the sine of a pair: halves (Hugging Face's Llama) or interleaved (GPT-J). Inner
        products do not depend on it.
    partial : float
        Share of d that is rotated, r = int(partial d) dimensions. Only these have columns, because
        the other dimensions carry no position. With scaling=proportional, all d dimensions have
        columns, constant (1, 0) if the frequency is 0.
    scaling : str
        none, or an extension of the context. The parameters of each scaling are:
        linear: factor; ntk: factor; dynamic: factor, original; yarn: factor, original, beta_fast,
        beta_slow, truncate, mscale, mscale_all_dim, attention_factor; longrope: factor, original,
        short_factor, long_factor, attention_factor; llama3: factor, original, low_freq_factor,
        high_freq_factor; proportional: factor; cut: original; clip: clipped;
        riflex: factor, original, repeat; factors: factors.
    inv_freq : array
        Frequencies in radians per position, one per rotated pair, as stored in models and engines:
        FILE[#ARRAY], a vector. They replace base and scaling, and set d.
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
    factor : float
        Extension factor of the context length.
    original : int
        Context length in training.
    beta_fast, beta_slow : float
        yarn: frequencies of pairs with more than beta_fast rotations over `original` are unchanged;
        those of pairs with fewer than beta_slow rotations are divided by factor.
    truncate : bool
        yarn: whether to round the limits of the blended pairs outwards to whole pairs.
    mscale, mscale_all_dim : float
        yarn: set the attention factor if both are given; 0 means not given.
    attention_factor : float
        Factor of cosines and sines; 0 means that the scaling sets it.
    short_factor, long_factor : tuple of float
        longrope: a divisor for each pair, for up to `original` positions and for more.
    low_freq_factor, high_freq_factor : float
        llama3: frequencies of pairs with fewer than low_freq_factor rotations over `original` are
        divided by factor; those of pairs with more than high_freq_factor rotations are unchanged.
    factors : tuple of float
        factors: a divisor for each pair, as in llama.cpp's rope_freqs.
    clipped : int
        clip: number of the lowest frequencies that fade to zero.
    repeat : int
        riflex: number of positions after which content repeats beyond `original`.

    Examples
    --------
    >>> rope(2, 4).table().round(3)
    array([[1.   , 1.   , 0.   , 0.   ],
           [0.54 , 1.   , 0.841, 0.01 ]])
    >>> rope(2, 128, scaling="yarn", factor=16.0, original=4096).params["attention_factor"]
    1.2772588722239782
    """
    if not 0 < partial <= 1:
        raise PefourierError(f"partial, the rotated share of d, must be in (0, 1]; got {partial}")
    params = complete_settings(scaling, settings)
    refuse_unused(scaling, settings)
    if inv_freq is None:
        check_head("rope", d, partial)
        frequencies, attention = scale_frequencies(scaling, Head(d, rho, partial, length), params)
    else:
        frequencies, attention = np.asarray(inv_freq, dtype=float), 1.0
        if (rho, scaling) != (10000.0, "none"):
            raise PefourierError("inv_freq replaces base and scaling; leave out rho and scaling")
        if frequencies.ndim != 1 or not 0 < len(frequencies) <= WIDEST // 2:
            raise PefourierError(
                f"inv_freq must be a vector, one number per pair; got shape {frequencies.shape}"
            )
        if not np.isfinite(frequencies).all():
            odd = frequencies[~np.isfinite(frequencies)][0]
            raise PefourierError(f"inv_freq must be finite; got {odd}")
        params |= {"rho": base_of(frequencies), "d": round(2 * len(frequencies) / partial)}
        params |= {"inv_freq": tuple(frequencies.tolist())}
    stored = np.array(params.get("factors", []) if inv_freq is None else frequencies)
    single = len(stored) > 0 and (np.float32(stored) == stored).all()
    params |= temperature_settings(temperature, temperature_scale, temperature_floor)
    measure = equal_pairs(frequencies, amplitude=attention)
    return Encoding(
        "rope",
        positions(length),
        2 * len(frequencies),
        lambda x: attention * waves(measure.phases(x), layout, first="cos"),
        measure=measure,
        injection="rotate",
        params={**params, "attention_factor": attention, "rotated": 2 * len(frequencies)},
        eps=FLOAT32_EPS if single else FLOAT64_EPS,
        findings=remarks_on(params, length),
    )


every = {key: p for scaling in SCALINGS for key, p in scaling_parameters(scaling).items()}
with_parameters(rope, (p.replace(default=None) for p in every.values()))  # None means unset


@encoding("xpos", "Sun et al., 2022, Eq. 12")
def xpos(
    length: int, d: int, *, rho: float = 10000.0, layout: Layout = "halves", span: float = XPOS_SPAN
) -> Encoding:
    """Rotary positions with decay (Sun et al., 2022): the vectors of queries.

    In pair i, the cosine and sine of s ρ^(−2i/d) have the factor ζ_i^(s/span), where
    ζ_i = (2i/d + 0.4)/1.4. Keys have the inverse factor, which makes the model's products depend
    only on the lag; inner products of two of these vectors do not.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    layout : str
        interleaved: cosine and sine of a frequency adjacent; halves: all cosines, then all sines.
    span : float
        Number of positions over which a pair decays by ζ_i.

    Examples
    --------
    >>> xpos(2, 4, span=1.0).table().round(3)
    array([[1.   , 1.   , 0.   , 0.   ],
           [0.154, 0.643, 0.24 , 0.006]])
    """
    check_head("xpos", d, 1.0)
    plain = rope(length, d, rho=rho, layout=layout)
    zeta = (2 * np.arange(d // 2) / d + XPOS_GAMMA) / (1 + XPOS_GAMMA)

    def vectors(x: Array) -> Table:
        with np.errstate(all="ignore"):  # overflow is refused when the encoding is built
            decay = zeta ** (np.asarray(x, dtype=float)[:, None] / span)
        table = plain.vectors(x)
        for part in split_pairs(table, layout):
            np.multiply(part, decay, out=part)
        return table

    return replace(
        plain,
        name="xpos",
        vectors=vectors,
        params={},
        measure=Measure(plain.measure.frequencies, plain.measure.weights),
    )


@encoding("rope++", "Liu et al., 2025, arXiv 2512.07525")
def rope_imaginary(
    length: int, d: int, *, rho: float = 10000.0, layout: Layout = "halves", partial: float = 1.0
) -> Encoding:
    """The additional heads of RoPE++, with attention scores by the sine of the lag.

    Queries are rotated by π/2 less than keys: pair i has sin ω_i(s − t) where rope has the cosine.
    The vectors are those of queries, with phases ω_i s − π/2; their inner products equal rope's.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    layout : str
        Column of the sine of a pair: halves or interleaved.
    partial : float
        Share of d that is rotated, as in rope.

    Examples
    --------
    >>> rope_imaginary(2, 4).table().round(3)
    array([[ 0.   ,  0.   , -1.   , -1.   ],
           [ 0.841,  0.01 , -0.54 , -1.   ]])
    """
    plain = rope(length, d, rho=rho, layout=layout, partial=partial)
    return replace(
        plain,
        name="rope++",
        vectors=lambda x: waves(plain.measure.phases(x) - pi / 2, layout, first="cos"),
    )


@encoding("fope", "Hua et al., 2024, arXiv 2412.17739")
def fope(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    original: int = 512,
    gain: float = 0.3,
    seed: int = 0,
) -> Encoding:
    """Fourier position embedding (FoPE): each pair of rope becomes a sum of all frequencies.

    Frequencies ω_k = ρ^(−2k/d) below 2π/L are set to 0. The cosine of pair m is Σ_k C_km cos ω_k s,
    its sine Σ_k S_km sin ω_k s. C and S are the identity plus random numbers, Xavier normal with
    `gain`. These sums are not rotations: norms of queries and keys change, and scores depend on
    more than the lag. With gain=0, fope is rope:scaling=cut.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    original : int
        L, the context length in training: 512 or 1024 in the authors' configs.
    gain : float
        Gain of the random numbers: 0.3, 0.4 and 0.6 in the authors' models of 60 million, 180
        million and 1.2 billion parameters. Here their standard deviation is gain/√m for m pairs.
        The authors' listing draws (heads, in, out) numbers at once, of standard deviation
        gain·√(2/((in + heads)·out)), keeps min(in, d/4) of the sums, divides them by the sums of
        their columns, and fills the other cosines and sines with 1.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> fope(2, 64, gain=0.0).measure.frequencies[15:17].round(8)
    array([0.01333521, 0.        ])
    """
    plain = rope(length, d, rho=rho, scaling="cut", original=original)
    settings = {**plain.params, "partial": 1.0, "layout": "halves"}
    plain = replace(plain, name="fope", params=settings)
    if gain == 0:
        return replace(plain, params={**settings, "scaling": "cut"})
    check_size("fope", 2, d // 2, d // 2)
    c, s = sums_of_frequencies(d // 2, gain, seed)

    def vectors(x: Array) -> Floats:
        cosines, sines = np.split(plain.vectors(x), 2, axis=1)
        return np.hstack([cosines @ c, sines @ s])

    omega, energy = plain.measure.frequencies, (c**2 + s**2).sum(axis=1)
    constant = c[omega == 0]  # cosines of frequency 0 add up before they are squared
    energy[omega == 0] = 2 * (constant.sum(axis=0) ** 2).sum() / max(len(constant), 1)
    return replace(plain, vectors=vectors, measure=Measure(omega, energy / energy.sum()))


def sums_of_frequencies(pairs: int, gain: float, seed: int) -> Floats:
    """Matrices C and S of FoPE, shape (2, frequencies, pairs).

    >>> sums_of_frequencies(2, 0.5, 0).round(3)[0]
    array([[1.624, 0.141],
           [0.346, 1.792]])
    """
    return np.eye(pairs) + gain / sqrt(pairs) * stream(seed).normal(size=(2, pairs, pairs))
